//! Which page a set of runs makes.

use analysis::compare::Conclusions;
use analysis::{FILE_FACTOR, Observation};
use results::Experiment;

use super::tables::finding;
use super::{Page, Section, Tone, names, overlay, run, sweep, words};

/// A URL can be longer than a screen.
const TITLE_CHARS_MAX: usize = 200;

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
    let (title, subtitle, mut sections) = match subject.observations {
        [] => (
            "No runs".to_owned(),
            String::new(),
            vec![no_runs("There is no run to show.")],
        ),
        [run] => (names::title(run), names::subtitle(run), run::sections(run)),
        several if is_sweep(subject) => {
            let title = sweep_title(subject);
            let subtitle = names::span(several, &title);
            (title, subtitle, sweep::sections(subject))
        }
        several => {
            let title = names::title_of_several(several);
            let subtitle = names::span(several, &title);
            (title, subtitle, overlay::sections(subject))
        }
    };
    sections.extend(notes(subject.notes));
    Page {
        title: words::cut(subject.title.unwrap_or(&title), TITLE_CHARS_MAX),
        subtitle,
        sections,
    }
}

/// Runs of a sweep, or of several levels of something but the files they stand in.
fn is_sweep(subject: &Subject<'_>) -> bool {
    let levels = |run: &Observation| -> Vec<(String, String)> {
        let own = run
            .settings
            .iter()
            .filter(|setting| setting.factor != FILE_FACTOR);
        own.map(|setting| (setting.factor.clone(), setting.level.clone()))
            .collect()
    };
    let mut all = subject.observations.iter().map(levels);
    let first = all.next().unwrap_or_default();
    !subject.experiments.is_empty() || all.any(|levels| levels != first)
}

fn sweep_title(subject: &Subject<'_>) -> String {
    let names: Vec<String> = subject
        .experiments
        .iter()
        .map(|experiment| experiment.name.clone())
        .filter(|name| !name.is_empty())
        .collect();
    if names.is_empty() {
        names::title_of_several(subject.observations)
    } else {
        words::list(&names)
    }
}

fn no_runs(text: &str) -> Section {
    Section {
        id: "verdict".to_owned(),
        title: "Verdict".to_owned(),
        blocks: vec![finding(Tone::Warning, text, vec![])],
        ..Section::default()
    }
}

/// What was said when the runs were read.
fn notes(notes: &[String]) -> Option<Section> {
    (!notes.is_empty()).then(|| Section {
        id: "reading-notes".to_owned(),
        title: "Notes on the files".to_owned(),
        lead: "What was skipped or is worth knowing about what this page was made of.".to_owned(),
        blocks: notes
            .iter()
            .map(|note| finding(Tone::Neutral, note.clone(), vec![]))
            .collect(),
        is_folded: false,
    })
}
