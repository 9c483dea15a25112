//! `wrkbench sockets`: lists sockets, once or periodically.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use telemetry::sockets::{Diag, Filter, Socket};

use super::interrupts::{Interrupts, signal_pipe};
use crate::args::SocketsRequest;
use crate::console::Console;

/// # Errors
/// When the kernel cannot list sockets, or stdout cannot be written.
pub(super) fn sockets(request: &SocketsRequest, console: &Console) -> anyhow::Result<ExitCode> {
    let mut list = SocketList {
        diag: Diag::open().context(CANNOT_LIST)?,
        sockets: Vec::new(),
    };
    match request.interval {
        None => {
            list.print(&request.filter, None, console)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(interval) => watch(&mut list, &request.filter, interval, console),
    }
}

const CANNOT_LIST: &str =
    "sockets: the kernel cannot list its sockets (sock_diag, module tcp_diag)";

/// Prints a list at once and then at each interval, until a signal. If a list takes longer than the
/// interval, those that were due in the meantime are skipped.
fn watch(
    list: &mut SocketList,
    filter: &Filter,
    interval: Duration,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let interrupts = Interrupts::watch(console).context("cannot watch for Ctrl-C")?;
    let mut signals = signal_pipe().context("cannot watch for Ctrl-C")?;
    let begin = now();
    loop {
        let time = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ");
        list.print(filter, Some(&time.to_string()), console)?;
        let moment = now();
        let rest = rest_of_interval(moment.duration_since(begin), interval);
        wait(&mut signals, moment.checked_add(rest))?;
        if interrupts.has_come() {
            let code = interrupts.exit_code();
            return Ok(code.map_or(ExitCode::SUCCESS, ExitCode::from));
        }
    }
}

/// Time to the next multiple of the interval.
fn rest_of_interval(elapsed: Duration, interval: Duration) -> Duration {
    let into = elapsed.as_nanos() % interval.as_nanos().max(1);
    // Less than the elapsed time, and a u64 holds 584 years.
    interval.saturating_sub(Duration::from_nanos(
        u64::try_from(into).unwrap_or(u64::MAX),
    ))
}

/// Waits for a signal until `due`, or forever without it.
fn wait(signals: &mut UnixStream, due: Option<Instant>) -> io::Result<()> {
    loop {
        let rest = due.map(|due| due.saturating_duration_since(now()));
        if rest == Some(Duration::ZERO) {
            return Ok(());
        }
        signals.set_read_timeout(rest)?;
        match signals.read_exact(&mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "no engine runs here whose clock could be used"
)]
fn now() -> Instant {
    Instant::now()
}

struct SocketList {
    diag: Diag,
    sockets: Vec<Socket>,
}

#[derive(Serialize)]
struct SocketLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<&'a str>,
    #[serde(flatten)]
    socket: &'a Socket,
}

impl SocketList {
    /// Prints the current sockets, whole lines only.
    fn print(
        &mut self,
        filter: &Filter,
        time: Option<&str>,
        console: &Console,
    ) -> anyhow::Result<()> {
        self.diag
            .dump(filter, &mut self.sockets)
            .context(CANNOT_LIST)?;
        let mut lines = Vec::new();
        for socket in &self.sockets {
            serde_json::to_writer(&mut lines, &SocketLine { time, socket })?;
            lines.push(b'\n');
        }
        let mut stdout = &console.stdout;
        let written = stdout.write_all(&lines).and_then(|()| stdout.flush());
        written.context("sockets: cannot write the list to stdout")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_due_at_multiples_of_the_interval_however_long_one_takes() {
        let rest = |elapsed_ns, interval_ns| {
            let of = Duration::from_nanos;
            rest_of_interval(of(elapsed_ns), of(interval_ns)).as_nanos()
        };
        assert_eq!(rest(0, 1000), 1000);
        assert_eq!(rest(300, 1000), 700);
        assert_eq!(rest(1000, 1000), 1000);
        assert_eq!(rest(2500, 1000), 500);
        assert_eq!(rest(u64::MAX, 1), 1);
        assert_eq!(rest(5, u64::MAX), u128::from(u64::MAX) - 5);
        let longest = rest_of_interval(Duration::from_secs(1), Duration::MAX);
        assert_eq!(longest, Duration::MAX - Duration::from_secs(1));
    }
}
