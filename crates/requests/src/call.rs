//! Messages of gRPC calls, and bodies as they are sent.

use std::collections::HashMap;

use grpc::{
    JsonPiece, MessageError, MessagePiece, Method, Number, Schema, SchemaError, put_varint,
};
use protocol::h2::grpc::{MessageFault, framed};

use crate::csv::Table;
use crate::entry::RequestEntry;
use crate::error::Fault;
use crate::set::Filling;
use crate::template::{Piece, Template, Value};

/// A part of a body.
pub(crate) enum Chunk {
    /// Bytes that are always the same.
    Bytes(Vec<u8>),
    /// What is made for each request, and where the file has it, for messages.
    Gap { filling: Filling, at: usize },
}

/// The methods that the requests of a file call.
#[derive(Default)]
pub(crate) struct Methods(HashMap<String, Method>);

/// Why a request is no call that can be sent, one line.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error("{0}: a gRPC call is a POST")]
    NoPost(String),
    #[error("the method of a call cannot have templates")]
    TemplateInMethod,
    #[error("{0}: its calls have a stream of requests, but this program sends one message")]
    Streaming(String),
    #[error(
        "the message is JSON, whose types are not known (add --reflection, --proto or --proto-set)"
    )]
    NoTypes,
    #[error("the message is not UTF-8")]
    NotUtf8,
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error(transparent)]
    Message(#[from] MessageError),
    #[error(transparent)]
    Frame(#[from] MessageFault),
    /// What does not fit, and what the field needs.
    #[error("{0} does not fit the field (expected {1})")]
    Unfit(String, String),
    #[error("a UUID is not a number (expected {0})")]
    UnfitUuid(String),
    #[error("milliseconds since 1970 do not fit the field (expected {0})")]
    UnfitTime(String),
}

/// A text as it is sent.
pub(crate) fn of_text(template: &Template) -> Vec<Chunk> {
    let pieces = template.pieces.iter().map(|piece| match piece {
        Piece::Text(text) => Chunk::Bytes(text.clone()),
        Piece::Value { value, at } => Chunk::Gap {
            filling: Filling::Value(*value),
            at: *at,
        },
    });
    pieces.collect()
}

/// The bytes that are always the same, and those of gaps if these always have the same length.
pub(crate) fn lengths(chunks: &[Chunk]) -> (usize, Option<usize>) {
    let (mut bytes, mut in_gaps) = (0, Some(0));
    for chunk in chunks {
        match chunk {
            Chunk::Bytes(fixed) => bytes += fixed.len(),
            Chunk::Gap { filling, .. } => {
                in_gaps = in_gaps.zip(filling.fixed_bytes()).map(|(a, b)| a + b);
            }
        }
    }
    (bytes, in_gaps)
}

impl Methods {
    /// The message of a call. The path names the method; without types, the body is the message.
    pub(crate) fn message(
        &mut self,
        entry: &RequestEntry,
        path: &Template,
        types: Option<&Schema>,
        tables: &[Table],
    ) -> Result<Vec<Chunk>, Fault> {
        let fault = |error: CallError| Fault::new(entry.at, error);
        if !matches!(entry.method.as_str(), "GET" | "POST") {
            return Err(fault(CallError::NoPost(entry.method.clone())));
        }
        let empty = Template::default();
        let body = entry.body.as_ref().unwrap_or(&empty);
        let beginning = body.beginning().trim_ascii_start();
        let is_json = beginning.first() == Some(&b'{');
        let Some(types) = types else {
            return if is_json {
                Err(fault(CallError::NoTypes))
            } else {
                message_of_bytes(body).map_err(fault)
            };
        };
        if !is_json && !body.pieces.is_empty() {
            return message_of_bytes(body).map_err(fault);
        }
        let method = self.method(path, types).map_err(fault)?;
        let texts = body.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => str::from_utf8(text).map(JsonPiece::Text),
            Piece::Value { .. } => Ok(JsonPiece::Hole),
        });
        let texts: Result<Vec<_>, _> = texts.collect();
        let mut texts = texts.map_err(|_| fault(CallError::NotUtf8))?;
        if texts.is_empty() {
            texts.push(JsonPiece::Text("{}"));
        }
        let holes: Vec<(Value, usize)> = body.pieces.iter().filter_map(Piece::value).collect();
        let pieces = method.encode_template(&texts);
        let pieces = pieces.map_err(|error| fault(error.into()))?;
        let chunks = flattened(pieces, &holes);
        for chunk in &chunks {
            if let Chunk::Gap { filling, at } = chunk {
                check_value(*filling, tables).map_err(|problem| Fault::new(*at, problem))?;
            }
        }
        Ok(chunks)
    }

    fn method(&mut self, path: &Template, types: &Schema) -> Result<&Method, CallError> {
        let [Piece::Text(text)] = path.pieces.as_slice() else {
            return Err(CallError::TemplateInMethod);
        };
        let name = String::from_utf8_lossy(text).into_owned();
        if !self.0.contains_key(&name) {
            let method = types.method(&name)?;
            if method.is_client_streaming() {
                return Err(CallError::Streaming(name));
            }
            self.0.insert(name.clone(), method);
        }
        Ok(&self.0[&name])
    }
}

/// A message that is given as bytes, as with `--body`.
fn message_of_bytes(body: &Template) -> Result<Vec<Chunk>, CallError> {
    if let [Piece::Text(bytes)] = body.pieces.as_slice() {
        framed(bytes)?;
    }
    Ok(of_text(body))
}

/// Parts one after the other. A length is a gap if what it counts has gaps of different lengths.
fn flattened(pieces: Vec<MessagePiece>, holes: &[(Value, usize)]) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for piece in pieces {
        let filling = match piece {
            MessagePiece::Bytes(bytes) => {
                chunks.push(Chunk::Bytes(bytes));
                continue;
            }
            MessagePiece::Delimited(inner) => {
                let inner = flattened(inner, holes);
                chunks.push(length_of(&inner));
                chunks.extend(inner);
                continue;
            }
            MessagePiece::Text(hole) => holes
                .get(hole)
                .map(|(value, at)| (Filling::Value(*value), *at)),
            MessagePiece::Number { hole, form } => holes.get(hole).map(|(value, at)| {
                (
                    Filling::Number {
                        value: *value,
                        form,
                    },
                    *at,
                )
            }),
        };
        chunks.extend(filling.map(|(filling, at)| Chunk::Gap { filling, at }));
    }
    chunks
}

fn length_of(chunks: &[Chunk]) -> Chunk {
    let (bytes, in_gaps) = lengths(chunks);
    match in_gaps {
        Some(in_gaps) => {
            let mut length = Vec::new();
            put_varint((bytes + in_gaps) as u64, &mut length);
            Chunk::Bytes(length)
        }
        None => {
            let gaps = chunks.iter().filter(|it| matches!(it, Chunk::Gap { .. }));
            let filling = Filling::Length {
                bytes: bytes as u32,
                gaps: gaps.count() as u32,
            };
            Chunk::Gap { filling, at: 0 }
        }
    }
}

/// Refuses values that are known not to fit their field.
fn check_value(filling: Filling, tables: &[Table]) -> Result<(), CallError> {
    let (value, form) = match filling {
        Filling::Value(value) => (value, None),
        Filling::Number { value, form } => (value, Some(form)),
        Filling::Length { .. } | Filling::ContentLength => return Ok(()),
    };
    let fits = |text: &[u8]| match form {
        None => str::from_utf8(text).is_ok(),
        Some(form) => form.encode(text, &mut Vec::new()),
    };
    let needed = || form.map_or_else(|| "UTF-8".to_owned(), name_of);
    match value {
        Value::Cell { table, column } => {
            let table = &tables[table as usize];
            let bad = (0..table.rows()).find(|row| !fits(table.cell(*row, column)));
            bad.map_or(Ok(()), |row| {
                let place = format!("row {} of {}", row + 1, table.name);
                Err(CallError::Unfit(place, needed()))
            })
        }
        Value::Rand { min, max } => {
            let fit = [min, max].map(|end| fits(end.to_string().as_bytes()));
            match fit {
                [true, true] => Ok(()),
                _ => Err(CallError::Unfit(format!("rand:{min}-{max}"), needed())),
            }
        }
        Value::Uuid if form.is_some() => Err(CallError::UnfitUuid(needed())),
        Value::NowMs if !fits(b"2000000000000") => Err(CallError::UnfitTime(needed())),
        _ => Ok(()),
    }
}

/// The name of protobuf.
fn name_of(form: Number) -> String {
    format!("{form:?}").to_lowercase()
}
