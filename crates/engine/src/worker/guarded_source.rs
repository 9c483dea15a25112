//! Calls the source of requests, which may be a script that never returns.

use super::StopReason;
use crate::control::{ParkedRecorder, StuckGuard};
use crate::recorder::Recorder;
use crate::source::{RequestSource, SourceError};

/// A source whose calls are guarded: while one runs, the recorder is in the [`StuckGuard`].
pub(super) struct GuardedSource {
    pub(super) source: Box<dyn RequestSource>,
    pub(super) wants_delay: bool,
    pub(super) wants_responses: bool,
    guard: StuckGuard,
}

impl GuardedSource {
    pub(super) fn new(source: Box<dyn RequestSource>, guard: StuckGuard) -> Self {
        Self {
            wants_delay: source.wants_delay(),
            wants_responses: source.wants_responses(),
            source,
            guard,
        }
    }

    /// Calls the source, with the recorder in the guard meanwhile.
    pub(super) fn call<R>(
        &mut self,
        recorder: &mut Option<Box<Recorder>>,
        now_ns: impl FnOnce() -> u64,
        call: impl FnOnce(&mut dyn RequestSource) -> Result<R, SourceError>,
    ) -> Result<R, StopReason> {
        if let Some(recorder) = recorder.take() {
            self.guard.park(ParkedRecorder {
                recorder,
                since_ns: now_ns(),
            });
        }
        let result = call(self.source.as_mut());
        match self.guard.take() {
            Some(parked) => *recorder = Some(parked.recorder),
            None => return Err(StopReason::GivenUp),
        }
        Ok(result?)
    }
}
