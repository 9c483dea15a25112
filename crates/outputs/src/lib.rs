//! A run or a sweep in progress, for people and for other programs: what happens goes to a set of
//! outputs.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod attributes;
mod exponential;
mod figures;
mod observers;
pub mod otlp;
pub mod prometheus;
pub mod records;
mod stream;

pub use observers::{ComparisonVerdict, Event, Observers, Output, RunEnd, RunStart};
#[cfg(feature = "schema")]
pub use stream::schema;
pub use stream::{Sink, Stream};
