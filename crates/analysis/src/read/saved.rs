//! Documents of wrkbench: results of runs, and trials of sweeps.

use std::path::Path;

use results::file::{load, load_trial};
use results::{RunResult, Trial, TrialOutcome};

use super::ReadError;
use results::metric;

use crate::{Observation, TrialFacts};

pub(super) fn read(document: &[u8], path: &Path) -> Result<Observation, ReadError> {
    let result = load(document).map_err(|error| damaged(path, error))?;
    Ok(of_result(path.display().to_string(), result))
}

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

impl Observation {
    /// A run that was just made, and is in no file.
    #[must_use]
    pub fn of_run(result: RunResult) -> Self {
        of_result(result.plan.target.url.clone(), result)
    }
}

fn of_result(source: String, result: RunResult) -> Observation {
    let failure = failure_of(&result);
    Observation {
        source,
        profile: Some(result.plan.load_name()),
        target: Some(result.plan.target.url.clone()),
        run: 1,
        values: metric::values(&result),
        result: Some(Box::new(result)),
        failure,
        ..Observation::default()
    }
}

/// Why a result is excluded from averages. A run ended by Ctrl-C covers a different span of time
/// than the other runs of its cell, often only the beginning.
pub(crate) fn failure_of(result: &RunResult) -> Option<String> {
    if result.window.interrupted {
        return Some("ended early by Ctrl-C".to_owned());
    }
    (!result.has_answers()).then(|| "nothing was answered".to_owned())
}

/// What tables and comparisons see of a trial.
pub(crate) fn of_trial(source: String, trial: Trial) -> Observation {
    let facts = TrialFacts {
        started_at: trial.started_at,
        round: trial.round,
        is_baseline: trial.cell.is_baseline,
        took_ms: trial.took_ms,
        search: trial.search,
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
