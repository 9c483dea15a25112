//! Responses that outlast the window: what is known of them if the window is drained.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{MS, OK, Run, S, Simulation, US};
use crate::tokens::{END, answer, chunk, events, good, judged, llm, prelude, simulation, text};
use plan::{EventsFormat, EventsSpec};
use results::{Counters, ErrorKind};

/// Longer than anything takes.
const LONG: u64 = 60 * S;

fn per_sec(total: u64, duration_ns: u64) -> f64 {
    total as f64 * 1e9 / duration_ns as f64
}

/// Answered in the window, answered after it, failed, in flight.
fn ends(run: &Run) -> (u64, u64, u64, u64) {
    let Counters {
        answered,
        answered_in_drain,
        in_flight,
        ..
    } = run.recording.counters;
    let failed = run.recording.errors.exchanges();
    (
        answered - answered_in_drain,
        answered_in_drain,
        failed,
        in_flight,
    )
}

/// The first token after 70 ms, and the next ones after 20 ms each. Every length from 1 to 200 is
/// about as frequent, in a mixed order.
fn of_mixed_lengths() -> HttpPeer {
    HttpPeer::new(|request| {
        let number = request.number * 37 % 100;
        answer(70 * MS, 20 * MS, 2 * number + 1 + number % 2)
    })
}

#[test]
fn lengths_and_latencies_are_those_of_all_requests_of_the_window() {
    let at_20_per_sec = || {
        simulation()
            .timeout(LONG)
            .connections(100)
            .rate(20.0)
            .lasting(5 * S)
    };
    let run = at_20_per_sec().drained(LONG).run(of_mixed_lengths());
    assert_eq!(run.sent(), 100);
    assert_eq!(llm(&run).output_per_response_mean(), Some(100.5));
    let mean_ns = run.recording.latency().mean_ns();
    assert!((mean_ns / 1e9 - 2.06).abs() < 0.001, "{mean_ns}");
    let (_, in_drain, failed, in_flight) = ends(&run);
    assert_eq!((failed, in_flight), (0, 0));
    assert!(in_drain > 20, "{in_drain}");
    // The last answer ends at 4.95 s plus its length or before.
    let drained_ns = run.drained_ns.expect("it was drained");
    assert!(drained_ns > S && drained_ns < 4_100 * MS, "{drained_ns}");
    assert_eq!(run.ended_ns, 5 * S);

    let cut_off = at_20_per_sec().run(of_mixed_lengths());
    assert_eq!(cut_off.drained_ns, None);
    let mean = llm(&cut_off).output_per_response_mean();
    assert!(mean.is_some_and(|mean| mean < 85.0), "{mean:?}");
    // What arrived in the window is the same.
    let tokens = [&run, &cut_off].map(|run| llm(run).arrived_tokens());
    assert_eq!(tokens[0], tokens[1]);
    let bytes = [&run, &cut_off].map(|run| run.recording.counters.bytes);
    assert_eq!(bytes[0], bytes[1]);
    let answered = [&run, &cut_off].map(|run| run.recording.counters.responses());
    assert_eq!(answered[0], answered[1]);
    let in_flight_ns = [&run, &cut_off].map(|run| run.recording.counters.in_flight_time_ns);
    assert_eq!(in_flight_ns[0], in_flight_ns[1]);
    assert_eq!(run.recording.series, cut_off.recording.series);
    assert_eq!(run.recording.intervals, cut_off.recording.intervals);
}

#[test]
fn tokens_count_when_they_arrive_even_if_no_response_ends_in_the_window() {
    // The first token after 90 ms: 331 of each connection in 10 s.
    let server = || HttpPeer::new(|_| answer(90 * MS, 30 * MS, 400));
    let run = || {
        let run = simulation().timeout(LONG).connections(8);
        run.lasting(10 * S)
    };
    for (run, answered) in [
        (run().drained(LONG).run(server()), 8),
        (run().run(server()), 0),
    ] {
        let tokens = llm(&run).arrived_tokens();
        assert_eq!(tokens, 8 * 331);
        assert!((per_sec(tokens, 10 * S) - 265.0).abs() < 0.5);
        assert_eq!(llm(&run).responses, answered);
        assert_eq!(ends(&run), (0, answered, 0, 8 - answered));
        assert_eq!(run.recording.counters.responses(), 0);
    }
}

#[test]
fn several_tokens_in_an_event_count_by_their_events_in_each_part() {
    // Ten events of 4 tokens, one in 100 ms: each response takes a second.
    let server = || {
        HttpPeer::new(|_| {
            let mut reply = prelude(1);
            for _ in 0..10 {
                reply = reply.then(100 * MS, text("four tokens in one"));
            }
            reply.then(0, crate::tokens::with_usage(40))
        })
    };
    // One request at a time: at the end, half of the third response is there.
    let whole = simulation().lasting(2_550 * MS).drained(S).run(server());
    assert_eq!(llm(&whole).output_tokens, 100);
    assert_eq!(llm(&whole).open_token_events, 0);
    // Without a drain it is known from the others.
    let part = simulation().lasting(2_550 * MS).run(server());
    assert_eq!(llm(&part).output_tokens, 80);
    assert_eq!(llm(&part).open_token_events, 5);
    assert_eq!(llm(&part).arrived_tokens(), 100);
    // After a warm-up, the rest of a response counts.
    let warm = simulation()
        .warmed_up(550 * MS)
        .lasting(2 * S)
        .drained(S)
        .run(server());
    assert_eq!(llm(&warm).output_tokens, 80);
    assert_eq!(llm(&warm).responses, 2);
}

#[test]
fn good_requests_per_second_are_those_that_end_in_the_window() {
    // 2 s for each answer; all are good.
    let run = |warmup_ns: u64, drain_ns: u64| {
        judged("latency<10s")
            .timeout(LONG)
            .connections(50)
            .rate(5.0)
            .warmed_up(warmup_ns)
            .lasting(5 * S)
            .drained(drain_ns)
            .run(HttpPeer::new(|_| answer(30 * MS, 20 * MS, 100)))
    };
    let warm = run(4 * S, LONG);
    assert_eq!(good(&warm).responses(), 25);
    assert_eq!((good(&warm).good, good(&warm).undecided), (25, 0));
    assert_eq!(warm.recording.counters.responses(), 25);
    // The rate does not depend on the drain, but how many are judged does.
    let cut_off = run(4 * S, 0);
    assert_eq!(good(&cut_off).responses(), 25);
    assert_eq!((good(&cut_off).good, good(&cut_off).undecided), (15, 10));
    // Without a warm-up, the answers of the first 2 s are missing from the rate.
    let cold = run(0, LONG);
    assert_eq!((good(&cold).good, good(&cold).responses()), (25, 15));
}

/// The events of 8 of 16 tokens, and the clean end of the body.
fn cut_off(reply: Reply) -> Reply {
    let reply = (1..8).fold(reply.then(10 * MS, text("a")), |reply, _| {
        reply.then(10 * MS, text(" b"))
    });
    reply.then(0, END)
}

#[test]
fn a_model_s_response_without_any_sign_of_its_end_is_cut_off_and_not_good() {
    for (whole, server) in [
        (0, HttpPeer::new(|_| cut_off(prelude(1)))),
        (
            5,
            HttpPeer::new(|request| match request.number % 2 {
                0 => cut_off(prelude(1)),
                _ => answer(10 * MS, 10 * MS, 16),
            }),
        ),
        // An announcement with a count, as Anthropic's, is no end.
        (
            0,
            HttpPeer::new(|_| {
                let counts = r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1}}"#;
                cut_off(prelude(1).then(0, chunk(counts)))
            }),
        ),
        // Counts after the last token are an end.
        (
            10,
            HttpPeer::new(|_| {
                let counts = r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#;
                let reply = prelude(1).then(MS, text("a")).then(MS, text("b"));
                reply.then(0, format!("{}{END}", chunk(counts)))
            }),
        ),
    ] {
        let run = judged("latency<10s").requests(10).run(server);
        let events = events(&run);
        assert_eq!((events.streams, events.cut_off()), (10, 10 - whole));
        let good = run.recording.good_requests().expect("they are judged");
        assert_eq!((good.good, good.bad), (whole, 10 - whole));
        assert_eq!(good.responses(), whole);
    }
}

#[test]
fn a_stream_without_the_usual_end_marker_is_not_good_if_another_one_has_it() {
    let stream = |end: &str| {
        let event = chunk("x");
        Reply::after(
            MS,
            format!("{}{event}{event}{end}{END}", crate::tokens::HEAD),
        )
    };
    let run = |with_marker: fn(u64) -> bool| {
        let mut simulation = judged("latency<10s").requests(10);
        simulation.settings.plan.events = Some(EventsSpec {
            format: EventsFormat::Sse,
            end_marker: None,
            dialect: None,
        });
        let run = simulation.run(HttpPeer::new(move |request| {
            if with_marker(request.number) {
                stream(&chunk("[DONE]"))
            } else {
                stream("")
            }
        }));
        let good = run.recording.good_requests().expect("they are judged");
        (good.good, good.bad, good.responses())
    };
    // The server does not use it.
    assert_eq!(run(|_| false), (10, 0, 10));
    assert_eq!(run(|_| true), (10, 0, 10));
    // Known only after most have been judged.
    assert_eq!(run(|number| number == 9), (1, 9, 1));
    assert_eq!(run(|number| number == 0), (1, 9, 1));
}

#[test]
fn responses_of_a_slow_server_are_all_known_at_any_number_of_connections() {
    for connections in [1, 30, 200, 1_000] {
        for threads in [1, 2] {
            if threads > connections {
                continue;
            }
            let run = Simulation::new()
                .connections(connections)
                .threads(threads)
                .timeout(10 * S)
                .drained(10 * S)
                .run(HttpPeer::new(|request| {
                    Reply::after(1_500 * MS + request.number * US, OK)
                }));
            let all = u64::from(connections);
            assert_eq!(ends(&run), (0, all, 0, 0), "{connections} {threads}");
            let counters = &run.recording.counters;
            assert_eq!((counters.responses(), counters.bytes), (0, 0));
            let (least_ns, most_ns) = run.service_ns();
            assert!(least_ns >= Some(1_500 * MS) && most_ns <= Some(1_502 * MS));
            // The last of them is awaited, and nothing else.
            let drained_ns = run.drained_ns.expect("it was drained");
            assert!((500 * MS..1_600 * MS).contains(&drained_ns), "{drained_ns}");
            assert_eq!(run.served.len() as u64, all);
        }
    }
}

#[test]
fn what_is_open_at_the_end_of_the_drain_is_a_lower_bound() {
    let run = Simulation::new()
        .connections(4)
        .rate(4.0)
        .timeout(20 * S)
        .drained(2 * S)
        .run(HttpPeer::new(|request| match request.number {
            0 | 1 => Reply::after(1_500 * MS, OK),
            _ => Reply::silence(),
        }));
    assert_eq!(ends(&run), (0, 2, 0, 2));
    assert_eq!(run.drained_ns, Some(2 * S));
    // Due at 500 and 750 ms.
    assert_eq!(run.recording.unanswered.min_ns(), Some(2_250 * MS));
    assert_eq!(
        run.recording.counters.oldest_in_flight_ns,
        run.recording.unanswered.max_ns().expect("two are open")
    );
}

#[test]
fn timeouts_fire_in_the_drain() {
    let run = Simulation::new()
        .connections(30)
        .timeout(2 * S)
        .drained(10 * S)
        .run(HttpPeer::new(|_| Reply::silence()));
    assert_eq!(ends(&run), (0, 0, 30, 0));
    run.assert_only_errors(&[ErrorKind::Timeout]);
    assert_eq!(run.drained_ns, Some(S));
    assert_eq!(run.recording.timed_out.min_ns(), Some(2 * S));
    // Nothing was opened in their place.
    assert_eq!(run.recording.counters.connections_opened, 30);
    assert_eq!(run.served.len(), 30);
}

#[test]
fn connections_that_end_in_the_drain_end_their_requests_and_are_not_replaced() {
    let run = Simulation::new()
        .connections(30)
        .timeout(10 * S)
        .drained(10 * S)
        .run(HttpPeer::new(|request| match request.number % 3 {
            0 => Reply::after(1_500 * MS, OK).then_close(0),
            1 => Reply::after(1_500 * MS, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
                .then_reset(0),
            _ => Reply::after(1_600 * MS, OK),
        }));
    assert_eq!(ends(&run), (0, 20, 10, 0));
    let counters = &run.recording.counters;
    assert_eq!((counters.connections_opened, counters.reconnects), (30, 0));
    assert_eq!(run.drained_ns, Some(600 * MS));
    assert_eq!(
        run.recording
            .series
            .rows()
            .iter()
            .map(|row| row.errors)
            .sum::<u64>(),
        0
    );
}

#[test]
fn requests_that_could_not_be_sent_in_the_window_are_not_sent_in_the_drain() {
    // One connection and 2 requests/s, each of which takes 2 s.
    let run = Simulation::new()
        .rate(2.0)
        .lasting(3 * S)
        .timeout(10 * S)
        .drained(10 * S)
        .run(HttpPeer::new(|_| Reply::after(2 * S, OK)));
    assert_eq!(ends(&run), (1, 1, 0, 0));
    let counters = &run.recording.counters;
    assert_eq!((counters.due, counters.unsent), (6, 4));
    // Due at 1, 1.5, 2 and 2.5 s, and given up at 3 s.
    assert_eq!(run.recording.unanswered.max_ns(), Some(2 * S));
    assert_eq!(run.recording.unanswered.min_ns(), Some(500 * MS));
}

#[test]
fn only_requests_of_the_window_are_awaited() {
    // That of the warm-up would take until 20 s.
    let run = Simulation::new()
        .connections(2)
        .warmed_up(S)
        .timeout(60 * S)
        .drained(60 * S)
        .run(HttpPeer::new(|request| match request.number {
            0 => Reply::after(20 * S, OK),
            _ => Reply::after(700 * MS, OK),
        }));
    let counters = &run.recording.counters;
    assert_eq!(ends(&run), (0, 1, 0, 0));
    assert_eq!(counters.answered_of_warmup, 1);
    assert_eq!(run.drained_ns, Some(100 * MS));
}

#[test]
fn a_window_without_open_requests_and_a_number_of_requests_need_no_drain() {
    let fast = || HttpPeer::new(|_| Reply::after(MS, OK));
    let run = Simulation::new().rate(10.0).drained(10 * S).run(fast());
    assert_eq!(ends(&run), (10, 0, 0, 0));
    assert_eq!((run.ended_ns, run.drained_ns), (S, Some(0)));
    let run = Simulation::new().requests(10).drained(10 * S).run(fast());
    assert_eq!(ends(&run), (10, 0, 0, 0));
    assert_eq!(run.drained_ns, None);
}

#[test]
fn bytes_of_a_response_count_as_far_as_they_arrive_in_the_window() {
    let (head, body) = OK.split_at(OK.len() - 1);
    let run = Simulation::new()
        .drained(10 * S)
        .run(HttpPeer::new(move |_| {
            Reply::after(800 * MS, head).then(700 * MS, body)
        }));
    assert_eq!(ends(&run), (0, 1, 0, 0));
    assert_eq!(run.recording.counters.bytes, head.len() as u64);
    assert_eq!(run.recording.phases.first_byte.max_ns(), Some(800 * MS));
}

#[test]
fn first_events_of_the_drain_have_their_times_but_did_not_arrive_in_the_window() {
    let run = simulation()
        .timeout(LONG)
        .connections(30)
        .drained(LONG)
        .run(HttpPeer::new(|_| answer(1_500 * MS, 10 * MS, 5)));
    let events = events(&run);
    // The preludes arrive at once.
    assert_eq!((events.arrived, events.streams), (30, 30));
    assert_eq!(llm(&run).first_token.min_ns(), Some(1_500 * MS));
    assert_eq!(llm(&run).first_token.count(), 30);
    assert_eq!((llm(&run).arrived_tokens(), llm(&run).responses), (0, 30));
    assert!(llm(&run).token_gap.is_empty());
    assert_eq!(llm(&run).time_per_token.max_ns(), Some(10 * MS));
}

/// A run whose responses are streams of events, with the drain that the plan has by default.
fn of_streams(format: EventsFormat) -> Simulation {
    let mut simulation = simulation().connections(4).timeout(3 * S);
    simulation.settings.plan.drain = None;
    simulation.settings.plan.timeout = std::time::Duration::from_secs(3);
    simulation.settings.plan.events = Some(EventsSpec {
        format,
        end_marker: None,
        dialect: None,
    });
    simulation
}

#[test]
fn by_default_feeds_are_not_awaited_and_streams_that_end_are() {
    let feed = || Reply::after(MS, format!("{}{}", crate::tokens::HEAD, chunk("x")));
    let run = of_streams(EventsFormat::Sse).run(HttpPeer::new(move |_| feed()));
    assert_eq!((run.drained_ns, ends(&run)), (None, (0, 0, 0, 4)));
    // The first of them ends, and shows that the others may.
    let run = of_streams(EventsFormat::Sse)
        .threads(2)
        .run(HttpPeer::new(move |request| match request.number {
            0 => feed().then(MS, END),
            _ => feed().then(2 * S, END),
        }));
    assert_eq!(ends(&run), (1, 4, 0, 0));
    // A model's answers end, even if none has.
    let run = of_streams(EventsFormat::Llm).run(HttpPeer::new(|_| answer(MS, S, 3)));
    assert_eq!(ends(&run), (0, 4, 0, 0));
    // Plain responses are not awaited, as in wrk.
    let mut plain = Simulation::new();
    plain.settings.plan.drain = None;
    let run = plain.run(HttpPeer::new(|_| Reply::after(1_500 * MS, OK)));
    assert_eq!((run.drained_ns, ends(&run)), (None, (0, 0, 0, 1)));
}
