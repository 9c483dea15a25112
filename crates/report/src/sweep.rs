//! What is said while a sweep runs: a line when a trial begins, one when it has ended.

use std::time::Duration;

use plan::units;
use results::{Cell, RunResult};

/// Where a sweep is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// Which trial, from 1.
    pub trial: usize,
    /// Of how many.
    pub trials: usize,
    /// Which round, from 1.
    pub round: u32,
    /// Of how many.
    pub rounds: u32,
    /// What is run.
    pub cell: &'a Cell,
}

/// A trial begins: `[3/35] round 1/5, buffers 262144, php: running, 15m20s left`.
#[must_use]
pub fn begins(place: Place<'_>, attempt: u32, left: Duration) -> String {
    let again = match attempt {
        0 | 1 => "running".to_owned(),
        attempt => format!("attempt {attempt} running"),
    };
    format!("{}: {again}{}", at(place), time_left(left))
}

/// Which trial it is, for a line that goes on with how its run goes: with the time left of the sweep, without it,
/// and as short as can be.
#[must_use]
pub fn places(place: Place<'_>, attempt: u32, left: Duration) -> [String; 3] {
    let again = match attempt {
        0 | 1 => String::new(),
        attempt => format!(", attempt {attempt}"),
    };
    let whole = at(place) + &again;
    let in_all = match left.as_secs() {
        0 => String::new(),
        _ => format!("{} in all", time_left(left)),
    };
    let number = format!("[{}/{}]", place.trial, place.trials);
    [whole.clone() + &in_all, whole, number]
}

/// A trial was measured.
#[must_use]
pub fn finished(place: Place<'_>, result: &RunResult, left: Duration) -> String {
    let latency = result.recording.latency();
    let mut line = format!("{}: {:.2} requests/s", at(place), result.requests_per_sec());
    if !latency.is_empty() {
        let [p50, p99] = [50.0, 99.0].map(|percent| latency.value_at_percentile(percent));
        let text = |value_ns: u64| units::time_us(value_ns as f64 / 1000.0);
        line += &format!(", p50 {}, p99 {}", text(p50), text(p99));
    }
    match result.recording.errors.events() {
        0 => {}
        1 => line += ", 1 error",
        errors => line += &format!(", {errors} errors"),
    }
    let over_399 = result.recording.statuses.over_399();
    if over_399 > 0 {
        line += &format!(", {over_399} with a status over 399");
    }
    if result.generator.verdict.is_saturated() {
        line += ", limited by the generator";
    }
    line + &time_left(left)
}

/// An attempt failed.
#[must_use]
pub fn failed(place: Place<'_>, reason: &str, again: bool) -> String {
    let next = if again { "; once more" } else { "" };
    format!("{}: FAILED: {reason}{next}", at(place))
}

fn at(place: Place<'_>) -> String {
    let Place {
        trial,
        trials,
        round,
        rounds,
        cell,
    } = place;
    format!(
        "[{trial}/{trials}] round {round}/{rounds}, {}",
        cell_name(cell)
    )
}

/// Levels, profile and target: `buffers 262144, focused, php`.
#[must_use]
pub fn cell_name(cell: &Cell) -> String {
    let levels = cell
        .settings
        .iter()
        .map(|setting| format!("{} {}", setting.factor, setting.level));
    let names = cell.profile.iter().chain([&cell.target]).cloned();
    levels.chain(names).collect::<Vec<_>>().join(", ")
}

/// Whole seconds are enough, and nothing at the end.
fn time_left(left: Duration) -> String {
    match left.as_secs() {
        0 => String::new(),
        seconds => format!(", {} left", units::time(Duration::from_secs(seconds))),
    }
}

#[cfg(test)]
mod tests {
    use results::Setting;

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

    fn place(cell: &Cell) -> Place<'_> {
        Place {
            trial: 3,
            trials: 35,
            round: 1,
            rounds: 5,
            cell,
        }
    }

    #[test]
    fn a_line_says_where_the_sweep_is_and_how_long_it_will_take() {
        let cell = cell();
        let left = Duration::from_millis(920_900);
        assert_eq!(
            begins(place(&cell), 1, left),
            "[3/35] round 1/5, buffers 262144, focused, php: running, 15m20s left"
        );
        assert_eq!(
            begins(place(&cell), 2, Duration::from_millis(999)),
            "[3/35] round 1/5, buffers 262144, focused, php: attempt 2 running"
        );
        let whole = "[3/35] round 1/5, buffers 262144, focused, php";
        assert_eq!(
            places(place(&cell), 1, left),
            [&*format!("{whole}, 15m20s left in all"), whole, "[3/35]"]
        );
        let [longest, ..] = places(place(&cell), 2, Duration::ZERO);
        assert_eq!(longest, format!("{whole}, attempt 2"));
        assert_eq!(
            failed(place(&cell), "not ready", true),
            "[3/35] round 1/5, buffers 262144, focused, php: FAILED: not ready; once more"
        );
    }
}
