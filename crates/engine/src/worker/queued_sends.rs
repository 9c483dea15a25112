//! Requests that wait in the worker until they are passed to the kernel.
//!
//! A loop like io_uring's sends at the end of a turn, and so do sessions over datagrams. The time
//! of a request begins when the session has it, so a turn that takes long, because a script or
//! another program needs the CPU, would count as the server's. So a turn that takes long submits in
//! between, and what has waited all the same counts as the load generator's.
//!
//! Several requests on one connection wait for longer: the loop keeps all but the first until the
//! first was sent, and notices that in a later turn.

use super::Worker;
use super::network::Network;
use crate::connection::Connection;
use eventloop::EventLoop;
use protocol::{Session, Transport};
use results::Attribution;

/// While a script runs, what has waited this long is submitted before the turn ends. A part of
/// [`Attribution::MIN_NS`], so that it need not be attributed; and long enough for several requests
/// to share a system call.
pub(super) const AGE_MAX_IN_SCRIPT_NS: u64 = Attribution::MIN_NS / 2;

/// The requests that sessions have and the kernel has not, in the order of sending.
#[derive(Debug, Default)]
pub(super) struct QueuedSends {
    requests: Vec<QueuedRequest>,
    /// When sessions over datagrams last sent what they had.
    pub(super) flushed_ns: u64,
}

/// One request, or several that a connection has got in one buffer.
#[derive(Debug, Clone, Copy)]
struct QueuedRequest {
    /// The key of the connection that sends it.
    key: u32,
    /// The number of the buffer that has it, counted from when the connection was opened.
    buffer: u32,
    /// When the session got the request.
    since_ns: u64,
}

impl QueuedSends {
    /// Since when the first of them has waited.
    #[inline]
    fn since_ns(&self) -> Option<u64> {
        self.requests.first().map(|request| request.since_ns)
    }
}

impl<L: EventLoop, S: Session> Network<L, S> {
    /// A session has got a request.
    #[inline]
    pub(super) fn note_queued(&mut self, key: u32, since_ns: u64) {
        if S::TRANSPORT == Transport::Stream && !self.io.queues_sends() {
            return;
        }
        let buffer = last_buffer(&self.pool[key]);
        let last = self.queued.requests.last();
        if last.is_none_or(|last| (last.key, last.buffer) != (key, buffer)) {
            self.queued.requests.push(QueuedRequest {
                key,
                buffer,
                since_ns,
            });
        }
    }

    /// The kernel has got what was queued, but for what the loop keeps.
    #[inline]
    pub(super) fn note_submitted(&mut self) {
        let Some(since_ns) = self.queued.since_ns() else {
            return;
        };
        let submitted_ns = if self.io.queues_sends() {
            self.io.submitted_ns()
        } else {
            self.queued.flushed_ns
        };
        let is_old = submitted_ns.saturating_sub(since_ns) >= Attribution::MIN_NS;
        if is_old || self.keeps_some() {
            self.settle_queued(submitted_ns);
        } else {
            self.queued.requests.clear();
        }
    }

    /// Whether the loop may keep one of the requests.
    #[inline]
    fn keeps_some(&self) -> bool {
        let mut requests = self.queued.requests.iter();
        !S::SENDS_TEXT && requests.any(|request| self.pool[request.key].sending > 1)
    }

    /// Attributes the time in the queue to the load generator, and leaves what the loop keeps.
    #[cold]
    fn settle_queued(&mut self, submitted_ns: u64) {
        let Self {
            queued, pool, io, ..
        } = self;
        queued.requests.retain(|request| {
            let connection = &mut pool[request.key];
            let kept = connection.token.map_or(0, |token| io.kept_sends(token));
            let later = last_buffer(connection).wrapping_sub(request.buffer);
            // A connection that was opened again has no buffer with this number.
            if (later as usize) < kept.min(connection.sending as usize) {
                return true;
            }
            if submitted_ns.saturating_sub(request.since_ns) >= Attribution::MIN_NS {
                let exchanges = &mut connection.exchanges;
                exchanges.queued_until(request.since_ns, submitted_ns);
            }
            false
        });
    }
}

/// The number of the buffer that a connection has got last. Text is sent without buffers of the
/// session: a request follows the response before it, so nothing of the connection is in its way.
#[inline]
fn last_buffer<S: Session>(connection: &Connection<S>) -> u32 {
    if S::SENDS_TEXT {
        return 0;
    }
    connection.taken.wrapping_add(connection.sending)
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// Submits what is queued if it has waited for long.
    #[inline]
    pub(super) fn submit_if_old(&mut self, now_ns: u64, age_max_ns: u64) {
        let since_ns = self.network.queued.since_ns();
        if since_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) >= age_max_ns) {
            self.flush_sessions();
            self.network.io.submit();
            self.network.note_submitted();
        }
    }
}
