//! A terminal as a device: taken, written to without ever waiting for it, and given back as it was.
//!
//! It is opened a second time, so that non-blocking reads and writes are ours alone: the flag belongs to the open
//! file, which a shell shares with everything it starts.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, write};
use rustix::process::getpgrp;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, isatty,
    tcflush, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
};

/// Screen of its own (xterm's 1049: it keeps the cursor, too), no cursor (DECTCEM).
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[2J";
/// Ends whatever sequence was cut short (CAN), plain letters, then the reverse.
const LEAVE: &[u8] = b"\x18\x1b[0m\x1b[?25h\x1b[?1049l";
/// How long the end of a picture may take to be given back to a terminal that does not read.
/// A connection that hangs for a moment must not leave its user with half a screen.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);
/// A terminal that tells no size.
const USUAL_SIZE: (u16, u16) = (80, 24);
/// More than any has. What it tells is only a number that somebody has set, and a picture needs room in memory.
const MAX_SIZE: (u16, u16) = (1000, 500);
/// POSIX: a special character of this value is none (`_POSIX_VDISABLE` of Linux).
const NO_CHARACTER: u8 = 0;

/// A terminal that can be taken.
pub(super) struct Device {
    tty: OwnedFd,
    /// How it was before it was ours.
    before: Termios,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_entered: bool,
    /// It was given back for good.
    is_closed: bool,
    /// What it has not taken yet.
    unsent: Vec<u8>,
}

impl Device {
    /// The one that stderr is.
    ///
    /// # Errors
    /// When it is none, or cannot be opened.
    pub(super) fn of_stderr() -> io::Result<Self> {
        Self::of(&io::stderr())
    }

    pub(super) fn of(terminal: &impl AsFd) -> io::Result<Self> {
        if !isatty(terminal) {
            return Err(io::Error::other("it is no terminal"));
        }
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let path = format!("/proc/self/fd/{}", terminal.as_fd().as_raw_fd());
        // After su the device may belong to somebody else; the controlling terminal may always be opened.
        let tty =
            open(path, flags, Mode::empty()).or_else(|_| open("/dev/tty", flags, Mode::empty()))?;
        Ok(Self {
            before: tcgetattr(&tty)?,
            tty,
            state: Mutex::default(),
        })
    }

    /// Takes it, if nobody else has it: a process in the background must not.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(super) fn enter(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.is_entered || state.is_closed || !self.is_foreground() {
            return Ok(());
        }
        // Whoever had it in between may have changed it: what was before us holds.
        tcsetattr(&self.tty, OptionalActions::Now, &ours(&self.before))?;
        state.is_entered = true;
        state.unsent = ENTER.to_vec();
        Ok(())
    }

    /// Gives it back for good, as [`Self::leave`] does.
    pub(super) fn close(&self) {
        if let Some(mut state) = self.state_within_reason() {
            state.is_closed = true;
        }
        self.leave();
    }

    /// Gives it back. Safe to call from any thread, at any time, any number of times; it never waits long.
    pub(super) fn leave(&self) {
        let Some(mut state) = self.state_within_reason() else {
            return;
        };
        if !std::mem::take(&mut state.is_entered) || !self.is_foreground() {
            return;
        }
        state.unsent.clear();
        let mut rest = LEAVE;
        while !rest.is_empty() {
            match write(&self.tty, rest) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.await_room() => {}
                Err(_) => break,
            }
        }
        // Keys for us are none for the shell.
        let _ = tcflush(&self.tty, QueueSelector::IFlush);
        let _ = tcsetattr(&self.tty, OptionalActions::Now, &self.before);
    }

    /// After a stop from outside: what is on the screen, and how the terminal is set, is not known any more.
    pub(super) fn forget(&self) {
        self.state().is_entered = false;
    }

    pub(super) fn is_entered(&self) -> bool {
        self.state().is_entered
    }

    /// Columns and rows.
    pub(super) fn size(&self) -> (u16, u16) {
        match tcgetwinsize(&self.tty) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.min(MAX_SIZE.0), size.ws_row.min(MAX_SIZE.1))
            }
            _ => USUAL_SIZE,
        }
    }

    /// What was typed, as much as is there; empty without any.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(super) fn typed(&self) -> io::Result<Vec<u8>> {
        let mut buffer = [0; 256];
        match read(&self.tty, &mut buffer) {
            Ok(0) => Err(Errno::IO.into()),
            Ok(count) => Ok(buffer[..count].to_vec()),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a picture, or as much of it as the terminal takes now.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(super) fn show(&self, picture: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        if !state.is_entered {
            return Ok(());
        }
        state.unsent.extend_from_slice(picture);
        while !state.unsent.is_empty() {
            match write(&self.tty, &state.unsent) {
                Ok(written) => drop(state.unsent.drain(..written)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether it has taken all that it was sent.
    pub(super) fn has_taken_all(&self) -> bool {
        self.state().unsent.is_empty()
    }

    /// Whether we may use it. Where there is no job control we may.
    fn is_foreground(&self) -> bool {
        tcgetpgrp(&self.tty).map_or(true, |group| group == getpgrp())
    }

    fn await_room(&self) -> bool {
        let mut fds = [PollFd::new(&self.tty, PollFlags::OUT)];
        let time = Timespec::try_from(LEAVE_WITHIN).ok();
        matches!(poll(&mut fds, time.as_ref()), Ok(ready) if ready > 0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same for a panic's hook, whose thread may hold the lock itself: then there is nothing to do about it.
    fn state_within_reason(&self) -> Option<MutexGuard<'_, State>> {
        const TRIES: u32 = 1_000_000;
        for _ in 0..TRIES {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(state)) => return Some(state.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
        None
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tty.as_fd()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Keys come at once and unseen. Ctrl-C remains the signal that it is without a screen, so that it works
/// whatever this process is doing; Ctrl-Z becomes a key, since the terminal must be given back first, and Ctrl-\
/// nothing at all, and neither can Ctrl-S hold the picture.
fn ours(before: &Termios) -> Termios {
    let mut ours = before.clone();
    ours.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN;
    ours.input_modes -= InputModes::IXON;
    for character in [SpecialCodeIndex::VSUSP, SpecialCodeIndex::VQUIT] {
        ours.special_codes[character] = NO_CHARACTER;
    }
    ours.special_codes[SpecialCodeIndex::VMIN] = 1;
    ours.special_codes[SpecialCodeIndex::VTIME] = 0;
    ours
}
