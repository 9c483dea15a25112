//! The users of a language model's server: they wait if they are asked to, and a run of which all
//! are refused ends.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{MS, S, Simulation};
use crate::tokens::{END, HEAD, answer, events, llm, simulation, text};

/// An error with these further fields, a millisecond after its request.
fn refusal(status: u16, fields: &str) -> Reply {
    let head = format!("HTTP/1.1 {status} No\r\nContent-Length: 2\r\n{fields}\r\nno");
    Reply::after(MS, head)
}

/// When the requests arrive if the response to the first one is this.
fn arrivals_after(simulation: Simulation, first: Reply) -> Vec<u64> {
    let peer = HttpPeer::new(move |request| match request.number {
        0 => first.clone(),
        _ => answer(MS, MS, 1),
    });
    let run = simulation.run(peer);
    run.served.iter().map(|it| it.arrived_ns).collect()
}

#[test]
fn a_user_who_is_asked_to_wait_sends_again_after_that_time() {
    for (status, fields, expected_ns) in [
        (429, "Retry-After: 3\r\n", 3 * S),
        (503, "retry-after: 0\r\n", 0),
        (429, "", S),
        (503, "Retry-After: soon\r\n", S),
        (429, "Retry-After: 3600\r\n", 60 * S),
        (
            429,
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:49:42 GMT\r\n",
            5 * S,
        ),
        (429, "Connection: close\r\nRetry-After: 2\r\n", 2 * S),
        (500, "Retry-After: 3\r\n", 0),
    ] {
        let reply = refusal(status, fields);
        let reply = if fields.contains("close") {
            reply.then_close(0)
        } else {
            reply
        };
        // Without a time limit, a run gives up if nothing happens for 30 s.
        let arrivals = arrivals_after(simulation().requests(3), reply);
        assert_eq!(arrivals.len(), 3, "{status} {fields}");
        let pause_ns = arrivals[1] - arrivals[0] - MS;
        assert_eq!(pause_ns, expected_ns, "{status} {fields}");
    }
}

#[test]
fn pauses_are_counted_and_other_users_go_on() {
    let peer = HttpPeer::new(|request| match request.number {
        0 => refusal(429, "Retry-After: 4\r\n"),
        _ => answer(50 * MS, MS, 1),
    });
    let run = simulation().connections(2).lasting(10 * S).run(peer);
    let pauses = &llm(&run).pauses;
    assert_eq!((pauses.count(), pauses.max_ns()), (1, Some(4 * S)));
    let others = run.served.iter().filter(|it| it.connection == 1);
    assert_eq!(others.count(), 200);
    let waiting = run.served.iter().filter(|it| it.connection == 0);
    assert_eq!(waiting.count(), 1 + 120);
}

#[test]
fn a_server_that_closes_while_its_user_waits_does_not_end_the_pause() {
    let reply = refusal(429, "Retry-After: 4\r\n").then_close(S);
    let arrivals = arrivals_after(simulation().requests(2), reply);
    assert_eq!(arrivals[1] - arrivals[0], 4 * S + MS);
}

#[test]
fn with_a_rate_and_in_other_runs_nobody_waits() {
    let busy = || HttpPeer::new(|_| refusal(429, "Retry-After: 9\r\n"));
    let run = simulation().rate(10.0).lasting(2 * S).run(busy());
    assert_eq!(run.served.len(), 20);
    assert!(llm(&run).pauses.is_empty());
    let run = Simulation::new().requests(5).run(busy());
    assert_eq!(run.ended_ns, 5 * MS);
}

/// When a run ends that stops if the first responses deny, with such a response to each request
/// before this one; and whether it has given up.
fn denied_until(number: u64) -> (u64, bool) {
    let mut simulation = simulation().lasting(60 * S);
    simulation.settings.plan.stops_if_denied = true;
    let peer = HttpPeer::new(move |request| match request.number {
        before if before < number => refusal(404, ""),
        _ => answer(MS, MS, 1),
    });
    let (ended, _) = simulation.run_with(peer);
    (ended.ended_ns, ended.first_responses.has_given_up)
}

#[test]
fn a_run_ends_after_twenty_responses_that_deny_and_not_after_fewer() {
    assert_eq!(denied_until(u64::MAX), (20 * MS, true));
    assert_eq!(denied_until(19), (60 * S, false));
}

#[test]
fn a_compressed_stream_is_counted_as_such_and_not_as_cut_off() {
    let head = HEAD.replace("\r\n\r\n", "\r\nContent-Encoding: gzip\r\n\r\n");
    let peer = HttpPeer::new(move |_| {
        let reply = Reply::after(MS, head.clone());
        reply.then(MS, text("a")).then(MS, END)
    });
    let run = simulation().requests(4).run(peer);
    let events = events(&run);
    assert_eq!((events.streams, events.compressed), (4, 4));
    assert_eq!((events.arrived, events.unfinished), (0, 0));
    assert_eq!(llm(&run).without_tokens, 4);
}
