//! What a package has besides the plan, and the result that an agent sends back.

use std::collections::BTreeMap;

use cluster::names::{AgentId, Label};
use plan::{RunPlan, Target, Weight};
use results::{Environment, RunResult, SlowSpan};
use runner::{Failures, Finished};
use serde::{Deserialize, Serialize};

/// Facts about the coordinator's invocation that belong into the agents' results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Details {
    pub(crate) command_line: Vec<String>,
    pub(crate) started_at: Option<String>,
    pub(crate) keeps_secrets: bool,
    /// The coordinator's wall clock, milliseconds since 1970 (UTC), when it sent the package.
    #[serde(default)]
    pub(crate) unix_ms: u64,
    pub(crate) outline: Outline,
}

/// What is needed to merge the results of a run, on whichever machine that is done. Agents send it
/// back with their results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outline {
    /// The plan of the user, as results show it.
    pub(crate) whole: RunPlan,
    /// In the order in which the plan was dealt out.
    pub(crate) agents: Vec<OutlinedAgent>,
    /// Addresses of the target that are different at some places, as results show them.
    pub(crate) at: BTreeMap<Label, Target>,
    pub(crate) environment: Environment,
    pub(crate) keeps_secrets: bool,
}

/// An agent of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OutlinedAgent {
    pub(crate) agent: AgentId,
    pub(crate) place: Label,
    pub(crate) weight: Weight,
}

/// What an agent measured: a line of JSON, then the saved result.
#[derive(Debug)]
pub(crate) struct AgentReport {
    pub(crate) head: ReportHead,
    pub(crate) result: RunResult,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReportHead {
    pub(crate) start_late_ns: u64,
    pub(crate) failures: Failures,
    pub(crate) outline: Outline,
    /// If a server is profiled: when the slowest requests were in flight, on the agent's clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) slow_spans: Vec<SlowSpan>,
}

/// Encodes the run of an agent.
///
/// # Errors
/// Why it cannot be written, in one line.
pub(crate) fn encode(mut finished: Finished, outline: Outline) -> Result<Vec<u8>, String> {
    let start_late_ns = finished.start_late_ns;
    // Which of them are among the slowest of all, only the coordinator knows.
    let slow_spans = std::mem::take(&mut finished.slow_spans).slowest(0);
    let (result, failures) = finished.into_parts();
    let head = ReportHead {
        start_late_ns,
        failures,
        outline,
        slow_spans,
    };
    let mut bytes = serde_json::to_vec(&head).map_err(|error| error.to_string())?;
    bytes.push(b'\n');
    results::file::save(&result, &[], &mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

impl AgentReport {
    /// # Errors
    /// Why the bytes are not a report, in one line.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let (head, rest) = Self::decode_head(bytes)?;
        let result = results::file::load(rest)
            .map_err(|error| format!("its result cannot be read: {error}"))?;
        results::check(&result).map_err(|problem| format!("its result is wrong: {problem}"))?;
        Ok(Self { head, result })
    }

    /// The first line, and what follows it.
    ///
    /// # Errors
    /// As for [`Self::decode`].
    pub(crate) fn decode_head(bytes: &[u8]) -> Result<(ReportHead, &[u8]), String> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (head, rest) = bytes
            .split_at_checked(end.map_or(bytes.len(), |end| end + 1))
            .unwrap_or((bytes, &[]));
        let head = serde_json::from_slice(head)
            .map_err(|error| format!("its result cannot be read: {error}"))?;
        Ok((head, rest))
    }
}
