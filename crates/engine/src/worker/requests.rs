//! Sends requests: when a connection may send, and which bytes.

use super::accounting::Accounting;
use super::conversations::DueTurn;
use super::network::Network;
use super::queued_sends::AGE_MAX_IN_SCRIPT_NS;
use super::sender::Cookies;
use super::slots::Slots;
use super::traces::{TRACEPARENT, Trace};
use super::writer::{Batches, Chosen, RequestLabel, Sending, SentRequests};
use super::{Phase, StopReason, Worker};
use crate::connection::ConnectionState;
use crate::shared_schedule::Claim;
use eventloop::EventLoop;
use protocol::{Session, request};

/// Why a source that ends cannot follow a schedule.
const NO_REQUEST_DUE: &str = "the script's request() returned nil, and another request is due: \
                              with a rate, every request must be made";

/// Requests as text.
struct TextRequests {
    text: Vec<u8>,
    label: RequestLabel,
    /// How many batches the text has.
    batches: u32,
    /// The trace of the first request.
    trace: Option<Trace>,
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// Lets an open connection continue: with a delay of the script, or by sending.
    #[inline]
    pub(super) fn advance(&mut self, key: u32, now_ns: u64) -> Result<(), StopReason> {
        if self.network.pool.is_idle(key) || self.phase == Phase::Drain {
            return Ok(());
        }
        if self.sender.has_pauses && self.end_pauses(key, now_ns) {
            return Ok(());
        }
        let has_waited = std::mem::take(&mut self.network.pool[key].has_waited);
        if self.sender.source.wants_delay
            && !has_waited
            && self.network.pool[key].exchanges.outstanding() == 0
        {
            let delay_ns = self.call_source(|source| source.delay_ns())?;
            if delay_ns > 0 {
                let connection = &mut self.network.pool[key];
                connection.state = ConnectionState::Thinking;
                // From the current time, not from `now_ns`: the script may have taken a while.
                let due_ns = self.network.io.now_ns().saturating_add(delay_ns);
                self.network.pool.wake_at(key, due_ns);
                return Ok(());
            }
        }
        self.send_or_offer(key, now_ns)
    }

    /// Sends what a connection can take now. At a fixed rate, adds it to the free connections
    /// instead.
    pub(super) fn send_or_offer(&mut self, key: u32, now_ns: u64) -> Result<(), StopReason> {
        if !self.sender.is_paced() {
            let is_answered = self.network.pool[key].answered > 0;
            if self.network.opening.takes(key, is_answered) {
                return Ok(());
            }
            return self.send_requests(key, now_ns);
        }
        if self.sender.slots.is_some() {
            return self.continue_slot(key, now_ns);
        }
        self.network.pool.offer(key, now_ns);
        self.send_due(now_ns)
    }

    /// Sends what is due by the schedule, as long as there are free connections. Overdue requests
    /// are sent at once, unless responses must be read first.
    pub(super) fn send_due(&mut self, mut now_ns: u64) -> Result<(), StopReason> {
        loop {
            while self.sender.slots.as_ref().is_some_and(Slots::has_free) && self.may_send() {
                let Some(claim) = self.sender.claim(now_ns) else {
                    break;
                };
                self.send_claimed_to_slot(claim)?;
            }
            while self.may_send()
                && let Some(key) = self.network.pool.first_free()
            {
                if let Some(turn) = self.sender.take_due_turn(now_ns) {
                    self.send_turn(key, turn, now_ns)?;
                    continue;
                }
                let Some(claim) = self.sender.claim(now_ns) else {
                    break;
                };
                match self.sender.begin_conversation(claim.due_ns) {
                    Some(turn) => self.send_turn(key, turn, now_ns)?,
                    None => self.send_claimed(key, claim, now_ns)?,
                }
            }
            let has_free =
                self.sender.has_free(&self.network.pool) && !self.sender.stretch.is_over();
            let share = self.sender.share.as_mut();
            if !share.is_some_and(|share| share.show_free(has_free)) {
                return Ok(());
            }
            now_ns = self.network.io.now_ns();
        }
    }

    fn may_send(&self) -> bool {
        !self.accounting.stall.stops_sending && !self.sender.stretch.is_over()
    }

    /// Sends a claimed request on the first of the free connections.
    fn send_claimed(&mut self, key: u32, claim: Claim, now_ns: u64) -> Result<(), StopReason> {
        self.take_free(key, claim.due_ns);
        let before = self.network.pool[key].sent;
        if let Batches::FromSource = self.sender.writer.batches {
            self.send_from_source(key, 1, Some(claim.due_ns))?;
        } else {
            self.sender.writer.claim(claim.number);
            self.send_batches(key, 1, Some(claim.due_ns), now_ns)?;
        }
        self.sender
            .stretch
            .note_sent(self.accounting.watch.now_ns());
        let sent = self.network.pool[key].sent.saturating_sub(before);
        if let Some(share) = &mut self.sender.share {
            match sent {
                // The connection failed before it could send anything.
                0 => share.give_back(claim),
                _ => share.claim_more(claim, u32::try_from(sent - 1).unwrap_or(u32::MAX)),
            }
        }
        self.network.pool.offer_again(key);
        Ok(())
    }

    /// Takes the first of the free connections for what is due.
    fn take_free(&mut self, key: u32, due_ns: u64) {
        self.network.pool.take_first_free();
        let thread = &mut self.accounting.usage;
        let ideal_ns = self.network.ideal_free_ns(key, due_ns, thread);
        let connection = &mut self.network.pool[key];
        connection.own_ns = connection.free_ns.saturating_sub(ideal_ns);
    }

    /// Sends the next turn of a conversation on the first of the free connections.
    fn send_turn(&mut self, key: u32, turn: DueTurn, now_ns: u64) -> Result<(), StopReason> {
        self.take_free(key, turn.due_ns);
        let id = (key, self.network.pool[key].exchanges.next_id());
        let mut text = self.network.spare.take();
        let label = self.sender.turn_text(turn, &mut text, now_ns);
        let requests = TextRequests {
            text,
            label: label.unwrap_or_default(),
            batches: 1,
            trace: self.sender.next_trace(),
        };
        // Before it is sent: the connection may fail in between.
        if let Some(conversations) = &mut self.sender.conversations {
            let (conversation, number) = conversations.send(id, turn);
            let tokens = self.network.pool[key].exchanges.tokens_mut(id.1);
            (tokens.conversation, tokens.turn) = (conversation, number);
        }
        if self.send_text(key, requests, Some(turn.due_ns))? {
            self.note_names(turn.due_ns);
        } else if let Some(conversations) = &mut self.sender.conversations {
            conversations.give_back(id, turn);
        }
        let now_ns = self.accounting.watch.now_ns();
        self.sender.stretch.note_sent(now_ns);
        self.network.pool.offer_again(key);
        Ok(())
    }

    /// Fills the connection up to the depth of the pipeline.
    pub(super) fn send_requests(&mut self, key: u32, now_ns: u64) -> Result<(), StopReason> {
        if self.sender.slots.is_some() {
            return self.continue_slot(key, now_ns);
        }
        let connection = &self.network.pool[key];
        let pipeline = if self.sender.has_pauses {
            let waiting = u32::try_from(connection.pauses.len()).unwrap_or(u32::MAX);
            self.settings.pipeline.saturating_sub(waiting)
        } else {
            self.settings.pipeline
        };
        let in_window = now_ns >= self.times.measure_ns;
        let allowed = self
            .settings
            .requests_per_connection
            .saturating_sub(connection.sent);
        let allowed = if in_window {
            allowed.min(self.sender.budget)
        } else {
            allowed
        };
        if allowed == 0 || self.accounting.stall.stops_sending {
            return Ok(());
        }
        match &self.sender.writer.batches {
            Batches::Fixed(fixed) => {
                let per_batch = fixed.batch_requests;
                let room = connection.room(pipeline, per_batch);
                // A batch is sent as a whole, even if fewer requests are left.
                let batches = u64::from(room).min(allowed.div_ceil(u64::from(per_batch)));
                self.send_batches(key, batches as u32, None, now_ns)
            }
            Batches::FromFile(_) => {
                let room = u64::from(connection.room(pipeline, 1));
                self.send_batches(key, room.min(allowed) as u32, None, now_ns)
            }
            Batches::FromSource if !S::SENDS_TEXT => {
                let room = u64::from(connection.room(pipeline, 1));
                self.fill_from_source(key, room.min(allowed) as u32)
            }
            Batches::FromSource if connection.exchanges.outstanding() == 0 => {
                self.send_from_source(key, self.settings.pipeline, None)
            }
            Batches::FromSource => Ok(()),
        }
    }

    /// Sends this many of the prepared batches or requests of the file, which were due at `due_ns`
    /// at a fixed rate. In a closed loop, `now_ns` is the time of sending. At a fixed rate, it may
    /// be the start of a turn, which is too early.
    #[inline]
    fn send_batches(
        &mut self,
        key: u32,
        batches: u32,
        due_ns: Option<u64>,
        now_ns: u64,
    ) -> Result<(), StopReason> {
        if batches == 0 {
            return Ok(());
        }
        if self.sender.writes_text {
            return (0..batches).try_for_each(|_| match self.sender.next_trace() {
                None if !self.sender.per_client => {
                    self.send_together(key, 1, due_ns, now_ns);
                    Ok(())
                }
                trace => self.send_for_client(key, None, due_ns, trace),
            });
        }
        self.send_together(key, batches, due_ns, now_ns);
        Ok(())
    }

    #[inline]
    fn send_together(&mut self, key: u32, batches: u32, due_ns: Option<u64>, now_ns: u64) {
        let Some(sending) = Sending::on(&mut self.network, key, due_ns) else {
            return;
        };
        let at_ns = due_ns.is_none().then_some(now_ns);
        let sent = self.sender.writer.send(sending, batches, at_ns);
        self.note_sent(key, &sent, due_ns);
        self.note_names(due_ns.unwrap_or(sent.at_ns));
    }

    /// Counts the requests of a file that were sent last by name.
    #[inline]
    pub(super) fn note_names(&mut self, at_ns: u64) {
        if let Batches::FromFile(file) = &self.sender.writer.batches {
            self.accounting.count_names(file.names_sent(), at_ns);
        }
    }

    /// Sends the fixed batch, this request of the file or the next one of the client, with what the
    /// client has: its cookies and the values that it captured; and with this trace.
    pub(super) fn send_for_client(
        &mut self,
        key: u32,
        chosen: Option<Chosen>,
        due_ns: Option<u64>,
        trace: Option<Trace>,
    ) -> Result<(), StopReason> {
        // The one before may have ended the connection.
        if self.network.pool[key].state != ConnectionState::Open {
            return Ok(());
        }
        let now_ns = self.network.io.now_ns();
        let mut text = self.network.spare.take();
        let (client, _) = self.network.slot_and_host(key);
        let label = self
            .sender
            .writer
            .next_text(client, chosen, &mut text, now_ns);
        let requests = TextRequests {
            text,
            label,
            batches: 1,
            trace,
        };
        if self.send_text(key, requests, due_ns)? {
            self.note_names(due_ns.unwrap_or(now_ns));
        }
        Ok(())
    }

    /// Sends so many requests of the source on the streams of a connection. If responses must be
    /// read before that, the others follow later.
    fn fill_from_source(&mut self, key: u32, requests: u32) -> Result<(), StopReason> {
        // A jar and a trace note one exchange at a time.
        let one_by_one = self.sender.cookies.is_some() || self.sender.traces.is_some();
        let mut left = requests;
        while left > 0 && self.sender.budget > 0 {
            let together = if one_by_one {
                1
            } else {
                left.min(self.sender.stretch.room())
            };
            self.send_from_source(key, together, None)?;
            left -= together;
            if left > 0 && self.sender.stretch.is_over() {
                let now_ns = self.network.io.now_ns();
                let connection = &mut self.network.pool[key];
                self.sender.refill_later(key, connection, now_ns);
                break;
            }
        }
        Ok(())
    }

    /// Gets this many batches from the source and sends them.
    pub(super) fn send_from_source(
        &mut self,
        key: u32,
        batches: u32,
        due_ns: Option<u64>,
    ) -> Result<(), StopReason> {
        let mut text = self.network.spare.take();
        let mut made = 0;
        while made < batches {
            let before = text.len();
            self.call_source(|source| source.next(key, &mut text))?;
            if text.len() == before {
                if due_ns.is_some() {
                    return Err(StopReason::Failed(NO_REQUEST_DUE.to_owned()));
                }
                self.sender.budget = 0;
                break;
            }
            made += 1;
        }
        if made == 0 {
            self.network.spare.recycle(text);
            return Ok(());
        }
        let batches = made;
        let requests = TextRequests {
            text,
            label: RequestLabel::default(),
            batches,
            trace: self.sender.next_trace(),
        };
        self.send_text(key, requests, due_ns).map(drop)
    }

    /// Sends the requests in a text with the cookies of the connection. Returns whether they were
    /// sent.
    fn send_text(
        &mut self,
        key: u32,
        requests: TextRequests,
        due_ns: Option<u64>,
    ) -> Result<bool, StopReason> {
        let TextRequests {
            mut text,
            label,
            batches,
            mut trace,
        } = requests;
        if let Some((_, value)) = &trace {
            let mut complete = self.network.spare.take();
            if !request::add_field(&text, TRACEPARENT, value, &mut complete) {
                trace = None;
            }
            self.network
                .spare
                .recycle(std::mem::replace(&mut text, complete));
        }
        if let Some(Cookies { site, jars }) = &mut self.sender.cookies {
            let mut complete = self.network.spare.take();
            jars[key as usize].write(site, &text, &mut complete);
            self.network
                .spare
                .recycle(std::mem::replace(&mut text, complete));
        }
        let context = &mut self.network.context;
        let prepared = self.sender.writer.prepare(context, &text, batches);
        prepared.map_err(|error| {
            StopReason::Failed(format!(
                "the script's request() returned a bad request: {error}"
            ))
        })?;
        // Read after the script, so that its time is not attributed to the server.
        let now_ns = self.network.io.now_ns();
        let mut script_ns = 0;
        if matches!(self.sender.writer.batches, Batches::FromSource) {
            let time = self.accounting.watch.note_script(now_ns);
            script_ns = time.took_ns;
            self.network.opening.note_script(script_ns);
            self.sender.stretch.note_script(now_ns, batches, script_ns);
            if now_ns >= self.times.measure_ns {
                self.accounting.recorder().script_took(time);
            }
        }
        let Some(sending) = Sending::on(&mut self.network, key, due_ns) else {
            return Ok(false);
        };
        let exchange = sending.next_id();
        let sent = self
            .sender
            .writer
            .send_prepared(sending, text, label, now_ns);
        if let Some(Cookies { jars, .. }) =
            self.sender.cookies.as_mut().filter(|_| sent.requests > 0)
        {
            jars[key as usize].sent(exchange);
        }
        if let Some((trace, _)) = trace.filter(|_| sent.requests > 0) {
            let connection = &mut self.network.pool[key];
            connection.exchanges.set_trace(exchange, trace);
            if due_ns.unwrap_or(sent.at_ns) >= self.times.measure_ns {
                self.accounting.count_trace();
            }
        }
        self.note_sent(key, &sent, due_ns);
        // The next call may take as long.
        self.submit_if_old(now_ns.saturating_add(script_ns), AGE_MAX_IN_SCRIPT_NS);
        Ok(sent.requests > 0)
    }

    #[inline]
    pub(super) fn note_sent(&mut self, key: u32, sent: &SentRequests, due_ns: Option<u64>) {
        if sent.requests > 0 {
            self.count_sent(key, sent, due_ns);
        }
        self.network.note_unflushed(key);
        if let Some(error) = &sent.error {
            self.fail_session(key, error, sent.at_ns);
        }
    }

    #[inline]
    fn count_sent(&mut self, key: u32, sent: &SentRequests, due_ns: Option<u64>) {
        self.sender
            .poll_for_response(&mut self.network.io, sent.at_ns);
        self.network.note_sent(key, sent.requests, sent.at_ns);
        if due_ns.is_none() && sent.at_ns >= self.times.measure_ns {
            self.sender.use_budget(sent.requests);
        }
        self.accounting
            .count_sent(&mut self.network, key, sent, due_ns);
    }
}

impl<L: EventLoop, S: Session> Network<L, S> {
    /// This many requests were sent on a connection.
    #[inline]
    fn note_sent(&mut self, key: u32, requests: u32, sent_ns: u64) {
        self.note_queued(key, sent_ns);
        let connection = &mut self.pool[key];
        connection.sent = connection.sent.saturating_add(u64::from(requests));
        self.pool.outstanding += u64::from(requests);
        self.set_deadline(key, sent_ns);
    }
}

impl Accounting {
    /// Counts the requests of a file that were sent last by name.
    #[inline]
    fn count_names(&mut self, names: &[u32], at_ns: u64) {
        let recorder = self.recorder.as_mut();
        if let Some(recorder) = recorder.filter(|it| it.measures(at_ns)) {
            names.iter().for_each(|name| recorder.sent_by_name(*name));
        }
    }

    /// Counts requests that were sent on a connection.
    #[inline]
    fn count_sent<L, S: Session>(
        &mut self,
        network: &mut Network<L, S>,
        key: u32,
        sent: &SentRequests,
        due_ns: Option<u64>,
    ) {
        let (requests, sent_ns) = (u64::from(sent.requests), sent.at_ns);
        self.watch.note(sent_ns);
        self.stall.note_sent(sent_ns);
        // A turn may continue for a moment after the end.
        let began_ns = sent_ns.min(self.times.end_ns);
        let measure_ns = self.times.measure_ns;
        let recorder = self.recorder();
        recorder.began(requests, began_ns);
        let connection = &mut network.pool[key];
        // Not the requests that probe whether the server keeps up with new connections.
        if !connection.has_sent && !network.opening.is_holding() {
            connection.has_sent = true;
            if due_ns.is_none() {
                recorder.unused_until(began_ns, 1);
            }
        }
        if due_ns.unwrap_or(sent_ns) < measure_ns {
            return;
        }
        recorder.sent(requests, connection.address);
        if let Some(due_ns) = due_ns {
            recorder.record_send_lag(requests, due_ns, connection.free_ns, sent_ns);
            let paused_ns = network.outage.paused_ns(due_ns, sent_ns);
            if paused_ns > 0 {
                recorder.paused(requests, paused_ns);
            }
        }
    }
}
