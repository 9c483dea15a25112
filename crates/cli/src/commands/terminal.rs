//! The terminal on stderr: whether there is one, what it can show, and when it can be written.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;

use live::appearance::Appearance;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use rustix::time::Timespec;

use crate::console::Console;

/// Width of a terminal that does not report one.
const USUAL_COLUMNS: u16 = 80;

/// Return to the start of the line and erase it (ECMA-48: CR, EL).
const ERASE: &str = "\r\x1b[K";
/// Erase the rest of the line.
const ERASE_REST: &str = "\x1b[K";

/// Whether a write to stderr would neither block nor stop the process. The main thread must not
/// wait for a paused terminal (Ctrl-S), and a background process may be stopped for writing
/// (SIGTTOU, after `stty tostop`).
pub(super) fn is_stderr_free() -> bool {
    is_free(&io::stderr())
}

fn is_free(output: &impl AsFd) -> bool {
    // Without a terminal or job control there is no foreground process group.
    let is_behind = tcgetpgrp(output).is_ok_and(|group| group != getpgrp());
    let mut fds = [PollFd::new(output, PollFlags::OUT)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let is_ready = poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0);
    !is_behind && is_ready && fds[0].revents().contains(PollFlags::OUT)
}

/// A terminal on which a line can be overwritten.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terminal {
    appearance: Appearance,
}

impl Terminal {
    /// The terminal on stderr, if it is one.
    pub(super) fn of_stderr(console: &Console) -> Option<Self> {
        if !console.stderr.is_terminal {
            return None;
        }
        let kind = console.variable("TERM").filter(|kind| !kind.is_empty())?;
        if kind == "dumb" {
            return None;
        }
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| console.variable(name).filter(|value| !value.is_empty()));
        // https://no-color.org
        let refuses_colours = console
            .variable("NO_COLOR")
            .is_some_and(|value| !value.is_empty());
        Some(Self {
            appearance: Appearance {
                colours: !refuses_colours,
                unicode: is_utf8(locale),
            },
        })
    }

    pub(super) fn appearance(self) -> Appearance {
        self.appearance
    }

    /// The number of columns now; the window may change.
    pub(super) fn columns(self) -> usize {
        let size = tcgetwinsize(io::stderr());
        let columns = size.map_or(0, |size| size.ws_col);
        usize::from(if columns == 0 { USUAL_COLUMNS } else { columns })
    }
}

/// Whether a locale uses UTF-8, as in `de_DE.UTF-8`.
fn is_utf8(locale: Option<OsString>) -> bool {
    let locale = locale.unwrap_or_default();
    let locale = locale.to_string_lossy().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// A line that is overwritten in place, and erased on drop.
#[derive(Debug)]
pub(super) struct StatusLine {
    terminal: Terminal,
    is_shown: bool,
}

impl StatusLine {
    pub(super) fn new(terminal: Terminal) -> Self {
        Self {
            terminal,
            is_shown: false,
        }
    }

    /// Replaces the line, if the terminal can be written without waiting. `line` gets the number of
    /// columns and what the terminal can show.
    pub(super) fn draw(&mut self, line: impl FnOnce(usize, Appearance) -> String) {
        if !is_stderr_free() {
            return;
        }
        // A character in the last column may move the cursor to the next row.
        let line = line(
            self.terminal.columns().saturating_sub(1),
            self.terminal.appearance(),
        );
        // Moves the cursor back, so that echoed input like ^C overwrites the line, which is erased
        // later, and does not continue on the next row.
        let _ = io::stderr().write_all(format!("\r{line}{ERASE_REST}\r").as_bytes());
        self.is_shown = true;
    }

    /// Removes the line before other output.
    pub(super) fn erase(&mut self) {
        if self.is_shown && is_stderr_free() {
            let _ = io::stderr().write_all(ERASE.as_bytes());
            self.is_shown = false;
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.erase();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_stalled_reader_is_not_written_to() {
        let (mut reader, mut writer) = UnixStream::pair().unwrap();
        assert!(is_free(&writer));
        writer.set_nonblocking(true).unwrap();
        let mut written = 0;
        while let Ok(bytes) = writer.write(&[0; 4096]) {
            written += bytes;
        }
        assert!(!is_free(&writer));
        let mut taken = vec![0; written];
        reader.read_exact(&mut taken).unwrap();
        assert!(is_free(&writer));
    }

    #[test]
    fn unicode_is_used_only_in_a_utf_8_locale() {
        let is = |locale: &str| is_utf8(Some(locale.into()));
        assert!(is("de_DE.UTF-8") && is("C.utf8"));
        assert!(!is("C") && !is("de_DE.ISO-8859-1") && !is_utf8(None));
    }
}
