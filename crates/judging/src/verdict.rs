//! Whether the load generator disturbed or limited a run, judged from the numbers of the run alone.
//!
//! Both are measured, not guessed: the engine attributes the delay of each request
//! ([`results::Attribution`]). A load generator is *disturbed* if it caused a notable part of a
//! percentile, and *saturated* if it limited the load: the rate was missed although connections
//! were free, or connections of a closed loop were not used. Everything else that is known about
//! the machine, such as a busy thread or a script that takes long, is only a cause: it is reported
//! if the load generator was disturbed or saturated.
//!
//! One thing is known without the delay of any request: how long a worker did not run although it
//! should have. From [`HELD_UP_PERCENT`] of the time on, the load generator counts as disturbed
//! whatever was attributed, and what was attributed is the least that it caused. The same holds for
//! requests that were sent in bursts ([`bursts`]).

use results::{
    Attribution, ErrorKind, Finding, OwnShare, Recording, RunResult, SAMPLES_ABOVE_MIN, Symptom,
    Verdict, WorkerUsage, enough_samples,
};

use crate::remedy::remedy;
use crate::sentences::{Sentence, finding};

/// The percentiles by which a run is judged: those of wrk's report.
const JUDGED_PERCENTS: [f64; 4] = [50.0, 75.0, 90.0, 99.0];

/// The load generator disturbed a percentile if it caused more than this share of it, and more
/// than [`Attribution::MIN_NS`].
const DISTURBED_PERCENT: u64 = 10;

/// Fewer delayed requests than this may be an accident.
const DELAYED_MIN: u64 = 3;

/// Connections of a closed loop that were not used for more than this share of the time make the
/// load lighter.
const IDLE_PERCENT: u64 = 10;

/// A thread that was on a CPU for this share of the time could not do more.
const BUSY_PERCENT: u64 = 95;

/// A thread that waited for a CPU for this share of the time was held up by others.
const RUN_QUEUE_WAIT_PERCENT: u64 = 3;

/// A control group that was stopped for less of the time was hardly disturbed.
const THROTTLED_PERCENT: u64 = 1;

/// Every virtual machine has some steal: less than this share of the CPU time does not count.
const STEAL_PERCENT: u64 = 5;

/// The kernel counts steal in hundredths of a second: fewer than five may be chance.
const STEAL_MIN_NS: u64 = 50_000_000;

/// A script that takes this share of the time of its thread delays requests.
const SCRIPT_PERCENT: u64 = 20;

/// CPUs that were busy for this share of the time had none to spare.
const CPUS_BUSY_PERCENT: u64 = 80;

/// A server that used less than this share of one CPU did not take it from the load generator.
const SERVER_PERCENT: u64 = 5;

/// The same of other programs. The kernel's own work for packets is in no thread's CPU time, so it
/// counts as theirs.
const OTHERS_PERCENT: u64 = 20;

/// Shares of a shorter time show the start of a thread rather than the load.
const ELAPSED_MIN_NS: u64 = 100_000_000;

/// A worker that waited for a CPU, stood still or was throttled for more than this share of the
/// time may have delayed anything, also in ways that are not attributed to it: what it sends in a
/// burst afterwards queues at the server.
const HELD_UP_PERCENT: u64 = 4;

/// The share of requests at a rate that may be sent late. What was due meanwhile is sent at once
/// then, and each burst makes a queue at the server.
const BURSTS_PERCENT: f64 = 1.0;

/// Requests that are less late make no burst that matters.
const BURSTS_MIN_NS: u64 = 1_000_000;

/// Requests that are late by less than one part in this many of the median service time change the
/// latency little.
const SERVICE_PER_LATE: u64 = 2;

/// A script that takes this share of the time of its thread is the cause if no other is known.
const SCRIPT_ALONE_PERCENT: u64 = 5;

/// A script is the cause if what it took is at least one part in this many of all delays: in a
/// short queue a call delays its own request and few others.
const DELAYS_PER_SCRIPT_TIME: u64 = 4;

/// Of more pauses only the longest are in a verdict.
const PAUSES_SHOWN_MAX: usize = 10;

/// Failed connects count if at least one in this many failed.
const CONNECTS_PER_FAILURE: u64 = 100;

/// Dropped datagrams matter if at least one in this many was dropped. Such a loss keeps the window
/// of a sender at about 39 packets: sqrt(3 / 2p) (Mathis et al., "The macroscopic behavior of the
/// TCP congestion avoidance algorithm", 1997).
const DATAGRAMS_PER_DROP: u64 = 1_000;

/// At least this share of the requests that were due must have been sent.
const SENT_PERCENT_MIN: u64 = 99;

/// Judges a run by its recording and [`RunResult::generator`]. It ignores the verdict that is saved
/// there. A run by a fleet is judged by the verdicts of its agents. Of `more_percents` (0..=100),
/// those with enough samples are judged beside the usual percentiles.
#[must_use]
pub fn verdict(result: &RunResult, more_percents: &[f64]) -> Verdict {
    if !result.agents.is_empty() {
        return crate::fleet::verdict(result, more_percents);
    }
    let bursts = bursts(result);
    let is_held_up = is_held_up(result) || bursts.is_some();
    let mut percentiles = disturbed_percentiles(&result.recording, more_percents);
    for share in &mut percentiles {
        share.is_lower_bound = is_held_up;
    }
    let limits = limits(result);
    if limits.is_empty() && percentiles.is_empty() && !is_held_up {
        let measured = usable_workers(result).count() as u64;
        return if measured >= u64::from(result.plan.load.threads) {
            Verdict::Undisturbed
        } else {
            Verdict::Unknown
        };
    }
    let is_saturated = !limits.is_empty();
    let bursts = bursts.filter(|_| percentiles.is_empty());
    let symptoms: Vec<Symptom> = limits
        .into_iter()
        .chain(bursts)
        .chain(causes(result))
        .collect();
    let remedy = remedy(&symptoms, result).sentence();
    let symptoms = symptoms.into_iter().map(finding).collect();
    delayed(is_saturated, percentiles, symptoms, remedy)
}

/// The verdict on a run that the load generator has delayed.
pub(crate) fn delayed(
    is_saturated: bool,
    percentiles: Vec<OwnShare>,
    symptoms: Vec<Finding<Symptom>>,
    remedy: String,
) -> Verdict {
    if is_saturated {
        Verdict::Saturated {
            percentiles,
            symptoms,
            remedy,
        }
    } else {
        Verdict::Disturbed {
            percentiles,
            symptoms,
            remedy,
        }
    }
}

/// Those percentiles of the latency, of the usual ones and `more`, of which the load generator
/// caused a notable part.
pub(crate) fn disturbed_percentiles(recording: &Recording, more: &[f64]) -> Vec<OwnShare> {
    if recording.attribution.shown.count() < DELAYED_MIN {
        return Vec::new();
    }
    let samples = recording.latency().count();
    let is_reliable = |percent: f64| percent < 100.0 && enough_samples(percent, samples);
    let more = more.iter().filter(|percent| is_reliable(**percent));
    let mut percents: Vec<f64> = JUDGED_PERCENTS.iter().chain(more).copied().collect();
    percents.sort_unstable_by(f64::total_cmp);
    percents.dedup();
    let parts = recording.latency_parts_at(&percents).into_iter();
    let shares = parts.map(|parts| OwnShare {
        percent: parts.percent,
        shown_ns: parts.shown_ns,
        own_ns: parts.own_ns,
        is_lower_bound: false,
    });
    let is_notable = |share: &OwnShare| {
        let shown_ns = u128::from(share.shown_ns);
        share.own_ns > Attribution::MIN_NS && is_share(share.own_ns, shown_ns, DISTURBED_PERCENT)
    };
    shares.filter(is_notable).collect()
}

/// What the load generator limited the load by.
fn limits(result: &RunResult) -> Vec<Symptom> {
    [
        connects_failed(result, ErrorKind::AddressUnavailable)
            .map(|(events, connects)| Symptom::PortsExhausted { events, connects }),
        connects_failed(result, ErrorKind::FileLimit)
            .map(|(events, connects)| Symptom::FilesExhausted { events, connects }),
        datagrams_dropped(result),
        rate_missed(result),
        idle(result),
        worker_busy(result).filter(|_| !result.plan.pacing.is_open()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Why the load generator was late.
fn causes(result: &RunResult) -> Vec<Symptom> {
    let others: Vec<Symptom> = [
        paused(result),
        // In a closed loop it is a limit.
        worker_busy(result).filter(|_| result.plan.pacing.is_open()),
        run_queue_wait(result),
        shared_cpus(result),
        throttled(result),
        stolen(result),
    ]
    .into_iter()
    .flatten()
    .collect();
    let script = slow_script(result, others.is_empty());
    script.into_iter().chain(others).collect()
}

/// Whether a worker did not run for so long that the load generator may have delayed anything. The
/// counters that show it do not depend on what was attributed to requests.
fn is_held_up(result: &RunResult) -> bool {
    let is_long = |part_ns: u64, elapsed_ns: u64| {
        elapsed_ns >= ELAPSED_MIN_NS
            && u128::from(part_ns) * 100 > u128::from(elapsed_ns) * u128::from(HELD_UP_PERCENT)
    };
    let waits = usable_workers(result).any(|worker| {
        let wait_ns = run_queue_wait_ns(result, worker).unwrap_or(0);
        is_long(wait_ns, worker.elapsed_ns)
    });
    let stands_still = is_long(standstill_per_worker_ns(result), result.window.duration_ns);
    let machine = result.generator.machine.as_ref();
    // The kernel sums it over CPUs.
    let throttled = machine.and_then(|machine| {
        let running = result.plan.load.threads.min(machine.cpus).max(1);
        let per_worker_ns = machine.throttled_ns? / u64::from(running);
        Some((per_worker_ns, machine.elapsed_ns))
    });
    waits || stands_still || throttled.is_some_and(|(part, whole)| is_long(part, whole))
}

/// With a rate: whether so many requests were sent so late that the server got them in bursts. How
/// much longer its queue was for that is not known.
fn bursts(result: &RunResult) -> Option<Symptom> {
    let Recording {
        lags, service_time, ..
    } = &result.recording;
    let late_ns = lags.own.value_at_percentile(100.0 - BURSTS_PERCENT);
    let service_ns = service_time.value_at_percentile(50.0);
    let matters = enough_samples(100.0 - BURSTS_PERCENT, lags.own.count())
        && late_ns >= BURSTS_MIN_NS
        && late_ns.saturating_mul(SERVICE_PER_LATE) >= service_ns;
    matters.then_some(Symptom::Bursts {
        late_ns,
        service_ns,
    })
}

/// With HTTP/3: whether so many datagrams were dropped by this machine that servers sent less.
pub(crate) fn datagrams_dropped(result: &RunResult) -> Option<Symptom> {
    let quic = result.recording.parts.quic.as_ref()?;
    let (dropped, arrived) = (quic.datagrams_dropped, quic.datagrams_arrived());
    let matters = dropped > 0 && dropped.saturating_mul(DATAGRAMS_PER_DROP) >= arrived;
    matters.then_some(Symptom::DatagramsDropped { dropped, arrived })
}

/// With a rate: whether too many of the requests that were due were not sent because of the load
/// generator.
fn rate_missed(result: &RunResult) -> Option<Symptom> {
    let due = result.recording.counters.due;
    let unsent = own_unsent(result);
    misses_too_many(due, unsent).then_some(Symptom::RateMissed { due, unsent })
}

/// Requests that were not sent because of the load generator: a connection would have been free, or
/// none could be opened on this machine.
fn own_unsent(result: &RunResult) -> u64 {
    let has_no_connections = [ErrorKind::AddressUnavailable, ErrorKind::FileLimit]
        .into_iter()
        .any(|kind| result.recording.errors.count(kind).events > 0);
    if has_no_connections {
        result.recording.counters.unsent
    } else {
        result.recording.attribution.unsent
    }
}

/// With a rate: how many of the requests that were due were not sent because the server, or a small
/// number of connections, let them wait; `None` if they are few.
pub(crate) fn server_unsent(result: &RunResult) -> Option<u64> {
    let counters = &result.recording.counters;
    let unsent = counters.unsent.saturating_sub(own_unsent(result));
    misses_too_many(counters.due, unsent).then_some(unsent)
}

fn misses_too_many(due: u64, unsent: u64) -> bool {
    let sent = u128::from(due.saturating_sub(unsent));
    unsent >= SAMPLES_ABOVE_MIN && sent * 100 < u128::from(due) * u128::from(SENT_PERCENT_MIN)
}

fn idle(result: &RunResult) -> Option<Symptom> {
    let (idle_ns, elapsed_ns) = result.connections_idle_ns();
    (result.window.duration_ns >= ELAPSED_MIN_NS
        && is_share(idle_ns, u128::from(elapsed_ns), IDLE_PERCENT))
    .then_some(Symptom::Idle {
        idle_ns,
        elapsed_ns,
    })
}

fn paused(result: &RunResult) -> Option<Symptom> {
    let mut standstills = result.recording.attribution.standstills.clone();
    let pauses = standstills.len() as u64;
    standstills.sort_by_key(|it| std::cmp::Reverse(it.length_ns));
    standstills.truncate(PAUSES_SHOWN_MAX);
    standstills.sort_by_key(|it| it.start_ns);
    (pauses > 0).then_some(Symptom::Paused {
        standstills,
        pauses,
        paused_ns: standstill_per_worker_ns(result),
    })
}

/// How long a worker did not run for 10 ms or more at a stretch, nanoseconds: the mean over
/// workers.
fn standstill_per_worker_ns(result: &RunResult) -> u64 {
    let threads = u64::from(result.plan.load.threads.max(1));
    result.recording.attribution.standstill_ns / threads
}

/// A script takes long if its threads had little time for anything else, if its time explains the
/// delays of requests, or if nothing else is known to explain them.
fn slow_script(result: &RunResult, is_alone: bool) -> Option<Symptom> {
    let threads = u64::from(result.plan.load.threads);
    let elapsed_ns = result.window.duration_ns.saturating_mul(threads);
    let attribution = &result.recording.attribution;
    let script_ns = attribution.script_ns;
    let percent = if is_alone {
        SCRIPT_ALONE_PERCENT
    } else {
        SCRIPT_PERCENT
    };
    let [shown_ns, corrected_ns] =
        [&attribution.shown, &attribution.corrected].map(|times| times.mean_ns());
    let own_ns = (shown_ns - corrected_ns).max(0.0) * attribution.shown.count() as f64;
    let explains = own_ns > 0.0 && script_ns as f64 * DELAYS_PER_SCRIPT_TIME as f64 >= own_ns;
    let matters = explains || is_share(script_ns, u128::from(elapsed_ns), percent);
    matters.then_some(Symptom::SlowScript {
        script_ns,
        elapsed_ns,
        calls: result.recording.counters.sent,
    })
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

/// How long a worker waited for a CPU, nanoseconds. The kernel also counts a thread as waiting when
/// its control group's quota stops it; that is a symptom of its own.
fn run_queue_wait_ns(result: &RunResult, worker: &WorkerUsage) -> Option<u64> {
    let machine = result.generator.machine.as_ref();
    let throttled_ns = machine.and_then(|machine| machine.throttled_ns);
    let wait_ns = worker.usage.run_queue_wait_ns?;
    Some(wait_ns.saturating_sub(throttled_ns.unwrap_or(0)))
}

fn run_queue_wait(result: &RunResult) -> Option<Symptom> {
    let (worker, run_queue_wait_ns) = usable_workers(result)
        .filter_map(|worker| Some((worker, run_queue_wait_ns(result, worker)?)))
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

/// The server or other programs took CPU time that the load generator lacked. Only the processes
/// with the listening socket are known as the server; those behind it, such as php-fpm behind
/// nginx, are among the others.
fn shared_cpus(result: &RunResult) -> Option<Symptom> {
    let machine = result.generator.machine.as_ref()?;
    let server = result.generator.server.as_ref();
    let server_ns = server.and_then(|server| server.cpu_ns);
    let (elapsed_ns, cpus) = (machine.elapsed_ns, machine.cpus);
    let all_ns = all_cpus_ns(elapsed_ns, cpus);
    let generator_ns = generator_ns(result, elapsed_ns);
    let others_ns = others_ns(machine.busy_ns, server_ns, generator_ns);
    let shares_with_server = server.is_some_and(|it| it.shares_cpus)
        && server_ns.is_some_and(|ns| is_server_notable(ns, elapsed_ns));
    // Others may be on CPUs on which the load generator must not run.
    let shares_with_others =
        are_others_notable(others_ns, elapsed_ns) && run_queue_wait(result).is_some();
    let matters = (shares_with_server || shares_with_others)
        && is_share(machine.busy_ns, all_ns, CPUS_BUSY_PERCENT);
    matters.then_some(Symptom::SharedCpus {
        server_ns,
        generator_ns,
        busy_ns: machine.busy_ns,
        elapsed_ns,
        cpus,
    })
}

/// Whether a server used a notable part of a CPU.
pub(crate) fn is_server_notable(cpu_ns: u64, elapsed_ns: u64) -> bool {
    is_share(cpu_ns, u128::from(elapsed_ns), SERVER_PERCENT)
}

/// Whether other programs used a notable part of a CPU.
pub(crate) fn are_others_notable(cpu_ns: u64, elapsed_ns: u64) -> bool {
    is_share(cpu_ns, u128::from(elapsed_ns), OTHERS_PERCENT)
}

/// CPU time that neither the server nor the load generator used, nanoseconds.
pub(crate) fn others_ns(busy_ns: u64, server_ns: Option<u64>, generator_ns: u64) -> u64 {
    let known_ns = server_ns.unwrap_or(0).saturating_add(generator_ns);
    busy_ns.saturating_sub(known_ns)
}

/// CPU time of the workers in `elapsed_ns`, if they used as much before and after the window as in
/// it.
fn generator_ns(result: &RunResult, elapsed_ns: u64) -> u64 {
    let of_workers = usable_workers(result).map(|worker| {
        let used = u128::from(worker.usage.cpu_ns.min(worker.elapsed_ns));
        used * u128::from(elapsed_ns) / u128::from(worker.elapsed_ns.max(1))
    });
    u64::try_from(of_workers.sum::<u128>()).unwrap_or(u64::MAX)
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
        || misses_too_many(counters.due, counters.unsent);
    (events > 0 && matters).then_some((events, connects))
}

pub(crate) fn is_share(part: u64, whole: u128, percent: u64) -> bool {
    whole > 0 && u128::from(part) * 100 >= whole * u128::from(percent)
}

/// CPU time that the machine had, nanoseconds.
pub(crate) fn all_cpus_ns(elapsed_ns: u64, cpus: u32) -> u128 {
    u128::from(elapsed_ns) * u128::from(cpus)
}
