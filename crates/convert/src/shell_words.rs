//! The words of shell commands: quotes, escapes and line continuations as in a POSIX shell and
//! in bash. Nothing is expanded or run.

use std::fmt;

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The text of the word without its quotes.
    pub text: String,
    /// Where the word begins in the command.
    pub position: CommandPosition,
}

/// Where something is in a command, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandPosition {
    /// In a text; both count from 1, columns in characters.
    Text {
        /// Number of the line, from 1.
        line: usize,
        /// Number of the column, from 1.
        column: usize,
    },
    /// An argument of the program; counts from 1.
    Argument(usize),
}

impl fmt::Display for CommandPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { line: 1, column } => write!(f, "column {column}"),
            Self::Text { line, column } => write!(f, "line {line}, column {column}"),
            Self::Argument(number) => write!(f, "argument {number}"),
        }
    }
}

/// Why a text cannot be split into the words of commands; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{position}: {message}")]
pub struct ShellError {
    /// Where in the text the problem is.
    pub position: CommandPosition,
    /// What is wrong, and what is expected.
    pub message: String,
}

/// Splits the text of commands into their words. Commands end with their line, or with `;`, `&` or
/// `&&` before a blank or the end of the line. With them comes what follows, such as a pipe or a
/// redirection of the output, which is not read.
///
/// # Errors
/// If a quote is not closed, or the text needs a shell, as for variables.
pub fn split(text: &str) -> Result<(Vec<Vec<Word>>, Option<String>), ShellError> {
    let mut scanner = Scanner {
        rest: text,
        line: 1,
        column: 1,
    };
    let mut commands: Vec<Vec<Word>> = Vec::new();
    let mut words: Vec<Word> = Vec::new();
    let ended = |mut commands: Vec<Vec<Word>>, words: Vec<Word>| {
        commands.extend((!words.is_empty()).then_some(words));
        commands
    };
    loop {
        scanner.skip_blanks();
        let position = scanner.position();
        match scanner.peek() {
            None => return Ok((ended(commands, words), None)),
            Some('\n') => {
                scanner.next();
                commands = ended(commands, std::mem::take(&mut words));
            }
            Some('#') => scanner.skip_comment(),
            Some('|' | '>') => {
                let rest = scanner.rest.trim_end().to_owned();
                return Ok((ended(commands, words), Some(rest)));
            }
            Some(_) if scanner.take_separator() => {
                commands = ended(commands, std::mem::take(&mut words));
            }
            Some(_) => {
                let text = scanner.word()?;
                // `2>file`: the number of a descriptor.
                let is_descriptor = text == "1" || text == "2";
                if is_descriptor && scanner.peek() == Some('>') {
                    let after = format!("{text}{}", scanner.rest.trim_end());
                    return Ok((ended(commands, words), Some(after)));
                }
                words.push(Word { text, position });
            }
        }
    }
}

/// Reads characters and counts lines and columns.
struct Scanner<'a> {
    rest: &'a str,
    line: usize,
    column: usize,
}

impl Scanner<'_> {
    fn position(&self) -> CommandPosition {
        CommandPosition::Text {
            line: self.line,
            column: self.column,
        }
    }

    fn error(&self, position: CommandPosition, message: impl Into<String>) -> ShellError {
        ShellError {
            position,
            message: message.into(),
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.rest = &self.rest[next.len_utf8()..];
        if next == '\n' {
            (self.line, self.column) = (self.line + 1, 1);
        } else {
            self.column += 1;
        }
        Some(next)
    }

    /// Takes this text if it is next.
    fn take(&mut self, text: &str) -> bool {
        let is_next = self.rest.starts_with(text);
        if is_next {
            text.chars().for_each(|_| {
                self.next();
            });
        }
        is_next
    }

    /// Skips a backslash and the line break after it.
    fn take_continuation(&mut self) -> bool {
        self.take("\\\r\n") || self.take("\\\n")
    }

    fn skip_blanks(&mut self) {
        while self.take_continuation() || matches!(self.peek(), Some(' ' | '\t' | '\r')) {
            if matches!(self.peek(), Some(' ' | '\t' | '\r')) {
                self.next();
            }
        }
    }

    /// The length of a separator of commands that is next; 0 if there is none.
    fn separator(&self) -> usize {
        let length = ["&&", ";", "&"]
            .into_iter()
            .find(|it| self.rest.starts_with(it));
        let length = length.map_or(0, str::len);
        let ends = self.rest[length..]
            .chars()
            .next()
            .is_none_or(char::is_whitespace);
        if ends { length } else { 0 }
    }

    fn take_separator(&mut self) -> bool {
        let length = self.separator();
        for _ in 0..length {
            self.next();
        }
        length > 0
    }

    fn skip_comment(&mut self) {
        while self.peek().is_some_and(|next| next != '\n') {
            self.next();
        }
    }

    /// Reads a word up to the blank, operator or end behind it.
    fn word(&mut self) -> Result<String, ShellError> {
        let mut word = String::new();
        while let Some(next) = self.peek() {
            let position = self.position();
            if self.take_continuation() {
                continue;
            }
            match next {
                ' ' | '\t' | '\r' | '\n' | '|' | '>' => break,
                ';' | '&' if self.separator() > 0 => break,
                '\'' => self.single_quoted(&mut word)?,
                '"' => self.double_quoted(&mut word)?,
                '\\' => {
                    self.next();
                    word.extend(self.next());
                }
                '^' if self.rest.starts_with("^\"") => {
                    return Err(self.error(
                        position,
                        "^\" is the quote of the Windows command prompt (in the browser choose \
                         \"Copy as cURL (bash)\")",
                    ));
                }
                '$' if self.take("$'") => self.escaped(position, &mut word)?,
                '$' if self.take("$\"") => self.rest_of_double_quoted(position, &mut word)?,
                '$' => self.dollar(&mut word)?,
                '&' | ';' | '<' | '(' | ')' | '`' => {
                    return Err(self.error(
                        position,
                        format!(
                            "{next} outside of quotes is not part of the command for a shell \
                             (put the text that has it into single quotes)"
                        ),
                    ));
                }
                _ => word.extend(self.next()),
            }
        }
        Ok(word)
    }

    /// A `$` that is not the beginning of a quote: a variable, or itself.
    fn dollar(&mut self, word: &mut String) -> Result<(), ShellError> {
        let position = self.position();
        word.extend(self.next());
        let begins_name = |c: char| c.is_ascii_alphanumeric() || "_{(@*#?$!-".contains(c);
        if !self.peek().is_some_and(begins_name) {
            return Ok(());
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let inner = self.rest.trim_start_matches(['{', '(']);
        let name: String = inner.chars().take_while(|c| is_name(*c)).collect();
        Err(self.error(
            position,
            format!(
                "${name} would be replaced by a shell (write its value, or leave out the quotes \
                 around the whole command)"
            ),
        ))
    }

    fn single_quoted(&mut self, word: &mut String) -> Result<(), ShellError> {
        let position = self.position();
        self.next();
        loop {
            match self.next() {
                None => return Err(self.error(position, "the quote ' is not closed")),
                Some('\'') => return Ok(()),
                Some(other) => word.push(other),
            }
        }
    }

    fn double_quoted(&mut self, word: &mut String) -> Result<(), ShellError> {
        let position = self.position();
        self.next();
        self.rest_of_double_quoted(position, word)
    }

    fn rest_of_double_quoted(
        &mut self,
        position: CommandPosition,
        word: &mut String,
    ) -> Result<(), ShellError> {
        loop {
            if self.take_continuation() {
                continue;
            }
            match self.peek() {
                None => return Err(self.error(position, "the quote \" is not closed")),
                Some('"') => {
                    self.next();
                    return Ok(());
                }
                Some('$') => self.dollar(word)?,
                Some('`') => {
                    let position = self.position();
                    return Err(self.error(position, "` would be replaced by a shell"));
                }
                Some('\\') => {
                    self.next();
                    match self.next() {
                        Some(it @ ('$' | '`' | '"' | '\\')) => word.push(it),
                        Some(other) => word.extend(['\\', other]),
                        None => word.push('\\'),
                    }
                }
                Some(other) => {
                    self.next();
                    word.push(other);
                }
            }
        }
    }

    /// The rest of `$'...'`, in which backslashes have the meanings of ANSI C (bash(1), QUOTING).
    fn escaped(&mut self, position: CommandPosition, word: &mut String) -> Result<(), ShellError> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 4];
        loop {
            match self.next() {
                None => return Err(self.error(position, "the quote $' is not closed")),
                Some('\'') => break,
                Some('\\') => self.escape(position, &mut bytes)?,
                Some(other) => bytes.extend(other.encode_utf8(&mut buffer).bytes()),
            }
        }
        let text = String::from_utf8(bytes).map_err(|_| {
            self.error(
                position,
                "these bytes are not UTF-8 (put them into a file, for --data-binary @FILE)",
            )
        })?;
        word.push_str(&text);
        Ok(())
    }

    fn escape(&mut self, position: CommandPosition, bytes: &mut Vec<u8>) -> Result<(), ShellError> {
        let Some(letter) = self.next() else {
            return Err(self.error(position, "the quote $' is not closed"));
        };
        let mut buffer = [0; 4];
        match letter {
            'a' => bytes.push(0x07),
            'b' => bytes.push(0x08),
            'e' | 'E' => bytes.push(0x1b),
            'f' => bytes.push(0x0c),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'v' => bytes.push(0x0b),
            '\\' | '\'' | '"' | '?' => bytes.push(letter as u8),
            '0'..='7' => {
                let first = letter.to_digit(8).unwrap_or_default();
                let (value, _) = self.digits(8, 2, first);
                bytes.push(value as u8);
            }
            'x' | 'u' | 'U' => {
                let most = match letter {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let here = self.position();
                let (value, count) = self.digits(16, most, 0);
                match (letter, count, char::from_u32(value)) {
                    (_, 0, _) => bytes.extend([b'\\', letter as u8]),
                    ('x', ..) => bytes.push(value as u8),
                    (_, _, Some(c)) => bytes.extend(c.encode_utf8(&mut buffer).bytes()),
                    (_, _, None) => {
                        let message = format!("\\{letter}{value:x} is no character");
                        return Err(self.error(here, message));
                    }
                }
            }
            'c' => {
                let control = self.next().filter(char::is_ascii);
                bytes.extend(control.map(|c| c.to_ascii_uppercase() as u8 & 0x1f));
            }
            other => {
                bytes.push(b'\\');
                bytes.extend(other.encode_utf8(&mut buffer).bytes());
            }
        }
        Ok(())
    }

    /// Up to `most` digits added to a number, and how many there were.
    fn digits(&mut self, radix: u32, most: usize, first: u32) -> (u32, usize) {
        let mut value = first;
        for count in 0..most {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(radix)) else {
                return (value, count);
            };
            value = value.wrapping_mul(radix) | digit;
            self.next();
        }
        (value, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let [words] = &commands(text)[..] else {
            panic!("{text}: not one command")
        };
        words.clone()
    }

    fn commands(text: &str) -> Vec<Vec<String>> {
        let (commands, _) = split(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let texts = |words: Vec<Word>| words.into_iter().map(|word| word.text).collect();
        commands.into_iter().map(texts).collect()
    }

    fn error(text: &str) -> String {
        split(text).expect_err(text).to_string()
    }

    #[test]
    fn words_are_those_of_a_shell() {
        for (text, expected) in [
            ("a  b\tc", vec!["a", "b", "c"]),
            ("a 'b c'd\"e f\"", vec!["a", "b cde f"]),
            ("a '' \"\"", vec!["a", "", ""]),
            ("a\\ b \\'c", vec!["a b", "'c"]),
            ("a 'it'\\''s'", vec!["a", "it's"]),
            ("\"a\\\"b\\\\c\\d\\$e\"", vec!["a\"b\\c\\d$e"]),
            ("a \\\n  b \\\r\n c\n\n", vec!["a", "b", "c"]),
            ("a\\\nb", vec!["ab"]),
            ("\n # comment\na b # rest", vec!["a", "b"]),
            ("a'#'b a#b", vec!["a#b", "a#b"]),
            (
                "$'a\\n\\'\\x41\\u00e4\\101\\t\\\\'b",
                vec!["a\n'A\u{e4}A\t\\b"],
            ),
            ("$'\\xc3\\xa4'", vec!["\u{e4}"]),
            ("$ curl a$ 'a$b'", vec!["$", "curl", "a$", "a$b"]),
            ("'a\nb' c", vec!["a\nb", "c"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn a_shell_splits_a_quoted_command_into_the_same_words() {
        let typed = ["a b", "it's", "", "\\", "\"$HOME\"", "a\nb", "\u{e4}|>&;#"];
        let typed = typed.map(str::to_owned);
        assert_eq!(words(&plan::shell::command(&typed)), typed);
    }

    #[test]
    fn commands_end_with_their_line_or_with_a_separator_before_a_blank() {
        for text in [
            "a b\nc",
            "a b ;\nc",
            "a b; c",
            "a b & c &",
            "a b&& c",
            "a b ;\n\n; c # ;",
            "a \\\n b;\r\nc\r\n",
        ] {
            assert_eq!(commands(text), [vec!["a", "b"], vec!["c"]], "{text}");
        }
        assert_eq!(commands("a 'b; c\n& d'"), [["a", "b; c\n& d"]]);
        assert_eq!(commands(" ;\n"), [[""; 0]; 0]);
    }

    #[test]
    fn what_follows_the_command_is_handed_back() {
        let rest = |text: &str| split(text).expect(text).1;
        assert_eq!(rest("a b | jq .x\n"), Some("| jq .x".to_owned()));
        assert_eq!(rest("a b>/dev/null"), Some(">/dev/null".to_owned()));
        assert_eq!(rest("a b 2>&1"), Some("2>&1".to_owned()));
        assert_eq!(rest("a '|' b2 2"), None);
        assert_eq!(words("a b 2>/dev/null"), ["a", "b"]);
    }

    #[test]
    fn what_only_a_shell_can_read_is_refused_with_its_place() {
        for (text, expected) in [
            ("a 'b", "column 3: the quote ' is not closed"),
            ("a \\\n \"b", "line 2, column 2: the quote \" is not closed"),
            ("a $'b\\", "column 3: the quote $' is not closed"),
            ("a b=1&c=2", "column 6: & outside of quotes"),
            ("a \"x $TOKEN\"", "column 6: $TOKEN would be replaced"),
            ("a ${TOKEN}", "column 3: $TOKEN would be replaced"),
            ("a \"`id`\"", "column 4: ` would be replaced"),
            ("a;b", "column 2: ; outside of quotes"),
            ("a ^\"b^\"", "column 3: ^\" is the quote of the Windows"),
            ("\u{e4}\u{e4} 'b", "column 4: the quote ' is not closed"),
            ("$'\\xff'", "column 1: these bytes are not UTF-8"),
            ("$'\\ud800'", "column 5: \\ud800 is no character"),
        ] {
            let said = error(text);
            assert!(said.starts_with(expected), "{text}: {said}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_words_survive_quoting_and_splitting(
            typed in proptest::collection::vec("[^\0]{0,12}", 1..6)
        ) {
            proptest::prop_assert_eq!(words(&plan::shell::command(&typed)), typed);
        }

        #[test]
        fn any_text_is_split_or_refused_in_one_line(
            text in "[a-z'\"\\\\$^&|>{}#xu0-9 \n]{0,40}|\\PC{0,40}"
        ) {
            if let Err(error) = split(&text) {
                proptest::prop_assert_eq!(error.to_string().lines().count(), 1);
            }
        }
    }
}
