//! `--stream`: what happens as JSON, a line for each event and each second of a run.
//!
//! Lines are written by a thread of their own, so that a reader that is slow, or does not read at
//! all, holds up nothing. `docs/stream.schema.json` is generated from the types of the lines.

mod lines;
mod writer;

use std::time::Duration;

use engine::{Observer, monotonic_ns};
use results::TrialOutcome;
use results::snapshot::Snapshot;

use crate::figures::{Figures, RunFigures};
use crate::{Event, Output};
use lines::{
    AgentName, EndLine, ExperimentEndLine, ExperimentLine, Moment, NoteLine, SecondLine, StartLine,
    StreamLine, TrialEndLine, TrialOutcomeName, TrialStartLine, VerdictLine,
};
use writer::{Importance, Writer};

#[cfg(feature = "schema")]
pub use lines::schema;
pub use writer::Sink;

/// How long the last lines may take to be written.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// Writes lines of JSON.
pub struct Stream {
    writer: Writer,
    /// Nanoseconds since 1970-01-01 UTC, by the wall clock.
    unix_ns: fn() -> u64,
    start_ns: u64,
    /// The trial of an experiment, by its position in the whole order.
    position: Option<u32>,
    run: Option<RunFigures>,
}

impl Stream {
    /// A stream to this sink. `unix_ns` reads the wall clock, nanoseconds since 1970-01-01 UTC.
    ///
    /// # Errors
    /// When the system cannot create a thread.
    pub fn new(sink: Sink, unix_ns: fn() -> u64) -> std::io::Result<Self> {
        Ok(Self {
            writer: Writer::start(sink)?,
            unix_ns,
            start_ns: monotonic_ns(),
            position: None,
            run: None,
        })
    }

    fn moment(&self) -> Moment {
        let time = jiff::Timestamp::from_nanosecond((self.unix_ns)().into()).unwrap_or_default();
        let elapsed_ms = monotonic_ns().saturating_sub(self.start_ns) / 1_000_000;
        Moment {
            time: time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            elapsed_s: elapsed_ms as f64 / 1e3,
            lost_lines: self.writer.lost(),
            position: self.position,
        }
    }

    fn write(&self, line: &StreamLine<'_>) {
        let importance = match line {
            StreamLine::Second(_) => Importance::Second,
            _ => Importance::Event,
        };
        // A map with other keys than texts, which there is none of, would be the only reason.
        if let Ok(text) = serde_json::to_string(line) {
            self.writer.add(text, importance);
        }
    }

    fn trial(&mut self, event: &experiment::Event<'_>) {
        use experiment::Event as Of;
        match event {
            Of::Begins {
                planned,
                attempt,
                progress,
            } => {
                self.position = Some(planned.position);
                self.write(&StreamLine::TrialStart(TrialStartLine {
                    moment: self.moment(),
                    trials: progress.total(),
                    attempt: *attempt,
                    is_try: false,
                    cell: &planned.cell,
                    round: planned.round,
                    search: planned.step.as_ref(),
                }));
            }
            Of::Tries {
                planned,
                number,
                of,
            } => {
                self.position = u32::try_from(*number).ok();
                self.write(&StreamLine::TrialStart(TrialStartLine {
                    moment: self.moment(),
                    trials: *of,
                    attempt: 1,
                    is_try: true,
                    cell: &planned.cell,
                    round: planned.round,
                    search: None,
                }));
            }
            Of::Finished { trial, result, .. } => {
                self.write(&StreamLine::TrialEnd(TrialEndLine {
                    moment: self.moment(),
                    outcome: TrialOutcomeName::Finished,
                    failure: None,
                    again: false,
                    cell: &trial.cell,
                    round: trial.round,
                    search: trial.search.as_ref(),
                    total: Some(Figures::of_result(result)),
                    verdict: Some(&result.generator.verdict),
                }));
                debug_assert!(matches!(trial.outcome, TrialOutcome::Finished(_)));
                self.position = None;
            }
            Of::Failed {
                planned,
                failure,
                again,
                ..
            } => self.failed_trial(planned, failure, *again),
            Of::TryFailed {
                planned, failure, ..
            } => self.failed_trial(planned, failure, false),
            Of::Note(text) => self.write(&StreamLine::Note(NoteLine {
                moment: self.moment(),
                text,
            })),
        }
    }

    fn failed_trial(
        &mut self,
        planned: &experiment::Planned,
        failure: &experiment::Failure,
        again: bool,
    ) {
        self.write(&StreamLine::TrialEnd(TrialEndLine {
            moment: self.moment(),
            outcome: TrialOutcomeName::Failed,
            failure: Some(&failure.reason),
            again,
            cell: &planned.cell,
            round: planned.round,
            search: planned.step.as_ref(),
            total: None,
            verdict: None,
        }));
        self.position = None;
    }
}

impl Observer for Stream {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        let Some(run) = &mut self.run else { return };
        let figures = run.of_second(snapshot);
        self.write(&StreamLine::Second(SecondLine::new(
            self.moment(),
            snapshot,
            figures,
        )));
    }
}

impl Output for Stream {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Experiment(experiment) => {
                self.write(&StreamLine::ExperimentStart(ExperimentLine {
                    moment: self.moment(),
                    experiment,
                }))
            }
            Event::Trial(event) => self.trial(event),
            Event::Start(start) => {
                self.run = Some(RunFigures::new(start.plan));
                self.write(&StreamLine::Start(StartLine {
                    moment: self.moment(),
                    version: env!("CARGO_PKG_VERSION"),
                    run_id: start.run_id,
                    plan: start.plan,
                    labels: start.labels,
                    agents: start.agents.iter().map(AgentName::of).collect(),
                }));
            }
            Event::End(end) => {
                self.run = None;
                let result = end.result.ok();
                self.write(&StreamLine::End(EndLine {
                    moment: self.moment(),
                    failure: end.result.err(),
                    interrupted: result.is_some_and(|it| it.window.interrupted),
                    total: result.map(Figures::of_result),
                    verdict: result.map(|it| &it.generator.verdict),
                    warnings: result.map_or_else(Vec::new, |result| {
                        let warnings = result.warnings.iter();
                        warnings.map(|warning| warning.text.as_str()).collect()
                    }),
                    failed: end.failed,
                }));
            }
            Event::ExperimentEnd(outcome) => {
                self.write(&StreamLine::ExperimentEnd(ExperimentEndLine {
                    moment: self.moment(),
                    finished: outcome.finished,
                    failed: outcome.failed,
                    left: outcome.left,
                    interrupted: outcome.is_interrupted,
                    abort: outcome.abort.as_ref().map(ToString::to_string),
                }));
            }
            Event::Verdict(verdict) => self.write(&StreamLine::Verdict(VerdictLine {
                moment: self.moment(),
                factor: verdict.factor,
                place: verdict.place,
                metric: verdict.metric,
                sentence: verdict.sentence,
            })),
        }
    }

    fn close(&mut self) -> Vec<String> {
        self.writer.close(CLOSE_MAX).into_iter().collect()
    }
}
