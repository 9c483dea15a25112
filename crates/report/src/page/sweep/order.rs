//! The runs in the order in which they were made, so that a cold start and a drift are seen.

use analysis::Observation;
use analysis::compare::{Doubt, Metric};
use jiff::Timestamp;

use super::design::{Cell, Design, Group, file_of, place_of};
use super::quantities::{axis, in_6_digits, show};
use super::verdict;
use crate::page::{Axis, Block, Chart, Height, Mark, Marks, Scale, Section, Subject, Unit, words};

/// More colours cannot be told apart.
const COLORS_MAX: usize = 16;

/// Nothing if the order is not known.
pub(super) fn section(
    subject: &Subject<'_>,
    design: &Design<'_>,
    metrics: &[Metric],
) -> Option<Section> {
    let mut positions: Vec<Option<u32>> = design
        .runs
        .iter()
        .filter(|run| run.failure.is_none())
        .map(|run| run.position)
        .collect();
    positions.sort_unstable();
    // Those of two sweeps say nothing of which came first.
    let is_known = positions.first().is_some_and(Option::is_some)
        && positions.windows(2).all(|pair| pair[0] != pair[1]);
    let along = Along::of(design);
    let mut charts: Vec<Chart> = Vec::new();
    for metric in metrics {
        for group in &design.groups {
            charts.extend(chart(charts.len(), metric, group, design, along));
        }
    }
    if !is_known || charts.is_empty() {
        return None;
    }
    let doubts = subject.conclusions.iter().flat_map(|known| &known.doubts);
    let mut blocks: Vec<Block> = doubts
        .filter(|doubt| {
            matches!(
                doubt,
                Doubt::Drift { .. } | Doubt::SlowFirstRun { .. } | Doubt::OneAfterTheOther
            )
        })
        .map(verdict::doubt)
        .collect();
    let lead = if blocks.is_empty() && subject.conclusions.is_some() {
        "No drift was found, and no slow first run"
    } else {
        ""
    };
    blocks.extend(charts.into_iter().map(|chart| Block::Charts {
        charts: vec![chart],
    }));
    Some(Section {
        id: "order".to_owned(),
        title: "Order of the runs".to_owned(),
        lead: words::sentences([
            lead,
            "The value of each run in the order in which the runs were made: what changes from left to right is no \
             effect of a level",
        ]),
        blocks,
        is_folded: false,
    })
}

/// What lies along the horizontal axis.
#[derive(Debug, Clone, Copy)]
enum Along {
    /// When runs began, from this moment on.
    Time(Timestamp),
    /// Their places, where the times are not known, or too coarse to tell runs apart.
    Place,
}

impl Along {
    fn of(design: &Design<'_>) -> Self {
        let runs = design.runs.iter().filter(|run| run.failure.is_none());
        let mut runs: Vec<&Observation> = runs.collect();
        runs.sort_by_key(|run| run.position);
        let begins: Option<Vec<Timestamp>> = runs.into_iter().map(began).collect();
        match begins.as_deref() {
            Some(all @ [first, ..]) if all.is_sorted_by(|one, next| one < next) => {
                Self::Time(*first)
            }
            _ => Self::Place,
        }
    }

    fn axis(self) -> Axis {
        let (label, unit) = match self {
            Self::Time(_) => ("Begin of the run, since that of the first", Unit::Seconds),
            Self::Place => ("Place in the order of all runs", Unit::Count),
        };
        Axis {
            label: label.to_owned(),
            unit,
            scale: Scale::Linear,
            from_zero: false,
        }
    }

    fn value(self, run: &Observation) -> f64 {
        let place = f64::from(run.position.unwrap_or(0));
        match self {
            Self::Time(first) => {
                began(run).map_or(place, |began| began.duration_since(first).as_secs_f64())
            }
            Self::Place => place,
        }
    }
}

fn began(run: &Observation) -> Option<Timestamp> {
    run.started_at()?.parse().ok()
}

/// A run with the name of its combination and its value.
struct Dot<'a> {
    run: &'a Observation,
    cell: &'a str,
    value: f64,
}

/// Nothing if no run has the metric.
fn chart(
    number: usize,
    metric: &Metric,
    group: &Group,
    design: &Design<'_>,
    along: Along,
) -> Option<Chart> {
    let mut all: Vec<Dot<'_>> = design
        .cells_of(group)
        .flat_map(|cell| dots_of(cell, metric))
        .collect();
    all.sort_by_key(|dot| dot.run.position);
    let said = |dot: &Dot<'_>| {
        let value = show(&metric.name, dot.value);
        format!("{value} ({})", place_of(dot.run, design.total()))
    };
    let description = format!(
        "{} of {} in order, from {} to {}.",
        metric.label,
        words::counted(all.len() as u64, "run"),
        said(all.first()?),
        said(all.last()?),
    );
    let y = axis(&metric.name, all.iter().map(|dot| dot.value));
    let spare_color = design
        .cells
        .iter()
        .map(|cell| cell.color + 1)
        .max()
        .unwrap_or(0);
    let mut marks = vec![Marks {
        name: "In this order".to_owned(),
        mark: Mark::Line,
        labels: Vec::new(),
        is_faint: true,
        ..dots("", spare_color, &all, metric, design, along)
    }];
    if group.cells.len() > COLORS_MAX {
        marks.extend(split_dots("A run", 0, all, metric, design, along));
    } else {
        for cell in design.cells_of(group) {
            marks.extend(marks_of(cell, metric, design, along));
        }
    }
    Some(Chart {
        id: format!("order-{number}"),
        title: design.title(&metric.label, group),
        description,
        x: along.axis(),
        y,
        marks,
        height: Height::Normal,
        group: Some("order".to_owned()),
        ..Chart::default()
    })
}

/// The runs of a combination; those of a repeated baseline are joined, since what is the same all the time
/// shows best what changes with time.
fn marks_of(cell: &Cell<'_>, metric: &Metric, design: &Design<'_>, along: Along) -> Vec<Marks> {
    let of_cell = dots_of(cell, metric);
    if of_cell.is_empty() {
        return Vec::new();
    }
    if !cell.is_baseline {
        return split_dots(&cell.name, cell.color, of_cell, metric, design, along);
    }
    let name = format!("{} (baseline, repeated)", cell.name);
    let dots = dots(&name, cell.color, &of_cell, metric, design, along);
    let line = Marks {
        name: format!("{}, joined", cell.name),
        mark: Mark::Line,
        labels: Vec::new(),
        is_dashed: true,
        ..dots.clone()
    };
    vec![line, dots]
}

/// Dots of runs, and hollow ones of those in which the generator was the limit.
fn split_dots(
    name: &str,
    color: usize,
    all: Vec<Dot<'_>>,
    metric: &Metric,
    design: &Design<'_>,
    along: Along,
) -> Vec<Marks> {
    let (hollow, full): (Vec<Dot<'_>>, Vec<Dot<'_>>) =
        all.into_iter().partition(|dot| dot.run.is_saturated());
    let saturated = format!("{name}, load generator saturated");
    [(name, full, false), (&saturated, hollow, true)]
        .into_iter()
        .filter(|(_, of_kind, _)| !of_kind.is_empty())
        .map(|(name, of_kind, is_hollow)| Marks {
            is_hollow,
            ..dots(name, color, &of_kind, metric, design, along)
        })
        .collect()
}

fn dots(
    name: &str,
    color: usize,
    dots: &[Dot<'_>],
    metric: &Metric,
    design: &Design<'_>,
    along: Along,
) -> Marks {
    let label = |dot: &Dot<'_>| {
        let place = place_of(dot.run, design.total());
        let (value, file) = (show(&metric.name, dot.value), file_of(&dot.run.source));
        format!("{}: {place}, {value}, {file}", dot.cell)
    };
    Marks {
        name: name.to_owned(),
        mark: Mark::Dots,
        x: dots.iter().map(|dot| along.value(dot.run)).collect(),
        y: dots
            .iter()
            .map(|dot| Some(in_6_digits(dot.value)))
            .collect(),
        labels: dots.iter().map(label).collect(),
        color,
        ..Marks::default()
    }
}

fn dots_of<'a>(cell: &'a Cell<'_>, metric: &Metric) -> Vec<Dot<'a>> {
    let dot = |run: &&'a Observation| {
        let value = run.value(&metric.name).filter(|value| value.is_finite())?;
        run.position.map(|_| Dot {
            run,
            cell: &cell.name,
            value,
        })
    };
    cell.runs.iter().filter_map(dot).collect()
}
