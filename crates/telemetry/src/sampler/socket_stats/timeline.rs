//! Sockets over time: a bounded number of rows.
//!
//! Only the current row keeps a counter for every value. Earlier rows keep the distinct values and
//! their counts, so that two rows can be merged and still have the percentiles of all their
//! samples.

use results::{SocketMoment, SocketTimeline};

use super::totals::{Member, Totals};
use crate::sockets::{Socket, TcpInfo};

/// Above this number, rows are merged in pairs: charts show no more, and documents stay small.
pub(super) const ROWS_MAX: usize = 600;

/// The rows of one window.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    done: Vec<TimelineRow>,
    /// The row after them, without its distributions.
    current: TimelineRow,
    rtt_us: Bins,
    cwnd: Bins,
    delivery_rate: Bins,
    /// A row covers 2^doublings intervals.
    doublings: u32,
}

#[derive(Debug, Default)]
struct TimelineRow {
    sockets: Option<u64>,
    growth: Totals,
    listen_queue_max: Option<u64>,
    rtt_us: Counts,
    cwnd: Counts,
    delivery_rate: Counts,
}

impl Timeline {
    /// What follows belongs to this interval, counted from 0. Intervals never go back.
    pub(super) fn advance(&mut self, interval: u64) {
        while interval >> self.doublings >= ROWS_MAX as u64 {
            self.halve();
        }
        while (self.done.len() as u64) < interval >> self.doublings {
            let row = self.close_current();
            self.done.push(row);
        }
    }

    /// Values of a socket, from a sample or from its end.
    pub(super) fn measure(&mut self, info: &TcpInfo) {
        if let Some(rtt_us) = info.rtt_us {
            self.rtt_us.record(u64::from(rtt_us));
        }
        self.cwnd.record(u64::from(info.snd_cwnd));
        // Zero means that the kernel has not measured it yet.
        if let Some(rate) = info.delivery_rate_bytes_per_sec.filter(|rate| *rate > 0) {
            self.delivery_rate.record(rate);
        }
    }

    /// The queue of a listening socket.
    pub(super) fn queue(&mut self, socket: &Socket) {
        let waiting = socket.listen.map(|queue| u64::from(queue.waiting));
        self.current.listen_queue_max = self.current.listen_queue_max.max(waiting);
    }

    /// The growth of a socket's totals since it was last seen.
    pub(super) fn grow(&mut self, growth: &Totals) {
        self.current.growth.add(growth);
    }

    /// The number of connections in a sample.
    pub(super) fn sample(&mut self, sockets: u64) {
        self.current.sockets = self.current.sockets.max(Some(sockets));
    }

    /// The rows, given the length of an interval.
    pub(super) fn finish(mut self, interval_ns: u64) -> SocketTimeline {
        const NS_PER_MS: u128 = 1_000_000;
        let last = self.close_current();
        let row_ns = u128::from(interval_ns) << self.doublings;
        let ms = |ns: u128| u64::try_from(ns / NS_PER_MS).unwrap_or(u64::MAX);
        let rows = self.done.iter().chain([&last]).zip(0_u128..);
        SocketTimeline {
            interval_ms: ms(row_ns + NS_PER_MS / 2),
            rows: rows.map(|(row, at)| row.moment(ms(at * row_ns))).collect(),
        }
    }

    fn close_current(&mut self) -> TimelineRow {
        TimelineRow {
            rtt_us: self.rtt_us.take(),
            cwnd: self.cwnd.take(),
            delivery_rate: self.delivery_rate.take(),
            ..std::mem::take(&mut self.current)
        }
    }

    /// Merges rows in pairs, starting with the first.
    fn halve(&mut self) {
        self.doublings += 1;
        if self.done.len() % 2 == 1
            && let Some(before) = self.done.pop()
        {
            self.rtt_us.add(&before.rtt_us);
            self.cwnd.add(&before.cwnd);
            self.delivery_rate.add(&before.delivery_rate);
            self.current.join(&before);
        }
        let mut rows = std::mem::take(&mut self.done).into_iter();
        while let (Some(mut row), Some(next)) = (rows.next(), rows.next()) {
            row.join(&next);
            row.rtt_us.merge(&next.rtt_us);
            row.cwnd.merge(&next.cwnd);
            row.delivery_rate.merge(&next.delivery_rate);
            self.done.push(row);
        }
    }
}

impl TimelineRow {
    /// Everything but the distributions.
    fn join(&mut self, other: &Self) {
        self.sockets = self.sockets.max(other.sockets);
        self.growth.add(&other.growth);
        self.listen_queue_max = self.listen_queue_max.max(other.listen_queue_max);
    }

    fn moment(&self, start_ms: u64) -> SocketMoment {
        // If a sample was taken and found no socket, then nothing was retransmitted.
        let none = self.sockets.map(|_| 0);
        SocketMoment {
            start_ms,
            sockets: self.sockets,
            rtt_p50_us: self.rtt_us.percentile(50.0),
            rtt_p99_us: self.rtt_us.percentile(99.0),
            cwnd_p50: self.cwnd.percentile(50.0),
            delivery_rate_p50_bytes_per_sec: self.delivery_rate.percentile(50.0),
            segments_retransmitted: self.growth.get(Member::SegmentsRetransmitted).or(none),
            bytes_sent: self.growth.get(Member::BytesSent),
            bytes_received: self.growth.get(Member::BytesReceived),
            listen_queue_max: self.listen_queue_max,
        }
    }
}

/// How often each value occurred. Values below 512 are exact; above, a bin is 1/256 of its value
/// wide and shown as its middle, which is at most 1/512 off.
#[derive(Debug, Default)]
struct Bins(Vec<u32>);

/// The non-empty bins in ascending order.
#[derive(Debug, Default)]
struct Counts(Vec<(u16, u32)>);

/// log2 of the bins per octave.
const OCTAVE_BITS: u32 = 8;

/// Fits 16 bits for every value: the shift is at most 55.
fn bin_of(value: u64) -> u16 {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(OCTAVE_BITS + 1);
    ((u64::from(shift) << OCTAVE_BITS) + (value >> shift)) as u16
}

fn middle_of(bin: u16) -> f64 {
    let bin = u64::from(bin);
    let shift = (bin >> OCTAVE_BITS).saturating_sub(1);
    let low = (bin - (shift << OCTAVE_BITS)) << shift;
    (low + ((1 << shift) - 1) / 2) as f64
}

impl Bins {
    fn record(&mut self, value: u64) {
        self.add_to(bin_of(value), 1);
    }

    fn add(&mut self, counts: &Counts) {
        for (bin, count) in &counts.0 {
            self.add_to(*bin, *count);
        }
    }

    fn add_to(&mut self, bin: u16, count: u32) {
        let bin = usize::from(bin);
        if bin >= self.0.len() {
            self.0.resize(bin + 1, 0);
        }
        if let Some(sum) = self.0.get_mut(bin) {
            *sum = sum.saturating_add(count);
        }
    }

    /// Resets the counts but keeps the memory.
    fn take(&mut self) -> Counts {
        let all = (0_u16..).zip(self.0.iter_mut());
        let counts = all.filter(|(_, count)| **count > 0);
        Counts(
            counts
                .map(|(bin, count)| (bin, std::mem::take(count)))
                .collect(),
        )
    }
}

impl Counts {
    fn merge(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
        self.0.sort_unstable_by_key(|(bin, _)| *bin);
        self.0.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            is_same
        });
    }

    /// The smallest value that at least `percent` (0..=100) of all values do not exceed; `None`
    /// without values.
    fn percentile(&self, percent: f64) -> Option<f64> {
        let total: u64 = self.0.iter().map(|(_, count)| u64::from(*count)).sum();
        let rank = ((total as f64 * percent / 100.0).ceil() as u64).max(1);
        let mut passed = 0;
        let found = self.0.iter().find(|(_, count)| {
            passed += u64::from(*count);
            passed >= rank
        });
        found.map(|(bin, _)| middle_of(*bin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(rtt_us: u32, rate: u64) -> TcpInfo {
        TcpInfo {
            rtt_us: Some(rtt_us),
            snd_cwnd: 10,
            delivery_rate_bytes_per_sec: Some(rate),
            ..TcpInfo::default()
        }
    }

    #[test]
    fn bins_are_ordered_and_close_to_their_values() {
        let mut last = None;
        for value in (0..5_000).chain((5_000..5_000_000).step_by(997)) {
            let bin = bin_of(value);
            assert!(last.is_none_or(|last| last <= bin), "{value}");
            last = Some(bin);
            let error = (middle_of(bin) - value as f64).abs();
            assert!(error <= value as f64 / 512.0, "{value}: {error}");
        }
        for value in 0..512 {
            assert_eq!(middle_of(bin_of(value)), value as f64);
        }
        let greatest = middle_of(bin_of(u64::MAX));
        assert!((greatest / u64::MAX as f64 - 1.0).abs() <= 1.0 / 512.0);
    }

    #[test]
    fn percentiles_are_by_rank() {
        let mut bins = Bins::default();
        assert_eq!(bins.take().percentile(50.0), None);
        for value in 1..=100 {
            bins.record(value);
        }
        let counts = bins.take();
        assert_eq!(counts.percentile(50.0), Some(50.0));
        assert_eq!(counts.percentile(99.0), Some(99.0));
        assert_eq!(counts.percentile(100.0), Some(100.0));
        assert_eq!(bins.take().percentile(50.0), None, "they are taken once");
    }

    #[test]
    fn merged_rows_have_the_percentiles_of_all_their_samples() {
        let mut timeline = Timeline::default();
        // As many values per interval as its number, so that a mean of medians would be wrong.
        let intervals = 4 * ROWS_MAX as u64;
        for interval in 0..intervals {
            timeline.advance(interval);
            for _ in 0..=interval {
                timeline.measure(&info(interval as u32 % 4 * 100, 1 + interval % 4));
            }
            timeline.sample(interval);
        }
        let timeline = timeline.finish(1_000_000_000);
        assert_eq!(timeline.interval_ms, 4_000);
        assert_eq!(timeline.rows.len(), ROWS_MAX);
        for (row, at) in timeline.rows.iter().zip(0_u64..) {
            assert_eq!(row.start_ms, at * 4_000);
            assert_eq!(row.sockets, Some(at * 4 + 3));
            // Of 16 at + 10 values the first half is from 0 to 1, or beyond for the first rows.
            let counts = [4 * at + 1, 4 * at + 2, 4 * at + 3, 4 * at + 4];
            let rank = counts.iter().sum::<u64>().div_ceil(2);
            let below: Vec<u64> = (1..=4).map(|n| counts[..n].iter().sum()).collect();
            let expected = below.iter().position(|sum| *sum >= rank).unwrap();
            assert_eq!(row.rtt_p50_us, Some(expected as f64 * 100.0), "row {at}");
            assert_eq!(
                row.delivery_rate_p50_bytes_per_sec,
                Some(expected as f64 + 1.0)
            );
        }
    }

    #[test]
    fn intervals_without_samples_are_empty_rows() {
        let mut timeline = Timeline::default();
        timeline.sample(3);
        timeline.advance(2);
        timeline.measure(&info(40, 0));
        timeline.sample(2);
        let rows = timeline.finish(500_000_000).rows;
        let sockets: Vec<_> = rows.iter().map(|row| row.sockets).collect();
        assert_eq!(sockets, [Some(3), None, Some(2)]);
        let again: Vec<_> = rows.iter().map(|row| row.segments_retransmitted).collect();
        assert_eq!(again, [Some(0), None, Some(0)]);
        assert_eq!(rows[1].rtt_p50_us, None);
        assert_eq!((rows[2].start_ms, rows[2].rtt_p50_us), (1_000, Some(40.0)));
        // Zero is not a measured rate.
        assert_eq!(rows[2].delivery_rate_p50_bytes_per_sec, None);
    }

    #[test]
    fn a_clock_that_jumps_far_ahead_does_not_add_rows() {
        let mut timeline = Timeline::default();
        timeline.sample(1);
        timeline.advance(u64::MAX);
        timeline.sample(2);
        let timeline = timeline.finish(u64::MAX);
        assert!(timeline.rows.len() <= ROWS_MAX);
        assert_eq!(timeline.rows[0].sockets, Some(1));
        assert_eq!(timeline.rows.last().and_then(|row| row.sockets), Some(2));
    }
}
