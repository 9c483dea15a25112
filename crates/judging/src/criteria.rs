//! Conditions under which a run counts as failed (`--fail-if 'p99>50ms'`), and whether they hold.

use std::fmt;
use std::time::Duration;

use plan::units::{self, UnitError, parse_percent};
use results::{RunResult, Summary, percent};

/// A condition on a finished run: a metric, an operator, a limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Criterion {
    metric: Metric,
    operator: Operator,
    limit: Limit,
    /// As it was typed, without blanks.
    text: String,
}

/// What a run says to a [`Criterion`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The condition does not hold: all is well.
    Passed,
    /// The condition holds.
    Failed {
        /// What was measured, with its unit.
        value: String,
    },
    /// The run does not have the numbers to tell. This counts as failed: a check that checks nothing
    /// must not pass.
    Unknown {
        /// Why.
        reason: String,
    },
}

/// Why a condition is not understood; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CriterionError {
    /// There is nothing in it.
    #[error("there is no condition (expected like p99>50ms)")]
    Empty,
    /// It has no operator.
    #[error("{0:?} has no comparison (expected >, >=, <, <= or ==, like p99>50ms)")]
    NoOperator(String),
    /// Its metric is none of those in the text.
    #[error(
        "{0:?} is not a metric (expected p50, p99.9, max, min, mean, stdev, errors, status, unanswered, rps, rate or requests)"
    )]
    Metric(String),
    /// Its limit does not fit its metric.
    #[error("{metric}: {problem}")]
    Limit {
        /// The metric as typed.
        metric: String,
        /// What is wrong with the limit, and what is expected.
        problem: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Metric {
    /// Of latency, 0..=100.
    Percentile(f64),
    Max,
    Min,
    Mean,
    Stdev,
    /// [`results::Errors::failures`].
    Errors,
    /// Answers with a status above 399.
    Statuses,
    /// Requests without an answer, whatever the reason.
    Unanswered,
    RequestsPerSec,
    /// Answers in percent of what was due.
    Rate,
    /// Answers.
    Requests,
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
    Nanoseconds(f64),
    Count(f64),
    /// 0..=100.
    Percent(f64),
    PerSec(f64),
}

/// A number of a run, in the unit of its limit, and how it is written.
struct Value {
    number: f64,
    text: String,
    /// The true value is this or more: it depends on requests that had no response.
    is_lower_bound: bool,
}

/// Longest first, so that `>=` is not read as `>`.
const OPERATORS: [(&str, Operator); 5] = [
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    ("==", Operator::Equal),
    (">", Operator::Above),
    ("<", Operator::Below),
];

impl Operator {
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
        let metric = Metric::parse(name).ok_or_else(|| CriterionError::Metric(name.to_owned()))?;
        let limit = metric
            .parse_limit(limit_text)
            .map_err(|problem| CriterionError::Limit {
                metric: name.to_owned(),
                problem,
            })?;
        let criterion = Self {
            metric,
            operator,
            limit,
            text: format!("{name}{sign}{limit_text}"),
        };
        Ok((criterion, rest.trim_start()))
    }

    /// Whether it can only be judged of a run with a rate.
    #[must_use]
    pub fn needs_a_rate(&self) -> bool {
        self.metric == Metric::Rate
    }

    /// What the run says to it.
    #[must_use]
    pub fn judge(&self, result: &RunResult) -> Judgement {
        let value = match self.metric.value(self.limit, result) {
            Ok(value) => value,
            Err(reason) => return Judgement::Unknown { reason },
        };
        let (Limit::Nanoseconds(limit)
        | Limit::Count(limit)
        | Limit::Percent(limit)
        | Limit::PerSec(limit)) = self.limit;
        let holds = self.operator.holds(value.number, limit);
        // The true value may be anything from this one up. The condition is decided if it says the same of both ends.
        if value.is_lower_bound && holds != self.operator.holds(f64::INFINITY, limit)
            || value.is_lower_bound && self.operator == Operator::Equal && value.number < limit
        {
            let reason = format!(
                "it is {} or more, as it rests on requests without a response",
                value.text
            );
            return Judgement::Unknown { reason };
        }
        if holds {
            Judgement::Failed { value: value.text }
        } else {
            Judgement::Passed
        }
    }

    /// One line when the run has failed by this condition: `p99 is 61.2ms, limit p99>50ms`.
    #[must_use]
    pub fn failure(&self, result: &RunResult) -> Option<String> {
        let metric = self.metric;
        match self.judge(result) {
            Judgement::Passed => None,
            Judgement::Failed { value } => Some(format!("{metric} is {value}, limit {self}")),
            Judgement::Unknown { reason } => {
                Some(format!("{metric} is not known: {reason}, limit {self}"))
            }
        }
    }
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Metric {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "max" => Self::Max,
            "min" => Self::Min,
            "mean" => Self::Mean,
            "stdev" => Self::Stdev,
            "errors" => Self::Errors,
            "status" => Self::Statuses,
            "unanswered" => Self::Unanswered,
            "rps" => Self::RequestsPerSec,
            "rate" => Self::Rate,
            "requests" => Self::Requests,
            _ => Self::Percentile(parse_percent(name.strip_prefix('p')?)?),
        })
    }

    /// Reads the limit in the unit that the metric has; otherwise says what is expected.
    fn parse_limit(self, text: &str) -> Result<Limit, String> {
        let in_words = |error: UnitError| error.to_string();
        let as_percent = || match text.strip_suffix('%') {
            Some(number) => parse_percent(number)
                .map(|percent| Some(Limit::Percent(percent)))
                .ok_or_else(|| format!("{text:?} is not a share (expected from 0% to 100%)")),
            None => Ok(None),
        };
        let as_count = || {
            let count = units::parse_count(text).map_err(in_words)?;
            Ok(Limit::Count(count as f64))
        };
        match self {
            Self::Percentile(_) | Self::Max | Self::Min | Self::Mean | Self::Stdev => {
                if !text.ends_with(|c: char| c.is_ascii_alphabetic()) {
                    return Err(format!(
                        "{text:?} is not a time with its unit (expected like 50ms, 800us, 1.5s)"
                    ));
                }
                let limit = units::parse_time(text).map_err(in_words)?;
                Ok(Limit::Nanoseconds(limit.as_nanos() as f64))
            }
            Self::Errors | Self::Statuses | Self::Unanswered => match as_percent()? {
                Some(share) => Ok(share),
                None => as_count(),
            },
            Self::Requests => as_count(),
            Self::RequestsPerSec => units::parse_rate(text).map(Limit::PerSec).map_err(in_words),
            Self::Rate => {
                as_percent()?.ok_or_else(|| format!("{text:?} is not a share (expected like 99%)"))
            }
        }
    }

    /// The run's value in the unit of the limit, or why there is none.
    fn value(self, limit: Limit, result: &RunResult) -> Result<Value, String> {
        let counters = &result.recording.counters;
        match self {
            Self::Percentile(percent) => percentile(percent, result),
            Self::Max | Self::Min | Self::Mean | Self::Stdev => self.time(result),
            Self::Errors => {
                let failed = result.recording.errors.failures();
                let without_request = failed.saturating_sub(result.recording.errors.exchanges());
                let tried = counters.sent.saturating_add(without_request);
                share(failed, tried, limit, "nothing was sent")
            }
            Self::Statuses => share(
                result.recording.statuses.over_399(),
                counters.answered,
                limit,
                "nothing was answered",
            ),
            Self::Unanswered => {
                let wanted = counters.sent.saturating_add(counters.unsent);
                let without = wanted.saturating_sub(counters.answered);
                share(without, wanted, limit, "nothing was sent")
            }
            Self::RequestsPerSec => {
                let number = result.requests_per_sec();
                Ok(Value::exact(number, format!("{number:.2}")))
            }
            Self::Rate if !result.plan.pacing.is_open() => {
                Err("the run had no rate (-R, --stages)".to_owned())
            }
            Self::Rate => share(counters.answered, counters.due, limit, "nothing was due"),
            Self::Requests => Ok(Value::exact(
                counters.answered as f64,
                counters.answered.to_string(),
            )),
        }
    }

    /// A figure of the latency that has no rank.
    fn time(self, result: &RunResult) -> Result<Value, String> {
        let latency = Summary::of(result, &[]).latency;
        let ns = match self {
            Self::Max => latency.max_ns.map(|ns| ns as f64),
            Self::Min => latency.min_ns.map(|ns| ns as f64),
            Self::Stdev => latency.stdev_ns,
            _ => latency.mean_ns,
        };
        let is_lower_bound = self == Self::Max && result.recording.max_is_of_unanswered();
        ns.map(|ns| Value::of_ns(ns, is_lower_bound))
            .ok_or_else(|| NO_LATENCY.to_owned())
    }
}

/// As it is typed, `p99.9`.
impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Percentile(percent) => return write!(f, "p{percent}"),
            Self::Max => "max",
            Self::Min => "min",
            Self::Mean => "mean",
            Self::Stdev => "stdev",
            Self::Errors => "errors",
            Self::Statuses => "status",
            Self::Unanswered => "unanswered",
            Self::RequestsPerSec => "rps",
            Self::Rate => "rate",
            Self::Requests => "requests",
        })
    }
}

const NO_LATENCY: &str = "no request was answered";

impl Value {
    fn exact(number: f64, text: String) -> Self {
        Self {
            number,
            text,
            is_lower_bound: false,
        }
    }

    fn of_ns(ns: f64, is_lower_bound: bool) -> Self {
        Self {
            number: ns,
            text: units::time(Duration::from_nanos(ns.round() as u64)),
            is_lower_bound,
        }
    }
}

fn percentile(percent: f64, result: &RunResult) -> Result<Value, String> {
    let latency = Summary::of(result, &[percent]).latency;
    let found = latency
        .percentiles
        .iter()
        .find(|known| known.percent == percent)
        .ok_or_else(|| NO_LATENCY.to_owned())?;
    if !found.enough_samples {
        let count = latency.count;
        return Err(format!("{count} samples are too few for it"));
    }
    let is_lower_bound = match percent >= 100.0 {
        true => result.recording.max_is_of_unanswered(),
        false => found.lower_bound,
    };
    Ok(Value::of_ns(found.value_ns as f64, is_lower_bound))
}

/// `part` of `whole` as the limit has it: as a number, or in percent.
fn share(part: u64, whole: u64, limit: Limit, nothing: &str) -> Result<Value, String> {
    if !matches!(limit, Limit::Percent(_)) {
        return Ok(Value::exact(part as f64, part.to_string()));
    }
    let number = percent(part, whole).ok_or_else(|| nothing.to_owned())?;
    let text = format!("{number:.3}% ({part} of {whole})");
    Ok(Value::exact(number, text))
}
