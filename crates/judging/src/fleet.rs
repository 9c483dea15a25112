//! Judges a run by a fleet. The load generator is many machines, and each agent has judged its own.

use std::collections::BTreeSet;

use plan::readable::count;
use results::{AgentOutcome, AgentResult, Finding, RunResult, Verdict, Warning};

use crate::sentences::finding;
use crate::warnings::about_numbers;

/// The symptoms of this many agents are shown; more would hide what matters.
const AGENTS_SHOWN_MAX: usize = 4;

/// Sets the verdicts and warnings of the places.
pub(crate) fn judge_places(result: &mut RunResult) {
    let RunResult { agents, places, .. } = result;
    for place in places {
        let members = agents.iter().filter(|agent| agent.place == place.place);
        let members: Vec<&AgentResult> = members.collect();
        if let Some(result) = &mut place.result {
            result.generator.verdict = common(&members);
            let is_saturated = result.generator.verdict.is_saturated();
            let mut warnings = about_numbers(result, is_saturated);
            warnings.extend(about_agents(&members, result));
            result.warnings = warnings.into_iter().map(finding).collect();
        }
    }
}

/// Saturated if any agent was, unknown if any is unknown.
pub(crate) fn verdict(agents: &[AgentResult]) -> Verdict {
    common(&agents.iter().collect::<Vec<_>>())
}

/// The warnings about a fleet that do not follow from its totals.
pub(crate) fn warnings(result: &RunResult) -> Vec<Warning> {
    let agents: Vec<&AgentResult> = result.agents.iter().collect();
    about_agents(&agents, result)
}

fn common(agents: &[&AgentResult]) -> Verdict {
    let delivered: Vec<(&str, &Verdict)> = agents
        .iter()
        .filter_map(|agent| Some((agent.id.as_str(), &agent.result()?.generator.verdict)))
        .collect();
    let saturated: Vec<_> = delivered
        .iter()
        .filter_map(|(id, verdict)| match verdict {
            Verdict::Saturated { symptoms, remedy } => Some((*id, symptoms, remedy)),
            Verdict::NotSaturated | Verdict::Unknown => None,
        })
        .collect();
    let Some((first, _, first_remedy)) = saturated.first() else {
        let is_known = |(_, verdict): &(&str, &Verdict)| **verdict == Verdict::NotSaturated;
        return match !delivered.is_empty() && delivered.iter().all(is_known) {
            true => Verdict::NotSaturated,
            false => Verdict::Unknown,
        };
    };
    if let [agent] = agents
        && let Some(result) = agent.result()
    {
        return result.generator.verdict.clone();
    }
    let symptoms = saturated
        .iter()
        .take(AGENTS_SHOWN_MAX)
        .flat_map(|(id, symptoms, _)| {
            symptoms.iter().map(move |symptom| Finding {
                data: symptom.data,
                text: format!("agent {id}: {}", symptom.text),
            })
        })
        .collect();
    let were = match saturated.len() {
        1 => "was",
        _ => "were",
    };
    let (some, all) = (saturated.len() as u64, delivered.len() as u64);
    let remedy = match first_remedy.as_str() {
        "" => String::new(),
        remedy => format!("; on {first}: {remedy}"),
    };
    Verdict::Saturated {
        symptoms,
        remedy: format!(
            "{} of {} agents {were} saturated{remedy}",
            count(some),
            count(all)
        ),
    }
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
    if warnings().any(|warning| matches!(warning.data, Warning::GaveUp { .. })) {
        found.push(Warning::GaveUp {
            sent: result.recording.counters.sent,
            wanted: result.plan.stop.requests.unwrap_or_default(),
        });
    }
    let stuck: BTreeSet<u32> = warnings()
        .filter_map(|warning| match warning.data {
            Warning::ScriptStuck { worker } => Some(worker),
            _ => None,
        })
        .collect();
    let stuck = stuck.into_iter();
    found.extend(stuck.map(|worker| Warning::ScriptStuck { worker }));
    found
}
