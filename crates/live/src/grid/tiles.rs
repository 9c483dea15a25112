//! The tiles of a sweep: a row per cell, a column per round.

use std::collections::BTreeMap;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::TilePosition;
use super::labels::Labels;
use crate::appearance::{BOLD, DIM, ERROR};
use crate::panel::panel;

/// Width of a rate with its sign and a space: `6.59k ++`.
const WIDE: u16 = 9;
/// Width of a sign and a space.
const NARROW: u16 = 3;
/// Relative differences from the median that get one sign or two.
const MARKED: f64 = 0.02;
const MARKED_TWICE: f64 = 0.1;

/// The trials of one cell in one round: one, or several for a repeated baseline.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Tile {
    /// Requests per second of completed trials.
    pub(super) rates: Vec<f64>,
    /// The last trial failed every attempt.
    pub(super) has_failed: bool,
    /// Kept from an earlier, interrupted sweep.
    pub(super) is_kept: bool,
}

/// The position of the current trial and its rate, if known.
type Live = Option<(TilePosition, Option<f64>)>;

pub(super) fn draw(
    labels: &Labels,
    rounds: u32,
    tiles: &BTreeMap<TilePosition, Tile>,
    live: Live,
    area: Rect,
    buffer: &mut Buffer,
) {
    let all: Vec<f64> = tiles
        .values()
        .flat_map(|tile| tile.rates.iter().copied())
        .collect();
    let median_all = stats::median(&all);
    let mut title = vec![Span::styled("requests/s by round", DIM)];
    if let Some(median) = median_all {
        title.push(Span::styled(format!(", median {}", short(median)), DIM));
    }
    let inner = panel(area, &Line::from(title), buffer);
    if inner.is_empty() {
        return;
    }
    let plan = Columns::new(labels, rounds, live, inner.width);
    let rows = inner.height.saturating_sub(1);
    let running =
        live.and_then(|(position, _)| labels.rows.iter().position(|row| row.0 == position.cell));
    let first = first_shown(labels.len(), usize::from(rows), running);
    plan.heading(labels, first, usize::from(rows), inner, buffer);
    for (row, (cell, name)) in inner.rows().skip(1).zip(&labels.rows[first..]) {
        let is_running = live.is_some_and(|(position, _)| position.cell == *cell);
        let style = if is_running { BOLD } else { Style::new() };
        buffer.set_stringn(row.x, row.y, name, usize::from(plan.label) - 1, style);
        for (at, round) in plan.rounds().enumerate() {
            let x = row.x + plan.label + plan.tile * u16::try_from(at).unwrap_or(u16::MAX);
            let position = TilePosition { cell: *cell, round };
            let here = live
                .filter(|(running, _)| *running == position)
                .map(|(_, rate)| rate);
            let (text, style) = face(tiles.get(&position), here, median_all, plan.tile == WIDE);
            buffer.set_stringn(x, row.y, text, usize::from(plan.tile) - 1, style);
        }
        if let Some(x) = plan.medians {
            let of_cell = tiles.iter().filter(|(position, _)| position.cell == *cell);
            let rates = of_cell.flat_map(|(_, tile)| tile.rates.iter().copied());
            let text = stats::median(&rates.collect::<Vec<f64>>()).map_or_else(String::new, short);
            let text = format!("{text:>5}");
            buffer.set_stringn(row.x + x, row.y, text, usize::from(WIDE) - 1, BOLD);
        }
    }
}

struct Columns {
    label: u16,
    tile: u16,
    first_round: u32,
    shown_rounds: u32,
    /// Position of the medians, if they fit.
    medians: Option<u16>,
}

impl Columns {
    fn new(labels: &Labels, rounds: u32, live: Live, width: u16) -> Self {
        let longest = labels.rows.iter().map(|(_, name)| name.chars().count());
        let longest = longest
            .chain([labels.heading.chars().count()])
            .max()
            .unwrap_or(0);
        let label = u16::try_from(longest + 2)
            .unwrap_or(u16::MAX)
            .min(width * 2 / 5);
        let room = u32::from(width - label);
        let tile = if rounds.saturating_mul(WIDE.into()) <= room {
            WIDE
        } else {
            NARROW
        };
        let shown_rounds = rounds.min(room / u32::from(tile));
        let current = live.map_or(rounds, |(position, _)| position.round);
        // If not all rounds fit, the current one is the last that is shown.
        let end = u32::from(tile) * shown_rounds + u32::from(label) + 1;
        let has_room = tile == WIDE && end + u32::from(WIDE) <= u32::from(width);
        let first_round = (current.saturating_sub(shown_rounds) + 1).min(rounds - shown_rounds + 1);
        Self {
            label,
            tile,
            first_round,
            shown_rounds,
            medians: u16::try_from(end).ok().filter(|_| has_room),
        }
    }

    fn rounds(&self) -> impl Iterator<Item = u32> {
        self.first_round..self.first_round + self.shown_rounds
    }

    fn heading(&self, labels: &Labels, first: usize, rows: usize, area: Rect, buffer: &mut Buffer) {
        let label = if labels.len() > rows {
            let last = (first + rows).min(labels.len());
            format!("{}-{last} of {}", first + 1, labels.len())
        } else {
            labels.heading.clone()
        };
        let width = usize::from(self.label) - 1;
        buffer.set_stringn(area.x, area.y, label, width, DIM);
        for (at, round) in self.rounds().enumerate() {
            let x = area.x + self.label + self.tile * u16::try_from(at).unwrap_or(u16::MAX);
            let width = usize::from(self.tile) - 1;
            let text = format!("{round:>5}");
            let text = if self.tile == WIDE {
                text
            } else {
                round.to_string()
            };
            buffer.set_stringn(x, area.y, text, width, DIM);
        }
        if let Some(x) = self.medians {
            buffer.set_stringn(area.x + x, area.y, "median", usize::from(WIDE) - 1, DIM);
        }
    }
}

/// The first visible row, such that the current row is visible and rows move as little as possible.
fn first_shown(all: usize, rows: usize, running: Option<usize>) -> usize {
    let last_first = all.saturating_sub(rows);
    match running {
        Some(running) if running >= rows => (running + 1 - rows).min(last_first),
        _ => 0,
    }
}

/// Text and style of a tile.
fn face(
    tile: Option<&Tile>,
    live: Option<Option<f64>>,
    median_all: Option<f64>,
    is_wide: bool,
) -> (String, Style) {
    let style = BOLD.add_modifier(Modifier::REVERSED);
    match live {
        Some(Some(rate)) if is_wide => return (format!("▶{:>5}  ", short(rate)), style),
        Some(_) if is_wide => return ("▶       ".to_owned(), style),
        Some(_) => return ("▶ ".to_owned(), style),
        None => {}
    }
    let Some(tile) = tile else {
        return (if is_wide { "    ·" } else { "·" }.to_owned(), DIM);
    };
    let Some(rate) = stats::median(&tile.rates) else {
        return match (tile.has_failed, is_wide) {
            (true, true) => (" FAILED ".to_owned(), ERROR),
            (true, false) => ("X".to_owned(), ERROR),
            (false, true) if tile.is_kept => (" kept".to_owned(), DIM),
            (false, false) if tile.is_kept => ("k".to_owned(), DIM),
            // An attempt has failed and will be retried.
            (false, _) => (if is_wide { "    ·" } else { "·" }.to_owned(), DIM),
        };
    };
    let difference = median_all
        .filter(|median| *median > 0.0)
        .map_or(0.0, |it| rate / it - 1.0);
    let (mark, shade) = shade(difference);
    let mark = if tile.has_failed { "!" } else { mark };
    if is_wide {
        (format!("{:>5} {mark:<2}", short(rate)), shade)
    } else {
        (
            format!("{:<2}", if mark.is_empty() { "=" } else { mark }),
            shade,
        )
    }
}

/// Blue above and orange below the median, which remain distinct with colour blindness, in addition
/// to the sign.
fn shade(difference: f64) -> (&'static str, Style) {
    let style = |background, text| {
        Style::new()
            .bg(Color::Indexed(background))
            .fg(Color::Indexed(text))
    };
    match difference {
        it if it >= MARKED_TWICE => ("++", style(32, 16)),
        it if it >= MARKED => ("+", style(24, 15)),
        it if it <= -MARKED_TWICE => ("--", style(172, 16)),
        it if it <= -MARKED => ("-", style(94, 15)),
        _ => ("", style(237, 15)),
    }
}

/// Three digits: `659`, `6.59k`, `65.9k`, `659k`.
fn short(value: f64) -> String {
    const UNITS: [&str; 5] = ["", "k", "M", "G", "T"];
    let mut value = value;
    let mut unit = 0;
    // A value that rounds to four digits gets the next unit.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = match value {
        it if it >= 99.95 || unit == 0 && it.fract() == 0.0 => 0,
        it if it >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (7.0, "7"),
            (7.25, "7.25"),
            (99.96, "100"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (6587.25, "6.59k"),
            (65_872.5, "65.9k"),
            (658_725.0, "659k"),
            (2.5e16, "25000T"),
        ] {
            assert_eq!(short(value), text, "{value}");
        }
    }

    #[test]
    fn the_current_row_is_always_visible() {
        for running in 0..20 {
            let first = first_shown(20, 6, Some(running));
            assert!((first..first + 6).contains(&running) && first <= 14);
        }
        assert_eq!(first_shown(20, 6, None), 0);
        assert_eq!(first_shown(3, 6, Some(2)), 0);
    }
}
