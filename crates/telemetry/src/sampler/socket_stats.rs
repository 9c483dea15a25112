//! Statistics over samples of sockets. Pure: no kernel, no clock.

mod timeline;
mod totals;

use std::collections::HashMap;

use results::{Histogram, SocketSummary, SocketTimeline, Spread};
use timeline::Timeline;
use totals::{Member, Totals};

use crate::sockets::{Socket, TcpState};

/// Statistics of one window. Sockets are identified by cookie, since ports are reused and cookies
/// are not. Memory is bounded by the number of simultaneously open sockets.
#[derive(Debug, Default)]
pub(crate) struct SocketStats {
    /// Sockets that are open, as far as is known.
    known: HashMap<u64, TrackedSocket>,
    /// Number of the last sample.
    round: u64,
    /// Totals of sockets that are gone.
    past: Totals,
    sockets: u64,
    closed: u64,
    rtt_us: Histogram,
    cwnd: Histogram,
    listen_queue_max: Option<u64>,
    timeline: Timeline,
}

/// The number of consecutive samples that a socket may be missing from before it counts as gone:
/// the kernel reports the end of a socket with a delay, or not at all if its buffer is full.
const ROUNDS_MISSING_MAX: u64 = 3;

#[derive(Debug)]
struct TrackedSocket {
    /// Its totals before the window; zero if it was opened within.
    before: Totals,
    last: Totals,
    listens: bool,
    /// It has matched the filter.
    is_counted: bool,
    last_round: u64,
}

impl SocketStats {
    /// The first sample, at the start of the window: earlier activity of these sockets is not
    /// counted. `is_wanted` tells which sockets match the filter; the others may match later, in
    /// another state.
    pub(crate) fn begin(&mut self, sockets: &[Socket], is_wanted: impl Fn(&Socket) -> bool) {
        let mut seen = 0;
        for socket in sockets {
            let Some(totals) = Totals::of(socket) else {
                continue;
            };
            let known = TrackedSocket {
                before: totals,
                last: totals,
                ..TrackedSocket::new(socket)
            };
            self.known.insert(socket.cookie, known);
            if is_wanted(socket) {
                seen += self.see(socket);
            }
        }
        self.timeline.sample(seen);
    }

    /// What follows belongs to this interval of the window, counted from 0. Intervals never go
    /// back.
    pub(crate) fn advance(&mut self, interval: u64) {
        self.timeline.advance(interval);
    }

    /// A further sample. A new socket was opened within the window, so all of its activity counts.
    pub(crate) fn sample(&mut self, sockets: &[Socket]) {
        self.round += 1;
        let seen = sockets.iter().map(|socket| self.see(socket)).sum();
        self.timeline.sample(seen);
        let oldest = self.round.saturating_sub(ROUNDS_MISSING_MAX);
        let gone = self
            .known
            .extract_if(|_, known| known.is_counted && known.last_round < oldest);
        for (_, known) in gone {
            self.past.add(&known.growth());
        }
    }

    /// Sockets that have closed, with their final values; those that do not count are removed from
    /// the list. With `may_be_new`, sockets that opened and closed between two samples count as
    /// well.
    pub(crate) fn close(&mut self, sockets: &mut Vec<Socket>, may_be_new: bool) {
        sockets.retain(|socket| self.close_one(socket, may_be_new));
    }

    fn close_one(&mut self, socket: &Socket, may_be_new: bool) -> bool {
        let was_seen = |known: &TrackedSocket| known.is_counted;
        if may_be_new || self.known.get(&socket.cookie).is_some_and(was_seen) {
            self.see(socket);
        }
        let known = self.known.remove(&socket.cookie);
        let Some(known) = known.filter(was_seen) else {
            return false;
        };
        self.past.add(&known.growth());
        self.closed += u64::from(!known.listens);
        true
    }

    /// Whether a socket was missing from the last sample although it was not reported as closed.
    pub(crate) fn has_missing(&self) -> bool {
        let is_missing = |known: &TrackedSocket| known.is_counted && known.last_round < self.round;
        self.known.values().any(is_missing)
    }

    /// The figures of all sockets of the window.
    pub(crate) fn summary(&self) -> SocketSummary {
        let mut sums = self.past;
        for known in self.known.values().filter(|known| known.is_counted) {
            sums.add(&known.growth());
        }
        SocketSummary {
            sockets: self.sockets,
            closed: self.closed,
            bytes_sent: sums.get(Member::BytesSent),
            bytes_retransmitted: sums.get(Member::BytesRetransmitted),
            bytes_received: sums.get(Member::BytesReceived),
            segments_sent: sums.get(Member::SegmentsSent),
            segments_retransmitted: sums.get(Member::SegmentsRetransmitted).unwrap_or(0),
            rtt_us: spread(&self.rtt_us),
            cwnd: spread(&self.cwnd),
            busy_us: sums.get(Member::BusyUs),
            rwnd_limited_us: sums.get(Member::RwndLimitedUs),
            sndbuf_limited_us: sums.get(Member::SndbufLimitedUs),
            listen_drops: sums.get(Member::ListenDrops),
            listen_queue_max: self.listen_queue_max,
        }
    }

    /// The sockets over time; called last.
    pub(crate) fn timeline(self, interval_ns: u64) -> SocketTimeline {
        self.timeline.finish(interval_ns)
    }

    /// Updates the statistics. Returns 1 for a connection and 0 for a listening socket.
    fn see(&mut self, socket: &Socket) -> u64 {
        let Some(totals) = Totals::of(socket) else {
            return 0;
        };
        self.measure(socket);
        let known = self
            .known
            .entry(socket.cookie)
            .or_insert_with(|| TrackedSocket::new(socket));
        if totals.is_before(&known.last) {
            // Reconnected (connect(2) with AF_UNSPEC), or another socket on kernels whose cookies
            // are addresses.
            if known.is_counted {
                self.past.add(&known.growth());
            }
            *known = TrackedSocket::new(socket);
        }
        self.timeline.grow(&totals.since(&known.last));
        self.sockets += u64::from(!known.is_counted && !known.listens);
        known.is_counted = true;
        known.last = totals;
        known.last_round = self.round;
        u64::from(!known.listens)
    }

    fn measure(&mut self, socket: &Socket) {
        if let Some(info) = &socket.info {
            if let Some(rtt_us) = info.rtt_us {
                self.rtt_us.record(u64::from(rtt_us));
            }
            self.cwnd.record(u64::from(info.snd_cwnd));
            self.timeline.measure(info);
        }
        self.timeline.queue(socket);
        let waiting = socket.listen.map(|queue| u64::from(queue.waiting));
        self.listen_queue_max = self.listen_queue_max.max(waiting);
    }
}

impl TrackedSocket {
    /// Opened within the window, and not seen yet.
    fn new(socket: &Socket) -> Self {
        Self {
            before: Totals::default(),
            last: Totals::default(),
            listens: socket.state == TcpState::Listen,
            is_counted: false,
            last_round: 0,
        }
    }

    fn growth(&self) -> Totals {
        self.last.since(&self.before)
    }
}

/// `None` without values. Percentiles are at most 0.1 % too high; minimum and maximum are exact.
fn spread(values: &Histogram) -> Option<Spread> {
    let (min, max) = (values.min_ns()?, values.max_ns()?);
    // The upper end of a bucket may exceed the maximum.
    let at = |percent: f64| values.value_at_percentile(percent).clamp(min, max) as f64;
    Some(Spread {
        min: min as f64,
        p50: at(50.0),
        p90: at(90.0),
        p99: at(99.0),
        max: max as f64,
    })
}

#[cfg(test)]
mod tests;
