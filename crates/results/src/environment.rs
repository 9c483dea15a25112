//! The environment of a run: the machine, its kernel and settings, the program and its command
//! line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The environment of a run, needed to judge whether two results can be compared. Unknown values
/// are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// Version of wrkbench, such as `0.1.0`.
    pub wrkbench_version: String,
    /// The command line, one element per argument, the program's name first.
    pub command_line: Vec<String>,
    /// Start of the run by the wall clock, RFC 3339, such as `2026-11-20T19:56:00Z`; for
    /// information only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// Name of the machine that ran the load generator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Kernel name, release and version, as `uname` gives them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Model name of the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Number of CPUs that the program may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Clock source of the kernel, such as `tsc`; with others it takes longer to read the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clocksource: Option<String>,
    /// What the user says about the run (`--label`), by name: a version, a branch, a class of
    /// machines.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Kernel settings that can affect the result, by name, such as `net.core.somaxconn`.
    pub sysctls: BTreeMap<String, String>,
}
