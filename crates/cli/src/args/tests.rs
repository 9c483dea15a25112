//! Command lines and what becomes of them.

use std::path::PathBuf;
use std::time::Duration;

use plan::{BackendChoice, Body, Scheme};

use super::*;

const URL: &str = "http://h:1/p";

/// The arguments of a command line, split at blanks; `_` stands for a blank within one.
fn split(line: &str) -> Vec<OsString> {
    line.split_whitespace()
        .map(|word| word.replace('_', " ").into())
        .collect()
}

fn parsed_as(dialect: Dialect, line: &str) -> Result<Request, Refusal> {
    parse(dialect, split(line))
}

fn run(line: &str) -> RunRequest {
    match parsed_as(Dialect::Native, line) {
        Ok(Request::Run(request)) => *request,
        other => panic!("{line:?} is no run: {other:?}"),
    }
}

fn refusal(line: &str) -> String {
    let Refusal(message) = match parsed_as(Dialect::Native, line) {
        Err(refusal) => refusal,
        Ok(request) => panic!("{line:?} was taken as {request:?}"),
    };
    assert_eq!(message.lines().count(), 1, "{line:?} gives {message:?}");
    message
}

/// What `line` changes in the request of the URL alone.
fn changed(line: &str, change: impl FnOnce(&mut RunRequest)) {
    let mut expected = run(URL);
    change(&mut expected);
    assert_eq!(
        run(&format!("{line} {URL}")),
        expected,
        "{line:?} before the URL"
    );
    assert_eq!(
        run(&format!("{URL} {line}")),
        expected,
        "{line:?} after the URL"
    );
    match parsed_as(Dialect::Wrk, &format!("{line} {URL}")) {
        Ok(Request::Run(request)) => assert_eq!(*request, expected, "{line:?} as wrk"),
        other => panic!("{line:?} as wrk is no run: {other:?}"),
    }
}

#[test]
fn a_url_alone_has_the_defaults_of_wrk() {
    let RunRequest {
        plan,
        report,
        version,
    } = run(URL);
    assert_eq!(plan.target.url, URL);
    assert_eq!(plan.target.scheme, Scheme::Http);
    assert_eq!(
        (plan.load.threads, plan.load.connections, plan.load.pipeline),
        (2, 10, 1)
    );
    assert!(plan.load.keepalive);
    assert_eq!(plan.stop.duration, Some(Duration::from_secs(10)));
    assert_eq!(plan.stop.requests, None);
    assert_eq!(plan.timeout, Duration::from_secs(2));
    assert_eq!(plan.warmup, Duration::ZERO);
    assert_eq!(plan.request, plan::RequestSpec::default());
    assert_eq!(plan.tls, plan::TlsSpec::default());
    assert_eq!(plan.backend, BackendChoice::Auto);
    assert_eq!(report, ReportWish::default());
    assert!(!version);
}

#[test]
fn each_option_of_wrk_sets_its_part_of_the_plan() {
    let seconds = Duration::from_secs;
    for line in [
        "-c100",
        "-c 100",
        "--connections=100",
        "--connections 100",
        "-c_100",
        "-c 0.1k",
    ] {
        changed(line, |run| run.plan.load.connections = 100);
    }
    for line in ["-d30s", "-d 30", "--duration=30S", "--duration 0.5m"] {
        changed(line, |run| run.plan.stop.duration = Some(seconds(30)));
    }
    for line in ["-t4", "-t 4", "--threads=4", "--threads +4"] {
        changed(line, |run| run.plan.load.threads = 4);
    }
    for line in ["-sa.lua", "-s a.lua", "--script=a.lua", "-s b.lua -s a.lua"] {
        changed(line, |run| run.plan.request.script = Some("a.lua".into()));
    }
    for line in ["-HX:_y", "-H X:_y", "--header=X:_y", "-H X:y"] {
        changed(line, |run| {
            run.plan.request.headers = vec![("X".into(), "y".into())]
        });
    }
    for line in ["-L", "--latency", "--latency --latency"] {
        changed(line, |run| run.report.latency = true);
    }
    for line in ["-T30s", "-T 30", "--timeout 30s", "--timeout=0.5m"] {
        changed(line, |run| run.plan.timeout = seconds(30));
    }
    for line in ["-v", "--version"] {
        changed(line, |run| run.version = true);
    }
}

#[test]
fn each_option_of_our_own_sets_its_part_of_the_plan() {
    changed("-n5k", |run| {
        run.plan.stop = plan::Stop {
            duration: None,
            requests: Some(5_000),
        };
    });
    changed("--requests 5 -d 1m", |run| {
        run.plan.stop = plan::Stop {
            duration: Some(Duration::from_secs(60)),
            requests: Some(5),
        };
    });
    for line in ["-XPUT", "--method PUT", "--request=PUT"] {
        changed(line, |run| run.plan.request.method = Some("PUT".into()));
    }
    changed("--body {\"a\":1}", |run| {
        run.plan.request.body = Some(Body::Inline(b"{\"a\":1}".to_vec()));
    });
    changed("--body -", |run| {
        run.plan.request.body = Some(Body::Inline(b"-".to_vec()))
    });
    changed("--body-file f", |run| {
        run.plan.request.body = Some(Body::File("f".into()))
    });
    changed("--no-keepalive", |run| run.plan.load.keepalive = false);
    changed("--requests-per-connection 100", |run| {
        run.plan.load.requests_per_connection = Some(100);
    });
    changed("--pipeline 16", |run| run.plan.load.pipeline = 16);
    changed("--unix-socket /run/s", |run| {
        run.plan.target.unix_socket = Some("/run/s".into())
    });
    changed("--warmup 500ms", |run| {
        run.plan.warmup = Duration::from_millis(500)
    });
    changed("--io uring", |run| run.plan.backend = BackendChoice::Uring);
    changed("--io=epoll", |run| run.plan.backend = BackendChoice::Epoll);
    changed("--io epoll --io auto", |_| ());
    changed("--verify", |run| run.plan.tls.verify = true);
    changed("--cacert ca.pem", |run| {
        run.plan.tls.verify = true;
        run.plan.tls.cacert = Some("ca.pem".into());
    });
    changed("--cert c.pem --key k.pem", |run| {
        run.plan.tls.cert = Some("c.pem".into());
        run.plan.tls.key = Some("k.pem".into());
    });
    changed("--wrk-correction", |run| run.report.wrk_correction = true);
    changed("--percentiles 99.9,50,90%,50", |run| {
        run.report.latency = true;
        run.report.percentiles = Some(vec![50.0, 90.0, 99.9]);
    });
    changed("--json out.json", |run| {
        run.report.json = Some(JsonTarget::File(PathBuf::from("out.json")));
    });
    changed("--json -", |run| run.report.json = Some(JsonTarget::Stdout));
    for line in ["-q", "--quiet"] {
        changed(line, |run| run.report.quiet = true);
    }
}

#[test]
fn options_are_read_as_getopt_reads_them() {
    changed("--conn=5", |run| run.plan.load.connections = 5);
    changed("--c=5", |run| run.plan.load.connections = 5);
    changed("--lat --thr 3 --ti 1m", |run| {
        run.report.latency = true;
        run.plan.load.threads = 3;
        run.plan.timeout = Duration::from_secs(60);
    });
    changed("--v", |run| run.version = true);
    changed("-vLt4", |run| {
        run.version = true;
        run.report.latency = true;
        run.plan.load.threads = 4;
    });
    changed("-t12 -c400 -t13 -c500", |run| {
        run.plan.load.threads = 13;
        run.plan.load.connections = 500;
    });
    changed("-H A:_1 -H B:_2 -H A:_3", |run| {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        run.plan.request.headers = vec![pair("A", "1"), pair("B", "2"), pair("A", "3")];
    });
}

#[test]
fn what_follows_the_url_goes_to_the_script() {
    let arguments = |line: &str| run(line).plan.request.script_args;
    assert_eq!(arguments("http://h/ a b"), ["a", "b"]);
    assert_eq!(arguments("http://h/ a -t1 b"), ["a", "b"]);
    assert_eq!(arguments("http://h/ -- -a --latency"), ["-a", "--latency"]);
    assert_eq!(arguments("-c5 -- http://h/ -a"), ["-a"]);
    assert_eq!(
        arguments("http://h/ serve http://i/"),
        ["serve", "http://i/"]
    );
    assert!(!run("http://h/ -- --latency").report.latency);
    assert_eq!(run("http://h/ a -c7 -- -c8").plan.load.connections, 7);
}

#[test]
fn the_command_run_takes_the_same_options() {
    assert_eq!(
        run(&format!("run -t1 -c3 --conn 4 -c5 {URL} x")),
        run(&format!("-t1 -c5 {URL} x"))
    );
}

#[test]
fn a_link_named_wrk_is_always_run() {
    assert_eq!(
        Dialect::of(Some(OsStr::new("/usr/local/bin/wrk"))),
        Dialect::Wrk
    );
    assert_eq!(Dialect::of(Some(OsStr::new("wrk"))), Dialect::Wrk);
    assert_eq!(Dialect::of(Some(OsStr::new("wrkbench"))), Dialect::Native);
    assert_eq!(
        Dialect::of(Some(OsStr::new("/wrk/wrkbench"))),
        Dialect::Native
    );
    assert_eq!(Dialect::of(None), Dialect::Native);
    for word in ["serve", "demo", "help", "run"] {
        let Err(Refusal(message)) = parsed_as(Dialect::Wrk, word) else {
            panic!("{word} is a command of wrk");
        };
        assert_eq!(
            message,
            format!("invalid URL: \"{word}\" has no scheme (expected like http://host:port/path)")
        );
    }
}

#[test]
fn what_is_wrong_is_named_with_its_value_and_what_was_expected() {
    for (line, expected) in [
        (
            "-c 10x U",
            "--connections: \"10x\" is not a number (expected like 100, 10k, 1.5M)",
        ),
        (
            "-c -5 U",
            "--connections: \"-5\" is negative (expected like 100, 10k, 1.5M)",
        ),
        (
            "-c -t U",
            "--connections: \"-t\" is not a number (expected like 100, 10k, 1.5M)",
        ),
        (
            "-c 5G U",
            "--connections: \"5G\" is too large (expected like 100, 10k, 1.5M)",
        ),
        (
            "-c 0 U",
            "--connections 0: number of connections must be >= threads (2)",
        ),
        (
            "-t4 -c2 U",
            "--connections 2: number of connections must be >= threads (4)",
        ),
        ("-t0 U", "--threads 0: must be from 1 to 4096"),
        (
            "-t x U",
            "--threads: \"x\" is not a number (expected like 100, 10k, 1.5M)",
        ),
        (
            "-d 1d U",
            "--duration: \"1d\" is not a time (expected like 30s, 500ms, 1.5m, 1h30m)",
        ),
        (
            "-d -5s U",
            "--duration: \"-5s\" is negative (expected like 30s, 500ms, 1.5m, 1h30m)",
        ),
        ("-d 0 U", "--duration 0: must be longer than 0"),
        ("-T 0 U", "--timeout 0: must be longer than 0"),
        (
            "-T 5d U",
            "--timeout: \"5d\" is not a time (expected like 30s, 500ms, 1.5m, 1h30m)",
        ),
        (
            "--warmup x U",
            "--warmup: \"x\" is not a time (expected like 30s, 500ms, 1.5m, 1h30m)",
        ),
        ("-n 0 U", "--requests 0: must be at least 1"),
        (
            "-n 1.5 U",
            "--requests: \"1.5\" is not a whole number (expected like 100, 10k, 1.5M)",
        ),
        ("--pipeline 0 U", "--pipeline 0: must be from 1 to 65536"),
        (
            "--requests-per-connection 0 U",
            "--requests-per-connection 0: must be at least 1",
        ),
        (
            "--no-keepalive --requests-per-connection 5 U",
            "--no-keepalive: cannot be used together with --requests-per-connection",
        ),
        (
            "-H NoColon U",
            "--header: \"NoColon\" has no colon (expected \"Name: value\")",
        ),
        (
            "-X G/T U",
            "--method \"G/T\": is not a method (expected a token like GET or POST)",
        ),
        (
            "--body a --body-file b U",
            "--body: cannot be used together with --body-file",
        ),
        (
            "--io kqueue U",
            "--io: \"kqueue\" is not known (expected one of auto, uring, epoll)",
        ),
        ("--cert c U", "--cert \"c\": needs the private key (--key)"),
        ("--key k U", "--key \"k\": needs the certificate (--cert)"),
        (
            "--percentiles 50,101 U",
            "--percentiles: \"101\" is not a percentile (expected numbers up to 100, like 50,90,99.9)",
        ),
        (
            "--percentiles nan U",
            "--percentiles: \"nan\" is not a percentile (expected numbers up to 100, like 50,90,99.9)",
        ),
        ("--latency=5 U", "--latency: takes no value, and has \"5\""),
        ("-c", "--connections: needs a value"),
        ("-s", "--script: needs a value"),
        (
            "--frobnicate U",
            "--frobnicate: unknown option (--help lists all)",
        ),
        (
            "--conections 5 U",
            "--conections: unknown option (did you mean --connections?)",
        ),
        ("-z U", "-z: unknown option (--help lists all)"),
        (
            "--re 5 U",
            "--re: ambiguous (expected one of --requests, --requests-per-connection)",
        ),
        (
            "--t 5 U",
            "--t: ambiguous (expected one of --threads, --timeout)",
        ),
        (
            "sweeep",
            "invalid URL: \"sweeep\" has no scheme (expected like http://host:port/path)",
        ),
        (
            "ftp://h/",
            "invalid URL: \"ftp://h/\": scheme \"ftp\" is not supported (expected http or https)",
        ),
        (
            "serve --listen nowhere",
            "--listen: `nowhere` is not an address",
        ),
        ("serve --connections 5", "--connections: unknown option"),
        ("serve extra", "extra: "),
        ("demo -d 5x", "--duration: \"5x\" is not a time"),
        ("completions", "<SHELL>: is missing"),
        (
            "completions tcsh",
            "<SHELL>: \"tcsh\" is not known (expected one of bash, ",
        ),
        (
            "man dance",
            "[COMMAND]: \"dance\" is not known (expected one of run, serve, ",
        ),
    ] {
        let message = refusal(&line.replace('U', URL));
        assert!(
            message.starts_with(expected),
            "{line:?} gives {message:?}, not {expected:?}"
        );
    }
}

#[test]
fn a_header_with_a_line_feed_is_refused_in_one_line() {
    let arguments = ["-H", "A: b\r\nB: c", URL].map(OsString::from).to_vec();
    let Err(Refusal(message)) = parse(Dialect::Native, arguments) else {
        panic!("it was taken")
    };
    assert_eq!(
        message,
        "--header: the value of \"A\" contains CR, LF or NUL"
    );
}

#[test]
fn an_option_with_a_line_feed_is_refused_in_one_line() {
    let arguments = ["--a\nb", URL].map(OsString::from).to_vec();
    let Err(Refusal(message)) = parse(Dialect::Native, arguments) else {
        panic!("it was taken")
    };
    assert_eq!(message, "--a?b: unknown option (--help lists all)");
}

#[test]
fn an_argument_that_is_not_utf8_is_refused_unless_it_is_a_path() {
    use std::os::unix::ffi::OsStringExt;
    let odd = || OsString::from_vec(b"a\xff".to_vec());
    for arguments in [
        vec![odd()],
        vec![URL.into(), odd()],
        vec!["-c".into(), odd(), URL.into()],
        vec!["--body".into(), odd(), URL.into()],
    ] {
        let Err(Refusal(message)) = parse(Dialect::Native, arguments) else {
            panic!("taken")
        };
        assert!(message.contains("not UTF-8"), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    match parse(Dialect::Native, vec!["-s".into(), odd(), URL.into()]) {
        Ok(Request::Run(request)) => assert_eq!(request.plan.request.script, Some(odd().into())),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_a_url_the_usage_is_shown_and_the_version_before_it() {
    for (line, expected) in [("", false), ("-t2", false), ("run", false), ("-v", true)] {
        for dialect in [Dialect::Native, Dialect::Wrk] {
            if (line, dialect) == ("run", Dialect::Wrk) {
                continue;
            }
            match parsed_as(dialect, line) {
                Ok(Request::NoUrl { usage, version }) => {
                    assert!(usage.contains("--connections"), "{usage}");
                    assert_eq!(version, expected);
                }
                other => panic!("{line:?} gives {other:?}"),
            }
        }
    }
}

#[test]
fn help_ends_with_0_and_called_as_wrk_with_1() {
    for line in [
        "-h",
        "--help",
        "--hel",
        "-t2 --help",
        "--help --bogus",
        "help",
    ] {
        match parsed_as(Dialect::Native, line) {
            Ok(Request::Help { text, exit_code: 0 }) => {
                for part in ["--connections <N>", "serve", "completions", "[default: 10s"] {
                    assert!(text.contains(part), "{line:?} lacks {part}:\n{text}");
                }
            }
            other => panic!("{line:?} gives {other:?}"),
        }
    }
    for line in ["-h", "--help"] {
        match parsed_as(Dialect::Wrk, line) {
            Ok(Request::Help { text, exit_code: 1 }) => {
                assert!(text.starts_with("Usage: wrk <options> <url>  "), "{text}");
            }
            other => panic!("{line:?} gives {other:?}"),
        }
    }
    match parsed_as(Dialect::Native, "serve --help") {
        Ok(Request::Help { text, exit_code: 0 }) => {
            assert!(
                text.contains("--listen") && !text.contains("--connections"),
                "{text}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_usage_of_wrk_has_every_option_in_lines_of_one_width() {
    let usage = usage_of(Dialect::Wrk);
    let widths: Vec<usize> = usage.lines().map(|line| line.chars().count()).collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "{usage}");
    assert!(usage.contains("\n    -c, --connections "), "{usage}");
    for long in long_options() {
        assert!(
            usage.contains(&format!("--{long} ")),
            "{long} is missing in\n{usage}"
        );
    }
}

fn long_options() -> Vec<String> {
    RunArgs::command()
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_option_is_in_the_table_of_the_contract() {
    let mut known = long_options();
    known.sort();
    let contract = "body body-file cacert cert connections duration header io json key latency \
        method no-keepalive percentiles pipeline quiet requests requests-per-connection script \
        threads timeout unix-socket verify version warmup wrk-correction";
    assert_eq!(known, contract.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn the_declaration_holds_together() {
    declaration().debug_assert();
    with_common_settings(RunArgs::command()).debug_assert();
}

/// Pieces that command lines are made of, good and bad.
fn any_argument() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    prop_oneof![
        Just(URL.to_owned()),
        "-[a-zA-Z?]{1,3}[0-9]{0,3}",
        "--[a-z-]{0,12}=?[0-9a-z]{0,3}",
        "[0-9.]{1,30}[a-zA-Z]{0,2}",
        "\\PC{0,12}",
        proptest::sample::select(long_options()).prop_map(|long| format!("--{long}")),
        Just("serve".to_owned()),
        Just("--".to_owned()),
    ]
}

proptest::proptest! {
    #[test]
    fn any_command_line_is_a_request_or_refused_in_one_line(
        arguments in proptest::collection::vec(any_argument(), 0..8),
        as_wrk in proptest::bool::ANY,
    ) {
        let dialect = if as_wrk { Dialect::Wrk } else { Dialect::Native };
        match parse(dialect, arguments.into_iter().map(OsString::from).collect()) {
            Ok(Request::Run(request)) => proptest::prop_assert_eq!(request.plan.check(), Ok(())),
            Ok(_) => (),
            Err(Refusal(line)) => {
                proptest::prop_assert!(!line.is_empty());
                proptest::prop_assert_eq!(line.lines().count(), 1, "{}", line);
            }
        }
    }
}
