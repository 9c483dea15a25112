//! What a command gets from the process that it runs in: arguments, streams and variables.

use std::collections::HashMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::{Arguments, Display};
use std::io::{self, IsTerminal, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::args::Dialect;

/// The arguments, the standard streams and the environment of a command: those of the process, or
/// others, with which a test calls a command like a function. What scripts print, the lines of
/// `--stream` and screens go to the streams of the process in any case.
///
/// Clones share the streams.
#[derive(Clone)]
pub struct Console {
    /// The arguments. The first one is the name under which the program was called.
    pub(crate) arguments: Vec<OsString>,
    pub(crate) variables: HashMap<OsString, OsString>,
    /// The beginning of each message.
    pub(crate) program: &'static str,
    pub(crate) stdin: Arc<Mutex<dyn Read + Send>>,
    pub(crate) stdout: OutputStream,
    pub(crate) stderr: OutputStream,
    /// Whether the process is this command's, so that it may catch signals and divert descriptors.
    pub(crate) owns_process: bool,
}

impl Console {
    /// A console without variables, neither of whose streams is a terminal.
    pub fn new(
        arguments: Vec<OsString>,
        stdin: impl Read + Send + 'static,
        stdout: impl Write + Send + 'static,
        stderr: impl Write + Send + 'static,
    ) -> Self {
        Self {
            program: Dialect::of(arguments.first().map(OsString::as_os_str)).program(),
            arguments,
            variables: HashMap::new(),
            stdin: Arc::new(Mutex::new(stdin)),
            stdout: OutputStream::new(stdout, false),
            stderr: OutputStream::new(stderr, false),
            owns_process: false,
        }
    }

    /// The console of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let arguments = env::args_os().collect();
        Self {
            variables: env::vars_os().collect(),
            stdout: OutputStream::new(io::stdout(), io::stdout().is_terminal()),
            stderr: OutputStream::new(io::stderr(), io::stderr().is_terminal()),
            owns_process: true,
            ..Self::new(arguments, io::stdin(), io::empty(), io::sink())
        }
    }

    /// The same with this environment variable.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// The value of an environment variable.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(OsStr::new(name)).cloned()
    }

    pub(crate) fn stdin(&self) -> MutexGuard<'_, dyn Read + Send + 'static> {
        self.stdin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes one line to stderr; errors are ignored. Messages quote texts from outside.
    pub(crate) fn tell(&self, message: impl Display) {
        let message = message.to_string();
        let line = plan::printable(&message);
        let _ = writeln!(&self.stderr, "{}: {line}", self.program);
    }

    /// Writes an error to stderr. It repeats no more than the beginning of a long input.
    pub(crate) fn tell_error(&self, message: impl Display) {
        self.tell(plan::brief(&message.to_string()));
    }

    /// Writes lines of a program's output to stderr, below the message about it.
    pub(crate) fn tell_indented(&self, lines: &[String]) {
        for line in lines {
            let _ = writeln!(&self.stderr, "    {}", plan::printable(line));
        }
    }
}

/// Stdout or stderr of a command, which its threads share, and whether it is a terminal.
#[derive(Clone)]
pub(crate) struct OutputStream {
    writer: Arc<Mutex<dyn Write + Send>>,
    pub(crate) is_terminal: bool,
}

impl OutputStream {
    fn new(writer: impl Write + Send + 'static, is_terminal: bool) -> Self {
        Self {
            writer: Arc::new(Mutex::new(writer)),
            is_terminal,
        }
    }

    fn writer(&self) -> MutexGuard<'_, dyn Write + Send + 'static> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for &OutputStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }

    /// All at once, so that lines of several threads do not mix.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer().write_all(bytes)
    }

    fn write_fmt(&mut self, text: Arguments<'_>) -> io::Result<()> {
        self.writer().write_fmt(text)
    }
}
