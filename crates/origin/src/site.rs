//! What all connections of a worker share: settings, randomness, schedule, log and counters.

use std::rc::Rc;
use std::sync::Arc;

use fastrand::Rng;

use crate::answer::Answer;
use crate::fault::Fault;
use crate::plan::Plan;
use crate::recipes::Recipes;
use crate::request::{BadRequest, ECHO_MAX_BYTES, Head};
use crate::response::{self, Asked};
use crate::schedule::Schedule;
use crate::truth::{Counters, Log, RequestTruth};

/// The target that answers with the counters.
pub const STATS_TARGET: &str = "/__stats";

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) defaults: Answer,
    pub(crate) keepalive_requests: Option<u64>,
    pub(crate) random: Rng,
    pub(crate) schedule: Schedule,
    pub(crate) log: Log,
    pub(crate) recipes: Recipes,
    /// Of all workers; this one's is `own`.
    pub(crate) counters: Arc<[Counters]>,
    pub(crate) own: usize,
}

/// What is to be done for a request, decided at its head.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) head: Head,
    pub(crate) kind: Kind,
}

/// What a request is answered with.
#[derive(Debug)]
pub(crate) enum Kind {
    Answer(Box<Answer>),
    Stats,
    /// Options that mean nothing: 400 with the reason.
    Wrong(String),
}

impl Decision {
    pub(crate) fn fault(&self) -> Option<&Fault> {
        match &self.kind {
            Kind::Answer(answer) => answer.fault.as_ref(),
            Kind::Stats | Kind::Wrong(_) => None,
        }
    }

    pub(crate) fn echoes(&self) -> bool {
        matches!(&self.kind, Kind::Answer(answer) if answer.echoes)
    }
}

impl Site {
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters[self.own]
    }

    /// Whether instant answers may leave without any bookkeeping of time, turn and content.
    pub(crate) fn is_instant(&self) -> bool {
        self.schedule.is_trivial() && self.keepalive_requests.is_none() && !self.log.records()
    }

    pub(crate) fn decide(&self, head: Head) -> Decision {
        let kind = if head.target == STATS_TARGET {
            Kind::Stats
        } else {
            match self.defaults.changed_by(&head.target) {
                Ok(answer) => Kind::Answer(Box::new(answer)),
                Err(why) => Kind::Wrong(why),
            }
        };
        Decision { head, kind }
    }

    /// The plan for a request; `is_last` when the connection may carry no more.
    pub(crate) fn plan(
        &self,
        decision: &Decision,
        body: Vec<u8>,
        is_last: bool,
    ) -> Result<Plan, BadRequest> {
        if body.len() > ECHO_MAX_BYTES {
            return Err(BadRequest {
                status: 413,
                reason: "the body to echo is beyond 16 MiB",
            });
        }
        let head = &decision.head;
        let keeps_alive = head.keeps_alive && !is_last;
        Ok(match &decision.kind {
            Kind::Answer(answer) => {
                let is_success = (200..300).contains(&answer.status);
                let asked = Asked {
                    is_bodiless: head.method == "HEAD" || head.method == "CONNECT" && is_success,
                    is_http10: head.is_http10,
                    keeps_alive,
                    body,
                };
                response::plan(answer, &asked)
            }
            Kind::Stats => {
                let json = Counters::sum(self.counters.iter()).to_json();
                let plan = response::text(200, "application/json", &json, !keeps_alive);
                Plan {
                    is_counted: false,
                    ..plan
                }
            }
            Kind::Wrong(why) => response::text(400, "text/plain", &format!("{why}\n"), true),
        })
    }

    /// Notes a request's arrival: which plan it is to have, when it is due, and its place in the log.
    pub(crate) fn arrive(
        &mut self,
        plan: &Rc<Plan>,
        arrival: Arrival,
    ) -> (Rc<Plan>, u64, Option<usize>) {
        let plan = self.drawn(plan);
        if !plan.is_counted {
            return (plan, arrival.at_ns, None);
        }
        self.counters().requests.add(1);
        let delay_ns = plan.delay.sample_ns(&mut self.random);
        let due_ns = self.schedule.due_ns(arrival.at_ns, delay_ns);
        let index = self.log.arrive(RequestTruth {
            connection: arrival.connection,
            arrival_ns: arrival.at_ns,
            departure_ns: None,
            status: plan.status,
            bytes: 0,
        });
        (plan, due_ns, index)
    }

    /// This plan, or one of its mix.
    fn drawn(&mut self, plan: &Rc<Plan>) -> Rc<Plan> {
        if plan.mix.is_empty() {
            return Rc::clone(plan);
        }
        let mut left = self.random.f64();
        for (probability, other) in &plan.mix {
            if left < *probability {
                return Rc::clone(other);
            }
            left -= probability;
        }
        Rc::clone(plan)
    }
}

/// Where and when a request came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) connection: u64,
    pub(crate) at_ns: u64,
}
