//! When a run ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::saved;

/// The conditions that end a run, whichever comes first. At least one is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stop {
    /// Length of the window, without the warm-up; more than zero.
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    #[serde(
        rename = "duration_ns",
        with = "saved::optional_duration_ns",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub duration: Option<Duration>,
    /// Number of requests, successful or failed, of all threads; at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}
