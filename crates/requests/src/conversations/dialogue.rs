//! One conversation as it goes on.

use plan::Dialect;
use protocol::llm::{Answer, Usage};

use super::messages;
use super::{Conversation, ConversationRules};

/// The most rounds of tools in one turn: a model that calls tools again and again would never end
/// its turn.
const TOOL_ROUNDS_MAX: u32 = 8;

/// A conversation that is going on.
///
/// It has no clock and no connection: it says what the next request has, takes the answer to it,
/// and says how long to wait for the request after that. So a worker can have thousands of them,
/// most of which wait.
#[derive(Debug, Clone)]
pub struct Dialogue {
    /// The turn that is sent next or was sent last, from 0.
    turn: usize,
    /// How often tools were called in this turn.
    tool_rounds: u32,
    /// The messages of the next request, with commas between them.
    messages: Vec<u8>,
    /// What the server has counted of the last request and its answer.
    counted: Option<CountedTokens>,
}

/// Tokens by the server's own counts.
#[derive(Debug, Clone, Copy)]
struct CountedTokens {
    /// Those of the request.
    prompt: u64,
    /// Bytes of its messages.
    prompt_bytes: usize,
    /// Those of the answer.
    answer: u64,
    /// Bytes of all messages up to the answer.
    bytes: usize,
}

impl CountedTokens {
    /// About how many tokens there are in messages of so many bytes: those that the server has
    /// counted, and as many for each byte of the rest as the request had.
    fn with_rest(&self, bytes: usize) -> u64 {
        let per_byte = self.prompt as f64 / self.prompt_bytes.max(1) as f64;
        let rest = bytes.saturating_sub(self.bytes) as f64 * per_byte;
        self.prompt + self.answer + rest.ceil() as u64
    }
}

/// What follows an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextTurn {
    /// Another request, so long after the end of the answer, nanoseconds.
    After(u64),
    /// Nothing.
    Ended(ConversationEnd),
}

/// Why a conversation has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConversationEnd {
    /// All turns are done.
    Done,
    /// The next turn would have too many tokens ([`ConversationRules::context_tokens`]).
    Context,
    /// A request has failed.
    Failed,
}

impl Dialogue {
    /// A conversation whose next turn is this one, from 0. The turns before it are taken to be
    /// done, with their recorded answers.
    #[must_use]
    pub fn at_turn(conversation: &Conversation, turn: usize) -> Self {
        let mut dialogue = Self {
            turn: turn.min(conversation.turns.len().saturating_sub(1)),
            tool_rounds: 0,
            messages: conversation.opening.clone(),
            counted: None,
        };
        for done in &conversation.turns[..dialogue.turn] {
            messages::append(&mut dialogue.messages, &done.messages);
            let answer = done.answer.as_deref().unwrap_or_default();
            messages::append(&mut dialogue.messages, answer);
        }
        dialogue.ask(conversation);
        dialogue
    }

    /// The turn that is sent next or was sent last, from 0.
    #[must_use]
    pub fn turn(&self) -> usize {
        self.turn
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.messages.capacity()
    }

    /// The members of the next request's body that say what was said, such as `"messages":[...]`,
    /// and how many tokens the answer may have.
    pub fn write_members(
        &self,
        conversation: &Conversation,
        rules: &ConversationRules,
        output: &mut Vec<u8>,
    ) {
        let dialect = rules.dialect;
        if dialect == Dialect::Anthropic && !conversation.system.is_empty() {
            output.extend_from_slice(b"\"system\":\"");
            output.extend_from_slice(&conversation.system);
            output.extend_from_slice(b"\",");
        }
        output.extend_from_slice(match dialect {
            Dialect::Responses => b"\"input\":[".as_slice(),
            _ => b"\"messages\":[",
        });
        output.extend_from_slice(&self.messages);
        output.push(b']');
        let turn = conversation.turns.get(self.turn);
        let tokens = turn.and_then(|turn| turn.max_tokens);
        if let Some((tokens, limit)) = tokens.zip(rules.limit.as_ref()) {
            let member = format!(",{}{tokens}{}", limit.before, limit.after);
            output.extend_from_slice(member.as_bytes());
        }
    }

    /// The answer to the last request is complete. `answer` is what the server has said.
    pub fn answered(
        &mut self,
        conversation: &Conversation,
        rules: &ConversationRules,
        answer: &Answer,
        usage: &Usage,
    ) -> NextTurn {
        let prompt_bytes = self.messages.len();
        let turn = &conversation.turns[self.turn];
        let recorded = turn.answer.as_deref().filter(|_| rules.repeats_recorded);
        if recorded.is_none()
            && let Some((result, wait_ns)) = &turn.tool
            && !answer.calls.is_empty()
            && self.tool_rounds < TOOL_ROUNDS_MAX
        {
            let said = messages::of_answer(answer, rules.dialect);
            let results = messages::of_results(&answer.calls, result, rules.dialect);
            messages::append(&mut self.messages, &said);
            self.count(usage, prompt_bytes);
            messages::append(&mut self.messages, &results);
            self.tool_rounds += 1;
            return self.unless_too_long(conversation, rules, *wait_ns);
        }
        if self.turn + 1 >= conversation.turns.len() {
            return NextTurn::Ended(ConversationEnd::Done);
        }
        match recorded {
            Some(recorded) => messages::append(&mut self.messages, recorded),
            None => {
                // A call without a result would be refused.
                let text = Answer {
                    text: answer.text.clone(),
                    ..Answer::default()
                };
                let said = messages::of_answer(&text, rules.dialect);
                messages::append(&mut self.messages, &said);
            }
        }
        self.count(usage, prompt_bytes);
        self.turn += 1;
        self.tool_rounds = 0;
        self.ask(conversation);
        let think_ns = conversation.turns[self.turn].think_ns;
        self.unless_too_long(conversation, rules, think_ns)
    }

    /// Takes what the server has counted. The last message is the answer.
    fn count(&mut self, usage: &Usage, prompt_bytes: usize) {
        let counts = usage.prompt.zip(usage.completion);
        self.counted = counts.map(|(prompt, answer)| CountedTokens {
            prompt,
            prompt_bytes,
            answer,
            bytes: self.messages.len(),
        });
    }

    /// The messages of the turn follow those before.
    fn ask(&mut self, conversation: &Conversation) {
        if let Some(turn) = conversation.turns.get(self.turn) {
            messages::append(&mut self.messages, &turn.messages);
        }
    }

    /// The next turn, unless it would be too long with the limit of its answer.
    fn unless_too_long(
        &self,
        conversation: &Conversation,
        rules: &ConversationRules,
        wait_ns: u64,
    ) -> NextTurn {
        let answer_tokens = conversation.turns[self.turn].max_tokens.unwrap_or(0);
        let counted = self.counted.as_ref();
        let tokens = counted.map(|counted| counted.with_rest(self.messages.len()));
        let tokens = tokens.map(|tokens| tokens.saturating_add(answer_tokens));
        match (tokens, rules.context_tokens) {
            (Some(tokens), Some(most)) if tokens > most => {
                NextTurn::Ended(ConversationEnd::Context)
            }
            _ => NextTurn::After(wait_ns),
        }
    }
}
