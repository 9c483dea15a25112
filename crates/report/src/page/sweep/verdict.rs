//! What the sweep says: the answer in a sentence for each question, and what to keep in mind.

use std::collections::BTreeSet;

use analysis::Observation;
use analysis::compare::{Comparison, Conclusions, Doubt, Outcome, Validity};
use results::Order;

use super::bounded;
use super::design::{Design, file_of, place_of};
use crate::comparison;
use crate::page::tables::{self, finding, words_column};
use crate::page::{Block, Figure, Section, Subject, TableBlock, TableCell, Tone, words};

/// More answers of one kind are one, with the others behind it.
const ANSWERS_MAX: usize = 4;

/// More numbers in large type are a table.
const FIGURES_MAX: usize = 6;

/// First the answers, then what speaks against them, then the numbers.
pub(super) fn section(subject: &Subject<'_>, design: &Design<'_>) -> Section {
    let known = subject.conclusions.iter();
    let limits = known.flat_map(|known| &known.validity).filter_map(limits);
    let mut blocks: Vec<Block> = limits.collect();
    blocks.extend(match subject.conclusions {
        Some(conclusions) if is_matrix(conclusions) => vec![matrix(conclusions)],
        Some(conclusions) => answers(conclusions),
        None => vec![no_answer(design)],
    });
    let doubts = subject.conclusions.iter().flat_map(|known| &known.doubts);
    blocks.extend(doubts.map(doubt));
    blocks.extend(failures(design));
    blocks.extend(unfinished(subject));
    if !subject.conclusions.is_some_and(is_matrix) {
        blocks.push(Block::Figures {
            figures: figures(subject, design),
        });
    }
    Section {
        id: "verdict".to_owned(),
        title: "Verdict".to_owned(),
        lead: extent(subject, design),
        blocks,
        is_folded: false,
    }
}

/// How far the runs can be trusted: that the generator was the limit of most is a problem.
fn limits(validity: &Validity) -> Option<Block> {
    let sentences = comparison::validity_sentences(std::slice::from_ref(validity));
    let tone = if validity.is_mostly_saturated() || validity.counted() == 0 {
        Tone::Bad
    } else {
        Tone::Warning
    };
    Some(finding(tone, point(sentences.first()?), vec![]))
}

/// From so many comparisons on they are a table, and their sentences stand beside their charts.
const MATRIX_FROM: usize = 3;

/// See [`MATRIX_FROM`].
pub(super) fn is_matrix(conclusions: &Conclusions) -> bool {
    conclusions.comparisons.len() >= MATRIX_FROM
}

/// A row for each factor and place, a column for each metric.
fn matrix(conclusions: &Conclusions) -> Block {
    let comparisons = &conclusions.comparisons;
    let mut metrics: Vec<&str> = Vec::new();
    let mut rows: Vec<(String, Vec<&Comparison>)> = Vec::new();
    for comparison in comparisons {
        let metric = comparison.metric.label.as_str();
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
        let words = comparison.factor.iter().chain(&comparison.place);
        let words: Vec<&str> = words.map(String::as_str).collect();
        let name = words.join(", ");
        match rows.iter_mut().find(|(known, _)| *known == name) {
            Some((_, of_row)) => of_row.push(comparison),
            None => rows.push((name, vec![comparison])),
        }
    }
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
    Block::Table(TableBlock {
        caption: "What was found".to_owned(),
        columns,
        rows: rows.into_iter().map(row).collect(),
    })
}

/// `64: +592 %`, or that nothing was found.
fn matrix_cell(comparison: &Comparison) -> TableCell {
    let Figure { value, tone, .. } = figure(comparison);
    let level = comparison
        .outcome
        .level()
        .filter(|_| tone != Tone::Same)
        .and_then(|index| comparison.levels.get(index));
    let text = match level {
        Some(level) => format!("{}: {value}", level.name),
        None => value,
    };
    tables::toned(tables::text(text), tone)
}

/// Something to keep in mind, as a block.
pub(in crate::page) fn doubt(doubt: &Doubt) -> Block {
    let sentence = comparison::doubt_sentence(doubt);
    // Names are left as they are.
    let has_side = matches!(
        doubt,
        Doubt::Drift { side: Some(_), .. } | Doubt::SlowFirstRun { side: Some(_), .. }
    );
    let sentence = if has_side {
        sentence
    } else {
        capital(&sentence)
    };
    finding(Tone::Warning, point(&sentence), vec![])
}

/// What was found first; of what was not found, every sentence if there are few.
fn answers(conclusions: &Conclusions) -> Vec<Block> {
    let of = |is_wanted: fn(Outcome) -> bool| -> Vec<&Comparison> {
        let all = conclusions.comparisons.iter();
        all.filter(|comparison| is_wanted(comparison.outcome))
            .collect()
    };
    let found = of(|outcome| {
        matches!(
            outcome,
            Outcome::Better { .. } | Outcome::Worse { .. } | Outcome::Changed { .. }
        )
    });
    let not_judged = of(|outcome| outcome == Outcome::SetByRate);
    let not_found = of(|outcome| {
        matches!(
            outcome,
            Outcome::NotFound | Outcome::Same | Outcome::Negligible { .. }
        )
    });
    let total = conclusions.comparisons.len();
    let mut blocks: Vec<Block> = found.into_iter().map(answer).collect();
    let no_effect = format!(
        "{} of {total} comparisons found no effect that matters.",
        not_found.len()
    );
    blocks.extend(few_or_one(&not_found, Tone::NoEffect, no_effect, answer));
    let text = format!(
        "{} of {total} comparisons are not judged: the rate was fixed.",
        not_judged.len()
    );
    blocks.extend(few_or_one(&not_judged, Tone::Neutral, text, answer));
    let unknown = of(has_too_few_runs);
    let text = too_few_text(unknown.len(), total);
    blocks.extend(few_or_one(&unknown, Tone::Warning, text, answer));
    blocks
}

/// What is said of many comparisons at once.
pub(in crate::page) fn too_few_text(count: usize, total: usize) -> String {
    format!("Nothing can be said in {count} of {total} comparisons: the runs are too few.")
}

pub(in crate::page) fn has_too_few_runs(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::TooFewRuns { .. })
}

pub(super) fn answer(comparison: &Comparison) -> Block {
    let mut details: Vec<String> = comparison::pair_remark(comparison).into_iter().collect();
    details.extend(comparison::remarks(comparison));
    details.extend(comparison::relative_remark(comparison));
    let details = details.iter().map(|line| point(&capital(line))).collect();
    finding(
        tone(comparison),
        point(&comparison::sentence(comparison)),
        details,
    )
}

/// An answer each; of many one answer, with the others behind it.
pub(in crate::page) fn few_or_one(
    comparisons: &[&Comparison],
    tone_of_many: Tone,
    text_of_many: String,
    answer: impl Fn(&Comparison) -> Block,
) -> Vec<Block> {
    if comparisons.len() > ANSWERS_MAX {
        let sentences = comparisons.iter().copied().map(comparison::sentence);
        let sentences = sentences.map(|sentence| point(&sentence)).collect();
        return vec![finding(tone_of_many, text_of_many, sentences)];
    }
    comparisons.iter().copied().map(answer).collect()
}

pub(in crate::page) fn tone(comparison: &Comparison) -> Tone {
    match comparison.outcome {
        // What the generator limits says nothing of the better server.
        Outcome::Better { .. } | Outcome::Worse { .. } if comparison.is_generator_saturated() => {
            Tone::Warning
        }
        Outcome::Better { .. } => Tone::Better,
        Outcome::Worse { .. } => Tone::Worse,
        Outcome::Changed { .. } | Outcome::TooFewRuns { .. } => Tone::Warning,
        Outcome::Same | Outcome::Negligible { .. } => Tone::Same,
        Outcome::NotFound => Tone::NoEffect,
        Outcome::SetByRate => Tone::Neutral,
    }
}

fn no_answer(design: &Design<'_>) -> Block {
    if design.runs.iter().all(|run| run.failure.is_some()) {
        let text = "Every run failed: there is nothing to compare.";
        return finding(Tone::Bad, text, vec![]);
    }
    let text = if design.factors.is_empty() {
        "All runs are of the same thing: there are no levels to compare."
    } else {
        "Nothing that was measured can be compared."
    };
    finding(Tone::Neutral, text, vec![])
}

/// What is said of the files has its own section; that some are missing belongs to the answer.
fn unfinished(subject: &Subject<'_>) -> Option<Block> {
    let [experiment] = subject.experiments else {
        return None;
    };
    let planned = experiment.cells.len() as u64 * u64::from(experiment.rounds);
    let there = subject.observations.len() as u64;
    let text = format!(
        "The sweep is not finished: {} of {} are there.",
        words::count(there),
        words::counted(planned, "run")
    );
    (there < planned).then(|| finding(Tone::Warning, text, vec![]))
}

/// `35 runs: 7 levels of buffers in 5 rounds, shuffled within each round.`
fn extent(subject: &Subject<'_>, design: &Design<'_>) -> String {
    let factors: Vec<String> = design
        .factors
        .iter()
        .map(|factor| format!("{} levels of {}", factor.levels.len(), factor.name))
        .collect();
    let mut text = words::counted(design.total(), "run");
    if !factors.is_empty() {
        text += &format!(": {}", words::list(&factors));
    }
    if let [experiment] = subject.experiments {
        text += &format!(
            " in {}",
            words::counted(u64::from(experiment.rounds), "round")
        );
        text += match experiment.order {
            Order::Shuffled => ", in an order drawn for each round",
            Order::Sequential => ", always in the plan's order",
        };
    }
    text += &saturated(subject);
    text.push('.');
    let missing = levels_without_runs(subject, design);
    if !missing.is_empty() {
        text += &format!(" No run counts of {}.", words::list(&missing));
    }
    text
}

/// `; the load generator was saturated in 35 of them`
fn saturated(subject: &Subject<'_>) -> String {
    let validity = subject.conclusions.iter().flat_map(|known| &known.validity);
    match validity.map(|validity| validity.saturated).sum() {
        0_usize => String::new(),
        saturated => format!("; the load generator was saturated in {saturated} of them"),
    }
}

/// Levels of the plan, `backlog = 128`, that are in no figure, since all of their runs failed or none was made.
fn levels_without_runs(subject: &Subject<'_>, design: &Design<'_>) -> Vec<String> {
    let counted: BTreeSet<(&str, &str)> = design
        .runs
        .iter()
        .filter(|run| run.failure.is_none())
        .flat_map(|run| &run.settings)
        .map(|setting| (setting.factor.as_str(), setting.level.as_str()))
        .collect();
    let mut missing = Vec::new();
    for setting in subject
        .experiments
        .iter()
        .flat_map(|experiment| &experiment.cells)
        .flat_map(|cell| &cell.settings)
    {
        let (factor, level) = (setting.factor.as_str(), setting.level.as_str());
        let said = format!("{factor} = {level}");
        if !counted.contains(&(factor, level)) && !missing.contains(&said) {
            missing.push(said);
        }
    }
    missing
}

fn figures(subject: &Subject<'_>, design: &Design<'_>) -> Vec<Figure> {
    let comparisons = subject
        .conclusions
        .iter()
        .flat_map(|known| &known.comparisons);
    // What nothing can be said of needs no large type.
    let mut figures: Vec<Figure> = comparisons
        .filter(|comparison| !has_too_few_runs(comparison.outcome))
        .take(FIGURES_MAX)
        .map(figure)
        .collect();
    let failed = design
        .runs
        .iter()
        .filter(|run| run.failure.is_some())
        .count();
    let of_cells = design.cells.iter().map(|cell| cell.runs.len());
    let (fewest, most) = (of_cells.clone().min(), of_cells.max());
    let each = match fewest.unwrap_or(0) as u64 {
        fewest if Some(fewest as usize) == most => {
            format!("{} each", words::counted(fewest, "run"))
        }
        fewest => format!("{} or more each", words::counted(fewest, "run")),
    };
    figures.push(Figure {
        label: "Runs that count".to_owned(),
        value: words::count(design.total() - failed as u64),
        note: match failed {
            0 => format!(
                "{}, {each}",
                words::counted(design.cells.len() as u64, "combination")
            ),
            failed => format!("{failed} of {} failed", words::count(design.total())),
        },
        tone: if failed == 0 {
            Tone::Neutral
        } else {
            Tone::Warning
        },
        ..Figure::default()
    });
    figures
}

/// The size of an effect, or that there is none to be seen.
fn figure(comparison: &Comparison) -> Figure {
    let place = comparison.place.iter().chain(&comparison.factor);
    let place: Vec<&str> = place.map(String::as_str).collect();
    let label = match place.as_slice() {
        [] => capital(&comparison.metric.label),
        place => format!("{}: {}", place.join(", "), comparison.metric.label),
    };
    let (value, note) = match comparison.outcome {
        Outcome::Better { level }
        | Outcome::Worse { level }
        | Outcome::Changed { level }
        | Outcome::Negligible { level } => found(comparison, level),
        Outcome::SetByRate => ("set by the rate".to_owned(), "not judged".to_owned()),
        Outcome::Same => (
            "the same".to_owned(),
            format!("within {} %", comparison::percent(comparison.threshold)),
        ),
        Outcome::NotFound => (
            "no effect found".to_owned(),
            comparison
                .detectable
                .map_or_else(String::new, |detectable| {
                    format!(
                        "{} cannot be seen with {}",
                        comparison::below(detectable),
                        comparison::runs_phrase(comparison.runs, comparison.has_rounds)
                    )
                }),
        ),
        Outcome::TooFewRuns { needed } => (
            "too few runs".to_owned(),
            format!("it takes {needed} of each"),
        ),
    };
    Figure {
        label,
        value,
        note,
        tone: tone(comparison),
        ..Figure::default()
    }
}

fn found(comparison: &Comparison, index: usize) -> (String, String) {
    let (Some(reference), Some(level)) = (comparison.levels.first(), comparison.levels.get(index))
    else {
        return (words::UNKNOWN.to_owned(), String::new());
    };
    let pair = format!("{} against {}", level.name, reference.name);
    let difference = level.difference;
    match difference.and_then(|difference| Some((difference, difference.ratio?))) {
        Some((difference, ratio)) => {
            let interval = comparison::interval_as_changes(&difference);
            (
                format!("{} %", comparison::signed(ratio)),
                match interval {
                    Some(interval) => format!("{pair}; 95 % interval {interval}"),
                    None => pair,
                },
            )
        }
        None => ("differs".to_owned(), pair),
    }
}

/// The runs that failed, with their reasons.
fn failures(design: &Design<'_>) -> Option<Block> {
    let failed: Vec<&Observation> = design
        .runs
        .iter()
        .filter(|run| run.failure.is_some())
        .collect();
    if failed.is_empty() {
        return None;
    }
    let verb = if failed.len() == 1 { "is" } else { "are" };
    let text = format!(
        "{} of {} failed and {verb} in no figure.",
        failed.len(),
        words::counted(design.total(), "run"),
    );
    let detail = |run: &&Observation| {
        let reason = run.failure.as_deref().unwrap_or_default();
        let levels: Vec<&str> = run
            .settings
            .iter()
            .map(|setting| setting.level.as_str())
            .collect();
        let place = place_of(run, design.total());
        format!(
            "{place}, {}: {reason} ({})",
            levels.join(", "),
            file_of(&run.source)
        )
    };
    let details = bounded(failed.iter().map(detail).collect());
    Some(finding(Tone::Warning, text, details))
}

/// With a capital letter, unless it begins with a name.
pub(super) fn capital(text: &str) -> String {
    let first_word = text.split(' ').next().unwrap_or_default();
    if !first_word.chars().all(char::is_alphabetic) {
        return text.to_owned();
    }
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

fn point(text: &str) -> String {
    format!("{}.", text.trim_end_matches('.'))
}
