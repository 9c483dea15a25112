//! Arguments of `wrkbench versus`.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use experiment::{Draft, Keys, OptionValue};
use plan::units;
use results::Metric;

use super::Refusal;
use super::campaign::{
    CampaignArgs, CampaignRequest, ExperimentSource, judge, parse_budget, ready,
};
use super::compare::parse_share;
use super::load_options::LoadOptionArgs;
use super::run::is_url;
use super::url::{self, GivenUrl};

/// The most rounds; the budget ends a comparison long before.
const ROUNDS_MAX: u32 = 1000;
/// Length of a run, unless it is given.
const DURATION: &str = "5s";
/// Warm-up of a run, unless it is given.
const WARMUP: &str = "1s";

/// Compare two or more servers until it is clear which is faster
///
/// Each round runs the load against every server once, in random order, so that slow changes of the
/// machine affect all of them alike. It ends when the difference is known to --precision, or when
/// it is decided which one is faster or that they are alike, at the latest after --budget. The
/// interval holds although it is looked at after every round.
///
/// The first server is the reference of the others. A name may stand before a URL:
/// `old=http://127.0.0.1:8080/ new=http://127.0.0.1:8081/`.
#[derive(Debug, Clone, Args)]
pub(crate) struct VersusArgs {
    /// Two or more servers; the first is the reference of the others
    #[arg(value_name = "[NAME=]URL", required = true, num_args = 2..)]
    sides: Vec<String>,
    /// End when the difference is known to this much.
    ///
    /// The interval is this wide to either side, in percent of the first server.
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = parse_share)]
    precision: f64,
    /// Differences up to this do not matter [default: 2%]
    #[arg(long, value_name = "PERCENT", value_parser = parse_share)]
    threshold: Option<f64>,
    /// Metrics to compare, like requests/s,p99.9; the first decides.
    ///
    /// The default is requests/s, without -R, then p99 and p50; with --events llm the metrics of
    /// tokens.
    #[arg(long, value_name = "NAMES", value_parser = Metric::parse, value_delimiter = ',')]
    judge: Vec<Metric>,
    /// Go on until --precision is reached, even if it is decided
    #[arg(long)]
    precise: bool,
    /// End after this time, whatever is known
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_budget)]
    budget: Duration,
    /// Command before the first run; once, or once for each server
    #[arg(long, value_name = "COMMAND")]
    setup: Vec<String>,
    /// Command before each run, after which the server has to respond; once for all servers, or
    /// once for each
    #[arg(long, value_name = "COMMAND")]
    before: Vec<String>,
    /// Command after each run; once for all servers, or once for each
    #[arg(long, value_name = "COMMAND")]
    after: Vec<String>,
    /// Command at the end
    #[arg(long, value_name = "COMMAND")]
    teardown: Option<String>,
    /// Exit with code 3 if a server is worse by more than PERCENT.
    ///
    /// A server is compared with the first one. The difference has to be significant.
    #[arg(long, value_name = "PERCENT", value_parser = parse_share)]
    fail_on_regression: Option<f64>,
    #[command(flatten)]
    load: LoadOptionArgs,
    #[command(flatten)]
    campaign: CampaignArgs,
}

impl VersusArgs {
    /// The experiment of these arguments.
    ///
    /// # Errors
    /// When a URL is not one, names are not distinct, or commands are neither one nor one for each
    /// server.
    pub(super) fn into_request(self, typed: Vec<String>) -> Result<CampaignRequest, Refusal> {
        Ok(CampaignRequest {
            source: ExperimentSource::Draft(Box::new(self.draft()?)),
            notes: self
                .given_sides()?
                .into_iter()
                .filter_map(|(_, given)| given.note)
                .collect(),
            arguments: self.campaign,
            rounds: None,
            only: Vec::new(),
            until_precise: None,
            threshold: None,
            judge: Vec::new(),
            fail_on_regression: self.fail_on_regression,
            least_load: None,
            is_check: false,
            stops_if_denied: false,
            has_page: true,
            typed,
        })
    }

    fn draft(&self) -> Result<Draft, Refusal> {
        let sides = self.sides()?;
        let until = Keys::default()
            .with("precision", units::percentage(self.precision))
            .with("decided", !self.precise)
            .with("budget", units::time(self.budget));
        let has_commands = !self.setup.is_empty() || !self.before.is_empty();
        let is_given = |option: &str| self.load.iter().any(|(name, _)| name == option);
        let default = |option: &str, value: &str| (!is_given(option)).then(|| value.to_owned());
        let mut targets = Vec::new();
        for (at, (name, url)) in sides.iter().enumerate() {
            targets.push(
                Keys::default()
                    .with("name", name.as_str())
                    .with("url", url.as_str())
                    .with_some("before", self.of_side("--before", &self.before, at)?)
                    .with_some("after", self.of_side("--after", &self.after, at)?),
            );
        }
        if self.setup.len() > 1 {
            // Counts them.
            self.of_side("--setup", &self.setup, 0)?;
        }
        Ok(Draft {
            top: Keys::default()
                .with("name", "versus")
                .with("rounds", self.rounds())
                .with_some("threshold", self.threshold.map(units::percentage))
                .with_some("judge", judge(&self.judge))
                .with("until", until),
            load: Keys::default()
                .with_some("duration", default("duration", DURATION))
                .with_some("warmup", default("warmup", WARMUP))
                .with_options(self.load.iter()),
            targets,
            telemetry: self.load.telemetry(),
            hooks: Keys::default()
                .with_some(
                    "setup",
                    (!self.setup.is_empty()).then(|| self.setup.join(" && ")),
                )
                .with_some("teardown", self.teardown.clone())
                .with_some("ready", has_commands.then(ready)),
            ..Draft::default()
        })
    }

    /// As many rounds as fit into the budget, as far as the length of a run is known.
    fn rounds(&self) -> u32 {
        let time = |option: &str, default: &str| {
            let typed = self.load.iter().find(|(name, _)| *name == option);
            match typed {
                Some((_, OptionValue::Text(text))) => units::parse_time(text).ok(),
                _ => units::parse_time(default).ok(),
            }
        };
        let counts = self.load.iter().any(|(name, _)| name == "requests");
        let run = match time("duration", DURATION) {
            // How long the server takes to settle is not known.
            Some(duration) if !counts => {
                duration.saturating_add(time("warmup", WARMUP).unwrap_or_default())
            }
            _ => Duration::ZERO,
        };
        let rounds = self.budget.as_secs_f64() / (run.as_secs_f64() * self.sides.len() as f64);
        (rounds.ceil() as u32).clamp(1, ROUNDS_MAX)
    }

    /// Each side with its name, if it has one.
    fn given_sides(&self) -> Result<Vec<(Option<&str>, GivenUrl)>, Refusal> {
        let sides = self.sides.iter().map(|text| {
            let (name, url) = match text.split_once('=') {
                // An equals sign may be part of a URL, too.
                Some((name, url)) if !name.contains([':', '/', '?']) => (Some(name), url),
                _ => (None, text.as_str()),
            };
            match url::parse(url) {
                Ok(given) => Ok((name, given)),
                Err(error) if is_url(url) => Err(error),
                Err(_) => Err(Refusal(format!(
                    "{text:?} is not a URL (expected like http://127.0.0.1:8080/ or \
                     new=http://127.0.0.1:8081/)"
                ))),
            }
        });
        sides.collect()
    }

    /// Names and URLs. Without a name, the host and the port are one if they differ, else the URL.
    fn sides(&self) -> Result<Vec<(String, String)>, Refusal> {
        let sides = self.given_sides()?.into_iter();
        let sides: Vec<_> = sides.map(|(name, given)| (name, given.target)).collect();
        let hosts: BTreeSet<&str> = sides
            .iter()
            .map(|(_, target)| target.host_header.as_str())
            .collect();
        let has_own_host = hosts.len() == sides.len();
        let named = sides.iter().map(|(name, target)| {
            let host = if has_own_host {
                target.host_header.as_str()
            } else {
                target.url.as_str()
            };
            (name.unwrap_or(host).to_owned(), target.url.clone())
        });
        let named: Vec<(String, String)> = named.collect();
        for (at, (name, _)) in named.iter().enumerate() {
            if named[..at].iter().any(|(other, _)| other == name) {
                return Err(Refusal(format!(
                    "two servers are called {name:?}: write another name before one URL, like \
                     new=http://..."
                )));
            }
        }
        Ok(named)
    }

    /// The command of a side.
    fn of_side(
        &self,
        option: &str,
        commands: &[String],
        side: usize,
    ) -> Result<Option<String>, Refusal> {
        match commands {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            several if several.len() == self.sides.len() => Ok(Some(several[side].clone())),
            several => Err(Refusal(format!(
                "{option} is given {} times for {} servers: give it once, or once for each",
                several.len(),
                self.sides.len()
            ))),
        }
    }
}
