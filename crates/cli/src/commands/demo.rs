//! `wrkbench demo`: a server, a run, its report and its page.

use std::process::ExitCode;

use anyhow::{Context, bail};
use origin::{Options, Server};
use plan::readable;

use super::report;
use super::terminal::Terminal;
use crate::args::{DemoArgs, Request};
use crate::console::Console;

/// Starts a server in this process, loads it, prints the report and writes the page.
///
/// # Errors
/// As [`run::run`] and [`report::report`], and when the server does not start.
pub(super) fn demo(arguments: DemoArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let page = arguments.page()?;
    let page_request = arguments.report(&page);
    report::check(&page_request, console)?;
    if !report::is_replaceable(&page)? {
        bail!("{page:?} exists and was not written by wrkbench (move it, or give another -o FILE)");
    }
    let stall = arguments.stall();
    let server = Server::start(Options {
        stall: Some(stall),
        ..Options::default()
    });
    let server = server.context("demo: cannot start the server")?;
    let url = format!("{}{}", server.url(), arguments.recipe());
    let (server_does, next) = (arguments.server(), arguments.next());
    let mut request = arguments.into_request(&url)?;
    let run = match &mut request {
        Request::Run(run) => run.as_mut(),
        Request::Llm(llm) => &mut llm.run,
        other => bail!("demo: the arguments of its run mean another command: {other:?}"),
    };
    run.report.tui = Terminal::of_stderr(console).is_some();
    let (after, length) = (
        readable::time_ns(stall.at_ns),
        readable::time_ns(stall.for_ns),
    );
    console.tell(format_args!(
        "the server {server_does}, and after {after} it stalls for {length}"
    ));
    let outcome = super::perform(request, console);
    // The demo does not need the server's own counts.
    let _ = server.stop();
    let code = outcome?;
    report::report(&page_request, console)?;
    console.tell(format_args!(
        "open {} in a browser, then load your own server: {} {next}",
        page.display(),
        console.program
    ));
    Ok(code)
}
