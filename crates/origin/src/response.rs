//! Prepares responses: turns a recipe into bytes and steps.

use std::rc::Rc;

use crate::context::Form;
use crate::events::Piece;
use crate::fault::{End, Fault, Sent};
use crate::llm::Generation;
use crate::prepared::{AfterFin, ConnectionStep, PreparedResponse, Stream, append_body};
use crate::recipe::{Closing, Recipe, Version};

/// Bodies up to this size, in bytes, are built in memory; longer ones are streamed.
const WHOLE_MAX_BYTES: u64 = 1_000_000;
/// The fields of every response, and the trailer fields.
pub(crate) const SERVER: (&str, &str) = ("server", "wrkbench");
pub(crate) const CONTENT_TYPE: &str = "content-type";
pub(crate) const TRAILERS: [(&str, &str); 2] = [("X-Trailer", "1"), ("X-Checksum", "none")];

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
pub(crate) const FORM: Form<ConnectionStep> = Form {
    prepare,
    text,
    has_http10: true,
    is_http3: false,
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
    let mut steps = vec![ConnectionStep::Bytes(recipe.into_bytes())];
    if close {
        steps.push(ConnectionStep::Fin(AfterFin::Linger));
    }
    PreparedResponse::new(status, true, steps)
}

/// `100 Continue`, which does not count as a response.
pub(crate) fn continue_plan() -> PreparedResponse {
    let steps = vec![ConnectionStep::Bytes(
        b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(),
    )];
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

impl Writer<'_> {
    fn prepare(&self, fault: Option<&Fault>) -> PreparedResponse {
        match fault {
            // What only HTTP/3 has is refused before.
            None | Some(Fault::Forget { .. } | Fault::DynamicEntry) => {
                self.response(Sent::All, self.end())
            }
            Some(Fault::Cut { sent, end }) => self.response(*sent, end.steps()),
            Some(Fault::Drip { interval_ns }) => self.bytewise(*interval_ns),
        }
    }

    /// As much of the response, preceded by interim responses, and these steps.
    fn response(&self, sent: Sent, end: Vec<ConnectionStep>) -> PreparedResponse {
        if sent == Sent::Nothing {
            return PreparedResponse::new(0, false, end);
        }
        let mut steps = self.interim();
        steps.push(ConnectionStep::Bytes(self.head()));
        match sent {
            Sent::Nothing | Sent::Head => {}
            Sent::HalfBody => steps.extend(self.half_body()),
            Sent::All => {
                steps.extend(self.body());
                self.add_tail_pause(&mut steps);
            }
        }
        steps.extend(end);
        PreparedResponse::new(self.recipe.status, sent == Sent::All, joined(steps))
    }

    fn bytewise(&self, interval_ns: u64) -> PreparedResponse {
        let mut response = self.response(Sent::All, self.end());
        for step in &mut response.steps {
            match step {
                ConnectionStep::Bytes(bytes) => {
                    *step = ConnectionStep::Bytewise {
                        bytes: std::mem::take(bytes),
                        interval_ns,
                    };
                }
                ConnectionStep::Generate(generation) => {
                    generation.byte_interval_ns = Some(interval_ns)
                }
                _ => {}
            }
        }
        response
    }

    /// Delays the last byte.
    fn add_tail_pause(&self, steps: &mut Vec<ConnectionStep>) {
        if self.recipe.tail.is_none() {
            return;
        }
        let Some(at) = steps
            .iter()
            .rposition(|step| matches!(step, ConnectionStep::Bytes(_)))
        else {
            return;
        };
        // The last byte of a streamed body is not available: pause before the body.
        let is_last = at + 1 == steps.len();
        let last = match &mut steps[at] {
            ConnectionStep::Bytes(bytes) if is_last => bytes.pop(),
            _ => None,
        };
        steps.insert(at + 1, ConnectionStep::Pause(self.recipe.tail));
        if let Some(byte) = last {
            steps.insert(at + 2, ConnectionStep::Bytes(vec![byte]));
        }
    }

    fn interim(&self) -> Vec<ConnectionStep> {
        let (count, status) = self.recipe.interim;
        let one = format!(
            "HTTP/1.1 {status} {}\r\nX-Interim: 1\r\n\r\n",
            reason(status)
        );
        let all = one.repeat(count as usize).into_bytes();
        if count == 0 {
            Vec::new()
        } else {
            vec![ConnectionStep::Bytes(all)]
        }
    }

    fn head(&self) -> Vec<u8> {
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
        match self.framing() {
            Framing::None => {}
            Framing::Length(bytes) => add(&format!("Content-Length: {bytes}")),
            Framing::Chunked => add("Transfer-Encoding: chunked"),
        }
        if let Some(connection) = self.connection_field() {
            add(connection);
        }
        for (name, value) in headers {
            add(&format!("{name}: {value}"));
        }
        add("");
        head.into_bytes()
    }

    fn connection_field(&self) -> Option<&'static str> {
        let is_old = self.recipe.version != Version::Http11;
        match (self.recipe.closing, self.ends()) {
            (Closing::Silent, _) => None,
            (_, true) => (!is_old).then_some("Connection: close"),
            (_, false) => (is_old || self.traits.is_http10).then_some("Connection: keep-alive"),
        }
    }

    /// What the connection does after the response.
    fn end(&self) -> Vec<ConnectionStep> {
        match (self.recipe.closing, self.ends()) {
            (Closing::Silent, _) => vec![ConnectionStep::Flush, ConnectionStep::Close],
            (_, true) => End::Fin.steps(),
            (_, false) => Vec::new(),
        }
    }

    /// Whether the response is the last of its connection.
    fn ends(&self) -> bool {
        let recipe = self.recipe;
        recipe.closing != Closing::Keep
            || recipe.is_until_close
            || recipe.version == Version::Http10
            || (self.is_stream() && self.traits.is_http10)
            || !self.traits.keeps_alive
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

    fn body(&self) -> Vec<ConnectionStep> {
        if self.traits.is_bodiless || self.recipe.status_forbids_body() {
            return Vec::new();
        }
        if let Some(mut steps) = self.generation(false).or_else(|| self.events(false)) {
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
        self.recipe.events.is_stream()
    }

    /// The events of a generation.
    fn generation(&self, is_half: bool) -> Option<Vec<ConnectionStep>> {
        let generation = Generation {
            is_chunked: self.framing() == Framing::Chunked,
            ..self.recipe.events.generation(is_half)?
        };
        Some(vec![ConnectionStep::Generate(Box::new(generation))])
    }

    /// Events with the time before each, each in a chunk of its own.
    fn events(&self, is_half: bool) -> Option<Vec<ConnectionStep>> {
        let pieces = self.recipe.events.pieces(is_half)?;
        let is_chunked = self.framing() == Framing::Chunked;
        let mut steps = Vec::new();
        for Piece { delay, content } in pieces {
            if !delay.is_none() {
                steps.push(ConnectionStep::Pause(delay));
            }
            steps.push(ConnectionStep::Bytes(if is_chunked {
                let size = format!("{:x}\r\n", content.len());
                [size.as_bytes(), &content, b"\r\n"].concat()
            } else {
                content
            }));
        }
        Some(steps)
    }

    /// The first half of the body.
    fn half_body(&self) -> Vec<ConnectionStep> {
        if self.traits.is_bodiless {
            return Vec::new();
        }
        if let Some(steps) = self.generation(true).or_else(|| self.events(true)) {
            return steps;
        }
        let half = self.body_bytes() / 2;
        if half == 0 {
            return Vec::new();
        }
        let Framing::Chunked = self.framing() else {
            return self.plain_body(half);
        };
        let mut steps = self.chunked_body(half);
        steps.pop();
        steps
    }

    fn plain_body(&self, bytes: u64) -> Vec<ConnectionStep> {
        if self.recipe.echoes {
            return vec![ConnectionStep::Bytes(
                self.traits.body[..bytes as usize].to_vec(),
            )];
        }
        if bytes > WHOLE_MAX_BYTES {
            return vec![ConnectionStep::Stream(Stream::Body { bytes })];
        }
        let mut body = Vec::new();
        append_body(0, bytes, &mut body);
        vec![ConnectionStep::Bytes(body)]
    }

    /// All chunks as one step, the last chunk with the trailers as another.
    fn chunked_body(&self, bytes: u64) -> Vec<ConnectionStep> {
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
            return vec![ConnectionStep::Bytes(chunks), end];
        }
        let stream = Stream::Chunks { bytes, chunk_bytes };
        if bytes > WHOLE_MAX_BYTES {
            return vec![ConnectionStep::Stream(stream), end];
        }
        let mut chunks = Vec::new();
        let (mut progress, mut more) = (0, bytes > 0);
        while more {
            (progress, more) = stream.produce(progress, bytes as usize, &mut chunks);
        }
        vec![ConnectionStep::Bytes(chunks), end]
    }

    /// The last chunk with the trailers.
    fn last_chunk(&self) -> ConnectionStep {
        let trailers = if self.recipe.has_trailers {
            TRAILERS
                .map(|(name, value)| format!("{name}: {value}\r\n"))
                .concat()
        } else {
            String::new()
        };
        ConnectionStep::Bytes(format!("0\r\n{trailers}\r\n").into_bytes())
    }
}

/// Merges adjacent byte steps.
fn joined(steps: Vec<ConnectionStep>) -> Vec<ConnectionStep> {
    let mut joined: Vec<ConnectionStep> = Vec::with_capacity(steps.len());
    for step in steps {
        match (joined.last_mut(), step) {
            (Some(ConnectionStep::Bytes(before)), ConnectionStep::Bytes(bytes)) => {
                before.extend_from_slice(&bytes)
            }
            (_, ConnectionStep::Bytes(bytes)) if bytes.is_empty() => {}
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
            if let ConnectionStep::Bytes(bytes) | ConnectionStep::Bytewise { bytes, .. } = step {
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
                Some(ConnectionStep::Fin(AfterFin::Linger)),
            ),
            (
                "",
                old,
                "Connection: close",
                Some(ConnectionStep::Fin(AfterFin::Linger)),
            ),
            ("", old_kept, "Connection: keep-alive", None),
            (
                "close",
                traits(),
                "Connection: close",
                Some(ConnectionStep::Fin(AfterFin::Linger)),
            ),
            ("close=silent", traits(), "", Some(ConnectionStep::Close)),
            (
                "http10",
                traits(),
                "",
                Some(ConnectionStep::Fin(AfterFin::Linger)),
            ),
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
                Some(ConnectionStep::Fin(AfterFin::Linger)),
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
                .filter(|step| !matches!(step, ConnectionStep::Bytes(_)));
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
            ConnectionStep::Stream(Stream::Body {
                bytes: 10_000_000_000
            })
        );
        assert!(response.instant_bytes().is_none());
    }

    #[test]
    fn the_tail_waits_with_the_last_byte() {
        let response = planned("size=3&tail=5ms", &traits());
        let [
            ConnectionStep::Bytes(first),
            ConnectionStep::Pause(pause),
            ConnectionStep::Bytes(last),
        ] = response.steps.as_slice()
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
        for (fault, is_whole) in [
            ("reset", false),
            ("truncate", false),
            ("hang", false),
            ("split", true),
            ("reset-after-answer", true),
        ] {
            let response = planned(&format!("fault={fault}"), &traits());
            assert_eq!(response.is_whole, is_whole, "{fault}");
        }
    }

    #[test]
    fn a_mix_carries_a_plan_for_each_fault() {
        let response = planned("mix=0.1:reset&mix=0.2:hang&delay=1ms", &traits());
        assert_eq!(response.mix.len(), 2);
        assert_eq!(response.mix[1].1.steps, [ConnectionStep::Hang]);
        assert_eq!(response.mix[1].1.delay, response.delay);
        assert!(response.instant_bytes().is_none());
    }

    #[test]
    fn fields_of_a_recipe_may_contradict_the_response() {
        for (recipe, expected) in [
            (
                "header=Content-Length:6",
                "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
            ),
            (
                "header=Content-Length:5",
                "Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde",
            ),
            (
                "until-close&close=silent&header=Content-Length:0x5",
                "Content-Length: 0x5\r\n\r\nabcde",
            ),
            (
                "until-close&close=silent&header=Transfer-Encoding:xchunked",
                "Transfer-Encoding: xchunked\r\n\r\nabcde",
            ),
            (
                "status=304&header=Content-Length:5",
                "Content-Length: 5\r\n\r\n",
            ),
        ] {
            let text = bytes(&planned(&format!("size=5&{recipe}"), &traits()));
            assert!(text.ends_with(expected), "{recipe}: {text:?}");
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
