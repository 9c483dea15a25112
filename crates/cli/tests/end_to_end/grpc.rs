//! gRPC calls to the built-in server, which describes its types.

use origin::{Options, Recipe};
use plan::Protocol;
use results::ErrorKind;

use crate::harness::{Run, Site, load, site, site_with};
use crate::http3;

fn answering(recipe: &str) -> Site {
    site_with(Options {
        defaults: Recipe::from_text(recipe).unwrap(),
        ..Options::default()
    })
}

/// The types of the built-in server. Asking it for them would be requests that a run does not
/// count.
const PROTO: &str = "syntax = \"proto3\";\n\
                     package wrkbench;\n\
                     message Message { string text = 1; int64 number = 2; }\n\
                     service Echo {\n\
                     rpc Call(Message) returns (Message);\n\
                     rpc Stream(Message) returns (stream Message);\n\
                     }\n";

fn proto(site: &Site) -> String {
    let file = site.folder.file_with("echo.proto", PROTO);
    format!("--proto={file}")
}

/// The options of a call of a method of the built-in server.
fn call<'a>(method: &'a str, types: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let call = ["--grpc", types, "--call", method];
    let body = ["--body", r#"{"text": "x", "number": "7"}"#];
    [&call[..], &body, more].concat()
}

/// The document of `--once`.
fn once(site: &Site) -> serde_json::Value {
    let options = call(
        "wrkbench.Echo/Stream",
        "--reflection",
        &["--once", "--json", "-"],
    );
    let output = load(site).without_connections().with(&options).output();
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn runs_and_local_fleets_send_the_message() {
    for more in [&[][..], &["-m4"], &["-R300"], &["--local", "2"]] {
        let site = site();
        let proto = proto(&site);
        let options = call("wrkbench.Echo/Call", &proto, more);
        let run = load(&site).connections(2).requests(300).with(&options);
        run.run().expect_answers(300);
    }
}

#[test]
fn a_single_call_shows_the_messages_of_its_response() {
    let message = serde_json::json!({"text": "x", "number": "7"});
    let exchange = once(&answering("events=3&gap=1ms"));
    let messages = serde_json::json!([message, message, message]);
    assert_eq!(exchange["response"]["messages"], messages, "{exchange}");
    let exchange = once(&answering("grpc-status=not_found"));
    let said = "gRPC call failed: NOT_FOUND: status NOT_FOUND";
    assert_eq!(exchange["error"], said, "{exchange}");
}

#[test]
fn a_file_of_requests_names_methods_and_has_messages_with_templates() {
    let line = r#"{"call": "wrkbench.Echo/Call", "name": "echo",
                   "message": {"text": "{{uuid}}", "number": "{{seq}}"}}"#;
    let line = line.replace('\n', " ");
    for more in [&[][..], &["-m4"], &["-R300"], &["--local", "2"]] {
        let site = site();
        let (proto, file) = (proto(&site), site.folder.file_with("calls.jsonl", &line));
        let options = [&["--grpc", &proto, "--requests", &file], more].concat();
        let run = load(&site).connections(2).requests(300).with(&options);
        let run = run.run();
        assert_eq!(run.result.recording.parts.by_name[0].name, "echo");
        run.expect_answers(300);
    }
    let site = site();
    let file = site.folder.file_with("calls.jsonl", &line);
    let options = [
        "--grpc",
        "--reflection",
        "--requests",
        &file,
        "--once",
        "--json",
        "-",
    ];
    let output = load(&site).without_connections().with(&options).output();
    let exchange: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let message = &exchange["response"]["messages"][0];
    assert_eq!(message["number"], "1", "{exchange}");
    assert_eq!(
        message["text"].as_str().map(str::len),
        Some(36),
        "{exchange}"
    );
}

#[test]
fn templates_of_the_command_line_are_refused_with_the_way_to_use_them() {
    let site = site();
    let types = proto(&site);
    let options = [
        "--grpc",
        &types,
        "--call",
        "wrkbench.Echo/Call",
        "--body",
        r#"{"text": "{{seq}}"}"#,
    ];
    let output = load(&site).with(&options).output();
    assert_eq!(output.code, Some(1), "{output:?}");
    let said = "--body: has {{, but templates need a file of requests";
    assert!(output.stderr.contains(said), "{output:?}");
}

/// Makes 40 calls, and expects five messages of each.
fn run_of_streams<'a>(site: &'a Site, options: &[&str]) -> Run<'a> {
    let run = load(site).connections(2).requests(40).with(options).run();
    let events = run.result.recording.parts.events.as_ref().unwrap();
    assert_eq!(
        (events.arrived, events.streams),
        (200, 40),
        "{}",
        run.story()
    );
    run
}

#[test]
fn the_messages_of_streams_are_events() {
    let site = answering("events=5&first=2ms&gap=2ms");
    let proto = proto(&site);
    let options = call("wrkbench.Echo/Stream", &proto, &["--events", "grpc", "-m2"]);
    let run = run_of_streams(&site, &options);
    assert!(run.stdout.contains("  First event "), "{}", run.story());
}

#[test]
fn calls_over_http3_do_what_calls_over_http2_do() {
    let site = site_with(http3::options());
    let proto = proto(&site);
    for more in [&["--http3"][..], &["--http3", "-m4"], &["--http3", "-R300"]] {
        let options = call("wrkbench.Echo/Call", &proto, more);
        let run = load(&site).connections(2).requests(300).with(&options);
        let run = run.run().expect_answers(300);
        assert_eq!(run.result.plan.load.protocol, Protocol::GrpcHttp3);
    }
    let more = ["--http3", "--once", "--json", "-"];
    let options = call("wrkbench.Echo/Call", "--reflection", &more);
    let output = load(&site).without_connections().with(&options).output();
    let exchange: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let message = serde_json::json!([{"text": "x", "number": "7"}]);
    assert_eq!(exchange["response"]["messages"], message, "{exchange}");
}

#[test]
fn calls_over_http3_fail_by_their_status_and_have_streams_of_messages() {
    let recipe = |text: &str| site_with(http3::options().with_defaults(text).unwrap());
    let site = recipe("grpc-status=unavailable");
    let proto_of_site = proto(&site);
    let options = call("wrkbench.Echo/Call", &proto_of_site, &["--http3", "-m2"]);
    let run = load(&site).connections(2).requests(40).with(&options).run();
    let run = run.expect_only(ErrorKind::GrpcUnavailable);
    assert_eq!(
        run.failed(ErrorKind::GrpcUnavailable),
        40,
        "{}",
        run.story()
    );

    let site = recipe("events=5&first=2ms&gap=2ms");
    let proto = proto(&site);
    let more = ["--http3", "--events", "grpc", "-m2"];
    let options = call("wrkbench.Echo/Stream", &proto, &more);
    run_of_streams(&site, &options);
}

#[test]
fn a_deadline_is_sent_with_each_call() {
    let site = site_with(Options {
        record_requests: 10,
        ..Options::default()
    });
    let proto = proto(&site);
    let options = call("wrkbench.Echo/Call", &proto, &["--grpc-timeout", "1500ms"]);
    let run = load(&site).connections(1).requests(2).with(&options);
    run.run().expect_answers(2);
    let recorded = site.stop().recorded.into_iter();
    let texts = recorded.map(|request| String::from_utf8_lossy(&request).into_owned());
    let calls: Vec<String> = texts.filter(|text| text.contains("Echo/Call")).collect();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(
        calls
            .iter()
            .all(|text| text.contains("grpc-timeout: 1500m")),
        "{calls:?}"
    );
    let site = crate::harness::site();
    for bad in ["0", "x"] {
        let options = call(
            "wrkbench.Echo/Call",
            "--reflection",
            &["--grpc-timeout", bad],
        );
        let output = load(&site).with(&options).output();
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stderr.contains("--grpc-timeout"), "{output:?}");
    }
}
