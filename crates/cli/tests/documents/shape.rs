//! Compares the output in a document with the actual one.

/// The first expected line that is missing, in order. There may be other lines between: notes of a
/// busy machine. A line `...` means any lines.
pub(crate) fn missing(expected: &[String], printed: &str, is_exact: bool) -> Option<String> {
    let shape = |line: &str| {
        if is_exact {
            line.trim_end().to_owned()
        } else {
            masked(line)
        }
    };
    let mut rest = printed.lines();
    for line in expected {
        let wanted = shape(line);
        if wanted.is_empty() || line.trim() == "..." {
            continue;
        }
        if !rest.by_ref().any(|actual| shape(actual) == wanted) {
            return Some(line.clone());
        }
    }
    None
}

/// The line with `#` for each number with its unit, and one space for several.
fn masked(line: &str) -> String {
    let mut masked = String::new();
    let mut characters = line.trim_end().chars().peekable();
    while let Some(character) = characters.next() {
        let begins_word = !masked
            .chars()
            .last()
            .is_some_and(|last| last.is_alphanumeric() || last == '_');
        if character.is_ascii_digit() && begins_word {
            while characters
                .next_if(|next| next.is_ascii_alphanumeric() || *next == '.')
                .is_some()
            {}
            // A sign belongs to its number.
            if masked.ends_with(['+', '-']) && !masked.ends_with("+/-") {
                masked.pop();
            }
            masked.push('#');
        } else if character == ' ' {
            if !masked.ends_with(' ') {
                masked.push(' ');
            }
        } else {
            masked.push(character);
        }
    }
    masked.replace(" %", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn numbers_may_differ_and_words_may_not() {
        let printed = "note\n  Latency     2.16ms    2.06us\nend at 3 p99\n";
        assert_eq!(
            missing(
                &lines("  Latency 10ms 1.5s\n...\nend at 7 p99"),
                printed,
                false
            ),
            None
        );
        assert!(missing(&lines("  Latencies 10ms 1.5s"), printed, false).is_some());
        assert!(missing(&lines("end at 3 p50"), printed, false).is_some());
        assert!(missing(&lines("end at 3 p99\nnote"), printed, false).is_some());
    }

    #[test]
    fn exact_lines_are_exact() {
        assert_eq!(missing(&lines("a  1.50"), "a  1.50\n", true), None);
        assert!(missing(&lines("a  1.50"), "a  1.51\n", true).is_some());
    }
}
