//! Where trials go as they end: a folder, in which each file is whole or not there.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use results::file::{LoadError, load_experiment, load_trial, save_experiment, save_trial};
use results::{Experiment, Trial};

use crate::design::Planned;
use crate::host::Host;

/// Name of the file that says what the folder is.
const EXPERIMENT_FILE: &str = "experiment.json";

/// Name of the folder with the trials.
const TRIALS_FOLDER: &str = "trials";

/// File names can have 255 bytes; more of a long list of levels would not be read anyway.
const LABEL_MAX: usize = 100;

/// Why results cannot be kept, or what is kept cannot be used; one line each.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system does not let it be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// What.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The system does not let it be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// What.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The folder says of itself what cannot be understood.
    #[error("{}: {error}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: LoadError,
    },
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

    /// Where it is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The experiment that the folder holds; `None` if it holds none.
    ///
    /// # Errors
    /// When there is one that cannot be read or understood: it is not ours to replace.
    pub fn experiment(&self, host: &dyn Host) -> Result<Option<Experiment>, StoreError> {
        let path = self.experiment_path();
        match host.read(&path) {
            Ok(document) => load_experiment(&document)
                .map(Some)
                .map_err(|error| StoreError::Damaged { path, error }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::Read { path, error }),
        }
    }

    /// Makes the folder that of this experiment.
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

    /// Keeps a trial, in place of an earlier one of the same name.
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
        let path = self.trial_path(name);
        match host.read(&path) {
            Ok(document) => load_trial(&document)
                .map(Some)
                .map_err(|error| StoreError::Damaged { path, error }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::Read { path, error }),
        }
    }

    /// The file that says what the folder is.
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

/// What a trial is called: round, cell, and for people the levels: `r01-c003-262144`. Different trials
/// of an experiment have different names, whatever the levels are.
#[must_use]
pub fn trial_name(experiment: &Experiment, planned: &Planned) -> String {
    let cell = &planned.cell;
    let mut name = format!("r{:02}-c{:03}", planned.round, cell.number);
    if planned.repeat > 1 {
        // Writing to a string does not fail.
        let _ = write!(name, "x{}", planned.repeat);
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
    // Plain characters are one byte each.
    name.truncate(LABEL_MAX);
    name
}

/// What neither a file system nor a shell minds.
fn plain(c: char) -> char {
    if c.is_ascii_alphanumeric() || c == '.' || c == '_' {
        c
    } else {
        '_'
    }
}
