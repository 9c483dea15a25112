//! Saves trials in a folder; each file is replaced atomically.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use results::file::{LoadError, load_experiment, load_trial, save_experiment, save_trial};
use results::{Experiment, Trial};

use crate::design::Planned;
use crate::host::Host;

/// Describes the experiment in the folder.
const EXPERIMENT_FILE: &str = "experiment.json";

const TRIALS_FOLDER: &str = "trials";

/// File names can have 255 bytes, and nobody reads a longer list of levels.
const LABEL_MAX: usize = 100;

/// Why results cannot be saved or read; one line each.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Write { path: PathBuf, error: io::Error },
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    /// A file has invalid content.
    #[error("{}: {error}", path.display())]
    Damaged {
        path: PathBuf,
        /// What is wrong with it.
        error: LoadError,
    },
}

/// The content of a file; `None` if it does not exist.
fn load<T>(
    host: &dyn Host,
    path: PathBuf,
    parse: fn(&[u8]) -> Result<T, LoadError>,
) -> Result<Option<T>, StoreError> {
    match host.read(&path) {
        Ok(document) => parse(&document)
            .map(Some)
            .map_err(|error| StoreError::Damaged { path, error }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::Read { path, error }),
    }
}

/// The folder of one experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The store in this folder, which need not exist.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The folder that the experiment is saved in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The experiment that the folder holds; `None` if it holds none.
    ///
    /// # Errors
    /// When the file cannot be read or understood; it must not be overwritten then.
    pub fn experiment(&self, host: &dyn Host) -> Result<Option<Experiment>, StoreError> {
        load(host, self.experiment_path(), load_experiment)
    }

    /// Creates the folder and describes the experiment in it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(&self, host: &mut dyn Host, experiment: &Experiment) -> Result<(), StoreError> {
        let trials = self.trials_folder();
        if let Err(error) = host.make_folder(&trials) {
            return Err(StoreError::Write {
                path: trials,
                error,
            });
        }
        let mut document = Vec::new();
        let written = save_experiment(experiment, &mut document);
        self.put(host, self.experiment_path(), written.map(|()| document))
    }

    /// Saves a trial, replacing an earlier one of the same name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, host: &mut dyn Host, name: &str, trial: &Trial) -> Result<(), StoreError> {
        let mut document = Vec::new();
        let written = save_trial(trial, &mut document);
        self.put(host, self.trial_path(name), written.map(|()| document))
    }

    /// The trial of this name; `None` if there is none.
    ///
    /// # Errors
    /// When there is one that cannot be read or understood.
    pub fn trial(&self, host: &dyn Host, name: &str) -> Result<Option<Trial>, StoreError> {
        load(host, self.trial_path(name), load_trial)
    }

    /// The file that describes the experiment.
    #[must_use]
    pub fn experiment_path(&self) -> PathBuf {
        self.folder.join(EXPERIMENT_FILE)
    }

    /// The folder of the trials.
    #[must_use]
    pub fn trials_folder(&self) -> PathBuf {
        self.folder.join(TRIALS_FOLDER)
    }

    /// The file of a trial.
    #[must_use]
    pub fn trial_path(&self, name: &str) -> PathBuf {
        self.trials_folder().join(format!("{name}.json"))
    }

    /// The file with a trial's samples.
    #[must_use]
    pub fn samples_path(&self, name: &str) -> PathBuf {
        self.trials_folder().join(samples_name(name))
    }

    fn put(
        &self,
        host: &mut dyn Host,
        path: PathBuf,
        document: io::Result<Vec<u8>>,
    ) -> Result<(), StoreError> {
        document
            .and_then(|document| host.replace(&path, &document))
            .map_err(|error| StoreError::Write { path, error })
    }
}

/// Name of the file with a trial's samples, in the folder of the trial.
#[must_use]
pub fn samples_name(name: &str) -> String {
    format!("{name}.samples.jsonl.zst")
}

/// The name of a trial: round, cell and levels, as in `r01-c003-262144`, and the step of a search,
/// as in `r01-c003-s07-262144`. Names are unique within an experiment.
#[must_use]
pub fn trial_name(experiment: &Experiment, planned: &Planned) -> String {
    let cell = &planned.cell;
    let mut name = format!("r{:02}-c{:03}", planned.round, cell.number);
    if planned.repeat > 1 {
        // Writing to a string does not fail.
        let _ = write!(name, "x{}", planned.repeat);
    }
    if let Some(step) = &planned.step {
        let _ = write!(name, "-s{:02}", step.number);
    }
    let levels = cell.settings.iter().map(|setting| &setting.level);
    let several_targets = experiment
        .cells
        .iter()
        .any(|other| other.target != cell.target);
    let target = several_targets.then_some(&cell.target);
    for part in levels.chain(&cell.profile).chain(target) {
        name.push('-');
        name.extend(part.chars().map(plain));
    }
    // Cut at any byte: all characters are ASCII.
    name.truncate(LABEL_MAX);
    name
}

/// The folder of an experiment that names none: below `results` in the current folder, by its name
/// and its start, a text like `20260102T030405Z`.
#[must_use]
pub fn default_folder(name: &str, started: &str) -> PathBuf {
    let words = name
        .split(|c| plain(c) != c)
        .filter(|word| !word.is_empty());
    let mut name = words.collect::<Vec<_>>().join("-");
    name.truncate(LABEL_MAX);
    Path::new("results").join(format!("{name}-{started}"))
}

/// Replaces characters that are special in file systems or shells.
fn plain(c: char) -> char {
    if c.is_ascii_alphanumeric() || c == '.' || c == '_' {
        c
    } else {
        '_'
    }
}
