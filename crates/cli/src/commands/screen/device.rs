//! The terminal device: entered, written without blocking, and restored.
//!
//! It is opened a second time, because O_NONBLOCK belongs to the open file description, which the
//! shell shares with all its children.

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

/// Alternate screen (xterm's 1049, which also saves the cursor), hide the cursor (DECTCEM), clear.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[2J";
/// Cancel an incomplete sequence (CAN), reset the style, then undo [`ENTER`].
const LEAVE: &[u8] = b"\x18\x1b[0m\x1b[?25h\x1b[?1049l";
/// How long to wait for a stalled terminal when leaving, so that a connection that hangs briefly
/// does not leave a broken screen.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);
/// Size of a terminal that does not report one.
const USUAL_SIZE: (u16, u16) = (80, 24);
/// Upper limit: the reported size can be any number, and a frame needs memory.
const MAX_SIZE: (u16, u16) = (1000, 500);
/// Disables a special character (`_POSIX_VDISABLE` on Linux).
const NO_CHARACTER: u8 = 0;

pub(super) struct Device {
    tty: OwnedFd,
    /// The settings to restore.
    before: Termios,
    state: Mutex<TerminalState>,
}

/// What the threads that use the terminal must agree on.
#[derive(Default)]
struct TerminalState {
    is_entered: bool,
    /// The terminal was restored and is not entered again.
    is_closed: bool,
    /// Output that the terminal has not accepted yet.
    unsent: Vec<u8>,
}

impl Device {
    /// The terminal on stderr.
    ///
    /// # Errors
    /// When stderr is not a terminal, or it cannot be opened.
    pub(super) fn of_stderr() -> io::Result<Self> {
        Self::of(&io::stderr())
    }

    pub(super) fn of(terminal: &impl AsFd) -> io::Result<Self> {
        if !isatty(terminal) {
            return Err(io::Error::other("not a terminal"));
        }
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let path = format!("/proc/self/fd/{}", terminal.as_fd().as_raw_fd());
        // After su the device may belong to another user; /dev/tty can always be opened.
        let tty =
            open(path, flags, Mode::empty()).or_else(|_| open("/dev/tty", flags, Mode::empty()))?;
        Ok(Self {
            before: tcgetattr(&tty)?,
            tty,
            state: Mutex::default(),
        })
    }

    /// Switches to the screen, unless the process is in the background or the device is closed.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(super) fn enter(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.is_entered || state.is_closed || !self.is_foreground() {
            return Ok(());
        }
        // Others may have changed the settings in between; derive from the original ones.
        tcsetattr(
            &self.tty,
            OptionalActions::Now,
            &screen_settings(&self.before),
        )?;
        state.is_entered = true;
        state.unsent = ENTER.to_vec();
        Ok(())
    }

    /// Restores the terminal as [`Self::leave`] does, and prevents that it is entered again.
    pub(super) fn close(&self) {
        if let Some(mut state) = self.try_state() {
            state.is_closed = true;
        }
        self.leave();
    }

    /// Restores the terminal. May be called from any thread, any number of times; waits at most
    /// [`LEAVE_WITHIN`] for each write.
    pub(super) fn leave(&self) {
        let Some(mut state) = self.try_state() else {
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
        // Pending keys must not reach the shell.
        let _ = tcflush(&self.tty, QueueSelector::IFlush);
        let _ = tcsetattr(&self.tty, OptionalActions::Now, &self.before);
    }

    /// After a stop by another process, the state of the terminal is unknown.
    pub(super) fn forget(&self) {
        self.state().is_entered = false;
    }

    pub(super) fn is_entered(&self) -> bool {
        self.state().is_entered
    }

    /// Columns and rows of the terminal.
    pub(super) fn size(&self) -> (u16, u16) {
        match tcgetwinsize(&self.tty) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.min(MAX_SIZE.0), size.ws_row.min(MAX_SIZE.1))
            }
            _ => USUAL_SIZE,
        }
    }

    /// The available input; may be empty.
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

    /// Sends a frame, or as much of it as the terminal accepts now.
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

    /// Whether the terminal has accepted everything.
    pub(super) fn has_taken_all(&self) -> bool {
        self.state().unsent.is_empty()
    }

    /// Whether the process is in the foreground, or there is no job control.
    fn is_foreground(&self) -> bool {
        tcgetpgrp(&self.tty).map_or(true, |group| group == getpgrp())
    }

    fn await_room(&self) -> bool {
        let mut fds = [PollFd::new(&self.tty, PollFlags::OUT)];
        let time = Timespec::try_from(LEAVE_WITHIN).ok();
        matches!(poll(&mut fds, time.as_ref()), Ok(ready) if ready > 0)
    }

    fn state(&self) -> MutexGuard<'_, TerminalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the panic hook, whose thread may hold the lock itself: gives up after some tries.
    fn try_state(&self) -> Option<MutexGuard<'_, TerminalState>> {
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

/// Keys arrive immediately and without echo. Ctrl-C still sends SIGINT, so that it works whatever
/// the process is doing. Ctrl-Z becomes a key, since the terminal must be restored first. Ctrl-\
/// and Ctrl-S are disabled.
fn screen_settings(before: &Termios) -> Termios {
    let mut screen_settings = before.clone();
    screen_settings.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN;
    screen_settings.input_modes -= InputModes::IXON;
    for character in [SpecialCodeIndex::VSUSP, SpecialCodeIndex::VQUIT] {
        screen_settings.special_codes[character] = NO_CHARACTER;
    }
    screen_settings.special_codes[SpecialCodeIndex::VMIN] = 1;
    screen_settings.special_codes[SpecialCodeIndex::VTIME] = 0;
    screen_settings
}
