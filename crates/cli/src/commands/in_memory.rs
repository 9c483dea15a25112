//! Requests files that have no name: runs read them like a file, and nothing is left behind.

use std::fs;
use std::io::Write as _;
use std::os::fd::AsRawFd;

use anyhow::{Context, anyhow};
use rustix::fs::{MemfdFlags, memfd_create};

/// A requests file that ends with the program.
pub(super) struct InMemory {
    file: fs::File,
    /// What results and messages name in its place.
    pub(super) name: String,
}

impl InMemory {
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn new(text: &str, name: String) -> anyhow::Result<Self> {
        let written = memfd_create("wrkbench-requests", MemfdFlags::CLOEXEC)
            .map_err(Into::into)
            .and_then(|file| {
                let mut file = fs::File::from(file);
                file.write_all(text.as_bytes()).map(|()| file)
            });
        let file = written.context("cannot keep the requests in memory")?;
        Ok(Self { file, name })
    }

    /// Where this process can read it.
    pub(super) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }

    /// An error of the run with the name in place of the path.
    pub(super) fn named(&self, error: anyhow::Error) -> anyhow::Error {
        let (path, message) = (self.path(), format!("{error:#}"));
        if message.contains(&path) {
            anyhow!(message.replace(&path, &self.name))
        } else {
            error
        }
    }
}

/// A name for requests that have no file: different requests are different loads, which must not
/// be averaged.
pub(super) fn name_of(kind: &str, parts: &[&[u8]]) -> String {
    // FNV-1a of 64 bits, which is the same in each version of this program.
    let bytes = parts.iter().copied().flatten();
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{kind}-{hash:016x}")
}
