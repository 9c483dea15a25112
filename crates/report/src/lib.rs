//! Renders results: a finished run goes in, bytes come out.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod aligned;
pub mod comparison;
mod correction;
pub mod exchange;
pub mod export;
mod fleet;
mod hgrm;
mod hlog;
mod json;
pub mod page;
pub mod picture;
mod searches;
mod sequential;
mod spectrum;
mod status;
mod styles;
pub mod sweep;
pub mod table;
pub mod text;
mod trend;

pub use searches::{render_searches, so_far};
pub use trend::{render_trend, trend_page};

use std::io::{self, Write};

use results::RunResult;

/// The formats of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The text that wrk prints, line for line.
    Wrk,
    /// The text that wrk2 prints.
    Wrk2,
    /// The text that wrk-cmm, the centminmod fork of wrk, prints.
    Cmm,
    /// The saved document (docs/result-format.md).
    Json,
    /// The distribution of latency as text, in milliseconds, for HdrHistogram's plotter.
    Hgrm,
    /// Latency over time as a log of HdrHistograms, in nanoseconds.
    Hlog,
}

impl Format {
    /// All formats, in the order of `--help`.
    pub const ALL: &[Self] = &[
        Self::Wrk,
        Self::Wrk2,
        Self::Cmm,
        Self::Json,
        Self::Hgrm,
        Self::Hlog,
    ];

    /// The name on the command line.
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

/// Additions to the fixed lines of a text; each works in every style.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TextOptions {
    /// Show the latency distribution (`--latency`); wrk2's text has the detailed spectrum with it.
    pub latency: bool,
    /// Show the latency distribution, then the one of service times (`--u_latency`), which leaves
    /// out how late requests were sent.
    pub uncorrected: bool,
    /// Add rows for the phases of a request: Connect, TTFB, TTLB, TLS for https, and Proxy for a
    /// proxy that opens connections (`--breakout`).
    pub breakout: bool,
    /// The percentiles (0..=100) of the distributions in place of the style's own; setting any
    /// shows the latency distribution. The JSON document has them in addition to its own.
    pub percentiles: Option<Vec<f64>>,
    /// Apply wrk's correction for coordinated omission to the latency of the text: samples are
    /// invented for every slow one. Ignored for a run with a rate, whose latency counts from when a
    /// request was due and omits nothing.
    pub wrk_correction: bool,
    /// Show a row for each name of requests (`--by-name`).
    pub by_name: bool,
    /// Without any latency, print a sentence in place of a table of zeros and `-nan%`.
    pub plain_if_empty: bool,
}

/// Writes a result; of a text, what follows [`text::banner`], which is printed before the run.
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
