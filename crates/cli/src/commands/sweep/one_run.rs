//! One run of a sweep, in this process.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use experiment::{Assignment, Failure, Spec};
use judging::Criterion;
use outputs::{Event, Observers, RunEnd};
use plan::{Arrivals, Pacing, RunPlan, Stop};
use results::{Cell, RunResult, SearchStep};
use runner::{Finished, PreparedRun, RunObservers, RunnerError};

use super::super::run::{check_names, draw_seed, invocation, tell_start};
use super::super::run_maker::RunMaker;
use super::super::samples::SamplesFile;
use super::Runs;
use super::early_end::{EarlyEnd, Requirements};
use crate::args::RunRequest;
use crate::console::Console;

/// Makes the run. What the user should know is added to the notes.
/// The error is the reason why the run cannot be used.
pub(super) fn make(
    assignment: Assignment<'_>,
    (runs, spec): (&Runs, &Spec),
    maker: &dyn RunMaker,
    interrupted: &AtomicBool,
    observers: &mut Observers<'_>,
    notes: &mut Vec<String>,
    console: &Console,
) -> Result<RunResult, Failure> {
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
    let is_here = maker.agents().is_none();
    let conditions = spec.search.as_ref().map_or(&[][..], |search| &search.slo);
    let step = assignment.planned.step.as_ref().filter(|_| is_here);
    let early = Requirements::of(step, conditions);
    let finished = samples(&plan, assignment.samples, is_here).and_then(|samples| {
        let prepared = maker.prepare(plan, invocation, Some((spec, cell)));
        let prepared = prepared.map_err(|error| error.to_string())?;
        tell_start(&*prepared, &request.report.labels, observers);
        start(prepared, samples, interrupted, early, observers)
    });
    let result = finished.as_ref().map(|finished| &finished.result);
    observers.event(&Event::End(RunEnd {
        result: result.map_err(|failure| failure.reason.as_str()),
        failed: &[],
    }));
    let mut finished = finished?;
    notes.append(&mut finished.agent_notes);
    finished.settle();
    if let Some(failure) = finished.failure() {
        return Err(failure.into());
    }
    if let Some(reason) = why_partial(&finished.result) {
        return Err(reason.into());
    }
    // The output of the script's `done`, which goes to stderr here.
    finished.done().map_err(|error| error.to_string())?;
    runner::flush_script_output();
    let verdict = &finished.result.generator.verdict;
    if request.report.strict && (verdict.is_saturated() || verdict.is_disturbed()) {
        return Err(judging::sentences::verdict_lines(verdict).join("; ").into());
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
        // Each thread needs a connection.
        plan.load.threads = plan.load.threads.min(connections.max(1));
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

/// Generates the load. The run ends early if it misses the `requirements` by far.
fn start(
    prepared: Box<dyn PreparedRun + '_>,
    samples: Option<Box<dyn Write + Send>>,
    interrupted: &AtomicBool,
    requirements: Option<Requirements<'_>>,
    observers: &mut Observers<'_>,
) -> Result<Finished, Failure> {
    let observer = observers.observer();
    let Some(requirements) = requirements else {
        let finished = prepared.start(
            interrupted,
            RunObservers {
                samples,
                observer,
                records: None,
            },
        );
        return finished.map_err(|error| error.to_string().into());
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
        records: None,
    };
    let finished = prepared.start(&stop, observers);
    let is_hopeless = observer.is_hopeless && !interrupted.load(Ordering::Relaxed);
    let mut finished = finished.map_err(|error| error.to_string())?;
    let window = &mut finished.result.window;
    if is_hopeless && window.interrupted {
        (window.interrupted, window.is_hopeless) = (false, true);
    }
    Ok(finished)
}

/// Why a result is partial, if it is.
fn why_partial(result: &RunResult) -> Option<String> {
    let mut warnings = result.warnings.iter();
    let found = warnings.find(|it| it.data.is_partial());
    let text = found.map(|warning| warning.text.clone());
    result
        .is_partial()
        .then(|| text.unwrap_or_else(|| "partial result".to_owned()))
}

/// The plan of a cell's run, after everything but the target was checked: a hook may start the
/// server first. What only the machines of a fleet have is not looked for here.
///
/// # Errors
/// If the run cannot be made with these options, or not on this machine.
pub(super) fn check(
    cell: &Cell,
    runs: &Runs,
    conditions: &[Criterion],
    is_fleet: bool,
    console: &Console,
) -> Result<RunPlan, Failure> {
    let request = request(cell, runs)?;
    let mut plan = request.plan.clone();
    if is_fleet && plan.profile.is_some() {
        let reason = "--profile: a sweep by a fleet takes no profiles; make single runs";
        return Err(reason.to_owned().into());
    }
    if is_fleet && !plan.scrape.is_empty() {
        let reason = "--scrape: a fleet does not read the metrics of servers";
        return Err(reason.to_owned().into());
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
        Err(error) => Err(error.to_string().into()),
    }
}

fn request<'r>(cell: &Cell, runs: &'r Runs) -> Result<&'r RunRequest, Failure> {
    match runs.get(&cell.number) {
        Some(Ok(request)) => Ok(request),
        Some(Err(refusal)) => Err(refusal.to_string().into()),
        None => Err(format!("cell {} has no run", cell.number).into()),
    }
}

/// The file for samples, if the run takes any. Agents send none.
fn samples(
    plan: &RunPlan,
    path: &Path,
    is_here: bool,
) -> Result<Option<Box<dyn Write + Send>>, Failure> {
    if !is_here || plan.telemetry.as_ref().is_none_or(|t| t.sockets.is_none()) {
        return Ok(None);
    }
    SamplesFile::create(path)
        .map(|(_, writer)| Some(writer))
        .map_err(|error| format!("{}: cannot be written ({error})", path.display()).into())
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use plan::Target;
    use results::snapshot::Snapshot;
    use results::{SearchOver, SearchPhase, Window};
    use runner::{DoneScript, Failures};

    use super::*;

    /// A run without load, of which the observers see one snapshot.
    struct Pretended {
        plan: RunPlan,
        snapshot: Snapshot,
    }

    impl PreparedRun for Pretended {
        fn plan(&self) -> &RunPlan {
            &self.plan
        }

        fn notes(&self) -> &[String] {
            &[]
        }

        fn draws_requests(&self) -> bool {
            false
        }

        fn request_names(&self) -> Option<&[String]> {
            None
        }

        fn backend(&self) -> String {
            String::new()
        }

        fn start(
            self: Box<Self>,
            interrupted: &AtomicBool,
            observers: RunObservers<'_>,
        ) -> Result<Finished, Box<dyn Error + Send + Sync>> {
            let observer = observers.observer.ok_or("nobody observes")?;
            observer.snapshot(&self.snapshot);
            observer.turn(Duration::ZERO);
            let window = Window {
                interrupted: interrupted.load(Ordering::Relaxed),
                ..Window::default()
            };
            let result = RunResult::new(self.plan, window);
            Ok(DoneScript::default().finish(result, Failures::default(), Vec::new()))
        }
    }

    /// Whether a run of the bracket with `slow` responses ends as interrupted, and as hopeless.
    fn ends(slow: u64, interrupted: bool) -> (bool, bool) {
        let step = SearchStep {
            phase: SearchPhase::Bracket,
            over: SearchOver::Rate,
            rate_per_sec: Some(100.0),
            duration_ms: 1000,
            number: 1,
            connections: None,
            excess: None,
            is_spoiled: false,
            carried_per_sec: None,
            not_carried_per_sec: None,
            carried_connections: None,
            not_carried_connections: None,
            outcome: None,
        };
        let slo = Criterion::parse_list("p99<10ms").expect("a condition");
        let mut snapshot = Snapshot::default();
        snapshot.latency.record_n(1_000_000_000, slow);
        let target = Target::parse("http://h/").expect("a URL");
        let plan = RunPlan::new(target);
        let run = Box::new(Pretended { plan, snapshot });
        let requirements = Requirements::of(Some(&step), &slo);
        let interrupted = AtomicBool::new(interrupted);
        let finished = start(
            run,
            None,
            &interrupted,
            requirements,
            &mut Observers::default(),
        );
        let window = finished.expect("it starts").result.window;
        (window.interrupted, window.is_hopeless)
    }

    #[test]
    fn a_run_that_misses_the_conditions_by_far_is_told_to_stop() {
        assert_eq!(ends(0, false), (false, false));
        assert_eq!(ends(100, false), (false, true));
    }

    #[test]
    fn an_interrupt_reaches_a_run_that_may_end_early() {
        assert_eq!(ends(0, true), (true, false));
        assert_eq!(ends(100, true), (true, false));
    }
}
