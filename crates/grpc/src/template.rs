//! Messages of which some parts are different in every call: what does not change is encoded once.

use prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::Value;

use crate::method::{MessageError, Method, fault, type_of};

/// A piece of a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonPiece<'t> {
    /// Text that is always the same.
    Text(&'t str),
    /// A value that is made for each call. It is inside a string, or stands for a number.
    Hole,
}

/// A piece of an encoded message. Together they are a template: all bytes that are the same in
/// every call are encoded once, and a call only encodes the values of its holes between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessagePiece {
    /// Bytes that are always the same.
    Bytes(Vec<u8>),
    /// The text of the hole with this number, from 0.
    Text(usize),
    /// A number, given as the text of a hole.
    Number {
        /// The number of the hole.
        hole: usize,
        /// How it is encoded.
        form: Number,
    },
    /// These pieces, and before them their length as a varint.
    Delimited(Vec<Self>),
}

/// How a number is encoded (<https://protobuf.dev/programming-guides/encoding/>).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "these are the names of protobuf")]
pub enum Number {
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Float,
    Double,
    /// The number of a value of an enumeration.
    Enum,
}

/// Stands before and after the number of a hole in a string. No text has it: it is not a character
/// (Unicode section 23.7).
const MARK: char = '\u{fdd0}';

/// The types for one value that are messages (`google/protobuf/wrappers.proto`): in JSON they are
/// the value alone.
const WRAPPERS: [&str; 9] = [
    "DoubleValue",
    "FloatValue",
    "Int64Value",
    "UInt64Value",
    "Int32Value",
    "UInt32Value",
    "BoolValue",
    "StringValue",
    "BytesValue",
];

/// The deepest message with a hole in it.
const DEPTH_MAX: usize = 100;

/// Appends a number as a varint.
pub fn put_varint(mut number: u64, output: &mut Vec<u8>) {
    while number >= 0x80 {
        output.push(number as u8 | 0x80);
        number >>= 7;
    }
    output.push(number as u8);
}

impl Number {
    fn of(kind: &Kind) -> Option<Self> {
        Some(match kind {
            Kind::Int32 => Self::Int32,
            Kind::Int64 => Self::Int64,
            Kind::Uint32 => Self::Uint32,
            Kind::Uint64 => Self::Uint64,
            Kind::Sint32 => Self::Sint32,
            Kind::Sint64 => Self::Sint64,
            Kind::Fixed32 => Self::Fixed32,
            Kind::Fixed64 => Self::Fixed64,
            Kind::Sfixed32 => Self::Sfixed32,
            Kind::Sfixed64 => Self::Sfixed64,
            Kind::Float => Self::Float,
            Kind::Double => Self::Double,
            Kind::Enum(_) => Self::Enum,
            Kind::Bool | Kind::String | Kind::Bytes | Kind::Message(_) => return None,
        })
    }

    /// The type of the wire: 0 for a varint, 1 for eight bytes, 5 for four.
    fn wire_type(self) -> u64 {
        match self.fixed_bytes() {
            Some(8) => 1,
            Some(_) => 5,
            None => 0,
        }
    }

    /// The length of the encoded number, if it is always the same.
    #[must_use]
    pub fn fixed_bytes(self) -> Option<usize> {
        match self {
            Self::Fixed32 | Self::Sfixed32 | Self::Float => Some(4),
            Self::Fixed64 | Self::Sfixed64 | Self::Double => Some(8),
            _ => None,
        }
    }

    /// Appends the number that a text has. Returns whether it is one of this type; if not, nothing
    /// is appended.
    pub fn encode(self, text: &[u8], output: &mut Vec<u8>) -> bool {
        let text = str::from_utf8(text).unwrap_or_default();
        let encoded = match self {
            Self::Float => number(text, |it: f32| output.extend_from_slice(&it.to_le_bytes())),
            Self::Double => number(text, |it: f64| output.extend_from_slice(&it.to_le_bytes())),
            // Negative numbers have ten bytes, as if they had 64 bits.
            Self::Int32 | Self::Enum => {
                number(text, |it: i32| put_varint(i64::from(it) as u64, output))
            }
            Self::Int64 => number(text, |it: i64| put_varint(it as u64, output)),
            Self::Uint32 => number(text, |it: u32| put_varint(u64::from(it), output)),
            Self::Uint64 => number(text, |it: u64| put_varint(it, output)),
            Self::Sint32 => number(text, |it: i32| {
                put_varint(u64::from((it << 1 ^ it >> 31) as u32), output);
            }),
            Self::Sint64 => number(text, |it: i64| {
                put_varint((it << 1 ^ it >> 63) as u64, output);
            }),
            Self::Fixed32 => number(text, |it: u32| output.extend_from_slice(&it.to_le_bytes())),
            Self::Fixed64 => number(text, |it: u64| output.extend_from_slice(&it.to_le_bytes())),
            Self::Sfixed32 => number(text, |it: i32| output.extend_from_slice(&it.to_le_bytes())),
            Self::Sfixed64 => number(text, |it: i64| output.extend_from_slice(&it.to_le_bytes())),
        };
        encoded.is_some()
    }
}

fn number<T: std::str::FromStr>(text: &str, put: impl FnOnce(T)) -> Option<()> {
    text.parse().ok().map(put)
}

impl Method {
    /// The pieces of a request message from protobuf's JSON form with holes.
    ///
    /// # Errors
    /// If it is not JSON, does not fit the type, or has a hole where neither text nor a number is:
    /// the field, and what was expected.
    pub fn encode_template(
        &self,
        json: &[JsonPiece<'_>],
    ) -> Result<Vec<MessagePiece>, MessageError> {
        let value: Value = serde_json::from_str(&with_marks(json))
            .map_err(|error| MessageError::Json(error.to_string()))?;
        let mut pieces = Vec::new();
        put_message(&self.request(), &value, "", 0, &mut pieces)?;
        Ok(pieces)
    }
}

/// The JSON text with a marked number for each hole, which is a string of its own outside of one.
fn with_marks(json: &[JsonPiece<'_>]) -> String {
    let mut text = String::new();
    let (mut is_string, mut is_escaped) = (false, false);
    let mut hole = 0;
    for piece in json {
        match piece {
            JsonPiece::Text(fixed) => {
                for c in fixed.chars() {
                    match c {
                        _ if is_escaped => is_escaped = false,
                        '\\' => is_escaped = is_string,
                        '"' => is_string = !is_string,
                        _ => {}
                    }
                    text.push(if c == MARK {
                        char::REPLACEMENT_CHARACTER
                    } else {
                        c
                    });
                }
            }
            JsonPiece::Hole => {
                let quote = if is_string { "" } else { "\"" };
                text.push_str(&format!("{quote}{MARK}{hole}{MARK}{quote}"));
                hole += 1;
            }
        }
    }
    text
}

fn has_hole(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(MARK),
        Value::Array(list) => list.iter().any(has_hole),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name.contains(MARK) || has_hole(value)),
        _ => false,
    }
}

/// Appends a message that is at a place of the whole one, which is empty for the whole.
fn put_message(
    message: &MessageDescriptor,
    value: &Value,
    at: &str,
    depth: usize,
    pieces: &mut Vec<MessagePiece>,
) -> Result<(), MessageError> {
    let fields = match value {
        Value::Object(fields) if depth < DEPTH_MAX => fields,
        value if has_hole(value) => return Err(misplaced(at, message.full_name())),
        value => {
            return put_fixed(message, value, pieces).map_err(|error| inside(at, message, error));
        }
    };
    let mut choices = Vec::new();
    for (name, value) in fields {
        let known = message.get_field_by_json_name(name);
        let known = known.or_else(|| message.get_field_by_name(name));
        let choice = known.as_ref().and_then(FieldDescriptor::containing_oneof);
        if let Some(choice) = choice.filter(|_| !value.is_null()) {
            if choices.contains(&choice) {
                return Err(MessageError::Field {
                    at: place(at, message.full_name()),
                    problem: format!("several fields of the oneof {}", choice.name()),
                });
            }
            choices.push(choice);
        }
        match known {
            Some(field) if has_hole(value) => {
                put_field(&field, value, &joined(at, name), depth, pieces)?;
            }
            None if name.contains(MARK) => {
                return Err(misplaced(
                    &place(at, message.full_name()),
                    "the name of a field",
                ));
            }
            _ => {
                let alone = Value::Object([(name.clone(), value.clone())].into_iter().collect());
                put_fixed(message, &alone, pieces).map_err(|error| inside(at, message, error))?;
            }
        }
    }
    Ok(())
}

fn joined(outer: &str, name: &str) -> String {
    match outer {
        "" => name.to_owned(),
        outer => format!("{outer}.{name}"),
    }
}

/// The place of a message; the name of its type if it is the whole.
fn place(at: &str, type_name: &str) -> String {
    match at {
        "" => type_name.to_owned(),
        at => at.to_owned(),
    }
}

/// The error of a message that is inside of another one.
fn inside(outer: &str, message: &MessageDescriptor, error: MessageError) -> MessageError {
    match error {
        MessageError::Field { at, problem } => MessageError::Field {
            at: if at == message.full_name() {
                place(outer, &at)
            } else {
                joined(outer, &at)
            },
            problem,
        },
        error => error,
    }
}

/// Appends a value without holes.
fn put_fixed(
    message: &MessageDescriptor,
    value: &Value,
    pieces: &mut Vec<MessagePiece>,
) -> Result<(), MessageError> {
    let made = DynamicMessage::deserialize(message.clone(), value);
    let made = made.map_err(|error| fault(message, value, &error.to_string()))?;
    pieces.push(MessagePiece::Bytes(made.encode_to_vec()));
    Ok(())
}

fn put_field(
    field: &FieldDescriptor,
    value: &Value,
    at: &str,
    depth: usize,
    pieces: &mut Vec<MessagePiece>,
) -> Result<(), MessageError> {
    match value {
        Value::Object(entries) if field.is_map() => {
            let Kind::Message(entry) = field.kind() else {
                return Err(misplaced(at, &type_of(field)));
            };
            let [of_key, of_value] = [entry.map_entry_key_field(), entry.map_entry_value_field()];
            for (key, value) in entries {
                let at = format!("{at}[{}]", key.replace(MARK, ""));
                let mut inner = Vec::new();
                put_element(&of_key, &Value::String(key.clone()), &at, depth, &mut inner)?;
                put_element(&of_value, value, &at, depth, &mut inner)?;
                put_delimited(field, inner, pieces);
            }
            Ok(())
        }
        // A packed list may also be sent element by element.
        Value::Array(elements) if field.is_list() => {
            for (number, element) in elements.iter().enumerate() {
                put_element(field, element, &format!("{at}[{number}]"), depth, pieces)?;
            }
            Ok(())
        }
        _ if field.is_map() || field.is_list() => Err(misplaced(at, &type_of(field))),
        value => put_element(field, value, at, depth, pieces),
    }
}

/// Appends one value of a field with its tag.
fn put_element(
    field: &FieldDescriptor,
    value: &Value,
    at: &str,
    depth: usize,
    pieces: &mut Vec<MessagePiece>,
) -> Result<(), MessageError> {
    if !has_hole(value) {
        let name = field.name().to_owned();
        let value = if field.is_list() {
            Value::Array(vec![value.clone()])
        } else {
            value.clone()
        };
        let alone = Value::Object([(name, value)].into_iter().collect());
        let put = put_fixed(field.parent_message(), &alone, pieces);
        return put.map_err(|error| match error {
            MessageError::Field { problem, .. } => MessageError::Field {
                at: at.to_owned(),
                problem,
            },
            error => error,
        });
    }
    match (field.kind(), value) {
        (Kind::String, Value::String(text)) => {
            put_delimited(field, text_of(text), pieces);
            Ok(())
        }
        (Kind::Message(message), value) if !field.is_group() => {
            let mut inner = Vec::new();
            let known = message.full_name().strip_prefix("google.protobuf.");
            match (known, message.get_field_by_name("value")) {
                (None, _) => put_message(&message, value, at, depth + 1, &mut inner)?,
                (Some(name), Some(only)) if WRAPPERS.contains(&name) => {
                    put_element(&only, value, at, depth + 1, &mut inner)?;
                }
                _ => return Err(misplaced(at, message.full_name())),
            }
            put_delimited(field, inner, pieces);
            Ok(())
        }
        (kind, Value::String(text)) => {
            let alone = text_of(text);
            match (Number::of(&kind), alone.as_slice()) {
                (Some(form), [MessagePiece::Text(hole)]) => {
                    pieces.push(tag(field, form.wire_type()));
                    pieces.push(MessagePiece::Number { hole: *hole, form });
                    Ok(())
                }
                (Some(_), _) => Err(MessageError::Field {
                    at: at.to_owned(),
                    problem: format!(
                        "a number is one template, without other text (expected {})",
                        type_of(field)
                    ),
                }),
                (None, _) => Err(misplaced(at, &type_of(field))),
            }
        }
        _ => Err(misplaced(at, &type_of(field))),
    }
}

fn misplaced(at: &str, type_name: &str) -> MessageError {
    MessageError::Field {
        at: place(at, type_name),
        problem: format!("a template stands for text or a number, not for {type_name}"),
    }
}

/// A string as pieces.
fn text_of(text: &str) -> Vec<MessagePiece> {
    let pieces = text.split(MARK).enumerate().map(|(number, piece)| {
        let hole = (number % 2 == 1).then(|| piece.parse().ok()).flatten();
        match hole {
            Some(hole) => MessagePiece::Text(hole),
            None => MessagePiece::Bytes(piece.as_bytes().to_vec()),
        }
    });
    pieces
        .filter(|piece| *piece != MessagePiece::Bytes(Vec::new()))
        .collect()
}

/// Appends a field whose value has a length.
fn put_delimited(
    field: &FieldDescriptor,
    inner: Vec<MessagePiece>,
    pieces: &mut Vec<MessagePiece>,
) {
    pieces.push(tag(field, 2));
    pieces.push(MessagePiece::Delimited(inner));
}

fn tag(field: &FieldDescriptor, wire_type: u64) -> MessagePiece {
    let mut bytes = Vec::new();
    put_varint(u64::from(field.number()) << 3 | wire_type, &mut bytes);
    MessagePiece::Bytes(bytes)
}
