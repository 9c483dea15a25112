//! What the generator used of its machine while it made the load.

use serde::{Deserialize, Serialize};

use crate::{Histogram, Lags, Verdict};

/// What a thread has used, as the kernel counts it (CLOCK_THREAD_CPUTIME_ID, and
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
    /// Times it was put on a CPU; `None` where the kernel does not count it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeslices: Option<u64>,
}

impl ThreadUsage {
    /// What was used since an earlier reading.
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

/// One worker's share of the machine within the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkerUsage {
    /// Number of the worker, from 0.
    pub worker: u32,
    /// Time between the two readings, nanoseconds: the window, unless the worker ended early.
    pub elapsed_ns: u64,
    /// What it used in that time.
    pub usage: ThreadUsage,
}

/// How late one worker was; [`crate::Recording::lags`] has all workers' samples together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkerLags {
    /// Number of the worker, from 0.
    pub worker: u32,
    /// Of [`Lags::send`].
    pub send: LagDigest,
    /// Of [`Lags::own`].
    pub own: LagDigest,
    /// Of [`Lags::wakeup`].
    pub wakeup: LagDigest,
    /// Of [`Lags::receive`].
    pub receive: LagDigest,
}

/// A distribution of delays in four numbers; all 0 without samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "WrittenDigest")]
#[cfg_attr(feature = "schema", schemars(!from))]
pub struct LagDigest {
    /// Samples.
    pub count: u64,
    /// Median, nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile, nanoseconds.
    pub p99_ns: u64,
    /// The longest, exact, nanoseconds.
    pub max_ns: u64,
}

/// As it stands in a document: in those of version 1 it is a whole histogram for one of the lags.
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
        Self {
            count: lags.count(),
            p50_ns: lags.value_at_percentile(50.0),
            p99_ns: lags.value_at_percentile(99.0),
            max_ns: lags.max_ns().unwrap_or(0),
        }
    }
}

impl WorkerLags {
    /// Of one worker's recording, before it is merged.
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

/// What happened to the whole machine, or to our control group, between begin and end of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MachineUsage {
    /// Time between the two readings, nanoseconds.
    pub elapsed_ns: u64,
    /// CPUs online.
    pub cpus: u32,
    /// CPU time that all CPUs together spent not idle, nanoseconds (`/proc/stat`).
    pub busy_ns: u64,
    /// CPU time that the hypervisor gave to others, all CPUs together, nanoseconds (`/proc/stat`).
    pub steal_ns: u64,
    /// Periods in which our control group had used up its quota; `None` without a quota
    /// (`cpu.stat`, Documentation/admin-guide/cgroup-v2.rst).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_periods: Option<u64>,
    /// Time that our control group was kept from running so, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_ns: Option<u64>,
    /// Time in which some task waited for a CPU, nanoseconds (`/proc/pressure/cpu`, "some").
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_pressure_ns: Option<u64>,
}

/// What the program knows of its own part in the numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Generator {
    /// One for each worker that could be asked.
    pub workers: Vec<WorkerUsage>,
    /// How late each worker was.
    #[serde(default)]
    pub lags: Vec<WorkerLags>,
    /// The machine, where it could be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineUsage>,
    /// Whether the generator was saturated (`judging::verdict`).
    #[serde(default)]
    pub verdict: Verdict,
}
