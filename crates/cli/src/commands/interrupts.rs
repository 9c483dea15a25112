//! Ctrl-C, SIGTERM, and the end of a terminal that was ours.
//!
//! The first of either ends the run early and the report is made; a second one ends the process at
//! once. After SIGTERM the exit code is 143 although the report was made: who sent it wants to see
//! that it arrived. After Ctrl-C it is that of a finished run, as in wrk.
//!
//! While there is a screen a second signal waits until the terminal was given back.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;

/// What a shell reports for a process that a signal has ended.
const fn exit_code_of(signal: i32) -> i32 {
    128 + signal
}

/// The signals of a run, or of a sweep.
pub(super) struct Interrupts {
    /// Set by the first signal.
    pub(super) stop: Arc<AtomicBool>,
    /// The exit code of the last one that has one of its own.
    exit_code: Arc<AtomicUsize>,
    second: Second,
    /// Set when the process goes on after it was stopped.
    stopped: Arc<AtomicBool>,
}

/// What a second signal does: it ends the process, once it may.
#[derive(Clone)]
pub(super) struct Second {
    signals: Vec<i32>,
    /// Set by the first signal.
    pub(super) stop: Arc<AtomicBool>,
    /// The next signal ends the process.
    ends: Arc<AtomicBool>,
}

impl Second {
    pub(super) fn new(stop: &Arc<AtomicBool>) -> Self {
        Self {
            signals: Vec::new(),
            stop: stop.clone(),
            ends: Arc::default(),
        }
    }

    /// The first of such signals sets `stop`. Handlers run in the order of registration: the one that ends the
    /// process must find its flag as the signal before left it.
    fn add(&mut self, signal: i32) -> io::Result<()> {
        flag::register_conditional_shutdown(signal, exit_code_of(signal), self.ends.clone())?;
        flag::register(signal, self.stop.clone())?;
        self.signals.push(signal);
        Ok(())
    }

    /// From now on a second signal ends the process.
    pub(super) fn allow(&self) {
        for signal in &self.signals {
            // A handler is there already, so that this one is taken as well.
            let _ = flag::register(*signal, self.ends.clone());
        }
        if self.stop.load(Ordering::SeqCst) {
            self.ends.store(true, Ordering::SeqCst);
        }
    }
}

impl Interrupts {
    /// From now on SIGINT and SIGTERM are caught.
    ///
    /// # Errors
    /// When the kernel does not take the handlers.
    pub(super) fn watch() -> io::Result<Self> {
        let interrupts = Self::of(&[SIGINT, SIGTERM], &[SIGTERM])?;
        interrupts.second.allow();
        Ok(interrupts)
    }

    /// The same for a run with a screen, which must allow the second signal. The end of the terminal is no end of
    /// this process either: one that has changed the terminal must be able to change it back, and what
    /// was measured can go to a file.
    ///
    /// # Errors
    /// As [`Self::watch`].
    pub(super) fn watch_for_screen() -> io::Result<Self> {
        Self::of(&[SIGINT, SIGTERM, SIGHUP], &[SIGTERM, SIGHUP])
    }

    /// The signals of a sweep. The first one ends it, and everything is put back; a second one ends the process at
    /// once, and the guardian puts everything back. A screen must allow the second one.
    ///
    /// # Errors
    /// As [`Self::watch`].
    pub(super) fn watch_for_sweep(has_screen: bool) -> io::Result<Self> {
        const ALL: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
        let interrupts = Self::of(&ALL, &ALL)?;
        flag::register(SIGCONT, interrupts.stopped.clone())?;
        if !has_screen {
            interrupts.second.allow();
        }
        Ok(interrupts)
    }

    /// Catches signals, some of which have an exit code of their own.
    fn of(signals: &[i32], with_code: &[i32]) -> io::Result<Self> {
        let stop = Arc::default();
        let mut second = Second::new(&stop);
        let exit_code: Arc<AtomicUsize> = Arc::default();
        for &signal in signals {
            if signal == SIGHUP && is_ignored(signal) {
                continue;
            }
            // Before the flag that it goes with.
            if with_code.contains(&signal) {
                let code = usize::try_from(exit_code_of(signal)).unwrap_or_default();
                flag::register_usize(signal, exit_code.clone(), code)?;
            }
            second.add(signal)?;
        }
        Ok(Self {
            stop,
            exit_code,
            second,
            stopped: Arc::default(),
        })
    }

    /// For the screen.
    pub(super) fn second(&self) -> Second {
        self.second.clone()
    }

    /// Whether the process was stopped and has gone on since this was asked last. Only those of a sweep know.
    pub(super) fn was_stopped(&self) -> bool {
        self.stopped.swap(false, Ordering::Relaxed)
    }

    /// Whether one has come.
    pub(super) fn has_come(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The exit code when a signal has come that has one of its own.
    pub(super) fn exit_code(&self) -> Option<u8> {
        let code = self.exit_code.load(Ordering::Relaxed);
        u8::try_from(code).ok().filter(|code| *code > 0)
    }
}

/// Whether who started this process has it ignore a signal, as nohup does: then it stays so. `SigIgn` of proc(5) has
/// bit 0 for signal 1.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_in_mask(&status, signal)
}

fn is_in_mask(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_which_signals_are_ignored() {
        let status = "SigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\n";
        assert!(is_in_mask(status, 13) && !is_in_mask(status, SIGHUP));
        assert!(is_in_mask("SigIgn:\t0000000000000001\n", SIGHUP));
        assert!(!is_in_mask("", SIGHUP));
    }
}
