//! Requests from a file: what the server receives, and what is counted for each name.

use std::collections::BTreeMap;
use std::process::Command;

use origin::{Options, TlsSettings};
use results::NameRecording;
use testkit::Process;

use crate::harness::{Call, Run, Site, call, io_arguments, load, program, site, site_with};
use crate::tls::identity;

/// Two names and a request without one, HEAD among them.
const MIX: &str = r#"{"path":"/a","name":"page","weight":2}
{"path":"/b?id={{seq}}","name":"page"}
{"path":"/c?status=503","body_text":"{\"u\":\"{{uuid}}\",\"n\":{{rand:1-99}}}","name":"save"}
{"method":"HEAD","path":"/d"}
"#;

fn recording() -> Site {
    site_with(Options {
        record_requests: 100_000,
        ..Options::default()
    })
}

/// How many requests the server received for each path, without the query.
pub(crate) fn received(site: Site) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for request in site.stop().recorded {
        let text = String::from_utf8(request).expect("requests are text");
        // Over HTTP/2 they are recorded as fields.
        let path = match text.lines().find_map(|line| line.strip_prefix(":path: ")) {
            Some(path) => path,
            None => text.split(' ').nth(1).expect("a request has a target"),
        };
        let path = path.split('?').next().unwrap_or_default();
        *counts.entry(path.to_owned()).or_default() += 1;
    }
    counts
}

fn named<'r>(run: &'r Run<'_>, name: &str) -> &'r NameRecording {
    let mut names = run.result.recording.parts.by_name.iter();
    let found = names.find(|named| named.name == name);
    found.unwrap_or_else(|| panic!("{name}: {}", run.story()))
}

/// Makes a run of the mix, and compares the counts by name with what the server received.
fn compare(site: Site, options: &[&str], requests: u64) {
    let file = site.folder.file_with("mix.jsonl", MIX);
    let run = load(&site).threads(2).requests(requests);
    let run = run.with(&["--requests", &file]).with(options).run();
    let sent = |name| named(&run, name).sent;
    let (page, save, unnamed) = (sent("page"), sent("save"), sent("unnamed"));
    assert_eq!(
        named(&run, "save").statuses.count(503),
        save,
        "{}",
        run.story()
    );
    assert_eq!(
        named(&run, "page").statuses.count(200),
        page,
        "{}",
        run.story()
    );
    drop(run);
    let received = received(site);
    let of = |path: &str| received.get(path).copied().unwrap_or_default();
    assert_eq!(of("/a") + of("/b"), page, "{options:?}");
    assert_eq!(of("/c"), save, "{options:?}");
    assert_eq!(of("/d"), unnamed, "{options:?}");
    assert_eq!(page + save + unnamed, requests, "{options:?}");
}

#[test]
fn counts_by_name_are_those_of_the_server() {
    for options in [
        &[][..],
        &["--order", "sequence"],
        &["--order", "random", "--seed", "3"],
        &["--pipeline", "4"],
        &["-R4k"],
        &["--http2", "-m4"],
        &["--no-keepalive"],
        &["--requests-per-connection", "3"],
        &["--local", "2"],
    ] {
        compare(recording(), options, 400);
    }
    let tls = TlsSettings::new(identity());
    for options in [&["--pipeline", "4"][..], &["--http2", "-m4"]] {
        let site = site_with(Options {
            tls: Some(tls.config().expect("it is an identity")),
            record_requests: 100_000,
            ..Options::default()
        });
        compare(site, options, 400);
    }
}

#[test]
fn a_sequence_sends_each_request_of_a_file_once() {
    let site = recording();
    let lines: String = (0..100)
        .map(|n| format!("{{\"path\":\"/{n}\"}}\n"))
        .collect();
    let file = site.folder.file_with("all.jsonl", lines);
    let run = load(&site).threads(3).requests(100);
    run.with(&["--requests", &file]).run().expect_answers(100);
    let received = received(site);
    assert_eq!(received.len(), 100);
    assert!(received.values().all(|count| *count == 1), "{received:?}");
}

#[test]
fn a_file_in_any_form_sends_each_of_its_requests() {
    let list = |site: &Site| {
        let urls = ["/a", "/b?c=1", "/c"].map(|path| site.url(path));
        format!("# what is tried\n\n{}\n", urls.join("\n"))
    };
    let vegeta = |site: &Site| {
        site.folder.file_with("order.json", "{}");
        format!(
            "GET {}\nAccept: text/plain\n\nPOST {}\n@order.json\n\nGET {}\n",
            site.url("/a"),
            site.url("/b"),
            site.url("/c")
        )
    };
    let array = |site: &Site| {
        let url = site.url("/b");
        format!(
            "[\n  {{\"path\": \"/a\"}},\n  {{\"url\": \"{url}\"}},\n  {{\"path\": \"/c\"}}\n]\n"
        )
    };
    let forms: [&dyn Fn(&Site) -> String; 3] = [&list, &vegeta, &array];
    for text in forms {
        // As a file, compressed through stdin, also without a URL, and through a pipe.
        for how in [
            "W --requests F URL",
            "gzip -c F | W --requests - URL",
            "gzip -c F | W --requests -",
            "W --requests <(cat F) URL",
        ] {
            let site = recording();
            let text = text(&site);
            let file = site.folder.file_with("requests.txt", &text);
            let load = "-n30 -t1 -c1 --order sequence";
            let program = format!(
                "{} {load} {} ",
                env!("CARGO_BIN_EXE_wrkbench"),
                io_arguments().join(" ")
            );
            let line = how
                .replace("W ", &program)
                .replace("URL", &site.url("/"))
                .replace('F', &file);
            let mut shell = Command::new("bash");
            shell.current_dir(site.folder.path()).args(["-c", &line]);
            let output = Process::start(shell).finish();
            assert_eq!(output.code, Some(0), "{line}: {output:?}");
            let counts = received(site);
            let each = ["/a", "/b", "/c"].map(|path| (path.to_owned(), 10));
            assert_eq!(counts, each.into(), "{line}\n{text}");
        }
    }
}

#[test]
fn a_list_of_urls_goes_to_its_own_hosts_only_without_another_url() {
    let (one, other) = (recording(), recording());
    let text = format!("{}\n{}\n", one.url("/a"), other.url("/b"));
    let file = one.folder.file_with("urls.txt", &text);
    let run = |url: &[&str]| {
        let mut command = program(&["--requests", &file, "-n20", "-t1", "-c2"]);
        command.args(io_arguments()).args(url);
        Call::of(&command).finish()
    };
    let refused = run(&[&one.url("/")]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let said = format!("{file}:2:1: {} is not the target of the run", other.url(""));
    assert!(
        refused.stderr.starts_with(&format!("wrkbench: {said}")),
        "{refused:?}"
    );
    assert_eq!(one.counts().requests + other.counts().requests, 0);
    let output = run(&[]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(received(one), [("/a".to_owned(), 10)].into());
    assert_eq!(received(other), [("/b".to_owned(), 10)].into());
}

#[test]
fn what_is_no_request_file_is_refused_before_anything_is_sent() {
    let site = site();
    let folder = site.folder.path().display().to_string();
    let har = site
        .folder
        .file_with("r.har", "{\n  \"log\": {\"entries\": []}\n}\n");
    let xml = site
        .folder
        .file_with("plan.jmx", "<?xml version=\"1.0\"?>\n");
    let unsent = site.folder.file_with("u.txt", "/a\n/b\nlocalhost:80/c\n");
    for (file, said) in [
        (&*har, "r.har:1:1: this is a HAR file: make a request file"),
        (&xml, "plan.jmx:1:1: \"<?xml\" is not a method"),
        (&unsent, "u.txt:3:1: expected a URL like http://host/path"),
        (&folder, "is a directory (expected a file)"),
        ("/dev/zero", "/dev/zero: is a device (expected a file)"),
    ] {
        let url = site.url("/");
        let output = call(&["--requests", file, &url]).finish();
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stderr.contains(said), "{output:?}");
        assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
    }
    assert_eq!(site.counts().connections, 0);
}

#[test]
fn templates_and_lengths_are_right_on_the_wire() {
    let site = recording();
    site.folder
        .file_with("users.csv", "name\nann\n\"bob, jr\"\n");
    let text = "@v = v1\n# @name login\nPOST /{{v}}/{{seq}}\nX-User: {{env:WRKBENCH_T}}\n\n\
                {\"user\":\"{{csv:users.csv:name}}\",\"at\":{{now}},\"n\":{{seq}}}\n";
    let file = site.folder.file_with("t.http", text);
    let run = load(&site).threads(1).connections(1).requests(12);
    let run = run.with(&["--requests", &file]);
    let run = run.in_shell_after("export WRKBENCH_T=secret").run();
    let before_ms = run.result.window.started_unix_ms;
    run.expect_answers(12);
    let mut recorded = site.stop().recorded.into_iter();
    for (n, request) in (1..=12).zip(&mut recorded) {
        let text = String::from_utf8(request).expect("it is text");
        let (head, body) = text.split_once("\r\n\r\n").expect("it has a body");
        assert!(
            head.starts_with(&format!("POST /v1/{n} HTTP/1.1\r\n")),
            "{head}"
        );
        assert!(head.contains("\r\nX-User: secret\r\n"), "{head}");
        assert!(
            head.contains(&format!("\r\nContent-Length: {}", body.len())),
            "{text}"
        );
        let body: serde_json::Value = serde_json::from_str(body).expect("it is JSON");
        assert_eq!(body["n"], n);
        assert_eq!(body["user"], if n % 2 == 1 { "ann" } else { "bob, jr" });
        let at_ms = body["at"].as_u64().expect("it is a time");
        assert!(at_ms.abs_diff(before_ms) < 600_000, "{at_ms} {before_ms}");
    }
    assert_eq!(recorded.next(), None);
}

#[test]
fn agents_need_neither_the_files_nor_the_variables() {
    let site = recording();
    site.folder.file_with("users.csv", "name\nann\nbob\n");
    site.folder.file_with("b.bin", "\u{1}{{x}}");
    let text = "{\"path\":\"/{{csv:users.csv:name}}?{{env:WRKBENCH_T}}\",\"name\":\"a\"}\n\
                {\"path\":\"/file\",\"body_file\":\"b.bin\"}\n";
    let file = site.folder.file_with("f.jsonl", text);
    let run = load(&site).requests(40);
    let run = run.with(&["--requests", &file, "--local", "2"]);
    let run = run.in_shell_after("export WRKBENCH_T=1").run();
    assert_eq!(named(&run, "a").answered, 20);
    run.expect_answers(40);
    let received = received(site);
    assert_eq!(
        (received["/ann"], received["/bob"], received["/file"]),
        (10, 10, 20)
    );
}

#[test]
fn the_first_url_of_the_file_is_the_target_without_another() {
    let site = site();
    let text = format!("{{\"url\":\"{}\"}}\n{{\"path\":\"/2\"}}\n", site.url("/1"));
    let file = site.folder.file_with("u.jsonl", text);
    let output = call(&["--requests", &file, "-n", "10", "-c2"]).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(site.counts().requests, 10);
    let file = site.folder.file_with("p.jsonl", "{\"path\":\"/2\"}\n");
    let output = call(&["--requests", &file, "-n", "10"]).finish();
    assert_eq!(output.code, Some(1), "{output:?}");
    let said = "its requests have only paths (give the URL of the server)";
    assert!(output.stderr.contains(said), "{output:?}");
}

#[test]
fn conditions_and_the_table_are_by_name() {
    let site = site();
    let file = site.folder.file_with("mix.jsonl", MIX);
    let with_file = ["--requests", &file, "--by-name", "--order", "sequence"];
    let conditions = ["--fail-if", "save.status>0", "page.p50<1h", "page.status>0"];
    let run = load(&site).requests(400).with(&with_file).with(&conditions);
    let run = run.start().finish();
    assert_eq!(run.code, Some(2), "{}", run.story());
    assert!(
        run.stderr
            .contains("failed: save.status is 100, limit save.status>0"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("failed: page.p50 is "),
        "{}",
        run.stderr
    );
    assert!(
        !run.stderr.contains("failed: page.status"),
        "{}",
        run.stderr
    );
    let table: Vec<&str> = run
        .stdout
        .lines()
        .skip_while(|line| !line.contains("Name"))
        .collect();
    let words: Vec<&str> = table[1].split_whitespace().collect();
    assert_eq!(
        (table.len(), words[0], words[1]),
        (4, "page", "200"),
        "{}",
        run.stdout
    );
    let summary = &run.document["summary"]["by_name"];
    assert_eq!(summary[1]["name"], "save");
    assert_eq!(summary[1]["statuses_over_399"], 100);
    assert_eq!(summary[1]["latency"]["count"], 100);
}

#[test]
fn a_condition_on_a_name_that_no_request_has_is_refused_before_the_run() {
    let site = site();
    let file = site.folder.file_with("mix.jsonl", MIX);
    let url = site.url("/");
    for (options, said) in [
        (
            vec!["--requests", &file, "--fail-if", "pages.p99>1s"],
            "--fail-if pages.p99>1s: no request is named \"pages\" (did you mean page?)",
        ),
        (
            vec!["--fail-if", "page.p99>1s"],
            "--fail-if page.p99>1s: only requests of a file have names (--requests FILE)",
        ),
        (
            vec!["--requests", &file, "--fail-if", "page.rate<99%", "-R100"],
            "rate is only known of all requests",
        ),
    ] {
        let output = call(&[&options[..], &[&url]].concat()).finish();
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stderr.contains(said), "{output:?}");
    }
    assert_eq!(site.counts().requests, 0);
}

#[test]
fn a_file_that_cannot_be_used_is_refused_with_line_and_column() {
    let site = site();
    let file = site
        .folder
        .file_with("f.jsonl", "{\"path\":\"/\"}\n{\"path\":\"/{{uid}}\"}\n");
    for more in [&[][..], &["--local", "2"]] {
        let url = site.url("/");
        let options = [&["--requests", file.as_str(), &url], more].concat();
        let output = Process::start(program(&options)).finish();
        assert_eq!(output.code, Some(1), "{output:?}");
        let said = format!("wrkbench: {file}:2:11: \"uid\" is not a template (expected uuid,");
        assert!(output.stderr.starts_with(&said), "{output:?}");
        assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
    }
    assert_eq!(site.counts().connections, 0);
}

#[test]
fn failures_belong_to_the_names_of_their_requests() {
    let site = site();
    let text = r#"{"path":"/ok","name":"ok"}
        {"path":"/?close=1&size=9","name":"cut"}
        {"path":"/?delay=5s","name":"slow"}"#;
    let file = site.folder.file_with("f.jsonl", text);
    let run = load(&site).requests(30).timeout_ms(100);
    let run = run.with(&["--requests", &file, "--pipeline", "2"]).run();
    let slow = named(&run, "slow");
    assert_eq!((slow.sent, slow.answered), (10, 0), "{}", run.story());
    assert!(!slow.unanswered.is_empty(), "{}", run.story());
    assert!(named(&run, "ok").answered > 0, "{}", run.story());
}
