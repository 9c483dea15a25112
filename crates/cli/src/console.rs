//! What a command gets from the process that it runs in.

use std::fmt::Display;
use std::io::{self, Write};

/// Where the messages of a command go, and how they begin.
#[derive(Clone)]
pub(crate) struct Console {
    /// The beginning of each message.
    pub(crate) program: &'static str,
}

impl Console {
    /// Writes one line to stderr; errors are ignored. Messages quote texts from outside.
    pub(crate) fn tell(&self, message: impl Display) {
        let message = message.to_string();
        let line = plan::printable(&message);
        let _ = writeln!(io::stderr(), "{}: {line}", self.program);
    }

    /// Writes an error to stderr. It repeats no more than the beginning of a long input.
    pub(crate) fn tell_error(&self, message: impl Display) {
        self.tell(plan::brief(&message.to_string()));
    }

    /// Writes lines of a program's output to stderr, below the message about it.
    pub(crate) fn tell_indented(&self, lines: &[String]) {
        for line in lines {
            let _ = writeln!(io::stderr(), "    {}", plan::printable(line));
        }
    }
}
