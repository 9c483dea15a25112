//! How long a worker sends at a stretch.
//!
//! While requests are sent, nothing is read. If a script needs longer for each than the rate
//! leaves, requests are always overdue, and sending them all would end only when each connection is
//! in use, after seconds. So a worker looks for responses in between, and other workers may send
//! what is overdue. The same holds in a closed loop for the requests of a slow script.

use results::Attribution;

/// At a fixed rate. What is read this late need not be attributed to the load generator.
const PACED_NS: u64 = Attribution::MIN_NS;

/// In a closed loop, where it is known of each response that a turn leaves when it arrived.
const CLOSED_NS: u64 = 10 * PACED_NS;

/// The time in which a worker sends requests without reading responses.
#[derive(Debug)]
pub(super) struct Stretch {
    length_ns: u64,
    ends_ns: u64,
    /// So many requests were made last, and so long the script took for them. As long as that is
    /// not known, a whole stretch for one.
    made: (u32, u64),
    /// When a request was sent last: at a fixed rate, or after a script.
    sent_ns: u64,
}

impl Stretch {
    pub(super) fn new(is_paced: bool) -> Self {
        let length_ns = if is_paced { PACED_NS } else { CLOSED_NS };
        Self {
            length_ns,
            ends_ns: 0,
            made: (1, length_ns),
            sent_ns: 0,
        }
    }

    #[inline]
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.ends_ns = now_ns.saturating_add(self.length_ns);
    }

    #[inline]
    pub(super) fn note_sent(&mut self, sent_ns: u64) {
        self.sent_ns = sent_ns;
    }

    /// The script took this time for so many requests, until `now_ns`.
    #[inline]
    pub(super) fn note_script(&mut self, now_ns: u64, requests: u32, script_ns: u64) {
        self.sent_ns = now_ns;
        self.made = (requests, script_ns);
    }

    /// How many requests of a script there is time for together.
    #[inline]
    pub(super) fn room(&self) -> u32 {
        let (requests, script_ns) = self.made;
        let room = self.length_ns * u64::from(requests) / script_ns.max(1);
        u32::try_from(room.max(1)).unwrap_or(u32::MAX)
    }

    /// Whether responses must be read before anything more is sent. There is at least one request
    /// in each stretch.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.sent_ns >= self.ends_ns
    }
}
