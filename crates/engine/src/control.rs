//! Where control plane and data plane meet: start, stop, and taking over from a stuck worker.

use crate::recorder::Recorder;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The moments of a run, on CLOCK_MONOTONIC, the same for all workers.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// Connections are opened.
    pub start_ns: u64,
    /// Warm-up is over, the window begins.
    pub measure_ns: u64,
    /// The window ends; `u64::MAX` when only a number of requests ends it.
    pub end_ns: u64,
}

/// What all workers of a run and the main thread have in common.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunState(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_stopped: AtomicBool,
    answered_ns: AtomicU64,
    opened_workers: AtomicU32,
}

impl RunState {
    /// Tells all workers to end now. They look every few milliseconds.
    pub(crate) fn raise(&self) {
        self.0.is_stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.0.is_stopped.load(Ordering::Relaxed)
    }

    /// Notes that one more worker has opened all its connections.
    pub(crate) fn note_opened(&self) {
        self.0.opened_workers.fetch_add(1, Ordering::Relaxed);
    }

    /// How many workers have opened all their connections.
    pub(crate) fn opened_workers(&self) -> u32 {
        self.0.opened_workers.load(Ordering::Relaxed)
    }

    /// Notes that a response came then, and tells when the last one of the whole run came.
    pub(crate) fn note_answer(&self, at_ns: u64) -> u64 {
        let last_ns = self.0.answered_ns.fetch_max(at_ns, Ordering::Relaxed);
        last_ns.max(at_ns)
    }
}

/// Where a worker leaves its recorder while it is inside a script, which may never come back. The
/// main thread can then take it, and nothing measured is lost.
#[derive(Clone, Default)]
pub(crate) struct Locker(Arc<Mutex<Option<Parked>>>);

pub(crate) struct Parked {
    pub(crate) recorder: Box<Recorder>,
    /// When the call into the script began.
    pub(crate) since_ns: u64,
}

impl Locker {
    pub(crate) fn park(&self, parked: Parked) {
        *self.slot() = Some(parked);
    }

    /// `None` when somebody else has taken it: the worker has been given up.
    pub(crate) fn take(&self) -> Option<Parked> {
        self.slot().take()
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Parked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
