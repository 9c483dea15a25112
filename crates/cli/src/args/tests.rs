//! Command lines and what becomes of them.

#[cfg(feature = "fleet")]
mod fleets;
mod llm;
mod repeat;
mod sweeps;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use plan::{
    Arrivals, BackendChoice, Body, EventsFormat, EventsSpec, Pacing, Scheme, SourceRange, Stage,
};

use super::*;

const URL: &str = "http://h:1/p";

/// The arguments of a command line, split at blanks; `~` stands for a blank within one.
fn split(line: &str) -> Vec<OsString> {
    line.split_whitespace()
        .map(|word| word.replace('~', " ").into())
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
        Ok(Request::Run(request)) => {
            // wrk says nothing while it runs.
            expected.report.live = false;
            expected.report.text.plain_if_empty = false;
            expected.tool = Some(expected.report.style);
            assert_eq!(*request, expected, "{line:?} as wrk");
        }
        other => panic!("{line:?} as wrk is no run: {other:?}"),
    }
}

fn constant(rate_per_sec: f64) -> Pacing {
    Pacing::Constant {
        rate_per_sec,
        arrivals: Arrivals::Even,
        seed: 0,
    }
}

#[test]
fn a_url_alone_has_the_defaults_of_wrk() {
    let RunRequest {
        plan,
        draws_seed,
        report,
        samples,
        records,
        fleet,
        tool,
        version,
        command_line,
        shown_file,
        note,
    } = run(URL);
    assert_eq!((command_line, shown_file, note), (None, None, None));
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
    let live = OutputOptions {
        live: true,
        text: ::report::TextOptions {
            plain_if_empty: true,
            ..::report::TextOptions::default()
        },
        ..OutputOptions::default()
    };
    assert_eq!(report, live);
    assert_eq!(plan.pacing, Pacing::Closed);
    assert_eq!(report.style, Style::Wrk);
    assert!(!version && !draws_seed && tool.is_none());
    assert_eq!(
        (plan.telemetry, samples, records, fleet),
        (None, None, None, None)
    );
}

#[test]
fn each_option_of_telemetry_sets_its_part_of_the_plan() {
    let watching = |run: &mut RunRequest, sockets: Option<&str>, interval_ms, counters| {
        run.plan.telemetry = Some(plan::TelemetrySpec {
            sockets: sockets.map(str::to_owned),
            interval: Duration::from_millis(interval_ms),
            counters,
        });
    };
    changed("--counters", |run| watching(run, None, 1000, true));
    for line in ["--sockets=", "--sockets= --interval 1s"] {
        changed(line, |run| watching(run, Some(""), 1000, false));
    }
    let line =
        "--sockets sport~=~:80~or~dport~=~:443 --interval 250ms --counters --samples s.jsonl";
    changed(line, |run| {
        let filter = "sport = :80 or dport = :443";
        watching(run, Some(filter), 250, true);
        run.samples = Some("s.jsonl".into());
    });
}

#[test]
fn each_option_of_wrk_sets_its_part_of_the_plan() {
    let seconds = Duration::from_secs;
    for line in [
        "-c100",
        "-c 100",
        "--connections=100",
        "--connecti 100",
        "--connection=100",
        "--connections 100",
        "-c~100",
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
    for line in ["-HX:~y", "-H X:~y", "--header=X:~y", "-H X:y"] {
        changed(line, |run| {
            run.plan.request.headers = vec![("X".into(), "y".into())]
        });
    }
    for line in ["-L", "--latency", "--latency --latency"] {
        changed(line, |run| run.report.text.latency = true);
    }
    for line in ["-T30s", "-T 30", "--timeout 30s", "--timeout=0.5m"] {
        changed(line, |run| run.plan.timeout = seconds(30));
    }
    changed("-v", |run| run.version = true);
    for line in ["-H~", "-H=", "--header="] {
        changed(line, |_| ());
    }
    changed("-T0", |run| run.plan.timeout = Duration::ZERO);
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
    for line in ["--request-file f --seed 7", "--requests f --seed 7"] {
        changed(line, |run| {
            run.plan.request.file = Some(plan::RequestFile {
                seed: 7,
                ..plan::RequestFile::new("f".into())
            });
        });
    }
    changed("--requests=f.http --order weighted", |run| {
        run.draws_seed = true;
        run.plan.request.file = Some(plan::RequestFile {
            order: Some(plan::RequestOrder::Weighted),
            ..plan::RequestFile::new("f.http".into())
        });
    });
    changed("--by-name", |run| run.report.text.by_name = true);
    changed("--no-keepalive", |run| run.plan.load.keepalive = false);
    changed("--requests-per-connection 100", |run| {
        run.plan.load.requests_per_connection = Some(100);
    });
    changed("--connect-rate 2k", |run| {
        run.plan.load.connect_rate_per_sec = Some(2_000);
    });
    changed("--cookies", |run| run.plan.load.cookies = true);
    changed("--idle 500", |run| run.plan.load.idle_connections = 500);
    changed("--events sse", |run| {
        run.plan.events = Some(EventsSpec {
            format: EventsFormat::Sse,
            end_marker: None,
            dialect: None,
        });
    });
    changed("--events lines --events-end END", |run| {
        run.plan.events = Some(EventsSpec {
            format: EventsFormat::Lines,
            end_marker: Some("END".to_owned()),
            dialect: None,
        });
    });
    changed("--events llm --events-dialect ollama", |run| {
        run.plan.events = Some(EventsSpec {
            format: EventsFormat::Llm,
            end_marker: None,
            dialect: Some(plan::Dialect::Ollama),
        });
    });
    changed("--good latency<200ms", |run| {
        run.plan.good = Some("latency<200ms".parse().unwrap());
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
    changed("--wrk-correction", |run| {
        run.report.text.wrk_correction = true
    });
    changed("--percentiles 99.9,50,90%,50", |run| {
        run.report.text.latency = true;
        run.report.text.percentiles = Some(vec![50.0, 90.0, 99.9]);
    });
    changed("--json out.json", |run| {
        run.report.json = Some(JsonTarget::File(PathBuf::from("out.json")));
    });
    changed("--json -", |run| run.report.json = Some(JsonTarget::Stdout));
    for line in ["-q", "--quiet"] {
        changed(line, |run| {
            run.report.quiet = true;
            run.report.live = false;
        });
    }
    changed("--hgrm out.hgrm --hlog out.hlog", |run| {
        run.report.hgrm = Some("out.hgrm".into());
        run.report.hlog = Some("out.hlog".into());
    });
    changed("--strict", |run| run.report.strict = true);
    changed("--tui", |run| run.report.tui = true);
    for (name, style) in [
        ("wrk", Style::Wrk),
        ("wrk2", Style::Wrk2),
        ("cmm", Style::Cmm),
    ] {
        changed(&format!("--style {name}"), |run| {
            run.report.style = style;
            run.report.text.plain_if_empty = false;
        });
    }
}

#[test]
fn each_option_of_wrk2_sets_its_part_of_the_plan() {
    for line in [
        "-R1000",
        "-R 1k",
        "--rate=1000",
        "--rate 1k",
        "-R60k/m",
        "-R5 -R1k",
    ] {
        changed(line, |run| {
            run.plan.pacing = constant(1000.0);
            run.report.style = Style::Wrk2;
        });
    }
    for line in ["-U", "--u_latency", "--u-latency", "-UL"] {
        changed(line, |run| {
            run.report.style = Style::Wrk2;
            run.report.text.uncorrected = true;
            run.report.text.latency = true;
        });
    }
    for line in ["-B", "--batch_latency", "--batch-latency"] {
        changed(line, |run| run.plan.load.batch_latency = true);
    }
}

#[test]
fn each_option_of_wrk_cmm_sets_its_part_of_the_plan() {
    for line in [
        "-b127.0.0.4/30",
        "-b 127.0.0.4/30",
        "--bind-ip=127.0.0.7/30",
    ] {
        changed(line, |run| {
            run.plan.load.source = Some(SourceRange::parse("127.0.0.4/30").unwrap());
            run.report.style = Style::Cmm;
        });
    }
    for line in ["-D4", "-D 4s", "--delay-stats=4000ms"] {
        changed(line, |run| {
            run.plan.warmup = Duration::from_secs(4);
            run.report.style = Style::Cmm;
        });
    }
    changed("--breakout", |run| {
        run.report.text.breakout = true;
        run.report.style = Style::Cmm;
    });
}

#[test]
fn stages_are_a_rate_and_set_the_duration_unless_it_is_given() {
    let stage = |from_per_sec, to_per_sec, seconds| Stage {
        from_per_sec,
        to_per_sec,
        duration: Duration::from_secs(seconds),
    };
    let pacing = Pacing::Stages {
        stages: vec![stage(1000.0, 1000.0, 30), stage(0.0, 5000.0, 60)],
        arrivals: Arrivals::Even,
        seed: 0,
    };
    let expect = |run: &mut RunRequest, seconds| {
        run.plan.pacing = pacing.clone();
        run.plan.stop.duration = Some(Duration::from_secs(seconds));
        run.report.style = Style::Wrk2;
    };
    changed("--stages 1k:30s,0-5k:1m", |run| expect(run, 90));
    changed("--stages 1k:30s,0-5k:1m -d5", |run| expect(run, 5));
    changed("--stages 1k:30s,0-5k:1m -n7", |run| {
        expect(run, 90);
        run.plan.stop.requests = Some(7);
    });
}

#[test]
fn random_arrivals_have_the_given_seed_or_one_is_drawn() {
    let poisson = |seed| Pacing::Constant {
        rate_per_sec: 10.0,
        arrivals: Arrivals::Poisson,
        seed,
    };
    changed("-R10 --arrivals poisson --seed 7", |run| {
        run.plan.pacing = poisson(7);
        run.report.style = Style::Wrk2;
    });
    changed("-R10 --arrivals=poisson", |run| {
        run.plan.pacing = poisson(0);
        run.draws_seed = true;
        run.report.style = Style::Wrk2;
    });
    changed("-R10 --arrivals gamma:.5", |run| {
        run.plan.pacing = Pacing::Constant {
            rate_per_sec: 10.0,
            arrivals: Arrivals::Gamma { shape: 0.5 },
            seed: 0,
        };
        run.draws_seed = true;
        run.report.style = Style::Wrk2;
    });
    for line in [
        "-R10 --arrivals even",
        "-R10 --arrivals poisson --arrivals even",
    ] {
        changed(line, |run| {
            run.plan.pacing = constant(10.0);
            run.report.style = Style::Wrk2;
        });
    }
}

#[test]
fn the_style_follows_from_the_options_the_link_and_the_wish_in_this_order() {
    let style = |dialect, line: &str| match parsed_as(dialect, &format!("{line} {URL}")) {
        Ok(Request::Run(request)) => request.report.style,
        other => panic!("{line:?} is no run: {other:?}"),
    };
    for (line, by_options) in [
        ("-L", Style::Wrk),
        ("-B", Style::Wrk),
        ("--warmup 1s", Style::Wrk),
        ("-U", Style::Wrk2),
        ("-R10", Style::Wrk2),
        ("--stages 1:1s", Style::Wrk2),
        ("-b 127.0.0.1", Style::Cmm),
        ("-D0", Style::Cmm),
        ("--breakout", Style::Cmm),
        ("-D1 -R10", Style::Wrk2),
        ("-b 127.0.0.1 --stages 1:1s", Style::Wrk2),
        ("--breakout -R10", Style::Cmm),
        ("--breakout -U", Style::Cmm),
        ("-R10 --style cmm", Style::Cmm),
        ("--breakout --style wrk", Style::Wrk),
    ] {
        assert_eq!(style(Dialect::Native, line), by_options, "{line:?}");
        assert_eq!(style(Dialect::Wrk, line), by_options, "{line:?}");
    }
    for line in ["-R10", "-R10 --breakout -D1 -b ::1"] {
        assert_eq!(style(Dialect::Wrk2, line), Style::Wrk2, "{line:?}");
        assert_eq!(style(Dialect::Cmm, line), Style::Cmm, "{line:?}");
    }
    assert_eq!(style(Dialect::Wrk2, "-R1 --style wrk"), Style::Wrk);
}

#[test]
fn conditions_are_read_one_by_one_and_in_lists() {
    let conditions = |line: &str| {
        let request = run(line);
        assert_eq!(request.plan.target.url, URL, "{line:?}");
        let texts = request.report.fail_if.iter().map(ToString::to_string);
        texts.collect::<Vec<_>>().join(" ")
    };
    let expected = "p99>50ms errors>0.1% rps<9000";
    for line in [
        "--fail-if p99>50ms --fail-if errors>0.1% --fail-if rps<9000 U",
        "--fail-if p99>50ms errors>0.1% rps<9000 U",
        "U --fail-if p99>50ms errors>0.1% rps<9000",
        "--fail-if=p99>50ms,errors>0.1% rps<9000 U",
        "--fail-if p99>50ms~errors~>~0.1%,rps<9000 U",
        "--fail p99>50ms errors>0.1% -c12 --f rps<9000 U",
        "run --fail-if p99>50ms errors>0.1% rps<9000 U",
    ] {
        assert_eq!(conditions(&line.replace('U', URL)), expected, "{line:?}");
    }
    assert_eq!(
        conditions(&format!("-R9 --fail-if rate<99% {URL}")),
        "rate<99%"
    );
}

#[test]
fn options_are_read_as_getopt_reads_them() {
    changed("--conn=5", |run| run.plan.load.connections = 5);
    changed("--c=5", |run| run.plan.load.connections = 5);
    changed("--co=5", |run| run.plan.load.connections = 5);
    changed("--lat --thr 3 --ti 1m", |run| {
        run.report.text.latency = true;
        run.plan.load.threads = 3;
        run.plan.timeout = Duration::from_secs(60);
    });
    changed("-vLt4", |run| {
        run.version = true;
        run.report.text.latency = true;
        run.plan.load.threads = 4;
    });
    changed("-t12 -c400 -t13 -c500", |run| {
        run.plan.load.threads = 13;
        run.plan.load.connections = 500;
    });
    changed("-H A:~1 -H B:~2 -H A:~3", |run| {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        run.plan.request.headers = vec![pair("A", "1"), pair("B", "2"), pair("A", "3")];
    });
}

#[test]
fn what_was_an_unambiguous_beginning_in_one_of_the_three_tools_still_is() {
    changed("--c 11 --d 5s --s a.lua --l", |run| {
        run.plan.load.connections = 11;
        run.plan.stop.duration = Some(Duration::from_secs(5));
        run.plan.request.script = Some("a.lua".into());
        run.report.text.latency = true;
    });
    changed("--r 5 --b --u", |run| {
        run.plan.pacing = constant(5.0);
        run.plan.load.batch_latency = true;
        run.report.text.latency = true;
        run.report.text.uncorrected = true;
        run.report.style = Style::Wrk2;
    });
    changed("--bi 127.0.0.1 --br --de 1", |run| {
        run.plan.load.source = Some(SourceRange::parse("127.0.0.1").unwrap());
        run.report.text.breakout = true;
        run.plan.warmup = Duration::from_secs(1);
        run.report.style = Style::Cmm;
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
        arguments("-s x http://h/ serve http://i/"),
        ["serve", "http://i/"]
    );
    assert_eq!(
        arguments("http://h/ http:x ftp://i/"),
        ["http:x", "ftp://i/"]
    );
    assert!(!run("http://h/ -- --latency").report.text.latency);
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
fn a_link_named_as_one_of_the_tools_is_always_run() {
    for (argv0, dialect) in [
        ("/usr/local/bin/wrk", Dialect::Wrk),
        ("wrk2", Dialect::Wrk2),
        ("./wrk-cmm", Dialect::Cmm),
        ("wrk3", Dialect::Native),
        ("wrk-cm", Dialect::Native),
    ] {
        assert_eq!(Dialect::of(Some(OsStr::new(argv0))), dialect, "{argv0}");
    }
    assert_eq!(Dialect::of(Some(OsStr::new("wrk"))), Dialect::Wrk);
    assert_eq!(Dialect::of(Some(OsStr::new("wrkbench"))), Dialect::Native);
    assert_eq!(
        Dialect::of(Some(OsStr::new("/wrk/wrkbench"))),
        Dialect::Native
    );
    assert_eq!(Dialect::of(None), Dialect::Native);
    for word in ["serve", "demo", "help", "run"] {
        for dialect in [Dialect::Wrk, Dialect::Wrk2, Dialect::Cmm] {
            let Err(Refusal(message)) = parsed_as(dialect, word) else {
                panic!("{word} is a command of {dialect:?}");
            };
            assert_eq!(
                message,
                format!(
                    "invalid URL: \"{word}\" has no scheme (expected like http://host:port/path)"
                )
            );
        }
    }
}

#[test]
fn what_is_wrong_is_named_with_its_value_and_what_was_expected() {
    for (line, expected) in [
        ("--sockets sports~=~80 U", "--sockets: column "),
        (
            "--samples s.jsonl U",
            "--samples \"s.jsonl\": needs sockets to be sampled (--sockets)",
        ),
        (
            "--sockets= --samples - U",
            "--samples \"-\": only --json can go to stdout (expected a file)",
        ),
        (
            "--sockets= --samples s --json s U",
            "--samples \"s\": is also the file of --json",
        ),
        (
            "--records r U",
            "--records \"r\": the name must end with .jsonl (JSON lines) or .csv",
        ),
        (
            "--records r.json U",
            "--records \"r.json\": the name must end with .jsonl (JSON lines) or .csv; .json is \
             one document, and these are lines",
        ),
        (
            "--records r.csv -o r.csv U",
            "--records \"r.csv\": is also the file of -o",
        ),
        (
            "--records r.csv --json r.csv U",
            "--records \"r.csv\": is also the file of --json",
        ),
        (
            "--interval 2s U",
            "--interval 2s: needs something to watch (--sockets or --counters)",
        ),
        (
            "--counters --interval 9ms U",
            "--interval 9ms: must be at least 10ms",
        ),
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
        (
            "U http://i/",
            "\"http://i/\": a second URL (expected one; arguments after it need a script, -s)",
        ),
        ("U a -- HTTPS://u:p@i/", "\"HTTPS://***@i/\": a second URL"),
        (
            "-d {\"a\":1} U",
            "--duration: \"{\\\"a\\\":1}\" is not a time (expected like 30s, 500ms, 1.5m, 1h30m) \
             (a body is --body here)",
        ),
        (
            "-T application/json U",
            "--timeout: \"application/json\" is not a time (expected like 30s, 500ms, 1.5m, 1h30m) \
             (a content type is",
        ),
        (
            "-k U",
            "-k: unknown option (certificates are verified only with --verify, and \
             connections are kept open by default)",
        ),
        (
            "--insecure U",
            "--insecure: unknown option (certificates are verified only with --verify)",
        ),
        ("-z10s U", "-z: unknown option (the duration is -d here)"),
        (
            "-m POST U",
            "--streams: \"POST\" is not a number (expected like 100, 10k, 1.5M) (the method is \
             -X here)",
        ),
        (
            "replay a.log",
            "no URL to send the requests of the log to (expected like wrkbench replay access.log \
             http://",
        ),
        (
            "replay a.log --log-format %h %l U",
            "invalid URL: \"%l\" has no scheme (expected like http://host:port/path) (put the \
             format of --log-format into single quotes)",
        ),
        (
            "replay a.log --log-format U",
            "no URL to send the requests of the log to (expected like wrkbench replay access.log \
             http://host:port/) (put the format of --log-format into single quotes)",
        ),
        (
            "replay a.log --log-format - [] U",
            "invalid URL: \"[]\" has no scheme (expected like http://host:port/path) (put the \
             format of --log-format into single quotes)",
        ),
        (
            "-O x U",
            "-O: unknown option (use --json FILE or -o FILE to write the result to a file)",
        ),
        ("--qps 100 U", "--qps: unknown option (the rate is -R here)"),
        ("--qps=100 U", "--qps: unknown option (the rate is -R here)"),
        (
            "--concurrency 5 U",
            "--concurrency: unknown option (the number of connections is -c here)",
        ),
        ("-A text/html U", "-A: unknown option (use a header: "),
        (
            "-q 100 U",
            "-q 100: -q is --quiet here, and takes no value (the rate is -R)",
        ),
        (
            "restor",
            "restor: unknown command (did you mean restore? A URL begins with http://)",
        ),
        (
            "swep plan.toml",
            "swep: unknown command (did you mean sweep? A URL",
        ),
        (
            "sweeep",
            "sweeep: unknown command (did you mean sweep? A URL",
        ),
        (
            "tabel x.json",
            "tabel: unknown command (did you mean table? A URL",
        ),
        (
            "h/x",
            "invalid URL: \"h/x\" has no scheme (expected like http://host:port/path)",
        ),
        (
            "-t4 load.toml",
            "\"load.toml\" is not a URL (a file of options comes first: wrkbench load.toml -t4)",
        ),
        (
            "compare old-1.json old-2.json new-1.json",
            "new-1.json: a surplus argument (compare takes two groups: put a pattern into quotes, \
             like 'old-*.json' 'new-*.json')",
        ),
        (
            "serve 23999",
            "23999: a surplus argument (the address is --listen 23999)",
        ),
        (
            "restore folder",
            "folder: a surplus argument (usage: wrkbench restore [OPTIONS] (--help explains it))",
        ),
        (
            "--urls-from-file urls.txt U",
            "--urls-from-file: unknown option (a file of URLs or requests is --requests FILE here)",
        ),
        (
            "--json {\"a\":1} U",
            "--json \"{\\\"a\\\":1}\": is not the name of a file (the result is written to it; a \
             body is --body here)",
        ),
        ("fleet", "usage: wrkbench fleet "),
        ("sweep", "usage: wrkbench sweep "),
        ("compare", "usage: wrkbench compare "),
        ("report", "usage: wrkbench report "),
        ("table", "usage: wrkbench table "),
        ("curl", "usage: wrkbench curl "),
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
            "--io: \"kqueue\" is not a valid value (expected one of auto, uring, epoll)",
        ),
        ("--cert c U", "--cert \"c\": needs the private key (--key)"),
        ("--key k U", "--key \"k\": needs the certificate (--cert)"),
        (
            "--percentiles 50,101 U",
            "--percentiles: \"101\" is not a percentile (expected numbers up to 100, like \
             50,90,99.9)",
        ),
        (
            "--percentiles nan U",
            "--percentiles: \"nan\" is not a percentile (expected numbers up to 100, like \
             50,90,99.9)",
        ),
        ("--latency=5 U", "--latency: takes no value, but got \"5\""),
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
        (
            "versus --records r.csv U U",
            "--records: an option of single runs, not of wrkbench versus (each of many runs would \
             overwrite the file; make the run alone for its records)",
        ),
        (
            "sweep --hgrm=h U",
            "--hgrm: an option of single runs, not of wrkbench sweep (a sweep saves every run \
             itself)",
        ),
        (
            "search --over rate --once U",
            "--once: an option of single runs, not of wrkbench search (a sweep makes runs)",
        ),
        (
            "compare --records r.csv a b",
            "--records: unknown option (--help lists all)",
        ),
        ("-y U", "-y: unknown option (--help lists all)"),
        (
            "--re 5 U",
            "--re: ambiguous (expected one of --requests, --reflection, --requests-per-connection, \
             --request-file, --resolve, --resolve-every, --replay, --records)",
        ),
        (
            "--t 5 U",
            "--t: ambiguous (expected one of --threads, --timeout, --tls-resume, --traceparent, \
             --trace-url, --tui)",
        ),
        (
            "-R 0 U",
            "--rate: \"0\" is zero (expected like 1000, 1.5k, 600/m)",
        ),
        (
            "-R -5 U",
            "--rate: \"-5\" is negative (expected like 1000, 1.5k, 600/m)",
        ),
        (
            "-R 2g U",
            "--rate: \"2g\" is more than a request per nanosecond",
        ),
        (
            "-R 5 --stages 1:1s U",
            "--rate: cannot be used together with --stages",
        ),
        (
            "--stages 1k U",
            "--stages: \"1k\" is not a stage (expected like 1k:30s,5k:1m or 0-5k:1m)",
        ),
        (
            "--stages 0:1s U",
            "--stages: \"0:1s\" has no rate above zero",
        ),
        (
            "--arrivals poisson U",
            "--arrivals: needs a rate (-R or --stages)",
        ),
        ("--seed 5 U", "--seed: needs a rate (-R or --stages)"),
        ("-R5 --seed -1 U", "--seed: \"-1\" is negative"),
        (
            "-R5 --arrivals normal U",
            "--arrivals: \"normal\" is not a way to arrive (expected even, poisson, or gamma:SHAPE \
             with a shape from 0.01 to 1000, like gamma:0.5)",
        ),
        (
            "-D 1 --warmup 1 U",
            "--delay-stats: cannot be used together with --warmup",
        ),
        ("-D x U", "--delay-stats: \"x\" is not a time"),
        (
            "--style nice U",
            "--style: \"nice\" is not a valid value (expected one of wrk, wrk2, cmm)",
        ),
        (
            "-b abc U",
            "--bind-ip: could not parse range: abc (expected an address like 10.0.0.7 or a network \
             like 10.0.0.0/24)",
        ),
        (
            "-b 10.0.0.1/33 U",
            "--bind-ip: invalid mask in range: 10.0.0.1/33 (expected 0 to 32 after the /)",
        ),
        (
            "-b ::1 --unix-socket s U",
            "--bind-ip ::1: a connection to a Unix socket",
        ),
        ("--fail-if U", "--fail-if: "),
        (
            "--fail-if p99>50 U",
            "--fail-if: p99: \"50\" is not a time with its unit",
        ),
        (
            "--fail-if p99>50ms speed<3 U",
            "--fail-if: \"speed\" is not a metric",
        ),
        (
            "--fail-if rate<99% U",
            "--fail-if rate<99%: needs a rate (-R or --stages)",
        ),
        (
            "--hgrm - U",
            "--hgrm \"-\": only --json can go to stdout (expected a file)",
        ),
        (
            "--json a --hlog a U",
            "--hlog \"a\": is also the file of --json",
        ),
        (
            "--hgrm a --hlog a U",
            "--hlog \"a\": is also the file of --hgrm",
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
        ("serve --http3", "--tls: is missing"),
        ("serve --tls --retry", "--http3: is missing"),
        ("serve --tls --grease", "--http3: is missing"),
        (
            "serve --tls --http3 --loss 2",
            "--loss: `2` is not a probability: expected 0 to 1, or 0% to 100%",
        ),
        ("serve --tls --streams-delay 1s", "--http3: is missing"),
        (
            "serve --tls --http3 --http1",
            "--http3: cannot be used together with --http1",
        ),
        (
            "serve --tls --http3 --tls-delay 1ms",
            "--http3: cannot be used together with --tls-delay",
        ),
        (
            "--order random U",
            "--order: needs a request file (--requests FILE)",
        ),
        (
            "--requests f --body x U",
            "--request-file \"f\": cannot be used together with --body",
        ),
        (
            "--requests f -s x.lua U",
            "--request-file \"f\": cannot be used together with -s",
        ),
        (
            "--requests f -X post U",
            "--request-file \"f\": cannot be used together with -X",
        ),
        (
            "--replay f --grpc U",
            "--request-file \"f\": has requests of HTTP, so it cannot be used with --grpc",
        ),
        (
            "--requests f -B --pipeline 2 U",
            "--request-file \"f\": its requests are timed one by one, so leave out -B",
        ),
        (
            "--requests /no/such/file",
            "--request-file /no/such/file: No such file or directory",
        ),
        ("demo -d 5x", "--duration: \"5x\" is not a time"),
        ("completions", "usage: wrkbench completions "),
        (
            "completions tcsh",
            "<SHELL>: \"tcsh\" is not a valid value (expected one of bash, ",
        ),
        (
            "man dance",
            "[COMMAND]: \"dance\" is not a valid value (expected one of run, curl, har, replay, ",
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
fn a_header_option_of_several_lines_is_several_headers() {
    let arguments = ["-H", "A: b\r\nC: d\r\n", URL].map(OsString::from).to_vec();
    match parse(Dialect::Wrk, arguments) {
        Ok(Request::Run(request)) => assert_eq!(
            request.plan.request.headers,
            [("A".into(), "b".into()), ("C".into(), "d".into())]
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_header_with_a_carriage_return_is_refused_in_one_line() {
    let arguments = ["-H", "A: b\rB: c", URL].map(OsString::from).to_vec();
    let Err(Refusal(message)) = parse(Dialect::Native, arguments) else {
        panic!("it was taken")
    };
    assert_eq!(
        message,
        "--header: the value of \"A\" contains a control character"
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
    for (line, has_version) in [("", false), ("-t2", false), ("run", false), ("-v", true)] {
        for dialect in Dialect::ALL {
            let is_ours = dialect == Dialect::Native;
            if (line == "run" && !is_ours) || (line == "-v" && is_ours) {
                continue;
            }
            match parsed_as(dialect, line) {
                Ok(Request::Incomplete { usage, missing }) => {
                    assert!(usage.contains("--connections"), "{usage}");
                    assert_eq!(usage.starts_with("wrk 4."), has_version, "{usage}");
                    assert!(missing.starts_with("no URL"), "{missing}");
                    assert!(!usage.contains("does not have"), "only the tool's: {usage}");
                }
                other => panic!("{line:?} gives {other:?}"),
            }
        }
    }
}

#[test]
fn a_version_that_is_asked_for_is_one_line() {
    for line in [
        "-V",
        "--version",
        "--ver",
        "-v",
        "run -V",
        "-V http://h/",
        "-t2 --version",
    ] {
        match parsed_as(Dialect::Native, line) {
            Ok(Request::Help { text, exit_code: 0 }) => {
                assert!(
                    text.starts_with("wrkbench 0.") && text.lines().count() == 1,
                    "{text}"
                );
            }
            other => panic!("{line:?} gives {other:?}"),
        }
    }
    // As in wrk the run goes on.
    for line in ["-v", "--version", "-V", "--v"] {
        match parsed_as(Dialect::Wrk, &format!("{line} {URL}")) {
            Ok(Request::Run(request)) => assert!(request.version, "{line}"),
            other => panic!("{line:?} gives {other:?}"),
        }
    }
}

#[test]
fn the_version_and_the_usage_through_a_link_are_those_of_the_tool() {
    for (dialect, line, version, option) in [
        (
            Dialect::Wrk,
            "-v",
            "wrk 4.2.0 [",
            "        --latency          Print",
        ),
        (
            Dialect::Wrk,
            "-v -R5",
            "wrk 4.0.0 [",
            "    -L  --latency          Print",
        ),
        (
            Dialect::Wrk,
            "-v --breakout",
            "wrk 4.1.0-42 [",
            "    -b, --bind-ip     <S>",
        ),
        (
            Dialect::Wrk2,
            "-v",
            "wrk 4.0.0 [",
            "    -R, --rate        <T>",
        ),
        (
            Dialect::Cmm,
            "-v",
            "wrk 4.1.0-42 [",
            "    -D  --delay-stats <T>",
        ),
    ] {
        match parsed_as(dialect, line) {
            Ok(Request::Incomplete { usage, .. }) => {
                assert!(usage.starts_with(version), "{line}: {usage}");
                assert!(usage.contains(&format!("\n{option}")), "{line}: {usage}");
            }
            other => panic!("{line:?} gives {other:?}"),
        }
    }
}

#[test]
fn called_as_wrk2_a_rate_is_needed() {
    for (line, missing) in [
        (
            URL,
            "Throughput MUST be specified with the --rate or -R option",
        ),
        ("-t3", "no URL"),
    ] {
        match parsed_as(Dialect::Wrk2, line) {
            Ok(Request::Incomplete { missing: said, .. }) => {
                assert!(said.starts_with(missing), "{said}");
            }
            other => panic!("{line:?} gives {other:?}"),
        }
    }
    // In the order of wrk2: what is wrong elsewhere is said first.
    assert!(parsed_as(Dialect::Wrk2, &format!("-c1 {URL}")).is_err());
    for line in ["-R5", "--stages 5:1s"] {
        let request = parsed_as(Dialect::Wrk2, &format!("{line} {URL}"));
        assert!(
            matches!(request, Ok(Request::Run(_))),
            "{line:?} gives {request:?}"
        );
    }
}

#[test]
fn help_ends_with_0_and_called_as_wrk_with_1() {
    for line in ["--help", "--hel", "-t2 --help", "--help --bogus", "help"] {
        match parsed_as(Dialect::Native, line) {
            Ok(Request::Help { text, exit_code: 0 }) => {
                for part in [
                    "--connections <N>",
                    "serve",
                    "completions",
                    "[default: 10s",
                    "\n  5    with --strict",
                ] {
                    assert!(text.contains(part), "{line:?} lacks {part}:\n{text}");
                }
            }
            other => panic!("{line:?} gives {other:?}"),
        }
    }
    for dialect in [Dialect::Wrk, Dialect::Wrk2, Dialect::Cmm] {
        for line in ["-h", "--help"] {
            match parsed_as(dialect, line) {
                Ok(Request::Help { text, exit_code: 1 }) => {
                    assert!(text.starts_with("Usage: wrk <options> <url>  "), "{text}");
                }
                other => panic!("{line:?} gives {other:?}"),
            }
        }
    }
}

fn help_of(line: &str) -> String {
    match parsed_as(Dialect::Native, line) {
        Ok(Request::Help { text, exit_code: 0 }) => text,
        other => panic!("{line:?} gives {other:?}"),
    }
}

/// The commands that a user sees.
fn commands() -> Vec<String> {
    let declaration = declaration();
    let commands = declaration.get_subcommands();
    commands.map(|c| c.get_name().to_owned()).collect()
}

#[test]
fn the_summary_fits_on_a_screen_and_has_examples_options_and_every_command() {
    for line in ["-h", "-t2 -h", "-hv"] {
        let text = help_of(line);
        assert!(text.lines().count() <= 40, "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        let examples = text.lines().filter(|line| line.starts_with("  wrkbench "));
        assert_eq!(examples.count(), 4, "{text}");
        for part in [
            "\n  -c, --connections <N>",
            "\n  -R, --rate <N>",
            "--help lists all",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        for command in commands() {
            assert!(
                text.contains(&format!("\n  {command} ")),
                "{command} in\n{text}"
            );
        }
    }
}

#[test]
fn the_summary_of_every_command_fits_on_a_screen_and_has_an_example() {
    for command in commands() {
        let text = help_of(&format!("{command} -h"));
        assert!(text.lines().count() <= 40, "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        assert!(text.contains("\nExamples:\n  # "), "{text}");
        assert!(text.contains("\n  -h, --help "), "{text}");
    }
}

/// The long options that a text names.
fn options_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c));
    let options = words.filter(|word| word.len() > 3 && word.starts_with("--"));
    options.map(str::to_owned).collect()
}

#[test]
fn the_summary_of_a_command_lists_its_own_options_and_names_those_of_runs_and_fleets() {
    for command in ["sweep", "versus", "search", "check", "llm", "replay"] {
        let text = help_of(&format!("{command} -h"));
        let (own, groups) = text.split_once("\nMore options, explained by ").unwrap();
        for option in ["--threads", "--cacert", "--fleet", "--nats-seed"] {
            assert!(!own.contains(option), "{option}: {text}");
        }
        for line in [
            "\n  of runs: ",
            "--threads, --connections, --duration",
            "\n  of fleets: ",
            "--fleet, --local",
        ] {
            assert!(groups.contains(line), "{line}: {text}");
        }
    }
    let sweep = help_of("sweep -h");
    for option in ["--dry-run", "--resume", "--results", "--parameter-list"] {
        assert!(sweep.contains(option), "{option}: {sweep}");
    }
}

#[test]
fn everything_that_a_summary_names_is_in_the_long_help() {
    for command in commands() {
        let summary = options_in(&help_of(&format!("{command} -h")));
        let everything = options_in(&help_of(&format!("{command} --help")));
        let missing: Vec<_> = summary.difference(&everything).collect();
        assert!(missing.is_empty(), "{command}: {missing:?}");
    }
    let sweep = options_in(&help_of("sweep --help"));
    for option in ["--nats-seed", "--cacert", "--teardown", "--max-failures"] {
        assert!(sweep.contains(option), "{option}");
    }
}

#[test]
fn the_help_of_a_command_is_the_same_in_all_ways_to_ask_for_it() {
    for command in commands() {
        let everything = help_of(&format!("{command} --help"));
        assert_eq!(help_of(&format!("help {command}")), everything);
        let summary = help_of(&format!("{command} -h"));
        let usage = format!("\nUsage: wrkbench {command} ");
        for text in [&summary, &everything] {
            assert!(
                text.contains(&usage) && text.contains("\nExamples:\n"),
                "{text}"
            );
            assert!(
                !text.contains("--connections")
                    || ["run", "replay", "llm", "sweep", "versus", "search", "check"]
                        .contains(&command.as_str()),
                "{text}"
            );
        }
        assert!(everything.contains("\nExit codes:\n  0  "), "{everything}");
        assert!(
            everything.lines().count() > summary.lines().count(),
            "{everything}"
        );
        let about = |text: &str| text.lines().next().map(str::to_owned);
        assert_eq!(about(&summary), about(&everything));
    }
}

#[test]
fn every_command_prints_the_version_in_one_line() {
    for command in commands() {
        for option in ["-V", "--version"] {
            assert_eq!(help_of(&format!("{command} {option}")), version_line(None));
        }
    }
}

#[test]
fn the_guide_has_exactly_the_commands_in_their_order() {
    assert_eq!(guide::commands(), commands());
}

#[test]
fn examples_are_valid_command_lines() {
    let mut count = 0;
    for command in commands().iter().map(String::as_str).chain([""]) {
        let guide = guide::of(command);
        assert_eq!(guide.command, command);
        for (line, _) in guide.examples {
            let (_, arguments) = line.split_once("wrkbench ").unwrap();
            let arguments = arguments.split(" | ").next().unwrap();
            let arguments = arguments.split(" > ").next().unwrap().split(' ');
            let arguments = arguments.map(|word| word.trim_matches('\''));
            let arguments = arguments.filter(|word| !word.is_empty());
            let request = parse(Dialect::Native, arguments.map(OsString::from).collect());
            assert!(
                !matches!(request, Err(_) | Ok(Request::Help { .. })),
                "{line}: {request:?}"
            );
            count += 1;
        }
    }
    assert!(count > 20);
}

#[test]
fn exit_codes_of_the_program_are_those_of_all_commands() {
    let mut all: Vec<u8> = commands()
        .iter()
        .flat_map(|command| guide::exit_codes(command))
        .map(|(code, _)| code)
        .collect();
    all.sort_unstable();
    all.dedup();
    let of_program: Vec<u8> = guide::exit_codes("")
        .into_iter()
        .map(|(code, _)| code)
        .collect();
    assert_eq!(of_program, all);
}

#[test]
fn the_usage_of_each_tool_has_its_own_lines_and_below_them_every_other_option() {
    for (dialect, lines) in [(Dialect::Wrk, 14), (Dialect::Wrk2, 22), (Dialect::Cmm, 18)] {
        let usage = usage_of(Some(dialect.style().unwrap_or_default()));
        let own: Vec<&str> = usage.lines().take(lines).collect();
        assert!(
            own[lines - 1].starts_with("  Time arguments may"),
            "{usage}"
        );
        let wide = |line: &&&str| line.len() != 54;
        // Of wrk2 one line is longer, of all the last one is shorter.
        let odd = if dialect == Dialect::Wrk2 { 2 } else { 1 };
        assert_eq!(own.iter().filter(wide).count(), odd, "{usage}");

        let rest: Vec<&str> = usage.lines().skip(lines).collect();
        assert!(
            rest.iter().all(|line| line.len() == rest[0].len()),
            "{usage}"
        );
        for long in long_options() {
            let name = format!("--{long} ");
            let has = |line: &&str| line.get(8..).is_some_and(|from| from.starts_with(&name));
            assert_eq!(usage.lines().filter(has).count(), 1, "{long} in\n{usage}");
        }
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
fn the_names_of_protocols_mean_the_same_as_their_options() {
    for (name, option) in [("h1", ""), ("h2", "--http2"), ("h3", "--http3")] {
        let named = run(&format!("--protocol {name} https://localhost/")).plan;
        let given = run(&format!("{option} https://localhost/")).plan;
        assert_eq!(named.load.protocol, given.load.protocol, "{name}");
    }
}

#[test]
fn every_option_is_in_the_table_of_the_contract() {
    let mut known = long_options();
    known.sort();
    let contract = "agents agents-per-place all-methods alpn arrivals at batch_latency bind-ip \
        body body-file breakout by-name cacert call cert connect-rate connect-to connection-stages connections cookies \
        counters delay-stats dns drain duration early-data events events-dialect events-end fail-if fleet fleet-key fleet-name \
        good grpc grpc-timeout \
        header hgrm hlog http2 http3 idle interval io json keep-secrets key label latency local \
        log-format method nats-ca nats-cert nats-creds nats-key nats-seed no-keepalive \
        on-lost once only-place order otlp output percentiles pipeline profile prometheus proto proto-path proto-set protocol proxy proxy-cacert proxy-header proxy-user \
        proxy-verify proxytunnel quiet rate records reflection replay request-file requests \
        requests-per-connection resolve resolve-every samples scrape script seed server server-timing sockets \
        speed stages stream streams strict style threads timeout tls-resume trace-url traceparent tui u_latency unix-socket user verify \
        version warmup warmup-limit wrk-correction";
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
        "(p99|errors|rate|x)[<>=]{1,2}[0-9]{0,3}(ms|%|k)?",
        "[0-9]{1,3}(k|/m)?(-[0-9]{1,3}k?)?:[0-9]{1,2}s?,?",
        proptest::sample::select(long_options()).prop_map(|long| format!("--{long}")),
        Just("serve".to_owned()),
        Just("--".to_owned()),
    ]
}

proptest::proptest! {
    #[test]
    fn any_command_line_is_a_request_or_refused_in_one_line(
        arguments in proptest::collection::vec(any_argument(), 0..8),
        dialect in proptest::sample::select(Dialect::ALL.to_vec()),
    ) {
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
