//! What a connection can tell about its packets. QUIC has no TCP_INFO: the kernel knows nothing of
//! them.

/// The state of a connection. Counts are since its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Time from the first datagram until requests could be sent. `None` during the handshake.
    pub handshake_ns: Option<u64>,
    /// Requests that were sent before the handshake was complete, and accepted (0-RTT).
    pub early_accepted: u64,
    /// Requests that were sent before the handshake was complete, rejected, and sent again.
    pub early_rejected: u64,
    /// Whether the server sent Retry during the handshake.
    pub retried: bool,
    /// Datagrams that were given to the owner to be sent.
    pub datagrams_sent: u64,
    /// Bytes in these datagrams.
    pub bytes_sent: u64,
    /// Batches in which these datagrams were given to the owner.
    pub batches_sent: u64,
    /// Datagrams that have arrived.
    pub datagrams_received: u64,
    /// Bytes in these datagrams.
    pub bytes_received: u64,
    /// Packets that were sent; a datagram may have several.
    pub packets_sent: u64,
    /// Packets that were considered lost (RFC 9002 section 6). Probes for a larger MTU are not
    /// among them.
    pub packets_lost: u64,
    /// Times that the congestion window was reduced.
    pub congestion_events: u64,
    /// The smoothed round trip time (RFC 9002 section 5.3).
    pub smoothed_rtt_ns: u64,
    /// The least round trip time.
    pub least_rtt_ns: u64,
    /// The congestion window.
    pub congestion_window_bytes: u64,
    /// The largest datagram that the path takes, as far as known.
    pub mtu_bytes: u16,
}

impl Statistics {
    /// What the library counts; the rest is 0.
    pub(super) fn of_packets(connection: &quinn_proto::Connection) -> Self {
        let stats = connection.stats();
        let nanoseconds =
            |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            datagrams_sent: stats.udp_tx.datagrams,
            bytes_sent: stats.udp_tx.bytes,
            batches_sent: stats.udp_tx.ios,
            datagrams_received: stats.udp_rx.datagrams,
            bytes_received: stats.udp_rx.bytes,
            packets_sent: stats.path.sent_packets,
            packets_lost: stats.path.lost_packets,
            congestion_events: stats.path.congestion_events,
            smoothed_rtt_ns: nanoseconds(stats.path.rtt),
            least_rtt_ns: nanoseconds(stats.path.min_rtt),
            congestion_window_bytes: stats.path.cwnd,
            mtu_bytes: stats.path.current_mtu,
            ..Self::default()
        }
    }
}
