//! Comparisons of experiments that were looked at after every round.

use analysis::Observation;
use analysis::compare::{CompareOptions, Comparison, Conclusions, Metric, Outcome, compare_cells};
use analysis::sequential::{Decision, sequential_differences};
use results::{PLACE_FACTOR, Setting};

const ROUNDS: u32 = 6;

/// Rounds of targets whose requests/s have these ratios, with a noise of about 1 %.
fn rounds(rounds: u32, ratios: &[(&str, f64)]) -> Vec<Observation> {
    let mut random = fastrand::Rng::with_seed(3);
    let mut runs = Vec::new();
    for round in 1..=rounds {
        let of_round = 1_000.0 * (1.0 + 0.2 * random.f64());
        for ((target, ratio), cell) in ratios.iter().zip(1..) {
            let rate = of_round * ratio * (0.99 + 0.02 * random.f64());
            runs.push(Observation {
                cell: Some(cell),
                target: Some((*target).to_owned()),
                run: round,
                values: [
                    ("requests_per_sec".to_owned(), rate),
                    ("errors".to_owned(), 0.0),
                ]
                .into(),
                ..Observation::default()
            });
        }
    }
    runs
}

fn conclusions(observations: &[Observation], metric: &str, is_sequential: bool) -> Conclusions {
    let options = CompareOptions {
        metrics: vec![Metric::named(metric)],
        is_sequential,
        ..CompareOptions::default()
    };
    compare_cells(observations, &options).expect("there is something to compare")
}

fn only(conclusions: Conclusions) -> Comparison {
    let [comparison] =
        <[Comparison; 1]>::try_from(conclusions.comparisons).expect("there is a single comparison");
    comparison
}

/// The ends of the interval of the second level.
fn interval(comparison: &Comparison) -> (f64, f64) {
    let difference = comparison.levels[1].difference.expect("it is known");
    (
        difference.low.expect("there is an interval"),
        difference.high.expect("there is an interval"),
    )
}

#[test]
fn a_comparison_has_the_intervals_that_ended_the_experiment() {
    let runs = rounds(ROUNDS, &[("old", 1.0), ("new", 1.1)]);
    let found = only(conclusions(&runs, "requests/s", true));
    let metrics = [Metric::named("requests/s")];
    let differences = sequential_differences(&runs, &metrics, 0.02);
    let (low, high) = differences[0].interval.expect("six rounds are enough");
    assert_eq!(interval(&found), (1.0 + low, 1.0 + high));
    assert!(
        found.is_sequential && found.runs == ROUNDS as usize,
        "{found:?}"
    );
    assert_eq!(found.outcome, Outcome::Better { level: 1 });
    // That of a single look is narrower.
    let once = only(conclusions(&runs, "requests/s", false));
    let width = |of: &Comparison| interval(of).1 - interval(of).0;
    assert!(width(&once) < 0.7 * width(&found), "{once:?}");
}

#[test]
fn what_one_look_would_find_is_not_yet_found() {
    let mut runs = rounds(4, &[("old", 1.0), ("new", 1.0)]);
    for (pair, change) in runs.chunks_mut(2).zip([-0.02_f64, -0.03, -0.01, -0.025]) {
        let old = pair[0].values["requests_per_sec"];
        let new = old * change.exp();
        pair[1].values.insert("requests_per_sec".to_owned(), new);
    }
    let level = |is_sequential| only(conclusions(&runs, "requests/s", is_sequential));
    let (once, sequential) = (level(false), level(true));
    let is_found = |of: &Comparison| of.levels[1].difference.is_some_and(|it| it.is_found());
    assert!(is_found(&once), "{once:?}");
    assert!(!is_found(&sequential), "{sequential:?}");
    assert!(!sequential.is_regression(0.01));
}

#[test]
fn more_servers_need_more_rounds() {
    let names = ["a", "b", "c", "d", "e"];
    let ratios: Vec<(&str, f64)> = names.map(|name| (name, 1.0)).into();
    for (servers, needed) in [(2, 4), (4, 4), (5, 5)] {
        let few = rounds(needed as u32 - 1, &ratios[..servers]);
        let outcome = only(conclusions(&few, "requests/s", true)).outcome;
        assert_eq!(outcome, Outcome::TooFewRuns { needed });
        let enough = rounds(needed as u32, &ratios[..servers]);
        let outcome = only(conclusions(&enough, "requests/s", true)).outcome;
        assert!(
            !matches!(outcome, Outcome::TooFewRuns { .. }),
            "{outcome:?}"
        );
    }
}

#[test]
fn errors_where_there_were_none_are_found_without_a_ratio() {
    let mut runs = rounds(ROUNDS, &[("old", 1.0), ("new", 1.0)]);
    let of_new = runs.iter_mut().filter(|run| run.cell == Some(2));
    for (run, errors) in of_new.zip([10.0, 12.0, 9.0, 11.0, 12.0, 10.0]) {
        run.values.insert("errors".to_owned(), errors);
    }
    let found = only(conclusions(&runs, "errors", true));
    let difference = found.levels[1].difference.expect("six rounds are enough");
    assert_eq!((difference.ratio, difference.is_found()), (None, true));
    assert_eq!(found.outcome, Outcome::Worse { level: 1 });
    assert!(found.is_regression(0.05));
    // They are judged without being named.
    let options = CompareOptions {
        is_sequential: true,
        ..CompareOptions::default()
    };
    let all = compare_cells(&runs, &options).expect("there is something to compare");
    let names = all.comparisons.iter().map(|it| it.metric.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["requests_per_sec", "errors"]);
}

/// Old and new in two circumstances, in which they differ in opposite directions, and whether a run
/// is of the first one.
fn opposite() -> Vec<(Observation, bool)> {
    let levels = [("old", 1.0), ("new", 1.1), ("old", 3.0), ("new", 2.4)];
    let runs = rounds(ROUNDS, &levels).into_iter();
    runs.map(|run| {
        let is_first = run.cell.is_some_and(|cell| cell <= 2);
        (run, is_first)
    })
    .collect()
}

#[test]
fn places_are_compared_separately_because_they_may_disagree() {
    let mut runs = opposite();
    for (run, is_office) in &mut runs {
        run.settings.push(Setting {
            factor: PLACE_FACTOR.to_owned(),
            level: if *is_office { "office" } else { "cloud" }.to_owned(),
        });
    }
    let runs: Vec<Observation> = runs.into_iter().map(|(run, _)| run).collect();
    let found = sequential_differences(&runs, &[Metric::named("requests/s")], 0.02);
    let of_targets = found.iter().filter(|it| it.factor == "target");
    let decisions: Vec<_> = of_targets
        .map(|it| (it.place.join(""), it.decision()))
        .collect();
    assert_eq!(
        decisions,
        [
            ("office".to_owned(), Decision::More),
            ("cloud".to_owned(), Decision::Less),
        ]
    );
}

#[test]
fn profiles_are_compared_separately() {
    let mut runs = opposite();
    for (run, is_light) in &mut runs {
        run.profile = Some(if *is_light { "light" } else { "heavy" }.to_owned());
    }
    let runs: Vec<Observation> = runs.into_iter().map(|(run, _)| run).collect();
    let found = conclusions(&runs, "requests/s", true).comparisons;
    let outcomes: Vec<_> = found
        .iter()
        .map(|it| (it.place.join(""), it.outcome))
        .collect();
    assert_eq!(
        outcomes,
        [
            ("light".to_owned(), Outcome::Better { level: 1 }),
            ("heavy".to_owned(), Outcome::Worse { level: 1 }),
        ]
    );
}
