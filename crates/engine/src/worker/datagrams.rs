//! Sessions over datagrams: they send when everything that can be done now is done, so that
//! requests and acknowledgements share datagrams, and they have timers.

use super::{StopReason, Worker};
use eventloop::{EventLoop, Payload};
use protocol::{Session, Transport, datagrams};

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// The session of a connection may have something to send, or new timers.
    #[inline]
    pub(super) fn note_unflushed(&mut self, key: u32) {
        if S::TRANSPORT == Transport::Stream {
            return;
        }
        let connection = &mut self.network.pool[key];
        if !connection.unflushed {
            connection.unflushed = true;
            self.network.unflushed.push(key);
        }
    }

    /// Sends what sessions have put off, and notes when their timers are due.
    #[inline]
    pub(super) fn flush_sessions(&mut self) {
        if S::TRANSPORT == Transport::Stream || self.network.unflushed.is_empty() {
            return;
        }
        let now_ns = self.network.io.now_ns();
        S::at(&mut self.network.shared, now_ns);
        let mut at = 0;
        while let Some(&key) = self.network.unflushed.get(at) {
            at += 1;
            self.network.pool[key].unflushed = false;
            self.flush_session(key, now_ns);
        }
        self.network.unflushed.drain(..at);
        self.sender.queued.flushed_ns = now_ns;
    }

    fn flush_session(&mut self, key: u32, now_ns: u64) {
        let connection = &mut self.network.pool[key];
        if !connection.is_established() {
            return;
        }
        let (shared, output) = (&mut self.network.shared, &mut self.network.output);
        let flushed = connection.session.flush(shared, output);
        if let Some(due_ns) = connection.session.next_timeout_ns() {
            self.network.pool.session_timers.set(key, due_ns);
        }
        self.flush_output(key);
        if let Err(error) = flushed {
            self.fail_session(key, &error, now_ns);
        }
    }

    /// Lets sessions handle the timers that are due.
    #[inline]
    pub(super) fn handle_session_timers(&mut self, now_ns: u64) -> Result<(), StopReason> {
        if S::TRANSPORT == Transport::Stream {
            return Ok(());
        }
        while let Some(key) = self.network.pool.session_timers.take_due(now_ns) {
            let connection = &mut self.network.pool[key];
            if !connection.is_established() {
                continue;
            }
            match connection.session.next_timeout_ns() {
                Some(due_ns) if due_ns <= now_ns => {}
                // It was moved since the entry was made.
                Some(due_ns) => {
                    self.network.pool.session_timers.set(key, due_ns);
                    continue;
                }
                None => continue,
            }
            let (shared, output) = (&mut self.network.shared, &mut self.network.output);
            let events = &mut self.network.events;
            let handled = connection
                .session
                .handle_timeout(shared, now_ns, output, events);
            self.after_input(key, handled, now_ns)?;
        }
        Ok(())
    }

    /// Sends the batches in the output, each as a whole.
    pub(super) fn send_datagrams(&mut self, key: u32) {
        let mut output = std::mem::take(&mut self.network.output);
        let connection = &mut self.network.pool[key];
        if let Some(token) = connection.token {
            for batch in datagrams::batches(&output) {
                let mut buffer = self.sender.writer.buffer();
                buffer.extend_from_slice(batch.bytes);
                let segment = batch.segment_bytes;
                self.network
                    .io
                    .send(token, Payload::Datagrams { buffer, segment });
                connection.sending += 1;
            }
        }
        output.clear();
        self.network.output = output;
    }
}
