//! Where a run happened: the machine, its kernel and settings, the program and its command line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is needed to judge whether two results can be compared. Filled by the crate that makes the
/// run; what could not be found out is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// Version of wrkbench, such as `0.1.0`.
    pub wrkbench_version: String,
    /// The command line, one element per argument, the program's name first.
    pub command_line: Vec<String>,
    /// Wall-clock begin of the run, RFC 3339, such as `2026-11-20T19:56:00Z`; a label only, no
    /// time is computed from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// Name of the machine that made the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Kernel name, release and version, as `uname` gives them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Model name of the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Processors that the program may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Kernel clock source, such as `tsc`; others make each time stamp dearer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clocksource: Option<String>,
    /// Kernel settings that bear on the result, by name: `net.core.somaxconn` and such.
    pub sysctls: BTreeMap<String, String>,
}
