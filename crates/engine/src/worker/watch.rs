//! When the bytes that are read have arrived, and when the worker did not run.
//!
//! The kernel stamps what arrives on some connections with the time. On the others, the time is
//! estimated from what the worker knows:
//!
//! - Whatever a wait finds has arrived since the look before. If the worker slept, it has arrived
//!   since the wait began, because a wait does not sleep while there is something to take.
//! - What ends a sleep wakes the worker. If another program has its CPU, the worker waits, and the
//!   kernel counts how long ([`crate::UsageProbe::run_queue_wait_ns`]). So the first arrival was
//!   that much before the end of the wait.
//! - A wait that took long did not always sleep: finding a hundred completions takes time as well.
//!   After a slow turn, the kernel is asked whether the thread slept
//!   ([`crate::UsageProbe::sleeps`]).
//! - A wait that ends after its deadline should have ended there. The rest of it, the worker did
//!   not run: it was stopped, for example. Nothing was sent meanwhile, so what is found next has
//!   arrived within the time that requests usually take.
//! - Completions come in the order in which the bytes arrived. So what comes between two
//!   completions with a stamp has arrived between their times, and what comes after the last one
//!   is taken to have arrived as quickly, one after another, as what came before.

use std::collections::VecDeque;

use results::{Attribution, Standstill};

/// A wait that took less than this found its completion at once: the thread did not sleep.
const SLEPT_MIN_NS: u64 = 10_000;

/// After a turn that took this long, it matters whether the wait slept: what it finds may have
/// arrived at any time of that turn.
const SLOW_TURN_NS: u64 = 1_000_000;

/// The time that the worker waited for a CPU is read again if the last reading is older than this.
/// Only then is it known of a wait whether the worker waited for a CPU in it or before.
const CPU_WAIT_AGE_MAX_NS: u64 = 1_000_000;

/// After so many waits that found a part of what there was, and no timestamp, it is not known any
/// more when that was, unless the responses to requests from before a pause are still to come.
const PARTS_MAX: u32 = 8;

/// Looks of which completions are left. More than these are joined, so that nothing is allocated.
/// With a slow script, there is one for each response that waits.
const LOOKS_MAX: usize = 1_024;

/// Follows when the worker waits, and when it reads what.
#[derive(Debug)]
pub(super) struct Watch {
    /// The last known time.
    now_ns: u64,
    /// Everything that arrived before was found. What is found now arrived later.
    looked_ns: u64,
    /// What is read after this wait may have been in the kernel since then.
    since_ns: u64,
    /// The deadline of the current or last wait.
    until_ns: u64,
    /// That wait has not slept. Otherwise it is only known how long it took, and that may be the
    /// time of sending.
    is_pending: bool,
    /// No completion of this wait was taken yet.
    waits: bool,
    /// How often the thread had slept before this wait. `None` if the turn before it was short.
    sleeps_before: Option<u64>,
    /// The completions that the current wait found, and those that others had left.
    found: usize,
    /// What is taken now, or was taken last: what one look at the sockets found.
    current: Look,
    /// What later looks found before that was all taken, the oldest first.
    later: VecDeque<Look>,
    /// The kernel kept a part of what there was when the wait before ended.
    kept: bool,
    /// The kernel keeps a part of what there is now.
    keeps: bool,
    /// Since when the worker did not run before this turn.
    paused_ns: Option<u64>,
    /// The first bytes on each connection in that pause arrived within this time of its start.
    /// `u64::MAX` if that is not known.
    arrived_within_ns: u64,
    /// How many connections had requests in flight in the last pause.
    awaited: usize,
    /// How many of the requests that were in flight in that pause are not answered yet.
    paused_left: usize,
    cpu_wait: CpuWait,
    /// Time in the script since the last reading of the clock that was not about the script.
    script_ns: u64,
    /// When the script last ended. Completions that are handled after it may have been taken
    /// before.
    script_end_ns: u64,
}

/// What the kernel counts of the worker's thread; `None` if it is not known.
pub(super) trait ThreadCounters {
    /// How long the thread could run and waited for a CPU, nanoseconds.
    fn cpu_wait_ns(&mut self) -> Option<u64>;

    /// How often the thread has slept.
    fn sleeps(&mut self) -> Option<u64>;
}

/// What the worker found at one time, in the order of arrival. The times of arrival are a straight
/// line from one known time to the next.
#[derive(Debug, Default, Clone, Copy)]
struct Look {
    /// Whether something in it may have waited long enough to matter.
    is_late: bool,
    /// Nothing tells that something in it was late, but a timestamp could.
    is_doubtful: bool,
    /// Completions, and how many of them were taken.
    count: usize,
    taken: usize,
    /// A completion, as a number of those before it, with the time at which its bytes arrived.
    known: (usize, u64),
    /// From one arrival to the next after it.
    step_ns: u64,
    /// Everything had arrived then.
    latest_ns: u64,
    /// How many waits have found a part of it since an arrival was known.
    parts: u32,
}

/// How long the thread waited for a CPU since it was last asked.
#[derive(Debug, Default)]
struct CpuWait {
    /// Whether it is worth a system call: some connections have no timestamps.
    is_asked: bool,
    /// When it was last read, and the total then.
    read_ns: u64,
    total_ns: Option<u64>,
}

/// The time of one call of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScriptTime {
    /// How long the call took.
    pub(crate) took_ns: u64,
    /// How long the connection was not used, which includes the calls for connections before it.
    pub(crate) idle_ns: u64,
}

impl Look {
    /// The first of `count` completions arrived at `first_ns`, the others until `latest_ns`. A
    /// worker that does not run sends nothing, so most of them came soon.
    fn from_first(count: usize, first_ns: u64, latest_ns: u64) -> Self {
        Self {
            is_late: latest_ns.saturating_sub(first_ns) >= Attribution::MIN_NS,
            is_doubtful: false,
            count,
            taken: 0,
            known: (0, first_ns),
            step_ns: 0,
            latest_ns,
            parts: 0,
        }
    }

    /// The `count` completions arrived at any time from `from_ns` to `latest_ns`, while the worker
    /// was sending.
    fn spread(count: usize, from_ns: u64, latest_ns: u64) -> Self {
        let step_ns = latest_ns.saturating_sub(from_ns) / count.max(1) as u64;
        Self {
            known: (0, from_ns.saturating_add(step_ns / 2)),
            step_ns,
            ..Self::from_first(count, from_ns, latest_ns)
        }
    }

    /// The rest of what there was, which is found at `at_ns`.
    fn rest(&self, count: usize, at_ns: u64) -> Self {
        let next_ns = self.arrived_ns(self.count);
        Self {
            is_late: at_ns.saturating_sub(next_ns) >= Attribution::MIN_NS,
            count,
            taken: 0,
            known: (0, next_ns),
            parts: self.parts + 1,
            latest_ns: at_ns,
            ..*self
        }
    }

    /// The rest of what there was is found at `at_ns`. It belongs to the same straight line, so a
    /// timestamp on what was found before tells of it, too.
    fn extend(&mut self, count: usize, at_ns: u64) {
        self.count += count;
        self.latest_ns = at_ns;
        self.parts += 1;
    }

    #[inline]
    fn untaken(&self) -> usize {
        self.count.saturating_sub(self.taken)
    }

    /// When the bytes of the completion with this many before it arrived.
    fn arrived_ns(&self, index: usize) -> u64 {
        let (known, arrived_ns) = self.known;
        let steps = index.saturating_sub(known) as u64;
        let arrived_ns = arrived_ns.saturating_add(steps.saturating_mul(self.step_ns));
        arrived_ns.min(self.latest_ns)
    }

    /// Adds what the next look has found. What arrived in between is taken to have arrived one
    /// after another.
    fn join(&mut self, next: &Self) {
        let (known, arrived_ns) = self.known;
        let steps = self.count.saturating_sub(known).max(1) as u64;
        self.step_ns = next.known.1.saturating_sub(arrived_ns) / steps;
        self.count += next.count;
        self.latest_ns = next.latest_ns;
        self.is_late |= next.is_late;
    }

    /// When the next completion arrived.
    #[inline]
    fn take(&mut self) -> u64 {
        let index = self.taken;
        self.taken += 1;
        if self.is_late {
            self.arrived_ns(index)
        } else {
            self.latest_ns
        }
    }

    /// The completion that was taken last has a timestamp.
    fn learn(&mut self, arrived_ns: u64) {
        let index = self.taken.saturating_sub(1);
        let (known, before_ns) = self.known;
        let since_ns = arrived_ns.saturating_sub(before_ns);
        let left = self.count.saturating_sub(index).max(1) as u64;
        let longest_ns = self.latest_ns.saturating_sub(arrived_ns) / left;
        self.step_ns = match index.saturating_sub(known) as u64 {
            0 => longest_ns.min(self.step_ns),
            steps => longest_ns.min(since_ns / steps),
        };
        self.known = (index, arrived_ns);
        self.parts = 0;
    }
}

impl CpuWait {
    fn is_old(&self, now_ns: u64) -> bool {
        self.total_ns.is_none() || now_ns.saturating_sub(self.read_ns) >= CPU_WAIT_AGE_MAX_NS
    }

    /// How long the thread waited since the last reading.
    fn since_last(&mut self, now_ns: u64, thread: &mut impl ThreadCounters) -> u64 {
        if !self.is_asked {
            return 0;
        }
        let total_ns = thread.cpu_wait_ns();
        self.read_ns = now_ns;
        let before_ns = std::mem::replace(&mut self.total_ns, total_ns);
        match (before_ns, total_ns) {
            (Some(before_ns), Some(total_ns)) => total_ns.saturating_sub(before_ns),
            _ => 0,
        }
    }
}

impl Watch {
    /// `has_gaps`: some connections have no timestamps.
    pub(super) fn new(has_gaps: bool) -> Self {
        Self {
            now_ns: 0,
            looked_ns: 0,
            since_ns: 0,
            until_ns: 0,
            is_pending: false,
            waits: false,
            sleeps_before: None,
            found: 0,
            current: Look::default(),
            later: VecDeque::with_capacity(LOOKS_MAX),
            kept: false,
            keeps: false,
            paused_ns: None,
            arrived_within_ns: u64::MAX,
            awaited: 0,
            paused_left: 0,
            cpu_wait: CpuWait {
                is_asked: has_gaps,
                ..CpuWait::default()
            },
            script_ns: 0,
            script_end_ns: 0,
        }
    }

    /// The run begins. Nothing has arrived before.
    pub(super) fn start(&mut self, now_ns: u64) {
        (self.now_ns, self.looked_ns, self.since_ns) = (now_ns, now_ns, now_ns);
    }

    /// The clock was read. Nothing was read from sockets.
    #[inline]
    pub(super) fn note(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// The script ended at this time.
    pub(super) fn note_script(&mut self, now_ns: u64) -> ScriptTime {
        let idle_ns = now_ns.saturating_sub(self.now_ns);
        let took_ns = now_ns.saturating_sub(self.now_ns.max(self.script_end_ns));
        self.script_ns += took_ns;
        self.script_end_ns = now_ns;
        self.now_ns = now_ns;
        ScriptTime { took_ns, idle_ns }
    }

    /// A turn begins. Returns a standstill that is noticed now.
    pub(super) fn begin_turn(
        &mut self,
        now_ns: u64,
        thread: &mut impl ThreadCounters,
    ) -> Option<(u64, u64)> {
        let mut from_ns = self.now_ns;
        if self.waits {
            // The wait ended by its deadline.
            self.looked_ns = self.until_ns.clamp(self.now_ns, now_ns);
            from_ns = self.looked_ns;
        }
        self.waits = false;
        if self.cpu_wait.is_old(now_ns) {
            self.cpu_wait.since_last(now_ns, thread);
        }
        let gap = self.stood_still(from_ns, now_ns);
        self.paused_ns = gap.map(|(from_ns, _)| from_ns);
        self.arrived_within_ns = u64::MAX;
        // What the kernel has now may have arrived in the pause.
        self.keeps &= gap.is_none();
        gap
    }

    /// Tells how many requests were in flight in the pause that was noticed last, and on how many
    /// connections.
    pub(super) fn note_pause(&mut self, in_flight: usize, connections: usize) {
        self.paused_left = in_flight;
        self.awaited = connections;
    }

    /// Sets within which time of its start the pause before this turn had the first response on
    /// each connection.
    pub(super) fn expect_within(&mut self, arrived_within_ns: u64) {
        self.arrived_within_ns = arrived_within_ns;
    }

    /// A wait with this deadline begins. `is_pending`: it is known to find something at once.
    pub(super) fn begin_wait(
        &mut self,
        until_ns: u64,
        is_pending: bool,
        thread: &mut impl ThreadCounters,
    ) {
        self.until_ns = until_ns;
        self.is_pending = is_pending;
        self.waits = true;
        let may_sleep = !is_pending && until_ns > self.now_ns;
        self.sleeps_before = None;
        if may_sleep && self.now_ns.saturating_sub(self.looked_ns) >= SLOW_TURN_NS {
            self.sleeps_before = thread.sleeps();
        }
    }

    /// The wait is over. This many completions can be taken, with those that were left before, and
    /// the kernel may keep more.
    #[inline]
    pub(super) fn end_wait(&mut self, found: usize, keeps: bool) {
        let is_known = self.awaits_answers() || self.newest().parts < PARTS_MAX;
        self.kept = self.keeps && is_known;
        self.set_keeps(keeps);
        self.found = found;
    }

    /// A second look, right after the first one, has found more: this many completions can be taken
    /// now. They have arrived in the same time.
    pub(super) fn found_more(&mut self, found: usize, keeps: bool) {
        let new = found.saturating_sub(self.untaken());
        self.set_keeps(keeps);
        self.newest_mut().count += new;
        let Look {
            count,
            known,
            step_ns,
            latest_ns,
            ..
        } = *self.newest();
        // All arrivals are taken to be at the start of the pause so far.
        if !keeps && known.0 == 0 && step_ns == 0 {
            let busy_ns = self.busy_ns(latest_ns.saturating_sub(known.1), count);
            self.newest_mut().step_ns = busy_ns / count.max(1) as u64;
        }
    }

    /// If the kernel keeps nothing, all that arrived in the last pause is found.
    #[inline]
    fn set_keeps(&mut self, keeps: bool) {
        self.keeps = keeps;
        self.paused_left = if keeps { self.paused_left } else { 0 };
    }

    /// Whether requests are unanswered that were in flight in the last pause.
    #[inline]
    pub(super) fn awaits_answers(&self) -> bool {
        self.paused_left > 0
    }

    /// So many requests were answered. What is found does not tell how many are: sends complete,
    /// too.
    pub(super) fn note_answers(&mut self, answers: usize) {
        self.paused_left = self.paused_left.saturating_sub(answers);
    }

    /// Whether this wait has found the rest of what the one before had found.
    #[inline]
    pub(super) fn continues(&self) -> bool {
        self.kept
    }

    /// This many of the completions that were found are not taken in this turn.
    #[inline]
    pub(super) fn leave(&mut self, left: usize) {
        // Some of what was counted was no completion.
        let mut surplus = self.untaken().saturating_sub(left);
        while surplus > 0 {
            let removed = surplus.min(self.current.untaken());
            self.current.count -= removed;
            surplus -= removed;
            self.skip_taken();
        }
    }

    /// Goes on to the next look if all of the current one is taken.
    #[inline]
    fn skip_taken(&mut self) {
        while self.current.untaken() == 0
            && let Some(next) = self.later.pop_front()
        {
            self.current = next;
        }
    }

    fn newest(&self) -> &Look {
        self.later.back().unwrap_or(&self.current)
    }

    fn newest_mut(&mut self) -> &mut Look {
        self.later.back_mut().unwrap_or(&mut self.current)
    }

    /// A completion was taken at this time. Returns how long its bytes may have waited to be read,
    /// and a standstill that is noticed now.
    // Always inlined, because this is called for each completion and `look` is not.
    #[inline(always)]
    pub(super) fn completed(
        &mut self,
        at_ns: u64,
        thread: &mut impl ThreadCounters,
    ) -> (u64, Option<(u64, u64)>) {
        let from_ns = if self.waits {
            self.look(at_ns, thread)
        } else {
            self.now_ns
        };
        let gap = self.stood_still(from_ns, at_ns);
        self.skip_taken();
        let arrived_ns = self.current.take();
        (at_ns.saturating_sub(arrived_ns), gap)
    }

    /// Whether a timestamp may still show that the last completion was read late.
    #[inline]
    pub(super) fn is_in_doubt(&self) -> bool {
        self.current.is_doubtful
    }

    /// Whether a timestamp of the last completion tells something of those beside it.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.current.is_late || self.current.is_doubtful
    }

    /// The kernel has stamped the bytes of the last completion with this time. Returns whether it
    /// shows that the completions before it, which nothing else has shown to be late, were late by
    /// at least as much.
    #[inline]
    pub(super) fn note_arrival(&mut self, arrived_ns: u64) -> bool {
        let look = &mut self.current;
        if look.is_late {
            look.learn(arrived_ns);
            return false;
        }
        let is_shown =
            look.is_doubtful && look.latest_ns.saturating_sub(arrived_ns) >= Attribution::MIN_NS;
        if is_shown {
            let index = look.taken.saturating_sub(1);
            (look.is_late, look.is_doubtful) = (true, false);
            (look.known, look.step_ns, look.parts) = ((index, arrived_ns), 0, 0);
        }
        is_shown
    }

    /// The first completion of a wait was taken at this time. Returns since when the worker did not
    /// run.
    #[inline(never)]
    fn look(&mut self, at_ns: u64, thread: &mut impl ThreadCounters) -> u64 {
        self.waits = false;
        let left = self.untaken();
        // There is one at least: the completion that was taken.
        let found = self.found.saturating_sub(left).max(usize::from(left == 0));
        let is_rest = self.kept && self.is_pending;
        let new = if is_rest { 0 } else { found };
        if is_rest {
            self.add_rest(found, at_ns);
        }
        let waited_ns = at_ns.saturating_sub(self.now_ns);
        let mut from_ns = at_ns;
        let may_sleep = !self.is_pending && self.until_ns > self.now_ns;
        let slept = may_sleep && waited_ns >= SLEPT_MIN_NS && self.has_slept(thread);
        let look = if is_rest {
            from_ns = from_ns.min(self.now_ns);
            Look::default()
        } else if slept {
            let mut woken_ns = at_ns;
            if waited_ns >= Attribution::MIN_NS {
                let late_ns = self.cpu_wait.since_last(at_ns, thread);
                woken_ns = at_ns.saturating_sub(late_ns);
            }
            from_ns = woken_ns.min(self.until_ns).max(self.now_ns);
            self.since_ns = from_ns;
            let look = Look::from_first(new, from_ns, at_ns);
            Look {
                // It may also not have slept, and have taken long to find so much.
                is_doubtful: !look.is_late
                    && at_ns.saturating_sub(self.looked_ns) >= Attribution::MIN_NS,
                ..look
            }
        } else if let Some(paused_ns) = self.paused_ns.take() {
            from_ns = from_ns.min(self.now_ns);
            self.since_ns = self.looked_ns.min(paused_ns);
            if self.keeps {
                // The kernel keeps more of what arrived in the pause, so this is what came first.
                Look::from_first(new, self.since_ns, at_ns)
            } else {
                Look {
                    latest_ns: self.now_ns,
                    ..Look::spread(new, self.since_ns, self.last_in_pause_ns(new))
                }
            }
        } else {
            // It was there already.
            from_ns = from_ns.min(self.now_ns);
            self.since_ns = self.looked_ns.min(self.now_ns);
            Look {
                is_late: at_ns.saturating_sub(self.since_ns) >= Attribution::MIN_NS,
                ..Look::spread(new, self.since_ns, self.now_ns)
            }
        };
        self.looked_ns = at_ns;
        if new > 0 {
            self.add_look(look);
        }
        from_ns
    }

    /// Adds the rest of what the newest look has found, which is found at `at_ns`.
    fn add_rest(&mut self, rest: usize, at_ns: u64) {
        if self.newest().is_late {
            self.newest_mut().extend(rest, at_ns);
        } else {
            self.add_look(self.newest().rest(rest, at_ns));
        }
    }

    /// When the last one of `heard` connections had its first response in the pause before this
    /// turn.
    fn last_in_pause_ns(&self, heard: usize) -> u64 {
        let pause_ns = self.now_ns.saturating_sub(self.since_ns);
        // Nothing was sent in the pause, so what came in it may have come soon.
        let soon_ns = self.arrived_within_ns.min(pause_ns);
        self.since_ns + soon_ns + self.busy_ns(pause_ns - soon_ns, heard)
    }

    /// How much of a pause the server needed for its responses on `heard` connections: as large a
    /// share as that of the connections on which a response is still missing.
    fn busy_ns(&self, pause_ns: u64, heard: usize) -> u64 {
        let unheard = self.awaited.saturating_sub(heard) as u64;
        pause_ns / self.awaited.max(1) as u64 * unheard
    }

    /// Whether the thread has slept in this wait, as far as known.
    fn has_slept(&mut self, thread: &mut impl ThreadCounters) -> bool {
        let before = self.sleeps_before.take();
        before.is_none_or(|before| thread.sleeps() != Some(before))
    }

    fn add_look(&mut self, look: Look) {
        self.skip_taken();
        if self.current.untaken() == 0 {
            self.current = look;
        } else if self.later.len() < LOOKS_MAX {
            self.later.push_back(look);
        } else if let Some(newest) = self.later.back_mut() {
            newest.join(&look);
        }
    }

    /// Completions that were found and not taken, as far as known.
    pub(super) fn untaken(&self) -> usize {
        let later: usize = self.later.iter().map(Look::untaken).sum();
        self.current.untaken() + later
    }

    /// The last known time.
    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Everything that arrived before this time was found.
    pub(super) fn looked_ns(&self) -> u64 {
        self.looked_ns
    }

    /// The earliest time at which bytes that have not been read when the run ends at `ended_ns` may
    /// have arrived.
    pub(super) fn unread_since_ns(&self, ended_ns: u64) -> u64 {
        if self.waits {
            self.until_ns.min(ended_ns)
        } else {
            self.since_ns.min(ended_ns)
        }
    }

    /// Start and end of the time from `from_ns` to `to_ns`, if no script explains it.
    #[inline]
    fn stood_still(&mut self, from_ns: u64, to_ns: u64) -> Option<(u64, u64)> {
        self.now_ns = to_ns;
        let script_ns = std::mem::take(&mut self.script_ns);
        let length_ns = to_ns.saturating_sub(from_ns);
        (length_ns.saturating_sub(script_ns) >= Attribution::STANDSTILL_MIN_NS)
            .then_some((from_ns, to_ns))
    }
}

/// The part of a time from `from_ns` to `to_ns` that is within a window from `start_ns` to
/// `end_ns`, if it is long enough.
pub(crate) fn standstill_within(
    (from_ns, to_ns): (u64, u64),
    start_ns: u64,
    end_ns: u64,
) -> Option<Standstill> {
    let from_ns = from_ns.max(start_ns);
    let length_ns = to_ns.min(end_ns).saturating_sub(from_ns);
    (length_ns >= Attribution::STANDSTILL_MIN_NS).then(|| Standstill {
        start_ns: from_ns - start_ns,
        length_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;

    /// A worker whose connections have no timestamps, and that never waits for a CPU.
    struct Worker(Watch);

    /// A thread that has waited for a CPU for so long, and of which nothing else is known.
    struct Waited(Option<u64>);

    impl ThreadCounters for Waited {
        fn cpu_wait_ns(&mut self) -> Option<u64> {
            self.0
        }

        fn sleeps(&mut self) -> Option<u64> {
            None
        }
    }

    impl Worker {
        fn new() -> Self {
            Self(Watch::new(true))
        }

        fn turn(&mut self, now_ns: u64, until_ns: u64) -> Option<(u64, u64)> {
            let gap = self.0.begin_turn(now_ns, &mut Waited(Some(0)));
            self.0.begin_wait(until_ns, false, &mut Waited(None));
            gap
        }

        /// The first of this many completions is taken.
        fn finds(&mut self, count: usize, at_ns: u64) -> (u64, Option<(u64, u64)>) {
            self.finds_after(count, at_ns, 0)
        }

        /// The same, after the thread waited for a CPU for so long.
        fn finds_after(
            &mut self,
            count: usize,
            at_ns: u64,
            cpu_wait_ns: u64,
        ) -> (u64, Option<(u64, u64)>) {
            self.0.end_wait(count, false);
            self.0.completed(at_ns, &mut Waited(Some(cpu_wait_ns)))
        }

        fn takes(&mut self, at_ns: u64) -> (u64, Option<(u64, u64)>) {
            self.0.completed(at_ns, &mut Waited(None))
        }

        /// How late the rest of this many completions are that were found at `at_ns`.
        fn rest_late_ns(&mut self, rest: usize, at_ns: u64) -> Vec<u64> {
            (0..rest).map(|_| self.takes(at_ns).0).collect()
        }
    }

    #[test]
    fn what_ends_a_wait_has_just_arrived() {
        let mut worker = Worker::new();
        assert_eq!(worker.turn(0, 10 * MS), None);
        assert_eq!(worker.finds(2, 3 * MS), (0, None));
        // The next one was read after the first one was handled.
        assert_eq!(worker.takes(3 * MS + 20 * US), (20 * US, None));
    }

    #[test]
    fn what_is_read_after_the_deadline_of_a_wait_has_waited_since_then() {
        let mut worker = Worker::new();
        worker.turn(0, 10 * MS);
        let stood = Some((10 * MS, 460 * MS));
        assert_eq!(worker.finds(1, 460 * MS), (450 * MS, stood));
    }

    #[test]
    fn what_a_second_look_finds_has_arrived_in_the_pause_as_well() {
        let mut worker = Worker::new();
        worker.turn(0, 10 * MS);
        // The wait took one completion, and the worker was stopped then.
        worker.finds(1, 460 * MS);
        worker.0.found_more(3, false);
        assert_eq!(worker.rest_late_ns(3, 460 * MS), [450 * MS; 3]);
    }

    #[test]
    fn what_is_read_in_parts_after_a_pause_has_arrived_in_the_pause() {
        let mut worker = Worker::new();
        worker.turn(0, 10 * MS);
        worker.0.end_wait(0, true);
        // The wait has found nothing.
        let paused = worker.0.begin_turn(460 * MS, &mut Waited(Some(0)));
        assert_eq!(paused, Some((10 * MS, 460 * MS)));
        for _ in 0..3 {
            worker.0.begin_wait(470 * MS, true, &mut Waited(None));
            worker.0.end_wait(20, true);
            let (late_ns, gap) = worker.0.completed(460 * MS, &mut Waited(Some(0)));
            assert_eq!((late_ns, gap), (450 * MS, None));
            assert_eq!(worker.rest_late_ns(19, 460 * MS), [450 * MS; 19]);
            worker.0.leave(0);
            assert_eq!(worker.0.begin_turn(460 * MS, &mut Waited(Some(0))), None);
        }
        // One of them has a timestamp.
        worker.0.begin_wait(470 * MS, true, &mut Waited(None));
        worker.0.end_wait(20, true);
        worker.0.completed(460 * MS, &mut Waited(Some(0)));
        worker.0.note_arrival(110 * MS);
        assert!(worker.rest_late_ns(19, 460 * MS)[18] <= 350 * MS);
    }

    /// A worker that was stopped for 500 ms, with so many requests in flight.
    fn after_a_pause(in_flight: usize) -> Worker {
        let mut worker = Worker::new();
        worker.turn(0, 10 * MS);
        worker.0.begin_turn(510 * MS, &mut Waited(Some(0)));
        worker.0.note_pause(in_flight, 0);
        worker.0.expect_within(125 * MS);
        worker
    }

    impl Worker {
        /// A wait finds completions at 510 ms, so that this many can be taken.
        fn finds_at_once(&mut self, found: usize, keeps: bool) {
            self.0.begin_wait(520 * MS, true, &mut Waited(None));
            self.0.end_wait(found, keeps);
        }

        /// This many are taken, and the others are left. Returns how late they are.
        fn takes_of(&mut self, count: usize, found: usize) -> Vec<u64> {
            let late_ns = self.rest_late_ns(count, 510 * MS);
            self.0.note_answers(count);
            self.0.leave(found - count);
            self.0.begin_turn(510 * MS, &mut Waited(Some(0)));
            late_ns
        }
    }

    #[test]
    fn all_responses_to_requests_from_before_a_pause_may_have_arrived_in_the_pause() {
        for (in_flight, late_parts) in [(500, 13), (100, 9)] {
            let mut worker = after_a_pause(in_flight);
            let are_late = (0..15).map(|_| {
                worker.finds_at_once(40, true);
                worker.takes_of(40, 40) == [500 * MS; 40]
            });
            assert_eq!(are_late.take_while(|it| *it).count(), late_parts);
        }
    }

    #[test]
    fn a_timestamp_tells_of_what_later_waits_have_added() {
        let mut worker = after_a_pause(500);
        worker.finds_at_once(40, true);
        worker.takes_of(16, 40);
        worker.finds_at_once(64, true);
        // One has arrived each 250 us. The 25th has a timestamp.
        worker.rest_late_ns(9, 510 * MS);
        worker.0.note_arrival(16 * MS);
        assert_eq!(worker.takes_of(7, 55)[6], 492_250 * US);
        worker.finds_at_once(88, true);
        assert_eq!(worker.takes_of(80, 88)[79], 472_250 * US);
    }

    #[test]
    fn sends_that_complete_after_a_pause_are_no_responses_from_before_it() {
        let mut worker = after_a_pause(500);
        for _ in 0..30 {
            // Four responses and 36 sends, which are not handed out.
            worker.finds_at_once(40, true);
            assert_eq!(worker.takes_of(4, 4), [500 * MS; 4]);
        }
    }

    #[test]
    fn what_wakes_a_worker_that_waits_for_a_cpu_has_arrived_before_that_wait() {
        let mut worker = Worker::new();
        worker.turn(0, 10 * MS);
        let (late_ns, gap) = worker.finds_after(1, 8 * MS, 6 * MS);
        assert_eq!((late_ns, gap), (6 * MS, None));
        worker.0.leave(0);
        // It had waited for 6 ms before, and does not now.
        worker.turn(8 * MS + 10 * US, 18 * MS);
        assert_eq!(worker.finds_after(1, 10 * MS, 6 * MS), (0, None));
        let mut worker = Worker::new();
        worker.turn(0, 20 * MS);
        let stood = Some((2 * MS, 14 * MS));
        assert_eq!(worker.finds_after(1, 14 * MS, 12 * MS), (12 * MS, stood));
    }

    /// A thread that has slept so often.
    struct Slept(u64);

    impl ThreadCounters for Slept {
        fn cpu_wait_ns(&mut self) -> Option<u64> {
            Some(0)
        }

        fn sleeps(&mut self) -> Option<u64> {
            Some(self.0)
        }
    }

    #[test]
    fn a_wait_that_did_not_sleep_has_found_what_arrived_in_the_turn_before() {
        for (slept, late_ns) in [(true, 0), (false, 4_100 * US)] {
            let mut watch = Watch::new(true);
            let mut thread = Slept(7);
            watch.begin_turn(0, &mut thread);
            watch.begin_wait(10 * MS, false, &mut thread);
            watch.end_wait(1, false);
            watch.completed(MS, &mut thread);
            watch.leave(0);
            // The turn took 4 ms, and the wait 600 us.
            watch.begin_turn(5 * MS, &mut thread);
            watch.begin_wait(15 * MS, false, &mut thread);
            thread.0 += u64::from(slept);
            watch.end_wait(4, false);
            let first = watch.completed(5_600 * US, &mut thread);
            assert_eq!(first, (late_ns, None), "{slept}");
        }
    }

    #[test]
    fn a_wait_for_a_cpu_that_is_over_is_no_part_of_a_later_sleep() {
        let mut watch = Watch::new(true);
        watch.begin_turn(0, &mut Waited(Some(0)));
        watch.begin_wait(10 * MS, false, &mut Waited(None));
        watch.end_wait(1, false);
        assert_eq!(watch.completed(50 * US, &mut Waited(Some(0))).0, 0);
        watch.leave(0);
        // Another program ran for 6 ms while a completion was handled.
        watch.begin_turn(6 * MS, &mut Waited(Some(6 * MS)));
        watch.begin_wait(16 * MS, false, &mut Waited(None));
        watch.end_wait(1, false);
        assert_eq!(
            watch.completed(8 * MS, &mut Waited(Some(6 * MS))),
            (0, None)
        );
    }

    #[test]
    fn what_comes_between_two_timestamps_has_arrived_between_them() {
        let mut worker = Worker::new();
        worker.turn(0, 20 * MS);
        // 40 completions, the first of which arrived 10 ms ago. The 11th and the 21st have
        // timestamps: one arrived each 100 us, and after that nothing for a while.
        let (first_ns, _) = worker.finds_after(40, 12 * MS, 10 * MS);
        assert_eq!(first_ns, 10 * MS);
        worker.rest_late_ns(10, 12 * MS);
        worker.0.note_arrival(3 * MS);
        let next = worker.rest_late_ns(10, 12 * MS);
        worker.0.note_arrival(4 * MS);
        assert_eq!((next[0], next[8]), (8_900 * US, 8_100 * US));
        let last = worker.rest_late_ns(19, 12 * MS);
        assert_eq!((last[0], last[18]), (7_900 * US, 6_100 * US));
    }

    #[test]
    fn a_timestamp_shows_that_what_came_before_was_late_too() {
        let mut worker = Worker::new();
        worker.turn(0, 20 * MS);
        // The machine stood still for 6 ms, which the kernel does not know.
        assert_eq!(worker.finds(5, 8 * MS).0, 0);
        assert!(worker.0.is_in_doubt());
        worker.takes(8 * MS);
        assert!(worker.0.note_arrival(2 * MS));
        assert!(!worker.0.is_in_doubt());
        assert_eq!(worker.rest_late_ns(1, 8 * MS), [6 * MS]);
        worker.takes(8 * MS);
        assert!(!worker.0.note_arrival(3 * MS));
        assert_eq!(worker.rest_late_ns(1, 8 * MS), [4_500 * US]);
    }

    #[test]
    fn without_timestamps_arrivals_are_spread_over_the_time_since_the_look_before() {
        let mut worker = Worker::new();
        worker.turn(0, 10 * MS);
        worker.finds(1, MS);
        worker.0.leave(0);
        // The completion took 4 ms to handle, so the wait does not sleep.
        worker.turn(5 * MS, 15 * MS);
        let (late_ns, gap) = worker.finds(4, 5 * MS + US);
        assert_eq!((late_ns, gap), (3_501 * US, None));
        let others = worker.rest_late_ns(3, 5 * MS + US);
        assert_eq!(others, [2_501 * US, 1_501 * US, 501 * US]);
    }

    #[test]
    fn what_a_turn_leaves_keeps_its_time() {
        let mut worker = Worker::new();
        worker.turn(0, 10 * MS);
        // Three arrived 6 ms ago, and one of them is handled, which takes 1 ms.
        assert_eq!(worker.finds_after(3, 8 * MS, 6 * MS).0, 6 * MS);
        worker.0.note_arrival(2 * MS);
        worker.0.leave(2);
        worker.turn(9 * MS, 9 * MS);
        // One more has arrived since.
        let (late_ns, _) = worker.finds_after(3, 9 * MS, 6 * MS);
        assert_eq!(late_ns, 7 * MS);
        assert_eq!(worker.rest_late_ns(2, 9 * MS), [7 * MS, 500 * US]);
    }

    #[test]
    fn with_one_completion_per_turn_each_keeps_its_time() {
        let mut worker = Worker::new();
        worker.turn(0, 10 * MS);
        let mut late_ns = vec![worker.finds(2, MS).0];
        // Each is handled for 2 ms, and another one arrives then.
        for turn in 0..4 {
            let now_ns = (3 + 2 * turn) * MS;
            worker.0.leave(1);
            worker.turn(now_ns, now_ns + 10 * MS);
            late_ns.push(worker.finds(2, now_ns).0);
        }
        // Each has arrived in the turn before the last one, half of its time after its beginning.
        assert_eq!(late_ns, [0, 2 * MS, 3 * MS, 3 * MS, 3 * MS]);
    }

    #[test]
    fn what_the_kernel_keeps_for_the_next_wait_may_have_arrived_before() {
        let mut watch = Watch::new(true);
        watch.begin_turn(0, &mut Waited(Some(0)));
        watch.begin_wait(20 * MS, false, &mut Waited(None));
        // Six arrived one millisecond after another, and two are reported at a time.
        let mut late_ms = Vec::new();
        for part in 0..3 {
            watch.end_wait(2, part < 2);
            for taken in 0..2 {
                late_ms.push(watch.completed(12 * MS, &mut Waited(Some(10 * MS))).0 / MS);
                if part == 0 && taken == 1 {
                    watch.note_arrival(3 * MS);
                }
            }
            watch.leave(0);
            watch.begin_turn(12 * MS, &mut Waited(Some(10 * MS)));
            watch.begin_wait(20 * MS, part < 2, &mut Waited(None));
        }
        // The second was estimated before its timestamp was known.
        assert_eq!(late_ms, [10, 10, 8, 7, 6, 5]);
        watch.end_wait(1, false);
        assert_eq!(watch.completed(13 * MS, &mut Waited(Some(10 * MS))).0, 0);
    }

    #[test]
    fn completions_that_do_not_come_are_forgotten() {
        let mut watch = Watch::new(false);
        for turn in 1..200 {
            let now_ns = turn * 10 * MS;
            watch.begin_turn(now_ns, &mut Waited(None));
            watch.begin_wait(now_ns + 10 * MS, false, &mut Waited(None));
            watch.end_wait(5, false);
            watch.completed(now_ns + MS, &mut Waited(None));
            watch.leave(2);
        }
        assert!(watch.untaken() <= 2 && watch.later.len() <= LOOKS_MAX);
    }

    #[test]
    fn a_late_end_of_a_wait_without_a_completion_is_a_standstill() {
        let mut worker = Worker::new();
        worker.turn(0, 10 * MS);
        assert_eq!(worker.turn(100 * MS, 110 * MS), Some((10 * MS, 100 * MS)));
        // What is there at once may have arrived in that time.
        let (late_ns, gap) = worker.finds(1, 100 * MS + US);
        assert_eq!((late_ns, gap), (45 * MS + US, None));
    }

    #[test]
    fn what_arrives_in_a_pause_has_arrived_as_soon_as_the_server_usually_responds() {
        let mut worker = Worker::new();
        worker.turn(0, 10 * MS);
        worker.0.begin_turn(110 * MS, &mut Waited(Some(0)));
        worker.0.expect_within(20 * MS);
        worker.0.begin_wait(120 * MS, false, &mut Waited(None));
        assert_eq!(worker.finds(2, 110 * MS), (95 * MS, None));
        assert_eq!(worker.takes(110 * MS), (85 * MS, None));
        // It is known of the pause before this turn only.
        worker.0.leave(0);
        worker.turn(110 * MS, 120 * MS);
        worker.turn(220 * MS, 230 * MS);
        assert_eq!(worker.finds(1, 220 * MS), (50 * MS, None));
    }

    #[test]
    fn a_server_that_has_not_responded_on_all_connections_was_busy_in_the_pause() {
        let mut worker = Worker::new();
        worker.turn(0, 10 * MS);
        worker.0.begin_turn(110 * MS, &mut Waited(Some(0)));
        worker.0.note_pause(50, 8);
        worker.0.expect_within(20 * MS);
        worker.0.begin_wait(120 * MS, false, &mut Waited(None));
        // Two of eight connections: in 20 ms and three quarters of the rest of 100 ms.
        assert_eq!(worker.finds(2, 110 * MS), (80 * MS, None));
        assert_eq!(worker.takes(110 * MS), (40 * MS, None));
        // The same in a wait: three of eight in five eighths of 80 ms.
        let mut worker = Worker::new();
        worker.turn(0, 20 * MS);
        assert_eq!(
            worker.finds(1, 100 * MS),
            (80 * MS, Some((20 * MS, 100 * MS)))
        );
        worker.0.note_pause(50, 8);
        worker.0.found_more(2, false);
        assert_eq!(worker.rest_late_ns(2, 100 * MS), [63_333_334, 46_666_668]);
    }

    #[test]
    fn a_stop_while_completions_are_handled_is_a_standstill_and_time_in_a_script_is_not() {
        let mut worker = Worker::new();
        worker.turn(0, 10 * MS);
        worker.finds(2, MS);
        assert_eq!(worker.takes(51 * MS), (50 * MS, Some((MS, 51 * MS))));
        worker.0.leave(0);
        worker.turn(51 * MS, 61 * MS);
        worker.finds(3, 52 * MS);
        let time = |took_ms, idle_ms| ScriptTime {
            took_ns: took_ms * MS,
            idle_ns: idle_ms * MS,
        };
        assert_eq!(worker.0.note_script(92 * MS), time(40, 40));
        // Taken together with the one before, so its connection waited for the script twice.
        worker.takes(52 * MS);
        assert_eq!(worker.0.note_script(122 * MS), time(30, 70));
        assert_eq!(worker.takes(123 * MS), (71 * MS, None));
    }

    #[test]
    fn a_standstill_counts_as_far_as_it_is_within_the_window() {
        let within = |from, to| standstill_within((from * MS, to * MS), 100 * MS, 1000 * MS);
        let found = within(50, 150).map(|it| (it.start_ns / MS, it.length_ns / MS));
        assert_eq!(found, Some((0, 50)));
        assert_eq!(within(50, 105), None);
        let found = within(900, 2000).map(|it| (it.start_ns / MS, it.length_ns / MS));
        assert_eq!(found, Some((800, 100)));
    }
}
