//! The terminal behind stderr: whether there is one, what it can show, and when it may be written to.

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use live::look::Look;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use rustix::time::Timespec;

/// Columns of a terminal that does not say how many it has.
const USUAL_COLUMNS: u16 = 80;

/// Back to the begin of the line, and erase the rest of it (ECMA-48: CR, EL).
const ERASE: &str = "\r\x1b[K";
/// Erase the rest of the line.
const ERASE_REST: &str = "\x1b[K";

/// Whether a write to stderr would be taken at once. Nobody who runs a load waits for a reader that has
/// stopped (Ctrl-S), and a process in the background would be stopped for writing (SIGTTOU, after `stty
/// tostop`).
pub(super) fn is_stderr_free() -> bool {
    is_free(&io::stderr())
}

fn is_free(output: &impl AsFd) -> bool {
    // Without a terminal, or without job control, nobody is in the foreground.
    let is_behind = tcgetpgrp(output).is_ok_and(|group| group != getpgrp());
    let mut fds = [PollFd::new(output, PollFlags::OUT)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let is_ready = poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0);
    !is_behind && is_ready && fds[0].revents().contains(PollFlags::OUT)
}

/// A terminal that goes back in a line when it is asked to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terminal {
    look: Look,
}

impl Terminal {
    /// That of stderr, if it is one.
    pub(super) fn of_stderr() -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let kind = env::var_os("TERM").filter(|kind| !kind.is_empty())?;
        if kind == "dumb" {
            return None;
        }
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| env::var_os(name).filter(|value| !value.is_empty()));
        // https://no-color.org
        let refuses_colours = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Some(Self {
            look: Look {
                colours: !refuses_colours,
                unicode: is_utf8(locale),
            },
        })
    }

    /// What may be shown.
    pub(super) fn look(self) -> Look {
        self.look
    }

    /// Its width as it is now.
    pub(super) fn columns(self) -> usize {
        let size = tcgetwinsize(io::stderr());
        let columns = size.map_or(0, |size| size.ws_col);
        usize::from(if columns == 0 { USUAL_COLUMNS } else { columns })
    }
}

/// Whether a locale's characters are those of Unicode, as in `de_DE.UTF-8`.
fn is_utf8(locale: Option<OsString>) -> bool {
    let locale = locale.unwrap_or_default();
    let locale = locale.to_string_lossy().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// The one line of a terminal that is written over. It is erased when this is dropped.
#[derive(Debug)]
pub(super) struct StatusLine {
    terminal: Terminal,
    is_shown: bool,
}

impl StatusLine {
    /// On this terminal; nothing is written yet.
    pub(super) fn new(terminal: Terminal) -> Self {
        Self {
            terminal,
            is_shown: false,
        }
    }

    /// Replaces the line by what is made for so many columns and such a look, if the terminal takes it at
    /// once.
    pub(super) fn draw(&mut self, line: impl FnOnce(usize, Look) -> String) {
        if !is_stderr_free() {
            return;
        }
        // A line that fills the last column may go on in the next row.
        let line = line(
            self.terminal.columns().saturating_sub(1),
            self.terminal.look(),
        );
        // The cursor goes back: what a terminal echoes, ^C above all, then stands on the line, which is erased, and does
        // not go on in the next row.
        let _ = io::stderr().write_all(format!("\r{line}{ERASE_REST}\r").as_bytes());
        self.is_shown = true;
    }

    /// Makes room for something else.
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
    fn a_reader_that_has_stopped_is_not_written_to() {
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
    fn a_locale_tells_whether_there_are_signs_beyond_ascii() {
        let is = |locale: &str| is_utf8(Some(locale.into()));
        assert!(is("de_DE.UTF-8") && is("C.utf8"));
        assert!(!is("C") && !is("de_DE.ISO-8859-1") && !is_utf8(None));
    }
}
