//! Runs are compared as measured and without what the load generator caused: what holds in only one
//! of both is undecided.

#[path = "../../results/tests/fixture/mod.rs"]
mod fixture;

use analysis::Observation;
use analysis::compare::{
    ChangeLimit, CompareOptions, Comparison, Metric, Named, Outcome, compare, compare_cells,
    compare_with_base,
};
use analysis::sequential::{Decision, sequential_differences};
use results::metric::{self, REQUESTS_PER_SEC};
use results::{Histogram, Recording, RunResult};

const MS: u64 = 1_000_000;
const WINDOW_NS: u64 = 3_000 * MS;

/// The same must hold whatever the number of connections.
const CONNECTIONS: [u32; 4] = [1, 30, 200, 1_000];

/// A server and a load generator in a closed loop of 3 s.
#[derive(Debug, Clone, Copy)]
struct Truth {
    connections: u32,
    /// What the server would answer if it was always asked.
    requests_per_sec: f64,
    /// The share of the time in which the load generator did not run.
    paused: f64,
}

/// Run `number` of it. The noise is the same on both sides.
fn run(truth: Truth, number: u32) -> RunResult {
    let noise = [1.0, 1.004, 0.997, 1.002, 0.995, 1.001, 0.999, 1.003][number as usize % 8];
    let mut result = fixture::result(fixture::recording(0));
    result.recording = Recording::new();
    result.plan.load.connections = truth.connections;
    result.window.duration_ns = WINDOW_NS;
    let answered = truth.requests_per_sec * noise * 3.0 * (1.0 - truth.paused);
    let answered = answered.round() as u64;
    let connections = u64::from(truth.connections);
    let recording = &mut result.recording;
    (recording.counters.sent, recording.counters.answered) = (answered, answered);
    let each_ns = (f64::from(truth.connections) / truth.requests_per_sec / noise * 1e9) as u64;
    let pause_ns = (WINDOW_NS as f64 * truth.paused) as u64;
    let delayed = if pause_ns > 0 { connections } else { 0 };
    let mut times = Histogram::new();
    times.record_n(each_ns, answered - delayed);
    times.record_n(each_ns + pause_ns, delayed);
    recording.service_time = times;
    if delayed > 0 {
        recording
            .attribution
            .delayed(delayed, each_ns + pause_ns, pause_ns);
    }
    recording.attribution.idle_ns = pause_ns * connections;
    result
}

fn observation(result: RunResult, side: &str, number: u32) -> Observation {
    Observation {
        source: format!("{side}-{number}.json"),
        cell: Some(if side == "A" { 1 } else { 2 }),
        target: Some(side.to_owned()),
        run: number,
        values: metric::values(&result),
        result: Some(Box::new(result)),
        ..Observation::default()
    }
}

fn runs(truth: Truth, side: &str, count: u32) -> Vec<Observation> {
    let each = (1..=count).map(|number| observation(run(truth, number), side, number));
    each.collect()
}

/// A server of 2 ms with these connections.
fn server(connections: u32) -> Truth {
    Truth {
        connections,
        requests_per_sec: f64::from(connections) * 500.0,
        paused: 0.0,
    }
}

fn by(name: &str, base: Truth, new: Truth) -> Comparison {
    let metric = Metric::named(name);
    compare(&runs(base, "A", 6), &runs(new, "B", 6), &metric, 0.02)
}

fn faster(truth: Truth, factor: f64) -> Truth {
    Truth {
        requests_per_sec: truth.requests_per_sec * factor,
        ..truth
    }
}

fn paused(truth: Truth, paused: f64) -> Truth {
    Truth { paused, ..truth }
}

fn limit() -> ChangeLimit {
    ChangeLimit::Worse(0.05)
}

#[test]
fn pauses_on_one_side_are_no_effect_of_the_server() {
    for connections in CONNECTIONS {
        let same = server(connections);
        for (base, new) in [(same, paused(same, 0.07)), (paused(same, 0.07), same)] {
            let found = by(REQUESTS_PER_SEC, base, new);
            assert_eq!(
                found.outcome,
                Outcome::Undecided { level: None },
                "{found:?}"
            );
            let explained = found.levels[1].explained.expect("it is explained");
            let measured = explained.measured.ratio.expect("there is one");
            assert!(
                (measured.ln().abs() - 0.0726).abs() < 0.001,
                "{explained:?}"
            );
            assert!(explained.measured.is_found());
            let without_own = explained.without_own.ratio.expect("there is one");
            assert!((without_own - 1.0).abs() < 0.002, "{explained:?}");
            assert_eq!(found.levels[1].difference, None);
            assert_eq!(found.p_value, None);
            assert!(!limit().is_exceeded(&found));
            // It would be a regression if it was the server's.
            assert_eq!(limit().is_undecidable(&found), new.paused > 0.0);
        }
    }
}

#[test]
fn an_effect_beside_pauses_is_found() {
    for connections in CONNECTIONS {
        let same = server(connections);
        for pauses in [[0.0, 0.0], [0.03, 0.0], [0.0, 0.03], [0.03, 0.03]] {
            let slow = faster(same, 0.9);
            let found = by(
                REQUESTS_PER_SEC,
                paused(same, pauses[0]),
                paused(slow, pauses[1]),
            );
            assert_eq!(found.outcome, Outcome::Worse { level: 1 }, "{pauses:?}");
            assert!(limit().is_exceeded(&found), "{pauses:?}");
            let without_own = found.levels[1].without_own;
            assert_eq!(without_own.is_some(), pauses != [0.0, 0.0]);
            let ratio = without_own
                .or(found.levels[1].difference)
                .and_then(|it| it.ratio);
            let ratio = ratio.expect("there is one");
            assert!((ratio - 0.9).abs() < 0.002, "{pauses:?}: {ratio}");
        }
    }
}

#[test]
fn a_limit_that_only_the_pauses_exceed_is_not_decided() {
    // 4 % slower, and 3 % of pauses.
    let same = server(30);
    let found = by(REQUESTS_PER_SEC, same, paused(faster(same, 0.96), 0.03));
    assert_eq!(found.outcome, Outcome::Worse { level: 1 });
    assert!(!limit().is_exceeded(&found) && limit().is_undecidable(&found));
    let lower = ChangeLimit::Worse(0.03);
    assert!(lower.is_exceeded(&found) && !lower.is_undecidable(&found));
}

#[test]
fn an_effect_that_pauses_hide_is_undecided() {
    let same = server(200);
    let found = by(REQUESTS_PER_SEC, same, paused(faster(same, 1.1), 0.09));
    assert_eq!(found.outcome, Outcome::Undecided { level: None });
    let explained = found.levels[1].explained.expect("both are shown");
    assert!(explained.without_own.is_found());
}

#[test]
fn without_delays_of_the_load_generator_nothing_is_taken_out() {
    let same = server(30);
    let slower = by(REQUESTS_PER_SEC, same, faster(same, 0.8));
    assert_eq!(slower.outcome, Outcome::Worse { level: 1 });
    assert_eq!(slower.levels[1].without_own, None);
    assert_eq!(by(REQUESTS_PER_SEC, same, same).outcome, Outcome::Same);
    // Delays that are too small to decide anything.
    let little = by(REQUESTS_PER_SEC, same, paused(same, 0.001));
    assert_eq!(little.outcome, Outcome::Same);
    assert_eq!(little.levels[1].without_own, None);
    let metric = Metric::named(REQUESTS_PER_SEC);
    let few = compare(
        &runs(same, "A", 2),
        &runs(paused(same, 0.07), "B", 2),
        &metric,
        0.02,
    );
    assert_eq!(few.outcome, Outcome::TooFewRuns { needed: 4 });
    assert!(!limit().is_exceeded(&few));
}

#[test]
fn percentiles_are_compared_without_the_load_generators_own_shares() {
    for connections in [30, 200, 1_000] {
        let same = server(connections);
        // One request of each connection is delayed: 0.07 % of all.
        let p9995 = metric::percentile("latency", 99.95);
        let found = by(&p9995, same, paused(same, 0.07));
        assert_eq!(
            found.outcome,
            Outcome::Undecided { level: None },
            "{found:?}"
        );
        // The server is three times as slow: pauses do not hide it.
        let slow = by(
            &p9995,
            paused(same, 0.0005),
            paused(faster(same, 1.0 / 3.0), 0.0005),
        );
        assert_eq!(slow.outcome, Outcome::Worse { level: 1 }, "{slow:?}");
    }
}

#[test]
fn cells_of_sweeps_and_sides_are_judged_likewise() {
    let same = server(30);
    let (base, new) = (runs(same, "A", 6), runs(paused(same, 0.07), "B", 6));
    let options = CompareOptions {
        metrics: vec![Metric::named(REQUESTS_PER_SEC)],
        ..CompareOptions::default()
    };
    let [old, fresh] = [("old", &base), ("new", &new)].map(|(name, runs)| Named { name, runs });
    let sides = compare_with_base(old, fresh, &options).expect("there are runs");
    let sweep = compare_cells(&[base, new].concat(), &options).expect("there are cells");
    for conclusions in [sides, sweep] {
        let found = &conclusions.comparisons[0];
        assert_eq!(found.outcome, Outcome::Undecided { level: None });
        assert!(found.levels[1].explained.is_some(), "{found:?}");
    }
}

#[test]
fn rounds_with_pauses_on_one_side_decide_nothing_and_an_effect_is_found() {
    let metrics = [Metric::named(REQUESTS_PER_SEC)];
    let same = server(30);
    let difference = |new: Truth| {
        let all = [runs(same, "A", 6), runs(new, "B", 6)].concat();
        let found = sequential_differences(&all, &metrics, 0.02);
        let options = CompareOptions {
            metrics: metrics.to_vec(),
            is_sequential: true,
            ..CompareOptions::default()
        };
        let conclusions = compare_cells(&all, &options).expect("there are cells");
        (found[0].clone(), conclusions.comparisons[0].clone())
    };
    let (found, comparison) = difference(paused(same, 0.07));
    assert_eq!(found.decision(), Decision::Open);
    let (low, high) = found.explained_by().expect("pauses are the reason");
    assert!(low < 0.0 && high > -0.001 && high < 0.02, "{low} {high}");
    assert_eq!(comparison.outcome, Outcome::Undecided { level: None });
    let (found, comparison) = difference(paused(faster(same, 0.9), 0.03));
    assert_eq!(
        (found.decision(), found.explained_by()),
        (Decision::Less, None)
    );
    assert_eq!(comparison.outcome, Outcome::Worse { level: 1 });
    assert!(limit().is_exceeded(&comparison));
    let (found, _) = difference(faster(same, 0.9));
    assert_eq!(
        (found.decision(), found.without_own),
        (Decision::Less, None)
    );
}
