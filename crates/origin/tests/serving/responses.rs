//! Right responses: sizes, framing, persistence, order.

use origin::Options;

use crate::client::{Client, defaults, on_each_backend, request};

#[test]
fn get_is_answered_with_63_bytes_and_the_connection_stays() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        for _ in 0..10 {
            client.ask("/");
            let response = client.response();
            assert_eq!(response.status_line, "HTTP/1.1 200 OK");
            assert_eq!(response.header("server"), Some("wrkbench"));
            assert_eq!(response.body.len(), 63);
        }
        assert_eq!(server.stop().counts.connections, 1);
    });
}

#[test]
fn bodies_of_every_size_arrive_whole() {
    on_each_backend(&Options::default(), |server| {
        for bytes in [
            0, 1, 63, 4096, 65_536, 100_000, 999_999, 1_000_001, 5_000_000,
        ] {
            for framing in ["", "&chunked", "&chunked=1000", "&until-close"] {
                let response = Client::get(&server, &format!("/?size={bytes}{framing}"));
                assert_eq!(response.body.len(), bytes, "{bytes} {framing}");
                let is_text = response
                    .body
                    .iter()
                    .enumerate()
                    .all(|(at, byte)| at < 64 || *byte == response.body[at - 64]);
                assert!(is_text, "{bytes} {framing}");
            }
        }
    });
}

#[test]
fn a_long_body_that_nobody_reads_yet_waits_and_keeps_nobody_else_waiting() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        client.ask("/?size=50M");
        assert_eq!(Client::get(&server, "/").status(), "200");
        assert_eq!(client.response().body.len(), 50_000_000);
    });
}

#[test]
fn head_has_the_length_and_no_body() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        client.send("HEAD /?size=5 HTTP/1.1\r\nHost: test\r\n\r\n");
        assert_eq!(
            client.response_to_head().header("content-length"),
            Some("5")
        );
        client.ask("/");
        assert_eq!(client.response().body.len(), 63);
    });
}

#[test]
fn statuses_and_header_fields_are_given_as_asked() {
    on_each_backend(&Options::default(), |server| {
        let response = Client::get(&server, "/x/status=404?header=X-A:1&header=X-B:two%20words");
        assert_eq!(response.status_line, "HTTP/1.1 404 Not Found");
        assert_eq!(response.header("x-a"), Some("1"));
        assert_eq!(response.header("x-b"), Some("two words"));
        assert_eq!(Client::get(&server, "/?status=204").body, b"");
        assert_eq!(Client::get(&server, "/?status=304").body, b"");
    });
}

#[test]
fn trailers_follow_a_chunked_body() {
    on_each_backend(&Options::default(), |server| {
        let (text, _) = Client::raw(&server, "/?chunked&trailers&size=3&close");
        assert!(text.ends_with("\r\n3\r\nabc\r\n0\r\nX-Trailer: 1\r\nX-Checksum: none\r\n\r\n"));
    });
}

#[test]
fn request_bodies_are_read_and_the_next_request_is_found() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        let body = "x".repeat(300_000);
        client.send(&format!(
            "POST /a HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert_eq!(client.response().status(), "200");
        client.send("PUT /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwiki\r\n0\r\n\r\n");
        assert_eq!(client.response().status(), "200");
        client.send("DELETE /c HTTP/1.1\r\n\r\n");
        assert_eq!(client.response().status(), "200");
        assert_eq!(server.stop().counts.requests, 3);
    });
}

#[test]
fn echo_gives_the_body_back_in_both_framings() {
    on_each_backend(&Options::default(), |server| {
        for (target, body) in [
            ("/?echo", "hello"),
            ("/?echo&chunked=2b", "hello"),
            ("/?echo", ""),
        ] {
            let mut client = Client::connect(&server);
            client.send(&format!(
                "POST {target} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ));
            assert_eq!(client.response().body, body.as_bytes());
        }
    });
}

#[test]
fn a_body_too_large_to_echo_is_refused() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        let bytes = 16 * 1024 * 1024 + 1;
        client.send(&format!(
            "POST /?echo HTTP/1.1\r\nContent-Length: {bytes}\r\n\r\n"
        ));
        client.send(&"x".repeat(bytes));
        assert_eq!(client.response().status(), "413");
        assert!(client.is_at_end());
    });
}

#[test]
fn a_client_that_expects_100_continue_gets_it_before_the_response() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        client.send("POST /?echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
        assert_eq!(client.response().status(), "100");
        client.send("ab");
        assert_eq!(client.response().body, b"ab");
    });
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        let sizes: Vec<usize> = (0..500).map(|n| n % 7).collect();
        let batch: String = sizes
            .iter()
            .map(|size| request(&format!("/?size={size}")))
            .collect();
        client.send(&batch);
        for size in sizes {
            assert_eq!(client.response().body.len(), size);
        }
    });
}

#[test]
fn the_same_request_pipelined_many_times_is_answered_as_often() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        client.ask("/");
        client.response();
        for depth in [1, 2, 16, 200] {
            client.send(&request("/").repeat(depth));
            for _ in 0..depth {
                assert_eq!(client.response().body.len(), 63);
            }
        }
        assert_eq!(server.stop().counts.responses, 220);
    });
}

#[test]
fn a_client_that_never_reads_its_responses_is_served_when_it_does() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        client.ask("/?size=60k");
        client.response();
        // Responses of 6 MB, more than the kernel holds.
        for _ in 0..100 {
            client.send(&request("/?size=60k"));
        }
        for _ in 0..100 {
            assert_eq!(client.response().body.len(), 60_000);
        }
    });
}

#[test]
fn requests_cut_anywhere_are_put_together() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        let text = request("/?size=4");
        for cut in 1..text.len() {
            client.send(&text[..cut]);
            client.send(&text[cut..]);
            assert_eq!(client.response().body, b"abcd", "cut at {cut}");
        }
    });
}

#[test]
fn the_connection_ends_when_the_client_says_so() {
    on_each_backend(&Options::default(), |server| {
        for head in [
            "GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
        ] {
            let mut client = Client::connect(&server);
            client.send(head);
            assert_eq!(client.response().header("connection"), Some("close"));
            assert!(client.is_at_end());
        }
        let mut client = Client::connect(&server);
        client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(client.response().header("connection"), Some("keep-alive"));
        client.ask("/");
        assert_eq!(client.response().status(), "200");
    });
}

#[test]
fn a_client_that_has_sent_its_end_still_gets_its_responses() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        client.send(&request("/?delay=20ms").repeat(3));
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        for _ in 0..3 {
            assert_eq!(client.response().status(), "200");
        }
        assert!(client.is_at_end());
    });
}

#[test]
fn closes_are_announced_silent_or_by_version() {
    on_each_backend(&Options::default(), |server| {
        for (option, version, field) in [
            ("close", "HTTP/1.1", Some("close")),
            ("close=silent", "HTTP/1.1", None),
            ("http10", "HTTP/1.0", None),
        ] {
            let mut client = Client::connect(&server);
            client.ask(&format!("/?{option}"));
            let response = client.response();
            assert!(response.status_line.starts_with(version), "{option}");
            assert_eq!(response.header("connection"), field, "{option}");
            assert!(client.is_at_end(), "{option}");
        }
        let mut client = Client::connect(&server);
        for _ in 0..2 {
            client.ask("/?http10=keep-alive");
            assert_eq!(client.response().status_line, "HTTP/1.0 200 OK");
        }
    });
}

#[test]
fn the_defaults_of_the_server_hold_until_a_request_says_otherwise() {
    on_each_backend(&defaults("size=7&status=503"), |server| {
        let response = Client::get(&server, "/");
        assert_eq!((response.status(), response.body.len()), ("503", 7));
        assert_eq!(Client::get(&server, "/?status=200").status(), "200");
    });
}

#[test]
fn the_last_request_a_connection_may_carry_announces_the_close() {
    let options = Options {
        keepalive_requests: Some(3),
        ..Options::default()
    };
    on_each_backend(&options, |server| {
        let mut client = Client::connect(&server);
        for last in [false, false, true] {
            client.ask("/");
            let is_last = client.response().header("connection") == Some("close");
            assert_eq!(is_last, last);
        }
        assert!(client.is_at_end());
    });
}

#[test]
fn interim_responses_come_before_the_response() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        client.ask("/?interim=2&size=1");
        let statuses = [(); 3].map(|()| client.response().status().to_owned());
        assert_eq!(statuses, ["103", "103", "200"]);
    });
}

#[test]
fn wrong_options_are_answered_with_a_reason() {
    on_each_backend(&Options::default(), |server| {
        let response = Client::get(&server, "/?size=many");
        assert_eq!(response.status(), "400");
        let reason = String::from_utf8(response.body).unwrap();
        assert!(reason.starts_with("size: `many` is not a size"), "{reason}");
    });
}

#[test]
fn the_counters_can_be_asked_for() {
    on_each_backend(&defaults("delay=1h"), |server| {
        let response = Client::get(&server, "/__stats");
        assert_eq!(response.header("content-type"), Some("application/json"));
        let json = String::from_utf8(response.body).unwrap();
        assert!(json.contains("\"connections\":1,\"requests\":0,"), "{json}");
    });
}
