//! Metrics, text, tables and charts of the server's own metrics.

use plan::readable::{count, counted, decimal, percent};
use presentation::tables::{self, columns, known};
use presentation::{Block, Mark, Marks, TableBlock, TableCell, TextBlock, color, words};

use super::known::{self as figures_of, Figure, KnownGauge};
use super::{ScrapedPage, ScrapedSeries, ScrapedValues};
use crate::metric::Better::{Higher, Lower, Neither};
use crate::metric::{Getter, MetricRow, Needs, Unit, row};
use crate::parts::charts;
use crate::{Counted, RunResult};

const NEEDS: Needs = Needs::new("metrics of the server (--scrape)", |result| {
    match result.recording.parts.scraped {
        Some(_) => "the server does not publish it (--scrape)",
        None => "the server's metrics were not read (--scrape)",
    }
});

fn pages<'r>(run: Counted<'r>) -> &'r [ScrapedPage] {
    let scraped = run.recording.parts.scraped.as_ref();
    scraped.map_or(&[], |scraped| scraped.pages.as_slice())
}

fn pages_of(result: &RunResult) -> &[ScrapedPage] {
    pages(Counted::of(result))
}

#[rustfmt::skip]
pub(super) static METRICS: [MetricRow; 6] = [
    row("server_requests_running", &[], "requests running in the server, mean",
        (Unit::Number, Neither, NEEDS),
        Getter::Number(|run| Some(figures_of::gauge(pages(run), Figure::Running)?.mean))).at_end(),
    row("server_requests_waiting", &[], "requests waiting in the server, mean",
        (Unit::Number, Lower, NEEDS),
        Getter::Number(|run| Some(figures_of::gauge(pages(run), Figure::Waiting)?.mean))).at_end(),
    row("server_cache_used_percent", &[], "KV cache in use, mean",
        (Unit::Percent, Neither, NEEDS),
        Getter::Number(|run| {
            Some(figures_of::gauge(pages(run), Figure::CacheUsed)?.mean * 100.0)
        })).at_end(),
    row("server_cache_used_max_percent", &[], "KV cache in use, max",
        (Unit::Percent, Lower, NEEDS),
        Getter::Number(|run| {
            Some(figures_of::gauge(pages(run), Figure::CacheUsed)?.max * 100.0)
        })).at_end(),
    row("server_cache_hit_percent", &[], "prefix cache hit rate",
        (Unit::Percent, Higher, NEEDS),
        Getter::Number(|run| Some(figures_of::cache_hit_share(pages(run))? * 100.0))).at_end(),
    row("server_preemptions", &[], "preemptions", (Unit::Number, Lower, NEEDS),
        Getter::Number(|run| figures_of::growth(pages(run), Figure::Preemptions))).at_end(),
];

/// What is known of a figure, as words; `None` if the server does not publish it.
fn in_words(pages: &[ScrapedPage], figure: Figure) -> Option<String> {
    match figure {
        Figure::Running | Figure::Waiting | Figure::CacheUsed => {
            let KnownGauge { mean, max } = figures_of::gauge(pages, figure)?;
            Some(if figure.is_share() {
                let [mean, max] = [mean, max].map(|share| percent(share * 100.0));
                format!("mean {mean}, max {max}")
            } else {
                format!("mean {}, max {}", decimal(mean, 2), words::number(max))
            })
        }
        Figure::CacheHitShare => {
            let share = percent(figures_of::cache_hit_share(pages)? * 100.0);
            Some(match figures_of::growth(pages, Figure::CacheQueries) {
                Some(queries) => format!("{share} of {} tokens", words::number(queries)),
                None => share,
            })
        }
        Figure::CacheQueries | Figure::CacheHits => None,
        Figure::Preemptions => figures_of::growth(pages, figure).map(words::number),
        Figure::PromptTokens | Figure::OutputTokens => {
            let growth = figures_of::growth(pages, figure)?;
            let per_sec = pages.iter().filter_map(|page| {
                let of_page = std::slice::from_ref(page);
                page.per_sec(figures_of::growth(of_page, figure)?)
            });
            let per_sec = per_sec.reduce(|sum, more| sum + more);
            let per_sec = per_sec.map(|rate| format!(" ({}/s)", words::number(rate)));
            Some(words::number(growth) + &per_sec.unwrap_or_default())
        }
    }
}

/// In the order of texts and tables.
const FIGURES: [Figure; 7] = [
    Figure::Running,
    Figure::Waiting,
    Figure::CacheUsed,
    Figure::CacheHitShare,
    Figure::Preemptions,
    Figure::PromptTokens,
    Figure::OutputTokens,
];

/// Lines below the text of a run: where the metrics come from, and those with a title.
pub(super) fn text_of_run(result: &RunResult) -> Vec<TextBlock> {
    let pages = pages_of(result);
    if pages.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), "Metrics of the server".to_owned()];
    let known = FIGURES.iter().filter_map(|figure| {
        let words = in_words(pages, *figure)?;
        Some(format!("  {:<22}{words}", figure.title()))
    });
    lines.extend(known);
    if lines.len() == 2 {
        let series: usize = pages.iter().map(|page| page.series.len()).sum();
        lines.push(format!(
            "  {} series, none with a title",
            count(series as u64)
        ));
    }
    lines.into_iter().map(TextBlock::Line).collect()
}

/// What was not read.
pub(super) fn notes(result: &RunResult) -> Vec<String> {
    let mut notes = Vec::new();
    for page in pages_of(result) {
        let url = &page.url;
        let all = page.scrapes + page.failed;
        if let Some(failure) = &page.failure {
            let done = count(page.scrapes);
            let all = counted(all, "time");
            notes.push(format!(
                "--scrape {url}: scraped {done} of {all}: {failure}"
            ));
        }
        if page.left_out > 0 {
            let left_out = count(page.left_out);
            notes.push(format!(
                "--scrape {url}: {left_out} more series were left out"
            ));
        }
    }
    notes
}

/// The metrics with a title, of each run.
pub(super) fn figures(result: &RunResult) -> TableBlock {
    let pages = pages_of(result);
    let gauge = |figure| figures_of::gauge(pages, figure);
    let number = |value: Option<f64>| known(value, words::number);
    let share = |value: Option<f64>| known(value.map(|value| value * 100.0), percent);
    let is_known = FIGURES
        .iter()
        .any(|figure| in_words(pages, *figure).is_some());
    let rows = is_known.then(|| {
        let [running, waiting, used] =
            [Figure::Running, Figure::Waiting, Figure::CacheUsed].map(gauge);
        vec![
            number(running.map(|it| it.mean)),
            number(running.map(|it| it.max)),
            number(waiting.map(|it| it.mean)),
            number(waiting.map(|it| it.max)),
            share(used.map(|it| it.mean)),
            share(used.map(|it| it.max)),
            share(figures_of::cache_hit_share(pages)),
            number(figures_of::growth(pages, Figure::Preemptions)),
        ]
    });
    let heads = [
        "Running, mean",
        "Running, max",
        "Waiting, mean",
        "Waiting, max",
        "KV cache, mean",
        "KV cache, max",
        "Prefix cache hits",
        "Preemptions",
    ];
    TableBlock::new("Metrics of the server", columns(&[], &heads), rows)
}

/// All series of the only run, as the server names them.
pub(super) fn all_series(result: &RunResult) -> TableBlock {
    let pages = pages_of(result);
    let rows = pages
        .iter()
        .flat_map(|page| page.series.iter().map(|series| series_row(page, series)));
    let heads = ["Mean", "Min", "Max", "Growth", "Growth/s", "Values added"];
    TableBlock::new("All series", columns(&["Series"], &heads), rows)
}

fn series_row(page: &ScrapedPage, series: &ScrapedSeries) -> Vec<TableCell> {
    let number = |value: Option<f64>| known(value, words::number);
    let [mean, min, max, growth, per_sec, added] = match series.values {
        ScrapedValues::Gauge { mean, min, max, .. } => {
            [Some(mean), Some(min), Some(max), None, None, None]
        }
        ScrapedValues::Counter { growth, .. } => {
            [None, None, None, Some(growth), page.per_sec(growth), None]
        }
        ScrapedValues::Histogram { count, sum } => {
            let mean = (count > 0.0).then(|| sum / count);
            [mean, None, None, None, page.per_sec(count), Some(count)]
        }
    };
    let numbers = [mean, min, max, growth, per_sec, added].map(number);
    std::iter::once(tables::text(series.full_name()))
        .chain(numbers)
        .collect()
}

/// Charts of the known gauges of the only run, over the time of the other charts.
pub(super) fn details(result: &RunResult) -> Vec<Block> {
    let pages = pages_of(result);
    let charts = [
        (
            "server-requests",
            "Requests in the server",
            Unit::Number,
            &[
                (Figure::Running, color::RATE),
                (Figure::Waiting, color::HIGH_PERCENTILE),
            ][..],
        ),
        (
            "server-cache",
            "KV cache in use",
            Unit::Percent,
            &[(Figure::CacheUsed, color::BYTES)],
        ),
    ];
    let charts = charts.into_iter().filter_map(|(id, title, unit, figures)| {
        let marks = figures
            .iter()
            .flat_map(|(figure, color)| lines(pages, *figure, *color));
        let marks: Vec<Marks> = marks.collect();
        let description = format!("{title} over time, as the server says.");
        charts::over_time((id, title), description, unit, marks)
    });
    charts.collect()
}

/// A line for each page that has the figure.
fn lines(pages: &[ScrapedPage], figure: Figure, color: usize) -> Vec<Marks> {
    let scale = if figure.is_share() { 100.0 } else { 1.0 };
    let lines = pages.iter().enumerate().filter_map(|(at, page)| {
        let rows = figures_of::rows(page, figure);
        if rows.iter().flatten().count() < 2 {
            return None;
        }
        let name = match pages.len() {
            1 => figure.title().to_owned(),
            _ => format!("{}, {}", figure.title(), page.url),
        };
        Some(Marks {
            x: page.at_ms.iter().map(|at_ms| *at_ms as f64 / 1e3).collect(),
            y: rows
                .into_iter()
                .map(|row| row.map(|row| row * scale))
                .collect(),
            is_dashed: at > 0,
            ..Marks::new(name, Mark::Step, color)
        })
    });
    lines.collect()
}
