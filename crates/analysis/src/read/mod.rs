//! Reads files into observations: sweeps, saved results, buffertest's files, and notes.

mod file_name;
mod folder;
mod labels;
mod paths;
mod records;
mod saved;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use results::Experiment;
use results::file::LoadError;
use serde::de::IgnoredAny;

use crate::{Form, Observation, SearchSummary, notes, repetitions};
pub use labels::FILE_FACTOR;
pub use paths::paths_of;
pub(crate) use saved::{failure_of, of_trial};

/// Why nothing could be read, in one line.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system returned an error.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// Why the system cannot read it.
        error: io::Error,
    },
    /// A document of wrkbench that is damaged, or of a later version.
    #[error("{}: {error}", path.display())]
    Damaged {
        /// The path of the file.
        path: PathBuf,
        /// Why the document cannot be read.
        error: LoadError,
    },
    /// The file or folder does not contain runs.
    #[error("{}: {reason}", path.display())]
    NotUnderstood {
        /// The file or folder.
        path: PathBuf,
        /// What was expected, as a phrase.
        reason: String,
    },
    /// A document that wrkbench made from runs, which cannot be recovered from it.
    #[error("{}: made from runs by wrkbench (give the runs themselves)", path.display())]
    Derived {
        /// The path of the file.
        path: PathBuf,
    },
}

/// The runs of files, with notes and problems.
#[derive(Debug, Default)]
pub struct Reading {
    /// The runs; failed ones have a reason.
    pub observations: Vec<Observation>,
    /// The sweeps that the runs belong to.
    pub experiments: Vec<Experiment>,
    /// The searches that the runs belong to. Each search is also one of the observations.
    pub searches: Vec<SearchSummary>,
    /// What was skipped or is worth knowing, one line each.
    pub notes: Vec<String>,
    /// What should have been read but could not be, one line each.
    pub problems: Vec<String>,
    /// Whether lines of a text were skipped that may be results.
    pub has_skipped_lines: bool,
    /// How many runs of texts count as repetitions of each other, in one line; `None` if there are
    /// none.
    pub repetitions: Option<String>,
    /// How many runs only the text above them keeps apart, in one line; `None` if there are none.
    pub apart: Option<String>,
}

/// Longer files are refused before they fill the memory. A result with a histogram for each second
/// of a day takes about 20 MiB.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Why a text is refused.
const NO_RUN: &str =
    "no run in it (expected a result of wrkbench, or what wrk, wrk2 or wrk-cmm print)";

impl Reading {
    /// Whether runs belong to an experiment that was looked at after every round, and could end
    /// after any.
    #[must_use]
    pub fn is_sequential(&self) -> bool {
        self.experiments.iter().any(|it| it.stopping.is_some())
    }

    /// Reads every run of a file or folder, with notes and problems: the folder of a sweep, a
    /// folder of results, a saved result, buffertest's files, or reports as text. Failed runs are
    /// included, with the reason.
    ///
    /// # Errors
    /// If nothing can be read, or if there are no runs.
    pub fn of_path(path: &Path) -> Result<Self, ReadError> {
        let metadata = std::fs::metadata(path).map_err(|error| unreadable(path, error))?;
        if metadata.is_dir() {
            return folder::read(path);
        }
        if path.ends_with(folder::EXPERIMENT_FILE) {
            let folder = path.parent().filter(|folder| *folder != Path::new(""));
            return folder::read(folder.unwrap_or_else(|| Path::new(".")));
        }
        if metadata.is_file() {
            let file = File::open(path).map_err(|error| unreadable(path, error))?;
            let mut input = BufReader::new(file);
            let head = input.fill_buf().map_err(|error| unreadable(path, error))?;
            if records::are_in(head) {
                return records::read(&mut input, path);
            }
        }
        Self::of_bytes(&read_file(path)?, path)
    }

    /// Reads every run of an input. The path is only its name.
    ///
    /// # Errors
    /// If it cannot be read, or if there are no runs.
    pub fn of_input(input: &mut dyn Read, path: &Path) -> Result<Self, ReadError> {
        let bytes = files::read_from(input, MAX_FILE_BYTES);
        Self::of_bytes(&bytes.map_err(|error| unreadable(path, error))?, path)
    }

    /// Reads every run of a file's content. The path is only its name.
    ///
    /// # Errors
    /// If there are no runs.
    pub fn of_bytes(bytes: &[u8], path: &Path) -> Result<Self, ReadError> {
        if records::are_in(bytes) {
            return records::read(&mut &*bytes, path);
        }
        let text = decoded(bytes);
        let name = file_name::settings_and_run(path);
        let read = if text.trim().is_empty() {
            Err(not_understood(path, "the file is empty"))
        } else if text.trim_start().starts_with('{') {
            of_document(&text, path).or_else(|error| of_text(&text, path).map_err(|_| error))
        } else {
            of_text(&text, path)
        };
        let mut reading = match read {
            // A file of buffertest's is a run, and it may be empty or damaged.
            Err(error) if name.is_some() => alone(Observation {
                source: path.display().to_string(),
                run: 1,
                failure: Some(error.reason()),
                ..Observation::default()
            }),
            read => read?,
        };
        if let (Some((settings, run)), [observation]) = (name, reading.observations.as_mut_slice())
        {
            // A trial has its own settings, even if its file is named like one of buffertest's.
            if observation.trial.is_none() {
                (observation.settings, observation.run) = (settings, run);
            }
        }
        Ok(reading)
    }

    /// Combines what was read from several paths. Runs of different files are distinguished by the
    /// names of the files, unless these differ only in a number at the end. A run that exists in
    /// several forms counts once, and runs of the same name but different load get distinct names.
    #[must_use]
    pub fn join(mut parts: Vec<(PathBuf, Self)>) -> Self {
        let runs = parts.iter_mut().map(|(_, part)| &mut part.observations);
        let copies = repetitions::drop_copies(runs);
        let (mut joined, mut runs) = (Self::default(), Vec::new());
        for (path, part) in parts {
            joined.notes.extend(part.notes);
            joined.problems.extend(part.problems);
            joined.experiments.extend(part.experiments);
            joined.searches.extend(part.searches);
            joined.has_skipped_lines |= part.has_skipped_lines;
            runs.push((path, part.observations));
        }
        joined.observations = labels::join(runs, |_| None);
        joined.notes.extend(copies);
        let apart = repetitions::keep_apart(&mut joined.observations);
        joined.notes.extend(apart);
        joined.repetitions = repetitions::repetitions(&mut joined.observations);
        joined.apart = repetitions::apart(&joined.observations);
        joined
    }
}

/// What was read of a single run.
fn alone(run: Observation) -> Reading {
    Reading {
        observations: vec![run],
        ..Reading::default()
    }
}

impl ReadError {
    /// The error without the path.
    fn reason(&self) -> String {
        match self {
            Self::Damaged { error, .. } => error.to_string(),
            Self::NotUnderstood { reason, .. } => reason.clone(),
            error => error.to_string(),
        }
    }
}

/// A JSON document: a result of wrkbench, a trial of a sweep, or the object of json.lua.
fn of_document(text: &str, path: &Path) -> Result<Reading, ReadError> {
    let bytes = text.as_bytes();
    let fields: BTreeMap<String, IgnoredAny> = serde_json::from_slice(bytes)
        .map_err(|error| not_understood(path, &format!("not one whole JSON document: {error}")))?;
    let has = |keys: &[&str]| keys.iter().any(|key| fields.contains_key(*key));
    // What `report`, `table` and `compare` write with `--format json`.
    if has(&["runs", "cells", "comparisons"]) && !has(&["cell", "plan", "requests"]) {
        return Err(ReadError::Derived {
            path: path.to_owned(),
        });
    }
    let read = if has(&["schema_version"]) && has(&["cell"]) {
        saved::read_trial(bytes, path)
    } else if has(&["schema_version"]) {
        saved::read(bytes, path)
    } else if has(&["requests"]) {
        of_object(text, path)
    } else {
        let reason = "JSON, but neither a result of wrkbench nor of json.lua";
        Err(not_understood(path, reason))
    };
    read.map(alone)
}

/// Decodes UTF-16 with a byte order mark, else UTF-8, or else Latin-1, in which different bytes are
/// different text.
fn decoded(bytes: &[u8]) -> Cow<'_, str> {
    let utf_16 = |unit: fn([u8; 2]) -> u16| {
        let units = bytes[2..].chunks_exact(2);
        let units: Vec<u16> = units.map(|pair| unit([pair[0], pair[1]])).collect();
        Cow::from(String::from_utf16_lossy(&units))
    };
    match bytes {
        [0xff, 0xfe, ..] => utf_16(u16::from_le_bytes),
        [0xfe, 0xff, ..] => utf_16(u16::from_be_bytes),
        // Some editors write a byte order mark before UTF-8 as well.
        [0xef, 0xbb, 0xbf, rest @ ..] | rest => match std::str::from_utf8(rest) {
            Ok(text) => Cow::from(text),
            Err(_) => Cow::from(rest.iter().copied().map(char::from).collect::<String>()),
        },
    }
}

fn of_object(text: &str, path: &Path) -> Result<Observation, ReadError> {
    let object = notes::first_object(text.trim_start()).map_err(|error| {
        let reason = format!("not the object of json.lua: {}", error.reason);
        not_understood(path, &reason)
    })?;
    Ok(Observation {
        source: path.display().to_string(),
        form: Form::Object,
        settings: object.settings(),
        run: 1,
        failure: object.failure(),
        values: object.values,
        ..Observation::default()
    })
}

fn of_text(text: &str, path: &Path) -> Result<Reading, ReadError> {
    let mut reading = notes::read(text, &path.display().to_string());
    if reading.observations.is_empty() {
        let skipped = reading
            .notes
            .first()
            .map(|note| format!("no run in it: {note}"));
        return Err(not_understood(path, skipped.as_deref().unwrap_or(NO_RUN)));
    }
    for note in &mut reading.notes {
        *note = format!("{}: {note}", path.display());
    }
    Ok(reading)
}

fn read_file(path: &Path) -> Result<Vec<u8>, ReadError> {
    files::read(path, MAX_FILE_BYTES).map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, error: io::Error) -> ReadError {
    ReadError::Unreadable {
        path: path.to_owned(),
        error,
    }
}

fn not_understood(path: &Path, reason: &str) -> ReadError {
    ReadError::NotUnderstood {
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}
