//! Error messages that repeat only the beginning of a long input.

use std::borrow::Cow;

/// The most characters of an input that a message repeats. A screen has some thousand, and the
/// reason must be on it.
const REPEATED_MAX: usize = 200;

const CUT: &str = "...";

/// A message in which every quoted text and every word is cut after 200 characters. Commands of
/// this program, which are between backquotes, stay whole: they are copied.
#[must_use]
pub fn brief(message: &str) -> Cow<'_, str> {
    if message.len() <= REPEATED_MAX {
        return Cow::Borrowed(message);
    }
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(first) = rest.chars().next() {
        let (part, after) = rest.split_at(length_of_part(rest, first));
        match first {
            '`' if part.contains("wrkbench ") => text += part,
            '`' | '"' if part.len() > 1 && part.ends_with(first) => {
                let mark = &part[..1];
                text.extend([mark, &cut(&part[1..part.len() - 1]), mark]);
            }
            _ => text += &cut(part),
        }
        rest = after;
    }
    Cow::Owned(text)
}

/// Bytes of the quoted text or command, word or white space at the beginning.
fn length_of_part(text: &str, first: char) -> usize {
    let length = match first {
        '`' => text[1..].find('`').map(|at| at + 2),
        '"' => end_of_quoted(text),
        _ => None,
    };
    length.unwrap_or_else(|| {
        let is_space = first.is_whitespace();
        let begins_another = |c: char| c.is_whitespace() != is_space || matches!(c, '`' | '"');
        let start = first.len_utf8();
        text[start..]
            .find(begins_another)
            .map_or(text.len(), |at| start + at)
    })
}

/// The place after the closing quotation mark of a text that begins with one.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return Some(at + 1),
            _ => is_escaped = c == '\\' && !is_escaped,
        }
    }
    None
}

fn cut(text: &str) -> Cow<'_, str> {
    if text.chars().count() <= REPEATED_MAX {
        return Cow::Borrowed(text);
    }
    let beginning: String = text.chars().take(REPEATED_MAX - CUT.len()).collect();
    // Half of an escaped character.
    Cow::Owned(beginning.trim_end_matches('\\').to_owned() + CUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_input_is_cut_wherever_a_message_repeats_it() {
        let (long, cut) = ("x".repeat(5000), "x".repeat(197) + "...");
        for (message, expected) in [
            (
                format!("--connections: {long:?} is not a number (expected like 100)"),
                format!("--connections: {cut:?} is not a number (expected like 100)"),
            ),
            (
                format!("--{long}: unknown option"),
                format!("--{}... unknown option", "x".repeat(195)),
            ),
            (
                format!("{:?} and {long:?}", "a \"b\" ".repeat(2)),
                format!("{:?} and {cut:?}", "a \"b\" ".repeat(2)),
            ),
            (
                format!("unknown field `{long}`, expected one of `method`, `url`"),
                format!("unknown field `{cut}`, expected one of `method`, `url`"),
            ),
            // An umlaut has two bytes.
            ("ä".repeat(201), "ä".repeat(197) + "..."),
        ] {
            assert_eq!(brief(&message), expected);
        }
        let spaces = format!("{:?}", "a b\n".repeat(1000));
        assert_eq!(brief(&spaces).chars().count(), 202);
    }

    #[test]
    fn what_is_short_or_to_be_copied_stays_whole() {
        let command = format!(
            "run `wrkbench restore --journal /{}` first",
            "x".repeat(5000)
        );
        let words = "a sentence of many words ".repeat(100);
        let unbalanced = format!("a \" and \"b and a ` and `c {}", "x y ".repeat(100));
        let exact = "x".repeat(200);
        for message in [&command, &words, &unbalanced, &exact] {
            assert_eq!(brief(message), *message);
        }
    }
}
