//! The bytes of each dialect's events.

use std::fmt;
use std::io::Write as _;
use std::ops::Range;

use super::{Dialect, Finish, LlmStream, Usage};

/// The text of a token is a space and one of these, so that words can be counted. None needs an
/// escape in JSON, not even within a string of arguments.
const WORDS: [&str; 16] = [
    "the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "then", "naïve",
    "cats", "sleep", "on", "mats",
];

/// Whether a text is one that is generated here: words in the order of a generation.
pub(super) fn is_generated(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let first = words.next();
    let first = first.and_then(|first| WORDS.iter().position(|word| *word == first));
    first.is_some_and(|at| {
        let next = WORDS.iter().cycle().skip(at + 1);
        words.zip(next).all(|(word, expected)| word == *expected)
    })
}

/// What an error says.
const ERROR: &str = "the engine failed in mid-stream";

/// A kind of generated text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    Reasoning,
    Text,
    Tool,
}

/// How many tokens of a generation are in which channel, in the order of the channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Split {
    reasoning: u64,
    text: u64,
    tool: u64,
}

impl Split {
    pub(super) fn new(tokens: u64, llm: &LlmStream) -> Self {
        let reasoning = llm.reasoning.min(tokens);
        let tool = llm.tool.min(tokens - reasoning);
        Self {
            reasoning,
            text: tokens - reasoning - tool,
            tool,
        }
    }

    pub(super) fn tokens(&self) -> u64 {
        self.reasoning + self.text + self.tool
    }

    /// Events with tokens, if one has at most this many.
    pub(super) fn events(&self, per_event: u64) -> u64 {
        let channels = [self.reasoning, self.text, self.tool];
        channels
            .map(|tokens| tokens.div_ceil(per_event))
            .iter()
            .sum()
    }

    /// The channel of a token.
    pub(super) fn channel(&self, token: u64) -> Channel {
        match token {
            _ if token < self.reasoning => Channel::Reasoning,
            _ if token < self.reasoning + self.text => Channel::Text,
            _ => Channel::Tool,
        }
    }

    /// The tokens of a channel.
    pub(super) fn range(&self, channel: Channel) -> Range<u64> {
        let text_end = self.reasoning + self.text;
        match channel {
            Channel::Reasoning => 0..self.reasoning,
            Channel::Text => self.reasoning..text_end,
            Channel::Tool => text_end..self.tokens(),
        }
    }

    /// The channels that have tokens.
    fn channels(self) -> impl Iterator<Item = Channel> {
        [Channel::Reasoning, Channel::Text, Channel::Tool]
            .into_iter()
            .filter(move |channel| !self.range(*channel).is_empty())
    }

    /// The place of a channel among those that have tokens.
    fn index(&self, channel: Channel) -> usize {
        self.channels()
            .position(|one| one == channel)
            .unwrap_or_default()
    }
}

/// Writes the events of one generation.
pub(super) struct Writer<'a> {
    pub(super) llm: &'a LlmStream,
    pub(super) dialect: Dialect,
    pub(super) split: Split,
    /// The next number of an event; only the dialect of responses has them.
    pub(super) sequence: &'a mut u64,
    pub(super) output: &'a mut Vec<u8>,
}

const CHAT: &str = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\
                    \"created\":0,\"model\":\"wrkbench\",\"choices\":[";
const COMPLETION: &str = "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\
                          \"created\":0,\"model\":\"wrkbench\",\"choices\":[";
const OLLAMA: &str = "{\"model\":\"wrkbench\",\"created_at\":\"1970-01-01T00:00:00Z\",\
                      \"message\":{\"role\":\"assistant\",\"content\":\"";

impl Writer<'_> {
    /// What comes before the first token.
    pub(super) fn prelude(&mut self) {
        match self.dialect {
            Dialect::OpenAi => {
                self.push(CHAT);
                self.push("{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}");
                self.end_chunk(None, 0);
            }
            Dialect::Completions | Dialect::Ollama => {}
            Dialect::Responses => {
                for name in ["response.created", "response.in_progress"] {
                    self.begin(name);
                    self.response("in_progress");
                }
            }
            Dialect::Anthropic => {
                self.begin("message_start");
                self.push(
                    ",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\
                     \"model\":\"wrkbench\",\"content\":[],\"stop_reason\":null,\
                     \"stop_sequence\":null",
                );
                if self.llm.usage != Usage::None {
                    let LlmStream { prompt, cached, .. } = *self.llm;
                    // The two exclude each other, and the first report of output is no total.
                    self.print(format_args!(
                        ",\"usage\":{{\"input_tokens\":{},\"cache_read_input_tokens\":{cached},\
                         \"output_tokens\":1}}",
                        prompt - cached
                    ));
                }
                self.push("}}\n\n");
            }
        }
    }

    /// An event with these tokens, which are of one channel. What begins or ends a channel comes
    /// with its first and last token.
    pub(super) fn tokens(&mut self, tokens: Range<u64>) {
        let channel = self.split.channel(tokens.start);
        let all = self.split.range(channel);
        match self.dialect {
            Dialect::OpenAi => self.chat(channel, tokens),
            Dialect::Completions => {
                self.push(COMPLETION);
                self.push("{\"index\":0,\"text\":\"");
                self.words(tokens.clone());
                self.push("\",\"logprobs\":null");
                self.end_chunk(None, tokens.end);
            }
            Dialect::Ollama => {
                self.push(OLLAMA);
                if channel == Channel::Reasoning {
                    self.push("\",\"thinking\":\"");
                }
                self.words(tokens);
                self.push("\"},\"done\":false}\n");
            }
            Dialect::Responses | Dialect::Anthropic => {
                if tokens.start == all.start {
                    self.begin_channel(channel);
                }
                let is_last = tokens.end == all.end;
                self.delta(channel, tokens);
                if is_last {
                    self.end_channel(channel);
                }
            }
        }
    }

    /// What follows the last token.
    pub(super) fn end(&mut self) {
        let finish = self.finish();
        let tokens = self.split.tokens();
        match self.dialect {
            Dialect::OpenAi | Dialect::Completions => {
                let head = self.chunk_head();
                self.push(head);
                self.push(match self.dialect {
                    Dialect::OpenAi => "{\"index\":0,\"delta\":{}",
                    _ => "{\"index\":0,\"text\":\"\",\"logprobs\":null",
                });
                self.end_chunk(Some(finish), tokens);
                if self.llm.usage != Usage::None {
                    self.push(head);
                    self.push("],\"usage\":");
                    self.usage(tokens);
                    self.push("}\n\n");
                }
            }
            Dialect::Responses => {
                let name = match self.llm.finish {
                    Finish::Stop => "response.completed",
                    Finish::Length => "response.incomplete",
                };
                self.begin(name);
                self.response(finish);
            }
            Dialect::Anthropic => {
                self.begin("message_delta");
                self.print(format_args!(
                    ",\"delta\":{{\"stop_reason\":\"{finish}\",\"stop_sequence\":null}}"
                ));
                if self.llm.usage != Usage::None {
                    self.print(format_args!(",\"usage\":{{\"output_tokens\":{tokens}}}"));
                }
                self.push("}\n\n");
                self.begin("message_stop");
                self.push("}\n\n");
            }
            Dialect::Ollama => {
                self.push(OLLAMA);
                self.print(format_args!(
                    "\"}},\"done_reason\":\"{finish}\",\"done\":true"
                ));
                if self.llm.usage != Usage::None {
                    let prompt = self.llm.prompt;
                    self.print(format_args!(
                        ",\"prompt_eval_count\":{prompt},\"eval_count\":{tokens}"
                    ));
                }
                self.push("}\n");
            }
        }
    }

    /// An error in mid-stream.
    pub(super) fn error(&mut self) {
        match self.dialect {
            Dialect::OpenAi | Dialect::Completions => self.print(format_args!(
                "data: {{\"error\":{{\"message\":\"{ERROR}\",\"type\":\"server_error\",\
                 \"param\":null,\"code\":500}}}}\n\n"
            )),
            Dialect::Responses => {
                self.begin("response.failed");
                self.response("failed");
            }
            Dialect::Anthropic => {
                self.begin("error");
                self.print(format_args!(
                    ",\"error\":{{\"type\":\"api_error\",\"message\":\"{ERROR}\"}}}}\n\n"
                ));
            }
            Dialect::Ollama => self.print(format_args!("{{\"error\":\"{ERROR}\"}}\n")),
        }
    }

    /// The reason of the end in the words of the dialect.
    fn finish(&self) -> &'static str {
        let calls_tool = self.split.tool > 0;
        match (self.dialect, self.llm.finish) {
            (Dialect::Anthropic, Finish::Length) => "max_tokens",
            (Dialect::Anthropic, Finish::Stop) if calls_tool => "tool_use",
            (Dialect::Anthropic, Finish::Stop) => "end_turn",
            (Dialect::Responses, Finish::Length) => "incomplete",
            (Dialect::Responses, Finish::Stop) => "completed",
            (_, Finish::Length) => "length",
            (_, Finish::Stop) if calls_tool => "tool_calls",
            (_, Finish::Stop) => "stop",
        }
    }

    fn chunk_head(&self) -> &'static str {
        match self.dialect {
            Dialect::Completions => COMPLETION,
            _ => CHAT,
        }
    }

    fn chat(&mut self, channel: Channel, tokens: Range<u64>) {
        self.push(CHAT);
        self.push("{\"index\":0,\"delta\":{");
        match channel {
            Channel::Reasoning => self.push("\"reasoning_content\":\""),
            Channel::Text => self.push("\"content\":\""),
            Channel::Tool if tokens.start == self.split.range(channel).start => self.push(
                "\"tool_calls\":[{\"index\":0,\"id\":\"call_1\",\"type\":\"function\",\
                 \"function\":{\"name\":\"lookup\",\"arguments\":\"",
            ),
            Channel::Tool => {
                self.push("\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"");
            }
        }
        let tokens_so_far = tokens.end;
        self.text(channel, tokens);
        self.push(match channel {
            Channel::Tool => "\"}}]}",
            _ => "\"}",
        });
        self.end_chunk(None, tokens_so_far);
    }

    /// The rest of a chunk of OpenAI's interface after the content of its choice.
    fn end_chunk(&mut self, finish: Option<&str>, tokens_so_far: u64) {
        match finish {
            None => self.push(",\"finish_reason\":null}]"),
            Some(reason) => self.print(format_args!(",\"finish_reason\":\"{reason}\"}}]")),
        }
        if self.llm.usage == Usage::Each {
            self.push(",\"usage\":");
            self.usage(tokens_so_far);
        }
        self.push("}\n\n");
    }

    /// The object that says how many tokens there were until now.
    fn usage(&mut self, tokens: u64) {
        let LlmStream { prompt, cached, .. } = *self.llm;
        let reasoning = self.split.reasoning.min(tokens);
        let [input, output] = match self.dialect {
            Dialect::Responses => ["input", "output"],
            _ => ["prompt", "completion"],
        };
        self.print(format_args!(
            "{{\"{input}_tokens\":{prompt},\"{output}_tokens\":{tokens},\"total_tokens\":{},\
             \"{input}_tokens_details\":{{\"cached_tokens\":{cached}}},\
             \"{output}_tokens_details\":{{\"reasoning_tokens\":{reasoning}}}}}",
            prompt + tokens
        ));
    }

    /// Begins a named event whose data have its name.
    fn begin(&mut self, name: &str) {
        for text in ["event: ", name, "\ndata: {\"type\":\"", name, "\""] {
            self.push(text);
        }
        if self.dialect == Dialect::Responses {
            let number = *self.sequence;
            *self.sequence += 1;
            self.print(format_args!(",\"sequence_number\":{number}"));
        }
    }

    /// The object of a response and the end of its event.
    fn response(&mut self, status: &str) {
        self.print(format_args!(
            ",\"response\":{{\"id\":\"resp_1\",\"object\":\"response\",\"created_at\":0,\
             \"status\":\"{status}\",\"model\":\"wrkbench\""
        ));
        match status {
            "failed" => self.print(format_args!(
                ",\"error\":{{\"code\":\"server_error\",\"message\":\"{ERROR}\"}}"
            )),
            _ => self.push(",\"error\":null"),
        }
        self.push(match status {
            "incomplete" => ",\"incomplete_details\":{\"reason\":\"max_output_tokens\"}",
            _ => ",\"incomplete_details\":null",
        });
        let is_over = matches!(status, "completed" | "incomplete");
        self.push(",\"output\":[");
        for (number, channel) in self.split.channels().filter(|_| is_over).enumerate() {
            self.push(if number == 0 { "" } else { "," });
            self.item(channel, true);
        }
        self.push("],\"usage\":");
        if is_over && self.llm.usage != Usage::None {
            self.usage(self.split.tokens())
        } else {
            self.push("null")
        }
        self.push("}}\n\n");
    }

    /// What comes before the first token of a channel: Anthropic's block, or an output item.
    fn begin_channel(&mut self, channel: Channel) {
        let index = self.split.index(channel);
        if self.dialect == Dialect::Anthropic {
            self.begin("content_block_start");
            let block = match channel {
                Channel::Reasoning => "\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"",
                Channel::Text => "\"type\":\"text\",\"text\":\"\"",
                Channel::Tool => {
                    "\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"lookup\",\"input\":{}"
                }
            };
            return self.print(format_args!(
                ",\"index\":{index},\"content_block\":{{{block}}}}}\n\n"
            ));
        }
        self.begin("response.output_item.added");
        self.print(format_args!(",\"output_index\":{index},\"item\":"));
        self.item(channel, false);
        self.push("}\n\n");
        if channel == Channel::Text {
            self.begin("response.content_part.added");
            self.place(channel);
            self.push(",\"part\":");
            self.part(channel, false);
            self.push("}\n\n");
        }
    }

    fn delta(&mut self, channel: Channel, tokens: Range<u64>) {
        if self.dialect == Dialect::Anthropic {
            self.begin("content_block_delta");
            let index = self.split.index(channel);
            let [kind, field] = match channel {
                Channel::Reasoning => ["thinking_delta", "thinking"],
                Channel::Text => ["text_delta", "text"],
                Channel::Tool => ["input_json_delta", "partial_json"],
            };
            self.print(format_args!(
                ",\"index\":{index},\"delta\":{{\"type\":\"{kind}\",\"{field}\":\""
            ));
            self.text(channel, tokens);
            return self.push("\"}}\n\n");
        }
        self.begin(match channel {
            Channel::Reasoning => "response.reasoning_text.delta",
            Channel::Text => "response.output_text.delta",
            Channel::Tool => "response.function_call_arguments.delta",
        });
        self.place(channel);
        self.push(",\"delta\":\"");
        self.text(channel, tokens);
        self.push("\"}\n\n");
    }

    fn end_channel(&mut self, channel: Channel) {
        let index = self.split.index(channel);
        if self.dialect == Dialect::Anthropic {
            self.begin("content_block_stop");
            return self.print(format_args!(",\"index\":{index}}}\n\n"));
        }
        let [name, field] = match channel {
            Channel::Reasoning => ["response.reasoning_text.done", "text"],
            Channel::Text => ["response.output_text.done", "text"],
            Channel::Tool => ["response.function_call_arguments.done", "arguments"],
        };
        self.begin(name);
        self.place(channel);
        self.print(format_args!(",\"{field}\":\""));
        self.text(channel, self.split.range(channel));
        self.push("\"}\n\n");
        if channel == Channel::Text {
            self.begin("response.content_part.done");
            self.place(channel);
            self.push(",\"part\":");
            self.part(channel, true);
            self.push("}\n\n");
        }
        self.begin("response.output_item.done");
        self.print(format_args!(",\"output_index\":{index},\"item\":"));
        self.item(channel, true);
        self.push("}\n\n");
    }

    /// Which item of a response an event is about.
    fn place(&mut self, channel: Channel) {
        let id = match channel {
            Channel::Reasoning => "rs_1",
            Channel::Text => "msg_1",
            Channel::Tool => "fc_1",
        };
        let index = self.split.index(channel);
        self.print(format_args!(
            ",\"item_id\":\"{id}\",\"output_index\":{index}"
        ));
        if channel != Channel::Tool {
            self.push(",\"content_index\":0");
        }
    }

    /// An item of a response, empty at its beginning and whole at its end.
    fn item(&mut self, channel: Channel, is_whole: bool) {
        let status = if is_whole { "completed" } else { "in_progress" };
        match channel {
            Channel::Reasoning => {
                self.push("{\"id\":\"rs_1\",\"type\":\"reasoning\",\"summary\":[],\"content\":[");
            }
            Channel::Text => self.print(format_args!(
                "{{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\
                 \"status\":\"{status}\",\"content\":["
            )),
            Channel::Tool => {
                self.print(format_args!(
                    "{{\"id\":\"fc_1\",\"type\":\"function_call\",\"status\":\"{status}\",\
                     \"call_id\":\"call_1\",\"name\":\"lookup\",\"arguments\":\""
                ));
                if is_whole {
                    self.text(channel, self.split.range(channel));
                }
                return self.push("\"}");
            }
        }
        if is_whole {
            self.part(channel, true);
        }
        self.push("]}");
    }

    /// The part of an item that has its text.
    fn part(&mut self, channel: Channel, is_whole: bool) {
        self.push(match channel {
            Channel::Reasoning => "{\"type\":\"reasoning_text\",\"text\":\"",
            _ => "{\"type\":\"output_text\",\"annotations\":[],\"text\":\"",
        });
        if is_whole {
            self.text(channel, self.split.range(channel));
        }
        self.push("\"}");
    }

    /// The text of tokens within a JSON string. That of a tool call is a JSON object.
    fn text(&mut self, channel: Channel, tokens: Range<u64>) {
        let all = self.split.range(channel);
        let is_first = channel == Channel::Tool && tokens.start == all.start;
        let is_last = channel == Channel::Tool && tokens.end == all.end;
        self.push(if is_first { "{\\\"words\\\":\\\"" } else { "" });
        self.words(tokens);
        self.push(if is_last { "\\\"}" } else { "" });
    }

    fn words(&mut self, tokens: Range<u64>) {
        for token in tokens {
            self.output.push(b' ');
            self.push(WORDS[(token % WORDS.len() as u64) as usize]);
        }
    }

    fn push(&mut self, text: &str) {
        self.output.extend_from_slice(text.as_bytes());
    }

    fn print(&mut self, text: fmt::Arguments<'_>) {
        // Writing to memory cannot fail.
        let _ = self.output.write_fmt(text);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::generation::tests::pieces;
    use crate::context::Context;

    fn body(recipe: &str) -> String {
        let all = pieces(recipe, &mut Context::simulated(""));
        all.into_iter().map(|(_, text)| text).collect()
    }

    /// The data of all events that are JSON, and the rest.
    fn data(body: &str) -> (Vec<Value>, Vec<String>) {
        let (mut json, mut rest) = (Vec::new(), Vec::new());
        let lines = body.lines().filter(|line| !line.is_empty());
        for line in lines {
            let text = line.strip_prefix("data: ").unwrap_or(line);
            match serde_json::from_str(text) {
                Ok(value) => json.push(value),
                Err(_) => rest.push(text.to_owned()),
            }
        }
        (json, rest)
    }

    #[test]
    fn each_dialect_has_its_events_byte_by_byte() {
        for (recipe, expected) in [
            ("llm=openai&tokens=2", include_str!("golden/openai.golden")),
            (
                "llm=completions&tokens=1&usage=none&finish=length&events-end=none",
                include_str!("golden/completions.golden"),
            ),
            (
                "llm=anthropic&tokens=2&reasoning=1&cached=6",
                include_str!("golden/anthropic.golden"),
            ),
            (
                "llm=ollama&tokens=2&reasoning=1",
                include_str!("golden/ollama.golden"),
            ),
            (
                "llm=responses&tokens=1",
                include_str!("golden/responses.golden"),
            ),
        ] {
            assert_eq!(body(recipe), expected, "{recipe}");
        }
    }

    #[test]
    fn an_error_ends_a_stream_in_the_form_of_the_dialect() {
        for (dialect, expected) in [
            (
                "openai",
                "data: {\"error\":{\"message\":\"the engine failed in mid-stream\",\
                 \"type\":\"server_error\",\"param\":null,\"code\":500}}\n\ndata: [DONE]\n\n",
            ),
            (
                "completions",
                "data: {\"error\":{\"message\":\"the engine failed in mid-stream\",\
                 \"type\":\"server_error\",\"param\":null,\"code\":500}}\n\ndata: [DONE]\n\n",
            ),
            (
                "anthropic",
                "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\
                 \"message\":\"the engine failed in mid-stream\"}}\n\n",
            ),
            (
                "responses",
                "event: response.failed\ndata: {\"type\":\"response.failed\",\
                 \"sequence_number\":6,\"response\":{\"id\":\"resp_1\",\"object\":\"response\",\
                 \"created_at\":0,\"status\":\"failed\",\"model\":\"wrkbench\",\"error\":{\
                 \"code\":\"server_error\",\"message\":\"the engine failed in mid-stream\"},\
                 \"incomplete_details\":null,\"output\":[],\"usage\":null}}\n\n",
            ),
            (
                "ollama",
                "{\"error\":\"the engine failed in mid-stream\"}\n",
            ),
        ] {
            let all = pieces(
                &format!("llm={dialect}&tokens=5&llm-error=2"),
                &mut Context::simulated(""),
            );
            let last = all.last().map(|(_, text)| text.as_str());
            assert_eq!(last, Some(expected), "{dialect}");
            let whole = body(&format!("llm={dialect}&tokens=5"));
            let same = body(&format!("llm={dialect}&tokens=5&llm-error=6"));
            assert_eq!(whole, same, "no error after more events than there are");
            assert!(!whole.contains("the engine failed"), "{whole}");
        }
    }

    #[test]
    fn a_stream_that_is_cut_has_its_first_events_and_nothing_of_its_end() {
        for dialect in ["openai", "completions", "anthropic", "responses", "ollama"] {
            let whole = body(&format!("llm={dialect}&tokens=5"));
            let cut = body(&format!("llm={dialect}&tokens=5&llm-cut=2"));
            assert!(cut.len() < whole.len() && whole.starts_with(&cut), "{cut}");
            assert!(cut.contains(" quick") && !cut.contains(" brown"), "{cut}");
            let later = body(&format!("llm={dialect}&tokens=5&llm-cut=6"));
            assert_eq!(later, whole, "{dialect}");
        }
    }

    /// Generated text by channel, as a client would collect it.
    fn collected(dialect: &str, events: &[Value]) -> [String; 3] {
        let mut all = [String::new(), String::new(), String::new()];
        let mut add = |channel: usize, text: &Value| {
            all[channel].push_str(text.as_str().unwrap_or_default());
        };
        for event in events {
            match dialect {
                "openai" => {
                    let delta = &event["choices"][0]["delta"];
                    add(0, &delta["reasoning_content"]);
                    add(1, &delta["content"]);
                    add(2, &delta["tool_calls"][0]["function"]["arguments"]);
                }
                "completions" => add(1, &event["choices"][0]["text"]),
                "anthropic" => {
                    add(0, &event["delta"]["thinking"]);
                    add(1, &event["delta"]["text"]);
                    add(2, &event["delta"]["partial_json"]);
                }
                "ollama" => {
                    add(0, &event["message"]["thinking"]);
                    add(1, &event["message"]["content"]);
                }
                _ => match event["type"].as_str().unwrap() {
                    "response.reasoning_text.delta" => add(0, &event["delta"]),
                    "response.output_text.delta" => add(1, &event["delta"]),
                    "response.function_call_arguments.delta" => add(2, &event["delta"]),
                    _ => {}
                },
            }
        }
        all
    }

    /// The tokens of output that a stream reports last.
    fn reported(dialect: &str, events: &[Value]) -> u64 {
        let mut usages = events.iter().filter_map(|event| {
            let count = match dialect {
                "openai" | "completions" => &event["usage"]["completion_tokens"],
                "anthropic" => &event["usage"]["output_tokens"],
                "ollama" => &event["eval_count"],
                _ => &event["response"]["usage"]["output_tokens"],
            };
            count.as_u64()
        });
        usages.next_back().unwrap()
    }

    fn words(text: &str) -> u64 {
        text.split_whitespace().count() as u64
    }

    #[test]
    fn all_tokens_arrive_in_their_channels_and_are_reported() {
        for dialect in ["openai", "completions", "responses", "anthropic", "ollama"] {
            let has_reasoning = dialect != "completions";
            let has_tool = has_reasoning && dialect != "ollama";
            for tokens in [0_u64, 1, 2, 5, 16, 33] {
                for reasoning in [0, 1, 4, 40]
                    .into_iter()
                    .filter(|n| has_reasoning || *n == 0)
                {
                    for tool in [0, 1, 3, 40].into_iter().filter(|n| has_tool || *n == 0) {
                        for per_event in [1, 2, 3, 7, 100] {
                            for options in ["", "&prelude=none"] {
                                let recipe = format!(
                                    "llm={dialect}&tokens={tokens}&reasoning={reasoning}\
                                     &tool={tool}&per-event={per_event}{options}"
                                );
                                check(dialect, &recipe, [tokens, reasoning, tool]);
                            }
                        }
                    }
                }
            }
        }
    }

    fn check(dialect: &str, recipe: &str, [tokens, reasoning, tool]: [u64; 3]) {
        let thought = reasoning.min(tokens);
        let called = tool.min(tokens - thought);
        let (events, rest) = data(&body(recipe));
        let is_known = |text: &String| text == "[DONE]" || text.starts_with("event: ");
        assert!(rest.iter().all(is_known), "{recipe}: not JSON: {rest:?}");
        let [thinking, text, mut arguments] = collected(dialect, &events);
        if called > 0 {
            let call: Value = serde_json::from_str(&arguments).expect(recipe);
            arguments = call["words"].as_str().expect(recipe).to_owned();
        }
        let found = [words(&thinking), words(&text), words(&arguments)];
        let expected = [thought, tokens - thought - called, called];
        assert_eq!(found, expected, "{recipe}");
        assert_eq!(reported(dialect, &events), tokens, "{recipe}");
        if dialect == "responses" {
            let numbers = events.iter().map(|event| event["sequence_number"].as_u64());
            assert!(numbers.eq((0..).map(Some).take(events.len())), "{recipe}");
        }
    }

    #[test]
    fn continuous_usage_counts_up_to_all_tokens() {
        let (events, _) = data(&body(
            "llm=openai&tokens=5&per-event=2&usage=each&reasoning=1",
        ));
        let counts: Vec<_> = events
            .iter()
            .map(|event| event["usage"]["completion_tokens"].as_u64().unwrap())
            .collect();
        assert_eq!(counts, [0, 1, 3, 5, 5, 5]);
    }

    #[test]
    fn without_usage_no_number_of_tokens_is_reported() {
        for dialect in ["openai", "completions", "responses", "anthropic", "ollama"] {
            let text = body(&format!("llm={dialect}&usage=none"));
            for name in ["_tokens\"", "eval_count"] {
                assert!(!text.contains(name), "{dialect}: {text}");
            }
        }
    }

    #[test]
    fn ends_have_their_reasons() {
        for (options, reason) in [
            ("openai", "\"finish_reason\":\"stop\""),
            ("openai&finish=length", "\"finish_reason\":\"length\""),
            ("openai&tool=3", "\"finish_reason\":\"tool_calls\""),
            ("anthropic", "\"stop_reason\":\"end_turn\""),
            ("anthropic&finish=length", "\"stop_reason\":\"max_tokens\""),
            ("anthropic&tool=3", "\"stop_reason\":\"tool_use\""),
            ("ollama&finish=length", "\"done_reason\":\"length\""),
            ("responses", "event: response.completed"),
            (
                "responses&finish=length",
                "\"reason\":\"max_output_tokens\"",
            ),
        ] {
            let text = body(&format!("llm={options}"));
            assert!(text.contains(reason), "{options}: {text}");
        }
    }
}
