//! One thread's work: its event loop, its connections, its recording.
//!
//! A worker shares nothing with the others while it runs and allocates nothing per request. It waits,
//! takes completions, and lets each connection go on: answer complete, next request out.

use crate::connection::{Connection, State};
use crate::control::{Locker, Parked, Schedule, StopFlag};
use crate::failure;
use crate::recorder::{Answer, Recorder};
use crate::source::{RequestSource, SourceError};
use crate::timers::Timers;
use eventloop::{
    Address, CloseMode, Completion, EventLoop, Outcome, Payload, SharedBytes, SocketOptions,
};
use protocol::h1::request;
use protocol::{Event, RequestKind, Response, Session, SessionError};
use results::{ErrorKind, Recording};

/// What a worker has to do; one share of the plan.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to connect.
    pub address: Address,
    /// How.
    pub options: SocketOptions,
    /// Connections of this worker.
    pub connections: u32,
    /// Batches in flight on a connection.
    pub pipeline: u32,
    /// Requests after which a connection is replaced; 1 without keep-alive.
    pub requests_per_connection: u64,
    /// Longest time for a request, and for setting up a connection.
    pub timeout_ns: u64,
    /// Requests to send within the window; `None`: as many as the time allows.
    pub requests: Option<u64>,
    /// Seed of the back-off's jitter.
    pub seed: u64,
}

/// How a worker's run ended.
pub struct Ended {
    /// Everything it counted.
    pub recording: Recording,
    /// When it stopped, CLOCK_MONOTONIC.
    pub ended_ns: u64,
    /// The reason, when it could not go on.
    pub failure: Option<String>,
}

/// Why the run of a worker stops before its time.
enum Stop {
    /// The source or the loop failed; the text says how.
    Failed(String),
    /// The source wants no more.
    Wanted,
    /// The main thread has taken the recording, as a script did not return.
    GivenUp,
}

impl From<SourceError> for Stop {
    fn from(error: SourceError) -> Self {
        Self::Failed(error.message)
    }
}

/// Where requests come from.
enum Requests {
    /// The same batch every time, made ready `pipeline` times over.
    Fixed {
        bytes: Vec<u8>,
        batch_bytes: usize,
        kinds: Vec<RequestKind>,
        shared: SharedBytes,
    },
    /// The source is asked each time.
    Asked,
}

/// See the module's text.
pub(crate) struct Worker<L, S: Session> {
    io: L,
    shared: S::Shared,
    settings: Settings,
    connections: Vec<Connection<S>>,
    /// When something that was put off is to happen.
    wakes: Timers,
    /// When patience with a connection ends.
    deadlines: Timers,
    source: Box<dyn RequestSource>,
    requests: Requests,
    wants_delay: bool,
    /// Absent only while the script runs, see [`Locker`].
    recorder: Option<Box<Recorder>>,
    locker: Locker,
    schedule: Schedule,
    /// Requests still to be sent within the window.
    budget: u64,
    /// Outstanding requests over all connections.
    outstanding: u64,
    /// The last answer; without any for long, a run without time limit gives up.
    progress_ns: u64,
    random: fastrand::Rng,
    events: Vec<Event>,
    output: Vec<u8>,
    kinds: Vec<RequestKind>,
    /// Send buffers that came back.
    spare: Vec<Vec<u8>>,
}

/// The longest wait: so soon a stop is noticed.
const TICK_NS: u64 = 10_000_000;
/// Completions taken before clock, timers and the stop are looked at again.
const COMPLETIONS_PER_TURN: usize = 256;
/// The first pause after repeated failures, and the longest.
const BACK_OFF_FIRST_NS: u64 = 1_000_000;
const BACK_OFF_LAST_NS: u64 = 1_000_000_000;
/// A run that is ended by a number of requests only gives up after so long without any answer.
const NO_PROGRESS_NS: u64 = 30_000_000_000;
/// Send buffers kept for reuse.
const SPARE_BUFFERS: usize = 1024;

impl<L: EventLoop, S: Session> Worker<L, S> {
    pub(crate) fn new(
        mut io: L,
        mut shared: S::Shared,
        settings: Settings,
        source: Box<dyn RequestSource>,
        locker: Locker,
    ) -> Result<Self, String> {
        let requests = match source.fixed() {
            Some(batch) => fixed_requests::<L, S>(&mut io, &batch, settings.pipeline)?,
            None => Requests::Asked,
        };
        let connections = (0..settings.connections)
            .map(|_| Connection::new(S::new(&mut shared)))
            .collect::<Vec<_>>();
        Ok(Self {
            io,
            shared,
            wakes: Timers::new(connections.len()),
            deadlines: Timers::new(connections.len()),
            connections,
            wants_delay: source.wants_delay(),
            source,
            requests,
            recorder: None,
            locker,
            schedule: Schedule {
                start_ns: 0,
                measure_ns: 0,
                end_ns: 0,
            },
            budget: settings.requests.unwrap_or(u64::MAX),
            outstanding: 0,
            progress_ns: 0,
            random: fastrand::Rng::with_seed(settings.seed),
            events: Vec::with_capacity(64),
            output: Vec::new(),
            kinds: Vec::new(),
            spare: Vec::new(),
            settings,
        })
    }

    /// Runs to the end of the schedule, or until something else ends it. `None` when the main
    /// thread has given this worker up and taken its recording.
    pub(crate) fn run(&mut self, schedule: Schedule, stop: &StopFlag) -> Option<Ended> {
        self.schedule = schedule;
        self.recorder = Some(Box::new(Recorder::new(schedule.measure_ns)));
        let failure = match self.drive(stop) {
            Ok(()) | Err(Stop::Wanted) => None,
            Err(Stop::Failed(message)) => Some(message),
            Err(Stop::GivenUp) => return None,
        };
        let ended_ns = self.io.now_ns().min(schedule.end_ns);
        self.count_in_flight(ended_ns);
        let recording = self.recorder.take()?.finish(ended_ns);
        Some(Ended {
            recording,
            ended_ns,
            failure,
        })
    }

    fn drive(&mut self, stop: &StopFlag) -> Result<(), Stop> {
        while self.io.now_ns() < self.schedule.start_ns {
            self.wait(self.schedule.start_ns)?;
        }
        self.progress_ns = self.schedule.start_ns;
        // What the script's `setup` or `init` has chosen.
        if let Some(address) = self.source.take_address() {
            self.settings.address = address;
        }
        for key in 0..self.settings.connections {
            self.open(key, self.schedule.start_ns);
        }
        loop {
            let now_ns = self.io.now_ns();
            if now_ns >= self.schedule.end_ns || stop.is_raised() || self.is_finished(now_ns) {
                return Ok(());
            }
            while let Some(key) = self.wakes.take_due(now_ns) {
                self.on_wake(key, now_ns)?;
            }
            while let Some(key) = self.deadlines.take_due(now_ns) {
                self.on_deadline(key, now_ns);
            }
            self.recorder().tick(now_ns);
            let timers = [self.wakes.next_ns(), self.deadlines.next_ns()];
            let until_ns = timers
                .into_iter()
                .flatten()
                .fold(self.schedule.end_ns.min(now_ns + TICK_NS), u64::min);
            self.wait(until_ns)?;
            // A turn is bounded: with thousands of connections at once it could outlast the end.
            for _ in 0..COMPLETIONS_PER_TURN {
                let Some(completion) = self.io.next() else {
                    break;
                };
                // Nothing that was seen after the end is counted.
                if completion.at_ns >= self.schedule.end_ns {
                    return Ok(());
                }
                self.on_completion(completion)?;
            }
        }
    }

    fn wait(&mut self, until_ns: u64) -> Result<(), Stop> {
        self.io
            .wait(Some(until_ns))
            .map_err(|error| Stop::Failed(format!("the event loop failed: {error}")))
    }

    fn is_finished(&self, now_ns: u64) -> bool {
        let stuck = self.schedule.end_ns == u64::MAX
            && now_ns.saturating_sub(self.progress_ns) > NO_PROGRESS_NS;
        (self.budget == 0 && self.outstanding == 0) || stuck
    }

    fn on_completion(&mut self, completion: Completion) -> Result<(), Stop> {
        let Completion {
            key,
            token,
            at_ns,
            outcome,
        } = completion;
        let connection = &mut self.connections[key as usize];
        if connection.token != Some(token) {
            // The end of a connection that has been replaced; its buffers are welcome.
            if let Outcome::Sent(buffer) = outcome {
                self.recycle(buffer);
            }
            return Ok(());
        }
        match outcome {
            Outcome::Received(_) => self.on_received(key, at_ns),
            Outcome::Sent(buffer) => {
                self.recycle(buffer);
                Ok(())
            }
            Outcome::Connected => self.on_connected(key, at_ns),
            Outcome::EndOfStream => self.on_end(key, at_ns),
            Outcome::ConnectFailed(errno) => {
                connection.token = None;
                self.fail(key, failure::of_connect(errno), at_ns);
                Ok(())
            }
            Outcome::ReceiveFailed(errno) => {
                self.on_receive_failed(key, errno, at_ns);
                Ok(())
            }
            Outcome::SendFailed(_) => {
                // Why is to be seen on the receiving side, where an early answer may stand too.
                connection.send_failed = true;
                Ok(())
            }
            Outcome::Closed | Outcome::Accepted => Ok(()),
        }
    }

    // ---- Connections -------------------------------------------------------------------------

    fn open(&mut self, key: u32, now_ns: u64) {
        let connection = &mut self.connections[key as usize];
        connection.state = State::Connecting;
        connection.since_ns = now_ns;
        connection.sent = 0;
        connection.answered = 0;
        connection.send_failed = false;
        let token = self
            .io
            .connect(key, &self.settings.address, &self.settings.options);
        connection.token = Some(token);
        self.deadlines
            .set(key, now_ns.saturating_add(self.settings.timeout_ns));
    }

    fn on_connected(&mut self, key: u32, at_ns: u64) -> Result<(), Stop> {
        let connection = &mut self.connections[key as usize];
        let took_ns = at_ns.saturating_sub(connection.since_ns);
        connection.connect_took_ns = took_ns;
        connection.since_ns = at_ns;
        let begun = connection.session.begin(&mut self.shared, &mut self.output);
        let ready = connection.session.is_ready();
        connection.state = if ready {
            State::Open
        } else {
            State::Handshaking
        };
        if self.recorder().measures(at_ns) {
            self.recorder().connected(took_ns);
        }
        self.flush_output(key);
        match begun {
            Err(error) => {
                self.fail(key, failure::of_session(&error), at_ns);
                Ok(())
            }
            Ok(()) if ready => self.advance(key, at_ns),
            Ok(()) => {
                self.deadlines
                    .set(key, at_ns.saturating_add(self.settings.timeout_ns));
                Ok(())
            }
        }
    }

    /// Closes the socket and forgets what was outstanding; bytes that did arrive are counted.
    fn disconnect(&mut self, key: u32) {
        let connection = &mut self.connections[key as usize];
        if let Some(token) = connection.token.take() {
            self.io.close(token, CloseMode::Graceful);
        }
        let oldest_ns = connection.flights.oldest_sent_ns();
        let partial = connection.session.partial_bytes();
        self.outstanding -= u64::from(connection.flights.outstanding());
        connection.flights.clear();
        connection.began_ns = None;
        connection.state = State::Waiting;
        if oldest_ns.is_some_and(|sent_ns| self.recorder().measures(sent_ns)) {
            self.recorder().bytes(partial);
        }
    }

    /// Replaces a connection that ended in good order.
    fn reopen(&mut self, key: u32, now_ns: u64) {
        self.disconnect(key);
        if self.budget == 0 || self.has_enough_opening(now_ns) {
            self.connections[key as usize].state = State::Done;
        } else {
            self.open(key, now_ns);
        }
    }

    /// Whether connections that are being set up will use the budget up: one more would carry no
    /// request. Those that fail are tried again, so that they suffice.
    fn has_enough_opening(&self, now_ns: u64) -> bool {
        let is_opening = |connection: &&Connection<S>| {
            matches!(connection.state, State::Connecting | State::Handshaking)
        };
        // Counted only near the end, since it is a walk over all connections.
        now_ns >= self.schedule.measure_ns
            && self.budget < self.connections.len() as u64
            && self.connections.iter().filter(is_opening).count() as u64 >= self.budget
    }

    /// Replaces a connection that the server closed while we were thinking, when the thought is due.
    /// Earlier it would only be closed again, and thinking anew would put the request off for ever.
    fn reopen_when_due(&mut self, key: u32) {
        let due_ns = self.connections[key as usize].due_ns;
        self.disconnect(key);
        let connection = &mut self.connections[key as usize];
        connection.rested = true;
        connection.due_ns = due_ns;
        self.wakes.set(key, due_ns);
    }

    /// Replaces a connection that failed, after a pause that grows with failures in a row.
    fn reopen_later(&mut self, key: u32, now_ns: u64) {
        self.disconnect(key);
        let connection = &mut self.connections[key as usize];
        connection.failures = connection.failures.saturating_add(1);
        let doublings = connection.failures.saturating_sub(2).min(20);
        // The first failure after a success is followed up at once, as servers do reset connections.
        let pause_ns = match connection.failures {
            0 | 1 => 0,
            _ => (BACK_OFF_FIRST_NS << doublings).min(BACK_OFF_LAST_NS),
        };
        if pause_ns == 0 {
            return self.reopen(key, now_ns);
        }
        let jitter = self.random.f64().mul_add(0.5, 0.5);
        connection.due_ns = now_ns + (pause_ns as f64 * jitter) as u64;
        let due_ns = connection.due_ns;
        self.wakes.set(key, due_ns);
    }

    /// Counts a failure once, with the requests that it ended, and replaces the connection.
    fn fail(&mut self, key: u32, kind: ErrorKind, at_ns: u64) {
        let Self {
            connections,
            recorder,
            ..
        } = self;
        let flights = &connections[key as usize].flights;
        if let Some(recorder) = recorder {
            let measured = flights
                .iter()
                .filter(|(sent_ns, _)| recorder.measures(*sent_ns))
                .map(|(_, requests)| requests)
                .sum();
            let alone = flights.outstanding() == 0 && recorder.measures(at_ns);
            if measured > 0 || alone {
                recorder.failed(kind, measured);
            }
            if kind == ErrorKind::Timeout {
                for (sent_ns, requests) in flights.iter() {
                    for _ in 0..requests {
                        if recorder.measures(sent_ns) {
                            recorder.timed_out(at_ns.saturating_sub(sent_ns));
                        }
                    }
                }
            }
        }
        if kind == ErrorKind::Stale {
            self.note_reconnect(at_ns);
        }
        self.reopen_later(key, at_ns);
    }

    fn note_reconnect(&mut self, at_ns: u64) {
        if self.recorder().measures(at_ns) {
            self.recorder().reconnect();
        }
    }

    fn on_end(&mut self, key: u32, at_ns: u64) -> Result<(), Stop> {
        let connection = &mut self.connections[key as usize];
        let ended = connection.session.end(&mut self.shared, &mut self.events);
        self.take_events(key, at_ns)?;
        let outstanding = self.connections[key as usize].flights.outstanding() > 0;
        match ended {
            Err(error) => self.fail(key, self.kind_of(key, &error, at_ns), at_ns),
            // Answers that were still to come when the last one had announced the close.
            Ok(()) if outstanding => self.fail(key, ErrorKind::Stale, at_ns),
            Ok(()) if self.connections[key as usize].state == State::Thinking => {
                self.note_reconnect(at_ns);
                self.reopen_when_due(key);
            }
            Ok(()) => {
                self.note_reconnect(at_ns);
                // A server that closes without having answered anything is not hurried.
                if self.connections[key as usize].answered == 0 {
                    self.reopen_later(key, at_ns);
                } else {
                    self.reopen(key, at_ns);
                }
            }
        }
        Ok(())
    }

    /// A close without any answer is not always the server's failure. It may come as the end of the
    /// stream, or as bytes, since TLS has an end of its own.
    fn kind_of(&self, key: u32, error: &SessionError, at_ns: u64) -> ErrorKind {
        let connection = &self.connections[key as usize];
        match error {
            SessionError::ClosedEarly if connection.looks_stale(at_ns) => ErrorKind::Stale,
            SessionError::ClosedEarly if connection.send_failed => ErrorKind::BrokenPipe,
            error => failure::of_session(error),
        }
    }

    fn on_receive_failed(&mut self, key: u32, errno: i32, at_ns: u64) {
        let connection = &self.connections[key as usize];
        let handshaking = connection.state == State::Handshaking;
        if connection.flights.outstanding() == 0 && connection.answered > 0 {
            let thinking = connection.state == State::Thinking;
            self.note_reconnect(at_ns);
            if thinking {
                self.reopen_when_due(key);
            } else {
                self.reopen(key, at_ns);
            }
        } else if connection.looks_stale(at_ns) {
            // A server that closes with our request unread sends RST, not FIN.
            self.fail(key, ErrorKind::Stale, at_ns);
        } else if handshaking {
            self.fail(key, ErrorKind::TlsClosed, at_ns);
        } else {
            self.fail(key, failure::of_receive(errno), at_ns);
        }
    }

    fn on_wake(&mut self, key: u32, now_ns: u64) -> Result<(), Stop> {
        let connection = &mut self.connections[key as usize];
        if !matches!(connection.state, State::Waiting | State::Thinking) {
            return Ok(());
        }
        if connection.due_ns > now_ns {
            self.wakes.set(key, connection.due_ns);
            return Ok(());
        }
        if connection.state == State::Waiting {
            // Others may count on it, see `has_enough_opening`.
            if self.budget > 0 {
                self.open(key, now_ns);
            } else {
                connection.state = State::Done;
            }
            return Ok(());
        }
        connection.state = State::Open;
        self.send_requests(key, now_ns)
    }

    fn on_deadline(&mut self, key: u32, now_ns: u64) {
        let connection = &self.connections[key as usize];
        let (since_ns, kind) = match connection.state {
            State::Connecting | State::Handshaking => {
                (connection.since_ns, ErrorKind::ConnectTimeout)
            }
            _ => match connection.flights.oldest_sent_ns() {
                Some(sent_ns) => (sent_ns, ErrorKind::Timeout),
                None => return,
            },
        };
        let due_ns = since_ns.saturating_add(self.settings.timeout_ns);
        if due_ns > now_ns {
            self.deadlines.set(key, due_ns);
        } else {
            self.fail(key, kind, now_ns);
        }
    }

    // ---- Answers -----------------------------------------------------------------------------

    fn on_received(&mut self, key: u32, at_ns: u64) -> Result<(), Stop> {
        let connection = &mut self.connections[key as usize];
        let input = self.io.received();
        let received =
            connection
                .session
                .receive(&mut self.shared, input, &mut self.output, &mut self.events);
        if !self.output.is_empty() {
            self.flush_output(key);
        }
        let reusable = self.take_events(key, at_ns)?;
        if let Err(error) = received {
            self.fail(key, self.kind_of(key, &error, at_ns), at_ns);
            return Ok(());
        }
        if !reusable {
            return self.on_announced_close(key, at_ns);
        }
        let connection = &self.connections[key as usize];
        if connection.state != State::Open {
            return Ok(());
        }
        let used_up = connection.sent >= self.settings.requests_per_connection;
        if used_up && connection.flights.outstanding() == 0 {
            self.reopen(key, at_ns);
            return Ok(());
        }
        self.advance(key, at_ns)
    }

    /// The server said that this answer was the connection's last.
    fn on_announced_close(&mut self, key: u32, at_ns: u64) -> Result<(), Stop> {
        let connection = &self.connections[key as usize];
        let used_up = connection.sent >= self.settings.requests_per_connection;
        if connection.flights.outstanding() > 0 {
            self.fail(key, ErrorKind::Stale, at_ns);
        } else {
            // Asked for by us (`Connection: close`) it is no event.
            if !used_up {
                self.note_reconnect(at_ns);
            }
            self.reopen(key, at_ns);
        }
        Ok(())
    }

    /// Books what the session reported. False when the connection must not be used again.
    fn take_events(&mut self, key: u32, at_ns: u64) -> Result<bool, Stop> {
        let mut reusable = true;
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match event {
                Event::Finished(response) => {
                    reusable = response.reusable;
                    self.on_finished(key, response, at_ns)?;
                }
                Event::Began => self.connections[key as usize].began_ns = Some(at_ns),
                Event::Ready(handshake) => {
                    let connection = &mut self.connections[key as usize];
                    let took_ns = at_ns.saturating_sub(connection.since_ns);
                    connection.state = State::Open;
                    connection.since_ns = at_ns;
                    if self.recorder().measures(at_ns) {
                        self.recorder().handshaken(took_ns, handshake.resumed);
                    }
                }
            }
        }
        self.events = events;
        Ok(reusable)
    }

    #[inline]
    fn on_finished(&mut self, key: u32, response: Response, at_ns: u64) -> Result<(), Stop> {
        let connection = &mut self.connections[key as usize];
        let Some(sent_ns) = connection.flights.pop() else {
            return Ok(());
        };
        let first_byte_ns = connection.began_ns.take().unwrap_or(at_ns);
        connection.answered += 1;
        connection.failures = 0;
        self.outstanding -= 1;
        self.progress_ns = at_ns;
        let recorder = self.recorder();
        if recorder.measures(sent_ns) {
            recorder.answered(&Answer {
                sent_ns,
                first_byte_ns,
                completed_ns: at_ns,
                status: response.status,
                bytes: response.bytes,
            });
        }
        if let Some(captured) = response.captured {
            self.scripted(|source| source.response(&captured))?;
        }
        Ok(())
    }

    // ---- Requests ----------------------------------------------------------------------------

    /// Lets an open connection go on: think, or send.
    #[inline]
    fn advance(&mut self, key: u32, now_ns: u64) -> Result<(), Stop> {
        let rested = std::mem::take(&mut self.connections[key as usize].rested);
        if self.wants_delay && !rested && self.connections[key as usize].flights.outstanding() == 0
        {
            let delay_ns = self.scripted(|source| source.delay_ns())?;
            if delay_ns > 0 {
                let connection = &mut self.connections[key as usize];
                connection.state = State::Thinking;
                // From now, not from `now_ns`: the script may have taken its time.
                connection.due_ns = self.io.now_ns().saturating_add(delay_ns);
                self.wakes.set(key, connection.due_ns);
                return Ok(());
            }
        }
        self.send_requests(key, now_ns)
    }

    /// Fills the connection up to the pipeline's depth.
    fn send_requests(&mut self, key: u32, now_ns: u64) -> Result<(), Stop> {
        let connection = &self.connections[key as usize];
        let in_window = now_ns >= self.schedule.measure_ns;
        let allowed = self
            .settings
            .requests_per_connection
            .saturating_sub(connection.sent);
        let allowed = if in_window {
            allowed.min(self.budget)
        } else {
            allowed
        };
        if allowed == 0 {
            return Ok(());
        }
        match &self.requests {
            Requests::Fixed { kinds, .. } => {
                let per_batch = kinds.len() as u32;
                let under_way = connection.flights.outstanding().div_ceil(per_batch);
                let room = u64::from(self.settings.pipeline.saturating_sub(under_way));
                // A batch is sent whole, even if fewer requests are wanted.
                let batches = room.min(allowed.div_ceil(u64::from(per_batch)));
                self.send_fixed(key, batches as usize, now_ns)
            }
            Requests::Asked if connection.flights.outstanding() == 0 => self.send_asked(key),
            Requests::Asked => Ok(()),
        }
    }

    #[inline]
    fn send_fixed(&mut self, key: u32, batches: usize, now_ns: u64) -> Result<(), Stop> {
        if batches == 0 {
            return Ok(());
        }
        let Self {
            requests,
            connections,
            io,
            spare,
            ..
        } = self;
        let Requests::Fixed {
            bytes,
            batch_bytes,
            kinds,
            shared,
        } = requests
        else {
            return Ok(());
        };
        let connection = &mut connections[key as usize];
        let Some(token) = connection.token else {
            return Ok(());
        };
        for _ in 0..batches {
            for kind in kinds.iter() {
                connection.session.expect(*kind);
            }
        }
        let range = 0..batches * *batch_bytes;
        let requests = (batches * kinds.len()) as u32;
        if S::TRANSPARENT {
            io.send(
                token,
                Payload::Shared {
                    bytes: *shared,
                    range,
                },
            );
        } else {
            let mut buffer = spare.pop().unwrap_or_default();
            if let Err(error) = connection.session.encode(&bytes[range], &mut buffer) {
                self.fail(key, failure::of_session(&error), now_ns);
                return Ok(());
            }
            io.send(token, Payload::Owned(buffer));
        }
        self.note_sent(key, requests, now_ns);
        Ok(())
    }

    fn send_asked(&mut self, key: u32) -> Result<(), Stop> {
        let mut plain = self.spare.pop().unwrap_or_default();
        for _ in 0..self.settings.pipeline {
            self.scripted(|source| source.next(key, &mut plain))?;
        }
        self.kinds.clear();
        request::scan(&plain, &mut self.kinds).map_err(|error| {
            Stop::Failed(format!(
                "the script's request() returned a bad request: {error}"
            ))
        })?;
        // After the script, so that its time is not counted as the server's.
        let now_ns = self.io.now_ns();
        let connection = &mut self.connections[key as usize];
        let Some(token) = connection.token else {
            return Ok(());
        };
        for kind in &self.kinds {
            connection.session.expect(*kind);
        }
        let requests = self.kinds.len() as u32;
        if S::TRANSPARENT {
            self.io.send(token, Payload::Owned(plain));
        } else {
            let mut buffer = self.spare.pop().unwrap_or_default();
            let encoded = connection.session.encode(&plain, &mut buffer);
            self.recycle(plain);
            if let Err(error) = encoded {
                self.fail(key, failure::of_session(&error), now_ns);
                return Ok(());
            }
            self.io.send(token, Payload::Owned(buffer));
        }
        self.note_sent(key, requests, now_ns);
        Ok(())
    }

    #[inline]
    fn note_sent(&mut self, key: u32, requests: u32, sent_ns: u64) {
        let connection = &mut self.connections[key as usize];
        connection.flights.push(sent_ns, requests);
        connection.sent += u64::from(requests);
        self.outstanding += u64::from(requests);
        self.deadlines
            .set(key, sent_ns.saturating_add(self.settings.timeout_ns));
        if sent_ns >= self.schedule.measure_ns {
            if self.settings.requests.is_some() {
                self.budget = self.budget.saturating_sub(u64::from(requests));
            }
            self.recorder().sent(u64::from(requests));
        }
    }

    fn flush_output(&mut self, key: u32) {
        if self.output.is_empty() {
            return;
        }
        let buffer = std::mem::replace(&mut self.output, self.spare.pop().unwrap_or_default());
        if let Some(token) = self.connections[key as usize].token {
            self.io.send(token, Payload::Owned(buffer));
        }
    }

    fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    // ---- Script and recording ----------------------------------------------------------------

    /// Calls into the source, which may be a script and take for ever.
    fn scripted<R>(
        &mut self,
        call: impl FnOnce(&mut dyn RequestSource) -> Result<R, SourceError>,
    ) -> Result<R, Stop> {
        if let Some(recorder) = self.recorder.take() {
            self.locker.park(Parked {
                recorder,
                since_ns: self.io.now_ns(),
            });
        }
        let answer = call(self.source.as_mut());
        match self.locker.take() {
            Some(parked) => self.recorder = Some(parked.recorder),
            None => return Err(Stop::GivenUp),
        }
        let answer = answer?;
        if let Some(address) = self.source.take_address() {
            self.settings.address = address;
        }
        if self.source.stopped() {
            return Err(Stop::Wanted);
        }
        Ok(answer)
    }

    #[inline]
    fn recorder(&mut self) -> &mut Recorder {
        self.recorder
            .as_mut()
            .expect("a recorder is parked only while the script runs")
    }

    fn count_in_flight(&mut self, ended_ns: u64) {
        let Self {
            connections,
            recorder,
            ..
        } = self;
        let Some(recorder) = recorder else { return };
        for connection in connections {
            let mut requests = 0;
            let mut oldest_ns = 0;
            for (sent_ns, count) in connection.flights.iter() {
                if recorder.measures(sent_ns) {
                    requests += count;
                    oldest_ns = oldest_ns.max(ended_ns.saturating_sub(sent_ns));
                }
            }
            if requests > 0 {
                recorder.in_flight(requests, oldest_ns);
                let oldest = connection.flights.oldest_sent_ns();
                if oldest.is_some_and(|sent_ns| recorder.measures(sent_ns)) {
                    recorder.bytes(connection.session.partial_bytes());
                }
            }
        }
    }
}

fn fixed_requests<L: EventLoop, S: Session>(
    io: &mut L,
    batch: &[u8],
    pipeline: u32,
) -> Result<Requests, String> {
    let mut kinds = Vec::new();
    request::scan(batch, &mut kinds).map_err(|error| error.to_string())?;
    let bytes = batch.repeat(pipeline as usize);
    let shared = if S::TRANSPARENT {
        io.share(bytes.clone())
    } else {
        SharedBytes(0)
    };
    Ok(Requests::Fixed {
        bytes,
        batch_bytes: batch.len(),
        kinds,
        shared,
    })
}
