//! A run or a sweep in progress, for people and for other programs: what happens goes to a set of
//! outputs.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod attributes;
mod exponential;
pub mod exported;
mod observers;
pub mod otlp;

pub use observers::{Event, Observers, Output, RunEnd, RunStart};
