//! Shares of one plan, run by several agents from an agreed moment on.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plan::{Arrivals, BackendChoice, Load, Pacing, RunPlan, Share, Stop, Target};
use results::fleet::merge;
use results::{AgentOutcome, AgentResult, Environment, RunResult};
use runner::{ArmedRun, DoneScript, Failures, Finished, Invocation, RunObservers, RunnerError};

/// Far more than a busy machine needs to start a few threads.
const AHEAD_NS: u64 = 300_000_000;

fn server() -> origin::Server {
    origin::Server::start(origin::Options::default()).expect("loopback is there")
}

fn plan(server: &origin::Server, pacing: Pacing, requests: u64) -> RunPlan {
    let target = Target::parse(&server.url()).expect("the server knows its URL");
    RunPlan {
        load: Load {
            threads: 2,
            connections: 8,
            ..Load::default()
        },
        pacing,
        stop: Stop {
            duration: Some(Duration::from_secs(60)),
            requests: Some(requests),
        },
        timeout: Duration::from_secs(30),
        backend: BackendChoice::Epoll,
        ..RunPlan::new(target)
    }
}

fn rate(arrivals: Arrivals) -> Pacing {
    Pacing::Constant {
        rate_per_sec: 2_000.0,
        arrivals,
        seed: 3,
    }
}

fn armed(plan: RunPlan, invocation: Invocation) -> ArmedRun {
    let prepared = runner::prepare(plan, invocation).expect("nothing is missing");
    prepared.arm().expect("the workers start")
}

fn of_agent(share: Share) -> ArmedRun {
    let invocation = Invocation {
        fleet: Some(share.schedule),
        ..Invocation::default()
    };
    armed(share.plan, invocation)
}

fn started(armed: ArmedRun, start_ns: u64) -> Finished {
    let finished = armed.start_at(start_ns, &AtomicBool::new(false), RunObservers::default());
    finished.expect("the start is in the future")
}

/// The merged result of agents with two threads each, which all start at the same moment.
fn run_by_fleet(plan: &RunPlan, agents: usize) -> RunResult {
    let shares = plan.deal(&vec![2; agents]).expect("enough for all");
    let bases: Vec<u32> = shares.iter().map(|it| it.schedule.worker_base).collect();
    let runs: Vec<ArmedRun> = shares.into_iter().map(of_agent).collect();
    let earliest_ns = runs.iter().map(ArmedRun::earliest_start_ns).max();
    let start_ns = earliest_ns.expect("there are agents") + AHEAD_NS;
    let finished: Vec<Finished> = std::thread::scope(|scope| {
        let runs = runs.into_iter();
        let threads: Vec<_> = runs
            .map(|run| scope.spawn(move || started(run, start_ns)))
            .collect();
        let joined = threads.into_iter().map(|it| it.join().expect("no panic"));
        joined.collect()
    });
    let agents = finished
        .into_iter()
        .zip(bases)
        .map(|(finished, worker_base)| {
            let start_late_ns = Some(finished.start_late_ns);
            let (result, failures) = finished.into_parts();
            assert_eq!(failures, Failures::default());
            AgentResult {
                id: format!("agent-{worker_base}"),
                place: "here".to_owned(),
                worker_base,
                weight: plan::Weight::default(),
                clock_bound_ns: None,
                start_late_ns,
                early: None,
                outcome: AgentOutcome::Delivered(Box::new(result)),
            }
        });
    let mut merged = merge(plan, Environment::default(), agents.collect());
    judging::judge(&mut merged);
    merged
}

fn workers(result: &RunResult) -> Vec<u32> {
    let workers = result.generator.lags.iter();
    workers.map(|lags| lags.worker).collect()
}

#[test]
fn agents_together_send_the_requests_of_the_plan_and_no_more() {
    for pacing in [
        rate(Arrivals::Even),
        rate(Arrivals::Poisson),
        Pacing::Closed,
    ] {
        let server = server();
        let merged = run_by_fleet(&plan(&server, pacing.clone(), 403), 3);
        assert_eq!(results::check(&merged), Ok(()), "{pacing:?}");
        let counters = &merged.recording.counters;
        assert_eq!(counters.answered, 403, "{pacing:?}");
        assert_eq!(server.counts().requests, 403, "{pacing:?}");
        assert_eq!(counters.connections_opened, 8, "{pacing:?}");
        assert_eq!(workers(&merged), [0, 1, 2, 3, 4, 5]);
        assert_eq!(merged.plan.load.threads, 6);
    }
}

#[test]
fn a_start_that_has_passed_is_refused_and_nothing_is_sent() {
    let server = server();
    let armed = armed(plan(&server, Pacing::Closed, 10), Invocation::default());
    let start_ns = armed.earliest_start_ns() - 2_000_000_000;
    let refused = armed.start_at(start_ns, &AtomicBool::new(false), RunObservers::default());
    let error = refused.err().expect("it was a second ago");
    assert!(matches!(error, RunnerError::StartPassed { late_ns } if late_ns > 1_000_000_000));
    let text = error.to_string();
    assert!(
        text.starts_with("the start of the run was ") && text.contains(" ms ago"),
        "{text}"
    );
    assert_eq!(server.counts().requests, 0);
}

#[test]
fn an_interrupt_before_the_start_ends_the_run_without_a_request() {
    let server = server();
    let armed = armed(plan(&server, Pacing::Closed, 10), Invocation::default());
    let start_ns = armed.earliest_start_ns() + 3_600 * 1_000_000_000;
    let finished = armed.start_at(start_ns, &AtomicBool::new(true), RunObservers::default());
    let result = finished.expect("the start is in the future").result;
    assert!(result.window.interrupted);
    assert_eq!(
        (result.window.duration_ns, server.counts().requests),
        (0, 0)
    );
}

#[test]
fn an_armed_run_that_is_dropped_sends_nothing() {
    let server = server();
    drop(armed(
        plan(&server, Pacing::Closed, 10),
        Invocation::default(),
    ));
    assert_eq!(server.counts().requests, 0);
}

#[test]
fn done_is_called_once_at_the_coordinator_with_the_figures_of_all() {
    let folder = testkit::Folder::new();
    let told = folder.file("told.txt");
    let script = folder.file_with(
        "done.lua",
        format!(
            "function done(summary, latency, requests)\n\
             local file = io.open({:?}, 'a')\n\
             file:write(summary.requests, '\\n')\n\
             file:close()\n\
             end\n",
            told
        ),
    );
    let server = server();
    let mut plan = plan(&server, Pacing::Closed, 101);
    plan.request.script = Some(script.into());
    let done = DoneScript::load(&plan).expect("the script is there");
    let merged = run_by_fleet(&plan, 2);
    assert!(
        !std::path::Path::new(&told).exists(),
        "an agent has called done"
    );
    let mut finished = done.finish(merged, Failures::default(), Vec::new());
    assert_eq!(finished.failure(), None);
    finished.done().expect("the script is correct");
    let told = std::fs::read_to_string(told).expect("done has written it");
    assert_eq!(told, "101\n");
}

#[test]
fn the_failures_of_agents_are_those_of_the_run() {
    let mut failures = Failures::default();
    failures.merge(Failures {
        messages: vec!["a.lua:1: boom (in request)".to_owned()],
        first_error_detail: None,
        denied: Some(12),
    });
    failures.merge(Failures {
        messages: vec!["b.lua:1: bang (in request)".to_owned()],
        first_error_detail: Some((results::ErrorKind::Refused, "why".to_owned())),
        denied: Some(8),
    });
    assert_eq!(failures.denied, Some(20));
    let text = serde_json::to_string(&failures).expect("it is plain data");
    assert_eq!(
        serde_json::from_str::<Failures>(&text).expect("it is one"),
        failures
    );
    let server = server();
    let done = DoneScript::load(&plan(&server, Pacing::Closed, 1)).expect("no script");
    let merged = run_by_fleet(&plan(&server, Pacing::Closed, 10), 1);
    let finished = done.finish(merged, failures, Vec::new());
    assert_eq!(
        finished.failure().as_deref(),
        Some("a.lua:1: boom (in request)")
    );
}
