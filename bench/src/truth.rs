//! `make truth`: the numbers of wrkbench, and of others where they are installed, held against what
//! the server knows of the same run and against formulas.
//!
//! Each case starts a server of its own on one core and the client on another. The server
//! (`wrkbench serve --log`) notes when each request came and when its answer left, on the clock that
//! all processes of a machine share; so the truth is known of every single request, not guessed.

mod cases;
mod check;
mod document;
mod lab;
mod log;
pub(crate) mod options;
mod origin;
mod peers;
mod quota;
mod table;
pub(crate) mod timing;

use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use serde::Serialize;

use crate::machine::Machine;
use cases::Case;
use check::{CaseResult, Verdict};
use lab::Lab;
use options::Options;

/// Everything that was found, as `--json` writes it.
#[derive(Debug, Serialize)]
struct Findings<'a> {
    machine: &'a Machine,
    cases: Vec<CaseResult>,
}

/// The program `truth`: runs the cases and prints the table. The exit code is 1 when a number of ours is
/// not the truth, or a case could not be run.
#[must_use]
pub fn hold_against_truth() -> ExitCode {
    match run_and_show(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nothing is left to do when standard error is gone too.
            let _ = writeln!(io::stderr(), "truth: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all of ours was right. Each case is shown as soon as it is known.
fn run_and_show(options: &Options) -> anyhow::Result<bool> {
    let cases = Case::selected(&options.only)?;
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
    save(options, lab.machine(), results)?;
    Ok(all_true)
}

fn save(options: &Options, machine: &Machine, cases: Vec<CaseResult>) -> anyhow::Result<()> {
    let Some(path) = &options.json else {
        return Ok(());
    };
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    serde_json::to_writer_pretty(file, &Findings { machine, cases })
        .with_context(|| format!("cannot write {}", path.display()))
}
