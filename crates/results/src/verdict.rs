//! Whether the load generator disturbed or limited a run, with the symptoms that show it.

use serde::{Deserialize, Serialize};

use crate::{Finding, Standstill};

/// What the load generator did to the numbers of a run. The crate `judging` decides.
///
/// *Disturbed* and *saturated* are independent: a load generator is disturbed if it caused a
/// notable part of a percentile that is shown, and saturated if it limited the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Verdict {
    /// The numbers are the server's.
    #[serde(rename = "fine")]
    Undisturbed,
    /// The load generator caused a notable part of the latency, or did not run for so long that it
    /// may have, and did not limit the load.
    Disturbed {
        /// The percentiles that it moved, ascending; empty if it is not known which it moved.
        percentiles: Vec<OwnShare>,
        /// The symptoms that explain it.
        #[serde(rename = "evidence")]
        symptoms: Vec<Finding<Symptom>>,
        /// What to change, chosen by the cause of all symptoms together.
        remedy: String,
    },
    /// The load generator limited the load: the server may be faster than the numbers say.
    #[serde(rename = "generator_limited")]
    Saturated {
        /// The percentiles that it moved; empty if it moved none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        percentiles: Vec<OwnShare>,
        /// The symptoms, at least one.
        #[serde(rename = "evidence")]
        symptoms: Vec<Finding<Symptom>>,
        /// What to change. Empty in documents of earlier versions.
        #[serde(default)]
        remedy: String,
    },
    /// No symptom was found, but the run was too short, or a thread's CPU time is not known.
    #[default]
    Unknown,
}

/// What the load generator caused of a percentile of the latency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OwnShare {
    /// The percentile as a number, such as 99 or 99.9; 0..=100.
    pub percent: f64,
    /// Its value as shown, nanoseconds.
    pub shown_ns: u64,
    /// The part that the load generator caused, nanoseconds.
    pub own_ns: u64,
    /// Whether it may have caused more: it did not run for a notable part of the time, and what
    /// queues at the server meanwhile counts as the server's.
    #[serde(default)]
    pub is_lower_bound: bool,
}

impl Verdict {
    /// Whether it is [`Verdict::Saturated`].
    #[must_use]
    pub fn is_saturated(&self) -> bool {
        matches!(self, Self::Saturated { .. })
    }

    /// Whether the load generator caused a notable part of the latency, or may have.
    #[must_use]
    pub fn is_disturbed(&self) -> bool {
        matches!(self, Self::Disturbed { .. }) || !self.percentiles().is_empty()
    }

    /// Whether the load generator was disturbed by more than is known.
    #[must_use]
    pub fn is_partly_known(&self) -> bool {
        let shares = self.percentiles();
        let is_known = !shares.is_empty() && shares.iter().all(|share| !share.is_lower_bound);
        self.is_disturbed() && !is_known
    }

    /// The percentiles that the load generator moved.
    #[must_use]
    pub fn percentiles(&self) -> &[OwnShare] {
        match self {
            Self::Disturbed { percentiles, .. } | Self::Saturated { percentiles, .. } => {
                percentiles
            }
            Self::Undisturbed | Self::Unknown => &[],
        }
    }

    /// The symptoms and the remedy.
    #[must_use]
    pub fn evidence(&self) -> (&[Finding<Symptom>], &str) {
        match self {
            Self::Disturbed {
                symptoms, remedy, ..
            }
            | Self::Saturated {
                symptoms, remedy, ..
            } => (symptoms, remedy),
            Self::Undisturbed | Self::Unknown => (&[], ""),
        }
    }
}

/// A symptom of a load generator that was disturbed or saturated, with the numbers that show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The server or other programs ran on the CPUs of the load generator, and they were busy.
    SharedCpus {
        /// CPU time of the processes that have the target's listening socket, nanoseconds; absent
        /// if there are none on this machine, or they are not known.
        #[serde(skip_serializing_if = "Option::is_none")]
        server_ns: Option<u64>,
        /// CPU time of the worker threads, nanoseconds, at the pace of the window.
        generator_ns: u64,
        /// Time that CPUs of the machine were not idle, nanoseconds, summed over CPUs.
        busy_ns: u64,
        /// Length of the run, nanoseconds.
        elapsed_ns: u64,
        /// Number of CPUs that were online.
        cpus: u32,
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
        /// Number of CPUs that were online.
        cpus: u32,
    },
    /// Workers did not run at times: a signal stopped them, another program had their CPU, or the
    /// whole machine was suspended.
    Paused {
        /// The longest of these times, in the order of time. They do not overlap.
        standstills: Vec<Standstill>,
        /// How many there were; 0 in documents of earlier versions.
        #[serde(default)]
        pauses: u64,
        /// How long a worker was paused in total, nanoseconds: the mean over workers.
        #[serde(default)]
        paused_ns: u64,
    },
    /// Workers spent much of their time in the script's functions.
    SlowScript {
        /// Time in the script, nanoseconds, summed over workers.
        script_ns: u64,
        /// Length of the window, nanoseconds, summed over workers.
        elapsed_ns: u64,
        /// Requests that were sent; 0 in documents of earlier versions.
        #[serde(default)]
        calls: u64,
    },
    /// In a closed loop: connections were not used since the load generator was late.
    Idle {
        /// Time that connections were not used for this reason, nanoseconds, summed over the
        /// requests that can be in flight.
        idle_ns: u64,
        /// Length of the window, nanoseconds, summed likewise.
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
    /// With HTTP/3: the receive buffers of sockets were full, so that datagrams were dropped.
    DatagramsDropped {
        /// Datagrams that were dropped.
        dropped: u64,
        /// All datagrams that arrived.
        arrived: u64,
    },
    /// Requests that were due were not sent, although connections were free.
    RateMissed {
        /// Requests due in the window.
        due: u64,
        /// Those that were not sent because of the load generator.
        unsent: u64,
    },
    /// With a rate: so many requests were sent late that they reached the server in bursts.
    Bursts {
        /// 1 % of the requests were sent this late or later, nanoseconds.
        late_ns: u64,
        /// The median service time, nanoseconds.
        service_ns: u64,
    },
    /// A symptom of another version of the program, of which only the sentence is known.
    #[serde(other)]
    Other,
}
