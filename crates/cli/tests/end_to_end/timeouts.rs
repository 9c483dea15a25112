//! Servers that hang, ports that do not answer.

use std::time::Duration;

use results::ErrorKind;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::harness::{load, one_line, site};

#[test]
fn a_hanging_server_costs_each_request_its_timeout_once() {
    let site = site();
    let run = load(&site).at("/?fault=hang").requests(12).timeout_ms(80);
    let run = run.run().expect_only(ErrorKind::Timeout);
    assert_eq!((run.sent(), run.failed(ErrorKind::Timeout)), (12, 12));
    assert_eq!(run.events(ErrorKind::Timeout), 12);
    // Each timeout costs the connection; the last ones are not replaced.
    assert_eq!(run.opened(), 12);
    assert_eq!(run.code, Some(1));
    let timed_out = &run.result.recording.timed_out;
    assert_eq!(timed_out.count(), 12);
    assert!(timed_out.min_ns().unwrap() >= 80_000_000, "{}", run.story());
    let line = "wrkbench: no request succeeded: no complete answer came in time (12 times)";
    assert_eq!(one_line(&run.stderr), line);
}

#[test]
fn requests_that_were_given_up_stand_in_the_latency_with_their_age() {
    let site = site();
    let run = load(&site)
        .at("/?mix=20%:hang")
        .requests(60)
        .timeout_ms(150)
        .run();
    let run = run.expect_only(ErrorKind::Timeout);
    let recording = &run.result.recording;
    assert_eq!(recording.latency().count(), 60);
    assert_eq!(recording.service_time.count(), run.answered());
    assert!(recording.latency().max_ns().unwrap() >= 150_000_000);
    assert!(run.stderr.contains("wrkbench: warning: "), "{}", run.stderr);
    let kinds: Vec<&str> = run.document["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|warning| warning["kind"].as_str())
        .collect();
    assert!(kinds.contains(&"timed_out_requests"), "{kinds:?}");
}

#[test]
fn an_answer_that_drips_slower_than_the_timeout_is_given_up() {
    let site = site();
    let run = load(&site).at("/?fault=drip:40ms&size=20").requests(4);
    let run = run.timeout_ms(200).run().expect_only(ErrorKind::Timeout);
    assert_eq!(run.failed(ErrorKind::Timeout), 4);
    // What came is counted.
    assert!(run.result.recording.counters.bytes > 0);
}

#[test]
fn requests_that_are_neither_answered_nor_late_at_the_end_are_in_flight() {
    let site = site();
    let run = load(&site).at("/?fault=hang").connections(7).for_ms(200);
    let run = run.timeout_ms(60_000).run();
    let counters = &run.result.recording.counters;
    assert_eq!(
        (counters.sent, counters.in_flight),
        (7, 7),
        "{}",
        run.story()
    );
    assert!(counters.oldest_in_flight_ns > 0 && counters.oldest_in_flight_ns <= 200_000_000);
    assert_eq!(run.kinds(), []);
    assert_eq!(run.code, Some(1));
    one_line(&run.stderr);
}

#[test]
fn a_slow_answer_below_the_timeout_is_an_answer() {
    let site = site();
    let run = load(&site)
        .at("/?delay=100ms")
        .requests(8)
        .timeout_ms(20_000);
    run.run().expect_answers(8);
}

/// A listener whose queue is full: the kernel drops what wants to connect (listen(2)).
struct FullPort {
    _listener: Socket,
    _waiting: Vec<Socket>,
    url: String,
}

impl FullPort {
    fn new() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
        listener.bind(&any.into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        // A backlog of 0 takes one connection; what comes after it stays without an answer.
        let waiting = (0..4).map(|_| connecting(&address)).collect();
        Self {
            url: format!("http://{}/", address.as_socket().unwrap()),
            _listener: listener,
            _waiting: waiting,
        }
    }
}

fn connecting(address: &SockAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_nonblocking(true).unwrap();
    // Under way (EINPROGRESS) is all that is wanted.
    let _ = socket.connect(address);
    socket
}

#[test]
fn a_port_that_does_not_take_connections_is_given_up_after_the_timeout() {
    let (site, port) = (site(), FullPort::new());
    let output = load(&site).url(&port.url).timeout_ms(300).output();
    let line = output.only_line();
    let authority = port.url.trim_start_matches("http://").trim_end_matches('/');
    let begin = format!("wrkbench: unable to connect to {authority} ");
    assert!(line.starts_with(&begin), "{line}");
    assert!(line.contains("timed out"), "{line}");
}

#[test]
fn while_the_first_connection_is_awaited_ctrl_c_ends_the_program() {
    let (site, port) = (site(), FullPort::new());
    let run = load(&site).url(&port.url).timeout_ms(3_600_000);
    let running = run.start();
    let port: u16 = port
        .url
        .rsplit(':')
        .next()
        .unwrap()
        .trim_end_matches('/')
        .parse()
        .unwrap();
    let id = running.process.id();
    crate::harness::eventually(|| {
        // Field 3 of a line is the far end in hexadecimal, field 4 the state: 02 is SYN_SENT (proc(5)).
        let table = std::fs::read_to_string(format!("/proc/{id}/net/tcp")).unwrap();
        let far = format!(":{port:04X} 02 ");
        let connecting = table.lines().filter(|line| line.contains(&far)).count();
        // Those of the test wait there too.
        if connecting > 3 {
            Ok(())
        } else {
            Err(format!("it connects\n{table}"))
        }
    });
    running.process.signal("INT");
    let output = running.process.finish();
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (None, ""),
        "{output:?}"
    );
}

#[test]
fn patience_is_not_longer_than_the_run() {
    let site = site();
    let run = load(&site)
        .at("/?fault=hang-after-head")
        .for_ms(250)
        .timeout_ms(100)
        .run();
    let run = run.expect_only(ErrorKind::Timeout);
    let duration = Duration::from_nanos(run.result.window.duration_ns);
    assert_eq!(duration, Duration::from_millis(250));
    // Two rounds fit at most.
    assert!(run.failed(ErrorKind::Timeout) <= 8, "{}", run.story());
}
