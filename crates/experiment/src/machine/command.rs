//! Runs a shell command line in its own process group, with a time limit and bounded output.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::guardian_process::{GuardianProcess, Message};
use super::now_ns;
use crate::hooks::later;
use crate::host::CommandOutput;

/// How much of each stream is kept: the end, where programs report errors.
const KEPT_BYTES: usize = 64 * 1024;

/// How much is still read after the command has ended: more than the default size of a pipe
/// (pipe(7)).
const LAST_BYTES: usize = 1 << 20;

/// Pause between checks of a process without a pidfd (kernels before 5.3).
const LOOK: Duration = Duration::from_millis(10);

/// Interval of the reports that a command is still running.
const TELL: Duration = Duration::from_millis(500);

/// How long to wait for the end of a killed process; only a process stuck in the kernel takes
/// longer.
const KILLED_WITHIN: Duration = Duration::from_secs(5);

/// Waits for a line before the command starts. The guardian first learns of the process group: if
/// this process dies in between, the line never comes; if it dies later, the guardian kills the
/// command before it restores.
const GATE: &str = "read -r go && exec sh -c \"$1\" </dev/null";

/// Runs the command; see [`crate::Host::run`].
pub(super) fn run(
    command: &str,
    environment: &BTreeMap<String, String>,
    limit: Duration,
    watch: Option<&GuardianProcess>,
    tell: &mut dyn FnMut(Duration),
) -> io::Result<CommandOutput> {
    let started_ns = now_ns();
    let mut child = Command::new("sh")
        .args(["-c", GATE, "sh", command])
        .envs(environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let group = child.id();
    if let Some(watch) = watch {
        watch.tell(Message::Begins(group));
    }
    if let Some(mut gate) = child.stdin.take() {
        // If the process was killed meanwhile, this is found below.
        let _ = gate.write_all(b"\n");
    }
    let mut stdout = Capture::of(child.stdout.take().map(OwnedFd::from))?;
    let mut stderr = Capture::of(child.stderr.take().map(OwnedFd::from))?;
    let timed_out = follow(&mut child, limit, &mut stdout, &mut stderr, tell)?;
    let status = child.wait()?;
    if let Some(watch) = watch {
        watch.tell(Message::Ended(group));
    }
    Ok(CommandOutput {
        exit_code: if timed_out { None } else { status.code() },
        timed_out,
        duration: Duration::from_nanos(now_ns().saturating_sub(started_ns)),
        stdout: stdout.finish(),
        stderr: stderr.finish(),
    })
}

/// Reads the command's output until it ends, or until it was killed at its time limit. A background
/// process may keep the streams open; it is not waited for.
fn follow(
    child: &mut Child,
    limit: Duration,
    stdout: &mut Capture,
    stderr: &mut Capture,
    tell: &mut dyn FnMut(Duration),
) -> io::Result<bool> {
    let began_ns = now_ns();
    let pid = Pid::from_child(child);
    let handle = pidfd_open(pid, PidfdFlags::empty()).ok();
    let mut end_ns = later(now_ns(), limit);
    let mut timed_out = false;
    loop {
        let left = Duration::from_nanos(end_ns.saturating_sub(now_ns()));
        let ended = match &handle {
            Some(handle) => wait(&[stdout, stderr], Some(handle), left.min(TELL))?,
            None => {
                wait(&[stdout, stderr], None, left.min(LOOK))?;
                child.try_wait()?.is_some()
            }
        };
        stdout.read_some();
        stderr.read_some();
        if ended {
            return Ok(timed_out);
        }
        tell(Duration::from_nanos(now_ns().saturating_sub(began_ns)));
        if end_ns <= now_ns() {
            if timed_out {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "it exceeded its time limit and could not be killed",
                ));
            }
            // The process has not been waited for, so the ID still belongs to our group.
            let _ = kill_process_group(pid, Signal::KILL);
            timed_out = true;
            end_ns = later(now_ns(), KILLED_WITHIN);
        }
    }
}

/// Waits for output, for the end of the process (`true`), or for the deadline.
fn wait(
    captures: &[&mut Capture; 2],
    handle: Option<&OwnedFd>,
    time: Duration,
) -> io::Result<bool> {
    let pipes = captures.iter().filter_map(|capture| capture.pipe.as_ref());
    let mut polled: Vec<_> = handle
        .into_iter()
        .chain(pipes)
        .map(|descriptor| PollFd::new(descriptor, PollFlags::IN))
        .collect();
    let time = Timespec::try_from(time).map_err(|_| io::ErrorKind::InvalidInput)?;
    match poll(&mut polled, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let process = polled.first().filter(|_| handle.is_some());
    Ok(process.is_some_and(|process| !process.revents().is_empty()))
}

/// The end of a stream's output.
struct Capture {
    /// `None` when the other end is closed.
    pipe: Option<OwnedFd>,
    kept: Vec<u8>,
    left_out: u64,
}

impl Capture {
    fn of(pipe: Option<OwnedFd>) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(Self {
            pipe,
            kept: Vec::new(),
            left_out: 0,
        })
    }

    /// Reads at most one buffer of available data; returns its length.
    fn read_some(&mut self) -> usize {
        let Some(pipe) = &self.pipe else { return 0 };
        let mut buffer = [0; KEPT_BYTES];
        match rustix::io::read(pipe.as_fd(), &mut buffer) {
            Ok(read @ 1..) => {
                self.keep(buffer.get(..read).unwrap_or_default());
                read
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => 0,
            Ok(_) | Err(_) => {
                self.pipe = None;
                0
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        let excess = self.kept.len().saturating_sub(KEPT_BYTES);
        self.kept.drain(..excess);
        self.left_out = self.left_out.saturating_add(excess as u64);
    }

    /// The output so far, with a note if its beginning is missing.
    fn finish(mut self) -> Vec<u8> {
        let mut last_bytes = 0;
        while last_bytes < LAST_BYTES {
            match self.read_some() {
                0 => break,
                read => last_bytes += read,
            }
        }
        if let Some(pipe) = self.pipe {
            read_away(pipe);
        }
        if self.left_out == 0 {
            return self.kept;
        }
        let mut text = format!("[{} bytes omitted]\n", self.left_out).into_bytes();
        text.extend(self.kept);
        text
    }
}

/// A server that a hook has started may still write to the hook's streams. If they were closed,
/// SIGPIPE would kill the server; if they were not read, it would block on a full pipe. So they are
/// read as long as it lives.
fn read_away(pipe: OwnedFd) {
    if rustix::io::ioctl_fionbio(&pipe, false).is_err() {
        return;
    }
    let mut pipe = std::fs::File::from(pipe);
    let read = move || {
        let mut buffer = [0; 4096];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => return,
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
                _ => {}
            }
        }
    };
    // Without a thread the pipe is closed.
    let _ = thread::Builder::new()
        .name("hook-output".to_owned())
        .spawn(read);
}
