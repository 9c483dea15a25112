//! Limits for differences from a baseline: `--fail-on-regression 5%` and
//! `--fail-if 'p99 > baseline + 5%'`.

use std::fmt;

use plan::units::parse_percent;

use super::{Comparison, Difference, Level, Metric, Outcome};

/// The word for the value of the first level.
const BASELINE: &str = "baseline";

/// How much a level may differ from the first one.
#[derive(Debug, Clone, PartialEq)]
pub enum ChangeLimit {
    /// Any metric that is compared may get worse by this share: 0.05 for 5 %.
    Worse(f64),
    /// One metric may change in one direction by a share.
    Metric {
        /// The metric.
        metric: Metric,
        /// Whether values above the limit fail, else those below it.
        is_above: bool,
        /// The share of the baseline that the difference may have; 0 or more.
        share: f64,
        /// The condition without blanks.
        text: String,
    },
}

/// Why a condition about a baseline is not understood; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeLimitError {
    /// The condition is not a comparison with the baseline.
    #[error(
        "{0:?} is not a comparison with the baseline (expected like 'p99 > baseline + 5%' or \
         'requests/s < baseline - 3%')"
    )]
    Form(String),
    /// There is no metric of this name.
    #[error(transparent)]
    Metric(#[from] results::UnknownMetric),
}

impl ChangeLimit {
    /// Reads conditions separated by commas: `p99 > baseline + 5%, errors > baseline`.
    ///
    /// # Errors
    /// When one of them is not understood.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, ChangeLimitError> {
        text.split(',').map(Self::parse).collect()
    }

    fn parse(text: &str) -> Result<Self, ChangeLimitError> {
        let form = || ChangeLimitError::Form(text.trim().to_owned());
        let at = text.find(['<', '>']).ok_or_else(form)?;
        let (name, behind) = (text[..at].trim(), &text[at..]);
        let is_above = behind.starts_with('>');
        // Medians of runs are hardly ever equal.
        let behind = behind[1..].trim_start_matches('=');
        let more = behind
            .trim()
            .strip_prefix(BASELINE)
            .ok_or_else(form)?
            .trim();
        let sign = if is_above { '+' } else { '-' };
        let share = match more {
            "" => 0.0,
            more => {
                let number = more.strip_prefix(sign).and_then(|it| it.strip_suffix('%'));
                parse_percent(number.ok_or_else(form)?.trim()).ok_or_else(form)? / 100.0
            }
        };
        Ok(Self::Metric {
            metric: Metric::parse(name)?,
            is_above,
            share,
            text: text.split_whitespace().collect(),
        })
    }

    /// The metric that it is about; `None` for all that are compared.
    #[must_use]
    pub fn metric(&self) -> Option<&Metric> {
        match self {
            Self::Worse(_) => None,
            Self::Metric { metric, .. } => Some(metric),
        }
    }

    /// The share that a difference may have.
    #[must_use]
    pub fn share(&self) -> f64 {
        match self {
            Self::Worse(share) | Self::Metric { share, .. } => *share,
        }
    }

    /// Whether it is about the metric of a comparison.
    #[must_use]
    pub fn is_about(&self, comparison: &Comparison) -> bool {
        self.metric()
            .is_none_or(|metric| metric.name == comparison.metric.name)
    }

    /// Whether a comparison shows a difference beyond the limit. It must be found, so that noise
    /// does not count as one, and also without what the load generator caused.
    #[must_use]
    pub fn is_exceeded(&self, comparison: &Comparison) -> bool {
        let mut levels = self.levels_beyond(comparison);
        levels.any(|[measured, without_own]| measured && without_own)
    }

    /// For each level whether its difference is beyond the limit: as measured, and without what the
    /// load generator caused.
    fn levels_beyond<'a>(&'a self, comparison: &'a Comparison) -> impl Iterator<Item = [bool; 2]> {
        let levels = comparison.levels.iter();
        levels.map(move |level| {
            let explained = level.explained.as_ref();
            let measured = explained.map(|it| it.measured).or(level.difference);
            let without_own = explained.map(|it| it.without_own).or(level.without_own);
            [measured, without_own.or(measured)].map(|difference| {
                difference.is_some_and(|it| self.is_beyond(comparison, level, &it))
            })
        })
    }

    fn is_beyond(&self, comparison: &Comparison, level: &Level, difference: &Difference) -> bool {
        match self {
            Self::Worse(share) => comparison.is_worse_by(level, difference, *share),
            Self::Metric {
                is_above, share, ..
            } => {
                let reference = comparison.levels.first().and_then(|first| first.median);
                let is_beyond = match (difference.ratio, is_above) {
                    (Some(ratio), true) => ratio > 1.0 + share,
                    (Some(ratio), false) => ratio < 1.0 - share,
                    // There is no ratio to nothing, such as errors where there were none.
                    (None, true) => level.median > reference,
                    (None, false) => level.median < reference,
                };
                self.is_about(comparison) && difference.is_found() && is_beyond
            }
        }
    }

    /// Whether a comparison that it is about cannot tell: also if a difference is beyond the limit
    /// only as measured, or only without what the load generator caused.
    #[must_use]
    pub fn is_undecidable(&self, comparison: &Comparison) -> bool {
        let is_unknown = matches!(
            comparison.outcome,
            Outcome::TooFewRuns { .. } | Outcome::Failing
        );
        let is_open = || {
            let mut levels = self.levels_beyond(comparison);
            levels.any(|[measured, without_own]| measured != without_own)
        };
        self.is_about(comparison) && (is_unknown || is_open())
    }
}

impl fmt::Display for ChangeLimit {
    /// The option that asks for it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worse(_) => formatter.write_str("--fail-on-regression"),
            Self::Metric { text, .. } => write!(formatter, "--fail-if {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_with_and_without_blanks() {
        let limits =
            ChangeLimit::parse_list("p99 > baseline + 5 %,rps<baseline-2.5%, errors>baseline");
        let limits = limits.expect("they are conditions");
        let read: Vec<_> = limits
            .iter()
            .map(|limit| (limit.metric().map(|it| it.name.as_str()), limit.share()))
            .collect();
        assert_eq!(
            read,
            [
                (Some("latency_p99_us"), 0.05),
                (Some("requests_per_sec"), 0.025),
                (Some("errors"), 0.0)
            ]
        );
        assert_eq!(limits[0].to_string(), "--fail-if p99>baseline+5%");
    }

    #[test]
    fn what_is_no_comparison_with_a_baseline_is_refused() {
        for text in [
            "",
            "p99",
            "p99>5ms",
            "p99 > base + 5%",
            "p99 > baseline - 5%",
            "rps < baseline + 5%",
            "p99 > baseline + 5ms",
            "p99 > baseline + x%",
            "p99 > baseline 5%",
            "p99 == baseline",
            "p99 > baseline + 5%,",
        ] {
            let error = ChangeLimit::parse_list(text).expect_err(text).to_string();
            assert!(
                error.contains("expected like 'p99 > baseline + 5%'"),
                "{error}"
            );
        }
        let error = ChangeLimit::parse_list("p9x > baseline").expect_err("no metric");
        assert!(error.to_string().contains("p9x"), "{error}");
    }
}
