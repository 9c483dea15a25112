//! What to watch in the kernel beside the load.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Asking for thousands of sockets takes milliseconds: more often would be a load of its own.
pub const MIN_SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

/// Telemetry of a run: sockets, counters, or both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetrySpec {
    /// Which TCP sockets, in ss's words (`sport = :80 or dport = :443`); an empty filter takes all
    /// of them, `None` none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<String>,
    /// Time between samples; at least [`MIN_SAMPLE_INTERVAL`].
    #[serde(rename = "interval_ns", with = "crate::saved::duration_ns")]
    pub interval: Duration,
    /// Whether the growth of the kernel's counters is recorded.
    pub counters: bool,
}
