//! A program that is busy and sleeps in turns on one core.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::thread::CpuSet;

/// How long it is busy, and how long it sleeps then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rhythm {
    busy: Duration,
    idle: Duration,
}

impl Rhythm {
    /// Busy for `busy` milliseconds, then asleep for `idle` milliseconds.
    pub(crate) const fn ms(busy: u64, idle: u64) -> Self {
        Self {
            busy: Duration::from_millis(busy),
            idle: Duration::from_millis(idle),
        }
    }
}

/// A busy thread of this process; it ends on drop.
#[derive(Debug)]
pub(crate) struct Hog {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hog {
    /// Starts it, on this core if there is one.
    ///
    /// # Errors
    /// When it cannot be pinned.
    #[expect(
        clippy::disallowed_methods,
        reason = "it must keep a core busy for a time of the clock"
    )]
    pub(crate) fn start(core: Option<u32>, rhythm: Rhythm) -> anyhow::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ended);
        let (sender, pinned) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let outcome = core.map_or(Ok(()), pin);
            let is_pinned = outcome.is_ok();
            if sender.send(outcome).is_err() || !is_pinned {
                return;
            }
            while !told.load(Ordering::Relaxed) {
                let from = Instant::now();
                while from.elapsed() < rhythm.busy {
                    std::hint::spin_loop();
                }
                thread::sleep(rhythm.idle);
            }
        });
        let hog = Self {
            ended,
            thread: Some(thread),
        };
        let outcome = pinned.recv().context("the busy thread has ended")?;
        outcome.context("the busy thread cannot be pinned")?;
        Ok(hog)
    }
}

fn pin(core: u32) -> rustix::io::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core as usize);
    // This thread.
    rustix::thread::sched_setaffinity(None, &cores)
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to report.
            let _ = thread.join();
        }
    }
}
