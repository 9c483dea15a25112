//! What goes to the server: when a connection may send, and the bytes.

use super::{Requests, SPARE_BUFFERS, Stop, Worker};
use crate::connection::{Flight, State};
use crate::shared_schedule::Claim;
use eventloop::{EventLoop, Payload, SharedBytes};
use protocol::RequestKind;
use protocol::Session;
use protocol::h1::request;

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// Lets an open connection go on: think, or send.
    #[inline]
    pub(super) fn advance(&mut self, key: u32, now_ns: u64) -> Result<(), Stop> {
        let rested = std::mem::take(&mut self.connections[key as usize].rested);
        if self.wants_delay && !rested && self.connections[key as usize].flights.outstanding() == 0
        {
            let delay_ns = self.scripted(|source| source.delay_ns())?;
            if delay_ns > 0 {
                let connection = &mut self.connections[key as usize];
                connection.state = State::Thinking;
                // From now, not from `now_ns`: the script may have taken its time.
                connection.due_ns = self.io.now_ns().saturating_add(delay_ns);
                self.wakes.set(key, connection.due_ns);
                return Ok(());
            }
        }
        self.go_on(key, now_ns)
    }

    /// Sends what a connection may carry now; with a rate, offers it to the requests that are due.
    pub(super) fn go_on(&mut self, key: u32, now_ns: u64) -> Result<(), Stop> {
        if !self.is_paced() {
            let is_answered = self.connections[key as usize].answered > 0;
            if self.opening.takes(key, is_answered) {
                return Ok(());
            }
            return self.send_requests(key, now_ns);
        }
        if self.has_room(key) {
            let connection = &mut self.connections[key as usize];
            if !connection.offered {
                connection.offered = true;
                connection.free_ns = now_ns;
                self.free.push_back(key);
            }
        }
        self.send_due(now_ns)
    }

    /// Sends what is due by the schedule, as long as there are free connections. What is late is
    /// sent at once.
    pub(super) fn send_due(&mut self, mut now_ns: u64) -> Result<(), Stop> {
        loop {
            while !self.gives_up
                && let Some(key) = self.first_free()
            {
                let claim = self.share.as_mut().and_then(|share| share.claim(now_ns));
                let Some(claim) = claim else { break };
                self.send_claimed(key, claim, now_ns)?;
            }
            let has_free = !self.free.is_empty();
            let share = self.share.as_mut();
            if !share.is_some_and(|share| share.show_free(has_free)) {
                return Ok(());
            }
            now_ns = self.io.now_ns();
        }
    }

    /// The connection that has been free longest.
    #[inline]
    fn first_free(&mut self) -> Option<u32> {
        while let Some(key) = self.free.front().copied() {
            if self.has_room(key) {
                return Some(key);
            }
            // It has ended while it was free.
            self.connections[key as usize].offered = false;
            self.free.pop_front();
        }
        None
    }

    /// Sends a request on the first of the free connections.
    fn send_claimed(&mut self, key: u32, claim: Claim, now_ns: u64) -> Result<(), Stop> {
        self.free.pop_front();
        self.connections[key as usize].offered = false;
        let before = self.connections[key as usize].sent;
        match &self.requests {
            Requests::Fixed { .. } => self.send_fixed(key, 1, Some(claim.due_ns), now_ns)?,
            Requests::Asked => self.send_asked(key, 1, Some(claim.due_ns))?,
        }
        let sent = self.connections[key as usize].sent.saturating_sub(before);
        if let Some(share) = &mut self.share {
            match sent {
                // The connection failed before it could carry anything.
                0 => share.give_back(claim),
                _ => share.claim_more(claim, u32::try_from(sent - 1).unwrap_or(u32::MAX)),
            }
        }
        // With pipelining there may be room for more.
        if self.has_room(key) {
            self.connections[key as usize].offered = true;
            self.free.push_back(key);
        }
        Ok(())
    }

    /// Whether a request can be sent on the connection now.
    fn has_room(&self, key: u32) -> bool {
        let connection = &self.connections[key as usize];
        connection.state == State::Open
            && connection.token.is_some()
            && connection.flights.batches() < self.settings.pipeline as usize
            && connection.sent < self.settings.requests_per_connection
    }

    /// Fills the connection up to the pipeline's depth.
    pub(super) fn send_requests(&mut self, key: u32, now_ns: u64) -> Result<(), Stop> {
        let connection = &self.connections[key as usize];
        let in_window = now_ns >= self.schedule.measure_ns;
        let allowed = self
            .settings
            .requests_per_connection
            .saturating_sub(connection.sent);
        let allowed = if in_window {
            allowed.min(self.budget)
        } else {
            allowed
        };
        if allowed == 0 || self.gives_up {
            return Ok(());
        }
        match &self.requests {
            Requests::Fixed { kinds, .. } => {
                let per_batch = kinds.len() as u32;
                let under_way = connection.flights.outstanding().div_ceil(per_batch);
                let room = u64::from(self.settings.pipeline.saturating_sub(under_way));
                // A batch is sent whole, even if fewer requests are wanted.
                let batches = room.min(allowed.div_ceil(u64::from(per_batch)));
                self.send_fixed(key, batches as usize, None, now_ns)
            }
            Requests::Asked if connection.flights.outstanding() == 0 => {
                self.send_asked(key, self.settings.pipeline, None)
            }
            Requests::Asked => Ok(()),
        }
    }

    /// Sends so many of the ready-made batches, due at `due_ns` if there is a schedule. Without one
    /// `now_ns` is the moment of sending; with one it may be the begin of a turn, and too early.
    #[inline]
    pub(super) fn send_fixed(
        &mut self,
        key: u32,
        batches: usize,
        due_ns: Option<u64>,
        now_ns: u64,
    ) -> Result<(), Stop> {
        if batches == 0 {
            return Ok(());
        }
        let Self {
            requests,
            connections,
            io,
            spare,
            ..
        } = self;
        let Requests::Fixed {
            bytes,
            batch_bytes,
            kinds,
            shared,
        } = requests
        else {
            return Ok(());
        };
        let connection = &mut connections[key as usize];
        let Some(token) = connection.token else {
            return Ok(());
        };
        for _ in 0..batches {
            for kind in kinds.iter() {
                connection.session.expect(*kind);
            }
        }
        let range = 0..batches * *batch_bytes;
        let sent_ns = if due_ns.is_some() {
            io.now_ns()
        } else {
            now_ns
        };
        let requests = (batches * kinds.len()) as u32;
        if S::TRANSPARENT {
            io.send(
                token,
                Payload::Shared {
                    bytes: *shared,
                    range,
                },
            );
        } else {
            let mut buffer = spare.pop().unwrap_or_default();
            if let Err(error) = connection.session.encode(&bytes[range], &mut buffer) {
                self.fail_session(key, &error, now_ns);
                return Ok(());
            }
            io.send(token, Payload::Owned(buffer));
        }
        self.note_sent(key, requests, due_ns, sent_ns);
        Ok(())
    }

    /// Asks the source for so many batches and sends them.
    pub(super) fn send_asked(
        &mut self,
        key: u32,
        batches: u32,
        due_ns: Option<u64>,
    ) -> Result<(), Stop> {
        let mut plain = self.spare.pop().unwrap_or_default();
        for _ in 0..batches {
            self.scripted(|source| source.next(key, &mut plain))?;
        }
        self.kinds.clear();
        if let Err(error) = request::scan(&plain, &mut self.kinds) {
            // The first request was checked before the run. A later one with, say, an empty path is sent as it is, as in wrk, and
            // the server's response to it counts. What has no end of a head would leave the server waiting for one.
            if !plain.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
                return Err(Stop::Failed(format!(
                    "the script's request() returned a bad request: {error}"
                )));
            }
            self.kinds.push(RequestKind::Plain);
        }
        // After the script, so that its time is not counted as the server's.
        let now_ns = self.io.now_ns();
        let connection = &mut self.connections[key as usize];
        let Some(token) = connection.token else {
            return Ok(());
        };
        for kind in &self.kinds {
            connection.session.expect(*kind);
        }
        let requests = self.kinds.len() as u32;
        if S::TRANSPARENT {
            self.io.send(token, Payload::Owned(plain));
        } else {
            let mut buffer = self.spare.pop().unwrap_or_default();
            let encoded = connection.session.encode(&plain, &mut buffer);
            self.recycle(plain);
            if let Err(error) = encoded {
                self.fail_session(key, &error, now_ns);
                return Ok(());
            }
            self.io.send(token, Payload::Owned(buffer));
        }
        self.note_sent(key, requests, due_ns, now_ns);
        Ok(())
    }

    #[inline]
    fn note_sent(&mut self, key: u32, requests: u32, due_ns: Option<u64>, sent_ns: u64) {
        if self.answer_poll_ns > 0 {
            self.io
                .poll_until(sent_ns.saturating_add(self.answer_poll_ns));
        }
        let connection = &mut self.connections[key as usize];
        let free_ns = connection.free_ns;
        connection.flights.push(Flight {
            due_ns: due_ns.unwrap_or(sent_ns),
            sent_ns,
            requests,
        });
        connection.sent += u64::from(requests);
        self.outstanding += u64::from(requests);
        self.asked_ns = self.asked_ns.min(sent_ns);
        self.deadlines
            .set(key, sent_ns.saturating_add(self.settings.timeout_ns));
        // A turn may go on for a moment after the end.
        let began_ns = sent_ns.min(self.schedule.end_ns);
        self.recorder().began(u64::from(requests), began_ns);
        if due_ns.unwrap_or(sent_ns) >= self.schedule.measure_ns {
            if self.settings.requests.is_some() && due_ns.is_none() {
                self.budget = self.budget.saturating_sub(u64::from(requests));
            }
            let paused_ns = due_ns.map_or(0, |due_ns| self.outage.paused_ns(due_ns, sent_ns));
            let recorder = self.recorder();
            recorder.sent(u64::from(requests));
            if let Some(due_ns) = due_ns {
                recorder.lagged(u64::from(requests), due_ns, free_ns, sent_ns);
                if paused_ns > 0 {
                    recorder.paused(u64::from(requests), paused_ns);
                }
            }
        }
    }

    pub(super) fn flush_output(&mut self, key: u32) {
        if self.output.is_empty() {
            return;
        }
        let buffer = std::mem::replace(&mut self.output, self.spare.pop().unwrap_or_default());
        if let Some(token) = self.connections[key as usize].token {
            self.io.send(token, Payload::Owned(buffer));
        }
    }

    pub(super) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

pub(super) fn fixed_requests<L: EventLoop, S: Session>(
    io: &mut L,
    batch: &[u8],
    pipeline: u32,
) -> Result<Requests, String> {
    let mut kinds = Vec::new();
    request::scan(batch, &mut kinds).map_err(|error| error.to_string())?;
    let bytes = batch.repeat(pipeline as usize);
    let shared = if S::TRANSPARENT {
        io.share(bytes.clone())
    } else {
        SharedBytes(0)
    };
    Ok(Requests::Fixed {
        bytes,
        batch_bytes: batch.len(),
        kinds,
        shared,
    })
}
