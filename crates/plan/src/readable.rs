//! Numbers as people read them: `95,517`, `1 request`, `5.45 ms`, `0.5 %`, `12.3 MiB`.
//!
//! [`crate::units`] has the forms that wrk prints.

/// A whole number with separators: `1,234,567`.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun, which is given in the singular: `1 run`, `2,000 runs`, `3 latencies`.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {}", count(number), plural(number, noun))
}

/// The noun as `number` requires it, without the number: `run`, `runs`, `latencies`, `losses`.
#[must_use]
pub fn plural(number: u64, noun: &str) -> String {
    if number == 1 {
        return noun.to_owned();
    }
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if noun.ends_with(['s', 'x']) => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

/// `a`, `a and b`, `a, b and c`
#[must_use]
pub fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// A time in three digits: `849 us`, `5.45 ms`, `1.39 s`.
#[must_use]
pub fn time_us(time_us: f64) -> String {
    let (value, unit) = match time_us.abs() {
        size if size < 999.5 => (time_us, "us"),
        size if size < 999_500.0 => (time_us / 1e3, "ms"),
        _ => (time_us / 1e6, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A time in nanoseconds, as [`time_us`] prints it.
#[must_use]
pub fn time_ns(time_ns: u64) -> String {
    time_us(time_ns as f64 / 1e3)
}

/// A time with all of its digits: `3.117055 ms`, `90 s`.
#[must_use]
pub fn exact_time_ns(time_ns: u64) -> String {
    let (divisor, unit) = match time_ns {
        0..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let whole = count(time_ns / divisor);
    let width = divisor.ilog10() as usize;
    match time_ns % divisor {
        0 => format!("{whole} {unit}"),
        rest => {
            let decimals = format!("{rest:0width$}");
            format!("{whole}.{} {unit}", decimals.trim_end_matches('0'))
        }
    }
}

/// A number with separators and a fixed number of decimals: `95,517.21`.
#[must_use]
pub fn decimal(number: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", number.abs());
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let Ok(whole) = whole.parse() else {
        return format!("{number:.decimals$}");
    };
    let sign = if number < 0.0 { "-" } else { "" };
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{rest}", count(whole))
}

/// Percent (0..=100 for a share) in three digits: `0.5 %`, `99.9 %`, `114 %`.
#[must_use]
pub fn percent(percent: f64) -> String {
    format!("{} %", three_digits(percent))
}

/// A number of bytes: `1,023 B`, `12.3 MiB`.
#[must_use]
pub fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// Three significant digits without zeros at the end; but all digits before
/// the point: `0.0125`, `5.45`, `12,345`.
fn three_digits(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        size if size >= 99.95 => {
            let sign = if value < 0.0 { "-" } else { "" };
            return format!("{sign}{}", count(size.round() as u64));
        }
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        size if size >= 0.099_95 => 3,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_separators_and_agree_with_their_nouns() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        for (number, noun, expected) in [
            (1, "request", "1 request"),
            (0, "request", "0 requests"),
            (95_517, "request", "95,517 requests"),
            (2, "loss", "2 losses"),
            (2, "latency", "2 latencies"),
            (2, "delay", "2 delays"),
        ] {
            assert_eq!(counted(number, noun), expected);
        }
    }

    #[test]
    fn times_have_three_digits_and_a_blank_before_the_unit() {
        for (us, expected) in [
            (0.0, "0 us"),
            (0.85, "0.85 us"),
            (849.0, "849 us"),
            (999.4, "999 us"),
            (999.6, "1 ms"),
            (5_450.0, "5.45 ms"),
            (12_345.0, "12.3 ms"),
            (400_000.0, "400 ms"),
            (1_390_000.0, "1.39 s"),
            (5_400e6, "5,400 s"),
        ] {
            assert_eq!(time_us(us), expected);
        }
        assert_eq!(time_ns(2_280_000), "2.28 ms");
    }

    #[test]
    fn exact_times_and_decimals_lose_no_digit() {
        for (ns, expected) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (3_117_055, "3.117055 ms"),
            (50_000_000, "50 ms"),
            (1_500_000_000, "1.5 s"),
            (5_400_000_000_000, "5,400 s"),
        ] {
            assert_eq!(exact_time_ns(ns), expected);
        }
        assert_eq!(decimal(95_517.214, 2), "95,517.21");
        assert_eq!(decimal(-1_000.0, 0), "-1,000");
        assert_eq!(decimal(f64::INFINITY, 2), "inf");
    }

    #[test]
    fn bytes_have_binary_units() {
        assert_eq!(
            [0.0, 1023.0, 1024.0, 12.3 * 1024.0 * 1024.0].map(bytes),
            ["0 B", "1,023 B", "1 KiB", "12.3 MiB"]
        );
    }

    #[test]
    fn percents_have_three_digits() {
        for (value, expected) in [
            (0.0, "0 %"),
            (0.5, "0.5 %"),
            (-12.34, "-12.3 %"),
            (99.95, "100 %"),
            (0.0125, "0.0125 %"),
        ] {
            assert_eq!(percent(value), expected);
        }
    }
}
