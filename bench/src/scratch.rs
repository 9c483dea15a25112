//! A folder for configuration, certificates and scripts, removed when the bench ends.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;

/// Folders that this process has made.
static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// A folder of one owner alone.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes the folder, readable for all: a server may give up root.
    ///
    /// # Errors
    /// When it cannot be made, or is there already.
    pub(crate) fn create() -> anyhow::Result<Self> {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("wrkbench-bench-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let scratch = Self { path };
        fs::set_permissions(&scratch.path, Permissions::from_mode(0o755))?;
        Ok(scratch)
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file and gives its path.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> anyhow::Result<PathBuf> {
        let path = self.path.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        fs::set_permissions(&path, Permissions::from_mode(0o644))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is cleared with the system's temporary files.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_owners_in_one_process_have_folders_of_their_own() {
        let (first, second) = (Scratch::create().unwrap(), Scratch::create().unwrap());
        assert_ne!(first.path(), second.path());
    }
}
