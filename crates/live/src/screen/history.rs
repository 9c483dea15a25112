//! The history of a run: one point per interval, in bounded memory.

use results::snapshot::Snapshot;

/// Ten minutes of seconds. Whenever this is reached, pairs of points are joined; that is still more
/// than a terminal has columns.
const MAX_POINTS: usize = 600;

/// One interval, or several joined ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// Start and end, seconds since the start of the window.
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    pub(super) answered: u64,
    pub(super) errors: u64,
    /// Median latency in nanoseconds; the maximum of joined intervals, because percentiles cannot
    /// be combined. `None` without responses.
    pub(super) p50_ns: Option<u64>,
    /// The 99th percentile, likewise.
    pub(super) p99_ns: Option<u64>,
}

impl Point {
    fn of(snapshot: &Snapshot) -> Self {
        let last = &snapshot.last;
        let to_s = snapshot.elapsed_ns as f64 / 1e9;
        let percentile = |percent| {
            let some = !last.latency.is_empty();
            some.then(|| last.latency.value_at_percentile(percent))
        };
        Self {
            from_s: (to_s - last.duration_ns as f64 / 1e9).max(0.0),
            to_s,
            answered: last.answered,
            errors: last.errors,
            p50_ns: percentile(50.0),
            p99_ns: percentile(99.0),
        }
    }

    fn joined(self, next: Self) -> Self {
        Self {
            from_s: self.from_s,
            to_s: next.to_s,
            answered: self.answered.saturating_add(next.answered),
            errors: self.errors.saturating_add(next.errors),
            // None is less than any value.
            p50_ns: self.p50_ns.max(next.p50_ns),
            p99_ns: self.p99_ns.max(next.p99_ns),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct History {
    points: Vec<Point>,
    /// The incomplete last point and the number of its intervals.
    pending: Option<(Point, u32)>,
    /// How often points were joined in pairs; a point has 2 to this power intervals.
    joins: u32,
}

impl History {
    pub(super) fn push(&mut self, snapshot: &Snapshot) {
        self.add(Point::of(snapshot));
    }

    fn add(&mut self, point: Point) {
        let (point, intervals) = match self.pending.take() {
            Some((before, intervals)) => (before.joined(point), intervals + 1),
            None => (point, 1),
        };
        if intervals < self.intervals_per_point() {
            self.pending = Some((point, intervals));
            return;
        }
        self.points.push(point);
        if self.points.len() >= MAX_POINTS {
            self.points = self
                .points
                .chunks(2)
                .map(|pair| match *pair {
                    [first, second] => first.joined(second),
                    [single] => single,
                    _ => unreachable!("chunks of two"),
                })
                .collect();
            self.joins += 1;
        }
    }

    /// All points in order of time, including the incomplete one.
    pub(super) fn points(&self) -> impl Iterator<Item = Point> + '_ {
        let pending = self.pending.map(|(point, _)| point);
        self.points.iter().copied().chain(pending)
    }

    /// Whether points consist of several intervals.
    pub(super) fn is_joined(&self) -> bool {
        self.joins > 0
    }

    fn intervals_per_point(&self) -> u32 {
        1_u32.checked_shl(self.joins).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use results::Histogram;
    use results::snapshot::SnapshotInterval;

    use super::*;

    fn snapshot(second: u64, latency_ns: Option<u64>) -> Snapshot {
        let mut latency = Histogram::new();
        if let Some(latency_ns) = latency_ns {
            latency.record(latency_ns);
        }
        Snapshot {
            elapsed_ns: second * 1_000_000_000,
            last: SnapshotInterval {
                duration_ns: 1_000_000_000,
                answered: 1,
                errors: second % 2,
                latency,
                ..SnapshotInterval::default()
            },
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_day_takes_few_points_and_no_count_is_lost() {
        let mut history = History::default();
        let seconds = 24 * 60 * 60;
        for second in 1..=seconds {
            history.add(Point {
                from_s: (second - 1) as f64,
                to_s: second as f64,
                answered: 1,
                errors: second % 2,
                p50_ns: Some(second),
                p99_ns: Some(second),
            });
        }
        let points: Vec<Point> = history.points().collect();
        assert!(points.len() <= MAX_POINTS);
        assert!(points.len() >= MAX_POINTS / 2);
        assert_eq!(points.iter().map(|p| p.answered).sum::<u64>(), seconds);
        assert_eq!(points.iter().map(|p| p.errors).sum::<u64>(), seconds / 2);
        assert_eq!(points[0].from_s, 0.0);
        for pair in points.windows(2) {
            assert_eq!(pair[0].to_s, pair[1].from_s);
        }
        assert_eq!(points.last().map(|p| p.to_s), Some(seconds as f64));
    }

    #[test]
    fn joined_intervals_have_the_largest_of_their_percentiles() {
        let quiet = Point::of(&snapshot(1, None));
        assert_eq!(quiet.p99_ns, None);
        let slow = Point::of(&snapshot(2, Some(1000)));
        let fast = Point::of(&snapshot(3, Some(10)));
        assert_eq!(quiet.joined(slow).joined(fast).p99_ns, Some(1000));
        assert_eq!(quiet.joined(quiet).p50_ns, None);
    }
}
