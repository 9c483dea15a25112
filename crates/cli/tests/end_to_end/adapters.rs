//! `examples/adapters/`: profiles of public comparisons, run with wrkbench.

use std::process::Command;

use origin::{Options, Recipe};
use serde_json::Value;
use testkit::{Folder, Output, Process, require};

use crate::harness::{Site, site_with};

const ADAPTERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/adapters");

/// Profiles in the form of HttpArena.
const PROFILES: &str = r#"declare -A PROFILES=(
    [baseline]="1|10|0-3|4|"
    [pipelined]="16|0||4|pipeline"
    [api]="1|5|0-3|8|api-4"
    [crud]="1|0|1-3|4|crud"
    [json-h2c]="1|0||2,3|json-h2c"
    [unary-grpc]="1|0||2|grpc"
    [far]="1|0||4|h3"
    [cut]="1|0|4"
)
"#;

const GET: &str = "GET /sum?a=1&b=2 HTTP/1.1\r\nHost: x\r\n\r\n";
const CHUNKED: &str = "POST /sum HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \
                       chunked\r\n\r\n2\r\n20\r\n0\r\n\r\n";
const COUNTED: &str = "POST /sum HTTP/1.1\r\nHost: x\r\nX-A: b\r\nContent-Length: 2\r\n\r\n20";
const ITEM: &str = "GET /items/{RAND:70:71} HTTP/1.1\r\nHost: x\r\n\r\n";
const NEW_ITEM: &str =
    "POST /items HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{\"id\":{SEQ:501}}";

/// A clone of HttpArena with what the adapter reads.
fn arena() -> Folder {
    let folder = Folder::new();
    for name in ["scripts/lib", "requests", "frameworks/own"] {
        folder.folder(name);
    }
    folder.file_with("scripts/lib/profiles.sh", PROFILES);
    folder.file_with(
        "frameworks/own/meta.json",
        r#"{"display_name": "Own", "language": "C"}"#,
    );
    for (name, request) in [
        ("get", GET),
        ("post_chunked", CHUNKED),
        ("post_cl", COUNTED),
        ("json-get", GET),
        ("async-db-get", GET),
        ("crud-get-1", ITEM),
        ("crud-list-1", ITEM),
        ("crud-update-1", ITEM),
        ("crud-create-1", NEW_ITEM),
    ] {
        folder.file_with(&format!("requests/{name}.raw"), request);
    }
    folder.file_with("requests/grpc-sum.bin", [0; 5]);
    folder.file_with(
        "requests/json-h2c-uris.txt",
        "http://localhost:8082/json/1\nhttp://localhost:8082/json/5\n",
    );
    folder
}

/// A server that records requests, and answers with success also over gRPC.
fn server() -> Site {
    site_with(Options {
        record_requests: 100,
        defaults: Recipe::from_text("size=0&header=grpc-status:0").expect("a recipe"),
        ..Options::default()
    })
}

/// Runs an adapter; `None` without Python.
fn adapter(script: &str, site: &Site, arguments: &[&str]) -> Option<Output> {
    require("python3")?;
    let port = site.authority().split(':').next_back().expect("a port");
    let mut command = Command::new("python3");
    command
        .arg(format!("{ADAPTERS}/{script}"))
        .args(["--wrkbench", env!("CARGO_BIN_EXE_wrkbench")])
        .args(arguments)
        .envs(["PORT", "H2C_PORT"].map(|name| (name, port)))
        .envs([("RUNS", "2"), ("THREADS", "1")]);
    for name in ["ROUTES", "CONCURRENCIES"] {
        command.env_remove(name);
    }
    // That of the-benchmarker is in its file.
    if script.starts_with("httparena") {
        command.env("DURATION", "200ms")
    } else {
        command.env_remove("DURATION")
    };
    Some(Process::start(command).finish())
}

fn httparena(arena: &Folder, site: &Site, arguments: &[&str]) -> Option<Output> {
    let root = arena.path().to_str().expect("a path");
    let mut all = vec!["--root", root, "--host", "127.0.0.1", "own"];
    all.extend(arguments);
    adapter("httparena/httparena.py", site, &all)
}

/// The JSON documents that an adapter has printed one after another.
fn documents(output: &Output) -> Vec<Value> {
    assert_eq!(output.code, Some(0), "{output:?}");
    let documents = serde_json::Deserializer::from_str(&output.stdout).into_iter();
    documents.map(|document| document.expect("JSON")).collect()
}

#[test]
fn raw_requests_of_a_profile_are_sent_as_they_are_and_counted_in_its_form() {
    let (arena, site) = (arena(), server());
    let Some(output) = httparena(&arena, &site, &["baseline", "--save"]) else {
        return;
    };
    let document = &documents(&output)[0];
    let saved = arena.read("results/baseline/4/own.json");
    assert_eq!(saved.trim(), output.stdout.trim());
    let text = |field: &str| document[field].as_str().expect("a text").to_owned();
    let number = |field: &str| document[field].as_u64().expect("a number");
    assert_eq!(
        (text("framework"), text("language")),
        ("Own".into(), "C".into())
    );
    assert_eq!(
        (text("cpu"), text("duration")),
        ("0%".into(), "200ms".into())
    );
    assert_eq!((number("connections"), number("pipeline")), (4, 1));
    assert!(number("rps") > 0 && number("status_2xx") > 0, "{document}");
    assert_eq!(number("status_4xx"), 0, "{document}");
    // A connection for ten requests.
    let reconnects = number("reconnects") + 4;
    assert!(reconnects >= number("status_2xx") / 10, "{document}");
    for field in ["avg_latency", "p99_latency"] {
        assert!(text(field).ends_with('s'), "{document}");
    }
    for field in ["bandwidth", "input_bw"] {
        assert!(text(field).ends_with("B/s"), "{document}");
    }
    let recorded = site.stop().recorded;
    let sent: Vec<_> = recorded
        .iter()
        .map(|request| String::from_utf8_lossy(request).into_owned())
        .collect();
    let authority = |request: &str| {
        let host = request.split("Host: ").nth(1).expect("a host");
        host.split("\r\n").next().expect("a line").to_owned()
    };
    for expected in [GET, CHUNKED, COUNTED] {
        let as_sent = |request: &String| {
            let expected = expected.replace("Host: x", &format!("Host: {}", authority(request)));
            request.len() == expected.len()
                && expected.split("\r\n").all(|line| request.contains(line))
        };
        assert!(sent.iter().any(as_sent), "{expected:?} in {sent:?}");
    }
}

#[test]
fn templates_of_raw_requests_become_templates_of_a_request_file() {
    let (arena, site) = (arena(), server());
    // Its length is the endpoint's own; one run is enough.
    let arguments = ["crud", "--duration", "200ms"];
    let Some(output) = httparena(&arena, &site, &arguments) else {
        return;
    };
    assert_eq!(documents(&output)[0]["duration"], "200ms");
    let recorded = site.stop().recorded;
    let mut ids = Vec::new();
    for request in &recorded {
        let request = String::from_utf8_lossy(request);
        match request.split_once("{\"id\":") {
            Some((_, id)) => ids.push(id.trim_end_matches('}').parse::<u64>().expect("a number")),
            None => assert!(
                request.starts_with("GET /items/70 ") || request.starts_with("GET /items/71 "),
                "{request}"
            ),
        }
    }
    assert!(ids.len() > 10 && ids.iter().all(|id| *id >= 501), "{ids:?}");
}

#[test]
fn mixes_pipelining_http2_and_grpc_have_their_own_fields() {
    let (arena, site) = (arena(), server());
    let run = |arguments: &[&str]| Some(documents(&httparena(&arena, &site, arguments)?));
    let Some(pipelined) = run(&["pipelined"]) else {
        return;
    };
    assert_eq!(pipelined[0]["pipeline"], 16);
    assert_eq!(pipelined[0].get("input_bw"), None);
    let mix = &run(&["api", "--duration", "200ms"]).expect("Python")[0];
    let part = |field: &str| mix[field].as_u64().expect("a number");
    let sum = part("tpl_baseline") + part("tpl_json") + part("tpl_async_db");
    assert_eq!(sum, part("status_2xx"), "{mix}");
    assert!(part("tpl_baseline") > part("tpl_async_db"), "{mix}");
    let both = run(&["json-h2c"]).expect("Python");
    let connections: Vec<_> = both.iter().map(|one| one["connections"].clone()).collect();
    assert_eq!(connections, [2, 3]);
    assert!(both[0]["rps"].as_u64() > Some(0), "{both:?}");
    let grpc = &run(&["unary-grpc"]).expect("Python")[0];
    assert!(grpc["status_2xx"].as_u64() > Some(0), "{grpc}");
}

#[test]
fn what_the_adapter_of_httparena_cannot_do_is_refused_in_a_line() {
    let (arena, site) = (arena(), server());
    arena.file_with("requests/json-get.raw", "GET /a\r\n");
    for (arguments, expected) in [
        (&["gone"][..], "gone: no such profile in "),
        (&["cut"], "cut: '1|0|4' is not five fields with bars"),
        (&["far"], "h3: wrkbench does not load this endpoint"),
        (
            &["api"],
            "json-get.raw: is not an HTTP/1.1 request with a complete head",
        ),
    ] {
        let Some(output) = httparena(&arena, &site, arguments) else {
            return;
        };
        assert_eq!(output.code, Some(1), "{output:?}");
        let line = output.only_line();
        assert!(
            line.starts_with("httparena: ") && line.contains(expected),
            "{line}"
        );
    }
    std::fs::remove_file(arena.join("requests/get.raw")).expect("our file");
    let output = httparena(&arena, &site, &["baseline"]).expect("Python");
    assert!(
        output.only_line().ends_with("get.raw: no such file"),
        "{output:?}"
    );
}

/// The settings of the-benchmarker in its form.
const ENV: &str = "DATABASE_URL=x\nDURATION=1\nCONCURRENCIES=2,4\nROUTES=GET:/,POST:/user\n";

#[test]
fn every_route_is_loaded_at_every_concurrency_and_written_as_its_tasks_read_it() {
    let (folder, site) = (Folder::new(), server());
    folder.file_with(".env", ENV);
    let (root, results) = (folder.file("."), folder.file("results"));
    let url = site.url("/");
    let arguments = ["--root", &root, "--results", &results, &url];
    let Some(output) = adapter("the-benchmarker/the_benchmarker.py", &site, &arguments) else {
        return;
    };
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), ""));
    assert!(
        output.stderr.contains("closed after each request"),
        "{output:?}"
    );
    for name in ["2/_", "2/_user", "4/_", "4/_user"] {
        let text = folder.read(&format!("results/{name}.json"));
        let document: Value = serde_json::from_str(&text).expect("JSON");
        let summary = &document["summary"];
        let number = |field: &str| summary[field].as_f64().expect("a number");
        assert_eq!(number("successRate"), 1.0, "{document}");
        assert!((1.0..2.0).contains(&number("total")), "{document}");
        assert!(
            number("requestsPerSec") > 0.0 && number("totalData") > 0.0,
            "{document}"
        );
        let percentiles = &document["latencyPercentiles"];
        let percentile = |name: &str| percentiles[name].as_f64().expect("seconds");
        assert!(percentile("p50") <= percentile("p95"), "{document}");
        assert!((1e-7..1.0).contains(&percentile("p99")), "{document}");
        assert!(document["statusCodeDistribution"]["200"].as_u64() > Some(0));
    }
    let counts = site.counts();
    assert!(counts.connections >= counts.requests, "{counts:?}");
}

#[test]
fn settings_of_the_benchmarker_that_are_wrong_are_refused_in_a_line() {
    let (folder, site) = (Folder::new(), server());
    let root = folder.file(".");
    for (env, expected) in [
        ("DURATION=1\n", "ROUTES, CONCURRENCIES is missing"),
        (
            "DURATION=1\nCONCURRENCIES=2,x\nROUTES=GET:/\n",
            "CONCURRENCIES: '2,x' has something",
        ),
        (
            "DURATION=1\nCONCURRENCIES=2\nROUTES=/\n",
            "ROUTES: '/' is not like GET:/user/0",
        ),
    ] {
        folder.file_with(".env", env);
        let url = site.url("/");
        let arguments = ["--root", root.as_str(), &url];
        let Some(output) = adapter("the-benchmarker/the_benchmarker.py", &site, &arguments) else {
            return;
        };
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.only_line().contains(expected), "{output:?}");
    }
}
