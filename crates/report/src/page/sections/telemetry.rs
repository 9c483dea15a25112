//! Kernel counters and sockets sampled during the runs.

use analysis::table::{self, TableOptions};
use presentation::tables::{self, finding, number_column, text, words_column};
use presentation::words::{counted, list, number, sentence, sentences};
use presentation::{Axis, Block, Chart, Height, Marks, Section, TableCell, Tone};
use results::cells::measured;
use results::metric;
use results::parts::telemetry::{self as part, GAUGES, Gauge, SocketValue};
use results::{RunResult, SocketTimeline, Telemetry};

use crate::page::curves::{self, Curve};
use crate::page::lines::{self, LineChart};
use crate::page::quantities::{in_unit, show, title};
use crate::page::runs::Runs;
use crate::table::{key_values, keys};

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let all: Vec<&Telemetry> = runs
        .results()
        .filter_map(|(_, result)| result.telemetry.as_ref())
        .collect();
    if all.is_empty() {
        return None;
    }
    let (silent, moving): (Vec<&Gauge>, Vec<&Gauge>) =
        GAUGES.iter().partition(|gauge| is_zero(gauge, runs));
    let step_ms = step_ms(runs);
    let mut charts: Vec<Chart> = Vec::new();
    for gauge in moving {
        match runs.single_result() {
            Some(result) => charts.extend(chart_of_run(gauge, result, step_ms)),
            None => charts.extend(charts_of_groups(gauge, runs, step_ms)),
        }
    }
    let pairs = charts.chunks(2);
    let pairs = pairs.map(|pair| Block::Charts {
        charts: pair.to_vec(),
    });
    let notes = runs
        .single_result()
        .and_then(|result| result.telemetry.as_ref());
    let notes = notes.into_iter().flat_map(|telemetry| &telemetry.notes);
    let mut blocks: Vec<Block> = notes
        .map(|note| finding(Tone::Warning, sentence(note), vec![]))
        .chain(pairs)
        .collect();
    let mut zero: Vec<String> = silent
        .iter()
        .map(|gauge| gauge.title.to_lowercase())
        .collect();
    if let Some(telemetry) = all.first().filter(|_| runs.single().is_some()) {
        blocks.extend(telemetry.sockets.as_ref().and_then(part::summary));
        blocks.extend(part::troubles_finding(telemetry));
    } else {
        let (averages, silent_counters) = averages(runs)?;
        zero.extend(silent_counters);
        blocks.push(averages);
    }
    let zero = match zero.as_slice() {
        [] => String::new(),
        names => format!("Zero in every run: {}", list(names)),
    };
    let has_sockets = all.iter().any(|telemetry| telemetry.sockets.is_some());
    let no_values = if charts.is_empty() && has_sockets {
        "Values over time were not recorded"
    } else {
        ""
    };
    let first = runs.results().map(|(_, result)| result).next();
    let is_single = runs.single().is_some();
    let scope = first.map(|first| part::scope(first, has_sockets, is_single));
    let scope = scope.unwrap_or_default();
    let lead = sentences([
        &*scope,
        if charts.is_empty() {
            ""
        } else {
            lines::legend(runs)
        },
        no_values,
        &zero,
    ]);
    (!blocks.is_empty()).then(|| Section::new("telemetry", "TCP telemetry", lead, blocks))
}

fn timelines<'a>(runs: &'a Runs<'_>) -> impl Iterator<Item = (&'a SocketTimeline, &'a RunResult)> {
    runs.results().filter_map(|(_, result)| timeline(result))
}

fn timeline(result: &RunResult) -> Option<(&SocketTimeline, &RunResult)> {
    let timeline = result.telemetry.as_ref()?.timeline.as_ref()?;
    (timeline.interval_ms > 0).then_some((timeline, result))
}

/// Whether all values are known to be zero.
fn is_zero(gauge: &Gauge, runs: &Runs<'_>) -> bool {
    let rows = || timelines(runs).flat_map(|(timeline, _)| &timeline.rows);
    let values = gauge
        .values
        .iter()
        .flat_map(|(.., value)| rows().filter_map(value));
    let mut values = values.peekable();
    values.peek().is_some() && values.all(|value| value == 0.0)
}

/// The step of all curves of the page, so that medians can be taken at each.
fn step_ms(runs: &Runs<'_>) -> u64 {
    let interval_ms = timelines(runs)
        .map(|(timeline, _)| timeline.interval_ms)
        .max();
    let interval_ms = interval_ms.unwrap_or(1);
    let ends = timelines(runs).filter_map(|(timeline, _)| timeline.rows.last());
    let end_ms = ends
        .map(|row| row.start_ms.saturating_add(interval_ms))
        .max()
        .unwrap_or(0);
    let joined = end_ms
        .div_ceil(interval_ms)
        .div_ceil(lines::points_max(runs));
    interval_ms.saturating_mul(joined.max(1))
}

/// The values of a run in steps of equal length. A row counts in the step in which it starts.
fn curve(is_growth: bool, value: SocketValue, result: &RunResult, step_ms: u64) -> Option<Curve> {
    /// More steps than any line has: such a row has a wrong time.
    const STEPS_MAX: usize = 600;
    let (timeline, result) = timeline(result)?;
    let window_ms = result.window.duration_ns / 1_000_000;
    let mut steps: Vec<(Vec<f64>, u64)> = Vec::new();
    for row in &timeline.rows {
        // The end of the window shortens the last row.
        let end_ms = row
            .start_ms
            .saturating_add(timeline.interval_ms)
            .min(window_ms);
        let step = usize::try_from(row.start_ms / step_ms).unwrap_or(usize::MAX);
        if step >= STEPS_MAX {
            break;
        }
        steps.resize_with(steps.len().max(step + 1), Default::default);
        if let (Some(value), Some((values, length_ms))) = (value(row), steps.get_mut(step)) {
            values.push(value);
            *length_ms += end_ms.saturating_sub(row.start_ms);
        }
    }
    let mut curve = Curve::default();
    for (step, (values, length_ms)) in steps.iter().enumerate() {
        // The rest of an interval is too short for a rate.
        let is_long = *length_ms > 0 && *length_ms * 2 >= timeline.interval_ms;
        let value = match (is_growth, values.is_empty()) {
            (_, true) => None,
            (false, _) => analysis::median(values),
            (true, _) => is_long.then(|| values.iter().sum::<f64>() / (*length_ms as f64 / 1e3)),
        };
        curve.push((step as f64 + 0.5) * step_ms as f64 / 1e3, value);
    }
    Some(curve)
}

fn charts_of_groups(gauge: &Gauge, runs: &Runs<'_>, step_ms: u64) -> Vec<Chart> {
    let Some((_, _, value)) = gauge.values.first() else {
        return Vec::new();
    };
    let id = format!("telemetry-{}", gauge.id);
    let chart = LineChart {
        height: Height::Low,
        ..LineChart::over_time(&id, gauge.title, gauge.unit)
    };
    chart.charts(runs, |run| {
        curve(gauge.is_growth, *value, run.run.result.as_deref()?, step_ms)
    })
}

/// `None` if no value is known.
fn chart_of_run(gauge: &Gauge, result: &RunResult, step_ms: u64) -> Option<Chart> {
    let mut marks: Vec<Marks> = Vec::new();
    let mut described = Vec::new();
    for (name, color, value) in gauge.values {
        let curve = curve(gauge.is_growth, *value, result, step_ms)?;
        if let Some((least, most)) = curve.range() {
            let [least, most] = [least, most].map(|value| in_unit(gauge.unit, value));
            described.push(format!("{name} from {least} to {most}"));
            marks.push(curve.marks(*name, gauge.mark, *color));
        }
    }
    (!marks.is_empty()).then(|| Chart {
        id: format!("telemetry-{}", gauge.id),
        title: gauge.title.to_owned(),
        description: format!("{}.", described.join(", ")),
        x: curves::time_axis(),
        y: Axis::from_zero(gauge.title, gauge.unit),
        marks,
        height: Height::Low,
        group: Some(presentation::TIME_GROUP.to_owned()),
        ..Chart::default()
    })
}

/// A row for each group, and the titles of what was zero in every run. `None` without telemetry.
fn averages(runs: &Runs<'_>) -> Option<(Block, Vec<String>)> {
    let values = |name: &str| {
        runs.counted()
            .filter_map(|run| run.run.value(name))
            .collect::<Vec<f64>>()
    };
    let known_names = metric::TELEMETRY
        .into_iter()
        .filter(|name| !values(name).is_empty());
    let (columns, silent): (Vec<&str>, Vec<&str>) =
        known_names.partition(|name| values(name).iter().any(|value| *value != 0.0));
    if columns.is_empty() && silent.is_empty() {
        return None;
    }
    let options = TableOptions {
        columns: Some(columns.iter().map(|name| (*name).to_owned()).collect()),
        ..TableOptions::default()
    };
    let table = table::table(runs.all, &options).ok()?;
    let mut heads: Vec<_> = keys(&table).into_iter().map(words_column).collect();
    heads.extend(columns.iter().map(|name| number_column(title(name))));
    let row = |cell: &table::Cell| {
        let mut row: Vec<TableCell> = key_values(&table, cell).into_iter().map(text).collect();
        let averages = columns.iter().zip(&cell.averages);
        row.extend(averages.map(|(name, value)| measured(*value, |value| show(name, value))));
        row
    };
    let rows: Vec<_> = table.cells.iter().map(row).collect();
    let block = tables::table("Averages of kernel counters and sockets", heads, rows);
    Some((block, silent.into_iter().map(title).collect()))
}

/// All counters that grew; of a group, on average.
pub(super) fn counters(runs: &Runs<'_>) -> Option<Section> {
    let mut names: Vec<&String> = runs
        .results()
        .flat_map(|(_, result)| {
            result
                .telemetry
                .iter()
                .flat_map(|known| known.counters.keys())
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    let known = names.len();
    let mut rows = Vec::new();
    for name in names {
        let mut row = vec![text(name.clone())];
        let mut has_grown = false;
        for group in &runs.groups {
            let telemetry = group
                .results()
                .filter_map(|result| result.telemetry.as_ref());
            let growths = telemetry.filter_map(|telemetry| telemetry.counters.get(name));
            let growths: Vec<f64> = growths.map(|growth| *growth as f64).collect();
            let sum: f64 = growths.iter().sum();
            has_grown |= growths.iter().any(|growth| *growth != 0.0);
            let mean = (!growths.is_empty()).then(|| sum / growths.len() as f64);
            let is_trouble = sum != 0.0 && part::is_trouble(name);
            row.push(tables::toned_if(
                is_trouble,
                Tone::Warning,
                tables::known(mean, number),
            ));
        }
        if has_grown {
            rows.push(row);
        }
    }
    let mut columns = vec![words_column("Counter")];
    columns.extend(
        runs.groups
            .iter()
            .map(|group| match group.full_name.as_str() {
                "" => number_column("Growth"),
                name => number_column(name),
            }),
    );
    let lead = format!(
        "Counters of the whole machine that grew during the window; {} did not.",
        counted((known - rows.len()) as u64, "other")
    );
    (!rows.is_empty()).then(|| {
        let blocks = vec![tables::table("Counters", columns, rows)];
        Section::new("counters", "Kernel counters", lead, blocks).folded(true)
    })
}
