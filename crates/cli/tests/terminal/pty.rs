//! A program in its own terminal, and what this terminal shows at the end.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use testkit::WAIT_MAX;

/// A program, its terminal, and everything that it wrote there.
pub(crate) struct Terminal {
    child: Child,
    master: std::fs::File,
    /// Kept open, so that the last output is not lost.
    slave: Option<OwnedFd>,
    /// The settings before the program started.
    settings: String,
    written: Arc<OutputBuffer>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct OutputBuffer {
    bytes: Mutex<Vec<u8>>,
    more: Condvar,
}

/// How a program ended, and its output.
#[derive(Debug)]
pub(crate) struct TerminalOutput {
    /// `None`: a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
    /// The settings of the terminal before and after the program.
    pub(crate) settings: [String; 2],
}

impl Terminal {
    /// Starts a program with a new controlling terminal as stdin, stdout and stderr, and the usual
    /// environment variables of terminals.
    pub(crate) fn start(columns: u16, rows: u16, program: &Command) -> Self {
        Self::start_with(columns, rows, program, &[])
    }

    /// The same with more environment variables.
    pub(crate) fn start_with(
        columns: u16,
        rows: u16,
        program: &Command,
        environment: &[(&str, &str)],
    ) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let path = Path::new(name.to_str().unwrap());
        let slave = || -> OwnedFd {
            let mut options = std::fs::File::options();
            options.read(true).write(true);
            std::os::unix::fs::OpenOptionsExt::custom_flags(
                &mut options,
                OpenptFlags::NOCTTY.bits().cast_signed(),
            );
            options.open(path).unwrap().into()
        };
        let kept = slave();
        set_size(&kept, columns, rows);
        let settings = settings(&kept);
        // Starts a session with the terminal at stdin and becomes the program.
        let mut command = Command::new("setsid");
        command
            .arg("--ctty")
            .arg(program.get_program())
            .args(program.get_args())
            .env_remove("NO_COLOR")
            .env_remove("LC_ALL")
            .env_remove("LC_CTYPE")
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .envs(environment.iter().copied())
            .stdin(Stdio::from(slave()))
            .stdout(Stdio::from(slave()))
            .stderr(Stdio::from(slave()));
        let child = command.spawn().unwrap();
        let master = std::fs::File::from(master);
        let written = Arc::<OutputBuffer>::default();
        let mut source = master.try_clone().unwrap();
        let target = Arc::clone(&written);
        let reader = std::thread::spawn(move || {
            let mut some = [0; 4096];
            // EIO means that all processes have closed it.
            while let Ok(length @ 1..) = source.read(&mut some) {
                target.lock().extend_from_slice(&some[..length]);
                target.more.notify_all();
            }
        });
        Self {
            child,
            master,
            settings,
            slave: Some(kept),
            written,
            reader: Some(reader),
        }
    }

    /// Waits until the output fulfils a condition, and returns it.
    pub(crate) fn await_text(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (bytes, waited) = self
            .written
            .more
            .wait_timeout_while(self.written.lock(), WAIT_MAX, |bytes| !holds(&text(bytes)))
            .unwrap();
        let text = text(&bytes);
        assert!(!waited.timed_out(), "{what} did not come: {text:?}");
        text
    }

    /// Sends keys as if they were typed.
    pub(crate) fn press(&mut self, keys: &[u8]) {
        self.master.write_all(keys).unwrap();
    }

    /// Changes the size of the window. The kernel signals the program.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        set_size(&self.master, columns, rows);
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> TerminalOutput {
        let code = self.child.wait().unwrap().code();
        let after = self.slave.as_ref().map(settings).unwrap_or_default();
        self.slave = None;
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        let text = String::from_utf8(self.written.lock().clone()).unwrap();
        assert!(!text.contains("panicked"), "{text}");
        let before = std::mem::take(&mut self.settings);
        TerminalOutput {
            code,
            text,
            settings: [before, after],
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl OutputBuffer {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap()
    }
}

/// Modes, special characters and speeds.
fn settings(terminal: &OwnedFd) -> String {
    format!("{:?}", tcgetattr(terminal).unwrap())
}

fn set_size(terminal: &impl std::os::fd::AsFd, columns: u16, rows: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).unwrap();
}

/// The rows that a terminal with this number of columns shows after this text. It knows only what
/// the live line needs and panics on anything else.
pub(crate) fn rows(text: &str, columns: usize) -> Vec<String> {
    let mut rows: Vec<Vec<char>> = vec![Vec::new()];
    let mut column = 0;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let row = rows.last_mut().unwrap();
        match character {
            '\r' => column = 0,
            '\n' => rows.push(Vec::new()),
            '\x1b' => match sequence(&mut characters).as_str() {
                "[K" => row.truncate(column),
                style if style.ends_with('m') => {}
                other => panic!("{other:?} is not expected"),
            },
            character => {
                assert!(!character.is_control(), "{character:?} is not expected");
                if column == columns {
                    rows.push(Vec::new());
                    column = 0;
                }
                let row = rows.last_mut().unwrap();
                row.resize(row.len().max(column + 1), ' ');
                row[column] = character;
                column += 1;
            }
        }
    }
    rows.iter()
        .map(|row| row.iter().collect::<String>().trim_end().to_owned())
        .collect()
}

/// The rest of a control sequence.
fn sequence(characters: &mut impl Iterator<Item = char>) -> String {
    let mut sequence = String::new();
    for character in characters {
        sequence.push(character);
        if character != '[' && ('@'..='~').contains(&character) {
            break;
        }
    }
    sequence
}

/// The content of the screen after text was written at positions, one line for each row, since the
/// alternate screen was entered for the last time.
pub(crate) fn screen(text: &str) -> String {
    let mut rows: Vec<Vec<char>> = Vec::new();
    let (mut row, mut column) = (0, 0);
    let mut characters = text.rsplit("\x1b[?1049h").next().unwrap_or("").chars();
    while let Some(character) = characters.next() {
        if character != '\x1b' {
            rows.resize_with(rows.len().max(row + 1), Vec::new);
            let here = &mut rows[row];
            here.resize(here.len().max(column + 1), ' ');
            here[column] = character;
            column += 1;
            continue;
        }
        match sequence(&mut characters).as_str() {
            "[2J" => rows.clear(),
            "[?1049l" => break,
            place if place.ends_with('H') => {
                let (y, x) = place[1..place.len() - 1].split_once(';').unwrap();
                (row, column) = (
                    y.parse::<usize>().unwrap() - 1,
                    x.parse::<usize>().unwrap() - 1,
                );
            }
            style if style.ends_with('m') => {}
            "[?25l" | "[?25h" => {}
            // The rest of it has not arrived yet.
            cut if !cut.ends_with(|end: char| end.is_ascii_alphabetic()) => break,
            other => panic!("{other:?} is not expected"),
        }
    }
    let line = |row: &Vec<char>| row.iter().collect::<String>();
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Every text that was drawn as the live line, without styles, in order.
pub(crate) fn drawn(text: &str) -> Vec<String> {
    text.split("\x1b[K")
        .filter_map(|part| {
            let (_, line) = part.rsplit_once('\r')?;
            let mut plain = String::new();
            let mut characters = line.chars();
            while let Some(character) = characters.next() {
                match character {
                    '\x1b' => drop(sequence(&mut characters)),
                    _ => plain.push(character),
                }
            }
            (!plain.contains('\n') && !plain.is_empty()).then_some(plain)
        })
        .collect()
}
