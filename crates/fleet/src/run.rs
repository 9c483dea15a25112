//! A run by a fleet, from its start to the merged result.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::AtomicBool;

use cluster::coordinator::{
    AgentPart, ClockReport, ConnectedRun, Course, Event, FleetRun, Member, PartResult, RunSettings,
    StopReason, Watcher,
};
use cluster::message::Ending;
use cluster::names::{AgentId, RunId};
use cluster::package::length_ns;
use plan::readable::{counted, time_ns};
use plan::{AgentThreads, RunPlan, Share};
use results::fleet::{AGENTS_OVER_TIME_MAX, Merged};
use results::{AgentOutcome, AgentResult, Environment, LostShare, ProfileSamples, RunResult};
use runner::{DoneScript, Failures, Finished, Observer, PreparedRun, RunObservers, SharedRequests};

use crate::coordinator::{Coordinator, FleetError};
use crate::profile::{FleetSpans, ServerProfile};
use crate::progress::{LastSeen, Progress};
use crate::wire::AgentReport;
use crate::{clock, random, version, wall_clock};

/// A larger bound of an agent's clock is noted for the user: the limit for the spread of starts.
const GOOD_BOUND_NS: u64 = 5_000_000;

/// The wall clock and the monotonic clock at the same moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    pub(crate) unix_ms: u64,
    pub(crate) monotonic_ns: u64,
}

/// A run that all agents have prepared.
pub struct PreparedFleet<'c> {
    id: RunId,
    run: ConnectedRun<'c>,
    /// The plan with the threads of all agents.
    joined: RunPlan,
    /// Name and place of each agent.
    agents: Vec<(String, String)>,
    inputs: MergeInputs,
    notes: Vec<String>,
}

/// What the merged result is made from besides what agents measure: it is known before the start.
pub(crate) struct MergeInputs {
    /// The plan of the user.
    pub(crate) whole: RunPlan,
    pub(crate) shares: BTreeMap<AgentId, Share>,
    pub(crate) done: DoneScript,
    pub(crate) environment: Environment,
    pub(crate) start: Start,
    /// The requests of a file.
    pub(crate) requests: Option<SharedRequests>,
    /// The server that is being sampled.
    pub(crate) profile: Option<ServerProfile>,
}

impl<'c> PreparedFleet<'c> {
    /// Has the agents prepare.
    pub(crate) fn new(
        coordinator: &'c Coordinator,
        members: Vec<Member>,
        inputs: MergeInputs,
        mut notes: Vec<String>,
    ) -> Result<Self, FleetError> {
        let Coordinator { bus, options } = coordinator;
        let name = |member: &Member| {
            let present = &member.present;
            let place = present.hello.place.to_string();
            (present.agent.to_string(), place)
        };
        let agents = members.iter().map(name).collect();
        let clock = clock();
        let id = RunId::random(&mut random());
        let settings = RunSettings {
            fleet: options.fleet.clone(),
            version: version(),
            run: id.clone(),
            on_lost: options.on_lost,
            inbox: bus.new_inbox(),
            wall: wall_clock(),
            length_ns: length_ns(&inputs.whole),
        };
        let run = FleetRun::new(settings, options.key.clone(), members, clock());
        let mut run = ConnectedRun::new(run, &**bus, clock)?;
        run.prepare(&mut |event: &Event| {
            if let Event::Prepared { agent, notes: own } = event {
                notes.extend(own.iter().map(|note| format!("agent {agent}: {note}")));
            }
        })??;
        let all = inputs.shares.values().map(|share| AgentThreads {
            threads: share.plan.load.threads,
            weight: share.weight,
        });
        let all: Vec<AgentThreads> = all.collect();
        let plans = inputs.shares.values().map(|it| (&it.plan, it.weight));
        Ok(Self {
            id,
            run,
            joined: inputs.whole.joined(plans, &all),
            agents,
            inputs,
            notes,
        })
    }
}

impl PreparedRun for PreparedFleet<'_> {
    fn plan(&self) -> &RunPlan {
        &self.joined
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn draws_requests(&self) -> bool {
        let requests = self.inputs.requests.as_ref();
        requests.is_some_and(|requests| requests.uses_seed)
    }

    fn request_names(&self) -> Option<&[String]> {
        let requests = self.inputs.requests.as_ref();
        requests.map(|requests| requests.names.as_slice())
    }

    fn backend(&self) -> String {
        let agents = counted(self.agents.len() as u64, "agent");
        format!("{agents}: each chooses its backend")
    }

    /// For [`Coordinator::fetch`] and [`Coordinator::stop`].
    fn run_id(&self) -> Option<&str> {
        Some(self.id.as_str())
    }

    fn agents(&self) -> &[(String, String)] {
        &self.agents
    }

    /// Starts the agents at one moment, and merges their results. They send no samples.
    fn start(
        self: Box<Self>,
        interrupted: &AtomicBool,
        observers: RunObservers<'_>,
    ) -> Result<Finished, Box<dyn Error + Send + Sync>> {
        let Self {
            run,
            agents,
            inputs,
            ..
        } = *self;
        let MergeInputs {
            whole,
            shares,
            done,
            environment,
            start,
            requests: _,
            profile,
        } = inputs;
        let mut merging = Merging::new(agents, shares, Some(start), observers.observer);
        let outcome = run.carry_out(interrupted, &mut merging)?;
        if let Some(failure) = outcome.failure {
            return Err(failure.into());
        }
        let samples = profile.map(ServerProfile::finish);
        Ok(merging.finish(outcome.parts, samples, (&whole, environment), done))
    }
}

/// Merges the parts of a large fleet as they come: not all would fit into memory. Those of a small
/// one have their numbers over time, and how intervals of different lengths are joined depends on
/// the order, so they are merged in the order of their workers when all have come.
pub(crate) struct Merging<'a> {
    merges_at_once: bool,
    progress: Progress<'a>,
    collected: Collected,
    merged: Merged,
}

impl<'a> Merging<'a> {
    /// Nothing yet of these agents: name and place. `start` is known to the coordinator that has
    /// made the run.
    pub(crate) fn new(
        agents: impl IntoIterator<Item = (String, String)>,
        shares: BTreeMap<AgentId, Share>,
        start: Option<Start>,
        observer: Option<&'a mut dyn Observer>,
    ) -> Self {
        Self {
            merges_at_once: shares.len() > AGENTS_OVER_TIME_MAX,
            merged: Merged::of(shares.len()),
            progress: Progress::new(agents, observer, clock()),
            collected: Collected {
                course: Course::default(),
                shares,
                start,
                failures: Failures::default(),
                notes: Vec::new(),
                spans: FleetSpans::default(),
            },
        }
    }

    /// The result of all, with the parts that were not merged yet. The samples of the server have
    /// times of this machine's clock.
    pub(crate) fn finish(
        self,
        mut parts: Vec<AgentPart>,
        samples: Option<ProfileSamples>,
        (whole, environment): (&RunPlan, Environment),
        done: DoneScript,
    ) -> Finished {
        let Self {
            mut merged,
            mut collected,
            progress,
            ..
        } = self;
        parts.sort_by_key(|part| collected.worker_base(&part.agent));
        for part in parts {
            if let Some(agent) = collected.agent(part, &progress.seen) {
                merged.add(agent);
            }
        }
        // They came in any order.
        collected.failures.messages.sort_unstable();
        collected.notes.sort_unstable();
        let mut result = merged.finish(whole, environment);
        if let Some(start) = collected.start {
            result.window.started_unix_ms = collected.started_unix_ms(start, whole);
        }
        if let Some(samples) = samples {
            let start_ns = collected.start_ns();
            result.profile = Some(collected.spans.profile(samples, &result, start_ns));
        }
        judging::judge(&mut result);
        done.finish(result, collected.failures, collected.notes)
    }
}

impl Watcher for Merging<'_> {
    fn event(&mut self, event: &Event) {
        self.progress.event(event);
    }

    fn turn(&mut self) {
        self.progress.turn();
    }

    fn part(&mut self, part: AgentPart, course: &Course) -> Option<AgentPart> {
        self.collected.course.clone_from(course);
        if !self.merges_at_once {
            return Some(part);
        }
        if let Some(agent) = self.collected.agent(part, &self.progress.seen) {
            self.merged.add(agent);
        }
        None
    }
}

/// Makes the results of agents from their parts, and collects failures and notes.
struct Collected {
    course: Course,
    shares: BTreeMap<AgentId, Share>,
    /// If it is not known, the window began when the first agent says.
    start: Option<Start>,
    failures: Failures,
    notes: Vec<String>,
    spans: FleetSpans,
}

impl Collected {
    /// The window begins after the warm-up, on this machine's wall clock.
    fn started_unix_ms(&self, start: Start, plan: &RunPlan) -> u64 {
        let since_ns = self.start_ns().saturating_sub(start.monotonic_ns);
        let warmup_ms = u64::try_from(plan.warmup.as_millis()).unwrap_or(u64::MAX);
        let since_ms = (since_ns / 1_000_000).saturating_add(warmup_ms);
        start.unix_ms.saturating_add(since_ms)
    }

    fn worker_base(&self, agent: &AgentId) -> u32 {
        let share = self.shares.get(agent);
        share.map_or(0, |share| share.schedule.worker_base)
    }

    fn start_ns(&self) -> u64 {
        self.course.start_ns.unwrap_or_default()
    }

    fn agent(
        &mut self,
        part: AgentPart,
        seen: &BTreeMap<AgentId, LastSeen>,
    ) -> Option<AgentResult> {
        let AgentPart {
            agent,
            place,
            clock,
            was_lost,
            result,
        } = part;
        let share = self.shares.get(&agent)?.clone();
        self.note_clock(&agent, clock.as_ref());
        let (bytes, early) = match result {
            PartResult::Complete(bytes) => (Ok(bytes), None),
            PartResult::Early { ending, bytes } => (Ok(bytes), self.why_early(ending)),
            PartResult::Missing(reason) => (Err(reason.to_string()), None),
        };
        let report = bytes.and_then(|bytes| AgentReport::decode(&bytes));
        if was_lost && report.is_ok() && early.is_none() {
            self.notes.push(format!(
                "agent {agent} was not heard for a time, but its result is complete"
            ));
        }
        let (start_late_ns, outcome) = match report {
            Ok(AgentReport { head, result }) => {
                self.add_failures(&agent, head.failures);
                if let Some(clock) = &clock {
                    self.spans.add(&head.slow_spans, clock);
                }
                let result = self.as_shown(result, &share.plan);
                let delivered = AgentOutcome::Delivered(Box::new(result));
                (Some(head.start_late_ns), delivered)
            }
            Err(reason) => {
                let seen = seen.get(&agent).copied().unwrap_or_default();
                let lost = self.lost(seen, share.plan, reason);
                (None, AgentOutcome::Lost(lost))
            }
        };
        Some(AgentResult {
            id: agent.to_string(),
            place: place.to_string(),
            worker_base: share.schedule.worker_base,
            weight: share.weight,
            clock_bound_ns: clock.as_ref().map(bound_ns),
            start_late_ns,
            early,
            outcome,
        })
    }

    /// The result of an agent, with the plan as the user knows it.
    fn as_shown(&self, mut result: RunResult, share: &RunPlan) -> RunResult {
        result.plan.request = share.request.clone();
        result.plan.tls = share.tls.clone();
        if let Some(start) = self.start {
            result.window.started_unix_ms = self.started_unix_ms(start, share);
        }
        result
    }

    fn why_early(&self, ending: Ending) -> Option<String> {
        match (ending, &self.course.stop) {
            (Ending::LeaseLapsed, _) => Some(
                "it stopped by itself, since it heard nothing from the coordinator for 10 s"
                    .to_owned(),
            ),
            (_, Some(StopReason::Lost(lost))) => {
                Some(format!("it was stopped, because agent {lost} was lost"))
            }
            (_, Some(StopReason::Overdue(_))) => {
                Some("it went on after the planned end, and was stopped".to_owned())
            }
            // Somebody else has ended the load.
            (Ending::Stopped, None) => {
                Some("it was told to stop before the planned end".to_owned())
            }
            // The user ended the whole run.
            (_, _) => None,
        }
    }

    fn lost(&self, seen: LastSeen, plan: RunPlan, reason: String) -> Box<LostShare> {
        let lost_ns = seen.lost_ns.unwrap_or_else(|| self.start_ns());
        let warmup_ns = u64::try_from(plan.warmup.as_nanos()).unwrap_or(u64::MAX);
        let window_ns = self.start_ns().saturating_add(warmup_ns);
        Box::new(LostShare {
            plan,
            after_ms: lost_ns.saturating_sub(window_ns) / 1_000_000,
            sent: seen.sent,
            answered: seen.answered,
            reason,
        })
    }

    fn add_failures(&mut self, agent: &AgentId, failures: Failures) {
        let messages = failures.messages.into_iter();
        self.failures.merge(Failures {
            messages: messages
                .map(|message| format!("agent {agent}: {message}"))
                .collect(),
            ..failures
        });
    }

    fn note_clock(&mut self, agent: &AgentId, clock: Option<&ClockReport>) {
        let bound_ns = clock.map(bound_ns).unwrap_or_default();
        if bound_ns > GOOD_BOUND_NS {
            self.notes.push(format!(
                "the clock of agent {agent} is known to within {}, so its requests are off the \
                 common schedule by up to that",
                time_ns(bound_ns)
            ));
        }
    }
}

/// The largest error of an agent's clock during the run: the bound of the first measurement plus
/// the drift since.
fn bound_ns(clock: &ClockReport) -> u64 {
    let ran_away_ns = clock.latest.map_or(0, |latest| {
        let moved_ns = latest.offset_ns.abs_diff(clock.offset.offset_ns);
        // A change within the bounds may be no change at all.
        moved_ns.saturating_sub(clock.offset.bound_ns.saturating_add(latest.bound_ns))
    });
    clock.offset.bound_ns.saturating_add(ran_away_ns)
}
