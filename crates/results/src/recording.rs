//! What one worker records, and how recordings become one.

use serde::{Deserialize, Serialize};

use crate::{Counters, Errors, Histogram, Intervals, Lags, Rates, Series, Statuses};

/// Parts of a request's way, each with its own samples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Phases {
    /// From the call of `connect` to the established TCP (or Unix) connection; one sample for each
    /// connection.
    pub connect: Histogram,
    /// From the established connection to the finished TLS handshake; one sample for each.
    pub tls: Histogram,
    /// From the sending of a request to the first byte of its answer; one sample for each answer.
    pub first_byte: Histogram,
    /// From the first byte of an answer to its last; one sample for each answer.
    pub last_byte: Histogram,
}

impl Phases {
    /// Adds the samples of another worker.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            connect,
            tls,
            first_byte,
            last_byte,
        } = other;
        self.connect.merge(connect);
        self.tls.merge(tls);
        self.first_byte.merge(first_byte);
        self.last_byte.merge(last_byte);
    }
}

/// Everything that is counted and timed. A worker owns one, unshared while it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recording {
    /// Requests, bytes and connections.
    pub counters: Counters,
    /// Answers by status code; their sum is `counters.answered`.
    pub statuses: Statuses,
    /// Location of the first response that was a redirect, warm-up included, as the server wrote
    /// it; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_location: Option<String>,
    /// Failures by kind.
    pub errors: Errors,
    /// From the sending of a request to the last byte of its answer, nanoseconds. One sample for
    /// each answer, whatever its status: its count is `counters.answered`.
    pub service_time: Histogram,
    /// Age, at the moment of giving up, of each request that ended in
    /// [`crate::ErrorKind::Timeout`], nanoseconds: a lower bound of what its service time would
    /// have been. Apart from `service_time`, so that measured and cut-off samples can be told from
    /// each other; [`Recording::latency`] has both.
    pub timed_out: Histogram,
    /// With a rate: from the moment a request was due to the last byte of its answer, nanoseconds.
    /// One sample for each sample of `service_time`. Empty in a closed loop.
    #[serde(default)]
    pub response_time: Histogram,
    /// With a rate: age, counted from the moment it was due, of each request that had no answer:
    /// when it was given up as timed out, or at the end of the window, sent or not. A lower bound
    /// of its response time. Empty in a closed loop.
    #[serde(default)]
    pub unanswered: Histogram,
    /// Where the time went.
    pub phases: Phases,
    /// Requests per second of each worker, per interval.
    pub rates: Rates,
    /// Totals over time.
    pub series: Series,
    /// Latency over time: of each interval the samples of answers that came in it, response times
    /// with a rate and service times in a closed loop.
    #[serde(default)]
    pub intervals: Intervals,
    /// How late the generator itself was.
    #[serde(default)]
    pub lags: Lags,
}

impl Recording {
    /// An empty recording.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds another recording: of another worker, or of another machine.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            counters,
            statuses,
            redirect_location,
            errors,
            service_time,
            timed_out,
            response_time,
            unanswered,
            phases,
            rates,
            series,
            intervals,
            lags,
        } = other;
        self.counters.merge(counters);
        self.statuses.merge(statuses);
        if self.redirect_location.is_none() {
            self.redirect_location.clone_from(redirect_location);
        }
        self.errors.merge(errors);
        self.service_time.merge(service_time);
        self.timed_out.merge(timed_out);
        self.response_time.merge(response_time);
        self.unanswered.merge(unanswered);
        self.phases.merge(phases);
        self.rates.merge(rates);
        self.series.merge(series);
        self.intervals.merge(intervals);
        self.lags.merge(lags);
    }

    /// The latency that reports and scripts show. With a rate: the response time of every answered
    /// request, and the age of every unanswered one. In a closed loop: [`Self::uncorrected`].
    #[must_use]
    pub fn latency(&self) -> Histogram {
        if self.counters.due == 0 {
            return self.uncorrected();
        }
        let mut latency = self.response_time.clone();
        latency.merge(&self.unanswered);
        latency
    }

    /// The service time of every answered request, and of each timed-out request the age at which
    /// it was given up. Leaving those out would make a server look better the more of its answers
    /// come too late. With a rate it is what wrk2 calls the uncorrected latency.
    #[must_use]
    pub fn uncorrected(&self) -> Histogram {
        let mut latency = self.service_time.clone();
        latency.merge(&self.timed_out);
        latency
    }
}
