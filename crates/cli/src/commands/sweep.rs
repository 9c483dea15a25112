//! An experiment: plan, checks, trials, and what they say together.

mod conclusion;
mod one_run;
mod progress;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use experiment::{
    Abort, Event, ExperimentContext, ExperimentOutcome, ExperimentRun, Host as _, Machine,
    MachineSettings, OptionValue, Planned, Remaining, ResumeError, ResumeOptions, SafetyError,
    Schedule, Spec, Store, Transaction,
};
use live::grid::{Grid, TilePosition};
use plan::secrets::hide_secrets;
use plan::shell;
use results::{Cell, EXPERIMENT_SCHEMA_VERSION, Experiment, TrialOutcome};

use super::interrupts::{Interrupts, Second};
use super::screen::{self, Screen, View};
use super::{guardian, restore, tell};
use crate::args::{Refusal, RunRequest, SweepArgs, run_of_plan};
use conclusion::Judgement;
use progress::Progress;

/// Some trials failed at each attempt.
const EXIT_FAILED_TRIALS: u8 = 4;

/// The runs of an experiment by the number of their cell, or why there is none.
type Runs = BTreeMap<u32, Result<RunRequest, String>>;

/// A plan and everything that follows from it.
struct PreparedExperiment {
    spec: Spec,
    store: Store,
    experiment: Experiment,
    schedule: Schedule,
    runs: Runs,
    remaining: Remaining,
    /// The folder of results holds it already.
    is_begun: bool,
}

/// Makes the trials of a plan and shows what came of them.
///
/// # Errors
/// When nothing was begun, or when it had to be given up; everything is put back by then.
pub(super) fn sweep(arguments: &SweepArgs, program: &str) -> anyhow::Result<ExitCode> {
    if arguments.tui && !arguments.dry_run {
        screen::terminal()?;
    }
    let spec = match Spec::load(&arguments.plan) {
        Ok(spec) => spec,
        Err(error) => return Ok(refuse(program, error.to_string().lines())),
    };
    let mut machine = machine();
    let prepared = PreparedExperiment::new(spec, arguments, &machine)?;
    // What scripts print belongs to no table.
    let mut output = runner::divert_script_output()?;
    let has_trials = !prepared.remaining.trials.is_empty();
    let mut code = 0;
    if has_trials || arguments.dry_run {
        if let Some(refused) = prepared.check(arguments, &mut machine, &mut output, program)? {
            return Ok(refused);
        }
        if arguments.dry_run {
            return Ok(ExitCode::SUCCESS);
        }
        let kept = prepared.schedule.trials.len() - prepared.remaining.trials.len();
        let outcome;
        (outcome, code) = prepared.make(arguments, &mut machine, program)?;
        if kept == 0 && outcome.finished + outcome.failed == 0 {
            return Ok(ExitCode::from(code));
        }
    }
    let judgement = Judgement {
        threshold: prepared.spec.threshold,
        regression_limit: arguments.fail_on_regression,
    };
    let folder = prepared.store.folder();
    let judged = conclusion::conclude(folder, &judgement, &mut output, program)?;
    // What was measured is judged only when all of it was.
    let is_whole = code == 0 || code == EXIT_FAILED_TRIALS;
    Ok(if is_whole && judged != ExitCode::SUCCESS {
        judged
    } else {
        ExitCode::from(code)
    })
}

impl PreparedExperiment {
    /// Nothing is touched for it.
    fn new(mut spec: Spec, arguments: &SweepArgs, machine: &Machine) -> anyhow::Result<Self> {
        if let Some(results) = &arguments.results {
            spec.results.clone_from(results);
        }
        if let Some(most) = arguments.max_failures {
            spec.max_failures = most;
        }
        let store = Store::at(&spec.results);
        let wish = ResumeOptions {
            resume: arguments.resume,
            seed: arguments.seed,
            rounds: arguments.rounds,
        };
        let begun = experiment::existing_experiment(machine, &store, &saved_text(&spec), wish)
            .map_err(|error| {
                let is_occupied = matches!(error, ResumeError::Occupied { .. });
                let error = anyhow::Error::from(error);
                match is_occupied {
                    true => anyhow::anyhow!("{error}: `{}`", resume_command(arguments)),
                    false => error,
                }
            })?;
        if arguments.resume && begun.is_none() {
            bail!(
                "--resume: {} holds no sweep to go on with: name the folder of the one that was begun (--results DIR), \
                 or leave --resume out to begin one",
                store.folder().display()
            );
        }
        let is_begun = begun.is_some();
        let experiment = settled(&mut spec, begun, wish, machine)?;
        let schedule = Schedule::new(&spec, experiment.seed);
        let experiment = Experiment {
            cells: schedule.cells.clone(),
            ..experiment
        };
        Ok(Self {
            runs: runs(&spec, &schedule.cells),
            remaining: experiment::remaining(machine, &store, &experiment, &schedule.trials),
            spec,
            store,
            experiment,
            schedule,
            is_begun,
        })
    }

    /// Prints the plan, and refuses what is known to fail.
    fn check(
        &self,
        arguments: &SweepArgs,
        machine: &mut Machine,
        output: &mut dyn Write,
        program: &str,
    ) -> anyhow::Result<Option<ExitCode>> {
        let preflight = experiment::preflight(&self.spec, &self.schedule, machine, &mut |cell| {
            one_run::check(cell, &self.runs)
        });
        let mut text = hide_secrets(&preflight.text);
        if self.is_begun {
            let total = self.schedule.trials.len();
            text += &experiment::left_in_words(&self.remaining.trials, total);
        }
        if arguments.dry_run {
            output.write_all(text.as_bytes())?;
            output.flush()?;
        } else if !arguments.quiet {
            // As for every other line there: a sweep does not depend on who reads along.
            let _ = io::stderr().write_all(text.as_bytes());
        }
        if !arguments.quiet {
            for note in self.remaining.notes.iter().chain(&preflight.notes) {
                tell(program, format_args!("note: {note}"));
            }
        }
        let mut problems = preflight.problems;
        let journal = journal_folder(arguments, machine);
        if let Err(error) = journal.and_then(|it| Ok(Transaction::check(machine, &it)?)) {
            problems.push(error.to_string());
        }
        Ok((!problems.is_empty()).then(|| refuse(program, problems.iter())))
    }

    /// Makes the trials that remain, and says how it ended; the exit code.
    fn make(
        &self,
        arguments: &SweepArgs,
        machine: &mut Machine,
        program: &str,
    ) -> anyhow::Result<(ExperimentOutcome, u8)> {
        let interrupts =
            Interrupts::watch_for_sweep(arguments.tui).context("cannot watch for Ctrl-C")?;
        // Before anything is changed: a terminal that cannot be had ends nothing that has begun.
        let screen = match arguments.tui {
            true => Some(self.screen(machine, interrupts.second())?),
            false => None,
        };
        let journal = journal_folder(arguments, machine)?;
        let transaction = Transaction::begin(machine, &journal, &self.spec.name)?;
        if let Err(error) = begin(machine, &self.store, &self.experiment) {
            // Nothing was changed yet: this gives the lock back.
            let _ = transaction.restore_all(machine);
            return Err(error);
        }
        let nominal = |cell: &Cell| match self.runs.get(&cell.number) {
            Some(Ok(request)) => experiment::nominal_time(&request.plan).unwrap_or_default(),
            _ => Duration::ZERO,
        };
        let run = ExperimentRun {
            spec: &self.spec,
            experiment: &self.experiment,
            total: self.schedule.trials.len(),
            remaining: &self.remaining.trials,
            sysctls: runner::WATCHED_SYSCTLS,
            nominal: &nominal,
        };
        if !arguments.tui {
            machine.set_on_wait(progress::waiting(program, interrupts.stop.clone()));
        }
        let progress = RefCell::new(Progress::new(program, arguments.quiet, screen));
        let context = ExperimentContext {
            host: machine,
            store: &self.store,
            run_one: &mut |assignment| {
                let stop = &*interrupts.stop;
                let made = one_run::make(assignment, &self.runs, stop, |plan| {
                    progress.borrow().observer(plan, stop)
                });
                if made.is_ok()
                    && let Ok(samples) = fs::metadata(assignment.samples)
                {
                    let trials = self.schedule.trials.len();
                    progress
                        .borrow_mut()
                        .announce_samples(samples.len(), trials);
                }
                made
            },
            observer: &mut |event: Event<'_>| progress.borrow_mut().show(event),
            is_interrupted: &|| interrupts.has_come(),
            was_suspended: &|| interrupts.was_stopped(),
        };
        let outcome = experiment::run(run, transaction, context);
        // The terminal is as it was from here on.
        drop(progress);
        let code = tell_end(&outcome, arguments, &journal, program, &interrupts);
        Ok((outcome, code))
    }

    /// The grid of all trials, with those that were made before.
    fn screen(&self, machine: &Machine, second: Second) -> anyhow::Result<Screen> {
        let terminal = screen::terminal()?;
        let mut grid = Grid::new(&self.spec.name, &self.schedule.cells, self.spec.rounds);
        let is_left = |planned: &&Planned| self.remaining.trials.contains(planned);
        for planned in self.schedule.trials.iter().filter(|it| !is_left(it)) {
            let name = experiment::trial_name(&self.experiment, planned);
            let trial = self.store.trial(machine, &name).ok().flatten();
            let rate = trial.and_then(|trial| match trial.outcome {
                TrialOutcome::Finished(result) => Some(result.requests_per_sec()),
                TrialOutcome::Failed(_) => None,
            });
            let spot = TilePosition {
                cell: planned.cell.number,
                round: planned.round,
            };
            grid.keep(spot, rate);
        }
        Screen::open(terminal, View::Sweep(Box::new(grid)), second)
    }
}

fn journal_folder(arguments: &SweepArgs, machine: &Machine) -> anyhow::Result<PathBuf> {
    restore::journal_folder(arguments.journal.as_deref(), machine)
}

/// The line for the shell that goes on with the sweep of these arguments.
fn resume_command(arguments: &SweepArgs) -> String {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut words = vec!["wrkbench".to_owned(), "sweep".to_owned()];
    words.push(text(&arguments.plan));
    words.push("--resume".to_owned());
    for (option, folder) in [
        ("--results", &arguments.results),
        ("--journal", &arguments.journal),
    ] {
        if let Some(folder) = folder {
            words.extend([option.to_owned(), text(folder)]);
        }
    }
    shell::command(&words)
}

/// Everything that is wrong, a line each, before anything is touched.
fn refuse(program: &str, lines: impl Iterator<Item: Display>) -> ExitCode {
    for line in lines {
        tell(program, line);
    }
    ExitCode::FAILURE
}

fn machine() -> Machine {
    Machine::new(MachineSettings {
        https_status: Box::new(one_run::ask),
        wall_clock: || {
            Some(
                jiff::Timestamp::now()
                    .strftime("%Y-%m-%dT%H:%M:%SZ")
                    .to_string(),
            )
        },
        guardian: Some(guardian::command()),
    })
}

/// The experiment with its seed and rounds, which the plan takes over.
fn settled(
    spec: &mut Spec,
    begun: Option<Experiment>,
    wish: ResumeOptions,
    machine: &Machine,
) -> anyhow::Result<Experiment> {
    let rounds = begun.as_ref().map(|begun| begun.rounds).or(wish.rounds);
    if let Some(rounds) = rounds {
        spec.set_rounds(rounds)
            .map_err(|problem| anyhow::anyhow!("--rounds {rounds}: {problem}"))?;
    }
    // Short enough to be typed.
    let draw = || RandomState::new().build_hasher().finish() >> 32;
    Ok(begun.unwrap_or_else(|| Experiment {
        schema_version: EXPERIMENT_SCHEMA_VERSION,
        name: spec.name.clone(),
        plan_toml: saved_text(spec),
        seed: wish.seed.or(spec.seed).unwrap_or_else(draw),
        order: spec.order,
        rounds: spec.rounds,
        cells: Vec::new(),
        started_at: machine.wall_clock(),
    }))
}

/// The plan's text as it is saved, and compared with when the experiment is resumed.
fn saved_text(spec: &Spec) -> String {
    if spec.load.get("show-secrets") == Some(&OptionValue::Flag(true)) {
        spec.text.clone()
    } else {
        hide_secrets(&spec.text)
    }
}

/// What each cell runs.
fn runs(spec: &Spec, cells: &[Cell]) -> Runs {
    let run = |cell: &Cell| {
        let url = spec.target(&cell.target).map_or("", |target| &target.url);
        let mut request = run_of_plan(&spec.options_of(cell), url).map_err(|Refusal(line)| line)?;
        request.plan.telemetry.clone_from(&spec.telemetry);
        Ok(request)
    };
    cells.iter().map(|cell| (cell.number, run(cell))).collect()
}

/// Makes the folder that of the experiment.
fn begin(machine: &mut Machine, store: &Store, experiment: &Experiment) -> anyhow::Result<()> {
    // Results are no secret, as the journal is: the folder gets the usual rights.
    let trials = store.trials_folder();
    let unmade = || format!("cannot make {}", trials.display());
    fs::create_dir_all(&trials).with_context(unmade)?;
    if !machine.claim(&trials).with_context(unmade)? {
        let what = store.folder().display().to_string();
        return Err(SafetyError::Claimed { what }.into());
    }
    Ok(store.begin(machine, experiment)?)
}

/// The last lines of a command that failed, below the reason.
fn tell_said(lines: &[String]) {
    for line in lines {
        let _ = writeln!(io::stderr(), "    {line}");
    }
}

/// Says how it ended, and finds the exit code.
fn tell_end(
    outcome: &ExperimentOutcome,
    arguments: &SweepArgs,
    journal: &Path,
    program: &str,
    interrupts: &Interrupts,
) -> u8 {
    let is_complete = outcome.restored.is_complete();
    restore::tell_steps(&outcome.restored, program, !arguments.quiet);
    if !is_complete {
        let restore = experiment::restore_command(journal);
        tell(
            program,
            format_args!("not everything is as it was: run `{restore}`"),
        );
    }
    if let Some(failure) = &outcome.teardown_failure {
        tell(program, &failure.reason);
        tell_said(&failure.said);
    }
    if let Some(abort) = &outcome.abort {
        tell(program, format_args!("the sweep was given up: {abort}"));
        if let Abort::Setup(failure) = abort {
            tell_said(&failure.said);
        }
    }
    let resume = resume_command(arguments);
    let failed = outcome.failed;
    if outcome.left > 0 {
        let left = match outcome.left {
            1 => "1 trial is left".to_owned(),
            left => format!("{left} trials are left"),
        };
        let and_failed = match failed {
            0 => String::new(),
            failed => format!(", and {failed} failed"),
        };
        tell(
            program,
            format_args!("{left}{and_failed}: go on with `{resume}`"),
        );
    } else if failed > 0 {
        tell(
            program,
            format_args!(
                "{failed} trials failed and are in no average; `{resume}` tries them again"
            ),
        );
    }
    match interrupts.exit_code() {
        _ if !is_complete || outcome.abort.is_some() => 1,
        Some(code) if outcome.is_interrupted => code,
        _ if outcome.teardown_failure.is_some() => 1,
        _ if outcome.failed > 0 => EXIT_FAILED_TRIALS,
        _ => 0,
    }
}
