//! Deals a plan out to the agents of a fleet, so that they do together what one machine with all
//! their threads would do.
//!
//! Rate, stages, connections and requests of a plan are totals of the fleet. Threads are those of
//! each agent. Each worker of the fleet has a number, and each agent has a range of them. If all
//! agents have the same weight, a worker gets the connections that the worker with this number
//! would get on one machine; otherwise it gets them in proportion to its weight. Nothing is lost
//! through rounding, however many threads each agent has. The schedule has each request once, and
//! all agents know which worker has it.

use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Lanes, Pacing, PlanError, RunPlan, Stage};

/// The largest weight of an agent. Threads of one fleet that differ more than this are no longer
/// one load: in most runs the light one would have no connection.
pub const MAX_WEIGHT: u32 = 1_000;

/// How much load each thread of an agent carries, compared with a thread of an agent with another
/// weight: 1..=[`MAX_WEIGHT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Weight(u32);

/// A number that is no weight.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a weight (expected a whole number from 1 to {MAX_WEIGHT})")]
pub struct WeightError(String);

impl Default for Weight {
    fn default() -> Self {
        Self(1)
    }
}

impl TryFrom<u32> for Weight {
    type Error = WeightError;

    fn try_from(weight: u32) -> Result<Self, WeightError> {
        match weight {
            1..=MAX_WEIGHT => Ok(Self(weight)),
            _ => Err(WeightError(weight.to_string())),
        }
    }
}

impl FromStr for Weight {
    type Err = WeightError;

    fn from_str(text: &str) -> Result<Self, WeightError> {
        let number: Option<u32> = text.parse().ok();
        let weight = number.and_then(|number| Self::try_from(number).ok());
        weight.ok_or_else(|| WeightError(text.to_owned()))
    }
}

impl From<Weight> for u32 {
    fn from(Weight(weight): Weight) -> Self {
        weight
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An agent that a plan is dealt out to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentThreads {
    /// Its number of threads.
    pub threads: u32,
    /// What each of them carries.
    pub weight: Weight,
}

/// An agent like any other.
impl From<u32> for AgentThreads {
    fn from(threads: u32) -> Self {
        Self {
            threads,
            weight: Weight::default(),
        }
    }
}

/// What one agent does of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The plan of this agent: its threads, its connections, its part of the rate and of the number
    /// of requests. With random arrivals, the number of requests is its mean; with even ones and
    /// agents of unequal weights, it may be a few requests off.
    pub plan: RunPlan,
    /// The weight of this agent.
    pub weight: Weight,
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
    /// If the workers do not all carry the same load: how much each of the agent's has.
    pub weighted: Option<WeightedLanes>,
    /// When requests of the fleet are due. An agent cannot derive it from its part of the rate,
    /// which is rounded.
    pub pacing: Pacing,
    /// With a rate: requests of the fleet in the window, if limited.
    pub requests: Option<u64>,
}

/// The [lanes](Lanes) of the workers of one agent, in a fleet whose workers have different numbers
/// of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightedLanes {
    /// The first lane of the agent's first worker; those of the following workers come after it.
    pub lane_base: u32,
    /// Number of lanes of each of the agent's workers.
    pub lanes_per_worker: u32,
    /// Number of lanes of all workers of the fleet.
    pub lanes_total: u32,
}

impl WeightedLanes {
    /// The lanes of some of the agent's workers, which are numbered from 0.
    #[must_use]
    pub fn of(&self, workers: Range<u32>) -> Lanes {
        let lane = |worker: u32| {
            let before = worker.saturating_mul(self.lanes_per_worker);
            self.lane_base.saturating_add(before)
        };
        Lanes::spread(lane(workers.start)..lane(workers.end), self.lanes_total)
    }
}

impl FleetSchedule {
    /// The lanes of some of the agent's workers, which are numbered from 0.
    #[must_use]
    pub fn lanes(&self, workers: Range<u32>) -> Lanes {
        match &self.weighted {
            Some(weighted) => weighted.of(workers),
            None => {
                let number = |worker: u32| self.worker_base.saturating_add(worker);
                Lanes::in_turn(
                    number(workers.start)..number(workers.end),
                    self.workers_total,
                )
            }
        }
    }
}

impl Share {
    /// Checks the plan of the agent, and that each of its workers has a part of the schedule.
    ///
    /// # Errors
    /// The first setting with which the agent cannot run.
    pub fn check(&self) -> Result<(), PlanError> {
        self.plan.check()?;
        let (schedule, workers) = (&self.schedule, self.plan.load.threads);
        let each = schedule.weighted.map_or(1, |it| it.lanes_per_worker.max(1));
        let lanes = u64::from(each) * u64::from(workers);
        let is_worker = u64::from(schedule.worker_base) + u64::from(workers)
            <= u64::from(schedule.workers_total);
        if is_worker && schedule.lanes(0..workers).width() == lanes {
            Ok(())
        } else {
            let problem = "the schedule of the fleet has no place for the threads of this agent";
            Err(PlanError::new("threads", workers, problem))
        }
    }
}

/// The workers of an agent, and how many lanes each of them has.
#[derive(Debug, Clone, Copy)]
struct Workers {
    number: u32,
    lanes: u32,
}

impl Workers {
    /// Those of agents. The lanes of all of them have no common divisor, so agents with equal
    /// weights have one lane for each worker.
    fn of(agents: &[AgentThreads]) -> Vec<Self> {
        let unit = unit(agents);
        let workers = agents.iter().map(|agent| Self {
            number: agent.threads,
            lanes: agent.weight.0 / unit,
        });
        workers.collect()
    }

    fn all_lanes(&self) -> u64 {
        u64::from(self.number) * u64::from(self.lanes)
    }
}

/// The greatest common divisor of the weights.
fn unit(agents: &[AgentThreads]) -> u32 {
    let divisor = agents.iter().fold(0, |mut divisor: u32, agent| {
        let mut weight = agent.weight.0;
        while weight > 0 {
            (divisor, weight) = (weight, divisor % weight);
        }
        divisor
    });
    divisor.max(1)
}

/// What each worker of an agent has of a total.
#[derive(Debug, Clone, Copy)]
struct Dealt {
    each: u64,
    /// This many of the workers have one more, from the first one on.
    more: u32,
}

impl Dealt {
    /// Deals a total out in proportion to lanes, by the largest-remainder method. Of equal
    /// remainders, that of the earlier worker counts.
    fn of(total: u64, workers: &[Workers]) -> Vec<Self> {
        let lanes_total: u64 = workers.iter().map(Workers::all_lanes).sum();
        let lanes_total = u128::from(lanes_total.max(1));
        let quota = |workers: &Workers| u128::from(total) * u128::from(workers.lanes);
        let each = |workers: &Workers| (quota(workers) / lanes_total) as u64;
        let mut dealt: Vec<Self> = workers
            .iter()
            .map(|workers| Self {
                each: each(workers),
                more: 0,
            })
            .collect();
        let given = workers.iter().map(|it| each(it) * u64::from(it.number));
        let mut rest = total - given.sum::<u64>();
        let mut order: Vec<usize> = (0..workers.len()).collect();
        order.sort_by_key(|index| Reverse(quota(&workers[*index]) % lanes_total));
        for index in order {
            let more = rest.min(u64::from(workers[index].number));
            dealt[index].more = more as u32;
            rest -= more;
        }
        dealt
    }

    fn sum(&self, workers: &Workers) -> u64 {
        self.each * u64::from(workers.number) + u64::from(self.more)
    }
}

impl RunPlan {
    /// Deals the plan out to agents, given their numbers of threads or their [`AgentThreads`]. The
    /// plan's own number of threads is ignored.
    ///
    /// # Errors
    /// If there are no agents, or not enough connections or requests for each of their threads, or
    /// if the warm-up ends when the server has settled.
    pub fn deal<A>(&self, agents: &[A]) -> Result<Vec<Share>, PlanError>
    where
        A: Copy + Into<AgentThreads>,
    {
        let agents: Vec<AgentThreads> = agents.iter().map(|agent| (*agent).into()).collect();
        let threads: Vec<u32> = agents.iter().map(|agent| agent.threads).collect();
        let total: u64 = threads.iter().map(|threads| u64::from(*threads)).sum();
        self.check_deal(&threads, total)?;
        let workers = Workers::of(&agents);
        let lanes_total: u64 = workers.iter().map(Workers::all_lanes).sum();
        let lanes_total = u32::try_from(lanes_total).map_err(|_| {
            let problem = "the weights of all threads together are too large; use smaller ones";
            PlanError::new("fleet", agents.len(), problem)
        })?;
        let connections = u64::from(self.load.connections);
        let connections = deal_to_all("connections", connections, &agents, &workers)?;
        let requests = self.stop.requests;
        let requests = requests.map(|all| deal_to_all("requests", all, &agents, &workers));
        let requests = requests.transpose()?;
        let is_weighted = workers.iter().any(|workers| workers.lanes != 1);
        let mut schedule = FleetSchedule {
            worker_base: 0,
            // It is at most the number of connections.
            workers_total: total as u32,
            weighted: None,
            pacing: self.pacing.clone(),
            requests: self.stop.requests.filter(|_| self.pacing.is_scheduled()),
        };
        let mut shares = Vec::with_capacity(agents.len());
        let mut lane_base = 0;
        for (index, workers) in workers.iter().enumerate() {
            let mut plan = self.clone();
            plan.load.threads = workers.number;
            // A share is at most the whole.
            plan.load.connections = connections[index].sum(workers) as u32;
            plan.stop.requests = requests.as_ref().map(|dealt| dealt[index].sum(workers));
            plan.pacing = self.pacing.part(workers.all_lanes(), lanes_total.into());
            schedule.weighted = is_weighted.then_some(WeightedLanes {
                lane_base,
                lanes_per_worker: workers.lanes,
                lanes_total,
            });
            shares.push(Share {
                plan,
                weight: agents[index].weight,
                schedule: schedule.clone(),
            });
            schedule.worker_base += workers.number;
            // As all lanes, those of one agent are below 2^32.
            lane_base += workers.all_lanes() as u32;
        }
        Ok(shares)
    }

    /// The plan of several agents together, given their own plans and weights: their threads,
    /// connections and requests are added up, and so are their parts of the rate. `self` is the
    /// plan that was dealt out, to `all` agents.
    #[must_use]
    pub fn joined<'a>(
        &self,
        parts: impl IntoIterator<Item = (&'a Self, Weight)>,
        all: &[AgentThreads],
    ) -> Self {
        let (mut threads, mut connections, mut requests) = (0_u32, 0_u32, 0_u64);
        let mut weights = 0;
        for (part, weight) in parts {
            threads = threads.saturating_add(part.load.threads);
            connections = connections.saturating_add(part.load.connections);
            requests = requests.saturating_add(part.stop.requests.unwrap_or(0));
            weights += u64::from(part.load.threads) * u64::from(weight.0);
        }
        let mut joined = self.clone();
        joined.load.threads = threads;
        joined.load.connections = connections;
        joined.stop.requests = self.stop.requests.map(|_| requests);
        let lanes = weights / u64::from(unit(all));
        let lanes_total = Workers::of(all).iter().map(Workers::all_lanes).sum();
        joined.pacing = self.pacing.part(lanes, lanes_total);
        joined
    }

    fn check_deal(&self, threads: &[u32], total: u64) -> Result<(), PlanError> {
        if self.warmup_auto {
            let problem = "each agent would settle at another time (use a time, such as 10s)";
            return Err(PlanError::new("warmup", "auto", problem));
        }
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
}

/// Deals out something of which each worker needs at least one.
fn deal_to_all(
    what: &'static str,
    total: u64,
    agents: &[AgentThreads],
    workers: &[Workers],
) -> Result<Vec<Dealt>, PlanError> {
    let dealt = Dealt::of(total, workers);
    let has_none =
        |(dealt, workers): (&Dealt, &Workers)| dealt.each == 0 && dealt.more < workers.number;
    let Some(without) = dealt.iter().zip(workers).position(has_none) else {
        return Ok(dealt);
    };
    let lanes_total: u64 = workers.iter().map(Workers::all_lanes).sum();
    let enough = lanes_total.div_ceil(u64::from(workers[without].lanes));
    let problem = format!(
        "a thread of agent {} of {}, which has weight {}, would have none; use at least {enough} \
         {what}, or weights that differ less",
        without + 1,
        agents.len(),
        agents[without].weight
    );
    Err(PlanError::new(what, total, problem))
}

impl Pacing {
    /// The rate of `lanes` of all `total` lanes. That of all of them is not rounded.
    fn part(&self, lanes: u64, total: u64) -> Self {
        let mut pacing = self.clone();
        if lanes == total {
            return pacing;
        }
        let part = |rate_per_sec: f64| rate_per_sec * lanes as f64 / total.max(1) as f64;
        match &mut pacing {
            Self::Closed | Self::Users | Self::Recorded { .. } => {}
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
    use proptest::prelude::*;
    use std::time::Duration;

    fn plan(connections: u32, requests: Option<u64>) -> RunPlan {
        let mut plan = RunPlan::new(Target::parse("http://127.0.0.1:8080/").expect("it is a URL"));
        plan.load.connections = connections;
        plan.stop.requests = requests;
        plan
    }

    #[test]
    fn a_plan_that_waits_until_the_server_has_settled_is_not_dealt_out() {
        let mut plan = plan(10, None);
        plan.warmup_auto = true;
        let error = plan.deal(&[1, 1]).expect_err("it was dealt out");
        assert_eq!(
            error.to_string(),
            "warmup auto: each agent would settle at another time (use a time, such as 10s)"
        );
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
        let all = [3, 1, 4].map(AgentThreads::from);
        let joined = plan.joined(shares.iter().map(|share| (&share.plan, share.weight)), &all);
        let mut expected = plan.clone();
        expected.load.threads = 8;
        assert_eq!(joined, expected);
        let some = [&shares[0], &shares[1]].map(|share| (&share.plan, share.weight));
        let some = plan.joined(some, &all);
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
                weighted: None,
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

    fn weight(weight: u32) -> Weight {
        weight.try_into().expect("it is a weight")
    }

    fn agents<const N: usize>(agents: [(u32, u32); N]) -> [AgentThreads; N] {
        agents.map(|(threads, of_each)| AgentThreads {
            threads,
            weight: weight(of_each),
        })
    }

    #[test]
    fn an_agent_with_three_times_the_weight_has_three_times_the_load() {
        let mut plan = plan(40, Some(402));
        plan.pacing = constant(1_000.0);
        // 2 and 6 have the same ratio as 1 and 3.
        let shares = plan
            .deal(&agents([(1, 2), (2, 6)]))
            .expect("enough for all");
        let of_agents: Vec<_> = shares
            .iter()
            .map(|share| {
                assert_eq!(share.check(), Ok(()));
                let load = &share.plan.load;
                (load.threads, load.connections, share.plan.stop.requests)
            })
            .collect();
        // 5.7 and 17.1 connections; 57.4 and 172.3 requests.
        assert_eq!(of_agents, [(1, 6, Some(58)), (2, 34, Some(344))]);
        assert_eq!(shares[0].plan.pacing, constant(1_000.0 / 7.0));
        assert_eq!(shares[1].plan.pacing, constant(1_000.0 * 6.0 / 7.0));
        let weighted = shares.iter().map(|share| share.schedule.weighted);
        let lanes = |lane_base, lanes_per_worker| {
            Some(WeightedLanes {
                lane_base,
                lanes_per_worker,
                lanes_total: 7,
            })
        };
        assert_eq!(weighted.collect::<Vec<_>>(), [lanes(0, 1), lanes(1, 3)]);
        assert_eq!(shares[1].schedule.worker_base, 1);
        assert_eq!(shares[1].schedule.lanes(1..2), Lanes::spread(4..7, 7));
        let joined = plan.joined(
            shares.iter().map(|share| (&share.plan, share.weight)),
            &agents([(1, 2), (2, 6)]),
        );
        let mut expected = plan.clone();
        expected.load.threads = 3;
        assert_eq!(joined, expected);
        let heavy = plan.joined(
            [(&shares[1].plan, shares[1].weight)],
            &agents([(1, 2), (2, 6)]),
        );
        assert_eq!(heavy, shares[1].plan);
    }

    proptest! {
        #[test]
        fn every_worker_has_its_quota_to_within_one_and_nothing_is_lost(
            of_agents in prop::collection::vec((1_u32..9, 1_u32..=MAX_WEIGHT), 1..9),
            connections in 0_u32..5_000,
            requests: u64,
        ) {
            let of_agents = of_agents.into_iter().map(|(threads, of_each)| AgentThreads {
                threads,
                weight: weight(of_each),
            });
            let of_agents: Vec<AgentThreads> = of_agents.collect();
            let lanes = |agent: &AgentThreads| {
                u64::from(agent.threads) * u64::from(agent.weight.0)
            };
            let total: u64 = of_agents.iter().map(lanes).sum();
            // Enough for a thread with weight 1.
            let plan = plan(connections + total as u32, Some(requests.max(total)));
            let shares = plan.deal(&of_agents).expect("enough for all");
            let sum = |of: fn(&Share) -> u64| shares.iter().map(of).sum::<u64>();
            prop_assert_eq!(
                sum(|share| share.plan.load.connections.into()),
                u64::from(plan.load.connections)
            );
            prop_assert_eq!(
                sum(|share| share.plan.stop.requests.unwrap_or(0)),
                plan.stop.requests.unwrap_or(0)
            );
            for (share, agent) in shares.iter().zip(&of_agents) {
                prop_assert_eq!(share.check(), Ok(()));
                let quota = |all: u64| {
                    let of_all = u128::from(all) * u128::from(agent.weight.0);
                    (of_all / u128::from(total)) as u64
                };
                let each = quota(plan.load.connections.into());
                let threads = u64::from(agent.threads);
                let has = u64::from(share.plan.load.connections);
                prop_assert!((each * threads..=(each + 1) * threads).contains(&has));
            }
        }

        #[test]
        fn equal_weights_change_nothing(
            threads in prop::collection::vec(1_u32..9, 1..9),
            connections in 72_u32..5_000,
            of_each in 1_u32..=MAX_WEIGHT,
        ) {
            let mut plan = plan(connections, Some(u64::from(connections) * 7 + 3));
            plan.pacing = constant(12_345.6);
            let weighted = threads.iter().map(|threads| AgentThreads {
                threads: *threads,
                weight: weight(of_each),
            });
            let weighted: Vec<AgentThreads> = weighted.collect();
            let mut shares = plan.deal(&weighted).expect("enough for all");
            for share in &mut shares {
                prop_assert_eq!(share.weight, weight(of_each));
                share.weight = Weight::default();
            }
            prop_assert_eq!(shares, plan.deal(&threads).expect("enough for all"));
        }
    }

    #[test]
    fn a_weight_that_is_too_small_for_a_connection_or_a_request_is_refused() {
        let told = |connections, requests, of_agents: &[AgentThreads]| {
            let dealt = plan(connections, requests).deal(of_agents);
            dealt.map_err(|error| error.to_string()).map(|_| ())
        };
        let unequal = agents([(1, 100), (2, 1)]);
        assert_eq!(
            told(50, None, &unequal),
            Err(
                "connections 50: a thread of agent 2 of 2, which has weight 1, would have none; \
                 use at least 102 connections, or weights that differ less"
                    .to_owned()
            )
        );
        assert_eq!(told(102, None, &unequal), Ok(()));
        let refused = told(400, Some(45), &unequal).expect_err("too few requests");
        assert!(
            refused.starts_with("requests 45: a thread of agent 2 of 2"),
            "{refused}"
        );
        assert!(refused.contains("at least 102 requests"), "{refused}");
        // Too few for the threads has its own message.
        let refused = told(2, None, &unequal).expect_err("too few connections");
        assert!(
            refused.contains("must be >= threads of all 2 agents (3)"),
            "{refused}"
        );
    }

    #[test]
    fn a_schedule_without_a_place_for_the_threads_is_refused() {
        let share = plan(40, None)
            .deal(&agents([(1, 1), (2, 3)]))
            .expect("enough")
            .remove(1);
        assert_eq!(share.check(), Ok(()));
        let refused = |change: &dyn Fn(&mut FleetSchedule)| {
            let mut share = share.clone();
            change(&mut share.schedule);
            share.check().is_err()
        };
        let lanes = |lane_base, lanes_per_worker, lanes_total| {
            move |schedule: &mut FleetSchedule| {
                schedule.weighted = Some(WeightedLanes {
                    lane_base,
                    lanes_per_worker,
                    lanes_total,
                });
            }
        };
        assert!(!refused(&lanes(1, 3, 7)));
        assert!(!refused(&|schedule| schedule.weighted = None));
        for hostile in [
            lanes(1, 0, 7),
            lanes(1, 3, 0),
            lanes(2, 3, 7),
            lanes(u32::MAX, 3, u32::MAX),
            lanes(0, u32::MAX, u32::MAX),
        ] {
            assert!(refused(&hostile));
        }
        assert!(refused(&|schedule| schedule.workers_total = 2));
        assert!(refused(&|schedule| schedule.worker_base = u32::MAX));
        let of_one = |base: u32, total: u32| {
            move |schedule: &mut FleetSchedule| {
                (schedule.worker_base, schedule.workers_total) = (base, total);
                schedule.weighted = None;
            }
        };
        assert!(refused(&of_one(0, 0)));
        assert!(refused(&of_one(u32::MAX - 1, u32::MAX)));
    }

    #[test]
    fn weights_are_whole_numbers_up_to_the_limit() {
        for text in ["1", "3", "1000"] {
            assert_eq!(
                text.parse().map(|it: Weight| it.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in ["0", "1001", "-1", "1.5", "", "heavy", "4294967297"] {
            let error = text.parse::<Weight>().expect_err(text).to_string();
            let expected = "is not a weight (expected a whole number from 1 to 1000)";
            assert!(error.ends_with(expected), "{error}");
        }
        assert!(serde_json::from_str::<Weight>("0").is_err());
        assert_eq!(serde_json::from_str::<Weight>("7").ok(), Some(weight(7)));
    }

    #[test]
    fn a_share_is_unchanged_after_it_was_sent_as_json() {
        let mut plan = plan(10, None);
        plan.pacing = constant(1_234.5);
        let equal = plan.deal(&[1, 2]).expect("enough for all");
        let unequal = plan.deal(&agents([(1, 1), (2, 2)]));
        for share in equal.into_iter().chain(unequal.expect("enough for all")) {
            let text = serde_json::to_string(&share).expect("a share is plain data");
            assert_eq!(
                serde_json::from_str::<Share>(&text).expect("it is one"),
                share
            );
        }
    }
}
