//! The responses of a replay beside those of its log.

use serde::{Deserialize, Serialize};

use crate::Histogram;
use crate::parts::Measurement;

/// The responses of a replay beside those of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ComparedWithLog {
    /// Responses whose status is in the log.
    pub responses: u64,
    /// Those of them with another status than in the log.
    pub other_status: u64,
}

impl Measurement for ComparedWithLog {
    fn merge(&mut self, other: &Self) {
        self.responses = self.responses.saturating_add(other.responses);
        self.other_status = self.other_status.saturating_add(other.other_status);
    }

    fn histograms_mut(&mut self) -> Vec<&mut Histogram> {
        Vec::new()
    }
}
