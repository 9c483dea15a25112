//! The guardian process as the sweep sees it, and the messages between the two.
//!
//! They are connected by a pair of sockets. The guardian's end is its stdin. The sweep's end is
//! closed in all other programs that it starts, so it is closed exactly when the sweep's process
//! ends. The guardian's stdout is the lock file: no other sweep can begin before it has restored.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// How long a guardian may take to start and to end.
const GUARDIAN_WITHIN: Duration = Duration::from_secs(10);

/// The guardian's first message: it is watching.
const READY: &str = "ready\n";

/// A message to the guardian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    /// A command starts in this process group.
    Begins(u32),
    /// The command has ended.
    Ended(u32),
    /// Everything is restored: the guardian can end.
    Finished,
}

impl Message {
    fn line(self) -> String {
        match self {
            Self::Begins(group) => format!("begins {group}\n"),
            Self::Ended(group) => format!("ended {group}\n"),
            Self::Finished => "farewell\n".to_owned(),
        }
    }

    /// Reads a line; `None` for an incomplete or unknown one.
    fn of(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n')?;
        match line.split_once(' ') {
            Some(("begins", group)) => group.parse().ok().map(Self::Begins),
            Some(("ended", group)) => group.parse().ok().map(Self::Ended),
            None if line == "farewell" => Some(Self::Finished),
            _ => None,
        }
    }
}

/// A guardian that was started, with this process's end of the link.
pub(super) struct GuardianProcess {
    child: Child,
    link: UnixStream,
}

impl GuardianProcess {
    /// Starts one, and returns when it is watching.
    pub(super) fn start(mut command: Command, lock: Stdio) -> io::Result<Self> {
        let (link, theirs) = UnixStream::pair()?;
        // ps shows this instead of `/proc/self/exe`.
        command.arg0("wrkbench");
        let child = command.stdin(OwnedFd::from(theirs)).stdout(lock).spawn()?;
        // Our copy of the guardian's end must be closed, or its death would not be noticed.
        drop(command);
        let mut watch = Self { child, link };
        let greeted = watch.await_greeting();
        if greeted.is_err() {
            let _ = watch.child.kill();
            let _ = watch.child.wait();
        }
        greeted.map(|()| watch)
    }

    fn await_greeting(&mut self) -> io::Result<()> {
        self.link.set_read_timeout(Some(GUARDIAN_WITHIN))?;
        let mut greeting = [0; READY.len()];
        let read = (&self.link).read_exact(&mut greeting);
        match read {
            Ok(()) if greeting == READY.as_bytes() => Ok(()),
            Ok(()) => Err(io::Error::other("unexpected reply")),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(io::Error::other("it did not start in time"))
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(io::Error::other("it exited immediately"))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether it is still watching.
    pub(super) fn is_alive(&mut self) -> bool {
        // It sends nothing more, so a successful read can only be the end.
        let is_quiet = self.link.set_nonblocking(true).is_ok()
            && matches!((&self.link).read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        let is_blocking = self.link.set_nonblocking(false).is_ok();
        is_quiet && is_blocking && matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a message. If the guardian is dead, this is noticed before the next change.
    pub(super) fn tell(&self, word: Message) {
        let _ = (&self.link).write_all(word.line().as_bytes());
    }

    /// Ends the guardian, and waits until it has gone and the lock is free.
    pub(super) fn dismiss(mut self) {
        self.tell(Message::Finished);
        let _ = self.link.set_read_timeout(Some(GUARDIAN_WITHIN));
        let has_gone = matches!((&self.link).read(&mut [0]), Ok(0));
        if !has_gone {
            // It may have been stopped by a signal. It has nothing left to do, and would keep the
            // lock.
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// What the guardian knows when the sweep's end is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LinkEnd {
    /// There is nothing to restore.
    Finished,
    /// The process died, and this command was still running.
    Death(Option<u32>),
}

/// Reports that the guardian is watching, and reads messages until the other end is closed.
pub(crate) fn listen(link: &UnixStream) -> LinkEnd {
    // If the sweep is already dead, this is noticed below.
    let _ = (&mut { link }).write_all(READY.as_bytes());
    let mut lines = BufReader::new(link);
    let mut running = None;
    loop {
        let mut line = Vec::new();
        // Errors count as the end as well.
        let read = lines.read_until(b'\n', &mut line).unwrap_or_default();
        match Message::of(&String::from_utf8_lossy(&line)) {
            Some(Message::Begins(group)) => running = Some(group),
            Some(Message::Ended(_)) => running = None,
            Some(Message::Finished) => return LinkEnd::Finished,
            None if read == 0 || !line.ends_with(b"\n") => return LinkEnd::Death(running),
            None => {}
        }
    }
}

/// Kills the process group of a dead process, and waits until it is gone.
pub(crate) fn end_group(group: u32, mut pause: impl FnMut(Duration)) {
    /// The number of pauses before giving up: only a process stuck in the kernel, or one that its
    /// parent does not wait for, takes longer.
    const PAUSES: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(10);
    let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) else {
        return;
    };
    let _ = kill_process_group(group, Signal::KILL);
    for _ in 0..PAUSES {
        if test_kill_process_group(group).is_err() {
            return;
        }
        pause(PAUSE);
    }
}
