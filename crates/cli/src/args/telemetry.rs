//! The arguments about what is watched beside a run.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use plan::TelemetrySpec;
use plan::units::{parse_time, time};
use telemetry::sockets::{Filter, FilterError};

use super::Refusal;

/// Often enough to see a run of seconds, and hardly any work.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Telemetry")]
pub(super) struct TelemetryArgs {
    /// Watch TCP sockets beside the run, like 'sport = :80 or dport = :443'; '' watches all
    #[arg(long, value_name = "FILTER", value_parser = parse_filter, allow_hyphen_values = true)]
    sockets: Option<String>,
    /// Time between samples of the sockets [default: 1s]
    #[arg(long, value_name = "T", value_parser = parse_time, allow_hyphen_values = true)]
    interval: Option<Duration>,
    /// Record by how much the kernel's counters grow, of TCP, packets, CPUs and pressure
    #[arg(long)]
    counters: bool,
    /// Write each sample of the sockets, a line of JSON each; needs --sockets
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    samples: Option<PathBuf>,
}

impl TelemetryArgs {
    /// What is watched, if anything, and the file for samples.
    ///
    /// # Errors
    /// When an option has nothing to do.
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

/// The plan keeps the filter as it was typed.
fn parse_filter(text: &str) -> Result<String, FilterError> {
    Filter::parse(text).map(|_| text.to_owned())
}
