//! The metrics of QUIC.

use crate::metric::Better::{Lower, Neither};
use crate::metric::{Better, Getter, MetricRow, Needs, TimeRow, Unit, measured, row};
use crate::{Counted, Histogram, QuicRecording};

const QUIC: Needs = Needs::new("HTTP/3 (--http3)", |run| {
    if run.recording.parts.quic.is_none() {
        "QUIC was not used (--http3)"
    } else {
        "no connection of QUIC was complete"
    }
});

fn quic(result: Counted<'_>) -> Option<&QuicRecording> {
    result.recording.parts.quic.as_ref()
}

/// The median of sizes, bytes.
fn median(sizes: &Histogram) -> Option<f64> {
    (!sizes.is_empty()).then(|| sizes.value_at_percentile(50.0) as f64)
}

const QUIC_COUNT: (Unit, Better, Needs) = (Unit::Count, Neither, QUIC);
const QUIC_BYTES: (Unit, Better, Needs) = (Unit::Bytes, Neither, QUIC);
const QUIC_TROUBLES: (Unit, Better, Needs) = (Unit::Count, Lower, QUIC);

#[rustfmt::skip]
pub(super) static METRICS: [MetricRow; 15] = [
    row("quic_packets_lost", &["quic_lost"], "QUIC packets lost", QUIC_TROUBLES,
        Getter::Part(|run| Some(quic(run)?.packets_lost),
                     |run| quic(run).map_or(0, |quic| quic.packets_sent))),
    row("quic_packets_sent", &[], "QUIC packets sent", QUIC_COUNT,
        Getter::Count(|run| Some(quic(run)?.packets_sent))),
    row("quic_datagrams_sent", &[], "QUIC datagrams sent", QUIC_COUNT,
        Getter::Count(|run| Some(quic(run)?.datagrams_sent))),
    row("quic_datagrams_received", &[], "QUIC datagrams received", QUIC_COUNT,
        Getter::Count(|run| Some(quic(run)?.datagrams_received))),
    row("quic_bytes_sent", &[], "QUIC bytes sent", QUIC_BYTES,
        Getter::Count(|run| Some(quic(run)?.bytes_sent))),
    row("quic_bytes_received", &[], "QUIC bytes received", QUIC_BYTES,
        Getter::Count(|run| Some(quic(run)?.bytes_received))),
    row("quic_datagrams_per_send", &[], "QUIC datagrams per batch sent", QUIC_COUNT,
        Getter::Number(|run| quic(run)?.datagrams_per_batch_sent())),
    row("quic_datagrams_per_receive", &[], "QUIC datagrams per batch received", QUIC_COUNT,
        Getter::Number(|run| quic(run)?.datagrams_per_batch_received())),
    row("quic_datagrams_dropped", &[], "QUIC datagrams dropped by this machine", QUIC_TROUBLES,
        Getter::Part(|run| Some(quic(run)?.datagrams_dropped),
                     |run| quic(run).map_or(0, QuicRecording::datagrams_arrived))),
    row("quic_congestion_events", &[], "QUIC congestion events", QUIC_TROUBLES,
        Getter::Count(|run| Some(quic(run)?.congestion_events))),
    row("quic_retries", &[], "QUIC handshakes with Retry", QUIC_COUNT,
        Getter::Count(|run| Some(quic(run)?.retries))),
    row("quic_early_accepted", &[], "requests accepted as early data", QUIC_COUNT,
        Getter::Count(|run| Some(quic(run)?.early_accepted))),
    row("quic_early_rejected", &[], "requests rejected as early data", QUIC_COUNT,
        Getter::Count(|run| Some(quic(run)?.early_rejected))),
    row("quic_cwnd_p50", &[], "median QUIC congestion window", QUIC_BYTES,
        Getter::Number(|run| median(&quic(run)?.cwnd))),
    row("quic_mtu_p50", &[], "median QUIC datagram size", QUIC_BYTES,
        Getter::Number(|run| median(&quic(run)?.mtu))),
];

#[rustfmt::skip]
pub(super) static TIMES: [TimeRow; 2] = [
    TimeRow { name: "quic_rtt", needs: QUIC,
        samples: |it| measured(&it.parts.quic.as_ref()?.rtt) },
    TimeRow { name: "quic_min_rtt", needs: QUIC,
        samples: |it| measured(&it.parts.quic.as_ref()?.min_rtt) },
];
