//! The experiment file: what is varied, what is run, and the hooks around it.
//!
//! Parsing reads nothing but the file itself. Checks that need a machine are in
//! [`crate::preflight`].

mod draft;
mod factors;
mod options;
mod places;
mod problems;
mod read;
mod run_file;
mod searched;
mod section;
mod selection;
mod suggestions;
mod value;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use files::outputs::folder_of;
use judging::Criterion;
use plan::{Arrivals, TelemetrySpec};
use results::{Cell, Metric, Order, PLACE_FACTOR, SearchOver, Stopping};

pub use draft::{Draft, Keys};
pub(crate) use options::option_in;
pub use options::{LoadOption, LoadOptions, OptionValue};
pub use problems::SpecError;
pub use run_file::RunFile;
pub use selection::{SelectionError, comma_separated};

use crate::design;
use crate::factor::Factor;

/// The most rounds of an experiment.
pub const MAX_ROUNDS: u32 = 10_000;
/// Default limit of failed trials in a row.
pub(crate) const MAX_FAILURES: u32 = 3;
/// The most cells of an experiment.
pub(crate) const MAX_CELLS: usize = 4_000;
/// The most trials of an experiment.
pub(crate) const MAX_TRIALS: usize = 100_000;
/// The most levels of a factor.
pub(crate) const MAX_LEVELS: usize = 1_000;
/// The largest experiment file, bytes.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 20;

/// An experiment as described by its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// The name of the experiment: `name`.
    pub name: String,
    /// How many times each cell runs, 1..=[`MAX_ROUNDS`].
    pub rounds: u32,
    /// Folder for the results.
    pub results: PathBuf,
    /// Seed of the order; random if absent.
    pub seed: Option<u64>,
    /// Order within a round.
    pub order: Order,
    /// How often a failed trial is tried again, 0..=10.
    pub retries: u32,
    /// The sweep ends after this many failed trials in a row; 0 means no limit.
    pub max_failures: u32,
    /// The largest difference that does not matter, as a share: 0.02 is 2 %.
    pub threshold: Option<f64>,
    /// The metrics that are judged; the usual ones if empty.
    pub judge: Vec<Metric>,
    /// When the experiment ends before its last round.
    pub until: Option<Stopping>,
    /// Options of every run.
    pub load: LoadOptions,
    /// The servers, at least one.
    pub targets: Vec<TargetSpec>,
    /// Named sets of options; may be empty.
    pub profiles: Vec<Profile>,
    /// The places of the agents that make the runs; none if this machine or any agents make them.
    pub places: Vec<PlaceSpec>,
    /// How the places make the runs.
    pub place_mode: PlaceMode,
    /// What is varied in addition to targets and profiles.
    pub factors: Vec<Factor>,
    /// Cells that are left out.
    pub exclude: Vec<Selection>,
    /// The cell that is repeated to detect drift.
    pub baseline: Option<Baseline>,
    /// Commands around the runs.
    pub hooks: Hooks,
    /// What is searched for with each cell; `None` if each trial is one run of a cell.
    pub search: Option<SearchSpec>,
    /// What is sampled during the runs.
    pub telemetry: Option<TelemetrySpec>,
    /// The text of the file.
    pub text: String,
    /// The file's name, for messages.
    pub file: PathBuf,
    /// The folder of relative paths in the file; absolute if the file was loaded.
    pub folder: PathBuf,
}

/// A search of the highest rate or number of connections under conditions, or a check of one rate.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchSpec {
    /// The conditions, which a run has to meet; at least one.
    pub slo: Vec<Criterion>,
    /// What the highest value is searched of.
    pub over: SearchOver,
    /// The most connections that a search over connections tries; `None` for the usual limit.
    pub connections_max: Option<u32>,
    /// Half the width of the interval at which a search ends, as a share of the rate.
    pub precision: f64,
    /// How long a search may take.
    pub budget: Duration,
    /// Least length of a run that counts.
    pub run: Duration,
    /// The rate to check; `None` for a search.
    pub rate_per_sec: Option<f64>,
    /// How the requests of a rate are distributed over time.
    pub arrivals: Arrivals,
}

/// A server under test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetSpec {
    /// The name in tables and file names.
    pub name: String,
    /// The URL of its requests.
    pub url: String,
    /// Its own options; they override those of the experiment and of profiles.
    pub load: LoadOptions,
    /// Runs before each of its runs, before the server has to be ready.
    pub before: Option<Hook>,
    /// Runs after each of its runs.
    pub after: Option<Hook>,
    /// Line in the experiment file.
    pub line: usize,
}

/// A named set of options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The name in tables and file names.
    pub name: String,
    /// Its options; they override those of the experiment.
    pub load: LoadOptions,
    /// Line in the experiment file.
    pub line: usize,
}

/// Where agents of a fleet are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceSpec {
    /// The label that the agents were started with.
    pub name: String,
    /// This place's own URLs of targets, by their names.
    pub urls: BTreeMap<String, String>,
    /// Line in the experiment file.
    pub line: usize,
}

/// How several places make the runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlaceMode {
    /// Each place makes the runs by itself: places are crossed with the factors.
    #[default]
    InTurn,
    /// All places make each run together.
    Together,
}

/// Selects the cells that have one of the listed levels of every listed factor. `target` and
/// `profile` count as factors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Accepted levels by factor, in the order of the file.
    pub levels: Vec<(String, Vec<String>)>,
    /// Line in the experiment file.
    pub line: usize,
}

/// The cell that is repeated, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Baseline {
    /// Matches exactly one cell.
    pub cell: Selection,
    /// Number of other cells between repeats, at least 1.
    pub every: u32,
}

/// Commands around the runs, and the condition for starting one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Runs once, before the first trial.
    pub setup: Option<Hook>,
    /// Runs after a change that servers only read when they start: of a kernel setting, file or
    /// command.
    pub restart: Option<Hook>,
    /// When a server is ready for a trial.
    pub ready: Option<Ready>,
    /// Time between ready and the run.
    pub settle: Duration,
    /// Runs before each trial.
    pub before: Option<Hook>,
    /// Runs after each trial.
    pub after: Option<Hook>,
    /// Runs once at the end, after the restore.
    pub teardown: Option<Hook>,
}

impl Hooks {
    /// The commands, with their names.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &Hook)> {
        let hooks = [
            ("setup", &self.setup),
            ("restart", &self.restart),
            ("before", &self.before),
            ("after", &self.after),
            ("teardown", &self.teardown),
        ];
        hooks
            .into_iter()
            .filter_map(|(name, hook)| Some((name, hook.as_ref()?)))
    }
}

/// A command that runs before or after trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// A shell command line.
    pub command: String,
    /// The command is killed and counts as failed after this time.
    pub limit: Duration,
    /// The machine that it runs on; `None` is this one.
    pub host: Option<String>,
    /// Line in the experiment file.
    pub line: usize,
}

/// When a server is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// The URL that is requested; `None` is the URL of the trial's target.
    pub url: Option<String>,
    /// The trial fails if the server is not ready after this time.
    pub within: Duration,
    /// The expected status; `None` accepts 200 to 399.
    pub status: Option<u16>,
}

impl Ready {
    /// Whether this status means ready.
    #[must_use]
    pub fn takes(&self, status: u16) -> bool {
        match self.status {
            Some(expected) => status == expected,
            None => (200..400).contains(&status),
        }
    }

    /// The statuses that mean ready, in words.
    pub(crate) fn expected(&self) -> String {
        let usual = || "200 to 399".to_owned();
        self.status.map_or_else(usual, |status| status.to_string())
    }
}

/// Why an experiment cannot have a number of rounds; a phrase that follows the number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRounds {
    /// The number itself is not allowed.
    #[error("must be from 1 to {MAX_ROUNDS}")]
    OutOfRange,
    /// There would be too many trials.
    #[error("{trials} trials: the limit is {MAX_TRIALS}")]
    TooManyTrials {
        /// The number of trials that there would be.
        trials: usize,
    },
}

impl Spec {
    /// Parses the text of an experiment file. `file` is named in messages, and its folder is that
    /// of relative paths.
    ///
    /// # Errors
    /// All problems of the file, a line each.
    pub fn parse(text: &str, file: &Path) -> Result<Self, SpecError> {
        read::read(text, file, folder_of(file))
    }

    /// Loads an experiment file.
    ///
    /// # Errors
    /// When it cannot be read, and as [`Self::parse`].
    pub fn load(file: &Path) -> Result<Self, SpecError> {
        let (text, folder) = read::file_text(file)?;
        read::read(&text, file, &folder)
    }

    /// Reads an experiment that was described by arguments. `folder` is that of relative paths, an
    /// absolute path.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn of_draft(draft: &Draft, folder: &Path) -> Result<Self, SpecError> {
        read::read(&draft.to_string(), Path::new("arguments"), folder)
    }

    /// Whether the experiment may change this machine, and not only the load: by a factor, or by a
    /// hook, whose command can do anything.
    #[must_use]
    pub fn changes_this_machine(&self) -> bool {
        let mut factors = self.factors.iter();
        factors.any(|factor| factor.host.is_none() && factor.needs_restart())
            || self.hooks.all().any(|(_, hook)| hook.host.is_none())
    }

    /// Overrides the number of rounds.
    ///
    /// # Errors
    /// When it is out of range or gives too many trials; nothing is changed then.
    pub fn set_rounds(&mut self, rounds: u32) -> Result<(), InvalidRounds> {
        if !(1..=MAX_ROUNDS).contains(&rounds) {
            return Err(InvalidRounds::OutOfRange);
        }
        let before = std::mem::replace(&mut self.rounds, rounds);
        let trials = design::trials(self);
        if trials > MAX_TRIALS {
            self.rounds = before;
            return Err(InvalidRounds::TooManyTrials { trials });
        }
        Ok(())
    }

    /// All commands around the runs, with their names.
    pub fn all_hooks(&self) -> impl Iterator<Item = (String, &Hook)> {
        let of_targets = self.targets.iter().flat_map(|target| {
            let hooks = [("before", &target.before), ("after", &target.after)];
            hooks.into_iter().filter_map(move |(what, hook)| {
                Some((format!("{what} {}", target.name), hook.as_ref()?))
            })
        });
        let all = self.hooks.all();
        all.map(|(name, hook)| (name.to_owned(), hook))
            .chain(of_targets)
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

    /// The places that are crossed with the factors.
    #[must_use]
    pub fn places_in_turn(&self) -> &[PlaceSpec] {
        match self.place_mode {
            PlaceMode::InTurn => &self.places,
            PlaceMode::Together => &[],
        }
    }

    /// The places that make a cell's runs; empty for any.
    #[must_use]
    pub fn places_of(&self, cell: &Cell) -> &[PlaceSpec] {
        if self.place_mode == PlaceMode::Together {
            return &self.places;
        }
        let name = cell.place().unwrap_or_default();
        let at = self.places.iter().position(|place| place.name == name);
        at.map_or(&[], |at| &self.places[at..=at])
    }

    /// The URL of a cell's runs: the place's own one of the target, if the cell has a place;
    /// `None` for a cell of another experiment.
    #[must_use]
    pub fn url_of(&self, cell: &Cell) -> Option<&str> {
        let own = match (self.place_mode, self.places_of(cell)) {
            (PlaceMode::InTurn, [place]) => place.urls.get(&cell.target),
            _ => None,
        };
        let target = self.target(&cell.target)?;
        Some(own.unwrap_or(&target.url))
    }

    /// The options of a cell's runs. Levels of factors override options of the target, these
    /// override those of the profile, and these those of the experiment.
    #[must_use]
    pub fn options_of(&self, cell: &Cell) -> LoadOptions {
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

    /// How many connections the runs of a cell have.
    #[must_use]
    pub fn connections_of(&self, cell: &Cell) -> u32 {
        let options = self.options_of(cell);
        let given = match options.get("connections") {
            Some(OptionValue::Text(text)) => plan::units::parse_count(text).ok(),
            _ => None,
        };
        let given = given.and_then(|count| u32::try_from(count).ok());
        given.unwrap_or_else(|| plan::Load::default().connections)
    }

    /// The command line of a cell's runs, without the program's name; `None` for a cell of another
    /// experiment.
    #[must_use]
    pub fn arguments_of(&self, cell: &Cell) -> Option<Vec<String>> {
        Some(self.options_of(cell).command_line(self.url_of(cell)?))
    }

    /// The environment variables for the commands of a trial: the level of each factor as
    /// `WRKBENCH_<FACTOR>`, and `WRKBENCH_TARGET`, `WRKBENCH_URL`, `WRKBENCH_PROFILE`,
    /// `WRKBENCH_PLACE`, `WRKBENCH_PLAN_DIR`.
    #[must_use]
    pub fn environment_of(&self, cell: &Cell) -> BTreeMap<String, String> {
        let mut environment = self.environment();
        for setting in &cell.settings {
            if let Some(factor) = self.factor(&setting.factor) {
                environment.extend(factor.environment(&setting.level));
            }
        }
        if let Some(place) = cell.place().filter(|_| !self.places_in_turn().is_empty()) {
            environment.insert(variable(PLACE_FACTOR), place.to_owned());
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

    /// The environment variables for `setup` and `teardown`: `WRKBENCH_PLAN_DIR`. Commands on
    /// another machine do not get it.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<String, String> {
        let folder = self.folder.to_string_lossy().into_owned();
        BTreeMap::from([(FOLDER_VARIABLE.to_owned(), folder)])
    }

    /// The distinct kernel settings that the factors set on a machine, `None` being this one, in
    /// the order of the file.
    #[must_use]
    pub fn sysctls(&self, host: Option<&str>) -> Vec<&str> {
        let there = |factor: &&Factor| factor.host.as_deref() == host;
        let mut keys: Vec<&str> = Vec::new();
        for key in self.factors.iter().filter(there).flat_map(Factor::sysctls) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// The other machines that the experiment changes or runs commands on, each with its first line
    /// in the file.
    #[must_use]
    pub fn hosts(&self) -> BTreeMap<&str, usize> {
        let factors = self
            .factors
            .iter()
            .map(|factor| (&factor.host, factor.line));
        let hooks = self.all_hooks().map(|(_, hook)| (&hook.host, hook.line));
        let mut hosts = BTreeMap::new();
        for (host, line) in factors.chain(hooks) {
            if let Some(host) = host {
                let first = hosts.entry(host.as_str()).or_insert(line);
                *first = line.min(*first);
            }
        }
        hosts
    }
}

/// The environment variable with the folder of the experiment file.
pub(crate) const FOLDER_VARIABLE: &str = "WRKBENCH_PLAN_DIR";

/// The environment variable of a factor's level.
pub(crate) fn variable(name: &str) -> String {
    let plain = name.chars().map(|c| match c {
        c if c.is_ascii_alphanumeric() => c.to_ascii_uppercase(),
        _ => '_',
    });
    "WRKBENCH_".chars().chain(plain).collect()
}

#[cfg(test)]
mod tests;
