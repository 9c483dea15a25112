//! The requests with each name, and those to each address.

use results::{NameRecording, Recording};

use crate::page::runs::Runs;
use crate::page::tables::{
    self, known, number_columns, percentile, table, text, toned_if, words_column,
};
use crate::page::{Block, Section, TableCell, Tone, words};

/// Figures of each request, for runs whose requests come from a file and have names.
pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let lead = "The requests came from a file, and each has a name. Latency is counted as in the \
                rest of this page.";
    let table = table_of(runs, "Name", "Requests by name", |it| &it.by_name)?;
    Some(Section::new("names", "Requests by name", lead, vec![table]))
}

/// Figures of each address, for runs whose requests are counted by address.
pub(super) fn section_of_addresses(runs: &Runs<'_>) -> Option<Section> {
    let lead = "The connections went to several addresses, or their addresses could change. \
                Latency is counted as in the rest of this page.";
    let table = table_of(runs, "Address", "Requests by address", |it| &it.by_address)?;
    Some(Section::new(
        "addresses",
        "Requests by address",
        lead,
        vec![table],
    ))
}

fn table_of(
    runs: &Runs<'_>,
    column: &'static str,
    title: &'static str,
    parts: fn(&Recording) -> &Vec<NameRecording>,
) -> Option<Block> {
    let mut rows = Vec::new();
    for (group, recording) in runs.recordings() {
        let durations = group.results().map(|result| result.window.duration_ns);
        let duration_ns = durations.fold(0, u64::saturating_add);
        let of_parts = parts(recording).iter().map(|part| cells(part, duration_ns));
        rows.extend(of_parts.map(|row| runs.key_row(&group.full_name, row)));
    }
    if rows.is_empty() {
        return None;
    }
    let mut columns = vec![words_column(column)];
    columns.extend(number_columns([
        "Requests",
        "Requests/s",
        "p50",
        "p90",
        "p99",
        "Largest",
        "Failed",
        "Status above 399",
    ]));
    let columns = runs.key_columns("Group", columns);
    Some(table(title, columns, rows))
}

fn cells(named: &NameRecording, duration_ns: u64) -> Vec<TableCell> {
    let latency = named.latency_with_bounds();
    let per_sec = named.responses() as f64 / (duration_ns as f64 / 1e9);
    let time = |percent| match latency.is_empty() {
        true => tables::unknown(),
        false => percentile(&latency, percent),
    };
    let failed = named.errors.exchanges();
    let over_399 = named.statuses.over_399();
    vec![
        text(&named.name),
        tables::count(named.responses()),
        known(Some(per_sec), words::number),
        time(50.0),
        time(90.0),
        time(99.0),
        latency
            .max_ns()
            .map_or_else(tables::unknown, tables::time_ns),
        toned_if(failed > 0, Tone::Bad, tables::count(failed)),
        toned_if(over_399 > 0, Tone::Bad, tables::count(over_399)),
    ]
}
