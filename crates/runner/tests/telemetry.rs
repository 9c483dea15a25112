//! Sockets and counters are sampled during a run, and the summary is part of the result.

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plan::{Load, RunPlan, Stop, Target, TelemetrySpec};
use results::{RunResult, Telemetry};
use runner::{Invocation, RunObservers, RunnerError};
use serde_json::Value;

const CONNECTIONS: u64 = 4;

fn server() -> origin::Server {
    let options = origin::Options {
        // Rings are left to the run, because all rings of a user share one limit.
        backend: origin::Backend::Epoll,
        ..origin::Options::default()
    };
    origin::Server::start(options).expect("loopback is there")
}

fn plan(server: &origin::Server, telemetry: TelemetrySpec) -> RunPlan {
    let target = Target::parse(&server.url()).expect("the server knows its URL");
    RunPlan {
        load: Load {
            threads: 2,
            connections: CONNECTIONS as u32,
            ..Load::default()
        },
        stop: Stop {
            duration: Some(Duration::from_millis(400)),
            requests: None,
        },
        warmup: Duration::from_millis(100),
        timeout: Duration::from_secs(30),
        telemetry: Some(telemetry),
        ..RunPlan::new(target)
    }
}

fn spec(sockets: Option<String>) -> TelemetrySpec {
    TelemetrySpec {
        sockets,
        interval: Duration::from_millis(50),
        counters: true,
    }
}

/// Only the sockets of this server's side.
fn of(server: &origin::Server) -> Option<String> {
    let url = server.url();
    let port = Target::parse(&url).expect("it is a URL").service;
    Some(format!("sport = :{port}"))
}

#[derive(Debug, Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics").write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Broken;

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn run(plan: RunPlan, samples: Option<Box<dyn Write + Send>>) -> (RunResult, Telemetry) {
    let prepared = runner::prepare(plan, Invocation::default()).expect("nothing is missing");
    let mut finished = prepared
        .run(
            &AtomicBool::new(false),
            RunObservers {
                samples,
                observer: None,
                records: None,
            },
        )
        .expect("the engine starts");
    finished.settle();
    assert_eq!(finished.failure(), None);
    let telemetry = finished.result.telemetry.clone();
    (finished.result, telemetry.expect("it was asked for"))
}

/// All connections, and possibly the one that the preparation has made: on a busy machine, the
/// server may not have closed its end yet.
fn assert_all_connections(sockets: u64) {
    assert!(
        (CONNECTIONS..=CONNECTIONS + 1).contains(&sockets),
        "{sockets}"
    );
}

#[test]
fn the_servers_sockets_are_summarized_over_the_window_and_written_as_lines() {
    let server = server();
    let page = Page::default();
    let plan = plan(&server, spec(of(&server)));
    let (result, telemetry) = run(plan, Some(Box::new(page.clone())));
    assert_eq!(telemetry.notes, Vec::<String>::new());
    assert_eq!(telemetry.interval_ns, 50_000_000);
    assert!(telemetry.samples >= 2, "{telemetry:?}");
    assert!(telemetry.cpu_ns.is_some_and(|cpu_ns| cpu_ns > 0));

    let sockets = telemetry.sockets.expect("they were asked for");
    assert_all_connections(sockets.sockets);
    // The server sent what the client received, except for what was on its way and for the time
    // that samples take. If the warm-up were counted or a sum were doubled, it would be more than
    // that.
    let bytes = result.recording.counters.bytes as f64;
    let sent = sockets.bytes_sent.expect("this kernel counts them") as f64;
    assert!((0.5..1.2).contains(&(sent / bytes)), "{sent} of {bytes}");
    assert!(sockets.bytes_received.is_some_and(|bytes| bytes > 0));
    assert!(sockets.cwnd.is_some_and(|cwnd| cwnd.min >= 1.0));
    assert!(sockets.rtt_us.is_some_and(|rtt| rtt.max > 0.0));
    assert_eq!(sockets.listen_drops, Some(0));
    assert!(sockets.listen_queue_max.is_some());
    for name in ["Tcp.InSegs", "TcpExt.ListenDrops", "stat.cpu_user_ms"] {
        assert!(telemetry.counters.contains_key(name), "{name} is missing");
    }

    let bytes = page.0.lock().expect("nobody panics").clone();
    let text = String::from_utf8(bytes).expect("JSON is UTF-8");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect();
    let samples = lines.iter().filter(|line| line.get("sockets").is_some());
    assert_eq!(samples.count() as u64, telemetry.samples);
    let first = lines.first().expect("there is one");
    let times: Vec<_> = lines.iter().map(|line| line["at_ms"].as_u64()).collect();
    assert!(times.is_sorted() && times[0].is_some(), "{times:?}");
    let states: Vec<_> = first["sockets"]
        .as_array()
        .expect("it is a list")
        .iter()
        .filter_map(|socket| socket["state"].as_str())
        .collect();
    let count = |wanted| states.iter().filter(|state| **state == wanted).count() as u64;
    assert_eq!(
        (count("ESTAB"), count("LISTEN")),
        (CONNECTIONS, 1),
        "{states:?}"
    );
}

#[test]
fn counters_alone_need_no_sockets() {
    let server = server();
    let (_, telemetry) = run(plan(&server, spec(None)), None);
    assert_eq!((telemetry.samples, telemetry.sockets), (0, None));
    let segments = telemetry.counters.get("Tcp.InSegs").copied();
    assert!(segments.is_some_and(|segments| segments > 0));
}

#[test]
fn failing_to_write_samples_is_noted_and_does_no_harm() {
    let server = server();
    let (result, telemetry) = run(plan(&server, spec(of(&server))), Some(Box::new(Broken)));
    assert!(result.recording.counters.answered > 0);
    assert_eq!(telemetry.notes.len(), 1, "{:?}", telemetry.notes);
    assert!(telemetry.notes[0].starts_with("writing samples failed"));
    assert_all_connections(telemetry.sockets.expect("they were asked for").sockets);
}

#[test]
fn an_interrupted_run_has_the_telemetry_until_then() {
    let server = server();
    let mut plan = plan(&server, spec(of(&server)));
    plan.stop.duration = Some(Duration::from_secs(3_600));
    plan.warmup = Duration::ZERO;
    plan.stop.requests = Some(20_000);
    let (result, telemetry) = run(plan, None);
    assert_eq!(result.recording.counters.answered, 20_000);
    assert_all_connections(telemetry.sockets.expect("they were asked for").sockets);
}

#[test]
fn invalid_telemetry_options_are_rejected_before_the_run() {
    let server = server();
    let plan = plan(&server, spec(Some("sport ~ 80".to_owned())));
    match runner::prepare(plan, Invocation::default()) {
        Err(RunnerError::Telemetry(message)) => {
            assert!(
                message.starts_with("--sockets \"sport ~ 80\": column "),
                "{message}"
            );
            assert_eq!(message.lines().count(), 1);
        }
        other => panic!("{:?}", other.map(|_| "prepared")),
    }
}
