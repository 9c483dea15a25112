//! Single requests over time, of runs with a record of each.

use std::collections::BTreeMap;

use analysis::{RequestSample, SampledRequest};
use presentation::{
    Axis, Chart, Mark, Marks, Scale, Section, TIME_GROUP, Unit, color, tables, words,
};

use crate::page::curves;
use crate::page::quantities::{in_6_digits, scale};
use crate::page::runs::{Run, Runs};

/// With more runs, the page would have a chart for each and take seconds to open.
const RUNS_MAX: usize = 8;
/// Errors of more kinds share the last colour and name.
const KINDS_MAX: usize = 6;

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let recorded = runs.counted().filter_map(|run| {
        let sample = run.run.requests.as_deref()?;
        (!sample.requests.is_empty()).then_some((run, sample))
    });
    let recorded: Vec<(&Run<'_>, &RequestSample)> = recorded.collect();
    let is_alone = recorded.len() == 1;
    let charts = recorded.iter().take(RUNS_MAX).enumerate();
    let blocks = charts.map(|(number, (run, sample))| {
        let name = if is_alone { "" } else { run.name.as_str() };
        tables::chart(chart(number, name, sample))
    });
    let blocks: Vec<_> = blocks.collect();
    let left_out = match recorded.len().saturating_sub(RUNS_MAX) {
        0 => String::new(),
        more => format!("{} more have records", words::counted(more as u64, "run")),
    };
    let shown: Vec<String> = match recorded.as_slice() {
        [(_, sample)] => vec![shown(sample)],
        _ => Vec::new(),
    };
    let how = "Each point is a request: when it was due, and how long it took";
    let lead = words::sentences(
        [how]
            .into_iter()
            .chain(shown.iter().map(String::as_str))
            .chain([left_out.as_str()]),
    );
    (!blocks.is_empty()).then(|| Section::new("requests", "Requests", lead, blocks))
}

/// `5,000 of 300,000 shown: the slowest, and a random choice of the others`
fn shown(sample: &RequestSample) -> String {
    let total = words::count(sample.total);
    match sample.requests.len() as u64 {
        all if all == sample.total => format!("{total} of {total} shown"),
        some => format!(
            "{} of {total} shown: the slowest, and a random choice of the others",
            words::count(some)
        ),
    }
}

fn chart(number: usize, name: &str, sample: &RequestSample) -> Chart {
    let shown = shown(sample);
    let title = match name {
        "" => "Latency of single requests".to_owned(),
        name => format!("{name}: {shown}"),
    };
    let times = sample.requests.iter().map(|request| request.latency_us);
    // A request that was due at the end has no latency, which a logarithmic axis cannot show.
    let times = times.filter(|latency_us| *latency_us > 0.0);
    let scale = scale(times.map(|latency_us| (latency_us, latency_us)));
    let is_log = scale == Scale::Log;
    Chart {
        id: format!("requests-{number}"),
        title,
        description: description(sample, &shown),
        x: curves::time_axis(),
        y: Axis {
            label: "Latency".to_owned(),
            unit: Unit::Microseconds,
            from_zero: !is_log,
            scale,
        },
        marks: marks(sample, is_log),
        group: Some(TIME_GROUP.to_owned()),
        ..Chart::default()
    }
}

fn description(sample: &RequestSample, shown: &str) -> String {
    let slowest = sample.requests.iter().filter(|it| it.error.is_none());
    let slowest = slowest.max_by(|a, b| a.latency_us.total_cmp(&b.latency_us));
    let slowest = slowest.map_or_else(
        || "There is no response.".to_owned(),
        |request| {
            let latency = words::time_us(request.latency_us);
            format!(
                "The slowest response took {latency}, due at {:.1} s.",
                request.due_s
            )
        },
    );
    format!("The latency of each request by the time when it was due. {shown}. {slowest}")
}

/// Responses first, so that errors are drawn above them.
fn marks(sample: &RequestSample, is_log: bool) -> Vec<Marks> {
    let mut by_error: BTreeMap<&str, Vec<&SampledRequest>> = BTreeMap::new();
    for request in &sample.requests {
        let error = request.error.as_deref().unwrap_or_default();
        by_error.entry(error).or_default().push(request);
    }
    let answered = by_error.remove("").unwrap_or_default();
    let mut all = Vec::new();
    if !answered.is_empty() {
        all.push(dots("Response", color::LATENCY, &answered, is_log));
    }
    let mut kinds: Vec<_> = by_error.into_iter().collect();
    kinds.sort_by_key(|(name, requests)| (std::cmp::Reverse(requests.len()), *name));
    let others = kinds.split_off(kinds.len().min(KINDS_MAX));
    for (at, (name, requests)) in kinds.iter().enumerate() {
        let marks = dots(
            &format!("Error: {name}"),
            color::ERRORS + at,
            requests,
            is_log,
        );
        all.push(Marks {
            is_hollow: true,
            ..marks
        });
    }
    let mut others: Vec<_> = others
        .into_iter()
        .flat_map(|(_, requests)| requests)
        .collect();
    if !others.is_empty() {
        others.sort_by(|a, b| a.due_s.total_cmp(&b.due_s));
        let marks = dots("Other errors", color::ERRORS + KINDS_MAX, &others, is_log);
        all.push(Marks {
            is_hollow: true,
            ..marks
        });
    }
    all
}

fn dots(name: &str, color: usize, requests: &[&SampledRequest], is_log: bool) -> Marks {
    let mut marks = Marks::new(name, Mark::Dots, color);
    for request in requests {
        marks.x.push(in_6_digits(request.due_s));
        // Nothing is drawn at zero on a logarithmic axis.
        let is_drawn = request.latency_us > 0.0 || !is_log;
        marks
            .y
            .push(is_drawn.then(|| in_6_digits(request.latency_us)));
    }
    marks
}
