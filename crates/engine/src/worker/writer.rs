//! Writes requests to connections: the prepared batches, or those of a source.

use crate::connection::Connection;
use crate::exchanges::{Exchange, Exchanges};
use eventloop::{EventLoop, Payload, SharedBytes, Token};
use protocol::request::{self, RequestText};
use protocol::{Requests, Session, SessionError};

/// Maximum number of send buffers kept for reuse.
const SPARE_BUFFERS: usize = 1024;

/// Several requests in one text are HTTP/1 pipelining.
const ONE_AT_A_TIME: &str =
    "several requests at once need HTTP/1.1; over HTTP/2 return one, and set --streams";

/// Where requests come from.
pub(super) enum Batches<P> {
    /// The same batch every time.
    Fixed(FixedBatch<P>),
    /// The source provides each batch.
    FromSource,
}

/// A batch that never changes. A session that sends text has it `pipeline` times in memory.
pub(super) struct FixedBatch<P> {
    text: Vec<u8>,
    prepared: Vec<P>,
    batch_bytes: usize,
    /// Number of requests in one batch.
    pub(super) batch_requests: u32,
    shared: SharedBytes,
}

/// A connection on which exchanges are being started.
pub(super) struct Sending<'a, L, S: Session> {
    io: &'a mut L,
    shared: &'a mut S::Shared,
    session: &'a mut S,
    exchanges: &'a mut Exchanges,
    /// Buffers that the kernel has not taken yet.
    buffers: &'a mut u32,
    token: Token,
    /// When the requests were due. `None` in a closed loop.
    due_ns: Option<u64>,
}

/// What was started.
pub(super) struct Sent {
    pub(super) requests: u32,
    pub(super) at_ns: u64,
    /// Why no more was started.
    pub(super) error: Option<SessionError>,
}

/// Encodes requests and passes them to the event loop.
pub(super) struct RequestWriter<S: Session> {
    pub(super) batches: Batches<S::Prepared>,
    /// The requests of a source that are being sent.
    prepared: Vec<S::Prepared>,
    /// Send buffers that were returned.
    spare: Vec<Vec<u8>>,
}

impl<S: Session> RequestWriter<S> {
    /// Prepares the fixed batch of a source, if it has one.
    pub(super) fn new<L: EventLoop>(
        io: &mut L,
        session_shared: &mut S::Shared,
        fixed: Option<&[u8]>,
        pipeline: u32,
    ) -> Result<Self, String> {
        let batches = match fixed {
            Some(batch) => {
                let mut prepared = Vec::new();
                let times = if S::SENDS_TEXT { pipeline } else { 1 };
                for _ in 0..times {
                    prepare_all::<S>(session_shared, batch, &mut prepared)?;
                }
                if !S::SENDS_TEXT && prepared.len() > 1 {
                    return Err(ONE_AT_A_TIME.to_owned());
                }
                let text = batch.repeat(times as usize);
                let shared = if S::TRANSPARENT {
                    io.share(text.clone())
                } else {
                    SharedBytes(0)
                };
                Batches::Fixed(FixedBatch {
                    batch_requests: prepared.len() as u32 / times,
                    text,
                    prepared,
                    batch_bytes: batch.len(),
                    shared,
                })
            }
            None => Batches::FromSource,
        };
        Ok(Self {
            batches,
            prepared: Vec::new(),
            spare: Vec::new(),
        })
    }

    /// Sends `batches` of the prepared batches, at `at_ns` if given.
    #[inline]
    pub(super) fn send_fixed<L: EventLoop>(
        &mut self,
        mut sending: Sending<'_, L, S>,
        batches: usize,
        at_ns: Option<u64>,
    ) -> Sent {
        let at_ns = at_ns.unwrap_or_else(|| sending.io.now_ns());
        let Batches::Fixed(fixed) = &self.batches else {
            return Sent::nothing(at_ns);
        };
        let mut buffer = match S::TRANSPARENT {
            true => Vec::new(),
            false => self.spare.pop().unwrap_or_default(),
        };
        if !S::SENDS_TEXT {
            let requests = std::iter::repeat_n(&fixed.prepared, batches).flatten();
            return sending.send_each(requests, buffer, at_ns);
        }
        let range = 0..batches * fixed.batch_bytes;
        let requests = Requests {
            text: &fixed.text[range.clone()],
            prepared: &fixed.prepared[..batches * fixed.batch_requests as usize],
        };
        let started = sending.start(requests, at_ns, &mut buffer);
        let payload = match S::TRANSPARENT {
            true => Payload::Shared {
                bytes: fixed.shared,
                range,
            },
            false => Payload::Owned(buffer),
        };
        sending.send(payload, requests.prepared.len(), started, at_ns)
    }

    /// Prepares the batches that a source has written, to be sent by [`Self::send_prepared`].
    pub(super) fn prepare(
        &mut self,
        session_shared: &mut S::Shared,
        text: &[u8],
        batches: u32,
    ) -> Result<(), String> {
        self.prepared.clear();
        let prepared = prepare_all::<S>(session_shared, text, &mut self.prepared);
        // The first request was checked before the run. A later one with, for example, an empty
        // path is sent as it is, as in wrk, and the server's response to it counts. But if the head
        // has no end, the server would wait for it.
        if S::SENDS_TEXT && prepared.is_err() && text.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            let opaque = S::prepare(session_shared, &RequestText::OPAQUE);
            self.prepared.push(opaque);
            return Ok(());
        }
        prepared?;
        match S::SENDS_TEXT || self.prepared.len() == batches as usize {
            true => Ok(()),
            false => Err(ONE_AT_A_TIME.to_owned()),
        }
    }

    /// Sends the requests of the last [`Self::prepare`], whose text this is.
    pub(super) fn send_prepared<L: EventLoop>(
        &mut self,
        mut sending: Sending<'_, L, S>,
        text: Vec<u8>,
        at_ns: u64,
    ) -> Sent {
        let requests = Requests {
            text: &text,
            prepared: &self.prepared,
        };
        let count = requests.prepared.len();
        if S::TRANSPARENT {
            let started = sending.start(requests, at_ns, &mut Vec::new());
            return sending.send(Payload::Owned(text), count, started, at_ns);
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        let sent = if S::SENDS_TEXT {
            let started = sending.start(requests, at_ns, &mut buffer);
            sending.send(Payload::Owned(buffer), count, started, at_ns)
        } else {
            sending.send_each(&self.prepared, buffer, at_ns)
        };
        self.recycle(text);
        sent
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

/// Appends the requests in a text.
fn prepare_all<S: Session>(
    session_shared: &mut S::Shared,
    text: &[u8],
    prepared: &mut Vec<S::Prepared>,
) -> Result<(), String> {
    for request in request::split(text) {
        let request = request.map_err(|error| error.to_string())?;
        prepared.push(S::prepare(session_shared, &request));
    }
    Ok(())
}

impl<'a, L: EventLoop, S: Session> Sending<'a, L, S> {
    /// On this connection. `None` if it has no socket.
    #[inline]
    pub(super) fn on(
        connection: &'a mut Connection<S>,
        io: &'a mut L,
        shared: &'a mut S::Shared,
        due_ns: Option<u64>,
    ) -> Option<Self> {
        Some(Self {
            io,
            shared,
            session: &mut connection.session,
            exchanges: &mut connection.exchanges,
            buffers: &mut connection.sending,
            token: connection.token?,
            due_ns,
        })
    }

    /// Starts one exchange.
    #[inline]
    fn start(
        &mut self,
        requests: Requests<'_, S::Prepared>,
        at_ns: u64,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let id = self.exchanges.next_id();
        self.session.start(self.shared, id, requests, output)?;
        self.exchanges.add(Exchange {
            due_ns: self.due_ns.unwrap_or(at_ns),
            sent_ns: at_ns,
            began_ns: None,
            requests: requests.prepared.len() as u32,
        });
        Ok(())
    }

    /// Sends the bytes of one exchange with this many requests.
    #[inline]
    fn send(
        self,
        payload: Payload,
        requests: usize,
        started: Result<(), SessionError>,
        at_ns: u64,
    ) -> Sent {
        if let Err(error) = started {
            return Sent {
                error: Some(error),
                ..Sent::nothing(at_ns)
            };
        }
        self.io.send(self.token, payload);
        Sent {
            requests: requests as u32,
            ..Sent::nothing(at_ns)
        }
    }

    /// Starts an exchange for each request and sends them together.
    fn send_each<'p>(
        mut self,
        requests: impl IntoIterator<Item = &'p S::Prepared>,
        mut buffer: Vec<u8>,
        at_ns: u64,
    ) -> Sent
    where
        S::Prepared: 'p,
    {
        let mut sent = Sent::nothing(at_ns);
        for request in requests {
            let one = Requests {
                text: b"",
                prepared: std::slice::from_ref(request),
            };
            match self.start(one, at_ns, &mut buffer) {
                Ok(()) => sent.requests += 1,
                Err(error) => {
                    sent.error = Some(error);
                    break;
                }
            }
        }
        *self.buffers += 1;
        self.io.send(self.token, Payload::Owned(buffer));
        sent
    }
}

impl Sent {
    fn nothing(at_ns: u64) -> Self {
        Self {
            requests: 0,
            at_ns,
            error: None,
        }
    }
}
