//! Wrong input: one line, exit code 1, nothing on stdout, nothing started.

use std::os::unix::fs::PermissionsExt;

use testkit::{Process, one_line};

use crate::harness::{call, program, site};

const COUNT: &str = "(expected like 100, 10k, 1.5M)";
const TIME: &str = "(expected like 30s, 500ms, 1.5m, 1h30m)";
const URL: &str = "(expected like http://host:port/path)";

/// Arguments before a valid URL, and the message after the name of the program.
fn wrong_options() -> Vec<(Vec<&'static str>, String)> {
    let text = |line: &str| line.to_owned();
    vec![
        (
            vec!["-c", "0"],
            text("--connections 0: number of connections must be >= threads (2)"),
        ),
        (
            vec!["-c", "-5"],
            format!("--connections: \"-5\" is negative {COUNT}"),
        ),
        (
            vec!["-cabc"],
            format!("--connections: \"abc\" is not a number {COUNT}"),
        ),
        (
            vec!["-c", "99999999999"],
            format!("--connections: \"99999999999\" is too large {COUNT}"),
        ),
        (
            vec!["-c", ""],
            format!("--connections: \"\" is not a number {COUNT}"),
        ),
        (vec!["-t", "0"], text("--threads 0: must be from 1 to 4096")),
        (
            vec!["-t20"],
            text("--connections 10: number of connections must be >= threads (20)"),
        ),
        (vec!["-d", "0"], text("--duration 0: must be longer than 0")),
        (
            vec!["-d", "5x"],
            format!("--duration: \"5x\" is not a time {TIME}"),
        ),
        (
            vec!["--dur", "-1s"],
            format!("--duration: \"-1s\" is negative {TIME}"),
        ),
        (
            vec!["-d99999999999999999h"],
            format!("--duration: \"99999999999999999h\" is too large {TIME}"),
        ),
        (vec!["-n", "0"], text("--requests 0: must be at least 1")),
        (
            vec!["-n-1"],
            format!("--requests: \"-1\" is negative {COUNT}"),
        ),
        (
            vec!["-k"],
            text(
                "-k: unknown option (certificates are verified only with --verify, and connections \
                 are kept open by default)",
            ),
        ),
        (
            vec!["-z", "10s"],
            text("-z: unknown option (the duration is -d here)"),
        ),
        (
            vec!["--warmup", "x"],
            format!("--warmup: \"x\" is not a time {TIME}"),
        ),
        (
            vec!["-H", "foo"],
            text("--header: \"foo\" has no colon (expected \"Name: value\")"),
        ),
        (
            vec!["-H", "A: b\rC: d"],
            text("--header: the value of \"A\" contains a control character"),
        ),
        (
            vec!["-X", "A B"],
            text("--method \"A B\": is not a method (expected a token like GET or POST)"),
        ),
        (
            vec!["--body=a", "--body-file=b"],
            text("--body: cannot be used together with --body-file"),
        ),
        (
            vec!["--pipeline", "0"],
            text("--pipeline 0: must be from 1 to 65536"),
        ),
        (
            vec!["--pipeline=5", "--no-keepalive"],
            text("--pipeline 5: must not exceed the requests per connection"),
        ),
        (
            vec!["--requests-per-connection=0"],
            text("--requests-per-connection 0: must be at least 1"),
        ),
        (
            vec!["--percentiles", "50,101"],
            text(
                "--percentiles: \"101\" is not a percentile (expected numbers up to 100, like \
                 50,90,99.9)",
            ),
        ),
        (
            vec!["--io", "kqueue"],
            text("--io: \"kqueue\" is not a valid value (expected one of auto, uring, epoll)"),
        ),
        (
            vec!["--cert", "a"],
            text("--cert \"a\": needs the private key (--key)"),
        ),
        (
            vec!["--key", "a"],
            text("--key \"a\": needs the certificate (--cert)"),
        ),
        (
            vec!["--json", "/no/dir/x"],
            text("--json \"/no/dir/x\": there is no directory \"/no/dir\" (create it first)"),
        ),
        (
            vec!["--json", "/"],
            text("--json \"/\": is a directory (expected a file)"),
        ),
        (vec!["-s", ""], text("--script: needs a value")),
        (vec!["-Z"], text("-Z: unknown option (--help lists all)")),
        (
            vec!["--bogus"],
            text("--bogus: unknown option (--help lists all)"),
        ),
        (
            vec!["--latency=yes"],
            text("--latency: takes no value, but got \"yes\""),
        ),
    ]
}

#[test]
fn a_wrong_option_is_one_line_that_names_it() {
    let site = site();
    for (arguments, expected) in wrong_options() {
        for name in ["wrkbench", "wrk"] {
            let url = site.url("/");
            let output = call(&arguments).with(&[url]).named(name).finish();
            assert_eq!(
                output.only_line(),
                format!("{name}: {expected}"),
                "{arguments:?}"
            );
        }
    }
    assert_eq!(site.counts().connections, 0);
}

#[test]
fn a_wrong_url_is_one_line_that_shows_it() {
    for (url, expected) in [
        ("host/80/", format!("\"host/80/\" has no scheme {URL}")),
        (
            "ftp://h/",
            "\"ftp://h/\": scheme \"ftp\" is not supported (expected http or \
            https)"
                .to_owned(),
        ),
        ("http://", format!("\"http://\" has no host {URL}")),
        ("http:///x", format!("\"http:///x\" has no host {URL}")),
        (
            "http://h:99999/",
            "\"http://h:99999/\": \"99999\" is not a port (expected 1 to \
            65535)"
                .to_owned(),
        ),
        (
            "http://h/a b",
            "\"http://h/a b\" contains a space or a control character (write a space as \
             %20)"
                .to_owned(),
        ),
        (
            "http://[::1/",
            "\"http://[::1/\": \"[::1\" is not a host (expected a name, an IPv4 address, or an \
             IPv6 \
             address in brackets)"
                .to_owned(),
        ),
    ] {
        let output = call(&["-c1", "-t1", url]).finish();
        assert_eq!(
            output.only_line(),
            format!("wrkbench: invalid URL: {expected}")
        );
    }
}

#[test]
fn wrong_input_of_other_commands_is_one_line() {
    for (arguments, expected) in [
        (
            &["serve", "-l", "x"][..],
            "--listen: `x` is not an address: expected HOST:PORT, [IPV6]:PORT, PORT or unix:PATH",
        ),
        (
            &["serve", "--threads", "0"],
            "serve: 0 threads: expected 1 to 64",
        ),
        (
            &["serve", "--answer", "bogus"],
            "--answer: `bogus` is not a parameter; `wrkbench serve --help` lists them",
        ),
        (
            &["completions", "csh"],
            "<SHELL>: \"csh\" is not a valid value (expected one of bash, elvish, fish, \
             powershell, zsh)",
        ),
        (
            &["man", "x"],
            "[COMMAND]: \"x\" is not a valid value (expected one of run, curl, har, replay, llm, \
             serve, demo, sweep, versus, search, check, table, report, compare, grpc, sockets, restore, \
             agent, fleet, completions, man)",
        ),
        (&["demo", "-d0"], "--duration 0: must be longer than 0"),
        (
            &["demo", "-o", "x.json"],
            "-o \"x.json\": is not the name of a page (expected like demo.html)",
        ),
        (
            &["demo", "--json", "x.html"],
            "-o \"x.html\": is also the file of --json",
        ),
    ] {
        let output = call(arguments).finish();
        assert_eq!(output.only_line(), format!("wrkbench: {expected}"));
    }
}

#[test]
fn a_thread_that_cannot_be_made_is_one_line() {
    let site = site();
    let folder = site.folder.path().display().to_string();
    for (options, expected) in [
        (&["--io", "epoll"][..], "unable to create thread 0: "),
        (&["--io", "auto"], "unable to create thread 0: "),
        (&["--io", "uring"], "--io uring: "),
        (
            &["--otlp", "http://127.0.0.1:9"],
            "--otlp: cannot start the thread that sends to the collector: ",
        ),
        (&["--stream", "stream.jsonl"], "--stream"),
    ] {
        let mut command = program(&[]);
        // No thread can have such a stack: it is larger than the addresses of a process.
        command.env("RUST_MIN_STACK", (1_u64 << 48).to_string());
        command.current_dir(&folder).args(["-t1", "-c1", "-d1s"]);
        let output = Process::start({
            command.args(options).arg(site.url("/"));
            command
        })
        .finish();
        assert_eq!(output.code, Some(1), "{options:?}: {output:?}");
        // The banner is there before the threads.
        let line = one_line(&output.stderr);
        assert!(line.contains(expected), "{options:?}: {output:?}");
    }
    assert_eq!(site.counts().requests, 0);
}

#[test]
fn an_error_repeats_only_the_beginning_of_a_long_input() {
    let site = site();
    let long = "x".repeat(5000);
    let long = long.as_str();
    let url = &*site.url("/");
    let experiment = site.folder.file_with("e.toml", format!("{long} = 1\n"));
    let requests = site
        .folder
        .file_with("r.jsonl", format!("{{\"{long}\": 1}}\n"));
    for arguments in [
        &[long][..],
        &["-c", long, url],
        &[&format!("--{long}"), url],
        &["-H", long, url],
        &["--percentiles", long, url],
        &["--io", long, url],
        &["-s", long, url],
        &[&format!("http://h/{long}\u{1}")],
        &["compare", "--format", long],
        &["sweep", &experiment],
        &["--requests", &requests, url],
    ] {
        let output = call(arguments).finish();
        assert_eq!(output.code, Some(1), "{output:?}");
        let repeated = output.stderr.split(|c| c != 'x').map(str::len).max();
        assert!(
            repeated <= Some(200) && !output.stderr.is_empty(),
            "{output:?}"
        );
    }
    assert_eq!(site.counts().requests, 0);
}

#[test]
fn a_read_only_file_is_not_replaced_by_a_result() {
    let site = site();
    let file = site.folder.file_with("r.json", "kept");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o444)).unwrap();
    for option in ["--json", "--hgrm", "--hlog", "--stream"] {
        let output = call(&["-d1s", option, &file, &site.url("/")]).finish();
        let expected = "is read-only: make it writable (chmod u+w), or choose another path";
        assert!(output.only_line().contains(expected), "{output:?}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    assert_eq!(site.counts().requests, 0);
}
