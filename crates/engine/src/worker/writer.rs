//! Writes requests to connections: the prepared batches, or those of a source.

use eventloop::{EventLoop, Payload, SharedBytes, Token};
use protocol::h1::request::{self, RequestError};
use protocol::{RequestKind, Session, SessionError};

/// Maximum number of send buffers kept for reuse.
const SPARE_BUFFERS: usize = 1024;

/// Where requests come from.
pub(super) enum Requests {
    /// The same batch every time, repeated `pipeline` times in memory.
    Fixed {
        bytes: Vec<u8>,
        batch_bytes: usize,
        kinds: Vec<RequestKind>,
        shared: SharedBytes,
    },
    /// The source provides each batch.
    FromSource,
}

/// Encodes requests and passes them to the event loop.
pub(super) struct RequestWriter {
    pub(super) requests: Requests,
    /// The kinds of the requests that are being sent.
    kinds: Vec<RequestKind>,
    /// Send buffers that were returned.
    spare: Vec<Vec<u8>>,
}

impl RequestWriter {
    /// Prepares the fixed batch of a source, if it has one.
    pub(super) fn new<L: EventLoop, S: Session>(
        io: &mut L,
        fixed: Option<&[u8]>,
        pipeline: u32,
    ) -> Result<Self, String> {
        let requests = match fixed {
            Some(batch) => {
                let mut kinds = Vec::new();
                request::scan(batch, &mut kinds).map_err(|error| error.to_string())?;
                let bytes = batch.repeat(pipeline as usize);
                let shared = if S::TRANSPARENT {
                    io.share(bytes.clone())
                } else {
                    SharedBytes(0)
                };
                Requests::Fixed {
                    bytes,
                    batch_bytes: batch.len(),
                    kinds,
                    shared,
                }
            }
            None => Requests::FromSource,
        };
        Ok(Self {
            requests,
            kinds: Vec::new(),
            spare: Vec::new(),
        })
    }

    /// Sends `batches` of the prepared batches. Returns the number of requests and the time of
    /// sending, which is `at_ns` if given.
    #[inline]
    pub(super) fn send_fixed<L: EventLoop, S: Session>(
        &mut self,
        io: &mut L,
        session: &mut S,
        token: Token,
        batches: usize,
        at_ns: Option<u64>,
    ) -> Result<(u32, u64), SessionError> {
        let Requests::Fixed {
            bytes,
            batch_bytes,
            kinds,
            shared,
        } = &self.requests
        else {
            return Ok((0, 0));
        };
        for _ in 0..batches {
            for kind in kinds {
                session.expect(*kind);
            }
        }
        let range = 0..batches * *batch_bytes;
        let sent_ns = at_ns.unwrap_or_else(|| io.now_ns());
        let requests = (batches * kinds.len()) as u32;
        let payload = if S::TRANSPARENT {
            Payload::Shared {
                bytes: *shared,
                range,
            }
        } else {
            let mut buffer = self.spare.pop().unwrap_or_default();
            session.encode(&bytes[range], &mut buffer)?;
            Payload::Owned(buffer)
        };
        io.send(token, payload);
        Ok((requests, sent_ns))
    }

    /// Finds the requests in what a source has written.
    pub(super) fn scan(&mut self, plain: &[u8]) -> Result<(), RequestError> {
        self.kinds.clear();
        let scanned = request::scan(plain, &mut self.kinds);
        if let Err(error) = scanned {
            // The first request was checked before the run. A later one with, for example, an empty
            // path is sent as it is, as in wrk, and the server's response to it counts. But if the
            // head has no end, the server would wait for it.
            if !plain.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
                return Err(error);
            }
            self.kinds.push(RequestKind::Plain);
        }
        Ok(())
    }

    /// Sends the requests of the last [`Self::scan`]. Returns their number.
    pub(super) fn send_scanned<L: EventLoop, S: Session>(
        &mut self,
        io: &mut L,
        session: &mut S,
        token: Token,
        plain: Vec<u8>,
    ) -> Result<u32, SessionError> {
        for kind in &self.kinds {
            session.expect(*kind);
        }
        let buffer = if S::TRANSPARENT {
            plain
        } else {
            let mut buffer = self.buffer();
            let encoded = session.encode(&plain, &mut buffer);
            self.recycle(plain);
            encoded?;
            buffer
        };
        io.send(token, Payload::Owned(buffer));
        Ok(self.kinds.len() as u32)
    }

    /// An empty buffer.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps a buffer for reuse.
    pub(super) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}
