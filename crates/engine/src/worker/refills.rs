//! Several streams per connection in a closed loop: requests that follow responses are sent
//! together.
//!
//! Many servers write the responses of a connection one by one, and each arrives alone. A system
//! call for each next request would cost client and server more than the request itself, and the
//! server could not handle it any earlier: it is still busy with other requests of the connection.
//! So a free stream sends when everything that has arrived is processed. While responses arrive
//! quickly, it waits for further ones, for 0.25 % of the time that its response took. No latency
//! includes this, because it begins when the request is sent.

use super::sender::RequestSender;
use super::{StopReason, Worker};
use crate::connection::Connection;
use eventloop::EventLoop;
use protocol::Session;

/// A free stream waits for the time that its response took, divided by this.
const WAIT_DIVISOR: u64 = 400;

/// Responses arrive quickly if the last so many reads with responses lie within the same number of
/// waits. Then the next one usually comes within about one wait.
const QUICK_READS: usize = 4;
const QUICK_WAITS: u64 = 4;

/// A connection does not wait if one in so many of its streams is free.
const FREE_DIVISOR: u32 = 2;

/// The connections with free streams.
pub(super) struct Refills {
    keys: Vec<u32>,
    /// When they send. `u64::MAX` if nothing has arrived since they last did.
    ///
    /// No timer is set for it: in a virtual machine it would cost more than the system calls that
    /// are saved. The next response ends the wait or, in an unexpected pause, [`super::TICK_NS`].
    due_ns: u64,
    /// When responses were read, the newest first.
    reads_ns: [u64; QUICK_READS],
}

impl Refills {
    pub(super) fn new() -> Self {
        Self {
            keys: Vec::new(),
            due_ns: u64::MAX,
            reads_ns: [0; QUICK_READS],
        }
    }

    /// Whether a connection waits to send.
    #[inline]
    pub(super) fn are_waiting(&self) -> bool {
        !self.keys.is_empty()
    }

    /// A response that took `service_ns` was read at `at_ns`.
    #[inline]
    pub(super) fn note_response(&mut self, at_ns: u64, service_ns: u64) {
        if self.reads_ns[0] != at_ns {
            self.reads_ns.rotate_right(1);
            self.reads_ns[0] = at_ns;
        }
        let wait_ns = service_ns / WAIT_DIVISOR;
        let reads_took_ns = at_ns.saturating_sub(self.reads_ns[QUICK_READS - 1]);
        let due_ns = if reads_took_ns <= QUICK_WAITS * wait_ns {
            at_ns.saturating_add(wait_ns)
        } else {
            at_ns
        };
        self.due_ns = self.due_ns.min(due_ns);
    }
}

impl<S: Session> RequestSender<S> {
    /// Whether requests that follow responses are sent together.
    #[inline]
    pub(super) fn refills_together(&self) -> bool {
        !S::SENDS_TEXT && self.pipeline > 1 && !self.is_paced() && self.slots.is_none()
    }

    /// Lets a connection continue later, in [`Worker::refill_due`].
    #[inline]
    pub(super) fn refill_later(&mut self, key: u32, connection: &mut Connection<S>, at_ns: u64) {
        let free = self
            .pipeline
            .saturating_sub(connection.exchanges.outstanding());
        let is_first = self.refills.due_ns == u64::MAX;
        if is_first || free >= self.pipeline.div_ceil(FREE_DIVISOR) {
            self.refills.due_ns = self.refills.due_ns.min(at_ns);
        }
        if !connection.refills {
            connection.refills = true;
            self.refills.keys.push(key);
        }
    }
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// Lets the connections with free streams continue, if it is time. What a slow script leaves is
    /// sent in the next turn.
    pub(super) fn refill_due(&mut self, now_ns: u64) -> Result<(), StopReason> {
        if self.sender.refills.due_ns > now_ns {
            return Ok(());
        }
        self.sender.refills.due_ns = u64::MAX;
        let mut keys = std::mem::take(&mut self.sender.refills.keys);
        let mut done = 0;
        while !self.sender.stretch.is_over()
            && let Some(&key) = keys.get(done)
        {
            // Read for each, because sending takes a while.
            let now_ns = self.network.io.now_ns();
            self.go_on_now(key, now_ns)?;
            if self.sender.stretch.is_over() && self.network.pool.has_room(key) {
                // It has more to send.
                break;
            }
            self.network.pool[key].refills = false;
            done += 1;
        }
        keys.drain(..done);
        if !keys.is_empty() {
            self.sender.refills.due_ns = now_ns;
        }
        self.sender.refills.keys = keys;
        Ok(())
    }
}
