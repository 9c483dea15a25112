//! The tokens of language models: what is measured is what the server did.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{MS, Run, S, Simulation};
use plan::{EventsFormat, EventsSpec};
use results::{ErrorKind, EventRecording, GoodRecording, LlmRecording};

/// A run whose responses are a model's.
pub(crate) fn simulation() -> Simulation {
    let mut simulation = Simulation::new().timeout(10 * S);
    simulation.settings.plan.events = Some(EventsSpec {
        format: EventsFormat::Llm,
        end_marker: None,
        dialect: None,
    });
    simulation
}

pub(crate) fn judged(limits: &str) -> Simulation {
    let mut simulation = simulation();
    simulation.settings.plan.good = Some(limits.parse().expect("limits"));
    simulation
}

pub(crate) fn chunk(event: &str) -> String {
    let event = format!("data: {event}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}

pub(crate) fn text(text: &str) -> String {
    chunk(&format!(
        r#"{{"choices":[{{"delta":{{"content":"{text}"}}}}]}}"#
    ))
}

fn reasoning(text: &str) -> String {
    chunk(&format!(
        r#"{{"choices":[{{"delta":{{"reasoning_content":"{text}"}}}}]}}"#
    ))
}

pub(crate) const HEAD: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
pub(crate) const END: &str = "0\r\n\r\n";

/// The head with an empty delta, `after_ns` after the request; not at 0, when nothing can have
/// happened.
pub(crate) fn prelude(after_ns: u64) -> Reply {
    let role = chunk(r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#);
    Reply::after(after_ns, format!("{HEAD}{role}"))
}

pub(crate) fn with_usage(tokens: u64) -> String {
    let end = chunk(r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#);
    let usage =
        format!(r#"{{"choices":[],"usage":{{"prompt_tokens":7,"completion_tokens":{tokens}}}}}"#);
    format!("{end}{}{}{END}", chunk(&usage), chunk("[DONE]"))
}

/// A prelude at once, the first token `first_ns` later, and the others after `gap_ns` each.
pub(crate) fn answer(first_ns: u64, gap_ns: u64, tokens: u64) -> Reply {
    let mut reply = prelude(1).then(first_ns - 1, text("a"));
    for _ in 1..tokens {
        reply = reply.then(gap_ns, text(" b"));
    }
    reply.then(0, with_usage(tokens))
}

pub(crate) fn llm(run: &Run) -> &LlmRecording {
    let llm = run.recording.parts.llm.as_ref();
    llm.expect("tokens are counted")
}

/// The events of a run that counts them.
pub(crate) fn events(run: &Run) -> &EventRecording {
    let events = run.recording.parts.events.as_ref();
    events.expect("events are counted")
}

pub(crate) fn good(run: &Run) -> GoodRecording {
    let good = run.recording.parts.good.expect("requests are judged");
    let counters = &run.recording.counters;
    let all = good.good + good.bad + good.undecided;
    assert_eq!(all, counters.sent + counters.unsent);
    good
}

#[test]
fn an_empty_delta_is_no_token_and_the_usage_is_none_either() {
    let run = simulation().run(HttpPeer::new(|_| answer(500 * MS, 10 * MS, 16)));
    let llm = llm(&run);
    assert_eq!(llm.responses, 1);
    assert_eq!(llm.first_token.min_ns(), Some(500 * MS));
    assert_eq!(llm.first_token, llm.first_text);
    // The next response has its prelude only.
    assert_eq!(
        (llm.token_gap.min_ns(), llm.token_gap.max_ns()),
        (Some(10 * MS), Some(10 * MS))
    );
    assert_eq!(llm.token_gap.count(), 15);
    assert_eq!(llm.time_per_token.max_ns(), Some(10 * MS));
    assert_eq!((llm.output_tokens, llm.input_tokens), (16, 7));
    assert_eq!(llm.output_per_response.max_ns(), Some(16));
    assert_eq!((llm.counted_as_events, llm.finish.stop), (0, 1));
    let events = events(&run);
    assert_eq!(events.first_event.max_ns(), Some(1));
    assert_eq!((events.unfinished, events.streams), (0, 1));
}

#[test]
fn the_first_token_is_in_the_second_in_which_it_arrived() {
    // Two seconds of 100 ms, then of 300 ms.
    let first_ns = |at_ns: u64| if at_ns < 2 * S { 100 * MS } else { 300 * MS };
    let peer = HttpPeer::new(move |request| answer(first_ns(request.arrived_ns), MS, 1));
    let run = simulation().lasting(4 * S).run(peer);
    let over_time = &llm(&run).first_token_over_time;
    let ranges: Vec<(u64, u64)> = over_time
        .rows()
        .iter()
        .map(|row| (row.min_ns / MS, row.max_ns / MS))
        .collect();
    assert_eq!(ranges, [(100, 100), (100, 100), (300, 300), (300, 300)]);
    let samples = over_time.rows().iter().flat_map(|row| &row.samples);
    let count: u64 = samples.map(|(_, count)| count).sum();
    assert_eq!(count, llm(&run).first_token.count());
}

#[test]
fn several_tokens_in_an_event_are_counted_by_the_server() {
    let run = simulation().run(HttpPeer::new(|_| {
        let reply = prelude(1).then(100 * MS - 1, text("four tokens in one"));
        let reply = reply.then(40 * MS, text("four more"));
        reply.then(0, with_usage(9))
    }));
    let llm = llm(&run);
    assert_eq!(llm.token_gap.max_ns(), Some(40 * MS));
    // 40 ms for the 8 tokens behind the first one.
    assert_eq!(llm.time_per_token.max_ns(), Some(5 * MS));
    assert_eq!(llm.output_per_response.max_ns(), Some(9));
    assert_eq!(llm.output_tokens, 9 * llm.responses);
}

#[test]
fn without_a_count_of_the_server_events_are_counted_and_the_result_says_so() {
    let run = simulation().run(HttpPeer::new(|_| {
        let reply = prelude(1)
            .then(100 * MS - 1, text("a"))
            .then(50 * MS, text("b"));
        reply.then(0, format!("{}{END}", chunk("[DONE]")))
    }));
    let llm = llm(&run);
    assert_eq!(llm.output_tokens, 2 * llm.responses);
    assert_eq!(llm.counted_as_events, llm.responses);
    assert_eq!((llm.finish.none, llm.input_tokens), (llm.responses, 0));
    assert!(llm.input_per_response.is_empty());
}

#[test]
fn reasoning_is_a_token_and_not_the_first_text() {
    let run = simulation().run(HttpPeer::new(|_| {
        let reply = prelude(1).then(100 * MS - 1, reasoning("hm"));
        let reply = reply.then(300 * MS, text("yes"));
        reply.then(0, with_usage(2))
    }));
    let llm = llm(&run);
    assert_eq!(llm.first_token.max_ns(), Some(100 * MS));
    assert_eq!(llm.first_text.min_ns(), Some(400 * MS));
    assert_eq!(llm.token_gap.max_ns(), Some(300 * MS));
}

#[test]
fn tokens_that_arrive_together_have_gaps_of_0_and_no_time_between_them() {
    let run = simulation().run(HttpPeer::new(|_| {
        let all = [text("a"), text("b"), text("c"), with_usage(3)].concat();
        prelude(1).then(100 * MS - 1, all)
    }));
    let llm = llm(&run);
    assert_eq!(
        (llm.token_gap.max_ns(), llm.token_gap.count()),
        (Some(0), 2 * llm.responses)
    );
    assert_eq!(llm.time_per_token.max_ns(), Some(0));
}

#[test]
fn an_error_in_the_stream_is_a_failed_request_and_the_connection_goes_on() {
    let run = simulation().run(HttpPeer::new(|request| match request.number % 2 {
        0 => answer(100 * MS, 10 * MS, 3),
        _ => {
            let error = chunk(r#"{"error":{"message":"overloaded","code":503}}"#);
            prelude(1)
                .then(50 * MS, text("a"))
                .then(0, format!("{error}{END}"))
        }
    }));
    let llm = llm(&run);
    assert_eq!(run.errors(ErrorKind::StreamError), (llm.errors, llm.errors));
    assert!(llm.errors >= 2, "{llm:?}");
    assert_eq!(llm.responses, run.answered());
    assert_eq!(run.recording.counters.connections_opened, 1);
    assert_eq!(llm.output_tokens, 3 * llm.responses);
    // Its first token had come.
    assert!(llm.first_token.count() >= llm.responses + llm.errors);
    let events = events(&run);
    assert_eq!(
        (events.streams, events.unfinished),
        (llm.responses + llm.errors, 0)
    );
}

#[test]
fn a_stream_that_breaks_off_is_unfinished_and_one_without_tokens_is_counted() {
    let run = simulation()
        .requests(2)
        .run(HttpPeer::new(|request| match request.number {
            0 => prelude(1).then(10 * MS, format!("{}{END}", text("a"))),
            _ => prelude(1).then(10 * MS, format!("{}{END}", chunk("[DONE]"))),
        }));
    let llm = llm(&run);
    assert_eq!((llm.responses, llm.without_tokens), (2, 1));
    let events = events(&run);
    assert_eq!(events.unfinished, 1);
}

#[test]
fn a_request_that_times_out_behind_its_prelude_still_waits_for_its_first_token() {
    let run = simulation()
        .timeout(300 * MS)
        .run(HttpPeer::new(|_| prelude(1)));
    let llm = llm(&run);
    let timeouts = run.errors(ErrorKind::Timeout).1;
    assert!(timeouts >= 2);
    assert_eq!(
        (llm.waiting.count(), llm.waiting.min_ns()),
        (timeouts, Some(300 * MS))
    );
    assert!(llm.first_token.is_empty());
    let events = events(&run);
    assert!(events.waiting.is_empty());
}

/// A server that does nothing from 1 s to 3 s. The first token comes 50 ms after a request or the
/// end of the stall, and three more follow every 10 ms.
fn stalling() -> HttpPeer {
    HttpPeer::new(|request| {
        let is_stalled = (S..3 * S).contains(&request.arrived_ns);
        let hold_ns = if is_stalled {
            3 * S - request.arrived_ns
        } else {
            0
        };
        let reply = prelude(hold_ns).then(50 * MS, text("a"));
        let reply = (0..3).fold(reply, |reply, _| reply.then(10 * MS, text("b")));
        reply.then(0, with_usage(4))
    })
}

#[test]
fn the_first_token_counts_from_when_the_request_was_due_with_any_number_of_threads() {
    const RATE: u64 = 200;
    const SECONDS: u64 = 6;
    // What a client with a connection for each request sees.
    let due_ns = |number: u64| number * S / RATE;
    let mut truth: Vec<u64> = (0..RATE * SECONDS)
        .map(|number| match due_ns(number) {
            due_ns if (S..3 * S).contains(&due_ns) => 3 * S - due_ns + 50 * MS,
            _ => 50 * MS,
        })
        .collect();
    truth.sort_unstable();
    for (threads, connections) in [1, 2, 4, 8]
        .map(|threads| [(threads, 600), (threads, 16)])
        .concat()
    {
        let run = simulation()
            .threads(threads)
            .connections(connections)
            .rate(RATE as f64)
            .lasting(SECONDS * S)
            .run(stalling());
        let measured = llm(&run).first_token_with_bounds();
        assert_eq!(measured.count(), RATE * SECONDS, "{threads} threads");
        for percent in [50.0, 90.0, 99.0] {
            let rank = (percent / 100.0 * truth.len() as f64).ceil() as usize;
            let (expected, found) = (truth[rank - 1], measured.value_at_percentile(percent));
            let context = format!("{threads} threads, {connections} connections: p{percent}");
            // The resolution of a histogram.
            let slack_ns = expected / 100;
            assert!(
                found + slack_ns >= expected,
                "{context} {found} for {expected}"
            );
            // With 16 connections requests wait for each other as well.
            let is_exact = connections == 600;
            assert!(
                !is_exact || found <= expected + slack_ns,
                "{context} {found} for {expected}"
            );
        }
    }
}

#[test]
fn good_requests_are_those_that_the_server_served_in_time() {
    // Every third first token is late, every fifth response slow.
    let first_ns = |number: u64| {
        if number.is_multiple_of(3) {
            300 * MS
        } else {
            299 * MS
        }
    };
    let gap_ns = |number: u64| {
        if number.is_multiple_of(5) {
            50 * MS
        } else {
            20 * MS
        }
    };
    let run = judged("first_token<300ms, time_per_token<50ms")
        .requests(60)
        .run(HttpPeer::new(move |request| {
            answer(first_ns(request.number), gap_ns(request.number), 3)
        }));
    let is_good = |number: &u64| !number.is_multiple_of(3) && !number.is_multiple_of(5);
    let truth = (0..60).filter(is_good).count() as u64;
    let expected = GoodRecording {
        good: truth,
        bad: 60 - truth,
        ended: Some(truth),
        ..GoodRecording::default()
    };
    assert_eq!(good(&run), expected);
}

#[test]
fn failed_requests_and_bad_statuses_are_not_good() {
    let run = judged("latency<1h")
        .requests(30)
        .run(HttpPeer::new(|request| match request.number % 3 {
            0 => answer(10 * MS, MS, 2),
            1 => Reply::after(0, "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"),
            _ => {
                let error = chunk(r#"{"error":"overloaded"}"#);
                prelude(1).then(0, format!("{error}{END}"))
            }
        }));
    assert_eq!((good(&run).good, good(&run).bad), (10, 20));
}

#[test]
fn with_a_rate_requests_that_wait_too_long_are_bad_and_those_just_sent_are_undecided() {
    // One connection, which serves one response and then nothing.
    let run = judged("first_token<300ms")
        .rate(10.0)
        .timeout(20 * S)
        .lasting(2 * S)
        .run(HttpPeer::new(|request| match request.number {
            0 => answer(10 * MS, MS, 2),
            _ => Reply::silence(),
        }));
    // Due at 0, 100, ..., 1,900 ms. The first was good; those up to 1,700 ms had waited for 300 ms
    // at the end.
    let expected = GoodRecording {
        good: 1,
        bad: 17,
        undecided: 2,
        ended: Some(1),
        ..GoodRecording::default()
    };
    assert_eq!(good(&run), expected);
}

#[test]
fn a_response_that_is_in_time_so_far_is_undecided_at_the_end() {
    let run = judged("first_token<300ms, latency<5s").run(HttpPeer::new(|request| {
        match request.number {
            0 => answer(250 * MS, 250 * MS, 3),
            _ => answer(100 * MS, 250 * MS, 3),
        }
    }));
    let expected = GoodRecording {
        good: 1,
        undecided: 1,
        ended: Some(1),
        ..GoodRecording::default()
    };
    assert_eq!(good(&run), expected);
}
