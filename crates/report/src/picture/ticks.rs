//! Steps between the ticks of an axis, and their texts.

use presentation::Unit;

const TIMES: &[(f64, &str)] = &[(1e6, " s"), (1e3, " ms"), (1.0, " us")];
const SIZES: &[(f64, &str)] = &[
    (1_099_511_627_776.0, " TiB"),
    (1_073_741_824.0, " GiB"),
    (1_048_576.0, " MiB"),
    (1_024.0, " KiB"),
    (1.0, " B"),
];
const COUNTS: &[(f64, &str)] = &[(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
const SECONDS: &[(f64, &str)] = &[(1.0, " s")];
const ONE: &[(f64, &str)] = &[(1.0, "")];

const STEPS: [f64; 5] = [1.0, 2.0, 2.5, 5.0, 10.0];
const SECONDS_STEPS: [f64; 17] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0,
    14_400.0, 28_800.0, 86_400.0,
];

/// From this time on, seconds are written as minutes: 2:30.
const MINUTES_FROM_S: f64 = 300.0;

const DECIMALS_MAX: usize = 6;

/// Its sizes, the largest first, with the text after a number of each; and what follows.
fn sizes(unit: Unit) -> (&'static [(f64, &'static str)], &'static str) {
    match unit {
        Unit::Microseconds => (TIMES, ""),
        Unit::Seconds => (SECONDS, ""),
        Unit::Bytes => (SIZES, ""),
        Unit::BytesPerSec => (SIZES, "/s"),
        Unit::Percent | Unit::ChangePercent => (ONE, " %"),
        _ => (COUNTS, ""),
    }
}

fn sized(unit: Unit, size: f64) -> (f64, &'static str) {
    let (sizes, _) = sizes(unit);
    let found = sizes.iter().find(|(least, _)| size >= *least);
    found.or_else(|| sizes.last()).copied().unwrap_or((1.0, ""))
}

/// Texts of the ticks of an axis, all with the same size and number of decimals.
pub(super) fn on_axis(unit: Unit, values: &[f64]) -> Vec<String> {
    let largest = values
        .iter()
        .fold(0.0, |most: f64, value| most.max(value.abs()));
    let are_whole = values.iter().all(|value| value.fract() == 0.0);
    if unit == Unit::Seconds && largest >= MINUTES_FROM_S && are_whole {
        return values.iter().map(|value| clock(*value)).collect();
    }
    let (size, name) = sized(unit, largest);
    let steps = values
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).abs() / size);
    let step = steps.filter(|step| *step > 0.0).reduce(f64::min);
    let decimals = decimals_of(step.unwrap_or(largest / size));
    let after = sizes(unit).1;
    let text = |value: &f64| match *value {
        0.0 if unit == Unit::BytesPerSec => "0".to_owned(),
        0.0 => format!("0{after}"),
        value => format!("{}{name}{after}", signed(unit, value, decimals, size)),
    };
    values.iter().map(text).collect()
}

/// A text in at most three digits: a tick of a logarithmic axis.
pub(super) fn short(unit: Unit, value: f64) -> String {
    let (size, name) = sized(unit, value.abs());
    let whole = (value / size).abs().log10().floor() + 1.0;
    let decimals = (3.0 - whole).clamp(0.0, DECIMALS_MAX as f64) as usize;
    let text = signed(unit, value, decimals, size);
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    };
    format!("{text}{name}{}", sizes(unit).1)
}

/// With a sign where it says something, and with separators of thousands.
fn signed(unit: Unit, value: f64, decimals: usize, size: f64) -> String {
    let sign = if value < 0.0 {
        "\u{2212}"
    } else if unit == Unit::ChangePercent {
        "+"
    } else {
        ""
    };
    let digits = format!("{:.decimals$}", (value / size).abs());
    let (whole, rest) = digits.split_once('.').unwrap_or((&digits, ""));
    let whole: u64 = whole.parse().unwrap_or(u64::MAX);
    let dot = if rest.is_empty() { "" } else { "." };
    format!("{sign}{}{dot}{rest}", plan::readable::count(whole))
}

fn decimals_of(step: f64) -> usize {
    let is_enough = |decimals: &usize| {
        let scaled = step * 10_f64.powi(*decimals as i32);
        (scaled - scaled.round()).abs() < 1e-6 * scaled.abs().max(1e-12)
    };
    (0..DECIMALS_MAX).find(is_enough).unwrap_or(DECIMALS_MAX)
}

/// 90 is 1:30, and 3,690 is 1:01:30.
fn clock(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    let (hours, minutes, rest) = (whole / 3_600, whole / 60 % 60, whole % 60);
    match hours {
        0 => format!("{minutes}:{rest:02}"),
        _ => format!("{hours}:{minutes:02}:{rest:02}"),
    }
}

/// The least readable step that is no less than `least`.
pub(super) fn nice_step(unit: Unit, least: f64) -> f64 {
    if least.is_nan() || least <= 0.0 || least.is_infinite() {
        return 1.0;
    }
    if unit == Unit::Seconds && least > 1.0 {
        let step = SECONDS_STEPS.iter().find(|step| **step >= least);
        return step.copied().unwrap_or(least);
    }
    if matches!(unit, Unit::Bytes | Unit::BytesPerSec) && least > 1.0 {
        let size = sized(unit, least).0;
        let powers = (0..=10).map(|power| f64::from(1_u32 << power));
        let step = powers.into_iter().find(|step| *step >= least / size);
        return size * step.unwrap_or(1_024.0);
    }
    let power = 10_f64.powf(least.log10().floor());
    let is_enough = |step: &&f64| **step * power >= least * (1.0 - 1e-9);
    let step = power * STEPS.iter().find(is_enough).unwrap_or(&10.0);
    match unit {
        Unit::Count | Unit::Segments => step.ceil().max(1.0),
        _ => step,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_an_axis_have_the_same_unit_and_decimals() {
        for (unit, values, expected) in [
            (
                Unit::Microseconds,
                [0.0, 500.0, 1_000.0],
                ["0", "0.5 ms", "1.0 ms"],
            ),
            (
                Unit::RequestsPerSec,
                [0.0, 50_000.0, 100_000.0],
                ["0", "50k", "100k"],
            ),
            (
                Unit::ChangePercent,
                [-2.5, 0.0, 2.5],
                ["\u{2212}2.5 %", "0 %", "+2.5 %"],
            ),
            (
                Unit::BytesPerSec,
                [0.0, 524_288.0, 1_048_576.0],
                ["0", "0.5 MiB/s", "1.0 MiB/s"],
            ),
            (
                Unit::Seconds,
                [0.0, 300.0, 600.0],
                ["0:00", "5:00", "10:00"],
            ),
        ] {
            assert_eq!(on_axis(unit, &values), expected);
        }
    }

    #[test]
    fn ticks_of_a_logarithmic_axis_have_few_digits() {
        let texts = [20.0, 1_000.0, 2.5e6].map(|us| short(Unit::Microseconds, us));
        assert_eq!(texts, ["20 us", "1 ms", "2.5 s"]);
        assert_eq!(short(Unit::Number, 0.05), "0.05");
    }

    #[test]
    fn steps_are_readable() {
        for (unit, least, expected) in [
            (Unit::Number, 0.13, 0.2),
            (Unit::Number, 240.0, 250.0),
            (Unit::Count, 0.3, 1.0),
            (Unit::Seconds, 12.0, 15.0),
            (Unit::Bytes, 3_000.0, 4_096.0),
            (Unit::Number, f64::NAN, 1.0),
        ] {
            assert!((nice_step(unit, least) - expected).abs() < 1e-9, "{least}");
        }
    }
}
