//! The file for socket samples, compressed if its name ends with `.zst`.

use std::io::{self, Write};
use std::path::Path;

use zstd::stream::write::Encoder;

/// Extension of compressed files.
pub(super) const COMPRESSED: &str = ".zst";

/// The cheapest level: samples are written during the run, and they are so repetitive that higher
/// levels save little.
const LEVEL: i32 = 1;

/// Creates or truncates the file. Data can be read back after each flush, compressed or not.
///
/// # Errors
/// The system's.
pub(super) fn create(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    let file = files::outputs::create(path)?;
    if !path.to_string_lossy().ends_with(COMPRESSED) {
        return Ok(Box::new(file));
    }
    let mut encoder = Encoder::new(file, LEVEL)?;
    // Makes damaged files detectable.
    encoder.include_checksum(true)?;
    Ok(Box::new(encoder.auto_finish()))
}
