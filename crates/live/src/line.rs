//! A run in one line: what is rewritten on a terminal, and what goes elsewhere every ten seconds.

mod fit;

use std::time::Duration;

use plan::{RunPlan, units};
use ratatui::text::{Line, Span};
use results::snapshot::{Interval, Snapshot, Stage};

use crate::look::{BAD, BOLD, FAINT, Look, MEDIAN, RATE, TAIL};
use crate::progress::{End, RunProgress};
use fit::{Form, Words};

/// Without any news for so long, figures of the last second are those of another time.
const NEWS_MAX_AGE: Duration = Duration::from_millis(2_500);

/// How often there is a line where nothing can be written over.
const PLAIN_EVERY_NS: u64 = 10_000_000_000;

/// Shorter runs need no line to be told from ones that hang.
const PLAIN_FROM: Duration = Duration::from_secs(30);

/// Which trial of a sweep it is, in words, from the longest to the shortest.
pub type Place = [String; 3];

/// A line of at most so many columns; in a terminal every column but the last can be used. `since` is the time
/// since the snapshot.
#[must_use]
pub fn line(
    plan: &RunPlan,
    snapshot: &Snapshot,
    since: Duration,
    place: Option<&Place>,
    columns: usize,
    look: Look,
) -> String {
    fit::written(&spans(plan, snapshot, since, place, columns, look), look)
}

/// The same line before it is written for a terminal.
pub(crate) fn spans(
    plan: &RunPlan,
    snapshot: &Snapshot,
    since: Duration,
    place: Option<&Place>,
    columns: usize,
    look: Look,
) -> Line<'static> {
    let scene = Scene::new(plan, snapshot, since);
    Form::ALL
        .iter()
        .find_map(|form| {
            let place = place.zip(form.place).map(|(place, at)| &*place[at]);
            fit::with_bar(
                scene.figures(*form),
                place,
                scene.progress.share,
                *form,
                columns,
                look,
            )
        })
        .unwrap_or_else(|| fit::cut(scene.figures(Form::LEAST), columns))
}

/// What is said of a trial that has not begun: the longest of the texts that there is room for.
#[must_use]
pub fn waiting(texts: &Place, columns: usize) -> String {
    let texts = texts.iter().map(|text| text.replace(char::is_control, " "));
    texts
        .into_iter()
        .find(|text| Span::raw(text.as_str()).width() <= columns)
        .unwrap_or_default()
}

/// A run at one moment.
struct Scene<'a> {
    snapshot: &'a Snapshot,
    since: Duration,
    progress: RunProgress,
    /// p50 and p99 of the last interval, nanoseconds.
    percentiles_ns: Option<(u64, u64)>,
}

impl<'a> Scene<'a> {
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

    /// What the line says, figure by figure.
    fn figures(&self, form: Form) -> Vec<Span<'static>> {
        let mut figures = vec![Span::raw(self.left(form.words))];
        if self.since > NEWS_MAX_AGE {
            let silence = format!("no news for {}", seconds(self.since));
            figures.push(Span::raw(silence));
        } else {
            figures.extend(self.last(form));
        }
        figures.extend(failures(self.snapshot, form.words));
        if let Some(share) = self.snapshot.busiest_worker.filter(|_| form.cpu) {
            let name = match form.words {
                Words::Long => "generator CPU",
                Words::Short | Words::Least => "CPU",
            };
            figures.push(Span::raw(format!("{name} {:.0}%", share * 100.0)));
        }
        figures
    }

    /// Requests per second and latency.
    fn last(&self, form: Form) -> Vec<Span<'static>> {
        let unit = match form.words {
            Words::Long => " requests/s",
            Words::Short | Words::Least => "/s",
        };
        let per_sec = units::metric(self.snapshot.last.requests_per_sec());
        let mut figures = vec![Span::styled(format!("{per_sec}{unit}"), RATE.patch(BOLD))];
        if let Some((p50_ns, p99_ns)) = self.percentiles_ns {
            let count = self.snapshot.last.latency.count();
            let figure = |percent, value_ns: u64, style| {
                let value = units::time_us(value_ns as f64 / 1000.0);
                if results::enough_samples(percent, count) {
                    Span::styled(format!("p{percent} {value}"), style)
                } else {
                    Span::styled(format!("p{percent} ~{value}"), FAINT)
                }
            };
            figures.extend(form.p50.then(|| figure(50.0, p50_ns, MEDIAN)));
            figures.extend(form.p99.then(|| figure(99.0, p99_ns, TAIL)));
        }
        figures
    }

    /// What is still to come: time or requests; without either, how long it has been.
    fn left(&self, words: Words) -> String {
        let word = match words {
            Words::Long | Words::Short => " left",
            Words::Least => "",
        };
        let left = |whole| units::time(self.progress.left(whole));
        match self.progress.end {
            End::WarmUp(whole) => format!("warming up {}{word}", left(whole)),
            End::Time(whole) => format!("{}{word}", left(whole)),
            End::Requests { made, of } => {
                let what = match words {
                    Words::Long => " requests",
                    Words::Short => "",
                    Words::Least => " to go",
                };
                format!("{}{what}{word}", count(of - made))
            }
            End::Nothing => seconds(self.progress.elapsed),
        }
    }
}

/// What failed so far; while warming up in the last second. Nothing when nothing did.
fn failures(snapshot: &Snapshot, words: Words) -> Vec<Span<'static>> {
    let errors = match snapshot.stage {
        Stage::WarmingUp => snapshot.last.errors,
        Stage::Measuring => snapshot.errors.events(),
    };
    let mut figures = Vec::new();
    match errors {
        0 => {}
        1 => figures.push(Span::styled("1 error", BAD)),
        _ => figures.push(Span::styled(format!("{} errors", count(errors)), BAD)),
    }
    let over_399 = snapshot.statuses.over_399();
    if over_399 > 0 {
        let what = match words {
            Words::Long => "with a status over 399",
            Words::Short => "over 399",
            Words::Least => ">399",
        };
        figures.push(Span::styled(format!("{} {what}", count(over_399)), BAD));
    }
    figures
}

/// Exact as long as it is short.
fn count(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        _ => units::metric(count as f64),
    }
}

/// Whole ones.
fn seconds(time: Duration) -> String {
    units::time(Duration::from_secs(time.as_secs()))
}

/// Lines for where nothing can be written over: one every ten seconds, about the time since the one before.
#[derive(Debug, Default)]
pub struct Plain {
    gathered: Interval,
    stage: Stage,
}

impl Plain {
    /// `None` for a run that is over before there would be much to say.
    #[must_use]
    pub fn of(plan: &RunPlan) -> Option<Self> {
        let is_long = |duration| plan.warmup.saturating_add(duration) > PLAIN_FROM;
        plan.stop.duration.is_none_or(is_long).then(Self::default)
    }

    /// Takes what is new; the line, when it is time for one.
    #[must_use]
    pub fn line(&mut self, plan: &RunPlan, snapshot: &Snapshot) -> Option<String> {
        if self.stage != snapshot.stage {
            self.gathered = Interval::default();
            self.stage = snapshot.stage;
        }
        let Interval {
            duration_ns,
            answered,
            errors,
            bytes,
            latency,
        } = &snapshot.last;
        self.gathered.duration_ns += duration_ns;
        self.gathered.answered += answered;
        self.gathered.errors += errors;
        self.gathered.bytes += bytes;
        self.gathered.latency.merge(latency);
        // Seconds end when somebody looks, not to the nanosecond.
        if self.gathered.duration_ns + PLAIN_EVERY_NS / 20 < PLAIN_EVERY_NS {
            return None;
        }
        let gathered = Snapshot {
            last: std::mem::take(&mut self.gathered),
            ..snapshot.clone()
        };
        let figures = Scene::new(plan, &gathered, Duration::ZERO).figures(Form::WHOLE);
        Some(Line::from(fit::joined(figures, ", ")).to_string())
    }
}

#[cfg(test)]
mod tests;
