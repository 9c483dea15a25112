//! What a page is made of. Serializable, since charts and tables go to the browser as JSON.

use serde::Serialize;

/// One page.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Page {
    /// What it is about, short: also the title of the window.
    pub title: String,
    /// When and where, in one line.
    pub subtitle: String,
    /// In the order of reading.
    pub sections: Vec<Section>,
}

/// A part of the page under a heading, with a place in the table of contents.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Section {
    /// Letters, digits and hyphens; unique on the page.
    pub id: String,
    /// The heading.
    pub title: String,
    /// One or two sentences: what is to be seen here, or how to read it. May be empty.
    pub lead: String,
    /// Its content.
    pub blocks: Vec<Block>,
    /// Closed at first, for what few will want.
    pub is_folded: bool,
}

/// Something to see.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Block {
    /// A judgement, a warning or a note.
    Finding {
        /// How it is meant.
        tone: Tone,
        /// The sentence.
        text: String,
        /// What stands behind it, a line each.
        details: Vec<String>,
    },
    /// The numbers that matter most, large.
    Figures {
        /// In the order of importance.
        figures: Vec<Figure>,
    },
    /// Charts, side by side where there is room.
    Charts {
        /// One or several.
        charts: Vec<Chart>,
    },
    /// A table.
    Table(TableBlock),
    /// Names and what they stand for.
    Facts {
        /// Name and value.
        facts: Vec<(String, String)>,
    },
    /// Something to copy: a command, a plan.
    Code {
        /// What it is.
        label: String,
        /// The text.
        text: String,
    },
}

/// How something is meant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// As hoped.
    Good,
    /// Neither.
    #[default]
    Neutral,
    /// To keep in mind.
    Warning,
    /// Failed, or not to be trusted.
    Bad,
    /// Of a comparison: a level is better than the first.
    Better,
    /// Of a comparison: a level is worse than the first.
    Worse,
    /// Of a comparison: all levels are the same, as far as it matters.
    Same,
    /// Of a comparison: nothing was found.
    NoEffect,
}

/// A number in large type.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Figure {
    /// What was measured.
    pub label: String,
    /// The number with its unit, in sensible digits.
    pub value: String,
    /// Beneath it: what it is compared with, or counted from. May be empty.
    pub note: String,
    /// How it is meant.
    pub tone: Tone,
    /// How it went over the window, for a small line beside the number; empty if that is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spark: Vec<Option<f64>>,
}

/// What values of an axis are; decides how they are written on axes and when the pointer is over them.
/// Values of a chart are always in the base unit that is named here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A plain number.
    #[default]
    Number,
    /// How many; whole.
    Count,
    /// A time in microseconds, written as us, ms or s.
    Microseconds,
    /// A moment or duration in seconds.
    Seconds,
    /// Requests per second.
    RequestsPerSec,
    /// Bytes, written as KB, MB (1024).
    Bytes,
    /// Bytes per second.
    BytesPerSec,
    /// 0 to 100.
    Percent,
    /// A change in percent, with its sign; 0 is none.
    ChangePercent,
    /// TCP segments.
    Segments,
}

/// How values lie along an axis.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By their logarithm. Values that are not above zero are not drawn.
    Log,
    /// Percentiles (0..=100) by their nines: 90, 99, 99.9 at equal distances. 100 stands at the end.
    Nines,
    /// Names at 0, 1, 2, ...; marks may lie beside them, at 0.1 and such.
    Names(Vec<String>),
}

/// An axis.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// Of its values.
    pub unit: Unit,
    /// How they lie.
    pub scale: Scale,
    /// Whether zero must be on it.
    pub from_zero: bool,
}

/// Which vertical axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The main one.
    #[default]
    Left,
    /// The other one.
    Right,
}

/// How high a chart is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Height {
    /// For strips that stand one above the other.
    Low,
    /// The usual one.
    #[default]
    Normal,
    /// For what matters most, or has many rows.
    Tall,
}

/// How marks are drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Straight from point to point.
    #[default]
    Line,
    /// Each value holds until the next.
    Step,
    /// The area under the steps: distributions.
    Area,
    /// Single points.
    Dots,
    /// From the bottom up.
    Bars,
    /// A point with a bar from `low` to `high`: an estimate with its interval.
    Interval,
    /// The area between `low` and `high`.
    Band,
    /// From `x` to `until`: when something was so. The whole height, or the share of it that `heights` has.
    Span,
}

/// What is drawn for one thing: a run, a level, a percentile. It is one entry of the legend.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Marks {
    /// Its name in the legend.
    pub name: String,
    /// How it is drawn.
    pub mark: Mark,
    /// On which vertical axis.
    pub side: Side,
    /// Ascending.
    pub x: Vec<f64>,
    /// As long as `x`; nothing is drawn for `None`.
    pub y: Vec<Option<f64>>,
    /// Of [`Mark::Interval`] and [`Mark::Band`]: lower ends, as long as `x`; otherwise empty.
    pub low: Vec<Option<f64>>,
    /// Upper ends.
    pub high: Vec<Option<f64>>,
    /// Of [`Mark::Span`]: where each ends, as long as `x`; otherwise empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub until: Vec<f64>,
    /// Of [`Mark::Span`]: how much of the height each fills, 0 to 1; empty where all fill it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heights: Vec<f64>,
    /// What each point is, shown when the pointer is over it: `round 3, 7th of 35 runs`. Empty, or as
    /// long as `x`.
    pub labels: Vec<String>,
    /// Index of its colour; the same thing has the same colour in all charts of a page.
    pub color: usize,
    /// Drawn lighter: context, not the message.
    pub is_faint: bool,
    /// Points are outlines: values that are not to be trusted.
    pub is_hollow: bool,
    /// Dashed, where two lines of one colour belong together.
    pub is_dashed: bool,
}

/// A chart.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Chart {
    /// Letters, digits and hyphens; unique on the page.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// For who cannot see it: what is drawn, and its most important values, in a sentence or two.
    pub description: String,
    /// From left to right.
    pub x: Axis,
    /// On the left.
    pub y: Axis,
    /// On the right, if there is one.
    pub y_right: Option<Axis>,
    /// What is drawn, the first at the bottom.
    pub marks: Vec<Marks>,
    /// How high it is.
    pub height: Height,
    /// Charts with the same word have their pointers coupled: those over the same time.
    pub group: Option<String>,
}

/// A table that can be sorted by each column.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TableBlock {
    /// What it shows; above it.
    pub caption: String,
    /// From left to right.
    pub columns: Vec<Column>,
    /// From top to bottom; each as long as `columns`.
    pub rows: Vec<Vec<TableCell>>,
}

/// A column.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Column {
    /// Its head, with the unit where all values have the same one.
    pub name: String,
    /// Set to the right, and sorted by number.
    pub is_numeric: bool,
    /// When it is seen.
    pub shown: Shown,
}

/// When a column of a table is seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// Always.
    #[default]
    Always,
    /// Where there is room, and when all columns are asked for.
    Wide,
    /// When all columns are asked for.
    Asked,
}

/// A cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TableCell {
    /// What is shown.
    pub text: String,
    /// The exact value, for sorting and when the pointer is over it.
    pub value: Option<f64>,
    /// How it is meant.
    pub tone: Tone,
}
