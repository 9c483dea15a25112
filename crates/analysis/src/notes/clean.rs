//! Lines without what terminals, quotes in Markdown and `docker logs --timestamps` add to them.
//!
//! Other prefixes of lines are not removed: what a logger writes before a line looks like the name
//! of a variant that a script writes there.

use std::borrow::Cow;

/// A text without control sequences, and without `> ` and times at the start of lines. Every line
/// is in its place.
pub(super) fn cleaned(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            cleaned.push('\n');
        }
        cleaned.push_str(without_time(unquoted(&visible(line))));
    }
    cleaned
}

/// A line without Markdown's marks of quotes.
fn unquoted(mut line: &str) -> &str {
    while let Some(rest) = line.strip_prefix('>')
        && (rest.is_empty() || rest.starts_with(['>', ' ']))
    {
        line = rest.strip_prefix(' ').unwrap_or(rest);
    }
    line
}

/// A line without `12:00:00`, `2024-05-01T12:00:00.123Z` or `[2024/05/01 12:00:00,123]` at its
/// start.
fn without_time(line: &str) -> &str {
    let text = line.trim_start_matches([' ', '\t']);
    let Some((first, rest)) = text.split_once(' ') else {
        return line;
    };
    if is_time(first) {
        return rest;
    }
    let is_date = first.len() >= 8 && is_of_digits(first);
    match rest.split_once(' ') {
        Some((second, rest)) if is_date && is_time(second) => rest,
        _ => line,
    }
}

/// Whether a word ends with hours, minutes and seconds.
fn is_time(word: &str) -> bool {
    word.matches(':').count() >= 2 && word.len() >= 8 && is_of_digits(word)
}

fn is_of_digits(word: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_digit() || b"-/:.,+TZ[]()".contains(&b);
    word.bytes().all(is_part)
        && word
            .trim_start_matches(['[', '('])
            .starts_with(|c: char| c.is_ascii_digit())
}

/// A line as a terminal shows it: without control sequences (ECMA-48: `ESC [ ... letter`, `ESC ]
/// ... BEL`, `ESC` with one character), and with what was written last if it was overwritten.
fn visible(line: &str) -> Cow<'_, str> {
    let line = line.trim_end_matches('\r');
    if !line.contains(['\u{1b}', '\r', '\u{8}']) {
        return Cow::Borrowed(line);
    }
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next() {
                Some('[') => drop(chars.find(|c| ('@'..='~').contains(c))),
                Some(']') => drop(chars.find(|c| matches!(c, '\u{7}' | '\\'))),
                Some('(' | ')') => drop(chars.next()),
                _ => {}
            },
            '\u{8}' => {}
            c => plain.push(c),
        }
    }
    let plain = plain.trim_end_matches('\r');
    Cow::Owned(plain.rsplit('\r').next().unwrap_or(plain).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_lines_stay_as_they_are() {
        for line in [
            "see: Running 30s test @ http://h/",
            ">x",
            "100.000%    6.82ms",
            "       0.067     0.000000            1         1.00",
            "12:00 noon",
            "2024-05-01: the first try",
            "2024-05-01T12:00:00Z,5,6",
            "19.000000,17090.000000,990.120000",
            "ratio 1:2:3",
            "[x86_64] ",
            "",
        ] {
            assert_eq!(cleaned(line), line);
        }
    }

    #[test]
    fn times_at_the_start_of_lines_are_stripped() {
        for time in [
            "12:00:00 ",
            "2024-05-01T12:00:00.123Z ",
            "2024-05-01 12:00:00,123 ",
            "[2024/05/01 12:00:00] ",
            "(12:00:00.5) ",
        ] {
            assert_eq!(cleaned(&format!("{time}Run 1")), "Run 1", "{time}");
        }
    }

    #[test]
    fn marks_of_quotes_are_stripped() {
        for mark in ["> ", ">> ", "> > "] {
            assert_eq!(cleaned(&format!("{mark}  Run 1\n>\n")), "  Run 1\n\n");
        }
    }

    #[test]
    fn colours_titles_and_overwritten_progress_are_stripped() {
        assert_eq!(
            cleaned("\u{1b}[1;32mRunning\u{1b}[0m\u{1b}]0;title\u{7} 30s\u{1b}(B\r\n"),
            "Running 30s\n"
        );
        assert_eq!(
            cleaned("10 %\r50 %\rRequests/sec: 1.00\r\n"),
            "Requests/sec: 1.00\n"
        );
    }
}
