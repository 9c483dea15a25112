//! Requests of a file that go to several hosts.

use std::collections::BTreeMap;

use origin::{Identity, Options, TlsSettings};
use results::{ErrorKind, RunResult};
use testkit::{Folder, Output, one_line};

use crate::harness::{Call, Site, io_arguments, program, site, site_with};
use crate::judge;
use crate::request_files::received;

fn recording() -> Options {
    Options {
        record_requests: 100_000,
        ..Options::default()
    }
}

/// Runs without a URL, so that requests go to the hosts of the file.
fn output(file: &str, options: &[&str]) -> Output {
    let mut command = program(&["-T2s", "--requests", file]);
    command.args(io_arguments()).args(options);
    Call::of(&command).finish()
}

/// A run whose document is checked.
fn run(folder: &Folder, lines: &str, options: &[&str]) -> RunResult {
    let file = folder.file_with("mix.jsonl", lines);
    let json = folder.file("result.json");
    let output = output(&file, &[options, &["--json", &json]].concat());
    assert_eq!(output.code, Some(0), "{options:?} {output:?}");
    let result = judge::document(&std::fs::read(&json).unwrap());
    judge::report(&result, &output.stdout);
    result
}

/// Three requests in a row: two to one host, one to the other.
fn mix(sites: [&Site; 2], scheme: &str) -> String {
    let [a, b] = sites.map(|site| format!("{scheme}://{}", site.authority()));
    format!(
        "{{\"url\":\"{a}/one\",\"name\":\"one\"}}\n\
         {{\"url\":\"{b}/two?id={{{{seq}}}}\",\"name\":\"two\"}}\n\
         {{\"path\":\"/three\",\"name\":\"three\"}}\n"
    )
}

fn answered(result: &RunResult) -> BTreeMap<&str, u64> {
    let names = result.recording.parts.by_name.iter();
    names.map(|it| (it.name.as_str(), it.answered)).collect()
}

#[test]
fn each_host_gets_its_requests_and_no_others() {
    for options in [
        &[][..],
        &["-R400"],
        &["-R400", "--pipeline", "2"],
        &["--pipeline", "3"],
        &["--no-keepalive"],
        &["-R400", "--no-keepalive"],
        &["--requests-per-connection", "5"],
        &["--http2"],
        &["--http2", "-m3"],
        &["--http2", "-m3", "-R400"],
        &["--cookies"],
        &["--idle", "3"],
    ] {
        let (a, b) = (site_with(recording()), site_with(recording()));
        let lines = mix([&a, &b], "http");
        let options = [&["-t1", "-c4", "-n90"], options].concat();
        let result = run(&a.folder, &lines, &options);
        assert_eq!(result.recording.counters.answered, 90, "{options:?}");
        assert_eq!(result.recording.errors.events(), 0, "{options:?}");
        let expected = [("one", 30), ("three", 30), ("two", 30)];
        assert_eq!(answered(&result), expected.into(), "{options:?}");
        let path = |name: &str| (name.to_owned(), 30);
        assert_eq!(received(a), [path("/one"), path("/three")].into());
        assert_eq!(received(b), [path("/two")].into());
    }
}

#[test]
fn as_many_requests_are_in_flight_as_there_are_connections() {
    let (a, b) = (site(), site());
    let urls = [&a, &b].map(|site| format!("http://{}/?delay=5ms", site.authority()));
    let lines = urls.map(|url| format!("{{\"url\":\"{url}\"}}\n")).concat();
    let result = run(&a.folder, &lines, &["-t2", "-c6", "-d300ms"]);
    let window_ns = u128::from(result.window.duration_ns);
    let busy_ns = result.recording.service_time.sum_ns();
    assert!(
        busy_ns <= 6 * window_ns + 6 * 5_000_000,
        "{busy_ns} {window_ns}"
    );
    assert_eq!(result.recording.counters.connections_opened, 12);
    assert_eq!(result.recording.parts.by_address.len(), 2);
    let of_both: u64 = [&a, &b].map(|site| site.counts().requests).iter().sum();
    assert_eq!(of_both, result.recording.counters.sent);
}

#[test]
fn the_certificate_of_each_host_is_verified_for_its_name() {
    let with_name = |name: &str| {
        let identity = Identity::self_signed(&[name]).unwrap();
        let certificate = identity.certificate_pem.clone();
        let site = site_with(Options {
            tls: Some(TlsSettings::new(identity).config().unwrap()),
            ..recording()
        });
        (site, certificate)
    };
    let ((a, first), (b, second)) = (with_name("a.test"), with_name("b.test"));
    let cacert = a.folder.file_with("both.pem", first + &second);
    let port = |site: &Site| site.authority().rsplit_once(':').unwrap().1.to_owned();
    let (at_a, at_b) = (port(&a), port(&b));
    let lines = |b: &str| {
        format!("{{\"url\":\"https://a.test:{at_a}/\"}}\n{{\"url\":\"https://{b}:{at_b}/\"}}\n")
    };
    let resolve = [("a.test", &at_a), ("b.test", &at_b), ("c.test", &at_b)]
        .map(|(name, port)| format!("--resolve={name}:{port}:127.0.0.1"));
    let mut options = vec!["-t1", "-c2", "--cacert", &cacert];
    options.extend(resolve.iter().map(String::as_str));
    for more in [
        &["-n20"][..],
        &["-n20", "--http2"],
        &["-n20", "--no-keepalive"],
    ] {
        let result = run(&a.folder, &lines("b.test"), &[&options, more].concat());
        assert_eq!(result.recording.counters.answered, 20, "{more:?}");
        assert_eq!(result.recording.errors.events(), 0, "{more:?}");
    }
    let result = run(
        &a.folder,
        &lines("c.test"),
        &[&options[..], &["-d300ms"]].concat(),
    );
    let refused = result
        .recording
        .errors
        .count(ErrorKind::TlsCertificate)
        .events;
    assert!(refused > 0, "{:?}", result.recording.errors);
    for request in b.stop().recorded {
        assert!(!request.windows(6).any(|bytes| bytes == b"c.test"));
    }
}

#[test]
fn a_host_that_fails_does_not_keep_requests_from_the_other() {
    let (a, b) = (site_with(recording()), site_with(recording()));
    let [at_a, at_b] = [&a, &b].map(|site| format!("http://{}", site.authority()));
    let lines = format!(
        "{{\"url\":\"{at_a}/good\",\"name\":\"good\"}}\n\
         {{\"url\":\"{at_b}/bad?fault=fin-before\",\"name\":\"bad\"}}\n"
    );
    for options in [&["-n20"][..], &["-n20", "-R200"], &["-n20", "--http2"]] {
        let result = run(&a.folder, &lines, &[&["-t1", "-c2"], options].concat());
        let good = answered(&result)["good"];
        assert_eq!(good, 10, "{options:?}");
        assert_eq!(result.recording.counters.answered, 10, "{options:?}");
    }
}

#[test]
fn what_is_for_one_host_only_is_refused_in_one_line() {
    let (a, b) = (site(), site());
    let file = a.folder.file_with("mix.jsonl", mix([&a, &b], "http"));
    for (options, expected) in [
        (
            vec!["-x", "127.0.0.1:9"],
            "--proxy: is for runs with one host",
        ),
        (
            vec!["--resolve-every", "1s"],
            "--resolve-every: is for runs with one host",
        ),
        (
            vec!["--connection-stages", "2:1s"],
            "--connection-stages: is for runs with one host",
        ),
        (
            vec!["-c16777215", "-t1"],
            "-c 16777215: with 2 hosts these are more than 16777216 connections",
        ),
    ] {
        let output = output(&file, &options);
        assert_eq!(output.code, Some(1), "{output:?}");
        let line = one_line(&output.stderr);
        assert!(line.contains(expected), "{line}");
    }
    let url = a.url("/");
    let output = output(&file, &["-n1", &url]);
    let line = one_line(&output.stderr);
    let expected = format!(
        "mix.jsonl:2:8: http://{} is not the target of the run, http://{}",
        b.authority(),
        a.authority()
    );
    assert!(line.contains(&expected), "{line}");
    let counts = [&a, &b].map(|site| site.counts().requests);
    assert_eq!(counts, [0, 0], "nothing is sent");
}

#[test]
fn one_exchange_goes_to_the_host_of_the_first_request() {
    let (a, b) = (site_with(recording()), site_with(recording()));
    let [at_a, at_b] = [&a, &b].map(|site| format!("http://{}", site.authority()));
    let lines = format!(
        "{{\"url\":\"{at_a}/rare\",\"weight\":0}}\n{{\"url\":\"{at_b}/often\",\"weight\":9}}\n"
    );
    let lines = lines.replace("\"weight\":0", "\"weight\":1");
    let file = a.folder.file_with("mix.jsonl", lines);
    for seed in 0..8 {
        let once = output(&file, &["--once", "--seed", &seed.to_string()]);
        assert_eq!(once.code, Some(0), "{once:?}");
        let place = if once.stdout.contains("GET /rare") {
            a.authority()
        } else {
            b.authority()
        };
        assert!(
            once.stdout.contains(&format!("* connected to {place}\n")),
            "{once:?}"
        );
        assert!(
            once.stdout.contains(&format!("> Host: {place}\n")),
            "{once:?}"
        );
    }
    assert!(received(b)["/often"] >= 4);
}
