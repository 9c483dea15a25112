//! Requests an http URL once and returns the status.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use plan::Target;

use super::now_ns;
use crate::hooks::later;

/// The longest status line that is accepted.
const STATUS_LINE_BYTES_MAX: usize = 8192;

/// The status of the response to a GET. The limit covers everything but resolving the name.
pub(super) fn get(target: &Target, limit: Duration) -> io::Result<u16> {
    let end_ns = later(now_ns(), limit);
    let mut stream = connect(target, end_ns)?;
    stream.set_write_timeout(Some(left(end_ns)?))?;
    stream.write_all(request(target).as_bytes())?;
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        stream.set_read_timeout(Some(left(end_ns)?))?;
        match stream.read(&mut buffer) {
            Ok(0) => {
                return Err(unanswered(
                    "the server closed the connection without a response",
                ));
            }
            Ok(read) => head.extend_from_slice(buffer.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(too_late()),
            Err(error) => return Err(error),
        }
        if let Some(end) = head.iter().position(|&byte| byte == b'\n') {
            return status(head.get(..end).unwrap_or_default())
                .ok_or_else(|| unanswered("the response is not HTTP"));
        }
        if head.len() > STATUS_LINE_BYTES_MAX {
            return Err(unanswered("the response is not HTTP"));
        }
    }
}

fn request(target: &Target) -> String {
    let path = target.path.split('#').next().unwrap_or("/");
    format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        target.host_header
    )
}

/// Tries the addresses in turn.
fn connect(target: &Target, end_ns: u64) -> io::Result<TcpStream> {
    let mut last = unanswered("the name has no address");
    for address in (target.host.as_str(), target.port_number()).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left(end_ns)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The code in `HTTP/1.1 200 OK`.
fn status(line: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    if !words.next()?.starts_with("HTTP/1.") {
        return None;
    }
    let code = words.next().filter(|code| code.len() == 3)?;
    code.parse().ok().filter(|code| (100..1000).contains(code))
}

/// The remaining time.
///
/// # Errors
/// If there is none.
fn left(end_ns: u64) -> io::Result<Duration> {
    match end_ns.saturating_sub(now_ns()) {
        0 => Err(too_late()),
        left_ns => Ok(Duration::from_nanos(left_ns)),
    }
}

fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no response in time")
}

fn unanswered(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
