//! Requests and responses on the streams of a connection, over HTTP/2 and HTTP/3.

pub(crate) mod response;
pub(crate) mod step;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt::Debug;
use std::rc::Rc;

use protocol::h2::RequestHead;

use crate::calls;
use crate::context::{Arrival, Context, Decision, Form};
use crate::llm::{self, Generation, Running, Turn};
use crate::prepared::{AfterFin, ConnectionStep, PreparedResponse};
use crate::report::RECORDED_MAX_BYTES;
use crate::request::{BadRequest, ECHO_MAX_BYTES, HEAD_TOO_LARGE, Head};

use response::Encoding;
use step::StreamStep;

/// Collected frames are sent when they reach this size, in bytes.
pub(crate) const FRAMES_BYTES: usize = 64 * 1024;
/// How much content a stream sends before it is the turn of the next, in bytes.
const TURN_BYTES: u64 = 32 * 1024;
/// Responses in memory. A load test mostly sends one request.
const KNOWN_MAX: usize = 16;

/// Writes the frames of a protocol.
pub(crate) trait Writer: Debug {
    /// The number of a stream.
    type Stream: Copy + Ord + Debug;

    /// How header fields are encoded.
    const ENCODING: Encoding;
    /// Whether it is HTTP/3.
    const IS_HTTP3: bool;
    /// How responses are written.
    const FORM: Form<StreamStep> = Form {
        prepare: |recipe, traits| response::prepare(Self::ENCODING, recipe, traits),
        text: |status, media_type, body, close| {
            response::text(Self::ENCODING, status, media_type, body, close)
        },
        has_http10: false,
        is_http3: Self::IS_HTTP3,
    };

    /// The responses in memory. `None` if the protocol is not spoken.
    fn known(context: &mut Context) -> Option<&mut KnownResponses>;

    /// Bytes of content that may be sent on a stream in one DATA frame now.
    fn window(&self, stream: Self::Stream) -> u32;

    /// Whether something may be sent on a stream: the response is not complete, and nobody has
    /// reset the stream.
    fn is_open(&self, stream: Self::Stream) -> bool;

    /// What must happen before more is sent on a stream, windows aside.
    fn pause(&self, stream: Self::Stream) -> Option<Pause>;

    /// Bytes of the frames of responses so far.
    fn sent_bytes(&self) -> u64;

    /// Sends a header block: a head, an interim head or trailers.
    fn send_head(&mut self, stream: Self::Stream, block: &[u8], ends_stream: bool);

    /// Sends one DATA frame with `length` bytes of content, which `write` appends.
    fn send_data(
        &mut self,
        stream: Self::Stream,
        length: u32,
        ends_stream: bool,
        write: impl FnOnce(&mut Vec<u8>),
    );

    /// Announces the end of the connection: GOAWAY.
    fn send_goaway(&mut self);

    /// From now on each byte of the response is sent on its own, if the protocol can.
    fn split(&mut self, _stream: Self::Stream) {}
}

/// Why nothing more is sent on a stream now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The connection has enough to send.
    Connection,
    /// The stream has enough to send. Its owner calls [`Streams::unblock`] when there is room.
    Stream,
}

/// Responses to requests without a body, by their head.
#[derive(Debug, Default)]
pub(crate) struct KnownResponses(VecDeque<(Rc<RequestHead>, Rc<PreparedResponse<StreamStep>>)>);

impl KnownResponses {
    fn find(&self, head: &Rc<RequestHead>) -> Option<Rc<PreparedResponse<StreamStep>>> {
        let mut known = self.0.iter();
        let (_, response) = known.find(|(known, _)| Rc::ptr_eq(known, head))?;
        Some(Rc::clone(response))
    }

    fn add(&mut self, head: &Rc<RequestHead>, response: &Rc<PreparedResponse<StreamStep>>) {
        if self.0.len() == KNOWN_MAX {
            self.0.pop_front();
        }
        self.0.push_back((Rc::clone(head), Rc::clone(response)));
    }
}

/// What to do if no response can go on.
#[derive(Debug, PartialEq)]
pub(crate) enum Rest {
    /// Ask again when something was sent.
    Blocked,
    /// Ask again at this time.
    Wait(u64),
    /// Ask again if something arrives.
    Idle,
    /// Execute these steps; the connection ends.
    End(Vec<ConnectionStep>),
}

/// The requests of a connection and their responses.
#[derive(Debug)]
pub(crate) struct Streams<W: Writer> {
    pub(crate) writer: W,
    /// The number of the connection.
    number: u64,
    requests: u64,
    /// Requests whose body has not arrived.
    pub(crate) uploads: BTreeMap<W::Stream, Upload>,
    responses: BTreeMap<W::Stream, Pending>,
    /// Responses that can go on.
    ready: VecDeque<W::Stream>,
    /// Responses that wait for a window.
    blocked: Vec<W::Stream>,
    /// Responses that wait for a time.
    due: BinaryHeap<Reverse<(u64, W::Stream)>>,
    /// GOAWAY was sent: the connection ends with the last response.
    is_closing: bool,
    end: Option<Vec<ConnectionStep>>,
}

/// A request whose body has not arrived.
#[derive(Debug)]
pub(crate) struct Upload {
    decision: Decision,
    head: Rc<RequestHead>,
    body: Vec<u8>,
    keeps_body: bool,
}

#[derive(Debug)]
struct Pending {
    response: Rc<PreparedResponse<StreamStep>>,
    /// The next part and its progress.
    part: usize,
    progress: u64,
    running: Option<Box<Running>>,
    log_index: Option<usize>,
    bytes: u64,
}

impl<W: Writer> Streams<W> {
    /// A connection at its beginning.
    pub(crate) fn new(number: u64, writer: W) -> Self {
        Self {
            writer,
            number,
            requests: 0,
            uploads: BTreeMap::new(),
            responses: BTreeMap::new(),
            ready: VecDeque::new(),
            blocked: Vec::new(),
            due: BinaryHeap::new(),
            is_closing: false,
            end: None,
        }
    }

    /// The stream has ended before its time.
    pub(crate) fn on_reset(&mut self, stream: W::Stream) {
        self.uploads.remove(&stream);
        self.responses.remove(&stream);
    }

    /// The connection is gone.
    pub(crate) fn drop_all(&mut self) {
        self.uploads.clear();
        self.responses.clear();
    }

    /// Possibly more may be sent than before.
    pub(crate) fn unblock(&mut self) {
        self.ready.extend(self.blocked.drain(..));
    }

    /// The connection ends with these steps, whatever is in progress.
    pub(crate) fn end_with(&mut self, steps: Vec<ConnectionStep>) {
        self.end = Some(steps);
    }

    /// Whether the connection ends: nothing more is read or made.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Responses whose time has come can go on.
    pub(crate) fn wake(&mut self, now_ns: u64) {
        while let Some(Reverse((due_ns, stream))) = self.due.peek().copied()
            && due_ns <= now_ns
        {
            self.due.pop();
            self.ready.push_back(stream);
        }
    }

    /// Continues a response that can go on. False if there is none.
    pub(crate) fn advance(&mut self, now_ns: u64, context: &mut Context) -> bool {
        if self.has_ended() {
            return false;
        }
        let Some(stream) = self.ready.pop_front() else {
            return false;
        };
        self.walk(stream, now_ns, context);
        true
    }

    /// What to do if no response can go on.
    pub(crate) fn rest(&mut self) -> Rest {
        if let Some(steps) = self.end.take() {
            return Rest::End(steps);
        }
        if !self.ready.is_empty() {
            return Rest::Blocked;
        }
        if let Some(Reverse((due_ns, _))) = self.due.peek() {
            return Rest::Wait(*due_ns);
        }
        let is_at_rest = self.responses.is_empty() && self.uploads.is_empty();
        if is_at_rest && self.is_closing {
            Rest::End(vec![ConnectionStep::Fin(AfterFin::Linger)])
        } else {
            Rest::Idle
        }
    }

    /// A request has begun.
    pub(crate) fn on_request(
        &mut self,
        stream: W::Stream,
        head: &Rc<RequestHead>,
        is_whole: bool,
        at_ns: u64,
        context: &mut Context,
    ) {
        let is_plain = is_whole && !context.log.records() && !self.is_last(context);
        if is_plain
            && let Some(known) = W::known(context)
            && let Some(response) = known.find(head)
        {
            return self.accept(stream, &response, at_ns, context);
        }
        if head.is_too_large {
            return self.refuse(stream, HEAD_TOO_LARGE, at_ns, context);
        }
        let key = head.fields.iter().find(|(name, _)| llm::has_key(name));
        let mut decision = context.decide(Head {
            method: head.method.clone(),
            target: head.target.clone(),
            is_http10: false,
            keeps_alive: true,
            expects_continue: head.expects_continue,
            has_body: !is_whole,
            api_key: key.and_then(|(_, value)| llm::key_of(value)),
        });
        let media_type = head
            .fields
            .iter()
            .find(|(name, _)| *name == b"content-type");
        if media_type.is_some_and(|(_, value)| calls::is_call(value)) {
            decision.become_call();
        }
        if head.expects_continue && !is_whole {
            let block = W::ENCODING.block(100, &[]);
            let before = self.writer.sent_bytes();
            self.writer.send_head(stream, &block, false);
            let bytes = self.writer.sent_bytes() - before;
            context.counters().bytes_out.add(bytes);
        }
        let upload = Upload {
            keeps_body: decision.needs_body() || context.log.records(),
            decision,
            head: Rc::clone(head),
            body: Vec::new(),
        };
        self.uploads.insert(stream, upload);
        if is_whole {
            self.on_request_end(stream, at_ns, context);
        }
    }

    /// A request is complete.
    pub(crate) fn on_request_end(&mut self, stream: W::Stream, at_ns: u64, context: &mut Context) {
        let Some(upload) = self.uploads.remove(&stream) else {
            return;
        };
        if context.log.records() {
            context.log.record(upload.recorded());
        }
        let Upload {
            decision,
            head,
            body,
            ..
        } = upload;
        let body = if calls::is_reflection(&decision.head.target) && decision.echoes() {
            calls::reflect(&body)
        } else {
            body
        };
        // A request with a body is not known by its head alone.
        let head = (!decision.head.has_body).then_some(&head);
        self.respond(stream, &decision, body, head, at_ns, context);
    }

    /// Prepares the response to a request, remembers it if it is always the same, and begins it.
    fn respond(
        &mut self,
        stream: W::Stream,
        decision: &Decision,
        body: Vec<u8>,
        head: Option<&Rc<RequestHead>>,
        at_ns: u64,
        context: &mut Context,
    ) {
        let is_last = self.is_last(context);
        let response = match context.response(&W::FORM, decision, body, is_last) {
            Ok(response) => Rc::new(response),
            Err(why) => return self.refuse(stream, why, at_ns, context),
        };
        if response.is_counted
            && !is_last
            && let Some(head) = head
            && let Some(known) = W::known(context)
        {
            known.add(head, &response);
        }
        self.accept(stream, &response, at_ns, context);
    }

    /// Whether the next request is the last on this connection.
    fn is_last(&self, context: &Context) -> bool {
        context
            .keepalive_requests
            .is_some_and(|most| self.requests + 1 >= most)
    }

    fn refuse(&mut self, stream: W::Stream, why: BadRequest, at_ns: u64, context: &mut Context) {
        context.counters().refused.add(1);
        let response = Rc::new(W::FORM.refusal(why));
        self.accept(stream, &response, at_ns, context);
    }

    fn accept(
        &mut self,
        stream: W::Stream,
        response: &Rc<PreparedResponse<StreamStep>>,
        at_ns: u64,
        context: &mut Context,
    ) {
        self.requests += u64::from(response.is_counted);
        let arrival = Arrival {
            connection: self.number,
            at_ns,
        };
        let (response, due_ns, log_index) = context.arrive(response, arrival);
        let before = self.writer.sent_bytes();
        let is_instant = response.is_whole
            && due_ns <= at_ns
            && log_index.is_none()
            && self.ready.is_empty()
            && self.writer.pause(stream).is_none();
        if is_instant && self.write_at_once(stream, &response) {
            let bytes = self.writer.sent_bytes() - before;
            context.counters().bytes_out.add(bytes);
            if response.is_counted {
                context.counters().responses.add(1);
            }
            return;
        }
        let pending = Pending {
            response,
            part: 0,
            progress: 0,
            running: None,
            log_index,
            bytes: 0,
        };
        self.responses.insert(stream, pending);
        if due_ns <= at_ns {
            self.ready.push_back(stream)
        } else {
            self.due.push(Reverse((due_ns, stream)))
        }
    }

    /// Writes a response that needs no window but the one there is. This is the path of nearly all
    /// requests of a load test.
    fn write_at_once(
        &mut self,
        stream: W::Stream,
        response: &PreparedResponse<StreamStep>,
    ) -> bool {
        let writer = &mut self.writer;
        let (block, content) = match response.steps.as_slice() {
            [
                StreamStep::Head {
                    block,
                    ends_stream: true,
                    times: 1,
                },
            ] => (block, None),
            [
                StreamStep::Head {
                    block, times: 1, ..
                },
                StreamStep::Data {
                    content,
                    frame_bytes_max,
                    interval_ns: 0,
                    ends_stream: true,
                },
            ] => {
                let most = writer.window(stream);
                if content.bytes() > u64::from(most).min(*frame_bytes_max) {
                    return false;
                }
                (block, Some(content))
            }
            _ => return false,
        };
        writer.send_head(stream, block, content.is_none());
        if let Some(content) = content {
            let length = content.bytes() as u32;
            writer.send_data(stream, length, true, |output| {
                content.append(0, u64::from(length), output);
            });
        }
        true
    }

    /// Continues the response on a stream as far as possible.
    fn walk(&mut self, stream: W::Stream, now_ns: u64, context: &mut Context) {
        let Some(mut pending) = self.responses.remove(&stream) else {
            // The client has reset it.
            return;
        };
        let response = Rc::clone(&pending.response);
        let mut outcome = StreamProgress::On;
        while outcome == StreamProgress::On {
            let Some(part) = response.steps.get(pending.part) else {
                outcome = StreamProgress::Done;
                break;
            };
            let before = self.writer.sent_bytes();
            outcome = self.walk_part(stream, part, &mut pending, now_ns, context);
            if part.is_of_response() {
                let bytes = self.writer.sent_bytes() - before;
                pending.bytes += bytes;
                context.counters().bytes_out.add(bytes);
            }
        }
        match outcome {
            StreamProgress::Done => return finish(&pending, now_ns, context),
            StreamProgress::On | StreamProgress::Turn => self.ready.push_back(stream),
            StreamProgress::Blocked => self.blocked.push(stream),
            StreamProgress::Until(due_ns) => self.due.push(Reverse((due_ns, stream))),
            StreamProgress::Never => {}
        }
        self.responses.insert(stream, pending);
    }

    fn walk_part(
        &mut self,
        stream: W::Stream,
        part: &StreamStep,
        pending: &mut Pending,
        now_ns: u64,
        context: &mut Context,
    ) -> StreamProgress {
        let writer = &mut self.writer;
        match part {
            StreamStep::Head {
                block,
                ends_stream,
                times,
            } => {
                writer.send_head(stream, block, *ends_stream);
                return pending.repeat(*times, writer.pause(stream));
            }
            StreamStep::Data { .. } => return self.walk_data(stream, part, pending, now_ns),
            StreamStep::Generate(generation) => {
                return self.walk_generation(stream, generation, pending, now_ns, context);
            }
            StreamStep::Goaway => {
                writer.send_goaway();
                self.is_closing = true;
            }
            StreamStep::Pause(delay) => {
                pending.part += 1;
                let pause_ns = delay.sample_ns(&mut context.random);
                return StreamProgress::Until(now_ns.saturating_add(pause_ns));
            }
            StreamStep::Split => writer.split(stream),
            StreamStep::Hang => return StreamProgress::Never,
            StreamStep::End(steps) => self.end = Some(steps.clone()),
            StreamStep::Forget { after } if self.requests < *after => {}
            StreamStep::Forget { .. } => self.end = Some(vec![ConnectionStep::Forget]),
        }
        pending.part += 1;
        match part {
            StreamStep::End(_) => StreamProgress::Done,
            _ => StreamProgress::On,
        }
    }

    /// Sends the next event of a generation if it is due, as far as the window allows.
    fn walk_generation(
        &mut self,
        stream: W::Stream,
        generation: &Generation,
        pending: &mut Pending,
        now_ns: u64,
        context: &mut Context,
    ) -> StreamProgress {
        let writer = &mut self.writer;
        let log_index = pending.log_index;
        let running = pending.running.get_or_insert_with(|| {
            Box::new(Running::begin(generation, now_ns, log_index, context))
        });
        match running.next(generation, now_ns) {
            Turn::Wait(until_ns) => return StreamProgress::Until(until_ns),
            Turn::Piece => {}
            Turn::End => {
                pending.running = None;
                pending.part += 1;
                return StreamProgress::On;
            }
        }
        let left = running.rest().len() as u64;
        let most = writer.window(stream);
        let length = left.min(generation.frame_bytes_max).min(u64::from(most));
        if length == 0 {
            return if writer.is_open(stream) {
                StreamProgress::Blocked
            } else {
                StreamProgress::Never
            };
        }
        writer.send_data(stream, length as u32, false, |output| {
            output.extend_from_slice(&running.rest()[..length as usize]);
        });
        running.handed(length as usize, generation, now_ns, context);
        match generation.byte_interval_ns {
            Some(interval_ns @ 1..) => StreamProgress::Until(now_ns.saturating_add(interval_ns)),
            _ => StreamProgress::after(writer.pause(stream)),
        }
    }

    /// Sends content until the window is used up or it is the turn of another stream.
    fn walk_data(
        &mut self,
        stream: W::Stream,
        part: &StreamStep,
        pending: &mut Pending,
        now_ns: u64,
    ) -> StreamProgress {
        let writer = &mut self.writer;
        let StreamStep::Data {
            content,
            frame_bytes_max,
            interval_ns,
            ends_stream,
        } = part
        else {
            return StreamProgress::On;
        };
        let mut sent = 0;
        loop {
            let left = content.bytes() - pending.progress;
            let most = writer.window(stream);
            let length = left.min(*frame_bytes_max).min(u64::from(most));
            if length == 0 && left > 0 {
                return if writer.is_open(stream) {
                    StreamProgress::Blocked
                } else {
                    StreamProgress::Never
                };
            }
            let is_last = length == left;
            let progress = pending.progress;
            writer.send_data(stream, length as u32, is_last && *ends_stream, |output| {
                content.append(progress, length, output);
            });
            sent += length;
            if is_last {
                (pending.part, pending.progress) = (pending.part + 1, 0);
                return StreamProgress::On;
            }
            pending.progress += length;
            if *interval_ns > 0 {
                return StreamProgress::Until(now_ns.saturating_add(*interval_ns));
            }
            match writer.pause(stream) {
                None if sent < TURN_BYTES => {}
                None => return StreamProgress::Turn,
                pause => return StreamProgress::after(pause),
            }
        }
    }
}

/// How far a response has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamProgress {
    /// To the next part.
    On,
    /// It is the turn of another stream.
    Turn,
    /// To the end of a window.
    Blocked,
    /// To a pause until this time.
    Until(u64),
    /// It will not go on.
    Never,
    /// To its end, which is counted.
    Done,
}

impl StreamProgress {
    fn after(pause: Option<Pause>) -> Self {
        match pause {
            None => Self::On,
            Some(Pause::Connection) => Self::Turn,
            Some(Pause::Stream) => Self::Blocked,
        }
    }
}

/// Counts a response after its last part.
fn finish(done: &Pending, now_ns: u64, context: &mut Context) {
    if done.response.is_counted && done.response.is_whole {
        context.counters().responses.add(1);
    }
    if let Some(index) = done.log_index {
        context.log.depart(index, now_ns, done.bytes);
    }
}

impl Pending {
    /// After a frame that is sent this many times.
    fn repeat(&mut self, times: u64, pause: Option<Pause>) -> StreamProgress {
        self.progress += 1;
        if self.progress >= times {
            (self.part, self.progress) = (self.part + 1, 0);
            return StreamProgress::On;
        }
        StreamProgress::after(pause)
    }
}

impl Upload {
    /// A part of the body has arrived.
    pub(crate) fn add(&mut self, content: &[u8]) {
        if self.keeps_body {
            // One byte more than allowed, so that the excess is seen.
            let room = (ECHO_MAX_BYTES + 1).saturating_sub(self.body.len());
            self.body
                .extend_from_slice(&content[..content.len().min(room)]);
        }
    }

    /// The request as text: its fields, an empty line, the body.
    fn recorded(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for (name, value) in self.head.fields.iter() {
            text.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
        }
        text.extend_from_slice(b"\r\n");
        text.extend_from_slice(&self.body);
        text.truncate(RECORDED_MAX_BYTES);
        text
    }
}
