//! Our own documents: results of runs, and trials of sweeps.

use std::path::Path;

use plan::{Body, Load, Pacing, RequestSpec, Stage, shell};
use results::file::{load, load_trial};
use results::{RunResult, Trial, TrialOutcome};

use super::ReadError;
use crate::{Observation, TrialFacts, quantity};

/// Reads a saved result.
pub(super) fn read(document: &[u8], path: &Path) -> Result<Observation, ReadError> {
    let result = load(document).map_err(|error| damaged(path, error))?;
    Ok(of_result(path.display().to_string(), result))
}

/// Reads a trial of a sweep.
pub(super) fn read_trial(document: &[u8], path: &Path) -> Result<Observation, ReadError> {
    let trial = load_trial(document).map_err(|error| damaged(path, error))?;
    Ok(of_trial(path.display().to_string(), trial))
}

fn damaged(path: &Path, error: results::file::LoadError) -> ReadError {
    ReadError::Damaged {
        path: path.to_owned(),
        error,
    }
}

fn of_result(source: String, result: RunResult) -> Observation {
    let failure = failure_of(&result);
    Observation {
        source,
        profile: Some(load_in_words(&result)),
        target: Some(result.plan.target.url.clone()),
        run: 1,
        values: quantity::all_of_result(&result),
        result: Some(Box::new(result)),
        failure,
        ..Observation::default()
    }
}

/// Why a result is in no average. One that Ctrl-C ended has seen another stretch of time than the others of
/// its cell, and often but the beginning.
fn failure_of(result: &RunResult) -> Option<String> {
    if result.window.interrupted {
        return Some("ended early by Ctrl-C".to_owned());
    }
    (result.recording.counters.answered == 0).then(|| "nothing was answered".to_owned())
}

fn of_trial(source: String, trial: Trial) -> Observation {
    let facts = TrialFacts {
        started_at: trial.started_at,
        round: trial.round,
        is_baseline: trial.cell.is_baseline,
        failed_attempts: trial.failed_attempts,
        effective: trial.effective,
        environment_before: trial.environment_before,
        environment_after: trial.environment_after,
        hooks: trial.hooks,
    };
    let measured = match trial.outcome {
        TrialOutcome::Finished(result) => of_result(source, *result),
        TrialOutcome::Failed(reason) => Observation {
            source,
            failure: Some(reason),
            ..Observation::default()
        },
    };
    Observation {
        cell: Some(trial.cell.number),
        settings: trial.cell.settings,
        profile: trial.cell.profile,
        target: Some(trial.cell.target),
        run: trial.round,
        position: Some(trial.position),
        trial: Some(Box::new(facts)),
        ..measured
    }
}

/// The load as the command line says it, `-t12 -c400`: runs of the same words are taken for repetitions of each other,
/// so all that makes another load is in it.
fn load_in_words(result: &RunResult) -> String {
    let Load {
        threads,
        connections,
        pipeline,
        keepalive,
        requests_per_connection,
        source,
        batch_latency,
    } = &result.plan.load;
    let RequestSpec {
        method,
        headers,
        body,
        script,
        script_args,
    } = &result.plan.request;
    let mut words = vec![format!("-t{threads}"), format!("-c{connections}")];
    words.extend(pacing_in_words(&result.plan.pacing));
    if *batch_latency {
        words.push("-B".to_owned());
    }
    if let Some(source) = source {
        words.push(format!("-b {source}"));
    }
    if *pipeline > 1 {
        words.push(format!("--pipeline {pipeline}"));
    }
    if !*keepalive {
        words.push("--no-keepalive".to_owned());
    }
    if let Some(requests) = requests_per_connection {
        words.push(format!("--requests-per-connection {requests}"));
    }
    if let Some(method) = method {
        words.push(format!("-X {}", short(method)));
    }
    for (name, value) in headers {
        words.push(format!("-H {}", short(&format!("{name}: {value}"))));
    }
    match body {
        Some(Body::Inline(bytes)) => {
            words.push(format!("--body {}", short(&String::from_utf8_lossy(bytes))));
        }
        Some(Body::File(path)) => {
            words.push(format!("--body {}", short(&format!("@{}", path.display()))));
        }
        None => {}
    }
    if let Some(script) = script {
        words.push(format!("-s {}", short(&script.display().to_string())));
    }
    words.extend(script_args.iter().map(|word| short(word)));
    words.join(" ")
}

/// The rate, if there is one, and how it changes and is spread.
fn pacing_in_words(pacing: &Pacing) -> Vec<String> {
    let mut words = match pacing {
        Pacing::Closed => Vec::new(),
        Pacing::Constant { rate_per_sec, .. } => vec![format!("-R{rate_per_sec}")],
        Pacing::Stages { stages, .. } => {
            vec![format!("--stages {}", short(&Stage::list(stages)))]
        }
    };
    if pacing.random_seed().is_some() {
        words.push("--arrivals poisson".to_owned());
    }
    words
}

/// A word for a shell; of a long one its begin, and how long it is.
fn short(word: &str) -> String {
    const CHARS_MAX: usize = 60;
    let count = word.chars().count();
    if count <= CHARS_MAX {
        return shell::quoted(word);
    }
    let begin: String = word.chars().take(CHARS_MAX).collect();
    format!("{}... ({count} characters)", shell::quoted(&begin))
}
