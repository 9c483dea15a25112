//! How much load an agent makes at most: the values of `--max-rate`, `--max-connections` and
//! `--max-duration`.

use std::time::Duration;

use plan::readable::{count, decimal};
use plan::{FleetSchedule, Pacing, Share, units};

use crate::names::Label;
use crate::refusal::Refusal;

/// How much load the owner of an agent permits. A field that is `None` limits nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Requests of this agent per second, at any time of a run.
    pub rate_per_sec: Option<f64>,
    /// Connections of this agent; to several hosts, of each of them.
    pub connections: Option<u32>,
    /// Length of the load, with the warm-up.
    pub duration: Option<Duration>,
}

impl Limits {
    /// Whether an agent may make its part of a run.
    ///
    /// # Errors
    /// If it may not. The refusal has what the plan asks for, the limit and its option.
    pub fn check(&self, share: &Share) -> Result<(), Refusal> {
        if let Some(limit) = self.rate_per_sec {
            let asked = highest_rate(share);
            let is_within = asked.is_some_and(|rate_per_sec| rate_per_sec <= limit);
            let asked = asked.map_or_else(|| unlimited(&share.schedule), rate);
            refuse_unless(is_within, asked, &rate(limit), "--max-rate")?;
        }
        if let Some(limit) = self.connections {
            let asked = connections(share);
            let shown = |number: u32| format!("{} connections", count(number.into()));
            refuse_unless(
                asked <= limit,
                shown(asked),
                &shown(limit),
                "--max-connections",
            )?;
        }
        if let Some(limit) = self.duration {
            let plan = &share.plan;
            let asked = plan.stop.duration;
            let asked = asked.map(|duration| duration.saturating_add(plan.warmup));
            let is_within = asked.is_some_and(|length| length <= limit);
            let asked = asked.map_or_else(|| "a load without a duration".to_owned(), load);
            refuse_unless(is_within, asked, &load(limit), "--max-duration")?;
        }
        Ok(())
    }

    /// What is refused, for [`Hello`](crate::message::Hello).
    #[must_use]
    pub fn labels(&self) -> Vec<Label> {
        let rate = self.rate_per_sec.map(rate);
        let connections = self.connections;
        let connections = connections.map(|number| format!("{} connections", count(number.into())));
        let limits = [rate, connections, self.duration.map(load)];
        let limits = limits.into_iter().flatten();
        limits
            .map(|limit| Label::new(&format!("more than {limit}")))
            .collect()
    }
}

fn refuse_unless(
    is_within: bool,
    asked: String,
    permitted: &str,
    option: &str,
) -> Result<(), Refusal> {
    if is_within {
        Ok(())
    } else {
        Err(Refusal::Limit {
            asked: Label::new(&asked),
            permitted: Label::new(permitted),
            option: Label::new(option),
        })
    }
}

/// The highest rate of the agent. It is computed from the schedule of the fleet, which the load
/// generator follows. `None` if the plan does not limit the rate.
fn highest_rate(share: &Share) -> Option<f64> {
    let Share { plan, schedule, .. } = share;
    // It follows the rate only if both say that there is one.
    let of_plan = plan.pacing.rate_curve(plan.warmup)?.max_rate();
    let of_all = schedule.pacing.rate_curve(plan.warmup)?.max_rate();
    let lanes = schedule.lanes(0..plan.load.threads);
    let part = lanes.width() as f64 / lanes.total() as f64;
    Some(of_plan.max(of_all * part))
}

/// The connections of the agent, with those on which nothing is sent. The load generator deals the
/// latter out by lanes.
fn connections(share: &Share) -> u32 {
    let Share { plan, schedule, .. } = share;
    let lanes = schedule.lanes(0..plan.load.threads);
    // It is at most the number of all.
    let idle = lanes.count(0, plan.load.idle_connections.into()) as u32;
    plan.load.connections.saturating_add(idle)
}

fn unlimited(schedule: &FleetSchedule) -> String {
    match schedule.pacing {
        Pacing::Recorded { .. } => "the rate of a log".to_owned(),
        _ => "a load without a rate".to_owned(),
    }
}

/// A rate as people read it: up to a thousandth, without zeros at the end.
fn rate(rate_per_sec: f64) -> String {
    let text = decimal(rate_per_sec, 3);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} requests/s")
}

fn load(duration: Duration) -> String {
    format!("a load of {}", units::time(duration))
}

#[cfg(test)]
mod tests {
    use plan::{AgentThreads, Arrivals, RunPlan, Stage, Target, WeightedLanes};

    use super::*;

    fn plan() -> RunPlan {
        let mut plan = RunPlan::new(Target::parse("http://target.lab/").expect("a URL"));
        plan.load.connections = 40;
        plan.stop.duration = Some(Duration::from_secs(10));
        plan.warmup = Duration::from_secs(2);
        plan.pacing = constant(3_000.0);
        plan
    }

    fn constant(rate_per_sec: f64) -> Pacing {
        Pacing::Constant {
            rate_per_sec,
            arrivals: Arrivals::Poisson,
            seed: 1,
        }
    }

    /// The part of the first of three agents with two threads each.
    fn share(plan: &RunPlan) -> Share {
        plan.deal(&[2, 2, 2])
            .expect("it can be dealt out")
            .remove(0)
    }

    fn refusal(limits: Limits, share: &Share) -> Option<String> {
        limits.check(share).err().map(|refusal| refusal.to_string())
    }

    fn rate_limit(rate_per_sec: f64) -> Limits {
        Limits {
            rate_per_sec: Some(rate_per_sec),
            ..Limits::default()
        }
    }

    #[test]
    fn what_is_within_the_limits_is_permitted() {
        let limits = Limits {
            rate_per_sec: Some(1_000.0),
            connections: Some(14),
            duration: Some(Duration::from_secs(12)),
        };
        assert_eq!(limits.check(&share(&plan())), Ok(()));
        assert_eq!(Limits::default().check(&share(&plan())), Ok(()));
    }

    #[test]
    fn a_refusal_has_the_limit_and_what_was_asked_for() {
        assert_eq!(
            refusal(rate_limit(999.5), &share(&plan())).as_deref(),
            Some(
                "the plan has 1,000 requests/s for this agent, which permits at most 999.5 \
                 requests/s (--max-rate)"
            )
        );
        let connections = Limits {
            connections: Some(13),
            ..Limits::default()
        };
        assert_eq!(
            refusal(connections, &share(&plan())).as_deref(),
            Some(
                "the plan has 14 connections for this agent, which permits at most 13 \
                 connections (--max-connections)"
            )
        );
        let duration = Limits {
            duration: Some(Duration::from_millis(11_999)),
            ..Limits::default()
        };
        let refused = refusal(duration, &share(&plan())).expect("the warm-up counts");
        assert!(
            refused.contains("a load of 12s for this agent"),
            "{refused}"
        );
        assert!(refused.ends_with("(--max-duration)"), "{refused}");
    }

    #[test]
    fn connections_on_which_nothing_is_sent_count_too() {
        let mut plan = plan();
        plan.load.idle_connections = 15;
        let shares = plan.deal(&[2, 1, 3]).expect("it can be dealt out");
        let asked: Vec<u32> = shares.iter().map(connections).collect();
        // 40 and 15, dealt out to six workers in turn.
        assert_eq!(asked, [14 + 6, 7 + 3, 19 + 6]);
    }

    #[test]
    fn an_agent_with_a_larger_weight_is_asked_for_more() {
        let mut plan = plan();
        plan.load.idle_connections = 16;
        let agents = [1_u32, 3].map(|weight| AgentThreads {
            threads: 2,
            weight: weight.try_into().expect("it is a weight"),
        });
        let shares = plan.deal(&agents).expect("it can be dealt out");
        let asked = |share: &Share| (highest_rate(share), connections(share));
        assert_eq!(asked(&shares[0]), (Some(750.0), 10 + 4));
        assert_eq!(asked(&shares[1]), (Some(2_250.0), 30 + 12));
        assert_eq!(refusal(rate_limit(2_250.0), &shares[1]), None);
        assert!(refusal(rate_limit(2_249.0), &shares[1]).is_some());
    }

    #[test]
    fn whatever_a_schedule_says_its_limits_are_checked() {
        let share = share(&plan());
        for weighted in [
            None,
            Some((0, 0, 0)),
            Some((u32::MAX, u32::MAX, 1)),
            Some((9, 9, 9)),
        ] {
            for (worker_base, workers_total) in [(0, 0), (u32::MAX, u32::MAX), (7, 1)] {
                let mut share = share.clone();
                share.schedule.worker_base = worker_base;
                share.schedule.workers_total = workers_total;
                let lanes = |(lane_base, lanes_per_worker, lanes_total)| WeightedLanes {
                    lane_base,
                    lanes_per_worker,
                    lanes_total,
                };
                share.schedule.weighted = weighted.map(lanes);
                // The rate of the plan counts at least.
                assert!(refusal(rate_limit(999.0), &share).is_some());
                assert!(share.check().is_err());
                share.plan.load.idle_connections = u32::MAX;
                assert!(connections(&share) >= share.plan.load.connections);
            }
        }
    }

    #[test]
    fn the_highest_rate_of_all_stages_counts() {
        let mut plan = plan();
        let stage = |from_per_sec, to_per_sec| Stage {
            from_per_sec,
            to_per_sec,
            duration: Duration::from_secs(5),
        };
        plan.pacing = Pacing::Stages {
            stages: vec![stage(30.0, 6_000.0), stage(60.0, 60.0)],
            arrivals: Arrivals::Even,
            seed: 1,
        };
        assert_eq!(refusal(rate_limit(2_000.0), &share(&plan)), None);
        assert!(refusal(rate_limit(1_999.0), &share(&plan)).is_some());
    }

    #[test]
    fn a_load_whose_rate_or_length_is_not_known_is_above_every_limit() {
        let mut plan = plan();
        plan.pacing = Pacing::Closed;
        let refused = refusal(rate_limit(1e9), &share(&plan)).expect("it may be any rate");
        assert!(refused.contains("a load without a rate"), "{refused}");
        plan.pacing = Pacing::Recorded { speed: 1.0 };
        let refused = refusal(rate_limit(1e9), &share(&plan)).expect("it may be any rate");
        assert!(refused.contains("the rate of a log"), "{refused}");
        plan.stop.duration = None;
        plan.stop.requests = Some(100);
        let duration = Limits {
            duration: Some(Duration::MAX),
            ..Limits::default()
        };
        let refused = refusal(duration, &share(&plan)).expect("it may take any time");
        assert!(refused.contains("a load without a duration"), "{refused}");
    }

    #[test]
    fn a_schedule_that_is_faster_than_its_plan_says_is_not_permitted() {
        let mut share = share(&plan());
        share.schedule.pacing = constant(9_000.0);
        assert!(refusal(rate_limit(2_999.0), &share).is_some());
        share.schedule.pacing = Pacing::Closed;
        assert!(refusal(rate_limit(1e9), &share).is_some());
    }

    #[test]
    fn the_roll_call_lists_what_is_refused() {
        let limits = Limits {
            rate_per_sec: Some(1_500.0),
            connections: None,
            duration: Some(Duration::from_secs(90)),
        };
        let labels: Vec<String> = limits.labels().into_iter().map(String::from).collect();
        let expected = ["more than 1,500 requests/s", "more than a load of 1m30s"];
        assert_eq!(labels, expected);
        assert!(Limits::default().labels().is_empty());
    }
}
