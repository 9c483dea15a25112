//! Deals a plan out to the agents of a fleet, so that they do together what one machine with all
//! their threads would do.
//!
//! Rate, stages, connections and requests of a plan are totals of the fleet. Threads are those of
//! each agent. Each worker of the fleet has a number, and each agent has a range of them. A worker
//! gets the connections that the worker with this number would get on one machine, so nothing is
//! lost through rounding, however many threads each agent has. The schedule has each request once,
//! and all agents know which worker has it.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{Pacing, PlanError, RunPlan, Stage};

/// What one agent does of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The plan of this agent: its threads, its connections, its part of the rate and of the number
    /// of requests. With random arrivals, the number of requests is its mean.
    pub plan: RunPlan,
    /// The schedule of all agents, and which of its requests are this agent's.
    pub schedule: FleetSchedule,
}

/// The schedule of a fleet, and the part of one agent. Requests that arrive evenly are dealt out to
/// all workers in turn, others at random, so that each part of a Poisson process is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetSchedule {
    /// Number of the agent's first worker; the following ones have consecutive numbers.
    pub worker_base: u32,
    /// Number of workers of all agents.
    pub workers_total: u32,
    /// When requests of the fleet are due. An agent cannot derive it from its part of the rate,
    /// which is rounded.
    pub pacing: Pacing,
    /// With a rate: requests of the fleet in the window, if limited.
    pub requests: Option<u64>,
}

impl RunPlan {
    /// Deals the plan out to agents with these numbers of threads. The plan's own number of threads
    /// is ignored.
    ///
    /// # Errors
    /// If there are no agents, or not enough connections or requests for each of their threads.
    pub fn deal(&self, threads: &[u32]) -> Result<Vec<Share>, PlanError> {
        let total: u64 = threads.iter().map(|threads| u64::from(*threads)).sum();
        self.check_deal(threads, total)?;
        // It is at most the number of connections.
        let workers_total = total as u32;
        let schedule = FleetSchedule {
            worker_base: 0,
            workers_total,
            pacing: self.pacing.clone(),
            requests: self.stop.requests.filter(|_| self.pacing.is_open()),
        };
        let mut shares = Vec::with_capacity(threads.len());
        let mut worker_base = 0;
        for threads in threads {
            let workers = worker_base..worker_base + threads;
            shares.push(Share {
                plan: self.part_of(&workers, workers_total),
                schedule: FleetSchedule {
                    worker_base,
                    ..schedule.clone()
                },
            });
            worker_base = workers.end;
        }
        Ok(shares)
    }

    /// The plan of several agents together, given their own plans: their threads, connections and
    /// requests are added up, and so are their parts of the rate. `self` is the plan that was dealt
    /// out, to agents with `threads_total` threads.
    #[must_use]
    pub fn joined<'a>(
        &self,
        parts: impl IntoIterator<Item = &'a Self>,
        threads_total: u64,
    ) -> Self {
        let (mut threads, mut connections, mut requests) = (0_u32, 0_u32, 0_u64);
        for part in parts {
            threads = threads.saturating_add(part.load.threads);
            connections = connections.saturating_add(part.load.connections);
            requests = requests.saturating_add(part.stop.requests.unwrap_or(0));
        }
        let mut joined = self.clone();
        joined.load.threads = threads;
        joined.load.connections = connections;
        joined.stop.requests = self.stop.requests.map(|_| requests);
        joined.pacing = self.pacing.part(u64::from(threads), threads_total);
        joined
    }

    fn check_deal(&self, threads: &[u32], total: u64) -> Result<(), PlanError> {
        if threads.is_empty() || threads.contains(&0) {
            let problem = "needs at least one agent, each with at least one thread";
            return Err(PlanError::new("fleet", threads.len(), problem));
        }
        let every = || match threads {
            [one] => format!("threads ({one})"),
            [first, rest @ ..] if rest.iter().all(|other| other == first) => format!(
                "threads of all agents ({} agents with {first} each: {total})",
                threads.len()
            ),
            _ => format!("threads of all {} agents ({total})", threads.len()),
        };
        let connections = self.load.connections;
        if u64::from(connections) < total {
            let problem = format!("number of connections must be >= {}", every());
            return Err(PlanError::new("connections", connections, problem));
        }
        match self.stop.requests {
            Some(requests) if requests < total => {
                let problem = format!("number of requests must be >= {}", every());
                Err(PlanError::new("requests", requests, problem))
            }
            _ => Ok(()),
        }
    }

    /// The plan of the agent with these workers.
    fn part_of(&self, workers: &Range<u32>, total: u32) -> Self {
        let share = |all: u64| {
            let (each, rest) = (all / u64::from(total), all % u64::from(total));
            // Each worker has `each`, and the first `rest` workers have one more.
            let more = rest.clamp(u64::from(workers.start), u64::from(workers.end));
            each * (workers.len() as u64) + (more - u64::from(workers.start))
        };
        let threads = workers.end - workers.start;
        let mut plan = self.clone();
        plan.load.threads = threads;
        // A share is at most the whole.
        plan.load.connections = share(u64::from(self.load.connections)) as u32;
        plan.stop.requests = self.stop.requests.map(share);
        plan.pacing = self.pacing.part(u64::from(threads), u64::from(total));
        plan
    }
}

impl Pacing {
    /// The rate of `threads` of all `total` threads. That of all of them is not rounded.
    fn part(&self, threads: u64, total: u64) -> Self {
        let mut pacing = self.clone();
        if threads == total {
            return pacing;
        }
        let part = |rate_per_sec: f64| rate_per_sec * threads as f64 / total.max(1) as f64;
        match &mut pacing {
            Self::Closed | Self::Recorded { .. } => {}
            Self::Constant { rate_per_sec, .. } => *rate_per_sec = part(*rate_per_sec),
            Self::Stages { stages, .. } => {
                for Stage {
                    from_per_sec,
                    to_per_sec,
                    ..
                } in stages
                {
                    (*from_per_sec, *to_per_sec) = (part(*from_per_sec), part(*to_per_sec));
                }
            }
        }
        pacing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arrivals, Target};
    use std::time::Duration;

    fn plan(connections: u32, requests: Option<u64>) -> RunPlan {
        let mut plan = RunPlan::new(Target::parse("http://127.0.0.1:8080/").expect("it is a URL"));
        plan.load.connections = connections;
        plan.stop.requests = requests;
        plan
    }

    fn constant(rate_per_sec: f64) -> Pacing {
        Pacing::Constant {
            rate_per_sec,
            arrivals: Arrivals::Even,
            seed: 7,
        }
    }

    /// What each worker of one machine gets of a total.
    fn on_one_machine(total: u64, workers: u64) -> Vec<u64> {
        (0..workers)
            .map(|worker| total / workers + u64::from(worker < total % workers))
            .collect()
    }

    #[test]
    fn every_worker_has_what_it_would_have_on_one_machine() {
        for threads in [
            vec![1],
            vec![4, 4, 4],
            vec![3, 1, 4, 1, 5],
            vec![1, 7],
            vec![2; 50],
        ] {
            let workers: u32 = threads.iter().sum();
            for connections in [workers, workers + 1, 2 * workers - 1, 400, 1_003] {
                let requests = u64::from(connections) * 7 + 3;
                let plan = plan(connections.max(workers), Some(requests));
                let shares = plan.deal(&threads).expect("enough for all");
                let mut expected = [u64::from(plan.load.connections), requests]
                    .map(|total| on_one_machine(total, u64::from(workers)));
                let mut base = 0;
                for (share, threads) in shares.iter().zip(&threads) {
                    assert_eq!(share.schedule.worker_base, base);
                    assert_eq!(share.schedule.workers_total, workers);
                    assert_eq!(share.plan.load.threads, *threads);
                    base += threads;
                    let [connections, requests] = &mut expected;
                    let of = |totals: &mut Vec<u64>| totals.drain(..*threads as usize).sum::<u64>();
                    assert_eq!(u64::from(share.plan.load.connections), of(connections));
                    assert_eq!(share.plan.stop.requests, Some(of(requests)));
                    assert_eq!(share.plan.check(), Ok(()));
                }
            }
        }
    }

    #[test]
    fn the_shares_join_to_the_plan_with_the_threads_of_all() {
        let mut plan = plan(400, Some(1_001));
        plan.pacing = Pacing::Stages {
            stages: vec![Stage {
                from_per_sec: 0.0,
                to_per_sec: 4_000.0,
                duration: Duration::from_secs(3),
            }],
            arrivals: Arrivals::Poisson,
            seed: 9,
        };
        let shares = plan.deal(&[3, 1, 4]).expect("enough for all");
        let joined = plan.joined(shares.iter().map(|share| &share.plan), 8);
        let mut expected = plan.clone();
        expected.load.threads = 8;
        assert_eq!(joined, expected);
        let some = plan.joined([&shares[0].plan, &shares[1].plan], 8);
        assert_eq!((some.load.threads, some.load.connections), (4, 200));
        assert_eq!(some.stop.requests, Some(501));
        let Pacing::Stages { stages, .. } = some.pacing else {
            panic!("the kind of pacing changed");
        };
        assert_eq!(stages[0].to_per_sec, 2_000.0);
    }

    #[test]
    fn an_agent_knows_the_schedule_of_all_and_its_part_of_the_rate() {
        let mut plan = plan(400, Some(1_000));
        plan.pacing = constant(200_000.0);
        let shares = plan.deal(&[8; 4]).expect("enough for all");
        for (share, worker_base) in shares.iter().zip([0, 8, 16, 24]) {
            assert_eq!(share.plan.pacing, constant(50_000.0));
            assert_eq!(
                share.plan.stop.requests,
                Some(if worker_base == 0 { 256 } else { 248 })
            );
            let expected = FleetSchedule {
                worker_base,
                workers_total: 32,
                pacing: constant(200_000.0),
                requests: Some(1_000),
            };
            assert_eq!(share.schedule, expected);
        }
    }

    #[test]
    fn a_fleet_of_one_has_the_whole_plan() {
        let mut plan = plan(17, Some(23));
        plan.pacing = constant(333.3);
        let shares = plan.deal(&[plan.load.threads]).expect("enough for one");
        assert_eq!(shares.len(), 1);
        assert_eq!(shares[0].plan, plan);
        assert_eq!(shares[0].schedule.worker_base, 0);
    }

    #[test]
    fn the_number_of_requests_of_a_closed_loop_is_the_agents_own() {
        let shares = plan(4, Some(10)).deal(&[2, 2]).expect("enough for all");
        assert!(shares.iter().all(|share| share.schedule.requests.is_none()));
        assert_eq!(shares[0].plan.stop.requests, Some(6));
    }

    #[test]
    fn too_few_connections_or_requests_for_all_threads_are_refused() {
        let told = |connections, requests, threads: &[u32]| {
            let dealt = plan(connections, requests).deal(threads);
            dealt.expect_err("not enough").to_string()
        };
        assert_eq!(
            told(3, None, &[1; 4]),
            "connections 3: number of connections must be >= threads of all agents \
             (4 agents with 1 each: 4)"
        );
        assert_eq!(
            told(9, None, &[8, 2]),
            "connections 9: number of connections must be >= threads of all 2 agents (10)"
        );
        assert_eq!(
            told(9, Some(3), &[4]),
            "requests 3: number of requests must be >= threads (4)"
        );
        assert_eq!(
            told(9, None, &[]),
            "fleet 0: needs at least one agent, each with at least one thread"
        );
        assert!(told(9, None, &[2, 0]).starts_with("fleet 2: needs at least one agent"));
        let many = vec![u32::MAX; 3];
        assert!(told(9, None, &many).contains("12884901885"));
    }

    #[test]
    fn a_share_is_unchanged_after_it_was_sent_as_json() {
        let mut plan = plan(10, None);
        plan.pacing = constant(1_234.5);
        for share in plan.deal(&[1, 2]).expect("enough for all") {
            let text = serde_json::to_string(&share).expect("a share is plain data");
            assert_eq!(
                serde_json::from_str::<Share>(&text).expect("it is one"),
                share
            );
        }
    }
}
