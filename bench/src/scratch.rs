//! A temporary folder for configuration, certificates and scripts.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;

/// Number of folders created by this process.
static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// A temporary folder; removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Creates the folder, readable by all users: a server may drop root privileges.
    ///
    /// # Errors
    /// When it cannot be created, or exists already.
    pub(crate) fn create() -> anyhow::Result<Self> {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("wrkbench-bench-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let scratch = Self { path };
        fs::set_permissions(&scratch.path, Permissions::from_mode(0o755))?;
        Ok(scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file and returns its path.
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
        // If this fails, the system will clean up its temporary files.
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
