//! Whether the load generator was saturated, with the symptoms that show it.

use serde::{Deserialize, Serialize};

use crate::Finding;

/// Whether the load generator limited the load. The crate `judging` decides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Verdict {
    /// There is no sign of a client-side bottleneck: the numbers are the server's.
    #[serde(rename = "fine")]
    NotSaturated,
    /// The server may be faster than the numbers say.
    #[serde(rename = "generator_limited")]
    Saturated {
        /// The symptoms, at least one.
        #[serde(rename = "evidence")]
        symptoms: Vec<Finding<Symptom>>,
        /// What to change, chosen by the cause of all symptoms together. Empty in documents of
        /// earlier versions.
        #[serde(default)]
        remedy: String,
    },
    /// No symptom was found, but the run was too short, or a thread's CPU time is not known.
    #[default]
    Unknown,
}

impl Verdict {
    /// Whether it is [`Verdict::Saturated`].
    #[must_use]
    pub fn is_saturated(&self) -> bool {
        matches!(self, Self::Saturated { .. })
    }
}

/// A symptom of a saturated load generator, with the numbers that show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Symptom {
    /// Worker threads were on a CPU all the time, so they could not have done more.
    WorkerBusy {
        /// Number of the busiest thread, from 0.
        worker: u32,
        /// Its time on a CPU, nanoseconds.
        cpu_ns: u64,
        /// Length of its measurement, nanoseconds.
        elapsed_ns: u64,
        /// Number of threads that were that busy.
        busy_threads: u32,
        /// Threads of the run.
        threads: u32,
        /// CPUs online, if known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cpus: Option<u32>,
    },
    /// Worker threads were ready to run and had no CPU.
    RunQueueWait {
        /// Number of the thread that waited longest, from 0.
        worker: u32,
        /// Its time waiting for a CPU, nanoseconds, without the time in which the control group's
        /// quota stopped it.
        run_queue_wait_ns: u64,
        /// Length of its measurement, nanoseconds.
        elapsed_ns: u64,
        /// Threads of the run.
        threads: u32,
        /// CPUs online, if known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cpus: Option<u32>,
    },
    /// The control group's quota of CPU time was used up.
    CgroupThrottled {
        /// Periods in which the quota was used up.
        throttled_periods: u64,
        /// Time that the group was throttled, nanoseconds, summed over CPUs.
        throttled_ns: u64,
        /// Length of the run, nanoseconds.
        elapsed_ns: u64,
    },
    /// The hypervisor gave the machine's CPUs to others.
    Steal {
        /// Stolen time, nanoseconds, summed over CPUs.
        steal_ns: u64,
        /// Length of the run, nanoseconds.
        elapsed_ns: u64,
        /// CPUs online.
        cpus: u32,
    },
    /// Requests were sent late although a connection was free.
    SendLag(Delay),
    /// The event loop returned late from waits that ended by time.
    WakeupLag(Delay),
    /// Responses waited in the kernel before they were read.
    ReceiveDelay(Delay),
    /// A worker did not run at all for a while: a signal stopped it, or the whole machine was
    /// suspended. Percentiles of delays may not show this, since a wait is only one sample, however
    /// long it is.
    StoodStill {
        /// The longest such time, nanoseconds.
        stopped_ns: u64,
        /// Length of the window, nanoseconds.
        elapsed_ns: u64,
    },
    /// No local port was free for connections.
    PortsExhausted {
        /// Connects that failed for this reason.
        events: u64,
        /// All connects, failed and successful.
        connects: u64,
    },
    /// The limit of open files stopped connections.
    FilesExhausted {
        /// Connects that failed for this reason.
        events: u64,
        /// All connects, failed and successful.
        connects: u64,
    },
    /// Requests that were due were not sent, although connections were free.
    RateMissed {
        /// Requests due in the window.
        due: u64,
        /// Those that were sent.
        sent: u64,
    },
}

/// A percentile of a delay in the load generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Delay {
    /// Which percentile, 0..=100: at least ten samples lie above it.
    pub percent: u32,
    /// Its value, nanoseconds.
    pub delay_ns: u64,
    /// Latency to compare it with, nanoseconds: its median or the same percentile, depending on the
    /// rule.
    pub latency_ns: u64,
}
