//! The number of a run in a line: `Basic test, second round`, `Run 2/3`.

use std::sync::LazyLock;

use regex_lite::Regex;

use super::lines::regex;

/// Words for a repetition.
const WORDS: &str = "(?:run|round|iteration|attempt|pass|trial|repetition)";

const ORDINALS: [&str; 10] = [
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
];

/// A larger number counts something other than runs.
const NUMBER_MAX: usize = 10_000;

/// What may surround a number and its word.
const MARKS: [char; 10] = [',', ';', ':', '-', '(', ')', '[', ']', '#', '.'];

const MARK: &str = r"[,;:()\[\]#.-]";

/// `run 2`, `run #2`, `run 2/3`, `run 2 of 3`, at the end of the line or of a part of it.
static NUMBERED: LazyLock<Regex> = LazyLock::new(|| {
    let number = format!(r"{WORDS}{MARK}*\s+{MARK}*(?P<run>\d+)(?:/\d+|\s+of\s+\d+)?");
    let after = format!(r"(?:{MARK}+(?:\s.*)?|\s+{MARK}.*)?");
    regex(&format!(
        r"(?i)^(?P<before>.*?)(?:^|\s){MARK}*{number}(?P<after>{after})$"
    ))
});

/// `second run`, `2nd run`.
static ORDINAL: LazyLock<Regex> = LazyLock::new(|| {
    let ordinal = format!(r"(?P<run>{}|\d+(?:st|nd|rd|th))", ORDINALS.join("|"));
    let ordinal = format!(r"{ordinal}{MARK}*\s+{MARK}*{WORDS}");
    regex(&format!(
        r"(?i)^(?P<before>.*?)(?:^|\s){MARK}*{ordinal}(?P<after>{MARK}*(?:\s.*)?)$"
    ))
});

/// A line without the number of its run, and that number.
pub(super) fn split(line: &str) -> (String, Option<u32>) {
    let found = NUMBERED.captures(line).or_else(|| ORDINAL.captures(line));
    let split = found.and_then(|found| {
        let run = &found["run"];
        let ordinal = ORDINALS.iter().position(|it| it.eq_ignore_ascii_case(run));
        let run: usize = match ordinal {
            Some(at) => at + 1,
            None => run.trim_end_matches(char::is_alphabetic).parse().ok()?,
        };
        let after = found["after"].trim_start_matches(MARKS).trim_start();
        let after = after.strip_prefix("- ").unwrap_or(after);
        let rest = format!("{} {after}", &found["before"]);
        let rest = rest.trim_matches([' ', ',', ':']);
        let rest = rest.strip_suffix(" -").unwrap_or(rest).to_owned();
        let is_count = (1..=NUMBER_MAX).contains(&run);
        is_count.then_some((rest, u32::try_from(run).ok()))
    });
    split.unwrap_or_else(|| (line.to_owned(), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_runs_are_found_in_the_listed_forms() {
        for (line, rest, run) in [
            ("Basic test, first round", "Basic test", 1),
            ("Basic test, first round:", "Basic test", 1),
            ("Second round: arm64", "arm64", 2),
            ("Run 2", "", 2),
            ("round #3", "", 3),
            ("Run 2/3", "", 2),
            ("INFO: Run 1 of 2", "INFO", 1),
            ("arm64, run 1 of 3", "arm64", 1),
            ("arm64 (3rd run)", "arm64", 3),
            ("x86_64 - run 2 - warm", "x86_64 - warm", 2),
            ("the 21st attempt", "the", 21),
            ("-keepalive run 1", "-keepalive", 1),
            ("Run 1: -1", "-1", 1),
        ] {
            assert_eq!(split(line), (rest.to_owned(), Some(run)), "{line}");
        }
    }

    #[test]
    fn other_lines_stay_as_they_are() {
        for line in [
            "Run WRK tests from driver machine",
            "First test of many servers",
            "Test 2",
            "Second test",
            "third test (without connection to the cache)",
            "Run 2 workers",
            "Run 2 workers:",
            "Run 2.5",
            "Run 2/3 of the cores",
            "run 2 of 3 servers",
            "run 0",
            "run 99999999999",
            "#2",
            "second",
            "round",
            "",
        ] {
            assert_eq!(split(line), (line.to_owned(), None), "{line}");
        }
    }
}
