//! The resource usage of a worker's thread.

use crate::UsageProbe;
use results::{ThreadUsage, WorkerUsage};

/// Measures the resource usage of a worker's thread within the window.
pub(super) struct UsageMeter {
    probe: Option<Box<dyn UsageProbe>>,
    /// When the window started, and the usage at that time.
    at_start: Option<(u64, ThreadUsage)>,
    /// The usage within the window, once it has ended.
    of_window: Option<WorkerUsage>,
}

impl UsageMeter {
    pub(super) fn new(probe: Option<Box<dyn UsageProbe>>) -> Self {
        Self {
            probe,
            at_start: None,
            of_window: None,
        }
    }

    /// The usage so far, with the time.
    pub(super) fn read(&mut self, now_ns: u64) -> Option<(u64, ThreadUsage)> {
        let usage = self.probe.as_mut()?.usage()?;
        Some((now_ns, usage))
    }

    /// The CPU time of the thread, if known.
    pub(super) fn cpu_ns(&mut self) -> Option<u64> {
        self.probe.as_mut()?.cpu_ns()
    }

    /// How long the thread has waited for a CPU, if known.
    pub(super) fn run_queue_wait_ns(&mut self) -> Option<u64> {
        self.probe.as_mut()?.run_queue_wait_ns()
    }

    /// How often the thread has slept, if known.
    pub(super) fn sleeps(&mut self) -> Option<u64> {
        self.probe.as_mut()?.sleeps()
    }

    /// The window has started.
    pub(super) fn start(&mut self, now_ns: u64) {
        self.at_start = self.read(now_ns);
    }

    /// The window has ended.
    pub(super) fn finish(&mut self, worker: u32, ended_ns: u64) {
        let both = self.at_start.zip(self.read(ended_ns));
        self.of_window = both.map(|((started_ns, before), (_, now))| WorkerUsage {
            worker,
            elapsed_ns: ended_ns.saturating_sub(started_ns),
            usage: now.since(&before),
        });
    }

    /// The usage within the window, if it is known.
    pub(super) fn of_window(&mut self) -> Option<WorkerUsage> {
        self.of_window.take()
    }
}
