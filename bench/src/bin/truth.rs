//! `truth`: the numbers held against what a server knows of itself.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    bench::hold_against_truth()
}
