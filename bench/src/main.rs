//! Measures wrkbench beside wrk and prints the table of figures.
//!
//! Method: a server pinned to one core, a client to another; for each row the clients take turns
//! (A B C A B C ...), so that a slow minute of the machine meets all of them; each repetition is
//! compared with wrk's run of the same repetition, and the medians are printed.
#![forbid(unsafe_code)]

mod figures;
mod machine;
mod options;
mod process;
mod procfs;
mod report_text;
mod rows;
mod scratch;
mod server;
mod session;
mod table;
mod tool;

use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use crate::figures::Measurement;
use crate::options::Options;
use crate::session::Session;

fn main() -> ExitCode {
    match measure_and_show(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to do when standard error is gone too.
            let _ = writeln!(io::stderr(), "bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the chosen rows and prints each as soon as it is measured.
fn measure_and_show(options: &Options) -> anyhow::Result<()> {
    let rows = rows::selected(&options.only)?;
    let session = Session::prepare(options)?;
    let mut out = io::stdout().lock();
    table::write_heading(&mut out, session.machine(), options)?;
    let mut measured = Vec::new();
    for row in rows {
        let result = session.measure(row)?;
        table::write_row(&mut out, &result)?;
        measured.push(result);
    }
    if let Some(path) = &options.json {
        let measurement = Measurement {
            machine: session.machine().clone(),
            rows: measured,
        };
        let file =
            File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        serde_json::to_writer_pretty(file, &measurement)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
