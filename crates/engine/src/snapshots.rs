//! Merges the progress reports of all workers, about once a second, into one [`Snapshot`].
//!
//! Workers close their intervals at the same times, so their reports arrive together. A worker that
//! is held up, for example by a script, reports more the next time.

use crate::control::RunTimes;
use results::snapshot::{Snapshot, SnapshotInterval, Stage};
use results::{Counters, Errors, Histogram, PartRecordings, Statuses};
use std::time::Duration;

/// Observes a run in progress. It is called in the main thread, which otherwise only waits during
/// the run. A slow observer does not affect the window or any number, but the end of the run or an
/// interrupt is noticed only after it returns.
pub trait Observer {
    /// Called about once a second, also during the warm-up.
    fn snapshot(&mut self, snapshot: &Snapshot);

    /// Called every few milliseconds until all workers have ended, with the time since the latest
    /// snapshot or since the start. This is the place to handle key presses, a resized terminal, or
    /// workers that no longer report.
    fn turn(&mut self, _since: Duration) {}
}

/// The progress of one worker.
#[derive(Debug)]
pub(crate) struct ProgressReport {
    /// Index of the worker.
    pub(crate) worker: usize,
    pub(crate) stage: Stage,
    /// When it was made, nanoseconds of CLOCK_MONOTONIC.
    pub(crate) at_ns: u64,
    /// Totals of the window so far, including requests in flight.
    pub(crate) counters: Counters,
    pub(crate) statuses: Statuses,
    pub(crate) errors: Errors,
    /// Send lag of the window so far; empty without a rate.
    pub(crate) send_lag: Histogram,
    /// Totals of the window so far, if they are measured.
    pub(crate) parts: PartRecordings,
    /// Since its previous report. The merger computes the length.
    pub(crate) last: SnapshotInterval,
    /// Ages of the requests given up since then.
    pub(crate) given_up: Histogram,
    pub(crate) open_connections: u64,
    /// Share of its time on a CPU, from 0 to 1.
    pub(crate) busy: Option<f64>,
    /// The worker has ended and will not report again.
    pub(crate) is_last: bool,
}

/// How long a report waits for those of the other workers.
const REPORT_WAIT_NS: u64 = 250_000_000;

/// In a warm-up that lasts until the server has settled, reports are made more often than snapshots
/// are shown, which is at least so long after the one before.
const SHOWN_AFTER_NS: u64 = 750_000_000;

/// Merges the reports of the workers into snapshots.
pub(crate) struct SnapshotMerger {
    start_ns: u64,
    measure_ns: u64,
    workers: Vec<WorkerProgress>,
    /// When the oldest report that has not been shown yet arrived.
    pending_since_ns: Option<u64>,
    /// The times of the latest report and of the previous snapshot.
    at_ns: u64,
    shown_ns: u64,
    /// When the previous snapshot was shown.
    shown_at_ns: u64,
    snapshot: Snapshot,
}

/// The latest report of one worker.
#[derive(Default)]
struct WorkerProgress {
    counters: Counters,
    statuses: Statuses,
    errors: Errors,
    send_lag: Histogram,
    parts: PartRecordings,
    open_connections: u64,
    busy: Option<f64>,
    is_pending: bool,
    has_ended: bool,
}

impl SnapshotMerger {
    pub(crate) fn new(workers: usize, times: RunTimes) -> Self {
        let RunTimes {
            start_ns,
            measure_ns,
            ..
        } = times;
        Self {
            start_ns,
            measure_ns,
            workers: (0..workers).map(|_| WorkerProgress::default()).collect(),
            pending_since_ns: None,
            at_ns: start_ns,
            shown_ns: start_ns,
            shown_at_ns: start_ns,
            snapshot: Snapshot::default(),
        }
    }

    /// The window begins at another time.
    pub(crate) fn move_window(&mut self, measure_ns: u64) {
        self.measure_ns = measure_ns;
    }

    /// Adds the report of a worker.
    pub(crate) fn add(&mut self, report: ProgressReport, now_ns: u64) {
        let Some(worker) = self.workers.get_mut(report.worker) else {
            return;
        };
        if report.stage != self.snapshot.stage {
            if report.stage == Stage::WarmingUp {
                // Delayed until the window had started: no longer relevant.
                return;
            }
            self.snapshot.stage = report.stage;
            clear_interval(&mut self.snapshot.last);
            self.shown_ns = self.measure_ns;
        }
        worker.counters = report.counters;
        worker.statuses = report.statuses;
        worker.errors = report.errors;
        worker.send_lag = report.send_lag;
        worker.parts = report.parts;
        worker.open_connections = report.open_connections;
        worker.busy = report.busy;
        worker.is_pending = true;
        worker.has_ended = report.is_last;
        let last = &mut self.snapshot.last;
        last.answered += report.last.answered;
        last.errors += report.last.errors;
        last.bytes += report.last.bytes;
        if report.stage == Stage::Measuring {
            self.snapshot.latency.merge(&report.last.latency);
            self.snapshot.latency.merge(&report.given_up);
        }
        last.latency.merge(&report.last.latency);
        self.at_ns = self.at_ns.max(report.at_ns);
        self.pending_since_ns.get_or_insert(now_ns);
    }

    /// Shows a snapshot if one is due.
    pub(crate) fn show(&mut self, now_ns: u64, observer: &mut dyn Observer) {
        let Some(since_ns) = self.pending_since_ns else {
            return;
        };
        let is_complete = self.workers.iter().all(|it| it.is_pending || it.has_ended);
        // Once all workers have ended, the rest is part of the result.
        let is_over = self.workers.iter().all(|it| it.has_ended);
        if is_over || !is_complete && now_ns.saturating_sub(since_ns) < REPORT_WAIT_NS {
            return;
        }
        let is_early = self.at_ns.saturating_sub(self.shown_ns) < SHOWN_AFTER_NS;
        if is_early && self.snapshot.stage == Stage::WarmingUp {
            return;
        }
        self.sum_workers();
        observer.snapshot(&self.snapshot);
        self.shown_at_ns = now_ns;
        self.pending_since_ns = None;
        self.shown_ns = self.at_ns;
        clear_interval(&mut self.snapshot.last);
    }

    /// Time since the last snapshot.
    pub(crate) fn age(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(now_ns.saturating_sub(self.shown_at_ns))
    }

    fn sum_workers(&mut self) {
        let snapshot = &mut self.snapshot;
        snapshot.counters = Counters::default();
        snapshot.statuses = Statuses::default();
        snapshot.errors = Errors::default();
        snapshot.send_lag.clear();
        let parts = std::mem::take(&mut snapshot.parts);
        snapshot.open_connections = 0;
        snapshot.busiest_worker = None;
        for worker in &mut self.workers {
            snapshot.counters.merge(&worker.counters);
            snapshot.statuses.merge(&worker.statuses);
            snapshot.errors.merge(&worker.errors);
            snapshot.send_lag.merge(&worker.send_lag);
            snapshot.parts.merge(&worker.parts);
            snapshot.open_connections += worker.open_connections;
            // The current load of a worker without a new report is not known.
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
        snapshot.last.parts = snapshot.parts.since(&parts);
        snapshot.elapsed_ns = self.at_ns.saturating_sub(since_ns);
        snapshot.last.duration_ns = self.at_ns.saturating_sub(self.shown_ns);
    }
}

/// Keeps the memory of the samples: allocating new pages each second costs more than everything
/// else here.
fn clear_interval(interval: &mut SnapshotInterval) {
    let mut latency = std::mem::take(&mut interval.latency);
    latency.clear();
    *interval = SnapshotInterval {
        latency,
        ..SnapshotInterval::default()
    };
}

#[cfg(test)]
pub(crate) mod tests {
    use results::{GoodRecording, LlmRecording};

    use super::*;

    const S: u64 = 1_000_000_000;

    fn times(measure_ns: u64) -> RunTimes {
        RunTimes {
            start_ns: 0,
            measure_ns,
            end_ns: 60 * S,
        }
    }

    /// Collects the snapshots that are shown.
    #[derive(Default)]
    struct Shown(Vec<Snapshot>);

    impl Observer for Shown {
        fn snapshot(&mut self, snapshot: &Snapshot) {
            self.0.push(snapshot.clone());
        }
    }

    /// A worker with this many responses of one millisecond each, in the second that ends at
    /// `at_s`.
    pub(crate) fn report(worker: usize, at_s: u64, answered: u64) -> ProgressReport {
        let mut last = SnapshotInterval {
            answered,
            ..SnapshotInterval::default()
        };
        last.latency.record_n(1_000_000, answered);
        ProgressReport {
            worker,
            stage: Stage::Measuring,
            at_ns: at_s * S,
            counters: Counters {
                answered: answered * at_s,
                ..Counters::default()
            },
            statuses: Statuses::default(),
            errors: Errors::default(),
            send_lag: Histogram::new(),
            parts: PartRecordings::default(),
            last,
            given_up: Histogram::new(),
            open_connections: 4,
            busy: Some(0.25 * worker as f64),
            is_last: false,
        }
    }

    #[test]
    fn the_reports_of_one_second_become_one_snapshot() {
        let mut shown = Shown::default();
        let mut merger = SnapshotMerger::new(2, times(0));
        for at_s in 1..=3 {
            for worker in 0..2 {
                assert_eq!(shown.0.len() as u64, at_s - 1);
                merger.add(report(worker, at_s, 100), at_s * S);
                merger.show(at_s * S, &mut shown);
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
    fn a_worker_without_a_report_does_not_delay_the_others_and_loses_nothing() {
        let mut shown = Shown::default();
        let mut merger = SnapshotMerger::new(2, times(0));
        merger.add(report(0, 1, 100), S);
        merger.show(S + REPORT_WAIT_NS - 1, &mut shown);
        assert!(shown.0.is_empty());
        assert_eq!(merger.age(S), Duration::from_secs(1));
        merger.show(S + REPORT_WAIT_NS, &mut shown);
        assert_eq!(merger.age(S + REPORT_WAIT_NS), Duration::ZERO);
        assert_eq!(shown.0[0].last.answered, 100);
        merger.add(report(0, 2, 100), 2 * S);
        let late = ProgressReport {
            counters: Counters {
                answered: 300,
                ..Counters::default()
            },
            ..report(1, 2, 300)
        };
        merger.add(late, 2 * S);
        merger.show(2 * S, &mut shown);
        assert_eq!(shown.0[1].last.answered, 400);
        assert_eq!(shown.0[1].counters.answered, 500);
        assert_eq!(shown.0[1].latency.count(), 500);
    }

    #[test]
    fn a_worker_that_has_ended_is_not_awaited_and_stays_in_the_totals() {
        let mut shown = Shown::default();
        let mut merger = SnapshotMerger::new(2, times(0));
        let last = ProgressReport {
            is_last: true,
            open_connections: 0,
            ..report(1, 1, 50)
        };
        merger.add(last, S / 2);
        for at_s in [1, 2] {
            merger.add(report(0, at_s, 100), at_s * S);
            merger.show(at_s * S, &mut shown);
        }
        let answered = [0, 1].map(|at: usize| shown.0[at].counters.answered);
        assert_eq!(answered, [150, 250]);
        assert_eq!(shown.0[1].open_connections, 4);
        // Its last CPU time is not current.
        assert_eq!(shown.0[1].busiest_worker, Some(0.0));
    }

    /// The reports have totals, so that of a worker that has ended stays and the others replace
    /// theirs.
    #[test]
    fn tokens_and_good_requests_of_all_workers_are_added_up() {
        let mut shown = Shown::default();
        let mut merger = SnapshotMerger::new(2, times(0));
        let with_tokens = |worker, at_s: u64| {
            let mut tokens = LlmRecording::default();
            tokens.first_token.record_n(50_000_000, 10 * at_s);
            tokens.time_per_token.record_n(5_000_000, 9 * at_s);
            let mut report = report(worker, at_s, 10);
            tokens.output_tokens = 160 * at_s;
            report.parts.llm = Some(tokens);
            report.parts.good = Some(GoodRecording {
                good: 9 * at_s,
                bad: at_s,
                undecided: 0,
                ..GoodRecording::default()
            });
            report
        };
        let ended = ProgressReport {
            is_last: true,
            ..with_tokens(1, 1)
        };
        merger.add(ended, S / 2);
        for at_s in [1, 2] {
            merger.add(with_tokens(0, at_s), at_s * S);
            merger.show(at_s * S, &mut shown);
        }
        let [first, second] = &shown.0[..] else {
            panic!("two were shown")
        };
        assert_eq!(
            [first, second].map(|it| it.last.parts.llm.as_ref().unwrap().output_tokens),
            [320, 160]
        );
        let counts = |snapshot: &Snapshot| {
            let tokens = snapshot.parts.llm.as_ref().unwrap();
            (tokens.first_token.count(), tokens.time_per_token.count())
        };
        assert_eq!((counts(first), counts(second)), ((20, 18), (30, 27)));
        let since_last = |snapshot: &Snapshot| {
            let tokens = snapshot.last.parts.llm.as_ref().unwrap();
            (tokens.first_token.count(), tokens.time_per_token.count())
        };
        assert_eq!((since_last(first), since_last(second)), ((20, 18), (10, 9)));
        let good = second.parts.good.map(|good| (good.good, good.judged()));
        assert_eq!(good, Some((27, 30)));
    }

    #[test]
    fn progress_of_the_warm_up_is_discarded_when_the_window_starts() {
        let mut shown = Shown::default();
        let mut merger = SnapshotMerger::new(1, times(2 * S));
        let warm = |at_s| ProgressReport {
            stage: Stage::WarmingUp,
            counters: Counters::default(),
            ..report(0, at_s, 70)
        };
        merger.add(warm(1), S);
        merger.show(S, &mut shown);
        assert_eq!(shown.0[0].stage, Stage::WarmingUp);
        assert_eq!((shown.0[0].elapsed_ns, shown.0[0].last.answered), (S, 70));
        assert!(shown.0[0].latency.is_empty());
        // Not shown in time.
        merger.add(warm(2), 2 * S);
        merger.add(report(0, 3, 100), 3 * S);
        merger.add(warm(3), 3 * S);
        merger.show(3 * S, &mut shown);
        let snapshot = &shown.0[1];
        assert_eq!(snapshot.stage, Stage::Measuring);
        assert_eq!((snapshot.elapsed_ns, snapshot.last.duration_ns), (S, S));
        assert_eq!(snapshot.last.answered, 100);
        assert_eq!(snapshot.latency.count(), 100);
    }

    #[test]
    fn there_is_no_snapshot_after_all_workers_have_ended() {
        let mut shown = Shown::default();
        let mut merger = SnapshotMerger::new(1, times(0));
        let last = ProgressReport {
            is_last: true,
            ..report(0, 1, 50)
        };
        merger.add(last, S);
        merger.show(9 * S, &mut shown);
        assert!(shown.0.is_empty());
    }
}
