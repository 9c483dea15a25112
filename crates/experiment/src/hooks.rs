//! Runs hooks, and waits until a server is ready.

use std::collections::BTreeMap;
use std::time::Duration;

use results::HookOutput;

use crate::host::{CommandOutput, Host, HostAccess};

/// How much of each output is kept: its end, where errors are.
const KEPT_BYTES: usize = 16 * 1024;

/// The longest reason, so that it fits on one line of a screen.
const REASON_CHARS: usize = 300;

/// Pause between two readiness checks: short compared with a restart, long compared with a
/// response.
const PAUSE: Duration = Duration::from_millis(50);

/// The time limit of one readiness check. A server that accepted the connection while it was still
/// starting is then asked again.
const QUESTION_LIMIT: Duration = Duration::from_secs(2);

/// The longest wait for the queue of an earlier run.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// Why a command or a run failed, or why there is no run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Failure {
    /// The reason, in one line.
    pub reason: String,
    /// The last lines of the command's output.
    pub said: Vec<String>,
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self {
            reason,
            said: Vec::new(),
        }
    }
}

/// Runs a command and keeps its output. The error is the reason why it failed.
pub(crate) fn run_hook(
    host: &mut dyn HostAccess,
    hook: &str,
    command: &str,
    environment: &BTreeMap<String, String>,
    limit: Duration,
) -> (HookOutput, Result<(), Failure>) {
    let ran = host.run(command, environment, limit);
    let reason = match &ran {
        Ok(output) if output.exit_code == Some(0) && !output.timed_out => None,
        Ok(output) => Some(output.failure()),
        Err(error) => Some(format!("cannot be started ({error})")),
    };
    let output = ran.unwrap_or_default();
    let judged = reason.map_or(Ok(()), |reason| {
        Err(Failure {
            reason: one_line(&format!("{hook}: `{command}` {reason}")),
            said: output.last_lines(),
        })
    });
    (kept(hook, command, &output), judged)
}

/// The record of a command that has run.
pub(crate) fn kept(hook: &str, command: &str, output: &CommandOutput) -> HookOutput {
    HookOutput {
        hook: hook.to_owned(),
        command: command.to_owned(),
        exit_code: output.exit_code,
        duration_ms: u64::try_from(output.duration.as_millis()).unwrap_or(u64::MAX),
        stdout: end_of(&output.stdout),
        stderr: end_of(&output.stderr),
    }
}

/// Output of programs can be long and contain anything.
fn one_line(reason: &str) -> String {
    let plain = plan::printable(reason);
    let mut line: String = plain.chars().take(REASON_CHARS).collect();
    if line.len() < reason.len() {
        line.push_str("...");
    }
    line
}

fn end_of(output: &[u8]) -> String {
    let cut = output.len().saturating_sub(KEPT_BYTES);
    let text = String::from_utf8_lossy(&output[cut..]);
    if cut == 0 {
        text.into_owned()
    } else {
        format!("[{cut} bytes omitted]\n{text}")
    }
}

/// Sends requests until a response is accepted or the time is over.
///
/// # Errors
/// The reason why the server was not ready, in one line; `None` if `is_interrupted` returned true.
pub(crate) fn await_ready(
    host: &mut dyn Host,
    url: &str,
    takes: impl Fn(u16) -> bool,
    within: Duration,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<(), Option<String>> {
    let deadline_ns = later(host.now_ns(), within);
    loop {
        let left = Duration::from_nanos(deadline_ns.saturating_sub(host.now_ns()));
        // The first request is sent however short the time is.
        let limit = left.clamp(PAUSE, QUESTION_LIMIT);
        let last = match host.http_status(url, limit) {
            Ok(status) if takes(status) => return Ok(()),
            Ok(status) => format!("status {status}"),
            Err(error) => error.to_string(),
        };
        if is_interrupted() {
            return Err(None);
        }
        if later(host.now_ns(), PAUSE) >= deadline_ns {
            let within = plan::units::time(within);
            return Err(Some(format!("{url} not ready within {within}: {last}")));
        }
        host.sleep(PAUSE);
    }
}

/// Waits until the server has answered a request. It answers that one after the requests that an
/// overloading run has left in its queue. A failure is ignored: the next run shows whether the
/// server works.
pub(crate) fn await_idle(host: &mut dyn Host, url: &str) {
    let _ = host.http_status(url, IDLE_LIMIT);
}

/// Waits for `duration`, or until `is_interrupted` returns true.
pub(crate) fn settle(host: &mut dyn Host, duration: Duration, is_interrupted: &dyn Fn() -> bool) {
    let end_ns = later(host.now_ns(), duration);
    while !is_interrupted() {
        let left = Duration::from_nanos(end_ns.saturating_sub(host.now_ns()));
        if left.is_zero() {
            return;
        }
        host.sleep(left.min(PAUSE));
    }
}

/// The moment after this time, nanoseconds.
pub(crate) fn later(now_ns: u64, duration: Duration) -> u64 {
    now_ns.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io;

    use super::*;
    use crate::fake::Fake;

    const LIMIT: Duration = Duration::from_secs(5);
    const URL: &str = "http://h/";

    fn hook(output: CommandOutput) -> (HookOutput, Result<(), Failure>) {
        let mut host = Fake::default();
        host.on_command("x", move |_, _| output.clone());
        run_hook(&mut host, "restart", "x", &BTreeMap::new(), LIMIT)
    }

    fn command_output(exit_code: Option<i32>, stdout: &[u8], stderr: &[u8]) -> CommandOutput {
        CommandOutput {
            exit_code,
            stdout: stdout.to_vec(),
            stderr: stderr.to_vec(),
            ..CommandOutput::default()
        }
    }

    #[test]
    fn the_failure_of_a_command_is_described_in_one_line() {
        for (output, expected) in [
            (command_output(Some(0), b"", b"warning\n"), Ok(())),
            (
                command_output(Some(3), b"out", b""),
                Err("restart: `x` failed with exit code 3"),
            ),
            (
                command_output(Some(1), b"", b"a\nthe end\n\n"),
                Err("restart: `x` failed with exit code 1: the end"),
            ),
            (
                command_output(None, b"", b""),
                Err("restart: `x` was killed by a signal"),
            ),
            (
                CommandOutput {
                    duration: LIMIT * 2,
                    ..command_output(Some(0), b"", b"")
                },
                Err("restart: `x` took longer than 5.0 s and was killed"),
            ),
        ] {
            let (_, judged) = hook(output);
            let reason = judged.map_err(|failure| failure.reason);
            assert_eq!(reason, expected.map_err(str::to_owned));
        }
    }

    #[test]
    fn a_reason_is_one_line_however_long_the_output() {
        let (_, judged) = hook(command_output(Some(1), b"", &[b'a'; 5000]));
        let reason = judged.unwrap_err().reason;
        assert!(reason.ends_with("aaa...") && reason.len() < 400, "{reason}");
    }

    #[test]
    fn the_last_lines_of_a_failed_command_are_reported_stderr_first() {
        let told = |stdout: &str, stderr: &str| {
            let (_, judged) = hook(command_output(
                Some(1),
                stdout.as_bytes(),
                stderr.as_bytes(),
            ));
            judged.unwrap_err().said
        };
        assert_eq!(
            told(
                "checking\n",
                "nginx: [emerg] unknown directive\n\n\tin nginx.conf:3\nfailed\n"
            ),
            [
                "stderr: nginx: [emerg] unknown directive",
                "stderr:  in nginx.conf:3",
                "stderr: failed",
                "stdout: checking"
            ]
        );
        // The only line is part of the reason.
        assert_eq!(told("", "no unit\n"), Vec::<String>::new());
        assert_eq!(told("only here\n", ""), ["stdout: only here"]);
        let long: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let told = told("out\n", &long);
        assert_eq!(told.len(), 12);
        assert_eq!(told.first().map(String::as_str), Some("stderr: line 88"));
    }

    #[test]
    fn the_end_of_long_output_is_kept() {
        let mut long = vec![b'a'; KEPT_BYTES];
        long.extend(b"bcd");
        let (kept, _) = hook(command_output(Some(0), &long, b"short"));
        let (note, text) = kept.stdout.split_once('\n').unwrap();
        assert_eq!(note, "[3 bytes omitted]");
        assert_eq!((text.len(), &text[KEPT_BYTES - 4..]), (KEPT_BYTES, "abcd"));
        assert_eq!(kept.stderr, "short");
    }

    fn ready(answers: Vec<io::Result<u16>>, within_ms: u64) -> (Result<(), Option<String>>, Fake) {
        let mut host = Fake::default();
        host.responses
            .insert(URL.to_owned(), VecDeque::from(answers));
        let within = Duration::from_millis(within_ms);
        let outcome = await_ready(&mut host, URL, |status| status == 200, within, &|| false);
        (outcome, host)
    }

    fn refused() -> io::Result<u16> {
        Err(io::ErrorKind::ConnectionRefused.into())
    }

    #[test]
    fn requests_are_repeated_until_the_server_is_ready() {
        let (outcome, host) = ready(vec![refused(), Ok(503), Ok(200)], 10_000);
        assert_eq!(outcome, Ok(()));
        assert_eq!(host.log.len(), 3);
        assert_eq!(host.now_ns(), 100_000_000);
    }

    #[test]
    fn a_server_that_is_not_ready_in_time_is_reported_with_its_last_response() {
        let answers = || (0..100).map(|_| Ok(503)).collect();
        let (outcome, host) = ready(answers(), 1000);
        let line = "http://h/ not ready within 1s: status 503";
        assert_eq!(outcome, Err(Some(line.to_owned())));
        assert!(host.now_ns() <= 1_000_000_000);
        // The server is asked once however short the time is.
        let (_, host) = ready(answers(), 0);
        assert_eq!(host.log.len(), 1);
    }

    #[test]
    fn an_interrupt_ends_the_wait() {
        let mut host = Fake::default();
        host.responses
            .insert(URL.to_owned(), VecDeque::from(vec![refused()]));
        let outcome = await_ready(&mut host, URL, |_| true, LIMIT, &|| true);
        assert_eq!(outcome, Err(None));
        settle(&mut host, LIMIT, &|| true);
        assert_eq!(host.now_ns(), 0);
        settle(&mut host, Duration::from_millis(1234), &|| false);
        assert_eq!(host.now_ns(), 1_234_000_000);
    }
}
