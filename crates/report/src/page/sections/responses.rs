//! Statuses, errors, and counters that add up to all requests.

use std::time::Duration;

use analysis::distinct;
use presentation::tables::{self, Facts, columns, number_column, words_column};
use presentation::words::{bytes, count, number, time_ns};
use presentation::{Block, Section, TableBlock, TableCell, Tone, words};
use results::{ErrorKind, Recording, RunResult, Warning};

use crate::page::runs::Runs;
use crate::status::meaning;

/// Of a run without a successful response: `All 5,000 responses had the status 404 (Not Found)`.
pub(crate) fn nothing_good(result: &RunResult) -> Option<String> {
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

/// A larger share of failed requests is the first thing to know about a run; comparisons have the
/// same limit.
const FAILING_FROM: f64 = 0.01;

/// Whether so many requests failed that the numbers do not measure the server's work.
pub(crate) fn is_failing(failed: u64, of: u64) -> bool {
    failed as f64 > of as f64 * FAILING_FROM
}

/// `90 % of responses had the status 500 (Internal Server Error)`; `None` if few had a status above
/// 399.
pub(crate) fn statuses_in_words(recording: &Recording) -> Option<String> {
    let statuses = &recording.statuses;
    let over_399 = statuses.over_399();
    is_failing(over_399, statuses.total()).then_some(())?;
    let bad = statuses.iter().filter(|(status, _)| *status > 399);
    let (most, responses) = bad.max_by_key(|(_, responses)| *responses)?;
    let share = words::share(over_399, statuses.total());
    let status = format!("{most} ({})", meaning(most));
    Some(if responses == over_399 {
        format!("{share} of responses had the status {status}")
    } else {
        format!("{share} of responses had a status above 399, most often {status}")
    })
}

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let errors = runs.of_groups(errors_table);
    let has_errors = errors.is_some();
    let tables = [runs.of_groups(statuses_table), errors, sums(runs)];
    let blocks: Vec<Block> = tables.into_iter().flatten().collect();
    let lead = if has_errors {
        "Each error counts once, however many requests it ended."
    } else {
        "There were no errors."
    };
    let section = Section::new("responses", "Responses and errors", lead, blocks);
    let is_folded = runs.single().is_none() && !has_errors;
    (!section.blocks.is_empty()).then(|| section.folded(is_folded))
}

fn statuses_table(recording: &Recording, _: Duration) -> TableBlock {
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
    let columns = [
        number_column("Status"),
        words_column("Meaning"),
        number_column("Responses"),
        number_column("Share"),
    ];
    TableBlock::new("Responses by status", columns, statuses.iter().map(row))
}

fn share(part: u64, whole: u64) -> TableCell {
    let percent = part as f64 / whole.max(1) as f64 * 100.0;
    tables::value(words::share(part, whole), percent)
}

fn errors_table(recording: &Recording, _: Duration) -> TableBlock {
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
    let numbers = ["Errors", "Requests lost", "Share of requests sent"];
    let columns = columns(&["Kind", "Meaning"], &numbers);
    TableBlock::new("Errors by kind", columns, recording.errors.iter().map(row))
}

/// Names with values on the page of a single run, otherwise a table with a row for each group.
fn sums(runs: &Runs<'_>) -> Option<Block> {
    if let Some(result) = runs.single_result() {
        let duration = Duration::from_nanos(result.window.duration_ns);
        return facts(&result.recording, duration).block();
    }
    let recordings = runs.recordings();
    let sums = recordings.map(|(group, recording)| facts(recording, group.duration()));
    let names = distinct(sums.flat_map(|Facts(facts)| facts).map(|(name, _)| name));
    runs.of_groups(|recording, duration| {
        let Facts(facts) = facts(recording, duration);
        let cell = |name: &String| {
            let found = facts.iter().find(|(known, _)| known == name);
            found.map_or_else(tables::unknown, |(_, value)| tables::text(value))
        };
        let row = names.iter().map(cell).collect();
        let columns: Vec<_> = names.iter().map(words_column).collect();
        TableBlock::new("Requests and connections", columns, [row])
    })
}

/// Sums in which every request is found.
fn facts(recording: &Recording, duration: Duration) -> Facts {
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
    if let Some(judged) = recording.good_requests() {
        facts.add("Good requests", results::parts::good::share(&judged));
    }
    if counters.in_flight > 0 {
        facts.add(
            "Oldest in flight at the end",
            time_ns(counters.oldest_in_flight_ns),
        );
    }
    if !duration.is_zero() {
        let mean = counters.in_flight_time_ns as f64 / duration.as_nanos() as f64;
        facts.add("In flight on average", number(mean));
    }
    facts.add("Connections opened", count(counters.connections_opened));
    for (name, value) in [
        (
            "Responses to requests of the warm-up",
            counters.answered_of_warmup,
        ),
        (
            "Responses after the run (--drain)",
            counters.answered_in_drain,
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
