//! `wrkbench --once`: one exchange, for people to look at.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;

use super::TO_STDOUT;
use super::result_file::{self, Readers};
use super::run::invocation;
use crate::args::{JsonTarget, RunRequest};
use crate::console::Console;

/// There is no response.
const EXIT_FAILURE: u8 = 1;

/// The status of the response is 400 or more.
const EXIT_BAD_STATUS: u8 = 7;

/// Sends one request and prints it with its response.
///
/// # Errors
/// When it cannot be prepared, or stdout cannot be written.
pub(super) fn once(request: RunRequest, console: &Console) -> anyhow::Result<ExitCode> {
    let options = request.report;
    if let Some(JsonTarget::File(path)) = &options.json {
        result_file::check_destination("--json", path)?;
    }
    // Before the script is loaded, since its top level may print.
    let stdout: Box<dyn Write + '_> = match options.json {
        Some(JsonTarget::Stdout) if console.owns_process => {
            Box::new(runner::divert_script_output()?)
        }
        _ => Box::new(&console.stdout),
    };
    let exchange = runner::once(request.plan, &invocation(options.keep_secrets, console))?;
    let shown = if options.keep_secrets {
        exchange
    } else {
        exchange.without_secrets()
    };
    runner::flush_script_output();
    let mut output = io::BufWriter::new(stdout);
    let printed = match &options.json {
        Some(JsonTarget::Stdout) => report::exchange::render_json(&shown, &mut output),
        _ => report::exchange::render(&shown, &mut output),
    };
    printed.and_then(|()| output.flush()).context(TO_STDOUT)?;
    if let Some(JsonTarget::File(path)) = &options.json {
        let readers = Readers::of(options.keep_secrets);
        result_file::write("--json", path, readers, |output| {
            report::exchange::render_json(&shown, output)
        })?;
    }
    if let Some(error) = &shown.error {
        console.tell(error);
        return Ok(ExitCode::from(EXIT_FAILURE));
    }
    if let Some(location) = shown.redirect_location()
        && !options.quiet
    {
        console.tell(format_args!("note: a redirect: measure {location}"));
    }
    Ok(if shown.is_success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_BAD_STATUS)
    })
}
