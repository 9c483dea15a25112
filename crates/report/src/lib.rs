//! Shows results: a finished run goes in, bytes come out; nothing is measured, nothing else is read.

#![forbid(unsafe_code)]

mod correction;
mod json;
pub mod text;
mod wrk;

use std::io::{self, Write};

use results::RunResult;

/// The ways to show a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The text that wrk prints, line for line.
    Wrk,
    /// The saved document: everything, see docs/result-format.md.
    Json,
}

impl Format {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Wrk, Self::Json];

    /// The name that selects it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wrk => "wrk",
            Self::Json => "json",
        }
    }
}

/// What the text shows beyond its fixed lines.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TextOptions {
    /// Show the latency distribution (`--latency`).
    pub latency: bool,
    /// The percentiles (0..=100) of that distribution instead of wrk's 50, 75, 90 and 99; giving
    /// any shows it. The JSON document has them beside its standard ones.
    pub percentiles: Option<Vec<f64>>,
    /// Apply wrk's arithmetic against coordinated omission to the latency figures of the text:
    /// invented samples are added for every slow one.
    pub wrk_correction: bool,
}

/// Writes a result. Of text, everything that follows [`text::banner`], which is printed before a
/// run begins.
///
/// # Errors
/// Those of the writer.
pub fn render(
    result: &RunResult,
    format: Format,
    options: &TextOptions,
    output: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Wrk => wrk::render(result, options, output),
        Format::Json => json::render(result, options, output),
    }
}
