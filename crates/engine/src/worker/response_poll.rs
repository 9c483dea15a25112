//! Whether the loop polls for a response instead of sleeping until it arrives.

/// Decides it by what polling would gain. A sleep ends late by the loop's sleep error, which makes
/// a response that takes no longer than that look twice as slow, and one that takes far longer
/// nearly the same. Polling uses the CPU for as long as the response takes.
#[derive(Debug)]
pub(super) struct ResponsePoll {
    /// 0 disables it.
    max_ns: u64,
    /// The mean time between a request and its response, in which a newer response counts more.
    response_ns: u64,
}

/// Responses that usually take longer than this many sleep errors are not polled for: a sleep adds
/// less than a fourth to their time.
const SLEEP_ERRORS: u64 = 4;
/// The weight of a response in the mean is 1 to this number.
const WEIGHT_DIVISOR: u64 = 16;
/// A response counts as at most this many times `max_ns`, so that a pause of the server is soon
/// forgotten.
const COUNTED_MAX: u64 = 4;

impl ResponsePoll {
    /// Never polls for longer than `max_ns`.
    pub(super) const fn new(max_ns: u64) -> Self {
        Self {
            max_ns,
            response_ns: 0,
        }
    }

    /// False in a closed loop, which then pays for nothing else.
    #[inline]
    pub(super) const fn is_possible(&self) -> bool {
        self.max_ns > 0
    }

    /// How long to poll after sending a request, if it is worth it. `sleep_error_ns` is what
    /// [`eventloop::EventLoop::sleep_error_ns`] says.
    pub(super) fn poll_ns(&self, sleep_error_ns: u64) -> Option<u64> {
        let worth_ns = sleep_error_ns.saturating_mul(SLEEP_ERRORS).min(self.max_ns);
        (worth_ns > 0 && self.response_ns <= worth_ns).then_some(worth_ns)
    }

    /// Learns from a response that arrived `response_ns` after its request was sent.
    pub(super) fn note_response(&mut self, response_ns: u64) {
        let counted_ns = response_ns.min(self.max_ns * COUNTED_MAX);
        self.response_ns =
            self.response_ns - self.response_ns / WEIGHT_DIVISOR + counted_ns / WEIGHT_DIVISOR;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    fn after(max_ns: u64, responses: impl IntoIterator<Item = u64>) -> ResponsePoll {
        let mut poll = ResponsePoll::new(max_ns);
        responses.into_iter().for_each(|it| poll.note_response(it));
        poll
    }

    #[test]
    fn responses_about_as_fast_as_a_wake_up_are_polled_for() {
        let poll = after(400 * US, [90 * US; 100]);
        assert_eq!(poll.poll_ns(60 * US), Some(240 * US));
        assert_eq!(poll.poll_ns(30 * US), Some(120 * US));
    }

    #[test]
    fn responses_far_slower_than_a_wake_up_are_not_polled_for() {
        let poll = after(400 * US, [500 * US; 100]);
        assert_eq!(poll.poll_ns(60 * US), None);
        let poll = after(400 * US, [90 * US; 100]);
        assert_eq!(poll.poll_ns(10 * US), None);
    }

    #[test]
    fn it_polls_as_long_as_nothing_is_known_about_the_server() {
        assert_eq!(
            ResponsePoll::new(400 * US).poll_ns(100 * US),
            Some(400 * US)
        );
        assert_eq!(ResponsePoll::new(50 * US).poll_ns(100 * US), Some(50 * US));
    }

    #[test]
    fn a_closed_loop_and_a_loop_that_does_not_measure_its_sleeps_never_poll() {
        assert_eq!(after(0, [50 * US; 10]).poll_ns(60 * US), None);
        assert_eq!(after(400 * US, [0; 10]).poll_ns(0), None);
    }

    #[test]
    fn it_starts_again_soon_after_a_pause_of_the_server() {
        let pause = [10_000_000 * US; 20];
        let poll = after(400 * US, pause.into_iter().chain([90 * US; 48]));
        assert_eq!(poll.poll_ns(60 * US), Some(240 * US));
    }
}
