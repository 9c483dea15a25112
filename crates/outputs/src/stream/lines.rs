//! The lines of a stream.

use std::collections::BTreeMap;

use plan::RunPlan;
use results::metric::{self, Statistic, Time};
use results::snapshot::{AgentSnapshot, Snapshot, Stage};
use results::{Cell, Experiment, SearchStep, Verdict};
use serde::Serialize;

use crate::figures::{Figures, SecondFigures};

/// One line of a stream.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum StreamLine<'a> {
    /// The load of a run starts.
    Start(StartLine<'a>),
    /// A second of a run.
    Second(SecondLine<'a>),
    /// The load of a run has ended.
    End(EndLine<'a>),
    /// An experiment starts.
    ExperimentStart(ExperimentLine<'a>),
    /// An attempt of a trial begins. The lines of its run follow.
    TrialStart(TrialStartLine<'a>),
    /// An attempt of a trial has ended.
    TrialEnd(TrialEndLine<'a>),
    /// Something else that the user of an experiment should know.
    Note(NoteLine<'a>),
    /// An experiment has ended, and everything that it changed was restored.
    ExperimentEnd(ExperimentEndLine),
    /// What a comparison of all trials of an experiment has shown.
    Verdict(VerdictLine<'a>),
}

/// When a line was made, and which trial it belongs to.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Moment {
    /// The wall clock in UTC, RFC 3339.
    pub(super) time: String,
    /// Seconds since the stream was opened, by the monotonic clock.
    pub(super) elapsed_s: f64,
    /// How many lines were lost so far, because the reader was too slow or a line could not be
    /// written; absent for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) lost_lines: u64,
    /// In an experiment: the trial, by its position in the whole order, from 1. Of a try, its
    /// number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) position: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The load of a run starts.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct StartLine<'a> {
    #[serde(flatten)]
    pub(super) moment: Moment,
    /// Version of the program.
    pub(super) version: &'a str,
    /// Name of the run, if a fleet makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run_id: Option<&'a str>,
    /// The plan of the run, as in a result; of a fleet with the threads of all agents.
    pub(super) plan: &'a RunPlan,
    /// What the result says about the run (`--label`), by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: &'a BTreeMap<String, String>,
    /// If a fleet makes the run: its agents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) agents: Vec<AgentName<'a>>,
}

/// An agent of a fleet.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct AgentName<'a> {
    /// Name of the agent.
    id: &'a str,
    /// The label of its place.
    place: &'a str,
}

impl<'a> AgentName<'a> {
    pub(super) fn of((id, place): &'a (String, String)) -> Self {
        Self { id, place }
    }
}

/// A second of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct SecondLine<'a> {
    #[serde(flatten)]
    moment: Moment,
    /// Whether the run is warming up or measured.
    stage: Stage,
    /// Since the previous second.
    interval: Figures,
    /// Since the start of the window; absent during the warm-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<Figures>,
    /// Requests sent and not yet answered.
    in_flight: u64,
    /// Connections that are open now.
    open_connections: u64,
    /// CPU use of the busiest worker in the interval, 0 to 1; absent if the kernel does not report
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    busiest_worker: Option<f64>,
    /// If a fleet makes the run: its agents, in a fixed order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    agents: Vec<AgentSecond<'a>>,
}

impl<'a> SecondLine<'a> {
    pub(super) fn new(moment: Moment, snapshot: &'a Snapshot, figures: SecondFigures) -> Self {
        Self {
            moment,
            stage: snapshot.stage,
            interval: figures.interval,
            total: figures.total,
            in_flight: snapshot.counters.in_flight,
            open_connections: snapshot.open_connections,
            busiest_worker: snapshot.busiest_worker,
            agents: snapshot.agents.iter().map(AgentSecond::of).collect(),
        }
    }
}

/// The latest second of an agent.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct AgentSecond<'a> {
    #[serde(flatten)]
    name: AgentName<'a>,
    /// Whether the agent was lost. The other figures are then its last ones.
    is_lost: bool,
    /// Since its previous second; its errors are those of the window so far.
    interval: Figures,
    /// Connections that are open now.
    open_connections: u64,
    /// CPU use of its busiest worker in the interval, 0 to 1; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    busiest_worker: Option<f64>,
}

impl<'a> AgentSecond<'a> {
    fn of(agent: &'a AgentSnapshot) -> Self {
        let rate = (metric::REQUESTS_PER_SEC.to_owned(), agent.requests_per_sec);
        let errors = (metric::ERRORS.to_owned(), agent.errors as f64);
        let p99 = agent.p99_ns.map(|p99_ns| {
            let name = Statistic::Percentile(99.0).of_time(Time::LATENCY);
            (name, p99_ns as f64 / 1e3)
        });
        Self {
            name: AgentName {
                id: &agent.id,
                place: &agent.place,
            },
            is_lost: agent.is_lost,
            interval: Figures([rate, errors].into_iter().chain(p99).collect()),
            open_connections: agent.open_connections,
            busiest_worker: agent.busiest_worker,
        }
    }
}

/// The load of a run has ended.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct EndLine<'a> {
    #[serde(flatten)]
    pub(super) moment: Moment,
    /// Why there is no result; absent if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<&'a str>,
    /// Whether the run was ended early by Ctrl-C.
    pub(super) interrupted: bool,
    /// Of the whole window, all metrics that were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total: Option<Figures>,
    /// The verdict on the load generator, as in a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verdict: Option<&'a Verdict>,
    /// Reasons why numbers may be wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<&'a str>,
    /// The conditions of `--fail-if` that hold.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(super) failed: &'a [String],
}

/// An experiment starts.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct ExperimentLine<'a> {
    #[serde(flatten)]
    pub(super) moment: Moment,
    /// The experiment, as in its results folder.
    pub(super) experiment: &'a Experiment,
}

/// An attempt of a trial begins.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct TrialStartLine<'a> {
    #[serde(flatten)]
    pub(super) moment: Moment,
    /// Trials of the whole experiment; of a try, the number of tries.
    pub(super) trials: usize,
    /// Which attempt, from 1.
    pub(super) attempt: u32,
    /// Only a few requests, before the first trial, to see whether a level works.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_try: bool,
    /// The cell that is run.
    pub(super) cell: &'a Cell,
    /// Number of the round, from 1.
    pub(super) round: u32,
    /// The step of a search that it is, with the rate that is tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) search: Option<&'a SearchStep>,
}

/// How an attempt of a trial ended.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(super) enum TrialOutcomeName {
    /// It was measured and saved.
    Finished,
    /// It has no usable result.
    Failed,
}

/// An attempt of a trial has ended.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct TrialEndLine<'a> {
    #[serde(flatten)]
    pub(super) moment: Moment,
    /// How it ended.
    pub(super) outcome: TrialOutcomeName,
    /// Why it failed; absent if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<&'a str>,
    /// Whether another attempt follows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) again: bool,
    /// The cell that was run.
    pub(super) cell: &'a Cell,
    /// Number of the round, from 1.
    pub(super) round: u32,
    /// The step of a search that it was, with what is known after it; the last one has the outcome
    /// of the search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) search: Option<&'a SearchStep>,
    /// Of the whole window, all metrics that were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total: Option<Figures>,
    /// The verdict on the load generator, as in a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verdict: Option<&'a Verdict>,
}

/// Something else that the user of an experiment should know.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct NoteLine<'a> {
    #[serde(flatten)]
    pub(super) moment: Moment,
    /// The note, one line.
    pub(super) text: &'a str,
}

/// An experiment has ended.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct ExperimentEndLine {
    #[serde(flatten)]
    pub(super) moment: Moment,
    /// Trials that were measured.
    pub(super) finished: u32,
    /// Trials that failed every attempt.
    pub(super) failed: u32,
    /// Trials that were not made.
    pub(super) left: u32,
    /// Whether it was ended early by Ctrl-C.
    pub(super) interrupted: bool,
    /// Why it was aborted; absent if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) abort: Option<String>,
}

/// What a comparison of all trials of an experiment has shown.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct VerdictLine<'a> {
    #[serde(flatten)]
    pub(super) moment: Moment,
    /// The factor; absent if cells are compared as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) factor: Option<&'a str>,
    /// The profile, target or cell that the runs share; absent if there is only one.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(super) place: &'a [String],
    /// Name of the metric.
    pub(super) metric: &'a str,
    /// The verdict in a sentence.
    pub(super) sentence: &'a str,
}

/// The schema of a line, draft 2020-12. It is closed: a field that it does not name is an error.
#[cfg(feature = "schema")]
#[must_use]
pub fn schema() -> serde_json::Value {
    results::schema::of::<StreamLine<'static>>(
        "wrkbench stream",
        "One line of wrkbench --stream. Names carry units; those in interval and total are the \
         names of metrics. docs/live.md explains the fields.",
    )
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Figures {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Figures".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Values by the name of their metric, in its unit.",
            "type": "object",
            "additionalProperties": { "type": "number" },
        })
    }
}
