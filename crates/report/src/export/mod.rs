//! Runs in the formats of other tools.
//!
//! Unknown values are left out, never written as zero.

mod conditions;
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

use analysis::Observation;
use analysis::compare::Validity;
use judging::Criterion;
use presentation::Page;
use results::Measured;

use crate::page::{self, PageSubject};

pub use names::of_run as run_name;

/// Runs, and the conditions to check them against.
#[derive(Debug, Clone, Copy, Default)]
pub struct Export<'a> {
    /// The runs and their comparison.
    pub subject: PageSubject<'a>,
    /// Conditions under which a run fails.
    pub criteria: &'a [Criterion],
}

/// A format of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// One page with charts.
    Html,
    /// Conclusions, warnings and tables for a pull request.
    Markdown,
    /// Comma-separated values with a row for each run and metric.
    Csv,
    /// One JSON document with all runs and their comparison.
    Json,
    /// HdrHistogram's distribution, of one run.
    Hgrm,
    /// HdrHistogram's interval log, of one run or several.
    Hlog,
    /// JUnit's XML, which continuous integration reads.
    Junit,
    /// Annotations of GitHub's workflows.
    Github,
}

/// Why nothing was written; one line.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The output could not be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The format holds one run.
    #[error(
        "hgrm contains one distribution, but there are {runs} runs: give one result, or use \
         --format hlog"
    )]
    OneRunOnly {
        /// Number of runs that were given.
        runs: usize,
    },
    /// The format is made of histograms.
    #[error("{format} needs histograms, which only saved results have (--json), not text reports")]
    NoHistogram {
        /// Name of the format.
        format: &'static str,
    },
}

impl ExportFormat {
    /// All formats, in the order of `--help`.
    pub const ALL: &[Self] = &[
        Self::Html,
        Self::Markdown,
        Self::Csv,
        Self::Json,
        Self::Hgrm,
        Self::Hlog,
        Self::Junit,
        Self::Github,
    ];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().0
    }

    /// One phrase for `--help`.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        self.facts().1
    }

    /// Its file name extensions.
    #[must_use]
    pub const fn endings(self) -> &'static [&'static str] {
        self.facts().2
    }

    const fn facts(self) -> (&'static str, &'static str, &'static [&'static str]) {
        const PAGE: &str = "one page with charts, which needs no network";
        const MARKDOWN: &str = "for a pull request: conclusions, averages, runs";
        const JSON: &str = "one document: values, summaries, conclusions; a single result as it is";
        const JUNIT: &str =
            "a test suite for each run, a test case for each condition of --fail-if";
        match self {
            Self::Html => ("html", PAGE, &["html", "htm"]),
            Self::Markdown => ("md", MARKDOWN, &["md", "markdown"]),
            Self::Csv => ("csv", "a row for each run and metric", &["csv"]),
            Self::Json => ("json", JSON, &["json"]),
            Self::Hgrm => ("hgrm", "HdrHistogram's distribution of one run", &["hgrm"]),
            Self::Hlog => (
                "hlog",
                "HdrHistogram's log, with a tag for each run",
                &["hlog"],
            ),
            Self::Junit => ("junit", JUNIT, &["xml"]),
            // Goes to the log of a workflow, not to a file.
            Self::Github => ("github", "annotations of GitHub's workflows", &[]),
        }
    }

    /// The format of a file by its extension.
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
/// Those of the writer; if the format cannot contain these runs, nothing is written.
pub fn render(
    export: &Export<'_>,
    format: ExportFormat,
    output: &mut dyn Write,
) -> Result<(), ExportError> {
    match format {
        ExportFormat::Html => page::render(&html_page(export), output)?,
        ExportFormat::Markdown => markdown::render(export, output)?,
        ExportFormat::Csv => csv::render(export, output)?,
        ExportFormat::Json => json::render(export, output)?,
        ExportFormat::Hgrm => logs::render_hgrm(export, output)?,
        ExportFormat::Hlog => logs::render_hlog(export, output)?,
        ExportFormat::Junit => junit::render(export, output)?,
        ExportFormat::Github => github::render(export, output)?,
    }
    Ok(())
}

/// A value for another tool: percentiles with too few samples are left out, lower bounds are not.
/// The number of samples behind a text report is unknown; its percentiles are kept.
fn trusted(run: &Observation, name: &str) -> Option<Measured> {
    let known = run.measured(name).filter(|known| known.value.is_finite())?;
    match (known.enough_samples, known.is_lower_bound) {
        (true, _) => Some(known),
        (false, true) => Some(Measured {
            value: known.low,
            ..known
        }),
        (false, false) => None,
    }
}

/// The number of runs that [`render`] leaves out: failed ones, or those without histograms,
/// depending on the format.
#[must_use]
pub fn left_out(export: &Export<'_>, format: ExportFormat) -> usize {
    let has_place = |run: &&Observation| match format {
        ExportFormat::Hgrm | ExportFormat::Hlog => run.result.is_some(),
        _ => true,
    };
    let runs = export.runs();
    runs.len() - runs.iter().filter(has_place).count()
}

/// The page of the runs, with their conditions after the verdict.
fn html_page(export: &Export<'_>) -> Page {
    let mut page = page::build(&export.subject);
    if let Some(section) = conditions::section(export) {
        page.sections.insert(1.min(page.sections.len()), section);
    }
    page
}

impl<'a> Export<'a> {
    fn runs(&self) -> &'a [Observation] {
        self.subject.observations
    }

    /// The runs of an experiment cell by cell; other runs in their order.
    fn by_cell(&self) -> Vec<&'a Observation> {
        let mut runs: Vec<&Observation> = self.runs().iter().collect();
        runs.sort_by_key(|run| run.cell.unwrap_or(u32::MAX));
        runs
    }

    /// The given title, or the name of the experiment.
    fn title(&self) -> &'a str {
        let of_sweep = match self.subject.experiments {
            [experiment] => Some(experiment.name.as_str()),
            _ => None,
        };
        self.subject.title.or(of_sweep).unwrap_or("wrkbench")
    }

    /// Sentences that limit all conclusions and go before them. Empty for a single run, which has
    /// its own verdict.
    fn limits(&self) -> Vec<String> {
        let validity = match self.subject.conclusions {
            Some(conclusions) => conclusions.validity.clone(),
            None if self.runs().len() > 1 => vec![Validity::of(self.runs(), None)],
            None => Vec::new(),
        };
        crate::comparison::validity_sentences(&validity)
    }

    /// A sentence for each comparison.
    fn sentences(&self) -> Vec<String> {
        let comparisons = self
            .subject
            .conclusions
            .iter()
            .flat_map(|of| &of.comparisons);
        comparisons.map(crate::comparison::sentence).collect()
    }

    /// Sentences that speak against the conclusions.
    fn caveats(&self) -> Vec<String> {
        let caveats = self.subject.conclusions.iter().flat_map(|of| &of.caveats);
        caveats.map(crate::comparison::caveat_sentence).collect()
    }
}
