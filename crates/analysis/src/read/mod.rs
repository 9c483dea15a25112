//! Files in, observations out: sweeps, saved results, buffertest's files, and reports as text.

mod folder;
mod saved;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use results::file::LoadError;

use crate::Observation;

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
    #[error(
        "{}: longer than {} MiB, which no result is", path.display(), MAX_FILE_BYTES >> 20
    )]
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
}

/// Longer files are refused before they fill the memory. A result with a histogram for each second of
/// a day has some 20 MiB.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Reads every run that a file or folder holds: a sweep's folder, a folder of results, a saved result,
/// buffertest's files, or reports as text. Runs that failed are among them, with the reason.
///
/// # Errors
/// When nothing of it can be read, or none of it is a run.
pub fn read(path: &Path) -> Result<Vec<Observation>, ReadError> {
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(path, error))?;
    if metadata.is_dir() {
        folder::read(path)
    } else {
        let bytes = read_file(path)?;
        saved::read(&bytes, path).map(|observation| vec![observation])
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
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
