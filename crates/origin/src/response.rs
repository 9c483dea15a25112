//! Turns an answer that was asked for into the bytes and steps that give it.

use std::rc::Rc;

use crate::answer::{Answer, Closing, Version};
use crate::fault::{BadChunk, Fault};
use crate::plan::{Fin, Plan, Step, Stream, append_body};
use crate::request::BadRequest;

/// Bodies up to this size are built whole; longer ones are made on the way. Bytes.
const WHOLE_MAX_BYTES: u64 = 1_000_000;
/// Trailer fields of `trailers`.
const TRAILERS: &str = "X-Trailer: 1\r\nX-Checksum: none\r\n";
/// Announced by `endless-body:length`: the largest length that fits a signed 64-bit number.
const LENGTH_MAX: u64 = i64::MAX as u64;

/// What of the request matters to its answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Asked {
    /// The answer has no body whatever its head says (HEAD; and CONNECT with 2xx).
    pub(crate) is_bodiless: bool,
    pub(crate) is_http10: bool,
    /// The client wants the connection to stay.
    pub(crate) keeps_alive: bool,
    /// The request's body, for `echo`.
    pub(crate) body: Vec<u8>,
}

/// The plan of an answer, with the plans of its mix.
pub(crate) fn plan(answer: &Answer, asked: &Asked) -> Plan {
    let mut plan = Writer { answer, asked }.plan(answer.fault.as_ref());
    plan.delay = answer.delay;
    plan.mix = answer
        .mix
        .iter()
        .map(|(probability, fault)| {
            let other = Plan {
                delay: answer.delay,
                ..Writer { answer, asked }.plan(Some(fault))
            };
            (*probability, Rc::new(other))
        })
        .collect();
    plan
}

/// The answer to bytes that are no request, or to options that mean nothing.
pub(crate) fn refusal(why: BadRequest) -> Plan {
    text(why.status, "text/plain", &format!("{}\n", why.reason), true)
}

/// A short answer with a text; with `close`, the connection ends after it.
pub(crate) fn text(status: u16, media_type: &str, body: &str, close: bool) -> Plan {
    let connection = if close { "Connection: close\r\n" } else { "" };
    let answer = format!(
        "HTTP/1.1 {status:03} {}\r\nServer: wrkbench\r\nContent-Type: {media_type}\r\n\
         Content-Length: {}\r\n{connection}\r\n{body}",
        reason(status),
        body.len(),
    );
    let mut steps = vec![Step::Bytes(answer.into_bytes())];
    if close {
        steps.push(Step::Fin(Fin::Linger));
    }
    Plan::new(status, true, steps)
}

/// `100 Continue`, which is no answer of its own.
pub(crate) fn continue_plan() -> Plan {
    let steps = vec![Step::Bytes(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec())];
    Plan {
        is_counted: false,
        ..Plan::new(100, true, steps)
    }
}

struct Writer<'a> {
    answer: &'a Answer,
    asked: &'a Asked,
}

/// How the body's length is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    None,
    Length(u64),
    Chunked,
}

/// What the connection does after the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Stay,
    Fin,
    Close,
}

impl Writer<'_> {
    fn plan(&self, fault: Option<&Fault>) -> Plan {
        match fault {
            None | Some(Fault::Early | Fault::NoContinue) => self.whole(self.usual()),
            Some(fault) => self.cut_short(fault).unwrap_or_else(|| self.odd(fault)),
        }
    }

    /// A whole answer made of these steps, with what comes before and after.
    fn whole(&self, mut steps: Vec<Step>) -> Plan {
        steps.splice(0..0, self.interim());
        self.add_tail_pause(&mut steps);
        match self.after() {
            After::Stay => {}
            After::Fin => steps.push(Step::Fin(Fin::Linger)),
            After::Close => steps.extend([Step::Flush, Step::Close]),
        }
        Plan::new(self.answer.status, true, joined(steps))
    }

    fn usual(&self) -> Vec<Step> {
        let mut steps = vec![Step::Bytes(self.head(self.framing(), &[]))];
        steps.extend(self.body());
        steps
    }

    /// Faults after which the answer is not whole; `None` for the others.
    fn cut_short(&self, fault: &Fault) -> Option<Plan> {
        let status = self.answer.status;
        let head = || Step::Bytes(self.head(self.framing(), &[]));
        let begun = |body: Vec<Step>, end: Vec<Step>| {
            let mut steps = self.interim();
            steps.push(head());
            steps.extend(body);
            steps.extend(end);
            Plan::new(status, false, joined(steps))
        };
        let only = |steps: Vec<Step>| Plan::new(0, false, steps);
        let (fin, raw) = (
            || vec![Step::Fin(Fin::Linger)],
            |text: &[u8]| Step::Bytes(text.into()),
        );
        let reset = || vec![Step::Flush, Step::Reset];
        Some(match fault {
            Fault::Reset => only(reset()),
            Fault::ResetAfterHead => begun(Vec::new(), reset()),
            Fault::ResetMidBody => begun(self.half_body(), reset()),
            Fault::FinBefore => only(fin()),
            Fault::Truncate => begun(self.half_body(), fin()),
            Fault::Hang => only(vec![Step::Hang]),
            Fault::HangAfterHead => begun(Vec::new(), vec![Step::Hang]),
            Fault::HangMidBody => begun(self.half_body(), vec![Step::Hang]),
            Fault::Garbage => only(vec![raw(GARBAGE), Step::Fin(Fin::Linger)]),
            Fault::TlsOnPlain => only(vec![raw(TLS_ALERT), Step::Fin(Fin::Linger)]),
            Fault::Http09 => {
                let mut steps = self.plain_body(self.answer.size_bytes);
                steps.extend(fin());
                only(steps)
            }
            Fault::NoHeadCrlf => {
                let mut head = self.head(self.framing(), &[]);
                head.truncate(head.len() - 2);
                only(vec![Step::Bytes(head), Step::Fin(Fin::Linger)])
            }
            Fault::EndlessHead => {
                let mut head = self.head(Framing::None, &[]);
                head.truncate(head.len() - 2);
                let block = b"X-Endless: abcdefghijklmnopqrstuvwxyz\r\n".to_vec();
                only(vec![
                    Step::Bytes(head),
                    Step::Stream(Stream::Endless { block }),
                ])
            }
            Fault::EndlessBody { has_length } => self.endless_body(*has_length),
            Fault::BadChunk(kind) => self.bad_chunk(*kind),
            _ => return None,
        })
    }

    /// Faults whose answer is sent to its end, however wrong it is.
    fn odd(&self, fault: &Fault) -> Plan {
        let size = self.body_bytes();
        match fault {
            Fault::Drip { interval_ns } => self.bytewise(*interval_ns),
            Fault::Split => self.bytewise(0),
            Fault::ResetAfterAnswer => self.ending(vec![Step::Flush, Step::Reset]),
            Fault::HalfClose => self.ending(vec![Step::Fin(Fin::ReadOn)]),
            Fault::NoCloseNotify => self.ending(vec![Step::Fin(Fin::LingerUnannounced)]),
            Fault::EarlyClose => self.closing(Framing::Length(size)),
            Fault::IdleClose { after_ns } => self.ending(vec![Step::WhenIdle {
                after_ns: *after_ns,
                say: Vec::new(),
            }]),
            Fault::Unsolicited { after_ns } => {
                let say = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\
                            Connection: close\r\n\r\n";
                self.ending(vec![Step::WhenIdle {
                    after_ns: *after_ns,
                    say: say.to_vec(),
                }])
            }
            Fault::TwoAnswers => self.whole([self.usual(), self.usual()].concat()),
            Fault::Surplus => {
                self.whole([self.usual(), vec![Step::Bytes(b"surplus\r\n".to_vec())]].concat())
            }
            Fault::BadVersion => self.with_head(|head| replaced(head, 0..8, b"HTTP/2")),
            Fault::LeadingCrlf => self.with_head(|head| replaced(head, 0..0, b"\r\n")),
            Fault::NoReason => self.with_head(|head| {
                let end = head.iter().position(|&byte| byte == b'\r').unwrap_or(0);
                replaced(head, 12..end, b"")
            }),
            Fault::LfOnly => {
                self.with_head(|head| head.into_iter().filter(|&byte| byte != b'\r').collect())
            }
            Fault::ObsFold => self.with_fields(&["X-Folded: first\r\n second".to_owned()]),
            Fault::BigHead { bytes } => {
                self.with_fields(&[format!("X-Big: {}", "x".repeat(*bytes as usize))])
            }
            Fault::ManyHeaders { count } => {
                let fields: Vec<_> = (0..*count).map(|n| format!("X-Many-{n}: {n}")).collect();
                self.with_fields(&fields)
            }
            Fault::DupCl { same } => {
                let other = if *same { size } else { size + 1 };
                self.with_fields(&[format!("Content-Length: {other}")])
            }
            Fault::Head304 => self.as_status(304, false),
            Fault::Body204 => self.as_status(204, true),
            Fault::BadLength(value) => {
                self.framed_by(&[format!("Content-Length: {value}")], self.plain_body(size))
            }
            Fault::ClTe => {
                let fields = [format!("Content-Length: {size}"), CHUNKED.to_owned()];
                self.framed_by(&fields, self.chunked_body(size))
            }
            Fault::TransferEncoding(value) => self.framed_by(
                &[format!("Transfer-Encoding: {value}")],
                self.chunked_body(size),
            ),
            Fault::ChunkExtension { bytes } => self.chunk_extension(*bytes),
            _ => self.whole(self.usual()),
        }
    }

    /// The usual answer, and then this instead of what would follow.
    fn ending(&self, end: Vec<Step>) -> Plan {
        let mut plan = self.whole(self.usual());
        let is_end = |step: &Step| matches!(step, Step::Fin(_) | Step::Flush | Step::Close);
        while plan.steps.last().is_some_and(is_end) {
            plan.steps.pop();
        }
        plan.steps.extend(end);
        plan
    }

    /// The usual answer with `Connection: close` and FIN, whatever was asked.
    fn closing(&self, framing: Framing) -> Plan {
        let answer = Answer {
            closing: Closing::Announced,
            ..self.answer.clone()
        };
        let writer = Writer {
            answer: &answer,
            asked: self.asked,
        };
        let mut steps = vec![Step::Bytes(writer.head(framing, &[]))];
        if !self.asked.is_bodiless {
            steps.extend(writer.plain_body(self.body_bytes()));
        }
        writer.whole(steps)
    }

    fn bytewise(&self, interval_ns: u64) -> Plan {
        let mut plan = self.whole(self.usual());
        for step in &mut plan.steps {
            if let Step::Bytes(bytes) = step {
                *step = Step::Bytewise {
                    bytes: std::mem::take(bytes),
                    interval_ns,
                };
            }
        }
        plan
    }

    fn with_head(&self, change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Plan {
        let mut steps = vec![Step::Bytes(change(self.head(self.framing(), &[])))];
        steps.extend(self.body());
        self.whole(steps)
    }

    fn with_fields(&self, fields: &[String]) -> Plan {
        let mut steps = vec![Step::Bytes(self.head(self.framing(), fields))];
        steps.extend(self.body());
        self.whole(steps)
    }

    /// An answer whose framing fields are these and whose body is sent so.
    fn framed_by(&self, fields: &[String], body: Vec<Step>) -> Plan {
        let mut steps = vec![Step::Bytes(self.head(Framing::None, fields))];
        if !self.asked.is_bodiless {
            steps.extend(body);
        }
        self.whole(steps)
    }

    /// A status that allows no body, with a Content-Length all the same.
    fn as_status(&self, status: u16, has_body: bool) -> Plan {
        let answer = Answer {
            status,
            ..self.answer.clone()
        };
        let writer = Writer {
            answer: &answer,
            asked: self.asked,
        };
        let size = self.body_bytes();
        let body = if has_body {
            self.plain_body(size)
        } else {
            Vec::new()
        };
        writer.framed_by(&[format!("Content-Length: {size}")], body)
    }

    fn endless_body(&self, has_length: bool) -> Plan {
        let mut block = Vec::new();
        append_body(0, 4096, &mut block);
        let framing = if has_length {
            Framing::Length(LENGTH_MAX)
        } else {
            Framing::Chunked
        };
        if !has_length {
            block = [b"1000\r\n" as &[u8], &block, b"\r\n"].concat();
        }
        let head = Step::Bytes(self.head(framing, &[]));
        let steps = vec![head, Step::Stream(Stream::Endless { block })];
        Plan::new(self.answer.status, false, steps)
    }

    fn bad_chunk(&self, kind: BadChunk) -> Plan {
        let bytes: &[u8] = match kind {
            BadChunk::Word => b"5\r\nhello\r\nZZ\r\nhello\r\n0\r\n\r\n",
            BadChunk::Empty => b"5\r\nhello\r\n\r\nhello\r\n0\r\n\r\n",
            BadChunk::Negative => b"5\r\nhello\r\n-5\r\nhello\r\n0\r\n\r\n",
            BadChunk::Overflow => b"5\r\nhello\r\n10000000000000005\r\nhello\r\n0\r\n\r\n",
            BadChunk::NoCrlf => b"5\r\nhello5\r\nhello\r\n0\r\n\r\n",
            BadChunk::Eof => b"5\r\nhello\r\n5\r\nhe",
            BadChunk::NoEnd => b"5\r\nhello\r\n",
        };
        let mut answer = self.head(Framing::Chunked, &[]);
        answer.extend_from_slice(bytes);
        let mut steps = vec![Step::Bytes(answer)];
        if matches!(kind, BadChunk::Eof | BadChunk::NoEnd) {
            steps.push(Step::Fin(Fin::Linger));
        }
        Plan::new(self.answer.status, false, steps)
    }

    fn chunk_extension(&self, extension_bytes: u64) -> Plan {
        let size = self.body_bytes().min(WHOLE_MAX_BYTES);
        let extension = "x".repeat(extension_bytes as usize);
        let mut body = format!("{size:x};note={extension}\r\n").into_bytes();
        append_body(0, size, &mut body);
        body.extend_from_slice(b"\r\n0\r\n\r\n");
        self.framed_by(&[CHUNKED.to_owned()], vec![Step::Bytes(body)])
    }

    /// Holds the last byte back.
    fn add_tail_pause(&self, steps: &mut Vec<Step>) {
        if self.answer.tail.is_none() {
            return;
        }
        let Some(at) = steps
            .iter()
            .rposition(|step| matches!(step, Step::Bytes(_)))
        else {
            return;
        };
        // After a streamed body there is no last byte at hand: the pause stands before the body.
        let is_last = at + 1 == steps.len();
        let last = match &mut steps[at] {
            Step::Bytes(bytes) if is_last => bytes.pop(),
            _ => None,
        };
        steps.insert(at + 1, Step::Pause(self.answer.tail));
        if let Some(byte) = last {
            steps.insert(at + 2, Step::Bytes(vec![byte]));
        }
    }

    fn interim(&self) -> Vec<Step> {
        let (count, status) = self.answer.interim;
        let one = format!(
            "HTTP/1.1 {status} {}\r\nX-Interim: 1\r\n\r\n",
            reason(status)
        );
        let all = one.repeat(count as usize).into_bytes();
        if count == 0 {
            Vec::new()
        } else {
            vec![Step::Bytes(all)]
        }
    }

    fn head(&self, framing: Framing, fields: &[String]) -> Vec<u8> {
        let Answer {
            status,
            version,
            headers,
            ..
        } = self.answer;
        let number = if *version == Version::Http11 {
            "1.1"
        } else {
            "1.0"
        };
        let mut head = format!(
            "HTTP/{number} {status:03} {}\r\nServer: wrkbench\r\nContent-Type: text/plain\r\n",
            reason(*status)
        );
        let mut add = |field: &str| {
            head.push_str(field);
            head.push_str("\r\n");
        };
        match framing {
            Framing::None => {}
            Framing::Length(bytes) => add(&format!("Content-Length: {bytes}")),
            Framing::Chunked => add(CHUNKED),
        }
        if let Some(connection) = self.connection_field() {
            add(connection);
        }
        for (name, value) in headers {
            add(&format!("{name}: {value}"));
        }
        for field in fields {
            add(field);
        }
        add("");
        head.into_bytes()
    }

    fn connection_field(&self) -> Option<&'static str> {
        let is_old = self.answer.version != Version::Http11;
        match self.after() {
            After::Fin if !is_old => Some("Connection: close"),
            After::Stay if is_old || self.asked.is_http10 => Some("Connection: keep-alive"),
            _ => None,
        }
    }

    fn after(&self) -> After {
        let answer = self.answer;
        let ends = answer.closing == Closing::Announced
            || answer.is_until_close
            || answer.version == Version::Http10
            || !self.asked.keeps_alive;
        match answer.closing {
            Closing::Silent => After::Close,
            _ if ends => After::Fin,
            _ => After::Stay,
        }
    }

    fn framing(&self) -> Framing {
        match self.answer.status {
            100..=199 | 204 | 304 => Framing::None,
            _ if self.answer.is_until_close => Framing::None,
            // HTTP/1.0 has no chunked coding (RFC 9112 section 6.1).
            _ if self.answer.chunk_bytes.is_some() && !self.asked.is_http10 => Framing::Chunked,
            _ => Framing::Length(self.body_bytes()),
        }
    }

    fn body_bytes(&self) -> u64 {
        if self.answer.echoes {
            self.asked.body.len() as u64
        } else {
            self.answer.size_bytes
        }
    }

    fn body(&self) -> Vec<Step> {
        if self.asked.is_bodiless || matches!(self.answer.status, 100..=199 | 204 | 304) {
            return Vec::new();
        }
        match self.framing() {
            Framing::Chunked => self.chunked_body(self.body_bytes()),
            _ => self.plain_body(self.body_bytes()),
        }
    }

    /// The first half of the body; the rest is missing.
    fn half_body(&self) -> Vec<Step> {
        let half = self.body_bytes() / 2;
        if self.asked.is_bodiless || half == 0 {
            return Vec::new();
        }
        let Framing::Chunked = self.framing() else {
            return self.plain_body(half);
        };
        let mut steps = self.chunked_body(half);
        steps.pop();
        steps
    }

    fn plain_body(&self, bytes: u64) -> Vec<Step> {
        if self.answer.echoes {
            return vec![Step::Bytes(self.asked.body[..bytes as usize].to_vec())];
        }
        if bytes > WHOLE_MAX_BYTES {
            return vec![Step::Stream(Stream::Body { bytes })];
        }
        let mut body = Vec::new();
        append_body(0, bytes, &mut body);
        vec![Step::Bytes(body)]
    }

    /// All chunks as one step, and the last one with the trailers as another.
    fn chunked_body(&self, bytes: u64) -> Vec<Step> {
        let chunk_bytes = self
            .answer
            .chunk_bytes
            .unwrap_or(crate::answer::CHUNK_DEFAULT_BYTES);
        let trailers = if self.answer.has_trailers {
            TRAILERS
        } else {
            ""
        };
        let end = Step::Bytes(format!("0\r\n{trailers}\r\n").into_bytes());
        if self.answer.echoes {
            let mut chunks = Vec::new();
            for part in self.asked.body[..bytes as usize].chunks(chunk_bytes as usize) {
                chunks.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                chunks.extend_from_slice(part);
                chunks.extend_from_slice(b"\r\n");
            }
            return vec![Step::Bytes(chunks), end];
        }
        let stream = Stream::Chunks { bytes, chunk_bytes };
        if bytes > WHOLE_MAX_BYTES {
            return vec![Step::Stream(stream), end];
        }
        let mut chunks = Vec::new();
        let (mut progress, mut more) = (0, bytes > 0);
        while more {
            (progress, more) = stream.produce(progress, bytes as usize, &mut chunks);
        }
        vec![Step::Bytes(chunks), end]
    }
}

const CHUNKED: &str = "Transfer-Encoding: chunked";
/// Control bytes, a byte no text has, and line ends, so that no parser waits for more.
const GARBAGE: &[u8] = b"\x00\x01\xff garbage, no status line \x7f\r\n\r\n";
/// A fatal alert, handshake_failure (RFC 8446 section 6), in a TLS 1.2 record.
const TLS_ALERT: &[u8] = &[21, 3, 3, 0, 2, 2, 40];

fn replaced(mut bytes: Vec<u8>, range: std::ops::Range<usize>, by: &[u8]) -> Vec<u8> {
    bytes.splice(range, by.iter().copied());
    bytes
}

/// Makes one step of neighbouring bytes.
fn joined(steps: Vec<Step>) -> Vec<Step> {
    let mut joined: Vec<Step> = Vec::with_capacity(steps.len());
    for step in steps {
        match (joined.last_mut(), step) {
            (Some(Step::Bytes(before)), Step::Bytes(bytes)) => before.extend_from_slice(&bytes),
            (_, Step::Bytes(bytes)) if bytes.is_empty() => {}
            (_, step) => joined.push(step),
        }
    }
    joined
}

/// Reason phrases of RFC 9110 section 15, for the statuses that load tests meet.
fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Asked {
        Asked {
            keeps_alive: true,
            ..Asked::default()
        }
    }

    fn planned(options: &str, asked: &Asked) -> Plan {
        plan(&Answer::from_text(options).unwrap(), asked)
    }

    /// All bytes of a plan, without waiting; streams are left out.
    fn bytes(plan: &Plan) -> String {
        let mut text = String::new();
        for step in &plan.steps {
            if let Step::Bytes(bytes) | Step::Bytewise { bytes, .. } = step {
                text.push_str(&String::from_utf8_lossy(bytes));
            }
        }
        text
    }

    #[test]
    fn the_usual_answer_is_one_step_with_63_bytes_of_body() {
        let plan = planned("", &asked());
        let text = String::from_utf8(plan.instant_bytes().unwrap().to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(
            head,
            "HTTP/1.1 200 OK\r\nServer: wrkbench\r\nContent-Type: text/plain\r\n\
             Content-Length: 63"
        );
        assert_eq!(body.len(), 63);
    }

    #[test]
    fn head_is_answered_as_get_without_the_body() {
        let head = planned(
            "size=5",
            &Asked {
                is_bodiless: true,
                ..asked()
            },
        );
        let get = planned("size=5", &asked());
        assert_eq!(bytes(&head) + "abcde", bytes(&get));
    }

    #[test]
    fn statuses_without_body_have_no_framing() {
        for status in [101, 204, 304] {
            let text = bytes(&planned(&format!("status={status}"), &asked()));
            assert!(
                !text.contains("Content-Length") && text.ends_with("\r\n\r\n"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_status_keeps_its_three_digits() {
        assert!(bytes(&planned("status=099", &asked())).starts_with("HTTP/1.1 099 "));
    }

    #[test]
    fn persistence_follows_request_and_options() {
        let old = Asked {
            is_http10: true,
            keeps_alive: false,
            ..Asked::default()
        };
        let old_kept = Asked {
            is_http10: true,
            ..asked()
        };
        let closing = Asked {
            keeps_alive: false,
            ..asked()
        };
        for (options, asked, field, last) in [
            ("", asked(), "", None),
            (
                "",
                closing.clone(),
                "Connection: close",
                Some(Step::Fin(Fin::Linger)),
            ),
            ("", old, "Connection: close", Some(Step::Fin(Fin::Linger))),
            ("", old_kept, "Connection: keep-alive", None),
            (
                "close",
                asked(),
                "Connection: close",
                Some(Step::Fin(Fin::Linger)),
            ),
            ("close=silent", asked(), "", Some(Step::Close)),
            ("http10", asked(), "", Some(Step::Fin(Fin::Linger))),
            ("http10=keep-alive", asked(), "Connection: keep-alive", None),
            (
                "until-close",
                asked(),
                "Connection: close",
                Some(Step::Fin(Fin::Linger)),
            ),
        ] {
            let plan = planned(options, &asked);
            let text = bytes(&plan);
            let found = text
                .lines()
                .find(|line| line.starts_with("Connection"))
                .unwrap_or("");
            assert_eq!(found, field, "{options}");
            let end = plan
                .steps
                .last()
                .filter(|step| !matches!(step, Step::Bytes(_)));
            assert_eq!(end.cloned(), last, "{options}");
        }
    }

    #[test]
    fn chunks_and_trailers_are_framed() {
        let text = bytes(&planned("chunked=2b&size=3&trailers", &asked()));
        let body = text.split_once("\r\n\r\n").unwrap().1;
        assert_eq!(body, format!("2\r\nab\r\n1\r\nc\r\n0\r\n{TRAILERS}\r\n"));
    }

    #[test]
    fn long_bodies_are_streamed_and_not_stored() {
        let plan = planned("size=10G", &asked());
        assert_eq!(
            plan.steps[1],
            Step::Stream(Stream::Body {
                bytes: 10_000_000_000
            })
        );
        assert!(plan.instant_bytes().is_none());
    }

    #[test]
    fn the_tail_waits_with_the_last_byte() {
        let plan = planned("size=3&tail=5ms", &asked());
        let [Step::Bytes(first), Step::Pause(pause), Step::Bytes(last)] = plan.steps.as_slice()
        else {
            panic!("{plan:?}")
        };
        assert!(first.ends_with(b"ab"));
        assert_eq!(
            (*pause, last.as_slice()),
            (crate::Delay::Fixed(5_000_000), b"c" as &[u8])
        );
    }

    #[test]
    fn an_answer_is_whole_unless_it_is_cut_short() {
        for fault in [
            "reset",
            "truncate",
            "hang",
            "garbage",
            "bad-chunk",
            "endless-head",
        ] {
            assert!(
                !planned(&format!("fault={fault}"), &asked()).is_whole,
                "{fault}"
            );
        }
        for fault in [
            "split",
            "surplus",
            "reset-after-answer",
            "idle-close",
            "head304",
            "early",
        ] {
            assert!(
                planned(&format!("fault={fault}"), &asked()).is_whole,
                "{fault}"
            );
        }
    }

    #[test]
    fn a_mix_carries_a_plan_for_each_fault() {
        let plan = planned("mix=0.1:reset&mix=0.2:hang&delay=1ms", &asked());
        assert_eq!(plan.mix.len(), 2);
        assert_eq!(plan.mix[1].1.steps, [Step::Hang]);
        assert_eq!(plan.mix[1].1.delay, plan.delay);
        assert!(plan.instant_bytes().is_none());
    }

    #[test]
    fn framing_faults_say_what_they_are_named_for() {
        for (fault, expected) in [
            (
                "dup-cl",
                "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
            ),
            (
                "dup-cl:same",
                "Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde",
            ),
            (
                "cl-te",
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n",
            ),
            ("bad-length:0x5", "Content-Length: 0x5\r\n\r\nabcde"),
            (
                "transfer-encoding",
                "Transfer-Encoding: xchunked\r\n\r\n5\r\nabcde\r\n0\r\n",
            ),
            ("head304", "HTTP/1.1 304 Not Modified\r\n"),
            ("body204", "HTTP/1.1 204 No Content\r\n"),
            ("bad-version", "HTTP/2 200 OK\r\n"),
            ("no-reason", "HTTP/1.1 200\r\n"),
            ("leading-crlf", "\r\nHTTP/1.1 200 OK\r\n"),
            ("lf-only", "HTTP/1.1 200 OK\nServer"),
            ("obs-fold", "X-Folded: first\r\n second\r\n"),
            ("many-headers:2", "X-Many-0: 0\r\nX-Many-1: 1\r\n"),
            ("chunk-extension:3", "5;note=xxx\r\nabcde\r\n0\r\n\r\n"),
            ("surplus", "abcdesurplus\r\n"),
            ("bad-chunk:no-crlf", "5\r\nhello5\r\nhello\r\n"),
        ] {
            let text = bytes(&planned(&format!("size=5&fault={fault}"), &asked()));
            assert!(text.contains(expected), "{fault}: {text:?}");
        }
    }

    #[test]
    fn half_a_body_is_half_the_bytes_announced() {
        let text = bytes(&planned("size=6&fault=truncate", &asked()));
        assert!(
            text.contains("Content-Length: 6") && text.ends_with("\r\n\r\nabc"),
            "{text:?}"
        );
        let text = bytes(&planned("size=6&chunked&fault=reset-mid-body", &asked()));
        assert!(text.ends_with("\r\n\r\n3\r\nabc\r\n"), "{text:?}");
    }

    #[test]
    fn interim_responses_come_before_the_answer() {
        let text = bytes(&planned("interim=2:102", &asked()));
        assert_eq!(text.matches("HTTP/1.1 102 Processing\r\n").count(), 2);
        assert!(text.rfind("102").unwrap() < text.find("200").unwrap());
    }
}
