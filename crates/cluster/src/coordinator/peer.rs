//! What the coordinator knows of one agent.

use super::{AgentPart, ClockReport, Member, PartResult, Present};
use crate::agent_link::{AgentLink, Question};
use crate::clock::{self, Exchange, Offset, WallClock};
use crate::message::{Ending, Piece, Stage};
use crate::names::Label;
use crate::pieces::CallBody;

const MS: u64 = 1_000_000;

/// The largest result: a day of intervals has about 50 MB.
const MAX_RESULT_BYTES: u64 = 256 << 20;

/// During the load, each clock is read again at this interval, by this number of exchanges.
const CLOCK_INTERVAL_NS: u64 = 5_000 * MS;
const EXCHANGES_AGAIN: usize = 8;

/// Retry timeout of a question.
pub(super) fn patience_ns(question: &Question) -> u64 {
    match question {
        Question::Call | Question::Clock => 1_000 * MS,
        Question::Piece(_) | Question::Fetch(_) => 5_000 * MS,
        // The start is near. A beat confirms it as well.
        _ => 300 * MS,
    }
}

/// An agent of a run.
pub(super) struct Peer {
    pub(super) present: Present,
    pub(super) link: AgentLink,
    pub(super) is_lost: bool,
    pub(super) was_lost: bool,
    /// The sequence of its latest beat.
    pub(super) beats: u64,
    /// The shortest time from a question to its reply.
    shortest_reply_ns: u64,
    exchanges: Vec<Exchange>,
    /// Whether there are enough exchanges.
    is_clock_read: bool,
    pub(super) longest_round_trip_ns: u64,
    offset: Option<Offset>,
    latest_offset: Option<Offset>,
    clock_due_ns: u64,
    pub(super) has_confirmed: bool,
    fetched: Option<Vec<u8>>,
    is_taken: bool,
    /// Why there is no result.
    missing: Option<Label>,
    pub(super) is_released: bool,
}

impl Peer {
    pub(super) fn new(member: Member, subject: String, inbox: String, now_ns: u64) -> Self {
        let Member { present, package } = member;
        let mut link = AgentLink::new(present.agent.clone(), subject, inbox, now_ns);
        link.open(
            present.hello.session.clone(),
            present.now_ns,
            present.heard_ns,
        );
        link.begin(package);
        Self {
            present,
            link,
            is_lost: false,
            was_lost: false,
            beats: 0,
            shortest_reply_ns: u64::MAX,
            exchanges: Vec::new(),
            is_clock_read: false,
            longest_round_trip_ns: 0,
            offset: None,
            latest_offset: None,
            clock_due_ns: 0,
            has_confirmed: false,
            fetched: None,
            is_taken: false,
            missing: None,
            is_released: false,
        }
    }

    pub(super) fn silent_ns(&self, now_ns: u64) -> u64 {
        self.link.silent_ns(now_ns)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.link.stage.as_ref().is_some_and(Stage::has_ended)
    }

    pub(super) fn add_exchange(&mut self, exchange: Exchange) {
        let Some(round_trip_ns) = exchange.round_trip_ns() else {
            return;
        };
        self.longest_round_trip_ns = self.longest_round_trip_ns.max(round_trip_ns);
        self.exchanges.push(exchange);
        self.is_clock_read |= clock::are_enough(&self.exchanges);
        if self.offset.is_some() && self.exchanges.len() >= EXCHANGES_AGAIN {
            self.latest_offset = clock::offset(&self.exchanges);
            self.exchanges.clear();
            self.clock_due_ns = exchange.returned_ns.saturating_add(CLOCK_INTERVAL_NS);
        }
    }

    /// Whether its clock is known well enough to start.
    pub(super) fn has_clock(&self) -> bool {
        self.is_clock_read
    }

    pub(super) fn note_reply(&mut self, took_ns: u64) {
        self.shortest_reply_ns = self.shortest_reply_ns.min(took_ns);
    }

    /// The number of questions about its clock in a second if one follows the other.
    pub(super) fn clock_questions_per_s(&self) -> u64 {
        1_000 * MS / self.shortest_reply_ns.max(MS)
    }

    pub(super) fn wants_clock_again(&self, now_ns: u64) -> bool {
        !self.has_ended() && !self.is_lost && now_ns >= self.clock_due_ns
    }

    /// Computes the offset of its clock from the exchanges.
    pub(super) fn settle_clock(&mut self, wall: Option<WallClock>) -> Option<Offset> {
        let exchanged = clock::offset(&self.exchanges)?;
        self.exchanges.clear();
        self.clock_due_ns = exchanged.at_ns.saturating_add(CLOCK_INTERVAL_NS);
        let offset = clock::better(exchanged, wall, self.present.hello.wall);
        self.offset = Some(offset);
        Some(offset)
    }

    /// A time of this machine on its clock.
    pub(super) fn clock_there(&self, here_ns: u64) -> Option<u64> {
        self.offset?.there(here_ns)
    }

    pub(super) fn expect_result(&mut self, body: &CallBody) {
        match self.link.expect(body, MAX_RESULT_BYTES) {
            Ok(fetched) => self.fetched = fetched,
            Err(bytes) => self.give_up(&format!(
                "its result has {bytes} bytes, more than {MAX_RESULT_BYTES}"
            )),
        }
    }

    pub(super) fn has_more_to_fetch(&self) -> bool {
        self.link.is_fetching() && self.missing.is_none()
    }

    /// A piece of its result has come. Returns the size of the result once it is complete.
    pub(super) fn add_piece(&mut self, piece: Piece) -> Option<u64> {
        let result = self.link.add_piece(piece);
        if result.is_none() && self.link.damages_replies() {
            self.give_up("its result was damaged on its way again and again");
        }
        let result = result?;
        let bytes = result.len() as u64;
        self.fetched = Some(result);
        Some(bytes)
    }

    /// Its result will not come.
    pub(super) fn give_up(&mut self, why: &str) {
        self.missing.get_or_insert_with(|| Label::new(why));
    }

    /// Whether its result has come and was not taken yet.
    pub(super) fn is_complete(&self) -> bool {
        self.fetched.is_some() && !self.is_taken
    }

    /// What it did. `None` if that was taken before.
    pub(super) fn take_part(&mut self) -> Option<AgentPart> {
        if std::mem::replace(&mut self.is_taken, true) {
            return None;
        }
        let clock = self.offset.map(|first| ClockReport {
            offset: first,
            latest: self.latest_offset,
            drift: self
                .latest_offset
                .and_then(|last| clock::drift(&first, &last)),
        });
        let fetched = self.fetched.take();
        let result = match (fetched, self.missing.take(), self.link.stage.clone()) {
            (Some(bytes), _, Some(Stage::Finished { ending, .. })) => match ending {
                Ending::Completed => PartResult::Complete(bytes),
                ending => PartResult::Early { ending, bytes },
            },
            (_, _, Some(Stage::Failed { reason })) => PartResult::Missing(reason),
            (_, Some(reason), _) => PartResult::Missing(reason),
            _ => PartResult::Missing("it has not been heard any more".into()),
        };
        Some(AgentPart {
            agent: self.present.agent.clone(),
            place: self.present.hello.place.clone(),
            clock,
            was_lost: self.was_lost,
            result,
        })
    }
}
