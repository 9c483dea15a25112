//! What became of the requests: statuses, errors and the sums that must come out.

use results::{ErrorCount, ErrorKind, RunResult, Warning};

use crate::page::tables::{self, number_column, words_column};
use crate::page::{Block, Section, TableBlock, Tone, words};

/// What is said first of a run in which no request had what it asked for: `All 5,000 responses had the status 404 (Not
/// Found)`.
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

/// Always there: that nothing went wrong is worth a line, too.
pub(super) fn section(result: &RunResult) -> Section {
    let recording = &result.recording;
    let has_errors = recording.errors.events() > 0;
    let mut blocks = Vec::new();
    blocks.extend((recording.statuses.total() > 0).then(|| statuses(result)));
    blocks.extend(has_errors.then(|| errors(result)));
    blocks.push(sums(result));
    Section {
        id: "answers".to_owned(),
        title: "Answers and errors".to_owned(),
        lead: if has_errors {
            "Each error counts once, however many requests it ended.".to_owned()
        } else {
            "There were no errors.".to_owned()
        },
        blocks,
        is_folded: false,
    }
}

fn statuses(result: &RunResult) -> Block {
    let statuses = &result.recording.statuses;
    let rows = statuses.iter().map(|(status, count)| {
        let tone = if status > 399 {
            Tone::Bad
        } else {
            Tone::Neutral
        };
        vec![
            tables::toned(tables::value(status.to_string(), f64::from(status)), tone),
            tables::text(meaning(status)),
            tables::count(count),
            tables::value(
                words::share(count, statuses.total()),
                count as f64 / statuses.total().max(1) as f64 * 100.0,
            ),
        ]
    });
    Block::Table(TableBlock {
        caption: "Answers by status".to_owned(),
        columns: vec![
            number_column("Status"),
            words_column("Meaning"),
            number_column("Answers"),
            number_column("Share"),
        ],
        rows: rows.collect(),
    })
}

/// The phrases of RFC 9110 section 15 and RFC 6585 for what servers under load say; of others the class.
fn meaning(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => match status / 100 {
            1 => "an interim response",
            2 => "a success",
            3 => "a redirection",
            4 => "an error of the client",
            5 => "an error of the server",
            _ => "not a status of HTTP",
        },
    }
}

fn errors(result: &RunResult) -> Block {
    let sent = result.recording.counters.sent;
    let row = |(kind, count): (ErrorKind, ErrorCount)| {
        let ErrorCount { events, exchanges } = count;
        vec![
            tables::text(kind.name()),
            tables::text(kind.describe()),
            tables::toned(tables::count(events), Tone::Warning),
            tables::count(exchanges),
            tables::value(
                words::share(exchanges, sent),
                exchanges as f64 / sent.max(1) as f64 * 100.0,
            ),
        ]
    };
    Block::Table(TableBlock {
        caption: "Errors by kind".to_owned(),
        columns: vec![
            words_column("Kind"),
            words_column("Meaning"),
            number_column("Times"),
            number_column("Requests lost"),
            number_column("Share of requests sent"),
        ],
        rows: result.recording.errors.iter().map(row).collect(),
    })
}

/// Requests and connections, so that every request is found again.
fn sums(result: &RunResult) -> Block {
    let recording = &result.recording;
    let counters = &recording.counters;
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    if counters.due > 0 {
        fact(
            "Requests due",
            format!(
                "{} = {} sent + {} not sent",
                words::count(counters.due),
                words::count(counters.sent),
                words::count(counters.unsent)
            ),
        );
    }
    fact(
        "Requests sent",
        format!(
            "{} = {} answered + {} failed + {} in flight at the end",
            words::count(counters.sent),
            words::count(counters.answered),
            words::count(recording.errors.exchanges()),
            words::count(counters.in_flight)
        ),
    );
    if counters.in_flight > 0 {
        fact(
            "Oldest in flight at the end",
            words::time_ns(counters.oldest_in_flight_ns),
        );
    }
    if result.window.duration_ns > 0 {
        let mean = counters.in_flight_time_ns as f64 / result.window.duration_ns as f64;
        fact("In flight on average", words::number(mean));
    }
    fact(
        "Connections opened",
        words::count(counters.connections_opened),
    );
    if counters.answered_of_warmup > 0 {
        fact(
            "Answers to requests of the warm-up",
            words::count(counters.answered_of_warmup),
        );
    }
    if counters.connections_at_start > 0 {
        fact(
            "Connections from the warm-up",
            words::count(counters.connections_at_start),
        );
    }
    if counters.reconnects > 0 {
        fact(
            "Opened again after the server closed an idle one",
            words::count(counters.reconnects),
        );
    }
    if counters.tls_full > 0 || counters.tls_resumed > 0 {
        fact(
            "TLS handshakes",
            format!(
                "{} full, {} resumed",
                words::count(counters.tls_full),
                words::count(counters.tls_resumed)
            ),
        );
    }
    fact("Bytes of answers", words::bytes(counters.bytes as f64));
    Block::Facts { facts }
}
