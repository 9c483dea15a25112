//! Statuses, errors, and counters that add up to all requests.

use analysis::distinct;
use results::{ErrorKind, Recording, RunResult, Warning};

use crate::page::runs::Runs;
use crate::page::tables::{self, Facts, number_column, table, words_column};
use crate::page::words::{bytes, count, number, time_ns};
use crate::page::{Block, Section, TableCell, Tone, words};
use crate::status::meaning;

/// Of a run without a successful response: `All 5,000 responses had the status 404 (Not Found)`.
pub(super) fn nothing_good(result: &RunResult) -> Option<String> {
    let (answered, others) = result
        .warnings
        .iter()
        .find_map(|warning| match &warning.data {
            Warning::OnlyBadStatuses { answered, .. } => Some((answered, "without success")),
            Warning::OnlyRedirects { answered, .. } => Some((answered, "redirects")),
            _ => None,
        })?;
    let all = words::counted(*answered, "response");
    let mut statuses = result.recording.statuses.iter();
    Some(match (statuses.next(), statuses.next()) {
        (Some((status, _)), None) => {
            format!("All {all} had the status {status} ({})", meaning(status))
        }
        _ => format!("All {all} were {others}"),
    })
}

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let (mut statuses, mut errors, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    for (group, recording) in runs.recordings() {
        let with_key = |row: Vec<TableCell>| runs.key_row(&group.full_name, row);
        statuses.extend(rows_of_statuses(recording).into_iter().map(with_key));
        errors.extend(rows_of_errors(recording).into_iter().map(with_key));
        let duration_ns = group.results().map(|result| result.window.duration_ns);
        let facts = facts(recording, duration_ns.fold(0, u64::saturating_add));
        sums.push((group.full_name.as_str(), facts));
    }
    if sums.is_empty() {
        return None;
    }
    let has_errors = !errors.is_empty();
    let mut blocks = Vec::new();
    if !statuses.is_empty() {
        let columns = [
            number_column("Status"),
            words_column("Meaning"),
            number_column("Responses"),
            number_column("Share"),
        ];
        let columns = runs.key_columns("Group", columns);
        blocks.push(table("Responses by status", columns, statuses));
    }
    if has_errors {
        let columns = [
            words_column("Kind"),
            words_column("Meaning"),
            number_column("Errors"),
            number_column("Requests lost"),
            number_column("Share of requests sent"),
        ];
        let columns = runs.key_columns("Group", columns);
        blocks.push(table("Errors by kind", columns, errors));
    }
    blocks.extend(block_of_sums(runs, sums));
    let lead = if has_errors {
        "Each error counts once, however many requests it ended."
    } else {
        "There were no errors."
    };
    let section = Section::new("responses", "Responses and errors", lead, blocks);
    Some(section.folded(runs.single().is_none() && !has_errors))
}

fn rows_of_statuses(recording: &Recording) -> Vec<Vec<TableCell>> {
    let statuses = &recording.statuses;
    let row = |(status, responses): (u16, u64)| {
        let cell = tables::value(status.to_string(), f64::from(status));
        vec![
            tables::toned_if(status > 399, Tone::Bad, cell),
            tables::text(meaning(status)),
            tables::count(responses),
            share(responses, statuses.total()),
        ]
    };
    statuses.iter().map(row).collect()
}

fn share(part: u64, whole: u64) -> TableCell {
    let percent = part as f64 / whole.max(1) as f64 * 100.0;
    tables::value(words::share(part, whole), percent)
}

fn rows_of_errors(recording: &Recording) -> Vec<Vec<TableCell>> {
    let sent = recording.counters.sent;
    let row = |(kind, counted): (ErrorKind, results::ErrorCount)| {
        vec![
            tables::text(kind.name()),
            tables::text(kind.describe()),
            tables::toned(tables::count(counted.events), Tone::Warning),
            tables::count(counted.exchanges),
            share(counted.exchanges, sent),
        ]
    };
    recording.errors.iter().map(row).collect()
}

/// Names with values on the page of a single run, otherwise a table with a row for each group.
fn block_of_sums(runs: &Runs<'_>, sums: Vec<(&str, Facts)>) -> Option<Block> {
    if runs.single().is_some() {
        return sums.into_iter().next()?.1.block();
    }
    let facts = sums.iter().flat_map(|(_, facts)| &facts.0);
    let names = distinct(facts.map(|(name, _)| name.clone()));
    let columns = runs.key_columns("Group", names.iter().map(words_column));
    let rows = sums.iter().map(|(key, Facts(facts))| {
        let cell = |name: &String| {
            let found = facts.iter().find(|(known, _)| known == name);
            found.map_or_else(tables::unknown, |(_, value)| tables::text(value))
        };
        runs.key_row(key, names.iter().map(cell))
    });
    Some(table("Requests and connections", columns, rows))
}

/// Sums in which every request is found.
fn facts(recording: &Recording, duration_ns: u64) -> Facts {
    let counters = &recording.counters;
    let mut facts = Facts::default();
    if counters.due > 0 {
        facts.add(
            "Requests due",
            format!(
                "{} = {} sent + {} not sent",
                count(counters.due),
                count(counters.sent),
                count(counters.unsent)
            ),
        );
    }
    facts.add(
        "Requests sent",
        format!(
            "{} = {} answered + {} failed + {} in flight at the end",
            count(counters.sent),
            count(counters.answered),
            count(recording.errors.exchanges()),
            count(counters.in_flight)
        ),
    );
    if counters.in_flight > 0 {
        facts.add(
            "Oldest in flight at the end",
            time_ns(counters.oldest_in_flight_ns),
        );
    }
    if duration_ns > 0 {
        let mean = counters.in_flight_time_ns as f64 / duration_ns as f64;
        facts.add("In flight on average", number(mean));
    }
    facts.add("Connections opened", count(counters.connections_opened));
    for (name, value) in [
        (
            "Responses to requests of the warm-up",
            counters.answered_of_warmup,
        ),
        (
            "Connections from the warm-up",
            counters.connections_at_start,
        ),
        (
            "Reconnects after the server closed an idle connection",
            counters.reconnects,
        ),
    ] {
        if value > 0 {
            facts.add(name, count(value));
        }
    }
    if counters.tls_full > 0 || counters.tls_resumed > 0 {
        let (full, resumed) = (count(counters.tls_full), count(counters.tls_resumed));
        facts.add("TLS handshakes", format!("{full} full, {resumed} resumed"));
    }
    facts.add("Bytes of responses", bytes(counters.bytes as f64));
    facts
}
