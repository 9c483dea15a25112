//! Responses that are cut, endless, slow, or too large.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::status;
use testkit::TestServer;

use crate::{GET, LONG, answering, client_of, client_of_plan, expect_one_line, url};

/// Each with what follows its final head, and its body.
const RESPONSES: [(&str, &str, &str); 5] = [
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "hello",
        "hello",
    ),
    (
        "HTTP/1.1 404 No\r\nContent-Length: 0\r\nX-Y: z\r\n\r\n",
        "",
        "",
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nhel\r\n2;a=b\r\nlo\r\n0\r\nT: x\r\n\r\n",
        "3\r\nhel\r\n2;a=b\r\nlo\r\n0\r\nT: x\r\n\r\n",
        "hello",
    ),
    (
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Made\r\nContent-Length: 2\r\n\r\nok",
        "ok",
        "ok",
    ),
    ("HTTP/1.1 204 No Content\r\n\r\n", "", ""),
];

#[test]
fn a_response_that_is_cut_at_any_byte_is_an_error_and_a_whole_one_is_none() {
    for (response, after_head, body) in RESPONSES {
        let cut = Arc::new(AtomicUsize::new(0));
        let next = Arc::clone(&cut);
        let server = answering(move |_, mut stream| {
            stream.write_all(&response.as_bytes()[..next.load(Ordering::SeqCst)])
        });
        // The status is known with the final head.
        let head = response.len() - after_head.len();
        for length in 0..=response.len() {
            cut.store(length, Ordering::SeqCst);
            let whole = client_of(&server, LONG).post("/", &[], b"x");
            match whole {
                Ok(whole) => {
                    assert_eq!(length, response.len());
                    assert_eq!(whole.body, body.as_bytes());
                }
                Err(reason) => {
                    assert_ne!(length, response.len(), "{reason}");
                    expect_one_line(&reason.to_string());
                }
            }
            let is_status = status(&url(&server), LONG).is_ok();
            assert_eq!(is_status, length >= head, "{:?}", &response[..length]);
        }
    }
}

/// Writes the beginning, and then the rest again and again until the client has gone.
fn endless(begin: &'static str, rest: &'static str) -> TestServer {
    answering(move |_, mut stream| {
        stream.write_all(begin.as_bytes())?;
        let much = rest.repeat(1 + 4096 / rest.len());
        loop {
            stream.write_all(much.as_bytes())?;
        }
    })
}

#[test]
fn what_has_no_end_is_given_up_at_a_limit_of_size() {
    for (begin, rest) in [
        ("HTTP/1.1 200 OK\r\n", "X: y\r\n"),
        ("HTTP/1.1 200 OK\r\nX: ", "y"),
        ("HTTP/1.1 200 ", "OK"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            "T: x\r\n",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
            "x",
        ),
        ("HTTP/1.1 200 OK\r\n\r\n", "x"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "1\r\nx\r\n",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n",
            "x",
        ),
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
        ("", "SSH "),
    ] {
        let server = endless(begin, rest);
        let reason = client_of(&server, LONG).post("/", &[], b"x");
        let reason = reason.expect_err(begin).to_string();
        expect_one_line(&reason);
        // It did not take until the limit of time.
        assert!(!reason.contains("within"), "{begin:?}: {reason}");
    }
}

#[test]
fn what_never_ends_and_stays_small_is_given_up_at_the_limit_of_time() {
    let limit = Duration::from_millis(200);
    for begin in ["HTTP/1.1 200 OK\r\nX: ", "HTTP/1.1 200 OK\r\n\r\n"] {
        let server = answering(move |_, mut stream| {
            stream.write_all(begin.as_bytes())?;
            // No single read is ever late.
            stream.set_read_timeout(Some(limit / 10))?;
            while stream.read(&mut [0]).is_err() {
                stream.write_all(b"x")?;
            }
            Ok(())
        });
        let mut client = client_of_plan(&url(&server), |plan| plan.timeout = limit);
        let exchange = client.exchange(GET.to_vec()).expect("a request");
        let reason = "no complete response within the timeout (--timeout)";
        assert_eq!(exchange.error.as_deref(), Some(reason));
    }
}

#[test]
fn a_body_of_any_announced_size_is_kept_up_to_the_limit_and_is_an_error_beyond() {
    for (size, is_kept) in [(64 * 1024, true), (64 * 1024 + 1, false)] {
        let server = answering(move |_, mut stream: &TcpStream| {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n")?;
            stream.write_all(&vec![b'x'; size])
        });
        let response = client_of(&server, LONG).post("/", &[], b"x");
        let length = response.map(|response| response.body.len());
        let length = length.map_err(|error| error.to_string());
        let expected = Err("body too large to be kept".to_owned());
        assert_eq!(length, if is_kept { Ok(size) } else { expected });
    }
}

#[test]
fn a_server_that_takes_no_request_is_given_up_at_the_limit_of_time() {
    let open = Mutex::new(Vec::new());
    let server = TestServer::start(move |stream| {
        open.lock().expect("no holder panics").push(stream);
        Ok(())
    });
    let body = vec![b'x'; 64 << 20];
    let failed = client_of(&server, Duration::from_millis(200)).post("/", &[], &body);
    let reason = "the server did not take the request within the timeout (POST_TIMEOUT)";
    assert_eq!(failed.expect_err("it is not read").to_string(), reason);
}

#[test]
fn a_response_in_single_bytes_is_read_within_the_limit_of_time() {
    let server = answering(|_, mut stream| -> io::Result<()> {
        stream.set_nodelay(true)?;
        let (response, ..) = RESPONSES[2];
        (response.as_bytes().chunks(1)).try_for_each(|byte| stream.write_all(byte))
    });
    let response = client_of(&server, LONG)
        .post("/", &[], b"x")
        .expect("it is whole");
    assert_eq!(response.body, b"hello");
}

#[test]
fn the_beginning_of_what_is_no_response_is_kept_for_the_user() {
    let server = answering(|_, mut stream| stream.write_all(&[b'?'; 5000]));
    let exchange = client_of_plan(&url(&server), |_| ()).exchange(GET.to_vec());
    let exchange = exchange.expect("a request");
    assert_eq!(exchange.unreadable, Some("?".repeat(1024)));
    assert_eq!(exchange.error.as_deref(), Some("bad status line"));
}
