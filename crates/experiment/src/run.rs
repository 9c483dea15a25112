//! The loop: each planned trial in its turn with everything around it, and at the end the machine as it was.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use results::{
    Cell, EXPERIMENT_SCHEMA_VERSION, Experiment, HookOutput, RunResult, Trial, TrialOutcome,
};

use crate::change::Change;
use crate::design::Planned;
use crate::environment::observe;
use crate::factor::{Factor, FactorKind};
use crate::hooks::{Failure, await_ready, kept, run_hook, settle};
use crate::host::Host;
use crate::progress::Progress;
use crate::restore::RestoreReport;
use crate::spec::{Hook, Spec};
use crate::store::{Store, StoreError, samples_name, trial_name};
use crate::transaction::{SafetyError, Transaction};

/// What happens, as it happens.
#[derive(Debug)]
pub enum Event<'a> {
    /// A trial begins.
    Begins {
        /// What is run.
        planned: &'a Planned,
        /// Which attempt, from 1.
        attempt: u32,
        /// How far the experiment is.
        progress: &'a Progress,
    },
    /// A trial was measured and kept.
    Finished {
        /// What came of it.
        trial: &'a Trial,
        /// The same, for who does not want to look into the trial.
        result: &'a RunResult,
        /// How far the experiment is.
        progress: &'a Progress,
    },
    /// An attempt failed.
    Failed {
        /// What was run.
        planned: &'a Planned,
        /// Why.
        failure: &'a Failure,
        /// It is tried once more.
        again: bool,
        /// How far the experiment is.
        progress: &'a Progress,
    },
    /// Something that the user should know.
    Note(String),
}

/// One run to be made.
#[derive(Debug, Clone, Copy)]
pub struct Assignment<'a> {
    /// Of which cell.
    pub cell: &'a Cell,
    /// Where its samples go, if it takes any.
    pub samples: &'a Path,
}

/// What the loop needs of its context.
pub struct ExperimentContext<'a> {
    /// The machine.
    pub host: &'a mut dyn Host,
    /// Where trials go.
    pub store: &'a Store,
    /// Makes a run; the error is why there is none, in one line.
    pub run_one: &'a mut dyn FnMut(Assignment<'_>) -> Result<RunResult, String>,
    /// Is told what happens.
    pub observer: &'a mut dyn FnMut(Event<'_>),
    /// Whether the user has had enough.
    pub is_interrupted: &'a dyn Fn() -> bool,
    /// Whether the process was stopped (SIGSTOP) and has gone on since this was asked last.
    pub was_suspended: &'a dyn Fn() -> bool,
}

/// What is to be done: a plan that has been checked.
#[derive(Clone, Copy)]
pub struct ExperimentRun<'a> {
    /// The plan.
    pub spec: &'a Spec,
    /// Which experiment it is.
    pub experiment: &'a Experiment,
    /// Trials of the whole experiment.
    pub total: usize,
    /// The trials that are still to be made, in order.
    pub remaining: &'a [Planned],
    /// Kernel settings to write down before and after each run, beside those of the plan.
    pub sysctls: &'a [&'a str],
    /// How long a run of this cell takes by its options.
    pub nominal: &'a dyn Fn(&Cell) -> Duration,
}

/// Why an experiment ended before its last trial, other than by the user's wish.
#[derive(Debug, thiserror::Error)]
pub enum Abort {
    /// Before anything was changed.
    #[error("{}", .0.reason)]
    Setup(Failure),
    /// Trials fail one after the other.
    #[error(
        "{count} trials in a row failed, so the others are not tried (max_failures in the plan or --max-failures changes \
         this; 0: go on whatever fails)"
    )]
    Hopeless {
        /// How many.
        count: u32,
    },
    /// Nothing more can be changed safely.
    #[error(transparent)]
    Safety(#[from] SafetyError),
    /// Nothing more can be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How an experiment ended.
#[derive(Debug)]
pub struct ExperimentOutcome {
    /// Trials that were measured.
    pub finished: u32,
    /// Trials that failed at each attempt.
    pub failed: u32,
    /// Trials that were not made.
    pub left: u32,
    /// The user ended it.
    pub is_interrupted: bool,
    /// Why it could not go on.
    pub abort: Option<Abort>,
    /// What became of everything that was changed.
    pub restored: RestoreReport,
    /// Why the teardown failed.
    pub teardown_failure: Option<Failure>,
}

/// Makes the trials. Whatever happens, everything that was changed is put back, and the teardown runs if
/// the setup did.
pub fn run(
    run: ExperimentRun<'_>,
    mut transaction: Transaction,
    context: ExperimentContext<'_>,
) -> ExperimentOutcome {
    let mut sweep = Sweep {
        run,
        progress: Progress::new(
            run.total,
            run.experiment.rounds,
            run.remaining
                .iter()
                .map(|planned| (run.nominal)(&planned.cell)),
        ),
        context,
        applied: BTreeMap::new(),
        effective: BTreeMap::new(),
        needs_restart: false,
        failures_in_a_row: 0,
        finished: 0,
        failed: 0,
    };
    let ended = sweep
        .setup()
        .and_then(|()| sweep.make_trials(&mut transaction));
    let restored = transaction.restore_all(sweep.context.host);
    let teardown_failure = sweep.teardown();
    let made = sweep.finished + sweep.failed;
    ExperimentOutcome {
        finished: sweep.finished,
        failed: sweep.failed,
        left: u32::try_from(run.remaining.len()).unwrap_or(u32::MAX) - made,
        is_interrupted: matches!(ended, Err(EndReason::Interrupted)),
        abort: match ended {
            Err(EndReason::Abort(abort)) => Some(abort),
            Err(EndReason::Interrupted) | Ok(()) => None,
        },
        restored,
        teardown_failure,
    }
}

/// Why no further trial is made.
enum EndReason {
    Interrupted,
    Abort(Abort),
}

/// Why an attempt has no result.
enum AttemptError {
    Failed(Failure),
    Stop(EndReason),
}

impl From<EndReason> for AttemptError {
    fn from(stop: EndReason) -> Self {
        Self::Stop(stop)
    }
}

struct Sweep<'p, 's> {
    run: ExperimentRun<'p>,
    context: ExperimentContext<'s>,
    progress: Progress,
    /// Levels that the machine has, by factor; of a factor whose change failed nothing is known.
    applied: BTreeMap<String, String>,
    /// What the kernel made of the settings, by name.
    effective: BTreeMap<String, String>,
    /// Something that servers read at their start has changed since they were started, or nobody knows
    /// how they are.
    needs_restart: bool,
    failures_in_a_row: u32,
    finished: u32,
    failed: u32,
}

impl Sweep<'_, '_> {
    fn setup(&mut self) -> Result<(), EndReason> {
        let Some(hook) = &self.run.spec.hooks.setup else {
            return Ok(());
        };
        let environment = self.run.spec.environment();
        let (_, outcome) = self.command("setup", hook, &environment);
        outcome.map_err(|failure| EndReason::Abort(Abort::Setup(failure)))
    }

    fn teardown(&mut self) -> Option<Failure> {
        let hook = self.run.spec.hooks.teardown.as_ref()?;
        let environment = self.run.spec.environment();
        let (_, outcome) = self.command("teardown", hook, &environment);
        outcome.err()
    }

    fn make_trials(&mut self, transaction: &mut Transaction) -> Result<(), EndReason> {
        let spec = self.run.spec;
        if let Some(restart) = &spec.hooks.restart
            && spec.factors.iter().any(Factor::needs_restart)
        {
            // Servers that were started with changed settings take up the old ones.
            transaction
                .at_end(
                    self.context.host,
                    &restart.command,
                    spec.environment(),
                    restart.limit,
                )
                .map_err(|error| EndReason::Abort(error.into()))?;
        }
        self.run
            .remaining
            .iter()
            .try_for_each(|planned| self.make_trial(planned, transaction))
    }

    /// One trial, with as many attempts as it may have.
    fn make_trial(
        &mut self,
        planned: &Planned,
        transaction: &mut Transaction,
    ) -> Result<(), EndReason> {
        let most = self.run.spec.max_failures;
        if most > 0 && self.failures_in_a_row >= most {
            let count = self.failures_in_a_row;
            return Err(EndReason::Abort(Abort::Hopeless { count }));
        }
        let name = trial_name(self.run.experiment, planned);
        let begin_ns = self.context.host.now_ns();
        // Before it began.
        let _ = (self.context.was_suspended)();
        let mut trial = blank(self.run.experiment, planned);
        loop {
            self.check_over()?;
            let attempt = u32::try_from(trial.failed_attempts.len()).unwrap_or(u32::MAX) + 1;
            self.tell(|progress| Event::Begins {
                planned,
                attempt,
                progress,
            });
            trial.started_at = self.context.host.wall_clock();
            match self.attempt(&name, &mut trial, transaction) {
                Ok(result) => trial.outcome = TrialOutcome::Finished(Box::new(result)),
                Err(AttemptError::Stop(stop)) => return Err(stop),
                Err(AttemptError::Failed(failure)) => {
                    // A server with which something failed may be in any state.
                    self.needs_restart = true;
                    let again = attempt <= self.run.spec.retries;
                    self.tell(|progress| Event::Failed {
                        planned,
                        failure: &failure,
                        again,
                        progress,
                    });
                    if again {
                        trial.failed_attempts.push(failure.reason);
                        continue;
                    }
                    trial.outcome = TrialOutcome::Failed(failure.reason);
                }
            }
            break;
        }
        self.context
            .store
            .save(self.context.host, &name, &trial)
            .map_err(|error| EndReason::Abort(error.into()))?;
        let spent_ns = self.context.host.now_ns().saturating_sub(begin_ns);
        if (self.context.was_suspended)() {
            self.progress.skip();
        } else {
            self.progress.advance(Duration::from_nanos(spent_ns));
        }
        self.count(&trial);
        Ok(())
    }

    /// Everything from the levels to the machine after the run.
    fn attempt(
        &mut self,
        name: &str,
        trial: &mut Trial,
        transaction: &mut Transaction,
    ) -> Result<RunResult, AttemptError> {
        let spec = self.run.spec;
        let mut environment = spec.environment_of(&trial.cell);
        environment.insert("WRKBENCH_TRIAL".to_owned(), name.to_owned());
        environment.insert("WRKBENCH_ROUND".to_owned(), trial.round.to_string());
        self.set_levels(trial, &environment, transaction)?;
        self.check_over()?;
        if self.needs_restart
            && let Some(restart) = &spec.hooks.restart
        {
            self.hook("restart", restart, &environment, trial)?;
        }
        self.needs_restart = false;
        self.await_ready(&trial.cell)?;
        settle(
            self.context.host,
            spec.hooks.settle,
            self.context.is_interrupted,
        );
        self.check_over()?;
        if let Some(before) = &spec.hooks.before {
            self.hook("before", before, &environment, trial)?;
        }
        self.check_over()?;
        trial.environment_before = self.observe();
        let samples = self.context.store.samples_path(name);
        let result = (self.context.run_one)(Assignment {
            cell: &trial.cell,
            samples: &samples,
        });
        trial.environment_after = self.observe();
        let has_samples = spec.telemetry.as_ref().is_some_and(|t| t.sockets.is_some());
        trial.samples_file = has_samples.then(|| samples_name(name));
        let result = match result {
            Ok(result) if result.window.interrupted => return Err(EndReason::Interrupted.into()),
            Ok(result) => result,
            Err(reason) => {
                // Nothing is learnt from a run that the user has ended.
                self.check_over()?;
                return Err(AttemptError::Failed(reason.into()));
            }
        };
        if let Some(after) = &spec.hooks.after {
            self.hook("after", after, &environment, trial)?;
        }
        self.check_effective(&trial.environment_after)
            .map_err(|reason| AttemptError::Failed(reason.into()))?;
        Ok(result)
    }

    /// Changes what the machine does not have yet.
    fn set_levels(
        &mut self,
        trial: &mut Trial,
        environment: &BTreeMap<String, String>,
        transaction: &mut Transaction,
    ) -> Result<(), AttemptError> {
        let spec = self.run.spec;
        for setting in trial.cell.settings.clone() {
            let Some(factor) = spec.factor(&setting.factor) else {
                continue;
            };
            if self.applied.get(&factor.name) == Some(&setting.level) {
                continue;
            }
            self.applied.remove(&factor.name);
            if factor.needs_restart() {
                self.needs_restart = true;
            }
            let host = &*self.context.host;
            let changes = factor
                .changes(&setting.level, |path| host.read(path))
                .map_err(|error| AttemptError::Failed(error.to_string().into()))?;
            for change in &changes {
                self.change(factor, change, trial, transaction)?;
            }
            if let FactorKind::File {
                check: Some(check), ..
            } = &factor.kind
            {
                let hook = format!("check of {}", factor.name);
                let kept = run_hook(
                    self.context.host,
                    &hook,
                    &check.command,
                    environment,
                    check.limit,
                );
                keep(kept, trial)?;
            }
            self.applied.insert(setting.factor, setting.level);
        }
        let now = self.observe_keys(self.effective.keys().map(String::as_str));
        self.check_effective(&now)
            .map_err(|reason| AttemptError::Failed(reason.into()))?;
        trial.effective.clone_from(&self.effective);
        Ok(())
    }

    fn change(
        &mut self,
        factor: &Factor,
        change: &Change,
        trial: &mut Trial,
        transaction: &mut Transaction,
    ) -> Result<(), AttemptError> {
        let made = transaction.change(self.context.host, change);
        if let Change::Command { apply, .. } = change {
            let output = match &made {
                Ok(effective) => effective.output.as_ref(),
                Err(SafetyError::Apply { output, .. }) => Some(&**output),
                Err(_) => None,
            };
            if let Some(output) = output {
                trial.hooks.push(kept("apply", apply, output));
            }
        }
        let effective = match made {
            Ok(effective) => effective,
            // Without a journal or a guardian, or beside another sweep, nothing may be changed any more.
            Err(
                error @ (SafetyError::Journal { .. }
                | SafetyError::Guardian(_)
                | SafetyError::Claimed { .. }),
            ) => {
                return Err(EndReason::Abort(error.into()).into());
            }
            Err(error) => {
                return Err(AttemptError::Failed(Failure {
                    reason: error.to_string(),
                    said: match &error {
                        SafetyError::Apply { output, .. } => output.last_lines(),
                        _ => Vec::new(),
                    },
                }));
            }
        };
        if let (Change::Sysctl { key, value }, Some(took)) = (change, effective.value) {
            let took = words(&took);
            if took != words(value) {
                let name = &factor.name;
                self.note(format!(
                    "{name}: {key} was set to {value}, and the kernel made {took} of it"
                ));
            }
            self.effective.insert(key.clone(), took);
        }
        Ok(())
    }

    fn await_ready(&mut self, cell: &Cell) -> Result<(), AttemptError> {
        let spec = self.run.spec;
        let Some(ready) = &spec.hooks.ready else {
            return Ok(());
        };
        let target = spec.target(&cell.target).map(|target| &target.url);
        let Some(url) = ready.url.as_ref().or(target) else {
            return Ok(());
        };
        await_ready(
            self.context.host,
            url,
            |status| ready.takes(status),
            ready.within,
            self.context.is_interrupted,
        )
        .map_err(|failure| match failure {
            Some(reason) => AttemptError::Failed(reason.into()),
            None => EndReason::Interrupted.into(),
        })
    }

    fn hook(
        &mut self,
        name: &str,
        hook: &Hook,
        environment: &BTreeMap<String, String>,
        trial: &mut Trial,
    ) -> Result<(), AttemptError> {
        keep(self.command(name, hook, environment), trial)
    }

    fn command(
        &mut self,
        name: &str,
        hook: &Hook,
        environment: &BTreeMap<String, String>,
    ) -> (HookOutput, Result<(), Failure>) {
        let host = &mut *self.context.host;
        run_hook(host, name, &hook.command, environment, hook.limit)
    }

    /// Nobody else may have changed what the trial is about.
    fn check_effective(&self, now: &BTreeMap<String, String>) -> Result<(), String> {
        for (key, set) in &self.effective {
            let now = now.get(key).map_or("unknown", String::as_str);
            if now != set {
                return Err(format!(
                    "{key} is {now}, and was {set} when the level was set: someone else changes it"
                ));
            }
        }
        Ok(())
    }

    fn observe(&self) -> BTreeMap<String, String> {
        let of_plan = self.run.spec.sysctls();
        self.observe_keys(of_plan.into_iter().chain(self.run.sysctls.iter().copied()))
    }

    fn observe_keys<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k str>,
    ) -> BTreeMap<String, String> {
        observe(self.context.host, keys)
    }

    fn check_over(&self) -> Result<(), EndReason> {
        if (self.context.is_interrupted)() {
            return Err(EndReason::Interrupted);
        }
        Ok(())
    }

    fn count(&mut self, trial: &Trial) {
        if let TrialOutcome::Finished(result) = &trial.outcome {
            self.finished += 1;
            self.failures_in_a_row = 0;
            self.tell(|progress| Event::Finished {
                trial,
                result,
                progress,
            });
            return;
        }
        self.failed += 1;
        self.failures_in_a_row += 1;
    }

    fn note(&mut self, text: String) {
        (self.context.observer)(Event::Note(text));
    }

    fn tell<'e>(&'e mut self, event: impl FnOnce(&'e Progress) -> Event<'e>) {
        (self.context.observer)(event(&self.progress));
    }
}

/// The trial before anything of it has happened.
fn blank(experiment: &Experiment, planned: &Planned) -> Trial {
    Trial {
        schema_version: EXPERIMENT_SCHEMA_VERSION,
        experiment: experiment.name.clone(),
        cell: planned.cell.clone(),
        round: planned.round,
        repeat: planned.repeat,
        position: planned.position,
        started_at: None,
        failed_attempts: Vec::new(),
        outcome: TrialOutcome::Failed("not made".to_owned()),
        effective: BTreeMap::new(),
        environment_before: BTreeMap::new(),
        environment_after: BTreeMap::new(),
        hooks: Vec::new(),
        samples_file: None,
    }
}

/// Writes down what a command said; its failure is that of the attempt.
fn keep(
    (output, outcome): (HookOutput, Result<(), Failure>),
    trial: &mut Trial,
) -> Result<(), AttemptError> {
    trial.hooks.push(output);
    outcome.map_err(AttemptError::Failed)
}

/// A setting as it is compared: the kernel puts tabs between numbers.
fn words(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}
