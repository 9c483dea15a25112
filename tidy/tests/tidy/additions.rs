//! The rows of "How to add something" in ARCHITECTURE.md: each names the files that an example of
//! its kind touches.

use crate::paths;
use std::path::Path;

/// The beginning of a row, and a word that every source file has which the last such addition
/// touched.
pub(crate) const EXAMPLES: [(&str, &str); 4] = [
    ("- **A protocol**", "Protocol::Http2"),
    ("- **An event backend**", "BackendChoice::Epoll"),
    ("- **An error kind**", "GoawayUnprocessed"),
    ("- **An output format**", "ExportFormat::Html"),
];

/// The paths that a row names. Rows are list items, which may have several lines.
pub(crate) fn row(markdown: &str, beginning: &str) -> Vec<String> {
    let after = markdown.split_once(beginning).map(|(_, rest)| rest);
    let text = after.and_then(|rest| rest.split("\n- ").next());
    paths::named(text.unwrap_or_default())
}

/// The sources with the word that the row does not name, each with a reason. `sources` are pairs of
/// a path and a text.
pub(crate) fn missing(
    named: &[String],
    word: &str,
    sources: &[(impl AsRef<Path>, impl AsRef<str>)],
) -> Vec<String> {
    let with_word = sources
        .iter()
        .filter(|(_, text)| text.as_ref().contains(word));
    let paths = with_word.map(|(path, _)| path.as_ref());
    let unnamed = paths.filter(|path| !named.iter().any(|named| path.starts_with(named)));
    unnamed
        .map(|path| format!("{} has `{word}`, but no path in the row", path.display()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "text\n- **A thing**: a file in `crates/a/src/`,\n  `crates/b/src/lib.rs`.\n\
        - **Another**: `crates/c/src/lib.rs`.\n";

    #[test]
    fn a_row_names_files_and_folders() {
        let named = row(ROWS, "- **A thing**");
        assert_eq!(named, ["crates/a/src/", "crates/b/src/lib.rs"]);
        assert_eq!(row(ROWS, "- **Nothing**"), [""; 0]);
    }

    #[test]
    fn a_file_that_no_row_names_is_found() {
        let named = row(ROWS, "- **A thing**");
        let sources = [
            ("crates/a/src/thing.rs", "Thing"),
            ("crates/b/src/lib.rs", "Thing"),
            ("crates/b/src/other.rs", "no"),
        ];
        assert_eq!(missing(&named, "Thing", &sources), [""; 0]);
        let sources = [("crates/b/src/other.rs", "a Thing")];
        assert_eq!(missing(&named, "Thing", &sources).len(), 1);
    }
}
