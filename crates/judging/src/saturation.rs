//! Whether the load generator was saturated, judged from the numbers of the run alone.
//!
//! Each rule requires two things: the load generator was delayed, and the delay is large compared
//! with what was measured. A thread that is always on a CPU is a symptom by itself only in a closed
//! loop. With a rate it may be polling until the next request is due; then requests or responses
//! must have been late too.

use results::{
    Delay, ErrorKind, Histogram, RunResult, SAMPLES_ABOVE_MIN, Symptom, Verdict, WorkerUsage,
    enough_samples,
};

use crate::remedy::remedy;
use crate::sentences::{Sentence, finding};

/// A thread that was on a CPU for this share of the time could not do more.
const BUSY_PERCENT: u64 = 90;

/// A thread that waited for a CPU for this share of the time was held up by others.
const RUN_QUEUE_WAIT_PERCENT: u64 = 10;

/// A control group that was stopped for less of the time was hardly disturbed.
const THROTTLED_PERCENT: u64 = 1;

/// Every virtual machine has some steal: less than this share of the CPU time does not count.
const STEAL_PERCENT: u64 = 5;

/// The kernel counts steal in hundredths of a second: fewer than five may be chance.
const STEAL_MIN_NS: u64 = 50_000_000;

/// Shares of a shorter time show the start of a thread rather than the load.
const ELAPSED_MIN_NS: u64 = 100_000_000;

/// A rare delay counts from here on, or from [`TAIL_PERCENT_OF_LATENCY`] of the median latency on
/// if that is more.
const TAIL_MIN_NS: u64 = 1_000_000;
const TAIL_PERCENT_OF_LATENCY: u64 = 5;

/// A delay of half of the samples counts from here on. Waking up for a response takes some tens of
/// microseconds even on an idle machine.
const MEDIAN_MIN_NS: u64 = 100_000;

/// A delay counts if it is at least this share of the same percentile of the latency.
const SAME_PERCENT_OF_LATENCY: u64 = 10;

/// Fewer delays than this may be an accident.
const DELAYED_MIN: u64 = 3;

/// Delays of this part of all samples move the 99th percentile.
const DELAYED_PER_MILLE: u64 = 8;

/// A thread that is ready to run never waits this long, not even on a busy machine.
const STOOD_STILL_MIN_NS: u64 = 500_000_000;

/// Failed connects count if at least one in this many failed.
const CONNECTS_PER_FAILURE: u64 = 100;

/// At least this share of the requests that were due must have been sent.
const SENT_PERCENT_MIN: u64 = 99;

/// Judges a run by its lags, its counters and [`RunResult::generator`]. It ignores the verdict that
/// is saved there. A run by a fleet is judged by the verdicts of its agents.
#[must_use]
pub fn verdict(result: &RunResult) -> Verdict {
    if !result.agents.is_empty() {
        return crate::fleet::verdict(&result.agents);
    }
    let latency = result.recording.latency();
    let lags = &result.recording.lags;
    let send_lag = late(&lags.own, &latency).map(Symptom::SendLag);
    let receive_delay = receive_delay(&lags.receive, &latency).map(Symptom::ReceiveDelay);
    // See the module's documentation. A busy thread can also make most requests late in such a way
    // that no connection seems to be free for them.
    let may_be_busy = !result.plan.pacing.is_open()
        || send_lag.or(receive_delay).is_some()
        || median(&lags.send, &latency).is_some();
    let mut symptoms: Vec<Symptom> = [
        stood_still(result),
        connects_failed(result, ErrorKind::AddressUnavailable)
            .map(|(events, connects)| Symptom::PortsExhausted { events, connects }),
        connects_failed(result, ErrorKind::FileLimit)
            .map(|(events, connects)| Symptom::FilesExhausted { events, connects }),
        worker_busy(result).filter(|_| may_be_busy),
        run_queue_wait(result),
        throttled(result),
        stolen(result),
        send_lag,
        tail(&lags.wakeup, &latency).map(Symptom::WakeupLag),
        receive_delay,
    ]
    .into_iter()
    .flatten()
    .collect();
    if is_short(result) && (!symptoms.is_empty() || waited_for_generator(result)) {
        let counters = &result.recording.counters;
        symptoms.push(Symptom::RateMissed {
            due: counters.due,
            sent: counters.sent,
        });
    }
    if !symptoms.is_empty() {
        return Verdict::Saturated {
            remedy: remedy(&symptoms, result).sentence(),
            symptoms: symptoms.into_iter().map(finding).collect(),
        };
    }
    if usable_workers(result).count() as u64 >= u64::from(result.plan.load.threads) {
        Verdict::NotSaturated
    } else {
        Verdict::Unknown
    }
}

/// Workers that were measured for long enough.
pub(crate) fn usable_workers(result: &RunResult) -> impl Iterator<Item = &WorkerUsage> {
    result
        .generator
        .workers
        .iter()
        .filter(|worker| worker.elapsed_ns >= ELAPSED_MIN_NS)
}

fn worker_busy(result: &RunResult) -> Option<Symptom> {
    let busy = || {
        usable_workers(result).filter(|worker| {
            let elapsed_ns = u128::from(worker.elapsed_ns);
            is_share(worker.usage.cpu_ns, elapsed_ns, BUSY_PERCENT)
        })
    };
    let busiest = busy().max_by_key(|worker| worker.usage.cpu_ns)?;
    Some(Symptom::WorkerBusy {
        worker: busiest.worker,
        cpu_ns: busiest.usage.cpu_ns,
        elapsed_ns: busiest.elapsed_ns,
        busy_threads: u32::try_from(busy().count()).unwrap_or(u32::MAX),
        threads: result.plan.load.threads,
        cpus: cpus(result),
    })
}

/// The kernel also counts a thread as waiting when its control group's quota stops it; that is a
/// symptom of its own.
fn run_queue_wait(result: &RunResult) -> Option<Symptom> {
    let machine = result.generator.machine.as_ref();
    let throttled_ns = machine.and_then(|machine| machine.throttled_ns);
    let (worker, run_queue_wait_ns) = usable_workers(result)
        .filter_map(|worker| {
            let wait_ns = worker.usage.run_queue_wait_ns?;
            Some((worker, wait_ns.saturating_sub(throttled_ns.unwrap_or(0))))
        })
        .filter(|(worker, wait_ns)| {
            let elapsed_ns = u128::from(worker.elapsed_ns);
            is_share(*wait_ns, elapsed_ns, RUN_QUEUE_WAIT_PERCENT)
        })
        .max_by_key(|(_, wait_ns)| *wait_ns)?;
    Some(Symptom::RunQueueWait {
        worker: worker.worker,
        run_queue_wait_ns,
        elapsed_ns: worker.elapsed_ns,
        threads: result.plan.load.threads,
        cpus: cpus(result),
    })
}

fn throttled(result: &RunResult) -> Option<Symptom> {
    let machine = result.generator.machine.as_ref()?;
    let (throttled_periods, throttled_ns) = (machine.throttled_periods?, machine.throttled_ns?);
    let elapsed_ns = machine.elapsed_ns;
    let matters =
        throttled_periods > 0 && is_share(throttled_ns, u128::from(elapsed_ns), THROTTLED_PERCENT);
    matters.then_some(Symptom::CgroupThrottled {
        throttled_periods,
        throttled_ns,
        elapsed_ns,
    })
}

fn stolen(result: &RunResult) -> Option<Symptom> {
    let machine = result.generator.machine.as_ref()?;
    let (steal_ns, elapsed_ns, cpus) = (machine.steal_ns, machine.elapsed_ns, machine.cpus);
    let matters = steal_ns >= STEAL_MIN_NS
        && is_share(steal_ns, all_cpus_ns(elapsed_ns, cpus), STEAL_PERCENT);
    matters.then_some(Symptom::Steal {
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

/// Whether requests waited to be sent mostly because of the load generator. One that cannot keep up
/// gets later and later: the last request that it sends is as late as the missing part of the
/// schedule is long. Half of that suffices here. Where connections hang, the requests that were
/// sent are not late.
fn waited_for_generator(result: &RunResult) -> bool {
    let lags = &result.recording.lags;
    let (own_ns, send_ns) = (lags.own.sum_ns(), lags.send.sum_ns());
    let counters = &result.recording.counters;
    let missing_ns = u128::from(result.window.duration_ns) * u128::from(counters.unsent)
        / u128::from(counters.due.max(1));
    let latest_ns = u128::from(lags.own.max_ns().unwrap_or(0));
    latest_ns * 2 >= missing_ns && own_ns.saturating_mul(2) >= send_ns
}

/// A timed wait that ended far too late.
fn stood_still(result: &RunResult) -> Option<Symptom> {
    let stopped_ns = result.recording.lags.wakeup.max_ns()?;
    (stopped_ns >= STOOD_STILL_MIN_NS).then_some(Symptom::StoodStill {
        stopped_ns,
        elapsed_ns: result.window.duration_ns,
    })
}

/// Connects that this machine failed, and the number of all connects, if this made the load
/// noticeably lighter: fewer connections than planned were opened, one connect in
/// [`CONNECTS_PER_FAILURE`] failed, or requests that were due were not sent.
pub(crate) fn connects_failed(result: &RunResult, kind: ErrorKind) -> Option<(u64, u64)> {
    let counters = &result.recording.counters;
    let events = result.recording.errors.count(kind).events;
    let succeeded = counters.connections_opened;
    let connects = succeeded.saturating_add(events);
    let opened = succeeded.saturating_add(counters.connections_at_start);
    let matters = opened < u64::from(result.plan.load.connections)
        || events.saturating_mul(CONNECTS_PER_FAILURE) >= connects
        || is_short(result);
    (events > 0 && matters).then_some((events, connects))
}

/// A delay that is too long for a few samples or for half of them.
fn late(delays: &Histogram, latency: &Histogram) -> Option<Delay> {
    let median_ns = latency.value_at_percentile(50.0);
    tail(delays, latency)
        .or_else(|| median(delays, latency))
        .or_else(|| hundredth(delays, median_ns, TAIL_PERCENT_OF_LATENCY))
}

/// The time that a response waits in the kernel is part of its latency, so the delay is compared
/// with the same percentile of the latency.
fn receive_delay(delays: &Histogram, latency: &Histogram) -> Option<Delay> {
    let percent = highest_reliable(delays.count())?;
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

/// Long delays of nearly one sample in a hundred. A short run shows a 99th percentile although it
/// has too few samples for it, and these delays have moved it.
fn hundredth(delays: &Histogram, latency_ns: u64, percent_of_latency: u64) -> Option<Delay> {
    highest_reliable(delays.count())?;
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

/// The 99th percentile, or with fewer samples the highest reliable one, if it is long compared with
/// the median of the latency.
pub(crate) fn tail(delays: &Histogram, latency: &Histogram) -> Option<Delay> {
    exceeds(
        delays,
        highest_reliable(delays.count())?,
        TAIL_MIN_NS,
        latency.value_at_percentile(50.0),
        TAIL_PERCENT_OF_LATENCY,
    )
}

fn median(delays: &Histogram, latency: &Histogram) -> Option<Delay> {
    highest_reliable(delays.count())?;
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
fn highest_reliable(count: u64) -> Option<u32> {
    (50..=99)
        .rev()
        .find(|percent| enough_samples(f64::from(*percent), count))
}

pub(crate) fn is_share(part: u64, whole: u128, percent: u64) -> bool {
    whole > 0 && u128::from(part) * 100 >= whole * u128::from(percent)
}

/// CPU time that the machine had, nanoseconds.
pub(crate) fn all_cpus_ns(elapsed_ns: u64, cpus: u32) -> u128 {
    u128::from(elapsed_ns) * u128::from(cpus)
}
