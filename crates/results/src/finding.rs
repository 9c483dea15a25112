//! A finding about a run: its numbers, and a sentence about them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A [`crate::Warning`] or a [`crate::Symptom`] with its sentence, so readers of the document need
/// not know every kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "{T}")
)]
pub struct Finding<T> {
    /// What was found, with the numbers that show it.
    #[serde(flatten)]
    pub data: T,
    /// One sentence about it.
    #[serde(default)]
    pub text: String,
}

impl<T> fmt::Display for Finding<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
