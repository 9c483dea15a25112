//! One thread's work: its event loop, its connections, its recording.
//!
//! A worker takes turns: it sends what is due, waits, takes completions, and lets each connection go on. It
//! allocates nothing per request, and shares nothing with the others while it runs but the
//! schedule of a run with a rate ([`crate::shared_schedule`]).

mod answers;
mod connections;
mod opening;
mod outage;
mod requests;
mod shares;

use crate::Watch;
use crate::connection::{Connection, State};
use crate::control::{Locker, Parked, RunState, Schedule};
use crate::failure;
use crate::pacing::{Frame, Pacer};
use crate::recorder::Recorder;
use crate::shared_schedule::ScheduleShare;
use crate::source::{RequestSource, SourceError};
use crate::timers::Timers;
use eventloop::{Address, Completion, EventLoop, Outcome, SharedBytes, SocketOptions};
use opening::Opening;
use outage::Outage;
use plan::{Pacing, SourceRange};
use protocol::{Event, RequestKind, Session};
use requests::fixed_requests;
use results::{ErrorKind, Recording, ThreadUsage, WorkerUsage};
use shares::Sharing;
use std::collections::VecDeque;
use std::time::Duration;

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
    /// Requests to send within the window; `None`: as many as the time allows. In a closed loop this
    /// worker's, with a rate the run's.
    pub requests: Option<u64>,
    /// Seed of the back-off's jitter.
    pub seed: u64,
    /// When requests are due.
    pub pacing: Pacing,
    /// Number of this worker, from 0.
    pub worker: u32,
    /// How many workers share the schedule and the source addresses.
    pub workers: u32,
    /// Local addresses to connect from.
    pub source: Option<SourceRange>,
    /// Of a batch only the last answer is timed.
    pub batch_latency: bool,
}

/// The longest that the loop polls before a request is due instead of sleeping. It polls only as long as
/// wake-ups are usually late (docs/decisions/0009-polling-before-a-deadline.md), so most of this time the
/// thread would not have run anyway.
const SPIN_NS: u64 = 100_000;
/// ... and this share of the time between two requests, so that a fast schedule does not cost a whole
/// CPU.
const SPIN_SHARE: f64 = 0.4;

impl Settings {
    /// How long to poll before a request is due: nothing in a closed loop.
    pub(crate) fn spin_ns(&self) -> u64 {
        self.gap_ns()
            .map_or(0, |gap_ns| (gap_ns * SPIN_SHARE).min(SPIN_NS as f64) as u64)
    }

    /// How long to poll for an answer: nothing in a closed loop.
    fn answer_poll_ns(&self) -> u64 {
        self.gap_ns()
            .filter(|gap_ns| *gap_ns >= ANSWER_POLL_GAP_MIN_NS)
            .map_or(0, |gap_ns| {
                (gap_ns * SPIN_SHARE).min(ANSWER_POLL_NS as f64) as u64
            })
    }

    /// The shortest mean distance between two requests of this worker; `None` in a closed loop.
    fn gap_ns(&self) -> Option<f64> {
        let fastest_per_sec = self.pacing.rate_curve(Duration::ZERO)?.max_rate();
        Some(f64::from(self.workers) * 1e9 / fastest_per_sec.max(f64::MIN_POSITIVE))
    }
}

/// After a request is sent the loop polls for its answer so long at most: on a machine that is idle but
/// for the test, waking up for it takes longer than many an answer does. The share of the time between
/// two requests bounds it again, and below this distance nothing is polled for.
const ANSWER_POLL_NS: u64 = 500_000;
const ANSWER_POLL_GAP_MIN_NS: f64 = 200_000.0;

/// How a worker's run ended.
pub struct Ended {
    /// Everything it counted.
    pub recording: Recording,
    /// When it stopped, CLOCK_MONOTONIC.
    pub ended_ns: u64,
    /// The reason, when it could not go on.
    pub failure: Option<String>,
    /// What the first error of a session said beyond its kind.
    pub first_trouble: Option<(ErrorKind, String)>,
    /// It ended before all requests were sent, as no response came for long.
    pub has_given_up: bool,
    /// What the thread used within the window, where that can be known.
    pub usage: Option<WorkerUsage>,
}

/// Why the run of a worker stops before its time.
pub(crate) enum Stop {
    /// The source or the loop failed; the text says how.
    Failed(String),
    /// The source wants no more.
    Wanted,
    /// The main thread has taken the recording, as a script did not return.
    GivenUp,
    /// The time is over.
    Over,
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
    /// When requests are due; `None` in a closed loop.
    share: Option<ScheduleShare>,
    /// With a rate: connections that can take a request, the one that has been free longest first.
    free: VecDeque<u32>,
    /// How long to poll for an answer after a request was sent; 0 is not at all.
    answer_poll_ns: u64,
    /// Which of the source addresses is next.
    source_index: u128,
    /// Tells what this thread has used.
    watch: Option<Box<dyn Watch>>,
    /// When the window began for `watch`, and its reading then.
    watched: Option<(u64, ThreadUsage)>,
    /// The first turn has been.
    has_begun: bool,
    /// The window has begun.
    measuring: bool,
    /// In a closed loop: requests still to be sent within the window.
    budget: u64,
    /// Outstanding requests over all connections.
    outstanding: u64,
    /// When the last response came; without any for long, a run without time limit gives up.
    progress_ns: u64,
    /// When the first request after it was sent; `u64::MAX` without one.
    asked_ns: u64,
    /// Until when the other workers know of responses.
    told_answer_ns: u64,
    /// No response has come for so long that nothing more is sent.
    gives_up: bool,
    /// That has ended the run before all requests were sent.
    has_given_up: bool,
    /// When the last request was answered or failed.
    settled_ns: u64,
    /// Until when the present wait sleeps if nothing happens.
    slept_until_ns: Option<u64>,
    opening: Opening,
    /// Connections that stand now.
    standing: u64,
    /// Somebody watches the run.
    sharing: Option<Sharing>,
    /// With a rate: what is done about a server that is away.
    outage: Outage,
    random: fastrand::Rng,
    first_trouble: Option<(ErrorKind, String)>,
    events: Vec<Event>,
    output: Vec<u8>,
    kinds: Vec<RequestKind>,
    /// Send buffers that came back.
    spare: Vec<Vec<u8>>,
}

/// Completions taken at a time when requests are due by a schedule: sends wait for the end of a turn.
const COMPLETIONS_PER_PACED_TURN: usize = 16;
/// So many connections of each thread tell how long their bytes lay in the kernel: all where there are few, whose
/// samples would be too few otherwise.
const STAMPED_AT_LEAST: u32 = 8;
/// Of more connections one in so many does.
const STAMPED_ONE_IN: u32 = 64;

/// The key of completions that come of other workers waking this one. There are fewer connections.
const WAKER: u32 = u32::MAX;

/// The longest wait: so soon a stop is noticed.
const TICK_NS: u64 = 10_000_000;
/// Completions taken before clock, timers and the stop are looked at again.
const COMPLETIONS_PER_TURN: usize = 256;
/// The first pause after repeated failures, and the longest.
const BACK_OFF_FIRST_NS: u64 = 1_000_000;
const BACK_OFF_LAST_NS: u64 = 1_000_000_000;
/// Without a response for so long, or for the timeout if that is longer, a run that only a number of
/// requests ends gives up. It also gives up when for so long no request could be sent.
const GIVE_UP_NS: u64 = 30_000_000_000;
/// How often a worker tells the others of its last response.
const TELL_ANSWER_NS: u64 = 1_000_000_000;
/// A wait that ends so much later than asked is one in which nothing ran, whatever is found afterwards.
pub(crate) const STANDSTILL_NS: u64 = 500_000_000;
/// Send buffers kept for reuse.
const SPARE_BUFFERS: usize = 1024;

impl<L: EventLoop, S: Session> Worker<L, S> {
    pub(crate) fn new(
        mut io: L,
        mut shared: S::Shared,
        settings: Settings,
        source: Box<dyn RequestSource>,
        watch: Option<Box<dyn Watch>>,
        share: Option<ScheduleShare>,
        locker: Locker,
    ) -> Result<Self, String> {
        let requests = match source.fixed() {
            Some(batch) => fixed_requests::<L, S>(&mut io, &batch, settings.pipeline)?,
            None => Requests::Asked,
        };
        if let Some(share) = share.as_ref().filter(|share| share.needs_waker()) {
            let waker = io.waker(WAKER);
            let waker = waker.map_err(|error| format!("cannot be woken by other threads: {error}"));
            share.set_waker(waker?);
        }
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
            share,
            free: VecDeque::new(),
            answer_poll_ns: settings.answer_poll_ns(),
            source_index: u128::from(settings.worker),
            watch,
            watched: None,
            has_begun: false,
            measuring: false,
            budget: match settings.pacing.is_open() {
                true => u64::MAX,
                false => settings.requests.unwrap_or(u64::MAX),
            },
            outstanding: 0,
            progress_ns: 0,
            asked_ns: u64::MAX,
            told_answer_ns: 0,
            gives_up: false,
            has_given_up: false,
            settled_ns: 0,
            slept_until_ns: None,
            opening: Opening::new(),
            standing: 0,
            sharing: None,
            outage: Outage::default(),
            random: fastrand::Rng::with_seed(settings.seed),
            first_trouble: None,
            events: Vec::with_capacity(64),
            output: Vec::new(),
            kinds: Vec::new(),
            spare: Vec::new(),
            settings,
        })
    }

    /// Runs to the end of the schedule, or until something else ends it. `None` when the main
    /// thread has given this worker up and taken its recording.
    pub(crate) fn run(&mut self, schedule: Schedule, state: &RunState) -> Option<Ended> {
        self.begin(schedule);
        let reason = self.drive(state);
        self.end(reason)
    }

    /// What comes before the first turn.
    pub(crate) fn begin(&mut self, schedule: Schedule) {
        self.schedule = schedule;
        let Settings {
            pacing,
            worker,
            workers,
            requests,
            ..
        } = &self.settings;
        let frame = Frame {
            origin_ns: schedule.start_ns,
            measure_ns: schedule.measure_ns,
            requests: *requests,
        };
        let pacer = Pacer::new(pacing, *worker, *workers, frame);
        if let Some((share, pacer)) = self.share.as_ref().zip(pacer) {
            share.begin(pacer);
        }
        if !self.is_paced() {
            self.opening.hold(schedule.start_ns, schedule.end_ns);
        }
        let mut recorder = Recorder::new(schedule.measure_ns, self.is_paced());
        if self.sharing.is_some() {
            recorder.watched(schedule.start_ns);
        }
        self.recorder = Some(Box::new(recorder));
        self.progress_ns = schedule.start_ns;
        self.settled_ns = schedule.measure_ns;
    }

    fn drive(&mut self, state: &RunState) -> Result<(), Stop> {
        while let Some(until_ns) = self.turn(state)? {
            self.wait(until_ns)?;
            self.take_completions()?;
        }
        Ok(())
    }

    /// What comes after the last turn; `reason` says why it was the last.
    pub(crate) fn end(&mut self, reason: Result<(), Stop>) -> Option<Ended> {
        let failure = match reason {
            Ok(()) | Err(Stop::Wanted | Stop::Over) => None,
            Err(Stop::Failed(message)) => Some(message),
            Err(Stop::GivenUp) => return None,
        };
        let mut ended_ns = self.io.now_ns().min(self.schedule.end_ns);
        if self.is_paced() && self.is_done() {
            // Others had the last requests; this worker learned of it later.
            ended_ns = ended_ns.min(self.settled_ns);
        }
        let usage = self.usage(ended_ns);
        self.share(ended_ns, true);
        self.count_in_flight(ended_ns);
        self.count_unsent(ended_ns);
        let mut recording = self.recorder.take()?.finish(ended_ns);
        recording.redirect_location = S::redirect_location(&self.shared).map(str::to_owned);
        Some(Ended {
            recording,
            ended_ns,
            failure,
            has_given_up: self.has_given_up,
            first_trouble: self.first_trouble.take(),
            usage,
        })
    }

    /// Whether requests are due by a schedule.
    pub(super) fn is_paced(&self) -> bool {
        self.share.is_some()
    }

    /// One turn: does what is to be done now. Says until when to wait then; `None` when the run is over.
    pub(crate) fn turn(&mut self, state: &RunState) -> Result<Option<u64>, Stop> {
        let now_ns = self.io.now_ns();
        if now_ns < self.schedule.start_ns {
            return Ok(Some(self.schedule.start_ns));
        }
        if !self.has_begun {
            self.has_begun = true;
            self.begin_sharing(self.schedule.start_ns);
            // What the script's `setup` or `init` has chosen.
            if let Some(address) = self.source.take_address() {
                self.settings.address = address;
            }
        }
        let slept_until_ns = self.slept_until_ns.take();
        if let Some(late_ns) = slept_until_ns.and_then(|until_ns| now_ns.checked_sub(until_ns)) {
            self.recorder().woke_late(late_ns);
        }
        if now_ns >= self.schedule.end_ns || state.is_raised() || self.is_finished(now_ns, state) {
            return Ok(None);
        }
        if let Some(share) = &mut self.share {
            share.begin_turn();
        }
        self.open_some(now_ns, state)?;
        self.return_some();
        while let Some(key) = self.wakes.take_due(now_ns) {
            self.on_wake(key, now_ns)?;
        }
        while let Some(key) = self.deadlines.take_due(now_ns) {
            self.on_deadline(key, now_ns);
        }
        self.send_due(now_ns)?;
        if let Some(share) = &mut self.share {
            share.settle(now_ns);
        }
        if !self.measuring && now_ns >= self.schedule.measure_ns {
            self.begin_measuring(now_ns);
        }
        // After what was due has been sent: it may take a tenth of a millisecond.
        if self.recorder().tick(now_ns) {
            self.share(now_ns, false);
        }
        if self.outstanding == 0 {
            self.io.poll_until(0);
        }
        let until_ns = self.next_deadline_ns(now_ns);
        // A wait for a moment that has passed already only looks what happened.
        let sleeps = until_ns > now_ns && until_ns >= self.schedule.measure_ns;
        self.slept_until_ns = sleeps.then_some(until_ns);
        Ok(Some(until_ns))
    }

    /// Takes what has happened, up to the bound of a turn: with thousands of connections at once it could
    /// outlast the end. Says whether there was anything.
    pub(crate) fn take_completions(&mut self) -> Result<bool, Stop> {
        let per_turn = match self.is_paced() {
            true => COMPLETIONS_PER_PACED_TURN,
            false => COMPLETIONS_PER_TURN,
        };
        for taken in 0..per_turn {
            let Some(completion) = self.io.next() else {
                return Ok(taken > 0);
            };
            // Something happened: it was not the time that ended the wait, or not alone. But what is found long
            // after the wait should have ended was only found then because nothing had been running.
            self.slept_until_ns = self
                .slept_until_ns
                .filter(|until_ns| completion.at_ns.saturating_sub(*until_ns) >= STANDSTILL_NS);
            // Nothing that was seen after the end is counted.
            if completion.at_ns >= self.schedule.end_ns {
                return Err(Stop::Over);
            }
            self.on_completion(completion)?;
        }
        Ok(true)
    }

    /// When something is to be done even if nothing happens.
    fn next_deadline_ns(&self, now_ns: u64) -> u64 {
        if self.outage.is_over() {
            return now_ns;
        }
        let has_free = !self.free.is_empty();
        let due_ns = self.share.as_ref();
        let due_ns = due_ns.and_then(|share| share.wakes_at_ns(has_free));
        let opening_ns = self.opening.next_ns(self.settings.connections, now_ns);
        [
            opening_ns,
            self.wakes.next_ns(),
            self.deadlines.next_ns(),
            due_ns,
        ]
        .into_iter()
        .flatten()
        .fold(self.schedule.end_ns.min(now_ns + TICK_NS), u64::min)
    }

    pub(crate) fn wait(&mut self, until_ns: u64) -> Result<(), Stop> {
        self.io
            .wait(Some(until_ns))
            .map_err(|error| Stop::Failed(format!("the event loop failed: {error}")))
    }

    /// Once, when the window has begun.
    fn begin_measuring(&mut self, now_ns: u64) {
        self.measuring = true;
        let begun_ns = self.schedule.measure_ns;
        let standing = self.connections.iter();
        let standing = standing.filter(|connection| connection.stood_at(begun_ns));
        let standing = standing.count() as u64;
        self.recorder().stood_at_start(standing);
        let usage = self.watch.as_mut().and_then(|watch| watch.usage());
        self.watched = usage.map(|usage| (now_ns, usage));
    }

    fn usage(&mut self, ended_ns: u64) -> Option<WorkerUsage> {
        let (begun_ns, before) = self.watched?;
        let now = self.watch.as_mut()?.usage()?;
        Some(WorkerUsage {
            worker: self.settings.worker,
            elapsed_ns: ended_ns.saturating_sub(begun_ns),
            usage: now.since(&before),
        })
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.io.now_ns()
    }

    fn is_finished(&mut self, now_ns: u64, state: &RunState) -> bool {
        if self.is_done() {
            return true;
        }
        if self.schedule.end_ns != u64::MAX {
            return false;
        }
        if self.progress_ns > self.told_answer_ns.saturating_add(TELL_ANSWER_NS) {
            self.told_answer_ns = self.progress_ns;
            state.note_answer(self.progress_ns);
        }
        // A slow schedule has pauses, in which no response can come.
        let due_ns = self.share.as_ref().map_or(0, ScheduleShare::first_due_ns);
        let since_ns = due_ns.min(self.asked_ns).max(self.progress_ns);
        self.gives_up = false;
        if now_ns.saturating_sub(since_ns) < GIVE_UP_NS {
            return false;
        }
        let since_ns = since_ns.max(state.note_answer(self.progress_ns));
        let quiet_ns = now_ns.saturating_sub(since_ns);
        // From now on nothing is sent, but what has been sent keeps its full timeout.
        self.gives_up = quiet_ns >= GIVE_UP_NS.max(self.settings.timeout_ns);
        let is_opening = |connection: &Connection<S>| {
            matches!(connection.state, State::Connecting | State::Handshaking)
        };
        let idle_ns = quiet_ns.min(now_ns.saturating_sub(self.settled_ns));
        let is_shut_out = idle_ns >= GIVE_UP_NS && !self.connections.iter().any(is_opening);
        self.has_given_up = self.outstanding == 0 && (self.gives_up || is_shut_out);
        self.has_given_up
    }

    /// Whether everything that was wanted has been sent, and has come to its end here.
    fn is_done(&self) -> bool {
        self.outstanding == 0 && self.wanted() == 0
    }

    /// How many requests are still wanted: `u64::MAX` without a limit. With a rate it is the run's, and what any
    /// worker may be the one to send.
    fn wanted(&self) -> u64 {
        match &self.share {
            Some(_) if self.settings.requests.is_none() => u64::MAX,
            Some(share) => share.remaining(),
            None => self.budget,
        }
    }

    fn on_completion(&mut self, completion: Completion) -> Result<(), Stop> {
        let Completion {
            key,
            token,
            at_ns,
            outcome,
        } = completion;
        if key == WAKER {
            // It has ended the wait; the turn does the rest.
            return Ok(());
        }
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
            Outcome::Discarded(bytes) => self.on_discarded(key, bytes, at_ns),
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
            let mut measured = false;
            for flight in connection.flights.iter() {
                if recorder.measures(flight.due_ns) {
                    measured = true;
                    recorder.in_flight(
                        u64::from(flight.requests),
                        ended_ns.saturating_sub(flight.sent_ns),
                        ended_ns.saturating_sub(flight.due_ns),
                    );
                }
            }
            if measured {
                let oldest = connection.flights.oldest();
                if oldest.is_some_and(|flight| recorder.measures(flight.due_ns)) {
                    recorder.bytes(connection.session.partial_bytes());
                }
            }
        }
    }

    /// What the share of the schedule still holds at the end was due and never sent.
    fn count_unsent(&mut self, ended_ns: u64) {
        let Self {
            share: Some(share),
            recorder: Some(recorder),
            ..
        } = self
        else {
            return;
        };
        share.close(ended_ns, |due_ns, requests| {
            recorder.unsent(due_ns, requests, ended_ns);
        });
    }
}
