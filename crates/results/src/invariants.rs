//! Checks that hold for every result; tests apply them to each one.

use crate::{Distribution, ErrorKind, Histogram, Recording, RunResult, Summary, parts};

/// How a result, or a part of a saved one, contradicts itself, one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Contradiction(pub(crate) String);

impl Contradiction {
    /// The same of a part, which the text then begins with.
    pub(crate) fn within(self, part: &str) -> Self {
        Self(format!("{part}: {self}"))
    }
}

/// Checks that a result does not contradict itself: every request sent is counted once, samples and
/// counts agree, percentiles do not decrease, and no figure is infinite or NaN.
///
/// # Errors
/// The first contradiction found.
pub fn check(result: &RunResult) -> Result<(), Contradiction> {
    check_requests(result)?;
    check_samples(result)?;
    check_schedule(result)?;
    check_series(result)?;
    check_intervals(result)?;
    parts::ALL
        .iter()
        .try_for_each(|part| (part.check)(result))?;
    crate::fleet::check(result)?;
    check_summary(&Summary::of(result, &[0.0, 1.0, 25.0, 99.999]))
}

fn check_requests(result: &RunResult) -> Result<(), Contradiction> {
    let recording = &result.recording;
    let counters = &recording.counters;
    let failed = recording.errors.exchanges();
    let found = [counters.answered, failed, counters.in_flight]
        .map(u128::from)
        .iter()
        .sum();
    equal(
        "sent",
        u128::from(counters.sent),
        "answered + failed + in flight",
        found,
    )?;
    let of_statuses = u128::from(recording.statuses.total());
    equal(
        "answered",
        u128::from(counters.answered),
        "responses by status",
        of_statuses,
    )?;
    let in_drain = counters.answered_in_drain;
    if in_drain > counters.answered || in_drain > 0 && result.window.drained_ns.is_none() {
        return Err(Contradiction(format!(
            "answered_in_drain is {in_drain}, answered {}, the drain {:?}",
            counters.answered, result.window.drained_ns
        )));
    }
    if counters.in_flight == 0 && counters.oldest_in_flight_ns != 0 {
        return Err(Contradiction(
            "oldest_in_flight_ns is given, but nothing is in flight".to_owned(),
        ));
    }
    Ok(())
}

fn check_samples(result: &RunResult) -> Result<(), Contradiction> {
    let recording = &result.recording;
    let answered = u128::from(recording.counters.answered);
    let timed = u128::from(recording.service_time.count());
    if result.plan.load.batch_latency {
        if timed > answered {
            return Err(Contradiction(format!(
                "service_time has {timed} samples, answered is {answered}"
            )));
        }
    } else {
        equal("service_time samples", timed, "answered", answered)?;
    }
    let samples = u128::from(recording.timed_out.count());
    let given_up = u128::from(recording.errors.count(ErrorKind::Timeout).exchanges);
    equal(
        "timed_out samples",
        samples,
        "requests that ended in timeout",
        given_up,
    )?;
    for (name, phase) in [
        ("first_byte", &recording.phases.first_byte),
        ("last_byte", &recording.phases.last_byte),
    ] {
        if u128::from(phase.count()) > timed {
            return Err(Contradiction(format!(
                "{name} has {} samples, service_time has {timed}",
                phase.count()
            )));
        }
    }
    Ok(())
}

/// Checks the numbers that only a schedule has: due and unsent requests, response times, send lags.
fn check_schedule(result: &RunResult) -> Result<(), Contradiction> {
    let Recording {
        counters,
        errors,
        service_time,
        response_time,
        unanswered,
        lags,
        ..
    } = &result.recording;
    let [due, sent, unsent, in_flight] = [
        counters.due,
        counters.sent,
        counters.unsent,
        counters.in_flight,
    ]
    .map(u128::from);
    let samples = |histogram: &Histogram| u128::from(histogram.count());
    if !result.plan.pacing.is_open() {
        for (name, count) in [
            ("due", due),
            ("unsent", unsent),
            ("response_time samples", samples(response_time)),
            ("unanswered samples", samples(unanswered)),
            ("lags.send samples", samples(&lags.send)),
            ("lags.own samples", samples(&lags.own)),
        ] {
            equal(name, count, "the expected number in a closed loop", 0)?;
        }
        return Ok(());
    }
    equal("due", due, "sent + unsent", sent + unsent)?;
    equal(
        "response_time samples",
        samples(response_time),
        "service_time samples",
        samples(service_time),
    )?;
    let timed_out = u128::from(errors.count(ErrorKind::Timeout).exchanges);
    equal(
        "unanswered samples",
        samples(unanswered),
        "timed out + in flight + unsent",
        timed_out + in_flight + unsent,
    )?;
    equal("lags.send samples", samples(&lags.send), "sent", sent)?;
    equal("lags.own samples", samples(&lags.own), "sent", sent)
}

fn check_intervals(result: &RunResult) -> Result<(), Contradiction> {
    let rows = result.recording.intervals.rows();
    let in_rows = rows
        .iter()
        .flat_map(|row| &row.samples)
        .map(|(_, count)| u128::from(*count))
        .sum();
    let recording = &result.recording;
    let samples = u128::from(recording.service_time.count());
    let drained = u128::from(recording.counters.answered_in_drain);
    if result.plan.load.batch_latency && drained > 0 {
        // Not every response that was read after the window has a sample.
        return if (in_rows..=in_rows + drained).contains(&samples) {
            Ok(())
        } else {
            Err(Contradiction(format!(
                "service_time has {samples} samples, the intervals have {in_rows}"
            )))
        };
    }
    equal(
        "service_time samples",
        samples,
        "samples in the intervals and in the drain",
        in_rows + drained,
    )
}

fn check_series(result: &RunResult) -> Result<(), Contradiction> {
    let rows = result.recording.series.rows();
    let in_rows = rows.iter().map(|row| u128::from(row.answered)).sum();
    let counters = &result.recording.counters;
    let responses = u128::from(counters.responses());
    equal("responses", responses, "answered in the series", in_rows)?;
    let in_rows: u128 = rows.iter().map(|row| u128::from(row.events)).sum();
    match &result.recording.parts.events {
        // Documents of versions before this have none in the series.
        Some(events) if in_rows > 0 => {
            let arrived = u128::from(events.arrived);
            equal("events", arrived, "events in the series", in_rows)
        }
        _ => Ok(()),
    }
}

fn check_summary(summary: &Summary) -> Result<(), Contradiction> {
    let (phases, lags) = (&summary.phases, &summary.lags);
    for (name, distribution) in [
        ("latency", &summary.latency),
        ("service_time", &summary.service_time),
        ("lags.send", &lags.send),
        ("lags.own", &lags.own),
        ("lags.wakeup", &lags.wakeup),
        ("lags.receive", &lags.receive),
        ("connect", &phases.connect),
        ("tls", &phases.tls),
        ("first_byte", &phases.first_byte),
        ("last_byte", &phases.last_byte),
    ] {
        check_distribution(name, distribution)?;
    }
    if let Some(events) = &summary.events {
        check_distribution("first_event", &events.first_event)?;
        check_distribution("event_gap", &events.gap)?;
        finite("events_per_sec", Some(events.events_per_sec))?;
        finite("events per response", events.per_response_mean)?;
    }
    if let Some(llm) = &summary.llm {
        check_distribution("first_token", &llm.first_token)?;
        check_distribution("first_text", &llm.first_text)?;
        check_distribution("token_gap", &llm.token_gap)?;
        check_distribution("time_per_token", &llm.time_per_token)?;
        finite("output_tokens_per_sec", Some(llm.output_tokens_per_sec))?;
        finite("input_tokens_per_sec", Some(llm.input_tokens_per_sec))?;
        finite("output tokens per response", llm.output_per_response_mean)?;
        finite("input tokens per response", llm.input_per_response_mean)?;
    }
    let rates = &summary.rates;
    finite("requests_per_sec", Some(summary.requests_per_sec))?;
    finite("bytes_per_sec", Some(summary.bytes_per_sec))?;
    finite("rates mean", rates.mean_requests_per_sec)?;
    finite("rates stdev", rates.stdev_requests_per_sec)
}

fn check_distribution(name: &str, distribution: &Distribution) -> Result<(), Contradiction> {
    finite(name, distribution.mean_ns)?;
    finite(name, distribution.stdev_ns)?;
    finite(name, distribution.within_stdev_percent)?;
    let (Some(min_ns), Some(max_ns)) = (distribution.min_ns, distribution.max_ns) else {
        return equal(
            name,
            u128::from(distribution.count),
            "samples without extremes",
            0,
        );
    };
    let mut lowest_ns = min_ns;
    for percentile in &distribution.percentiles {
        if !(lowest_ns..=max_ns).contains(&percentile.value_ns) {
            let (percent, value_ns) = (percentile.percent, percentile.value_ns);
            return Err(Contradiction(format!(
                "{name}: p{percent} is {value_ns}, not in {lowest_ns}..={max_ns}"
            )));
        }
        lowest_ns = percentile.value_ns;
    }
    let mean_ns = distribution.mean_ns.unwrap_or(0.0);
    // One part in 10^12 for the rounding of the division.
    if mean_ns < min_ns as f64 * (1.0 - 1e-12) || mean_ns > max_ns as f64 * (1.0 + 1e-12) {
        return Err(Contradiction(format!(
            "{name}: mean {mean_ns} is not in {min_ns}..={max_ns}"
        )));
    }
    Ok(())
}

pub(crate) fn equal(
    left_name: &str,
    left: u128,
    right_name: &str,
    right: u128,
) -> Result<(), Contradiction> {
    if left == right {
        Ok(())
    } else {
        Err(Contradiction(format!(
            "{left_name} is {left}, but {right_name} is {right}"
        )))
    }
}

fn finite(name: &str, value: Option<f64>) -> Result<(), Contradiction> {
    match value {
        Some(value) if !value.is_finite() => {
            Err(Contradiction(format!("{name} has the value {value}")))
        }
        _ => Ok(()),
    }
}
