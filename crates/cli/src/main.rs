//! The program `wrkbench`.
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "doc comments of options are help texts, in which brackets are plain text"
)]

mod args;
mod commands;

use std::io;
use std::process::ExitCode;

use args::{Dialect, Refusal};

// musl's allocator gives memory back to the kernel too soon: docs/decisions/0016-static-binary.md
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The exit code a shell reports for a program killed by SIGPIPE. Rust ignores the signal, so this
/// imitates it.
const EXIT_BROKEN_PIPE: u8 = 141;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let dialect = Dialect::of(arguments.next().as_deref());
    let request = match args::parse(dialect, arguments.collect()) {
        Ok(request) => request,
        Err(Refusal(line)) => {
            commands::tell_error(dialect.program(), line);
            return ExitCode::FAILURE;
        }
    };
    match commands::perform(request, dialect) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::from(EXIT_BROKEN_PIPE),
        Err(error) => {
            commands::tell_error(dialect.program(), format_args!("{error:#}"));
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
