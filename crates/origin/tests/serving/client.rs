//! The smallest client that can tell right from wrong, and servers to point it at.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use origin::{Address, Backend, Options, Server};

/// Bounds every read, so that a hanging test fails instead.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Runs a check on a server of each backend with these options.
pub(crate) fn on_each_backend(options: &Options, check: impl Fn(Server)) {
    for backend in [Backend::Epoll, Backend::Uring] {
        let server = Server::start(Options {
            backend,
            ..options.clone()
        });
        check(server.unwrap_or_else(|why| panic!("{backend:?}: {why}")));
    }
}

/// Options with these defaults.
pub(crate) fn defaults(text: &str) -> Options {
    Options::default().with_defaults(text).unwrap()
}

pub(crate) fn tcp_address(server: &Server) -> SocketAddr {
    match server.address() {
        Address::Tcp(address) => *address,
        Address::Unix(path) => panic!("{} is not TCP", path.display()),
    }
}

/// A connection and what of its input has not been looked at.
pub(crate) struct Client<S = TcpStream> {
    pub(crate) stream: S,
    pub(crate) input: Vec<u8>,
}

/// A response with its head in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status_line: String,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Bytes of head, body and framing.
    pub(crate) bytes: usize,
}

impl Response {
    pub(crate) fn status(&self) -> &str {
        self.status_line.split(' ').nth(1).unwrap_or("")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl Client {
    pub(crate) fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(tcp_address(server)).unwrap();
        stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }

    /// Asks for a target and reads the response.
    pub(crate) fn get(server: &Server, target: &str) -> Response {
        let mut client = Self::connect(server);
        client.ask(target);
        client.response()
    }

    /// Everything that comes until the end, and how it ends.
    pub(crate) fn raw(server: &Server, target: &str) -> (String, io::Result<()>) {
        let mut client = Self::connect(server);
        client.ask(target);
        let end = client.read_to_end();
        (String::from_utf8_lossy(&client.input).into_owned(), end)
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self {
            stream,
            input: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn ask(&mut self, target: &str) {
        self.send(&request(target));
    }

    pub(crate) fn read_to_end(&mut self) -> io::Result<()> {
        while self.read_some()? > 0 {}
        Ok(())
    }

    /// Whether the peer's FIN is the next thing to come.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.input.is_empty() && matches!(self.read_some(), Ok(0))
    }

    /// The response to a request other than HEAD.
    pub(crate) fn response(&mut self) -> Response {
        self.try_response(false).expect("a response")
    }

    pub(crate) fn response_to_head(&mut self) -> Response {
        self.try_response(true).expect("a response")
    }

    fn try_response(&mut self, is_bodiless: bool) -> io::Result<Response> {
        let head_bytes = self.until(b"\r\n\r\n")?;
        let head = String::from_utf8(self.take(head_bytes)).expect("a textual head");
        let (status_line, _) = head.split_once("\r\n").expect("a status line");
        let mut response = Response {
            status_line: status_line.to_owned(),
            head: head.clone(),
            body: Vec::new(),
            bytes: 0,
        };
        let mut framing_bytes = 0;
        let has_no_body = is_bodiless || ["204", "304"].contains(&response.status());
        if has_no_body || response.status().starts_with('1') {
        } else if response.header("transfer-encoding") == Some("chunked") {
            (response.body, framing_bytes) = self.chunks()?;
        } else if let Some(length) = response.header("content-length") {
            let length = length.parse().expect("a length");
            while self.input.len() < length {
                self.read_more()?;
            }
            response.body = self.take(length);
        } else {
            self.read_to_end()?;
            response.body = std::mem::take(&mut self.input);
        }
        response.bytes = head.len() + framing_bytes + response.body.len();
        Ok(response)
    }

    /// A chunked body and the bytes of its framing.
    fn chunks(&mut self) -> io::Result<(Vec<u8>, usize)> {
        let (mut body, mut framing) = (Vec::new(), 0);
        loop {
            let line_bytes = self.until(b"\r\n")?;
            let line = String::from_utf8(self.take(line_bytes)).expect("a size line");
            let digits = line.trim_end().split(';').next().unwrap_or("");
            let size = usize::from_str_radix(digits, 16).expect("a chunk size");
            framing += line_bytes + 2;
            if size == 0 {
                break;
            }
            while self.input.len() < size + 2 {
                self.read_more()?;
            }
            body.extend(self.take(size));
            assert_eq!(self.take(2), b"\r\n");
        }
        loop {
            let line = self.until(b"\r\n")?;
            if self.take(line) == b"\r\n" {
                return Ok((body, framing));
            }
            framing += line;
        }
    }

    /// Reads until the input has this; the number of bytes to its end.
    pub(crate) fn until(&mut self, mark: &[u8]) -> io::Result<usize> {
        loop {
            if let Some(at) = self
                .input
                .windows(mark.len())
                .position(|bytes| bytes == mark)
            {
                return Ok(at + mark.len());
            }
            self.read_more()?;
        }
    }

    fn take(&mut self, bytes: usize) -> Vec<u8> {
        self.input.drain(..bytes).collect()
    }

    fn read_more(&mut self) -> io::Result<()> {
        match self.read_some()? {
            0 => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "ended within a response",
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn read_some(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 64 * 1024];
        let count = self.stream.read(&mut buffer)?;
        self.input.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

pub(crate) fn request(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n")
}
