//! What one worker records, and how recordings become one.

use serde::{Deserialize, Serialize};

use crate::{Counters, Errors, Histogram, Rates, Series, Statuses};

/// Parts of a request's way, each with its own samples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct Recording {
    /// Requests, bytes and connections.
    pub counters: Counters,
    /// Answers by status code; their sum is `counters.answered`.
    pub statuses: Statuses,
    /// Failures by kind.
    pub errors: Errors,
    /// From the sending of a request to the last byte of its answer, nanoseconds. One sample for
    /// each answer, whatever its status: its count is `counters.answered`.
    pub service_time: Histogram,
    /// Age, at the moment of giving up, of each request that ended in [`crate::ErrorKind::Timeout`],
    /// nanoseconds: a lower bound of what its service time would have been. Apart from
    /// `service_time`, so that measured and cut-off samples can be told from each other;
    /// [`Recording::latency`] has both.
    pub timed_out: Histogram,
    /// Where the time went.
    pub phases: Phases,
    /// Requests per second of each worker, per interval.
    pub rates: Rates,
    /// Totals over time.
    pub series: Series,
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
            errors,
            service_time,
            timed_out,
            phases,
            rates,
            series,
        } = other;
        self.counters.merge(counters);
        self.statuses.merge(statuses);
        self.errors.merge(errors);
        self.service_time.merge(service_time);
        self.timed_out.merge(timed_out);
        self.phases.merge(phases);
        self.rates.merge(rates);
        self.series.merge(series);
    }

    /// The latency that reports and scripts show: the service time of every answered request, and
    /// of each timed-out request the age at which it was given up. Leaving those out would make a
    /// server look better the more of its answers come too late.
    #[must_use]
    pub fn latency(&self) -> Histogram {
        let mut latency = self.service_time.clone();
        latency.merge(&self.timed_out);
        latency
    }
}
