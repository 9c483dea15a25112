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

/// Words that number other things just as often, so they count only as a whole title: `Test 2`.
const WHOLE_TITLE_ONLY: [&str; 1] = ["test"];

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
    for at in 0..words.len() {
        let is_whole = words.len() <= 2;
        let word = |offset: usize| words.get(at + offset).map(|(word, _)| word.as_str());
        let is_round =
            |word: &str| ROUNDS.contains(&word) || is_whole && WHOLE_TITLE_ONLY.contains(&word);
        let round = match (word(0), word(1)) {
            (Some(ordinal), Some(round)) if is_round(round) => self::ordinal(ordinal),
            _ => None,
        };
        let round = round.or_else(|| match (word(0), word(1)) {
            (Some(round), Some(number)) if is_round(round) => self::number(number),
            _ => None,
        });
        if let Some(round) = round {
            let (_, first) = &words[at];
            let (_, last) = &words[at + 1];
            return (without(title, first.start..last.end), Some(round));
        }
    }
    (title.to_owned(), None)
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
            ("Test 4", "", 4),
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
            "Test 2 of the new kernel",
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
