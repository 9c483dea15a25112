//! Whether the load generator disturbed or limited a run, judged from the numbers of the run alone.
//!
//! Both are measured, not guessed: the engine attributes the delay of each request
//! ([`results::Attribution`]). A load generator is *disturbed* if it caused a notable part of a
//! percentile, and *saturated* if it limited the load: the rate was missed although connections
//! were free, or connections of a closed loop were not used. Everything else that is known about
//! the machine, such as a busy thread or a script that takes long, is only a cause: it is reported
//! if the load generator was disturbed or saturated.

use results::{
    Attribution, ErrorKind, OwnShare, Recording, RunResult, SAMPLES_ABOVE_MIN, Symptom, Verdict,
    WorkerUsage, enough_samples,
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

/// Shares of a shorter time show the start of a thread rather than the load.
const ELAPSED_MIN_NS: u64 = 100_000_000;

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
    let percentiles = disturbed_percentiles(&result.recording, more_percents);
    let limits = limits(result);
    if limits.is_empty() && percentiles.is_empty() {
        let measured = usable_workers(result).count() as u64;
        return match measured >= u64::from(result.plan.load.threads) {
            true => Verdict::Undisturbed,
            false => Verdict::Unknown,
        };
    }
    let is_saturated = !limits.is_empty();
    let symptoms: Vec<Symptom> = limits.into_iter().chain(causes(result)).collect();
    let remedy = remedy(&symptoms, result).sentence();
    let symptoms = symptoms.into_iter().map(finding).collect();
    match is_saturated {
        true => Verdict::Saturated {
            percentiles,
            symptoms,
            remedy,
        },
        false => Verdict::Disturbed {
            percentiles,
            symptoms,
            remedy,
        },
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
    [
        paused(result),
        slow_script(result),
        // In a closed loop it is a limit.
        worker_busy(result).filter(|_| result.plan.pacing.is_open()),
        run_queue_wait(result),
        shared_cpus(result),
        throttled(result),
        stolen(result),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// With HTTP/3: whether so many datagrams were dropped by this machine that servers sent less.
pub(crate) fn datagrams_dropped(result: &RunResult) -> Option<Symptom> {
    let quic = result.recording.quic.as_ref()?;
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
    match has_no_connections {
        true => result.recording.counters.unsent,
        false => result.recording.attribution.unsent,
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
    let standstills = result.recording.attribution.standstills.clone();
    (!standstills.is_empty()).then_some(Symptom::Paused { standstills })
}

fn slow_script(result: &RunResult) -> Option<Symptom> {
    let threads = u64::from(result.plan.load.threads);
    let elapsed_ns = result.window.duration_ns.saturating_mul(threads);
    let script_ns = result.recording.attribution.script_ns;
    is_share(script_ns, u128::from(elapsed_ns), SCRIPT_PERCENT).then_some(Symptom::SlowScript {
        script_ns,
        elapsed_ns,
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

/// The server took CPU time that the load generator lacked.
fn shared_cpus(result: &RunResult) -> Option<Symptom> {
    let machine = result.generator.machine.as_ref()?;
    let server = result.generator.server.as_ref()?;
    let server_ns = server.cpu_ns?;
    let (elapsed_ns, cpus) = (machine.elapsed_ns, machine.cpus);
    let matters = server.shares_cpus
        && is_share(server_ns, u128::from(elapsed_ns), SERVER_PERCENT)
        && is_share(
            machine.busy_ns,
            all_cpus_ns(elapsed_ns, cpus),
            CPUS_BUSY_PERCENT,
        );
    matters.then(|| Symptom::SharedCpus {
        server_ns,
        generator_ns: result.generator.cpu_ns(),
        busy_ns: machine.busy_ns,
        elapsed_ns,
        cpus,
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
