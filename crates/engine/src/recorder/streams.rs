//! Records the events and tokens of streaming responses, and judges requests.

use protocol::StreamTotal;
use protocol::llm::{FinishReason, LlmStream, TokenSource};
use results::FirstError;

use super::Recorder;
use crate::exchanges::{Exchange, TokenTimes};

/// Events of a response that arrived in one read.
pub(crate) struct ArrivedEvents {
    pub(crate) due_ns: u64,
    pub(crate) sent_ns: u64,
    /// When the event before them arrived; 0 if they are the first ones.
    pub(crate) last_ns: u64,
    /// How many arrived; at least 1.
    pub(crate) count: u32,
}

/// Events with tokens of a response that arrived in one read.
pub(crate) struct ArrivedTokens {
    pub(crate) due_ns: u64,
    pub(crate) sent_ns: u64,
    /// When the event with tokens before them arrived; 0 if they are the first ones.
    pub(crate) last_ns: u64,
    /// How many arrived; at least 1.
    pub(crate) count: u32,
    /// Whether the first visible text of the response is among them.
    pub(crate) has_first_text: bool,
}

impl Recorder {
    /// Events of a response arrived together. `last_ns` is when the one before them arrived, 0 if
    /// they are the first ones of the response.
    #[inline]
    pub(crate) fn events(&mut self, events: &ArrivedEvents, at_ns: u64) {
        let is_measured = self.measures(events.due_ns);
        let is_in_window = self.is_in_window(at_ns);
        let from_ns = if self.open {
            events.due_ns
        } else {
            events.sent_ns
        };
        let Some(recording) = &mut self.recording.parts.events else {
            return;
        };
        if events.last_ns == 0 && is_measured {
            let took_ns = at_ns.saturating_sub(from_ns);
            recording.first_event.record(took_ns);
        }
        if !is_in_window {
            return;
        }
        recording.arrived += u64::from(events.count);
        self.interval.events += u64::from(events.count);
        // A stream that began in the warm-up may last for the whole window.
        if events.last_ns > 0 {
            let gap_ns = at_ns.saturating_sub(events.last_ns);
            recording.gap.record(gap_ns);
        }
        if events.count > 1 {
            recording.gap.record_n(0, u64::from(events.count - 1));
        }
    }

    /// A streaming response is complete. `is_unfinished` if its end marker is missing.
    pub(crate) fn stream_ended(&mut self, due_ns: u64, total: &StreamTotal, is_unfinished: bool) {
        let is_measured = self.measures(due_ns);
        let Some(recording) = &mut self.recording.parts.events else {
            return;
        };
        recording.has_end_marker |= total.has_end_marker;
        if is_measured {
            recording.streams += 1;
            recording.unfinished += u64::from(is_unfinished);
            recording.empty += u64::from(total.events == 0);
            recording.compressed += u64::from(total.is_compressed);
            recording.per_response.record(total.events);
        }
    }

    /// Events with tokens have arrived. The times are those of [`Self::events`].
    pub(crate) fn tokens(&mut self, tokens: &ArrivedTokens, at_ns: u64) {
        let is_measured = self.measures(tokens.due_ns);
        let is_in_window = self.is_in_window(at_ns);
        let from_ns = if self.open {
            tokens.due_ns
        } else {
            tokens.sent_ns
        };
        let Some(recording) = &mut self.recording.parts.llm else {
            return;
        };
        let took_ns = at_ns.saturating_sub(from_ns);
        if tokens.last_ns == 0 && is_measured {
            recording.first_token.record(took_ns);
            // What arrives after the window has no place in it.
            if is_in_window {
                self.current.first_token.record(took_ns);
            }
        }
        if tokens.has_first_text && is_measured {
            recording.first_text.record(took_ns);
        }
        if !is_in_window {
            return;
        }
        recording.open_token_events += u64::from(tokens.count);
        if tokens.last_ns > 0 {
            let gap_ns = at_ns.saturating_sub(tokens.last_ns);
            recording.token_gap.record(gap_ns);
        }
        if tokens.count > 1 {
            recording.token_gap.record_n(0, u64::from(tokens.count - 1));
        }
    }

    /// The response of a language model is complete. `in_window` of its events with tokens arrived
    /// within the window.
    pub(crate) fn llm_ended(
        &mut self,
        due_ns: u64,
        at_ns: u64,
        stream: &LlmStream,
        in_window: u64,
    ) {
        let is_measured = self.measures(due_ns);
        let is_in_window = self.is_in_window(at_ns);
        let Some(recording) = &mut self.recording.parts.llm else {
            return;
        };
        if stream.has_error {
            recording.errors += u64::from(is_measured);
            return;
        }
        let (tokens, source) = stream.tokens();
        let usage = &stream.usage;
        let part = |tokens: u64| match stream.token_events {
            0 if is_in_window => tokens,
            0 => 0,
            events => share_of(tokens, in_window, events),
        };
        let reasoning = usage.reasoning.unwrap_or(0).min(tokens);
        recording.output_tokens = recording.output_tokens.saturating_add(part(tokens));
        recording.reasoning_tokens = recording.reasoning_tokens.saturating_add(part(reasoning));
        recording.open_token_events = recording.open_token_events.saturating_sub(in_window);
        recording.token_events += in_window;
        if is_in_window {
            let input = usage.prompt.unwrap_or(0);
            recording.input_tokens = recording.input_tokens.saturating_add(input);
            let cached = usage.cached.unwrap_or(0).min(input);
            recording.cached_tokens = recording.cached_tokens.saturating_add(cached);
        }
        if !is_measured {
            return;
        }
        recording.responses += 1;
        recording.counted_as_events += u64::from(source == TokenSource::Events && tokens > 0);
        recording.without_tokens += u64::from(stream.token_events == 0);
        recording.malformed_events += stream.malformed_events;
        recording.output_per_response.record(tokens);
        if let Some(input) = usage.prompt {
            recording.input_per_response.record(input);
        }
        if let Some(time) = stream.time_per_token() {
            recording.time_per_token.record(time.ns.round() as u64);
        }
        let finish = &mut recording.finish;
        *match stream.finish {
            Some(FinishReason::Stop) => &mut finish.stop,
            Some(FinishReason::Length) => &mut finish.length,
            Some(FinishReason::ToolCalls) => &mut finish.tool_calls,
            Some(FinishReason::ContentFilter) => &mut finish.content_filter,
            Some(FinishReason::Other) => &mut finish.other,
            None => &mut finish.none,
        } += 1;
    }

    /// A response has asked a user to wait, which takes this long.
    #[cold]
    pub(crate) fn user_paused(&mut self, pause_ns: u64, at_ns: u64) {
        let is_in_window = self.is_in_window(at_ns);
        if let Some(recording) = &mut self.recording.parts.llm
            && is_in_window
        {
            recording.pauses.record(pause_ns);
        }
    }

    /// A response is an error, with this beginning of its body.
    #[cold]
    pub(crate) fn first_error(&mut self, status: u16, body: &[u8]) {
        if let Some(recording) = &mut self.recording.parts.llm {
            let first = || FirstError::of(status, body);
            recording.first_error.get_or_insert_with(first);
        }
    }

    /// A streaming response is incomplete now, at the end or when its request is given up. Its last
    /// event arrived at `last_ns`; 0 if there was none.
    pub(crate) fn stream_is_open(&mut self, last_ns: u64, now_ns: u64) {
        let is_in_window = self.measures(now_ns);
        if let Some(recording) = &mut self.recording.parts.events
            && is_in_window
            && last_ns > 0
        {
            let silent_ns = now_ns.saturating_sub(last_ns);
            recording.since_last_event.record(silent_ns);
        }
    }

    /// Requests waited this long for their first event, and longer, for which they were not
    /// observed: they were given up, or the window has ended.
    pub(super) fn no_event(&mut self, requests: u64, age_ns: u64) {
        if let Some(recording) = &mut self.recording.parts.events {
            recording.waiting.record_n(age_ns, requests);
        }
    }

    /// As [`Self::no_event`], for the first event with tokens.
    pub(super) fn no_token(&mut self, requests: u64, age_ns: u64) {
        if let Some(recording) = &mut self.recording.parts.llm {
            recording.waiting.record_n(age_ns, requests);
        }
    }

    /// A request timed out. Its response has had these events and tokens. The times are those of
    /// [`Self::timed_out`].
    pub(crate) fn timed_out_in_stream(
        &mut self,
        (exchange, tokens): (&Exchange, &TokenTimes),
        age_ns: u64,
        age_due_ns: u64,
    ) {
        let age_ns = if self.open { age_due_ns } else { age_ns };
        self.waited((exchange, tokens), 1, age_ns);
    }

    /// Requests of this exchange are in flight at the end.
    pub(crate) fn in_flight_in_stream(
        &mut self,
        (exchange, tokens): (&Exchange, &TokenTimes),
        age_due_ns: u64,
    ) {
        // In a closed loop, a request is due when it is sent.
        self.judge_unanswered(
            Some((exchange, tokens)),
            u64::from(exchange.requests),
            age_due_ns,
        );
        if self.open {
            self.waited((exchange, tokens), u64::from(exchange.requests), age_due_ns);
        }
    }

    fn waited(&mut self, (exchange, tokens): (&Exchange, &TokenTimes), requests: u64, age_ns: u64) {
        if exchange.event_ns == 0 {
            self.no_event(requests, age_ns);
        }
        if tokens.first_ns == 0 {
            self.no_token(requests, age_ns);
        }
    }

    /// Whether requests are judged.
    #[inline]
    pub(crate) fn judges(&self) -> bool {
        self.good.is_some()
    }

    /// A response is complete: its request is judged if that is wanted. One of the warm-up only
    /// counts if it was good within the window. Returns whether it was good; true if nothing is
    /// judged.
    pub(crate) fn judge(
        &mut self,
        (exchange, tokens): (&Exchange, &TokenTimes),
        status: u16,
        completed_ns: u64,
    ) -> bool {
        let mut is_good = true;
        if let (Some(limits), Some(counted)) = (&self.good, &mut self.recording.parts.good) {
            let from_ns = if self.open {
                exchange.due_ns
            } else {
                exchange.sent_ns
            };
            let is_measured = exchange.due_ns >= self.start_ns;
            let is_in_window = completed_ns >= self.start_ns && !self.is_over;
            let events = self.recording.parts.events.as_ref();
            let is_cut_off = tokens.is_without_end && events.is_some_and(|it| it.has_end_marker);
            let is_met = status < 400 && limits.are_met(from_ns, completed_ns, tokens);
            is_good = is_met && !is_cut_off;
            if is_good {
                counted.add_good(is_measured, is_in_window, tokens.is_without_end);
            } else {
                counted.bad += u64::from(is_measured);
            }
        }
        is_good
    }

    /// Judges requests that have no complete response at the end. `exchange` is
    /// `None` if they were not sent.
    pub(super) fn judge_unanswered(
        &mut self,
        exchange: Option<(&Exchange, &TokenTimes)>,
        requests: u64,
        age_ns: u64,
    ) {
        if let (Some(limits), Some(counted)) = (&self.good, &mut self.recording.parts.good) {
            // Nothing has come for a request that was not sent, so it does not matter since when.
            let (from_ns, tokens) = exchange.map_or_else(Default::default, |(it, tokens)| {
                (if self.open { it.due_ns } else { it.sent_ns }, *tokens)
            });
            if limits.are_missed(from_ns, age_ns, &tokens) {
                counted.bad += requests
            } else {
                counted.undecided += requests
            }
        }
    }
}

/// The part of a number of tokens that this many of all events have, to the nearest whole one.
fn share_of(tokens: u64, events: u64, all: u64) -> u64 {
    let [tokens, events, all] = [tokens, events.min(all), all].map(u128::from);
    u64::try_from((tokens * events + all / 2) / all).unwrap_or(u64::MAX)
}
