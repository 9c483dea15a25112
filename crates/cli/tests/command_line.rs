//! The command line without a server: exit codes, stdout and stderr.

use std::io::Read;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use testkit::Folder;

const PROGRAM: &str = env!("CARGO_BIN_EXE_wrkbench");

fn output_of(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is UTF-8")
}

/// A link named `wrk` to the program, and the folder that contains it.
fn link() -> (Folder, PathBuf) {
    let folder = Folder::new();
    let link = folder.join("wrk");
    symlink(PROGRAM, &link).expect("a link can be made");
    (folder, link)
}

#[test]
fn a_wrong_command_line_is_one_line_on_stderr_and_exit_code_1() {
    let (_folder, link) = link();
    for (program, name) in [(Path::new(PROGRAM), "wrkbench"), (&link, "wrk")] {
        for (arguments, expected) in [
            (
                vec!["-c", "10x", "http://h/"],
                "--connections: \"10x\" is not a number (expected like 100, 10k, 1.5M)",
            ),
            (
                vec!["-t4", "-c2", "http://h/"],
                "--connections 2: number of connections must be >= threads (4)",
            ),
            (
                vec!["--frobnicate"],
                "--frobnicate: unknown option (--help lists all)",
            ),
            (
                vec!["h:80"],
                "invalid URL: \"h:80\" has no scheme (expected like http://host:port/path)",
            ),
        ] {
            let output = output_of(program, &arguments);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}");
            assert_eq!(text(&output.stderr), format!("{name}: {expected}\n"));
            assert_eq!(text(&output.stdout), "", "{arguments:?}");
        }
    }
}

#[test]
fn help_goes_to_stdout_with_exit_code_0_or_1_when_called_as_wrk() {
    let help = output_of(Path::new(PROGRAM), &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("--connections"));
    assert_eq!(text(&help.stderr), "");

    let (_folder, link) = link();
    let usage = output_of(&link, &["--help"]);
    assert_eq!(usage.status.code(), Some(1));
    assert!(text(&usage.stdout).starts_with("Usage: wrk <options> <url>"));
    assert_eq!(text(&usage.stderr), "");
}

#[test]
fn without_a_url_the_usage_goes_to_stdout_and_the_reason_to_stderr() {
    let output = output_of(Path::new(PROGRAM), &[]);
    assert_eq!(output.status.code(), Some(1));
    let stdout = text(&output.stdout);
    assert!(stdout.starts_with("An HTTP load generator"), "{stdout}");
    assert!(stdout.contains("Usage: "), "{stdout}");
    assert_eq!(text(&output.stderr).lines().count(), 1);
}

#[test]
fn the_version_is_one_line_on_stdout() {
    for option in ["-V", "--version", "-v"] {
        let output = output_of(Path::new(PROGRAM), &[option]);
        assert_eq!(output.status.code(), Some(0), "{option}");
        let line = concat!("wrkbench ", env!("CARGO_PKG_VERSION"), " [io_uring|epoll] ");
        let stdout = text(&output.stdout);
        assert!(stdout.starts_with(line), "{stdout}");
        assert_eq!(stdout.lines().count(), 1, "{stdout}");
        assert!(output.stderr.is_empty());
    }
}

#[test]
fn completions_and_the_manual_page_are_printed() {
    for (arguments, part) in [
        (&["completions", "bash"][..], "complete -F"),
        (&["completions", "zsh"], "#compdef wrkbench"),
        (&["completions", "fish"], "complete -c wrkbench"),
        (&["man"], ".TH wrkbench 1"),
    ] {
        let output = output_of(Path::new(PROGRAM), arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(
            text(&output.stdout).contains(part),
            "{arguments:?} lacks {part}"
        );
        assert_eq!(text(&output.stderr), "");
    }
}

#[test]
fn a_closed_stdout_is_no_error_message() {
    let mut child = Command::new(PROGRAM)
        .arg("man")
        .stdin(Stdio::null())
        .stdout(closed_pipe())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    let status = child.wait().unwrap();
    assert_eq!(said, "");
    assert_eq!((status.code(), status.signal()), (Some(141), None));
}

/// The write end of a pipe whose read end is closed.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    drop(reader);
    writer.into()
}
