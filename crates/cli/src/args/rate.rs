//! The arguments of a run with a rate.

use std::time::Duration;

use clap::{Args, ValueEnum};
use plan::units::{UnitError, parse_count, parse_rate, parse_stages};
use plan::{Arrivals, Pacing, Stage};

use super::Refusal;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Rate")]
pub(super) struct RateArgs {
    /// Send so many requests per second in all, whatever the server does: 1000, 1.5k, 600/m
    // `--r` is this option in wrk2, and would be ambiguous here.
    #[arg(short = 'R', long, alias = "r", value_name = "N", value_parser = parse_rate,
          conflicts_with = "stages", allow_hyphen_values = true)]
    rate: Option<f64>,
    /// Rates one after the other, like 1k:30s,5k:1m for steps or 1k-5k:1m for a ramp
    #[arg(long, value_name = "LIST", value_parser = read_stages, allow_hyphen_values = true)]
    stages: Option<Stages>,
    /// How the requests of a rate are spread [default: even]
    #[arg(long, value_name = "HOW", value_enum)]
    arrivals: Option<Spread>,
    /// Begins the random numbers of poisson arrivals [default: drawn and told]
    #[arg(long, value_name = "N", value_parser = parse_count, allow_hyphen_values = true)]
    seed: Option<u64>,
}

/// [`Arrivals`] with names for the command line.
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
    /// Whether there is a rate.
    pub(super) fn is_open(&self) -> bool {
        self.rate.is_some() || self.stages.is_some()
    }

    /// How long the stages are together, which is as long as the run wants to be.
    pub(super) fn stages_duration(&self) -> Option<Duration> {
        let Stages(stages) = self.stages.as_ref()?;
        Some(stages.iter().map(|stage| stage.duration).sum())
    }

    /// When requests are due, and whether a seed has still to be drawn for it.
    ///
    /// # Errors
    /// When an option is given that only a rate would give a meaning.
    pub(super) fn into_pacing(self) -> Result<(Pacing, bool), Refusal> {
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
            (None, Some(_)) => Some("--seed"),
            (None, None) => None,
        };
        if let Some(option) = without_a_rate.filter(|_| !pacing.is_open()) {
            return Err(Refusal(format!("{option}: needs a rate (-R or --stages)")));
        }
        Ok((pacing, arrivals == Arrivals::Poisson && self.seed.is_none()))
    }
}
