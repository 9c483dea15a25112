//! What is seen of a run, or of a sweep, while it is on: snapshots go in, text and screens come out.
//!
//! No terminal is touched here: a line is a string, a screen a buffer of cells. Who prints is `cli`.

#![forbid(unsafe_code)]

pub mod grid;
pub mod keys;
pub mod line;
pub mod look;
mod panel;
mod progress;
pub mod screen;
