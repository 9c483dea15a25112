//! Metrics: what can be measured in a run. Each has a name, a unit, a label, a direction and a
//! value.
//!
//! Tables, comparisons, `--fail-if`, CSV and pages all use these. The first five names are those of
//! wrk-cmm's json.lua:
//!
//! | name | unit |
//! |---|---|
//! | `requests` | responses |
//! | `duration_in_microseconds` | |
//! | `bytes` | of responses |
//! | `requests_per_sec` | |
//! | `bytes_transfer_per_sec` | |
//! | `latency_mean_us`, `_stdev_us`, `_min_us`, `_max_us` | microseconds |
//! | `latency_within_stdev_percent` | samples within one standard deviation, 0 to 100 |
//! | `latency_p99.9_us` | any percentile, microseconds |
//! | `service_time_...` | the same, since the request was sent: wrk2's uncorrected latency |
//! | `connect_...`, `tls_...`, `first_byte_...`, `last_byte_...` | the same for the phases |
//! | `first_event_...`, `event_gap_...` | the same for the events of streaming responses |
//! | `events_per_sec`, `events_per_response` | events of all responses; mean of complete ones |
//! | `event_streams`, `unfinished_streams` | complete streaming responses; without end marker |
//! | `connects_per_sec`, `handshakes_per_sec` | connections opened; all TLS handshakes |
//! | `thread_rate_mean`, `_stdev`, `_min`, `_max`, `_within_stdev_percent` | wrk's Req/Sec |
//! | `errors_connect`, `_read`, `_write`, `_timeout`, `errors` | wrk's counters, and their sum |
//! | `statuses_over_399` | responses |
//! | `status_200` | responses with this status |
//! | `error_refused` | events of this kind of error |
//! | `failures`, `unanswered` | see [`crate::Errors::failures`]; requests without a response |
//! | `answered_percent` | with a rate: responses in percent of the requests due |
//! | `threads`, `connections`, `rate` | as the plan asks for |
//! | `max_rate` | of a search: the highest rate within its conditions |
//! | `sockets_...`, and the kernel's own names (`TcpExt.ListenDrops`) | telemetry |

use std::collections::BTreeMap;

use plan::units::parse_percent;
use serde::Serialize;

use crate::{
    AchievedRate, ErrorKind, Histogram, Legacy, Rates, RunResult, SocketSummary, Spread, Summary,
    lower_bound, nearest, percent,
};

/// Responses.
pub const REQUESTS: &str = "requests";
/// Length of the window, microseconds.
pub const DURATION_US: &str = "duration_in_microseconds";
/// Bytes of responses.
pub const BYTES: &str = "bytes";
/// Responses per second.
pub const REQUESTS_PER_SEC: &str = "requests_per_sec";
/// The highest rate within the conditions of a search, requests per second. No run has it.
pub const MAX_RATE: &str = "max_rate";
/// Connections opened per second.
pub const CONNECTS_PER_SEC: &str = "connects_per_sec";
/// TLS handshakes per second, full and resumed ones.
pub const HANDSHAKES_PER_SEC: &str = "handshakes_per_sec";
/// Events of streaming responses per second.
pub const EVENTS_PER_SEC: &str = "events_per_sec";
/// Mean number of events of a complete streaming response.
pub const EVENTS_PER_RESPONSE: &str = "events_per_response";
/// Complete streaming responses.
pub const STREAMS: &str = "event_streams";
/// Streaming responses that ended without the end marker.
pub const UNFINISHED_STREAMS: &str = "unfinished_streams";
/// Bytes of responses per second.
pub const BYTES_PER_SEC: &str = "bytes_transfer_per_sec";
/// Mean latency, microseconds.
pub const LATENCY_MEAN_US: &str = "latency_mean_us";
/// Longest latency, microseconds.
pub const LATENCY_MAX_US: &str = "latency_max_us";
/// Events of wrk's four counters.
pub const ERRORS: &str = "errors";
/// Responses with a status above 399.
pub const STATUSES_OVER_399: &str = "statuses_over_399";
/// With a rate: responses in percent of the requests due.
pub const ANSWERED_PERCENT: &str = "answered_percent";
/// Names of the times of which a result has histograms.
pub const TIMES: [&str; 8] = [
    "latency",
    "service_time",
    "connect",
    "tls",
    "first_byte",
    "last_byte",
    FIRST_EVENT,
    EVENT_GAP,
];
const FIRST_EVENT: &str = "first_event";
const EVENT_GAP: &str = "event_gap";

/// The telemetry metrics that best show where time or packets were lost.
pub const TELEMETRY: [&str; 20] = [
    "sockets_rtt_p50_us",
    "sockets_rtt_p99_us",
    "sockets_cwnd_p50",
    "sockets_retransmitted_percent",
    "sockets_rwnd_limited_percent",
    "sockets_sndbuf_limited_percent",
    "sockets_listen_drops",
    "sockets_listen_queue_max",
    "Tcp.RetransSegs",
    "TcpExt.ListenOverflows",
    "TcpExt.ListenDrops",
    "TcpExt.TCPTimeouts",
    "TcpExt.TCPBacklogDrop",
    "TcpExt.PruneCalled",
    "softnet.dropped",
    "softnet.time_squeeze",
    "stat.context_switches",
    "stat.cpu_user_ms",
    "stat.cpu_system_ms",
    "stat.cpu_softirq_ms",
];

/// What conditions (`--fail-if`) call metrics, with the metrics; `p` with a number is a percentile
/// of the latency.
const SHORT_NAMES: [(&str, &str); 16] = [
    ("max", LATENCY_MAX_US),
    ("min", "latency_min_us"),
    ("mean", LATENCY_MEAN_US),
    ("stdev", "latency_stdev_us"),
    ("errors", "failures"),
    ("status", STATUSES_OVER_399),
    ("unanswered", "unanswered"),
    ("rps", REQUESTS_PER_SEC),
    ("connects", CONNECTS_PER_SEC),
    ("handshakes", HANDSHAKES_PER_SEC),
    ("rate", ANSWERED_PERCENT),
    ("requests", REQUESTS),
    (EVENTS_PER_SEC, EVENTS_PER_SEC),
    (EVENTS_PER_RESPONSE, EVENTS_PER_RESPONSE),
    (STREAMS, STREAMS),
    (UNFINISHED_STREAMS, UNFINISHED_STREAMS),
];

/// A name that is not that of a metric; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is not a metric ({})",
    near.as_ref().map_or_else(
        || "expected a name like requests_per_sec, p99, max, errors, sockets_rtt_p99_us, \
            TcpExt.ListenDrops".to_owned(),
        |near| format!("did you mean {near}?")
    )
)]
pub struct UnknownMetric {
    name: String,
    near: Option<String>,
}

/// The unit of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    Count,
    /// Microseconds.
    Microseconds,
    /// Milliseconds: CPU time as the kernel counts it.
    Milliseconds,
    /// Requests per second.
    RequestsPerSec,
    /// Connections or handshakes per second.
    ConnectsPerSec,
    /// Events per second.
    EventsPerSec,
    /// Events of a response.
    Events,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSec,
    /// 0 to 100.
    Percent,
    /// TCP segments.
    Segments,
}

impl Unit {
    /// The unit as one word: `us`, `requests/s`, `count`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
            Self::RequestsPerSec => "requests/s",
            Self::ConnectsPerSec => "1/s",
            Self::EventsPerSec => "events/s",
            Self::Events => "events",
            Self::Bytes => "bytes",
            Self::BytesPerSec => "bytes/s",
            Self::Percent => "percent",
            Self::Segments => "segments",
        }
    }
}

/// Which of two values of a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// The higher one: requests per second.
    Higher,
    /// The lower one: latency, errors.
    Lower,
    /// Neither.
    Neither,
}

/// One thing measured in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metric {
    /// The stable name.
    pub name: String,
    /// The name in sentences and headings.
    pub label: String,
    /// Whether higher or lower values are better.
    pub better: Better,
    /// The unit of its values.
    #[serde(skip)]
    pub unit: Unit,
    #[serde(skip)]
    source: Source,
}

/// Where the value comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Source {
    Requests,
    Duration,
    Bytes,
    RequestsPerSec,
    ConnectsPerSec,
    HandshakesPerSec,
    EventsPerSec,
    EventsPerResponse,
    Streams,
    UnfinishedStreams,
    BytesPerSec,
    Threads,
    Connections,
    Rate,
    MaxRate,
    /// Events of one of wrk's counters, or of all.
    SocketErrors(Option<Legacy>),
    ErrorKind(ErrorKind),
    StatusesOver399,
    Status(u16),
    /// [`crate::Errors::failures`].
    Failures,
    Unanswered,
    AnsweredPercent,
    /// One of [`TIMES`].
    Time(&'static str, Statistic),
    ThreadRate(Statistic),
    /// The rest of the name says which value of [`SocketSummary`].
    Sockets,
    /// A kernel counter, or a metric that only another source has.
    Other,
}

/// One number of a distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Statistic {
    Mean,
    Stdev,
    Min,
    Max,
    WithinStdevPercent,
    /// 0..=100.
    Percentile(f64),
}

const STATISTICS: [Statistic; 5] = [
    Statistic::Mean,
    Statistic::Stdev,
    Statistic::Min,
    Statistic::Max,
    Statistic::WithinStdevPercent,
];

impl Statistic {
    fn name(self) -> String {
        match self {
            Self::Mean => "mean".to_owned(),
            Self::Stdev => "stdev".to_owned(),
            Self::Min => "min".to_owned(),
            Self::Max => "max".to_owned(),
            Self::WithinStdevPercent => "within_stdev_percent".to_owned(),
            Self::Percentile(percent) => format!("p{percent}"),
        }
    }

    fn named(name: &str) -> Option<Self> {
        let known = STATISTICS
            .into_iter()
            .find(|statistic| statistic.name() == name);
        known.or_else(|| {
            let percent = name.strip_prefix('p')?;
            let is_plain = percent.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let percent: f64 = percent.parse().ok().filter(|_| is_plain)?;
            (percent <= 100.0).then_some(Self::Percentile(percent))
        })
    }

    /// `p99 latency`, `mean latency`.
    fn label(self, of: &str) -> String {
        match self {
            Self::Mean => format!("mean {of}"),
            Self::Stdev => format!("standard deviation of {of}"),
            Self::Min => format!("smallest {of}"),
            Self::Max => format!("largest {of}"),
            Self::WithinStdevPercent => format!("{of} within one standard deviation"),
            Self::Percentile(percent) => format!("p{percent} {of}"),
        }
    }

    /// In microseconds, or in percent.
    fn of_time(self, histogram: &Histogram) -> Option<f64> {
        if histogram.is_empty() {
            return None;
        }
        Some(match self {
            Self::Mean => histogram.mean_ns() / 1e3,
            Self::Stdev => histogram.stdev_ns() / 1e3,
            Self::Min => us(histogram.min_ns()?),
            Self::Max => us(histogram.max_ns()?),
            Self::WithinStdevPercent => histogram.within_stdev_percent()?,
            Self::Percentile(percent) => us(histogram.value_at_percentile(percent)),
        })
    }

    /// Requests per second.
    fn of_rates(self, rates: &Rates) -> Option<f64> {
        let (min, max) = (rates.min()?, rates.max()?);
        Some(match self {
            Self::Mean => rates.mean(),
            Self::Stdev => rates.stdev(),
            Self::Min => min as f64,
            Self::Max => max as f64,
            Self::WithinStdevPercent => rates.within_stdev_percent()?,
            Self::Percentile(percent) => rates.value_at_percentile(percent) as f64,
        })
    }
}

impl Metric {
    /// The metric of this name. `p99` is short for a percentile of the latency, `requests/s` for
    /// [`REQUESTS_PER_SEC`]. An unknown name is treated as that of a kernel counter.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let name = match Statistic::named(name) {
            Some(Statistic::Percentile(percent)) => percentile("latency", percent),
            _ if name == "requests/s" => REQUESTS_PER_SEC.to_owned(),
            _ => name.to_owned(),
        };
        let source = Source::named(&name).unwrap_or(Source::Other);
        Self {
            label: source.label(&name),
            better: source.better(),
            unit: source.unit(&name),
            source,
            name,
        }
    }

    /// The metric that conditions (`--fail-if`) call so.
    #[must_use]
    pub fn of_short_name(name: &str) -> Option<Self> {
        let known = SHORT_NAMES.into_iter().find(|(short, _)| *short == name);
        match known {
            Some((_, name)) => Some(Self::named(name)),
            None => match name.strip_prefix('p').and_then(parse_percent) {
                Some(percent) => Some(Self::named(&percentile("latency", percent))),
                None => Self::of_event_time(name),
            },
        }
    }

    /// `first_event_p99`, `event_gap_max`: as they are named, without the unit.
    fn of_event_time(name: &str) -> Option<Self> {
        let metric = Self::named(&format!("{name}_us"));
        matches!(metric.source, Source::Time(FIRST_EVENT | EVENT_GAP, _)).then_some(metric)
    }

    /// The metric of a name, or else of a short name, that can be judged; what the plan sets
    /// cannot. Kernel counters have a name with a dot, like `TcpExt.ListenDrops`; whether the
    /// kernel has one is not known here.
    ///
    /// # Errors
    /// When it is neither.
    pub fn parse(name: &str) -> Result<Self, UnknownMetric> {
        let metric = Self::named(name);
        let is_known = match metric.source {
            Source::Threads | Source::Connections | Source::Rate => false,
            Source::Other => name.split_once('.').is_some_and(|(group, counter)| {
                !group.is_empty() && counter.starts_with(|c: char| c.is_ascii_alphabetic())
            }),
            _ => true,
        };
        if is_known {
            return Ok(metric);
        }
        Self::of_short_name(name).ok_or_else(|| UnknownMetric {
            name: name.to_owned(),
            near: near(name),
        })
    }

    /// Whether `name` is that of a metric other than telemetry.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        !matches!(Source::named(name), None | Some(Source::Sockets))
    }

    /// Its value in a result; `None` where it was not measured.
    #[must_use]
    pub fn of(&self, result: &RunResult) -> Option<f64> {
        self.source.of(result, &self.name)
    }

    /// For a count: the count that it is a part of, such as the requests sent for failures.
    #[must_use]
    pub fn whole(&self, result: &RunResult) -> Option<u64> {
        let counters = &result.recording.counters;
        match self.source {
            Source::Failures => {
                let errors = &result.recording.errors;
                let without_request = errors.failures().saturating_sub(errors.exchanges());
                Some(counters.sent.saturating_add(without_request))
            }
            Source::StatusesOver399 | Source::Status(_) => Some(counters.answered),
            Source::Unanswered => Some(counters.sent.saturating_add(counters.unsent)),
            _ => None,
        }
    }

    /// The largest value that it may have in truth, given its value in this result: a percentile or
    /// the maximum of the latency may depend on requests without a response. Infinite if these may
    /// take forever; `value` itself if it is exact.
    #[must_use]
    pub fn upper_bound(&self, result: &RunResult, value: f64) -> f64 {
        let Source::Time(of, statistic) = self.source else {
            return value;
        };
        let recording = &result.recording;
        let (known, bounds) = match (of, &recording.events) {
            ("latency", _) => recording.latency_parts(),
            (FIRST_EVENT, Some(events)) => (&events.first_event, &events.waiting),
            _ => return value,
        };
        let upper_ns = match statistic {
            Statistic::Percentile(percent) if percent < 100.0 => {
                if lower_bound::lower_bounds(known, bounds, &[percent]) == [false] {
                    return value;
                }
                lower_bound::upper_bound_ns(known, bounds, percent)
            }
            Statistic::Percentile(_) | Statistic::Max
                if lower_bound::max_is_bound(known, bounds) =>
            {
                None
            }
            _ => return value,
        };
        upper_ns.map_or(f64::INFINITY, us)
    }
}

impl Source {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            REQUESTS => Self::Requests,
            DURATION_US => Self::Duration,
            BYTES => Self::Bytes,
            REQUESTS_PER_SEC => Self::RequestsPerSec,
            CONNECTS_PER_SEC => Self::ConnectsPerSec,
            HANDSHAKES_PER_SEC => Self::HandshakesPerSec,
            EVENTS_PER_SEC => Self::EventsPerSec,
            EVENTS_PER_RESPONSE => Self::EventsPerResponse,
            STREAMS => Self::Streams,
            UNFINISHED_STREAMS => Self::UnfinishedStreams,
            BYTES_PER_SEC => Self::BytesPerSec,
            "threads" => Self::Threads,
            "connections" => Self::Connections,
            "rate" => Self::Rate,
            MAX_RATE => Self::MaxRate,
            ERRORS => Self::SocketErrors(None),
            "errors_connect" => Self::SocketErrors(Some(Legacy::Connect)),
            "errors_read" => Self::SocketErrors(Some(Legacy::Read)),
            "errors_write" => Self::SocketErrors(Some(Legacy::Write)),
            "errors_timeout" => Self::SocketErrors(Some(Legacy::Timeout)),
            STATUSES_OVER_399 => Self::StatusesOver399,
            "failures" => Self::Failures,
            "unanswered" => Self::Unanswered,
            ANSWERED_PERCENT => Self::AnsweredPercent,
            _ if name.starts_with("sockets_") => Self::Sockets,
            _ => return Self::of_family(name),
        })
    }

    fn of_family(name: &str) -> Option<Self> {
        if let Some(status) = name.strip_prefix("status_") {
            return status.parse().ok().map(Self::Status);
        }
        if let Some(kind) = name.strip_prefix("error_") {
            return ErrorKind::from_name(kind).map(Self::ErrorKind);
        }
        if let Some(statistic) = name.strip_prefix("thread_rate_") {
            return Statistic::named(statistic).map(Self::ThreadRate);
        }
        TIMES.into_iter().find_map(|of| {
            let rest = name.strip_prefix(of)?.strip_prefix('_')?;
            let statistic = Statistic::named(rest.strip_suffix("_us").unwrap_or(rest))?;
            let is_spelled = rest.ends_with("_us") || statistic == Statistic::WithinStdevPercent;
            is_spelled.then_some(Self::Time(of, statistic))
        })
    }

    fn unit(self, name: &str) -> Unit {
        match self {
            Self::RequestsPerSec | Self::Rate | Self::MaxRate => Unit::RequestsPerSec,
            Self::ConnectsPerSec | Self::HandshakesPerSec => Unit::ConnectsPerSec,
            Self::EventsPerSec => Unit::EventsPerSec,
            Self::EventsPerResponse => Unit::Events,
            Self::BytesPerSec => Unit::BytesPerSec,
            Self::Bytes => Unit::Bytes,
            Self::Duration => Unit::Microseconds,
            Self::Time(_, Statistic::WithinStdevPercent)
            | Self::ThreadRate(Statistic::WithinStdevPercent)
            | Self::AnsweredPercent => Unit::Percent,
            Self::Time(..) => Unit::Microseconds,
            Self::ThreadRate(_) => Unit::RequestsPerSec,
            _ if name.ends_with("_percent") => Unit::Percent,
            _ if name.ends_with("_us") => Unit::Microseconds,
            _ if name.ends_with("_ms") => Unit::Milliseconds,
            Self::Sockets if name.starts_with("sockets_cwnd") => Unit::Segments,
            _ => Unit::Count,
        }
    }

    fn better(self) -> Better {
        match self {
            Self::Requests
            | Self::RequestsPerSec
            | Self::ConnectsPerSec
            | Self::HandshakesPerSec
            | Self::MaxRate
            | Self::EventsPerSec
            | Self::Streams
            | Self::BytesPerSec
            | Self::AnsweredPercent
            | Self::ThreadRate(Statistic::Mean) => Better::Higher,
            Self::Time(_, Statistic::WithinStdevPercent) => Better::Neither,
            Self::Time(..)
            | Self::SocketErrors(_)
            | Self::ErrorKind(_)
            | Self::StatusesOver399
            | Self::Failures
            | Self::UnfinishedStreams
            | Self::Unanswered => Better::Lower,
            _ => Better::Neither,
        }
    }

    fn label(self, name: &str) -> String {
        match self {
            Self::RequestsPerSec => "requests/s".to_owned(),
            Self::ConnectsPerSec => "connections opened per second".to_owned(),
            Self::HandshakesPerSec => "TLS handshakes per second".to_owned(),
            Self::EventsPerSec => "events/s".to_owned(),
            Self::EventsPerResponse => "events per response".to_owned(),
            Self::UnfinishedStreams => "unfinished streams".to_owned(),
            Self::MaxRate => "highest rate".to_owned(),
            Self::BytesPerSec => "bytes/s".to_owned(),
            Self::Duration => "duration".to_owned(),
            Self::StatusesOver399 => "statuses above 399".to_owned(),
            Self::AnsweredPercent => "responses of those due".to_owned(),
            Self::Time(of, statistic) => statistic.label(&of.replace('_', " ")),
            Self::ThreadRate(statistic) => statistic.label("requests/s per thread"),
            _ => match percentile_of(name) {
                Some((of, percent)) => Statistic::Percentile(percent).label(&of.replace('_', " ")),
                None => name.to_owned(),
            },
        }
    }

    fn of(self, result: &RunResult, name: &str) -> Option<f64> {
        let recording = &result.recording;
        let (counters, errors) = (&recording.counters, &recording.errors);
        let count = |count: u64| Some(count as f64);
        match self {
            Self::Requests => count(counters.responses()),
            Self::Duration => Some(us(result.window.duration_ns)),
            Self::Bytes => count(counters.bytes),
            Self::RequestsPerSec => Some(result.requests_per_sec()),
            Self::ConnectsPerSec => Some(result.per_sec(counters.connections_opened)),
            Self::HandshakesPerSec => {
                let handshakes = counters.tls_full.saturating_add(counters.tls_resumed);
                (handshakes > 0).then(|| result.per_sec(handshakes))
            }
            Self::EventsPerSec => Some(result.per_sec(recording.events.as_ref()?.arrived)),
            Self::EventsPerResponse => recording.events.as_ref()?.per_response_mean(),
            Self::Streams => count(recording.events.as_ref()?.streams),
            Self::UnfinishedStreams => count(recording.events.as_ref()?.unfinished),
            Self::BytesPerSec => Some(result.bytes_per_sec()),
            Self::Threads => Some(f64::from(result.plan.load.threads)),
            Self::Connections => Some(f64::from(result.plan.load.connections)),
            Self::Rate => AchievedRate::of(result).map(|rate| rate.asked_per_sec),
            Self::SocketErrors(None) => count(errors.events()),
            Self::SocketErrors(Some(counter)) => count(errors.legacy(counter)),
            Self::ErrorKind(kind) => count(errors.count(kind).events),
            Self::StatusesOver399 => count(recording.statuses.over_399()),
            Self::Status(status) => count(recording.statuses.count(status)),
            Self::Failures => count(errors.failures()),
            Self::Unanswered => {
                let wanted = counters.sent.saturating_add(counters.unsent);
                count(wanted.saturating_sub(counters.answered))
            }
            Self::AnsweredPercent => percent(counters.answered, counters.due),
            Self::Time(of, statistic) => statistic.of_time(&histogram(result, of)?),
            Self::ThreadRate(statistic) => statistic.of_rates(&recording.rates),
            Self::MaxRate => None,
            Self::Sockets => {
                let sockets = result.telemetry.as_ref()?.sockets.as_ref()?;
                let known = socket_values(sockets).into_iter();
                let found = known.filter(|(known, _)| known == name);
                found.map(|(_, value)| value).next()
            }
            Self::Other => {
                let growth = result.telemetry.as_ref()?.counters.get(name)?;
                Some(*growth as f64)
            }
        }
    }
}

/// Name of a percentile (0..=100) of one of [`TIMES`]: `latency_p99.9_us`.
#[must_use]
pub fn percentile(of: &str, percent: f64) -> String {
    format!("{of}_p{percent}_us")
}

/// The time and the percentile in a name; `None` if it is not the name of a percentile.
#[must_use]
pub fn percentile_of(name: &str) -> Option<(&str, f64)> {
    let (of, statistic) = name.strip_suffix("_us")?.rsplit_once('_')?;
    match Statistic::named(statistic)? {
        Statistic::Percentile(percent) => Some((of, percent)),
        _ => None,
    }
}

/// Whether a name is that of a telemetry metric. Names of kernel counters contain a dot.
#[must_use]
pub fn is_telemetry(name: &str) -> bool {
    name.starts_with("sockets_") || (name.contains('.') && percentile_of(name).is_none())
}

/// The name of a metric that `name` resembles.
fn near(name: &str) -> Option<String> {
    const OTHERS: [&str; 19] = [
        CONNECTS_PER_SEC,
        HANDSHAKES_PER_SEC,
        "first_event_p99",
        "event_gap_p99",
        "requests/s",
        "p50",
        "p99",
        "p99.9",
        BYTES,
        REQUESTS_PER_SEC,
        BYTES_PER_SEC,
        "errors_connect",
        "errors_read",
        "errors_write",
        "errors_timeout",
        STATUSES_OVER_399,
        "failures",
        ANSWERED_PERCENT,
        "thread_rate_mean",
    ];
    let statistics = [
        "mean_us", "max_us", "p50_us", "p90_us", "p99_us", "p99.9_us",
    ];
    let times: Vec<String> = TIMES
        .iter()
        .flat_map(|of| statistics.map(|statistic| format!("{of}_{statistic}")))
        .collect();
    let short = SHORT_NAMES.into_iter().map(|(short, _)| short);
    let known = short.chain(OTHERS).chain(TELEMETRY);
    nearest(name, known.chain(times.iter().map(String::as_str))).map(str::to_owned)
}

/// The sort key of a name in a list: first the most important metrics, then the other metrics of
/// the load generator, then telemetry. Names of the same rank are sorted by name.
#[must_use]
pub fn rank(name: &str) -> usize {
    const FIRST: [&str; 12] = [
        REQUESTS_PER_SEC,
        LATENCY_MEAN_US,
        "latency_p50_us",
        "latency_p75_us",
        "latency_p90_us",
        "latency_p95_us",
        "latency_p99_us",
        "latency_p99.9_us",
        LATENCY_MAX_US,
        ERRORS,
        STATUSES_OVER_399,
        REQUESTS,
    ];
    let place = FIRST.iter().position(|first| *first == name);
    place.unwrap_or_else(|| FIRST.len() + usize::from(is_telemetry(name)))
}

/// The samples of one of [`TIMES`].
#[must_use]
pub fn histogram(result: &RunResult, of: &str) -> Option<Histogram> {
    let recording = &result.recording;
    match of {
        "latency" => Some(recording.latency()),
        "service_time" => Some(recording.uncorrected()),
        "connect" => Some(recording.phases.connect.clone()),
        "tls" => Some(recording.phases.tls.clone()),
        "first_byte" => Some(recording.phases.first_byte.clone()),
        "last_byte" => Some(recording.phases.last_byte.clone()),
        FIRST_EVENT => Some(recording.events.as_ref()?.first_event_with_bounds()),
        EVENT_GAP => Some(recording.events.as_ref()?.gap.clone()),
        _ => None,
    }
}

/// The values of a result by metric name. They include the statuses and kinds of errors that
/// occurred, and the percentiles that every summary has.
#[must_use]
pub fn values(result: &RunResult) -> BTreeMap<String, f64> {
    const ALWAYS: [&str; 18] = [
        REQUESTS,
        DURATION_US,
        BYTES,
        REQUESTS_PER_SEC,
        BYTES_PER_SEC,
        "threads",
        "connections",
        "rate",
        "errors_connect",
        "errors_read",
        "errors_write",
        "errors_timeout",
        ERRORS,
        STATUSES_OVER_399,
        EVENTS_PER_SEC,
        EVENTS_PER_RESPONSE,
        STREAMS,
        UNFINISHED_STREAMS,
    ];
    let recording = &result.recording;
    let kinds = recording.errors.iter();
    let statuses = recording.statuses.iter();
    let counts = ALWAYS
        .map(str::to_owned)
        .into_iter()
        .chain(kinds.map(|(kind, _)| format!("error_{kind}")))
        .chain(statuses.map(|(status, _)| format!("status_{status}")))
        .chain(STATISTICS.map(|statistic| format!("thread_rate_{}", statistic.name())));
    let mut values: BTreeMap<String, f64> = counts
        .filter_map(|name| {
            let value = Metric::named(&name).of(result)?;
            Some((name, value))
        })
        .collect();
    for of in TIMES {
        // Merged once for all of its statistics.
        let Some(histogram) = histogram(result, of) else {
            continue;
        };
        let percentiles = Summary::PERCENTILES.map(Statistic::Percentile);
        for statistic in STATISTICS.into_iter().chain(percentiles) {
            let unit = match statistic {
                Statistic::WithinStdevPercent => "",
                _ => "_us",
            };
            let name = format!("{of}_{}{unit}", statistic.name());
            values.extend(statistic.of_time(&histogram).map(|value| (name, value)));
        }
    }
    if let Some(telemetry) = &result.telemetry {
        let counters = telemetry.counters.iter();
        values.extend(counters.map(|(name, growth)| (name.clone(), *growth as f64)));
        values.extend(telemetry.sockets.iter().flat_map(socket_values));
    }
    values
}

fn socket_values(sockets: &SocketSummary) -> Vec<(String, f64)> {
    let count = |count: u64| Some(count as f64);
    let known = |count: Option<u64>| count.map(|count| count as f64);
    let percent = |share: Option<f64>| share.map(|share| share * 100.0);
    let mut values = vec![
        ("seen".to_owned(), count(sockets.sockets)),
        ("closed".to_owned(), count(sockets.closed)),
        ("segments_sent".to_owned(), known(sockets.segments_sent)),
        (
            "segments_retransmitted".to_owned(),
            count(sockets.segments_retransmitted),
        ),
        (
            "retransmitted_percent".to_owned(),
            percent(sockets.retransmitted_share()),
        ),
        (
            "rwnd_limited_percent".to_owned(),
            percent(sockets.rwnd_limited_share()),
        ),
        (
            "sndbuf_limited_percent".to_owned(),
            percent(sockets.sndbuf_limited_share()),
        ),
        ("listen_drops".to_owned(), known(sockets.listen_drops)),
        (
            "listen_queue_max".to_owned(),
            known(sockets.listen_queue_max),
        ),
    ];
    for (of, unit, spread) in [("rtt", "_us", sockets.rtt_us), ("cwnd", "", sockets.cwnd)] {
        let fields: [(&str, SpreadField); 5] = [
            ("min", |spread| spread.min),
            ("p50", |spread| spread.p50),
            ("p90", |spread| spread.p90),
            ("p99", |spread| spread.p99),
            ("max", |spread| spread.max),
        ];
        let named = fields.map(|(name, field)| {
            let value = spread.as_ref().map(field);
            (format!("{of}_{name}{unit}"), value)
        });
        values.extend(named);
    }
    let known = values.into_iter();
    known
        .filter_map(|(name, value)| Some((format!("sockets_{name}"), value?)))
        .collect()
}

/// One number of a [`Spread`].
type SpreadField = fn(&Spread) -> f64;

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_listed_before_kernel_counters() {
        let mut names = [
            "Ip.InReceives",
            "TcpExt.ListenDrops",
            "bytes",
            "connect_p99_us",
            "errors",
            "latency_p99.9_us",
            "latency_p99_us",
            "requests_per_sec",
            "sockets_rtt_p50_us",
        ];
        names.sort_by_key(|name| rank(name));
        let expected = [
            "requests_per_sec",
            "latency_p99_us",
            "latency_p99.9_us",
            "errors",
            "bytes",
            "connect_p99_us",
            "Ip.InReceives",
            "TcpExt.ListenDrops",
            "sockets_rtt_p50_us",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn metrics_have_units_labels_and_directions() {
        use Better::{Higher, Lower, Neither};
        for (name, unit, label, better) in [
            ("requests", "count", "requests", Higher),
            ("duration_in_microseconds", "us", "duration", Neither),
            ("bytes", "bytes", "bytes", Neither),
            ("requests/s", "requests/s", "requests/s", Higher),
            ("requests_per_sec", "requests/s", "requests/s", Higher),
            ("bytes_transfer_per_sec", "bytes/s", "bytes/s", Higher),
            ("p99.9", "us", "p99.9 latency", Lower),
            ("service_time_p50_us", "us", "p50 service time", Lower),
            ("latency_mean_us", "us", "mean latency", Lower),
            ("errors_timeout", "count", "errors_timeout", Lower),
            (
                "thread_rate_mean",
                "requests/s",
                "mean requests/s per thread",
                Higher,
            ),
            ("rate", "requests/s", "rate", Neither),
            ("sockets_cwnd_p50", "segments", "sockets_cwnd_p50", Neither),
            ("sockets_rtt_p50_us", "us", "p50 sockets rtt", Neither),
            ("stat.cpu_user_ms", "ms", "stat.cpu_user_ms", Neither),
            ("TcpExt.ListenDrops", "count", "TcpExt.ListenDrops", Neither),
            ("p101", "count", "p101", Neither),
        ] {
            let metric = Metric::named(name);
            assert_eq!(
                (metric.unit.name(), metric.label.as_str(), metric.better),
                (unit, label, better),
                "{name}"
            );
        }
    }

    #[test]
    fn names_of_percentiles_are_parsed_back() {
        assert_eq!(percentile_of("latency_p99.9_us"), Some(("latency", 99.9)));
        assert_eq!(percentile_of("first_byte_p5_us"), Some(("first_byte", 5.0)));
        assert_eq!(percentile_of(&percentile("tls", 50.0)), Some(("tls", 50.0)));
        for name in [
            "latency_mean_us",
            "latency_p101_us",
            "latency_p1e1_us",
            "latency_p_us",
            "latency_p50",
        ] {
            assert_eq!(percentile_of(name), None, "{name}");
        }
    }

    #[test]
    fn metrics_to_judge_have_a_name_or_a_short_name() {
        for (name, expected) in [
            ("requests/s", REQUESTS_PER_SEC),
            ("rps", REQUESTS_PER_SEC),
            ("p99", "latency_p99_us"),
            ("latency_p99.9_us", "latency_p99.9_us"),
            ("max", LATENCY_MAX_US),
            ("errors", ERRORS),
            ("status", STATUSES_OVER_399),
            ("status_503", "status_503"),
            // The rate of the plan is not measured.
            ("rate", ANSWERED_PERCENT),
            ("TcpExt.ListenDrops", "TcpExt.ListenDrops"),
            ("sockets_rtt_p99_us", "sockets_rtt_p99_us"),
        ] {
            let metric = Metric::parse(name).expect(name);
            assert_eq!(metric, Metric::named(expected), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_judged_is_refused_with_a_suggestion() {
        for (name, expected) in [
            ("requests_per_second", "did you mean requests_per_sec?"),
            ("latency_p99", "did you mean latency_p99_us?"),
            ("failure", "did you mean failures?"),
            ("p101", "expected a name like "),
            ("connections", "did you mean connects?"),
            ("threads", "expected a name like requests_per_sec, "),
            ("latency_p101.5_us", "did you mean latency_p"),
            ("", "expected a name"),
            ("nothing of this kind", "expected a name"),
        ] {
            let error = Metric::parse(name).expect_err(name).to_string();
            assert!(error.contains(expected), "{name}: {error}");
            assert!(error.starts_with(&format!("{name:?} is not a metric (")));
        }
    }

    #[test]
    fn names_of_metrics_other_than_telemetry_are_known() {
        for name in [
            "latency_p99.9_us",
            "connect_within_stdev_percent",
            "thread_rate_stdev",
            "errors_read",
            "status_200",
            "error_refused",
            "rate",
        ] {
            assert!(Metric::is_name(name), "{name}");
        }
        for name in [
            "latency",
            "latency_p99.9",
            "status_x",
            "error_x",
            "TcpExt.ListenDrops",
            "sockets_seen",
        ] {
            assert!(!Metric::is_name(name), "{name}");
        }
    }
}
