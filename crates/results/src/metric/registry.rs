//! The metrics of a run: a row for each. All names, units and sentences about metrics come from
//! here.

use super::{Better, Needs, Unit};
use crate::{
    AchievedRate, Histogram, Legacy, QuicRecording, Recording, RunResult, Samples, SocketSummary,
};
use Better::{Higher, Lower, Neither};

/// A metric that is not one of a family.
#[derive(Debug)]
pub(super) struct Row {
    /// The stable name, such as `requests_per_sec`.
    pub(super) name: &'static str,
    /// Other names that are accepted for it.
    pub(super) aliases: &'static [&'static str],
    /// The name in sentences and headings.
    pub(super) label: &'static str,
    pub(super) unit: Unit,
    pub(super) better: Better,
    /// What a run without a value lacks.
    pub(super) needs: Needs,
    pub(super) value: Getter,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Getter {
    /// The plan sets it, so it cannot be judged.
    OfPlan(fn(&RunResult) -> Option<f64>),
    Number(fn(&RunResult) -> Option<f64>),
    /// A total per second of the window.
    PerSec(fn(&RunResult) -> Option<u64>),
    Count(fn(&RunResult) -> Option<u64>),
    /// A count, and the count that it is a part of.
    Part(fn(&RunResult) -> Option<u64>, fn(&RunResult) -> u64),
    /// The share that one count is of another one.
    Share(fn(&RunResult) -> Option<u64>, fn(&RunResult) -> u64),
}

const fn row(
    name: &'static str,
    aliases: &'static [&'static str],
    label: &'static str,
    (unit, better, needs): (Unit, Better, Needs),
    value: Getter,
) -> Row {
    Row {
        name,
        aliases,
        label,
        unit,
        better,
        needs,
        value,
    }
}

/// The whole that failures are a part of: all requests sent, and each event of an error that ended
/// no request.
pub(super) fn attempts(result: &RunResult) -> u64 {
    let errors = &result.recording.errors;
    let without_request = errors.failures().saturating_sub(errors.exchanges());
    let sent = result.recording.counters.sent;
    sent.saturating_add(without_request)
}

/// Errors and responses with a status above 399 together.
fn failed(result: &RunResult) -> u64 {
    let Recording {
        errors, statuses, ..
    } = &result.recording;
    let failed = errors.failures().saturating_add(statuses.over_399());
    failed.min(attempts(result))
}

fn responses(result: &RunResult) -> u64 {
    result.recording.counters.responses()
}

pub(super) fn answered(result: &RunResult) -> u64 {
    result.recording.counters.answered
}

fn wanted(result: &RunResult) -> u64 {
    let counters = &result.recording.counters;
    counters.sent.saturating_add(counters.unsent)
}

fn handshakes(result: &RunResult) -> Option<u64> {
    let counters = &result.recording.counters;
    let all = counters.tls_full.saturating_add(counters.tls_resumed);
    (all > 0).then_some(all)
}

fn quic(result: &RunResult) -> Option<&QuicRecording> {
    result.recording.parts.quic.as_ref()
}

/// The median of sizes, bytes.
fn median(sizes: &Histogram) -> Option<f64> {
    (!sizes.is_empty()).then(|| sizes.value_at_percentile(50.0) as f64)
}

const fn errors(name: &'static str, value: fn(&RunResult) -> Option<u64>) -> Row {
    let value = Getter::Part(value, attempts);
    row(
        name,
        &[],
        name,
        (Unit::Count, Lower, Needs::Requests),
        value,
    )
}

const EVENT_COUNT: (Unit, Better, Needs) = (Unit::Count, Higher, Needs::Events);
const QUIC_COUNT: (Unit, Better, Needs) = (Unit::Count, Neither, Needs::Quic);
const QUIC_BYTES: (Unit, Better, Needs) = (Unit::Bytes, Neither, Needs::Quic);
const QUIC_TROUBLES: (Unit, Better, Needs) = (Unit::Count, Lower, Needs::Quic);

/// All of them, in the order of lists.
#[rustfmt::skip]
pub(super) static ROWS: [Row; 46] = [
    row("requests", &[], "requests", (Unit::Count, Higher, Needs::Requests),
        Getter::Count(|run| Some(responses(run)))),
    row("duration_in_microseconds", &[], "duration", (Unit::Microseconds, Neither, Needs::Requests),
        Getter::Number(|run| Some(run.window.duration_ns as f64 / 1e3))),
    row("bytes", &[], "bytes", (Unit::Bytes, Neither, Needs::Requests),
        Getter::Count(|run| Some(run.recording.counters.bytes))),
    row("requests_per_sec", &["rps", "requests/s"], "requests/s",
        (Unit::RequestsPerSec, Higher, Needs::Requests),
        Getter::PerSec(|run| Some(responses(run)))),
    row("bytes_transfer_per_sec", &[], "bytes/s", (Unit::BytesPerSec, Higher, Needs::Requests),
        Getter::PerSec(|run| Some(run.recording.counters.bytes))),
    row("threads", &[], "threads", (Unit::Count, Neither, Needs::Requests),
        Getter::OfPlan(|run| Some(f64::from(run.plan.load.threads)))),
    row("connections", &[], "connections", (Unit::Count, Neither, Needs::Requests),
        Getter::OfPlan(|run| Some(f64::from(run.plan.load.connections)))),
    row("rate", &[], "rate", (Unit::RequestsPerSec, Neither, Needs::Rate),
        Getter::OfPlan(|run| AchievedRate::of(run).map(|rate| rate.asked_per_sec))),
    row("errors", &["failures"], "errors", (Unit::Count, Lower, Needs::Requests),
        Getter::Part(|run| Some(run.recording.errors.failures()), attempts)),
    errors("errors_connect", |run| Some(run.recording.errors.legacy(Legacy::Connect))),
    errors("errors_read", |run| Some(run.recording.errors.legacy(Legacy::Read))),
    errors("errors_write", |run| Some(run.recording.errors.legacy(Legacy::Write))),
    errors("errors_timeout", |run| Some(run.recording.errors.legacy(Legacy::Timeout))),
    row("statuses_over_399", &["status"], "statuses above 399",
        (Unit::Count, Lower, Needs::Responses),
        Getter::Part(|run| Some(run.recording.statuses.over_399()), answered)),
    row("failed", &[], "failed requests", (Unit::Count, Lower, Needs::Requests),
        Getter::Part(|run| Some(failed(run)), attempts)),
    row("unanswered", &[], "unanswered", (Unit::Count, Lower, Needs::Requests),
        Getter::Part(|run| Some(wanted(run).saturating_sub(answered(run))), wanted)),
    row("answered_percent", &["rate"], "responses of those due",
        (Unit::Percent, Higher, Needs::Rate),
        Getter::Share(|run| Some(answered(run)), |run| run.recording.counters.due)),
    row("connects_per_sec", &["connects"], "connections opened per second",
        (Unit::ConnectsPerSec, Higher, Needs::Connections),
        Getter::PerSec(|run| Some(run.recording.counters.connections_opened))),
    row("handshakes_per_sec", &["handshakes"], "TLS handshakes per second",
        (Unit::ConnectsPerSec, Higher, Needs::Handshakes), Getter::PerSec(handshakes)),
    row("events_per_sec", &[], "events/s", (Unit::EventsPerSec, Higher, Needs::Events),
        Getter::PerSec(|run| Some(run.recording.parts.events.as_ref()?.arrived))),
    row("events_per_response", &[], "events per response",
        (Unit::Events, Neither, Needs::CompleteStreams),
        Getter::Number(|run| run.recording.parts.events.as_ref()?.per_response_mean())),
    row("event_streams", &[], "event_streams", EVENT_COUNT,
        Getter::Part(|run| Some(run.recording.parts.events.as_ref()?.streams), answered)),
    row("unfinished_streams", &[], "unfinished streams",
        (Unit::Count, Lower, Needs::CompleteStreams),
        Getter::Part(|run| Some(run.recording.parts.events.as_ref()?.cut_off()),
                     |run| run.recording.parts.events.as_ref().map_or(0, |events| events.streams))),
    row("output_tokens_per_sec", &[], "output tokens/s",
        (Unit::TokensPerSec, Higher, Needs::CompleteAnswers),
        Getter::PerSec(|run| Some(run.recording.parts.llm.as_ref()?.arrived_tokens()))),
    row("input_tokens_per_sec", &[], "input tokens/s",
        (Unit::TokensPerSec, Higher, Needs::InputTokens),
        Getter::PerSec(|run| Some(run.recording.parts.llm.as_ref()?.input_tokens))),
    row("output_tokens_per_response", &[], "output tokens per response",
        (Unit::Tokens, Neither, Needs::CompleteAnswers),
        Getter::Number(|run| run.recording.parts.llm.as_ref()?.output_per_response_mean())),
    row("input_tokens_per_response", &[], "input tokens per response",
        (Unit::Tokens, Neither, Needs::InputTokens),
        Getter::Number(|run| run.recording.parts.llm.as_ref()?.input_per_response_mean())),
    row("cut_short", &[], "responses cut short by the limit of tokens",
        (Unit::Count, Neither, Needs::CompleteAnswers),
        Getter::Part(|run| Some(run.recording.parts.llm.as_ref()?.finish.length),
                     |run| run.recording.parts.llm.as_ref().map_or(0, |llm| llm.responses))),
    row("goodput", &[], "goodput", (Unit::Percent, Higher, Needs::Judged),
        Getter::Share(|run| Some(run.recording.good_requests()?.good),
                      |run| run.recording.good_requests().map_or(0, |good| good.judged()))),
    row("good_requests_per_sec", &[], "good requests/s",
        (Unit::RequestsPerSec, Higher, Needs::Judged),
        Getter::PerSec(|run| Some(run.recording.good_requests()?.responses()))),
    row("quic_packets_lost", &["quic_lost"], "QUIC packets lost", QUIC_TROUBLES,
        Getter::Part(|run| Some(quic(run)?.packets_lost),
                     |run| quic(run).map_or(0, |quic| quic.packets_sent))),
    row("quic_packets_sent", &[], "QUIC packets sent", QUIC_COUNT,
        Getter::Count(|run| Some(quic(run)?.packets_sent))),
    row("quic_datagrams_sent", &[], "QUIC datagrams sent", QUIC_COUNT,
        Getter::Count(|run| Some(quic(run)?.datagrams_sent))),
    row("quic_datagrams_received", &[], "QUIC datagrams received", QUIC_COUNT,
        Getter::Count(|run| Some(quic(run)?.datagrams_received))),
    row("quic_bytes_sent", &[], "QUIC bytes sent", QUIC_BYTES,
        Getter::Count(|run| Some(quic(run)?.bytes_sent))),
    row("quic_bytes_received", &[], "QUIC bytes received", QUIC_BYTES,
        Getter::Count(|run| Some(quic(run)?.bytes_received))),
    row("quic_datagrams_per_send", &[], "QUIC datagrams per batch sent", QUIC_COUNT,
        Getter::Number(|run| quic(run)?.datagrams_per_batch_sent())),
    row("quic_datagrams_per_receive", &[], "QUIC datagrams per batch received", QUIC_COUNT,
        Getter::Number(|run| quic(run)?.datagrams_per_batch_received())),
    row("quic_datagrams_dropped", &[], "QUIC datagrams dropped by this machine", QUIC_TROUBLES,
        Getter::Part(|run| Some(quic(run)?.datagrams_dropped),
                     |run| quic(run).map_or(0, QuicRecording::datagrams_arrived))),
    row("quic_congestion_events", &[], "QUIC congestion events", QUIC_TROUBLES,
        Getter::Count(|run| Some(quic(run)?.congestion_events))),
    row("quic_retries", &[], "QUIC handshakes with Retry", QUIC_COUNT,
        Getter::Count(|run| Some(quic(run)?.retries))),
    row("quic_early_accepted", &[], "requests accepted as early data", QUIC_COUNT,
        Getter::Count(|run| Some(quic(run)?.early_accepted))),
    row("quic_early_rejected", &[], "requests rejected as early data", QUIC_COUNT,
        Getter::Count(|run| Some(quic(run)?.early_rejected))),
    row("quic_cwnd_p50", &[], "median QUIC congestion window", QUIC_BYTES,
        Getter::Number(|run| median(&quic(run)?.cwnd))),
    row("quic_mtu_p50", &[], "median QUIC datagram size", QUIC_BYTES,
        Getter::Number(|run| median(&quic(run)?.mtu))),
    row("max_rate", &[], "highest rate", (Unit::RequestsPerSec, Higher, Needs::Search),
        Getter::Number(|_| None)),
];

/// A time of which a result has a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Time {
    /// [`Recording::latency`]: what reports show first.
    Latency,
    /// [`Recording::uncorrected`]: from sending to the last byte.
    ServiceTime,
    /// [`crate::Phases::connect`]: until a connection is established.
    Connect,
    /// [`crate::Phases::proxy`]: until the proxy passes on what is sent.
    Proxy,
    /// [`crate::Phases::tls`]: the TLS handshake with the target.
    Tls,
    /// [`crate::Phases::first_byte`]: from sending to the first byte of the response.
    FirstByte,
    /// [`crate::Phases::last_byte`]: from the first byte of a response to the last.
    LastByte,
    /// [`crate::EventRecording::first_event`], with the ages in [`crate::EventRecording::waiting`].
    FirstEvent,
    /// [`crate::EventRecording::gap`]: from one event of a response to the next.
    EventGap,
    /// [`crate::EventRecording::since_last_event`]: how long streams that had not ended were
    /// silent.
    TimeSinceLastEvent,
    /// [`crate::LlmRecording::first_token`], with the ages in [`crate::LlmRecording::waiting`].
    FirstToken,
    /// [`crate::LlmRecording::first_text`]: until the first visible text.
    FirstText,
    /// [`crate::LlmRecording::token_gap`]: from one event with tokens to the next.
    TokenGap,
    /// [`crate::LlmRecording::time_per_token`]: the mean of each response.
    TimePerToken,
    /// [`QuicRecording::rtt`]: the smoothed round trip time of each connection.
    QuicRtt,
    /// [`QuicRecording::min_rtt`]: the least round trip time of each connection.
    QuicMinRtt,
}

/// A distribution: its metrics are called `name_p99_us`, `name_mean_us` and so on.
struct Distribution {
    time: Time,
    name: &'static str,
    needs: Needs,
    samples: fn(&Recording) -> Option<Samples<'_>>,
}

/// In place of ages that a distribution does not have.
static NO_AGES: std::sync::LazyLock<Histogram> = std::sync::LazyLock::new(Histogram::new);

fn measured(histogram: &Histogram) -> Option<Samples<'_>> {
    Some(Samples::new(histogram, &NO_AGES))
}

#[rustfmt::skip]
static DISTRIBUTIONS: [Distribution; 16] = [
    Distribution { time: Time::Latency, name: "latency", needs: Needs::Responses,
        samples: |it| Some(it.latency_samples()) },
    Distribution { time: Time::ServiceTime, name: "service_time", needs: Needs::Responses,
        samples: |it| Some(Samples::new(&it.service_time, &it.timed_out)) },
    Distribution { time: Time::Connect, name: "connect", needs: Needs::Connections,
        samples: |it| measured(&it.phases.connect) },
    Distribution { time: Time::Proxy, name: "proxy", needs: Needs::Proxy,
        samples: |it| measured(&it.phases.proxy) },
    Distribution { time: Time::Tls, name: "tls", needs: Needs::Handshakes,
        samples: |it| measured(&it.phases.tls) },
    Distribution { time: Time::FirstByte, name: "first_byte", needs: Needs::Responses,
        samples: |it| measured(&it.phases.first_byte) },
    Distribution { time: Time::LastByte, name: "last_byte", needs: Needs::Responses,
        samples: |it| measured(&it.phases.last_byte) },
    Distribution { time: Time::FirstEvent, name: "first_event", needs: Needs::Events,
        samples: |it| it.parts.events.as_ref().map(|it| Samples::new(&it.first_event, &it.waiting)) },
    Distribution { time: Time::EventGap, name: "event_gap", needs: Needs::EventGaps,
        samples: |it| measured(&it.parts.events.as_ref()?.gap) },
    Distribution { time: Time::TimeSinceLastEvent, name: "time_since_last_event",
        needs: Needs::OpenStreams,
        samples: |it| measured(&it.parts.events.as_ref()?.since_last_event) },
    Distribution { time: Time::FirstToken, name: "first_token", needs: Needs::Tokens,
        samples: |it| it.parts.llm.as_ref().map(|it| Samples::new(&it.first_token, &it.waiting)) },
    Distribution { time: Time::FirstText, name: "first_text", needs: Needs::Text,
        samples: |it| measured(&it.parts.llm.as_ref()?.first_text) },
    Distribution { time: Time::TokenGap, name: "token_gap", needs: Needs::TokenGaps,
        samples: |it| measured(&it.parts.llm.as_ref()?.token_gap) },
    Distribution { time: Time::TimePerToken, name: "time_per_token", needs: Needs::TokenGaps,
        samples: |it| measured(&it.parts.llm.as_ref()?.time_per_token) },
    Distribution { time: Time::QuicRtt, name: "quic_rtt", needs: Needs::Quic,
        samples: |it| measured(&it.parts.quic.as_ref()?.rtt) },
    Distribution { time: Time::QuicMinRtt, name: "quic_min_rtt", needs: Needs::Quic,
        samples: |it| measured(&it.parts.quic.as_ref()?.min_rtt) },
];

impl Time {
    /// All of them, in the order of lists.
    pub fn all() -> impl Iterator<Item = Self> {
        DISTRIBUTIONS.iter().map(|row| row.time)
    }

    fn row(self) -> &'static Distribution {
        &DISTRIBUTIONS[self as usize]
    }

    /// The name of this time, with which those of its metrics begin: `service_time`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The time of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|time| time.name() == name)
    }

    /// The name in sentences: `service time`.
    #[must_use]
    pub fn label(self) -> String {
        self.name().replace('_', " ")
    }

    pub(super) fn needs(self) -> Needs {
        self.row().needs
    }

    /// Its samples; `None` if it was not measured.
    #[must_use]
    pub fn samples(self, recording: &Recording) -> Option<Samples<'_>> {
        (self.row().samples)(recording)
    }
}

/// A value of the watched sockets; its name follows `sockets_`.
pub(super) type SocketRow = (&'static str, fn(&SocketSummary) -> Option<f64>);

fn percent(share: Option<f64>) -> Option<f64> {
    share.map(|share| share * 100.0)
}

fn known(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}

#[rustfmt::skip]
pub(super) static SOCKETS: [SocketRow; 19] = [
    ("seen", |it| Some(it.sockets as f64)),
    ("closed", |it| Some(it.closed as f64)),
    ("segments_sent", |it| known(it.segments_sent)),
    ("segments_retransmitted", |it| Some(it.segments_retransmitted as f64)),
    ("retransmitted_percent", |it| percent(it.retransmitted_share())),
    ("rwnd_limited_percent", |it| percent(it.rwnd_limited_share())),
    ("sndbuf_limited_percent", |it| percent(it.sndbuf_limited_share())),
    ("listen_drops", |it| known(it.listen_drops)),
    ("listen_queue_max", |it| known(it.listen_queue_max)),
    ("rtt_min_us", |it| Some(it.rtt_us.as_ref()?.min)),
    ("rtt_p50_us", |it| Some(it.rtt_us.as_ref()?.p50)),
    ("rtt_p90_us", |it| Some(it.rtt_us.as_ref()?.p90)),
    ("rtt_p99_us", |it| Some(it.rtt_us.as_ref()?.p99)),
    ("rtt_max_us", |it| Some(it.rtt_us.as_ref()?.max)),
    ("cwnd_min", |it| Some(it.cwnd.as_ref()?.min)),
    ("cwnd_p50", |it| Some(it.cwnd.as_ref()?.p50)),
    ("cwnd_p90", |it| Some(it.cwnd.as_ref()?.p90)),
    ("cwnd_p99", |it| Some(it.cwnd.as_ref()?.p99)),
    ("cwnd_max", |it| Some(it.cwnd.as_ref()?.max)),
];
