//! Writes requests to connections: the prepared batches, or those of a source.

use eventloop::{EventLoop, Payload, SharedBytes, Token};
use protocol::h1::request::{self, RequestError};
use protocol::{ExchangeId, RequestKind, Requests, Session, SessionError};

/// Maximum number of send buffers kept for reuse.
const SPARE_BUFFERS: usize = 1024;

/// Where requests come from.
pub(super) enum RequestTexts {
    /// The same batch every time, repeated `pipeline` times in memory.
    Fixed {
        bytes: Vec<u8>,
        kinds: Vec<RequestKind>,
        /// Length of one batch.
        batch_bytes: usize,
        kinds_of_batch: u32,
        shared: SharedBytes,
    },
    /// The source provides each batch.
    FromSource,
}

/// A connection on which an exchange is being started.
pub(super) struct Sending<'a, L, S: Session> {
    pub(super) io: &'a mut L,
    pub(super) shared: &'a mut S::Shared,
    pub(super) session: &'a mut S,
    pub(super) token: Token,
    pub(super) exchange: ExchangeId,
}

/// Encodes requests and passes them to the event loop.
pub(super) struct RequestWriter {
    pub(super) texts: RequestTexts,
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
        let texts = match fixed {
            Some(batch) => {
                let mut kinds = Vec::new();
                request::scan(batch, &mut kinds).map_err(|error| error.to_string())?;
                let bytes = batch.repeat(pipeline as usize);
                let shared = if S::TRANSPARENT {
                    io.share(bytes.clone())
                } else {
                    SharedBytes(0)
                };
                RequestTexts::Fixed {
                    bytes,
                    batch_bytes: batch.len(),
                    kinds_of_batch: kinds.len() as u32,
                    kinds: kinds.repeat(pipeline as usize),
                    shared,
                }
            }
            None => RequestTexts::FromSource,
        };
        Ok(Self {
            texts,
            kinds: Vec::new(),
            spare: Vec::new(),
        })
    }

    /// Sends `batches` of the prepared batches. Returns the number of requests and the time of
    /// sending, which is `at_ns` if given.
    #[inline]
    pub(super) fn send_fixed<L: EventLoop, S: Session>(
        &mut self,
        sending: &mut Sending<'_, L, S>,
        batches: usize,
        at_ns: Option<u64>,
    ) -> Result<(u32, u64), SessionError> {
        let RequestTexts::Fixed {
            bytes,
            kinds,
            batch_bytes,
            kinds_of_batch,
            shared,
        } = &self.texts
        else {
            return Ok((0, 0));
        };
        let range = 0..batches * *batch_bytes;
        let requests = Requests {
            bytes: &bytes[range.clone()],
            kinds: &kinds[..batches * *kinds_of_batch as usize],
        };
        let mut buffer = match S::TRANSPARENT {
            true => Vec::new(),
            false => self.spare.pop().unwrap_or_default(),
        };
        let sent_ns = at_ns.unwrap_or_else(|| sending.io.now_ns());
        sending.start(requests, &mut buffer)?;
        let payload = match S::TRANSPARENT {
            true => Payload::Shared {
                bytes: *shared,
                range,
            },
            false => Payload::Owned(buffer),
        };
        sending.io.send(sending.token, payload);
        Ok((requests.kinds.len() as u32, sent_ns))
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
        sending: &mut Sending<'_, L, S>,
        plain: Vec<u8>,
    ) -> Result<u32, SessionError> {
        let requests = Requests {
            bytes: &plain,
            kinds: &self.kinds,
        };
        let count = requests.kinds.len() as u32;
        let buffer = if S::TRANSPARENT {
            sending.start(requests, &mut Vec::new())?;
            plain
        } else {
            let mut buffer = self.spare.pop().unwrap_or_default();
            let started = sending.start(requests, &mut buffer);
            self.recycle(plain);
            started?;
            buffer
        };
        sending.io.send(sending.token, Payload::Owned(buffer));
        Ok(count)
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

impl<L, S: Session> Sending<'_, L, S> {
    #[inline]
    fn start(&mut self, requests: Requests<'_>, output: &mut Vec<u8>) -> Result<(), SessionError> {
        self.session
            .start(self.shared, self.exchange, requests, output)
    }
}
