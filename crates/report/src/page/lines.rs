//! Charts with a line for each run and each group: percentiles, rates and latencies over time,
//! sockets.

use presentation::words::capital;
use presentation::{Axis, Chart, Height, Mark, Marks, Scale, TIME_GROUP, Unit, words};

use super::curves::{self, Curve};
use super::quantities;
use super::runs::{Facet, Group, Run, Runs, facet_title};

/// Each run has its own colour if there is one group with at most this many runs.
const COLORED_RUNS_MAX: usize = 12;

/// With more runs than this, their lines would hide each other: only those of groups are drawn.
const RUN_LINES_MAX: usize = 40;

/// With more groups than this only the lines of groups are drawn.
const GROUPS_WITH_RUNS_MAX: usize = 6;

/// With more groups than this, the bands from the smallest to the largest run would hide each
/// other.
const BANDS_MAX: usize = 3;

/// Groups beyond this number have no legend entry of their own, because no colours are left.
pub(crate) const NAMED_GROUPS_MAX: usize = 16;

/// What a chart of lines shows.
pub(crate) struct LineChart<'a> {
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    pub(crate) x: Axis,
    pub(crate) unit: Unit,
    pub(crate) height: Height,
}

/// The curve of a group's runs together, from the curves of each.
type GroupCurve<'a> = &'a dyn Fn(&Group<'_>, &[Curve]) -> Curve;

/// The line of each run of a group.
struct GroupLines<'a, 'b> {
    group: &'a Group<'b>,
    runs: Vec<(&'a Run<'b>, Curve)>,
}

impl LineChart<'_> {
    /// A chart over time, which begins with the window.
    pub(crate) fn over_time<'a>(id: &'a str, title: &'a str, unit: Unit) -> LineChart<'a> {
        LineChart {
            id,
            title,
            x: curves::time_axis(),
            unit,
            height: Height::Normal,
        }
    }

    /// One chart for each facet, with the median of each group's runs.
    pub(crate) fn charts(
        &self,
        runs: &Runs<'_>,
        curve: impl Fn(&Run<'_>) -> Option<Curve>,
    ) -> Vec<Chart> {
        self.charts_with(runs, curve, &|_, curves| curves::median_curve(curves))
    }

    /// One chart for each facet in which a run has a curve.
    pub(crate) fn charts_with(
        &self,
        runs: &Runs<'_>,
        curve: impl Fn(&Run<'_>) -> Option<Curve>,
        of_group: GroupCurve<'_>,
    ) -> Vec<Chart> {
        let facets = runs.facets.iter().enumerate();
        let charts = facets.filter_map(|(number, facet)| {
            let lines = |run| Some((run, curve(run).filter(Curve::is_line)?));
            let groups: Vec<GroupLines<'_, '_>> = runs
                .groups_of(facet)
                .map(|group| GroupLines {
                    group,
                    runs: group.runs.iter().filter_map(lines).collect(),
                })
                .filter(|lines| !lines.runs.is_empty())
                .collect();
            let id = runs.facet_id(self.id, number);
            let mut chart =
                (!groups.is_empty()).then(|| self.chart(id, facet, &groups, of_group))?;
            // A chart with one line has no legend.
            if let [line] = chart.marks.as_slice()
                && runs.counted().count() > 1
            {
                chart.title = format!("{}: {}", chart.title, line.name);
            }
            Some(chart)
        });
        charts.collect()
    }

    fn chart(
        &self,
        id: String,
        facet: &Facet,
        groups: &[GroupLines<'_, '_>],
        of_group: GroupCurve<'_>,
    ) -> Chart {
        let all = || groups.iter().flat_map(|lines| &lines.runs);
        let y = match self.unit {
            Unit::Microseconds => curves::latency_axis(self.title, all().map(|(_, curve)| curve)),
            unit => Axis::from_zero(self.title, unit),
        };
        Chart {
            id,
            title: facet_title(self.title, facet),
            description: self.description(groups),
            x: self.x.clone(),
            y,
            marks: marks(groups, of_group),
            height: self.height,
            group: (self.x.unit == Unit::Seconds).then(|| TIME_GROUP.to_owned()),
            ..Chart::default()
        }
    }

    fn description(&self, groups: &[GroupLines<'_, '_>]) -> String {
        let show = |value| quantities::in_unit(self.unit, value);
        let ranges_of_groups: Vec<String> = groups
            .iter()
            .take(NAMED_GROUPS_MAX)
            .filter_map(|GroupLines { group, runs }| {
                let ranges = runs.iter().filter_map(|(_, curve)| curve.range());
                let (least, most) = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
                let name = match (group.name.as_str(), runs.len()) {
                    ("", 1) => String::new(),
                    ("", count) => format!("{} ", words::counted(count as u64, "run")),
                    (name, _) => format!("{name} "),
                };
                Some(format!("{name}from {} to {}", show(least), show(most)))
            })
            .collect();
        format!("{}: {}.", self.title, ranges_of_groups.join("; "))
    }
}

/// Bands below, then lines of runs, then those of groups.
fn marks(groups: &[GroupLines<'_, '_>], of_group: GroupCurve<'_>) -> Vec<Marks> {
    let count: usize = groups.iter().map(|lines| lines.runs.len()).sum();
    let has_runs = count <= RUN_LINES_MAX && groups.len() <= GROUPS_WITH_RUNS_MAX;
    let has_bands = !has_runs && groups.len() <= BANDS_MAX;
    let (mut marks, mut strong) = (Vec::new(), Vec::new());
    for (at, GroupLines { group, runs }) in groups.iter().enumerate() {
        let curves: Vec<Curve> = runs.iter().map(|(_, curve)| curve.clone()).collect();
        let whole = of_group(group, &curves);
        let labels = |name: &str, curve: &Curve| vec![name.to_owned(); curve.x.len()];
        match runs.as_slice() {
            _ if at >= NAMED_GROUPS_MAX => strong.push(Marks {
                is_faint: true,
                labels: labels(&group.name, &whole),
                ..whole.marks("Other groups", Mark::Line, NAMED_GROUPS_MAX)
            }),
            [(run, curve)] => {
                let name = if group.name.is_empty() {
                    &run.name
                } else {
                    &group.name
                };
                strong.push(curve.clone().marks(name.clone(), Mark::Line, group.color));
            }
            runs if groups.len() == 1 && runs.len() <= COLORED_RUNS_MAX => {
                for (color, (run, curve)) in runs.iter().enumerate() {
                    strong.push(curve.clone().marks(run.name.clone(), Mark::Line, color));
                }
            }
            runs => {
                let named = |what: &str| match group.name.as_str() {
                    "" => capital(what),
                    name => format!("{name}, {what}"),
                };
                if has_runs {
                    marks.extend(runs.iter().map(|(run, curve)| {
                        Marks {
                            is_faint: true,
                            labels: labels(&run.name, curve),
                            ..curve
                                .clone()
                                .marks(named("each run"), Mark::Line, group.color)
                        }
                    }));
                }
                if has_bands {
                    marks.insert(0, band(named("lowest to highest run"), group, &curves));
                }
                let name = match group.name.as_str() {
                    name if !has_runs && !name.is_empty() => name.to_owned(),
                    _ => named(&format!("all {}", words::counted(runs.len() as u64, "run"))),
                };
                strong.push(whole.marks(name, Mark::Line, group.color));
            }
        }
    }
    marks.append(&mut strong);
    marks
}

fn band(name: String, group: &Group<'_>, curves: &[Curve]) -> Marks {
    let longest = curves.iter().max_by_key(|curve| curve.x.len());
    let mut marks = Marks {
        x: longest.map(|curve| curve.x.clone()).unwrap_or_default(),
        is_faint: true,
        ..Marks::new(name, Mark::Band, group.color)
    };
    for at in 0..marks.x.len() {
        let values = || {
            curves
                .iter()
                .filter_map(|curve| curve.y.get(at).copied().flatten())
        };
        let (low, high) = (values().reduce(f64::min), values().reduce(f64::max));
        marks.low.push(low);
        marks.high.push(high);
        marks
            .y
            .push(low.zip(high).map(|(low, high)| f64::midpoint(low, high)));
    }
    marks
}

/// How to read the lines of a page, for the lead of a section.
pub(crate) fn legend(runs: &Runs<'_>) -> &'static str {
    let count = runs.counted().count();
    if runs.single().is_some() || count == 0 {
        ""
    } else if runs.groups.len() == 1 && count <= COLORED_RUNS_MAX {
        "Each run has the same colour in all charts"
    } else if runs.groups.iter().all(|group| group.runs.len() < 2) {
        "Each run is a line"
    } else if count <= RUN_LINES_MAX && runs.groups.len() <= GROUPS_WITH_RUNS_MAX {
        "Faint lines are runs, strong lines are all runs of a group"
    } else {
        "Each line is all runs of a group"
    }
}

/// The largest number of points of a line, which is lower on pages with many lines.
pub(crate) fn points_max(runs: &Runs<'_>) -> u64 {
    match runs.counted().count() {
        0 | 1 => 300,
        2..=COLORED_RUNS_MAX => 150,
        _ => 120,
    }
}

/// A horizontal axis of percentiles.
pub(crate) fn percentile_axis() -> Axis {
    Axis {
        label: "Percentile".to_owned(),
        unit: Unit::Percent,
        scale: Scale::Nines,
        from_zero: false,
    }
}
