//! What is in `packaging/` and works without a release: the installer, the GitHub Action, the
//! lists of what the program contains.
#![allow(
    clippy::disallowed_methods,
    reason = "tests start programs with an environment of their own"
)]

mod action;
mod install;
mod parts;

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::require;

/// The repository's root folder.
fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository is there")
}

/// A file of the repository.
fn file(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files of ours below a folder that a shell runs.
fn shell_scripts(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut scripts = Vec::new();
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            scripts.extend(shell_scripts(&path));
        } else if std::fs::read(&path).is_ok_and(|text| {
            let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
            first == b"#!/bin/sh" || first == b"#!/bin/bash"
        }) {
            scripts.push(path);
        }
    }
    scripts
}

#[test]
fn shellcheck_has_nothing_to_say() {
    let Some(shellcheck) = require("shellcheck") else {
        return;
    };
    let folders = ["scripts", "packaging", ".ci"];
    let scripts: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| shell_scripts(&root().join(folder)))
        .collect();
    assert!(scripts.len() > 15, "{scripts:?}");
    let output = Command::new(shellcheck)
        .arg("--severity=warning")
        .args(scripts)
        .output()
        .expect("shellcheck starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
