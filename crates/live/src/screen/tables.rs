//! The tables below the plots: percentiles, responses and errors, the load generator.

use plan::readable::{count, counted};
use plan::{RunPlan, readable};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use results::Histogram;
use results::snapshot::{Snapshot, Stage};

use super::{cpu_style, words};
use crate::appearance::{BOLD, DIM, ERROR, MEDIAN, SUCCESS, TAIL, WARNING};
use crate::numbers::rate;
use crate::panel::{lines, panel};

/// A worker with a larger share of a CPU has little room left.
pub(super) const CPU_LIMIT: f64 = 0.95;

const PERCENTILES_COLUMNS: u16 = 31;
const CLIENT_COLUMNS: u16 = 34;
/// With at least this many columns, the three tables are side by side.
const THREE_TABLES_COLUMNS: u16 = 96;

pub(super) fn draw(plan: &RunPlan, latest: Option<&Snapshot>, area: Rect, buffer: &mut Buffer) {
    let percentiles = Constraint::Length(PERCENTILES_COLUMNS);
    let Some(latest) = latest else {
        let title = Line::styled("no data yet", DIM);
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
        let inner = panel(counts, &responses_title(latest), buffer);
        lines(inner, &responses(latest, inner.width), buffer);
        let inner = panel(client, &Line::styled("load generator", DIM), buffer);
        lines(inner, &client_lines(plan, latest), buffer);
    } else {
        let others = [percentiles, Constraint::Min(0)];
        let [times, rest] = Layout::horizontal(others).spacing(1).areas(area);
        draw_percentiles(plan, latest, times, buffer);
        let inner = panel(rest, &responses_title(latest), buffer);
        let client = client_lines(plan, latest);
        let responses = responses(latest, inner.width);
        let rows = |lines: &[Line<'_>]| u16::try_from(lines.len()).unwrap_or(u16::MAX);
        let room = inner.height.saturating_sub(rows(&responses).min(3));
        let parts = [
            Constraint::Min(0),
            Constraint::Length(rows(&client).min(room)),
        ];
        let [above, below] = Layout::vertical(parts).areas(inner);
        lines(above, &responses, buffer);
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
    let last_s = latest.last.duration_ns as f64 / 1e9;
    // Only two columns fit. Latency is in the plots.
    let (title, columns) = match &latest.parts.llm {
        Some(tokens) => (
            "tokens",
            [
                ("first token".to_owned(), &tokens.first_token),
                ("per token".to_owned(), &tokens.time_per_token),
            ],
        ),
        None => (
            words::latency(plan),
            [
                ("total".to_owned(), &latest.latency),
                (format!("last {last_s:.1} s"), &latest.last.latency),
            ],
        ),
    };
    let inner = panel(area, &Line::styled(title, DIM), buffer);
    let [left, right] = &columns;
    let heading = format!("{:6}{:>11} {:>11}", "", left.0, right.0);
    buffer.set_stringn(inner.x, inner.y, heading, usize::from(inner.width), DIM);
    for (row, (name, percent)) in inner.rows().skip(1).zip(SHOWN) {
        let style = match name {
            "p50" => MEDIAN,
            "p99" => TAIL,
            _ => Style::new(),
        };
        let line = Line::from(vec![
            Span::styled(format!("{name:6}"), DIM),
            percentile(left.1, percent, style),
            Span::raw(" "),
            percentile(right.1, percent, style),
        ]);
        buffer.set_line(row.x, row.y, &line, row.width);
    }
}

/// A value, marked with `~` if too few samples are above the percentile.
fn percentile(histogram: &Histogram, percent: f64, style: Style) -> Span<'static> {
    if histogram.is_empty() {
        return Span::styled(format!("{:>11}", "-"), DIM);
    }
    let text = readable::time_ns(histogram.value_at_percentile(percent));
    if results::enough_samples(percent, histogram.count()) {
        Span::styled(format!("{text:>11}"), style.patch(BOLD))
    } else {
        Span::styled(format!("{:>11}", format!("~{text}")), DIM)
    }
}

fn responses_title(latest: &Snapshot) -> Line<'static> {
    let errors = latest.errors.events();
    let answered = latest.counters.responses();
    let noun = format!(" {}", readable::plural(answered, "response"));
    let mut title = vec![Span::styled(count(answered), BOLD), Span::styled(noun, DIM)];
    if errors > 0 {
        title.push(Span::styled(
            format!(", {}", counted(errors, "error")),
            ERROR,
        ));
    }
    Line::from(title)
}

/// Errors, most frequent first; then statuses likewise.
fn responses(latest: &Snapshot, columns: u16) -> Vec<Line<'static>> {
    let mut errors: Vec<_> = latest.errors.iter().collect();
    errors.sort_by_key(|(_, count)| std::cmp::Reverse(count.events));
    let mut statuses: Vec<_> = latest.statuses.iter().collect();
    statuses.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let total = latest.statuses.total().max(1);
    let status = |(status, count): (u16, u64)| {
        let style = match status {
            ..=399 => SUCCESS,
            400..=499 => WARNING,
            _ => ERROR,
        };
        Line::from(vec![
            Span::styled(format!("{status:<5}"), style),
            Span::raw(format!("{:>11}", readable::count(count))),
            Span::styled(format!("{:>8}", percent(count, total)), DIM),
        ])
    };
    let error = |(kind, count): (results::ErrorKind, results::ErrorCount)| {
        let name = if columns >= 48 {
            kind.describe()
        } else {
            kind.name()
        };
        Line::from(vec![
            Span::styled("error", ERROR),
            Span::raw(format!("{:>11}  ", readable::count(count.events))),
            Span::styled(name, ERROR),
        ])
    };
    let mut rows: Vec<Line<'static>> = errors
        .into_iter()
        .map(error)
        .chain(statuses.into_iter().map(status))
        .collect();
    if rows.is_empty() {
        let nothing = match latest.stage {
            Stage::WarmingUp => "counted after the warm-up",
            Stage::Measuring => "no response yet",
        };
        rows.push(Line::styled(nothing, DIM));
    }
    rows
}

/// `99.9 %`; a share is never rounded up to 100 % or down to 0 %.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let share = part as f64 / whole as f64 * 100.0;
    match share {
        100.0 => "100 %".to_owned(),
        share if share > 99.9 => ">99.9 %".to_owned(),
        share if share < 0.1 => "<0.1 %".to_owned(),
        share => format!("{share:.1} %"),
    }
}

/// Connections, CPU, tokens, good requests, received bytes, requests in flight and reconnects.
fn client_lines(plan: &RunPlan, latest: &Snapshot) -> Vec<Line<'static>> {
    let line = |name: &str, value: Span<'static>| {
        Line::from(vec![Span::styled(format!("{name:<15}"), DIM), value])
    };
    let (open, asked) = (latest.open_connections, u64::from(plan.load.connections));
    // Without keep-alive, closed connections are expected.
    let is_kept = plan.load.keepalive && plan.load.requests_per_connection.is_none();
    let style = if is_kept && open < asked {
        WARNING
    } else {
        BOLD
    };
    let mut rows = vec![line(
        "connections",
        Span::styled(format!("{} of {} open", count(open), count(asked)), style),
    )];
    match latest.busiest_worker {
        Some(share) => {
            let text = format!("{:.0} % CPU", share * 100.0);
            rows.push(line("busiest worker", Span::styled(text, cpu_style(share))));
            // With a rate, a busy worker is shown as a problem only if requests are not sent.
            if share > CPU_LIMIT && !plan.pacing.is_open() {
                rows.push(Line::styled("load generator saturated", ERROR));
            }
        }
        None => rows.push(line("busiest worker", Span::styled("CPU unknown", DIM))),
    }
    let last = &latest.last;
    if let Some(llm) = &last.parts.llm {
        let text = format!("{}/s", rate(last.per_sec(llm.output_tokens)));
        rows.push(line("output tokens", Span::raw(text)));
    }
    if let Some(good) = latest.parts.good.filter(|good| good.judged() > 0) {
        let share = percent(good.good, good.judged());
        rows.push(line("goodput", Span::raw(share)));
    }
    let received = format!("{}/s", readable::bytes(last.per_sec(last.bytes)));
    rows.push(line("received", Span::raw(received)));
    let counters = &latest.counters;
    if plan.pacing.is_open() && latest.stage == Stage::Measuring {
        // In a closed loop it is the number of connections.
        let text = count(counters.in_flight);
        rows.push(line("in flight", Span::raw(text)));
    }
    if counters.reconnects > 0 {
        let text = count(counters.reconnects);
        rows.push(line("reconnects", Span::raw(text)));
    }
    rows
}
