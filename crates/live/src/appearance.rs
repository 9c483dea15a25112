//! Colours and symbols: what the terminal supports, and the styles in use.
//!
//! Drawing always uses colours and Unicode; `Appearance::apply` then removes what the terminal
//! does not support.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// What the terminal can show and the user allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appearance {
    /// Colours never carry information alone: each comes with a word or a sign.
    pub colours: bool,
    /// Whether the terminal can show characters beyond ASCII.
    pub unicode: bool,
}

impl Appearance {
    /// Removes colours and replaces symbols as required.
    pub(crate) fn apply(self, area: Rect, buffer: &mut Buffer) {
        if self.colours && self.unicode {
            return;
        }
        for position in area.intersection(buffer.area).positions() {
            let cell = &mut buffer[position];
            if !self.colours {
                without_colours(cell);
            }
            if !self.unicode {
                in_ascii(cell);
            }
        }
    }
}

fn without_colours(cell: &mut Cell) {
    cell.fg = Color::Reset;
    cell.bg = Color::Reset;
}

fn in_ascii(cell: &mut Cell) {
    let symbol = cell.symbol();
    if symbol.is_ascii() {
        return;
    }
    let plain = match symbol.chars().next().unwrap_or(' ') {
        '\u{2800}' => ' ',
        '\u{2801}'..='\u{28ff}' => '*',
        '─' | '╌' | '–' => '-',
        '│' => '|',
        '┌' | '┐' | '└' | '┘' | '├' | '┤' | '┬' | '┴' | '┼' => '+',
        '▁'..='▃' => '.',
        '▄'..='▆' => ':',
        '▇'..='█' | '▉'..='▏' => '#',
        '░' => ' ',
        '·' => '.',
        '…' => '~',
        '▶' => '>',
        _ => '?',
    };
    cell.set_char(plain);
}

/// The filled part of a progress bar.
pub(crate) const GAUGE: Style = RATE_AREA.bg(Color::Indexed(237));
/// The text in a progress bar, readable on its full and its empty part.
pub(crate) const GAUGE_LABEL: Style = Style::new().fg(Color::Indexed(231));
/// Labels, units, hints and other text of little weight.
pub(crate) const DIM: Style = Style::new().add_modifier(Modifier::DIM);
/// The most important numbers.
pub(crate) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
/// Requests per second, in the plot and in the tables.
pub(crate) const RATE: Style = Style::new().fg(Color::LightBlue);
/// The columns of the rate: a large area, so not a bright colour (steel blue of the 256 colours).
pub(crate) const RATE_AREA: Style = Style::new().fg(Color::Indexed(67));
/// The median of the latency.
pub(crate) const MEDIAN: Style = Style::new().fg(Color::Cyan);
/// The 99th percentile of the latency.
pub(crate) const TAIL: Style = Style::new().fg(Color::LightYellow);
/// Errors, in the plot and in the tables.
pub(crate) const ERROR: Style = Style::new()
    .fg(Color::LightRed)
    .add_modifier(Modifier::BOLD);
/// States to be aware of.
pub(crate) const WARNING: Style = Style::new()
    .fg(Color::LightYellow)
    .add_modifier(Modifier::BOLD);
/// Responses with a successful status.
pub(crate) const SUCCESS: Style = Style::new().fg(Color::LightGreen);

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer() -> Buffer {
        let mut buffer = Buffer::with_lines(["─│⣿ ▁▅█ a…好"]);
        buffer.set_style(buffer.area, ERROR);
        buffer
    }

    #[test]
    fn without_unicode_every_symbol_is_replaced_by_ascii() {
        let mut buffer = buffer();
        let appearance = Appearance {
            colours: true,
            unicode: false,
        };
        let area = buffer.area;
        appearance.apply(area, &mut buffer);
        let text: String = buffer.content.iter().map(Cell::symbol).collect();
        assert_eq!(text, "-|* .:# a~? ");
        assert_eq!(buffer[(0, 0)].fg, Color::LightRed);
    }

    #[test]
    fn without_colours_bold_text_stays_bold() {
        let mut buffer = buffer();
        let appearance = Appearance {
            colours: false,
            unicode: true,
        };
        let area = buffer.area;
        appearance.apply(area, &mut buffer);
        assert_eq!(buffer[(0, 0)].fg, Color::Reset);
        assert!(buffer[(0, 0)].modifier.contains(Modifier::BOLD));
        assert_eq!(buffer[(0, 0)].symbol(), "─");
    }
}
