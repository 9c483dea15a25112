//! Texts with `{{...}}` in them.

use crate::error::{Fault, quoted};
use crate::scope::{NamedFileError, Scope};

/// A text in which some parts are different in every request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) pieces: Vec<Piece>,
}

/// A part of a [`Template`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A text that is always the same.
    Text(Vec<u8>),
    /// Made for each request.
    Value {
        value: Value,
        /// Where it is in the text of the file, for messages.
        at: usize,
    },
}

/// A value that is made for each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    /// `{{uuid}}`: a random UUID (RFC 9562 section 5.4).
    Uuid,
    /// `{{seq}}`: the number of the request.
    Seq,
    /// `{{rand:1-9}}`: a random whole number; both ends are possible.
    Rand { min: i64, max: i64 },
    /// `{{now}}`: Unix time in milliseconds.
    NowMs,
    /// `{{$timestamp}}`: Unix time in seconds.
    NowSec,
    /// `{{csv:users.csv:name}}`: a cell of the next row.
    Cell { table: u32, column: u32 },
    /// `{{$conversation}}`: members of a JSON object that say what was said so far in the
    /// conversation of the request.
    Conversation,
    /// `{{$conversation.id}}`: the same in all requests of a conversation.
    ConversationId,
    /// `{{token}}`: what an earlier request of the client captured.
    Captured { variable: u32 },
}

/// The names of all templates, for messages.
const EXPECTED: &str = "expected uuid, seq, rand:1-9, now, env:NAME, csv:FILE:COLUMN, what an \
                        earlier request captures, or 'text' for text as it is";

/// Characters of a UUID as text.
pub(crate) const UUID_BYTES: usize = 36;

impl Value {
    /// Its length in bytes, if it is always the same.
    pub(crate) fn fixed_bytes(self) -> Option<usize> {
        match self {
            Self::Uuid => Some(UUID_BYTES),
            _ => None,
        }
    }
}

impl Piece {
    /// The value, and where it is in the text of the file.
    pub(crate) fn value(&self) -> Option<(Value, usize)> {
        match self {
            Self::Text(_) => None,
            Self::Value { value, at } => Some((*value, *at)),
        }
    }
}

impl Template {
    /// A text without templates.
    pub(crate) fn literal(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let pieces = if bytes.is_empty() {
            Vec::new()
        } else {
            vec![Piece::Text(bytes)]
        };
        Self { pieces }
    }

    /// Reads the templates in a text that begins at `at` in the file.
    pub(crate) fn parse(text: &str, at: usize, scope: &mut Scope<'_>) -> Result<Self, Fault> {
        let mut template = Self::default();
        let mut begin = 0;
        while let Some(open) = text[begin..].find("{{") {
            let open = begin + open;
            template.push_text(&text.as_bytes()[begin..open]);
            let inner = open + 2;
            let end = text[inner..]
                .find("}}")
                .ok_or_else(|| Fault::new(at + open, "{{ has no }} after it"))?;
            let name = text[inner..inner + end].trim();
            let found = scope_value(name, at + open, scope);
            template.append(found.map_err(|error| Fault::new(at + open, error))?);
            begin = inner + end + 2;
        }
        template.push_text(&text.as_bytes()[begin..]);
        Ok(template)
    }

    /// Appends the pieces of another template.
    pub(crate) fn append(&mut self, other: Self) {
        for piece in other.pieces {
            match piece {
                Piece::Text(text) => self.push_text(&text),
                value @ Piece::Value { .. } => self.pieces.push(value),
            }
        }
    }

    /// The numbers of the captured values in it.
    pub(crate) fn captured(&self) -> impl Iterator<Item = u32> + '_ {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Value {
                value: Value::Captured { variable },
                ..
            } => Some(*variable),
            _ => None,
        })
    }

    /// The template with other positions in the file.
    pub(crate) fn moved(mut self, position: impl Fn(usize) -> usize) -> Self {
        for piece in &mut self.pieces {
            if let Piece::Value { at, .. } = piece {
                *at = position(*at);
            }
        }
        self
    }

    fn push_text(&mut self, text: &[u8]) {
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Text(last)) => last.extend_from_slice(text),
            _ => self.pieces.push(Piece::Text(text.to_vec())),
        }
    }

    /// Whether a part that is always the same contains a text.
    pub(crate) fn has_text(&self, wanted: &str) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Text(text) => memchr::memmem::find(text, wanted.as_bytes()).is_some(),
            Piece::Value { .. } => false,
        })
    }

    /// The text with the same one in place of each value.
    pub(crate) fn with_values(&self, value: &str) -> Vec<u8> {
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.as_slice(),
            Piece::Value { .. } => value.as_bytes(),
        });
        pieces.collect::<Vec<_>>().concat()
    }

    /// The text before the first value.
    pub(crate) fn beginning(&self) -> &[u8] {
        match self.pieces.first() {
            Some(Piece::Text(text)) => text,
            _ => b"",
        }
    }

    /// Removes the first bytes of [`Self::beginning`].
    pub(crate) fn without_beginning(mut self, bytes: usize) -> Self {
        if let Some(Piece::Text(text)) = self.pieces.first_mut() {
            text.drain(..bytes);
        }
        self
    }

    /// The template as text that reads back as the same template. `None` if it has bytes that are
    /// not UTF-8.
    pub(crate) fn to_text(&self, scope: &Scope<'_>) -> Option<String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(bytes) => {
                    text.push_str(&str::from_utf8(bytes).ok()?.replace("{{", "{{'{{'}}"));
                }
                Piece::Value { value, .. } => text.push_str(&match *value {
                    Value::Uuid => "{{uuid}}".to_owned(),
                    Value::Seq => "{{seq}}".to_owned(),
                    Value::Rand { min, max } => format!("{{{{rand:{min}-{max}}}}}"),
                    Value::NowMs => "{{now}}".to_owned(),
                    Value::NowSec => "{{$timestamp}}".to_owned(),
                    Value::Conversation => "{{$conversation}}".to_owned(),
                    Value::ConversationId => "{{$conversation.id}}".to_owned(),
                    Value::Cell { table, column } => {
                        let table = &scope.tables[table as usize];
                        let column = &table.columns()[column as usize];
                        format!("{{{{csv:{}:{column}}}}}", table.name)
                    }
                    Value::Captured { variable } => {
                        format!("{{{{{}}}}}", scope.captured.name(variable))
                    }
                }),
            }
        }
        Some(text)
    }
}

/// Why the text between `{{` and `}}` stands for nothing, one line.
#[derive(Debug, thiserror::Error)]
enum TemplateError {
    #[error("{} is not a template ({EXPECTED})", quoted(.0))]
    Unknown(String),
    #[error("rand:{0} is not a range of whole numbers (expected like rand:1-9)")]
    NoRange(String),
    #[error("rand:{0}: the first number is the larger one")]
    EmptyRange(String),
    #[error("$randomInt {0} {1}: expected two numbers, the smaller one first")]
    RandomInt(String, String),
    #[error("the environment variable {} is not set", quoted(.0))]
    NoVariable(String),
    #[error("csv:{0} names no column (expected csv:FILE:COLUMN)")]
    NoColumnName(String),
    /// The file, the column, and those that the file has.
    #[error("{} has no column {} (it has {})", .0, quoted(.1), .2.join(", "))]
    NoColumn(String, String, Vec<String>),
    #[error(transparent)]
    File(#[from] NamedFileError),
}

/// What the text between `{{` and `}}` stands for.
fn scope_value(name: &str, at: usize, scope: &mut Scope<'_>) -> Result<Template, TemplateError> {
    let value = |value| {
        Ok(Template {
            pieces: vec![Piece::Value { value, at }],
        })
    };
    let quote = name
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''));
    if let Some(text) = quote {
        return Ok(Template::literal(text));
    }
    if let Some(variable) = scope.variables.get(name) {
        return Ok(variable.clone());
    }
    if let Some(variable) = scope.captured.find(name) {
        return value(Value::Captured { variable });
    }
    if let Some((kind, argument)) = name.split_once(':') {
        return match kind {
            "rand" => value(rand(argument)?),
            "env" => environment(argument, scope),
            "csv" => value(cell(argument, scope)?),
            _ => Err(TemplateError::Unknown(name.to_owned())),
        };
    }
    // Names that VS Code's and JetBrains' clients use in .http files.
    let mut words = name.split_whitespace();
    match (words.next().unwrap_or_default(), words.next(), words.next()) {
        ("uuid" | "$uuid" | "$guid" | "$random.uuid", None, _) => value(Value::Uuid),
        ("seq", None, _) => value(Value::Seq),
        ("now", None, _) => value(Value::NowMs),
        ("$timestamp", None, _) => value(Value::NowSec),
        ("$conversation", None, _) => value(Value::Conversation),
        ("$conversation.id", None, _) => value(Value::ConversationId),
        ("$processEnv", Some(variable), None) => environment(variable, scope),
        ("$randomInt", Some(min), Some(end)) => value(random_int(min, end)?),
        _ => Err(TemplateError::Unknown(name.to_owned())),
    }
}

fn rand(range: &str) -> Result<Value, TemplateError> {
    let bad = || TemplateError::NoRange(range.to_owned());
    // The first character may be the sign of the smallest number.
    let dash = range.char_indices().skip(1).find(|(_, c)| *c == '-');
    let (dash, _) = dash.ok_or_else(bad)?;
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| bad());
    let (min, max) = (number(&range[..dash])?, number(&range[dash + 1..])?);
    if min <= max {
        Ok(Value::Rand { min, max })
    } else {
        Err(TemplateError::EmptyRange(range.to_owned()))
    }
}

/// `$randomInt` of VS Code's client, whose range does not include its end.
fn random_int(min: &str, end: &str) -> Result<Value, TemplateError> {
    let range = min.parse::<i64>().ok().zip(end.parse::<i64>().ok());
    match range {
        Some((min, end)) if min < end => Ok(Value::Rand { min, max: end - 1 }),
        _ => Err(TemplateError::RandomInt(min.to_owned(), end.to_owned())),
    }
}

fn environment(name: &str, scope: &Scope<'_>) -> Result<Template, TemplateError> {
    let value = (scope.inputs.variable)(name.trim());
    value
        .map(Template::literal)
        .ok_or_else(|| TemplateError::NoVariable(name.trim().to_owned()))
}

fn cell(argument: &str, scope: &mut Scope<'_>) -> Result<Value, TemplateError> {
    let (file, name) = argument
        .rsplit_once(':')
        .ok_or_else(|| TemplateError::NoColumnName(argument.to_owned()))?;
    let table = scope.table(file.trim())?;
    let known = &scope.tables[table as usize];
    match known.column(name.trim()) {
        Some(column) => Ok(Value::Cell { table, column }),
        None => {
            let (name, columns) = (name.trim().to_owned(), known.columns().to_vec());
            Err(TemplateError::NoColumn(file.to_owned(), name, columns))
        }
    }
}
