//! Files in, observations out: sweeps, saved results, buffertest's files, and reports as text.

mod file_name;
mod folder;
mod foreign_json;
mod labels;
mod saved;
mod script_csv;
mod text;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use results::Experiment;
use results::file::LoadError;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::Observation;
pub use labels::FILE_FACTOR;
pub(crate) use labels::number_runs;

/// Why nothing could be read; one line each.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system does not let it be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// What.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is longer than anything that is a result.
    #[error("{}: longer than {} MiB, which no result is", path.display(), MAX_FILE_BYTES >> 20)]
    TooLong {
        /// What.
        path: PathBuf,
    },
    /// A document of ours that is damaged, or of a later version.
    #[error("{}: {error}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: LoadError,
    },
    /// It is something else.
    #[error("{}: {reason}", path.display())]
    NotUnderstood {
        /// The file or folder.
        path: PathBuf,
        /// What was looked for.
        reason: String,
    },
    /// What was made of runs, from which they cannot be had back.
    #[error("{}: what wrkbench has made of runs (give the runs themselves)", path.display())]
    Derived {
        /// The file.
        path: PathBuf,
    },
    /// A part of a folder could not be read, so that what there is would not be all.
    #[error("{problem}")]
    Incomplete {
        /// The first of them.
        problem: String,
    },
}

/// What was read.
#[derive(Debug, Default)]
pub struct Reading {
    /// The runs, those that failed with their reason.
    pub observations: Vec<Observation>,
    /// The sweeps that runs are of.
    pub experiments: Vec<Experiment>,
    /// What was skipped, or is worth knowing; a line each.
    pub notes: Vec<String>,
    /// What could not be read although it should; a line each.
    pub problems: Vec<String>,
}

/// Longer files are refused before they fill the memory. A result with a histogram for each second of
/// a day has some 20 MiB.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Reads every run that a file or folder holds: a sweep's folder, a folder of results, a saved result,
/// buffertest's files, or reports as text. Runs that failed are among them, with the reason.
///
/// # Errors
/// When not all of it can be read, or none of it is a run.
pub fn read(path: &Path) -> Result<Vec<Observation>, ReadError> {
    let reading = Reading::of_path(path)?;
    match reading.problems.into_iter().next() {
        Some(problem) => Err(ReadError::Incomplete { problem }),
        None => Ok(reading.observations),
    }
}

impl Reading {
    /// Reads every run that a file or folder holds, with what there is to say about it.
    ///
    /// # Errors
    /// When nothing of it can be read, or none of it is a run.
    pub fn of_path(path: &Path) -> Result<Self, ReadError> {
        let metadata = std::fs::metadata(path).map_err(|error| unreadable(path, error))?;
        if metadata.is_dir() {
            return folder::read(path);
        }
        if path
            .file_name()
            .is_some_and(|name| name == folder::EXPERIMENT_FILE)
        {
            let folder = path.parent().filter(|folder| *folder != Path::new(""));
            return folder::read(folder.unwrap_or_else(|| Path::new(".")));
        }
        Self::of_bytes(&read_file(path)?, path)
    }

    /// Reads every run that comes from there; the path is its name only.
    ///
    /// # Errors
    /// When it cannot be read, or none of it is a run.
    pub fn of_input(input: &mut dyn Read, path: &Path) -> Result<Self, ReadError> {
        Self::of_bytes(&read_bounded(input, path)?, path)
    }

    /// Reads every run of a file's content; the path is its name only.
    ///
    /// # Errors
    /// When none of it is a run.
    pub fn of_bytes(bytes: &[u8], path: &Path) -> Result<Self, ReadError> {
        // Some editors put a mark of the encoding in front.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text = String::from_utf8_lossy(bytes);
        let name = file_name::settings_and_run(path);
        let failed = |reason: String| Observation {
            source: path.display().to_string(),
            run: 1,
            failure: Some(reason),
            ..Observation::default()
        };
        let mut reading = if text.trim().is_empty() {
            // What buffertest leaves of a run that failed.
            if name.is_none() {
                return Err(not_understood(path, "is empty"));
            }
            Self::from(failed("the file is empty".to_owned()))
        } else if text.trim_start().starts_with('{') {
            match of_document(bytes, &text, path) {
                Ok(observation) => Self::from(observation),
                Err(error) => match of_text(&text, path) {
                    Some(reading) => reading,
                    None if name.is_some() => Self::from(failed(error.reason())),
                    None => return Err(error),
                },
            }
        } else {
            match of_text(&text, path) {
                Some(reading) => reading,
                None if name.is_some() => Self::from(failed("there is no report in it".to_owned())),
                None => {
                    return Err(not_understood(
                        path,
                        "no run in it (expected a result of wrkbench, or what wrk, wrk2 or wrk-cmm print)",
                    ));
                }
            }
        };
        if let (Some((settings, run)), [observation]) = (name, reading.observations.as_mut_slice())
        {
            // A trial knows better: its name may look like buffertest's as well.
            if observation.trial.is_none() {
                observation.settings = settings;
                observation.run = run;
            }
        }
        Ok(reading)
    }

    /// Puts what was read of several paths together. Runs of different ones stay apart, under the names
    /// of the files, unless the names differ in a number at the end only.
    #[must_use]
    pub fn join(parts: Vec<(PathBuf, Self)>) -> Self {
        let (mut notes, mut problems, mut groups) = (Vec::new(), Vec::new(), Vec::new());
        let mut experiments = Vec::new();
        for (path, part) in parts {
            notes.extend(part.notes);
            problems.extend(part.problems);
            experiments.extend(part.experiments);
            let label = labels::of_runs(&path, &part.observations);
            groups.push((label, part.observations));
        }
        Self {
            observations: labels::join(groups),
            experiments,
            notes,
            problems,
        }
    }
}

impl From<Observation> for Reading {
    fn from(observation: Observation) -> Self {
        Self {
            observations: vec![observation],
            ..Self::default()
        }
    }
}

impl ReadError {
    /// The error without the path.
    fn reason(&self) -> String {
        match self {
            Self::Unreadable { error, .. } => error.to_string(),
            Self::TooLong { .. } => "too long".to_owned(),
            Self::Damaged { error, .. } => error.to_string(),
            Self::NotUnderstood { reason, .. } => reason.clone(),
            Self::Derived { .. } => "made of runs by wrkbench".to_owned(),
            Self::Incomplete { problem } => problem.clone(),
        }
    }
}

/// What tells documents apart.
#[derive(Deserialize)]
struct Head {
    schema_version: Option<IgnoredAny>,
    cell: Option<IgnoredAny>,
    requests: Option<IgnoredAny>,
    plan: Option<IgnoredAny>,
    /// Of `report --format json`.
    runs: Option<IgnoredAny>,
    /// Of `table --format json`.
    cells: Option<IgnoredAny>,
    columns: Option<IgnoredAny>,
    /// Of `compare --format json`.
    comparisons: Option<IgnoredAny>,
}

impl Head {
    /// Whether runs went into it rather than that it is one.
    fn is_derived(&self) -> bool {
        let is_table = self.cells.is_some() && self.columns.is_some();
        let is_none = self.cell.is_none() && self.plan.is_none() && self.requests.is_none();
        is_none && (self.runs.is_some() || is_table || self.comparisons.is_some())
    }
}

/// A JSON document: a result of ours, a trial of a sweep, or the object of json.lua.
fn of_document(bytes: &[u8], text: &str, path: &Path) -> Result<Observation, ReadError> {
    let head: Head = serde_json::from_slice(bytes)
        .map_err(|error| not_understood(path, &format!("not one whole JSON document: {error}")))?;
    match head {
        head if head.is_derived() => Err(ReadError::Derived {
            path: path.to_owned(),
        }),
        Head {
            schema_version: Some(_),
            cell: Some(_),
            ..
        } => saved::read_trial(bytes, path),
        Head {
            schema_version: Some(_),
            ..
        } => saved::read(bytes, path),
        Head {
            requests: Some(_), ..
        } => of_object(text, path),
        _ => Err(not_understood(
            path,
            "JSON, but neither a result of wrkbench nor of json.lua",
        )),
    }
}

fn of_object(text: &str, path: &Path) -> Result<Observation, ReadError> {
    let (values, _) = foreign_json::first(text.trim_start()).map_err(|error| {
        not_understood(
            path,
            &format!("not the object of json.lua: {}", error.reason),
        )
    })?;
    let nothing = values.get(crate::quantity::REQUESTS) == Some(&0.0);
    Ok(Observation {
        source: path.display().to_string(),
        run: 1,
        values,
        failure: nothing.then(|| "nothing was answered".to_owned()),
        ..Observation::default()
    })
}

/// Runs of a text; `None` if it has none.
fn of_text(text: &str, path: &Path) -> Option<Reading> {
    let runs = text::read(text, &path.display().to_string());
    let note = |note: String| format!("{}: {note}", path.display());
    (!runs.observations.is_empty()).then(|| Reading {
        observations: runs.observations,
        notes: runs.notes.into_iter().map(note).collect(),
        ..Reading::default()
    })
}

fn read_file(path: &Path) -> Result<Vec<u8>, ReadError> {
    let mut file = File::open(path).map_err(|error| unreadable(path, error))?;
    read_bounded(&mut file, path)
}

fn read_bounded(input: &mut dyn Read, path: &Path) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    input
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(path, error))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(ReadError::TooLong {
            path: path.to_owned(),
        });
    }
    Ok(bytes)
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
