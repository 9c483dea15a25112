//! What sessions over datagrams tell about their packets. They are asked when a connection is
//! closed and at both ends of the window, so that no request pays for it.

use super::{Phase, Worker};
use eventloop::EventLoop;
use protocol::h3::Statistics;
use protocol::{Session, Transport};
use results::QuicRecording;

/// What connections had counted when the window started, by key. Empty before that.
#[derive(Default)]
pub(super) struct PacketsBefore(Vec<Statistics>);

impl PacketsBefore {
    /// The counts of a connection that is about to be closed. The one that follows it begins
    /// within the window.
    fn take(&mut self, key: u32) -> Statistics {
        let of_key = self.0.get_mut(key as usize);
        of_key.map(std::mem::take).unwrap_or_default()
    }
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// The window has started.
    pub(super) fn note_packets_before(&mut self) {
        if S::TRANSPORT == Transport::Stream {
            return;
        }
        let connections = self.pool.connections.iter();
        let statistics = connections.map(|connection| {
            let has_begun = connection.is_established();
            let statistics = connection.session.statistics().filter(|_| has_begun);
            statistics.unwrap_or_default()
        });
        self.packets_before.0 = statistics.collect();
    }

    /// A connection is about to be closed, or the window ends. Counts its packets in the window.
    pub(super) fn count_packets(&mut self, key: u32) {
        if S::TRANSPORT == Transport::Stream || self.phase != Phase::Window {
            return;
        }
        let connection = &self.pool.connections[key as usize];
        if connection.is_established()
            && let Some(now) = connection.session.statistics()
            && let Some(quic) = self.recorder.as_mut().and_then(|it| it.quic())
        {
            add(quic, &now, &self.packets_before.take(key));
        }
    }
}

/// Adds what a connection has counted since `before`.
fn add(quic: &mut QuicRecording, now: &Statistics, before: &Statistics) {
    // Without `..`, so that a new field is not forgotten.
    let Statistics {
        handshake_ns,
        retried,
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
        let mut all = PacketsBefore(vec![before]);
        let mut quic = QuicRecording::default();
        add(&mut quic, &now, &all.take(0));
        assert_eq!((quic.packets_sent, quic.packets_lost), (15, 1));
        assert_eq!((quic.retries, quic.rtt.count()), (0, 1));
        add(&mut quic, &before, &all.take(0));
        assert_eq!((quic.packets_sent, quic.packets_lost), (25, 3));
        assert_eq!(quic.retries, 1);
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
