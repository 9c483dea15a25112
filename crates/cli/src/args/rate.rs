//! Arguments of a fixed-rate run.

use std::time::Duration;

use clap::{Args, ValueEnum};
use plan::units::{UnitError, parse_count, parse_rate, parse_stages};
use plan::{Arrivals, Pacing, Stage};

use super::Refusal;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Rate")]
pub(super) struct RateArgs {
    /// Send N requests per second, whatever the response times
    // wrk2 accepts `--r`, which would be ambiguous here.
    #[arg(short = 'R', long, alias = "r", value_name = "N", value_parser = parse_rate,
          long_help = "Send N requests per second in total, regardless of response times (open \
                       loop): 1000, 1.5k, 600/m",
          conflicts_with = "stages", allow_hyphen_values = true)]
    rate: Option<f64>,
    /// Rates to run one after another: 1k:30s,5k:1m for steps, 1k-5k:1m for a ramp
    #[arg(long, value_name = "LIST", value_parser = read_stages, allow_hyphen_values = true)]
    stages: Option<Stages>,
    /// How requests are spaced at a fixed rate [default: even]
    #[arg(long, value_name = "HOW", value_enum)]
    arrivals: Option<Spread>,
    /// Seed for Poisson arrivals and random requests [default: random, printed]
    #[arg(long, value_name = "N", value_parser = parse_count, allow_hyphen_values = true)]
    seed: Option<u64>,
}

/// [`Arrivals`] as a command-line value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Spread {
    Even,
    Poisson,
}

#[derive(Debug, Clone)]
struct Stages(Vec<Stage>);

fn read_stages(text: &str) -> Result<Stages, UnitError> {
    parse_stages(text).map(Stages)
}

impl RateArgs {
    pub(super) fn is_open(&self) -> bool {
        self.rate.is_some() || self.stages.is_some()
    }

    /// The total length of all stages, which is the default duration of the run.
    pub(super) fn stages_duration(&self) -> Option<Duration> {
        let Stages(stages) = self.stages.as_ref()?;
        Some(stages.iter().map(|stage| stage.duration).sum())
    }

    /// The seed, if one was given.
    pub(super) fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// When requests are due, and whether a seed must still be chosen at random.
    ///
    /// # Errors
    /// When an option is given that has no meaning without a rate.
    pub(super) fn into_pacing(self, has_request_file: bool) -> Result<(Pacing, bool), Refusal> {
        let arrivals = match self.arrivals {
            Some(Spread::Poisson) => Arrivals::Poisson,
            Some(Spread::Even) | None => Arrivals::Even,
        };
        let seed = self.seed.unwrap_or_default();
        let pacing = match (self.rate, self.stages) {
            (Some(rate_per_sec), _) => Pacing::Constant {
                rate_per_sec,
                arrivals,
                seed,
            },
            (None, Some(Stages(stages))) => Pacing::Stages {
                stages,
                arrivals,
                seed,
            },
            (None, None) => Pacing::Closed,
        };
        let without_a_rate = match (self.arrivals, self.seed) {
            (Some(_), _) => Some("--arrivals"),
            (None, Some(_)) if !has_request_file => Some("--seed"),
            (None, _) => None,
        };
        if let Some(option) = without_a_rate.filter(|_| !pacing.is_open()) {
            return Err(Refusal(format!("{option}: needs a rate (-R or --stages)")));
        }
        Ok((pacing, arrivals == Arrivals::Poisson && self.seed.is_none()))
    }
}
