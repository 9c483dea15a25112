//! How far a run is from the limit of a condition, and on how many requests that rests.

use results::{Histogram, RunResult, metric};

use crate::Criterion;

/// How far a run is from the limit of a condition that is a requirement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RelativeToLimit {
    /// The share of requests beyond the limit divided by the allowed share: `p99<50ms` allows 1 %
    /// at 50 ms or more. Metric / limit if the condition is not about a share. Above 1 the
    /// requirement is not met; infinite if it cannot be said by how much.
    pub relative: f64,
    /// Number of requests that the value rests on.
    pub requests: u64,
}

/// The share of requests that is allowed to be beyond a latency.
#[derive(Debug, Clone, Copy)]
struct ShareLimit {
    latency_ns: u64,
    /// The allowed share, 0 to 1.
    share: f64,
}

/// A run is hopeless if it has this many times as many requests beyond the limit as the condition
/// allows. With a smaller factor, runs would be cut whose share is still of use to the fit.
const HOPELESS_RATIO: f64 = 10.0;

impl Criterion {
    /// How far a run is from the limit, with the condition as a requirement.
    ///
    /// For a percentile of the latency, failed requests count as beyond every limit, whether they
    /// timed out or not. A request in flight at the end of the window counts as beyond the limit if
    /// it is older, and is left out otherwise, because its latency is not known. A run in which no
    /// request succeeded meets no requirement.
    #[must_use]
    pub fn relative_to_limit(&self, result: &RunResult) -> RelativeToLimit {
        let answered = result.recording.counters.answered;
        if answered > 0 && !result.has_success() {
            return RelativeToLimit {
                relative: f64::INFINITY,
                requests: answered,
            };
        }
        let shares = self
            .share_beyond(result)
            .or_else(|| self.counted_share(result));
        shares.unwrap_or_else(|| RelativeToLimit {
            relative: self.excess(result).exp(),
            requests: answered,
        })
    }

    /// Whether the condition is about requests that an error ended.
    #[must_use]
    pub fn is_about_failures(&self) -> bool {
        let name = self.metric().name.as_str();
        matches!(name, metric::FAILED | "unanswered") || name.starts_with("error")
    }

    /// Whether the condition is about the status of responses.
    #[must_use]
    pub fn is_about_statuses(&self) -> bool {
        let name = self.metric().name.as_str();
        name == metric::FAILED || name.starts_with("status")
    }

    /// Whether an unfinished run of `planned` requests is certain to miss the requirement by far,
    /// even if all remaining requests are fast. `so_far` is its latency. Always `false` unless the
    /// condition limits a percentile of the latency of all requests.
    #[must_use]
    pub fn is_hopeless(&self, so_far: &Histogram, planned: f64) -> bool {
        let limit = self.share_limit().filter(|_| self.request().is_none());
        limit.is_some_and(|limit| {
            let above = beyond(so_far, limit.latency_ns) as f64;
            above > HOPELESS_RATIO * limit.share * planned
        })
    }

    /// The allowed share, if the condition is an upper limit on a percentile of the latency.
    fn share_limit(&self) -> Option<ShareLimit> {
        let (of, percent) = metric::percentile_of(&self.metric().name)?;
        let latency_us = self.latency_limit_us()?;
        let is_known = of == "latency" && percent < 100.0 && self.is_upper_limit();
        is_known.then_some(ShareLimit {
            latency_ns: (latency_us * 1e3) as u64,
            share: 1.0 - percent / 100.0,
        })
    }

    fn share_beyond(&self, result: &RunResult) -> Option<RelativeToLimit> {
        let ShareLimit {
            latency_ns: limit_ns,
            share,
        } = self.share_limit()?;
        let named = match self.request() {
            Some(name) => Some(result.of_name(name)?),
            None => None,
        };
        let recording = &named.as_ref().unwrap_or(result).recording;
        let samples = recording.latency_samples();
        let (known, unanswered) = samples.parts();
        let failed = recording.errors.failures();
        // Requests that timed out have an age, too, and count as failed already.
        let timeout_ns = result.plan.timeout.as_nanos();
        let timed_out = if timeout_ns > u128::from(limit_ns) {
            recording.timed_out.count()
        } else {
            0
        };
        let in_flight = beyond(unanswered, limit_ns).saturating_sub(timed_out);
        let in_flight = if recording.counters.due == 0 {
            0
        } else {
            in_flight
        };
        let above = beyond(known, limit_ns) + failed + in_flight;
        let all = known.count() + failed + in_flight;
        (all > 0).then(|| RelativeToLimit {
            relative: above as f64 / all as f64 / share,
            requests: all,
        })
    }
}

/// The samples above a limit, to the width of a bucket.
fn beyond(histogram: &Histogram, limit_ns: u64) -> u64 {
    let above = histogram
        .distinct()
        .filter(|(value_ns, _)| *value_ns > limit_ns);
    above.map(|(_, count)| count).sum()
}
