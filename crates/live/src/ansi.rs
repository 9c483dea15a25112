//! The escape sequences that move the cursor and set styles (ECMA-48; colours as in xterm).

use std::fmt::Write;

use ratatui::buffer::Cell;
use ratatui::style::{Color, Modifier, Style};

/// Returns to the terminal's default style.
pub(crate) const RESET: &str = "\x1b[0m";

/// Modifiers with their SGR parameters. No view uses others.
const MODIFIERS: [(Modifier, u8); 4] = [
    (Modifier::BOLD, 1),
    (Modifier::DIM, 2),
    (Modifier::UNDERLINED, 4),
    (Modifier::REVERSED, 7),
];

/// SGR parameters of the first of the eight colours.
const FOREGROUND: u8 = 30;
const BACKGROUND: u8 = 40;

/// The text that makes a terminal show these cells, each given with column and row from 0. The
/// terminal must have its default style, and has it afterwards.
pub fn cells<'a>(cells: impl IntoIterator<Item = (u16, u16, &'a Cell)>) -> String {
    let mut text = String::new();
    let mut style = Cell::EMPTY.style();
    let mut next = None;
    for (column, row, cell) in cells {
        // A wide character moves the cursor by two, so the cell after it gets a position.
        if next != Some((column, row)) {
            push(&mut text, format_args!("\x1b[{};{}H", row + 1, column + 1));
        }
        next = Some((column + 1, row));
        if cell.style() != style {
            style = cell.style();
            // Replaces the whole style: bold and dim cannot be removed one by one.
            push(&mut text, format_args!("\x1b[0{}m", parameters(style)));
        }
        text.push_str(&plan::printable(cell.symbol()));
    }
    text + RESET
}

/// The SGR parameters of a style, each after a semicolon.
pub(crate) fn parameters(style: Style) -> String {
    let mut text = String::new();
    for (modifier, parameter) in MODIFIERS {
        if style.add_modifier.contains(modifier) {
            push(&mut text, format_args!(";{parameter}"));
        }
    }
    for (colour, ground) in [(style.fg, FOREGROUND), (style.bg, BACKGROUND)] {
        push_colour(&mut text, colour.unwrap_or_default(), ground);
    }
    text
}

fn push_colour(text: &mut String, colour: Color, ground: u8) {
    let offset = match colour {
        Color::Reset => return,
        Color::Indexed(index) => return push(text, format_args!(";{};5;{index}", ground + 8)),
        Color::Rgb(red, green, blue) => {
            return push(text, format_args!(";{};2;{red};{green};{blue}", ground + 8));
        }
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 60,
        Color::LightRed => 61,
        Color::LightGreen => 62,
        Color::LightYellow => 63,
        Color::LightBlue => 64,
        Color::LightMagenta => 65,
        Color::LightCyan => 66,
        Color::White => 67,
    };
    push(text, format_args!(";{}", ground + offset));
}

fn push(text: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(part);
}

#[cfg(test)]
mod tests {
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;

    use super::*;

    /// What changes an empty screen into this one.
    fn shown(lines: &[(u16, u16, &str, Style)]) -> String {
        let empty = Buffer::empty(Rect::new(0, 0, 8, 2));
        let mut buffer = empty.clone();
        for (column, row, text, style) in lines {
            buffer.set_string(*column, *row, text, *style);
        }
        cells(empty.diff(&buffer))
    }

    #[test]
    fn neighbouring_cells_follow_each_other_and_others_get_a_position() {
        let text = shown(&[(1, 0, "ab", Style::new()), (6, 1, "c", Style::new())]);
        assert_eq!(text, "\x1b[1;2Hab\x1b[2;7Hc\x1b[0m");
    }

    #[test]
    fn the_cell_after_a_wide_character_gets_a_position() {
        let text = shown(&[(0, 0, "好a", Style::new())]);
        assert_eq!(text, "\x1b[1;1H好\x1b[1;3Ha\x1b[0m");
    }

    #[test]
    fn a_style_is_written_where_it_changes_and_reset_at_the_end() {
        let alarm = Style::new()
            .fg(Color::LightRed)
            .add_modifier(Modifier::BOLD);
        let area = Style::new().fg(Color::Cyan).bg(Color::Indexed(237));
        let text = shown(&[
            (0, 0, "ab", alarm),
            (2, 0, "c", area),
            (3, 0, "d", Style::new()),
        ]);
        let expected = "\x1b[1;1H\x1b[0;1;91mab\x1b[0;36;48;5;237mc\x1b[0md\x1b[0m";
        assert_eq!(text, expected);
    }
}
