//! Lines of progress of an experiment: when a trial starts, and when it ends.

use std::time::Duration;

use judging::sentences::verdict_word;
use plan::readable::{counted, time_ns};
use plan::units;
use presentation::words::number;
use results::{Cell, Metric, RunResult, SearchStep, Setting, metric};

use crate::page::quantities::{show, title};
use crate::searches::load_in_words;

/// What a run of an experiment is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TrialKind<'a> {
    /// A trial of a fixed design.
    Planned,
    /// A short run before the first trial.
    Try,
    /// A step of a search. The number of all trials is an estimate then.
    Step(&'a SearchStep),
}

/// The trial that an experiment is at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialPosition<'a> {
    /// What the run is for.
    pub kind: TrialKind<'a>,
    /// Number of the trial, from 1.
    pub trial: usize,
    /// Number of all trials.
    pub trials: usize,
    /// Number of the round, from 1.
    pub round: u32,
    /// Number of all rounds.
    pub rounds: u32,
    /// Its levels, profile and target.
    pub cell: &'a Cell,
}

/// How long the rest of an experiment takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeLeft {
    /// An estimate; zero if there is none.
    pub time: Duration,
    /// Whether it may end earlier.
    pub is_at_most: bool,
}

impl TimeLeft {
    /// `15m20s left`, or `at most 15m20s left`; `None` below a second. `clock` writes the time.
    #[must_use]
    pub fn text(self, clock: impl Fn(Duration) -> String) -> Option<String> {
        let at_most = if self.is_at_most { "at most " } else { "" };
        let seconds = self.time.as_secs();
        (seconds > 0).then(|| format!("{at_most}{} left", clock(Duration::from_secs(seconds))))
    }
}

/// A trial starts: `[3/35] round 1/5, buffers 262144, php: running, 15m20s left`.
#[must_use]
pub fn started(place: TrialPosition<'_>, attempt: u32, left: TimeLeft) -> String {
    let again = match attempt {
        0 | 1 => "running".to_owned(),
        attempt => format!("attempt {attempt} running"),
    };
    format!("{}: {again}{}", at(place), time_left(left))
}

/// The trial in three lengths, for a line that continues with the progress of its run: with the
/// time left of the experiment, without it, and its number alone.
#[must_use]
pub fn labels(place: TrialPosition<'_>, attempt: u32, left: TimeLeft) -> [String; 3] {
    let again = match attempt {
        0 | 1 => String::new(),
        attempt => format!(", attempt {attempt}"),
    };
    let whole = at(place) + &again;
    let in_all = match left.time.as_secs() {
        0 => String::new(),
        _ => format!("{} in total", time_left(left)),
    };
    let number = format!("[{}/{}]", place.trial, place.trials);
    [whole.clone() + &in_all, whole, number]
}

/// The line about a trial that has ended.
#[must_use]
pub fn finished(place: TrialPosition<'_>, result: &RunResult, left: TimeLeft) -> String {
    let latency = result.recording.latency();
    let mut line = format!(
        "{}: {} requests/s",
        at(place),
        number(result.requests_per_sec())
    );
    if !latency.is_empty() {
        let [p50, p99] = [50.0, 99.0].map(|percent| time_ns(latency.value_at_percentile(percent)));
        line += &format!(", p50 {p50}, p99 {p99}");
    }
    if result.recording.parts.llm.is_some() {
        let of_tokens = metric::of_tokens();
        let shown = of_tokens.iter().filter_map(|name| {
            let value = Metric::named(name).of(result)?.value;
            Some(format!(", {} {}", show(name, value), title(name)))
        });
        line.extend(shown);
    }
    let errors = result.recording.errors.events();
    if errors > 0 {
        line += &format!(", {}", counted(errors, "error"));
    }
    let over_399 = result.recording.statuses.over_399();
    if over_399 > 0 {
        line += &format!(", {over_399} with a status above 399");
    }
    let verdict = &result.generator.verdict;
    if verdict.is_saturated() || verdict.is_disturbed() {
        line += &format!(", load generator {}", verdict_word(verdict));
    }
    line + &time_left(left)
}

/// The line about an attempt that failed; `again` if another one follows.
#[must_use]
pub fn failed(place: TrialPosition<'_>, reason: &str, again: bool) -> String {
    let next = if again { "; trying again" } else { "" };
    format!("{}: FAILED: {reason}{next}", at(place))
}

fn at(place: TrialPosition<'_>) -> String {
    let TrialPosition {
        kind,
        trial,
        trials,
        round,
        rounds,
        cell,
    } = place;
    let cell = cell_name(cell);
    match kind {
        TrialKind::Planned => format!("[{trial}/{trials}] round {round}/{rounds}, {cell}"),
        TrialKind::Try => format!("[try {trial}/{trials}] {cell}"),
        TrialKind::Step(step) => {
            let round = match rounds {
                1 => String::new(),
                _ => format!("round {round}/{rounds}, "),
            };
            let load = step.load().map_or_else(
                || "closed loop".to_owned(),
                |load| load_in_words(step.over, load),
            );
            format!("[{trial}/~{trials}] {round}{cell}, {load}")
        }
    }
}

/// Levels, profile and target: `buffers 262144, focused, php`.
#[must_use]
pub fn cell_name(cell: &Cell) -> String {
    cell_words(&cell.settings, cell.profile.as_ref(), Some(&cell.target)).join(", ")
}

/// The words of a cell's name.
pub(crate) fn cell_words(
    settings: &[Setting],
    profile: Option<&String>,
    target: Option<&String>,
) -> Vec<String> {
    let levels = settings.iter().map(ToString::to_string);
    let names = profile.into_iter().chain(target).cloned();
    levels.chain(names).collect()
}

fn time_left(left: TimeLeft) -> String {
    let text = left.text(units::time);
    text.map_or_else(String::new, |text| format!(", {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell() -> Cell {
        Cell {
            number: 3,
            settings: vec![Setting {
                factor: "buffers".to_owned(),
                level: "262144".to_owned(),
            }],
            profile: Some("focused".to_owned()),
            target: "php".to_owned(),
            is_baseline: false,
        }
    }

    fn place(cell: &Cell) -> TrialPosition<'_> {
        TrialPosition {
            kind: TrialKind::Planned,
            trial: 3,
            trials: 35,
            round: 1,
            rounds: 5,
            cell,
        }
    }

    #[test]
    fn a_line_has_the_trial_and_the_time_left() {
        let cell = cell();
        let left = |time_ms, is_at_most| TimeLeft {
            time: Duration::from_millis(time_ms),
            is_at_most,
        };
        let whole = "[3/35] round 1/5, buffers 262144, focused, php";
        assert_eq!(
            started(place(&cell), 1, left(920_900, true)),
            format!("{whole}: running, at most 15m20s left")
        );
        let [longest, ..] = labels(place(&cell), 1, left(920_900, true));
        assert_eq!(longest, format!("{whole}, at most 15m20s left in total"));
        assert_eq!(
            started(place(&cell), 1, left(920_900, false)),
            "[3/35] round 1/5, buffers 262144, focused, php: running, 15m20s left"
        );
        assert_eq!(
            started(place(&cell), 2, left(999, true)),
            "[3/35] round 1/5, buffers 262144, focused, php: attempt 2 running"
        );
        assert_eq!(
            labels(place(&cell), 1, left(920_900, false)),
            [&*format!("{whole}, 15m20s left in total"), whole, "[3/35]"]
        );
        let [longest, ..] = labels(place(&cell), 2, TimeLeft::default());
        assert_eq!(longest, format!("{whole}, attempt 2"));
        assert_eq!(
            failed(place(&cell), "not ready", true),
            "[3/35] round 1/5, buffers 262144, focused, php: FAILED: not ready; trying again"
        );
    }
}
