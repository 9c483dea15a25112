//! What the kernel's books say at each level, over time and summed up.

use analysis::table::{self, Wish};
use analysis::{Observation, quantity};
use results::{RunResult, SocketMoment, SocketTimeline};

use super::design::{Cell, Design, Group};
use super::quantities::{in_6_digits, in_unit, show, title};
use crate::page::curves;
use crate::page::tables::{known, text, words_column};
use crate::page::{
    Axis, Block, Chart, Column, Height, Mark, Marks, Scale, Section, TableBlock, TableCell, Unit,
    words,
};
use crate::table::{key_values, keys};

/// A line has so many points at most.
const POINTS_MAX: u64 = 120;

/// With more combinations than this, bands would hide each other.
const BANDS_MAX: usize = 3;

/// More lines in one chart cannot be told apart.
const LINES_MAX: usize = 16;

/// Something that sockets have over time.
struct Gauge {
    id: &'static str,
    /// In the middle of a sentence.
    name: &'static str,
    title: &'static str,
    unit: Unit,
    value: fn(&SocketMoment) -> Option<f64>,
    /// It grows: what is shown is its rate.
    is_growth: bool,
}

const GAUGES: [Gauge; 5] = [
    Gauge {
        id: "rtt",
        name: "the round trip time",
        title: "Round trip time, median of the sockets",
        unit: Unit::Microseconds,
        value: |row| row.rtt_p50_us,
        is_growth: false,
    },
    Gauge {
        id: "cwnd",
        name: "the congestion window",
        title: "Congestion window, median of the sockets",
        unit: Unit::Segments,
        value: |row| row.cwnd_p50,
        is_growth: false,
    },
    Gauge {
        id: "retransmits",
        name: "segments sent again over time",
        title: "Segments sent again per second",
        unit: Unit::Number,
        value: |row| row.segments_retransmitted.map(|count| count as f64),
        is_growth: true,
    },
    Gauge {
        id: "delivery",
        name: "the delivery rate",
        title: "Delivery rate, median of the sockets",
        unit: Unit::BytesPerSec,
        value: |row| row.delivery_rate_p50_bytes_per_sec,
        is_growth: false,
    },
    Gauge {
        id: "queue",
        name: "the queue of connections to be accepted over time",
        title: "Longest queue of connections to be accepted",
        unit: Unit::Count,
        value: |row| row.listen_queue_max.map(|count| count as f64),
        is_growth: false,
    },
];

/// Nothing if nobody asked for telemetry.
pub(super) fn section(design: &Design<'_>) -> Option<Section> {
    let mut blocks = Vec::new();
    let mut has_bands = false;
    let (moving, still): (Vec<&Gauge>, Vec<&Gauge>) =
        GAUGES.iter().partition(|gauge| !is_zero(gauge, design));
    for (number, group) in design.groups.iter().enumerate() {
        let charts: Vec<Chart> = moving
            .iter()
            .filter_map(|gauge| chart(number, gauge, group, design))
            .collect();
        if !charts.is_empty() {
            has_bands |= with_bands(group);
            blocks.push(Block::Charts { charts });
        }
    }
    let over_time = match (blocks.is_empty(), has_bands) {
        (true, _) => "How it went over time was not kept",
        (false, true) => {
            "Each line is the median of a combination's runs at each moment, each band reaches from the least to the \
             greatest of them"
        }
        (false, false) => "Each line is the median of a combination's runs at each moment",
    };
    let (averages, silent_counters) = averages(design)?;
    let mut silent: Vec<String> = still.iter().map(|gauge| gauge.name.to_owned()).collect();
    silent.extend(silent_counters);
    blocks.push(Block::Table(averages));
    let silent = match silent.as_slice() {
        [] => String::new(),
        names => format!("Zero in every run: {}", words::list(names)),
    };
    Some(Section {
        id: "telemetry".to_owned(),
        title: "Telemetry by level".to_owned(),
        lead: words::sentences([
            over_time,
            "The table has averages over the runs; counters are those of the whole machine",
            &silent,
            "What stands side by side here need not be cause and effect",
        ]),
        blocks,
        is_folded: false,
    })
}

/// Whether it was known, and zero all the time: nothing to draw.
fn is_zero(gauge: &Gauge, design: &Design<'_>) -> bool {
    let good = design.runs.iter().filter(|run| run.failure.is_none());
    let rows = good
        .filter_map(timeline)
        .flat_map(|(timeline, _)| &timeline.rows);
    let mut values = rows.filter_map(gauge.value).peekable();
    values.peek().is_some() && values.all(|value| value == 0.0)
}

fn with_bands(group: &Group) -> bool {
    group.cells.len() <= BANDS_MAX
}

fn timeline(run: &Observation) -> Option<(&SocketTimeline, &RunResult)> {
    let result = run.result.as_deref()?;
    let timeline = result.telemetry.as_ref()?.timeline.as_ref()?;
    (timeline.interval_ms > 0).then_some((timeline, result))
}

/// Nothing if no run knows it.
fn chart(number: usize, gauge: &Gauge, group: &Group, design: &Design<'_>) -> Option<Chart> {
    let cells: Vec<&Cell<'_>> = design.cells_of(group).take(LINES_MAX).collect();
    let known = || {
        cells
            .iter()
            .flat_map(|cell| &cell.runs)
            .filter_map(|run| timeline(run))
    };
    let interval_ms = known().map(|(timeline, _)| timeline.interval_ms).max()?;
    let lasted_ms = known()
        .filter_map(|(timeline, _)| timeline.rows.last())
        .map(|row| row.start_ms.saturating_add(interval_ms))
        .max()?;
    // Steps that every run's rows fit into.
    let joined = lasted_ms.div_ceil(interval_ms).div_ceil(POINTS_MAX).max(1);
    let step_ms = interval_ms.saturating_mul(joined);
    let mut marks = Vec::new();
    let mut said = Vec::new();
    for cell in cells {
        let of_runs: Vec<Vec<Option<f64>>> = cell
            .runs
            .iter()
            .filter_map(|run| timeline(run))
            .map(|(timeline, result)| steps(gauge, timeline, result, step_ms))
            .collect();
        let line = across(&of_runs);
        let values: Vec<f64> = line.iter().filter_map(|moment| moment.middle).collect();
        let Some(middle) = analysis::median(&values) else {
            continue;
        };
        said.push(format!("{} {}", cell.name, in_unit(gauge.unit, middle)));
        let x: Vec<f64> = (0..line.len() as u64)
            .map(|step| in_6_digits((step as f64 + 0.5) * step_ms as f64 / 1e3))
            .collect();
        let of = |value: fn(&Moment) -> Option<f64>| -> Vec<Option<f64>> {
            line.iter()
                .map(|moment| value(moment).map(in_6_digits))
                .collect()
        };
        if with_bands(group) && of_runs.len() > 1 {
            marks.push(Marks {
                name: format!("{}, least to greatest", cell.name),
                mark: Mark::Band,
                x: x.clone(),
                y: of(|moment| moment.middle),
                low: of(|moment| moment.least),
                high: of(|moment| moment.most),
                color: cell.color,
                is_faint: true,
                ..Marks::default()
            });
        }
        marks.push(Marks {
            name: cell.name.clone(),
            mark: Mark::Line,
            y: of(|moment| moment.middle),
            x,
            color: cell.color,
            ..Marks::default()
        });
    }
    (!marks.is_empty()).then(|| Chart {
        id: format!("telemetry-{}-{number}", gauge.id),
        title: design.title(gauge.title, group),
        description: format!("Medians over the run: {}.", said.join("; ")),
        x: curves::time_axis(),
        y: Axis {
            label: gauge.title.to_owned(),
            unit: gauge.unit,
            scale: Scale::Linear,
            from_zero: true,
        },
        marks,
        height: Height::Low,
        group: Some("telemetry".to_owned()),
        ..Chart::default()
    })
}

/// The values of one run in steps of equal length. Where a row belongs to two, it is in the one that it
/// begins in.
fn steps(
    gauge: &Gauge,
    timeline: &SocketTimeline,
    result: &RunResult,
    step_ms: u64,
) -> Vec<Option<f64>> {
    let window_ms = result.window.duration_ns / 1_000_000;
    let mut steps: Vec<(Vec<f64>, u64)> = Vec::new();
    for row in &timeline.rows {
        // The window's end cuts the last one short.
        let end_ms = row
            .start_ms
            .saturating_add(timeline.interval_ms)
            .min(window_ms);
        let length_ms = end_ms.saturating_sub(row.start_ms);
        let step = usize::try_from(row.start_ms / step_ms).unwrap_or(usize::MAX);
        if step > POINTS_MAX as usize {
            break;
        }
        steps.resize_with(steps.len().max(step + 1), Default::default);
        if let (Some(value), Some((values, lasted_ms))) = ((gauge.value)(row), steps.get_mut(step))
        {
            values.push(value);
            *lasted_ms += length_ms;
        }
    }
    let value = |(values, lasted_ms): &(Vec<f64>, u64)| {
        if !gauge.is_growth {
            return analysis::median(values);
        }
        // The rest of an interval is too short for a rate.
        let is_long = *lasted_ms > 0 && *lasted_ms * 2 >= timeline.interval_ms;
        (is_long && !values.is_empty())
            .then(|| values.iter().sum::<f64>() / (*lasted_ms as f64 / 1e3))
    };
    steps.iter().map(value).collect()
}

/// What several runs had at one moment.
struct Moment {
    least: Option<f64>,
    middle: Option<f64>,
    most: Option<f64>,
}

fn across(runs: &[Vec<Option<f64>>]) -> Vec<Moment> {
    let length = runs.iter().map(Vec::len).max().unwrap_or(0);
    let at = |step: usize| {
        let values = runs
            .iter()
            .filter_map(|run| run.get(step).copied().flatten());
        let values: Vec<f64> = values.collect();
        Moment {
            least: values.iter().copied().reduce(f64::min),
            middle: analysis::median(&values),
            most: values.iter().copied().reduce(f64::max),
        }
    };
    (0..length).map(at).collect()
}

/// A row for each combination; and the names of what was zero everywhere. Nothing if no run has telemetry.
fn averages(design: &Design<'_>) -> Option<(TableBlock, Vec<String>)> {
    let values = |name: &str| {
        let good = design.runs.iter().filter(|run| run.failure.is_none());
        good.filter_map(|run| run.value(name)).collect::<Vec<f64>>()
    };
    let known_names = quantity::TELEMETRY
        .into_iter()
        .filter(|name| !values(name).is_empty());
    let (columns, silent): (Vec<&str>, Vec<&str>) =
        known_names.partition(|name| values(name).iter().any(|value| *value != 0.0));
    if columns.is_empty() && silent.is_empty() {
        return None;
    }
    let wish = Wish {
        columns: Some(columns.iter().map(|name| (*name).to_owned()).collect()),
        ..Wish::default()
    };
    let table = table::table(design.runs, &wish).ok()?;
    let mut heads: Vec<Column> = keys(&table).into_iter().map(words_column).collect();
    heads.extend(columns.iter().map(|name| Column {
        name: title(name),
        is_numeric: true,
        ..Column::default()
    }));
    let row = |cell: &table::Cell| {
        let mut row: Vec<TableCell> = key_values(&table, cell).into_iter().map(text).collect();
        let averages = columns.iter().zip(&cell.averages);
        row.extend(averages.map(|(name, value)| known(*value, |value| show(name, value))));
        row
    };
    let block = TableBlock {
        caption: "Averages of what the kernel's books say".to_owned(),
        rows: table.cells.iter().map(row).collect(),
        columns: heads,
    };
    Some((block, silent.into_iter().map(title).collect()))
}
