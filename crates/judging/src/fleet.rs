//! Judges a run by a fleet. The load generator is many machines, and each agent has judged its own.

use plan::readable::count;
use results::{AgentOutcome, AgentResult, Finding, Recording, RunResult, Verdict, Warning};

use crate::sentences::finding;
use crate::verdict::{delayed, disturbed_percentiles};
use crate::warnings::{about_numbers, blames_server};

/// The symptoms of at most this many agents are shown; more would hide what matters.
const AGENTS_SHOWN_MAX: usize = 4;

/// Sets the verdicts and warnings of the places.
pub(crate) fn judge_places(result: &mut RunResult) {
    let RunResult { agents, places, .. } = result;
    for place in places {
        let members = agents.iter().filter(|agent| agent.place == place.place);
        let members: Vec<&AgentResult> = members.collect();
        if let Some(result) = &mut place.result {
            result.generator.verdict = common(&members, &result.recording, &[]);
            let mut warnings = about_numbers(result, lost_connections(&members));
            warnings.extend(about_agents(&members, result));
            result.warnings = warnings.into_iter().map(finding).collect();
        }
    }
}

/// Saturated if any agent was; disturbed if the percentiles of all agents together were, or if it
/// is not known how much of them one agent caused; and unknown if any agent's verdict is.
pub(crate) fn verdict(result: &RunResult, more_percents: &[f64]) -> Verdict {
    let agents: Vec<&AgentResult> = result.agents.iter().collect();
    common(&agents, &result.recording, more_percents)
}

/// The warnings about a fleet and its totals.
pub(crate) fn warnings(result: &RunResult) -> Vec<Warning> {
    let agents: Vec<&AgentResult> = result.agents.iter().collect();
    let mut found = about_numbers(result, lost_connections(&agents));
    found.extend(about_agents(&agents, result));
    found
}

fn common(agents: &[&AgentResult], recording: &Recording, more_percents: &[f64]) -> Verdict {
    let delivered: Vec<(&str, &Verdict)> = agents
        .iter()
        .filter_map(|agent| Some((agent.id.as_str(), &agent.result()?.generator.verdict)))
        .collect();
    let affected = |is_it: fn(&Verdict) -> bool| {
        let all = delivered.iter().copied();
        all.filter(move |(_, verdict)| is_it(verdict))
            .collect::<Vec<_>>()
    };
    let is_partly_known = !affected(Verdict::is_partly_known).is_empty();
    let mut percentiles = disturbed_percentiles(recording, more_percents);
    for share in &mut percentiles {
        share.is_lower_bound = is_partly_known;
    }
    let saturated = affected(Verdict::is_saturated);
    let is_saturated = !saturated.is_empty();
    if !is_saturated && percentiles.is_empty() && !is_partly_known {
        let is_known = |(_, verdict): &(&str, &Verdict)| **verdict != Verdict::Unknown;
        return if !delivered.is_empty() && delivered.iter().all(is_known) {
            Verdict::Undisturbed
        } else {
            Verdict::Unknown
        };
    }
    if let [agent] = agents
        && let Some(result) = agent.result()
    {
        return result.generator.verdict.clone();
    }
    let (affected, word) = if is_saturated {
        (saturated, "saturated")
    } else {
        (affected(Verdict::is_disturbed), "disturbed")
    };
    let symptoms = affected
        .iter()
        .take(AGENTS_SHOWN_MAX)
        .flat_map(|(id, verdict)| {
            verdict.evidence().0.iter().map(move |symptom| Finding {
                data: symptom.data.clone(),
                text: format!("agent {id}: {}", symptom.text),
            })
        })
        .collect();
    let were = match affected.len() {
        1 => "was",
        _ => "were",
    };
    let (some, all) = (affected.len() as u64, delivered.len() as u64);
    let mut remedy = format!("{} of {} agents {were} {word}", count(some), count(all));
    if let Some((first, verdict)) = affected.first()
        && !verdict.evidence().1.is_empty()
    {
        remedy.push_str(&format!("; on {first}: {}", verdict.evidence().1));
    }
    delayed(is_saturated, percentiles, symptoms, remedy)
}

/// The connections of those that were lost. Whether they were established is not known.
fn lost_connections(agents: &[&AgentResult]) -> u64 {
    let lost = agents.iter().filter(|agent| agent.result().is_none());
    lost.map(|agent| u64::from(agent.plan().load.connections))
        .sum()
}

/// Lost agents, and what only the agents themselves can know.
fn about_agents(agents: &[&AgentResult], result: &RunResult) -> Vec<Warning> {
    let lost = || {
        agents.iter().filter_map(|agent| match &agent.outcome {
            AgentOutcome::Lost(share) => Some((agent, share)),
            AgentOutcome::Delivered(_) => None,
        })
    };
    let first_lost = lost().min_by_key(|(agent, share)| (share.after_ms, agent.worker_base));
    let mut found: Vec<Warning> = first_lost
        .map(|(agent, share)| Warning::Partial {
            agents: agents.len() as u64,
            lost: lost().count() as u64,
            agent: agent.id.clone(),
            after_ms: share.after_ms,
            reason: share.reason.clone(),
            connections: lost_connections(agents),
        })
        .into_iter()
        .collect();
    let early = || {
        agents.iter().filter_map(|agent| {
            let after_ms = agent.result()?.window.duration_ns / 1_000_000;
            Some((agent, after_ms, agent.early.as_ref()?))
        })
    };
    let first_early = early().min_by_key(|(agent, after_ms, _)| (*after_ms, agent.worker_base));
    found.extend(
        first_early.map(|(agent, after_ms, reason)| Warning::EndedEarly {
            agents: agents.len() as u64,
            early: early().count() as u64,
            agent: agent.id.clone(),
            after_ms,
            reason: reason.clone(),
        }),
    );
    let warnings = || {
        let delivered = agents.iter().filter_map(|agent| agent.result());
        delivered.flat_map(|result| &result.warnings)
    };
    let gave_up = warnings().filter_map(|warning| match warning.data {
        Warning::GaveUp { is_refused, .. } => Some(is_refused),
        _ => None,
    });
    if let Some(is_refused) = gave_up.reduce(|one, other| one && other) {
        found.push(Warning::GaveUp {
            sent: result.recording.counters.sent,
            wanted: result.plan.stop.requests.unwrap_or_default(),
            is_refused,
        });
    }
    for agent in agents {
        let warnings = agent.result().map_or(&[][..], |result| &result.warnings);
        found.extend(warnings.iter().filter_map(|warning| match warning.data {
            Warning::ScriptStuck { worker, .. } => Some(Warning::ScriptStuck {
                worker,
                agent: Some(agent.id.clone()),
            }),
            _ => None,
        }));
    }
    let is_stuck = |warning: &Warning| matches!(warning, Warning::ScriptStuck { .. });
    if found.iter().any(is_stuck) {
        found.retain(|warning| !blames_server(warning));
    }
    found
}
