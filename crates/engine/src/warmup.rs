//! The end of a warm-up that lasts until the server has settled.
//!
//! The main thread decides it from the reports of the workers, by a rule of `stats`. All workers
//! then begin the window at one time, which is so far ahead that each of them has a turn before.

use crate::control::RunTimes;
use crate::snapshots::ProgressReport;
use results::snapshot::Stage;
use results::{Histogram, Settling};
use stats::{LoadBatch, SETTLING_BATCH_S, is_settled};

/// How often workers report during such a warm-up.
pub(crate) const BATCH_NS: u64 = (SETTLING_BATCH_S * 1e9) as u64;

/// From the decision to the start of the window. A worker takes a turn every 50 ms or more often.
const LEAD_NS: u64 = 100_000_000;

/// A worker that reports later than this share of a batch did not run, and its requests waited for
/// it.
const LATE_SHARE: u64 = 5;

/// Watches the warm-up of a run.
pub(crate) struct Warmup {
    /// When the window begins if the server does not settle.
    limit_ns: u64,
    workers: Vec<Reported>,
    /// Latencies of the current batch.
    latency: Histogram,
    batches: Vec<LoadBatch>,
}

/// What a worker has reported of the current batch.
struct Reported {
    since_ns: u64,
    until_ns: u64,
    responses: u64,
    is_late: bool,
}

impl Warmup {
    pub(crate) fn new(workers: usize, times: RunTimes) -> Self {
        let reported = || Reported {
            since_ns: times.start_ns,
            until_ns: times.start_ns,
            responses: 0,
            is_late: false,
        };
        Self {
            limit_ns: times.measure_ns,
            workers: std::iter::repeat_with(reported).take(workers).collect(),
            latency: Histogram::new(),
            batches: Vec::new(),
        }
    }

    /// Adds the report of a worker. Returns when the window begins if the server has settled.
    pub(crate) fn add(&mut self, report: &ProgressReport, now_ns: u64) -> Option<u64> {
        let is_in_warmup = report.stage == Stage::WarmingUp;
        let worker = self
            .workers
            .get_mut(report.worker)
            .filter(|_| is_in_warmup)?;
        worker.is_late |= report.at_ns > worker.until_ns + BATCH_NS + BATCH_NS / LATE_SHARE;
        worker.until_ns = report.at_ns;
        worker.responses += report.last.answered;
        self.latency.merge(&report.last.latency);
        if self.workers.iter().any(|it| it.until_ns == it.since_ns) {
            return None;
        }
        self.close_batch();
        let begins_ns = now_ns + LEAD_NS;
        (begins_ns < self.limit_ns && is_settled(&self.batches) == Some(true)).then_some(begins_ns)
    }

    /// What is known when the limit has ended the warm-up.
    pub(crate) fn at_limit(&self) -> Settling {
        match is_settled(&self.batches) {
            None => Settling::Unknown,
            Some(true) => Settling::Settled,
            Some(false) => Settling::NotSettled,
        }
    }

    /// A batch in which a worker did not always run is left out.
    fn close_batch(&mut self) {
        let per_sec = |it: &Reported| {
            let length_ns = it.until_ns.saturating_sub(it.since_ns).max(1);
            it.responses as f64 * 1e9 / length_ns as f64
        };
        if self.workers.iter().all(|it| !it.is_late) {
            let latency_ns = self.latency.value_at_percentile(50.0);
            self.batches.push(LoadBatch {
                responses: self.workers.iter().map(|it| it.responses).sum(),
                per_sec: self.workers.iter().map(per_sec).sum(),
                latency: (!self.latency.is_empty()).then_some(latency_ns as f64),
            });
        }
        self.latency.clear();
        for worker in &mut self.workers {
            (worker.since_ns, worker.responses, worker.is_late) = (worker.until_ns, 0, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshots;

    const S: u64 = 1_000_000_000;

    /// A worker with this many responses of a millisecond since its last report.
    fn report(worker: usize, at_ns: u64, answered: u64) -> ProgressReport {
        ProgressReport {
            stage: Stage::WarmingUp,
            at_ns,
            ..snapshots::tests::report(worker, 0, answered)
        }
    }

    fn warmup(workers: usize, limit_ns: u64) -> Warmup {
        let times = RunTimes {
            start_ns: 0,
            measure_ns: limit_ns,
            end_ns: limit_ns + S,
        };
        Warmup::new(workers, times)
    }

    /// When the window begins if each batch has so many responses of each of two workers.
    fn begins_ns(limit_ns: u64, answered: impl Fn(u64) -> u64) -> Option<u64> {
        let mut warmup = warmup(2, limit_ns);
        let batches = 1..=limit_ns / BATCH_NS;
        let mut reports =
            batches.flat_map(|batch| [0, 1].map(|worker| (worker, batch * BATCH_NS, batch)));
        reports.find_map(|(worker, at_ns, batch)| {
            warmup.add(&report(worker, at_ns, answered(batch)), at_ns)
        })
    }

    #[test]
    fn the_window_begins_a_moment_after_all_workers_have_reported_the_last_batch() {
        assert_eq!(begins_ns(30 * S, |_| 100), Some(5 * S + LEAD_NS));
    }

    #[test]
    fn there_is_no_agreement_that_would_be_later_than_the_limit() {
        assert_eq!(begins_ns(5 * S + LEAD_NS, |_| 100), None);
    }

    #[test]
    fn what_is_known_at_the_limit_is_whether_the_server_has_settled() {
        for (answered, expected) in [
            ((|_| 100) as fn(u64) -> u64, Settling::Settled),
            (|batch| 100 * batch, Settling::NotSettled),
            (|_| 1, Settling::Unknown),
        ] {
            let mut warmup = warmup(1, 5 * S);
            for batch in 1..=10 {
                warmup.add(&report(0, batch * BATCH_NS, answered(batch)), 5 * S);
            }
            assert_eq!(warmup.at_limit(), expected);
        }
    }

    #[test]
    fn a_batch_in_which_a_worker_did_not_always_run_is_left_out() {
        let mut warmup = warmup(2, 30 * S);
        for batch in 1..=12 {
            let at_ns = batch * BATCH_NS;
            assert_eq!(warmup.add(&report(0, at_ns, 100), at_ns), None);
            // One of the workers stands still for two seconds.
            if !(5..=8).contains(&batch) {
                assert_eq!(warmup.add(&report(1, at_ns, 100), at_ns), None);
            }
        }
        let rates: Vec<f64> = warmup.batches.iter().map(|it| it.per_sec).collect();
        assert_eq!(rates, [400.0; 7]);
    }

    #[test]
    fn reports_of_the_window_are_not_of_the_warm_up() {
        let mut warmup = warmup(1, 30 * S);
        for batch in 1..=60 {
            let of_window = ProgressReport {
                stage: Stage::Measuring,
                ..report(0, batch * BATCH_NS, 100)
            };
            assert_eq!(warmup.add(&of_window, batch * BATCH_NS), None);
        }
        assert!(warmup.batches.is_empty());
    }
}
