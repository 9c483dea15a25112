//! What the kernel's books said beside a run: sockets and counters, summed up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Telemetry of one run. Every sample stands in a file of its own, a JSON line each; this is what
/// they come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// Time between samples, nanoseconds.
    pub interval_ns: u64,
    /// Samples taken within the run.
    pub samples: u64,
    /// The sockets that the filter let through; `None` if none were asked for.
    pub sockets: Option<SocketSummary>,
    /// Counters of the kernel by name (`TcpExt.ListenDrops`, `Tcp.RetransSegs`, `softnet.dropped`),
    /// their growth from the begin of the run to its end. What this kernel does not count is not
    /// there.
    pub counters: BTreeMap<String, i64>,
}

/// Sockets of one run, each counted once however often it was sampled, with the final values of
/// those that closed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketSummary {
    /// Different sockets seen, listening ones left out.
    pub sockets: u64,
    /// Of these, how many closed within the run with their last values told by the kernel.
    pub closed: u64,
    /// Bytes sent within the run, again sent ones included.
    pub bytes_sent: u64,
    /// Of these, bytes that were sent again.
    pub bytes_retransmitted: u64,
    /// Bytes received within the run.
    pub bytes_received: u64,
    /// Segments with data sent within the run.
    pub segments_sent: u64,
    /// Segments sent again within the run.
    pub segments_retransmitted: u64,
    /// Smoothed round trip times over all samples of all sockets, microseconds.
    pub rtt_us: Option<Spread>,
    /// Congestion windows over all samples of all sockets, segments.
    pub cwnd: Option<Spread>,
    /// Time that sockets had something to send, microseconds, summed over sockets.
    pub busy_us: u64,
    /// Of it, time limited by the peer's receive window.
    pub rwnd_limited_us: u64,
    /// Of it, time limited by the send buffer.
    pub sndbuf_limited_us: u64,
    /// Connections that listening sockets dropped within the run.
    pub listen_drops: u64,
    /// Longest queue of connections waiting to be accepted that a sample saw.
    pub listen_queue_max: u64,
}

impl SocketSummary {
    /// Share of sent segments that were sent again, 0 to 1; `None` when nothing was sent.
    #[must_use]
    pub fn retransmitted_share(&self) -> Option<f64> {
        (self.segments_sent > 0)
            .then(|| self.segments_retransmitted as f64 / self.segments_sent as f64)
    }
}

/// How values spread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}
