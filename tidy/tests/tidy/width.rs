//! The width of comments and string literals, which rustfmt leaves alone.

use std::path::Path;

/// The most columns of a line.
const COLUMNS_MAX: usize = 100;

/// The comments and string literals of a file that are too wide, by line.
pub(crate) fn findings(path: &Path, text: &str) -> Vec<String> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| line.chars().count() > COLUMNS_MAX && has_prose(path, line))
        .map(|(number, line)| format!("line {}: {} columns", number + 1, line.chars().count()))
        .collect()
}

/// Whether a line is a comment or contains a string literal. rustfmt wraps other lines, and a table
/// of TOML has to be one line.
fn has_prose(path: &Path, line: &str) -> bool {
    let begin = line.trim_start();
    let is_comment = begin.starts_with("//") || begin.starts_with('#');
    is_comment || (line.contains('"') && path.extension().is_some_and(|kind| kind != "toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, line: &str) -> usize {
        findings(Path::new(path), line).len()
    }

    #[test]
    fn wide_comments_and_texts_are_found_and_wide_code_is_not() {
        let wide = "x".repeat(COLUMNS_MAX);
        for line in [
            format!("    // {wide}"),
            format!("# {wide}"),
            format!("\"{wide}\""),
        ] {
            assert_eq!(found("tidy/a.rs", &line), 1, "{line}");
        }
        assert_eq!(found("tidy/a.toml", &format!("# {wide}")), 1);
        assert_eq!(
            found("tidy/a.toml", &format!("a = {{ b = \"{wide}\" }}")),
            0
        );
        assert_eq!(found("tidy/a.rs", &format!("{wide}x")), 0);
        assert_eq!(found("tidy/a.rs", &format!("//{}", &wide[2..])), 0);
        assert_eq!(found("tidy/a.rs", &format!("//{}", "\u{e9}".repeat(98))), 0);
    }
}
