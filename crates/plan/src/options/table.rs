//! The table of the options of a run. To add an option, add a row.

use super::{Form, Heading, OptionName, OptionSpec, OptionValue, PlanOption, Role, Setter};
use crate::units::{parse_rate, parse_stages, parse_time};
use crate::{
    AccessLog, Alpn, Arrivals, BackendChoice, Body, ConnectionStage, Dialect, DnsUse, EventsFormat,
    EventsSpec, GoodSpec, InvalidValue, MAX_SPEED, MIN_SPEED, MessageSchema, Pacing, Protocol,
    ProxySpec, RequestFile, RequestOrder, RunPlan, Scheme, SourceRange, TelemetrySpec, TracingSpec,
    WARMUP_LIMIT, parse_headers, path_of_call, readable,
};
use OptionValue::{Count, Default, Switch, Text, Unset};
use Role::{Load, Named, Other};
use std::path::PathBuf;
use std::time::Duration;

const NO_LIMIT: OptionValue = Default("no limit");

/// The value of the option of a protocol that has an option of its own.
pub(super) const GRPC: &str = "gRPC";
pub(super) const HTTP3: &str = "HTTP/3";
pub(super) const GRPC_HTTP3: &str = "gRPC over HTTP/3";

const fn option(
    long: &'static str,
    heading: Heading,
    setter: Setter,
    help: &'static str,
) -> OptionSpec {
    OptionSpec::new(long, heading, setter, help)
}

/// The value of `grpc-timeout`, whose number has at most eight digits ("gRPC over HTTP2", Timeout):
/// in the largest unit that is exact.
fn grpc_timeout(time: Duration) -> Result<String, InvalidValue> {
    const MOST: u128 = 99_999_999;
    const UNITS_NS: [(u128, char); 6] = [
        (3_600_000_000_000, 'H'),
        (60_000_000_000, 'M'),
        (1_000_000_000, 'S'),
        (1_000_000, 'm'),
        (1_000, 'u'),
        (1, 'n'),
    ];
    let all_ns = time.as_nanos();
    let exact = UNITS_NS
        .iter()
        .find(|(unit_ns, _)| all_ns.is_multiple_of(*unit_ns));
    match exact {
        Some((unit_ns, unit)) if (1..=MOST).contains(&(all_ns / unit_ns)) => {
            Ok(format!("{}{unit}", all_ns / unit_ns))
        }
        _ => Err("must be above 0 and have at most eight digits in its unit".into()),
    }
}

/// A value of the plan's description of messages.
fn of_schema(plan: &RunPlan, value: impl Fn(&MessageSchema) -> OptionValue) -> OptionValue {
    OptionValue::or_unset(plan.request.schema.as_ref(), value)
}

fn names_of(paths: &[PathBuf]) -> Vec<String> {
    paths
        .iter()
        .map(|path| path.display().to_string())
        .collect()
}

/// What a command line sets without an option.
const fn argument(form: Form) -> OptionSpec {
    let mut spec = OptionSpec::new("", Heading::Load, Setter::Switch(|_| ()), "");
    spec.setter = None;
    spec.form = form;
    spec
}

impl<T> OptionSpec<T> {
    /// An option that a command line has only by its long name, and that is not shown.
    #[must_use]
    pub const fn new(
        long: &'static str,
        heading: Heading,
        setter: Setter<T>,
        help: &'static str,
    ) -> Self {
        Self {
            long,
            short: None,
            aliases: &[],
            visible_aliases: &[],
            heading,
            value_name: setter.value_name(),
            help,
            long_help: None,
            default: None,
            choices: &[],
            is_repeatable: false,
            conflicts: &[],
            requires: None,
            secret_from: None,
            elsewhere: None,
            setter: Some(setter),
            form: Form::Option,
            shown: None,
            in_words: |_| None,
        }
    }

    const fn shown(mut self, label: &'static str, role: Role, get: fn(&T) -> OptionValue) -> Self {
        self.shown = Some((OptionName(label), role, get));
        self
    }

    /// Sets [`Self::heading`].
    #[must_use]
    pub const fn heading(mut self, heading: Heading) -> Self {
        self.heading = heading;
        self
    }

    /// Sets [`Self::short`].
    #[must_use]
    pub const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }

    /// Sets [`Self::aliases`].
    #[must_use]
    pub const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn visible_aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.visible_aliases = aliases;
        self
    }

    /// Sets [`Self::value_name`].
    #[must_use]
    pub const fn value_name(mut self, name: &'static str) -> Self {
        self.value_name = name;
        self
    }

    /// Sets [`Self::long_help`].
    #[must_use]
    pub const fn long_help(mut self, help: &'static str) -> Self {
        self.long_help = Some(help);
        self
    }

    const fn default(mut self, text: &'static str) -> Self {
        self.default = Some(text);
        self
    }

    /// Sets [`Self::choices`].
    #[must_use]
    pub const fn choices(mut self, names: &'static [&'static str]) -> Self {
        self.choices = names;
        self
    }

    /// The option may be given several times.
    #[must_use]
    pub const fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    /// Sets [`Self::conflicts`].
    #[must_use]
    pub const fn conflicts(mut self, others: &'static [&'static str]) -> Self {
        self.conflicts = others;
        self
    }

    const fn requires(mut self, other: &'static str) -> Self {
        self.requires = Some(other);
        self
    }

    const fn secret_from(mut self, shortest: &'static str) -> Self {
        self.secret_from = Some(shortest);
        self
    }

    /// Sets [`Self::elsewhere`].
    #[must_use]
    pub const fn elsewhere(mut self, place: &'static str) -> Self {
        self.elsewhere = Some(place);
        self
    }

    const fn in_words(mut self, phrase: fn(&PlanOption) -> Option<String>) -> Self {
        self.in_words = phrase;
        self
    }
}

/// The path of an input, of which `-` means stdin.
fn or_stdin(path: PathBuf) -> PathBuf {
    if path.as_os_str() == "-" {
        "/dev/stdin".into()
    } else {
        path
    }
}

/// Every option of a run, and the parts of the URL, in the order in which they are set and shown.
///
/// The order matters where an option adds to what another one has set: a rate comes before its
/// arrivals, a proxy before its user.
pub static OPTIONS: &[OptionSpec] = &[
    argument(Form::Argument).shown("URL", Other, |plan| Text(plan.target.url.clone())),
    argument(Form::PartOfUrl(""))
        .shown("server", Load, |plan| Text(plan.target.server_and_path().0)),
    argument(Form::PartOfUrl("Host:")).shown("Host header", Load, |plan| {
        Text(plan.target.host_header.clone())
    }),
    argument(Form::PartOfUrl("")).shown("path", Load, |plan| Text(plan.target.path.clone())),
    argument(Form::PartOfUrl("(with a user)")).shown("user in the URL", Load, |plan| {
        match plan.target.credentials() {
            Some(_) => Switch("yes"),
            None => Default("no"),
        }
    }),
    option(
        "unix-socket",
        Heading::Connection,
        Setter::Path(|plan, path| plan.target.unix_socket = Some(path)),
        "Connect to this Unix socket; the URL then only sets the Host header and the path",
    )
    .value_name("PATH")
    // The server names it.
    .shown("Unix socket", Other, |plan| {
        OptionValue::path(plan.target.unix_socket.as_ref())
    }),
    option(
        "threads",
        Heading::Load,
        Setter::CountU32(|plan, threads| plan.load.threads = threads),
        "Worker threads",
    )
    .short('t')
    .default("2")
    .shown("threads", Named, |plan| Count(plan.load.threads.into()))
    .in_words(|option| option.counted("thread", "")),
    option(
        "connections",
        Heading::Load,
        Setter::CountU32(|plan, connections| plan.load.connections = connections),
        "Connections to keep open",
    )
    .long_help("Total number of connections to keep open; at least one per thread")
    .short('c')
    .default("10")
    // wrk accepts every beginning of the name; these would be ambiguous here.
    .aliases(&[
        "c",
        "co",
        "con",
        "conn",
        "conne",
        "connec",
        "connect",
        "connecti",
        "connectio",
        "connection",
    ])
    .shown("connections", Named, |plan| {
        Count(plan.load.connections.into())
    })
    .in_words(|option| option.counted("connection", "")),
    option(
        "connection-stages",
        Heading::Load,
        Setter::Parsed(|plan, text| {
            let stages = ConnectionStage::parse_list(text)?;
            plan.load.connections = ConnectionStage::most(&stages);
            plan.load.connection_stages = stages;
            Ok(())
        }),
        "Numbers of connections over time: 10:30s,50:1m for steps, 10-200:1m for a ramp",
    )
    .value_name("LIST")
    .conflicts(&["connections"])
    .shown("connections over time", Named, |plan| {
        let stages = &plan.load.connection_stages;
        OptionValue::or_unset((!stages.is_empty()).then_some(stages), |stages| {
            Text(ConnectionStage::list(stages))
        })
    }),
    option(
        "duration",
        Heading::Load,
        Setter::Time(|plan, time| plan.stop.duration = Some(time)),
        "How long to measure [default: 10s]",
    )
    .long_help(
        "How long to measure [default: 10s; with --stages their sum; with -n until the last \
         request]",
    )
    .short('d')
    // wrk accepts `--d`, which would be ambiguous here.
    .aliases(&["d"])
    .shown("duration", Load, |plan| {
        plan.stop.duration.map_or(NO_LIMIT, OptionValue::Time)
    }),
    option(
        "requests",
        Heading::Load,
        Setter::Count(|plan, requests| plan.stop.requests = Some(requests)),
        "Stop after N requests, successful or failed",
    )
    .long_help(
        "Stop after N requests, successful or failed. If the value is not a number, it is the \
         file of --request-file",
    )
    .short('n')
    .shown("requests", Load, |plan| {
        plan.stop.requests.map_or(NO_LIMIT, Count)
    }),
    option(
        "rate",
        Heading::Rate,
        Setter::Parsed(|plan, text| {
            let rate_per_sec = parse_rate(text).map_err(InvalidValue::new)?;
            plan.pacing = Pacing::Constant {
                rate_per_sec,
                arrivals: Arrivals::Even,
                seed: 0,
            };
            Ok(())
        }),
        "Send N requests per second, whatever the response times",
    )
    .long_help(
        "Send N requests per second in total, regardless of response times (open loop): 1000, \
         1.5k, 600/m",
    )
    .value_name("N")
    .short('R')
    // wrk2 accepts `--r`, which would be ambiguous here.
    .aliases(&["r"])
    .conflicts(&["stages"])
    .shown("rate", Named, |plan| match &plan.pacing {
        Pacing::Closed => Default("closed loop"),
        Pacing::Users => Default("of the users"),
        Pacing::Recorded { .. } if plan.request.log().is_none() => Default("of the file"),
        Pacing::Recorded { .. } => Default("of the log"),
        Pacing::Constant { rate_per_sec, .. } => OptionValue::Rate(*rate_per_sec),
        Pacing::Stages { stages, .. } => OptionValue::Stages(stages.clone()),
    })
    .in_words(|option| match &option.value {
        OptionValue::Stages(stages) => {
            let stages = readable::counted(stages.len() as u64, "stage");
            Some(format!("a rate in {stages}"))
        }
        _ => Some(option.text()),
    }),
    option(
        "stages",
        Heading::Rate,
        Setter::Parsed(|plan, text| {
            plan.pacing = Pacing::Stages {
                stages: parse_stages(text).map_err(InvalidValue::new)?,
                arrivals: Arrivals::Even,
                seed: 0,
            };
            Ok(())
        }),
        "Rates to run one after another: 1k:30s,5k:1m for steps, 1k-5k:1m for a ramp",
    )
    .value_name("LIST"),
    option(
        "arrivals",
        Heading::Rate,
        Setter::Parsed(|plan, text| {
            let given = Arrivals::parse(text)?;
            let (Pacing::Constant { arrivals, .. } | Pacing::Stages { arrivals, .. }) =
                &mut plan.pacing
            else {
                return Ok(());
            };
            *arrivals = given;
            Ok(())
        }),
        "How requests are spaced at a fixed rate: even, poisson or gamma:SHAPE [default: even]",
    )
    .long_help(
        "How requests are spaced at a fixed rate: even; poisson, like independent clients; or \
         gamma:SHAPE, in bursts with a shape below 1 (0.01 at least), more evenly than poisson \
         above (1000 at most). The shape is what vLLM calls burstiness and AIPerf smoothness \
         [default: even]",
    )
    .value_name("HOW")
    .shown("arrivals", Named, |plan| match plan.pacing.arrivals() {
        None | Some(Arrivals::Even) => Default("even"),
        Some(random) => Text(random.to_string()),
    })
    .in_words(|option| match &option.value {
        Text(text) => Some(match text.strip_prefix("gamma:") {
            None => "Poisson arrivals".to_owned(),
            Some(shape) => format!("gamma arrivals of shape {shape}"),
        }),
        _ => None,
    }),
    option(
        "seed",
        Heading::Rate,
        Setter::Count(RunPlan::set_seed),
        "Seed for random arrivals and random requests [default: random, printed]",
    )
    // Another seed is another sample of the same load.
    .shown("seed", Other, |plan| {
        OptionValue::or_unset(plan.random_seed(), |seed| Text(seed.to_string()))
    }),
    option(
        "warmup",
        Heading::Load,
        Setter::Parsed(RunPlan::set_warmup),
        "Send load for this long before measuring; auto: until the server has settled",
    )
    .value_name("T")
    .long_help(
        "Send load for this long before measuring. auto: until the rate and the latency have had \
         no trend for 5 s, or for --warmup-limit (docs/measuring.md)",
    )
    .default("0")
    .shown("warm-up", Load, |plan| match plan.warmup {
        _ if plan.warmup_auto => Text("auto".to_owned()),
        Duration::ZERO => Default("none"),
        time => OptionValue::Time(time),
    }),
    option(
        "warmup-limit",
        Heading::Load,
        Setter::Time(|plan, time| plan.warmup = time),
        "With --warmup auto: measure after this time even if the server has not settled \
         [default: 30s]",
    )
    .shown("limit of the warm-up", Load, |plan| match plan.warmup {
        time if plan.warmup_auto && time != WARMUP_LIMIT => OptionValue::Time(time),
        _ => Unset,
    }),
    option(
        "delay-stats",
        Heading::Load,
        Setter::Parsed(RunPlan::set_warmup),
        "Same as --warmup; the option of wrk-cmm",
    )
    .value_name("T")
    .short('D')
    .conflicts(&["warmup"]),
    option(
        "drain",
        Heading::Load,
        Setter::Time(|plan, time| plan.drain = Some(time)),
        "Read responses for up to this long after the duration, without sending [default: the \
         timeout with --events, otherwise 0]",
    )
    .long_help(
        "After the duration send nothing more, and read on until the responses to the requests of \
         the window have ended, for at most this long. Latency, lengths and good requests are then \
         about all of them; requests, bytes and tokens per second count what arrived within the \
         duration. 0 ends the run at once (docs/measuring.md) [default: the timeout with --events \
         if streams end, otherwise 0]",
    )
    .shown("drain", Load, |plan| {
        OptionValue::or_unset(plan.drain, OptionValue::Time)
    }),
    option(
        "timeout",
        Heading::Connection,
        Setter::Time(|plan, time| plan.timeout = time),
        "Time limit for a connect and for each response; 0 means no limit",
    )
    .short('T')
    .default("2s")
    .shown("timeout", Load, |plan| OptionValue::Time(plan.timeout)),
    option(
        "http2",
        Heading::Load,
        Setter::Switch(|plan| plan.load.protocol = Protocol::Http2),
        "Use HTTP/2: over TLS by ALPN, on http:// URLs with prior knowledge",
    )
    .shown("protocol", Named, |plan| match plan.load.protocol {
        Protocol::Http1 => Default("HTTP/1.1"),
        Protocol::Http2 => Switch("HTTP/2"),
        Protocol::Grpc => Switch(GRPC),
        Protocol::Http3 => Switch(HTTP3),
        Protocol::GrpcHttp3 => Switch(GRPC_HTTP3),
    })
    .in_words(|option| match option.value {
        Switch(protocol) => Some(protocol.to_owned()),
        _ => None,
    }),
    option(
        "http3",
        Heading::Load,
        Setter::Switch(|plan| {
            plan.load.protocol = if plan.load.protocol.is_grpc() { Protocol::GrpcHttp3 } else { Protocol::Http3 };
        }),
        "Use HTTP/3 over QUIC, on https:// URLs",
    )
    .conflicts(&["http2"]),
    option(
        "protocol",
        Heading::Load,
        Setter::Parsed(|plan, text| {
            plan.load.protocol = match text {
                "h1" => Protocol::Http1,
                "h2" => Protocol::Http2,
                "h3" => Protocol::Http3,
                _ => return Err("must be h1, h2 or h3".into()),
            };
            Ok(())
        }),
        "The version of HTTP: h1 [default], h2 (--http2) or h3 (--http3)",
    )
    .value_name("NAME")
    .choices(&["h1", "h2", "h3"])
    .conflicts(&["http2", "http3", "grpc"]),
    option(
        "grpc",
        Heading::Load,
        Setter::Switch(|plan| plan.load.protocol = plan.load.protocol.with_grpc()),
        "Make unary gRPC calls over HTTP/2; the URL has the path /package.Service/Method",
    )
    .long_help(
        "Make unary gRPC calls over HTTP/2 (implies --http2), or over HTTP/3 with --http3. The \
         path of the URL is /package.Service/Method, or --call names it. With --proto, --proto-set \
         or --reflection, the body is JSON. Otherwise it is the message, with or without the \
         five-byte prefix of gRPC; without --body and --body-file it is empty. A call succeeds if \
         its grpc-status is 0",
    ),
    option(
        "call",
        Heading::Load,
        Setter::Parsed(|plan, text| {
            let path = path_of_call(text)?;
            if !matches!(plan.target.path.as_str(), "" | "/") {
                return Err(format!("the URL has the path {} already", plan.target.path).into());
            }
            plan.target.path = path;
            Ok(())
        }),
        "With --grpc: the method to call, in place of the path of the URL",
    )
    .value_name("SERVICE/METHOD")
    .requires("grpc")
    .conflicts(&["request-file"]),
    option(
        "proto",
        Heading::Load,
        Setter::Path(|plan, path| plan.request.schema.get_or_insert_default().proto.push(path)),
        "With --grpc: .proto file of the method; the body is JSON",
    )
    .long_help(
        "With --grpc: .proto file that defines the method; may be repeated. The body (--body, \
         --body-file) is then JSON, {} without one, and is encoded before the run",
    )
    .repeatable()
    .requires("grpc")
    .conflicts(&["proto-set", "reflection"])
    .shown("types of messages from", Other, |plan| {
        of_schema(plan, |schema| OptionValue::list(names_of(&schema.proto)))
    }),
    option(
        "proto-path",
        Heading::Load,
        Setter::Path(|plan, path| {
            plan.request
                .schema
                .get_or_insert_default()
                .proto_path
                .push(path);
        }),
        "Folder of the imports of --proto [default: that of FILE, and .]",
    )
    .value_name("DIR")
    .repeatable()
    .requires("proto")
    .shown("imports of types from", Other, |plan| {
        of_schema(plan, |schema| OptionValue::list(names_of(&schema.proto_path)))
    }),
    option(
        "proto-set",
        Heading::Load,
        Setter::Path(|plan, path| {
            plan.request.schema.get_or_insert_default().descriptor_set = Some(path);
        }),
        "With --grpc: set of descriptors (protoc -o) in place of --proto",
    )
    .requires("grpc")
    .conflicts(&["reflection"])
    .shown("types of messages from a set", Other, |plan| {
        of_schema(plan, |schema| OptionValue::path(schema.descriptor_set.as_ref()))
    }),
    option(
        "reflection",
        Heading::Load,
        Setter::Switch(|plan| plan.request.schema.get_or_insert_default().reflection = true),
        "With --grpc: ask the server for its types, in place of --proto",
    )
    .requires("grpc")
    .shown("types of messages from the server", Other, |plan| {
        of_schema(plan, |schema| if schema.reflection { Switch("reflection") } else { Unset })
    }),
    option(
        "grpc-timeout",
        Heading::Load,
        Setter::Parsed(|plan, text| {
            let time = parse_time(text).map_err(InvalidValue::new)?;
            let deadline = grpc_timeout(time)?;
            plan.request.headers.push(("grpc-timeout".to_owned(), deadline));
            Ok(())
        }),
        "With --grpc: send this deadline with each call (metadata grpc-timeout)",
    )
    .value_name("T")
    .requires("grpc"),
    option(
        "streams",
        Heading::Load,
        Setter::CountU32(|plan, streams| plan.load.streams = streams),
        "With --http2: requests to keep in flight on each connection",
    )
    .short('m')
    .default("1")
    .shown("streams per connection", Named, |plan| {
        match (plan.load.protocol.has_streams(), plan.load.streams) {
            (false, 1) => Unset,
            (_, streams) => Count(streams.into()),
        }
    })
    .in_words(|option| option.counted("stream", " per connection")),
    option(
        "pipeline",
        Heading::Load,
        Setter::CountU32(|plan, pipeline| plan.load.pipeline = pipeline),
        "With HTTP/1.1: requests to keep in flight on each connection",
    )
    .default("1")
    .shown("requests in flight per connection", Named, |plan| {
        match (plan.load.protocol.has_streams(), plan.load.pipeline) {
            (true, _) => Unset,
            (false, 1) => Default("1"),
            (false, more) => Count(more.into()),
        }
    })
    .in_words(|option| option.counted("request", " in flight per connection")),
    option(
        "batch_latency",
        Heading::Load,
        Setter::Switch(|plan| plan.load.batch_latency = true),
        "With --pipeline, measure only the last response of each batch",
    )
    .short('B')
    // wrk2 accepts `--b`, which would be ambiguous here.
    .aliases(&["batch-latency", "b"])
    .shown(
        "latency of the last response of a batch only",
        Named,
        |plan| OptionValue::switch(plan.load.batch_latency, "yes", Unset),
    ),
    option(
        "no-keepalive",
        Heading::Load,
        Setter::Switch(|plan| plan.load.keepalive = false),
        "Close each connection after one request",
    )
    .conflicts(&["requests-per-connection"])
    .shown("keep-alive", Named, |plan| {
        OptionValue::switch(!plan.load.keepalive, "off", Default("on"))
    })
    .in_words(|option| match option.value {
        Switch(_) => Some("one request per connection".to_owned()),
        _ => None,
    }),
    option(
        "requests-per-connection",
        Heading::Load,
        Setter::Count(|plan, requests| plan.load.requests_per_connection = Some(requests)),
        "Close each connection after N requests",
    )
    .shown("requests per connection", Named, |plan| {
        plan.load.requests_per_connection.map_or(NO_LIMIT, Count)
    })
    .in_words(|option| option.counted("request", " per connection")),
    option(
        "connect-rate",
        Heading::Load,
        Setter::CountU32(|plan, rate| plan.load.connect_rate_per_sec = Some(rate)),
        "Open at most N connections per second, at the start and later; requests do not wait for \
         all",
    )
    .shown("new connections per second", Named, |plan| {
        let rate = plan.load.connect_rate_per_sec;
        rate.map_or(NO_LIMIT, |rate| Count(rate.into()))
    })
    .in_words(|option| option.counted("new connection", " per second at most")),
    option(
        "idle",
        Heading::Load,
        Setter::CountU32(|plan, connections| plan.load.idle_connections = connections),
        "Keep N further connections open and send nothing on them",
    )
    .default("0")
    .shown("idle connections", Named, |plan| {
        match plan.load.idle_connections {
            0 => Default("none"),
            idle => Count(idle.into()),
        }
    })
    .in_words(|option| option.counted("idle connection", "")),
    option(
        "cookies",
        Heading::Load,
        Setter::Switch(|plan| plan.load.cookies = true),
        "Let each connection keep the cookies that it gets and send them",
    )
    .shown("cookies", Named, |plan| {
        OptionValue::switch(plan.load.cookies, "kept", Default("not kept"))
    }),
    option(
        "bind-ip",
        Heading::Connection,
        Setter::Parsed(|plan, text| {
            let source = SourceRange::parse(text).map_err(InvalidValue::new)?;
            plan.load.source = Some(source);
            Ok(())
        }),
        "Connect from this address, or from each address of a network in turn, like 10.0.0.0/24",
    )
    .short('b')
    .value_name("ADDRESS")
    .shown("source address", Named, |plan| match plan.load.source {
        Some(source) => Text(source.to_string()),
        None => Default("chosen by the kernel"),
    }),
    option(
        "method",
        Heading::Request,
        Setter::Text(|plan, method| plan.request.method = Some(method)),
        "Request method [default: GET, or POST with a body or --grpc]",
    )
    .short('X')
    .visible_aliases(&["request"])
    .value_name("METHOD")
    .shown("method", Named, |plan| {
        let default = plan.default_method();
        match &plan.request.method {
            None if plan.request.file.is_some() => Unset,
            Some(method) if method != default => Text(method.clone()),
            _ => Default(default),
        }
    }),
    option(
        "header",
        Heading::Request,
        Setter::Parsed(|plan, text| {
            let headers = parse_headers(text).map_err(InvalidValue::new)?;
            plan.request.headers.extend(headers);
            Ok(())
        }),
        "Add a header to each request, as \"Name: value\"; may be repeated",
    )
    .short('H')
    .value_name("HEADER")
    .repeatable()
    .shown("headers", Named, |plan| {
        OptionValue::headers(plan.request.headers.iter())
    }),
    option(
        "user",
        Heading::Request,
        Setter::Parsed(|plan, text| plan.request.authorize(text)),
        "User and password for Basic authentication; -H Authorization has precedence",
    )
    .short('u')
    .value_name("USER:PASSWORD")
    // `--u` is wrk2's `--u_latency`.
    .secret_from("--us"),
    option(
        "body",
        Heading::Request,
        Setter::Text(|plan, text| plan.request.body = Some(Body::Inline(text.into_bytes()))),
        "Request body",
    )
    .value_name("TEXT")
    .conflicts(&["body-file"])
    .shown("body", Named, |plan| match &plan.request.body {
        None => Unset,
        Some(Body::Inline(bytes)) => OptionValue::Bytes(bytes.clone()),
        Some(Body::File(path)) => OptionValue::Path(path.clone()),
    }),
    option(
        "body-file",
        Heading::Request,
        Setter::Path(|plan, path| plan.request.body = Some(Body::File(path))),
        "Read the request body from a file",
    ),
    option(
        "request-file",
        Heading::Request,
        Setter::Path(|plan, path| plan.request.file = Some(RequestFile::new(or_stdin(path)))),
        "Send the requests in this file: URLs, JSON lines, .http, ...",
    )
    .long_help(
        "Send the requests in this file: a list of URLs, vegeta's targets, JSON lines or a JSON \
         array, or the .http format of VS Code and JetBrains; also compressed with gzip; - is \
         stdin (docs/requests.md). Short: --requests FILE. Without a URL, the first URL in the \
         file is the target",
    )
    .shown("request file", Named, |plan| {
        let file = plan.request.file.as_ref().filter(|file| file.log.is_none());
        OptionValue::path(file.map(|file| &file.path))
    }),
    option(
        "order",
        Heading::Request,
        Setter::Parsed(|plan, text| {
            let order = OptionValue::named::<RequestOrder>(text)?;
            if let Some(file) = &mut plan.request.file {
                file.order = Some(order);
            }
            Ok(())
        }),
        "Order of the requests in the file [default: weighted if a request has a weight, \
         otherwise sequence]",
    )
    .visible_aliases(&["request-order"])
    .value_name("HOW")
    .choices(&[
        RequestOrder::Sequence.name(),
        RequestOrder::Random.name(),
        RequestOrder::Weighted.name(),
    ])
    .shown("order of requests", Named, |plan| {
        let file = plan.request.file.as_ref();
        let file = file.filter(|_| plan.pacing.speed().is_none());
        match file.map(|file| file.order) {
            None => Unset,
            Some(None) => Default("weighted if there are weights, else sequence"),
            Some(Some(order)) => Text(order.name().to_owned()),
        }
    }),
    option(
        "replay",
        Heading::Replay,
        Setter::Path(|plan, path| {
            plan.request.file = Some(RequestFile {
                log: Some(AccessLog::default()),
                ..RequestFile::new(or_stdin(path))
            });
            // With a rate, the check of the plan says why that does not work.
            if plan.pacing == Pacing::Closed {
                plan.pacing = Pacing::Recorded { speed: 1.0 };
            }
        }),
        "Send the requests of an access log at its moments; - is stdin",
    )
    .long_help(
        "Send the requests of an access log at its moments (docs/replay.md); - is stdin. \
         wrkbench replay LOG is the same. The run ends with the last request, unless -d or -n \
         ends it earlier",
    )
    .value_name("LOG")
    .conflicts(&["request-file", "script"])
    .shown("replayed log", Named, |plan| {
        let file = plan.request.file.as_ref().filter(|file| file.log.is_some());
        OptionValue::path(file.map(|file| &file.path))
    }),
    option(
        "speed",
        Heading::Replay,
        Setter::Parsed(|plan, text| {
            let number = text.strip_suffix('x').unwrap_or(text).parse::<f64>().ok();
            let in_range = number.filter(|speed| (MIN_SPEED..=MAX_SPEED).contains(speed));
            let given = in_range.ok_or_else(|| {
                format!(
                    "is not a speed (expected a number from {MIN_SPEED} to {MAX_SPEED}, like 2)"
                )
            })?;
            // With a rate, the check of the options says why that does not work.
            if plan.pacing == Pacing::Closed || plan.pacing.speed().is_some() {
                plan.pacing = Pacing::Recorded { speed: given };
            }
            Ok(())
        }),
        "Replay N times as fast as in the log or request file [default: 1]",
    )
    .value_name("N")
    .shown("speed of the replay", Named, |plan| match plan.pacing {
        Pacing::Recorded { speed: 1.0 } => Default("1"),
        Pacing::Recorded { speed } => Text(speed.to_string()),
        _ => Unset,
    }),
    option(
        "log-format",
        Heading::Replay,
        Setter::Text(|plan, format| {
            if let Some(log) = plan.request.log_mut() {
                log.log_format = Some(format);
            }
        }),
        "Format: combined, common, vhost_combined, or as in nginx or Apache",
    )
    .long_help(
        "Format of the log: combined, common, vhost_combined, or the text of a log_format of \
         nginx or of a LogFormat of Apache [default: one of the three, whichever the lines have]",
    )
    .value_name("FORMAT")
    .requires("replay")
    .shown("log format", Load, |plan| {
        match plan.request.log().map(|log| &log.log_format) {
            None => Unset,
            Some(None) => Default("found out"),
            Some(Some(format)) => Text(format.clone()),
        }
    }),
    option(
        "all-methods",
        Heading::Replay,
        Setter::Switch(|plan| {
            if let Some(log) = plan.request.log_mut() {
                log.all_methods = true;
            }
        }),
        "Also send requests with methods other than GET, HEAD and OPTIONS",
    )
    .long_help("Also send requests with methods other than GET, HEAD and OPTIONS, without bodies")
    .requires("replay")
    .shown("requests of all methods", Named, |plan| {
        match plan.request.log().map(|log| log.all_methods) {
            None => Unset,
            Some(all) => OptionValue::switch(all, "yes", Default("no")),
        }
    }),
    option(
        "script",
        Heading::Request,
        Setter::Path(|plan, path| plan.request.script = Some(path)),
        "Lua script, with the same interface as in wrk",
    )
    .short('s')
    // wrk accepts `--s`, which would be ambiguous here.
    .aliases(&["s"])
    .shown("script", Named, |plan| {
        OptionValue::path(plan.request.script.as_ref())
    }),
    argument(Form::Argument).shown("script arguments", Named, |plan| {
        OptionValue::list(plan.request.script_args.clone())
    }),
    option(
        "events",
        Heading::Response,
        Setter::Parsed(|plan, text| {
            plan.events = Some(EventsSpec {
                format: OptionValue::named::<EventsFormat>(text)?,
                end_marker: None,
                dialect: None,
            });
            Ok(())
        }),
        "Time the events of streaming responses: server-sent events, lines, chunks, or the tokens \
         of a language model",
    )
    .long_help(
        "Time the events of streaming responses: the time to the first event, the gaps between \
         events, and events per second and per response. `sse` counts server-sent events with \
         data, `lines` lines that are not empty, `chunks` chunks of HTTP/1.1 or DATA frames of \
         HTTP/2 (docs/streaming.md). `grpc`, with --grpc, counts messages. `llm` reads the events of a language model's server, and \
         also counts and times its tokens (docs/llm.md)",
    )
    .value_name("FORMAT")
    .choices(&[
        EventsFormat::Sse.name(),
        EventsFormat::Lines.name(),
        EventsFormat::Chunks.name(),
        EventsFormat::Grpc.name(),
        EventsFormat::Llm.name(),
    ])
    // What is measured is another thing.
    .shown("events in responses", Named, |plan| {
        OptionValue::or_unset(plan.events.as_ref(), |events| {
            Text(events.format.name().to_owned())
        })
    }),
    option(
        "events-end",
        Heading::Response,
        Setter::Text(|plan, marker| {
            if let Some(events) = &mut plan.events {
                events.end_marker = Some(marker);
            }
        }),
        "What ends a stream, as an event of its own; \"\" for none [default: [DONE] with sse]",
    )
    .long_help(
        "The data of the event (sse), the line or the chunk that ends a stream. It is not an \
         event itself. A stream without it is unfinished. An empty text is for streams without a \
         marker [default: [DONE] with sse, otherwise none]",
    )
    .value_name("MARKER")
    .requires("events")
    .shown("end marker of events", Load, |plan| match &plan.events {
        None => Unset,
        Some(EventsSpec {
            format, end_marker, ..
        }) => match end_marker {
            Some(marker) => Text(marker.clone()),
            None if format.default_end_marker().is_empty() => Default("none"),
            None => Default(format.default_end_marker()),
        },
    }),
    option(
        "events-dialect",
        Heading::Response,
        Setter::Parsed(|plan, text| {
            let dialect = OptionValue::named::<Dialect>(text)?;
            if let Some(events) = &mut plan.events {
                events.dialect = Some(dialect);
            }
            Ok(())
        }),
        "With --events llm: the format of the events [default: each event shows it]",
    )
    .value_name("NAME")
    .choices(&[
        Dialect::OpenAi.name(),
        Dialect::Completions.name(),
        Dialect::Responses.name(),
        Dialect::Anthropic.name(),
        Dialect::Ollama.name(),
    ])
    .requires("events")
    // What is understood is another thing.
    .shown("format of a model's events", Named, |plan| {
        let events = plan.events.as_ref();
        match events.filter(|events| events.format == EventsFormat::Llm) {
            None => Unset,
            Some(events) => match events.dialect {
                Some(dialect) => Text(dialect.name().to_owned()),
                None => Default("found out"),
            },
        }
    }),
    option(
        "good",
        Heading::Response,
        Setter::Parsed(|plan, text| {
            let limits = text
                .parse::<GoodSpec>()
                .map_err(InvalidValue::new)?;
            plan.good = Some(limits);
            Ok(())
        }),
        "Count requests that meet all limits, like 'latency<200ms' or 'first_token<300ms, \
         time_per_token<50ms'",
    )
    .long_help(
        "Count the good requests, which meet all of these limits: latency, and with --events llm \
         first_token, first_text and time_per_token. The share of good requests is the metric \
         goodput (docs/llm.md)",
    )
    .value_name("LIMITS")
    .shown("limits of a good request", Named, |plan| {
        OptionValue::or_unset(plan.good.as_ref(), |good| Text(good.to_string()))
    }),
    option(
        "alpn",
        Heading::Connection,
        Setter::Parsed(|plan, text| {
            let offered = Alpn::parse_list(text)?;
            if offered == [Alpn::Http2] && plan.load.protocol == Protocol::Http1 {
                plan.load.protocol = Protocol::Http2;
            }
            plan.tls.alpn = offered;
            Ok(())
        }),
        "Protocols to offer over TLS: h2, http/1.1 or both with a comma, the preferred one first",
    )
    .long_help(
        "Protocols to offer over TLS (ALPN): h2, http/1.1 or both with a comma, the preferred \
         one first. With both, the server chooses the protocol of the run on a connection before \
         it, unless --http2 or --grpc requires HTTP/2 [default: the protocol of the run]",
    )
    .value_name("LIST")
    .shown("protocols offered over TLS", Load, |plan| {
        let alpn = &plan.tls.alpn;
        OptionValue::or_unset((!alpn.is_empty()).then_some(alpn), |alpn| {
            Text(Alpn::list(alpn))
        })
    }),
    option(
        "verify",
        Heading::Connection,
        Setter::Switch(|plan| plan.tls.verify = true),
        "Reject server certificates that are not valid for the host",
    )
    .shown("certificate verification", Load, |plan| {
        // TLS settings have no effect on http.
        match plan.target.scheme {
            Scheme::Https => OptionValue::switch(plan.tls.verify, "on", Default("off")),
            Scheme::Http => Unset,
        }
    }),
    option(
        "cacert",
        Heading::Connection,
        Setter::Path(|plan, path| {
            // A CA without verification would have no effect.
            plan.tls.verify = true;
            plan.tls.cacert = Some(path);
        }),
        "Trust the CA certificates in this PEM file; implies --verify",
    )
    .shown("CA file", Load, |plan| {
        OptionValue::path(plan.tls.cacert.as_ref().filter(|_| plan.has_tls()))
    }),
    option(
        "cert",
        Heading::Connection,
        Setter::Path(|plan, path| plan.tls.cert = Some(path)),
        "Client certificate chain, a PEM file; needs --key",
    )
    .shown("client certificate", Load, |plan| {
        OptionValue::path(plan.tls.cert.as_ref().filter(|_| plan.has_tls()))
    }),
    option(
        "key",
        Heading::Connection,
        Setter::Path(|plan, path| plan.tls.key = Some(path)),
        "Private key of the client certificate, a PEM file",
    )
    .shown("client key", Load, |plan| {
        OptionValue::path(plan.tls.key.as_ref().filter(|_| plan.has_tls()))
    }),
    option(
        "tls-resume",
        Heading::Connection,
        Setter::Parsed(|plan, text| {
            plan.tls.full_handshakes = match text {
                "on" => false,
                "off" => true,
                _ => return Err("expected on or off".into()),
            };
            Ok(())
        }),
        "Whether new connections resume TLS sessions of earlier ones",
    )
    .long_help(
        "Whether new connections resume TLS sessions of earlier ones, as browsers do, if the \
         server issues tickets. The report counts full and resumed handshakes; off makes all of \
         them full",
    )
    .value_name("WHETHER")
    .choices(&["on", "off"])
    .default("on")
    .shown("TLS resumption", Load, |plan| {
        match (plan.has_tls(), plan.tls.full_handshakes) {
            (false, _) => Unset,
            (true, true) => Text("off".to_owned()),
            (true, false) => Default("on"),
        }
    }),
    option(
        "early-data",
        Heading::Connection,
        Setter::Switch(|plan| plan.tls.early_data = true),
        "With --http3: send GET, HEAD and OPTIONS before a resumed handshake is complete (0-RTT)",
    )
    .long_help(
        "With --http3: send GET, HEAD and OPTIONS before a resumed handshake is complete (0-RTT). \
         Other methods wait for the handshake, and its rest is part of their latency. Requests \
         that the server rejects as early data are sent again once, after the handshake; their \
         latency counts from the first time",
    )
    .shown("early data", Load, |plan| {
        if !plan.has_tls() { return Unset; }
        OptionValue::switch(plan.tls.early_data, "on", Default("off"))
    }),
    option(
        "dns",
        Heading::Connection,
        Setter::Parsed(|plan, text| {
            plan.addresses.dns = OptionValue::named(text)?;
            Ok(())
        }),
        "Addresses of a name to use: the first that accepts connections, or all, spread evenly \
         over the connections",
    )
    .value_name("WHICH")
    .choices(&[DnsUse::First.name(), DnsUse::All.name()])
    .default(DnsUse::First.name())
    .shown("addresses of the name", Named, |plan| {
        match plan.addresses.dns {
            first @ DnsUse::First => Default(first.name()),
            other => Text(other.name().to_owned()),
        }
    }),
    option(
        "resolve",
        Heading::Connection,
        Setter::Text(|plan, rule| plan.addresses.resolve.push(rule)),
        "Use these addresses for a host and port, as in curl; may be repeated",
    )
    .long_help(
        "Use these addresses for a host and port, as in curl: \
         example.test:443:10.0.0.1,10.0.0.2; * is any host. May be repeated",
    )
    .value_name("HOST:PORT:ADDRESS")
    .repeatable()
    .shown("addresses in place of others", Load, |plan| {
        OptionValue::list(plan.addresses.resolve.clone())
    }),
    option(
        "connect-to",
        Heading::Connection,
        Setter::Text(|plan, rule| plan.addresses.connect_to.push(rule)),
        "Connect to another host, as in curl: HOST1:PORT1:HOST2:PORT2; may be repeated",
    )
    .long_help(
        "Connect to HOST2 and PORT2 instead of HOST1 and PORT1, as in curl: \
         HOST1:PORT1:HOST2:PORT2, each of which may be empty. The Host header, and the name in \
         TLS, stay the same. May be repeated",
    )
    .value_name("RULE")
    .repeatable()
    .shown("hosts in place of others", Load, |plan| {
        OptionValue::list(plan.addresses.connect_to.clone())
    }),
    option(
        "resolve-every",
        Heading::Connection,
        Setter::Time(|plan, time| plan.addresses.resolve_every = Some(time)),
        "Look the name up again every T during the run",
    )
    .shown("time between name lookups", Load, |plan| {
        OptionValue::or_unset(plan.addresses.resolve_every, OptionValue::Time)
    }),
    option(
        "proxy",
        Heading::Proxy,
        Setter::Parsed(|plan, text| {
            plan.proxy = Some(ProxySpec::parse(text)?);
            Ok(())
        }),
        "Connect through a proxy: [http|https|socks5|socks5h://][user:password@]host[:port]",
    )
    .long_help(
        "Connect through a proxy: [http|https|socks5|socks5h://][user:password@]host[:port]. \
         Without a scheme it is an HTTP proxy; the default port is 1080, and 443 for https. With \
         socks5h the proxy resolves the name of the target. The environment (http_proxy and \
         others) is not read",
    )
    .short('x')
    .value_name("URL")
    .shown("proxy", Named, |plan| {
        OptionValue::or_unset(plan.proxy.as_ref(), |proxy| Text(proxy.url()))
    }),
    option(
        "proxy-user",
        Heading::Proxy,
        Setter::Text(|plan, user| {
            // As in curl, this one has precedence.
            plan.change_proxy(|proxy| proxy.user = Some(user));
        }),
        "User and password for the proxy",
    )
    .value_name("USER:PASSWORD")
    .requires("proxy")
    .secret_from("--proxy-u")
    .shown("proxy user", Load, |plan| {
        let user = plan.proxy.as_ref().and_then(|proxy| proxy.user.clone());
        OptionValue::or_unset(user, Text)
    }),
    option(
        "proxy-header",
        Heading::Proxy,
        Setter::Parsed(|plan, text| {
            let headers = parse_headers(text).map_err(InvalidValue::new)?;
            plan.change_proxy(|proxy| proxy.headers.extend(headers));
            Ok(())
        }),
        "Add a header to each request for an HTTP proxy, as in curl; may be repeated",
    )
    .long_help(
        "Add a header to each request for an HTTP proxy, as \"Name: value\" as in curl: to the \
         request for a tunnel, or to those that the proxy forwards. May be repeated",
    )
    .value_name("HEADER")
    .repeatable()
    .requires("proxy")
    .shown("headers for the proxy", Load, |plan| {
        let headers = plan.proxy.iter().flat_map(|proxy| &proxy.headers);
        OptionValue::headers(headers)
    }),
    option(
        "proxytunnel",
        Heading::Proxy,
        Setter::Switch(|plan| plan.change_proxy(|proxy| proxy.tunnel = true)),
        "Ask an HTTP proxy for a tunnel (CONNECT) to http:// targets, too",
    )
    .short('p')
    .requires("proxy")
    .shown("proxy tunnel for http", Named, |plan| {
        let has_tunnel = plan.proxy.as_ref().is_some_and(|proxy| proxy.tunnel);
        OptionValue::switch(has_tunnel, "on", Unset)
    }),
    option(
        "proxy-verify",
        Heading::Proxy,
        Setter::Switch(|plan| plan.change_proxy(|proxy| proxy.verify = true)),
        "Reject certificates of an https:// proxy that are not valid for its host",
    )
    .requires("proxy")
    .shown("proxy certificate verification", Load, |plan| {
        let proxy = plan.proxy.as_ref().filter(|proxy| proxy.verify);
        match proxy.map(|proxy| &proxy.cacert) {
            None => Unset,
            Some(None) => Switch("on"),
            // Its CA file implies it.
            Some(Some(_)) => Default("on"),
        }
    }),
    option(
        "proxy-cacert",
        Heading::Proxy,
        Setter::Path(|plan, path| {
            plan.change_proxy(|proxy| {
                proxy.verify = true;
                proxy.cacert = Some(path);
            });
        }),
        "Trust the CA certificates in this PEM file for the proxy; implies --proxy-verify",
    )
    .requires("proxy")
    .shown("proxy CA file", Load, |plan| {
        let proxy = plan.proxy.as_ref();
        OptionValue::path(proxy.and_then(|proxy| proxy.cacert.as_ref()))
    }),
    option(
        "io",
        Heading::Connection,
        Setter::Parsed(|plan, text| {
            plan.backend = OptionValue::named(text)?;
            Ok(())
        }),
        "Kernel interface for socket I/O",
    )
    .value_name("BACKEND")
    .choices(&[
        BackendChoice::Auto.name(),
        BackendChoice::Uring.name(),
        BackendChoice::Epoll.name(),
    ])
    .default(BackendChoice::Auto.name())
    .shown("backend", Load, |plan| match plan.backend {
        auto @ BackendChoice::Auto => Default(auto.name()),
        chosen => Text(chosen.name().to_owned()),
    }),
    option(
        "sockets",
        Heading::Telemetry,
        Setter::Text(|plan, filter| plan.telemetry_mut().sockets = Some(filter)),
        "Sample TCP sockets during the run, like 'sport = :80 or dport = :443'; '' selects all",
    )
    .value_name("FILTER")
    .elsewhere("set it in [telemetry]")
    .shown("watched sockets", Other, |plan| {
        let telemetry = plan.telemetry.as_ref();
        OptionValue::or_unset(telemetry.and_then(|it| it.sockets.clone()), Text)
    }),
    option(
        "counters",
        Heading::Telemetry,
        Setter::Switch(|plan| plan.telemetry_mut().counters = true),
        "Record kernel counters over the run: TCP, packets, CPUs and pressure",
    )
    .elsewhere("set it in [telemetry]")
    .shown("kernel counters", Other, |plan| {
        let counts = plan.telemetry.as_ref().is_some_and(|it| it.counters);
        OptionValue::switch(counts, "recorded", Unset)
    }),
    option(
        "interval",
        Heading::Telemetry,
        Setter::Time(|plan, time| {
            if let Some(telemetry) = &mut plan.telemetry {
                telemetry.interval = time;
            }
        }),
        "Time between socket samples [default: 1s]",
    )
    .elsewhere("set it in [telemetry]")
    .shown("time between samples", Other, |plan| {
        let interval = plan.telemetry.as_ref().map(|it| it.interval);
        OptionValue::or_unset(interval, OptionValue::Time)
    }),
    option(
        "profile",
        Heading::Telemetry,
        Setter::Text(|plan, server| plan.profile = Some(server)),
        "Sample the call stacks of the server: a process ID, a systemd unit or a process name",
    )
    .long_help(
        "Sample the call stacks of the server: a process ID, a systemd unit or a process name. \
         With --fleet it is host=NAME:SERVER, with the name of an agent on the server's machine \
         that was started with --allow-changes",
    )
    .value_name("SERVER")
    .shown("profiled server", Other, |plan| {
        OptionValue::or_unset(plan.profile.clone(), Text)
    }),
    option(
        "server",
        Heading::Telemetry,
        Setter::Text(|plan, server| plan.server = Some(server)),
        "Measure the CPU time of the server: a process ID, a systemd unit or a process name",
    )
    .value_name("SERVER")
    .shown("measured server", Other, |plan| {
        OptionValue::or_unset(plan.server.clone(), Text)
    }),
    option(
        "scrape",
        Heading::Telemetry,
        Setter::Text(|plan, url| plan.scrape.push(url)),
        "Read the server's own metrics once a second: a page for Prometheus; may be repeated",
    )
    .long_help(
        "Read the server's own metrics once a second, from a page for Prometheus like \
         http://127.0.0.1:8000/metrics. Queue and cache of vLLM, SGLang and llama.cpp have titles \
         (docs/llm.md). May be repeated",
    )
    .value_name("URL")
    .repeatable()
    .shown("scraped metrics", Other, |plan| {
        OptionValue::list(plan.scrape.clone())
    }),
    option(
        "server-timing",
        Heading::Telemetry,
        Setter::Switch(|plan| plan.tracing.server_timing = true),
        "Read Server-Timing headers, and show where the time of the slowest requests went",
    )
    .shown("Server-Timing headers", Load, |plan| {
        OptionValue::switch(plan.tracing.server_timing, "read", Unset)
    }),
    option(
        "traceparent",
        Heading::Telemetry,
        Setter::Parsed(|plan, text| {
            plan.tracing.traceparent_one_in = Some(TracingSpec::parse_one_in(text)?);
            Ok(())
        }),
        "Send one in N requests with a W3C traceparent header, and list the slowest of them",
    )
    .value_name("1/N")
    .shown("requests with a trace", Load, |plan| {
        let one_in = plan.tracing.traceparent_one_in;
        OptionValue::or_unset(one_in, |one_in| Text(format!("1/{one_in}")))
    }),
    option(
        "trace-url",
        Heading::Telemetry,
        Setter::Text(|plan, url| plan.tracing.url = Some(url)),
        "Where a trace can be seen, for links on the page: 'http://jaeger:16686/trace/{id}'",
    )
    .value_name("URL")
    .requires("traceparent")
    .shown("links to traces", Other, |plan| {
        OptionValue::or_unset(plan.tracing.url.clone(), Text)
    }),
];

impl OptionValue {
    fn headers<'a>(headers: impl Iterator<Item = &'a (String, String)>) -> Self {
        let lines = headers.map(|(name, value)| format!("{name}: {value}"));
        Self::list(lines.collect())
    }

    /// The value with a name of an enum, as serde reads it.
    fn named<T: for<'de> serde::Deserialize<'de>>(name: &str) -> Result<T, InvalidValue> {
        use serde::de::IntoDeserializer as _;
        let deserializer: serde::de::value::StrDeserializer<'_, serde::de::value::Error> =
            name.into_deserializer();
        T::deserialize(deserializer).map_err(InvalidValue::new)
    }
}

impl RunPlan {
    fn has_tls(&self) -> bool {
        self.target.scheme == Scheme::Https
    }

    fn change_proxy(&mut self, change: impl FnOnce(&mut ProxySpec)) {
        if let Some(proxy) = &mut self.proxy {
            change(proxy);
        }
    }

    fn telemetry_mut(&mut self) -> &mut TelemetrySpec {
        self.telemetry.get_or_insert_with(TelemetrySpec::default)
    }
}
