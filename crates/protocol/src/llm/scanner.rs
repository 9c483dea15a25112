//! Reads the JSON of events as it arrives, and keeps only what the paths of interest say.

use memchr::memchr2;

use super::answer::{Answer, AnswerKeeper};
use super::paths::{COUNTS, Count, Dialects, EventType, MAX_DEPTH, Node, OLLAMA, finish_reason};
use super::{Dialect, FinishReason, LlmEvent, LlmEventKind, Usage};
use crate::EventSink;

/// The longest word that is compared with another is a `type`:
/// `response.code_interpreter_call_code.delta` has 41 bytes. A longer word is no known one, and a
/// longer number is no count.
const MAX_WORD_BYTES: usize = 48;

/// What an invalid or unpaired escape becomes in a word. No word of interest has it.
const NO_CHARACTER: u8 = 0xff;

/// Reads one event after the other and says what each was. It allocates nothing, keeps a fixed
/// number of bytes whatever the input is, and can stop and go on at every byte.
///
/// ```
/// use protocol::llm::{LlmEventKind, LlmScanner};
///
/// let mut scanner = LlmScanner::new(None);
/// scanner.data(br#"{"choices":[{"delta":{"cont"#);
/// scanner.data(br#"ent":"Hello"},"finish_reason":null}]}"#);
/// assert_eq!(scanner.end().kind, LlmEventKind::Text);
/// ```
#[derive(Debug, Clone)]
pub struct LlmScanner {
    dialects: Dialects,
    state: ScannerState,
    /// What the current value is, or what the current key leads to.
    node: Node,
    /// The open containers on a path of interest, the root first.
    open: [Node; MAX_DEPTH],
    depth: u8,
    /// Open containers of the value that is skipped.
    skipped: u64,
    /// The characters of a word before the current piece of data.
    word: [u8; MAX_WORD_BYTES],
    /// More than [`MAX_WORD_BYTES`] if the word is longer.
    word_bytes: u8,
    escape: Escape,
    found: EventContent,
    /// Only if the answer is wanted.
    keeper: Option<Box<AnswerKeeper>>,
}

/// What the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScannerState {
    /// Nothing but white space or a byte order mark so far.
    Start,
    /// After `word_bytes` of [`END_MARKER`], at least 1.
    EndMarker,
    /// Right after `{`.
    FirstKey,
    /// After a comma in an object.
    NextKey,
    /// In a key.
    Key,
    /// After a key.
    Colon,
    /// Right after `[`.
    FirstElement,
    /// A value has to follow.
    Value,
    /// In a string that is compared with known words.
    Word,
    /// In a string of which only matters whether it is empty.
    Text,
    /// In a string that may be a part of the answer.
    KeptString,
    /// In another string.
    SkippedString,
    /// In a number, `true`, `false` or `null`.
    Scalar,
    /// The same, of no interest.
    SkippedScalar,
    /// After a value in a container.
    AfterValue,
    /// In a container of no interest.
    Skipped,
    /// In a string in there.
    StringInSkipped,
    /// After the value of the event.
    End,
    /// The data is no JSON value.
    Malformed,
}

/// The data with which OpenAI ends a stream. A splitter that knows it reports it as the end marker.
const END_MARKER: &[u8; 6] = b"[DONE]";

/// Where in an escape sequence of a string the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    None,
    Backslash,
    /// After so many of the four digits of `\uXXXX`, with their value.
    Digits(u8, u16),
}

/// A set of things that an event has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flags(u16);

impl Flags {
    const NONE: Self = Self(0);
    const TEXT: Self = Self(1);
    const REASONING: Self = Self(1 << 1);
    const TOOL_CALL: Self = Self(1 << 2);
    /// `delta` is a string with text. What it is depends on the type of the event.
    const TYPED_DELTA: Self = Self(1 << 3);
    /// The same for a `delta` or a `content_block` with named strings.
    const BLOCK_TEXT: Self = Self(1 << 4);
    const BLOCK_REASONING: Self = Self(1 << 5);
    const BLOCK_TOOL: Self = Self(1 << 6);
    /// The item that is added has a name.
    const ITEM_NAME: Self = Self(1 << 7);
    const ERROR: Self = Self(1 << 8);
    const DONE: Self = Self(1 << 9);
    /// It has a choice.
    const CHOICE: Self = Self(1 << 10);
    /// It has a choice with `delta`.
    const CHAT: Self = Self(1 << 11);
    /// It has a choice with `text`.
    const COMPLETION: Self = Self(1 << 12);
    /// It has the key `done`.
    const OLLAMA: Self = Self(1 << 13);

    fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// What it means that a value of this node is there, whatever it is.
    fn of_presence(node: Node) -> Self {
        match node {
            Node::Delta => Self::CHAT,
            Node::Done => Self::OLLAMA,
            _ => Self::NONE,
        }
    }

    /// What it means that a string of this node is not empty.
    fn of_text(node: Node, dialects: Dialects) -> Self {
        match node {
            Node::Content | Node::TextString => Self::TEXT,
            Node::Response if dialects.meets(OLLAMA) => Self::TEXT,
            Node::Reasoning | Node::ReasoningString => Self::REASONING,
            Node::ToolName | Node::ToolArguments => Self::TOOL_CALL,
            Node::TypedDelta => Self::TYPED_DELTA,
            Node::BlockText => Self::BLOCK_TEXT,
            Node::BlockReasoning => Self::BLOCK_REASONING,
            Node::BlockName | Node::BlockArguments => Self::BLOCK_TOOL,
            Node::ItemName => Self::ITEM_NAME,
            Node::Error => Self::ERROR,
            _ => Self::NONE,
        }
    }
}

/// What the current event has so far.
#[derive(Debug, Clone)]
struct EventContent {
    flags: Flags,
    event_type: EventType,
    finish: Option<FinishReason>,
    counts: [Option<u64>; COUNTS],
}

impl EventContent {
    const NOTHING: Self = Self {
        flags: Flags::NONE,
        event_type: EventType::None,
        finish: None,
        counts: [None; COUNTS],
    };
}

impl LlmScanner {
    /// A scanner that waits for an event of this dialect, or of any if it is `None`. Keys of other
    /// dialects are of no interest then.
    #[must_use]
    pub fn new(dialect: Option<Dialect>) -> Self {
        Self {
            dialects: Dialects::new(dialect),
            state: ScannerState::Start,
            node: Node::Skip,
            open: [Node::Skip; MAX_DEPTH],
            depth: 0,
            skipped: 0,
            word: [0; MAX_WORD_BYTES],
            word_bytes: 0,
            escape: Escape::None,
            found: EventContent::NOTHING,
            keeper: None,
        }
    }

    /// Also keeps what the model says, for [`Self::take_answer`].
    #[must_use]
    pub fn keeping_answers(mut self) -> Self {
        self.keeper = Some(Box::default());
        self
    }

    /// What the model has said in the events since [`Self::begin`] or the last call. `None` if it
    /// is not kept.
    pub fn take_answer(&mut self) -> Option<Answer> {
        self.keeper.as_mut().map(|keeper| keeper.take())
    }

    /// The next bytes of the current event's data.
    pub fn data(&mut self, data: &[u8]) {
        let mut rest = data;
        while let Some(&byte) = rest.first() {
            rest = match self.state {
                ScannerState::Key | ScannerState::Word => self.word_part(rest),
                ScannerState::Text => self.text_part(byte, rest),
                ScannerState::KeptString => self.keep_string(rest),
                ScannerState::SkippedString => self.skip_string(rest, ScannerState::AfterValue),
                ScannerState::StringInSkipped => self.skip_string(rest, ScannerState::Skipped),
                ScannerState::Scalar | ScannerState::SkippedScalar => self.scalar_part(rest),
                ScannerState::Skipped => self.skip(rest),
                ScannerState::Malformed => return,
                _ => {
                    self.token(byte);
                    &rest[1..]
                }
            };
        }
    }

    /// The data of the current event is complete. Returns what it was, and waits for the next one.
    pub fn end(&mut self) -> LlmEvent {
        // A number or a word at the root has no other end.
        if self.state == ScannerState::SkippedScalar && self.depth == 0 {
            self.state = ScannerState::End;
        }
        let event = match self.state {
            ScannerState::End => self.found.event(),
            ScannerState::Start => OTHER,
            _ => LlmEvent {
                kind: LlmEventKind::Malformed,
                ..OTHER
            },
        };
        if let Some(keeper) = &mut self.keeper {
            let is_believed = event.kind != LlmEventKind::Malformed;
            keeper.end_event(is_believed.then_some(self.found.event_type));
        }
        self.begin_event();
        event
    }

    /// Another response begins: an event that has not ended is forgotten.
    pub fn begin(&mut self) {
        self.begin_event();
        if let Some(keeper) = &mut self.keeper {
            keeper.begin();
        }
    }

    fn begin_event(&mut self) {
        self.state = ScannerState::Start;
        self.depth = 0;
        self.word_bytes = 0;
        self.escape = Escape::None;
        self.found = EventContent::NOTHING;
    }

    /// Reads what a splitter finds. `report` gets each event when it ends, the end marker of the
    /// splitter excepted.
    pub fn sink<F: FnMut(LlmEvent)>(&mut self, report: F) -> LlmSink<'_, F> {
        LlmSink {
            scanner: self,
            report,
        }
    }

    /// A byte between strings and scalars.
    #[inline]
    fn token(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (ScannerState::EndMarker, _) => self.end_marker_byte(byte),
            (_, b' ' | b'\n' | b'\r' | b'\t') => return,
            (ScannerState::FirstKey | ScannerState::NextKey, b'"') => {
                self.begin_word(ScannerState::Key)
            }
            (ScannerState::Colon, b':') => ScannerState::Value,
            (ScannerState::FirstKey | ScannerState::AfterValue, b'}') => self.close(true),
            (ScannerState::FirstElement | ScannerState::AfterValue, b']') => self.close(false),
            (ScannerState::AfterValue, b',') => self.next_in_container(),
            (ScannerState::Value | ScannerState::FirstElement, _) => self.begin_value(byte),
            (ScannerState::Start, b'{') => self.open_container(Node::Root),
            (ScannerState::Start, b'[') => {
                self.word_bytes = 1;
                ScannerState::EndMarker
            }
            // A byte order mark.
            (ScannerState::Start, 0xef | 0xbb | 0xbf) => ScannerState::Start,
            (ScannerState::Start, _) => {
                self.node = Node::Skip;
                self.begin_value(byte)
            }
            _ => ScannerState::Malformed,
        };
    }

    /// A byte of `[DONE]`, or of a list at the root, which is of no interest.
    fn end_marker_byte(&mut self, byte: u8) -> ScannerState {
        let seen = usize::from(self.word_bytes);
        if END_MARKER.get(seen) == Some(&byte) {
            if seen + 1 == END_MARKER.len() {
                self.found.flags.insert(Flags::DONE);
                return ScannerState::End;
            }
            self.word_bytes += 1;
            return ScannerState::EndMarker;
        }
        if seen > 1 {
            return ScannerState::Malformed;
        }
        self.skipped = 1;
        self.state = ScannerState::Skipped;
        self.skip(&[byte]);
        self.state
    }

    #[inline]
    fn begin_value(&mut self, byte: u8) -> ScannerState {
        match byte {
            b'"' => match self.node {
                Node::Skip => ScannerState::SkippedString,
                Node::Type | Node::Finish => self.begin_word(ScannerState::Word),
                node if Flags::of_text(node, self.dialects) != Flags::NONE => ScannerState::Text,
                Node::ToolId | Node::BlockId if self.keeper.is_some() => ScannerState::Text,
                _ => ScannerState::SkippedString,
            },
            b'{' if self.node.is_object() => self.open_container(self.node),
            b'[' if self.node.element().is_some() => self.open_container(self.node),
            b'{' | b'[' => {
                if self.node == Node::Error {
                    self.found.flags.insert(Flags::ERROR);
                }
                self.skipped = 1;
                ScannerState::Skipped
            }
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                if !matches!(self.node, Node::Count(_) | Node::Done | Node::Error) {
                    return ScannerState::SkippedScalar;
                }
                self.word_bytes = 0;
                self.push(&[byte]);
                ScannerState::Scalar
            }
            _ => ScannerState::Malformed,
        }
    }

    #[inline]
    fn begin_word(&mut self, state: ScannerState) -> ScannerState {
        self.word_bytes = 0;
        state
    }

    #[inline]
    fn open_container(&mut self, node: Node) -> ScannerState {
        // The tree of nodes is not deeper than this.
        let Some(slot) = self.open.get_mut(usize::from(self.depth)) else {
            return ScannerState::Malformed;
        };
        *slot = node;
        self.depth += 1;
        match node.element() {
            Some(element) => {
                self.node = element;
                ScannerState::FirstElement
            }
            None => {
                if node == Node::Choice {
                    self.found.flags.insert(Flags::CHOICE);
                }
                ScannerState::FirstKey
            }
        }
    }

    /// The innermost container, which is not skipped.
    #[inline]
    fn container(&self) -> Node {
        self.open[usize::from(self.depth) - 1]
    }

    #[inline]
    fn close(&mut self, is_object: bool) -> ScannerState {
        if self.container().element().is_none() != is_object {
            return ScannerState::Malformed;
        }
        self.depth -= 1;
        if self.depth == 0 {
            ScannerState::End
        } else {
            ScannerState::AfterValue
        }
    }

    #[inline]
    fn next_in_container(&mut self) -> ScannerState {
        match self.container().element() {
            Some(element) => {
                self.node = element;
                ScannerState::Value
            }
            None => ScannerState::NextKey,
        }
    }

    /// What follows a value that is complete.
    #[inline]
    fn after_value(&self) -> ScannerState {
        if self.depth == 0 {
            ScannerState::End
        } else {
            ScannerState::AfterValue
        }
    }

    /// A part of a key or a word. Returns what follows it.
    #[inline]
    fn word_part<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        if self.escape != Escape::None {
            return self.escape_byte(rest);
        }
        let end = string_bytes(rest);
        let (part, after) = rest.split_at(end);
        let Some((&byte, after)) = after.split_first() else {
            self.push(part);
            return after;
        };
        if byte == b'\\' {
            self.push(part);
            self.escape = Escape::Backslash;
        } else if self.word_bytes == 0 && part.len() <= MAX_WORD_BYTES {
            self.end_word(part);
        } else {
            self.push(part);
            let word = self.word;
            let word = word.get(..usize::from(self.word_bytes));
            self.end_word(word.unwrap_or(&[NO_CHARACTER]));
        }
        after
    }

    #[inline]
    fn end_word(&mut self, word: &[u8]) {
        if self.state == ScannerState::Key {
            let container = self.container();
            self.node = container.child(word, self.dialects);
            if self.node != Node::Skip {
                self.found.flags.insert(Flags::of_presence(self.node));
                if container == Node::Choice && self.node == Node::TextString {
                    self.found.flags.insert(Flags::COMPLETION);
                }
            }
            self.state = ScannerState::Colon;
            return;
        }
        match self.node {
            Node::Type => self.found.event_type = EventType::new(word, self.dialects),
            _ if word == b"error" => self.found.flags.insert(Flags::ERROR),
            _ => self.found.finish = finish_reason(word).or(self.found.finish),
        }
        self.state = ScannerState::AfterValue;
    }

    /// A byte of an escape sequence in a word.
    fn escape_byte<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        let (byte, after) = (rest[0], &rest[1..]);
        match self.escape {
            Escape::Digits(seen, value) => {
                let Some(digit) = char::from(byte).to_digit(16) else {
                    // Not valid. The byte may end the string.
                    self.push(&[NO_CHARACTER]);
                    self.escape = Escape::None;
                    return rest;
                };
                let value = value << 4 | digit as u16;
                if seen < 3 {
                    self.escape = Escape::Digits(seen + 1, value);
                    return after;
                }
                match char::from_u32(u32::from(value)) {
                    Some(character) => self.push(character.encode_utf8(&mut [0; 4]).as_bytes()),
                    // Half of a character beyond 16 bits.
                    None => self.push(&[NO_CHARACTER]),
                }
            }
            _ if byte == b'u' => {
                self.escape = Escape::Digits(0, 0);
                return after;
            }
            _ => self.push(&[match byte {
                b'"' | b'\\' | b'/' => byte,
                b'b' => 0x08,
                b'f' => 0x0c,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                _ => NO_CHARACTER,
            }]),
        }
        self.escape = Escape::None;
        after
    }

    /// Adds to the word.
    fn push(&mut self, part: &[u8]) {
        let start = usize::from(self.word_bytes);
        match self.word.get_mut(start..start + part.len()) {
            Some(place) => {
                place.copy_from_slice(part);
                // At most the size of the buffer.
                self.word_bytes += part.len() as u8;
            }
            None => self.word_bytes = MAX_WORD_BYTES as u8 + 1,
        }
    }

    /// The first byte of a string of which only matters whether it is empty.
    #[inline]
    fn text_part<'a>(&mut self, byte: u8, rest: &'a [u8]) -> &'a [u8] {
        if byte == b'"' {
            self.state = ScannerState::AfterValue;
            return &rest[1..];
        }
        let flag = Flags::of_text(self.node, self.dialects);
        self.found.flags.insert(flag);
        if let Some(keeper) = &mut self.keeper
            && AnswerKeeper::keeps(self.node)
        {
            keeper.begin_string(self.node);
            self.state = ScannerState::KeptString;
            return self.keep_string(rest);
        }
        self.state = ScannerState::SkippedString;
        self.skip_string(rest, ScannerState::AfterValue)
    }

    /// A part of a string that may be a part of the answer.
    fn keep_string<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        let after = self.skip_string(rest, ScannerState::AfterValue);
        let quote = usize::from(self.state != ScannerState::KeptString);
        if let Some(keeper) = &mut self.keeper {
            keeper.add(&rest[..rest.len() - after.len() - quote]);
        }
        after
    }

    /// Skips to the end of a string. `next` is the state after it.
    #[inline]
    fn skip_string<'a>(&mut self, mut rest: &'a [u8], next: ScannerState) -> &'a [u8] {
        if self.escape != Escape::None {
            self.escape = Escape::None;
            rest = &rest[1..];
        }
        loop {
            let Some(after) = rest
                .get(string_bytes(rest)..)
                .filter(|after| !after.is_empty())
            else {
                return &[];
            };
            if after[0] == b'"' {
                self.state = if next == ScannerState::AfterValue {
                    self.after_value()
                } else {
                    next
                };
                return &after[1..];
            }
            let Some(next_rest) = after.get(2..) else {
                self.escape = Escape::Backslash;
                return &[];
            };
            rest = next_rest;
        }
    }

    /// A part of a number, `true`, `false` or `null`. What ends it belongs to the container.
    #[inline]
    fn scalar_part<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        let end = rest.iter().position(|byte| ends_scalar(*byte));
        let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
        if self.state == ScannerState::Scalar {
            self.push(part);
        }
        if end.is_none() {
            return after;
        }
        if self.state == ScannerState::Scalar {
            self.end_scalar();
        }
        self.state = self.after_value();
        after
    }

    fn end_scalar(&mut self) {
        let Some(scalar) = self.word.get(..usize::from(self.word_bytes)) else {
            return;
        };
        match self.node {
            Node::Count(which) => {
                if let Some(count) = whole_number(scalar) {
                    self.found.counts[which as usize] = Some(count);
                }
            }
            Node::Done if scalar == b"true" => self.found.flags.insert(Flags::DONE),
            Node::Error if !matches!(scalar, b"null" | b"false") => {
                self.found.flags.insert(Flags::ERROR);
            }
            _ => {}
        }
    }

    /// Skips to the end of a container of no interest, or to the next string in it.
    #[inline]
    fn skip<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        for (at, byte) in rest.iter().enumerate() {
            match byte {
                b'"' => {
                    self.state = ScannerState::StringInSkipped;
                    return &rest[at + 1..];
                }
                b'{' | b'[' => self.skipped += 1,
                b'}' | b']' => {
                    self.skipped -= 1;
                    if self.skipped == 0 {
                        self.state = self.after_value();
                        return &rest[at + 1..];
                    }
                }
                _ => {}
            }
        }
        &[]
    }
}

/// An event without anything.
const OTHER: LlmEvent = LlmEvent {
    kind: LlmEventKind::Other,
    has_text: false,
    has_reasoning: false,
    has_tool_call: false,
    usage: None,
    finish: None,
    is_end: false,
    dialect: None,
};

impl EventContent {
    /// What the event was, as its type makes clear what its strings are.
    fn event(&self) -> LlmEvent {
        let flags = self.flags;
        let typed = |event_type| self.event_type == event_type && flags.has(Flags::TYPED_DELTA);
        let is_block = matches!(
            self.event_type,
            EventType::BlockStart | EventType::BlockDelta
        );
        let block = |flag| is_block && flags.has(flag);
        let mut event = LlmEvent {
            has_text: flags.has(Flags::TEXT)
                || block(Flags::BLOCK_TEXT)
                || typed(EventType::TextDelta),
            has_reasoning: flags.has(Flags::REASONING)
                || block(Flags::BLOCK_REASONING)
                || typed(EventType::ReasoningDelta),
            has_tool_call: flags.has(Flags::TOOL_CALL)
                || block(Flags::BLOCK_TOOL)
                || typed(EventType::ToolDelta)
                || (self.event_type == EventType::ItemAdded && flags.has(Flags::ITEM_NAME)),
            usage: self.usage(),
            finish: self.finish_reason(),
            is_end: flags.has(Flags::DONE)
                || matches!(
                    self.event_type,
                    EventType::Completed
                        | EventType::Incomplete
                        | EventType::Failed
                        | EventType::MessageStop
                ),
            dialect: self.dialect(),
            ..OTHER
        };
        event.kind = self.kind(&event);
        event
    }

    /// In the order of [`LlmEventKind`].
    fn kind(&self, event: &LlmEvent) -> LlmEventKind {
        let is_error = self.flags.has(Flags::ERROR)
            || matches!(self.event_type, EventType::Error | EventType::Failed);
        let is_prelude = self.flags.has(Flags(Flags::CHOICE.0 | Flags::OLLAMA.0))
            || self.event_type.is_prelude();
        if is_error {
            LlmEventKind::Error
        } else if event.has_text {
            LlmEventKind::Text
        } else if event.has_tool_call {
            LlmEventKind::ToolCall
        } else if event.has_reasoning {
            LlmEventKind::Reasoning
        } else if event.is_end || event.finish.is_some() {
            LlmEventKind::End
        } else if is_prelude {
            LlmEventKind::Prelude
        } else if event.usage.is_some() {
            LlmEventKind::Usage
        } else {
            LlmEventKind::Other
        }
    }

    fn finish_reason(&self) -> Option<FinishReason> {
        match (self.finish, self.event_type) {
            (Some(reason), _) => Some(reason),
            (None, EventType::Completed) => Some(FinishReason::Stop),
            (None, EventType::Incomplete) => Some(FinishReason::Other),
            (None, _) => None,
        }
    }

    fn usage(&self) -> Option<Usage> {
        let count = |which: Count| self.counts[which as usize];
        let prompt = count(Count::Prompt);
        // Some gateways have Anthropic's counts beside OpenAI's, whose prompt includes them.
        let apart = |which| if prompt.is_some() { None } else { count(which) };
        let parts = [Count::Input, Count::CacheRead, Count::CacheWritten].map(apart);
        let sum = || parts.into_iter().flatten().reduce(u64::saturating_add);
        let usage = Usage {
            prompt: prompt.or_else(sum),
            // At its start, a message of Anthropic has an estimate here. It is not cumulative, and
            // would count as the number of tokens if the stream broke off.
            completion: count(Count::Output).filter(|_| self.event_type != EventType::MessageStart),
            cached: count(Count::Cached).or_else(|| apart(Count::CacheRead)),
            reasoning: count(Count::Reasoning),
        };
        (usage != Usage::default()).then_some(usage)
    }

    fn dialect(&self) -> Option<Dialect> {
        if let Some(dialect) = self.event_type.dialect() {
            return Some(dialect);
        }
        [
            (Flags::CHAT, Dialect::OpenAi),
            (Flags::COMPLETION, Dialect::Completions),
            (Flags::OLLAMA, Dialect::Ollama),
        ]
        .into_iter()
        .find_map(|(flag, dialect)| self.flags.has(flag).then_some(dialect))
    }
}

/// Bytes up to what ends a string or begins an escape sequence.
#[inline]
fn string_bytes(rest: &[u8]) -> usize {
    // Most keys are short. For them, a call costs more than it saves.
    let (start, long) = rest.split_at(rest.len().min(8));
    let ends = |byte: &u8| matches!(byte, b'"' | b'\\');
    match start.iter().position(ends) {
        Some(at) => at,
        None => start.len() + memchr2(b'"', b'\\', long).unwrap_or(long.len()),
    }
}

#[inline]
fn ends_scalar(byte: u8) -> bool {
    matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t')
}

/// The number from 0 to 2^64 - 1 that a JSON number stands for, if it is a whole one.
fn whole_number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    // 2^64 as the next number that has a float.
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    let number: f64 = text.parse().ok()?;
    ((0.0..LIMIT).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

/// Passes what a splitter finds on to a scanner: [`LlmScanner::sink`].
#[derive(Debug)]
pub struct LlmSink<'a, F> {
    scanner: &'a mut LlmScanner,
    report: F,
}

impl<F: FnMut(LlmEvent)> EventSink for LlmSink<'_, F> {
    #[inline]
    fn data(&mut self, part: &[u8]) {
        self.scanner.data(part);
    }

    #[inline]
    fn end(&mut self, is_end_marker: bool) {
        let event = self.scanner.end();
        if !is_end_marker {
            (self.report)(event);
        }
    }
}
