//! What is in `packaging/` and works without a release: the installer, the GitHub Action.
#![allow(
    clippy::disallowed_methods,
    reason = "tests start programs with an environment of their own"
)]

mod action;
mod home;
mod install;

use std::path::{Path, PathBuf};

/// The repository's root folder.
fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository is there")
}

/// A file of the repository.
fn file(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
