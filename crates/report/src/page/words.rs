//! Numbers, names and commands as text, in digits that a reader can use.

use std::time::Duration;

use plan::units;

/// What stands where nothing is known.
pub(crate) const UNKNOWN: &str = "\u{2013}";

/// `1,234,567`
pub(crate) fn count(number: u64) -> String {
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

/// `1 run`, `2 runs`: the word as it is for one.
pub(crate) fn counted(number: u64, word: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {word}{end}", count(number))
}

/// A number in four digits: `12,345`, `1,234`, `123.4`, `1.234`, `0.01234`; whole numbers without decimals.
pub(crate) fn number(number: f64) -> String {
    if !number.is_finite() {
        return UNKNOWN.to_owned();
    }
    let size = number.abs();
    if size >= 999.95 || size.fract() == 0.0 {
        let sign = if number < 0.0 && size >= 0.5 { "-" } else { "" };
        return format!("{sign}{}", count(size.round() as u64));
    }
    let decimals = match size {
        size if size >= 99.995 => 1,
        size if size >= 9.9995 => 2,
        size if size >= 0.99995 => 3,
        size if size >= 0.099_995 => 4,
        _ => 5,
    };
    let text = format!("{number:.decimals$}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    match short {
        // Less than the last decimal, and not nothing.
        "0" | "-0" => format!("{number:.1e}"),
        short => short.to_owned(),
    }
}

/// A time in microseconds, as the reports in text have it: `849.00us`, `1.23ms`; `0us` of nothing.
pub(crate) fn time_us(time_us: f64) -> String {
    if time_us == 0.0 {
        "0us".to_owned()
    } else {
        units::time_us(time_us)
    }
}

/// The same of nanoseconds.
pub(crate) fn time_ns(time_ns: u64) -> String {
    time_us(time_ns as f64 / 1e3)
}

/// How long something lasted, to the millisecond: `3.02s`, `1m30s`.
pub(crate) fn duration_ns(duration_ns: u64) -> String {
    const MS: u64 = 1_000_000;
    let rounded = match duration_ns {
        ns if ns < MS => ns,
        ns => ns.saturating_add(MS / 2) / MS * MS,
    };
    units::time(Duration::from_nanos(rounded))
}

/// `3.92MB`, by powers of 1024.
pub(crate) fn bytes(bytes: f64) -> String {
    if bytes.abs() < 1024.0 * 0.85 {
        return format!("{bytes:.0}B");
    }
    format!("{}B", units::binary(bytes))
}

/// `3.92MB/s`
pub(crate) fn bytes_per_sec(per_sec: f64) -> String {
    format!("{}/s", bytes(per_sec))
}

/// A share, 0 to 1, in percent: `0.42 %`, `4.1 %`, `12 %`. What is not all is not called 100 %, and what is
/// not nothing not 0 %.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if !percent.is_finite() {
        return UNKNOWN.to_owned();
    }
    if percent > 0.0 && percent < 0.005 {
        return "< 0.01 %".to_owned();
    }
    if (99.995..100.0).contains(&percent) {
        return "> 99.99 %".to_owned();
    }
    let decimals = match percent {
        percent if percent < 0.995 => 2,
        percent if percent < 9.95 => 1,
        percent if (99.0..100.0).contains(&percent) => 2,
        _ => 0,
    };
    let text = format!("{percent:.decimals$}");
    let short = if decimals > 0 {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{short} %")
}

/// `part` of `whole` in percent; unknown of nothing.
pub(crate) fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => UNKNOWN.to_owned(),
        whole => percent(part as f64 / whole as f64),
    }
}

/// A moment as it is saved (RFC 3339) for people: `2026-11-20 20:00:00 UTC`. Anything else is left as it is.
pub(crate) fn moment(rfc3339: &str) -> String {
    match rfc3339
        .strip_suffix('Z')
        .and_then(|moment| moment.split_once('T'))
    {
        Some((date, time)) => format!("{date} {time} UTC"),
        None => rfc3339.to_owned(),
    }
}

/// A percentile's name: `p99.9`, and `max` of 100.
pub(crate) fn percentile(percent: f64) -> String {
    if percent >= 100.0 {
        "max".to_owned()
    } else {
        format!("p{percent}")
    }
}

/// Sentences put together, each with its point.
pub(crate) fn sentences<'a>(sentences: impl IntoIterator<Item = &'a str>) -> String {
    let sentences: Vec<String> = sentences
        .into_iter()
        .filter(|sentence| !sentence.is_empty())
        .map(|sentence| format!("{}.", sentence.trim_end_matches('.')))
        .collect();
    sentences.join(" ")
}

/// `a`, `a and b`, `a, b and c`
pub(crate) fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Text of others, cut where it is longer than anyone reads.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}\u{2026}", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_and_thousands_are_parted() {
        for (value, expected) in [
            (0.0, "0"),
            (7.0, "7"),
            (999.0, "999"),
            (1_234.5, "1,235"),
            (999.96, "1,000"),
            (123.44, "123.4"),
            (12.345_6, "12.35"),
            (1.5, "1.5"),
            (0.25, "0.25"),
            (0.001_234, "0.00123"),
            (0.000_001, "1.0e-6"),
            (12_345_678.9, "12,345,679"),
            (-12_345.0, "-12,345"),
            (-0.5, "-0.5"),
            (f64::NAN, UNKNOWN),
            (f64::INFINITY, UNKNOWN),
        ] {
            assert_eq!(number(value), expected, "{value}");
        }
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(counted(1, "run"), "1 run");
        assert_eq!(counted(1_000, "run"), "1,000 runs");
    }

    #[test]
    fn a_share_is_never_rounded_to_all_or_to_nothing() {
        for (value, expected) in [
            (0.0, "0 %"),
            (0.000_01, "< 0.01 %"),
            (0.004_2, "0.42 %"),
            (0.041, "4.1 %"),
            (0.05, "5 %"),
            (0.123, "12 %"),
            (0.5, "50 %"),
            (0.999_7, "99.97 %"),
            (0.999_999, "> 99.99 %"),
            (1.0, "100 %"),
            (1.2, "120 %"),
        ] {
            assert_eq!(percent(value), expected, "{value}");
        }
        assert_eq!(share(1, 0), UNKNOWN);
    }

    #[test]
    fn times_and_sizes_have_their_units() {
        assert_eq!(time_ns(1_234_567), "1.23ms");
        assert_eq!(duration_ns(3_020_400_000), "3.02s");
        assert_eq!(duration_ns(90_000_000_000), "1m30s");
        assert_eq!(duration_ns(1_500), "1.5us");
        assert_eq!(bytes(150.0), "150B");
        assert_eq!(bytes(4_110_418.0), "3.92MB");
        assert_eq!(moment("2026-11-20T20:00:00Z"), "2026-11-20 20:00:00 UTC");
        assert_eq!(moment("yesterday"), "yesterday");
    }

    #[test]
    fn words_become_lists_and_sentences() {
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
        assert_eq!(cut("\u{e4}\u{f6}\u{fc}", 2), "\u{e4}\u{f6}\u{2026}");
        assert_eq!(sentences(["a", "", "b."]), "a. b.");
    }
}
