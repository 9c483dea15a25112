//! Conditions under which a run counts as failed (`--fail-if 'p99>50ms'`).

use std::fmt;

use plan::readable::{self, count, decimal, exact_time_ns};
use plan::units::{self, UnitError, parse_percent};
use results::metric::{self, Better, Unit};
use results::{Measured, Metric, RunResult, UnknownMetric, percent};

use crate::{RelativeToLimit, sentences};

/// A condition on a finished run: a metric, an operator, a limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Criterion {
    /// The name of the requests that the condition is about; `None` if it is about all.
    request: Option<String>,
    metric: Metric,
    /// The name of the metric as `--fail-if` has it.
    name: String,
    operator: Operator,
    limit: Limit,
    /// The condition as it was typed, without blanks.
    text: String,
}

/// Whether a [`Criterion`] holds for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The condition does not hold, so the run passes.
    Passed,
    /// The condition holds, so the run fails.
    Failed {
        /// What was measured, with its unit.
        value: String,
    },
    /// The run does not have the numbers to decide, or no request succeeded. This counts as failed:
    /// a check that checks nothing must not pass.
    Unknown {
        /// Why the run cannot tell, in one line.
        reason: String,
    },
}

/// Why a condition is not understood; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CriterionError {
    /// The text of the condition is empty.
    #[error("there is no condition (expected like p99>50ms)")]
    Empty,
    /// The condition has no operator.
    #[error("{0:?} has no comparison (expected >, >=, <, <= or ==, like p99>50ms)")]
    NoOperator(String),
    /// There is no metric of this name.
    #[error(transparent)]
    Metric(#[from] UnknownMetric),
    /// The condition names requests, and its metric is not counted for each name.
    #[error("{name:?}: {metric} is only known of all requests (write {metric})")]
    NotOfName {
        /// The metric with the name of the requests, as typed.
        name: String,
        /// The metric as typed.
        metric: String,
    },
    /// The limit is a baseline, which one run cannot be compared with.
    #[error(
        "{metric}: one run cannot be compared with a baseline (save several runs, and give the \
         condition to wrkbench compare BASE NEW --fail-if)"
    )]
    Baseline {
        /// The metric as typed.
        metric: String,
    },
    /// The limit does not fit the metric.
    #[error("{metric}: {problem}")]
    Limit {
        /// The metric as typed.
        metric: String,
        /// What is wrong with the limit, and what is expected.
        problem: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Above,
    AtLeast,
    Below,
    AtMost,
    Equal,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    /// In the unit of the metric.
    Value(f64),
    /// For a count: its share of the whole, 0..=100.
    Percent(f64),
}

/// A number of a run, in the unit of the limit, with its text.
struct Value {
    known: Measured,
    text: String,
    /// Whether one of the requests that it is about succeeded.
    has_success: bool,
}

/// Longest first, so that `>=` is not read as `>`.
const OPERATORS: [(&str, Operator); 5] = [
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    ("==", Operator::Equal),
    (">", Operator::Above),
    ("<", Operator::Below),
];

/// What a condition is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A run fails if it holds (`--fail-if`).
    FailsRun,
    /// A run has to meet it (`--slo`).
    Required,
}

impl Operator {
    /// The operator that looks the other way.
    fn reversed(self) -> Self {
        match self {
            Self::Above => Self::Below,
            Self::AtLeast => Self::AtMost,
            Self::Below => Self::Above,
            Self::AtMost => Self::AtLeast,
            Self::Equal => Self::Equal,
        }
    }

    fn sign(self) -> &'static str {
        let mut signs = OPERATORS.into_iter();
        let sign = signs.find(|(_, operator)| *operator == self);
        sign.map_or("", |(sign, _)| sign)
    }

    /// Where a value is for which the condition holds: `above`.
    fn word(self) -> &'static str {
        match self {
            Self::Above => "above",
            Self::AtLeast => "at or above",
            Self::Below => "below",
            Self::AtMost => "at or below",
            Self::Equal => "at",
        }
    }

    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Above => value > limit,
            Self::AtLeast => value >= limit,
            Self::Below => value < limit,
            Self::AtMost => value <= limit,
            Self::Equal => value == limit,
        }
    }
}

impl Criterion {
    /// Reads conditions separated by commas or blanks: `p99>50ms, errors > 0.1%`.
    ///
    /// # Errors
    /// When one of them is not understood, or there is none.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, CriterionError> {
        let mut criteria = Vec::new();
        for part in text.split(',') {
            let mut rest = part.trim();
            while !rest.is_empty() {
                let (criterion, behind) = Self::take(rest)?;
                criteria.push(criterion);
                rest = behind;
            }
        }
        if criteria.is_empty() {
            return Err(CriterionError::Empty);
        }
        Ok(criteria)
    }

    /// Reads one condition from the start, and gives what is left.
    fn take(text: &str) -> Result<(Self, &str), CriterionError> {
        let no_operator = || CriterionError::NoOperator(text.to_owned());
        let at = text.find(['<', '>', '=']).ok_or_else(no_operator)?;
        let (name, behind) = (text[..at].trim_end(), &text[at..]);
        let (sign, operator) = OPERATORS
            .into_iter()
            .find(|(sign, _)| behind.starts_with(sign))
            .ok_or_else(no_operator)?;
        let behind = behind[sign.len()..].trim_start();
        let end = behind.find(char::is_whitespace).unwrap_or(behind.len());
        let (limit_text, rest) = behind.split_at(end);
        // No request has such a name, and messages repeat it.
        let is_text = name.chars().all(plan::is_printable);
        let known = if is_text {
            split_name(name)
        } else {
            Metric::parse(name).map(|metric| (None, metric))
        };
        let (request, metric) = known?;
        if let Some(request) = request.filter(|_| !metric.is_of_requests()) {
            return Err(CriterionError::NotOfName {
                metric: name[request.len()..]
                    .trim_start_matches(['.', ' '])
                    .to_owned(),
                name: name.to_owned(),
            });
        }
        if limit_text.starts_with("baseline") {
            return Err(CriterionError::Baseline {
                metric: name.to_owned(),
            });
        }
        let limit = parse_limit(&metric, limit_text).map_err(|problem| CriterionError::Limit {
            metric: name.to_owned(),
            problem,
        })?;
        let criterion = Self {
            request: request.map(str::to_owned),
            metric,
            name: name.to_owned(),
            operator,
            limit,
            text: format!("{name}{sign}{limit_text}"),
        };
        Ok((criterion, rest.trim_start()))
    }

    /// Whether the condition needs a run with a rate.
    #[must_use]
    pub fn needs_a_rate(&self) -> bool {
        self.metric.name == metric::ANSWERED_PERCENT
    }

    /// How far the metric of a run is from the limit, with the condition as a requirement
    /// (`p99<50ms` must hold): the logarithm of metric / limit, or of limit / metric if the limit
    /// is a least value. Above zero the requirement is not met. Infinite for metrics that count
    /// failures, and if the run does not tell.
    #[must_use]
    pub fn excess(&self, result: &RunResult) -> f64 {
        let Ok(value) = self.value(result) else {
            return f64::INFINITY;
        };
        let (Limit::Value(limit) | Limit::Percent(limit)) = self.limit;
        let Measured { low, high, .. } = value.known;
        let is_kept = [low, high].map(|it| self.operator.holds(it, limit)) == [true; 2];
        let is_graded = matches!(
            self.metric.unit,
            Unit::Microseconds
                | Unit::RequestsPerSec
                | Unit::ConnectsPerSec
                | Unit::EventsPerSec
                | Unit::Events
                | Unit::TokensPerSec
                | Unit::Tokens
        );
        // The geometric mean of the two values that it is between.
        let number = (low * high).sqrt();
        let excess = match self.operator {
            Operator::Below | Operator::AtMost => (number / limit).ln(),
            Operator::Above | Operator::AtLeast => (limit / number).ln(),
            Operator::Equal => f64::NAN,
        };
        match (is_graded && excess.is_finite(), is_kept) {
            (true, _) => excess,
            (false, true) => f64::NEG_INFINITY,
            (false, false) => f64::INFINITY,
        }
    }

    /// Whether a latency is this many times the limit or more even without what the load generator
    /// caused, so that the condition as a requirement fails whatever the load generator did.
    #[must_use]
    pub fn is_far_off_without_own(&self, result: &RunResult, times: f64) -> bool {
        let Some(limit_us) = self.latency_limit_us() else {
            return false;
        };
        let without_own = self.metric.without_own(result);
        self.is_upper_limit() && without_own.is_some_and(|it| it.value >= limit_us * times)
    }

    /// Whether the requirement limits the metric from above.
    pub(crate) fn is_upper_limit(&self) -> bool {
        matches!(self.operator, Operator::Below | Operator::AtMost)
    }

    /// For a share of a count, or of the requests that were answered: the part that must not be,
    /// divided by the allowed part. `None` for other metrics.
    pub(crate) fn counted_share(&self, result: &RunResult) -> Option<RelativeToLimit> {
        let Limit::Percent(limit) = self.limit else {
            return None;
        };
        let percent = self.value(result).ok()?.known.value;
        let whole = self.metric.part_and_whole(result).map(|(_, whole)| whole);
        let (beyond, allowed) = match self.operator {
            Operator::Below | Operator::AtMost => (percent, limit),
            Operator::Above | Operator::AtLeast => (100.0 - percent, 100.0 - limit),
            Operator::Equal => return None,
        };
        (allowed > 0.0).then(|| RelativeToLimit {
            relative: beyond / allowed,
            requests: whole.unwrap_or(result.recording.counters.due),
        })
    }

    /// The largest latency that meets the condition as a requirement, microseconds; `None` if it is
    /// not about latency.
    #[must_use]
    pub fn latency_limit_us(&self) -> Option<f64> {
        match (self.metric.unit, self.limit) {
            (Unit::Microseconds, Limit::Value(limit_us)) => Some(limit_us),
            _ => None,
        }
    }

    /// The name of the requests that the condition is about; `None` if it is about all.
    #[must_use]
    pub fn request(&self) -> Option<&str> {
        self.request.as_deref()
    }

    /// The metric that the condition is about.
    #[must_use]
    pub fn metric(&self) -> &Metric {
        &self.metric
    }

    /// Whether the condition holds for a run.
    #[must_use]
    pub fn judge(&self, result: &RunResult) -> Judgement {
        let value = match self.value(result) {
            Ok(value) => value,
            Err(reason) => return Judgement::Unknown { reason },
        };
        let (Limit::Value(limit) | Limit::Percent(limit)) = self.limit;
        let Measured { low, high, .. } = value.known;
        let holds = self.operator.holds(low, limit);
        // The condition is decided if it is the same for all values that the true one may have.
        let may_be_equal =
            self.operator == Operator::Equal && low < high && (low..=high).contains(&limit);
        if holds != self.operator.holds(high, limit) || may_be_equal {
            let upper = high.is_finite().then(|| self.text_of(high));
            let reason = match value.known.samples {
                Some(samples) if !value.known.enough_samples => sentences::too_few_samples(samples),
                _ => {
                    let lower = self.text_of(value.known.value);
                    sentences::uncertain_value(&lower, upper.as_deref())
                }
            };
            return Judgement::Unknown { reason };
        }
        match holds {
            true => Judgement::Failed { value: value.text },
            // What a server that fails every request is quick at says nothing.
            false if !value.has_success => Judgement::Unknown {
                reason: sentences::NO_SUCCESS.to_owned(),
            },
            false => Judgement::Passed,
        }
    }

    /// One line if the run has failed by this condition: `p99 is 61.2 ms, limit p99>50ms`.
    #[must_use]
    pub fn failure(&self, result: &RunResult) -> Option<String> {
        let name = &self.name;
        match self.judge(result) {
            Judgement::Passed => None,
            Judgement::Failed { value } => Some(format!("{name} is {value}, limit {self}")),
            Judgement::Unknown { reason } => {
                Some(format!("{name} is not known: {reason}, limit {self}"))
            }
        }
    }

    /// One line if the run passed: `p95 is 1.2 ms (fails above 500 ms)`.
    #[must_use]
    pub fn success(&self, result: &RunResult) -> Option<String> {
        let is_passed = self.judge(result) == Judgement::Passed;
        let value = self.value(result).ok().filter(|_| is_passed)?;
        let (at, limit) = (self.operator.word(), self.limit_text());
        Some(format!(
            "{} is {} (fails {at} {limit})",
            self.name, value.text
        ))
    }

    /// A warning if the condition is almost certainly meant the other way round: it fails runs that
    /// are good by its metric, or requires that they are bad.
    #[must_use]
    pub fn other_way_round(&self, purpose: Purpose) -> Option<String> {
        let is_about_high = match self.operator {
            Operator::Above | Operator::AtLeast => true,
            Operator::Below | Operator::AtMost => false,
            Operator::Equal => return None,
        };
        let is_about_good = match self.metric.better {
            Better::Higher => is_about_high,
            Better::Lower => !is_about_high,
            Better::Neither => return None,
        };
        if is_about_good != (purpose == Purpose::FailsRun) {
            return None;
        }
        let limit = &self.text[self.name.len() + self.operator.sign().len()..];
        let other = format!("{}{}{limit}", self.name, self.operator.reversed().sign());
        let place = format!("{} {}", self.operator.word(), self.limit_text());
        let said = sentences::other_way_round(self, purpose, &self.name, &place, &other);
        Some(said)
    }

    /// The limit with its unit.
    fn limit_text(&self) -> String {
        match self.limit {
            Limit::Value(limit) => self.text_of(limit),
            Limit::Percent(percent) => share_text(percent),
        }
    }

    /// The run's value in the unit of the limit, or why there is none.
    fn value(&self, result: &RunResult) -> Result<Value, String> {
        let Some(request) = &self.request else {
            return self.value_of(result);
        };
        match result.of_name(request) {
            Some(of_name) => self.value_of(&of_name),
            None => Err(sentences::no_such_name(request)),
        }
    }

    /// The value in a result that has only the requests that the condition is about.
    fn value_of(&self, result: &RunResult) -> Result<Value, String> {
        let metric = &self.metric;
        if self.needs_a_rate() && !result.plan.pacing.is_open() {
            return Err(sentences::NO_RATE.to_owned());
        }
        let not_measured = || metric.needs().missing(result).to_owned();
        let known = metric.of(result).ok_or_else(not_measured)?;
        let text = self.text_beside_limit(known.value);
        let has_success = result.has_success();
        match (self.limit, metric.part_and_whole(result)) {
            (Limit::Percent(_), Some((part, whole))) => {
                let share = percent(part, whole).ok_or_else(not_measured)?;
                Ok(Value {
                    text: format!(
                        "{} ({} of {})",
                        share_text(share),
                        count(part),
                        count(whole)
                    ),
                    known: Measured::exact(share),
                    has_success,
                })
            }
            _ => Ok(Value {
                known,
                text,
                has_success,
            }),
        }
    }

    /// A measured value with its unit. It has all of its digits only if fewer of them would make it
    /// look like the limit.
    fn text_beside_limit(&self, number: f64) -> String {
        let short = readable::time_us(number);
        match (self.metric.unit, self.limit) {
            (Unit::Microseconds, Limit::Value(limit_us))
                if short != readable::time_us(limit_us) =>
            {
                short
            }
            _ => self.text_of(number),
        }
    }

    /// A value of the metric, with its unit and all of its digits.
    fn text_of(&self, number: f64) -> String {
        match self.metric.unit {
            Unit::Microseconds => exact_time_ns((number * 1e3).round() as u64),
            Unit::Count => count(number as u64),
            Unit::Percent => share_text(number),
            _ => decimal(number, 2),
        }
    }
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A share in percent: `0.498 %`.
fn share_text(percent: f64) -> String {
    let digits = decimal(percent, 3);
    format!("{} %", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// The name of requests before a metric, if there is one, and the metric: `login.p99.9`.
fn split_name(text: &str) -> Result<(Option<&str>, Metric), UnknownMetric> {
    if let Some(metric) = Metric::known(text) {
        return Ok((None, metric));
    }
    // A name may have dots, and so may a percentile. The longest metric counts.
    let of_name = text.match_indices('.').find_map(|(dot, _)| {
        let metric = Metric::known(&text[dot + 1..])?;
        Some((Some(text[..dot].trim()), metric)).filter(|_| dot > 0)
    });
    of_name.map_or_else(|| Metric::parse(text).map(|metric| (None, metric)), Ok)
}

/// Reads the limit in the unit of the metric; otherwise says what is expected.
fn parse_limit(metric: &Metric, text: &str) -> Result<Limit, String> {
    let in_words = |error: UnitError| error.to_string();
    let as_percent = text.strip_suffix('%').map(|number| {
        parse_percent(number)
            .map(Limit::Percent)
            .ok_or_else(|| format!("{text:?} is not a share (expected from 0% to 100%)"))
    });
    match metric.unit {
        Unit::Microseconds => {
            if !text.ends_with(|c: char| c.is_ascii_alphabetic()) {
                return Err(format!(
                    "{text:?} is not a time with its unit (expected like 50ms, 800us, 1.5s)"
                ));
            }
            let limit = units::parse_time(text).map_err(in_words)?;
            Ok(Limit::Value(limit.as_nanos() as f64 / 1e3))
        }
        Unit::RequestsPerSec
        | Unit::ConnectsPerSec
        | Unit::EventsPerSec
        | Unit::Events
        | Unit::TokensPerSec
        | Unit::Tokens => units::parse_rate(text).map(Limit::Value).map_err(in_words),
        Unit::Percent => as_percent
            .unwrap_or_else(|| Err(format!("{text:?} is not a share (expected like 99%)"))),
        _ => match as_percent.filter(|_| metric.has_whole()) {
            Some(share) => share,
            None => {
                let count = units::parse_count(text).map_err(in_words)?;
                Ok(Limit::Value(count as f64))
            }
        },
    }
}
