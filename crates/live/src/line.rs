//! A run as one line: overwritten on a terminal, printed every ten seconds elsewhere.

mod fit;

use std::time::Duration;

use plan::{RunPlan, readable};
use ratatui::text::{Line, Span};
use results::snapshot::{Snapshot, SnapshotInterval, Stage};

use crate::appearance::{Appearance, BOLD, DIM, ERROR, MEDIAN, RATE, TAIL};
use crate::fleet::add;
use crate::numbers::{clock, rate, whole_seconds};
use crate::progress::{RunProgress, StageEnd};
use fit::{Form, Words};

/// After this long without a snapshot, the numbers of the last second count as outdated.
const NEWS_MAX_AGE: Duration = Duration::from_millis(2_500);

/// Interval of the lines where nothing can be overwritten.
const PLAIN_EVERY_NS: u64 = 10_000_000_000;

/// Shorter runs get no such lines.
const PLAIN_FROM: Duration = Duration::from_secs(30);

/// The name of a trial of a sweep, in three lengths from long to short.
pub type TrialName = [String; 3];

/// A line of at most `columns` columns (on a terminal, the last column must stay unused). `since`
/// is the age of the snapshot.
#[must_use]
pub fn line(
    plan: &RunPlan,
    snapshot: &Snapshot,
    since: Duration,
    trial: Option<&TrialName>,
    columns: usize,
    appearance: Appearance,
) -> String {
    fit::written(
        &spans(plan, snapshot, since, trial, columns, appearance),
        appearance,
    )
}

/// The same line as styled text.
pub(crate) fn spans(
    plan: &RunPlan,
    snapshot: &Snapshot,
    since: Duration,
    trial: Option<&TrialName>,
    columns: usize,
    appearance: Appearance,
) -> Line<'static> {
    let moment = LineValues::new(plan, snapshot, since);
    Form::ALL
        .iter()
        .find_map(|form| {
            let trial = trial.zip(form.trial).map(|(trial, at)| &*trial[at]);
            fit::with_bar(
                moment.figures(*form),
                trial,
                moment.progress.share,
                *form,
                columns,
                appearance,
            )
        })
        .unwrap_or_else(|| fit::cut(moment.figures(Form::LEAST), columns))
}

/// The line of a trial that has not started: the longest text that fits.
#[must_use]
pub fn waiting(texts: &TrialName, columns: usize) -> String {
    let texts = texts.iter().map(|text| plan::printable(text).into_owned());
    texts
        .into_iter()
        .find(|text| Span::raw(text.as_str()).width() <= columns)
        .unwrap_or_default()
}

/// The numbers of one moment.
struct LineValues<'a> {
    snapshot: &'a Snapshot,
    since: Duration,
    progress: RunProgress,
    /// p50 and p99 of the last interval, nanoseconds.
    percentiles_ns: Option<(u64, u64)>,
}

impl<'a> LineValues<'a> {
    fn new(plan: &RunPlan, snapshot: &'a Snapshot, since: Duration) -> Self {
        let latency = &snapshot.last.latency;
        let values_ns = latency.values_at_percentiles(&[50.0, 99.0]);
        let percentiles_ns = match values_ns[..] {
            [p50_ns, p99_ns] if !latency.is_empty() => Some((p50_ns, p99_ns)),
            _ => None,
        };
        Self {
            snapshot,
            since,
            progress: RunProgress::at(plan, snapshot, since),
            percentiles_ns,
        }
    }

    /// The parts of the line.
    fn figures(&self, form: Form) -> Vec<Span<'static>> {
        let mut figures = vec![Span::raw(self.left(form.words))];
        if self.since > NEWS_MAX_AGE {
            let silence = format!("no update for {}", whole_seconds(self.since));
            figures.push(Span::raw(silence));
        } else {
            figures.extend(self.last(form));
        }
        figures.extend(failures(self.snapshot, form.words));
        figures.extend(fleet(self.snapshot, form.words));
        if let Some(share) = self.snapshot.busiest_worker.filter(|_| form.cpu) {
            let name = match form.words {
                Words::Long => "generator CPU",
                Words::Short | Words::Least => "CPU",
            };
            figures.push(Span::raw(format!("{name} {:.0} %", share * 100.0)));
        }
        figures
    }

    /// Requests per second and latency.
    fn last(&self, form: Form) -> Vec<Span<'static>> {
        let unit = match form.words {
            Words::Long => " requests/s",
            Words::Short | Words::Least => "/s",
        };
        let per_sec = rate(self.snapshot.last.requests_per_sec());
        let mut figures = vec![Span::styled(format!("{per_sec}{unit}"), RATE.patch(BOLD))];
        if let Some((p50_ns, p99_ns)) = self.percentiles_ns {
            let count = self.snapshot.last.latency.count();
            let figure = |percent, value_ns: u64, style| {
                let value = readable::time_ns(value_ns);
                if results::enough_samples(percent, count) {
                    Span::styled(format!("p{percent} {value}"), style)
                } else {
                    Span::styled(format!("p{percent} ~{value}"), DIM)
                }
            };
            figures.extend(form.p50.then(|| figure(50.0, p50_ns, MEDIAN)));
            figures.extend(form.p99.then(|| figure(99.0, p99_ns, TAIL)));
        }
        figures
    }

    /// The time or requests that are left; without a defined end, the elapsed time.
    fn left(&self, words: Words) -> String {
        let word = match words {
            Words::Long | Words::Short => " left",
            Words::Least => "",
        };
        let left = |whole| clock(self.progress.left(whole));
        match self.progress.end {
            StageEnd::WarmUp(whole) => format!("warm-up {}{word}", left(whole)),
            StageEnd::Settling(most) => format!("warm-up at most {}{word}", left(most)),
            StageEnd::Time(whole) => format!("{}{word}", left(whole)),
            StageEnd::Drain(most) => format!("drain {}{word}", left(most)),
            StageEnd::Requests { made, of } => {
                let left = of - made;
                match words {
                    Words::Long => format!("{} left", readable::counted(left, "request")),
                    Words::Short => format!("{} left", readable::count(left)),
                    Words::Least => format!("{} to go", readable::count(left)),
                }
            }
            StageEnd::Nothing => whole_seconds(self.progress.elapsed),
        }
    }
}

/// Failures so far; during the warm-up, those of the last second.
fn failures(snapshot: &Snapshot, words: Words) -> Vec<Span<'static>> {
    let errors = match snapshot.stage {
        Stage::WarmingUp => snapshot.last.errors,
        Stage::Measuring => snapshot.errors.events(),
    };
    let mut figures = Vec::new();
    if errors > 0 {
        figures.push(Span::styled(readable::counted(errors, "error"), ERROR));
    }
    let over_399 = snapshot.statuses.over_399();
    if over_399 > 0 {
        let what = match words {
            Words::Long => "with status 400 or above",
            Words::Short => "with status >=400",
            Words::Least => ">=400",
        };
        figures.push(Span::styled(
            format!("{} {what}", readable::count(over_399)),
            ERROR,
        ));
    }
    figures
}

/// The number of agents, and of those that were lost.
fn fleet(snapshot: &Snapshot, words: Words) -> Option<Span<'static>> {
    let agents = snapshot.agents.len() as u64;
    let lost = snapshot.agents.iter().filter(|agent| agent.is_lost).count() as u64;
    match (lost, words) {
        (0, Words::Long) if agents > 0 => Some(Span::raw(readable::counted(agents, "agent"))),
        (0, _) => None,
        (lost, Words::Long | Words::Short) => Some(Span::styled(
            format!(
                "{} of {} lost",
                readable::count(lost),
                readable::counted(agents, "agent")
            ),
            ERROR,
        )),
        (lost, Words::Least) => Some(Span::styled(
            format!("{} lost", readable::count(lost)),
            ERROR,
        )),
    }
}

/// Separate lines, one every ten seconds, each about the time since the previous one.
#[derive(Debug, Default)]
pub struct PlainLines {
    gathered: SnapshotInterval,
    stage: Stage,
}

impl PlainLines {
    /// `None` for a short run.
    #[must_use]
    pub fn of(plan: &RunPlan) -> Option<Self> {
        let is_long = |duration| plan.warmup.saturating_add(duration) > PLAIN_FROM;
        plan.stop.duration.is_none_or(is_long).then(Self::default)
    }

    /// Adds a snapshot; returns a line when one is due.
    #[must_use]
    pub fn line(&mut self, plan: &RunPlan, snapshot: &Snapshot) -> Option<String> {
        if self.stage != snapshot.stage {
            self.gathered = SnapshotInterval::default();
            self.stage = snapshot.stage;
        }
        add(&mut self.gathered, &snapshot.last);
        // Snapshots do not arrive at exact seconds.
        if self.gathered.duration_ns + PLAIN_EVERY_NS / 20 < PLAIN_EVERY_NS {
            return None;
        }
        let gathered = Snapshot {
            last: std::mem::take(&mut self.gathered),
            ..snapshot.clone()
        };
        let figures = LineValues::new(plan, &gathered, Duration::ZERO).figures(Form::WHOLE);
        Some(Line::from(fit::joined(figures, ", ")).to_string())
    }
}

#[cfg(test)]
mod tests;
