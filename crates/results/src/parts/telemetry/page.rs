//! What pages show of sockets and kernel counters, as data.

use presentation::tables::{Facts, finding};
use presentation::words::{bytes, count, counted, duration_ns, number, percent, time_us};
use presentation::{Block, Mark, Tone, Unit, color};

use super::view::troubles;
use super::{SocketMoment, SocketSummary, Spread, Telemetry};
use crate::RunResult;

/// A value of a moment; `None` if it is not known.
pub type SocketValue = fn(&SocketMoment) -> Option<f64>;

/// Values of sockets over time, which one chart shows.
pub struct Gauge {
    /// Letters and hyphens; unique among the gauges.
    pub id: &'static str,
    /// The heading of the chart.
    pub title: &'static str,
    /// The unit of the values.
    pub unit: Unit,
    /// Counts since the previous row, which are shown per second.
    pub is_growth: bool,
    /// How the values are drawn.
    pub mark: Mark,
    /// Values with name and colour. On a page of several runs only the first is drawn.
    pub values: &'static [(&'static str, usize, SocketValue)],
}

/// What pages show of sockets over time, in the order of the charts.
pub static GAUGES: [Gauge; 7] = [
    Gauge {
        id: "rtt",
        title: "Round-trip time",
        unit: Unit::Microseconds,
        is_growth: false,
        mark: Mark::Line,
        values: &[
            ("p50", color::LATENCY, |row| row.rtt_p50_us),
            ("p99", color::HIGH_PERCENTILE, |row| row.rtt_p99_us),
        ],
    },
    Gauge {
        id: "cwnd",
        title: "Congestion window, median of the sockets",
        unit: Unit::Segments,
        is_growth: false,
        mark: Mark::Line,
        values: &[("Median", color::RATE, |row| row.cwnd_p50)],
    },
    Gauge {
        id: "retransmits",
        title: "Retransmitted segments per second",
        unit: Unit::Number,
        is_growth: true,
        mark: Mark::Bars,
        values: &[("Retransmitted/s", color::ERRORS, |row| {
            row.segments_retransmitted.map(|count| count as f64)
        })],
    },
    Gauge {
        id: "delivery-rate",
        title: "Delivery rate, median of the sockets",
        unit: Unit::BytesPerSec,
        is_growth: false,
        mark: Mark::Line,
        values: &[("Median", color::BYTES, |row| {
            row.delivery_rate_p50_bytes_per_sec
        })],
    },
    Gauge {
        id: "socket-bytes",
        title: "Bytes on the sockets per second",
        unit: Unit::BytesPerSec,
        is_growth: true,
        mark: Mark::Line,
        values: &[
            ("Received", color::SERVICE_TIME, |row| {
                row.bytes_received.map(|count| count as f64)
            }),
            ("Sent", color::BYTES, |row| {
                row.bytes_sent.map(|count| count as f64)
            }),
        ],
    },
    Gauge {
        id: "sockets",
        title: "Sockets",
        unit: Unit::Count,
        is_growth: false,
        mark: Mark::Step,
        values: &[("Sockets", color::LATENCY, |row| {
            row.sockets.map(|count| count as f64)
        })],
    },
    Gauge {
        id: "queue",
        title: "Longest accept queue",
        unit: Unit::Count,
        is_growth: false,
        mark: Mark::Step,
        values: &[("Connections waiting", color::HIGH_PERCENTILE, |row| {
            row.listen_queue_max.map(|count| count as f64)
        })],
    },
];

/// What was sampled, and how often; `is_single` if the page has only this run.
#[must_use]
pub fn scope(result: &RunResult, has_sockets: bool, is_single: bool) -> String {
    let filter = result
        .plan
        .telemetry
        .as_ref()
        .and_then(|options| options.sockets.as_deref());
    let sockets = match filter {
        Some("") => "All TCP sockets of this machine".to_owned(),
        Some(filter) => format!("TCP sockets of this machine where {filter}"),
        None => "TCP sockets of this machine".to_owned(),
    };
    let Some(telemetry) = result.telemetry.as_ref().filter(|_| has_sockets) else {
        return "Growth of this machine's kernel counters over the window".to_owned();
    };
    let interval = duration_ns(telemetry.interval_ns);
    if is_single {
        let times = counted(telemetry.samples, "time");
        return format!("{sockets}, sampled {times} every {interval}");
    }
    format!("{sockets}, sampled every {interval}; counters are of the whole machine")
}

/// The totals of the sockets of a run.
#[must_use]
pub fn summary(sockets: &SocketSummary) -> Option<Block> {
    let mut facts = Facts::default();
    let spread = |spread: Option<Spread>, print: fn(f64) -> String| {
        spread.map(|spread| {
            let Spread {
                min,
                p50,
                p90,
                p99,
                max,
            } = spread;
            let [min, p50, p90, p99, max] = [min, p50, p90, p99, max].map(print);
            format!("median {p50}, p90 {p90}, p99 {p99}, from {min} to {max}")
        })
    };
    let (all, closed) = (count(sockets.sockets), count(sockets.closed));
    facts.add(
        "Sockets",
        format!("{all}, of which {closed} were closed during the run"),
    );
    facts.add_known("Round-trip time", spread(sockets.rtt_us, time_us));
    facts.add_known("Congestion window, segments", spread(sockets.cwnd, number));
    let again = count(sockets.segments_retransmitted);
    let again = match (sockets.segments_sent, sockets.retransmitted_share()) {
        (Some(sent), Some(share)) => {
            format!("{again} of {} ({})", count(sent), percent(share))
        }
        _ => again,
    };
    facts.add("Retransmitted segments", again);
    let size = |size: Option<u64>| size.map(|size| bytes(size as f64));
    facts.add_known("Bytes sent", size(sockets.bytes_sent));
    facts.add_known("Bytes retransmitted", size(sockets.bytes_retransmitted));
    facts.add_known("Bytes received", size(sockets.bytes_received));
    let busy = |share: Option<f64>| {
        share.map(|share| format!("{} of the time with data to send", percent(share)))
    };
    facts.add_known(
        "Limited by the peer's receive window",
        busy(sockets.rwnd_limited_share()),
    );
    facts.add_known(
        "Limited by the send buffer",
        busy(sockets.sndbuf_limited_share()),
    );
    facts.add_known(
        "Connections dropped by the listener",
        sockets.listen_drops.map(count),
    );
    facts.add_known("Longest accept queue", sockets.listen_queue_max.map(count));
    facts.block()
}

/// Counters of lost, refused or late packets that grew, or that none did.
#[must_use]
pub fn troubles_finding(telemetry: &Telemetry) -> Option<Block> {
    let (known, grown) = troubles(telemetry);
    let grown = grown.iter();
    let grown: Vec<String> = grown
        .map(|(name, growth)| format!("{name}: {}", number(*growth as f64)))
        .collect();
    match (known, grown.is_empty()) {
        (0, _) => None,
        (known, true) => {
            let known = counted(known as u64, "counter");
            let text = format!("None of {known} of lost, refused or late packets has grown.");
            Some(finding(Tone::Good, text, vec![]))
        }
        (_, false) => {
            let text = "Counters of lost, refused or late packets have grown; they include \
                        connections of other programs.";
            Some(finding(Tone::Warning, text, grown))
        }
    }
}
