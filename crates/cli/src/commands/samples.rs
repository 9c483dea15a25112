//! Where samples go: to a file, compressed if its name says so.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use zstd::stream::write::Encoder;

/// How the name of a compressed file ends.
pub(super) const COMPRESSED: &str = ".zst";

/// The least work: samples are written while the load runs, and repeat themselves so much that more saves little.
const LEVEL: i32 = 1;

/// Makes the file; what was in it is gone. A name that ends with `.zst` is one to be compressed. What is flushed can be
/// read at once, compressed or not.
///
/// # Errors
/// The system's.
pub(super) fn create(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    let file = File::create(path)?;
    if !path.to_string_lossy().ends_with(COMPRESSED) {
        return Ok(Box::new(file));
    }
    let mut encoder = Encoder::new(file, LEVEL)?;
    // So that a file that was damaged is known as such.
    encoder.include_checksum(true)?;
    Ok(Box::new(encoder.auto_finish()))
}
