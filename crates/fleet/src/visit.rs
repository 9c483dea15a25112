//! What can be done with a run of another coordinator: fetch its results, or end its load.

use std::collections::{BTreeMap, BTreeSet};

use cluster::coordinator::{
    AgentPart, Course, PartResult, Present, RollCallError, RunVisit, VisitOutcome, VisitPurpose,
    VisitSettings, Wanted, Watcher, carry_out_visit, roll_call,
};
use cluster::names::{AgentId, Label, RunId};
use cluster::refusal::RefusedBy;
use plan::{AgentThreads, Share};
use runner::{DoneScript, Finished};

use crate::coordinator::{Coordinator, FleetError};
use crate::run::Merging;
use crate::wire::{AgentReport, Outline, OutlinedAgent};
use crate::{clock, version};

/// A run whose results were fetched.
pub struct FetchedRun {
    /// The merged result. The script's `done` is not called.
    pub run: Finished,
    /// Whether the run was to keep passwords, tokens and cookies in its result.
    pub keeps_secrets: bool,
}

/// A run whose load was ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoppedRun {
    /// Agents that have stopped.
    pub stopped: Vec<AgentId>,
    /// Agents whose load had ended before. They keep its result.
    pub ended: Vec<AgentId>,
    /// Agents that still make load, with the reason, in one line each.
    pub failures: Vec<String>,
}

impl Coordinator {
    /// Fetches and merges the results of a run whose coordinator is gone. The agents keep them, so
    /// they can be fetched again.
    ///
    /// # Errors
    /// If the run goes on, if no agent has its result or gives it, or if the bus is closed.
    pub fn fetch(&self, run: &RunId) -> Result<FetchedRun, FleetError> {
        let present = self.everybody()?;
        for agent in &present {
            if let Some(busy) = agent.hello.busy.as_ref().filter(|busy| busy.run == *run) {
                return Err(FleetError::GoesOn {
                    agent: agent.agent.clone(),
                    occupation: busy.clone(),
                });
            }
        }
        let mut gathering = Gathering::default();
        let visited = self.visit(run, VisitPurpose::Fetch, present, &mut |part| {
            gathering.add(part)
        })?;
        gathering.finish(visited).map_err(|refused| match refused {
            Some(error) => error,
            None => self.no_such_run(run),
        })
    }

    /// Ends the load of a run, on all agents that take part in it. A run that has not started is
    /// dropped.
    ///
    /// # Errors
    /// If no agent knows the run, or one refuses, or the bus is closed.
    pub fn stop(&self, run: &RunId) -> Result<StoppedRun, FleetError> {
        let present = self.everybody()?;
        let visited = self.visit(run, VisitPurpose::Stop, present, &mut drop)?;
        let mut outcome = StoppedRun::default();
        let mut refusal = None;
        for (agent, what) in visited {
            match what {
                VisitOutcome::Stopped => outcome.stopped.push(agent),
                VisitOutcome::Ended => outcome.ended.push(agent),
                VisitOutcome::GoesOn(stage) => {
                    let failure = format!("agent {agent} has not stopped: it is {stage}");
                    outcome.failures.push(failure);
                }
                VisitOutcome::Refused(why) => {
                    refusal.get_or_insert(RefusedBy {
                        agent,
                        refusal: why,
                    });
                }
                VisitOutcome::Unknown | VisitOutcome::Silent => {}
            }
        }
        match (outcome == StoppedRun::default(), refusal) {
            (false, refusal) => {
                outcome.failures.extend(refusal.map(|it| it.to_string()));
                Ok(outcome)
            }
            (true, Some(refusal)) => Err(FleetError::Refused(refusal)),
            (true, None) => Err(self.no_such_run(run)),
        }
    }

    /// All agents of this version.
    fn everybody(&self) -> Result<Vec<Present>, FleetError> {
        let fleet = self.options.fleet.clone();
        let all = Wanted::default();
        let roll = roll_call(&*self.bus, &clock(), fleet.clone(), version(), all)?;
        let problem = roll.problem();
        match roll.into_present() {
            none if none.is_empty() => {
                let problem = problem.unwrap_or(RollCallError::Nobody(fleet));
                Err(FleetError::RollCall(problem))
            }
            present => Ok(present),
        }
    }

    fn visit(
        &self,
        run: &RunId,
        errand: VisitPurpose,
        present: Vec<Present>,
        take: &mut dyn FnMut(AgentPart),
    ) -> Result<Vec<(AgentId, VisitOutcome)>, FleetError> {
        let Self { bus, options } = self;
        let settings = VisitSettings {
            fleet: options.fleet.clone(),
            version: version(),
            run: run.clone(),
            errand,
            inbox: bus.new_inbox(),
        };
        let clock = clock();
        let visit = RunVisit::new(settings, options.key.clone(), present, clock());
        Ok(carry_out_visit(&**bus, &clock, visit, take)?)
    }

    fn no_such_run(&self, run: &RunId) -> FleetError {
        FleetError::NoSuchRun {
            fleet: self.options.fleet.clone(),
            run: run.clone(),
        }
    }
}

/// Results that come in any order. The first one says which agents there were.
#[derive(Default)]
struct Gathering {
    /// Why results are missing that came before.
    waiting: Vec<AgentPart>,
    merging: Option<(Outline, Merging<'static>)>,
    /// The agents with a part.
    heard: BTreeSet<AgentId>,
}

impl Gathering {
    fn add(&mut self, part: AgentPart) {
        if self.merging.is_none() {
            self.merging = outline(&part).and_then(|outline| {
                let merging = merging(&outline)?;
                Some((outline, merging))
            });
        }
        self.heard.insert(part.agent.clone());
        let left = match &mut self.merging {
            Some((_, merging)) => merging.part(part, &Course::default()),
            None => Some(part),
        };
        self.waiting.extend(left);
    }

    /// # Errors
    /// Why there is no result at all; `None` if no agent knows the run.
    fn finish(
        mut self,
        visited: Vec<(AgentId, VisitOutcome)>,
    ) -> Result<FetchedRun, Option<FleetError>> {
        let Some((outline, merging)) = self.merging else {
            return Err(why_nothing(self.waiting, visited));
        };
        let visited: BTreeMap<AgentId, VisitOutcome> = visited.into_iter().collect();
        let missing = outline
            .agents
            .iter()
            .filter(|it| !self.heard.contains(&it.agent));
        self.waiting
            .extend(missing.map(|OutlinedAgent { agent, place, .. }| AgentPart {
                agent: agent.clone(),
                place: place.clone(),
                clock: None,
                was_lost: false,
                result: PartResult::Missing(Label::new(&why_missing(visited.get(agent)))),
            }));
        let Outline {
            whole,
            environment,
            keeps_secrets,
            ..
        } = outline;
        let has_script = whole.request.script.is_some();
        let mut run = merging.finish(
            self.waiting,
            None,
            (&whole, environment),
            DoneScript::default(),
        );
        if whole.profile.is_some() {
            let note = "the profile of the server is gone with the coordinator of the run";
            run.agent_notes.push(note.to_owned());
        }
        if has_script {
            let note = "the script's done() is not called for results that are fetched";
            run.agent_notes.push(note.to_owned());
        }
        Ok(FetchedRun { run, keeps_secrets })
    }
}

/// What an agent says about the whole run.
fn outline(part: &AgentPart) -> Option<Outline> {
    let (PartResult::Complete(bytes) | PartResult::Early { bytes, .. }) = &part.result else {
        return None;
    };
    AgentReport::decode_head(bytes)
        .ok()
        .map(|(head, _)| head.outline)
}

/// `None` if the outline contradicts itself.
fn merging(outline: &Outline) -> Option<Merging<'static>> {
    let dealt_to = outline.agents.iter().map(|agent| AgentThreads {
        threads: outline.whole.load.threads,
        weight: agent.weight,
    });
    let dealt = outline.whole.deal(&dealt_to.collect::<Vec<_>>()).ok()?;
    let agents = outline.agents.iter();
    let shares = agents.clone().zip(dealt).map(|(agent, mut share)| {
        if let Some(target) = outline.at.get(&agent.place) {
            share.plan.target = target.clone();
        }
        (agent.agent.clone(), share)
    });
    let shares: BTreeMap<AgentId, Share> = shares.collect();
    let names = agents.map(|it| (it.agent.to_string(), it.place.to_string()));
    Some(Merging::new(names, shares, None, None))
}

fn why_nothing(parts: Vec<AgentPart>, visited: Vec<(AgentId, VisitOutcome)>) -> Option<FleetError> {
    let failed = parts.into_iter().find_map(|part| {
        let reason = match part.result {
            PartResult::Missing(reason) => reason,
            PartResult::Complete(bytes) | PartResult::Early { bytes, .. } => {
                Label::new(&AgentReport::decode(&bytes).err()?)
            }
        };
        let agent = part.agent;
        Some(cluster::coordinator::FleetError::Failed { agent, reason }.into())
    });
    failed.or_else(|| {
        visited.into_iter().find_map(|(agent, what)| match what {
            VisitOutcome::Refused(refusal) => {
                Some(FleetError::Refused(RefusedBy { agent, refusal }))
            }
            _ => None,
        })
    })
}

fn why_missing(what: Option<&VisitOutcome>) -> String {
    match what {
        None => "it is not there any more".to_owned(),
        Some(VisitOutcome::Silent) => "it has not replied".to_owned(),
        Some(VisitOutcome::Refused(refusal)) => refusal.to_string(),
        Some(VisitOutcome::GoesOn(stage)) => format!("it is still {stage}"),
        Some(VisitOutcome::Unknown | VisitOutcome::Stopped | VisitOutcome::Ended) => {
            "it does not have its result any more: it was restarted, or has dropped it".to_owned()
        }
    }
}
