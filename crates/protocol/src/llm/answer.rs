//! What a model has said, as the strings of its events: for the next request of a conversation,
//! which repeats it.
//!
//! Strings are kept as they stand in the JSON of the events, with their escape sequences. So
//! nothing is decoded, and halves of a character that two events have (`\ud83d` and `\ude00`) are
//! one character again when the strings stand next to each other.

use super::paths::{EventType, Node};

/// An answer with more bytes than this is not kept as a whole: otherwise a server decides how much
/// memory there is. A million tokens have about four times as many.
pub const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The most calls of tools in an answer.
const MAX_CALLS: usize = 128;

/// The memory for the strings of an event that is kept for the next event, bytes.
const KEPT_BYTES: usize = 4096;

/// What a model has said in one response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Visible text: the inside of a JSON string.
    pub text: Vec<u8>,
    /// Calls of tools, in the order in which they began. Only OpenAI's chat and Anthropic's
    /// messages have them here.
    pub calls: Vec<ToolCall>,
    /// It was longer than [`MAX_ANSWER_BYTES`] or had too many calls: the rest is missing.
    pub is_cut: bool,
}

/// A call of a tool. All three are the insides of JSON strings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// Its identifier, which the result of the tool names.
    pub id: Vec<u8>,
    /// The name of the function.
    pub name: Vec<u8>,
    /// Its arguments, a JSON text.
    pub arguments: Vec<u8>,
}

impl Answer {
    fn bytes(&self) -> usize {
        let calls = self.calls.iter();
        let of_call = |call: &ToolCall| call.id.len() + call.name.len() + call.arguments.len();
        self.text.len() + calls.map(of_call).sum::<usize>()
    }
}

/// Collects the strings of one event, and adds them to the answer when it is clear what they are.
#[derive(Debug, Clone, Default)]
pub(super) struct AnswerKeeper {
    answer: Answer,
    /// The strings of the event, one after another.
    strings: Vec<u8>,
    /// Where each begins, and what it is.
    begins: Vec<(usize, Node)>,
}

impl AnswerKeeper {
    /// Whether a string of this node may be a part of an answer.
    pub(super) fn keeps(node: Node) -> bool {
        matches!(
            node,
            Node::Content
                | Node::TextString
                | Node::Response
                | Node::BlockText
                | Node::TypedDelta
                | Node::ToolId
                | Node::ToolName
                | Node::ToolArguments
                | Node::BlockId
                | Node::BlockName
                | Node::BlockArguments
        )
    }

    /// A string begins.
    pub(super) fn begin_string(&mut self, node: Node) {
        self.begins.push((self.strings.len(), node));
    }

    /// The next bytes of that string.
    pub(super) fn add(&mut self, part: &[u8]) {
        let room = MAX_ANSWER_BYTES.saturating_sub(self.strings.len());
        self.strings
            .extend_from_slice(&part[..part.len().min(room)]);
        self.answer.is_cut |= part.len() > room;
    }

    /// The event is complete. `None`: it is not believed.
    pub(super) fn end_event(&mut self, event_type: Option<EventType>) {
        let begins = std::mem::take(&mut self.begins);
        let strings = std::mem::take(&mut self.strings);
        if let Some(event_type) = event_type {
            let is_block = matches!(event_type, EventType::BlockStart | EventType::BlockDelta);
            let is_text = event_type == EventType::TextDelta;
            for (at, (begin, node)) in begins.iter().enumerate() {
                let end = begins.get(at + 1).map_or(strings.len(), |next| next.0);
                let string = &strings[*begin..end];
                match node {
                    Node::Content | Node::TextString | Node::Response => self.add_text(string),
                    Node::BlockText if is_block => self.add_text(string),
                    Node::TypedDelta if is_text => self.add_text(string),
                    Node::ToolId => self.begin_call(string),
                    Node::BlockId if is_block => self.begin_call(string),
                    Node::ToolName => self.add_to_call(string, |call| &mut call.name),
                    Node::BlockName if is_block => self.add_to_call(string, |call| &mut call.name),
                    Node::ToolArguments => self.add_to_call(string, |call| &mut call.arguments),
                    Node::BlockArguments if is_block => {
                        self.add_to_call(string, |call| &mut call.arguments);
                    }
                    _ => {}
                }
            }
        }
        // Their memory is used again, but a long event does not keep it on each connection.
        (self.begins, self.strings) = (begins, strings);
        self.begins.clear();
        self.strings.clear();
        self.strings.shrink_to(KEPT_BYTES);
    }

    /// The response is complete.
    pub(super) fn take(&mut self) -> Answer {
        std::mem::take(&mut self.answer)
    }

    /// Another response begins.
    pub(super) fn begin(&mut self) {
        self.answer = Answer::default();
        self.begins.clear();
        self.strings.clear();
    }

    fn has_room(&mut self, string: &[u8]) -> bool {
        let has_room = self.answer.bytes() + string.len() <= MAX_ANSWER_BYTES;
        self.answer.is_cut |= !has_room;
        has_room && !self.answer.is_cut
    }

    fn add_text(&mut self, string: &[u8]) {
        if self.has_room(string) {
            self.answer.text.extend_from_slice(string);
        }
    }

    /// Some servers repeat the identifier of a call with each part of its arguments.
    fn begin_call(&mut self, id: &[u8]) {
        if self.answer.calls.last().is_some_and(|last| last.id == id) || !self.has_room(id) {
            return;
        }
        if self.answer.calls.len() >= MAX_CALLS {
            self.answer.is_cut = true;
            return;
        }
        self.answer.calls.push(ToolCall {
            id: id.to_vec(),
            ..ToolCall::default()
        });
    }

    fn add_to_call(&mut self, string: &[u8], part: impl Fn(&mut ToolCall) -> &mut Vec<u8>) {
        if self.has_room(string)
            && let Some(call) = self.answer.calls.last_mut()
        {
            part(call).extend_from_slice(string);
        }
    }
}
