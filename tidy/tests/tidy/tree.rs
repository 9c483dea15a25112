//! The repository's files, as paths relative to its root.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders with files that are not ours.
const SKIPPED: [&str; 5] = [".git", "target", "corpus", "artifacts", "node_modules"];

/// The repository's root folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A file's text; `path` is relative to the root.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    match fs::read(root().join(path)) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

/// Whether a file or folder is there; `path` is relative to the root.
pub(crate) fn exists(path: impl AsRef<Path>) -> bool {
    root().join(path).exists()
}

/// All files with this extension, sorted.
pub(crate) fn files(extension: &str) -> Vec<PathBuf> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let entry = entry.expect("an entry of a folder that can be read");
            let path = entry.path();
            let kind = entry.file_type().expect("the type of an entry");
            let skipped = SKIPPED.iter().any(|name| entry.file_name() == *name);
            if kind.is_dir() && !skipped {
                folders.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|e| e == extension) {
                found.push(path.strip_prefix(&root).expect("below the root").to_owned());
            }
        }
    }
    found.sort();
    found
}
