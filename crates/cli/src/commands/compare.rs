//! `wrkbench compare`: whether runs differ.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use analysis::compare::{
    ChangeLimit, CompareOptions, Comparison, Conclusions, Metric, Named, compare_cells,
    compare_names, compare_with_base,
};
use analysis::{Reading, by_common_place, paths_of, unlike_loads, without_files};
use anyhow::{Context, bail};
use experiment::{common_judge, common_threshold};

use crate::args::{CompareFormat, CompareRequest};
use crate::console::Console;

/// A regression was found.
const EXIT_REGRESSION: u8 = 3;

/// Reads the runs, prints whether they differ, and returns code 3 for a regression if requested.
///
/// # Errors
/// When not all runs can be read, there is nothing to compare, a limit cannot be
/// evaluated, or stdout cannot be written.
pub(super) fn compare(request: &CompareRequest, console: &Console) -> anyhow::Result<ExitCode> {
    if request.by_name && request.new.is_none() {
        bail!("compare: --by-name needs NEW, the runs to compare with BASE");
    }
    let mut base = read(&request.base, console)?;
    if let Some(baseline) = &request.baseline {
        let runs = std::mem::take(&mut base.observations);
        base.observations = match request.new {
            Some(_) => baseline.only(runs),
            None => baseline.first(runs),
        }
        .context("compare")?;
    }
    let mut new = match &request.new {
        Some(path) => Some((name(path), read(path, console)?)),
        None => None,
    };
    if let Some((_, new)) = new.as_mut().filter(|_| request.baseline.is_some()) {
        new.observations = without_files(std::mem::take(&mut new.observations));
    }
    let base_name = match &request.baseline {
        Some(baseline) => baseline.to_string(),
        None => name(&request.base),
    };
    if let Some((new_name, new)) = &new
        && let Some(differences) = unlike_loads(&base.observations, &new.observations)
    {
        let line = format!("{base_name} and {new_name}: different loads: {differences}");
        console.tell(&line);
    }
    let both = [Some(&base), new.as_ref().map(|(_, new)| new)];
    let experiments = || {
        let both = both.into_iter().flatten();
        both.flat_map(|side| &side.experiments)
    };
    let threshold = request
        .threshold
        .or_else(|| common_threshold(experiments()));
    let options = CompareOptions {
        metrics: metrics(request, common_judge(experiments())),
        threshold: CompareOptions::threshold(threshold, &request.limits),
        // Two folders are compared with each other once.
        is_sequential: new.is_none() && base.is_sequential(),
    };
    let repetitions = both.map(|side| side.and_then(|side| side.repetitions.clone()));
    let conclusions = match new {
        Some((new_name, new)) => {
            let [base, new] = by_common_place([base.observations, new.observations]);
            let named = |name, runs| Named { name, runs };
            let (base, new) = (named(&base_name, &base[..]), named(&new_name, &new[..]));
            compare_with_base(base, new, &options).and_then(|whole| {
                let names = request
                    .by_name
                    .then(|| compare_names(base, new, options.threshold));
                Ok(Conclusions {
                    by_name: names.transpose()?,
                    ..whole
                })
            })
        }
        None => compare_cells(&base.observations, &options),
    }
    .context("compare")?;
    print(&conclusions, request.format, console)
        .context("compare: cannot write the comparison to stdout")?;
    for line in repetitions.iter().flatten() {
        console.tell(line);
    }
    judge_changes(&conclusions, &request.limits, console)
}

/// The metrics to compare: those asked for, else those of the experiments; with conditions those of
/// the conditions as well. Empty for the defaults.
fn metrics(request: &CompareRequest, of_experiments: Vec<Metric>) -> Vec<Metric> {
    let of_limits: Vec<&Metric> = request
        .limits
        .iter()
        .filter_map(ChangeLimit::metric)
        .collect();
    let has_general = of_limits.len() < request.limits.len();
    let mut metrics = match request.metrics.is_empty() {
        false => request.metrics.clone(),
        // The conditions are all that is asked.
        true if !of_limits.is_empty() && !has_general => Vec::new(),
        true => of_experiments,
    };
    for metric in of_limits {
        if !metrics.iter().any(|known| known.name == metric.name) {
            metrics.push(metric.clone());
        }
    }
    metrics
}

fn print(conclusions: &Conclusions, format: CompareFormat, console: &Console) -> io::Result<()> {
    let mut output = io::BufWriter::new(&console.stdout);
    match format {
        CompareFormat::Text => report::comparison::render(conclusions, &mut output)?,
        CompareFormat::Json => report::comparison::render_json(conclusions, &mut output)?,
    }
    output.flush()
}

/// Prints each difference beyond a limit; code 3 if there is any.
///
/// # Errors
/// When there are too few runs to judge, or a side failed its requests.
pub(super) fn judge_changes(
    conclusions: &Conclusions,
    limits: &[ChangeLimit],
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let comparisons = &conclusions.comparisons;
    let mut code = ExitCode::SUCCESS;
    let mut unknown = None;
    for limit in limits {
        let about = || comparisons.iter().filter(|it| limit.is_about(it));
        let beyond: Vec<&Comparison> = about().filter(|it| limit.is_exceeded(it)).collect();
        for comparison in &beyond {
            let sentence = report::comparison::sentence(comparison);
            console.tell(format_args!("{limit}: {sentence}"));
        }
        if !beyond.is_empty() {
            code = ExitCode::from(EXIT_REGRESSION);
        } else if let Some(comparison) = about().find(|it| limit.is_undecidable(it)) {
            let sentence = report::comparison::sentence(comparison);
            unknown.get_or_insert_with(|| format!("{limit}: {sentence}"));
        } else if about().any(Comparison::is_generator_saturated) {
            let line = "no regression found, but the load generator was saturated, which can hide \
                        one";
            console.tell(format_args!("{limit}: {line}"));
        }
    }
    match unknown {
        Some(line) if code == ExitCode::SUCCESS => bail!(line),
        _ => Ok(code),
    }
}

/// Reads all runs of one side; see [`paths_of`].
fn read(argument: &Path, console: &Console) -> anyhow::Result<Reading> {
    let reading = Reading::of_paths(&paths_of(argument)?, &mut *console.stdin());
    for line in &reading.notes {
        console.tell(line);
    }
    // A conclusion from some of the runs would look like one from all of them.
    match reading.problems.first() {
        Some(problem) => bail!(problem.clone()),
        None => Ok(reading),
    }
}

/// The name of these runs in sentences: the last component of the path.
fn name(path: &Path) -> String {
    match path.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => path.display().to_string(),
    }
}
