//! The program `bench`: compares the speed of wrkbench with wrk, wrk2 and h2load.
//!
//! Method: the server is pinned to one core, the client to another. In each row the clients take
//! turns (A B C A B C ...), so that a slow phase of the machine affects all of them. Each
//! repetition is compared with the other tool's run of the same repetition, and the medians are
//! printed.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Parser;

use crate::figures::Measurement;
use crate::options::{SpeedOptions, TruthOptions};
use crate::rows::TIMING;
use crate::session::Session;
use crate::table::speed as table;
use crate::truth::timing;
use crate::{rows, table::save};

/// Runs the program `bench`.
#[must_use]
pub fn compare_speed() -> ExitCode {
    match measure_and_show(&SpeedOptions::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing can be done if stderr is closed.
            let _ = writeln!(io::stderr(), "bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures the selected rows and prints each as soon as it is complete. If a row fails, the others
/// are still measured.
fn measure_and_show(options: &SpeedOptions) -> anyhow::Result<()> {
    let only = &options.common.only;
    let rows = rows::selected(only)?;
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
                writeln!(out, "\n{} ({}): failed: {error:#}", row.title, row.name)?;
                failed.push(row.name);
            }
        }
    }
    let timing = if only.is_empty() || only.iter().any(|name| name == TIMING) {
        let timing = timing::measure(&timing_options(options), options.repeats)?;
        table::write_timing(&mut out, &timing)?;
        timing
    } else {
        Vec::new()
    };
    let measurement = Measurement {
        machine: session.machine().clone(),
        rows: measured,
        timing,
    };
    save(&options.common, &measurement)?;
    if !failed.is_empty() {
        bail!("failed rows: {}", failed.join(", "));
    }
    Ok(())
}

/// Options for the timing table: the same programs and cores, no other tools.
fn timing_options(options: &SpeedOptions) -> TruthOptions {
    TruthOptions {
        common: options.common.clone(),
        ours_only: true,
        keep_awake: false,
        io: String::new(),
        wrk_cmm: PathBuf::new(),
        rows: 0,
        seed: 0,
        row: Vec::new(),
    }
}
