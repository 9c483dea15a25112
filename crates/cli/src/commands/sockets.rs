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
    let mut due = now();
    loop {
        let time = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ");
        list.print(filter, Some(&time.to_string()))?;
        while due <= now() {
            due += interval;
        }
        if is_signalled_before(&mut signals, due)? {
            return Ok(interrupts
                .exit_code()
                .map_or(ExitCode::SUCCESS, ExitCode::from));
        }
    }
}

/// Waits for a signal until a moment.
fn is_signalled_before(signals: &mut UnixStream, due: Instant) -> io::Result<bool> {
    loop {
        let rest = due.saturating_duration_since(now());
        if rest.is_zero() {
            return Ok(false);
        }
        signals.set_read_timeout(Some(rest))?;
        match signals.read_exact(&mut [0]) {
            Ok(()) => return Ok(true),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock) => {}
            Err(error) => return Err(error),
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
