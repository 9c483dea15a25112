//! Numbers in the form that the live views print; [`plan::readable`] has the others.

use std::time::Duration;

use plan::readable;

/// A duration: `2.5 s`, `1 min 30 s`, `2 h 5 min`.
pub(crate) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    if time.is_zero() {
        return "0 s".to_owned();
    }
    if seconds < 60 {
        return readable::time_us(time.as_secs_f64() * 1e6);
    }
    let parts = [
        (seconds / 3600, "h"),
        (seconds % 3600 / 60, "min"),
        (seconds % 60, "s"),
    ];
    let parts = parts.iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts
        .map(|(number, unit)| format!("{number} {unit}"))
        .collect();
    parts.join(" ")
}

/// A duration in whole seconds, as [`clock`] prints it.
pub(crate) fn whole_seconds(time: Duration) -> String {
    clock(Duration::from_secs(time.as_secs()))
}

/// Requests per second, with decimals only below 100.
pub(crate) fn rate(per_sec: f64) -> String {
    let decimals = match per_sec {
        it if it >= 99.95 => return readable::count(it.round() as u64),
        it if it >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{per_sec:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_in_seconds_minutes_and_hours() {
        for (ms, text) in [
            (0, "0 s"),
            (500, "500 ms"),
            (2_500, "2.5 s"),
            (45_000, "45 s"),
            (90_000, "1 min 30 s"),
            (7_500_000, "2 h 5 min"),
        ] {
            assert_eq!(clock(Duration::from_millis(ms)), text);
        }
        assert_eq!(whole_seconds(Duration::from_millis(2_900)), "2 s");
    }

    #[test]
    fn rates_have_decimals_only_if_they_are_small() {
        assert_eq!(
            [0.0, 7.25, 12.34, 164_010.4].map(rate),
            ["0", "7.25", "12.3", "164,010"]
        );
    }
}
