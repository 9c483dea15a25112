//! What is shown, as data: tables, charts, findings and the words of numbers.
//!
//! Whatever has something to show makes these. Pages, texts, Markdown, CSV and terminals are
//! renderers: each writes the same [`TableBlock`] in its own form, so that a table is described
//! once.
//!
//! ```
//! use presentation::TableBlock;
//! use presentation::tables::{columns, count, text};
//!
//! let row = vec![text("GET /"), count(1_200)];
//! let table = TableBlock::new("Requests", columns(&["Name"], &["Requests"]), [row]);
//! assert_eq!(table.rows[0][1].text, "1,200");
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod color;
#[allow(missing_docs, reason = "the names of many fields say what they are")]
mod model;
pub mod tables;
mod unit;
pub mod words;

pub use model::{
    Axis, Block, Chart, Column, Figure, FlameBox, FlameGraph, FlameTone, Height, Mark, Marks, Page,
    Scale, Section, Shown, Side, TIME_GROUP, TableBlock, TableCell, TextBlock, Tone,
};
pub use unit::Unit;
