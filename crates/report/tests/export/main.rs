//! Formats for other tools: golden files, runs of every kind in every format, and labels that try
//! to break out of each.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

#[path = "../fixture/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod fixture;
mod golden;
mod grammar;
mod hostile;
mod runs;
