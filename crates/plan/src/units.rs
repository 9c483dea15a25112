//! Numbers with units, parsed and printed by wrk's rules.
//!
//! Parsing is exact (integers, no floating point). It accepts everything that wrk accepts, and also
//! fractions, small units and compound times. Printing matches wrk to the character, because
//! scripts parse its reports. [`crate::readable`] has the forms for people.

use std::time::Duration;

pub use crate::rate::{parse_rate, parse_stages};

/// Why a number is refused; one line, without the name of the option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} {problem} (expected like {examples})")]
pub struct UnitError {
    text: String,
    problem: &'static str,
    examples: &'static str,
}

/// A message repeats at most this much of a refused text.
const SHOWN_CHARS: usize = 80;

impl UnitError {
    pub(crate) fn new(text: &str, problem: &'static str, examples: &'static str) -> Self {
        let mut shown: String = text.chars().take(SHOWN_CHARS).collect();
        if shown.len() < text.len() {
            shown.push_str("...");
        }
        Self {
            text: shown,
            problem,
            examples,
        }
    }
}

pub(crate) const NS_PER_SECOND: u128 = 1_000_000_000;

/// Powers of a thousand, in upper or lower case: `m` is a million.
const METRIC: &[(&str, u128)] = &[
    ("", 1),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("t", 1_000_000_000_000),
    ("p", 1_000_000_000_000_000),
];

/// Nanoseconds, in upper or lower case: `m` is a minute, and a number without a unit is seconds.
const TIME: &[(&str, u128)] = &[
    ("", NS_PER_SECOND),
    ("h", 3_600 * NS_PER_SECOND),
    ("m", 60 * NS_PER_SECOND),
    ("s", NS_PER_SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

const COUNT_EXAMPLES: &str = "100, 10k, 1.5M";

/// Parses a count: `100`, `10k`, `1.5M` (k, M, G, T, P are powers of 1000, in upper or lower case).
///
/// # Errors
/// If the text is not a number, is negative, is not a whole number, or does not fit into 64 bits.
pub fn parse_count(text: &str) -> Result<u64, UnitError> {
    let refuse = |problem| UnitError::new(text, problem, COUNT_EXAMPLES);
    let value = parse_single(text, METRIC).map_err(|fault| refuse(fault.of("a number")))?;
    u64::try_from(value).map_err(|_| refuse(TOO_LARGE))
}

/// Parses a count that fits into 32 bits; see [`parse_count`].
///
/// # Errors
/// Those of [`parse_count`], and if the number is above 4294967295.
pub fn parse_count_u32(text: &str) -> Result<u32, UnitError> {
    u32::try_from(parse_count(text)?).map_err(|_| UnitError::new(text, TOO_LARGE, COUNT_EXAMPLES))
}

/// Parses a time: `30`, `30s`, `500ms`, `1.5h`, `1h30m`. Without a unit it is seconds. Units may be
/// in upper or lower case, so `2M` is two minutes.
///
/// # Errors
/// If the text is not a time, is negative, is finer than a nanosecond, or is longer than 584 years
/// (64 bits of nanoseconds).
pub fn parse_time(text: &str) -> Result<Duration, UnitError> {
    let refuse = |problem| UnitError::new(text, problem, "30s, 500ms, 1.5m, 1h30m");
    let total_ns = parse_compound(text).map_err(|fault| refuse(fault.of("a time")))?;
    u64::try_from(total_ns)
        .map(Duration::from_nanos)
        .map_err(|_| refuse(TOO_LARGE))
}

/// Parses a percentage without the sign: `99.9`; `None` if it is invalid or above 100.
#[must_use]
pub fn parse_percent(text: &str) -> Option<f64> {
    // The parser of `f64` also accepts words (inf, nan) and exponents.
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse()
        .ok()
        .filter(|percent| plain && *percent <= 100.0)
}

const TOO_LARGE: &str = "is too large";

/// What is wrong with a number.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    Malformed,
    Negative,
    TooFine,
    TooLarge,
}

impl Fault {
    /// The message, where `kind` is what was expected.
    pub(crate) fn of(self, kind: &'static str) -> &'static str {
        match (self, kind) {
            (Self::Malformed, "a time") => "is not a time",
            (Self::Malformed, "a size") => "is not a size",
            (Self::Malformed, "a rate") => "is not a rate",
            (Self::Malformed, _) => "is not a number",
            (Self::Negative, _) => "is negative",
            (Self::TooFine, "a time") => "is finer than a nanosecond",
            (Self::TooFine, _) => "is not a whole number",
            (Self::TooLarge, _) => TOO_LARGE,
        }
    }
}

/// Parses a number with an optional unit, and nothing else.
pub(crate) fn parse_single(text: &str, units: &[(&str, u128)]) -> Result<u128, Fault> {
    let (value, _unit, rest) = parse_term(unsigned(text)?, units)?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(Fault::Malformed)
    }
}

/// Parses times in descending units (`1h30m`); nanoseconds.
fn parse_compound(text: &str) -> Result<u128, Fault> {
    let (mut total, mut last_unit, mut rest) = parse_term(unsigned(text)?, TIME)?;
    let mut bare = last_unit.is_none();
    while !rest.is_empty() {
        let (value, unit, next) = parse_term(rest, TIME)?;
        bare |= unit.is_none();
        if bare || unit >= last_unit {
            return Err(Fault::Malformed);
        }
        total = total.checked_add(value).ok_or(Fault::TooLarge)?;
        (last_unit, rest) = (unit, next);
    }
    Ok(total)
}

/// Removes spaces and a plus. A negative number is not the same error as an invalid one.
fn unsigned(text: &str) -> Result<&str, Fault> {
    let text = text.trim_matches([' ', '\t']);
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !body.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Err(Fault::Malformed);
    }
    if text.starts_with('-') {
        Err(Fault::Negative)
    } else {
        Ok(body)
    }
}

/// Parses `digits[.digits] [unit]` at the start of a text. Returns the value in the smallest unit
/// of the table, the factor of the unit if there is one, and the rest of the text.
fn parse_term<'a>(
    text: &'a str,
    units: &[(&str, u128)],
) -> Result<(u128, Option<u128>, &'a str), Fault> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, after) = text.split_at(end);
    let after = after.trim_start_matches([' ', '\t']);
    let end = after
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(after.len());
    let (unit, rest) = after.split_at(end);
    let factor = units
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))
        .map(|(_, factor)| *factor)
        .ok_or(Fault::Malformed)?;
    let value = scale(number, factor)?;
    let written = (!unit.is_empty()).then_some(factor);
    Ok((value, written, rest.trim_start_matches([' ', '\t'])))
}

/// `number` times `factor`, exactly.
fn scale(number: &str, factor: u128) -> Result<u128, Fault> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return Err(Fault::Malformed);
    }
    let fraction = fraction.trim_end_matches('0');
    let mut digits: u128 = 0;
    let mut divisor: u128 = 1;
    for digit in whole.bytes() {
        digits = push_digit(digits, digit).ok_or(Fault::TooLarge)?;
    }
    for digit in fraction.bytes() {
        digits = push_digit(digits, digit).ok_or(Fault::TooFine)?;
        divisor = divisor.checked_mul(10).ok_or(Fault::TooFine)?;
    }
    let product = digits.checked_mul(factor).ok_or(Fault::TooLarge)?;
    if product % divisor == 0 {
        Ok(product / divisor)
    } else {
        Err(Fault::TooFine)
    }
}

fn push_digit(number: u128, digit: u8) -> Option<u128> {
    number
        .checked_mul(10)?
        .checked_add(u128::from(digit - b'0'))
}

/// A share in percent as options and experiment files take it: `0.02` is `2%`.
#[must_use]
pub fn percentage(share: f64) -> String {
    format!("{}%", (share * 1e6).round() / 1e4)
}

/// Prints a time exactly, in a form that [`parse_time`] accepts: `1.5s`, `500ms`, `1h30m`.
#[must_use]
pub fn time(duration: Duration) -> String {
    let mut rest_ns = duration.as_nanos();
    if rest_ns == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    for (unit, factor) in [("h", 3_600 * NS_PER_SECOND), ("m", 60 * NS_PER_SECOND)] {
        if rest_ns >= factor {
            out += &format!("{}{unit}", rest_ns / factor);
            rest_ns %= factor;
        }
    }
    for (unit, factor) in [
        ("s", NS_PER_SECOND),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ] {
        if rest_ns >= factor {
            out += &decimal(rest_ns, factor);
            out += unit;
            break;
        }
    }
    out
}

/// `number / factor` with all its decimals; `factor` is a power of ten.
fn decimal(number: u128, factor: u128) -> String {
    let whole = number / factor;
    let fraction = number % factor;
    if fraction == 0 {
        return whole.to_string();
    }
    let width = usize::try_from(factor.ilog10()).unwrap_or_default();
    let fraction = format!("{fraction:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

/// Units as wrk scales them: a unit is used from 0.85 of it on.
struct Ladder {
    scale: f64,
    units: &'static [&'static str],
}

// The tables of wrk have one more unit each (s after ms, h after m, P after T), but its loop stops
// before the last entry, so that unit is never printed.
const TIME_US: Ladder = Ladder {
    scale: 1000.0,
    units: &["us", "ms"],
};
const TIME_S: Ladder = Ladder {
    scale: 60.0,
    units: &["s", "m"],
};
const BINARY_BYTES: Ladder = Ladder {
    scale: 1024.0,
    units: &["", "K", "M", "G", "T"],
};
const METRIC_COUNT: Ladder = Ladder {
    scale: 1000.0,
    units: &["", "k", "M", "G", "T"],
};

impl Ladder {
    fn print(&self, mut value: f64, decimals: usize) -> String {
        let threshold = self.scale * 0.85;
        let mut step = 0;
        while step + 1 < self.units.len() && value >= threshold {
            value /= self.scale;
            step += 1;
        }
        format!("{value:.decimals$}{}", self.units[step])
    }
}

/// Prints a time as wrk does in its table; `time_us` is in microseconds: `849.00us`, `0.85ms`.
#[must_use]
pub fn time_us(time_us: f64) -> String {
    if time_us >= 1_000_000.0 {
        TIME_S.print(time_us / 1_000_000.0, 2)
    } else {
        TIME_US.print(time_us, 2)
    }
}

/// Prints a number of bytes by powers of 1024, without the `B` that wrk writes after it: `3.92M`.
#[must_use]
pub fn binary(bytes: f64) -> String {
    BINARY_BYTES.print(bytes, 2)
}

/// Prints a count by powers of 1000: `12.35k`.
#[must_use]
pub fn metric(count: f64) -> String {
    METRIC_COUNT.print(count, 2)
}

/// Prints the duration of the banner. Whole seconds are printed by wrk's rule, without decimals
/// (`30s`; 90 s is `2m`). Fractions of a second, which wrk does not accept, are printed exactly
/// (`1.5s`).
#[must_use]
pub fn banner_duration(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        TIME_S.print(duration.as_secs() as f64, 0)
    } else {
        time(duration)
    }
}

/// Prints a number with its unit into a table cell as wrk does.
///
/// Numbers are aligned although units differ in length: the unit takes two columns at the right
/// end, which are filled with spaces. A text that is too long is cut at its end.
#[must_use]
pub fn cell(text: &str, width: usize) -> String {
    let mut from_end = text.bytes().rev();
    let mut is_letter = || {
        from_end
            .next()
            .is_some_and(|byte| byte.is_ascii_alphabetic())
    };
    let pad = 2 - usize::from(is_letter()) - usize::from(is_letter());
    let room = width.saturating_sub(pad);
    format!("{text:>room$.room$}{:pad$}", "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_are_parsed_as_in_wrk_and_with_fractions() {
        for (text, expected) in [
            ("10", 10),
            ("0", 0),
            ("10k", 10_000),
            ("10K", 10_000),
            ("10 k", 10_000),
            (" 10", 10),
            ("10 ", 10),
            ("+5", 5),
            ("1m", 1_000_000),
            ("1M", 1_000_000),
            ("2g", 2_000_000_000),
            ("1T", 1_000_000_000_000),
            ("1P", 1_000_000_000_000_000),
            ("007", 7),
            ("1.5k", 1_500),
            ("1.5M", 1_500_000),
            (".5k", 500),
            ("1.k", 1_000),
            ("2.000", 2),
            ("18446744073709551615", u64::MAX),
            ("18446.744073709551615P", u64::MAX),
        ] {
            assert_eq!(parse_count(text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn an_invalid_count_is_refused_with_the_reason() {
        for (text, said) in [
            (
                "10x",
                "\"10x\" is not a number (expected like 100, 10k, 1.5M)",
            ),
            ("", "is not a number"),
            ("k", "is not a number"),
            ("1e3", "is not a number"),
            ("0x10", "is not a number"),
            ("10b", "is not a number"),
            ("10kk", "is not a number"),
            ("10k5", "is not a number"),
            ("1E", "is not a number"),
            ("1,5k", "is not a number"),
            ("1.2.3", "is not a number"),
            (".", "is not a number"),
            ("+", "is not a number"),
            ("-", "is not a number"),
            ("--5", "is not a number"),
            ("-t", "is not a number"),
            ("inf", "is not a number"),
            ("\u{661}", "is not a number"),
            ("10\u{a0}k", "is not a number"),
            ("-5", "\"-5\" is negative"),
            ("-0", "is negative"),
            ("1.5", "is not a whole number"),
            ("1.0005k", "is not a whole number"),
            ("18446744073709551616", "is too large"),
            ("18447P", "is too large"),
            (
                "99999999999999999999999999999999999999999999",
                "is too large",
            ),
            ("340282366920938463463374607431768211455P", "is too large"),
            (
                "0.00000000000000000000000000000000000000000001",
                "is not a whole number",
            ),
        ] {
            let message = parse_count(text).expect_err(text).to_string();
            assert!(message.contains(said), "{text:?} gives {message}");
        }
        assert_eq!(parse_count_u32("4294967295"), Ok(u32::MAX));
        let message = parse_count_u32("4294967296").unwrap_err().to_string();
        assert!(message.contains("is too large"), "{message}");
    }

    #[test]
    fn times_are_parsed_as_in_wrk_and_with_small_and_compound_units() {
        let ms = Duration::from_millis;
        for (text, expected) in [
            ("10", ms(10_000)),
            ("10s", ms(10_000)),
            ("10S", ms(10_000)),
            ("2m", ms(120_000)),
            ("2M", ms(120_000)),
            ("1H", ms(3_600_000)),
            (" 10 s ", ms(10_000)),
            ("0", ms(0)),
            ("500ms", ms(500)),
            ("500MS", ms(500)),
            ("1.5s", ms(1_500)),
            ("1.5", ms(1_500)),
            (".25", ms(250)),
            ("1.5h", ms(5_400_000)),
            ("250us", Duration::from_micros(250)),
            ("0.5us", Duration::from_nanos(500)),
            ("7ns", Duration::from_nanos(7)),
            ("1h30m", ms(5_400_000)),
            ("1h30m5.5s", ms(5_405_500)),
            ("1m 30s", ms(90_000)),
            ("1s500ms", ms(1_500)),
            ("18446744073709551615ns", Duration::from_nanos(u64::MAX)),
        ] {
            assert_eq!(parse_time(text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn an_invalid_time_is_refused_with_the_reason() {
        for (text, said) in [
            (
                "10x",
                "\"10x\" is not a time (expected like 30s, 500ms, 1.5m, 1h30m)",
            ),
            ("", "is not a time"),
            ("s", "is not a time"),
            ("1d", "is not a time"),
            ("1k", "is not a time"),
            ("1h30", "is not a time"),
            ("30m1h", "is not a time"),
            ("1m1m", "is not a time"),
            ("1 2", "is not a time"),
            ("1.2.3s", "is not a time"),
            ("1h-5m", "is not a time"),
            ("-5s", "is negative"),
            ("-1", "is negative"),
            ("0.1ns", "is finer than a nanosecond"),
            ("0.0000000001", "is finer than a nanosecond"),
            ("1e9h", "is not a time"),
            ("99999999999h", "is too large"),
            ("18446744073709551616ns", "is too large"),
            ("5124095h1h", "is not a time"),
            ("5124095h60m", "is too large"),
        ] {
            let message = parse_time(text).expect_err(text).to_string();
            assert!(message.contains(said), "{text:?} gives {message}");
        }
    }

    #[test]
    fn a_percent_is_digits_with_a_point() {
        for (text, expected) in [
            ("0", Some(0.0)),
            ("99.9", Some(99.9)),
            ("100", Some(100.0)),
            (".5", Some(0.5)),
            ("100.1", None),
            ("-1", None),
            ("+1", None),
            ("1e1", None),
            ("nan", None),
            ("1%", None),
            ("", None),
            (".", None),
        ] {
            assert_eq!(parse_percent(text), expected, "{text:?}");
        }
    }

    #[test]
    fn times_are_printed_as_wrk_prints_them() {
        for (value_us, expected) in [
            (0.0, "0.00us"),
            (849.0, "849.00us"),
            (849.99, "849.99us"),
            (850.0, "0.85ms"),
            (999.0, "1.00ms"),
            (849_999.0, "850.00ms"),
            (850_000.0, "850.00ms"),
            (999_999.0, "1000.00ms"),
            (1_000_000.0, "1.00s"),
            (50_990_000.0, "50.99s"),
            (51_000_000.0, "0.85m"),
            (3_600_000_000.0, "60.00m"),
        ] {
            assert_eq!(time_us(value_us), expected, "{value_us} us");
        }
    }

    #[test]
    fn exact_ties_go_to_the_even_digit_as_in_c() {
        assert_eq!(time_us(1_125.0), "1.12ms");
        assert_eq!(time_us(1_375.0), "1.38ms");
        assert_eq!(metric(0.125), "0.12");
    }

    #[test]
    fn counts_and_bytes_are_printed_as_wrk_prints_them() {
        for (count, expected) in [
            (849.0, "849.00"),
            (850.0, "0.85k"),
            (12_345.0, "12.35k"),
            (850_000.0, "0.85M"),
            (1e9, "1.00G"),
            (1e15, "1000.00T"),
        ] {
            assert_eq!(metric(count), expected, "{count}");
        }
        for (bytes, expected) in [
            (0.0, "0.00"),
            (870.0, "870.00"),
            (870.4, "0.85K"),
            (891_290.0, "0.85M"),
            (1e12, "0.91T"),
            (1e16, "9094.95T"),
        ] {
            assert_eq!(binary(bytes), expected, "{bytes}");
        }
    }

    #[test]
    fn the_banner_shows_whole_seconds_as_wrk_and_fractions_exactly() {
        for (seconds, expected) in [
            (1, "1s"),
            (3, "3s"),
            (30, "30s"),
            (50, "50s"),
            (51, "1m"),
            (89, "1m"),
            (90, "2m"),
            (119, "2m"),
            (150, "2m"),
            (3_600, "60m"),
            (86_400, "1440m"),
        ] {
            assert_eq!(
                banner_duration(Duration::from_secs(seconds)),
                expected,
                "{seconds} s"
            );
        }
        assert_eq!(banner_duration(Duration::from_millis(500)), "500ms");
        assert_eq!(banner_duration(Duration::from_millis(1_500)), "1.5s");
        assert_eq!(banner_duration(Duration::from_millis(90_500)), "1m30.5s");
    }

    #[test]
    fn cells_align_numbers_and_cut_what_is_too_long() {
        for (text, width, expected) in [
            ("849.00us", 8, "849.00us"),
            ("1.00s", 8, "  1.00s "),
            ("5.00", 9, "   5.00  "),
            ("1000.00ms", 8, "1000.00m"),
            ("13.76k", 8, " 13.76k "),
            ("0.00", 8, "  0.00  "),
            ("", 3, "   "),
            ("us", 1, "u"),
            ("1", 0, "  "),
        ] {
            assert_eq!(cell(text, width), expected, "{text:?} in {width}");
        }
    }

    #[test]
    fn infinite_and_nan_values_are_printed() {
        assert_eq!(metric(f64::INFINITY), "infT");
        assert_eq!(time_us(f64::NAN), "NaNus");
        assert_eq!(time_us(-5.0), "-5.00us");
    }

    #[test]
    fn exact_times_are_short() {
        for (text, printed) in [
            ("0", "0s"),
            ("30", "30s"),
            ("90s", "1m30s"),
            ("1h", "1h"),
            ("3600.5", "1h500ms"),
            ("1500us", "1.5ms"),
            ("1ns", "1ns"),
            ("1.000000001s", "1.000000001s"),
        ] {
            assert_eq!(
                parse_time(text).map(time),
                Ok(printed.to_owned()),
                "{text:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(
            text in "\\PC{0,40}",
            number in "[ +-]?[0-9.]{0,60}[a-zA-Z ]{0,4}",
        ) {
            for text in [&text, &number] {
                let _ = parse_count(text);
                let _ = parse_count_u32(text);
                let _ = parse_time(text);
                prop_assert!(cell(text, 9).chars().count() >= 1);
            }
        }

        #[test]
        fn a_printed_time_is_read_back_exactly(ns in prop_oneof![0..1_000_000_000_000_u64, any::<u64>()]) {
            let duration = Duration::from_nanos(ns);
            prop_assert_eq!(parse_time(&time(duration)), Ok(duration));
        }

        #[test]
        fn a_printed_count_is_read_back_within_its_rounding(count in any::<u64>()) {
            let printed = metric(count as f64);
            let step = match printed.chars().last() {
                Some('k') => 10,
                Some('M') => 10_000,
                Some('G') => 10_000_000,
                Some('T') => 10_000_000_000,
                _ => 1,
            };
            let read = parse_count(&printed).unwrap();
            prop_assert!(read.abs_diff(count) <= step, "{} -> {} -> {}", count, printed, read);
        }

        #[test]
        fn a_bare_integer_means_itself(number in any::<u64>()) {
            prop_assert_eq!(parse_count(&number.to_string()), Ok(number));
        }

        #[test]
        fn printed_values_never_need_more_than_the_widest_cell(value in 0.0..1e12_f64) {
            prop_assert!(time_us(value).len() <= 12);
            prop_assert_eq!(cell(&time_us(value), 10).len(), 10);
        }
    }
}
