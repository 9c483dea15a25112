//! One run of a sweep, in this process.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use experiment::{Assignment, Spec};
use judging::Criterion;
use outputs::{Event, Observers, RunEnd, RunStart};
use plan::{Arrivals, Pacing, RunPlan, Stop};
use results::{Cell, RunResult, SearchStep};
use runner::{Finished, Invocation, RunObservers, RunnerError};

use super::super::run::{check_names, draw_seed, invocation};
use super::super::samples::SamplesFile;
use super::Runs;
use super::early_end::{EarlyEnd, Requirements};
use crate::args::RunRequest;
use crate::console::Console;
use crate::fleet::{SweepFleet, why_partial};

/// Makes the run, on this machine or by a fleet. What the user should know is added to the notes.
/// The error is the reason why the run cannot be used, in a line.
pub(super) fn make(
    assignment: Assignment<'_>,
    (runs, spec): (&Runs, &Spec),
    fleet: Option<&SweepFleet>,
    interrupted: &AtomicBool,
    observers: &mut Observers<'_>,
    notes: &mut Vec<String>,
    console: &Console,
) -> Result<RunResult, String> {
    let cell = &assignment.planned.cell;
    let request = request(cell, runs)?;
    let mut plan = request.plan.clone();
    if assignment.is_try {
        shorten(&mut plan);
    }
    if let Some(step) = &assignment.planned.step {
        set_load(&mut plan, step);
    }
    if request.draws_seed {
        draw_seed(&mut plan);
    }
    let invocation = invocation(request.report.keep_secrets, console);
    let observed = (&mut *observers, &request.report.labels);
    let finished = match fleet {
        Some(fleet) => {
            let run = (plan, &invocation);
            fleet.run(run, (spec, cell), interrupted, observed, notes)
        }
        None => {
            let conditions = spec.search.as_ref().map_or(&[][..], |search| &search.slo);
            let early = Requirements::of(assignment.planned.step.as_ref(), conditions);
            let run = (plan, invocation);
            here(run, assignment.samples, interrupted, early, observed)
        }
    };
    let result = finished.as_ref().map(|finished| &finished.result);
    observers.event(&Event::End(RunEnd {
        result: result.map_err(String::as_str),
        failed: &[],
    }));
    let mut finished = finished?;
    finished.settle();
    if let Some(failure) = finished.failure() {
        return Err(failure);
    }
    if let Some(reason) = why_partial(&finished.result) {
        return Err(reason);
    }
    // The output of the script's `done`, which goes to stderr here.
    finished.done().map_err(|error| error.to_string())?;
    runner::flush_script_output();
    let verdict = &finished.result.generator.verdict;
    if request.report.strict && (verdict.is_saturated() || verdict.is_disturbed()) {
        return Err(judging::sentences::verdict_lines(verdict).join("; "));
    }
    Ok(finished.result)
}

/// A response for each connection is enough to see whether a run works. Very short runs get more
/// time for it: the first responses of a cold server are the slowest.
fn shorten(plan: &mut RunPlan) {
    const TIME_MIN: Duration = Duration::from_secs(2);
    plan.stop.duration = plan.stop.duration.map(|duration| duration.max(TIME_MIN));
    let enough = plan.load.connections;
    let requests = plan.stop.requests.unwrap_or(u64::MAX);
    plan.stop.requests = Some(requests.min(enough.into()));
    (plan.warmup, plan.warmup_auto) = (Duration::ZERO, false);
    plan.telemetry = None;
}

/// Sets the load that a step of a search asks for.
fn set_load(plan: &mut RunPlan, step: &SearchStep) {
    plan.stop = Stop {
        duration: Some(Duration::from_millis(step.duration_ms)),
        requests: None,
    };
    if let Some(connections) = step.connections {
        plan.load.connections = connections;
    }
    let arrivals = plan.pacing.arrivals().unwrap_or(Arrivals::Poisson);
    plan.pacing = match step.rate_per_sec {
        None => Pacing::Closed,
        Some(rate_per_sec) => Pacing::Constant {
            rate_per_sec,
            arrivals,
            seed: 0,
        },
    };
    draw_seed(plan);
}

/// Makes the run on this machine. It ends early if it misses the `requirements` by far.
fn here(
    (plan, invocation): (RunPlan, Invocation),
    samples_path: &Path,
    interrupted: &AtomicBool,
    requirements: Option<Requirements<'_>>,
    (observers, labels): (&mut Observers<'_>, &BTreeMap<String, String>),
) -> Result<Finished, String> {
    let samples = samples(&plan, samples_path)?;
    let prepared = runner::prepare(plan, invocation).map_err(|error| error.to_string())?;
    observers.event(&Event::Start(RunStart {
        plan: prepared.plan(),
        labels,
        run_id: None,
        agents: &[],
    }));
    let observer = observers.observer();
    let Some(requirements) = requirements else {
        let finished = prepared.run(interrupted, RunObservers { samples, observer });
        return finished.map_err(|error| error.to_string());
    };
    let stop = AtomicBool::new(false);
    let mut observer = EarlyEnd {
        observer,
        requirements,
        interrupted,
        stop: &stop,
        is_hopeless: false,
    };
    let observers = RunObservers {
        samples,
        observer: Some(&mut observer),
    };
    let finished = prepared.run(&stop, observers);
    let is_hopeless = observer.is_hopeless && !interrupted.load(Ordering::Relaxed);
    let mut finished = finished.map_err(|error| error.to_string())?;
    let window = &mut finished.result.window;
    if is_hopeless && window.interrupted {
        (window.interrupted, window.is_hopeless) = (false, true);
    }
    Ok(finished)
}

/// The plan of a cell's run, after everything but the target was checked: a hook may start the
/// server first. What only the machines of a fleet have is not looked for here.
///
/// # Errors
/// What would fail, in a line.
pub(super) fn check(
    cell: &Cell,
    runs: &Runs,
    conditions: &[Criterion],
    is_fleet: bool,
    console: &Console,
) -> Result<RunPlan, String> {
    let request = request(cell, runs)?;
    let mut plan = request.plan.clone();
    if is_fleet && plan.profile.is_some() {
        return Err("--profile: a sweep by a fleet takes no profiles; make single runs".to_owned());
    }
    if is_fleet {
        (plan.tls.cert, plan.tls.key) = (None, None);
    }
    match runner::prepare(plan, invocation(request.report.keep_secrets, console)) {
        Ok(prepared) => {
            let named = check_names("--slo", conditions, prepared.request_names());
            named.map_err(|error| error.to_string())?;
            Ok(prepared.plan().clone())
        }
        Err(RunnerError::Target(_)) => Ok(request.plan.without_secrets()),
        Err(RunnerError::Telemetry(_) | RunnerError::Engine(_)) if is_fleet => {
            Ok(request.plan.without_secrets())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn request<'r>(cell: &Cell, runs: &'r Runs) -> Result<&'r RunRequest, String> {
    match runs.get(&cell.number) {
        Some(Ok(request)) => Ok(request),
        Some(Err(refusal)) => Err(refusal.clone()),
        None => Err(format!("cell {} has no run", cell.number)),
    }
}

/// The file for samples, if the run takes any.
fn samples(plan: &RunPlan, path: &Path) -> Result<Option<Box<dyn Write + Send>>, String> {
    if plan.telemetry.as_ref().is_none_or(|t| t.sockets.is_none()) {
        return Ok(None);
    }
    SamplesFile::create(path)
        .map(|(_, writer)| Some(writer))
        .map_err(|error| format!("{}: cannot be written ({error})", path.display()))
}
