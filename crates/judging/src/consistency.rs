//! Numbers of a run that were counted in two ways and must agree.

use std::ops::RangeInclusive;

use plan::{LANES_UNEVENNESS_MAX, Protocol};
use results::{AchievedRate, ErrorKind, RunResult, Warning};

use crate::warnings::SIGMAS;

/// Two ways of counting may differ by one part in this many.
const TOLERANCE_DIVISOR: u128 = 100;

/// They may also differ by this much for each batch that can be in flight. This matters in short
/// runs, where connections are opened and used one after the other.
const PER_BATCH_NS: u128 = 1_000_000;

/// Requests by which the schedule of each worker may be off: one at each end of the window.
const SCHEDULE_SLACK_PER_WORKER: f64 = 2.0;

/// The share of requests by which rounding may change the schedule.
const SCHEDULE_TOLERANCE: f64 = 0.001;

/// Contradictions that only a bug in the program can explain.
pub(crate) fn contradictions(result: &RunResult) -> Vec<Warning> {
    [little(result), schedule(result)]
        .into_iter()
        .flatten()
        .collect()
}

/// Little's law (J. D. C. Little, "A proof for the queuing formula L = λW", 1961), in its exact
/// form for a finite window: the number of requests in flight, integrated over time, is the sum of
/// the times that they were in flight.
fn little(result: &RunResult) -> Option<Warning> {
    let counters = &result.recording.counters;
    let in_window_ns = u128::from(counters.in_flight_time_ns);
    // Samples are of the whole time of a request, also of what the drain has of it.
    let in_all_ns = in_window_ns + u128::from(counters.drained_time_ns);
    let slack_ns = in_all_ns / TOLERANCE_DIVISOR + batches_max(result) * PER_BATCH_NS;
    let contradicts = |(counted_ns, bounds): &(u128, RangeInclusive<u128>)| {
        counted_ns.saturating_add(slack_ns) < *bounds.start()
            || *counted_ns > bounds.end().saturating_add(slack_ns)
    };
    let by_connections = bounds_by_connections(result);
    let (counted_ns, bounds) = [
        Some((in_all_ns, bounds_by_samples(result))),
        by_connections.map(|bounds| (in_window_ns, bounds)),
    ]
    .into_iter()
    .flatten()
    .find(contradicts)?;
    let saturated = |time_ns: &u128| u64::try_from(*time_ns).unwrap_or(u64::MAX);
    Some(Warning::InconsistentConcurrency {
        in_flight_time_ns: saturated(&counted_ns),
        least_ns: saturated(bounds.start()),
        most_ns: saturated(bounds.end()),
        duration_ns: result.window.duration_ns,
    })
}

/// The integral according to the samples. For some requests only a bound is known: none in flight
/// at the end is older than the oldest, or than the window if a script was still running; no failed
/// one was older than the timeout, and than its thread had no CPU; and those of the warm-up were at
/// most as many as can be in flight.
fn bounds_by_samples(result: &RunResult) -> RangeInclusive<u128> {
    let (plan, recording) = (&result.plan, &result.recording);
    let counters = &recording.counters;
    let answered_ns = recording.service_time.sum_ns();
    let timed_out_ns = recording.timed_out.sum_ns();
    // In a batch that is timed as one the last response takes longest.
    let samples = u128::from(recording.service_time.count()).max(1);
    let per_sample = if plan.load.batch_latency {
        u128::from(counters.answered).div_ceil(samples)
    } else {
        1
    };
    let failed_as = |kind| recording.errors.count(kind).exchanges;
    // A thread that handles a flood comes late to its deadlines.
    let flooded = failed_as(ErrorKind::Flooded);
    let failed = recording
        .errors
        .exchanges()
        .saturating_sub(failed_as(ErrorKind::Timeout))
        .saturating_sub(flooded);
    let failed_max_ns = plan
        .time_limit()
        .as_nanos()
        .saturating_add(stopped_ns(result));
    let drained_ns = result.window.drained_ns.unwrap_or(0);
    let length_ns = result.window.duration_ns.saturating_add(drained_ns);
    let oldest_ns = if is_stuck(result) {
        length_ns
    } else {
        counters.oldest_in_flight_ns
    };
    let before_ns = match (result.window.warmup_ns, &plan.request.script) {
        (0, _) => 0,
        // A script may make batches of any size.
        (_, Some(_)) => u128::MAX,
        (_, None) => batches_max(result).saturating_mul(u128::from(length_ns)),
    };
    let most_ns = [
        answered_ns.saturating_mul(per_sample),
        timed_out_ns,
        u128::from(counters.in_flight) * u128::from(oldest_ns),
        u128::from(failed).saturating_mul(failed_max_ns),
        u128::from(flooded) * u128::from(length_ns),
        before_ns,
    ]
    .into_iter()
    .fold(0, u128::saturating_add);
    answered_ns.saturating_add(timed_out_ns)..=most_ns
}

/// Whether a script did not return before the end of the run. Its thread then has no reading, and
/// its requests are only known to be older than the call.
fn is_stuck(result: &RunResult) -> bool {
    let threads = result.plan.load.threads as usize;
    result.plan.request.script.is_some() && result.generator.workers.len() < threads
}

/// In a closed loop without delays a batch is in flight on every connection at all times from its
/// first request on, except while its thread has no CPU. Before, there may be a probe. `None` where
/// a connection may be without a request for other reasons, such as a server that asks users to
/// wait.
fn bounds_by_connections(result: &RunResult) -> Option<RangeInclusive<u128>> {
    let (plan, recording) = (&result.plan, &result.recording);
    let counters = &recording.counters;
    let load = &plan.load;
    let connections = u64::from(load.connections);
    let always_busy = !plan.pacing.is_open()
        && plan.stop.requests.is_none()
        && plan.request.script.is_none()
        && load.keepalive
        && load.requests_per_connection.is_none()
        && load.connection_stages.is_empty()
        && counters.reconnects == 0
        && recording.errors.events() == 0
        && recording
            .parts
            .llm
            .as_ref()
            .is_none_or(|llm| llm.pauses.is_empty())
        && result.window.warmup_ns == 0
        && counters.connections_opened == connections;
    let unused_ns = u128::from(counters.opening_ns)
        .saturating_mul(u128::from(load.in_flight_per_connection()))
        .saturating_add(stopped_ns(result).saturating_mul(batches_max(result)));
    let all_ns = batches_max(result).saturating_mul(u128::from(result.window.duration_ns));
    let least_ns = match load.protocol {
        Protocol::Http1 => all_ns.saturating_sub(unused_ns),
        // The server may allow fewer streams, even none, and change its mind at any time.
        Protocol::Http2 | Protocol::Grpc | Protocol::Http3 | Protocol::GrpcHttp3 => 0,
    };
    always_busy.then_some(least_ns..=all_ns)
}

/// The longest time that a thread may not have run.
fn stopped_ns(result: &RunResult) -> u128 {
    let generator = &result.generator;
    // A thread's first reading is when it first runs, so a late start shows in what is missing of
    // the window.
    let longest_ns = generator.workers.iter().map(|worker| {
        let late_ns = result.window.duration_ns.saturating_sub(worker.elapsed_ns);
        late_ns.saturating_add(worker.usage.run_queue_wait_ns.unwrap_or(0))
    });
    let longest_ns = longest_ns.max();
    let steal_ns = generator.machine.map(|machine| machine.steal_ns);
    u128::from(longest_ns.unwrap_or(0)) + u128::from(steal_ns.unwrap_or(0))
}

/// Batches that can be in flight at once.
fn batches_max(result: &RunResult) -> u128 {
    let load = &result.plan.load;
    u128::from(load.connections) * u128::from(load.in_flight_per_connection())
}

/// Whether as many requests were due as the plan asks for: with a rate, and without a script, which
/// may end a run or send several requests at a time.
fn schedule(result: &RunResult) -> Option<Warning> {
    let plan = &result.plan;
    if plan.request.script.is_some() || plan.stop.requests.is_some() {
        return None;
    }
    let asked_per_sec = AchievedRate::of(result)?.asked_per_sec;
    let expected = asked_per_sec * result.window.duration_ns as f64 / 1e9;
    let due = result.recording.counters.due;
    let slack = expected * SCHEDULE_TOLERANCE
        // In a fleet whose agents have unequal weights.
        + LANES_UNEVENNESS_MAX
        + f64::from(plan.load.threads) * SCHEDULE_SLACK_PER_WORKER;
    let (least, most) = (due as f64 - slack, due as f64 + slack);
    let is_possible = match plan.pacing.arrivals()?.shape() {
        None => (least..=most).contains(&expected),
        Some(shape) => is_within_chance(shape, expected, least, most),
    };
    (!is_possible).then(|| Warning::InconsistentSchedule {
        due,
        expected: expected.round() as u64,
    })
}

/// Whether random arrivals may have `least` to `most` requests where `expected` are due on
/// average.
///
/// The sum of m gaps of shape K has a gamma distribution of shape `m K`, so its tails have
/// Chernoff's bound `(x/a)^a e^(a-x)` with `a = m K` and `x = K expected`. With many requests it is
/// that of a normal distribution with the variance `expected / K`, which is `e^(-SIGMAS^2 / 2)` at
/// [`SIGMAS`]. With few of a small shape the number of requests is far more skewed.
fn is_within_chance(shape: f64, expected: f64, least: f64, most: f64) -> bool {
    let is_usual = |gaps: f64| {
        let (sum, time) = (shape * gaps, shape * expected);
        let part = if sum > 0.0 {
            sum * (sum / time).ln()
        } else {
            0.0
        };
        time - sum + part <= SIGMAS * SIGMAS / 2.0
    };
    // With n requests, the n - 1 gaps between them are shorter together than the time. With one
    // fewer, n gaps are longer; the first of them is a part of one whose shape is larger by 1.
    let gaps_max = most.max(0.0) + 1.0 + 1.0 / shape;
    is_usual((least - 1.0).max(expected)) && is_usual(gaps_max.min(expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gamma-distributed number with a shape of at most 1 (J. H. Ahrens and U. Dieter, "Computer
    /// Methods for Sampling from Gamma, Beta, Poisson and Binomial Distributions", 1974, GS):
    /// another method than that of the schedule.
    fn small_gamma(random: &mut fastrand::Rng, shape: f64) -> f64 {
        let total = 1.0 + shape / std::f64::consts::E;
        loop {
            let part = total * random.f64();
            let (sample, accepted) = if part <= 1.0 {
                let sample = part.powf(1.0 / shape);
                (sample, (-sample).exp())
            } else {
                let sample = -((total - part) / shape).ln();
                (sample, sample.powf(shape - 1.0))
            };
            if random.f64() <= accepted {
                return sample;
            }
        }
    }

    /// A number of any shape is a sum of ones with smaller shapes.
    fn gamma(random: &mut fastrand::Rng, shape: f64) -> f64 {
        let parts = shape.ceil();
        (0..parts as u32)
            .map(|_| small_gamma(random, shape / parts))
            .sum()
    }

    /// Requests of a stationary renewal process within a time.
    fn requests(random: &mut fastrand::Rng, shape: f64, expected: f64) -> f64 {
        let mut at = gamma(random, shape + 1.0) / shape * random.f64();
        let mut count = 0.0;
        while at < expected {
            count += 1.0;
            at += gamma(random, shape) / shape;
        }
        count
    }

    #[test]
    fn bursty_and_even_arrivals_are_never_a_wrong_schedule() {
        let mut random = fastrand::Rng::with_seed(3);
        for shape in [0.01, 0.1, 0.5, 1.0, 4.0, 50.0] {
            for expected in [0.5, 3.0, 30.0, 300.0] {
                for _ in 0..2_000 {
                    let count = requests(&mut random, shape, expected);
                    let is_possible = is_within_chance(shape, expected, count, count);
                    assert!(is_possible, "{shape}: {count} of {expected}");
                }
            }
        }
    }

    #[test]
    fn half_and_twice_the_requests_are_a_wrong_schedule_unless_there_are_too_few() {
        for shape in [0.01_f64, 0.1, 0.5, 1.0, 4.0, 50.0, 1000.0] {
            // Bursts are random, and there are K times as many of them as requests.
            let (many, few) = ((200.0 / shape).max(200.0), 2.0 / shape);
            for factor in [0.5, 2.0] {
                let wrong = many * factor;
                assert!(
                    !is_within_chance(shape, many, wrong, wrong),
                    "{shape} {factor}"
                );
                let unclear = few * factor;
                assert!(
                    is_within_chance(shape, few, unclear, unclear),
                    "{shape} {factor}"
                );
            }
            assert!(!is_within_chance(shape, many, 0.0, 0.0), "{shape}");
            assert!(
                is_within_chance(shape, many, many * 0.5, many * 2.0),
                "{shape}"
            );
        }
    }

    /// Six standard deviations of a Poisson distribution, which is nearly normal.
    #[test]
    fn the_limit_of_many_requests_is_that_of_a_normal_distribution() {
        for shape in [0.1, 1.0, 10.0] {
            let expected = 1e8_f64;
            let deviation = (expected / shape).sqrt();
            for (deviations, is_possible) in
                [(-6.1, false), (-5.9, true), (5.9, true), (6.1, false)]
            {
                let count = expected + deviations * deviation;
                let found = is_within_chance(shape, expected, count, count);
                assert_eq!(found, is_possible, "{shape} {deviations}");
            }
        }
    }
}
