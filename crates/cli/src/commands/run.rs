//! One run: prepare, banner, load, report, save.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use report::{Format, TextOptions};
use results::RunResult;
use runner::{Finished, Invocation, Prepared};

use super::interrupts::Interrupts;
use super::{result_file, tell};
use crate::args::{JsonTarget, ReportWish, RunRequest};

/// wrk's `-v` prints such a line and goes on.
pub(super) const VERSION_LINE: &str = concat!(
    "wrkbench ",
    env!("CARGO_PKG_VERSION"),
    " [io_uring|epoll] ",
    env!("CARGO_PKG_LICENSE"),
    "\n"
);

/// Runs the plan and shows what came of it.
///
/// # Errors
/// When the run cannot start or breaks down, or when its outcome cannot be written; what could be
/// shown and saved has been by then.
pub(super) fn run(request: RunRequest, program: &str) -> anyhow::Result<ExitCode> {
    let RunRequest {
        plan,
        report: wish,
        version,
    } = request;
    if let Some(JsonTarget::File(path)) = &wish.json {
        result_file::check_destination(path)?;
    }
    if version {
        show_version(&wish)?;
    }
    // Before the script is loaded, whose top level may print.
    let mut output: Box<dyn Write> = match wish.json {
        Some(JsonTarget::Stdout) => Box::new(runner::divert_script_output()?),
        _ => Box::new(io::stdout().lock()),
    };
    let prepared = runner::prepare(plan, invocation())?;
    tell_before(&prepared, &wish, version, program);
    // Not earlier: during the preparation a signal simply ends the process. Not later: who reads the
    // banner may rely on a report.
    let interrupts = Interrupts::watch().context("cannot watch for Ctrl-C")?;
    // Scripts print through C's buffer, we through ours: each is emptied before the other writes.
    runner::flush_script_output();
    if wish.json != Some(JsonTarget::Stdout) {
        output.write_all(report::text::banner(prepared.plan()).as_bytes())?;
        output.flush()?;
    }
    let mut finished = prepared.run(&interrupts.stop)?;
    runner::flush_script_output();
    let delivered = deliver(&mut finished, &wish, &mut output);
    let code = tell_after(&mut finished, &wish, program);
    delivered?;
    Ok(interrupts.exit_code().map_or(code, ExitCode::from))
}

/// What only the entry of the program knows about the run.
fn invocation() -> Invocation {
    let now = jiff::Timestamp::now();
    Invocation {
        command_line: std::env::args_os()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect(),
        unix_ms: u64::try_from(now.as_millisecond()).unwrap_or_default(),
        started_at: Some(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
    }
}

/// Shows and saves. A step that fails does not keep the next ones from being done, and the
/// script's `done` comes last since it is not ours.
fn deliver(
    finished: &mut Finished,
    wish: &ReportWish,
    output: &mut dyn Write,
) -> anyhow::Result<()> {
    let shown = show(&finished.result, wish, output);
    finished.settle();
    let saved = match &wish.json {
        Some(JsonTarget::File(path)) => {
            result_file::write(path, |output| save(&finished.result, wish, output))
        }
        _ => Ok(()),
    };
    let done = finished.done();
    saved?;
    done?;
    shown.context("cannot write the report")
}

/// The report, or the document if that is what goes to stdout.
fn show(result: &RunResult, wish: &ReportWish, output: &mut dyn Write) -> io::Result<()> {
    let mut output = io::BufWriter::new(output);
    if wish.json == Some(JsonTarget::Stdout) {
        save(result, wish, &mut output)?;
    } else {
        let options = TextOptions {
            latency: wish.latency,
            percentiles: wish.percentiles.clone(),
            wrk_correction: wish.wrk_correction,
            ..TextOptions::default()
        };
        report::render(result, Format::Wrk, &options, &mut output)?;
    }
    output.flush()
}

fn save(result: &RunResult, wish: &ReportWish, output: &mut dyn Write) -> io::Result<()> {
    results::file::save(
        result,
        wish.percentiles.as_deref().unwrap_or_default(),
        output,
    )
}

fn show_version(wish: &ReportWish) -> io::Result<()> {
    if wish.json == Some(JsonTarget::Stdout) {
        return io::stderr().write_all(VERSION_LINE.as_bytes());
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(VERSION_LINE.as_bytes())?;
    stdout.flush()
}

fn tell_before(prepared: &Prepared, wish: &ReportWish, version: bool, program: &str) {
    if version {
        let (backend, reason) = (prepared.backend(), prepared.backend_reason());
        tell(program, format_args!("backend {backend}: {reason}"));
    }
    if !wish.quiet {
        for note in prepared.notes() {
            tell(program, format_args!("note: {note}"));
        }
    }
}

/// Errors and doubts, or the failure that makes them needless; and the exit code.
fn tell_after(finished: &mut Finished, wish: &ReportWish, program: &str) -> ExitCode {
    let notes = finished.take_notes();
    if let Some(failure) = finished.failure() {
        tell(program, failure);
        return ExitCode::FAILURE;
    }
    if !wish.quiet {
        for note in report::text::error_notes(&finished.result)
            .iter()
            .chain(&notes)
        {
            tell(program, format_args!("note: {note}"));
        }
        for warning in &finished.result.warnings {
            tell(program, format_args!("warning: {warning}"));
        }
    }
    ExitCode::SUCCESS
}
