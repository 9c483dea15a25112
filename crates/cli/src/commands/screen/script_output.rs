//! Output of a script while the screen is shown: buffered, and written after the screen is closed.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::stdio::{dup2_stderr, dup2_stdout};

/// Only the end of the output is kept: a script may print with every response, for hours.
const KEPT_BYTES: usize = 256 * 1024;

/// Limit of one read loop: more than a pipe holds.
const DRAINED_BYTES: usize = 1024 * 1024;

/// The redirection of stdout and stderr into a pipe, which both threads may end.
#[derive(Default)]
pub(super) struct Redirection(Mutex<RedirectionState>);

/// The descriptors of a redirection, and whether it is over.
#[derive(Default)]
struct RedirectionState {
    /// The original descriptors, while redirected.
    before: Option<Originals>,
    /// The reading end, until [`ScriptOutput`] takes it.
    reader: Option<OwnedFd>,
    /// Nobody will read from the pipe any more.
    is_over: bool,
}

struct Originals {
    /// `None` if stdout is not a terminal and thus not redirected.
    stdout: Option<OwnedFd>,
    stderr: OwnedFd,
}

impl Redirection {
    /// Redirects output to the terminal from now on.
    ///
    /// # Errors
    /// When no descriptor is left; then nothing has changed.
    pub(super) fn begin(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.is_over || state.before.is_some() {
            return Ok(());
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&reader, fcntl_getfl(&reader)? | OFlags::NONBLOCK)?;
        let is_shown = io::stdout().is_terminal();
        let stdout = if is_shown {
            Some(io::stdout().as_fd().try_clone_to_owned()?)
        } else {
            None
        };
        let stderr = io::stderr().as_fd().try_clone_to_owned()?;
        if is_shown {
            dup2_stdout(&writer)?;
        }
        state.reader = Some(reader);
        state.before = Some(Originals { stdout, stderr });
        Ok(dup2_stderr(&writer)?)
    }

    /// Restores stdout and stderr. They may be redirected again.
    pub(super) fn end(&self) {
        self.state().restore();
    }

    /// Restores both streams and prevents later redirections, whose output nobody would read.
    pub(super) fn end_for_good(&self) {
        let mut state = self.state();
        state.is_over = true;
        state.restore();
    }

    pub(super) fn reader(&self) -> Option<OwnedFd> {
        self.state().reader.take()
    }

    fn state(&self) -> MutexGuard<'_, RedirectionState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RedirectionState {
    fn restore(&mut self) {
        let Some(Originals { stdout, stderr }) = self.before.take() else {
            return;
        };
        // dup2 onto an open descriptor fails only for reasons that cannot be handled here.
        if let Some(stdout) = stdout {
            let _ = dup2_stdout(stdout);
        }
        let _ = dup2_stderr(stderr);
    }
}

/// The end of what a script has printed while the screen was shown.
#[derive(Default)]
pub(super) struct ScriptOutput {
    reader: Option<OwnedFd>,
    kept: VecDeque<u8>,
    left_out: usize,
}

impl ScriptOutput {
    /// The descriptor to poll.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.reader.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is available.
    pub(super) fn take(&mut self, diversion: &Redirection) {
        self.drain();
        if let Some(reader) = diversion.reader() {
            self.reader = Some(reader);
            self.drain();
        }
    }

    fn drain(&mut self) {
        let mut some = [0; 4096];
        // Bounded, since a script may write faster than this reads.
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

    /// Writes the buffer to stderr.
    pub(super) fn write(&mut self) {
        let mut stderr = io::stderr();
        if self.left_out > 0 {
            let _ = writeln!(
                stderr,
                "({} bytes of earlier output omitted)",
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
    fn the_end_of_endless_output_is_kept() {
        let mut output = ScriptOutput::default();
        for _ in 0..100 {
            output.keep(&[b'x'; 10_000]);
        }
        output.keep(b"the end");
        assert_eq!(output.kept.len(), KEPT_BYTES);
        assert_eq!(output.left_out, 1_000_007 - KEPT_BYTES);
        assert!(output.kept.iter().copied().rev().take(7).eq(*b"dne eht"));
    }
}
