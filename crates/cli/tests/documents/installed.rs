//! What `make install` puts below a prefix.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{all_documents, assert_none, blocks, root};

/// The targets of links to pictures: `![words](file)`.
fn pictures(markdown: &str) -> Vec<String> {
    markdown
        .split("![")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once("](")?.1.split_once(')')?.0.to_owned()))
        .collect()
}

/// Whether something in backticks is a file for readers, as `docs/live.md`.
fn is_for_readers(span: &str) -> bool {
    let is_path = span
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
    is_path && (span.starts_with("docs/") || span.starts_with("examples/"))
}

#[test]
fn installed_documents_find_their_pictures_data_and_each_other() {
    let folder = testkit::Folder::new();
    let folder = folder.path();
    let installed = Command::new("make")
        .args(["install", "LINKS=wrk", "PREFIX=/usr"])
        .arg(format!("WRKBENCH={}", env!("CARGO_BIN_EXE_wrkbench")))
        .arg(format!("DESTDIR={}", folder.display()))
        .env_remove("MAKEFLAGS")
        .current_dir(root())
        .output()
        .unwrap();
    assert!(installed.status.success(), "{installed:?}");
    let documents = folder.join("usr/share/doc/wrkbench");
    let mut findings = Vec::new();
    let mut count = 0;
    for document in all_documents() {
        let text = fs::read_to_string(documents.join(&document)).unwrap();
        let mut named = pictures(&text);
        // In a page, results that its commands make are named like files of ours.
        let there = |span: &String| is_for_readers(span) && root().join(span).exists();
        named.extend(blocks::spans(&text).into_iter().filter(there));
        for name in named {
            count += 1;
            if !documents.join(&name).exists() {
                findings.push(format!("{document}: {name} is not installed"));
            }
        }
    }
    let link = fs::read_link(folder.join("usr/bin/wrk")).unwrap();
    assert_none(&findings);
    assert!(count > 50, "only {count} names were found");
    assert_eq!(link, Path::new("wrkbench"));
}
