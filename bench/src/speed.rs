//! Measures wrkbench beside wrk and prints the table of figures.
//!
//! Method: a server pinned to one core, a client to another; for each row the clients take turns
//! (A B C A B C ...), so that a slow minute of the machine meets all of them; each repetition is
//! compared with wrk's run of the same repetition, and the medians are printed.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Parser;

use crate::figures::{Measurement, RowResult};
use crate::options::Options;
use crate::rows::TIMING;
use crate::session::Session;
use crate::truth::timing::{self, TimingResult};
use crate::{rows, table, truth};

/// The program `bench`: measures as its command line says and prints the table.
#[must_use]
pub fn compare_speed() -> ExitCode {
    match measure_and_show(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to do when standard error is gone too.
            let _ = writeln!(io::stderr(), "bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the chosen rows and prints each as soon as it is measured. A row that cannot be measured does
/// not keep the others from it.
fn measure_and_show(options: &Options) -> anyhow::Result<()> {
    let rows = rows::selected(&options.only)?;
    let session = Session::prepare(options)?;
    let mut out = io::stdout().lock();
    table::write_heading(&mut out, session.machine(), options)?;
    let mut measured = Vec::new();
    let mut failed = Vec::new();
    for row in rows {
        match session.measure(row) {
            Ok(result) => {
                table::write_row(&mut out, &result)?;
                measured.push(result);
            }
            Err(error) if session.is_interrupted() => return Err(error),
            Err(error) => {
                writeln!(
                    out,
                    "\n{} ({}): not measured: {error:#}",
                    row.title, row.name
                )?;
                failed.push(row.name);
            }
        }
    }
    let timing = if options.only.is_empty() || options.only.iter().any(|name| name == TIMING) {
        let timing = timing::measure(&timing_options(options), options.repeats)?;
        table::write_timing(&mut out, &timing)?;
        timing
    } else {
        Vec::new()
    };
    save(options, &session, measured, timing)?;
    if !failed.is_empty() {
        bail!("not measured: {}", failed.join(", "));
    }
    Ok(())
}

/// The same programs and cores, no other tools.
fn timing_options(options: &Options) -> truth::options::Options {
    truth::options::Options {
        only: Vec::new(),
        json: None,
        ours_only: true,
        keep_awake: false,
        io: String::new(),
        wrkbench: options.wrkbench.clone(),
        wrk: options.wrk.clone(),
        wrk2: options.wrk2.clone(),
        wrk_cmm: PathBuf::new(),
        h2load: PathBuf::new(),
        server_core: options.server_core,
        client_core: options.client_core,
    }
}

/// Writes what was measured to the file that was asked for, if any.
fn save(
    options: &Options,
    session: &Session,
    rows: Vec<RowResult>,
    timing: Vec<TimingResult>,
) -> anyhow::Result<()> {
    let Some(path) = &options.json else {
        return Ok(());
    };
    let measurement = Measurement {
        machine: session.machine().clone(),
        rows,
        timing,
    };
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    serde_json::to_writer_pretty(file, &measurement)
        .with_context(|| format!("cannot write {}", path.display()))
}
