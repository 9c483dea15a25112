//! URLs that are requested once, for their status.

use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

use client::status;
use testkit::Refusing;

use crate::{LONG, answering, expect_one_line, url};

#[test]
fn the_status_is_returned_without_waiting_for_the_body() {
    for (head, expected) in [
        ("HTTP/1.1 503 Not yet\r\n\r\n", 503),
        ("HTTP/1.0 200\r\n\r\n", 200),
        (
            "HTTP/1.1 301 Moved\r\nLocation: /new\r\nContent-Length: 5\r\n\r\nab",
            301,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
            200,
        ),
        (
            "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            204,
        ),
    ] {
        // The server does not close, so only the head can end the wait.
        let server = answering(move |_, mut stream| {
            stream.write_all(head.as_bytes())?;
            std::io::copy(&mut stream, &mut std::io::sink()).map(drop)
        });
        assert_eq!(status(&url(&server), LONG), Ok(expected), "{head:?}");
    }
}

#[test]
fn the_request_has_host_path_and_credentials_and_announces_the_close() {
    let server = answering(|text, mut stream| {
        let expected = "GET /ready?x=1 HTTP/1.1\r\nHost: 127.0.0.1:";
        let is_right = text.starts_with(expected)
            && text.contains("\r\nConnection: close\r\n")
            && text.contains("\r\nAuthorization: Basic dTpw\r\n");
        let status = if is_right { 200 } else { 400 };
        write!(stream, "HTTP/1.1 {status} X\r\n\r\n")
    });
    let url = format!("http://u:p@{}/ready?x=1#part", server.address());
    assert_eq!(status(&url, LONG), Ok(200));
}

#[test]
fn why_there_is_no_status_is_one_line() {
    for rubbish in [
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 abc\r\n\r\n",
        "HTTP/1.1 20\r\n\r\n",
        "\n",
        "",
    ] {
        let server = answering(move |_, mut stream| stream.write_all(rubbish.as_bytes()));
        let reason = status(&url(&server), LONG).expect_err(rubbish);
        expect_one_line(&reason.to_string());
    }
    let refused = status(&format!("http://{}/", Refusing::new().address()), LONG);
    assert_eq!(
        refused.expect_err("nobody listens").to_string(),
        "unable to connect: Connection refused"
    );
    let refused = status("ftp://127.0.0.1/", LONG).expect_err("no scheme of HTTP");
    expect_one_line(&refused.to_string());
}

#[test]
fn a_silent_server_is_given_up_at_the_limit() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = silent.local_addr().expect("it is bound");
    let limit = Duration::from_millis(50);
    for (scheme, missing) in [
        ("http", "no response"),
        ("https", "the TLS handshake was not finished"),
    ] {
        let reason = status(&format!("{scheme}://{address}/"), limit).expect_err(missing);
        assert_eq!(reason.to_string(), format!("{missing} within 50ms"));
    }
}
