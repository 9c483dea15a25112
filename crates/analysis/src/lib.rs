//! What results say together: files in, observations; observations in, tables and conclusions.
//!
//! The unit is the run. Nothing here is rendered.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod compare;
mod judged;
mod load_part;
mod observation;
mod read;
pub mod story;
pub mod table;

pub use judged::{Judged, judge_all};
pub use load_part::LoadPart;
pub use observation::{Form, Observation, Origin, TrialFacts};
pub use read::{FILE_FACTOR, ReadError, Reading, paths_of, read, unlike_loads};
/// The middle value, or the mean of the two in the middle.
pub use stats::median;
