//! The arguments of a run, and the plan they make.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};
use plan::units::{parse_count, parse_count_u32, parse_time};
use plan::{
    BackendChoice, Body, Load, Pacing, RequestSpec, RunPlan, Stop, Target, TlsSpec, parse_header,
};

use super::Refusal;

/// wrk's default, which `-n` takes away.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Load one target (this is also what happens without a command)
#[derive(Debug, Clone, Parser)]
#[command(name = "wrkbench", disable_version_flag = true)]
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
    request: RequestArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    report: ReportArgs,
    /// Print the version and go on; with a URL also say which backend runs and why
    #[arg(short = 'v', long, aliases = ["v", "ve", "ver"])]
    pub(crate) version: bool,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Load")]
struct LoadArgs {
    /// Connections in all, kept open; at least one for each thread
    // `--c` is this option in wrk, and would be ambiguous here.
    #[arg(short, long, alias = "c", value_name = "N", default_value = "10",
          value_parser = parse_count_u32, allow_hyphen_values = true)]
    connections: u32,
    /// How long to measure [default: 10s; with -n until the last request]
    #[arg(short, long, value_name = "T", value_parser = parse_time, allow_hyphen_values = true)]
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
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Request")]
struct RequestArgs {
    /// Lua script with wrk's interface
    #[arg(short, long, value_name = "FILE", allow_hyphen_values = true)]
    script: Option<PathBuf>,
    /// Header as "Name: value"; may be given several times
    #[arg(short = 'H', long, value_name = "HEADER", value_parser = parse_header,
          allow_hyphen_values = true)]
    header: Vec<(String, String)>,
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

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
struct ConnectionArgs {
    /// How long a connect or an answer may take
    #[arg(short = 'T', long, value_name = "T", default_value = "2s", value_parser = parse_time,
          allow_hyphen_values = true)]
    timeout: Duration,
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

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Report")]
struct ReportArgs {
    /// Print how the latency is distributed
    #[arg(short = 'L', long)]
    latency: bool,
    /// Print these percentiles, like 50,90,99.9 (with --latency implied)
    #[arg(long, value_name = "LIST", value_parser = parse_percentiles, allow_hyphen_values = true)]
    percentiles: Option<Percentiles>,
    /// Correct the latencies as wrk does, by its expected interval
    #[arg(long)]
    wrk_correction: bool,
    /// Write the whole result as JSON; - is stdout, then nothing else is written there
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    json: Option<PathBuf>,
    /// No notes and warnings on stderr
    #[arg(short, long)]
    quiet: bool,
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
    /// What is printed and saved.
    pub(crate) report: ReportWish,
    /// Print the version line first, and the backend with its reason.
    pub(crate) version: bool,
}

/// What is printed and saved of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ReportWish {
    /// The latency block.
    pub(crate) latency: bool,
    /// Percentiles of the latency block instead of the usual ones: ascending, in 0..=100.
    pub(crate) percentiles: Option<Vec<f64>>,
    /// wrk's correction of the latencies.
    pub(crate) wrk_correction: bool,
    /// Where the document goes.
    pub(crate) json: Option<JsonTarget>,
    /// Neither notes nor warnings.
    pub(crate) quiet: bool,
}

/// Where the JSON document goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JsonTarget {
    /// Standard output, which then carries nothing else of ours.
    Stdout,
    /// A file, replaced as a whole.
    File(PathBuf),
}

impl RunArgs {
    /// The run that the arguments describe; `None` when there is no URL.
    pub(crate) fn into_request(self) -> Result<Option<RunRequest>, Refusal> {
        let Some(mut target) = self.url else {
            return Ok(None);
        };
        let connection = self.connection;
        target.unix_socket = connection.unix_socket;
        let duration = match self.load.requests {
            None => Some(self.load.duration.unwrap_or(DEFAULT_DURATION)),
            Some(_) => self.load.duration,
        };
        let plan = RunPlan {
            target,
            stop: Stop {
                duration,
                requests: self.load.requests,
            },
            warmup: self.load.warmup,
            load: self.load.into_load(),
            pacing: Pacing::Closed,
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
        let report = self.report.into_wish();
        Ok(Some(RunRequest {
            plan,
            report,
            version: self.version,
        }))
    }
}

impl LoadArgs {
    fn into_load(self) -> Load {
        Load {
            threads: self.threads,
            connections: self.connections,
            pipeline: self.pipeline,
            keepalive: !self.no_keepalive,
            requests_per_connection: self.requests_per_connection,
            source: None,
            batch_latency: false,
        }
    }
}

impl RequestArgs {
    fn into_spec(self, script_args: Vec<String>) -> RequestSpec {
        let inline = self.body.map(|text| Body::Inline(text.into_bytes()));
        RequestSpec {
            method: self.method,
            headers: self.header,
            body: inline.or_else(|| self.body_file.map(Body::File)),
            script: self.script,
            script_args,
        }
    }
}

impl ReportArgs {
    fn into_wish(self) -> ReportWish {
        ReportWish {
            latency: self.latency || self.percentiles.is_some(),
            percentiles: self.percentiles.map(|list| list.0),
            wrk_correction: self.wrk_correction,
            json: self.json.map(|path| {
                if path.as_os_str() == "-" {
                    JsonTarget::Stdout
                } else {
                    JsonTarget::File(path)
                }
            }),
            quiet: self.quiet,
        }
    }
}

/// Ascending, each in 0..=100, none twice.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Percentiles(Vec<f64>);

/// More would not fit a screen, and each is a walk over the histogram.
const MAX_PERCENTILES: usize = 100;

fn parse_percentiles(text: &str) -> Result<Percentiles, String> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let number = part.strip_suffix('%').unwrap_or(part);
        // `f64`'s parser also knows words (inf, nan) and exponents, which nobody means here.
        let plain = number
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
        let value = number
            .parse::<f64>()
            .ok()
            .filter(|value| plain && *value <= 100.0);
        list.push(value.ok_or_else(|| {
            format!("{part:?} is not a percentile (expected numbers up to 100, like 50,90,99.9)")
        })?);
    }
    if list.len() > MAX_PERCENTILES {
        return Err(format!("more than {MAX_PERCENTILES} percentiles"));
    }
    list.sort_by(f64::total_cmp);
    list.dedup();
    Ok(Percentiles(list))
}
