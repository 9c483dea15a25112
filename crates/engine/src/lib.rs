//! Generates the load: plan in, result out.

pub mod source;
