//! Colours in charts of a single run, as numbers in the palette: a metric has the same one in all
//! charts.

/// Response time at a rate, otherwise service time.
pub const LATENCY: usize = 0;
/// Service time next to response time.
pub const SERVICE_TIME: usize = 1;
/// The rate of responses, and of values like it.
pub const RATE: usize = 2;
/// A percentile of the slowest.
pub const HIGH_PERCENTILE: usize = 3;
/// Bytes that were sent or received.
pub const BYTES: usize = 4;
/// A time without responses.
pub const STALL: usize = 4;
/// The largest of the samples.
pub const MAX: usize = 5;
/// Errors, and segments that were sent again.
pub const ERRORS: usize = 6;
/// The rate that is asked for.
pub const TARGET_RATE: usize = 7;
