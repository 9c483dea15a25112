//! Calls the program as a function, for what a test sees without a process.

use std::ffi::OsStr;
use std::io::{self, Cursor, Write};
use std::panic::{self, resume_unwind};
use std::process::{Command, ExitCode};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, Once};
use std::thread;

use testkit::{Output, WAIT_MAX};
use wrkbench::Console;

/// The stack of a main thread, which is larger than that of other threads.
const STACK_BYTES: usize = 8 << 20;

/// A call of the program. Its standard input is empty, it has no environment variables, and neither
/// stdout nor stderr is a terminal.
#[must_use]
pub(crate) struct Call {
    arguments: Vec<String>,
    stdin: Vec<u8>,
    stdout: Option<Box<dyn Write + Send>>,
    variables: Vec<(String, String)>,
}

/// The program with these arguments.
pub(crate) fn call(arguments: &[&str]) -> Call {
    Call {
        arguments: vec!["wrkbench".to_owned()],
        stdin: Vec::new(),
        stdout: None,
        variables: Vec::new(),
    }
    .with(arguments)
}

impl Call {
    /// What a command would start, with its arguments and the variables that are set for it.
    pub(crate) fn of(command: &Command) -> Self {
        assert_eq!(command.get_current_dir(), None, "a call has no folder");
        let text = |text: &OsStr| text.to_str().unwrap().to_owned();
        let variables = command.get_envs();
        Self {
            arguments: [command.get_program()]
                .into_iter()
                .chain(command.get_args())
                .map(text)
                .collect(),
            variables: variables
                .map(|(name, value)| (text(name), text(value.unwrap_or_default())))
                .collect(),
            ..call(&[])
        }
    }

    /// More arguments.
    pub(crate) fn with(mut self, arguments: &[impl AsRef<str>]) -> Self {
        let more = arguments.iter().map(|it| it.as_ref().to_owned());
        self.arguments.extend(more);
        self
    }

    /// The program by another name, as through a link.
    pub(crate) fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.arguments[0]);
        self
    }

    pub(crate) fn stdin(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin = text.into();
        self
    }

    /// With this as stdout, which is not part of the output then.
    pub(crate) fn stdout(mut self, stdout: impl Write + Send + 'static) -> Self {
        self.stdout = Some(Box::new(stdout));
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What the program prints and returns. A panic there is one of the test.
    pub(crate) fn finish(self) -> Output {
        let (stdout, stderr) = (Written::default(), Written::default());
        let arguments = self.arguments.iter().map(Into::into).collect();
        let shown: Box<dyn Write + Send> = match self.stdout {
            Some(other) => other,
            None => Box::new(stdout.clone()),
        };
        let console = Console::new(arguments, Cursor::new(self.stdin), shown, stderr.clone());
        let with =
            |console: Console, (name, value): &(String, String)| console.with_variable(name, value);
        let console = self.variables.iter().fold(console, with);
        keep_panics();
        let (sender, receiver) = channel();
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        let thread = thread.spawn(move || sender.send(wrkbench::run(&console)));
        let ended = receiver.recv_timeout(WAIT_MAX);
        assert_eq!(*PANICS.lock().unwrap(), [""; 0]);
        match ended {
            Ok(code) => Output {
                code: (0..=u8::MAX)
                    .find(|number| ExitCode::from(*number) == code)
                    .map(i32::from),
                stdout: stdout.text(),
                stderr: stderr.text(),
            },
            Err(RecvTimeoutError::Timeout) => panic!(
                "{:?} hangs; stdout: {:?}; stderr: {:?}",
                self.arguments,
                stdout.text(),
                stderr.text()
            ),
            Err(RecvTimeoutError::Disconnected) => {
                resume_unwind(thread.unwrap().join().unwrap_err())
            }
        }
    }
}

/// Panics of workers, which a process prints on its stderr.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let name = thread::current().name().map(str::to_owned);
            if name.is_some_and(|name| name.starts_with("worker-")) {
                PANICS.lock().unwrap().push(panic.to_string());
            }
            usual(panic);
        }));
    });
}

/// What was written to a stream.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
