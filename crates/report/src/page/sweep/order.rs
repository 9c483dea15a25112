//! The runs in the order in which they were made, so that a cold start and a drift are seen.

use analysis::Observation;
use analysis::compare::{Doubt, Metric};

use super::design::{Cell, Design, Group, file_of, place_of};
use super::quantities::{axis, in_6_digits, show};
use super::verdict;
use crate::page::{Axis, Block, Chart, Height, Mark, Marks, Scale, Section, Subject, Unit, words};

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
    let mut charts: Vec<Chart> = Vec::new();
    for metric in metrics {
        for group in &design.groups {
            charts.extend(chart(charts.len(), metric, group, design));
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

/// Nothing if no run has the metric.
fn chart(number: usize, metric: &Metric, group: &Group, design: &Design<'_>) -> Option<Chart> {
    let mut all: Vec<(&Observation, f64)> = design
        .cells_of(group)
        .flat_map(|cell| values(cell, metric))
        .collect();
    all.sort_by_key(|(run, _)| run.position);
    let ((first, first_value), (last, last_value)) = (*all.first()?, *all.last()?);
    let position = |run: &Observation| f64::from(run.position.unwrap_or(0));
    let mut marks = vec![Marks {
        name: "In this order".to_owned(),
        mark: Mark::Line,
        x: all.iter().map(|(run, _)| position(run)).collect(),
        y: all
            .iter()
            .map(|(_, value)| Some(in_6_digits(*value)))
            .collect(),
        color: design
            .cells
            .iter()
            .map(|cell| cell.color + 1)
            .max()
            .unwrap_or(0),
        is_faint: true,
        ..Marks::default()
    }];
    for cell in design.cells_of(group) {
        let of_cell = values(cell, metric);
        if of_cell.is_empty() {
            continue;
        }
        let name = if cell.is_baseline {
            format!("{} (baseline, repeated)", cell.name)
        } else {
            cell.name.clone()
        };
        let dots = Marks {
            name: name.clone(),
            mark: Mark::Dots,
            x: of_cell.iter().map(|(run, _)| position(run)).collect(),
            y: of_cell
                .iter()
                .map(|(_, value)| Some(in_6_digits(*value)))
                .collect(),
            labels: of_cell
                .iter()
                .map(|(run, value)| {
                    let place = place_of(run, design.total());
                    let (value, file) = (show(&metric.name, *value), file_of(&run.source));
                    format!("{}: {place}, {value}, {file}", cell.name)
                })
                .collect(),
            color: cell.color,
            ..Marks::default()
        };
        if cell.is_baseline {
            // What is the same all the time shows best what changes with time.
            marks.push(Marks {
                name: format!("{}, joined", cell.name),
                mark: Mark::Line,
                labels: Vec::new(),
                is_dashed: true,
                ..dots.clone()
            });
        }
        marks.push(dots);
    }
    Some(Chart {
        id: format!("order-{number}"),
        title: design.title(&metric.label, group),
        description: format!(
            "{} of {} in order, from {} ({}) to {} ({}).",
            metric.label,
            words::counted(all.len() as u64, "run"),
            show(&metric.name, first_value),
            place_of(first, design.total()),
            show(&metric.name, last_value),
            place_of(last, design.total()),
        ),
        x: Axis {
            label: "Place in the order of all runs".to_owned(),
            unit: Unit::Count,
            scale: Scale::Linear,
            from_zero: false,
        },
        y: axis(&metric.name, all.iter().map(|(_, value)| *value)),
        marks,
        height: Height::Normal,
        group: Some("order".to_owned()),
        ..Chart::default()
    })
}

fn values<'a>(cell: &Cell<'a>, metric: &Metric) -> Vec<(&'a Observation, f64)> {
    let value = |run: &&'a Observation| {
        let value = run.value(&metric.name).filter(|value| value.is_finite())?;
        run.position.map(|_| (*run, value))
    };
    cell.runs.iter().filter_map(value).collect()
}
