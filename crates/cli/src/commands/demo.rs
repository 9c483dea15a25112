//! The demonstration: a server, a run and a report on loopback, with nothing to install.

use std::process::ExitCode;

use anyhow::Context;
use origin::{Options, Server};
use plan::Target;

use super::run;
use crate::args::DemoArgs;

/// Starts the server in this process, loads it, reports, and stops it.
///
/// # Errors
/// As [`run::run`], and when the server does not start.
pub(super) fn demo(arguments: DemoArgs, program: &str) -> anyhow::Result<ExitCode> {
    let server = Server::start(Options::default()).context("demo: cannot start the server")?;
    let request = arguments.into_request(Target::parse(&server.url())?)?;
    let outcome = run::run(request, program);
    // What the server counted is not of interest here.
    let _ = server.stop();
    outcome
}
