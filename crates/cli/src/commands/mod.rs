//! The commands: each takes its parsed arguments and returns an exit code.

mod compare;
mod completions;
mod convert;
mod demo;
mod grpc;
mod guardian;
mod in_memory;
pub(crate) mod interrupts;
mod llm;
mod llm_search;
mod man;
mod once;
pub(crate) mod outputs;
mod reading;
mod records;
mod report;
pub(crate) mod restore;
pub(crate) mod result_file;
pub(crate) mod run;
pub(crate) mod run_maker;
mod samples;
mod screen;
mod serve;
mod sockets;
pub(crate) mod sweep;
mod table;
mod terminal;
mod watching;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;

use crate::args::{Companion, Request};
use crate::console::Console;
use crate::fleet;

const TO_STDOUT: &str = "cannot write to stdout";

/// A `--fail-if` condition holds, or cannot be evaluated.
const EXIT_CRITERIA: u8 = 2;

/// Runs the requested command.
///
/// # Errors
/// When the command failed; the error's display is one line.
pub(crate) fn perform(request: Request, console: &Console) -> anyhow::Result<ExitCode> {
    match request {
        Request::Run(request) => run::run(*request, console),
        Request::Convert(request) => convert::convert(*request, console),
        Request::Llm(request) => llm::llm(*request, console),
        Request::LlmSearch(request) => llm_search::llm_search(*request, console),
        Request::Serve(arguments) => serve::serve(&arguments, console),
        Request::Demo(arguments) => demo::demo(arguments, console),
        Request::Campaign(request) => sweep::sweep(&request, console),
        Request::Starter(starter) => print(starter.text().as_bytes(), console),
        Request::Report(request) => report::report(&request, console),
        Request::Table(request) => table::table(&request, console),
        Request::Grpc(request) => grpc::grpc(*request, console),
        Request::Sockets(request) => sockets::sockets(&request, console),
        Request::Restore(arguments) => restore::restore(&arguments, console),
        Request::Fleet(request) => fleet::perform(&request, console),
        Request::Companion(Companion::Guardian, journal) => guardian::guard(&journal, console),
        Request::Companion(Companion::HostDeputy, journal) => fleet::work(journal),
        Request::Companion(Companion::LoadProcess, folder) => fleet::make_load(&folder),
        Request::Compare(request) => compare::compare(&request, console),
        Request::Completions(arguments) => {
            print(completions::script(arguments.shell).as_bytes(), console)
        }
        Request::Man(arguments) => man::man(&arguments, console),
        Request::Help { text, exit_code } => {
            print(text.as_bytes(), console)?;
            Ok(ExitCode::from(exit_code))
        }
        Request::Incomplete { usage, missing } => {
            print(usage.as_bytes(), console)?;
            console.tell(missing);
            Ok(ExitCode::FAILURE)
        }
    }
}

pub(crate) fn print(bytes: &[u8], console: &Console) -> anyhow::Result<ExitCode> {
    let mut stdout = &console.stdout;
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written.context(TO_STDOUT)?;
    Ok(ExitCode::SUCCESS)
}
