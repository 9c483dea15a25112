//! A report page: sections of charts, tables and text, and one HTML file made of them.
//!
//! There are two steps. [`build`] decides what is shown and makes a [`Page`]: plain data, which
//! tests can inspect. [`render`] writes the file and knows nothing of runs.
//!
//! A page shows groups of runs; one run is one group of one. Every page has the same list of
//! sections, and each section decides from the groups whether it applies.

mod curves;
mod headline;
mod lines;
mod names;
pub(crate) mod quantities;
mod render;
mod runs;
mod sections;

use analysis::compare::Conclusions;
use analysis::{Observation, SearchSummary};
use presentation::{Page, words};
use results::Experiment;

pub use render::render;
pub(crate) use render::style_sheet;
pub(crate) use sections::lost_requests;

use runs::Runs;

/// A name in it can be longer than a screen.
const TITLE_CHARS_MAX: usize = 200;

/// What a page is about.
#[derive(Debug, Clone, Copy, Default)]
pub struct PageSubject<'a> {
    /// The runs, including those that failed.
    pub observations: &'a [Observation],
    /// The experiments that the runs belong to.
    pub experiments: &'a [Experiment],
    /// The searches that the runs are.
    pub searches: &'a [SearchSummary],
    /// The comparison of the runs, if they can be compared.
    pub conclusions: Option<&'a Conclusions>,
    /// Messages from reading the runs, a line each.
    pub notes: &'a [String],
    /// The page's title, in place of its answer.
    pub title: Option<&'a str>,
}

/// Makes a page of one run, of several, or of an experiment.
#[must_use]
pub fn build(subject: &PageSubject<'_>) -> Page {
    let runs = Runs::of(subject);
    let answer = words::cut(&headline::of(&runs), TITLE_CHARS_MAX);
    let title = subject
        .title
        .map(|title| words::cut(title, TITLE_CHARS_MAX));
    Page {
        title: title.unwrap_or_else(|| answer.clone()),
        answer,
        subtitle: names::subtitle(subject),
        sections: sections::all(&runs),
    }
}
