//! Since when the bytes that are read may have been in the kernel.
//!
//! A worker that waits in the kernel is woken when something arrives, so what it reads then has
//! just arrived. Otherwise it was late: the wait should have ended before, since its deadline had
//! passed, or the worker did not wait because it was busy or did not run. This is only needed for
//! connections without receive timestamps.

use results::{Attribution, Standstill};

/// A wait that took less than this found its completion at once: the thread did not sleep.
const SLEPT_MIN_NS: u64 = 10_000;

/// Follows when the worker waits and when it reads.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The last known time.
    now_ns: u64,
    /// Everything that arrived before was read. What is read now arrived later.
    looked_ns: u64,
    /// What is read after this wait may have been in the kernel since then.
    since_ns: u64,
    /// The deadline of the current or last wait.
    until_ns: u64,
    /// No completion of this wait was taken yet.
    waits: bool,
    /// Time in the script since the last reading of the clock that was not about the script.
    script_ns: u64,
    /// When the script last ended. Completions that are handled after it may have been taken
    /// before.
    script_end_ns: u64,
}

/// The time of one call of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScriptTime {
    /// How long the call took.
    pub(crate) took_ns: u64,
    /// How long the connection was not used, which includes the calls for connections before it.
    pub(crate) idle_ns: u64,
}

impl Watch {
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
    pub(super) fn begin_turn(&mut self, now_ns: u64) -> Option<(u64, u64)> {
        let mut from_ns = self.now_ns;
        if self.waits {
            // The wait ended by its deadline.
            self.looked_ns = self.until_ns.clamp(self.now_ns, now_ns);
            from_ns = self.looked_ns;
        }
        self.waits = false;
        self.stood_still(from_ns, now_ns)
    }

    /// A wait with this deadline begins.
    pub(super) fn begin_wait(&mut self, until_ns: u64) {
        self.until_ns = until_ns;
        self.waits = true;
    }

    /// A completion was taken at this time. Returns how long its bytes may have waited to be read,
    /// and a standstill that is noticed now.
    #[inline]
    pub(super) fn completed(&mut self, at_ns: u64) -> (u64, Option<(u64, u64)>) {
        if !self.waits {
            let gap = self.stood_still(self.now_ns, at_ns);
            return (at_ns.saturating_sub(self.since_ns), gap);
        }
        self.waits = false;
        let sleeps = self.until_ns > self.now_ns;
        let mut from_ns = at_ns;
        if sleeps && at_ns > self.until_ns {
            self.since_ns = self.until_ns;
            from_ns = self.until_ns;
        } else if sleeps && at_ns.saturating_sub(self.now_ns) >= SLEPT_MIN_NS {
            self.since_ns = at_ns;
        } else {
            // It was there already. On average, it arrived in the middle.
            let looked_ns = self.looked_ns.min(self.now_ns);
            self.since_ns = looked_ns.midpoint(self.now_ns);
            from_ns = self.now_ns;
        }
        self.looked_ns = at_ns;
        let gap = self.stood_still(from_ns, at_ns);
        (at_ns.saturating_sub(self.since_ns), gap)
    }

    /// The earliest time at which bytes that have not been read when the run ends at `ended_ns` may
    /// have arrived.
    pub(super) fn unread_since_ns(&self, ended_ns: u64) -> u64 {
        match self.waits {
            true => self.until_ns.min(ended_ns),
            false => self.since_ns.min(ended_ns),
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

    #[test]
    fn what_ends_a_wait_has_just_arrived() {
        let mut watch = Watch::default();
        assert_eq!(watch.begin_turn(0), None);
        watch.begin_wait(10 * MS);
        assert_eq!(watch.completed(3 * MS), (0, None));
        // The next one was read after the first one was handled.
        assert_eq!(watch.completed(3 * MS + 20 * US), (20 * US, None));
    }

    #[test]
    fn what_is_read_after_the_deadline_of_a_wait_has_waited_since_then() {
        let mut watch = Watch::default();
        watch.begin_turn(0);
        watch.begin_wait(10 * MS);
        let stood = Some((10 * MS, 460 * MS));
        assert_eq!(watch.completed(460 * MS), (450 * MS, stood));
    }

    #[test]
    fn a_late_end_of_a_wait_without_a_completion_is_a_standstill() {
        let mut watch = Watch::default();
        watch.begin_turn(0);
        watch.begin_wait(10 * MS);
        assert_eq!(watch.begin_turn(100 * MS), Some((10 * MS, 100 * MS)));
        // What is there at once may have arrived in that time.
        watch.begin_wait(110 * MS);
        let (late_ns, gap) = watch.completed(100 * MS + US);
        assert_eq!((late_ns, gap), (45 * MS + US, None));
    }

    #[test]
    fn a_stop_while_completions_are_handled_is_a_standstill_and_time_in_a_script_is_not() {
        let mut watch = Watch::default();
        watch.begin_turn(0);
        watch.begin_wait(10 * MS);
        watch.completed(MS);
        assert_eq!(watch.completed(51 * MS), (50 * MS, Some((MS, 51 * MS))));
        watch.begin_turn(51 * MS);
        watch.begin_wait(61 * MS);
        watch.completed(52 * MS);
        let time = |took_ms, idle_ms| ScriptTime {
            took_ns: took_ms * MS,
            idle_ns: idle_ms * MS,
        };
        assert_eq!(watch.note_script(92 * MS), time(40, 40));
        // Taken together with the one before, so its connection waited for the script twice.
        watch.completed(52 * MS);
        assert_eq!(watch.note_script(122 * MS), time(30, 70));
        assert_eq!(watch.completed(123 * MS), (71 * MS, None));
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
