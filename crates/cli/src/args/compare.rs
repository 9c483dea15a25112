//! The arguments of the comparison.

use std::path::PathBuf;

use analysis::compare::Metric;
use clap::{Args, ValueEnum};
use plan::units::parse_percent;

/// Whether runs differ: new ones beside old ones, or the levels of a sweep
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct CompareArgs {
    /// The old runs, or the folder of one sweep: a folder, files with commas between them, a pattern
    /// like 'base-*.json', notes with reports in them
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// The new runs; without them the levels of BASE are compared with each other
    #[arg(value_name = "NEW")]
    new: Option<PathBuf>,
    /// Differences up to this do not matter [default: that of the sweep's plan, else 2%]
    #[arg(long, value_name = "PERCENT", value_parser = parse_share, allow_hyphen_values = true)]
    threshold: Option<f64>,
    /// What is compared, like requests_per_sec, p99, latency_mean_us (docs/tables.md has all); may be
    /// repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',', action = clap::ArgAction::Append)]
    metric: Vec<String>,
    /// End with code 3 if a difference for the worse was found and is larger than this
    #[arg(long, value_name = "PERCENT", value_parser = parse_share, allow_hyphen_values = true)]
    fail_on_regression: Option<f64>,
    /// How the answer is written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    format: CompareFormat,
}

/// How a comparison is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    /// Sentences with the numbers under them
    #[default]
    Text,
    /// One JSON document
    Json,
}

/// What is compared, and what for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CompareRequest {
    /// The old runs, or a sweep.
    pub(crate) base: PathBuf,
    /// The new runs.
    pub(crate) new: Option<PathBuf>,
    /// What is compared; the defaults if empty.
    pub(crate) metrics: Vec<Metric>,
    /// Differences up to this share do not matter.
    pub(crate) threshold: Option<f64>,
    /// A difference for the worse by more than this share is a regression.
    pub(crate) regression_limit: Option<f64>,
    /// How the answer is written.
    pub(crate) format: CompareFormat,
}

impl From<CompareArgs> for CompareRequest {
    fn from(args: CompareArgs) -> Self {
        let names = args.metric.iter().map(|name| name.trim());
        Self {
            base: args.base,
            new: args.new,
            metrics: names
                .filter(|name| !name.is_empty())
                .map(Metric::named)
                .collect(),
            threshold: args.threshold,
            regression_limit: args.fail_on_regression,
            format: args.format,
        }
    }
}

/// Reads a percentage above 0, with or without its sign, as a share.
pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    let number = text.trim();
    let number = number.strip_suffix('%').unwrap_or(number).trim_end();
    match parse_percent(number) {
        Some(percent) if percent > 0.0 => Ok(percent / 100.0),
        _ => Err(format!(
            "{text:?} is not a percentage above 0, at most 100 (expected like 2%)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_read_with_and_without_their_sign() {
        for (text, share) in [("2%", 0.02), ("2 %", 0.02), ("0.5", 0.005), ("100%", 1.0)] {
            assert_eq!(parse_share(text), Ok(share), "{text:?}");
        }
        for text in ["", "%", "0", "-1", "nan", "101%", "2%%", "two"] {
            let error = parse_share(text).unwrap_err();
            assert!(error.contains("expected like 2%"), "{error}");
        }
    }
}
