//! Prepares responses: turns a recipe into bytes and steps.

use std::rc::Rc;

use crate::context::Form;
use crate::events::Piece;
use crate::fault::{BadChunk, Fault};
use crate::prepared::{AfterFin, PreparedResponse, Step, Stream, append_body};
use crate::recipe::{Closing, Recipe, Version};

/// Bodies up to this size, in bytes, are built in memory; longer ones are streamed.
const WHOLE_MAX_BYTES: u64 = 1_000_000;
/// The fields of every response, and the trailer fields.
pub(crate) const SERVER: (&str, &str) = ("server", "wrkbench");
pub(crate) const TEXT: (&str, &str) = (CONTENT_TYPE, "text/plain");
pub(crate) const CONTENT_TYPE: &str = "content-type";
pub(crate) const TRAILERS: [(&str, &str); 2] = [("X-Trailer", "1"), ("X-Checksum", "none")];
/// The Content-Length of `endless-body:length`: the largest signed 64-bit number.
pub(crate) const LENGTH_MAX: u64 = i64::MAX as u64;

/// Properties of a request that affect its response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RequestTraits {
    /// The response has no body, whatever its head says (HEAD; CONNECT with 2xx).
    pub(crate) is_bodiless: bool,
    pub(crate) is_http10: bool,
    /// The client wants to keep the connection open.
    pub(crate) keeps_alive: bool,
    /// The request's body, for `echo`.
    pub(crate) body: Vec<u8>,
}

/// How responses are written over HTTP/1.
pub(crate) const FORM: Form<Step> = Form {
    prepare,
    text,
    unfit: |_| None,
};

/// A response, and those of its mix.
pub(crate) fn with_mix<S>(
    recipe: &Recipe,
    prepare: impl Fn(Option<&Fault>) -> PreparedResponse<S>,
) -> PreparedResponse<S> {
    let prepare = |fault| PreparedResponse {
        delay: recipe.delay,
        ..prepare(fault)
    };
    let mix = recipe.mix.iter();
    PreparedResponse {
        mix: mix
            .map(|(probability, fault)| (*probability, Rc::new(prepare(Some(fault)))))
            .collect(),
        ..prepare(recipe.fault.as_ref())
    }
}

fn prepare(recipe: &Recipe, traits: &RequestTraits) -> PreparedResponse {
    with_mix(recipe, |fault| Writer { recipe, traits }.prepare(fault))
}

/// A short text response; with `close`, the connection ends after it.
fn text(status: u16, media_type: &str, body: &str, close: bool) -> PreparedResponse {
    let connection = if close { "Connection: close\r\n" } else { "" };
    let recipe = format!(
        "HTTP/1.1 {status:03} {}\r\nServer: {}\r\nContent-Type: {media_type}\r\n\
         Content-Length: {}\r\n{connection}\r\n{body}",
        reason(status),
        SERVER.1,
        body.len(),
    );
    let mut steps = vec![Step::Bytes(recipe.into_bytes())];
    if close {
        steps.push(Step::Fin(AfterFin::Linger));
    }
    PreparedResponse::new(status, true, steps)
}

/// `100 Continue`, which does not count as a response.
pub(crate) fn continue_plan() -> PreparedResponse {
    let steps = vec![Step::Bytes(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec())];
    PreparedResponse::new(100, true, steps).uncounted()
}

struct Writer<'a> {
    recipe: &'a Recipe,
    traits: &'a RequestTraits,
}

/// How the length of the body is indicated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    None,
    Length(u64),
    Chunked,
}

/// What the connection does after the response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Stay,
    Fin,
    Close,
}

impl Writer<'_> {
    fn prepare(&self, fault: Option<&Fault>) -> PreparedResponse {
        match fault {
            None | Some(Fault::Early | Fault::NoContinue) => self.whole(self.usual()),
            Some(fault) => self.cut_short(fault).unwrap_or_else(|| self.odd(fault)),
        }
    }

    /// A complete response with these steps, preceded by interim responses and followed by the end.
    fn whole(&self, mut steps: Vec<Step>) -> PreparedResponse {
        steps.splice(0..0, self.interim());
        self.add_tail_pause(&mut steps);
        match self.after() {
            After::Stay => {}
            After::Fin => steps.push(Step::Fin(AfterFin::Linger)),
            After::Close => steps.extend([Step::Flush, Step::Close]),
        }
        PreparedResponse::new(self.recipe.status, true, joined(steps))
    }

    fn usual(&self) -> Vec<Step> {
        let mut steps = vec![Step::Bytes(self.head(self.framing(), &[]))];
        steps.extend(self.body());
        steps
    }

    /// Faults that make the response incomplete; `None` for the others.
    fn cut_short(&self, fault: &Fault) -> Option<PreparedResponse> {
        let status = self.recipe.status;
        let head = || Step::Bytes(self.head(self.framing(), &[]));
        let begun = |body: Vec<Step>, end: Vec<Step>| {
            let mut steps = self.interim();
            steps.push(head());
            steps.extend(body);
            steps.extend(end);
            PreparedResponse::new(status, false, joined(steps))
        };
        let only = |steps: Vec<Step>| PreparedResponse::new(0, false, steps);
        let (fin, raw) = (
            || vec![Step::Fin(AfterFin::Linger)],
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
            Fault::Garbage => only(vec![raw(GARBAGE), Step::Fin(AfterFin::Linger)]),
            Fault::TlsOnPlain => only(vec![raw(TLS_ALERT), Step::Fin(AfterFin::Linger)]),
            Fault::Http09 => {
                let mut steps = self.plain_body(self.recipe.size_bytes);
                steps.extend(fin());
                only(steps)
            }
            Fault::NoHeadCrlf => {
                let mut head = self.head(self.framing(), &[]);
                head.truncate(head.len() - 2);
                only(vec![Step::Bytes(head), Step::Fin(AfterFin::Linger)])
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

    /// Faults with a complete, though possibly invalid, response.
    fn odd(&self, fault: &Fault) -> PreparedResponse {
        let size = self.body_bytes();
        match fault {
            Fault::Drip { interval_ns } => self.bytewise(*interval_ns),
            Fault::Split => self.bytewise(0),
            Fault::ResetAfterAnswer => self.ending(vec![Step::Flush, Step::Reset]),
            Fault::HalfClose => self.ending(vec![Step::Fin(AfterFin::ReadOn)]),
            Fault::NoCloseNotify => self.ending(vec![Step::Fin(AfterFin::LingerUnannounced)]),
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

    /// The usual response with another end.
    fn ending(&self, end: Vec<Step>) -> PreparedResponse {
        let mut response = self.whole(self.usual());
        let is_end = |step: &Step| matches!(step, Step::Fin(_) | Step::Flush | Step::Close);
        while response.steps.last().is_some_and(is_end) {
            response.steps.pop();
        }
        response.steps.extend(end);
        response
    }

    /// The usual response with `Connection: close` and FIN.
    fn closing(&self, framing: Framing) -> PreparedResponse {
        let recipe = Recipe {
            closing: Closing::Announced,
            ..self.recipe.clone()
        };
        let writer = Writer {
            recipe: &recipe,
            traits: self.traits,
        };
        let mut steps = vec![Step::Bytes(writer.head(framing, &[]))];
        if !self.traits.is_bodiless {
            steps.extend(writer.plain_body(self.body_bytes()));
        }
        writer.whole(steps)
    }

    fn bytewise(&self, interval_ns: u64) -> PreparedResponse {
        let mut response = self.whole(self.usual());
        for step in &mut response.steps {
            if let Step::Bytes(bytes) = step {
                *step = Step::Bytewise {
                    bytes: std::mem::take(bytes),
                    interval_ns,
                };
            }
        }
        response
    }

    fn with_head(&self, change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> PreparedResponse {
        let mut steps = vec![Step::Bytes(change(self.head(self.framing(), &[])))];
        steps.extend(self.body());
        self.whole(steps)
    }

    fn with_fields(&self, fields: &[String]) -> PreparedResponse {
        let mut steps = vec![Step::Bytes(self.head(self.framing(), fields))];
        steps.extend(self.body());
        self.whole(steps)
    }

    /// A response with these framing fields and this body.
    fn framed_by(&self, fields: &[String], body: Vec<Step>) -> PreparedResponse {
        let mut steps = vec![Step::Bytes(self.head(Framing::None, fields))];
        if !self.traits.is_bodiless {
            steps.extend(body);
        }
        self.whole(steps)
    }

    /// A status that allows no body, but with a Content-Length.
    fn as_status(&self, status: u16, has_body: bool) -> PreparedResponse {
        let recipe = Recipe {
            status,
            ..self.recipe.clone()
        };
        let writer = Writer {
            recipe: &recipe,
            traits: self.traits,
        };
        let size = self.body_bytes();
        let body = if has_body {
            self.plain_body(size)
        } else {
            Vec::new()
        };
        writer.framed_by(&[format!("Content-Length: {size}")], body)
    }

    fn endless_body(&self, has_length: bool) -> PreparedResponse {
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
        PreparedResponse::new(self.recipe.status, false, steps)
    }

    fn bad_chunk(&self, kind: BadChunk) -> PreparedResponse {
        let bytes: &[u8] = match kind {
            BadChunk::Word => b"5\r\nhello\r\nZZ\r\nhello\r\n0\r\n\r\n",
            BadChunk::Empty => b"5\r\nhello\r\n\r\nhello\r\n0\r\n\r\n",
            BadChunk::Negative => b"5\r\nhello\r\n-5\r\nhello\r\n0\r\n\r\n",
            BadChunk::Overflow => b"5\r\nhello\r\n10000000000000005\r\nhello\r\n0\r\n\r\n",
            BadChunk::NoCrlf => b"5\r\nhello5\r\nhello\r\n0\r\n\r\n",
            BadChunk::Eof => b"5\r\nhello\r\n5\r\nhe",
            BadChunk::NoEnd => b"5\r\nhello\r\n",
        };
        let mut recipe = self.head(Framing::Chunked, &[]);
        recipe.extend_from_slice(bytes);
        let mut steps = vec![Step::Bytes(recipe)];
        if matches!(kind, BadChunk::Eof | BadChunk::NoEnd) {
            steps.push(Step::Fin(AfterFin::Linger));
        }
        PreparedResponse::new(self.recipe.status, false, steps)
    }

    fn chunk_extension(&self, extension_bytes: u64) -> PreparedResponse {
        let size = self.body_bytes().min(WHOLE_MAX_BYTES);
        let extension = "x".repeat(extension_bytes as usize);
        let mut body = format!("{size:x};note={extension}\r\n").into_bytes();
        append_body(0, size, &mut body);
        body.extend_from_slice(b"\r\n0\r\n\r\n");
        self.framed_by(&[CHUNKED.to_owned()], vec![Step::Bytes(body)])
    }

    /// Delays the last byte.
    fn add_tail_pause(&self, steps: &mut Vec<Step>) {
        if self.recipe.tail.is_none() {
            return;
        }
        let Some(at) = steps
            .iter()
            .rposition(|step| matches!(step, Step::Bytes(_)))
        else {
            return;
        };
        // The last byte of a streamed body is not available: pause before the body.
        let is_last = at + 1 == steps.len();
        let last = match &mut steps[at] {
            Step::Bytes(bytes) if is_last => bytes.pop(),
            _ => None,
        };
        steps.insert(at + 1, Step::Pause(self.recipe.tail));
        if let Some(byte) = last {
            steps.insert(at + 2, Step::Bytes(vec![byte]));
        }
    }

    fn interim(&self) -> Vec<Step> {
        let (count, status) = self.recipe.interim;
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
        let Recipe {
            status,
            version,
            headers,
            ..
        } = self.recipe;
        let number = if *version == Version::Http11 {
            "1.1"
        } else {
            "1.0"
        };
        let mut head = format!(
            "HTTP/{number} {status:03} {}\r\nServer: wrkbench\r\nContent-Type: {}\r\n",
            reason(*status),
            self.recipe.media_type(),
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
        let is_old = self.recipe.version != Version::Http11;
        match self.after() {
            After::Fin if !is_old => Some("Connection: close"),
            After::Stay if is_old || self.traits.is_http10 => Some("Connection: keep-alive"),
            _ => None,
        }
    }

    fn after(&self) -> After {
        let recipe = self.recipe;
        let ends = recipe.closing == Closing::Announced
            || recipe.is_until_close
            || recipe.version == Version::Http10
            || (self.is_stream() && self.traits.is_http10)
            || !self.traits.keeps_alive;
        match recipe.closing {
            Closing::Silent => After::Close,
            _ if ends => After::Fin,
            _ => After::Stay,
        }
    }

    fn framing(&self) -> Framing {
        if self.recipe.status_forbids_body() || self.recipe.is_until_close {
            Framing::None
        } else if (self.recipe.chunk_bytes.is_some() || self.is_stream()) && !self.traits.is_http10
        {
            // HTTP/1.0 has no chunked coding (RFC 9112 section 6.1).
            Framing::Chunked
        } else if self.is_stream() {
            Framing::None
        } else {
            Framing::Length(self.body_bytes())
        }
    }

    fn body_bytes(&self) -> u64 {
        self.recipe.body_bytes(self.traits.body.len())
    }

    fn body(&self) -> Vec<Step> {
        if self.traits.is_bodiless || self.recipe.status_forbids_body() {
            return Vec::new();
        }
        if let Some(pieces) = self.recipe.events.pieces() {
            let mut steps = self.events(pieces);
            if self.framing() == Framing::Chunked {
                steps.push(self.last_chunk());
            }
            return steps;
        }
        match self.framing() {
            Framing::Chunked => self.chunked_body(self.body_bytes()),
            _ => self.plain_body(self.body_bytes()),
        }
    }

    /// The body is a stream of events.
    fn is_stream(&self) -> bool {
        self.recipe.events.count.is_some()
    }

    /// Events with the time before each, each in a chunk of its own.
    fn events(&self, pieces: Vec<Piece>) -> Vec<Step> {
        let is_chunked = self.framing() == Framing::Chunked;
        let mut steps = Vec::new();
        for Piece { delay, content } in pieces {
            if !delay.is_none() {
                steps.push(Step::Pause(delay));
            }
            steps.push(Step::Bytes(match is_chunked {
                true => {
                    let size = format!("{:x}\r\n", content.len());
                    [size.as_bytes(), &content, b"\r\n"].concat()
                }
                false => content,
            }));
        }
        steps
    }

    /// The first half of the body.
    fn half_body(&self) -> Vec<Step> {
        if let Some(pieces) = self
            .recipe
            .events
            .half()
            .filter(|_| !self.traits.is_bodiless)
        {
            return self.events(pieces);
        }
        let half = self.body_bytes() / 2;
        if self.traits.is_bodiless || half == 0 {
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
        if self.recipe.echoes {
            return vec![Step::Bytes(self.traits.body[..bytes as usize].to_vec())];
        }
        if bytes > WHOLE_MAX_BYTES {
            return vec![Step::Stream(Stream::Body { bytes })];
        }
        let mut body = Vec::new();
        append_body(0, bytes, &mut body);
        vec![Step::Bytes(body)]
    }

    /// All chunks as one step, the last chunk with the trailers as another.
    fn chunked_body(&self, bytes: u64) -> Vec<Step> {
        let chunk_bytes = self
            .recipe
            .chunk_bytes
            .unwrap_or(crate::recipe::CHUNK_DEFAULT_BYTES);
        let end = self.last_chunk();
        if self.recipe.echoes {
            let mut chunks = Vec::new();
            for part in self.traits.body[..bytes as usize].chunks(chunk_bytes as usize) {
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

    /// The last chunk with the trailers.
    fn last_chunk(&self) -> Step {
        let trailers = match self.recipe.has_trailers {
            true => TRAILERS
                .map(|(name, value)| format!("{name}: {value}\r\n"))
                .concat(),
            false => String::new(),
        };
        Step::Bytes(format!("0\r\n{trailers}\r\n").into_bytes())
    }
}

const CHUNKED: &str = "Transfer-Encoding: chunked";
/// Control bytes, invalid UTF-8 and line ends, so that no parser waits for more.
const GARBAGE: &[u8] = b"\x00\x01\xff garbage, no status line \x7f\r\n\r\n";
/// A fatal alert, handshake_failure (RFC 8446 section 6), in a TLS 1.2 record.
pub(crate) const TLS_ALERT: &[u8] = &[21, 3, 3, 0, 2, 2, 40];

fn replaced(mut bytes: Vec<u8>, range: std::ops::Range<usize>, by: &[u8]) -> Vec<u8> {
    bytes.splice(range, by.iter().copied());
    bytes
}

/// Merges adjacent byte steps.
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

/// Reason phrases of common statuses (RFC 9110 section 15).
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

    fn traits() -> RequestTraits {
        RequestTraits {
            keeps_alive: true,
            ..RequestTraits::default()
        }
    }

    fn planned(options: &str, traits: &RequestTraits) -> PreparedResponse {
        prepare(&Recipe::from_text(options).unwrap(), traits)
    }

    /// All bytes of a response except streams.
    fn bytes(response: &PreparedResponse) -> String {
        let mut text = String::new();
        for step in &response.steps {
            if let Step::Bytes(bytes) | Step::Bytewise { bytes, .. } = step {
                text.push_str(&String::from_utf8_lossy(bytes));
            }
        }
        text
    }

    #[test]
    fn the_usual_response_is_one_step_with_63_bytes_of_body() {
        let response = planned("", &traits());
        let text = String::from_utf8(response.instant_bytes().unwrap().to_vec()).unwrap();
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
            &RequestTraits {
                is_bodiless: true,
                ..traits()
            },
        );
        let get = planned("size=5", &traits());
        assert_eq!(bytes(&head) + "abcde", bytes(&get));
    }

    #[test]
    fn statuses_without_body_have_no_framing() {
        for status in [101, 204, 304] {
            let text = bytes(&planned(&format!("status={status}"), &traits()));
            assert!(
                !text.contains("Content-Length") && text.ends_with("\r\n\r\n"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_status_keeps_its_three_digits() {
        assert!(bytes(&planned("status=099", &traits())).starts_with("HTTP/1.1 099 "));
    }

    #[test]
    fn persistence_follows_request_and_options() {
        let old = RequestTraits {
            is_http10: true,
            keeps_alive: false,
            ..RequestTraits::default()
        };
        let old_kept = RequestTraits {
            is_http10: true,
            ..traits()
        };
        let closing = RequestTraits {
            keeps_alive: false,
            ..traits()
        };
        for (options, traits, field, last) in [
            ("", traits(), "", None),
            (
                "",
                closing.clone(),
                "Connection: close",
                Some(Step::Fin(AfterFin::Linger)),
            ),
            (
                "",
                old,
                "Connection: close",
                Some(Step::Fin(AfterFin::Linger)),
            ),
            ("", old_kept, "Connection: keep-alive", None),
            (
                "close",
                traits(),
                "Connection: close",
                Some(Step::Fin(AfterFin::Linger)),
            ),
            ("close=silent", traits(), "", Some(Step::Close)),
            ("http10", traits(), "", Some(Step::Fin(AfterFin::Linger))),
            (
                "http10=keep-alive",
                traits(),
                "Connection: keep-alive",
                None,
            ),
            (
                "until-close",
                traits(),
                "Connection: close",
                Some(Step::Fin(AfterFin::Linger)),
            ),
        ] {
            let response = planned(options, &traits);
            let text = bytes(&response);
            let found = text
                .lines()
                .find(|line| line.starts_with("Connection"))
                .unwrap_or("");
            assert_eq!(found, field, "{options}");
            let end = response
                .steps
                .last()
                .filter(|step| !matches!(step, Step::Bytes(_)));
            assert_eq!(end.cloned(), last, "{options}");
        }
    }

    #[test]
    fn chunks_and_trailers_are_framed() {
        let text = bytes(&planned("chunked=2b&size=3&trailers", &traits()));
        let body = text.split_once("\r\n\r\n").unwrap().1;
        assert_eq!(
            body,
            format!("2\r\nab\r\n1\r\nc\r\n0\r\nX-Trailer: 1\r\nX-Checksum: none\r\n\r\n")
        );
    }

    #[test]
    fn long_bodies_are_streamed_and_not_stored() {
        let response = planned("size=10G", &traits());
        assert_eq!(
            response.steps[1],
            Step::Stream(Stream::Body {
                bytes: 10_000_000_000
            })
        );
        assert!(response.instant_bytes().is_none());
    }

    #[test]
    fn the_tail_waits_with_the_last_byte() {
        let response = planned("size=3&tail=5ms", &traits());
        let [Step::Bytes(first), Step::Pause(pause), Step::Bytes(last)] = response.steps.as_slice()
        else {
            panic!("{response:?}")
        };
        assert!(first.ends_with(b"ab"));
        assert_eq!(
            (*pause, last.as_slice()),
            (crate::Delay::Fixed(5_000_000), b"c" as &[u8])
        );
    }

    #[test]
    fn a_response_is_whole_unless_it_is_cut_short() {
        for fault in [
            "reset",
            "truncate",
            "hang",
            "garbage",
            "bad-chunk",
            "endless-head",
        ] {
            assert!(
                !planned(&format!("fault={fault}"), &traits()).is_whole,
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
                planned(&format!("fault={fault}"), &traits()).is_whole,
                "{fault}"
            );
        }
    }

    #[test]
    fn a_mix_carries_a_plan_for_each_fault() {
        let response = planned("mix=0.1:reset&mix=0.2:hang&delay=1ms", &traits());
        assert_eq!(response.mix.len(), 2);
        assert_eq!(response.mix[1].1.steps, [Step::Hang]);
        assert_eq!(response.mix[1].1.delay, response.delay);
        assert!(response.instant_bytes().is_none());
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
            let text = bytes(&planned(&format!("size=5&fault={fault}"), &traits()));
            assert!(text.contains(expected), "{fault}: {text:?}");
        }
    }

    #[test]
    fn half_a_body_is_half_the_bytes_announced() {
        let text = bytes(&planned("size=6&fault=truncate", &traits()));
        assert!(
            text.contains("Content-Length: 6") && text.ends_with("\r\n\r\nabc"),
            "{text:?}"
        );
        let text = bytes(&planned("size=6&chunked&fault=reset-mid-body", &traits()));
        assert!(text.ends_with("\r\n\r\n3\r\nabc\r\n"), "{text:?}");
    }

    #[test]
    fn interim_responses_come_before_the_response() {
        let text = bytes(&planned("interim=2:102", &traits()));
        assert_eq!(text.matches("HTTP/1.1 102 Processing\r\n").count(), 2);
        assert!(text.rfind("102").unwrap() < text.find("200").unwrap());
    }
}
