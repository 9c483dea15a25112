//! Detects that a run without a time limit makes no more progress, or will never make any.

use crate::control::RunState;

/// A run that only a number of requests ends gives up without a response for this long, or for the
/// timeout if that is longer. It also gives up if no request could be sent for this long.
const GIVE_UP_NS: u64 = 30_000_000_000;
/// How often a worker publishes the time of its last response.
const PUBLISH_RESPONSE_NS: u64 = 1_000_000_000;

/// Detects that a run without a time limit makes no more progress.
pub(super) struct StallDetector {
    /// When the last response arrived, or until when a user waits.
    last_response_ns: u64,
    /// When the first request after it was sent. `u64::MAX` without one.
    first_unanswered_ns: u64,
    /// When the last request was answered or failed.
    pub(super) settled_ns: u64,
    /// The time of the last response that the other workers know of.
    published_response_ns: u64,
    /// Connections that were refused in a way that another attempt does not change.
    refusals: u32,
    /// A connection was ready for requests.
    was_ready: bool,
    /// There was no response for so long that nothing more is sent.
    pub(super) stops_sending: bool,
    /// This ended the run before all requests were sent.
    pub(super) has_given_up: bool,
    /// It did so because all connections were refused.
    pub(super) is_refused: bool,
}

impl StallDetector {
    /// For a run from `start_ns`, with a window from `measure_ns`.
    pub(super) fn new(start_ns: u64, measure_ns: u64) -> Self {
        Self {
            last_response_ns: start_ns,
            first_unanswered_ns: u64::MAX,
            settled_ns: measure_ns,
            published_response_ns: 0,
            refusals: 0,
            was_ready: false,
            stops_sending: false,
            has_given_up: false,
            is_refused: false,
        }
    }

    #[inline]
    pub(super) fn note_sent(&mut self, at_ns: u64) {
        self.first_unanswered_ns = self.first_unanswered_ns.min(at_ns);
    }

    #[inline]
    pub(super) fn note_response(&mut self, at_ns: u64) {
        self.last_response_ns = self.last_response_ns.max(at_ns);
        self.first_unanswered_ns = u64::MAX;
        self.settled_ns = at_ns;
    }

    /// A user waits until `due_ns`, because a response has asked for that. The run does not stall
    /// until then.
    pub(super) fn note_pause(&mut self, due_ns: u64) {
        self.last_response_ns = self.last_response_ns.max(due_ns);
    }

    /// A connection was refused in a way that another attempt does not change.
    pub(super) fn note_refusal(&mut self) {
        self.refusals = self.refusals.saturating_add(1);
    }

    /// A connection is ready for requests.
    #[inline]
    pub(super) fn note_ready(&mut self) {
        self.was_ready = true;
    }

    /// Whether connections were refused in such a way, and none was ever ready.
    #[inline]
    pub(super) fn is_only_refused(&self) -> bool {
        self.refusals > 0 && !self.was_ready
    }

    /// Whether the run should give up because of at least this many refusals.
    pub(super) fn gives_up_refused(&mut self, attempts: u64, outstanding: u64) -> bool {
        self.is_refused = u64::from(self.refusals) >= attempts && outstanding == 0;
        self.has_given_up |= self.is_refused;
        self.is_refused
    }

    /// Whether the run should give up. `first_due_ns` is when the first unclaimed request of the
    /// schedule is due.
    pub(super) fn gives_up(
        &mut self,
        now_ns: u64,
        first_due_ns: u64,
        timeout_ns: u64,
        outstanding: u64,
        state: &RunState,
        is_any_opening: impl FnOnce() -> bool,
    ) -> bool {
        if self.last_response_ns
            > self
                .published_response_ns
                .saturating_add(PUBLISH_RESPONSE_NS)
        {
            self.published_response_ns = self.last_response_ns;
            state.note_response(self.last_response_ns);
        }
        // A slow schedule has pauses in which no response can arrive.
        let since_ns = first_due_ns
            .min(self.first_unanswered_ns)
            .max(self.last_response_ns);
        self.stops_sending = false;
        if now_ns.saturating_sub(since_ns) < GIVE_UP_NS {
            return false;
        }
        let since_ns = since_ns.max(state.note_response(self.last_response_ns));
        let quiet_ns = now_ns.saturating_sub(since_ns);
        // From now on nothing is sent, but what has been sent keeps its full timeout.
        self.stops_sending = quiet_ns >= GIVE_UP_NS.max(timeout_ns);
        let idle_ns = quiet_ns.min(now_ns.saturating_sub(self.settled_ns));
        let is_shut_out = idle_ns >= GIVE_UP_NS && !is_any_opening();
        self.has_given_up = outstanding == 0 && (self.stops_sending || is_shut_out);
        self.has_given_up
    }
}
