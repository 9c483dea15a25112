//! `wrkbench compare`: whether runs differ.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::compare::{
    Comparison, Conclusions, Named, Outcome, Question, compare_cells, compare_with_base,
};
use analysis::{Reading, unlike_loads};
use anyhow::{Context, bail};

use super::reading::{on_one_line, planned_threshold};
use super::tell;
use crate::args::{CompareFormat, CompareRequest};

/// A regression was found.
const EXIT_REGRESSION: u8 = 3;

/// Reads the runs, prints whether they differ, and returns code 3 for a regression if requested.
///
/// # Errors
/// When not all runs can be read, there is nothing to compare, `--fail-on-regression` cannot be
/// evaluated, or stdout cannot be written.
pub(super) fn compare(request: &CompareRequest, program: &str) -> anyhow::Result<ExitCode> {
    let base = read(&request.base, program)?;
    let new = match &request.new {
        Some(path) => Some((name(path), read(path, program)?)),
        None => None,
    };
    if let Some((new_name, new)) = &new
        && let Some(differences) = unlike_loads(&base.observations, &new.observations)
    {
        let base_name = name(&request.base);
        let line = format!("{base_name} and {new_name}: different loads: {differences}");
        tell(program, on_one_line(&line));
    }
    let both = [Some(&base), new.as_ref().map(|(_, new)| new)];
    let experiments = both
        .into_iter()
        .flatten()
        .flat_map(|side| &side.experiments);
    let threshold = request.threshold.or_else(|| planned_threshold(experiments));
    let question = Question {
        metrics: request.metrics.clone(),
        threshold: Question::threshold(threshold, request.regression_limit),
    };
    let conclusions = match &new {
        Some((new_name, new)) => {
            let named = |name, runs| Named { name, runs };
            compare_with_base(
                named(&name(&request.base), &base.observations),
                named(new_name, &new.observations),
                &question,
            )
        }
        None => compare_cells(&base.observations, &question),
    }
    .context("compare")?;
    print(&conclusions, request.format)
        .context("compare: cannot write the comparison to stdout")?;
    match request.regression_limit {
        Some(limit) => judge_regression(&conclusions, limit, program),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn print(conclusions: &Conclusions, format: CompareFormat) -> io::Result<()> {
    let mut output = io::BufWriter::new(io::stdout().lock());
    match format {
        CompareFormat::Text => report::comparison::render(conclusions, &mut output)?,
        CompareFormat::Json => report::comparison::render_json(conclusions, &mut output)?,
    }
    output.flush()
}

/// Prints each regression beyond the limit; code 3 if there is any.
///
/// # Errors
/// When there are too few runs to judge.
pub(super) fn judge_regression(
    conclusions: &Conclusions,
    limit: f64,
    program: &str,
) -> anyhow::Result<ExitCode> {
    let worse: Vec<&Comparison> = conclusions
        .comparisons
        .iter()
        .filter(|comparison| comparison.is_regression(limit))
        .collect();
    for comparison in &worse {
        let sentence = report::comparison::sentence(comparison);
        tell(program, format_args!("--fail-on-regression: {sentence}"));
    }
    if !worse.is_empty() {
        return Ok(ExitCode::from(EXIT_REGRESSION));
    }
    let too_few =
        |comparison: &&Comparison| matches!(comparison.outcome, Outcome::TooFewRuns { .. });
    if let Some(comparison) = conclusions.comparisons.iter().find(too_few) {
        let sentence = report::comparison::sentence(comparison);
        bail!("--fail-on-regression: {sentence}");
    }
    if conclusions
        .comparisons
        .iter()
        .any(Comparison::is_generator_saturated)
    {
        tell(
            program,
            "--fail-on-regression: no regression found, but the load generator was saturated, which \
             can hide one",
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the runs of a path, of several paths separated by commas, or of a pattern.
fn read(argument: &Path, program: &str) -> anyhow::Result<Reading> {
    let mut parts = Vec::new();
    for path in paths(argument)? {
        let reading = if path == Path::new("-") {
            let name = PathBuf::from("stdin");
            Reading::of_input(&mut io::stdin().lock(), &name)
        } else {
            Reading::of_path(&path)
        }?;
        parts.push((path, reading));
    }
    let reading = Reading::join(parts);
    for line in &reading.notes {
        tell(program, line);
    }
    // A conclusion from some of the runs would look like one from all of them.
    match reading.problems.first() {
        Some(problem) => bail!(problem.clone()),
        None => Ok(reading),
    }
}

fn paths(argument: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let text = argument.to_str();
    let (Some(text), false) = (text, argument.exists()) else {
        return Ok(vec![argument.to_owned()]);
    };
    let mut paths = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let path = Path::new(part);
        if path.exists() || !part.contains(['*', '?']) {
            paths.push(path.to_owned());
        } else {
            paths.append(&mut matching(path)?);
        }
    }
    // A file that is named twice must not count twice.
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// The files in a folder that match a pattern, sorted by name.
fn matching(pattern: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let folder = match pattern.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = pattern.file_name().map(|name| name.to_string_lossy());
    let name = name.unwrap_or_default();
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        if matches(
            name.as_bytes(),
            entry.file_name().to_string_lossy().as_bytes(),
        ) {
            found.push(entry.path());
        }
    }
    if found.is_empty() {
        bail!("{}: no file matches this pattern", pattern.display());
    }
    found.sort();
    Ok(found)
}

/// Matches a name against a pattern with `*` and `?`. After a mismatch, only the last `*` needs to
/// be tried again.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[read] => {
                at += 1;
                read += 1;
            }
            _ => match star {
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    (at, read) = (star_at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// The name of these runs in sentences: the last component of the path.
fn name(path: &Path) -> String {
    match path.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("base-*.json", "base-1.json", true),
            ("base-*.json", "base-.json", true),
            ("base-*.json", "base-1.json.bak", false),
            ("*a*b*", "xxaxxbxaxb", true),
            ("?.txt", "é.txt", false),
            ("?.txt", "e.txt", true),
            ("*", "", true),
            ("a", "", false),
            ("", "a", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
        let long = "a".repeat(2_000);
        assert!(!matches("*a*a*a*a*a*b".as_bytes(), long.as_bytes()));
    }
}
