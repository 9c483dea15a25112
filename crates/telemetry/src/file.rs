//! Reads the kernel's small files.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// No file that is read here is longer on any real machine, and one that is costs no more memory.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The text of a file, as far as it is not absurdly long; `None` if it cannot be read.
pub(crate) fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
