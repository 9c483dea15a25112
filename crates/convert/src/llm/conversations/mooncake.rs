//! Mooncake's traces: lengths instead of texts, a line for each request. Lines of one session are
//! the turns of a conversation.
//!
//! The format is that of the traces of <https://github.com/kvcache-ai/Mooncake>, with `session_id`
//! and `delay` as later collections have them. A block of `hash_ids` stands for 512 tokens, so that
//! equal numbers become equal texts: what a cache of prefixes finds in the trace, it finds in the
//! run.

use std::collections::HashMap;

use fastrand::Rng;
use serde::Deserialize;

use super::super::MAX_WORDS;
use super::super::synthetic::add_words;
use super::{Conversation, Turn, message};

/// What only such lines have.
pub(super) const KEY: &str = "\"input_length\"";

/// Tokens of a block.
const BLOCK_TOKENS: u64 = 512;

/// The keys of a line.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    #[serde(default)]
    session_id: Option<serde_json::Value>,
    /// Milliseconds on the clock of the trace.
    #[serde(default)]
    timestamp: Option<f64>,
    /// Milliseconds after the answer before it.
    #[serde(default)]
    delay: Option<f64>,
    input_length: u64,
    output_length: u64,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

/// The conversations of a trace, in the order in which they begin.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    conversations: Vec<Session>,
    by_id: HashMap<String, usize>,
}

#[derive(Debug)]
struct Session {
    conversation: Conversation,
    /// Tokens of the last request and its answer.
    tokens: u64,
    timestamp_ms: f64,
}

impl Sessions {
    /// Adds the next line.
    pub(super) fn add(&mut self, line: &Line) {
        let id = line.session_id.as_ref().map(|id| {
            let text = id.as_str().map(str::to_owned);
            text.unwrap_or_else(|| id.to_string())
        });
        let known = id.as_ref().and_then(|id| self.by_id.get(id)).copied();
        let timestamp_ms = line.timestamp.unwrap_or(0.0).max(0.0);
        let total = line.input_length.saturating_add(line.output_length);
        let session = match known {
            Some(at) => &mut self.conversations[at],
            None => {
                if let Some(id) = &id {
                    self.by_id.insert(id.clone(), self.conversations.len());
                }
                self.conversations.push(Session {
                    conversation: Conversation {
                        id,
                        at_ms: line.timestamp.map(|_| timestamp_ms as u64),
                        opening: Vec::new(),
                        turns: Vec::new(),
                    },
                    tokens: 0,
                    timestamp_ms,
                });
                let last = self.conversations.len() - 1;
                &mut self.conversations[last]
            }
        };
        let words = line.input_length.saturating_sub(session.tokens).max(1);
        let text = text(line, words.min(MAX_WORDS), session.tokens);
        let think_ms = match (line.delay, known) {
            (Some(delay_ms), _) => delay_ms.max(0.0),
            // The time of the answer is a part of it, as the trace does not say how long that took.
            (None, Some(_)) => (timestamp_ms - session.timestamp_ms).max(0.0),
            (None, None) => 0.0,
        };
        session.tokens = total;
        session.timestamp_ms = timestamp_ms;
        session.conversation.turns.push(Turn {
            max_tokens: Some(line.output_length.max(1)),
            think_ms: Some(think_ms.round() as u64),
            ..Turn::asking(message("user", &text))
        });
    }

    /// All of them.
    pub(super) fn finish(self) -> Vec<Conversation> {
        let conversations = self.conversations.into_iter();
        conversations.map(|session| session.conversation).collect()
    }
}

/// So many words, after those that were said before: of each block the same ones.
fn text(line: &Line, words: u64, before: u64) -> String {
    let mut text = String::new();
    let mut left = words;
    let first = before.div_ceil(BLOCK_TOKENS) as usize;
    for id in line.hash_ids.iter().skip(first) {
        let of_block = left.min(BLOCK_TOKENS);
        add_words(&mut text, of_block, &mut Rng::with_seed(*id));
        left -= of_block;
    }
    let seed = line.hash_ids.last().copied().unwrap_or(words) ^ before;
    add_words(&mut text, left, &mut Rng::with_seed(!seed));
    text
}
