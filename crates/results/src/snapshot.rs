//! The state of a run in progress: totals so far and since the previous snapshot. It is not saved;
//! the agents of a fleet send theirs to the coordinator.

use serde::{Deserialize, Serialize};

use crate::{Counters, Errors, Histogram, PartRecordings, RunResult, Statuses};

/// The stage of a run in progress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "RunStage"))]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The warm-up, before the window. It does not count in the result.
    #[default]
    WarmingUp,
    /// The window, which the result is about.
    Measuring,
}

/// The state of all workers together, taken about once a second.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Whether the run is still warming up.
    pub stage: Stage,
    /// Time since the start of the window, nanoseconds; during the warm-up, since the first
    /// connection was opened.
    pub elapsed_ns: u64,
    /// Requests, bytes and connections of the window so far.
    pub counters: Counters,
    /// Responses of the window so far by status.
    pub statuses: Statuses,
    /// Errors of the window so far by kind.
    pub errors: Errors,
    /// Latency of the window so far, as in the report but without requests in flight.
    pub latency: Histogram,
    /// With a rate, from due to sent for each request of the window sent so far, nanoseconds
    /// ([`crate::Lags::send`]).
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub send_lag: Histogram,
    /// Connections that are open now.
    pub open_connections: u64,
    /// Totals since the previous snapshot.
    pub last: SnapshotInterval,
    /// CPU use of the busiest worker since the previous snapshot, 0 to 1; `None` if the kernel does
    /// not report it.
    pub busiest_worker: Option<f64>,
    /// Optional measurements of the window so far ([`PartRecordings::so_far`]).
    #[serde(default)]
    pub parts: PartRecordings,
    /// If a fleet makes the run: its agents, in a fixed order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentSnapshot>,
}

impl Snapshot {
    /// The state at the end of a run, with the numbers of its result. Nothing is known of the last
    /// interval and of the agents.
    #[must_use]
    pub fn at_end(result: &RunResult) -> Self {
        let recording = &result.recording;
        Self {
            stage: Stage::Measuring,
            elapsed_ns: result.window.duration_ns,
            counters: recording.counters,
            statuses: recording.statuses.clone(),
            errors: recording.errors.clone(),
            latency: recording.latency(),
            send_lag: recording.lags.send.clone(),
            open_connections: 0,
            last: SnapshotInterval::default(),
            busiest_worker: None,
            parts: recording.parts.so_far(),
            agents: Vec::new(),
        }
    }
}

/// The state of one agent of a fleet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentSnapshot {
    /// Name of the agent.
    pub id: String,
    /// The label of its place, given when the agent was started.
    pub place: String,
    /// Whether the agent was lost. The other figures are then its last ones.
    pub is_lost: bool,
    /// Responses per second since its previous snapshot.
    pub requests_per_sec: f64,
    /// 99th percentile of latency since its previous snapshot, nanoseconds; `None` without samples.
    pub p99_ns: Option<u64>,
    /// Error events of the window so far.
    pub errors: u64,
    /// Connections that are open now.
    pub open_connections: u64,
    /// CPU use of its busiest worker since its previous snapshot, 0 to 1; `None` if unknown.
    pub busiest_worker: Option<f64>,
}

/// Totals between two snapshots.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SnapshotInterval {
    /// Length of the interval, nanoseconds.
    pub duration_ns: u64,
    /// Responses that were complete in the interval.
    pub answered: u64,
    /// Error events of all kinds.
    pub errors: u64,
    /// Bytes of responses that arrived in the interval.
    pub bytes: u64,
    /// What optional measurements counted in the interval ([`PartRecordings::since`]).
    #[serde(default)]
    pub parts: PartRecordings,
    /// Latency of the responses received: response time with a rate, otherwise service time.
    pub latency: Histogram,
}

impl SnapshotInterval {
    /// Responses per second; 0 if the interval has no length.
    #[must_use]
    pub fn requests_per_sec(&self) -> f64 {
        self.per_sec(self.answered)
    }

    /// How many of these there were per second; 0 if the interval has no length.
    #[must_use]
    pub fn per_sec(&self, count: u64) -> f64 {
        match self.duration_ns {
            0 => 0.0,
            duration_ns => count as f64 / (duration_ns as f64 / 1e9),
        }
    }
}
