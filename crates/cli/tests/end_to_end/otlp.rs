//! `--otlp`: what a collector gets, decoded by OpenTelemetry's own classes, and collectors that
//! fail.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use origin::{Options, TlsSettings};
use results::{Histogram, Verdict};
use serde_json::Value;
use testkit::{Folder, Process, Refusing, TestServer, eventually};

use crate::harness::{Load, Run, load, program, site, site_with};
use crate::tls::identity;

/// A request that a collector got.
#[derive(Debug, Clone)]
struct Received {
    head: String,
    body: Vec<u8>,
}

impl Received {
    /// Reads a request. `None` if the client has closed.
    fn read(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<Self>> {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let begin = head.len();
            if reader.read_line(&mut head)? == 0 {
                return Ok(None);
            }
            let line = &head[begin..];
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        Ok(Some(Self { head, body }))
    }

    fn is_metrics(&self) -> bool {
        self.head.starts_with("POST /v1/metrics ")
    }
}

/// A collector in this process.
struct Collector {
    server: TestServer,
    received: Arc<Mutex<Vec<Received>>>,
}

/// The response of a collector that takes everything.
const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// A collector that answers each request, which has this number, with what the function returns.
fn collector(answer: impl Fn(usize, &Received) -> String + Send + Sync + 'static) -> Collector {
    let received = Arc::<Mutex<Vec<Received>>>::default();
    let noted = Arc::clone(&received);
    let server = TestServer::start(move |stream| {
        let mut reader = BufReader::new(&stream);
        while let Some(request) = Received::read(&mut reader)? {
            let mut all = noted.lock().unwrap();
            let response = answer(all.len(), &request);
            all.push(request);
            drop(all);
            (&stream).write_all(response.as_bytes())?;
        }
        Ok(())
    });
    Collector { server, received }
}

fn taking() -> Collector {
    collector(|_, _| TAKEN.to_owned())
}

impl Collector {
    fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// What it got, decoded; `None` if there is no decoder, so that the test is skipped.
    fn decoded(&self) -> Option<Vec<Value>> {
        decoded(&self.received())
    }
}

fn decoded(received: &[Received]) -> Option<Vec<Value>> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let python = target.join("readers/venv/bin/python");
    let is_whole = target.join("readers/python.installed").exists();
    let found = (python.exists() && is_whole).then_some(python);
    let python: PathBuf =
        testkit::require_ok("readers", found.ok_or("`make readers` installs it"))?;
    let folder = Folder::new();
    let files = received.iter().enumerate().map(|(number, request)| {
        let kind = if request.is_metrics() {
            "metrics"
        } else {
            "logs"
        };
        folder.file_with(&format!("{number}.{kind}"), &request.body)
    });
    let mut command = Command::new(python);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/end_to_end/otlp.py");
    command.arg(script).args(files);
    let output = Process::start(command).finish();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    Some(serde_json::from_str(&output.stdout).unwrap())
}

/// The metrics of a request; empty if it is one of events.
fn metrics(request: &Value) -> &[Value] {
    let metrics = &request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    metrics.as_array().map_or(&[], Vec::as_slice)
}

/// The events of a request: the resource and the record.
fn event(request: &Value) -> Option<(&Value, &Value)> {
    let logs = &request["resourceLogs"][0];
    let record = &logs["scopeLogs"][0]["logRecords"][0];
    (!record.is_null()).then_some((&logs["resource"], record))
}

/// The points of a metric; empty if the request does not have it.
fn points<'r>(request: &'r Value, name: &str) -> &'r [Value] {
    let found = metrics(request)
        .iter()
        .find(|metric| metric["name"] == name);
    let data = found.map(|it| {
        let kinds = ["sum", "gauge", "exponentialHistogram"];
        let data = kinds.iter().find(|kind| !it[**kind].is_null());
        &it[*data.unwrap()]["dataPoints"]
    });
    data.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// 64-bit numbers are text in the JSON of protobuf.
fn number(value: &Value) -> u64 {
    value.as_str().map_or(0, |text| text.parse().unwrap())
}

/// The sum of a count over its parts.
fn total(request: &Value, name: &str) -> u64 {
    points(request, name)
        .iter()
        .map(|point| number(&point["asInt"]))
        .sum()
}

fn attribute<'v>(of: &'v Value, key: &str) -> Option<&'v str> {
    let attributes = of["attributes"].as_array()?;
    let found = attributes.iter().find(|it| it["key"] == key)?;
    found["value"]["stringValue"].as_str()
}

/// The requests of metrics, of which the last one has the totals.
fn of_metrics(requests: &[Value]) -> Vec<&Value> {
    requests
        .iter()
        .filter(|it| !metrics(it).is_empty())
        .collect()
}

fn names_of_events(requests: &[Value]) -> Vec<&str> {
    let events = requests.iter().filter_map(event);
    events
        .map(|(_, record)| record["eventName"].as_str().unwrap())
        .collect()
}

/// The value, in seconds, that a receiver computes for a quantile: the middle of the bucket.
fn quantile(point: &Value, percent: f64) -> f64 {
    let count = number(&point["count"]);
    let rank = (count as f64 * percent / 100.0).ceil().max(1.0) as u64;
    let scale = point["scale"].as_i64().unwrap_or(0);
    let offset = point["positive"]["offset"].as_i64().unwrap_or(0);
    let mut seen = number(&point["zeroCount"]);
    for (index, count) in point["positive"]["bucketCounts"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        seen += number(count);
        if seen >= rank {
            let middle = (offset + index as i64) as f64 + 0.5;
            return (middle * (-scale as f64).exp2()).exp2();
        }
    }
    panic!("there are fewer than {rank} samples: {point}")
}

/// Compares a histogram with the one of the result.
fn expect_same(point: &Value, result: &Histogram) {
    assert_eq!(number(&point["count"]), result.count());
    let near = |value: &Value, ns: u128| {
        let expected = ns as f64 / 1e9;
        let difference = (value.as_f64().unwrap() - expected).abs();
        assert!(difference <= expected * 1e-12, "{value} is not {expected}");
    };
    near(&point["sum"], result.sum_ns());
    near(&point["min"], result.min_ns().unwrap().into());
    near(&point["max"], result.max_ns().unwrap().into());
    let scale = point["scale"].as_i64().unwrap();
    assert_eq!(scale, 7);
    let half = ((-scale as f64).exp2() / 2.0).exp2() * (1.0 + 1e-9);
    for percent in [1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
        // The last one of the report is exact.
        let reported = match percent {
            100.0 => result.distinct().last().unwrap().0,
            _ => result.value_at_percentile(percent),
        };
        let ratio = quantile(point, percent) / (reported as f64 / 1e9);
        assert!((1.0 / half..=half).contains(&ratio), "p{percent}: {ratio}");
    }
}

/// The lines on stderr about the export.
fn warnings(stderr: &str) -> Vec<&str> {
    stderr
        .lines()
        .filter(|line| line.contains("--otlp"))
        .collect()
}

fn expect_no_warning(run: &Run<'_>) {
    assert_eq!(warnings(&run.stderr), [""; 0], "{}", run.stderr);
}

#[test]
fn counts_quantiles_and_events_are_those_of_the_result() {
    let (site, collector) = (site(), taking());
    let run = load(&site).at("/?status=404").for_ms(2500);
    let run = run
        .with(&[
            "-R400",
            "--otlp",
            &collector.url(),
            "--label",
            "branch=main",
        ])
        .run();
    expect_no_warning(&run);
    let Some(requests) = collector.decoded() else {
        return;
    };
    let all = of_metrics(&requests);
    assert!(all.len() >= 2, "{}", all.len());
    let answered: Vec<u64> = all
        .iter()
        .map(|it| total(it, "wrkbench.requests"))
        .collect();
    assert!(answered.is_sorted(), "{answered:?}");
    let last = *all.last().unwrap();
    let recording = &run.result.recording;
    let counters = &recording.counters;
    for (name, expected) in [
        ("wrkbench.requests", counters.responses()),
        ("wrkbench.requests.sent", counters.sent),
        ("wrkbench.requests.due", counters.due),
        ("wrkbench.responses", recording.statuses.total()),
        ("wrkbench.errors", recording.errors.events()),
        ("wrkbench.received", counters.bytes),
    ] {
        assert_eq!(total(last, name), expected, "{name}");
    }
    for point in points(last, "wrkbench.responses") {
        let status = attribute(point, "http.response.status_code").unwrap();
        let expected = recording.statuses.count(status.parse().unwrap());
        assert_eq!(number(&point["asInt"]), expected, "{status}");
    }
    let [latency] = points(last, "http.client.request.duration") else {
        panic!("{last}")
    };
    expect_same(latency, &recording.latency());
    let [lag] = points(last, "wrkbench.send_lag") else {
        panic!("{last}")
    };
    assert_eq!(number(&lag["count"]), recording.lags.send.count());
    assert_eq!(attribute(latency, "wrkbench.label.branch"), Some("main"));
    assert_eq!(attribute(latency, "server.address"), Some("127.0.0.1"));
    assert_eq!(
        attribute(latency, "wrkbench.target"),
        Some(&*run.result.plan.target.url)
    );
    // What is only true now has an end.
    let [.., end] = points(last, "http.client.open_connections") else {
        panic!("{last}")
    };
    assert_eq!(end["flags"], 1);
    let expected = [
        "wrkbench.run.start",
        "wrkbench.run.end",
        "wrkbench.run.verdict",
    ];
    assert_eq!(names_of_events(&requests), expected);
    let (resource, verdict) = requests.iter().filter_map(event).next_back().unwrap();
    let expected = match run.result.generator.verdict {
        Verdict::Undisturbed => "undisturbed",
        Verdict::Disturbed { .. } => "disturbed",
        Verdict::Saturated { .. } => "saturated",
        Verdict::Unknown => "unknown",
    };
    assert_eq!(attribute(verdict, "wrkbench.verdict"), Some(expected));
    assert_eq!(attribute(resource, "service.name"), Some("wrkbench"));
}

#[test]
fn variables_of_opentelemetry_name_endpoint_headers_compression_and_attributes() {
    let (site, collector) = (site(), taking());
    let variables = format!(
        "export OTEL_EXPORTER_OTLP_ENDPOINT={}/ OTEL_EXPORTER_OTLP_HEADERS=api-key=a%20b \
         OTEL_EXPORTER_OTLP_COMPRESSION=gzip OTEL_SERVICE_NAME=mine",
        collector.url()
    );
    let run = load(&site).requests(50).in_shell_after(&variables);
    let run = run.with(&["--otlp", "env"]).run();
    expect_no_warning(&run);
    let received = collector.received();
    assert!(received.iter().any(Received::is_metrics));
    for request in &received {
        let head = request.head.to_ascii_lowercase();
        for line in [
            "api-key: a b",
            "content-encoding: gzip",
            "content-type: application/x-protobuf",
        ] {
            assert!(head.contains(&format!("\r\n{line}\r\n")), "{head}");
        }
        assert!(request.body.starts_with(&[0x1f, 0x8b]), "it is compressed");
    }
    // They share a connection.
    assert!(
        collector.server.peers().len() <= 2,
        "{:?}",
        collector.server.peers()
    );
    let Some(requests) = decoded(&received) else {
        return;
    };
    let (resource, _) = event(&requests[0]).unwrap();
    assert_eq!(attribute(resource, "service.name"), Some("mine"));
    assert_eq!(
        total(of_metrics(&requests).last().unwrap(), "wrkbench.requests"),
        run.answered()
    );
    // The variables alone export nothing.
    let before = collector.received().len();
    let run = load(&site).requests(50).in_shell_after(&variables).run();
    expect_no_warning(&run);
    assert_eq!(collector.received().len(), before);
}

#[test]
fn after_ctrl_c_the_totals_arrive() {
    let (site, collector) = (site(), taking());
    let mut run = load(&site)
        .for_ms(60_000)
        .with(&["-R100", "--otlp", &collector.url()])
        .start();
    run.await_banner();
    eventually(|| {
        let has_begun = collector.received().iter().any(Received::is_metrics);
        has_begun
            .then_some(())
            .ok_or_else(|| "no metrics yet".to_owned())
    });
    run.process.signal("INT");
    let run = run.finish();
    expect_no_warning(&run);
    let Some(requests) = collector.decoded() else {
        return;
    };
    let last = *of_metrics(&requests).last().unwrap();
    assert_eq!(
        total(last, "wrkbench.requests"),
        run.result.recording.counters.responses()
    );
    let ends = requests
        .iter()
        .filter_map(event)
        .filter(|it| it.1["eventName"] == "wrkbench.run.end");
    let bodies: Vec<&str> = ends
        .map(|it| it.1["body"]["stringValue"].as_str().unwrap())
        .collect();
    let [body] = bodies[..] else {
        panic!("{bodies:?}")
    };
    assert!(body.starts_with("the run was interrupted with "), "{body}");
}

/// A load with a result that does not depend on the collector.
fn exported<'s>(load: Load<'s>, url: &str) -> Run<'s> {
    let run = load
        .requests(100)
        .with(&["--otlp", url])
        .run()
        .expect_answers(100);
    assert_eq!(run.code, Some(0));
    run
}

#[test]
fn a_collector_that_fails_changes_no_number_and_ends_in_one_warning() {
    let site = site();
    let refusing = Refusing::new();
    let refused = exported(load(&site), &format!("http://{}", refusing.address()));
    let hanging = TestServer::start(|mut stream| stream.read_to_end(&mut Vec::new()).map(drop));
    let hung = exported(load(&site), &format!("http://{}", hanging.address()));
    let html = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>";
    let rubbish = collector(move |_, _| html.to_owned());
    let unauthorized = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 7\r\n\r\nno key\n";
    let unauthorized = collector(move |_, _| unauthorized.to_owned());
    let not_http = TestServer::start(|stream| (&stream).write_all(b"SSH-2.0-OpenSSH_9.2\r\n"));
    for (run, expected) in [
        (
            refused,
            "nothing was exported: unable to connect: Connection refused",
        ),
        (hung, "nothing was exported: no response in time"),
        (
            exported(load(&site), &rubbish.url()),
            "its response is not one of OTLP",
        ),
        (
            exported(load(&site), &unauthorized.url()),
            "it answered 401: no key",
        ),
        (
            exported(load(&site), &format!("http://{}", not_http.address())),
            "nothing was exported",
        ),
    ] {
        let [warning] = warnings(&run.stderr)[..] else {
            panic!("{}", run.stderr)
        };
        assert!(warning.contains(expected), "{warning}");
        assert!(
            warning.starts_with("wrkbench: warning: --otlp http://127.0.0.1:"),
            "{warning}"
        );
    }
    let quiet = load(&site)
        .requests(10)
        .with(&["--quiet", "--otlp", &rubbish.url()])
        .run();
    expect_no_warning(&quiet);
}

#[test]
fn a_collector_that_asks_to_wait_gets_everything_later() {
    let site = site();
    let wait = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    let collector = collector(move |number, _| match number {
        0 => wait.to_owned(),
        _ => TAKEN.to_owned(),
    });
    let run = exported(load(&site), &collector.url());
    expect_no_warning(&run);
    let Some(requests) = collector.decoded() else {
        return;
    };
    let expected = [
        // Once refused.
        "wrkbench.run.start",
        "wrkbench.run.start",
        "wrkbench.run.end",
        "wrkbench.run.verdict",
    ];
    assert_eq!(names_of_events(&requests), expected);
    assert_eq!(
        total(of_metrics(&requests).last().unwrap(), "wrkbench.requests"),
        100
    );
}

#[test]
fn a_collector_without_a_path_for_events_gets_the_metrics() {
    let site = site();
    let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    let collector = collector(move |_, request| {
        if request.is_metrics() {
            TAKEN.to_owned()
        } else {
            missing.to_owned()
        }
    });
    let run = exported(load(&site), &collector.url());
    expect_no_warning(&run);
    let kinds: Vec<bool> = collector
        .received()
        .iter()
        .map(Received::is_metrics)
        .collect();
    assert_eq!(kinds, [false, true]);
}

#[test]
fn secrets_of_the_target_and_of_the_collector_are_not_told() {
    let (site, collector) = (site(), taking());
    let told = |options: &[&str]| {
        let run = load(&site).at("/?api_key=s3cret").requests(10);
        let url = collector.url().replace("//", "//user:s3cret@");
        let run = run.with(&["--otlp", &url]).with(options).run();
        expect_no_warning(&run);
        let mut all = collector.received().into_iter();
        let is_told = all.any(|it| it.body.windows(6).any(|six| six == b"s3cret"));
        collector.received.lock().unwrap().clear();
        is_told
    };
    assert!(!told(&[]));
    assert!(told(&["--keep-secrets"]));
}

#[test]
fn an_https_collector_is_verified() {
    let site = site();
    let identity = identity();
    let settings = TlsSettings::new(identity);
    let authorities = site
        .folder
        .file_with("ca.pem", &settings.identity.certificate_pem);
    // Any server with an empty response takes everything.
    let collector = site_with(Options {
        tls: Some(settings.config().unwrap()),
        ..Options::default()
    });
    let url = collector.url("/size=0");
    let trusting = format!("export OTEL_EXPORTER_OTLP_CERTIFICATE={authorities}");
    let run = exported(load(&site).in_shell_after(&trusting), &url);
    expect_no_warning(&run);
    assert!(collector.counts().requests >= 4, "{:?}", collector.counts());
    let run = exported(load(&site), &url);
    let [warning] = warnings(&run.stderr)[..] else {
        panic!("{}", run.stderr)
    };
    assert!(warning.contains("certificate"), "{warning}");
}

#[test]
fn a_fleet_exports_once_and_a_sweep_each_trial_with_its_cell() {
    let (site, collector) = (site(), taking());
    let run = load(&site)
        .with(&["--local", "2", "--otlp", &collector.url()])
        .requests(300)
        .run();
    expect_no_warning(&run);
    let Some(requests) = collector.decoded() else {
        return;
    };
    let last = *of_metrics(&requests).last().unwrap();
    let [requests_of_all] = points(last, "wrkbench.requests") else {
        panic!("{last}")
    };
    assert_eq!(number(&requests_of_all["asInt"]), 300);
    assert_eq!(names_of_events(&requests).len(), 3);
    let (_, start) = requests.iter().find_map(event).unwrap();
    assert_eq!(attribute(start, "wrkbench.agents"), Some("local-1,local-2"));
    assert_eq!(attribute(start, "wrkbench.places"), Some("local"));
    drop(run);

    let collector = taking();
    let mut command = program(&[
        "sweep",
        "-L",
        "connections",
        "2,4",
        "-n200",
        "-t1",
        "--no-try",
    ]);
    command.args([
        "--journal",
        "journal",
        "--rounds",
        "2",
        "--otlp",
        &collector.url(),
    ]);
    command.arg(site.url("/")).current_dir(site.folder.path());
    let output = Process::start(command).finish();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(warnings(&output.stderr), [""; 0]);
    let requests = collector.decoded().unwrap();
    let mut trials: Vec<(String, String, u64)> = Vec::new();
    for request in of_metrics(&requests) {
        for point in points(request, "wrkbench.requests") {
            let of = |key: &str| attribute(point, key).unwrap().to_owned();
            let round = of("wrkbench.round");
            trials.push((
                round,
                of("wrkbench.factor.connections"),
                number(&point["asInt"]),
            ));
        }
    }
    trials.sort();
    trials.dedup();
    let expected = [("1", "2"), ("1", "4"), ("2", "2"), ("2", "4")];
    let expected = expected.map(|(round, level)| (round.to_owned(), level.to_owned(), 200));
    assert_eq!(trials, expected);
    let names = names_of_events(&requests);
    let verdicts = |name: &str| names.iter().filter(|it| **it == name).count();
    assert_eq!(verdicts("wrkbench.run.verdict"), 4);
    assert!(verdicts("wrkbench.experiment.verdict") > 0, "{names:?}");
}

#[test]
fn wrong_endpoints_are_refused_before_the_load() {
    let site = site();
    for (variables, value, expected) in [
        (
            "true",
            "localhost:4318",
            "--otlp: invalid URL: \"localhost:4318\" has no scheme",
        ),
        ("true", "http://", "--otlp: invalid URL"),
        (
            "true",
            "http://no-such-host.invalid:4318",
            "unable to resolve the host of http://no-such",
        ),
        (
            "export OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
            "env",
            "\"grpc\" is not supported",
        ),
        (
            "export OTEL_EXPORTER_OTLP_CERTIFICATE=/no/such.pem",
            "https://127.0.0.1:1",
            "OTEL_EXPORTER_OTLP_CERTIFICATE /no/such.pem: No such file",
        ),
    ] {
        let load = load(&site).in_shell_after(variables);
        let output = load.with(&["--otlp", value]).output();
        assert_eq!(output.code, Some(1), "{}", output.stderr);
        let line = testkit::one_line(&output.stderr);
        assert!(line.contains(expected), "{line}");
    }
    let output = load(&site)
        .with(&["--once", "--otlp", "http://127.0.0.1:1"])
        .output();
    assert!(
        testkit::one_line(&output.stderr).contains("--otlp"),
        "{}",
        output.stderr
    );
    assert_eq!(site.counts().requests, 0);
}
