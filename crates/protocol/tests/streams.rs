//! Events in streaming responses, over HTTP/1 and HTTP/2: the same ones wherever the input is cut.

use plan::EventsFormat;
use protocol::h1::{self, H1, Limits};
use protocol::h2::hpack::encode::{Literal, field};
use protocol::h2::{ClientSettings, H2, Shared, writer};
use protocol::request::split;
use protocol::{Event, ExchangeId, RequestKind, Requests, Session, StreamSpec, StreamTotal};

const EXCHANGE: ExchangeId = ExchangeId(0);

/// What a connection has reported about its streams.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    events: u64,
    totals: Vec<StreamTotal>,
    finished: usize,
}

impl Seen {
    fn of(events: Vec<Event>) -> Self {
        let mut seen = Self::default();
        for event in events {
            match event {
                Event::Streamed(EXCHANGE, count) => {
                    assert!(count > 0 && seen.totals.len() == seen.finished);
                    seen.events += u64::from(count);
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
    })
}

/// The input in one piece, cut at every byte, and byte by byte.
fn cuts(input: &[u8]) -> Vec<Vec<&[u8]>> {
    let in_two = (0..=input.len()).map(|at| vec![&input[..at], &input[at..]]);
    in_two.chain([input.chunks(1).collect()]).collect()
}

/// A connection that gets a response in these pieces, and then the close.
fn over_http1(stream: &Option<StreamSpec>, pieces: &[&[u8]]) -> Seen {
    let mut shared = h1::Shared::new(Limits::default(), false).with_stream(stream.clone());
    let mut session = H1::new(&mut shared);
    let (mut output, mut events) = (Vec::new(), Vec::new());
    session.begin(&mut shared, &mut output).expect("it begins");
    let requests = Requests {
        text: b"",
        prepared: &[RequestKind::Plain],
    };
    session
        .start(&mut shared, EXCHANGE, requests, &mut output)
        .expect("it can send");
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
        events: expected.map_or(0, |total| total.events),
        totals: expected.into_iter().collect(),
        finished: 1,
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
        h1::Shared::new(Limits::default(), false).with_stream(spec(EventsFormat::Lines, ""));
    let mut session = H1::new(&mut shared);
    let (mut output, mut events) = (Vec::new(), Vec::new());
    session.begin(&mut shared, &mut output).expect("it begins");
    let requests = Requests {
        text: b"",
        prepared: &[RequestKind::Plain],
    };
    session
        .start(&mut shared, EXCHANGE, requests, &mut output)
        .expect("it can send");
    let response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\na\nb\n\r\nXX\r\n";
    let result = session.receive(&mut shared, response, &mut output, &mut events);
    assert!(result.is_err());
    assert_eq!(events, [Event::Streamed(EXCHANGE, 2)]);
}

fn over_http2(stream: &Option<StreamSpec>, pieces: &[&[u8]]) -> Seen {
    let settings = ClientSettings {
        streams_max: 4,
        scheme: "http",
        calls: false,
        capture: false,
        captured_body_bytes_max: 0,
    };
    let mut shared = Shared::new(settings).with_stream(stream.clone());
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

#[test]
fn events_over_http2_are_the_same_wherever_a_response_is_cut() {
    let response = |status: &str, frames: &[&str]| {
        let (mut block, mut output) = (Vec::new(), Vec::new());
        field(b":status", status.as_bytes(), Literal::Indexed, &mut block);
        writer::headers(1, &block, false, 16_384, &mut output);
        for frame in frames {
            writer::data(1, frame.as_bytes(), false, &mut output);
        }
        writer::data(1, b"", true, &mut output);
        output
    };
    let check = |format, marker, input: &[u8], total: Option<StreamTotal>| {
        let expected = Seen {
            events: total.map_or(0, |total| total.events),
            totals: total.into_iter().collect(),
            finished: 1,
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
