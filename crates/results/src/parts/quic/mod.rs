//! What QUIC connections tell about their packets. The kernel knows nothing of these: to it, they
//! are datagrams of UDP.

mod metrics;
mod view;

use serde::{Deserialize, Serialize};

use super::{Measurement, PartSection, PartTable, PartView, SectionPosition};
use crate::{Contradiction, Histogram, RunResult};

/// The packets of all QUIC connections (HTTP/3) within the window. A connection counts when it is
/// closed, and those that are open at the end of the window count then.
///
/// Handshakes are counted as those of TLS over TCP: [`crate::Counters::tls_full`] and
/// [`crate::Counters::tls_resumed`]. [`crate::Phases::tls`] has their times, from the first
/// datagram until requests can be sent.
// Unknown fields are ignored: earlier versions wrote `migrations`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuicRecording {
    /// Connections for which the server sent Retry (RFC 9000 section 8.1.2), which costs their
    /// handshakes a round trip.
    pub retries: u64,
    /// Requests that were sent before the handshake was complete (0-RTT) and accepted.
    pub early_accepted: u64,
    /// Requests that were sent before the handshake was complete, rejected, and sent again.
    pub early_rejected: u64,
    /// Datagrams that were sent.
    pub datagrams_sent: u64,
    /// Bytes in these datagrams, without the headers of UDP.
    pub bytes_sent: u64,
    /// Batches in which these datagrams were given to the kernel.
    pub batches_sent: u64,
    /// Datagrams that arrived and belong to a connection.
    pub datagrams_received: u64,
    /// Bytes in these datagrams, without the headers of UDP.
    pub bytes_received: u64,
    /// Batches in which the kernel handed datagrams over.
    pub batches_received: u64,
    /// Datagrams that arrived and that the kernel of the load generator dropped, because the
    /// receive buffer of their socket was full (socket(7), SO_RXQ_OVFL). Those after the last
    /// datagram that was received are not known.
    pub datagrams_dropped: u64,
    /// Packets that were sent. A datagram may have several.
    pub packets_sent: u64,
    /// Packets that were considered lost (RFC 9002 section 6.1). Lost probes for a larger MTU are
    /// not among them. What was lost on the way from the server only the server knows.
    pub packets_lost: u64,
    /// Times that a congestion window was reduced (RFC 9002 section 7.3.2).
    pub congestion_events: u64,
    /// The smoothed round trip time of each connection (RFC 9002 section 5.3) when it counted,
    /// nanoseconds. One sample per connection whose handshake was complete, as in the histograms
    /// below.
    pub rtt: Histogram,
    /// The least round trip time of each connection, nanoseconds.
    pub min_rtt: Histogram,
    /// The congestion window of each connection, as a number of bytes and not as a time.
    pub cwnd: Histogram,
    /// The largest datagram that the path of each connection takes, as far as known, as a number of
    /// bytes.
    pub mtu: Histogram,
}

impl QuicRecording {
    /// Datagrams that arrived, dropped ones included.
    #[must_use]
    pub fn datagrams_arrived(&self) -> u64 {
        self.datagrams_received
            .saturating_add(self.datagrams_dropped)
    }

    /// Mean number of datagrams in a batch that was sent; `None` without any.
    #[must_use]
    pub fn datagrams_per_batch_sent(&self) -> Option<f64> {
        mean(self.datagrams_sent, self.batches_sent)
    }

    /// Mean number of datagrams in a batch that was received; `None` without any.
    #[must_use]
    pub fn datagrams_per_batch_received(&self) -> Option<f64> {
        mean(self.datagrams_received, self.batches_received)
    }
}

fn mean(total: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| total as f64 / count as f64)
}

impl Measurement for QuicRecording {
    fn merge(&mut self, other: &Self) {
        let Self {
            retries,
            early_accepted,
            early_rejected,
            datagrams_sent,
            bytes_sent,
            batches_sent,
            datagrams_received,
            bytes_received,
            batches_received,
            datagrams_dropped,
            packets_sent,
            packets_lost,
            congestion_events,
            rtt,
            min_rtt,
            cwnd,
            mtu,
        } = other;
        for (mine, theirs) in [
            (&mut self.retries, retries),
            (&mut self.early_accepted, early_accepted),
            (&mut self.early_rejected, early_rejected),
            (&mut self.datagrams_sent, datagrams_sent),
            (&mut self.bytes_sent, bytes_sent),
            (&mut self.batches_sent, batches_sent),
            (&mut self.datagrams_received, datagrams_received),
            (&mut self.bytes_received, bytes_received),
            (&mut self.batches_received, batches_received),
            (&mut self.datagrams_dropped, datagrams_dropped),
            (&mut self.packets_sent, packets_sent),
            (&mut self.packets_lost, packets_lost),
            (&mut self.congestion_events, congestion_events),
        ] {
            *mine = mine.saturating_add(*theirs);
        }
        self.rtt.merge(rtt);
        self.min_rtt.merge(min_rtt);
        self.cwnd.merge(cwnd);
        self.mtu.merge(mtu);
    }

    fn histograms_mut(&mut self) -> Vec<&mut Histogram> {
        vec![
            &mut self.rtt,
            &mut self.min_rtt,
            &mut self.cwnd,
            &mut self.mtu,
        ]
    }
}

pub(super) static VIEW: PartView = PartView {
    metrics: &metrics::METRICS,
    times: &metrics::TIMES,
    check,
    notes: |result| result.recording.parts.quic.iter().map(view::note).collect(),
    section: Some(PartSection::of_tables(
        ("quic", "QUIC"),
        "What the load generator's end of the connections has counted within the window. A \
         connection has one sample of each time and size, when it was closed or when the window \
         ended. Which packets of the server were lost, only the server knows.",
        SectionPosition::Connections,
        &[
            PartTable::OfGroups(view::packets),
            PartTable::OfGroups(view::connections),
        ],
    )),
    ..PartView::NONE
};

/// Checks that counts and samples of packets agree.
fn check(result: &RunResult) -> Result<(), Contradiction> {
    let Some(quic) = &result.recording.parts.quic else {
        return Ok(());
    };
    let connections = quic.rtt.count();
    for (name, samples) in [
        ("min_rtt", quic.min_rtt.count()),
        ("cwnd", quic.cwnd.count()),
        ("mtu", quic.mtu.count()),
    ] {
        if samples != connections {
            return Err(Contradiction(format!(
                "quic: {name} has {samples} samples, but rtt has {connections}"
            )));
        }
    }
    for (name, bytes, datagrams) in [
        ("sent", quic.bytes_sent, quic.datagrams_sent),
        ("received", quic.bytes_received, quic.datagrams_received),
    ] {
        if bytes < datagrams {
            return Err(Contradiction(format!(
                "quic: {bytes} bytes {name} are fewer than the datagrams, {datagrams}"
            )));
        }
    }
    Ok(())
}
