//! What a worker counts and times, and how recordings are merged.

use serde::{Deserialize, Serialize};

use crate::{
    Attribution, Counters, Errors, EventRecording, GoodRecording, Histogram, Intervals, Lags,
    PartRecordings, Rates, Samples, Series, Statuses,
};

/// Durations of the phases of connections and requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Phases {
    /// From calling `connect` to the established TCP (or Unix) connection; one sample per
    /// connection.
    pub connect: Histogram,
    /// With a proxy: from the established connection until the proxy passes on what is sent: TLS
    /// with the proxy, and the tunnel that it is asked for. One sample per connection. Empty if
    /// there is neither.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub proxy: Histogram,
    /// From the established connection, or from the end of the phase `proxy`, to the finished TLS
    /// handshake with the target; one sample per handshake.
    pub tls: Histogram,
    /// From sending a request to the first byte of its response; one sample per response.
    pub first_byte: Histogram,
    /// From the first byte of a response to its last; one sample per response.
    pub last_byte: Histogram,
}

impl Phases {
    /// Adds the samples of another worker.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            connect,
            proxy,
            tls,
            first_byte,
            last_byte,
        } = other;
        self.connect.merge(connect);
        self.proxy.merge(proxy);
        self.tls.merge(tls);
        self.first_byte.merge(first_byte);
        self.last_byte.merge(last_byte);
    }
}

/// Everything that is counted and timed in a run. Each worker has its own and does not share it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recording {
    /// Requests, bytes and connections.
    pub counters: Counters,
    /// Responses by status code; their sum is `counters.answered`.
    pub statuses: Statuses,
    /// The `Location` header of the first redirect, warm-up included, as the server sent it; `None`
    /// without a redirect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_location: Option<String>,
    /// HTTP/2: how many streams the server allows on a connection, if that is fewer than the plan
    /// has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams_limit: Option<u32>,
    /// How often each kind of error happened, and how many requests it ended.
    pub errors: Errors,
    /// From sending a request to the last byte of its response, nanoseconds. One sample per
    /// response, whatever its status, or one per batch if batches are timed as a whole.
    pub service_time: Histogram,
    /// Age of each request that ended in [`crate::ErrorKind::Timeout`] when it was given up,
    /// nanoseconds: a lower bound of its service time. These samples are not in `service_time`, so
    /// that measured samples can be told from lower bounds; [`Recording::uncorrected`] has both.
    pub timed_out: Histogram,
    /// With a rate: from when a request was due to the last byte of its response, nanoseconds. One
    /// sample per sample of `service_time`. Empty in a closed loop.
    #[serde(default)]
    pub response_time: Histogram,
    /// With a rate: age of each request without a response, counted from when it was due to its
    /// timeout or to the end of the window, whether it was sent or not. A lower bound of its
    /// response time. Empty in a closed loop.
    #[serde(default)]
    pub unanswered: Histogram,
    /// Durations of the phases of connections and requests.
    pub phases: Phases,
    /// Requests per second of each worker, per interval.
    pub rates: Rates,
    /// Responses, errors and bytes over time.
    pub series: Series,
    /// Latency over time: for each interval, the samples of the responses received in it. They are
    /// response times with a rate and service times in a closed loop.
    #[serde(default)]
    pub intervals: Intervals,
    /// Delays in the load generator.
    #[serde(default)]
    pub lags: Lags,
    /// How much of the latency the load generator caused itself.
    #[serde(default, skip_serializing_if = "Attribution::is_empty")]
    pub attribution: Attribution,
    /// What optional measurements have recorded.
    #[serde(flatten)]
    pub parts: PartRecordings,
}

impl Recording {
    /// A recording in which nothing is counted yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the recording of another worker or of another machine.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            counters,
            statuses,
            redirect_location,
            streams_limit,
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
            attribution,
            parts,
        } = other;
        self.counters.merge(counters);
        self.statuses.merge(statuses);
        if self.redirect_location.is_none() {
            self.redirect_location.clone_from(redirect_location);
        }
        self.streams_limit = self.streams_limit.max(*streams_limit);
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
        self.attribution.merge(attribution);
        self.parts.merge(parts);
    }

    /// Which requests were good, if they are judged: without the streams that were cut off
    /// ([`EventRecording::cut_off`]), which only the whole run shows.
    #[must_use]
    pub fn good_requests(&self) -> Option<GoodRecording> {
        let cut_off = self
            .parts
            .events
            .as_ref()
            .map_or(0, EventRecording::cut_off);
        let good = self.parts.good?;
        Some(if cut_off > 0 {
            good.with_cut_off()
        } else {
            good
        })
    }

    /// Joins the series and the intervals into one row each. No total changes.
    pub(crate) fn forget_time(&mut self) {
        self.series.join_all();
        self.intervals.join_all();
        if let Some(llm) = &mut self.parts.llm {
            llm.first_token_over_time.join_all();
        }
    }

    /// Packs all of its histograms ([`Histogram::pack`]).
    pub(crate) fn pack(&mut self) {
        let Self {
            service_time,
            timed_out,
            response_time,
            unanswered,
            phases,
            lags,
            attribution,
            parts,
            ..
        } = self;
        let Phases {
            connect,
            proxy,
            tls,
            first_byte,
            last_byte,
        } = phases;
        let Lags {
            send,
            own,
            reconnect,
            wakeup,
            receive,
        } = lags;
        let times = [service_time, timed_out, response_time, unanswered];
        let phases = [connect, proxy, tls, first_byte, last_byte];
        let lags = [send, own, reconnect, wakeup, receive];
        let attribution = [
            &mut attribution.shown,
            &mut attribution.corrected,
            &mut attribution.service_shown,
            &mut attribution.service_corrected,
        ];
        parts.pack();
        times
            .into_iter()
            .chain(phases)
            .chain(lags)
            .chain(attribution)
            .for_each(Histogram::pack);
    }

    /// The latency that reports and scripts show. With a rate: the response time of every answered
    /// request, and the age of every unanswered one. In a closed loop: [`Self::uncorrected`].
    #[must_use]
    pub fn latency(&self) -> Histogram {
        self.latency_samples().all().clone()
    }

    /// [`Self::latency`] with its two parts: samples of answered requests, and ages of unanswered
    /// ones.
    #[must_use]
    pub fn latency_samples(&self) -> Samples<'_> {
        match self.counters.due {
            0 => Samples::new(&self.service_time, &self.timed_out),
            _ => Samples::new(&self.response_time, &self.unanswered),
        }
    }

    /// The service time of every answered request, and the age of every timed-out request when it
    /// was given up. Without the latter, a server would look better the more of its responses come
    /// too late. With a rate, this is what wrk2 calls the uncorrected latency.
    #[must_use]
    pub fn uncorrected(&self) -> Histogram {
        let mut latency = self.service_time.clone();
        latency.merge(&self.timed_out);
        latency
    }
}
