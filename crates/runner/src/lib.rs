//! One run from end to end: resolver, script, TLS, engine, environment, and resource usage.
//!
//! [`prepare`] does everything that can fail before the first byte of load. [`Prepared::run`]
//! generates the load; an agent of a fleet calls [`Prepared::arm`] and, once the start has been
//! agreed upon, [`ArmedRun::start_at`]. [`Finished`] contains the result and can call the script's
//! `done`. The crate prints nothing.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod environment;
mod lookups;
mod messages;
mod once;
mod prepared_run;
mod prompt_tokens;
mod refusals;
mod request_file;
mod run_profile;
mod run_scrape;
mod run_telemetry;
mod source_addresses;
mod sources;
mod usage_probes;

pub use environment::WATCHED_SYSCTLS;
pub use once::once;

pub use client::{ClientError, LookupError, Permit, PermitCheck, TargetError};
pub use engine::{Observer, RecordSender, SlowSpans, inherited, monotonic_ns};
pub use messages::{encode_message, schema};
pub use prepared_run::PreparedRun;
pub use prompt_tokens::prompt_tokens;
pub use refusals::advice as refusal_advice;
pub use request_file::{pace_of_request_file, target_of_request_file};
pub use requests::FilePace;

use crate::lookups::{LookupCounts, Lookups, RunningLookups};
use crate::run_profile::RunProfile;
use crate::run_telemetry::RunTelemetry;
use client::{negotiate, proxy_client, scheme_advice, tls_client};
use engine::{AddressBook, Armed, ChosenBackend, RunInputs, RunOutcome, RunTimes};
use judging::sentences::finding;
use plan::secrets::{hide_in_url, hide_in_words};
use plan::{FleetSchedule, Pacing, RunPlan, Scheme, TelemetrySpec};
use results::parts::scrape::ScrapeRecording;
use results::parts::server::ServerRecording;
use results::{
    Backend, Environment, ErrorKind, Finding, Generator, LocalServer, MachineUsage, RunResult,
    Telemetry, Warning, Window,
};
use script::Script;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use telemetry::scrape::Scraper;
use telemetry::{MachineMeter, Profiler, Sampler, ServerAddress, ServerCpuMeter, ServerMeter};

/// Facts about the invocation that only the entry point of the program knows.
#[derive(Debug, Clone, Default)]
pub struct Invocation {
    /// The command line, starting with the program's name.
    pub command_line: Vec<String>,
    /// The wall clock in milliseconds since 1970 (UTC). [`prepare`] is called right after reading
    /// it and continues on the monotonic clock, so that later jumps of the wall clock have no
    /// effect.
    pub unix_ms: u64,
    /// The same time as RFC 3339 text.
    pub started_at: Option<String>,
    /// Do not remove passwords, tokens and cookies from output and saved results.
    pub keeps_secrets: bool,
    /// On an agent of a fleet: the schedule of all agents. The plan is the agent's share.
    pub fleet: Option<FleetSchedule>,
    /// On an agent of a fleet: the folder of the Lua modules that came with the plan.
    pub modules: Option<PathBuf>,
    /// What requests may go to.
    pub permit: Permit,
    /// Where `{{env:NAME}}` in a request file gets its values.
    pub variables: Variables,
}

/// The environment variables of the program. None by default.
#[derive(Debug, Clone, Default)]
pub struct Variables(Option<fn(&str) -> Option<String>>);

impl Variables {
    /// The variables that this function gives.
    #[must_use]
    pub fn by(get: fn(&str) -> Option<String>) -> Self {
        Self(Some(get))
    }

    fn get(&self, name: &str) -> Option<String> {
        self.0.and_then(|get| get(name))
    }
}

/// Why a run could not be prepared or carried out, on one line.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The target cannot be resolved or reached.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The script failed before the run.
    #[error("{0}")]
    Script(String),
    /// A file named by an option cannot be read.
    #[error("{option} {}: {error}", .path.display())]
    File {
        /// The option that names the file.
        option: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// Why the system cannot read it.
        error: std::io::Error,
    },
    /// The system cannot create a thread other than those of the engine.
    #[error(
        "cannot start the thread that {task}: {error} ({})",
        engine::TOO_MANY_THREADS
    )]
    Thread {
        /// What it is for.
        task: &'static str,
        /// Why the system could not create the thread.
        error: std::io::Error,
    },
    /// The request file cannot be used.
    #[error(transparent)]
    Requests(#[from] requests::FileError),
    /// A fleet cannot replay a log, because agents do not get it, nor other requests at their
    /// moments.
    #[error("{0} is replayed by one machine (remove --fleet or --local)")]
    ReplayByFleet(&'static str),
    /// The plan of a sweep does not know that its file has conversations, which all agents need to.
    #[error(
        "--request-file: a sweep with users who have conversations is for one machine (remove \
         --fleet or --local, or give a rate)"
    )]
    UsersByFleet,
    /// Only events of a language model have what the model says.
    #[error("--request-file: conversations need --events llm (or use wrkbench llm)")]
    SilentConversations,
    /// The body is not what the protocol sends.
    #[error("{0}")]
    Body(String),
    /// TLS cannot be set up as the options ask.
    #[error("{0}")]
    Tls(String),
    /// Telemetry cannot be collected as the options ask.
    #[error("{0}")]
    Telemetry(String),
    /// The agreed start of the run has passed.
    #[error(
        "the start of the run was {} ms ago: the order to start came too late",
        .late_ns / 1_000_000
    )]
    StartPassed {
        /// Time since then, nanoseconds.
        late_ns: u64,
    },
    /// The engine could not start.
    #[error(transparent)]
    Engine(#[from] engine::EngineError),
}

impl From<ClientError> for RunnerError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Target(error) => Self::Target(error),
            ClientError::File {
                option,
                path,
                error,
            } => Self::File {
                option,
                path,
                error,
            },
            ClientError::Tls(problem) => Self::Tls(problem),
            ClientError::Request(error) => Self::Script(error.to_string()),
        }
    }
}

/// Receivers of data during a run. None by default.
#[derive(Default)]
pub struct RunObservers<'a> {
    /// Receives each sample of telemetry as a line of JSON (`docs/telemetry.md`), if the plan asks
    /// for sockets. Without it, only the summary is kept.
    pub samples: Option<Box<dyn Write + Send>>,
    /// Observes the progress of the run, about once a second.
    pub observer: Option<&'a mut dyn Observer>,
    /// Receives a record of each request. Not of a run by a fleet.
    pub records: Option<RecordSender>,
}

/// The same moment on two clocks.
#[derive(Debug, Clone, Copy)]
struct ClockReading {
    unix_ms: u64,
    monotonic_ns: u64,
}

impl ClockReading {
    /// The wall clock at a later time of the monotonic clock, if nobody sets it in between.
    fn unix_ms_at(self, monotonic_ns: u64) -> u64 {
        let since_ns = monotonic_ns.saturating_sub(self.monotonic_ns);
        self.unix_ms.saturating_add(since_ns / 1_000_000)
    }
}

/// What the result of a run has beside measurements.
struct Basis {
    plan: RunPlan,
    chosen: ChosenBackend,
    script: Option<Script>,
    environment: Environment,
    read_at: ClockReading,
    keeps_secrets: bool,
}

/// What measures a run beside its workers.
struct Meters {
    sampler: Option<Sampler>,
    profiler: Option<Profiler>,
    server: Option<ServerMeter>,
    server_cpu: Option<ServerCpuMeter>,
    scrapers: Vec<Scraper>,
}

/// A run that is ready to start.
pub struct Prepared {
    basis: Basis,
    meters: Meters,
    lookups: Option<Lookups>,
    inputs: RunInputs,
    notes: Vec<String>,
    request_names: Option<Vec<String>>,
    has_conversations: bool,
    draws_requests: bool,
}

/// Looks up, loads and creates everything that the run needs: addresses, script states, TLS
/// settings, limits.
///
/// # Errors
/// Everything that can be known to fail before the start.
pub fn prepare(mut plan: RunPlan, invocation: Invocation) -> Result<Prepared, RunnerError> {
    encode_message(&mut plan, &invocation)?;
    let read_at = ClockReading {
        unix_ms: invocation.unix_ms,
        monotonic_ns: monotonic_ns(),
    };
    let chosen = engine::choose_backend(plan.backend)?;
    let file_limit = engine::raise_open_file_limit();
    let mut tls = match plan.target.scheme {
        Scheme::Http => None,
        Scheme::Https => Some(tls_client(&plan)?),
    };
    let proxy = proxy_client(&plan, &invocation.permit)?;
    let mut meters = Meters::prepare(&plan, invocation.fleet.as_ref())?;
    let sources = sources::prepare(&plan, &invocation, read_at)?;
    if sources.has_conversations && plan.pacing == Pacing::Closed {
        plan.pacing = Pacing::Users;
    }
    let connections = u64::from(plan.load.connections) * sources.addresses.len() as u64;
    let file_note = file_limit.and_then(|limit| {
        let threads = u64::from(plan.load.threads);
        open_file_note(connections, threads, chosen.backend, limit, open_files())
    });
    let mut notes: Vec<String> = file_note.into_iter().collect();
    if let Some(client) = &mut tls {
        client.more_names = client::names(&sources.more_hosts)?;
    }
    if let Some(client) = tls.as_ref().filter(|_| plan.lets_server_choose())
        && let Some(first) = sources.addresses.first().and_then(|it| it.first())
    {
        let chosen = negotiate(&mut plan, client, proxy.as_ref(), first)?.name();
        notes.push(format!("the server chose {chosen} in the TLS handshake"));
    }
    notes.extend(sources.notes);
    notes.extend(sources::repeated_header_note(&plan));
    let lookups = Lookups::of(&plan, invocation.permit.clone());
    let environment = environment(&invocation);
    meters.server = ServerMeter::find(&server_addresses(&sources.addresses));
    if !invocation.keeps_secrets {
        // Not needed from here on.
        plan = plan.without_secrets();
    }
    Ok(Prepared {
        inputs: RunInputs {
            addresses: AddressBook::of_hosts(sources.addresses, lookups.is_some()),
            tls,
            proxy,
            usage_probes: usage_probes::of_workers(sources.workers.len()),
            sources: sources.workers,
            backend: chosen.backend,
            fleet: invocation.fleet,
            records: None,
        },
        basis: Basis {
            plan,
            chosen,
            script: sources.script,
            environment,
            read_at,
            keeps_secrets: invocation.keeps_secrets,
        },
        meters,
        lookups,
        notes,
        request_names: sources.request_names,
        has_conversations: sources.has_conversations,
        draws_requests: sources.draws_requests,
    })
}

fn server_addresses(hosts: &[Vec<engine::Address>]) -> Vec<ServerAddress> {
    let all = hosts.iter().flatten();
    all.map(|address| match address {
        engine::Address::Tcp(address) => ServerAddress::Tcp(*address),
        engine::Address::Unix(path) => ServerAddress::Unix(path.clone()),
    })
    .collect()
}

/// The environment of a run on this machine.
#[must_use]
pub fn environment(invocation: &Invocation) -> Environment {
    let command_line = if invocation.keeps_secrets {
        invocation.command_line.clone()
    } else {
        hide_in_words(&invocation.command_line)
    };
    environment::collect(command_line, invocation.started_at.clone())
}

impl PreparedRun for Prepared {
    fn plan(&self) -> &RunPlan {
        &self.basis.plan
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn draws_requests(&self) -> bool {
        self.draws_requests
    }

    fn request_names(&self) -> Option<&[String]> {
        self.request_names.as_deref()
    }

    fn has_conversations(&self) -> bool {
        self.has_conversations
    }

    fn backend(&self) -> String {
        let ChosenBackend { backend, reason } = &self.basis.chosen;
        format!("backend {}: {reason}", backend.name())
    }

    fn start(
        self: Box<Self>,
        interrupted: &AtomicBool,
        observers: RunObservers<'_>,
    ) -> Result<Finished, Box<dyn Error + Send + Sync>> {
        Ok(self.run(interrupted, observers)?)
    }
}

impl Prepared {
    /// Generates the load. Setting `interrupted` ends the run early; the result then covers the
    /// time until then.
    ///
    /// # Errors
    /// If the engine could not start. Errors of telemetry are part of the result.
    pub fn run(
        mut self,
        interrupted: &AtomicBool,
        mut observers: RunObservers<'_>,
    ) -> Result<Finished, RunnerError> {
        self.inputs.records = observers.records.take();
        Ok(self.arm()?.start(None, interrupted, observers))
    }

    /// Sets up the workers, which then wait for the start. Nothing is sent before. If the armed run
    /// is dropped, the workers end.
    ///
    /// # Errors
    /// If the engine could not start.
    pub fn arm(self) -> Result<ArmedRun, RunnerError> {
        let book = self.inputs.addresses.clone();
        let workers = engine::prepare(&self.basis.plan, self.inputs)?;
        Ok(ArmedRun {
            workers,
            basis: self.basis,
            meters: self.meters,
            lookups: self.lookups,
            book,
        })
    }
}

/// A run whose workers wait for the start.
pub struct ArmedRun {
    workers: Armed,
    basis: Basis,
    meters: Meters,
    lookups: Option<Lookups>,
    book: AddressBook,
}

/// [`ArmedRun::start_at`] prepares the measurement of the machine this long before the start.
const BEFORE_START_NS: u64 = 20_000_000;

/// How often it checks for an interrupt until then.
const START_POLL: Duration = Duration::from_millis(5);

impl ArmedRun {
    /// The earliest time at which all workers can start: CLOCK_MONOTONIC, nanoseconds.
    #[must_use]
    pub fn earliest_start_ns(&self) -> u64 {
        self.workers.earliest_start_ns()
    }

    /// Starts all workers at `start_ns` (CLOCK_MONOTONIC of this machine), and generates the load
    /// as [`Prepared::run`] does. An interrupt before the start ends the run before it begins.
    ///
    /// # Errors
    /// If that time has passed. Then nothing was sent.
    pub fn start_at(
        self,
        start_ns: u64,
        interrupted: &AtomicBool,
        observers: RunObservers<'_>,
    ) -> Result<Finished, RunnerError> {
        if let Some(late_ns) = monotonic_ns().checked_sub(start_ns) {
            return Err(RunnerError::StartPassed { late_ns });
        }
        while !interrupted.load(Ordering::Relaxed) {
            let left_ns = start_ns.saturating_sub(monotonic_ns());
            let left = Duration::from_nanos(left_ns.saturating_sub(BEFORE_START_NS));
            if left.is_zero() {
                break;
            }
            std::thread::park_timeout(left.min(START_POLL));
        }
        Ok(self.start(Some(start_ns), interrupted, observers))
    }

    /// Starts at this time, or else as soon as all workers can.
    fn start(
        self,
        start_ns: Option<u64>,
        interrupted: &AtomicBool,
        observers: RunObservers<'_>,
    ) -> Finished {
        let RunObservers {
            samples, observer, ..
        } = observers;
        let meters = self.meters.begin(samples);
        let start_ns = start_ns.unwrap_or_else(|| self.workers.earliest_start_ns());
        let times = self.workers.times(start_ns);
        meters.set_window(times);
        let lookups = self.lookups.and_then(|lookups| lookups.start(self.book));
        let mut window_moves = |times| meters.set_window(times);
        let outcome = (self.workers).start(start_ns, interrupted, observer, &mut window_moves);
        let lookup_counts = lookups.and_then(RunningLookups::end);
        let measured = meters.end(self.basis.plan.telemetry.as_ref());
        finished(self.basis, outcome, measured, lookup_counts)
    }
}

impl Meters {
    /// All but that of the server on this machine, which is found by its address.
    fn prepare(plan: &RunPlan, fleet: Option<&FleetSchedule>) -> Result<Self, RunnerError> {
        let sampler = run_telemetry::prepare(plan.telemetry.as_ref())?;
        // That of a fleet is the coordinator's.
        let profiled = plan.profile.as_deref().filter(|_| fleet.is_none());
        let scraped = fleet.map_or(plan.scrape.as_slice(), |_| &[]);
        Ok(Self {
            sampler,
            profiler: run_profile::prepare(profiled)?,
            server: None,
            server_cpu: plan.server.as_deref().map(server_cpu_meter).transpose()?,
            scrapers: run_scrape::prepare(scraped)?,
        })
    }

    fn begin(self, samples: Option<Box<dyn Write + Send>>) -> RunningMeters {
        let telemetry = run_telemetry::start(self.sampler, samples);
        let profile = run_profile::start(self.profiler);
        let machine = MachineMeter::begin();
        let mut server = self.server;
        if let Some(server) = &mut server {
            server.begin();
        }
        RunningMeters {
            telemetry,
            profile,
            machine,
            server,
            server_cpu: self.server_cpu,
            scrapers: self.scrapers,
        }
    }
}

/// Meters during a run.
struct RunningMeters {
    telemetry: RunTelemetry,
    profile: RunProfile,
    machine: MachineMeter,
    server: Option<ServerMeter>,
    server_cpu: Option<ServerCpuMeter>,
    scrapers: Vec<Scraper>,
}

/// What meters have measured.
struct Measured {
    machine: Option<MachineUsage>,
    server: Option<LocalServer>,
    telemetry: Option<Telemetry>,
    server_cpu: Option<ServerRecording>,
    scraped: Option<ScrapeRecording>,
    /// The profile ends when the slowest requests are known.
    profile: RunProfile,
}

impl RunningMeters {
    /// The times of the window are known, or have changed before it has begun.
    fn set_window(&self, times: RunTimes) {
        self.telemetry.begin(times);
        run_scrape::begin(&self.scrapers, times);
        if let Some(meter) = &self.server_cpu {
            meter.begin(telemetry::Window {
                begin_ns: times.measure_ns,
                end_ns: times.end_ns,
            });
        }
    }

    /// The run is over.
    fn end(self, telemetry: Option<&TelemetrySpec>) -> Measured {
        Measured {
            machine: self.machine.end(),
            server: self.server.map(|server| server.end()),
            telemetry: self.telemetry.finish(telemetry),
            server_cpu: self.server_cpu.and_then(ServerCpuMeter::finish),
            scraped: run_scrape::finish(self.scrapers),
            profile: self.profile,
        }
    }
}

/// The run with its result, from everything that was measured.
fn finished(
    basis: Basis,
    outcome: RunOutcome,
    measured: Measured,
    lookup_counts: Option<LookupCounts>,
) -> Finished {
    let times = outcome.times;
    let mut recording = outcome.recording;
    recording.parts.server = measured.server_cpu;
    recording.parts.scraped = measured.scraped;
    if let Some(location) = &mut recording.redirect_location
        && !basis.keeps_secrets
    {
        *location = hide_in_url(location);
    }
    let window = Window {
        started_unix_ms: basis.read_at.unix_ms_at(times.measure_ns),
        duration_ns: outcome.duration_ns,
        drained_ns: outcome.drained_ns,
        warmup_ns: times.measure_ns - times.start_ns,
        settling: outcome.settling,
        interrupted: outcome.interrupted,
        is_hopeless: false,
    };
    let end_ns = times.measure_ns.saturating_add(outcome.duration_ns);
    let slow_spans = outcome.slow_spans.unwrap_or_default();
    let breakdown = recording.parts.breakdown.as_ref();
    let slow_from_ns = breakdown.and_then(results::parts::breakdown::slowest_from_ns);
    let slow = slow_spans.clone().slowest(slow_from_ns.unwrap_or(u64::MAX));
    let result = RunResult {
        environment: basis.environment,
        backend: used_backend(basis.chosen, basis.plan.load.threads, &outcome.without_ring),
        recording,
        generator: Generator {
            workers: outcome.workers,
            lags: outcome.lags,
            machine: measured.machine,
            server: measured.server,
            ..Generator::default()
        },
        telemetry: measured.telemetry,
        profile: measured.profile.finish(&slow, (times.measure_ns, end_ns)),
        ..RunResult::new(basis.plan, window)
    };
    let first = outcome.first_responses;
    let is_denied = first.has_given_up || first.are_denied() && !outcome.interrupted;
    let denied = is_denied.then_some(first.denied);
    let gave_up = outcome.has_given_up.then_some(outcome.is_refused);
    Finished {
        result: judged(result, gave_up, outcome.stuck_workers),
        start_late_ns: outcome.start_late_ns,
        slow_spans,
        agent_notes: Vec::new(),
        script: basis.script,
        lookup_counts,
        failures: Failures {
            messages: outcome.failures,
            first_error_detail: outcome.first_error_detail,
            denied,
        },
        leaving: outcome.leaving,
    }
}

/// Finds the server of `--server`, and prepares to measure its CPU time.
fn server_cpu_meter(server: &str) -> Result<ServerCpuMeter, RunnerError> {
    let meter = ServerCpuMeter::start(server);
    meter.map_err(|error| RunnerError::Telemetry(format!("--server {server}: {error}")))
}

/// The result with its verdict and warnings, those of the engine last. If the run gave up,
/// `gave_up` says whether that was because it was refused.
fn judged(mut result: RunResult, gave_up: Option<bool>, stuck_workers: Vec<u32>) -> RunResult {
    judging::judge(&mut result);
    if let Some(is_refused) = gave_up {
        result.warnings.push(finding(Warning::GaveUp {
            sent: result.recording.counters.sent,
            wanted: result.plan.stop.requests.unwrap_or_default(),
            is_refused,
        }));
    }
    judging::add_stuck_scripts(&mut result, stuck_workers);
    result
}

/// The backend that was really used: with `auto`, a worker that cannot have a ring uses epoll.
fn used_backend(chosen: ChosenBackend, threads: u32, without_ring: &[String]) -> Backend {
    let (name, reason) = match without_ring.first() {
        None => (chosen.backend.name(), chosen.reason),
        Some(why) if without_ring.len() >= threads as usize => {
            ("epoll", format!("io_uring cannot be used: {why}"))
        }
        Some(why) => {
            let some = without_ring.len();
            let reason = format!(
                "{}; {some} of {threads} threads use epoll: {why}",
                chosen.reason
            );
            (chosen.backend.name(), reason)
        }
    };
    Backend {
        name: name.to_owned(),
        reason,
    }
}

/// A run that is over.
pub struct Finished {
    /// The result of the run.
    pub result: RunResult,
    /// The longest time from the start to the first turn of a worker, nanoseconds.
    pub start_late_ns: u64,
    /// If a server is profiled: when the slowest requests of this machine were in flight.
    pub slow_spans: SlowSpans,
    /// Notes about the agents of a fleet, one line each.
    pub agent_notes: Vec<String>,
    script: Option<Script>,
    failures: Failures,
    /// If the name was looked up again during the run.
    lookup_counts: Option<LookupCounts>,
    leaving: Vec<JoinHandle<()>>,
}

/// What went wrong in a run beyond the numbers of its result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// Why workers ended early, such as an error in the script.
    pub messages: Vec<String>,
    /// Details of the first connection error that had any, such as why a certificate was rejected.
    pub first_error_detail: Option<(ErrorKind, String)>,
    /// With [`RunPlan::stops_if_denied`]: the number of responses with 401, 403 or 404, if these
    /// were the first ones and no other one came.
    #[serde(default)]
    pub denied: Option<u32>,
}

impl Failures {
    /// Adds the failures of another machine.
    pub fn merge(&mut self, other: Self) {
        self.messages.extend(other.messages);
        let detail = other.first_error_detail;
        self.first_error_detail = self.first_error_detail.take().or(detail);
        self.denied = match (self.denied, other.denied) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
    }
}

/// The request file of a plan, for agents of a fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedRequests {
    /// A file with the same requests that names no other file and no environment variable.
    pub file: Vec<u8>,
    /// The names of the requests.
    pub names: Vec<String>,
    /// Whether requests depend on the seed of the plan.
    pub uses_seed: bool,
}

impl SharedRequests {
    /// Reads the file of the plan; `None` if it has none.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn load(plan: &RunPlan, invocation: &Invocation) -> Result<Option<Self>, RunnerError> {
        let Some(file) = &plan.request.file else {
            return Ok(None);
        };
        if plan.pacing.speed().is_some() {
            return Err(RunnerError::ReplayByFleet(match file.log {
                Some(_) => "--replay: a log",
                None => "--request-file: a file with moments (key at)",
            }));
        }
        let types = messages::types_of_file(plan, invocation)?;
        let (headers, types) = (&plan.request.headers, types.as_ref());
        let set = request_file::load(plan, file, headers, types, invocation)?.set;
        if set.has_conversations() && plan.pacing == Pacing::Closed {
            return Err(RunnerError::UsersByFleet);
        }
        Ok(Some(Self {
            file: request_file::self_contained(file, types, invocation)?,
            names: set.names().to_vec(),
            uses_seed: set.uses_seed(),
        }))
    }
}

/// The script of a run by a fleet, at the coordinator. Its `setup` and `init` run on the agents.
#[derive(Default)]
pub struct DoneScript(Option<Script>);

impl DoneScript {
    /// Loads the script, if the plan has one. Only its top level runs.
    ///
    /// # Errors
    /// If a file cannot be read, or the script fails.
    pub fn load(plan: &RunPlan) -> Result<Self, RunnerError> {
        sources::script_for_done(plan).map(Self)
    }

    /// Where the script's `require` looks for modules written in Lua. Empty without a script.
    ///
    /// # Errors
    /// If the script has replaced `package.path` with something else.
    pub fn module_paths(&mut self) -> Result<Vec<String>, RunnerError> {
        match &mut self.0 {
            Some(script) => script
                .module_paths()
                .map_err(|error| RunnerError::Script(error.to_string())),
            None => Ok(Vec::new()),
        }
    }

    /// The run of the whole fleet, whose result was merged and judged, with notes about its agents.
    /// `done` gets its figures.
    #[must_use]
    pub fn finish(self, result: RunResult, failures: Failures, notes: Vec<String>) -> Finished {
        let late_ns = result.agents.iter().filter_map(|agent| agent.start_late_ns);
        Finished {
            start_late_ns: late_ns.max().unwrap_or_default(),
            slow_spans: SlowSpans::default(),
            agent_notes: notes,
            result,
            script: self.0,
            lookup_counts: None,
            failures,
            leaving: Vec::new(),
        }
    }
}

impl Finished {
    /// Why this run is not a success, on one line: the script failed during the run, the server
    /// refused the requests from the start, or there was neither a response in the window nor an
    /// event of one.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        if let Some(failure) = self.failures.messages.first() {
            return Some(failure.clone());
        }
        if let Some(denied) = self.failures.denied {
            return Some(refusals::denial(&self.result, denied));
        }
        let recording = &self.result.recording;
        if self.result.has_answers() || self.result.window.interrupted {
            return None;
        }
        let most = recording
            .errors
            .iter()
            .max_by_key(|(_, count)| count.events);
        let why = most.map_or_else(
            || {
                let known = self.loss().or_else(|| self.refusal());
                known.unwrap_or_else(|| "no response arrived".to_owned())
            },
            |(kind, count)| {
                let detail = match &self.failures.first_error_detail {
                    Some((detailed, detail)) if *detailed == kind => format!(": {detail}"),
                    _ => String::new(),
                };
                let advice = scheme_advice(kind);
                format!(
                    "{}{detail} ({} times){advice}",
                    kind.describe(),
                    count.events
                )
            },
        );
        Some(format!("no request succeeded: {why}"))
    }

    /// A sentence about a server that allows no streams, or that ended connections without an
    /// error; `None` if these were few.
    fn refusal(&self) -> Option<String> {
        let is_it = |it: &&Finding<Warning>| {
            let data = &it.data;
            matches!(
                data,
                Warning::StreamsLimited { limit: 0, .. } | Warning::ManyReconnects { .. }
            )
        };
        let mut warnings = self.result.warnings.iter();
        warnings.find(is_it).map(|it| it.text.clone())
    }

    /// A sentence about lost agents; `None` if none was lost.
    fn loss(&self) -> Option<String> {
        self.result.warnings.iter().find_map(|it| match &it.data {
            Warning::Partial {
                agents,
                lost,
                reason,
                ..
            } => Some(format!("{lost} of {agents} agents were lost: {reason}")),
            _ => None,
        })
    }

    /// Why this run did less than requested although some requests were answered.
    #[must_use]
    pub fn shortfall(&self) -> Option<&Finding<Warning>> {
        let mut warnings = self.result.warnings.iter();
        warnings.find(|warning| matches!(warning.data, Warning::GaveUp { .. }))
    }

    /// The result and the failures, for an agent, whose coordinator merges them and calls `done`.
    #[must_use]
    pub fn into_parts(mut self) -> (RunResult, Failures) {
        self.settle();
        (self.result, self.failures)
    }

    /// Waits until the run's sockets are closed. The report can be shown before. Do not open files
    /// before, because the run may have used up all file descriptors of this process.
    pub fn settle(&mut self) {
        for worker in self.leaving.drain(..) {
            // The worker has already reported, so a panic while closing loses nothing.
            let _ = worker.join();
        }
    }

    /// Calls the script's `done`. Its output goes to C's stdout, after everything that was flushed
    /// before.
    ///
    /// # Errors
    /// If the script fails. The result is still valid.
    pub fn done(&mut self) -> Result<(), RunnerError> {
        let Some(script) = &mut self.script else {
            return Ok(());
        };
        if !script.has_done() {
            return Ok(());
        }
        script
            .done(&self.result)
            .map_err(|error| RunnerError::Script(error.to_string()))
    }

    /// Notes about the run beyond its result, one line each.
    pub fn take_notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.agent_notes);
        notes.extend(self.script.iter_mut().flat_map(Script::take_notes));
        notes.extend(self.lookup_counts.map(|counts| counts.note()));
        notes.extend(self.plaintext_note());
        notes.extend(self.proxy_note());
        notes.extend(self.error_note());
        notes.extend(refusals::note(&self.result));
        notes
    }

    /// What is known of the first error beyond its kind, if some requests succeeded. Otherwise
    /// [`Self::failure`] has it.
    fn error_note(&self) -> Option<String> {
        let (kind, detail) = self.failures.first_error_detail.as_ref()?;
        let errors = &self.result.recording.errors;
        let (_, count) = errors.iter().find(|(counted, _)| counted == kind)?;
        let what = kind.describe();
        match count.events {
            1 => Some(format!("{what}: {detail}")),
            events => Some(format!("{what}: {detail} (the first of {events})")),
        }
    }

    /// Servers that speak TLS on a port answer plain HTTP there with 400, whatever the request.
    fn plaintext_note(&self) -> Option<String> {
        let statuses = &self.result.recording.statuses;
        let is_it = self.result.plan.target.scheme == Scheme::Http
            && statuses.total() > 0
            && statuses.count(400) == statuses.total();
        is_it.then(|| "every response was 400: if the port speaks TLS, use https://".to_owned())
    }

    /// A proxy that gets each request answers with 407 if it wants another user.
    fn proxy_note(&self) -> Option<String> {
        let statuses = &self.result.recording.statuses;
        let is_it = self.result.plan.forwarding_proxy().is_some()
            && statuses.total() > 0
            && statuses.count(407) == statuses.total();
        is_it.then(|| "every response was 407: the proxy wants another --proxy-user".to_owned())
    }
}

/// Flushes what scripts have printed so far. Call it before printing anything else.
pub fn flush_script_output() {
    script::flush_stdout();
}

/// Redirects the scripts' output to stderr from here on. The returned file is the real stdout.
///
/// # Errors
/// If there is no free file descriptor.
pub fn divert_script_output() -> std::io::Result<std::fs::File> {
    script::divert_stdout()
}

/// Number of files that are open now.
fn open_files() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64)
}

/// A note that the open-file limit is too low for the connections, if that is certain. If it only
/// shows during the run, the verdict reports it.
fn open_file_note(
    connections: u64,
    threads: u64,
    backend: engine::IoBackend,
    limit: u64,
    open: u64,
) -> Option<String> {
    let needed = match backend {
        // Each ring keeps its sockets in its own table, whose size is limited in the same way. They
        // are not open files.
        engine::IoBackend::Uring => connections.div_ceil(threads.max(1)),
        // Each thread also has an epoll instance.
        engine::IoBackend::Epoll => connections + open + threads,
    };
    (limit < needed).then(|| {
        let enough = needed + 64;
        format!(
            "the limit of open files ({limit}) is too low for {connections} connections; \
             raise it with ulimit -n {enough}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_the_window_is_computed_on_the_monotonic_clock() {
        let read_at = ClockReading {
            unix_ms: 1_795_204_800_000,
            monotonic_ns: 5_000_000_000,
        };
        assert_eq!(read_at.unix_ms_at(7_500_999_999), 1_795_204_802_500);
        assert_eq!(read_at.unix_ms_at(4_000_000_000), 1_795_204_800_000);
    }

    #[test]
    fn a_low_open_file_limit_is_noted_only_if_it_will_be_reached() {
        let note = |backend, limit, threads, connections| {
            open_file_note(connections, threads, backend, limit, 10)
        };
        let (uring, epoll) = (engine::IoBackend::Uring, engine::IoBackend::Epoll);
        // Two tables with 64 entries each.
        assert_eq!(note(uring, 64, 2, 100), None);
        assert_eq!(note(uring, 64, 2, 128), None);
        let told = note(uring, 64, 2, 129).expect("one place is missing");
        assert!(
            told.contains("(64) is too low for 129 connections"),
            "{told}"
        );
        assert_eq!(note(epoll, 112, 2, 100), None);
        assert!(note(epoll, 111, 2, 100).is_some());
    }

    #[test]
    fn threads_without_a_ring_are_reported() {
        let chosen = || ChosenBackend {
            backend: engine::IoBackend::Uring,
            reason: "allowed here".to_owned(),
        };
        let why = |threads| vec!["no memory".to_owned(); threads];
        let told = |threads| {
            let Backend { name, reason } = used_backend(chosen(), 4, &why(threads));
            format!("{name}: {reason}")
        };
        assert_eq!(told(0), "io_uring: allowed here");
        assert_eq!(
            told(1),
            "io_uring: allowed here; 1 of 4 threads use epoll: no memory"
        );
        assert_eq!(told(4), "epoll: io_uring cannot be used: no memory");
    }
}
