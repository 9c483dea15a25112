//! Compares the repository with what its documents say, and checks rules that no lint covers.
//!
//! Each check is a function from text to findings, so that unit tests can give it bad text.
#![forbid(unsafe_code)]

mod additions;
mod home;
mod layers;
mod lengths;
mod pages;
mod paths;
mod sources;
mod tree;
mod width;

use std::fs;
use std::path::{Path, PathBuf};

/// Fails with all findings of a check, one per line.
fn assert_none(findings: &[String]) {
    assert!(
        findings.is_empty(),
        "{} finding(s):\n  {}",
        findings.len(),
        findings.join("\n  ")
    );
}

#[test]
fn the_dependency_table_in_architecture_md_is_what_cargo_sees() {
    let written = layers::table(&tree::read("ARCHITECTURE.md"));
    assert!(
        !written.is_empty(),
        "ARCHITECTURE.md has no table that begins `| crate | uses |`"
    );
    assert_none(&layers::differences(
        &written,
        &layers::edges(&layers::cargo_metadata()),
    ));
}

#[test]
fn a_crate_uses_only_crates_above_it_in_the_workspace() {
    let metadata = layers::cargo_metadata();
    let members = layers::members(&tree::read("Cargo.toml"));
    assert!(
        members.len() > 5,
        "the members of Cargo.toml were not parsed: {members:?}"
    );
    assert_none(&layers::upward_edges(&members, &layers::edges(&metadata)));
}

#[test]
fn paths_named_in_the_documents_exist() {
    let mut findings = Vec::new();
    for document in tree::files("md") {
        let folder = document.parent().map(ToOwned::to_owned).unwrap_or_default();
        let text = tree::read(&document);
        for path in paths::named(&text) {
            if !tree::exists(&path) {
                findings.push(format!("{}: `{path}` does not exist", document.display()));
            }
        }
        for link in paths::links(&text) {
            let target = match link.target.as_str() {
                "" => document.clone(),
                target => folder.join(target),
            };
            let fault = if !tree::exists(&target) {
                "does not exist"
            } else if !link.fragment.is_empty()
                && !pages::anchors(&tree::read(&target)).contains(&link.fragment)
            {
                "has no such heading"
            } else {
                continue;
            };
            findings.push(format!(
                "{}: the target of the link {}#{} {fault}",
                document.display(),
                link.target,
                link.fragment
            ));
        }
    }
    assert_none(&findings);
}

/// README.md and everything in docs/, which the site shows.
fn pages_for_users() -> Vec<PathBuf> {
    let mut pages = tree::files("md");
    pages.retain(|path| path.starts_with("docs") || path == Path::new("README.md"));
    pages
}

#[test]
fn pages_for_users_link_other_pages() {
    let mut findings = Vec::new();
    for page in pages_for_users() {
        for name in pages::unlinked(&tree::read(&page)) {
            findings.push(format!(
                "{}: `{name}` is not a link; write [its title](its path)",
                page.display()
            ));
        }
    }
    assert_none(&findings);
}

#[test]
fn the_index_of_the_documents_links_every_page() {
    let is_page = |path: &&PathBuf| path.parent() == Some(Path::new("docs"));
    let pages: Vec<String> = pages_for_users()
        .iter()
        .filter(is_page)
        .filter_map(|path| path.file_name()?.to_str())
        .filter(|name| *name != "README.md")
        .map(ToOwned::to_owned)
        .collect();
    assert!(pages.len() > 20, "only {} pages were found", pages.len());
    let findings = pages::not_in_index(&tree::read("docs/README.md"), &pages);
    let say =
        |finding| format!("docs/README.md, the index and the contents of the site: {finding}");
    assert_none(&findings.into_iter().map(say).collect::<Vec<_>>());
}

#[test]
fn the_readme_is_short_enough_to_be_read_whole() {
    let words = tree::read("README.md").split_whitespace().count();
    assert!(
        words <= pages::README_WORDS_MAX,
        "README.md has {words} words, more than {}: move some to a page in docs/",
        pages::README_WORDS_MAX
    );
}

#[test]
fn every_address_of_the_project_is_that_of_cargo_toml() {
    let manifest = tree::read("Cargo.toml");
    let home = home::of(&manifest).expect("Cargo.toml has a repository on the forge");
    let mut findings = Vec::new();
    let mut count = 0;
    for extension in ["md", "toml", "sh", "yml", "yaml", "rb", "rs", "service"] {
        for file in tree::files(extension) {
            for (number, line) in tree::read(&file).lines().enumerate() {
                let addresses = home::addresses(line, home);
                count += addresses.len();
                for address in addresses.iter().filter(|address| !address.is_home) {
                    let (file, text) = (file.display(), &address.text);
                    findings.push(format!("{file}:{}: {text}, not {home}", number + 1));
                }
            }
        }
    }
    assert_none(&findings);
    assert!(count > 5, "only {count} addresses were found");
}

#[test]
fn the_rows_about_adding_something_name_all_that_an_addition_touches() {
    let map = tree::read("ARCHITECTURE.md");
    let files = tree::files("rs").into_iter();
    let is_source = |path: &PathBuf| {
        let is_test =
            path.ends_with("tests.rs") || path.components().any(|it| it.as_os_str() == "tests");
        path.starts_with("crates") && !is_test
    };
    let sources: Vec<_> = files
        .filter(is_source)
        .map(|path| (path.clone(), tree::read(path)))
        .collect();
    let mut findings = Vec::new();
    for (beginning, word) in additions::EXAMPLES {
        let named = additions::row(&map, beginning);
        assert!(!named.is_empty(), "ARCHITECTURE.md has no row {beginning}");
        let is_used = sources.iter().any(|(_, text)| text.contains(word));
        assert!(is_used, "no source has {word}, the example of {beginning}");
        findings.extend(additions::missing(&named, word, &sources));
    }
    assert_none(&findings);
}

#[test]
fn rust_sources_follow_the_rules_that_no_lint_covers() {
    let sources = tree::files("rs");
    assert!(
        sources.len() > 10,
        "found only {} Rust files",
        sources.len()
    );
    let mut findings = Vec::new();
    for source in sources {
        let text = tree::read(&source);
        let of_file = sources::findings(&source, &text).into_iter();
        for finding in of_file.chain(lengths::findings(&source, &text)) {
            findings.push(format!("{}: {finding}", source.display()));
        }
    }
    assert_none(&findings);
}

#[test]
fn no_comment_and_no_text_is_wider_than_100_columns() {
    let mut findings = Vec::new();
    for extension in ["rs", "toml", "sh"] {
        for file in tree::files(extension) {
            for finding in width::findings(&file, &tree::read(&file)) {
                findings.push(format!("{}: {finding}", file.display()));
            }
        }
    }
    assert_none(&findings);
}

#[test]
fn no_program_contains_a_crate_for_tests() {
    assert_none(&layers::uses_for_tests(&layers::cargo_metadata()));
}

#[test]
fn no_text_contains_a_path_of_a_developers_machine() {
    let mut findings = Vec::new();
    for extension in ["rs", "md", "toml", "lua", "sh", "json", "yml", "txt"] {
        for file in tree::files(extension) {
            for (number, line) in tree::read(&file).lines().enumerate() {
                if let Some(path) = sources::machine_path(line) {
                    findings.push(format!("{}:{}: {path}", file.display(), number + 1));
                }
            }
        }
    }
    assert_none(&findings);
}

#[test]
fn both_licence_files_exist_and_the_workspace_names_them() {
    for file in ["LICENSE-APACHE", "LICENSE-MIT"] {
        assert!(
            fs::metadata(tree::root().join(file)).is_ok_and(|m| m.len() > 500),
            "{file}"
        );
    }
    assert!(tree::read("Cargo.toml").contains("license = \"Apache-2.0 OR MIT\""));
}
