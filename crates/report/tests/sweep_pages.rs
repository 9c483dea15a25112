//! Pages of experiments: a golden text, and what must be on the others.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

#[allow(dead_code, reason = "other tests use more of it")]
mod fixture;
mod seen;
mod swept;

use std::path::Path;

use analysis::compare::{CompareOptions, compare_cells};
use analysis::{Observation, Reading};
use presentation::{Block, Chart, Mark, Page, Scale, Shown, TableBlock, Tone, Unit};
use report::page::{PageSubject, build, render};
use results::metric;
use results::{Cell, Experiment, SocketMoment, Stopping, Verdict};
use seen::{chart, charts, check_golden, check_page, outline, section};
use swept::{LEVELS, cells_of_levels, experiment, noise, rounds, run, setting};

/// A page of these runs, with what they say when they are compared.
fn page_of(observations: &[Observation], experiments: &[Experiment]) -> Page {
    let conclusions = compare_cells(observations, &CompareOptions::default()).ok();
    build(&PageSubject {
        observations,
        experiments,
        conclusions: conclusions.as_ref(),
        ..PageSubject::default()
    })
}

/// Seven levels without any effect; the first run of all is cold.
fn cold_sweep() -> (Vec<Observation>, Vec<Experiment>) {
    let cells = cells_of_levels(&LEVELS);
    let runs = rounds(&cells, 5, |_, position| {
        let cold = if position == 1 { 0.6 } else { 1.0 };
        2_000.0 * cold * (1.0 + 0.02 * noise(u64::from(position)))
    });
    (runs, vec![experiment(&cells, 5)])
}

fn table<'a>(page: &'a Page, id: &str, caption: &str) -> &'a TableBlock {
    let blocks = section(page, id)
        .into_iter()
        .flat_map(|section| &section.blocks);
    let mut tables = blocks.filter_map(|block| match block {
        Block::Table(table) => Some(table),
        _ => None,
    });
    tables.find(|table| table.caption == caption).unwrap()
}

fn findings(page: &Page, id: &str) -> Vec<(Tone, String)> {
    let blocks = section(page, id)
        .into_iter()
        .flat_map(|section| &section.blocks);
    blocks
        .filter_map(|block| match block {
            Block::Finding {
                tone,
                text,
                details,
            } => Some((*tone, format!("{text} {}", details.join(" | ")))),
            _ => None,
        })
        .collect()
}

fn values(chart: &Chart, name: &str) -> Vec<Option<f64>> {
    let marks = chart.marks.iter().find(|marks| marks.name == name);
    marks.unwrap_or_else(|| panic!("no {name}")).y.clone()
}

#[test]
fn servers_have_a_colour_each_and_the_intervals_that_ended_their_experiment() {
    let cells: Vec<Cell> = ["old", "new"]
        .into_iter()
        .zip(1..)
        .map(|(target, number)| Cell {
            number,
            settings: Vec::new(),
            profile: None,
            target: target.to_owned(),
            is_baseline: false,
        })
        .collect();
    let runs = rounds(&cells, 6, |at, position| {
        2_000.0 * [1.0, 1.1][at] * (1.0 + 0.02 * noise(u64::from(position)))
    });
    let experiment = Experiment {
        stopping: Some(Stopping::default()),
        ..experiment(&cells, 6)
    };
    let options = CompareOptions {
        is_sequential: true,
        ..CompareOptions::default()
    };
    let conclusions = compare_cells(&runs, &options).unwrap();
    let page = build(&PageSubject {
        observations: &runs,
        experiments: &[experiment],
        conclusions: Some(&conclusions),
        ..PageSubject::default()
    });
    check_page(&page);
    let mut colored = 0;
    for chart in charts(&page) {
        for marks in &chart.marks {
            let color = match marks.name.as_str() {
                name if name.starts_with("old") => 0,
                name if name.starts_with("new") => 1,
                _ => {
                    assert!(marks.color > 1, "{}: {}", chart.id, marks.name);
                    continue;
                }
            };
            assert_eq!(marks.color, color, "{}: {}", chart.id, marks.name);
            colored += 1;
        }
    }
    assert!(colored > 10, "{colored}");
    let known = conclusions.comparisons[0].levels[1].difference.unwrap();
    let drawn = chart(&page, "effects-0");
    let ends = drawn
        .marks
        .iter()
        .find(|marks| marks.name == "new")
        .unwrap();
    let low = (known.low.unwrap() - 1.0) * 100.0;
    assert!((ends.low[0].unwrap() - low).abs() < 1e-3, "{ends:?}");
    // An interval of the median holds for one look.
    let medians = chart(&page, "levels-0").marks.last().unwrap();
    assert_eq!(medians.low, [None, None]);
}

#[test]
fn the_page_of_an_experiment_is_as_expected() {
    let (runs, experiments) = cold_sweep();
    let page = page_of(&runs, &experiments);
    check_page(&page);
    check_golden(&page, "page_sweep.txt");
}

#[test]
fn every_run_is_a_dot_that_says_which_run_it_is() {
    let (runs, experiments) = cold_sweep();
    let page = page_of(&runs, &experiments);
    let chart = chart(&page, "levels-0");
    let dots = &chart.marks[0];
    assert_eq!((dots.mark, dots.x.len()), (Mark::Dots, 35));
    assert_eq!(
        chart.x.scale,
        Scale::Names(LEVELS.map(str::to_owned).to_vec())
    );
    for ((x, y), label) in dots.x.iter().zip(&dots.y).zip(&dots.labels) {
        // Nearer to its own level than to any other.
        let level = LEVELS[x.round() as usize];
        let (name, rest) = label.split_once(": ").unwrap();
        assert_eq!(name, level, "{label}");
        let run = runs.iter().find(|run| {
            let file = run.source.rsplit('/').next().unwrap();
            rest.ends_with(file)
        });
        let run = run.unwrap();
        let place = format!("round {}, ", run.run);
        assert!(rest.starts_with(&place), "{label}");
        let value = run.value(metric::REQUESTS_PER_SEC).unwrap();
        assert!((y.unwrap() / value - 1.0).abs() < 1e-5, "{label}");
    }
    let medians = &chart.marks[1];
    assert_eq!((medians.mark, medians.x.len()), (Mark::Interval, 7));
    for (middle, (low, high)) in medians.y.iter().zip(medians.low.iter().zip(&medians.high)) {
        assert!(low < middle && middle < high);
    }
}

#[test]
fn a_cold_first_run_is_drawn_in_order_and_described() {
    let (runs, experiments) = cold_sweep();
    let page = page_of(&runs, &experiments);
    let line = values(chart(&page, "order-0"), "In this order");
    let least = line.iter().flatten().copied().reduce(f64::min);
    assert_eq!((line.len(), line[0]), (35, least));
    let said = findings(&page, "order");
    assert!(
        said.iter()
            .any(|(_, text)| text.contains("first run of all")),
        "{said:?}"
    );
}

#[test]
fn a_level_without_a_good_run_is_named() {
    let (mut runs, experiments) = cold_sweep();
    let lead = |runs: &[Observation]| {
        let page = page_of(runs, &experiments);
        section(&page, "verdict").unwrap().lead.clone()
    };
    assert!(!lead(&runs).contains("No run of"), "{}", lead(&runs));
    for run in &mut runs {
        if run.settings[0].level == LEVELS[3] {
            run.failure = Some("refused".to_owned());
        }
    }
    let said = format!(" No run of rmem_max = {} counts.", LEVELS[3]);
    assert!(lead(&runs).ends_with(&said), "{}", lead(&runs));
}

#[test]
fn runs_are_drawn_by_start_or_by_position_if_times_are_too_coarse() {
    let (mut runs, experiments) = cold_sweep();
    // A pause after the tenth run is seen.
    for run in &mut runs {
        let position = run.position.unwrap();
        let trial = run.trial.as_deref_mut().unwrap();
        let minute = position + if position > 10 { 20 } else { 0 };
        trial.started_at = Some(format!(
            "2026-11-20T{}:{:02}:07.5Z",
            20 + minute / 60,
            minute % 60
        ));
    }
    let axis = |runs: &[Observation]| {
        let page = page_of(runs, &experiments);
        let chart = chart(&page, "order-0");
        (chart.x.unit, chart.marks[0].x.clone())
    };
    let (unit, times_s) = axis(&runs);
    assert_eq!(unit, Unit::Seconds);
    assert_eq!((times_s[0], times_s[9], times_s[10]), (0.0, 540.0, 1_800.0));
    for unknown in [Some("yesterday".to_owned()), None] {
        let trial = runs[7].trial.as_deref_mut().unwrap();
        trial.started_at = unknown;
        let (unit, places) = axis(&runs);
        assert_eq!((unit, places[10]), (Unit::Count, 11.0));
    }
    // All in one second.
    for run in &mut runs {
        run.trial.as_deref_mut().unwrap().started_at = Some("2026-11-20T20:00:00Z".to_owned());
    }
    assert_eq!(axis(&runs).0, Unit::Count);
}

#[test]
fn telemetry_over_time_is_the_median_of_the_runs_of_a_level() {
    let (runs, experiments) = cold_sweep();
    let page = page_of(&runs, &experiments);
    let of_level: Vec<f64> = runs
        .iter()
        .filter(|run| run.settings[0].level == LEVELS[0])
        .map(|run| 40.0 + f64::from(run.position.unwrap()))
        .collect();
    let expected = analysis::median(&of_level).unwrap();
    let rtt = values(chart(&page, "telemetry-rtt"), LEVELS[0]);
    let expected: Vec<_> = (0..4)
        .map(|second| Some(expected + f64::from(second)))
        .collect();
    assert_eq!(rtt, expected);
    // Only 20 ms of the last interval are in the window, too little for a rate.
    let again = values(chart(&page, "telemetry-retransmits"), LEVELS[0]);
    assert_eq!(again, [Some(0.0), Some(1.0), Some(2.0), None]);
}

#[test]
fn two_levels_with_an_effect_have_a_verdict_with_its_size() {
    let cells = cells_of_levels(&["262144", "4194304"]);
    let runs = rounds(&cells, 6, |cell, position| {
        2_000.0 * (1.0 + 0.2 * cell as f64) * (1.0 + 0.01 * noise(u64::from(position)))
    });
    let page = page_of(&runs, &[experiment(&cells, 6)]);
    check_page(&page);
    let (tone, text) = &findings(&page, "verdict")[0];
    assert_eq!(*tone, Tone::Better);
    assert!(text.contains("4194304 beats 262144 by"), "{text}");
    let Some(Block::Figures { figures }) = section(&page, "verdict")
        .unwrap()
        .blocks
        .iter()
        .find(|block| matches!(block, Block::Figures { .. }))
    else {
        panic!("no figures");
    };
    let effect = figures.iter().find(|figure| figure.value.starts_with('+'));
    assert!(
        effect
            .unwrap()
            .note
            .starts_with("4194304 against 262144; 95 % interval +")
    );
    let effects = chart(&page, "effects-0");
    let names: Vec<&str> = effects
        .marks
        .iter()
        .map(|marks| marks.name.as_str())
        .collect();
    assert_eq!(names, ["Within 2 %", "Different"]);
    let band = table(&page, "effects", "requests/s by rmem_max");
    assert_eq!(
        (band.rows[1][6].text.as_str(), band.rows[1][6].tone),
        ("better", Tone::Better)
    );
    // Visible on a phone: level, runs, median, change, verdict.
    let always = band
        .columns
        .iter()
        .filter(|column| column.shown == Shown::Always);
    assert_eq!(always.count(), 5);
    // Each of twelve runs is a faint line, and each level a strong one.
    let rtt = chart(&page, "telemetry-rtt");
    let faint = rtt.marks.iter().filter(|marks| marks.is_faint).count();
    assert_eq!((faint, rtt.marks.len()), (12, 14));
}

/// The verdict of a page of two levels: the tone and the value of its first figure, the tone and
/// the text of its first sentence, and the word in the table of levels.
fn verdict_of_two(level_factor: f64, noise_share: f64) -> [String; 5] {
    let cells = cells_of_levels(&["262144", "4194304"]);
    let runs = rounds(&cells, 8, |cell, position| {
        let factor = if cell == 1 { level_factor } else { 1.0 };
        2_000.0 * factor * (noise_share * noise(u64::from(position))).exp()
    });
    let page = page_of(&runs, &[experiment(&cells, 8)]);
    check_page(&page);
    let blocks = &section(&page, "verdict").unwrap().blocks;
    let figure = blocks.iter().find_map(|block| match block {
        Block::Figures { figures } => figures.iter().find(|it| it.label.starts_with("rmem_max: ")),
        _ => None,
    });
    let figure = figure.expect("the effect is shown");
    let sentences = findings(&page, "verdict").into_iter();
    let sentence = sentences.map(|(tone, text)| (format!("{tone:?}"), text.clone()));
    let (tone, text) = sentence
        .into_iter()
        .find(|(_, text)| text.contains("requests/s"))
        .expect("there is a sentence");
    let levels = table(&page, "effects", "requests/s by rmem_max");
    let word = levels.rows[1][6].text.clone();
    [
        format!("{:?}", figure.tone),
        figure.value.clone(),
        tone,
        text,
        word,
    ]
}

#[test]
fn undecided_the_same_and_an_effect_are_told_apart_everywhere_on_the_page() {
    for (factor, noise, tone, figure, sentence, word) in [
        (
            1.0,
            2.0,
            "Undecided",
            "undecided",
            "requests/s: undecided (between ",
            "undecided",
        ),
        (
            1.0,
            0.05,
            "Undecided",
            "undecided",
            "requests/s: undecided (p = ",
            "undecided",
        ),
        (
            1.019,
            0.003,
            "Undecided",
            "undecided",
            "requests/s: undecided whether it ",
            "undecided",
        ),
        (
            1.001,
            0.003,
            "Same",
            "the same",
            "requests/s is the same within 2 %",
            "same",
        ),
        (
            1.2,
            0.01,
            "Better",
            "+",
            "4194304 beats 262144 by ",
            "better",
        ),
        (
            0.8,
            0.01,
            "Worse",
            "-",
            "4194304 is worse than 262144: ",
            "worse",
        ),
    ] {
        let found = verdict_of_two(factor, noise);
        let case = format!("x {factor}, noise {noise}: {found:?}");
        assert_eq!([&found[0], &found[2]], [tone, tone], "{case}");
        assert!(found[1].starts_with(figure), "{case}");
        assert!(found[3].contains(sentence), "{case}");
        assert_eq!(found[4], word, "{case}");
    }
}

#[test]
fn a_level_that_differs_has_its_own_p_value_before_that_of_all_levels() {
    let cells = cells_of_levels(&["262144", "1048576", "4194304"]);
    let runs = rounds(&cells, 6, |cell, position| {
        let factor = if cell == 2 { 1.2 } else { 1.0 };
        2_000.0 * factor * (1.0 + 0.01 * noise(u64::from(position)))
    });
    let page = page_of(&runs, &[experiment(&cells, 6)]);
    let blocks = &section(&page, "verdict").unwrap().blocks;
    let Some(Block::Finding { text, details, .. }) = blocks.first() else {
        panic!("no finding");
    };
    assert!(text.contains("4194304 beats 262144 by"), "{text}");
    assert_eq!(
        details[0],
        "4194304 against 262144: p = 0.004 by permutations, adjusted for 2 such comparisons."
    );
    assert!(
        details[1].starts_with("All levels at once, Kruskal-Wallis"),
        "{details:?}"
    );
}

/// Two factors on two targets under two profiles, three rounds; the first cell is repeated.
fn wide_sweep() -> (Vec<Observation>, Vec<Experiment>) {
    let mut cells: Vec<Cell> = Vec::new();
    for profile in ["light", "heavy"] {
        for target in ["nginx", "apache"] {
            for backlog in ["128", "4096"] {
                for buffers in ["small", "large", "huge"] {
                    cells.push(Cell {
                        number: cells.len() as u32 + 1,
                        settings: vec![setting("backlog", backlog), setting("buffers", buffers)],
                        profile: Some(profile.to_owned()),
                        target: target.to_owned(),
                        is_baseline: cells.is_empty(),
                    });
                }
            }
        }
    }
    let mut runs = rounds(&cells, 3, |cell, position| {
        200.0 + 10.0 * (cell % 3) as f64 + noise(u64::from(position))
    });
    for round in 1..=3_u32 {
        let position = runs.len() as u32 + 1;
        let mut again = run(&cells[0], round, position, 200, 3_000);
        again.run = 3 + round;
        runs.push(again);
    }
    (runs, vec![experiment(&cells, 3)])
}

#[test]
fn several_factors_have_charts_for_each_profile_and_target() {
    let (runs, experiments) = wide_sweep();
    let page = page_of(&runs, &experiments);
    check_page(&page);
    let titles: Vec<&str> = charts(&page)
        .filter(|chart| chart.id.starts_with("levels-"))
        .map(|chart| chart.title.as_str())
        .collect();
    for expected in [
        "requests/s by backlog: nginx, light",
        "p99 latency by buffers: apache, heavy",
        "requests/s by target: light",
    ] {
        assert!(titles.contains(&expected), "{expected}: {titles:#?}");
    }
    // A group has the same colour everywhere.
    let mut colors = std::collections::BTreeMap::new();
    for chart in charts(&page).filter(|chart| {
        chart.id.starts_with("latency-by-percentile") || chart.id.starts_with("telemetry-")
    }) {
        for marks in chart.marks.iter().filter(|marks| marks.mark == Mark::Line) {
            let (group, _) = marks.name.rsplit_once(", ").unwrap();
            let known = colors.entry(group.to_owned()).or_insert(marks.color);
            assert_eq!(*known, marks.color, "{}: {}", chart.id, marks.name);
        }
    }
    assert_eq!(colors.len(), 6);
    // The baseline is one cell with all of its runs, and marked.
    let order = charts(&page).find(|chart| chart.title == "requests/s: light, nginx");
    let baseline = "backlog 128, buffers small (baseline, repeated)";
    assert_eq!(values(order.unwrap(), baseline).len(), 6);
    let averages = table(&page, "averages", "Averages");
    assert_eq!(
        (averages.rows.len(), averages.rows[0][4].text.as_str()),
        (24, "6")
    );
}

#[test]
fn failed_runs_are_listed_with_their_reasons_and_not_drawn() {
    let (mut runs, experiments) = cold_sweep();
    for at in [3, 20] {
        let run = &mut runs[at];
        run.failure = Some("not ready within 10s".to_owned());
        run.result = None;
        run.values.clear();
        let trial = run.trial.as_mut().unwrap();
        trial.failed_attempts = vec!["connection refused".to_owned()];
        trial.hooks[0].exit_code = Some(7);
        trial.hooks[0].stderr = "nginx: [emerg] no".to_owned();
    }
    runs[8].trial.as_mut().unwrap().hooks[0].duration_ms = 30_000;
    let page = page_of(&runs, &experiments);
    check_page(&page);
    let verdict = outline_of(&page, "verdict");
    for expected in [
        "2 of 35 runs failed and are excluded.",
        "round 1, 4th of 35 runs, ",
        "not ready within 10s (r01-c",
        "# Runs counted: 33",
    ] {
        assert!(verdict.contains(expected), "{expected}\n{verdict}");
    }
    assert_eq!(chart(&page, "levels-0").marks[0].x.len(), 33);
    assert_eq!(values(chart(&page, "order-0"), "In this order").len(), 33);
    let hooks = outline_of(&page, "hooks");
    for expected in [
        "2 runs needed more than one attempt.",
        "exit code 7: nginx: [emerg] no",
        "took much longer than the usual",
        "9th of 35 runs: 30 s",
    ] {
        assert!(hooks.contains(expected), "{expected}\n{hooks}");
    }
    let averages = table(&page, "averages", "Averages");
    assert_eq!(
        averages
            .rows
            .iter()
            .filter(|row| row[1].text == "4 of 5")
            .count(),
        2
    );
}

/// One section in words.
fn outline_of(page: &Page, id: &str) -> String {
    let sections = section(page, id).cloned().into_iter().collect();
    outline(&Page {
        sections,
        ..Page::default()
    })
}

#[test]
fn an_experiment_in_which_all_runs_failed_draws_nothing() {
    let (mut runs, experiments) = cold_sweep();
    for run in &mut runs {
        run.failure = Some("connection refused".to_owned());
        run.result = None;
        run.values.clear();
    }
    let page = page_of(&runs, &experiments);
    check_page(&page);
    assert_eq!(charts(&page).count(), 0);
    let (tone, text) = &findings(&page, "verdict")[0];
    assert_eq!(*tone, Tone::Bad);
    assert!(text.starts_with("35 of 35 runs failed"), "{text}");
    assert!(outline(&page).contains("Every run failed"));
}

#[test]
fn an_unfinished_experiment_says_how_many_runs_were_made() {
    let (runs, experiments) = cold_sweep();
    let page = page_of(&runs[..8], &experiments);
    check_page(&page);
    let verdict = outline_of(&page, "verdict");
    let expected = "The experiment is not finished: 8 of 35 runs were made.";
    assert!(verdict.contains(expected), "{verdict}");
}

#[test]
fn a_reboot_of_any_machine_is_reported() {
    let cells = cells_of_levels(&["1", "2"]);
    let mut runs = rounds(&cells, 3, |_, position| 500.0 + noise(u64::from(position)));
    for run in &mut runs {
        let position = run.position.unwrap();
        let uptime_s = if position < 4 { 5_000 } else { 10 } + position;
        let before = &mut run.trial.as_mut().unwrap().environment_before;
        before.insert("db1:uptime_s".to_owned(), uptime_s.to_string());
    }
    let page = page_of(&runs, &[experiment(&cells, 3)]);
    let said = outline_of(&page, "differences");
    assert!(
        said.contains("The machine was rebooted between runs."),
        "{said}"
    );
    assert_eq!(said.matches("db1: before").count(), 1, "{said}");
}

#[test]
fn settings_that_the_kernel_clamped_are_reported() {
    let cells = cells_of_levels(&["4194304", "8388608", "16777216"]);
    let mut runs = rounds(&cells, 3, |_, position| 500.0 + noise(u64::from(position)));
    for run in &mut runs {
        let trial = run.trial.as_mut().unwrap();
        let value = trial.effective.get_mut("net.core.rmem_max").unwrap();
        if value != "4194304" {
            *value = "8388608".to_owned();
        }
    }
    runs[4]
        .trial
        .as_mut()
        .unwrap()
        .environment_after
        .insert("net.core.rmem_max".to_owned(), "1".to_owned());
    runs[5].result.as_mut().unwrap().environment.kernel = Some("Linux 6.19".to_owned());
    let page = page_of(&runs, &[experiment(&cells, 3)]);
    check_page(&page);
    let said = outline_of(&page, "differences");
    for expected in [
        "net.core.rmem_max: requested 16777216, is 8388608",
        "[Bad] Different levels are the same value in the kernel.",
        "8388608 and 16777216: net.core.rmem_max = 8388608",
        "Settings changed during a run.",
        "Kernel was not the same in all runs of a group.",
        "Linux 6.19: round 2, 6th of 9 runs",
        "load_1m | 1.1 | 1.5 | 1.9",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
}

#[test]
fn reports_as_text_make_a_page_of_their_numbers() {
    let text: String = [("65536", 1_000), ("262144", 1_100)]
        .iter()
        .flat_map(|(name, rate)| {
            (0..5).map(move |run| {
                format!(
                    "buffers={name}\nRunning 10s test @ http://localhost/\n  \
                     2 threads and 10 connections\n  \
                     Thread Stats   Avg      Stdev     Max   +/- Stdev\n    \
                     Latency     1.{run}0ms    0.10ms   9.00ms   90.00%\n    \
                     Req/Sec     5.00k    0.10k     6.00k    80.00%\n  Latency Distribution\n     \
                     50%    1.{run}0ms\n     75%    1.50ms\n     90%    2.00ms\n     99%    5.{run}0ms\n  \
                     {} requests in 10.00s, 10.00MB read\n\
                     Requests/sec:   {}.00\nTransfer/sec:      1.00MB\n\n",
                    (rate + run) * 10,
                    rate + run
                )
            })
        })
        .collect();
    let reading = Reading::of_bytes(text.as_bytes(), Path::new("notes.md")).unwrap();
    assert_eq!(reading.observations.len(), 10);
    let page = page_of(&reading.observations, &[]);
    check_page(&page);
    let lines = chart(&page, "latency-by-percentile");
    let strong = lines.marks.iter().find(|marks| !marks.is_faint).unwrap();
    assert_eq!(strong.x, [50.0, 75.0, 90.0, 99.0]);
    assert_eq!(strong.y[0], Some(1_200.0));
    let ids: Vec<&str> = page
        .sections
        .iter()
        .map(|section| section.id.as_str())
        .collect();
    assert_eq!(
        ids,
        [
            "verdict", "levels", "effects", "order", "averages", "latency"
        ]
    );
}

#[test]
fn a_page_of_thirty_five_runs_with_telemetry_is_small() {
    let (mut runs, experiments) = cold_sweep();
    for run in &mut runs {
        let result = run.result.as_mut().unwrap();
        result.window.duration_ns = 600_000_000_000;
        let rows = &mut result
            .telemetry
            .as_mut()
            .unwrap()
            .timeline
            .as_mut()
            .unwrap()
            .rows;
        let first = rows[0].clone();
        *rows = (0..600)
            .map(|second| SocketMoment {
                start_ms: second * 1_000,
                rtt_p50_us: Some(40.0 + noise(second)),
                ..first.clone()
            })
            .collect();
    }
    let page = page_of(&runs, &experiments);
    check_page(&page);
    let rtt = values(chart(&page, "telemetry-rtt"), LEVELS[0]);
    assert_eq!(rtt.len(), 120);
    let mut html = Vec::new();
    render(&page, &mut html).unwrap();
    assert!(html.len() < 600_000, "{} bytes", html.len());
}

#[test]
fn an_experiment_with_many_levels_makes_a_page() {
    let names: Vec<String> = (0..41)
        .map(|level| format!("{}{level}", "long ".repeat(20)))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let cells = cells_of_levels(&names);
    let mut runs = rounds(&cells, 2, |_, position| 100.0 + noise(u64::from(position)));
    for run in runs.iter_mut().take(30) {
        run.failure = Some("</script><script>alert(1)</script>".to_owned());
    }
    let page = page_of(&runs, &[experiment(&cells, 2)]);
    check_page(&page);
    let order = chart(&page, "order-0");
    assert_eq!(order.marks.len(), 2, "groups have no colours of their own");
    assert_eq!(chart(&page, "latency-by-percentile").marks.len(), 41);
    assert!(outline_of(&page, "verdict").contains("and 10 more"));
    let mut html = Vec::new();
    render(&page, &mut html).unwrap();
    assert!(!String::from_utf8(html).unwrap().contains("<script>alert"));
}

#[test]
fn values_that_were_always_zero_are_named_and_not_drawn() {
    let (mut runs, experiments) = cold_sweep();
    for run in &mut runs {
        let result = run.result.as_mut().unwrap();
        let timeline = result
            .telemetry
            .as_mut()
            .unwrap()
            .timeline
            .as_mut()
            .unwrap();
        for row in &mut timeline.rows {
            row.segments_retransmitted = Some(0);
            row.listen_queue_max = None;
        }
    }
    let page = page_of(&runs, &experiments);
    check_page(&page);
    let lead = &section(&page, "telemetry").unwrap().lead;
    let expected = "Zero in every run: retransmitted segments per second, listen drops and \
                    TcpExt.ListenDrops.";
    assert!(lead.contains(expected), "{lead}");
    let drawn: Vec<&str> = charts(&page).map(|chart| chart.id.as_str()).collect();
    assert!(drawn.contains(&"telemetry-cwnd"));
    // Unknown values are neither drawn nor called zero.
    assert!(!drawn.contains(&"telemetry-retransmits") && !drawn.contains(&"telemetry-queue"));
}

#[test]
fn runs_with_a_saturated_load_generator_are_reported_first_and_drawn_hollow() {
    let cells = cells_of_levels(&["262144", "4194304"]);
    let mut runs = rounds(&cells, 6, |cell, position| {
        2_000.0 * (1.0 + 0.2 * cell as f64) * (1.0 + 0.01 * noise(u64::from(position)))
    });
    for run in runs.iter_mut().skip(1) {
        let result = run.result.as_deref_mut().unwrap();
        result.generator.verdict = Verdict::Saturated {
            percentiles: Vec::new(),
            symptoms: Vec::new(),
            remedy: String::new(),
        };
    }
    let page = page_of(&runs, &[experiment(&cells, 6)]);
    check_page(&page);
    let verdict = section(&page, "verdict").unwrap();
    assert!(
        verdict
            .lead
            .contains("the load generator was saturated in 11 of them"),
        "{}",
        verdict.lead
    );
    let told = findings(&page, "verdict");
    assert_eq!(told[0].0, Tone::Bad);
    assert!(
        told[0].1.contains("saturated in 11 of 12 runs"),
        "{}",
        told[0].1
    );
    assert!(
        told.iter().all(|(tone, _)| *tone != Tone::Better),
        "{told:?}"
    );
    for id in ["levels-0", "order-0"] {
        let dots = |is_hollow: bool| -> usize {
            let marks = chart(&page, id).marks.iter();
            marks
                .filter(|marks| marks.mark == Mark::Dots && marks.is_hollow == is_hollow)
                .map(|marks| marks.x.len())
                .sum()
        };
        assert_eq!((dots(false), dots(true)), (1, 11), "{id}");
    }
    let all = table(
        &page,
        "averages",
        "All runs (marked: fewer than ten samples above)",
    );
    let saturated = all
        .rows
        .iter()
        .flatten()
        .filter(|cell| cell.text == "saturated");
    assert_eq!(saturated.count(), 11);
}

#[test]
fn many_comparisons_are_one_table_and_tables_start_with_the_main_columns() {
    let (runs, experiments) = wide_sweep();
    let page = page_of(&runs, &experiments);
    let matrix = table(&page, "verdict", "Effects found");
    let heads: Vec<&str> = matrix
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(heads, ["effect of", "requests/s", "p99 latency"]);
    assert!(matrix.rows.len() > 4);
    assert!(
        matrix
            .rows
            .iter()
            .any(|row| row[0].text == "backlog, nginx, light")
    );
    // Their sentences are next to their charts.
    assert_eq!(findings(&page, "effects").len(), 2 * matrix.rows.len());

    let (runs, experiments) = cold_sweep();
    let page = page_of(&runs, &experiments);
    let averages = table(&page, "averages", "Averages");
    let seen: Vec<&str> = averages
        .columns
        .iter()
        .filter(|column| column.shown == Shown::Always)
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(
        seen,
        ["rmem_max", "runs", "requests/s", "p50", "p99", "change"]
    );
}
