//! What a page is made of. Serializable, since charts and tables go to the browser as JSON.

use serde::Serialize;

use crate::Unit;

/// A whole page, from its title to its last section.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Page {
    /// The heading; also the title of the window.
    pub title: String,
    /// What the runs say in one sentence; the description of the file.
    pub answer: String,
    /// Of what, when and where, in one line.
    pub subtitle: String,
    /// In the order of the page.
    pub sections: Vec<Section>,
}

/// A part of the page under a heading, with a place in the table of contents.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Section {
    /// Letters, digits and hyphens; unique on the page.
    pub id: String,
    pub title: String,
    /// One or two sentences about the content or how to read it. May be empty.
    pub lead: String,
    pub blocks: Vec<Block>,
    /// Closed at first, for what few readers want.
    pub is_folded: bool,
}

impl Section {
    pub fn new(id: &str, title: &str, lead: impl Into<String>, blocks: Vec<Block>) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            lead: lead.into(),
            blocks,
            is_folded: false,
        }
    }

    pub fn folded(self, is_folded: bool) -> Self {
        Self { is_folded, ..self }
    }
}

/// Content of a section.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Block {
    /// A judgement, a warning or a note.
    Finding {
        /// How serious it is.
        tone: Tone,
        text: String,
        /// Its evidence, a line each.
        details: Vec<String>,
    },
    /// The most important numbers, in large type.
    Figures {
        /// The most important one first.
        figures: Vec<Figure>,
    },
    /// Charts, side by side where they fit.
    Charts { charts: Vec<Chart> },
    /// A table that the reader can sort.
    Table(TableBlock),
    /// A flame graph.
    Flames(FlameGraph),
    /// Names with their values.
    Facts {
        /// Names and their values.
        facts: Vec<(String, String)>,
    },
    /// Text to copy: a command, an experiment file.
    Code {
        /// The heading above the text.
        label: String,
        text: String,
    },
}

/// A flame graph: boxes in rows, each below its caller.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FlameGraph {
    pub title: String,
    /// What is drawn.
    pub description: String,
    /// Number of rows.
    pub rows: usize,
    pub boxes: Vec<FlameBox>,
}

/// A function as called from one place.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FlameBox {
    /// Its name; empty where there is no room for text.
    pub name: String,
    /// Its name and shares, shown at the pointer.
    pub tip: String,
    /// Its left edge, in percent of the width.
    pub x: f64,
    /// In percent of the width.
    pub width: f64,
    /// 0 is the first row.
    pub row: usize,
    pub tone: FlameTone,
}

/// The colour of a box in a flame graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FlameTone {
    /// A function of a program.
    #[default]
    Program,
    /// A function of the kernel.
    Kernel,
    /// A function without a name.
    Unnamed,
    /// Of a difference: about the same.
    Same,
    /// Of a difference: more in slow time, from 1 to 3.
    More(usize),
    /// Of a difference: less in slow time, from 1 to 3.
    Less(usize),
}

/// How serious a sentence, a number or a cell is, or what it says of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// There is no problem.
    Good,
    /// Information that is neither good nor bad.
    #[default]
    Neutral,
    /// A number may be wrong.
    Warning,
    /// Failed, or not reliable.
    Bad,
    /// Of a comparison: better than the baseline.
    Better,
    /// Of a comparison: worse than the baseline.
    Worse,
    /// Of a comparison: the same within the threshold.
    Same,
    /// Of a comparison: there may be an effect, or none.
    Undecided,
}

/// A number in large type.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Figure {
    /// Name of the metric, above the number.
    pub label: String,
    /// The number with its unit.
    pub value: String,
    /// A line below it, such as its base. May be empty.
    pub note: String,
    /// How serious the number is.
    pub tone: Tone,
    /// Its values over the window, drawn as a small line; empty if they are not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spark: Vec<Option<f64>>,
}

impl Figure {
    pub fn new(
        label: impl Into<String>,
        value: impl Into<String>,
        note: impl Into<String>,
        tone: Tone,
    ) -> Self {
        Self {
            label: label.into(),
            value: value.into(),
            note: note.into(),
            tone,
            spark: Vec::new(),
        }
    }
}

/// The scale of an axis.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    #[default]
    Linear,
    /// Logarithmic. Values that are not above zero are not drawn.
    Log,
    /// Percentiles (0..=100) by their nines: 90, 99, 99.9 at equal distances, 100 at the end.
    Nines,
    /// Names at 0, 1, 2, ...; marks may lie between them, at 0.1.
    Names(Vec<String>),
}

/// An axis of a chart.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Axis {
    /// Name of the quantity, without its unit.
    pub label: String,
    pub unit: Unit,
    pub scale: Scale,
    /// Whether zero must be on it.
    pub from_zero: bool,
}

impl Axis {
    /// A linear axis that begins at zero.
    pub fn from_zero(label: impl Into<String>, unit: Unit) -> Self {
        Self {
            label: label.into(),
            unit,
            scale: Scale::Linear,
            from_zero: true,
        }
    }

    pub fn names(label: impl Into<String>, names: Vec<String>) -> Self {
        Self {
            label: label.into(),
            scale: Scale::Names(names),
            ..Self::default()
        }
    }

    /// A logarithmic axis of times.
    pub fn log_time(label: &str) -> Self {
        Self {
            label: label.to_owned(),
            unit: Unit::Microseconds,
            scale: Scale::Log,
            from_zero: false,
        }
    }
}

/// The vertical axis that marks belong to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    #[default]
    Left,
    Right,
}

/// The height of a chart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Height {
    /// For several charts one above the other.
    Low,
    #[default]
    Normal,
    /// For the most important charts.
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
    /// Points that are not joined.
    Dots,
    /// From the bottom up.
    Bars,
    /// A point with a bar from `low` to `high`: an estimate with its confidence interval.
    Interval,
    /// The area between `low` and `high`.
    Band,
    /// Points joined in their order, whatever their x, each with a bar from `low` to `high`.
    Path,
    /// From `x` to `until`, over the whole height or the share of it in `heights`.
    Span,
}

/// The marks of one legend entry: a run, a level, a percentile.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Marks {
    pub name: String,
    pub mark: Mark,
    pub side: Side,
    /// In the unit of the horizontal axis; ascending, except of [`Mark::Path`].
    pub x: Vec<f64>,
    /// As long as `x`; nothing is drawn for `None`.
    pub y: Vec<Option<f64>>,
    /// For [`Mark::Interval`], [`Mark::Band`] and [`Mark::Path`]: lower ends, as long as `x`;
    /// otherwise empty.
    pub low: Vec<Option<f64>>,
    /// For [`Mark::Interval`], [`Mark::Band`] and [`Mark::Path`]: upper ends, as long as `x`;
    /// otherwise empty.
    pub high: Vec<Option<f64>>,
    /// For [`Mark::Span`]: where each ends, as long as `x`; otherwise empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub until: Vec<f64>,
    /// For [`Mark::Span`]: how much of the height each fills, 0 to 1; empty where all fill it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heights: Vec<f64>,
    /// A name for each point, shown at the pointer: `round 3, 7th of 35 runs`. Empty, or as long as
    /// `x`.
    pub labels: Vec<String>,
    /// For [`Mark::Path`]: a short name for each point, drawn next to it where there is room.
    /// Empty, or as long as `x`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<String>,
    /// Index of its colour; a group has the same colour in all charts of a page.
    pub color: usize,
    /// Drawn lighter, as context.
    pub is_faint: bool,
    /// Points are outlines: values that may be wrong.
    pub is_hollow: bool,
    /// Dashed, to tell two lines of one colour apart.
    pub is_dashed: bool,
}

impl Marks {
    pub fn new(name: impl Into<String>, mark: Mark, color: usize) -> Self {
        Self {
            name: name.into(),
            mark,
            color,
            ..Self::default()
        }
    }

    /// Adds a point with its label.
    pub fn push(&mut self, x: f64, y: Option<f64>, label: String) {
        self.x.push(x);
        self.y.push(y);
        self.labels.push(label);
    }

    /// Adds a point of [`Mark::Interval`] or [`Mark::Path`].
    pub fn push_interval(&mut self, x: f64, [low, y, high]: [Option<f64>; 3], label: String) {
        self.push(x, y, label);
        self.low.push(low);
        self.high.push(high);
    }
}

/// The group of charts over the time of a run.
pub const TIME_GROUP: &str = "time";

/// A chart with its axes and marks.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Chart {
    /// Letters, digits and hyphens; unique on the page.
    pub id: String,
    pub title: String,
    /// For screen readers: what is drawn, with its most important values.
    pub description: String,
    pub x: Axis,
    /// The vertical axis on the left.
    pub y: Axis,
    /// The vertical axis on the right.
    pub y_right: Option<Axis>,
    /// The first is drawn at the bottom.
    pub marks: Vec<Marks>,
    pub height: Height,
    /// Charts of the same group share the pointer: those over the same time ([`TIME_GROUP`]).
    pub group: Option<String>,
}

/// A table. A page lets the reader sort it by each column; a text aligns it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TableBlock {
    pub caption: String,
    /// From left to right.
    pub columns: Vec<Column>,
    /// From top to bottom; each as long as `columns`.
    pub rows: Vec<Vec<TableCell>>,
}

impl TableBlock {
    pub fn new(
        caption: impl Into<String>,
        columns: impl Into<Vec<Column>>,
        rows: impl IntoIterator<Item = Vec<TableCell>>,
    ) -> Self {
        Self {
            caption: caption.into(),
            columns: columns.into(),
            rows: rows.into_iter().collect(),
        }
    }
}

/// A piece of the text of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum TextBlock {
    /// A line of its own; may be empty.
    Line(String),
    /// A table in aligned columns.
    Table(TableBlock),
}

/// A column of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Column {
    /// Its heading, with the unit where all values have the same one.
    pub name: String,
    /// Aligned to the right, and sorted by number.
    pub is_numeric: bool,
    /// When it is visible.
    pub shown: Shown,
}

/// When a column of a table is visible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// In texts and on screens of every width.
    #[default]
    Always,
    /// In texts, on wide screens, and when all columns are requested.
    Wide,
    /// Not in texts; on a page when all columns are requested.
    Asked,
}

/// A cell of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TableCell {
    pub text: String,
    /// The exact value, for sorting and at the pointer.
    pub value: Option<f64>,
    /// The unit of the value.
    pub unit: Unit,
    /// How serious the value is.
    pub tone: Tone,
    /// Where the text leads: a URL of http or https.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}
