//! One test that keeps the house: what the documents say of the repository, and rules that no lint knows.
//!
//! Each check is a function from text to findings, so that its own tests can show it bad text.
#![forbid(unsafe_code)]

mod layers;
mod paths;
mod sources;
mod tree;

use std::fs;

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
fn a_crate_uses_only_crates_that_stand_above_it_in_the_workspace() {
    let metadata = layers::cargo_metadata();
    let members = layers::members(&tree::read("Cargo.toml"));
    assert!(
        members.len() > 5,
        "the members of Cargo.toml were not understood: {members:?}"
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
            if !tree::exists(folder.join(&link)) {
                findings.push(format!(
                    "{}: link to {link} leads nowhere",
                    document.display()
                ));
            }
        }
    }
    assert_none(&findings);
}

#[test]
fn rust_sources_keep_the_rules_that_no_lint_knows() {
    let sources = tree::files("rs");
    assert!(
        sources.len() > 10,
        "found only {} Rust files",
        sources.len()
    );
    let mut findings = Vec::new();
    for source in sources {
        let text = tree::read(&source);
        for finding in sources::findings(&source, &text) {
            findings.push(format!("{}: {finding}", source.display()));
        }
    }
    assert_none(&findings);
}

#[test]
fn no_tracked_text_names_the_path_of_somebody_s_machine() {
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
fn both_licence_files_are_there_and_the_workspace_names_them() {
    for file in ["LICENSE-APACHE", "LICENSE-MIT"] {
        assert!(
            fs::metadata(tree::root().join(file)).is_ok_and(|m| m.len() > 500),
            "{file}"
        );
    }
    assert!(tree::read("Cargo.toml").contains("license = \"Apache-2.0 OR MIT\""));
}
