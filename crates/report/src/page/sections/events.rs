//! The events of streaming responses.

use presentation::Section;

use crate::page::runs::Runs;
use crate::{events, llm};

/// The times and numbers of events, for runs that split responses into events.
pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let tables = [
        runs.of_groups(llm::times),
        runs.of_groups(llm::numbers),
        runs.of_groups(events::times),
        runs.of_groups(events::numbers),
    ];
    let tables: Vec<_> = tables.into_iter().flatten().collect();
    if tables.is_empty() {
        return None;
    }
    let lead = "The responses are streams of events. The time to the first event or token is \
                counted from the same moment as latency. What arrived together has gaps of 0.";
    Some(Section::new("events", "Events", lead, tables))
}
