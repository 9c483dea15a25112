//! Packets of QUIC: merging, metrics and checks.

mod fixture;

use proptest::prelude::*;
use results::{Metric, QuicRecording, Recording, check, metric};

const MS: u64 = 1_000_000;

/// What one connection adds.
fn add(quic: &mut QuicRecording, [packets, lost, rtt_ms]: [u64; 3]) {
    quic.packets_sent += packets;
    quic.packets_lost += lost;
    quic.congestion_events += lost / 2;
    quic.retries += 1;
    quic.early_accepted += 2;
    quic.early_rejected += 3;
    quic.datagrams_sent += packets;
    quic.bytes_sent += 100 * packets;
    quic.batches_sent += packets.div_ceil(2);
    quic.datagrams_received += 3 * packets;
    quic.bytes_received += 3_000 * packets;
    quic.batches_received += packets;
    quic.datagrams_dropped += lost;
    quic.rtt.record(rtt_ms * MS);
    quic.min_rtt.record(rtt_ms * MS / 2);
    quic.cwnd.record(12_000 + packets);
    quic.mtu.record(1_452);
}

fn of_connections(connections: &[[u64; 3]]) -> Recording {
    let mut recording = fixture::recording(1);
    let quic = recording.parts.quic.get_or_insert_default();
    connections.iter().for_each(|it| add(quic, *it));
    recording
}

proptest! {
    #[test]
    fn the_parts_of_a_run_add_up_to_the_whole(
        connections in prop::collection::vec([1..1_000_u64, 0..9_u64, 1..400_u64], 1..40),
        workers in 1..5_usize,
    ) {
        let whole = of_connections(&connections).parts.quic;
        let mut merged = Recording::new();
        for part in connections.chunks(connections.len().div_ceil(workers)) {
            merged.merge(&of_connections(part));
        }
        prop_assert_eq!(merged.parts.quic, whole);
    }
}

#[test]
fn runs_without_quic_have_no_packets() {
    let mut both = Recording::new();
    both.merge(&Recording::new());
    assert_eq!(both.parts.quic, None);
    let document = serde_json::to_value(&both).expect("it is written");
    assert!(document.get("quic").is_none());
    both.merge(&of_connections(&[[10, 1, 2]]));
    both.merge(&Recording::new());
    let text = serde_json::to_string(&both).expect("it is written");
    let read: Recording = serde_json::from_str(&text).expect("it is read");
    assert_eq!(read, both);
}

#[test]
fn metrics_are_those_of_the_packets() {
    let result = fixture::result(of_connections(&[[10, 1, 2], [30, 3, 4]]));
    for (name, expected) in [
        ("quic_packets_sent", 40.0),
        ("quic_lost", 4.0),
        ("quic_datagrams_sent", 40.0),
        ("quic_datagrams_received", 120.0),
        ("quic_bytes_sent", 4_000.0),
        ("quic_bytes_received", 120_000.0),
        ("quic_datagrams_per_send", 2.0),
        ("quic_datagrams_per_receive", 3.0),
        ("quic_datagrams_dropped", 4.0),
        ("quic_congestion_events", 1.0),
        ("quic_retries", 2.0),
        ("quic_early_accepted", 4.0),
        ("quic_early_rejected", 6.0),
        ("quic_cwnd_p50", 12_010.0),
        ("quic_mtu_p50", 1_452.0),
        ("quic_rtt_max", 4_000.0),
        ("quic_min_rtt_min", 1_000.0),
    ] {
        let metric = Metric::parse(name).expect("it is a metric");
        let value = metric.of(&result).map(|known| known.value);
        // Histograms have three digits.
        let is_near = value.is_some_and(|value| (value - expected).abs() <= expected * 1e-3);
        assert!(is_near, "{name}: {value:?} for {expected}");
        assert!(
            metric::values(&result).contains_key(&metric.name),
            "{name} in lists"
        );
    }
    let lost = Metric::parse("quic_lost").expect("it is a metric");
    assert_eq!(lost.part_and_whole(&result), Some((4, 40)));
    let without = fixture::result(Recording::new());
    assert!(lost.of(&without).is_none());
    assert!(
        metric::values(&without)
            .keys()
            .all(|name| !name.starts_with("quic_"))
    );
}

#[test]
fn contradictions_in_packets_are_found() {
    type Damage = fn(&mut QuicRecording);
    let cases: [(Damage, &str); 3] = [
        (|_| (), ""),
        (|quic| quic.cwnd.record(1), "cwnd has 2 samples"),
        (|quic| quic.bytes_received = 1, "1 bytes received are fewer"),
    ];
    for (damage, expected) in cases {
        let mut result = fixture::result(of_connections(&[[10, 1, 2]]));
        damage(
            result
                .recording
                .parts
                .quic
                .as_mut()
                .expect("it has packets"),
        );
        let found = check(&result).map_or_else(|error| error.to_string(), |()| String::new());
        assert!(found.contains(expected), "{found} for {expected}");
        assert_eq!(found.is_empty(), expected.is_empty());
    }
}
