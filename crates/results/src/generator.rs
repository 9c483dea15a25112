//! Use of the machine by the load generator, and its delays.

use serde::{Deserialize, Serialize};

use crate::{Histogram, Lags, Verdict};

/// CPU use of a thread, as the kernel counts it (CLOCK_THREAD_CPUTIME_ID, and
/// `/proc/thread-self/schedstat`, Documentation/scheduler/sched-stats.rst).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ThreadUsage {
    /// Time on a CPU, nanoseconds.
    pub cpu_ns: u64,
    /// Time ready to run and waiting for a CPU, nanoseconds; `None` where the kernel does not count
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_queue_wait_ns: Option<u64>,
    /// Number of times that it was put on a CPU; `None` where the kernel does not count it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeslices: Option<u64>,
}

impl ThreadUsage {
    /// The use since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let difference = |now: Option<u64>, earlier: Option<u64>| {
            now.zip(earlier)
                .map(|(now, earlier)| now.saturating_sub(earlier))
        };
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            run_queue_wait_ns: difference(self.run_queue_wait_ns, earlier.run_queue_wait_ns),
            timeslices: difference(self.timeslices, earlier.timeslices),
        }
    }
}

/// CPU use of one worker during the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkerUsage {
    /// Number of the worker, from 0.
    pub worker: u32,
    /// Time between the two readings, nanoseconds: the window, unless the worker ended early.
    pub elapsed_ns: u64,
    /// CPU use in that time.
    pub usage: ThreadUsage,
}

/// Delays of one worker; [`crate::Recording::lags`] has the samples of all workers together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkerLags {
    /// Number of the worker, from 0.
    pub worker: u32,
    /// Digest of [`Lags::send`]: from due to sent.
    pub send: LagDigest,
    /// Digest of [`Lags::own`]: the part of `send` that the load generator caused.
    pub own: LagDigest,
    /// Digest of [`Lags::wakeup`]: how late the event loop returned.
    pub wakeup: LagDigest,
    /// Digest of [`Lags::receive`]: how long received bytes waited to be read.
    pub receive: LagDigest,
}

/// A distribution of delays in four numbers; all 0 without samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "WrittenDigest")]
#[cfg_attr(feature = "schema", schemars(!from))]
pub struct LagDigest {
    /// Number of samples in the distribution.
    pub count: u64,
    /// Median of the samples, nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile of the samples, nanoseconds.
    pub p99_ns: u64,
    /// Largest sample, exact, nanoseconds.
    pub max_ns: u64,
}

/// A digest as read from a document. In version 1, one of the lags is a whole histogram.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum WrittenDigest {
    Digest {
        count: u64,
        p50_ns: u64,
        p99_ns: u64,
        max_ns: u64,
    },
    Histogram(Histogram),
}

impl From<WrittenDigest> for LagDigest {
    fn from(written: WrittenDigest) -> Self {
        match written {
            WrittenDigest::Digest {
                count,
                p50_ns,
                p99_ns,
                max_ns,
            } => Self {
                count,
                p50_ns,
                p99_ns,
                max_ns,
            },
            WrittenDigest::Histogram(histogram) => Self::of(&histogram),
        }
    }
}

impl LagDigest {
    fn of(lags: &Histogram) -> Self {
        let percentiles = lags.values_at_percentiles(&[50.0, 99.0]);
        Self {
            count: lags.count(),
            p50_ns: percentiles[0],
            p99_ns: percentiles[1],
            max_ns: lags.max_ns().unwrap_or(0),
        }
    }
}

impl WorkerLags {
    /// Digests of the lags of one worker.
    #[must_use]
    pub fn of(worker: u32, lags: &Lags) -> Self {
        let Lags {
            send,
            own,
            reconnect: _,
            wakeup,
            receive,
        } = lags;
        Self {
            worker,
            send: LagDigest::of(send),
            own: LagDigest::of(own),
            wakeup: LagDigest::of(wakeup),
            receive: LagDigest::of(receive),
        }
    }
}

/// Use of the whole machine and of the program's control group from start to end of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MachineUsage {
    /// Time between the two readings, nanoseconds.
    pub elapsed_ns: u64,
    /// Number of CPUs that were online.
    pub cpus: u32,
    /// Time that CPUs were not idle, nanoseconds, summed over CPUs (`/proc/stat`).
    pub busy_ns: u64,
    /// CPU time that the hypervisor gave to others, nanoseconds, summed over CPUs (`/proc/stat`).
    pub steal_ns: u64,
    /// Periods in which the control group used up its quota; `None` without a quota (`cpu.stat`,
    /// Documentation/admin-guide/cgroup-v2.rst).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_periods: Option<u64>,
    /// Time that the control group was throttled by its quota, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_ns: Option<u64>,
    /// Time in which some task waited for a CPU, nanoseconds (`/proc/pressure/cpu`, "some").
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_pressure_ns: Option<u64>,
}

/// A server that ran on the machine of the load generator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LocalServer {
    /// Its processes: those that have the target's listening socket.
    pub processes: u32,
    /// Their CPU time from start to end of the run, nanoseconds (`/proc/PID/stat`); `None` if it
    /// could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// Whether they may run on CPUs on which the load generator may run (`/proc/PID/status`).
    pub shares_cpus: bool,
}

/// CPU use and delays of the load generator, and whether it was disturbed or
/// saturated.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Generator {
    /// CPU use of each worker for which it is known.
    pub workers: Vec<WorkerUsage>,
    /// Delays of each worker.
    #[serde(default)]
    pub lags: Vec<WorkerLags>,
    /// Use of the whole machine, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineUsage>,
    /// The server, if it ran on this machine and its processes are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<LocalServer>,
    /// Whether the load generator was disturbed or saturated (`judging::verdict`).
    #[serde(default)]
    pub verdict: Verdict,
}
