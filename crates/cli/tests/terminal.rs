//! What a terminal shows during a run, and that nothing of it remains.
//!
//! Stdin, stdout and stderr of the program are a terminal, as in daily use.
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
