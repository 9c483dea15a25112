//! The tokens of language models.

use std::time::Duration;

use plan::readable::{count, counted, decimal, time_ns};
use presentation::tables::{self, columns, toned_if};
use presentation::{Block, Mark, Marks, TableBlock, TextBlock, Tone, Unit, color};

use crate::cells::{DISTRIBUTION, distribution};
use crate::parts::charts::{self, POINTS_MAX};
use crate::{FirstError, Histogram, LlmRecording, Recording, RunResult};

/// Times of tokens, and how many a response has; without rows if tokens are not counted.
pub(in crate::parts) fn times(recording: &Recording, _: Duration) -> TableBlock {
    let rows = recording.parts.llm.iter().flat_map(|llm| {
        let shown = |samples: &Histogram| !samples.is_empty();
        let (text, input) = (&llm.first_text, &llm.input_per_response);
        [
            Some(distribution(
                "First token",
                &llm.first_token_with_bounds(),
                true,
            )),
            // Without reasoning and tool calls it is the same.
            (shown(text) && *text != llm.first_token)
                .then(|| distribution("First text", text, true)),
            Some(distribution("Token gap", &llm.token_gap, true)),
            Some(distribution("Time per token", &llm.time_per_token, true)),
            Some(distribution(
                "Output tokens",
                &llm.output_per_response,
                false,
            )),
            shown(input).then(|| distribution("Input tokens", input, false)),
        ]
    });
    let rows = rows.flatten();
    TableBlock::new("Times of tokens", columns(&["Tokens"], &DISTRIBUTION), rows)
}

/// Numbers of tokens and responses.
pub(in crate::parts) fn numbers(recording: &Recording, duration: Duration) -> TableBlock {
    let rows = recording.parts.llm.iter().map(|llm| {
        let per_sec = |tokens: u64| tables::rate(tokens as f64 / duration.as_secs_f64());
        let warned = |number: u64| toned_if(number > 0, Tone::Warning, tables::count(number));
        vec![
            tables::count(llm.arrived_tokens()),
            per_sec(llm.arrived_tokens()),
            tables::count(llm.input_tokens),
            per_sec(llm.input_tokens),
            tables::count(llm.responses),
            tables::text(counted_by(llm)),
            tables::text(finish(llm)),
            warned(llm.without_tokens),
            warned(llm.errors),
        ]
    });
    let heads = [
        "Output tokens",
        "Output tokens/s",
        "Input tokens",
        "Input tokens/s",
        "Complete responses",
        "Counted by",
        "Finish reasons",
        "Without tokens",
        "Errors in the stream",
    ];
    TableBlock::new("Numbers of tokens", columns(&[], &heads), rows)
}

/// What the server said in the first response that was an error; without a row if there was none.
pub(in crate::parts) fn first_error(recording: &Recording, _: Duration) -> TableBlock {
    let llm = recording.parts.llm.iter();
    let errors = llm.filter_map(|llm| llm.first_error.as_ref());
    let rows = errors.map(|FirstError { status, words }| {
        let words = match words.as_str() {
            "" => "(an empty body)",
            words => words,
        };
        vec![
            tables::text(status.to_string()),
            tables::text(words.to_owned()),
        ]
    });
    let heads = ["Status", "The server's words"];
    TableBlock::new("First error", columns(&heads, &[]), rows)
}

/// A chart of the time to the first token over the time of the only run.
pub(in crate::parts) fn first_token_over_time(result: &RunResult) -> Vec<Block> {
    let llm = result.recording.parts.llm.as_ref();
    let Some(intervals) = llm.map(|llm| &llm.first_token_over_time) else {
        return Vec::new();
    };
    let joined = intervals.rows().len().div_ceil(POINTS_MAX).max(1);
    let step_s = intervals.interval_ms() as f64 * joined as f64 / 1e3;
    let steps = intervals.rows().chunks(joined).map(|rows| {
        let mut samples = Histogram::new();
        for row in rows {
            samples.merge(&row.histogram());
        }
        let us = |ns: u64| ns as f64 / 1e3;
        let p50 = (!samples.is_empty()).then(|| us(samples.value_at_percentile(50.0)));
        (p50, samples.max_ns().map(us))
    });
    let (p50, slowest): (Vec<_>, Vec<_>) = steps.unzip();
    if p50.iter().flatten().count() < 2 {
        return Vec::new();
    }
    let x: Vec<f64> = (0..p50.len())
        .map(|at| (at as f64 + 0.5) * step_s)
        .collect();
    let line = |name: &str, y, color| Marks {
        x: x.clone(),
        y,
        ..Marks::new(name, Mark::Line, color)
    };
    let marks = vec![
        Marks {
            is_faint: true,
            ..line("Slowest", slowest, color::MAX)
        },
        line("p50", p50, color::LATENCY),
    ];
    let description = format!(
        "Time to the first token in steps of {} s.",
        decimal(step_s, 0)
    );
    let names = ("first-token-over-time", "First token over time");
    let chart = charts::over_time(names, description, Unit::Microseconds, marks);
    chart.into_iter().collect()
}

/// Its table and totals below the text of a run.
pub(super) fn text_of_run(result: &RunResult) -> Vec<TextBlock> {
    let Some(llm) = &result.recording.parts.llm else {
        return Vec::new();
    };
    let mut text = vec![
        TextBlock::Line(String::new()),
        TextBlock::Table(times(&result.recording, Duration::ZERO)),
    ];
    let more = [asked(result), pauses(&result.recording)];
    let totals = totals(llm).into_iter().chain(more.into_iter().flatten());
    text.extend(totals.map(|line| TextBlock::Line(format!("  {line}"))));
    let per_sec = |tokens: u64| decimal(result.per_sec(tokens), 2);
    let mut rate = format!("Tokens/sec:   {} output", per_sec(llm.arrived_tokens()));
    if llm.input_tokens > 0 {
        rate += &format!(", {} input", per_sec(llm.input_tokens));
    }
    text.push(TextBlock::Line(rate));
    text
}

/// `50 complete responses, tokens counted by the server` and, if there are any, `finish: ...`.
fn totals(llm: &LlmRecording) -> Vec<String> {
    let mut text = counted(llm.responses, "complete response");
    if llm.responses > llm.without_tokens {
        text += &format!(", tokens counted by {}", counted_by(llm));
    }
    for (number, what) in [
        (llm.without_tokens, "without tokens"),
        (llm.errors, "more with an error in the stream"),
        (llm.waiting.count(), "still waiting for the first token"),
    ] {
        if number > 0 {
            text += &format!(", {} {what}", count(number));
        }
    }
    let mut lines = vec![text];
    let mut facts = Vec::new();
    if llm.responses > llm.finish.none {
        facts.push(format!("finish reasons: {}", finish(llm)));
    }
    for (number, what) in [
        (llm.cached_tokens, "cached input tokens"),
        (llm.reasoning_tokens, "reasoning tokens"),
    ] {
        if number > 0 {
            facts.push(format!("{} {what}", count(number)));
        }
    }
    if !facts.is_empty() {
        lines.push(facts.join("; "));
    }
    lines
}

/// `input tokens: 512 asked, 498 to 521 counted by the server`; `None` if no number was asked.
fn asked(result: &RunResult) -> Option<String> {
    let asked = result.plan.request.file.as_ref()?.asked.as_ref()?;
    let asked = asked.prompt_tokens.as_ref()?;
    let counted = &result.recording.parts.llm.as_ref()?.input_per_response;
    let found = match (counted.min_ns(), counted.max_ns()) {
        (Some(min), Some(max)) if min == max => count(min),
        (Some(min), Some(max)) => format!("{} to {}", count(min), count(max)),
        _ => {
            return Some(format!(
                "input tokens: {asked} asked, none counted by the server"
            ));
        }
    };
    Some(format!(
        "input tokens: {asked} asked, {found} counted by the server"
    ))
}

/// `12 responses asked to wait (429), 3.1 s on average`; `None` if none did.
fn pauses(recording: &Recording) -> Option<String> {
    let pauses = &recording.parts.llm.as_ref()?.pauses;
    if pauses.is_empty() {
        return None;
    }
    let statuses = [429, 503].into_iter();
    let statuses = statuses.filter(|status| recording.statuses.count(*status) > 0);
    let statuses: Vec<String> = statuses.map(|status| status.to_string()).collect();
    let by_status = match statuses.as_slice() {
        [] => String::new(),
        statuses => format!(" ({})", statuses.join(", ")),
    };
    Some(format!(
        "{} asked to wait{by_status}, {} on average",
        counted(pauses.count(), "response"),
        time_ns(pauses.mean_ns().round() as u64)
    ))
}

/// What the tokens of a response are counted by. An event may have several tokens.
fn counted_by(llm: &LlmRecording) -> String {
    match (llm.counted_as_events, llm.responses) {
        (_, 0) => "nobody".to_owned(),
        (0, _) => "the server".to_owned(),
        (events, all) if events == all - llm.without_tokens => "events".to_owned(),
        (events, _) => format!("the server, in {} by events", counted(events, "response")),
    }
}

/// `stop 48, length 2`
fn finish(llm: &LlmRecording) -> String {
    let reasons = llm.finish.all();
    let given = reasons.iter().filter(|(_, number)| *number > 0);
    let texts: Vec<String> = given
        .map(|(name, number)| format!("{name} {}", count(*number)))
        .collect();
    texts.join(", ")
}
