//! A server of somebody else, in the foreground, ended with its test.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};

use testkit::{WAIT_MAX, send_signal};

/// A port that was free may be taken in between.
const STARTS_MAX: usize = 5;

/// A running server, with all processes that it started: they are one process group.
pub(crate) struct Daemon {
    child: Child,
    /// Its log, line by line; ends with it.
    log: Receiver<String>,
}

impl Daemon {
    /// Starts a server that logs to stderr, and waits for the line which says that it is ready.
    /// `make` writes the configuration, with new ports each time, and says how to start.
    pub(crate) fn start<T>(ready: &str, mut make: impl FnMut() -> (Command, T)) -> (Self, T) {
        let mut log = Vec::new();
        for _ in 0..STARTS_MAX {
            let (mut command, made) = make();
            let mut daemon = Self::spawn(&mut command);
            log = match daemon.wait_for(ready) {
                Ok(()) => return (daemon, made),
                Err(log) => log,
            };
            let is_taken = |line: &String| line.contains("in use");
            assert!(log.iter().any(is_taken), "{command:?} ended: {log:#?}");
        }
        panic!("no port stays free: {log:#?}");
    }

    fn spawn(command: &mut Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn().expect("the server starts");
        let stderr = child.stderr.take().expect("stderr is piped");
        Self {
            child,
            log: lines_of(stderr),
        }
    }

    /// Reads the log until a line contains this text. If it ends before, returns its lines.
    pub(crate) fn wait_for(&mut self, text: &str) -> Result<(), Vec<String>> {
        let mut lines = Vec::new();
        loop {
            match self.log.recv_timeout(WAIT_MAX) {
                Ok(line) if line.contains(text) => return Ok(()),
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Disconnected) => return Err(lines),
                Err(RecvTimeoutError::Timeout) => panic!("never said {text:?}: {lines:#?}"),
            }
        }
    }

    /// Sends a signal to the first process.
    pub(crate) fn signal(&self, signal: &str) {
        self.kill(signal, &self.child.id().to_string());
    }

    /// Terminates the server and waits for its end, so that its logs are complete. Returns what it
    /// has logged since it was ready.
    pub(crate) fn end(mut self, signal: &str) -> Vec<String> {
        self.signal(signal);
        // All processes of the group hold stderr, so they have ended when it ends.
        let lines = std::iter::from_fn(|| self.log.recv_timeout(WAIT_MAX).ok()).collect();
        let _ = self.child.wait();
        lines
    }

    fn kill(&self, signal: &str, whom: &str) {
        // It may have ended.
        let _ = send_signal(signal, whom);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill("KILL", &format!("-{}", self.child.id()));
        let _ = self.child.wait();
    }
}

/// Reads the log all the time, so that the server never waits for the test.
fn lines_of(stderr: ChildStderr) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(stderr).lines();
        for line in lines.map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A port that is free now. If another process takes it first, the server is started again with
/// another port.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has one").port()
}
