//! The saved documents of an experiment: its description, and one document per trial.
//!
//! A folder holds one experiment: `experiment.json` ([`Experiment`]), `trials/<name>.json`
//! ([`Trial`]) and, with telemetry, `trials/<name>.samples.jsonl.zst`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{RunResult, SearchStep};

/// Version of both document formats. It is increased like [`crate::SCHEMA_VERSION`].
pub const EXPERIMENT_SCHEMA_VERSION: u32 = 2;

/// The factor whose levels are the places of agents.
pub const PLACE_FACTOR: &str = "place";

/// One level of one factor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Name of the factor.
    pub factor: String,
    /// The level as text, such as `262144`, or the name of a level with several settings.
    pub level: String,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.factor, self.level)
    }
}

/// One combination of levels, profile and target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Number of the cell in the experiment, from 1.
    pub number: u32,
    /// The levels, in the order of the factors.
    pub settings: Vec<Setting>,
    /// Name of the profile (a set of load options), if the experiment has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Name of the target.
    pub target: String,
    /// Whether this is the baseline, the cell that is repeated to show drift.
    pub is_baseline: bool,
}

impl Cell {
    /// Its place, if places are crossed with the other factors.
    #[must_use]
    pub fn place(&self) -> Option<&str> {
        let setting = self.settings.iter().find(|it| it.factor == PLACE_FACTOR)?;
        Some(&setting.level)
    }
}

/// The order of the trials in a round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// A new random order in each round.
    #[default]
    Shuffled,
    /// The order of the sweep file. Changes over time then look like the effect of a level.
    Sequential,
}

/// When an experiment ends before its last round. This is decided after every round, so the
/// conclusions must hold however often they are looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Stopping {
    /// As soon as the intervals of all differences are this wide to either side, as a share of the
    /// reference: 0.02 is 2 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<f64>,
    /// As soon as each difference is known to be there, or to be within the threshold.
    #[serde(default)]
    pub when_decided: bool,
    /// When its trials have taken this long, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_ms: Option<u64>,
}

/// The description of an experiment, saved when it starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// [`EXPERIMENT_SCHEMA_VERSION`] of the program that wrote the document.
    pub schema_version: u32,
    /// Name of the experiment.
    pub name: String,
    /// The text of the sweep file.
    pub plan_toml: String,
    /// Seed of the random order.
    pub seed: u64,
    /// The order of the trials in a round.
    pub order: Order,
    /// Number of rounds; the most, if it may end before.
    pub rounds: u32,
    /// When it ends before its last round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping: Option<Stopping>,
    /// Differences up to this share do not matter; absent if neither the experiment nor the command
    /// line sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// Names of the metrics that are judged; empty for the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judge: Vec<String>,
    /// The conditions of a search: its trials are steps of searches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<Vec<String>>,
    /// All cells, in order of their numbers.
    pub cells: Vec<Cell>,
    /// Start by the wall clock, RFC 3339; for information only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
}

/// A hook that ran around a trial, and its output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HookOutput {
    /// Name of the hook, such as `restart`, `before` or `apply`.
    pub hook: String,
    /// The shell command line that ran.
    pub command: String,
    /// Its exit code; `None` if a signal or the time limit ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How long it took, milliseconds.
    pub duration_ms: u64,
    /// Its standard output, truncated if it is long.
    pub stdout: String,
    /// Its standard error, truncated if it is long.
    pub stderr: String,
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TrialOutcome {
    /// The trial was measured.
    Finished(Box<RunResult>),
    /// The trial failed for this reason. It is not in any average.
    Failed(String),
}

/// One run of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// [`EXPERIMENT_SCHEMA_VERSION`] of the program that wrote the document.
    pub schema_version: u32,
    /// Name of the experiment.
    pub experiment: String,
    /// The cell that was run.
    pub cell: Cell,
    /// Number of the round, from 1.
    pub round: u32,
    /// Number of this run of the cell within the round, from 1; above 1 only for a repeated
    /// baseline.
    pub repeat: u32,
    /// Position in the order of the whole experiment, from 1.
    pub position: u32,
    /// Start by the wall clock, RFC 3339; for information only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// How long it took with all attempts, hooks and restarts, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// The step of a search that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchStep>,
    /// Reasons why earlier attempts failed, in order.
    pub failed_attempts: Vec<String>,
    /// How the trial ended.
    pub outcome: TrialOutcome,
    /// The values that the kernel really used, by sysctl: it may clamp or round a setting.
    pub effective: BTreeMap<String, String>,
    /// State of the machine before the run, by name: sysctls, load, memory and others.
    pub environment_before: BTreeMap<String, String>,
    /// State of the machine after the run, by name.
    pub environment_after: BTreeMap<String, String>,
    /// Hooks that ran around the trial, in order.
    pub hooks: Vec<HookOutput>,
    /// Name of the file with the telemetry samples, in the same folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_file: Option<String>,
}
