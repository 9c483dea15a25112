//! The status of a fleet: its agents with their clocks.

use std::collections::BTreeMap;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use cluster::bus::{INBOX_CAPACITY, Outgoing};
use cluster::clock::{Exchange, offset};
use cluster::coordinator::{Present, Wanted, roll_call};
use cluster::message::{
    Ask, FromAgent, MAX_MESSAGE_BYTES, Reply, Subjects, ToAgent, decode, encode,
};
use cluster::names::AgentId;

use crate::coordinator::{Coordinator, FleetError};
use crate::{clock, version};

/// How often each clock is read.
const READINGS: u64 = 10;

/// How long the replies to one reading may take.
const PATIENCE: Duration = Duration::from_millis(300);

/// An agent that is there.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentStatus {
    /// What the agent says about itself.
    pub present: Present,
    /// The bound of the error of its clock, nanoseconds; `None` if it did not reply.
    pub clock_bound_ns: Option<u64>,
}

impl Coordinator {
    /// All agents that are there, also busy ones, and the reason why they cannot be used together,
    /// if there is one.
    ///
    /// # Errors
    /// If the bus is closed.
    pub fn status(&self, wanted: Wanted) -> Result<(Vec<AgentStatus>, Option<String>), FleetError> {
        let options = &self.options;
        let roll = roll_call(
            &*self.bus,
            &clock(),
            options.fleet.clone(),
            version(),
            wanted,
        )?;
        let problem = roll.problem().map(|problem| problem.to_string());
        let present = roll.into_present();
        let mut exchanges = self.read_clocks(&present)?;
        let agents = present.into_iter().map(|present| {
            let read = exchanges.remove(&present.agent).unwrap_or_default();
            AgentStatus {
                clock_bound_ns: offset(&read).map(|offset| offset.bound_ns),
                present,
            }
        });
        Ok((agents.collect(), problem))
    }

    fn read_clocks(
        &self,
        agents: &[Present],
    ) -> Result<BTreeMap<AgentId, Vec<Exchange>>, FleetError> {
        let clock = clock();
        let subjects = Subjects::new(&self.options.fleet);
        let replies_to = self.bus.new_inbox();
        let (sender, inbox) = sync_channel(INBOX_CAPACITY);
        self.bus.subscribe(&replies_to, &sender)?;
        let mut read: BTreeMap<AgentId, Vec<Exchange>> = BTreeMap::new();
        let mut sent: BTreeMap<u64, u64> = BTreeMap::new();
        for reading in 0..READINGS {
            for (agent, present) in (0..).zip(agents) {
                let id = reading * agents.len() as u64 + agent;
                sent.insert(id, clock());
                self.bus.publish(Outgoing {
                    subject: subjects.ask(&present.agent),
                    reply: Some(replies_to.clone()),
                    payload: encode(&ToAgent {
                        id,
                        ask: Ask::Clock,
                    }),
                })?;
            }
            for _ in agents {
                let Ok(message) = inbox.recv_timeout(PATIENCE) else {
                    break;
                };
                let Ok(answer) = decode::<FromAgent>(&message.payload, MAX_MESSAGE_BYTES) else {
                    continue;
                };
                if let (Some(sent_ns), Reply::Clock { received_ns }) =
                    (sent.remove(&answer.id), answer.reply)
                {
                    read.entry(answer.agent).or_default().push(Exchange {
                        sent_ns,
                        received_ns,
                        replied_ns: answer.now_ns,
                        returned_ns: message.received_ns,
                    });
                }
            }
        }
        Ok(read)
    }
}
