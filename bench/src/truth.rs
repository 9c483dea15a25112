//! The program `truth`: checks the numbers of wrkbench, and of other tools if installed, against
//! the server's log of the same run and against formulas.
//!
//! Each case starts its own server on one core and the client on another. The server
//! (`wrkbench serve --log`) logs when each request arrived and when its response left, on the clock
//! that all processes of a machine share, so the true times of every request are known.

pub(crate) mod cases;
pub(crate) mod check;
pub(crate) mod lab;
mod log;
mod origin;
mod peers;
mod quota;
mod relay;
mod run_report;
pub(crate) mod timing;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use serde::Serialize;

use crate::machine::Machine;
use crate::options::TruthOptions;
use crate::table::{save, truth as table};
use cases::Case;
use check::{CaseResult, Verdict};
use lab::Lab;

/// The document of `--json`.
#[derive(Debug, Serialize)]
struct Findings<'a> {
    machine: &'a Machine,
    cases: Vec<CaseResult>,
}

/// Runs the program `truth`. The exit code is 1 if a number of wrkbench is wrong or a case failed.
#[must_use]
pub fn verify_numbers() -> ExitCode {
    match run_and_show(&TruthOptions::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nothing can be done if stderr is closed.
            let _ = writeln!(io::stderr(), "truth: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all numbers of wrkbench are right. Each case is printed as soon as it is complete.
fn run_and_show(options: &TruthOptions) -> anyhow::Result<bool> {
    let cases = Case::selected(&options.common.only)?;
    let lab = Lab::prepare(options)?;
    let mut out = io::stdout().lock();
    table::write_heading(&mut out, &lab)?;
    let mut results = Vec::new();
    for case in cases {
        let result = match case.run(&lab) {
            Ok(result) => result,
            Err(error) if lab.is_interrupted() => return Err(error),
            Err(error) => CaseResult::not_run(case, &error),
        };
        table::write_case(&mut out, &result)?;
        results.push(result);
    }
    table::write_conclusion(&mut out, &results)?;
    let all_true = results
        .iter()
        .all(|result| result.verdict() != Verdict::Missed);
    let findings = Findings {
        machine: lab.machine(),
        cases: results,
    };
    save(&options.common, &findings)?;
    Ok(all_true)
}
