//! The places of a fleet in tables and comparisons.

#[path = "../../results/tests/fixture/mod.rs"]
mod fixture;

use analysis::compare::{CompareOptions, Named, compare_cells, compare_with_base};
use analysis::table::{TableOptions, table};
use analysis::{Observation, Reading, by_common_place, by_place};
use results::fleet::merge;
use results::{
    AgentOutcome, AgentResult, Environment, LostShare, PLACE_FACTOR, RunResult, Setting,
};
use std::path::Path;

/// A run by one agent at each place; without a number of responses, the agent was lost.
fn fleet(agents: &[(&str, Option<u64>)]) -> RunResult {
    let mut plan = fixture::plan();
    plan.load.connections = 2 * agents.len() as u32;
    let shares = plan.deal(&vec![2; agents.len()]).expect("enough for all");
    let agents = agents
        .iter()
        .zip(shares)
        .map(|((place, answered), share)| AgentResult {
            id: format!("agent-{}", share.schedule.worker_base),
            place: (*place).to_owned(),
            worker_base: share.schedule.worker_base,
            weight: share.weight,
            clock_bound_ns: None,
            start_late_ns: None,
            early: None,
            outcome: match answered {
                None => AgentOutcome::Lost(Box::new(LostShare {
                    plan: share.plan,
                    after_ms: 0,
                    sent: 0,
                    answered: 0,
                    reason: "no sign of life for 3 s".to_owned(),
                })),
                Some(answered) => {
                    let mut result = fixture::result(fixture::recording(*answered));
                    result.plan = share.plan;
                    AgentOutcome::Delivered(Box::new(result))
                }
            },
        });
    merge(&plan, Environment::default(), agents.collect())
}

fn read(result: &RunResult) -> Vec<Observation> {
    let mut bytes = Vec::new();
    results::file::save(result, &[], &mut bytes).expect("writing to memory cannot fail");
    let reading = Reading::of_bytes(&bytes, Path::new("run.json")).expect("it is a document");
    reading.observations
}

fn places(runs: &[Observation]) -> Vec<&str> {
    let settings = runs.iter().flat_map(|run| &run.settings);
    settings.map(|setting| setting.level.as_str()).collect()
}

#[test]
fn a_run_by_a_fleet_has_a_row_for_all_places_and_one_for_each() {
    let runs = by_place(read(&fleet(&[("office", Some(301)), ("rack", Some(602))])));
    assert_eq!(places(&runs), ["all places", "office", "rack"]);
    let per_sec: Vec<f64> = runs
        .iter()
        .map(|run| {
            run.value("requests_per_sec")
                .expect("it was measured")
                .round()
        })
        .collect();
    assert_eq!(per_sec, [300.0, 100.0, 200.0]);
    let table = table(&runs, &TableOptions::default()).expect("the usual columns");
    assert_eq!(table.factors, [PLACE_FACTOR]);
    assert_eq!(table.cells.len(), 3);
    let sections: Vec<_> = table
        .groups
        .iter()
        .map(|it| it.section.as_deref())
        .collect();
    assert_eq!(sections, [Some("all places"), Some("office"), Some("rack")]);
}

#[test]
fn a_place_whose_agents_were_all_lost_is_a_failed_run() {
    let runs = by_place(read(&fleet(&[("office", Some(301)), ("rack", None)])));
    assert_eq!(
        runs[2].failure.as_deref(),
        Some("no agent delivered a result")
    );
    assert!(runs[2].values.is_empty() && runs[2].result.is_none());
    assert_eq!(runs[1].failure, None);
}

#[test]
fn a_fleet_at_one_place_is_one_row_with_its_name() {
    let runs = by_place(read(&fleet(&[("rack", Some(301)), ("rack", Some(602))])));
    assert_eq!(places(&runs), ["rack"]);
}

#[test]
fn runs_of_one_machine_and_trials_with_a_factor_of_places_stay_as_they_are() {
    let alone = read(&fixture::result(fixture::recording(301)));
    assert_eq!(by_place(alone.clone()), alone);
    let mut trial = read(&fleet(&[("rack", Some(301)), ("office", Some(1))]));
    trial[0].settings = vec![Setting {
        factor: PLACE_FACTOR.to_owned(),
        level: "rack".to_owned(),
    }];
    assert_eq!(by_place(trial.clone()), trial);
}

#[test]
fn new_runs_are_compared_with_old_ones_place_by_place() {
    let runs = |office, rack| {
        let result = fleet(&[("office", Some(office)), ("rack", Some(rack))]);
        read(&result)
    };
    let [base, new] = by_common_place([runs(300, 600), runs(300, 900)]);
    let named = |name, runs| Named { name, runs };
    let conclusions = compare_with_base(
        named("base", &base),
        named("new", &new),
        &CompareOptions::default(),
    );
    let conclusions = conclusions.expect("they have places in common");
    let mut seen: Vec<&str> = Vec::new();
    for comparison in &conclusions.comparisons {
        if !seen.contains(&&*comparison.place[0]) {
            seen.push(&comparison.place[0]);
        }
    }
    assert_eq!(
        seen,
        ["place = all places", "place = office", "place = rack"]
    );
    assert_eq!(conclusions.validity[0].runs, 1, "places are parts of it");
}

#[test]
fn fleets_at_different_places_are_compared_as_a_whole() {
    let two = read(&fleet(&[("office", Some(300)), ("rack", Some(600))]));
    let alone = read(&fixture::result(fixture::recording(301)));
    let sides = by_common_place([two.clone(), alone.clone()]);
    assert_eq!(sides, [two, alone]);
}

/// A sweep by each of three places in turn: two rounds of two profiles on two targets.
fn sweep() -> Vec<Observation> {
    let mut runs = Vec::new();
    for round in 1..=2_u32 {
        let mut cell = 0;
        for (at, place) in ["driver machine", "vm/external", "vm/internal"]
            .iter()
            .enumerate()
        {
            for profile in ["basic", "focused"] {
                for (faster, target) in ["x86_64", "arm64"].iter().enumerate() {
                    cell += 1;
                    let per_sec = 500.0 * (at + 1) as f64 + 5.0 * faster as f64 + f64::from(round);
                    let mut run = read(&fleet(&[(place, Some(301))])).remove(0);
                    run.values.insert("requests_per_sec".to_owned(), per_sec);
                    // Runs with failed requests are not compared.
                    for name in ["errors", "statuses_over_399"] {
                        run.values.insert(name.to_owned(), 0.0);
                    }
                    run.cell = Some(cell);
                    run.profile = Some(profile.to_owned());
                    run.target = Some((*target).to_owned());
                    run.round = Some(round);
                    run.run = round;
                    run.settings = vec![Setting {
                        factor: PLACE_FACTOR.to_owned(),
                        level: (*place).to_owned(),
                    }];
                    runs.push(run);
                }
            }
        }
    }
    runs
}

#[test]
fn the_places_of_a_sweep_are_the_sections_of_its_summary() {
    let table = table(&by_place(sweep()), &TableOptions::default()).expect("the usual columns");
    let lines: Vec<String> = table
        .groups
        .iter()
        .flat_map(|group| {
            let section = group.section.clone().expect("each run has its place");
            group.lines.iter().map(move |line| {
                let rates: Vec<f64> = line.requests_per_sec.iter().flatten().copied().collect();
                format!("{section}/{}/{}: {rates:?}", group.title, line.target)
            })
        })
        .collect();
    assert_eq!(lines.len(), 12);
    assert_eq!(
        lines[..4],
        [
            "driver machine/basic/x86_64: [501.0, 502.0]",
            "driver machine/basic/arm64: [506.0, 507.0]",
            "driver machine/focused/x86_64: [501.0, 502.0]",
            "driver machine/focused/arm64: [506.0, 507.0]",
        ]
    );
    assert_eq!(lines[11], "vm/internal/focused/arm64: [1506.0, 1507.0]");
}

#[test]
fn places_are_compared_like_targets_and_targets_within_places() {
    let options = CompareOptions::default();
    let conclusions = compare_cells(&sweep(), &options).expect("it has several cells");
    let of = |factor: &str| {
        let all = conclusions.comparisons.iter().filter(|comparison| {
            comparison.factor.as_deref() == Some(factor)
                && comparison.metric.name == "requests_per_sec"
        });
        all.collect::<Vec<_>>()
    };
    let places = of(PLACE_FACTOR);
    let shared: Vec<String> = places.iter().map(|it| it.place.join(", ")).collect();
    let expected = [
        "x86_64, basic",
        "arm64, basic",
        "x86_64, focused",
        "arm64, focused",
    ];
    assert_eq!(shared, expected);
    for comparison in of("target") {
        assert_eq!(comparison.place.len(), 1, "only loads are kept apart");
        // What places do to the rate, which is a hundred times more, does not hide it.
        assert_eq!(comparison.runs, 6);
        assert!(comparison.is_relative && !comparison.has_rounds);
        assert!(
            comparison.p_value.is_some_and(|p| p < 0.05),
            "{comparison:?}"
        );
    }
}

#[test]
fn runs_of_different_files_are_compared_as_a_whole() {
    let side = |files: [&str; 2]| {
        let runs = files.map(|file| {
            let mut run = read(&fleet(&[("office", Some(300)), ("rack", Some(600))])).remove(0);
            run.settings = vec![Setting {
                factor: "file".to_owned(),
                level: file.to_owned(),
            }];
            run
        });
        runs.to_vec()
    };
    let [base, new] = by_common_place([side(["a", "b"]), side(["c", "d"])]);
    let named = |name, runs| Named { name, runs };
    let conclusions = compare_with_base(
        named("base", &base),
        named("new", &new),
        &CompareOptions::default(),
    );
    for comparison in conclusions.expect("two runs each").comparisons {
        // No place counts as a run of its own.
        assert_eq!(comparison.runs, 2);
        assert!(comparison.place.is_empty());
    }
}
