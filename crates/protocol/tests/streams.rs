//! Events in streaming responses, over HTTP/1 and HTTP/2: the same ones wherever the input is cut.

use plan::EventsFormat;
use protocol::h1::{self, H1, Limits};
use protocol::h2::hpack::encode::{Literal, field};
use protocol::h2::{ClientSettings, H2, H2Context, writer};
use protocol::llm::{Dialect, FinishReason, Usage};
use protocol::request::split;
use protocol::{Event, ExchangeId, Found, RequestKind, Requests, Session, StreamSpec, StreamTotal};

const EXCHANGE: ExchangeId = ExchangeId(0);

/// What a connection has reported about its streams.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    events: u64,
    tokens: u64,
    texts: u64,
    totals: Vec<StreamTotal>,
    finished: usize,
}

impl Seen {
    fn of(events: Vec<Event>) -> Self {
        let mut seen = Self::default();
        for event in events {
            match event {
                Event::Streamed(EXCHANGE, found) => {
                    assert!(found.events > 0 && seen.totals.len() == seen.finished);
                    seen.events += u64::from(found.events);
                    seen.tokens += u64::from(found.tokens);
                    seen.texts += u64::from(found.texts);
                }
                Event::StreamEnded(EXCHANGE, total) => seen.totals.push(total),
                Event::Finished(EXCHANGE, _) => seen.finished += 1,
                Event::Began(EXCHANGE) => {}
                other => panic!("{other:?}"),
            }
        }
        seen
    }
}

fn spec(format: EventsFormat, end_marker: &str) -> Option<StreamSpec> {
    Some(StreamSpec {
        format,
        end_marker: end_marker.as_bytes().into(),
        dialect: None,
        keeps_answers: false,
    })
}

/// The input in one piece, cut at every byte, and byte by byte.
fn cuts(input: &[u8]) -> Vec<Vec<&[u8]>> {
    let in_two = (0..=input.len()).map(|at| vec![&input[..at], &input[at..]]);
    in_two.chain([input.chunks(1).collect()]).collect()
}

/// A connection that has sent a request.
fn requested(shared: &mut h1::H1Context) -> H1 {
    let mut session = H1::new(shared);
    let mut output = Vec::new();
    session.begin(shared, &mut output).expect("it begins");
    let requests = Requests {
        text: b"",
        prepared: &[RequestKind::Plain],
    };
    session
        .start(shared, EXCHANGE, requests, &mut output)
        .expect("it can send");
    session
}

/// A connection that gets a response in these pieces, and then the close.
fn over_http1(stream: &Option<StreamSpec>, pieces: &[&[u8]]) -> Seen {
    let mut shared = h1::H1Context::new(Limits::default(), false).with_stream(stream.clone());
    let mut session = requested(&mut shared);
    let (mut output, mut events) = (Vec::new(), Vec::new());
    for piece in pieces {
        session
            .receive(&mut shared, piece, &mut output, &mut events)
            .expect("the response is good");
        let is_wanted = session.skippable_bytes() == 0;
        assert!(is_wanted, "the body of a stream is read");
    }
    let _ = session.end(&mut shared, &mut events);
    Seen::of(events)
}

fn check_http1(format: EventsFormat, marker: &str, response: &str, expected: Option<StreamTotal>) {
    let expected = Seen {
        events: expected.as_ref().map_or(0, |total| total.events),
        totals: expected.into_iter().collect(),
        finished: 1,
        ..Seen::default()
    };
    for pieces in cuts(response.as_bytes()) {
        assert_eq!(
            over_http1(&spec(format, marker), &pieces),
            expected,
            "{pieces:?}"
        );
    }
}

fn total(events: u64, has_end_marker: bool) -> Option<StreamTotal> {
    Some(StreamTotal {
        events,
        has_end_marker,
        is_compressed: false,
        llm: None,
    })
}

#[test]
fn events_over_http1_are_the_same_wherever_a_response_is_cut() {
    let sse = "data: 1\n\n: ping\n\nevent: x\r\ndata: 2\r\n\r\ndata: [DONE]\n\n";
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let chunked = |chunks: &[&str]| {
        let chunks: String = chunks.iter().map(|text| chunk(text)).collect();
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
    };
    let with_length = |status: u16, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {status} OK\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    // Chunks need not agree with events.
    let pieces = [&sse[..3], &sse[3..20], &sse[20..]];
    for response in [
        chunked(&[sse]),
        chunked(&pieces),
        with_length(200, sse),
        format!("HTTP/1.0 201 Created\r\n\r\n{sse}"),
    ] {
        check_http1(EventsFormat::Sse, "[DONE]", &response, total(2, true));
        check_http1(EventsFormat::Sse, "", &response, total(3, false));
        check_http1(EventsFormat::Lines, "data: 1", &response, total(4, true));
    }
    let three = chunked(&["a", "bc", "END", "d"]);
    check_http1(EventsFormat::Chunks, "END", &three, total(3, true));
    check_http1(EventsFormat::Chunks, "", &three, total(4, false));
    let single = with_length(200, "abc");
    check_http1(EventsFormat::Chunks, "", &single, total(1, false));
    check_http1(
        EventsFormat::Sse,
        "[DONE]",
        &with_length(200, ""),
        total(0, false),
    );
    check_http1(EventsFormat::Sse, "[DONE]", &with_length(429, sse), None);
}

#[test]
fn events_before_a_broken_chunk_are_reported() {
    let mut shared =
        h1::H1Context::new(Limits::default(), false).with_stream(spec(EventsFormat::Lines, ""));
    let mut session = requested(&mut shared);
    let (mut output, mut events) = (Vec::new(), Vec::new());
    let response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\na\nb\n\r\nXX\r\n";
    let result = session.receive(&mut shared, response, &mut output, &mut events);
    assert!(result.is_err());
    let found = Found {
        events: 2,
        ..Found::default()
    };
    assert_eq!(events, [Event::Streamed(EXCHANGE, found)]);
}

fn over_http2(stream: &Option<StreamSpec>, pieces: &[&[u8]]) -> Seen {
    let settings = ClientSettings {
        streams_max: 4,
        scheme: "http",
        calls: false,
        capture: false,
        captured_body_bytes_max: 0,
    };
    let mut shared = H2Context::new(settings).with_stream(stream.clone());
    let mut session = H2::new(&mut shared);
    let (mut output, mut events) = (Vec::new(), Vec::new());
    session.begin(&mut shared, &mut output).expect("it begins");
    let mut server = Vec::new();
    writer::settings([], &mut server);
    session
        .receive(&mut shared, &server, &mut output, &mut events)
        .expect("the settings are good");
    let text = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let request = split(text).next().expect("there is one");
    let prepared = [H2::prepare(&mut shared, &request.expect("it is good"))];
    let requests = Requests {
        text,
        prepared: &prepared,
    };
    session
        .start(&mut shared, EXCHANGE, requests, &mut output)
        .expect("it can send");
    for piece in pieces {
        session
            .receive(&mut shared, piece, &mut output, &mut events)
            .expect("the response is good");
    }
    Seen::of(events)
}

/// A response of HTTP/2 with these frames.
fn response(status: &str, frames: &[&str]) -> Vec<u8> {
    let (mut block, mut output) = (Vec::new(), Vec::new());
    field(b":status", status.as_bytes(), Literal::Indexed, &mut block);
    writer::headers(1, &block, false, 16_384, &mut output);
    for frame in frames {
        writer::data(1, frame.as_bytes(), false, &mut output);
    }
    writer::data(1, b"", true, &mut output);
    output
}

#[test]
fn events_over_http2_are_the_same_wherever_a_response_is_cut() {
    let check = |format, marker, input: &[u8], total: Option<StreamTotal>| {
        let expected = Seen {
            events: total.as_ref().map_or(0, |total| total.events),
            totals: total.into_iter().collect(),
            finished: 1,
            ..Seen::default()
        };
        for pieces in cuts(input) {
            assert_eq!(over_http2(&spec(format, marker), &pieces), expected);
        }
    };
    let frames = ["data: 1\n\nda", "ta: 2\n\n", "", "data: [DONE]\n\n"];
    let input = response("200", &frames);
    check(EventsFormat::Sse, "[DONE]", &input, total(2, true));
    check(EventsFormat::Lines, "", &input, total(3, false));
    check(EventsFormat::Chunks, frames[1], &input, total(2, true));
    check(EventsFormat::Sse, "[DONE]", &response("503", &frames), None);
}

/// A stream of OpenAI's chat format, in pieces, and one of Ollama's.
const CHAT: [&str; 4] = [
    "\n\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n: ping\n\n",
    "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\ndata: {\"choi",
    "ces\":[{\"delta\":{\"content\":\" a\"},\"finish_reason\":\"length\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":9}}\n\n\
     data: [DONE]\n\n",
];
const OLLAMA: [&str; 3] = [
    " \r\n{\"message\":{\"content\":\"a\"},\"done\":false}\n",
    "{\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\",",
    "\"prompt_eval_count\":3,\"eval_count\":2}",
];

#[test]
fn tokens_are_the_same_over_http1_and_http2_wherever_a_response_is_cut() {
    let spec = spec(EventsFormat::Llm, "[DONE]");
    for (frames, expected, dialect, usage, finish) in [
        (
            CHAT.as_slice(),
            (4, 2, 1),
            Dialect::OpenAi,
            (7, 9),
            FinishReason::Length,
        ),
        (
            OLLAMA.as_slice(),
            (2, 1, 1),
            Dialect::Ollama,
            (3, 2),
            FinishReason::Stop,
        ),
    ] {
        let check = |seen: &Seen| {
            assert_eq!((seen.events, seen.tokens, seen.texts), expected);
            let [total] = seen.totals.as_slice() else {
                panic!("{seen:?}");
            };
            assert!(total.has_end_marker && seen.finished == 1);
            let llm = total.llm.as_deref().expect("it is a model's");
            assert_eq!(llm.dialect, Some(dialect));
            assert_eq!(llm.finish, Some(finish));
            assert_eq!((llm.token_events, llm.has_error), (expected.1, false));
            let (prompt, completion) = usage;
            let counted = Usage {
                prompt: Some(prompt),
                completion: Some(completion),
                ..Usage::default()
            };
            assert_eq!(llm.usage, counted);
        };
        let body = frames.concat();
        let over1 = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        for pieces in cuts(over1.as_bytes()) {
            check(&over_http1(&spec, &pieces));
        }
        for pieces in cuts(&response("200", frames)) {
            check(&over_http2(&spec, &pieces));
        }
    }
}

#[test]
fn what_a_stream_said_is_not_taken_for_what_the_next_one_says() {
    let body = CHAT.concat();
    let with_error = "data: {\"error\":{\"message\":\"overloaded\"}}\n\n";
    let empty = "";
    let response = |body: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let spec = spec(EventsFormat::Llm, "[DONE]");
    let mut shared = h1::H1Context::new(Limits::default(), false).with_stream(spec);
    let mut session = H1::new(&mut shared);
    let (mut output, mut events) = (Vec::new(), Vec::new());
    session.begin(&mut shared, &mut output).expect("it begins");
    let mut totals = Vec::new();
    for body in [body.as_str(), with_error, empty, OLLAMA[0]] {
        let requests = Requests {
            text: b"",
            prepared: &[RequestKind::Plain],
        };
        session
            .start(&mut shared, EXCHANGE, requests, &mut output)
            .expect("it can send");
        session
            .receive(
                &mut shared,
                response(body).as_bytes(),
                &mut output,
                &mut events,
            )
            .expect("the response is good");
        let ended = events.drain(..).find_map(|event| match event {
            Event::StreamEnded(_, total) => total.llm,
            _ => None,
        });
        totals.push(ended.expect("it is a stream"));
    }
    let found = totals
        .iter()
        .map(|llm| (llm.token_events, llm.has_error, llm.has_end));
    let expected = [
        (2, false, true),
        (0, true, false),
        (0, false, false),
        (1, false, false),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(totals[1].usage, Usage::default());
}
