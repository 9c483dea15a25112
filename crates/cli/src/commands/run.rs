//! `wrkbench run`: prepare, print the banner, run, report, save.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use ::outputs::{Event, Observers, RunEnd, RunStart};
use anyhow::{Context, bail};
use judging::sentences::verdict_lines;
use judging::{Criterion, Purpose};
use live::screen::Model;
use plan::RunPlan;
use report::Format;
use results::metric::percentile_of;
use results::{RunResult, Verdict, nearest};
use runner::{Finished, Invocation, PreparedRun, RecordSender, RunObservers};

use super::interrupts::{BeforeStart, Interrupts};
use super::records::{self, Records};
use super::result_file::{self, Readers};
use super::samples::SamplesFile;
use super::screen::{self, Screen, View};
use super::terminal::Terminal;
use super::{EXIT_CRITERIA, TO_STDOUT, once, outputs, report as report_command, watching};
use crate::args::{JsonTarget, OutputOptions, RunRequest, environment_variables, version_line};
use crate::console::Console;
use crate::fleet;

/// The run failed: see [`Finished::failure`].
const EXIT_FAILURE: u8 = 1;

/// With `--strict`: the load generator was disturbed or saturated.
const EXIT_SATURATED: u8 = 5;

/// An agent of the fleet was lost, or ended early.
const EXIT_PARTIAL: u8 = 6;

/// Executes a run, prints and saves its result.
///
/// # Errors
/// When the run cannot start or aborts, or when its result cannot be written. Whatever could be
/// printed and saved has been by then.
pub(super) fn run(mut request: RunRequest, console: &Console) -> anyhow::Result<ExitCode> {
    if request.report.once {
        return once::once(request, console);
    }
    request.report.quiet |= request.tool.is_some() && !links_print_notes(console);
    let options = &request.report;
    tell_note(request.note, options, console);
    let before_start = BeforeStart::watch(console);
    let terminal = options.tui.then(|| screen::terminal(console)).transpose()?;
    check_destinations(options, request.records.as_deref(), console)?;
    let has_line = options.live && !outputs::are_on_terminal(&options.outputs, console);
    if request.draws_seed {
        draw_seed(&mut request.plan);
    }
    if request.version {
        show_version(&version_line(request.tool), options, console)?;
    }
    // Before the script is loaded, since its top level may print.
    let Streams { mut output, stdout } = open_streams(options, console)?;
    let maker = fleet::maker(request.fleet.as_ref(), console)?;
    let mut invocation = invocation(options.keep_secrets, console);
    invocation.command_line = request.command_line.unwrap_or(invocation.command_line);
    let prepared = maker.prepare(request.plan, invocation, None)?;
    check_names("--fail-if", &options.fail_if, prepared.request_names())?;
    let samples = request.samples.as_deref().map(open_samples).transpose()?;
    let (samples_file, samples) = samples.unzip();
    let records = request.records.as_deref();
    let records = Records::open_given(records, &*prepared, Readers::of(options.keep_secrets))?;
    let files = RunFiles::of(samples, records.as_ref());
    let mut observers = open_observers(options, stdout, console)?;
    let is_link = request.tool.is_some();
    tell_before(&*prepared, options, (request.version, is_link), console);
    tell_note(maker.note(&*prepared), options, console);
    // Not later: after the banner, users expect a report.
    let interrupts = match terminal {
        Some(_) => Interrupts::watch_for_screen(console),
        None => Interrupts::watch(console),
    };
    let interrupts = interrupts.context("cannot watch for Ctrl-C")?;
    before_start.end();
    show_banner(prepared.plan(), options, &mut output)?;
    let screen = open_screen(terminal, prepared.plan(), &interrupts)?;
    observers.set_display(match (&screen, has_line) {
        (Some(screen), _) => Some(screen.display(prepared.plan())),
        (None, true) => watching::display(prepared.plan(), &interrupts.stop, console),
        (None, false) => None,
    });
    let mut ended = make(prepared, &interrupts.stop, files, options, &mut observers);
    observers.remove_display();
    drop(screen);
    if let Ok(finished) = &mut ended {
        name_file(&mut finished.result, request.shown_file);
    }
    tell_end(&ended, options, &mut observers);
    let mut finished = match ended {
        Ok(finished) => finished,
        Err(error) => {
            outputs::close(observers, options.quiet, console);
            return Err(error);
        }
    };
    runner::flush_script_output();
    let delivered = deliver(&mut finished, options, &mut output, &interrupts.stop);
    let code = tell_after(&mut finished, options, request.version, console);
    interrupts.end_at_next_signal();
    outputs::close(observers, options.quiet, console);
    let recorded = Records::finish_given(records, options.quiet, console);
    delivered?;
    recorded?;
    samples_file.as_ref().map_or(Ok(()), SamplesFile::check)?;
    Ok(ExitCode::from(interrupts.exit_code().unwrap_or(code)))
}

fn tell_note(note: Option<String>, options: &OutputOptions, console: &Console) {
    if let Some(note) = note.filter(|_| !options.quiet) {
        console.tell(format_args!("note: {note}"));
    }
}

/// Refuses what cannot be written after the run, before anything is opened.
fn check_destinations(
    options: &OutputOptions,
    records: Option<&Path>,
    console: &Console,
) -> anyhow::Result<()> {
    if let Some(path) = records {
        records::check(path)?;
    }
    for (option, _, path) in options.files() {
        result_file::check_destination(option, path)?;
    }
    if let Some(file) = &options.report {
        result_file::check_destination(file.option, &file.path)?;
    }
    outputs::check(&options.outputs, options.tui, console)
}

/// Where a run writes.
struct Streams<'c> {
    /// For the banner and the report.
    output: Box<dyn Write + 'c>,
    /// The real stdout, if the lines of `--stream` go there.
    stdout: Option<File>,
}

/// Output of scripts goes to stderr from now on if stdout is for a program.
fn open_streams<'c>(options: &OutputOptions, console: &'c Console) -> anyhow::Result<Streams<'c>> {
    let mut stdout = if options.needs_stdout() && console.owns_process {
        Some(runner::divert_script_output()?)
    } else {
        None
    };
    let output: Box<dyn Write + 'c> = match stdout.take_if(|_| !options.outputs.take_stdout()) {
        Some(stdout) => Box::new(stdout),
        // With a stream there, this is stderr.
        None => Box::new(&console.stdout),
    };
    Ok(Streams { output, stdout })
}

/// Opens the outputs for other programs, and prints the notes about them.
fn open_observers(
    options: &OutputOptions,
    stdout: Option<File>,
    console: &Console,
) -> anyhow::Result<Observers<'static>> {
    let readers = Readers::of(options.keep_secrets);
    let opened = outputs::open(&options.outputs, readers, stdout, console)?;
    outputs::tell_notes(&opened, options.quiet, console);
    Ok(Observers::new(opened))
}

/// Prints the banner, unless stdout is for JSON.
///
/// # Errors
/// When the reader has exited. Other errors, like a full disk, are reported at the end, after the
/// files have been written.
fn show_banner(
    plan: &RunPlan,
    options: &OutputOptions,
    output: &mut dyn Write,
) -> anyhow::Result<()> {
    // Scripts print through C's stdout buffer: flush it before writing through Rust's.
    runner::flush_script_output();
    if options.json == Some(JsonTarget::Stdout) {
        return Ok(());
    }
    let banner = report::text::banner(plan);
    let shown = output.write_all(banner.as_bytes());
    match shown.and_then(|()| output.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// The screen of `--tui`, on its terminal.
fn open_screen(
    terminal: Option<Terminal>,
    plan: &RunPlan,
    interrupts: &Interrupts,
) -> anyhow::Result<Option<Screen>> {
    let open = |terminal| {
        let view = View::Run(Box::new(Model::new(plan.clone())));
        Screen::open(terminal, view, interrupts.second())
    };
    terminal.map(open).transpose()
}

/// Names the file of requests as the user knows it, if another one was read in its place.
fn name_file(result: &mut RunResult, shown: Option<PathBuf>) {
    if let (Some(name), Some(file)) = (shown, &mut result.plan.request.file) {
        file.path = name;
    }
}

/// Tells the outputs how the run has ended; the error is why it was aborted.
fn tell_end(
    ended: &anyhow::Result<Finished>,
    options: &OutputOptions,
    observers: &mut Observers<'_>,
) {
    match ended {
        Ok(finished) => observers.event(&Event::End(RunEnd {
            result: Ok(&finished.result),
            failed: &conditions_that_hold(&finished.result, options),
        })),
        Err(error) => observers.event(&Event::End(RunEnd {
            result: Err(&error.to_string()),
            failed: &[],
        })),
    }
}

/// Who writes files while the run goes on.
struct RunFiles {
    samples: Option<Box<dyn Write + Send>>,
    records: Option<RecordSender>,
}

impl RunFiles {
    fn of(samples: Option<Box<dyn Write + Send>>, records: Option<&Records>) -> Self {
        Self {
            samples,
            records: records.map(Records::sender),
        }
    }
}

/// Generates the load. The result has the labels.
fn make(
    prepared: Box<dyn PreparedRun + '_>,
    stop: &AtomicBool,
    files: RunFiles,
    options: &OutputOptions,
    observers: &mut Observers<'_>,
) -> anyhow::Result<Finished> {
    tell_start(&*prepared, &options.labels, observers);
    let observer = observers.observer();
    let RunFiles { samples, records } = files;
    let observers = RunObservers {
        samples,
        observer,
        records,
    };
    let finished = prepared.start(stop, observers);
    let mut finished = finished.map_err(anyhow::Error::from_boxed)?;
    let environment = &mut finished.result.environment;
    environment.labels.clone_from(&options.labels);
    Ok(finished)
}

/// Tells the outputs which run is about to start.
pub(super) fn tell_start(
    prepared: &dyn PreparedRun,
    labels: &BTreeMap<String, String>,
    observers: &mut Observers<'_>,
) {
    observers.event(&Event::Start(RunStart {
        plan: prepared.plan(),
        labels,
        run_id: prepared.run_id(),
        agents: prepared.agents(),
    }));
}

/// Checks that the requests that conditions name exist. `option` is where the conditions are from.
///
/// # Errors
/// If one does not, in one line.
pub(super) fn check_names(
    option: &str,
    criteria: &[Criterion],
    names: Option<&[String]>,
) -> anyhow::Result<()> {
    for criterion in criteria {
        let Some(name) = criterion.request() else {
            continue;
        };
        let Some(names) = names else {
            bail!("{option} {criterion}: only requests of a file have names (--requests FILE)");
        };
        if names.iter().any(|known| known == name) {
            continue;
        }
        match nearest(name, names.iter().map(String::as_str)) {
            Some(meant) => {
                bail!("{option} {criterion}: no request is named {name:?} (did you mean {meant}?)")
            }
            None => bail!("{option} {criterion}: no request in the file is named {name:?}"),
        }
    }
    Ok(())
}

/// Creates or truncates the file for samples.
fn open_samples(path: &Path) -> anyhow::Result<(SamplesFile, Box<dyn Write + Send>)> {
    result_file::check_destination("--samples", path)?;
    SamplesFile::create(path).with_context(|| format!("--samples {path:?}: cannot be written"))
}

/// Sets a random seed of 32 bits, short enough to type.
pub(super) fn draw_seed(plan: &mut RunPlan) {
    // The keys of the hasher come from the system's random number generator.
    plan.set_seed(RandomState::new().build_hasher().finish() >> 32);
}

/// The parts of a result that only the program's entry point knows.
pub(super) fn invocation(keeps_secrets: bool, console: &Console) -> Invocation {
    let now = jiff::Timestamp::now();
    Invocation {
        command_line: console
            .arguments
            .iter()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect(),
        unix_ms: u64::try_from(now.as_millisecond()).unwrap_or_default(),
        started_at: Some(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        keeps_secrets,
        variables: environment_variables(),
        ..Invocation::default()
    }
}

/// Prints and saves. A failing step does not prevent the next ones; the script's `done` runs last
/// because it can do anything.
pub(crate) fn deliver(
    finished: &mut Finished,
    options: &OutputOptions,
    output: &mut dyn Write,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let was_stopped = stop.load(Ordering::Relaxed);
    let shown = show(&finished.result, options, output);
    finished.settle();
    let is_interrupted = || !was_stopped && stop.load(Ordering::Relaxed);
    let saved = save_files(&finished.result, options, &is_interrupted);
    let done = finished.done();
    saved?;
    done?;
    shown.context(TO_STDOUT)
}

/// Writes every requested file, even if one of them fails; returns the first error. Pipes come
/// last: a signal that ends the process while one of them waits for its reader loses no file.
fn save_files(
    result: &RunResult,
    options: &OutputOptions,
    is_interrupted: &dyn Fn() -> bool,
) -> anyhow::Result<()> {
    let readers = Readers::of(options.keep_secrets);
    let mut outcome = Ok(());
    for waits in [false, true] {
        let is_now = |path: &Path| result_file::may_wait(path) == waits;
        for (option, format, path) in options.files().filter(|(_, _, path)| is_now(path)) {
            let written =
                result_file::write_unless(is_interrupted, option, path, readers, |output| {
                    report::render(result, format, &options.text, output)
                });
            outcome = outcome.and(written);
        }
        if let Some(file) = options.report.as_ref().filter(|file| is_now(&file.path)) {
            let (option, path) = (file.option, &file.path);
            let written = report_command::of_run(result, file.format).and_then(|bytes| {
                let content = |output: &mut dyn Write| output.write_all(&bytes);
                result_file::write_unless(is_interrupted, option, path, readers, content)
            });
            outcome = outcome.and(written);
        }
    }
    outcome
}

/// Prints the report, or the JSON document with `--json -`.
fn show(result: &RunResult, options: &OutputOptions, output: &mut dyn Write) -> io::Result<()> {
    let mut output = io::BufWriter::new(output);
    report::render(result, shown_format(options), &options.text, &mut output)?;
    output.flush()
}

fn shown_format(options: &OutputOptions) -> Format {
    match options.json {
        Some(JsonTarget::Stdout) => Format::Json,
        _ => options.style.into(),
    }
}

fn show_version(line: &str, options: &OutputOptions, console: &Console) -> io::Result<()> {
    if options.needs_stdout() {
        return (&console.stderr).write_all(line.as_bytes());
    }
    let mut stdout = &console.stdout;
    stdout.write_all(line.as_bytes())?;
    stdout.flush()
}

/// Set to 1, it enables notes when called through a link although stderr is not a terminal.
const NOTES_VARIABLE: &str = "WRKBENCH_NOTES";

/// Whether to print notes when called through a link. The emulated tools print none, and scripts
/// may merge stderr with stdout or use it for their own output.
fn links_print_notes(console: &Console) -> bool {
    console.stderr.is_terminal
        || console
            .variable(NOTES_VARIABLE)
            .is_some_and(|value| value == "1")
}

fn tell_before(
    prepared: &dyn PreparedRun,
    options: &OutputOptions,
    (version, is_link): (bool, bool),
    console: &Console,
) {
    // Called through a link, this line is one of the notes.
    if version && !(options.quiet && is_link) {
        console.tell(prepared.backend());
    }
    if options.quiet {
        return;
    }
    for note in prepared.notes() {
        console.tell(format_args!("note: {note}"));
    }
    tell_reversed(&options.fail_if, Purpose::FailsRun, console);
    let plan = prepared.plan();
    let what = match (plan.pacing.random_seed(), prepared.draws_requests()) {
        (Some(_), false) => "arrivals",
        (Some(_), true) => "arrivals and requests",
        (None, true) => "requests",
        (None, false) => return,
    };
    if let Some(seed) = plan.random_seed() {
        let note = format_args!("note: random {what}; repeat them with --seed {seed}");
        console.tell(note);
    }
}

/// Prints errors, notes and warnings, or only the failure of the run; then evaluates the requested
/// conditions, which determine the exit code.
pub(crate) fn tell_after(
    finished: &mut Finished,
    options: &OutputOptions,
    version: bool,
    console: &Console,
) -> u8 {
    let notes = finished.take_notes();
    if let Some(failure) = finished.failure() {
        console.tell(failure);
        return EXIT_FAILURE;
    }
    let result = &finished.result;
    if !options.quiet {
        let format = shown_format(options);
        for message in report::text::messages(result, &notes, format, &options.text) {
            console.tell(message);
        }
    }
    let code = judge(result, options, version, console);
    match finished.shortfall() {
        Some(shortfall) => {
            if options.quiet {
                console.tell(shortfall);
            }
            EXIT_FAILURE
        }
        None => code,
    }
}

/// Warns of conditions that are almost certainly meant the other way round.
pub(super) fn tell_reversed(criteria: &[Criterion], purpose: Purpose, console: &Console) {
    let warnings = criteria.iter().filter_map(|it| it.other_way_round(purpose));
    for warning in warnings {
        console.tell(format_args!("warning: {warning}"));
    }
}

/// The conditions of `--fail-if` that hold, or cannot be judged, one line each.
fn conditions_that_hold(result: &RunResult, options: &OutputOptions) -> Vec<String> {
    let conditions = options.fail_if.iter();
    conditions.filter_map(|it| it.failure(result)).collect()
}

/// The percentiles of latency in the report and in conditions.
fn percentiles_asked(options: &OutputOptions) -> Vec<f64> {
    let of_conditions = options.fail_if.iter().filter_map(|criterion| {
        let (of, percent) = percentile_of(&criterion.metric().name)?;
        (of == "latency").then_some(percent)
    });
    let shown = report::text::shown_percentiles(shown_format(options), &options.text);
    shown.iter().copied().chain(of_conditions).collect()
}

/// Prints whether the load generator was disturbed or saturated and which conditions hold, one per
/// line. "OK" is printed only with `--strict` or `-v`; "unknown" also with a rate, which a
/// saturated generator cannot keep.
fn judge(result: &RunResult, options: &OutputOptions, version: bool, console: &Console) -> u8 {
    let verdict = if options.strict {
        judging::verdict(result, &percentiles_asked(options))
    } else {
        result.generator.verdict.clone()
    };
    let is_refused = options.strict && (verdict.is_saturated() || verdict.is_disturbed());
    let word = if is_refused { "failed" } else { "note" };
    let is_asked = options.strict || version;
    let is_told = match &verdict {
        Verdict::Undisturbed => is_asked,
        Verdict::Unknown => is_asked || result.plan.pacing.is_open(),
        Verdict::Disturbed { .. } | Verdict::Saturated { .. } => true,
    };
    if is_refused || is_told && !options.quiet {
        for line in verdict_lines(&verdict) {
            console.tell(format_args!("{word}: {line}"));
        }
    }
    let failures = conditions_that_hold(result, options);
    for failure in &failures {
        console.tell(format_args!("failed: {failure}"));
    }
    let passed = options.fail_if.iter().filter_map(|it| it.success(result));
    for success in passed.filter(|_| !options.quiet) {
        console.tell(format_args!("passed: {success}"));
    }
    match (result.is_partial(), is_refused, failures.is_empty()) {
        // Before the others: their numbers are not those of the plan.
        (true, _, _) => EXIT_PARTIAL,
        // Before the conditions: they compare numbers of the generator, not of the server.
        (false, true, _) => EXIT_SATURATED,
        (false, false, false) => EXIT_CRITERIA,
        (false, false, true) => 0,
    }
}
