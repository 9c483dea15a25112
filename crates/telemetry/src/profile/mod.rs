//! Samples the call stacks of a server on this machine, and how long its threads were on a CPU and
//! waited for one, with what the kernel has for that (perf_event_open(2), proc(5)).

mod address_spaces;
mod counters;
mod image;
mod mappings;
mod naming;
mod perf_event;
mod record;
mod sampling;
mod symbols;
mod threads;

use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use results::ProfileSamples;

pub use self::record::addresses_in_records;

use self::counters::Counters;
use self::record::Task;
use self::sampling::SamplingState;
use self::threads::ThreadMeter;
use crate::clock;
use crate::target::{AttachError, PROCESSES_MAX, Target};

/// A profiler that is ready to start.
pub struct Profiler(SamplingState);

/// A running profiler. Dropping it ends it without a result.
#[derive(Debug)]
pub struct Profiling {
    /// Dropping it ends the thread.
    end: Sender<()>,
    outcome: Receiver<ProfileSamples>,
    thread: JoinHandle<()>,
}

impl Profiler {
    /// Finds the processes of a server and prepares to sample them. The name is the number of a
    /// process, a systemd unit, or what processes are called.
    ///
    /// # Errors
    /// If there is no such process, if this user may not sample it, or if this kernel
    /// or container does not allow it.
    pub fn prepare(name: &str) -> Result<Self, AttachError> {
        let root = Path::new("/");
        let target = Target::find(root, name)?;
        let processes = target.processes(root);
        let Some(first) = processes.first() else {
            return Err(AttachError::LoadGenerator(target.to_string()));
        };
        let now_ns = clock::monotonic_ns().unwrap_or_default();
        let mut threads = ThreadMeter::new(*first, now_ns);
        let mut counters = Counters::new();
        for process in &processes {
            let process = *process;
            counters
                .add(process, |thread| threads.add(Task { process, thread }))
                .map_err(|error| AttachError::Sampling(process, error.to_string()))?;
        }
        if counters.is_empty() {
            return Err(AttachError::Ended(target.to_string()));
        }
        let mut state = SamplingState::new(target, counters, threads);
        if processes.len() == PROCESSES_MAX {
            state
                .notes
                .push(format!("only {PROCESSES_MAX} processes are sampled"));
        }
        Ok(Self(state))
    }

    /// Starts sampling, on a thread of its own.
    ///
    /// # Errors
    /// When no thread can be started, or sampling cannot.
    pub fn start(self) -> io::Result<Profiling> {
        let Self(mut state) = self;
        state
            .counters
            .enable()
            .map_err(|error| io::Error::other(error.to_string()))?;
        let (end, ended) = mpsc::channel();
        let (outcome_in, outcome) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("profiler".to_owned())
            .spawn(move || {
                let samples = state.run(&ended);
                // The receiver may be gone.
                let _ = outcome_in.send(samples);
            })?;
        Ok(Profiling {
            end,
            outcome,
            thread,
        })
    }
}

impl Profiling {
    /// Ends sampling and names the functions, which may take a second for large programs.
    #[must_use]
    pub fn finish(self) -> ProfileSamples {
        drop(self.end);
        let samples = self.outcome.recv();
        // A panic is in `samples` as well.
        let _ = self.thread.join();
        samples.unwrap_or_else(|_| ProfileSamples {
            notes: vec!["the profiler crashed".to_owned()],
            ..ProfileSamples::default()
        })
    }
}
