//! The outputs of a run or a sweep in progress, and what they are told.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::Observer;
use experiment::ExperimentOutcome;
use plan::RunPlan;
use results::snapshot::Snapshot;
use results::{Experiment, RunResult};

/// What an output is told, besides the snapshots of a run.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// An experiment starts, before its first trial.
    Experiment(&'a Experiment),
    /// A trial begins, has ended, or something else happens to an experiment.
    Trial(&'a experiment::Event<'a>),
    /// The load of a run starts. In an experiment this comes after the trial has begun.
    Start(RunStart<'a>),
    /// The load of a run has ended. In an experiment this comes before the end of the trial. A run
    /// that could not start has neither.
    End(RunEnd<'a>),
    /// An experiment has ended and everything that it changed was restored.
    ExperimentEnd(&'a ExperimentOutcome),
    /// What a comparison of all trials of an experiment has shown.
    Verdict(ComparisonVerdict<'a>),
}

/// What the comparison of the levels of one factor by one metric has shown.
#[derive(Debug, Clone, Copy)]
pub struct ComparisonVerdict<'a> {
    /// The factor; `None` if cells are compared as a whole.
    pub factor: Option<&'a str>,
    /// The profile, target or cell that the runs share; empty if there is only one.
    pub place: &'a [String],
    /// Name of the metric.
    pub metric: &'a str,
    /// The verdict, as it is printed.
    pub sentence: &'a str,
}

/// What is known when the load of a run starts.
#[derive(Debug, Clone, Copy)]
pub struct RunStart<'a> {
    /// The plan of all agents together, without secrets unless they are to be shown.
    pub plan: &'a RunPlan,
    /// What the result says about the run (`--label`), by name.
    pub labels: &'a BTreeMap<String, String>,
    /// Name of the run, if a fleet makes it.
    pub run_id: Option<&'a str>,
    /// Name and place of each agent, if a fleet makes the run.
    pub agents: &'a [(String, String)],
}

/// How a run ended.
#[derive(Debug, Clone, Copy)]
pub struct RunEnd<'a> {
    /// The result, which has the verdict on the load generator; the error is why there is none, in
    /// one line.
    pub result: Result<&'a RunResult, &'a str>,
    /// The conditions of `--fail-if` that hold, one line each.
    pub failed: &'a [String],
}

/// Follows a run or a sweep from its start to its end. It is called in the main thread and must not
/// wait for anything outside the process: whatever may be slow has a thread of its own.
pub trait Output: Observer {
    /// Called with each event, in order. Snapshots come between the start and the end of a run.
    fn event(&mut self, _event: &Event<'_>) {}

    /// What the user should know before the start, in one line.
    fn note(&self) -> Option<String> {
        None
    }

    /// What [`Self::close`] would wait for now, in one line; `None` if only for a moment.
    fn waits_for(&self) -> Option<String> {
        None
    }

    /// Whether it wants the snapshots of the run that has just started.
    fn wants_snapshots(&self) -> bool {
        true
    }

    /// Called once, after everything else: hands over what is left, within a limit of time. Returns
    /// what went wrong with this output, one line each.
    fn close(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// All outputs of a run or a sweep.
#[derive(Default)]
pub struct Observers<'a> {
    /// The line or the screen on the terminal.
    display: Option<Box<dyn Output + 'a>>,
    outputs: Vec<Box<dyn Output + 'a>>,
    /// Between the start and the end of a run.
    is_running: bool,
}

impl<'a> Observers<'a> {
    /// These outputs, without a display.
    #[must_use]
    pub fn new(outputs: Vec<Box<dyn Output + 'a>>) -> Self {
        Self {
            outputs,
            ..Self::default()
        }
    }

    /// Adds what is shown on the terminal.
    pub fn set_display(&mut self, display: Option<Box<dyn Output + 'a>>) {
        self.display = display;
    }

    /// Removes the line or the screen from the terminal, before anything else is written there.
    pub fn remove_display(&mut self) {
        self.display = None;
    }

    /// Tells every output. The end of a run that has not started is left out.
    pub fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(_) => self.is_running = true,
            Event::End(_) if !std::mem::take(&mut self.is_running) => return,
            _ => {}
        }
        for output in self.all() {
            output.event(event);
        }
    }

    /// The observer of the run that has just started; `None` if no output wants its snapshots, so
    /// that nothing is collected for them.
    #[must_use]
    pub fn observer(&mut self) -> Option<&mut dyn Observer> {
        let is_wanted = self.all().any(|output| output.wants_snapshots());
        is_wanted.then_some(self)
    }

    /// What [`Self::close`] would wait for now, one line each.
    #[must_use]
    pub fn wait_for(&mut self) -> Vec<String> {
        self.all().filter_map(|output| output.waits_for()).collect()
    }

    /// Closes all outputs. Returns what went wrong with them, one line each.
    #[must_use]
    pub fn close(mut self) -> Vec<String> {
        self.all().flat_map(Output::close).collect()
    }

    fn all(&mut self) -> impl Iterator<Item = &mut (dyn Output + 'a)> {
        let outputs = self.display.iter_mut().chain(&mut self.outputs);
        outputs.map(|output| &mut **output)
    }
}

impl Observer for Observers<'_> {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        for output in self.all() {
            output.snapshot(snapshot);
        }
    }

    fn turn(&mut self, since: Duration) {
        for output in self.all() {
            output.turn(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use plan::Target;

    use super::*;

    /// Notes what it is told.
    struct Notes<'a>(&'static str, &'a RefCell<Vec<String>>);

    impl Notes<'_> {
        fn add(&self, text: &str) {
            self.1.borrow_mut().push(format!("{} {text}", self.0));
        }
    }

    impl Observer for Notes<'_> {
        fn snapshot(&mut self, _: &Snapshot) {
            self.add("second");
        }

        fn turn(&mut self, _: Duration) {
            self.add("turn");
        }
    }

    impl Output for Notes<'_> {
        fn event(&mut self, event: &Event<'_>) {
            self.add(match event {
                Event::Start(_) => "start",
                Event::End(_) => "end",
                _ => "other",
            });
        }

        fn close(&mut self) -> Vec<String> {
            self.add("close");
            vec![format!("{} failed", self.0)]
        }
    }

    #[test]
    fn every_output_is_told_everything_and_a_removed_display_nothing_more() {
        let notes = RefCell::new(Vec::new());
        let mut observers = Observers::new(vec![Box::new(Notes("a", &notes))]);
        observers.set_display(Some(Box::new(Notes("line", &notes))));
        let target = Target::parse("http://127.0.0.1/").expect("a URL");
        observers.event(&Event::Start(RunStart {
            plan: &RunPlan::new(target),
            labels: &BTreeMap::new(),
            run_id: None,
            agents: &[],
        }));
        let observer = observers.observer().expect("there are outputs");
        observer.snapshot(&Snapshot::default());
        observer.turn(Duration::ZERO);
        observers.remove_display();
        let end = Event::End(RunEnd {
            result: Err("it failed"),
            failed: &[],
        });
        observers.event(&end);
        // That of a run that did not start.
        observers.event(&end);
        assert_eq!(observers.close(), ["a failed"]);
        let told = [
            "line start",
            "a start",
            "line second",
            "a second",
            "line turn",
            "a turn",
            "a end",
            "a close",
        ];
        assert_eq!(*notes.borrow(), told);
    }

    #[test]
    fn without_anybody_who_wants_snapshots_nothing_is_collected() {
        struct Idle;
        impl Observer for Idle {
            fn snapshot(&mut self, _: &Snapshot) {}
        }
        impl Output for Idle {
            fn wants_snapshots(&self) -> bool {
                false
            }
        }
        assert!(Observers::default().observer().is_none());
        assert!(Observers::new(vec![Box::new(Idle)]).observer().is_none());
    }
}
