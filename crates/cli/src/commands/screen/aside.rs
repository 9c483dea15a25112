//! What a script prints while the screen is there: kept aside, and written when the screen is gone.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::stdio::{dup2_stderr, dup2_stdout};

/// How much is kept, the end of it: a script may print with every answer, for hours.
const KEPT_BYTES: usize = 256 * 1024;

/// What is read at a time: more than a pipe holds.
const DRAINED_BYTES: usize = 1024 * 1024;

/// Where stdout and stderr go, which both threads may change back.
#[derive(Default)]
pub(super) struct Diversion(Mutex<State>);

#[derive(Default)]
struct State {
    /// Where they went before, while they are diverted.
    before: Option<Before>,
    /// The end that is read, until the reader takes it.
    reader: Option<OwnedFd>,
    /// Nobody reads any more.
    is_over: bool,
}

struct Before {
    /// Unless it is no terminal: then nothing of it is on the screen.
    stdout: Option<OwnedFd>,
    stderr: OwnedFd,
}

impl Diversion {
    /// Diverts what goes to the terminal from here on.
    ///
    /// # Errors
    /// When the system has no descriptor left; nothing has changed then.
    pub(super) fn begin(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.is_over || state.before.is_some() {
            return Ok(());
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&reader, fcntl_getfl(&reader)? | OFlags::NONBLOCK)?;
        let is_shown = io::stdout().is_terminal();
        let stdout = match is_shown {
            true => Some(io::stdout().as_fd().try_clone_to_owned()?),
            false => None,
        };
        let stderr = io::stderr().as_fd().try_clone_to_owned()?;
        if is_shown {
            dup2_stdout(&writer)?;
        }
        state.reader = Some(reader);
        state.before = Some(Before { stdout, stderr });
        Ok(dup2_stderr(&writer)?)
    }

    /// Has both go where they went.
    pub(super) fn end(&self) {
        self.state().restore();
    }

    /// The same for good: nobody will read what is diverted.
    pub(super) fn end_for_good(&self) {
        let mut state = self.state();
        state.is_over = true;
        state.restore();
    }

    pub(super) fn reader(&self) -> Option<OwnedFd> {
        self.state().reader.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn restore(&mut self) {
        let Some(Before { stdout, stderr }) = self.before.take() else {
            return;
        };
        // dup2 onto a descriptor that is open fails for no reason that could be helped here.
        if let Some(stdout) = stdout {
            let _ = dup2_stdout(stdout);
        }
        let _ = dup2_stderr(stderr);
    }
}

/// What was printed, as much as is kept of it.
#[derive(Default)]
pub(super) struct Aside {
    reader: Option<OwnedFd>,
    kept: VecDeque<u8>,
    left_out: usize,
}

impl Aside {
    /// What there is to wait for.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.reader.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is there.
    pub(super) fn take(&mut self, diversion: &Diversion) {
        self.drain();
        if let Some(reader) = diversion.reader() {
            self.reader = Some(reader);
            self.drain();
        }
    }

    fn drain(&mut self) {
        let mut some = [0; 4096];
        // Not all that comes: a script may write faster than this reads.
        for _ in 0..DRAINED_BYTES / some.len() {
            let Some(reader) = &self.reader else { break };
            match read(reader, &mut some) {
                Ok(0) => self.reader = None,
                Ok(length) => self.keep(&some[..length]),
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend(bytes);
        let over = self.kept.len().saturating_sub(KEPT_BYTES);
        self.kept.drain(..over);
        self.left_out += over;
    }

    /// Writes it to stderr, where it would have been seen.
    pub(super) fn write(&mut self) {
        let mut stderr = io::stderr();
        if self.left_out > 0 {
            let _ = writeln!(
                stderr,
                "({} bytes of output before this are left out)",
                self.left_out
            );
        }
        let (first, second) = self.kept.as_slices();
        let _ = stderr
            .write_all(first)
            .and_then(|()| stderr.write_all(second));
        self.kept.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_endless_output_the_end_is_kept() {
        let mut aside = Aside::default();
        for _ in 0..100 {
            aside.keep(&[b'x'; 10_000]);
        }
        aside.keep(b"the end");
        assert_eq!(aside.kept.len(), KEPT_BYTES);
        assert_eq!(aside.left_out, 1_000_007 - KEPT_BYTES);
        assert!(aside.kept.iter().copied().rev().take(7).eq(*b"dne eht"));
    }
}
