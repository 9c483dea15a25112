//! The problems of an experiment file, each with its line.

use std::fmt;
use std::path::{Path, PathBuf};

/// Everything that is wrong with an experiment file, one line per problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SpecError {
    file: PathBuf,
    problems: Vec<(Option<usize>, String)>,
}

impl SpecError {
    pub(super) fn new(file: &Path, line: Option<usize>, text: String) -> Self {
        Self {
            file: file.to_owned(),
            problems: vec![(line, text)],
        }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (line, text)) in self.problems.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "{}", self.file.display())?;
            if let Some(line) = line {
                write!(formatter, ":{line}")?;
            }
            write!(formatter, ": {text}")?;
        }
        Ok(())
    }
}

/// The most problems that are reported.
const MAX_PROBLEMS: usize = 100;

/// The problems found so far. Reading goes on after each, so that all are reported at once.
#[derive(Debug)]
pub(super) struct Problems {
    found: Vec<(Option<usize>, String)>,
    /// Where the lines of the file start.
    line_starts: Vec<usize>,
}

impl Problems {
    pub(super) fn new(text: &str) -> Self {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            found: Vec::new(),
            line_starts: std::iter::once(0).chain(starts).collect(),
        }
    }

    /// The line of a byte offset, from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset)
    }

    pub(super) fn add(&mut self, line: usize, text: impl ToString) {
        self.found.push((Some(line), text.to_string()));
    }

    /// The value; an error is recorded as a problem of `key`.
    pub(super) fn keep<T>(
        &mut self,
        line: usize,
        key: &str,
        read: Result<T, impl fmt::Display>,
    ) -> Option<T> {
        read.map_err(|error| self.add(line, format!("{key}: {error}")))
            .ok()
    }

    pub(super) fn count(&self) -> usize {
        self.found.len()
    }

    /// An error with all problems, if there are any.
    pub(super) fn into_result(mut self, file: &Path) -> Result<(), SpecError> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort_by_key(|(line, _)| *line);
        let total = self.found.len();
        if total > MAX_PROBLEMS {
            self.found.truncate(MAX_PROBLEMS);
            let text = format!("only the first {MAX_PROBLEMS} of {total} problems are shown");
            self.found.push((None, text));
        }
        Err(SpecError {
            file: file.to_owned(),
            problems: self.found,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_one() {
        let problems = Problems::new("a\nbc\n\nd");
        let lines = [0, 1, 2, 4, 5, 6].map(|offset| problems.line(offset));
        assert_eq!(lines, [1, 1, 2, 2, 3, 4]);
    }
}
