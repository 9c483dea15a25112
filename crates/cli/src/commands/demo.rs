//! `wrkbench demo`: a server, a run and a report on loopback.

use std::process::ExitCode;

use anyhow::Context;
use origin::{Options, Server};
use plan::Target;

use super::run;
use crate::args::DemoArgs;

/// Starts a server in this process, loads it and prints the report.
///
/// # Errors
/// As [`run::run`], and when the server does not start.
pub(super) fn demo(arguments: DemoArgs, program: &str) -> anyhow::Result<ExitCode> {
    let server = Server::start(Options::default()).context("demo: cannot start the server")?;
    let request = arguments.into_request(Target::parse(&server.url())?)?;
    let outcome = run::run(request, program);
    // The demo does not need the server's own counts.
    let _ = server.stop();
    outcome
}
