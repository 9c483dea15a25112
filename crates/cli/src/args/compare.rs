//! Arguments of `wrkbench compare`.

use std::path::PathBuf;

use analysis::Baseline;
use analysis::compare::{ChangeLimit, ChangeLimitError, Metric};
use clap::{Args, ValueEnum};
use plan::InvalidValue;
use plan::units::parse_percent;

/// Compare new runs with old ones, or the levels of a sweep
///
/// Prints a verdict for each metric, with the difference, its confidence interval, and the smallest
/// difference that could have been found.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct CompareArgs {
    /// Old runs, or one sweep: a folder, files separated by commas, a pattern like 'base-*.json',
    /// or text with reports of wrk, wrk2 or wrk-cmm
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// New runs; without them, the levels of the sweep BASE are compared with each other
    #[arg(value_name = "NEW")]
    new: Option<PathBuf>,
    /// Compare with the runs of BASE that have this label, like branch=main.
    ///
    /// The name is not needed if only one label has the value. Without NEW, the other runs of BASE
    /// are the new ones.
    #[arg(long, value_name = "[KEY=]VALUE")]
    baseline: Option<String>,
    /// Smallest difference that matters [default: 2%].
    ///
    /// The default is the threshold of the experiment, if there is one.
    #[arg(long, value_name = "PERCENT", value_parser = parse_share, allow_hyphen_values = true)]
    threshold: Option<f64>,
    /// Metrics to compare, like requests/s,p99 (all: wrkbench table --columns).
    ///
    /// It may be repeated. The default is judge of the experiment, otherwise requests/s, p99, and
    /// errors if there are any; of runs with tokens the metrics of tokens.
    #[arg(long, visible_alias = "judge", value_name = "NAME", value_delimiter = ',',
          action = clap::ArgAction::Append)]
    metric: Vec<String>,
    /// Exit with code 3 if something got worse by more than PERCENT
    #[arg(long, value_name = "PERCENT", value_parser = parse_share, allow_hyphen_values = true)]
    fail_on_regression: Option<f64>,
    /// Exit with code 3 if a metric changed beyond a limit, like 'p99 > baseline + 5%'.
    ///
    /// Several conditions may follow, such as 'requests/s < baseline - 3%'. The baseline is BASE,
    /// the runs of --baseline, or the first level. Only a change that was found counts, so that
    /// noise does not.
    #[arg(long, value_name = "CONDITION", value_parser = parse_limits,
          action = clap::ArgAction::Append)]
    fail_if: Vec<Limits>,
    /// Also compare the requests with each name; needs NEW.
    ///
    /// The metrics are requests/s, p50 and p99.
    #[arg(long)]
    by_name: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    format: CompareFormat,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    /// Sentences, each followed by its numbers
    #[default]
    Text,
    /// One JSON document
    Json,
}

/// The runs to compare, and by what.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CompareRequest {
    pub(crate) base: PathBuf,
    pub(crate) new: Option<PathBuf>,
    /// The runs of `base` to compare with; `None` for all of them.
    pub(crate) baseline: Option<Baseline>,
    /// The defaults if empty.
    pub(crate) metrics: Vec<Metric>,
    /// Smallest relative difference that matters.
    pub(crate) threshold: Option<f64>,
    /// How much the new runs may differ.
    pub(crate) limits: Vec<ChangeLimit>,
    /// Also compare the requests with each name.
    pub(crate) by_name: bool,
    pub(crate) format: CompareFormat,
}

impl From<CompareArgs> for CompareRequest {
    fn from(args: CompareArgs) -> Self {
        Self {
            base: args.base,
            new: args.new,
            baseline: args.baseline.as_deref().map(Baseline::parse),
            metrics: metrics_named(&args.metric),
            threshold: args.threshold,
            limits: {
                let worse = args.fail_on_regression.map(ChangeLimit::Worse);
                let metrics = args.fail_if.into_iter().flat_map(|Limits(limits)| limits);
                worse.into_iter().chain(metrics).collect()
            },
            by_name: args.by_name,
            format: args.format,
        }
    }
}

/// The metrics of these names; empty ones are left out.
pub(super) fn metrics_named(names: &[String]) -> Vec<Metric> {
    let names = names.iter().map(|name| name.trim());
    names
        .filter(|name| !name.is_empty())
        .map(metric_named)
        .collect()
}

/// The metric of a name, or of a short name as in `--fail-if`. Tables of other tools have columns
/// with any name.
fn metric_named(name: &str) -> Metric {
    Metric::parse(name).unwrap_or_else(|_| Metric::named(name))
}

/// The conditions of one `--fail-if`.
#[derive(Debug, Clone, PartialEq)]
struct Limits(Vec<ChangeLimit>);

fn parse_limits(text: &str) -> Result<Limits, ChangeLimitError> {
    ChangeLimit::parse_list(text).map(Limits)
}

/// Parses a percentage above 0, with or without `%`, into a share.
pub(super) fn parse_share(text: &str) -> Result<f64, InvalidValue> {
    let number = text.trim();
    let number = number.strip_suffix('%').unwrap_or(number).trim_end();
    match parse_percent(number) {
        Some(percent) if percent > 0.0 => Ok(percent / 100.0),
        _ => Err(
            format!("{text:?} is not a percentage above 0, at most 100 (expected like 2%)").into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_parsed_with_and_without_percent_sign() {
        for (text, share) in [("2%", 0.02), ("2 %", 0.02), ("0.5", 0.005), ("100%", 1.0)] {
            assert_eq!(parse_share(text), Ok(share), "{text:?}");
        }
        for text in ["", "%", "0", "-1", "nan", "101%", "2%%", "two"] {
            let error = parse_share(text).unwrap_err().to_string();
            assert!(error.contains("expected like 2%"), "{error}");
        }
    }
}
