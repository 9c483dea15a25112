//! The plan of one run: what to send, where, how often and for how long.
//!
//! A [`RunPlan`] is made from the command line, checked, executed by the engine and saved in the
//! result. Its field names are part of that document, with their units (`timeout_ns`), and do not
//! change. [`RunPlan::options`] describes it; command lines, names and texts are made from that.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod addresses;
mod backend;
mod brief;
mod check;
mod connection_stages;
pub mod distribution;
mod events;
mod good;
mod invalid_value;
mod lanes;
mod load;
mod options;
mod pacing;
mod printable;
mod profiled;
mod proxy;
pub mod quantity;
mod rate;
mod rate_curve;
pub mod readable;
mod request;
mod saved;
pub mod secrets;
mod shares;
pub mod shell;
mod source_range;
mod stop;
mod target;
mod telemetry;
mod tls;
mod tracing;
pub mod units;

pub use addresses::{
    AddressSpec, ConnectRule, DnsUse, MIN_RESOLVE_INTERVAL, ResolveRule, RuleError,
};
pub use backend::BackendChoice;
pub use brief::brief;
pub use check::PlanError;
pub use connection_stages::ConnectionStage;
pub use events::{Dialect, EventsFormat, EventsSpec};
pub use good::{GoodError, GoodLimit, GoodSpec, GoodTime};
pub use invalid_value::InvalidValue;
pub use lanes::{LANES_UNEVENNESS_MAX, Lanes};
pub use load::{
    Load, MAX_CONNECT_RATE, MAX_CONNECTIONS, MAX_PIPELINE, MAX_STREAMS, MAX_THREADS, Protocol,
};
pub use options::{
    GivenOptions, Heading, OPTIONS, OptionError, OptionName, OptionSpec, OptionValue, PlanOption,
    Settable, Setter, find_option,
};
pub use pacing::{
    Arrivals, MAX_RATE_PER_SEC, MAX_SHAPE, MAX_SPEED, MAX_STAGES, MIN_RATE_PER_SEC, MIN_SHAPE,
    MIN_SPEED, Pacing, Stage,
};
pub use printable::{is_printable, printable, printable_json, printable_lines};
pub use profiled::ProfiledServer;
pub use proxy::{ProxyScheme, ProxySpec};
pub use rate_curve::RateCurve;
pub use request::{
    AccessLog, AskedTokens, Body, HeaderError, MessageSchema, RequestFile, RequestOrder,
    RequestSpec, basic_authorization, check_header, is_token, may_be_early_data, parse_headers,
    path_of_call,
};
pub use shares::{
    AgentThreads, FleetSchedule, MAX_WEIGHT, Share, Weight, WeightError, WeightedLanes,
};
pub use source_range::SourceRange;
pub use stop::Stop;
pub use target::{Scheme, Target, UrlError, percent_decoded};
pub use telemetry::{MIN_SAMPLE_INTERVAL, TelemetrySpec};
pub use tls::{Alpn, TlsSpec};
pub use tracing::{TRACE_ID, TracingSpec};

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The complete description of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunPlan {
    /// Where the requests go.
    pub target: Target,
    /// Threads, connections, and how each connection is used.
    pub load: Load,
    /// When requests are due.
    pub pacing: Pacing,
    /// When the run ends.
    pub stop: Stop,
    /// Length of the warm-up, whose requests are not measured; zero is none. The greatest length if
    /// the warm-up ends as soon as the server has settled.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    #[serde(rename = "warmup_ns", with = "saved::duration_ns")]
    pub warmup: Duration,
    /// Whether the warm-up ends as soon as the server has settled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warmup_auto: bool,
    /// How long a connect or a response may take before it counts as a timeout; zero is no limit
    /// (see [`RunPlan::time_limit`]).
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    #[serde(rename = "timeout_ns", with = "saved::duration_ns")]
    pub timeout: Duration,
    /// How long responses are read after the window whose requests were due in it; zero is not at
    /// all. `None` is the default ([`RunPlan::drain_limit`]).
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    #[serde(
        rename = "drain_ns",
        with = "saved::optional_duration_ns",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub drain: Option<Duration>,
    /// Method, headers and body of the requests, and their script or file.
    pub request: RequestSpec,
    /// Whether the run stops if the server refuses all of its first requests with 401, 403 or 404.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stops_if_denied: bool,
    /// How responses are split into events; `None` if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<EventsSpec>,
    /// The limits that a good request meets (`first_token<300ms, time_per_token<50ms`); `None` if
    /// requests are not judged.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good: Option<GoodSpec>,
    /// How https connections are verified.
    pub tls: TlsSpec,
    /// Which addresses connections go to.
    #[serde(default, skip_serializing_if = "AddressSpec::is_default")]
    pub addresses: AddressSpec,
    /// The proxy through which the target is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxySpec>,
    /// The kernel interface that drives the sockets.
    pub backend: BackendChoice,
    /// What to sample from the kernel during the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<TelemetrySpec>,
    /// The server whose call stacks are sampled during the run: the number of a process, a systemd
    /// unit, or the name of processes; behind `host=NAME:` if an agent of this name samples it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The server whose CPU time is measured: the number of a process, a systemd unit, or the name
    /// of a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// URLs of the server's own metrics, in Prometheus's text format, which are read during the
    /// run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scrape: Vec<String>,
    /// What is asked of the server about single requests.
    #[serde(default, skip_serializing_if = "TracingSpec::is_default")]
    pub tracing: TracingSpec,
}

/// The greatest length of a warm-up that ends as soon as the server has settled, unless another one
/// is given.
const WARMUP_LIMIT: Duration = Duration::from_secs(30);

impl RunPlan {
    /// A plan with the defaults of wrk: a closed loop with 2 threads and 10 connections for 10 s,
    /// and a timeout of 2 s.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self {
            target,
            load: Load::default(),
            pacing: Pacing::Closed,
            stop: Stop {
                duration: Some(Duration::from_secs(10)),
                requests: None,
            },
            warmup: Duration::ZERO,
            warmup_auto: false,
            timeout: Duration::from_secs(2),
            drain: None,
            request: RequestSpec::default(),
            stops_if_denied: false,
            events: None,
            good: None,
            tls: TlsSpec::default(),
            addresses: AddressSpec::default(),
            proxy: None,
            backend: BackendChoice::Auto,
            telemetry: None,
            profile: None,
            server: None,
            scrape: Vec::new(),
            tracing: TracingSpec::default(),
        }
    }

    /// Sets the warm-up: a length, or `auto`.
    fn set_warmup(&mut self, text: &str) -> Result<(), InvalidValue> {
        self.warmup_auto = text == "auto";
        self.warmup = if self.warmup_auto {
            WARMUP_LIMIT
        } else {
            units::parse_time(text).map_err(InvalidValue::new)?
        };
        Ok(())
    }

    /// The method of the requests if none is set.
    #[must_use]
    pub fn default_method(&self) -> &'static str {
        if self.request.body.is_some() || self.load.protocol.is_grpc() {
            "POST"
        } else {
            "GET"
        }
    }

    /// Whether it is recorded what the latency consists of.
    #[must_use]
    pub fn breaks_latency_down(&self) -> bool {
        let of_requests = self.tracing.server_timing || self.tracing.traceparent_one_in.is_some();
        of_requests || self.profile.is_some()
    }

    /// The seed of random arrivals, of a random order of requests, and of random values in them;
    /// `None` if there is nothing random.
    #[must_use]
    pub fn random_seed(&self) -> Option<u64> {
        let file = self.request.file.as_ref();
        // Nothing about a log is random.
        let of_file = file.filter(|file| file.log.is_none());
        let of_file = of_file.map(|file| file.seed);
        self.pacing.random_seed().or(of_file)
    }

    /// Sets the seed of everything that is random.
    pub fn set_seed(&mut self, seed: u64) {
        let of_file = self.request.file.as_mut().map(|file| &mut file.seed);
        for place in self.pacing.seed_mut().into_iter().chain(of_file) {
            *place = seed;
        }
    }

    /// The protocols that are offered in a TLS handshake, the preferred one first.
    #[must_use]
    pub fn alpn(&self) -> Vec<Alpn> {
        if self.tls.alpn.is_empty() {
            vec![self.load.protocol.alpn()]
        } else {
            self.tls.alpn.clone()
        }
    }

    /// The proxy, if it gets each request instead of opening a connection to the target.
    #[must_use]
    pub fn forwarding_proxy(&self) -> Option<&ProxySpec> {
        let forwards = |proxy: &&ProxySpec| !proxy.scheme.is_socks() && !proxy.tunnel;
        let is_plain = self.target.scheme == Scheme::Http && !self.load.protocol.has_streams();
        self.proxy.as_ref().filter(forwards).filter(|_| is_plain)
    }

    /// Whether the server chooses between HTTP/1.1 and HTTP/2 in the TLS handshake.
    #[must_use]
    pub fn lets_server_choose(&self) -> bool {
        self.load.protocol == Protocol::Http1 && self.tls.alpn.contains(&Alpn::Http2)
    }

    /// How long responses are read after the window at most; zero if they are not. By default,
    /// streams of events are read for as long as a response may take at all, the timeout. Without a
    /// timeout they might never end, so they are not read then; nor are they, by default, if no
    /// response of the run has ended in the window.
    #[must_use]
    pub fn drain_limit(&self) -> Duration {
        let usual = match &self.events {
            Some(_) => self.timeout,
            None => Duration::ZERO,
        };
        self.drain.unwrap_or(usual)
    }

    /// The timeout, or [`Duration::MAX`] if the plan has no limit.
    #[must_use]
    pub fn time_limit(&self) -> Duration {
        if self.timeout.is_zero() {
            Duration::MAX
        } else {
            self.timeout
        }
    }
}
