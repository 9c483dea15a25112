//! The work of one thread: its event loop, its connections, its recording.
//!
//! A worker runs in turns: it sends what is due, waits, and processes completions. It allocates
//! nothing per request. While it runs, it shares nothing with other workers, except the schedule of
//! a run at a fixed rate ([`crate::shared_schedule`]).
//!
//! It consists of three values: [`Network`] opens connections and moves bytes, [`RequestSender`]
//! knows which request is sent when, and [`Accounting`] counts and times. A function that needs one
//! of them is a function of it. If it also reads or changes another one, that one is an argument.
//! What follows from an event for all three, such as a connection that fails, is in [`Worker`].

mod accounting;
mod answers;
mod breakdown;
mod connection_stages;
mod connections;
mod conversations;
mod datagrams;
mod denial;
mod drain;
mod failures;
mod guarded_source;
mod in_flight;
mod network;
mod opening;
mod outage;
mod packets;
mod pauses;
mod pool;
mod queued_sends;
mod read_late;
mod records;
mod refills;
mod reporting;
mod requests;
mod response_poll;
mod responses;
mod sender;
mod settings;
mod silence;
mod slots;
mod stall;
mod stretch;
mod traces;
mod unsent;
mod usage;
mod watch;
mod writer;

pub use settings::{HISTORIES_MAX_BYTES, WorkerSettings};
pub(crate) use watch::{ScriptTime, standstill_within};

use crate::control::{RunState, RunTimes, StuckGuard};
use crate::error_kinds;
use crate::run::{WorkerMessage, WorkerParts};
use crate::shared_schedule::ScheduleShare;
use crate::slow_spans::SlowSpans;
use crate::source::{RequestSource, SourceError};
use crate::{FirstResponses, WorkerError};
use accounting::Accounting;
use connections::has_unstamped;
use eventloop::{Completion, EventLoop, SocketEvent};
use guarded_source::GuardedSource;
use network::Network;
use protocol::Session;
use read_late::ReadLate;
use reporting::ProgressReporter;
use results::{Attribution, ErrorKind, Recording, WorkerUsage};
use sender::RequestSender;
use slots::Slots;
use std::sync::mpsc::Sender;
use writer::{Batches, RequestWriter};

/// The result of one worker.
pub struct WorkerResult {
    /// Everything that it recorded.
    pub recording: Recording,
    /// Time from the agreed start to its first turn, nanoseconds; `None` if it had none.
    pub start_late_ns: Option<u64>,
    /// When its window ended, CLOCK_MONOTONIC.
    pub ended_ns: u64,
    /// If it went on reading after the window: for how long, nanoseconds.
    pub drained_ns: Option<u64>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// Details of the first session error that had any.
    pub first_error_detail: Option<(ErrorKind, String)>,
    /// It ended before all requests were sent, because there were no responses for a long time.
    pub has_given_up: bool,
    /// It did so because every connection was refused in a way that another attempt does not
    /// change.
    pub is_refused: bool,
    /// With [`plan::RunPlan::stops_if_denied`]: what its first responses were.
    pub first_responses: FirstResponses,
    /// Resource usage of the thread within the window, if known.
    pub usage: Option<WorkerUsage>,
    /// If the server is profiled: when the slowest requests were in flight.
    pub slow_spans: Option<SlowSpans>,
}

/// Why a worker stops early.
pub(crate) enum StopReason {
    /// The source or the loop failed, with this message.
    Failed(String),
    /// The source asked to stop.
    Wanted,
    /// The main thread has taken the recording, because a script did not return.
    GivenUp,
    /// The time is over.
    Over,
}

impl From<SourceError> for StopReason {
    fn from(error: SourceError) -> Self {
        Self::Failed(error.message)
    }
}

/// The phases that a worker goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    BeforeStart,
    WarmUp,
    Window,
    /// After the window, until the responses to its requests have ended ([`drain`]).
    Drain,
}

/// One worker: its three parts, and what joins them. The module's documentation explains it.
pub(crate) struct Worker<L, S: Session> {
    network: Network<L, S>,
    sender: RequestSender<S>,
    accounting: Accounting,
    settings: WorkerSettings,
    times: RunTimes,
    phase: Phase,
    /// When the current phase ends at the latest: the end of the window, or that of the drain.
    limit_ns: u64,
    /// Whether the window will be drained if the plan does not say so: some stream has ended, so
    /// that the others may be expected to.
    streams_end: bool,
    /// As [`WorkerResult::start_late_ns`], and `None` before the first turn.
    start_late_ns: Option<u64>,
    /// When the current wait ends if nothing happens.
    slept_until_ns: Option<u64>,
    /// The longest wait.
    tick_ns: u64,
    /// Nothing must be done on time when the wait ends.
    waits_roughly: bool,
}

/// Completions processed per turn at a fixed rate. Sends wait for the end of a turn.
const COMPLETIONS_PER_PACED_TURN: usize = 16;
/// Completions processed before checking clock, timers and stop again.
const COMPLETIONS_PER_TURN: usize = 256;

/// Completions processed before looking how long requests have waited in the loop to be sent.
const COMPLETIONS_PER_LOOK_AT_SENDS: usize = 32;

/// The longest wait of each of this machine's workers, nanoseconds.
fn tick_ns(workers: u32) -> u64 {
    TICK_NS * (u64::from(workers) / TICKING_WORKERS).clamp(1, TICKS_MAX)
}

/// The key of completions that are caused by other workers waking this one. There are fewer
/// connections.
const WAKER: u32 = u32::MAX;

/// The longest wait of each of a few workers, and so the longest delay until a stop is noticed.
const TICK_NS: u64 = 10_000_000;
/// The waits of all workers together end at least this often, as those of so many workers do with
/// [`TICK_NS`]. Each of more workers waits longer, but no longer than so many ticks.
const TICKING_WORKERS: u64 = 10;
const TICKS_MAX: u64 = 5;
/// If a wait ends this much later than requested, nothing was running, whatever is found
/// afterwards.
pub(crate) const STANDSTILL_NS: u64 = 500_000_000;

/// Writes the requests of a source: those of its file, or all alike.
fn writer<L: EventLoop, S: Session>(
    io: &mut L,
    context: &mut S::Context,
    settings: &WorkerSettings,
    source: &dyn RequestSource,
) -> Result<RequestWriter<S>, WorkerError> {
    let Some(file) = source.file() else {
        return RequestWriter::new(io, context, source.fixed().as_deref(), settings.pipeline);
    };
    let place = (settings.number(), settings.workers_total());
    RequestWriter::of_file(io, context, file, place, settings.connections)
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    pub(crate) fn new(
        parts: WorkerParts<L, S>,
        share: Option<ScheduleShare>,
        stuck_guard: StuckGuard,
    ) -> Result<Self, WorkerError> {
        let WorkerParts {
            mut io,
            mut context,
            mut settings,
            source,
            usage_probe,
        } = parts;
        let writer = writer(&mut io, &mut context, &settings, &*source)?;
        // The last request of a log ends the run.
        let recorded = writer.recorded().map(|it| it.due_ns().len() as u64);
        settings.requests = settings.requests.into_iter().chain(recorded).min();
        if let Some(share) = share.as_ref().filter(|share| share.needs_waker()) {
            share.set_waker(io.waker(WAKER).map_err(WorkerError::Waker)?);
        }
        let has_unstamped = has_unstamped(&settings, S::TRANSPORT);
        let source = GuardedSource::new(source, stuck_guard);
        Ok(Self {
            network: Network::new(io, context, &settings),
            accounting: Accounting::new(&settings, share.is_some(), has_unstamped, usage_probe),
            sender: RequestSender::new(source, writer, share, &settings),
            times: RunTimes::default(),
            phase: Phase::BeforeStart,
            limit_ns: 0,
            streams_end: drain::is_certain(&settings.plan),
            start_late_ns: None,
            slept_until_ns: None,
            tick_ns: tick_ns(settings.workers),
            waits_roughly: false,
            settings,
        })
    }

    /// Enables progress reports if somebody needs them: from the start of the run, for an observer,
    /// or until the window, for the end of a warm-up until the server has settled.
    pub(crate) fn report_to(&mut self, messages: &Sender<WorkerMessage>, is_observed: bool) {
        if is_observed || self.settings.plan.warmup_auto {
            let messages = messages.clone();
            let reporter = ProgressReporter::new(self.settings.worker, messages, !is_observed);
            self.accounting.reporter = Some(reporter);
        }
    }

    /// Runs to the end of the schedule, or until something else ends the run. `None` if the main
    /// thread has taken the recording and no longer waits for this worker.
    pub(crate) fn run(&mut self, times: RunTimes, state: &RunState) -> Option<WorkerResult> {
        self.begin(times);
        let reason = self.drive(state);
        self.end(reason)
    }

    /// Prepares the first turn.
    pub(crate) fn begin(&mut self, times: RunTimes) {
        self.times = times;
        self.limit_ns = times.end_ns;
        let settings = &self.settings;
        self.network.begin(times, settings, self.sender.is_paced());
        self.sender.begin(times, settings);
        let names = match &self.sender.writer.batches {
            Batches::FromFile(file) => file.names(),
            Batches::Fixed(_) | Batches::FromSource => &[],
        };
        self.accounting.begin(times, settings, names, S::TRANSPORT);
        let recorder = self.accounting.recorder();
        recorder.add_addresses(self.network.addresses.labels());
    }

    /// Takes turns until the run is over. Not inlined, because `make instructions` finds the loop
    /// by the name of this function.
    #[inline(never)]
    fn drive(&mut self, state: &RunState) -> Result<(), StopReason> {
        while let Some(until_ns) = self.turn(state)? {
            self.wait(until_ns)?;
            self.take_completions()?;
        }
        Ok(())
    }

    /// Completes the run after the last turn. `reason` is why it was the last one.
    pub(crate) fn end(&mut self, reason: Result<(), StopReason>) -> Option<WorkerResult> {
        let failure = match reason {
            Ok(()) | Err(StopReason::Wanted | StopReason::Over) => None,
            Err(StopReason::Failed(message)) => Some(message),
            Err(StopReason::GivenUp) => return None,
        };
        let now_ns = self.network.io.now_ns().min(self.limit_ns);
        let drained_ns = match self.phase {
            Phase::Drain => Some(now_ns.saturating_sub(self.times.end_ns)),
            _ => None,
        };
        let mut ended_ns = now_ns.min(self.times.end_ns);
        let mut closed_ns = now_ns;
        if drained_ns.is_none() {
            if self.sender.is_paced() && self.is_done() {
                // Other workers sent the last requests; this worker learned of it later.
                ended_ns = ended_ns.min(self.accounting.stall.settled_ns);
            }
            self.end_window(ended_ns);
            closed_ns = ended_ns;
        }
        self.accounting
            .count_in_flight(&mut self.network.pool, closed_ns);
        let conversations = self.sender.conversations.as_mut();
        let conversations = conversations.map(|it| it.finish(ended_ns));
        self.close_all();
        let mut recording = self.accounting.recorder.take()?.finish(closed_ns);
        recording.parts.conversations = conversations;
        recording.streams_limit = S::streams_limit(&self.network.context);
        recording.redirect_location =
            S::redirect_location(&self.network.context).map(str::to_owned);
        Some(WorkerResult {
            recording,
            start_late_ns: self.start_late_ns,
            ended_ns,
            drained_ns,
            failure,
            has_given_up: self.accounting.stall.has_given_up,
            is_refused: self.accounting.stall.is_refused,
            first_responses: self.accounting.denial.found(),
            first_error_detail: self.accounting.first_error_detail.take(),
            usage: self.accounting.usage.of_window(),
            slow_spans: self
                .accounting
                .breakdown
                .as_mut()
                .and_then(|it| it.take_spans()),
        })
    }

    /// One turn: does everything that is due. Returns until when to wait, or `None` if the run is
    /// over.
    pub(crate) fn turn(&mut self, state: &RunState) -> Result<Option<u64>, StopReason> {
        let now_ns = self.network.io.now_ns();
        if now_ns < self.times.start_ns {
            // The start may have been agreed upon long before, and the run may end until then.
            let until_ns = self.times.start_ns.min(now_ns + self.tick_ns);
            self.waits_roughly = until_ns < self.times.start_ns;
            return Ok((!state.is_raised()).then_some(until_ns));
        }
        if self.phase == Phase::BeforeStart {
            self.start_late_ns = Some(now_ns - self.times.start_ns);
            self.start();
        }
        let gap_ns = self
            .accounting
            .watch
            .begin_turn(now_ns, &mut self.accounting.usage);
        if let Some(gap_ns) = gap_ns {
            self.note_standstill(gap_ns);
            self.accounting.expect_answers(&self.network.pool);
        }
        if self.phase == Phase::Drain {
            return self.drain_turn(now_ns, state);
        }
        self.refresh_addresses(now_ns);
        let opens_more = self.follow_connection_stages(now_ns);
        let slept_until_ns = self.slept_until_ns.take();
        if let Some(late_ns) = slept_until_ns.and_then(|until_ns| now_ns.checked_sub(until_ns)) {
            self.accounting.recorder().record_late_wakeup(late_ns);
        }
        if state.is_raised() || self.is_finished(now_ns, state) {
            return Ok(None);
        }
        if !self.streams_end {
            self.note_streams_end(state);
        }
        if now_ns >= self.times.end_ns {
            return if self.begin_drain(now_ns) {
                self.drain_turn(now_ns, state)
            } else {
                self.note_left();
                Ok(None)
            };
        }
        self.do_what_is_due(now_ns, state)?;
        if self.phase == Phase::WarmUp {
            self.warm_up(now_ns, state);
        }
        // After sending what was due, because it may take a tenth of a millisecond.
        if self.accounting.recorder().tick(now_ns) {
            self.report(now_ns);
        }
        if self.network.pool.outstanding == 0 {
            self.network.io.poll_until(0);
        }
        let (until_ns, is_exact) = if opens_more {
            (now_ns, true)
        } else {
            self.next_deadline_ns(now_ns)
        };
        self.waits_roughly = !is_exact;
        // A wait with an expired deadline only polls.
        let sleeps = until_ns > now_ns && until_ns >= self.times.measure_ns;
        self.slept_until_ns = sleeps.then_some(until_ns);
        self.accounting.watch.begin_wait(
            until_ns,
            self.network.io.has_more(),
            &mut self.accounting.usage,
        );
        Ok(Some(until_ns))
    }

    /// Reports what has happened since the previous report.
    fn report(&mut self, now_ns: u64) {
        if let Some(conversations) = &self.sender.conversations {
            let counts = conversations.counts();
            self.accounting.recorder().note_conversations(counts);
        }
        self.accounting
            .report(self.network.pool.established, now_ns);
    }

    /// Opens connections, ends what takes too long, and sends the requests that are due.
    #[inline]
    fn do_what_is_due(&mut self, now_ns: u64, state: &RunState) -> Result<(), StopReason> {
        if let Some(share) = &mut self.sender.share {
            share.begin_turn();
        }
        self.sender.stretch.begin(now_ns);
        S::at(&mut self.network.context, now_ns);
        self.open_next_connections(now_ns, state)?;
        self.reopen_after_outage();
        while let Some(key) = self.network.pool.wakes.take_due(now_ns) {
            self.on_wake(key, now_ns)?;
        }
        while let Some(key) = self.network.pool.deadlines.take_due(now_ns) {
            self.on_deadline(key, now_ns)?;
            self.continue_slot(key, now_ns)?;
        }
        self.handle_session_timers(now_ns)?;
        self.refill_due(now_ns)?;
        self.send_due(now_ns)?;
        self.flush_sessions();
        if let Some(share) = &mut self.sender.share {
            share.settle(now_ns);
        }
        Ok(())
    }

    /// Processes completions, up to the limit of a turn: with thousands of connections at once,
    /// this could take until after the end. Returns whether there were any.
    pub(crate) fn take_completions(&mut self) -> Result<bool, StopReason> {
        self.accounting
            .watch
            .end_wait(self.network.io.found(), self.network.io.has_more());
        if !self.accounting.watch.continues() {
            self.accounting.doubtful.clear();
        }
        let (per_turn, per_turn_after_stretch) = if self.sender.is_paced() {
            // Nothing more is sent then, so nothing waits for the end of the turn.
            (COMPLETIONS_PER_PACED_TURN, COMPLETIONS_PER_TURN)
        } else {
            // Each completion may be followed by a request.
            (COMPLETIONS_PER_TURN, 0)
        };
        let mut found_max = per_turn;
        let (mut taken, mut found) = (0, 0);
        while found < found_max {
            if taken % COMPLETIONS_PER_LOOK_AT_SENDS == COMPLETIONS_PER_LOOK_AT_SENDS - 1 {
                let now_ns = self.network.io.now_ns();
                self.submit_if_old(now_ns, Attribution::MIN_NS);
            }
            let Some(completion) = self.network.io.next() else {
                self.accounting.watch.leave(0);
                return Ok(taken > 0);
            };
            taken += 1;
            // A completion ended the wait, not the deadline, or not alone. But if it is found long
            // after the wait should have ended, nothing was running in between.
            self.slept_until_ns = self
                .slept_until_ns
                .filter(|until_ns| completion.at_ns.saturating_sub(*until_ns) >= STANDSTILL_NS);
            if self.accounting.read_late.first_ns > 0 {
                self.accounting.read_late = ReadLate::default();
            }
            let mut was_stopped = false;
            if self.network.io.was_found(&completion.event) {
                found += 1;
                if found == 1 {
                    self.sender.stretch.begin(completion.at_ns);
                }
                if let Some(gap_ns) = self.accounting.note_found(completion.at_ns) {
                    was_stopped = found == 1;
                    self.note_standstill(gap_ns);
                }
            }
            // Nothing seen after the end is counted.
            if completion.at_ns >= self.limit_ns && !self.begin_drain(completion.at_ns) {
                self.note_arrived_late(completion);
                return Err(StopReason::Over);
            }
            self.on_completion(completion)?;
            if was_stopped {
                self.look_again()?;
            }
            // At least one is taken of what has arrived.
            if found > 0 && self.sender.stretch.is_over() {
                found_max = per_turn_after_stretch;
            }
        }
        self.accounting.watch.leave(self.network.io.found());
        Ok(true)
    }

    /// Finds what arrived while the worker was stopped in a wait: it may have been stopped before
    /// or after the wait took what there was. Otherwise the next wait would find what arrived in
    /// the pause, and it would count as just arrived.
    #[cold]
    fn look_again(&mut self) -> Result<(), StopReason> {
        // The deadline has expired, so this only polls.
        self.wait(0)?;
        self.accounting
            .watch
            .found_more(self.network.io.found(), self.network.io.has_more());
        Ok(())
    }

    /// The worker did not run from the one time to the other.
    #[cold]
    fn note_standstill(&mut self, gap_ns: (u64, u64)) {
        self.accounting.note_standstill(gap_ns);
        let in_flight = self.network.pool.outstanding;
        let connections = in_flight.min(self.network.pool.established);
        self.accounting
            .watch
            .note_pause(in_flight as usize, connections as usize);
        let length_ns = gap_ns.1.saturating_sub(gap_ns.0);
        self.network.opening.note_standstill(length_ns);
    }

    /// Discards what arrives after the worker has ended.
    pub(crate) fn ignore_completions(&mut self) {
        while self.network.io.next().is_some() {}
    }

    /// The run ended while the worker did not run. What arrived before the end, of which this is
    /// the first completion, was on time.
    #[cold]
    fn note_arrived_late(&mut self, first: Completion) {
        let end_ns = self.limit_ns;
        let found_ns = first.at_ns;
        let since_ns = self.accounting.watch.unread_since_ns(end_ns);
        let mut next = Some(first);
        while let Some(completion) = next.take() {
            self.network.note_unread(&completion, since_ns, end_ns);
            // What is found later may have arrived after the end.
            next = self
                .network
                .io
                .next()
                .filter(|next| next.at_ns < found_ns + TICK_NS);
        }
    }

    /// The run ended before everything was taken that waits had found.
    fn note_left(&mut self) {
        while self.accounting.watch.untaken() > 0
            && let Some(completion) = self.network.io.next()
        {
            if self.network.io.was_found(&completion.event) {
                let (late_ns, _) = self
                    .accounting
                    .watch
                    .completed(completion.at_ns, &mut self.accounting.usage);
                let since_ns = completion.at_ns.saturating_sub(late_ns);
                self.network
                    .note_unread(&completion, since_ns, self.limit_ns);
            }
        }
    }

    /// When to continue if nothing happens, and whether that is when something must be done on
    /// time: a request is due, or a connection is to be opened or moved.
    fn next_deadline_ns(&self, now_ns: u64) -> (u64, bool) {
        if self.network.outage.is_over() || self.has_more_to_send() {
            return (now_ns, true);
        }
        let has_free = self.sender.has_free(&self.network.pool);
        let due_ns = self.sender.share.as_ref();
        let due_ns = due_ns.and_then(|share| share.wakes_at_ns(has_free));
        let turns = self.sender.conversations.as_ref().filter(|_| has_free);
        let turn_due_ns = turns.and_then(|conversations| conversations.next_due_ns());
        let opening_ns = self
            .network
            .opening
            .next_ns(self.settings.connections_total(), now_ns);
        let window_ns = (self.phase == Phase::WarmUp).then_some(self.times.measure_ns);
        let exact_ns = [
            window_ns,
            opening_ns,
            self.network.pool.wakes.next_ns(),
            self.network.pool.session_timers.next_ns(),
            due_ns,
            turn_due_ns,
        ];
        let latest_ns = self.times.end_ns.min(now_ns + self.tick_ns);
        let rough_ns = self
            .network
            .pool
            .deadlines
            .next_ns()
            .map_or(latest_ns, |deadline_ns| latest_ns.min(deadline_ns));
        match exact_ns.into_iter().flatten().min() {
            Some(exact_ns) if exact_ns <= rough_ns => (exact_ns, true),
            _ => (rough_ns, false),
        }
    }

    /// Whether something is sent as soon as responses were read.
    fn has_more_to_send(&self) -> bool {
        self.sender.stretch.is_over()
            && (self.sender.has_free(&self.network.pool) || self.sender.refills.are_waiting())
    }

    pub(crate) fn wait(&mut self, until_ns: u64) -> Result<(), StopReason> {
        let waited = if self.waits_roughly {
            self.network.io.wait_roughly(until_ns)
        } else {
            self.network.io.wait(Some(until_ns))
        };
        waited.map_err(|error| StopReason::Failed(format!("the event loop failed: {error}")))?;
        self.network.note_submitted();
        Ok(())
    }

    /// Called once, at the first turn of the run.
    fn start(&mut self) {
        self.phase = Phase::WarmUp;
        self.accounting.watch.start(self.times.start_ns);
        if self.sender.is_paced() {
            let connections = u64::from(self.settings.connections_for_requests());
            let requests = connections * u64::from(self.settings.pipeline);
            self.network
                .opening
                .start(requests, self.accounting.usage.times());
            self.network
                .opening
                .note_standstill(self.start_late_ns.unwrap_or(0));
        }
        if let Some(reporter) = &mut self.accounting.reporter {
            reporter.start(&mut self.accounting.usage, self.times.start_ns);
        }
        // The choice of the script's `setup` or `init`.
        if let Some(address) = self.sender.source.source.take_address() {
            self.network.addresses.set(address);
        }
    }

    /// A turn of the warm-up: begins the window if it is time.
    fn warm_up(&mut self, now_ns: u64, state: &RunState) {
        let is_sooner = |agreed_ns: &u64| *agreed_ns < self.times.measure_ns;
        if let Some(agreed_ns) = state.agreed_window_ns().filter(is_sooner) {
            self.move_window(agreed_ns);
        }
        if now_ns >= self.times.measure_ns {
            self.start_window(now_ns);
        }
    }

    /// The window begins when all workers have agreed. If this worker learns of it too late, after
    /// a standstill, its window begins now, since what it has done before was that of the warm-up.
    fn move_window(&mut self, agreed_ns: u64) {
        let end_ns = self.times.with_window_from(agreed_ns).end_ns;
        self.times.measure_ns = agreed_ns.max(self.network.io.now_ns() + 1);
        (self.times.end_ns, self.limit_ns) = (end_ns, end_ns);
        self.accounting.move_window(self.times);
        self.sender.move_window(self.times, &self.settings);
        if let Some(stages) = &mut self.network.connection_stages {
            stages.move_window(self.times.measure_ns);
        }
    }

    /// Called once, when the window has started.
    fn start_window(&mut self, now_ns: u64) {
        self.phase = Phase::Window;
        self.accounting.end_warmup_reports();
        let measure_ns = self.times.measure_ns;
        for connection in &mut self.network.pool.connections {
            let oldest = connection.exchanges.oldest();
            if oldest.is_some_and(|oldest| oldest.due_ns < measure_ns) {
                connection.early_bytes = connection.session.partial_bytes();
            }
        }
        self.accounting.start_packets(&self.network.pool);
        let established = self.network.pool.established_before(measure_ns);
        self.accounting.recorder().established_at_start(established);
        self.accounting.usage.start(now_ns);
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.network.io.now_ns()
    }

    fn is_finished(&mut self, now_ns: u64, state: &RunState) -> bool {
        let in_flight = self.network.pool.outstanding;
        let is_denied = self.accounting.denial.gives_up(now_ns, in_flight, state);
        if is_denied || self.is_done() {
            return true;
        }
        if self.times.end_ns != u64::MAX {
            return false;
        }
        if self.accounting.stall.is_only_refused() {
            // As many as each connection that is needed and each address have in one attempt.
            let needed = self
                .sender
                .remaining()
                .min(self.network.pool.connections.len() as u64);
            let attempts = needed.max(self.network.addresses.count() as u64);
            if self
                .accounting
                .stall
                .gives_up_refused(attempts, self.network.pool.outstanding)
            {
                return true;
            }
        }
        let first_due_ns = self
            .sender
            .share
            .as_ref()
            .map_or(0, ScheduleShare::first_due_ns);
        let pool = &self.network.pool;
        self.accounting.stall.gives_up(
            now_ns,
            first_due_ns,
            self.settings.timeout_ns,
            pool.outstanding,
            state,
            || pool.is_any_opening(),
        )
    }

    /// Whether all requests have been sent, and all of them have been answered or have failed here.
    fn is_done(&self) -> bool {
        let waits = |slots: &Slots| self.sender.is_paced() && slots.waiting_total() > 0;
        let talks = self.sender.conversations.as_ref();
        self.network.pool.outstanding == 0
            && self.sender.remaining() == 0
            && !talks.is_some_and(|it| it.any_live())
            && !self.sender.slots.as_ref().is_some_and(waits)
    }

    fn on_completion(&mut self, completion: Completion) -> Result<(), StopReason> {
        let Completion {
            key,
            token,
            at_ns,
            event,
        } = completion;
        if key == WAKER {
            // It has ended the wait. The next turn does the rest.
            return Ok(());
        }
        let connection = &mut self.network.pool[key];
        if connection.token != Some(token) {
            // The end of a connection that has been replaced. Its buffers can be reused.
            if let SocketEvent::Sent(buffer) = event {
                self.network.spare.recycle(buffer);
            }
            return Ok(());
        }
        S::at(&mut self.network.context, at_ns);
        self.on_event(key, event, at_ns)?;
        self.continue_slot(key, at_ns)
    }

    fn on_event(&mut self, key: u32, event: SocketEvent, at_ns: u64) -> Result<(), StopReason> {
        let connection = &mut self.network.pool[key];
        match event {
            SocketEvent::Received(_) => self.on_received(key, at_ns),
            SocketEvent::Discarded(bytes) => self.on_discarded(key, bytes, at_ns),
            SocketEvent::Postponed => {
                let late_ns = self.accounting.read_late.first_ns;
                let arrived_ns = at_ns.saturating_sub(late_ns);
                connection.arrived_ns.get_or_insert(arrived_ns);
                self.accounting.has_postponed = true;
                Ok(())
            }
            SocketEvent::Sent(buffer) => {
                if let Err(error) = self.network.on_sent(key, buffer) {
                    self.fail_session(key, &error, at_ns);
                }
                Ok(())
            }
            SocketEvent::Connected => self.on_connected(key, at_ns),
            SocketEvent::EndOfStream => self.on_end(key, at_ns),
            SocketEvent::ConnectFailed(errno) => {
                connection.token = None;
                self.fail(key, error_kinds::of_connect(errno), at_ns);
                Ok(())
            }
            SocketEvent::ReceiveFailed(errno) => {
                self.on_receive_failed(key, errno, at_ns);
                Ok(())
            }
            SocketEvent::SendFailed(_) => {
                // The receiving side will show the reason. There may also be an early response.
                connection.send_failed = true;
                Ok(())
            }
            SocketEvent::Closed | SocketEvent::Accepted => Ok(()),
        }
    }

    /// Calls the source, which may be a script that never returns.
    fn call_source<R>(
        &mut self,
        call: impl FnOnce(&mut dyn RequestSource) -> Result<R, SourceError>,
    ) -> Result<R, StopReason> {
        let Network { io, addresses, .. } = &mut self.network;
        let source = &mut self.sender.source;
        let result = source.call(&mut self.accounting.recorder, || io.now_ns(), call)?;
        if let Some(address) = source.source.take_address() {
            addresses.set(address);
        }
        if source.source.stopped() {
            return Err(StopReason::Wanted);
        }
        Ok(result)
    }

    /// The window has ended. Counts what belongs to it, whether it is drained or not.
    fn end_window(&mut self, ended_ns: u64) {
        self.accounting
            .usage
            .finish(self.settings.number(), ended_ns);
        if let Some(records) = self.accounting.recorder().records() {
            records.end_window();
        }
        if let (Some(reporter), Some(recorder)) =
            (&mut self.accounting.reporter, &mut self.accounting.recorder)
        {
            reporter.report_last(recorder, &mut self.accounting.usage, ended_ns);
        }
        self.accounting
            .count_partial(&mut self.network.pool, ended_ns);
        self.count_unsent(ended_ns);
        if let Some(recorder) = &mut self.accounting.recorder {
            recorder.end_window(ended_ns);
        }
    }
}
