//! The load generator of an agent: `runner` in a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use cluster::generator::{Generator, GeneratorEvent, Work};
use cluster::names::Label;
use cluster::package::{MODULES, Package};
use results::snapshot::Snapshot;
use runner::{Invocation, Observer, Permit, RunObservers, Variables};

use crate::wire::{self, Details};

/// Makes the load of an agent with the threads of this machine.
#[derive(Default)]
pub(crate) struct RunnerGenerator {
    job: Option<Job>,
    /// The thread of the job before. Its sockets may still be closing.
    leaving: Option<JoinHandle<()>>,
}

/// A run that is being prepared or made.
struct Job {
    events: Receiver<GeneratorEvent>,
    /// Dropped, it ends a job that waits for its start.
    start: Option<Sender<u64>>,
    stop: Arc<AtomicBool>,
    has_ended: bool,
    /// `None` if it could not be started.
    thread: Option<JoinHandle<()>>,
}

impl Generator for RunnerGenerator {
    fn prepare(&mut self, work: Work) {
        self.discard();
        let before = self.leaving.take();
        let (sender, events) = channel();
        let (start, starts) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let reports = sender.clone();
        let body = move || {
            if let Some(before) = before {
                // Its sockets are closed now, even if it has panicked.
                let _ = before.join();
            }
            let ended = match carry_out(work, &starts, &stopped, &reports) {
                Ok(None) => return,
                Ok(Some(report)) => GeneratorEvent::Finished(report),
                Err(reason) => GeneratorEvent::Failed(reason),
            };
            // Without a receiver the job was discarded.
            let _ = reports.send(ended);
        };
        let thread = std::thread::Builder::new().name("load".to_owned());
        let thread = thread.spawn(body).map_err(|error| {
            let reason = format!("cannot start a thread: {error}");
            let _ = sender.send(GeneratorEvent::Failed(reason));
        });
        self.job = Some(Job {
            events,
            start: Some(start),
            stop,
            has_ended: false,
            thread: thread.ok(),
        });
    }

    fn start_at(&mut self, start_ns: u64) {
        if let Some(start) = self.job.as_mut().and_then(|job| job.start.take()) {
            // If the thread has ended, an event says why.
            let _ = start.send(start_ns);
        }
    }

    fn stop(&mut self) {
        if let Some(job) = &self.job {
            job.stop.store(true, Ordering::Relaxed);
        }
    }

    fn discard(&mut self) {
        if let Some(mut job) = self.job.take() {
            job.stop.store(true, Ordering::Relaxed);
            job.start = None;
            self.leaving = job.thread;
        }
    }

    fn next_event(&mut self) -> Option<GeneratorEvent> {
        let job = self.job.as_mut().filter(|job| !job.has_ended)?;
        let event = match job.events.try_recv() {
            Ok(event) => event,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => {
                GeneratorEvent::Failed("the load generator ended unexpectedly".to_owned())
            }
        };
        job.has_ended = matches!(
            event,
            GeneratorEvent::Finished(_) | GeneratorEvent::Failed(_) | GeneratorEvent::Refused(_)
        );
        Some(event)
    }
}

impl Drop for RunnerGenerator {
    /// Waits until the load has ended: nothing is left running.
    fn drop(&mut self) {
        self.discard();
        if let Some(leaving) = self.leaving.take() {
            let _ = leaving.join();
        }
    }
}

/// Prepares the run, waits for the start, and makes it. `None` if there was no start.
fn carry_out(
    work: Work,
    starts: &Receiver<u64>,
    stop: &AtomicBool,
    events: &Sender<GeneratorEvent>,
) -> Result<Option<Vec<u8>>, String> {
    let Work {
        package: Package { share, details, .. },
        folder,
        targets,
    } = work;
    let details: Details = serde_json::from_value(details)
        .map_err(|error| format!("the plan that arrived is not valid: {error}"))?;
    share.plan.check().map_err(|error| error.to_string())?;
    let permit = Permit::by(Arc::new(move |host, addresses| {
        let checked = targets.check(host, addresses);
        checked.map_err(|refusal| refusal.to_string())
    }));
    let invocation = Invocation {
        command_line: details.command_line,
        // For `{{now}}` in requests. The coordinator sets the time of the start in the result.
        unix_ms: details.unix_ms,
        started_at: details.started_at,
        keeps_secrets: details.keeps_secrets,
        fleet: Some(share.schedule),
        modules: Some(folder.join(MODULES)),
        permit,
        // The request file has the values of the coordinator's variables.
        variables: Variables::default(),
    };
    let prepared = runner::prepare(share.plan, invocation).map_err(|error| error.to_string())?;
    let notes = prepared.notes().iter().map(|note| Label::new(note));
    let notes = notes.collect();
    let armed = prepared.arm().map_err(|error| error.to_string())?;
    // As below: without a receiver, nobody will start the run either.
    let _ = events.send(GeneratorEvent::Prepared(notes));
    let Ok(start_ns) = starts.recv() else {
        return Ok(None);
    };
    let mut reporter = Reporter(events);
    let observers = RunObservers {
        samples: None,
        observer: Some(&mut reporter),
    };
    let finished = armed.start_at(start_ns, stop, observers);
    let finished = finished.map_err(|error| error.to_string())?;
    runner::flush_script_output();
    wire::encode(finished).map(Some)
}

/// Hands snapshots to the agent.
struct Reporter<'a>(&'a Sender<GeneratorEvent>);

impl Observer for Reporter<'_> {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        if let Ok(value) = serde_json::to_value(snapshot) {
            let _ = self.0.send(GeneratorEvent::Progress(value));
        }
    }
}
