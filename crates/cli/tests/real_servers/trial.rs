//! A run against a server, and what must hold of it.

use std::process::{Command, Stdio};

use eventloop::uring::Uring;
use results::RunResult;

/// The connections of a run.
pub(crate) const CONNECTIONS: u64 = 8;
/// Requests that a server may have seen in addition to the answered ones: those in flight at the
/// end and the connection that checks whether the server is there.
pub(crate) const SEEN_BEYOND: u64 = CONNECTIONS + 1;

/// One response as seen by `curl`.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) status: u16,
    /// Bytes as they came: head, chunk framing, body.
    pub(crate) bytes: u64,
    pub(crate) head: String,
}

/// One response, received by curl. `--raw` keeps chunks and compression.
pub(crate) fn sample(arguments: &[&str], url: &str) -> Sample {
    let output = Command::new("curl")
        .args(["-sSki", "--raw", "--max-time", "30"])
        .args(["-H", "User-Agent:", "-H", "Accept:"])
        .args(arguments)
        .arg(url)
        .output()
        .expect("curl starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "curl {url}: {errors}");
    let head = output
        .stdout
        .windows(4)
        .position(|four| four == b"\r\n\r\n");
    let head = String::from_utf8_lossy(&output.stdout[..head.expect("a head has an end")]);
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    Sample {
        status: status.unwrap_or_else(|| panic!("no status: {head}")),
        bytes: output.stdout.len() as u64,
        head: head.into_owned(),
    }
}

/// Makes a short run on each backend that this kernel allows. Fails if a result contradicts itself.
/// contradict themselves fail here.
pub(crate) fn each_backend(arguments: &[&str], url: &str) -> Vec<RunResult> {
    let allowed = backends().iter();
    allowed.map(|io| run(io, arguments, url)).collect()
}

pub(crate) fn backends() -> &'static [&'static str] {
    match testkit::require_ok("io_uring", Uring::probe()) {
        Some(()) => &["uring", "epoll"],
        None => &["epoll"],
    }
}

pub(crate) fn run(io: &str, arguments: &[&str], url: &str) -> RunResult {
    let connections = format!("-c{CONNECTIONS}");
    let common = ["-t2", "-d500ms", connections.as_str()];
    result_of(io, &[&common, arguments].concat(), url)
}

/// The result of `wrkbench llm`.
pub(crate) fn llm(io: &str, arguments: &[&str], url: &str) -> RunResult {
    result_of(io, &[&["llm"], arguments].concat(), url)
}

fn result_of(io: &str, arguments: &[&str], url: &str) -> RunResult {
    let output = Command::new(env!("CARGO_BIN_EXE_wrkbench"))
        .args(arguments)
        .args(["--io", io, "--json", "-"])
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{io} {url}: {errors}");
    let result = results::file::load(output.stdout.as_slice())
        .unwrap_or_else(|error| panic!("{io} {url}: {error}"));
    assert_eq!(results::check(&result), Ok(()), "{io} {url}");
    result
}

/// There are responses, all have this status, and nothing failed.
pub(crate) fn assert_clean(result: &RunResult, status: u16) {
    let recording = &result.recording;
    let counters = &recording.counters;
    let errors: Vec<_> = recording.errors.iter().collect();
    assert_eq!(errors, [], "{}: {counters:?}", result.backend.name);
    assert!(counters.answered > 0, "{counters:?}");
    assert_eq!(
        recording.statuses.iter().collect::<Vec<_>>(),
        [(status, counters.answered)]
    );
    assert!(counters.in_flight <= CONNECTIONS, "{counters:?}");
}

/// The bytes are those of the responses, and at most part of one more on each connection.
pub(crate) fn assert_bytes(result: &RunResult, of_one: u64) {
    let counters = &result.recording.counters;
    let least = counters.answered * of_one;
    let most = least + CONNECTIONS * of_one;
    assert!(
        (least..=most).contains(&counters.bytes),
        "{of_one}: {counters:?}"
    );
}

/// The server logged what these runs counted, and at most what was in flight at the end of each.
/// `others` is the number of requests of other clients.
pub(crate) fn assert_logged(results: &[RunResult], others: u64, logged: u64) {
    let of_each = results
        .iter()
        .map(|result| result.recording.counters.answered);
    let least = of_each.sum::<u64>() + others;
    let most = least + SEEN_BEYOND * results.len() as u64;
    assert!(
        (least..=most).contains(&logged),
        "{least}..={most}: {logged}"
    );
}
