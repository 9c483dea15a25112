//! JSON text whose parts know where they are in it, for errors with line and column.

use serde::Deserialize;
use serde_json::value::RawValue;

/// Why a text was refused, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct JsonTextError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Bytes from the start of the line, counted from 1.
    pub column: usize,
    /// What is wrong, and what is expected; one line.
    pub message: String,
}

/// A text whose parts are parsed one after another.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonText<'t> {
    text: &'t str,
}

impl<'t> JsonText<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text }
    }

    /// The elements of the array that the text is, or the objects in it. `example` is one of them,
    /// for errors.
    pub(super) fn elements(self, example: &str) -> Result<Vec<&'t RawValue>, JsonTextError> {
        let begin = self.text.trim_start_matches('\u{feff}').trim_start();
        match begin.as_bytes().first() {
            None => Err(self.at(self.text, "the file is empty (expected JSON)")),
            Some(b'[') => self.parse(begin),
            Some(b'{') => {
                let found = serde_json::Deserializer::from_str(begin).into_iter();
                let found: Result<Vec<&RawValue>, _> = found.collect();
                found.map_err(|error| self.fault(begin, &error))
            }
            Some(_) => {
                let problem =
                    format!("is neither an array nor an object (expected JSON like {example})");
                Err(self.at(begin, problem))
            }
        }
    }

    /// Parses a part of the text.
    pub(super) fn parse<T: Deserialize<'t>>(self, part: &'t str) -> Result<T, JsonTextError> {
        serde_json::from_str(part).map_err(|error| self.fault(part, &error))
    }

    /// An error of the parser in a part of the text.
    fn fault(self, part: &str, error: &serde_json::Error) -> JsonTextError {
        let (line, column) = self.position(part);
        let (line, column) = match error.line() {
            0 | 1 => (line, column + error.column().saturating_sub(1)),
            below => (line + below - 1, error.column()),
        };
        let text = error.to_string();
        let problem = text.split(" at line ").next().unwrap_or(&text);
        let message = plan::printable(problem).into_owned();
        JsonTextError {
            line,
            column,
            message,
        }
    }

    /// An error at a part of the text.
    pub(super) fn at(self, part: &str, problem: impl Into<String>) -> JsonTextError {
        let (line, column) = self.position(part);
        let message = problem.into();
        JsonTextError {
            line,
            column,
            message,
        }
    }

    /// Line and column, from 1, at which a part of the text begins.
    pub(super) fn position(self, part: &str) -> (usize, usize) {
        let at = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let begin = before.iter().rposition(|byte| *byte == b'\n');
        (line, before.len() - begin.map_or(0, |end| end + 1) + 1)
    }
}
