//! Prepares an experiment, a new one or one to resume, without changing anything.

use plan::RunPlan;
use plan::secrets::hide_secrets;
use results::{Cell, EXPERIMENT_SCHEMA_VERSION, Experiment, SearchStep, Trial, TrialOutcome};

use crate::agents::Agent;
use crate::design::{Planned, Schedule, covering};
use crate::hooks::Failure;
use crate::host::Host;
use crate::judgement::Judgement;
use crate::policy::{Policy as _, Searches};
use crate::preflight::{Preflight, preflight};
use crate::remote::RemoteHosts;
use crate::resume::{Remaining, ResumeError, ResumeOptions, existing_experiment, remaining};
use crate::run::Abort;
use crate::safety::SafetyError;
use crate::spec::{OptionValue, Selection, Spec};
use crate::store::{Store, StoreError, trial_name};

/// An experiment with its schedule, and what is left of it.
#[derive(Debug)]
pub struct PreparedExperiment {
    /// The experiment file, with the rounds to run.
    pub spec: Spec,
    /// Where its trials are saved.
    pub store: Store,
    /// The experiment as it is saved.
    pub experiment: Experiment,
    /// All of its trials.
    pub schedule: Schedule,
    /// The trials that are still to be made.
    pub remaining: Remaining,
    /// The experiment was started before.
    pub is_resumed: bool,
}

impl PreparedExperiment {
    /// Reads the results folder of an experiment and determines what is left to run.
    ///
    /// # Errors
    /// When the folder does not fit the options: it holds results and is not to be resumed, or the
    /// reverse, or its settings differ. Also when there would be too many trials.
    pub fn new(
        mut spec: Spec,
        options: ResumeOptions,
        host: &dyn Host,
    ) -> Result<Self, ResumeError> {
        let store = Store::at(&spec.results);
        let plan_toml = saved_text(&spec);
        let existing = existing_experiment(host, &store, &plan_toml, &options)?;
        if options.resume && existing.is_none() {
            let folder = store.folder().to_owned();
            return Err(ResumeError::NothingToResume { folder });
        }
        let rounds = existing.as_ref().map(|existing| existing.rounds);
        if let Some(rounds) = rounds.or(options.rounds) {
            spec.set_rounds(rounds)
                .map_err(|problem| ResumeError::Rounds { rounds, problem })?;
        }
        let is_resumed = existing.is_some();
        let of_file = Judgement::of_file(&spec);
        let judgement = options.judgement.or(match &existing {
            Some(existing) => Judgement::resumed(of_file, existing),
            None => of_file,
        });
        spec.threshold = judgement.threshold;
        spec.judge = judgement.judge.unwrap_or_default();
        spec.until = judgement.until;
        let experiment = existing.unwrap_or_else(|| Experiment {
            schema_version: EXPERIMENT_SCHEMA_VERSION,
            name: spec.name.clone(),
            plan_toml,
            seed: options.seed.or(spec.seed).unwrap_or_else(random_seed),
            order: spec.order,
            rounds: spec.rounds,
            stopping: None,
            threshold: None,
            judge: Vec::new(),
            slo: spec
                .search
                .as_ref()
                .map(|search| search.slo.iter().map(ToString::to_string).collect()),
            cells: Vec::new(),
            started_at: host.wall_clock(),
        });
        let schedule = Schedule::new(&spec, experiment.seed);
        let experiment = Experiment {
            cells: schedule.cells.clone(),
            stopping: spec.until,
            threshold: spec.threshold,
            judge: spec
                .judge
                .iter()
                .map(|metric| metric.name.clone())
                .collect(),
            ..experiment
        };
        let mut prepared = Self {
            remaining: remaining(host, &store, &experiment, &schedule.trials),
            spec,
            store,
            experiment,
            schedule,
            is_resumed,
        };
        let left_over = prepared.searches(host).map(|(it, _)| it.left_over());
        if let Some(left_over) = left_over {
            let ended = prepared.schedule.trials.len() - left_over;
            prepared.remaining.trials = prepared.schedule.trials[ended..].to_vec();
        }
        Ok(prepared)
    }

    /// Leaves out all other cells, and their trials. The order of the trials stays the same.
    pub fn only(&mut self, selection: &Selection) {
        let Schedule { cells, trials, .. } = &mut self.schedule;
        cells.retain(|cell| selection.selects(cell));
        for trials in [trials, &mut self.remaining.trials] {
            trials.retain(|planned| selection.selects(&planned.cell));
        }
    }

    /// The searches of an experiment that makes some, and the number of their runs that an earlier
    /// start has made.
    #[must_use]
    pub fn searches<'a>(&'a self, host: &dyn Host) -> Option<(Searches<'a>, usize)> {
        let search = self.spec.search.as_ref()?;
        let connections = |cell: &Cell| self.spec.connections_of(cell);
        let trials = &self.schedule.trials;
        let mut searches = Searches::new(search, trials, self.experiment.seed, connections);
        let mut done = 0;
        while let Some(planned) = searches.next() {
            let name = trial_name(&self.experiment, &planned);
            let saved = self.store.trial(host, &name).ok().flatten();
            let is_this = |trial: &Trial| {
                let load = |step: &SearchStep| (step.phase, step.over, step.load());
                trial.cell == planned.cell
                    && trial.search.as_ref().map(load) == planned.step.as_ref().map(load)
                    && matches!(trial.outcome, TrialOutcome::Finished(_))
            };
            let Some(mut trial) = saved.filter(is_this) else {
                break;
            };
            searches.record(&mut trial);
            done += 1;
        }
        Some((searches, done))
    }

    /// Checks the experiment and its machines; see [`preflight`].
    pub fn preflight(
        &self,
        host: &mut dyn Host,
        others: &mut RemoteHosts,
        agents: Option<&[Agent]>,
        make_plan: &mut dyn FnMut(&Cell) -> Result<RunPlan, Failure>,
    ) -> Preflight {
        let mut preflight = preflight(&self.spec, &self.schedule, host, others, agents, make_plan);
        preflight.text = hide_secrets(&preflight.text);
        if self.is_resumed {
            let (remaining, total) = (&self.remaining.trials, self.schedule.trials.len());
            preflight.text += &crate::preflight::describe_left(&self.spec, remaining, total);
        }
        preflight
    }

    /// Describes the experiment in its results folder, and claims the folder. It must exist.
    ///
    /// # Errors
    /// When another sweep uses the folder, or when it cannot be written.
    pub fn begin(&self, host: &mut dyn Host) -> Result<(), Abort> {
        let folder = self.store.trials_folder();
        match host.claim(&folder) {
            Ok(true) => Ok(self.store.begin(host, &self.experiment)?),
            Ok(false) => {
                let what = self.store.folder().display().to_string();
                Err(SafetyError::Claimed { what }.into())
            }
            Err(error) => Err(StoreError::Read {
                path: folder,
                error,
            }
            .into()),
        }
    }

    /// Short runs that show, before the first trial, that every level works; none if there is
    /// nothing to choose from, or if trials were made already.
    #[must_use]
    pub fn tries(&self) -> Vec<Planned> {
        if self.done() > 0 || self.schedule.cells.len() < 2 {
            return Vec::new();
        }
        let cells = covering(&self.schedule.cells).into_iter().zip(1..);
        let try_of = |(cell, position): (&Cell, u32)| Planned {
            position,
            round: 1,
            repeat: 1,
            cell: cell.clone(),
            step: None,
        };
        cells.map(try_of).collect()
    }

    /// How many of the trials an earlier start has made.
    #[must_use]
    pub fn done(&self) -> usize {
        self.schedule.trials.len() - self.remaining.trials.len()
    }

    /// The trials that an earlier start has saved.
    pub fn saved_trials<'a>(
        &'a self,
        host: &'a dyn Host,
    ) -> impl Iterator<Item = (&'a Planned, Option<Trial>)> {
        let is_saved = |planned: &&Planned| !self.remaining.trials.contains(planned);
        self.schedule
            .trials
            .iter()
            .filter(is_saved)
            .map(move |planned| {
                let name = trial_name(&self.experiment, planned);
                (planned, self.store.trial(host, &name).ok().flatten())
            })
    }
}

/// The text of the experiment file as it is saved, and compared when the experiment is resumed.
fn saved_text(spec: &Spec) -> String {
    if keeps_secrets(spec) {
        spec.text.clone()
    } else {
        hide_secrets(&spec.text)
    }
}

/// Whether passwords, tokens and cookies are saved.
pub(crate) fn keeps_secrets(spec: &Spec) -> bool {
    spec.load.get("keep-secrets") == Some(&OptionValue::Flag(true))
}

/// Short enough to type.
fn random_seed() -> u64 {
    fastrand::u32(..).into()
}
