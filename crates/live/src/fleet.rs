//! The snapshots of the agents of a fleet, merged into one about once a second.

use results::snapshot::{AgentSnapshot, Snapshot, SnapshotInterval, Stage};

/// How long a snapshot waits for those of the other agents. They take theirs at the same time, but
/// the way to the coordinator may be long.
const WAIT_NS: u64 = 500_000_000;

/// Collects the snapshots of the agents.
#[derive(Debug, Clone, Default)]
pub struct FleetSnapshots {
    agents: Vec<AgentProgress>,
    stage: Stage,
    /// When the oldest snapshot that has not been shown yet arrived.
    pending_since_ns: Option<u64>,
}

#[derive(Debug, Clone, Default)]
struct AgentProgress {
    figures: AgentSnapshot,
    latest: Option<Snapshot>,
    /// Since its previous snapshot that was shown.
    pending: Option<SnapshotInterval>,
}

impl FleetSnapshots {
    /// The agents, each with its name and its place, in the order in which they are shown.
    #[must_use]
    pub fn new(agents: impl IntoIterator<Item = (String, String)>) -> Self {
        let progress = |(id, place)| AgentProgress {
            figures: AgentSnapshot {
                id,
                place,
                ..AgentSnapshot::default()
            },
            ..AgentProgress::default()
        };
        Self {
            agents: agents.into_iter().map(progress).collect(),
            ..Self::default()
        }
    }

    /// Adds the snapshot of an agent. That of an unknown or lost one is ignored.
    pub fn add(&mut self, id: &str, snapshot: Snapshot, now_ns: u64) {
        if snapshot.stage != self.stage {
            if snapshot.stage == Stage::WarmingUp {
                // Delayed until the window had started: no longer relevant.
                return;
            }
            self.stage = snapshot.stage;
            for agent in &mut self.agents {
                agent.pending = None;
                agent.latest = None;
            }
        }
        let mut agents = self.agents.iter_mut();
        let Some(agent) = agents.find(|it| it.figures.id == id && !it.figures.is_lost) else {
            return;
        };
        agent.add(snapshot);
        self.pending_since_ns.get_or_insert(now_ns);
    }

    /// Takes an agent out because it was lost: what it has measured no longer counts.
    pub fn lose(&mut self, id: &str) {
        for agent in &mut self.agents {
            if agent.figures.id == id {
                agent.figures.is_lost = true;
                (agent.latest, agent.pending) = (None, None);
            }
        }
    }

    /// The state of the fleet, once every agent has reported or the others have waited long enough.
    #[must_use]
    pub fn merged(&mut self, now_ns: u64) -> Option<Snapshot> {
        let since_ns = self.pending_since_ns?;
        let is_complete = |it: &AgentProgress| it.pending.is_some() || it.figures.is_lost;
        if !self.agents.iter().all(is_complete) && now_ns.saturating_sub(since_ns) < WAIT_NS {
            return None;
        }
        self.pending_since_ns = None;
        let mut merged = Snapshot {
            stage: self.stage,
            ..Snapshot::default()
        };
        let mut requests_per_sec = 0.0;
        for agent in &mut self.agents {
            if let Some(latest) = &agent.latest {
                merge(&mut merged, latest);
            }
            if let Some(pending) = agent.pending.take() {
                requests_per_sec += pending.requests_per_sec();
                merge_interval(&mut merged.last, &pending);
            }
            merged.agents.push(agent.figures.clone());
        }
        // Their intervals differ a little in length. The rates must add up.
        if requests_per_sec > 0.0 {
            let seconds = merged.last.answered as f64 / requests_per_sec;
            merged.last.duration_ns = (seconds * 1e9).round() as u64;
        }
        Some(merged)
    }
}

impl AgentProgress {
    fn add(&mut self, snapshot: Snapshot) {
        let mut pending = self.pending.take().unwrap_or_default();
        add(&mut pending, &snapshot.last);
        let latency = &pending.latency;
        let p99_ns = (!latency.is_empty()).then(|| latency.value_at_percentile(99.0));
        self.figures = AgentSnapshot {
            requests_per_sec: pending.requests_per_sec(),
            p99_ns,
            errors: match snapshot.stage {
                Stage::WarmingUp => pending.errors,
                Stage::Measuring => snapshot.errors.events(),
            },
            open_connections: snapshot.open_connections,
            busiest_worker: snapshot.busiest_worker,
            ..std::mem::take(&mut self.figures)
        };
        // Those of hundreds of agents are in memory at once.
        pending.latency.pack();
        let mut latest = snapshot;
        latest.latency.pack();
        latest.send_lag.pack();
        latest.last = SnapshotInterval::default();
        latest.parts.pack();
        self.pending = Some(pending);
        self.latest = Some(latest);
    }
}

/// Adds the totals of the window.
fn merge(merged: &mut Snapshot, one: &Snapshot) {
    let Snapshot {
        stage: _,
        elapsed_ns,
        counters,
        statuses,
        errors,
        latency,
        send_lag,
        open_connections,
        last: _,
        busiest_worker,
        parts,
        agents: _,
    } = one;
    merged.elapsed_ns = merged.elapsed_ns.max(*elapsed_ns);
    merged.counters.merge(counters);
    merged.statuses.merge(statuses);
    merged.errors.merge(errors);
    merged.latency.merge(latency);
    merged.send_lag.merge(send_lag);
    merged.parts.merge(parts);
    merged.open_connections += open_connections;
    let shares = merged.busiest_worker.into_iter().chain(*busiest_worker);
    merged.busiest_worker = shares.reduce(f64::max);
}

/// Adds an interval that follows.
pub(crate) fn add(sum: &mut SnapshotInterval, next: &SnapshotInterval) {
    let duration_ns = sum.duration_ns + next.duration_ns;
    merge_interval(sum, next);
    sum.duration_ns = duration_ns;
}

/// Adds the totals of an interval at the same time.
fn merge_interval(merged: &mut SnapshotInterval, one: &SnapshotInterval) {
    let SnapshotInterval {
        duration_ns,
        answered,
        errors,
        bytes,
        parts,
        latency,
    } = one;
    merged.duration_ns = merged.duration_ns.max(*duration_ns);
    merged.answered += answered;
    merged.errors += errors;
    merged.bytes += bytes;
    merged.parts.merge(parts);
    merged.latency.merge(latency);
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::{GoodRecording, LlmRecording};

    const S: u64 = 1_000_000_000;

    fn snapshot(stage: Stage, seconds: u64, per_sec: u64) -> Snapshot {
        let mut snapshot = Snapshot {
            stage,
            elapsed_ns: seconds * S,
            open_connections: 10,
            busiest_worker: Some(per_sec as f64 / 1e4),
            last: SnapshotInterval {
                duration_ns: S,
                answered: per_sec,
                ..SnapshotInterval::default()
            },
            ..Snapshot::default()
        };
        snapshot.last.latency.record_n(1_000_000 * per_sec, per_sec);
        if stage == Stage::Measuring {
            snapshot.counters.answered = per_sec * seconds;
            let samples = per_sec * seconds;
            snapshot.latency.record_n(1_000_000 * per_sec, samples);
        }
        snapshot
    }

    fn fleet() -> FleetSnapshots {
        let names = ["a", "b", "c"].map(|id| (id.to_owned(), "vm".to_owned()));
        FleetSnapshots::new(names)
    }

    #[test]
    fn the_agents_together_have_the_sum_of_their_rates() {
        let mut fleet = fleet();
        for (id, per_sec) in [("a", 1_000), ("b", 2_000), ("c", 3_000)] {
            assert!(fleet.merged(5 * S).is_none());
            fleet.add(id, snapshot(Stage::Measuring, 4, per_sec), 5 * S);
        }
        let merged = fleet.merged(5 * S).expect("all have reported");
        assert_eq!(merged.last.requests_per_sec(), 6_000.0);
        assert_eq!(merged.counters.answered, 24_000);
        assert_eq!(merged.latency.count(), 24_000);
        assert_eq!(merged.elapsed_ns, 4 * S);
        assert_eq!(
            (merged.open_connections, merged.busiest_worker),
            (30, Some(0.3))
        );
        let seen: Vec<_> = merged
            .agents
            .iter()
            .map(|agent| (agent.id.as_str(), agent.requests_per_sec, agent.p99_ns))
            .collect();
        let expected = |id, per_sec: u64| (id, per_sec as f64, Some(1_000_000 * per_sec));
        assert_eq!(
            seen,
            [
                expected("a", 1_000),
                expected("b", 2_000),
                expected("c", 3_000)
            ]
        );
        assert!(fleet.merged(6 * S).is_none(), "nothing is new");
    }

    #[test]
    fn the_tokens_and_good_requests_of_the_agents_are_added_up() {
        let mut fleet = fleet();
        for id in ["a", "b", "c"] {
            let mut one = snapshot(Stage::Measuring, 1, 100);
            one.last.parts.llm = Some(LlmRecording {
                output_tokens: 1_600,
                ..LlmRecording::default()
            });
            let mut tokens = LlmRecording::default();
            tokens.first_token.record_n(50_000_000, 100);
            one.parts.llm = Some(tokens);
            one.parts.good = Some(GoodRecording {
                good: 90,
                bad: 10,
                undecided: 0,
                ..GoodRecording::default()
            });
            fleet.add(id, one, S);
        }
        let merged = fleet.merged(S).expect("all have reported");
        let of_interval = merged.last.parts.llm.map(|llm| llm.output_tokens);
        assert_eq!(of_interval, Some(4_800));
        assert_eq!(merged.parts.llm.map(|it| it.first_token.count()), Some(300));
        assert_eq!(
            merged.parts.good.map(|it| (it.good, it.bad)),
            Some((270, 30))
        );
    }

    #[test]
    fn an_agent_that_reported_twice_does_not_count_twice_in_the_rate() {
        let mut fleet = fleet();
        fleet.add("a", snapshot(Stage::Measuring, 1, 1_000), S);
        fleet.add("a", snapshot(Stage::Measuring, 2, 1_000), 2 * S);
        fleet.add("b", snapshot(Stage::Measuring, 2, 1_000), 2 * S);
        let merged = fleet
            .merged(2 * S)
            .expect("the oldest has waited for a second");
        assert_eq!(merged.last.requests_per_sec(), 2_000.0);
        assert_eq!(merged.last.answered, 3_000);
        assert_eq!(merged.counters.answered, 4_000);
    }

    #[test]
    fn a_lost_agent_is_not_awaited_and_no_longer_counts() {
        let mut fleet = fleet();
        for id in ["a", "b", "c"] {
            fleet.add(id, snapshot(Stage::Measuring, 1, 1_000), S);
        }
        assert!(fleet.merged(S).is_some());
        fleet.lose("b");
        fleet.add("b", snapshot(Stage::Measuring, 2, 1_000), 2 * S);
        for id in ["a", "c", "unknown"] {
            fleet.add(id, snapshot(Stage::Measuring, 2, 1_000), 2 * S);
        }
        let merged = fleet.merged(2 * S).expect("all others have reported");
        assert_eq!(merged.counters.answered, 4_000);
        let lost: Vec<bool> = merged.agents.iter().map(|agent| agent.is_lost).collect();
        assert_eq!(lost, [false, true, false]);
    }

    #[test]
    fn the_window_begins_with_the_first_agent_and_the_warm_up_is_forgotten() {
        let mut fleet = fleet();
        fleet.add("a", snapshot(Stage::WarmingUp, 1, 1_000), S);
        fleet.add("b", snapshot(Stage::Measuring, 1, 1_000), S);
        fleet.add("c", snapshot(Stage::WarmingUp, 1, 1_000), S);
        let merged = fleet
            .merged(2 * S)
            .expect("the oldest has waited for a second");
        assert_eq!(merged.stage, Stage::Measuring);
        assert_eq!(
            (merged.last.answered, merged.counters.answered),
            (1_000, 1_000)
        );
    }
}
