//! The environment of the cases: programs, cores, scratch folder; starts servers, runs clients.

use std::cell::Cell;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use results::Verdict;
use rustix::process::Signal;

use super::check::{CaseResult, Check, Figure, Tolerance};
use super::log::ServerLog;
use super::origin::Origin;
use super::peers::{Peer, PeerLoad, PeerOutput};
use super::run_report::RunReport;
use crate::machine::Machine;
use crate::options::TruthOptions;
use crate::process::{Placement, Process, ProcessOutput};
use crate::scratch::Scratch;
use crate::setup::{self, Cores};
use crate::usage::Usage;

/// Time limit of a run beyond its duration.
const GRACE: Duration = Duration::from_secs(30);

/// Polling `/proc` costs CPU time on a measured core, so it is done rarely.
const POLL: Duration = Duration::from_millis(200);

/// Options of the built-in server for cases over HTTP/3.
pub(crate) const HTTP3_SERVER: &str = "--tls --http3";

/// With `--strict`: the load generator was disturbed or saturated.
const EXIT_DISTURBED: i32 = 5;

/// A shell command that never ends.
const BURN: &str = "while :; do :; done";

/// Scripts and request files for clients.
const SCRIPTS: [(&str, &str); 3] = [
    ("totals.lua", include_str!("../../scripts/totals.lua")),
    ("think.lua", include_str!("../../scripts/think.lua")),
    ("names.jsonl", include_str!("../../scripts/names.jsonl")),
];

/// What is done to a run of wrkbench.
#[derive(Debug, Default)]
pub(crate) struct Disturbance {
    /// A command prefix such as `nice -n 19`. It must become the program it starts.
    pub(crate) launcher: Vec<String>,
    /// When it is stopped: each pause is when it begins after the start of the process, and its
    /// length.
    pub(crate) pauses: Vec<(Duration, Duration)>,
}

/// Which combinations to measure where there are too many.
#[derive(Debug)]
pub(crate) struct RowSample {
    /// How many of them; 0 for all.
    pub(crate) rows: usize,
    /// Seed of the choice.
    pub(crate) seed: u64,
    /// Parts of names: if there are any, the combinations with them are measured instead.
    pub(crate) named: Vec<String>,
}

/// A run of wrkbench that was disturbed.
#[derive(Debug)]
pub(crate) struct DisturbedRun {
    pub(crate) report: RunReport,
    /// The exit code of wrkbench; `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    /// When it was stopped and when it went on.
    pub(crate) paused: Vec<(SystemTime, SystemTime)>,
}

impl DisturbedRun {
    /// Whether the verdict says that the load generator was disturbed or saturated; `None` if it is
    /// unknown.
    pub(crate) fn is_disturbed(&self) -> Option<bool> {
        match self.report.result.generator.verdict {
            Verdict::Undisturbed => Some(false),
            Verdict::Disturbed { .. } | Verdict::Saturated { .. } => Some(true),
            Verdict::Unknown => None,
        }
    }

    /// Checks that the exit code with `--strict` is that of the verdict.
    pub(crate) fn check_exit_code(&self, case: &mut CaseResult, name: &str) {
        let expected = if self.is_disturbed() == Some(true) {
            EXIT_DISTURBED
        } else {
            0
        };
        case.ours(
            format!("{name}: exit code with --strict"),
            Figure::Count(f64::from(expected)),
            Tolerance::Exact,
            self.code.map(|code| Figure::Count(f64::from(code))),
        );
    }
}

#[derive(Debug)]
pub(crate) struct Lab {
    machine: Machine,
    wrkbench: PathBuf,
    io: String,
    peers: Vec<(Peer, PathBuf)>,
    places: Cores,
    cores: (u32, u32),
    sample: RowSample,
    scratch: Scratch,
    interrupted: Arc<AtomicBool>,
    clients_us: Cell<u64>,
    /// Keeps the client's core awake.
    awake: Option<Process>,
}

impl Lab {
    /// Finds the programs and describes the machine.
    ///
    /// # Errors
    /// When wrkbench is not found.
    pub(crate) fn prepare(options: &TruthOptions) -> anyhow::Result<Self> {
        let interrupted = setup::interruption()?;
        let wrkbench = setup::wrkbench_path(options.common.wrkbench.as_deref())?;
        let machine = Machine::look(&wrkbench, &options.common);
        let asked = |peer| match peer {
            Peer::Wrk => &options.common.wrk,
            Peer::Wrk2 => &options.common.wrk2,
            Peer::WrkCmm => &options.wrk_cmm,
            Peer::H2load => &options.common.h2load,
        };
        let peers = Peer::ALL
            .into_iter()
            .filter(|_| !options.ours_only)
            .filter_map(|peer| Some((peer, setup::find_program(asked(peer), &[])?)))
            .collect();
        let cores = (options.common.server_core, options.common.client_core);
        let scratch = Scratch::create()?;
        for (name, text) in SCRIPTS {
            scratch.write(name, text)?;
        }
        let places = Cores::choose(machine.cores, cores.0, cores.1);
        let stays_awake = options.keep_awake && places.are_apart;
        let awake = stays_awake.then(|| idle_burner(places.client));
        Ok(Self {
            places,
            awake: awake.transpose()?,
            cores,
            sample: RowSample {
                rows: options.rows,
                seed: options.seed,
                named: options.row.clone(),
            },
            machine,
            wrkbench,
            io: options.io.clone(),
            peers,
            scratch,
            interrupted,
            clients_us: Cell::new(0),
        })
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The core of the client, if it has one of its own.
    pub(crate) fn client_core(&self) -> Option<u32> {
        self.places.client.core
    }

    /// Which combinations to measure where there are too many.
    pub(crate) fn sample(&self) -> &RowSample {
        &self.sample
    }

    /// The names of the other tools.
    pub(crate) fn peers_text(&self) -> String {
        if self.peers.is_empty() {
            return "no other tool".to_owned();
        }
        let named = |peer: &(Peer, PathBuf)| peer.0.name();
        self.peers.iter().map(named).collect::<Vec<_>>().join(", ")
    }

    /// A description of the cores.
    pub(crate) fn places_text(&self) -> String {
        let (server, client) = self.cores;
        if self.places.are_apart {
            let awake = match self.awake {
                Some(_) => "; neither sleeps",
                None => "",
            };
            format!("server on core {server}, client on core {client}, one client thread{awake}")
        } else {
            "only one core: server and client share it, so times are unreliable".to_owned()
        }
    }

    /// Set when the user interrupts.
    pub(crate) fn interrupted(&self) -> &AtomicBool {
        &self.interrupted
    }

    /// Whether the user has interrupted.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The path of a file in the scratch folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Writes a file for clients.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn write(&self, name: &str, content: &str) -> anyhow::Result<PathBuf> {
        self.scratch.write(name, content)
    }

    pub(crate) fn wrkbench(&self) -> &Path {
        &self.wrkbench
    }

    /// Starts a server with these options and its log enabled.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) fn serve(&self, options: &str) -> anyhow::Result<Origin> {
        let log = self.file("server.csv");
        let mut arguments = words("serve --listen 127.0.0.1:0");
        // A sleeping server would log requests after its wake-up, so the wake-up time would be in
        // the client's times and not in the log.
        if self.places.are_apart {
            arguments.push("--poll".to_owned());
        }
        arguments.push("--log".to_owned());
        arguments.push(log.display().to_string());
        arguments.extend(words(options));
        let process = Process::start(&self.wrkbench, &arguments, self.places.server)?;
        Origin::watched(process, options.contains("--tls"), log)
    }

    /// Starts wrkbench with these arguments on the server's core. It keeps no log and does not
    /// poll.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start_server(&self, arguments: &str) -> anyhow::Result<Process> {
        Process::start(&self.wrkbench, &words(arguments), self.places.server)
    }

    /// Starts wrkbench with these arguments on the client's core.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start_client(&self, arguments: &str) -> anyhow::Result<Process> {
        Process::start(&self.wrkbench, &words(arguments), self.places.client)
    }

    /// Runs something against a new server; returns its result and the server's log.
    ///
    /// # Errors
    /// When server or client fail.
    pub(crate) fn observe<T>(
        &self,
        case: &mut CaseResult,
        server_options: &str,
        run: impl FnOnce(&Origin) -> anyhow::Result<T>,
    ) -> anyhow::Result<(T, ServerLog)> {
        progress(&format!("{}: {server_options}", case.name));
        let origin = self.serve(server_options)?;
        let before = Usage::now(origin.cpu_us()?)?;
        let clients_before_us = self.clients_side_us()?;
        let found = run(&origin)?;
        let client_us = self.clients_side_us()?.saturating_sub(clients_before_us);
        let others_share = Usage::now(origin.cpu_us()?)?.others_share(before, client_us);
        case.others_share = case.others_share.max(others_share);
        Ok((found, origin.stop(&self.interrupted)?))
    }

    /// CPU time so far of all clients and of the process that keeps their core awake, microseconds.
    fn clients_side_us(&self) -> anyhow::Result<u64> {
        let awake_us = self.awake.as_ref().map_or(Ok(0), Process::cpu_us)?;
        Ok(self.clients_us.get() + awake_us)
    }

    /// Runs a client to its end.
    ///
    /// # Errors
    /// When it cannot be started, takes too long, or the user interrupts.
    pub(crate) fn client(
        &self,
        program: &Path,
        arguments: &[String],
        duration_s: u32,
    ) -> anyhow::Result<ProcessOutput> {
        let process = Process::start(program, arguments, self.places.client)?;
        let limit = Duration::from_secs(duration_s.into()) + GRACE;
        let ended = process.watch(limit, POLL, &self.interrupted)?;
        self.clients_us.set(self.clients_us.get() + ended.cpu_us);
        Ok(ended)
    }

    /// Starts a program that competes for the client's core until it is dropped.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn burn(&self) -> anyhow::Result<Process> {
        Process::start(Path::new("/bin/sh"), &["-c", BURN], self.places.client)
    }

    /// Runs wrkbench with these options. `launcher` is a command prefix such as `env NAME=value`.
    ///
    /// # Errors
    /// When it fails, or its document contradicts itself.
    pub(crate) fn ours_under(
        &self,
        launcher: &[String],
        options: &str,
        url: &str,
        duration_s: u32,
    ) -> anyhow::Result<RunReport> {
        let line = self.command_line(launcher, options, url);
        let ended = self.client(Path::new(&line[0]), &line[1..], duration_s)?;
        if !ended.status.success() {
            let (status, why) = (ended.status, ended.stderr.trim());
            bail!("wrkbench {options} failed ({status}): {why}");
        }
        self.report(&ended)
    }

    /// Runs wrkbench with these options and `--strict`, and disturbs it meanwhile.
    ///
    /// # Errors
    /// When it cannot be started or stopped, or its document contradicts itself.
    #[expect(
        clippy::disallowed_methods,
        reason = "pauses have their times, and the document has that of the start"
    )]
    pub(crate) fn ours_disturbed(
        &self,
        options: &str,
        url: &str,
        duration_s: u32,
        disturbance: &Disturbance,
    ) -> anyhow::Result<DisturbedRun> {
        let launcher = &disturbance.launcher;
        let line = self.command_line(launcher, &format!("{options} --strict"), url);
        let process = Process::start(Path::new(&line[0]), &line[1..], self.places.client)?;
        let started = Instant::now();
        let wait_until = |after: Duration| {
            thread::sleep((started + after).saturating_duration_since(Instant::now()));
        };
        let mut paused = Vec::new();
        for &(after, length) in &disturbance.pauses {
            wait_until(after);
            let from = SystemTime::now();
            process.signal(Signal::STOP)?;
            wait_until(after + length);
            process.signal(Signal::CONT)?;
            paused.push((from, SystemTime::now()));
        }
        let limit = Duration::from_secs(duration_s.into()) + GRACE;
        let ended = process.watch(limit, POLL, &self.interrupted)?;
        self.clients_us.set(self.clients_us.get() + ended.cpu_us);
        Ok(DisturbedRun {
            report: self.report(&ended)?,
            code: ended.status.code(),
            paused,
        })
    }

    /// The command line of a run of wrkbench that writes its document where [`Self::report`] reads
    /// it. The document of an earlier run is removed, so that it cannot be mistaken for this one's.
    fn command_line(&self, launcher: &[String], options: &str, url: &str) -> Vec<String> {
        let json = self.file("ours.json");
        let _ = fs::remove_file(&json);
        let mut line = launcher.to_vec();
        line.push(self.wrkbench.display().to_string());
        line.extend(["--json".to_owned(), json.display().to_string()]);
        if !options.contains("--io ") {
            line.extend(["--io".to_owned(), self.io.clone()]);
        }
        line.extend(words(options));
        line.push(url.to_owned());
        line
    }

    fn report(&self, ended: &ProcessOutput) -> anyhow::Result<RunReport> {
        let json = self.file("ours.json");
        let bytes = fs::read(&json).with_context(|| format!("cannot read {}", json.display()))?;
        RunReport::read(&bytes, ended)
    }

    /// The same without a launcher.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn ours(
        &self,
        options: &str,
        url: &str,
        duration_s: u32,
    ) -> anyhow::Result<RunReport> {
        self.ours_under(&[], options, url, duration_s)
    }

    /// Runs each of these other tools that is installed and supports the work against a new server,
    /// and adds the results of `checks`. If a tool fails, a note is added.
    ///
    /// # Errors
    /// When a server fails, or the user interrupts.
    pub(crate) fn peers(
        &self,
        case: &mut CaseResult,
        which: &[Peer],
        (server_options, path): (&str, &str),
        work: &PeerLoad,
        checks: impl Fn(&PeerOutput, &ServerLog) -> Vec<PeerCheck>,
    ) -> anyhow::Result<()> {
        for (peer, program) in &self.peers {
            if !which.contains(peer) || !peer.can(work) {
                continue;
            }
            let outcome = self.observe(case, server_options, |origin| {
                let work = PeerLoad {
                    url: origin.url(path),
                    ..work.clone()
                };
                Ok(peer.run(self, program, &work))
            });
            match outcome? {
                (Ok(said), log) => {
                    for (what, truth, tolerance, seen) in checks(&said, &log) {
                        case.add_to_quantity(Check::new(what, peer.name(), truth, tolerance, seen));
                    }
                }
                (Err(error), _) if self.is_interrupted() => return Err(error),
                (Err(error), _) => case.notes.push(format!("{error:#}")),
            }
        }
        Ok(())
    }
}

/// Starts a busy loop with SCHED_IDLE (sched(7)), which only runs if the core would sleep
/// otherwise.
fn idle_burner(place: Placement) -> anyhow::Result<Process> {
    let arguments = ["--idle", "0", "/bin/sh", "-c", BURN];
    Process::start(Path::new("chrt"), &arguments, place)
}

/// Quantity, true value, tolerance, and reported value.
pub(crate) type PeerCheck = (String, Figure, Tolerance, Option<Figure>);

/// Splits arguments at spaces.
pub(crate) fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(ToOwned::to_owned).collect()
}

/// Prints progress to stderr.
fn progress(message: &str) {
    // A closed stderr must not end a measurement.
    let _ = writeln!(io::stderr(), "truth: {message}");
}
