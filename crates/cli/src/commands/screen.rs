//! The full-screen view of a run or a sweep (`--tui`).
//!
//! A separate thread draws and reads keys, since the main thread may wait minutes for a hook of a
//! sweep. It shares the model with the main thread and nothing with the workers. The first signal,
//! the key `q` and the end of the run restore the terminal; after that, everything works as without
//! a screen.

mod device;
mod script_output;
mod thread;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use live::appearance::Appearance;
use live::grid::{self, Grid};
use live::keys::Key;
use live::screen::{self, Model};
use outputs::Output;
use plan::RunPlan;
use ratatui::buffer::Buffer;
use results::snapshot::Snapshot;
use runner::Observer;
use signal_hook::SigId;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::low_level::{pipe, unregister};

use super::interrupts::SecondSignal;
use super::terminal::Terminal;
use crate::console::Console;
use device::Device;
use script_output::Redirection;

pub(super) enum View {
    Run(Box<Model>),
    Sweep(Box<Grid>),
}

impl View {
    fn push(&mut self, snapshot: Snapshot) {
        match self {
            Self::Run(model) => model.push(snapshot),
            Self::Sweep(grid) => grid.push(snapshot),
        }
    }

    fn wait(&mut self, since: Duration) {
        match self {
            Self::Run(model) => model.wait(since),
            Self::Sweep(grid) => grid.wait(since),
        }
    }

    fn press(&mut self, key: Key) {
        match self {
            Self::Run(model) => model.press(key),
            Self::Sweep(grid) => grid.press(key),
        }
    }

    fn draw(&self, appearance: Appearance, buffer: &mut Buffer) {
        let area = buffer.area;
        match self {
            Self::Run(model) => screen::draw(model, appearance, area, buffer),
            Self::Sweep(grid) => grid::draw(grid, appearance, area, buffer),
        }
    }
}

/// State shared by the main thread and the screen's thread.
struct ScreenState {
    view: Mutex<View>,
    /// Time since the latest snapshot, milliseconds.
    since_ms: AtomicU64,
    /// The signals that end the run.
    second: SecondSignal,
    /// The screen should close.
    is_over: AtomicBool,
    /// The terminal has been restored for good.
    is_closed: AtomicBool,
    /// Writing a byte wakes the thread.
    waker: UnixStream,
    redirection: Redirection,
}

impl ScreenState {
    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // If the socket is full, the thread wakes anyway.
        let _ = (&self.waker).write(&[0]);
    }
}

/// An open screen; closes on drop.
pub(super) struct Screen {
    shared: Arc<ScreenState>,
    signals: Vec<SigId>,
    thread: Option<JoinHandle<()>>,
}

/// The terminal to draw on.
///
/// # Errors
/// When stderr cannot show a screen.
pub(super) fn terminal(console: &Console) -> anyhow::Result<Terminal> {
    Terminal::of_stderr(console).context(
        "--tui: stderr is not a terminal that can show a screen (leave out --tui, or set TERM)",
    )
}

impl Screen {
    /// Enters the screen. At the first signal the terminal is restored, and a second one is
    /// allowed.
    ///
    /// # Errors
    /// When the terminal cannot be used.
    pub(super) fn open(
        terminal: Terminal,
        view: View,
        second: SecondSignal,
    ) -> anyhow::Result<Self> {
        let unusable = "--tui: the terminal cannot be used";
        let device = Arc::new(Device::of_stderr().context(unusable)?);
        let (waker, woken) = UnixStream::pair().context(unusable)?;
        waker.set_nonblocking(true).context(unusable)?;
        woken.set_nonblocking(true).context(unusable)?;
        let shared = Arc::new(ScreenState {
            view: Mutex::new(view),
            since_ms: AtomicU64::new(0),
            second,
            is_over: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            waker,
            redirection: Redirection::default(),
        });
        let mut screen = Self {
            shared: shared.clone(),
            signals: Vec::new(),
            thread: None,
        };
        let continued = Arc::new(AtomicBool::new(false));
        let flag = signal_hook::flag::register(SIGCONT, continued.clone());
        screen.signals.push(flag.context(unusable)?);
        // After the run's own handlers: when the thread wakes, their flags are set.
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT] {
            let waker = screen.shared.waker.try_clone().context(unusable)?;
            let registered = pipe::register(signal, waker).context(unusable)?;
            screen.signals.push(registered);
        }
        give_back_on_panic(&device, &shared);
        let thread = thread::Thread::new(shared, device, woken, continued, terminal.appearance());
        let thread = std::thread::Builder::new()
            .name("screen".to_owned())
            .spawn(move || thread.run())
            .context(unusable)?;
        screen.thread = Some(thread);
        Ok(screen)
    }

    /// Whether the screen is still shown: output printed now would be lost.
    pub(super) fn is_open(&self) -> bool {
        !self.shared.is_closed.load(Ordering::Acquire)
    }

    /// Closes the screen and returns when the terminal has been restored.
    pub(super) fn close(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // Even if it panicked, it has restored the terminal.
            let _ = thread.join();
        }
        for signal in self.signals.drain(..) {
            unregister(signal);
        }
    }

    /// Changes the model of a sweep.
    pub(super) fn of_sweep(&self, change: impl FnOnce(&mut Grid)) {
        if let View::Sweep(grid) = &mut *self.shared.view() {
            change(grid);
        }
        self.shared.wake();
    }

    /// Shows a run. Output of its script is buffered until the screen is closed.
    pub(super) fn display(&self, plan: &RunPlan) -> Box<dyn Output> {
        if plan.request.script.is_some() && self.shared.redirection.begin().is_ok() {
            self.shared.wake();
        }
        Box::new(Watcher(self.shared.clone()))
    }
}

struct Watcher(Arc<ScreenState>);

impl Drop for Watcher {
    fn drop(&mut self) {
        runner::flush_script_output();
        self.0.redirection.end();
        self.0.wake();
    }
}

impl Observer for Watcher {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.0.view().push(snapshot.clone());
        self.0.wake();
    }

    fn turn(&mut self, since: Duration) {
        let since_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        self.0.since_ms.store(since_ms, Ordering::Relaxed);
    }
}

impl Output for Watcher {}

impl Drop for Screen {
    fn drop(&mut self) {
        self.close();
    }
}

/// Closes the screen for good when any thread panics, so that the message is visible.
fn give_back_on_panic(device: &Arc<Device>, shared: &Arc<ScreenState>) {
    let device = Arc::downgrade(device);
    let shared = Arc::downgrade(shared);
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |information| {
        if let Some(shared) = shared.upgrade() {
            shared.is_over.store(true, Ordering::Release);
            shared.wake();
        }
        if let Some(device) = device.upgrade() {
            device.close();
        }
        before(information);
    }));
}

#[cfg(test)]
mod tests;
