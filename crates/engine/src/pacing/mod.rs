//! When the next request is due: one worker's share of the schedule of the run.
//!
//! The requests of the run are numbered from 0. With even arrivals, request k is due when the
//! integral of the rate reaches k. With random arrivals, it is due when the integral reaches the
//! sum of k + 1 gaps drawn from the run's seed ([`gaps`]). Which worker has which request is the
//! same everywhere ([`request_numbers`]). So the workers follow one schedule together without
//! sharing anything, and it is the same for any number of them.

mod gaps;
mod request_numbers;

pub(crate) use request_numbers::RequestNumbers;

use std::sync::Arc;
use std::time::Duration;

use gaps::Gaps;
use plan::{Pacing, RateCurve};

/// The window of a run, and how many of its requests to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacingWindow {
    /// CLOCK_MONOTONIC at the start of the schedule.
    pub(crate) origin_ns: u64,
    /// CLOCK_MONOTONIC at the start of the window, when the stages start.
    pub(crate) measure_ns: u64,
    /// The schedule ends after this many requests in the window, of all workers together.
    pub(crate) requests: Option<u64>,
}

/// The schedule of one worker. The current time is always an argument.
#[derive(Debug, Clone)]
pub(crate) struct Pacer {
    schedule: Schedule,
    window: PacingWindow,
    gaps: Gaps,
    /// Number of the next request of this share. An integer, because adding floats drifts.
    number: u64,
    /// Position of the next request on the curve, in requests of the whole run.
    position: f64,
    numbers: RequestNumbers,
    /// The first number that is not to be sent. `u64::MAX` before the window and without a limit.
    end_number: u64,
    next_due_ns: u64,
    /// Where the previous request of this share was, if the window may be moved.
    previous: Option<Box<SchedulePosition>>,
}

/// The place of a request in the schedule, and the gaps after it: what the pacer needs to continue
/// from that request when the window is moved.
#[derive(Debug, Clone)]
struct SchedulePosition {
    number: u64,
    position: f64,
    gaps: Gaps,
}

/// When which position is due.
#[derive(Debug, Clone)]
enum Schedule {
    Curve(RateCurve),
    /// The moments of a log, nanoseconds after the start of the window, in order.
    Recorded(Arc<[u64]>),
}

/// About this many unsent requests of a run are reported one by one, which takes 0.1 us each at the
/// end of the run. Further ones are reported in even groups.
const UNSENT_ONE_BY_ONE: f64 = 1e6;

/// The same for one worker. With fewer, the moments at the end would be too coarse.
const UNSENT_OF_WORKER: std::ops::RangeInclusive<u64> = 1_000..=100_000;

/// Groups of a worker for each request that it reports one by one.
const UNSENT_GROUPS: f64 = 0.1;

impl Pacer {
    /// The schedule of the worker with these requests. `None` without a rate.
    pub(crate) fn new(
        pacing: &Pacing,
        numbers: RequestNumbers,
        window: PacingWindow,
    ) -> Option<Self> {
        let (arrivals, seed) = match pacing {
            Pacing::Closed | Pacing::Users | Pacing::Recorded { .. } => return None,
            Pacing::Constant { arrivals, seed, .. } | Pacing::Stages { arrivals, seed, .. } => {
                (*arrivals, *seed)
            }
        };
        let warmup = Duration::from_nanos(window.measure_ns.saturating_sub(window.origin_ns));
        let (gaps, position) = Gaps::new(arrivals, seed);
        let mut pacer = Self {
            schedule: Schedule::Curve(pacing.rate_curve(warmup)?),
            window,
            gaps,
            number: 0,
            position,
            numbers,
            end_number: u64::MAX,
            next_due_ns: u64::MAX,
            previous: None,
        };
        pacer.find_end(0);
        pacer.go_to(numbers.first());
        Some(pacer)
    }

    /// The same schedule, whose window may be moved.
    pub(crate) fn with_movable_window(mut self, pacing: &Pacing) -> Self {
        if let Pacing::Constant { arrivals, seed, .. } | Pacing::Stages { arrivals, seed, .. } =
            pacing
        {
            let (gaps, position) = Gaps::new(*arrivals, *seed);
            self.previous = Some(Box::new(SchedulePosition {
                number: 0,
                position,
                gaps,
            }));
        }
        self
    }

    /// The schedule of the worker with these requests in a replay: request k is due `due_ns[k]`
    /// after the start of the window.
    pub(crate) fn recorded(
        due_ns: Arc<[u64]>,
        numbers: RequestNumbers,
        window: PacingWindow,
    ) -> Self {
        let all = due_ns.len() as u64;
        let requests = window.requests.map_or(all, |requests| requests.min(all));
        let mut pacer = Self {
            schedule: Schedule::Recorded(due_ns),
            window: PacingWindow {
                requests: Some(requests),
                ..window
            },
            gaps: Gaps::Even,
            number: 0,
            position: 0.0,
            numbers,
            end_number: requests,
            next_due_ns: u64::MAX,
            previous: None,
        };
        pacer.go_to(numbers.first());
        pacer
    }

    /// The window, and with it the first stage of the rate, begins at another time, which has not
    /// come yet. Until then the rate is that of the first stage, so the position stays.
    pub(crate) fn move_window(&mut self, pacing: &Pacing, measure_ns: u64) {
        let warmup = Duration::from_nanos(measure_ns.saturating_sub(self.window.origin_ns));
        let Some(curve) = pacing.rate_curve(warmup) else {
            return;
        };
        self.schedule = Schedule::Curve(curve);
        self.window.measure_ns = measure_ns;
        // Those of other shares before the next one of this share may be of the window, too.
        if let (Some(requests), Some(mut place)) = (self.window.requests, self.previous.take())
            && self.due_ns(self.position) >= measure_ns
        {
            while place.number < self.number && self.due_ns(place.position) < measure_ns {
                place.position += place.gaps.draw();
                place.number += 1;
            }
            self.end_number = place.number.saturating_add(requests);
        }
        self.next_due_ns = self.due_ns(self.position);
    }

    /// Number of the next request in the whole run.
    #[inline]
    pub(crate) fn next_number(&self) -> u64 {
        self.number
    }

    /// When the next request is due, on CLOCK_MONOTONIC. `u64::MAX` if there are no more.
    #[inline]
    pub(crate) fn next_due_ns(&self) -> u64 {
        self.next_due_ns
    }

    /// When the request after the next one is due. `u64::MAX` if there is none.
    pub(crate) fn following_due_ns(&self) -> u64 {
        let number = self.numbers.after(self.number);
        if number >= self.end_number {
            return u64::MAX;
        }
        match &self.gaps {
            Gaps::Even => self.due_ns(number as f64),
            random => {
                let mut random = random.clone();
                let gaps = (self.number..number).map(|_| random.draw());
                self.due_ns(gaps.fold(self.position, |position, gap| position + gap))
            }
        }
    }

    /// Removes `requests` from the schedule. They are sent as one batch, and all are due when the
    /// first one is.
    pub(crate) fn take(&mut self, requests: u32) {
        let number = (0..requests).fold(self.number, |number, _| self.numbers.after(number));
        self.go_to(number);
    }

    /// Number of remaining requests, `u64::MAX` without a limit. Before the window has started in
    /// this share, its part of a limit is not known, and this is the limit of the run. If requests
    /// are dealt out at random, it is an upper limit; it is 0 only if none is left.
    pub(crate) fn remaining(&self) -> u64 {
        match self.window.requests {
            None => u64::MAX,
            Some(requests) if self.end_number == u64::MAX => requests,
            Some(_) => self.numbers.count_max(self.number, self.end_number),
        }
    }

    /// Reports the requests that are due before `end_ns` and were not taken: `report` gets the time
    /// and their number. If the server has been gone for long, there can be too many to report one
    /// by one. The later ones are then reported in groups, each at the middle of the group.
    pub(crate) fn report_unsent(&mut self, end_ns: u64, mut report: impl FnMut(u64, u64)) {
        let one_by_one = self.unsent_one_by_one();
        let mut left = 0;
        while self.next_due_ns < end_ns {
            // A log has only so many.
            if left == one_by_one
                && let Schedule::Curve(curve) = &self.schedule
            {
                let curve = curve.clone();
                return self.report_unsent_in_groups(&curve, end_ns, report);
            }
            report(self.next_due_ns, 1);
            left += 1;
            self.take(1);
        }
    }

    fn unsent_one_by_one(&self) -> u64 {
        let share = (UNSENT_ONE_BY_ONE / self.numbers.spacing()) as u64;
        share.clamp(*UNSENT_OF_WORKER.start(), *UNSENT_OF_WORKER.end())
    }

    fn report_unsent_in_groups(
        &mut self,
        curve: &RateCurve,
        end_ns: u64,
        mut report: impl FnMut(u64, u64),
    ) {
        let window = curve.requests_until(self.after_origin_s(self.window.measure_ns));
        let due = curve.requests_until(self.after_origin_s(end_ns));
        let spacing = self.numbers.spacing();
        // Those of the warm-up are not needed.
        let (begin, left) = match &self.gaps {
            // The requests before a position are those with lower numbers.
            Gaps::Even => {
                let window = window.ceil() as u64;
                let begin = self.numbers.next_from(self.number.max(window));
                let limit = self.window.requests.map(|requests| match self.end_number {
                    u64::MAX => window.saturating_add(requests),
                    end_number => end_number,
                });
                let end = limit.unwrap_or(u64::MAX).min(due.ceil() as u64);
                (begin as f64, self.numbers.count_max(begin, end))
            }
            // If requests are dealt out at random, this is the mean.
            Gaps::Exponential(_) | Gaps::Gamma(_) => {
                let mine = |count: f64| (count / spacing).max(0.0).ceil();
                let begin = mine(window - self.position).mul_add(spacing, self.position);
                let due = mine(due - begin) as u64;
                let limit = self.window.requests.map(|requests| match self.end_number {
                    u64::MAX => mine(window.ceil() + requests as f64 - begin) as u64,
                    end_number => mine(end_number.saturating_sub(self.number) as f64) as u64,
                });
                (begin, limit.unwrap_or(u64::MAX).min(due))
            }
        };
        let groups = (self.unsent_one_by_one() as f64 * UNSENT_GROUPS) as u64;
        for group in 0..groups {
            let (first, after) = (
                u128::from(left) * u128::from(group) / u128::from(groups),
                u128::from(left) * u128::from(group + 1) / u128::from(groups),
            );
            if after > first {
                let middle = f64::midpoint(first as f64, (after - 1) as f64);
                let position = middle.mul_add(spacing, begin);
                let due_ns = self.due_ns(position).min(end_ns.saturating_sub(1));
                report(due_ns, (after - first) as u64);
            }
        }
        self.next_due_ns = u64::MAX;
    }

    /// Skips the requests before this one. Each random gap has to be drawn, which takes about 10 ns
    /// for an exponential one and 50 ns for a gamma-distributed one.
    fn go_to(&mut self, number: u64) {
        if let Some(previous) = &mut self.previous {
            **previous = SchedulePosition {
                number: self.number,
                position: self.position,
                gaps: self.gaps.clone(),
            };
        }
        match &mut self.gaps {
            Gaps::Even => {
                let last = self.number;
                self.number = number;
                self.position = self.number as f64;
                self.find_end(last);
            }
            Gaps::Exponential(_) | Gaps::Gamma(_) => {
                while self.number < number {
                    self.position += self.gaps.draw();
                    self.number += 1;
                    self.find_end(self.number);
                }
            }
        }
        self.next_due_ns = if self.number < self.end_number {
            self.due_ns(self.position)
        } else {
            u64::MAX
        };
    }

    /// Finds the number at which a limited schedule ends, once the window has started. It is
    /// counted from the first request of the whole run that is due in the window, so that it is the
    /// same for every worker. The requests from `last` to the current number were skipped.
    #[inline]
    fn find_end(&mut self, last: u64) {
        let Some(requests) = self.window.requests else {
            return;
        };
        let measure_ns = self.window.measure_ns;
        if self.end_number != u64::MAX || self.due_ns(self.position) < measure_ns {
            return;
        }
        let mut skipped = last..self.number;
        let first = skipped.find(|number| self.due_ns(*number as f64) >= measure_ns);
        self.end_number = first.unwrap_or(self.number).saturating_add(requests);
    }

    fn after_origin_s(&self, at_ns: u64) -> f64 {
        at_ns.saturating_sub(self.window.origin_ns) as f64 / 1e9
    }

    fn due_ns(&self, position: f64) -> u64 {
        let curve = match &self.schedule {
            Schedule::Curve(curve) => curve,
            Schedule::Recorded(due_ns) => {
                let due_ns = due_ns.get(position as usize);
                return due_ns.map_or(u64::MAX, |due_ns| {
                    self.window.measure_ns.saturating_add(*due_ns)
                });
            }
        };
        let after_ns = curve.due_at(position) * 1e9;
        if after_ns >= (u64::MAX - self.window.origin_ns) as f64 {
            return u64::MAX;
        }
        self.window.origin_ns + after_ns.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::{Arrivals, Lanes, Stage};

    const ARRIVALS: [Arrivals; 5] = [
        Arrivals::Even,
        Arrivals::Poisson,
        Arrivals::Gamma { shape: 0.01 },
        Arrivals::Gamma { shape: 0.5 },
        Arrivals::Gamma { shape: 1000.0 },
    ];

    fn of_machine(worker: u32, workers: u32) -> RequestNumbers {
        RequestNumbers::of_machine(Lanes::in_turn(worker..worker + 1, workers))
    }

    /// The requests of a worker of a fleet whose workers all carry the same load.
    fn of_fleet(pacing: &Pacing, worker: u32, workers: u32) -> RequestNumbers {
        RequestNumbers::of_fleet(pacing, Lanes::in_turn(worker..worker + 1, workers))
    }

    fn constant(rate_per_sec: f64, arrivals: Arrivals, seed: u64) -> Pacing {
        Pacing::Constant {
            rate_per_sec,
            arrivals,
            seed,
        }
    }

    fn window(origin_ns: u64, measure_ns: u64) -> PacingWindow {
        PacingWindow {
            origin_ns,
            measure_ns,
            requests: None,
        }
    }

    /// How many requests all workers send in a window that begins at `measure_ns`. They learn it
    /// 100 ms before.
    fn sent_in_moved_window(
        pacing: &Pacing,
        workers: u32,
        measure_ns: u64,
        requests: u64,
    ) -> usize {
        let limited = PacingWindow {
            requests: Some(requests),
            ..window(0, u64::MAX / 2)
        };
        let of_worker = |worker| {
            let pacer = Pacer::new(pacing, of_machine(worker, workers), limited).expect("open");
            let mut pacer = pacer.with_movable_window(pacing);
            while pacer.next_due_ns() < measure_ns - 100_000_000 {
                pacer.take(1);
            }
            pacer.move_window(pacing, measure_ns);
            let mut sent = 0;
            while pacer.next_due_ns() < u64::MAX {
                sent += usize::from(pacer.next_due_ns() >= measure_ns);
                pacer.take(1);
            }
            sent
        };
        (0..workers).map(of_worker).sum()
    }

    #[test]
    fn a_window_that_is_moved_has_exactly_the_requests_of_the_run() {
        for arrivals in ARRIVALS {
            for rate_per_sec in [3.0, 40.0, 1000.0] {
                for seed in 0..60 {
                    let workers = [1, 2, 7][seed as usize % 3];
                    let pacing = constant(rate_per_sec, arrivals, seed);
                    let measure_ns = 5_000_000_000 + 77_777_777 * seed;
                    let sent = sent_in_moved_window(&pacing, workers, measure_ns, 50);
                    assert_eq!(sent, 50, "{arrivals:?} {rate_per_sec} {workers} {seed}");
                }
            }
        }
    }

    /// The times within `[0, end_ns)` at which requests are due.
    fn dues(pacing: &Pacing, worker: u32, workers: u32, end_ns: u64) -> Vec<u64> {
        dues_of(pacing, of_machine(worker, workers), end_ns)
    }

    fn dues_of(pacing: &Pacing, numbers: RequestNumbers, end_ns: u64) -> Vec<u64> {
        let mut pacer = Pacer::new(pacing, numbers, window(0, 0)).expect("open");
        let mut found = Vec::new();
        while pacer.next_due_ns() < end_ns {
            found.push(pacer.next_due_ns());
            pacer.take(1);
        }
        found
    }

    #[test]
    fn the_workers_together_make_one_even_schedule_to_the_nanosecond() {
        let pacing = constant(3000.0, Arrivals::Even, 1);
        let mut all: Vec<u64> = (0..7)
            .flat_map(|worker| dues(&pacing, worker, 7, 10_000_000_000))
            .collect();
        all.sort_unstable();
        assert_eq!(all.len(), 30_000);
        for (number, due_ns) in (0_u64..).zip(&all) {
            let exact = number as f64 * 1e9 / 3000.0;
            assert!((*due_ns as f64 - exact).abs() <= 1.0, "{number}: {due_ns}");
        }
    }

    #[test]
    fn rates_below_one_per_second_and_beyond_a_million_are_exact() {
        let slow = constant(10.0 / 60.0, Arrivals::Even, 1);
        assert_eq!(
            dues(&slow, 0, 1, 18_000_000_000),
            [0, 6_000_000_000, 12_000_000_000]
        );
        let fast = constant(2e6, Arrivals::Even, 1);
        assert_eq!(dues(&fast, 1, 2, 4000), [500, 1500, 2500, 3500]);
    }

    #[test]
    fn the_workers_together_replay_each_moment_of_a_log_once() {
        let due_ns: Arc<[u64]> = vec![0, 5, 5, 70, 900, 901, 1_000].into();
        let window = PacingWindow {
            requests: Some(6),
            ..window(10, 100)
        };
        let log = Pacing::Recorded { speed: 1.0 };
        for (workers, is_fleet) in (1..9).flat_map(|workers| [(workers, false), (workers, true)]) {
            let mut found = Vec::new();
            for worker in 0..workers {
                let due_ns = Arc::clone(&due_ns);
                let numbers = if is_fleet {
                    of_fleet(&log, worker, workers)
                } else {
                    of_machine(worker, workers)
                };
                let mut pacer = Pacer::recorded(due_ns, numbers, window);
                while pacer.next_due_ns() != u64::MAX {
                    found.push((pacer.next_number(), pacer.next_due_ns()));
                    pacer.take(1);
                }
                assert_eq!(pacer.remaining(), 0);
            }
            found.sort_unstable();
            let all = [(0, 100), (1, 105), (2, 105), (3, 170), (4, 1000), (5, 1001)];
            assert_eq!(found, all, "{workers} workers");
        }
    }

    #[test]
    fn moments_of_a_log_that_were_not_used_are_reported() {
        let due_ns: Arc<[u64]> = vec![0, 10, 20, 30].into();
        let mut pacer = Pacer::recorded(due_ns, of_machine(0, 1), window(0, 0));
        pacer.take(1);
        let mut unsent = Vec::new();
        pacer.report_unsent(25, |due_ns, count| unsent.push((due_ns, count)));
        assert_eq!(unsent, [(10, 1), (20, 1)]);
    }

    #[test]
    fn a_batch_takes_its_requests_from_the_schedule() {
        let pacing = constant(1000.0, Arrivals::Even, 1);
        let mut pacer = Pacer::new(&pacing, of_machine(0, 2), window(100, 100)).expect("open");
        assert_eq!(pacer.next_due_ns(), 100);
        pacer.take(3);
        assert_eq!(pacer.next_due_ns(), 6_000_100);
    }

    #[test]
    fn stages_start_with_the_window() {
        let pacing = Pacing::Stages {
            stages: vec![Stage {
                from_per_sec: 0.0,
                to_per_sec: 100.0,
                duration: Duration::from_secs(10),
            }],
            arrivals: Arrivals::Even,
            seed: 0,
        };
        let mut pacer =
            Pacer::new(&pacing, of_machine(0, 1), window(0, 5_000_000_000)).expect("open");
        // None in the warm-up, because the ramp starts at 0: request 0 is due at the start of the
        // window, request 5 one second later.
        assert_eq!(pacer.next_due_ns(), 5_000_000_000);
        pacer.take(5);
        assert_eq!(pacer.next_due_ns(), 6_000_000_000);
    }

    #[test]
    fn random_arrivals_follow_their_seed_and_not_the_number_of_workers() {
        for (arrivals, usual) in [
            (Arrivals::Poisson, 850..1150),
            (Arrivals::Gamma { shape: 0.01 }, 1..3000),
            (Arrivals::Gamma { shape: 100.0 }, 984..1016),
        ] {
            follow_their_seed(arrivals, usual);
        }
    }

    fn follow_their_seed(arrivals: Arrivals, usual: std::ops::Range<usize>) {
        let pacing = constant(1000.0, arrivals, 42);
        let second = 1_000_000_000;
        let alone = dues(&pacing, 0, 1, second);
        assert!(usual.contains(&alone.len()), "{}", alone.len());
        for workers in [2, 3, 8, 64] {
            let mut all: Vec<u64> = (0..workers)
                .flat_map(|worker| dues(&pacing, worker, workers, second))
                .collect();
            all.sort_unstable();
            assert_eq!(all, alone, "{workers} workers");
            let mut of_fleet: Vec<u64> = (0..workers)
                .map(|worker| of_fleet(&pacing, worker, workers))
                .flat_map(|numbers| dues_of(&pacing, numbers, second))
                .collect();
            of_fleet.sort_unstable();
            assert_eq!(of_fleet, alone, "{workers} workers of a fleet");
        }
        let other = constant(1000.0, arrivals, 43);
        assert_ne!(dues(&other, 0, 1, second), alone);
    }

    #[test]
    fn a_limited_schedule_has_the_first_requests_of_the_window_for_any_number_of_workers() {
        for arrivals in ARRIVALS {
            // A window that starts between two requests, and one that starts with a request.
            for measure_ns in [0, 10_500_000, 11_000_000] {
                let pacing = constant(1000.0, arrivals, 3);
                let limited = PacingWindow {
                    requests: Some(17),
                    ..window(0, measure_ns)
                };
                let sent = |of_workers: Vec<RequestNumbers>| {
                    let mut all = Vec::new();
                    for numbers in of_workers {
                        let mut pacer = Pacer::new(&pacing, numbers, limited).expect("open");
                        while pacer.next_due_ns() != u64::MAX {
                            assert_ne!(pacer.remaining(), 0);
                            all.push(pacer.next_due_ns());
                            pacer.take(1);
                        }
                        assert_eq!(pacer.remaining(), 0);
                    }
                    all.sort_unstable();
                    all
                };
                let of_machine = |workers| {
                    let all = 0..workers;
                    all.map(|worker| of_machine(worker, workers)).collect()
                };
                let of_fleet = |workers| {
                    let all = 0..workers;
                    all.map(|worker| of_fleet(&pacing, worker, workers))
                        .collect()
                };
                let alone = sent(of_machine(1));
                let counted = alone.iter().filter(|due_ns| **due_ns >= measure_ns);
                assert_eq!(counted.count(), 17);
                for workers in [2, 4, 7, 30] {
                    let context = format!("{arrivals:?} {workers} {measure_ns}");
                    assert_eq!(sent(of_machine(workers)), alone, "{context}");
                    assert_eq!(sent(of_fleet(workers)), alone, "fleet: {context}");
                }
            }
        }
    }

    #[test]
    fn the_request_after_the_next_is_known() {
        for arrivals in ARRIVALS {
            let limited = PacingWindow {
                requests: Some(20),
                ..window(7, 7)
            };
            let pacing = constant(1000.0, arrivals, 3);
            for numbers in [of_machine(1, 3), of_fleet(&pacing, 1, 3)] {
                let mut pacer = Pacer::new(&pacing, numbers, limited).expect("open");
                while pacer.next_due_ns() != u64::MAX {
                    let following_ns = pacer.following_due_ns();
                    pacer.take(1);
                    assert_eq!(pacer.next_due_ns(), following_ns);
                }
            }
        }
    }

    /// Index of dispersion of counts: the ratio of variance and mean is 1 for a Poisson process and
    /// 0 for an even one. Over 2000 windows, its standard error is sqrt(2 / 2000) = 0.03.
    #[test]
    fn counts_of_poisson_arrivals_vary_as_much_as_their_mean() {
        let pacing = constant(10_000.0, Arrivals::Poisson, 7);
        let mut counts = vec![0_u64; 2000];
        for worker in 0..4 {
            for due_ns in dues(&pacing, worker, 4, 2_000_000_000 * 10) {
                counts[(due_ns / 10_000_000) as usize] += 1;
            }
        }
        let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        let variance = counts
            .iter()
            .map(|count| (*count as f64 - mean).powi(2))
            .sum::<f64>()
            / (counts.len() - 1) as f64;
        assert!((mean - 100.0).abs() < 1.0, "mean {mean}");
        assert!((variance / mean - 1.0).abs() < 0.1, "{}", variance / mean);
    }

    /// The places of a fleet and its agents: four agents with two workers each, at two places.
    const PLACES: [[[u32; 2]; 2]; 2] = [[[0, 1], [2, 3]], [[4, 5], [6, 7]]];
    const WORKERS: u32 = 8;

    /// When requests of these workers of the fleet are due, seconds.
    fn dues_of_fleet_s(pacing: &Pacing, workers: &[u32], end_ns: u64) -> Vec<f64> {
        let of_workers = workers.iter();
        let of_workers = of_workers.map(|worker| of_fleet(pacing, *worker, WORKERS));
        let dues_ns = of_workers.flat_map(|numbers| dues_of(pacing, numbers, end_ns));
        let dues_s: Vec<f64> = dues_ns.map(|due_ns| due_ns as f64 / 1e9).collect();
        stats::sorted(&dues_s)
    }

    /// Standard deviation of the gaps divided by their mean. It is 1 for a Poisson process and
    /// 1/sqrt(n) for every n-th of its events. Its standard error with k gaps is 1/sqrt(k).
    fn variation(dues_s: &[f64]) -> f64 {
        let gaps: Vec<f64> = dues_s.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let squares = gaps.iter().map(|gap| (gap - mean).powi(2));
        (squares.sum::<f64>() / gaps.len() as f64).sqrt() / mean
    }

    #[test]
    fn each_agent_and_each_place_of_a_fleet_has_poisson_arrivals() {
        for seed in 0..5 {
            let pacing = constant(1_000.0, Arrivals::Poisson, seed);
            let variation = |workers: &[u32]| {
                let dues_s = dues_of_fleet_s(&pacing, workers, 200_000_000_000);
                let rate = f64::from(workers.len() as u32) * 1_000.0 / f64::from(WORKERS);
                let count = dues_s.len() as f64;
                assert!((count / 200.0 - rate).abs() < 0.03 * rate, "{count}");
                variation(&dues_s)
            };
            for place in PLACES {
                let found = variation(place.as_flattened());
                assert!((0.97..1.03).contains(&found), "place: {found}");
                for agent in place {
                    let found = variation(&agent);
                    assert!((0.97..1.03).contains(&found), "agent: {found}");
                }
            }
        }
        // Dealt out in turn, the same requests arrive more evenly: two of eight in a row, as here,
        // or every n-th.
        let pacing = constant(1_000.0, Arrivals::Poisson, 0);
        let in_turn = dues(&pacing, 0, WORKERS, 200_000_000_000);
        let in_turn: Vec<f64> = in_turn.into_iter().map(|due_ns| due_ns as f64).collect();
        assert!(variation(&in_turn) < 0.4, "{}", variation(&in_turn));
    }

    /// Of a renewal process with variation v of its gaps, a random share p of the requests has a
    /// variation of `sqrt(1 + p (v^2 - 1))`: the sum of a geometric number of gaps.
    #[test]
    fn the_part_of_a_place_is_nearer_to_poisson_than_the_arrivals_of_the_fleet() {
        for shape in [0.5, 4.0] {
            let pacing = constant(1_000.0, Arrivals::Gamma { shape }, 1);
            let workers: Vec<u32> = (0..WORKERS).collect();
            for (workers, share) in [(&workers[..], 1.0), (&workers[..4], 0.5)] {
                let dues_s = dues_of_fleet_s(&pacing, workers, 200_000_000_000);
                let expected = (1.0_f64 / shape - 1.0).mul_add(share, 1.0).sqrt();
                let found = variation(&dues_s);
                assert!(
                    (found / expected - 1.0).abs() < 0.03,
                    "{shape} {share}: {found}, expected {expected}"
                );
            }
        }
    }

    /// In a ramp from 0 to 2r over T, `r t^2 / T` requests are due until t: in this measure the
    /// gaps have the variation of their shape.
    #[test]
    fn the_gaps_of_stages_are_those_of_a_rate_that_changes() {
        for shape in [0.2, 1.0, 25.0] {
            let pacing = Pacing::Stages {
                stages: vec![Stage {
                    from_per_sec: 0.0,
                    to_per_sec: 2_000.0,
                    duration: Duration::from_secs(100),
                }],
                arrivals: Arrivals::Gamma { shape },
                seed: 5,
            };
            let positions: Vec<f64> = dues(&pacing, 0, 1, 100_000_000_000)
                .into_iter()
                .map(|due_ns| (due_ns as f64 / 1e9).powi(2) * 10.0)
                .collect();
            let count = positions.len() as f64;
            assert!((count - 1e5).abs() < 6.0 * (1e5 / shape).sqrt(), "{count}");
            // The standard error of the variation, relative, from the fourth moment.
            let error = ((3.0_f64 / shape).mul_add(2.0, 2.0) / 4.0 / count).sqrt();
            let found = variation(&positions) * shape.sqrt();
            assert!(
                (found - 1.0).abs() < 5.0 * error + 0.001,
                "{shape}: {found}"
            );
        }
    }

    #[test]
    fn agents_with_unequal_weights_have_poisson_arrivals_in_proportion() {
        for seed in 0..5 {
            let pacing = constant(1_000.0, Arrivals::Poisson, seed);
            // Two threads with one lane each, and two with three.
            for (agent, workers) in [[0..1, 1..2], [2..5, 5..8]].into_iter().enumerate() {
                let of_workers =
                    workers.map(|lanes| RequestNumbers::of_fleet(&pacing, Lanes::spread(lanes, 8)));
                let dues_ns = of_workers
                    .iter()
                    .flat_map(|numbers| dues_of(&pacing, *numbers, 400_000_000_000));
                let dues_s: Vec<f64> = dues_ns.map(|due_ns| due_ns as f64 / 1e9).collect();
                let dues_s = stats::sorted(&dues_s);
                let per_sec = dues_s.len() as f64 / 400.0;
                let expected = [250.0, 750.0][agent];
                assert!(
                    (per_sec / expected - 1.0).abs() < 0.02,
                    "agent {agent}: {per_sec}"
                );
                let variation = variation(&dues_s);
                assert!(
                    (0.97..1.03).contains(&variation),
                    "agent {agent}: {variation}"
                );
            }
        }
    }

    /// A server with a constant service time behind each place: the share of its requests that take
    /// longer than a limit is that of the M/D/1 queue. With requests dealt out in turn it was a
    /// fraction of that.
    #[test]
    fn queues_behind_the_places_of_a_fleet_are_as_long_as_behind_independent_clients() {
        const SERVICE_S: f64 = 0.01;
        const LIMIT_S: f64 = 0.09;
        const ABOVE: f64 = 0.01;
        let per_place = stats::md1_rate_at_limit(SERVICE_S, LIMIT_S, ABOVE).expect("a rate");
        let (mut above, mut all) = (0_u32, 0_usize);
        for seed in 0..3 {
            let pacing = constant(per_place * PLACES.len() as f64, Arrivals::Poisson, seed);
            for place in PLACES {
                let dues_s = dues_of_fleet_s(&pacing, place.as_flattened(), 10_000_000_000_000);
                let mut free_s = 0.0_f64;
                for due_s in &dues_s {
                    free_s = free_s.max(*due_s) + SERVICE_S;
                    above += u32::from(free_s - due_s > LIMIT_S);
                }
                all += dues_s.len();
            }
        }
        // One place alone scatters by 6 %.
        let share = f64::from(above) / all as f64;
        assert!((share / ABOVE - 1.0).abs() < 0.1, "{share}");
    }

    #[test]
    fn every_unsent_request_is_counted() {
        let pacing = constant(1000.0, Arrivals::Even, 1);
        let mut pacer = Pacer::new(&pacing, of_machine(1, 4), window(0, 0)).expect("open");
        pacer.take(2);
        let mut left = Vec::new();
        pacer.report_unsent(20_000_000, |due_ns, count| left.push((due_ns, count)));
        assert_eq!(left, [(9_000_000, 1), (13_000_000, 1), (17_000_000, 1)]);
        assert_eq!(pacer.next_due_ns(), 21_000_000);
    }

    #[test]
    fn the_unsent_requests_of_a_fleet_are_counted_once_and_those_in_groups_by_their_mean() {
        let pacing = constant(1e6, Arrivals::Poisson, 2);
        let unsent = |end_ns| {
            let of_workers = (0..WORKERS).map(|worker| of_fleet(&pacing, worker, WORKERS));
            let mut total = 0;
            for numbers in of_workers {
                let mut pacer = Pacer::new(&pacing, numbers, window(0, 0)).expect("open");
                pacer.report_unsent(end_ns, |_, count| total += count);
            }
            total
        };
        let second = 1_000_000_000;
        assert_eq!(
            unsent(second / 10),
            dues(&pacing, 0, 1, second / 10).len() as u64
        );
        assert!(unsent(5 * second).abs_diff(5_000_000) < 10_000);
    }

    /// In a warm-up and a window of 10 s each, without a limit and with one.
    #[test]
    fn the_unsent_requests_of_agents_with_weights_are_counted_once() {
        let pacing = constant(1e7, Arrivals::Even, 1);
        let half_ns = 10_000_000_000;
        for (requests, expected) in [(None, 100_000_000), (Some(12_345_678), 12_345_678)] {
            let window = PacingWindow {
                requests,
                ..window(0, half_ns)
            };
            let of_workers = [0..1, 1..2, 2..5, 5..8].map(|lanes| Lanes::spread(lanes, 8));
            let (mut total, mut of_parts) = (0, Vec::new());
            for lanes in of_workers {
                let numbers = RequestNumbers::of_fleet(&pacing, lanes);
                let mut pacer = Pacer::new(&pacing, numbers, window).expect("open");
                let mut count_in_window = 0;
                pacer.report_unsent(2 * half_ns, |due_ns, count| {
                    count_in_window += if due_ns >= half_ns { count } else { 0 };
                });
                total += count_in_window;
                of_parts.push(count_in_window);
            }
            assert_eq!(total, expected, "{requests:?}: {of_parts:?}");
            let ratio = of_parts[3] as f64 / of_parts[0] as f64;
            assert!((ratio - 3.0).abs() < 1e-4, "{of_parts:?}");
        }
    }

    #[test]
    fn many_workers_report_their_unsent_requests_in_few_calls_and_none_is_lost() {
        let pacing = constant(1e7, Arrivals::Even, 1);
        let (mut total, mut calls) = (0, 0);
        for worker in 0..250 {
            let numbers = of_machine(worker, 250);
            let mut pacer = Pacer::new(&pacing, numbers, window(0, 0)).expect("open");
            pacer.report_unsent(2_000_000_000, |_, count| {
                total += count;
                calls += 1;
            });
        }
        assert_eq!(total, 20_000_000);
        assert!(calls <= 1_100_000, "{calls}");
    }

    #[test]
    fn billions_of_unsent_requests_are_reported_in_groups_and_none_is_lost() {
        for arrivals in ARRIVALS {
            let pacing = constant(1e9, arrivals, 1);
            let mut pacer = Pacer::new(&pacing, of_machine(0, 1), window(0, 0)).expect("open");
            let (mut total, mut calls, mut last_ns) = (0_u64, 0, 0);
            pacer.report_unsent(10_000_000_000, |due_ns, count| {
                total += count;
                calls += 1;
                assert!((last_ns..10_000_000_000).contains(&due_ns));
                last_ns = due_ns;
            });
            let difference = total.abs_diff(10_000_000_000);
            // Those of the first 100,000 that are reported one by one scatter by `sqrt(n / K)`.
            let allowed = arrivals
                .shape()
                .map_or(0.0, |shape| 6.0 * (1e5 / shape).sqrt());
            assert!(difference as f64 <= allowed, "{arrivals:?}: {total}");
            assert!(calls <= 110_000, "{calls}");
            for measure_ns in [0, 5_000_000_000] {
                let limited = PacingWindow {
                    requests: Some(250_000),
                    ..window(0, measure_ns)
                };
                let mut limited = Pacer::new(&pacing, of_machine(0, 1), limited).expect("open");
                let mut total = 0;
                limited.report_unsent(10_000_000_000, |due_ns, count| {
                    total += if due_ns >= measure_ns { count } else { 0 };
                });
                assert_eq!(total, 250_000, "{arrivals:?} {measure_ns}");
            }
        }
    }
}
