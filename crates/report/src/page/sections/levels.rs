//! Every run as a dot at its level, with the median of each level and its confidence interval.

use analysis::Observation;
use analysis::compare::{Comparison, LevelRuns, MedianInterval, runs_of_levels};
use presentation::{Axis, Block, Chart, Height, Mark, Marks, Section, words};

use super::conclusions::title_of;
use crate::page::quantities::{axis, in_6_digits, show};
use crate::page::runs::{Runs, short_names};

/// The first dot of a level with many runs, relative to the level.
const DOTS_FROM: f64 = -0.28;
/// The last dot, relative to the level.
const DOTS_TO: f64 = 0.08;
/// The largest distance between two dots.
const DOTS_STEP_MAX: f64 = 0.09;
/// The median, relative to the level.
const MEDIAN_AT: f64 = 0.24;

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let comparisons = &runs.subject.conclusions?.comparisons;
    let mut blocks: Vec<Block> = Vec::new();
    let mut confidences: Vec<Option<f64>> = Vec::new();
    let mut last = None;
    for (number, comparison) in comparisons.iter().enumerate() {
        let levels = runs_of_levels(runs.all, comparison);
        if levels.is_empty() {
            continue;
        }
        let intervals = levels.iter().map(|level| level.median_interval);
        confidences.extend(intervals.map(|interval| interval.map(|known| known.confidence)));
        let chart = chart(number, comparison, &levels, runs);
        let place = (&comparison.factor, &comparison.place);
        match blocks.last_mut() {
            Some(Block::Charts { charts }) if last == Some(place) => charts.push(chart),
            _ => blocks.push(Block::Charts {
                charts: vec![chart],
            }),
        }
        last = Some(place);
    }
    let about_medians = if runs.is_sequential() {
        "The median is next to them. The differences are those within rounds, with the \
         intervals of the next section"
            .to_owned()
    } else {
        interval_sentence(&confidences)
    };
    let lead = words::sentences([
        "Each dot is a run; those of a level are in the order in which they were made",
        &about_medians,
    ]);
    (!blocks.is_empty()).then(|| Section::new("levels", "Every run by level", lead, blocks))
}

fn interval_sentence(confidences: &[Option<f64>]) -> String {
    let known: Vec<f64> = confidences.iter().copied().flatten().collect();
    let least = known.iter().copied().reduce(f64::min);
    let most = known.iter().copied().reduce(f64::max);
    let (Some(least), Some(most)) = (least, most) else {
        return "The median is next to them; its confidence interval needs at least five runs"
            .to_owned();
    };
    let confidence = if least < most {
        format!(
            "{} to {}",
            confidence_phrase(least),
            confidence_phrase(most)
        )
    } else {
        confidence_phrase(least)
    };
    let few = if known.len() < confidences.len() {
        ". Levels with fewer than five runs, or whose runs differ in other factors, have none"
    } else {
        ""
    };
    format!(
        "The median is next to them with its {confidence} confidence interval, which holds for any \
         distribution (sign test){few}"
    )
}

fn chart(number: usize, comparison: &Comparison, levels: &[LevelRuns], runs: &Runs<'_>) -> Chart {
    let metric = &comparison.metric.name;
    let names: Vec<&str> = comparison
        .levels
        .iter()
        .map(|level| level.name.as_str())
        .collect();
    let values = levels.iter().flat_map(|level| &level.values);
    let y = axis(metric, values.map(|(_, value)| *value));
    Chart {
        id: format!("levels-{number}"),
        title: title_of(comparison),
        description: description(comparison),
        x: Axis::names(
            comparison.factor.clone().unwrap_or_default(),
            short_names(names.iter().copied()),
        ),
        y,
        marks: all_dots(comparison, levels, runs)
            .into_iter()
            .filter(|dots| !dots.x.is_empty())
            .chain([medians(comparison, levels, runs)])
            .collect(),
        height: Height::Tall,
        ..Chart::default()
    }
}

/// Targets have a colour each; the runs of other levels have one colour. Those in which the load
/// generator was saturated are hollow.
fn all_dots(comparison: &Comparison, levels: &[LevelRuns], runs: &Runs<'_>) -> Vec<Marks> {
    let all: Vec<usize> = (0..levels.len()).collect();
    let parts: Vec<(String, usize, &[usize])> = match runs.colors_of_targets(comparison) {
        Some(colors) => {
            let named = comparison.levels.iter().zip(colors).zip(all.chunks(1));
            named
                .map(|((level, color), at)| (level.name.clone(), color, at))
                .collect()
        }
        None => vec![("A run".to_owned(), 0, &all)],
    };
    let both = parts.iter().flat_map(|part| [(part, false), (part, true)]);
    both.map(|((name, color, of_part), is_saturated)| {
        let dots = dots(comparison, levels, of_part, runs, is_saturated);
        Marks {
            name: if is_saturated {
                format!("{name}, load generator saturated")
            } else {
                name.clone()
            },
            is_hollow: is_saturated,
            color: *color,
            ..dots
        }
    })
    .collect()
}

/// The runs of some levels in which the load generator was saturated, or the others.
fn dots(
    comparison: &Comparison,
    levels: &[LevelRuns],
    shown: &[usize],
    runs: &Runs<'_>,
    is_saturated: bool,
) -> Marks {
    let metric = &comparison.metric.name;
    let mut marks = Marks::new("", Mark::Dots, 0);
    for at in shown {
        let (level, name) = (&levels[*at], &comparison.levels[*at].name);
        let mut of_level: Vec<(&Observation, f64)> = level
            .values
            .iter()
            .filter_map(|(index, value)| Some((runs.all.get(*index)?, *value)))
            .collect();
        of_level.sort_by_key(|(run, _)| (run.position, run.run));
        let steps = of_level.len().max(2) - 1;
        let step = ((DOTS_TO - DOTS_FROM) / steps as f64).min(DOTS_STEP_MAX);
        let all = of_level.iter().enumerate();
        for (nth, (run, value)) in all.filter(|(_, (run, _))| run.is_saturated() == is_saturated) {
            let offset = DOTS_TO - step * (of_level.len() - 1 - nth) as f64;
            let label = runs.point_label(name, run, &show(metric, *value));
            let x = in_6_digits(*at as f64 + offset);
            marks.push(x, Some(in_6_digits(*value)), label);
        }
    }
    marks
}

fn medians(comparison: &Comparison, levels: &[LevelRuns], runs: &Runs<'_>) -> Marks {
    let metric = &comparison.metric.name;
    let has_intervals = levels.iter().any(|level| level.median_interval.is_some());
    let name = if has_intervals {
        "Median and its confidence interval"
    } else {
        "Median"
    };
    let color = match runs.colors_of_targets(comparison) {
        Some(_) => runs.spare_color(),
        None => 1,
    };
    let mut marks = Marks::new(name, Mark::Interval, color);
    for ((level, runs), at) in comparison.levels.iter().zip(levels).zip(0_u32..) {
        let interval = runs.median_interval;
        let Some(median) = level.median else {
            continue;
        };
        let ends = [
            interval.map(|it| it.low),
            Some(median),
            interval.map(|it| it.high),
        ];
        let median = format!("{}: median {}", level.name, show(metric, median));
        let label = match interval {
            Some(interval) => format!(
                "{median}, {} confidence interval {}",
                confidence_phrase(interval.confidence),
                interval_phrase(metric, interval)
            ),
            None => median,
        };
        let ends = ends.map(|end| end.map(in_6_digits));
        marks.push_interval(f64::from(at) + MEDIAN_AT, ends, label);
    }
    marks
}

/// The interval of a median: `6,230 to 6,711`.
pub(super) fn interval_phrase(metric: &str, interval: MedianInterval) -> String {
    format!(
        "{} to {}",
        show(metric, interval.low),
        show(metric, interval.high)
    )
}

/// The confidence of an interval: `93.75 %`.
pub(super) fn confidence_phrase(confidence: f64) -> String {
    format!("{} %", words::number(confidence * 100.0))
}

fn description(comparison: &Comparison) -> String {
    let metric = &comparison.metric.name;
    let medians: Vec<String> = comparison
        .levels
        .iter()
        .filter_map(|level| Some((level, level.median?)))
        .map(|(level, median)| format!("{} {}", level.name, show(metric, median)))
        .collect();
    let runs: usize = comparison.levels.iter().map(|level| level.runs).sum();
    format!(
        "{} of {} at {} levels. Medians: {}.",
        comparison.metric.label,
        words::counted(runs as u64, "run"),
        comparison.levels.len(),
        medians.join("; ")
    )
}
