//! What to sample from the kernel during a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Sampling thousands of sockets takes milliseconds; doing it more often would be a load of its
/// own.
pub const MIN_SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

/// Telemetry of a run: sockets, kernel counters, or both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TelemetrySpec {
    /// A filter for TCP sockets, in the syntax of ss (`sport = :80 or dport = :443`). An empty
    /// filter selects all sockets, `None` selects none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<String>,
    /// Time between samples; at least [`MIN_SAMPLE_INTERVAL`].
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    #[serde(rename = "interval_ns", with = "crate::saved::duration_ns")]
    pub interval: Duration,
    /// Whether the increase of kernel counters is recorded.
    pub counters: bool,
}

impl Default for TelemetrySpec {
    /// Nothing is sampled. The interval is short enough for a run of a few seconds, and long enough
    /// to cost hardly any CPU.
    fn default() -> Self {
        Self {
            sockets: None,
            interval: Duration::from_secs(1),
            counters: false,
        }
    }
}
