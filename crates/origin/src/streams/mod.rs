//! A connection that speaks HTTP/2: requests and responses on many streams.

mod part;
mod response;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::rc::Rc;

use protocol::h2::error::ErrorCode;
use protocol::h2::heads::Heads;
use protocol::h2::hpack::Limits;
use protocol::h2::{PREFACE, Received, RequestHead, Server, ServerSettings, StreamId};

use crate::calls;
use crate::context::{Arrival, Context, Decision};
use crate::llm::{Generation, Running, Turn};
use crate::prepared::{AfterFin, PreparedResponse, Step};
use crate::report::RECORDED_MAX_BYTES;
use crate::request::{
    BadRequest, ECHO_MAX_BYTES, HEAD_MAX_BYTES, HEAD_TOO_LARGE, HEADERS_MAX, Head,
};

use part::Part;

/// Collected frames are sent when they reach this size, in bytes.
const FRAMES_BYTES: usize = 64 * 1024;
/// Frames that wait for a client that does not read. Beyond that the connection is reset: a client
/// can ask for frames (PING, SETTINGS) without end.
const FRAMES_MAX_BYTES: usize = 4 * 1024 * 1024;
/// How much content a stream sends before it is the turn of the next, in bytes.
const TURN_BYTES: u64 = 32 * 1024;
/// Responses in memory. A load test mostly sends one request.
const KNOWN_MAX: usize = 16;

/// What the HTTP/2 connections of a worker share.
#[derive(Debug)]
pub(crate) struct Http2Context {
    settings: ServerSettings,
    heads: Heads<Rc<RequestHead>>,
    /// Responses to requests without a body, by their head.
    known: VecDeque<(Rc<RequestHead>, Rc<PreparedResponse<Part>>)>,
}

impl Http2Context {
    pub(crate) fn new(settings: ServerSettings) -> Self {
        Self {
            settings,
            heads: Heads::new(Limits {
                list_bytes_max: HEAD_MAX_BYTES,
                fields_max: HEADERS_MAX,
            }),
            known: VecDeque::new(),
        }
    }

    fn find(&self, head: &Rc<RequestHead>) -> Option<Rc<PreparedResponse<Part>>> {
        let mut known = self.known.iter();
        let (_, response) = known.find(|(known, _)| Rc::ptr_eq(known, head))?;
        Some(Rc::clone(response))
    }

    fn add(&mut self, head: &Rc<RequestHead>, response: &Rc<PreparedResponse<Part>>) {
        if self.known.len() == KNOWN_MAX {
            self.known.pop_front();
        }
        self.known.push_back((Rc::clone(head), Rc::clone(response)));
    }
}

/// Whether a connection speaks HTTP/2, by its first bytes. `None` if they are too few.
pub(crate) fn is_preface(bytes: &[u8]) -> Option<bool> {
    let length = bytes.len().min(PREFACE.len());
    let begins = bytes[..length] == PREFACE[..length];
    (!begins || length == PREFACE.len()).then_some(begins)
}

/// What the connection must do next.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// Ask again: there may be more.
    More,
    /// Ask again when something was sent.
    Blocked,
    /// Ask again at this time.
    Wait(u64),
    /// Ask again if something arrives.
    Idle,
    /// Execute these steps; the connection ends.
    End(Vec<Step>),
    /// Reset the connection: too much waits for a client that does not read.
    Broken,
}

#[derive(Debug)]
pub(crate) struct Http2 {
    session: Server,
    /// The number of the connection.
    number: u64,
    requests: u64,
    /// Frames that the connection has not taken.
    frames: Vec<u8>,
    uploads: BTreeMap<StreamId, Upload>,
    responses: BTreeMap<StreamId, Pending>,
    /// Responses that can go on.
    ready: VecDeque<StreamId>,
    /// Responses that wait for a window.
    blocked: Vec<StreamId>,
    /// Responses that wait for a time.
    due: BinaryHeap<Reverse<(u64, StreamId)>>,
    /// GOAWAY was sent: the connection ends with the last response.
    is_closing: bool,
    end: Option<Vec<Step>>,
}

/// A request whose body has not arrived.
#[derive(Debug)]
struct Upload {
    decision: Decision,
    head: Rc<RequestHead>,
    body: Vec<u8>,
    keeps_body: bool,
}

#[derive(Debug)]
struct Pending {
    response: Rc<PreparedResponse<Part>>,
    /// The next part and its progress.
    part: usize,
    progress: u64,
    running: Option<Box<Running>>,
    log_index: Option<usize>,
    bytes: u64,
}

impl Http2 {
    /// A connection at its beginning; `None` if only HTTP/1 is spoken.
    pub(crate) fn begin(number: u64, context: &Context) -> Option<Self> {
        let shared = context.http2.as_ref()?;
        let mut this = Self {
            session: Server::new(&shared.heads),
            number,
            requests: 0,
            frames: Vec::new(),
            uploads: BTreeMap::new(),
            responses: BTreeMap::new(),
            ready: VecDeque::new(),
            blocked: Vec::new(),
            due: BinaryHeap::new(),
            is_closing: false,
            end: None,
        };
        this.session.begin(&shared.settings, &mut this.frames);
        Some(this)
    }

    /// Processes bytes of the client.
    pub(crate) fn receive(&mut self, bytes: &[u8], at_ns: u64, context: &mut Context) {
        let mut rest = bytes;
        while self.end.is_none() {
            let Some(shared) = &mut context.http2 else {
                return;
            };
            let next = self
                .session
                .next(&mut shared.heads, &mut rest, &mut self.frames);
            match next {
                Ok(None) => return,
                Ok(Some(Received::Handled)) => {}
                Ok(Some(Received::Request {
                    stream,
                    head,
                    is_whole,
                })) => self.on_request(stream, &head, is_whole, at_ns, context),
                Ok(Some(Received::Content {
                    stream,
                    content,
                    is_last,
                })) => {
                    if let Some(upload) = self.uploads.get_mut(&stream) {
                        upload.add(content);
                    }
                    if is_last {
                        self.on_request_end(stream, at_ns, context);
                    }
                }
                Ok(Some(Received::Reset { stream })) => {
                    self.uploads.remove(&stream);
                    self.responses.remove(&stream);
                }
                Ok(Some(Received::Window)) => self.ready.extend(self.blocked.drain(..)),
                Err(_) => {
                    context.counters().refused.add(1);
                    self.end = Some(vec![Step::Fin(AfterFin::Linger)]);
                }
            }
        }
    }

    /// What to do now. Appends to `output` what is to be sent; `has_room` if more may be made.
    pub(crate) fn advance(
        &mut self,
        now_ns: u64,
        has_room: bool,
        output: &mut Vec<u8>,
        context: &mut Context,
    ) -> Next {
        while let Some(Reverse((due_ns, stream))) = self.due.peek().copied()
            && due_ns <= now_ns
        {
            self.due.pop();
            self.ready.push_back(stream);
        }
        while has_room
            && self.frames.len() < FRAMES_BYTES
            && self.end.is_none()
            && let Some(stream) = self.ready.pop_front()
        {
            self.walk(stream, now_ns, context);
        }
        if !has_room && self.frames.len() > FRAMES_MAX_BYTES {
            return Next::Broken;
        }
        if !self.frames.is_empty() && has_room {
            if output.is_empty() {
                std::mem::swap(output, &mut self.frames);
            } else {
                output.append(&mut self.frames);
            }
            return Next::More;
        }
        self.rest()
    }

    /// What to do if no response can go on.
    fn rest(&mut self) -> Next {
        if !self.frames.is_empty() {
            return Next::Blocked;
        }
        if let Some(steps) = self.end.take() {
            return Next::End(steps);
        }
        if !self.ready.is_empty() {
            return Next::Blocked;
        }
        if let Some(Reverse((due_ns, _))) = self.due.peek() {
            return Next::Wait(*due_ns);
        }
        let is_at_rest = self.responses.is_empty() && self.uploads.is_empty();
        match is_at_rest && self.is_closing {
            true => Next::End(vec![Step::Fin(AfterFin::Linger)]),
            false => Next::Idle,
        }
    }

    fn on_request(
        &mut self,
        stream: StreamId,
        head: &Rc<RequestHead>,
        is_whole: bool,
        at_ns: u64,
        context: &mut Context,
    ) {
        let is_plain = is_whole && !context.log.records() && !self.is_last(context);
        if is_plain
            && let Some(shared) = &context.http2
            && let Some(response) = shared.find(head)
        {
            return self.accept(stream, &response, at_ns, context);
        }
        if head.is_too_large {
            return self.refuse(stream, HEAD_TOO_LARGE, at_ns, context);
        }
        let mut decision = context.decide(Head {
            method: head.method.clone(),
            target: head.target.clone(),
            is_http10: false,
            keeps_alive: true,
            expects_continue: head.expects_continue,
            has_body: !is_whole,
        });
        let media_type = head
            .fields
            .iter()
            .find(|(name, _)| *name == b"content-type");
        if media_type.is_some_and(|(_, value)| calls::is_call(value)) {
            decision.become_call();
        }
        if head.expects_continue && !is_whole {
            let block = response::interim(100);
            let begin = self.frames.len();
            self.session
                .send_head(stream, &block, false, &mut self.frames);
            let bytes = self.frames.len() - begin;
            context.counters().bytes_out.add(bytes as u64);
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

    fn on_request_end(&mut self, stream: StreamId, at_ns: u64, context: &mut Context) {
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
        let body = match calls::is_reflection(&decision.head.target) && decision.echoes() {
            true => calls::reflect(&body),
            false => body,
        };
        // A request with a body is not known by its head alone.
        let head = (!decision.head.has_body).then_some(&head);
        self.respond(stream, &decision, body, head, at_ns, context);
    }

    /// Prepares the response to a request, remembers it if it is always the same, and begins it.
    fn respond(
        &mut self,
        stream: StreamId,
        decision: &Decision,
        body: Vec<u8>,
        head: Option<&Rc<RequestHead>>,
        at_ns: u64,
        context: &mut Context,
    ) {
        let is_last = self.is_last(context);
        let response = match context.response(&response::FORM, decision, body, is_last) {
            Ok(response) => Rc::new(response),
            Err(why) => return self.refuse(stream, why, at_ns, context),
        };
        if response.is_counted
            && !is_last
            && let Some(head) = head
            && let Some(shared) = &mut context.http2
        {
            shared.add(head, &response);
        }
        self.accept(stream, &response, at_ns, context);
    }

    /// Whether the next request is the last on this connection.
    fn is_last(&self, context: &Context) -> bool {
        context
            .keepalive_requests
            .is_some_and(|most| self.requests + 1 >= most)
    }

    fn refuse(&mut self, stream: StreamId, why: BadRequest, at_ns: u64, context: &mut Context) {
        context.counters().refused.add(1);
        let response = Rc::new(response::FORM.refusal(why));
        self.accept(stream, &response, at_ns, context);
    }

    fn accept(
        &mut self,
        stream: StreamId,
        response: &Rc<PreparedResponse<Part>>,
        at_ns: u64,
        context: &mut Context,
    ) {
        self.requests += u64::from(response.is_counted);
        let arrival = Arrival {
            connection: self.number,
            at_ns,
        };
        let (response, due_ns, log_index) = context.arrive(response, arrival);
        let begin = self.frames.len();
        let is_instant = due_ns <= at_ns
            && log_index.is_none()
            && self.ready.is_empty()
            && self.frames.len() < FRAMES_BYTES;
        if is_instant && self.write_at_once(stream, &response) {
            let bytes = self.frames.len() - begin;
            context.counters().bytes_out.add(bytes as u64);
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
        match due_ns <= at_ns {
            true => self.ready.push_back(stream),
            false => self.due.push(Reverse((due_ns, stream))),
        }
    }

    /// Writes a response that needs no window but the one there is. This is the path of nearly all
    /// requests of a load test.
    fn write_at_once(&mut self, stream: StreamId, response: &PreparedResponse<Part>) -> bool {
        let Self {
            session, frames, ..
        } = self;
        let (block, content) = match response.steps.as_slice() {
            [
                Part::Head {
                    block,
                    ends_stream: true,
                    times: 1,
                },
            ] => (block, None),
            [
                Part::Head {
                    block, times: 1, ..
                },
                Part::Data {
                    content,
                    frame_bytes_max,
                    interval_ns: 0,
                    ends_stream: true,
                },
            ] => {
                let most = session.window(stream).min(session.frame_bytes_max());
                if content.bytes() > u64::from(most).min(*frame_bytes_max) {
                    return false;
                }
                (block, Some(content))
            }
            _ => return false,
        };
        session.send_head(stream, block, content.is_none(), frames);
        if let Some(content) = content {
            let length = content.bytes() as u32;
            session.send_data(stream, length, true, frames, |output| {
                content.append(0, u64::from(length), output);
            });
        }
        true
    }

    /// Continues the response on a stream as far as possible.
    fn walk(&mut self, stream: StreamId, now_ns: u64, context: &mut Context) {
        let Some(mut pending) = self.responses.remove(&stream) else {
            // The client has reset it.
            return;
        };
        let response = Rc::clone(&pending.response);
        let mut outcome = Walked::On;
        while outcome == Walked::On {
            let Some(part) = response.steps.get(pending.part) else {
                outcome = Walked::Done;
                break;
            };
            let begin = self.frames.len();
            outcome = self.walk_part(stream, part, &mut pending, now_ns, context);
            if part.is_of_response() {
                let bytes = (self.frames.len() - begin) as u64;
                pending.bytes += bytes;
                context.counters().bytes_out.add(bytes);
            }
        }
        match outcome {
            Walked::Done => return finish(&pending, now_ns, context),
            Walked::On | Walked::Turn => self.ready.push_back(stream),
            Walked::Blocked => self.blocked.push(stream),
            Walked::Until(due_ns) => self.due.push(Reverse((due_ns, stream))),
            Walked::Never => {}
        }
        self.responses.insert(stream, pending);
    }

    fn walk_part(
        &mut self,
        stream: StreamId,
        part: &Part,
        pending: &mut Pending,
        now_ns: u64,
        context: &mut Context,
    ) -> Walked {
        let Self {
            session, frames, ..
        } = self;
        match part {
            Part::Head {
                block,
                ends_stream,
                times,
            } => {
                session.send_head(stream, block, *ends_stream, frames);
                return pending.repeat(*times, frames.len());
            }
            Part::Data { .. } => return self.walk_data(stream, part, pending, now_ns),
            Part::Generate(generation) => {
                return self.walk_generation(stream, generation, pending, now_ns, context);
            }
            Part::Goaway => {
                session.send_goaway(session.last_stream(), ErrorCode::NO_ERROR, frames);
                self.is_closing = true;
            }
            Part::Pause(delay) => {
                pending.part += 1;
                let pause_ns = delay.sample_ns(&mut context.random);
                return Walked::Until(now_ns.saturating_add(pause_ns));
            }
            Part::Hang => return Walked::Never,
            Part::End(steps) => self.end = Some(steps.clone()),
        }
        pending.part += 1;
        match part {
            Part::End(_) => Walked::Done,
            _ => Walked::On,
        }
    }

    /// Sends the next event of a generation if it is due, as far as the window allows.
    fn walk_generation(
        &mut self,
        stream: StreamId,
        generation: &Generation,
        pending: &mut Pending,
        now_ns: u64,
        context: &mut Context,
    ) -> Walked {
        let Self {
            session, frames, ..
        } = self;
        let log_index = pending.log_index;
        let running = pending.running.get_or_insert_with(|| {
            Box::new(Running::begin(generation, now_ns, log_index, context))
        });
        match running.next(generation, now_ns) {
            Turn::Wait(until_ns) => return Walked::Until(until_ns),
            Turn::Piece => {}
            Turn::End => {
                pending.running = None;
                pending.part += 1;
                return Walked::On;
            }
        }
        let left = running.rest().len() as u64;
        let most = session.window(stream).min(session.frame_bytes_max());
        let length = left.min(generation.frame_bytes_max).min(u64::from(most));
        if length == 0 {
            return match session.is_open(stream) {
                true => Walked::Blocked,
                false => Walked::Never,
            };
        }
        session.send_data(stream, length as u32, false, frames, |output| {
            output.extend_from_slice(&running.rest()[..length as usize]);
        });
        running.handed(length as usize, generation, now_ns, context);
        match generation.byte_interval_ns {
            Some(interval_ns @ 1..) => Walked::Until(now_ns.saturating_add(interval_ns)),
            _ if frames.len() >= FRAMES_BYTES => Walked::Turn,
            _ => Walked::On,
        }
    }

    /// Sends content until the window is used up or it is the turn of another stream.
    fn walk_data(
        &mut self,
        stream: StreamId,
        part: &Part,
        pending: &mut Pending,
        now_ns: u64,
    ) -> Walked {
        let Self {
            session, frames, ..
        } = self;
        let Part::Data {
            content,
            frame_bytes_max,
            interval_ns,
            ends_stream,
        } = part
        else {
            return Walked::On;
        };
        let mut sent = 0;
        loop {
            let left = content.bytes() - pending.progress;
            let most = session.window(stream).min(session.frame_bytes_max());
            let length = left.min(*frame_bytes_max).min(u64::from(most));
            if length == 0 && left > 0 {
                return match session.is_open(stream) {
                    true => Walked::Blocked,
                    false => Walked::Never,
                };
            }
            let is_last = length == left;
            let progress = pending.progress;
            session.send_data(
                stream,
                length as u32,
                is_last && *ends_stream,
                frames,
                |output| content.append(progress, length, output),
            );
            sent += length;
            if is_last {
                (pending.part, pending.progress) = (pending.part + 1, 0);
                return Walked::On;
            }
            pending.progress += length;
            if *interval_ns > 0 {
                return Walked::Until(now_ns.saturating_add(*interval_ns));
            }
            if sent >= TURN_BYTES || frames.len() >= FRAMES_BYTES {
                return Walked::Turn;
            }
        }
    }
}

/// How far a response has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walked {
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
    fn repeat(&mut self, times: u64, frames_bytes: usize) -> Walked {
        self.progress += 1;
        if self.progress >= times {
            (self.part, self.progress) = (self.part + 1, 0);
            return Walked::On;
        }
        match frames_bytes >= FRAMES_BYTES {
            true => Walked::Turn,
            false => Walked::On,
        }
    }
}

impl Upload {
    fn add(&mut self, content: &[u8]) {
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
