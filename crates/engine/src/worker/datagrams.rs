//! Sessions over datagrams: they send when everything that can be done now is done, so that
//! requests and acknowledgements share datagrams, and they have timers.

use super::network::Network;
use super::{StopReason, Worker};
use eventloop::{EventLoop, Payload};
use protocol::{Session, SessionError, Transport, datagrams};

impl<L: EventLoop, S: Session> Network<L, S> {
    /// The session of a connection may have something to send, or new timers.
    #[inline]
    pub(super) fn note_unflushed(&mut self, key: u32) {
        if S::TRANSPORT == Transport::Stream {
            return;
        }
        let connection = &mut self.pool[key];
        if !connection.unflushed {
            connection.unflushed = true;
            self.unflushed.push(key);
        }
    }

    /// Sends what a session has put off, and notes when its timer is due.
    fn flush_session(&mut self, key: u32) -> Result<(), SessionError> {
        let connection = &mut self.pool[key];
        connection.unflushed = false;
        if !connection.is_established() {
            return Ok(());
        }
        let (context, output) = (&mut self.context, &mut self.output);
        let flushed = connection.session.flush(context, output);
        if let Some(due_ns) = connection.session.next_timeout_ns() {
            self.pool.session_timers.set(key, due_ns);
        }
        self.flush_output(key);
        flushed
    }

    /// Lets a session handle its timer. `None` if the timer is not due, because it was moved.
    fn handle_session_timer(&mut self, key: u32, now_ns: u64) -> Option<Result<(), SessionError>> {
        let connection = &mut self.pool[key];
        if !connection.is_established() {
            return None;
        }
        let due_ns = connection.session.next_timeout_ns()?;
        if due_ns > now_ns {
            self.pool.session_timers.set(key, due_ns);
            return None;
        }
        let (context, output) = (&mut self.context, &mut self.output);
        let session = &mut connection.session;
        Some(session.handle_timeout(context, now_ns, output, &mut self.events))
    }

    /// Sends the batches in the output, each as a whole.
    pub(super) fn send_datagrams(&mut self, key: u32) {
        let connection = &mut self.pool[key];
        if let Some(token) = connection.token {
            for batch in datagrams::batches(&self.output) {
                let mut buffer = self.spare.take();
                buffer.extend_from_slice(batch.bytes);
                let segment = batch.segment_bytes;
                self.io.send(token, Payload::Datagrams { buffer, segment });
                connection.sending += 1;
            }
        }
        self.output.clear();
    }
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// Sends what sessions have put off, and notes when their timers are due.
    #[inline]
    pub(super) fn flush_sessions(&mut self) {
        if S::TRANSPORT == Transport::Stream || self.network.unflushed.is_empty() {
            return;
        }
        let now_ns = self.network.io.now_ns();
        S::at(&mut self.network.context, now_ns);
        let mut at = 0;
        while let Some(&key) = self.network.unflushed.get(at) {
            at += 1;
            if let Err(error) = self.network.flush_session(key) {
                self.fail_session(key, &error, now_ns);
            }
        }
        self.network.unflushed.drain(..at);
        self.network.queued.flushed_ns = now_ns;
    }

    /// Lets sessions handle the timers that are due.
    #[inline]
    pub(super) fn handle_session_timers(&mut self, now_ns: u64) -> Result<(), StopReason> {
        if S::TRANSPORT == Transport::Stream {
            return Ok(());
        }
        while let Some(key) = self.network.pool.session_timers.take_due(now_ns) {
            if let Some(handled) = self.network.handle_session_timer(key, now_ns) {
                self.after_input(key, handled, now_ns)?;
            }
        }
        Ok(())
    }
}
