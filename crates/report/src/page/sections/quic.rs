//! The packets of QUIC connections, for runs with HTTP/3.

use presentation::Section;

use crate::page::runs::Runs;
use crate::quic;

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let tables = [
        runs.of_groups(quic::packets),
        runs.of_groups(quic::connections),
    ];
    let tables: Vec<_> = tables.into_iter().flatten().collect();
    if tables.is_empty() {
        return None;
    }
    let lead = "What the load generator's end of the connections has counted within the window. A \
                connection has one sample of each time and size, when it was closed or when the \
                window ended. Which packets of the server were lost, only the server knows.";
    Some(Section::new("quic", "QUIC", lead, tables))
}
