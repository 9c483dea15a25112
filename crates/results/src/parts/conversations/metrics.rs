//! The metrics of conversations.

use crate::exported::{self, ExportedMetric, Instrument, Value};
use crate::metric::Better::{Higher, Lower, Neither};
use crate::metric::{Getter, MetricRow, Needs, TimeRow, Unit, measured, row};
use crate::{Histogram, Recording, RunResult};

use super::{ConversationRecording, TurnRecording};

const TOPIC: &str = "conversations (wrkbench llm --conversations)";

/// Conversations take minutes.
const fn needs(missing: fn(&RunResult) -> &'static str) -> Needs {
    Needs {
        is_of_long_responses: true,
        ..Needs::new(TOPIC, missing)
    }
}

fn unless_off(run: &RunResult, otherwise: &'static str) -> &'static str {
    match run.recording.parts.conversations {
        None => "there were no conversations (wrkbench llm --conversations)",
        Some(_) => otherwise,
    }
}

const CONVERSATIONS: Needs =
    needs(|run| unless_off(run, "no conversation began within the window"));
const ENDED: Needs = needs(|run| unless_off(run, "no conversation of the window has ended"));
const TURNS: Needs = needs(|run| unless_off(run, "no such turn was answered"));

fn part(recording: &Recording) -> Option<&ConversationRecording> {
    recording.parts.conversations.as_ref()
}

#[rustfmt::skip]
pub(super) static METRICS: [MetricRow; 5] = [
    row("conversations", &[], "conversations", (Unit::Count, Higher, CONVERSATIONS),
        Getter::Count(|run| Some(part(run.recording)?.begun))),
    row("conversation_goodput", &[], "good conversations", (Unit::Percent, Higher, ENDED),
        Getter::Share(|run| run.recording.parts.good.and_then(|_| Some(part(run.recording)?.good)),
                      |run| part(run.recording).map_or(0, ConversationRecording::ended))),
    row("conversations_failed", &[], "failed conversations", (Unit::Count, Lower, CONVERSATIONS),
        Getter::Part(|run| Some(part(run.recording)?.failed),
                     |run| part(run.recording).map_or(0, |it| it.begun))),
    row("live_users", &[], "users", (Unit::Count, Neither, CONVERSATIONS),
        Getter::Number(|run| Some(part(run.recording)?.users_mean(run.duration_ns)?.0))).at_end(),
    row("thinking_users", &[], "thinking users", (Unit::Count, Neither, CONVERSATIONS),
        Getter::Number(|run| Some(part(run.recording)?.users_mean(run.duration_ns)?.1))).at_end(),
];

fn turn(
    recording: &Recording,
    group: usize,
    of: fn(&TurnRecording) -> &Histogram,
) -> Option<crate::Samples<'_>> {
    measured(of(part(recording)?.turn(group)?))
}

/// The first token and the time per token of a group of turns.
macro_rules! of_turns {
    ($($name:literal: $group:literal,)*) => {
        [
            $(TimeRow { name: concat!($name, ".first_token"), needs: TURNS,
                samples: |it| turn(it, $group, |turn| &turn.first_token) },
            TimeRow { name: concat!($name, ".time_per_token"), needs: TURNS,
                samples: |it| turn(it, $group, |turn| &turn.time_per_token) },)*
            TimeRow { name: "conversation", needs: ENDED,
                samples: |it| measured(&part(it)?.duration) },
        ]
    };
}

pub(super) static TIMES: [TimeRow; 11] = of_turns! {
    "turn1": 0,
    "turn2": 1,
    "turn3_4": 2,
    "turn5_8": 3,
    "turn9": 4,
};

#[rustfmt::skip]
pub(super) fn exported() -> Vec<ExportedMetric> {
    vec![ExportedMetric { attribute: Some("wrkbench.outcome"), ..exported::metric(
        "wrkbench.conversations", (Instrument::Counter, Unit::Count, "conversation"),
        "Conversations of the window that have ended",
        |it| {
            let ended = it.snapshot.parts.conversations.as_ref()?;
            let (done, context, failed) = (ended.done, ended.context, ended.failed);
            let parts = [("done", done), ("context", context), ("failed", failed)];
            Some(Value::Parts(parts.map(|(name, n)| (name.to_owned(), n)).into()))
        }) }]
}
