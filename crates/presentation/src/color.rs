//! Colours in charts of a single run, as numbers in the palette: a metric has the same one in all
//! charts.

/// Response time at a rate, otherwise service time.
pub const LATENCY: usize = 0;
/// Service time next to response time.
pub const SERVICE_TIME: usize = 1;
/// Requests per second.
pub const RATE: usize = 2;
/// A percentile of the slowest.
pub const HIGH_PERCENTILE: usize = 3;
/// Bytes per second.
pub const BYTES: usize = 4;
/// A time without responses.
pub const STALL: usize = 4;
/// The largest of the samples.
pub const MAX: usize = 5;
/// Errors per second.
pub const ERRORS: usize = 6;
/// The rate that is asked for.
pub const TARGET_RATE: usize = 7;
