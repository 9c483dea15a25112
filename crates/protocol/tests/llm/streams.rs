//! Whole responses: through the splitter and the scanner, into what is known about a response.

use plan::EventsFormat;
use protocol::llm::{
    Dialect, FinishReason, LlmEvent, LlmScanner, LlmStream, TimePerToken, TokenSource, Usage,
};
use protocol::{EventSplitter, StreamSpec};

use crate::scan::scan;

const MS: u64 = 1_000_000;

/// Feeds a body in pieces. The time of an event is 10 ms times its number, counted from 1.
fn feed(format: EventsFormat, pieces: &[&[u8]]) -> LlmStream {
    let mut splitter = EventSplitter::new(StreamSpec {
        format,
        end_marker: b"[DONE]".as_slice().into(),
        dialect: None,
        keeps_answers: false,
    });
    let mut scanner = LlmScanner::new(None);
    let mut stream = LlmStream::default();
    let mut events = 0;
    let mut sink = scanner.sink(|event| {
        events += 1;
        stream.add(events * 10 * MS, &event);
    });
    splitter.begin(200);
    for piece in pieces {
        splitter.content_to(piece, &mut sink);
    }
    let total = splitter.finish_to(&mut sink).expect("200 is a stream");
    assert_eq!(total.events, events);
    if total.has_end_marker {
        stream.end_marker();
    }
    stream
}

fn check(format: EventsFormat, body: &str, expected: &LlmStream) {
    let body = body.as_bytes();
    let bytes: Vec<_> = body.chunks(1).collect();
    assert_eq!(feed(format, &bytes), *expected, "byte by byte");
    for cut in 0..body.len() {
        let (start, rest) = body.split_at(cut);
        assert_eq!(feed(format, &[start, rest]), *expected, "cut at {cut}");
    }
}

#[test]
fn a_chat_stream_has_its_tokens_times_and_end() {
    let body = concat!(
        ": keep-alive\n\n",
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],",
        "\"usage\":null}\n\n",
        "data: {\"choices\":[{\"delta\":{\"reasoning\":\"Hm\"}}]}\r\n\r\n",
        "data: {\"choices\":[{\"delta\":\n",
        "data: {\"content\":\"Hello\"}}]}\n\n",
        "event: x\ndata:{\"choices\":[{\"delta\":{\"content\":\" all\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7}}\n\n",
        "data: [DONE]\n\n",
    );
    let expected = LlmStream {
        first_token_ns: Some(20 * MS),
        first_text_ns: Some(30 * MS),
        last_token_ns: Some(40 * MS),
        token_events: 3,
        reasoning_events: 1,
        usage: Usage {
            prompt: Some(5),
            completion: Some(7),
            ..Usage::default()
        },
        finish: Some(FinishReason::Stop),
        has_last_count: true,
        has_end: true,
        dialect: Some(Dialect::OpenAi),
        ..LlmStream::default()
    };
    check(EventsFormat::Sse, body, &expected);
    assert!(expected.is_complete());
}

#[test]
fn a_message_of_anthropic_has_the_prompt_at_its_start_and_the_output_at_its_end() {
    let body = concat!(
        "event: message_start\n",
        "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":2,",
        "\"cache_read_input_tokens\":30,\"output_tokens\":4}}}\n\n",
        "event: ping\ndata: {\"type\":\"ping\"}\n\n",
        "event: content_block_delta\n",
        "data: {\"type\":\"content_block_delta\",",
        "\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n",
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":",
        "\"max_tokens\"},\"usage\":{\"output_tokens\":9}}\n\n",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    );
    let expected = LlmStream {
        first_token_ns: Some(30 * MS),
        first_text_ns: Some(30 * MS),
        last_token_ns: Some(30 * MS),
        token_events: 1,
        usage: Usage {
            prompt: Some(32),
            completion: Some(9),
            cached: Some(30),
            reasoning: None,
        },
        finish: Some(FinishReason::Length),
        has_last_count: true,
        has_end: true,
        dialect: Some(Dialect::Anthropic),
        ..LlmStream::default()
    };
    check(EventsFormat::Sse, body, &expected);
}

#[test]
fn a_response_of_ollama_is_lines() {
    let body = concat!(
        "{\"message\":{\"content\":\"a\"},\"done\":false}\n",
        "\r\n",
        "{\"message\":{\"content\":\"b\"},\"done\":false}\r\n",
        "{\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\",",
        "\"prompt_eval_count\":3,\"eval_count\":2}",
    );
    let expected = LlmStream {
        first_token_ns: Some(10 * MS),
        first_text_ns: Some(10 * MS),
        last_token_ns: Some(20 * MS),
        token_events: 2,
        usage: Usage {
            prompt: Some(3),
            completion: Some(2),
            ..Usage::default()
        },
        finish: Some(FinishReason::Stop),
        has_last_count: true,
        has_end: true,
        dialect: Some(Dialect::Ollama),
        ..LlmStream::default()
    };
    check(EventsFormat::Lines, body, &expected);
}

#[test]
fn an_error_in_mid_stream_fails_the_response_whatever_follows() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n\
        data: {\"error\":{\"message\":\"out of memory\"}}\n\ndata: {oops\n\ndata: [DONE]\n\n";
    let stream = feed(EventsFormat::Sse, &[body.as_bytes()]);
    assert!(stream.has_error && stream.has_end && !stream.is_complete());
    assert_eq!((stream.token_events, stream.malformed_events), (1, 1));
}

#[test]
fn a_stream_that_breaks_off_is_not_complete() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n\
        data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n";
    let stream = feed(EventsFormat::Sse, &[body.as_bytes()]);
    assert!(!stream.is_complete(), "the last event was not dispatched");
    let body = format!("{body}\n");
    let stream = feed(EventsFormat::Sse, &[body.as_bytes()]);
    assert!(stream.is_complete(), "a finish reason is enough");
    assert!(!LlmStream::default().is_complete());
}

fn text(data: &str) -> LlmEvent {
    scan(
        None,
        &[format!(r#"{{"choices":[{{"delta":{{"content":"a"}}}}]{data}}}"#).as_bytes()],
    )
}

fn usage(counts: &str) -> LlmEvent {
    scan(
        None,
        &[format!(r#"{{"choices":[],"usage":{{{counts}}}}}"#).as_bytes()],
    )
}

/// Events of text at 10, 20, ... ms, then these events.
fn stream(texts: u64, others: &[LlmEvent]) -> LlmStream {
    let mut stream = LlmStream::default();
    for number in 1..=texts {
        stream.add(number * 10 * MS, &text(""));
    }
    for event in others {
        stream.add(1000 * MS, event);
    }
    stream
}

#[test]
fn tokens_are_those_of_the_server_else_the_events() {
    let counted = stream(3, &[usage("\"completion_tokens\":12")]);
    assert_eq!(counted.tokens(), (12, TokenSource::Usage));
    assert_eq!(stream(3, &[]).tokens(), (3, TokenSource::Events));
    assert_eq!(stream(0, &[]).tokens(), (0, TokenSource::Events));
    let only_prompt = stream(3, &[usage("\"prompt_tokens\":12")]);
    assert_eq!(only_prompt.tokens(), (3, TokenSource::Events));
    // A server that does not count says 0 although there is text.
    let zero = stream(3, &[usage("\"completion_tokens\":0")]);
    assert_eq!(zero.tokens(), (3, TokenSource::Events));
    let nothing = stream(0, &[usage("\"completion_tokens\":0")]);
    assert_eq!(nothing.tokens(), (0, TokenSource::Usage));
}

#[test]
fn usage_in_every_event_is_cumulative() {
    let mut stream = LlmStream::default();
    for tokens in 1..=5 {
        let usage = format!(r#","usage":{{"prompt_tokens":7,"completion_tokens":{tokens}}}"#);
        stream.add(tokens * 10 * MS, &text(&usage));
    }
    // A last event with zeros takes nothing back.
    stream.add(
        60 * MS,
        &usage("\"prompt_tokens\":0,\"completion_tokens\":0"),
    );
    assert_eq!(stream.usage.prompt, Some(7));
    assert_eq!(stream.tokens(), (5, TokenSource::Usage));
}

fn per_token(ns: f64, source: TokenSource) -> Option<TimePerToken> {
    Some(TimePerToken { ns, source })
}

#[test]
fn time_per_token_is_the_mean_from_the_first_token_to_the_last() {
    let of_events = stream(5, &[]);
    assert_eq!(
        of_events.time_per_token(),
        per_token(10e6, TokenSource::Events)
    );
    // Four tokens in each of the five events: 40 ms for 19 gaps.
    let of_usage = stream(5, &[usage("\"completion_tokens\":20")]);
    assert_eq!(
        of_usage.time_per_token(),
        per_token(40e6 / 19.0, TokenSource::Usage)
    );
    // The usage event came much later and is no token.
    assert_eq!(of_usage.last_token_ns, Some(50 * MS));
}

#[test]
fn tokens_of_reasoning_that_the_stream_hides_have_no_share_of_its_time() {
    let counts =
        "\"completion_tokens\":105,\"completion_tokens_details\":{\"reasoning_tokens\":100}";
    let hidden = stream(5, &[usage(counts)]);
    assert_eq!(hidden.tokens(), (105, TokenSource::Usage));
    assert_eq!(hidden.time_per_token(), per_token(10e6, TokenSource::Usage));
    let reasoning = scan(None, &[br#"{"choices":[{"delta":{"reasoning":"a"}}]}"#]);
    let mut shown = LlmStream::default();
    shown.add(0, &reasoning);
    shown.add(104 * MS, &text(""));
    shown.add(105 * MS, &usage(counts));
    assert_eq!(shown.time_per_token(), per_token(1e6, TokenSource::Usage));
}

#[test]
fn too_few_tokens_have_no_time_per_token() {
    assert_eq!(stream(0, &[]).time_per_token(), None);
    assert_eq!(stream(1, &[]).time_per_token(), None);
    // All tokens in one event: it has no duration.
    assert_eq!(
        stream(1, &[usage("\"completion_tokens\":9")]).time_per_token(),
        None
    );
    // One token in two events.
    assert_eq!(
        stream(2, &[usage("\"completion_tokens\":1")]).time_per_token(),
        None
    );
    assert_eq!(
        stream(2, &[]).time_per_token(),
        per_token(10e6, TokenSource::Events)
    );
}

#[test]
fn events_of_one_read_share_their_time() {
    let mut stream = LlmStream::default();
    for _ in 0..3 {
        stream.add(7 * MS, &text(""));
    }
    assert_eq!(stream.first_token_ns, stream.last_token_ns);
    assert_eq!(stream.time_per_token(), per_token(0.0, TokenSource::Events));
}
