//! Statistics of a window over tables of samples.

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::sockets::{ListenQueue, SocketMemory, TcpInfo};

/// A connection that has sent this many bytes and segments.
fn connection(cookie: u64, bytes: u64, segments: u32) -> Socket {
    let info = TcpInfo {
        bytes_sent: Some(bytes),
        bytes_retrans: Some(bytes / 100),
        bytes_received: Some(bytes / 10),
        data_segs_out: Some(segments),
        total_retrans: segments / 10,
        busy_time_us: Some(bytes * 3),
        rwnd_limited_us: Some(bytes * 2),
        sndbuf_limited_us: Some(bytes),
        rtt_us: Some(segments),
        snd_cwnd: 10,
        ..TcpInfo::default()
    };
    crate::sampler::fixtures::socket(cookie, TcpState::Established, Some(info))
}

fn listener(cookie: u64, drops: u32, waiting: u32) -> Socket {
    let mut socket = crate::sampler::fixtures::socket(cookie, TcpState::Listen, None);
    socket.memory = Some(SocketMemory {
        drops: Some(drops),
        ..SocketMemory::default()
    });
    socket.listen = Some(ListenQueue {
        waiting,
        limit: 128,
    });
    socket
}

fn everything(_: &Socket) -> bool {
    true
}

/// Returns how many of them count.
fn close(stats: &mut SocketStats, sockets: &[Socket], may_be_new: bool) -> usize {
    let mut sockets = sockets.to_vec();
    stats.close(&mut sockets, may_be_new);
    sockets.len()
}

/// Bytes and segments sent.
fn sent(stats: &SocketStats) -> (u64, u64) {
    let summary = stats.summary();
    (summary.bytes_sent.unwrap(), summary.segments_sent.unwrap())
}

#[test]
fn only_the_growth_counts_of_sockets_opened_before_the_window() {
    let mut stats = SocketStats::default();
    stats.begin(&[connection(1, 5_000, 50)], everything);
    assert_eq!(sent(&stats), (0, 0));
    stats.sample(&[connection(1, 6_000, 60)]);
    stats.sample(&[connection(1, 6_500, 70)]);
    let summary = stats.summary();
    assert_eq!((summary.sockets, summary.closed), (1, 0));
    assert_eq!(summary.bytes_sent, Some(1_500));
    assert_eq!(summary.bytes_retransmitted, Some(15));
    assert_eq!(summary.bytes_received, Some(150));
    assert_eq!(summary.segments_sent, Some(20));
    assert_eq!(summary.segments_retransmitted, 2);
    assert_eq!(summary.busy_us, Some(4_500));
    assert_eq!(summary.rwnd_limited_us, Some(3_000));
    assert_eq!(summary.sndbuf_limited_us, Some(1_500));
}

#[test]
fn everything_counts_of_sockets_opened_within_the_window() {
    let mut stats = SocketStats::default();
    stats.begin(&[], everything);
    stats.sample(&[connection(1, 100, 1), connection(2, 10, 2)]);
    stats.sample(&[connection(1, 200, 2), connection(2, 20, 4)]);
    assert_eq!(sent(&stats), (220, 6));
    assert_eq!(stats.summary().sockets, 2);
}

#[test]
fn closed_sockets_count_with_their_final_values_and_once() {
    let mut stats = SocketStats::default();
    stats.begin(&[connection(1, 1_000, 10)], everything);
    stats.sample(&[connection(1, 1_100, 11), connection(2, 50, 5)]);
    close(
        &mut stats,
        &[connection(1, 1_300, 13), connection(2, 60, 6)],
        true,
    );
    stats.sample(&[]);
    let summary = stats.summary();
    assert_eq!((summary.sockets, summary.closed), (2, 2));
    assert_eq!(sent(&stats), (360, 9));
    assert!(!stats.has_missing());
}

#[test]
fn a_socket_that_opened_and_closed_between_two_samples_counts() {
    let mut stats = SocketStats::default();
    stats.begin(&[], everything);
    close(&mut stats, &[connection(7, 70, 7)], true);
    let summary = stats.summary();
    assert_eq!((summary.sockets, summary.closed), (1, 1));
    assert_eq!(sent(&stats), (70, 7));
    assert_eq!(summary.rtt_us.map(|rtt| rtt.max), Some(7.0));
}

#[test]
fn with_a_filter_for_states_a_socket_that_was_never_sampled_does_not_count() {
    let mut stats = SocketStats::default();
    stats.begin(&[], everything);
    stats.sample(&[connection(1, 10, 1)]);
    let both = [connection(1, 20, 2), connection(7, 70, 7)];
    assert_eq!(close(&mut stats, &both, false), 1);
    assert_eq!(stats.summary().sockets, 1);
    assert_eq!(sent(&stats), (20, 2));
}

#[test]
fn earlier_activity_does_not_count_if_a_socket_matches_only_later() {
    let mut stats = SocketStats::default();
    stats.begin(&[connection(1, 1_000, 10)], |_| false);
    assert_eq!(stats.summary().sockets, 0);
    assert_eq!(stats.summary().rtt_us, None);
    // Not counted yet, and therefore never missing.
    for _ in 0..10 {
        stats.sample(&[]);
        assert!(!stats.has_missing());
    }
    stats.sample(&[connection(1, 1_500, 15)]);
    assert_eq!(sent(&stats), (500, 5));
}

#[test]
fn a_cookie_whose_counters_decreased_is_another_socket() {
    let mut stats = SocketStats::default();
    stats.begin(&[connection(1, 1_000, 10)], everything);
    stats.sample(&[connection(1, 1_200, 12)]);
    stats.sample(&[connection(1, 300, 3)]);
    stats.sample(&[connection(1, 400, 4)]);
    assert_eq!(stats.summary().sockets, 2);
    assert_eq!(sent(&stats), (600, 6));
    // Also if only its end is reported.
    close(&mut stats, &[connection(1, 5, 1)], true);
    assert_eq!(stats.summary().sockets, 3);
    assert_eq!(sent(&stats), (605, 7));
}

#[test]
fn counters_wrap_at_32_bits() {
    let mut stats = SocketStats::default();
    let begin = [connection(1, 0, u32::MAX - 5), listener(2, u32::MAX, 0)];
    stats.begin(&begin, everything);
    stats.sample(&[connection(1, 1, 4), listener(2, 6, 0)]);
    assert_eq!(sent(&stats), (1, 10));
    assert_eq!(stats.summary().listen_drops, Some(7));
}

#[test]
fn unreported_sockets_count_with_their_last_values() {
    let mut stats = SocketStats::default();
    stats.begin(&[], everything);
    stats.sample(&[connection(1, 100, 1)]);
    for _ in 0..ROUNDS_MISSING_MAX {
        stats.sample(&[]);
        assert!(stats.has_missing());
    }
    stats.sample(&[]);
    assert!(stats.known.is_empty());
    let summary = stats.summary();
    assert_eq!((summary.sockets, summary.closed), (1, 0));
    assert_eq!(sent(&stats), (100, 1));
}

#[test]
fn a_socket_that_is_missing_briefly_is_the_same_socket() {
    let mut stats = SocketStats::default();
    stats.begin(&[], everything);
    stats.sample(&[connection(1, 100, 1)]);
    stats.sample(&[]);
    stats.sample(&[connection(1, 150, 2)]);
    assert!(!stats.has_missing());
    assert_eq!(stats.summary().sockets, 1);
    assert_eq!(sent(&stats), (150, 2));
}

#[test]
fn listening_sockets_have_drops_and_queues_and_are_not_connections() {
    let mut stats = SocketStats::default();
    stats.begin(&[listener(1, 40, 0)], everything);
    stats.sample(&[listener(1, 41, 129)]);
    stats.sample(&[listener(1, 45, 3), listener(2, 2, 0)]);
    close(&mut stats, &[listener(1, 46, 0)], true);
    let summary = stats.summary();
    assert_eq!((summary.sockets, summary.closed), (0, 0));
    assert_eq!(summary.listen_drops, Some(8));
    assert_eq!(summary.listen_queue_max, Some(129));
    assert_eq!((summary.bytes_sent, summary.rtt_us), (None, None));
}

#[test]
fn missing_counters_are_absent_and_not_zero() {
    let mut old = connection(1, 0, 0);
    old.info = Some(TcpInfo {
        snd_cwnd: 10,
        total_retrans: 3,
        ..TcpInfo::default()
    });
    let mut listener = listener(2, 0, 1);
    listener.memory = None;
    let mut stats = SocketStats::default();
    stats.begin(&[], everything);
    stats.sample(&[old, listener]);
    let summary = stats.summary();
    assert_eq!(summary.bytes_sent, None);
    assert_eq!(summary.segments_sent, None);
    assert_eq!(summary.segments_retransmitted, 3);
    assert_eq!(summary.busy_us, None);
    assert_eq!(summary.listen_drops, None);
    assert_eq!(summary.rtt_us, None);
    assert_eq!(summary.cwnd.map(|cwnd| cwnd.p50), Some(10.0));
}

#[test]
fn stubs_do_not_count() {
    let stub = crate::sampler::fixtures::socket(9, TcpState::TimeWait, None);
    let mut stats = SocketStats::default();
    stats.begin(std::slice::from_ref(&stub), everything);
    stats.sample(&[stub]);
    assert_eq!(stats.summary(), SocketSummary::default());
    assert!(stats.known.is_empty());
}

#[test]
fn round_trip_times_and_windows_spread_over_all_samples_of_all_sockets() {
    let mut stats = SocketStats::default();
    stats.begin(&[], everything);
    for round in 1..=100 {
        stats.sample(&[connection(1, u64::from(round), round)]);
    }
    let rtt = stats.summary().rtt_us.unwrap();
    assert_eq!((rtt.min, rtt.p50, rtt.p90), (1.0, 50.0, 90.0));
    assert_eq!((rtt.p99, rtt.max), (99.0, 100.0));
}

#[test]
fn memory_is_bounded_by_the_open_sockets() {
    let mut stats = SocketStats::default();
    stats.begin(&[], everything);
    for round in 0..1_000_u64 {
        // One in ten is lost by the kernel and never reported.
        let born: Vec<Socket> = (0..10)
            .map(|index| connection(round * 10 + index, 5, 1))
            .collect();
        stats.sample(&born);
        close(&mut stats, &born[1..], true);
        assert!(stats.known.len() <= 1 + ROUNDS_MISSING_MAX as usize);
    }
    assert_eq!(stats.summary().sockets, 10_000);
    assert_eq!(sent(&stats), (50_000, 10_000));
}

#[test]
fn addresses_and_ports_do_not_matter() {
    let mut first = connection(1, 10, 1);
    let mut second = connection(2, 20, 1);
    for socket in [&mut first, &mut second] {
        socket.local_address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        socket.local_port = 80;
    }
    let mut stats = SocketStats::default();
    stats.begin(&[], everything);
    stats.sample(&[first]);
    stats.sample(&[second]);
    assert_eq!(stats.summary().sockets, 2);
    assert_eq!(sent(&stats), (30, 2));
}

#[test]
fn the_rows_of_the_timeline_add_up_to_the_summary() {
    let mut stats = SocketStats::default();
    stats.begin(
        &[
            connection(1, 1_000, u32::MAX - 5),
            connection(2, 500, 50),
            listener(9, 0, 3),
        ],
        |socket| socket.cookie != 2,
    );
    for interval in 0..2_000_u64 {
        stats.advance(interval);
        let grown = interval + 1;
        let mut sockets = vec![connection(1, 1_000 + 100 * grown, 40 * grown as u32)];
        // Counted late, lost without a report, and its cookie is reused later.
        if interval > 700 && interval % 50 < 40 {
            sockets.push(connection(2, 500 + 100 * (interval % 50), 60));
        }
        sockets.push(listener(9, 0, interval as u32 % 7));
        stats.sample(&sockets);
        close(&mut stats, &[connection(10 + interval, 300, 30)], true);
    }
    let summary = stats.summary();
    let timeline = stats.timeline(10_000_000);
    assert_eq!((timeline.interval_ms, timeline.rows.len()), (40, 500));
    let sum = |of: fn(&results::SocketMoment) -> Option<u64>| {
        timeline.rows.iter().filter_map(of).sum::<u64>()
    };
    assert_eq!(Some(sum(|row| row.bytes_sent)), summary.bytes_sent);
    assert_eq!(Some(sum(|row| row.bytes_received)), summary.bytes_received);
    assert_eq!(
        sum(|row| row.segments_retransmitted),
        summary.segments_retransmitted
    );
    let queues = timeline.rows.iter().map(|row| row.listen_queue_max);
    assert_eq!(queues.max().flatten(), summary.listen_queue_max);
    // No sample includes listening sockets, or those that opened and closed between samples.
    assert!(timeline.rows.iter().all(|row| row.sockets <= Some(2)));
}
