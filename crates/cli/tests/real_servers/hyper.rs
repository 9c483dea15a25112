//! hyper, a library of HTTP/2 for Rust, in this process: requests, uploads and bytes of responses
//! are those that it has seen.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::TcpStream as StdTcpStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::rt::{Executor, Read, ReadBufCursor, Write};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::http2::{LOAD, REQUESTS, Scheme, assert_all_answered, bytes_of};
use crate::trial::{CONNECTIONS, each_backend};
use testkit::{Folder, TestServer, eventually};

/// The content of a response, in the parts in which it is sent.
const PARTS: [usize; 3] = [1_000, 1, 2_000];
/// Smaller than an upload.
const STREAM_WINDOW_BYTES: u32 = 1_000;

/// What the server has seen and sent.
#[derive(Debug, Default)]
struct Seen {
    /// Connections that have not ended.
    open: AtomicU64,
    /// Connections with a request.
    used: AtomicU64,
    requests: AtomicU64,
    uploaded_bytes: AtomicU64,
    /// Bytes of frames that belong to responses.
    response_bytes: AtomicU64,
}

impl Seen {
    /// Waits until all connections have ended, so that the numbers are complete.
    fn await_end(&self) {
        eventually(|| match self.open.load(Ordering::SeqCst) {
            0 => Ok(()),
            open => Err(format!("{open} connections are open")),
        });
    }
}

/// A server of HTTP/2 in clear text.
struct Hyper {
    server: TestServer,
    seen: Arc<Seen>,
}

impl Hyper {
    fn start() -> Self {
        let seen = Arc::<Seen>::default();
        let of_connections = Arc::clone(&seen);
        let server = TestServer::start(move |stream| {
            of_connections.open.fetch_add(1, Ordering::SeqCst);
            let served = serve(stream, &of_connections);
            of_connections.open.fetch_sub(1, Ordering::SeqCst);
            served
        });
        Self { server, seen }
    }

    fn url(&self) -> String {
        Scheme::Http.url(self.server.address().port(), "")
    }
}

/// Serves a connection until the client closes it.
fn serve(stream: StdTcpStream, seen: &Arc<Seen>) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let before = AtomicU64::new(0);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    runtime.block_on(async {
        let counted = Counted {
            stream: TcpStream::from_std(stream)?,
            frames: Frames::default(),
            seen: Arc::clone(seen),
        };
        let service = service_fn(|request| {
            if before.fetch_add(1, Ordering::SeqCst) == 0 {
                seen.used.fetch_add(1, Ordering::SeqCst);
            }
            respond(request, Arc::clone(seen))
        });
        http2::Builder::new(Tasks)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .serve_connection(counted, service)
            .await
            .map_err(io::Error::other)
    })
}

/// Reads the whole request before the response.
async fn respond(
    mut request: Request<Incoming>,
    seen: Arc<Seen>,
) -> Result<Response<FramedBody>, hyper::Error> {
    seen.requests.fetch_add(1, Ordering::SeqCst);
    let body = request.body_mut();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await {
        let bytes = frame?.data_ref().map_or(0, Bytes::len);
        seen.uploaded_bytes
            .fetch_add(bytes as u64, Ordering::SeqCst);
    }
    let content = PARTS.map(|length| Frame::data(Bytes::from(vec![b'h'; length])));
    let trailers = HeaderMap::from_iter([(
        "x-end".parse().expect("it is a name"),
        HeaderValue::from_static("yes"),
    )]);
    let frames = content.into_iter().chain([Frame::trailers(trailers)]);
    Ok(Response::new(FramedBody(frames.collect())))
}

/// A body of unknown length, with trailers.
struct FramedBody(VecDeque<Frame<Bytes>>);

impl Body for FramedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

/// Runs what hyper does for each request, in the thread of the connection.
#[derive(Debug, Clone)]
struct Tasks;

impl<F> Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, task: F) {
        tokio::spawn(task);
    }
}

/// A connection that counts the bytes of responses.
struct Counted {
    stream: TcpStream,
    frames: Frames,
    seen: Arc<Seen>,
}

impl Read for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0; 4096];
        let length = bytes.len().min(into.remaining());
        let mut buffer = ReadBuf::new(&mut bytes[..length]);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        into.put_slice(buffer.filled());
        Poll::Ready(Ok(()))
    }
}

impl Write for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        let of_responses = self.frames.count(&bytes[..written]);
        self.seen
            .response_bytes
            .fetch_add(of_responses, Ordering::SeqCst);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The frames that the server writes, which may be cut anywhere.
#[derive(Debug, Default)]
struct Frames {
    /// The beginning of a frame's header.
    header: Vec<u8>,
    payload_left: u32,
    is_of_response: bool,
}

impl Frames {
    /// How many of the next bytes belong to responses: HEADERS, CONTINUATION and DATA.
    fn count(&mut self, bytes: &[u8]) -> u64 {
        let mut of_responses = 0;
        for byte in bytes {
            if self.payload_left > 0 {
                self.payload_left -= 1;
                of_responses += u64::from(self.is_of_response);
                continue;
            }
            self.header.push(*byte);
            // RFC 9113 section 4.1: length, type, flags, stream.
            if let [a, b, c, kind, _, _, _, _, _] = *self.header {
                self.payload_left = u32::from_be_bytes([0, a, b, c]);
                self.is_of_response = matches!(kind, 0x0 | 0x1 | 0x9);
                of_responses += if self.is_of_response { 9 } else { 0 };
                self.header.clear();
            }
        }
        of_responses
    }
}

/// Makes runs, and compares them with what the server has seen.
fn load(more: &[&str], upload_bytes: u64) {
    let hyper = Hyper::start();
    let results = each_backend(&[LOAD.as_slice(), more].concat(), &hyper.url());
    let seen = &hyper.seen;
    seen.await_end();
    assert_all_answered(&results);
    let runs = results.len() as u64;
    let content: usize = PARTS.iter().sum();
    let bytes = bytes_of(&results);
    assert!(bytes > REQUESTS * runs * content as u64);
    let ours = (REQUESTS * runs, CONNECTIONS * runs, bytes);
    let [requests, connections, bytes, uploaded] = [
        &seen.requests,
        &seen.used,
        &seen.response_bytes,
        &seen.uploaded_bytes,
    ]
    .map(|count| count.load(Ordering::SeqCst));
    assert_eq!(ours, (requests, connections, bytes));
    assert_eq!(uploaded, REQUESTS * runs * upload_bytes);
}

#[test]
fn bodies_without_a_length_and_with_trailers() {
    load(&[], 0);
}

#[test]
fn uploads_through_small_windows() {
    let place = Folder::new();
    let body = place.file_with("body", "u".repeat(5_000));
    load(&["--body-file", &body], 5_000);
}
