//! Resuming an experiment: whether it is still the same, and what is left of it.

use std::path::PathBuf;

use results::{Experiment, TrialOutcome};
use toml::{Table, Value};

use crate::design::Planned;
use crate::host::Host;
use crate::judgement::Judgement;
use crate::spec::InvalidRounds;
use crate::store::{Store, StoreError, trial_name};

/// Keys that may change while an experiment runs: none of them affects what is measured. Rounds can
/// be added.
const FREE_KEYS: [&str; 7] = [
    "judge",
    "max_failures",
    "results",
    "retries",
    "rounds",
    "threshold",
    "until",
];

/// The most differences that a message lists.
const SHOWN_DIFFERENCES: usize = 5;

/// Why an experiment cannot be started or resumed; one line each.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The folder holds results, and --resume was not given.
    #[error(
        "{} holds results of {name:?}{}: choose another folder (--results DIR), or resume it",
        folder.display(),
        started_at.as_ref().map_or_else(String::new, |at| format!(", started {at}"))
    )]
    Occupied {
        folder: PathBuf,
        /// Name of its experiment.
        name: String,
        /// When that experiment started, RFC 3339; `None` if it was not recorded.
        started_at: Option<String>,
    },
    /// The experiment file has changed.
    #[error(
        "cannot resume: the experiment file has changed since the sweep in {} started: {}",
        folder.display(),
        differences.join("; ")
    )]
    Changed {
        folder: PathBuf,
        /// The differences, each as a phrase; at most five are shown.
        differences: Vec<String>,
    },
    /// --resume was given, and the folder holds no results.
    #[error(
        "no sweep to resume in {}: give its folder with --results, or start a new one without \
         --resume",
        folder.display()
    )]
    NothingToResume { folder: PathBuf },
    /// The number of rounds cannot be used.
    #[error("--rounds {rounds}: {problem}")]
    Rounds {
        /// The number that was asked for.
        rounds: u32,
        problem: InvalidRounds,
    },
    /// The folder's content cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What the command line says about the experiment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResumeOptions {
    /// Continue the experiment in the folder.
    pub resume: bool,
    /// Seed of the order; `None` takes the seed of the experiment.
    pub seed: Option<u64>,
    /// Number of rounds; `None` takes that of the file if it was edited, else that of the
    /// experiment.
    pub rounds: Option<u32>,
    /// How it is judged, in place of what the file says.
    pub judgement: Judgement,
}

/// The experiment to resume, with its seed and at least its rounds; `None` to start a new one.
///
/// # Errors
/// When the folder holds another experiment, or this one with different settings.
pub(crate) fn existing_experiment(
    host: &dyn Host,
    store: &Store,
    plan_toml: &str,
    options: &ResumeOptions,
) -> Result<Option<Experiment>, ResumeError> {
    let Some(present) = store.experiment(host)? else {
        return Ok(None);
    };
    let folder = store.folder().to_owned();
    if !options.resume {
        return Err(ResumeError::Occupied {
            folder,
            name: present.name,
            started_at: present.started_at,
        });
    }
    let mut differences = file_differences(&present.plan_toml, plan_toml);
    if let Some(seed) = options.seed.filter(|seed| *seed != present.seed) {
        differences.push(format!("--seed: was {}, is {seed}", present.seed));
    }
    let rounds = options.rounds.or_else(|| {
        let [before, now] = [&present.plan_toml, plan_toml].map(rounds_of);
        now.filter(|_| before != now)
    });
    let rounds = rounds.unwrap_or(present.rounds);
    if rounds < present.rounds {
        differences.push(format!(
            "rounds: were {}, are {rounds}; they can only be increased",
            present.rounds
        ));
    }
    if !differences.is_empty() {
        return Err(ResumeError::Changed {
            folder,
            differences,
        });
    }
    Ok(Some(Experiment { rounds, ..present }))
}

/// What is left of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Remaining {
    /// The trials that were not measured yet, in order.
    pub trials: Vec<Planned>,
    /// Unexpected findings, a line each.
    pub notes: Vec<String>,
}

/// Finds the trials that were not measured yet. Failed trials, and those whose file is damaged, are
/// run again.
pub(crate) fn remaining(
    host: &dyn Host,
    store: &Store,
    experiment: &Experiment,
    schedule: &[Planned],
) -> Remaining {
    let mut notes = Vec::new();
    let mut is_left = |planned: &Planned| {
        let name = trial_name(experiment, planned);
        match store.trial(host, &name) {
            Ok(None) => true,
            Ok(Some(trial)) => {
                let is_this = trial.cell == planned.cell
                    && (trial.round, trial.repeat, trial.position)
                        == (planned.round, planned.repeat, planned.position);
                if !is_this {
                    notes.push(format!(
                        "trial {name} belongs to another experiment; it will be repeated"
                    ));
                }
                !is_this || matches!(trial.outcome, TrialOutcome::Failed(_))
            }
            Err(error) => {
                notes.push(format!("{error}; the trial will be repeated"));
                true
            }
        }
    };
    let trials = schedule.iter().filter(|planned| is_left(planned));
    Remaining {
        trials: trials.cloned().collect(),
        notes,
    }
}

fn rounds_of(plan_toml: &str) -> Option<u32> {
    let file: Table = plan_toml.parse().ok()?;
    u32::try_from(file.get("rounds")?.as_integer()?).ok()
}

/// How two experiment files differ, apart from layout and comments.
fn file_differences(before: &str, now: &str) -> Vec<String> {
    if before == now {
        return Vec::new();
    }
    let (Ok(before), Ok(now)) = (before.parse::<Table>(), now.parse::<Table>()) else {
        return vec!["its text".to_owned()];
    };
    let mut found = Vec::new();
    let free = |file: Table| -> Table {
        file.into_iter()
            .filter(|(key, _)| !FREE_KEYS.contains(&key.as_str()))
            .collect()
    };
    compare(
        "",
        &Value::Table(free(before)),
        &Value::Table(free(now)),
        &mut found,
    );
    if found.len() > SHOWN_DIFFERENCES {
        let more = found.len() - SHOWN_DIFFERENCES;
        found.truncate(SHOWN_DIFFERENCES);
        found.push(format!("and {more} more"));
    }
    found
}

/// Records differences at the innermost place that has a name.
fn compare(place: &str, before: &Value, now: &Value, found: &mut Vec<String>) {
    let inner = |key: &dyn std::fmt::Display| match place {
        "" => key.to_string(),
        _ => format!("{place}.{key}"),
    };
    match (before, now) {
        (Value::Table(before), Value::Table(now)) => {
            for (key, was) in before {
                match now.get(key) {
                    Some(is) => compare(&inner(key), was, is, found),
                    None => found.push(format!("{}: was {}, is missing", inner(key), shown(was))),
                }
            }
            for (key, is) in now {
                if !before.contains_key(key) {
                    found.push(format!("{}: is new, {}", inner(key), shown(is)));
                }
            }
        }
        (Value::Array(before), Value::Array(now))
            if before.len() == now.len() && before.iter().chain(now).all(Value::is_table) =>
        {
            for (at, (was, is)) in before.iter().zip(now).enumerate() {
                compare(&inner(&(at + 1)), was, is, found);
            }
        }
        _ if before == now => {}
        _ => found.push(format!("{place}: was {}, is {}", shown(before), shown(now))),
    }
}

/// On one line, shortened.
fn shown(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string().replace('\n', " ");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "name = 'x'\nrounds = 2\nresults = 'here'\n[load]\nconnections = 4\n\
                        [[factor]]\nname = 'a'\nlevels = [1, 2]\n";

    fn differences(change: impl Fn(&str) -> String) -> Vec<String> {
        file_differences(PLAN, &change(PLAN))
    }

    #[test]
    fn a_file_with_the_same_meaning_has_not_changed() {
        for changed in [
            PLAN.to_owned(),
            PLAN.replace("rounds = 2", "# more\nrounds = 9"),
            PLAN.replace("'here'", "\"there\" # moved"),
            PLAN.replace("[1, 2]", "[\n  1,\n  2,\n]"),
        ] {
            assert_eq!(file_differences(PLAN, &changed), Vec::<String>::new());
        }
    }

    #[test]
    fn differences_are_named_by_their_key() {
        assert_eq!(
            differences(|plan| plan.replace("connections = 4", "threads = 1")),
            [
                "load.connections: was 4, is missing",
                "load.threads: is new, 1"
            ]
        );
        assert_eq!(
            differences(|plan| plan.replace("[1, 2]", "[1, 3]")),
            ["factor.1.levels: was [1, 2], is [1, 3]"]
        );
        assert_eq!(differences(|_| "= not toml".to_owned()), ["its text"]);
        let many: String = (0..9).map(|n| format!("k{n} = 1\n")).collect();
        let many = differences(|plan| format!("{many}{plan}"));
        assert_eq!(many.last().map(String::as_str), Some("and 4 more"));
    }
}
