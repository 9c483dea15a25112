//! A small HTTP server for scrapes: one thread, a few clients at a time, and limits for each.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use engine::monotonic_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::accept::{Format, preferred};
use super::families::families;
use super::{Current, SharedScrapeState, protobuf, text};

/// Clients at a time; others wait in the backlog of the socket.
const CLIENTS_MAX: usize = 8;

/// The longest head of a request, bytes: what most servers allow.
const HEAD_MAX: usize = 8 << 10;

/// How long a client has for its request and its response, nanoseconds: the default of Prometheus'
/// `scrape_timeout`.
const CLIENT_MAX_NS: u64 = 10_000_000_000;

/// After a failure to accept, such as too many open files, the next attempt waits this long.
const PAUSE_NS: u64 = 1_000_000_000;

/// Starts the thread. It ends with the process.
///
/// # Errors
/// When the system cannot create it.
pub(super) fn start(listener: TcpListener, shared: Arc<SharedScrapeState>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let server = Server {
        listener,
        shared,
        clients: Vec::new(),
        paused_until_ns: 0,
    };
    let thread = std::thread::Builder::new().name("prometheus".to_owned());
    thread.spawn(move || server.run())?;
    Ok(())
}

struct Server {
    listener: TcpListener,
    shared: Arc<SharedScrapeState>,
    clients: Vec<Client>,
    /// Nobody is accepted before this moment.
    paused_until_ns: u64,
}

struct Client {
    stream: TcpStream,
    deadline_ns: u64,
    /// What has arrived of the request.
    head: Vec<u8>,
    /// The response, once the request is complete, and how much of it was sent.
    response: Option<Response>,
    sent: usize,
}

struct Response {
    bytes: Vec<u8>,
    /// The state that it shows, if it shows any.
    scraped: Option<Arc<Current>>,
}

impl Server {
    fn run(mut self) {
        loop {
            self.wait();
            let now_ns = monotonic_ns();
            if now_ns >= self.paused_until_ns && self.clients.len() < CLIENTS_MAX {
                self.accept(now_ns);
            }
            let shared = &self.shared;
            self.clients
                .retain_mut(|client| now_ns < client.deadline_ns && client.turn(shared, now_ns));
        }
    }

    /// Waits until a client can go on, another one comes, or one has used up its time.
    fn wait(&self) {
        let accepts = self.paused_until_ns == 0 && self.clients.len() < CLIENTS_MAX;
        let listener = accepts.then(|| PollFd::new(&self.listener, PollFlags::IN));
        let clients = self.clients.iter().map(|client| {
            let wanted = match client.response {
                Some(_) => PollFlags::OUT,
                None => PollFlags::IN,
            };
            PollFd::new(&client.stream, wanted)
        });
        let mut fds: Vec<PollFd<'_>> = listener.into_iter().chain(clients).collect();
        let deadlines = self.clients.iter().map(|client| client.deadline_ns);
        let paused = (!accepts && self.paused_until_ns > 0).then_some(self.paused_until_ns);
        let next_ns = deadlines.chain(paused).min();
        let timeout = next_ns.map(|next_ns| {
            let left_ns = next_ns.saturating_sub(monotonic_ns());
            Timespec {
                tv_sec: (left_ns / 1_000_000_000).cast_signed(),
                tv_nsec: (left_ns % 1_000_000_000).cast_signed(),
            }
        });
        // After an error, as after an interrupt, everybody has a turn.
        let _ = poll(&mut fds, timeout.as_ref());
    }

    fn accept(&mut self, now_ns: u64) {
        self.paused_until_ns = 0;
        match self.listener.accept() {
            Ok((stream, _)) => {
                if stream.set_nonblocking(true).is_ok() {
                    self.clients.push(Client {
                        stream,
                        deadline_ns: now_ns + CLIENT_MAX_NS,
                        head: Vec::new(),
                        response: None,
                        sent: 0,
                    });
                }
            }
            Err(error) if is_for_now(&error) || error.kind() == ErrorKind::ConnectionAborted => {}
            Err(_) => self.paused_until_ns = now_ns + PAUSE_NS,
        }
    }
}

/// Whether a call only has to be repeated.
fn is_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

impl Client {
    /// Reads and writes what is possible. Returns whether the client is still there.
    fn turn(&mut self, shared: &SharedScrapeState, now_ns: u64) -> bool {
        if self.response.is_none() && !self.read(shared) {
            return false;
        }
        let Some(response) = &self.response else {
            return true;
        };
        while self.sent < response.bytes.len() {
            match self.stream.write(&response.bytes[self.sent..]) {
                Ok(0) => return false,
                Ok(count) => self.sent += count,
                Err(error) => return is_for_now(&error),
            }
        }
        if let Some(scraped) = &response.scraped {
            shared.note_scrape(scraped, now_ns);
        }
        false
    }

    /// Reads up to the end of the head. A body of the request is ignored.
    fn read(&mut self, shared: &SharedScrapeState) -> bool {
        let mut buffer = [0; 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) => self.head.extend_from_slice(&buffer[..count]),
                Err(error) => return is_for_now(&error),
            }
            if let Some(end) = end_of_head(&self.head) {
                let head = String::from_utf8_lossy(&self.head[..end]);
                self.response = Some(respond(&head, shared));
                return true;
            }
            if self.head.len() > HEAD_MAX {
                let status = "431 Request Header Fields Too Large";
                self.response = Some(plain(status, "the request is too long\n"));
                return true;
            }
        }
    }
}

fn end_of_head(head: &[u8]) -> Option<usize> {
    let ends = [&b"\r\n\r\n"[..], b"\n\n"];
    let found = ends.map(|end| head.windows(end.len()).position(|it| it == end));
    found.into_iter().flatten().min()
}

/// The response to a request with this head (RFC 9112).
fn respond(head: &str, shared: &SharedScrapeState) -> Response {
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next());
    let Some(target) = target.filter(|_| words.next().is_some_and(|it| it.starts_with("HTTP/1.")))
    else {
        return plain("400 Bad Request", "this is not a request of HTTP/1.1\n");
    };
    if !["GET", "HEAD"].contains(&method) {
        return plain("405 Method Not Allowed", "expected GET\n");
    }
    if target.split('?').next() != Some("/metrics") {
        return plain("404 Not Found", "the metrics are at /metrics\n");
    }
    let fields = lines.filter_map(|line| line.split_once(':'));
    let accept: Vec<&str> = fields
        .filter(|(name, _)| name.eq_ignore_ascii_case("accept"))
        .map(|(_, value)| value.trim())
        .collect();
    let current = shared.current();
    let families = families(&current);
    let (kind, body) = match preferred(&accept.join(",")) {
        Format::Text => (text::CONTENT_TYPE, text::encode(&families)),
        Format::Protobuf => (protobuf::CONTENT_TYPE, protobuf::encode(&families)),
    };
    drop(families);
    let is_scrape = method == "GET";
    let mut bytes = head_of("200 OK", kind, body.len());
    if is_scrape {
        bytes.extend(body);
    }
    Response {
        bytes,
        scraped: is_scrape.then_some(current),
    }
}

fn plain(status: &str, text: &str) -> Response {
    let mut bytes = head_of(status, "text/plain; charset=utf-8", text.len());
    bytes.extend(text.bytes());
    Response {
        bytes,
        scraped: None,
    }
}

fn head_of(status: &str, kind: &str, length: usize) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    head.into_bytes()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use testkit::eventually;

    use super::*;

    fn server() -> (SocketAddr, Arc<SharedScrapeState>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(SharedScrapeState::default());
        start(listener, shared.clone()).expect("it starts");
        (address, shared)
    }

    fn response(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it is there");
        let mut response = Vec::new();
        stream.read_to_end(&mut response).expect("it responds");
        String::from_utf8_lossy(&response).into_owned()
    }

    #[test]
    fn only_a_complete_scrape_is_one() {
        let (address, shared) = server();
        for (request, status) in [
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "200 OK"),
            ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
            ("GET /metrics\r\n\r\n", "400 Bad Request"),
            ("\u{fffd}\r\n\r\n", "400 Bad Request"),
        ] {
            let response = response(address, request);
            assert!(
                response.starts_with(&format!("HTTP/1.1 {status}\r\n")),
                "{response}"
            );
        }
        assert_eq!(shared.lock().scrapes.count, 0);
        let text = response(address, "GET /metrics?x=1 HTTP/1.1\nHost: x\n\n");
        assert!(text.contains("target_info"), "{text}");
        eventually(|| match shared.lock().scrapes.count {
            1 => Ok(()),
            count => Err(format!("{count} scrapes")),
        });
    }

    #[test]
    fn a_head_without_end_is_refused() {
        let (address, _shared) = server();
        let mut stream = TcpStream::connect(address).expect("it listens");
        // No more than it reads, since what is left would reset the connection.
        let line = vec![b'x'; HEAD_MAX + 1];
        stream.write_all(&line).expect("it reads");
        let mut response = String::new();
        // It may be reset after the response, because of a part that was not read.
        let _ = stream.read_to_string(&mut response);
        assert!(response.starts_with("HTTP/1.1 431 "), "{response}");
    }

    #[test]
    fn clients_that_are_silent_or_leave_hold_up_nobody() {
        let (address, _shared) = server();
        let silent: Vec<TcpStream> = (0..CLIENTS_MAX - 1)
            .map(|_| TcpStream::connect(address).expect("it listens"))
            .collect();
        drop(TcpStream::connect(address).expect("it listens"));
        let text = response(address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
        drop(silent);
    }
}
