//! The error of everything that reads a value as it was typed.

/// What is wrong with a value; one line, without the name of the option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidValue(String);

impl InvalidValue {
    /// A value that is invalid for this reason: a text, or the error of another parser.
    pub fn new(reason: impl ToString) -> Self {
        Self(reason.to_string())
    }
}

/// A reason in words.
impl<T: Into<String>> From<T> for InvalidValue {
    fn from(reason: T) -> Self {
        Self(reason.into())
    }
}
