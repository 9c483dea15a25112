//! The warnings about a run, with the numbers that show them.

use serde::{Deserialize, Serialize};

/// Why a number of a result may be wrong, with the numbers that show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Warning {
    /// No request was answered, so there is no latency at all.
    NothingAnswered {
        /// Requests sent in the window.
        sent: u64,
    },
    /// No response was a success, and some had a status above 399: the run measured error pages.
    OnlyBadStatuses {
        /// Responses to requests of the window.
        answered: u64,
        /// Their status codes, the most frequent one first.
        #[serde(default)]
        statuses: Vec<u16>,
    },
    /// Every response was a redirect: the run measured a server that points elsewhere.
    OnlyRedirects {
        /// Responses to requests of the window.
        answered: u64,
        /// Their status codes, the most frequent one first.
        statuses: Vec<u16>,
        /// Where the first redirect points to: its Location, as the server wrote it.
        #[serde(skip_serializing_if = "Option::is_none")]
        location: Option<String>,
    },
    /// The run was interrupted before the first response of the window, so nothing was measured.
    InterruptedEarly {
        /// Requests sent in the window.
        sent: u64,
        /// Whether the run was still in the warm-up.
        in_warmup: bool,
    },
    /// Too few samples for the 99th percentile.
    FewSamples {
        /// Number of samples of the latency.
        samples: u64,
        /// Number of samples that would be enough.
        needed: u64,
    },
    /// The server allows fewer streams on a connection than the plan has.
    StreamsLimited {
        /// Streams that it allows.
        limit: u32,
        /// Streams of the plan.
        wanted: u32,
    },
    /// With HTTP/3: the receive buffers of sockets were full, so that datagrams were dropped. They
    /// were too few to limit the load.
    DatagramsDropped {
        /// Datagrams that were dropped.
        dropped: u64,
        /// All datagrams that arrived.
        arrived: u64,
    },
    /// Responses were split into events, but had none.
    NoEvents {
        /// Complete responses with a status of 2xx.
        streams: u64,
    },
    /// Streams were compressed, so that their events were not read.
    CompressedStreams {
        /// How many of `streams` were compressed.
        compressed: u64,
        /// Complete responses with a status of 2xx.
        streams: u64,
    },
    /// No response of a language model had a token.
    NoTokens {
        /// Complete responses with a status of 2xx.
        streams: u64,
        /// Events in them that were not JSON.
        malformed_events: u64,
    },
    /// Responses of a language model had no token, though others had some.
    WithoutTokens {
        /// How many of `streams` had none.
        without: u64,
        /// Complete responses with a status of 2xx.
        streams: u64,
    },
    /// Responses of a language model ended without the end that their format has.
    CutOffStreams {
        /// How many of `streams` were cut off.
        cut_off: u64,
        /// Complete responses with a status of 2xx.
        streams: u64,
    },
    /// Responses of a language model ended before the limit of tokens that was asked for, so their
    /// lengths are those of its answers.
    FewerTokens {
        /// How many of `responses` ended for another reason than the limit.
        early: u64,
        /// Complete responses whose server has said why they ended.
        responses: u64,
        /// The limit, or the distribution of limits, as typed.
        output_tokens: String,
        /// Whether the server was told to go on; `None` if it cannot be told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ignore_eos: Option<bool>,
    },
    /// Streaming responses ended without their end marker.
    UnfinishedStreams {
        /// How many of `streams` ended without it.
        unfinished: u64,
        /// Complete responses with a status of 2xx.
        streams: u64,
        /// The end marker that was expected.
        end_marker: String,
    },
    /// Streams that had not ended had been without an event for much longer than between any two
    /// events, which the times between events do not show.
    SilentStreams {
        /// Streams that were silent for so long.
        streams: u64,
        /// How long ago the last event of one of them had come, milliseconds.
        longest_ms: u64,
        /// The longest time between two events of a stream, milliseconds.
        largest_gap_ms: u64,
    },
    /// Fewer connections were ever established than asked for. Those of lost agents do not count.
    ConnectionsMissing {
        /// Connections that were established.
        opened: u64,
        /// Connections that the plan asks for.
        wanted: u64,
        /// The limit of connections per second that kept them from being opened.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connect_rate_per_sec: Option<u32>,
    },
    /// The limit of open files stopped connections.
    FileLimit {
        /// How often a connection failed for this reason.
        events: u64,
    },
    /// No local port was free for connections.
    AddressesExhausted {
        /// How often a connection failed for this reason.
        events: u64,
    },
    /// The server often closes connections that are about to be used again.
    ManyStaleConnections {
        /// How often a request met such a connection.
        events: u64,
        /// Responses to requests of the window.
        answered: u64,
    },
    /// The server ended connections after at most a few responses, so that much of the load was
    /// connecting.
    ManyReconnects {
        /// Connections that were opened again without an error.
        reconnects: u64,
        /// Responses within the window.
        answered: u64,
        /// Length of the window, milliseconds.
        window_ms: u64,
    },
    /// Latency includes requests that timed out, with their age at the timeout.
    TimedOutRequests {
        /// Requests that timed out.
        requests: u64,
        /// The timeout of the plan, milliseconds.
        timeout_ms: u64,
    },
    /// At the end of the window requests were older than the timeout that should have ended them.
    OverdueInFlight {
        /// Requests in flight at the end.
        requests: u64,
        /// Age of the oldest, milliseconds.
        oldest_ms: u64,
        /// The timeout of the plan, milliseconds.
        timeout_ms: u64,
    },
    /// At the end of the window requests had waited much longer than any finished one, so latency
    /// looks better than it was.
    LongInFlight {
        /// Requests in flight at the end.
        requests: u64,
        /// Age of the oldest, milliseconds.
        oldest_ms: u64,
        /// The slowest finished request, milliseconds.
        slowest_ms: u64,
    },
    /// Many requests were in flight at the end, compared with the responses, and the window was not
    /// drained: what is known is about the shorter responses.
    Outlasted {
        /// Requests in flight at the end.
        in_flight: u64,
        /// Requests of the window that were answered.
        answered: u64,
    },
    /// Fewer requests were sent than asked for (`-n`): the run gave up because no response came.
    GaveUp {
        /// Requests sent in the window.
        sent: u64,
        /// Requests that the plan asks for.
        wanted: u64,
        /// It gave up because every connection was refused in a way that another attempt does not
        /// change, such as a wrong password for the proxy.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_refused: bool,
    },
    /// With a rate: response times include pauses between attempts to connect.
    PausedBeforeReconnect {
        /// Requests that were delayed by such a pause.
        requests: u64,
        /// The longest part of a response time that was such a pause, microseconds.
        longest_us: u64,
    },
    /// With a rate: requests that were due were not sent before the end of the window, since no
    /// connection was free.
    RateNotReached {
        /// Requests due in the window.
        due: u64,
        /// Those that were not sent for this reason.
        unsent: u64,
        /// The limit of connections per second that kept more from being opened.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connect_rate_per_sec: Option<u32>,
    },
    /// Few or no responses arrived at times, although requests were waiting or due, as far as the
    /// load generator ran.
    ServerStalled {
        /// Start and end of these times, milliseconds since the start of the window.
        times_ms: Vec<(u64, u64)>,
    },
    /// The warm-up was to last until the server has settled, and ended at its limit before that was
    /// known.
    WarmupLimit {
        /// The length of the warm-up (`--warmup-limit`), milliseconds.
        limit_ms: u64,
        /// Whether there were enough responses to know that the server had not settled.
        is_known: bool,
    },
    /// The rate was lower at first than in the rest of the window, which has settled: the window
    /// began within a warm-up.
    SlowAtFirst(SlowStart),
    /// The rate was lower for more than half of the window: it may not have settled at the end.
    NotSettled(SlowStart),
    /// With a rate: requests were sent late because they had to wait for a free connection.
    WaitedForConnection {
        /// A percentile of the time that requests waited, 0..=100.
        percent: u32,
        /// The value of that percentile, milliseconds.
        waited_ms: u64,
        /// The limit of connections per second that kept more from being opened.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connect_rate_per_sec: Option<u32>,
    },
    /// With a rate: the number of requests in flight kept growing, so the run had no steady state.
    RateNotSustained {
        /// Requests due in the window.
        due: u64,
        /// Those that were answered.
        answered: u64,
        /// Those that were in flight at the end.
        in_flight: u64,
    },
    /// In a closed loop, most responses in the window were to requests of the warm-up, so that slow
    /// responses are missing from the latency; or all of them were, so that there is none.
    AnswersOfWarmup {
        /// Responses to requests of the warm-up.
        of_warmup: u64,
        /// Responses to requests of the window.
        answered: u64,
    },
    /// With a rate: the number of requests due is not the one that the plan asks for.
    InconsistentSchedule {
        /// Requests due in the window.
        due: u64,
        /// Requests due according to the plan.
        expected: u64,
    },
    /// Little's law does not hold: the number of requests in flight, counted over time, differs
    /// from the sum of the latencies, or from the number expected of connections that always wait
    /// for a response.
    InconsistentConcurrency {
        /// Counted over time, request-nanoseconds.
        in_flight_time_ns: u64,
        /// The least that is expected, request-nanoseconds.
        least_ns: u64,
        /// The most that is expected, request-nanoseconds.
        most_ns: u64,
        /// Length of the window, nanoseconds.
        duration_ns: u64,
    },
    /// A fleet lost agents during the run, so that its load was lighter than asked for, and what
    /// they measured is missing.
    Partial {
        /// Agents of the run.
        agents: u64,
        /// Those that were lost.
        lost: u64,
        /// The first of them.
        agent: String,
        /// When it was last heard of, milliseconds after the start of the window.
        after_ms: u64,
        /// Why it counts as lost.
        reason: String,
        /// The connections of all that were lost. Nobody else has opened them.
        #[serde(default)]
        connections: u64,
    },
    /// Agents of a fleet ended their load before the others. What they measured until then is part
    /// of the result.
    EndedEarly {
        /// Agents of the run.
        agents: u64,
        /// Those that ended early.
        early: u64,
        /// The first of them.
        agent: String,
        /// The length of its window, milliseconds.
        after_ms: u64,
        /// Why it ended, on one line.
        reason: String,
    },
    /// A worker's script did not return before the end of the run, so its numbers may be missing.
    ScriptStuck {
        /// Number of the worker, from 0.
        worker: u32,
        /// The agent of the worker, in a run by a fleet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
    },
}

/// A part at the beginning of the window in which the rate was lower, and the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowStart {
    /// Length of the first part, milliseconds.
    pub first_ms: u64,
    /// Responses within it.
    pub first_responses: u64,
    /// Length of the rest, milliseconds.
    pub rest_ms: u64,
    /// Responses within the rest.
    pub rest_responses: u64,
    /// With a rate: requests due within the first part. The rest then has responses to some of
    /// these, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_due: Option<u64>,
    /// Length of the warm-up before the window, milliseconds.
    pub warmup_ms: u64,
}

impl SlowStart {
    /// By what share the rate of the first part was lower than that of the rest, or with a rate
    /// than the lower one of both, 0 to 1.
    #[must_use]
    pub fn slower_by(&self) -> f64 {
        let first_ms = self.first_ms as f64;
        let usual = self.rest_responses as f64 / self.rest_ms.max(1) as f64 * first_ms;
        let usual = self.first_due.map_or(usual, |due| usual.min(due as f64));
        if usual > 0.0 {
            (1.0 - self.first_responses as f64 / usual).max(0.0)
        } else {
            0.0
        }
    }

    /// Responses per second of the rest.
    #[must_use]
    pub fn rest_per_sec(&self) -> f64 {
        self.rest_responses as f64 * 1e3 / self.rest_ms.max(1) as f64
    }

    /// The warm-up that would have left out the first part, in whole seconds.
    #[must_use]
    pub fn warmup_needed_s(&self) -> u64 {
        self.warmup_ms.saturating_add(self.first_ms).div_ceil(1_000)
    }
}

impl Warning {
    /// The beginning of the window that was slower than the rest.
    #[must_use]
    pub fn slow_start(&self) -> Option<&SlowStart> {
        match self {
            Self::SlowAtFirst(start) | Self::NotSettled(start) => Some(start),
            _ => None,
        }
    }

    /// Whether the run did not measure what was intended. Such a warning comes first in a report.
    #[must_use]
    pub fn is_headline(&self) -> bool {
        matches!(
            self,
            Self::NothingAnswered { .. }
                | Self::OnlyBadStatuses { .. }
                | Self::OnlyRedirects { .. }
                | Self::InterruptedEarly { .. }
        ) || self.is_partial()
    }

    /// Whether a part of the load that was planned for a fleet is missing.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        matches!(self, Self::Partial { .. } | Self::EndedEarly { .. })
    }
}
