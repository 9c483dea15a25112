//! Adds up the events of one response: when its tokens came, how many there were, how it ended.

use super::{Dialect, FinishReason, LlmEvent, LlmEventKind, Usage};

/// What is known about one response so far. Times are nanoseconds of any clock that does not go
/// back; those of events that arrived in one read are equal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LlmStream {
    /// When the first event with generated text of any channel came: text, reasoning or a tool
    /// call.
    pub first_token_ns: Option<u64>,
    /// When the first event with visible text came.
    pub first_text_ns: Option<u64>,
    /// When the last event with generated text came.
    pub last_token_ns: Option<u64>,
    /// Events with generated text. An event may have several tokens, or a part of one.
    pub token_events: u64,
    /// Those among them that have text of the reasoning.
    pub reasoning_events: u64,
    /// Events that were not JSON.
    pub malformed_events: u64,
    /// The token counts of the server. All `None` if it has sent none.
    pub usage: Usage,
    /// Why the model has stopped: the last reason that the server gave.
    pub finish: Option<FinishReason>,
    /// The server has reported an error.
    pub has_error: bool,
    /// The dialect's end has come: [`LlmEvent::is_end`], or [`Self::end_marker`].
    pub has_end: bool,
    /// Counts of tokens came after the last generated text, as at an end.
    pub has_last_count: bool,
    /// The dialect of the first event that shows it.
    pub dialect: Option<Dialect>,
}

/// Where a number of tokens comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenSource {
    /// The server has counted them.
    Usage,
    /// The server sent no count, so each event with generated text is one token.
    Events,
}

/// The time from token to token of one response.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimePerToken {
    /// Nanoseconds, at least 0.
    pub ns: f64,
    /// What the tokens were counted by.
    pub source: TokenSource,
}

impl LlmStream {
    /// An event has come at this time.
    pub fn add(&mut self, time_ns: u64, event: &LlmEvent) {
        if event.has_tokens() {
            self.first_token_ns.get_or_insert(time_ns);
            self.last_token_ns = Some(time_ns);
            self.token_events += 1;
            self.reasoning_events += u64::from(event.has_reasoning);
            self.has_last_count = false;
        } else if event.usage.is_some() {
            // Before the first text there are counts of the prompt.
            self.has_last_count = self.token_events > 0;
        }
        if event.has_text {
            self.first_text_ns.get_or_insert(time_ns);
        }
        if let Some(usage) = &event.usage {
            self.usage.update(usage);
        }
        self.finish = event.finish.or(self.finish);
        self.dialect = self.dialect.or(event.dialect);
        self.has_end |= event.is_end;
        self.has_error |= event.kind == LlmEventKind::Error;
        self.malformed_events += u64::from(event.kind == LlmEventKind::Malformed);
    }

    /// The end marker of the stream has come, which is no event.
    pub fn end_marker(&mut self) {
        self.has_end = true;
    }

    /// Whether something in the stream says that it has come to its end: the dialect's end, a
    /// reason why the model has stopped, or counts of tokens after the last text. Without any of
    /// them, the response was cut off.
    #[must_use]
    pub fn shows_end(&self) -> bool {
        self.has_end || self.finish.is_some() || self.has_last_count
    }

    /// Whether the response came to its end ([`Self::shows_end`]) and has not failed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.has_error && self.shows_end()
    }

    /// The number of generated tokens: `usage.completion`, and the number of events with generated
    /// text if the server has not counted, or has counted 0 although there is text.
    #[must_use]
    pub fn tokens(&self) -> (u64, TokenSource) {
        self.usage_or_events(self.usage.completion)
    }

    /// The mean time from one token to the next:
    ///
    /// (last - first) / (tokens - 1), where first and last are the times of the first and the last
    /// event with generated text. In the field: time per output token (TPOT), mean inter-token
    /// latency.
    ///
    /// `tokens` is [`Self::tokens`], less `usage.reasoning` if no event had reasoning: those tokens
    /// were generated before the first event. If an event has several tokens, the ones of the
    /// first event count as if they took as long as the others, which makes the result too small by
    /// (tokens of the first event - 1) / (tokens - 1) at most.
    ///
    /// `None` with fewer than 2 tokens, or fewer than 2 events with text, since one event has no
    /// duration. 0 if all of them came in one read.
    #[must_use]
    pub fn time_per_token(&self) -> Option<TimePerToken> {
        let (first, last) = (self.first_token_ns?, self.last_token_ns?);
        let hidden = match self.reasoning_events {
            0 => self.usage.reasoning.unwrap_or(0),
            _ => 0,
        };
        let streamed = self.usage.completion.map(|all| all.saturating_sub(hidden));
        let (tokens, source) = self.usage_or_events(streamed);
        if tokens < 2 || self.token_events < 2 {
            return None;
        }
        let ns = last.saturating_sub(first) as f64 / (tokens - 1) as f64;
        Some(TimePerToken { ns, source })
    }

    fn usage_or_events(&self, counted: Option<u64>) -> (u64, TokenSource) {
        match counted {
            Some(tokens) if tokens > 0 || self.token_events == 0 => (tokens, TokenSource::Usage),
            _ => (self.token_events, TokenSource::Events),
        }
    }
}
