//! What deserves a sentence: failures, warnings, conclusions. Those of one kind are one remark, so
//! that the list stays short enough to be read.

use std::mem::discriminant;

use analysis::{Judged, Observation, judge_all};
use judging::sentences::verdict_lines;
use presentation::words::{counted, cut};
use results::Verdict;

use super::{Export, names};
use crate::page::lost_requests;

/// How important a remark is; the first is the most important.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// How far the runs can be trusted, which goes before all conclusions.
    Limit,
    /// A run or a check failed.
    Error,
    /// Numbers may be wrong.
    Warning,
    /// A conclusion from the runs.
    Notice,
}

/// Sentences of one kind, about the runs in which it occurred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remark {
    /// How much it matters.
    pub(super) weight: Weight,
    /// The kind of the remark, as a heading.
    pub(super) title: String,
    /// A sentence for each occurrence, at most [`LINES_MAX`].
    pub(super) lines: Vec<String>,
}

/// The most sentences of a kind; the others are only counted.
const LINES_MAX: usize = 5;

/// Longer lines are cut. No sentence with readable names is that long.
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

/// All remarks: how far the runs can be trusted, and then the most important first.
pub(super) fn all(export: &Export<'_>) -> Vec<Remark> {
    let limits = Remark::new(Weight::Limit, "Validity", export.limits());
    let mut remarks = vec![limits];
    remarks.extend(conditions(export));
    remarks.push(failures(export));
    remarks.push(failed_requests(export));
    remarks.extend(generator(export));
    remarks.extend(warnings(export));
    remarks.push(Remark::new(Weight::Warning, "Note", export.caveats()));
    remarks.extend(
        export
            .sentences()
            .into_iter()
            .map(|sentence| Remark::new(Weight::Notice, "Result", vec![sentence])),
    );
    remarks.retain(|remark| !remark.lines.is_empty());
    remarks
}

/// A remark for each condition that holds, or that cannot be judged. A failed run is reported once.
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

/// A line for each run of which `about` says something.
fn of_runs<'a>(
    export: &Export<'a>,
    about: impl Fn(&'a Observation) -> Option<String>,
) -> Vec<String> {
    let line = |run| Some(format!("{}: {}", names::of_run(run), about(run)?));
    export.runs().iter().filter_map(line).collect()
}

fn failures(export: &Export<'_>) -> Remark {
    let lines = of_runs(export, |run| run.failure.as_deref().map(names::short));
    Remark::new(Weight::Error, "Run failed", lines)
}

/// The runs in which some requests failed, with the kinds of errors.
fn failed_requests(export: &Export<'_>) -> Remark {
    let lines = of_runs(export, |run| {
        let recording = &run.result.as_deref()?.recording;
        let lost = lost_requests(recording).filter(|_| run.failure.is_none())?;
        let kinds = recording.errors.iter();
        let kinds = kinds.map(|(kind, count)| format!("{} x {}", count.events, kind.name()));
        Some(format!("{lost}: {}", kinds.collect::<Vec<_>>().join(", ")))
    });
    Remark::new(Weight::Warning, "Requests failed", lines)
}

/// A remark for each kind of the first symptom of a load generator that was saturated, and of one
/// that was disturbed.
fn generator(export: &Export<'_>) -> Vec<Remark> {
    let of = |title: &'static str, is_it: fn(&Verdict) -> bool| {
        let lines = export.runs().iter().filter_map(|run| {
            let verdict = &run.result.as_deref()?.generator.verdict;
            let kind = verdict.evidence().0.first();
            let kind = kind.map(|symptom| discriminant(&symptom.data));
            is_it(verdict).then(|| (kind, run, verdict_lines(verdict).join("; ")))
        });
        of_kinds(title, lines.collect(), export)
    };
    let is_only_disturbed = |verdict: &Verdict| matches!(verdict, Verdict::Disturbed { .. });
    let mut remarks = of("Load generator saturated", Verdict::is_saturated);
    remarks.extend(of("Load generator disturbed", is_only_disturbed));
    remarks
}

/// A remark for each kind of warning.
fn warnings(export: &Export<'_>) -> Vec<Remark> {
    let lines = export.runs().iter().flat_map(|run| {
        let warnings = run.result.iter().flat_map(|result| &result.warnings);
        warnings.map(move |warning| (discriminant(&warning.data), run, warning.text.clone()))
    });
    of_kinds("Warning", lines.collect(), export)
}

/// One remark for each kind, with the first of the runs concerned as the example.
fn of_kinds<K: PartialEq>(
    title: &str,
    lines: Vec<(K, &Observation, String)>,
    export: &Export<'_>,
) -> Vec<Remark> {
    let mut kinds: Vec<(K, String, usize)> = Vec::new();
    for (kind, run, line) in lines {
        match kinds.iter_mut().find(|(known, ..)| *known == kind) {
            Some((.., runs)) => *runs += 1,
            None => kinds.push((kind, format!("{}: {line}", names::of_run(run)), 1)),
        }
    }
    let all = counted(export.runs().len() as u64, "run");
    let remark = |(_, line, runs): (K, String, usize)| {
        let line = match runs {
            1 => line,
            runs => format!("in {runs} of {all}, the first of which is {line}"),
        };
        Remark::new(Weight::Warning, title, vec![line])
    };
    kinds.into_iter().map(remark).collect()
}
