//! The profile of a server: where its threads were, and how much of that was while slow requests
//! were in flight.

mod flames;
mod view;

use serde::{Deserialize, Serialize};

use super::{PartSection, PartTable, PartView, SectionPosition};
use crate::Contradiction;

/// What a profiler has seen of a server, before it is compared with the requests. Times are those
/// of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfileSamples {
    /// The agent that took the samples on another machine; its times were converted.
    #[serde(skip)]
    pub host: Option<String>,
    /// If requests and samples come from several machines: the largest error of the time between
    /// them, nanoseconds.
    #[serde(skip)]
    pub clock_bound_ns: Option<u64>,
    /// What was profiled, in words: `process 7`, `unit nginx.service`.
    pub target: String,
    /// Number of processes that were seen.
    pub processes: u32,
    /// Number of threads that were seen.
    pub threads: u32,
    /// Samples per second of CPU time.
    pub samples_per_sec: u32,
    /// Names of functions.
    pub functions: Vec<String>,
    /// Stacks as indices of functions, the outermost one first.
    pub stacks: Vec<Vec<u32>>,
    /// In order of time.
    pub samples: Vec<StackSample>,
    /// Times of all threads together, in consecutive intervals.
    pub times: Vec<ThreadTimes>,
    /// What the pressure is that of: `the machine`, or a control group.
    pub pressure_of: String,
    /// Samples that the kernel did not have room for.
    pub lost: u64,
    /// Samples that were left out because there were too many.
    pub dropped: u64,
    /// Samples whose outermost functions are not known.
    pub incomplete: u64,
    /// CPU time of the thread that took the samples, until the end of the run, nanoseconds.
    pub cpu_ns: Option<u64>,
    /// What could not be seen, one line each.
    pub notes: Vec<String>,
}

/// Where a thread was. There may be many, so its fields have no names when it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u32)", into = "(u64, u32)")]
pub struct StackSample {
    /// When, nanoseconds.
    pub at_ns: u64,
    /// Index of its stack.
    pub stack: u32,
}

impl From<(u64, u32)> for StackSample {
    fn from((at_ns, stack): (u64, u32)) -> Self {
        Self { at_ns, stack }
    }
}

impl From<StackSample> for (u64, u32) {
    fn from(sample: StackSample) -> Self {
        (sample.at_ns, sample.stack)
    }
}

/// Times of all threads of a server in an interval, summed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTimes {
    /// Start of the interval, nanoseconds.
    pub start_ns: u64,
    /// Its end, nanoseconds.
    pub end_ns: u64,
    /// Threads at its end.
    pub threads: u32,
    /// Time on a CPU, nanoseconds; `None` if this kernel does not tell.
    pub on_cpu_ns: Option<u64>,
    /// Time ready to run but without a CPU, nanoseconds.
    pub run_queue_wait_ns: Option<u64>,
    /// Time in which some task waited for a CPU, for memory and for input or output, nanoseconds.
    pub pressure_ns: [Option<u64>; 3],
}

/// The profile of a server over the window of a run. Slow time is that in which at least one of the
/// slow requests was in flight. All of it is correlation: what differs then need not be the cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The agent that profiled it on another machine; absent if that is the machine of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// If requests and samples come from several machines: the largest error of the time between
    /// them, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_bound_ns: Option<u64>,
    /// What was profiled: `process 7`, `unit nginx.service`, `processes called nginx`.
    pub target: String,
    /// Number of its processes.
    pub processes: u32,
    /// Number of its threads.
    pub threads: u32,
    /// Samples per second of CPU time.
    pub samples_per_sec: u32,
    /// Samples within the window.
    pub samples: u64,
    /// Samples that the kernel did not have room for.
    pub lost: u64,
    /// Samples that were left out because there were too many.
    pub dropped: u64,
    /// Samples whose outermost functions are not known.
    pub incomplete: u64,
    /// CPU time of the thread that took the samples, nanoseconds: the cost on the load generator,
    /// or on `host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// The slow requests and their time.
    pub slow: SlowTime,
    /// Whether slow time could be compared with the rest.
    pub comparison: ProfileComparison,
    /// Functions with a share that is worth a row, the largest difference first.
    pub functions: Vec<FunctionShare>,
    /// What the threads did, per second.
    pub times: Vec<TimeShare>,
    /// What the pressure among `times` is that of: `the machine`, or a control group.
    pub pressure_of: String,
    /// Names of the functions of `stacks`.
    pub stack_functions: Vec<String>,
    /// The most frequent stacks with their samples.
    pub stacks: Vec<FoldedStack>,
    /// Samples of stacks that are not in `stacks`.
    pub samples_left_out: u64,
    /// What could not be seen, one line each.
    pub notes: Vec<String>,
}

/// The slow requests, and the time in which one of them was in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SlowTime {
    /// Slow requests that count: those that the parts of the latency call the slowest, or as many
    /// of them as leave half of the window for comparison.
    pub requests: u64,
    /// The shortest of them from sent to finished, nanoseconds.
    pub shortest_ns: u64,
    /// Time within the window in which one of them was in flight, nanoseconds.
    pub time_ns: u64,
    /// Samples in that time.
    pub samples: u64,
}

/// Whether slow time was compared with the rest of the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ProfileComparison {
    /// There were no slow requests.
    #[default]
    NoSlowRequests,
    /// A slow request was in flight all the time.
    AlwaysSlow,
    /// There are too few samples, or too few blocks of time with both.
    TooFew {
        /// Samples while a slow request was in flight.
        slow_samples: u64,
        /// Blocks of time with samples of both.
        blocks: u64,
    },
    /// It was compared within blocks of time.
    Compared {
        /// Blocks of time with samples of both.
        blocks: u64,
        /// Length of a block, nanoseconds.
        block_ns: u64,
        /// A difference of this share of the samples or more would be found with a probability of
        /// 80 %; above 1, none would. Absent in documents of versions that did not compute it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shows: Option<f64>,
    },
}

/// A difference: slow time minus the rest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProfileDifference {
    /// The difference, compared within each block of time.
    pub difference: f64,
    /// Lower end of its 95 % confidence interval.
    pub low: f64,
    /// Upper end of its 95 % confidence interval.
    pub high: f64,
    /// Probability of a difference this large without a true one, corrected for the number of
    /// differences that were tested.
    pub p_value: f64,
}

/// A function's share of the samples, 0 to 1. Shares are `None` without samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FunctionShare {
    /// The function; `[program]` if the names of a program's functions are not known.
    pub name: String,
    /// Share of samples in the function itself.
    pub own: ShareByTime,
    /// Share of samples in it or in what it has called.
    pub total: ShareByTime,
}

/// A share or rate in slow time and in the rest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShareByTime {
    /// While a slow request was in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow: Option<f64>,
    /// In the rest of the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<f64>,
    /// The difference, if it could be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<ProfileDifference>,
}

/// What threads of a server do, in seconds per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TimeShare {
    /// What they do.
    pub what: ThreadState,
    /// Seconds per second, summed over threads.
    pub per_sec: ShareByTime,
}

/// What threads of a server do, and the pressure on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ThreadState {
    /// On a CPU.
    OnCpu,
    /// Ready to run, but without a CPU.
    RunQueueWait,
    /// Neither: waiting for requests, locks, input or output.
    NotOnCpu,
    /// Some task waited for a CPU (pressure stall information).
    CpuPressure,
    /// Some task waited for memory (pressure stall information).
    MemoryPressure,
    /// Some task waited for input or output (pressure stall information).
    IoPressure,
}

/// A stack and its samples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FoldedStack {
    /// Indices of its functions in `stack_functions`, the outermost one first.
    pub functions: Vec<u32>,
    /// Samples while a slow request was in flight.
    pub slow: u64,
    /// Other samples.
    pub other: u64,
}

/// A difference with a smaller p-value counts as found.
const LEVEL: f64 = 0.05;

impl ProfileDifference {
    /// Whether it is more than chance, by the test and by its interval.
    #[must_use]
    pub fn is_significant(&self) -> bool {
        self.p_value < LEVEL && (self.low > 0.0 || self.high < 0.0)
    }
}

impl ShareByTime {
    /// The difference, if it is more than chance.
    #[must_use]
    pub fn found(&self) -> Option<ProfileDifference> {
        self.difference.filter(ProfileDifference::is_significant)
    }
}

impl Profile {
    /// What threads did, per second; `None` if it is not known.
    #[must_use]
    pub fn per_sec(&self, what: ThreadState) -> Option<ShareByTime> {
        let found = self.times.iter().find(|share| share.what == what);
        found.map(|share| share.per_sec)
    }
}

pub(super) static VIEW: PartView = PartView {
    check: |result| result.profile.as_ref().map_or(Ok(()), check),
    notes: view::notes,
    section: Some(PartSection {
        findings: |_, single| view::finding(single?),
        details: view::graphs,
        ..PartSection::of_tables(
            ("profile", "Profile of the server"),
            "Samples of the server's call stacks while its threads were on a CPU. Slow time is the \
             time in which at least one of the slowest requests was in flight. Differences are \
             correlation: what runs more in slow time need not be the cause of it.",
            SectionPosition::Server,
            &[
                PartTable::OfRuns(view::functions),
                PartTable::OfRuns(view::times),
            ],
        )
    }),
    ..PartView::NONE
};

/// What is said of the profile of a run, a line each; empty without one.
pub(super) use view::lines;

/// Checks that stacks name functions that there are, and that samples add up.
fn check(profile: &Profile) -> Result<(), Contradiction> {
    let functions = profile.stack_functions.len();
    let named = profile.stacks.iter().flat_map(|stack| &stack.functions);
    if let Some(unknown) = named.into_iter().find(|at| **at as usize >= functions) {
        return Err(Contradiction(format!(
            "profile: a stack has function {unknown} of {functions}"
        )));
    }
    let counts = profile.stacks.iter();
    let counted = counts.fold(profile.samples_left_out, |sum, stack| {
        sum.saturating_add(stack.slow).saturating_add(stack.other)
    });
    if counted != profile.samples {
        return Err(Contradiction(format!(
            "profile: the stacks have {counted} samples, not {}",
            profile.samples
        )));
    }
    Ok(())
}
