//! Runs of every kind, read as the command reads them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use analysis::compare::{CompareOptions, Conclusions, compare_cells};
use analysis::{Observation, Reading};
use judging::Criterion;
use judging::sentences::finding;
use report::export::{Export, ExportError, ExportFormat, render};
use report::page::PageSubject;
use results::{
    Cell, EXPERIMENT_SCHEMA_VERSION, ErrorKind, Experiment, Histogram, Order, Recording, RunResult,
    Setting, Trial, TrialOutcome, Verdict, file,
};

use crate::fixture;

/// Runs with what goes with them.
pub(crate) struct Set {
    pub(crate) runs: Vec<Observation>,
    pub(crate) experiments: Vec<Experiment>,
    conclusions: Option<Conclusions>,
    criteria: Vec<Criterion>,
    title: Option<&'static str>,
}

impl Set {
    pub(crate) fn of(runs: Vec<Observation>) -> Self {
        Self {
            conclusions: compare_cells(&runs, &CompareOptions::default()).ok(),
            runs,
            experiments: Vec::new(),
            criteria: Vec::new(),
            title: None,
        }
    }

    pub(crate) fn conclusions(&self) -> Option<&Conclusions> {
        self.conclusions.as_ref()
    }

    pub(crate) fn titled(mut self, title: &'static str) -> Self {
        self.title = Some(title);
        self
    }

    pub(crate) fn judged_by(mut self, conditions: &str) -> Self {
        self.criteria = Criterion::parse_list(conditions).unwrap();
        self
    }

    pub(crate) fn shown(&self, format: ExportFormat) -> Result<String, ExportError> {
        let export = Export {
            subject: PageSubject {
                observations: &self.runs,
                experiments: &self.experiments,
                conclusions: self.conclusions.as_ref(),
                title: self.title,
                ..PageSubject::default()
            },
            criteria: &self.criteria,
        };
        let mut bytes = Vec::new();
        render(&export, format, &mut bytes)?;
        Ok(String::from_utf8(bytes).unwrap())
    }
}

/// A response for each service time, in microseconds.
fn recording(service_us: &[u64]) -> Recording {
    let service_ns: Vec<u64> = service_us.iter().map(|us| us * 1000).collect();
    let mut recording = fixture::answered(&service_ns, 200, 150);
    recording.counters.connections_opened = 10;
    // Each of the ten connections always waits for a response.
    recording.counters.in_flight_time_ns = 10 * 3_020_000_000;
    recording
}

fn observation(result: &RunResult, path: &str) -> Observation {
    let mut bytes = Vec::new();
    file::save(result, &[], &mut bytes).unwrap();
    let reading = Reading::of_bytes(&bytes, Path::new(path)).unwrap();
    reading.observations.into_iter().next().unwrap()
}

/// Forty responses, from 1 ms on.
pub(crate) fn one() -> Set {
    let service_us: Vec<u64> = (0..40).map(|number| 1000 + number * 37).collect();
    let result = fixture::result(recording(&service_us));
    Set::of(vec![observation(&result, "run.json")])
}

/// A run in which nothing was answered.
pub(crate) fn empty() -> Set {
    let result = fixture::result(Recording::new());
    Set::of(vec![observation(&result, "empty.json")])
}

/// Errors of several kinds, time-outs, and a verdict against the generator.
pub(crate) fn failing() -> Set {
    let mut result = fixture::result(fixture::failing_recording());
    result.generator.verdict = Verdict::Saturated {
        percentiles: Vec::new(),
        symptoms: vec![finding(results::Symptom::RateMissed { due: 9, unsent: 2 })],
        remedy: "use more threads (-t)".to_owned(),
    };
    Set::of(vec![observation(&result, "failing.json")])
}

/// With a rate, and requests without a response.
pub(crate) fn stalled() -> Set {
    Set::of(vec![observation(
        &fixture::stalled_result(),
        "stalled.json",
    )])
}

/// Two versions, two runs each, one of which met errors.
pub(crate) fn several() -> Set {
    let mut parts = Vec::new();
    for (name, first_us, errors) in [
        ("old-1.json", 1000, 0),
        ("old-2.json", 1010, 0),
        ("new-1.json", 2000, 3),
        ("new-2.json", 2020, 0),
    ] {
        let service_us: Vec<u64> = (0..20).map(|number| first_us + number * 11).collect();
        let mut recording = recording(&service_us);
        for _ in 0..errors {
            recording.errors.add(ErrorKind::Reset, 1);
            recording.counters.sent += 1;
        }
        let mut result = fixture::result(recording);
        result.window.started_unix_ms += first_us * 10;
        let mut bytes = Vec::new();
        file::save(&result, &[], &mut bytes).unwrap();
        let path = PathBuf::from(name);
        parts.push((path.clone(), Reading::of_bytes(&bytes, &path).unwrap()));
    }
    Set::of(Reading::join(parts).observations)
}

/// Two runs in which the slowest 20 of 1,020 requests were given up after half a second.
pub(crate) fn hung() -> Set {
    let service_us: Vec<u64> = (0..1000).map(|number| 1000 + number).collect();
    let mut recording = recording(&service_us);
    recording.counters.sent += 20;
    recording.timed_out.record_n(500_000_000, 20);
    (0..20).for_each(|_| recording.errors.add(ErrorKind::Timeout, 1));
    let result = fixture::result(recording);
    let mut second = observation(&result, "hung-2.json");
    second.run = 2;
    Set::of(vec![observation(&result, "hung.json"), second])
}

/// What wrk, wrk2 and wrk-cmm have printed.
pub(crate) fn texts() -> Set {
    let parts = [
        ("wrk.txt", include_str!("../captured/wrk.txt")),
        ("wrk2.txt", include_str!("../captured/wrk2.txt")),
        ("cmm.txt", include_str!("../captured/cmm.txt")),
    ]
    .map(|(name, text)| {
        let path = PathBuf::from(name);
        let reading = Reading::of_bytes(text.as_bytes(), &path).unwrap();
        (path, reading)
    });
    Set::of(Reading::join(parts.into()).observations)
}

/// A sweep of two levels in two rounds with a baseline that is repeated; one trial failed.
pub(crate) fn sweep() -> Set {
    sweep_of("buffers", ["4096", "8388608"], "php-2")
}

/// The same with other names.
pub(crate) fn sweep_of(factor: &str, levels: [&str; 2], target: &str) -> Set {
    let cells: Vec<Cell> = levels
        .iter()
        .zip(1..)
        .map(|(level, number)| Cell {
            number,
            settings: vec![Setting {
                factor: factor.to_owned(),
                level: (*level).to_owned(),
            }],
            profile: None,
            target: target.to_owned(),
            is_baseline: number == 1,
        })
        .collect();
    let mut runs = Vec::new();
    // Cell, round, repetition within the round, first service time.
    for (position, (cell, round, repeat, first_us)) in [
        (0, 1, 1, 3000),
        (1, 1, 1, 1000),
        (0, 1, 2, 3100),
        (1, 2, 1, 0),
        (0, 2, 1, 3050),
    ]
    .into_iter()
    .enumerate()
    {
        let position = position as u32 + 1;
        let outcome = if first_us == 0 {
            TrialOutcome::Failed("php-fpm did not come back within 10 s".to_owned())
        } else {
            let service_us: Vec<u64> = (0..20).map(|number| first_us + number * 13).collect();
            let mut result = fixture::result(recording(&service_us));
            result.window.started_unix_ms += u64::from(position) * 4000;
            result.generator.verdict = Verdict::Undisturbed;
            TrialOutcome::Finished(Box::new(result))
        };
        let trial = Trial {
            schema_version: EXPERIMENT_SCHEMA_VERSION,
            experiment: "tcp-buffers".to_owned(),
            cell: cells[cell].clone(),
            round,
            repeat,
            position,
            started_at: Some(format!("2026-11-20T20:00:{:02}Z", position * 4)),
            took_ms: None,
            search: None,
            failed_attempts: Vec::new(),
            outcome,
            effective: BTreeMap::new(),
            environment_before: BTreeMap::new(),
            environment_after: BTreeMap::new(),
            hooks: Vec::new(),
            samples_file: None,
        };
        let mut bytes = Vec::new();
        file::save_trial(&trial, &mut bytes).unwrap();
        let path = format!("results/trials/{position:02}.json");
        let reading = Reading::of_bytes(&bytes, Path::new(&path)).unwrap();
        runs.extend(reading.observations);
    }
    let experiment = Experiment {
        schema_version: EXPERIMENT_SCHEMA_VERSION,
        name: "tcp-buffers".to_owned(),
        plan_toml: String::new(),
        seed: 7,
        order: Order::Shuffled,
        rounds: 2,
        stopping: None,
        threshold: None,
        judge: Vec::new(),
        slo: None,
        cells,
        started_at: Some("2026-11-20T20:00:00Z".to_owned()),
    };
    Set {
        experiments: vec![experiment],
        ..Set::of(runs)
    }
}

/// The longest latencies that there can be, and the shortest.
pub(crate) fn extreme() -> Set {
    let mut recording = recording(&[0]);
    let mut longest = Histogram::new();
    longest.record(u64::MAX);
    longest.record(0);
    recording.service_time.merge(&longest);
    recording.counters.answered = 3;
    recording.counters.bytes = u64::MAX;
    let mut result = fixture::result(recording);
    result.warnings = fixture::warnings_of(&result);
    result.window.duration_ns = 0;
    Set::of(vec![observation(&result, "extreme.json")])
}

/// All of them, by name.
pub(crate) fn all() -> Vec<(&'static str, Set)> {
    vec![
        ("one run", one()),
        ("an empty run", empty()),
        ("a run with errors", failing()),
        ("a run with a rate", stalled()),
        ("several runs", several()),
        ("texts", texts()),
        ("a sweep", sweep()),
        ("extremes", extreme()),
        ("nothing", Set::of(Vec::new())),
    ]
}
