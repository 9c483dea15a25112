//! A finished run: its recording with everything needed to understand it later.

use plan::RunPlan;
use serde::{Deserialize, Serialize};

use crate::{Environment, Finding, Generator, Recording, Telemetry, Warning};

/// Version of the saved document. It grows when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 2;

/// The time that the numbers cover.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Wall-clock begin of the window, milliseconds since 1970-01-01 UTC; a label only.
    pub started_unix_ms: u64,
    /// Length of the window on the monotonic clock, nanoseconds. Requests, bytes and latencies
    /// cover exactly this time, so it is the divisor of every rate.
    pub duration_ns: u64,
    /// Time of load before the window, nanoseconds; nothing of it is in any number.
    pub warmup_ns: u64,
    /// The run was ended early, by Ctrl-C.
    pub interrupted: bool,
}

/// How the program talked to the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// `io_uring` or `epoll`.
    pub name: String,
    /// Why this one, in one phrase.
    pub reason: String,
}

/// A finished run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunResult {
    /// [`SCHEMA_VERSION`] of the program that made it.
    pub schema_version: u32,
    /// What was run, with every default filled in.
    pub plan: RunPlan,
    /// Where it was run.
    pub environment: Environment,
    /// When, and for how long.
    pub window: Window,
    /// How it was run.
    pub backend: Backend,
    /// What happened.
    #[serde(flatten)]
    pub recording: Recording,
    /// What the program knows of its own part in the numbers.
    #[serde(default)]
    pub generator: Generator,
    /// What the kernel's books said meanwhile, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Telemetry>,
    /// Why numbers of this result may be wrong.
    pub warnings: Vec<Finding<Warning>>,
}

impl RunResult {
    /// Answers per second of the window; 0 for a window without length.
    #[must_use]
    pub fn requests_per_sec(&self) -> f64 {
        self.per_sec(self.recording.counters.answered)
    }

    /// Bytes of responses per second of the window; 0 for a window without length.
    #[must_use]
    pub fn bytes_per_sec(&self) -> f64 {
        self.per_sec(self.recording.counters.bytes)
    }

    fn per_sec(&self, total: u64) -> f64 {
        match self.window.duration_ns {
            0 => 0.0,
            duration_ns => total as f64 / (duration_ns as f64 / 1e9),
        }
    }
}
