//! Rules for a Rust file that no lint covers.

use std::path::Path;

/// Folders that may contain `unsafe`: they call the kernel, LuaJIT and, for comparison, nghttp2.
const UNSAFE_FOLDERS: [&str; 4] = [
    "crates/eventloop/",
    "crates/telemetry/",
    "crates/script/",
    "fuzz/inflater/",
];

/// File names that say nothing about the content.
const EMPTY_NAMES: [&str; 5] = ["util", "utils", "common", "helpers", "types"];

/// Built from pieces, so that this file has no findings.
const LEFTOVERS: [&str; 3] = [
    concat!("dbg", "!("),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
];

/// Folders in which people and build machines keep their files.
const MACHINE_PATHS: [&str; 5] = [
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/wo", "rk/"),
    concat!("/Us", "ers/"),
    concat!("/bui", "lds/"),
];

/// The violations in a file, one sentence each.
pub(crate) fn findings(path: &Path, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    if !text.starts_with("//! ") {
        findings.push("does not begin with a `//!` line that says what it contains".to_owned());
    }
    if EMPTY_NAMES
        .iter()
        .any(|name| path.file_stem().is_some_and(|stem| stem == *name))
    {
        findings.push("has a name that says nothing".to_owned());
    }
    let may_be_unsafe = UNSAFE_FOLDERS.iter().any(|folder| path.starts_with(folder));
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for leftover in LEFTOVERS.iter().filter(|leftover| code.contains(*leftover)) {
            findings.push(format!("line {}: leftover {leftover}...)", number + 1));
        }
        if !may_be_unsafe && opens_unsafe(code) {
            findings.push(format!(
                "line {}: unsafe outside {UNSAFE_FOLDERS:?}",
                number + 1
            ));
        }
    }
    findings
}

/// Whether a line of code contains or allows `unsafe`.
fn opens_unsafe(code: &str) -> bool {
    let keyword = concat!("uns", "afe");
    let allowed = ["allow(", "expect("].iter().any(|attribute| {
        code.split(attribute)
            .skip(1)
            .any(|rest| rest.starts_with(concat!("uns", "afe_code")))
    });
    let opened = code.match_indices(keyword).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let rest = code[at + keyword.len()..].trim_start();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
            && ["{", "fn ", "impl", "extern", "trait", "("]
                .iter()
                .any(|next| rest.starts_with(next))
    });
    allowed || opened
}

/// The path of a developer's machine in a line, if any. Paths inside URLs do not count.
pub(crate) fn machine_path(line: &str) -> Option<&'static str> {
    MACHINE_PATHS.into_iter().find(|path| {
        line.match_indices(path).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | ']'))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        findings(Path::new(path), text).len()
    }

    #[test]
    fn a_clean_file_has_no_findings() {
        assert_eq!(
            found("crates/plan/src/lib.rs", "//! A plan.\nfn main() {}\n"),
            0
        );
    }

    #[test]
    fn a_file_without_its_first_line_is_found() {
        assert_eq!(found("crates/plan/src/lib.rs", "fn main() {}\n"), 1);
        assert_eq!(found("crates/plan/src/lib.rs", "//!\nfn main() {}\n"), 1);
    }

    #[test]
    fn leftovers_are_found_in_code_and_not_in_comments() {
        for leftover in LEFTOVERS {
            assert_eq!(
                found("a.rs", &format!("//! A.\n    {leftover}x)\n")),
                1,
                "{leftover}"
            );
            assert_eq!(
                found("a.rs", &format!("//! A.\n    // {leftover}x)\n")),
                0,
                "{leftover}"
            );
        }
    }

    #[test]
    fn unsafe_is_found_outside_the_crates_that_need_it() {
        for code in ["{ }", "fn f() {}", "impl A for B {}", "extern \"C\" {}"] {
            let text = format!("//! A.\n{} {code}\n", concat!("uns", "afe"));
            assert_eq!(found("crates/plan/src/a.rs", &text), 1, "{code}");
            assert_eq!(found("crates/eventloop/src/a.rs", &text), 0, "{code}");
        }
        let allowed = format!("//! A.\n#![allow({}_code)]\n", concat!("uns", "afe"));
        assert_eq!(found("crates/plan/src/a.rs", &allowed), 1);
        let forbidden = format!("//! A.\n#![forbid({}_code)]\n", concat!("uns", "afe"));
        assert_eq!(found("crates/plan/src/a.rs", &forbidden), 0);
    }

    #[test]
    fn names_that_say_nothing_are_found() {
        assert_eq!(found("crates/plan/src/util.rs", "//! A.\n"), 1);
    }

    #[test]
    fn machine_paths_are_found_and_parts_of_urls_are_not() {
        for path in MACHINE_PATHS {
            assert_eq!(machine_path(&format!("see {path}x")), Some(path));
            assert_eq!(machine_path(&format!("http://host{path}x")), None);
        }
        assert_eq!(machine_path("/etc/hosts"), None);
    }
}
