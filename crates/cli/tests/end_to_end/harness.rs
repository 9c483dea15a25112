//! Starts the server, and runs the program against it as a test's sentence says.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use origin::{Backend, Counts, Options, Server, Truth};
use results::{ErrorKind, RunResult};

use crate::judge::{self, Claims};

/// So long a program may say nothing, and an awaited event may not happen. Far above what anything
/// here takes, since the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A folder of its own, removed with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!(
            "end-to-end-{}-{}",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The path of a file in it, which need not exist.
    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn file_with(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.file(name);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server of this process with what clients have claimed about it so far.
pub(crate) struct Site {
    server: RefCell<Option<Server>>,
    options: Options,
    url: String,
    pub(crate) folder: Folder,
    claims: RefCell<Claims>,
    /// Counts of servers that are gone.
    past: RefCell<Vec<Counts>>,
}

/// A server with the usual settings. It uses epoll whatever the program uses.
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
        // So that one that comes back is found at the same place.
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

    /// `127.0.0.1:40213`.
    pub(crate) fn authority(&self) -> &str {
        self.url.split_once("://").unwrap().1
    }

    /// What it has counted, before and after it was away.
    pub(crate) fn counts(&self) -> Counts {
        let server = self.server.borrow();
        let now = server.as_ref().map(Server::counts);
        let past = self.past.borrow();
        past.iter()
            .chain(&now)
            .fold(Counts::default(), |sum, one| Counts {
                connections: sum.connections + one.connections,
                requests: sum.requests + one.requests,
                responses: sum.responses + one.responses,
                refused: sum.refused + one.refused,
                bytes_in: sum.bytes_in + one.bytes_in,
                bytes_out: sum.bytes_out + one.bytes_out,
                tls_failures: sum.tls_failures + one.tls_failures,
            })
    }

    /// Everything it knows, when it has stopped.
    pub(crate) fn stop(self) -> Truth {
        self.go_down()
    }

    /// Stops it; nobody listens at its address.
    pub(crate) fn go_down(&self) -> Truth {
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

    /// Waits until the server's counts fulfil a condition that they are bound to fulfil.
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

/// Asks until there is an answer; what is missing is said in the end. For states that nobody
/// reports, such as another process's.
pub(crate) fn eventually<T>(mut ask: impl FnMut() -> Result<T, String>) -> T {
    const PAUSE: Duration = Duration::from_millis(1);
    let mut missing = String::new();
    for _ in 0..PATIENCE.as_millis() {
        match ask() {
            Ok(answer) => return answer,
            Err(what) => missing = what,
        }
        std::thread::park_timeout(PAUSE);
    }
    panic!("it never happened: {missing}");
}

/// A run to be made. Without more words it takes one thread and four connections.
#[must_use]
pub(crate) struct Load<'a> {
    site: &'a Site,
    url: String,
    threads: u32,
    connections: u32,
    options: Vec<String>,
    script_arguments: Vec<String>,
    /// Runs before the program in a shell, which then becomes the program.
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
        shell: None,
    }
}

impl<'a> Load<'a> {
    /// The path and query that is asked for.
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

    pub(crate) fn for_ms(self, duration_ms: u64) -> Self {
        self.with(&[&format!("-d{duration_ms}ms")])
    }

    pub(crate) fn requests(self, requests: u64) -> Self {
        self.with(&[&format!("-n{requests}")])
    }

    pub(crate) fn timeout_ms(self, timeout_ms: u64) -> Self {
        self.with(&[&format!("-T{timeout_ms}ms")])
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

    /// Runs it to its end, and judges what it left: exit code 0, unless nothing at all was answered.
    pub(crate) fn run(self) -> Run<'a> {
        let run = self.start().finish();
        let expected = u8::from(run.result.recording.counters.answered == 0);
        assert_eq!(run.code, Some(i32::from(expected)), "{}", run.story());
        run
    }

    /// Runs it to its end: exit code 1, the report and the document are there all the same.
    pub(crate) fn run_to_failure(self) -> Run<'a> {
        let run = self.start().finish();
        assert_eq!(run.code, Some(1), "{}", run.story());
        run
    }

    /// Runs what leaves no document.
    pub(crate) fn output(self) -> Output {
        let command = self.command(&[]);
        Process::start(command).finish()
    }

    /// Starts it, to be finished later.
    pub(crate) fn start(self) -> Running<'a> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("r{}.json", NUMBER.fetch_add(1, Ordering::Relaxed));
        let json = self.site.folder.file(&name);
        let command = self.command(&["--json", &json]);
        Running {
            process: Process::start(command),
            site: self.site,
            json,
        }
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut arguments = vec![
            format!("-t{}", self.threads),
            format!("-c{}", self.connections),
        ];
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

/// The backend that this pass of the tests is about, if it is about one.
pub(crate) fn io() -> Option<String> {
    std::env::var_os("WRKBENCH_TEST_IO").map(|name| name.into_string().unwrap())
}

/// The option for [`io`], if there is need of one.
pub(crate) fn io_arguments() -> Vec<String> {
    io().map_or_else(Vec::new, |name| vec!["--io".to_owned(), name])
}

/// The program with these arguments and nothing else.
pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wrkbench"));
    command.args(arguments);
    command
}

/// What a program that has ended left behind.
#[derive(Debug)]
pub(crate) struct Output {
    /// `None`: a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    /// The one line on stderr of a program that ended with 1 and said nothing else.
    pub(crate) fn only_line(&self) -> &str {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        one_line(&self.stderr)
    }
}

/// The text without its line feed, which is its only one.
pub(crate) fn one_line(text: &str) -> &str {
    let line = text.strip_suffix('\n').unwrap_or(text);
    assert!(!line.is_empty() && !line.contains('\n'), "{text:?}");
    line
}

/// A program that is running. It is ended when it hangs and when its test fails.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
    /// Lines that were read already.
    read: String,
    stderr: Option<JoinHandle<String>>,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut line = String::new();
            while stdout.read_line(&mut line).is_ok_and(|length| length > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    break;
                }
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || {
            let mut all = Vec::new();
            // What was read until an error is what there is to show.
            let _ = stderr.read_to_end(&mut all);
            String::from_utf8_lossy(&all).into_owned()
        });
        Self {
            child,
            lines,
            read: String::new(),
            stderr: Some(stderr),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line on stdout with its line feed; `None` at the end.
    pub(crate) fn next_line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.read.push_str(&line);
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                let stderr = self.stderr.take().map(JoinHandle::join);
                panic!("it hangs; stdout: {:?}; stderr: {stderr:?}", self.read);
            }
        }
    }

    /// Reads stdout up to this line, which must come.
    pub(crate) fn await_line(&mut self, wanted: impl Fn(&str) -> bool) {
        while let Some(line) = self.next_line() {
            if wanted(&line) {
                return;
            }
        }
        panic!("the line did not come; stdout: {:?}", self.read);
    }

    /// Sends a signal by its name (INT, TERM).
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([&format!("-{name}"), &self.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success(), "{name} was not sent");
    }

    /// Reads everything up to its end.
    pub(crate) fn finish(mut self) -> Output {
        while self.next_line().is_some() {}
        let code = self.child.wait().unwrap().code();
        let stderr = self.stderr.take().map(|thread| thread.join().unwrap());
        let output = Output {
            code,
            stdout: std::mem::take(&mut self.read),
            stderr: stderr.unwrap_or_default(),
        };
        assert!(!output.stderr.contains("panicked"), "{output:?}");
        output
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run that is under way.
pub(crate) struct Running<'a> {
    pub(crate) process: Process,
    site: &'a Site,
    json: String,
}

impl<'a> Running<'a> {
    /// Reads up to the banner: from then on the load is made.
    pub(crate) fn await_banner(&mut self) {
        self.process
            .await_line(|line| line.starts_with("Running ") && line.contains(" test @ "));
    }

    /// Lets it end, reads the document, and judges it.
    pub(crate) fn finish(self) -> Run<'a> {
        let Self {
            process,
            site,
            json,
        } = self;
        let Output {
            code,
            stdout,
            stderr,
        } = process.finish();
        let document = match fs::read(&json) {
            Ok(document) => document,
            Err(error) => panic!("no document: {error}; {code:?}\n{stdout}\n{stderr}"),
        };
        let result = judge::document(&document);
        let run = Run {
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

/// A finished run whose numbers do not contradict themselves, its report or the server.
pub(crate) struct Run<'a> {
    pub(crate) result: RunResult,
    pub(crate) document: serde_json::Value,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    site: &'a Site,
}

impl Run<'_> {
    /// Every request was answered; at most those of the last moment are still in flight.
    pub(crate) fn expect_answered_only(self) -> Self {
        assert_eq!(self.result.recording.errors.events(), 0, "{}", self.story());
        assert!(self.answered() > 0, "{}", self.story());
        self
    }

    /// Every answer has this status.
    pub(crate) fn expect_status(self, status: u16) -> Self {
        let statuses = &self.result.recording.statuses;
        assert_eq!(statuses.count(status), statuses.total(), "{}", self.story());
        self
    }

    /// So many requests were sent, and each was answered.
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

    /// Errors of this kind happened, and of no other.
    pub(crate) fn expect_only(self, kind: ErrorKind) -> Self {
        let kinds: Vec<ErrorKind> = self.kinds();
        assert_eq!(kinds, [kind], "{}", self.story());
        self
    }

    /// The kinds of errors that happened.
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

    /// Requests that ended in errors of this kind.
    pub(crate) fn failed(&self, kind: ErrorKind) -> u64 {
        self.result.recording.errors.count(kind).exchanges
    }

    /// All `requests` are accounted for, at least `answered` of them with an answer, and connections
    /// ended only as they do when the server closes them unannounced behind an answer. A close that
    /// is seen within a round trip of the next request is stale; how many are, depends on the machine.
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

    /// Times that errors of this kind happened.
    pub(crate) fn events(&self, kind: ErrorKind) -> u64 {
        self.result.recording.errors.count(kind).events
    }

    pub(crate) fn opened(&self) -> u64 {
        self.result.recording.counters.connections_opened
    }

    /// What happened, for a test that fails.
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
