//! The client against servers in this process: some that answer, and some that do not as they
//! should.
//!
//! - `kept`: POST requests on a connection that is kept
//! - `status`: URLs that are requested once
//! - `hostile`: responses that are cut, endless, slow, or too large
//! - `tls`: certificates, and servers that do not speak TLS

mod hostile;
mod kept;
mod status;
mod tls;

use std::io::{self, BufRead, BufReader, Read};
use std::net::TcpStream;
use std::time::Duration;

use client::{Client, Permit, Server};
use plan::{RunPlan, Target};
use testkit::TestServer;

/// Longer than any test takes, unless it is about the limit.
const LONG: Duration = Duration::from_mins(1);

fn url(server: &TestServer) -> String {
    format!("http://{}/", server.address())
}

fn client(url: &str, limit: Duration) -> Client {
    Client::of_server(&Server {
        target: &Target::parse(url).expect("a URL"),
        limit: (limit, "POST_TIMEOUT"),
        cacert: ("CACERT", None),
    })
    .expect("loopback is found")
}

fn client_of(server: &TestServer, limit: Duration) -> Client {
    client(&url(server), limit)
}

/// A client for the target of a plan.
fn client_of_plan(url: &str, change: impl FnOnce(&mut RunPlan)) -> Client {
    let mut plan = RunPlan::new(Target::parse(url).expect("a URL"));
    plan.timeout = LONG;
    change(&mut plan);
    Client::of_plan(plan, Permit::default()).expect("nothing has to be read")
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// Reads a request. `None` if the client has closed.
fn request(reader: &mut BufReader<impl Read>) -> io::Result<Option<String>> {
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let begin = text.len();
        if reader.read_line(&mut text)? == 0 {
            return Ok(None);
        }
        let line = &text[begin..];
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse().expect("it is a number");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(text + &String::from_utf8_lossy(&body)))
}

/// A server that reads a request and leaves the rest to the function.
fn answering(
    answer: impl Fn(&str, &TcpStream) -> io::Result<()> + Send + Sync + 'static,
) -> TestServer {
    TestServer::start(move |stream| {
        let text = request(&mut BufReader::new(&stream))?.unwrap_or_default();
        answer(&text, &stream)
    })
}

#[track_caller]
fn expect_one_line(reason: &str) {
    assert!(!reason.is_empty() && !reason.contains('\n'), "{reason:?}");
}
