//! Arguments of a run, and the conversion to a [`RunPlan`].

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, FromArgMatches, Parser, ValueEnum};
use plan::secrets::hide_secrets;
use plan::units::{parse_count, parse_count_u32, parse_time};
use plan::{
    AccessLog, AddressSpec, Alpn, BackendChoice, Body, ConnectionStage, DnsUse, EventsFormat,
    EventsSpec, HeaderError, Load, MAX_SPEED, MIN_SPEED, Pacing, Protocol, ProxySpec, RequestFile,
    RequestOrder, RequestSpec, RunPlan, SourceRange, Stop, Target, TlsSpec, parse_headers,
};
use runner::{Invocation, Variables};

use super::fleet::{FleetArgs, FleetRequest};
use super::rate::RateArgs;
use super::report::{ReportArgs, Traits};
use super::telemetry::TelemetryArgs;
use super::{Dialect, OutputOptions, Refusal, Style};

/// wrk's default; does not apply with `-n`.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Load one target (the default command)
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
    #[arg(value_name = "URL", value_parser = Target::parse)]
    url: Option<Target>,
    /// Arguments for the script's init(); put -- before any that start with -
    #[arg(value_name = "ARGUMENT")]
    script_arguments: Vec<String>,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    rate: RateArgs,
    #[command(flatten)]
    request: RequestArgs,
    #[command(flatten)]
    response: ResponseArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    replay: ReplayArgs,
    #[command(flatten)]
    proxy: ProxyArgs,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    telemetry: TelemetryArgs,
    #[command(flatten)]
    fleet: FleetArgs,
    /// Print the version, then run; with a URL, also print the backend and why it was chosen
    #[arg(short = 'v', help_heading = super::help::HEADING)]
    version_first: bool,
    /// Print the version
    #[arg(short = 'V', long, aliases = ["v", "ve", "ver"], help_heading = super::help::HEADING)]
    version: bool,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Load")]
struct LoadArgs {
    /// Connections to keep open
    // wrk accepts every beginning of the name; these would be ambiguous here.
    #[arg(short, long, value_name = "N", default_value = "10",
          aliases = ["c", "co", "con", "conn", "conne", "connec", "connect", "connecti",
                     "connectio", "connection"],
          long_help = "Total number of connections to keep open; at least one per thread",
          value_parser = parse_count_u32, allow_hyphen_values = true)]
    connections: u32,
    /// Numbers of connections over time: 10:30s,50:1m for steps, 10-200:1m for a ramp
    #[arg(long, value_name = "LIST", value_parser = read_connection_stages,
          conflicts_with = "connections", allow_hyphen_values = true)]
    connection_stages: Option<Connecting>,
    /// How long to measure [default: 10s]
    // wrk accepts `--d`, which would be ambiguous here.
    #[arg(short, long, alias = "d", value_name = "T", value_parser = parse_time,
          long_help = "How long to measure [default: 10s; with --stages their sum; with -n until \
                       the last request]",
          allow_hyphen_values = true)]
    duration: Option<Duration>,
    /// Worker threads
    #[arg(short, long, value_name = "N", default_value = "2",
          value_parser = parse_count_u32, allow_hyphen_values = true)]
    threads: u32,
    /// Stop after N requests, successful or failed
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_count,
          long_help = "Stop after N requests, successful or failed. --requests with something \
                       else than a number is --request-file",
          allow_hyphen_values = true)]
    requests: Option<u64>,
    /// Use HTTP/2: over TLS by ALPN, on http:// URLs with prior knowledge
    #[arg(long)]
    http2: bool,
    /// Make unary gRPC calls over HTTP/2; the URL has the path /package.Service/Method
    #[arg(
        long,
        long_help = "Make unary gRPC calls over HTTP/2 (implies --http2). The path of the URL is \
                     /package.Service/Method. The body is the message, with or without the \
                     five-byte prefix of gRPC; without --body and --body-file it is empty. A call \
                     succeeds if its grpc-status is 0"
    )]
    grpc: bool,
    /// With --http2: requests to keep in flight on each connection
    #[arg(short = 'm', long, value_name = "N", default_value = "1",
          value_parser = parse_count_u32, allow_hyphen_values = true)]
    streams: u32,
    /// With HTTP/1.1: requests to keep in flight on each connection
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_count_u32,
          allow_hyphen_values = true)]
    pipeline: u32,
    /// Let each connection keep the cookies that it gets and send them
    #[arg(long)]
    cookies: bool,
    /// Close each connection after one request
    #[arg(long, conflicts_with = "requests_per_connection")]
    no_keepalive: bool,
    /// Close each connection after N requests
    #[arg(long, value_name = "N", value_parser = parse_count, allow_hyphen_values = true)]
    requests_per_connection: Option<u64>,
    /// Open at most N connections per second, at the start and later; requests do not wait for all
    #[arg(long, value_name = "N", value_parser = parse_count_u32, allow_hyphen_values = true)]
    connect_rate: Option<u32>,
    /// Keep N further connections open and send nothing on them
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_count_u32,
          allow_hyphen_values = true)]
    idle: u32,
    /// Send load for this long before measuring
    #[arg(long, value_name = "T", default_value = "0", value_parser = parse_time,
          allow_hyphen_values = true)]
    warmup: Duration,
    /// Same as --warmup; the option of wrk-cmm
    #[arg(short = 'D', long, value_name = "T", value_parser = parse_time,
          conflicts_with = "warmup", allow_hyphen_values = true)]
    delay_stats: Option<Duration>,
    /// With --pipeline, measure only the last response of each batch
    // wrk2 accepts `--b`, which would be ambiguous here.
    #[arg(short = 'B', long = "batch_latency", aliases = ["batch-latency", "b"])]
    batch_latency: bool,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Request")]
struct RequestArgs {
    /// Send the requests in this file: JSON lines, or the .http format
    #[arg(
        long,
        value_name = "FILE",
        allow_hyphen_values = true,
        long_help = "Send the requests in this file: JSON lines, a request in each, or the .http \
                     format of VS Code and JetBrains (docs/requests.md). Short: --requests FILE. \
                     Without a URL, the first URL in the file is the target"
    )]
    request_file: Option<PathBuf>,
    /// Order of the requests in the file [default: weighted if a request has a weight, otherwise
    /// sequence]
    #[arg(long, visible_alias = "request-order", value_name = "HOW", value_enum)]
    order: Option<Order>,
    /// Lua script, with the same interface as in wrk
    // wrk accepts `--s`, which would be ambiguous here.
    #[arg(
        short,
        long,
        alias = "s",
        value_name = "FILE",
        allow_hyphen_values = true
    )]
    script: Option<PathBuf>,
    /// Add a header to each request, as "Name: value"; may be repeated
    #[arg(short = 'H', long, value_name = "HEADER", value_parser = read_headers,
          allow_hyphen_values = true)]
    header: Vec<Headers>,
    /// User and password for Basic authentication; -H Authorization has precedence
    #[arg(short, long, value_name = "USER:PASSWORD", allow_hyphen_values = true)]
    user: Option<String>,
    /// Request method [default: GET, or POST with a body or --grpc]
    #[arg(
        short = 'X',
        long,
        visible_alias = "request",
        value_name = "METHOD",
        allow_hyphen_values = true
    )]
    method: Option<String>,
    /// Request body
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "body_file"
    )]
    body: Option<String>,
    /// Read the request body from a file
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    body_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Replay")]
struct ReplayArgs {
    /// Send the requests of an access log at its moments; - is stdin
    #[arg(
        long,
        value_name = "LOG",
        conflicts_with_all = ["request_file", "script"],
        allow_hyphen_values = true,
        long_help = "Send the requests of an access log at its moments (docs/replay.md); - is \
                     stdin. wrkbench replay LOG is the same. The run ends with the last request, \
                     unless -d or -n ends it earlier"
    )]
    replay: Option<PathBuf>,
    /// Replay N times as fast as in the log [default: 1]
    #[arg(long, value_name = "N", value_parser = parse_speed, requires = "replay",
          allow_hyphen_values = true)]
    speed: Option<f64>,
    /// Format of the log: combined, common, vhost_combined, or as in nginx or Apache [default:
    /// found out]
    #[arg(
        long,
        value_name = "FORMAT",
        requires = "replay",
        allow_hyphen_values = true,
        long_help = "Format of the log: combined, common, vhost_combined, or the text of a \
                     log_format of nginx or of a LogFormat of Apache [default: one of the three, \
                     whichever the lines have]"
    )]
    log_format: Option<String>,
    /// Also send requests of other methods than GET, HEAD and OPTIONS, without bodies
    #[arg(long, requires = "replay")]
    all_methods: bool,
}

/// A speed: `2`, `0.5`, `10x`.
fn parse_speed(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('x').unwrap_or(text).parse::<f64>();
    number
        .ok()
        .filter(|speed| (MIN_SPEED..=MAX_SPEED).contains(speed))
        .ok_or_else(|| {
            format!("is not a speed (expected a number from {MIN_SPEED} to {MAX_SPEED}, like 2)")
        })
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Response")]
struct ResponseArgs {
    /// Time the events of streaming responses: server-sent events, lines or chunks
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        long_help = "Time the events of streaming responses: the time to the first event, the \
                     gaps between events, and events per second and per response. `sse` counts \
                     server-sent events with data, `lines` lines that are not empty, `chunks` \
                     chunks of HTTP/1.1 or DATA frames of HTTP/2 (docs/streaming.md)"
    )]
    events: Option<EventsName>,
    /// What ends a stream, as an event of its own; "" for none [default: [DONE] with sse]
    #[arg(
        long,
        value_name = "MARKER",
        requires = "events",
        allow_hyphen_values = true,
        long_help = "The data of the event (sse), the line or the chunk that ends a stream. It is \
                     not an event itself. A stream without it is unfinished. An empty text is for \
                     streams without a marker [default: [DONE] with sse, otherwise none]"
    )]
    events_end: Option<String>,
}

impl ResponseArgs {
    fn into_spec(self) -> Option<EventsSpec> {
        self.events.map(|format| EventsSpec {
            format: format.into(),
            end_marker: self.events_end,
        })
    }
}

/// [`EventsFormat`] as a command-line value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EventsName {
    Sse,
    Lines,
    Chunks,
}

impl From<EventsName> for EventsFormat {
    fn from(name: EventsName) -> Self {
        match name {
            EventsName::Sse => Self::Sse,
            EventsName::Lines => Self::Lines,
            EventsName::Chunks => Self::Chunks,
        }
    }
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

/// The headers in one option value: usually one, but a value may hold several lines.
#[derive(Debug, Clone)]
struct Headers(Vec<(String, String)>);

fn read_headers(text: &str) -> Result<Headers, HeaderError> {
    parse_headers(text).map(Headers)
}

/// The stages in one option value.
#[derive(Debug, Clone)]
struct Connecting(Vec<ConnectionStage>);

fn read_connection_stages(text: &str) -> Result<Connecting, String> {
    ConnectionStage::parse_list(text).map(Connecting)
}

/// The protocols in one option value.
#[derive(Debug, Clone)]
struct Offered(Vec<Alpn>);

fn read_alpn(text: &str) -> Result<Offered, String> {
    Alpn::parse_list(text).map(Offered)
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
struct ConnectionArgs {
    /// Time limit for a connect and for each response; 0 means no limit
    #[arg(short = 'T', long, value_name = "T", default_value = "2s", value_parser = parse_time,
          allow_hyphen_values = true)]
    timeout: Duration,
    /// Connect from this address, or from each address of a network in turn, like 10.0.0.0/24
    #[arg(short = 'b', long, value_name = "ADDRESS", value_parser = SourceRange::parse,
          allow_hyphen_values = true)]
    bind_ip: Option<SourceRange>,
    /// Connect to this Unix socket; the URL then only sets the Host header and the path
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
    unix_socket: Option<PathBuf>,
    /// Addresses of a name to use: the first that accepts connections, or all, spread evenly over
    /// the connections
    #[arg(long, value_name = "WHICH", value_enum, default_value = "first")]
    dns: Dns,
    /// Use these addresses for a host and port, as in curl; may be repeated
    #[arg(
        long,
        value_name = "HOST:PORT:ADDRESS",
        allow_hyphen_values = true,
        long_help = "Use these addresses for a host and port, as in curl: \
                       example.test:443:10.0.0.1,10.0.0.2; * is any host. May be repeated"
    )]
    resolve: Vec<String>,
    /// Connect to another host, as in curl: HOST1:PORT1:HOST2:PORT2; may be repeated
    #[arg(
        long,
        value_name = "RULE",
        allow_hyphen_values = true,
        long_help = "Connect to HOST2 and PORT2 instead of HOST1 and PORT1, as in curl: \
                       HOST1:PORT1:HOST2:PORT2, each of which may be empty. The Host header, and \
                       the name in TLS, stay the same. May be repeated"
    )]
    connect_to: Vec<String>,
    /// Look the name up again every T during the run
    #[arg(long, value_name = "T", value_parser = parse_time, allow_hyphen_values = true)]
    resolve_every: Option<Duration>,
    /// Kernel interface for socket I/O
    #[arg(long, value_name = "BACKEND", value_enum, default_value = "auto")]
    io: Io,
    /// Protocols to offer over TLS: h2, http/1.1 or both with a comma, the preferred one first
    #[arg(
        long,
        value_name = "LIST",
        value_parser = read_alpn,
        allow_hyphen_values = true,
        long_help = "Protocols to offer over TLS (ALPN): h2, http/1.1 or both with a comma, the \
                     preferred one first. With both, the server chooses the protocol of the run \
                     on a connection before it, unless --http2 or --grpc requires HTTP/2 \
                     [default: the protocol of the run]"
    )]
    alpn: Option<Offered>,
    /// Reject server certificates that are not valid for the host
    #[arg(long)]
    verify: bool,
    /// Trust the CA certificates in this PEM file; implies --verify
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    cacert: Option<PathBuf>,
    /// Client certificate chain, a PEM file; needs --key
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    cert: Option<PathBuf>,
    /// Private key of the client certificate, a PEM file
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    key: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Proxy")]
struct ProxyArgs {
    /// Connect through a proxy: [http|https|socks5|socks5h://][user:password@]host[:port]
    #[arg(
        short = 'x',
        long,
        value_name = "URL",
        value_parser = ProxySpec::parse,
        allow_hyphen_values = true,
        long_help = "Connect through a proxy: [http|https|socks5|socks5h://][user:password@]host\
                     [:port]. Without a scheme it is an HTTP proxy; the default port is 1080, and \
                     443 for https. With socks5h the proxy resolves the name of the target. The \
                     environment (http_proxy and others) is not read"
    )]
    proxy: Option<ProxySpec>,
    /// User and password for the proxy
    #[arg(
        long,
        value_name = "USER:PASSWORD",
        requires = "proxy",
        allow_hyphen_values = true
    )]
    proxy_user: Option<String>,
    /// Ask an HTTP proxy for a tunnel (CONNECT) to http:// targets, too
    #[arg(short = 'p', long = "proxytunnel", requires = "proxy")]
    tunnel: bool,
    /// Reject certificates of an https:// proxy that are not valid for its host
    #[arg(long, requires = "proxy")]
    proxy_verify: bool,
    /// Trust the CA certificates in this PEM file for the proxy; implies --proxy-verify
    #[arg(
        long,
        value_name = "FILE",
        requires = "proxy",
        allow_hyphen_values = true
    )]
    proxy_cacert: Option<PathBuf>,
}

/// [`BackendChoice`] as a command-line value.
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

/// [`DnsUse`] as a command-line value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Dns {
    First,
    All,
}

impl From<Dns> for DnsUse {
    fn from(dns: Dns) -> Self {
        match dns {
            Dns::First => Self::First,
            Dns::All => Self::All,
        }
    }
}

/// [`RequestOrder`] as a command-line value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    Sequence,
    Random,
    Weighted,
}

impl From<Order> for RequestOrder {
    fn from(order: Order) -> Self {
        match order {
            Order::Sequence => Self::Sequence,
            Order::Random => Self::Random,
            Order::Weighted => Self::Weighted,
        }
    }
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
    /// The machines that make it, unless this one does.
    pub(crate) fleet: Option<FleetRequest>,
    /// Print the version line first, then the backend and why it was chosen.
    pub(crate) version: bool,
    /// The command line to save in the result, if it is not the one of this process.
    pub(crate) command_line: Option<Vec<String>>,
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
        (dialect != Dialect::Native).then(|| self.report.style(dialect, self.traits()))
    }

    fn traits(&self) -> Traits {
        Traits {
            is_open: self.rate.is_open(),
            has_options_of_cmm: self.load.delay_stats.is_some()
                || self.connection.bind_ip.is_some(),
        }
    }

    /// Whether a run is asked for, by a command that needs a log, and none is given.
    pub(super) fn lacks_log(&self) -> bool {
        self.version_mode(Dialect::Native) != VersionMode::Only && self.replay.replay.is_none()
    }

    /// Rejects a second URL, which would be ignored silently, unless a script receives it.
    fn check_arguments(&self) -> Result<(), Refusal> {
        let second = self.script_arguments.iter().find(|text| is_url(text));
        match second.filter(|_| self.request.script.is_none()) {
            Some(url) => Err(Refusal(format!(
                "{:?}: a second URL (expected one; arguments after it need a script, -s)",
                hide_secrets(url)
            ))),
            None => Ok(()),
        }
    }

    /// Converts the arguments to a run; `None` without a URL.
    pub(crate) fn into_request(self, dialect: Dialect) -> Result<Option<RunRequest>, Refusal> {
        let (tool, traits) = (self.tool(dialect), self.traits());
        let version = self.version_mode(dialect) != VersionMode::None;
        self.check_arguments()?;
        let own_hosts = self.url.is_none();
        let target = match self.url {
            Some(url) => Some(url),
            None => self.request.target()?,
        };
        let Some(mut target) = target else {
            return Ok(None);
        };
        let connection = self.connection;
        target.unix_socket = connection.unix_socket;
        let stages_duration = self.rate.stages_duration();
        let stages_duration = stages_duration.or_else(|| self.load.stages_duration());
        let default_duration = match (stages_duration, self.load.requests) {
            (Some(stages), _) => Some(stages),
            (None, Some(_)) => None,
            (None, None) if self.replay.replay.is_some() => None,
            (None, None) => Some(DEFAULT_DURATION),
        };
        let seed = self.rate.seed();
        let has_file = self.request.request_file.is_some();
        let (mut pacing, draws_seed) = self.rate.into_pacing(has_file)?;
        if let (Some(recorded), Pacing::Closed) = (self.replay.pacing(), &pacing) {
            pacing = recorded;
        }
        let mut request = self.request.into_spec(self.script_arguments, seed)?;
        if let Some(file) = &mut request.file {
            file.own_hosts = own_hosts;
        }
        request.file = self.replay.into_file().or(request.file);
        let alpn = connection.alpn.map(|offered| offered.0).unwrap_or_default();
        let (telemetry, samples) = self.telemetry.into_parts()?;
        let plan = RunPlan {
            telemetry,
            target,
            stop: Stop {
                duration: self.load.duration.or(default_duration),
                requests: self.load.requests,
            },
            warmup: self.load.delay_stats.unwrap_or(self.load.warmup),
            load: self.load.into_load(connection.bind_ip, &alpn),
            pacing,
            timeout: connection.timeout,
            request,
            events: self.response.into_spec(),
            tls: TlsSpec {
                // A CA without verification would have no effect.
                verify: connection.verify || connection.cacert.is_some(),
                alpn,
                cacert: connection.cacert,
                cert: connection.cert,
                key: connection.key,
            },
            addresses: AddressSpec {
                dns: connection.dns.into(),
                resolve: connection.resolve,
                connect_to: connection.connect_to,
                resolve_every: connection.resolve_every,
            },
            proxy: self.proxy.into_spec(),
            backend: connection.io.into(),
        };
        plan.check().map_err(|error| Refusal::of_plan(&error))?;
        let report = self.report.into_options(dialect, traits)?;
        let fleet = self.fleet.into_request()?;
        if fleet.is_some() && samples.is_some() {
            return Err(Refusal(
                "--samples: a fleet does not send its samples; the result has their summary"
                    .to_owned(),
            ));
        }
        if report.once && (fleet.is_some() || samples.is_some()) {
            return Err(Refusal(
                "--once: one request is sent from here (remove --fleet and --samples)".to_owned(),
            ));
        }
        if let Some(path) = &samples {
            report.check_other_file("--samples", path)?;
        }
        Ok(Some(RunRequest {
            report,
            samples,
            fleet,
            plan,
            draws_seed: draws_seed || has_file && seed.is_none(),
            tool,
            version,
            command_line: None,
        }))
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

impl ReplayArgs {
    fn pacing(&self) -> Option<Pacing> {
        let speed = self.speed.unwrap_or(1.0);
        self.replay.as_ref().map(|_| Pacing::Recorded { speed })
    }

    fn into_file(self) -> Option<RequestFile> {
        let path = match self.replay? {
            stdin if stdin.as_os_str() == "-" => "/dev/stdin".into(),
            path => path,
        };
        Some(RequestFile {
            path,
            order: None,
            seed: 0,
            own_hosts: false,
            log: Some(AccessLog {
                log_format: self.log_format,
                all_methods: self.all_methods,
            }),
        })
    }
}

impl ProxyArgs {
    fn into_spec(self) -> Option<ProxySpec> {
        let mut spec = self.proxy?;
        // As in curl, this one has precedence.
        spec.user = self.proxy_user.or(spec.user);
        spec.tunnel = self.tunnel;
        spec.verify = self.proxy_verify || self.proxy_cacert.is_some();
        spec.cacert = self.proxy_cacert;
        Some(spec)
    }
}

impl LoadArgs {
    /// The total length of all stages of connections.
    fn stages_duration(&self) -> Option<Duration> {
        let Connecting(stages) = self.connection_stages.as_ref()?;
        Some(stages.iter().map(|stage| stage.duration).sum())
    }

    fn into_load(self, source: Option<SourceRange>, alpn: &[Alpn]) -> Load {
        let stages = self.connection_stages.map(|Connecting(stages)| stages);
        let most = stages.as_deref().map(ConnectionStage::most);
        Load {
            threads: self.threads,
            connections: most.unwrap_or(self.connections),
            connection_stages: stages.unwrap_or_default(),
            protocol: match (self.grpc, self.http2 || alpn == [Alpn::Http2]) {
                (true, _) => Protocol::Grpc,
                (false, true) => Protocol::Http2,
                (false, false) => Protocol::Http1,
            },
            streams: self.streams,
            pipeline: self.pipeline,
            cookies: self.cookies,
            keepalive: !self.no_keepalive,
            requests_per_connection: self.requests_per_connection,
            connect_rate_per_sec: self.connect_rate,
            idle_connections: self.idle,
            source,
            batch_latency: self.batch_latency,
        }
    }
}

impl RequestArgs {
    /// The first target in the request file, for a command line without a URL.
    fn target(&self) -> Result<Option<Target>, Refusal> {
        let Some(path) = &self.request_file else {
            return Ok(None);
        };
        let invocation = Invocation {
            variables: environment_variables(),
            ..Invocation::default()
        };
        let refuse = |text: String| Err(Refusal(text));
        match runner::target_of_request_file(path, &invocation) {
            Ok(Some(target)) => Ok(Some(target)),
            Ok(None) => refuse(format!(
                "--request-file {path:?}: its requests have only paths (give the URL of the server)"
            )),
            Err(error) => refuse(error.to_string()),
        }
    }

    fn into_spec(
        self,
        script_args: Vec<String>,
        seed: Option<u64>,
    ) -> Result<RequestSpec, Refusal> {
        let inline = self.body.map(|text| Body::Inline(text.into_bytes()));
        if self.order.is_some() && self.request_file.is_none() {
            return Err(Refusal(
                "--order: needs a request file (--requests FILE)".to_owned(),
            ));
        }
        let headers = self.header.into_iter().flat_map(|lines| lines.0);
        let mut headers: Vec<(String, String)> = headers.collect();
        if let Some(user) = self.user {
            const NAME: &str = "Authorization";
            let value = convert::basic_authorization(&user).ok_or_else(|| {
                Refusal("--user: has no password (expected USER:PASSWORD)".to_owned())
            })?;
            // As in curl, an explicit header has precedence.
            if !headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case(NAME))
            {
                headers.push((NAME.to_owned(), value));
            }
        }
        Ok(RequestSpec {
            method: self.method,
            headers,
            body: inline.or_else(|| self.body_file.map(Body::File)),
            file: self.request_file.map(|path| RequestFile {
                path,
                order: self.order.map(RequestOrder::from),
                seed: seed.unwrap_or_default(),
                own_hosts: false,
                log: None,
            }),
            script: self.script,
            script_args,
        })
    }
}
