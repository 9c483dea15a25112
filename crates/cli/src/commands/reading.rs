//! Reads the runs that the commands table and report show.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use analysis::{ReadError, Reading};
use anyhow::bail;
use experiment::Spec;
use results::Experiment;

use super::tell;

/// At least one run.
pub(super) struct Read {
    /// The runs, with notes that have already been printed.
    pub(super) reading: Reading,
    /// Every input could be read.
    pub(super) is_complete: bool,
}

/// Reads each path once (`-` is stdin) and prints notes and problems to stderr.
///
/// # Errors
/// When there is not a single run.
pub(super) fn read_all(paths: &[PathBuf], program: &str) -> anyhow::Result<Read> {
    let mut parts = Vec::new();
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for path in paths {
        // A run that is given twice must not count twice.
        if !seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
            let line = format!("{}: given twice; read only once", path.display());
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
            None => bail!("no runs found"),
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

/// The threshold set by the experiments: the smallest relative difference that matters. `None` if
/// they set none, or different ones.
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

/// Replaces control characters: file names and messages of hooks may contain line feeds.
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
    fn a_threshold_counts_only_if_all_experiments_agree_on_it() {
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
