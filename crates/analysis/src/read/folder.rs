//! Folders: of a sweep, or of files.

use std::fs;
use std::path::{Path, PathBuf};

use results::file::load_experiment;

use super::{ReadError, read_file, saved, unreadable};
use crate::Observation;

/// Name of the file that says that a folder is a sweep's.
const EXPERIMENT_FILE: &str = "experiment.json";

/// Name of the folder with a sweep's trials.
const TRIALS_FOLDER: &str = "trials";

/// Reads all runs of a folder.
pub(super) fn read(folder: &Path) -> Result<Vec<Observation>, ReadError> {
    if folder.join(EXPERIMENT_FILE).exists() {
        read_sweep(folder)
    } else {
        files_of(folder)?
            .iter()
            .map(|path| saved::read(&read_file(path)?, path))
            .collect()
    }
}

/// Reads the trials of a sweep, in the order in which they ran.
fn read_sweep(folder: &Path) -> Result<Vec<Observation>, ReadError> {
    let path = folder.join(EXPERIMENT_FILE);
    load_experiment(&read_file(&path)?).map_err(|error| ReadError::Damaged { path, error })?;
    let mut observations = files_of(&folder.join(TRIALS_FOLDER))?
        .iter()
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .map(|path| saved::read_trial(&read_file(path)?, path))
        .collect::<Result<Vec<_>, _>>()?;
    observations.sort_by_key(|observation| observation.position);
    Ok(observations)
}

/// The plain files of a folder, by name.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, error))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(folder, error))?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
