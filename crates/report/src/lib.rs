//! Shows results: a finished run goes in, bytes come out; nothing is measured, nothing else is read.

#![forbid(unsafe_code)]

pub mod comparison;
mod correction;
pub mod export;
mod hgrm;
mod hlog;
mod json;
pub mod page;
mod spectrum;
mod styles;
pub mod sweep;
pub mod table;
mod telemetry;
pub mod text;

use std::io::{self, Write};

use results::RunResult;

/// The ways to show a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The text that wrk prints, line for line.
    Wrk,
    /// The text that wrk2 prints.
    Wrk2,
    /// The text that wrk-cmm, the centminmod fork of wrk, prints.
    Cmm,
    /// The saved document: everything, see docs/result-format.md.
    Json,
    /// The distribution of latency as text, in milliseconds, for HdrHistogram's plotter.
    Hgrm,
    /// Latency over time as a log of HdrHistograms, in nanoseconds.
    Hlog,
}

impl Format {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Wrk,
        Self::Wrk2,
        Self::Cmm,
        Self::Json,
        Self::Hgrm,
        Self::Hlog,
    ];

    /// The name that selects it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wrk => "wrk",
            Self::Wrk2 => "wrk2",
            Self::Cmm => "cmm",
            Self::Json => "json",
            Self::Hgrm => "hgrm",
            Self::Hlog => "hlog",
        }
    }
}

/// What the texts show beyond their fixed lines. All of it works in each of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TextOptions {
    /// Show the latency distribution (`--latency`); wrk2's text has the detailed spectrum with it.
    pub latency: bool,
    /// Show the latency distribution and after it the one of service times (`--u_latency`), which
    /// leaves out how late requests were sent.
    pub uncorrected: bool,
    /// Add rows for the phases of a request: Connect, TTFB, TTLB, and TLS for https (`--breakout`).
    pub breakout: bool,
    /// The percentiles (0..=100) of the distributions instead of the text's own; giving any shows
    /// the one of latency. The JSON document has them beside its standard ones.
    pub percentiles: Option<Vec<f64>>,
    /// Apply wrk's arithmetic against coordinated omission to the latency figures of the text:
    /// invented samples are added for every slow one. Without effect on a run with a rate, whose
    /// latency counts from the moment that a request was due and so omits nothing.
    pub wrk_correction: bool,
    /// Where there is no latency at all say so in a line, instead of a table of zeros and `-nan%`.
    pub plain_if_empty: bool,
}

/// Writes a result. Of a text, everything that follows [`text::banner`], which is printed before a
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
        Format::Wrk => styles::render(result, &styles::WRK, options, output),
        Format::Wrk2 => styles::render(result, &styles::WRK2, options, output),
        Format::Cmm => styles::render(result, &styles::CMM, options, output),
        Format::Json => json::render(result, options, output),
        Format::Hgrm => hgrm::render(result, output),
        Format::Hlog => hlog::render(result, output),
    }
}
