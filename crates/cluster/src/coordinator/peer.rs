//! What the coordinator knows of one agent.

use super::{ClockReport, Member, Part, PartResult, Present};
use crate::agent::CALL;
use crate::clock::{self, Exchange, Offset, WallClock};
use crate::message::{Command, Ending, Piece, Stage};
use crate::names::Label;
use crate::pieces::{Assembly, CallBody, piece};

const MS: u64 = 1_000_000;

/// The largest result: a day of intervals has about 50 MB.
const MAX_RESULT_BYTES: u64 = 256 << 20;

/// How many damaged pieces of a result are fetched again. It only ends what would never end.
const MAX_DAMAGED_PIECES: u32 = 100;

/// During the load, clocks are read again this often, by so many exchanges.
const CLOCK_INTERVAL_NS: u64 = 5_000 * MS;
const EXCHANGES_AGAIN: usize = 8;

/// An agent that prepares for so long without a beat is asked.
const QUIET_NS: u64 = 1_000 * MS;

/// Something that an agent is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    Prepare,
    /// Here is a piece of the plan.
    Piece(u32),
    Clock,
    Start,
    /// A piece of the result.
    Fetch(u32),
    Release,
}

impl Question {
    /// Whether it or its reply is large.
    pub(super) fn is_piece(&self) -> bool {
        matches!(self, Self::Piece(_) | Self::Fetch(_))
    }

    /// After so long without a reply, it is asked again.
    pub(super) fn patience_ns(&self) -> u64 {
        match self {
            Self::Prepare | Self::Clock => 1_000 * MS,
            Self::Piece(_) | Self::Fetch(_) => 5_000 * MS,
            // There is not much time. A beat says as well that the start is agreed upon.
            Self::Start | Self::Release => 300 * MS,
        }
    }
}

/// An agent of a run.
pub(super) struct Peer {
    pub(super) present: Present,
    package: Vec<u8>,
    body: CallBody,
    pub(super) stage: Option<Stage>,
    /// The questions that it has not replied to.
    pub(super) asked: Vec<Question>,
    /// The number of the latest order for it.
    pub(super) number: u64,
    /// What its clock said, and when that was heard.
    pub(super) clock: (u64, u64),
    pub(super) heard_ns: u64,
    pub(super) is_lost: bool,
    pub(super) was_lost: bool,
    /// The sequence of its latest beat.
    pub(super) beats: u64,
    /// Orders and pieces of the plan that were damaged on their way.
    pub(super) damaged: u32,
    /// The shortest time from a question to its reply.
    shortest_reply_ns: u64,
    exchanges: Vec<Exchange>,
    /// Whether there are enough of them.
    is_clock_read: bool,
    pub(super) longest_round_trip_ns: u64,
    offset: Option<Offset>,
    latest_offset: Option<Offset>,
    clock_due_ns: u64,
    pub(super) has_confirmed: bool,
    result: Option<Assembly>,
    damaged_of_result: u32,
    fetched: Option<Vec<u8>>,
    /// Why there is no result.
    missing: Option<Label>,
    pub(super) is_released: bool,
}

impl Peer {
    pub(super) fn new(member: Member, now_ns: u64) -> Self {
        let Member { present, package } = member;
        Self {
            clock: (present.now_ns, present.heard_ns),
            present,
            body: CallBody::of_call(&package),
            package,
            stage: None,
            asked: Vec::new(),
            number: 0,
            heard_ns: now_ns,
            is_lost: false,
            was_lost: false,
            beats: 0,
            damaged: 0,
            shortest_reply_ns: u64::MAX,
            exchanges: Vec::new(),
            is_clock_read: false,
            longest_round_trip_ns: 0,
            offset: None,
            latest_offset: None,
            clock_due_ns: 0,
            has_confirmed: false,
            result: None,
            damaged_of_result: 0,
            fetched: None,
            missing: None,
            is_released: false,
        }
    }

    pub(super) fn silent_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.heard_ns)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.stage.as_ref().is_some_and(Stage::has_ended)
    }

    pub(super) fn prepare(&self) -> Command {
        Command::Call {
            call: CALL,
            body: self.body.clone(),
        }
    }

    pub(super) fn piece_of_package(&self, index: u32) -> Option<Piece> {
        piece(&self.package, index)
    }

    pub(super) fn wanted_to_prepare(&self, now_ns: u64, pieces: usize) -> Vec<Question> {
        match &self.stage {
            None => vec![Question::Prepare],
            Some(Stage::Receiving { missing }) => {
                self.next_pieces(missing, pieces, Question::Piece)
            }
            Some(Stage::Working) if self.silent_ns(now_ns) > QUIET_NS => vec![Question::Prepare],
            Some(_) => Vec::new(),
        }
    }

    /// The first of these pieces that are not on their way, as long as there are not too many.
    fn next_pieces(
        &self,
        missing: &[u32],
        limit: usize,
        question: fn(u32) -> Question,
    ) -> Vec<Question> {
        let on_the_way = self
            .asked
            .iter()
            .filter(|question| question.is_piece())
            .count();
        let questions = missing.iter().map(|index| question(*index));
        questions
            .filter(|question| !self.asked.contains(question))
            .take(limit.saturating_sub(on_the_way))
            .collect()
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

    /// How many questions about its clock it gets in a second if one follows the other.
    pub(super) fn clock_questions_per_s(&self) -> u64 {
        1_000 * MS / self.shortest_reply_ns.max(MS)
    }

    pub(super) fn wants_clock_again(&self, now_ns: u64) -> bool {
        !self.has_ended() && !self.is_lost && now_ns >= self.clock_due_ns
    }

    /// Decides about the offset of its clock.
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
        let content = match body {
            CallBody::Inline(bytes) => {
                self.fetched = Some(bytes.clone());
                return;
            }
            CallBody::Pieces { content, .. } => *content,
        };
        self.result = Assembly::new(content, MAX_RESULT_BYTES);
        if self.result.is_none() {
            self.give_up(&format!(
                "its result has {} bytes, more than {MAX_RESULT_BYTES}",
                content.bytes
            ));
        }
    }

    pub(super) fn wanted_pieces(&self, pieces: usize) -> Vec<Question> {
        match &self.result {
            Some(result) if self.has_more_to_fetch() => {
                let missing: Vec<u32> = result.missing().take(2 * pieces).collect();
                self.next_pieces(&missing, pieces, Question::Fetch)
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn has_more_to_fetch(&self) -> bool {
        self.result.is_some() && self.fetched.is_none() && self.missing.is_none()
    }

    /// A piece of its result has come. Returns the size of the result once it is complete.
    pub(super) fn add_piece(&mut self, piece: Piece) -> Option<u64> {
        let result = self.result.as_mut().filter(|_| self.fetched.is_none())?;
        // A damaged piece is fetched again, like one that was lost.
        if result.add(piece).is_err() {
            self.damaged_of_result += 1;
        } else if result.missing().next().is_none() {
            self.fetched = result.take();
            // Its pieces do not belong together: all of them are fetched again.
            self.damaged_of_result += u32::from(self.fetched.is_none());
        }
        if self.fetched.is_none() && self.damaged_of_result >= MAX_DAMAGED_PIECES {
            self.give_up("its result was damaged on its way again and again");
        }
        self.fetched.as_ref().map(|bytes| bytes.len() as u64)
    }

    /// Its result will not come.
    pub(super) fn give_up(&mut self, why: &str) {
        self.missing.get_or_insert_with(|| Label::new(why));
    }

    pub(super) fn into_part(self) -> Part {
        let clock = self.offset.map(|first| ClockReport {
            offset: first,
            latest: self.latest_offset,
            drift: self
                .latest_offset
                .and_then(|last| clock::drift(&first, &last)),
        });
        let result = match (self.fetched, self.missing, self.stage) {
            (Some(bytes), _, Some(Stage::Finished { ending, .. })) => match ending {
                Ending::Completed => PartResult::Complete(bytes),
                ending => PartResult::Early { ending, bytes },
            },
            (_, _, Some(Stage::Failed { reason })) => PartResult::Missing(reason),
            (_, Some(reason), _) => PartResult::Missing(reason),
            _ => PartResult::Missing("it has not been heard any more".into()),
        };
        Part {
            agent: self.present.agent,
            place: self.present.hello.place,
            clock,
            was_lost: self.was_lost,
            result,
        }
    }
}
