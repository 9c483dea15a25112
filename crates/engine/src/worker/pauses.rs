//! Users of a language model's server who wait, because a response has asked them to.
//!
//! A user is a place for a request on a connection: a stream, or the connection itself. One who has
//! conversations sends the same turn again ([`super::conversations`]). With a rate, the schedule
//! goes on.

use super::{StopReason, Worker};
use eventloop::EventLoop;
use protocol::{ExchangeId, Session};

/// The pause after a response that does not say how long: as long as a rate limit by the second
/// lasts.
const PAUSE_DEFAULT_S: u32 = 1;
/// The longest pause. A server may ask for an hour, in which the run would measure nothing.
const PAUSE_MAX_S: u32 = 60;

const SECOND_NS: u64 = 1_000_000_000;

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// A response has asked its user to wait for so many seconds, if it says how many.
    #[cold]
    pub(super) fn pause_user(
        &mut self,
        (key, exchange): (u32, ExchangeId),
        asked_s: Option<u32>,
        at_ns: u64,
    ) {
        let talks = self.sender.conversations.as_mut();
        let talks = talks.filter(|conversations| conversations.has_users());
        if self.sender.share.is_some() && talks.is_none() {
            return;
        }
        let pause_s = asked_s.unwrap_or(PAUSE_DEFAULT_S).min(PAUSE_MAX_S);
        let pause_ns = u64::from(pause_s) * SECOND_NS;
        let due_ns = at_ns.saturating_add(pause_ns);
        match talks {
            Some(conversations) => conversations.pause((key, exchange), pause_ns),
            None => {
                self.sender.has_pauses = true;
                self.network.pool[key].pauses.push(due_ns);
            }
        }
        self.accounting.stall.note_pause(due_ns);
        self.accounting.recorder().user_paused(pause_ns, at_ns);
    }

    /// Ends the pauses of a connection that are over, and sets the timer for the next one. Returns
    /// whether all of its users wait.
    #[cold]
    pub(super) fn end_pauses(&mut self, key: u32, now_ns: u64) -> bool {
        let connection = &mut self.network.pool[key];
        connection.pauses.retain(|due_ns| *due_ns > now_ns);
        let Some(next_ns) = connection.pauses.iter().copied().min() else {
            return false;
        };
        let all_wait = connection.pauses.len() >= self.network.pool.pipeline;
        self.network.pool.wake_at(key, next_ns);
        all_wait
    }

    /// The pause of a user of an open connection is over.
    pub(super) fn on_pause_end(&mut self, key: u32, now_ns: u64) -> Result<(), StopReason> {
        if self.network.pool[key].pauses.is_empty() {
            return Ok(());
        }
        self.go_on_now(key, now_ns)
    }
}
