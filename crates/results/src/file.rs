//! The saved result: one JSON document, written and read back.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::{RunResult, SCHEMA_VERSION, Summary};

mod layout;

/// Why a saved result cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// It was written by a later version of the program.
    #[error(
        "result has schema version {found}, this program reads up to {SCHEMA_VERSION}: use a newer wrkbench"
    )]
    Newer {
        /// The version in the document.
        found: u64,
    },
    /// It has a schema version that there never was.
    #[error("result has schema version {found}, which never existed: the file is damaged")]
    NoSuchVersion {
        /// The version in the document.
        found: u64,
    },
    /// It is no saved result.
    #[error("not a wrkbench result ({reason}): give a file written by --json")]
    NotAResult {
        /// What the reader stumbled over, with line and column.
        reason: String,
    },
}

/// What is written: the result, and the summary that follows from it.
#[derive(Serialize)]
struct Document<'a> {
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
    let mut writer =
        serde_json::Serializer::with_formatter(&mut *output, layout::Layout::default());
    document.serialize(&mut writer)?;
    output.write_all(b"\n")
}

/// Reads a document. Its summary is not read: it is computed again when needed.
///
/// # Errors
/// When the bytes are no saved result, or one of a later version.
pub fn load(document: &[u8]) -> Result<RunResult, LoadError> {
    /// Read first, since a later version may have changed everything else.
    #[derive(Deserialize)]
    struct Head {
        schema_version: u64,
    }
    let not_a_result = |error: serde_json::Error| LoadError::NotAResult {
        reason: error.to_string(),
    };
    let found = serde_json::from_slice::<Head>(document)
        .map_err(not_a_result)?
        .schema_version;
    if found > u64::from(SCHEMA_VERSION) {
        return Err(LoadError::Newer { found });
    }
    if found == 0 {
        return Err(LoadError::NoSuchVersion { found });
    }
    serde_json::from_slice(document).map_err(not_a_result)
}
