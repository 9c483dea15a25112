//! Lines without what terminals, quotes in Markdown and `docker logs --timestamps` add to them.
//!
//! Other prefixes of lines are not removed: what a logger writes before a line looks like the name
//! of a variant that a script writes there.

use std::sync::LazyLock;

use regex_lite::Regex;

use super::lines::regex;

/// What a terminal does not show: control sequences (ECMA-48: `ESC [ ... letter`, `ESC ] ... BEL`,
/// `ESC` with one character), and byte order marks, which are within a text that is made of several
/// files.
static CONTROL: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\x1b\[[^@-~]*.?|\x1b\][^\x07\\]*.?|\x1b[()]?.?|\u{feff}"));

/// Marks of quotes, and `12:00:00`, `2024-05-01T12:00:00.123Z` or `[2024/05/01 12:00:00,123]`.
static PREFIX: LazyLock<Regex> = LazyLock::new(|| {
    let time = r"(\d+[/.-]\d+[/.-]\d+[T ])?\d\d:\d\d:\d\d[\d.,:+Z-]*";
    regex(&format!(r"^(>+ |>+$)*(\s*[\[(]?{time}[\])]? )?"))
});

/// A text without control sequences, and without `> ` and times at the start of lines. Every line
/// is in its place.
pub(super) fn cleaned(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let line = CONTROL.replace_all(line, "");
        let line = line.trim_end_matches('\r');
        // What was written last is seen.
        let seen = line.rsplit('\r').next().unwrap_or(line);
        PREFIX.replace(&corrected(seen), "").into_owned()
    });
    lines.collect::<Vec<String>>().join("\n")
}

/// A line in which each backspace took the character before it away.
fn corrected(line: &str) -> String {
    let mut corrected = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '\u{8}' => drop(corrected.pop()),
            c => corrected.push(c),
        }
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_lines_stay_as_they_are() {
        for line in [
            "see: Running 30s test @ http://h/",
            ">x",
            "100.000%    6.82ms",
            "       0.067     0.000000            1         1.00",
            "12:00 noon",
            "2024-05-01: the first try",
            "2024-05-01T12:00:00Z,5,6",
            "19.000000,17090.000000,990.120000",
            "ratio 1:2:3",
            "[x86_64] ",
            "",
        ] {
            assert_eq!(cleaned(line), line);
        }
    }

    #[test]
    fn times_at_the_start_of_lines_are_stripped() {
        for time in [
            "12:00:00 ",
            "2024-05-01T12:00:00.123Z ",
            "2024-05-01 12:00:00,123 ",
            "[2024/05/01 12:00:00] ",
            "(12:00:00.5) ",
        ] {
            assert_eq!(cleaned(&format!("{time}Run 1")), "Run 1", "{time}");
        }
    }

    #[test]
    fn marks_of_quotes_are_stripped() {
        for mark in ["> ", ">> ", "> > "] {
            assert_eq!(cleaned(&format!("{mark}  Run 1\n>\n")), "  Run 1\n\n");
        }
    }

    #[test]
    fn colours_titles_and_overwritten_progress_are_stripped() {
        assert_eq!(
            cleaned("\u{1b}[1;32mRunning\u{1b}[0m\u{1b}]0;title\u{7} 30s\u{1b}(B\r\n"),
            "Running 30s\n"
        );
        assert_eq!(
            cleaned("10 %\r50 %\rRequests/sec: 1.00\r\n"),
            "Requests/sec: 1.00\n"
        );
        assert_eq!(
            cleaned("-R1000\u{8}\u{1b}[K\u{8} \u{8}\u{8}\u{8}2000\n\u{8}a\u{feff}b"),
            "-R2000\nab"
        );
    }
}
