//! Conversations that are going on: when the next turn of each is due, and what follows an answer.
//!
//! A conversation belongs to no connection. While it waits for its next turn, it is an entry of a
//! heap, and a turn that is due takes any free connection, as a request of a schedule does. It
//! stays with its worker, which has what was said so far; no other worker needs that.

use super::sender::RequestSender;
use super::writer::{Chosen, RequestLabel};
use crate::control::RunTimes;
use crate::exchanges::TokenTimes;
use fastrand::Rng;
use protocol::llm::{Answer, Usage};
use protocol::{ExchangeId, Session};
use requests::RequestSet;
use requests::conversations::{Conversation, ConversationEnd, Dialogue, NextTurn};
use results::{ConversationRecording, turn_group};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

/// How long the second of a series is, nanoseconds.
const SECOND_NS: u64 = 1_000_000_000;

/// The longest series, seconds. What comes after it is in its last second.
const SECONDS_MAX: usize = 1 << 20;

/// The most conversations of a worker that are going on at the start of a run with a rate.
const EARLIER_MAX: u32 = 100_000;

/// The most conversations that are looked at for that: a file may have few that think for long.
const EARLIER_TRIES_MAX: u32 = 1_000_000;

/// A conversation that is going on.
#[derive(Debug)]
struct Live {
    chosen: Chosen,
    dialogue: Dialogue,
    /// Sent to the server, if requests have a place for it.
    name: Vec<u8>,
    /// Its number among those of this worker.
    number: u32,
    /// Since when its user is there: in a run with users, before the first turn is due.
    since_ns: u64,
    /// When its first turn of the run was due.
    first_due_ns: u64,
    /// When the next turn is due, or the turn in flight was.
    due_ns: u64,
    /// The end of the answer before that.
    answered_ns: u64,
    answers: u64,
    is_good: bool,
    /// Its first turn of the run was the first of the conversation.
    is_whole: bool,
    /// What its history is counted with.
    bytes: usize,
}

/// A turn in flight.
#[derive(Debug)]
struct TurnInFlight {
    live: u32,
    answer: Option<Answer>,
    /// The response asks to wait so long before the turn is sent again.
    pause_ns: Option<u64>,
}

/// A turn that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DueTurn {
    pub(super) due_ns: u64,
    live: u32,
}

/// An answer that is complete.
pub(super) struct AnsweredTurn<'t> {
    pub(super) arrived_ns: u64,
    pub(super) status: u16,
    pub(super) tokens: &'t TokenTimes,
    /// As `--good` judges it; true without that.
    pub(super) is_good: bool,
}

/// The conversations of a worker.
#[derive(Debug)]
pub(super) struct Conversations {
    set: Arc<RequestSet>,
    live: Vec<Option<Live>>,
    unused: Vec<u32>,
    due: BinaryHeap<Reverse<(u64, u32)>>,
    in_flight: HashMap<(u32, u32), TurnInFlight>,
    /// Set if users have conversations one after the other: how many may still begin in the window.
    users: Option<u64>,
    random: Rng,
    /// The beginning of the names of this worker's conversations, and the number of the next one.
    names: (String, u32),
    times: RunTimes,
    bytes: usize,
    bytes_max: usize,
    recording: ConversationRecording,
}

/// What a worker has of conversations with `set`.
pub(super) struct ConversationSettings {
    pub(super) set: Arc<RequestSet>,
    /// Whether users have conversations one after the other, and how many of these may begin.
    pub(super) users: Option<u64>,
    pub(super) seed: u64,
    /// Number of this worker across all machines.
    pub(super) number: u32,
    /// What the histories of this worker's conversations may take.
    pub(super) bytes_max: usize,
}

impl Conversations {
    pub(super) fn new(settings: ConversationSettings) -> Self {
        let ConversationSettings {
            set,
            users,
            seed,
            number,
            bytes_max,
        } = settings;
        let mut random = Rng::with_seed(seed ^ (u64::from(number) << 32));
        let names = (format!("{:08x}-{number}", random.u32(..)), 0);
        Self {
            set,
            live: Vec::new(),
            unused: Vec::new(),
            due: BinaryHeap::new(),
            in_flight: HashMap::new(),
            users,
            random,
            names,
            times: RunTimes::default(),
            bytes: 0,
            bytes_max,
            recording: ConversationRecording::new(),
        }
    }

    /// Whether users have conversations one after the other.
    pub(super) fn has_users(&self) -> bool {
        self.users.is_some()
    }

    /// The conversations that users may still begin within the window.
    pub(super) fn remaining(&self) -> u64 {
        self.users.unwrap_or(0)
    }

    /// Whether a conversation is going on.
    pub(super) fn any_live(&self) -> bool {
        self.live.len() > self.unused.len()
    }

    /// The run has these times. The window may be moved as long as it has not begun.
    pub(super) fn set_times(&mut self, times: RunTimes) {
        self.times = times;
    }

    /// The numbers of conversations so far.
    pub(super) fn counts(&self) -> ConversationRecording {
        self.recording.counts()
    }

    fn is_in_window(&self, at_ns: u64) -> bool {
        (self.times.measure_ns..self.times.end_ns).contains(&at_ns)
    }

    /// A user comes at the start of the run, maybe in the middle of a conversation.
    fn add_user(&mut self, chosen: Chosen) {
        let start_ns = self.times.start_ns;
        let set = Arc::clone(&self.set);
        let conversation = set.conversation(chosen.request());
        let turns = match conversation {
            Some(conversation) if conversation.rules.begins_anywhere => &conversation.turns[..],
            _ => &[],
        };
        let turn = self.random.usize(0..turns.len().max(1));
        let think_ns = turns.get(turn).map_or(0, |turn| turn.think_ns);
        let due_ns = start_ns.saturating_add(self.random.u64(0..=think_ns));
        let turn = self.begin(chosen, turn, (start_ns, due_ns));
        self.wait_for(turn);
    }

    /// A conversation that began so long before the run is still going on if it may begin at any
    /// turn, and if thinking alone has taken longer. Nobody knows how long its answers would have
    /// taken. Returns whether it is.
    fn add_earlier(&mut self, chosen: Chosen, ago_ns: u64) -> bool {
        let start_ns = self.times.start_ns;
        let conversation = self.conversation(&chosen);
        let conversation = conversation.filter(|it| it.rules.begins_anywhere);
        let next = conversation.and_then(|conversation| {
            let mut at_ns = 0_u64;
            let mut turns = conversation.turns.iter().enumerate().skip(1);
            turns.find_map(|(number, turn)| {
                at_ns = at_ns.saturating_add(turn.think_ns);
                (at_ns >= ago_ns).then(|| (number, at_ns - ago_ns))
            })
        });
        if let Some((turn, wait_ns)) = next {
            let due_ns = start_ns.saturating_add(wait_ns);
            let turn = self.begin(chosen, turn, (start_ns, due_ns));
            self.wait_for(turn);
        }
        next.is_some()
    }

    fn conversation(&self, chosen: &Chosen) -> Option<&Conversation> {
        self.set.conversation(chosen.request())
    }

    /// The longest time that the thinking of a conversation takes that may begin at any turn,
    /// nanoseconds; 0 if none may.
    fn longest_thinking_ns(&self) -> u64 {
        let all = (0..self.set.len()).filter_map(|request| self.set.conversation(request));
        let anywhere = all.filter(|it| it.rules.begins_anywhere);
        let thinking = anywhere.map(|it| {
            let each = it.turns.iter().skip(1).map(|turn| turn.think_ns);
            each.fold(0, u64::saturating_add)
        });
        thinking.max().unwrap_or(0)
    }

    /// A conversation begins at a turn. Its user is there since the first of the two times, and
    /// the turn is due at the second one. Returns that turn.
    fn begin(
        &mut self,
        chosen: Chosen,
        turn: usize,
        (since_ns, due_ns): (u64, u64),
    ) -> Option<DueTurn> {
        let conversation = self.conversation(&chosen)?;
        let dialogue = Dialogue::at_turn(conversation, turn);
        let (prefix, next) = &mut self.names;
        let number = *next;
        *next = next.wrapping_add(1);
        let name = format!("{prefix}-{number}").into_bytes();
        let bytes = dialogue.bytes();
        let live = Live {
            chosen,
            dialogue,
            name,
            number,
            since_ns,
            first_due_ns: due_ns,
            due_ns,
            answered_ns: since_ns,
            answers: 0,
            is_good: true,
            is_whole: turn == 0,
            bytes,
        };
        self.bytes += bytes;
        let index = match self.unused.pop() {
            Some(index) => {
                self.live[index as usize] = Some(live);
                index
            }
            None => {
                self.live.push(Some(live));
                // There are fewer than connections can have requests in the time of a run.
                self.live.len() as u32 - 1
            }
        };
        Some(DueTurn {
            due_ns,
            live: index,
        })
    }

    /// A turn will be due.
    fn wait_for(&mut self, turn: Option<DueTurn>) {
        let entry = turn.map(|turn| Reverse((turn.due_ns, turn.live)));
        self.due.extend(entry);
    }

    /// When the next turn is due.
    #[inline]
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((due_ns, _))| *due_ns)
    }

    /// Takes the next turn if it is due.
    fn take_due(&mut self, now_ns: u64) -> Option<DueTurn> {
        let due_ns = self.next_due_ns().filter(|due_ns| *due_ns <= now_ns)?;
        let Reverse((_, live)) = self.due.pop()?;
        Some(DueTurn { due_ns, live })
    }

    /// A turn could not be sent. It is still due.
    pub(super) fn give_back(&mut self, (key, exchange): (u32, ExchangeId), turn: DueTurn) {
        let was_sent = self.in_flight.remove(&(key, exchange.0)).is_some();
        self.wait_for(was_sent.then_some(turn));
    }

    /// A turn is about to be sent. Returns the number of its conversation, and its own one.
    pub(super) fn send(&mut self, (key, exchange): (u32, ExchangeId), turn: DueTurn) -> (u32, u32) {
        let live = turn.live;
        let turn = TurnInFlight {
            live,
            answer: None,
            pause_ns: None,
        };
        self.in_flight.insert((key, exchange.0), turn);
        let live = self.live[live as usize].as_ref();
        live.map_or((0, 0), |it| (it.number, it.dialogue.turn() as u32 + 1))
    }

    /// What the model has said in the response to a turn that will be complete.
    pub(super) fn said(&mut self, key: u32, exchange: ExchangeId, answer: Answer) {
        if let Some(turn) = self.in_flight.get_mut(&(key, exchange.0)) {
            turn.answer = Some(answer);
        }
    }

    /// The response to a turn asks its user to wait so long.
    pub(super) fn pause(&mut self, (key, exchange): (u32, ExchangeId), pause_ns: u64) {
        if let Some(turn) = self.in_flight.get_mut(&(key, exchange.0)) {
            turn.pause_ns = Some(pause_ns);
        }
    }

    /// The turn was refused, and its user sends it again after a pause.
    fn repeat(&mut self, index: u32, at_ns: u64, pause_ns: u64) {
        if let Some(live) = &mut self.live[index as usize] {
            live.answered_ns = at_ns;
            live.due_ns = at_ns.saturating_add(pause_ns);
            self.due.push(Reverse((live.due_ns, index)));
        }
    }

    /// A turn is answered. Returns whether a user has ended a conversation.
    fn answered(
        &mut self,
        (key, exchange): (u32, ExchangeId),
        answered: &AnsweredTurn<'_>,
    ) -> Option<UserIsFree> {
        let TurnInFlight {
            live: index,
            answer,
            pause_ns,
        } = self.in_flight.remove(&(key, exchange.0))?;
        self.note_thought(index, u64::MAX);
        if let Some(pause_ns) = pause_ns {
            self.repeat(index, answered.arrived_ns, pause_ns);
            return None;
        }
        if answered.status >= 400 {
            return self.end(index, ConversationEnd::Failed, answered.arrived_ns);
        }
        self.record(index, answered);
        let set = Arc::clone(&self.set);
        let live = self.live[index as usize].as_mut()?;
        let conversation = set.conversation(live.chosen.request())?;
        let tokens = answered.tokens;
        let known = |count: u32| (count > 0).then_some(u64::from(count));
        let usage = Usage {
            prompt: known(tokens.prompt),
            completion: known(tokens.generated),
            ..Usage::default()
        };
        live.answers += 1;
        live.is_good &= answered.is_good;
        live.answered_ns = answered.arrived_ns;
        let next = live.dialogue.answered(
            conversation,
            &conversation.rules,
            answer.unwrap_or_default(),
            &usage,
        );
        self.bytes -= live.bytes;
        live.bytes = live.dialogue.bytes();
        self.bytes += live.bytes;
        match next {
            NextTurn::Ended(end) => self.end(index, end, answered.arrived_ns),
            NextTurn::After(_) if self.bytes > self.bytes_max => {
                self.recording.memory += u64::from(self.is_counted(index));
                self.remove(index, answered.arrived_ns)
            }
            NextTurn::After(wait_ns) => {
                live.due_ns = answered.arrived_ns.saturating_add(wait_ns);
                self.due.push(Reverse((live.due_ns, index)));
                None
            }
        }
    }

    /// Records how long the last turn was waited for, until a moment at most.
    fn note_thought(&mut self, index: u32, until_ns: u64) {
        if let Some(live) = &self.live[index as usize] {
            let thought = (live.answered_ns, live.due_ns.min(until_ns));
            add_time(&mut self.recording.thinking_ns, self.times, thought);
        }
    }

    /// Records an answer, if its turn was due in the window.
    fn record(&mut self, index: u32, answered: &AnsweredTurn<'_>) {
        let Some(live) = &self.live[index as usize] else {
            return;
        };
        let due_ns = live.due_ns;
        let group = turn_group(live.dialogue.turn());
        let tokens = answered.tokens;
        if due_ns >= self.times.measure_ns
            && let Some(turn) = self.recording.by_turn.get_mut(group)
        {
            let first_ns = tokens.first_ns.saturating_sub(due_ns);
            turn.add(
                (first_ns, tokens.per_token_ns),
                (tokens.prompt, tokens.cached),
            );
        }
    }

    /// Whether a conversation is one of the window.
    fn is_counted(&self, index: u32) -> bool {
        let live = self.live[index as usize].as_ref();
        live.is_some_and(|live| self.is_in_window(live.first_due_ns))
    }

    /// A conversation ends.
    fn end(&mut self, index: u32, end: ConversationEnd, at_ns: u64) -> Option<UserIsFree> {
        let is_counted = self.is_counted(index);
        if let Some(live) = self.live[index as usize].as_ref().filter(|_| is_counted) {
            let recording = &mut self.recording;
            match end {
                ConversationEnd::Done => {
                    recording.done += 1;
                    if live.is_whole {
                        let took_ns = at_ns.saturating_sub(live.first_due_ns);
                        recording.duration.record(took_ns);
                    }
                }
                ConversationEnd::Context => recording.context += 1,
                ConversationEnd::Failed => {
                    recording.failed += 1;
                    let turns = self.set.conversation(live.chosen.request());
                    let turns = turns.map_or(0, |conversation| conversation.turns.len());
                    let lost = turns.saturating_sub(live.dialogue.turn() + 1);
                    recording.turns_lost += lost as u64;
                }
            }
            if end != ConversationEnd::Failed {
                recording.turns.record(live.answers);
                recording.good += u64::from(live.is_good);
            }
        }
        self.remove(index, at_ns)
    }

    fn remove(&mut self, index: u32, at_ns: u64) -> Option<UserIsFree> {
        let counted = self.is_counted(index);
        let live = self.live[index as usize].take()?;
        self.recording.begun += u64::from(counted);
        self.count_dropped(&live);
        self.unused.push(index);
        self.bytes -= live.bytes;
        add_time(
            &mut self.recording.live_ns,
            self.times,
            (live.since_ns, at_ns),
        );
        self.users.map(|_| UserIsFree { since_ns: at_ns })
    }

    /// Counts the turns that the requests of a conversation have left out.
    fn count_dropped(&mut self, live: &Live) {
        let is_counted = self.is_in_window(live.first_due_ns);
        let dropped = live.dialogue.dropped_turns() as u64;
        self.recording.turns_dropped += if is_counted { dropped } else { 0 };
    }

    /// The request of a turn has failed.
    fn failed(&mut self, (key, exchange): (u32, ExchangeId), at_ns: u64) -> Option<UserIsFree> {
        let turn = self.in_flight.remove(&(key, exchange.0))?;
        self.note_thought(turn.live, u64::MAX);
        self.end(turn.live, ConversationEnd::Failed, at_ns)
    }

    /// The turns that are due at the end and were not sent.
    pub(super) fn unsent(&self, ended_ns: u64) -> impl Iterator<Item = u64> + '_ {
        let due = self.due.iter().map(|Reverse((due_ns, _))| *due_ns);
        due.filter(move |due_ns| (self.times.measure_ns..ended_ns).contains(due_ns))
    }

    /// The run ends: counts what is still going on, and returns all that was recorded.
    pub(super) fn finish(&mut self, ended_ns: u64) -> ConversationRecording {
        for index in 0..self.live.len() as u32 {
            self.note_thought(index, ended_ns);
            let is_counted = self.is_counted(index);
            let Some(live) = self.live[index as usize].take() else {
                continue;
            };
            self.count_dropped(&live);
            self.recording.open += u64::from(is_counted);
            self.recording.begun += u64::from(is_counted);
            let was_live = (live.since_ns, ended_ns);
            add_time(&mut self.recording.live_ns, self.times, was_live);
        }
        std::mem::take(&mut self.recording)
    }
}

/// A user has no conversation since then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UserIsFree {
    since_ns: u64,
}

/// Adds the time from one moment to another to the seconds of the window.
fn add_time(seconds: &mut Vec<u64>, times: RunTimes, (from_ns, to_ns): (u64, u64)) {
    let mut from_ns = from_ns.max(times.measure_ns) - times.measure_ns;
    let to_ns = to_ns.min(times.end_ns).saturating_sub(times.measure_ns);
    while from_ns < to_ns {
        let second = (from_ns / SECOND_NS) as usize;
        let (second, end_ns) = if second < SECONDS_MAX {
            (second, to_ns.min((from_ns / SECOND_NS + 1) * SECOND_NS))
        } else {
            (SECONDS_MAX, to_ns)
        };
        if seconds.len() <= second {
            seconds.resize(second + 1, 0);
        }
        seconds[second] += end_ns - from_ns;
        from_ns = end_ns;
    }
}

impl<S: Session> RequestSender<S> {
    /// Users come at the start of a run, as many as there may be requests in flight.
    pub(super) fn add_users(&mut self, users: u64) {
        let Some(conversations) = &mut self.conversations else {
            return;
        };
        let in_window = conversations.times.start_ns >= conversations.times.measure_ns;
        let limit = conversations.users.as_mut().filter(|_| in_window);
        let users = limit.map_or(users, |left| {
            let users = users.min(*left);
            *left -= users;
            users
        });
        for _ in 0..users {
            if let Some(chosen) = self.writer.choose(0) {
                conversations.add_user(chosen);
            }
        }
    }

    /// Conversations are going on at the start of a run as if they had begun at this rate long
    /// before, if they may. Otherwise, it would take as long as a conversation until there are as
    /// many as later. `lanes` are the number of this worker, and that of all.
    pub(super) fn add_earlier(&mut self, per_sec: f64, lanes: (u32, u32)) {
        let Some(conversations) = &mut self.conversations else {
            return;
        };
        let longest_ns = conversations.longest_thinking_ns() as f64;
        let (lane, all) = lanes;
        let gap_ns = SECOND_NS as f64 / per_sec;
        let first_ns = (f64::from(lane) + 0.5) * gap_ns;
        let mut added = 0;
        for number in 0..EARLIER_TRIES_MAX {
            let ago_ns = first_ns + f64::from(number) * f64::from(all.max(1)) * gap_ns;
            if ago_ns >= longest_ns || added >= EARLIER_MAX {
                return;
            }
            let Some(chosen) = self.writer.choose(0) else {
                return;
            };
            added += u32::from(conversations.add_earlier(chosen, ago_ns as u64));
        }
    }

    /// The next turn that is due, if it was due before the next conversation of the schedule.
    #[inline]
    pub(super) fn take_due_turn(&mut self, now_ns: u64) -> Option<DueTurn> {
        let conversations = self.conversations.as_mut()?;
        let share = self.share.as_ref();
        let scheduled_ns = share.map_or(u64::MAX, |share| share.next_due_ns());
        conversations.take_due(now_ns.min(scheduled_ns))
    }

    /// The schedule begins a conversation, whose first turn is due.
    pub(super) fn begin_conversation(&mut self, due_ns: u64) -> Option<DueTurn> {
        let conversations = self.conversations.as_mut()?;
        let chosen = self.writer.choose(0)?;
        conversations.begin(chosen, 0, (due_ns, due_ns))
    }

    /// Writes the request of a turn.
    pub(super) fn turn_text(
        &mut self,
        turn: DueTurn,
        text: &mut Vec<u8>,
        now_ns: u64,
    ) -> Option<RequestLabel> {
        let conversations = self.conversations.as_ref()?;
        let live = conversations.live[turn.live as usize].as_ref()?;
        let said = (&live.dialogue, live.name.as_slice());
        self.writer.turn_text(live.chosen, said, text, now_ns)
    }

    /// The response to a turn is complete.
    pub(super) fn turn_answered(&mut self, id: (u32, ExchangeId), answered: &AnsweredTurn<'_>) {
        let conversations = self.conversations.as_mut();
        let free = conversations.and_then(|it| it.answered(id, answered));
        self.go_on_with_user(free);
    }

    /// The request of a turn has failed.
    pub(super) fn turn_failed(&mut self, id: (u32, ExchangeId), at_ns: u64) {
        let conversations = self.conversations.as_mut();
        let free = conversations.and_then(|it| it.failed(id, at_ns));
        self.go_on_with_user(free);
    }

    /// A connection was closed: the turns that were in flight on it have failed.
    pub(super) fn turns_abandoned(&mut self, key: u32, at_ns: u64) {
        let Some(conversations) = &mut self.conversations else {
            return;
        };
        let of_key = |(of, _): &&(u32, u32)| *of == key;
        let abandoned: Vec<u32> = conversations
            .in_flight
            .keys()
            .filter(of_key)
            .map(|(_, exchange)| *exchange)
            .collect();
        for exchange in abandoned {
            self.turn_failed((key, ExchangeId(exchange)), at_ns);
        }
    }

    /// A user begins the next conversation after the time to think.
    fn go_on_with_user(&mut self, free: Option<UserIsFree>) {
        let Some((UserIsFree { since_ns }, conversations)) = free.zip(self.conversations.as_mut())
        else {
            return;
        };
        let in_window = since_ns >= conversations.times.measure_ns;
        if let Some(left) = conversations.users.as_mut().filter(|_| in_window) {
            if *left == 0 {
                return;
            }
            *left -= 1;
        }
        let Some(chosen) = self.writer.choose(0) else {
            return;
        };
        let first = conversations
            .conversation(&chosen)
            .and_then(|it| it.turns.first());
        let think_ns = first.map_or(0, |turn| turn.think_ns);
        let due_ns = since_ns.saturating_add(think_ns);
        let turn = conversations.begin(chosen, 0, (since_ns, due_ns));
        conversations.wait_for(turn);
    }
}
