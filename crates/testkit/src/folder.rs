//! Temporary folders.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A new, empty folder, removed when this is dropped. Its path is short enough for Unix sockets.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A folder for this user.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it makes something on the disk")]
    pub fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("wrkbench-test-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match fs::create_dir(&path) {
                Ok(()) => return Self(path),
                // An earlier process with the same number was killed and has left its folder.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }

    /// A folder in which every user may create files, for servers that change their user. As in
    /// `/tmp`, nobody can replace a file of another user.
    #[must_use]
    pub fn for_all_users() -> Self {
        let folder = Self::new();
        set_mode(&folder.0, 0o1777);
        folder
    }

    /// The path of the folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in the folder. The file need not exist.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The path of a file in the folder as text, for a command line. The file need not exist.
    ///
    /// # Panics
    /// If the path is not UTF-8.
    #[must_use]
    pub fn file(&self, name: &str) -> String {
        let path = self.0.join(name);
        path.to_str().expect("the path is UTF-8").to_owned()
    }

    /// Writes a file that every user may read and returns its path. Missing folders above it are
    /// created.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn file_with(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        let parent = path.parent().expect("it is in the folder");
        fs::create_dir_all(parent).expect("a folder can be made");
        fs::write(&path, content).expect("a file can be written");
        set_mode(&path, 0o644);
        self.file(name)
    }

    /// Writes a file that every user may run and returns its path.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn program(&self, name: &str, content: &str) -> String {
        let path = self.file_with(name, content);
        set_mode(Path::new(&path), 0o755);
        path
    }

    /// Creates a folder in this one, with the same rights, and returns its path.
    ///
    /// # Panics
    /// If it cannot be created.
    pub fn folder(&self, name: &str) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(&path).expect("a folder can be made");
        let own = fs::metadata(&self.0).expect("it exists").permissions();
        fs::set_permissions(&path, own).expect("it is ours");
        self.file(name)
    }

    /// The text of a file in the folder.
    ///
    /// # Panics
    /// If it cannot be read or is not UTF-8.
    #[must_use]
    pub fn read(&self, name: &str) -> String {
        let path = self.0.join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The names of everything in the folder, sorted.
    ///
    /// # Panics
    /// If the folder cannot be read.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("it exists");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name())
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_is_new_and_is_removed_with_its_files() {
        let (one, other) = (Folder::new(), Folder::new());
        assert_ne!(one.path(), other.path());
        assert_eq!(one.names(), Vec::<String>::new());
        one.file_with("below/a", "text");
        one.program("b", "#!/bin/sh\n");
        assert_eq!(one.names(), ["b", "below"]);
        assert_eq!(one.read("below/a"), "text");
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists());
        assert!(other.path().exists());
    }
}
