//! Progress of a run by a fleet, for the live view and for what is known of lost agents.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::bus::Clock;
use cluster::coordinator::{Event, LOST_NS, Watcher};
use cluster::names::AgentId;
use live::fleet::FleetSnapshots;
use results::snapshot::{Snapshot, Stage};
use runner::Observer;

/// What is known of an agent whose result may never come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LastSeen {
    /// When it was last heard of, if it is lost, or when its load has ended. CLOCK_MONOTONIC.
    pub(crate) lost_ns: Option<u64>,
    /// Requests sent and answered by then.
    pub(crate) sent: u64,
    pub(crate) answered: u64,
}

/// Follows the events of a run.
pub(crate) struct Progress<'a> {
    observer: Option<&'a mut dyn Observer>,
    clock: Clock,
    snapshots: FleetSnapshots,
    /// The latest snapshot, or the beginning.
    shown_ns: u64,
    pub(crate) seen: BTreeMap<AgentId, LastSeen>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(
        agents: impl IntoIterator<Item = (String, String)>,
        observer: Option<&'a mut dyn Observer>,
        clock: Clock,
    ) -> Self {
        Self {
            snapshots: FleetSnapshots::new(agents),
            shown_ns: clock(),
            observer,
            clock,
            seen: BTreeMap::new(),
        }
    }

    fn add(&mut self, agent: &AgentId, snapshot: &serde_json::Value) {
        // What cannot be read is not shown.
        let Ok(snapshot) = serde_json::from_value::<Snapshot>(snapshot.clone()) else {
            return;
        };
        if snapshot.stage == Stage::Measuring {
            let seen = self.seen.entry(agent.clone()).or_default();
            (seen.sent, seen.answered) = (snapshot.counters.sent, snapshot.counters.answered);
        }
        self.snapshots.add(agent.as_str(), snapshot, (self.clock)());
    }
}

impl Watcher for Progress<'_> {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Progress { agent, snapshot } => self.add(agent, snapshot),
            Event::Lost { agent } => {
                let heard_ns = (self.clock)().saturating_sub(LOST_NS);
                self.seen.entry(agent.clone()).or_default().lost_ns = Some(heard_ns);
                self.snapshots.lose(agent.as_str());
            }
            Event::Failed { agent, .. } => {
                let now_ns = (self.clock)();
                self.seen.entry(agent.clone()).or_default().lost_ns = Some(now_ns);
                self.snapshots.lose(agent.as_str());
            }
            // Its result may still get lost.
            Event::Ended { agent, .. } => {
                let now_ns = (self.clock)();
                self.seen.entry(agent.clone()).or_default().lost_ns = Some(now_ns);
            }
            Event::Prepared { .. }
            | Event::Returned { .. }
            | Event::Clock { .. }
            | Event::Starting { .. }
            | Event::Started
            | Event::Stopping(_)
            | Event::Fetched { .. } => {}
        }
    }

    fn turn(&mut self) {
        let Some(observer) = &mut self.observer else {
            return;
        };
        let now_ns = (self.clock)();
        if let Some(merged) = self.snapshots.merged(now_ns) {
            self.shown_ns = now_ns;
            observer.snapshot(&merged);
        }
        observer.turn(Duration::from_nanos(now_ns.saturating_sub(self.shown_ns)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cluster::message::Ending;

    use super::*;

    #[test]
    fn what_an_agent_did_is_lost_when_its_load_ended_and_not_at_the_start() {
        let agent: AgentId = "a1".parse().expect("a name");
        let ended = Event::Ended {
            agent: agent.clone(),
            ending: Ending::Completed,
        };
        let failed = Event::Failed {
            agent: agent.clone(),
            reason: "it did not stop".into(),
        };
        for event in [ended, failed] {
            let agents = [("a1".to_owned(), "lab".to_owned())];
            let mut progress = Progress::new(agents, None, Arc::new(|| 7_000));
            progress.event(&Event::Started);
            assert!(progress.seen.is_empty());
            progress.event(&event);
            let seen = progress.seen.get(&agent).expect("it was heard");
            assert_eq!(seen.lost_ns, Some(7_000), "{event:?}");
        }
    }
}
