//! Signs that the generator and not the server was the limit, each with its numbers.

use std::fmt;

use plan::units;
use serde::{Deserialize, Serialize};

/// A sign, with the numbers it rests on. [`fmt::Display`] gives one line for people: what was seen.
/// What to change depends on all signs of a run together, see [`crate::Verdict::GeneratorLimited`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Evidence {
    /// Worker threads were on a CPU all the time, so they could not have done more.
    WorkerBusy {
        /// Number of the busiest one, from 0.
        worker: u32,
        /// Its time on a CPU, nanoseconds.
        cpu_ns: u64,
        /// Of so much time, nanoseconds.
        elapsed_ns: u64,
        /// Threads that were as busy.
        busy_threads: u32,
        /// Threads of the run.
        threads: u32,
        /// CPUs online, if known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cpus: Option<u32>,
    },
    /// Worker threads were ready to run and had no CPU.
    RunQueueWait {
        /// Number of the one that waited longest, from 0.
        worker: u32,
        /// Its time waiting for a CPU, nanoseconds, but for what the control group's quota cost.
        run_queue_wait_ns: u64,
        /// Of so much time, nanoseconds.
        elapsed_ns: u64,
        /// Threads of the run.
        threads: u32,
        /// CPUs online, if known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cpus: Option<u32>,
    },
    /// The control group's quota of CPU time was used up.
    CgroupThrottled {
        /// Periods in which it was.
        throttled_periods: u64,
        /// Time that the group was kept from running, nanoseconds, added up over CPUs.
        throttled_ns: u64,
        /// Length of the run, nanoseconds.
        elapsed_ns: u64,
    },
    /// The hypervisor gave the machine's CPUs to others.
    Steal {
        /// For so long, nanoseconds, added up over CPUs.
        steal_ns: u64,
        /// Length of the run, nanoseconds.
        elapsed_ns: u64,
        /// CPUs online.
        cpus: u32,
    },
    /// Requests were sent late although a connection was free.
    SendLag(Delay),
    /// The event loop came back late from waits that ended by time.
    WakeupLag(Delay),
    /// Answers lay in the kernel before they were read.
    ReceiveDelay(Delay),
    /// A worker did not run at all for a while: stopped by a signal, or the whole machine was. The percentiles of
    /// delays need not show it, since one wait is one sample however long it is.
    StoodStill {
        /// The longest of such times, nanoseconds.
        stopped_ns: u64,
        /// Of the window, nanoseconds.
        elapsed_ns: u64,
    },
    /// No local port was free for connections.
    PortsExhausted {
        /// Times it happened.
        events: u64,
        /// Connections that were tried and made or failed for this reason.
        connects: u64,
    },
    /// The limit of open files stopped connections.
    FilesExhausted {
        /// Times it happened.
        events: u64,
        /// Connections that were tried and made or failed for this reason.
        connects: u64,
    },
    /// Requests that were due were not sent: there is other evidence, or what was sent had waited for the
    /// generator, not for a connection.
    RateMissed {
        /// Requests due in the window.
        due: u64,
        /// Those that were sent.
        sent: u64,
    },
}

/// A percentile of a delay on the generator's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// Which percentile, 0..=100: at least ten samples lie above it.
    pub percent: u32,
    /// Its value, nanoseconds.
    pub delay_ns: u64,
    /// Latency to compare it with, nanoseconds: its median, or the same percentile if that says more.
    pub latency_ns: u64,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::WorkerBusy {
                worker,
                cpu_ns,
                elapsed_ns,
                busy_threads,
                threads,
                ..
            } => {
                let share = percent(cpu_ns, u128::from(elapsed_ns));
                write!(f, "thread {worker} used {share} % of a CPU")?;
                if threads > 1 {
                    write!(f, " ({busy_threads} of {threads} threads were that busy)")?;
                }
                Ok(())
            }
            Self::RunQueueWait {
                worker,
                run_queue_wait_ns,
                elapsed_ns,
                threads,
                cpus,
            } => {
                let share = percent(run_queue_wait_ns, u128::from(elapsed_ns));
                write!(f, "thread {worker} waited for a CPU {share} % of the time")?;
                match cpus {
                    Some(cpus) if threads > cpus => {
                        write!(f, ": {threads} threads share {cpus} CPUs")
                    }
                    _ => f.write_str(": something else ran there"),
                }
            }
            Self::CgroupThrottled {
                throttled_periods,
                throttled_ns,
                ..
            } => write!(
                f,
                "the CPU quota of the control group stopped this program {throttled_periods} times, for {} altogether",
                time(throttled_ns)
            ),
            Self::Steal {
                steal_ns,
                elapsed_ns,
                cpus,
            } => write!(
                f,
                "the hypervisor gave {} % of this machine's CPU time to others",
                percent(steal_ns, all_cpus_ns(elapsed_ns, cpus))
            ),
            Self::SendLag(delay) => write!(
                f,
                "{} were sent {} or more after they were due though a connection was free (latency {})",
                delay.share_of("the requests"),
                time(delay.delay_ns),
                time(delay.latency_ns)
            ),
            Self::WakeupLag(delay) => write!(
                f,
                "{} ended {} or more too late (latency {})",
                delay.share_of("the timed waits"),
                time(delay.delay_ns),
                time(delay.latency_ns)
            ),
            Self::ReceiveDelay(delay) => write!(
                f,
                "{} had been in the kernel for {} or more when they were read (latency {})",
                delay.share_of("the responses"),
                time(delay.delay_ns),
                time(delay.latency_ns)
            ),
            Self::StoodStill {
                stopped_ns,
                elapsed_ns,
            } => write!(
                f,
                "it did not run for {} of {}: it was suspended, or the machine was; what was in flight counts as late or \
                 timed out for that",
                time(stopped_ns),
                time(elapsed_ns)
            ),
            Self::PortsExhausted { events, connects } => write!(
                f,
                "{events} of {connects} connects failed: no local port was free"
            ),
            Self::FilesExhausted { events, connects } => write!(
                f,
                "{events} of {connects} connects failed: the limit of open files was reached"
            ),
            Self::RateMissed { due, sent } => {
                write!(f, "only {sent} of {due} requests that were due were sent")
            }
        }
    }
}

impl Delay {
    fn share_of(&self, what: &str) -> String {
        match self.percent {
            50 => format!("half of {what}"),
            percent => format!("{} % of {what}", 100_u32.saturating_sub(percent)),
        }
    }
}

/// CPU time that there was, nanoseconds.
pub(crate) fn all_cpus_ns(elapsed_ns: u64, cpus: u32) -> u128 {
    u128::from(elapsed_ns) * u128::from(cpus)
}

/// Rounded to a whole number; at least one part in a hundred is what anyone acts on.
fn percent(part: u64, whole: u128) -> u128 {
    (u128::from(part) * 100 + whole / 2)
        .checked_div(whole)
        .unwrap_or(0)
}

fn time(ns: u64) -> String {
    units::time_us(ns as f64 / 1000.0)
}
