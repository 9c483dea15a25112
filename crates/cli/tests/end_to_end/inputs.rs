//! Input files: what is not a file is refused at once, and what came through a pipe is read once.

use std::process::Command;

use testkit::{Folder, Process, one_line};

use crate::harness::{call, io_arguments, site};

#[test]
fn no_input_is_read_from_a_device() {
    let site = site();
    let url = site.url("/");
    for arguments in [
        &["har", "/dev/zero"][..],
        &["curl", "curl", "-d", "@/dev/zero", "http://h/"],
        &["--requests", "/dev/zero", &url],
        &["--requests", "/dev/zero"],
        &["replay", "/dev/zero", &url],
        &["--body-file", "/dev/zero", &url],
        &["-s", "/dev/zero", &url],
        &["--cacert", "/dev/zero", "https://127.0.0.1/"],
        &["--once", "--body-file", "/dev/zero", &url],
        &["grpc", "list", "--proto", "/dev/zero"],
        &["sweep", "/dev/zero"],
        &["table", "/dev/zero"],
        &["report", "/dev/zero"],
        &["compare", "/dev/zero", "/dev/zero"],
        &[
            "serve",
            "--tls",
            "--cert",
            "/dev/zero",
            "--key",
            "/dev/zero",
        ],
        &[
            "agent",
            "--nats",
            "nats://127.0.0.1:9",
            "--trust",
            "/dev/zero",
        ],
    ] {
        let output = call(arguments).finish();
        assert_eq!(output.code, Some(1), "{arguments:?}: {output:?}");
        let line = output.stderr.lines().last().unwrap_or_default();
        assert!(
            line.contains("/dev/zero") && line.contains("is a device (expected a file)"),
            "{arguments:?}: {output:?}"
        );
    }
    assert_eq!(site.counts().requests, 0);
}

#[test]
fn a_file_that_a_request_file_names_is_a_regular_file() {
    let site = site();
    let lines = "{\"path\":\"/\",\"body_file\":\"/dev/zero\"}\n";
    let file = site.folder.file_with("f.jsonl", lines);
    let output = call(&["--requests", &file, &site.url("/")]).finish();
    assert_eq!(output.code, Some(1), "{output:?}");
    let said = "f.jsonl:1:25: /dev/zero: not a regular file";
    assert!(one_line(&output.stderr).contains(said), "{output:?}");
}

#[test]
fn an_endless_pipe_ends_at_the_limit_of_its_kind() {
    let folder = Folder::new();
    let spec = format!(
        "{} sweep --dry-run <(yes '# comment')",
        env!("CARGO_BIN_EXE_wrkbench")
    );
    let mut shell = Command::new("bash");
    shell.current_dir(folder.path()).args(["-c", &spec]);
    let output = Process::start(shell).finish();
    assert_eq!(output.code, Some(1), "{output:?}");
    let line = output.stderr.lines().next().unwrap_or_default();
    assert!(line.contains("is larger than 1 MiB"), "{output:?}");
}

#[test]
fn a_log_may_be_compressed_and_come_through_stdin() {
    let site = site();
    let lines: String = (0..20)
        .map(|n| {
            let path = n % 2;
            format!("10.0.0.1 - - [23/Nov/2026:14:00:00 +0000] \"GET /{path} HTTP/1.1\" 200 5\n")
        })
        .collect();
    let log = site.folder.file_with("access.log", lines);
    for input in [format!("cat {log} |"), format!("gzip -c {log} |")] {
        let line = format!(
            "{input} {} replay - -t1 -c2 --speed 10 {} {}",
            env!("CARGO_BIN_EXE_wrkbench"),
            io_arguments().join(" "),
            site.url("/")
        );
        let before = site.counts().requests;
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]);
        let output = Process::start(shell).finish();
        assert_eq!(output.code, Some(0), "{line}: {output:?}");
        assert_eq!(site.counts().requests - before, 20, "{output:?}");
    }
}
