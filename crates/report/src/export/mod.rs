//! Runs in formats that people and other tools read: one file for each format.
//!
//! What a run does not have is left out, never zero.

mod benchfmt;
mod csv;
mod github;
mod json;
mod junit;
mod logs;
mod markdown;
mod names;
mod remarks;

use std::io::{self, Write};
use std::path::Path;

use analysis::compare::Validity;
use analysis::{Observation, quantity};
use judging::{Criterion, ThinPercentiles};

use crate::page::{self, Subject};

pub use names::of_run as run_name;

/// What is shown, and what it is held against.
#[derive(Debug, Clone, Copy, Default)]
pub struct Export<'a> {
    /// The runs and what they say together.
    pub subject: Subject<'a>,
    /// Conditions under which a run counts as failed.
    pub criteria: &'a [Criterion],
}

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// One page with charts.
    Html,
    /// For a pull request.
    Markdown,
    /// A row for each run and metric.
    Csv,
    /// Everything in numbers.
    Json,
    /// HdrHistogram's distribution, of one run.
    Hgrm,
    /// HdrHistogram's log.
    Hlog,
    /// Go's benchmark format, which benchstat reads.
    Benchfmt,
    /// For continuous integration.
    Junit,
    /// Annotations of GitHub's workflows.
    Github,
}

/// Why there is nothing to write; one line.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The writer's.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The format holds one run.
    #[error(
        "hgrm holds one distribution, and there are {runs} runs (give one result, or --format hlog, which tags each run)"
    )]
    OneRunOnly {
        /// How many there are.
        runs: usize,
    },
    /// The format is made of histograms.
    #[error(
        "{format} is made of histograms, which only saved results have (--json); the text of a run has none"
    )]
    NoHistogram {
        /// The format's name.
        format: &'static str,
    },
}

impl ExportFormat {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Html,
        Self::Markdown,
        Self::Csv,
        Self::Json,
        Self::Hgrm,
        Self::Hlog,
        Self::Benchfmt,
        Self::Junit,
        Self::Github,
    ];

    /// The name that selects it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Markdown => "md",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Hgrm => "hgrm",
            Self::Hlog => "hlog",
            Self::Benchfmt => "benchfmt",
            Self::Junit => "junit",
            Self::Github => "github",
        }
    }

    /// What it is, in one phrase.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Html => "one page with charts, which needs no network",
            Self::Markdown => "for a pull request: what the runs say, averages, runs",
            Self::Csv => "a row for each run and metric",
            Self::Json => "one document: values, summaries, conclusions; of one result the result",
            Self::Hgrm => "HdrHistogram's distribution of one run",
            Self::Hlog => "HdrHistogram's log, with a tag for each of several runs",
            Self::Benchfmt => "lines that Go's benchstat reads",
            Self::Junit => "a test suite for each run, a test case for each condition of --fail-if",
            Self::Github => "annotations of GitHub's workflows",
        }
    }

    /// The ends of the names of its files, without the point.
    #[must_use]
    pub const fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Html => &["html", "htm"],
            Self::Markdown => &["md", "markdown"],
            Self::Csv => &["csv"],
            Self::Json => &["json"],
            Self::Hgrm => &["hgrm"],
            Self::Hlog => &["hlog"],
            Self::Benchfmt => &["bench"],
            Self::Junit => &["xml"],
            // Goes to the log of a workflow, not to a file.
            Self::Github => &[],
        }
    }

    /// The format that a file's name asks for.
    #[must_use]
    pub fn of_file(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?;
        let is_its = |known: &str| known.eq_ignore_ascii_case(ending);
        Self::ALL
            .iter()
            .copied()
            .find(|format| format.endings().iter().any(|known| is_its(known)))
    }
}

/// Writes runs in a format.
///
/// # Errors
/// Those of the writer; when the format cannot hold these runs, of which nothing is written then.
pub fn render(
    export: &Export<'_>,
    format: ExportFormat,
    output: &mut dyn Write,
) -> Result<(), ExportError> {
    match format {
        ExportFormat::Html => page::render(&page::build(&export.subject), output)?,
        ExportFormat::Markdown => markdown::render(export, output)?,
        ExportFormat::Csv => csv::render(export, output)?,
        ExportFormat::Json => json::render(export, output)?,
        ExportFormat::Hgrm => logs::render_hgrm(export, output)?,
        ExportFormat::Hlog => logs::render_hlog(export, output)?,
        ExportFormat::Benchfmt => benchfmt::render(export, output)?,
        ExportFormat::Junit => junit::render(export, output)?,
        ExportFormat::Github => github::render(export, output)?,
    }
    Ok(())
}

/// What was measured, without percentiles of the latency that rest on too few samples: those are chance.
/// A text is taken at its word, since it does not say on how many.
fn trusted(run: &Observation, name: &str) -> Option<f64> {
    let value = run.value(name).filter(|value| value.is_finite())?;
    let is_enough = match (quantity::percentile_of(name), &run.result) {
        (Some(("latency", percent)), Some(result)) => {
            let samples = result.recording.latency().count();
            ThinPercentiles::among(&[percent], samples).is_none()
        }
        _ => true,
    };
    is_enough.then_some(value)
}

/// How many of the runs are not in what [`render`] writes: the format has no place for what failed, or for what
/// has no histograms.
#[must_use]
pub fn left_out(export: &Export<'_>, format: ExportFormat) -> usize {
    let has_place = |run: &&Observation| match format {
        ExportFormat::Benchfmt => benchfmt::has_line(run),
        ExportFormat::Hgrm | ExportFormat::Hlog => run.result.is_some(),
        _ => true,
    };
    let runs = export.runs();
    runs.len() - runs.iter().filter(has_place).count()
}

impl<'a> Export<'a> {
    fn runs(&self) -> &'a [Observation] {
        self.subject.observations
    }

    /// The runs of a sweep cell by cell, as the plan has them; others as they are.
    fn by_cell(&self) -> Vec<&'a Observation> {
        let mut runs: Vec<&Observation> = self.runs().iter().collect();
        runs.sort_by_key(|run| run.cell.unwrap_or(u32::MAX));
        runs
    }

    /// As it was asked for, or the sweep's name.
    fn title(&self) -> &'a str {
        let of_sweep = match self.subject.experiments {
            [experiment] => Some(experiment.name.as_str()),
            _ => None,
        };
        self.subject.title.or(of_sweep).unwrap_or("wrkbench")
    }

    /// How far the runs can be trusted, in words, which go before all conclusions. Of one run its own verdict says
    /// that.
    fn limits(&self) -> Vec<String> {
        let validity = match self.subject.conclusions {
            Some(conclusions) => conclusions.validity.clone(),
            None if self.runs().len() > 1 => vec![Validity::of(self.runs(), None)],
            None => Vec::new(),
        };
        crate::comparison::validity_sentences(&validity)
    }

    /// What runs of one cell have to do with each other is said by the conclusions, a sentence each.
    fn sentences(&self) -> Vec<String> {
        let comparisons = self
            .subject
            .conclusions
            .iter()
            .flat_map(|of| &of.comparisons);
        comparisons.map(crate::comparison::sentence).collect()
    }

    /// What speaks against the conclusions.
    fn doubts(&self) -> Vec<String> {
        let doubts = self.subject.conclusions.iter().flat_map(|of| &of.doubts);
        doubts.map(crate::comparison::doubt_sentence).collect()
    }
}
