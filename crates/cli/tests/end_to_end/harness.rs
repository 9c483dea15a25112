//! Starts the server and makes runs against it.

#[path = "in_process.rs"]
mod in_process;

use std::cell::RefCell;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use origin::{Backend, Counts, Options, Server, ServerReport};
use results::{ErrorKind, RunResult};
use testkit::{Folder, Output, Process, eventually};

use crate::judge::{self, Claims};
#[allow(unused_imports, reason = "faults/ and terminal/ use less")]
pub(crate) use in_process::{Call, call};

/// A server in this process, and what its clients have counted so far.
pub(crate) struct Site {
    server: RefCell<Option<Server>>,
    options: Options,
    url: String,
    pub(crate) folder: Folder,
    claims: RefCell<Claims>,
    /// The counts of earlier servers.
    past: RefCell<Vec<Counts>>,
}

/// A server with default settings. It always uses epoll.
pub(crate) fn site() -> Site {
    site_with(Options::default())
}

pub(crate) fn site_with(options: Options) -> Site {
    let options = Options {
        backend: Backend::Epoll,
        ..options
    };
    let server = Server::start(options.clone()).unwrap();
    Site {
        url: server.url().trim_end_matches('/').to_owned(),
        // So that it restarts at the same address.
        options: Options {
            listen: server.address().clone(),
            ..options
        },
        server: RefCell::new(Some(server)),
        folder: Folder::new(),
        claims: RefCell::default(),
        past: RefCell::default(),
    }
}

impl Site {
    /// The URL of a path on it.
    pub(crate) fn url(&self, target: &str) -> String {
        format!("{}{target}", self.url)
    }

    /// Address and port: `127.0.0.1:40213`.
    pub(crate) fn authority(&self) -> &str {
        self.url.split_once("://").unwrap().1
    }

    /// What it has counted, including before a restart.
    pub(crate) fn counts(&self) -> Counts {
        let server = self.server.borrow();
        let now = server.as_ref().map(Server::counts);
        let past = self.past.borrow();
        past.iter()
            .chain(&now)
            .fold(Counts::default(), |sum, one| sum.plus(*one))
    }

    /// Stops it and returns everything it knows.
    pub(crate) fn stop(self) -> ServerReport {
        self.go_down()
    }

    /// Stops it. Nobody listens at its address then.
    pub(crate) fn go_down(&self) -> ServerReport {
        let truth = self.server.take().unwrap().stop();
        assert_eq!(truth.failure, None);
        self.past.borrow_mut().push(truth.counts);
        self.claims.borrow_mut().note_outage();
        truth
    }

    /// Starts it again at the same address.
    pub(crate) fn come_back(&self) {
        let server = Server::start(self.options.clone()).unwrap();
        self.server.replace(Some(server));
    }

    /// Waits until the counts of the server fulfil a condition that they must fulfil.
    pub(crate) fn await_counts(&self, what: &str, holds: impl Fn(&Counts) -> bool) {
        eventually(|| {
            let counts = self.counts();
            if holds(&counts) {
                Ok(())
            } else {
                Err(format!("{what}: {counts:?}"))
            }
        });
    }
}

/// A run to be made. The default is one thread and four connections.
#[must_use]
pub(crate) struct Load<'a> {
    site: &'a Site,
    url: String,
    threads: u32,
    connections: u32,
    options: Vec<String>,
    script_arguments: Vec<String>,
    /// The command, if it is not a run.
    command: Option<&'static str>,
    /// A shell command that runs first, in the process that becomes the program.
    shell: Option<String>,
}

pub(crate) fn load(site: &Site) -> Load<'_> {
    Load {
        site,
        url: site.url("/"),
        threads: 1,
        connections: 4,
        options: Vec::new(),
        script_arguments: Vec::new(),
        command: None,
        shell: None,
    }
}

impl<'a> Load<'a> {
    /// Requests this path and query.
    pub(crate) fn at(mut self, target: &str) -> Self {
        self.url = self.site.url(target);
        self
    }

    pub(crate) fn url(mut self, url: &str) -> Self {
        url.clone_into(&mut self.url);
        self
    }

    pub(crate) fn threads(mut self, threads: u32) -> Self {
        self.threads = threads;
        self
    }

    pub(crate) fn connections(mut self, connections: u32) -> Self {
        self.connections = connections;
        self
    }

    /// The same load without `-c`.
    pub(crate) fn without_connections(self) -> Self {
        self.connections(0)
    }

    pub(crate) fn for_ms(self, duration_ms: u64) -> Self {
        self.with(&[&format!("-d{duration_ms}ms")])
    }

    pub(crate) fn requests(self, requests: u64) -> Self {
        self.with(&[&format!("-n{requests}")])
    }

    pub(crate) fn timeout_ms(self, timeout_ms: u64) -> Self {
        self.with(&[&format!("-T{timeout_ms}ms")])
    }

    /// The same load by another command.
    pub(crate) fn by(mut self, command: &'static str) -> Self {
        self.command = Some(command);
        self
    }

    /// More options, as typed.
    pub(crate) fn with(mut self, options: &[&str]) -> Self {
        self.options
            .extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// A script, saved as `s.lua`.
    pub(crate) fn script(self, text: &str) -> Self {
        let path = self.site.folder.file_with("s.lua", text);
        self.with(&["-s", &path])
    }

    pub(crate) fn script_arguments(mut self, arguments: &[&str]) -> Self {
        self.script_arguments = arguments.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// A shell command before the program, in the same process.
    pub(crate) fn in_shell_after(mut self, command: &str) -> Self {
        self.shell = Some(command.to_owned());
        self
    }

    /// Runs it to its end and checks the result: exit code 0, unless there was neither a response
    /// nor an event of one.
    pub(crate) fn run(self) -> Run<'a> {
        let run = self.finish();
        let expected = u8::from(!run.result.has_answers());
        assert_eq!(run.code, Some(i32::from(expected)), "{}", run.story());
        run
    }

    /// Runs it to its end: exit code 1, but report and document exist.
    pub(crate) fn run_to_failure(self) -> Run<'a> {
        let run = self.finish();
        assert_eq!(run.code, Some(1), "{}", run.story());
        run
    }

    /// Runs it without a document.
    pub(crate) fn output(self) -> Output {
        let command = self.command(&[]);
        self.output_of(command)
    }

    /// Runs it to its end with any exit code, reads the document and checks it.
    pub(crate) fn finish(self) -> Run<'a> {
        let json = self.document();
        let command = self.command(&["--json", &json]);
        Run::checked(self.site, &json, self.output_of(command))
    }

    /// Calls the program, or starts it where only a process does the same: scripts print to its
    /// stdout, fleets start it again, and streams write to its descriptors.
    fn output_of(&self, command: Command) -> Output {
        const NEED_PROCESS: [&str; 5] = ["-s", "--script", "--local", "--fleet", "--stream"];
        let needs_process = |option: &String| NEED_PROCESS.contains(&option.as_str());
        if self.shell.is_some() || self.options.iter().any(needs_process) {
            Process::start(command).finish()
        } else {
            Call::of(&command).finish()
        }
    }

    /// Starts it, and interrupts it when ten more responses have come after the banner.
    pub(crate) fn interrupted(self) -> Run<'a> {
        let site = self.site;
        let mut running = self.start();
        running.await_banner();
        let before = site.counts().responses;
        site.await_counts("responses", |counts| counts.responses > before + 10);
        running.process.signal("INT");
        running.finish()
    }

    /// Starts it, to be finished later.
    pub(crate) fn start(self) -> Running<'a> {
        let json = self.document();
        let command = self.command(&["--json", &json]);
        Running {
            process: Process::start(command),
            site: self.site,
            json,
        }
    }

    /// A new name for the document.
    fn document(&self) -> String {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("r{}.json", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.site.folder.file(&name)
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut arguments: Vec<String> = self.command.map(str::to_owned).into_iter().collect();
        arguments.push(format!("-t{}", self.threads));
        if self.connections > 0 {
            arguments.push(format!("-c{}", self.connections));
        }
        arguments.extend(io_arguments());
        arguments.extend(more.iter().map(|&option| option.to_owned()));
        arguments.extend(self.options.iter().cloned());
        arguments.push(self.url.clone());
        if !self.script_arguments.is_empty() {
            arguments.push("--".to_owned());
            arguments.extend(self.script_arguments.iter().cloned());
        }
        let mut command = match &self.shell {
            None => program(&[]),
            Some(before) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("{before}; exec \"$0\" \"$@\"")]);
                shell.arg(env!("CARGO_BIN_EXE_wrkbench"));
                shell
            }
        };
        command.args(arguments);
        command
    }
}

/// The backend of this test run, if one is set.
pub(crate) fn io() -> Option<String> {
    std::env::var_os("WRKBENCH_TEST_IO").map(|name| name.into_string().unwrap())
}

/// The option for [`io`], if it is set.
pub(crate) fn io_arguments() -> Vec<String> {
    io().map_or_else(Vec::new, |name| vec!["--io".to_owned(), name])
}

/// The program with these arguments and nothing else.
pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wrkbench"));
    command.args(arguments);
    command
}

/// A run that is under way.
pub(crate) struct Running<'a> {
    pub(crate) process: Process,
    site: &'a Site,
    json: String,
}

impl<'a> Running<'a> {
    /// Reads up to the banner, after which the load starts.
    pub(crate) fn await_banner(&mut self) {
        self.process
            .await_line(|line| line.starts_with("Running ") && line.contains(" test @ "));
    }

    /// Waits for its end, reads the document and checks it.
    pub(crate) fn finish(self) -> Run<'a> {
        Run::checked(self.site, &self.json, self.process.finish())
    }
}

/// A finished run whose document, report and server agree.
pub(crate) struct Run<'a> {
    pub(crate) result: RunResult,
    pub(crate) document: serde_json::Value,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    site: &'a Site,
}

impl<'a> Run<'a> {
    /// Reads the document of a run and checks it.
    fn checked(site: &'a Site, json: &str, output: Output) -> Self {
        let Output {
            code,
            stdout,
            stderr,
        } = output;
        let document = match fs::read(json) {
            Ok(document) => document,
            Err(error) => panic!("no document: {error}; {code:?}\n{stdout}\n{stderr}"),
        };
        let result = judge::document(&document);
        let run = Self {
            result,
            document: serde_json::from_slice(&document).unwrap(),
            code,
            stdout,
            stderr,
            site,
        };
        judge::report(&run.result, &run.stdout);
        site.claims.borrow_mut().add(&run.result);
        let claims = site.claims.borrow();
        eventually(|| claims.agree_with(&site.counts()));
        claims.hold_against(&site.counts());
        run
    }
}

impl Run<'_> {
    /// Every request was answered, except those in flight at the end.
    pub(crate) fn expect_answered_only(self) -> Self {
        assert_eq!(self.result.recording.errors.events(), 0, "{}", self.story());
        assert!(self.answered() > 0, "{}", self.story());
        self
    }

    /// Every response has this status.
    pub(crate) fn expect_status(self, status: u16) -> Self {
        let statuses = &self.result.recording.statuses;
        assert_eq!(statuses.count(status), statuses.total(), "{}", self.story());
        self
    }

    /// This number of requests was sent, and each was answered.
    pub(crate) fn expect_answers(self, requests: u64) -> Self {
        let run = self.expect_answered_only();
        assert_eq!(
            (run.sent(), run.answered()),
            (requests, requests),
            "{}",
            run.story()
        );
        run
    }

    /// Only errors of this kind occurred.
    pub(crate) fn expect_only(self, kind: ErrorKind) -> Self {
        let kinds: Vec<ErrorKind> = self.kinds();
        assert_eq!(kinds, [kind], "{}", self.story());
        self
    }

    /// The kinds of errors that occurred.
    pub(crate) fn kinds(&self) -> Vec<ErrorKind> {
        let errors = &self.result.recording.errors;
        errors.iter().map(|(kind, _)| kind).collect()
    }

    pub(crate) fn sent(&self) -> u64 {
        self.result.recording.counters.sent
    }

    pub(crate) fn answered(&self) -> u64 {
        self.result.recording.counters.answered
    }

    /// The number of requests that failed with errors of this kind.
    pub(crate) fn failed(&self, kind: ErrorKind) -> u64 {
        self.result.recording.errors.count(kind).exchanges
    }

    /// All `requests` are accounted for, at least `answered` of them by a response, and connections
    /// ended only as they do when the server closes them unannounced after a response. A close that
    /// is seen within a round trip of the next request is stale; how many are depends on the
    /// machine.
    pub(crate) fn expect_ends_behind_answers(self, requests: u64, answered: u64) {
        let kinds = [
            ErrorKind::Stale,
            ErrorKind::ClosedEarly,
            ErrorKind::Reset,
            ErrorKind::BrokenPipe,
        ];
        let lost = self.result.recording.errors.exchanges();
        assert_eq!(self.answered() + lost, requests, "{}", self.story());
        assert!(self.answered() >= answered, "{}", self.story());
        let others = self.kinds().iter().any(|kind| !kinds.contains(kind));
        assert!(!others, "{}", self.story());
    }

    /// How often errors of this kind occurred.
    pub(crate) fn events(&self, kind: ErrorKind) -> u64 {
        self.result.recording.errors.count(kind).events
    }

    pub(crate) fn opened(&self) -> u64 {
        self.result.recording.counters.connections_opened
    }

    /// What happened, for a failing test.
    pub(crate) fn story(&self) -> String {
        let recording = &self.result.recording;
        format!(
            "exit code {:?}\n{}{}{:?}\n{:?}\n{:?}\nserver: {:?}",
            self.code,
            self.stdout,
            self.stderr,
            recording.counters,
            recording.statuses,
            recording.errors,
            self.site.counts()
        )
    }
}
