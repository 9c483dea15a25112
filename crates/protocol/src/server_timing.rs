//! The `Server-Timing` header (W3C Server Timing, section 4): what a server says of its own time.

/// The longest name of a metric that is taken.
const MAX_NAME_BYTES: usize = 64;

/// The longest duration that is taken: a day.
const MAX_MS: f64 = 24.0 * 60.0 * 60.0 * 1000.0;

/// Names and durations, in nanoseconds, of the metrics in the value of a header. Metrics without a
/// duration, which only carry a description, are left out, and so are those whose duration is no
/// number of milliseconds from 0 to a day.
pub fn metrics(value: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    split_outside_quotes(value, b',').filter_map(metric)
}

fn metric(text: &[u8]) -> Option<(&[u8], u64)> {
    let mut parts = split_outside_quotes(text, b';');
    let name = parts.next()?.trim_ascii();
    let is_name = !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.iter().all(is_tchar);
    // The first one counts, if there are several.
    let duration = parts.find_map(|part| {
        let at = part.iter().position(|byte| *byte == b'=')?;
        let (key, value) = (part[..at].trim_ascii(), &part[at + 1..]);
        key.eq_ignore_ascii_case(b"dur").then_some(value)
    })?;
    is_name.then_some((name, duration_ns(duration)?))
}

/// A duration in milliseconds, as a token or a quoted string.
fn duration_ns(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    let quoted = value
        .strip_prefix(b"\"")
        .and_then(|it| it.strip_suffix(b"\""));
    let text = std::str::from_utf8(quoted.unwrap_or(value)).ok()?;
    let ms: f64 = text.parse().ok()?;
    (0.0..=MAX_MS)
        .contains(&ms)
        .then(|| (ms * 1e6).round() as u64)
}

/// A character of a token (RFC 9110 section 5.6.2).
fn is_tchar(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// The parts of a text between separators that are not in a quoted string (RFC 9110 section 5.6.4).
fn split_outside_quotes(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |byte| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match byte {
            b'\\' if is_quoted && !was_escaped => is_escaped = true,
            b'"' if !was_escaped => is_quoted = !is_quoted,
            _ => {}
        }
        *byte == separator && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Vec<(String, u64)> {
        let named =
            |(name, time_ns): (&[u8], u64)| (String::from_utf8_lossy(name).into_owned(), time_ns);
        metrics(value.as_bytes()).map(named).collect()
    }

    #[test]
    fn metrics_have_names_and_durations_in_milliseconds() {
        for (value, expected) in [
            ("total;dur=1.5", vec![("total", 1_500_000)]),
            ("a;dur=0, b;dur=2", vec![("a", 0), ("b", 2_000_000)]),
            (" a ; DUR = 3 ;desc=x", vec![("a", 3_000_000)]),
            ("db;desc=\"one, two; dur=9\";dur=4", vec![("db", 4_000_000)]),
            (
                "db;desc=\"a \\\" , b\";dur=4,c;dur=\"5\"",
                vec![("db", 4_000_000), ("c", 5_000_000)],
            ),
            // nginx has its times in seconds, and a configuration can append an exponent.
            ("total;dur=0.005e3", vec![("total", 5_000_000)]),
            ("a;dur=1;dur=2", vec![("a", 1_000_000)]),
        ] {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(name, time_ns)| (name.to_owned(), time_ns))
                .collect();
            assert_eq!(read(value), expected, "{value}");
        }
    }

    #[test]
    fn what_has_no_name_or_no_possible_duration_is_left_out() {
        for value in [
            "",
            ",",
            "cache",
            "cache;desc=hit",
            ";dur=1",
            "a b;dur=1",
            "a;dur",
            "a;dur=",
            "a;dur=-1",
            "a;dur=nan",
            "a;dur=inf",
            "a;dur=1e300",
            "a;dur=-e3",
            "a;dur=\"0.003, 0.002e3\"",
            "a;dur=1ms",
            "\"a;dur=1",
        ] {
            assert_eq!(read(value), [], "{value}");
        }
        let long = format!("{};dur=1", "n".repeat(MAX_NAME_BYTES + 1));
        assert_eq!(read(&long), []);
        assert_eq!(metrics(b"a;dur=\xff1,b;dur=1").count(), 1);
    }
}
