//! Text from outside as it may be shown: what could control a terminal, or show other text than
//! there is, is replaced.

use std::borrow::Cow;

/// Whether a character may be shown as it is. Not among these are control characters (C0, DEL and
/// C1), the separators of lines and paragraphs, and the marks that change the direction of text,
/// with which a text can look like another one (Unicode's property `Bidi_Control`; CVE-2021-42574).
#[must_use]
pub fn is_printable(c: char) -> bool {
    let changes_direction = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    !c.is_control() && !changes_direction && !matches!(c, '\u{2028}' | '\u{2029}')
}

/// A text on one line: white space that is not printable becomes a space, and everything else that
/// is not becomes `?`.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.chars().map(shown).collect())
    }
}

/// The same of a text of several lines: line feeds and tabs stay.
#[must_use]
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    let stays = |c: char| is_printable(c) || matches!(c, '\n' | '\t');
    if text.chars().all(stays) {
        Cow::Borrowed(text)
    } else {
        let text = text.replace("\r\n", "\n");
        let shown = |c: char| if stays(c) { c } else { shown(c) };
        Cow::Owned(text.chars().map(shown).collect())
    }
}

/// The text of a JSON document in which strings have escapes in place of what is not printable, so
/// that it means the same.
#[must_use]
pub fn printable_json(text: &str) -> Cow<'_, str> {
    // Only white space between values, which strings cannot contain.
    let stays = |c: char| is_printable(c) || c == '\n';
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if stays(c) {
            escaped.push(c);
        } else {
            // None of them is beyond the basic plane.
            escaped += &format!("\\u{:04x}", u32::from(c));
        }
    }
    Cow::Owned(escaped)
}

fn shown(c: char) -> char {
    match c {
        c if is_printable(c) => c,
        c if c.is_whitespace() => ' ',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_controls_a_terminal_or_the_direction_of_text_is_left() {
        let hostile = "\u{1b}[2J\u{9b}31m\u{7}\u{7f}\u{0}a\u{202e}b\u{2066}c\u{200f}d\u{61c}e";
        assert_eq!(printable(hostile), "?[2J?31m???a?b?c?d?e");
        assert_eq!(
            printable("a\nb\r\nc\td\u{85}e\u{2028}f\u{2029}g"),
            "a b  c d e f g"
        );
        for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            let text = c.to_string();
            let shown = printable(&text);
            assert!(shown.chars().all(is_printable), "{c:?}");
            assert_eq!(shown == text, is_printable(c), "{c:?}");
        }
    }

    #[test]
    fn text_of_any_language_stays_as_it_is() {
        for text in [
            "",
            "a b",
            "grün",
            "שלום",
            "日本語",
            "e\u{301}",
            "👩\u{200d}💻",
        ] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn a_document_of_json_means_the_same() {
        let text = "{\n  \"a\u{202e}\": \"b\u{9b}\u{2028}c\"\n}";
        let shown = printable_json(text);
        assert_eq!(shown, "{\n  \"a\\u202e\": \"b\\u009b\\u2028c\"\n}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&shown), value(text));
        assert!(matches!(printable_json("{\"ä\":1}\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn lines_and_tabs_stay_in_a_text_of_several_lines() {
        let text = "a\tb\nc\n";
        assert!(matches!(printable_lines(text), Cow::Borrowed(same) if same == text));
        assert_eq!(printable_lines("a\r\nb\rc\u{1b}\u{202e}"), "a\nb c??");
    }
}
