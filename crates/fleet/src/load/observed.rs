//! What the observers of an agent are told of the load that it makes.

use std::collections::BTreeMap;

use outputs::{Event, Observers, RunEnd, RunStart};
use plan::RunPlan;
use results::snapshot::Snapshot;

use crate::wire::AgentReport;

/// Follows the load processes of an agent. Without observers it costs nothing.
pub(crate) struct ObservedLoad<'o> {
    observers: Observers<'o>,
    /// Name and place of the agent.
    agent: (String, String),
    /// The agent's share of the run that is prepared.
    plan: Option<RunPlan>,
}

impl<'o> ObservedLoad<'o> {
    pub(crate) fn new(observers: Observers<'o>, agent: (String, String)) -> Self {
        Self {
            observers,
            agent,
            plan: None,
        }
    }

    fn is_observed(&mut self) -> bool {
        self.observers.observer().is_some()
    }

    pub(super) fn prepare(&mut self, plan: &RunPlan) {
        // Secrets are the coordinator's business.
        self.plan = self.is_observed().then(|| plan.without_secrets());
    }

    pub(super) fn start(&mut self) {
        if let Some(plan) = &self.plan {
            self.observers.event(&Event::Start(RunStart {
                plan,
                labels: &BTreeMap::new(),
                run_id: None,
                agents: std::slice::from_ref(&self.agent),
            }));
        }
    }

    pub(super) fn snapshot(&mut self, snapshot: &serde_json::Value) {
        if let Some(observer) = self.observers.observer()
            && let Ok(snapshot) = serde_json::from_value::<Snapshot>(snapshot.clone())
        {
            observer.snapshot(&snapshot);
        }
    }

    /// The load has ended with this report, or without one for a reason.
    pub(super) fn end(&mut self, report: Result<&[u8], &str>) {
        if self.plan.take().is_none() {
            return;
        }
        let report = report.map_err(str::to_owned).and_then(AgentReport::decode);
        let result = report.as_ref().map(|report| &report.result);
        self.observers.event(&Event::End(RunEnd {
            result: result.map_err(String::as_str),
            failed: &[],
        }));
    }
}
