//! What is counted and timed for conversations with a language model.

mod metrics;
mod view;

use serde::{Deserialize, Serialize};

use super::{Measurement, PartView};
use crate::counters::is_zero;
use crate::{Contradiction, Histogram, RunResult};

/// The names of the groups of turns, by their number in the conversation.
pub const TURN_GROUPS: [&str; 5] = ["1", "2", "3-4", "5-8", "9+"];

/// The group of a turn, an index into [`TURN_GROUPS`]. `turn` is counted from 0.
#[must_use]
pub const fn turn_group(turn: usize) -> usize {
    match turn {
        0 => 0,
        1 => 1,
        2..4 => 2,
        4..8 => 3,
        _ => 4,
    }
}

/// The conversations of a run. A turn belongs to the window if it was due in it, and a conversation
/// if its first turn of the run did.
///
/// Whether a conversation was good follows from its requests ([`crate::GoodRecording`]): all of
/// them must be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ConversationRecording {
    /// Conversations whose first turn was due in the window. Each of them is in `done`, `context`,
    /// `memory`, `failed` or `open`.
    pub begun: u64,
    /// Those of `begun` whose last turn was answered.
    pub done: u64,
    /// Those of `begun` that ended because the next turn would not have fit into the context.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub context: u64,
    /// Those of `begun` that ended because the histories of all together would have taken more
    /// memory than they may.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub memory: u64,
    /// Those of `begun` that ended because a request failed.
    pub failed: u64,
    /// Those of `begun` that were going on at the end.
    pub open: u64,
    /// Those of `done` and `context` whose requests were all good; 0 if requests are not judged.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub good: u64,
    /// Turns that were not sent because their conversation had failed, of those of `begun`.
    pub turns_lost: u64,
    /// Turns that later requests of `begun` did not repeat, because they would not have fit into
    /// the context.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turns_dropped: u64,
    /// From when the first turn was due until the last answer, nanoseconds: one sample for each of
    /// `done` that began with its first turn.
    pub duration: Histogram,
    /// Answers of each conversation of `done` and `context`, as a number.
    pub turns: Histogram,
    /// What is counted for each of [`TURN_GROUPS`], in their order.
    pub by_turn: Vec<TurnRecording>,
    /// For each second of the window: for how long conversations were going on in it, nanoseconds,
    /// all together. Divided by 10^9, it is the mean number of users.
    pub live_ns: Vec<u64>,
    /// For each second of the window: for how long of this time they waited for their next turn.
    pub thinking_ns: Vec<u64>,
}

/// The answers to turns of one group whose requests were due in the window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TurnRecording {
    /// Complete answers.
    pub answers: u64,
    /// From when the turn was due until the first event with tokens, nanoseconds.
    pub first_token: Histogram,
    /// As [`crate::LlmRecording::time_per_token`].
    pub time_per_token: Histogram,
    /// Tokens of prompts, as servers have counted them.
    pub input_tokens: u64,
    /// Those of `input_tokens` that came from a cache.
    pub cached_tokens: u64,
    /// Answers whose server has counted the tokens of the prompt.
    pub counted: u64,
}

impl TurnRecording {
    /// Adds one answer. Times are 0 if they are not known, and so is the number of input tokens.
    pub fn add(&mut self, times_ns: (u64, u64), (input, cached): (u32, u32)) {
        let (first_token_ns, per_token_ns) = times_ns;
        self.answers += 1;
        if first_token_ns > 0 {
            self.first_token.record(first_token_ns);
        }
        if per_token_ns > 0 {
            self.time_per_token.record(per_token_ns);
        }
        self.input_tokens += u64::from(input);
        self.cached_tokens += u64::from(cached.min(input));
        self.counted += u64::from(input > 0);
    }

    fn merge(&mut self, other: &Self) {
        let Self {
            answers,
            first_token,
            time_per_token,
            input_tokens,
            cached_tokens,
            counted,
        } = other;
        self.first_token.merge(first_token);
        self.time_per_token.merge(time_per_token);
        add(&mut self.answers, *answers);
        add(&mut self.input_tokens, *input_tokens);
        add(&mut self.cached_tokens, *cached_tokens);
        add(&mut self.counted, *counted);
    }

    /// Tokens of the prompt per answer; `None` if no server has counted them.
    #[must_use]
    pub fn input_mean(&self) -> Option<f64> {
        (self.counted > 0).then(|| self.input_tokens as f64 / self.counted as f64)
    }

    /// The share of input tokens that came from a cache.
    #[must_use]
    pub fn cached_share(&self) -> Option<f64> {
        (self.input_tokens > 0).then(|| self.cached_tokens as f64 / self.input_tokens as f64)
    }
}

fn add(mine: &mut u64, theirs: u64) {
    *mine = mine.saturating_add(theirs);
}

impl ConversationRecording {
    /// Nothing, with a place for each group of turns.
    #[must_use]
    pub fn new() -> Self {
        Self {
            by_turn: vec![TurnRecording::default(); TURN_GROUPS.len()],
            ..Self::default()
        }
    }

    /// Conversations that have ended by themselves or by failing.
    #[must_use]
    pub fn ended(&self) -> u64 {
        let ended = [self.context, self.memory, self.failed];
        ended.into_iter().fold(self.done, u64::saturating_add)
    }

    /// Only the numbers of conversations.
    #[must_use]
    pub fn counts(&self) -> Self {
        Self {
            begun: self.begun,
            done: self.done,
            context: self.context,
            memory: self.memory,
            failed: self.failed,
            good: self.good,
            turns_lost: self.turns_lost,
            turns_dropped: self.turns_dropped,
            ..Self::default()
        }
    }

    /// The group of turns with this index, if anything was recorded.
    #[must_use]
    pub fn turn(&self, group: usize) -> Option<&TurnRecording> {
        self.by_turn.get(group)
    }

    /// The mean number of conversations that were going on, and of those that were waiting for
    /// their next turn.
    #[must_use]
    pub fn users_mean(&self, window_ns: u64) -> Option<(f64, f64)> {
        let sum = |times: &[u64]| times.iter().map(|ns| *ns as f64).sum::<f64>();
        let window_ns = window_ns as f64;
        (window_ns > 0.0).then(|| {
            let live = sum(&self.live_ns) / window_ns;
            (live, sum(&self.thinking_ns) / window_ns)
        })
    }
}

impl Measurement for ConversationRecording {
    fn merge(&mut self, other: &Self) {
        let Self {
            begun,
            done,
            context,
            memory,
            failed,
            open,
            good,
            turns_lost,
            turns_dropped,
            duration,
            turns,
            by_turn,
            live_ns,
            thinking_ns,
        } = other;
        for (mine, theirs) in [
            (&mut self.begun, begun),
            (&mut self.done, done),
            (&mut self.context, context),
            (&mut self.memory, memory),
            (&mut self.failed, failed),
            (&mut self.open, open),
            (&mut self.good, good),
            (&mut self.turns_lost, turns_lost),
            (&mut self.turns_dropped, turns_dropped),
        ] {
            add(mine, *theirs);
        }
        self.duration.merge(duration);
        self.turns.merge(turns);
        let groups = self.by_turn.len().max(by_turn.len());
        self.by_turn.resize(groups, TurnRecording::default());
        for (mine, theirs) in self.by_turn.iter_mut().zip(by_turn) {
            mine.merge(theirs);
        }
        for (mine, theirs) in [
            (&mut self.live_ns, live_ns),
            (&mut self.thinking_ns, thinking_ns),
        ] {
            let seconds = mine.len().max(theirs.len());
            mine.resize(seconds, 0);
            mine.iter_mut()
                .zip(theirs)
                .for_each(|(mine, theirs)| add(mine, *theirs));
        }
    }

    fn histograms_mut(&mut self) -> Vec<&mut Histogram> {
        let of_turns = self
            .by_turn
            .iter_mut()
            .flat_map(|turn| [&mut turn.first_token, &mut turn.time_per_token]);
        [&mut self.duration, &mut self.turns]
            .into_iter()
            .chain(of_turns)
            .collect()
    }

    fn so_far(&self) -> Option<Self> {
        Some(self.counts())
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            begun: self.begun.saturating_sub(earlier.begun),
            done: self.done.saturating_sub(earlier.done),
            context: self.context.saturating_sub(earlier.context),
            memory: self.memory.saturating_sub(earlier.memory),
            failed: self.failed.saturating_sub(earlier.failed),
            good: self.good.saturating_sub(earlier.good),
            turns_lost: self.turns_lost.saturating_sub(earlier.turns_lost),
            turns_dropped: self.turns_dropped.saturating_sub(earlier.turns_dropped),
            ..Self::default()
        }
    }
}

pub(super) static VIEW: PartView = PartView {
    metrics: &metrics::METRICS,
    times: &metrics::TIMES,
    exported: metrics::exported,
    check,
    text: view::text_of_run,
    section: Some(view::SECTION),
    ..PartView::NONE
};

/// Checks that each conversation of the window is counted once, and that no more turns were
/// answered than requests.
fn check(result: &RunResult) -> Result<(), Contradiction> {
    let Some(recording) = &result.recording.parts.conversations else {
        return Ok(());
    };
    let found = recording.ended().saturating_add(recording.open);
    if found != recording.begun {
        return Err(Contradiction(format!(
            "conversations: {} have begun, but {found} have ended or are open",
            recording.begun
        )));
    }
    let ended = recording.done.saturating_add(recording.context);
    for (name, part, whole) in [
        ("good", recording.good, ended),
        ("samples of turns", recording.turns.count(), ended),
        (
            "samples of duration",
            recording.duration.count(),
            recording.done,
        ),
        (
            "answers",
            recording.by_turn.iter().map(|turn| turn.answers).sum(),
            result.recording.counters.answered,
        ),
    ] {
        if part > whole {
            return Err(Contradiction(format!(
                "conversations: {name} is {part}, more than {whole}"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_grouped_by_their_number() {
        let groups: Vec<usize> = (0..10).map(turn_group).collect();
        assert_eq!(groups, [0, 1, 2, 2, 3, 3, 3, 3, 4, 4]);
    }

    #[test]
    fn the_chart_of_users_has_a_point_for_each_second_also_for_half_a_second_at_the_end() {
        let recording = ConversationRecording {
            live_ns: vec![3_000_000_000, 3_000_000_000, 1_500_000_000],
            thinking_ns: vec![1_000_000_000, 2_000_000_000],
            ..ConversationRecording::new()
        };
        let marks = view::users_marks(&recording, 2.5);
        let lines: Vec<_> = marks.iter().map(|it| (&it.x, &it.y)).collect();
        let x = vec![0.5, 1.5, 2.25];
        let some = |values: [f64; 3]| values.map(Some).to_vec();
        let (live, thinking) = (some([3.0, 3.0, 3.0]), some([1.0, 2.0, 0.0]));
        assert_eq!(lines, [(&x, &live), (&x, &thinking)]);
    }

    #[test]
    fn recordings_of_workers_add_up_second_by_second() {
        let one = |live_ns: &[u64]| ConversationRecording {
            begun: 2,
            done: 1,
            open: 1,
            live_ns: live_ns.to_vec(),
            ..ConversationRecording::new()
        };
        let mut both = one(&[5, 6]);
        both.merge(&one(&[1, 2, 3]));
        assert_eq!((both.begun, both.ended()), (4, 2));
        assert_eq!(both.live_ns, [6, 8, 3]);
        let mut empty = ConversationRecording::default();
        empty.merge(&one(&[1]));
        assert_eq!(empty, one(&[1]));
        let users = both.users_mean(17);
        assert_eq!(users, Some((1.0, 0.0)));
    }
}
