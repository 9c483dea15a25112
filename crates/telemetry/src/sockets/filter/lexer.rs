//! Splits a filter into tokens.

/// A token and its column, in characters from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) column: usize,
}

/// Symbols that need no blanks around them; longer ones first. ss requires blanks, but without them
/// the meaning is the same.
const SYMBOLS: [&str; 14] = [
    "!=", "==", "<=", ">=", "||", "&&", "(", ")", "!", "=", "<", ">", "|", "&",
];

/// The tokens of a text.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut words = Vec::new();
    let mut rest = text;
    let mut column = 1;
    while let Some(first) = rest.chars().next() {
        let length = length(rest);
        let (word, behind) = rest.split_at(length);
        if !first.is_whitespace() {
            words.push(Token { text: word, column });
        }
        column += word.chars().count();
        rest = behind;
    }
    words
}

/// Length in bytes of the blank, symbol or word at the start of the text; above zero unless the
/// text is empty.
fn length(text: &str) -> usize {
    if let Some(symbol) = symbol(text) {
        return symbol.len();
    }
    let mut letters = text.char_indices();
    match letters.next() {
        Some((_, first)) if first.is_whitespace() => first.len_utf8(),
        _ => letters
            .find(|(at, letter)| {
                letter.is_whitespace() || text.get(*at..).is_some_and(|rest| symbol(rest).is_some())
            })
            .map_or(text.len(), |(at, _)| at),
    }
}

fn symbol(text: &str) -> Option<&'static str> {
    SYMBOLS.into_iter().find(|symbol| text.starts_with(symbol))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_tokens_with_and_without_blanks() {
        let of = |text| -> Vec<_> { tokens(text).into_iter().map(|word| word.text).collect() };
        let expected = [
            "(",
            "sport",
            "!=",
            ":80",
            ")",
            "||",
            "!",
            "dst",
            "[::1]:443",
        ];
        assert_eq!(of("( sport != :80 ) || ! dst [::1]:443"), expected);
        assert_eq!(of("(sport!=:80)||!dst [::1]:443"), expected);
        assert_eq!(of(" \t\n"), [""; 0]);
        assert_eq!(of(""), [""; 0]);
    }

    #[test]
    fn a_column_counts_characters() {
        let columns: Vec<_> = tokens("ä\u{3000}öü(x")
            .into_iter()
            .map(|word| word.column)
            .collect();
        assert_eq!(columns, [1, 3, 5, 6]);
    }
}
