//! A search over trials on a simulated machine with a simulated server.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

#[path = "../../results/tests/fixture/mod.rs"]
#[expect(dead_code, reason = "the runs here have recordings of their own")]
mod fixture;

use std::path::Path;
use std::time::Duration;

use experiment::fake::Fake;
use experiment::{
    ExperimentContext, ExperimentRun, PreparedExperiment, RemoteHosts, ResumeOptions, Schedule,
    Searches, Spec, Transaction, run,
};
use plan::{Arrivals, Pacing};
use results::{
    GoodRecording, OwnShare, Recording, RunResult, SearchBound, SearchEnd, SearchOutcome,
    SearchOver, SearchStep, Trial, TrialOutcome, Verdict,
};

const MS: u64 = 1_000_000;

const PLAN: &str = r#"
name = "capacity"
rounds = 1
results = "testlogs"

[search]
slo = ["p99<20ms"]
precision = "5%"
budget = "20m"

[[target]]
name = "t"
url = "http://h/"
"#;

/// A run of which a share of the responses takes 30 ms, with two requests in flight at the end.
fn finished(rate_per_sec: f64, share_above: f64, verdict: Verdict) -> RunResult {
    let mut recording = Recording::new();
    let above = (share_above.min(1.0) * 10_000.0) as u64;
    recording.response_time.record_n(MS, 10_000 - above);
    recording.response_time.record_n(30 * MS, above);
    recording.service_time = recording.response_time.clone();
    recording.unanswered.record_n(MS, 2);
    recording.counters.due = 10_002;
    recording.counters.sent = 10_002;
    recording.counters.answered = 10_000;
    recording.counters.in_flight = 2;
    for _ in 0..10_000 {
        recording.statuses.add(200);
    }
    let mut result = fixture::result(recording);
    result.warnings.clear();
    result.generator.verdict = verdict;
    result.window.duration_ns = (10_000.0 / rate_per_sec * 1e9) as u64;
    result.plan.pacing = Pacing::Constant {
        rate_per_sec,
        arrivals: Arrivals::Poisson,
        seed: 1,
    };
    result
}

fn delayed(own_ns: u64) -> Verdict {
    Verdict::Disturbed {
        percentiles: vec![OwnShare {
            percent: 99.0,
            shown_ns: 10 * MS + own_ns,
            own_ns,
            is_lower_bound: false,
        }],
        symptoms: Vec::new(),
        remedy: String::new(),
    }
}

/// A search of a server of which 1 % of the responses takes more than 20 ms at 800/s; how it ended,
/// what the machine did, and how many runs there were.
fn search(verdict: &dyn Fn(u32) -> Verdict) -> (SearchOutcome, Vec<String>, usize) {
    searched(PLAN, &|made, step| {
        let is_short = step.duration_ms <= 2_000;
        assert!(is_short || step.rate_per_sec.is_some(), "the closed loop");
        let rate_per_sec = step.rate_per_sec.unwrap_or(1_000.0);
        finished(
            rate_per_sec,
            0.01 * growing(made, rate_per_sec),
            verdict(made),
        )
    })
}

/// A share that is 1 at 800/s and grows with the rate, with some noise.
fn growing(made: u32, rate_per_sec: f64) -> f64 {
    let noise = if made.is_multiple_of(2) { 1.03 } else { 0.97 };
    (rate_per_sec / 800.0).powi(10) * noise
}

/// A search over these runs; each gets its number and its step.
fn searched(
    plan: &str,
    make: &dyn Fn(u32, &SearchStep) -> RunResult,
) -> (SearchOutcome, Vec<String>, usize) {
    let mut host = Fake::default();
    let spec = Spec::parse(plan, Path::new("/plans/plan.toml")).unwrap();
    let options = ResumeOptions {
        seed: Some(7),
        ..ResumeOptions::default()
    };
    let prepared = PreparedExperiment::new(spec, options, &host).unwrap();
    let transaction = Transaction::begin(
        &mut host,
        Path::new("/var/lib/wrkbench/restore"),
        "capacity",
    )
    .unwrap();
    prepared.begin(&mut host).unwrap();
    let schedule: &Schedule = &prepared.schedule;
    let mut made = 0;
    let outcome = run(
        ExperimentRun {
            spec: &prepared.spec,
            experiment: &prepared.experiment,
            done: 0,
            deadline_ns: None,
            tries: &[],
            sysctls: &[],
            nominal: &|_| Duration::from_secs(10),
            keeps_samples: true,
        },
        &mut Searches::new(
            prepared.spec.search.as_ref().unwrap(),
            &schedule.trials,
            prepared.experiment.seed,
            |cell| prepared.spec.connections_of(cell),
        ),
        transaction,
        ExperimentContext {
            host: &mut host,
            others: &mut RemoteHosts::new(),
            store: &prepared.store,
            run_one: &mut |assignment| {
                made += 1;
                Ok(make(made, assignment.planned.step.as_ref().unwrap()))
            },
            observer: &mut |_| {},
            is_interrupted: &|| false,
            was_suspended: &|| false,
        },
    );
    assert_eq!((outcome.failed, outcome.left), (0, 0));
    let folder = host.files.keys();
    let names: Vec<_> = folder
        .filter(|path| path.starts_with("/plans/testlogs/trials"))
        .collect();
    let runs = names.len();
    let trials = names.iter().map(|path| {
        let trial: Trial = results::file::load_trial(&host.files[*path]).unwrap();
        assert!(matches!(trial.outcome, TrialOutcome::Finished(_)));
        trial
    });
    let found = trials.filter_map(|trial| trial.search?.outcome).next();
    (found.unwrap(), host.log.clone(), runs)
}

fn is_found(verdict: &dyn Fn(u32) -> Verdict) -> bool {
    let (outcome, ..) = search(verdict);
    let [low, high] = outcome.interval_per_sec.unwrap_or_default();
    outcome.end == SearchEnd::Found && low < 800.0 && high > 800.0
}

#[test]
fn a_request_is_sent_before_each_run_so_that_the_queue_of_the_last_one_is_empty() {
    let (outcome, log, runs) = search(&|_| Verdict::Undisturbed);
    assert_eq!(outcome.end, SearchEnd::Found);
    let asked = log.iter().filter(|line| *line == "ask http://h/").count();
    assert!(
        runs > 12 && asked >= runs,
        "{asked} requests before {runs} runs"
    );
}

#[test]
fn requests_in_flight_at_the_end_of_runs_do_not_end_a_search() {
    assert!(is_found(&|_| Verdict::Undisturbed));
}

#[test]
fn short_delays_do_not_count_as_the_limit_of_the_generator() {
    assert!(is_found(&|_| delayed(2 * MS)));
}

#[test]
fn a_long_delay_now_and_then_does_not_end_a_search() {
    assert!(is_found(&|run| match run % 5 {
        0 => delayed(5 * MS),
        _ => Verdict::Undisturbed,
    }));
}

#[test]
fn long_delays_in_all_runs_that_fail_are_the_limit_of_the_generator() {
    let (outcome, ..) = search(&|_| delayed(5 * MS));
    assert_eq!(outcome.end, SearchEnd::AtLeast);
    assert_eq!(outcome.bound, Some(SearchBound::Generator));
}

/// A run in which this share of the requests was not good.
fn with_good(rate_per_sec: f64, share_bad: f64) -> RunResult {
    let mut result = finished(rate_per_sec, 0.0, Verdict::Undisturbed);
    let bad = (share_bad.min(1.0) * 10_000.0) as u64;
    result.recording.parts.good = Some(GoodRecording {
        good: 10_000 - bad,
        bad,
        undecided: 2,
        ..GoodRecording::default()
    });
    result
}

fn goodput_plan() -> String {
    let plan = PLAN.replace("capacity", "goodput");
    let plan = plan.replace("p99<20ms", "goodput>95%");
    format!("{plan}\n[load]\ngood = \"latency<20ms\"\n")
}

#[test]
fn the_highest_rate_with_enough_good_requests_has_an_interval_around_the_truth() {
    // 5 % of the requests are not good at 800/s. In the closed loop none is.
    let (outcome, ..) = searched(&goodput_plan(), &|made, step| match step.rate_per_sec {
        None => {
            // Responses may be long: the closed loop is as long as a run.
            assert_eq!(step.duration_ms, 6_000);
            with_good(1_000.0, 1.0)
        }
        Some(rate) => with_good(rate, 0.05 * growing(made, rate)),
    });
    assert_eq!(outcome.end, SearchEnd::Found, "{outcome:?}");
    let [low, high] = outcome.interval_per_sec.unwrap();
    assert!(
        low < 800.0 && high > 800.0 && high / low < 1.1,
        "{outcome:?}"
    );
}

#[test]
fn a_closed_loop_with_responses_to_requests_of_the_warm_up_only_begins_a_search() {
    // Streams that are longer than the run: no request of the window was answered.
    let (outcome, ..) = searched(&goodput_plan(), &|made, step| match step.rate_per_sec {
        None => {
            let mut result = with_good(1_000.0, 1.0);
            let recording = &mut result.recording;
            recording.counters.answered_of_warmup = recording.counters.answered;
            recording.counters.answered = 0;
            recording.statuses = Recording::new().statuses;
            result
        }
        Some(rate) => with_good(rate, 0.05 * growing(made, rate)),
    });
    assert_eq!(outcome.end, SearchEnd::Found, "{outcome:?}");
}

#[test]
fn a_rate_at_which_no_request_is_good_is_not_carried() {
    let (outcome, ..) = searched(&goodput_plan(), &|_, step| {
        with_good(step.rate_per_sec.unwrap_or(1_000.0), 1.0)
    });
    assert_eq!(outcome.end, SearchEnd::NotEven, "{outcome:?}");
}

fn connections_plan(more: &str) -> String {
    goodput_plan().replace(
        "[search]",
        &format!("[search]\nover = \"connections\"\n{more}"),
    )
}

/// A search over connections of a server with this share of bad requests at each number of them.
fn of_connections(more: &str, share_bad: &dyn Fn(u32) -> f64) -> (SearchOutcome, usize) {
    let (outcome, _, runs) = searched(&connections_plan(more), &|_, step| {
        assert_eq!(
            (step.over, step.rate_per_sec),
            (SearchOver::Connections, None)
        );
        let connections = step.connections.unwrap();
        let mut result = with_good(1_000.0, share_bad(connections));
        result.plan.pacing = Pacing::Closed;
        result.plan.load.connections = connections;
        result
    });
    assert_eq!(
        (outcome.rate_per_sec, outcome.ceiling_per_sec),
        (None, None)
    );
    (outcome, runs)
}

#[test]
fn the_largest_number_of_connections_with_enough_good_requests_is_found() {
    let (outcome, _) = of_connections("", &|connections| f64::from(u8::from(connections > 28)));
    assert_eq!(outcome.end, SearchEnd::Found, "{outcome:?}");
    assert_eq!(outcome.connections, Some(28));
    assert_eq!(outcome.interval_connections, Some([28, 28]));
    assert_eq!(
        (outcome.max_load(), outcome.reaches(28.0)),
        (Some(28.0), Some(true))
    );
    assert_eq!(outcome.reaches(29.0), Some(false));
}

#[test]
fn one_connection_is_not_even_carried_and_the_most_that_are_allowed_are_named() {
    let (outcome, _) = of_connections("", &|_| 1.0);
    assert_eq!(
        (outcome.end, outcome.connections),
        (SearchEnd::NotEven, Some(1))
    );
    let (outcome, _) = of_connections("max_connections = 40\n", &|_| 0.0);
    assert_eq!(
        (outcome.end, outcome.connections),
        (SearchEnd::AtLeast, Some(40))
    );
    assert_eq!(outcome.bound, Some(SearchBound::Most));
    let (outcome, _) = of_connections("max_connections = 1\n", &|_| 0.0);
    assert_eq!(
        (outcome.end, outcome.connections),
        (SearchEnd::AtLeast, Some(1))
    );
}

#[test]
fn a_run_without_a_file_for_each_connection_is_the_limit_of_the_generator() {
    let (outcome, _, _) = searched(&connections_plan(""), &|_, step| {
        let connections = step.connections.unwrap();
        let is_short = connections > 20;
        let mut result = with_good(1_000.0, if is_short { 1.0 } else { 0.0 });
        if is_short {
            result
                .recording
                .errors
                .add(results::ErrorKind::FileLimit, 1);
        }
        result
    });
    assert_eq!(outcome.end, SearchEnd::AtLeast, "{outcome:?}");
    assert_eq!(outcome.bound, Some(SearchBound::Generator));
    assert!(outcome.connections <= Some(20), "{outcome:?}");
}
