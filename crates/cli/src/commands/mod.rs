//! The commands: each takes its parsed arguments and returns an exit code.

mod compare;
mod completions;
mod convert;
mod demo;
mod fleet;
mod grpc;
mod guardian;
mod host_deputy;
mod in_memory;
mod interrupts;
mod llm;
mod load_process;
mod man;
mod once;
mod outputs;
mod reading;
mod report;
mod restore;
mod result_file;
mod run;
mod samples;
mod screen;
mod serve;
mod sockets;
mod sweep;
mod table;
mod terminal;
mod watching;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;

use crate::args::{Companion, Dialect, Request};

const TO_STDOUT: &str = "cannot write to stdout";

/// A `--fail-if` condition holds, or cannot be evaluated.
const EXIT_CRITERIA: u8 = 2;

/// Runs the requested command.
///
/// # Errors
/// When the command failed; the error's display is one line.
pub(crate) fn perform(request: Request, dialect: Dialect) -> anyhow::Result<ExitCode> {
    match request {
        Request::Run(request) => run::run(*request, dialect.program()),
        Request::Convert(request) => convert::convert(*request, dialect.program()),
        Request::Llm(request) => llm::llm(*request, dialect.program()),
        Request::Serve(arguments) => serve::serve(&arguments),
        Request::Demo(arguments) => demo::demo(arguments, dialect.program()),
        Request::Campaign(request) => sweep::sweep(&request, dialect.program()),
        Request::Starter(starter) => print(starter.text().as_bytes()),
        Request::Report(request) => report::report(&request, dialect.program()),
        Request::Table(request) => table::table(&request, dialect.program()),
        Request::Grpc(request) => grpc::grpc(*request),
        Request::Sockets(request) => sockets::sockets(&request),
        Request::Restore(arguments) => restore::restore(&arguments),
        Request::Agent(arguments) => fleet::agent(&arguments, dialect.program()),
        Request::Fleet(arguments) => fleet::fleet(&arguments, dialect.program()),
        Request::Companion(Companion::Guardian, journal) => guardian::guard(&journal),
        Request::Companion(Companion::HostDeputy, journal) => host_deputy::work(journal),
        Request::Companion(Companion::LoadProcess, folder) => load_process::make_load(&folder),
        Request::Compare(request) => compare::compare(&request, dialect.program()),
        Request::Completions(arguments) => print(completions::script(arguments.shell).as_bytes()),
        Request::Man(arguments) => man::man(&arguments),
        Request::Help { text, exit_code } => {
            print(text.as_bytes())?;
            Ok(ExitCode::from(exit_code))
        }
        Request::Incomplete { usage, missing } => {
            print(usage.as_bytes())?;
            tell(dialect.program(), missing);
            Ok(ExitCode::FAILURE)
        }
    }
}

fn print(bytes: &[u8]) -> anyhow::Result<ExitCode> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written.context(TO_STDOUT)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes one line to stderr; errors are ignored. Messages quote texts from outside.
pub(crate) fn tell(program: &str, message: impl Display) {
    let message = message.to_string();
    let _ = writeln!(io::stderr(), "{program}: {}", plan::printable(&message));
}

/// Writes an error to stderr. It repeats no more than the beginning of a long input.
pub(crate) fn tell_error(program: &str, message: impl Display) {
    tell(program, plan::brief(&message.to_string()));
}

/// Writes lines of a program's output to stderr, below the message about it.
fn tell_indented(lines: &[String]) {
    for line in lines {
        let _ = writeln!(io::stderr(), "    {}", plan::printable(line));
    }
}
