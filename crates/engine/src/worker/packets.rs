//! What sessions over datagrams tell about their packets. They are asked when a connection is
//! closed and at both ends of the window, so that no request pays for it.

use super::accounting::Accounting;
use super::pool::ConnectionPool;
use crate::connection::Connection;
use protocol::h3::Statistics;
use protocol::{Session, Transport};
use results::QuicRecording;

/// What was counted before, by key of the connection.
#[derive(Default)]
pub(super) struct PacketsBefore {
    is_in_window: bool,
    /// At the start of the window. Empty before that.
    window: Vec<Statistics>,
    /// Datagrams that the kernel has dropped so far. Empty if there are none.
    drops: Vec<u32>,
}

impl PacketsBefore {
    /// The counts of a connection that is about to be closed. The one that follows it begins at
    /// zero.
    fn take(&mut self, key: u32) -> Statistics {
        if let Some(drops) = self.drops.get_mut(key as usize) {
            *drops = 0;
        }
        let of_key = self.window.get_mut(key as usize);
        of_key.map(std::mem::take).unwrap_or_default()
    }

    /// How many of `drops` are new.
    fn new_drops(&mut self, key: u32, drops: u32) -> u32 {
        let index = key as usize;
        if drops == 0 && self.drops.len() <= index {
            return 0;
        }
        if self.drops.len() <= index {
            self.drops.resize(index + 1, 0);
        }
        drops.wrapping_sub(std::mem::replace(&mut self.drops[index], drops))
    }
}

impl Accounting {
    /// The window has started.
    pub(super) fn start_packets<S: Session>(&mut self, pool: &ConnectionPool<S>) {
        if S::TRANSPORT == Transport::Stream {
            return;
        }
        let statistics = pool.connections.iter().map(|connection| {
            let has_begun = connection.is_established();
            let statistics = connection.session.statistics().filter(|_| has_begun);
            statistics.unwrap_or_default()
        });
        self.packets_before.window = statistics.collect();
        self.packets_before.is_in_window = true;
    }

    /// The window has ended, and sockets stay open.
    pub(super) fn end_packets<S: Session>(&mut self, pool: &ConnectionPool<S>) {
        for (key, connection) in (0..).zip(&pool.connections) {
            self.count_packets(key, connection);
        }
        self.packets_before.is_in_window = false;
    }

    /// The kernel has handed over datagrams, and has dropped so many so far.
    #[inline]
    pub(super) fn count_batch(&mut self, key: u32, drops: u32) {
        let new = self.packets_before.new_drops(key, drops);
        if self.packets_before.is_in_window
            && let Some(quic) = self.recorder.as_mut().and_then(|it| it.quic())
        {
            quic.batches_received += 1;
            quic.datagrams_dropped += u64::from(new);
        }
    }

    /// A connection is about to be closed, or the window ends. Counts its packets in the window.
    pub(super) fn count_packets<S: Session>(&mut self, key: u32, connection: &Connection<S>) {
        if S::TRANSPORT == Transport::Stream {
            return;
        }
        let before = self.packets_before.take(key);
        if self.packets_before.is_in_window
            && connection.is_established()
            && let Some(now) = connection.session.statistics()
            && let Some(quic) = self.recorder.as_mut().and_then(|it| it.quic())
        {
            add(quic, &now, &before);
        }
    }
}

/// Adds what a connection has counted since `before`.
fn add(quic: &mut QuicRecording, now: &Statistics, before: &Statistics) {
    // Without `..`, so that a new field is not forgotten.
    let Statistics {
        handshake_ns,
        retried,
        early_accepted,
        early_rejected,
        datagrams_sent,
        bytes_sent,
        batches_sent,
        datagrams_received,
        bytes_received,
        packets_sent,
        packets_lost,
        congestion_events,
        smoothed_rtt_ns,
        least_rtt_ns,
        congestion_window_bytes,
        mtu_bytes,
    } = *now;
    quic.retries += u64::from(retried && !before.retried);
    quic.early_accepted += early_accepted - before.early_accepted;
    quic.early_rejected += early_rejected - before.early_rejected;
    quic.datagrams_sent += datagrams_sent - before.datagrams_sent;
    quic.bytes_sent += bytes_sent - before.bytes_sent;
    quic.batches_sent += batches_sent - before.batches_sent;
    quic.datagrams_received += datagrams_received - before.datagrams_received;
    quic.bytes_received += bytes_received - before.bytes_received;
    quic.packets_sent += packets_sent - before.packets_sent;
    quic.packets_lost += packets_lost - before.packets_lost;
    quic.congestion_events += congestion_events - before.congestion_events;
    if handshake_ns.is_some() {
        quic.rtt.record(smoothed_rtt_ns);
        quic.min_rtt.record(least_rtt_ns);
        quic.cwnd.record(congestion_window_bytes);
        quic.mtu.record(u64::from(mtu_bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_before_the_window_do_not_count_and_the_next_connection_begins_at_zero() {
        let before = Statistics {
            handshake_ns: Some(1),
            retried: true,
            packets_sent: 10,
            packets_lost: 2,
            ..Statistics::default()
        };
        let now = Statistics {
            packets_sent: 25,
            packets_lost: 3,
            smoothed_rtt_ns: 2_000,
            ..before
        };
        let mut all = PacketsBefore {
            window: vec![before],
            ..PacketsBefore::default()
        };
        let mut quic = QuicRecording::default();
        add(&mut quic, &now, &all.take(0));
        assert_eq!((quic.packets_sent, quic.packets_lost), (15, 1));
        assert_eq!((quic.retries, quic.rtt.count()), (0, 1));
        add(&mut quic, &before, &all.take(0));
        assert_eq!((quic.packets_sent, quic.packets_lost), (25, 3));
        assert_eq!(quic.retries, 1);
    }

    #[test]
    fn drops_count_once_and_a_new_socket_begins_at_zero() {
        let mut all = PacketsBefore::default();
        let new: Vec<u32> = [0, 3, 3, 5].map(|drops| all.new_drops(2, drops)).to_vec();
        assert_eq!(new, [0, 3, 0, 2]);
        assert_eq!(all.new_drops(1, 4), 4);
        all.take(2);
        assert_eq!([all.new_drops(2, 0), all.new_drops(2, 1)], [0, 1]);
        all.drops[1] = u32::MAX;
        assert_eq!(all.new_drops(1, 1), 2, "it wraps around");
    }

    #[test]
    fn a_connection_without_a_handshake_has_packets_but_no_round_trip() {
        let now = Statistics {
            packets_sent: 3,
            smoothed_rtt_ns: 333_000_000,
            ..Statistics::default()
        };
        let mut quic = QuicRecording::default();
        add(&mut quic, &now, &Statistics::default());
        assert_eq!((quic.packets_sent, quic.rtt.count()), (3, 0));
    }
}
