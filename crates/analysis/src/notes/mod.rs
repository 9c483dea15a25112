//! Text printed by wrk, wrk2, wrk-cmm and wrkbench's own styles: one report, or many with notes
//! between them, and tables of runs.
//!
//! A report counts if its last line is there; a report that is cut off is a failed run. Lines of a
//! report that are not understood are skipped with a note. All lines between reports are in the
//! path of names (`path.rs`), which decides what is a repetition of what. Some of them name the
//! runs (`names.rs`), and the others where nothing else distinguishes two runs (`text_names.rs`).

mod clean;
mod command;
mod lines;
mod names;
mod path;
mod report;
mod rounds;
mod rows;
mod script_object;
mod tables;
mod text_names;

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use plan::units;
use regex_lite::Regex;

use crate::repetitions::{drop_copies, limited, renumber_duplicates};
use crate::{Form, Observation, Reading};
use command::Command;
use lines::SourceLine;
pub(crate) use lines::{quote, regex};
use names::Names;
use path::{Path, ReportContext};
use report::Report;
pub(crate) use script_object::{Object, first as first_object};
use tables::Tables;
pub(crate) use text_names::TEXT;

/// The settings whose levels are the outermost headings of notes.
pub(crate) const HEADINGS: [&str; 2] = [results::PLACE_FACTOR, names::HEADING];

/// Limit on the runs of one text.
const RUNS_MAX: usize = 10_000;

/// Limit on notes about one text that are counted.
const NOTES_KEPT: usize = 10_000;

/// Limit on the length of an object printed by a script.
const OBJECT_MAX_BYTES: usize = 64 << 10;

/// Limit on text that looks like objects but is not. Further objects are not tried, since parsing
/// would take long.
const WASTED_MAX_BYTES: usize = 4 << 20;

/// A report with more than this many times the rate of the command line above it does not belong to
/// that command. wrk2 slightly exceeds its rate at the start, but not by a factor of two.
const RATE_EXCEEDED: f64 = 2.0;

/// Limit on the command lines that are tried for a report.
const COMMANDS_TRIED: usize = 32;

/// Reads all runs of a text, with notes on what was skipped or is worth knowing. `source` is the
/// name of the file.
pub(crate) fn read(text: &str, source: &str) -> Reading {
    let text = clean::cleaned(text);
    let mut reader = Reader::default();
    let (mut number, mut rest) = (1, text.as_str());
    while !rest.is_empty() {
        if reader.runs.len() + reader.tables.rows.len() >= RUNS_MAX {
            let note = format!("more than {RUNS_MAX} runs: the rest is not read");
            reader.note(number, &note);
            break;
        }
        let object = reader.line(number, rest);
        // What follows an object on its line is another line.
        let line = rest.find('\n').map_or(rest.len(), |end| end + 1);
        let (lines, below) = rest.split_at(if object > 0 { object } else { line });
        number += lines.matches('\n').count();
        rest = below;
    }
    reader.end_open();
    reader.into_runs(source)
}

/// A report with what was written above it.
#[derive(Debug)]
struct Run {
    line: usize,
    form: Form,
    report: Report,
    context: ReportContext,
    /// The command line that made it.
    command: Option<(Command, SourceLine)>,
    /// The line with the numbers of threads and connections.
    load_line: Option<SourceLine>,
    failure: Option<String>,
}

#[derive(Debug, Default)]
struct Reader {
    path: Path,
    /// The report whose last line was not read yet.
    open: Option<Run>,
    runs: Vec<Run>,
    tables: Tables,
    notes: Vec<String>,
    is_in_code: bool,
    /// Lines of the open report that are not understood. If it is cut off, they are below it.
    unknown: Vec<(usize, String)>,
    /// Number of bytes that looked like an object but were none.
    wasted_bytes: usize,
    /// Whether a script may still add to the last finished report.
    may_be_added_to: bool,
}

impl Reader {
    /// Handles the next line, and says how many bytes of the text an object there takes.
    fn line(&mut self, number: usize, rest: &str) -> usize {
        let raw = rest.split_inclusive('\n').next().unwrap_or_default();
        let fence = lines::fence(raw.trim());
        let line = fence.unwrap_or_else(|| raw.trim());
        if fence.is_some() || line.is_empty() {
            self.tables.end();
            self.path.take(number, "", self.is_in_code);
            self.is_in_code ^= fence.is_some();
        }
        if line.is_empty() {
            return 0;
        }
        let begins = report::start(line);
        let starts_another = begins.is_some()
            || report::starts_without_first_line(line)
                && self.open.as_ref().is_none_or(|run| run.report.has(line));
        if starts_another {
            self.end_open();
            let mut report = begins.unwrap_or_default();
            // A line without its line feed may have lost a part of the URL.
            report.url.take_if(|_| !raw.ends_with('\n'));
            self.open = Some(self.run(number, report));
        } else if self.open.is_some()
            && (command::tool(line).is_some() || lines::heading(line, false).is_some())
        {
            // No line of a report looks like these.
            self.end_open();
        }
        if self.open.is_some() {
            self.line_of_report(number, line);
            return 0;
        }
        if self
            .tables
            .take(number, raw.trim_end(), &mut self.path, &mut self.notes)
        {
            self.may_be_added_to = false;
        } else if line.starts_with('{') && self.wasted_bytes < WASTED_MAX_BYTES {
            return self.object(number, line, rest);
        } else {
            self.line_between(number, line);
        }
        0
    }

    fn line_of_report(&mut self, number: usize, line: &str) {
        let Some(run) = &mut self.open else {
            return;
        };
        let is_understood = run.report.take(line);
        if run.load_line.is_none() && run.report.values.contains_key("connections") {
            run.load_line = Some(SourceLine::new(number, line));
        }
        if !is_understood {
            self.unknown.push((number, line.to_owned()));
            self.note(number, "not understood, skipped");
        } else if run.report.is_complete() {
            self.unknown.clear();
            run.report.finish();
            run.failure = run.report.failure();
            self.close();
            self.may_be_added_to = true;
        }
    }

    fn line_between(&mut self, number: usize, line: &str) {
        if report::looks_like_a_part(line) {
            self.note(number, "belongs to no report, skipped");
        } else if let Some(before) = report::start_within(line) {
            let report = format!("a report with {:?} before it", quote(before));
            let note = format!("{report}, skipped (remove this from its lines)");
            self.note(number, &note);
        }
        let is_ignored = OWN_MESSAGE.is_match(line)
            || report::looks_like_a_part(line) && Report::default().take(line);
        if !is_ignored {
            self.may_be_added_to &= self.path.take(number, line, self.is_in_code);
        }
    }

    /// Handles an object printed by a script, and says how many bytes it takes.
    fn object(&mut self, number: usize, line: &str, rest: &str) -> usize {
        let end = rest.floor_char_boundary(OBJECT_MAX_BYTES);
        match first_object(&rest[..end]) {
            Ok(object) => {
                self.add(number, &object);
                object.length
            }
            Err(none) => {
                self.wasted_bytes += none.bytes;
                self.line_between(number, line);
                if !none.is_of_something_else {
                    let note = format!("no object of json.lua ({}), skipped", none.reason);
                    self.note(number, &note);
                }
                0
            }
        }
    }

    /// Adds values written by a script: to the report above if they belong to it, else as a run of
    /// their own.
    fn add(&mut self, number: usize, object: &Object) {
        let above = self.runs.last_mut().filter(|_| self.may_be_added_to);
        match above {
            Some(run) if object.is_of(&run.report.values) => {
                // If both have a value, that of the object counts: its totals are exact, and tables
                // were made from it.
                run.report.values.extend(object.values.clone());
                run.form = Form::Object;
                run.context.passed = path::mark((run.context.passed, &object.names));
            }
            Some(_) => self.note(number, OTHER_REQUESTS),
            None => {
                self.path.take(number, &object.names, self.is_in_code);
                let mut run = self.run(number, Report::default());
                run.form = Form::Object;
                run.failure = object.failure();
                run.report.values.clone_from(&object.values);
                self.open = Some(run);
                self.close();
            }
        }
        self.may_be_added_to = false;
    }

    /// A run that begins here.
    fn run(&mut self, line: usize, report: Report) -> Run {
        self.may_be_added_to = false;
        self.tables.end();
        Run {
            line,
            form: Form::Text,
            report,
            context: self.path.begin_report(),
            command: None,
            load_line: None,
            failure: None,
        }
    }

    /// Adds the open run with its command line: the last one above that does not contradict it.
    /// Those below that one made other runs, or none.
    fn close(&mut self) {
        if let Some(mut run) = self.open.take() {
            let mut last_first = self.path.tools.iter().rev().take(COMMANDS_TRIED);
            let is_other = |tool: &&(Command, SourceLine)| !run.is_made_by(&tool.0);
            let passed = last_first.clone().take_while(is_other);
            let passed: BTreeSet<String> = passed.map(|tool| format!("{:?}", tool.0)).collect();
            let command = last_first.find(|tool| !is_other(tool)).cloned();
            (run.command, run.context.passed) = (command, path::mark(passed));
            self.runs.push(run);
        }
    }

    /// Ends a report whose last line is missing.
    fn end_open(&mut self) {
        if let Some(run) = &mut self.open {
            // Any number may be cut off, except for these, which have a word after them.
            let is_whole = |name: &str| name == "threads" || name == "connections";
            run.report.values.retain(|name, _| is_whole(name));
            run.failure = Some("the report is cut off".to_owned());
        }
        self.close();
        for (number, line) in std::mem::take(&mut self.unknown) {
            self.path.take(number, &line, self.is_in_code);
        }
    }

    fn note(&mut self, line: usize, what: &str) {
        self.notes.push(format!("line {line}: {what}"));
        self.notes.truncate(NOTES_KEPT);
    }

    fn into_runs(mut self, source: &str) -> Reading {
        path::unite_passes(&mut self.runs);
        let names = Names::of(&self.runs);
        // So far, all notes are about skipped lines.
        let has_skipped_lines = !self.notes.is_empty();
        let mut notes = limited(self.notes, "more notes are not shown");
        notes.extend(self.tables.wrong_averages());
        let mut found = self.tables.rows;
        let observed = |run: &Run| (run.line, names.observation(run));
        found.extend(self.runs.iter().map(observed));
        found.sort_by_key(|(line, _)| *line);
        let source_of = |line: usize| format!("{source}:{line}");
        for (position, (line, run)) in (1..).zip(&mut found) {
            (run.position, run.source) = (Some(position), source_of(*line));
        }
        let mut observations: Vec<Observation> = found.into_iter().map(|(_, run)| run).collect();
        let runs = self.runs.iter();
        let runs = runs.map(|run| (source_of(run.line), run)).collect();
        notes.extend(drop_copies(std::iter::once(&mut observations)));
        tables::name_tables(&mut observations);
        text_names::keep_apart(&mut observations, &runs);
        renumber_duplicates(&mut observations);
        Reading {
            observations,
            notes,
            has_skipped_lines,
            ..Reading::default()
        }
    }
}

const OTHER_REQUESTS: &str = "the object of json.lua has another number of requests, or another \
     rate, than the report above it, skipped";

/// A message of wrkbench, which is among its reports if both are saved in one file: a sentence of
/// at least five words.
static OWN_MESSAGE: LazyLock<Regex> = LazyLock::new(|| regex(r"^wrkbench:(\s+\S+){5}"));

impl Run {
    fn url(&self) -> Option<&str> {
        let of_command = || self.command()?.url.as_deref();
        self.report.url.as_deref().or_else(of_command)
    }

    fn command(&self) -> Option<&Command> {
        self.command.as_ref().map(|(command, _)| command)
    }

    /// A count that the report has.
    fn printed(&self, name: &str) -> Option<u64> {
        self.report.values.get(name).map(|count| *count as u64)
    }

    /// How long it was to last. The first line rounds that: 90 s are `2m` there.
    fn planned(&self) -> Option<Duration> {
        let of_command = || units::parse_time(self.command()?.value("d")?).ok();
        let Some(printed) = self.report.duration.as_deref() else {
            return of_command();
        };
        let step_s = if printed.ends_with('h') { 600.0 } else { 10.0 };
        let took_us = self.report.values.get(results::metric::DURATION_US);
        let of_total = took_us.map(|took_us| (took_us / 1e6 / step_s).round() * step_s);
        let of_total = of_total.and_then(|total_s| Duration::try_from_secs_f64(total_s).ok());
        let is_printed_so =
            |it: &Duration| !printed.ends_with('s') && units::banner_duration(*it) == printed;
        let planned = of_command().filter(is_printed_so);
        let planned = planned.or_else(|| of_total.filter(is_printed_so));
        planned.or_else(|| units::parse_time(printed).ok())
    }

    /// Whether a command line does not contradict the report.
    fn is_made_by(&self, command: &Command) -> bool {
        fn agree<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
            one.zip(other).is_none_or(|(one, other)| one == other)
        }
        let too_fast = |rate: u64| {
            let reached = self.report.values.get(results::metric::REQUESTS_PER_SEC);
            reached.is_some_and(|reached| *reached > rate as f64 * RATE_EXCEEDED)
        };
        let duration = command
            .value("d")
            .and_then(|text| units::parse_time(text).ok());
        let duration = duration.map(units::banner_duration);
        agree(command.url.as_deref(), self.report.url.as_deref())
            && agree(duration, self.report.duration.clone())
            && !command.count("R").is_some_and(too_fast)
            && agree(command.count("t"), self.printed("threads"))
            && agree(command.count("c"), self.printed("connections"))
    }
}
