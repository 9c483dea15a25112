//! Reads the runs that the commands table and report show.

use std::io;
use std::path::PathBuf;

use analysis::Reading;
use anyhow::bail;

use super::tell;

/// Reads each path once (`-` is stdin) and prints to stderr: notes, problems, and how many runs of
/// texts count as repetitions of each other.
///
/// # Errors
/// When there is not a single run.
pub(super) fn read_all(paths: &[PathBuf], program: &str) -> anyhow::Result<Reading> {
    let reading = Reading::of_paths(paths, &mut io::stdin().lock());
    let lines = reading.notes.iter().chain(&reading.problems);
    let mut lines: Vec<&String> = lines.chain(&reading.repetitions).collect();
    let failure = match reading.observations.is_empty() {
        true => Some(lines.pop().map_or("no runs found", String::as_str)),
        false => None,
    };
    for line in lines {
        tell(program, line);
    }
    match failure {
        Some(failure) => bail!("{failure}"),
        None => Ok(reading),
    }
}
