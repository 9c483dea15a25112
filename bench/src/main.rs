//! `bench`: the table of figures beside wrk.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    bench::compare_speed()
}
