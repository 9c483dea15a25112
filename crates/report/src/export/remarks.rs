//! What is worth a sentence: failures, doubts, conclusions. Things of one kind are one remark, since who
//! reads many lines reads none.

use std::mem::discriminant;

use analysis::{Judged, judge_all};
use results::Warning;

use super::{Export, names};
use crate::page::lost_requests;
use crate::page::words::cut;

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// Something failed.
    Error,
    /// Numbers are in doubt.
    Warning,
    /// What came out.
    Notice,
}

/// One kind of thing, with the runs that it was seen in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remark {
    /// How much it matters.
    pub(super) weight: Weight,
    /// What kind of thing.
    pub(super) title: String,
    /// A sentence for each time, no more than [`LINES_MAX`].
    pub(super) lines: Vec<String>,
}

/// Of more of one kind only the number is told.
const LINES_MAX: usize = 5;

/// Longer than any sentence whose names can be read.
const LINE_CHARS_MAX: usize = 700;

impl Remark {
    fn new(weight: Weight, title: impl Into<String>, mut lines: Vec<String>) -> Self {
        let more = lines.len().saturating_sub(LINES_MAX);
        if more > 0 {
            lines.truncate(LINES_MAX);
            lines.push(format!("and {more} more"));
        }
        let lines = lines.iter().map(|line| cut(line, LINE_CHARS_MAX)).collect();
        Self {
            weight,
            title: title.into(),
            lines,
        }
    }
}

/// Everything there is to say, what matters most first.
pub(super) fn all(export: &Export<'_>) -> Vec<Remark> {
    let mut remarks = conditions(export);
    remarks.push(failures(export));
    remarks.push(failed_requests(export));
    remarks.push(generator(export));
    remarks.extend(warnings(export));
    remarks.push(Remark::new(Weight::Warning, "Note", export.doubts()));
    remarks.extend(
        export
            .sentences()
            .into_iter()
            .map(|sentence| Remark::new(Weight::Notice, "Result", vec![sentence])),
    );
    remarks.retain(|remark| !remark.lines.is_empty());
    remarks
}

/// A remark for each condition that holds, or that cannot be judged. That a run failed is said once.
fn conditions(export: &Export<'_>) -> Vec<Remark> {
    let judged = judge_all(export.runs(), export.criteria);
    let is_judged =
        |judged: &&Judged<'_>| judged.run.result.is_some() || judged.run.failure.is_none();
    let of_one = |index: usize| {
        let of_criterion = judged.iter().skip(index).step_by(export.criteria.len());
        let lines = of_criterion
            .filter(is_judged)
            .filter_map(|judged| {
                let failure = judged.failure()?;
                Some(format!("{}: {failure}", names::of_run(judged.run)))
            })
            .collect();
        Remark::new(Weight::Error, export.criteria[index].to_string(), lines)
    };
    (0..export.criteria.len()).map(of_one).collect()
}

fn failures(export: &Export<'_>) -> Remark {
    let lines = export
        .runs()
        .iter()
        .filter_map(|run| {
            let failure = run.failure.as_deref()?;
            let failure = names::short(failure);
            Some(format!("{}: {failure}", names::of_run(run)))
        })
        .collect();
    Remark::new(Weight::Error, "Run failed", lines)
}

/// Runs in which some requests came to nothing, with the kinds of errors.
fn failed_requests(export: &Export<'_>) -> Remark {
    let lines = export
        .runs()
        .iter()
        .filter_map(|run| {
            let recording = &run.result.as_deref()?.recording;
            let lost = lost_requests(recording).filter(|_| run.failure.is_none())?;
            let kinds: Vec<String> = recording
                .errors
                .iter()
                .map(|(kind, count)| format!("{} x {}", count.events, kind.name()))
                .collect();
            Some(format!(
                "{}: {lost}: {}",
                names::of_run(run),
                kinds.join(", ")
            ))
        })
        .collect();
    Remark::new(Weight::Warning, "Requests failed", lines)
}

fn generator(export: &Export<'_>) -> Remark {
    let lines = export
        .runs()
        .iter()
        .filter_map(|run| {
            let verdict = &run.result.as_deref()?.generator.verdict;
            let evidence = verdict.is_generator_limited().then(|| verdict.lines())?;
            Some(format!("{}: {}", names::of_run(run), evidence.join("; ")))
        })
        .collect();
    Remark::new(Weight::Warning, "Generator was the limit", lines)
}

/// A remark for each kind of warning.
fn warnings(export: &Export<'_>) -> Vec<Remark> {
    let mut kinds: Vec<(&Warning, Vec<String>)> = Vec::new();
    for run in export.runs() {
        let result = run.result.as_deref();
        for warning in result.iter().flat_map(|result| &result.warnings) {
            let line = format!("{}: {warning}", names::of_run(run));
            let same = |known: &&mut (&Warning, Vec<String>)| {
                discriminant(known.0) == discriminant(warning)
            };
            match kinds.iter_mut().find(same) {
                Some((_, lines)) => lines.push(line),
                None => kinds.push((warning, vec![line])),
            }
        }
    }
    kinds
        .into_iter()
        .map(|(_, lines)| Remark::new(Weight::Warning, "Warning", lines))
        .collect()
}
