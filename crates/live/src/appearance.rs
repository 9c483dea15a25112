//! How a screen may look: with colours or without, in Unicode or in ASCII alone.
//!
//! Drawing does not ask: it uses colours and symbols, and what the terminal must not get is taken out
//! of the finished picture.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// What the terminal can show, and its user wants to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Colours; without them nothing is lost, since each is beside a word or a sign.
    pub colours: bool,
    /// Symbols beyond ASCII.
    pub unicode: bool,
}

impl Look {
    /// Takes out of a picture what must not be shown.
    pub(crate) fn finish(self, area: Rect, buffer: &mut Buffer) {
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

/// The part of a bar that is done; it is told from the rest without colours as well.
pub(crate) const FULL: Style = RATE_AREA.add_modifier(Modifier::REVERSED);
/// The rest of it.
pub(crate) const EMPTY: Style = Style::new().fg(Color::Indexed(252)).bg(Color::Indexed(237));
/// What stands back: labels, units, hints.
pub(crate) const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
/// Figures that are looked for first.
pub(crate) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
/// Requests per second.
pub(crate) const RATE: Style = Style::new().fg(Color::LightBlue);
/// The columns of it: a large area, which must not dazzle (steel blue of the 256 colours).
pub(crate) const RATE_AREA: Style = Style::new().fg(Color::Indexed(67));
/// The median of latency.
pub(crate) const MEDIAN: Style = Style::new().fg(Color::Cyan);
/// Its 99th percentile.
pub(crate) const TAIL: Style = Style::new().fg(Color::LightYellow);
/// What went wrong.
pub(crate) const BAD: Style = Style::new()
    .fg(Color::LightRed)
    .add_modifier(Modifier::BOLD);
/// What to be careful about.
pub(crate) const DOUBTFUL: Style = Style::new()
    .fg(Color::LightYellow)
    .add_modifier(Modifier::BOLD);
/// Answers as they should be.
pub(crate) const GOOD: Style = Style::new().fg(Color::LightGreen);

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer() -> Buffer {
        let mut buffer = Buffer::with_lines(["─│⣿ ▁▅█ a…好"]);
        buffer.set_style(buffer.area, BAD);
        buffer
    }

    #[test]
    fn without_unicode_every_symbol_has_one_of_ascii() {
        let mut buffer = buffer();
        let look = Look {
            colours: true,
            unicode: false,
        };
        let area = buffer.area;
        look.finish(area, &mut buffer);
        let text: String = buffer.content.iter().map(Cell::symbol).collect();
        assert_eq!(text, "-|* .:# a~? ");
        assert_eq!(buffer[(0, 0)].fg, Color::LightRed);
    }

    #[test]
    fn without_colours_the_weight_of_letters_stays() {
        let mut buffer = buffer();
        let look = Look {
            colours: false,
            unicode: true,
        };
        let area = buffer.area;
        look.finish(area, &mut buffer);
        assert_eq!(buffer[(0, 0)].fg, Color::Reset);
        assert!(buffer[(0, 0)].modifier.contains(Modifier::BOLD));
        assert_eq!(buffer[(0, 0)].symbol(), "─");
    }
}
