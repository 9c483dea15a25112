//! What the latency consists of, with times that the simulated server dictates.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{GET, MS, Run, S, Simulation};
use results::{BreakdownRange, BreakdownRecording, TraceId};
use std::sync::{Arc, Mutex};

/// A response whose server says that it took this long, in milliseconds.
fn timed(text: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nServer-Timing: {text}\r\nContent-Length: 2\r\n\r\nok").into_bytes()
}

fn with_server_timing() -> Simulation {
    let mut simulation = Simulation::new();
    simulation.settings.plan.tracing.server_timing = true;
    simulation
}

fn with_traces(one_in: u32) -> Simulation {
    let mut simulation = Simulation::new();
    simulation.settings.plan.tracing.traceparent_one_in = Some(one_in);
    simulation
}

fn breakdown(run: &Run) -> &BreakdownRecording {
    run.recording
        .parts
        .breakdown
        .as_ref()
        .expect("it was asked for")
}

fn all(run: &Run) -> BreakdownRange {
    let all = breakdown(run).slowest(1.0, 0);
    all.expect("there were requests")
}

#[test]
fn a_run_that_does_not_ask_for_it_has_none() {
    let run = Simulation::new().run(HttpPeer::new(|_| Reply::after(MS, timed("total;dur=1"))));
    assert_eq!(run.recording.parts.breakdown, None);
}

#[test]
fn the_server_is_told_from_what_is_before_it_and_from_the_body() {
    let peer = HttpPeer::new(|_| {
        let mut head = timed("db;dur=4, total;dur=6.5");
        let last = head.pop().expect("it has a body");
        Reply::after(10 * MS, head).then(3 * MS, [last])
    });
    let run = with_server_timing().latency(MS).run(peer);
    let all = all(&run);
    let count = run.answered();
    assert!(count > 60, "{count}");
    assert_eq!(
        (all.requests, breakdown(&run).with_server_timing),
        (count, count)
    );
    // A round trip of 2 ms, and 3.5 ms of which the server does not speak.
    let per_request = [
        all.server_ns,
        all.before_server_ns,
        all.last_byte_ns,
        all.first_byte_ns,
    ];
    assert_eq!(
        per_request.map(|it| it / count),
        [6_500_000, 5_500_000, 3 * MS, 0]
    );
    assert_eq!(all.server_timing_ns, [4 * MS * count, 6_500_000 * count]);
    let names: Vec<&str> = breakdown(&run)
        .server_timing
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(names, ["db", "total"]);
}

#[test]
fn responses_without_the_header_or_with_a_broken_one_are_not_split() {
    let peer = HttpPeer::new(|request| match request.number % 2 {
        0 => Reply::after(MS, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
        _ => Reply::after(MS, timed("total;dur=fast")),
    });
    let run = with_server_timing().run(peer);
    let all = all(&run);
    assert_eq!((all.first_byte_ns, all.server_ns), (run.answered() * MS, 0));
    assert_eq!(breakdown(&run).with_server_timing, 0);
}

#[test]
fn a_trailer_tells_the_time_of_the_server_too() {
    let reply = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                  2\r\nok\r\n0\r\nServer-Timing: total;dur=1.5\r\n\r\n";
    let run = with_server_timing().run(HttpPeer::new(|_| Reply::after(2 * MS, reply.to_vec())));
    assert_eq!(all(&run).server_ns, run.answered() * 1_500_000);
}

#[test]
fn a_request_without_a_free_connection_has_waited_for_one() {
    let peer = HttpPeer::new(|request| match request.number {
        5 => Reply::after(100 * MS, timed("total;dur=100")),
        _ => Reply::after(0, timed("total;dur=0")),
    });
    let run = with_server_timing().rate(100.0).run(peer);
    let slowest = breakdown(&run).slowest[0];
    assert_eq!((slowest.waited_ns, slowest.first_byte_ns), (0, 100 * MS));
    // The next one was due 10 ms later and was sent when the connection was free again.
    let next = breakdown(&run).slowest[1];
    assert_eq!((next.waited_ns, next.first_byte_ns), (90 * MS, 0));
    let all = all(&run);
    // 90 + 80 + ... + 10 ms of waiting for the connection, and nothing else beside the server.
    assert_eq!((all.queued_ns, all.server_ns), (450 * MS, 100 * MS));
    assert_eq!(
        (all.own_ns, all.connecting_ns, all.before_server_ns),
        (0, 0, 0)
    );
}

#[test]
fn the_time_in_which_a_connection_is_opened_is_named() {
    let peer = HttpPeer::new(|_| {
        let last = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        Reply::after(0, last).then_close(0)
    });
    // Each connection takes a round trip of 20 ms, and so does each request.
    let run = with_server_timing().latency(10 * MS).rate(20.0).run(peer);
    let all = all(&run);
    assert!(run.answered() > 10, "{}", run.answered());
    assert!(all.connecting_ns > 0, "{all:?}");
    assert_eq!((all.own_ns, all.queued_ns), (0, 0), "{all:?}");
}

#[test]
fn requests_that_time_out_are_among_the_slowest() {
    let peer = HttpPeer::new(|request| match request.number % 5 {
        4 => Reply::silence(),
        _ => Reply::after(MS, timed("total;dur=1")),
    });
    let run = with_server_timing().timeout(50 * MS).run(peer);
    let slow = breakdown(&run)
        .slowest(0.1, 0)
        .expect("there were requests");
    assert_eq!(
        (slow.requests, slow.unanswered, slow.unanswered_ns),
        (18, 18, 18 * 50 * MS)
    );
    assert_eq!(breakdown(&run).slowest[0].status, 0);
}

#[test]
fn requests_of_the_warm_up_are_not_in_it() {
    let peer = HttpPeer::new(|request| match request.arrived_ns {
        ..S => Reply::after(50 * MS, timed("total;dur=50")),
        _ => Reply::after(MS, timed("total;dur=1")),
    });
    let run = with_server_timing().warmed_up(S).run(peer);
    let breakdown = breakdown(&run);
    assert_eq!(breakdown.requests(), run.recording.service_time.count());
    assert!(breakdown.slowest.iter().all(|it| it.latency_ns() == MS));
}

/// The traces in the requests that a server has received, with the value of each header.
fn seen(requests: &Arc<Mutex<Vec<String>>>) -> Vec<Option<String>> {
    let requests = requests.lock().expect("no panic under the lock");
    let value = |text: &String| {
        let mut lines = text.lines();
        lines.find_map(|line| Some(line.strip_prefix("traceparent: ")?.to_owned()))
    };
    requests.iter().map(value).collect()
}

fn keeping(requests: &Arc<Mutex<Vec<String>>>) -> HttpPeer {
    let requests = Arc::clone(requests);
    HttpPeer::new(move |request| {
        let text = String::from_utf8_lossy(request.bytes).into_owned();
        requests.lock().expect("no panic under the lock").push(text);
        Reply::after(
            MS + request.number,
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        )
    })
}

#[test]
fn each_request_has_a_trace_of_its_own_and_the_slowest_are_listed_with_theirs() {
    let requests = Arc::default();
    let run = with_traces(1).requests(50).run(keeping(&requests));
    let seen = seen(&requests);
    let ids: Vec<TraceId> = seen
        .iter()
        .map(|value| {
            let value = value.as_ref().expect("each has one");
            let parts: Vec<&str> = value.split('-').collect();
            let [version, trace, parent, flags] = parts[..] else {
                panic!("{value}")
            };
            assert_eq!(
                (version, trace.len(), parent.len(), flags),
                ("00", 32, 16, "01")
            );
            assert_ne!(u64::from_str_radix(parent, 16), Ok(0));
            TraceId(u128::from_str_radix(trace, 16).expect("it is a number"))
        })
        .collect();
    assert_eq!(ids.len(), 50);
    let breakdown = breakdown(&run);
    // Each one took a nanosecond longer than the one before.
    let listed: Vec<TraceId> = breakdown
        .slowest_traced
        .iter()
        .filter_map(|request| request.trace_id)
        .collect();
    assert_eq!(listed, ids.into_iter().rev().collect::<Vec<_>>());
    assert_eq!(breakdown.traced, 50);
    let text = requests.lock().expect("no panic under the lock")[0].clone();
    assert!(
        text.starts_with("GET / HTTP/1.1\r\ntraceparent: 00-"),
        "{text}"
    );
    assert!(
        text.ends_with(std::str::from_utf8(&GET[16..]).expect("it is text")),
        "{text}"
    );
}

#[test]
fn the_traces_of_two_runs_differ() {
    let [one, other] = [(); 2].map(|()| {
        let requests = Arc::default();
        with_traces(1).requests(5).run(keeping(&requests));
        seen(&requests)
    });
    assert!(
        one.iter()
            .all(|trace| trace.is_some() && !other.contains(trace))
    );
}

#[test]
fn one_in_ten_requests_has_a_trace_and_the_others_are_as_always() {
    let requests = Arc::default();
    let run = with_traces(10).requests(2_000).run(keeping(&requests));
    let traced = seen(&requests).into_iter().flatten().count();
    // Four standard deviations around 200.
    assert!((147..=253).contains(&traced), "{traced}");
    assert_eq!(breakdown(&run).traced, traced as u64);
    let requests = requests.lock().expect("no panic under the lock");
    let plain = requests
        .iter()
        .filter(|text| text.as_bytes() == GET)
        .count();
    assert_eq!(plain, 2_000 - traced);
}

#[test]
fn a_pipeline_and_a_rate_send_traces_too() {
    for simulation in [with_traces(1).pipeline(4), with_traces(1).rate(500.0)] {
        let requests = Arc::default();
        let run = simulation.run(keeping(&requests));
        assert!(run.answered() > 400, "{}", run.answered());
        assert!(seen(&requests).iter().all(Option::is_some));
        assert!(
            breakdown(&run)
                .slowest
                .iter()
                .all(|it| it.trace_id.is_some())
        );
    }
}
