//! The conversations of a run in texts and on pages.

use std::time::Duration;

use plan::readable::{count, counted, decimal};
use presentation::tables::{self, columns, known};
use presentation::{Block, Mark, Marks, TableBlock, TextBlock, Unit, color};

use crate::cells::{DISTRIBUTION, distribution, mean, percentile};
use crate::parts::charts::{self, POINTS_MAX};
use crate::parts::{PartSection, PartTable, SectionPosition};
use crate::{Recording, RunResult};

use super::{ConversationRecording, TURN_GROUPS};

pub(super) const SECTION: PartSection = PartSection {
    details: users_over_time,
    ..PartSection::of_tables(
        ("conversations", "Conversations"),
        "Each request of a conversation repeats what was said before. Times count from when a turn \
         was due: at the end of the answer before it, and the time to think.",
        SectionPosition::Names,
        &[
            PartTable::OfGroups(by_turn),
            PartTable::OfGroups(times),
            PartTable::OfGroups(numbers),
        ],
    )
};

/// A chart of the users of the only run, and of those of them who think.
fn users_over_time(result: &RunResult) -> Vec<Block> {
    let recording = result.recording.parts.conversations.as_ref();
    let window_s = result.window.duration_ns as f64 / 1e9;
    let marks = recording.map(|recording| users_marks(recording, window_s));
    let description = "Users with a conversation, and those of them who think.".to_owned();
    let names = ("users-over-time", "Users over time");
    let marks = marks.unwrap_or_default();
    let chart = charts::over_time(names, description, Unit::Number, marks);
    chart.into_iter().collect()
}

/// A line for all users and one for those who think, if there are two points.
pub(super) fn users_marks(recording: &ConversationRecording, window_s: f64) -> Vec<Marks> {
    let seconds = recording.live_ns.len();
    let joined = seconds.div_ceil(POINTS_MAX).max(1);
    let line = |name: &str, times_ns: &[u64], color| {
        let mut marks = Marks::new(name, Mark::Line, color);
        for first in (0..seconds).step_by(joined) {
            let end_s = ((first + joined) as f64).min(window_s);
            let length_s = end_s - first as f64;
            if length_s <= 0.0 {
                break;
            }
            let sum_ns: u64 = times_ns.iter().skip(first).take(joined).sum();
            marks.x.push(first as f64 + length_s / 2.0);
            marks.y.push(Some(sum_ns as f64 / 1e9 / length_s));
        }
        marks
    };
    let live = line("Users", &recording.live_ns, color::RATE);
    if live.x.len() < 2 {
        return Vec::new();
    }
    vec![live, line("Thinking", &recording.thinking_ns, color::MAX)]
}

/// A row for each group of turns.
fn by_turn(recording: &Recording, _: Duration) -> TableBlock {
    let numbers = [
        "Answers",
        "First token p50",
        "p90",
        "p99",
        "Time per token",
        "Input tokens",
        "Cached",
    ];
    let turns = recording.parts.conversations.iter().flat_map(|it| {
        let named = TURN_GROUPS.iter().zip(&it.by_turn);
        named.filter(|(_, turn)| turn.answers > 0)
    });
    let rows = turns.map(|(name, turn)| {
        let percent = |share: f64| format!("{} %", decimal(share * 100.0, 1));
        vec![
            tables::text(*name),
            tables::count(turn.answers),
            percentile(&turn.first_token, 50.0),
            percentile(&turn.first_token, 90.0),
            percentile(&turn.first_token, 99.0),
            mean(&turn.time_per_token),
            known(turn.input_mean(), |tokens| decimal(tokens, 1)),
            known(turn.cached_share(), percent),
        ]
    });
    TableBlock::new("Answers by turn", columns(&["Turn"], &numbers), rows)
}

fn times(recording: &Recording, _: Duration) -> TableBlock {
    let of_conversations = recording.parts.conversations.iter();
    let ended = of_conversations.filter(|it| !it.turns.is_empty());
    let rows = ended.flat_map(|it| {
        let duration = distribution("Duration", &it.duration, true);
        let whole = (!it.duration.is_empty()).then_some(duration);
        whole
            .into_iter()
            .chain([distribution("Turns", &it.turns, false)])
    });
    let columns = columns(&["Conversations"], &DISTRIBUTION);
    TableBlock::new("Conversations that have ended", columns, rows)
}

fn numbers(recording: &Recording, duration: Duration) -> TableBlock {
    let heads = [
        "Begun",
        "Done",
        "Ended by the context",
        "Ended by the limit of memory",
        "Failed",
        "Turns not sent",
        "Turns left out",
        "Open at the end",
        "Users",
        "Of them thinking",
    ];
    let rows = recording.parts.conversations.iter().map(|it| {
        let users = it.users_mean(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        let number = |users: f64| decimal(users, 1);
        vec![
            tables::count(it.begun),
            tables::count(it.done),
            tables::count(it.context),
            tables::count(it.memory),
            tables::count(it.failed),
            tables::count(it.turns_lost),
            tables::count(it.turns_dropped),
            tables::count(it.open),
            known(users.map(|it| it.0), number),
            known(users.map(|it| it.1), number),
        ]
    });
    TableBlock::new("Numbers of conversations", columns(&[], &heads), rows)
}

/// Its tables and totals below the text of a run.
pub(super) fn text_of_run(result: &RunResult) -> Vec<TextBlock> {
    let Some(recording) = &result.recording.parts.conversations else {
        return Vec::new();
    };
    let mut text = Vec::new();
    let tables = [by_turn, times].map(|table| table(&result.recording, Duration::ZERO));
    for table in tables.into_iter().filter(|table| !table.rows.is_empty()) {
        text.push(TextBlock::Line(String::new()));
        text.push(TextBlock::Table(table));
    }
    let lines = totals(recording, result).into_iter();
    text.extend(lines.map(|line| TextBlock::Line(format!("  {line}"))));
    text
}

/// `31 conversations began, 28 done, 3 open; 7.9 users on average, 5.6 of them thinking`
fn totals(recording: &ConversationRecording, result: &RunResult) -> Vec<String> {
    let mut began = format!("{} began", counted(recording.begun, "conversation"));
    for (number, what) in [
        (recording.done, "done"),
        (recording.context, "ended by the context"),
        (recording.memory, "ended by the limit of memory"),
        (recording.failed, "failed"),
        (recording.open, "open"),
    ] {
        if number > 0 {
            began += &format!(", {} {what}", count(number));
        }
    }
    if recording.turns_lost > 0 {
        let lost = counted(recording.turns_lost, "turn");
        began += &format!(" ({lost} not sent)");
    }
    let mut lines = vec![began];
    if recording.turns_dropped > 0 {
        let dropped = counted(recording.turns_dropped, "old turn");
        lines.push(format!(
            "{dropped} left out of later requests (--drop-oldest)"
        ));
    }
    let users = recording.users_mean(result.window.duration_ns);
    if let Some((live, thinking)) = users.filter(|it| it.0 > 0.0) {
        let (live, thinking) = (decimal(live, 1), decimal(thinking, 1));
        lines.push(format!(
            "{live} users on average, {thinking} of them thinking"
        ));
    }
    if result.recording.parts.good.is_some() && recording.ended() > 0 {
        let (good, ended) = (count(recording.good), count(recording.ended()));
        lines.push(format!(
            "good conversations: {good} of {ended} that have ended"
        ));
    }
    lines
}
