//! A run in progress: what happened so far, and within the last interval. It is shown and
//! forgotten.

use crate::{Counters, Errors, Histogram, Statuses};

/// Where a run is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stage {
    /// Before the window: nothing of it is in any number of the result.
    #[default]
    WarmingUp,
    /// Within the window.
    Measuring,
}

/// All workers together, about once a second.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Where the run is.
    pub stage: Stage,
    /// Time since the begin of the window, nanoseconds; while warming up, since the first
    /// connection was opened.
    pub elapsed_ns: u64,
    /// Requests, bytes and connections of the window so far.
    pub counters: Counters,
    /// Answers of the window so far by status.
    pub statuses: Statuses,
    /// Failures of the window so far by kind.
    pub errors: Errors,
    /// Latency of the window so far, as the report will show it but for requests that are on their
    /// way.
    pub latency: Histogram,
    /// Connections that are open now.
    pub open_connections: u64,
    /// What happened since the snapshot before.
    pub last: Interval,
    /// Share of its time that the busiest worker was on a CPU since the snapshot before, 0 to 1;
    /// `None` where the kernel does not say.
    pub busiest_worker: Option<f64>,
}

/// What happened between two snapshots.
#[derive(Debug, Clone, Default)]
pub struct Interval {
    /// Its length, nanoseconds.
    pub duration_ns: u64,
    /// Requests answered.
    pub answered: u64,
    /// Events of errors of all kinds.
    pub errors: u64,
    /// Bytes of responses.
    pub bytes: u64,
    /// Latency of the answers that came: response time with a rate, otherwise service time.
    pub latency: Histogram,
}

impl Interval {
    /// Answers per second; 0 for an interval without length.
    #[must_use]
    pub fn requests_per_sec(&self) -> f64 {
        match self.duration_ns {
            0 => 0.0,
            duration_ns => self.answered as f64 / (duration_ns as f64 / 1e9),
        }
    }
}
