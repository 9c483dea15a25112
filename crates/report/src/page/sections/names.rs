//! The requests with each name, and those to each address.

use presentation::Section;

use crate::names;
use crate::page::runs::Runs;

/// Figures of each request, for runs whose requests come from a file and have names.
pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let lead = "The requests came from a file, and each has a name. Latency is counted as in the \
                rest of this page.";
    let blocks = vec![runs.of_groups(names::by_name)?];
    Some(Section::new("names", "Requests by name", lead, blocks))
}

/// Figures of each address, for runs whose requests are counted by address.
pub(super) fn section_of_addresses(runs: &Runs<'_>) -> Option<Section> {
    let lead = "The connections went to several addresses, or their addresses could change. \
                Latency is counted as in the rest of this page.";
    let blocks = vec![runs.of_groups(names::by_address)?];
    Some(Section::new(
        "addresses",
        "Requests by address",
        lead,
        blocks,
    ))
}
