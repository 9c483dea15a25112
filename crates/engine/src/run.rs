//! The control plane of a run: starts the workers together, stops them together, and merges what
//! they recorded.

use crate::control::{ParkedRecorder, RunState, RunTimes, StuckGuard};
use crate::dispatch::WorkerTask;
use crate::shared_schedule::{ScheduleShare, SharedSchedule};
use crate::snapshots::{Observer, ProgressReport, SnapshotMerger};
use crate::source::RequestSource;
use crate::warmup::Warmup;
use crate::worker::{
    HISTORIES_MAX_BYTES, STANDSTILL_NS, StopReason, Worker, WorkerResult, WorkerSettings,
};
use crate::{EngineError, RunInputs, RunOutcome, UsageProbe, WorkerError};
use eventloop::{EventLoop, monotonic_ns};
use plan::{BackendChoice, FleetSchedule, Lanes, RunPlan};
use protocol::Session;
use results::{Recording, Settling, WorkerLags};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Messages from workers to the main thread.
pub(crate) enum WorkerMessage {
    Ready {
        /// Why this worker uses epoll although io_uring was chosen.
        no_ring: Option<String>,
    },
    SetupFailed {
        index: usize,
        message: String,
    },
    Progress(Box<ProgressReport>),
    Ended {
        index: usize,
        result: Box<WorkerResult>,
    },
}

/// The message from the main thread that starts a worker.
pub(crate) struct Start {
    pub(crate) times: RunTimes,
    /// Whether to send progress reports.
    pub(crate) is_observed: bool,
}

/// How often the main thread checks for an interrupt. Each check wakes it up, which costs about
/// 30 us of CPU time on a virtual machine: more often, and it would be a notable part of what a run
/// at a low rate costs.
const POLL: Duration = Duration::from_millis(50);
/// Time for the start message to reach every worker.
const START_LEAD_NS: u64 = 1_000_000;
/// After the end, a worker that is still inside the script for this long is abandoned.
const SCRIPT_GRACE_NS: u64 = 30_000_000;
/// After the end, a worker that has not reported for this long is abandoned.
const WORKER_GRACE_NS: u64 = 10_000_000_000;

/// Sets up the workers of a run, one thread for each source. They wait for [`Armed::start`]; if the
/// armed run is dropped instead, they end.
///
/// # Errors
/// If a worker cannot be set up.
pub fn prepare(plan: &RunPlan, inputs: RunInputs) -> Result<Armed, EngineError> {
    let state = RunState::default();
    let (sender, messages) = mpsc::channel();
    let pool = WorkerPool::spawn(plan, inputs, &state, &sender)?;
    drop(sender);
    let without_ring = pool.await_ready(&messages)?;
    Ok(Armed {
        pool,
        messages,
        state,
        without_ring,
        warmup_ns: nanoseconds(plan.warmup),
        warmup_auto: plan.warmup_auto,
        duration_ns: plan.stop.duration.map(nanoseconds),
        drain_ns: nanoseconds(plan.drain_limit()),
    })
}

/// A run whose workers are set up and wait for the start.
pub struct Armed {
    pool: WorkerPool,
    messages: Receiver<WorkerMessage>,
    state: RunState,
    without_ring: Vec<String>,
    warmup_ns: u64,
    warmup_auto: bool,
    duration_ns: Option<u64>,
    drain_ns: u64,
}

impl Armed {
    /// The earliest time at which all workers can start: CLOCK_MONOTONIC, nanoseconds.
    #[must_use]
    pub fn earliest_start_ns(&self) -> u64 {
        monotonic_ns() + START_LEAD_NS
    }

    /// The phases of the run if it starts at `start_ns`, unless the server settles before.
    #[must_use]
    pub fn times(&self, start_ns: u64) -> RunTimes {
        let measure_ns = start_ns + self.warmup_ns;
        RunTimes {
            start_ns,
            measure_ns,
            end_ns: self.duration_ns.map_or(u64::MAX, |duration_ns| {
                measure_ns.saturating_add(duration_ns)
            }),
        }
    }

    /// Starts all workers at `start_ns` (CLOCK_MONOTONIC) and waits for the end of the run. Setting
    /// `interrupted` ends it early. Failures during the run are part of the outcome, together with
    /// everything measured until then. `window_moves` is called at most once, before the window, if
    /// the server has settled.
    #[must_use]
    pub fn start(
        mut self,
        start_ns: u64,
        interrupted: &AtomicBool,
        observer: Option<&mut dyn Observer>,
        window_moves: &mut dyn FnMut(RunTimes),
    ) -> RunOutcome {
        let times = self.times(start_ns);
        let is_observed = observer.is_some();
        for start in self.pool.starts.drain(..) {
            // A worker that is gone is noticed by its missing report.
            let _ = start.send(Start { times, is_observed });
        }
        self.collect(times, interrupted, observer, window_moves)
    }

    fn collect(
        mut self,
        times: RunTimes,
        interrupted: &AtomicBool,
        mut observer: Option<&mut dyn Observer>,
        window_moves: &mut dyn FnMut(RunTimes),
    ) -> RunOutcome {
        let mut collected = Collected::new(&mut self, times);
        let mut merger = SnapshotMerger::new(self.pool.threads.len(), times);
        let mut grace = GracePeriod::default();
        while collected.missing.contains(&true) {
            let waits_from_ns = monotonic_ns();
            let message = self.messages.recv_timeout(POLL);
            let waited_until_ns = monotonic_ns();
            note_standstill(&mut collected.outcome, waits_from_ns, waited_until_ns);
            grace.note_wait(waits_from_ns, waited_until_ns);
            match message {
                Ok(WorkerMessage::Ended { index, result }) => {
                    if result.failure.is_some() || result.first_responses.has_given_up {
                        // A failure of one worker ends the run for all.
                        collected.stop(&self.state);
                    }
                    collected.add(&mut self.pool, index, *result);
                }
                Ok(WorkerMessage::Progress(report)) => {
                    if let Some(measure_ns) = collected.settles(&report, &self.state) {
                        merger.move_window(measure_ns);
                        window_moves(collected.outcome.times);
                    }
                    merger.add(*report, monotonic_ns());
                }
                Ok(WorkerMessage::Ready { .. } | WorkerMessage::SetupFailed { .. })
                | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    collected.fail("a worker thread died");
                    break;
                }
            }
            if interrupted.load(Ordering::Relaxed) && !self.state.is_raised() {
                collected.outcome.interrupted = true;
                collected.stop(&self.state);
            }
            let now_ns = monotonic_ns();
            if let Some(observer) = &mut observer {
                if now_ns < collected.stop_ns {
                    merger.show(now_ns, *observer);
                }
                observer.turn(merger.age(now_ns));
            }
            let late_ns = grace.used_ns(collected.stop_ns, now_ns);
            if late_ns > SCRIPT_GRACE_NS {
                collected.take_from_stuck_workers(&self.pool);
            }
            if late_ns > WORKER_GRACE_NS {
                collected.fail("a worker did not end; its numbers are missing");
                break;
            }
        }
        collected.finish()
    }
}

/// How long workers have had to end. A time in which nothing ran (SIGSTOP, a suspended machine)
/// does not count: the workers could not end then either.
#[derive(Default)]
struct GracePeriod {
    /// When the process last ran again after a standstill.
    resumed_ns: u64,
}

impl GracePeriod {
    fn note_wait(&mut self, from_ns: u64, to_ns: u64) {
        if to_ns.saturating_sub(from_ns) >= STANDSTILL_NS {
            self.resumed_ns = to_ns;
        }
    }

    fn used_ns(&self, stop_ns: u64, now_ns: u64) -> u64 {
        now_ns.saturating_sub(stop_ns.max(self.resumed_ns))
    }
}

/// What the main thread has collected from the workers so far.
struct Collected {
    outcome: RunOutcome,
    /// Set while the warm-up may still end because the server has settled.
    warmup: Option<Warmup>,
    /// By index: workers without a result so far.
    missing: Vec<bool>,
    /// When the last of the workers stopped.
    ended_ns: u64,
    /// When the run ends at the latest, with the drain, or was stopped.
    stop_ns: u64,
    drain_ns: u64,
}

impl Collected {
    fn new(armed: &mut Armed, times: RunTimes) -> Self {
        Self {
            outcome: RunOutcome {
                times,
                without_ring: std::mem::take(&mut armed.without_ring),
                ..RunOutcome::default()
            },
            warmup: armed
                .warmup_auto
                .then(|| Warmup::new(armed.pool.threads.len(), times)),
            missing: vec![true; armed.pool.threads.len()],
            ended_ns: times.measure_ns,
            stop_ns: times.end_ns.saturating_add(armed.drain_ns),
            drain_ns: armed.drain_ns,
        }
    }

    /// A worker reports. If the server has settled, this agrees with all workers on the start of
    /// the window and returns it.
    fn settles(&mut self, report: &ProgressReport, state: &RunState) -> Option<u64> {
        let measure_ns = self.warmup.as_mut()?.add(report, monotonic_ns())?;
        if state.is_raised() {
            return None;
        }
        self.warmup = None;
        self.outcome.settling = Some(Settling::Settled);
        state.agree_on_window(measure_ns);
        let times = self.outcome.times.with_window_from(measure_ns);
        self.outcome.times = times;
        self.ended_ns = measure_ns;
        self.stop_ns = times.end_ns.saturating_add(self.drain_ns);
        Some(measure_ns)
    }

    fn stop(&mut self, state: &RunState) {
        state.raise();
        self.stop_ns = self.stop_ns.min(monotonic_ns());
    }

    fn fail(&mut self, message: &str) {
        self.outcome.failures.push(message.to_owned());
    }

    fn add(&mut self, pool: &mut WorkerPool, index: usize, result: WorkerResult) {
        self.missing[index] = false;
        self.ended_ns = self.ended_ns.max(result.ended_ns);
        let outcome = &mut self.outcome;
        // Threads of stuck workers are never joined.
        outcome.leaving.extend(pool.threads[index].take());
        let start_late_ns = result.start_late_ns.unwrap_or_default();
        outcome.start_late_ns = outcome.start_late_ns.max(start_late_ns);
        outcome.drained_ns = outcome.drained_ns.max(result.drained_ns);
        outcome.recording.merge(&result.recording);
        outcome.first_error_detail = outcome
            .first_error_detail
            .take()
            .or(result.first_error_detail);
        outcome.has_given_up |= result.has_given_up;
        outcome.is_refused |= result.is_refused;
        outcome.first_responses.merge(result.first_responses);
        outcome.workers.extend(result.usage);
        if let Some(spans) = result.slow_spans {
            outcome.slow_spans.get_or_insert_default().merge(spans);
        }
        let lags = WorkerLags::of(pool.number(index), &result.recording.lags);
        outcome.lags.push(lags);
        outcome.failures.extend(result.failure);
    }

    /// Takes the recordings of workers that are inside a script.
    fn take_from_stuck_workers(&mut self, pool: &WorkerPool) {
        let end_ns = self.outcome.times.end_ns;
        for (index, missing) in self.missing.iter_mut().enumerate().filter(|(_, is)| **is) {
            if let Some(parked) = pool.stuck_guards[index].take() {
                *missing = false;
                self.ended_ns = self.ended_ns.max(self.stop_ns);
                let share = pool.schedule.as_ref().map(|schedule| (schedule, index));
                let recording = finish_parked(parked, share, (end_ns, self.stop_ns));
                self.outcome.recording.merge(&recording);
                self.outcome.stuck_workers.push(pool.number(index));
            }
        }
    }

    fn finish(self) -> RunOutcome {
        let mut outcome = self.outcome;
        let times = outcome.times;
        if let Some(warmup) = self.warmup.filter(|_| self.ended_ns > times.measure_ns) {
            outcome.settling = Some(warmup.at_limit());
        }
        outcome.workers.sort_by_key(|usage| usage.worker);
        outcome.lags.sort_by_key(|lags| lags.worker);
        outcome.duration_ns = self.ended_ns.min(times.end_ns) - times.measure_ns;
        outcome
    }
}

/// Everything that one worker needs, with an event loop chosen by the caller.
pub struct WorkerParts<L, S: Session> {
    /// The event loop of the worker.
    pub io: L,
    /// What the sessions of its connections share.
    pub context: S::Context,
    /// Its share of the plan.
    pub settings: WorkerSettings,
    /// The source of the worker's requests.
    pub source: Box<dyn RequestSource>,
    /// Measures the resources that its thread uses, if they are of interest.
    pub usage_probe: Option<Box<dyn UsageProbe>>,
}

/// Runs one worker in the calling thread. It may be one of several in number whose others never
/// run; then the requests of their shares are not sent. The observer gets everything after the end.
///
/// # Errors
/// If the worker cannot be set up.
pub fn run_here<L: EventLoop, S: Session>(
    parts: WorkerParts<L, S>,
    times: RunTimes,
    observer: Option<&mut dyn Observer>,
) -> Result<WorkerResult, WorkerError> {
    let index = parts.settings.worker as usize;
    let share = shared_schedule(&parts.settings).map(|shared| shared.share(index));
    let mut worker = set_up(parts, share)?;
    let (sender, messages) = mpsc::channel();
    worker.report_to(&sender, observer.is_some());
    let result = worker.run(times, &RunState::default());
    if let Some(observer) = observer {
        let mut merger = SnapshotMerger::new(1, times);
        for message in messages.try_iter() {
            if let WorkerMessage::Progress(report) = message {
                let at_ns = report.at_ns;
                merger.add(
                    ProgressReport {
                        worker: 0,
                        ..*report
                    },
                    at_ns,
                );
                merger.show(at_ns, observer);
            }
        }
    }
    result.ok_or(WorkerError::TakenAway(index))
}

/// Runs several workers in the calling thread, in turns. Their loops must belong together, like
/// those of the simulator: a wait of any of them ends when one of them has a completion. A turn of
/// one worker is never interrupted by another's, and while the workers run, no time passes except
/// by the clock of the loops. A warm-up may last until the server has settled.
///
/// # Errors
/// If a worker cannot be set up.
pub fn run_together<L: EventLoop, S: Session>(
    parts: Vec<WorkerParts<L, S>>,
    times: RunTimes,
) -> Result<Vec<WorkerResult>, WorkerError> {
    let shared = parts
        .first()
        .and_then(|part| shared_schedule(&part.settings));
    let mut workers = Vec::new();
    let (sender, messages) = mpsc::channel();
    let mut warmup = Warmup::new(parts.len(), times);
    for (index, part) in parts.into_iter().enumerate() {
        let share = shared.as_ref().map(|shared| shared.share(index));
        let mut worker = set_up(part, share)?;
        worker.report_to(&sender, false);
        worker.begin(times);
        // Every worker has its first turn at once.
        workers.push((worker, Some(0)));
    }
    let state = RunState::default();
    let mut results = Vec::new();
    loop {
        let mut next_ns: Option<u64> = None;
        for (worker, until_ns) in &mut workers {
            if *until_ns == Some(0) {
                match worker.turn(&state) {
                    Ok(Some(wait_ns)) => *until_ns = Some(wait_ns),
                    Ok(None) => end_worker(worker, until_ns, Ok(()), &mut results),
                    Err(reason) => end_worker(worker, until_ns, Err(reason), &mut results),
                }
            }
            next_ns = next_ns.into_iter().chain(*until_ns).min();
        }
        for message in messages.try_iter() {
            if let WorkerMessage::Progress(report) = message
                && let Some(measure_ns) = warmup.add(&report, report.at_ns)
                && state.agreed_window_ns().is_none()
            {
                state.agree_on_window(measure_ns);
            }
        }
        let Some(next_ns) = next_ns else {
            return Ok(results);
        };
        let mut waiting = workers
            .iter_mut()
            .filter(|(_, until_ns)| until_ns.is_some());
        if let Some((worker, until_ns)) = waiting.next()
            && let Err(reason) = worker.wait(next_ns)
        {
            end_worker(worker, until_ns, Err(reason), &mut results);
        }
        for (worker, until_ns) in &mut workers {
            let Some(wait_ns) = *until_ns else {
                // Otherwise no wait of the others would last.
                worker.ignore_completions();
                continue;
            };
            match worker.take_completions() {
                Ok(any) if any || wait_ns <= worker.now_ns() => *until_ns = Some(0),
                Ok(_) => {}
                Err(reason) => end_worker(worker, until_ns, Err(reason), &mut results),
            }
        }
    }
}

fn end_worker<L: EventLoop, S: Session>(
    worker: &mut Worker<L, S>,
    until_ns: &mut Option<u64>,
    reason: Result<(), StopReason>,
    results: &mut Vec<WorkerResult>,
) {
    *until_ns = None;
    results.extend(worker.end(reason));
}

/// The mean time between two requests of a log; `None` without one.
fn recorded_gap_ns(source: &dyn RequestSource) -> Option<f64> {
    let file = source.file()?;
    let due_ns = file.set.recorded()?.due_ns();
    let (last_ns, count) = (*due_ns.last()?, due_ns.len());
    Some(last_ns as f64 / count as f64)
}

/// Whether requests are turns of conversations.
fn has_conversations(source: &dyn RequestSource) -> bool {
    source
        .file()
        .is_some_and(|file| file.set.has_conversations())
}

fn shared_schedule(settings: &WorkerSettings) -> Option<SharedSchedule> {
    let workers = settings.workers as usize;
    settings
        .plan
        .pacing
        .is_open()
        .then(|| SharedSchedule::new(workers))
}

fn set_up<L: EventLoop, S: Session>(
    parts: WorkerParts<L, S>,
    share: Option<ScheduleShare>,
) -> Result<Worker<L, S>, WorkerError> {
    Worker::new(parts, share, StuckGuard::default())
}

/// The threads of the workers, by index.
struct WorkerPool {
    threads: Vec<Option<JoinHandle<()>>>,
    starts: Vec<Sender<Start>>,
    stuck_guards: Vec<StuckGuard>,
    /// At a fixed rate.
    schedule: Option<SharedSchedule>,
    worker_base: u32,
}

impl WorkerPool {
    fn spawn(
        plan: &RunPlan,
        mut inputs: RunInputs,
        state: &RunState,
        messages: &Sender<WorkerMessage>,
    ) -> Result<Self, EngineError> {
        let workers = inputs.sources.len();
        let mut pool = Self {
            threads: Vec::new(),
            starts: Vec::new(),
            stuck_guards: Vec::new(),
            schedule: plan.pacing.is_open().then(|| SharedSchedule::new(workers)),
            worker_base: worker_base(inputs.fleet.as_ref()),
        };
        let mut usage_probes = std::mem::take(&mut inputs.usage_probes).into_iter();
        let sources = std::mem::take(&mut inputs.sources);
        for (index, source) in sources.into_iter().enumerate() {
            let (start_in, start) = mpsc::channel();
            let stuck_guard = StuckGuard::default();
            pool.starts.push(start_in);
            pool.stuck_guards.push(stuck_guard.clone());
            let task = WorkerTask {
                index,
                backend: inputs.backend,
                may_fall_back: plan.backend == BackendChoice::Auto,
                tls: inputs.tls.clone(),
                proxy: inputs.proxy.clone(),
                settings: WorkerSettings {
                    recorded_gap_ns: recorded_gap_ns(source.as_ref()),
                    has_conversations: has_conversations(source.as_ref()),
                    ..settings(plan, &inputs, index, workers)
                },
                source,
                usage_probe: usage_probes.next(),
                share: pool.schedule.as_ref().map(|schedule| schedule.share(index)),
                stuck_guard,
                state: state.clone(),
                start,
                messages: messages.clone(),
            };
            let number = pool.number(index);
            let thread = std::thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(move || task.run())
                .map_err(|error| EngineError::Thread {
                    worker: number,
                    message: error.to_string(),
                })?;
            pool.threads.push(Some(thread));
        }
        Ok(pool)
    }

    /// The number of a worker across all machines of a run.
    fn number(&self, index: usize) -> u32 {
        self.worker_base + index as u32
    }

    /// Waits until all workers are set up. Returns the reasons of those that could not have a ring.
    fn await_ready(&self, messages: &Receiver<WorkerMessage>) -> Result<Vec<String>, EngineError> {
        let mut without_ring = Vec::new();
        for _ in 0..self.starts.len() {
            match messages.recv() {
                Ok(WorkerMessage::Ready { no_ring }) => without_ring.extend(no_ring),
                Ok(WorkerMessage::SetupFailed { index, message }) => {
                    return Err(EngineError::Worker {
                        worker: self.number(index),
                        message,
                    });
                }
                Ok(WorkerMessage::Ended { .. } | WorkerMessage::Progress(_)) | Err(_) => {
                    return Err(EngineError::Worker {
                        worker: self.worker_base,
                        message: "a worker ended before the start".to_owned(),
                    });
                }
            }
        }
        Ok(without_ring)
    }
}

/// Records a wait of the main thread that ended far too late. Workers record theirs too, but a busy
/// worker hardly waits, and does not notice that the whole process was suspended in the middle of
/// its work.
fn note_standstill(outcome: &mut RunOutcome, from_ns: u64, to_ns: u64) {
    let times = outcome.times;
    let awaited_ns = from_ns.max(times.measure_ns) + POLL.as_nanos() as u64;
    let late_ns = to_ns.min(times.end_ns).saturating_sub(awaited_ns);
    if late_ns >= STANDSTILL_NS {
        outcome.recording.lags.wakeup.record(late_ns);
    }
}

/// The recording of a worker that is inside a script. Its connections are not accessible, so the
/// age of requests in flight is only known as "since before the script was called". The rest of its
/// share of the schedule was never sent.
fn finish_parked(
    parked: ParkedRecorder,
    share: Option<(&SharedSchedule, usize)>,
    (window_end_ns, ended_ns): (u64, u64),
) -> Recording {
    let ParkedRecorder {
        mut recorder,
        since_ns,
    } = parked;
    let outstanding = recorder.outstanding();
    if outstanding > 0 {
        let age_ns = ended_ns.saturating_sub(since_ns);
        recorder.in_flight(outstanding, age_ns, age_ns);
        // Which ones they are is not known.
        if let Some(records) = recorder.records() {
            records.lose(outstanding);
        }
    }
    if let Some(records) = recorder.records() {
        records.end_window();
    }
    let window_end_ns = window_end_ns.min(ended_ns);
    if let Some((schedule, worker)) = share {
        schedule.close(worker, window_end_ns, |due_ns, requests| {
            recorder.unsent((due_ns, requests), window_end_ns, None);
        });
    }
    recorder.end_window(window_end_ns);
    recorder.finish(ended_ns)
}

/// One worker's share of the plan. Remainders go to the first workers, so that nothing is lost. The
/// workers of one agent have the same weight.
fn settings(plan: &RunPlan, inputs: &RunInputs, index: usize, workers: usize) -> WorkerSettings {
    let fleet = inputs.fleet.as_ref();
    let worker_base = worker_base(fleet);
    let total = fleet.map_or(workers as u32, |fleet| fleet.workers_total);
    let workers = workers as u64;
    let share = |total: u64| total / workers + u64::from((index as u64) < total % workers);
    WorkerSettings {
        plan: RunPlan {
            // A schedule has random arrivals from one seed, so that it is the same on every
            // machine.
            pacing: fleet.map_or(&plan.pacing, |fleet| &fleet.pacing).clone(),
            ..plan.clone()
        },
        addresses: inputs.addresses.clone(),
        options: eventloop::SocketOptions::default(),
        connections: share(u64::from(plan.load.connections)) as u32,
        hosts: inputs.addresses.hosts(),
        pipeline: plan.load.in_flight_per_connection().max(1),
        requests_per_connection: match (plan.load.keepalive, plan.load.requests_per_connection) {
            (false, _) => 1,
            (true, Some(limit)) => limit.max(1),
            (true, None) => u64::MAX,
        },
        idle_connections: {
            let index = index as u32;
            let lanes = match fleet {
                Some(fleet) => fleet.lanes(index..index + 1),
                None => Lanes::in_turn(index..index + 1, total),
            };
            // It is at most the number of all.
            lanes.count(0, plan.load.idle_connections.into()) as u32
        },
        recorded_gap_ns: None,
        has_conversations: false,
        histories_max_bytes: HISTORIES_MAX_BYTES,
        timeout_ns: nanoseconds(plan.time_limit()),
        requests: if plan.pacing.is_scheduled() {
            fleet.map_or(plan.stop.requests, |fleet| fleet.requests)
        } else {
            plan.stop.requests.map(share)
        },
        seed: u64::from(worker_base) + index as u64,
        worker_base,
        worker: index as u32,
        workers: workers as u32,
        workers_elsewhere: total.saturating_sub(workers as u32),
        weighted: fleet.and_then(|fleet| fleet.weighted),
        records: inputs.records.clone(),
    }
}

fn worker_base(fleet: Option<&FleetSchedule>) -> u32 {
    fleet.map_or(0, |fleet| fleet.worker_base)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::Pacing;

    const MS: u64 = 1_000_000;

    #[test]
    fn only_a_wait_within_the_window_that_ends_far_too_late_is_recorded() {
        let times = RunTimes {
            start_ns: 0,
            measure_ns: 1_000 * MS,
            end_ns: 3_000 * MS,
        };
        let noted = |from_ms: u64, to_ms: u64| {
            let mut outcome = RunOutcome {
                times,
                ..RunOutcome::default()
            };
            note_standstill(&mut outcome, from_ms * MS, to_ms * MS);
            outcome.recording.lags.wakeup.max_ns().map(|ns| ns / MS)
        };
        let poll_ms = POLL.as_millis() as u64;
        assert_eq!(noted(1_200, 1_200 + poll_ms), None);
        assert_eq!(noted(1_200, 1_200 + poll_ms + 499), None);
        assert_eq!(noted(1_200, 1_200 + poll_ms + 501), Some(501));
        // The parts in the warm-up and after the end do not count.
        assert_eq!(noted(0, 1_400), None);
        assert_eq!(noted(0, 2_000 + poll_ms), Some(1_000));
        assert_eq!(noted(2_400 - poll_ms, 9_000), Some(600));
        assert_eq!(noted(3_100, 9_000), None);
    }

    #[test]
    fn workers_have_their_full_grace_after_the_process_was_suspended_over_the_end() {
        let mut grace = GracePeriod::default();
        grace.note_wait(995 * MS, 1_000 * MS);
        assert_eq!(grace.used_ns(1_000 * MS, 1_040 * MS), 40 * MS);
        grace.note_wait(1_040 * MS, 31_040 * MS);
        assert_eq!(grace.used_ns(1_000 * MS, 31_041 * MS), MS);
    }

    fn inputs(fleet: Option<FleetSchedule>) -> RunInputs {
        RunInputs {
            addresses: crate::AddressBook::new(
                vec![eventloop::Address::Tcp(([127, 0, 0, 1], 80).into())],
                false,
            ),
            tls: None,
            proxy: None,
            sources: Vec::new(),
            backend: crate::IoBackend::Epoll,
            usage_probes: Vec::new(),
            fleet,
            records: None,
        }
    }

    #[test]
    fn the_workers_of_a_fleet_have_the_settings_of_those_of_one_machine() {
        let open = Pacing::Constant {
            rate_per_sec: 1_000.0,
            arrivals: plan::Arrivals::Poisson,
            seed: 7,
        };
        for (pacing, requests) in [(open, Some(1_001)), (Pacing::Closed, Some(1_001))] {
            let target = plan::Target::parse("http://127.0.0.1/").expect("it is a URL");
            let mut whole = RunPlan::new(target);
            (whole.load.threads, whole.load.connections) = (6, 100);
            whole.stop.requests = requests;
            whole.pacing = pacing;
            let alone = (0..6).map(|index| settings(&whole, &inputs(None), index, 6));
            let shares = whole.deal(&[1, 3, 2]).expect("enough for all");
            let of_fleet = shares.iter().flat_map(|share| {
                let inputs = inputs(Some(share.schedule.clone()));
                let workers = share.plan.load.threads as usize;
                (0..workers).map(move |index| settings(&share.plan, &inputs, index, workers))
            });
            for (alone, of_fleet) in alone.zip(of_fleet) {
                assert_eq!(of_fleet.number(), alone.number());
                assert_eq!(of_fleet.workers_total(), alone.workers_total());
                assert_eq!(of_fleet.plan.pacing, alone.plan.pacing);
                assert_eq!(of_fleet.requests, alone.requests);
                assert_eq!(of_fleet.connections, alone.connections);
                assert_eq!(of_fleet.seed, alone.seed);
            }
        }
    }

    #[test]
    fn the_workers_of_agents_with_weights_have_what_the_plan_deals_out() {
        let target = plan::Target::parse("http://127.0.0.1/").expect("it is a URL");
        let mut whole = RunPlan::new(target);
        (whole.load.connections, whole.load.idle_connections) = (101, 17);
        whole.stop.requests = Some(1_003);
        let agent = |threads, weight: u32| plan::AgentThreads {
            threads,
            weight: weight.try_into().expect("it is a weight"),
        };
        let agents = [agent(2, 1), agent(3, 5), agent(1, 2)];
        let shares = whole.deal(&agents).expect("enough for all");
        let (mut connections, mut requests, mut idle, mut number) = (0, 0, 0, 0);
        for (share, agent) in shares.iter().zip(&agents) {
            let inputs = inputs(Some(share.schedule.clone()));
            let threads = agent.threads as usize;
            let workers = (0..threads).map(|index| settings(&share.plan, &inputs, index, threads));
            let workers: Vec<WorkerSettings> = workers.collect();
            for worker in &workers {
                // Of 19 lanes.
                let weight = u64::from(u32::from(agent.weight));
                let is_quota = |has: u64, all: u64| {
                    (all * weight / 19..=(all * weight).div_ceil(19)).contains(&has)
                };
                assert!(is_quota(worker.connections.into(), 101), "{worker:?}");
                assert!(is_quota(worker.requests.unwrap_or(0), 1_003), "{worker:?}");
                assert_eq!(worker.lanes().width(), weight);
                assert_eq!(worker.lanes().total(), 19);
                assert_eq!((worker.number(), worker.workers_total()), (number, 6));
                number += 1;
                idle += worker.idle_connections;
            }
            let of_agent: u32 = workers.iter().map(|worker| worker.connections).sum();
            assert_eq!(of_agent, share.plan.load.connections);
            connections += of_agent;
            requests += workers
                .iter()
                .filter_map(|worker| worker.requests)
                .sum::<u64>();
        }
        assert_eq!((connections, requests, idle), (101, 1_003, 17));
        let widths = shares.iter().map(|share| {
            let workers = 0..share.plan.load.threads;
            workers.map(|worker| share.schedule.lanes(worker..worker + 1).first())
        });
        let firsts: Vec<u64> = widths.flatten().collect();
        assert_eq!(firsts, [0, 1, 2, 7, 12, 17]);
    }
}
