//! The thread that takes the records of all rings while a run goes on.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use results::{ProfileSamples, StackSample};

use super::address_spaces::{AddressSpaces, Frame};
use super::counters::Counters;
use super::naming;
use super::perf_event::{Ring, SAMPLES_PER_SEC};
use super::record::{self, Record, Sample, Task};
use super::threads::ThreadMeter;
use crate::clock;
use crate::target::Target;

/// How often rings are emptied: they hold the samples of half a second.
const TURN: Duration = Duration::from_millis(20);

/// How often new processes of the target are looked for, in turns. Those that its processes start
/// are sampled at once.
const TURNS_PER_LOOK: u32 = 50;

/// More samples are dropped: 5,000 s of CPU time. Together with their stacks they take less than
/// 200 MB.
const SAMPLES_MAX: usize = 500_000;

/// What a running profiler keeps.
pub(crate) struct SamplingState {
    pub(crate) target: Target,
    pub(crate) counters: Counters,
    pub(crate) threads: ThreadMeter,
    pub(crate) spaces: AddressSpaces,
    pub(crate) stacks: StackTable,
    pub(crate) notes: Vec<String>,
    samples: Vec<StackSample>,
    processes: BTreeSet<u32>,
    lost: u64,
    dropped: u64,
    incomplete: u64,
    is_throttled: bool,
    /// Reused to avoid allocations.
    frames: Vec<Frame>,
}

/// Each stack once.
#[derive(Debug, Default)]
pub(crate) struct StackTable {
    frames: HashMap<Frame, u32>,
    stacks: HashMap<Box<[u32]>, u32>,
}

impl StackTable {
    fn number(&mut self, frames: &[Frame]) -> u32 {
        let next = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let frames = frames.iter().map(|frame| {
            let new = next(self.frames.len());
            *self.frames.entry(*frame).or_insert(new)
        });
        let stack = frames.collect();
        let new = next(self.stacks.len());
        *self.stacks.entry(stack).or_insert(new)
    }

    /// Frames by number, and stacks of such numbers by number.
    pub(crate) fn into_parts(self) -> (Vec<Frame>, Vec<Box<[u32]>>) {
        let mut frames: Vec<(u32, Frame)> = swapped(self.frames);
        frames.sort_unstable_by_key(|(number, _)| *number);
        let mut stacks: Vec<(u32, Box<[u32]>)> = swapped(self.stacks);
        stacks.sort_unstable_by_key(|(number, _)| *number);
        let frames = frames.into_iter().map(|(_, frame)| frame);
        let stacks = stacks.into_iter().map(|(_, stack)| stack);
        (frames.collect(), stacks.collect())
    }
}

fn swapped<T>(map: HashMap<T, u32>) -> Vec<(u32, T)> {
    map.into_iter()
        .map(|(value, number)| (number, value))
        .collect()
}

impl SamplingState {
    pub(crate) fn new(target: Target, counters: Counters, threads: ThreadMeter) -> Self {
        Self {
            target,
            counters,
            threads,
            spaces: AddressSpaces::default(),
            stacks: StackTable::default(),
            notes: Vec::new(),
            samples: Vec::new(),
            processes: BTreeSet::new(),
            lost: 0,
            dropped: 0,
            incomplete: 0,
            is_throttled: false,
            frames: Vec::new(),
        }
    }

    /// Samples until the sender is gone.
    pub(crate) fn run(mut self, end: &Receiver<()>) -> ProfileSamples {
        for process in self.target.processes(Path::new("/")) {
            self.processes.insert(process);
            // Reading a large program takes longer than a turn.
            self.spaces.know(process, now_ns());
        }
        let mut records = Vec::new();
        let mut turn: u32 = 0;
        loop {
            let is_over = end.recv_timeout(TURN) != Err(RecvTimeoutError::Timeout);
            let mut rings = std::mem::take(&mut self.counters.rings);
            for ring in rings.iter_mut().flatten() {
                self.take(ring, &mut records);
            }
            self.counters.rings = rings;
            if is_over {
                return self.finish();
            }
            self.threads.read(now_ns());
            turn = turn.wrapping_add(1);
            if turn.is_multiple_of(TURNS_PER_LOOK) {
                self.look_for_processes();
            }
        }
    }

    fn take(&mut self, ring: &mut Ring, bytes: &mut Vec<u8>) {
        ring.take(bytes);
        for record in record::records(bytes) {
            match record {
                Record::Sample(sample) => self.add(&sample),
                Record::Mapped { process } | Record::Executed { process } => {
                    self.spaces.has_changed(process);
                }
                Record::Started { task, parent } => {
                    self.spaces.has_started(task.process, parent.process);
                    self.threads.has_started(task);
                    self.processes.insert(task.process);
                }
                Record::Ended { task } => self.threads.has_ended(task),
                Record::Lost { records } => self.lost = self.lost.saturating_add(records),
                Record::Throttled => self.is_throttled = true,
            }
        }
    }

    fn add(&mut self, sample: &Sample<'_>) {
        if self.samples.len() >= SAMPLES_MAX {
            self.dropped += 1;
            return;
        }
        self.spaces.know(sample.task.process, now_ns());
        self.spaces.frames(sample, &mut self.frames);
        self.incomplete += u64::from(self.frames.contains(&Frame::Unknown));
        self.samples.push(StackSample {
            at_ns: sample.at_ns,
            stack: self.stacks.number(&self.frames),
        });
    }

    /// Adds processes of the target that none of its processes has started.
    fn look_for_processes(&mut self) {
        if matches!(self.target, Target::Process(_)) {
            return;
        }
        for process in self.target.processes(Path::new("/")) {
            if !self.processes.insert(process) {
                continue;
            }
            let added = self.counters.add(process, |thread| {
                self.threads.add(Task { process, thread });
            });
            if let Err(error) = added.and_then(|()| self.counters.enable()) {
                self.notes
                    .push(format!("process {process} could not be sampled: {error}"));
            }
        }
    }

    fn finish(mut self) -> ProfileSamples {
        let (times, pressure_of, threads) = self.threads.finish(now_ns());
        // What follows is after the run.
        let cpu_ns = clock::thread_cpu_ns();
        self.samples.sort_unstable_by_key(|sample| sample.at_ns);
        if !self.counters.with_kernel {
            self.notes.push(
                "functions of the kernel are missing: sysctl kernel.perf_event_paranoid is above 1"
                    .to_owned(),
            );
        }
        if self.is_throttled {
            self.notes.push(
                "the kernel has limited the samples (sysctl kernel.perf_cpu_time_max_percent)"
                    .to_owned(),
            );
        }
        let named = naming::of(self.stacks, &self.spaces);
        self.notes.extend(named.notes);
        ProfileSamples {
            host: None,
            clock_bound_ns: None,
            target: self.target.to_string(),
            processes: u32::try_from(self.processes.len().max(self.spaces.len()))
                .unwrap_or(u32::MAX),
            threads,
            samples_per_sec: SAMPLES_PER_SEC,
            functions: named.functions,
            stacks: named.stacks,
            samples: self.samples,
            times,
            pressure_of,
            lost: self.lost,
            dropped: self.dropped,
            incomplete: self.incomplete,
            cpu_ns,
            notes: self.notes,
        }
    }
}

/// 0 on a system without the clock, which there is none of.
fn now_ns() -> u64 {
    clock::monotonic_ns().unwrap_or_default()
}
