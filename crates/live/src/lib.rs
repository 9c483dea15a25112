//! Live views of a run or a sweep in progress: snapshots in, lines of text and screens out.
//!
//! Nothing here touches a terminal: a line is a string and a screen is a buffer of cells, which
//! `cli` prints.

#![forbid(unsafe_code)]

pub mod ansi;
pub mod appearance;
pub mod fleet;
pub mod grid;
pub mod keys;
pub mod line;
mod numbers;
mod panel;
mod progress;
pub mod screen;
