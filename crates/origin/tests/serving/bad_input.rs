//! Hostile and broken input: answered with a reason, closed, and nobody else is harmed.

use std::io::Write;

use origin::Options;

use crate::client::{Client, on_each_backend, request};

fn is_refused(input: &[u8], status: &str) {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        // The server may have closed before all is written.
        let _ = client.stream.write_all(input);
        let response = client.response();
        assert_eq!(response.status(), status);
        assert_eq!(response.header("connection"), Some("close"));
        assert!(!response.body.is_empty());
        assert_eq!(Client::get(&server, "/").status(), "200");
        let counts = server.stop().counts;
        assert_eq!((counts.refused, counts.requests), (1, 1));
    });
}

#[test]
fn garbage_is_refused() {
    is_refused(b"\x16\x03\x01\x02\x00\x01\x00", "400");
    is_refused(b"nonsense\r\n\r\n", "400");
    is_refused(b"GET / HTTP/1.1\r\nno colon\r\n\r\n", "400");
}

#[test]
fn versions_that_are_not_spoken_are_refused() {
    is_refused(b"GET / HTTP/2.0\r\n\r\n", "505");
}

#[test]
fn a_huge_head_is_refused() {
    let mut head = b"GET / HTTP/1.1\r\nX: ".to_vec();
    head.resize(70_000, b'a');
    is_refused(&head, "431");
    let many = "A: b\r\n".repeat(200);
    is_refused(format!("GET / HTTP/1.1\r\n{many}\r\n").as_bytes(), "431");
}

#[test]
fn framing_that_can_be_read_in_two_ways_is_refused() {
    let both = "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n";
    is_refused(both.as_bytes(), "400");
    is_refused(
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        "400",
    );
}

#[test]
fn responses_before_the_bad_request_are_given() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        client.send(&(request("/?delay=5ms&size=1").repeat(2) + "\0\r\n\r\n"));
        let statuses = [(); 3].map(|()| client.response().status().to_owned());
        assert_eq!(statuses, ["200", "200", "400"]);
        assert!(client.is_at_end());
    });
}

#[test]
fn connections_that_end_within_a_request_are_let_go() {
    on_each_backend(&Options::default(), |server| {
        for part in [
            "",
            "GET",
            "POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc",
        ] {
            let mut client = Client::connect(&server);
            client.send(part);
            client.stream.shutdown(std::net::Shutdown::Write).unwrap();
            assert!(client.is_at_end(), "{part}");
        }
        assert_eq!(server.stop().counts.requests, 0);
    });
}
