//! The file for socket samples, compressed if its name ends with `.zst`.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::bail;

use zstd::stream::write::Encoder;

/// Extension of compressed files.
pub(super) const COMPRESSED: &str = ".zst";

/// The cheapest level: samples are written during the run, and they are so repetitive that higher
/// levels save little.
const LEVEL: i32 = 1;

/// What became of the file.
#[derive(Debug)]
pub(super) struct SamplesFile {
    path: PathBuf,
    /// The first error of writing.
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl SamplesFile {
    /// Creates or truncates the file, and returns its writer. Data can be read back after each
    /// flush, compressed or not.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn create(path: &Path) -> io::Result<(Self, Box<dyn Write + Send>)> {
        let file = files::outputs::create(path)?;
        let samples = Self {
            path: path.to_owned(),
            failure: Arc::default(),
        };
        let failure = samples.failure.clone();
        let watched = WatchedFile { file, failure };
        if !path.to_string_lossy().ends_with(COMPRESSED) {
            return Ok((samples, Box::new(watched)));
        }
        let mut encoder = Encoder::new(watched, LEVEL)?;
        // Makes damaged files detectable.
        encoder.include_checksum(true)?;
        Ok((samples, Box::new(encoder.auto_finish())))
    }

    /// Whether all samples are in the file, once the writer was dropped.
    ///
    /// # Errors
    /// When samples are missing.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failure {
            None => Ok(()),
            Some(error) => bail!("--samples {:?}: samples are missing: {error}", self.path),
        }
    }
}

/// Remembers the first error: those at the end of a compressed file are told to nobody.
struct WatchedFile {
    file: File,
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl WatchedFile {
    fn noted<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        outcome.inspect_err(|error| {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| io::Error::new(error.kind(), error.to_string()));
        })
    }
}

impl Write for WatchedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        self.noted(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.flush();
        self.noted(flushed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_that_did_not_fit_are_an_error() {
        let (full, mut writer) = SamplesFile::create(Path::new("/dev/full")).expect("a device");
        writer.write_all(b"{}\n").expect_err("it is full");
        drop(writer);
        let error = full.check().expect_err("nothing was written").to_string();
        assert_eq!(
            error,
            "--samples \"/dev/full\": samples are missing: No space left on device (os error 28)"
        );
        let (all, mut writer) = SamplesFile::create(Path::new("/dev/null")).expect("a device");
        writer.write_all(b"{}\n").expect("there is room");
        all.check().expect("nothing is missing");
    }
}
