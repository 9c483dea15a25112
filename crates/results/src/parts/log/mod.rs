//! The responses of a replay beside those of its log.

use plan::readable::{count, counted};
use serde::{Deserialize, Serialize};

use crate::parts::{Measurement, PartView};
use crate::{Histogram, RunResult};

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

pub(super) static VIEW: PartView = PartView {
    notes: |result| note(result).into_iter().collect(),
    ..PartView::NONE
};

/// Whether the responses of a replay have the statuses of the log.
fn note(result: &RunResult) -> Option<String> {
    let ComparedWithLog {
        responses,
        other_status,
    } = result.recording.parts.compared_with_log?;
    Some(if other_status == 0 {
        format!(
            "the status of {} is that of the log",
            counted(responses, "response")
        )
    } else {
        format!(
            "the status of {} of {} differs from that in the log",
            count(other_status),
            counted(responses, "response")
        )
    })
}
