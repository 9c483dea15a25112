//! How long responses waited to be read.

/// How long the bytes of one completion waited to be read, first and last. A connection with many
/// requests in flight that was not read for a while has several responses, and they arrived one
/// after another: a server that takes equally long for each sends them at the distances at which it
/// got the requests.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ReadLate {
    /// How long the first bytes waited.
    pub(super) first_ns: u64,
    /// How long the last bytes waited at least.
    last_ns: u64,
    /// When the request of the first response was sent. 0 before that was asked for.
    first_sent_ns: u64,
}

impl ReadLate {
    /// The first bytes waited this long. Nothing is known of the others.
    #[inline]
    pub(super) fn since(first_ns: u64) -> Self {
        Self {
            first_ns,
            last_ns: 0,
            first_sent_ns: 0,
        }
    }

    /// The first and the last bytes waited this long.
    #[inline]
    pub(super) fn between(first_ns: u64, last_ns: u64) -> Self {
        Self {
            first_ns: first_ns.max(last_ns),
            last_ns,
            first_sent_ns: 0,
        }
    }

    /// The run ended at this time. Bytes that were not read any more had begun to arrive at
    /// `arrived_ns`.
    pub(super) fn at_end(arrived_ns: Option<u64>, ended_ns: u64) -> Self {
        Self::since(arrived_ns.map_or(0, |arrived_ns| ended_ns.saturating_sub(arrived_ns)))
    }

    /// Whether it is known exactly how long the bytes waited, which also holds if they did not.
    #[inline]
    pub(super) fn is_known(&self) -> bool {
        self.first_ns == self.last_ns
    }

    /// How long the next response waited, whose request was sent at `sent_ns`.
    #[inline]
    pub(super) fn of(&mut self, sent_ns: u64) -> u64 {
        if self.is_known() {
            return self.first_ns;
        }
        if self.first_sent_ns == 0 {
            self.first_sent_ns = sent_ns;
        }
        let later_ns = sent_ns.saturating_sub(self.first_sent_ns);
        self.first_ns.saturating_sub(later_ns).max(self.last_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_arrive_at_the_distances_at_which_their_requests_were_sent() {
        let mut late = ReadLate::between(50, 20);
        assert_eq!([100, 110, 125, 190].map(|it| late.of(it)), [50, 40, 25, 20]);
        let mut late = ReadLate::since(50);
        assert_eq!([100, 90, 110, 190].map(|it| late.of(it)), [50, 50, 40, 0]);
    }

    #[test]
    fn without_a_difference_all_waited_equally_long() {
        let mut late = ReadLate::between(30, 30);
        assert_eq!([100, 150].map(|it| late.of(it)), [30, 30]);
        let mut late = ReadLate::at_end(Some(70), 90);
        assert_eq!([40, 55].map(|it| late.of(it)), [20, 5]);
        let mut late = ReadLate::at_end(None, 90);
        assert_eq!([100, 150].map(|it| late.of(it)), [0, 0]);
    }
}
