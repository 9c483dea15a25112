//! Lines without what terminals, loggers and diffs add to them: colours, time stamps, names of
//! hosts and programs, `+`, `>`.

use std::borrow::Cow;

/// A text as it was printed, with every line in its place.
#[derive(Debug)]
pub(super) struct Cleaned<'a> {
    pub(super) text: Cow<'a, str>,
    /// Number of lines that a diff marks as removed. They are empty here.
    pub(super) removed: usize,
}

/// Strips what was added to each line. The number of lines stays the same.
pub(super) fn cleaned(text: &str) -> Cleaned<'_> {
    let mut changed: Option<String> = None;
    let mut state = Diff::default();
    let mut done = 0;
    for raw in text.split_inclusive('\n') {
        let content = raw.strip_suffix('\n').unwrap_or(raw);
        let line = state.content(content);
        match (&mut changed, line) {
            (None, Cow::Borrowed(same)) if same.len() == content.len() => {}
            (changed, line) => {
                let new = changed.get_or_insert_with(|| text[..done].to_owned());
                new.push_str(&line);
                new.push_str(&raw[content.len()..]);
            }
        }
        done += raw.len();
    }
    Cleaned {
        text: changed.map_or(Cow::Borrowed(text), Cow::Owned),
        removed: state.removed,
    }
}

/// Limit on nested prefixes, such as a time stamp of docker before one of the program.
const LAYERS_MAX: usize = 4;

/// Whether the current lines belong to a diff.
#[derive(Debug, Default)]
struct Diff {
    is_in_hunk: bool,
    removed: usize,
}

impl Diff {
    /// The line as it was printed.
    fn content<'a>(&mut self, raw: &'a str) -> Cow<'a, str> {
        if !raw.contains(['\u{1b}', '\u{9b}', '\r', '\u{8}']) {
            return Cow::Borrowed(self.without_prefixes(raw));
        }
        let plain = without_escapes(raw);
        let visible = plain.trim_end_matches('\r');
        // An overwritten line, such as a progress bar, shows what was written last.
        let visible = visible.rsplit('\r').next().unwrap_or(visible);
        Cow::Owned(self.without_prefixes(visible).to_owned())
    }

    fn without_prefixes<'a>(&mut self, line: &'a str) -> &'a str {
        let mut line = self.without_mark(line);
        for _ in 0..LAYERS_MAX {
            let rest = without_stamp(line)
                .or_else(|| without_container(line))
                .or_else(|| without_quotes(line));
            let Some(rest) = rest else {
                break;
            };
            line = self.without_mark(rest);
        }
        line
    }

    /// A line of a unified diff without its first character; empty for a removed line.
    fn without_mark<'a>(&mut self, line: &'a str) -> &'a str {
        if line.starts_with("@@ -") {
            self.is_in_hunk = true;
            return "";
        }
        self.is_in_hunk &= line.is_empty() || line.starts_with([' ', '+', '-', '\\', '\t']);
        if self.is_in_hunk && line.starts_with('-') {
            self.removed += 1;
            return "";
        }
        match line.strip_prefix('+') {
            Some(added) if !added.starts_with("++") => added,
            _ => line,
        }
    }
}

/// The text without the control sequences of a terminal (ECMA-48): `ESC [ ... letter`, `ESC ] ...
/// BEL`, `ESC` with one character.
fn without_escapes(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let kind = match c {
            '\u{1b}' => chars.next(),
            '\u{9b}' => Some('['),
            '\u{8}' => None,
            c => {
                plain.push(c);
                continue;
            }
        };
        match kind {
            Some('[') => {
                let _ = chars.find(|c| ('@'..='~').contains(c));
            }
            Some(']') => {
                while let Some(c) = chars.next() {
                    if c == '\u{7}' || c == '\u{1b}' && chars.next_if_eq(&'\\').is_some() {
                        break;
                    }
                }
            }
            Some('(' | ')') => {
                let _ = chars.next();
            }
            _ => {}
        }
    }
    plain
}

/// A line without the time at its start, and without the source that syslog and journalctl write
/// after it.
fn without_stamp(line: &str) -> Option<&str> {
    let line = line.trim_start_matches([' ', '\t']);
    let (inner, end) = match line.as_bytes().first()? {
        b'[' => (&line[1..], "]"),
        b'(' => (&line[1..], ")"),
        _ => (line, ""),
    };
    let is_framed = !end.is_empty();
    let rest = date_and_time(inner)
        .or_else(|| month_day_time(inner))
        .or_else(|| time(inner))
        .or_else(|| seconds(inner, is_framed))?;
    let rest = rest.strip_prefix(end)?;
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    match rest.chars().next() {
        None => Some(rest),
        Some(' ' | '\t') => Some(without_source(&rest[1..])),
        Some(_) => None,
    }
}

/// What follows `2024-05-01T12:00:00.123Z` or `2024/05/01 12:00:00,123 +0200`.
fn date_and_time(text: &str) -> Option<&str> {
    let rest = digits(text, 4, 4)?;
    let rest = rest.strip_prefix(['-', '/'])?;
    let rest = digits(rest, 2, 2)?.strip_prefix(['-', '/'])?;
    let rest = digits(rest, 2, 2)?.strip_prefix(['T', ' ', '_'])?;
    let rest = time(rest)?;
    Some(zone(rest).unwrap_or(rest))
}

/// What follows `Z`, `+0200`, `-05:00` or ` UTC`.
fn zone(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('Z') {
        return Some(rest);
    }
    let inner = text.strip_prefix(' ').unwrap_or(text);
    if let Some(rest) = inner
        .strip_prefix("UTC")
        .or_else(|| inner.strip_prefix("GMT"))
    {
        return Some(rest);
    }
    let offset = inner.strip_prefix(['+', '-'])?;
    digits(offset, 4, 4).or_else(|| digits(digits(offset, 2, 2)?.strip_prefix(':')?, 2, 2))
}

/// What follows `May  1 12:00:00.123` or `Wed May 01 12:00:00`.
fn month_day_time(text: &str) -> Option<&str> {
    const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let word = |text: &str| text.get(..3).map(str::to_owned);
    let mut rest = text;
    if WEEKDAYS.contains(&word(rest)?.as_str()) {
        rest = rest[3..].trim_start_matches(',').strip_prefix(' ')?;
    }
    if !MONTHS.contains(&word(rest)?.as_str()) {
        return None;
    }
    let rest = rest[3..].strip_prefix(' ')?;
    let rest = digits(rest.strip_prefix(' ').unwrap_or(rest), 1, 2)?;
    time(rest.strip_prefix(' ')?)
}

/// What follows `12:00:00` or `00:00:03.123456`.
fn time(text: &str) -> Option<&str> {
    let rest = digits(text, 1, 2)?.strip_prefix(':')?;
    let rest = digits(rest, 2, 2)?.strip_prefix(':')?;
    let rest = digits(rest, 2, 2)?;
    let fraction = rest.strip_prefix(['.', ',']);
    Some(
        fraction
            .and_then(|fraction| digits(fraction, 1, 9))
            .unwrap_or(rest),
    )
}

/// What follows seconds with a fraction: since 1970, or in brackets since the boot or the start.
fn seconds(text: &str, is_framed: bool) -> Option<&str> {
    let (least, text) = if is_framed {
        (1, text.trim_start_matches(' '))
    } else {
        (10, text)
    };
    digits(digits(text, least, 10)?.strip_prefix('.')?, 1, 9)
}

/// What follows `least` to `most` digits.
fn digits(text: &str, least: usize, most: usize) -> Option<&str> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    (least..=most).contains(&count).then(|| &text[count..])
}

/// Programs that log under their own name without a process ID.
const TAGS: [&str; 8] = [
    "wrk", "wrk2", "wrk-cmm", "wrkbench", "root", "sh", "bash", "logger",
];

/// What follows `host wrk[1234]: `, as syslog and journalctl write, or `stdout F `, as container
/// runtimes write.
fn without_source(text: &str) -> &str {
    for stream in ["stdout F ", "stderr F "] {
        if let Some(rest) = text.strip_prefix(stream) {
            return rest;
        }
    }
    let after_host = |text: &str| {
        let (host, rest) = text.split_once(' ')?;
        let (tag, rest) = rest.split_once(':')?;
        let name = match tag.strip_suffix(']') {
            Some(tag) => tag
                .split_once('[')
                .filter(|(_, id)| digits(id, 1, 10) == Some(""))
                .map(|(name, _)| name)?,
            None => TAGS.contains(&tag).then_some(tag)?,
        };
        let are_words = !host.is_empty() && !name.is_empty() && !name.contains(char::is_whitespace);
        are_words.then(|| rest.strip_prefix(' ').unwrap_or(rest).len())
    };
    match after_host(text) {
        Some(length) => &text[text.len() - length..],
        None => text,
    }
}

/// What follows `> `, the prefix of quotes in mail and Markdown.
fn without_quotes(line: &str) -> Option<&str> {
    let quoted = line.trim_start().strip_prefix('>')?;
    let quoted = quoted.trim_start_matches('>');
    Some(quoted.strip_prefix(' ').unwrap_or(quoted))
}

/// What follows `wrk-1  | `, as docker compose writes.
fn without_container(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once(" | ")?;
    let name = name.trim_end();
    let (service, number) = name.rsplit_once(['-', '_'])?;
    let is_name = !service.is_empty()
        && service
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    (is_name && digits(number, 1, 4) == Some("")).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(text: &str) -> String {
        cleaned(text).text.into_owned()
    }

    #[test]
    fn usual_time_stamps_are_stripped() {
        for stamp in [
            "2024-05-01T12:00:00Z ",
            "2024-05-01T12:00:00.123456789Z ",
            "2024-05-01T12:00:00+02:00 ",
            "2024-05-01 12:00:00,123 ",
            "2024/05/01 12:00:00 ",
            "[2024-05-01 12:00:00] ",
            "[2024-05-01T12:00:00.123Z] ",
            "12:00:00 ",
            "[12:00:00] ",
            "(12:00:00.5) ",
            "00:00:03 ",
            "May  1 12:00:00 ",
            "May 01 12:00:00 ",
            "Wed May  1 12:00:00 ",
            "1714564800.123456 ",
            "[    3.141592] ",
            "May  1 12:00:00 host wrk[1234]: ",
            "May 01 12:00:00.123456 host.example wrk-cmm[1]: ",
            "2024-05-01T12:00:00+0000 host wrk[1234]: ",
            "May  1 12:00:00 host root: ",
            "2024-05-01T12:00:00.000000000Z stdout F ",
            "wrk-1  | ",
            "wrk-1  | 2024-05-01T12:00:00Z ",
            "\u{1b}[32m2024-05-01T12:00:00Z\u{1b}[0m ",
            "+",
            "+12:00:00 ",
            "> ",
            ">> 12:00:00 ",
        ] {
            for line in [
                "Running 30s test @ http://h/",
                "  Latency   1.00ms",
                "  Socket errors: connect 0, read 1, write 0, timeout 0",
                " 50.000%    0.87ms",
                "first round:",
                "{",
            ] {
                assert_eq!(
                    clean(&format!("{stamp}{line}\n")),
                    format!("{line}\n"),
                    "{stamp:?}"
                );
            }
        }
    }

    #[test]
    fn lines_that_only_look_like_time_stamps_stay() {
        for line in [
            "100.000%    6.82ms",
            "       0.067     0.000000            1         1.00",
            "12:00 noon",
            "2024-05-01: the first try",
            "2024-05-01T12:00:00Z,5,6",
            "19.000000,17090.000000,990.120000",
            "[x86_64] ",
            "name | value",
            "Thread calibration: mean lat.: 1.157ms",
            "May be slow",
            "+++ b/notes.txt",
            "",
        ] {
            assert_eq!(clean(line), line);
        }
    }

    #[test]
    fn colours_titles_and_overwritten_progress_are_stripped() {
        assert_eq!(
            clean("\u{1b}[1;32mRunning\u{1b}[0m\u{1b}]0;title\u{7} 30s\u{1b}(B\r\n"),
            "Running 30s\n"
        );
        assert_eq!(
            clean("10 %\r50 %\rRequests/sec: 1.00\r\n"),
            "Requests/sec: 1.00\n"
        );
        assert_eq!(clean("\u{9b}31mred\u{1b}"), "red");
    }

    #[test]
    fn added_lines_of_a_diff_are_read_and_removed_ones_are_not() {
        let diff = "--- a/n.txt\n+++ b/n.txt\n@@ -1,3 +1,3 @@ x\n kept\n-Requests/sec: \
             1.00\n+Requests/sec: 2.00\n\\ No newline\nafter\n- item\n";
        let Cleaned { text, removed } = cleaned(diff);
        assert_eq!(
            text,
            "--- a/n.txt\n+++ b/n.txt\n\n kept\n\nRequests/sec: 2.00\n\\ No newline\nafter\n- \
             item\n"
        );
        assert_eq!(removed, 1);
    }
}
