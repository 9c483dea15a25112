//! Paths of the repository in a Markdown text: in backticks and as links.

/// How a path in backticks must begin to count as one of the repository.
const BEGINNINGS: [&str; 11] = [
    "crates/",
    "deploy/",
    "docs/",
    "examples/",
    "scripts/",
    "bench/",
    "tidy/",
    "fuzz/",
    "packaging/",
    ".ci/",
    ".github/",
];
const ROOT_FILES: [&str; 11] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "RELEASING.md",
    "action.yml",
    "Makefile",
    "Cargo.toml",
    "clippy.toml",
    "deny.toml",
    "rustfmt.toml",
];

/// Paths in backticks, outside code blocks. Of a pattern (`*`, `<name>`) only its folder is taken.
pub(crate) fn named(markdown: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(markdown) {
        for span in line.split('`').skip(1).step_by(2) {
            let word = span.split([' ', ':', '#']).next().unwrap_or_default();
            let is_path = BEGINNINGS
                .iter()
                .any(|beginning| word.starts_with(beginning))
                || ROOT_FILES.contains(&word);
            if is_path {
                found.push(without_pattern(word).to_owned());
            }
        }
    }
    found
}

/// A link `[text](target#fragment)` within the repository.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// A path from the folder of the document; empty for the document itself.
    pub(crate) target: String,
    /// The heading; empty for the whole document.
    pub(crate) fragment: String,
}

/// The links to files of the repository.
pub(crate) fn links(markdown: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for line in prose(markdown) {
        for part in line.split("](").skip(1) {
            let Some((target, _)) = part.split_once(')') else {
                continue;
            };
            if !target.contains(':') && !target.contains(' ') {
                let (target, fragment) = target.split_once('#').unwrap_or((target, ""));
                found.push(Link {
                    target: target.to_owned(),
                    fragment: fragment.to_owned(),
                });
            }
        }
    }
    found
}

/// The lines outside fenced code blocks.
pub(crate) fn prose(markdown: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    markdown.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The folder before the first character that a plain path cannot contain.
fn without_pattern(path: &str) -> &str {
    match path.find(['*', '<', '{', '…']) {
        Some(at) => path[..at].rsplit_once('/').map_or("", |(folder, _)| folder),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_backticks_are_found_and_other_code_is_not() {
        let text =
            "See `crates/plan/src/lib.rs:12`, `docs/` and `a/b`, `GET /crates/`, `Cargo.toml`.";
        assert_eq!(
            named(text),
            ["crates/plan/src/lib.rs", "docs/", "Cargo.toml"]
        );
    }

    #[test]
    fn a_pattern_stands_for_its_folder() {
        assert_eq!(
            named("`docs/decisions/NNNN-*.md` `crates/<name>/src`"),
            ["docs/decisions", "crates"]
        );
    }

    #[test]
    fn code_blocks_are_not_read() {
        assert!(named("```\n`crates/none`\n```\n").is_empty());
        assert_eq!(named("```\n```\n`crates/none`\n"), ["crates/none"]);
    }

    #[test]
    fn links_into_the_repository_are_found_and_those_to_the_web_are_not() {
        let text = "[a](docs/a.md#part) [b](https://example.com/) [c](#here) [d](../b.md)";
        let link = |target: &str, fragment: &str| Link {
            target: target.to_owned(),
            fragment: fragment.to_owned(),
        };
        let expected = [
            link("docs/a.md", "part"),
            link("", "here"),
            link("../b.md", ""),
        ];
        assert_eq!(links(text), expected);
    }
}
