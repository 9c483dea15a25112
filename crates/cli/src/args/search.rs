//! Arguments of `wrkbench search` and `wrkbench check`.

use std::time::Duration;

use clap::Args;
use experiment::{Draft, Keys, OptionValue};
use plan::units;

use super::Refusal;
use super::campaign::{CampaignArgs, CampaignRequest, ExperimentSource, parse_budget, ready};
use super::compare::parse_share;
use super::load_options::LoadOptionArgs;
use super::url::{self, GivenUrl};

/// Warm-up of a run, unless it is given. It also lets a queue of the run before drain.
const WARMUP: &str = "1s";

/// The conditions, and what searches and checks have in common.
#[derive(Debug, Clone, Args)]
pub(crate) struct SloArgs {
    /// The server
    #[arg(value_name = "URL")]
    url: String,
    /// Limits that runs must meet, like 'p99<50ms' 'failed<0.1%'.
    ///
    /// The metrics are those of --fail-if.
    #[arg(long, value_name = "CONDITION", required = true)]
    slo: Vec<String>,
    /// Command before the first run
    #[arg(long, value_name = "COMMAND")]
    setup: Option<String>,
    /// Command before each run
    #[arg(long, value_name = "COMMAND")]
    before: Option<String>,
    /// Command after each run
    #[arg(long, value_name = "COMMAND")]
    after: Option<String>,
    /// Command at the end
    #[arg(long, value_name = "COMMAND")]
    teardown: Option<String>,
    #[command(flatten)]
    load: LoadOptionArgs,
    #[command(flatten)]
    campaign: CampaignArgs,
}

/// Find the highest rate a server sustains within limits
///
/// The rate at which all conditions are just met in the long run, with a 95 % interval: for
/// p99<50ms, the rate at which 1 % of the responses take 50 ms or more. It begins with a closed
/// loop, narrows the range down with short runs, and measures around the estimate until the
/// interval is as narrow as --precision asks for.
///
/// failed<0.1%, of errors and statuses above 399 together, is one of the conditions unless you give
/// others about errors and statuses. Connections are raised up to ten times -c if they limit the
/// rate. -d is the least length of a run that counts.
#[derive(Debug, Clone, Args)]
pub(crate) struct SearchArgs {
    /// End when the interval is this wide to either side.
    ///
    /// In percent of the rate.
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = parse_share)]
    precision: f64,
    /// End after this time, whatever is known
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_budget)]
    budget: Duration,
    /// Exit with code 2 unless this rate is sustained, like 'max_rate<700'
    #[arg(long, value_name = "CONDITION")]
    fail_if: Option<String>,
    #[command(flatten)]
    slo: SloArgs,
}

/// Check whether a server sustains a given rate within limits
///
/// Usually three short runs at the rate of -R: they are repeated until one answer is ahead by
/// three. The exit code is 2 if the rate is not sustained, or if that is undecided.
///
/// -d is the least length of a run.
#[derive(Debug, Clone, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    slo: SloArgs,
}

impl SearchArgs {
    /// # Errors
    /// When the URL or --fail-if is invalid, or the load has a rate.
    pub(super) fn into_request(self, typed: Vec<String>) -> Result<CampaignRequest, Refusal> {
        if self.slo.load.iter().any(|(name, _)| name == "rate") {
            return Err(Refusal(
                "-R: a search finds the rate; wrkbench check judges a given one".to_owned(),
            ));
        }
        let least_rate = self.fail_if.as_deref().map(least_rate).transpose()?;
        let keys = Keys::default()
            .with("precision", units::percentage(self.precision))
            .with("budget", units::time(self.budget));
        let mut request = self.slo.into_request("search", keys, typed)?;
        request.least_rate_per_sec = least_rate;
        Ok(request)
    }
}

impl CheckArgs {
    /// # Errors
    /// When the URL is invalid, or there is no rate.
    pub(super) fn into_request(self, typed: Vec<String>) -> Result<CampaignRequest, Refusal> {
        let rate = self.slo.load.iter().find(|(name, _)| *name == "rate");
        let rate = match rate {
            Some((_, OptionValue::Text(rate))) => rate.clone(),
            _ => {
                return Err(Refusal(
                    "the rate is missing: add -R, like -R800".to_owned(),
                ));
            }
        };
        let keys = Keys::default().with("rate", rate);
        let mut request = self.slo.into_request("check", keys, typed)?;
        request.is_check = true;
        Ok(request)
    }
}

/// The rate of a condition like `max_rate<700`.
fn least_rate(condition: &str) -> Result<f64, Refusal> {
    let text: String = condition.split_whitespace().collect();
    let rate = text.strip_prefix("max_rate<").map(units::parse_rate);
    match rate {
        Some(Ok(rate)) => Ok(rate),
        Some(Err(error)) => Err(Refusal(format!("--fail-if: max_rate: {error}"))),
        None => Err(Refusal(format!(
            "--fail-if: {condition:?} is not a condition on the rate (expected like max_rate<700); \
             conditions on runs belong to --slo"
        ))),
    }
}

impl SloArgs {
    fn into_request(
        self,
        name: &str,
        keys: Keys,
        typed: Vec<String>,
    ) -> Result<CampaignRequest, Refusal> {
        let GivenUrl { target, note, .. } = url::parse(&self.url)?;
        // They are said of the search, not of each run.
        let is_own = |option: &str| ["duration", "rate", "arrivals"].contains(&option);
        let options = self.load.iter().filter(|(option, _)| !is_own(option));
        let text = |wanted: &str| {
            let mut options = self.load.iter();
            match options.find(|(option, _)| *option == wanted) {
                Some((_, OptionValue::Text(text))) => Some(text.clone()),
                _ => None,
            }
        };
        let (run, arrivals) = (text("duration"), text("arrivals"));
        let has_warmup = self.load.iter().any(|(option, _)| option == "warmup");
        let starts_servers = self.setup.is_some() || self.before.is_some();
        let draft = Draft {
            top: Keys::default().with("name", name),
            load: Keys::default()
                .with_some("warmup", (!has_warmup).then_some(WARMUP))
                .with_options(options),
            targets: vec![
                Keys::default()
                    .with("name", target.host_header)
                    .with("url", target.url)
                    .with_some("before", self.before)
                    .with_some("after", self.after),
            ],
            hooks: Keys::default()
                .with_some("setup", self.setup)
                .with_some("teardown", self.teardown)
                .with_some("ready", starts_servers.then(ready)),
            telemetry: self.load.telemetry(),
            search: keys
                .with("slo", self.slo)
                .with_some("run", run)
                .with_some("arrivals", arrivals),
            ..Draft::default()
        };
        Ok(CampaignRequest {
            source: ExperimentSource::Draft(Box::new(draft)),
            arguments: self.campaign,
            notes: note.into_iter().collect(),
            rounds: None,
            only: Vec::new(),
            until_precise: None,
            threshold: None,
            judge: Vec::new(),
            fail_on_regression: None,
            least_rate_per_sec: None,
            is_check: false,
            has_page: true,
            typed,
        })
    }
}
