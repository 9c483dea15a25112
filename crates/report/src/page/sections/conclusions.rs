//! Comparisons of groups: their sentences, a table of many, and effects in large type.

use analysis::compare::{Caveat, Comparison, Conclusions, Outcome, Validity};
use analysis::{distinct, grouped};
use judging::sentences::UNDECIDED;
use presentation::tables::{self, finding, table, words_column};
use presentation::words::capital;
use presentation::{Block, Figure, TableCell, Tone, words};

use crate::comparison;
use crate::page::runs::is_of_files;

/// If more comparisons have the same outcome, they become one finding with their sentences as
/// details.
const SENTENCES_MAX: usize = 4;

/// More effects than this are shown as a table.
const FIGURES_MAX: usize = 6;

/// The title of charts and tables of a comparison: `requests/s by buffers: php`.
pub(super) fn title_of(comparison: &Comparison) -> String {
    let what = match &comparison.factor {
        Some(factor) => format!("{} by {factor}", comparison.metric.label),
        None => comparison.metric.label.clone(),
    };
    match comparison.place.as_slice() {
        [] => what,
        place => format!("{what}: {}", place.join(", ")),
    }
}

/// What limits the conclusions, with the runs that failed; then the conclusions, and what else to
/// keep in mind.
pub(super) fn blocks(conclusions: &Conclusions, failures: Vec<String>) -> Vec<Block> {
    let mut failures = Some(failures);
    let with_details = |validity: &Validity| {
        let details = failures.take_if(|_| validity.failed > 0);
        limits(validity, details.unwrap_or_default())
    };
    let validity = conclusions.validity.iter();
    let mut blocks: Vec<Block> = validity.filter_map(with_details).collect();
    if !conclusions.differences.is_empty() {
        let sentences = comparison::headlines(conclusions).into_iter();
        let block = |sentence: String| finding(Tone::Neutral, full_stop(&sentence), vec![]);
        blocks.extend(sentences.map(block));
    } else if is_matrix(conclusions) {
        blocks.push(matrix(conclusions));
    } else {
        blocks.extend(sentences(&conclusions.comparisons));
    }
    blocks.extend(conclusions.caveats.iter().map(caveat));
    blocks
}

/// A saturated load generator in most runs is a problem.
pub(super) fn limits(validity: &Validity, details: Vec<String>) -> Option<Block> {
    let sentences = comparison::validity_sentences(std::slice::from_ref(validity));
    let is_bad = validity.is_mostly_saturated() || validity.counted() == 0;
    let tone = if is_bad { Tone::Bad } else { Tone::Warning };
    Some(finding(tone, full_stop(sentences.first()?), details))
}

/// With at least this many comparisons the verdict is a table, and the sentences are next to the
/// charts.
const MATRIX_FROM: usize = 3;

pub(super) fn is_matrix(conclusions: &Conclusions) -> bool {
    conclusions.comparisons.len() >= MATRIX_FROM
}

/// A row for each factor and place, a column for each metric.
fn matrix(conclusions: &Conclusions) -> Block {
    let comparisons = &conclusions.comparisons;
    let metrics = distinct(comparisons.iter().map(|one| one.metric.label.as_str()));
    let name = |comparison: &Comparison| {
        let words = comparison.factor.iter().chain(&comparison.place);
        words.map(String::as_str).collect::<Vec<_>>().join(", ")
    };
    let rows = grouped(comparisons.iter().map(|one| (name(one), one)));
    let mut columns = vec![words_column("effect of")];
    columns.extend(metrics.iter().map(|metric| words_column(*metric)));
    let row = |(name, of_row): (String, Vec<&Comparison>)| {
        let mut row = vec![tables::text(name)];
        row.extend(metrics.iter().map(|metric| {
            let found = of_row.iter().find(|one| one.metric.label == *metric);
            found.map_or_else(tables::unknown, |one| matrix_cell(one))
        }));
        row
    };
    table("Effects found", columns, rows.into_iter().map(row))
}

/// A comparison as a cell of the table: `64: +592 %`.
fn matrix_cell(comparison: &Comparison) -> TableCell {
    let Figure { value, tone, .. } = figure(comparison);
    let level = comparison
        .outcome
        .level()
        .filter(|_| !matches!(tone, Tone::Same | Tone::Undecided))
        .and_then(|index| comparison.levels.get(index));
    let text = match level {
        Some(level) => format!("{}: {value}", level.name),
        None => value,
    };
    tables::toned(tables::text(text), tone)
}

pub(super) fn caveat(caveat: &Caveat) -> Block {
    let sentence = comparison::caveat_sentence(caveat);
    // These begin with a name.
    let has_side = matches!(
        caveat,
        Caveat::Drift { side: Some(_), .. }
            | Caveat::SlowFirstRun { side: Some(_), .. }
            | Caveat::SlowAtFirst { side: Some(_), .. }
    );
    let sentence = if has_side {
        sentence
    } else {
        capital(&sentence)
    };
    finding(Tone::Warning, full_stop(&sentence), vec![])
}

/// Effects first; then comparisons without an effect, undecided ones, those that are not judged,
/// and those with too few runs.
fn sentences(comparisons: &[Comparison]) -> Vec<Block> {
    let of = |is_wanted: fn(Outcome) -> bool| {
        let all = comparisons.iter();
        let wanted = all.filter(|comparison| is_wanted(comparison.outcome));
        wanted.collect::<Vec<_>>()
    };
    let effects = of(|it| {
        matches!(
            it,
            Outcome::Better { .. } | Outcome::Worse { .. } | Outcome::Changed { .. }
        )
    });
    let failing = of(|it| it == Outcome::Failing);
    let mut blocks: Vec<Block> = failing.into_iter().chain(effects).map(finding_of).collect();
    let none = of(|it| it == Outcome::Same);
    let undecided = of(is_undecided);
    let set_by_rate = of(|it| it == Outcome::SetByRate);
    let too_few = of(has_too_few_runs);
    let rate_text = "are not judged: the rate was fixed";
    let undecided_text = format!("are {UNDECIDED}");
    for (group, tone, what) in [
        (none, Tone::Same, "found no effect that matters"),
        (undecided, Tone::Undecided, undecided_text.as_str()),
        (set_by_rate, Tone::Neutral, rate_text),
        (too_few, Tone::Neutral, "have too few runs to say anything"),
    ] {
        if group.len() > SENTENCES_MAX {
            let text = format!(
                "{} of {} comparisons {what}.",
                group.len(),
                comparisons.len()
            );
            let sentences = group.into_iter().map(sentence).collect();
            blocks.push(finding(tone, text, sentences));
        } else {
            blocks.extend(group.into_iter().map(finding_of));
        }
    }
    blocks
}

fn is_undecided(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Undecided { .. } | Outcome::LowerBounds)
}

fn has_too_few_runs(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::TooFewRuns { .. })
}

/// The sentence without the factor of files, which are sides and no factor of an experiment.
fn sentence(comparison: &Comparison) -> String {
    let factor = comparison
        .factor
        .clone()
        .filter(|factor| !is_of_files(factor));
    let starts_with_name =
        comparison.outcome.level().is_some() || factor.is_some() || !comparison.place.is_empty();
    let sentence = comparison::sentence(&Comparison {
        factor,
        ..comparison.clone()
    });
    let sentence = if starts_with_name {
        sentence
    } else {
        capital(&sentence)
    };
    full_stop(&sentence)
}

/// The sentence, with the test and the number of runs as details.
pub(super) fn finding_of(comparison: &Comparison) -> Block {
    let mut details: Vec<String> = comparison::pair_remark(comparison).into_iter().collect();
    details.extend(comparison::remarks(comparison));
    details.extend(comparison::relative_remark(comparison));
    let details = details
        .iter()
        .map(|line| full_stop(&capital(line)))
        .collect();
    finding(tone(comparison), sentence(comparison), details)
}

fn tone(comparison: &Comparison) -> Tone {
    match comparison.outcome {
        // With a saturated load generator nothing is known about the server.
        Outcome::Better { .. } | Outcome::Worse { .. } if comparison.is_generator_saturated() => {
            Tone::Warning
        }
        Outcome::Better { .. } => Tone::Better,
        Outcome::Worse { .. } => Tone::Worse,
        Outcome::Changed { .. } if comparison.is_generator_saturated() => Tone::Warning,
        Outcome::Same => Tone::Same,
        Outcome::Undecided { .. } | Outcome::LowerBounds => Tone::Undecided,
        Outcome::Failing => Tone::Bad,
        Outcome::Changed { .. } | Outcome::SetByRate | Outcome::TooFewRuns { .. } => Tone::Neutral,
    }
}

/// The effects of the first comparisons, without those that have too few runs.
pub(super) fn figures(conclusions: &Conclusions) -> Vec<Figure> {
    let known = conclusions.comparisons.iter();
    let known = known.filter(|comparison| !has_too_few_runs(comparison.outcome));
    known.take(FIGURES_MAX).map(figure).collect()
}

/// The size of an effect in large type.
fn figure(comparison: &Comparison) -> Figure {
    let place = comparison.place.iter().chain(&comparison.factor);
    let place: Vec<&str> = place.map(String::as_str).collect();
    let label = match place.as_slice() {
        [] => capital(&comparison.metric.label),
        place => format!("{}: {}", place.join(", "), comparison.metric.label),
    };
    let (value, note) = match comparison.outcome {
        Outcome::Better { level } | Outcome::Worse { level } | Outcome::Changed { level } => {
            figure_of_level(comparison, level)
        }
        Outcome::SetByRate => ("set by the rate".to_owned(), "not judged".to_owned()),
        Outcome::LowerBounds => (UNDECIDED.to_owned(), "lower bounds".to_owned()),
        Outcome::Same => (
            "the same".to_owned(),
            format!("within {} %", comparison::percent(comparison.threshold)),
        ),
        Outcome::Undecided { level: None } => {
            (UNDECIDED.to_owned(), comparison::left_open(comparison))
        }
        Outcome::Undecided { level: Some(level) } => {
            let (change, pair) = figure_of_level(comparison, level);
            (UNDECIDED.to_owned(), format!("{change}: {pair}"))
        }
        Outcome::Failing => ("no comparison".to_owned(), "requests failed".to_owned()),
        Outcome::TooFewRuns { needed } => (
            "too few runs".to_owned(),
            format!("at least {needed} of each are needed"),
        ),
    };
    Figure::new(label, value, note, tone(comparison))
}

fn figure_of_level(comparison: &Comparison, index: usize) -> (String, String) {
    let (Some(reference), Some(level)) = (comparison.levels.first(), comparison.levels.get(index))
    else {
        return (words::UNKNOWN.to_owned(), String::new());
    };
    let pair = format!("{} against {}", level.name, reference.name);
    let Some((difference, ratio)) = level.difference.and_then(|it| Some((it, it.ratio?))) else {
        return ("differs".to_owned(), pair);
    };
    let note = match comparison::interval_as_changes(&difference) {
        Some(interval) => format!("{pair}; 95 % interval {interval}"),
        None => pair,
    };
    (format!("{} %", comparison::signed(ratio)), note)
}

fn full_stop(text: &str) -> String {
    format!("{}.", text.trim_end_matches('.'))
}
