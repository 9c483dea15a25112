//! Runs a line of shell: in a process group of its own, with a time limit, what it says kept in bounds.

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
use crate::host::CommandOutput;

/// How much of each stream is kept: the end, where programs put what went wrong.
const KEPT_BYTES: usize = 64 * 1024;

/// How much is still read when the command has ended: more than a pipe holds by default (pipe(7)).
const LAST_BYTES: usize = 1 << 20;

/// Longest pause between looks at a process where the kernel gives no descriptor for it (before 5.3).
const LOOK: Duration = Duration::from_millis(10);

/// So often it is told that a command still runs.
const TELL: Duration = Duration::from_millis(500);

/// How long an end is awaited that nothing can prevent, but for a process stuck in the kernel.
const KILLED_WITHIN: Duration = Duration::from_secs(5);

/// Waits for a line before it begins. The guardian is told first who begins: if this process dies in
/// between, the line never comes, and if it dies later, the guardian ends the command before it puts things back.
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
        // It may have been killed by somebody: then that is what is found below.
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

/// Reads what the child says until it ends, or until its time is over and it has been ended. What it
/// leaves in the background may keep the streams open; that is not waited for.
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
                    "it took too long, and could not be ended",
                ));
            }
            // Not waited for yet, so the number is still that of our group.
            let _ = kill_process_group(pid, Signal::KILL);
            timed_out = true;
            end_ns = later(now_ns(), KILLED_WITHIN);
        }
    }
}

/// Waits for output, for the end of the process (`true`), or for the time.
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

fn later(now_ns: u64, duration: Duration) -> u64 {
    now_ns.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// The end of what a stream says.
struct Capture {
    /// `None` when it has been closed at the other end.
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

    /// Reads what is there, at most one buffer; how much it was.
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

    /// What was said up to now, with a note if its beginning is missing.
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
        let mut text = format!("[{} bytes before this are left out]\n", self.left_out).into_bytes();
        text.extend(self.kept);
        text
    }
}

/// A server that a hook has started may still write to the hook's streams. Closing them would end it
/// with SIGPIPE, and leaving them unread would stop it when the pipe is full; so they are read as long as it lives.
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
