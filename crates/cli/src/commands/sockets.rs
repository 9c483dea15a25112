//! The list of sockets, once or again and again.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use telemetry::sockets::{Diag, Filter, Socket};

use super::interrupts::{Interrupts, signal_pipe};
use crate::args::SocketsRequest;

/// Lists sockets.
///
/// # Errors
/// When the kernel does not tell, or stdout takes nothing.
pub(super) fn sockets(request: &SocketsRequest) -> anyhow::Result<ExitCode> {
    let mut list = List {
        diag: Diag::open().context(NOT_TOLD)?,
        sockets: Vec::new(),
    };
    match request.interval {
        None => {
            list.print(&request.filter, None)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(interval) => watch(&mut list, &request.filter, interval),
    }
}

const NOT_TOLD: &str = "sockets: the kernel does not list its sockets (sock_diag, module tcp_diag)";

/// Prints a list at once and then after each interval, until a signal. A list that takes longer than
/// the interval leaves out those that were due meanwhile.
fn watch(list: &mut List, filter: &Filter, interval: Duration) -> anyhow::Result<ExitCode> {
    let interrupts = Interrupts::watch().context("cannot watch for Ctrl-C")?;
    let mut signals = signal_pipe().context("cannot watch for Ctrl-C")?;
    let begin = now();
    loop {
        let time = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ");
        list.print(filter, Some(&time.to_string()))?;
        let moment = now();
        let rest = rest_of_interval(moment.duration_since(begin), interval);
        wait(&mut signals, moment.checked_add(rest))?;
        if interrupts.has_come() {
            let code = interrupts.exit_code();
            return Ok(code.map_or(ExitCode::SUCCESS, ExitCode::from));
        }
    }
}

/// Time from a moment to the next whole number of intervals.
fn rest_of_interval(elapsed: Duration, interval: Duration) -> Duration {
    let into = elapsed.as_nanos() % interval.as_nanos().max(1);
    // Less than what has elapsed, of which a u64 holds 584 years.
    interval.saturating_sub(Duration::from_nanos(
        u64::try_from(into).unwrap_or(u64::MAX),
    ))
}

/// Waits for a signal until a moment; for ever if there is none that the clock could show.
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
    reason = "no engine runs here whose clock it should be"
)]
fn now() -> Instant {
    Instant::now()
}

struct List {
    diag: Diag,
    sockets: Vec<Socket>,
}

/// A line of the list.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<&'a str>,
    #[serde(flatten)]
    socket: &'a Socket,
}

impl List {
    /// Prints the sockets that there are now, whole lines only.
    fn print(&mut self, filter: &Filter, time: Option<&str>) -> anyhow::Result<()> {
        self.diag
            .dump(filter, &mut self.sockets)
            .context(NOT_TOLD)?;
        let mut lines = Vec::new();
        for socket in &self.sockets {
            serde_json::to_writer(&mut lines, &Line { time, socket })?;
            lines.push(b'\n');
        }
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(&lines).and_then(|()| stdout.flush());
        written.context("sockets: the list cannot be written to stdout")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_stand_on_a_grid_however_long_one_took_and_however_short_the_interval_is() {
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
