//! A run watches its threads and its machine, and what it saw stands in the result.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plan::{Arrivals, BackendChoice, Load, Pacing, RequestSpec, RunPlan, Stop, Target, TlsSpec};
use results::{RunResult, Warning};
use runner::{Audience, Invocation};

const REQUESTS: u64 = 400;

/// Some requests over two threads, against a server of our own.
fn run(backend: BackendChoice, pacing: Pacing) -> RunResult {
    let server = origin::Server::start(origin::Options::default()).expect("loopback is there");
    let plan = RunPlan {
        telemetry: None,
        target: Target::parse(&server.url()).expect("the server knows its URL"),
        load: Load {
            threads: 2,
            connections: 4,
            ..Load::default()
        },
        pacing,
        stop: Stop {
            duration: Some(Duration::from_secs(60)),
            requests: Some(REQUESTS),
        },
        warmup: Duration::ZERO,
        timeout: Duration::from_secs(30),
        request: RequestSpec::default(),
        tls: TlsSpec::default(),
        backend,
    };
    let prepared = runner::prepare(plan, Invocation::default()).expect("nothing is missing");
    let mut finished = prepared
        .run(&AtomicBool::new(false), Audience::default())
        .expect("the engine starts");
    finished.settle();
    assert_eq!(finished.failure(), None);
    drop(server);
    finished.result
}

fn check(result: &RunResult) {
    assert_eq!(results::check(result), Ok(()));
    assert_eq!(result.recording.counters.answered, REQUESTS);
    let generator = &result.generator;
    let workers: Vec<u32> = generator.workers.iter().map(|used| used.worker).collect();
    assert_eq!(workers, [0, 1]);
    let machine = generator.machine.expect("Linux has /proc/stat");
    assert!(machine.cpus > 0);
    for worker in &generator.workers {
        assert!(worker.usage.cpu_ns > 0, "{worker:?}");
        assert!(worker.usage.cpu_ns <= machine.elapsed_ns, "{worker:?}");
        assert!(worker.elapsed_ns <= machine.elapsed_ns, "{worker:?}");
    }
    assert_eq!(generator.verdict, results::verdict(result));
    let contradictions: Vec<&Warning> = result
        .warnings
        .iter()
        .filter(|warning| {
            matches!(
                warning,
                Warning::InconsistentConcurrency { .. } | Warning::InconsistentSchedule { .. }
            )
        })
        .collect();
    assert_eq!(contradictions, Vec::<&Warning>::new());
}

#[test]
fn every_thread_and_the_machine_are_asked_in_a_closed_loop() {
    for backend in [BackendChoice::Auto, BackendChoice::Epoll] {
        let result = run(backend, Pacing::Closed);
        check(&result);
        assert!(result.recording.lags.send.is_empty());
    }
}

#[test]
fn every_thread_and_the_machine_are_asked_at_a_rate() {
    for backend in [BackendChoice::Auto, BackendChoice::Epoll] {
        let pacing = Pacing::Constant {
            rate_per_sec: 2_000.0,
            arrivals: Arrivals::Poisson,
            seed: 3,
        };
        let result = run(backend, pacing);
        check(&result);
        assert_eq!(result.recording.lags.own.count(), REQUESTS);
    }
}
