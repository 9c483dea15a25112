//! Reads small files of the kernel.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Limits memory; no real file that is read here is longer.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The text of a file, up to the limit; `None` if it cannot be read.
pub(crate) fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
