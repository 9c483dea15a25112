//! `wrkbench --once`: one exchange, for people to look at.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;

use super::run::invocation;
use super::{TO_STDOUT, tell};
use crate::args::RunRequest;

/// There is no response.
const EXIT_FAILURE: u8 = 1;

/// The status of the response is 400 or more.
const EXIT_BAD_STATUS: u8 = 7;

/// Sends one request and prints it with its response.
///
/// # Errors
/// When it cannot be prepared, or stdout cannot be written.
pub(super) fn once(request: RunRequest, program: &str) -> anyhow::Result<ExitCode> {
    let options = request.report;
    let exchange = runner::once(request.plan, &invocation(options.keep_secrets))?;
    let shown = match options.keep_secrets {
        true => exchange,
        false => exchange.without_secrets(),
    };
    runner::flush_script_output();
    let mut output = io::BufWriter::new(io::stdout().lock());
    report::exchange::render(&shown, &mut output)
        .and_then(|()| output.flush())
        .context(TO_STDOUT)?;
    if let Some(error) = &shown.error {
        tell(program, error);
        return Ok(ExitCode::from(EXIT_FAILURE));
    }
    if let Some(location) = shown.redirect_location()
        && !options.quiet
    {
        let location = super::reading::on_one_line(location);
        tell(
            program,
            format_args!("note: a redirect: measure {location}"),
        );
    }
    Ok(match shown.is_success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_BAD_STATUS),
    })
}
