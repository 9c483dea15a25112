//! The arguments of a run, and the plan they make.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};
use plan::secrets::hide_secrets;
use plan::units::{parse_count, parse_count_u32, parse_time};
use plan::{
    BackendChoice, Body, HeaderError, Load, RequestSpec, RunPlan, SourceRange, Stop, Target,
    TlsSpec, parse_headers,
};

use super::rate::RateArgs;
use super::report::{ReportArgs, Traits};
use super::telemetry::TelemetryArgs;
use super::{Dialect, Refusal, ReportWish, Style};

/// wrk's default, which `-n` takes away.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Load one target (this is also what happens without a command)
#[derive(Debug, Clone, Parser)]
#[command(name = "wrkbench", disable_version_flag = true, after_help = super::exit_codes())]
pub(crate) struct RunArgs {
    // First, so that no group's heading is over them in the help.
    /// Where the requests go: http://host[:port][/path] or https://
    #[arg(value_name = "URL", value_parser = Target::parse)]
    url: Option<Target>,
    /// Handed to the script's init(); write -- before those that begin with -
    #[arg(value_name = "ARGUMENT")]
    script_arguments: Vec<String>,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    rate: RateArgs,
    #[command(flatten)]
    request: RequestArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    telemetry: TelemetryArgs,
    /// Print the version and go on; with a URL also say which backend runs and why
    #[arg(short = 'v')]
    version_first: bool,
    /// Print the version
    #[arg(short = 'V', long, aliases = ["v", "ve", "ver"])]
    version: bool,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Load")]
struct LoadArgs {
    /// Connections in all, kept open; at least one for each thread
    // `--c` and `--co` are this option in wrk, and would be ambiguous here.
    #[arg(short, long, aliases = ["c", "co"], value_name = "N", default_value = "10",
          value_parser = parse_count_u32, allow_hyphen_values = true)]
    connections: u32,
    /// How long to measure [default: 10s; with --stages all of them; with -n until the last request]
    // `--d` is this option in wrk, and would be ambiguous here.
    #[arg(short, long, alias = "d", value_name = "T", value_parser = parse_time,
          allow_hyphen_values = true)]
    duration: Option<Duration>,
    /// Worker threads
    #[arg(short, long, value_name = "N", default_value = "2",
          value_parser = parse_count_u32, allow_hyphen_values = true)]
    threads: u32,
    /// Stop when so many requests have been sent and answered (or have failed)
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_count,
          allow_hyphen_values = true)]
    requests: Option<u64>,
    /// Requests in flight on each connection
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_count_u32,
          allow_hyphen_values = true)]
    pipeline: u32,
    /// Close each connection after one request
    #[arg(long, conflicts_with = "requests_per_connection")]
    no_keepalive: bool,
    /// Close each connection after so many requests
    #[arg(long, value_name = "N", value_parser = parse_count, allow_hyphen_values = true)]
    requests_per_connection: Option<u64>,
    /// Send load for this long before measuring begins
    #[arg(long, value_name = "T", default_value = "0", value_parser = parse_time,
          allow_hyphen_values = true)]
    warmup: Duration,
    /// The same as --warmup: wrk-cmm's option
    #[arg(short = 'D', long, value_name = "T", value_parser = parse_time,
          conflicts_with = "warmup", allow_hyphen_values = true)]
    delay_stats: Option<Duration>,
    /// Of answers to requests that were sent together, measure only the last
    // `--b` is this option in wrk2, and would be ambiguous here.
    #[arg(short = 'B', long = "batch_latency", aliases = ["batch-latency", "b"])]
    batch_latency: bool,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Request")]
struct RequestArgs {
    /// Lua script with wrk's interface
    // `--s` is this option in wrk, and would be ambiguous here.
    #[arg(
        short,
        long,
        alias = "s",
        value_name = "FILE",
        allow_hyphen_values = true
    )]
    script: Option<PathBuf>,
    /// Header as "Name: value"; may be given several times
    #[arg(short = 'H', long, value_name = "HEADER", value_parser = read_headers,
          allow_hyphen_values = true)]
    header: Vec<Headers>,
    /// Method of the request [default: GET; POST with a body]
    #[arg(
        short = 'X',
        long,
        visible_alias = "request",
        value_name = "METHOD",
        allow_hyphen_values = true
    )]
    method: Option<String>,
    /// Body of the request
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "body_file"
    )]
    body: Option<String>,
    /// File whose content is the body of the request
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    body_file: Option<PathBuf>,
}

/// The headers of one value: usually one.
#[derive(Debug, Clone)]
struct Headers(Vec<(String, String)>);

fn read_headers(text: &str) -> Result<Headers, HeaderError> {
    parse_headers(text).map(Headers)
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
struct ConnectionArgs {
    /// How long a connect or a response may take; 0 is without a limit
    #[arg(short = 'T', long, value_name = "T", default_value = "2s", value_parser = parse_time,
          allow_hyphen_values = true)]
    timeout: Duration,
    /// Connect from this address, or from all of a network in turn, like 10.0.0.0/24
    #[arg(short = 'b', long, value_name = "ADDRESS", value_parser = SourceRange::parse,
          allow_hyphen_values = true)]
    bind_ip: Option<SourceRange>,
    /// Connect to this socket; the URL then gives only the Host header and the path
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
    unix_socket: Option<PathBuf>,
    /// Kernel interface that drives the sockets
    #[arg(long, value_name = "BACKEND", value_enum, default_value = "auto")]
    io: Io,
    /// Refuse a certificate that is not valid for the host
    #[arg(long)]
    verify: bool,
    /// Trust the authorities in this PEM file, and verify
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    cacert: Option<PathBuf>,
    /// Our certificate chain, a PEM file; needs --key
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    cert: Option<PathBuf>,
    /// Private key of our certificate, a PEM file
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    key: Option<PathBuf>,
}

/// [`BackendChoice`] with names for the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Io {
    Auto,
    Uring,
    Epoll,
}

impl From<Io> for BackendChoice {
    fn from(io: Io) -> Self {
        match io {
            Io::Auto => Self::Auto,
            Io::Uring => Self::Uring,
            Io::Epoll => Self::Epoll,
        }
    }
}

/// A run as the command line describes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunRequest {
    /// Checked: [`RunPlan::check`] has accepted it.
    pub(crate) plan: RunPlan,
    /// The arrivals of the plan are random, and nobody has said with which seed.
    pub(crate) draws_seed: bool,
    /// What is printed and saved.
    pub(crate) report: ReportWish,
    /// The tool that is stood in for, when the program was called through a link.
    pub(crate) tool: Option<Style>,
    /// Where samples of sockets go.
    pub(crate) samples: Option<PathBuf>,
    /// Print the version line first, and the backend with its reason.
    pub(crate) version: bool,
}

/// What is to become of the version line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VersionWish {
    /// It is not asked for.
    None,
    /// It comes before everything else, as in wrk.
    First,
    /// Nothing else is wanted.
    Only,
}

impl RunArgs {
    /// What is to become of the version line.
    pub(super) fn version_wish(&self, dialect: Dialect) -> VersionWish {
        match (self.version, self.version_first, dialect) {
            (true, _, Dialect::Native) => VersionWish::Only,
            // A version and no run.
            (_, true, Dialect::Native) if self.url.is_none() => VersionWish::Only,
            // In the three tools `-v` and `--version` are one option.
            (true, ..) | (_, true, _) => VersionWish::First,
            (false, false, _) => VersionWish::None,
        }
    }

    /// The tool that is stood in for: through a link named `wrk` the options decide which of the three it is.
    pub(super) fn tool(&self, dialect: Dialect) -> Option<Style> {
        (dialect != Dialect::Native).then(|| self.report.style(dialect, self.traits()))
    }

    fn traits(&self) -> Traits {
        Traits {
            is_open: self.rate.is_open(),
            has_options_of_cmm: self.load.delay_stats.is_some()
                || self.connection.bind_ip.is_some(),
        }
    }

    /// Refuses a URL behind the URL, unless a script gets it: it would be read over in silence.
    fn check_arguments(&self) -> Result<(), Refusal> {
        let is_url = |text: &&String| {
            let scheme = text
                .split_once("://")
                .map(|(scheme, _)| scheme.to_ascii_lowercase());
            matches!(scheme.as_deref(), Some("http" | "https"))
        };
        let second = self.script_arguments.iter().find(is_url);
        match second.filter(|_| self.request.script.is_none()) {
            Some(url) => Err(Refusal(format!(
                "{:?}: a second URL (expected one; what follows it is for a script, -s)",
                hide_secrets(url)
            ))),
            None => Ok(()),
        }
    }

    /// The run that the arguments describe; `None` when there is no URL.
    pub(crate) fn into_request(self, dialect: Dialect) -> Result<Option<RunRequest>, Refusal> {
        let (tool, traits) = (self.tool(dialect), self.traits());
        let version = self.version_wish(dialect) != VersionWish::None;
        self.check_arguments()?;
        let Some(mut target) = self.url else {
            return Ok(None);
        };
        let connection = self.connection;
        target.unix_socket = connection.unix_socket;
        let by_default = match (self.rate.stages_duration(), self.load.requests) {
            (Some(stages), _) => Some(stages),
            (None, Some(_)) => None,
            (None, None) => Some(DEFAULT_DURATION),
        };
        let (pacing, draws_seed) = self.rate.into_pacing()?;
        let (telemetry, samples) = self.telemetry.into_parts()?;
        let plan = RunPlan {
            telemetry,
            target,
            stop: Stop {
                duration: self.load.duration.or(by_default),
                requests: self.load.requests,
            },
            warmup: self.load.delay_stats.unwrap_or(self.load.warmup),
            load: self.load.into_load(connection.bind_ip),
            pacing,
            timeout: connection.timeout,
            request: self.request.into_spec(self.script_arguments),
            tls: TlsSpec {
                // Naming an authority without wanting its word would make no sense.
                verify: connection.verify || connection.cacert.is_some(),
                cacert: connection.cacert,
                cert: connection.cert,
                key: connection.key,
            },
            backend: connection.io.into(),
        };
        plan.check().map_err(|error| Refusal::of_plan(&error))?;
        let report = self.report.into_wish(dialect, traits)?;
        if let Some(path) = &samples {
            report.check_other_file("--samples", path)?;
        }
        Ok(Some(RunRequest {
            report,
            samples,
            plan,
            draws_seed,
            tool,
            version,
        }))
    }
}

impl LoadArgs {
    fn into_load(self, source: Option<SourceRange>) -> Load {
        Load {
            threads: self.threads,
            connections: self.connections,
            pipeline: self.pipeline,
            keepalive: !self.no_keepalive,
            requests_per_connection: self.requests_per_connection,
            source,
            batch_latency: self.batch_latency,
        }
    }
}

impl RequestArgs {
    fn into_spec(self, script_args: Vec<String>) -> RequestSpec {
        let inline = self.body.map(|text| Body::Inline(text.into_bytes()));
        RequestSpec {
            method: self.method,
            headers: self.header.into_iter().flat_map(|lines| lines.0).collect(),
            body: inline.or_else(|| self.body_file.map(Body::File)),
            script: self.script,
            script_args,
        }
    }
}
