//! The loop over the trials of an experiment, with hooks and changes, and the restore at the end.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use plan::readable::counted;
use plan::secrets::hide_secrets;
use results::{
    Cell, EXPERIMENT_SCHEMA_VERSION, Experiment, HookOutput, RunResult, Trial, TrialOutcome,
};

use crate::change::Change;
use crate::design::Planned;
use crate::environment::{normal, observe};
use crate::factor::{Factor, FactorKind};
use crate::hooks::{Failure, await_idle, await_ready, kept, later, run_hook, settle};
use crate::host::{CommandOutput, Host};
use crate::policy::Policy;
use crate::prepared::keeps_secrets;
use crate::progress::ExperimentProgress;
use crate::remote::{Machines, RemoteHost, RemoteHosts, label_on, name_on};
use crate::restore::{RestoreOutcome, RestoreReport, RestoreStep};
use crate::safety::SafetyError;
use crate::spec::{Hook, Spec};
use crate::store::{Store, StoreError, samples_name, trial_name};
use crate::transaction::{Effective, Transaction};

/// What happens in an experiment, reported to the caller at that moment.
#[derive(Debug)]
pub enum Event<'a> {
    /// An attempt of a trial begins.
    Begins {
        planned: &'a Planned,
        /// Which attempt, from 1.
        attempt: u32,
        /// How much of the experiment is done.
        progress: &'a ExperimentProgress,
    },
    /// A trial was measured and saved.
    Finished {
        /// The trial with its outcome.
        trial: &'a Trial,
        result: &'a RunResult,
        /// How much of the experiment is done.
        progress: &'a ExperimentProgress,
    },
    /// An attempt of a trial failed.
    Failed {
        planned: &'a Planned,
        failure: &'a Failure,
        /// Whether another attempt follows.
        again: bool,
        /// How much of the experiment is done.
        progress: &'a ExperimentProgress,
    },
    /// A level is tried before the first trial.
    Tries {
        /// The cell with which the level is tried.
        planned: &'a Planned,
        /// Number of the try, from 1.
        number: usize,
        /// How many tries there are.
        of: usize,
    },
    /// The tried level did not work.
    TryFailed {
        /// The cell with which the level was tried.
        planned: &'a Planned,
        /// Number of the try, from 1.
        number: usize,
        /// How many tries there are.
        of: usize,
        failure: &'a Failure,
    },
    /// Information for the user.
    Note(String),
}

/// One run to be made.
#[derive(Debug, Clone, Copy)]
pub struct Assignment<'a> {
    /// The trial that it is for.
    pub planned: &'a Planned,
    /// Only a few requests, to see whether the run works at all.
    pub is_try: bool,
    /// Where its samples go, if it takes any.
    pub samples: &'a Path,
}

/// What an experiment needs from its caller.
pub struct ExperimentContext<'a> {
    /// The machine that the program runs on.
    pub host: &'a mut dyn Host,
    /// The other machines that the experiment names; see [`crate::begin_on_all`].
    pub others: &'a mut RemoteHosts,
    /// Where trials are saved.
    pub store: &'a Store,
    /// Makes the run of a trial; the error is the reason for its failure.
    pub run_one: &'a mut dyn FnMut(Assignment<'_>) -> Result<RunResult, Failure>,
    /// Called with each event.
    pub observer: &'a mut dyn FnMut(Event<'_>),
    /// Whether the user has interrupted the experiment.
    pub is_interrupted: &'a dyn Fn() -> bool,
    /// Whether the process was stopped (SIGSTOP) and continued since the last call.
    pub was_suspended: &'a dyn Fn() -> bool,
}

/// An experiment that has been checked.
#[derive(Clone, Copy)]
pub struct ExperimentRun<'a> {
    pub spec: &'a Spec,
    /// The experiment as it is saved.
    pub experiment: &'a Experiment,
    /// How many of its trials an earlier start has made.
    pub done: usize,
    /// Short runs before the first trial, which show that every level works; see
    /// [`crate::PreparedExperiment::tries`].
    pub tries: &'a [Planned],
    /// No trial begins that would end after this moment of [`Host::now_ns`].
    pub deadline_ns: Option<u64>,
    /// Kernel settings to record before and after each run, in addition to those of the factors.
    pub sysctls: &'a [&'a str],
    /// The nominal duration of a trial's run.
    pub nominal: &'a dyn Fn(&Planned) -> Duration,
    /// Whether runs with samples of sockets write them to a file; those of a fleet do not.
    pub keeps_samples: bool,
}

/// Why an experiment ended before its last trial without an interrupt.
#[derive(Debug, thiserror::Error)]
pub enum Abort {
    /// The setup hook failed; nothing was changed.
    #[error("{}", .0.reason)]
    Setup(Failure),
    /// Too many trials failed in a row.
    #[error(
        "{} failed in a row, so the others were skipped (max_failures in the experiment file or \
         --max-failures sets the limit; 0 means no limit)",
        counted(u64::from(*count), "trial")
    )]
    Hopeless {
        /// How many trials failed in a row.
        count: u32,
    },
    /// Levels do not work, so no trial was made.
    #[error(
        "{} failed, so nothing was measured (correct or exclude the levels, or skip the tries \
         with --no-try)",
        counted(u64::from(*count), "first try")
    )]
    Tries {
        /// How many tries failed.
        count: u32,
    },
    /// No further change can be made safely.
    #[error(transparent)]
    Safety(#[from] SafetyError),
    /// Results cannot be saved.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How an experiment ended.
#[derive(Debug)]
pub struct ExperimentOutcome {
    /// Trials that were measured.
    pub finished: u32,
    /// Trials that failed every attempt.
    pub failed: u32,
    /// Trials that were not made.
    pub left: u32,
    /// The user interrupted it.
    pub is_interrupted: bool,
    /// Its time was over.
    pub is_out_of_time: bool,
    /// Why it was aborted.
    pub abort: Option<Abort>,
    /// What happened to everything that was changed on this machine.
    pub restored: RestoreReport,
    /// The same on the other machines.
    pub restored_elsewhere: BTreeMap<String, RestoreReport>,
    /// Why the teardown hook failed.
    pub teardown_failure: Option<Failure>,
}

/// Runs the trials that the policy names. Whatever happens, everything that was changed is
/// restored, and the teardown hook runs if the setup hook did.
pub fn run(
    run: ExperimentRun<'_>,
    policy: &mut dyn Policy,
    mut transaction: Transaction,
    context: ExperimentContext<'_>,
) -> ExperimentOutcome {
    let left = policy.left(run.nominal);
    let mut sweep = Sweep {
        run,
        progress: ExperimentProgress::new(run.experiment.rounds, run.done, left),
        context,
        applied: BTreeMap::new(),
        effective: BTreeMap::new(),
        has_changed: false,
        needs_restart: false,
        failures_in_a_row: 0,
        finished: 0,
        failed: 0,
    };
    let ended = sweep
        .setup()
        .and_then(|()| sweep.make_trials(policy, &mut transaction));
    let (restored, restored_elsewhere) = sweep.restore(transaction);
    let teardown_failure = sweep.teardown();
    let left = match ended {
        Ok(()) => 0,
        // The trial that could not be saved has to be made again.
        Err(EndReason::Abort(Abort::Store(_))) => policy.left(run.nominal).trials + 1,
        Err(_) => policy.left(run.nominal).trials,
    };
    ExperimentOutcome {
        finished: sweep.finished,
        failed: sweep.failed,
        left: u32::try_from(left).unwrap_or(u32::MAX),
        is_interrupted: matches!(ended, Err(EndReason::Interrupted)),
        is_out_of_time: matches!(ended, Err(EndReason::OutOfTime)),
        abort: match ended {
            Err(EndReason::Abort(abort)) => Some(abort),
            Err(EndReason::Interrupted | EndReason::OutOfTime) | Ok(()) => None,
        },
        restored,
        restored_elsewhere,
        teardown_failure,
    }
}

/// Why no further trial is run.
enum EndReason {
    Interrupted,
    OutOfTime,
    Abort(Abort),
}

impl<E> From<E> for EndReason
where
    Abort: From<E>,
{
    fn from(abort: E) -> Self {
        Self::Abort(abort.into())
    }
}

/// Why an attempt has no result.
enum AttemptError {
    Failed(Failure),
    Stop(EndReason),
}

impl From<Failure> for AttemptError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<String> for AttemptError {
    fn from(reason: String) -> Self {
        Self::Failed(reason.into())
    }
}

impl From<EndReason> for AttemptError {
    fn from(stop: EndReason) -> Self {
        Self::Stop(stop)
    }
}

struct Sweep<'p, 's> {
    run: ExperimentRun<'p>,
    context: ExperimentContext<'s>,
    progress: ExperimentProgress,
    /// The levels that are set, by factor. A factor whose change failed is absent.
    applied: BTreeMap<String, String>,
    /// The settings as read back from the kernel, by machine and name.
    effective: BTreeMap<(Option<String>, String), String>,
    /// Whether a change was attempted on any machine.
    has_changed: bool,
    /// Servers must be restarted: something that they read at start has changed since, or their
    /// state is unknown.
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
        Ok(outcome.map_err(Abort::Setup)?)
    }

    fn teardown(&mut self) -> Option<Failure> {
        let hook = self.run.spec.hooks.teardown.as_ref()?;
        let environment = self.run.spec.environment();
        let (_, outcome) = self.command("teardown", hook, &environment);
        outcome.err()
    }

    fn make_trials(
        &mut self,
        policy: &mut dyn Policy,
        transaction: &mut Transaction,
    ) -> Result<(), EndReason> {
        let spec = self.run.spec;
        if let Some(restart) = &spec.hooks.restart
            && has_factors_of(spec, restart)
        {
            // Servers that were started with changed settings take up the old ones.
            let noted = Change::AtEnd {
                command: restart.command.clone(),
                environment: spec.environment(),
                limit: restart.limit,
            };
            self.change_on(restart.host.as_deref(), &noted, transaction)?;
        }
        self.try_levels(transaction)?;
        while let Some(planned) = policy.next() {
            let takes = self.progress.expected((self.run.nominal)(&planned));
            let ends_ns = later(self.context.host.now_ns(), takes);
            let deadline_ns = self.run.deadline_ns;
            if deadline_ns.is_some_and(|deadline_ns| ends_ns > deadline_ns) {
                return Err(EndReason::OutOfTime);
            }
            self.make_trial(&planned, policy, transaction)?;
        }
        Ok(())
    }

    /// Makes the tries, all of them unless too many fail in a row: one start then shows all levels
    /// that do not work.
    fn try_levels(&mut self, transaction: &mut Transaction) -> Result<(), EndReason> {
        let tries = self.run.tries;
        let most = self.run.spec.max_failures;
        let (mut failed, mut in_a_row) = (0, 0);
        for (planned, number) in tries.iter().zip(1..) {
            self.check_over()?;
            let of = tries.len();
            (self.context.observer)(Event::Tries {
                planned,
                number,
                of,
            });
            let mut trial = blank(self.run.experiment, planned);
            let attempted = self.attempt(planned, "try", true, &mut trial, transaction);
            if attempted.is_err() {
                self.check_hosts()?;
            }
            match attempted {
                Ok(_) => in_a_row = 0,
                Err(AttemptError::Stop(stop)) => return Err(stop),
                Err(AttemptError::Failed(failure)) => {
                    self.needs_restart = true;
                    failed += 1;
                    in_a_row += 1;
                    (self.context.observer)(Event::TryFailed {
                        planned,
                        number,
                        of,
                        failure: &failure,
                    });
                }
            }
            if most > 0 && in_a_row >= most {
                break;
            }
        }
        match failed {
            0 => Ok(()),
            count => Err(Abort::Tries { count }.into()),
        }
    }

    /// Restores all machines, that of the restart hook last.
    fn restore(
        &mut self,
        transaction: Transaction,
    ) -> (RestoreReport, BTreeMap<String, RestoreReport>) {
        let restart = self.run.spec.hooks.restart.as_ref();
        let last = restart.and_then(|restart| restart.host.clone());
        let mut elsewhere = BTreeMap::new();
        for (name, host) in self.context.others.iter_mut() {
            if Some(name) != last.as_ref() {
                elsewhere.insert(name.clone(), host.restore_all());
            }
        }
        let mut here = transaction.restore_all(self.context.host);
        if let Some(name) = last
            && let Some(host) = self.context.others.get_mut(&name)
        {
            elsewhere.insert(name, host.restore_all());
        }
        // If only other machines were changed, no journal has the hook.
        if let Some(restart) = restart.filter(|restart| !has_factors_of(self.run.spec, restart))
            && self.has_changed
        {
            here.steps.push(self.restart_at_end(restart));
        }
        (here, elsewhere)
    }

    fn restart_at_end(&mut self, restart: &Hook) -> RestoreStep {
        let environment = self.run.spec.environment();
        let (_, ended) = self.command("restart", restart, &environment);
        let (outcome, said) = match ended {
            Ok(()) => (RestoreOutcome::Ran, Vec::new()),
            Err(Failure { reason, said }) => {
                let (why, is_kept) = (reason, true);
                (RestoreOutcome::NotRun { why, is_kept }, said)
            }
        };
        RestoreStep {
            what: label_on(restart.host.as_deref(), "restart hook"),
            outcome,
            said,
            command: String::new(),
        }
    }

    /// One trial, with as many attempts as are allowed.
    fn make_trial(
        &mut self,
        planned: &Planned,
        policy: &mut dyn Policy,
        transaction: &mut Transaction,
    ) -> Result<(), EndReason> {
        let most = self.run.spec.max_failures;
        if most > 0 && self.failures_in_a_row >= most {
            let count = self.failures_in_a_row;
            return Err(Abort::Hopeless { count }.into());
        }
        let name = trial_name(self.run.experiment, planned);
        let begin_ns = self.context.host.now_ns();
        // Ignores a stop from before the trial.
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
            let attempted = self.attempt(planned, &name, false, &mut trial, transaction);
            if attempted.is_err() {
                // A machine that was lost has ended the run as well.
                self.check_hosts()?;
            }
            match attempted {
                Ok(result) => trial.outcome = TrialOutcome::Finished(Box::new(result)),
                Err(AttemptError::Stop(stop)) => return Err(stop),
                Err(AttemptError::Failed(failure)) => {
                    // After a failure the state of the servers is unknown.
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
        let took = Duration::from_nanos(self.context.host.now_ns().saturating_sub(begin_ns));
        trial.took_ms = Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        policy.record(&mut trial);
        if !keeps_secrets(self.run.spec) {
            for hook in &mut trial.hooks {
                for text in [&mut hook.command, &mut hook.stdout, &mut hook.stderr] {
                    *text = hide_secrets(text);
                }
            }
        }
        let store = self.context.store;
        store.save(self.context.host, &name, &trial)?;
        let took = (!(self.context.was_suspended)()).then_some(took);
        let (nominal, left) = (self.run.nominal, policy.left(self.run.nominal));
        self.progress.advance(nominal(planned), took, left);
        self.count(&trial);
        Ok(())
    }

    /// From setting the levels to observing the machine after the run.
    fn attempt(
        &mut self,
        planned: &Planned,
        name: &str,
        is_try: bool,
        trial: &mut Trial,
        transaction: &mut Transaction,
    ) -> Result<RunResult, AttemptError> {
        let spec = self.run.spec;
        let mut environment = spec.environment_of(&trial.cell);
        environment.insert("WRKBENCH_TRIAL".to_owned(), name.to_owned());
        environment.insert("WRKBENCH_ROUND".to_owned(), trial.round.to_string());
        self.set_levels(trial, &environment, transaction)?;
        self.check_over()?;
        let hooks = &spec.hooks;
        let restart = hooks.restart.as_ref().filter(|_| self.needs_restart);
        let is_restarted = restart.is_some();
        self.hook("restart", restart, &environment, trial)?;
        self.needs_restart = false;
        let target = spec.target(&trial.cell.target);
        let before = target.and_then(|target| target.before.as_ref());
        self.hook("before", before, &environment, trial)?;
        let is_ready = self.await_ready(&trial.cell);
        is_ready.map_err(|error| {
            if is_restarted {
                after_restart(error)
            } else {
                error
            }
        })?;
        let is_interrupted = self.context.is_interrupted;
        settle(self.context.host, hooks.settle, is_interrupted);
        self.check_over()?;
        self.hook("before", hooks.before.as_ref(), &environment, trial)?;
        self.check_over()?;
        if let Some(target) = target.filter(|_| planned.step.is_some()) {
            await_idle(self.context.host, &target.url);
            self.check_over()?;
        }
        trial.environment_before = self.observe();
        let samples = self.context.store.samples_path(name);
        let result = (self.context.run_one)(Assignment {
            planned,
            is_try,
            samples: &samples,
        });
        trial.environment_after = self.observe();
        let has_samples = spec.telemetry.as_ref().is_some_and(|t| t.sockets.is_some());
        let is_kept = has_samples && self.run.keeps_samples;
        trial.samples_file = is_kept.then(|| samples_name(name));
        let result = match result {
            Ok(result) if result.window.interrupted => return Err(EndReason::Interrupted.into()),
            Ok(result) => result,
            Err(failure) => {
                // An interrupted run says nothing.
                self.check_over()?;
                let is_too_early = is_try && is_restarted && hooks.ready.is_none();
                return Err(if is_too_early {
                    format!("{failure} ({NOT_AWAITED})").into()
                } else {
                    failure.into()
                });
            }
        };
        let after = target.and_then(|target| target.after.as_ref());
        self.hook("after", after, &environment, trial)?;
        self.hook("after", hooks.after.as_ref(), &environment, trial)?;
        self.check_effective(&trial.environment_after)?;
        // Settings that are restored meanwhile are not those of the run.
        self.check_hosts()?;
        Ok(result)
    }

    /// Changes what is not set yet.
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
                .map_err(|error| error.to_string())?;
            for mut change in changes {
                // Another machine does not have the folder.
                if let (Change::Command { environment, .. }, None) = (&mut change, &factor.host) {
                    environment.extend(spec.environment());
                }
                self.change(factor, &change, trial, transaction)?;
            }
            if let FactorKind::File {
                check: Some(check), ..
            } = &factor.kind
            {
                let hook = Hook {
                    command: check.command.clone(),
                    limit: check.limit,
                    host: factor.host.clone(),
                    line: factor.line,
                };
                let name = format!("check of {}", factor.name);
                self.hook(&name, Some(&hook), environment, trial)?;
            }
            self.applied.insert(setting.factor, setting.level);
        }
        let mut now = BTreeMap::new();
        for host in self.hosts() {
            let is_there = |(of, _): &&(Option<String>, String)| *of == host;
            let keys = self.effective.keys().filter(is_there);
            let keys: Vec<String> = keys.map(|(_, key)| key.clone()).collect();
            if !keys.is_empty() {
                now.extend(self.observe_on(host.as_deref(), keys));
            }
        }
        self.check_effective(&now)?;
        let named = self.effective.iter().map(|((host, key), value)| {
            let name = name_on(host.as_deref(), key);
            (name, value.clone())
        });
        trial.effective = named.collect();
        Ok(())
    }

    fn change(
        &mut self,
        factor: &Factor,
        change: &Change,
        trial: &mut Trial,
        transaction: &mut Transaction,
    ) -> Result<(), AttemptError> {
        self.has_changed = true;
        let made = self.change_on(factor.host.as_deref(), change, transaction);
        let output = match &made {
            Ok(effective) => effective.output.as_ref(),
            Err(SafetyError::Apply { output, .. }) => Some(&**output),
            Err(_) => None,
        };
        if let (Change::Command { apply, .. }, Some(output)) = (change, output) {
            trial.hooks.push(kept("apply", apply, output));
        }
        let effective = match made {
            Ok(effective) => effective,
            Err(error) if error.ends_sweep() => {
                return Err(EndReason::from(error).into());
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
            let took = normal(&took);
            if took != normal(value) {
                let name = &factor.name;
                let key = label_on(factor.host.as_deref(), key);
                self.note(format!(
                    "{name}: {key} was set to {value}, but the kernel changed it to {took}"
                ));
            }
            let key = (factor.host.clone(), key.clone());
            self.effective.insert(key, took);
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
            Some(reason) => reason.into(),
            None => EndReason::Interrupted.into(),
        })
    }

    /// Runs a hook, if the experiment has it.
    fn hook(
        &mut self,
        name: &str,
        hook: Option<&Hook>,
        environment: &BTreeMap<String, String>,
        trial: &mut Trial,
    ) -> Result<(), AttemptError> {
        hook.map_or(Ok(()), |hook| {
            keep(self.command(name, hook, environment), trial)
        })
    }

    fn command(
        &mut self,
        name: &str,
        hook: &Hook,
        environment: &BTreeMap<String, String>,
    ) -> (HookOutput, Result<(), Failure>) {
        let named = match &hook.host {
            None => name.to_owned(),
            Some(host) => format!("{name} on {host}"),
        };
        let mut machines = Machines {
            local: self.context.host,
            others: self.context.others,
        };
        match machines.get_mut(hook.host.as_deref()) {
            Some(host) => run_hook(host, &named, &hook.command, environment, hook.limit),
            None => {
                let reason = format!("{named}: the machine is not there");
                let kept = kept(&named, &hook.command, &CommandOutput::default());
                (kept, Err(reason.into()))
            }
        }
    }

    /// Makes a change of a machine, `None` being this one.
    fn change_on(
        &mut self,
        host: Option<&str>,
        change: &Change,
        transaction: &mut Transaction,
    ) -> Result<Effective, SafetyError> {
        let Some(name) = host else {
            return transaction.change(self.context.host, change);
        };
        match self.context.others.get_mut(name) {
            Some(host) => host.change(change),
            None => Err(SafetyError::Elsewhere {
                host: name.to_owned(),
                why: "the machine is not there".to_owned(),
                ends_sweep: true,
            }),
        }
    }

    /// All machines, `None` being this one.
    fn hosts(&self) -> Vec<Option<String>> {
        let others = self.context.others.keys().cloned().map(Some);
        std::iter::once(None).chain(others).collect()
    }

    /// Ends the experiment if another machine cannot be used any more.
    fn check_hosts(&self) -> Result<(), EndReason> {
        let lost = self.context.others.values().find_map(RemoteHost::lost);
        lost.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Fails if somebody else has changed a setting of this trial.
    fn check_effective(&self, now: &BTreeMap<String, String>) -> Result<(), String> {
        for ((host, key), set) in &self.effective {
            let key = &name_on(host.as_deref(), key);
            let now = now.get(key).map_or("unknown", String::as_str);
            if now != set {
                return Err(format!(
                    "{key} is {now}, but was {set} when the level was set: something else changes \
                     it"
                ));
            }
        }
        Ok(())
    }

    fn observe(&self) -> BTreeMap<String, String> {
        let hosts = self.hosts().into_iter();
        hosts
            .flat_map(|host| {
                let of_plan = self.run.spec.sysctls(host.as_deref()).into_iter();
                let keys = of_plan.chain(self.run.sysctls.iter().copied());
                self.observe_on(host.as_deref(), keys.map(str::to_owned).collect())
            })
            .collect()
    }

    /// The state of a machine; that of another one with its name before each value's.
    fn observe_on(&self, host: Option<&str>, keys: Vec<String>) -> BTreeMap<String, String> {
        let Some(name) = host else {
            return observe(self.context.host, keys.iter().map(String::as_str));
        };
        let there = self.context.others.get(name);
        let values = there.map(|there| there.observe(keys)).unwrap_or_default();
        values
            .into_iter()
            .map(|(key, value)| (name_on(host, &key), value))
            .collect()
    }

    fn check_over(&self) -> Result<(), EndReason> {
        self.check_hosts()?;
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

    fn tell<'e>(&'e mut self, event: impl FnOnce(&'e ExperimentProgress) -> Event<'e>) {
        (self.context.observer)(event(&self.progress));
    }
}

/// Why the first run after a restart may fail.
const NOT_AWAITED: &str = "after the restart hook; `ready` waits until a server has started";

/// The reason for which a server is not ready, if the restart hook should have started it.
fn after_restart(error: AttemptError) -> AttemptError {
    match error {
        AttemptError::Failed(failure) => AttemptError::Failed(Failure {
            reason: failure.reason + ", although the restart hook has run",
            ..failure
        }),
        stop @ AttemptError::Stop(_) => stop,
    }
}

/// Whether factors change the machine that the restart hook runs on.
fn has_factors_of(spec: &Spec, restart: &Hook) -> bool {
    let mut factors = spec.factors.iter();
    factors.any(|factor| factor.needs_restart() && factor.host == restart.host)
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
        took_ms: None,
        search: planned.step.clone(),
        outcome: TrialOutcome::Failed("not made".to_owned()),
        effective: BTreeMap::new(),
        environment_before: BTreeMap::new(),
        environment_after: BTreeMap::new(),
        hooks: Vec::new(),
        samples_file: None,
    }
}

/// Records a command's output; its failure is that of the attempt.
fn keep(
    (output, outcome): (HookOutput, Result<(), Failure>),
    trial: &mut Trial,
) -> Result<(), AttemptError> {
    trial.hooks.push(output);
    Ok(outcome?)
}
