//! The requests with each name.

use results::{NameRecording, Recording};

use crate::page::runs::Runs;
use crate::page::tables::{
    self, known, number_columns, percentile, table, text, toned_if, words_column,
};
use crate::page::{Section, TableCell, Tone, words};

/// Where requests come from a file and have names.
pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let mut rows = Vec::new();
    for (group, recording) in runs.recordings() {
        let durations = group.results().map(|result| result.window.duration_ns);
        let duration_ns = durations.fold(0, u64::saturating_add);
        let of_names = rows_of_names(recording, duration_ns);
        rows.extend(of_names.map(|row| runs.key_row(&group.full_name, row)));
    }
    if rows.is_empty() {
        return None;
    }
    let mut columns = vec![words_column("Name")];
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
    let lead = "The requests came from a file, and each has a name. Latency is counted as in the \
                rest of this page.";
    let blocks = vec![table("Requests by name", columns, rows)];
    Some(Section::new("names", "Requests by name", lead, blocks))
}

fn rows_of_names(
    recording: &Recording,
    duration_ns: u64,
) -> impl Iterator<Item = Vec<TableCell>> + '_ {
    recording
        .by_name
        .iter()
        .map(move |named| cells(named, duration_ns))
}

fn cells(named: &NameRecording, duration_ns: u64) -> Vec<TableCell> {
    let latency = named.latency_with_bounds();
    let per_sec = named.answered as f64 / (duration_ns as f64 / 1e9);
    let time = |percent| match latency.is_empty() {
        true => tables::unknown(),
        false => percentile(&latency, percent),
    };
    let failed = named.errors.exchanges();
    let over_399 = named.statuses.over_399();
    vec![
        text(&named.name),
        tables::count(named.answered),
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
