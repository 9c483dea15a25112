//! A run measures its threads and its machine, and the measurements are part of the result.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plan::{Arrivals, BackendChoice, Load, Pacing, RunPlan, Stop, Target};
use results::snapshot::Snapshot;
use results::{RunResult, Warning};
use runner::{Invocation, Observer, RunObservers};

const REQUESTS: u64 = 400;

/// Two threads against the built-in server.
fn plan(server: &origin::Server, backend: BackendChoice, pacing: Pacing, stop: Stop) -> RunPlan {
    let target = Target::parse(&server.url()).expect("the server knows its URL");
    RunPlan {
        load: Load {
            threads: 2,
            connections: 4,
            ..Load::default()
        },
        pacing,
        stop,
        timeout: Duration::from_secs(30),
        backend,
        ..RunPlan::new(target)
    }
}

fn server() -> origin::Server {
    origin::Server::start(origin::Options::default()).expect("loopback is there")
}

/// Makes the run, which must succeed.
fn made(plan: RunPlan, observer: Option<&mut dyn Observer>) -> RunResult {
    let prepared = runner::prepare(plan, Invocation::default()).expect("nothing is missing");
    let observers = RunObservers {
        samples: None,
        observer,
        records: None,
    };
    let mut finished = prepared
        .run(&AtomicBool::new(false), observers)
        .expect("the engine starts");
    finished.settle();
    assert_eq!(finished.failure(), None);
    finished.result
}

/// A run with some requests.
fn run(backend: BackendChoice, pacing: Pacing) -> RunResult {
    let server = server();
    let stop = Stop {
        duration: Some(Duration::from_secs(60)),
        requests: Some(REQUESTS),
    };
    made(plan(&server, backend, pacing, stop), None)
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
    assert_eq!(generator.verdict, judging::verdict(result, &[]));
    let contradictions: Vec<_> = result
        .warnings
        .iter()
        .filter(|warning| {
            matches!(
                warning.data,
                Warning::InconsistentConcurrency { .. } | Warning::InconsistentSchedule { .. }
            )
        })
        .collect();
    assert!(contradictions.is_empty(), "{contradictions:?}");
}

#[test]
fn every_thread_and_the_machine_are_measured_in_a_closed_loop() {
    for backend in [BackendChoice::Auto, BackendChoice::Epoll] {
        let result = run(backend, Pacing::Closed);
        check(&result);
        assert!(result.recording.lags.send.is_empty());
    }
}

#[test]
fn every_thread_and_the_machine_are_measured_at_a_fixed_rate() {
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

/// Blocks in the first snapshot until the server has been idle for a second: by then the run is
/// over, also on a busy machine.
struct Slow<'a> {
    server: &'a origin::Server,
    seen: Vec<Snapshot>,
}

impl Observer for Slow<'_> {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.seen.push(snapshot.clone());
        let mut before = u64::MAX;
        loop {
            let requests = self.server.counts().requests;
            if requests == before {
                return;
            }
            before = requests;
            std::thread::park_timeout(Duration::from_secs(1));
        }
    }
}

#[test]
fn a_slow_observer_affects_neither_the_window_nor_a_number() {
    let server = server();
    let duration = Duration::from_millis(1_600);
    let stop = Stop {
        duration: Some(duration),
        requests: None,
    };
    let mut slow = Slow {
        server: &server,
        seen: Vec::new(),
    };
    let plan = plan(&server, BackendChoice::Auto, Pacing::Closed, stop);
    let result = made(plan, Some(&mut slow));
    assert_eq!(results::check(&result), Ok(()));
    assert_eq!(u128::from(result.window.duration_ns), duration.as_nanos());
    assert!(!result.window.interrupted);
    let [seen] = &slow.seen[..] else {
        panic!("seen when all was over: {:?}", slow.seen.len())
    };
    let counters = &result.recording.counters;
    assert_eq!(seen.open_connections, 4);
    assert!(
        seen.busiest_worker
            .is_some_and(|share| share > 0.0 && share <= 1.0)
    );
    assert!(seen.counters.answered > 0 && seen.counters.answered < counters.answered);
    // The server has read nothing beyond what was sent to it.
    assert_eq!(counters.sent, counters.answered + counters.in_flight);
}
