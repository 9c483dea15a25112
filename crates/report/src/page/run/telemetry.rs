//! What the kernel's books say beside the run.

use results::{SocketMoment, SocketSummary, SocketTimeline, Spread, Telemetry};

use super::{TIME_GROUP, color};
use crate::page::curves::{self, Curve};
use crate::page::tables::{self, number_column, words_column};
use crate::page::{
    Axis, Block, Chart, Height, Mark, Marks, Scale, Section, TableBlock, Tone, Unit, words,
};

/// Nothing if none was asked for.
pub(super) fn section(result: &results::RunResult) -> Option<Section> {
    let telemetry = result.telemetry.as_ref()?;
    let mut blocks: Vec<Block> = telemetry
        .notes
        .iter()
        .map(|note| tables::finding(Tone::Warning, note.clone(), vec![]))
        .collect();
    let has_sockets = telemetry.sockets.is_some();
    if let Some(timeline) = &telemetry.timeline {
        blocks.extend(charts(timeline));
    }
    if let Some(sockets) = &telemetry.sockets {
        blocks.push(summary(sockets));
    }
    blocks.extend(troubles(telemetry));
    let filter = result.plan.telemetry.as_ref();
    let filter = filter.and_then(|wish| wish.sockets.as_deref());
    let of = match filter {
        Some("") => "All TCP sockets of this machine".to_owned(),
        Some(filter) => format!("TCP sockets of this machine where {filter}"),
        None if has_sockets => "TCP sockets of this machine".to_owned(),
        None => "Counters of this machine's kernel".to_owned(),
    };
    let asked = if has_sockets {
        format!(
            "asked for {} at an interval of {}",
            words::counted(telemetry.samples, "time"),
            words::duration_ns(telemetry.interval_ns)
        )
    } else {
        "their growth over the window".to_owned()
    };
    let no_timeline = if has_sockets && telemetry.timeline.is_none() {
        "Values over time were not recorded"
    } else {
        ""
    };
    (!blocks.is_empty()).then(|| Section {
        id: "telemetry".to_owned(),
        title: "TCP telemetry".to_owned(),
        lead: words::sentences([format!("{of}, {asked}").as_str(), no_timeline]),
        blocks,
        is_folded: false,
    })
}

/// A value of each interval, at its middle; it is told the interval's length in seconds.
pub(crate) fn curve(
    timeline: &SocketTimeline,
    value: impl Fn(&SocketMoment, f64) -> Option<f64>,
) -> Curve {
    let interval_s = timeline.interval_ms as f64 / 1e3;
    let mut curve = Curve::default();
    for row in &timeline.rows {
        let middle_s = row.start_ms as f64 / 1e3 + interval_s / 2.0;
        curve.push(middle_s, value(row, interval_s));
    }
    curve
}

/// Per second of an interval; of none without length.
pub(crate) fn per_sec(count: Option<u64>, interval_s: f64) -> Option<f64> {
    Some(count? as f64 / interval_s).filter(|rate| rate.is_finite())
}

fn charts(timeline: &SocketTimeline) -> Vec<Block> {
    let line = |name: &str, mark, color, value: fn(&SocketMoment, f64) -> Option<f64>| {
        curve(timeline, value).marks(name, mark, color)
    };
    let count = |count: Option<u64>| count.map(|count| count as f64);
    let queue = curve(timeline, |row, _| count(row.listen_queue_max)).marks(
        "Waiting to be accepted, longest queue",
        Mark::Step,
        color::HIGH,
    );
    let sockets =
        curve(timeline, |row, _| count(row.sockets)).marks("Sockets", Mark::Step, color::LATENCY);
    let again = line("Sent again/s", Mark::Bars, color::ERRORS, |row, s| {
        per_sec(row.segments_retransmitted, s)
    });
    // That there were none is a line of the summary.
    let has_again = again.y.iter().flatten().any(|count| *count > 0.0);
    let charts = [
        socket_chart(
            "rtt",
            "Round trip time",
            Unit::Microseconds,
            vec![
                line("p50", Mark::Line, color::LATENCY, |row, _| row.rtt_p50_us),
                line("p99", Mark::Line, color::HIGH, |row, _| row.rtt_p99_us),
            ],
            words::time_us,
        ),
        socket_chart(
            "cwnd",
            "Congestion window",
            Unit::Segments,
            vec![line("Median", Mark::Line, color::RATE, |row, _| {
                row.cwnd_p50
            })],
            words::number,
        ),
        socket_chart(
            "retransmits",
            "Segments sent again per second",
            Unit::Number,
            if has_again { vec![again] } else { vec![] },
            words::number,
        ),
        socket_chart(
            "delivery-rate",
            "Delivery rate of a socket",
            Unit::BytesPerSec,
            vec![line(
                "Median of the sockets",
                Mark::Line,
                color::BYTES,
                |row, _| row.delivery_rate_p50_bytes_per_sec,
            )],
            words::bytes_per_sec,
        ),
        socket_chart(
            "socket-bytes",
            "Bytes on the sockets per second",
            Unit::BytesPerSec,
            vec![
                line("Sent", Mark::Line, color::BYTES, |row, s| {
                    per_sec(row.bytes_sent, s)
                }),
                line("Received", Mark::Line, color::SERVICE_TIME, |row, s| {
                    per_sec(row.bytes_received, s)
                }),
            ],
            words::bytes_per_sec,
        ),
        socket_chart(
            "sockets",
            "Sockets",
            Unit::Count,
            vec![sockets, queue],
            words::number,
        ),
    ];
    let charts: Vec<Chart> = charts.into_iter().flatten().collect();
    charts
        .chunks(2)
        .map(|pair| Block::Charts {
            charts: pair.to_vec(),
        })
        .collect()
}

/// Nothing if no value is known.
fn socket_chart(
    id: &str,
    title: &str,
    unit: Unit,
    marks: Vec<Marks>,
    show: fn(f64) -> String,
) -> Option<Chart> {
    let marks: Vec<Marks> = marks
        .into_iter()
        .filter(|marks| marks.y.iter().any(Option::is_some))
        .collect();
    let said: Vec<String> = marks
        .iter()
        .filter_map(|marks| {
            let curve = Curve {
                x: Vec::new(),
                y: marks.y.clone(),
            };
            let (least, most) = curve.range()?;
            Some(format!(
                "{} from {} to {}",
                marks.name,
                show(least),
                show(most)
            ))
        })
        .collect();
    (!marks.is_empty()).then(|| Chart {
        id: format!("telemetry-{id}"),
        title: title.to_owned(),
        description: format!("{}.", said.join(", ")),
        x: curves::time_axis(),
        y: Axis {
            label: title.to_owned(),
            unit,
            scale: Scale::Linear,
            from_zero: true,
        },
        marks,
        height: Height::Low,
        group: Some(TIME_GROUP.to_owned()),
        ..Chart::default()
    })
}

fn summary(sockets: &SocketSummary) -> Block {
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            facts.push((name.to_owned(), value));
        }
    };
    let spread = |spread: Option<Spread>, show: fn(f64) -> String| {
        spread.map(|spread| {
            format!(
                "median {}, p90 {}, p99 {}, from {} to {}",
                show(spread.p50),
                show(spread.p90),
                show(spread.p99),
                show(spread.min),
                show(spread.max)
            )
        })
    };
    fact(
        "Sockets",
        Some(format!(
            "{}, of which {} closed within the run",
            words::count(sockets.sockets),
            words::count(sockets.closed)
        )),
    );
    fact("Round trip time", spread(sockets.rtt_us, words::time_us));
    fact(
        "Congestion window, segments",
        spread(sockets.cwnd, words::number),
    );
    let again = words::count(sockets.segments_retransmitted);
    fact(
        "Segments sent again",
        Some(
            match (sockets.segments_sent, sockets.retransmitted_share()) {
                (Some(sent), Some(share)) => format!(
                    "{again} of {} ({})",
                    words::count(sent),
                    words::percent(share)
                ),
                _ => again,
            },
        ),
    );
    let bytes = |bytes: Option<u64>| bytes.map(|bytes| words::bytes(bytes as f64));
    fact("Bytes sent", bytes(sockets.bytes_sent));
    fact("Bytes sent again", bytes(sockets.bytes_retransmitted));
    fact("Bytes received", bytes(sockets.bytes_received));
    let busy = |share: Option<f64>| {
        share.map(|share| {
            format!(
                "{} of the time with something to send",
                words::percent(share)
            )
        })
    };
    fact(
        "Limited by the peer's receive window",
        busy(sockets.rwnd_limited_share()),
    );
    fact(
        "Limited by the send buffer",
        busy(sockets.sndbuf_limited_share()),
    );
    fact(
        "Connections dropped while listening",
        sockets.listen_drops.map(words::count),
    );
    fact(
        "Longest queue of connections to be accepted",
        sockets.listen_queue_max.map(words::count),
    );
    Block::Facts { facts }
}

/// The counters of trouble that grew, or that none did.
fn troubles(telemetry: &Telemetry) -> Option<Block> {
    let known: Vec<(&String, i64)> = telemetry
        .counters
        .iter()
        .filter(|(name, _)| crate::telemetry::is_trouble(name))
        .map(|(name, growth)| (name, *growth))
        .collect();
    if known.is_empty() {
        return None;
    }
    let grown: Vec<String> = known
        .iter()
        .filter(|(_, growth)| *growth != 0)
        .map(|(name, growth)| format!("{name}: {}", words::number(*growth as f64)))
        .collect();
    Some(if grown.is_empty() {
        let text = format!(
            "None of {} that tell of something lost, refused or late has grown.",
            words::counted(known.len() as u64, "counter")
        );
        tables::finding(Tone::Good, text, vec![])
    } else {
        let text = "Counters that tell of something lost, refused or late have grown, those of other programs' \
                    connections among them.";
        tables::finding(Tone::Warning, text, grown)
    })
}

/// All counters that changed, for who wants to look.
pub(super) fn counters_section(result: &results::RunResult) -> Option<Section> {
    let telemetry = result.telemetry.as_ref()?;
    let rows: Vec<_> = telemetry
        .counters
        .iter()
        .filter(|(_, growth)| **growth != 0)
        .map(|(name, growth)| {
            let tone = if crate::telemetry::is_trouble(name) {
                Tone::Warning
            } else {
                Tone::Neutral
            };
            let cell = tables::value(words::number(*growth as f64), *growth as f64);
            vec![tables::text(name.clone()), tables::toned(cell, tone)]
        })
        .collect();
    let still = telemetry.counters.len() - rows.len();
    (!rows.is_empty()).then(|| Section {
        id: "counters".to_owned(),
        title: "Counters of the kernel".to_owned(),
        lead: format!(
            "Those of the whole machine that changed over the window; {} did not.",
            words::counted(still as u64, "other")
        ),
        blocks: vec![Block::Table(TableBlock {
            caption: "Counters".to_owned(),
            columns: vec![words_column("Counter"), number_column("Growth")],
            rows,
        })],
        is_folded: true,
    })
}
