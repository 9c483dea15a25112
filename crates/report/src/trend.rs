//! The history of results, as text and as a page: which metric changed when, and a table of all
//! points.

use std::io::{self, Write};

use analysis::{Change, FALSE_ALARM_RATE, History, MetricHistory, Point, Trend};
use plan::printable;
use results::Better;

use crate::aligned::{self, Layout};
use crate::comparison::{interval_of, p_phrase, percent, signed};
use crate::page::quantities::{self, in_6_digits, show};
use crate::page::tables::{
    self, count, finding, known, number_column, text, toned, unknown, wide, words_column,
};
use crate::page::words::{self, counted, sentences};
use crate::page::{
    Axis, Block, Chart, Height, Mark, Marks, Page, Section, TableBlock, TableCell, Tone,
};

/// Writes the changes, a sentence each, and a table for each load.
///
/// # Errors
/// Those of the writer.
pub fn render_trend(trend: &Trend, output: &mut dyn Write) -> io::Result<()> {
    for history in &trend.histories {
        for metric in &history.metrics {
            for (_, sentence) in sentences_of(trend, history, metric) {
                writeln!(output, "{}", printable(&sentence))?;
            }
        }
    }
    for history in &trend.histories {
        writeln!(output)?;
        if !history.place.is_empty() {
            writeln!(output, "{}:", printable(&history.place.join(", ")))?;
        }
        aligned::write(&table(trend, history), Layout::default(), output)?;
    }
    for note in notes(trend) {
        writeln!(output, "Note: {}", printable(&note))?;
    }
    Ok(())
}

/// Makes the page of a history. `notes` are messages from reading the runs, a line each.
#[must_use]
pub fn trend_page(trend: &Trend, title: Option<&str>, notes_of_reading: &[String]) -> Page {
    let all = trend.histories.iter();
    let points: Vec<&Point> = all.flat_map(|history| &history.points).collect();
    let runs: usize = points.iter().map(|point| point.runs.len()).sum();
    let ends = [
        points.iter().min_by_key(|it| &it.started_at),
        points.iter().max_by_key(|it| &it.started_at),
    ];
    let ends = ends.map(|point| point.map_or("", |point| point.name.as_str()));
    let mut details = notes(trend);
    details.extend(notes_of_reading.iter().cloned());
    let mut blocks: Vec<Block> = Vec::new();
    for history in &trend.histories {
        for metric in &history.metrics {
            let found = sentences_of(trend, history, metric).into_iter();
            blocks.extend(found.map(|(tone, text)| finding(tone, text, Vec::new())));
        }
    }
    let mut sections = vec![Section::new("changes", "Changes", method(), blocks)];
    for (number, history) in trend.histories.iter().enumerate() {
        let place = match history.place.as_slice() {
            [] => "History".to_owned(),
            names => words::capital(&names.join(", ")),
        };
        let metrics = history.metrics.iter().enumerate();
        let charts = metrics.map(|(at, metric)| chart(trend, history, metric, (number, at)));
        let charts = Block::Charts {
            charts: charts.collect(),
        };
        let lead = sentences([
            "Each dot is a run, oldest first",
            "The median of each point has its confidence interval if there are at least five runs",
            "The steps are the medians of the points between two changes",
        ]);
        let blocks = vec![charts, Block::Table(table(trend, history))];
        sections.push(Section::new(
            &format!("history-{number}"),
            &place,
            lead,
            blocks,
        ));
    }
    if !details.is_empty() {
        let facts = finding(Tone::Neutral, "What was left out", details);
        sections.push(Section::new("notes", "Notes", "", vec![facts]));
    }
    Page {
        title: title.unwrap_or("History").to_owned(),
        subtitle: format!(
            "{} from {} to {}",
            counted(runs as u64, "run"),
            ends[0],
            ends[1]
        ),
        sections,
    }
}

/// How changes are found.
fn method() -> String {
    format!(
        "A history without a change has one marked in at most {} % of cases: permutation test of \
         the rank sums of both sides, over the medians of the points; all metrics of a load \
         together.",
        percent(FALSE_ALARM_RATE)
    )
}

fn notes(trend: &Trend) -> Vec<String> {
    let left_out = trend.left_out.iter();
    left_out
        .map(|(reason, runs)| match *reason {
            "do not have the label" => {
                format!(
                    "{} left out: they {reason} {}",
                    counted(*runs as u64, "run"),
                    trend.by
                )
            }
            reason => format!("{} left out: they {reason}", counted(*runs as u64, "run")),
        })
        .collect()
}

/// What is known about a metric of a history: its changes, or that there are none.
fn sentences_of(trend: &Trend, history: &History, metric: &MetricHistory) -> Vec<(Tone, String)> {
    let mut name = metric.metric.label.clone();
    if !history.place.is_empty() {
        name = format!("{}: {name}", history.place.join(", "));
    }
    let points = metric.medians.iter().flatten().count();
    let counted = counted(points as u64, &trend.by);
    if metric.changes.is_empty() {
        let sentence = match points < metric.points_min {
            true => format!(
                "{name}: not enough to find a change: {counted}, and at least {} are needed",
                metric.points_min
            ),
            false => format!("{name}: no change found in {counted}"),
        };
        return vec![(Tone::Neutral, sentence)];
    }
    let changes = metric.changes.iter();
    changes
        .map(|change| sentence_of(&name, history, metric, change))
        .collect()
}

fn sentence_of(
    name: &str,
    history: &History,
    metric: &MetricHistory,
    change: &Change,
) -> (Tone, String) {
    let is_higher = change.after > change.before;
    let (tone, judged) = match (metric.metric.better, is_higher) {
        (Better::Neither, _) => (Tone::Neutral, ""),
        (Better::Higher, true) | (Better::Lower, false) => (Tone::Better, ", which is better"),
        _ => (Tone::Worse, ", which is worse"),
    };
    let direction = if is_higher { "higher" } else { "lower" };
    let since = &history.points[change.point].name;
    let p_value = p_phrase(change.p_value);
    let [before, after] =
        [change.before, change.after].map(|value| show(&metric.metric.name, value));
    let text = match change.ratio {
        Some(ends) => format!(
            "{name} is {} % {direction} from {since} on (95 % interval {}; {p_value}){judged}: \
             {after} after {before}",
            percent((change.after / change.before - 1.0).abs()),
            interval_of(change.after / change.before, ends),
        ),
        None => format!(
            "{name} is {direction} from {since} on ({p_value}){judged}: {after} after {before}"
        ),
    };
    (tone, text)
}

/// A row for each point: its runs, and for each metric median, interval, and the change at this
/// point.
fn table(trend: &Trend, history: &History) -> TableBlock {
    let mut columns = vec![words_column(&trend.by)];
    let is_by_day = history
        .points
        .iter()
        .all(|point| point.started_at.starts_with(&point.name));
    if !is_by_day {
        columns.push(words_column("first run"));
    }
    columns.push(number_column("runs"));
    for metric in &history.metrics {
        columns.extend([
            number_column(&metric.metric.label),
            wide(number_column("interval")),
            number_column("change"),
        ]);
    }
    let row = |(at, point): (usize, &Point)| {
        let mut cells = vec![text(&point.name)];
        if !is_by_day {
            cells.push(text(words::moment(&point.started_at)));
        }
        cells.push(count(point.runs.len() as u64));
        cells.extend(
            history
                .metrics
                .iter()
                .flat_map(|metric| cells_of(metric, at)),
        );
        cells
    };
    TableBlock::new("", columns, history.points.iter().enumerate().map(row))
}

fn cells_of(metric: &MetricHistory, at: usize) -> [TableCell; 3] {
    let name = &metric.metric.name;
    let interval = metric.intervals[at].map_or_else(unknown, |interval| {
        text(format!(
            "{} to {}",
            show(name, interval.low),
            show(name, interval.high)
        ))
    });
    let change = metric.changes.iter().find(|change| change.point == at);
    let change = change.map_or_else(
        || text(""),
        |change| {
            let ratio = change.after / change.before;
            let is_worse = match metric.metric.better {
                Better::Higher => ratio < 1.0,
                Better::Lower => ratio > 1.0,
                Better::Neither => false,
            };
            let cell = match change.ratio {
                Some(_) => tables::value(format!("{} %", signed(ratio)), (ratio - 1.0) * 100.0),
                None => text("changed"),
            };
            toned(cell, if is_worse { Tone::Worse } else { Tone::Better })
        },
    );
    [
        known(metric.medians[at], |median| show(name, median)),
        interval,
        change,
    ]
}

/// Every run as a dot, the median of each point, and the levels between changes.
fn chart(
    trend: &Trend,
    history: &History,
    metric: &MetricHistory,
    (number, at): (usize, usize),
) -> Chart {
    let name = &metric.metric.name;
    let mut dots = Marks::new("A run", Mark::Dots, 0);
    let mut medians = Marks::new("Median and its confidence interval", Mark::Interval, 1);
    let mut levels = Marks::new("Level between changes", Mark::Step, 3);
    for (x, point) in history.points.iter().enumerate() {
        let (place, values) = (x as f64, &metric.values[x]);
        for value in values {
            let label = format!("{}: {}", point.name, show(name, *value));
            dots.push(in_6_digits(place), Some(in_6_digits(*value)), label);
        }
        if let Some(median) = metric.medians[x] {
            let interval = metric.intervals[x];
            let ends = [
                interval.map(|it| it.low),
                Some(median),
                interval.map(|it| it.high),
            ];
            let label = format!("{}: median {}", point.name, show(name, median));
            let ends = ends.map(|end| end.map(in_6_digits));
            medians.push_interval(place + 0.2, ends, label);
        }
        let so_far = metric.changes.iter().take_while(|change| change.point <= x);
        let level = match so_far.last() {
            Some(change) => Some(change.after),
            None => metric.changes.first().map(|change| change.before),
        };
        if let Some(level) = level {
            levels.push(place, Some(in_6_digits(level)), show(name, level));
        }
    }
    let names = history.points.iter().map(|point| point.name.clone());
    let all = metric.values.iter().flatten().copied();
    Chart {
        id: format!("history-{number}-{at}"),
        title: quantities::title(name),
        description: format!(
            "{} over {}; {}.",
            metric.metric.label,
            counted(history.points.len() as u64, &trend.by),
            counted(metric.changes.len() as u64, "change")
        ),
        x: Axis::names(trend.by.clone(), names.collect()),
        y: quantities::axis(name, all),
        marks: [levels, dots, medians]
            .into_iter()
            .filter(|it| !it.x.is_empty())
            .collect(),
        height: Height::Tall,
        ..Chart::default()
    }
}
