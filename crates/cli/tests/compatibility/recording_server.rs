//! A server that keeps the first requests byte for byte.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longer than a run takes until it has sent what is wanted; ends a test that would hang.
const PATIENCE: Duration = Duration::from_secs(30);
/// More than any request of the tests has.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The header is for scripts that log in.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nX-Token: t0ken\r\nContent-Length: 3\r\n\r\nok\n";

pub(crate) struct RecordingServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    wanted: usize,
    requests: Mutex<Vec<Vec<u8>>>,
    recorded: Condvar,
    is_over: AtomicBool,
}

impl RecordingServer {
    /// Listens on a free port of `ip`, to record `wanted` requests.
    pub(crate) fn start(ip: &str, wanted: usize) -> io::Result<Self> {
        let listener = TcpListener::bind((ip, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            wanted,
            requests: Mutex::default(),
            recorded: Condvar::new(),
            is_over: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let thread = Some(std::thread::spawn(move || serve(&listener, &of_thread)));
        Ok(Self {
            address,
            shared,
            thread,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests, when enough have come; fewer when it took too long.
    pub(crate) fn wait(&self) -> Vec<Vec<u8>> {
        let requests = self.shared.requests.lock().expect("no holder panics");
        let is_missing = |requests: &mut Vec<Vec<u8>>| requests.len() < self.shared.wanted;
        let (requests, _) = self
            .shared
            .recorded
            .wait_timeout_while(requests, PATIENCE, is_missing)
            .expect("no holder panics");
        requests.clone()
    }
}

impl Drop for RecordingServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread, which waits for a connection.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One connection after the other: the tools open one to look whether the server is there, and
/// close it, before the one that is loaded.
fn serve(listener: &TcpListener, shared: &Shared) {
    while let Ok((stream, _)) = listener.accept() {
        if shared.is_over.load(Ordering::SeqCst) {
            return;
        }
        // However the tool ends the connection: what came until then is recorded.
        let _ = answer_all(stream, shared);
    }
}

fn answer_all(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let mut unread = Vec::new();
    let mut piece = [0; 16 * 1024];
    while unread.len() < REQUEST_BYTES_MAX {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        unread.extend_from_slice(&piece[..count]);
        let mut answers = Vec::new();
        while let Some(length) = request_length(&unread) {
            record(shared, unread.drain(..length).collect());
            answers.extend_from_slice(ANSWER);
        }
        stream.write_all(&answers)?;
    }
    Ok(())
}

fn record(shared: &Shared, request: Vec<u8>) {
    let mut requests = shared.requests.lock().expect("no holder panics");
    if requests.len() < shared.wanted {
        requests.push(request);
        shared.recorded.notify_all();
    }
}

/// Length of the first request if it is whole: head, and a body as long as Content-Length says.
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
