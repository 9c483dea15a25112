//! `truth`: checks the numbers of wrkbench against the server's own log.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    bench::verify_numbers()
}
