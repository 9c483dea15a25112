//! The paths in an event's JSON that matter, as a tree: which key leads where.

use super::{Dialect, FinishReason};

/// A place in the JSON of an event.
///
/// Nodes never lead to themselves, so only so many containers can be open on a path of interest:
/// [`MAX_DEPTH`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    /// Of no interest, with everything in it.
    Skip,
    Root,
    Choices,
    Choice,
    Delta,
    /// A string, or a list of parts.
    Content,
    ContentPart,
    /// A string, or a list of parts.
    Reasoning,
    ReasoningPart,
    TextString,
    ReasoningString,
    ToolCalls,
    ToolCall,
    Function,
    ToolId,
    ToolName,
    ToolArguments,
    Finish,
    Error,
    Type,
    /// `delta` of an event with a type: a string (Responses) or an object (Anthropic).
    TypedDelta,
    BlockText,
    BlockReasoning,
    BlockId,
    BlockName,
    BlockArguments,
    Block,
    Item,
    ItemName,
    Message,
    /// A string (Ollama) or an object (Responses).
    Response,
    Incomplete,
    Usage,
    PromptDetails,
    CompletionDetails,
    Count(Count),
    Done,
}

/// `choices[].delta.content[].thinking[].text`: eight containers, the root included.
pub(super) const MAX_DEPTH: usize = 8;

/// A count in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Count {
    /// `prompt_tokens`, `prompt_eval_count`: all tokens of the prompt.
    Prompt,
    /// `input_tokens`: all of them, except where `CacheRead` or `CacheWritten` stand beside it.
    Input,
    /// Generated tokens.
    Output,
    /// `cached_tokens`, which are part of the prompt's.
    Cached,
    /// Anthropic's tokens of the prompt that came from the cache.
    CacheRead,
    /// Anthropic's tokens of the prompt that went to the cache.
    CacheWritten,
    Reasoning,
}

pub(super) const COUNTS: usize = 7;

/// A set of dialects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialects(u8);

const CHAT: Dialects = Dialects(1);
const COMPLETIONS: Dialects = Dialects(2);
pub(super) const RESPONSES: Dialects = Dialects(4);
pub(super) const ANTHROPIC: Dialects = Dialects(8);
pub(super) const OLLAMA: Dialects = Dialects(16);
const ALL: Dialects = Dialects(31);

impl Dialects {
    /// The one, or all of them.
    pub(super) fn new(only: Option<Dialect>) -> Self {
        match only {
            None => ALL,
            Some(Dialect::OpenAi) => CHAT,
            Some(Dialect::Completions) => COMPLETIONS,
            Some(Dialect::Responses) => RESPONSES,
            Some(Dialect::Anthropic) => ANTHROPIC,
            Some(Dialect::Ollama) => OLLAMA,
        }
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether they have one in common.
    #[inline]
    pub(super) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl Node {
    pub(super) fn is_object(self) -> bool {
        matches!(
            self,
            Self::Root
                | Self::Choice
                | Self::Delta
                | Self::ContentPart
                | Self::ReasoningPart
                | Self::ToolCall
                | Self::Function
                | Self::TypedDelta
                | Self::Block
                | Self::Item
                | Self::Message
                | Self::Response
                | Self::Incomplete
                | Self::Usage
                | Self::PromptDetails
                | Self::CompletionDetails
        )
    }

    /// What the elements of a list are. `None` if a list is of no interest here.
    pub(super) fn element(self) -> Option<Self> {
        match self {
            Self::Choices => Some(Self::Choice),
            Self::Content => Some(Self::ContentPart),
            Self::Reasoning => Some(Self::ReasoningPart),
            Self::ToolCalls => Some(Self::ToolCall),
            _ => None,
        }
    }

    /// Where a key of an object leads, for these dialects.
    pub(super) fn child(self, key: &[u8], dialects: Dialects) -> Self {
        let (child, known_by) = match self {
            Self::Root => return Self::of_root(key, dialects),
            Self::Choice => match key {
                b"delta" => (Self::Delta, CHAT),
                b"text" => (Self::TextString, COMPLETIONS),
                b"finish_reason" => (Self::Finish, ALL),
                b"error" => (Self::Error, ALL),
                // Moonshot has it here.
                b"usage" => (Self::Usage, ALL),
                _ => return Self::Skip,
            },
            Self::Message => match key {
                b"content" => (Self::Content, OLLAMA),
                b"thinking" => (Self::ReasoningString, OLLAMA),
                b"tool_calls" => (Self::ToolCalls, OLLAMA),
                b"usage" => (Self::Usage, ANTHROPIC),
                _ => return Self::Skip,
            },
            Self::Response => match key {
                b"usage" => (Self::Usage, RESPONSES),
                b"error" => (Self::Error, RESPONSES),
                b"incomplete_details" => (Self::Incomplete, RESPONSES),
                _ => return Self::Skip,
            },
            Self::TypedDelta => match key {
                b"stop_reason" => (Self::Finish, ANTHROPIC),
                _ => return self.of_inner(key),
            },
            _ => return self.of_inner(key),
        };
        if known_by.meets(dialects) {
            child
        } else {
            Self::Skip
        }
    }

    fn of_root(key: &[u8], dialects: Dialects) -> Self {
        let openai = CHAT.or(COMPLETIONS);
        let (child, known_by) = match key {
            b"choices" => (Self::Choices, openai),
            b"usage" => (Self::Usage, openai.or(ANTHROPIC)),
            b"error" => (Self::Error, ALL),
            b"type" => (Self::Type, RESPONSES.or(ANTHROPIC)),
            b"delta" => (Self::TypedDelta, RESPONSES.or(ANTHROPIC)),
            b"response" => (Self::Response, RESPONSES.or(OLLAMA)),
            b"item" => (Self::Item, RESPONSES),
            b"content_block" => (Self::Block, ANTHROPIC),
            b"message" => (Self::Message, ANTHROPIC.or(OLLAMA)),
            b"thinking" => (Self::ReasoningString, OLLAMA),
            b"done" => (Self::Done, OLLAMA),
            b"done_reason" => (Self::Finish, OLLAMA),
            b"prompt_eval_count" => (Self::Count(Count::Prompt), OLLAMA),
            b"eval_count" => (Self::Count(Count::Output), OLLAMA),
            _ => return Self::Skip,
        };
        if known_by.meets(dialects) {
            child
        } else {
            Self::Skip
        }
    }

    /// Keys of objects that only one dialect leads to, that are the same in all, or of which the
    /// type of the event decides.
    fn of_inner(self, key: &[u8]) -> Self {
        match (self, key) {
            (Self::Delta, b"content") => Self::Content,
            (Self::Delta, b"reasoning_content" | b"reasoning" | b"reasoning_details") => {
                Self::Reasoning
            }
            (Self::Delta, b"refusal") | (Self::ContentPart, b"text") => Self::TextString,
            (Self::Delta, b"tool_calls") => Self::ToolCalls,
            (Self::Delta, b"function_call") | (Self::ToolCall, b"function" | b"custom") => {
                Self::Function
            }
            (Self::ContentPart, b"thinking") => Self::Reasoning,
            (Self::ReasoningPart, b"text" | b"summary") => Self::ReasoningString,
            (Self::ToolCall, b"id") => Self::ToolId,
            (Self::Function, b"name") => Self::ToolName,
            (Self::Function, b"arguments" | b"input") => Self::ToolArguments,
            (Self::TypedDelta | Self::Block, b"text") => Self::BlockText,
            (Self::TypedDelta | Self::Block, b"thinking") => Self::BlockReasoning,
            (Self::Block, b"id") => Self::BlockId,
            (Self::Block, b"name") => Self::BlockName,
            (Self::TypedDelta, b"partial_json") => Self::BlockArguments,
            (Self::Incomplete, b"reason") => Self::Finish,
            (Self::Item, b"name") => Self::ItemName,
            (Self::Usage, b"prompt_tokens") => Self::Count(Count::Prompt),
            (Self::Usage, b"input_tokens") => Self::Count(Count::Input),
            (Self::Usage, b"completion_tokens" | b"output_tokens") => Self::Count(Count::Output),
            (Self::Usage, b"prompt_tokens_details" | b"input_tokens_details") => {
                Self::PromptDetails
            }
            (Self::Usage, b"completion_tokens_details" | b"output_tokens_details") => {
                Self::CompletionDetails
            }
            (Self::Usage, b"cache_read_input_tokens") => Self::Count(Count::CacheRead),
            (Self::Usage, b"cache_creation_input_tokens") => Self::Count(Count::CacheWritten),
            // Moonshot has it beside the other counts.
            (Self::Usage | Self::PromptDetails, b"cached_tokens") => Self::Count(Count::Cached),
            // SGLang has the first beside the other counts.
            (Self::Usage | Self::CompletionDetails, b"reasoning_tokens")
            | (Self::CompletionDetails, b"thinking_tokens") => Self::Count(Count::Reasoning),
            _ => Self::Skip,
        }
    }
}

/// The `type` of an event, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventType {
    /// Without one, or with an unknown one.
    None,
    TextDelta,
    ReasoningDelta,
    ToolDelta,
    ResponsePrelude,
    ItemAdded,
    Completed,
    Incomplete,
    Failed,
    OtherOfResponses,
    MessageStart,
    BlockStart,
    BlockDelta,
    MessageStop,
    OtherOfAnthropic,
    Error,
}

impl EventType {
    pub(super) fn new(word: &[u8], dialects: Dialects) -> Self {
        let (this, known_by) = match word {
            b"content_block_delta" => (Self::BlockDelta, ANTHROPIC),
            b"message_start" => (Self::MessageStart, ANTHROPIC),
            b"content_block_start" => (Self::BlockStart, ANTHROPIC),
            b"message_stop" => (Self::MessageStop, ANTHROPIC),
            b"message_delta" | b"content_block_stop" | b"ping" => {
                (Self::OtherOfAnthropic, ANTHROPIC)
            }
            b"error" => (Self::Error, RESPONSES.or(ANTHROPIC)),
            _ => match word.strip_prefix(b"response.") {
                Some(rest) => (Self::of_responses(rest), RESPONSES),
                None => return Self::None,
            },
        };
        if known_by.meets(dialects) {
            this
        } else {
            Self::None
        }
    }

    fn of_responses(word: &[u8]) -> Self {
        match word {
            b"output_text.delta" | b"refusal.delta" => Self::TextDelta,
            b"reasoning_text.delta" | b"reasoning_summary_text.delta" => Self::ReasoningDelta,
            b"function_call_arguments.delta"
            | b"custom_tool_call_input.delta"
            | b"mcp_call_arguments.delta"
            | b"code_interpreter_call_code.delta"
            | b"shell_call_command.delta" => Self::ToolDelta,
            b"created"
            | b"queued"
            | b"in_progress"
            | b"content_part.added"
            | b"reasoning_summary_part.added" => Self::ResponsePrelude,
            b"output_item.added" => Self::ItemAdded,
            b"completed" => Self::Completed,
            b"incomplete" => Self::Incomplete,
            b"failed" => Self::Failed,
            _ => Self::OtherOfResponses,
        }
    }

    pub(super) fn is_prelude(self) -> bool {
        matches!(
            self,
            Self::ResponsePrelude | Self::ItemAdded | Self::MessageStart | Self::BlockStart
        )
    }

    pub(super) fn dialect(self) -> Option<Dialect> {
        match self {
            Self::None | Self::Error => None,
            Self::MessageStart
            | Self::BlockStart
            | Self::BlockDelta
            | Self::MessageStop
            | Self::OtherOfAnthropic => Some(Dialect::Anthropic),
            _ => Some(Dialect::Responses),
        }
    }
}

/// What a word says about why the model has stopped. `None` for an empty word, which some servers
/// send instead of `null`.
pub(super) fn finish_reason(word: &[u8]) -> Option<FinishReason> {
    Some(match word {
        b"" => return None,
        b"stop" | b"end_turn" | b"stop_sequence" | b"eos_token" => FinishReason::Stop,
        b"length"
        | b"max_tokens"
        | b"max_output_tokens"
        | b"model_length"
        | b"model_context_window_exceeded" => FinishReason::Length,
        b"tool_calls" | b"function_call" | b"tool_use" => FinishReason::ToolCalls,
        b"content_filter" | b"refusal" => FinishReason::ContentFilter,
        _ => FinishReason::Other,
    })
}
