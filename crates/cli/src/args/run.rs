//! Arguments of a run, and the conversion to a [`RunPlan`].

use std::path::{Path, PathBuf};

use clap::{Args, FromArgMatches, Parser};
use plan::secrets::hide_secrets;
use plan::{GivenOptions, OptionError, Pacing, ProfiledServer, RunPlan, Target};
use results::records::RecordForm;
use runner::{FilePace, Invocation, Variables};

use super::plan_options::OptionArgs;
use super::report::{ReportArgs, ReportValues, Traits};
use super::url::{self, GivenUrl};
use super::{Dialect, OutputOptions, Refusal, Style};
use crate::fleet::{FleetArgs, FleetRequest};

/// Load one URL (the default command)
///
/// Sends requests over a number of connections for some time and prints a report in the format of
/// wrk. Without a rate, each connection waits for its response before it sends again. With `--rate`
/// or `--stages`, requests are due on a schedule that does not wait for the server, and latency
/// counts from the moment a request was due.
///
/// Warnings about numbers that may be wrong, and a verdict if the load generator was the
/// bottleneck, follow on stderr.
#[derive(Debug, Clone, Parser)]
#[command(name = "wrkbench", disable_version_flag = true)]
pub(crate) struct RunArgs {
    // First, so that the help lists them above the first heading.
    /// Target URL: http://host[:port][/path] or https://
    #[arg(value_name = "URL", value_parser = url::parse)]
    url: Option<GivenUrl>,
    /// Arguments for the script's init(); put -- before any that start with -
    #[arg(value_name = "ARGUMENT")]
    script_arguments: Vec<String>,
    #[command(flatten)]
    options: OptionArgs<RunPlan>,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    fleet: FleetArgs,
    /// Print the version, then run; with a URL, also print the backend and why it was chosen
    #[arg(short = 'v', help_heading = super::help::HEADING)]
    version_first: bool,
    /// Print the version
    #[arg(short = 'V', long, aliases = ["v", "ve", "ver"], help_heading = super::help::HEADING)]
    version: bool,
}

/// The variables that a request file can refer to.
pub(crate) fn environment_variables() -> Variables {
    Variables::by(|name| std::env::var_os(name)?.into_string().ok())
}

/// Whether a text begins like a URL.
pub(super) fn is_url(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|it| {
        ["http", "https"]
            .iter()
            .any(|known| it.eq_ignore_ascii_case(known))
    })
}

/// A run as described by the command line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunRequest {
    /// Accepted by [`RunPlan::check`].
    pub(crate) plan: RunPlan,
    /// Arrivals or requests are random and no seed was given.
    pub(crate) draws_seed: bool,
    pub(crate) report: OutputOptions,
    /// The emulated tool, when called through a link.
    pub(crate) tool: Option<Style>,
    /// File for socket samples.
    pub(crate) samples: Option<PathBuf>,
    /// File for a record of each request.
    pub(crate) records: Option<PathBuf>,
    /// The machines that make it, unless this one does.
    pub(crate) fleet: Option<FleetRequest>,
    /// Print the version line first, then the backend and why it was chosen.
    pub(crate) version: bool,
    /// The command line to save in the result, if it is not the one of this process.
    pub(crate) command_line: Option<Vec<String>>,
    /// What the result names in place of the file of requests that is read.
    pub(crate) shown_file: Option<PathBuf>,
    /// What was taken for granted about the URL.
    pub(crate) note: Option<String>,
}

/// When to print the version line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VersionMode {
    None,
    /// Before everything else, as in wrk.
    First,
    /// Print it and exit.
    Only,
}

impl RunArgs {
    pub(super) fn version_mode(&self, dialect: Dialect) -> VersionMode {
        match (self.version, self.version_first, dialect) {
            (true, _, Dialect::Native) => VersionMode::Only,
            // Without a URL there is nothing to run.
            (_, true, Dialect::Native) if self.url.is_none() => VersionMode::Only,
            // In wrk, wrk2 and wrk-cmm, `-v` and `--version` are the same option.
            (true, ..) | (_, true, _) => VersionMode::First,
            (false, false, _) => VersionMode::None,
        }
    }

    /// The emulated tool. With a link named `wrk`, the options decide which of the three it is.
    pub(super) fn tool(&self, dialect: Dialect) -> Option<Style> {
        let traits = Traits::of(&self.options.0);
        (dialect != Dialect::Native).then(|| self.report.style(dialect, traits))
    }

    /// Whether a run is asked for, by a command that needs a log, and none is given.
    pub(super) fn lacks_log(&self) -> bool {
        self.version_mode(Dialect::Native) != VersionMode::Only && !self.options.0.has("replay")
    }

    /// The URL, if there is one.
    pub(super) fn target(&self) -> Option<&Target> {
        self.url.as_ref().map(|given| &given.target)
    }

    /// The run with a URL and script arguments from elsewhere, where the command line has none.
    pub(super) fn or(mut self, url: Option<Target>, script_arguments: Vec<String>) -> Self {
        self.url = self.url.or_else(|| url.map(GivenUrl::from));
        if self.script_arguments.is_empty() {
            self.script_arguments = script_arguments;
        }
        self
    }

    pub(super) fn options_mut(&mut self) -> &mut GivenOptions {
        &mut self.options.0
    }

    /// Adds the options of a file, which those of the command line override.
    pub(super) fn add_below(
        mut self,
        options: GivenOptions,
        report: GivenOptions<ReportValues>,
    ) -> Self {
        self.options.0.add_below(options);
        self.report.given.0.add_below(report);
        self
    }

    /// Converts the arguments to a run; `None` without a URL.
    pub(crate) fn into_request(self, dialect: Dialect) -> Result<Option<RunRequest>, Refusal> {
        let version = self.version_mode(dialect) != VersionMode::None;
        let described = DescribedRun {
            url: self.url,
            script_arguments: self.script_arguments,
            options: self.options.0,
            report: self.report,
        };
        let request = described.into_request(dialect, Some(self.fleet))?;
        Ok(request.map(|request| RunRequest { version, ..request }))
    }
}

/// A run as a command line or an experiment file describes it, with the values as typed.
#[derive(Debug, Default)]
pub(super) struct DescribedRun {
    pub(super) url: Option<GivenUrl>,
    pub(super) script_arguments: Vec<String>,
    pub(super) options: GivenOptions,
    pub(super) report: ReportArgs,
}

impl DescribedRun {
    /// Rejects a second URL, which would be ignored silently, unless a script receives it.
    fn check_arguments(&self) -> Result<(), Refusal> {
        let second = self.script_arguments.iter().find(|text| is_url(text));
        match second.filter(|_| !self.options.has("script")) {
            Some(url) => Err(Refusal(format!(
                "{:?}: a second URL (expected one; arguments after it need a script, -s)",
                hide_secrets(url)
            ))),
            None => Ok(()),
        }
    }

    /// The run; `None` without a URL.
    pub(super) fn into_request(
        self,
        dialect: Dialect,
        fleet: Option<FleetArgs>,
    ) -> Result<Option<RunRequest>, Refusal> {
        let traits = Traits::of(&self.options);
        let tool = (dialect != Dialect::Native).then(|| self.report.style(dialect, traits));
        self.check_arguments()?;
        let own_hosts = self.url.is_none();
        let options = self.options;
        let given = match (self.url, options.path("request-file")) {
            (Some(url), _) => url,
            (None, Some(file)) => first_target(file)?.into(),
            (None, None) => return Ok(None),
        };
        // A link behaves like its tool.
        if let Some(problem) = given.problem.filter(|_| dialect != Dialect::Native) {
            return Err(Refusal(problem));
        }
        let GivenUrl { target, note, .. } = given;
        let ReportValues {
            samples, records, ..
        } = self.report.given.values()?;
        if let Some(path) = samples.as_ref().filter(|_| !options.has("sockets")) {
            return Err(Refusal(format!(
                "--samples {path:?}: needs sockets to be sampled (--sockets)"
            )));
        }
        let made = options.plan(target);
        let mut plan = made.map_err(|error| Refusal(error.to_string()))?;
        if let Some(path) = options.path("request-file") {
            let refused = |error: OptionError| Refusal(format!("{error} ({path:?})"));
            match runner::pace_of_request_file(files::named(path), &reading()) {
                FilePace::Moments => options.follow_moments(&mut plan).map_err(refused)?,
                FilePace::Users if plan.pacing == Pacing::Closed => plan.pacing = Pacing::Users,
                FilePace::Users | FilePace::Options => {}
            }
        }
        plan.request.script_args = self.script_arguments;
        if let Some(file) = &mut plan.request.file {
            file.own_hosts = own_hosts && file.log.is_none();
        }
        plan.check().map_err(|error| Refusal::of_plan(&error))?;
        let report = self.report.into_options(dialect, traits)?;
        let fleet = match fleet {
            Some(fleet) => fleet.into_request()?,
            None => None,
        };
        let request = RunRequest {
            report,
            samples,
            records,
            fleet,
            draws_seed: options.draws_seed(&plan),
            plan,
            tool,
            version: false,
            command_line: None,
            shown_file: None,
            note,
        };
        request.check()?;
        Ok(Some(request))
    }
}

impl RunRequest {
    /// Rejects a file of records whose form is not known, or that is also for something else.
    fn check_records(&self, path: &Path) -> Result<(), Refusal> {
        if self.fleet.is_some() {
            let text = "--records: a fleet does not send its records (make the run on one machine)";
            return Err(Refusal(text.to_owned()));
        }
        if let Err(unknown) = RecordForm::of(path) {
            return Err(Refusal(format!("--records {path:?}: {unknown}")));
        }
        let report = &self.report;
        let other = match &report.report {
            Some(file) if file.path == path => Some(file.option),
            _ if self.samples.as_deref() == Some(path) => Some("--samples"),
            _ => None,
        };
        match other {
            Some(other) => Err(Refusal(format!(
                "--records {path:?}: is also the file of {other}"
            ))),
            None => report.check_other_file("--records", path),
        }
    }

    /// Rejects options of the report and of a fleet that do not go together.
    fn check(&self) -> Result<(), Refusal> {
        let Self {
            plan,
            report,
            samples,
            records,
            fleet,
            ..
        } = self;
        if fleet.is_some() && samples.is_some() {
            return Err(Refusal(
                "--samples: a fleet does not send its samples; the result has their summary"
                    .to_owned(),
            ));
        }
        if fleet.is_some() && !plan.scrape.is_empty() {
            let text = "--scrape: a fleet does not read the metrics of servers (make the run on \
                        one machine)";
            return Err(Refusal(text.to_owned()));
        }
        if let Some(server) = &plan.profile {
            check_profile(server, fleet.as_ref())?;
        }
        let has_files = samples.is_some() || records.is_some();
        if report.once && (fleet.is_some() || has_files || !report.outputs.is_empty()) {
            return Err(Refusal(
                "--once: one request is sent from here (remove --fleet, --samples, --records, \
                 --stream, --prometheus and --otlp)"
                    .to_owned(),
            ));
        }
        if let Some(path) = samples {
            report.check_other_file("--samples", path)?;
        }
        if let Some(path) = records {
            self.check_records(path)?;
        }
        Ok(())
    }
}

/// The long help of `wrkbench replay`.
const REPLAY: &str = "Replay an access log

Sends the requests of a log of nginx, Apache or another server at the moments at which they arrived \
there, whatever the response times. Latency counts from these moments. The run ends with the last \
request, unless -d or -n ends it earlier.

A log has no bodies: requests of other methods than GET, HEAD and OPTIONS are left out, unless \
--all-methods sends them without bodies.";

/// Arguments of `wrkbench replay`: those of a run.
#[derive(Debug, Clone)]
pub(crate) struct ReplayCommandArgs(pub(crate) RunArgs);

impl Args for ReplayCommandArgs {
    /// The arguments of a run, of which the log comes first, without its option.
    fn augment_args(command: clap::Command) -> clap::Command {
        RunArgs::augment_args(command)
            .about("Replay an access log")
            .long_about(REPLAY)
            .override_usage("wrkbench replay [OPTIONS] <LOG> <URL>")
            .mut_arg("replay", |log| {
                log.long(None)
                    .index(1)
                    .help("The access log; - is stdin")
                    .long_help(None)
                    .help_heading(None)
            })
            .mut_arg("duration", |duration| {
                duration
                    .help("How long to measure [default: until the last request]")
                    .long_help(None)
            })
            .mut_arg("url", |url| url.index(2))
            .mut_arg("script_arguments", |arguments| {
                arguments.index(3).hide(true)
            })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ReplayCommandArgs {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        RunArgs::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Only a fleet with a hub reaches other machines, and its coordinator is rarely on the server's.
fn check_profile(server: &str, fleet: Option<&FleetRequest>) -> Result<(), Refusal> {
    let names_host = ProfiledServer::of(server).is_ok_and(|it| it.host.is_some());
    let has_hub = fleet.is_some_and(FleetRequest::has_hub);
    match (names_host, has_hub) {
        (true, false) => Err(Refusal(format!(
            "--profile {server}: another machine is reached through a fleet (give --fleet \
             nats://HOST)"
        ))),
        (false, true) => Err(Refusal(format!(
            "--profile {server}: a fleet needs the name of the agent on the server's machine \
             (--profile host=NAME:{server})"
        ))),
        _ => Ok(()),
    }
}

/// What reading a request file needs.
fn reading() -> Invocation {
    Invocation {
        variables: environment_variables(),
        ..Invocation::default()
    }
}

/// The first target in a request file, for a command line without a URL.
fn first_target(path: &Path) -> Result<Target, Refusal> {
    match runner::target_of_request_file(files::named(path), &reading()) {
        Ok(Some(target)) => Ok(target),
        Ok(None) => Err(Refusal(format!(
            "--request-file {path:?}: its requests have only paths (give the URL of the server)"
        ))),
        Err(error) => Err(Refusal(error.to_string())),
    }
}
