//! Fits a line into the terminal's width: shortens words, drops numbers, and draws the bar.

use ratatui::text::{Line, Span};

use crate::ansi::{self, RESET};
use crate::appearance::{Appearance, DIM};

/// How verbose the words are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    Long,
    Short,
    Least,
}

/// What a line contains.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) bar: bool,
    /// Which form of the trial's name, if any.
    pub(super) trial: Option<usize>,
    pub(super) words: Words,
    pub(super) p50: bool,
    pub(super) p99: bool,
    pub(super) cpu: bool,
}

impl Form {
    /// A line with everything in full words.
    pub(super) const WHOLE: Self = Self {
        bar: true,
        trial: Some(0),
        words: Words::Long,
        p50: true,
        p99: true,
        cpu: true,
    };
    const SHORT: Self = Self {
        trial: Some(1),
        words: Words::Short,
        ..Self::WHOLE
    };
    const FEW: Self = Self {
        bar: false,
        trial: Some(2),
        words: Words::Least,
        ..Self::WHOLE
    };
    /// A line with only what must be shown.
    pub(super) const LEAST: Self = Self {
        trial: None,
        p50: false,
        p99: false,
        cpu: false,
        ..Self::FEW
    };
    /// All forms, from the longest to the shortest. Failures are never dropped.
    pub(super) const ALL: [Self; 11] = [
        Self::WHOLE,
        Self {
            trial: Some(1),
            ..Self::WHOLE
        },
        Self::SHORT,
        Self {
            trial: Some(2),
            ..Self::SHORT
        },
        Self {
            bar: false,
            trial: Some(2),
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
            trial: None,
            ..Self::FEW
        },
        Self {
            trial: None,
            p50: false,
            cpu: false,
            ..Self::FEW
        },
        Self::LEAST,
    ];
}

/// Smallest and largest useful width of the bar, without its brackets.
const BAR_COLUMNS: (usize, usize) = (10, 30);

/// The whole line in this form, if it fits.
pub(super) fn with_bar(
    figures: Vec<Span<'static>>,
    trial: Option<&str>,
    share: Option<f64>,
    form: Form,
    columns: usize,
    appearance: Appearance,
) -> Option<Line<'static>> {
    let separator = match form.words {
        Words::Long | Words::Short => ", ",
        Words::Least => " ",
    };
    // Names of levels come from the user.
    let trial = trial.map(|text| plan::printable(text).into_owned() + " ");
    let trial = trial.map(Span::raw);
    let figures = Line::from(joined(figures, separator));
    let used = figures.width() + trial.as_ref().map_or(0, Span::width);
    let room = columns.checked_sub(used)?;
    let mut spans = Vec::from_iter(trial);
    if let Some(share) = share.filter(|_| form.bar) {
        let (least, most) = BAR_COLUMNS;
        // Brackets and a space.
        let room = room.checked_sub(3).filter(|room| *room >= least)?;
        spans.push(Span::styled("[", DIM));
        spans.push(Span::raw(bar(share, room.min(most), appearance)));
        spans.push(Span::styled("] ", DIM));
    }
    spans.extend(figures.spans);
    Some(Line::from(spans))
}

/// Puts a separator between the parts.
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

/// The parts that fit, for a line that is too long in every form. Parts are never cut: half a
/// number would be a different number.
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

/// Blocks of one to seven eighths.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// A bar, in eighths of a column if the terminal supports Unicode.
fn bar(share: f64, columns: usize, appearance: Appearance) -> String {
    let eighths = (share * columns as f64 * 8.0).round() as usize;
    let (full, rest) = (eighths / 8, eighths % 8);
    let mut bar: String = if appearance.unicode {
        "█".repeat(full)
    } else {
        "#".repeat(full)
    };
    let mut used = full;
    if appearance.unicode && rest > 0 {
        bar.push(EIGHTHS[rest - 1]);
        used += 1;
    }
    bar + &" ".repeat(columns - used)
}

/// The line with escape sequences for its styles.
pub(super) fn written(line: &Line<'_>, appearance: Appearance) -> String {
    let mut text = String::new();
    for span in &line.spans {
        let parameters = ansi::parameters(span.style);
        match parameters.strip_prefix(';').filter(|_| appearance.colours) {
            Some(parameters) => text += &format!("\x1b[{parameters}m{}{RESET}", span.content),
            None => text += &span.content,
        }
    }
    text
}
