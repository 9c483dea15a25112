//! A new folder for the results of an experiment that names none.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The most experiments of one name that start in one second.
const NAMES_MAX: u32 = 1000;

/// The folder, or the first of `FOLDER-2`, `FOLDER-3` and so on if it exists.
#[must_use]
pub fn free_folder(folder: &Path) -> PathBuf {
    let free = names(folder).find(|name| name.symlink_metadata().is_err());
    free.unwrap_or_else(|| folder.to_owned())
}

/// Creates a folder with such a name, and those above it. If two experiments do so at once, each
/// has its own.
///
/// # Errors
/// The system's.
pub fn create_free_folder(folder: &Path, mode: u32) -> io::Result<PathBuf> {
    if let Some(above) = folder.parent() {
        DirBuilder::new().recursive(true).mode(mode).create(above)?;
    }
    for name in names(folder) {
        match DirBuilder::new().mode(mode).create(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|()| name),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn names(folder: &Path) -> impl Iterator<Item = PathBuf> {
    (1..=NAMES_MAX).map(|number| match number {
        1 => folder.to_owned(),
        _ => {
            let mut name = folder.as_os_str().to_owned();
            name.push(format!("-{number}"));
            name.into()
        }
    })
}

#[cfg(test)]
mod tests {
    use testkit::Folder;

    use super::*;

    #[test]
    fn a_folder_that_exists_gets_a_number() {
        let place = Folder::new();
        let folder = place.path().join("results/search-20261128T225945Z");
        for number in ["", "-2", "-3"] {
            let expected = place
                .path()
                .join(format!("results/search-20261128T225945Z{number}"));
            assert_eq!(free_folder(&folder), expected);
            let created = create_free_folder(&folder, 0o700).expect("the name is free");
            assert_eq!(created, expected);
            assert!(expected.is_dir());
        }
    }

    #[test]
    fn experiments_that_start_at_once_have_different_folders() {
        let place = Folder::new();
        let folder = place.path().join("results/a");
        let started = std::sync::Barrier::new(8);
        let created: std::collections::BTreeSet<PathBuf> = std::thread::scope(|scope| {
            let create = || {
                started.wait();
                create_free_folder(&folder, 0o700).expect("a name is free")
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, PathBuf>| {
                thread.join().expect("it does not panic")
            };
            threads.into_iter().map(join).collect()
        });
        assert_eq!(created.len(), 8);
    }
}
