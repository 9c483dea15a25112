//! Ctrl-C, SIGTERM, and the end of a terminal that was ours.
//!
//! The first of either ends the run early and the report is made; a second one ends the process at
//! once. After SIGTERM the exit code is 143 although the report was made: who sent it wants to see
//! that it arrived. After Ctrl-C it is that of a finished run, as in wrk.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;

/// What a shell reports for a process that a signal has ended: 128 and the number of the signal.
const EXIT_SIGHUP: i32 = 129;
const EXIT_SIGINT: i32 = 130;
const EXIT_SIGTERM: i32 = 143;

/// The signals of one run.
pub(super) struct Interrupts {
    /// Set by the first signal.
    pub(super) stop: Arc<AtomicBool>,
    /// The exit code of the last one that has one of its own.
    exit_code: Arc<AtomicUsize>,
}

impl Interrupts {
    /// From now on signals are caught.
    ///
    /// # Errors
    /// When the kernel does not take the handlers.
    pub(super) fn watch() -> io::Result<Self> {
        let interrupts = Self {
            stop: Arc::default(),
            exit_code: Arc::default(),
        };
        // Handlers run in the order of registration: the one that ends the process must find the
        // flag as the signal before left it.
        for (signal, exit_code) in [(SIGINT, EXIT_SIGINT), (SIGTERM, EXIT_SIGTERM)] {
            flag::register_conditional_shutdown(signal, exit_code, interrupts.stop.clone())?;
            flag::register(signal, interrupts.stop.clone())?;
        }
        interrupts.note(SIGTERM, EXIT_SIGTERM)?;
        Ok(interrupts)
    }

    /// From now on the end of the terminal is no end of this process either: one that has changed the
    /// terminal must be able to change it back, and what was measured can go to a file.
    ///
    /// # Errors
    /// As [`Self::watch`].
    pub(super) fn watch_hangup(&self) -> io::Result<()> {
        flag::register_conditional_shutdown(SIGHUP, EXIT_SIGHUP, self.stop.clone())?;
        flag::register(SIGHUP, self.stop.clone())?;
        self.note(SIGHUP, EXIT_SIGHUP)
    }

    fn note(&self, signal: i32, exit_code: i32) -> io::Result<()> {
        let code = usize::from(u8::try_from(exit_code).unwrap_or(u8::MAX));
        flag::register_usize(signal, self.exit_code.clone(), code)?;
        Ok(())
    }

    /// The exit code when SIGTERM has come, or SIGHUP if that is watched.
    pub(super) fn exit_code(&self) -> Option<u8> {
        let code = self.exit_code.load(Ordering::Relaxed);
        u8::try_from(code).ok().filter(|code| *code > 0)
    }
}

/// The signals of a sweep. The first one ends it, and everything is put back; a second one ends the
/// process at once, and the guardian puts everything back.
pub(super) struct SweepInterrupts {
    /// Set by the first signal.
    pub(super) stop: Arc<AtomicBool>,
    /// The exit code of the last one that has come.
    exit_code: Arc<AtomicUsize>,
}

impl SweepInterrupts {
    /// From now on signals are caught.
    ///
    /// # Errors
    /// When the kernel does not take the handlers.
    pub(super) fn watch() -> io::Result<Self> {
        let interrupts = Self {
            stop: Arc::default(),
            exit_code: Arc::default(),
        };
        for (signal, exit_code) in [
            (SIGINT, EXIT_SIGINT),
            (SIGTERM, EXIT_SIGTERM),
            (SIGHUP, EXIT_SIGHUP),
        ] {
            let code = usize::from(u8::try_from(exit_code).unwrap_or(u8::MAX));
            // As above: first what must find the flag as the signal before left it.
            flag::register_conditional_shutdown(signal, exit_code, interrupts.stop.clone())?;
            flag::register_usize(signal, interrupts.exit_code.clone(), code)?;
            flag::register(signal, interrupts.stop.clone())?;
        }
        Ok(interrupts)
    }

    /// Whether one has come.
    pub(super) fn has_come(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The exit code, when one has come.
    pub(super) fn exit_code(&self) -> Option<u8> {
        let code = self.exit_code.load(Ordering::Relaxed);
        u8::try_from(code).ok().filter(|code| *code > 0)
    }
}

/// Yields a byte for each signal.
///
/// # Errors
/// When the kernel does not take the handlers.
pub(super) fn signal_pipe() -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    pipe::register(SIGINT, writer.try_clone()?)?;
    pipe::register(SIGTERM, writer)?;
    Ok(reader)
}
