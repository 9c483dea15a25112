//! POST requests on a connection that is kept.

use std::io::{BufReader, Read, Write};
use std::time::Duration;

use testkit::{Refusing, TestServer};

use crate::{LONG, client, client_of, request};

#[test]
fn requests_share_a_connection_and_have_path_headers_and_body() {
    let server = TestServer::start(|stream| {
        let mut reader = BufReader::new(&stream);
        while let Some(text) = request(&mut reader)? {
            let length = text.len();
            let head = "HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\n";
            write!(&stream, "{head}Content-Length: {length}\r\n\r\n{text}")?;
        }
        Ok(())
    });
    let mut client = client_of(&server, LONG);
    for body in ["first", "second"] {
        let headers = [("X-A".to_owned(), "b".to_owned())];
        let response = client.post("/v1/x", &headers, body.as_bytes());
        let response = response.expect("it answers");
        assert_eq!(response.status, 429);
        assert_eq!(response.header("retry-after"), Some("7"));
        let seen = String::from_utf8(response.body).expect("text");
        let host = server.address();
        let expected = format!("POST /v1/x HTTP/1.1\r\nHost: {host}\r\nX-A: b\r\n");
        assert!(seen.starts_with(&expected), "{seen}");
        assert!(seen.ends_with(&format!("\r\n\r\n{body}")), "{seen}");
    }
    assert_eq!(server.peers().len(), 1);
}

#[test]
fn a_connection_that_the_server_closed_while_idle_is_opened_again() {
    let server = TestServer::start(|stream| {
        request(&mut BufReader::new(&stream))?;
        write!(&stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    });
    let mut client = client_of(&server, LONG);
    for _ in 0..3 {
        let response = client.post("/", &[], b"x").expect("it answers");
        assert_eq!(response.status, 200);
    }
    assert_eq!(server.peers().len(), 3);
}

#[test]
fn a_server_that_is_silent_or_sends_a_byte_now_and_then_is_given_up_in_time() {
    let limit = Duration::from_millis(300);
    let silent = TestServer::start(|mut stream| stream.read_to_end(&mut Vec::new()).map(drop));
    let dripping = TestServer::start(move |stream| {
        request(&mut BufReader::new(&stream))?;
        write!(&stream, "HTTP/1.1 200 OK\r\nX: ")?;
        // The limit of a read is never reached: something always comes before.
        stream.set_read_timeout(Some(limit / 10))?;
        while (&stream).read(&mut [0]).is_err() {
            write!(&stream, "x")?;
        }
        Ok(())
    });
    for (server, missing) in [(silent, "no response"), (dripping, "no complete response")] {
        let failed = client_of(&server, limit).post("/", &[], b"x");
        assert_eq!(
            failed.expect_err("no response").to_string(),
            missing.to_owned() + " within the timeout (POST_TIMEOUT)"
        );
        assert_eq!(server.peers().len(), 1);
    }
}

#[test]
fn refusals_and_rubbish_are_one_line() {
    let refusing = Refusing::new();
    let mut client_of_none = client(&format!("http://{}", refusing.address()), LONG);
    let failed = client_of_none.post("/", &[], b"");
    assert_eq!(
        failed.expect_err("nobody listens").to_string(),
        "unable to connect: Connection refused"
    );
    for rubbish in [
        "",
        "SSH-2.0-x\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
    ] {
        let server = TestServer::start(move |stream| {
            request(&mut BufReader::new(&stream))?;
            (&stream).write_all(rubbish.as_bytes())
        });
        let failed = client_of(&server, LONG).post("/", &[], b"x");
        let reason = failed.expect_err("it is no response").to_string();
        assert!(!reason.is_empty() && !reason.contains('\n'), "{reason:?}");
        // A fresh connection is not tried a second time.
        assert_eq!(server.peers().len(), 1);
    }
}
