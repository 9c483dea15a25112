//! Programs that run next to a test.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;

use crate::WAIT_MAX;

/// What a program left behind when it ended.
#[derive(Debug)]
pub struct Output {
    /// `None`: a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to standard output, as text.
    pub stdout: String,
    /// What it wrote to standard error, as text.
    pub stderr: String,
}

impl Output {
    /// The one line on stderr of a program that ended with exit code 1 and printed nothing else.
    ///
    /// # Panics
    /// If it ended differently.
    #[must_use]
    pub fn only_line(&self) -> &str {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        one_line(&self.stderr)
    }
}

/// A text that is one line, without its line feed.
///
/// # Panics
/// If it is not exactly one line.
pub fn one_line(text: &str) -> &str {
    let line = text.strip_suffix('\n').unwrap_or(text);
    assert!(!line.is_empty() && !line.contains('\n'), "{text:?}");
    line
}

/// A running program, killed when this is dropped. Its standard input is empty; its output is read
/// all the time, so that it never waits for the test.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Receiver<String>,
    /// The lines that the test has taken.
    read: String,
    stderr: Option<JoinHandle<String>>,
}

impl Process {
    /// Starts a program.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (sender, lines) = channel();
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        std::thread::spawn(move || {
            let mut line = String::new();
            while stdout.read_line(&mut line).is_ok_and(|length| length > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    break;
                }
            }
        });
        let mut stderr = child.stderr.take().expect("stderr is piped");
        let stderr = std::thread::spawn(move || {
            let mut all = Vec::new();
            // After an error, what was read before it is all there is to show.
            let _ = stderr.read_to_end(&mut all);
            String::from_utf8_lossy(&all).into_owned()
        });
        Self {
            child,
            lines,
            read: String::new(),
            stderr: Some(stderr),
        }
    }

    /// The number of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line on stdout with its line feed; `None` at the end.
    ///
    /// # Panics
    /// If it prints nothing for [`WAIT_MAX`]. The program is killed then.
    pub fn next_line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(WAIT_MAX) {
            Ok(line) => {
                self.read.push_str(&line);
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                let stderr = self.stderr.take().map(JoinHandle::join);
                panic!("it hangs; stdout: {:?}; stderr: {stderr:?}", self.read);
            }
        }
    }

    /// Reads stdout up to a line that must come.
    ///
    /// # Panics
    /// If the program ends without it.
    pub fn await_line(&mut self, wanted: impl Fn(&str) -> bool) {
        while let Some(line) = self.next_line() {
            if wanted(&line) {
                return;
            }
        }
        panic!("the line did not come; stdout: {:?}", self.read);
    }

    /// Sends a signal by its name (INT, TERM).
    ///
    /// # Panics
    /// If it cannot be sent.
    pub fn signal(&self, name: &str) {
        let sent = send_signal(name, &self.id().to_string());
        assert!(sent, "{name} was not sent");
    }

    /// The exit code if it has ended; `Some(None)` if a signal ended it.
    ///
    /// # Panics
    /// If the kernel does not say.
    pub fn ended(&mut self) -> Option<Option<i32>> {
        let status = self.child.try_wait().expect("it is our child");
        status.map(|status| status.code())
    }

    /// Waits until it ends.
    ///
    /// # Panics
    /// If it hangs, or if it is a program in Rust that panicked.
    #[must_use]
    pub fn finish(mut self) -> Output {
        while self.next_line().is_some() {}
        let code = self.child.wait().expect("it is our child").code();
        let stderr = self.stderr.take().and_then(|thread| thread.join().ok());
        let output = Output {
            code,
            stdout: std::mem::take(&mut self.read),
            stderr: stderr.unwrap_or_default(),
        };
        assert!(!output.stderr.contains("panicked"), "{output:?}");
        output
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal by its name (INT, TERM) to a process or, with a minus before the number, to a
/// group. Returns whether it was sent.
///
/// The shell does it: containers often lack the program `kill`.
///
/// # Panics
/// If there is no shell.
pub fn send_signal(name: &str, whom: &str) -> bool {
    let mut shell = Command::new("sh");
    shell.args(["-c", "kill -s \"$0\" -- \"$1\"", name, whom]);
    let status = shell.stderr(Stdio::null()).status();
    status.expect("sh starts").success()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        Process::start(command)
    }

    #[test]
    fn lines_are_read_as_they_come_and_the_end_has_everything() {
        let mut process = shell("echo one; echo two; echo three; echo wrong >&2; exit 3");
        assert_eq!(process.next_line().as_deref(), Some("one\n"));
        process.await_line(|line| line == "two\n");
        let output = process.finish();
        assert_eq!(output.code, Some(3));
        assert_eq!(output.stdout, "one\ntwo\nthree\n");
        assert_eq!(one_line(&output.stderr), "wrong");
    }

    #[test]
    fn a_signal_ends_it_without_an_exit_code() {
        let mut process = shell("echo ready; exec sleep 1000");
        process.await_line(|line| line == "ready\n");
        assert_eq!(process.ended(), None);
        process.signal("TERM");
        assert_eq!(process.finish().code, None);
    }
}
