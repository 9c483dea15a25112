//! Connections and the ways they end match what the server saw and did.

use results::ErrorKind;

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::{HTTP3_SERVER, Lab};
use crate::truth::log::ServerLog;
use crate::truth::run_report::RunReport;

const CONNECTIONS: u64 = 8;

/// The server closes a connection after this many requests.
const REQUESTS_EACH: u64 = 10;

/// Handshakes that the end of a run may interrupt.
const AT_THE_END: Tolerance = Tolerance::Within(CONNECTIONS as f64);

/// Exceeds the duration of the run.
const LIMIT_S: u32 = 30;

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    case.notes.push(
        "without the first connection, which checks before a run that the server listens"
            .to_owned(),
    );
    let mut one = |label: &str, server: &str, options: &str| {
        let (ours, log) = lab.observe(case, server, |origin| {
            let options = format!("-t1 -c{CONNECTIONS} -n 2000 {options}");
            lab.ours(&options, &origin.url("/"), LIMIT_S)
        })?;
        // The first connection is that check.
        compare_counts(
            case,
            label,
            &ours,
            &log,
            log.counts.connections.saturating_sub(1),
        );
        anyhow::Ok((ours, log))
    };
    one("kept alive", "", "")?;
    let server = format!("--keepalive-requests {REQUESTS_EACH}");
    let (limited, limited_log) = one("announced close", &server, "")?;
    one("one request each", "", "--no-keepalive")?;
    let (reset, reset_log) = one("5 % reset", "--answer delay=2ms&mix=5%:reset", "")?;
    let (cut, cut_log) = one("5 % cut short", "--answer mix=5%:truncate", "")?;

    case.count(
        "announced close: closed connections",
        limited_log.connections_with(REQUESTS_EACH),
        limited.recording().counters.reconnects,
    );
    for (label, kind, ours, log) in [
        ("5 % reset: resets", ErrorKind::Reset, &reset, &reset_log),
        (
            "5 % cut short: truncated",
            ErrorKind::Truncated,
            &cut,
            &cut_log,
        ),
    ] {
        // Responses that were incomplete according to the server.
        let truth = log.counts.requests - log.counts.responses;
        let seen = ours.recording().errors.count(kind).exchanges;
        case.count(label, truth, seen);
    }
    Ok(())
}

/// Over HTTP/3 no connection is made before a run. Each handshake is a full or a resumed one.
pub(super) fn http3(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    for (label, server, options) in [
        ("kept alive", "", "-m4"),
        ("one request each", "", "--requests-per-connection 1"),
        (
            "one request each, no resumption",
            "",
            "--requests-per-connection 1 --tls-resume off",
        ),
        ("Retry", "--retry", "--requests-per-connection 10"),
    ] {
        let (ours, log) = lab.observe(case, &format!("{HTTP3_SERVER} {server}"), |origin| {
            let options = format!("-t1 -c{CONNECTIONS} -n 2000 --http3 {options}");
            lab.ours(&options, &origin.url("/"), LIMIT_S)
        })?;
        let truth = log.counts.connections;
        compare_counts(case, label, &ours, &log, truth);
        let counters = &ours.recording().counters;
        let mut handshakes = vec![("handshakes", counters.tls_full + counters.tls_resumed)];
        if options.contains("resume off") {
            handshakes.push(("full handshakes", counters.tls_full));
        }
        if !server.is_empty() {
            let quic = ours.recording().parts.quic.as_ref();
            handshakes.push(("retries", quic.map_or(0, |quic| quic.retries)));
        }
        for (what, seen) in handshakes {
            case.ours(
                format!("{label}: {what}"),
                Figure::Count(truth as f64),
                AT_THE_END,
                Some(Figure::Count(seen as f64)),
            );
        }
    }
    Ok(())
}

fn compare_counts(
    case: &mut CaseResult,
    label: &str,
    ours: &RunReport,
    log: &ServerLog,
    connections: u64,
) {
    let (seen, truth) = (&ours.recording().counters, &log.counts);
    case.count(
        format!("{label}: connections"),
        connections,
        seen.connections_opened,
    );
    case.count(format!("{label}: requests"), truth.requests, seen.sent);
    case.count(
        format!("{label}: responses"),
        truth.responses,
        seen.answered,
    );
}
