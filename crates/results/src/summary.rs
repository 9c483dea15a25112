//! The figures of a report and their formulas: mean, standard deviation, percentiles, rates.

use std::ops::RangeInclusive;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::{
    AchievedRate, EventRecording, Histogram, Lags, LatencyParts, Legacy, LlmRecording,
    NameRecording, Phases, Rates, Recording, RunResult, Samples,
};

/// Figures computed from a [`RunResult`]. They are saved with it for readers that do not decode
/// histograms, and ignored when the result is read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// Responses per second of the window, all workers together.
    pub requests_per_sec: f64,
    /// Bytes of responses per second of the window.
    pub bytes_per_sec: f64,
    /// With a rate: the rate asked for and the rate achieved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub achieved_rate: Option<AchievedRate>,
    /// Mean number of requests in flight over the window; `None` if the window has no length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_in_flight: Option<f64>,
    /// The latency that reports show: [`Recording::latency`]. With a rate, it is counted from when
    /// a request was due, otherwise from when it was sent.
    pub latency: Distribution,
    /// The percentiles of `latency` in the parts of the server, the wait for a connection and the
    /// load generator; absent if the load generator delayed no request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latency_parts: Vec<LatencyParts>,
    /// The time since a request was sent: [`Recording::uncorrected`]. Without a rate, the same as
    /// `latency`.
    pub service_time: Distribution,
    /// Durations of the phases of connections and requests.
    pub phases: PhaseSummaries,
    /// Delays in the load generator.
    pub lags: LagSummaries,
    /// Requests per second of each worker, per interval.
    pub rates: RateSummary,
    /// [`crate::Errors::failures`]: requests that failed, and errors that ended no request.
    pub errors: u64,
    /// Error events in wrk's four counters.
    pub socket_errors: SocketErrors,
    /// Responses with a status above 399.
    pub statuses_over_399: u64,
    /// Requests that ended in an error.
    pub failed: u64,
    /// Figures of each name, if requests have names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_name: Vec<NameSummary>,
    /// Figures of each address, if requests are counted by address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_address: Vec<NameSummary>,
    /// Figures of the events, if responses are split into events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<EventSummary>,
    /// Figures of the tokens, if the events are a language model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm: Option<LlmSummary>,
}

/// Figures of the events of streaming responses.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventSummary {
    /// Events per second of the window, of all responses together.
    pub events_per_sec: f64,
    /// Mean number of events of a complete response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_response_mean: Option<f64>,
    /// Smallest number of events of a complete response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_response_min: Option<u64>,
    /// Largest number of events of a complete response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_response_max: Option<u64>,
    /// Complete responses with a status of 2xx.
    pub streams: u64,
    /// Those of `streams` that ended without the end marker; 0 if the run had none at all, unless
    /// it was given.
    pub unfinished: u64,
    /// [`EventRecording::first_event`] with the lower bounds of [`EventRecording::waiting`].
    pub first_event: Distribution,
    /// [`EventRecording::gap`]: from one event of a response to the next.
    pub gap: Distribution,
    /// [`EventRecording::since_last_event`]: how long streams that had not ended had been silent.
    pub time_since_last_event: Distribution,
}

/// Figures of the tokens of language models.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LlmSummary {
    /// Generated tokens per second of the window, of all responses together.
    pub output_tokens_per_sec: f64,
    /// Tokens of prompts per second of the window, of all responses together.
    pub input_tokens_per_sec: f64,
    /// Mean number of generated tokens of a complete response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_per_response_mean: Option<f64>,
    /// Mean number of tokens of the prompt of a complete response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_per_response_mean: Option<f64>,
    /// [`LlmRecording::first_token`] with the lower bounds of [`LlmRecording::waiting`].
    pub first_token: Distribution,
    /// [`LlmRecording::first_text`]: until the first visible text.
    pub first_text: Distribution,
    /// [`LlmRecording::token_gap`]: from one event with tokens to the next.
    pub token_gap: Distribution,
    /// [`LlmRecording::time_per_token`] of each response.
    pub time_per_token: Distribution,
}

/// Figures of the requests with one name, or to one address.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NameSummary {
    /// The name in the request file; of an address, the address with its port.
    pub name: String,
    /// Responses per second of the window.
    pub requests_per_sec: f64,
    /// With a rate, counted from when a request was due, otherwise from when it was sent. Requests
    /// without a response are in it with the time for which they had waited.
    pub latency: Distribution,
    /// Responses with a status above 399.
    pub statuses_over_399: u64,
    /// Requests that ended in an error.
    pub failed: u64,
}

/// The phases, each as a distribution.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PhaseSummaries {
    /// [`Phases::connect`]: until a connection is established.
    pub connect: Distribution,
    /// [`Phases::proxy`]; absent without samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Distribution>,
    /// [`Phases::tls`]: the TLS handshake with the target.
    pub tls: Distribution,
    /// [`Phases::first_byte`]: from sending to the first byte of the response.
    pub first_byte: Distribution,
    /// [`Phases::last_byte`]: from the first byte of a response to the last.
    pub last_byte: Distribution,
}

/// The lags, each as a distribution.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LagSummaries {
    /// [`Lags::send`]: from due to sent.
    pub send: Distribution,
    /// [`Lags::own`]: the part of `send` that the load generator caused.
    pub own: Distribution,
    /// [`Lags::wakeup`]: how late the event loop returned.
    pub wakeup: Distribution,
    /// [`Lags::receive`]: how long received bytes waited to be read.
    pub receive: Distribution,
}

/// Figures of a [`Histogram`]. Without samples, they are `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Distribution {
    /// Number of samples in the distribution.
    pub count: u64,
    /// Arithmetic mean of the samples, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_ns: Option<f64>,
    /// Sample standard deviation, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdev_ns: Option<f64>,
    /// Smallest of the samples, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ns: Option<u64>,
    /// Largest of the samples, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<u64>,
    /// Share of samples within one standard deviation of the mean, 0..=100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_stdev_percent: Option<f64>,
    /// Mean, percentiles and maximum in milliseconds, as `mean_ms`, `p99_ms`, `p99_9_ms` and
    /// `max_ms`.
    #[serde(flatten, serialize_with = "as_fields")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "std::collections::BTreeMap<String, f64>")
    )]
    pub in_ms: Vec<(String, f64)>,
    /// The percentiles, ascending; empty without samples.
    pub percentiles: Vec<Percentile>,
}

fn as_fields<S: Serializer>(fields: &[(String, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(fields.len()))?;
    for (name, value) in fields {
        map.serialize_entry(name, value)?;
    }
    map.end()
}

/// One percentile of a distribution, with what is known about it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Percentile {
    /// The percentile as a number, such as 99 or 99.9; 0..=100.
    pub percent: f64,
    /// Its value by [`Histogram::value_at_percentile`], nanoseconds.
    pub value_ns: u64,
    /// Whether at least ten samples lie above it, which makes it reliable. Always true for the
    /// maximum (100).
    pub enough_samples: bool,
    /// Whether only a lower bound is known: the value would differ in three digits if requests
    /// without a response took forever. The maximum (100) is one as soon as there is such a
    /// request.
    pub lower_bound: bool,
}

/// Figures of [`Rates`], which wrk calls Req/Sec.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RateSummary {
    /// Number of samples of all workers.
    pub count: u64,
    /// Arithmetic mean, requests per second per worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_requests_per_sec: Option<f64>,
    /// Sample standard deviation, requests per second per worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdev_requests_per_sec: Option<f64>,
    /// Smallest sample, requests per second per worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_requests_per_sec: Option<u64>,
    /// Largest sample, requests per second per worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_requests_per_sec: Option<u64>,
    /// Share of samples within one standard deviation of the mean, 0..=100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_stdev_percent: Option<f64>,
}

/// Error events by wrk's four counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SocketErrors {
    /// Events that count as [`Legacy::Connect`].
    pub connect: u64,
    /// Events that count as [`Legacy::Read`].
    pub read: u64,
    /// Events that count as [`Legacy::Write`].
    pub write: u64,
    /// Events that count as [`Legacy::Timeout`].
    pub timeout: u64,
}

impl Summary {
    /// The percentiles that every summary has.
    pub const PERCENTILES: [f64; 9] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 100.0];

    /// Computes the summary. `more_percentiles` (0..=100) are added to the standard ones of each
    /// distribution; those out of range are ignored.
    #[must_use]
    pub fn of(result: &RunResult, more_percentiles: &[f64]) -> Self {
        let recorded = &result.recording;
        let Recording { errors, parts, .. } = recorded;
        let duration_ns = result.window.duration_ns;
        let in_flight_ns = recorded.counters.in_flight_time_ns as f64;
        let percents = merged_percents(more_percentiles);
        let of = |samples: &Samples<'_>| Distribution::of(samples, &percents);
        let of_each = |named: &[NameRecording]| -> Vec<NameSummary> {
            let summary = |one| NameSummary::of(one, result, &percents);
            named.iter().map(summary).collect()
        };
        let (events, llm) = (parts.events.as_ref(), parts.llm.as_ref());
        Self {
            requests_per_sec: result.requests_per_sec(),
            bytes_per_sec: result.bytes_per_sec(),
            achieved_rate: AchievedRate::of(result),
            mean_in_flight: (duration_ns > 0).then(|| in_flight_ns / duration_ns as f64),
            latency: of(&recorded.latency_samples()),
            latency_parts: if recorded.attribution.shown.is_empty() {
                Vec::new()
            } else {
                recorded.latency_parts_at(&percents)
            },
            service_time: of(&Samples::new(&recorded.service_time, &recorded.timed_out)),
            phases: PhaseSummaries::of(&recorded.phases, &percents),
            lags: LagSummaries::of(&recorded.lags, &percents),
            rates: RateSummary::of(&recorded.rates),
            errors: errors.failures(),
            socket_errors: SocketErrors {
                connect: errors.legacy(Legacy::Connect),
                read: errors.legacy(Legacy::Read),
                write: errors.legacy(Legacy::Write),
                timeout: errors.legacy(Legacy::Timeout),
            },
            statuses_over_399: recorded.statuses.over_399(),
            failed: errors.exchanges(),
            by_name: of_each(&parts.by_name),
            by_address: of_each(&parts.by_address),
            events: events.map(|events| EventSummary::of(events, result, &percents)),
            llm: llm.map(|llm| LlmSummary::of(llm, result, &percents)),
        }
    }
}

impl PhaseSummaries {
    fn of(phases: &Phases, percents: &[f64]) -> Self {
        let Phases {
            connect,
            proxy,
            tls,
            first_byte,
            last_byte,
        } = phases;
        let of = |histogram| Distribution::of_measured(histogram, percents);
        Self {
            connect: of(connect),
            proxy: (!proxy.is_empty()).then(|| of(proxy)),
            tls: of(tls),
            first_byte: of(first_byte),
            last_byte: of(last_byte),
        }
    }
}

impl LagSummaries {
    fn of(lags: &Lags, percents: &[f64]) -> Self {
        let Lags {
            send,
            own,
            reconnect: _,
            wakeup,
            receive,
        } = lags;
        let of = |histogram| Distribution::of_measured(histogram, percents);
        Self {
            send: of(send),
            own: of(own),
            wakeup: of(wakeup),
            receive: of(receive),
        }
    }
}

impl NameSummary {
    fn of(named: &NameRecording, result: &RunResult, percents: &[f64]) -> Self {
        Self {
            name: named.name.clone(),
            requests_per_sec: result.per_sec(named.responses()),
            latency: Distribution::of(&Samples::new(&named.latency, &named.unanswered), percents),
            statuses_over_399: named.statuses.over_399(),
            failed: named.errors.exchanges(),
        }
    }
}

impl EventSummary {
    fn of(events: &EventRecording, result: &RunResult, percents: &[f64]) -> Self {
        let of = |histogram| Distribution::of_measured(histogram, percents);
        let first_event = Samples::new(&events.first_event, &events.waiting);
        Self {
            events_per_sec: result.per_sec(events.arrived),
            per_response_mean: events.per_response_mean(),
            per_response_min: events.per_response.min_ns(),
            per_response_max: events.per_response.max_ns(),
            streams: events.streams,
            unfinished: events.cut_off(),
            first_event: Distribution::of(&first_event, percents),
            gap: of(&events.gap),
            time_since_last_event: of(&events.since_last_event),
        }
    }
}

impl LlmSummary {
    fn of(llm: &LlmRecording, result: &RunResult, percents: &[f64]) -> Self {
        let of = |histogram| Distribution::of_measured(histogram, percents);
        let first_token = Samples::new(&llm.first_token, &llm.waiting);
        Self {
            output_tokens_per_sec: result.per_sec(llm.arrived_tokens()),
            input_tokens_per_sec: result.per_sec(llm.input_tokens),
            output_per_response_mean: llm.output_per_response_mean(),
            input_per_response_mean: llm.input_per_response_mean(),
            first_token: Distribution::of(&first_token, percents),
            first_text: of(&llm.first_text),
            token_gap: of(&llm.token_gap),
            time_per_token: of(&llm.time_per_token),
        }
    }
}

impl Distribution {
    /// Samples of which none is only a lower bound.
    fn of_measured(histogram: &Histogram, percents: &[f64]) -> Self {
        Self::of(&Samples::new(histogram, &Histogram::new()), percents)
    }

    /// Measured samples together with samples that are only lower bounds.
    pub(crate) fn of(samples: &Samples<'_>, percents: &[f64]) -> Self {
        let (histogram, (_, ages)) = (samples.all(), samples.parts());
        let some = !histogram.is_empty();
        let values_ns = histogram.values_at_percentiles(percents);
        let percentiles = percents
            .iter()
            .zip(values_ns)
            .filter_map(|(&percent, value_ns)| {
                let known = samples.percentile(percent)?;
                Some(Percentile {
                    percent,
                    value_ns,
                    enough_samples: known.enough_samples,
                    lower_bound: known.is_lower_bound || percent >= 100.0 && !ages.is_empty(),
                })
            });
        let percentiles: Vec<Percentile> = percentiles.collect();
        let ms = |ns: f64| ns / 1e6;
        let named = |name: &str, ns: f64| (name.to_owned(), ms(ns));
        let below_all = percentiles.iter().filter(|it| it.percent < 100.0);
        let below_all = below_all.map(|it| (name_in_ms(it.percent), ms(it.value_ns as f64)));
        let mean = some.then(|| named("mean_ms", histogram.mean_ns()));
        let max = histogram
            .max_ns()
            .map(|max_ns| named("max_ms", max_ns as f64));
        Self {
            in_ms: mean.into_iter().chain(below_all).chain(max).collect(),
            count: histogram.count(),
            mean_ns: some.then(|| histogram.mean_ns()),
            stdev_ns: some.then(|| histogram.stdev_ns()),
            min_ns: histogram.min_ns(),
            max_ns: histogram.max_ns(),
            within_stdev_percent: histogram.within_stdev_percent(),
            percentiles,
        }
    }
}

/// Such as `p99_9_ms`: a dot in a name would have to be quoted in many languages.
fn name_in_ms(percent: f64) -> String {
    format!("p{}_ms", percent.to_string().replace('.', "_"))
}

impl RateSummary {
    fn of(rates: &Rates) -> Self {
        let some = rates.count() > 0;
        Self {
            count: rates.count(),
            mean_requests_per_sec: some.then(|| rates.mean()),
            stdev_requests_per_sec: some.then(|| rates.stdev()),
            min_requests_per_sec: rates.min(),
            max_requests_per_sec: rates.max(),
            within_stdev_percent: rates.within_stdev_percent(),
        }
    }
}

/// The standard percentiles and `more`, ascending, without duplicates.
fn merged_percents(more: &[f64]) -> Vec<f64> {
    let wanted = more
        .iter()
        .copied()
        .filter(|percent| (0.0..=100.0).contains(percent));
    let mut percents: Vec<f64> = Summary::PERCENTILES.into_iter().chain(wanted).collect();
    percents.sort_by(f64::total_cmp);
    percents.dedup();
    percents
}

/// A percentile is reliable when at least this many samples lie above it.
pub const SAMPLES_ABOVE_MIN: u64 = 10;

/// Whether a percentile (0..=100) of `count` samples is reliable: [`SAMPLES_ABOVE_MIN`] must lie
/// above it. 99 needs 1000 samples, 99.9 needs 10,000. The maximum (100) is always exact.
#[must_use]
pub fn enough_samples(percent: f64, count: u64) -> bool {
    percent >= 100.0 || samples_above(percent, count) >= SAMPLES_ABOVE_MIN
}

/// Whether a percentile of a distribution is unreliable; never without samples.
#[must_use]
pub fn is_thin(percent: f64, samples: u64) -> bool {
    samples > 0 && !enough_samples(percent, samples)
}

/// How many of `count` samples lie above a percentile (0..=100).
#[must_use]
pub fn samples_above(percent: f64, count: u64) -> u64 {
    count - rank(percent, count)
}

/// Exact sums over samples, for the mean and the standard deviation. They are integers, so the
/// order of merging cannot change a result.
///
/// The sums saturate: 2^128 square nanoseconds are 10^13 samples of an hour and a half each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moments {
    pub(crate) count: u64,
    pub(crate) sum: u128,
    pub(crate) sum_of_squares: u128,
}

impl Moments {
    #[inline]
    pub(crate) fn add(&mut self, value: u64, count: u64) {
        let value = u128::from(value);
        let times = u128::from(count);
        self.count = self.count.saturating_add(count);
        self.sum = self.sum.saturating_add(value * times);
        // The square of a u64 fits into u128; times a count it may not.
        self.sum_of_squares = self
            .sum_of_squares
            .saturating_add((value * value).saturating_mul(times));
    }

    /// [`Self::add`] of a single sample: the path taken per request.
    #[inline]
    pub(crate) fn add_one(&mut self, value: u64) {
        let value = u128::from(value);
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.saturating_add(value);
        self.sum_of_squares = self.sum_of_squares.saturating_add(value * value);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.sum_of_squares = self.sum_of_squares.saturating_add(other.sum_of_squares);
    }

    /// Arithmetic mean; 0 without samples.
    pub(crate) fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum as f64 / self.count as f64
        }
    }

    /// Sample standard deviation: sqrt((n Σx² - (Σx)²) / (n (n - 1))); 0 if n < 2.
    pub(crate) fn stdev(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let n = self.count as f64;
        // The difference of two large, nearly equal numbers is computed in integers, or in floating
        // point if the products exceed 2^128.
        let scaled = match self.exact_spread() {
            Some(spread) => spread as f64,
            None => {
                let sum = self.sum as f64;
                (n * self.sum_of_squares as f64 - sum * sum).max(0.0)
            }
        };
        (scaled / n / (n - 1.0)).sqrt()
    }

    /// n Σx² - (Σx)².
    fn exact_spread(&self) -> Option<u128> {
        let squares = u128::from(self.count).checked_mul(self.sum_of_squares)?;
        squares.checked_sub(self.sum.checked_mul(self.sum)?)
    }

    /// One standard deviation around the mean, both ends included.
    pub(crate) fn window(&self) -> RangeInclusive<f64> {
        let (mean, stdev) = (self.mean(), self.stdev());
        mean - stdev..=mean + stdev
    }
}

/// The rank of a percentile among `count` samples in ascending order, by the nearest-rank
/// definition: ceil(percent / 100 * count), at least 1 and at most `count`.
///
/// A `percent` of NaN counts as 0.
pub(crate) fn rank(percent: f64, count: u64) -> u64 {
    let percent = if percent.is_nan() {
        0.0
    } else {
        percent.clamp(0.0, 100.0)
    };
    let exact = percent * count as f64 / 100.0;
    // 99.9 * 1000 / 100 is 999.0000000000001 in floating point. Without a tolerance, the rank would
    // be one too high for decimals that are not exact in binary.
    let rank = (exact - exact * 4.0 * f64::EPSILON).ceil() as u64;
    rank.clamp(1.min(count), count)
}

/// The first value whose cumulative count reaches `rank`.
pub(crate) fn value_at_rank(ascending: impl Iterator<Item = (u64, u64)>, rank: u64) -> Option<u64> {
    let mut cumulative = 0_u64;
    for (value, count) in ascending {
        cumulative = cumulative.saturating_add(count);
        if cumulative >= rank {
            return Some(value);
        }
    }
    None
}

/// `part` of `whole` in percent; `None` if `whole` is 0.
#[must_use]
pub fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_nearest_ranks_even_if_decimals_are_not_exact() {
        let cases = [
            (50.0, 10, 5),
            (50.0, 11, 6),
            (99.9, 1000, 999),
            (99.99, 10_000, 9_999),
            (99.9, 10_000, 9_990),
            (95.0, 20, 19),
            (0.0, 7, 1),
            (100.0, 7, 7),
            (1e9, 7, 7),
            (-3.0, 7, 1),
            (f64::NAN, 7, 1),
            (50.0, 0, 0),
        ];
        for (percent, count, expected) in cases {
            assert_eq!(rank(percent, count), expected, "p{percent} of {count}");
        }
    }

    #[test]
    fn a_small_spread_around_a_large_mean_is_not_lost() {
        let mut moments = Moments::default();
        for value in [1_000_000_000_000, 1_000_000_000_001, 1_000_000_000_002] {
            moments.add_one(value);
        }
        assert_eq!(moments.stdev(), 1.0);
    }

    #[test]
    fn the_largest_values_saturate_instead_of_overflowing() {
        let mut moments = Moments::default();
        moments.add(u64::MAX, u64::MAX);
        moments.add(u64::MAX, 5);
        moments.add_one(0);
        assert!(moments.mean().is_finite() && moments.stdev().is_finite());
    }
}
