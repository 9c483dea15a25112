//! The log and the counters say what a client saw.

use origin::Options;

use crate::client::{Client, on_each_backend, request};

#[test]
fn the_log_has_every_request_with_its_connection_status_and_bytes() {
    let options = Options {
        log_requests: 100,
        ..Options::default()
    };
    on_each_backend(&options, |server| {
        let mut seen = Vec::new();
        for connection in 0..3_u64 {
            let mut client = Client::connect(&server);
            // Twice the same: the second goes by the short way.
            for target in [
                "/",
                "/",
                "/?status=404&size=1k",
                "/?chunked&size=10&delay=1ms",
            ] {
                client.ask(target);
                let response = client.response();
                let status: u16 = response.status().parse().unwrap();
                seen.push((connection, status, response.bytes as u64));
            }
        }
        let report = server.stop();
        let logged: Vec<_> = report
            .requests
            .iter()
            .map(|request| (request.connection, request.status, request.bytes))
            .collect();
        assert_eq!(logged, seen);
        let all: u64 = seen.iter().map(|(_, _, bytes)| bytes).sum();
        assert_eq!(report.counts.bytes_out, all);
        assert_eq!((report.counts.requests, report.counts.responses), (12, 12));
        assert_eq!(report.counts.connections, 3);
        for pair in report.requests.windows(2) {
            assert!(pair[0].departure_ns.unwrap() <= pair[1].arrival_ns);
        }
        assert!(
            report
                .requests
                .iter()
                .all(|one| one.departure_ns.unwrap() >= one.arrival_ns)
        );
        assert_eq!(report.failure, None);
    });
}

#[test]
fn a_pipelined_batch_is_logged_request_by_request() {
    let options = Options {
        log_requests: 100,
        ..Options::default()
    };
    on_each_backend(&options, |server| {
        let mut client = Client::connect(&server);
        for depth in [1, 20, 20] {
            client.send(&request("/").repeat(depth));
            (0..depth).for_each(|_| assert_eq!(client.response().status(), "200"));
        }
        let report = server.stop();
        assert_eq!(report.requests.len(), 41);
        let bytes: u64 = report.requests.iter().map(|request| request.bytes).sum();
        assert_eq!(report.counts.bytes_out, bytes);
        assert_eq!(report.counts.bytes_in, 41 * request("/").len() as u64);
    });
}

#[test]
fn what_is_not_answered_has_no_departure() {
    let options = Options {
        log_requests: 100,
        ..Options::default()
    };
    on_each_backend(&options, |server| {
        let mut client = Client::connect(&server);
        client.ask("/?fault=hang");
        assert_eq!(Client::get(&server, "/").status(), "200");
        let report = server.stop();
        let answered: Vec<_> = report
            .requests
            .iter()
            .map(|request| request.departure_ns.is_some())
            .collect();
        assert_eq!(answered, [false, true]);
        assert_eq!((report.counts.requests, report.counts.responses), (2, 1));
    });
}

#[test]
fn faults_count_as_requests_and_not_as_responses() {
    on_each_backend(&Options::default(), |server| {
        for fault in ["reset", "truncate", "fin-before"] {
            let _ = Client::raw(&server, &format!("/?fault={fault}"));
        }
        let counts = server.stop().counts;
        assert_eq!((counts.requests, counts.responses), (3, 0));
    });
}

#[test]
fn the_first_requests_are_kept_byte_for_byte() {
    let options = Options {
        record_requests: 3,
        ..Options::default()
    };
    on_each_backend(&options, |server| {
        let mut client = Client::connect(&server);
        let post = "POST /a HTTP/1.1\r\nX-One:  two \r\nContent-Length: 3\r\n\r\nabc";
        for text in [&request("/"), post, &request("/"), &request("/not-kept")] {
            let (start, rest) = text.split_at(9);
            client.send(start);
            client.send(rest);
            client.response();
        }
        let recorded: Vec<_> = server
            .stop()
            .recorded
            .into_iter()
            .map(|it| String::from_utf8(it).unwrap())
            .collect();
        assert_eq!(recorded, [request("/"), post.to_owned(), request("/")]);
    });
}

#[test]
fn the_counters_can_be_read_while_the_server_runs() {
    on_each_backend(&Options::default(), |server| {
        let response = Client::get(&server, "/");
        let counts = server.counts();
        assert_eq!((counts.connections, counts.requests), (1, 1));
        assert_eq!(counts.bytes_out, response.bytes as u64);
    });
}
