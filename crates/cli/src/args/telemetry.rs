//! Arguments that select what is sampled during a run.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use plan::TelemetrySpec;
use plan::units::{parse_time, time};
use telemetry::sockets::{Filter, FilterError};

use super::Refusal;

/// Short enough for a run of a few seconds, long enough to cost hardly any CPU.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Telemetry")]
pub(super) struct TelemetryArgs {
    /// Sample TCP sockets during the run, like 'sport = :80 or dport = :443'; '' selects all
    #[arg(long, value_name = "FILTER", value_parser = parse_filter, allow_hyphen_values = true)]
    sockets: Option<String>,
    /// Time between socket samples [default: 1s]
    #[arg(long, value_name = "T", value_parser = parse_time, allow_hyphen_values = true)]
    interval: Option<Duration>,
    /// Record kernel counters over the run: TCP, packets, CPUs and pressure
    #[arg(long)]
    counters: bool,
    /// Write every socket sample to a file, one JSON object per line; needs --sockets
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    samples: Option<PathBuf>,
}

impl TelemetryArgs {
    /// What to sample, if anything, and the file for samples.
    ///
    /// # Errors
    /// When an option has no effect without another one.
    pub(super) fn into_parts(self) -> Result<(Option<TelemetrySpec>, Option<PathBuf>), Refusal> {
        if let (None, Some(path)) = (&self.sockets, &self.samples) {
            return Err(Refusal(format!(
                "--samples {path:?}: needs sockets to be sampled (--sockets)"
            )));
        }
        let is_wanted = self.sockets.is_some() || self.counters;
        if let (false, Some(interval)) = (is_wanted, self.interval) {
            let interval = time(interval);
            return Err(Refusal(format!(
                "--interval {interval}: needs something to watch (--sockets or --counters)"
            )));
        }
        let spec = is_wanted.then(|| TelemetrySpec {
            sockets: self.sockets,
            interval: self.interval.unwrap_or(DEFAULT_INTERVAL),
            counters: self.counters,
        });
        Ok((spec, self.samples))
    }
}

/// The plan keeps the filter as text.
fn parse_filter(text: &str) -> Result<String, FilterError> {
    Filter::parse(text).map(|_| text.to_owned())
}
