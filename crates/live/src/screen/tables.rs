//! The tables below the plots: percentiles, answers and errors, the generator itself.

use plan::{RunPlan, units};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use results::Histogram;
use results::snapshot::{Snapshot, Stage};

use super::{cpu_style, words};
use crate::look::{BAD, BOLD, DOUBTFUL, FAINT, GOOD, MEDIAN, TAIL};
use crate::panel::{lines, panel};

/// Above this share of a CPU a worker has no time left to be on time; as in the verdict of a result.
pub(super) const CPU_LIMIT: f64 = 0.9;

const PERCENTILES_COLUMNS: u16 = 31;
const CLIENT_COLUMNS: u16 = 34;
/// From so many columns on each of the three tables has its own place.
const THREE_TABLES_COLUMNS: u16 = 96;

pub(super) fn draw(plan: &RunPlan, latest: Option<&Snapshot>, area: Rect, buffer: &mut Buffer) {
    let percentiles = Constraint::Length(PERCENTILES_COLUMNS);
    let Some(latest) = latest else {
        let title = Line::styled("nothing is known yet", FAINT);
        panel(area, &title, buffer);
        return;
    };
    if area.width >= THREE_TABLES_COLUMNS {
        let others = [
            percentiles,
            Constraint::Min(0),
            Constraint::Length(CLIENT_COLUMNS),
        ];
        let [times, counts, client] = Layout::horizontal(others).spacing(1).areas(area);
        draw_percentiles(plan, latest, times, buffer);
        let inner = panel(counts, &answers_title(latest), buffer);
        lines(inner, &answers(latest, inner.width), buffer);
        let inner = panel(client, &Line::styled("this client", FAINT), buffer);
        lines(inner, &client_lines(plan, latest), buffer);
    } else {
        let others = [percentiles, Constraint::Min(0)];
        let [times, rest] = Layout::horizontal(others).spacing(1).areas(area);
        draw_percentiles(plan, latest, times, buffer);
        let inner = panel(rest, &answers_title(latest), buffer);
        let client = client_lines(plan, latest);
        let client_rows = u16::try_from(client.len()).unwrap_or(u16::MAX);
        let parts = [
            Constraint::Min(0),
            Constraint::Length(client_rows.min(inner.height.saturating_sub(3))),
        ];
        let [above, below] = Layout::vertical(parts).areas(inner);
        lines(above, &answers(latest, above.width), buffer);
        lines(below, &client, buffer);
    }
}

fn draw_percentiles(plan: &RunPlan, latest: &Snapshot, area: Rect, buffer: &mut Buffer) {
    const SHOWN: [(&str, f64); 6] = [
        ("p50", 50.0),
        ("p75", 75.0),
        ("p90", 90.0),
        ("p99", 99.0),
        ("p99.9", 99.9),
        ("max", 100.0),
    ];
    let inner = panel(area, &Line::styled(words::latency(plan), FAINT), buffer);
    let last_s = latest.last.duration_ns as f64 / 1e9;
    let heading = format!(
        "{:6}{:>11} {:>11}",
        "",
        "so far",
        format!("last {last_s:.1}s")
    );
    buffer.set_stringn(inner.x, inner.y, heading, usize::from(inner.width), FAINT);
    for (row, (name, percent)) in inner.rows().skip(1).zip(SHOWN) {
        let style = match name {
            "p50" => MEDIAN,
            "p99" => TAIL,
            _ => Style::new(),
        };
        let line = Line::from(vec![
            Span::styled(format!("{name:6}"), FAINT),
            percentile(&latest.latency, percent, style),
            Span::raw(" "),
            percentile(&latest.last.latency, percent, style),
        ]);
        buffer.set_line(row.x, row.y, &line, row.width);
    }
}

/// A cell of the table, with a sign where too few samples lie above the percentile.
fn percentile(histogram: &Histogram, percent: f64, style: Style) -> Span<'static> {
    if histogram.is_empty() {
        return Span::styled(format!("{:>11}", "-"), FAINT);
    }
    let text = words::time_ns(histogram.value_at_percentile(percent));
    if results::enough_samples(percent, histogram.count()) {
        Span::styled(format!("{text:>11}"), style.patch(BOLD))
    } else {
        Span::styled(format!("{:>11}", format!("~{text}")), FAINT)
    }
}

fn answers_title(latest: &Snapshot) -> Line<'static> {
    let errors = latest.errors.events();
    let count = |count: u64| {
        units::metric(count as f64)
            .trim_end_matches(".00")
            .to_owned()
    };
    let mut title = vec![
        Span::styled(count(latest.counters.answered), BOLD),
        Span::styled(" answers", FAINT),
    ];
    if errors > 0 {
        title.push(Span::styled(format!(", {} errors", count(errors)), BAD));
    }
    Line::from(title)
}

/// Errors first, the most frequent one on top; then statuses likewise.
fn answers(latest: &Snapshot, columns: u16) -> Vec<Line<'static>> {
    let mut errors: Vec<_> = latest.errors.iter().collect();
    errors.sort_by_key(|(_, count)| std::cmp::Reverse(count.events));
    let mut statuses: Vec<_> = latest.statuses.iter().collect();
    statuses.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let total = latest.statuses.total().max(1);
    let status = |(status, count): (u16, u64)| {
        let style = match status {
            ..=399 => GOOD,
            400..=499 => DOUBTFUL,
            _ => BAD,
        };
        Line::from(vec![
            Span::styled(format!("{status:<5}"), style),
            Span::raw(format!("{count:>10}")),
            Span::styled(format!("{:>8}", percent(count, total)), FAINT),
        ])
    };
    let error = |(kind, count): (results::ErrorKind, results::ErrorCount)| {
        let told = if columns >= 48 {
            kind.describe()
        } else {
            kind.name()
        };
        Line::from(vec![
            Span::styled("error", BAD),
            Span::raw(format!("{:>10}  ", count.events)),
            Span::styled(told, BAD),
        ])
    };
    let mut told: Vec<Line<'static>> = errors
        .into_iter()
        .map(error)
        .chain(statuses.into_iter().map(status))
        .collect();
    if told.is_empty() {
        let nothing = match latest.stage {
            Stage::WarmingUp => "counted when the warm-up is over",
            Stage::Measuring => "no answer yet",
        };
        told.push(Line::styled(nothing, FAINT));
    }
    told
}

/// `99.9 %`, and never 100 % of what is less than all, nor 0 % of what is there.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let share = part as f64 / whole as f64 * 100.0;
    match share {
        100.0 => "100 %".to_owned(),
        share if share > 99.9 => ">99.9 %".to_owned(),
        share if share < 0.1 => "<0.1 %".to_owned(),
        share => format!("{share:.1} %"),
    }
}

/// Connections, bytes, what was asked for, and the generator's health.
fn client_lines(plan: &RunPlan, latest: &Snapshot) -> Vec<Line<'static>> {
    let line = |name: &str, value: Span<'static>| {
        Line::from(vec![Span::styled(format!("{name:<13}"), FAINT), value])
    };
    let (open, asked) = (latest.open_connections, u64::from(plan.load.connections));
    // Those that are replaced on purpose are not missed.
    let is_kept = plan.load.keepalive && plan.load.requests_per_connection.is_none();
    let style = if is_kept && open < asked {
        DOUBTFUL
    } else {
        BOLD
    };
    let mut told = vec![line(
        "connections",
        Span::styled(format!("{open} of {asked} open"), style),
    )];
    match latest.busiest_worker {
        Some(share) => {
            let text = format!("{:.0} % of a CPU", share * 100.0);
            told.push(line("busiest", Span::styled(text, cpu_style(share))));
            if share > CPU_LIMIT {
                told.push(Line::styled("the generator is at its limit", BAD));
            }
        }
        None => told.push(line("busiest", Span::styled("CPU unknown", FAINT))),
    }
    let per_sec = match latest.last.duration_ns {
        0 => 0.0,
        duration_ns => latest.last.bytes as f64 / (duration_ns as f64 / 1e9),
    };
    let received = format!("{}B/s", units::binary(per_sec));
    told.push(line("received", Span::raw(received)));
    let counters = &latest.counters;
    if plan.pacing.is_open() && latest.stage == Stage::Measuring {
        // In a closed loop it is what connections can carry.
        let text = counters.in_flight.to_string();
        told.push(line("in flight", Span::raw(text)));
    }
    if counters.reconnects > 0 {
        let text = counters.reconnects.to_string();
        told.push(line("reconnects", Span::raw(text)));
    }
    told
}
