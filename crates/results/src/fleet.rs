//! The agents of a fleet: what each of them measured, and their common result.

use plan::{AgentThreads, RunPlan, Weight};
use serde::{Deserialize, Serialize, Serializer};

use crate::{Backend, Contradiction, Environment, Generator, Recording, RunResult, Window};

/// With more agents than this, their series and intervals are each joined into one row, because a
/// result of hundreds of agents would have hundreds of megabytes. Those of the places and of all
/// together stay.
pub const AGENTS_OVER_TIME_MAX: usize = 16;

/// One agent of a fleet and its part of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AgentResult {
    /// Name of the agent, unique in the fleet.
    pub id: String,
    /// Where the agent is: the label that it was started with, such as `eu-vm/internal`.
    pub place: String,
    /// Number of its first worker in the fleet.
    pub worker_base: u32,
    /// Its weight: how much each of its threads carried, compared with those of other agents.
    /// Absent in results of versions without weights, where all agents are alike.
    #[cfg_attr(feature = "schema", schemars(with = "u32"))]
    #[serde(default)]
    pub weight: Weight,
    /// Upper bound of the error of its clock against the coordinator's, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_bound_ns: Option<u64>,
    /// The longest time from the agreed start to the first turn of one of its workers, by its own
    /// clock, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_late_ns: Option<u64>,
    /// Why its load ended before that of the others, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early: Option<String>,
    /// What became of its part of the run.
    pub outcome: AgentOutcome,
}

/// How an agent's part of a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AgentOutcome {
    /// The agent delivered its result. Its plan is its share of the run.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "crate::file::ResultDocument<'static>")
    )]
    Delivered(#[serde(serialize_with = "crate::file::with_summary")] Box<RunResult>),
    /// The agent was lost. Nothing of its part is in the numbers of the fleet.
    Lost(Box<LostShare>),
}

/// What is known of the part of a lost agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LostShare {
    /// Its share of the run.
    pub plan: RunPlan,
    /// When it was last heard of, milliseconds after the start of the window; 0 if that was before,
    /// or if the results were fetched later and nobody knows.
    pub after_ms: u64,
    /// Requests that it had sent in the window by then.
    pub sent: u64,
    /// Responses that it had received by then.
    pub answered: u64,
    /// Why it counts as lost, on one line.
    pub reason: String,
}

/// The agents at one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PlaceResult {
    /// The label of the place.
    pub place: String,
    /// Its agents, by id, in order of their workers.
    pub agents: Vec<String>,
    /// The merged results of those that delivered one; absent if none did.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::file::ResultDocument<'static>>")
    )]
    #[serde(
        default,
        serialize_with = "summarized",
        skip_serializing_if = "Option::is_none"
    )]
    pub result: Option<Box<RunResult>>,
}

#[allow(
    clippy::ref_option,
    reason = "serde hands over a reference to the field"
)]
fn summarized<S: Serializer>(
    result: &Option<Box<RunResult>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match result {
        Some(result) => crate::file::with_summary(result, serializer),
        None => serializer.serialize_none(),
    }
}

impl AgentResult {
    /// The agent's result, unless it was lost.
    #[must_use]
    pub fn result(&self) -> Option<&RunResult> {
        match &self.outcome {
            AgentOutcome::Delivered(result) => Some(result),
            AgentOutcome::Lost(_) => None,
        }
    }

    /// The agent's share of the run.
    #[must_use]
    pub fn plan(&self) -> &RunPlan {
        match &self.outcome {
            AgentOutcome::Delivered(result) => &result.plan,
            AgentOutcome::Lost(share) => &share.plan,
        }
    }

    /// What it had been dealt, as [`RunPlan::joined`] takes it.
    fn part(&self) -> (&RunPlan, Weight) {
        (self.plan(), self.weight)
    }

    fn threads(&self) -> AgentThreads {
        AgentThreads {
            threads: self.plan().load.threads,
            weight: self.weight,
        }
    }
}

impl RunResult {
    /// Whether a fleet made the run and a part of its load is missing: an agent was lost, or ended
    /// before the others.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        let is_missing = |agent: &AgentResult| agent.result().is_none() || agent.early.is_some();
        self.agents.iter().any(is_missing)
    }
}

/// Merges the parts of a run by a fleet into one result. `plan` is what was dealt out, and
/// `environment` is the coordinator's. The order of the agents does not matter. The verdicts and
/// warnings of the whole and of the places are left to the crate `judging`.
///
/// The window is that of the agent that ended last, as for the workers of one machine.
#[must_use]
pub fn merge(plan: &RunPlan, environment: Environment, agents: Vec<AgentResult>) -> RunResult {
    let mut merged = Merged::of(agents.len());
    agents.into_iter().for_each(|agent| merged.add(agent));
    merged.finish(plan, environment)
}

/// Parts of a run that are merged one after the other, so that the time series of many agents need
/// not be in memory at once.
#[derive(Debug)]
pub struct Merged {
    keeps_time: bool,
    agents: Vec<AgentResult>,
    recording: Recording,
    places: Vec<(String, Recording)>,
}

impl Merged {
    /// Nothing yet of this many agents.
    #[must_use]
    pub fn of(agents: usize) -> Self {
        Self {
            keeps_time: agents <= AGENTS_OVER_TIME_MAX,
            agents: Vec::new(),
            recording: Recording::new(),
            places: Vec::new(),
        }
    }

    /// Adds an agent.
    pub fn add(&mut self, mut agent: AgentResult) {
        let at = self
            .places
            .iter()
            .position(|(place, _)| *place == agent.place);
        let at = at.unwrap_or_else(|| {
            self.places.push((agent.place.clone(), Recording::new()));
            self.places.len() - 1
        });
        if let Some(result) = agent.result() {
            self.recording.merge(&result.recording);
            self.places[at].1.merge(&result.recording);
        }
        if !self.keeps_time {
            agent.make_small();
        }
        self.agents.push(agent);
    }

    /// The result of all, as [`merge`] returns it.
    #[must_use]
    pub fn finish(self, plan: &RunPlan, environment: Environment) -> RunResult {
        let Self {
            mut agents,
            recording,
            mut places,
            ..
        } = self;
        agents.sort_by(|a, b| (a.worker_base, &a.id).cmp(&(b.worker_base, &b.id)));
        let first_at = |place: &str| agents.iter().position(|agent| agent.place == place);
        places.sort_by_key(|(place, _)| first_at(place));
        let all: Vec<&AgentResult> = agents.iter().collect();
        let threads: Vec<AgentThreads> = agents.iter().map(AgentResult::threads).collect();
        let places = places.into_iter().map(|(place, recording)| {
            let at_place = all.iter().filter(|agent| agent.place == place);
            let members: Vec<&AgentResult> = at_place.copied().collect();
            PlaceResult {
                agents: members.iter().map(|agent| agent.id.clone()).collect(),
                result: place_result(plan, &threads, &members, recording).map(Box::new),
                place,
            }
        });
        let places = places.collect();
        let plan = plan.joined(agents.iter().map(AgentResult::part), &threads);
        let mut merged = joined(plan, environment, &all, recording);
        merged.places = places;
        merged.agents = agents;
        merged
    }
}

/// The result of the agents at one place. Its environment is that of the first one.
fn place_result(
    plan: &RunPlan,
    threads: &[AgentThreads],
    members: &[&AgentResult],
    recording: Recording,
) -> Option<RunResult> {
    let first = members.iter().find_map(|agent| agent.result())?;
    let parts = members.iter().map(|agent| agent.part());
    let mut plan = plan.joined(parts, threads);
    // The place may have its own address of the target.
    plan.target = first.plan.target.clone();
    Some(joined(plan, first.environment.clone(), members, recording))
}

/// The results of agents in order of their workers, as if one machine had made them.
fn joined(
    mut plan: RunPlan,
    environment: Environment,
    agents: &[&AgentResult],
    recording: Recording,
) -> RunResult {
    let delivered: Vec<&RunResult> = agents.iter().filter_map(|agent| agent.result()).collect();
    if let Some(first) = delivered.first() {
        // The server may have chosen it, which only agents notice.
        plan.load.protocol = first.plan.load.protocol;
    }
    let mut merged = RunResult {
        environment,
        backend: common_backend(&delivered),
        recording,
        ..RunResult::new(plan, common_window(&delivered))
    };
    for result in &delivered {
        let Generator { workers, lags, .. } = &result.generator;
        merged.generator.workers.extend_from_slice(workers);
        merged.generator.lags.extend_from_slice(lags);
    }
    // Machines cannot be added up, and neither can what their kernels counted.
    if let ([_], [alone]) = (agents, &delivered[..]) {
        merged.generator.machine = alone.generator.machine;
        merged.telemetry.clone_from(&alone.telemetry);
        merged.profile.clone_from(&alone.profile);
    }
    merged
}

fn common_window(results: &[&RunResult]) -> Window {
    let windows = || results.iter().map(|result| result.window);
    Window {
        started_unix_ms: windows().next().unwrap_or_default().started_unix_ms,
        duration_ns: windows().map(|it| it.duration_ns).max().unwrap_or(0),
        drained_ns: windows().filter_map(|it| it.drained_ns).max(),
        warmup_ns: windows().map(|it| it.warmup_ns).max().unwrap_or(0),
        settling: None,
        interrupted: windows().any(|it| it.interrupted),
        is_hopeless: windows().any(|it| it.is_hopeless),
    }
}

fn common_backend(results: &[&RunResult]) -> Backend {
    let Some(first) = results.first() else {
        return Backend::default();
    };
    if results.iter().all(|result| result.backend == first.backend) {
        return first.backend.clone();
    }
    let mut names: Vec<&str> = results.iter().map(|it| it.backend.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    Backend {
        name: names.join(", "),
        reason: "each agent has its own".to_owned(),
    }
}

impl AgentResult {
    /// Makes it small enough that hundreds of them are in memory at once.
    fn make_small(&mut self) {
        if let AgentOutcome::Delivered(result) = &mut self.outcome {
            result.recording.forget_time();
            result.recording.pack();
        }
    }
}

/// Checks that the numbers of a fleet are exactly those of its agents together.
///
/// # Errors
/// The first contradiction between the agents, the places and the recording of all of them.
pub(crate) fn check(result: &RunResult) -> Result<(), Contradiction> {
    if result.agents.is_empty() {
        return Ok(());
    }
    for agent in &result.agents {
        if let Some(part) = agent.result() {
            crate::check(part).map_err(|error| error.within(&format!("agent {}", agent.id)))?;
        }
    }
    for place in &result.places {
        if let Some(part) = &place.result {
            crate::check(part)
                .and_then(|()| check_parts(&part.recording, result, |it| it.place == place.place))
                .map_err(|error| error.within(&format!("place {}", place.place)))?;
        }
    }
    check_parts(&result.recording, result, |_| true)
}

fn check_parts(
    whole: &Recording,
    result: &RunResult,
    is_part: impl Fn(&AgentResult) -> bool,
) -> Result<(), Contradiction> {
    let mut parts = Recording::new();
    let of_parts = result.agents.iter().filter(|agent| is_part(agent));
    for part in of_parts.filter_map(AgentResult::result) {
        parts.merge(&part.recording);
    }
    let is_same = match result.agents.len() {
        ..=AGENTS_OVER_TIME_MAX => parts == *whole,
        _ => {
            let mut whole = whole.clone();
            // The agents' intervals may differ in length.
            parts.forget_time();
            whole.forget_time();
            parts.series.rows().iter().map(|row| row.answered).eq(whole
                .series
                .rows()
                .iter()
                .map(|row| row.answered))
                && Recording {
                    series: parts.series.clone(),
                    intervals: parts.intervals.clone(),
                    ..whole
                } == parts
        }
    };
    if is_same {
        Ok(())
    } else {
        Err(Contradiction(
            "the recording is not that of the agents together".to_owned(),
        ))
    }
}
