//! What an experiment saves: itself once, and each of its trials when it ends.
//!
//! A folder holds one experiment: `experiment.json` ([`Experiment`]) and `trials/<name>.json`
//! ([`Trial`]), beside each `trials/<name>.samples.jsonl.zst` if telemetry was asked for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::RunResult;

/// Version of both documents; see [`crate::SCHEMA_VERSION`] for when it grows.
pub const EXPERIMENT_SCHEMA_VERSION: u32 = 2;

/// One level of one factor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Name of the factor.
    pub factor: String,
    /// The level, as text: `262144`, or the name of a level that sets several things.
    pub level: String,
}

/// One combination of levels, profile and target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Place in the plan, from 1.
    pub number: u32,
    /// The levels, in the order of the plan's factors.
    pub settings: Vec<Setting>,
    /// Name of the set of load options, if the plan has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Name of the target.
    pub target: String,
    /// The cell that is repeated so that drift shows.
    pub is_baseline: bool,
}

/// In which order the trials of a round run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Drawn anew for each round.
    #[default]
    Shuffled,
    /// As the plan names them: what changes over time then looks like an effect of a level.
    Sequential,
}

/// An experiment as it was started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// [`EXPERIMENT_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Name of the plan.
    pub name: String,
    /// The plan's file as it was read.
    pub plan_toml: String,
    /// Seed of the order.
    pub seed: u64,
    /// Order within a round.
    pub order: Order,
    /// How often each cell runs.
    pub rounds: u32,
    /// The cells.
    pub cells: Vec<Cell>,
    /// Wall-clock begin, RFC 3339; a label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
}

/// A command that ran around a trial, and what it said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HookOutput {
    /// Which hook: `restart`, `before`, `apply` and such.
    pub hook: String,
    /// The command.
    pub command: String,
    /// Its exit code; `None` if a signal or the time limit ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How long it took, milliseconds.
    pub duration_ms: u64,
    /// What it wrote, cut where it is long.
    pub stdout: String,
    /// What it wrote to stderr, cut where it is long.
    pub stderr: String,
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TrialOutcome {
    /// It was measured.
    Finished(Box<RunResult>),
    /// It was not, for this reason; no average has it.
    Failed(String),
}

/// One run of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// [`EXPERIMENT_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Name of the experiment.
    pub experiment: String,
    /// What was run.
    pub cell: Cell,
    /// Round, from 1.
    pub round: u32,
    /// Which run of this cell in its round, from 1; more than 1 for a repeated baseline only.
    pub repeat: u32,
    /// Place in the order of the whole experiment, from 1.
    pub position: u32,
    /// Wall-clock begin, RFC 3339; a label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// Why earlier attempts failed, in their order.
    pub failed_attempts: Vec<String>,
    /// How it ended.
    pub outcome: TrialOutcome,
    /// What the kernel really took, by sysctl: it clamps and rounds.
    pub effective: BTreeMap<String, String>,
    /// The machine before the run: sysctls, load, memory and such, by name.
    pub environment_before: BTreeMap<String, String>,
    /// The same after it.
    pub environment_after: BTreeMap<String, String>,
    /// Commands around it, in the order they ran.
    pub hooks: Vec<HookOutput>,
    /// Name of the file with the samples, beside this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_file: Option<String>,
}
