//! The private folder for the files of a run.

use std::fs::{DirBuilder, OpenOptions, remove_dir_all};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::names::{Random, RunId};
use crate::package::BundledFile;

/// A folder that only this user can enter, removed with everything in it when this is dropped.
#[derive(Debug)]
pub struct PrivateFolder(PathBuf);

impl PrivateFolder {
    /// Creates a folder with an unpredictable name.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(parent: &Path, random: &mut Random) -> io::Result<Self> {
        let name = format!("wrkbench-agent-{}", RunId::random(random));
        let path = parent.join(name);
        private_folder().create(&path)?;
        Ok(Self(path))
    }

    /// The path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file, readable for this user only.
    ///
    /// # Errors
    /// The system's error; also if there is such a file already.
    pub fn write(&self, file: &BundledFile) -> io::Result<()> {
        let path = self.0.join(file.name.as_path());
        if let Some(parent) = path.parent() {
            private_folder().recursive(true).create(parent)?;
        }
        write_private(&path, &file.data)
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // Nothing can be done about an error.
        let _ = remove_dir_all(&self.0);
    }
}

/// Writes a new file that only this user can read, such as the seed of a key.
///
/// # Errors
/// The system's error; also if the file exists.
pub fn write_private(path: &Path, data: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path)?;
    file.write_all(data)?;
    file.sync_all()
}

fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use testkit::Folder;

    fn random() -> Random {
        Box::new(|bytes| bytes.fill(9))
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("it exists").permissions().mode() & 0o777
    }

    #[test]
    fn files_are_private_and_removed_with_the_folder() {
        let parent = Folder::new();
        let folder = PrivateFolder::new(parent.path(), &mut random()).expect("it is writable");
        let file = BundledFile {
            name: "modules/a/b.lua".to_owned().try_into().expect("a name"),
            data: b"return 1".to_vec(),
        };
        folder.write(&file).expect("it is writable");
        let path = folder.path().join("modules/a/b.lua");
        assert_eq!(std::fs::read(&path).expect("it exists"), b"return 1");
        assert_eq!(mode(folder.path()), 0o700);
        assert_eq!(mode(&folder.path().join("modules/a")), 0o700);
        assert_eq!(mode(&path), 0o600);
        assert!(folder.write(&file).is_err(), "a file is not overwritten");
        drop(folder);
        assert_eq!(parent.names(), [""; 0]);
    }

    #[test]
    fn a_folder_that_exists_is_not_used() {
        let parent = Folder::new();
        let first = PrivateFolder::new(parent.path(), &mut random()).expect("it is writable");
        assert!(PrivateFolder::new(parent.path(), &mut random()).is_err());
        assert!(first.path().exists());
    }
}
