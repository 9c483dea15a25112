//! Pages of runs with tokens at several settings: a golden text, and what the charts say.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

#[allow(dead_code, reason = "other tests use more of it")]
mod fixture;
mod seen;
#[allow(dead_code, reason = "other tests use more of it")]
mod swept;

use analysis::Observation;
use analysis::compare::{CompareOptions, compare_cells};
use plan::{Arrivals, Pacing};
use presentation::{Chart, Mark, Marks, Page, Scale};
use report::page::{PageSubject, build};
use results::{Cell, Experiment, GoodRecording, LlmRecording, metric};
use seen::{chart, check_golden, check_page, section};
use swept::{experiment, noise, run, setting};

const MS: u64 = 1_000_000;

fn page_of(observations: &[Observation], experiments: &[Experiment]) -> Page {
    let conclusions = compare_cells(observations, &CompareOptions::default()).ok();
    let page = build(&PageSubject {
        observations,
        experiments,
        conclusions: conclusions.as_ref(),
        ..PageSubject::default()
    });
    check_page(&page);
    page
}

/// What one setting yields.
#[derive(Clone, Copy)]
struct Yield {
    first_token_ms: u64,
    tokens: u64,
    good: u64,
}

/// Until eight streams the throughput grows; with 16 it is less, and nobody is served well.
const KNEE: [(&str, Yield); 5] = [
    ("1", at(50, 90, 30)),
    ("2", at(51, 180, 60)),
    ("4", at(55, 340, 118)),
    ("8", at(70, 600, 150)),
    ("16", at(400, 550, 0)),
];

const fn at(first_token_ms: u64, tokens: u64, good: u64) -> Yield {
    Yield {
        first_token_ms,
        tokens,
        good,
    }
}

fn cells(factor: &str, levels: &[&str], targets: &[&str]) -> Vec<Cell> {
    let pairs = targets
        .iter()
        .flat_map(|target| levels.iter().map(move |level| (target, level)));
    let cell = |((target, level), number): ((&&str, &&str), u32)| Cell {
        number,
        settings: vec![setting(factor, level)],
        profile: None,
        target: (*target).to_owned(),
        is_baseline: false,
    };
    pairs.zip(1..).map(cell).collect()
}

/// Runs of a cell, with 200 requests each.
fn with_tokens(run: Observation, known: Yield) -> Observation {
    let position = u64::from(run.position.unwrap());
    let mut result = *run.result.unwrap();
    let mut llm = LlmRecording::default();
    for number in 0..200 {
        let more = (noise(position * 1_000 + number) + 1.0) * 10.0 * MS as f64;
        llm.first_token
            .record(known.first_token_ms * MS + more as u64);
        llm.time_per_token
            .record(10 * MS + known.first_token_ms * MS / 20);
        llm.token_gap.record(10 * MS);
        llm.output_per_response.record(16);
    }
    llm.responses = 200;
    llm.finish.stop = 200;
    llm.output_tokens = known.tokens * 3 + position % 7;
    result.recording.parts.llm = Some(llm);
    result.recording.parts.good = Some(GoodRecording {
        good: known.good,
        bad: 200 - known.good,
        undecided: 0,
        ..GoodRecording::default()
    });
    Observation {
        values: metric::values(&result),
        result: Some(Box::new(result)),
        ..run
    }
}

fn runs(cells: &[Cell], rounds: u32, of: impl Fn(&Cell) -> Yield) -> Vec<Observation> {
    let mut position = 0;
    let mut all = Vec::new();
    for round in 1..=rounds {
        for cell in cells {
            position += 1;
            all.push(with_tokens(
                run(cell, round, position, 200, 2_000),
                of(cell),
            ));
        }
    }
    all
}

fn knee_of(cell: &Cell) -> Yield {
    let level = &cell.settings[0].level;
    KNEE.iter().find(|(name, _)| name == level).unwrap().1
}

fn knee(rounds: u32) -> (Vec<Observation>, Vec<Experiment>) {
    let cells = cells("connections", &KNEE.map(|(level, _)| level), &["vllm"]);
    (
        runs(&cells, rounds, knee_of),
        vec![experiment(&cells, rounds)],
    )
}

fn marks<'a>(chart: &'a Chart, name: &str) -> &'a Marks {
    let found = chart.marks.iter().find(|marks| marks.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {}", chart.id))
}

#[test]
fn the_page_of_a_sweep_with_tokens_is_as_expected() {
    let (runs, experiments) = knee(5);
    check_golden(&page_of(&runs, &experiments), "page_tokens.txt");
}

#[test]
fn first_tokens_are_drawn_over_throughput_in_the_order_of_the_settings() {
    let (runs, experiments) = knee(5);
    let page = page_of(&runs, &experiments);
    let chart = chart(&page, "capacity-first-token");
    let p50 = marks(chart, "p50");
    assert_eq!(p50.mark, Mark::Path);
    assert_eq!(p50.texts, KNEE.map(|(level, _)| level));
    // The last setting has less throughput than the one before, and stays the last point.
    assert!(p50.x[3] > p50.x[4] && p50.y[4] > p50.y[3], "{p50:?}");
    for ((x, label), (level, known)) in p50.x.iter().zip(&p50.labels).zip(KNEE) {
        let exact = known.tokens as f64 * 3.0 / 3.02;
        assert!((x / exact - 1.0).abs() < 0.05, "{x} is not {exact}");
        assert!(
            label.starts_with(&format!("connections {level}, ")),
            "{label}"
        );
    }
    for (middle, (low, high)) in p50.y.iter().zip(p50.low.iter().zip(&p50.high)) {
        assert!(low.is_some() && low <= middle && middle <= high, "{p50:?}");
    }
    let p99 = marks(chart, "p99");
    assert!(p99.y.iter().zip(&p50.y).all(|(p99, p50)| p99 > p50));
}

#[test]
fn goodput_is_drawn_over_the_names_of_settings_or_over_the_rate_that_differs() {
    let (mut runs, experiments) = knee(5);
    let page = page_of(&runs, &experiments);
    let good = chart(&page, "capacity-goodput");
    let names = KNEE.map(|(level, _)| level.to_owned()).to_vec();
    assert_eq!(good.x.scale, Scale::Names(names));
    assert_eq!(
        marks(good, "goodput").y,
        [15.0, 30.0, 59.0, 75.0, 0.0].map(Some)
    );
    let per_sec = chart(&page, "capacity-good-rate");
    let best = marks(per_sec, "good requests/s").y[3].unwrap();
    assert!((best - 150.0 / 3.02).abs() < 0.01, "{best}");
    assert!(marks(per_sec, "requests/s").y[4] > Some(60.0));
    for run in &mut runs {
        let rate_per_sec = run.settings[0].level.parse::<f64>().unwrap() * 10.0;
        let mut result = *run.result.take().unwrap();
        result.plan.pacing = Pacing::Constant {
            rate_per_sec,
            arrivals: Arrivals::Even,
            seed: 0,
        };
        run.values = metric::values(&result);
        run.result = Some(Box::new(result));
    }
    let page = page_of(&runs, &experiments);
    let good = chart(&page, "capacity-goodput");
    assert_eq!(good.x.scale, Scale::Linear);
    assert_eq!(marks(good, "goodput").x, [10.0, 20.0, 40.0, 80.0, 160.0]);
}

#[test]
fn few_runs_have_points_without_intervals_and_the_page_says_why() {
    let (runs, experiments) = knee(3);
    let page = page_of(&runs, &experiments);
    let p50 = marks(chart(&page, "capacity-first-token"), "p50");
    assert_eq!(
        (p50.x.len(), &p50.low, &p50.high),
        (5, &vec![None; 5], &vec![None; 5])
    );
    let lead = &section(&page, "capacity").unwrap().lead;
    assert!(lead.contains("need at least five runs"), "{lead}");
}

#[test]
fn servers_are_lines_of_the_same_chart() {
    let cells = cells("connections", &["1", "2", "4"], &["old", "new"]);
    let of = |cell: &Cell| {
        let known = knee_of(cell);
        match cell.target.as_str() {
            "new" => at(known.first_token_ms / 2, known.tokens * 2, known.good),
            _ => known,
        }
    };
    let page = page_of(&runs(&cells, 5, of), &[experiment(&cells, 5)]);
    let chart = chart(&page, "capacity-first-token");
    let names: Vec<&str> = chart
        .marks
        .iter()
        .map(|marks| marks.name.as_str())
        .collect();
    assert_eq!(names, ["p99, old", "p50, old", "p99, new", "p50, new"]);
    let (old, new) = (marks(chart, "p50, old"), marks(chart, "p50, new"));
    assert!(old.color != new.color && marks(chart, "p99, old").color == old.color);
    assert!(new.x[2] > old.x[2] && new.y[2] < old.y[2]);
}

#[test]
fn settings_without_an_order_are_points_that_are_not_joined() {
    let cells = cells("arrivals", &["poisson", "uniform"], &["vllm"]);
    let of = |cell: &Cell| match cell.settings[0].level.as_str() {
        // The first level has more throughput: the points of an interval ascend nevertheless.
        "poisson" => at(90, 300, 50),
        _ => at(50, 200, 150),
    };
    let page = page_of(&runs(&cells, 5, of), &[experiment(&cells, 5)]);
    let p50 = marks(chart(&page, "capacity-first-token"), "p50");
    assert_eq!((p50.mark, p50.texts.len()), (Mark::Interval, 2));
    assert!(p50.x[0] < p50.x[1]);
    assert!(p50.labels[0].contains("uniform"), "{}", p50.labels[0]);
}

#[test]
fn without_tokens_and_good_requests_there_is_no_such_section() {
    let cells = cells("connections", &["1", "2"], &["nginx"]);
    let run = |(cell, at): (&Cell, u32)| run(cell, 1, at, 200, 2_000);
    let runs: Vec<Observation> = cells.iter().zip(1..).map(run).collect();
    let page = page_of(&runs, &[experiment(&cells, 1)]);
    assert!(section(&page, "capacity").is_none());
}

#[test]
fn a_single_setting_is_no_line() {
    let cells = cells("connections", &["4"], &["vllm"]);
    let page = page_of(&runs(&cells, 5, knee_of), &[experiment(&cells, 5)]);
    assert!(section(&page, "capacity").is_none());
}
