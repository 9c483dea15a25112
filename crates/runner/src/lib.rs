//! One run from end to end: resolver, script, TLS, engine, environment, and resource usage.
//!
//! [`prepare`] does everything that can fail before the first byte of load. [`Prepared::run`]
//! generates the load. [`Finished`] contains the result and can call the script's `done`. The crate
//! prints nothing.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod environment;
mod resolve;
mod run_telemetry;
mod sources;
mod tls;
mod usage_probes;

pub use environment::WATCHED_SYSCTLS;

pub use engine::Observer;

use engine::{ChosenBackend, RunInputs, RunOutcome};
use judging::sentences::finding;
use plan::secrets::hide_secrets;
use plan::{RunPlan, Scheme};
use results::{
    Backend, Environment, ErrorKind, Finding, Generator, RunResult, SCHEMA_VERSION, Warning, Window,
};
use script::Script;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use telemetry::{MachineMeter, Sampler};

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
    pub shows_secrets: bool,
}

/// Why a run could not be prepared or carried out, on one line.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The target cannot be resolved or reached.
    #[error("{0}")]
    Target(String),
    /// The script failed.
    #[error("{0}")]
    Script(String),
    /// A file named by an option cannot be read.
    #[error("{option} {}: {error}", .path.display())]
    File {
        /// The option.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The body is not what the protocol sends.
    #[error("{0}")]
    Body(String),
    /// TLS cannot be set up as the options ask.
    #[error("{0}")]
    Tls(String),
    /// Telemetry cannot be collected as the options ask.
    #[error("{0}")]
    Telemetry(String),
    /// The engine could not start.
    #[error(transparent)]
    Engine(#[from] engine::EngineError),
}

/// Receivers of data during a run. None by default.
#[derive(Default)]
pub struct RunObservers<'a> {
    /// Receives each sample of telemetry as a line of JSON (`docs/telemetry.md`), if the plan asks
    /// for sockets. Without it, only the summary is kept.
    pub samples: Option<Box<dyn Write + Send>>,
    /// Observes the progress of the run, about once a second.
    pub observer: Option<&'a mut dyn Observer>,
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

/// A run that is ready to start.
pub struct Prepared {
    plan: RunPlan,
    inputs: RunInputs,
    chosen: ChosenBackend,
    script: Option<Script>,
    environment: Environment,
    read_at: ClockReading,
    sampler: Option<Sampler>,
    notes: Vec<String>,
}

/// Looks up, loads and creates everything that the run needs: addresses, script states, TLS
/// settings, limits.
///
/// # Errors
/// Everything that can be known to fail before the start.
pub fn prepare(mut plan: RunPlan, invocation: Invocation) -> Result<Prepared, RunnerError> {
    let read_at = ClockReading {
        unix_ms: invocation.unix_ms,
        monotonic_ns: engine::monotonic_ns(),
    };
    let chosen = engine::choose_backend(plan.backend)?;
    let mut notes: Vec<String> = engine::raise_open_file_limit()
        .and_then(|limit| open_file_note(&plan.load, chosen.backend, limit, open_files()))
        .into_iter()
        .collect();
    let tls = match plan.target.scheme {
        Scheme::Http => None,
        Scheme::Https => Some(tls::client(&plan)?),
    };
    let sampler = run_telemetry::prepare(plan.telemetry.as_ref())?;
    let sources = sources::prepare(&plan)?;
    if let Some(client) = tls.as_ref().filter(|_| plan.lets_server_choose()) {
        let chosen = tls::negotiate(&mut plan, client, &sources.address)?;
        notes.push(format!(
            "the server chose {} in the TLS handshake",
            chosen.name()
        ));
    }
    // Not needed from here on.
    let hide = |texts: Vec<String>| texts.iter().map(|text| hide_secrets(text)).collect();
    let (plan, command_line) = if invocation.shows_secrets {
        (plan, invocation.command_line)
    } else {
        (plan.without_secrets(), hide(invocation.command_line))
    };
    Ok(Prepared {
        inputs: RunInputs {
            address: sources.address,
            tls,
            usage_probes: usage_probes::of_workers(sources.workers.len()),
            sources: sources.workers,
            backend: chosen.backend,
            worker_base: 0,
        },
        chosen,
        script: sources.script,
        environment: environment::collect(command_line, invocation.started_at),
        read_at,
        plan,
        sampler,
        notes,
    })
}

impl Prepared {
    /// The plan of the run, without secrets unless they are to be shown.
    #[must_use]
    pub fn plan(&self) -> &RunPlan {
        &self.plan
    }

    /// Notes for the user before the start, one line each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// `io_uring` or `epoll`.
    #[must_use]
    pub fn backend(&self) -> &str {
        self.chosen.backend.name()
    }

    /// Why this backend was chosen.
    #[must_use]
    pub fn backend_reason(&self) -> &str {
        &self.chosen.reason
    }

    /// Generates the load. Setting `interrupted` ends the run early; the result then covers the
    /// time until then.
    ///
    /// # Errors
    /// If the engine could not start. Errors of telemetry are part of the result.
    pub fn run(
        self,
        interrupted: &AtomicBool,
        observers: RunObservers<'_>,
    ) -> Result<Finished, RunnerError> {
        let RunObservers { samples, observer } = observers;
        let Self {
            plan,
            inputs,
            chosen,
            script,
            environment,
            read_at,
            sampler,
            ..
        } = self;
        let telemetry = run_telemetry::start(sampler, samples);
        let machine = MachineMeter::begin();
        let armed = engine::prepare(&plan, inputs)?;
        let start_ns = armed.earliest_start_ns();
        let times = armed.times(start_ns);
        let started_unix_ms = read_at.unix_ms_at(times.measure_ns);
        telemetry.begin(times);
        let outcome = armed.start(start_ns, interrupted, observer);
        let machine = machine.end();
        let telemetry = telemetry.finish(plan.telemetry.as_ref());
        let RunOutcome {
            recording,
            duration_ns,
            interrupted,
            failures,
            has_given_up,
            first_error_detail,
            workers,
            lags,
            without_ring,
            stuck_workers,
            leaving,
        } = outcome;
        let result = RunResult {
            telemetry,
            schema_version: SCHEMA_VERSION,
            environment,
            window: Window {
                started_unix_ms,
                duration_ns,
                warmup_ns: u64::try_from(plan.warmup.as_nanos()).unwrap_or(u64::MAX),
                interrupted,
            },
            backend: used_backend(chosen, plan.load.threads, &without_ring),
            plan,
            recording,
            generator: Generator {
                workers,
                lags,
                machine,
                ..Generator::default()
            },
            warnings: Vec::new(),
        };
        Ok(Finished {
            result: judged(result, has_given_up, stuck_workers),
            script,
            failures,
            first_error_detail,
            leaving,
        })
    }
}

/// The result with its verdict and warnings, those of the engine last.
fn judged(mut result: RunResult, has_given_up: bool, stuck_workers: Vec<u32>) -> RunResult {
    judging::judge(&mut result);
    if has_given_up {
        result.warnings.push(finding(Warning::GaveUp {
            sent: result.recording.counters.sent,
            wanted: result.plan.stop.requests.unwrap_or_default(),
        }));
    }
    let stuck = stuck_workers.into_iter();
    result
        .warnings
        .extend(stuck.map(|worker| finding(Warning::ScriptStuck { worker })));
    result
}

/// What to try if the two sides do not agree on TLS.
fn scheme_advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotTls => ": use http://?",
        ErrorKind::TlsClosed => ": if the port does not speak TLS, use http://",
        ErrorKind::TlsOnPlain => ": use https://?",
        _ => "",
    }
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
    script: Option<Script>,
    failures: Vec<String>,
    first_error_detail: Option<(ErrorKind, String)>,
    leaving: Vec<JoinHandle<()>>,
}

impl Finished {
    /// Why this run is not a success, on one line: the script failed during the run, or there was
    /// no response in the window.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        if let Some(failure) = self.failures.first() {
            return Some(failure.clone());
        }
        let recording = &self.result.recording;
        let counters = &recording.counters;
        // Responses to requests of the warm-up are in no total, but the server did respond.
        let responses = counters
            .answered
            .saturating_add(counters.answered_of_warmup);
        if responses > 0 || self.result.window.interrupted {
            return None;
        }
        let most = recording
            .errors
            .iter()
            .max_by_key(|(_, count)| count.events);
        let why = most.map_or_else(
            || "no response arrived".to_owned(),
            |(kind, count)| {
                let detail = match &self.first_error_detail {
                    Some((told, detail)) if *told == kind => format!(": {detail}"),
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

    /// Why this run did less than requested although some requests were answered.
    #[must_use]
    pub fn shortfall(&self) -> Option<&Finding<Warning>> {
        let mut warnings = self.result.warnings.iter();
        warnings.find(|warning| matches!(warning.data, Warning::GaveUp { .. }))
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
        let mut notes = self
            .script
            .as_mut()
            .map(Script::take_notes)
            .unwrap_or_default();
        notes.extend(self.plaintext_note());
        notes
    }

    /// Servers that speak TLS on a port answer plain HTTP there with 400, whatever the request.
    fn plaintext_note(&self) -> Option<String> {
        let statuses = &self.result.recording.statuses;
        let is_it = self.result.plan.target.scheme == Scheme::Http
            && statuses.total() > 0
            && statuses.count(400) == statuses.total();
        is_it.then(|| "every response was 400: if the port speaks TLS, use https://".to_owned())
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
    load: &plan::Load,
    backend: engine::IoBackend,
    limit: u64,
    open: u64,
) -> Option<String> {
    let (connections, threads) = (u64::from(load.connections), u64::from(load.threads));
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
            let load = plan::Load {
                threads,
                connections,
                ..plan::Load::default()
            };
            open_file_note(&load, backend, limit, 10)
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
