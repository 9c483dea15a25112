//! From what each worker tells about once a second to one [`Snapshot`] of them all.
//!
//! Workers close their seconds at the same moments, so that their shares come together; one that is held up, by
//! a script for example, tells more the next time.

use crate::control::Schedule;
use results::snapshot::{Interval, Snapshot, Stage};
use results::{Counters, Errors, Histogram, Statuses};
use std::time::Duration;

/// Whoever watches a run. It is called in the main thread, which has nothing to do while the run is on but to
/// wait: what takes long here moves neither the window nor any figure, but a run that was interrupted
/// or has ended is noticed only afterwards.
pub trait Observer {
    /// About once a second, during the warm-up as well.
    fn snapshot(&mut self, snapshot: &Snapshot);

    /// Every few milliseconds until all workers have ended, with the time since the latest snapshot, or since the
    /// start: for keys, a window that has got another size, threads that tell nothing any more.
    fn turn(&mut self, _since: Duration) {}
}

/// What one worker has done.
#[derive(Debug)]
pub(crate) struct Share {
    /// Which worker.
    pub(crate) worker: usize,
    pub(crate) stage: Stage,
    /// CLOCK_MONOTONIC.
    pub(crate) at_ns: u64,
    /// Of the window so far, in flight included.
    pub(crate) counters: Counters,
    pub(crate) statuses: Statuses,
    pub(crate) errors: Errors,
    /// Since its share before; the length is found by who merges.
    pub(crate) last: Interval,
    /// Ages of requests that were given up since then.
    pub(crate) given_up: Histogram,
    pub(crate) open_connections: u64,
    /// Share of its time on a CPU, 0 to 1.
    pub(crate) busy: Option<f64>,
    /// The worker has ended: there will be no other one.
    pub(crate) is_last: bool,
}

/// So long a share waits for those of the other workers.
const PATIENCE_NS: u64 = 250_000_000;

/// Shares become snapshots here.
pub(crate) struct Gathering {
    start_ns: u64,
    measure_ns: u64,
    workers: Vec<Worker>,
    /// The oldest share that was not shown yet came then.
    pending_since_ns: Option<u64>,
    /// The moment of the latest share, and of the snapshot before.
    at_ns: u64,
    shown_ns: u64,
    /// When it was shown.
    news_ns: u64,
    snapshot: Snapshot,
}

/// The latest of one worker.
#[derive(Default)]
struct Worker {
    counters: Counters,
    statuses: Statuses,
    errors: Errors,
    open_connections: u64,
    busy: Option<f64>,
    is_pending: bool,
    has_ended: bool,
}

impl Gathering {
    /// Of so many workers.
    pub(crate) fn new(workers: usize, schedule: Schedule) -> Self {
        let Schedule {
            start_ns,
            measure_ns,
            ..
        } = schedule;
        Self {
            start_ns,
            measure_ns,
            workers: (0..workers).map(|_| Worker::default()).collect(),
            pending_since_ns: None,
            at_ns: start_ns,
            shown_ns: start_ns,
            news_ns: start_ns,
            snapshot: Snapshot::default(),
        }
    }

    /// A worker has told.
    pub(crate) fn take(&mut self, share: Share, now_ns: u64) {
        let Some(worker) = self.workers.get_mut(share.worker) else {
            return;
        };
        if share.stage != self.snapshot.stage {
            if share.stage == Stage::WarmingUp {
                // Held up until the window had begun: of no interest any more.
                return;
            }
            self.snapshot.stage = share.stage;
            forget(&mut self.snapshot.last);
            self.shown_ns = self.measure_ns;
        }
        worker.counters = share.counters;
        worker.statuses = share.statuses;
        worker.errors = share.errors;
        worker.open_connections = share.open_connections;
        worker.busy = share.busy;
        worker.is_pending = true;
        worker.has_ended = share.is_last;
        let last = &mut self.snapshot.last;
        last.answered += share.last.answered;
        last.errors += share.last.errors;
        last.bytes += share.last.bytes;
        if share.stage == Stage::Measuring {
            self.snapshot.latency.merge(&share.last.latency);
            self.snapshot.latency.merge(&share.given_up);
        }
        last.latency.merge(&share.last.latency);
        self.at_ns = self.at_ns.max(share.at_ns);
        self.pending_since_ns.get_or_insert(now_ns);
    }

    /// Shows what has come if it is time for it.
    pub(crate) fn show(&mut self, now_ns: u64, observer: &mut dyn Observer) {
        let Some(since_ns) = self.pending_since_ns else {
            return;
        };
        let is_complete = self.workers.iter().all(|it| it.is_pending || it.has_ended);
        // What is left when all have ended is the result's.
        let is_over = self.workers.iter().all(|it| it.has_ended);
        if is_over || !is_complete && now_ns.saturating_sub(since_ns) < PATIENCE_NS {
            return;
        }
        self.add_up();
        observer.snapshot(&self.snapshot);
        self.news_ns = now_ns;
        self.pending_since_ns = None;
        self.shown_ns = self.at_ns;
        forget(&mut self.snapshot.last);
    }

    /// Time since something was shown.
    pub(crate) fn age(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(now_ns.saturating_sub(self.news_ns))
    }

    fn add_up(&mut self) {
        let snapshot = &mut self.snapshot;
        snapshot.counters = Counters::default();
        snapshot.statuses = Statuses::default();
        snapshot.errors = Errors::default();
        snapshot.open_connections = 0;
        snapshot.busiest_worker = None;
        for worker in &mut self.workers {
            snapshot.counters.merge(&worker.counters);
            snapshot.statuses.merge(&worker.statuses);
            snapshot.errors.merge(&worker.errors);
            snapshot.open_connections += worker.open_connections;
            // Of one that has told nothing it is not known what it does now.
            let busy = worker.busy.filter(|_| worker.is_pending);
            snapshot.busiest_worker = snapshot
                .busiest_worker
                .into_iter()
                .chain(busy)
                .reduce(f64::max);
            worker.is_pending = false;
        }
        let since_ns = match snapshot.stage {
            Stage::WarmingUp => self.start_ns,
            Stage::Measuring => self.measure_ns,
        };
        snapshot.elapsed_ns = self.at_ns.saturating_sub(since_ns);
        snapshot.last.duration_ns = self.at_ns.saturating_sub(self.shown_ns);
    }
}

/// Keeps the memory of the samples: pages that are new each second cost more than all the rest here.
fn forget(interval: &mut Interval) {
    let mut latency = std::mem::take(&mut interval.latency);
    latency.clear();
    *interval = Interval {
        latency,
        ..Interval::default()
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn schedule(measure_ns: u64) -> Schedule {
        Schedule {
            start_ns: 0,
            measure_ns,
            end_ns: 60 * S,
        }
    }

    /// Keeps what it is shown.
    #[derive(Default)]
    struct Shown(Vec<Snapshot>);

    impl Observer for Shown {
        fn snapshot(&mut self, snapshot: &Snapshot) {
            self.0.push(snapshot.clone());
        }
    }

    /// A worker that answers so many requests, each in a millisecond, in the second that ends at `at_s`.
    fn share(worker: usize, at_s: u64, answered: u64) -> Share {
        let mut last = Interval {
            answered,
            ..Interval::default()
        };
        last.latency.record_n(1_000_000, answered);
        Share {
            worker,
            stage: Stage::Measuring,
            at_ns: at_s * S,
            counters: Counters {
                answered: answered * at_s,
                ..Counters::default()
            },
            statuses: Statuses::default(),
            errors: Errors::default(),
            last,
            given_up: Histogram::new(),
            open_connections: 4,
            busy: Some(0.25 * worker as f64),
            is_last: false,
        }
    }

    #[test]
    fn the_shares_of_one_second_are_one_snapshot() {
        let mut shown = Shown::default();
        let mut gathering = Gathering::new(2, schedule(0));
        for at_s in 1..=3 {
            for worker in 0..2 {
                assert_eq!(shown.0.len() as u64, at_s - 1);
                gathering.take(share(worker, at_s, 100), at_s * S);
                gathering.show(at_s * S, &mut shown);
            }
        }
        let [.., snapshot] = &shown.0[..] else {
            panic!("three were shown")
        };
        assert_eq!(snapshot.elapsed_ns, 3 * S);
        assert_eq!(snapshot.counters.answered, 600);
        assert_eq!(snapshot.latency.count(), 600);
        assert_eq!(
            (snapshot.last.answered, snapshot.last.duration_ns),
            (200, S)
        );
        assert_eq!(snapshot.last.latency.count(), 200);
        assert_eq!(snapshot.open_connections, 8);
        assert_eq!(snapshot.busiest_worker, Some(0.25));
    }

    #[test]
    fn a_worker_that_says_nothing_does_not_hold_up_the_others_and_loses_nothing() {
        let mut shown = Shown::default();
        let mut gathering = Gathering::new(2, schedule(0));
        gathering.take(share(0, 1, 100), S);
        gathering.show(S + PATIENCE_NS - 1, &mut shown);
        assert!(shown.0.is_empty());
        assert_eq!(gathering.age(S), Duration::from_secs(1));
        gathering.show(S + PATIENCE_NS, &mut shown);
        assert_eq!(gathering.age(S + PATIENCE_NS), Duration::ZERO);
        assert_eq!(shown.0[0].last.answered, 100);
        gathering.take(share(0, 2, 100), 2 * S);
        let late = Share {
            counters: Counters {
                answered: 300,
                ..Counters::default()
            },
            ..share(1, 2, 300)
        };
        gathering.take(late, 2 * S);
        gathering.show(2 * S, &mut shown);
        assert_eq!(shown.0[1].last.answered, 400);
        assert_eq!(shown.0[1].counters.answered, 500);
        assert_eq!(shown.0[1].latency.count(), 500);
    }

    #[test]
    fn a_worker_that_has_ended_is_not_waited_for_and_stays_in_the_totals() {
        let mut shown = Shown::default();
        let mut gathering = Gathering::new(2, schedule(0));
        let last = Share {
            is_last: true,
            open_connections: 0,
            ..share(1, 1, 50)
        };
        gathering.take(last, S / 2);
        for at_s in [1, 2] {
            gathering.take(share(0, at_s, 100), at_s * S);
            gathering.show(at_s * S, &mut shown);
        }
        let answered = [0, 1].map(|at: usize| shown.0[at].counters.answered);
        assert_eq!(answered, [150, 250]);
        assert_eq!(shown.0[1].open_connections, 4);
        // Its last time on the CPU is not that of now.
        assert_eq!(shown.0[1].busiest_worker, Some(0.0));
    }

    #[test]
    fn what_came_in_the_warm_up_is_forgotten_when_the_window_begins() {
        let mut shown = Shown::default();
        let mut gathering = Gathering::new(1, schedule(2 * S));
        let warm = |at_s| Share {
            stage: Stage::WarmingUp,
            counters: Counters::default(),
            ..share(0, at_s, 70)
        };
        gathering.take(warm(1), S);
        gathering.show(S, &mut shown);
        assert_eq!(shown.0[0].stage, Stage::WarmingUp);
        assert_eq!((shown.0[0].elapsed_ns, shown.0[0].last.answered), (S, 70));
        assert!(shown.0[0].latency.is_empty());
        // Not shown in time.
        gathering.take(warm(2), 2 * S);
        gathering.take(share(0, 3, 100), 3 * S);
        gathering.take(warm(3), 3 * S);
        gathering.show(3 * S, &mut shown);
        let snapshot = &shown.0[1];
        assert_eq!(snapshot.stage, Stage::Measuring);
        assert_eq!((snapshot.elapsed_ns, snapshot.last.duration_ns), (S, S));
        assert_eq!(snapshot.last.answered, 100);
        assert_eq!(snapshot.latency.count(), 100);
    }

    #[test]
    fn nothing_is_shown_when_all_have_ended() {
        let mut shown = Shown::default();
        let mut gathering = Gathering::new(1, schedule(0));
        let last = Share {
            is_last: true,
            ..share(0, 1, 50)
        };
        gathering.take(last, S);
        gathering.show(9 * S, &mut shown);
        assert!(shown.0.is_empty());
    }
}
