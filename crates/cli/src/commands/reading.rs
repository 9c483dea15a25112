//! Runs for the commands that show them: everything that can be read of everything that is named.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use analysis::{ReadError, Reading};
use anyhow::bail;
use experiment::Spec;
use results::Experiment;

use super::tell;

/// What was read: at least one run.
pub(super) struct Read {
    /// The runs, with the notes that have been told already.
    pub(super) reading: Reading,
    /// Nothing that was named could not be read.
    pub(super) is_complete: bool,
}

/// Reads each path once, `-` being stdin, and tells what there is to say about it.
///
/// # Errors
/// When there is no run in any of it.
pub(super) fn read_all(paths: &[PathBuf], program: &str) -> anyhow::Result<Read> {
    let mut parts = Vec::new();
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for path in paths {
        // A run that is given twice would count twice.
        if !seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
            let line = format!("{}: given twice, read once", path.display());
            tell(program, on_one_line(&line));
            continue;
        }
        match read(path) {
            Ok(part) => parts.push(part),
            Err(error) => problems.push(error.to_string()),
        }
    }
    let mut reading = Reading::join(parts);
    problems.append(&mut reading.problems);
    if reading.observations.is_empty() {
        match problems.pop() {
            Some(last) => {
                for problem in &problems {
                    tell(program, on_one_line(problem));
                }
                bail!(on_one_line(&last));
            }
            None => bail!("no runs to show"),
        }
    }
    for line in reading.notes.iter().chain(&problems) {
        tell(program, on_one_line(line));
    }
    Ok(Read {
        reading,
        is_complete: problems.is_empty(),
    })
}

/// Up to what share a difference does not matter by the plans of these sweeps; `None` if they have none, or do not
/// agree.
pub(super) fn planned_threshold<'a>(
    experiments: impl IntoIterator<Item = &'a Experiment>,
) -> Option<f64> {
    let plan = |experiment: &Experiment| {
        let spec = Spec::parse(&experiment.plan_toml, Path::new(&experiment.name));
        spec.ok()?.threshold
    };
    let mut thresholds = experiments.into_iter().map(plan);
    let first = thresholds.next()??;
    thresholds
        .all(|other| other == Some(first))
        .then_some(first)
}

/// Names of files, and what hooks said, may have line feeds in them.
pub(super) fn on_one_line(text: &str) -> String {
    text.replace(char::is_control, "?")
}

fn read(path: &Path) -> Result<(PathBuf, Reading), ReadError> {
    if path == Path::new("-") {
        let name = PathBuf::from("stdin");
        let reading = Reading::of_input(&mut io::stdin().lock(), &name)?;
        Ok((name, reading))
    } else {
        Ok((path.to_owned(), Reading::of_path(path)?))
    }
}

#[cfg(test)]
mod tests {
    use results::{EXPERIMENT_SCHEMA_VERSION, Order};

    use super::*;

    fn sweep(threshold: &str) -> Experiment {
        Experiment {
            schema_version: EXPERIMENT_SCHEMA_VERSION,
            name: "s".to_owned(),
            plan_toml: format!(
                "name = \"s\"\nrounds = 4\n{threshold}\n[[target]]\nname = \"a\"\nurl = \"http://127.0.0.1/\"\n\
                 [load]\nduration = \"1s\"\n"
            ),
            seed: 1,
            order: Order::Shuffled,
            rounds: 4,
            cells: Vec::new(),
            started_at: None,
        }
    }

    #[test]
    fn the_threshold_of_a_plan_is_known_where_all_plans_agree() {
        let five = || sweep("threshold = \"5%\"");
        assert_eq!(planned_threshold(&[five()]), Some(0.05));
        assert_eq!(planned_threshold(&[five(), five()]), Some(0.05));
        assert_eq!(planned_threshold(&[five(), sweep("")]), None);
        assert_eq!(planned_threshold(&[sweep("")]), None);
        assert_eq!(planned_threshold(&[]), None);
        let damaged = Experiment {
            plan_toml: "no plan".to_owned(),
            ..five()
        };
        assert_eq!(planned_threshold(&[damaged]), None);
    }
}
