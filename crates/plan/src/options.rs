//! A plan as a list of options with values: the one source of command lines, names and comparisons
//! of loads, and of texts about a plan.

use std::path::PathBuf;
use std::time::Duration;

use crate::{
    AddressSpec, Alpn, Arrivals, BackendChoice, Body, ConnectionStage, DnsUse, EventsSpec, Load,
    Pacing, Protocol, ProxySpec, RequestSpec, RunPlan, Scheme, Stage, Stop, Target, TelemetrySpec,
    TlsSpec, readable, shell, units,
};

/// What an option sets. The order is the one in which options are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OptionName {
    /// The URL as typed.
    Url,
    /// Scheme, host and port of the URL, or the Unix socket in place of host and port.
    Server,
    /// The `Host` header that the URL makes.
    HostHeader,
    /// Path and query of the URL.
    Path,
    /// Whether the URL has a user.
    User,
    /// `--unix-socket`
    UnixSocket,
    /// `-t`
    Threads,
    /// `-c`
    Connections,
    /// `--connection-stages`
    ConnectionStages,
    /// `-d`
    Duration,
    /// `-n`
    Requests,
    /// `-R` or `--stages`
    Rate,
    /// `--arrivals`
    Arrivals,
    /// `--seed`
    Seed,
    /// `--warmup`
    Warmup,
    /// `-T`
    Timeout,
    /// `--http2` or `--grpc`
    Protocol,
    /// `-m`
    Streams,
    /// `--pipeline`
    Pipeline,
    /// `-B`
    BatchLatency,
    /// `--no-keepalive`
    KeepAlive,
    /// `--requests-per-connection`
    RequestsPerConnection,
    /// `--connect-rate`
    ConnectRate,
    /// `--idle`
    IdleConnections,
    /// `--cookies`
    Cookies,
    /// `-b`
    SourceAddress,
    /// `-X`
    Method,
    /// `-H`, once for each header
    Headers,
    /// `--body` or `--body-file`
    Body,
    /// `--request-file`
    RequestFile,
    /// `--order`
    RequestOrder,
    /// `--replay`
    Replay,
    /// `--speed`
    Speed,
    /// `--log-format`
    LogFormat,
    /// `--all-methods`
    AllMethods,
    /// `-s`
    Script,
    /// What follows the URL
    ScriptArguments,
    /// `--events`
    Events,
    /// `--events-end`
    EventsEnd,
    /// `--alpn`
    Alpn,
    /// `--verify`
    Verify,
    /// `--cacert`
    CaFile,
    /// `--cert`
    Certificate,
    /// `--key`
    Key,
    /// `--dns`
    Dns,
    /// `--resolve`, once for each rule
    Resolve,
    /// `--connect-to`, once for each rule
    ConnectTo,
    /// `--resolve-every`
    ResolveEvery,
    /// `-x`
    Proxy,
    /// `--proxy-user`
    ProxyUser,
    /// `-p`
    ProxyTunnel,
    /// `--proxy-verify`
    ProxyVerify,
    /// `--proxy-cacert`
    ProxyCaFile,
    /// `--io`
    Backend,
    /// `--sockets`
    Sockets,
    /// `--counters`
    Counters,
    /// `--interval`
    SampleInterval,
}

/// The value of [`OptionName::Protocol`] that has a flag of its own.
const GRPC: &str = "gRPC";

/// The value of an option. Equal values of the same option mean the same.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionValue {
    /// Not given, and there is no default.
    Unset,
    /// Not given; the text describes the default.
    Default(&'static str),
    /// An option without an argument; the text describes its effect.
    Switch(&'static str),
    /// A number of things.
    Count(u64),
    /// Requests per second.
    Rate(f64),
    /// Rates one after the other.
    Stages(Vec<Stage>),
    /// A length of time; zero is none.
    Time(Duration),
    /// Any text.
    Text(String),
    /// Bytes that need not be UTF-8.
    Bytes(Vec<u8>),
    /// The name of a file.
    Path(PathBuf),
    /// Several values of an option that can be repeated.
    List(Vec<String>),
}

/// One option of a plan with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanOption {
    /// What it sets.
    pub name: OptionName,
    /// Its value.
    pub value: OptionValue,
}

/// What an option has to do with the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It makes another load, and is in the load's name.
    Named,
    /// It makes another load.
    Load,
    /// It does not change what the server has to do.
    Other,
}

impl OptionName {
    /// The option in words, in lower case: `timeout`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        self.describe().0
    }

    /// Whether it is a part of the URL, which the command line does not give on its own.
    #[must_use]
    pub const fn is_part_of_url(self) -> bool {
        matches!(
            self,
            Self::Server | Self::HostHeader | Self::Path | Self::User
        )
    }

    /// Its label, the flag that sets it (empty for arguments without one), and its role. The flag
    /// of a switch may have several words.
    const fn describe(self) -> (&'static str, &'static str, Role) {
        use Role::{Load, Named, Other};
        match self {
            Self::Url => ("URL", "", Other),
            Self::Server => ("server", "", Load),
            Self::HostHeader => ("Host header", "Host:", Load),
            Self::Path => ("path", "", Load),
            Self::User => ("user in the URL", "(with a user)", Load),
            // The server names it.
            Self::UnixSocket => ("Unix socket", "--unix-socket", Other),
            Self::Threads => ("threads", "-t", Named),
            Self::Connections => ("connections", "-c", Named),
            Self::ConnectionStages => ("connections over time", "--connection-stages", Named),
            Self::Duration => ("duration", "-d", Load),
            Self::Requests => ("requests", "-n", Load),
            Self::Rate => ("rate", "-R", Named),
            Self::Arrivals => ("arrivals", "--arrivals", Named),
            // Another seed is another sample of the same load.
            Self::Seed => ("seed", "--seed", Other),
            Self::Warmup => ("warm-up", "--warmup", Load),
            Self::Timeout => ("timeout", "-T", Load),
            Self::Protocol => ("protocol", "--http2", Named),
            Self::Streams => ("streams per connection", "-m", Named),
            Self::Pipeline => ("requests in flight per connection", "--pipeline", Named),
            Self::BatchLatency => ("latency of the last response of a batch only", "-B", Named),
            Self::KeepAlive => ("keep-alive", "--no-keepalive", Named),
            Self::RequestsPerConnection => (
                "requests per connection",
                "--requests-per-connection",
                Named,
            ),
            Self::ConnectRate => ("new connections per second", "--connect-rate", Named),
            Self::IdleConnections => ("idle connections", "--idle", Named),
            Self::Cookies => ("cookies", "--cookies", Named),
            Self::SourceAddress => ("source address", "-b", Named),
            Self::Method => ("method", "-X", Named),
            Self::Headers => ("headers", "-H", Named),
            Self::Body => ("body", "--body", Named),
            Self::RequestFile => ("request file", "--request-file", Named),
            Self::RequestOrder => ("order of requests", "--order", Named),
            Self::Replay => ("replayed log", "--replay", Named),
            Self::Speed => ("speed of the replay", "--speed", Named),
            Self::LogFormat => ("log format", "--log-format", Load),
            Self::AllMethods => ("requests of all methods", "--all-methods", Named),
            Self::Script => ("script", "-s", Named),
            Self::ScriptArguments => ("script arguments", "", Named),
            // What is measured is another thing.
            Self::Events => ("events in responses", "--events", Named),
            Self::EventsEnd => ("end marker of events", "--events-end", Load),
            Self::Alpn => ("protocols offered over TLS", "--alpn", Load),
            Self::Verify => ("certificate verification", "--verify", Load),
            Self::CaFile => ("CA file", "--cacert", Load),
            Self::Certificate => ("client certificate", "--cert", Load),
            Self::Key => ("client key", "--key", Load),
            Self::Dns => ("addresses of the name", "--dns", Named),
            Self::Resolve => ("addresses in place of others", "--resolve", Load),
            Self::ConnectTo => ("hosts in place of others", "--connect-to", Load),
            Self::ResolveEvery => ("time between name lookups", "--resolve-every", Load),
            Self::Proxy => ("proxy", "-x", Named),
            Self::ProxyUser => ("proxy user", "--proxy-user", Load),
            Self::ProxyTunnel => ("proxy tunnel for http", "-p", Named),
            Self::ProxyVerify => ("proxy certificate verification", "--proxy-verify", Load),
            Self::ProxyCaFile => ("proxy CA file", "--proxy-cacert", Load),
            Self::Backend => ("backend", "--io", Load),
            Self::Sockets => ("watched sockets", "--sockets", Other),
            Self::Counters => ("kernel counters", "--counters", Other),
            Self::SampleInterval => ("time between samples", "--interval", Other),
        }
    }
}

impl OptionValue {
    /// `None` is [`OptionValue::Unset`].
    fn or_unset<T>(value: Option<T>, make: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Unset, make)
    }

    /// An empty list is [`OptionValue::Unset`].
    fn list(values: Vec<String>) -> Self {
        match values.is_empty() {
            true => Self::Unset,
            false => Self::List(values),
        }
    }

    /// The arguments of the command line, without the flag. What is not UTF-8 has replacement
    /// characters.
    fn arguments(&self) -> Vec<String> {
        match self {
            Self::Unset | Self::Default(_) | Self::Switch(_) => Vec::new(),
            Self::Count(count) => vec![count.to_string()],
            Self::Rate(per_sec) => vec![per_sec.to_string()],
            Self::Stages(stages) => vec![Stage::list(stages)],
            Self::Time(time) => vec![units::time(*time)],
            Self::Text(text) => vec![text.clone()],
            Self::Bytes(bytes) => vec![String::from_utf8_lossy(bytes).into_owned()],
            Self::Path(path) => vec![path.display().to_string()],
            Self::List(values) => values.clone(),
        }
    }

    fn is_utf8(&self) -> bool {
        match self {
            Self::Bytes(bytes) => str::from_utf8(bytes).is_ok(),
            Self::Path(path) => path.to_str().is_some(),
            _ => true,
        }
    }
}

impl PlanOption {
    /// The value in words: `2 s`, `closed loop`, `not set`.
    #[must_use]
    pub fn text(&self) -> String {
        match (&self.value, self.name) {
            (OptionValue::Unset, _) => "not set".to_owned(),
            (OptionValue::Default(text) | OptionValue::Switch(text), _) => (*text).to_owned(),
            (OptionValue::Count(count), OptionName::Seed) => count.to_string(),
            (OptionValue::Count(count), _) => readable::count(*count),
            (OptionValue::Rate(per_sec), _) => rate_text(*per_sec),
            (OptionValue::Time(time), _) if time.is_zero() => "none".to_owned(),
            (OptionValue::Time(time), _) => time_text(*time),
            (OptionValue::Text(filter), OptionName::Sockets) if filter.is_empty() => {
                "all".to_owned()
            }
            (OptionValue::Path(path), OptionName::Body) => format!("file {}", path.display()),
            (OptionValue::List(arguments), OptionName::ScriptArguments) => {
                shell::command(arguments)
            }
            (value, _) => value.arguments().join(", "),
        }
    }

    /// The words by which a command line sets the option: `-T2s`, or `--warmup` and `1s`. None
    /// where the default applies.
    fn words(&self) -> Vec<String> {
        let flag = match (self.name, &self.value) {
            (OptionName::Rate, OptionValue::Stages(_)) => "--stages",
            (OptionName::Body, OptionValue::Path(_)) => "--body-file",
            (OptionName::Protocol, OptionValue::Switch(GRPC)) => "--grpc",
            (name, _) => name.describe().1,
        };
        if let OptionValue::Switch(_) = self.value {
            return flag.split(' ').map(str::to_owned).collect();
        }
        let is_number = matches!(
            self.value,
            OptionValue::Count(_) | OptionValue::Rate(_) | OptionValue::Time(_)
        );
        let words = self.value.arguments().into_iter();
        match flag.len() {
            0 => words.collect(),
            // As people write it: -t2.
            2 if is_number => words.map(|word| format!("{flag}{word}")).collect(),
            _ => words.flat_map(|word| [flag.to_owned(), word]).collect(),
        }
    }

    /// How a shell command sets the option, `-T2s`; long values are cut. Empty where the default
    /// applies.
    #[must_use]
    pub fn in_command(&self) -> String {
        let words = self.words();
        match self.name {
            // It is no option, but says that there is one.
            OptionName::User => words.join(" "),
            _ => words
                .iter()
                .map(|word| cut(word))
                .collect::<Vec<_>>()
                .join(" "),
        }
    }
}

impl RunPlan {
    /// Every option, set or not: the same ones in the same order for every plan.
    #[must_use]
    pub fn options(&self) -> Vec<PlanOption> {
        // Every field is named, here and below: a new one does not compile until it is an option.
        let Self {
            target,
            load,
            pacing,
            stop,
            warmup,
            timeout,
            request,
            events,
            tls,
            addresses,
            proxy,
            backend,
            telemetry,
        } = self;
        let mut options = Vec::new();
        let mut add = |name, value| options.push(PlanOption { name, value });
        of_target(target, &mut add);
        of_load(load, &mut add);
        of_stop(stop, &mut add);
        of_pacing(pacing, &mut add);
        add(
            OptionName::Seed,
            OptionValue::or_unset(self.random_seed(), OptionValue::Count),
        );
        add(
            OptionName::Warmup,
            match warmup.is_zero() {
                true => OptionValue::Default("none"),
                false => OptionValue::Time(*warmup),
            },
        );
        add(OptionName::Timeout, OptionValue::Time(*timeout));
        of_request(request, self.default_method(), &mut add);
        of_events(events.as_ref(), &mut add);
        of_tls(tls, target.scheme, &mut add);
        of_addresses(addresses, &mut add);
        of_proxy(proxy.as_ref(), &mut add);
        add(
            OptionName::Backend,
            match backend {
                BackendChoice::Auto => OptionValue::Default("auto"),
                BackendChoice::Uring => OptionValue::Text("uring".to_owned()),
                BackendChoice::Epoll => OptionValue::Text("epoll".to_owned()),
            },
        );
        of_telemetry(telemetry.as_ref(), &mut add);
        options.sort_by_key(|option| option.name);
        options
    }

    /// The options that make the load, the same ones for every plan. Not among them are the seed
    /// and the telemetry. Secrets are hidden, so plans that differ only in a token have the same
    /// load.
    #[must_use]
    pub fn load_options(&self) -> Vec<PlanOption> {
        let mut options = self.without_secrets().options();
        options.retain(|option| option.name.describe().2 != Role::Other);
        options
    }

    /// The name of the load, in the form of a command line: `-t12 -c400 -R2000`. Target, times and
    /// TLS settings are not in it.
    #[must_use]
    pub fn load_name(&self) -> String {
        let options = self.load_options().into_iter();
        let named = options.filter(|option| option.name.describe().2 == Role::Named);
        let words = named.map(|option| option.in_command());
        let words: Vec<String> = words.filter(|words| !words.is_empty()).collect();
        words.join(" ")
    }

    /// The load in a phrase: `2 threads, 10 connections, 2,000 requests/s`.
    #[must_use]
    pub fn load_in_words(&self) -> String {
        let phrases = self.options().into_iter().filter_map(|option| {
            let counted = |noun| match option.value {
                OptionValue::Count(count) => Some(readable::counted(count, noun)),
                _ => None,
            };
            match (option.name, &option.value) {
                (OptionName::Threads, _) => counted("thread"),
                (OptionName::Connections, _) => counted("connection"),
                (OptionName::RequestsPerConnection, _) => {
                    Some(counted("request")? + " per connection")
                }
                (OptionName::ConnectRate, _) => {
                    Some(counted("new connection")? + " per second at most")
                }
                (OptionName::IdleConnections, _) => counted("idle connection"),
                (OptionName::Protocol, OptionValue::Switch(protocol)) => {
                    Some((*protocol).to_owned())
                }
                (OptionName::Streams, _) => Some(counted("stream")? + " per connection"),
                (OptionName::Pipeline, _) => {
                    Some(counted("request")? + " in flight per connection")
                }
                (OptionName::Rate, OptionValue::Stages(stages)) => {
                    let stages = readable::counted(stages.len() as u64, "stage");
                    Some(format!("a rate in {stages}"))
                }
                (OptionName::Rate, _) => Some(option.text()),
                (OptionName::Arrivals, OptionValue::Text(_)) => Some("Poisson arrivals".to_owned()),
                (OptionName::KeepAlive, OptionValue::Switch(_)) => {
                    Some("one request per connection".to_owned())
                }
                _ => None,
            }
        });
        phrases.collect::<Vec<_>>().join(", ")
    }

    /// When the run ends, in a phrase: `30 s`, `30 s or 1,000 requests`.
    #[must_use]
    pub fn end_in_words(&self) -> String {
        let Stop { duration, requests } = self.stop;
        let duration = duration.map(time_text);
        let requests = requests.map(|count| readable::counted(count, "request"));
        let ends: Vec<String> = duration.into_iter().chain(requests).collect();
        ends.join(" or ")
    }

    /// The words of a command line that makes this plan again, with the seed. `None` if it cannot
    /// be written as text.
    #[must_use]
    pub fn command(&self) -> Option<Vec<String>> {
        let options = self.options();
        if !options.iter().all(|option| option.value.is_utf8()) {
            return None;
        }
        let mut words = vec!["wrkbench".to_owned(), "run".to_owned()];
        let (last, flagged): (Vec<_>, Vec<_>) = options
            .iter()
            .filter(|option| !option.name.is_part_of_url())
            .partition(|option| option.name.describe().1.is_empty());
        words.extend(flagged.into_iter().flat_map(PlanOption::words));
        for option in last {
            if option.name == OptionName::ScriptArguments && option.value != OptionValue::Unset {
                words.push("--".to_owned());
            }
            words.extend(option.words());
        }
        Some(words)
    }

    /// Labels and values of all options that are set or have a default, for people:
    /// `Timeout` and `2 s`.
    #[must_use]
    pub fn facts(&self) -> Vec<(String, String)> {
        let options = self
            .options()
            .into_iter()
            .filter(|option| match option.name {
                OptionName::Arrivals => self.pacing.is_open(),
                name => !name.is_part_of_url() && option.value != OptionValue::Unset,
            });
        options
            .map(|option| {
                let (first, rest) = option.name.label().split_at(1);
                (first.to_ascii_uppercase() + rest, option.text())
            })
            .collect()
    }
}

impl Target {
    /// Where the requests go: `http://h:80`, with the port even if it is the default one, and the
    /// path.
    #[must_use]
    pub fn server_and_path(&self) -> (String, String) {
        let Self {
            url: _,
            scheme,
            host,
            service: _,
            port,
            path,
            host_header: _,
            unix_socket,
        } = self;
        let default_port = scheme.default_port().to_string();
        let port = port.as_ref().unwrap_or(&default_port);
        let server = match unix_socket {
            Some(socket) => format!("{} over {}", scheme.name(), socket.display()),
            None => format!("{}://{host}:{port}", scheme.name()),
        };
        (server, path.clone())
    }
}

fn of_target(target: &Target, add: &mut impl FnMut(OptionName, OptionValue)) {
    let (server, path) = target.server_and_path();
    let host_header = target.host_header.clone();
    add(OptionName::Url, OptionValue::Text(target.url.clone()));
    add(OptionName::Server, OptionValue::Text(server));
    add(OptionName::HostHeader, OptionValue::Text(host_header));
    add(OptionName::Path, OptionValue::Text(path));
    add(
        OptionName::User,
        match target.credentials() {
            Some(_) => OptionValue::Switch("yes"),
            None => OptionValue::Default("no"),
        },
    );
    add(
        OptionName::UnixSocket,
        OptionValue::or_unset(target.unix_socket.clone(), OptionValue::Path),
    );
}

fn of_load(load: &Load, add: &mut impl FnMut(OptionName, OptionValue)) {
    let Load {
        threads,
        connections,
        connection_stages,
        protocol,
        streams,
        pipeline,
        keepalive,
        requests_per_connection,
        connect_rate_per_sec,
        idle_connections,
        cookies,
        source,
        batch_latency,
    } = load;
    let (threads, connections) = (u64::from(*threads), u64::from(*connections));
    add(OptionName::Threads, OptionValue::Count(threads));
    add(OptionName::Connections, OptionValue::Count(connections));
    add(
        OptionName::ConnectionStages,
        match connection_stages.is_empty() {
            true => OptionValue::Unset,
            false => OptionValue::Text(ConnectionStage::list(connection_stages)),
        },
    );
    let (streams, pipeline) = (u64::from(*streams), u64::from(*pipeline));
    add(
        OptionName::Protocol,
        match protocol {
            Protocol::Http1 => OptionValue::Default("HTTP/1.1"),
            Protocol::Http2 => OptionValue::Switch("HTTP/2"),
            Protocol::Grpc => OptionValue::Switch(GRPC),
        },
    );
    add(
        OptionName::Streams,
        match (protocol.has_streams(), streams) {
            (false, 1) => OptionValue::Unset,
            _ => OptionValue::Count(streams),
        },
    );
    add(
        OptionName::Pipeline,
        match (protocol.has_streams(), pipeline) {
            (true, _) => OptionValue::Unset,
            (false, 1) => OptionValue::Default("1"),
            (false, more) => OptionValue::Count(more),
        },
    );
    add(
        OptionName::KeepAlive,
        match keepalive {
            true => OptionValue::Default("on"),
            false => OptionValue::Switch("off"),
        },
    );
    add(
        OptionName::RequestsPerConnection,
        requests_per_connection.map_or(OptionValue::Default("no limit"), OptionValue::Count),
    );
    add(
        OptionName::ConnectRate,
        connect_rate_per_sec.map_or(OptionValue::Default("no limit"), |rate| {
            OptionValue::Count(rate.into())
        }),
    );
    add(
        OptionName::IdleConnections,
        match idle_connections {
            0 => OptionValue::Default("none"),
            idle => OptionValue::Count((*idle).into()),
        },
    );
    add(
        OptionName::Cookies,
        match cookies {
            true => OptionValue::Switch("kept"),
            false => OptionValue::Default("not kept"),
        },
    );
    add(
        OptionName::SourceAddress,
        match source {
            Some(source) => OptionValue::Text(source.to_string()),
            None => OptionValue::Default("chosen by the kernel"),
        },
    );
    add(
        OptionName::BatchLatency,
        match batch_latency {
            true => OptionValue::Switch("yes"),
            false => OptionValue::Unset,
        },
    );
}

fn of_stop(stop: &Stop, add: &mut impl FnMut(OptionName, OptionValue)) {
    const NO_LIMIT: OptionValue = OptionValue::Default("no limit");
    let Stop { duration, requests } = stop;
    add(
        OptionName::Duration,
        duration.map_or(NO_LIMIT, OptionValue::Time),
    );
    add(
        OptionName::Requests,
        requests.map_or(NO_LIMIT, OptionValue::Count),
    );
}

fn of_pacing(pacing: &Pacing, add: &mut impl FnMut(OptionName, OptionValue)) {
    let rate = match pacing {
        Pacing::Closed => OptionValue::Default("closed loop"),
        Pacing::Recorded { speed: _ } => OptionValue::Default("of the log"),
        Pacing::Constant {
            rate_per_sec,
            arrivals: _,
            seed: _,
        } => OptionValue::Rate(*rate_per_sec),
        Pacing::Stages {
            stages,
            arrivals: _,
            seed: _,
        } => OptionValue::Stages(stages.clone()),
    };
    let arrivals = match pacing.arrivals() {
        None | Some(Arrivals::Even) => OptionValue::Default("even"),
        Some(Arrivals::Poisson) => OptionValue::Text("poisson".to_owned()),
    };
    let speed = match pacing {
        Pacing::Recorded { speed: 1.0 } => OptionValue::Default("1"),
        Pacing::Recorded { speed } => OptionValue::Text(speed.to_string()),
        _ => OptionValue::Unset,
    };
    add(OptionName::Rate, rate);
    add(OptionName::Arrivals, arrivals);
    add(OptionName::Speed, speed);
}

fn of_request(
    request: &RequestSpec,
    default_method: &'static str,
    add: &mut impl FnMut(OptionName, OptionValue),
) {
    let RequestSpec {
        method,
        headers,
        body,
        file,
        script,
        script_args,
    } = request;
    add(
        OptionName::Method,
        match method {
            None if file.is_some() => OptionValue::Unset,
            Some(method) if method != default_method => OptionValue::Text(method.clone()),
            _ => OptionValue::Default(default_method),
        },
    );
    let headers = headers.iter();
    let headers = headers.map(|(name, value)| format!("{name}: {value}"));
    add(OptionName::Headers, OptionValue::list(headers.collect()));
    add(
        OptionName::Body,
        match body {
            None => OptionValue::Unset,
            Some(Body::Inline(bytes)) => OptionValue::Bytes(bytes.clone()),
            Some(Body::File(path)) => OptionValue::Path(path.clone()),
        },
    );
    let log = file.as_ref().and_then(|file| file.log.as_ref());
    let path = file.as_ref().map(|file| file.path.clone());
    let (path, log_path) = match log {
        None => (path, None),
        Some(_) => (None, path),
    };
    for (name, path) in [
        (OptionName::RequestFile, path),
        (OptionName::Replay, log_path),
    ] {
        add(name, OptionValue::or_unset(path, OptionValue::Path));
    }
    add(
        OptionName::LogFormat,
        match log.map(|log| &log.log_format) {
            None => OptionValue::Unset,
            Some(None) => OptionValue::Default("found out"),
            Some(Some(format)) => OptionValue::Text(format.clone()),
        },
    );
    add(
        OptionName::AllMethods,
        match log.map(|log| log.all_methods) {
            None => OptionValue::Unset,
            Some(false) => OptionValue::Default("no"),
            Some(true) => OptionValue::Switch("yes"),
        },
    );
    let order = file
        .as_ref()
        .filter(|_| log.is_none())
        .map(|file| file.order);
    add(
        OptionName::RequestOrder,
        match order {
            None => OptionValue::Unset,
            Some(None) => OptionValue::Default("weighted if there are weights, else sequence"),
            Some(Some(order)) => OptionValue::Text(order.name().to_owned()),
        },
    );
    add(
        OptionName::Script,
        OptionValue::or_unset(script.clone(), OptionValue::Path),
    );
    add(
        OptionName::ScriptArguments,
        OptionValue::list(script_args.clone()),
    );
}

fn of_events(events: Option<&EventsSpec>, add: &mut impl FnMut(OptionName, OptionValue)) {
    let format = events.map(|events| events.format.name().to_owned());
    add(
        OptionName::Events,
        OptionValue::or_unset(format, OptionValue::Text),
    );
    add(
        OptionName::EventsEnd,
        match events {
            None => OptionValue::Unset,
            Some(EventsSpec {
                format,
                end_marker: None,
            }) => OptionValue::Default(match format.default_end_marker() {
                "" => "none",
                marker => marker,
            }),
            Some(EventsSpec {
                end_marker: Some(marker),
                ..
            }) => OptionValue::Text(marker.clone()),
        },
    );
}

/// TLS settings have no effect on http.
fn of_tls(tls: &TlsSpec, scheme: Scheme, add: &mut impl FnMut(OptionName, OptionValue)) {
    let TlsSpec {
        verify,
        alpn,
        cacert,
        cert,
        key,
    } = tls;
    let has_tls = scheme == Scheme::Https;
    add(
        OptionName::Alpn,
        match alpn.is_empty() {
            true => OptionValue::Unset,
            false => OptionValue::Text(Alpn::list(alpn)),
        },
    );
    add(
        OptionName::Verify,
        match (has_tls, verify) {
            (true, true) => OptionValue::Switch("on"),
            (true, false) => OptionValue::Default("off"),
            (false, _) => OptionValue::Unset,
        },
    );
    for (name, file) in [
        (OptionName::CaFile, cacert),
        (OptionName::Certificate, cert),
        (OptionName::Key, key),
    ] {
        let file = file.clone().filter(|_| has_tls);
        add(name, OptionValue::or_unset(file, OptionValue::Path));
    }
}

fn of_addresses(addresses: &AddressSpec, add: &mut impl FnMut(OptionName, OptionValue)) {
    let AddressSpec {
        dns,
        resolve,
        connect_to,
        resolve_every,
    } = addresses;
    add(
        OptionName::Dns,
        match dns {
            DnsUse::First => OptionValue::Default("first"),
            DnsUse::All => OptionValue::Text(dns.name().to_owned()),
        },
    );
    add(OptionName::Resolve, OptionValue::list(resolve.clone()));
    add(OptionName::ConnectTo, OptionValue::list(connect_to.clone()));
    add(
        OptionName::ResolveEvery,
        OptionValue::or_unset(*resolve_every, OptionValue::Time),
    );
}

fn of_proxy(proxy: Option<&ProxySpec>, add: &mut impl FnMut(OptionName, OptionValue)) {
    let url = proxy.map(ProxySpec::url);
    let user = proxy.and_then(|proxy| proxy.user.clone());
    let cacert = proxy.and_then(|proxy| proxy.cacert.clone());
    let switch = |is_on: bool| match is_on {
        true => OptionValue::Switch("on"),
        false => OptionValue::Unset,
    };
    let is_on = |of: fn(&ProxySpec) -> bool| switch(proxy.is_some_and(of));
    add(
        OptionName::Proxy,
        OptionValue::or_unset(url, OptionValue::Text),
    );
    add(
        OptionName::ProxyUser,
        OptionValue::or_unset(user, OptionValue::Text),
    );
    add(OptionName::ProxyTunnel, is_on(|proxy| proxy.tunnel));
    add(OptionName::ProxyVerify, is_on(|proxy| proxy.verify));
    add(
        OptionName::ProxyCaFile,
        OptionValue::or_unset(cacert, OptionValue::Path),
    );
}

fn of_telemetry(telemetry: Option<&TelemetrySpec>, add: &mut impl FnMut(OptionName, OptionValue)) {
    let (sockets, counters, interval) = match telemetry {
        None => (None, false, None),
        Some(TelemetrySpec {
            sockets,
            interval,
            counters,
        }) => (sockets.clone(), *counters, Some(*interval)),
    };
    add(
        OptionName::Sockets,
        OptionValue::or_unset(sockets, OptionValue::Text),
    );
    add(
        OptionName::Counters,
        match counters {
            true => OptionValue::Switch("recorded"),
            false => OptionValue::Unset,
        },
    );
    add(
        OptionName::SampleInterval,
        OptionValue::or_unset(interval, OptionValue::Time),
    );
}

/// `2,000 requests/s`
fn rate_text(per_sec: f64) -> String {
    if per_sec.fract() == 0.0 {
        format!("{} requests/s", readable::count(per_sec as u64))
    } else {
        format!("{per_sec} requests/s")
    }
}

/// Exactly, with spaces: `1 min 30 s`, `500 ms`.
fn time_text(time: Duration) -> String {
    let all_minutes = time.as_secs() / 60;
    let (hours, minutes) = (all_minutes / 60, all_minutes % 60);
    let rest = units::time(time - Duration::from_secs(all_minutes * 60));
    let unit_at = rest.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = rest.split_at(unit_at.unwrap_or(rest.len()));
    let parts = [
        (hours > 0).then(|| format!("{} h", readable::count(hours))),
        (minutes > 0).then(|| format!("{minutes} min")),
        (number != "0").then(|| format!("{number} {unit}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// A word for a shell. Of a long one the start, and how long it is.
fn cut(word: &str) -> String {
    const CHARS_MAX: usize = 60;
    let count = word.chars().count();
    if count <= CHARS_MAX {
        return shell::quoted(word);
    }
    let start: String = word.chars().take(CHARS_MAX).collect();
    format!("{}... ({count} characters)", shell::quoted(&start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(url: &str) -> RunPlan {
        RunPlan::new(Target::parse(url).unwrap())
    }

    fn constant(arrivals: Arrivals, seed: u64) -> Pacing {
        Pacing::Constant {
            rate_per_sec: 2_000.0,
            arrivals,
            seed,
        }
    }

    /// What differs, as `what: value (option) / value (option)`.
    fn differences(one: &RunPlan, other: &RunPlan) -> Vec<String> {
        let pairs = one.load_options().into_iter().zip(other.load_options());
        let differing = pairs.filter(|(one, other)| one != other);
        let shown = |option: &PlanOption| format!("{} ({})", option.text(), option.in_command());
        differing
            .map(|(one, other)| {
                format!("{}: {} / {}", one.name.label(), shown(&one), shown(&other))
            })
            .collect()
    }

    type Change = fn(&mut RunPlan);

    #[test]
    fn plans_that_differ_in_an_option_of_the_load_do_not_make_the_same_load() {
        let changes: [(Change, &str); 27] = [
            (|plan| plan.load.threads = 3, "threads: 2 (-t2) / 3 (-t3)"),
            (
                |plan| plan.load.connections = 1_000,
                "connections: 10 (-c10) / 1,000 (-c1000)",
            ),
            (
                |plan| plan.load.pipeline = 4,
                "requests in flight per connection: 1 () / 4 (--pipeline 4)",
            ),
            (
                |plan| plan.tls.alpn = vec![Alpn::Http2, Alpn::Http1],
                "protocols offered over TLS: not set () / h2,http/1.1 (--alpn h2,http/1.1)",
            ),
            (
                |plan| plan.load.keepalive = false,
                "keep-alive: on () / off (--no-keepalive)",
            ),
            (
                |plan| plan.load.requests_per_connection = Some(7),
                "requests per connection: no limit () / 7 (--requests-per-connection 7)",
            ),
            (
                |plan| plan.load.connect_rate_per_sec = Some(500),
                "new connections per second: no limit () / 500 (--connect-rate 500)",
            ),
            (
                |plan| plan.load.idle_connections = 1_000,
                "idle connections: none () / 1,000 (--idle 1000)",
            ),
            (
                |plan| plan.load.source = Some(crate::SourceRange::parse("10.0.0.0/24").unwrap()),
                "source address: chosen by the kernel () / 10.0.0.0/24 (-b 10.0.0.0/24)",
            ),
            (
                |plan| plan.load.batch_latency = true,
                "latency of the last response of a batch only: not set () / yes (-B)",
            ),
            (
                |plan| plan.stop.duration = Some(Duration::from_millis(1_500)),
                "duration: 10 s (-d10s) / 1.5 s (-d1.5s)",
            ),
            (
                |plan| plan.stop.requests = Some(500),
                "requests: no limit () / 500 (-n500)",
            ),
            (
                |plan| plan.pacing = constant(Arrivals::Even, 0),
                "rate: closed loop () / 2,000 requests/s (-R2000)",
            ),
            (
                |plan| plan.warmup = Duration::from_secs(90),
                "warm-up: none () / 1 min 30 s (--warmup 1m30s)",
            ),
            (
                |plan| plan.timeout = Duration::ZERO,
                "timeout: 2 s (-T2s) / none (-T0s)",
            ),
            (
                |plan| plan.backend = BackendChoice::Epoll,
                "backend: auto () / epoll (--io epoll)",
            ),
            (
                |plan| plan.request.method = Some("PUT".to_owned()),
                "method: GET () / PUT (-X PUT)",
            ),
            (
                |plan| plan.request.headers = vec![("A".to_owned(), "b c".to_owned())],
                "headers: not set () / A: b c (-H 'A: b c')",
            ),
            (
                |plan| plan.request.script = Some("a.lua".into()),
                "script: not set () / a.lua (-s a.lua)",
            ),
            (
                |plan| plan.target.path = "/b".to_owned(),
                "path: / (/) / /b (/b)",
            ),
            (
                |plan| plan.target.port = Some("8080".to_owned()),
                "server: https://h:443 (https://h:443) / https://h:8080 (https://h:8080)",
            ),
            (
                |plan| plan.target.unix_socket = Some("/run/s".into()),
                "server: https://h:443 (https://h:443) / https over /run/s ('https over /run/s')",
            ),
            (
                |plan| plan.target.url = "https://u:p@h/".to_owned(),
                "user in the URL: no () / yes ((with a user))",
            ),
            (
                |plan| plan.tls.verify = true,
                "certificate verification: off () / on (--verify)",
            ),
            (
                |plan| plan.tls.cacert = Some("ca.pem".into()),
                "CA file: not set () / ca.pem (--cacert ca.pem)",
            ),
            (
                |plan| plan.tls.cert = Some("c.pem".into()),
                "client certificate: not set () / c.pem (--cert c.pem)",
            ),
            (
                |plan| plan.tls.key = Some("k.pem".into()),
                "client key: not set () / k.pem (--key k.pem)",
            ),
        ];
        let base = plan("https://h/");
        for (change, said) in changes {
            let mut changed = base.clone();
            change(&mut changed);
            assert_eq!(differences(&base, &changed), [said]);
            assert_ne!(base.load_options(), changed.load_options(), "{said}");
        }
    }

    #[test]
    fn formats_of_events_and_their_ends_make_different_loads() {
        let with = |format, end_marker: Option<&str>| {
            let mut plan = plan("https://h/");
            let end_marker = end_marker.map(str::to_owned);
            plan.events = Some(EventsSpec { format, end_marker });
            plan
        };
        let (sse, lines) = (crate::EventsFormat::Sse, crate::EventsFormat::Lines);
        assert_eq!(
            differences(&plan("https://h/"), &with(lines, None)),
            [
                "events in responses: not set () / lines (--events lines)",
                "end marker of events: not set () / none ()"
            ]
        );
        assert_eq!(
            differences(&with(sse, None), &with(sse, Some(""))),
            ["end marker of events: [DONE] () /  (--events-end '')"]
        );
    }

    #[test]
    fn protocols_and_numbers_of_streams_make_different_loads() {
        let with = |protocol, streams| {
            let mut plan = plan("https://h/p.S/M");
            (plan.load.protocol, plan.load.streams) = (protocol, streams);
            plan
        };
        let http1 = with(Protocol::Http1, 1);
        let (http2, grpc) = (with(Protocol::Http2, 1), with(Protocol::Grpc, 1));
        assert_eq!(
            differences(&http2, &with(Protocol::Http2, 8)),
            ["streams per connection: 1 (-m1) / 8 (-m8)"]
        );
        assert_eq!(
            differences(&http1, &http2)[0],
            "protocol: HTTP/1.1 () / HTTP/2 (--http2)"
        );
        assert_eq!(
            differences(&http2, &grpc),
            [
                "protocol: HTTP/2 (--http2) / gRPC (--grpc)",
                "method: GET () / POST ()"
            ]
        );
        assert_eq!(http1.load_name(), "-t2 -c10");
        assert_eq!(with(Protocol::Grpc, 8).load_name(), "-t2 -c10 --grpc -m8");
        assert_eq!(
            with(Protocol::Http2, 8).load_in_words(),
            "2 threads, 10 connections, closed loop, HTTP/2, 8 streams per connection"
        );
    }

    #[test]
    fn seed_telemetry_secrets_and_what_has_no_effect_make_no_other_load() {
        let mut one = plan("http://h/");
        let mut other = plan("http://h:80/");
        one.pacing = constant(Arrivals::Poisson, 1);
        other.pacing = constant(Arrivals::Poisson, 2);
        other.tls.verify = true;
        other.request.method = Some("GET".to_owned());
        one.request.headers = vec![("Authorization".to_owned(), "Bearer one".to_owned())];
        other.request.headers = vec![("Authorization".to_owned(), "***".to_owned())];
        other.telemetry = Some(TelemetrySpec {
            sockets: None,
            interval: Duration::from_secs(1),
            counters: true,
        });
        // The header is what is sent, so it may differ by the port.
        other.target.host_header.clone_from(&one.target.host_header);
        assert_eq!(differences(&one, &other), [""; 0]);
        assert_eq!(one.load_options(), other.load_options());
    }

    #[test]
    fn values_that_look_alike_in_words_are_still_different() {
        let with = |headers: &[(&str, &str)]| {
            let mut plan = plan("http://h/");
            let headers = headers.iter();
            let owned = headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            plan.request.headers = owned.collect();
            plan
        };
        assert_ne!(
            with(&[("A", "1, B: 2")]).load_options(),
            with(&[("A", "1"), ("B", "2")]).load_options()
        );
    }

    #[test]
    fn the_name_of_a_load_has_neither_times_nor_the_target() {
        let mut plan = plan("http://h/");
        assert_eq!(plan.load_name(), "-t2 -c10");
        plan.load.pipeline = 4;
        plan.load.batch_latency = true;
        plan.pacing = constant(Arrivals::Poisson, 7);
        plan.request.body = Some(Body::Inline(b"x".repeat(100)));
        plan.request.script_args = vec!["a b".to_owned()];
        let body = "x".repeat(60);
        assert_eq!(
            plan.load_name(),
            format!(
                "-t2 -c10 -R2000 --arrivals poisson --pipeline 4 -B \
                 --body {body}... (100 characters) 'a b'"
            )
        );
    }

    #[test]
    fn load_and_end_are_described_in_a_phrase() {
        let mut plan = plan("http://h/");
        assert_eq!(
            plan.load_in_words(),
            "2 threads, 10 connections, closed loop"
        );
        plan.load = Load {
            threads: 1,
            connections: 1,
            pipeline: 4,
            keepalive: false,
            ..Load::default()
        };
        plan.pacing = constant(Arrivals::Poisson, 7);
        assert_eq!(
            plan.load_in_words(),
            "1 thread, 1 connection, 2,000 requests/s, Poisson arrivals, \
             4 requests in flight per connection, one request per connection"
        );
        assert_eq!(plan.end_in_words(), "10 s");
        plan.stop.requests = Some(1_000);
        assert_eq!(plan.end_in_words(), "10 s or 1,000 requests");
    }

    #[test]
    fn a_plan_that_is_not_text_has_no_command() {
        let mut plan = plan("http://h/");
        plan.request.body = Some(Body::Inline(vec![0xff]));
        assert_eq!(plan.command(), None);
        plan.request.body = Some(Body::File("b.bin".into()));
        plan.request.script_args = vec!["-x".to_owned()];
        let words = plan.command().unwrap().join(" ");
        assert_eq!(
            words,
            "wrkbench run -t2 -c10 -d10s -T2s --body-file b.bin http://h/ -- -x"
        );
    }

    #[test]
    fn facts_are_what_is_set_and_what_has_a_default() {
        let facts = plan("http://h/").facts();
        let fact = |label: &str| {
            let found = facts.iter().find(|(name, _)| name == label);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(fact("URL"), Some("http://h/"));
        assert_eq!(fact("Timeout"), Some("2 s"));
        assert_eq!(fact("Rate"), Some("closed loop"));
        assert_eq!(fact("Method"), Some("GET"));
        for absent in [
            "Arrivals",
            "Seed",
            "Server",
            "Script",
            "Certificate verification",
        ] {
            assert_eq!(fact(absent), None, "{absent}");
        }
    }

    #[test]
    fn times_have_a_space_before_each_unit() {
        for (ms, text) in [
            (500, "500 ms"),
            (1_500, "1.5 s"),
            (60_000, "1 min"),
            (90_000, "1 min 30 s"),
            (3_600_000, "1 h"),
            (3_660_250, "1 h 1 min 250 ms"),
        ] {
            assert_eq!(time_text(Duration::from_millis(ms)), text);
        }
    }
}
