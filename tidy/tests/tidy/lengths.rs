//! How long functions are.

use std::path::Path;

/// A function measures, computes or prints: one of three, in so many lines of code.
pub(crate) const LINES_MAX: usize = 70;

/// Functions that list the sentence of each kind of a finding, so that all of them stand together
/// and the compiler finds a kind that has none.
const LISTS: [(&str, &str); 1] = [("crates/judging/src/sentences.rs", "sentence")];

/// The functions of a program that are too long, with their lines of code. Those of tests may have
/// long tables.
pub(crate) fn findings(path: &Path, text: &str) -> Vec<String> {
    let is_test = |part: &std::ffi::OsStr| part == "tests" || part == "tests.rs";
    let is_program = path.starts_with("crates") && path.iter().any(|part| part == "src");
    if !is_program || path.iter().any(is_test) {
        return Vec::new();
    }
    let program = text.split("\n#[cfg(test)]\nmod tests").next();
    let lines: Vec<&str> = program.unwrap_or_default().lines().collect();
    let functions =
        (0..lines.len()).filter_map(|at| Some((name(lines[at])?, length(&lines[at..]))));
    functions
        .filter(|(name, length)| *length > LINES_MAX && !LISTS.iter().any(|it| is(it, path, name)))
        .map(|(name, length)| format!("{name} has {length} lines of code"))
        .collect()
}

fn is((file, function): &(&str, &str), path: &Path, name: &str) -> bool {
    path == Path::new(file) && name == *function
}

/// The name of the function that begins in this line.
fn name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_qualifier = |word: &str| {
        let others = ["const", "async", concat!("uns", "afe"), "extern", "\"C\""];
        word.starts_with("pub") || others.contains(&word)
    };
    let name = after.split(['(', '<']).next()?;
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_name && before.split_whitespace().all(is_qualifier)).then_some(name)
}

/// The lines of code of the function that begins in the first line. rustfmt puts its end below its
/// beginning.
fn length(lines: &[&str]) -> usize {
    let indent = lines[0].len() - lines[0].trim_start().len();
    let is_whole = lines[0].ends_with(['}', ';']);
    let is_end = |line: &&str| {
        let rest = line.get(indent..).unwrap_or_default();
        // Of a trait, a function may have no body.
        is_whole || rest == "}" || rest.starts_with(')') && rest.ends_with(';')
    };
    let end = lines.iter().position(is_end);
    let is_code = |line: &&&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    lines[..=end.unwrap_or(0)].iter().filter(is_code).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> String {
        let body = "        // Why.\n\n        call();\n".repeat(lines - 2);
        let begin = "impl A {\n    pub(crate) fn long<T>(it: T) {\n";
        format!("{begin}{body}    }}\n\n    fn short() {{}}\n}}\n")
    }

    fn found(path: &str, text: &str) -> Vec<String> {
        findings(Path::new(path), text)
    }

    #[test]
    fn a_long_function_is_found_without_its_comments() {
        assert!(found("crates/plan/src/a.rs", &function(70)).is_empty());
        let expected = ["long has 71 lines of code"];
        assert_eq!(found("crates/plan/src/a.rs", &function(71)), expected);
    }

    #[test]
    fn tests_and_other_programs_may_have_long_functions() {
        let text = function(100);
        for path in [
            "crates/plan/tests/a.rs",
            "crates/plan/src/tests.rs",
            "bench/src/a.rs",
        ] {
            assert!(found(path, &text).is_empty(), "{path}");
        }
        let in_tests = format!("fn a() {{}}\n\n#[cfg(test)]\nmod tests {{\n{text}}}\n");
        assert!(found("crates/plan/src/a.rs", &in_tests).is_empty());
    }

    #[test]
    fn a_line_that_only_mentions_a_function_begins_none() {
        for line in [
            "    value: fn(&str) -> bool,",
            "let x = |f: fn (u8)| 1;",
            "// fn a() {",
        ] {
            assert_eq!(name(line), None, "{line}");
        }
        assert_eq!(name("    pub(super) const fn a<'b>("), Some("a"));
        assert_eq!(
            length(&["fn a(", "    b: u8,", ");", "", "fn c() {", "}"]),
            3
        );
        assert_eq!(length(&["fn a() {}", "fn b() {", "}"]), 1);
    }
}
