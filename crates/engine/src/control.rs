//! Where the control plane and the data plane meet: start, stop, and recovery of the data of a
//! stuck worker.

use crate::recorder::Recorder;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The phases of a run on CLOCK_MONOTONIC, the same for all workers.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunTimes {
    /// When connections are opened.
    pub start_ns: u64,
    /// When the warm-up ends and the window begins.
    pub measure_ns: u64,
    /// When the window ends. `u64::MAX` if only a number of requests ends it.
    pub end_ns: u64,
}

impl RunTimes {
    /// The same run with a window that begins at another time and is as long.
    pub(crate) fn with_window_from(self, measure_ns: u64) -> Self {
        let end_ns = match self.end_ns {
            u64::MAX => u64::MAX,
            end_ns => measure_ns.saturating_add(end_ns.saturating_sub(self.measure_ns)),
        };
        Self {
            measure_ns,
            end_ns,
            ..self
        }
    }
}

/// What all workers of a run share with the main thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunState(Arc<RunSignals>);

/// What the main thread tells the workers, and they tell each other and the main thread.
#[derive(Debug, Default)]
struct RunSignals {
    is_stopped: AtomicBool,
    last_response_ns: AtomicU64,
    opened_workers: AtomicU32,
    has_responses: AtomicBool,
    /// Responses of the start that deny, of all workers.
    denied: AtomicU32,
    /// Some response of the start does not deny.
    is_served: AtomicBool,
    /// When the window begins, if that was agreed upon during the warm-up; otherwise 0.
    measure_ns: AtomicU64,
}

impl RunState {
    /// Tells all workers to stop. They check every few milliseconds.
    pub(crate) fn raise(&self) {
        self.0.is_stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.0.is_stopped.load(Ordering::Relaxed)
    }

    /// Tells all workers when the window begins. They look in each turn of the warm-up.
    pub(crate) fn agree_on_window(&self, measure_ns: u64) {
        self.0.measure_ns.store(measure_ns, Ordering::Relaxed);
    }

    /// When the window begins, if that was agreed upon during the warm-up.
    pub(crate) fn agreed_window_ns(&self) -> Option<u64> {
        let measure_ns = self.0.measure_ns.load(Ordering::Relaxed);
        (measure_ns != 0).then_some(measure_ns)
    }

    /// Records that one more worker has opened all its connections.
    pub(crate) fn note_opened(&self) {
        self.0.opened_workers.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of workers that have opened all their connections.
    pub(crate) fn opened_workers(&self) -> u32 {
        self.0.opened_workers.load(Ordering::Relaxed)
    }

    /// Records that a worker has had a whole response.
    pub(crate) fn note_whole_response(&self) {
        self.0.has_responses.store(true, Ordering::Relaxed);
    }

    /// Whether any worker has had a whole response.
    pub(crate) fn has_responses(&self) -> bool {
        self.0.has_responses.load(Ordering::Relaxed)
    }

    /// Records that so many more responses deny. Returns how many there are.
    pub(crate) fn note_denied(&self, more: u32) -> u32 {
        match more {
            0 => self.0.denied.load(Ordering::Relaxed),
            more => self.0.denied.fetch_add(more, Ordering::Relaxed) + more,
        }
    }

    /// Records that some response does not deny.
    pub(crate) fn note_served(&self) {
        self.0.is_served.store(true, Ordering::Relaxed);
    }

    /// Whether some response of any worker does not deny.
    pub(crate) fn is_served(&self) -> bool {
        self.0.is_served.load(Ordering::Relaxed)
    }

    /// Records the time of a response, and returns the time of the last response of the whole run.
    pub(crate) fn note_response(&self, at_ns: u64) -> u64 {
        let last_ns = self.0.last_response_ns.fetch_max(at_ns, Ordering::Relaxed);
        last_ns.max(at_ns)
    }
}

/// Holds a worker's recorder while the worker is inside a script, which may never return. The main
/// thread can then take it, so that nothing measured is lost.
#[derive(Clone, Default)]
pub(crate) struct StuckGuard(Arc<Mutex<Option<ParkedRecorder>>>);

pub(crate) struct ParkedRecorder {
    pub(crate) recorder: Box<Recorder>,
    /// When the call into the script began.
    pub(crate) since_ns: u64,
}

impl StuckGuard {
    pub(crate) fn park(&self, parked: ParkedRecorder) {
        *self.slot() = Some(parked);
    }

    /// `None` if the main thread has taken it, because it no longer waits for the worker.
    pub(crate) fn take(&self) -> Option<ParkedRecorder> {
        self.slot().take()
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<ParkedRecorder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
