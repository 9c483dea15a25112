//! The verdict, warnings of each run, and notes about the files.

use std::collections::BTreeSet;

use analysis::compare::{Validity, has_tokens};
use analysis::{Observation, distinct};
use judging::sentences::verdict_lines;
use presentation::tables::finding;
use presentation::words::{capital, count, counted, list};
use presentation::{Block, Figure, Section, Tone};
use results::Order;
use results::metric;

use super::{averages, bounded, conclusions, run_verdict, searches};
use crate::page::quantities::{show, title};
use crate::page::runs::{Group, Runs, file_of, is_of_files};

/// Medians of this number of groups are in large type.
const GROUPS_SHOWN_MAX: usize = 4;

/// With more runs their table has a section of its own.
pub(super) const RUNS_SHOWN_MAX: usize = 12;

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    Some(match runs.single() {
        Some(run) => match runs.subject.searches {
            [] => run_verdict::section(run),
            searches => searches::verdict(searches),
        },
        None => Section::new("verdict", "Verdict", extent(runs), blocks(runs)),
    })
}

fn blocks(runs: &Runs<'_>) -> Vec<Block> {
    if runs.all.is_empty() {
        return vec![finding(Tone::Warning, "There is no run to show.", vec![])];
    }
    let failures = failures(runs);
    let mut blocks: Vec<Block> = match runs.subject.conclusions {
        Some(known) if !known.comparisons.is_empty() => conclusions::blocks(known, failures),
        _ => {
            let validity = Validity::of(runs.all, None);
            let limits = conclusions::limits(&validity, failures);
            limits.into_iter().chain([not_compared(runs)]).collect()
        }
    };
    blocks.extend(unfinished(runs));
    let mut figures = medians(runs);
    figures.extend(
        runs.subject
            .conclusions
            .into_iter()
            .flat_map(conclusions::figures),
    );
    figures.push(runs_counted(runs));
    blocks.push(Block::Figures { figures });
    if is_table_shown(runs) {
        blocks.extend(averages::table_of_runs(runs));
    }
    blocks
}

/// Whether the table of runs is part of the verdict.
pub(super) fn is_table_shown(runs: &Runs<'_>) -> bool {
    runs.subject.experiments.is_empty() && runs.all.len() <= RUNS_SHOWN_MAX
}

fn not_compared(runs: &Runs<'_>) -> Block {
    if runs.counted().next().is_none() && !runs.subject.searches.is_empty() {
        let text = "No search has found a rate: there is nothing to compare.";
        return finding(Tone::Warning, text, vec![]);
    }
    if runs.counted().next().is_none() {
        return finding(
            Tone::Bad,
            "Every run failed: there is nothing to compare.",
            vec![],
        );
    }
    let first = runs.counted().next().map(|run| &run.run.profile);
    let is_one_load = runs.counted().all(|run| Some(&run.run.profile) == first);
    let text = match (runs.groups.len(), is_one_load) {
        (1, _) => "All runs are of the same group: there is nothing to compare.",
        (_, false) => "Nothing was compared: groups under different loads are not compared.",
        (_, true) => "Nothing was compared: no metric is known for at least two groups.",
    };
    finding(Tone::Neutral, text, vec![])
}

/// A finding that runs are missing. The notes on files are in a section of their own.
fn unfinished(runs: &Runs<'_>) -> Option<Block> {
    let [experiment] = runs.subject.experiments else {
        return None;
    };
    let planned = experiment.cells.len() as u64 * u64::from(experiment.rounds);
    let (made, planned_runs) = (count(runs.total()), counted(planned, "run"));
    let text = format!("The experiment is not finished: {made} of {planned_runs} were made.");
    let is_fixed = experiment.stopping.is_none() && experiment.slo.is_none();
    (is_fixed && runs.total() < planned).then(|| finding(Tone::Warning, text, vec![]))
}

/// `35 runs: 7 levels of buffers in 5 rounds, shuffled within each round.`
fn extent(runs: &Runs<'_>) -> String {
    if runs.all.is_empty() {
        return String::new();
    }
    let factors = runs
        .factors
        .iter()
        .filter(|factor| !is_of_files(&factor.name));
    let factors: Vec<String> = factors
        .map(|factor| format!("{} levels of {}", factor.levels.len(), factor.name))
        .collect();
    let mut text = counted(runs.total(), "run");
    if !factors.is_empty() {
        text += &format!(": {}", list(&factors));
    } else if runs.groups.len() > 1 {
        text += &format!(" in {} groups", runs.groups.len());
    }
    if let [experiment] = runs.subject.experiments {
        let at_most = if experiment.stopping.is_some() {
            "at most "
        } else {
            ""
        };
        let rounds = counted(u64::from(experiment.rounds), "round");
        text += &format!(" in {at_most}{rounds}");
        text += match experiment.order {
            Order::Shuffled => ", shuffled within each round",
            Order::Sequential => ", in the order of the experiment file",
        };
    }
    let validity = runs
        .subject
        .conclusions
        .iter()
        .flat_map(|known| &known.validity);
    let saturated: usize = validity.map(|validity| validity.saturated).sum();
    if saturated > 0 {
        text += &format!("; the load generator was saturated in {saturated} of them");
    }
    text.push('.');
    let missing = levels_without_runs(runs);
    if !missing.is_empty() {
        text += &format!(" No run of {} counts.", list(&missing));
    }
    text
}

/// Levels of the experiment, `backlog = 128`, that no number contains: all of their runs failed, or
/// none was made.
fn levels_without_runs(runs: &Runs<'_>) -> Vec<String> {
    let settings = runs.counted().flat_map(|run| &run.run.settings);
    let known: BTreeSet<(&str, &str)> = settings
        .map(|setting| (setting.factor.as_str(), setting.level.as_str()))
        .collect();
    let cells = runs
        .subject
        .experiments
        .iter()
        .flat_map(|experiment| &experiment.cells);
    let levels = cells.flat_map(|cell| &cell.settings);
    let levels = levels.map(|setting| (setting.factor.as_str(), setting.level.as_str()));
    let missing = levels.filter(|level| !known.contains(level));
    distinct(missing.map(|(factor, level)| format!("{factor} = {level}")))
}

fn runs_counted(runs: &Runs<'_>) -> Figure {
    let failed = runs.failed().count() as u64;
    let sizes = || runs.groups.iter().map(|group| group.runs.len() as u64);
    let (fewest, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
    let each = match counted(fewest, "run") {
        runs if fewest == most => format!("{runs} each"),
        runs => format!("{runs} or more each"),
    };
    let (note, tone) = match failed {
        0 => {
            let groups = counted(runs.groups.len() as u64, "group");
            (format!("{groups}, {each}"), Tone::Neutral)
        }
        failed => {
            let note = format!("{failed} of {} failed", count(runs.total()));
            (note, Tone::Warning)
        }
    };
    Figure::new("Runs counted", count(runs.total() - failed), note, tone)
}

/// The medians of a few groups, with their ranges.
fn medians(runs: &Runs<'_>) -> Vec<Figure> {
    // Throughput, a high percentile, and the share of good requests.
    let of_tokens = metric::of_tokens();
    let metrics: Vec<(&str, String)> = if has_tokens(runs.all) {
        of_tokens
            .iter()
            .step_by(2)
            .map(|name| (name.as_str(), capital(&title(name))))
            .collect()
    } else {
        [
            (metric::REQUESTS_PER_SEC, "Requests/s"),
            ("latency_p99_us", "p99"),
        ]
        .map(|(name, head)| (name, head.to_owned()))
        .to_vec()
    };
    let is_unlike = runs.groups.iter().all(|group| group.runs.len() < 2);
    if runs.groups.len() > GROUPS_SHOWN_MAX || is_unlike {
        return Vec::new();
    }
    let figure = |(metric, head): &(&str, String), group: &Group<'_>| {
        let metric = *metric;
        let values = group.runs.iter().filter_map(|run| run.run.value(metric));
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let least = values.iter().copied().reduce(f64::min)?;
        let most = values.iter().copied().reduce(f64::max)?;
        let label = match group.full_name.as_str() {
            "" => head.clone(),
            name => format!("{head}, {name}"),
        };
        let show = |value| show(metric, value);
        let note = match values.len() {
            1 => "one run".to_owned(),
            count => format!(
                "median of {}, {} to {}",
                counted(count as u64, "run"),
                show(least),
                show(most)
            ),
        };
        let median = show(analysis::median(&values)?);
        Some(Figure::new(label, median, note, Tone::Neutral))
    };
    let of_metric = |metric| {
        let groups = runs.groups.iter();
        groups.filter_map(move |group| figure(metric, group))
    };
    metrics.iter().flat_map(of_metric).collect()
}

/// The runs that failed, with their reasons.
fn failures(runs: &Runs<'_>) -> Vec<String> {
    let detail = |run: &Observation| {
        let reason = run.failure.as_deref().unwrap_or_default();
        let levels = run.settings.iter().filter(|_| run.trial.is_some());
        let levels: String = levels
            .map(|setting| format!(", {}", setting.level))
            .collect();
        format!(
            "{}{levels}: {reason} ({})",
            runs.place(run),
            file_of(&run.source)
        )
    };
    bounded(runs.failed().map(detail).collect())
}

/// The warnings of each run.
pub(super) fn warnings_of_runs(runs: &Runs<'_>) -> Option<Section> {
    if runs.single().is_some() {
        return None;
    }
    let mut blocks = Vec::new();
    for (run, result) in runs.results() {
        let verdict = &result.generator.verdict;
        let mut details = if verdict.is_saturated() || verdict.is_disturbed() {
            verdict_lines(verdict)
        } else {
            Vec::new()
        };
        for block in run_verdict::warnings(result) {
            if let Block::Finding { text, .. } = block {
                details.push(text);
            }
        }
        details.extend(crate::text::error_notes(result));
        if !details.is_empty() {
            blocks.push(finding(Tone::Warning, run.name.clone(), details));
        }
    }
    let is_long = blocks.len() > RUNS_SHOWN_MAX;
    let section = Section::new("warnings", "Warnings of each run", "", blocks);
    (!section.blocks.is_empty()).then(|| section.folded(is_long))
}

/// Messages from reading the files.
pub(super) fn reading_notes(runs: &Runs<'_>) -> Option<Section> {
    let notes = runs.subject.notes.iter();
    let blocks: Vec<Block> = notes
        .map(|note| finding(Tone::Neutral, note.clone(), vec![]))
        .collect();
    let lead = "What was skipped, and other messages from reading the files.";
    (!blocks.is_empty()).then(|| Section::new("reading-notes", "Notes on the files", lead, blocks))
}
