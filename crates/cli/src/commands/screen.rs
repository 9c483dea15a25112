//! The whole terminal as a view of a run, or of a sweep (`--tui`).
//!
//! A thread of its own draws and reads keys, since the main one may wait for a hook of a sweep for minutes. It
//! shares the model with the main thread and nothing with the workers. The first signal, key `q`, and the
//! end give the terminal back at once: from then on everything is as it is without a screen.

mod aside;
mod device;
mod thread;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use live::grid::{self, Grid};
use live::keys::Key;
use live::look::Look;
use live::screen::{self, Model};
use plan::RunPlan;
use ratatui::buffer::Buffer;
use results::snapshot::Snapshot;
use runner::Observer;
use signal_hook::SigId;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::low_level::{pipe, unregister};

use super::interrupts::Second;
use super::terminal::Terminal;
use aside::Diversion;
use device::Device;

/// What is seen.
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

    fn draw(&self, look: Look, buffer: &mut Buffer) {
        let area = buffer.area;
        match self {
            Self::Run(model) => screen::draw(model, look, area, buffer),
            Self::Sweep(grid) => grid::draw(grid, look, area, buffer),
        }
    }
}

/// What the main thread and the screen's have in common.
struct Shared {
    view: Mutex<View>,
    /// Time since the latest snapshot, milliseconds.
    since_ms: AtomicU64,
    /// The signals that end the run.
    second: Second,
    /// The screen is no longer wanted.
    is_over: AtomicBool,
    /// The terminal was given back, for good.
    is_closed: AtomicBool,
    /// A byte into it wakes the thread.
    waker: UnixStream,
    /// Where the output of scripts goes.
    diversion: Diversion,
}

impl Shared {
    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // A pipe that is full wakes as well.
        let _ = (&self.waker).write(&[0]);
    }
}

/// A screen that is there; it goes when this is dropped.
pub(super) struct Screen {
    shared: Arc<Shared>,
    signals: Vec<SigId>,
    thread: Option<JoinHandle<()>>,
}

/// The terminal that a screen would be on.
///
/// # Errors
/// Why there can be none, in one line.
pub(super) fn terminal() -> anyhow::Result<Terminal> {
    Terminal::of_stderr().context(
        "--tui: stderr is no terminal that a screen can be drawn on (leave --tui out, or see TERM)",
    )
}

impl Screen {
    /// Takes the terminal. At the first signal it is given back, and the second one is allowed.
    ///
    /// # Errors
    /// When it cannot be had.
    pub(super) fn open(terminal: Terminal, view: View, second: Second) -> anyhow::Result<Self> {
        let unusable = "--tui: the terminal cannot be used";
        let device = Arc::new(Device::of_stderr().context(unusable)?);
        let (waker, woken) = UnixStream::pair().context(unusable)?;
        waker.set_nonblocking(true).context(unusable)?;
        woken.set_nonblocking(true).context(unusable)?;
        let shared = Arc::new(Shared {
            view: Mutex::new(view),
            since_ms: AtomicU64::new(0),
            second,
            is_over: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            waker,
            diversion: Diversion::default(),
        });
        let mut screen = Self {
            shared: shared.clone(),
            signals: Vec::new(),
            thread: None,
        };
        let continued = Arc::new(AtomicBool::new(false));
        let flag = signal_hook::flag::register(SIGCONT, continued.clone());
        screen.signals.push(flag.context(unusable)?);
        // After what the run does about them: when the thread wakes, the flags are as they should be.
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT] {
            let waker = screen.shared.waker.try_clone().context(unusable)?;
            let registered = pipe::register(signal, waker).context(unusable)?;
            screen.signals.push(registered);
        }
        give_back_on_panic(&device, &shared);
        let thread = thread::Thread::new(shared, device, woken, continued, terminal.look());
        let thread = std::thread::Builder::new()
            .name("screen".to_owned())
            .spawn(move || thread.run())
            .context(unusable)?;
        screen.thread = Some(thread);
        Ok(screen)
    }

    /// Whether the terminal is still taken: what is printed now would be lost.
    pub(super) fn is_open(&self) -> bool {
        !self.shared.is_closed.load(Ordering::Acquire)
    }

    /// Gives the terminal back, and returns when it is as it was.
    pub(super) fn close(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // It has given the terminal back also when it has panicked.
            let _ = thread.join();
        }
        for signal in self.signals.drain(..) {
            unregister(signal);
        }
    }

    /// Takes what happened in a sweep.
    pub(super) fn of_sweep(&self, change: impl FnOnce(&mut Grid)) {
        if let View::Sweep(grid) = &mut *self.shared.view() {
            change(grid);
        }
        self.shared.wake();
    }

    /// Shows it a run by this plan. What a script prints meanwhile is kept until the screen is gone.
    pub(super) fn observer(&self, plan: &RunPlan) -> Box<dyn Observer> {
        if plan.request.script.is_some() && self.shared.diversion.begin().is_ok() {
            self.shared.wake();
        }
        Box::new(Watcher(self.shared.clone()))
    }
}

struct Watcher(Arc<Shared>);

impl Drop for Watcher {
    fn drop(&mut self) {
        runner::flush_script_output();
        self.0.diversion.end();
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

impl Drop for Screen {
    fn drop(&mut self) {
        self.close();
    }
}

/// What panics say is to be read: whichever thread it was, the screen does not come back.
fn give_back_on_panic(device: &Arc<Device>, shared: &Arc<Shared>) {
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
