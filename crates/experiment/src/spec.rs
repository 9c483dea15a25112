//! The experiment file: what is varied, what is run, and what happens around it.
//!
//! Reading it touches nothing but the file itself. What can only be known with a machine at hand is
//! [`crate::preflight`]'s.

mod factors;
mod options;
mod problems;
mod read;
mod section;
mod suggestions;
mod value;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plan::TelemetrySpec;
use results::Order;

pub use options::{LoadOption, LoadOptions, OptionValue};
pub use problems::SpecError;

use crate::design;
use crate::factor::Factor;

/// The most rounds of a plan.
pub const MAX_ROUNDS: u32 = 10_000;
/// After so many failed trials in a row a sweep ends if its plan does not say otherwise.
pub(crate) const MAX_FAILURES: u32 = 3;
/// The most cells of a plan: beyond them nobody waits for the end.
pub(crate) const MAX_CELLS: usize = 4_000;
/// The most trials of a plan.
pub(crate) const MAX_TRIALS: usize = 100_000;
/// The most levels of a factor.
pub(crate) const MAX_LEVELS: usize = 1_000;
/// The largest plan file, bytes.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 20;

/// An experiment as its file describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// What it is called.
    pub name: String,
    /// How often each cell runs, 1..=[`MAX_ROUNDS`].
    pub rounds: u32,
    /// Folder for the results.
    pub results: PathBuf,
    /// Seed of the order; drawn if it is not given.
    pub seed: Option<u64>,
    /// Order within a round.
    pub order: Order,
    /// How often a failing trial is tried again, 0..=10.
    pub retries: u32,
    /// After so many failed trials in a row the sweep ends; 0: never.
    pub max_failures: u32,
    /// Difference that does not matter, as a share: 0.02 is 2 %.
    pub threshold: Option<f64>,
    /// Options of every run.
    pub load: LoadOptions,
    /// The servers, at least one.
    pub targets: Vec<TargetSpec>,
    /// Sets of options; without any there is one without a name.
    pub profiles: Vec<Profile>,
    /// What is varied besides.
    pub factors: Vec<Factor>,
    /// Cells that are left out.
    pub exclude: Vec<Selection>,
    /// The cell that is repeated so that drift shows.
    pub baseline: Option<Baseline>,
    /// Commands around the runs.
    pub hooks: Hooks,
    /// What is watched beside the runs.
    pub telemetry: Option<TelemetrySpec>,
    /// The file as it was read.
    pub text: String,
    /// The file's name, for messages.
    pub file: PathBuf,
    /// The folder in which what the plan names relatively lies; absolute if the plan was a file.
    pub folder: PathBuf,
}

/// A server under test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetSpec {
    /// What it is called.
    pub name: String,
    /// Where its requests go.
    pub url: String,
    /// Options of its own, before those of the plan and of profiles.
    pub load: LoadOptions,
    /// Line of the plan.
    pub line: usize,
}

/// A set of options with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// What it is called.
    pub name: String,
    /// Its options, before those of the plan.
    pub load: LoadOptions,
    /// Line of the plan.
    pub line: usize,
}

/// Cells by their levels: those that have, of each factor named, one of these levels. `target` and
/// `profile` count as factors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Accepted levels by factor, in the order of the plan.
    pub levels: Vec<(String, Vec<String>)>,
    /// Line of the plan.
    pub line: usize,
}

/// The cell that is repeated, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Baseline {
    /// Chooses exactly one cell.
    pub cell: Selection,
    /// It runs again after so many others, at least 1.
    pub every: u32,
}

/// Commands around the runs, and what must be so before one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Once, before the first trial.
    pub setup: Option<Hook>,
    /// After a change of a level that a server reads when it starts: kernel setting, file, command.
    pub restart: Option<Hook>,
    /// What must answer before a trial.
    pub ready: Option<Ready>,
    /// Time between ready and the run.
    pub settle: Duration,
    /// Before each trial.
    pub before: Option<Hook>,
    /// After each trial.
    pub after: Option<Hook>,
    /// Once, at the end, when everything is put back.
    pub teardown: Option<Hook>,
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// A line of shell.
    pub command: String,
    /// The longest it may take.
    pub limit: Duration,
    /// Line of the plan.
    pub line: usize,
}

/// The question whether a server is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Asked until the answer is right; `None` is the URL of the trial's target.
    pub url: Option<String>,
    /// For so long.
    pub within: Duration,
    /// The status that is right; `None` is every one from 200 to 399.
    pub status: Option<u16>,
}

impl Ready {
    /// Whether this status is the right one.
    #[must_use]
    pub fn takes(&self, status: u16) -> bool {
        match self.status {
            Some(expected) => status == expected,
            None => (200..400).contains(&status),
        }
    }
}

impl Spec {
    /// Reads a plan's text. `file` is named in messages, and what the plan names relatively lies
    /// beside it.
    ///
    /// # Errors
    /// Everything that is wrong with it, a line each.
    pub fn parse(text: &str, file: &Path) -> Result<Self, SpecError> {
        read::read(text, file, folder_of(file))
    }

    /// Reads a plan's file.
    ///
    /// # Errors
    /// When it cannot be read, and as [`Self::parse`].
    pub fn load(file: &Path) -> Result<Self, SpecError> {
        let (text, folder) = read::file_text(file)?;
        read::read(&text, file, &folder)
    }

    /// Another number of rounds, in place of the plan's.
    ///
    /// # Errors
    /// When it is none, or comes to more trials than are made; nothing is changed then.
    pub fn set_rounds(&mut self, rounds: u32) -> Result<(), String> {
        if !(1..=MAX_ROUNDS).contains(&rounds) {
            return Err(format!("must be from 1 to {MAX_ROUNDS}"));
        }
        let before = std::mem::replace(&mut self.rounds, rounds);
        let trials = design::trials(self);
        if trials > MAX_TRIALS {
            self.rounds = before;
            return Err(format!("{trials} trials: the limit is {MAX_TRIALS}"));
        }
        Ok(())
    }

    /// The target of this name.
    #[must_use]
    pub fn target(&self, name: &str) -> Option<&TargetSpec> {
        self.targets.iter().find(|target| target.name == name)
    }

    /// The factor of this name.
    #[must_use]
    pub fn factor(&self, name: &str) -> Option<&Factor> {
        self.factors.iter().find(|factor| factor.name == name)
    }

    /// The options of a cell's runs: the plan's, replaced by the profile's, these by the target's, these by
    /// the levels of factors.
    #[must_use]
    pub fn options_of(&self, cell: &results::Cell) -> LoadOptions {
        let mut options = self.load.clone();
        let profile = cell.profile.as_ref();
        let profile = self.profiles.iter().find(|p| Some(&p.name) == profile);
        let layers = profile.map(|profile| &profile.load);
        let layers = layers
            .into_iter()
            .chain(self.target(&cell.target).map(|target| &target.load));
        for layer in layers {
            options.set(layer.iter().cloned());
        }
        for setting in &cell.settings {
            let factor = self.factor(&setting.factor);
            options.set(factor.and_then(|factor| factor.load_option(&setting.level)));
        }
        options
    }

    /// The command line of a cell's runs, without the program's name; `None` for a cell of another plan.
    #[must_use]
    pub fn arguments_of(&self, cell: &results::Cell) -> Option<Vec<String>> {
        let target = self.target(&cell.target)?;
        Some(self.options_of(cell).arguments(&target.url))
    }

    /// What every command of a trial finds in its environment: the level of each factor as
    /// `WRKBENCH_<FACTOR>`, and `WRKBENCH_TARGET`, `WRKBENCH_URL`, `WRKBENCH_PROFILE`,
    /// `WRKBENCH_PLAN_DIR`.
    #[must_use]
    pub fn environment_of(&self, cell: &results::Cell) -> BTreeMap<String, String> {
        let mut environment = self.environment();
        for setting in &cell.settings {
            if let Some(factor) = self.factor(&setting.factor) {
                environment.extend(factor.environment(&setting.level));
            }
        }
        environment.insert("WRKBENCH_TARGET".to_owned(), cell.target.clone());
        if let Some(target) = self.target(&cell.target) {
            environment.insert("WRKBENCH_URL".to_owned(), target.url.clone());
        }
        if let Some(profile) = &cell.profile {
            environment.insert("WRKBENCH_PROFILE".to_owned(), profile.clone());
        }
        environment
    }

    /// What `setup` and `teardown` find in their environment: `WRKBENCH_PLAN_DIR`.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<String, String> {
        let folder = self.folder.to_string_lossy().into_owned();
        BTreeMap::from([("WRKBENCH_PLAN_DIR".to_owned(), folder)])
    }

    /// Every kernel setting that the plan names, once, in the order of the plan.
    #[must_use]
    pub fn sysctls(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = Vec::new();
        for key in self.factors.iter().flat_map(Factor::sysctls) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }
}

fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The variable that a factor's level is in.
pub(crate) fn variable(name: &str) -> String {
    let plain = name.chars().map(|c| match c {
        c if c.is_ascii_alphanumeric() => c.to_ascii_uppercase(),
        _ => '_',
    });
    "WRKBENCH_".chars().chain(plain).collect()
}

#[cfg(test)]
mod tests;
