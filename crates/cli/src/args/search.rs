//! Arguments of `wrkbench search` and `wrkbench check`.

use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use experiment::{Draft, Keys, OptionValue};
use plan::{InvalidValue, MAX_CONNECTIONS, units};
use results::SearchOver;

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

/// Find the highest load that a server sustains within limits
///
/// The rate at which all conditions are just met in the long run, with a 95 % interval: for
/// p99<50ms, the rate at which 1 % of the responses take 50 ms or more. It begins with a closed
/// loop, narrows the range down with short runs, and measures around the estimate until the
/// interval is as narrow as --precision asks for.
///
/// failed<0.1%, of errors and statuses above 399 together, is one of the conditions unless you give
/// others about errors and statuses. Connections are raised up to ten times -c if they limit the
/// rate. -d is the least length of a run that counts.
///
/// With --over connections, it finds the largest number of connections (users who send again as
/// soon as they have a response) at which the conditions hold. It begins with -c connections.
#[derive(Debug, Clone, Args)]
pub(crate) struct SearchArgs {
    /// What to find the highest value of: the rate, or the connections of a closed loop
    #[arg(long, value_name = "WHAT", default_value = "rate",
          value_parser = PossibleValuesParser::new(SearchOver::ALL.map(SearchOver::name)))]
    over: String,
    /// Most connections that --over connections tries [default: 1000, or -c if it is more].
    #[arg(long, value_name = "N", allow_hyphen_values = true,
          value_parser = parse_max_connections)]
    max_connections: Option<u32>,
    /// End when the interval is this wide to either side.
    ///
    /// In percent of the rate.
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = parse_share)]
    precision: f64,
    /// End after this time, whatever is known
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_budget)]
    budget: Duration,
    /// Exit with code 2 unless so much is sustained: 'max_rate<700' or 'max_connections<24'
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
    /// When the URL or --fail-if is invalid, or the load has what the search finds.
    pub(super) fn into_request(self, typed: Vec<String>) -> Result<CampaignRequest, Refusal> {
        let over = self.over();
        self.check(over)?;
        let least_load = self.fail_if.as_deref();
        let least_load = least_load.map(|text| least_load_of(over, text));
        let least_load = least_load.transpose()?;
        let keys = Keys::default()
            .with("over", over.name())
            .with_some("max_connections", self.max_connections.map(i64::from))
            .with("precision", units::percentage(self.precision))
            .with("budget", units::time(self.budget));
        let mut request = self.slo.into_request("search", keys, typed)?;
        request.least_load = least_load;
        Ok(request)
    }

    /// The search of `wrkbench llm`: its conditions are those of `--search`.
    pub(super) fn with_conditions(mut self, conditions: Vec<String>) -> Self {
        self.slo.slo = conditions;
        self
    }

    /// The URL as typed.
    pub(super) fn url(&self) -> &str {
        &self.slo.url
    }

    /// Whether commands may start the server.
    pub(super) fn starts_server(&self) -> bool {
        self.slo.starts_server()
    }

    /// The options of the runs.
    pub(super) fn load(&self) -> &LoadOptionArgs {
        &self.slo.load
    }

    fn over(&self) -> SearchOver {
        let mut all = SearchOver::ALL.into_iter();
        all.find(|it| it.name() == self.over).unwrap_or_default()
    }

    /// Refuses options that set what the search finds, or that have no effect.
    fn check(&self, over: SearchOver) -> Result<(), Refusal> {
        let has = |wanted: &str| self.slo.load.iter().any(|(name, _)| name == wanted);
        let refused = |option: &str, why: &str| Err(Refusal(format!("{option}: {why}")));
        if over == SearchOver::Rate {
            return match (has("rate"), self.max_connections) {
                (true, _) => refused(
                    "-R",
                    "a search finds the rate; wrkbench check judges a given one",
                ),
                (false, Some(_)) => refused("--max-connections", "needs --over connections"),
                (false, None) => Ok(()),
            };
        }
        let of_rates = [
            ("rate", "-R"),
            ("stages", "--stages"),
            ("arrivals", "--arrivals"),
            ("replay", "--replay"),
        ];
        if let Some((_, shown)) = of_rates.into_iter().find(|(name, _)| has(name)) {
            return refused(
                shown,
                "--over connections sends again as soon as there is a response, at no given rate",
            );
        }
        if has("connection-stages") {
            return refused(
                "--connection-stages",
                "--over connections finds the number of connections; -c is the first one",
            );
        }
        Ok(())
    }
}

/// A number of connections that a run may have.
fn parse_max_connections(text: &str) -> Result<u32, InvalidValue> {
    let number = units::parse_count(text).map_err(InvalidValue::new)?;
    let number = u32::try_from(number).ok();
    number
        .filter(|number| (1..=MAX_CONNECTIONS).contains(number))
        .ok_or_else(|| format!("must be from 1 to {MAX_CONNECTIONS}").into())
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

/// The number of a condition like `max_rate<700` or `max_connections<24`.
fn least_load_of(over: SearchOver, condition: &str) -> Result<f64, Refusal> {
    let metric = over.metric();
    let text: String = condition.split_whitespace().collect();
    let number = text
        .strip_prefix(metric)
        .and_then(|it| it.strip_prefix('<'));
    let problem = |error: String| Refusal(format!("--fail-if: {metric}: {error}"));
    match (number, over) {
        (Some(number), SearchOver::Rate) => {
            units::parse_rate(number).map_err(|error| problem(error.to_string()))
        }
        (Some(number), SearchOver::Connections) => {
            let count = units::parse_count(number).map_err(|error| problem(error.to_string()))?;
            Ok(count as f64)
        }
        (None, _) => {
            let (what, example) = match over {
                SearchOver::Rate => ("the rate", "700"),
                SearchOver::Connections => ("the number of connections", "24"),
            };
            Err(Refusal(format!(
                "--fail-if: {condition:?} is not a condition on {what} (expected like \
                 {metric}<{example}); conditions on runs belong to --slo"
            )))
        }
    }
}

impl SloArgs {
    fn starts_server(&self) -> bool {
        self.setup.is_some() || self.before.is_some()
    }

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
        let starts_servers = self.starts_server();
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
            least_load: None,
            is_check: false,
            stops_if_denied: false,
            has_page: true,
            typed,
        })
    }
}
