//! The saved result: one JSON document, written and read back.

use std::io::{self, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{
    EXPERIMENT_SCHEMA_VERSION, Experiment, RunResult, SCHEMA_VERSION, Summary, Trial, TrialOutcome,
};

mod layout;

/// Why a saved result cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// It was written by a later version of the program.
    #[error(
        "result has schema version {found}, this program reads up to {known}: use a newer wrkbench"
    )]
    Newer {
        /// The version in the document.
        found: u64,
        /// The latest version that is understood.
        known: u32,
    },
    /// It has a schema version that there never was.
    #[error("result has schema version {found}, which never existed: the file is damaged")]
    NoSuchVersion {
        /// The version in the document.
        found: u64,
    },
    /// It is no saved result.
    #[error(
        "not {expected} ({reason}): give a file written by {}",
        writer(expected)
    )]
    NotAResult {
        /// What it should have been.
        expected: &'static str,
        /// What the reader stumbled over, with line and column.
        reason: String,
    },
}

const RESULT: &str = "a wrkbench result";
const TRIAL: &str = "a trial of a sweep";
const EXPERIMENT: &str = "a sweep";

/// What makes such documents.
fn writer(expected: &str) -> &'static str {
    match expected {
        RESULT => "--json",
        _ => "wrkbench sweep",
    }
}

/// What is written: the result, and the summary that follows from it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    result: &'a RunResult,
    summary: Summary,
}

/// Writes the document, ending in a line feed. `more_percentiles` (0..=100) are added to the
/// standard ones in its summary.
///
/// # Errors
/// Those of the writer.
pub fn save(
    result: &RunResult,
    more_percentiles: &[f64],
    output: &mut dyn Write,
) -> io::Result<()> {
    let document = Document {
        result,
        summary: Summary::of(result, more_percentiles),
    };
    write(&document, output)
}

/// Writes a trial of an experiment, ending in a line feed.
///
/// # Errors
/// Those of the writer.
pub fn save_trial(trial: &Trial, output: &mut dyn Write) -> io::Result<()> {
    write(trial, output)
}

/// Writes what an experiment is, ending in a line feed.
///
/// # Errors
/// Those of the writer.
pub fn save_experiment(experiment: &Experiment, output: &mut dyn Write) -> io::Result<()> {
    write(experiment, output)
}

fn write(document: &impl Serialize, output: &mut dyn Write) -> io::Result<()> {
    let mut writer =
        serde_json::Serializer::with_formatter(&mut *output, layout::Layout::default());
    document.serialize(&mut writer)?;
    output.write_all(b"\n")
}

/// Reads a trial of an experiment.
///
/// # Errors
/// When the bytes are no trial, or one of a later version.
pub fn load_trial(document: &[u8]) -> Result<Trial, LoadError> {
    let mut trial: Trial = read(document, EXPERIMENT_SCHEMA_VERSION, TRIAL)?;
    trial.schema_version = EXPERIMENT_SCHEMA_VERSION;
    if let TrialOutcome::Finished(result) = &mut trial.outcome {
        result.schema_version = SCHEMA_VERSION;
    }
    Ok(trial)
}

/// Reads what an experiment is.
///
/// # Errors
/// When the bytes are no experiment, or one of a later version.
pub fn load_experiment(document: &[u8]) -> Result<Experiment, LoadError> {
    let mut experiment: Experiment = read(document, EXPERIMENT_SCHEMA_VERSION, EXPERIMENT)?;
    experiment.schema_version = EXPERIMENT_SCHEMA_VERSION;
    Ok(experiment)
}

/// Reads a document of this version or an earlier one; what is read is of this one. Its summary is
/// not read: it is computed again when needed.
///
/// # Errors
/// When the bytes are no saved result, or one of a later version.
pub fn load(document: &[u8]) -> Result<RunResult, LoadError> {
    let mut result: RunResult = read(document, SCHEMA_VERSION, RESULT)?;
    result.schema_version = SCHEMA_VERSION;
    Ok(result)
}

/// Reads a document of at most this version.
fn read<T: DeserializeOwned>(
    document: &[u8],
    known: u32,
    what: &'static str,
) -> Result<T, LoadError> {
    /// Read first, since a later version may have changed everything else.
    #[derive(Deserialize)]
    struct Head {
        schema_version: u64,
    }
    let other = |error: serde_json::Error| LoadError::NotAResult {
        expected: what,
        reason: error.to_string(),
    };
    let found = serde_json::from_slice::<Head>(document)
        .map_err(other)?
        .schema_version;
    if found > u64::from(known) {
        return Err(LoadError::Newer { found, known });
    }
    if found == 0 {
        return Err(LoadError::NoSuchVersion { found });
    }
    serde_json::from_slice(document).map_err(other)
}
