//! Folders of sweeps, and folders of files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use results::Experiment;
use results::file::load_experiment;

use super::{ReadError, Reading, file_name, labels, not_understood, read_file, saved, unreadable};
use results::metric;

use crate::notes::regex;
use crate::repetitions::{drop_copies, limited, renumber_duplicates};
use crate::searches::searches_of;
use crate::{Form, Observation};

/// The file that marks a folder as a sweep.
pub(super) const EXPERIMENT_FILE: &str = "experiment.json";

/// The folder with the trials of a sweep.
const TRIALS_FOLDER: &str = "trials";

/// Extensions of the files in a folder that are read. Files without an extension are read too.
const ENDS: [&str; 6] = ["json", "log", "txt", "md", "out", "csv"];

/// Prefix of the lists of sockets that buffertest writes next to its runs.
const SOCKETS_PREFIX: &str = "ss_output";

/// A folder with more files is not a folder of results.
const FILES_MAX: usize = 100_000;

pub(super) fn read(folder: &Path) -> Result<Reading, ReadError> {
    if folder.join(EXPERIMENT_FILE).exists() {
        read_sweep(folder)
    } else {
        read_files(folder)
    }
}

/// Reads the trials of a sweep in the order in which they ran.
fn read_sweep(folder: &Path) -> Result<Reading, ReadError> {
    let path = folder.join(EXPERIMENT_FILE);
    let experiment =
        load_experiment(&read_file(&path)?).map_err(|error| ReadError::Damaged { path, error })?;
    let mut reading = Reading::default();
    for path in files_of(&folder.join(TRIALS_FOLDER))? {
        if !ends_in(&path, "json") {
            continue;
        }
        let trial = read_file(&path).and_then(|document| saved::read_trial(&document, &path));
        match trial.or_else(|error| damaged_trial(&experiment, &path, &error).ok_or(error)) {
            Ok(observation) => reading.observations.push(observation),
            Err(error) => reading.problems.push(error.to_string()),
        }
    }
    reading.observations.sort_by_key(|observation| {
        // Trials in damaged files have no position and come last.
        (observation.position.is_none(), observation.position)
    });
    if let Some(conditions) = &experiment.slo {
        let steps = std::mem::take(&mut reading.observations);
        (reading.searches, reading.observations) = searches_of(steps, conditions);
    }
    // A repeated baseline has several runs in a round.
    renumber_duplicates(&mut reading.observations);
    if reading.observations.is_empty() && reading.problems.is_empty() {
        let reason = "a sweep of which no trial has ended yet";
        return Err(not_understood(folder, reason));
    }
    let planned = experiment.cells.len() * experiment.rounds as usize;
    let there = reading.observations.len();
    if there < planned && experiment.stopping.is_none() {
        reading.notes.push(format!(
            "{}: {there} of {planned} trials are there: the sweep is not finished",
            folder.display()
        ));
    }
    reading.experiments.push(experiment);
    Ok(reading)
}

/// What the name of a trial's file (`r01-c003-262144.json`) says when its content is lost.
fn damaged_trial(experiment: &Experiment, path: &Path, error: &ReadError) -> Option<Observation> {
    let name = regex(r"^r(\d+)-c(\d+)").captures(path.file_stem()?.to_str()?)?;
    let number: u32 = name[2].parse().ok()?;
    let cell = experiment.cells.iter().find(|cell| cell.number == number)?;
    Some(Observation {
        source: path.display().to_string(),
        cell: Some(cell.number),
        settings: cell.settings.clone(),
        profile: cell.profile.clone(),
        target: Some(cell.target.clone()),
        run: name[1].parse().ok()?,
        failure: Some(error.reason()),
        ..Observation::default()
    })
}

/// Reads the files of a folder in the order of their names.
fn read_files(folder: &Path) -> Result<Reading, ReadError> {
    let mut files = files_of(folder)?;
    files.retain(|path| is_looked_into(path));
    files.sort_by_cached_key(|path| labels::natural(&path.to_string_lossy()));
    let mut reading = Reading::default();
    reading.notes.extend(left_over(&files));
    let mut parts: Vec<(&PathBuf, Vec<Observation>)> = Vec::new();
    for path in &files {
        // buffertest saves each run twice: its output as `.log`, and the object in it as `.json`.
        if ends_in(path, "log") && path.with_extension("json").is_file() {
            continue;
        }
        let part = Reading::of_path(path).map(|part| completed_by_log(part, path));
        match part {
            Ok(part) => {
                reading.notes.extend(part.notes);
                reading.has_skipped_lines |= part.has_skipped_lines;
                parts.push((path, part.observations));
            }
            Err(error @ ReadError::NotUnderstood { .. }) if !ends_in(path, "json") => {
                reading.notes.push(format!("{error}, skipped"));
            }
            Err(ReadError::Derived { path }) => reading.notes.push(derived(&path)),
            Err(error) => reading.problems.push(error.to_string()),
        }
    }
    reading.notes.extend(without_tables(&mut parts));
    let named_by_files = |path: &&PathBuf| file_name::settings_and_run(path).is_some();
    // Files that name their run are not copies of each other, except for a document and its log.
    let unnamed = parts.iter_mut().filter(|(path, _)| !named_by_files(path));
    let copies = drop_copies(unnamed.map(|(_, runs)| runs));
    reading.notes.extend(copies);
    reading.observations = labels::join(parts, written);
    if reading.observations.is_empty() && reading.problems.is_empty() {
        return Err(not_understood(folder, &no_runs(folder)));
    }
    Ok(reading)
}

/// Removes tables of runs if the runs themselves are there, with a note for each.
fn without_tables(parts: &mut Vec<(&PathBuf, Vec<Observation>)>) -> Vec<String> {
    let is_table = |runs: &[Observation]| runs.iter().all(|run| run.form == Form::Table);
    if parts.iter().all(|(_, runs)| is_table(runs)) {
        return Vec::new();
    }
    let tables = parts.extract_if(.., |(_, runs)| is_table(runs));
    tables.map(|(path, _)| derived(path)).collect()
}

fn derived(path: &Path) -> String {
    format!("{}: made from runs, not a run, skipped", path.display())
}

/// A file older than the newest one by more than this is from an earlier session.
const LEFT_OVER: Duration = Duration::from_secs(24 * 3600);

/// Notes on runs that an earlier session may have left: buffertest clears only part of its folder.
fn left_over(files: &[PathBuf]) -> Vec<String> {
    let mut times = BTreeMap::new();
    for path in files
        .iter()
        .filter(|path| file_name::settings_and_run(path).is_some())
    {
        times.extend(written(path).map(|time| (path, time)));
    }
    let Some(newest) = times.values().max().copied() else {
        return Vec::new();
    };
    times.retain(|_, time| {
        newest
            .duration_since(*time)
            .is_ok_and(|age| age > LEFT_OVER)
    });
    let note = "more than a day older than the newest run, from an earlier session?";
    let notes = times
        .keys()
        .map(|path| format!("{}: {note}", path.display()));
    limited(notes.collect(), "more files are that old")
}

fn written(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// The reason why a folder has no runs, with a hint where they may be.
fn no_runs(folder: &Path) -> String {
    let inside = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut inside = inside.map(|entry| entry.path());
    match inside.find(|path| path.join(EXPERIMENT_FILE).exists()) {
        Some(sweep) => format!("no runs in it, but a sweep: give {}", sweep.display()),
        None => super::NO_RUN.replace("run in it (expected", "runs in it (expected a sweep,"),
    }
}

fn is_looked_into(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let end = path.extension().map(|end| end.to_string_lossy());
    !name.starts_with('.')
        && !name.starts_with(SOCKETS_PREFIX)
        && end.is_none_or(|end| ENDS.contains(&end.as_ref()))
}

fn ends_in(path: &Path, end: &str) -> bool {
    path.extension().is_some_and(|extension| extension == end)
}

/// Adds what only the log of a run has: errors, statuses, the phases of a request.
fn completed_by_log(mut part: Reading, path: &Path) -> Reading {
    let log = path.with_extension("log");
    if !ends_in(path, "json") || !log.is_file() {
        return part;
    }
    let of_log = Reading::of_path(&log).unwrap_or_default().observations;
    let ([run], [logged]) = (part.observations.as_mut_slice(), of_log.as_slice()) else {
        return part;
    };
    let requests = |run: &Observation| run.values.get(metric::REQUESTS).copied();
    match (&run.failure, &logged.failure) {
        (_, Some(_)) => {}
        (Some(_), None) => run.clone_from(logged),
        (None, None) if requests(run) == requests(logged) => {
            let known = std::mem::replace(&mut run.values, logged.values.clone());
            run.values.extend(known);
        }
        (None, None) => part.notes.push(format!(
            "{}: has another number of requests than {}, not used",
            log.display(),
            path.display()
        )),
    }
    part
}

/// The regular files of a folder, by name.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let entries = fs::read_dir(folder).and_then(|entries| {
        let paths = entries.map(|entry| Ok(entry?.path()));
        paths.take(FILES_MAX + 1).collect::<Result<Vec<_>, _>>()
    });
    let mut files = entries.map_err(|error| unreadable(folder, error))?;
    if files.len() > FILES_MAX {
        let reason = "more files than any folder of results has";
        return Err(not_understood(folder, reason));
    }
    files.retain(|path| path.is_file());
    files.sort();
    Ok(files)
}
