//! Writing and reading of the saved JSON documents: results, trials and experiments.

use std::io::{self, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};

use crate::{
    EXPERIMENT_SCHEMA_VERSION, Experiment, RunResult, SCHEMA_VERSION, Summary, Trial, TrialOutcome,
};

mod layout;

/// Why a saved document cannot be read.
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
    /// Its schema version never existed.
    #[error("result has schema version {found}, which never existed: the file is damaged")]
    NoSuchVersion {
        /// The version in the document.
        found: u64,
    },
    /// It is not a document of the expected kind.
    #[error(
        "not {expected} ({reason}): give a file written by {}",
        writer(expected)
    )]
    NotAResult {
        /// The kind of document that was expected.
        expected: &'static str,
        /// The message of the parser, with line and column.
        reason: String,
    },
}

const RESULT: &str = "a wrkbench result";
const TRIAL: &str = "a trial of a sweep";
const EXPERIMENT: &str = "a sweep";

/// The flag or the command that writes this kind of document.
fn writer(expected: &str) -> &'static str {
    match expected {
        RESULT => "--json",
        _ => "wrkbench sweep",
    }
}

/// The saved document: a result and its summary.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct ResultDocument<'a> {
    #[serde(flatten)]
    result: &'a RunResult,
    summary: Summary,
}

/// Serializes a result within another document, with its summary.
pub(crate) fn with_summary<S: Serializer>(
    result: &RunResult,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let summary = Summary::of(result, &[]);
    ResultDocument { result, summary }.serialize(serializer)
}

/// Writes the document, ending in a line feed. `more_percentiles` (0..=100) are added to the
/// standard ones in its summary.
///
/// # Errors
/// When `output` cannot be written.
pub fn save(
    result: &RunResult,
    more_percentiles: &[f64],
    output: &mut dyn Write,
) -> io::Result<()> {
    let document = ResultDocument {
        result,
        summary: Summary::of(result, more_percentiles),
    };
    write(&document, output)
}

/// Writes a trial of an experiment, ending in a line feed.
///
/// # Errors
/// When `output` cannot be written.
pub fn save_trial(trial: &Trial, output: &mut dyn Write) -> io::Result<()> {
    write(trial, output)
}

/// Writes the description of an experiment, ending in a line feed.
///
/// # Errors
/// When `output` cannot be written.
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
/// When the bytes are not a trial, or one of a later schema version.
pub fn load_trial(document: &[u8]) -> Result<Trial, LoadError> {
    let mut trial: Trial = read(document, EXPERIMENT_SCHEMA_VERSION, TRIAL)?;
    trial.schema_version = EXPERIMENT_SCHEMA_VERSION;
    if let TrialOutcome::Finished(result) = &mut trial.outcome {
        result.schema_version = SCHEMA_VERSION;
    }
    Ok(trial)
}

/// Reads the description of an experiment.
///
/// # Errors
/// When the bytes are not an experiment, or one of a later schema version.
pub fn load_experiment(document: &[u8]) -> Result<Experiment, LoadError> {
    let mut experiment: Experiment = read(document, EXPERIMENT_SCHEMA_VERSION, EXPERIMENT)?;
    experiment.schema_version = EXPERIMENT_SCHEMA_VERSION;
    Ok(experiment)
}

/// Reads a result of this schema version or an earlier one, and converts it to this version. The
/// summary in the document is ignored; it is computed again when needed.
///
/// # Errors
/// When the bytes are not a saved result, or one of a later schema version.
pub fn load(document: &[u8]) -> Result<RunResult, LoadError> {
    let mut result: RunResult = read(document, SCHEMA_VERSION, RESULT)?;
    result.schema_version = SCHEMA_VERSION;
    Ok(result)
}

/// Reads a document of schema version `known` or earlier.
fn read<T: DeserializeOwned>(
    document: &[u8],
    known: u32,
    what: &'static str,
) -> Result<T, LoadError> {
    /// Parsed first, since a later version may differ in everything else.
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
