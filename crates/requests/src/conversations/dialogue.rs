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
///
/// It keeps only what the server has said. What the file says is read from the [`Conversation`]
/// each time, so that a thousand users of one long conversation need its text once.
#[derive(Debug, Clone)]
pub struct Dialogue {
    /// The turn that is sent next or was sent last, from 0.
    turn: usize,
    /// The oldest turn that requests still repeat.
    oldest: usize,
    /// How often tools were called in this turn.
    tool_rounds: u32,
    /// What follows the messages of each turn before this one, and of this one if it has called
    /// tools.
    replies: Vec<Reply>,
    /// What the server has counted of the last request and its answer.
    counted: Option<CountedTokens>,
}

/// Messages after those of a turn.
#[derive(Debug, Clone)]
enum Reply {
    /// The answer that the file has for this turn, if it has one.
    Recorded,
    /// What the server has said in this run, and the results of its calls of tools.
    Live(Vec<u8>),
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
    /// counted, and for each byte more or fewer as many as the request had.
    fn with_rest(&self, bytes: usize) -> u64 {
        let per_byte = self.prompt as f64 / self.prompt_bytes.max(1) as f64;
        let rest = (bytes as f64 - self.bytes as f64) * per_byte;
        let tokens = (self.prompt.saturating_add(self.answer)) as f64 + rest;
        tokens.ceil() as u64
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
        let turn = turn.min(conversation.turns.len().saturating_sub(1));
        Self {
            turn,
            oldest: 0,
            tool_rounds: 0,
            replies: vec![Reply::Recorded; turn],
            counted: None,
        }
    }

    /// The turn that is sent next or was sent last, from 0.
    #[must_use]
    pub fn turn(&self) -> usize {
        self.turn
    }

    /// How many of the turns before are no longer repeated.
    #[must_use]
    pub fn dropped_turns(&self) -> usize {
        self.oldest
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let said = self.replies.iter().map(|reply| match reply {
            Reply::Recorded => 0,
            Reply::Live(messages) => messages.capacity(),
        });
        said.sum::<usize>() + self.replies.capacity() * size_of::<Reply>()
    }

    /// The messages of the next request, in pieces that are not empty.
    fn pieces<'d>(&'d self, conversation: &'d Conversation) -> impl Iterator<Item = &'d [u8]> {
        let turns = (self.oldest..=self.turn).flat_map(move |turn| {
            let asked = conversation.turns.get(turn);
            [
                asked.map_or(&[][..], |turn| &turn.messages),
                self.reply(conversation, turn),
            ]
        });
        let all = std::iter::once(&conversation.opening[..]).chain(turns);
        all.filter(|piece| !piece.is_empty())
    }

    /// The messages after those of a turn.
    fn reply<'d>(&'d self, conversation: &'d Conversation, turn: usize) -> &'d [u8] {
        let recorded = || conversation.turns.get(turn)?.answer.as_deref();
        match self.replies.get(turn) {
            Some(Reply::Recorded) => recorded().unwrap_or_default(),
            Some(Reply::Live(messages)) => messages,
            None => &[],
        }
    }

    /// Bytes of the messages of the next request, with commas between them.
    fn messages_bytes(&self, conversation: &Conversation) -> usize {
        self.pieces(conversation).map(|piece| piece.len() + 1).sum()
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
        for (number, piece) in self.pieces(conversation).enumerate() {
            output.extend_from_slice(if number > 0 { b"," } else { b"" });
            output.extend_from_slice(piece);
        }
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
        mut answer: Answer,
        usage: &Usage,
    ) -> NextTurn {
        let prompt_bytes = self.messages_bytes(conversation);
        let turn = &conversation.turns[self.turn];
        let repeats_recorded = rules.repeats_recorded && turn.answer.is_some();
        if !repeats_recorded
            && let Some((result, wait_ns)) = &turn.tool
            && !answer.calls.is_empty()
            && self.tool_rounds < TOOL_ROUNDS_MAX
        {
            self.say(&messages::of_answer(&answer, rules.dialect));
            self.count(conversation, usage, prompt_bytes);
            self.say(&messages::of_results(&answer.calls, result, rules.dialect));
            self.tool_rounds += 1;
            return self.unless_too_long(conversation, rules, *wait_ns);
        }
        if self.turn + 1 >= conversation.turns.len() {
            return NextTurn::Ended(ConversationEnd::Done);
        }
        if repeats_recorded {
            self.replies.push(Reply::Recorded);
        } else {
            // A call without a result would be refused.
            answer.calls.clear();
            self.say(&messages::of_answer(&answer, rules.dialect));
        }
        self.count(conversation, usage, prompt_bytes);
        self.turn += 1;
        self.tool_rounds = 0;
        let think_ns = conversation.turns[self.turn].think_ns;
        self.unless_too_long(conversation, rules, think_ns)
    }

    /// Adds messages to what follows those of this turn. It takes no more memory than they need:
    /// thousands of conversations wait with all that was said.
    fn say(&mut self, said: &[u8]) {
        if self.replies.len() <= self.turn {
            self.replies.push(Reply::Live(Vec::new()));
        }
        if let Some(Reply::Live(messages)) = self.replies.last_mut() {
            messages.reserve_exact(said.len() + usize::from(!messages.is_empty()));
            messages::append(messages, said);
        }
    }

    /// Takes what the server has counted. The last message is the answer.
    fn count(&mut self, conversation: &Conversation, usage: &Usage, prompt_bytes: usize) {
        let counts = usage.prompt.zip(usage.completion);
        self.counted = counts.map(|(prompt, answer)| CountedTokens {
            prompt,
            prompt_bytes,
            answer,
            bytes: self.messages_bytes(conversation),
        });
    }

    /// The next turn, unless it would be too long with the limit of its answer.
    fn unless_too_long(
        &mut self,
        conversation: &Conversation,
        rules: &ConversationRules,
        wait_ns: u64,
    ) -> NextTurn {
        let answer_tokens = conversation.turns[self.turn].max_tokens.unwrap_or(0);
        let (Some(counted), Some(most)) = (self.counted, rules.context_tokens) else {
            return NextTurn::After(wait_ns);
        };
        loop {
            let tokens = counted.with_rest(self.messages_bytes(conversation));
            if tokens.saturating_add(answer_tokens) <= most {
                return NextTurn::After(wait_ns);
            }
            if !rules.drops_oldest || self.oldest == self.turn {
                return NextTurn::Ended(ConversationEnd::Context);
            }
            if let Some(reply) = self.replies.get_mut(self.oldest) {
                *reply = Reply::Recorded;
            }
            self.oldest += 1;
        }
    }
}
