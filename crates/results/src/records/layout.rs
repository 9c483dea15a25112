//! The form and the columns of a file of records.

use std::path::Path;

/// The form of a file, which its name tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordForm {
    /// One JSON object per line.
    JsonLines,
    /// A line with the names of the columns, then one line per record.
    Csv,
}

/// The name of a file does not tell its form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the name must end with .jsonl (JSON lines) or .csv{hint}")]
pub struct UnknownForm {
    hint: &'static str,
}

impl RecordForm {
    /// The form of a file with this name.
    ///
    /// # Errors
    /// If the name has another ending.
    pub fn of(path: &Path) -> Result<Self, UnknownForm> {
        let ending = path.extension().and_then(|ending| ending.to_str());
        match ending.map(str::to_ascii_lowercase).as_deref() {
            Some("jsonl") => Ok(Self::JsonLines),
            Some("csv") => Ok(Self::Csv),
            Some("json") => Err(UnknownForm {
                hint: "; .json is one document, and these are lines",
            }),
            _ => Err(UnknownForm { hint: "" }),
        }
    }
}

/// A column of a file, or a key of its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// The wall-clock time at which the request was due.
    DueTime,
    /// When it was due, microseconds since the start of the window, as the following.
    Due,
    /// When it was sent.
    Sent,
    /// When the first byte of the response arrived.
    FirstByte,
    /// When the first token arrived.
    FirstToken,
    /// When the last byte arrived, or the request ended without a response.
    Ended,
    /// The load generator's own share of the time, microseconds.
    Own,
    /// The status of the response.
    Status,
    /// Why there is no response.
    Error,
    /// Bytes of the response.
    Bytes,
    /// Tokens of the prompt.
    TokensIn,
    /// Generated tokens.
    TokensOut,
    /// The number of the conversation within the thread.
    Conversation,
    /// The turn of the conversation.
    Turn,
    /// The name of the request.
    Name,
    /// The number of the thread.
    Thread,
    /// The number of the connection within the thread.
    Connection,
    /// The number of the trace.
    TraceId,
}

impl Column {
    /// All of them, in the order of a file.
    pub const ALL: &[Self] = &[
        Self::DueTime,
        Self::Due,
        Self::Sent,
        Self::FirstByte,
        Self::FirstToken,
        Self::Ended,
        Self::Own,
        Self::Status,
        Self::Error,
        Self::Bytes,
        Self::TokensIn,
        Self::TokensOut,
        Self::Conversation,
        Self::Turn,
        Self::Name,
        Self::Thread,
        Self::Connection,
        Self::TraceId,
    ];

    /// Its name in a file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DueTime => "due_time",
            Self::Due => "due_us",
            Self::Sent => "sent_us",
            Self::FirstByte => "first_byte_us",
            Self::FirstToken => "first_token_us",
            Self::Ended => "ended_us",
            Self::Own => "own_us",
            Self::Status => "status",
            Self::Error => "error",
            Self::Bytes => "bytes",
            Self::TokensIn => "tokens_in",
            Self::TokensOut => "tokens_out",
            Self::Conversation => "conversation",
            Self::Turn => "turn",
            Self::Name => "name",
            Self::Thread => "thread",
            Self::Connection => "connection",
            Self::TraceId => "trace_id",
        }
    }

    /// The column with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.name() == name)
    }
}

/// What the records of a run have beside what all have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// Responses have tokens.
    pub has_tokens: bool,
    /// Requests are turns of conversations.
    pub has_conversations: bool,
    /// Some requests have a trace.
    pub has_traces: bool,
    /// The names of the requests, by number. Empty if they have none.
    pub names: Vec<String>,
}

impl Layout {
    /// The columns, in the order of a file.
    pub fn columns(&self) -> impl Iterator<Item = Column> {
        let Self {
            has_tokens,
            has_conversations,
            has_traces,
            ref names,
        } = *self;
        let has_names = !names.is_empty();
        let all = Column::ALL.iter().copied();
        all.filter(move |column| match column {
            Column::FirstToken | Column::TokensIn | Column::TokensOut => has_tokens,
            Column::Conversation | Column::Turn => has_conversations,
            Column::Name => has_names,
            Column::TraceId => has_traces,
            _ => true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_a_name_tells_the_form() {
        let form = |name: &str| RecordForm::of(Path::new(name));
        assert_eq!(form("a/r.jsonl"), Ok(RecordForm::JsonLines));
        assert_eq!(form("r.CSV"), Ok(RecordForm::Csv));
        let refusal = |name: &str| form(name).unwrap_err().to_string();
        let expected = "the name must end with .jsonl (JSON lines) or .csv";
        for name in ["r", "-", "r.parquet", "jsonl", "r.jsonl.zst"] {
            assert_eq!(refusal(name), expected);
        }
        let hint = "; .json is one document, and these are lines";
        assert_eq!(refusal("r.json"), format!("{expected}{hint}"));
    }

    #[test]
    fn each_column_has_a_name_of_its_own() {
        for column in Column::ALL {
            assert_eq!(Column::from_name(column.name()), Some(*column));
        }
        assert_eq!(Column::from_name("latency"), None);
    }
}
