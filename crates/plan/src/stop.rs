//! When a run ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::saved;

/// The run ends at whichever comes first; at least one is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// After so much measured time (a warm-up is not part of it); more than zero.
    #[serde(
        rename = "duration_ns",
        with = "saved::optional_duration_ns",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub duration: Option<Duration>,
    /// After so many requests, over all threads, each answered or failed; at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}
