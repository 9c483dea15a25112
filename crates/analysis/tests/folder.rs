//! Folders of sweeps, of buffertest, and of results.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use analysis::Reading;
use results::file::{save_experiment, save_trial};
use results::{Cell, EXPERIMENT_SCHEMA_VERSION, Experiment, Order, Setting, Trial, TrialOutcome};
use testkit::Folder;

fn set_written(folder: &Folder, name: &str, at: SystemTime) {
    let file = fs::File::options().write(true).open(folder.file(name));
    file.unwrap().set_modified(at).unwrap();
}

fn reading_of(folder: &Folder) -> Reading {
    Reading::of_path(folder.path()).unwrap()
}

const LOG: &str = include_str!("data/cmm_style_with_json.txt");

/// What jq makes of the object in the log.
fn object() -> String {
    LOG[LOG.find('{').unwrap()..].to_owned()
}

fn cell(number: u32) -> Cell {
    Cell {
        number,
        settings: vec![Setting {
            factor: "buffers".to_owned(),
            level: (number * 1000).to_string(),
        }],
        target: "php".to_owned(),
        ..Cell::default()
    }
}

fn trial(number: u32, round: u32, position: u32) -> Trial {
    Trial {
        schema_version: EXPERIMENT_SCHEMA_VERSION,
        experiment: "e".to_owned(),
        cell: cell(number),
        round,
        repeat: 1,
        position,
        started_at: None,
        took_ms: None,
        search: None,
        failed_attempts: Vec::new(),
        outcome: TrialOutcome::Failed(format!("reason {position}")),
        effective: Default::default(),
        environment_before: Default::default(),
        environment_after: Default::default(),
        hooks: Vec::new(),
        samples_file: None,
    }
}

fn sweep(folder: &Folder) {
    let mut document = Vec::new();
    let experiment = Experiment {
        schema_version: EXPERIMENT_SCHEMA_VERSION,
        name: "e".to_owned(),
        plan_toml: String::new(),
        seed: 1,
        order: Order::Shuffled,
        rounds: 2,
        stopping: None,
        threshold: None,
        judge: Vec::new(),
        slo: None,
        cells: vec![cell(1), cell(2)],
        started_at: None,
    };
    save_experiment(&experiment, &mut document).unwrap();
    folder.file_with("experiment.json", &document);
    for (name, trial) in [
        ("r01-c001-1000", trial(1, 1, 2)),
        ("r01-c002-2000", trial(2, 1, 1)),
    ] {
        let mut document = Vec::new();
        save_trial(&trial, &mut document).unwrap();
        folder.file_with(&format!("trials/{name}.json"), &document);
    }
    folder.file_with("trials/r01-c001-1000.samples.jsonl", "{}\n");
}

#[test]
fn trials_without_their_sweep_are_still_runs_of_their_cells() {
    let folder = Folder::new();
    sweep(&folder);
    let mut document = Vec::new();
    save_trial(&trial(1, 2, 3), &mut document).unwrap();
    folder.file_with("trials/r02-c001-1000.json", &document);
    let trials = folder.join("trials");
    let names = ["r01-c001-1000", "r02-c001-1000", "r01-c002-2000"];
    let parts = names.map(|name| {
        let path = trials.join(format!("{name}.json"));
        let reading = Reading::of_path(&path).unwrap();
        (path, reading)
    });
    let of_folder = Reading::of_path(&trials).unwrap();
    for reading in [of_folder, Reading::join(parts.into())] {
        let mut shown: Vec<_> = reading
            .observations
            .iter()
            .map(|run| {
                let settings = run.settings.iter();
                let settings: Vec<_> = settings.map(|s| (&*s.factor, &*s.level)).collect();
                (settings, run.run)
            })
            .collect();
        shown.sort();
        assert_eq!(
            shown,
            [
                (vec![("buffers", "1000")], 1),
                (vec![("buffers", "1000")], 2),
                (vec![("buffers", "2000")], 1),
            ]
        );
    }
}

#[test]
fn trials_of_a_sweep_are_in_order_and_damaged_ones_have_failed() {
    let folder = Folder::new();
    sweep(&folder);
    folder.file_with("trials/r02-c002-2000.json", "{\"schema_ver");
    let reading = reading_of(&folder);
    let shown: Vec<_> = reading
        .observations
        .iter()
        .map(|run| {
            (
                run.cell,
                run.run,
                run.position,
                run.settings[0].level.as_str(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            (Some(2), 1, Some(1), "2000"),
            (Some(1), 1, Some(2), "1000"),
            (Some(2), 2, None, "2000"),
        ]
    );
    assert_eq!(reading.observations[0].failure.as_deref(), Some("reason 1"));
    let damage = reading.observations[2].failure.as_deref().unwrap();
    assert!(damage.contains("not a trial of a sweep"), "{damage}");
    assert!(
        reading.notes[0].contains("3 of 4 trials are there"),
        "{:?}",
        reading.notes
    );
    assert_eq!(reading.problems, [""; 0]);
    // The file that marks the sweep can be given instead of the folder.
    let by_file = Reading::of_path(&folder.join("experiment.json")).unwrap();
    assert_eq!(by_file.observations, reading.observations);
}

#[test]
fn a_folder_of_buffertest_gets_its_settings_from_file_names() {
    let folder = Folder::new();
    for size in ["16777216", "262144"] {
        for run in [1, 2, 10] {
            let name = format!("buffertest-rmem_max-{size}-wmem_max-{size}-{run}");
            folder.file_with(&format!("{name}.json"), object());
            folder.file_with(&format!("{name}.log"), LOG);
        }
    }
    folder.file_with("ss_output-rmem_max-262144-wmem_max-262144.log", "[]\n");
    folder.file_with("buffertest-rmem_max-262144-wmem_max-262144-3.json", "\n");
    folder.file_with("buffertest-rmem_max-262144-wmem_max-262144-3.log", "\n");
    folder.file_with(
        "buffertest-rmem_max-262144-wmem_max-262144-4.json",
        &object()[..60],
    );
    folder.file_with("buffertest-rmem_max-262144-wmem_max-262144-5.log", LOG);
    folder.file_with("readme.md", "nothing");
    let reading = reading_of(&folder);
    let shown: Vec<_> = reading
        .observations
        .iter()
        .map(|run| {
            let failed = if run.failure.is_some() { " failed" } else { "" };
            format!("{} {}{failed}", run.settings[0].level, run.run)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "262144 1",
            "262144 2",
            "262144 3 failed",
            "262144 4 failed",
            "262144 5",
            "262144 10",
            "16777216 1",
            "16777216 2",
            "16777216 10",
        ]
    );
    // The log has what the object omits.
    assert_eq!(reading.observations[0].value("errors"), Some(0.0));
    assert_eq!(reading.observations[0].value("latency_p50_us"), Some(27.0));
    assert_eq!(reading.notes.len(), 1, "{:?}", reading.notes);
    assert_eq!(reading.problems, [""; 0]);
}

#[test]
fn runs_of_an_earlier_session_are_read_with_a_note() {
    let folder = Folder::new();
    for run in 1..=3 {
        folder.file_with(&format!("b-rmem-1-{run}.json"), object());
    }
    let newest = fs::metadata(folder.join("b-rmem-1-2.json")).unwrap();
    let day_before = newest.modified().unwrap() - Duration::from_secs(25 * 3600);
    set_written(&folder, "b-rmem-1-3.json", day_before);
    let reading = reading_of(&folder);
    assert_eq!(reading.observations.len(), 3);
    assert_eq!(reading.notes.len(), 1, "{:?}", reading.notes);
    assert!(
        reading.notes[0].ends_with(
            "b-rmem-1-3.json: more than a day older than the newest run, from an earlier session?"
        ),
        "{:?}",
        reading.notes
    );
}

/// Positions of three runs of one second, written at these times.
fn positions_of(written_ms: [u64; 3]) -> Vec<Option<u32>> {
    let folder = Folder::new();
    for (run, written_ms) in (1..=3).zip(written_ms) {
        let file = format!("b-rmem-1-{run}.json");
        folder.file_with(&file, object());
        set_written(
            &folder,
            &file,
            SystemTime::UNIX_EPOCH + Duration::from_millis(written_ms),
        );
    }
    let reading = reading_of(&folder);
    let runs = reading.observations.iter();
    runs.map(|run| run.position).collect()
}

#[test]
fn files_are_ordered_by_time_if_the_runs_fit_between_these_times() {
    let one_after_the_other = positions_of([13_000, 10_000, 11_000]);
    assert_eq!(one_after_the_other, [Some(3), Some(1), Some(2)]);
    let of_a_checkout = positions_of([10_000, 10_002, 10_004]);
    assert_eq!(of_a_checkout, [None; 3]);
    let one_copied_again = positions_of([10_000, 15_000, 15_010]);
    assert_eq!(one_copied_again, [None; 3]);
}

#[test]
fn a_log_that_contradicts_its_object_is_not_used() {
    let folder = Folder::new();
    folder.file_with("b-rmem-1-1.json", object().replace("140907,", "140906,"));
    folder.file_with("b-rmem-1-1.log", LOG);
    let reading = reading_of(&folder);
    assert_eq!(reading.observations[0].value("errors"), None);
    assert!(
        reading.notes[0].contains("another number of requests"),
        "{:?}",
        reading.notes
    );
}

#[test]
fn a_folder_without_runs_is_refused_with_a_hint() {
    let folder = Folder::new();
    let refusal = |path: &Path| Reading::of_path(path).unwrap_err().to_string();
    let message = refusal(folder.path());
    assert!(message.contains("no runs in it (expected"), "{message}");
    folder.file_with("inner/experiment.json", "{}");
    let message = refusal(folder.path());
    assert!(message.contains("but a sweep: give "), "{message}");
    let message = refusal(&folder.join("inner"));
    assert!(message.contains("not a sweep"), "{message}");
    let message = refusal(Path::new("/nonexistent/x"));
    assert!(
        message.starts_with("cannot read /nonexistent/x: No such file"),
        "{message}"
    );
    folder.file_with("x.json", "{\"a\": 1}");
    let message = refusal(&folder.join("x.json"));
    assert!(
        message.contains("neither a result of wrkbench nor of json.lua"),
        "{message}"
    );
    folder.file_with("good.txt", LOG);
    let problems = reading_of(&folder).problems;
    assert!(
        problems[0].contains("x.json"),
        "what is missing is not passed over: {problems:?}"
    );
    assert_eq!(reading_of(&folder).observations.len(), 1);
}
