//! Conversations as the lines of a requests file.

use fastrand::Rng;
use plan::Dialect;
use plan::distribution::Delay;
use serde_json::{Value, json};

use super::super::body::{Bodies, MAX_TOKENS_DEFAULT};
use super::super::synthetic::add_words;
use super::super::{MAX_FILE_BYTES, Made, RequestsFileError, beginning};
use super::{Conversation, Turn, message};

/// Words of an answer that has no limit of tokens, where one is needed before the run.
const ANSWER_WORDS: u64 = 64;

/// Changes the seed, so that times do not depend on how words are drawn.
const WAITS_STREAM: u64 = 0x632b_e59b_d9b4_e019;

/// How conversations are had.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Manner {
    /// The time to think of turns that have none.
    pub think: Option<Delay>,
    /// How long the tools of turns take that have none. Such a tool says some words.
    pub tool_wait: Option<Delay>,
    /// Requests repeat the recorded answers, and not those of the server.
    pub repeats_recorded: bool,
    /// A turn that would have more tokens is not sent.
    pub context_tokens: Option<u64>,
    /// The oldest turns are left out of it instead.
    pub drops_oldest: bool,
    /// A header with the name of the conversation.
    pub session_header: Option<String>,
    /// A key of the body with the same.
    pub session_key: Option<String>,
    /// Each conversation begins with its first turn, also at the start of the run.
    pub starts_cold: bool,
    /// Conversations begin at their moments. Otherwise, they are not used.
    pub keeps_moments: bool,
}

/// Makes a requests file with a conversation in each line.
///
/// `headers` replace those that a request has anyway.
///
/// # Errors
/// If the endpoint takes no messages, a recorded answer is missing, or the file is too large.
pub fn lines(
    bodies: &Bodies,
    manner: &Manner,
    conversations: impl IntoIterator<Item = Conversation>,
    headers: &[(String, String)],
    seed: u64,
) -> Result<Made, RequestsFileError> {
    let named = manner.session_header.as_ref().map(|name| {
        let id = "{{$conversation.id}}".to_owned();
        (name.clone(), id)
    });
    let begin = beginning(bodies, headers, named, None);
    let body = Value::from(bodies.conversation_body(manner.session_key.as_deref())?);
    let mut made = Made::nothing();
    let mut writer = Writer {
        bodies,
        manner,
        tokens: Box::new(bodies.output_tokens(seed)),
        waits: Rng::with_seed(seed ^ WAITS_STREAM),
        words: Rng::with_seed(seed),
    };
    for conversation in conversations {
        made.note_words(conversation.words());
        let at = conversation.at_ms.filter(|_| manner.keeps_moments);
        let at = at.map_or_else(String::new, |at_ms| format!(",\"at\":{at_ms}"));
        let conversation = writer.value(conversation)?;
        made.text +=
            &format!("{begin}\"body_text\":{body}{at},\"conversation\":{conversation}}}\n");
        if made.text.len() > MAX_FILE_BYTES {
            return Err(RequestsFileError::TooLarge(
                made.prompts,
                MAX_FILE_BYTES >> 20,
            ));
        }
    }
    Ok(made)
}

struct Writer<'b> {
    bodies: &'b Bodies,
    manner: &'b Manner,
    tokens: Box<dyn Iterator<Item = Option<u64>> + 'b>,
    waits: Rng,
    words: Rng,
}

impl Writer<'_> {
    /// The key `conversation` of a line.
    fn value(&mut self, conversation: Conversation) -> Result<Value, RequestsFileError> {
        let Conversation {
            id,
            mut opening,
            turns,
            ..
        } = conversation;
        let dialect = self.bodies.endpoint.dialect;
        let mut system = None;
        if dialect == Dialect::Anthropic {
            (system, opening) = super::super::body::without_system(opening);
        }
        let last = turns.len().saturating_sub(1);
        let turns = turns.into_iter().enumerate().map(|(number, turn)| {
            let is_last = number == last;
            self.turn(turn, is_last)
        });
        let turns: Vec<Value> = turns.collect::<Result<_, _>>()?;
        let mut value = json!({
            "dialect": dialect.name(),
            "repeats_recorded": self.manner.repeats_recorded,
            "drops_oldest": self.manner.drops_oldest,
            "begins_anywhere": !self.manner.starts_cold && turns.len() > 1,
            "opening": opening,
            "turns": turns,
        });
        let mut add = |name: &str, member: Option<Value>| {
            if let Some(member) = member {
                value[name] = member;
            }
        };
        add("id", id.map(Value::from));
        add("system", system.map(Value::from));
        add("context", self.manner.context_tokens.map(Value::from));
        let (before, after) = self.bodies.limit_member();
        add("limit", Some(json!([before, after])));
        Ok(value)
    }

    fn turn(&mut self, turn: Turn, is_last: bool) -> Result<Value, RequestsFileError> {
        let Manner {
            think,
            tool_wait,
            repeats_recorded,
            starts_cold,
            ..
        } = self.manner;
        let max_tokens = self.tokens.next().flatten();
        let of_anthropic =
            (self.bodies.endpoint.dialect == Dialect::Anthropic).then_some(MAX_TOKENS_DEFAULT);
        let max_tokens = turn.max_tokens.or(max_tokens).or(of_anthropic);
        let mut value = json!({"messages": turn.messages});
        let mut drawn_ms = |delay: &Option<Delay>| {
            let delay = delay.as_ref()?;
            Some(delay.sample_ns(&mut self.waits) as f64 / 1e6)
        };
        let think_ms = turn
            .think_ms
            .map(|ms| ms as f64)
            .or_else(|| drawn_ms(think));
        if let Some(think_ms) = think_ms {
            value["think_ms"] = think_ms.into();
        }
        if let Some(tokens) = max_tokens {
            value["max_tokens"] = tokens.into();
        }
        match (turn.tool, drawn_ms(tool_wait)) {
            (Some(tool), _) => {
                value["tool"] = json!({"result": tool.result, "wait_ms": tool.wait_ms});
            }
            (None, Some(wait_ms)) => {
                let result = self.some_words(ANSWER_WORDS / 4);
                value["tool"] = json!({"result": result, "wait_ms": wait_ms});
            }
            (None, None) => {}
        }
        match turn.answer {
            // The last one is never repeated.
            _ if is_last => {}
            Some(answer) => value["answer"] = answer,
            None if *repeats_recorded => return Err(RequestsFileError::NoAnswer),
            None if *starts_cold => {}
            None => {
                let text = self.some_words(max_tokens.unwrap_or(ANSWER_WORDS));
                value["answer"] = message("assistant", &text);
            }
        }
        Ok(value)
    }

    fn some_words(&mut self, words: u64) -> String {
        let mut text = String::new();
        add_words(&mut text, words, &mut self.words);
        text
    }
}

impl Conversation {
    /// Words that it adds itself: those of its opening and of what its user says.
    fn words(&self) -> u64 {
        let turns = self.turns.iter().flat_map(|turn| &turn.messages);
        let texts = self.opening.iter().chain(turns);
        let texts = texts.filter_map(|message| message["content"].as_str());
        texts
            .map(|text| text.split_whitespace().count() as u64)
            .sum()
    }
}
