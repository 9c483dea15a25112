//! Single runs against the built-in server: output, files, exit codes.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use origin::{End, Greeting, Options, Server};
use results::RunResult;
use testkit::{Folder, Output, Process, Refusing};

/// The program. A run gets one thread, two connections and the backend of this test run, which
/// arguments of the test override.
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
    start(arguments).finish()
}

fn start(arguments: &[&str]) -> Process {
    Process::start(command(arguments))
}

fn server() -> Server {
    Server::start(Options::default()).expect("the server starts")
}

/// Reads a document and checks its consistency.
fn loaded(document: &[u8]) -> RunResult {
    let result = results::file::load(document).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(results::check(&result), Ok(()));
    result
}

fn loaded_from(path: &str) -> RunResult {
    loaded(&fs::read(path).expect("the document is there"))
}

#[test]
fn a_run_prints_banner_and_report_and_saves_the_document() {
    let (server, folder) = (server(), Folder::new());
    let (url, json) = (server.url(), folder.file("r.json"));
    let output = output_of(&["-n500", "--json", &json, "--latency", &url]);
    assert_eq!(
        output.stderr.matches("error").count(),
        0,
        "{}",
        output.stderr
    );
    assert_eq!(output.code, Some(0));

    let lines: Vec<&str> = output.stdout.lines().collect();
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
fn a_document_on_stdout_is_alone_there() {
    let server = server();
    let output = output_of(&["-v", "-n50", "--json", "-", &server.url()]);
    assert_eq!(output.code, Some(0));
    assert_eq!(
        loaded(output.stdout.as_bytes()).recording.counters.answered,
        50
    );
    assert!(
        output.stderr.starts_with("wrkbench 0."),
        "{}",
        output.stderr
    );
}

#[test]
fn the_version_comes_first_and_the_backend_is_on_stderr() {
    let server = server();
    let output = output_of(&["-v", "-n50", &server.url()]);
    assert!(
        output
            .stdout
            .starts_with(concat!("wrkbench ", env!("CARGO_PKG_VERSION")))
    );
    assert!(output.stdout.contains("\nRunning 50 requests test @ "));
    let told = output.stderr.lines().next().unwrap_or_default();
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
        loud.stderr.contains("wrkbench: warning: "),
        "{}",
        loud.stderr
    );
    let quiet = output_of(&["-q", "-n50", &url]);
    assert_eq!(quiet.stderr, "");
    assert_eq!(quiet.code, Some(0));
}

#[test]
fn a_target_that_refuses_is_one_line_and_exit_code_1() {
    let nobody = Refusing::new();
    let address = nobody.address();
    let output = output_of(&[&format!("http://{address}/")]);
    assert_eq!(output.code, Some(1));
    assert_eq!(output.stdout, "");
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    assert!(
        output.stderr.contains(&address.to_string()),
        "{}",
        output.stderr
    );
}

#[test]
fn a_run_in_which_nothing_succeeds_fails_after_its_report() {
    let options = Options {
        greeting: Greeting::End(End::Fin),
        ..Options::default()
    };
    let server = Server::start(options).expect("the server starts");
    let output = output_of(&["-d200ms", &server.url()]);
    assert_eq!(output.code, Some(1));
    assert!(output.stdout.contains("\nRequests/sec:      0.00\n"));
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
}

#[test]
fn an_output_file_in_a_missing_folder_is_refused_before_the_run() {
    let (server, folder) = (server(), Folder::new());
    let json = folder.file("missing/r.json");
    let output = output_of(&["-n50", "--json", &json, &server.url()]);
    assert_eq!(output.code, Some(1));
    assert_eq!(output.stdout, "");
    assert!(
        output.stderr.starts_with("wrkbench: --json "),
        "{}",
        output.stderr
    );
    assert_eq!(server.stop().counts.requests, 0);
}

/// The last error of a run that fails and prints its report all the same.
fn error_after_report(arguments: &[&str]) -> String {
    let output = output_of(arguments);
    assert_eq!(output.code, Some(1));
    let has_report = output.stdout.contains("\nRequests/sec: ");
    assert!(has_report, "{}", output.stdout);
    output.stderr.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn a_document_that_cannot_be_written_does_not_lose_the_report() {
    let server = server();
    let last = error_after_report(&["-n50", "--json", "/dev/full", &server.url()]);
    assert!(
        last.starts_with("wrkbench: --json \"/dev/full\": cannot write"),
        "{last}"
    );
}

#[test]
fn an_error_in_done_loses_neither_report_nor_document() {
    let (server, folder) = (server(), Folder::new());
    let script = folder.file_with("s.lua", "function done()\n  error('on purpose')\nend\n");
    let json = folder.file("r.json");
    let last = error_after_report(&["-n50", "-s", &script, "--json", &json, &server.url()]);
    assert!(
        last.contains("s.lua:2") && last.contains("on purpose"),
        "{last}"
    );
    assert_eq!(loaded_from(&json).recording.counters.answered, 50);
}

#[test]
fn a_script_prints_in_order_with_the_report() {
    let (server, folder) = (server(), Folder::new());
    let script = folder.file_with(
        "s.lua",
        "function init(args) print('init ' .. args[1]) end\nfunction done() print('done') end\n",
    );
    let output = output_of(&["-n50", "-s", &script, &server.url(), "word"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let stdout = output.stdout;
    assert!(
        stdout.starts_with("init word\nRunning 50 requests"),
        "{stdout}"
    );
    assert!(stdout.ends_with("\ndone\n"), "{stdout}");
}

#[test]
fn a_closed_stdout_ends_the_program_quietly_before_the_load() {
    let server = server();
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    drop(reader);
    let output = command(&["-n50", "-q", &server.url()])
        .stdout(writer)
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(output.stderr, b"");
    assert_eq!(server.stop().counts.requests, 0);
}

#[test]
fn ctrl_c_ends_the_run_with_a_report_and_exit_code_0() {
    let (server, folder) = (server(), Folder::new());
    let json = folder.file("r.json");
    let mut process = start(&["-d1h", "--json", &json, &server.url()]);
    process.await_line(|line| line.starts_with("Running 60m test @ "));
    process.signal("INT");
    let output = process.finish();
    assert!(output.stdout.contains("\nRequests/sec: "), "{output:?}");
    assert_eq!(output.code, Some(0));
    assert!(loaded_from(&json).window.interrupted);
}

#[test]
fn sigterm_ends_the_run_with_a_report_and_exit_code_143() {
    let server = server();
    let mut process = start(&["-d1h", &server.url()]);
    process.await_line(|line| line.starts_with("Running "));
    process.signal("TERM");
    let output = process.finish();
    assert!(output.stdout.contains("\nRequests/sec: "), "{output:?}");
    assert_eq!(output.code, Some(143));
}

#[test]
fn a_second_ctrl_c_ends_the_program_at_once() {
    /// Signals that come while one is pending are merged into one, so two may not be enough.
    const SIGNALS_MAX: usize = 1000;
    let (server, folder) = (server(), Folder::new());
    let script = folder.file_with(
        "s.lua",
        "function done()\n  print('in done')\n  io.flush()\n  while true do end\nend\n",
    );
    let mut process = start(&["-n50", "-s", &script, &server.url()]);
    process.await_line(|line| line == "in done\n");
    let code = (0..SIGNALS_MAX).find_map(|_| {
        process.signal("INT");
        process.ended()
    });
    assert_eq!(code, Some(Some(130)));
}

#[test]
fn the_server_prints_its_address_and_counts_at_the_end() {
    let folder = Folder::new();
    let log = folder.file("log.csv");
    let mut process = start(&[
        "serve", "--listen", "0", "--answer", "size=10", "--log", &log,
    ]);
    let line = process.next_line().expect("it says something");
    let url = line
        .strip_prefix("serving ")
        .expect("the address is announced")
        .trim_end();
    let run = output_of(&["-n50", "--json", "-", url]);
    let answered = loaded(run.stdout.as_bytes()).recording.counters.answered;
    process.signal("INT");
    let output = process.finish();
    let (_, counts) = output.stdout.split_once('\n').expect("two lines");
    let counts: serde_json::Value = serde_json::from_str(counts).expect("it is JSON");
    assert_eq!(output.code, Some(0));
    assert!(counts["responses"].as_u64() >= Some(answered), "{counts}");
    let log = fs::read_to_string(log).expect("the log is there");
    assert_eq!(
        Some(log.lines().count() as u64 - 1),
        counts["requests"].as_u64()
    );
}

#[test]
fn the_server_uses_tls_with_its_own_certificate() {
    let mut process = start(&["serve", "--listen", "0", "--tls"]);
    let line = process.next_line().expect("it says something");
    let url = line
        .strip_prefix("serving ")
        .expect("the address is announced")
        .trim_end();
    assert!(url.starts_with("https://"), "{url}");
    let run = output_of(&["-n50", "--json", "-", url]);
    assert_eq!(
        loaded(run.stdout.as_bytes()).recording.counters.answered,
        50
    );
    process.signal("TERM");
    assert_eq!(process.finish().code, Some(0));
}

#[test]
fn an_address_that_is_taken_is_one_line_and_exit_code_1() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener
        .local_addr()
        .expect("it has an address")
        .to_string();
    let output = output_of(&["serve", "--listen", &address]);
    assert_eq!(output.code, Some(1));
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    assert_eq!(output.stdout, "");
}
