//! The events of streaming responses.

use crate::events;
use crate::page::Section;
use crate::page::runs::Runs;

/// The times and numbers of events, for runs that split responses into events.
pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let tables = [
        runs.of_groups(events::times)?,
        runs.of_groups(events::numbers)?,
    ];
    let lead = "The responses are streams of events. The time to the first event is counted from \
                the same moment as latency. Events that arrived together have gaps of 0.";
    Some(Section::new("events", "Events", lead, tables.into()))
}
