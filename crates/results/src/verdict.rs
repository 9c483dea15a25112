//! Whether the generator was the limit: a judgement from the numbers of a run alone.
//!
//! Each rule asks for two things: that the generator was delayed, and that the delay matters beside what was
//! measured. A thread that is always on a CPU is a sign by itself only in a closed loop. With a rate it may
//! just poll for the next moment that a request is due; there requests or answers must have been late as well.

use serde::{Deserialize, Serialize};

use crate::evidence::{Delay, Evidence, all_cpus_ns};
use crate::remedy::remedy;
use crate::summary::{SAMPLES_ABOVE_MIN, enough_samples};
use crate::{ErrorKind, Histogram, RunResult, WorkerUsage, written};

/// A thread that was on a CPU for this share of the time had no time left for more.
const BUSY_PERCENT: u64 = 90;

/// A thread that waited for a CPU for this share of the time was held up by others.
const RUN_QUEUE_WAIT_PERCENT: u64 = 10;

/// A group that was stopped for less than this share of the time ran nearly undisturbed.
const THROTTLED_PERCENT: u64 = 1;

/// Below this share of the machine's CPU time, steal is what every virtual machine has.
const STEAL_PERCENT: u64 = 5;

/// The kernel counts steal in hundredths of a second: fewer than five are chance.
const STEAL_MIN_NS: u64 = 50_000_000;

/// Shares of a shorter time say more about the start of a thread than about the load.
const ELAPSED_MIN_NS: u64 = 100_000_000;

/// A rare delay matters from here on, or from [`TAIL_PERCENT_OF_LATENCY`] of the median latency on
/// if that is more.
const TAIL_MIN_NS: u64 = 1_000_000;
const TAIL_PERCENT_OF_LATENCY: u64 = 5;

/// A delay that half of the samples have matters from here on. Waking up for an answer takes some tens
/// of microseconds on an idle machine: that is no sign of anything.
const MEDIAN_MIN_NS: u64 = 100_000;

/// A delay matters if it is this share of the same percentile of the latency.
const SAME_PERCENT_OF_LATENCY: u64 = 10;

/// So many delays are no accident,
const DELAYED_MIN: u64 = 3;
/// and this part of all samples moves the 99th percentile.
const DELAYED_PER_MILLE: u64 = 8;

/// No thread that may run waits so long, not even on a crowded machine.
const STOOD_STILL_MIN_NS: u64 = 500_000_000;

/// Failed connects are noticeable from one in so many on.
const CONNECTS_PER_FAILURE: u64 = 100;

/// Of the requests that were due, so many must have been sent.
const SENT_PERCENT_MIN: u64 = 99;

/// What limited the load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing shows that the generator was late: the numbers are the server's.
    Fine,
    /// The generator was the limit: the server could have done more, or answered sooner, than the
    /// numbers say.
    GeneratorLimited {
        /// At least one sign.
        #[serde(with = "written")]
        evidence: Vec<Evidence>,
        /// What to change: the one thing that fits the cause behind all the signs. Empty in documents of earlier
        /// versions.
        #[serde(default)]
        remedy: String,
    },
    /// No sign was found, but not every thread could be asked, or the run was too short to tell.
    #[default]
    Unknown,
}

impl Verdict {
    /// Whether there is evidence against the generator.
    #[must_use]
    pub fn is_generator_limited(&self) -> bool {
        matches!(self, Self::GeneratorLimited { .. })
    }

    /// For people: one line; of a saturated generator a line with the remedy, then one for each sign.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::Fine => vec!["load generator OK: no sign of a client-side bottleneck".to_owned()],
            Self::GeneratorLimited { evidence, remedy } => {
                let semicolon = if remedy.is_empty() { "" } else { "; " };
                let headline = format!(
                    "load generator saturated: the server may be faster than shown{semicolon}{remedy}"
                );
                let signs = evidence.iter().map(|sign| format!("load generator: {sign}"));
                std::iter::once(headline).chain(signs).collect()
            }
            Self::Unknown => vec![
                "it is not known whether the load generator was saturated: the run was too short, or a thread could not be asked"
                    .to_owned(),
            ],
        }
    }
}

/// Judges a run from its lags, its counters and [`RunResult::generator`]. The verdict that is saved
/// in there is not looked at.
#[must_use]
pub fn verdict(result: &RunResult) -> Verdict {
    let latency = result.recording.latency();
    let lags = &result.recording.lags;
    let send_lag = late(&lags.own, &latency).map(Evidence::SendLag);
    let receive_delay = receive_delay(&lags.receive, &latency).map(Evidence::ReceiveDelay);
    // See the module's text. Most requests late, although no connection was free for them, is what a
    // thread without time left does to them, too.
    let may_be_busy = !result.plan.pacing.is_open()
        || send_lag.or(receive_delay).is_some()
        || median(&lags.send, &latency).is_some();
    let mut evidence: Vec<Evidence> = [
        stood_still(result),
        connects_failed(result, ErrorKind::AddressUnavailable)
            .map(|(events, connects)| Evidence::PortsExhausted { events, connects }),
        connects_failed(result, ErrorKind::FileLimit)
            .map(|(events, connects)| Evidence::FilesExhausted { events, connects }),
        worker_busy(result).filter(|_| may_be_busy),
        run_queue_wait(result),
        throttled(result),
        stolen(result),
        send_lag,
        tail(&lags.wakeup, &latency).map(Evidence::WakeupLag),
        receive_delay,
    ]
    .into_iter()
    .flatten()
    .collect();
    if is_short(result) && (!evidence.is_empty() || waited_for_generator(result)) {
        let counters = &result.recording.counters;
        evidence.push(Evidence::RateMissed {
            due: counters.due,
            sent: counters.sent,
        });
    }
    if !evidence.is_empty() {
        let remedy = remedy(&evidence, result);
        return Verdict::GeneratorLimited { evidence, remedy };
    }
    if judged(result).count() as u64 >= u64::from(result.plan.load.threads) {
        Verdict::Fine
    } else {
        Verdict::Unknown
    }
}

/// Workers whose shares of time mean something.
pub(crate) fn judged(result: &RunResult) -> impl Iterator<Item = &WorkerUsage> {
    result
        .generator
        .workers
        .iter()
        .filter(|worker| worker.elapsed_ns >= ELAPSED_MIN_NS)
}

fn worker_busy(result: &RunResult) -> Option<Evidence> {
    let busy = || {
        judged(result).filter(|worker| {
            let elapsed_ns = u128::from(worker.elapsed_ns);
            is_share(worker.usage.cpu_ns, elapsed_ns, BUSY_PERCENT)
        })
    };
    let busiest = busy().max_by_key(|worker| worker.usage.cpu_ns)?;
    Some(Evidence::WorkerBusy {
        worker: busiest.worker,
        cpu_ns: busiest.usage.cpu_ns,
        elapsed_ns: busiest.elapsed_ns,
        busy_threads: u32::try_from(busy().count()).unwrap_or(u32::MAX),
        threads: result.plan.load.threads,
        cpus: cpus(result),
    })
}

/// The kernel counts a thread that its group's quota keeps from running as waiting: that part has its own
/// evidence.
fn run_queue_wait(result: &RunResult) -> Option<Evidence> {
    let machine = result.generator.machine.as_ref();
    let throttled_ns = machine.and_then(|machine| machine.throttled_ns);
    let (worker, run_queue_wait_ns) = judged(result)
        .filter_map(|worker| {
            let wait_ns = worker.usage.run_queue_wait_ns?;
            Some((worker, wait_ns.saturating_sub(throttled_ns.unwrap_or(0))))
        })
        .filter(|(worker, wait_ns)| {
            let elapsed_ns = u128::from(worker.elapsed_ns);
            is_share(*wait_ns, elapsed_ns, RUN_QUEUE_WAIT_PERCENT)
        })
        .max_by_key(|(_, wait_ns)| *wait_ns)?;
    Some(Evidence::RunQueueWait {
        worker: worker.worker,
        run_queue_wait_ns,
        elapsed_ns: worker.elapsed_ns,
        threads: result.plan.load.threads,
        cpus: cpus(result),
    })
}

fn throttled(result: &RunResult) -> Option<Evidence> {
    let machine = result.generator.machine.as_ref()?;
    let (throttled_periods, throttled_ns) = (machine.throttled_periods?, machine.throttled_ns?);
    let elapsed_ns = machine.elapsed_ns;
    let matters =
        throttled_periods > 0 && is_share(throttled_ns, u128::from(elapsed_ns), THROTTLED_PERCENT);
    matters.then_some(Evidence::CgroupThrottled {
        throttled_periods,
        throttled_ns,
        elapsed_ns,
    })
}

fn stolen(result: &RunResult) -> Option<Evidence> {
    let machine = result.generator.machine.as_ref()?;
    let (steal_ns, elapsed_ns, cpus) = (machine.steal_ns, machine.elapsed_ns, machine.cpus);
    let matters = steal_ns >= STEAL_MIN_NS
        && is_share(steal_ns, all_cpus_ns(elapsed_ns, cpus), STEAL_PERCENT);
    matters.then_some(Evidence::Steal {
        steal_ns,
        elapsed_ns,
        cpus,
    })
}

pub(crate) fn cpus(result: &RunResult) -> Option<u32> {
    let machine = result.generator.machine.as_ref()?;
    Some(machine.cpus)
}

/// With a rate: whether too few of the requests that were due were sent.
pub(crate) fn is_short(result: &RunResult) -> bool {
    let counters = &result.recording.counters;
    let needed = u128::from(counters.due) * u128::from(SENT_PERCENT_MIN);
    counters.unsent >= SAMPLES_ABOVE_MIN && u128::from(counters.sent) * 100 < needed
}

/// Whether most of the time that requests waited for their sending was the generator's own. One that
/// cannot keep up is later and later, and what it sends last is as late as the missing part of the
/// schedule is long; half of that is asked for. Where connections hang nothing is late that was sent.
fn waited_for_generator(result: &RunResult) -> bool {
    let lags = &result.recording.lags;
    let (own_ns, send_ns) = (lags.own.sum_ns(), lags.send.sum_ns());
    let counters = &result.recording.counters;
    let missing_ns = u128::from(result.window.duration_ns) * u128::from(counters.unsent)
        / u128::from(counters.due.max(1));
    let latest_ns = u128::from(lags.own.max_ns().unwrap_or(0));
    latest_ns * 2 >= missing_ns && own_ns.saturating_mul(2) >= send_ns
}

/// One wait that ended by time and far too late.
fn stood_still(result: &RunResult) -> Option<Evidence> {
    let stopped_ns = result.recording.lags.wakeup.max_ns()?;
    (stopped_ns >= STOOD_STILL_MIN_NS).then_some(Evidence::StoodStill {
        stopped_ns,
        elapsed_ns: result.window.duration_ns,
    })
}

/// Connections that this machine could not make, and of how many, if the load was noticeably lighter for it: some
/// connection never stood, one in [`CONNECTS_PER_FAILURE`] failed, or requests that were due were not sent.
pub(crate) fn connects_failed(result: &RunResult, kind: ErrorKind) -> Option<(u64, u64)> {
    let counters = &result.recording.counters;
    let events = result.recording.errors.count(kind).events;
    let made = counters.connections_opened;
    let connects = made.saturating_add(events);
    let stood = made.saturating_add(counters.connections_at_start);
    let matters = stood < u64::from(result.plan.load.connections)
        || events.saturating_mul(CONNECTS_PER_FAILURE) >= connects
        || is_short(result);
    (events > 0 && matters).then_some((events, connects))
}

/// A delay of which either a few samples or half of them matter.
fn late(delays: &Histogram, latency: &Histogram) -> Option<Delay> {
    let median_ns = latency.value_at_percentile(50.0);
    tail(delays, latency)
        .or_else(|| median(delays, latency))
        .or_else(|| hundredth(delays, median_ns, TAIL_PERCENT_OF_LATENCY))
}

/// That an answer lies in the kernel is part of its latency, so like is compared with like: a delay with
/// the same percentile of the latency.
fn receive_delay(delays: &Histogram, latency: &Histogram) -> Option<Delay> {
    let percent = believed_percent(delays.count())?;
    let tail_ns = latency.value_at_percentile(f64::from(percent));
    median(delays, latency)
        .or_else(|| {
            exceeds(
                delays,
                percent,
                TAIL_MIN_NS,
                tail_ns,
                SAME_PERCENT_OF_LATENCY,
            )
        })
        .or_else(|| {
            let p99_ns = latency.value_at_percentile(99.0);
            hundredth(delays, p99_ns, SAME_PERCENT_OF_LATENCY)
        })
}

/// Delays that matter and that nearly one sample in a hundred had. A short run has too few samples to tell its 99th
/// percentile, but shows one all the same; and that some samples were delayed is a fact, however many they are.
fn hundredth(delays: &Histogram, latency_ns: u64, percent_of_latency: u64) -> Option<Delay> {
    believed_percent(delays.count())?;
    let limit_ns = u128::from(latency_ns) * u128::from(percent_of_latency) / 100;
    let matters = |ns: u64| ns > TAIL_MIN_NS && u128::from(ns) > limit_ns;
    let delayed = || delays.distinct().filter(|(ns, _)| matters(*ns));
    let count: u64 = delayed().map(|(_, count)| count).sum();
    let per_mille = u128::from(count) * 1000 / u128::from(delays.count());
    let (delay_ns, _) = delayed().next()?;
    (count >= DELAYED_MIN && per_mille >= u128::from(DELAYED_PER_MILLE)).then(|| Delay {
        percent: 99_u32.min(100 - u32::try_from(per_mille / 10).unwrap_or(0)),
        delay_ns,
        latency_ns,
    })
}

/// The 99th percentile, or with fewer samples the highest that can be believed, if it matters beside the
/// median of the latency.
pub(crate) fn tail(delays: &Histogram, latency: &Histogram) -> Option<Delay> {
    exceeds(
        delays,
        believed_percent(delays.count())?,
        TAIL_MIN_NS,
        latency.value_at_percentile(50.0),
        TAIL_PERCENT_OF_LATENCY,
    )
}

fn median(delays: &Histogram, latency: &Histogram) -> Option<Delay> {
    believed_percent(delays.count())?;
    exceeds(
        delays,
        50,
        MEDIAN_MIN_NS,
        latency.value_at_percentile(50.0),
        SAME_PERCENT_OF_LATENCY,
    )
}

/// A percentile of the delays, if it exceeds both a time and a share of the latency.
fn exceeds(
    delays: &Histogram,
    percent: u32,
    min_ns: u64,
    latency_ns: u64,
    percent_of_latency: u64,
) -> Option<Delay> {
    let delay_ns = delays.value_at_percentile(f64::from(percent));
    let limit_ns = u128::from(latency_ns) * u128::from(percent_of_latency) / 100;
    (delay_ns > min_ns && u128::from(delay_ns) > limit_ns).then_some(Delay {
        percent,
        delay_ns,
        latency_ns,
    })
}

/// The highest whole percentile from the median to 99 that has [`enough_samples`].
fn believed_percent(count: u64) -> Option<u32> {
    (50..=99)
        .rev()
        .find(|percent| enough_samples(f64::from(*percent), count))
}

pub(crate) fn is_share(part: u64, whole: u128, percent: u64) -> bool {
    whole > 0 && u128::from(part) * 100 >= whole * u128::from(percent)
}
