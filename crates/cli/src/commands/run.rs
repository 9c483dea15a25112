//! One run: prepare, banner, load, report, save.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use live::screen::Model;
use plan::Pacing;
use report::Format;
use results::{RunResult, Verdict};
use runner::{Audience, Finished, Invocation, Observer, Prepared};

use super::interrupts::Interrupts;
use super::screen::{self, Screen, View};
use super::{EXIT_CRITERIA, TO_STDOUT, result_file, samples, tell, watching};
use crate::args::{JsonTarget, ReportWish, RunRequest, version_line};

/// The run is no success: see [`Finished::failure`].
const EXIT_FAILURE: u8 = 1;

/// With `--strict`: the generator was the limit.
const EXIT_GENERATOR: u8 = 5;

/// Runs the plan and shows what came of it.
///
/// # Errors
/// When the run cannot start or breaks down, or when its outcome cannot be written; what could be
/// shown and saved has been by then.
pub(super) fn run(request: RunRequest, program: &str) -> anyhow::Result<ExitCode> {
    let RunRequest {
        mut plan,
        draws_seed,
        report: mut wish,
        samples,
        tool,
        version,
    } = request;
    wish.quiet |= tool.is_some() && !notes_are_welcome();
    let wish = wish;
    let terminal = wish.tui.then(screen::terminal).transpose()?;
    for (option, _, path) in wish.files() {
        result_file::check_destination(option, path)?;
    }
    if draws_seed {
        draw_seed(&mut plan.pacing);
    }
    if version {
        show_version(&version_line(tool), &wish)?;
    }
    // Before the script is loaded, whose top level may print.
    let mut output: Box<dyn Write> = match wish.json {
        Some(JsonTarget::Stdout) => Box::new(runner::divert_script_output()?),
        _ => Box::new(io::stdout().lock()),
    };
    let prepared = runner::prepare(plan, invocation(wish.show_secrets))?;
    let samples = samples.as_deref().map(samples_file).transpose()?;
    tell_before(&prepared, &wish, (version, tool.is_some()), program);
    // Not earlier: during the preparation a signal simply ends the process. Not later: who reads the
    // banner may rely on a report.
    let interrupts = match terminal {
        Some(_) => Interrupts::watch_for_screen(),
        None => Interrupts::watch(),
    };
    let interrupts = interrupts.context("cannot watch for Ctrl-C")?;
    // Scripts print through C's buffer, we through ours: each is emptied before the other writes.
    runner::flush_script_output();
    if wish.json != Some(JsonTarget::Stdout) {
        let banner = report::text::banner(prepared.plan());
        let shown = output
            .write_all(banner.as_bytes())
            .and_then(|()| output.flush());
        // Nobody reads on. A stream that is full takes nothing away from the files: it is told of at the end.
        if let Err(error) = shown
            && error.kind() == io::ErrorKind::BrokenPipe
        {
            return Err(error.into());
        }
    }
    let screen = terminal.map(|terminal| {
        let view = View::Run(Box::new(Model::new(prepared.plan().clone())));
        Screen::open(terminal, view, interrupts.second())
    });
    let screen = screen.transpose()?;
    let mut observer: Option<Box<dyn Observer>> = match (&screen, wish.live) {
        (Some(screen), _) => Some(screen.observer(prepared.plan())),
        (None, true) => watching::observer(prepared.plan(), &interrupts.stop, program),
        (None, false) => None,
    };
    let audience = Audience {
        samples,
        observer: observer.as_mut().map(|it| &mut **it as &mut dyn Observer),
    };
    let finished = prepared.run(&interrupts.stop, audience);
    // Its line, or the screen, goes before anything else is written.
    drop(observer);
    drop(screen);
    let mut finished = finished?;
    runner::flush_script_output();
    let delivered = deliver(&mut finished, &wish, &mut output);
    let code = tell_after(&mut finished, &wish, version, program);
    delivered?;
    Ok(ExitCode::from(interrupts.exit_code().unwrap_or(code)))
}

/// Opens the file that samples are written to while the run is on; what was in it is gone.
fn samples_file(path: &Path) -> anyhow::Result<Box<dyn Write + Send>> {
    let file = result_file::check_destination("--samples", path).and_then(|()| {
        samples::create(path).with_context(|| format!("--samples {path:?}: cannot be written"))
    })?;
    Ok(file)
}

/// Fills in a seed that nobody could have guessed, and that is short enough to be typed.
pub(super) fn draw_seed(pacing: &mut Pacing) {
    if let Pacing::Constant { seed, .. } | Pacing::Stages { seed, .. } = pacing {
        // Keys of the hasher come from the system's random numbers.
        *seed = RandomState::new().build_hasher().finish() >> 32;
    }
}

/// What only the entry of the program knows about the run.
pub(super) fn invocation(shows_secrets: bool) -> Invocation {
    let now = jiff::Timestamp::now();
    Invocation {
        command_line: std::env::args_os()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect(),
        unix_ms: u64::try_from(now.as_millisecond()).unwrap_or_default(),
        started_at: Some(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        shows_secrets,
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
    let saved = save_files(&finished.result, wish);
    let done = finished.done();
    saved?;
    done?;
    shown.context(TO_STDOUT)
}

/// Every file that was wished for, also when one of them cannot be written; the first error.
fn save_files(result: &RunResult, wish: &ReportWish) -> anyhow::Result<()> {
    let mut outcome = Ok(());
    for (option, format, path) in wish.files() {
        let written = result_file::write(option, path, |output| {
            report::render(result, format, &wish.text, output)
        });
        outcome = outcome.and(written);
    }
    outcome
}

/// The report, or the document if that is what goes to stdout.
fn show(result: &RunResult, wish: &ReportWish, output: &mut dyn Write) -> io::Result<()> {
    let mut output = io::BufWriter::new(output);
    report::render(result, shown_format(wish), &wish.text, &mut output)?;
    output.flush()
}

fn shown_format(wish: &ReportWish) -> Format {
    match wish.json {
        Some(JsonTarget::Stdout) => Format::Json,
        _ => wish.style.into(),
    }
}

fn show_version(line: &str, wish: &ReportWish) -> io::Result<()> {
    if wish.json == Some(JsonTarget::Stdout) {
        return io::stderr().write_all(line.as_bytes());
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    stdout.flush()
}

/// Set to 1 it brings the notes of a run through a link where nobody seems to read them.
const NOTES_VARIABLE: &str = "WRKBENCH_NOTES";

/// Whether notes are shown in the place of a tool that has none: scripts join stderr with stdout, or write their own output
/// to it.
fn notes_are_welcome() -> bool {
    io::stderr().is_terminal() || std::env::var_os(NOTES_VARIABLE).is_some_and(|value| value == "1")
}

fn tell_before(
    prepared: &Prepared,
    wish: &ReportWish,
    (version, is_link): (bool, bool),
    program: &str,
) {
    // In the place of wrk the line is one more note.
    if version && !(wish.quiet && is_link) {
        let (backend, reason) = (prepared.backend(), prepared.backend_reason());
        tell(program, format_args!("backend {backend}: {reason}"));
    }
    if wish.quiet {
        return;
    }
    for note in prepared.notes() {
        tell(program, format_args!("note: {note}"));
    }
    if let Some(seed) = prepared.plan().pacing.random_seed() {
        let note = format_args!("note: random arrivals: --seed {seed} repeats them");
        tell(program, note);
    }
}

/// Errors and doubts, or the failure that makes them needless; then the judgement that was asked for,
/// which is the exit code.
fn tell_after(finished: &mut Finished, wish: &ReportWish, version: bool, program: &str) -> u8 {
    let notes = finished.take_notes();
    if let Some(failure) = finished.failure() {
        tell(program, failure);
        return EXIT_FAILURE;
    }
    let result = &finished.result;
    if !wish.quiet {
        let (headlines, warnings): (Vec<_>, Vec<_>) = result
            .warnings
            .iter()
            .partition(|warning| warning.is_headline());
        for warning in headlines {
            tell(program, format_args!("warning: {warning}"));
        }
        for note in report::text::error_notes(result).iter().chain(&notes) {
            tell(program, format_args!("note: {note}"));
        }
        let bounds = report::text::lower_bounds(result, shown_format(wish), &wish.text);
        if let Some(bounds) = bounds {
            tell(program, format_args!("note: {bounds}"));
        }
        if let Some(thin) = report::text::thin_percentiles(result, shown_format(wish), &wish.text) {
            tell(program, format_args!("note: {thin}"));
        }
        for note in report::text::telemetry_notes(result) {
            tell(program, format_args!("note: {note}"));
        }
        for warning in warnings {
            tell(program, format_args!("warning: {warning}"));
        }
    }
    let code = judge(result, wish, version, program);
    match finished.shortfall() {
        Some(shortfall) => {
            if wish.quiet {
                tell(program, shortfall);
            }
            EXIT_FAILURE
        }
        None => code,
    }
}

/// Tells whether the load generator was saturated and which conditions hold, in a line each. That all was well is said
/// only to those who ask (`--strict`, `-v`). That it is not known is a doubt for those who ask for a rate, too, which a
/// generator can fail to keep.
fn judge(result: &RunResult, wish: &ReportWish, version: bool, program: &str) -> u8 {
    let verdict = &result.generator.verdict;
    let is_limited = verdict.is_generator_limited();
    let is_refused = wish.strict && is_limited;
    let word = if is_refused { "failed" } else { "note" };
    let is_asked = wish.strict || version;
    let is_told = match verdict {
        Verdict::Fine => is_asked,
        Verdict::Unknown => is_asked || result.plan.pacing.is_open(),
        Verdict::GeneratorLimited { .. } => true,
    };
    if is_refused || is_told && !wish.quiet {
        for line in verdict.lines() {
            tell(program, format_args!("{word}: {line}"));
        }
    }
    let failures: Vec<String> = wish
        .fail_if
        .iter()
        .filter_map(|criterion| criterion.failure(result))
        .collect();
    for failure in &failures {
        tell(program, format_args!("failed: {failure}"));
    }
    match (is_refused, failures.is_empty()) {
        // Before the conditions: what they were held against is not the server's.
        (true, _) => EXIT_GENERATOR,
        (false, false) => EXIT_CRITERIA,
        (false, true) => 0,
    }
}
