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
        for (part, value) in parts(run) {
            let origin = run.origins.iter().find(|origin| origin.part == part);
            match origin.map(|Origin { from, .. }| from) {
                Some(from) => line(part, &format!("{value}  ({from})"), output)?,
                None => line(part, &value, output)?,
            }
        }
        line("run", &run.run.to_string(), output)?;
        if let Some(failure) = &run.failure {
            line("failed", failure, output)?;
        }
    }
    Ok(())
}

/// The parts of a run's name, and what it is averaged with.
fn parts(run: &Observation) -> Vec<(&str, String)> {
    let settings = run.settings.iter();
    let mut parts: Vec<(&str, String)> = settings
        .map(|setting| (setting.factor.as_str(), setting.level.clone()))
        .collect();
    let round = run.round.map(|round| round.to_string());
    let named = [
        ("profile", run.profile.clone()),
        ("round", round),
        ("target", run.target.clone()),
    ];
    parts.extend(
        named
            .into_iter()
            .filter_map(|(part, name)| Some((part, name?))),
    );
    let averaged = run.origins.iter().filter(|it| it.part == Origin::AVERAGED);
    parts.extend(averaged.map(|it| (it.part.as_str(), it.value.clone())));
    parts
}

fn line(part: &str, text: &str, output: &mut dyn Write) -> io::Result<()> {
    let (part, text) = (plan::printable(part), plan::printable(text));
    writeln!(output, "  {part:PART_WIDTH$}  {text}")
}
