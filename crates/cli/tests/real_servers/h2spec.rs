//! h2specd, the test of HTTP/2 clients in h2spec: a server that breaks the rules of RFC 9113 in 57
//! ways, and judges what the client does. `scripts/install-h2specd.sh` builds it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::trial::backends;
use testkit::{Folder, require_ok};

/// The server listens on a port for each case.
const CASES: u16 = 57;
/// Below the ports that the kernel gives to clients.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Two requests on one connection. A case is over when the server has seen its connection end, so
/// the run must not end with the first response: the second request, which has none, keeps it going
/// until the client has read what the server sends next. If the server does not say anything, the
/// timeout ends the run.
const ARGUMENTS: &str = "--http2 -t1 -c1 -m2 -n2 -d1500ms -T1s -q";

fn program() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    let program = target.expect("it has a parent").join("readers/h2specd");
    let found = if program.is_file() {
        Ok(program)
    } else {
        Err("not built; `make h2specd` builds it with Go")
    };
    require_ok("h2specd", found)
}

/// The first of as many free ports as there are cases.
fn free_ports() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let starts = PORTS.step_by(usize::from(CASES));
    let mut free = starts.filter(|first| (*first..first + CASES).all(|port| is_free(&port)));
    free.next().expect("there are free ports")
}

#[test]
fn every_case_of_h2spec_passes() {
    let Some(program) = program() else { return };
    for io in backends() {
        // On a busy machine h2specd may see the end of a connection (EOF) before it looks for it,
        // and takes that for an error of its own. A case that fails by our fault fails again.
        let first = failures(&program, io);
        if let Some(report) = first.and_then(|_| failures(&program, io)) {
            panic!("{io}: {report}");
        }
    }
}

/// The report of all cases, if some did not pass.
fn failures(program: &Path, io: &str) -> Option<String> {
    let folder = Folder::new();
    let client = format!("{} {ARGUMENTS} --io {io}", env!("CARGO_BIN_EXE_wrkbench"));
    let output = Command::new(program)
        .args(["--from-port", &free_ports().to_string(), "--exec", &client])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    let reset = resets(&report);
    let passed = u32::from(CASES) - reset;
    let passed = format!("{CASES} tests, {passed} passed, 0 skipped, {reset} failed");
    (!report.contains(&passed)).then_some(report)
}

/// The cases that wanted the connection to be closed, and got a reset: the kernel sends one if it
/// closes a socket with bytes that nobody has read. Both close the connection (RFC 9113, section
/// 5.4.1); which of them h2specd sees depends on the moment.
fn resets(report: &str) -> u32 {
    let failures = report.split("Failures:").nth(1).unwrap_or_default();
    let lines: Vec<&str> = failures.lines().map(str::trim).collect();
    let is_reset = |pair: &&[&str]| {
        pair[0] == "Expected: Connection closed" && pair[1].ends_with("connection reset by peer")
    };
    u32::try_from(lines.windows(2).filter(is_reset).count()).expect("there are few")
}
