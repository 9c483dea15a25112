//! What the events of a language model's stream are: prelude, reasoning, text, tool call, usage,
//! error or end, and the tokens that the server says it has counted.
//!
//! [`EventSplitter`](crate::EventSplitter) finds where events begin and end. It passes their data
//! to an [`EventSink`](crate::EventSink) as it arrives, in pieces that may be cut at any byte.
//! [`LlmScanner`] reads these pieces and says at the end of the event what it was
//! ([`LlmEvent`]). [`LlmStream`] adds up the events of one response.
//!
//! # Formats
//!
//! - [`Dialect::OpenAi`], [`Dialect::Completions`]: `chat_completion_chunk.py` and
//!   `completion.py` of openai-python as of 2026, which are generated from OpenAI's description of
//!   its API ("The chat completion chunk object").
//! - [`Dialect::Responses`]: `response_stream_event.py` and `response_usage.py` of the same
//!   ("Streaming events").
//! - [`Dialect::Anthropic`]: "Streaming messages", platform.claude.com, as of 2026, and
//!   `stop_reason.py`, `message_delta_usage.py` and `output_tokens_details.py` of
//!   anthropic-sdk-python. The parts of the prompt's count: "Create a message", "Usage".
//! - [`Dialect::Ollama`]: `docs/api.md` and `docs/api/errors.mdx` of ollama as of 2026.
//!
//! Additions of servers that speak OpenAI's chat format: `delta.reasoning_content` (DeepSeek; vLLM
//! up to 0.11, "Reasoning Outputs") and `delta.reasoning` (vLLM since 0.11, OpenRouter),
//! `delta.reasoning_details` (OpenRouter), `delta.content` as a list of parts
//! (Mistral: litellm issue 16272), `error` beside or instead of `choices` and
//! `"finish_reason":"error"` (OpenRouter, "Streaming"; vLLM, SGLang), `usage` in every chunk (vLLM,
//! `continuous_usage_stats`) or in a choice (Moonshot: go-moonshot issue 17).
//!
//! # What counts
//!
//! - Generated is what a model writes: a string that is not empty, white space included. A role, an
//!   empty string, `null`, ids and signatures are not. The name of a function that is to be called
//!   is: it was generated before its arguments.
//! - A refusal is text: it is what the user sees.
//! - Text in several choices, or in several parts of one event, is one event with text.
//! - If a key stands twice in an object, text counts if either has some; of counts, types and
//!   reasons the last counts.
//! - A count is a whole number from 0 to 2^64 - 1, however it is written (`12`, `12.0`, `1.2e1`).
//!   Anything else is no count and is ignored.
//! - `error` counts unless it is `null`, `false` or an empty string.
//! - An event is believed as a whole or not at all. If its data is not one JSON value, it is
//!   [`LlmEventKind::Malformed`], without text, usage or anything else. This is not a validator:
//!   values on no path of interest are skipped, and in them only strings and the number of brackets
//!   matter. Valid JSON is never malformed; an object or a list that is cut off always is.
//! - Data that is empty, or valid JSON without anything of the above (`ping`, lists, numbers), is
//!   [`LlmEventKind::Other`]. `[DONE]` is an end.

mod answer;
mod paths;
mod scanner;
mod stream;

pub use answer::{Answer, MAX_ANSWER_BYTES, ToolCall};
pub use plan::Dialect;
pub use scanner::{LlmScanner, LlmSink};
pub use stream::{LlmStream, TimePerToken, TokenSource};

/// What an event mainly is. Where several apply, the first in the order of this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LlmEventKind {
    /// The data is not JSON, or not all of it.
    Malformed,
    /// The server reports that the response has failed.
    Error,
    /// Visible text.
    Text,
    /// The name or the arguments of a call.
    ToolCall,
    /// Text of the model's reasoning.
    Reasoning,
    /// The response is complete, or says why its text ends, without generated text.
    End,
    /// Announces generated text without having any: a role, an empty delta, the start of a message
    /// or a block.
    Prelude,
    /// Counts of tokens and nothing else.
    Usage,
    /// Anything else, such as `ping`.
    Other,
}

/// Why the model has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinishReason {
    /// It was done, or wrote a stop sequence: `stop`, `end_turn`, `stop_sequence`, `eos_token`,
    /// `response.completed`.
    Stop,
    /// The limit of tokens was reached: `length`, `max_tokens`, `max_output_tokens`,
    /// `model_length`, `model_context_window_exceeded`.
    Length,
    /// It calls a tool: `tool_calls`, `function_call`, `tool_use`.
    ToolCalls,
    /// A filter or the model refused: `content_filter`, `refusal`.
    ContentFilter,
    /// Another word.
    Other,
}

/// Tokens as the server has counted them, from the beginning of the response up to an event. `None`
/// is what it has not said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt, those from a cache included.
    ///
    /// Anthropic counts them apart: this is the sum of `input_tokens`, `cache_read_input_tokens`
    /// and `cache_creation_input_tokens`.
    pub prompt: Option<u64>,
    /// Generated tokens, reasoning included.
    pub completion: Option<u64>,
    /// Tokens of the prompt that came from a cache.
    pub cached: Option<u64>,
    /// Generated tokens that are reasoning, whether the stream shows it or not.
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Takes over what a later event of the same response says. The counts are cumulative, so the
    /// greater one is the later one; a server that counts the prompt only at the end says 0 before.
    pub fn update(&mut self, later: &Self) {
        self.prompt = self.prompt.max(later.prompt);
        self.completion = self.completion.max(later.completion);
        self.cached = self.cached.max(later.cached);
        self.reasoning = self.reasoning.max(later.reasoning);
    }
}

/// What one event of a stream was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LlmEvent {
    /// What it mainly was.
    pub kind: LlmEventKind,
    /// It has visible text.
    pub has_text: bool,
    /// It has text of the reasoning.
    pub has_reasoning: bool,
    /// It has a part of a tool call.
    pub has_tool_call: bool,
    /// The token counts in it, if there are any.
    pub usage: Option<Usage>,
    /// Why the model has stopped, if it says so. With several choices, the last one's.
    pub finish: Option<FinishReason>,
    /// The dialect says with it that nothing follows: `message_stop`, `response.completed`,
    /// `.incomplete` or `.failed`, `"done":true`, `[DONE]`. A finish reason alone does not.
    pub is_end: bool,
    /// The dialect, where the event shows which it is.
    pub dialect: Option<Dialect>,
}

impl LlmEvent {
    /// Whether it has generated text of any channel.
    #[inline]
    #[must_use]
    pub fn has_tokens(&self) -> bool {
        self.has_text || self.has_reasoning || self.has_tool_call
    }
}
