//! The resource usage of a worker's thread.

use crate::UsageProbe;
use results::{ThreadUsage, WorkerUsage};

/// Measures the resource usage of a worker's thread within the window.
pub(super) struct UsageMeter {
    probe: Option<Box<dyn UsageProbe>>,
    /// When the window started, and the usage at that time.
    at_start: Option<(u64, ThreadUsage)>,
}

impl UsageMeter {
    pub(super) fn new(probe: Option<Box<dyn UsageProbe>>) -> Self {
        Self {
            probe,
            at_start: None,
        }
    }

    /// The usage so far, with the time.
    pub(super) fn read(&mut self, now_ns: u64) -> Option<(u64, ThreadUsage)> {
        let usage = self.probe.as_mut()?.usage()?;
        Some((now_ns, usage))
    }

    /// How long the thread has waited for a CPU, if known.
    pub(super) fn run_queue_wait_ns(&mut self) -> Option<u64> {
        self.probe.as_mut()?.run_queue_wait_ns()
    }

    /// The window has started.
    pub(super) fn start(&mut self, now_ns: u64) {
        self.at_start = self.read(now_ns);
    }

    /// The usage since the window started.
    pub(super) fn finish(&mut self, worker: u32, ended_ns: u64) -> Option<WorkerUsage> {
        let (started_ns, before) = self.at_start?;
        let (_, now) = self.read(ended_ns)?;
        Some(WorkerUsage {
            worker,
            elapsed_ns: ended_ns.saturating_sub(started_ns),
            usage: now.since(&before),
        })
    }
}
