//! What `make install` puts below a prefix.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{all_documents, assert_none, blocks, root};

/// The files that a document links, pictures included, as paths from its folder.
fn linked(markdown: &str) -> Vec<String> {
    let targets = markdown.split("](").skip(1);
    targets
        .filter_map(|rest| rest.split([')', '#']).next())
        .filter(|target| !target.is_empty() && !target.contains([':', ' ']))
        .map(str::to_owned)
        .collect()
}

/// Whether something in backticks is a file for readers, as `examples/experiments/squid.toml`.
fn is_for_readers(span: &str) -> bool {
    let is_path = span
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
    is_path && (span.starts_with("docs/") || span.starts_with("examples/"))
}

/// Runs `make` with the tested program and this destination.
fn make(target: &str, folder: &Path) {
    let made = Command::new("make")
        .args([target, "LINKS=wrk wrk2", "PREFIX=/usr"])
        .arg(format!("WRKBENCH={}", env!("CARGO_BIN_EXE_wrkbench")))
        .arg(format!("DESTDIR={}", folder.display()))
        .env_remove("MAKEFLAGS")
        .current_dir(root())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

/// The files and links below a folder, as paths from there.
fn files_below(folder: &Path) -> Vec<String> {
    let found = Command::new("find")
        .args(["usr", "!", "-type", "d"])
        .current_dir(folder)
        .output()
        .unwrap();
    let text = String::from_utf8(found.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn everything_that_is_installed_can_be_uninstalled() {
    let folder = testkit::Folder::new();
    let folder = folder.path();
    make("install", folder);
    let installed = files_below(folder);
    for file in [
        "bin/wrkbench",
        "bin/wrk",
        "share/man/man1/wrkbench.1",
        "share/man/man1/wrkbench-sweep.1",
        "share/man/man1/wrk.1",
        "share/man/man1/wrk2.1",
        "share/doc/wrkbench/docs/measuring.md",
    ] {
        assert!(installed.contains(&format!("usr/{file}")), "{file}");
    }
    let pages = folder.join("usr/share/man/man1");
    let link = fs::read_link(pages.join("wrk.1")).unwrap();
    assert_eq!(link, Path::new("wrkbench.1"));
    // The page of another program.
    fs::write(pages.join("other.1"), "").unwrap();
    make("uninstall", folder);
    assert_eq!(files_below(folder), ["usr/share/man/man1/other.1"]);
}

#[test]
fn installed_manual_pages_are_valid() {
    let Some(mandoc) = testkit::require("mandoc") else {
        return;
    };
    let folder = testkit::Folder::new();
    let folder = folder.path();
    make("install", folder);
    let pages: Vec<_> = fs::read_dir(folder.join("usr/share/man/man1"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(pages.len() > 10, "{pages:?}");
    let checked = Command::new(mandoc)
        .args(["-T", "lint", "-W", "style"])
        .args(pages)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && said.is_empty(), "{said}");
}

#[test]
fn installed_completions_are_valid_for_their_shells() {
    let folder = testkit::Folder::new();
    let folder = folder.path();
    make("install", folder);
    for (shell, script) in [
        ("bash", "bash-completion/completions/wrkbench"),
        ("zsh", "zsh/site-functions/_wrkbench"),
        ("fish", "fish/vendor_completions.d/wrkbench.fish"),
    ] {
        let Some(shell) = testkit::require(shell) else {
            continue;
        };
        let script = folder.join("usr/share").join(script);
        let checked = Command::new(shell).arg("-n").arg(script).output().unwrap();
        assert!(checked.status.success(), "{checked:?}");
    }
}

#[test]
fn installed_documents_find_their_pictures_examples_and_each_other() {
    let folder = testkit::Folder::new();
    let folder = folder.path();
    make("install", folder);
    let documents = folder.join("usr/share/doc/wrkbench");
    let mut findings = Vec::new();
    let mut count = 0;
    for document in all_documents() {
        let text = fs::read_to_string(documents.join(&document)).unwrap();
        let document_folder = Path::new(&document).parent().unwrap();
        let mut named: Vec<_> = linked(&text)
            .iter()
            .map(|target| document_folder.join(target))
            .collect();
        // In a page, results that its commands make are named like files of ours.
        let there = |span: &String| is_for_readers(span) && root().join(span).exists();
        named.extend(
            blocks::spans(&text)
                .iter()
                .filter(|span| there(span))
                .map(PathBuf::from),
        );
        for name in named {
            count += 1;
            if !documents.join(&name).exists() {
                findings.push(format!("{document}: {} is not installed", name.display()));
            }
        }
    }
    let link = fs::read_link(folder.join("usr/bin/wrk")).unwrap();
    assert_none(&findings);
    assert!(count > 200, "only {count} names were found");
    assert_eq!(link, Path::new("wrkbench"));
}
