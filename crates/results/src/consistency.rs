//! What a run can check on itself: figures that were counted in two ways and must agree.

use std::ops::RangeInclusive;

use plan::{Arrivals, Pacing, Scheme};

use crate::warnings::SIGMAS;
use crate::{AchievedRate, ErrorKind, RunResult, Warning};

/// Two ways of counting may differ by one part in so many.
const TOLERANCE_DIVISOR: u128 = 100;

/// And by so much for each batch that can be in flight, which is what matters in short runs: connections are
/// opened and sent on one after the other.
const PER_PLACE_NS: u128 = 1_000_000;

/// Requests by which the schedule of each worker may be off, at the begin and at the end.
const SCHEDULE_SLACK_PER_WORKER: f64 = 2.0;

/// And the part that rounding may cost.
const SCHEDULE_TOLERANCE: f64 = 0.001;

/// Contradictions that only a defect of the program can explain.
pub(crate) fn doubts(result: &RunResult) -> Vec<Warning> {
    [little(result), schedule(result)]
        .into_iter()
        .flatten()
        .collect()
}

/// Little's law (J. D. C. Little, "A proof for the queuing formula L = λW", 1961), in its exact form for
/// a finite window: the number of requests in flight, integrated over time, is the sum of the times
/// that they were in flight.
fn little(result: &RunResult) -> Option<Warning> {
    let counters = &result.recording.counters;
    let counted_ns = u128::from(counters.in_flight_time_ns);
    let slack_ns = counted_ns / TOLERANCE_DIVISOR + places(result) * PER_PLACE_NS;
    let contradicts = |bounds: &RangeInclusive<u128>| {
        counted_ns.saturating_add(slack_ns) < *bounds.start()
            || counted_ns > bounds.end().saturating_add(slack_ns)
    };
    let bounds = [Some(bounds_by_samples(result)), bounds_by_places(result)]
        .into_iter()
        .flatten()
        .find(contradicts)?;
    let saturated = |time_ns: &u128| u64::try_from(*time_ns).unwrap_or(u64::MAX);
    Some(Warning::InconsistentConcurrency {
        in_flight_time_ns: counters.in_flight_time_ns,
        least_ns: saturated(bounds.start()),
        most_ns: saturated(bounds.end()),
        duration_ns: result.window.duration_ns,
    })
}

/// What the samples say of the integral. Of some requests only a bound is known: of those in flight at
/// the end that none is older than the oldest, of failed ones that none was older than the timeout,
/// and of those from before the window that each took a place.
fn bounds_by_samples(result: &RunResult) -> RangeInclusive<u128> {
    let (plan, recording) = (&result.plan, &result.recording);
    let counters = &recording.counters;
    let answered_ns = recording.service_time.sum_ns();
    let timed_out_ns = recording.timed_out.sum_ns();
    // In a batch that is timed as one the last answer takes longest.
    let samples = u128::from(recording.service_time.count()).max(1);
    let per_sample = match plan.load.batch_latency {
        true => u128::from(counters.answered).div_ceil(samples),
        false => 1,
    };
    let failed = recording
        .errors
        .exchanges()
        .saturating_sub(recording.errors.count(ErrorKind::Timeout).exchanges);
    let before_ns = match (result.window.warmup_ns, &plan.request.script) {
        (0, _) => 0,
        // It may make batches of any size.
        (_, Some(_)) => u128::MAX,
        (_, None) => places(result).saturating_mul(u128::from(result.window.duration_ns)),
    };
    let most_ns = [
        answered_ns.saturating_mul(per_sample),
        timed_out_ns,
        u128::from(counters.in_flight) * u128::from(counters.oldest_in_flight_ns),
        u128::from(failed).saturating_mul(plan.time_limit().as_nanos()),
        before_ns,
    ]
    .into_iter()
    .fold(0, u128::saturating_add);
    answered_ns.saturating_add(timed_out_ns)..=most_ns
}

/// In a closed loop without delays every place has a request in flight, but for the time it takes to
/// connect, and for the time that a thread had no CPU, which may be just before it opens its connections.
/// `None` where places may be empty for other reasons.
fn bounds_by_places(result: &RunResult) -> Option<RangeInclusive<u128>> {
    let (plan, recording) = (&result.plan, &result.recording);
    let counters = &recording.counters;
    let load = &plan.load;
    let connections = u64::from(load.connections);
    let connected = match plan.target.scheme {
        Scheme::Http => counters.connections_opened,
        Scheme::Https => counters.tls_full.saturating_add(counters.tls_resumed),
    };
    let always_busy = !plan.pacing.is_open()
        && plan.stop.requests.is_none()
        && plan.request.script.is_none()
        && load.keepalive
        && load.requests_per_connection.is_none()
        && counters.reconnects == 0
        && recording.errors.events() == 0
        && result.window.warmup_ns == 0
        && counters.connections_opened == connections
        && connected == connections;
    let phases = &recording.phases;
    let setup_ns = phases.connect.sum_ns().saturating_add(phases.tls.sum_ns());
    let unused_ns = setup_ns
        .saturating_mul(u128::from(load.pipeline))
        .saturating_add(stopped_ns(result).saturating_mul(places(result)));
    let all_ns = places(result).saturating_mul(u128::from(result.window.duration_ns));
    always_busy.then(|| all_ns.saturating_sub(unused_ns)..=all_ns)
}

/// The longest time that a thread may have been kept from running.
fn stopped_ns(result: &RunResult) -> u128 {
    let generator = &result.generator;
    // A thread is asked for the first time in its first turn, so a late one is seen in what is missing
    // of the window.
    let longest_ns = generator.workers.iter().map(|worker| {
        let late_ns = result.window.duration_ns.saturating_sub(worker.elapsed_ns);
        late_ns.saturating_add(worker.usage.run_queue_wait_ns.unwrap_or(0))
    });
    let longest_ns = longest_ns.max();
    let steal_ns = generator.machine.map(|machine| machine.steal_ns);
    u128::from(longest_ns.unwrap_or(0)) + u128::from(steal_ns.unwrap_or(0))
}

/// Batches that can be in flight at once.
fn places(result: &RunResult) -> u128 {
    let load = &result.plan.load;
    u128::from(load.connections) * u128::from(load.pipeline)
}

/// With a rate and without a script, which may end a run or send several requests at a time: whether
/// as many requests were due as the plan asks for.
fn schedule(result: &RunResult) -> Option<Warning> {
    let plan = &result.plan;
    if plan.request.script.is_some() || plan.stop.requests.is_some() {
        return None;
    }
    let asked = AchievedRate::of(result)?.asked_per_sec;
    let expected = asked * result.window.duration_ns as f64 / 1e9;
    let due = result.recording.counters.due;
    let scatter = match arrivals(&plan.pacing)? {
        Arrivals::Even => 0.0,
        // The number of a Poisson process' events has its mean as variance.
        Arrivals::Poisson => SIGMAS * expected.sqrt() + SIGMAS,
    };
    let slack = expected * SCHEDULE_TOLERANCE
        + scatter
        + f64::from(plan.load.threads) * SCHEDULE_SLACK_PER_WORKER;
    ((due as f64 - expected).abs() > slack).then(|| Warning::InconsistentSchedule {
        due,
        expected: expected.round() as u64,
    })
}

fn arrivals(pacing: &Pacing) -> Option<Arrivals> {
    match pacing {
        Pacing::Closed => None,
        Pacing::Constant { arrivals, .. } | Pacing::Stages { arrivals, .. } => Some(*arrivals),
    }
}
