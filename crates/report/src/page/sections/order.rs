//! The runs in the order in which they were made, which shows a cold start and drift.

use analysis::Observation;
use analysis::compare::{Caveat, Metric};
use jiff::Timestamp;
use presentation::{Axis, Block, Chart, Mark, Marks, Scale, Section, Unit, tables, words};

use super::conclusions;
use crate::page::lines::NAMED_GROUPS_MAX;
use crate::page::quantities::{axis, in_6_digits, show};
use crate::page::runs::{Facet, Group, Runs, facet_title};

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let mut positions: Vec<_> = runs.counted().map(|run| run.run.position).collect();
    positions.sort_unstable();
    // Positions of two experiments do not say which run was first.
    let is_known = positions.len() > 1
        && positions.first().is_some_and(Option::is_some)
        && positions.windows(2).all(|pair| pair[0] != pair[1]);
    let horizontal = HorizontalAxis::of(runs);
    let mut charts: Vec<Chart> = Vec::new();
    for metric in runs.metrics.iter().filter(|_| is_known) {
        for facet in &runs.facets {
            let id = format!("order-{}", charts.len());
            charts.extend(
                OrderChart {
                    metric,
                    runs,
                    horizontal,
                }
                .chart(id, facet),
            );
        }
    }
    if charts.is_empty() {
        return None;
    }
    let caveats = runs
        .subject
        .conclusions
        .iter()
        .flat_map(|known| &known.caveats);
    let mut blocks: Vec<Block> = caveats
        .filter(|caveat| {
            matches!(
                caveat,
                Caveat::Drift { .. }
                    | Caveat::SlowFirstRun { .. }
                    | Caveat::OneAfterTheOther { .. }
            )
        })
        .map(conclusions::caveat)
        .collect();
    let lead = if blocks.is_empty() && runs.subject.conclusions.is_some() {
        "No drift and no slow first run were found"
    } else {
        ""
    };
    blocks.extend(charts.into_iter().map(tables::chart));
    let how = "Runs in the order in which they were made: a trend from left to right is not the \
               effect of a level";
    let lead = words::sentences([lead, how]);
    Some(Section::new("order", "Order of the runs", lead, blocks))
}

/// What the horizontal axis shows.
#[derive(Debug, Clone, Copy)]
enum HorizontalAxis {
    /// Start of each run, since this moment.
    Time(Timestamp),
    /// Positions, where times are not known or too coarse to tell runs apart.
    Position,
}

impl HorizontalAxis {
    fn of(runs: &Runs<'_>) -> Self {
        let mut counted: Vec<&Observation> = runs.counted().map(|run| run.run).collect();
        counted.sort_by_key(|run| run.position);
        let starts: Option<Vec<Timestamp>> = counted.into_iter().map(started).collect();
        match starts.as_deref() {
            Some(all @ [first, ..]) if all.is_sorted_by(|one, next| one < next) => {
                Self::Time(*first)
            }
            _ => Self::Position,
        }
    }

    fn axis(self) -> Axis {
        let (label, unit) = match self {
            Self::Time(_) => ("Start of the run, since the first", Unit::Seconds),
            Self::Position => ("Position among all runs", Unit::Count),
        };
        Axis {
            label: label.to_owned(),
            unit,
            scale: Scale::Linear,
            from_zero: false,
        }
    }

    fn value(self, run: &Observation) -> f64 {
        let position = f64::from(run.position.unwrap_or(0));
        match self {
            Self::Time(first) => {
                started(run).map_or(position, |start| start.duration_since(first).as_secs_f64())
            }
            Self::Position => position,
        }
    }
}

fn started(run: &Observation) -> Option<Timestamp> {
    run.started_at()?.parse().ok()
}

#[derive(Clone, Copy)]
struct Dot<'a> {
    run: &'a Observation,
    group: &'a str,
    value: f64,
}

/// A metric of runs as dots.
#[derive(Clone, Copy)]
struct OrderChart<'a> {
    metric: &'a Metric,
    runs: &'a Runs<'a>,
    horizontal: HorizontalAxis,
}

impl<'a> OrderChart<'a> {
    /// `None` if no run has the metric.
    fn chart(self, id: String, facet: &Facet) -> Option<Chart> {
        let Self {
            metric,
            runs,
            horizontal,
        } = self;
        let groups: Vec<&Group<'_>> = runs.groups_of(facet).collect();
        let mut all: Vec<Dot<'_>> = groups
            .iter()
            .copied()
            .flat_map(|group| self.of_group(group))
            .collect();
        all.sort_by_key(|dot| dot.run.position);
        let described = |dot: &Dot<'_>| {
            format!(
                "{} ({})",
                show(&metric.name, dot.value),
                runs.place(dot.run)
            )
        };
        let description = format!(
            "{} of {} in order, from {} to {}.",
            metric.label,
            words::counted(all.len() as u64, "run"),
            described(all.first()?),
            described(all.last()?),
        );
        let mut marks = vec![Marks {
            mark: Mark::Line,
            labels: Vec::new(),
            is_faint: true,
            ..self.marks("In this order", runs.spare_color(), &all)
        }];
        if groups.len() > NAMED_GROUPS_MAX {
            marks.extend(self.by_saturation("A run", 0, all.clone()));
        } else {
            marks.extend(
                groups
                    .into_iter()
                    .flat_map(|group| self.marks_of_group(group)),
            );
        }
        Some(Chart {
            id,
            title: facet_title(&metric.label, facet),
            description,
            x: horizontal.axis(),
            y: axis(&metric.name, all.iter().map(|dot| dot.value)),
            marks,
            group: Some("order".to_owned()),
            ..Chart::default()
        })
    }

    fn of_group(self, group: &'a Group<'a>) -> Vec<Dot<'a>> {
        let dot = |run: &'a Observation| {
            let value = run
                .value(&self.metric.name)
                .filter(|value| value.is_finite())?;
            Some(Dot {
                run,
                group: &group.name,
                value,
            })
        };
        group.runs.iter().filter_map(|run| dot(run.run)).collect()
    }

    /// Runs of a repeated baseline are joined: since nothing else changes, they show drift best.
    fn marks_of_group(self, group: &'a Group<'a>) -> Vec<Marks> {
        let of_group = self.of_group(group);
        let name = if group.name.is_empty() {
            "A run"
        } else {
            &group.name
        };
        if !group.is_baseline || of_group.is_empty() {
            return self.by_saturation(name, group.color, of_group);
        }
        let dots = self.marks(
            &format!("{name} (baseline, repeated)"),
            group.color,
            &of_group,
        );
        let line = Marks {
            name: format!("{name}, joined"),
            mark: Mark::Line,
            labels: Vec::new(),
            is_dashed: true,
            ..dots.clone()
        };
        vec![line, dots]
    }

    /// Dots of runs, hollow ones for those with a saturated load generator.
    fn by_saturation(self, name: &str, color: usize, all: Vec<Dot<'_>>) -> Vec<Marks> {
        let (hollow, full): (Vec<Dot<'_>>, Vec<Dot<'_>>) =
            all.into_iter().partition(|dot| dot.run.is_saturated());
        let saturated = format!("{name}, load generator saturated");
        [(name, full, false), (&saturated, hollow, true)]
            .into_iter()
            .filter(|(_, dots, _)| !dots.is_empty())
            .map(|(name, dots, is_hollow)| Marks {
                is_hollow,
                ..self.marks(name, color, &dots)
            })
            .collect()
    }

    fn marks(self, name: &str, color: usize, dots: &[Dot<'_>]) -> Marks {
        let mut marks = Marks::new(name, Mark::Dots, color);
        for dot in dots {
            let value = show(&self.metric.name, dot.value);
            let label = self.runs.point_label(dot.group, dot.run, &value);
            let x = self.horizontal.value(dot.run);
            marks.push(x, Some(in_6_digits(dot.value)), label);
        }
        marks
    }
}
