//! The program `wrkbench` as a function of its [`Console`].
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "doc comments of options are help texts, in which brackets are plain text"
)]
#![warn(missing_docs)]

mod args;
mod commands;
mod console;
#[cfg(feature = "fleet")]
mod fleet;
#[cfg(not(feature = "fleet"))]
#[path = "fleet/absent.rs"]
mod fleet;

use std::io;
use std::process::ExitCode;

use args::{Dialect, Refusal};
pub use console::Console;

/// The exit code a shell reports for a program killed by SIGPIPE. Rust ignores the signal, so this
/// imitates it.
const EXIT_BROKEN_PIPE: u8 = 141;

/// Does what the arguments say, and returns the exit code.
#[must_use]
pub fn run(console: &Console) -> ExitCode {
    let mut arguments = console.arguments.iter().cloned();
    let dialect = Dialect::of(arguments.next().as_deref());
    let request = match args::parse(dialect, arguments.collect()) {
        Ok(request) => request,
        Err(Refusal(line)) => {
            console.tell_error(line);
            return ExitCode::FAILURE;
        }
    };
    match commands::perform(request, console) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::from(EXIT_BROKEN_PIPE),
        Err(error) => {
            console.tell_error(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether the reader of stdout has exited (`wrkbench ... | head -1`).
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
