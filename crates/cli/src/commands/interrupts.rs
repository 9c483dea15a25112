//! Handling of Ctrl-C, SIGTERM and, where it matters, SIGHUP.
//!
//! The first signal ends the run early and the report is printed; a second one ends the process at
//! once. After SIGTERM the exit code is 143 although the report was printed, so that the sender can
//! see that the signal arrived. After Ctrl-C it is that of a finished run, as in wrk.
//!
//! With `--tui`, a second signal takes effect only after the terminal has been restored.

use std::fs;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::console::Console;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};
use signal_hook::{SigId, flag};

/// The exit code a shell reports for a process killed by a signal.
const fn exit_code_of(signal: i32) -> i32 {
    128 + signal
}

/// Those of the signals that a command may catch: none where it has no process of its own.
fn own<'s>(signals: &'s [i32], console: &Console) -> &'s [i32] {
    if console.owns_process { signals } else { &[] }
}

/// The signal handlers of a run or a sweep.
pub(crate) struct Interrupts {
    /// Set by the first signal.
    pub(crate) stop: Arc<AtomicBool>,
    /// The exit code of the last signal that has one.
    exit_code: Arc<AtomicUsize>,
    second: SecondSignal,
    /// Set when the process continues after a stop (SIGCONT).
    stopped: Arc<AtomicBool>,
}

/// Lets a second signal end the process, once that is allowed.
#[derive(Clone)]
pub(super) struct SecondSignal {
    signals: Vec<i32>,
    /// Set by the first signal.
    pub(crate) stop: Arc<AtomicBool>,
    /// Whether the next signal ends the process.
    ends: Arc<AtomicBool>,
}

impl SecondSignal {
    pub(super) fn new(stop: &Arc<AtomicBool>) -> Self {
        Self {
            signals: Vec::new(),
            stop: stop.clone(),
            ends: Arc::default(),
        }
    }

    /// Registers a signal whose first occurrence sets `stop`. Handlers run in the order of
    /// registration: the one that ends the process must see the flag as the previous signal left
    /// it.
    fn add(&mut self, signal: i32) -> io::Result<()> {
        flag::register_conditional_shutdown(signal, exit_code_of(signal), self.ends.clone())?;
        flag::register(signal, self.stop.clone())?;
        self.signals.push(signal);
        Ok(())
    }

    /// From now on, a second signal ends the process.
    pub(super) fn allow(&self) {
        for signal in &self.signals {
            // A handler for this signal is registered already, so this cannot fail.
            let _ = flag::register(*signal, self.ends.clone());
        }
        if self.stop.load(Ordering::SeqCst) {
            self.ends.store(true, Ordering::SeqCst);
        }
    }
}

impl Interrupts {
    /// Catches SIGINT and SIGTERM from now on.
    ///
    /// # Errors
    /// When a handler cannot be registered.
    pub(crate) fn watch(console: &Console) -> io::Result<Self> {
        let interrupts = Self::of(&[SIGINT, SIGTERM], &[SIGTERM], console)?;
        interrupts.second.allow();
        Ok(interrupts)
    }

    /// The same for a run with `--tui`, which must allow the second signal itself. SIGHUP must not
    /// kill the process either: the terminal settings have to be restored, and the result can still
    /// be saved to a file.
    ///
    /// # Errors
    /// As [`Self::watch`].
    pub(super) fn watch_for_screen(console: &Console) -> io::Result<Self> {
        Self::of(&[SIGINT, SIGTERM, SIGHUP], &[SIGTERM, SIGHUP], console)
    }

    /// The signals of a sweep. The first one ends it, and everything is restored; a second one ends
    /// the process at once, and the guardian restores everything. A screen must allow the second
    /// one.
    ///
    /// # Errors
    /// As [`Self::watch`].
    pub(super) fn watch_for_sweep(has_screen: bool, console: &Console) -> io::Result<Self> {
        const ALL: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
        let interrupts = Self::of(&ALL, &ALL, console)?;
        for &signal in own(&[SIGCONT], console) {
            flag::register(signal, interrupts.stopped.clone())?;
        }
        if !has_screen {
            interrupts.second.allow();
        }
        Ok(interrupts)
    }

    /// Catches `signals`; those in `with_code` determine the exit code.
    fn of(signals: &[i32], with_code: &[i32], console: &Console) -> io::Result<Self> {
        let stop = Arc::default();
        let mut second = SecondSignal::new(&stop);
        let exit_code: Arc<AtomicUsize> = Arc::default();
        for &signal in own(signals, console) {
            if signal == SIGHUP && is_ignored(signal) {
                continue;
            }
            // Before the handler that sets `stop`.
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

    pub(super) fn second(&self) -> SecondSignal {
        self.second.clone()
    }

    /// From now on, every signal ends the process at once: everything that a report needs is done.
    pub(super) fn end_at_next_signal(&self) {
        self.second.ends.store(true, Ordering::SeqCst);
    }

    /// Whether the process was stopped and continued since the last call. Only for sweeps.
    pub(super) fn was_stopped(&self) -> bool {
        self.stopped.swap(false, Ordering::Relaxed)
    }

    /// Whether a signal has arrived.
    pub(super) fn has_come(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The exit code, if a signal has arrived that determines it.
    pub(super) fn exit_code(&self) -> Option<u8> {
        let code = self.exit_code.load(Ordering::Relaxed);
        u8::try_from(code).ok().filter(|code| *code > 0)
    }
}

/// While a run is prepared, a signal ends the process at once, and a line says that nothing was
/// measured. Preparing may take long (a host name, the top level of a script), so the signal cannot
/// wait for its end.
pub(super) struct BeforeStart {
    is_over: Arc<AtomicBool>,
    signals: Vec<SigId>,
}

impl BeforeStart {
    /// Watches SIGINT and SIGTERM until [`Self::end`]. Where no thread can be created, they end the
    /// process without a line.
    pub(super) fn watch(console: &Console) -> Self {
        let mut before = Self {
            is_over: Arc::default(),
            signals: Vec::new(),
        };
        for &signal in own(&[SIGINT, SIGTERM], console) {
            // Without this, the signal has its default effect.
            let _ = before.add(signal, console);
        }
        before
    }

    fn add(&mut self, signal: i32, console: &Console) -> io::Result<()> {
        let (mut reader, writer) = UnixStream::pair()?;
        let (is_over, console) = (self.is_over.clone(), console.clone());
        let told = move || {
            // It fails when the signal is no longer watched.
            let has_come = reader.read_exact(&mut [0]).is_ok();
            if has_come && !is_over.load(Ordering::SeqCst) {
                console.tell("interrupted before the first request: nothing was measured");
                std::process::exit(exit_code_of(signal));
            }
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(told)?;
        self.signals.push(pipe::register(signal, writer)?);
        Ok(())
    }

    /// From now on, others handle the signals.
    pub(super) fn end(self) {
        self.is_over.store(true, Ordering::SeqCst);
        for signal in self.signals {
            unregister(signal);
        }
    }
}

/// Whether the process was started with this signal ignored, as by nohup; then it stays ignored.
/// Bit 0 of `SigIgn` is signal 1 (proc(5)).
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_in_mask(&status, signal)
}

fn is_in_mask(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// A stream from which one byte can be read for each SIGINT and SIGTERM.
///
/// # Errors
/// When a handler cannot be registered.
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
    fn ignored_signals_are_found_in_proc_status() {
        let status = "SigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\n";
        assert!(is_in_mask(status, 13) && !is_in_mask(status, SIGHUP));
        assert!(is_in_mask("SigIgn:\t0000000000000001\n", SIGHUP));
        assert!(!is_in_mask("", SIGHUP));
    }
}
