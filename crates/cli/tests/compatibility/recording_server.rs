//! A server that keeps the first requests byte for byte.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use testkit::{TestServer, WAIT_MAX};

/// More than any request of the tests has.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The header is for scripts that log in.
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nX-Token: t0ken\r\nContent-Length: 3\r\n\r\nok\n";

pub(crate) struct RecordingServer {
    server: TestServer,
    recorded: Arc<Recorded>,
}

struct Recorded {
    wanted: usize,
    requests: Mutex<Vec<Vec<u8>>>,
    more: Condvar,
}

impl RecordingServer {
    /// Listens on a free port of `ip`, to record `wanted` requests.
    pub(crate) fn start(ip: &str, wanted: usize) -> io::Result<Self> {
        let recorded = Arc::new(Recorded {
            wanted,
            requests: Mutex::default(),
            more: Condvar::new(),
        });
        let of_server = Arc::clone(&recorded);
        let server = TestServer::start_at((ip, 0), move |stream| of_server.serve(stream))?;
        Ok(Self { server, recorded })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Waits for the wanted number of requests. Returns fewer if that takes too long.
    pub(crate) fn wait(&self) -> Vec<Vec<u8>> {
        let requests = self.recorded.requests.lock().expect("no holder panics");
        let is_missing = |requests: &mut Vec<Vec<u8>>| requests.len() < self.recorded.wanted;
        let (requests, _) = self
            .recorded
            .more
            .wait_timeout_while(requests, WAIT_MAX, is_missing)
            .expect("no holder panics");
        requests.clone()
    }
}

impl Recorded {
    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(WAIT_MAX))?;
        stream.set_nodelay(true)?;
        let mut unread = Vec::new();
        let mut piece = [0; 16 * 1024];
        while unread.len() < REQUEST_BYTES_MAX {
            let count = stream.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            unread.extend_from_slice(&piece[..count]);
            let mut responses = Vec::new();
            while let Some(length) = request_length(&unread) {
                self.record(unread.drain(..length).collect());
                responses.extend_from_slice(RESPONSE);
            }
            stream.write_all(&responses)?;
        }
        Ok(())
    }

    fn record(&self, request: Vec<u8>) {
        let mut requests = self.requests.lock().expect("no holder panics");
        if requests.len() < self.wanted {
            requests.push(request);
            self.more.notify_all();
        }
    }
}

/// The length of the first request if it is complete: head, and a body of the length that
/// Content-Length says.
fn request_length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let body = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .map_or(Ok(0), |value| value.trim().parse::<usize>());
    let length = head + body.expect("the tools send right lengths");
    (bytes.len() >= length).then_some(length)
}
