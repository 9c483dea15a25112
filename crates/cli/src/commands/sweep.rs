//! `wrkbench sweep`: checks an experiment, runs its trials and compares the results.

mod conclusion;
mod early_end;
mod one_run;
mod progress;
mod stopping_rule;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ::outputs::{Event as OutputEvent, Observers};
use analysis::sequential::Looks;
use anyhow::{Context, bail};
use experiment::{
    Abort, Assignment, Event, ExperimentContext, ExperimentOutcome, ExperimentRun, Failure, Fixed,
    Host as _, Judgement, Machine, MachineSettings, Planned, Policy, PreparedExperiment,
    RemoteHosts, ResumeError, ResumeOptions, SafetyError, SearchSpec, Spec, SpecError, Store,
    Transaction, begin_on_all,
};
use jiff::Timestamp;
use judging::Purpose;
use live::grid::{Grid, TilePosition};
use plan::readable::counted;
use plan::secrets::{hide_in_words, hide_secrets};
use plan::shell;
use plan::{Pacing, RunPlan, printable_lines};
use results::{Cell, RunResult, SearchOver, Stopping, TrialOutcome};

use super::interrupts::{Interrupts, SecondSignal};
use super::result_file::Readers;
use super::run_maker::{RunMaker, ThisMachine};
use super::screen::{self, Screen, View};
use super::terminal::Terminal;
use super::{TO_STDOUT, outputs, restore};
use crate::args::{
    CampaignArgs, CampaignRequest, Companion, ExperimentSource, Refusal, ReportPlace, RunRequest,
    run_of_plan,
};
use crate::console::Console;
use crate::fleet;
use conclusion::ComparisonLimits;
use progress::ProgressReporter;
use stopping_rule::SequentialStoppingRule;

/// Exit code: some trials failed every attempt.
const EXIT_FAILED_TRIALS: u8 = 4;

/// How often an experiment looks whether others have ended.
const LOCK_POLL: Duration = Duration::from_secs(1);

/// The runs of an experiment by the number of their cell; the error is why there is none.
type Runs = BTreeMap<u32, Result<RunRequest, Refusal>>;

/// An experiment and its runs.
struct PreparedSweep<'c> {
    prepared: PreparedExperiment,
    runs: Runs,
    maker: Box<dyn RunMaker>,
    console: &'c Console,
}

/// Runs the trials of an experiment and shows the results.
///
/// # Errors
/// When nothing was started, or when the sweep was aborted; everything is restored by then.
pub(super) fn sweep(request: &CampaignRequest, console: &Console) -> anyhow::Result<ExitCode> {
    let arguments = &request.arguments;
    let reports = check_places(request, console)?;
    let line = Terminal::of_stderr(console)
        .filter(|_| !outputs::are_on_terminal(&arguments.outputs, console));
    let spec = match spec(request, console)? {
        Ok(spec) => spec,
        Err(error) => return Ok(refuse(console, error.to_string().lines())),
    };
    for note in request.notes.iter().filter(|_| !arguments.quiet) {
        console.tell(format_args!("note: {note}"));
    }
    let mut machine = machine();
    let mut others = RemoteHosts::new();
    let mut sweep = PreparedSweep::new(spec, request, &machine, console)?;
    let Streams { mut output, stdout } = divert_stdout(arguments, console)?;
    let remaining = sweep.prepared.remaining.trials.len();
    let mut code = 0;
    if remaining > 0 || arguments.dry_run {
        let spec = &sweep.prepared.spec;
        sweep.maker = fleet::maker_of_sweep(&arguments.fleet, spec, console)?;
        others = sweep.maker.hosts(spec)?;
        if let Some(refused) = sweep.check(request, &mut machine, &mut others, &mut *output)? {
            return Ok(refused);
        }
        if arguments.dry_run {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let readers = Readers::of(sweep.keeps_secrets());
    let opened = outputs::open(&arguments.outputs, readers, stdout, console)?;
    outputs::tell_notes(&opened, arguments.quiet, console);
    let mut observers = Observers::new(opened);
    if remaining > 0 {
        let machines = (&mut machine, &mut others);
        let outcome;
        (outcome, code) = sweep.begin_and_run(request, machines, &mut observers, line)?;
        observers.event(&OutputEvent::ExperimentEnd(&outcome));
        // Ends their sessions.
        others.clear();
        if sweep.prepared.done() == 0 && outcome.finished + outcome.failed == 0 {
            outputs::close(observers, arguments.quiet, console);
            return Ok(ExitCode::from(code));
        }
    }
    let limits = sweep.limits(request, reports);
    let folder = sweep.prepared.store.folder();
    let judged = conclusion::conclude(folder, &limits, &mut *output, &mut observers, console);
    outputs::close(observers, arguments.quiet, console);
    let judged = judged?;
    // An incomplete sweep has its own exit code.
    let is_complete = code == 0 || code == EXIT_FAILED_TRIALS;
    Ok(if is_complete && judged != ExitCode::SUCCESS {
        judged
    } else {
        ExitCode::from(code)
    })
}

/// Refuses terminals and files that cannot be used. Returns the places of the reports.
fn check_places(request: &CampaignRequest, console: &Console) -> anyhow::Result<Vec<ReportPlace>> {
    let arguments = &request.arguments;
    if arguments.tui && !arguments.dry_run {
        screen::terminal(console)?;
    }
    outputs::check(&arguments.outputs, arguments.tui, console)?;
    let reports = request.reports()?;
    for report in &reports {
        super::report::check_place(report)?;
    }
    Ok(reports)
}

/// Where a sweep writes.
struct Streams<'c> {
    /// For the description and the tables.
    output: Box<dyn Write + 'c>,
    /// The real stdout, if the lines of `--stream` go there.
    stdout: Option<File>,
}

/// From now on, stdout is stderr: output of scripts must not end up in the tables.
fn divert_stdout<'c>(
    arguments: &CampaignArgs,
    console: &'c Console,
) -> anyhow::Result<Streams<'c>> {
    if !console.owns_process {
        return Ok(Streams {
            output: Box::new(&console.stdout),
            stdout: None,
        });
    }
    let stdout = runner::divert_script_output()?;
    Ok(if arguments.outputs.take_stdout() && !arguments.dry_run {
        Streams {
            output: Box::new(outputs::duplicate(io::stdout())?),
            stdout: Some(stdout),
        }
    } else {
        Streams {
            output: Box::new(stdout),
            stdout: None,
        }
    })
}

/// Reads the experiment. With `--dry-run`, one that is described by arguments is printed as a file.
/// Otherwise it is only saved, with the results.
///
/// # Errors
/// When the current folder is unknown, or the text cannot be written.
fn spec(request: &CampaignRequest, console: &Console) -> anyhow::Result<Result<Spec, SpecError>> {
    let arguments = &request.arguments;
    let draft = match &request.source {
        ExperimentSource::File(file) => return Ok(Spec::load(file)),
        ExperimentSource::Draft(draft) => draft,
    };
    if arguments.dry_run {
        let text = hide_secrets(&draft.to_string());
        let mut output = &console.stdout;
        let written = output.write_all(text.as_bytes());
        written.and_then(|()| output.flush()).context(TO_STDOUT)?;
    }
    let folder = std::env::current_dir().context("cannot find the current folder")?;
    Ok(Spec::of_draft(draft, &folder).map(|spec| Spec {
        results: experiment::free_folder(&experiment::default_folder(
            &spec.name,
            &Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string(),
        )),
        ..spec
    }))
}

impl<'c> PreparedSweep<'c> {
    /// Whether results may have secrets (`--keep-secrets`).
    fn keeps_secrets(&self) -> bool {
        let mut runs = self.runs.values().flatten();
        runs.any(|run| run.report.keep_secrets)
    }

    fn new(
        mut spec: Spec,
        request: &CampaignRequest,
        machine: &Machine,
        console: &'c Console,
    ) -> anyhow::Result<Self> {
        let arguments = &request.arguments;
        if let Some(results) = &arguments.results {
            spec.results.clone_from(results);
        }
        let only = match request.only.as_slice() {
            [] => None,
            only => Some(
                spec.select(only)
                    .map_err(|why| Refusal(format!("--only: {why}")))?,
            ),
        };
        if let Some(most) = arguments.max_failures {
            spec.max_failures = most;
        }
        if request.until_precise.is_some() && spec.search.is_some() {
            let text = "--until-precise: a search ends by precision and budget of [search]";
            return Err(Refusal(text.to_owned()).into());
        }
        let until = request.until_precise.map(|precision| Stopping {
            precision: Some(precision),
            ..spec.until.unwrap_or_default()
        });
        let options = ResumeOptions {
            resume: arguments.resume,
            seed: arguments.seed,
            rounds: request.rounds,
            judgement: Judgement {
                threshold: request.threshold,
                judge: (!request.judge.is_empty()).then(|| request.judge.clone()),
                until,
            },
        };
        let mut prepared =
            PreparedExperiment::new(spec, options, machine).map_err(|error| match &error {
                ResumeError::Occupied { folder, .. } => {
                    anyhow::anyhow!("{error}: `{}`", resume_command(request, folder))
                }
                _ => error.into(),
            })?;
        if let Some(only) = &only {
            prepared.only(only);
        }
        let mut runs = runs(&prepared.spec, &prepared.schedule.cells);
        for run in runs.values_mut().flatten() {
            run.plan.stops_if_denied = request.stops_if_denied;
        }
        Ok(Self {
            runs,
            prepared,
            maker: Box::new(ThisMachine),
            console,
        })
    }

    /// Takes the lock and the results folder, then runs the remaining trials. After an error, a new
    /// folder is removed.
    fn begin_and_run(
        &mut self,
        request: &CampaignRequest,
        (machine, others): (&mut Machine, &mut RemoteHosts),
        observers: &mut Observers<'c>,
        line: Option<Terminal>,
    ) -> anyhow::Result<(ExperimentOutcome, u8)> {
        let transaction = self.begin_transaction(request, machine)?;
        let new_folder = self.take_new_folder(request)?;
        let machines = (machine, others);
        let made = self.run(request, transaction, machines, observers, line);
        if let (Err(_), Some(folder)) = (&made, new_folder) {
            // Unless it has results.
            let _ = fs::remove_dir(folder);
        }
        made
    }

    /// Takes the lock. An experiment that changes nothing shares it, and runs beside others unless
    /// it is to wait for them. Signals end the process meanwhile.
    fn begin_transaction(
        &self,
        request: &CampaignRequest,
        machine: &mut Machine,
    ) -> anyhow::Result<Transaction> {
        let (arguments, spec) = (&request.arguments, &self.prepared.spec);
        let journal = journal_folder(arguments, machine, self.console)?;
        let mut has_waited = false;
        let tell_note = |note: String| {
            if !arguments.quiet {
                self.console.tell(format_args!("note: {note}"));
            }
        };
        loop {
            match Transaction::begin(machine, &journal, &spec.name) {
                Ok(mut transaction) => {
                    if !spec.changes_this_machine() {
                        transaction.share(machine)?;
                    }
                    return Ok(transaction);
                }
                Err(SafetyError::Locked { holder }) if arguments.wait => {
                    if !has_waited {
                        tell_note(format!(
                            "waiting until another experiment has ended ({holder})"
                        ));
                    }
                    has_waited = true;
                    machine.sleep(LOCK_POLL);
                }
                Err(SafetyError::Locked { holder }) if !spec.changes_this_machine() => {
                    tell_note(format!(
                        "another experiment is running on this machine ({holder}), and each \
                         disturbs what the other measures: --wait waits until it has ended"
                    ));
                    let transaction = Transaction::begin_beside(machine, &journal, &spec.name);
                    return Ok(transaction?);
                }
                Err(error @ SafetyError::Locked { .. }) => bail!(refusal(&error)),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Creates the folder of an experiment that names none, by another name if another experiment
    /// has created that one meanwhile.
    fn take_new_folder(&mut self, request: &CampaignRequest) -> anyhow::Result<Option<PathBuf>> {
        let (arguments, prepared) = (&request.arguments, &mut self.prepared);
        let is_new = matches!(request.source, ExperimentSource::Draft(_)) && !arguments.resume;
        if !is_new || arguments.results.is_some() {
            return Ok(None);
        }
        refuse_misplaced(&prepared.store)?;
        let mode = results_mode(self.keeps_secrets());
        let wanted = self.prepared.store.folder();
        let folder = experiment::create_free_folder(wanted, mode)
            .with_context(|| format!("cannot create {}", wanted.display()))?;
        self.prepared.store = Store::at(&folder);
        Ok(Some(folder))
    }

    fn limits(&self, request: &CampaignRequest, reports: Vec<ReportPlace>) -> ComparisonLimits {
        ComparisonLimits {
            threshold: self.prepared.spec.threshold,
            judge: self.prepared.spec.judge.clone(),
            least_load: request.least_load,
            is_check: request.is_check,
            regression: request.fail_on_regression,
            reports,
        }
    }

    /// Prints the description of the experiment, and refuses what is known to fail.
    fn check(
        &self,
        request: &CampaignRequest,
        machine: &mut Machine,
        others: &mut RemoteHosts,
        output: &mut dyn Write,
    ) -> anyhow::Result<Option<ExitCode>> {
        let arguments = &request.arguments;
        let agents = self.maker.agents();
        let search = self.prepared.spec.search.as_ref();
        let conditions = search.map_or(&[][..], |search| &search.slo);
        let mut check = |cell: &Cell| {
            one_run::check(cell, &self.runs, conditions, agents.is_some(), self.console)
        };
        let preflight = self.prepared.preflight(machine, others, agents, &mut check);
        let is_file = matches!(request.source, ExperimentSource::File(_));
        if arguments.dry_run && is_file {
            output.write_all(printable_lines(&preflight.text).as_bytes())?;
            output.flush()?;
        } else if !arguments.quiet {
            // As with every other line there, errors are ignored.
            let text = printable_lines(&preflight.text);
            let _ = (&self.console.stderr).write_all(text.as_bytes());
        }
        if !arguments.quiet {
            let notes = self.prepared.remaining.notes.iter();
            let notes = notes.chain(self.maker.left_out());
            for note in notes.chain(&preflight.notes) {
                self.console.tell(format_args!("note: {note}"));
            }
            super::run::tell_reversed(conditions, Purpose::Required, self.console);
        }
        let mut problems = preflight.problems;
        let journal = journal_folder(arguments, machine, self.console)?;
        match Transaction::check(machine, &journal) {
            Err(SafetyError::Locked { .. })
                if arguments.wait || !self.prepared.spec.changes_this_machine() => {}
            Err(error) => problems.push(refusal(&error)),
            Ok(()) => {}
        }
        Ok((!problems.is_empty()).then(|| refuse(self.console, problems.iter())))
    }

    /// Runs the remaining trials and reports how it ended. Returns the exit code as well.
    fn run(
        &self,
        request: &CampaignRequest,
        transaction: Transaction,
        (machine, others): (&mut Machine, &mut RemoteHosts),
        observers: &mut Observers<'c>,
        line: Option<Terminal>,
    ) -> anyhow::Result<(ExperimentOutcome, u8)> {
        let (prepared, arguments) = (&self.prepared, &request.arguments);
        let interrupts = Interrupts::watch_for_sweep(arguments.tui, self.console)
            .context("cannot watch for Ctrl-C")?;
        // Before anything is changed: an unusable terminal must not end a started sweep.
        let screen = if arguments.tui {
            Some(self.screen(machine, interrupts.second())?)
        } else {
            None
        };
        let journal = journal_folder(arguments, machine, self.console)?;
        if let Err(error) = self.begin_everywhere(machine, others) {
            // Nothing was changed yet: this only releases the lock.
            let _ = transaction.restore_all(machine);
            return Err(error);
        }
        let (quiet, stop) = (arguments.quiet, &interrupts.stop);
        for host in others.values_mut() {
            host.when_lost(stop.clone());
        }
        if !arguments.tui {
            machine.set_on_wait(progress::waiting(self.console, stop.clone()));
            for host in others.values_mut() {
                host.set_on_wait(progress::waiting(self.console, stop.clone()));
            }
        }
        let progress = ProgressReporter::new(self.console, quiet, (line, screen), stop.clone());
        observers.set_display(Some(Box::new(progress)));
        observers.event(&OutputEvent::Experiment(&prepared.experiment));
        let machines = (machine, others);
        let outcome = self.make_trials(request, transaction, machines, observers, &interrupts);
        observers.remove_display();
        let resume = resume_command(request, prepared.store.folder());
        let code = report_end(
            &outcome,
            arguments,
            &resume,
            &journal,
            self.console,
            &interrupts,
        );
        // Nothing is left to be restored.
        interrupts.end_at_next_signal();
        Ok((outcome, code))
    }

    /// Takes the locks of the other machines, and creates the results folder. After an error, those
    /// locks are released.
    fn begin_everywhere(
        &self,
        machine: &mut Machine,
        others: &mut RemoteHosts,
    ) -> anyhow::Result<()> {
        begin_on_all(others, &self.prepared.spec.name)?;
        let begun = begin(machine, &self.prepared, self.keeps_secrets());
        if begun.is_err() {
            for host in others.values_mut() {
                let _ = host.restore_all();
            }
        }
        begun
    }

    /// Makes the remaining trials, then restores everything.
    fn make_trials(
        &self,
        request: &CampaignRequest,
        transaction: Transaction,
        (machine, others): (&mut Machine, &mut RemoteHosts),
        observers: &mut Observers<'_>,
        interrupts: &Interrupts,
    ) -> ExperimentOutcome {
        let (prepared, arguments) = (&self.prepared, &request.arguments);
        let stop = &*interrupts.stop;
        let mut searches = prepared.searches(machine);
        let mut looks = self.looks(request, machine);
        let tries = if arguments.no_try {
            Vec::new()
        } else {
            prepared.tries()
        };
        let run = ExperimentRun {
            spec: &prepared.spec,
            experiment: &prepared.experiment,
            done: searches
                .as_ref()
                .map_or_else(|| prepared.done(), |(_, done)| *done),
            deadline_ns: arguments.stop_at.map(|time| deadline_ns(time, machine)),
            tries: &tries,
            sysctls: runner::WATCHED_SYSCTLS,
            nominal: &|planned| self.nominal_time(planned),
            keeps_samples: self.maker.agents().is_none(),
        };
        let observers = RefCell::new(observers);
        let mut has_announced = arguments.quiet;
        let context = ExperimentContext {
            host: machine,
            others,
            store: &prepared.store,
            run_one: &mut |assignment| {
                let observers = &mut observers.borrow_mut();
                self.make_run(assignment, arguments, observers, &mut has_announced, stop)
            },
            observer: &mut |event| observers.borrow_mut().event(&OutputEvent::Trial(&event)),
            is_interrupted: &|| interrupts.has_come(),
            was_suspended: &|| interrupts.was_stopped(),
        };
        let mut fixed;
        let policy: &mut dyn Policy = if let Some((searches, _)) = &mut searches {
            searches
        } else {
            fixed = Fixed::new(&prepared.remaining.trials);
            if let Some(looks) = &mut looks {
                fixed = fixed.until(looks);
            }
            &mut fixed
        };
        experiment::run(run, policy, transaction, context)
    }

    /// Makes the run of a trial, then tells what the user should know about it. The first run that
    /// has samples shows how much disk space all of them need.
    fn make_run(
        &self,
        assignment: Assignment<'_>,
        arguments: &CampaignArgs,
        observers: &mut Observers<'_>,
        has_announced: &mut bool,
        stop: &AtomicBool,
    ) -> Result<RunResult, Failure> {
        let runs = (&self.runs, &self.prepared.spec);
        let mut notes = Vec::new();
        let made = one_run::make(
            assignment,
            runs,
            &*self.maker,
            stop,
            observers,
            &mut notes,
            self.console,
        );
        if made.is_ok()
            && !*has_announced
            && let Ok(samples) = fs::metadata(assignment.samples)
        {
            *has_announced = true;
            let trials = self.prepared.schedule.trials.len();
            notes.push(progress::samples_note(samples.len(), trials));
        }
        for note in notes.into_iter().filter(|_| !arguments.quiet) {
            observers.event(&OutputEvent::Trial(&Event::Note(note)));
        }
        made
    }

    /// How long the run of a trial takes if nothing goes wrong.
    fn nominal_time(&self, planned: &Planned) -> Duration {
        let Some(Ok(request)) = self.runs.get(&planned.cell.number) else {
            return Duration::ZERO;
        };
        match &planned.step {
            Some(step) => request.plan.warmup + Duration::from_millis(step.duration_ms),
            None => experiment::nominal_time(&request.plan).unwrap_or_default(),
        }
    }

    /// The rule of an experiment with `until`. It knows the trials of an earlier start.
    fn looks(
        &self,
        request: &CampaignRequest,
        machine: &Machine,
    ) -> Option<SequentialStoppingRule> {
        let prepared = &self.prepared;
        let threshold = self.limits(request, Vec::new()).threshold();
        let judge = prepared.spec.judge.clone();
        let mut looks = Looks::new(prepared.spec.until?, threshold, judge);
        for (_, trial) in prepared.saved_trials(machine) {
            trial.iter().for_each(|trial| looks.record(trial));
        }
        Some(SequentialStoppingRule(looks))
    }

    /// The grid of all trials, including those that were made before.
    fn screen(&self, machine: &Machine, second: SecondSignal) -> anyhow::Result<Screen> {
        let terminal = screen::terminal(self.console)?;
        let prepared = &self.prepared;
        let mut grid = Grid::new(
            &prepared.spec.name,
            &prepared.schedule.cells,
            prepared.spec.rounds,
        );
        for (planned, trial) in prepared.saved_trials(machine) {
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

/// The next moment with this time of day, on the machine's clock.
fn deadline_ns(time: jiff::civil::Time, machine: &Machine) -> u64 {
    let now = jiff::Zoned::now();
    let today = now.with().time(time).build();
    let next = today.and_then(|today| {
        if today > now {
            Ok(today)
        } else {
            today.checked_add(jiff::Span::new().days(1))
        }
    });
    let left_ns = next.map_or(i128::MAX, |next| now.duration_until(&next).as_nanos());
    machine
        .now_ns()
        .saturating_add(u64::try_from(left_ns).unwrap_or(u64::MAX))
}

fn journal_folder(
    arguments: &CampaignArgs,
    machine: &Machine,
    console: &Console,
) -> anyhow::Result<PathBuf> {
    restore::journal_folder(arguments.journal.as_deref(), machine, console)
}

/// The shell command that resumes a sweep with results in this folder. It hides secrets.
fn resume_command(request: &CampaignRequest, folder: &Path) -> String {
    let arguments = &request.arguments;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let command = request.typed.first().map_or("sweep", String::as_str);
    let mut words = vec!["wrkbench".to_owned(), command.to_owned()];
    match &request.source {
        ExperimentSource::File(file) => {
            words.extend([text(file), "--resume".to_owned()]);
            for (option, folder) in [
                ("--results", &arguments.results),
                ("--journal", &arguments.journal),
            ] {
                if let Some(folder) = folder {
                    words.extend([option.to_owned(), text(folder)]);
                }
            }
            let only = request.only.iter().cloned();
            words.extend(only.flat_map(|only| ["--only".to_owned(), only]));
            words.extend(arguments.fleet.words());
        }
        ExperimentSource::Draft(_) => {
            if !arguments.resume {
                words.push("--resume".to_owned());
            }
            if arguments.results.is_none() {
                words.extend(["--results".to_owned(), text(folder)]);
            }
            let typed = hide_in_words(&request.typed);
            words.extend(typed.into_iter().skip(1));
        }
    }
    shell::command(&words)
}

/// Why a transaction cannot begin. A sweep can wait for another one.
fn refusal(error: &SafetyError) -> String {
    match error {
        SafetyError::Locked { .. } => format!("{error}, or add --wait"),
        _ => error.to_string(),
    }
}

/// Prints everything that is wrong, a line each.
fn refuse(console: &Console, lines: impl Iterator<Item: Display>) -> ExitCode {
    for line in lines {
        console.tell_error(line);
    }
    ExitCode::FAILURE
}

/// This machine, with a guardian.
pub(crate) fn machine() -> Machine {
    Machine::new(MachineSettings {
        wall_clock: || Some(Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        guardian: Some(Box::new(|journal| Companion::Guardian.command(journal))),
    })
}

/// The run of each cell.
fn runs(spec: &Spec, cells: &[Cell]) -> Runs {
    let run = |cell: &Cell| {
        let url = spec.url_of(cell).unwrap_or_default();
        let mut request = run_of_plan(&spec.options_of(cell), url)?;
        request.plan.telemetry.clone_from(&spec.telemetry);
        if let Some(search) = &spec.search {
            set_arrivals(&mut request.plan, search);
        }
        Ok(request)
    };
    cells.iter().map(|cell| (cell.number, run(cell))).collect()
}

/// Each step of a search sets its load; the arrivals of the requests of a rate are always the same.
fn set_arrivals(plan: &mut RunPlan, search: &SearchSpec) {
    plan.stop.duration = Some(search.run);
    if search.over == SearchOver::Connections {
        plan.pacing = Pacing::Closed;
        return;
    }
    plan.pacing = Pacing::Constant {
        rate_per_sec: search.rate_per_sec.unwrap_or(1.0),
        arrivals: search.arrivals,
        seed: 0,
    };
}

/// Creates the results folder and describes the experiment in it.
fn begin(
    machine: &mut Machine,
    prepared: &PreparedExperiment,
    keeps_secrets: bool,
) -> anyhow::Result<()> {
    refuse_misplaced(&prepared.store)?;
    if keeps_secrets {
        // The folder may have been there before.
        machine.keep_private(prepared.store.folder().to_owned());
    }
    let trials = prepared.store.trials_folder();
    let created = fs::DirBuilder::new()
        .recursive(true)
        .mode(results_mode(keeps_secrets))
        .create(&trials);
    created.with_context(|| format!("cannot create {}", trials.display()))?;
    prepared.begin(machine)?;
    if prepared.spec.search.is_some() {
        // The command in the page that repeats it reads this file.
        let file = prepared.store.folder().join("plan.toml");
        machine
            .replace(&file, prepared.experiment.plan_toml.as_bytes())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// Refuses a results folder whose place another user decides.
fn refuse_misplaced(store: &Store) -> anyhow::Result<()> {
    let trials = store.trials_folder();
    let misplaced = experiment::misplaced(&trials)
        .with_context(|| format!("{}: cannot be examined", trials.display()))?;
    if let Some(experiment::UntrustedPath { path, why, remedy }) = misplaced {
        bail!(
            "{}: {why}, so no results are written to {}: {remedy}",
            path.display(),
            trials.display()
        );
    }
    Ok(())
}

/// The permissions of results: unlike the journal they are no secret, unless secrets are kept.
fn results_mode(keeps_secrets: bool) -> u32 {
    if keeps_secrets { 0o700 } else { 0o777 }
}

/// Reports how the sweep ended, and returns the exit code.
fn report_end(
    outcome: &ExperimentOutcome,
    arguments: &CampaignArgs,
    resume: &str,
    journal: &Path,
    console: &Console,
    interrupts: &Interrupts,
) -> u8 {
    let is_restored = tell_restored(outcome, journal, arguments.quiet, console);
    if let Some(failure) = &outcome.teardown_failure {
        console.tell(&failure.reason);
        console.tell_indented(&failure.said);
    }
    if let Some(abort) = &outcome.abort {
        console.tell(format_args!("sweep aborted: {abort}"));
        if let Abort::Setup(failure) = abort {
            console.tell_indented(&failure.said);
        }
    }
    if let Some(time) = arguments.stop_at.filter(|_| outcome.is_out_of_time) {
        console.tell(format_args!("stopped for {}", time.strftime("%H:%M")));
    }
    tell_left(outcome, resume, console);
    match interrupts.exit_code() {
        _ if !is_restored || outcome.abort.is_some() => 1,
        Some(code) if outcome.is_interrupted => code,
        _ if outcome.teardown_failure.is_some() => 1,
        _ if outcome.failed > 0 => EXIT_FAILED_TRIALS,
        _ => 0,
    }
}

/// Says what was restored, and how to restore the rest. Returns whether there is no rest.
fn tell_restored(
    outcome: &ExperimentOutcome,
    journal: &Path,
    is_quiet: bool,
    console: &Console,
) -> bool {
    let mut is_complete = outcome.restored.is_complete();
    restore::tell_steps(&outcome.restored, console, !is_quiet);
    for (host, restored) in &outcome.restored_elsewhere {
        restore::tell_steps(restored, console, !is_quiet);
        if let Some(step) = restored.steps.iter().find(|it| !it.outcome.is_settled()) {
            is_complete = false;
            let restore = &step.command;
            console.tell(format_args!(
                "settings of {host} may not be restored yet; `{restore} --dry-run` there shows \
                     what is left, `{restore}` restores it"
            ));
        }
    }
    if !outcome.restored.is_complete() {
        let restore = experiment::restore_command(journal);
        console.tell(format_args!(
            "some settings were not restored; run `{restore}`"
        ));
    }
    is_complete
}

/// Says which trials have no result, and how to make them.
fn tell_left(outcome: &ExperimentOutcome, resume: &str, console: &Console) {
    let failed = u64::from(outcome.failed);
    if outcome.left > 0 {
        let is = if outcome.left == 1 { "is" } else { "are" };
        let left = counted(outcome.left.into(), "trial");
        let and_failed = match failed {
            0 => String::new(),
            failed => format!(", and {failed} failed"),
        };
        console.tell(format_args!(
            "{left} {is} left{and_failed}; resume with `{resume}`"
        ));
    } else if failed > 0 {
        let them = if failed == 1 { "it" } else { "them" };
        let failed = counted(failed, "trial");
        console.tell(format_args!(
            "{failed} failed every attempt; excluded from averages. Run {them} again with \
                 `{resume}`"
        ));
    }
}
