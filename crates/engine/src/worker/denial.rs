//! Detects that the server refuses the requests from the start: a wrong key, model or path.

use crate::FirstResponses;
use crate::control::RunState;

/// The run gives up after so many responses if all of them deny. A server whose replicas differ, or
/// that is not ready at first, has answered one of so many otherwise.
const DENIED_MAX: u32 = 20;
/// After this time fewer are enough, if they are at least as many as the requests in flight: a
/// server far away takes long for 20 responses to one user.
const DENIED_FOR_NS: u64 = 2_000_000_000;

/// Watches the first responses of a worker, until one does not deny.
pub(super) struct DenialDetector {
    /// Whether a response that does not deny may still matter.
    watches: bool,
    start_ns: u64,
    found: FirstResponses,
    /// The denials that the other workers know of.
    published: u32,
}

/// Whether a status says that no request like this one is answered: unauthorized, forbidden, not
/// found.
fn denies(status: u16) -> bool {
    matches!(status, 401 | 403 | 404)
}

impl DenialDetector {
    /// For a run from `start_ns`; without `watches` it does nothing.
    pub(super) fn new(watches: bool, start_ns: u64) -> Self {
        Self {
            watches,
            start_ns,
            found: FirstResponses::default(),
            published: 0,
        }
    }

    /// A response with this status has arrived.
    #[inline]
    pub(super) fn note_status(&mut self, status: u16) {
        if !self.watches || self.found.is_served {
            return;
        }
        if denies(status) {
            self.found.denied += 1;
        } else {
            self.found.is_served = true;
        }
    }

    /// Events of a stream have arrived.
    #[inline]
    pub(super) fn note_stream(&mut self) {
        self.found.is_served |= self.watches;
    }

    /// Whether the run should give up, with so many requests of this worker in flight.
    #[inline]
    pub(super) fn gives_up(&mut self, now_ns: u64, in_flight: u64, state: &RunState) -> bool {
        self.watches && self.decide(now_ns, in_flight, state)
    }

    #[cold]
    fn decide(&mut self, now_ns: u64, in_flight: u64, state: &RunState) -> bool {
        let denied = self.found.denied;
        let total = state.note_denied(denied - self.published);
        self.published = denied;
        if self.found.is_served {
            state.note_served();
        }
        if state.is_served() {
            self.watches = false;
            return false;
        }
        let is_late = now_ns.saturating_sub(self.start_ns) >= DENIED_FOR_NS;
        let is_enough =
            total >= DENIED_MAX || is_late && denied > 0 && u64::from(denied) >= in_flight;
        self.found.has_given_up |= is_enough;
        is_enough
    }

    /// What the first responses were.
    pub(super) fn found(&self) -> FirstResponses {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(statuses: &[u16]) -> DenialDetector {
        let mut detector = DenialDetector::new(true, 0);
        statuses.iter().for_each(|it| detector.note_status(*it));
        detector
    }

    fn gives_up(statuses: &[u16], now_ns: u64, in_flight: u64) -> bool {
        after(statuses).gives_up(now_ns, in_flight, &RunState::default())
    }

    #[test]
    fn twenty_denials_are_enough_and_one_other_response_among_them_is_not() {
        for status in [401, 403, 404] {
            assert!(gives_up(&[status; 20], 1, 9));
            assert!(!gives_up(&[status; 19], 1, 9));
        }
        for other in [200, 400, 429, 500, 503] {
            let mut mixed = [401; 30];
            mixed[19] = other;
            assert!(!gives_up(&mixed, DENIED_FOR_NS, 0));
        }
    }

    #[test]
    fn after_two_seconds_as_many_as_are_in_flight_are_enough() {
        assert!(gives_up(&[401], DENIED_FOR_NS, 1));
        assert!(!gives_up(&[401], DENIED_FOR_NS - 1, 1));
        assert!(!gives_up(&[401], DENIED_FOR_NS, 2));
        assert!(!gives_up(&[], DENIED_FOR_NS, 0));
    }

    #[test]
    fn workers_count_together() {
        let state = RunState::default();
        let (mut one, mut other) = (after(&[401; 12]), after(&[404; 8]));
        assert!(!one.gives_up(1, 1, &state));
        assert!(other.gives_up(1, 1, &state));
        let mut served = after(&[200]);
        assert!(!served.gives_up(1, 1, &state));
        assert!(!one.gives_up(2, 1, &state));
    }

    #[test]
    fn a_stream_that_goes_on_is_an_answer() {
        let mut detector = after(&[401; 30]);
        detector.note_stream();
        assert!(!detector.gives_up(DENIED_FOR_NS, 0, &RunState::default()));
    }

    #[test]
    fn other_runs_are_not_watched() {
        let mut detector = DenialDetector::new(false, 0);
        (0..50).for_each(|_| detector.note_status(404));
        assert!(!detector.gives_up(DENIED_FOR_NS, 0, &RunState::default()));
        assert!(!detector.found().are_denied());
    }
}
