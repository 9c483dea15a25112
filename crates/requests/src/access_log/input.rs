//! The lines of a log, one after the other: a log may be larger than the memory.

use std::io::{self, BufRead, Read};

use crate::error::{Fault, FileError};

/// Longer lines are refused: servers refuse request lines of a hundredth of this.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The log cannot be read to its end.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// What is in it cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A line without its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumberedLine<'l> {
    /// From 1.
    pub(super) number: usize,
    pub(super) bytes: &'l [u8],
}

impl NumberedLine<'_> {
    /// A fault at a position in the line.
    pub(super) fn fault(self, fault: Fault, file: &str) -> FileError {
        FileError {
            line: self.number,
            ..fault.in_file(file, self.bytes)
        }
    }
}

/// Reads the lines that have text. Lines with `#` at the start are comments, as in the Extended Log
/// File Format of W3C.
pub(super) struct Lines<'a> {
    file: &'a str,
    input: &'a mut dyn BufRead,
    number: usize,
    line: Vec<u8>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(file: &'a str, input: &'a mut dyn BufRead) -> Self {
        Self {
            file,
            input,
            number: 0,
            line: Vec::new(),
        }
    }

    /// The next line; `None` at the end of the log.
    pub(super) fn next(&mut self) -> Result<Option<NumberedLine<'_>>, LogError> {
        loop {
            self.line.clear();
            let mut input = (&mut *self.input).take(MAX_LINE_BYTES as u64 + 1);
            if input.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.line.len() > MAX_LINE_BYTES {
                let problem = "the line is longer than 1 MiB, so this is no access log";
                return Err(FileError {
                    file: self.file.to_owned(),
                    line: self.number,
                    column: 1,
                    message: problem.to_owned(),
                }
                .into());
            }
            let is_text = !self.line.trim_ascii().is_empty() && !self.line.starts_with(b"#");
            if is_text {
                break;
            }
        }
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        Ok(Some(NumberedLine {
            number: self.number,
            bytes: line.strip_suffix(b"\r").unwrap_or(line),
        }))
    }
}
