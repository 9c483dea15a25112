//! `bench`: compares the speed of wrkbench with wrk.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    bench::compare_speed()
}
