//! What is seen on a terminal while a run is on, and that nothing of it is left.
//!
//! The program has a terminal of its own for all of its files, as in daily use.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failing step fails the test"
)]

#[path = "end_to_end/harness.rs"]
#[allow(dead_code, reason = "end_to_end uses the rest")]
mod harness;
#[path = "end_to_end/judge.rs"]
#[allow(dead_code, reason = "end_to_end uses the rest")]
mod judge;
#[path = "terminal/line.rs"]
mod line;
#[path = "terminal/pty.rs"]
mod pty;
#[path = "terminal/screen.rs"]
mod screen;
