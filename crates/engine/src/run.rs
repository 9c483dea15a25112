//! The control plane of a run: starts workers together, ends them together, merges what they wrote.

use crate::control::{Locker, Parked, RunState, Schedule};
use crate::dispatch::Task;
use crate::shared_schedule::{ScheduleShare, SharedSchedule};
use crate::snapshots::{Gathering, Observer, Share};
use crate::source::RequestSource;
use crate::worker::{Ended, STANDSTILL_NS, Settings, Stop, Worker};
use crate::{EngineError, Job, Outcome};
use eventloop::{EventLoop, monotonic_ns};
use plan::{BackendChoice, RunPlan};
use protocol::Session;
use results::{Recording, WorkerLags};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// What workers tell the main thread.
pub(crate) enum Report {
    Ready {
        /// Why this worker uses epoll though io_uring was chosen.
        no_ring: Option<String>,
    },
    Broken {
        index: usize,
        message: String,
    },
    /// What it has done, while the run is on.
    Share(Box<Share>),
    Ended {
        index: usize,
        ended: Box<Ended>,
    },
}

/// How often the main thread looks for an interrupt.
const POLL: Duration = Duration::from_millis(5);
/// Time for the message to start to reach every worker.
const LEAD_NS: u64 = 1_000_000;
/// After the end, a worker that is still inside the script is left there.
const SCRIPT_GRACE_NS: u64 = 30_000_000;
/// After the end, a worker that does not answer at all is left behind.
const WORKER_GRACE_NS: u64 = 10_000_000_000;

/// Runs the plan. Just before it sends the workers off, it announces when the window is; while they work,
/// the observer sees what they have done. Without one, workers keep it to themselves.
///
/// # Errors
/// When a worker could not be set up; then nothing was announced. What goes wrong later is part of the
/// outcome, beside what was measured until then.
pub fn run(
    plan: &RunPlan,
    job: Job,
    interrupted: &AtomicBool,
    announce: impl FnOnce(Schedule),
    observer: Option<&mut dyn Observer>,
) -> Result<Outcome, EngineError> {
    let state = RunState::default();
    let (reports_in, reports) = mpsc::channel();
    let mut crew = Crew::hire(plan, job, &state, &reports_in, observer.is_some())?;
    drop(reports_in);
    let without_ring = crew.await_ready(&reports)?;

    let start_ns = monotonic_ns() + LEAD_NS;
    let measure_ns = start_ns + nanoseconds(plan.warmup);
    let end_ns = plan.stop.duration.map_or(u64::MAX, |duration| {
        measure_ns.saturating_add(nanoseconds(duration))
    });
    let schedule = Schedule {
        start_ns,
        measure_ns,
        end_ns,
    };
    announce(schedule);
    for start in crew.starts.drain(..) {
        // A worker that has gone is noticed by its missing report.
        let _ = start.send(schedule);
    }
    Ok(Outcome {
        without_ring,
        ..crew.collect(&reports, schedule, &state, interrupted, observer)
    })
}

/// What one worker needs, on a loop of the caller's choice.
pub struct Part<L, S: Session> {
    /// Its loop.
    pub io: L,
    /// What the sessions of its connections share.
    pub shared: S::Shared,
    /// Its share of the plan.
    pub settings: Settings,
    /// What to send.
    pub source: Box<dyn RequestSource>,
}

/// Runs one worker in the calling thread. It may be one of several in number, the others of which never come: then
/// the requests of their shares are not sent. The observer is shown everything when it is over.
///
/// # Errors
/// When the worker cannot be set up.
pub fn run_here<L: EventLoop, S: Session>(
    part: Part<L, S>,
    schedule: Schedule,
    observer: Option<&mut dyn Observer>,
) -> Result<Ended, String> {
    let index = part.settings.worker as usize;
    let share = shared_schedule(&part.settings).map(|shared| shared.share(index));
    let mut worker = set_up(part, share)?;
    let (reports_in, reports) = mpsc::channel();
    if observer.is_some() {
        worker.share_with(reports_in);
    }
    let ended = worker.run(schedule, &RunState::default());
    if let Some(observer) = observer {
        let mut gathering = Gathering::new(1, schedule);
        for report in reports.try_iter() {
            if let Report::Share(share) = report {
                let at_ns = share.at_ns;
                gathering.take(
                    Share {
                        worker: 0,
                        ..*share
                    },
                    at_ns,
                );
                gathering.show(at_ns, observer);
            }
        }
    }
    ended.ok_or_else(|| format!("the recording of worker {index} was taken away"))
}

/// Runs several workers in the calling thread, by turns. Their loops belong together: a wait of any of them
/// ends when one of them has something to take, as it is with the simulator's. A worker's turn is never
/// interrupted by another's, and while all work no time passes but what the loops' clock says.
///
/// # Errors
/// When a worker cannot be set up.
pub fn run_together<L: EventLoop, S: Session>(
    parts: Vec<Part<L, S>>,
    schedule: Schedule,
) -> Result<Vec<Ended>, String> {
    let shared = parts
        .first()
        .and_then(|part| shared_schedule(&part.settings));
    let mut workers = Vec::new();
    for (index, part) in parts.into_iter().enumerate() {
        let share = shared.as_ref().map(|shared| shared.share(index));
        let mut worker = set_up(part, share)?;
        worker.begin(schedule);
        // Everybody has the first turn at once.
        workers.push((worker, Some(0)));
    }
    let state = RunState::default();
    let mut all_ended = Vec::new();
    loop {
        let mut next_ns: Option<u64> = None;
        for (worker, until_ns) in &mut workers {
            if *until_ns == Some(0) {
                match worker.turn(&state) {
                    Ok(Some(wait_ns)) => *until_ns = Some(wait_ns),
                    Ok(None) => end_worker(worker, until_ns, Ok(()), &mut all_ended),
                    Err(reason) => end_worker(worker, until_ns, Err(reason), &mut all_ended),
                }
            }
            next_ns = next_ns.into_iter().chain(*until_ns).min();
        }
        let Some(next_ns) = next_ns else {
            return Ok(all_ended);
        };
        let mut waiting = workers
            .iter_mut()
            .filter(|(_, until_ns)| until_ns.is_some());
        if let Some((worker, until_ns)) = waiting.next()
            && let Err(reason) = worker.wait(next_ns)
        {
            end_worker(worker, until_ns, Err(reason), &mut all_ended);
        }
        for (worker, until_ns) in &mut workers {
            let Some(wait_ns) = *until_ns else { continue };
            match worker.take_completions() {
                Ok(any) if any || wait_ns <= worker.now_ns() => *until_ns = Some(0),
                Ok(_) => {}
                Err(reason) => end_worker(worker, until_ns, Err(reason), &mut all_ended),
            }
        }
    }
}

fn end_worker<L: EventLoop, S: Session>(
    worker: &mut Worker<L, S>,
    until_ns: &mut Option<u64>,
    reason: Result<(), Stop>,
    all_ended: &mut Vec<Ended>,
) {
    *until_ns = None;
    all_ended.extend(worker.end(reason));
}

fn shared_schedule(settings: &Settings) -> Option<SharedSchedule> {
    let workers = settings.workers as usize;
    settings
        .pacing
        .is_open()
        .then(|| SharedSchedule::new(workers))
}

fn set_up<L: EventLoop, S: Session>(
    part: Part<L, S>,
    share: Option<ScheduleShare>,
) -> Result<Worker<L, S>, String> {
    let Part {
        io,
        shared,
        settings,
        source,
    } = part;
    Worker::new(io, shared, settings, source, None, share, Locker::default())
}

struct Crew {
    threads: Vec<Option<JoinHandle<()>>>,
    starts: Vec<Sender<Schedule>>,
    lockers: Vec<Locker>,
    /// With a rate.
    schedule: Option<SharedSchedule>,
}

impl Crew {
    fn hire(
        plan: &RunPlan,
        job: Job,
        state: &RunState,
        reports: &Sender<Report>,
        is_watched: bool,
    ) -> Result<Self, EngineError> {
        let mut crew = Self {
            threads: Vec::new(),
            starts: Vec::new(),
            lockers: Vec::new(),
            schedule: None,
        };
        let threads = job.sources.len();
        let mut watches = job.watches.into_iter();
        crew.schedule = plan.pacing.is_open().then(|| SharedSchedule::new(threads));
        for (index, source) in job.sources.into_iter().enumerate() {
            let (start_in, start) = mpsc::channel();
            let locker = Locker::default();
            crew.starts.push(start_in);
            crew.lockers.push(locker.clone());
            let task = Task {
                index,
                backend: job.backend,
                may_fall_back: plan.backend == BackendChoice::Auto,
                tls: job.tls.clone(),
                settings: settings(plan, &job.address, index, threads),
                source,
                watch: watches.next(),
                share: crew.schedule.as_ref().map(|schedule| schedule.share(index)),
                locker,
                is_watched,
                state: state.clone(),
                start,
                reports: reports.clone(),
            };
            let thread = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(move || task.run())
                .map_err(|error| EngineError::Thread {
                    index,
                    message: error.to_string(),
                })?;
            crew.threads.push(Some(thread));
        }
        Ok(crew)
    }

    /// Gives the reasons of those that could not have a ring.
    fn await_ready(&self, reports: &Receiver<Report>) -> Result<Vec<String>, EngineError> {
        let mut without_ring = Vec::new();
        for _ in 0..self.starts.len() {
            match reports.recv() {
                Ok(Report::Ready { no_ring }) => without_ring.extend(no_ring),
                Ok(Report::Broken { index, message }) => {
                    return Err(EngineError::Worker { index, message });
                }
                Ok(Report::Ended { .. } | Report::Share(_)) | Err(_) => {
                    return Err(EngineError::Worker {
                        index: 0,
                        message: "a worker ended before the start".to_owned(),
                    });
                }
            }
        }
        Ok(without_ring)
    }

    fn collect(
        mut self,
        reports: &Receiver<Report>,
        schedule: Schedule,
        state: &RunState,
        interrupted: &AtomicBool,
        mut observer: Option<&mut dyn Observer>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let mut missing: Vec<bool> = vec![true; self.lockers.len()];
        let mut ended_ns = schedule.measure_ns;
        let mut stop_ns = schedule.end_ns;
        let mut gathering = Gathering::new(self.lockers.len(), schedule);
        while missing.contains(&true) {
            let waits_from_ns = monotonic_ns();
            let report = reports.recv_timeout(POLL);
            note_standstill(
                &mut outcome.recording,
                schedule,
                waits_from_ns,
                monotonic_ns(),
            );
            match report {
                Ok(Report::Ended { index, ended }) => {
                    missing[index] = false;
                    // Those that are stuck are never joined.
                    outcome.leaving.extend(self.threads[index].take());
                    ended_ns = ended_ns.max(ended.ended_ns);
                    outcome.recording.merge(&ended.recording);
                    outcome.first_trouble = outcome.first_trouble.or(ended.first_trouble);
                    outcome.has_given_up |= ended.has_given_up;
                    outcome.workers.extend(ended.usage);
                    let lags = WorkerLags::of(index as u32, &ended.recording.lags);
                    outcome.lags.push(lags);
                    if let Some(failure) = ended.failure {
                        // One worker's failure ends the run for all.
                        outcome.failures.push(failure);
                        state.raise();
                        stop_ns = stop_ns.min(monotonic_ns());
                    }
                }
                Ok(Report::Share(share)) => gathering.take(*share, monotonic_ns()),
                Ok(Report::Ready { .. } | Report::Broken { .. })
                | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    outcome.failures.push("a worker thread died".to_owned());
                    break;
                }
            }
            if interrupted.load(Ordering::Relaxed) && !state.is_raised() {
                outcome.interrupted = true;
                state.raise();
                stop_ns = stop_ns.min(monotonic_ns());
            }
            let now_ns = monotonic_ns();
            if let Some(observer) = &mut observer {
                if now_ns < stop_ns {
                    gathering.show(now_ns, *observer);
                }
                observer.turn(gathering.age(now_ns));
            }
            let late_ns = now_ns.saturating_sub(stop_ns);
            if late_ns > SCRIPT_GRACE_NS {
                for (index, missing) in missing.iter_mut().enumerate().filter(|(_, is)| **is) {
                    if let Some(parked) = self.lockers[index].take() {
                        *missing = false;
                        ended_ns = ended_ns.max(stop_ns);
                        let share = self.schedule.as_ref().map(|schedule| (schedule, index));
                        outcome.recording.merge(&take_over(parked, share, stop_ns));
                        outcome.stuck_workers.push(index as u32);
                    }
                }
            }
            if late_ns > WORKER_GRACE_NS {
                outcome
                    .failures
                    .push("a worker did not end; its numbers are missing".to_owned());
                break;
            }
        }
        outcome.workers.sort_by_key(|usage| usage.worker);
        outcome.lags.sort_by_key(|lags| lags.worker);
        outcome.duration_ns = ended_ns.min(schedule.end_ns) - schedule.measure_ns;
        outcome
    }
}

/// Notes a wait of the main thread that ended far too late. Workers note theirs, but a busy one hardly waits, and does
/// not see that the whole process was suspended in the middle of its work.
fn note_standstill(recording: &mut Recording, schedule: Schedule, from_ns: u64, to_ns: u64) {
    let awaited_ns = from_ns.max(schedule.measure_ns) + POLL.as_nanos() as u64;
    let late_ns = to_ns.min(schedule.end_ns).saturating_sub(awaited_ns);
    if late_ns >= STANDSTILL_NS {
        recording.lags.wakeup.record(late_ns);
    }
}

/// The recording of a worker that is inside a script. Its connections cannot be asked, so the age of
/// what is in flight is known only as "since before the script was called". What is left of its share of the
/// schedule was never sent.
fn take_over(parked: Parked, share: Option<(&SharedSchedule, usize)>, ended_ns: u64) -> Recording {
    let Parked {
        mut recorder,
        since_ns,
    } = parked;
    let outstanding = recorder.outstanding();
    if outstanding > 0 {
        let age_ns = ended_ns.saturating_sub(since_ns);
        recorder.in_flight(outstanding, age_ns, age_ns);
    }
    if let Some((schedule, worker)) = share {
        schedule.close(worker, ended_ns, |due_ns, requests| {
            recorder.unsent(due_ns, requests, ended_ns);
        });
    }
    recorder.finish(ended_ns)
}

/// One worker's share. Remainders go to the first workers, so that nothing is dropped.
fn settings(
    plan: &RunPlan,
    address: &eventloop::Address,
    index: usize,
    threads: usize,
) -> Settings {
    let threads = threads as u64;
    let share = |total: u64| total / threads + u64::from((index as u64) < total % threads);
    Settings {
        address: address.clone(),
        options: eventloop::SocketOptions::default(),
        connections: share(u64::from(plan.load.connections)) as u32,
        pipeline: plan.load.pipeline.max(1),
        requests_per_connection: match (plan.load.keepalive, plan.load.requests_per_connection) {
            (false, _) => 1,
            (true, Some(limit)) => limit.max(1),
            (true, None) => u64::MAX,
        },
        timeout_ns: nanoseconds(plan.time_limit()),
        requests: match plan.pacing.is_open() {
            true => plan.stop.requests,
            false => plan.stop.requests.map(share),
        },
        seed: index as u64,
        pacing: plan.pacing.clone(),
        worker: index as u32,
        workers: threads as u32,
        source: plan.load.source,
        batch_latency: plan.load.batch_latency,
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn only_a_wait_within_the_window_that_ends_far_too_late_is_a_standstill() {
        let schedule = Schedule {
            start_ns: 0,
            measure_ns: 1_000 * MS,
            end_ns: 3_000 * MS,
        };
        let noted = |from_ms: u64, to_ms: u64| {
            let mut recording = Recording::new();
            note_standstill(&mut recording, schedule, from_ms * MS, to_ms * MS);
            recording.lags.wakeup.max_ns().map(|ns| ns / MS)
        };
        assert_eq!(noted(1_200, 1_205), None);
        assert_eq!(noted(1_200, 1_700), None);
        assert_eq!(noted(1_200, 1_706), Some(501));
        // The parts in the warm-up and behind the end are in no figure.
        assert_eq!(noted(0, 1_400), None);
        assert_eq!(noted(0, 2_005), Some(1_000));
        assert_eq!(noted(2_400, 9_000), Some(595));
        assert_eq!(noted(3_100, 9_000), None);
    }
}
