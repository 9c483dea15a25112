//! Which page a set of runs makes.

use analysis::Observation;
use analysis::compare::Conclusions;
use results::Experiment;

use super::{Page, sweep};

/// What a page is about.
#[derive(Debug, Clone, Copy, Default)]
pub struct Subject<'a> {
    /// The runs, those that failed among them.
    pub observations: &'a [Observation],
    /// The sweeps that runs are of.
    pub experiments: &'a [Experiment],
    /// What the runs say when they are compared, if they can be.
    pub conclusions: Option<&'a Conclusions>,
    /// What was said when the runs were read; a line each.
    pub notes: &'a [String],
    /// What the page is called, instead of what its runs suggest.
    pub title: Option<&'a str>,
}

/// Makes the page: of one run, of several beside each other, or of a sweep.
#[must_use]
pub fn of(subject: &Subject<'_>) -> Page {
    Page {
        title: subject.title.unwrap_or("wrkbench").to_owned(),
        subtitle: String::new(),
        sections: sweep::sections(subject),
    }
}
