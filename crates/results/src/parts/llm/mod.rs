//! What is counted and timed for the tokens of language models.

mod metrics;
pub(super) mod view;

use serde::{Deserialize, Serialize};

use super::{Measurement, PartView};
use crate::counters::is_zero;
use crate::{Contradiction, EventRecording, Histogram, Intervals, RunResult, server_words};

/// The tokens in the streams of a language model, which are the responses with a status of 2xx.
/// Only requests of the window count, except where a field says otherwise.
///
/// An event with generated text of any channel (text, reasoning, a tool call) has tokens. How many
/// a response has, its server says (`usage`); if it does not, each such event is one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LlmRecording {
    /// Until the first event with tokens of a response arrived, nanoseconds: with a rate from when
    /// the request was due, otherwise from when it was sent. One sample per response with tokens.
    pub first_token: Histogram,
    /// `first_token` over time: each sample in the interval in which the token arrived. Empty in
    /// documents of earlier versions.
    #[serde(default, skip_serializing_if = "Intervals::is_empty")]
    pub first_token_over_time: Intervals,
    /// Age of requests that ended in a timeout before their first token, nanoseconds, and with a
    /// rate of those that were unsent or in flight without a token at the end of the window: lower
    /// bounds of `first_token`.
    pub waiting: Histogram,
    /// As `first_token`, for the first event with visible text. One sample per response with text.
    pub first_text: Histogram,
    /// Between an event with tokens and the next one of the same response, nanoseconds. 0 if both
    /// arrived in one read. All that ended within the window, also those of requests of the
    /// warm-up.
    pub token_gap: Histogram,
    /// Mean time from one token to the next of each complete response with at least two of them,
    /// nanoseconds: (last - first) / (tokens - 1), with the times of the first and the last event
    /// with tokens.
    pub time_per_token: Histogram,
    /// Generated tokens of each complete response, as a number and not as a time.
    pub output_per_response: Histogram,
    /// Tokens of the prompt of each complete response whose server has counted them.
    pub input_per_response: Histogram,
    /// Complete responses without an error in the stream.
    pub responses: u64,
    /// Those of `responses` whose output tokens are events, since the server has not counted them.
    pub counted_as_events: u64,
    /// Those of `responses` without any token.
    pub without_tokens: u64,
    /// Why the responses ended.
    pub finish: FinishCounts,
    /// Responses with an error in the stream. Their requests have failed (`stream_error`).
    pub errors: u64,
    /// Events of complete responses that were not JSON.
    pub malformed_events: u64,
    /// Generated tokens that arrived within the window, of all responses that became complete: also
    /// of those to requests of the warm-up, and of those that were complete after the window. Of a
    /// response that arrived only in part within the window, that part of its events with tokens.
    pub output_tokens: u64,
    /// Tokens of prompts of responses that were complete within the window, also of those to
    /// requests of the warm-up.
    pub input_tokens: u64,
    /// Those of `input_tokens` that came from a cache.
    pub cached_tokens: u64,
    /// Those of `output_tokens` that are reasoning, as far as servers have counted them.
    pub reasoning_tokens: u64,
    /// Events with tokens that arrived within the window, of the same responses as `output_tokens`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub token_events: u64,
    /// Events with tokens that arrived within the window, of responses that never became complete:
    /// they were open at the end, failed, or had an error. Their server has not said how many
    /// tokens these are ([`LlmRecording::arrived_tokens`]).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub open_token_events: u64,
    /// How long users waited because a response with status 429 or 503 had asked them to,
    /// nanoseconds: one sample per such response that arrived within the window. With a rate there
    /// are none.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub pauses: Histogram,
    /// The first response with a status from 400 on, also in the warm-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<FirstError>,
}

/// What a server said in the first response that was an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FirstError {
    /// From 400 on.
    pub status: u16,
    /// The server's own words, shortened and without secrets; empty if the body was empty.
    pub words: String,
}

impl FirstError {
    /// From the beginning of the body.
    #[must_use]
    pub fn of(status: u16, body: &[u8]) -> Self {
        Self {
            status,
            words: server_words(body).unwrap_or_default(),
        }
    }
}

impl std::fmt::Display for FirstError {
    /// `status 401: "no key"`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { status, words } = self;
        match words.as_str() {
            "" => write!(f, "status {status} and an empty body"),
            words => write!(f, "status {status}: {words:?}"),
        }
    }
}

/// Why responses of a language model ended, as their servers say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FinishCounts {
    /// The model was done, or wrote a stop sequence.
    pub stop: u64,
    /// The limit of tokens was reached.
    pub length: u64,
    /// The model calls a tool.
    pub tool_calls: u64,
    /// A filter or the model refused.
    pub content_filter: u64,
    /// Another reason.
    pub other: u64,
    /// The server gave no reason.
    pub none: u64,
}

impl FinishCounts {
    /// Each reason with its count.
    #[must_use]
    pub fn all(&self) -> [(&'static str, u64); 6] {
        let Self {
            stop,
            length,
            tool_calls,
            content_filter,
            other,
            none,
        } = *self;
        [
            ("stop", stop),
            ("length", length),
            ("tool_calls", tool_calls),
            ("content_filter", content_filter),
            ("other", other),
            ("none", none),
        ]
    }

    fn merge(&mut self, more: &Self) {
        let Self {
            stop,
            length,
            tool_calls,
            content_filter,
            other,
            none,
        } = more;
        self.stop = self.stop.saturating_add(*stop);
        self.length = self.length.saturating_add(*length);
        self.tool_calls = self.tool_calls.saturating_add(*tool_calls);
        self.content_filter = self.content_filter.saturating_add(*content_filter);
        self.other = self.other.saturating_add(*other);
        self.none = self.none.saturating_add(*none);
    }
}

impl LlmRecording {
    /// Measured times to the first token and lower bounds together, as reports show them.
    #[must_use]
    pub fn first_token_with_bounds(&self) -> Histogram {
        let mut all = self.first_token.clone();
        all.merge(&self.waiting);
        all
    }

    /// Generated tokens that arrived within the window. An event of a response that never became
    /// complete counts as many tokens as one of the others does on average, or as one token if
    /// there are no others.
    #[must_use]
    pub fn arrived_tokens(&self) -> u64 {
        let [tokens, events, open] = [
            self.output_tokens,
            self.token_events,
            self.open_token_events,
        ]
        .map(u128::from);
        let of_open = match events {
            0 => open,
            events => (open * tokens + events / 2) / events,
        };
        u64::try_from(tokens + of_open).unwrap_or(u64::MAX)
    }

    /// As [`Self::arrived_tokens`], but an event of a response that is not complete counts as one
    /// token, so that the number only grows during a run.
    #[must_use]
    pub fn tokens_so_far(&self) -> u64 {
        self.output_tokens.saturating_add(self.open_token_events)
    }

    /// Generated tokens per complete response; `None` without one.
    #[must_use]
    pub fn output_per_response_mean(&self) -> Option<f64> {
        mean(&self.output_per_response)
    }

    /// Tokens of the prompt per complete response; `None` if no server has counted them.
    #[must_use]
    pub fn input_per_response_mean(&self) -> Option<f64> {
        mean(&self.input_per_response)
    }
}

fn mean(numbers: &Histogram) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.mean_ns())
}

impl Measurement for LlmRecording {
    fn merge(&mut self, other: &Self) {
        let Self {
            first_token,
            first_token_over_time,
            waiting,
            first_text,
            token_gap,
            time_per_token,
            output_per_response,
            input_per_response,
            responses,
            counted_as_events,
            without_tokens,
            finish,
            errors,
            malformed_events,
            output_tokens,
            input_tokens,
            cached_tokens,
            reasoning_tokens,
            token_events,
            open_token_events,
            pauses,
            first_error,
        } = other;
        self.first_token.merge(first_token);
        self.first_token_over_time.merge(first_token_over_time);
        self.waiting.merge(waiting);
        self.first_text.merge(first_text);
        self.token_gap.merge(token_gap);
        self.time_per_token.merge(time_per_token);
        self.output_per_response.merge(output_per_response);
        self.input_per_response.merge(input_per_response);
        self.pauses.merge(pauses);
        self.finish.merge(finish);
        if self.first_error.is_none() {
            self.first_error.clone_from(first_error);
        }
        for (mine, theirs) in [
            (&mut self.responses, responses),
            (&mut self.counted_as_events, counted_as_events),
            (&mut self.without_tokens, without_tokens),
            (&mut self.errors, errors),
            (&mut self.malformed_events, malformed_events),
            (&mut self.output_tokens, output_tokens),
            (&mut self.input_tokens, input_tokens),
            (&mut self.cached_tokens, cached_tokens),
            (&mut self.reasoning_tokens, reasoning_tokens),
            (&mut self.token_events, token_events),
            (&mut self.open_token_events, open_token_events),
        ] {
            *mine = mine.saturating_add(*theirs);
        }
    }

    fn histograms_mut(&mut self) -> Vec<&mut Histogram> {
        vec![
            &mut self.first_token,
            &mut self.waiting,
            &mut self.first_text,
            &mut self.token_gap,
            &mut self.time_per_token,
            &mut self.output_per_response,
            &mut self.input_per_response,
            &mut self.pauses,
        ]
    }

    fn so_far(&self) -> Option<Self> {
        Some(Self {
            first_token: self.first_token.clone(),
            time_per_token: self.time_per_token.clone(),
            output_tokens: self.tokens_so_far(),
            ..Self::default()
        })
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            first_token: self.first_token.without(&earlier.first_token),
            time_per_token: self.time_per_token.without(&earlier.time_per_token),
            // A server may count fewer tokens than there were events.
            output_tokens: self.output_tokens.saturating_sub(earlier.output_tokens),
            ..Self::default()
        }
    }
}

pub use metrics::{FIRST_TOKEN, TIME_PER_TOKEN};

/// Its tables are in the section of events.
pub(super) static VIEW: PartView = PartView {
    metrics: &metrics::METRICS,
    times: &metrics::TIMES,
    exported: metrics::exported,
    check,
    text: view::text_of_run,
    ..PartView::NONE
};

/// Checks that counts and samples of tokens agree.
fn check(result: &RunResult) -> Result<(), Contradiction> {
    let Some(llm) = &result.recording.parts.llm else {
        return Ok(());
    };
    let Some(events) = &result.recording.parts.events else {
        return Err(Contradiction(
            "tokens: there are tokens without events".to_owned(),
        ));
    };
    check_equal_counts(llm, events)?;
    // The first tokens of responses that were read after the window did not arrive in it.
    let arrived = match result.window.drained_ns {
        None => events.arrived,
        Some(_) => events.arrived.saturating_add(llm.first_token.count()),
    };
    check_parts_of_counts(llm, arrived)
}

fn check_equal_counts(llm: &LlmRecording, events: &EventRecording) -> Result<(), Contradiction> {
    let finished = llm.finish.all().iter().map(|(_, count)| count).sum();
    let responses = llm.responses;
    let streams = responses.saturating_add(llm.errors);
    let outputs = llm.output_per_response.count();
    for (name, one, other_name, other) in [
        ("streams", events.streams, "responses + errors", streams),
        ("finish reasons", finished, "responses", responses),
        (
            "output_per_response samples",
            outputs,
            "responses",
            responses,
        ),
    ] {
        if one != other {
            return Err(Contradiction(format!(
                "tokens: {name} is {one}, but {other_name} is {other}"
            )));
        }
    }
    Ok(())
}

/// Checks that no count is above the one that includes it. `arrived` is how many events there are
/// to time.
fn check_parts_of_counts(llm: &LlmRecording, arrived: u64) -> Result<(), Contradiction> {
    let responses = ("responses", llm.responses);
    let with_tokens = llm.responses.saturating_sub(llm.without_tokens);
    let with_tokens = ("responses with tokens", with_tokens);
    let [gaps, firsts] = [&llm.token_gap, &llm.first_token].map(Histogram::count);
    let timed = gaps.saturating_add(firsts);
    let first_tokens = ("first_token samples", firsts);
    let first_texts = ("first_text samples", llm.first_text.count());
    let means = ("time_per_token samples", llm.time_per_token.count());
    let inputs = ("input_per_response samples", llm.input_per_response.count());
    for ((part_name, part), (whole_name, whole)) in [
        (("counted_as_events", llm.counted_as_events), responses),
        (("without_tokens", llm.without_tokens), responses),
        (with_tokens, first_tokens),
        (first_texts, first_tokens),
        (means, with_tokens),
        (inputs, responses),
        (("timed token events", timed), ("events", arrived)),
        (
            ("cached_tokens", llm.cached_tokens),
            ("input_tokens", llm.input_tokens),
        ),
    ] {
        if part > whole {
            return Err(Contradiction(format!(
                "tokens: {part_name} is {part}, but {whole_name} is {whole}"
            )));
        }
    }
    Ok(())
}
