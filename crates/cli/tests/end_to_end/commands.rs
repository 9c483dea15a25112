//! `serve`, `demo`, `completions`, `man`.

use std::process::Command;

use testkit::{Folder, Process};

use crate::harness::{io_arguments, program};
use crate::judge;

#[test]
fn a_server_on_a_unix_socket_counts_what_the_run_counts() {
    let folder = Folder::new();
    let (socket, json, log) = (
        folder.file("s"),
        folder.file("r.json"),
        folder.file("log.csv"),
    );
    let listen = format!("unix:{socket}");
    let mut server = Process::start(program(&[
        "serve",
        "--listen",
        &listen,
        "--answer",
        "size=1k",
        "--log",
        &log,
        "--threads",
        "2",
    ]));
    let line = server.next_line().unwrap();
    assert_eq!(
        line,
        format!("serving http://localhost/ on unix:{socket}\n")
    );
    let mut run = program(&["-n300", "--unix-socket", &socket, "--json", &json]);
    run.args(io_arguments()).arg("http://localhost/");
    let output = Process::start(run).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    server.signal("TERM");
    let output = server.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let counts: serde_json::Value =
        serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    let result = judge::document(&std::fs::read(json).unwrap());
    assert_eq!(result.recording.counters.answered, 300);
    assert_eq!(counts["responses"], 300);
    assert_eq!(counts["bytes_out"], result.recording.counters.bytes);
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log.lines().count(), 301);
    assert!(
        !std::path::Path::new(&socket).exists(),
        "the socket stays behind"
    );
}

#[test]
fn the_demo_prints_a_report_and_saves_the_same_result() {
    let folder = Folder::new();
    let json = folder.file("demo.json");
    let mut demo = program(&["demo", "-d300ms", "--output", &json]);
    demo.args(io_arguments());
    let output = Process::start(demo).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    // Server and generator may compete for the CPUs.
    let is_about_the_machine = |line: &str| line.contains(": note: load generator");
    assert!(
        output.stderr.lines().all(is_about_the_machine),
        "{output:?}"
    );
    let result = judge::document(&std::fs::read(json).unwrap());
    judge::report(&result, &output.stdout);
    assert_eq!(result.recording.errors.events(), 0);
    assert_eq!(result.recording.counters.connections_opened, 64);
}

#[test]
fn ctrl_c_ends_the_demo_with_its_report() {
    let folder = Folder::new();
    let json = folder.file("demo.json");
    let mut demo = program(&["demo", "-d1h", "--output", &json]);
    demo.args(io_arguments());
    let mut demo = Process::start(demo);
    demo.await_line(|line| line.starts_with("Running "));
    demo.signal("INT");
    let output = demo.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        judge::document(&std::fs::read(json).unwrap())
            .window
            .interrupted
    );
}

#[test]
fn the_completions_for_bash_know_the_options() {
    let output = Process::start(program(&["completions", "bash"])).finish();
    assert_eq!(output.code, Some(0));
    let folder = Folder::new();
    let script = folder.file_with("complete.bash", &output.stdout);
    let complete = "source \"$0\"; COMP_WORDS=(wrkbench --conn); COMP_CWORD=1; \
                    _wrkbench wrkbench --conn wrkbench; echo \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", complete, &script]);
    let output = Process::start(bash).finish();
    assert_eq!(output.stdout, "--connections\n", "{output:?}");
}

#[test]
fn each_command_has_help_and_a_manual_page() {
    for command in ["run", "serve", "demo", "sockets", "completions", "man"] {
        let help = Process::start(program(&[command, "--help"])).finish();
        assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""), "{help:?}");
        assert!(help.stdout.contains("Usage: "), "{help:?}");
        let page = Process::start(program(&["man", command])).finish();
        assert_eq!(page.code, Some(0), "{page:?}");
        assert!(
            page.stdout.contains(".TH ") && page.stdout.contains(command),
            "{page:?}"
        );
    }
}
