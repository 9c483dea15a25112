//! A second session with the agents of a run, beside that of its coordinator: it fetches what they
//! have measured when the coordinator has died, or ends the load.

use std::collections::BTreeMap;

use super::peer::{Peer, patience_ns};
use super::{
    AgentPart, FETCH_SILENCE_NS, Member, PIECES_OF_ALL, Present, QUIET_NS, STOP_LIMIT_NS, signer,
};
use crate::agent_link::{Question, Signer};
use crate::bus::{Message, Outgoing};
use crate::message::{FromAgent, MAX_MESSAGE_BYTES, Reply, Stage, Subjects, decode};
use crate::names::{AgentId, FleetName, Label, RunId};
use crate::refusal::Refusal;
use crate::signing::SigningKey;

/// An agent that has not replied for this time is given up, if nothing was heard of its result.
const SILENCE_NS: u64 = 5_000_000_000;

/// What a visit is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VisitPurpose {
    /// Fetch the results of a run that has ended. The agents keep them.
    Fetch,
    /// End the load. The agents keep what they have measured.
    Stop,
}

/// A visit to the agents of a run.
#[derive(Debug, Clone)]
pub struct VisitSettings {
    /// The fleet that has made the run.
    pub fleet: FleetName,
    /// The version of this program.
    pub version: Label,
    /// The name of the run.
    pub run: RunId,
    /// What the visit is for.
    pub errand: VisitPurpose,
    /// Where replies go: [`Bus::new_inbox`](crate::bus::Bus::new_inbox).
    pub inbox: String,
}

/// What became of the load of an agent without an [`AgentPart`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VisitOutcome {
    /// It has no such run, or not any more.
    Unknown,
    /// It refuses.
    Refused(Refusal),
    /// It is at this stage of the run: `running`.
    GoesOn(&'static str),
    /// It was told to stop, and its load has ended.
    Stopped,
    /// Its load had ended before.
    Ended,
    /// It has not replied.
    Silent,
}

/// A visit in progress: a state machine like [`FleetRun`](super::FleetRun).
pub struct RunVisit {
    settings: VisitSettings,
    signer: Signer,
    agents: BTreeMap<AgentId, Host>,
    began_ns: u64,
    outgoing: Vec<Outgoing>,
}

/// An agent that is visited.
struct Host {
    peer: Peer,
    refusal: Option<Refusal>,
    is_told_to_stop: bool,
}

impl RunVisit {
    /// Begins to visit these agents. They need not take part in the run.
    #[must_use]
    pub fn new(
        settings: VisitSettings,
        key: SigningKey,
        present: Vec<Present>,
        now_ns: u64,
    ) -> Self {
        let subjects = Subjects::new(&settings.fleet);
        let agents = present.into_iter().map(|present| {
            let agent = present.agent.clone();
            let (subject, inbox) = (subjects.ask(&agent), settings.inbox.clone());
            // There is no call: the agent has the plan.
            let member = Member {
                present,
                package: Vec::new(),
            };
            let host = Host {
                peer: Peer::new(member, subject, inbox, now_ns),
                refusal: None,
                is_told_to_stop: false,
            };
            (agent, host)
        });
        Self {
            signer: signer(key, &settings.version, &settings.fleet, &settings.run),
            agents: agents.collect(),
            settings,
            began_ns: now_ns,
            outgoing: Vec::new(),
        }
    }

    /// The subject whose messages [`Self::on_message`] takes.
    #[must_use]
    pub fn subscription(&self) -> &str {
        &self.settings.inbox
    }

    /// Takes a message.
    pub fn on_message(&mut self, message: &Message, now_ns: u64) {
        let Ok(answer) = decode::<FromAgent>(&message.payload, MAX_MESSAGE_BYTES) else {
            return;
        };
        let Some(host) = self.agents.get_mut(&answer.agent) else {
            return;
        };
        let asked = host.peer.link.answered(answer.id);
        host.peer.link.hear(answer.now_ns, now_ns);
        match (answer.reply, asked) {
            (Reply::Stage { stage, .. }, _) => host.on_stage(stage, self.settings.errand),
            (Reply::Piece { piece, .. }, _) => {
                host.peer.add_piece(piece);
            }
            (Reply::Refused(refusal), Some(asked)) => {
                host.on_refusal(&asked.question, refusal, &self.signer);
            }
            _ => {}
        }
    }

    /// Sends what is due and repeats what was lost. To be called after messages, and every few
    /// milliseconds.
    pub fn on_tick(&mut self, now_ns: u64) {
        let pieces = self.agents.values().map(|host| {
            let on_the_way = host.peer.link.on_the_way(now_ns);
            on_the_way.filter(|asked| asked.is_piece()).count()
        });
        let mut pieces: usize = pieces.sum();
        for host in self.agents.values_mut() {
            for question in host.wanted(self.settings.errand, self.began_ns, now_ns) {
                let is_piece = question.is_piece();
                if is_piece && pieces >= PIECES_OF_ALL {
                    continue;
                }
                host.is_told_to_stop |= question == Question::Stop;
                let patience_ns = patience_ns(&question);
                let link = &mut host.peer.link;
                let sent = link.send(question, &self.signer, patience_ns, now_ns);
                let Some(message) = sent else { continue };
                self.outgoing.push(message);
                pieces += usize::from(is_piece);
            }
        }
    }

    /// Whether nothing more is to be done.
    #[must_use]
    pub fn has_ended(&self, now_ns: u64) -> bool {
        let (errand, began_ns) = (self.settings.errand, self.began_ns);
        let mut agents = self.agents.values();
        agents.all(|host| host.is_settled(errand, began_ns, now_ns))
    }

    /// The messages to be sent now.
    pub fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    /// The parts of agents whose results have come since the last call.
    pub fn take_parts(&mut self) -> Vec<AgentPart> {
        let hosts = self.agents.values_mut().map(|host| &mut host.peer);
        let complete = hosts.filter(|peer| peer.is_complete());
        complete.filter_map(Peer::take_part).collect()
    }

    /// The parts that were not taken, of agents that had the run: why their results are missing.
    /// With them, what became of the other agents.
    #[must_use]
    pub fn into_outcome(self) -> (Vec<AgentPart>, Vec<(AgentId, VisitOutcome)>) {
        let (mut parts, mut visited) = (Vec::new(), Vec::new());
        for (agent, mut host) in self.agents {
            match host.visited(self.settings.errand) {
                Some(what) => visited.push((agent, what)),
                None => parts.extend(host.peer.take_part()),
            }
        }
        (parts, visited)
    }
}

impl Host {
    fn on_stage(&mut self, stage: Stage, errand: VisitPurpose) {
        let peer = &mut self.peer;
        if peer.has_ended() {
            return;
        }
        if let (Stage::Finished { body, .. }, VisitPurpose::Fetch) = (&stage, errand) {
            peer.expect_result(body);
        }
        peer.link.stage = Some(stage);
    }

    fn on_refusal(&mut self, question: &Question, refusal: Refusal, signer: &Signer) {
        let link = &mut self.peer.link;
        match question {
            _ if link.is_noise(question, &refusal, signer) => {}
            Question::Fetch(_) => self.peer.give_up(&refusal.to_string()),
            _ => {
                self.refusal.get_or_insert(refusal);
            }
        }
    }

    fn is_silent(&self, now_ns: u64) -> bool {
        let limit_ns = match self.peer.link.stage {
            None => SILENCE_NS,
            Some(_) => FETCH_SILENCE_NS,
        };
        self.peer.silent_ns(now_ns) > limit_ns
    }

    fn is_settled(&self, errand: VisitPurpose, began_ns: u64, now_ns: u64) -> bool {
        if self.refusal.is_some() || self.is_silent(now_ns) {
            return true;
        }
        match (errand, self.peer.link.stage.is_some()) {
            (_, false) => false,
            (VisitPurpose::Fetch, true) => !self.peer.has_more_to_fetch(),
            (VisitPurpose::Stop, true) => {
                self.peer.has_ended() || now_ns.saturating_sub(began_ns) > 2 * STOP_LIMIT_NS
            }
        }
    }

    fn wanted(&self, errand: VisitPurpose, began_ns: u64, now_ns: u64) -> Vec<Question> {
        if self.is_settled(errand, began_ns, now_ns) {
            return Vec::new();
        }
        match (errand, self.peer.link.stage.is_some()) {
            (_, false) => vec![Question::Open],
            (VisitPurpose::Fetch, true) => self.peer.link.wanted_for_call(now_ns, QUIET_NS),
            (VisitPurpose::Stop, true) => vec![Question::Stop],
        }
    }

    /// What became of its load; `None` if it has a part.
    fn visited(&self, errand: VisitPurpose) -> Option<VisitOutcome> {
        Some(match (&self.refusal, &self.peer.link.stage) {
            // It had not started, so there is no result.
            (Some(Refusal::UnknownRun { .. }), _) if self.is_told_to_stop => VisitOutcome::Stopped,
            (Some(Refusal::UnknownRun { .. }), _) => VisitOutcome::Unknown,
            (Some(refusal), _) => VisitOutcome::Refused(refusal.clone()),
            (None, None) => VisitOutcome::Silent,
            (None, Some(stage)) if !stage.has_ended() => VisitOutcome::GoesOn(stage.name()),
            (None, Some(_)) if errand == VisitPurpose::Fetch => return None,
            (None, Some(_)) if self.is_told_to_stop => VisitOutcome::Stopped,
            (None, Some(_)) => VisitOutcome::Ended,
        })
    }
}
