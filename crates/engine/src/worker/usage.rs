//! The resource usage of a worker's thread.

use super::watch::ThreadCounters;
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

/// How a thread has spent the time since its start, as far as the system tells.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ThreadTimes {
    /// The time for which it had a CPU.
    pub(super) cpu_ns: Option<u64>,
    /// The time for which it could run and waited for a CPU.
    pub(super) cpu_wait_ns: Option<u64>,
}

impl ThreadCounters for UsageMeter {
    fn cpu_wait_ns(&mut self) -> Option<u64> {
        self.probe.as_mut()?.run_queue_wait_ns()
    }

    fn sleeps(&mut self) -> Option<u64> {
        self.probe.as_mut()?.sleeps()
    }
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

    /// How the thread has spent its time so far.
    pub(super) fn times(&mut self) -> ThreadTimes {
        let probe = self.probe.as_mut();
        probe.map_or_else(ThreadTimes::default, |probe| ThreadTimes {
            cpu_ns: probe.cpu_ns(),
            cpu_wait_ns: probe.run_queue_wait_ns(),
        })
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
