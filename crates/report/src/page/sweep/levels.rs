//! Every run as a dot at its level, with the median of each level and how far it can be trusted.

use analysis::Observation;
use analysis::compare::{Comparison, LevelRuns, MedianInterval, runs_of_levels};

use super::design::{Design, file_of, place_of, short_names};
use super::quantities::{axis, in_6_digits, show};
use super::title_of;
use crate::page::{Axis, Block, Chart, Height, Mark, Marks, Scale, Section, Subject, Unit, words};

/// Dots of a level lie around its name, in the order of the runs: the first so far left of it, if they are
/// many.
const DOTS_FROM: f64 = -0.28;
/// The last of them.
const DOTS_TO: f64 = 0.08;
/// They are no further apart than this.
const DOTS_STEP_MAX: f64 = 0.09;
/// What a hollow dot is.
pub(super) const SATURATED_RUN: &str = "A run, load generator saturated";
/// The median stands beside them.
const MEDIAN_AT: f64 = 0.24;

/// Nothing if there is nothing to compare.
pub(super) fn section(subject: &Subject<'_>, design: &Design<'_>) -> Option<Section> {
    let comparisons = &subject.conclusions?.comparisons;
    let mut blocks: Vec<Block> = Vec::new();
    let mut confidences: Vec<Option<f64>> = Vec::new();
    let mut last = None;
    for (number, comparison) in comparisons.iter().enumerate() {
        let levels = runs_of_levels(design.runs, comparison);
        if levels.is_empty() {
            continue;
        }
        let intervals = levels.iter().map(|level| level.median_interval);
        confidences.extend(intervals.map(|interval| interval.map(|known| known.confidence)));
        let chart = chart(number, comparison, &levels, design);
        let place = (&comparison.factor, &comparison.place);
        match blocks.last_mut() {
            Some(Block::Charts { charts }) if last == Some(place) => charts.push(chart),
            _ => blocks.push(Block::Charts {
                charts: vec![chart],
            }),
        }
        last = Some(place);
    }
    (!blocks.is_empty()).then(|| Section {
        id: "levels".to_owned(),
        title: "Every run by level".to_owned(),
        lead: words::sentences([
            "Each dot is a run, those of a level from left to right in the order in which they were made",
            &interval_sentence(&confidences),
        ]),
        blocks,
        is_folded: false,
    })
}

/// Which interval stands at the medians.
fn interval_sentence(confidences: &[Option<f64>]) -> String {
    let known: Vec<f64> = confidences.iter().copied().flatten().collect();
    let least = known.iter().copied().reduce(f64::min);
    let most = known.iter().copied().reduce(f64::max);
    let (Some(least), Some(most)) = (least, most) else {
        return "Beside them stands the median; an interval of it takes five runs or more of one combination"
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
    let which = "the median with the interval that holds its true value with";
    let how = "whatever the distribution of the runs (two of the values, by the sign test)";
    let few = if known.len() < confidences.len() {
        ". Levels with fewer than five runs, or with runs that differ in other factors, have no interval"
    } else {
        ""
    };
    format!("Beside them stands {which} {confidence} probability, {how}{few}")
}

fn chart(
    number: usize,
    comparison: &Comparison,
    levels: &[LevelRuns],
    design: &Design<'_>,
) -> Chart {
    let metric = &comparison.metric.name;
    let names: Vec<String> = comparison
        .levels
        .iter()
        .map(|level| level.name.clone())
        .collect();
    let values = levels.iter().flat_map(|level| &level.values);
    let y = axis(metric, values.map(|(_, value)| *value));
    Chart {
        id: format!("levels-{number}"),
        title: title_of(comparison),
        description: description(comparison),
        x: Axis {
            label: comparison.factor.clone().unwrap_or_default(),
            unit: Unit::Number,
            scale: Scale::Names(short_names(&names)),
            from_zero: false,
        },
        y,
        marks: [false, true]
            .map(|is_saturated| dots(metric, &names, levels, design, is_saturated))
            .into_iter()
            .filter(|dots| !dots.x.is_empty())
            .chain([medians(comparison, levels)])
            .collect(),
        height: Height::Tall,
        ..Chart::default()
    }
}

/// The runs in which the generator was the limit, or the others.
fn dots(
    metric: &str,
    names: &[String],
    levels: &[LevelRuns],
    design: &Design<'_>,
    is_saturated: bool,
) -> Marks {
    let mut marks = Marks {
        name: if is_saturated { SATURATED_RUN } else { "A run" }.to_owned(),
        mark: Mark::Dots,
        is_hollow: is_saturated,
        color: 0,
        ..Marks::default()
    };
    for ((level, name), at) in levels.iter().zip(names).zip(0_u32..) {
        let mut runs: Vec<(&Observation, f64)> = level
            .values
            .iter()
            .filter_map(|(index, value)| Some((design.runs.get(*index)?, *value)))
            .collect();
        runs.sort_by_key(|(run, _)| (run.position, run.run));
        let steps = runs.len().max(2) - 1;
        let step = ((DOTS_TO - DOTS_FROM) / steps as f64).min(DOTS_STEP_MAX);
        let all = runs.iter().enumerate();
        for (nth, (run, value)) in all.filter(|(_, (run, _))| run.is_saturated() == is_saturated) {
            let beside = DOTS_TO - step * (runs.len() - 1 - nth) as f64;
            marks.x.push(in_6_digits(f64::from(at) + beside));
            marks.y.push(Some(in_6_digits(*value)));
            let place = place_of(run, design.total());
            let (value, file) = (show(metric, *value), file_of(&run.source));
            marks
                .labels
                .push(format!("{name}: {place}, {value}, {file}"));
        }
    }
    marks
}

fn medians(comparison: &Comparison, levels: &[LevelRuns]) -> Marks {
    let metric = &comparison.metric.name;
    let has_intervals = levels.iter().any(|level| level.median_interval.is_some());
    let name = if has_intervals {
        "Median and its interval"
    } else {
        "Median"
    };
    let mut marks = Marks {
        name: name.to_owned(),
        mark: Mark::Interval,
        color: 1,
        ..Marks::default()
    };
    for ((level, runs), at) in comparison.levels.iter().zip(levels).zip(0_u32..) {
        let interval = runs.median_interval;
        let Some(median) = level.median else {
            continue;
        };
        marks.x.push(f64::from(at) + MEDIAN_AT);
        marks.y.push(Some(in_6_digits(median)));
        marks
            .low
            .push(interval.map(|interval| in_6_digits(interval.low)));
        marks
            .high
            .push(interval.map(|interval| in_6_digits(interval.high)));
        let median = format!("{}: median {}", level.name, show(metric, median));
        marks.labels.push(match interval {
            Some(interval) => format!(
                "{median}, {} interval {}",
                confidence_phrase(interval.confidence),
                interval_phrase(metric, interval)
            ),
            None => median,
        });
    }
    marks
}

/// `6,230 to 6,711`
pub(super) fn interval_phrase(metric: &str, interval: MedianInterval) -> String {
    format!(
        "{} to {}",
        show(metric, interval.low),
        show(metric, interval.high)
    )
}

/// `93.75 %`
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
