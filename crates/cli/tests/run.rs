//! Runs of the program against the built-in server: what goes where, and how it ends.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use origin::{Greeting, Options, Server};
use results::RunResult;

/// The program, where for a run come first: one thread, two connections, and the backend that
/// `make test` asks for. Arguments of the test win over them.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wrkbench"));
    let is_run = arguments
        .first()
        .is_some_and(|first| !["serve", "demo"].contains(first));
    if is_run {
        command.args(["-t1", "-c2"]);
    }
    if let Some(io) = std::env::var_os("WRKBENCH_TEST_IO").filter(|_| is_run) {
        command.arg("--io").arg(io);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

fn output_of(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program starts")
}

/// A running program; a test that fails does not leave it behind.
struct Running(Child);

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let child = command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        Self(child)
    }

    fn stdout(&mut self) -> BufReader<ChildStdout> {
        BufReader::new(self.0.stdout.take().expect("stdout is piped"))
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([&format!("-{name}"), &self.0.id().to_string()])
            .status()
            .expect("kill starts");
        assert!(status.success(), "{name} was not sent");
    }

    /// The exit code if it has ended.
    fn ended(&mut self) -> Option<i32> {
        self.0
            .try_wait()
            .expect("it can be asked")
            .and_then(|status| status.code())
    }

    fn wait(mut self) -> Option<i32> {
        self.0.wait().expect("it ends").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is UTF-8")
}

fn server() -> Server {
    Server::start(Options::default()).expect("the server starts")
}

/// A folder of its own for a test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0
            .join(name)
            .to_str()
            .expect("the path is UTF-8")
            .to_owned()
    }

    fn file_with(&self, name: &str, content: &str) -> String {
        let path = self.file(name);
        fs::write(&path, content).expect("a file can be written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Reads a document and looks for contradictions in it.
fn loaded(document: &[u8]) -> RunResult {
    let result = results::file::load(document).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(results::check(&result), Ok(()));
    result
}

fn loaded_from(path: &str) -> RunResult {
    loaded(&fs::read(path).expect("the document is there"))
}

/// A line of the child's stdout.
fn next_line(stdout: &mut impl BufRead) -> String {
    let mut line = String::new();
    stdout.read_line(&mut line).expect("stdout can be read");
    line
}

fn all_of(mut stream: impl Read) -> String {
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("output can be read");
    all
}

#[test]
fn a_run_prints_banner_and_report_and_saves_the_document() {
    let (server, folder) = (server(), Folder::new("plain"));
    let (url, json) = (server.url(), folder.file("r.json"));
    let output = output_of(&["-n500", "--json", &json, "--latency", &url]);
    assert_eq!(
        text(&output.stderr).matches("error").count(),
        0,
        "{}",
        text(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(0));

    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(lines[0], format!("Running 500 requests test @ {url}"));
    assert_eq!(lines[1], "  1 threads and 2 connections");
    assert_eq!(
        lines[2],
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev"
    );
    assert!(lines.contains(&"  Latency Distribution"), "{lines:?}");
    assert!(
        lines[lines.len() - 1].starts_with("Transfer/sec: "),
        "{lines:?}"
    );

    let result = loaded_from(&json);
    assert_eq!(result.recording.counters.answered, 500);
    assert_eq!(result.plan.stop.requests, Some(500));
    assert_eq!(result.environment.command_line.last(), Some(&url));
    assert!(
        result
            .environment
            .started_at
            .is_some_and(|at| at.ends_with('Z'))
    );
    assert!(server.stop().counts.responses >= 500);
}

#[test]
fn with_the_document_on_stdout_nothing_else_is_there() {
    let server = server();
    let output = output_of(&["-v", "-n50", "--json", "-", &server.url()]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(loaded(&output.stdout).recording.counters.answered, 50);
    assert!(
        text(&output.stderr).starts_with("wrkbench 0."),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn the_version_comes_first_and_the_backend_is_told_on_stderr() {
    let server = server();
    let output = output_of(&["-v", "-n50", &server.url()]);
    assert!(text(&output.stdout).starts_with(concat!("wrkbench ", env!("CARGO_PKG_VERSION"))));
    assert!(text(&output.stdout).contains("\nRunning 50 requests test @ "));
    let told = text(&output.stderr).lines().next().unwrap_or_default();
    assert!(
        told.starts_with("wrkbench: backend io_uring: ")
            || told.starts_with("wrkbench: backend epoll: "),
        "{told}"
    );
}

#[test]
fn quiet_leaves_stderr_empty() {
    let server = server();
    let url = format!("{}?status=404", server.url());
    let loud = output_of(&["-n50", &url]);
    assert!(
        text(&loud.stderr).contains("wrkbench: warning: "),
        "{}",
        text(&loud.stderr)
    );
    let quiet = output_of(&["-q", "-n50", &url]);
    assert_eq!(text(&quiet.stderr), "");
    assert_eq!(quiet.status.code(), Some(0));
}

#[test]
fn a_target_that_refuses_is_one_line_and_exit_code_1() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    drop(listener);
    let output = output_of(&[&format!("http://{address}/")]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    assert_eq!(
        text(&output.stderr).lines().count(),
        1,
        "{}",
        text(&output.stderr)
    );
    assert!(
        text(&output.stderr).contains(&address.to_string()),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_run_in_which_nothing_succeeds_fails_after_its_report() {
    let options = Options {
        greeting: Greeting::Garbage,
        ..Options::default()
    };
    let server = Server::start(options).expect("the server starts");
    let output = output_of(&["-d200ms", &server.url()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("\nRequests/sec:      0.00\n"));
    assert_eq!(
        text(&output.stderr).lines().count(),
        1,
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_destination_without_a_folder_is_refused_before_the_run() {
    let (server, folder) = (server(), Folder::new("no-folder"));
    let json = folder.file("missing/r.json");
    let output = output_of(&["-n50", "--json", &json, &server.url()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    assert!(
        text(&output.stderr).starts_with("wrkbench: --json "),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(server.stop().counts.requests, 0);
}

#[test]
fn a_document_that_cannot_be_written_does_not_lose_the_report() {
    let server = server();
    let output = output_of(&["-n50", "--json", "/dev/full", &server.url()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stdout).contains("\nRequests/sec: "),
        "{}",
        text(&output.stdout)
    );
    let last = text(&output.stderr).lines().last().unwrap_or_default();
    assert!(
        last.starts_with("wrkbench: --json \"/dev/full\": cannot write"),
        "{last}"
    );
}

#[test]
fn a_failing_done_loses_neither_report_nor_document() {
    let (server, folder) = (server(), Folder::new("done"));
    let script = folder.file_with("s.lua", "function done()\n  error('on purpose')\nend\n");
    let json = folder.file("r.json");
    let output = output_of(&["-n50", "-s", &script, "--json", &json, &server.url()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stdout).contains("\nRequests/sec: "),
        "{}",
        text(&output.stdout)
    );
    let last = text(&output.stderr).lines().last().unwrap_or_default();
    assert!(
        last.contains("s.lua:2") && last.contains("on purpose"),
        "{last}"
    );
    assert_eq!(loaded_from(&json).recording.counters.answered, 50);
}

#[test]
fn a_script_prints_in_order_with_the_report() {
    let (server, folder) = (server(), Folder::new("order"));
    let script = folder.file_with(
        "s.lua",
        "function init(args) print('init ' .. args[1]) end\nfunction done() print('done') end\n",
    );
    let output = output_of(&["-n50", "-s", &script, &server.url(), "word"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    assert!(
        stdout.starts_with("init word\nRunning 50 requests"),
        "{stdout}"
    );
    assert!(stdout.ends_with("\ndone\n"), "{stdout}");
}

#[test]
fn a_reader_that_has_gone_away_ends_the_program_quietly_before_the_load() {
    let server = server();
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    drop(reader);
    let output = command(&["-n50", "-q", &server.url()])
        .stdout(writer)
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(text(&output.stderr), "");
    assert_eq!(server.stop().counts.requests, 0);
}

#[test]
fn ctrl_c_ends_the_run_with_a_report_and_exit_code_0() {
    let (server, folder) = (server(), Folder::new("sigint"));
    let json = folder.file("r.json");
    let mut child = Running::start(&["-d1h", "--json", &json, &server.url()]);
    let mut stdout = child.stdout();
    assert!(next_line(&mut stdout).starts_with("Running 60m test @ "));
    child.signal("INT");
    let report = all_of(stdout);
    assert!(report.contains("\nRequests/sec: "), "{report}");
    assert_eq!(child.wait(), Some(0));
    assert!(loaded_from(&json).window.interrupted);
}

#[test]
fn sigterm_ends_the_run_with_a_report_and_exit_code_143() {
    let server = server();
    let mut child = Running::start(&["-d1h", &server.url()]);
    let mut stdout = child.stdout();
    next_line(&mut stdout);
    child.signal("TERM");
    let report = all_of(stdout);
    assert!(report.contains("\nRequests/sec: "), "{report}");
    assert_eq!(child.wait(), Some(143));
}

#[test]
fn a_second_ctrl_c_ends_the_program_at_once() {
    /// Signals that come while one is pending are merged into one, so two may not be enough.
    const SIGNALS_MAX: usize = 1000;
    let (server, folder) = (server(), Folder::new("twice"));
    let script = folder.file_with(
        "s.lua",
        "function done()\n  print('in done')\n  io.flush()\n  while true do end\nend\n",
    );
    let mut child = Running::start(&["-n50", "-s", &script, &server.url()]);
    let mut stdout = child.stdout();
    loop {
        let line = next_line(&mut stdout);
        assert_ne!(line, "", "it ended without done");
        if line == "in done\n" {
            break;
        }
    }
    let code = (0..SIGNALS_MAX).find_map(|_| {
        child.signal("INT");
        child.ended()
    });
    assert_eq!(code, Some(130));
}

#[test]
fn the_server_announces_its_address_and_counts_at_the_end() {
    let folder = Folder::new("serve");
    let log = folder.file("log.csv");
    let mut child = Running::start(&[
        "serve", "--listen", "0", "--answer", "size=10", "--log", &log,
    ]);
    let mut stdout = child.stdout();
    let line = next_line(&mut stdout);
    let url = line
        .strip_prefix("serving ")
        .expect("the address is announced")
        .trim_end();
    let run = output_of(&["-n50", "--json", "-", url]);
    let answered = loaded(&run.stdout).recording.counters.answered;
    child.signal("INT");
    let counts: serde_json::Value = serde_json::from_str(&all_of(stdout)).expect("it is JSON");
    assert_eq!(child.wait(), Some(0));
    assert!(counts["responses"].as_u64() >= Some(answered), "{counts}");
    let log = fs::read_to_string(log).expect("the log is there");
    assert_eq!(
        Some(log.lines().count() as u64 - 1),
        counts["requests"].as_u64()
    );
}

#[test]
fn the_server_speaks_tls_with_a_certificate_of_its_own() {
    let mut child = Running::start(&["serve", "--listen", "0", "--tls"]);
    let mut stdout = child.stdout();
    let line = next_line(&mut stdout);
    let url = line
        .strip_prefix("serving ")
        .expect("the address is announced")
        .trim_end();
    assert!(url.starts_with("https://"), "{url}");
    let run = output_of(&["-n50", "--json", "-", url]);
    assert_eq!(loaded(&run.stdout).recording.counters.answered, 50);
    child.signal("TERM");
    assert_eq!(child.wait(), Some(0));
}

#[test]
fn an_address_that_is_taken_is_one_line_and_exit_code_1() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener
        .local_addr()
        .expect("it has an address")
        .to_string();
    let output = output_of(&["serve", "--listen", &address]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr).lines().count(),
        1,
        "{}",
        text(&output.stderr)
    );
    assert_eq!(text(&output.stdout), "");
}
