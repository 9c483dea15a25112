//! How long a worker sends at a stretch.
//!
//! While requests are sent, nothing is read. If a script needs longer for each than the rate
//! leaves, requests are always overdue, and sending them all would end only when each connection is
//! in use, after seconds. So a worker looks for responses in between, and other workers may send
//! what is overdue. The same holds in a closed loop for the requests of a slow script.

use results::Attribution;

/// What is read this late need not be attributed to the load generator.
const STRETCH_NS: u64 = Attribution::MIN_NS;

/// The current stretch.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    ends_ns: u64,
    /// When a request was sent last: at a fixed rate, or after a script.
    sent_ns: u64,
}

impl Stretch {
    #[inline]
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.ends_ns = now_ns.saturating_add(STRETCH_NS);
    }

    #[inline]
    pub(super) fn note_sent(&mut self, sent_ns: u64) {
        self.sent_ns = sent_ns;
    }

    /// Whether responses must be read before anything more is sent. There is at least one request
    /// in each stretch.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.sent_ns >= self.ends_ns
    }
}
