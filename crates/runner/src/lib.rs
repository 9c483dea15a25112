//! One run from end to end: resolve, script, TLS, engine, environment, and what it cost the machine.
//!
//! [`prepare`] does everything that can fail before the first byte of load; [`Prepared::run`] makes the
//! load; [`Finished`] holds the result and lets the script have its say at the end. Nothing is printed.

#![forbid(unsafe_code)]

mod environment;
mod resolve;
mod sampling;
mod sources;
mod tls;
mod watch;

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

/// Facts about the invocation that only the program's entry knows.
#[derive(Debug, Clone, Default)]
pub struct Invocation {
    /// The command line, program name first.
    pub command_line: Vec<String>,
    /// Wall-clock now, milliseconds since 1970 (UTC). [`prepare`] is called at once, and counts on from here on the
    /// monotonic clock: later jumps of the wall clock move nothing.
    pub unix_ms: u64,
    /// The same as RFC 3339 text.
    pub started_at: Option<String>,
    /// Passwords, tokens and cookies stay in what is shown and saved.
    pub shows_secrets: bool,
}

/// Why a run could not be prepared or carried out; one line each.
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
        /// Which option.
        option: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// TLS cannot be set up from what the options say.
    #[error("{0}")]
    Tls(String),
    /// What is to be watched beside the run cannot be.
    #[error("{0}")]
    Telemetry(String),
    /// The engine could not start.
    #[error(transparent)]
    Engine(#[from] engine::EngineError),
}

/// Who is told of a run while it is on; nobody by default.
#[derive(Default)]
pub struct Audience<'a> {
    /// Gets each sample of telemetry, a line of JSON each (`docs/telemetry.md`), if the plan asks for
    /// sockets. Without it only the summary is kept.
    pub samples: Option<Box<dyn Write + Send>>,
    /// Sees what was done so far, about once a second.
    pub observer: Option<&'a mut dyn Observer>,
}

/// The same moment on two clocks.
#[derive(Debug, Clone, Copy)]
struct Moment {
    unix_ms: u64,
    monotonic_ns: u64,
}

impl Moment {
    /// What the wall clock shows at a later moment of the monotonic clock, if nobody sets it meanwhile.
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
    read_at: Moment,
    sampler: Option<Sampler>,
    notes: Vec<String>,
}

/// Looks up, loads and makes all that the run needs: addresses, script states, TLS settings, limits.
///
/// # Errors
/// Whatever can be known to fail before the start.
pub fn prepare(plan: RunPlan, invocation: Invocation) -> Result<Prepared, RunnerError> {
    let read_at = Moment {
        unix_ms: invocation.unix_ms,
        monotonic_ns: engine::monotonic_ns(),
    };
    let chosen = engine::choose_backend(plan.backend)?;
    let notes = engine::raise_open_file_limit()
        .and_then(|limit| open_file_note(&plan.load, chosen.backend, limit, open_files()))
        .into_iter()
        .collect();
    let tls = match plan.target.scheme {
        Scheme::Http => None,
        Scheme::Https => Some(tls::client(&plan)?),
    };
    let sampler = sampling::prepare(plan.telemetry.as_ref())?;
    let sources = sources::prepare(&plan)?;
    // From here on nobody needs them.
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
            usage_probes: watch::workers(sources.workers.len()),
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
    /// What will run, as it may be shown.
    #[must_use]
    pub fn plan(&self) -> &RunPlan {
        &self.plan
    }

    /// Things the user should know before the start, a line each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// `io_uring` or `epoll`.
    #[must_use]
    pub fn backend(&self) -> &str {
        self.chosen.backend.name()
    }

    /// Why that one.
    #[must_use]
    pub fn backend_reason(&self) -> &str {
        &self.chosen.reason
    }

    /// Makes the load. Raising `interrupted` ends it early; the result then covers what was.
    ///
    /// # Errors
    /// When the engine could not start. What goes wrong with telemetry stands in the result.
    pub fn run(
        self,
        interrupted: &AtomicBool,
        audience: Audience<'_>,
    ) -> Result<Finished, RunnerError> {
        let Audience { samples, observer } = audience;
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
        let sampling = sampling::start(sampler, samples);
        let machine = MachineMeter::begin();
        let armed = engine::prepare(&plan, inputs)?;
        let start_ns = armed.earliest_start_ns();
        let times = armed.times(start_ns);
        let started_unix_ms = read_at.unix_ms_at(times.measure_ns);
        sampling.begin(times);
        let outcome = armed.start(start_ns, interrupted, observer);
        let machine = machine.end();
        let telemetry = sampling.finish(plan.telemetry.as_ref());
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
        let mut result = RunResult {
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
        Ok(Finished {
            result,
            script,
            failures,
            first_error_detail,
            leaving,
        })
    }
}

/// What to try where the two sides do not agree on TLS.
fn scheme_advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotTls => ": use http://?",
        ErrorKind::TlsClosed => ": if the port does not speak TLS, use http://",
        ErrorKind::TlsOnPlain => ": use https://?",
        _ => "",
    }
}

/// What really ran: under `auto` a worker that cannot have a ring takes epoll.
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
    /// What came of it.
    pub result: RunResult,
    script: Option<Script>,
    failures: Vec<String>,
    first_error_detail: Option<(ErrorKind, String)>,
    leaving: Vec<JoinHandle<()>>,
}

impl Finished {
    /// Why this run must not be taken for a success, in one line: the script failed on the way, or
    /// no response at all came in the window.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        if let Some(failure) = self.failures.first() {
            return Some(failure.clone());
        }
        let recording = &self.result.recording;
        let counters = &recording.counters;
        // Responses to requests of the warm-up are in no figure, but the server did respond.
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
            || "no answer came".to_owned(),
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

    /// Why this run did less than it was asked for, though some requests were answered.
    #[must_use]
    pub fn shortfall(&self) -> Option<&Finding<Warning>> {
        let mut warnings = self.result.warnings.iter();
        warnings.find(|warning| matches!(warning.data, Warning::GaveUp { .. }))
    }

    /// Waits until the run's sockets are closed. The report can be shown before; what opens files
    /// comes after, since the run may have used up all that this process may open.
    pub fn settle(&mut self) {
        for worker in self.leaving.drain(..) {
            // It has reported already: a panic while closing takes nothing away.
            let _ = worker.join();
        }
    }

    /// Calls the script's `done`. Its output goes to C's stdout, in order after what was flushed.
    ///
    /// # Errors
    /// When the script fails; the result stands all the same.
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

    /// What is to be said about the run beyond its result, a line each.
    pub fn take_notes(&mut self) -> Vec<String> {
        let mut notes = self
            .script
            .as_mut()
            .map(Script::take_notes)
            .unwrap_or_default();
        notes.extend(self.plaintext_note());
        notes
    }

    /// Servers that speak TLS on a port answer plain HTTP there with 400, whatever was asked for.
    fn plaintext_note(&self) -> Option<String> {
        let statuses = &self.result.recording.statuses;
        let is_it = self.result.plan.target.scheme == Scheme::Http
            && statuses.total() > 0
            && statuses.count(400) == statuses.total();
        is_it.then(|| "every response was 400: if the port speaks TLS, use https://".to_owned())
    }
}

/// Writes out what scripts have printed so far; before anything else is printed.
pub fn flush_script_output() {
    script::flush_stdout();
}

/// Sends what scripts print to stderr from here on; the file given is the real stdout.
///
/// # Errors
/// When the system has no descriptor left.
pub fn divert_script_output() -> std::io::Result<std::fs::File> {
    script::divert_stdout()
}

/// Files that are open now.
fn open_files() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64)
}

/// Says that the limit of open files is too low for the connections, if it certainly is. When it comes out later, the
/// verdict says it.
fn open_file_note(
    load: &plan::Load,
    backend: engine::IoBackend,
    limit: u64,
    open: u64,
) -> Option<String> {
    let (connections, threads) = (u64::from(load.connections), u64::from(load.threads));
    let needed = match backend {
        // Each ring keeps its sockets in a table of its own, which the limit bounds: they are no open files.
        engine::IoBackend::Uring => connections.div_ceil(threads.max(1)),
        // Each thread has an epoll instance, too.
        engine::IoBackend::Epoll => connections + open + threads,
    };
    (limit < needed).then(|| {
        let enough = needed + 64;
        format!(
            "the limit of open files is {limit}, too low for {connections} connections: raise it with ulimit -n {enough}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_begins_as_long_after_the_program_as_the_monotonic_clock_says() {
        let read_at = Moment {
            unix_ms: 1_795_204_800_000,
            monotonic_ns: 5_000_000_000,
        };
        assert_eq!(read_at.unix_ms_at(7_500_999_999), 1_795_204_802_500);
        assert_eq!(read_at.unix_ms_at(4_000_000_000), 1_795_204_800_000);
    }

    #[test]
    fn the_limit_of_open_files_is_told_of_only_where_it_will_be_reached() {
        let note = |backend, limit, threads, connections| {
            let load = plan::Load {
                threads,
                connections,
                ..plan::Load::default()
            };
            open_file_note(&load, backend, limit, 10)
        };
        let (uring, epoll) = (engine::IoBackend::Uring, engine::IoBackend::Epoll);
        // Two tables of 64 places each.
        assert_eq!(note(uring, 64, 2, 100), None);
        assert_eq!(note(uring, 64, 2, 128), None);
        let told = note(uring, 64, 2, 129).expect("one place is missing");
        assert!(
            told.contains("is 64, too low for 129 connections"),
            "{told}"
        );
        assert_eq!(note(epoll, 112, 2, 100), None);
        assert!(note(epoll, 111, 2, 100).is_some());
    }

    #[test]
    fn threads_that_could_not_have_a_ring_are_told_of() {
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
