//! A reader that fails when there is more than a limit.

use std::io::{self, Read};

/// Reads at most so many bytes. More are an error: a file that is cut would be another input.
#[derive(Debug)]
pub struct Limited<R> {
    input: R,
    max_bytes: u64,
    left_bytes: u64,
}

impl<R> Limited<R> {
    /// A reader of at most `max_bytes` of this input.
    pub const fn new(input: R, max_bytes: u64) -> Self {
        Self {
            input,
            max_bytes,
            left_bytes: max_bytes,
        }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.left_bytes = self
            .left_bytes
            .checked_sub(count as u64)
            .ok_or_else(|| too_large(self.max_bytes))?;
        Ok(count)
    }
}

/// The error of an input that has more bytes than this.
pub(crate) fn too_large(max_bytes: u64) -> io::Error {
    let (count, unit) = [(30, "GiB"), (20, "MiB"), (10, "KiB")]
        .into_iter()
        .find(|(bits, _)| max_bytes >= 1 << bits && max_bytes.trailing_zeros() >= *bits)
        .map_or((max_bytes, "bytes"), |(bits, unit)| {
            (max_bytes >> bits, unit)
        });
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        format!("is larger than {count} {unit}, the limit for such a file"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_said_in_whole_units() {
        for (bytes, said) in [
            (5, "5 bytes"),
            (1 << 10, "1 KiB"),
            (1 << 20, "1 MiB"),
            (256 << 20, "256 MiB"),
            (1 << 30, "1 GiB"),
            ((1 << 20) + 1, "1048577 bytes"),
        ] {
            let error = too_large(bytes).to_string();
            assert!(
                error.starts_with(&format!("is larger than {said},")),
                "{error}"
            );
        }
    }

    #[test]
    fn the_end_of_the_limit_is_the_end_of_the_input_or_an_error() {
        for (bytes, fits) in [(4, true), (5, true), (6, false)] {
            let mut limited = Limited::new(io::repeat(1).take(bytes), 5);
            let copied = io::copy(&mut limited, &mut io::sink());
            assert_eq!(copied.is_ok(), fits, "{bytes}");
        }
    }
}
