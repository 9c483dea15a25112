//! How a line is made to fit: in which order words get shorter and figures are left out, and the bar.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::look::{FAINT, Look};

/// How many words there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    Long,
    Short,
    Least,
}

/// What is in a line, and how it is said.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) bar: bool,
    /// Which of the words for the place, if any.
    pub(super) place: Option<usize>,
    pub(super) words: Words,
    pub(super) p50: bool,
    pub(super) p99: bool,
    pub(super) cpu: bool,
}

impl Form {
    /// Everything that there is to say.
    pub(super) const WHOLE: Self = Self {
        bar: true,
        place: Some(0),
        words: Words::Long,
        p50: true,
        p99: true,
        cpu: true,
    };
    const SHORT: Self = Self {
        place: Some(1),
        words: Words::Short,
        ..Self::WHOLE
    };
    const FEW: Self = Self {
        bar: false,
        place: Some(2),
        words: Words::Least,
        ..Self::WHOLE
    };
    /// What must be said.
    pub(super) const LEAST: Self = Self {
        place: None,
        p50: false,
        p99: false,
        cpu: false,
        ..Self::FEW
    };
    /// From the longest to the shortest. What went wrong stays to the end.
    pub(super) const ALL: [Self; 11] = [
        Self::WHOLE,
        Self {
            place: Some(1),
            ..Self::WHOLE
        },
        Self::SHORT,
        Self {
            place: Some(2),
            ..Self::SHORT
        },
        Self {
            bar: false,
            place: Some(2),
            ..Self::SHORT
        },
        Self::FEW,
        Self {
            cpu: false,
            ..Self::FEW
        },
        Self {
            cpu: false,
            p50: false,
            ..Self::FEW
        },
        Self {
            cpu: false,
            place: None,
            ..Self::FEW
        },
        Self {
            place: None,
            p50: false,
            cpu: false,
            ..Self::FEW
        },
        Self::LEAST,
    ];
}

/// Columns of a bar within its brackets: the least that shows anything, and the most that helps.
const BAR_COLUMNS: (usize, usize) = (10, 30);

/// The whole line, if so many columns have room for it.
pub(super) fn with_bar(
    figures: Vec<Span<'static>>,
    place: Option<&str>,
    share: Option<f64>,
    form: Form,
    columns: usize,
    look: Look,
) -> Option<Line<'static>> {
    let separator = match form.words {
        Words::Long | Words::Short => ", ",
        Words::Least => " ",
    };
    // Names of levels are the user's.
    let place = place.map(|text| text.replace(char::is_control, " ") + " ");
    let place = place.map(Span::raw);
    let figures = Line::from(joined(figures, separator));
    let used = figures.width() + place.as_ref().map_or(0, Span::width);
    let room = columns.checked_sub(used)?;
    let mut spans = Vec::from_iter(place);
    if let Some(share) = share.filter(|_| form.bar) {
        let (least, most) = BAR_COLUMNS;
        // Brackets and a blank.
        let room = room.checked_sub(3).filter(|room| *room >= least)?;
        spans.push(Span::styled("[", FAINT));
        spans.push(Span::raw(bar(share, room.min(most), look)));
        spans.push(Span::styled("] ", FAINT));
    }
    spans.extend(figures.spans);
    Some(Line::from(spans))
}

/// With the same text between any two.
pub(super) fn joined(figures: Vec<Span<'static>>, separator: &'static str) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    for figure in figures {
        if !spans.is_empty() {
            spans.push(Span::raw(separator));
        }
        spans.push(figure);
    }
    spans
}

/// What fits of a line that is too long in every form. Half a number would be another one.
pub(super) fn cut(figures: Vec<Span<'static>>, columns: usize) -> Line<'static> {
    let mut kept = Vec::new();
    let mut room = columns + 1;
    for figure in figures {
        if let Some(rest) = room.checked_sub(figure.width() + 1) {
            room = rest;
            kept.push(figure);
        }
    }
    Line::from(joined(kept, " "))
}

/// Left parts of a block, from an eighth to seven.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// As full as the share, in eighths of a column where the terminal has signs for it.
fn bar(share: f64, columns: usize, look: Look) -> String {
    let eighths = (share * columns as f64 * 8.0).round() as usize;
    let (full, rest) = (eighths / 8, eighths % 8);
    let mut bar: String = match look.unicode {
        true => "█".repeat(full),
        false => "#".repeat(full),
    };
    let mut used = full;
    if look.unicode && rest > 0 {
        bar.push(EIGHTHS[rest - 1]);
        used += 1;
    }
    bar + &" ".repeat(columns - used)
}

/// The line as a terminal gets it.
pub(super) fn written(line: &Line<'_>, look: Look) -> String {
    let mut text = String::new();
    for span in &line.spans {
        let codes = codes(span.style);
        if codes.is_empty() || !look.colours {
            text += &span.content;
        } else {
            text += &format!("\x1b[{}m{}\x1b[0m", codes.join(";"), span.content);
        }
    }
    text
}

/// How a terminal is asked for a style (ECMA-48: SGR).
fn codes(style: Style) -> Vec<&'static str> {
    let modifiers = [
        (Modifier::BOLD, "1"),
        (Modifier::DIM, "2"),
        (Modifier::UNDERLINED, "4"),
        (Modifier::REVERSED, "7"),
    ];
    let colour = match style.fg {
        Some(Color::Cyan) => Some("36"),
        Some(Color::LightRed) => Some("91"),
        Some(Color::LightGreen) => Some("92"),
        Some(Color::LightYellow) => Some("93"),
        Some(Color::LightBlue) => Some("94"),
        _ => None,
    };
    modifiers
        .into_iter()
        .filter(|(modifier, _)| style.add_modifier.contains(*modifier))
        .map(|(_, code)| code)
        .chain(colour)
        .collect()
}
