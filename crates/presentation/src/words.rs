//! Numbers and names as text for people.

/// Shown in place of a value that is not known.
pub const UNKNOWN: &str = "\u{2013}";

pub use plan::readable::{bytes, count, counted, list, time_ns, time_us};

/// A number in four digits, or with all digits before the point: `12,345`, `123.4`, `0.01234`.
pub fn number(number: f64) -> String {
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
        // Less than the last decimal, and not zero.
        "0" | "-0" => format!("{number:.1e}"),
        short => short.to_owned(),
    }
}

/// How long something lasted, to the millisecond: `3.02 s`, `1 min 30 s`.
pub fn duration_ns(duration_ns: u64) -> String {
    const MS: u64 = 1_000_000;
    if duration_ns < MS {
        return time_ns(duration_ns);
    }
    let ms = duration_ns.saturating_add(MS / 2) / MS;
    if ms < 1_000 {
        return format!("{ms} ms");
    }
    let (hours, minutes) = (ms / 3_600_000, ms / 60_000 % 60);
    let parts = [
        (hours > 0).then(|| format!("{} h", count(hours))),
        (minutes > 0).then(|| format!("{minutes} min")),
        (!ms.is_multiple_of(60_000)).then(|| format!("{} s", (ms % 60_000) as f64 / 1e3)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Bytes per second with their unit: `3.92 MiB/s`.
pub fn bytes_per_sec(per_sec: f64) -> String {
    format!("{}/s", bytes(per_sec))
}

/// A share, 0 to 1, in percent: `0.42 %`, `4.1 %`, `12 %`. Only a share of 1 is 100 %, and only 0
/// is 0 %.
pub fn percent(share: f64) -> String {
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

/// `part` of `whole` in percent; [`UNKNOWN`] if `whole` is zero.
pub fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => UNKNOWN.to_owned(),
        whole => percent(part as f64 / whole as f64),
    }
}

/// An RFC 3339 time in UTC as `2026-11-20 20:00:00 UTC`; other text is unchanged.
pub fn moment(rfc3339: &str) -> String {
    match rfc3339
        .strip_suffix('Z')
        .and_then(|moment| moment.split_once('T'))
    {
        Some((date, time)) => format!("{date} {time} UTC"),
        None => rfc3339.to_owned(),
    }
}

/// `p99.9`; `max` for 100.
pub fn percentile(percent: f64) -> String {
    if percent >= 100.0 {
        "max".to_owned()
    } else {
        format!("p{percent}")
    }
}

/// Joins sentences, each with a full stop. Empty ones are left out.
pub fn sentences<'a>(sentences: impl IntoIterator<Item = &'a str>) -> String {
    let sentences: Vec<String> = sentences
        .into_iter()
        .filter(|sentence| !sentence.is_empty())
        .map(|sentence| format!("{}.", sentence.trim_end_matches('.')))
        .collect();
    sentences.join(" ")
}

/// A text as a sentence: with a capital letter and a full stop.
pub fn sentence(text: &str) -> String {
    sentences([capital(text).as_str()])
}

/// The text with a capital letter at its start, unless the first word is a name such as
/// `requests/s`.
pub fn capital(text: &str) -> String {
    let first_word = text.split(' ').next().unwrap_or_default();
    let mut chars = text.chars();
    match chars.next() {
        Some(first) if first_word.chars().all(char::is_alphabetic) => {
            first.to_uppercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}

/// The first characters of a text.
pub fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}\u{2026}", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_and_thousands_separators() {
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
        assert_eq!(duration_ns(3_020_400_000), "3.02 s");
        assert_eq!(duration_ns(90_000_000_000), "1 min 30 s");
        assert_eq!(duration_ns(3_600_000_000_000), "1 h");
        assert_eq!(duration_ns(1_500), "1.5 us");
        assert_eq!(duration_ns(500_000_000), "500 ms");
        assert_eq!(bytes(150.0), "150 B");
        assert_eq!(bytes(4_110_418.0), "3.92 MiB");
        assert_eq!(bytes_per_sec(1_536.0), "1.5 KiB/s");
        assert_eq!(moment("2026-11-20T20:00:00Z"), "2026-11-20 20:00:00 UTC");
        assert_eq!(moment("yesterday"), "yesterday");
    }

    #[test]
    fn words_are_joined_to_lists_and_sentences() {
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
        assert_eq!(cut("\u{e4}\u{f6}\u{fc}", 2), "\u{e4}\u{f6}\u{2026}");
        assert_eq!(sentences(["a", "", "b."]), "a. b.");
    }
}
