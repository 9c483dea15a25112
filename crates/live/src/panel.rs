//! Parts of a screen: titled panels, lists of lines, progress bars.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Gauge, Widget};

use crate::appearance::{DIM, GAUGE, GAUGE_LABEL};

/// Draws a rule with a title into the first row and returns the area below it.
pub(crate) fn panel(area: Rect, title: &Line<'_>, buffer: &mut Buffer) -> Rect {
    let Some(rule) = area.rows().next() else {
        return area;
    };
    let text = "─".repeat(usize::from(rule.width));
    buffer.set_string(rule.x, rule.y, text, DIM);
    if rule.width > 4 {
        // The title must not inherit the dim style of the rule.
        let width = u16::try_from(title.width() + 1).unwrap_or(u16::MAX);
        for x in rule.x + 1..(rule.x + 2).saturating_add(width).min(rule.right()) {
            buffer[(x, rule.y)].reset();
        }
        buffer.set_line(rule.x + 2, rule.y, title, rule.width - 3);
    }
    Rect {
        y: area.y + 1,
        height: area.height - 1,
        ..area
    }
}

/// Writes lines from the top; if they do not all fit, the last row says how many are omitted.
pub(crate) fn lines(area: Rect, lines: &[Line<'_>], buffer: &mut Buffer) {
    let rows = usize::from(area.height);
    let is_cut = lines.len() > rows;
    let shown = if is_cut { rows.saturating_sub(1) } else { rows };
    for (row, line) in area.rows().zip(lines.iter().take(shown)) {
        buffer.set_line(row.x, row.y, line, row.width);
    }
    if let Some(last) = area.rows().next_back().filter(|_| is_cut) {
        let more = format!("{} more", lines.len() - shown);
        buffer.set_stringn(last.x, last.y, more, usize::from(last.width), DIM);
    }
}

/// A progress bar with a text in the middle; `share` is from 0 to 1.
pub(crate) fn gauge(area: Rect, share: f64, text: &str, buffer: &mut Buffer) {
    let Some(row) = area.rows().next() else {
        return;
    };
    Gauge::default()
        .ratio(share.clamp(0.0, 1.0))
        .label(Span::styled(text, GAUGE_LABEL))
        .gauge_style(GAUGE)
        .render(row, buffer);
}
