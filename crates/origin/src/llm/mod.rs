//! Bodies like those of a language model's server: the description.

mod dialect;
mod generation;
mod interface;
mod prefix_cache;
mod prompt_count;
mod token_limit;

pub(crate) use generation::{Generation, Running, Turn};
pub(crate) use interface::{JsonAnswer, answer, has_key, key_of};
pub(crate) use prefix_cache::PrefixCache;

use plan::{Dialect, InvalidValue};
use prompt_count::prompt_parts;
use token_limit::tokens_asked;

use crate::delay::{Count, Delay};
use crate::events::EVENTS_MAX;
use crate::quantity::{parse_count, parse_duration_ns};

/// The names of the parameters.
pub(crate) const NAMES: [&str; 17] = [
    "llm",
    "tokens",
    "reasoning",
    "tool",
    "per-event",
    "prelude",
    "usage",
    "prompt",
    "cached",
    "prefill",
    "finish",
    "llm-error",
    "llm-cut",
    "comments",
    "batch",
    "models",
    "api-key",
];

/// The largest number of prompt tokens: more than any context window has.
const PROMPT_MAX: u64 = 1_000_000_000;
/// The largest number of streams that `batch` takes: more than a server has sockets.
const BATCH_MAX: u64 = 1_000_000;
/// The shortest interval of comments, in nanoseconds: shorter ones would be a stream of comments.
const COMMENTS_MIN_NS: u64 = 1_000_000;

/// The most names of models: some servers list hundreds.
const MODELS_MAX: usize = 1_000;

/// Where a stream says how many tokens it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// Where the interface has it: mostly at the end.
    Final,
    /// Also in each event, as vLLM's continuous usage.
    Each,
    /// Nowhere.
    None,
}

/// Why a generation ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model had no more to say, or calls a tool.
    Stop,
    /// It reached the limit of tokens.
    Length,
}

/// The description of a language model's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmStream {
    /// Whose events it has; `None` if the body is no such stream.
    pub dialect: Option<Dialect>,
    /// Tokens of output in all channels.
    pub tokens: Count,
    /// The body of a request says how many instead; `tokens` if it does not.
    pub is_asked: bool,
    /// How many of them are reasoning, which comes first.
    pub reasoning: u64,
    /// How many of the others are arguments of a tool call, which comes last.
    pub tool: u64,
    /// Tokens in an event, at least 1. An event has tokens of one channel.
    pub per_event: u64,
    /// From the head to the events before the first token; `None` without such events.
    pub prelude: Option<Delay>,
    /// Where numbers of tokens are reported.
    pub usage: Usage,
    /// Tokens of the prompt that are reported.
    pub prompt: u64,
    /// Those in the body of a request are reported instead; `prompt` if it has none.
    pub counts_prompt: bool,
    /// How many of them were cached, at most all.
    pub cached: u64,
    /// The time that the first token waits for each token of the prompt that was not read before,
    /// nanoseconds; `None` for a server without a cache of prompts.
    pub prefill_ns: Option<u64>,
    /// The reported reason of the end.
    pub finish: Finish,
    /// After this many events with tokens comes an error instead of what follows.
    pub error_after: Option<u64>,
    /// After this many events with tokens the body ends, without anything that says so.
    pub cut_after: Option<u64>,
    /// A comment when nothing was sent for this long, in nanoseconds.
    pub comments_ns: Option<u64>,
    /// The number of other streams that double the gap.
    pub batch: Option<u64>,
    /// The names of the models, in the order in which they are listed.
    pub models: Vec<String>,
    /// The key that requests must have; `None` if they need none.
    pub api_key: Option<String>,
}

impl Default for LlmStream {
    fn default() -> Self {
        Self {
            dialect: None,
            tokens: Count::fixed(64),
            is_asked: false,
            reasoning: 0,
            tool: 0,
            per_event: 1,
            prelude: Some(Delay::NONE),
            usage: Usage::Final,
            prompt: 16,
            counts_prompt: false,
            cached: 0,
            prefill_ns: None,
            finish: Finish::Stop,
            error_after: None,
            cut_after: None,
            comments_ns: None,
            batch: None,
            models: vec!["wrkbench".to_owned()],
            api_key: None,
        }
    }
}

/// Whether events before the first token are usual.
pub(crate) fn has_prelude(dialect: Dialect) -> bool {
    !matches!(dialect, Dialect::Completions | Dialect::Ollama)
}

impl LlmStream {
    /// Sets the parameter of this name, which is one of [`NAMES`].
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidValue> {
        match (name, value) {
            ("llm", "none") => *self = Self::default(),
            ("llm", _) => self.dialect = Some(parse_dialect(value)?),
            ("tokens", "asked") => self.is_asked = true,
            ("tokens", _) => {
                self.tokens = Count::parse(value, EVENTS_MAX)?;
                self.is_asked = false;
            }
            ("reasoning", _) => self.reasoning = parse_count(value, EVENTS_MAX)?,
            ("tool", _) => self.tool = parse_count(value, EVENTS_MAX)?,
            ("per-event", _) => self.per_event = parse_positive(value, EVENTS_MAX)?,
            ("prelude", "none") => self.prelude = None,
            ("prelude", _) => self.prelude = Some(Delay::parse(value)?),
            ("usage", _) => self.usage = parse_usage(value)?,
            ("prompt", "counted") => self.counts_prompt = true,
            ("prompt", _) => {
                self.prompt = parse_count(value, PROMPT_MAX)?;
                self.counts_prompt = false;
            }
            ("cached", _) => self.cached = parse_count(value, PROMPT_MAX)?,
            ("prefill", "none") => self.prefill_ns = None,
            ("prefill", _) => self.prefill_ns = Some(parse_duration_ns(value)?),
            ("finish", "stop") => self.finish = Finish::Stop,
            ("finish", "length") => self.finish = Finish::Length,
            ("llm-error", "none") => self.error_after = None,
            ("llm-error", _) => self.error_after = Some(parse_count(value, EVENTS_MAX)?),
            ("llm-cut", "none") => self.cut_after = None,
            ("llm-cut", _) => self.cut_after = Some(parse_count(value, EVENTS_MAX)?),
            ("comments", "none") => self.comments_ns = None,
            ("comments", _) => self.comments_ns = Some(parse_comments_ns(value)?),
            ("batch", "none") => self.batch = None,
            ("models", "none") => self.models.clear(),
            ("models", _) => self.models = parse_models(value)?,
            ("api-key", "none") => self.api_key = None,
            ("api-key", _) => self.api_key = Some(value.to_owned()),
            ("batch", _) => self.batch = Some(parse_positive(value, BATCH_MAX)?),
            _ => {
                return Err(format!("`{value}` is not an end: expected stop or length").into());
            }
        }
        Ok(())
    }

    /// Whether the answer depends on the body of the request.
    pub(crate) fn needs_body(&self) -> bool {
        self.dialect.is_some() && (self.is_asked || self.counts_prompt || self.prefill_ns.is_some())
    }

    /// Takes from the body of a request what it determines. `known` has the prompts before it.
    pub(crate) fn read_request(&mut self, body: &[u8], known: &PrefixCache) {
        if let Some(tokens) = tokens_asked(body).filter(|_| self.is_asked) {
            self.tokens = Count::fixed(tokens);
        }
        let reads_prompt = self.counts_prompt || self.prefill_ns.is_some();
        let Some(parts) = reads_prompt.then(|| prompt_parts(body)).flatten() else {
            return;
        };
        self.prompt = parts.iter().map(|part| part.tokens).sum();
        self.cached = match self.prefill_ns {
            Some(_) => known.read(&parts),
            None => self.cached.min(self.prompt),
        };
    }

    /// How long the first token waits for the prompt to be read, nanoseconds.
    fn reading_ns(&self) -> u64 {
        let new = self.prompt.saturating_sub(self.cached);
        self.prefill_ns.map_or(0, |ns| ns.saturating_mul(new))
    }

    /// Rejects what the dialect does not have.
    pub(crate) fn check(&self) -> Result<(), InvalidValue> {
        let Some(dialect) = self.dialect else {
            return Ok(());
        };
        let is_old = dialect == Dialect::Completions;
        let is_lines = dialect == Dialect::Ollama;
        if self.usage == Usage::Each && !matches!(dialect, Dialect::OpenAi | Dialect::Completions) {
            return Err("usage: `each` needs llm=openai or llm=completions".into());
        }
        if self.reasoning > 0 && is_old {
            return Err("reasoning: llm=completions has no reasoning".into());
        }
        if self.tool > 0 && (is_old || is_lines) {
            return Err("tool: needs llm=openai, responses or anthropic".into());
        }
        if self.comments_ns.is_some() && is_lines {
            return Err("comments: llm=ollama has lines of JSON and no comments".into());
        }
        if self.cached > self.prompt && !self.counts_prompt {
            let Self { cached, prompt, .. } = self;
            return Err(
                format!("cached: {cached} is more than the {prompt} tokens of the prompt").into(),
            );
        }
        Ok(())
    }
}

fn parse_dialect(text: &str) -> Result<Dialect, InvalidValue> {
    let mut all = Dialect::ALL.into_iter();
    let found = all.find(|dialect| dialect.name() == text);
    found.ok_or_else(|| {
        let names = Dialect::ALL.map(Dialect::name).join(", ");
        InvalidValue::new(format!("`{text}` is not a dialect: expected {names}"))
    })
}

fn parse_usage(text: &str) -> Result<Usage, InvalidValue> {
    match text {
        "final" => Ok(Usage::Final),
        "each" => Ok(Usage::Each),
        "none" => Ok(Usage::None),
        _ => Err(format!("`{text}` is not a usage: expected final, each or none").into()),
    }
}

fn parse_positive(text: &str, max: u64) -> Result<u64, InvalidValue> {
    let count = parse_count(text, max).ok().filter(|&count| count > 0);
    count.ok_or_else(|| InvalidValue::new(format!("`{text}` is not a number from 1 to {max}")))
}

fn parse_models(text: &str) -> Result<Vec<String>, InvalidValue> {
    let names: Vec<String> = text.split(',').map(str::to_owned).collect();
    if names.iter().any(String::is_empty) || names.len() > MODELS_MAX {
        Err(format!("`{text}` is not a list: expected 1 to {MODELS_MAX} names like a,b").into())
    } else {
        Ok(names)
    }
}

fn parse_comments_ns(text: &str) -> Result<u64, InvalidValue> {
    match parse_duration_ns(text)? {
        ns @ COMMENTS_MIN_NS.. => Ok(ns),
        _ => Err(format!("`{text}` is not an interval: expected at least 1ms").into()),
    }
}

#[cfg(test)]
mod tests {
    use crate::recipe::Recipe;

    #[test]
    fn wrong_values_are_refused_with_the_name_of_the_parameter() {
        for option in [
            "llm=gpt",
            "llm",
            "tokens=x",
            "tokens=100001",
            "tokens=uniform:9,1",
            "tokens=lognormal:9,x",
            "tokens=5ms",
            "tokens=weibull:3",
            "reasoning=-1",
            "reasoning=100001",
            "tool=x",
            "per-event=0",
            "prelude=5",
            "usage=sometimes",
            "prompt=exp:5",
            "cached=x",
            "prefill=fast",
            "finish=error",
            "llm-error=x",
            "llm-cut=x",
            "comments=5us",
            "comments=often",
            "batch=0",
            "batch=1.5",
            "models=a,,b",
            "models",
            "api-key",
        ] {
            let name = option.split('=').next().unwrap_or_default();
            for found in [
                Recipe::from_text(&format!("llm=openai&{option}")),
                Recipe::default().changed_by(&format!("/?llm=openai&{option}")),
            ] {
                let why = found.expect_err(option).to_string();
                assert!(why.starts_with(&format!("{name}: ")), "{option}: {why}");
                assert!(!why.contains('\n'), "{why}");
            }
        }
    }

    #[test]
    fn what_a_dialect_does_not_have_is_refused() {
        for options in [
            "llm=ollama&usage=each",
            "llm=anthropic&usage=each",
            "llm=responses&usage=each",
            "llm=completions&reasoning=1",
            "llm=completions&tool=1",
            "llm=ollama&tool=1",
            "llm=ollama&comments=1s",
            "llm=openai&cached=17",
            "llm=openai&prompt=5&cached=6",
            "llm=openai&events=5",
            "llm=openai&echo",
        ] {
            assert!(Recipe::from_text(options).is_err(), "{options}");
            let target = format!("/v1/?{options}");
            assert!(Recipe::default().changed_by(&target).is_err(), "{options}");
        }
    }

    #[test]
    fn a_request_can_undo_what_the_defaults_say() {
        let defaults = Recipe::from_text(
            "llm=openai&prelude=none&llm-error=1&comments=1s&batch=4&usage=each&tokens=5",
        )
        .unwrap();
        let undone = defaults.changed_by(
            "/?prelude=0&llm-error=none&comments=none&batch=none&usage=final&tokens=64",
        );
        assert_eq!(undone, Recipe::from_text("llm=openai"));
        assert_eq!(defaults.changed_by("/?llm=none"), Ok(Recipe::default()));
    }
}
