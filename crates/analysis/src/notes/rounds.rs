//! The number of a run in a line: `Basic test, second round`, `Run 2/3`.

/// Words for a repetition.
const WORDS: [&str; 7] = [
    "run",
    "round",
    "iteration",
    "attempt",
    "pass",
    "trial",
    "repetition",
];

const ORDINALS: [&str; 10] = [
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
];

/// A larger number counts something other than runs.
const NUMBER_MAX: u32 = 10_000;

/// What may surround a number and its word.
const MARKS: [char; 10] = [',', ';', ':', '-', '(', ')', '[', ']', '#', '.'];

/// A line without the number of its run, and that number: after one of the words (`run 2`, `run
/// #2`, `run 2/3`, `run 2 of 3`) at the end of the line or of a part of it, or as an ordinal before
/// the word (`second run`, `2nd run`).
pub(super) fn split(line: &str) -> (String, Option<u32>) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let plain = |at: usize| words.get(at).map(|word| word.trim_matches(MARKS));
    let is_word = |at: usize| {
        plain(at).is_some_and(|it| WORDS.iter().any(|word| word.eq_ignore_ascii_case(it)))
    };
    for at in 1..words.len() {
        let number = plain(at).unwrap_or_default();
        let total = match plain(at + 1) {
            Some("of") if plain(at + 2).is_some_and(|it| counted(it).is_some()) => 2,
            _ => 0,
        };
        let is_last = |at: usize| {
            let next = words.get(at + 1);
            words[at].ends_with(MARKS)
                || next.is_none_or(|word| plain(at + 1) == Some("") || word.starts_with(MARKS))
        };
        let (end, run) = match (is_word(at - 1), is_word(at)) {
            (_, true) => (at, ordinal(plain(at - 1).unwrap_or_default())),
            (true, false) if is_last(at + total) => (at + total, of_total(number)),
            _ => continue,
        };
        if run.is_some() {
            let dash = usize::from(plain(end + 1) == Some(""));
            let rest = [&words[..at - 1], &words[end + 1 + dash..]].concat();
            let rest = rest.join(" ");
            return (rest.trim_matches([' ', ',', ':', '-']).to_owned(), run);
        }
    }
    (line.to_owned(), None)
}

fn ordinal(word: &str) -> Option<u32> {
    let is_it = |ordinal: &&str| ordinal.eq_ignore_ascii_case(word);
    match (1..).zip(&ORDINALS).find(|(_, ordinal)| is_it(ordinal)) {
        Some((number, _)) => Some(number),
        None => ["st", "nd", "rd", "th"]
            .iter()
            .find_map(|end| counted(word.strip_suffix(end)?)),
    }
}

/// `2` or `2/3`.
fn of_total(word: &str) -> Option<u32> {
    let (number, total) = word.split_once('/').unwrap_or((word, "1"));
    counted(number).filter(|_| counted(total).is_some())
}

fn counted(text: &str) -> Option<u32> {
    let number = text
        .parse()
        .ok()
        .filter(|_| text.bytes().all(|b| b.is_ascii_digit()))?;
    (1..=NUMBER_MAX).contains(&number).then_some(number)
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
