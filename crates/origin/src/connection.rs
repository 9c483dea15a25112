//! The state machine of a connection: bytes in, actions out, without socket and clock.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::rc::Rc;

use eventloop::CloseMode;
use rustls::ServerConnection;

use crate::context::{Arrival, Context, Decision};
use crate::http2::{self, Http2, Next};
use crate::llm::{Generation, Running, Turn};
use crate::prepared::{AfterFin, ConnectionStep, PreparedResponse};
use crate::report::RECORDED_MAX_BYTES;
use crate::request::{BadRequest, Head, RequestEvent, RequestReader};
use crate::response;
use crate::streams::Rest;

/// Collected output is sent when it reaches this size, in bytes.
const SEND_BYTES: usize = 64 * 1024;
/// No more output is produced while this many bytes wait for the peer, in bytes.
const WINDOW_BYTES: u64 = 1024 * 1024;
/// Maximum number of unanswered requests on a connection; beyond that it is reset.
const QUEUE_MAX: usize = 100_000;
/// How long to wait for the peer's FIN after ours, in nanoseconds.
const LINGER_NS: u64 = 2_000_000_000;
/// How much of what the peer goes on sending is discarded until then. With less, a peer that sends
/// a large body might lose our last bytes; one that sends without end would keep the worker busy.
const LINGER_BYTES_MAX: u64 = 64 << 20;

/// What the worker must do next for a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Send these bytes, call [`Connection::sent`] when they are handed to the kernel, and ask
    /// again.
    Send(Vec<u8>),
    /// Ask again at this time, or earlier if something arrives.
    Wait(u64),
    /// Ask again if something arrives.
    Idle,
    /// Send FIN and ask again.
    Fin,
    /// Close the socket; the connection has ended.
    Close(CloseMode),
}

#[derive(Debug)]
pub(crate) struct Connection {
    number: u64,
    /// The first bytes, until they show the protocol; `None` afterwards.
    opening: Option<Vec<u8>>,
    /// The TLS handshake has agreed on HTTP/2.
    is_http2_agreed: bool,
    http2: Option<Box<Http2>>,
    reader: RequestReader,
    tls: Option<Box<ServerConnection>>,
    /// A request whose head is complete and whose body is not.
    partial: Option<Decision>,
    queue: VecDeque<Pending>,
    /// Plaintext that has not been sent.
    output: Vec<u8>,
    /// Bytes of sends that have not been reported as complete.
    in_flight_bytes: u64,
    requests: u64,
    phase: Phase,
    peer_ended: bool,
    /// Bytes of the current request, if they are recorded.
    raw: Vec<u8>,
    /// Input during the initial delay; `None` afterwards.
    delayed_input: Option<DelayedInput>,
}

/// Delays before the first bytes of a connection are processed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InitialDelays {
    /// After accepting, in nanoseconds.
    pub(crate) accept_delay_ns: u64,
    /// After that, or after the first bytes if they arrive later, in nanoseconds.
    pub(crate) tls_delay_ns: u64,
}

#[derive(Debug)]
struct DelayedInput {
    readable_ns: u64,
    tls_delay_ns: u64,
    /// When the bytes are processed; `None` until some have arrived.
    read_at_ns: Option<u64>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Pending {
    response: Rc<PreparedResponse>,
    due_ns: u64,
    /// The next step and its progress.
    step: usize,
    progress: u64,
    running: Option<Box<Running>>,
    log_index: Option<usize>,
    bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    /// Requests are no longer read, responses still sent.
    Deaf,
    /// FIN is sent; input is discarded until the peer's FIN, this time, or so many bytes.
    Lingering {
        until_ns: u64,
        bytes_left: u64,
    },
    Broken,
}

impl Connection {
    pub(crate) fn new(number: u64, tls: Option<ServerConnection>) -> Self {
        Self {
            number,
            opening: Some(Vec::new()),
            is_http2_agreed: false,
            http2: None,
            reader: RequestReader::default(),
            tls: tls.map(Box::new),
            partial: None,
            queue: VecDeque::new(),
            output: Vec::new(),
            in_flight_bytes: 0,
            requests: 0,
            phase: Phase::Serving,
            peer_ended: false,
            raw: Vec::new(),
            delayed_input: None,
        }
    }

    /// Delays the processing of input.
    pub(crate) fn wait_before_reading(&mut self, delays: InitialDelays, now_ns: u64) {
        if delays != InitialDelays::default() {
            self.delayed_input = Some(DelayedInput {
                readable_ns: now_ns.saturating_add(delays.accept_delay_ns),
                tls_delay_ns: delays.tls_delay_ns,
                read_at_ns: None,
                bytes: Vec::new(),
            });
        }
    }

    /// Executes this response and reads no more requests.
    pub(crate) fn only(&mut self, response: PreparedResponse, now_ns: u64) {
        self.phase = Phase::Deaf;
        self.enqueue(Rc::new(response), now_ns, None);
    }

    /// Processes bytes from the socket.
    pub(crate) fn receive(&mut self, bytes: &[u8], at_ns: u64, context: &mut Context) {
        if let Phase::Lingering { bytes_left, .. } = &mut self.phase {
            *bytes_left = bytes_left.saturating_sub(bytes.len() as u64);
        }
        if let Some(delayed_input) = &mut self.delayed_input {
            let begin_ns = delayed_input.readable_ns.max(at_ns);
            delayed_input
                .read_at_ns
                .get_or_insert_with(|| begin_ns.saturating_add(delayed_input.tls_delay_ns));
            delayed_input.bytes.extend_from_slice(bytes);
            return;
        }
        match self.tls.take() {
            None => self.read(bytes, at_ns, context),
            Some(mut tls) => {
                let is_fine = self.decrypt(&mut tls, bytes, at_ns, context);
                self.tls = Some(tls);
                if !is_fine && self.phase == Phase::Serving {
                    context.counters().tls_failures.add(1);
                    self.queue.clear();
                    let fin = vec![ConnectionStep::Fin(AfterFin::LingerUnannounced)];
                    self.only(PreparedResponse::ending(fin), at_ns);
                }
            }
        }
    }

    /// The peer has sent FIN.
    pub(crate) fn end(&mut self) {
        self.peer_ended = true;
    }

    /// This many bytes of an [`Action::Send`] were handed to the kernel.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(bytes as u64);
    }

    /// What to do now. To be called after every call above and when a wait has ended.
    pub(crate) fn next_move(&mut self, now_ns: u64, context: &mut Context) -> Action {
        if let Some(read_at_ns) = self.delayed_input.as_ref().and_then(|held| held.read_at_ns) {
            if now_ns < read_at_ns {
                return Action::Wait(read_at_ns);
            }
            let bytes = self.delayed_input.take().map(|held| held.bytes);
            self.receive(&bytes.unwrap_or_default(), now_ns, context);
        }
        loop {
            if self.phase == Phase::Broken {
                return Action::Close(CloseMode::Abort);
            }
            if self.output.len() >= SEND_BYTES {
                return self.flush(context).unwrap_or(Action::Idle);
            }
            if self.http2.is_some() && self.phase == Phase::Serving {
                match self.advance_http2(now_ns, context) {
                    Some(next) => return next,
                    None => continue,
                }
            }
            let Some(front) = self.queue.front() else {
                return self.flush(context).unwrap_or_else(|| self.rest(now_ns));
            };
            if front.due_ns > now_ns {
                let wait = Action::Wait(front.due_ns);
                return self.flush(context).unwrap_or(wait);
            }
            if let Some(next) = self.walk(now_ns, context) {
                return next;
            }
        }
    }

    /// What HTTP/2 wants next; `None` if there may be more to do.
    fn advance_http2(&mut self, now_ns: u64, context: &mut Context) -> Option<Action> {
        let has_room = self.in_flight_bytes < WINDOW_BYTES;
        let http2 = self.http2.as_mut()?;
        match http2.advance(now_ns, has_room, &mut self.output, context) {
            Next::More => None,
            Next::Rest(Rest::Blocked) => Some(self.flush(context).unwrap_or(Action::Idle)),
            Next::Rest(Rest::Wait(until_ns)) => {
                Some(self.flush(context).unwrap_or(Action::Wait(until_ns)))
            }
            Next::Rest(Rest::Idle) => {
                Some(self.flush(context).unwrap_or_else(|| self.rest(now_ns)))
            }
            Next::Rest(Rest::End(steps)) => {
                self.only(PreparedResponse::ending(steps), now_ns);
                None
            }
            Next::Broken => {
                self.phase = Phase::Broken;
                None
            }
        }
    }

    /// Whether a new request can be answered immediately.
    pub(crate) fn is_quiet(&self) -> bool {
        self.http2.is_none()
            && self.opening.as_ref().is_none_or(Vec::is_empty)
            && self.queue.is_empty()
            && self.tls.is_none()
            && self.delayed_input.is_none()
            && self.phase == Phase::Serving
            && !self.peer_ended
            && self.partial.is_none()
            && self.reader.is_at_start()
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Decrypts and processes bytes; false on a TLS failure.
    fn decrypt(
        &mut self,
        tls: &mut ServerConnection,
        mut bytes: &[u8],
        at_ns: u64,
        context: &mut Context,
    ) -> bool {
        let mut plain = [0; 16 * 1024];
        while !bytes.is_empty() {
            if tls.read_tls(&mut bytes).is_err() || tls.process_new_packets().is_err() {
                return false;
            }
            self.is_http2_agreed = tls.alpn_protocol() == Some(b"h2");
            // Ends with WouldBlock if there is no more, with 0 after close_notify.
            while let Ok(count @ 1..) = tls.reader().read(&mut plain) {
                self.read(&plain[..count], at_ns, context);
            }
        }
        true
    }

    fn read(&mut self, bytes: &[u8], at_ns: u64, context: &mut Context) {
        context.counters().bytes_in.add(bytes.len() as u64);
        let mut opening;
        let bytes = match self.opening.take() {
            None => bytes,
            Some(before) => {
                opening = before;
                opening.extend_from_slice(bytes);
                let is_http2 = match (&context.http2, self.is_http2_agreed) {
                    (None, _) => Some(false),
                    (Some(_), true) => Some(true),
                    (Some(_), false) => http2::is_preface(&opening),
                };
                match is_http2 {
                    None => {
                        self.opening = Some(opening);
                        return;
                    }
                    Some(true) => self.http2 = Http2::begin(self.number, context).map(Box::new),
                    Some(false) => {}
                }
                opening.as_slice()
            }
        };
        match &mut self.http2 {
            Some(http2) if self.phase == Phase::Serving => http2.receive(bytes, at_ns, context),
            Some(_) => {}
            None => self.read_http1(bytes, at_ns, context),
        }
    }

    fn read_http1(&mut self, bytes: &[u8], at_ns: u64, context: &mut Context) {
        let mut rest = bytes;
        // Where the current request starts, if that is in these bytes.
        let mut start = None;
        while self.phase == Phase::Serving {
            if self.reader.is_at_start() && self.partial.is_none() {
                if rest.is_empty() {
                    return;
                }
                start = Some(rest);
                if let Some(taken) = self.respond_from_cache(rest, at_ns, context) {
                    rest = &rest[taken..];
                    continue;
                }
            }
            let before = rest;
            let found = self.reader.next(&mut rest);
            if context.log.records() {
                let taken = &before[..before.len() - rest.len()];
                let room = RECORDED_MAX_BYTES.saturating_sub(self.raw.len());
                self.raw.extend_from_slice(&taken[..taken.len().min(room)]);
            }
            match found {
                Ok(None) => return,
                Ok(Some(RequestEvent::Head(head))) => self.on_head(head, rest, at_ns, context),
                Ok(Some(RequestEvent::End { body })) => {
                    let request = start.take().map(|from| &from[..from.len() - rest.len()]);
                    self.on_end(body, request, at_ns, context);
                }
                Err(why) => self.refuse(why, at_ns, context),
            }
        }
    }

    /// Answers a cached request; returns its length.
    fn respond_from_cache(
        &mut self,
        input: &[u8],
        at_ns: u64,
        context: &mut Context,
    ) -> Option<usize> {
        if context.log.records() || self.is_last(context) {
            return None;
        }
        let known = context.cache.find(input)?;
        self.accept(&known.response, at_ns, context);
        Some(known.request_bytes)
    }

    fn on_head(&mut self, head: Head, rest: &[u8], at_ns: u64, context: &mut Context) {
        let decision = context.decide(head);
        if decision.needs_body() {
            self.reader.keep_body();
        }
        // RFC 9110 section 10.1.1: not needed if the body is already arriving.
        if decision.head.expects_continue && decision.head.has_body && rest.is_empty() {
            self.enqueue(Rc::new(response::continue_plan()), at_ns, None);
        }
        self.partial = Some(decision);
    }

    fn on_end(&mut self, body: Vec<u8>, request: Option<&[u8]>, at_ns: u64, context: &mut Context) {
        if context.log.records() {
            context.log.record(std::mem::take(&mut self.raw));
        }
        if let Some(decision) = self.partial.take() {
            self.respond(&decision, body, request, at_ns, context);
        }
    }

    /// Prepares the response to a request, caches it if it is always the same, and enqueues it.
    fn respond(
        &mut self,
        decision: &Decision,
        body: Vec<u8>,
        request: Option<&[u8]>,
        at_ns: u64,
        context: &mut Context,
    ) {
        let is_last = self.is_last(context);
        let response = match context.response(&response::FORM, decision, body, is_last) {
            Ok(response) => Rc::new(response),
            Err(why) => return self.refuse(why, at_ns, context),
        };
        if let Some(request) = request
            && response.is_counted
            && !is_last
        {
            context.cache.add(request, &response);
        }
        self.accept(&response, at_ns, context);
    }

    /// Whether the next request is the last on this connection.
    fn is_last(&self, context: &Context) -> bool {
        context
            .keepalive_requests
            .is_some_and(|most| self.requests + 1 >= most)
    }

    fn accept(&mut self, response: &Rc<PreparedResponse>, at_ns: u64, context: &mut Context) {
        self.requests += u64::from(response.is_counted);
        let arrival = Arrival {
            connection: self.number,
            at_ns,
        };
        let (response, due_ns, log_index) = context.arrive(response, arrival);
        self.enqueue(response, due_ns, log_index);
    }

    fn refuse(&mut self, why: BadRequest, at_ns: u64, context: &Context) {
        context.counters().refused.add(1);
        self.only(response::FORM.refusal(why), at_ns);
    }

    fn enqueue(&mut self, response: Rc<PreparedResponse>, due_ns: u64, log_index: Option<usize>) {
        if self.queue.len() >= QUEUE_MAX {
            self.phase = Phase::Broken;
            return;
        }
        self.queue.push_back(Pending {
            response,
            due_ns,
            step: 0,
            progress: 0,
            running: None,
            log_index,
            bytes: 0,
        });
    }

    /// What to do if no response is due.
    fn rest(&mut self, now_ns: u64) -> Action {
        if self.peer_ended {
            // Closing now would discard unsent data.
            let is_done = self.in_flight_bytes == 0;
            return if is_done {
                Action::Close(CloseMode::Graceful)
            } else {
                Action::Idle
            };
        }
        match self.phase {
            Phase::Lingering {
                until_ns,
                bytes_left,
            } => {
                if now_ns >= until_ns || bytes_left == 0 {
                    Action::Close(CloseMode::Graceful)
                } else {
                    Action::Wait(until_ns)
                }
            }
            _ => Action::Idle,
        }
    }

    /// Executes one step of the first response, which is due; `None` if there may be more to do.
    fn walk(&mut self, now_ns: u64, context: &mut Context) -> Option<Action> {
        let front = self.queue.front_mut()?;
        let response = Rc::clone(&front.response);
        let Some(step) = response.steps.get(front.step) else {
            self.finish(now_ns, context);
            return None;
        };
        match step {
            ConnectionStep::Bytes(bytes) => {
                if self.in_flight_bytes >= WINDOW_BYTES {
                    return Some(self.flush(context).unwrap_or(Action::Idle));
                }
                self.output.extend_from_slice(bytes);
                front.bytes += bytes.len() as u64;
                front.step += 1;
                None
            }
            ConnectionStep::Bytewise { bytes, interval_ns } => {
                self.walk_bytewise(bytes, *interval_ns, context)
            }
            ConnectionStep::Stream(stream) => {
                if self.in_flight_bytes >= WINDOW_BYTES {
                    return Some(self.flush(context).unwrap_or(Action::Idle));
                }
                let before = self.output.len();
                let room = SEND_BYTES.saturating_sub(before);
                let (progress, has_more) = stream.produce(front.progress, room, &mut self.output);
                front.bytes += (self.output.len() - before) as u64;
                (front.progress, front.step) = if has_more {
                    (progress, front.step)
                } else {
                    (0, front.step + 1)
                };
                // A long response ends when the peer closes.
                let is_unread = has_more && self.peer_ended;
                is_unread.then_some(Action::Close(CloseMode::Graceful))
            }
            ConnectionStep::Generate(generation) => {
                self.walk_generation(generation, now_ns, context)
            }
            ConnectionStep::Flush => {
                if let Some(send) = self.flush(context) {
                    return Some(send);
                }
                if self.in_flight_bytes > 0 {
                    return Some(Action::Idle);
                }
                self.step_done();
                None
            }
            ConnectionStep::Pause(delay) => {
                front.due_ns = now_ns.saturating_add(delay.sample_ns(&mut context.random));
                front.step += 1;
                None
            }
            ConnectionStep::Hang if self.peer_ended => Some(Action::Close(CloseMode::Graceful)),
            ConnectionStep::Hang => Some(self.flush(context).unwrap_or(Action::Idle)),
            ConnectionStep::Fin(fin) => Some(self.walk_fin(*fin, now_ns, context)),
            ConnectionStep::Close => Some(self.walk_close(CloseMode::Graceful, now_ns, context)),
            ConnectionStep::Reset | ConnectionStep::Forget => {
                Some(self.walk_close(CloseMode::Abort, now_ns, context))
            }
        }
    }

    /// Sends the next event of a generation, or one byte of it, if it is due.
    fn walk_generation(
        &mut self,
        generation: &Generation,
        now_ns: u64,
        context: &mut Context,
    ) -> Option<Action> {
        let is_bytewise = generation.byte_interval_ns.is_some();
        if is_bytewise && let Some(send) = self.flush(context) {
            return Some(send);
        }
        if self.in_flight_bytes >= if is_bytewise { 1 } else { WINDOW_BYTES } {
            return Some(self.flush(context).unwrap_or(Action::Idle));
        }
        let front = self.queue.front_mut()?;
        let log_index = front.log_index;
        let running = front.running.get_or_insert_with(|| {
            Box::new(Running::begin(generation, now_ns, log_index, context))
        });
        match running.next(generation, now_ns) {
            Turn::Wait(until_ns) => front.due_ns = until_ns,
            Turn::Piece => {
                let all = running.rest();
                let bytes = &all[..if is_bytewise { 1 } else { all.len() }];
                self.output.extend_from_slice(bytes);
                let count = bytes.len();
                front.bytes += count as u64;
                running.handed(count, generation, now_ns, context);
                // Relative to the last due time, so that drips do not drift.
                let interval_ns = generation.byte_interval_ns.unwrap_or(0);
                front.due_ns = front.due_ns.saturating_add(interval_ns);
            }
            Turn::End => {
                front.running = None;
                front.step += 1;
            }
        }
        None
    }

    fn walk_bytewise(
        &mut self,
        bytes: &[u8],
        interval_ns: u64,
        context: &mut Context,
    ) -> Option<Action> {
        if let Some(send) = self.flush(context) {
            return Some(send);
        }
        if self.in_flight_bytes > 0 {
            return Some(Action::Idle);
        }
        let front = self.queue.front_mut()?;
        if let Some(byte) = bytes.get(front.progress as usize) {
            self.output.push(*byte);
            front.bytes += 1;
            front.progress += 1;
        }
        if front.progress as usize >= bytes.len() {
            self.step_done();
        } else {
            // Relative to the last due time, so that drips do not drift.
            front.due_ns = front.due_ns.saturating_add(interval_ns);
        }
        None
    }

    fn walk_fin(&mut self, fin: AfterFin, now_ns: u64, context: &mut Context) -> Action {
        let says_goodbye = fin != AfterFin::LingerUnannounced;
        if let (Some(tls), Some(front), true) =
            (&mut self.tls, self.queue.front_mut(), says_goodbye)
            && front.progress == 0
        {
            front.progress = 1;
            // `output` must be encrypted before the alert.
            if self.http2.is_none() {
                context.counters().bytes_out.add(self.output.len() as u64);
            }
            let _ = tls.writer().write_all(&self.output);
            self.output.clear();
            tls.send_close_notify();
        }
        if let Some(send) = self.flush(context) {
            return send;
        }
        self.finish(now_ns, context);
        self.queue.clear();
        self.phase = Phase::Lingering {
            until_ns: now_ns.saturating_add(LINGER_NS),
            bytes_left: LINGER_BYTES_MAX,
        };
        Action::Fin
    }

    fn walk_close(&mut self, mode: CloseMode, now_ns: u64, context: &mut Context) -> Action {
        self.finish(now_ns, context);
        self.queue.clear();
        Action::Close(mode)
    }

    fn step_done(&mut self) {
        if let Some(front) = self.queue.front_mut() {
            front.step += 1;
            front.progress = 0;
        }
    }

    /// Removes the first response from the queue after its last step.
    fn finish(&mut self, now_ns: u64, context: &mut Context) {
        let Some(done) = self.queue.pop_front() else {
            return;
        };
        if done.response.is_counted && done.response.is_whole {
            context.counters().responses.add(1);
        }
        if let Some(index) = done.log_index {
            context.log.depart(index, now_ns, done.bytes);
        }
    }

    /// The collected output, encrypted with TLS; `None` if empty.
    fn flush(&mut self, context: &Context) -> Option<Action> {
        // HTTP/2 counts the frames of responses when it writes them.
        if self.http2.is_none() {
            context.counters().bytes_out.add(self.output.len() as u64);
        }
        let bytes = match &mut self.tls {
            None => std::mem::take(&mut self.output),
            Some(tls) => {
                // Writing into rustls and from it into memory cannot fail; before the handshake,
                // the text is dropped with the connection.
                let _ = tls.writer().write_all(&self.output);
                self.output.clear();
                let mut encrypted = Vec::new();
                while tls.wants_write() && tls.write_tls(&mut encrypted).is_ok_and(|n| n > 0) {}
                encrypted
            }
        };
        self.in_flight_bytes += bytes.len() as u64;
        (!bytes.is_empty()).then_some(Action::Send(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &[u8] = b"GET / HTTP/1.1\r\n\r\n";

    fn asked(context: &mut Context, requests: usize) -> Connection {
        let mut connection = Connection::new(0, None);
        connection.receive(&GET.repeat(requests), 1000, context);
        connection
    }

    /// Everything that is sent without waiting, each send completed immediately, and the next
    /// action.
    fn moved(
        connection: &mut Connection,
        now_ns: u64,
        context: &mut Context,
    ) -> (Vec<Vec<u8>>, Action) {
        let mut sends = Vec::new();
        loop {
            match connection.next_move(now_ns, context) {
                Action::Send(bytes) => {
                    connection.sent(bytes.len());
                    sends.push(bytes);
                }
                other => return (sends, other),
            }
        }
    }

    #[test]
    fn responses_of_one_receive_leave_in_one_send() {
        let mut context = Context::simulated("size=1");
        let mut connection = asked(&mut context, 5);
        let (sends, last) = moved(&mut connection, 1000, &mut context);
        assert_eq!((sends.len(), last), (1, Action::Idle));
        assert_eq!(
            sends[0].windows(4).filter(|bytes| bytes == b"HTTP").count(),
            5
        );
    }

    #[test]
    fn a_response_waits_for_its_time_and_not_longer() {
        let mut context = Context::simulated("delay=5us");
        let mut connection = asked(&mut context, 1);
        assert_eq!(connection.next_move(1000, &mut context), Action::Wait(6000));
        assert_eq!(connection.next_move(5999, &mut context), Action::Wait(6000));
        assert!(matches!(
            connection.next_move(6000, &mut context),
            Action::Send(_)
        ));
        let report = context.log.into_report(context.counters[0].counts(), None);
        assert_eq!(report.sojourns_ns(), [5000]);
    }

    #[test]
    fn a_split_generation_sends_single_bytes_and_keeps_its_times() {
        let mut context = Context::simulated("llm=ollama&tokens=2&gap=1ms&fault=split");
        let mut connection = asked(&mut context, 1);
        let (sends, next) = moved(&mut connection, 1000, &mut context);
        assert!(sends.iter().all(|send| send.len() == 1), "{sends:?}");
        assert!(sends.concat().ends_with(b" the\"},\"done\":false}\n\r\n"));
        assert_eq!(next, Action::Wait(1_001_000));
        let (sends, next) = moved(&mut connection, 1_001_000, &mut context);
        assert!(sends.iter().all(|send| send.len() == 1), "{sends:?}");
        assert!(
            sends
                .concat()
                .ends_with(b"\"eval_count\":2}\n\r\n0\r\n\r\n")
        );
        assert_eq!(next, Action::Idle);
    }

    #[test]
    fn each_event_of_a_generation_leaves_in_one_send() {
        let mut context = Context::simulated("llm=openai&tokens=2&first=1ms&gap=1ms");
        let mut connection = asked(&mut context, 1);
        let mut sends = Vec::new();
        let mut now_ns = 1000;
        while let (more, Action::Wait(until_ns)) = moved(&mut connection, now_ns, &mut context) {
            sends.push(more.len());
            now_ns = until_ns;
        }
        // The head with the prelude, then the first token; the last comes with the end.
        assert_eq!((sends, now_ns), (vec![1, 1], 2_001_000));
        assert_eq!(context.counters().counts().responses, 1);
    }

    #[test]
    fn a_split_response_sends_each_byte_when_the_one_before_is_reported() {
        let mut context = Context::simulated("size=2&fault=split");
        let mut connection = asked(&mut context, 1);
        assert_eq!(
            connection.next_move(1000, &mut context),
            Action::Send(b"H".to_vec())
        );
        assert_eq!(connection.next_move(1000, &mut context), Action::Idle);
        connection.sent(1);
        let (sends, _) = moved(&mut connection, 1000, &mut context);
        assert!(sends.iter().all(|bytes| bytes.len() == 1));
        assert!(sends.concat().ends_with(b"ab"));
    }

    #[test]
    fn drips_leave_on_time_to_the_nanosecond() {
        let mut context = Context::simulated("size=2&fault=drip:3us");
        let mut connection = asked(&mut context, 1);
        let (mut now_ns, mut bytes) = (1000, 0);
        loop {
            let (sends, next) = moved(&mut connection, now_ns, &mut context);
            bytes += sends.concat().len() as u64;
            match next {
                Action::Wait(until_ns) => {
                    assert_eq!(until_ns, 1000 + bytes * 3000);
                    now_ns = until_ns;
                }
                other => break assert_eq!(other, Action::Idle),
            }
        }
        assert_eq!(now_ns, 1000 + (bytes - 1) * 3000);
    }

    #[test]
    fn what_the_peer_does_not_read_is_not_made() {
        let mut context = Context::simulated("size=1000G&chunked");
        let mut connection = asked(&mut context, 1);
        let mut bytes = 0;
        while let Action::Send(part) = connection.next_move(1000, &mut context) {
            bytes += part.len() as u64;
            assert!(bytes < 2 * WINDOW_BYTES);
        }
        assert!(bytes >= WINDOW_BYTES);
        connection.sent(SEND_BYTES * 2);
        assert!(matches!(
            connection.next_move(1000, &mut context),
            Action::Send(_)
        ));
    }

    #[test]
    fn a_client_that_asks_and_never_reads_is_reset_in_the_end() {
        let mut context = Context::simulated("fault=hang");
        let mut connection = asked(&mut context, QUEUE_MAX);
        assert_eq!(connection.next_move(1000, &mut context), Action::Idle);
        connection.receive(GET, 1000, &mut context);
        assert_eq!(
            connection.next_move(1000, &mut context),
            Action::Close(CloseMode::Abort)
        );
    }

    #[test]
    fn after_an_announced_close_the_peer_is_awaited_but_not_for_ever() {
        let mut context = Context::simulated("close");
        let mut connection = asked(&mut context, 3);
        let (sends, next) = moved(&mut connection, 1000, &mut context);
        assert_eq!((sends.len(), next), (1, Action::Fin));
        assert_eq!(
            connection.next_move(1000, &mut context),
            Action::Wait(1000 + LINGER_NS)
        );
        let end = connection.next_move(1000 + LINGER_NS, &mut context);
        assert_eq!(end, Action::Close(CloseMode::Graceful));

        let mut connection = asked(&mut context, 1);
        assert_eq!(moved(&mut connection, 1000, &mut context).1, Action::Fin);
        connection.end();
        assert_eq!(
            connection.next_move(1000, &mut context),
            Action::Close(CloseMode::Graceful)
        );
    }

    #[test]
    fn a_peer_that_goes_on_sending_after_a_close_is_not_read_for_ever() {
        let mut context = Context::simulated("close");
        let mut connection = asked(&mut context, 1);
        assert_eq!(moved(&mut connection, 1000, &mut context).1, Action::Fin);
        let more = vec![b'x'; 1 << 20];
        let mut send = || {
            connection.receive(&more, 1000, &mut context);
            connection.next_move(1000, &mut context)
        };
        for _ in 1..LINGER_BYTES_MAX >> 20 {
            assert_eq!(send(), Action::Wait(1000 + LINGER_NS));
        }
        assert_eq!(send(), Action::Close(CloseMode::Graceful));
    }

    #[test]
    fn a_reset_waits_until_the_bytes_before_it_are_handed_over() {
        let mut context = Context::simulated("fault=reset-after-head");
        let mut connection = asked(&mut context, 1);
        let Action::Send(bytes) = connection.next_move(1000, &mut context) else {
            panic!("no head")
        };
        assert_eq!(connection.next_move(1000, &mut context), Action::Idle);
        connection.sent(bytes.len());
        assert_eq!(
            connection.next_move(1000, &mut context),
            Action::Close(CloseMode::Abort)
        );
    }

    #[test]
    fn first_bytes_are_read_when_acceptance_and_handshake_have_had_their_time() {
        let delays = InitialDelays {
            accept_delay_ns: 500,
            tls_delay_ns: 70,
        };
        // Accepted at 1000. Bytes that arrive before 1500 count as arriving at 1500.
        for (first_ns, read_ns) in [(1100, 1570), (1500, 1570), (1800, 1870)] {
            let mut context = Context::simulated("");
            let mut connection = Connection::new(0, None);
            connection.wait_before_reading(delays, 1000);
            assert_eq!(moved(&mut connection, 1000, &mut context).1, Action::Idle);
            let (early, late) = GET.split_at(5);
            connection.receive(early, first_ns, &mut context);
            connection.receive(late, first_ns + 1, &mut context);
            let waiting = moved(&mut connection, read_ns - 1, &mut context);
            assert_eq!(waiting, (Vec::new(), Action::Wait(read_ns)));
            assert!(!connection.is_quiet());
            let (response, end) = moved(&mut connection, read_ns, &mut context);
            assert!(response.concat().starts_with(b"HTTP/1.1 200"), "{end:?}");
            assert!(
                connection.is_quiet(),
                "only the first bytes are kept waiting"
            );
        }
    }
}
