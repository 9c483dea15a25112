//! The origin of each run's name: which text or file set which part.

use std::io::{self, Write};

use analysis::{Observation, Origin};

/// Width of the column of parts.
const PART_WIDTH: usize = 8;

/// Writes a block for each run: its source, and a line for each part of its name.
pub(super) fn render(runs: &[Observation], output: &mut dyn Write) -> io::Result<()> {
    for (at, run) in runs.iter().enumerate() {
        if at > 0 {
            output.write_all(b"\n")?;
        }
        writeln!(output, "{}", plan::printable(&run.source))?;
        for Origin { part, value, from } in &run.origins {
            line(part, &format!("{value}  ({from})"), output)?;
        }
        line("run", &run.run.to_string(), output)?;
        if let Some(failure) = &run.failure {
            line("failed", failure, output)?;
        }
    }
    Ok(())
}

fn line(part: &str, text: &str, output: &mut dyn Write) -> io::Result<()> {
    let (part, text) = (plan::printable(part), plan::printable(text));
    writeln!(output, "  {part:PART_WIDTH$}  {text}")
}
