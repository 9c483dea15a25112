//! Sends a worker's progress to the main thread, about once a second, if there is an observer.

use super::usage::UsageMeter;
use crate::recorder::Recorder;
use crate::run::WorkerMessage;
use crate::snapshots::ProgressReport;
use results::ThreadUsage;
use std::sync::mpsc::Sender;

/// Sends the progress of one worker.
pub(super) struct ProgressReporter {
    worker: usize,
    messages: Sender<WorkerMessage>,
    /// There is no observer: only the warm-up is watched.
    ends_with_warmup: bool,
    /// The thread's resource usage at the previous report, and when that was.
    used: Option<(u64, ThreadUsage)>,
}

impl ProgressReporter {
    pub(super) fn new(
        worker: u32,
        messages: Sender<WorkerMessage>,
        ends_with_warmup: bool,
    ) -> Self {
        Self {
            worker: worker as usize,
            messages,
            ends_with_warmup,
            used: None,
        }
    }

    /// Reads the initial resource usage.
    pub(super) fn start(&mut self, usage: &mut UsageMeter, now_ns: u64) {
        self.used = usage.read(now_ns);
    }

    /// Whether there are no reports of the window.
    pub(super) fn ends_with_warmup(&self) -> bool {
        self.ends_with_warmup
    }

    /// Reports what has happened since the previous report.
    #[cold]
    pub(super) fn report(
        &mut self,
        recorder: &mut Recorder,
        usage: &mut UsageMeter,
        open_connections: u64,
        now_ns: u64,
    ) {
        if let Some(report) = recorder.report(now_ns) {
            let report = ProgressReport {
                open_connections,
                ..report
            };
            self.send(report, usage, now_ns);
        }
    }

    /// Sends the last report of the worker.
    pub(super) fn report_last(
        &mut self,
        recorder: &mut Recorder,
        usage: &mut UsageMeter,
        now_ns: u64,
    ) {
        if let Some(report) = recorder.report_last(now_ns) {
            let report = ProgressReport {
                open_connections: 0,
                is_last: true,
                ..report
            };
            self.send(report, usage, now_ns);
        }
    }

    fn send(&mut self, report: ProgressReport, usage: &mut UsageMeter, now_ns: u64) {
        let used = usage.read(now_ns);
        let before = std::mem::replace(&mut self.used, used);
        let busy = before.zip(used).and_then(|((then_ns, before), (_, now))| {
            let elapsed_ns = now_ns.checked_sub(then_ns).filter(|ns| *ns > 0)?;
            let used_ns = now.since(&before).cpu_ns;
            Some((used_ns as f64 / elapsed_ns as f64).min(1.0))
        });
        let report = ProgressReport {
            worker: self.worker,
            busy,
            ..report
        };
        // If the receiver is gone, the run is over.
        let _ = self
            .messages
            .send(WorkerMessage::Progress(Box::new(report)));
    }
}
