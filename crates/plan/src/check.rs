//! Checks a plan without access to the machine.

use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use crate::request::{check_header, is_token, may_be_early_data};
use crate::secrets::hide_secrets;
use crate::tracing::is_web_url;
use crate::{
    AddressSpec, Alpn, Arrivals, ConnectRule, ConnectionStage, Dialect, DnsUse, EventsFormat,
    EventsSpec, GoodSpec, Load, MAX_CONNECT_RATE, MAX_CONNECTIONS, MAX_PIPELINE, MAX_RATE_PER_SEC,
    MAX_SHAPE, MAX_SPEED, MAX_STAGES, MAX_STREAMS, MAX_THREADS, MIN_RATE_PER_SEC,
    MIN_RESOLVE_INTERVAL, MIN_SAMPLE_INTERVAL, MIN_SHAPE, MIN_SPEED, Pacing, ProfiledServer,
    RequestFile, RequestSpec, ResolveRule, RuleError, RunPlan, Scheme, Stage, Stop, TRACE_ID,
    Target, TelemetrySpec, TlsSpec, TracingSpec, units,
};

/// `sun_path` of `sockaddr_un` has 108 bytes on Linux, one of them the final NUL (unix(7)).
const MAX_UNIX_PATH_BYTES: usize = 107;

/// Each page is read by a thread.
const SCRAPED_MAX: usize = 16;

/// A setting with an invalid value; displays as `connections 2: must be ...`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}{}{value}: {problem}", if value.is_empty() { "" } else { " " })]
pub struct PlanError {
    /// Name of the setting: the long option of the command line without its dashes.
    pub setting: &'static str,
    /// Its value, short enough for one line. Empty for a switch.
    pub value: String,
    /// What is wrong, and what is expected.
    pub problem: String,
}

impl PlanError {
    pub(crate) fn new(
        setting: &'static str,
        value: impl Display,
        problem: impl Into<String>,
    ) -> Self {
        Self {
            setting,
            value: value.to_string(),
            problem: problem.into(),
        }
    }
}

impl RunPlan {
    /// Checks every setting and their combinations.
    ///
    /// # Errors
    /// The first setting with which the plan cannot run.
    pub fn check(&self) -> Result<(), PlanError> {
        check_target(&self.target)?;
        check_load(&self.load, self.lets_server_choose())?;
        if let Some(source) = self
            .load
            .source
            .filter(|_| self.target.unix_socket.is_some())
        {
            let problem = "a connection to a Unix socket has no source address";
            return Err(PlanError::new("bind-ip", source, problem));
        }
        check_pacing(&self.pacing)?;
        check_connection_stages(&self.load, &self.pacing)?;
        check_replay(self)?;
        check_stop(&self.stop, &self.pacing)?;
        check_warmup(self)?;
        check_request(&self.request)?;
        if let Some(file) = &self.request.file {
            check_request_file(file, &self.request, &self.load)?;
        }
        if self.load.protocol.is_grpc() {
            check_call(&self.request, &self.target)?;
        }
        if let Some(good) = &self.good {
            check_good(good, self.events.as_ref())?;
        }
        if let Some(events) = &self.events {
            check_events(events, &self.load)?;
        }
        check_tls(&self.tls)?;
        check_alpn(self)?;
        if self.load.protocol.is_http3() {
            check_http3(self)?;
        }
        if self.tls.early_data {
            check_early_data(self)?;
        }
        check_proxy(self)?;
        check_addresses(self)?;
        self.check_secrets()?;
        check_tracing(&self.tracing, &self.request)?;
        self.profile.as_deref().map_or(Ok(()), check_profile)?;
        check_scrape(&self.scrape)?;
        self.telemetry.as_ref().map_or(Ok(()), check_telemetry)
    }
}

fn check_target(target: &Target) -> Result<(), PlanError> {
    // A saved plan may have been edited, so everything that is sent is checked again.
    let breaks_line = |text: &str| {
        text.chars()
            .any(|c| c.is_ascii_whitespace() || c.is_control())
    };
    if !target.path.starts_with('/') || breaks_line(&target.path) {
        let problem = "must start with / and contain no space and no control character";
        return Err(PlanError::new(
            "path",
            format!("{:?}", target.path),
            problem,
        ));
    }
    if target.host.is_empty() || breaks_line(&target.host) || breaks_line(&target.host_header) {
        let problem = "must not be empty or contain a space or a control character";
        return Err(PlanError::new(
            "host",
            format!("{:?}", target.host),
            problem,
        ));
    }
    target
        .unix_socket
        .as_deref()
        .map_or(Ok(()), check_unix_socket)
}

fn check_unix_socket(path: &Path) -> Result<(), PlanError> {
    let bytes = path.as_os_str().as_bytes();
    let problem = if bytes.is_empty() {
        "is empty (expected the path of a socket)".to_owned()
    } else if bytes.contains(&0) {
        "contains NUL (expected the path of a socket)".to_owned()
    } else if bytes.len() > MAX_UNIX_PATH_BYTES {
        format!("is longer than a socket's path can be ({MAX_UNIX_PATH_BYTES} bytes)")
    } else {
        return Ok(());
    };
    Err(PlanError::new("unix-socket", format!("{path:?}"), problem))
}

fn check_load(load: &Load, server_chooses: bool) -> Result<(), PlanError> {
    let Load {
        threads,
        connections,
        protocol,
        streams,
        pipeline,
        ..
    } = *load;
    if !(1..=MAX_THREADS).contains(&threads) {
        let problem = format!("must be from 1 to {MAX_THREADS}");
        return Err(PlanError::new("threads", threads, problem));
    }
    if connections < threads {
        let problem = format!("number of connections must be >= threads ({threads})");
        return Err(PlanError::new("connections", connections, problem));
    }
    if connections > MAX_CONNECTIONS {
        let problem = format!("must be at most {MAX_CONNECTIONS}");
        return Err(PlanError::new("connections", connections, problem));
    }
    if load.idle_connections > MAX_CONNECTIONS - connections {
        let problem = format!("must be at most {MAX_CONNECTIONS} with the other connections");
        return Err(PlanError::new("idle", load.idle_connections, problem));
    }
    if let Some(rate) = load.connect_rate_per_sec
        && !(1..=MAX_CONNECT_RATE).contains(&rate)
    {
        let problem = format!("must be from 1 to {MAX_CONNECT_RATE}");
        return Err(PlanError::new("connect-rate", rate, problem));
    }
    if !(1..=MAX_STREAMS).contains(&streams) {
        let problem = format!("must be from 1 to {MAX_STREAMS}");
        return Err(PlanError::new("streams", streams, problem));
    }
    if !protocol.has_streams() && !server_chooses && streams > 1 {
        let problem = "is for HTTP/2 (--http2); with HTTP/1.1 use --pipeline";
        return Err(PlanError::new("streams", streams, problem));
    }
    if protocol.has_streams() && pipeline > 1 {
        let problem = "is for HTTP/1.1; with HTTP/2 use --streams";
        return Err(PlanError::new("pipeline", pipeline, problem));
    }
    if !(1..=MAX_PIPELINE).contains(&pipeline) {
        let problem = format!("must be from 1 to {MAX_PIPELINE}");
        return Err(PlanError::new("pipeline", pipeline, problem));
    }
    let per_connection = load.requests_per_connection;
    if per_connection == Some(0) {
        return Err(PlanError::new(
            "requests-per-connection",
            0,
            "must be at least 1",
        ));
    }
    if pipeline > 1 && (!load.keepalive || per_connection.is_some_and(|n| n < u64::from(pipeline)))
    {
        let problem = "must not exceed the requests per connection";
        return Err(PlanError::new("pipeline", pipeline, problem));
    }
    Ok(())
}

fn check_pacing(pacing: &Pacing) -> Result<(), PlanError> {
    if let Some(shape) = pacing.arrivals().and_then(Arrivals::shape)
        && !(MIN_SHAPE..=MAX_SHAPE).contains(&shape)
    {
        let problem = format!("must have a shape from {MIN_SHAPE} to {MAX_SHAPE}");
        return Err(PlanError::new(
            "arrivals",
            Arrivals::Gamma { shape },
            problem,
        ));
    }
    match pacing {
        Pacing::Closed | Pacing::Users => Ok(()),
        Pacing::Constant { rate_per_sec, .. } => {
            if (MIN_RATE_PER_SEC..=MAX_RATE_PER_SEC).contains(rate_per_sec) {
                return Ok(());
            }
            let problem = format!("must be from {MIN_RATE_PER_SEC} to {MAX_RATE_PER_SEC}");
            Err(PlanError::new("rate", rate_per_sec, problem))
        }
        Pacing::Stages { stages, .. } => check_stages(stages),
        Pacing::Recorded { speed } => {
            if (MIN_SPEED..=MAX_SPEED).contains(speed) {
                return Ok(());
            }
            let problem = format!("must be from {MIN_SPEED} to {MAX_SPEED}");
            Err(PlanError::new("speed", speed, problem))
        }
    }
}

fn check_connection_stages(load: &Load, pacing: &Pacing) -> Result<(), PlanError> {
    let stages = &load.connection_stages;
    if stages.is_empty() {
        return Ok(());
    }
    let refuse = |problem: String| {
        let list = ConnectionStage::list(stages);
        Err(PlanError::new("connection-stages", list, problem))
    };
    let most = ConnectionStage::most(stages);
    if stages.len() > MAX_STAGES {
        return refuse(format!("must be from 1 to {MAX_STAGES} stages"));
    }
    if most == 0 {
        return refuse("no connection would ever be opened".to_owned());
    }
    if most > load.connections {
        return refuse(format!(
            "has more connections than -c ({})",
            load.connections
        ));
    }
    if load.idle_connections > 0 {
        return refuse("cannot be used together with --idle".to_owned());
    }
    match pacing {
        Pacing::Closed => Ok(()),
        _ => refuse("is for a closed loop: with a rate, requests decide (use --stages)".to_owned()),
    }
}

fn check_stages(stages: &[Stage]) -> Result<(), PlanError> {
    let number = stages.len();
    if !(1..=MAX_STAGES).contains(&number) {
        let problem = format!("must be from 1 to {MAX_STAGES} stages");
        return Err(PlanError::new("stages", number, problem));
    }
    for stage in stages {
        let rates = [stage.from_per_sec, stage.to_per_sec];
        let bad = rates
            .into_iter()
            .find(|rate| *rate != 0.0 && !(MIN_RATE_PER_SEC..=MAX_RATE_PER_SEC).contains(rate));
        if let Some(rate) = bad {
            let problem = format!("must be 0 or from {MIN_RATE_PER_SEC} to {MAX_RATE_PER_SEC}");
            return Err(PlanError::new("stages", rate, problem));
        }
        if stage.duration.is_zero() {
            return Err(PlanError::new("stages", "0s", "must be longer than 0"));
        }
    }
    if stages.iter().all(Stage::is_pause) {
        return Err(PlanError::new("stages", 0, "no request would ever be due"));
    }
    Ok(())
}

fn check_stop(stop: &Stop, pacing: &Pacing) -> Result<(), PlanError> {
    if stop.duration.is_some_and(|duration| duration.is_zero()) {
        return Err(PlanError::new("duration", "0", "must be longer than 0"));
    }
    if stop.requests == Some(0) {
        return Err(PlanError::new("requests", 0, "must be at least 1"));
    }
    // The last request of a log ends its replay.
    let ends = matches!(pacing, Pacing::Recorded { .. });
    if stop.duration.is_none() && stop.requests.is_none() && !ends {
        return Err(PlanError::new(
            "duration",
            "none",
            "a run without requests needs a duration",
        ));
    }
    Ok(())
}

/// The least limit of a warm-up until the server has settled. The rule for that (`is_settled` of
/// `stats`) looks at 5 s, and the start of the window is agreed upon after that.
const MIN_WARMUP_LIMIT: Duration = Duration::from_secs(6);

/// Checks a warm-up that ends when the server has settled.
fn check_warmup(plan: &RunPlan) -> Result<(), PlanError> {
    if !plan.warmup_auto {
        return Ok(());
    }
    match &plan.pacing {
        Pacing::Recorded { .. } => {
            let problem = "a replay sends nothing before its first request (use a time)";
            Err(PlanError::new("warmup", "auto", problem))
        }
        _ if plan.warmup < MIN_WARMUP_LIMIT => Err(PlanError::new(
            "warmup-limit",
            units::time(plan.warmup),
            format!("must be at least {}", units::time(MIN_WARMUP_LIMIT)),
        )),
        _ => Ok(()),
    }
}

fn check_request(request: &RequestSpec) -> Result<(), PlanError> {
    if let Some(method) = request.method.as_deref().filter(|method| !is_token(method)) {
        let problem = "is not a method (expected a token like GET or POST)";
        return Err(PlanError::new("method", format!("{method:?}"), problem));
    }
    for (name, value) in &request.headers {
        check_header(name, value)
            .map_err(|error| PlanError::new("header", format!("{name:?}"), error.to_string()))?;
    }
    if request
        .script
        .as_ref()
        .is_some_and(|path| path.as_os_str().is_empty())
    {
        return Err(PlanError::new(
            "script",
            "\"\"",
            "is empty (expected a file)",
        ));
    }
    Ok(())
}

/// What a request file says cannot be set by options as well.
fn check_request_file(
    file: &RequestFile,
    request: &RequestSpec,
    load: &Load,
) -> Result<(), PlanError> {
    let refuse = |problem: String| {
        Err(PlanError::new(
            "request-file",
            format!("{:?}", file.path),
            problem,
        ))
    };
    let given = [
        ("-s", request.script.is_some()),
        ("--body", request.body.is_some()),
        ("-X", request.method.is_some()),
    ];
    if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        return refuse(format!("cannot be used together with {option}"));
    }
    if load.protocol.is_grpc() && file.log.is_some() {
        return refuse("has requests of HTTP, so it cannot be used with --grpc".to_owned());
    }
    if load.batch_latency {
        return refuse("its requests are timed one by one, so leave out -B".to_owned());
    }
    if file.path.as_os_str().is_empty() {
        refuse("is empty (expected a file)".to_owned())
    } else {
        Ok(())
    }
}

/// A log has the moments of its requests, and another file may have them.
fn check_replay(plan: &RunPlan) -> Result<(), PlanError> {
    let is_replay = plan.pacing.speed().is_some();
    let Some(file) = &plan.request.file else {
        let problem = "needs a log (--replay), or a request file with moments (key at)";
        return if is_replay {
            Err(PlanError::new("speed", "", problem))
        } else {
            Ok(())
        };
    };
    let (option, what) = match file.log {
        Some(_) => ("replay", "a replay has the order of the log"),
        None => (
            "request-file",
            "requests with moments (key at) have their order",
        ),
    };
    if is_replay && file.order.is_some() {
        let problem = format!("{what} (remove --order)");
        return Err(PlanError::new(option, file.path.display(), problem));
    }
    if is_replay && plan.load.pipeline > 1 {
        let problem = "a replay sends each request at its own moment";
        return Err(PlanError::new("pipeline", plan.load.pipeline, problem));
    }
    if file.log.is_some() && !is_replay {
        let problem = "a replay has the rate of the log (remove -R and --stages)";
        return Err(PlanError::new(option, file.path.display(), problem));
    }
    Ok(())
}

/// A unary gRPC call is a POST to `/service/method`.
fn check_call(request: &RequestSpec, target: &Target) -> Result<(), PlanError> {
    if let Some(method) = request.method.as_deref().filter(|method| *method != "POST") {
        let problem = "is not the method of a gRPC call, which is POST";
        return Err(PlanError::new("method", method, problem));
    }
    let is_call = |path: &str| {
        let parts = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        parts.is_some_and(|(service, method)| !service.is_empty() && !method.is_empty())
    };
    let names_methods = request.script.is_some() || request.file.is_some();
    if !names_methods && !is_call(&target.path) {
        let problem = "is not the path of a gRPC call (expected /package.Service/Method)";
        return Err(PlanError::new("grpc", &target.path, problem));
    }
    Ok(())
}

fn check_good(good: &GoodSpec, events: Option<&EventsSpec>) -> Result<(), PlanError> {
    let has_tokens = events.is_some_and(|events| events.format == EventsFormat::Llm);
    let mut limits = good.limits().iter();
    match limits.find(|limit| limit.time.is_of_tokens() && !has_tokens) {
        Some(limit) => {
            let problem = "is only known of a language model's tokens (--events llm)";
            Err(PlanError::new("good", limit.time.name(), problem))
        }
        None => Ok(()),
    }
}

fn check_events(events: &EventsSpec, load: &Load) -> Result<(), PlanError> {
    match (load.protocol.is_grpc(), events.format) {
        (true, EventsFormat::Grpc) => {}
        (true, _) => {
            let problem = "is not what a gRPC call has (expected grpc: its messages)";
            return Err(PlanError::new("events", events.format.name(), problem));
        }
        (false, EventsFormat::Grpc) => {
            let problem = "counts the messages of gRPC calls (add --grpc)";
            return Err(PlanError::new("events", events.format.name(), problem));
        }
        _ => {}
    }
    if events.format == EventsFormat::Grpc
        && let Some(marker) = events
            .end_marker
            .as_ref()
            .filter(|marker| !marker.is_empty())
    {
        let problem = "is not for --events grpc: a call ends with its status";
        return Err(PlanError::new("events-end", format!("{marker:?}"), problem));
    }
    if load.pipeline > 1 {
        let problem = "a pipelined response waits for those before it (remove --pipeline)";
        return Err(PlanError::new("events", events.format.name(), problem));
    }
    if events.dialect.is_some() && events.format != EventsFormat::Llm {
        let problem = "is for --events llm";
        let name = events.dialect.map_or("", Dialect::name);
        return Err(PlanError::new("events-dialect", name, problem));
    }
    let marker = events.end_marker();
    if events.format != EventsFormat::Chunks && marker.contains(['\r', '\n']) {
        let problem = "must be one line";
        return Err(PlanError::new("events-end", format!("{marker:?}"), problem));
    }
    Ok(())
}

fn check_alpn(plan: &RunPlan) -> Result<(), PlanError> {
    let offered = &plan.tls.alpn;
    if offered.is_empty() {
        return Ok(());
    }
    let names = Alpn::list(offered);
    if plan.target.scheme == Scheme::Http {
        let problem = "is for https:// URLs; on http:// URLs use --http2 or leave it out";
        return Err(PlanError::new("alpn", names, problem));
    }
    let needed = plan.load.protocol.alpn();
    if !offered.contains(&needed) {
        let problem = format!("lacks {}, which the run needs", needed.name());
        return Err(PlanError::new("alpn", names, problem));
    }
    Ok(())
}

/// QUIC is always encrypted, and has neither Unix sockets nor proxies for TCP.
fn check_http3(plan: &RunPlan) -> Result<(), PlanError> {
    let refuse = |problem: &str| Err(PlanError::new("http3", "", problem));
    if plan.target.scheme == Scheme::Http {
        return refuse("is for https:// URLs");
    }
    if plan.target.unix_socket.is_some() {
        return refuse("cannot be used with a Unix socket");
    }
    if plan.proxy.is_some() {
        return refuse("cannot be used with a proxy, which forwards connections of TCP");
    }
    if plan.telemetry.is_some() {
        return refuse("has no TCP sockets to sample (remove --sockets)");
    }
    Ok(())
}

fn check_early_data(plan: &RunPlan) -> Result<(), PlanError> {
    let refuse = |problem: &str| Err(PlanError::new("early-data", "", problem));
    if !plan.load.protocol.is_http3() {
        return refuse("is for --http3; over TCP it is not supported");
    }
    if plan.tls.full_handshakes {
        return refuse("needs resumed sessions (remove --tls-resume off)");
    }
    let RequestSpec {
        method,
        file,
        script,
        ..
    } = &plan.request;
    // The methods of a file or a script are not known yet.
    if file.is_none() && script.is_none() {
        let method = method.as_deref();
        let method = method.unwrap_or_else(|| plan.default_method());
        if !may_be_early_data(method.as_bytes()) {
            return refuse("is for the methods GET, HEAD and OPTIONS, which change nothing");
        }
    }
    Ok(())
}

fn check_tls(tls: &TlsSpec) -> Result<(), PlanError> {
    match (&tls.cert, &tls.key) {
        (Some(cert), None) => Err(PlanError::new(
            "cert",
            format!("{cert:?}"),
            "needs the private key (--key)",
        )),
        (None, Some(key)) => Err(PlanError::new(
            "key",
            format!("{key:?}"),
            "needs the certificate (--cert)",
        )),
        _ => Ok(()),
    }
}

fn check_proxy(plan: &RunPlan) -> Result<(), PlanError> {
    let Some(proxy) = &plan.proxy else {
        return Ok(());
    };
    if let Some((setting, problem)) = proxy.fault() {
        return Err(PlanError::new(setting, proxy.url(), problem));
    }
    if plan.target.unix_socket.is_some() {
        let problem = "a Unix socket is on this machine and has no proxy (--unix-socket)";
        return Err(PlanError::new("proxy", proxy.url(), problem));
    }
    Ok(())
}

fn check_addresses(plan: &RunPlan) -> Result<(), PlanError> {
    let AddressSpec {
        dns,
        resolve,
        connect_to,
        resolve_every,
    } = &plan.addresses;
    let refuse = |option, rule: &String, error: RuleError| {
        Err(PlanError::new(
            option,
            format!("{rule:?}"),
            error.to_string(),
        ))
    };
    for rule in resolve {
        if let Err(error) = ResolveRule::parse(rule) {
            return refuse("resolve", rule, error);
        }
    }
    for rule in connect_to {
        if let Err(error) = ConnectRule::parse(rule) {
            return refuse("connect-to", rule, error);
        }
    }
    if let Some(socket) = &plan.target.unix_socket
        && !plan.addresses.is_default()
    {
        let problem = "has no addresses (remove --dns, --resolve and the like)";
        return Err(PlanError::new("unix-socket", socket.display(), problem));
    }
    if let (Some(_), Some(rule)) = (&plan.proxy, connect_to.first()) {
        let problem = "connections go to the proxy (remove -x, or give another one)";
        return Err(PlanError::new("connect-to", rule, problem));
    }
    let is_changing = *dns == DnsUse::All || resolve_every.is_some();
    if plan.request.script.is_some() && is_changing {
        let problem = "a script chooses the addresses itself (wrk.lookup, thread.addr)";
        let option = if *dns == DnsUse::All {
            "dns"
        } else {
            "resolve-every"
        };
        return Err(PlanError::new(option, "with -s", problem));
    }
    match resolve_every {
        Some(every) if *every < MIN_RESOLVE_INTERVAL => {
            let problem = format!("must be at least {MIN_RESOLVE_INTERVAL:?}");
            Err(PlanError::new(
                "resolve-every",
                format!("{every:?}"),
                problem,
            ))
        }
        _ => Ok(()),
    }
}

fn check_tracing(tracing: &TracingSpec, request: &RequestSpec) -> Result<(), PlanError> {
    let is_own = |(name, _): &(String, String)| name.eq_ignore_ascii_case("traceparent");
    if let Some(one_in) = tracing.traceparent_one_in
        && request.headers.iter().any(is_own)
    {
        let problem = "a request has one traceparent header, and one is given with -H";
        return Err(PlanError::new(
            "traceparent",
            format!("1/{one_in}"),
            problem,
        ));
    }
    let Some(url) = &tracing.url else {
        return Ok(());
    };
    if !is_web_url(url) || !url.contains(TRACE_ID) {
        let problem = format!(
            "must be an http:// or https:// URL with {TRACE_ID} in place of the number of a trace"
        );
        return Err(PlanError::new("trace-url", url, problem));
    }
    Ok(())
}

fn check_profile(server: &str) -> Result<(), PlanError> {
    let checked = ProfiledServer::of(server).map(drop);
    checked.map_err(|problem| PlanError::new("profile", server, problem))
}

fn check_scrape(urls: &[String]) -> Result<(), PlanError> {
    for (at, url) in urls.iter().enumerate() {
        let problem = match Target::parse(url) {
            Err(error) => error.to_string(),
            Ok(_) if urls[..at].contains(url) => "given twice".to_owned(),
            Ok(_) if at >= SCRAPED_MAX => format!("more than {SCRAPED_MAX} pages"),
            Ok(_) => continue,
        };
        return Err(PlanError::new("scrape", hide_secrets(url), problem));
    }
    Ok(())
}

fn check_telemetry(telemetry: &TelemetrySpec) -> Result<(), PlanError> {
    let interval = telemetry.interval;
    if interval < MIN_SAMPLE_INTERVAL {
        let problem = format!("must be at least {MIN_SAMPLE_INTERVAL:?}");
        return Err(PlanError::new("interval", format!("{interval:?}"), problem));
    }
    if telemetry.sockets.is_none() && !telemetry.counters {
        let problem = "needs something to watch: sockets, or counters";
        return Err(PlanError::new("interval", format!("{interval:?}"), problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::{Body, Protocol, ProxySpec, SourceRange};

    fn plan() -> RunPlan {
        let target = Target::parse("https://h:1/p").unwrap();
        RunPlan {
            stop: Stop {
                duration: Some(Duration::from_millis(1500)),
                requests: None,
            },
            ..RunPlan::new(target)
        }
    }

    fn constant(rate_per_sec: f64) -> Pacing {
        Pacing::Constant {
            rate_per_sec,
            arrivals: Arrivals::Poisson,
            seed: u64::MAX,
        }
    }

    fn gamma(shape: f64) -> Pacing {
        Pacing::Constant {
            rate_per_sec: 10.0,
            arrivals: Arrivals::Gamma { shape },
            seed: 1,
        }
    }

    /// Stages of a second each.
    fn stages(rates: &[(f64, f64)]) -> Pacing {
        let stage = |&(from_per_sec, to_per_sec): &(f64, f64)| Stage {
            from_per_sec,
            to_per_sec,
            duration: Duration::from_secs(1),
        };
        Pacing::Stages {
            stages: rates.iter().map(stage).collect(),
            arrivals: Arrivals::Even,
            seed: 0,
        }
    }

    fn watching(sockets: Option<&str>, interval: Duration, counters: bool) -> TelemetrySpec {
        TelemetrySpec {
            sockets: sockets.map(str::to_owned),
            interval,
            counters,
        }
    }

    fn with_header(proxy: &str, name: &str) -> Option<ProxySpec> {
        let mut proxy = ProxySpec::parse(proxy).ok()?;
        proxy.headers = vec![(name.to_owned(), "b".to_owned())];
        Some(proxy)
    }

    fn refused(change: impl FnOnce(&mut RunPlan)) -> String {
        let mut plan = plan();
        change(&mut plan);
        plan.check().expect_err("the plan was accepted").to_string()
    }

    fn accepted(change: impl FnOnce(&mut RunPlan)) {
        let mut plan = plan();
        change(&mut plan);
        assert_eq!(plan.check(), Ok(()));
    }

    #[test]
    fn pages_of_metrics_are_urls_of_different_hosts_or_paths() {
        let scraping = |urls: &[&str]| {
            let urls: Vec<String> = urls.iter().map(|&url| url.to_owned()).collect();
            move |plan: &mut RunPlan| plan.scrape = urls
        };
        accepted(scraping(&["http://h/metrics", "https://h:1/metrics?a=b"]));
        for (urls, expected) in [
            (&["h/metrics"][..], "scrape h/metrics: invalid URL"),
            (&["http://h/", "http://h/"], "scrape http://h/: given twice"),
        ] {
            let error = refused(scraping(urls));
            assert!(error.starts_with(expected), "{error}");
        }
        let many: Vec<String> = (0..17).map(|page| format!("http://h/{page}")).collect();
        let error = refused(|plan| plan.scrape = many);
        assert_eq!(error, "scrape http://h/16: more than 16 pages");
    }

    #[test]
    fn a_warm_up_that_settles_needs_requests_before_the_window_and_time_for_its_rule() {
        let auto = |plan: &mut RunPlan| {
            plan.warmup_auto = true;
            plan.warmup = MIN_WARMUP_LIMIT;
        };
        accepted(auto);
        accepted(|plan| {
            auto(plan);
            (plan.stop.duration, plan.stop.requests) = (None, Some(1_000));
        });
        assert_eq!(
            refused(|plan| {
                auto(plan);
                plan.warmup = Duration::from_secs(5);
            }),
            "warmup-limit 5s: must be at least 6s"
        );
        let mut replay = plan();
        auto(&mut replay);
        replay.pacing = Pacing::Recorded { speed: 1.0 };
        assert_eq!(
            check_warmup(&replay)
                .expect_err("it was accepted")
                .to_string(),
            "warmup auto: a replay sends nothing before its first request (use a time)"
        );
    }

    #[test]
    fn traces_have_one_header_and_a_link_of_the_web() {
        let traced = |plan: &mut RunPlan| plan.tracing.traceparent_one_in = Some(100);
        let with_url = |url: &str| {
            let url = url.to_owned();
            move |plan: &mut RunPlan| {
                traced(plan);
                plan.tracing.url = Some(url);
            }
        };
        accepted(traced);
        accepted(with_url("http://jaeger:16686/trace/{id}"));
        assert_eq!(
            refused(|plan| {
                traced(plan);
                plan.request
                    .headers
                    .push(("Traceparent".into(), "00-1".into()));
            }),
            "traceparent 1/100: a request has one traceparent header, and one is given with -H"
        );
        for url in [
            "http://jaeger/",
            "javascript:{id}",
            "http://a b/{id}",
            "{id}",
        ] {
            assert_eq!(
                refused(with_url(url)),
                format!(
                    "trace-url {url}: must be an http:// or https:// URL with {{id}} in place of \
                     the number of a trace"
                )
            );
        }
        let unchecked = TracingSpec {
            url: Some("javascript:{id}".into()),
            ..TracingSpec::default()
        };
        assert_eq!(unchecked.link("1"), None);
    }

    #[test]
    fn a_share_of_traces_is_one_in_a_number() {
        for (text, one_in) in [("1/100", 100), ("1/1", 1), ("1", 1)] {
            assert_eq!(TracingSpec::parse_one_in(text), Ok(one_in), "{text}");
        }
        for text in [
            "",
            "0",
            "2",
            "1/0",
            "2/3",
            "1/",
            "1/-1",
            "1/4294967296",
            "10%",
            "1/2/3",
        ] {
            assert!(TracingSpec::parse_one_in(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_plain_plan_is_accepted() {
        accepted(|_| ());
        accepted(|plan| plan.timeout = Duration::ZERO);
        accepted(|plan| plan.target.unix_socket = Some("/run/s".into()));
        accepted(|plan| {
            plan.stop = Stop {
                duration: None,
                requests: Some(1),
            }
        });
        accepted(|plan| (plan.load.threads, plan.load.connections) = (4, 4));
        accepted(|plan| plan.request.method = Some("M-SEARCH".into()));
        accepted(|plan| (plan.tls.cert, plan.tls.key) = (Some("c".into()), Some("k".into())));
        accepted(|plan| plan.target.unix_socket = Some("x".repeat(107).into()));
        accepted(|plan| (plan.load.pipeline, plan.load.requests_per_connection) = (8, Some(8)));
        accepted(|plan| plan.load.source = Some(SourceRange::parse("127.0.0.4/30").unwrap()));
        accepted(|plan| plan.load.batch_latency = true);
        accepted(|plan| plan.proxy = ProxySpec::parse("socks5h://u:p@h:1").ok());
        accepted(|plan| plan.telemetry = Some(watching(Some(""), MIN_SAMPLE_INTERVAL, false)));
        accepted(|plan| plan.telemetry = Some(watching(None, Duration::MAX, true)));
        accepted(|plan| plan.pacing = constant(MIN_RATE_PER_SEC));
        accepted(|plan| plan.pacing = constant(MAX_RATE_PER_SEC));
        accepted(|plan| plan.pacing = stages(&[(0.0, 5.0), (5.0, 5.0), (0.0, 0.0)]));
    }

    #[test]
    fn each_bad_setting_is_named_with_its_value() {
        let said = [
            (
                refused(|plan| {
                    plan.telemetry = Some(watching(Some(""), Duration::from_millis(9), true));
                }),
                "interval 9ms: must be at least 10ms",
            ),
            (
                refused(|plan| {
                    plan.telemetry = Some(watching(None, Duration::from_secs(1), false));
                }),
                "interval 1s: needs something to watch",
            ),
            (
                refused(|plan| {
                    plan.proxy = ProxySpec::parse("u:p@h").ok();
                    plan.target.unix_socket = Some("/run/s".into());
                }),
                "proxy http://h:1080: a Unix socket is on this machine",
            ),
            (
                refused(|plan| {
                    let proxy = ProxySpec::parse("socks5h://h");
                    plan.proxy = proxy.ok().map(|proxy| ProxySpec {
                        tunnel: true,
                        ..proxy
                    });
                }),
                "proxytunnel socks5h://h:1080: is for HTTP proxies",
            ),
            (
                refused(|plan| {
                    let proxy = ProxySpec::parse("http://h");
                    plan.proxy = proxy.ok().map(|proxy| ProxySpec {
                        verify: true,
                        ..proxy
                    });
                }),
                "proxy-verify http://h:1080: is for https:// proxies",
            ),
            (
                refused(|plan| plan.proxy = with_header("socks5://h", "A")),
                "proxy-header socks5://h:1080: is for HTTP proxies",
            ),
            (
                refused(|plan| plan.proxy = with_header("h", "A B")),
                "proxy-header http://h:1080: \"A B\" is not a header name",
            ),
            (
                refused(|plan| plan.proxy = with_header("h", "host")),
                "proxy-header http://h:1080: host is made from the request",
            ),
            (
                refused(|plan| {
                    let user = "u".repeat(256);
                    plan.proxy = ProxySpec::parse(&format!("socks5://{user}:p@h")).ok();
                }),
                "proxy-user socks5://h:1080: user and password of SOCKS5 have at most 255",
            ),
            (
                refused(|plan| plan.load.threads = 0),
                "threads 0: must be from 1 to 4096",
            ),
            (
                refused(|plan| plan.load.threads = 4097),
                "threads 4097: must be from 1 to 4096",
            ),
            (
                refused(|plan| (plan.load.threads, plan.load.connections) = (4, 2)),
                "connections 2: number of connections must be >= threads (4)",
            ),
            (
                refused(|plan| plan.load.connections = u32::MAX),
                "connections 4294967295: must be",
            ),
            (
                refused(|plan| plan.load.pipeline = 0),
                "pipeline 0: must be",
            ),
            (
                refused(|plan| plan.load.pipeline = 65_537),
                "pipeline 65537: must be",
            ),
            (
                refused(|plan| (plan.load.pipeline, plan.load.keepalive) = (2, false)),
                "pipeline 2: must not exceed the requests per connection",
            ),
            (
                refused(|plan| {
                    (plan.load.pipeline, plan.load.requests_per_connection) = (9, Some(8));
                }),
                "pipeline 9: must not exceed",
            ),
            (
                refused(|plan| plan.load.requests_per_connection = Some(0)),
                "requests-per-connection 0: must be at least 1",
            ),
            (
                refused(|plan| {
                    plan.target.unix_socket = Some("/run/s".into());
                    plan.load.source = Some(SourceRange::parse("10.0.0.9/24").unwrap());
                }),
                "bind-ip 10.0.0.0/24: a connection to a Unix socket",
            ),
            (
                refused(|plan| plan.pacing = constant(0.0)),
                "rate 0: must be from 0.00000001 to 1000000000",
            ),
            (
                refused(|plan| plan.pacing = constant(-1.0)),
                "rate -1: must be from",
            ),
            (
                refused(|plan| plan.pacing = constant(f64::NAN)),
                "rate NaN: must be from",
            ),
            (
                refused(|plan| plan.pacing = constant(1e9 + 1.0)),
                "rate 1000000001: must be from",
            ),
            (
                refused(|plan| plan.pacing = stages(&[])),
                "stages 0: must be from 1 to 1000 stages",
            ),
            (
                refused(|plan| plan.pacing = stages(&[(1.0, 1.0); 1001])),
                "stages 1001: must be from 1 to 1000 stages",
            ),
            (
                refused(|plan| plan.pacing = stages(&[(1.0, f64::INFINITY)])),
                "stages inf: must be 0 or from",
            ),
            (
                refused(|plan| plan.pacing = stages(&[(1.0, 1.0), (-1.0, 1.0)])),
                "stages -1: must be 0 or from",
            ),
            (
                refused(|plan| plan.pacing = stages(&[(0.0, 0.0)])),
                "stages 0: no request would ever be due",
            ),
            (
                refused(|plan| {
                    let stage = Stage {
                        from_per_sec: 1.0,
                        to_per_sec: 1.0,
                        duration: Duration::ZERO,
                    };
                    plan.pacing = Pacing::Stages {
                        stages: vec![stage],
                        arrivals: Arrivals::Even,
                        seed: 0,
                    };
                }),
                "stages 0s: must be longer than 0",
            ),
            (
                refused(|plan| plan.pacing = gamma(f64::NAN)),
                "arrivals gamma:NaN: must have a shape from 0.01 to 1000",
            ),
            (
                refused(|plan| plan.pacing = gamma(0.0099)),
                "arrivals gamma:0.0099: must have a shape from 0.01 to 1000",
            ),
            (
                refused(|plan| plan.stop.duration = Some(Duration::ZERO)),
                "duration 0: must be longer than 0",
            ),
            (
                refused(|plan| plan.stop.duration = None),
                "duration none: a run without",
            ),
            (
                refused(|plan| plan.stop.requests = Some(0)),
                "requests 0: must be at least 1",
            ),
            (
                refused(|plan| plan.request.method = Some("GET /".into())),
                "method \"GET /\": is not a method",
            ),
            (
                refused(|plan| plan.request.method = Some(String::new())),
                "method \"\": is not",
            ),
            (
                refused(|plan| plan.request.headers = vec![("a b".into(), "c".into())]),
                "header \"a b\": ",
            ),
            (
                refused(|plan| plan.request.headers = vec![("a".into(), "c\nd".into())]),
                "contains a control character",
            ),
            (
                refused(|plan| plan.request.script = Some(PathBuf::new())),
                "script \"\": is empty",
            ),
            (
                refused(|plan| plan.tls.cert = Some("c".into())),
                "cert \"c\": needs the private",
            ),
            (
                refused(|plan| plan.tls.key = Some("k".into())),
                "key \"k\": needs the certificate",
            ),
            (
                refused(|plan| plan.target.unix_socket = Some("x".repeat(108).into())),
                "is longer than a socket's path can be (107 bytes)",
            ),
            (
                refused(|plan| plan.target.unix_socket = Some("".into())),
                "unix-socket \"\": is",
            ),
            (
                refused(|plan| plan.target.unix_socket = Some("a\0".into())),
                "contains NUL",
            ),
            (
                refused(|plan| plan.target.path = "p".into()),
                "path \"p\": must start with /",
            ),
            (
                refused(|plan| plan.target.path = "/\r\nX: y".into()),
                "no control character",
            ),
            (
                refused(|plan| plan.target.host = String::new()),
                "host \"\": must not be empty",
            ),
            (
                refused(|plan| plan.target.host_header = "h\n".into()),
                "host \"h\": must not",
            ),
        ];
        for (message, expected) in said {
            assert!(message.contains(expected), "{message:?} lacks {expected:?}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }

    #[test]
    fn a_grpc_call_is_a_post_to_the_path_of_a_method() {
        let call = |path: &str, plan: &mut RunPlan| {
            plan.load.protocol = Protocol::Grpc;
            plan.target.path = path.to_owned();
        };
        accepted(|plan| call("/a.B/C", plan));
        accepted(|plan| {
            call("/a.B/C", plan);
            (plan.request.method, plan.load.streams) = (Some("POST".into()), 100);
        });
        accepted(|plan| {
            call("/", plan);
            plan.request.script = Some("a.lua".into());
        });
        for path in ["/", "/a.B", "/a.B/", "//C"] {
            let said = refused(|plan| call(path, plan));
            assert!(said.contains("expected /package.Service/Method"), "{said}");
        }
        let said = refused(|plan| {
            call("/a.B/C", plan);
            plan.request.method = Some("PUT".into());
        });
        assert_eq!(
            said,
            "method PUT: is not the method of a gRPC call, which is POST"
        );
        let said = refused(|plan| {
            call("/a.B/C", plan);
            plan.load.pipeline = 2;
        });
        assert!(said.contains("with HTTP/2 use --streams"), "{said}");
    }

    #[test]
    fn the_offered_protocols_include_the_one_that_is_needed() {
        let offering = |protocol, alpn: &[Alpn], plan: &mut RunPlan| {
            plan.target.path = "/a.B/C".to_owned();
            (plan.load.protocol, plan.tls.alpn) = (protocol, alpn.to_vec());
        };
        let both = [Alpn::Http2, Alpn::Http1];
        for protocol in [Protocol::Http1, Protocol::Http2, Protocol::Grpc] {
            accepted(|plan| offering(protocol, &both, plan));
            accepted(|plan| offering(protocol, &[protocol.alpn()], plan));
        }
        // The server may choose HTTP/2.
        accepted(|plan| {
            offering(Protocol::Http1, &both, plan);
            plan.load.streams = 8;
        });
        assert_eq!(
            refused(|plan| offering(Protocol::Http2, &[Alpn::Http1], plan)),
            "alpn http/1.1: lacks h2, which the run needs"
        );
        let said = refused(|plan| {
            plan.target = Target::parse("http://h/").unwrap();
            offering(Protocol::Http2, &both, plan);
        });
        assert!(said.contains("is for https:// URLs"), "{said}");
    }

    #[test]
    fn a_saved_plan_has_units_in_its_names_and_comes_back_equal() {
        let mut plan = plan();
        plan.request.body = Some(Body::Inline(b"{\"a\":1}".to_vec()));
        plan.request.headers = vec![("A".into(), "b".into())];
        plan.tls.cacert = Some("/etc/ca.pem".into());
        let saved = serde_json::to_value(&plan).unwrap();
        assert_eq!(saved["timeout_ns"], 2_000_000_000_u64);
        assert_eq!(saved["warmup_ns"], 0);
        assert_eq!(saved["stop"]["duration_ns"], 1_500_000_000_u64);
        assert_eq!(saved["stop"]["requests"], serde_json::Value::Null);
        assert_eq!(saved["pacing"]["kind"], "closed");
        assert_eq!(saved["backend"], "auto");
        assert_eq!(saved["target"]["scheme"], "https");
        assert_eq!(saved["request"]["body"]["text"], "{\"a\":1}");
        assert_eq!(serde_json::from_value::<RunPlan>(saved).unwrap(), plan);
    }

    #[test]
    fn a_saved_rate_source_and_schedule_come_back_equal() {
        let mut plan = plan();
        plan.load.source = Some(SourceRange::parse("fd00::7/64").unwrap());
        plan.load.batch_latency = true;
        plan.pacing = constant(0.1);
        let saved = serde_json::to_value(&plan).unwrap();
        assert_eq!(saved["load"]["source"], "fd00::/64");
        assert_eq!(saved["pacing"]["kind"], "constant");
        assert_eq!(saved["pacing"]["rate_per_sec"], 0.1);
        assert_eq!(saved["pacing"]["arrivals"], "poisson");
        assert_eq!(saved["pacing"]["seed"], u64::MAX);
        assert_eq!(serde_json::from_value::<RunPlan>(saved).unwrap(), plan);

        let (Pacing::Constant { arrivals, .. } | Pacing::Stages { arrivals, .. }) =
            &mut plan.pacing
        else {
            panic!("a rate");
        };
        *arrivals = Arrivals::Gamma { shape: 0.1 };
        let saved = serde_json::to_value(&plan).unwrap();
        let gamma = serde_json::json!({"gamma": {"shape": 0.1}});
        assert_eq!(saved["pacing"]["arrivals"], gamma);
        assert_eq!(serde_json::from_value::<RunPlan>(saved).unwrap(), plan);

        plan.pacing = stages(&[(0.0, 1e9), (1.0 / 3.0, 2.0)]);
        let saved = serde_json::to_value(&plan).unwrap();
        assert_eq!(saved["pacing"]["kind"], "stages");
        assert_eq!(saved["pacing"]["stages"][0]["duration_ns"], 1_000_000_000);
        assert_eq!(serde_json::from_value::<RunPlan>(saved).unwrap(), plan);
    }

    #[test]
    fn a_profiled_server_is_a_name() {
        for server in ["7", "nginx", "nginx.service", "a server", "host=web1:nginx"] {
            accepted(|plan| plan.profile = Some(server.to_owned()));
        }
        for server in ["", " ", "/usr/sbin/nginx", "a\0b", "host=web1"] {
            let message = refused(|plan| plan.profile = Some(server.to_owned()));
            assert!(message.starts_with("profile"), "{message:?}");
        }
    }

    #[test]
    fn saved_telemetry_comes_back_equal_and_a_plan_without_it_does_not_mention_it() {
        let mut plan = plan();
        let saved = serde_json::to_value(&plan).unwrap();
        assert!(saved.get("telemetry").is_none());
        assert_eq!(serde_json::from_value::<RunPlan>(saved).unwrap(), plan);
        let interval = Duration::from_millis(250);
        plan.telemetry = Some(watching(Some("sport = :80"), interval, true));
        let saved = serde_json::to_value(&plan).unwrap();
        assert_eq!(saved["telemetry"]["sockets"], "sport = :80");
        assert_eq!(saved["telemetry"]["interval_ns"], 250_000_000);
        assert_eq!(saved["telemetry"]["counters"], true);
        assert_eq!(serde_json::from_value::<RunPlan>(saved).unwrap(), plan);
    }

    #[test]
    fn a_plan_saved_before_there_were_rates_is_read() {
        let plan = plan();
        let mut saved = serde_json::to_value(&plan).unwrap();
        let load = saved["load"].as_object_mut().unwrap();
        assert!(load.get("source").is_none(), "what is not set is not saved");
        assert!(load.remove("batch_latency").is_some());
        assert_eq!(serde_json::from_value::<RunPlan>(saved).unwrap(), plan);
    }

    #[test]
    fn bodies_that_are_not_text_and_names_that_are_not_utf8_do_not_break_the_saved_plan() {
        let mut plan = plan();
        plan.request.body = Some(Body::Inline(vec![0, 0xff, 0x10]));
        let saved = serde_json::to_value(&plan).unwrap();
        assert_eq!(saved["request"]["body"]["hex"], "00ff10");
        assert_eq!(
            serde_json::from_value::<RunPlan>(saved.clone()).unwrap(),
            plan
        );

        for broken in ["0", "zz", "+1", "\u{fc}\u{fc}"] {
            let mut saved = saved.clone();
            saved["request"]["body"]["hex"] = broken.into();
            let error = serde_json::from_value::<RunPlan>(saved)
                .unwrap_err()
                .to_string();
            assert!(error.contains("hexadecimal"), "{error}");
        }

        plan.request.body = Some(Body::File("data.json".into()));
        plan.request.script = Some(PathBuf::from(std::ffi::OsStr::from_bytes(b"a\xff.lua")));
        let saved = serde_json::to_value(&plan).unwrap();
        assert_eq!(saved["request"]["body"]["file"], "data.json");
        assert_eq!(saved["request"]["script"], "a\u{fffd}.lua");
    }

    #[test]
    fn a_duration_beyond_64_bits_of_nanoseconds_is_saved_as_the_largest() {
        let mut plan = plan();
        plan.warmup = Duration::MAX;
        assert_eq!(serde_json::to_value(&plan).unwrap()["warmup_ns"], u64::MAX);
    }
}
