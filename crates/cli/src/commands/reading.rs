//! Reads the runs that the commands table and report show.

use std::path::PathBuf;

use crate::console::Console;
use analysis::Reading;
use anyhow::{anyhow, bail};

/// Reads each path once (`-` is stdin), groups the runs by the wanted parts of their names, and
/// prints to stderr: notes, problems, how many runs of texts count as repetitions of each other,
/// and how many are named by the text above them.
///
/// # Errors
/// When there is not a single run, or none has such a part in its name.
pub(super) fn read_all(
    paths: &[PathBuf],
    group_by: Option<&[String]>,
    console: &Console,
) -> anyhow::Result<Reading> {
    let mut reading = Reading::of_paths(paths, &mut *console.stdin());
    if let Some(parts) = group_by.filter(|_| !reading.observations.is_empty()) {
        let grouped = reading.group_by(parts);
        grouped.map_err(|problem| anyhow!("--group-by: {problem}"))?;
    }
    let lines = reading.notes.iter().chain(&reading.problems);
    let mut lines: Vec<&String> = lines
        .chain(&reading.repetitions)
        .chain(&reading.apart)
        .collect();
    let failure = if reading.observations.is_empty() {
        Some(lines.pop().map_or("no runs found", String::as_str))
    } else {
        None
    };
    for line in lines {
        console.tell(line);
    }
    match failure {
        Some(failure) => bail!("{failure}"),
        None => Ok(reading),
    }
}
