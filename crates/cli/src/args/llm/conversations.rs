//! Options of conversations: requests that repeat what was said before.

use std::path::PathBuf;

use clap::Args;
use convert::llm::Synthetic;
use convert::llm::conversations::{MAX_TURNS, Manner};
use plan::InvalidValue;
use plan::distribution::{Count, Delay};

use super::{Distribution, PromptSource, Refusal, parse_number};

pub(in crate::args) const HEADING: &str = "Conversations";

/// The most tokens of a context: no model has so large a window.
const MAX_CONTEXT: u64 = 1_000_000_000;

#[derive(Debug, Clone, Args)]
pub(super) struct ConversationArgs {
    /// Have the conversations of a file; - is stdin.
    ///
    /// It has JSON: ShareGPT's, OpenAI's messages, Mooncake's sessions, or
    /// {"turns": [{"user": "Hello", "think_ms": 900}, ...]} (docs/llm.md).
    #[arg(long, value_name = "FILE", help_heading = HEADING, allow_hyphen_values = true,
          conflicts_with_all = ["prompts", "prompt_words", "shared_prefix", "turns"])]
    conversations: Option<PathBuf>,
    /// Have conversations of so many turns, like 5 or uniform:1,8.
    ///
    /// Each turn asks as many random words as --prompt-words says.
    #[arg(long, value_name = "DIST", help_heading = HEADING, allow_hyphen_values = true,
          conflicts_with = "prompts",
          value_parser = |text: &str| Distribution::parse(text, MAX_TURNS as u64))]
    turns: Option<Distribution>,
    /// Time between an answer and the next turn of its user, like 5s or exp:8s [default: 0s].
    ///
    /// It is for turns to which the file gives no time.
    #[arg(long, value_name = "DIST", help_heading = HEADING, allow_hyphen_values = true,
          value_parser = parse_delay)]
    think: Option<(String, Delay)>,
    /// Time that a tool takes, if the model calls one, like 500ms or exp:2s
    #[arg(long, value_name = "DIST", help_heading = HEADING, allow_hyphen_values = true,
          value_parser = parse_delay)]
    tool_wait: Option<(String, Delay)>,
    /// Which answers requests repeat: those of this run (live) or of the file (recorded)
    /// [default: live]
    #[arg(long, value_name = "WHICH", help_heading = HEADING, value_parser = ["live", "recorded"],
          hide_possible_values = true)]
    history: Option<String>,
    /// End a conversation before a request and its answer would have more tokens
    #[arg(long, value_name = "TOKENS", help_heading = HEADING, allow_hyphen_values = true,
          value_parser = parse_number(1..=MAX_CONTEXT))]
    context: Option<u64>,
    /// With --context, leave out the oldest turns instead of ending the conversation
    #[arg(long, help_heading = HEADING, requires = "context")]
    drop_oldest: bool,
    /// Send the name of the conversation in this header, like X-Session-ID
    #[arg(long, value_name = "NAME", help_heading = HEADING, value_parser = parse_header)]
    session_header: Option<String>,
    /// Send the name of the conversation in this key of the body, like cache_salt.
    ///
    /// No two conversations have the same name, also in different runs. With vLLM's cache_salt, its
    /// cache of prompts knows nothing of earlier runs.
    #[arg(long, value_name = "KEY", help_heading = HEADING,
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    session_key: Option<String>,
    /// Begin each conversation with its first turn.
    ///
    /// Otherwise, those with which the run begins are in the middle, as they are at any later time.
    #[arg(long, help_heading = HEADING)]
    cold_start: bool,
}

/// Conversations, where they are from and how they are had.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConversationSource {
    pub(crate) texts: ConversationTexts,
    pub(crate) manner: Manner,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ConversationTexts {
    File {
        /// `-` is stdin.
        path: PathBuf,
        /// At most so many.
        max: u64,
    },
    /// The first messages, and how many turns there are.
    Synthetic(Synthetic, Count),
}

fn parse_delay(text: &str) -> Result<(String, Delay), InvalidValue> {
    Ok((text.to_owned(), Delay::parse(text)?))
}

fn parse_header(name: &str) -> Result<String, InvalidValue> {
    match plan::check_header(name, "") {
        Ok(()) => Ok(name.to_owned()),
        Err(error) => Err(error.to_string().into()),
    }
}

impl ConversationArgs {
    /// Whether requests are turns of conversations.
    pub(super) fn is_given(&self) -> bool {
        self.conversations.is_some() || self.turns.is_some()
    }

    /// What makes the load, for the name of the requests.
    pub(super) fn load(&self) -> impl std::fmt::Debug + use<'_> {
        let times = [&self.think, &self.tool_wait].map(|it| it.as_ref().map(|it| &it.0));
        let turns = self.turns.as_ref().map(|it| &it.text);
        let context = (self.context, self.drop_oldest);
        let history = (&self.history, context, self.cold_start);
        let session = (&self.session_header, &self.session_key);
        (turns, times, history, session)
    }

    /// Rejects options that would have no effect.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        if self.is_given() {
            return match self.history.as_deref() {
                Some("recorded") if self.turns.is_some() => Err(Refusal(
                    "--history recorded: random conversations have no recorded answers".to_owned(),
                )),
                _ => Ok(()),
            };
        }
        let given = [
            ("think", self.think.is_some()),
            ("tool-wait", self.tool_wait.is_some()),
            ("history", self.history.is_some()),
            ("context", self.context.is_some()),
            ("drop-oldest", self.drop_oldest),
            ("session-header", self.session_header.is_some()),
            ("session-key", self.session_key.is_some()),
            ("cold-start", self.cold_start),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Refusal(format!(
                "--{option}: needs conversations (--conversations FILE or --turns N)"
            ))),
            None => Ok(()),
        }
    }

    /// The conversations; `first` draws the first messages of random ones, and a file has at most
    /// `max` that are used.
    pub(super) fn source(&self, first: Synthetic, max: u64) -> Option<PromptSource> {
        let texts = match (&self.conversations, &self.turns) {
            (Some(path), _) => ConversationTexts::File {
                path: path.clone(),
                max,
            },
            (None, Some(turns)) => ConversationTexts::Synthetic(first, turns.count),
            (None, None) => return None,
        };
        let manner = Manner {
            think: self.think.as_ref().map(|it| it.1),
            tool_wait: self.tool_wait.as_ref().map(|it| it.1),
            repeats_recorded: self.history.as_deref() == Some("recorded"),
            context_tokens: self.context,
            drops_oldest: self.drop_oldest,
            session_header: self.session_header.clone(),
            session_key: self.session_key.clone(),
            starts_cold: self.cold_start,
            keeps_moments: false,
        };
        let source = ConversationSource { texts, manner };
        Some(PromptSource::Conversations(Box::new(source)))
    }
}
