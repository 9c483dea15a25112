//! Text tables and JSON files of results.

pub(crate) mod speed;
pub(crate) mod truth;

use std::fs::File;
use std::io::{self, Write};

use anyhow::Context;
use serde::Serialize;

use crate::machine::Machine;
use crate::options::CommonOptions;

/// Above this share, CPU time of other programs is reported: they compete for cores and caches.
const DISTURBING_SHARE: f64 = 0.05;

/// Writes when and where the numbers below were measured.
fn write_machine(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let Machine {
        date,
        cpu,
        cores,
        kernel,
        ..
    } = machine;
    writeln!(out, "{date}\n{cpu}, {cores} cores, Linux {kernel}")
}

/// Warns if other programs used much of the machine.
fn write_disturbance(out: &mut dyn Write, indent: &str, others_share: f64) -> io::Result<()> {
    if others_share > DISTURBING_SHARE {
        let percent = others_share * 100.0;
        writeln!(
            out,
            "{indent}disturbed: other programs used up to {percent:.0} % of the machine"
        )?;
    }
    Ok(())
}

/// Writes results to the file of `--json`, if it was given.
pub(crate) fn save(options: &CommonOptions, results: &impl Serialize) -> anyhow::Result<()> {
    let Some(path) = &options.json else {
        return Ok(());
    };
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    serde_json::to_writer_pretty(file, results)
        .with_context(|| format!("cannot write {}", path.display()))
}
