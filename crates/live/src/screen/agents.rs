//! The agents of a fleet, one per line.

use plan::readable::{counted, time_ns};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use results::snapshot::AgentSnapshot;

use super::cpu_style;
use crate::appearance::{BOLD, DIM, ERROR, TAIL};
use crate::numbers::rate;
use crate::panel::{lines, panel};

/// The most rows that the list takes, with its title.
const ROWS_MAX: u16 = 9;

/// How many rows the list needs: none for a single machine.
pub(super) fn rows(agents: &[AgentSnapshot]) -> u16 {
    match agents.len() {
        0 => 0,
        many => u16::try_from(many + 1).unwrap_or(u16::MAX).min(ROWS_MAX),
    }
}

pub(super) fn draw(agents: &[AgentSnapshot], area: Rect, buffer: &mut Buffer) {
    let mut title = vec![Span::styled(counted(agents.len() as u64, "agent"), DIM)];
    let lost = agents.iter().filter(|agent| agent.is_lost).count();
    if lost > 0 {
        title.push(Span::styled(format!(", {lost} lost"), ERROR));
    }
    let inner = panel(area, &Line::from(title), buffer);
    let width = |of: fn(&AgentSnapshot) -> &str| {
        let widths = agents.iter().map(|agent| of(agent).chars().count());
        widths.max().unwrap_or(0)
    };
    let widths = (width(|agent| &agent.id), width(|agent| &agent.place));
    // If not all fit, the lost ones and then the slowest say most.
    let mut shown: Vec<&AgentSnapshot> = agents.iter().collect();
    if shown.len() > usize::from(inner.height) {
        shown.sort_by(|a, b| {
            let by_rate = a.requests_per_sec.total_cmp(&b.requests_per_sec);
            b.is_lost.cmp(&a.is_lost).then(by_rate)
        });
    }
    let shown: Vec<Line<'_>> = shown.into_iter().map(|agent| line(agent, widths)).collect();
    lines(inner, &shown, buffer);
}

fn line(agent: &AgentSnapshot, (id_width, place_width): (usize, usize)) -> Line<'static> {
    let (id, place) = (&agent.id, &agent.place);
    let mut spans = vec![
        Span::styled(format!("{id:id_width$}  "), BOLD),
        Span::styled(format!("{place:place_width$}"), DIM),
    ];
    if agent.is_lost {
        spans.push(Span::styled("  lost", ERROR));
        return Line::from(spans);
    }
    let per_sec = format!("{}/s", rate(agent.requests_per_sec));
    spans.push(Span::raw(format!("{per_sec:>14}")));
    let p99 = agent.p99_ns.map_or_else(|| "-".to_owned(), time_ns);
    spans.push(Span::styled(format!("  p99 {p99:>9}"), TAIL));
    if let Some(share) = agent.busiest_worker {
        spans.push(Span::styled(
            format!("  CPU {:3.0} %", share * 100.0),
            cpu_style(share),
        ));
    }
    if agent.errors > 0 {
        spans.push(Span::styled(
            format!("  {}", counted(agent.errors, "error")),
            ERROR,
        ));
    }
    Line::from(spans)
}
