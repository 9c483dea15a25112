//! The schedule of a run, shared by its workers. A request that is due is sent by any worker with a
//! free connection, and the request that has been due longest is sent first.
//!
//! Requests are assigned to workers by number ([`RequestNumbers`](crate::pacing::RequestNumbers)),
//! so that each worker only wakes up for its own requests. But assigned requests may be claimed by
//! others: each worker's position in its share is behind a lock, and any worker with a free
//! connection may claim the next request there. As long as every worker has a free connection for
//! what is due, each claims from its own share and does not look at the others.
//!
//! A worker is *queueing* while a request of its share is overdue and it has no free connection.
//! While any worker is queueing, every claim takes the request that is due first in the whole run.
//!
//! # Wake-ups
//!
//! It must never happen that a request is overdue, a connection is free, and all workers sleep. A
//! worker goes to sleep after [`ScheduleShare::show_free`] and [`ScheduleShare::settle`]. All
//! stores and loads named here are sequentially consistent, so they have one total order.
//!
//! - *A request becomes due in a worker without a free connection.* The worker wakes up at that
//!   time. It stores that it is queueing, and then wakes one of the workers that show a free
//!   connection. A worker whose connection becomes free stores that it shows one, reads the clock,
//!   and claims if any worker is queueing. One of the two stores is first: either the first worker
//!   sees the free connection, or the second one sees the queue.
//! - *A worker is woken but has used its free connection in the meantime.* It passes the wake-up
//!   on: if any worker is queueing, it wakes another worker that shows a free connection. A
//!   sleeping worker that shows one does have one, because it corrects what it shows before it
//!   sleeps.
//! - *Others claim from a queue.* Its owner sleeps and must be awake when its next request is due.
//!   Before it sleeps, it stores the latest time at which it wakes up. A claiming worker first
//!   stores the next due time, then loads that time, and wakes the owner if it would sleep longer.
//!   The owner checks the due time again after its store: either it sees the claim, or the claiming
//!   worker sees how long it sleeps.
//! - *A wake-up crosses a turn.* A worker that is woken is marked, and is not woken again while it
//!   is marked. It clears the mark at the start of a turn, before it checks anything. What was
//!   stored before the mark was set is seen in that turn, and what is stored later sets the mark
//!   again.

use crate::pacing::Pacer;
use eventloop::Waker;
use plan::Pacing;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A point where the order of two threads matters. Tests make threads cross here; otherwise it does
/// nothing.
#[cfg(not(test))]
#[inline]
fn crossing_point() {}

#[cfg(test)]
use tests::crossing_point;

/// No request, or no time.
const NEVER: u64 = u64::MAX;

/// One worker's share as all workers see it. It has its own cache lines, because its owner writes
/// to it for every request.
#[derive(Debug)]
#[repr(align(128))]
struct Share {
    /// When the next request of the share is due. Stored under the lock of `position`.
    next_due_ns: AtomicU64,
    /// Number of remaining requests ([`Pacer::remaining`]). Stored under the lock of `position`.
    remaining: AtomicU64,
    /// 0 unless the owner is queueing. Then it is the latest time at which the owner wakes up. If
    /// its next request is due earlier because of a claim, it must be woken.
    sleeps_until_ns: AtomicU64,
    /// The owner has a connection that could take a request.
    has_free: AtomicBool,
    /// The owner has been woken and has not started a turn since.
    is_woken: AtomicBool,
    waker: OnceLock<Waker>,
    position: Mutex<Position>,
}

/// How far a share has been claimed.
#[derive(Debug, Default)]
struct Position {
    /// `None` before the run and after the owner has ended. Then nothing can be claimed.
    pacer: Option<Pacer>,
    /// Claimed requests that could not be sent.
    returned: Vec<Due>,
}

/// A request and when it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Due {
    at_ns: u64,
    /// Its number in the run.
    number: u64,
}

impl Position {
    fn next_due_ns(&self) -> u64 {
        let next_ns = self.pacer.as_ref().map_or(NEVER, Pacer::next_due_ns);
        let returned_ns = self.returned.iter().map(|due| due.at_ns).min();
        returned_ns.map_or(next_ns, |returned_ns| returned_ns.min(next_ns))
    }

    fn following_due_ns(&self) -> u64 {
        match &self.pacer {
            Some(pacer) if self.returned.is_empty() => pacer.following_due_ns(),
            Some(pacer) => pacer.next_due_ns(),
            None => NEVER,
        }
    }

    /// Takes the request that is due first, which is due then, and returns its number.
    fn take_next(&mut self, due_ns: u64) -> u64 {
        let returned = self.returned.iter().position(|due| due.at_ns == due_ns);
        match (returned, &mut self.pacer) {
            (Some(index), _) => self.returned.swap_remove(index).number,
            (None, Some(pacer)) => {
                let number = pacer.next_number();
                pacer.take(1);
                number
            }
            (None, None) => 0,
        }
    }

    fn remaining(&self) -> u64 {
        let left = self.pacer.as_ref().map_or(0, Pacer::remaining);
        left.saturating_add(self.returned.len() as u64)
    }
}

impl Share {
    fn new() -> Self {
        Self {
            next_due_ns: AtomicU64::new(NEVER),
            remaining: AtomicU64::new(NEVER),
            sleeps_until_ns: AtomicU64::new(0),
            has_free: AtomicBool::new(false),
            is_woken: AtomicBool::new(false),
            waker: OnceLock::new(),
            position: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Position> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the position and publishes the result.
    fn change<R>(&self, how: impl FnOnce(&mut Position) -> R) -> R {
        let mut position = self.lock();
        let result = how(&mut position);
        self.remaining.store(position.remaining(), Relaxed);
        self.next_due_ns.store(position.next_due_ns(), SeqCst);
        result
    }

    fn wake(&self) {
        if !self.is_woken.swap(true, SeqCst)
            && let Some(waker) = self.waker.get()
        {
            waker.wake();
        }
    }

    /// Closes the share: nothing can be claimed from now on. `report` gets the requests that were
    /// due before `end_ns` and were not claimed, as in [`Pacer::report_unsent`].
    fn close(&self, end_ns: u64, mut report: impl FnMut(u64, u64)) {
        let (pacer, returned) = self.change(|position| {
            let returned = std::mem::take(&mut position.returned);
            (position.pacer.take(), returned)
        });
        for due in returned {
            report(due.at_ns, 1);
        }
        if let Some(mut pacer) = pacer {
            pacer.report_unsent(end_ns, report);
        }
    }
}

/// A counter with its own cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Count(AtomicU32);

/// What the workers of a run share: each worker's share of the schedule, and how many workers are
/// queueing or show a free connection.
#[derive(Debug)]
struct ScheduleState {
    /// Number of queueing workers.
    queueing: Count,
    /// Number of workers that show a free connection.
    with_free: Count,
    shares: Box<[Share]>,
}

/// The schedule of a run. The module's documentation explains it.
#[derive(Debug, Clone)]
pub(crate) struct SharedSchedule(Arc<ScheduleState>);

impl SharedSchedule {
    pub(crate) fn new(workers: usize) -> Self {
        Self(Arc::new(ScheduleState {
            queueing: Count::default(),
            with_free: Count::default(),
            shares: (0..workers).map(|_| Share::new()).collect(),
        }))
    }

    /// The handle of one worker.
    pub(crate) fn share(&self, worker: usize) -> ScheduleShare {
        ScheduleShare {
            shared: Arc::clone(&self.0),
            worker,
            shows_free: false,
            is_queueing: false,
            was_woken: false,
        }
    }

    /// Closes the share of a worker that cannot do it itself, see [`ScheduleShare::close`].
    pub(crate) fn close(&self, worker: usize, end_ns: u64, report: impl FnMut(u64, u64)) {
        self.0.shares[worker].close(end_ns, report);
    }
}

/// A request that the worker that claimed it must send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) due_ns: u64,
    /// Its number in the run.
    pub(crate) number: u64,
    /// The worker in whose share it was.
    from: usize,
}

/// One worker's handle of the shared schedule.
#[derive(Debug)]
pub(crate) struct ScheduleShare {
    shared: Arc<ScheduleState>,
    worker: usize,
    shows_free: bool,
    is_queueing: bool,
    /// Woken by another worker in this turn.
    was_woken: bool,
}

impl ScheduleShare {
    fn own(&self) -> &Share {
        &self.shared.shares[self.worker]
    }

    fn is_alone(&self) -> bool {
        self.shared.shares.len() == 1
    }

    /// Whether other workers may have to wake this one.
    pub(crate) fn needs_waker(&self) -> bool {
        !self.is_alone()
    }

    pub(crate) fn set_waker(&self, waker: Waker) {
        // There is only one worker with this number, so the waker is never replaced.
        let _ = self.own().waker.set(waker);
    }

    /// Starts the share: from now on its requests can be claimed.
    pub(crate) fn begin(&self, pacer: Pacer) {
        self.own().change(|position| position.pacer = Some(pacer));
    }

    /// The window begins at another time, see [`Pacer::move_window`].
    pub(crate) fn move_window(&self, pacing: &Pacing, measure_ns: u64) {
        self.own().change(|position| {
            if let Some(pacer) = &mut position.pacer {
                pacer.move_window(pacing, measure_ns);
            }
        });
    }

    /// Must be called at the start of each turn.
    #[inline]
    pub(crate) fn begin_turn(&mut self) {
        let is_woken = &self.own().is_woken;
        self.was_woken = is_woken.load(SeqCst) && is_woken.swap(false, SeqCst);
    }

    /// When the next request of this worker's share is due. `u64::MAX` if there is none.
    #[inline]
    pub(crate) fn next_due_ns(&self) -> u64 {
        self.own().next_due_ns.load(SeqCst)
    }

    /// When the first unclaimed request of the run is due. `u64::MAX` if there is none.
    pub(crate) fn first_due_ns(&self) -> u64 {
        let dues_ns = self.shared.shares.iter();
        let dues_ns = dues_ns.map(|share| share.next_due_ns.load(SeqCst));
        dues_ns.min().unwrap_or(NEVER)
    }

    /// Number of unclaimed requests of the run: `u64::MAX` without a limit, and too high before the
    /// window.
    pub(crate) fn remaining(&self) -> u64 {
        let left = self.shared.shares.iter();
        left.map(|share| share.remaining.load(Relaxed))
            .fold(0, u64::saturating_add)
    }

    /// Claims a request that is due, for a connection that can send it now: the first of the run if
    /// any worker is queueing, otherwise the next one of this worker's share.
    #[inline]
    pub(crate) fn claim(&mut self, now_ns: u64) -> Option<Claim> {
        loop {
            let from = match self.shared.queueing.0.load(SeqCst) {
                0 => self.worker,
                _ => self.first_share(),
            };
            let share = &self.shared.shares[from];
            crossing_point();
            if share.next_due_ns.load(SeqCst) > now_ns {
                return None;
            }
            let claimed = share.change(|position| {
                let due_ns = position.next_due_ns();
                let number = (due_ns <= now_ns).then(|| position.take_next(due_ns))?;
                Some((due_ns, number))
            });
            // If there is none, another worker was faster.
            let Some((due_ns, number)) = claimed else {
                continue;
            };
            crossing_point();
            if from != self.worker
                && share.next_due_ns.load(SeqCst) < share.sleeps_until_ns.load(SeqCst)
            {
                share.wake();
            }
            return Some(Claim {
                due_ns,
                number,
                from,
            });
        }
    }

    /// The share whose next request is due first.
    fn first_share(&self) -> usize {
        let others = (1..self.shared.shares.len()).map(|step| self.nth_after(step));
        let due_ns = |worker: usize| self.shared.shares[worker].next_due_ns.load(SeqCst);
        let own = (due_ns(self.worker), self.worker);
        others
            .map(|worker| (due_ns(worker), worker))
            .fold(
                own,
                |first, other| if other.0 < first.0 { other } else { first },
            )
            .1
    }

    fn nth_after(&self, step: usize) -> usize {
        (self.worker + step) % self.shared.shares.len()
    }

    /// The batch of a claimed request contains this many more requests. They take the next
    /// positions of the share from which it was claimed.
    pub(crate) fn claim_more(&mut self, claim: Claim, requests: u32) {
        if requests == 0 {
            return;
        }
        let share = &self.shared.shares[claim.from];
        share.change(|position| {
            if let Some(pacer) = &mut position.pacer {
                pacer.take(requests);
            }
        });
        if claim.from != self.worker
            && share.next_due_ns.load(SeqCst) < share.sleeps_until_ns.load(SeqCst)
        {
            share.wake();
        }
    }

    /// A claimed request could not be sent. It is still due, now in this worker's share.
    pub(crate) fn give_back(&mut self, claim: Claim) {
        let own = self.own();
        let due = Due {
            at_ns: claim.due_ns,
            number: claim.number,
        };
        own.change(|position| position.returned.push(due));
    }

    /// Publishes whether a connection is free. Returns true if there is a free connection that the
    /// others did not know of. The caller must then check again whether a request is due, with a
    /// new reading of the clock.
    #[inline]
    pub(crate) fn show_free(&mut self, has_free: bool) -> bool {
        if has_free == self.shows_free || self.is_alone() {
            return false;
        }
        self.shows_free = has_free;
        self.own().has_free.store(has_free, SeqCst);
        crossing_point();
        if has_free {
            self.shared.with_free.0.fetch_add(1, SeqCst)
        } else {
            self.shared.with_free.0.fetch_sub(1, SeqCst)
        };
        has_free
    }

    /// Must be called at the end of each turn, after [`Self::show_free`]. Lets other workers know
    /// of requests that this worker cannot send, and wakes one that can.
    #[inline]
    pub(crate) fn settle(&mut self, now_ns: u64) {
        if self.is_alone() {
            return;
        }
        if self.shows_free {
            self.end_queueing();
        } else {
            self.settle_without_free(now_ns);
        }
    }

    fn settle_without_free(&mut self, now_ns: u64) {
        let mut is_overdue = self.next_due_ns() <= now_ns;
        if is_overdue {
            let following_ns = self.own().lock().following_due_ns();
            // If the second request is overdue too, there is no need to wake up for it: its time
            // has passed.
            let until_ns = if following_ns > now_ns {
                following_ns
            } else {
                NEVER
            };
            crossing_point();
            self.own().sleeps_until_ns.store(until_ns, SeqCst);
            if !self.is_queueing {
                self.is_queueing = true;
                self.shared.queueing.0.fetch_add(1, SeqCst);
            }
            crossing_point();
            // Claims made before that store are seen here. Later ones wake this worker if
            // necessary.
            is_overdue = self.next_due_ns() <= now_ns;
        }
        if !is_overdue {
            self.end_queueing();
        }
        let is_passed_on = self.was_woken && self.shared.queueing.0.load(SeqCst) > 0;
        if is_overdue || is_passed_on {
            self.wake_one();
        }
    }

    fn end_queueing(&mut self) {
        if self.is_queueing {
            self.is_queueing = false;
            self.own().sleeps_until_ns.store(0, SeqCst);
            self.shared.queueing.0.fetch_sub(1, SeqCst);
        }
    }

    /// Wakes one of the workers that show a free connection and have not been woken already.
    fn wake_one(&self) {
        if self.shared.with_free.0.load(SeqCst) == 0 {
            return;
        }
        let others = (1..self.shared.shares.len()).map(|step| self.nth_after(step));
        let mut others = others.map(|worker| &self.shared.shares[worker]);
        let asleep = |share: &&Share| share.has_free.load(SeqCst) && !share.is_woken.load(SeqCst);
        if let Some(share) = others.find(asleep) {
            crossing_point();
            share.wake();
        }
    }

    /// When this worker must check the schedule again by itself, after [`Self::settle`]. `None` if
    /// another worker or a free connection will cause that.
    #[inline]
    pub(crate) fn wakes_at_ns(&self, has_free: bool) -> Option<u64> {
        let at_ns = if self.is_queueing {
            self.own().sleeps_until_ns.load(SeqCst)
        } else if has_free || !self.is_alone() {
            self.next_due_ns()
        } else {
            NEVER
        };
        (at_ns != NEVER).then_some(at_ns)
    }

    /// Ends this worker's part. `report` gets the requests of its share that were due before
    /// `end_ns` and were never claimed: their time and their number.
    pub(crate) fn close(&mut self, end_ns: u64, report: impl FnMut(u64, u64)) {
        self.show_free(false);
        self.end_queueing();
        self.own().close(end_ns, report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacing::{PacingWindow, RequestNumbers};
    use eventloop::epoll::Epoll;
    use eventloop::{EventLoop, LoopOptions};
    use plan::{Arrivals, Lanes, Stage};
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    use std::time::Duration;

    thread_local! {
        /// Makes the steps of a thread take a random time.
        static CROSSING: RefCell<Option<fastrand::Rng>> = const { RefCell::new(None) };
    }

    pub(super) fn crossing_point() {
        CROSSING.with_borrow_mut(|random| match random.as_mut().map(|it| it.u32(0..64)) {
            Some(0..8) => std::thread::yield_now(),
            Some(spins @ 8..16) => (0..spins * 8).for_each(|_| std::hint::spin_loop()),
            _ => {}
        });
    }

    fn pacer(rate_per_sec: f64, worker: u32, workers: u32, requests: u64, now_ns: u64) -> Pacer {
        let pacing = Pacing::Constant {
            rate_per_sec,
            arrivals: Arrivals::Even,
            seed: 0,
        };
        let window = PacingWindow {
            origin_ns: now_ns,
            measure_ns: now_ns,
            requests: Some(requests),
        };
        Pacer::new(
            &pacing,
            RequestNumbers::of_machine(Lanes::in_turn(worker..worker + 1, workers)),
            window,
        )
        .expect("open")
    }

    /// Two workers with one request per millisecond in turn, from 0.
    fn two() -> (ScheduleShare, ScheduleShare) {
        let schedule = SharedSchedule::new(2);
        let shares = (schedule.share(0), schedule.share(1));
        shares.0.begin(pacer(1000.0, 0, 2, 100, 0));
        shares.1.begin(pacer(1000.0, 1, 2, 100, 0));
        shares
    }

    const MS: u64 = 1_000_000;

    fn due_ms(claim: Option<Claim>) -> Option<u64> {
        claim.map(|claim| claim.due_ns / MS)
    }

    #[test]
    fn without_a_queue_every_worker_claims_from_its_own_share() {
        let (mut first, mut second) = two();
        assert_eq!(due_ms(second.claim(5 * MS)), Some(1));
        assert_eq!(due_ms(first.claim(5 * MS)), Some(0));
        assert_eq!(due_ms(first.claim(5 * MS)), Some(2));
        assert_eq!(due_ms(first.claim(3 * MS)), None);
    }

    #[test]
    fn with_a_queue_the_request_due_first_is_claimed_first() {
        let (mut first, mut second) = two();
        first.settle(4 * MS);
        let claims: Vec<_> = (0..6).map(|_| due_ms(second.claim(4 * MS))).collect();
        assert_eq!(claims, [Some(0), Some(1), Some(2), Some(3), Some(4), None]);
        assert_eq!(first.remaining(), 95);
    }

    #[test]
    fn a_queueing_worker_wakes_one_with_a_free_connection() {
        let (mut first, mut second) = two();
        first.settle(0);
        assert!(!second.own().is_woken.load(SeqCst), "it shows none");
        assert!(second.show_free(true), "the first free one is news");
        assert!(!second.show_free(true));
        first.settle(0);
        second.begin_turn();
        assert!(second.was_woken);
        assert_eq!(due_ms(second.claim(0)), Some(0));
    }

    #[test]
    fn a_worker_whose_queue_was_claimed_wakes_up_for_its_next_request() {
        let (mut first, mut second) = two();
        // One request is overdue: the worker wakes up for the next one by itself.
        first.settle(MS);
        assert_eq!(first.wakes_at_ns(false), Some(2 * MS));
        assert_eq!(due_ms(second.claim(MS)), Some(0));
        assert!(!first.own().is_woken.load(SeqCst));
        // Two requests are overdue: the worker sleeps until it is woken.
        first.settle(4 * MS);
        assert_eq!(first.wakes_at_ns(false), None);
        assert_eq!(due_ms(second.claim(4 * MS)), Some(1));
        assert_eq!(due_ms(second.claim(4 * MS)), Some(2));
        assert!(first.own().is_woken.load(SeqCst));
    }

    #[test]
    fn a_wake_up_that_arrives_too_late_is_passed_on() {
        let schedule = SharedSchedule::new(3);
        let mut shares = [0, 1, 2].map(|worker| schedule.share(worker));
        for (worker, share) in (0..).zip(&shares) {
            share.begin(pacer(1000.0, worker, 3, 100, 0));
        }
        let [starved, used, free] = &mut shares;
        used.show_free(true);
        free.show_free(true);
        starved.settle(0);
        assert!(used.own().is_woken.load(SeqCst));
        // It has used its connection in the meantime.
        used.begin_turn();
        used.show_free(false);
        used.settle(0);
        assert!(free.own().is_woken.load(SeqCst));
    }

    #[test]
    fn a_request_given_back_is_first_again_and_counted_as_remaining() {
        let (mut first, mut second) = two();
        first.settle(2 * MS);
        let claim = second.claim(2 * MS).expect("due");
        assert_eq!(second.remaining(), 99);
        second.give_back(claim);
        assert_eq!(second.remaining(), 100);
        assert_eq!(second.claim(2 * MS).map(|claim| claim.due_ns), Some(0));
        second.give_back(claim);
        let mut left = Vec::new();
        second.close(4 * MS, |due_ns, count| left.push((due_ns / MS, count)));
        assert_eq!(left, [(0, 1), (1, 1), (3, 1)]);
        assert_eq!(first.first_due_ns(), 2 * MS);
    }

    #[test]
    fn a_batch_takes_its_positions_from_the_share_it_was_claimed_from() {
        let (mut first, mut second) = two();
        first.settle(0);
        let claim = second.claim(0).expect("due");
        second.claim_more(claim, 3);
        assert_eq!((first.next_due_ns(), second.next_due_ns()), (8 * MS, MS));
    }

    /// If a thread that sleeps with a free connection has not been woken for this long although a
    /// request is overdue, it never will be.
    const LOST_NS: u64 = 3_000_000_000;

    /// A worker whose connections are only times at which they become free again.
    fn pretend(
        mut share: ScheduleShare,
        connections: usize,
        mut random: fastrand::Rng,
        (everybody_ready, is_lost): (&Barrier, &AtomicBool),
        start: impl FnOnce(u64) -> Pacer,
    ) -> Vec<Claim> {
        let mut io = Epoll::new(&LoopOptions::default()).expect("an event loop");
        share.set_waker(io.waker(0).expect("a waker"));
        CROSSING.set(Some(random.fork()));
        everybody_ready.wait();
        share.begin(start(io.now_ns()));
        let mut busy_until_ns: Vec<u64> = Vec::new();
        let mut claimed = Vec::new();
        while share.remaining() > 0 && !is_lost.load(SeqCst) {
            let mut now_ns = io.now_ns();
            share.begin_turn();
            busy_until_ns.retain(|until_ns| *until_ns > now_ns);
            loop {
                while busy_until_ns.len() < connections
                    && let Some(claim) = share.claim(now_ns)
                {
                    claimed.push(claim);
                    busy_until_ns.push(now_ns + random.u64(0..30_000));
                }
                if !share.show_free(busy_until_ns.len() < connections) {
                    break;
                }
                now_ns = io.now_ns();
            }
            share.settle(now_ns);
            let has_free = busy_until_ns.len() < connections;
            let armed_ns = share.wakes_at_ns(has_free);
            let armed_ns = busy_until_ns.iter().copied().chain(armed_ns).min();
            if share.remaining() == 0 {
                break;
            }
            io.wait(Some(armed_ns.unwrap_or(now_ns + LOST_NS)))
                .expect("waits");
            let woke_ns = io.now_ns();
            while io.next().is_some() {}
            if armed_ns.is_none()
                && has_free
                && woke_ns >= now_ns + LOST_NS
                && share.first_due_ns() < now_ns + LOST_NS / 2
            {
                is_lost.store(true, SeqCst);
            }
        }
        // The others have nothing left to wait for.
        share.shared.shares.iter().for_each(Share::wake);
        claimed
    }

    /// Requests arrive in bursts, and all of them are assigned to workers without any connection.
    /// Without further requests, a lost wake-up is not repaired by the next one.
    fn bursts(random: &mut fastrand::Rng, now_ns: u64) -> Pacer {
        let stage = |per_sec: f64, duration_us: u64| Stage {
            from_per_sec: per_sec,
            to_per_sec: per_sec,
            duration: Duration::from_micros(duration_us),
        };
        let mut stages = Vec::new();
        for _ in 0..4 {
            stages.push(stage(f64::from(random.u32(1..5)) * 1e6, 1));
            stages.push(stage(0.0, random.u64(5..60)));
        }
        // The last rate continues.
        stages.push(stage(1e6, 1));
        let pacing = Pacing::Stages {
            stages,
            arrivals: Arrivals::Even,
            seed: 0,
        };
        let window = PacingWindow {
            origin_ns: now_ns,
            measure_ns: now_ns,
            requests: Some(BURSTS),
        };
        Pacer::new(
            &pacing,
            RequestNumbers::of_machine(Lanes::in_turn(0..1, 1)),
            window,
        )
        .expect("open")
    }

    /// This many requests, in four bursts and at the last rate after them.
    const BURSTS: u64 = 8;

    /// Whichever way threads cross, no request is claimed twice, and none is left while a
    /// connection is free.
    #[test]
    fn every_request_is_claimed_once_and_no_wake_up_is_lost() {
        let connections = [0, 0, 1, 1, 2];
        for seed in 0..1000 {
            let schedule = SharedSchedule::new(connections.len());
            let everybody_ready = Barrier::new(connections.len());
            let is_lost = AtomicBool::new(false);
            let mut random = fastrand::Rng::with_seed(seed);
            let claimed = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..)
                    .zip(connections)
                    .map(|(worker, connections)| {
                        let share = schedule.share(worker);
                        let (mut random, common) = (random.fork(), (&everybody_ready, &is_lost));
                        let start = {
                            let mut random = random.fork();
                            move |now_ns| match worker {
                                0 | 1 => bursts(&mut random, now_ns),
                                _ => pacer(1.0, 0, 1, 0, now_ns),
                            }
                        };
                        scope.spawn(move || pretend(share, connections, random, common, start))
                    })
                    .collect();
                let claimed = threads.into_iter().map(|it| it.join().expect("no panic"));
                claimed.flatten().collect::<Vec<_>>()
            });
            assert!(!is_lost.into_inner(), "seed {seed}: a wake-up was lost");
            assert_eq!(claimed.len() as u64, 2 * BURSTS, "seed {seed}");
            let apart = claimed.iter().map(|claim| (claim.from, claim.due_ns));
            let apart: BTreeSet<_> = apart.collect();
            assert_eq!(apart.len() as u64, 2 * BURSTS, "seed {seed}");
        }
    }
}
