//! The packets of QUIC connections, which tell what the kernel tells of TCP sockets.

use std::time::Duration;

use plan::readable::{bytes, count, counted, time_ns};
use presentation::tables::{self, columns, known, toned_if};
use presentation::{TableBlock, Tone, words};

use crate::cells::{DISTRIBUTION, distribution};
use crate::{Histogram, QuicRecording, Recording, percent};

/// Round trips and sizes over connections; without rows if no handshake was complete.
pub(super) fn connections(recording: &Recording, _: Duration) -> TableBlock {
    let quic = recording
        .parts
        .quic
        .iter()
        .filter(|quic| !quic.rtt.is_empty());
    let rows = quic.flat_map(|quic| {
        [
            distribution("Round-trip time", &quic.rtt, true),
            distribution("Least round-trip time", &quic.min_rtt, true),
            distribution("Congestion window, bytes", &quic.cwnd, false),
            distribution("Largest datagram, bytes", &quic.mtu, false),
        ]
    });
    TableBlock::new(
        "Connections of QUIC",
        columns(&["Connections"], &DISTRIBUTION),
        rows,
    )
}

/// Numbers of packets and datagrams.
pub(super) fn packets(recording: &Recording, _: Duration) -> TableBlock {
    let rows = recording.parts.quic.iter().map(|quic| {
        let (lost, dropped) = (quic.packets_lost, quic.datagrams_dropped);
        let size = |size: u64| tables::value(bytes(size as f64), size as f64);
        let per_batch = |mean| known(mean, words::number);
        vec![
            tables::count(quic.packets_sent),
            toned_if(lost > 0, Tone::Warning, tables::count(lost)),
            tables::count(quic.congestion_events),
            tables::count(quic.datagrams_sent),
            size(quic.bytes_sent),
            per_batch(quic.datagrams_per_batch_sent()),
            tables::count(quic.datagrams_received),
            size(quic.bytes_received),
            per_batch(quic.datagrams_per_batch_received()),
            toned_if(dropped > 0, Tone::Warning, tables::count(dropped)),
            tables::count(quic.retries),
            tables::count(quic.early_accepted),
            tables::count(quic.early_rejected),
        ]
    });
    let heads = [
        "Packets sent",
        "Packets lost",
        "Congestion events",
        "Datagrams sent",
        "Bytes sent",
        "Datagrams per batch sent",
        "Datagrams received",
        "Bytes received",
        "Datagrams per batch received",
        "Datagrams dropped here",
        "Handshakes with Retry",
        "Early requests accepted",
        "Early requests rejected",
    ];
    TableBlock::new("Packets and datagrams", columns(&[], &heads), rows)
}

/// A line about the packets.
pub(super) fn note(quic: &QuicRecording) -> String {
    let per_batch = |mean: Option<f64>| match mean {
        Some(mean) => format!(", {} per batch", words::number(mean)),
        None => String::new(),
    };
    let spread = |samples: &Histogram, print: fn(u64) -> String| {
        let [median, p99] = [50.0, 99.0].map(|at| print(samples.value_at_percentile(at)));
        (!samples.is_empty()).then(|| format!("median {median}, p99 {p99}"))
    };
    let lost = match percent(quic.packets_lost, quic.packets_sent) {
        Some(share) if share > 0.0 => format!(" ({})", plan::readable::percent(share)),
        _ => String::new(),
    };
    let parts = [
        Some(format!(
            "QUIC: {} of {} lost{lost}",
            count(quic.packets_lost),
            counted(quic.packets_sent, "packet")
        )),
        spread(&quic.rtt, time_ns).map(|rtt| format!("round-trip time {rtt}")),
        spread(&quic.cwnd, |size| bytes(size as f64))
            .map(|cwnd| format!("congestion window {cwnd}")),
        Some(format!(
            "{} sent{}",
            counted(quic.datagrams_sent, "datagram"),
            per_batch(quic.datagrams_per_batch_sent())
        )),
        Some(format!(
            "{} received{}",
            count(quic.datagrams_received),
            per_batch(quic.datagrams_per_batch_received())
        )),
        (quic.retries > 0).then(|| format!("Retry in {}", counted(quic.retries, "handshake"))),
        early_note(quic),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// What became of requests that were sent before their handshakes were complete.
fn early_note(quic: &QuicRecording) -> Option<String> {
    let early = quic.early_accepted + quic.early_rejected;
    let requests = counted(early, "request");
    let rejected = count(quic.early_rejected);
    (early > 0).then(|| format!("{requests} as early data, {rejected} of them rejected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_one_line() {
        let mut quic = QuicRecording {
            packets_sent: 10_000,
            packets_lost: 12,
            datagrams_sent: 9_000,
            batches_sent: 6_000,
            datagrams_received: 80_000,
            batches_received: 10_000,
            retries: 2,
            early_accepted: 3,
            early_rejected: 1,
            ..QuicRecording::default()
        };
        quic.rtt.record_n(45_000, 99);
        quic.cwnd.record_n(14_720, 99);
        let expected = "QUIC: 12 of 10,000 packets lost (0.12 %); \
            round-trip time median 45 us, p99 45 us; \
            congestion window median 14.4 KiB, p99 14.4 KiB; \
            9,000 datagrams sent, 1.5 per batch; 80,000 received, 8 per batch; \
            Retry in 2 handshakes; 4 requests as early data, 1 of them rejected";
        assert_eq!(note(&quic), expected);
    }

    #[test]
    fn what_is_unknown_is_left_out() {
        let expected = "QUIC: 0 of 0 packets lost; 0 datagrams sent; 0 received";
        assert_eq!(note(&QuicRecording::default()), expected);
    }
}
