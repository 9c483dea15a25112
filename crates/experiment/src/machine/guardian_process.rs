//! The guardian from the side of who is guarded, and the words between the two.
//!
//! They are joined by a pair of sockets. The guardian's end is its stdin, ours is closed in every other
//! program that is started, so that it ends with this process and with nothing else. The guardian's stdout is
//! the lock: nobody can begin before it has put things back.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// How long a guardian may take to start, and to end.
const GUARDIAN_WITHIN: Duration = Duration::from_secs(10);

/// What the guardian says when it watches.
const READY: &str = "ready\n";

/// A word to the guardian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    /// A command begins, in this process group.
    Begins(u32),
    /// It has ended.
    Ended(u32),
    /// Everything is back: there is nothing to guard.
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

    /// Reads a line; `None` for one that was cut off, or is no word.
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

/// A guardian that runs.
pub(super) struct GuardianProcess {
    child: Child,
    link: UnixStream,
}

impl GuardianProcess {
    /// Starts one, and returns when it watches.
    pub(super) fn start(command: &mut Command, folder: &Path, lock: Stdio) -> io::Result<Self> {
        let (link, theirs) = UnixStream::pair()?;
        let mut start = Command::new(command.get_program());
        start
            // ps shows this in place of the path to the program, which says nothing.
            .arg0("wrkbench")
            .args(command.get_args())
            .arg(folder)
            .stdin(OwnedFd::from(theirs))
            .stdout(lock);
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => start.env(name, value),
                None => start.env_remove(name),
            };
        }
        let child = start.spawn()?;
        // Our copy of its end must be closed, or its death would not be seen.
        drop(start);
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
            Ok(()) => Err(io::Error::other("it is something else")),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(io::Error::other("it does not come up in time"))
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(io::Error::other("it has ended at once"))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether it still watches.
    pub(super) fn is_alive(&mut self) -> bool {
        // It says nothing more: an end is all that can be read.
        let is_quiet = self.link.set_nonblocking(true).is_ok()
            && matches!((&self.link).read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        let is_blocking = self.link.set_nonblocking(false).is_ok();
        is_quiet && is_blocking && matches!(self.child.try_wait(), Ok(None))
    }

    /// Tells it. If it is dead nobody hears; that is found before the next change.
    pub(super) fn tell(&self, word: Message) {
        let _ = (&self.link).write_all(word.line().as_bytes());
    }

    /// Lets it go, and waits until it has gone, so that the lock is free.
    pub(super) fn dismiss(mut self) {
        self.tell(Message::Finished);
        let _ = self.link.set_read_timeout(Some(GUARDIAN_WITHIN));
        let has_gone = matches!((&self.link).read(&mut [0]), Ok(0));
        if !has_gone {
            // Stopped by somebody. It has nothing to do any more, and would keep the lock.
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// What the guardian has heard when the other end is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LinkEnd {
    /// There is nothing to guard.
    Finished,
    /// Nothing: the process is dead, and this command still ran.
    Death(Option<u32>),
}

/// Says that the guardian watches, and listens until the other end is closed.
pub(crate) fn listen(link: &UnixStream) -> LinkEnd {
    // A dead one is heard below.
    let _ = (&mut { link }).write_all(READY.as_bytes());
    let mut lines = BufReader::new(link);
    let mut running = None;
    loop {
        let mut line = Vec::new();
        // A line ends or the other end does. Errors are an end as well.
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

/// Ends a process group whose starter is dead, and waits until it is gone.
pub(crate) fn end_group(group: u32, mut pause: impl FnMut(Duration)) {
    /// How long, in pauses: only a process stuck in the kernel, or one that nobody buries, takes longer.
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
