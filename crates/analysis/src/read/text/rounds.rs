//! The round that a heading names: `Basic test, second round`, `Run 2`.

use std::ops::Range;

/// Words for a repetition.
const ROUNDS: [&str; 9] = [
    "round",
    "run",
    "pass",
    "attempt",
    "trial",
    "iteration",
    "repetition",
    "repeat",
    "try",
];

const ORDINALS: [&str; 12] = [
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "eleventh", "twelfth",
];

const NUMBERS: [&str; 12] = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
];

/// A larger number counts something other than rounds.
const ROUND_MAX: u32 = 10_000;

/// What separates a round from the rest of its title.
const SEPARATORS: [char; 11] = [' ', '\t', ',', ';', ':', '-', '–', '—', '(', ')', '/'];

/// A title without its round, and the round.
pub(super) fn split(title: &str) -> (String, Option<u32>) {
    let words = words(title);
    for pair in words.windows(2) {
        let [(first, place), (second, end)] = pair else {
            continue;
        };
        let is_round = |word: &str| ROUNDS.contains(&word);
        let round = match (is_round(first), is_round(second)) {
            (_, true) => ordinal(first),
            // `Run 2 workers` numbers something else.
            (true, false) if ends_phrase(&title[end.end..]) => number(second),
            _ => None,
        };
        let end = end.end + length_of_total(&title[end.end..]);
        if let Some(round) = round {
            return (without(title, place.start..end), Some(round));
        }
    }
    (title.to_owned(), None)
}

/// Whether nothing that belongs to the words before follows.
fn ends_phrase(rest: &str) -> bool {
    const MARKS: [char; 10] = [',', ';', ':', '-', '–', '—', '(', ')', '/', '.'];
    let next = rest.trim_start();
    let is_decimal = next.starts_with('.') && next[1..].starts_with(|c: char| c.is_ascii_digit());
    next.is_empty() || next.starts_with(MARKS) && !is_decimal || length_of_total(rest) > 0
}

/// The length of ` of 3` or `/3` at the start of a text, otherwise 0.
fn length_of_total(rest: &str) -> usize {
    let total = rest.trim_start();
    let number = total
        .strip_prefix("of ")
        .or_else(|| total.strip_prefix('/'));
    let after = number.map(|number| number.trim_start_matches(|c: char| c.is_ascii_digit()));
    match (number, after) {
        (Some(number), Some(after)) if after.len() < number.len() => rest.len() - after.len(),
        _ => 0,
    }
}

/// Words in lower case with their places, without the marks `#` and `no.` of numbers.
fn words(title: &str) -> Vec<(String, Range<usize>)> {
    let mut words = Vec::new();
    let mut start = None;
    let ends = title.char_indices().chain([(title.len(), ' ')]);
    for (at, c) in ends {
        let is_part = c.is_alphanumeric() || c == '_';
        match (is_part, start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                let word = title[from..at].to_ascii_lowercase();
                if word != "no" {
                    words.push((word, from..at));
                }
                start = None;
            }
            _ => {}
        }
    }
    words
}

fn ordinal(word: &str) -> Option<u32> {
    let place = ORDINALS.iter().position(|ordinal| *ordinal == word);
    let of_digits = || {
        let end = ["st", "nd", "rd", "th"];
        end.iter().find_map(|end| digits(word.strip_suffix(end)?))
    };
    place
        .and_then(|place| u32::try_from(place + 1).ok())
        .or_else(of_digits)
}

fn number(word: &str) -> Option<u32> {
    let place = NUMBERS.iter().position(|number| *number == word);
    place
        .and_then(|place| u32::try_from(place + 1).ok())
        .or_else(|| digits(word))
}

fn digits(text: &str) -> Option<u32> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number)?;
    (1..=ROUND_MAX).contains(&number).then_some(number)
}

/// The rest of a title, with its two parts joined.
fn without(title: &str, range: Range<usize>) -> String {
    let is_mark = |c: char| SEPARATORS.contains(&c) || c == '#' || c == '.';
    let before = title[..range.start].trim_end_matches(is_mark);
    let after = title[range.end..].trim_start_matches(is_mark);
    let after = after.trim_end_matches([' ', ':', ')']);
    match (before.is_empty(), after.is_empty()) {
        (_, true) => before.trim_start().to_owned(),
        (true, false) => after.to_owned(),
        (false, false) => format!("{}, {after}", before.trim_start()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_found_in_titles_in_words_and_numbers() {
        for (title, rest, round) in [
            ("Basic test, first round", "Basic test", 1),
            ("Second round: arm64", "arm64", 2),
            ("Run 2", "", 2),
            ("round #3", "", 3),
            ("Run no. 12", "", 12),
            ("Run 2/3", "", 2),
            ("arm64, run 1 of 3", "arm64", 1),
            ("arm64 (3rd run)", "arm64", 3),
            ("x86_64 - run 2 - warm", "x86_64, warm", 2),
            ("ROUND TWO", "", 2),
            ("the 21st attempt", "the", 21),
        ] {
            assert_eq!(split(title), (rest.to_owned(), Some(round)), "{title}");
        }
    }

    #[test]
    fn other_titles_stay_as_they_are() {
        for title in [
            "Run WRK tests from driver machine",
            "First test of many servers",
            "Test 2",
            "Second test",
            "third test (without connection to the cache)",
            "Run 2 workers",
            "Run 2.5",
            "run 0",
            "run 99999999999",
            "second",
            "round",
            "trial by fire",
            "",
        ] {
            assert_eq!(split(title), (title.to_owned(), None), "{title}");
        }
    }
}
