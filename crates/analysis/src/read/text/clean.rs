//! Lines without what terminals and loggers add to them.
//!
//! What stands before `Running 10s test @` in the first line of a report is a prefix (`> `,
//! `wrk-1  | `, `May  1 12:00:00 host wrk[17]: `), if the line below begins with it as well. Every
//! line that begins with a prefix loses it; digits may be others.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::report;

/// Limit on the prefixes of a text.
const PREFIXES_MAX: usize = 8;

/// A longer prefix is prose.
const PREFIX_MAX_BYTES: usize = 200;

/// A text with every line in its place.
#[derive(Debug)]
pub(super) struct Cleaned {
    /// The text without prefixes, times at the start of lines, and control sequences.
    pub(super) text: String,
    /// What the prefixes of lines say besides times, by the numbers of first lines of reports, if
    /// not all say the same: a script may put the name of a variant there.
    pub(super) names: BTreeMap<usize, String>,
}

/// Strips what was added to each line.
pub(super) fn cleaned(text: &str) -> Cleaned {
    let lines: Vec<Cow<'_, str>> = text.split('\n').map(visible).collect();
    let mut prefixes: Vec<&str> = Vec::new();
    let mut names = BTreeMap::new();
    for (number, pair) in (1..).zip(lines.windows(2)) {
        let Some(prefix) = prefix(&pair[0], &pair[1]) else {
            if report::start(pair[0].trim()).is_some() {
                names.insert(number, String::new());
            }
            continue;
        };
        names.insert(number, name(prefix));
        let is_new = prefixes
            .iter()
            .all(|known| without(prefix, known).is_none());
        if is_new && prefixes.len() < PREFIXES_MAX {
            prefixes.push(prefix);
        }
    }
    if names.values().collect::<BTreeSet<_>>().len() < 2 {
        names.clear();
    }
    let mut cleaned = String::with_capacity(text.len());
    for (at, line) in lines.iter().enumerate() {
        if at > 0 {
            cleaned.push('\n');
        }
        let rest = prefixes.iter().find_map(|prefix| without(line, prefix));
        cleaned.push_str(without_time(rest.unwrap_or(line)));
    }
    Cleaned {
        text: cleaned,
        names,
    }
}

/// The words of a prefix without times, and without the number of a process.
fn name(prefix: &str) -> String {
    let is_moment = |word: &&str| is_of_digits(word) && word.len() >= 6;
    let words = prefix.split_whitespace().filter(|word| !is_moment(word));
    let words = words.map(|word| match word.split_once('[') {
        Some((name, id)) if id.trim_end_matches([']', ':']).parse::<u64>().is_ok() => name,
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What stands before the first line of a report, given the line below it.
fn prefix<'l>(line: &'l str, below: &str) -> Option<&'l str> {
    let at = line.find("Running ").filter(|at| *at <= PREFIX_MAX_BYTES)?;
    let prefix = line[..at].trim_start_matches([' ', '\t']);
    let of_below = without(below, prefix)?;
    // A diff marks removed lines so.
    let is_prefix = !prefix.is_empty() && prefix != "-" && report::start(&line[at..]).is_some();
    (is_prefix && report::starts_without_first_line(of_below.trim())).then_some(prefix)
}

/// What follows a prefix, in which digits may be others.
fn without<'l>(line: &'l str, prefix: &str) -> Option<&'l str> {
    let is_space = |c: char| c == ' ' || c == '\t';
    let mut rest = line.trim_start_matches(is_space);
    let mut prefix = prefix;
    while let Some(c) = prefix.chars().next() {
        let same = |text: &'l str| match c {
            c if c.is_ascii_digit() => text.trim_start_matches(|c: char| c.is_ascii_digit()),
            c if is_space(c) => text.trim_start_matches(is_space),
            c => text.strip_prefix(c).unwrap_or(text),
        };
        let after = same(rest);
        // There may be nothing after a prefix, and then no space at its end.
        if after.len() == rest.len() && !(rest.is_empty() && is_space(c)) {
            return None;
        }
        rest = after;
        prefix = match c {
            c if c.is_ascii_digit() => prefix.trim_start_matches(|c: char| c.is_ascii_digit()),
            c if is_space(c) => prefix.trim_start_matches(is_space),
            c => &prefix[c.len_utf8()..],
        };
    }
    Some(rest)
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
    fn what_stands_before_each_line_of_a_report_is_stripped() {
        let lines = [
            "first:",
            "Running 30s test @ http://h/",
            "  2 threads and 10 connections",
            "  Latency   1.00ms",
            "",
            " 50.000%    0.87ms",
        ];
        for prefix in [
            "2024-05-01T12:00:00.123456789Z ",
            "[12:00:00] ",
            "May  1 12:00:00 host wrk[1234]: ",
            "2024-05-01T12:00:00.000000000Z stdout F ",
            "wrk-1  | ",
            "1714564800.123456 ",
            "\u{1b}[32mwrk\u{1b}[0m: ",
            "+",
            "> ",
            ">> ",
        ] {
            let text = lines.map(|line| format!("{prefix}{line}\n")).concat();
            let cleaned = cleaned(&text.replace(" \n", "\n")).text;
            let found: Vec<&str> = cleaned.trim_end().split('\n').map(str::trim).collect();
            assert_eq!(found, lines.map(str::trim), "{prefix:?}");
        }
    }

    #[test]
    fn other_lines_stay_as_they_are() {
        for line in [
            "see: Running 30s test @ http://h/",
            "-Running 30s test @ http://h/\n-  2 threads and 10 connections",
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
            assert_eq!(cleaned(line).text, line);
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
            assert_eq!(cleaned(&format!("{time}Run 1")).text, "Run 1", "{time}");
        }
    }

    #[test]
    fn colours_titles_and_overwritten_progress_are_stripped() {
        assert_eq!(
            cleaned("\u{1b}[1;32mRunning\u{1b}[0m\u{1b}]0;title\u{7} 30s\u{1b}(B\r\n").text,
            "Running 30s\n"
        );
        assert_eq!(
            cleaned("10 %\r50 %\rRequests/sec: 1.00\r\n").text,
            "Requests/sec: 1.00\n"
        );
    }

    #[test]
    fn a_prefix_names_runs_by_what_is_no_time() {
        for (prefix, expected) in [
            ("2024-05-01T12:00:00.123456789Z ", ""),
            ("[12:00:00] ", ""),
            ("1714564800.123456 ", ""),
            ("May  1 12:00:00 host wrk[1234]: ", "May 1 host wrk"),
            ("wrk-1  | ", "wrk-1 |"),
            ("4 workers: ", "4 workers:"),
        ] {
            assert_eq!(name(prefix), expected);
        }
    }
}
