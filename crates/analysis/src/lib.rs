//! What results say together: files in, observations; observations in, tables and conclusions.
//!
//! The unit is the run. Nothing here is rendered.

#![forbid(unsafe_code)]

mod observation;

pub use observation::Observation;
