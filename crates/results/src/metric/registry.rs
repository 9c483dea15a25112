//! The metrics of a run: a row for each. All names, units and sentences about metrics come from
//! here.

use Better::{Higher, Lower, Neither};

use super::{Better, Needs, Unit};
use crate::{AchievedRate, Counted, Histogram, Legacy, Recording, Samples, parts};

/// A metric that is not one of a family.
#[derive(Debug)]
pub(crate) struct MetricRow {
    /// The stable name, such as `requests_per_sec`.
    pub(crate) name: &'static str,
    /// Other names that are accepted for it.
    pub(crate) aliases: &'static [&'static str],
    /// The name in sentences and headings.
    pub(crate) label: &'static str,
    pub(crate) unit: Unit,
    pub(crate) better: Better,
    /// What a run without a value lacks.
    pub(crate) needs: Needs,
    pub(crate) value: Getter,
    /// Whether it is known only when the run has ended.
    pub(crate) is_of_end: bool,
}

impl MetricRow {
    /// Marks the metric as known only when the run has ended.
    pub(crate) const fn at_end(mut self) -> Self {
        self.is_of_end = true;
        self
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Getter {
    /// The plan sets it, so it cannot be judged.
    OfPlan(fn(Counted<'_>) -> Option<f64>),
    Number(fn(Counted<'_>) -> Option<f64>),
    /// A total per second of the window.
    PerSec(fn(Counted<'_>) -> Option<u64>),
    Count(fn(Counted<'_>) -> Option<u64>),
    /// A count, and the count that it is a part of.
    Part(fn(Counted<'_>) -> Option<u64>, fn(Counted<'_>) -> u64),
    /// The share that one count is of another one.
    Share(fn(Counted<'_>) -> Option<u64>, fn(Counted<'_>) -> u64),
}

pub(crate) const fn row(
    name: &'static str,
    aliases: &'static [&'static str],
    label: &'static str,
    (unit, better, needs): (Unit, Better, Needs),
    value: Getter,
) -> MetricRow {
    MetricRow {
        name,
        aliases,
        label,
        unit,
        better,
        needs,
        value,
        is_of_end: false,
    }
}

/// The whole that failures are a part of: all requests sent, and each event of an error that ended
/// no request.
pub(super) fn attempts(run: Counted<'_>) -> u64 {
    let errors = &run.recording.errors;
    let without_request = errors.failures().saturating_sub(errors.exchanges());
    let sent = run.recording.counters.sent;
    sent.saturating_add(without_request)
}

/// Errors and responses with a status above 399 together.
fn failed(run: Counted<'_>) -> u64 {
    let Recording {
        errors, statuses, ..
    } = &run.recording;
    let failed = errors.failures().saturating_add(statuses.over_399());
    failed.min(attempts(run))
}

fn responses(run: Counted<'_>) -> u64 {
    run.recording.counters.responses()
}

pub(crate) fn answered(run: Counted<'_>) -> u64 {
    run.recording.counters.answered
}

fn wanted(run: Counted<'_>) -> u64 {
    let counters = &run.recording.counters;
    counters.sent.saturating_add(counters.unsent)
}

fn handshakes(run: Counted<'_>) -> Option<u64> {
    let counters = &run.recording.counters;
    let all = counters.tls_full.saturating_add(counters.tls_resumed);
    (all > 0).then_some(all)
}

const fn errors(name: &'static str, value: fn(Counted<'_>) -> Option<u64>) -> MetricRow {
    let value = Getter::Part(value, attempts);
    row(
        name,
        &[],
        name,
        (Unit::Count, Lower, Needs::REQUESTS),
        value,
    )
}

/// All of them, in the order of lists: those of every run, of the parts, and of searches.
pub(super) fn rows() -> impl Iterator<Item = &'static MetricRow> {
    let of_parts = parts::ALL.iter().flat_map(|part| part.metrics);
    ROWS.iter().chain(of_parts).chain(&OF_SEARCHES)
}

#[rustfmt::skip]
static OF_SEARCHES: [MetricRow; 2] = [
    row(super::MAX_RATE, &[], "highest rate", (Unit::RequestsPerSec, Higher, Needs::SEARCH),
        Getter::Number(|_| None)),
    row(super::MAX_CONNECTIONS, &[], "most connections", (Unit::Count, Higher, Needs::SEARCH),
        Getter::Number(|_| None)),
];

#[rustfmt::skip]
static ROWS: [MetricRow; 19] = [
    row("requests", &[], "requests", (Unit::Count, Higher, Needs::REQUESTS),
        Getter::Count(|run| Some(responses(run)))),
    row("duration_in_microseconds", &[], "duration", (Unit::Microseconds, Neither, Needs::REQUESTS),
        Getter::Number(|run| Some(run.duration_ns as f64 / 1e3))),
    row("bytes", &[], "bytes", (Unit::Bytes, Neither, Needs::REQUESTS),
        Getter::Count(|run| Some(run.recording.counters.bytes))),
    row("requests_per_sec", &["rps", "requests/s"], "requests/s",
        (Unit::RequestsPerSec, Higher, Needs::REQUESTS),
        Getter::PerSec(|run| Some(responses(run)))),
    row("bytes_transfer_per_sec", &[], "bytes/s", (Unit::BytesPerSec, Higher, Needs::REQUESTS),
        Getter::PerSec(|run| Some(run.recording.counters.bytes))),
    row("threads", &[], "threads", (Unit::Count, Neither, Needs::REQUESTS),
        Getter::OfPlan(|run| Some(f64::from(run.plan.load.threads)))),
    row("connections", &[], "connections", (Unit::Count, Neither, Needs::REQUESTS),
        Getter::OfPlan(|run| Some(f64::from(run.plan.load.connections)))),
    row("rate", &[], "rate", (Unit::RequestsPerSec, Neither, Needs::RATE),
        Getter::OfPlan(|run| AchievedRate::of_counted(run).map(|rate| rate.asked_per_sec))),
    row("errors", &["failures"], "errors", (Unit::Count, Lower, Needs::REQUESTS),
        Getter::Part(|run| Some(run.recording.errors.failures()), attempts)),
    errors("errors_connect", |run| Some(run.recording.errors.legacy(Legacy::Connect))),
    errors("errors_read", |run| Some(run.recording.errors.legacy(Legacy::Read))),
    errors("errors_write", |run| Some(run.recording.errors.legacy(Legacy::Write))),
    errors("errors_timeout", |run| Some(run.recording.errors.legacy(Legacy::Timeout))),
    row("statuses_over_399", &["status"], "statuses above 399",
        (Unit::Count, Lower, Needs::RESPONSES),
        Getter::Part(|run| Some(run.recording.statuses.over_399()), answered)),
    row("failed", &[], "failed requests", (Unit::Count, Lower, Needs::REQUESTS),
        Getter::Part(|run| Some(failed(run)), attempts)),
    row("unanswered", &[], "unanswered", (Unit::Count, Lower, Needs::REQUESTS),
        Getter::Part(|run| Some(wanted(run).saturating_sub(answered(run))), wanted)),
    row("answered_percent", &["rate"], "responses of those due",
        (Unit::Percent, Higher, Needs::RATE),
        Getter::Share(|run| Some(answered(run)), |run| run.recording.counters.due)),
    row("connects_per_sec", &["connects"], "connections opened per second",
        (Unit::ConnectsPerSec, Higher, Needs::CONNECTIONS),
        Getter::PerSec(|run| Some(run.recording.counters.connections_opened))),
    row("handshakes_per_sec", &["handshakes"], "TLS handshakes per second",
        (Unit::ConnectsPerSec, Higher, Needs::HANDSHAKES), Getter::PerSec(handshakes)),
];

/// A time of which a result has a distribution: its metrics are called `name_p99_us`,
/// `name_mean_us` and so on.
#[derive(Debug)]
pub(crate) struct TimeRow {
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    pub(crate) samples: fn(&Recording) -> Option<Samples<'_>>,
}

/// In place of ages that a distribution does not have.
static NO_AGES: std::sync::LazyLock<Histogram> = std::sync::LazyLock::new(Histogram::new);

pub(crate) fn measured(histogram: &Histogram) -> Option<Samples<'_>> {
    Some(Samples::new(histogram, &NO_AGES))
}

#[rustfmt::skip]
static TIMES: [TimeRow; 7] = [
    TimeRow { name: "latency", needs: Needs::RESPONSES,
        samples: |it| Some(it.latency_samples()) },
    TimeRow { name: "service_time", needs: Needs::RESPONSES,
        samples: |it| Some(Samples::new(&it.service_time, &it.timed_out)) },
    TimeRow { name: "connect", needs: Needs::CONNECTIONS,
        samples: |it| measured(&it.phases.connect) },
    TimeRow { name: "proxy", needs: Needs::PROXY,
        samples: |it| measured(&it.phases.proxy) },
    TimeRow { name: "tls", needs: Needs::HANDSHAKES,
        samples: |it| measured(&it.phases.tls) },
    TimeRow { name: "first_byte", needs: Needs::RESPONSES,
        samples: |it| measured(&it.phases.first_byte) },
    TimeRow { name: "last_byte", needs: Needs::RESPONSES,
        samples: |it| measured(&it.phases.last_byte) },
];

/// A time of which a result has a distribution.
#[derive(Debug, Clone, Copy)]
pub struct Time(&'static TimeRow);

impl PartialEq for Time {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Time {
    /// [`Recording::latency`]: what reports show first.
    pub const LATENCY: Self = Self(&TIMES[0]);
    /// [`Recording::uncorrected`]: from sending to the last byte.
    pub const SERVICE_TIME: Self = Self(&TIMES[1]);

    pub(crate) const fn of(row: &'static TimeRow) -> Self {
        Self(row)
    }

    /// All of them, in the order of lists: those of every run, then those of the parts.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_parts = parts::ALL.iter().flat_map(|part| part.times);
        TIMES.iter().chain(of_parts).map(Self)
    }

    /// The name of this time, with which those of its metrics begin: `service_time`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name
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
        self.0.needs
    }

    /// Its samples; `None` if it was not measured.
    #[must_use]
    pub fn samples(self, recording: &Recording) -> Option<Samples<'_>> {
        (self.0.samples)(recording)
    }
}
