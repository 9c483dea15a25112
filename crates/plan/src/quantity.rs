//! Parses quantities in recipes and options: bytes, durations, counts, probabilities.

use crate::InvalidValue;

/// The longest duration: one hour, in nanoseconds.
pub const DURATION_MAX_NS: u64 = 3_600 * 1_000_000_000;

/// Parses a number of bytes: `512`, `100k`, `1.5M`, `2G` (powers of 1000), `64Ki`, `1Mi`, `1Gi`
/// (powers of 1024), with or without a final `b`.
///
/// # Errors
/// One line that names the value and what was expected.
pub fn parse_bytes(text: &str) -> Result<u64, InvalidValue> {
    let refused = || invalid(text, "a size: expected bytes such as 512, 100k or 1.5M");
    let bare = text.strip_suffix(['b', 'B']).unwrap_or(text);
    let (number, unit) = split_unit(bare);
    let factor = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        "ki" | "Ki" | "KI" => 1024.0,
        "mi" | "Mi" | "MI" => 1024.0 * 1024.0,
        "gi" | "Gi" | "GI" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(refused()),
    };
    // Above 2^53, a double cannot represent every integer.
    scaled(number, factor, (1_u64 << 53) as f64).ok_or_else(refused)
}

/// Parses a duration into nanoseconds: `250us`, `5ms`, `1.5s`, `2m`, `1h`; at most
/// [`DURATION_MAX_NS`]. A number without a unit is rejected, except `0`.
///
/// # Errors
/// One line that names the value and what was expected.
pub fn parse_duration_ns(text: &str) -> Result<u64, InvalidValue> {
    let refused = || {
        invalid(
            text,
            "a duration: expected 250us, 5ms, 1.5s or 2m, at most 1h",
        )
    };
    let (number, unit) = split_unit(text);
    let factor = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        "" if number == "0" => 1.0,
        _ => return Err(refused()),
    };
    scaled(number, factor, DURATION_MAX_NS as f64).ok_or_else(refused)
}

/// Parses a count from 0 to `max`.
///
/// # Errors
/// One line that names the value and what was expected.
pub fn parse_count(text: &str, max: u64) -> Result<u64, InvalidValue> {
    text.parse()
        .ok()
        .filter(|&count| count <= max && !text.starts_with('+'))
        .ok_or_else(|| invalid(text, &format!("a number from 0 to {max}")))
}

/// Parses a probability from 0 to 1, or as a percentage like `10%`.
///
/// # Errors
/// One line that names the value and what was expected.
pub fn parse_probability(text: &str) -> Result<f64, InvalidValue> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text, 1.0),
    };
    decimal(number)
        .map(|value| value / scale)
        .filter(|value| (0.0..=1.0).contains(value))
        .ok_or_else(|| invalid(text, "a probability: expected 0 to 1, or 0% to 100%"))
}

/// The error of a text that is not what was expected.
pub(crate) fn invalid(text: &str, expected: &str) -> InvalidValue {
    InvalidValue::new(format!("`{text}` is not {expected}"))
}

/// Parses a decimal number without sign and exponent.
pub(crate) fn decimal(text: &str) -> Option<f64> {
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let usable = digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    usable.then(|| text.parse().ok()).flatten()
}

fn split_unit(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text.split_at(end)
}

fn scaled(number: &str, factor: f64, max: f64) -> Option<u64> {
    decimal(number)
        .map(|value| (value * factor).round())
        .filter(|&value| value <= max)
        .map(|value| value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_decimal_and_binary_units() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("1b", 1),
            ("100k", 100_000),
            ("1.5M", 1_500_000),
            ("2G", 2_000_000_000),
            ("64Ki", 65_536),
            ("1MiB", 1_048_576),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn invalid_sizes_are_rejected() {
        for text in [
            "",
            "k",
            "-1",
            "1x",
            "1e3",
            "nan",
            "inf",
            "1..2",
            "99999999999999999999G",
        ] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_need_a_unit_and_are_at_most_an_hour() {
        for (text, ns) in [
            ("0", 0),
            ("5ms", 5_000_000),
            ("250us", 250_000),
            ("1.5s", 1_500_000_000),
            ("1h", DURATION_MAX_NS),
        ] {
            assert_eq!(parse_duration_ns(text), Ok(ns), "{text}");
        }
        for text in ["5", "", "ms", "-1s", "61m", "1d", "+1s", "1 s"] {
            assert!(parse_duration_ns(text).is_err(), "{text}");
        }
    }

    #[test]
    fn probabilities_are_fractions_or_percentages() {
        assert_eq!(parse_probability("0.25"), Ok(0.25));
        assert_eq!(parse_probability("10%"), Ok(0.1));
        for text in ["1.1", "101%", "-0.1", "x", ""] {
            assert!(parse_probability(text).is_err(), "{text}");
        }
    }
}
