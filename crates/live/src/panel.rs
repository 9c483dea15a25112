//! A part of a screen: a rule with a title, and what is under it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use crate::look::FAINT;

/// Draws the rule into the first row and gives the rest.
pub(crate) fn panel(area: Rect, title: &Line<'_>, buffer: &mut Buffer) -> Rect {
    let Some(rule) = area.rows().next() else {
        return area;
    };
    let text = "─".repeat(usize::from(rule.width));
    buffer.set_string(rule.x, rule.y, text, FAINT);
    if rule.width > 4 {
        // What is written over the rule does not stand back as the rule does.
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

/// Writes lines from the top on; when there are more than rows, the last row says how many are left out.
pub(crate) fn lines(area: Rect, lines: &[Line<'_>], buffer: &mut Buffer) {
    let rows = usize::from(area.height);
    let is_cut = lines.len() > rows;
    let shown = if is_cut { rows.saturating_sub(1) } else { rows };
    for (row, line) in area.rows().zip(lines.iter().take(shown)) {
        buffer.set_line(row.x, row.y, line, row.width);
    }
    if let Some(last) = area.rows().next_back().filter(|_| is_cut) {
        let more = format!("and {} more", lines.len() - shown);
        buffer.set_stringn(last.x, last.y, more, usize::from(last.width), FAINT);
    }
}

/// A bar that is full at a share of 1, with a text in the middle.
pub(crate) fn gauge(area: Rect, share: f64, text: &str, buffer: &mut Buffer) {
    let Some(row) = area.rows().next() else {
        return;
    };
    let width = usize::from(row.width);
    let full = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    let text: String = text.chars().take(width).collect();
    let before = (width - text.chars().count()) / 2;
    let padded = format!("{:before$}{text}", "");
    for (at, symbol) in padded
        .chars()
        .chain(std::iter::repeat(' '))
        .take(width)
        .enumerate()
    {
        let x = row.x + u16::try_from(at).unwrap_or(u16::MAX);
        let cell = &mut buffer[(x, row.y)];
        cell.set_char(symbol);
        let style = if at < full {
            crate::look::FULL
        } else {
            crate::look::EMPTY
        };
        cell.set_style(style);
    }
}
