//! Metrics: what can be measured in a run. Each has a name, a unit, a label, a direction and a
//! value.
//!
//! Tables, comparisons, `--fail-if`, exports and pages all use these. [`registry`] has a row for
//! each; the first five names are those of wrk-cmm's json.lua. Families have more:
//!
//! | name | unit |
//! |---|---|
//! | `latency_mean_us`, `_stdev_us`, `_min_us`, `_max_us` | microseconds |
//! | `latency_within_stdev_percent` | samples within one standard deviation, 0 to 100 |
//! | `latency_p99.9_us` | any percentile, microseconds |
//! | `service_time_...`, `connect_...` and so on | the same for each [`Time`] |
//! | `thread_rate_mean`, `_stdev`, `_min`, `_max`, `_within_stdev_percent` | wrk's Req/Sec |
//! | `status_200` | responses with this status |
//! | `error_refused` | events of this kind of error |
//! | `sockets_...`, and the kernel's own names (`TcpExt.ListenDrops`) | telemetry |
//!
//! `p99` and `max` are short for those of the latency, and `_us` may be left out.

mod needs;
mod registry;

use std::collections::BTreeMap;

use registry::{attempts, rows};
use serde::Serialize;

use crate::parts::llm::{FIRST_TOKEN, TIME_PER_TOKEN};
use crate::parts::telemetry::metrics::{SOCKETS, SocketRow};
use crate::{Counted, ErrorKind, Histogram, Measured, Rates, RunResult, Samples, Summary, nearest};

pub use needs::Needs;
pub use presentation::Unit;
pub use registry::Time;
pub(crate) use registry::{Getter, MetricRow, TimeRow, answered, measured, row};

/// Responses that were complete within the window.
pub const REQUESTS: &str = "requests";
/// Length of the window, microseconds.
pub const DURATION_US: &str = "duration_in_microseconds";
/// Bytes of responses that arrived within the window.
pub const BYTES: &str = "bytes";
/// Responses per second of the window.
pub const REQUESTS_PER_SEC: &str = "requests_per_sec";
/// The highest rate within the conditions of a search, requests per second. No run has it.
pub const MAX_RATE: &str = "max_rate";

/// The name of the metric of a search over connections.
pub const MAX_CONNECTIONS: &str = "max_connections";
/// Connections opened per second.
pub const CONNECTS_PER_SEC: &str = "connects_per_sec";
/// TLS handshakes per second, full and resumed ones.
pub const HANDSHAKES_PER_SEC: &str = "handshakes_per_sec";
/// Bytes of responses per second.
pub const BYTES_PER_SEC: &str = "bytes_transfer_per_sec";
/// Arithmetic mean of the latency, microseconds.
pub const LATENCY_MEAN_US: &str = "latency_mean_us";
/// Largest sample of the latency, microseconds.
pub const LATENCY_MAX_US: &str = "latency_max_us";
/// Requests that failed, and errors that ended no request: [`crate::Errors::failures`]. In other
/// tools' reports, the sum of wrk's four counters.
pub const ERRORS: &str = "errors";
/// Responses with a status above 399.
pub const STATUSES_OVER_399: &str = "statuses_over_399";
/// [`ERRORS`] and [`STATUSES_OVER_399`] together.
pub const FAILED: &str = "failed";
/// With a rate: responses in percent of the requests due.
pub const ANSWERED_PERCENT: &str = "answered_percent";

/// Generated tokens of complete responses, per second of the window.
pub const OUTPUT_TOKENS_PER_SEC: &str = "output_tokens_per_sec";
/// Requests within all limits of `--good`, in percent of those that were judged.
pub const GOODPUT: &str = "goodput";
/// Requests within all limits of `--good`, per second of the window.
pub const GOOD_REQUESTS_PER_SEC: &str = "good_requests_per_sec";

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

/// The groups of the kernel's counters.
const COUNTER_GROUPS: [&str; 13] = [
    "Icmp", "IcmpMsg", "Ip", "IpExt", "MPTcpExt", "Tcp", "TcpExt", "Udp", "UdpLite", "Sctp",
    "pressure", "softnet", "stat",
];

/// A name that is not that of a metric; one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownMetric(String);

impl std::error::Error for UnknownMetric {}

impl std::fmt::Display for UnknownMetric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let near = near(&self.0).map_or_else(String::new, |near| format!("did you mean {near}? "));
        let times: Vec<&str> = Time::all().skip(1).map(Time::name).collect();
        let judged = rows().filter(|row| !row.is_of_plan());
        let rows: Vec<String> = judged
            .map(|row| [&[row.name], row.aliases].concat().join(" = "))
            .collect();
        write!(
            f,
            "{:?} is not a metric ({near}expected p50, p99.9, max, min, mean or stdev of the \
             latency, or of {}, like connect_p99; {}; or one like status_503, error_refused, \
             thread_rate_mean, sockets_rtt_p99_us, TcpExt.ListenDrops)",
            self.0,
            times.join(", "),
            rows.join(", ")
        )
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
    /// Neither: the value describes the load or the run.
    Neither,
}

/// One thing measured in a run. Two are equal if their names are.
#[derive(Debug, Clone, Serialize)]
pub struct Metric {
    /// The stable name, such as `latency_p99_us`.
    pub name: String,
    /// The name in sentences and headings.
    pub label: String,
    /// Whether higher or lower values are better.
    pub better: Better,
    /// The unit of its values.
    #[serde(skip)]
    pub unit: Unit,
    #[serde(skip)]
    source: MetricSource,
}

impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Where the value of a metric comes from.
#[derive(Debug, Clone, Copy)]
enum MetricSource {
    Row(&'static MetricRow),
    ErrorKind(ErrorKind),
    Status(u16),
    Time(Time, Statistic),
    ThreadRate(Statistic),
    Socket(&'static SocketRow),
    /// A kernel counter, or a metric that only another source has.
    Other,
}

/// One number of a distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    /// The arithmetic mean of the samples.
    Mean,
    /// The sample standard deviation.
    Stdev,
    /// The smallest of the samples.
    Min,
    /// The largest of the samples.
    Max,
    /// The share of samples within one standard deviation of the mean, 0..=100.
    WithinStdevPercent,
    /// The percentile of this number, 0..=100.
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

    /// The stable name of this number of a time: `latency_p99_us`.
    #[must_use]
    pub fn of_time(self, time: Time) -> String {
        let unit = match self {
            Self::WithinStdevPercent => "",
            _ => "_us",
        };
        format!("{}_{}{unit}", time.name(), self.name())
    }

    /// This number of wrk's rate samples, requests per second per worker.
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

impl MetricRow {
    fn is_of_plan(&self) -> bool {
        matches!(self.value, Getter::OfPlan(_))
    }

    /// Whether a run with more requests has more of it.
    fn grows_with_load(&self) -> bool {
        matches!(self.value, Getter::PerSec(_)) || [REQUESTS, BYTES].contains(&self.name)
    }
}

impl Metric {
    /// The metric of this name or short name. An unknown name is treated as that of a kernel
    /// counter.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let row = rows().find(|row| row.name == name);
        let known = row.map(Self::of_row).or_else(|| Self::known(name));
        known.unwrap_or_else(|| Self::new(name.to_owned(), MetricSource::Other))
    }

    /// The metric of a name or a short name that can be judged; what the plan sets cannot. Kernel
    /// counters have a name with a dot, like `TcpExt.ListenDrops`; whether the kernel has one is
    /// not known here.
    ///
    /// # Errors
    /// When there is none.
    pub fn parse(name: &str) -> Result<Self, UnknownMetric> {
        let counter = || {
            let (group, counter) = name.split_once('.')?;
            let is_counter = counter.starts_with(|c: char| c.is_ascii_alphabetic());
            (is_counter && COUNTER_GROUPS.contains(&group)).then(|| Self::named(name))
        };
        let known = Self::known(name).or_else(counter);
        known.ok_or_else(|| UnknownMetric(name.to_owned()))
    }

    /// The metric of a name or a short name, unless the plan sets it or it is a kernel counter.
    #[must_use]
    pub fn known(name: &str) -> Option<Self> {
        let mut known = rows().filter(|row| !row.is_of_plan());
        let row = known.find(|row| row.name == name || row.aliases.contains(&name));
        row.map(Self::of_row).or_else(|| Self::of_family(name))
    }

    fn of_row(row: &'static MetricRow) -> Self {
        Self::new(row.name.to_owned(), MetricSource::Row(row))
    }

    fn of_family(name: &str) -> Option<Self> {
        if let Some(status) = name.strip_prefix("status_") {
            let status = status.parse().ok().map(MetricSource::Status)?;
            return Some(Self::new(name.to_owned(), status));
        }
        if let Some(kind) = name.strip_prefix("error_") {
            let kind = ErrorKind::from_name(kind).map(MetricSource::ErrorKind)?;
            return Some(Self::new(name.to_owned(), kind));
        }
        if let Some(statistic) = name.strip_prefix("thread_rate_") {
            let statistic = Statistic::named(statistic).map(MetricSource::ThreadRate)?;
            return Some(Self::new(name.to_owned(), statistic));
        }
        if let Some(value) = name.strip_prefix("sockets_") {
            let row = SOCKETS.iter().find(|(known, _)| *known == value)?;
            return Some(Self::new(name.to_owned(), MetricSource::Socket(row)));
        }
        let of_time = Time::all().find_map(|time| {
            let rest = name.strip_prefix(time.name())?.strip_prefix('_')?;
            let statistic = Statistic::named(rest.strip_suffix("_us").unwrap_or(rest))?;
            Some((time, statistic))
        });
        let of_latency = || Some((Time::LATENCY, Statistic::named(name)?));
        let (time, statistic) = of_time.or_else(of_latency)?;
        let source = MetricSource::Time(time, statistic);
        Some(Self::new(statistic.of_time(time), source))
    }

    fn new(name: String, source: MetricSource) -> Self {
        use Better::{Higher, Lower, Neither};
        let by_ending = [
            ("_percent", Unit::Percent),
            ("_us", Unit::Microseconds),
            ("_ms", Unit::Milliseconds),
        ];
        let by_ending = by_ending.into_iter().find(|(end, _)| name.ends_with(end));
        let unit = by_ending.map_or(Unit::Count, |(_, unit)| unit);
        let (unit, better) = match source {
            MetricSource::Row(row) => (row.unit, row.better),
            MetricSource::ErrorKind(_) => (Unit::Count, Lower),
            MetricSource::Time(_, Statistic::WithinStdevPercent) => (unit, Neither),
            MetricSource::Time(..) => (unit, Lower),
            MetricSource::ThreadRate(Statistic::WithinStdevPercent) => (unit, Neither),
            MetricSource::ThreadRate(Statistic::Mean) => (Unit::RequestsPerSec, Higher),
            MetricSource::ThreadRate(_) => (Unit::RequestsPerSec, Neither),
            MetricSource::Socket((name, _)) if name.starts_with("cwnd") => {
                (Unit::Segments, Neither)
            }
            MetricSource::Status(_) | MetricSource::Socket(_) | MetricSource::Other => {
                (unit, Neither)
            }
        };
        let label = match source {
            MetricSource::Row(row) => row.label.to_owned(),
            MetricSource::Time(time, statistic) => statistic.label(&time.label()),
            MetricSource::ThreadRate(statistic) => statistic.label("requests/s per thread"),
            _ => match percentile_of(&name) {
                Some((of, percent)) => Statistic::Percentile(percent).label(&of.replace('_', " ")),
                None => name.clone(),
            },
        };
        Self {
            label,
            better,
            unit,
            source,
            name,
        }
    }

    /// Whether `name` is the stable name of a metric other than telemetry.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        let metric = Self::named(name);
        metric.name == name
            && !matches!(metric.source, MetricSource::Socket(_) | MetricSource::Other)
    }

    /// The metric's value in a result; `None` where it was not measured.
    #[must_use]
    pub fn of(&self, result: &RunResult) -> Option<Measured> {
        let telemetry = result.telemetry.as_ref();
        let value = match self.source {
            MetricSource::Socket((_, get)) => get(telemetry?.sockets.as_ref()?)?,
            MetricSource::Other => *telemetry?.counters.get(&self.name)? as f64,
            _ => return self.so_far(Counted::of(result)),
        };
        Some(Measured::exact(value))
    }

    /// The metric's value in a run that may be in progress; `None` where it was not measured.
    /// Telemetry is known only at the end.
    #[must_use]
    pub fn so_far(&self, run: Counted<'_>) -> Option<Measured> {
        let recording = run.recording;
        let value = match self.source {
            MetricSource::Row(row) => match row.value {
                Getter::OfPlan(get) | Getter::Number(get) => get(run)?,
                Getter::PerSec(get) => run.per_sec(get(run)?),
                Getter::Count(get) | Getter::Part(get, _) => get(run)? as f64,
                Getter::Share(part, whole) => crate::percent(part(run)?, whole(run))?,
            },
            MetricSource::ErrorKind(kind) => recording.errors.count(kind).events as f64,
            MetricSource::Status(status) => recording.statuses.count(status) as f64,
            MetricSource::Time(time, statistic) => {
                return time.samples(recording)?.statistic(statistic);
            }
            MetricSource::ThreadRate(statistic) => statistic.of_rates(&recording.rates)?,
            MetricSource::Socket(_) | MetricSource::Other => return None,
        };
        Some(Measured::exact(value))
    }

    /// The metric's value without what the load generator caused, as far as that is known: rates as
    /// if connections had never waited for it, and latencies without its own shares. Of other
    /// metrics it is [`Self::of`].
    #[must_use]
    pub fn without_own(&self, result: &RunResult) -> Option<Measured> {
        let shown = self.of(result)?;
        let recording = &result.recording;
        let statistic = match self.source {
            MetricSource::Row(row) if row.grows_with_load() => {
                return Some(shown.times(load_without_own(result)));
            }
            MetricSource::ThreadRate(statistic) if statistic != Statistic::WithinStdevPercent => {
                return Some(shown.times(load_without_own(result)));
            }
            MetricSource::Time(time, statistic)
                if [Time::LATENCY, Time::SERVICE_TIME].contains(&time) =>
            {
                statistic
            }
            _ => return Some(shown),
        };
        let is_latency =
            matches!(self.source, MetricSource::Time(time, _) if time == Time::LATENCY);
        if recording.attribution.shown.is_empty() {
            return Some(shown);
        }
        let corrected = if is_latency || recording.counters.due == 0 {
            recording.corrected_latency()
        } else {
            recording.corrected_service_time()
        };
        let none = Histogram::new();
        let value = Samples::new(&corrected, &none).statistic(statistic)?.value;
        Some(Measured { value, ..shown })
    }

    /// Whether a share of it can be judged: it is a part of a count, or a percentage itself.
    #[must_use]
    pub fn has_whole(&self) -> bool {
        let is_part = match self.source {
            MetricSource::Row(row) => matches!(row.value, Getter::Part(..)),
            MetricSource::ErrorKind(_) | MetricSource::Status(_) => true,
            _ => false,
        };
        is_part || self.unit == Unit::Percent
    }

    /// Whether it is counted for the requests of each name.
    #[must_use]
    pub fn is_of_requests(&self) -> bool {
        match self.source {
            MetricSource::Row(row) => row.needs.is_of_requests,
            MetricSource::Time(time, _) => time == Time::LATENCY,
            MetricSource::ErrorKind(_) | MetricSource::Status(_) => true,
            MetricSource::ThreadRate(_) | MetricSource::Socket(_) | MetricSource::Other => false,
        }
    }

    /// The count of a metric that is a part or a share, and the count that it is a part of, such as
    /// the attempts to send a request for errors.
    #[must_use]
    pub fn part_and_whole(&self, result: &RunResult) -> Option<(u64, u64)> {
        let recording = &result.recording;
        let run = Counted::of(result);
        match self.source {
            MetricSource::Row(row) => match row.value {
                Getter::Part(part, whole) | Getter::Share(part, whole) => {
                    Some((part(run)?, whole(run)))
                }
                _ => None,
            },
            MetricSource::ErrorKind(kind) => {
                Some((recording.errors.count(kind).events, attempts(run)))
            }
            MetricSource::Status(status) => Some((recording.statuses.count(status), answered(run))),
            _ => None,
        }
    }

    /// What a run without a value lacks.
    #[must_use]
    pub fn needs(&self) -> Needs {
        match self.source {
            MetricSource::Row(row) => row.needs,
            MetricSource::Time(time, _) => time.needs(),
            MetricSource::Socket(_) => Needs::SOCKETS,
            MetricSource::Other => Needs::COUNTER,
            MetricSource::Status(_) => Needs::RESPONSES,
            MetricSource::ErrorKind(_) | MetricSource::ThreadRate(_) => Needs::REQUESTS,
        }
    }
}

/// By what factor a run would have had more responses without the load generator's delays: in a
/// closed loop its connections would have been used all the time, with a rate what it left out
/// would have been sent.
fn load_without_own(result: &RunResult) -> f64 {
    /// Of a run in which connections hardly ever were in use, nothing is known.
    const FACTOR_MAX: f64 = 100.0;
    let attribution = &result.recording.attribution;
    let (lost, all) = if result.plan.pacing.is_open() {
        let sent = result.recording.counters.sent;
        (attribution.unsent, sent.saturating_add(attribution.unsent))
    } else {
        result.connections_idle_ns()
    };
    if all > 0 {
        1.0 / (1.0 - lost as f64 / all as f64).max(1.0 / FACTOR_MAX)
    } else {
        1.0
    }
}

/// Name of a percentile (0..=100) of a [`Time`]: `latency_p99.9_us`.
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
    let is_counter = || name.contains('.') && Metric::known(name).is_none();
    name.starts_with("sockets_") || is_counter()
}

/// Names of everything that can be judged, with percentiles as most people ask for them.
pub fn names() -> impl Iterator<Item = String> {
    let percentiles = [50.0, 90.0, 99.0, 99.9].map(Statistic::Percentile);
    let statistics = move || STATISTICS.into_iter().chain(percentiles);
    let short = statistics().map(Statistic::name);
    let of_times = Time::all().flat_map(move |time| {
        let names = statistics().map(move |statistic| statistic.of_time(time));
        names.flat_map(|name| {
            let without_unit = name.strip_suffix("_us").map(str::to_owned);
            without_unit.into_iter().chain([name.clone()])
        })
    });
    let judged = rows().filter(|row| !row.is_of_plan());
    let rows = judged.flat_map(|row| [&[row.name], row.aliases].concat());
    let others = rows.chain(["thread_rate_mean"]).chain(TELEMETRY);
    let kinds = ErrorKind::ALL.iter().copied().map(of_error);
    let others = others.map(str::to_owned);
    short.chain(others).chain(of_times).chain(kinds)
}

/// The names of all metrics by topic, each with its label and other names. Times have one name
/// each, with a percentile; families of names have an example.
#[must_use]
pub fn names_by_topic() -> Vec<(&'static str, Vec<(String, String)>)> {
    let of_rows = rows().map(|row| (row.needs, row.name.to_owned()));
    let times = Time::all().map(|time| (time.needs(), percentile(time.name(), 99.0)));
    let rates = STATISTICS.map(|it| (Needs::REQUESTS, format!("thread_rate_{}", it.name())));
    let families = [
        (Needs::REQUESTS, "error_refused".to_owned()),
        (Needs::RESPONSES, "status_200".to_owned()),
    ];
    let watched = TELEMETRY.iter().map(|name| {
        let is_of_sockets = name.starts_with("sockets_");
        let needs = if is_of_sockets {
            Needs::SOCKETS
        } else {
            Needs::COUNTER
        };
        (needs, (*name).to_owned())
    });
    let all = of_rows
        .chain(times)
        .chain(rates)
        .chain(families)
        .chain(watched);
    let mut topics: Vec<(&'static str, Vec<(String, String)>)> = Vec::new();
    for (needs, name) in all {
        let topic = needs.topic;
        let meaning = meaning(&name);
        match topics.iter_mut().find(|(known, _)| *known == topic) {
            Some((_, names)) => names.push((name, meaning)),
            None => topics.push((topic, vec![(name, meaning)])),
        }
    }
    topics
}

/// The label of a metric, if it says more than the name, and the other names that are accepted.
fn meaning(name: &str) -> String {
    let label = Metric::named(name).label;
    let row = rows().find(|row| row.name == name);
    let aliases = row.map(|row| row.aliases).unwrap_or_default();
    let label = Some(label.as_str()).filter(|label| *label != name && !aliases.contains(label));
    let also = (!aliases.is_empty()).then(|| format!("also {}", aliases.join(", ")));
    let parts = label.map(str::to_owned).into_iter().chain(also);
    parts.collect::<Vec<_>>().join("; ")
}

/// The name of a metric that `name` resembles.
fn near(name: &str) -> Option<String> {
    let names: Vec<String> = names().collect();
    nearest(name, names.iter().map(String::as_str)).map(str::to_owned)
}

/// The metrics that say most about a run with tokens, the most important one first. The last one is
/// known only of runs with `--good`.
#[must_use]
pub fn of_tokens() -> [String; 5] {
    let of = |time: Time, percent| percentile(time.name(), percent);
    [
        OUTPUT_TOKENS_PER_SEC.to_owned(),
        of(FIRST_TOKEN, 50.0),
        of(FIRST_TOKEN, 99.0),
        of(TIME_PER_TOKEN, 50.0),
        GOODPUT.to_owned(),
    ]
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

/// The name of the number of responses with a status: `status_200`.
#[must_use]
pub fn of_status(status: u16) -> String {
    format!("status_{status}")
}

/// The name of the number of errors of a kind: `error_refused`.
#[must_use]
pub fn of_error(kind: ErrorKind) -> String {
    format!("error_{kind}")
}

/// What was counted in a result, by metric name, without what the plan sets: totals, rates and
/// shares, and the statuses and kinds of errors that occurred.
fn counts(result: &RunResult) -> BTreeMap<String, f64> {
    counts_of(rows(), Counted::of(result))
}

/// As in [`values`], what is counted of a run in progress: without what is known only at its end.
#[must_use]
pub fn counts_so_far(run: Counted<'_>) -> BTreeMap<String, f64> {
    counts_of(rows().filter(|row| !row.is_of_end), run)
}

fn counts_of<'r>(
    rows: impl Iterator<Item = &'r MetricRow>,
    run: Counted<'_>,
) -> BTreeMap<String, f64> {
    let rows = rows.filter(|row| !row.is_of_plan());
    let rows = rows
        .map(|row| row.name)
        .filter(|name| !LEFT_OUT.contains(name));
    let errors = run.recording.errors.iter().map(|(kind, _)| of_error(kind));
    let statuses = run.recording.statuses.iter();
    let statuses = statuses.map(|(status, _)| of_status(status));
    let names = rows.map(str::to_owned).chain(errors).chain(statuses);
    let known = names.filter_map(|name| {
        let value = Metric::named(&name).so_far(run)?.value;
        Some((name, value))
    });
    known.collect()
}

/// Counts that say nothing beside the others, or only in some runs.
const LEFT_OUT: [&str; 4] = [
    "unanswered",
    ANSWERED_PERCENT,
    CONNECTS_PER_SEC,
    HANDSHAKES_PER_SEC,
];

/// The values of a result by metric name. They include the statuses and kinds of errors that
/// occurred, and the percentiles that every summary has.
#[must_use]
pub fn values(result: &RunResult) -> BTreeMap<String, f64> {
    let recording = &result.recording;
    let of_plan = rows().filter(|row| row.is_of_plan());
    let of_threads = STATISTICS.map(|statistic| format!("thread_rate_{}", statistic.name()));
    let others = of_plan
        .map(|row| row.name.to_owned())
        .chain(of_threads)
        .chain(SOCKETS.iter().map(|(name, _)| format!("sockets_{name}")));
    let mut values = counts(result);
    values.extend(others.filter_map(|name| {
        let value = Metric::named(&name).of(result)?.value;
        Some((name, value))
    }));
    for time in Time::all() {
        // Merged once for all of its statistics.
        let samples: Option<Samples<'_>> = time.samples(recording);
        let percentiles = Summary::PERCENTILES.map(Statistic::Percentile);
        let statistics = STATISTICS.into_iter().chain(percentiles);
        values.extend(statistics.filter_map(|statistic| {
            let value = samples.as_ref()?.statistic(statistic)?.value;
            Some((statistic.of_time(time), value))
        }));
    }
    let counters = result.telemetry.iter().flat_map(|known| &known.counters);
    values.extend(counters.map(|(name, growth)| (name.clone(), *growth as f64)));
    values
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
    fn more_tokens_and_good_requests_are_better_and_so_is_less_time() {
        use Better::{Higher, Lower};
        let known = of_tokens().map(|name| Metric::known(&name).map(|metric| metric.better));
        assert_eq!(known, [Higher, Lower, Lower, Lower, Higher].map(Some));
        let rate = Metric::known(GOOD_REQUESTS_PER_SEC).map(|metric| metric.better);
        assert_eq!(rate, Some(Higher));
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
            ("proxy_p99", "us", "p99 proxy", Lower),
            ("quic_lost", "count", "QUIC packets lost", Lower),
            ("quic_rtt_p50", "us", "p50 quic rtt", Lower),
            ("error_refused", "count", "error_refused", Lower),
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
            ("connect_p99", "connect_p99_us"),
            ("service_time_p99", "service_time_p99_us"),
            ("failures", ERRORS),
            ("errors_read", "errors_read"),
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
            ("latency_p9O", "did you mean latency_p9"),
            ("failure", "did you mean failures?"),
            ("p101", "expected p50, "),
            ("connections", "did you mean connects?"),
            ("threads", "expected p50, "),
            ("latency_p101.5_us", "did you mean latency_p"),
            ("", "expected p50, "),
            ("nothing of this kind", "expected p50, "),
            ("Login.p98x", "expected p50, "),
        ] {
            let error = Metric::parse(name).expect_err(name).to_string();
            assert!(error.contains(expected), "{name}: {error}");
            assert!(error.starts_with(&format!("{name:?} is not a metric (")));
            assert_eq!(error.lines().count(), 1);
        }
    }

    #[test]
    fn the_refusal_names_every_metric_that_can_be_judged() {
        let error = Metric::parse("nothing of this kind").expect_err("it is none");
        let error = error.to_string();
        for row in rows().filter(|row| !row.is_of_plan()) {
            assert!(error.contains(row.name), "{}", row.name);
            assert!(row.aliases.iter().all(|alias| error.contains(alias)));
        }
        assert!(
            Time::all().all(|time| error.contains(time.name())),
            "{error}"
        );
    }

    #[test]
    fn the_list_has_every_metric_with_its_other_names_and_the_documents_have_the_short_ones() {
        let judging = include_str!("../../../docs/judging.md");
        let list: Vec<_> = names_by_topic()
            .into_iter()
            .flat_map(|(_, names)| names)
            .collect();
        for row in rows() {
            let (_, meaning) = list
                .iter()
                .find(|(name, _)| name == row.name)
                .expect(row.name);
            assert!(
                row.label == row.name || meaning.contains(row.label),
                "{meaning}"
            );
            for alias in row.aliases {
                assert!(meaning.contains(alias), "{meaning}");
            }
            for alias in row.aliases.iter().filter(|alias| !alias.contains('/')) {
                assert!(judging.contains(&format!("`{alias}`")), "{alias}");
            }
        }
        for time in Time::all().map(Time::name) {
            assert!(list.iter().any(|(name, _)| *name == percentile(time, 99.0)));
            assert!(
                time == "latency" || judging.contains(&format!("`{time}`")),
                "{time}"
            );
        }
    }

    #[test]
    fn every_name_is_that_of_one_metric() {
        let mut stable = std::collections::BTreeSet::new();
        for name in names() {
            let metric = Metric::parse(&name).expect(&name);
            assert_eq!(Metric::named(&metric.name), metric, "{name}");
            if metric.name == name {
                assert!(stable.insert(name.clone()), "{name} twice");
            }
        }
        assert!(Time::all().all(|time| Time::named(time.name()) == Some(time)));
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
