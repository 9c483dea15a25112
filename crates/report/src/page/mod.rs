//! A page to look at: sections of charts, tables and words, and one HTML file made of them.
//!
//! Two steps. [`of`] decides what is to be seen and makes a [`Page`]: plain data, which tests can
//! look at. [`render`] makes the file, and knows nothing of runs.

mod curves;
mod model;
mod names;
mod of;
mod overlay;
mod render;
mod run;
mod sweep;
mod tables;
pub(crate) mod words;

pub use model::{
    Axis, Block, Chart, Column, Figure, Height, Mark, Marks, Page, Scale, Section, Shown, Side,
    TableBlock, TableCell, Tone, Unit,
};
pub use of::{Subject, of};
pub use render::render;
pub(crate) use run::{capital, lost_requests};
