//! The result of a finished run: its recording and the context of the run.

use plan::RunPlan;
use serde::{Deserialize, Serialize};

use crate::{
    AgentResult, Counted, Environment, ErrorKind, Finding, Generator, PlaceResult, Profile,
    Recording, Telemetry, Warning,
};

/// Version of the document format. It is increased when a field is removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 2;

/// The measured part of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Start of the window by the wall clock, milliseconds since 1970-01-01 UTC; for information
    /// only.
    pub started_unix_ms: u64,
    /// Length of the window by the monotonic clock, nanoseconds. What rates count happened in
    /// exactly this time, so every rate is divided by it.
    pub duration_ns: u64,
    /// If responses were read after the window (`--drain`): for how long, nanoseconds; until all
    /// requests of the window had ended, the limit was reached, or Ctrl-C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained_ns: Option<u64>,
    /// Length of the warm-up before the window, nanoseconds. No request sent in it is in a latency;
    /// responses that it left to the window are in the rates.
    pub warmup_ns: u64,
    /// If the warm-up was to last until the server has settled: whether it has. Absent if the run
    /// ended before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settling: Option<Settling>,
    /// Whether the run was ended early by Ctrl-C.
    pub interrupted: bool,
    /// Whether a search ended the run early because it was certain to miss the conditions by far.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_hopeless: bool,
}

/// Whether the server had settled at the end of the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Settling {
    /// The rate and the latency had no trend, so that the window could begin.
    Settled,
    /// They still had one at the limit of the warm-up.
    NotSettled,
    /// Responses were too few to tell.
    Unknown,
}

/// The kernel interface that the run used for its connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// Name of the interface: `io_uring` or `epoll`.
    pub name: String,
    /// Why this backend was chosen, in one phrase.
    pub reason: String,
}

/// A finished run: what was planned, where it ran, and what was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunResult {
    /// [`SCHEMA_VERSION`] of the program that wrote the document.
    pub schema_version: u32,
    /// The plan of the run, with all defaults filled in.
    pub plan: RunPlan,
    /// The machine, the kernel and the program.
    pub environment: Environment,
    /// When the run was measured, and for how long.
    pub window: Window,
    /// The backend of the run.
    pub backend: Backend,
    /// What the workers counted and timed.
    #[serde(flatten)]
    pub recording: Recording,
    /// CPU use and delays of the load generator, and whether it was saturated.
    #[serde(default)]
    pub generator: Generator,
    /// TCP sockets and kernel counters during the run, if telemetry was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Telemetry>,
    /// The profile of the server, if one was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Reasons why numbers of this result may be wrong.
    pub warnings: Vec<Finding<Warning>>,
    /// If a fleet made the run: its agents, in order of their workers. The other fields are then
    /// those of all agents together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentResult>,
    /// If a fleet made the run: the places of the agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<PlaceResult>,
}

/// A limit of new connections is reached if the run opened this share of what it allows: some turns
/// of a busy load generator come late.
const CONNECT_RATE_USED: f64 = 0.9;

impl RunResult {
    /// The result of a run in which nothing was measured. Whoever made a run adds what it knows:
    ///
    /// ```
    /// # use plan::{RunPlan, Target};
    /// # use results::{Recording, RunResult, Window};
    /// # let plan = RunPlan::new(Target::parse("http://localhost/").expect("a URL"));
    /// let mut recording = Recording::new();
    /// recording.counters.answered = 2_000;
    /// let window = Window {
    ///     duration_ns: 2_000_000_000,
    ///     ..Window::default()
    /// };
    /// let result = RunResult {
    ///     recording,
    ///     ..RunResult::new(plan, window)
    /// };
    /// assert_eq!(result.requests_per_sec(), 1_000.0);
    /// ```
    #[must_use]
    pub fn new(plan: RunPlan, window: Window) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            plan,
            environment: Environment::default(),
            window,
            backend: Backend::default(),
            recording: Recording::new(),
            generator: Generator::default(),
            telemetry: None,
            profile: None,
            warnings: Vec::new(),
            agents: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Responses per second of the window; 0 if the window has no length.
    #[must_use]
    pub fn requests_per_sec(&self) -> f64 {
        self.per_sec(self.recording.counters.responses())
    }

    /// Whether the server sent what was asked for: a response that was complete within the window
    /// or in the drain, or an event of a stream, which may never end. Streams that all ended with
    /// an error in them are no answers.
    #[must_use]
    pub fn has_answers(&self) -> bool {
        let Recording {
            counters, errors, ..
        } = &self.recording;
        let has_errors = errors.count(ErrorKind::StreamError).exchanges > 0;
        let has_events = self.recording.parts.events.as_ref().is_some_and(|events| {
            events.arrived > 0 && (!has_errors || !events.since_last_event.is_empty())
        });
        counters.answered > 0 || counters.answered_of_warmup > 0 || has_events
    }

    /// Whether a request succeeded: [`Self::has_answers`], and if the statuses of complete
    /// responses are known, one of them is below 400, or an event arrived in a stream that had not
    /// ended.
    #[must_use]
    pub fn has_success(&self) -> bool {
        let Recording { statuses, .. } = &self.recording;
        let is_any_good = statuses.over_399() < statuses.total();
        let is_any_open = self
            .recording
            .parts
            .events
            .as_ref()
            .is_some_and(|events| events.arrived > 0 && !events.since_last_event.is_empty());
        self.has_answers() && (statuses.total() == 0 || is_any_good || is_any_open)
    }

    /// The limit of new connections per second (`--connect-rate`), if the run opened as many as it
    /// allows, so that it limited the load.
    #[must_use]
    pub fn limiting_connect_rate(&self) -> Option<u32> {
        let per_sec = self.plan.load.connect_rate_per_sec?;
        let allowed = f64::from(per_sec) * self.window.duration_ns as f64 / 1e9;
        let opened = self.recording.counters.connections_opened;
        // The next one may be due right after the end.
        let is_used = opened as f64 + 1.0 >= allowed * CONNECT_RATE_USED;
        // Without any connection, something else has prevented them.
        (opened > 0 && is_used).then_some(per_sec)
    }

    /// In a closed loop: how long connections waited for the load generator, and how long they were
    /// open in total, nanoseconds. A connection counts once for each request that it may have in
    /// flight.
    #[must_use]
    pub fn connections_idle_ns(&self) -> (u64, u64) {
        let load = &self.plan.load;
        let in_flight = u64::from(load.connections) * u64::from(load.in_flight_per_connection());
        let all_ns = self.window.duration_ns.saturating_mul(in_flight);
        (self.recording.attribution.idle_ns.min(all_ns), all_ns)
    }

    /// Bytes of responses per second of the window; 0 if the window has no length.
    #[must_use]
    pub fn bytes_per_sec(&self) -> f64 {
        self.per_sec(self.recording.counters.bytes)
    }

    /// A total per second of the window; 0 if the window has no length.
    #[must_use]
    pub fn per_sec(&self, total: u64) -> f64 {
        Counted::of(self).per_sec(total)
    }
}
