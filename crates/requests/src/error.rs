//! Why a request file cannot be used, and where in it.

use std::fmt;

/// What is wrong with a request file, and where; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct FileError {
    /// The file, as the user named it.
    pub file: String,
    /// Number of the line, from 1.
    pub line: usize,
    /// Characters from the start of the line, counted from 1.
    pub column: usize,
    /// What is wrong, and what is expected.
    pub message: String,
}

/// What is wrong at a position of the text that is being read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Bytes from the start of the text.
    pub(crate) at: usize,
    pub(crate) message: String,
}

impl Fault {
    /// A fault whose message stays one line even if it repeats a part of the file.
    pub(crate) fn new(at: usize, message: impl fmt::Display) -> Self {
        Self {
            at,
            message: plan::printable(&message.to_string()).into_owned(),
        }
    }

    /// The fault with line and column in the whole text of the file.
    pub(crate) fn in_file(self, file: &str, text: &[u8]) -> FileError {
        let before = &text[..self.at.min(text.len())];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        let in_line = String::from_utf8_lossy(&before[line_start..]);
        FileError {
            file: file.to_owned(),
            line: 1 + memchr::memchr_iter(b'\n', before).count(),
            column: 1 + in_line.chars().filter(|c| *c != '\u{feff}').count(),
            message: self.message,
        }
    }
}

/// The beginning of a text, quoted, for a message of one line.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN_CHARS: usize = 60;
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}
