//! Writes requests to connections: the prepared batches, or those of a source.

use super::network::{Network, SpareBuffers};
use crate::WorkerError;
use crate::exchanges::{Exchange, Exchanges};
use crate::source::FromFile;
use eventloop::{EventLoop, Payload, SharedBytes, Token};
use protocol::request::{self, RequestError, RequestText};
use protocol::{Captured, ExchangeId, Requests, Session, SessionError, Transport};
use requests::conversations::Dialogue;
use requests::{RecordedRequests, Renderer, RequestSet};
use results::Attribution;
use std::sync::Arc;

/// The most requests of a file whose heads are encoded before the run (HTTP/2, HTTP/3). Each worker
/// has them in memory, so those of a larger file are encoded when they are sent.
const ENCODED_MAX: usize = 1 << 14;

/// Where requests come from.
pub(super) enum Batches<P> {
    /// The same batch every time.
    Fixed(FixedBatch<P>),
    /// The requests of a file.
    FromFile(Box<FileRequests<P>>),
    /// The source provides each batch.
    FromSource,
}

/// The requests of a file, prepared.
pub(super) struct FileRequests<P> {
    file: FromFile,
    renderer: Renderer,
    /// By request, or empty. Over HTTP/2, one with templates is prepared each time.
    prepared: Vec<P>,
    /// The bytes of all requests.
    shared: SharedBytes,
    /// The text of one request that is not sent as it is.
    text: Vec<u8>,
    /// The names of the requests that were sent last; empty if requests have no names.
    names_sent: Vec<u32>,
    /// In a replay: the number of the next request in the log.
    claimed: u64,
}

/// What is noted about a request of a file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RequestLabel {
    /// The number of its name.
    name: u32,
    logged_status: u16,
}

/// A request of a file that is to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chosen {
    /// Its index in the set.
    request: usize,
    /// The index of its host.
    pub(super) host: u32,
    logged_status: u16,
    /// The client that sends it.
    client: u32,
}

impl Chosen {
    /// Its index in the set.
    pub(super) fn request(&self) -> usize {
        self.request
    }
}

impl<P> FileRequests<P> {
    /// The names by which requests are counted.
    pub(super) fn names(&self) -> &[String] {
        self.file.set.names()
    }

    /// The names of the requests that were sent last.
    #[inline]
    pub(super) fn names_sent(&self) -> &[u32] {
        &self.names_sent
    }

    #[inline]
    fn choose(&mut self, client: u32) -> Chosen {
        let (request, logged_status) = match self.file.set.recorded() {
            Some(recorded) => recorded.nth(self.claimed),
            None => (self.renderer.next_request(client), 0),
        };
        Chosen {
            request,
            host: self.file.set.host(request),
            logged_status,
            client,
        }
    }
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
    context: &'a mut S::Context,
    session: &'a mut S,
    exchanges: &'a mut Exchanges,
    /// Buffers that the kernel has not taken yet.
    buffers: &'a mut u32,
    spare: &'a mut SpareBuffers,
    token: Token,
    /// When the requests were due. `None` in a closed loop.
    due_ns: Option<u64>,
    /// When a request could have been sent, also if the load generator had never been late; 0 in a
    /// closed loop, where nothing is due.
    free_ns: u64,
    ideal_free_ns: u64,
}

/// How many exchanges were started, and why no more.
pub(super) struct SentRequests {
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
    /// The text that `prepared` is from. Most scripts return the same text again and again, and
    /// comparing it takes a tenth of the time of parsing it.
    prepared_text: Vec<u8>,
}

impl<S: Session> RequestWriter<S> {
    /// Prepares the fixed batch of a source, if it has one.
    pub(super) fn new<L: EventLoop>(
        io: &mut L,
        context: &mut S::Context,
        fixed: Option<&[u8]>,
        pipeline: u32,
    ) -> Result<Self, WorkerError> {
        let batches = match fixed {
            Some(batch) => {
                let mut prepared = Vec::new();
                let times = if S::SENDS_TEXT { pipeline } else { 1 };
                for _ in 0..times {
                    prepare_all::<S>(context, batch, &mut prepared)?;
                }
                if !S::SENDS_TEXT && prepared.len() > 1 {
                    return Err(WorkerError::SeveralRequests);
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
            prepared_text: Vec::new(),
        })
    }

    /// Prepares the requests of a file for worker `number` of `total`, which has this many clients.
    pub(super) fn of_file<L: EventLoop>(
        io: &mut L,
        context: &mut S::Context,
        file: FromFile,
        (number, total): (u32, u32),
        clients: u32,
    ) -> Result<Self, WorkerError> {
        let set = &file.set;
        let count = if S::SENDS_TEXT || set.len() <= ENCODED_MAX {
            set.len()
        } else {
            0
        };
        let mut prepared = Vec::with_capacity(count);
        for request in 0..count {
            match set.fixed(request) {
                Some(range) => {
                    prepare_all::<S>(context, &set.bytes()[range], &mut prepared)?;
                }
                None => prepare_all::<S>(context, &set.sample(request), &mut prepared)?,
            }
        }
        let shared = if S::TRANSPARENT {
            io.share(Arc::clone(set.bytes()))
        } else {
            SharedBytes(0)
        };
        Ok(Self {
            batches: Batches::FromFile(Box::new(FileRequests {
                renderer: Renderer::new(Arc::clone(set), file.seed, number, total)
                    .with_clients(clients),
                file,
                prepared,
                shared,
                text: Vec::new(),
                names_sent: Vec::new(),
                claimed: 0,
            })),
            prepared: Vec::new(),
            prepared_text: Vec::new(),
        })
    }

    /// The requests of a log, in a replay.
    pub(super) fn recorded(&self) -> Option<&RecordedRequests> {
        match &self.batches {
            Batches::FromFile(file) => file.file.set.recorded(),
            Batches::Fixed(_) | Batches::FromSource => None,
        }
    }

    /// The request of a file that is sent next has this number in the schedule.
    #[inline]
    pub(super) fn claim(&mut self, number: u64) {
        if let Batches::FromFile(file) = &mut self.batches {
            file.claimed = number;
        }
    }

    /// Sends this many of the prepared batches or requests of the file, at `at_ns` if given.
    #[inline]
    pub(super) fn send<L: EventLoop>(
        &mut self,
        sending: Sending<'_, L, S>,
        batches: u32,
        at_ns: Option<u64>,
    ) -> SentRequests {
        let at_ns = at_ns.unwrap_or_else(|| sending.io.now_ns());
        match &mut self.batches {
            Batches::Fixed(fixed) => fixed.send(sending, batches as usize, at_ns),
            Batches::FromFile(file) if S::TRANSPARENT && batches == 1 => {
                let chosen = file.choose(0);
                file.send(sending, chosen, at_ns)
            }
            Batches::FromFile(file) => file.send_several(sending, batches, at_ns),
            Batches::FromSource => SentRequests::nothing(at_ns),
        }
    }

    /// Sends this request of the file.
    #[inline]
    pub(super) fn send_chosen<L: EventLoop>(
        &mut self,
        sending: Sending<'_, L, S>,
        chosen: Chosen,
        at_ns: u64,
    ) -> SentRequests {
        match &mut self.batches {
            Batches::FromFile(file) => file.send(sending, chosen, at_ns),
            Batches::Fixed(_) | Batches::FromSource => SentRequests::nothing(at_ns),
        }
    }

    /// The next request of the file for a client.
    pub(super) fn choose(&mut self, client: u32) -> Option<Chosen> {
        match &mut self.batches {
            Batches::FromFile(file) => Some(file.choose(client)),
            Batches::Fixed(_) | Batches::FromSource => None,
        }
    }

    /// The file, if its requests are turns of conversations, and its seed.
    pub(super) fn conversations(&self) -> Option<(Arc<RequestSet>, u64)> {
        match &self.batches {
            Batches::FromFile(file) if file.file.set.has_conversations() => {
                Some((Arc::clone(&file.file.set), file.file.seed))
            }
            _ => None,
        }
    }

    /// Writes the next request of a conversation, which has this name, as text.
    pub(super) fn turn_text(
        &mut self,
        chosen: Chosen,
        said: (&Dialogue, &[u8]),
        text: &mut Vec<u8>,
        at_ns: u64,
    ) -> Option<RequestLabel> {
        let Batches::FromFile(file) = &mut self.batches else {
            return None;
        };
        let now = file.file.moment(at_ns);
        file.renderer.render_turn(chosen.request, said, now, text);
        let label = file.label(chosen);
        file.names_sent.clear();
        file.note_name(label.name);
        Some(label)
    }

    /// Whether requests capture values of responses.
    pub(super) fn has_captures(&self) -> bool {
        match &self.batches {
            Batches::FromFile(file) => file.file.set.has_captures(),
            Batches::Fixed(_) | Batches::FromSource => false,
        }
    }

    /// Takes what the last request of a client captures from its response. Returns whether every
    /// value was there.
    pub(super) fn receive(&mut self, client: u32, response: &Captured) -> bool {
        match &mut self.batches {
            Batches::FromFile(file) => file.renderer.receive(client, response),
            Batches::Fixed(_) | Batches::FromSource => true,
        }
    }

    /// Writes this request of the file, or the next one of a client, or the fixed batch, as text.
    pub(super) fn next_text(
        &mut self,
        client: u32,
        chosen: Option<Chosen>,
        text: &mut Vec<u8>,
        at_ns: u64,
    ) -> RequestLabel {
        match &mut self.batches {
            Batches::Fixed(fixed) => {
                text.extend_from_slice(&fixed.text[..fixed.batch_bytes]);
                RequestLabel::default()
            }
            Batches::FromFile(file) => {
                let chosen = chosen.unwrap_or_else(|| file.choose(client));
                let now = file.file.moment(at_ns);
                file.renderer
                    .render(chosen.request, chosen.client, now, text);
                let label = file.label(chosen);
                file.names_sent.clear();
                file.note_name(label.name);
                label
            }
            Batches::FromSource => RequestLabel::default(),
        }
    }

    /// Prepares the batches that a source has written, to be sent by [`Self::send_prepared`].
    pub(super) fn prepare(
        &mut self,
        context: &mut S::Context,
        text: &[u8],
        batches: u32,
    ) -> Result<(), WorkerError> {
        if text.is_empty() || self.prepared_text != text {
            self.prepared.clear();
            self.prepared_text.clear();
            let prepared = prepare_all::<S>(context, text, &mut self.prepared);
            // The first request was checked before the run. A later one with, for example, an empty
            // path is sent as it is, as in wrk, and the server's response to it counts. But if the
            // head has no end, the server would wait for it.
            if S::SENDS_TEXT
                && prepared.is_err()
                && text.windows(4).any(|bytes| bytes == b"\r\n\r\n")
            {
                let opaque = S::prepare(context, &RequestText::OPAQUE);
                self.prepared.push(opaque);
                return Ok(());
            }
            prepared?;
            self.prepared_text.extend_from_slice(text);
        }
        if S::SENDS_TEXT || self.prepared.len() == batches as usize {
            Ok(())
        } else {
            Err(WorkerError::SeveralRequests)
        }
    }

    /// Sends the requests of the last [`Self::prepare`], whose text this is.
    pub(super) fn send_prepared<L: EventLoop>(
        &mut self,
        mut sending: Sending<'_, L, S>,
        text: Vec<u8>,
        label: RequestLabel,
        at_ns: u64,
    ) -> SentRequests {
        let requests = Requests {
            text: &text,
            prepared: &self.prepared,
        };
        let count = requests.prepared.len();
        if S::TRANSPARENT {
            let started = sending.start_labelled(requests, label, at_ns, &mut Vec::new());
            return sending.send(Payload::Owned(text), count, started, at_ns);
        }
        let mut buffer = sending.output_buffer();
        if S::SENDS_TEXT {
            let started = sending.start_labelled(requests, label, at_ns, &mut buffer);
            sending.spare.recycle(text);
            sending.send(Payload::Owned(buffer), count, started, at_ns)
        } else {
            sending.spare.recycle(text);
            sending.send_each(&self.prepared, label, buffer, at_ns)
        }
    }
}

impl<P> FixedBatch<P> {
    /// Sends this many batches.
    #[inline]
    fn send<L: EventLoop, S: Session<Prepared = P>>(
        &self,
        mut sending: Sending<'_, L, S>,
        batches: usize,
        at_ns: u64,
    ) -> SentRequests {
        let mut buffer = sending.output_buffer();
        if !S::SENDS_TEXT {
            let requests = std::iter::repeat_n(&self.prepared, batches).flatten();
            return sending.send_each(requests, RequestLabel::default(), buffer, at_ns);
        }
        let range = 0..batches * self.batch_bytes;
        let requests = Requests {
            text: &self.text[range.clone()],
            prepared: &self.prepared[..batches * self.batch_requests as usize],
        };
        let started = sending.start(requests, at_ns, &mut buffer);
        let payload = if S::TRANSPARENT {
            Payload::Shared {
                bytes: self.shared,
                range,
            }
        } else {
            Payload::Owned(buffer)
        };
        sending.send(payload, requests.prepared.len(), started, at_ns)
    }
}

impl<P> FileRequests<P> {
    /// Sends this request.
    #[inline]
    fn send<L: EventLoop, S: Session<Prepared = P>>(
        &mut self,
        mut sending: Sending<'_, L, S>,
        chosen: Chosen,
        at_ns: u64,
    ) -> SentRequests {
        self.names_sent.clear();
        if S::TRANSPARENT
            && let Some(range) = self.file.set.fixed(chosen.request)
        {
            let payload = Payload::Shared {
                bytes: self.shared,
                range,
            };
            let started = self.start(chosen, b"", &mut sending, at_ns, &mut Vec::new());
            return sending.send(payload, 1, started, at_ns);
        }
        let mut buffer = sending.output_buffer();
        let started = self.start_chosen(chosen, &mut sending, at_ns, &mut buffer);
        let is_counted = !S::SENDS_TEXT && S::TRANSPORT == Transport::Stream;
        *sending.buffers += u32::from(is_counted && started.is_ok());
        sending.send(Payload::Owned(buffer), 1, started, at_ns)
    }

    /// Starts the exchange of a request that is prepared. `text` is empty where the caller sends
    /// it.
    #[inline]
    fn start<L: EventLoop, S: Session<Prepared = P>>(
        &mut self,
        chosen: Chosen,
        text: &[u8],
        sending: &mut Sending<'_, L, S>,
        at_ns: u64,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let requests = Requests {
            text,
            prepared: std::slice::from_ref(&self.prepared[chosen.request]),
        };
        let label = self.label(chosen);
        sending.start_labelled(requests, label, at_ns, output)?;
        self.note_name(label.name);
        Ok(())
    }

    #[inline]
    fn label(&self, chosen: Chosen) -> RequestLabel {
        RequestLabel {
            name: self.file.set.name(chosen.request),
            logged_status: chosen.logged_status,
        }
    }

    #[inline]
    fn note_name(&mut self, name: u32) {
        if !self.file.set.names().is_empty() {
            self.names_sent.push(name);
        }
    }

    /// Starts an exchange for each of several requests and sends them together.
    fn send_several<L: EventLoop, S: Session<Prepared = P>>(
        &mut self,
        mut sending: Sending<'_, L, S>,
        requests: u32,
        at_ns: u64,
    ) -> SentRequests {
        self.names_sent.clear();
        let mut buffer = sending.output_buffer();
        let mut sent = SentRequests::nothing(at_ns);
        for _ in 0..requests {
            match self.start_next(&mut sending, at_ns, &mut buffer) {
                Ok(()) => sent.requests += 1,
                Err(error) => {
                    sent.error = Some(error);
                    break;
                }
            }
        }
        if !buffer.is_empty() {
            *sending.buffers += u32::from(!S::SENDS_TEXT);
            sending.io.send(sending.token, Payload::Owned(buffer));
        }
        sent
    }

    /// Starts the exchange of the next request and appends its bytes.
    fn start_next<L: EventLoop, S: Session<Prepared = P>>(
        &mut self,
        sending: &mut Sending<'_, L, S>,
        at_ns: u64,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let chosen = self.choose(0);
        self.start_chosen(chosen, sending, at_ns, output)
    }

    /// Starts the exchange of this request and appends its bytes.
    #[inline]
    fn start_chosen<L: EventLoop, S: Session<Prepared = P>>(
        &mut self,
        chosen: Chosen,
        sending: &mut Sending<'_, L, S>,
        at_ns: u64,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let request = chosen.request;
        let now = self.file.moment(at_ns);
        if S::TRANSPARENT {
            self.renderer.render(request, chosen.client, now, output);
            return self.start(chosen, b"", sending, at_ns, output);
        }
        let is_fixed = || self.file.set.fixed(request).is_some();
        if !S::SENDS_TEXT && !self.prepared.is_empty() && is_fixed() {
            return self.start(chosen, b"", sending, at_ns, output);
        }
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        self.renderer.render(request, chosen.client, now, &mut text);
        let started = if S::SENDS_TEXT {
            self.start(chosen, &text, sending, at_ns, output)
        } else {
            self.start_rendered(chosen, &text, sending, at_ns, output)
        };
        self.text = text;
        started
    }

    /// Starts the exchange of a request whose text must be prepared first.
    fn start_rendered<L: EventLoop, S: Session<Prepared = P>>(
        &mut self,
        chosen: Chosen,
        text: &[u8],
        sending: &mut Sending<'_, L, S>,
        at_ns: u64,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        // It is a valid request, also with the values of a template: it was checked before the run.
        let parsed = request::split(text).next().and_then(Result::ok);
        let prepared = parsed.map(|parsed| S::prepare(sending.context, &parsed));
        let requests = Requests {
            text,
            prepared: prepared.as_slice(),
        };
        let label = self.label(chosen);
        sending.start_labelled(requests, label, at_ns, output)?;
        self.note_name(label.name);
        Ok(())
    }
}

/// Appends the requests in a text.
fn prepare_all<S: Session>(
    context: &mut S::Context,
    text: &[u8],
    prepared: &mut Vec<S::Prepared>,
) -> Result<(), RequestError> {
    for request in request::split(text) {
        prepared.push(S::prepare(context, &request?));
    }
    Ok(())
}

impl<'a, L: EventLoop, S: Session> Sending<'a, L, S> {
    /// Starts exchanges on this connection; `None` if it has no socket.
    #[inline]
    pub(super) fn on(
        network: &'a mut Network<L, S>,
        key: u32,
        due_ns: Option<u64>,
    ) -> Option<Self> {
        let connection = &mut network.pool[key];
        let (free_ns, ideal_free_ns) = match due_ns {
            Some(_) => (connection.free_ns, connection.ideal_free_ns()),
            None => (0, 0),
        };
        Some(Self {
            free_ns,
            ideal_free_ns,
            io: &mut network.io,
            context: &mut network.context,
            spare: &mut network.spare,
            session: &mut connection.session,
            exchanges: &mut connection.exchanges,
            buffers: &mut connection.sending,
            token: connection.token?,
            due_ns,
        })
    }

    /// How much later than without delays of the load generator a request is sent that is sent now.
    /// Delays of less than [`Attribution::MIN_NS`] do not add up.
    #[inline]
    fn own_ns(&self, now_ns: u64) -> u64 {
        let Some(due_ns) = self.due_ns else { return 0 };
        let possible_ns = due_ns.max(self.free_ns);
        let ideal_ns = due_ns.max(self.ideal_free_ns);
        match now_ns.saturating_sub(possible_ns) {
            0..Attribution::MIN_NS => possible_ns.saturating_sub(ideal_ns),
            _ => now_ns.saturating_sub(ideal_ns),
        }
    }

    /// The buffer for what a session appends when an exchange starts, which may be nothing.
    #[inline]
    fn output_buffer(&mut self) -> Vec<u8> {
        if S::TRANSPARENT || S::TRANSPORT == Transport::Datagrams {
            Vec::new()
        } else {
            self.spare.take()
        }
    }

    /// The number of the exchange that is started next.
    pub(super) fn next_id(&self) -> ExchangeId {
        self.exchanges.next_id()
    }

    /// Starts one exchange and appends its bytes.
    #[inline]
    fn start(
        &mut self,
        requests: Requests<'_, S::Prepared>,
        at_ns: u64,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        self.start_labelled(requests, RequestLabel::default(), at_ns, output)
    }

    /// Starts one exchange, whose requests have this label.
    #[inline]
    fn start_labelled(
        &mut self,
        requests: Requests<'_, S::Prepared>,
        label: RequestLabel,
        at_ns: u64,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let id = self.exchanges.next_id();
        self.session.start(self.context, id, requests, output)?;
        self.exchanges.add(Exchange {
            due_ns: self.due_ns.unwrap_or(at_ns),
            sent_ns: at_ns,
            own_ns: self.own_ns(at_ns),
            queued_ns: 0,
            began_ns: None,
            event_ns: 0,
            requests: requests.prepared.len() as u32,
            name: label.name,
            logged_status: label.logged_status,
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
    ) -> SentRequests {
        if let Err(error) = started {
            return SentRequests {
                error: Some(error),
                ..SentRequests::nothing(at_ns)
            };
        }
        if S::TRANSPORT == Transport::Stream {
            self.io.send(self.token, payload);
        }
        SentRequests {
            requests: requests as u32,
            ..SentRequests::nothing(at_ns)
        }
    }

    /// Starts an exchange for each request and sends them together.
    fn send_each<'p>(
        mut self,
        requests: impl IntoIterator<Item = &'p S::Prepared>,
        label: RequestLabel,
        mut buffer: Vec<u8>,
        at_ns: u64,
    ) -> SentRequests
    where
        S::Prepared: 'p,
    {
        let mut sent = SentRequests::nothing(at_ns);
        for request in requests {
            let one = Requests {
                text: b"",
                prepared: std::slice::from_ref(request),
            };
            match self.start_labelled(one, label, at_ns, &mut buffer) {
                Ok(()) => sent.requests += 1,
                Err(error) => {
                    sent.error = Some(error);
                    break;
                }
            }
        }
        if S::TRANSPORT == Transport::Stream {
            *self.buffers += 1;
            self.io.send(self.token, Payload::Owned(buffer));
        }
        sent
    }
}

impl SentRequests {
    fn nothing(at_ns: u64) -> Self {
        Self {
            requests: 0,
            at_ns,
            error: None,
        }
    }
}
