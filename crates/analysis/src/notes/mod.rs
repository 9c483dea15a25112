//! Text printed by wrk, wrk2, wrk-cmm and wrkbench's own styles: one report, or many with notes
//! between them, and tables of runs.
//!
//! A report counts if its last line is there; a report that is cut off is a failed run. Lines of a
//! report that are not understood are skipped with a note. All lines between reports are in the
//! path of names (`path.rs`), which decides what is a repetition of what. Some of them name the
//! runs (`context.rs`, `names.rs`), and the others where nothing else distinguishes two runs
//! (`text_names.rs`).

mod clean;
mod command;
mod context;
mod lines;
mod names;
mod path;
mod printed;
mod report;
mod rounds;
mod rows;
mod script_object;
mod tables;
mod text_names;

use std::collections::BTreeMap;
use std::time::Duration;

use plan::units;

use crate::repetitions::{drop_copies, number_runs, renumber_duplicates};
use crate::{Form, Observation};
use command::Command;
use context::{Context, Situation};
use lines::SourceLine;
pub(crate) use lines::quote;
use names::Names;
use report::{LineUse, Report};
use script_object::NoObject;
pub(crate) use script_object::first as first_object;
use tables::Tables;
pub(crate) use text_names::TEXT;

/// The settings whose levels are the outermost headings of notes.
pub(crate) const HEADINGS: [&str; 2] = [results::PLACE_FACTOR, names::HEADING];

/// The runs of a text.
#[derive(Debug, Default)]
pub(crate) struct TextRuns {
    /// The runs in the order of the text.
    pub(crate) observations: Vec<Observation>,
    /// What was skipped or is worth knowing, with line numbers.
    pub(crate) notes: Vec<String>,
    /// Whether lines were skipped that may be results.
    pub(crate) has_skipped_lines: bool,
}

/// Limit on the runs of one text.
const RUNS_MAX: usize = 10_000;

/// Limit on notes about one text.
const NOTES_MAX: usize = 20;

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

/// Reads all runs of a text. `source` is the name of the file.
pub(crate) fn read(text: &str, source: &str) -> TextRuns {
    let text = clean::cleaned(text);
    let mut reader = Reader::default();
    let mut offset = 0;
    for (index, raw) in text.split_inclusive('\n').enumerate() {
        if reader.runs.len() + reader.tables.len() >= RUNS_MAX {
            reader.note(
                index + 1,
                format_args!("more than {RUNS_MAX} runs: the rest is not read"),
            );
            break;
        }
        reader.offset = offset;
        offset += raw.len();
        if reader.offset >= reader.skip_until {
            reader.line(index + 1, raw, &text[reader.offset..]);
        }
    }
    reader.end();
    reader.into_runs(source)
}

/// A report with what was written above it.
#[derive(Debug)]
struct Run {
    line: usize,
    form: Form,
    report: Report,
    situation: Situation,
    /// The command line that made it.
    command: Option<(Command, SourceLine)>,
    /// The line with the numbers of threads and connections.
    load_line: Option<SourceLine>,
    failure: Option<String>,
}

#[derive(Debug, Default)]
struct Reader {
    context: Context,
    /// The report whose last line was not read yet.
    open: Option<Run>,
    runs: Vec<Run>,
    tables: Tables,
    notes: Vec<String>,
    unsaid_notes: usize,
    is_in_code: bool,
    /// Lines of the open report that are not understood. If it is cut off, they are below it.
    unknown: Vec<(usize, String)>,
    /// A line that continues in the next one, as far as it was read, and the number of its first
    /// line.
    continued: Option<(usize, String)>,
    /// Text up to this offset has been read, as an object.
    skip_until: usize,
    /// Offset of the current line.
    offset: usize,
    /// Number of bytes that looked like an object but were none.
    wasted_bytes: usize,
    /// Whether a script may still add to the last finished report.
    may_be_added_to: bool,
}

impl Reader {
    fn line(&mut self, number: usize, raw: &str, rest: &str) {
        let line = raw.trim();
        let is_fence = lines::is_fence(line);
        if line.is_empty() || is_fence {
            self.end_continued();
            self.tables.end();
            self.context.take(number, "", self.is_in_code);
            self.is_in_code ^= is_fence;
            return;
        }
        let mut begins = report::start(line);
        if let Some(report) = begins.as_mut().filter(|_| !raw.ends_with('\n')) {
            // A line without its line feed may have lost a part of the URL.
            report.url = None;
        }
        let starts_another = begins.is_some()
            || report::starts_without_first_line(line)
                && self.open.as_ref().is_none_or(|run| run.report.has(line));
        if starts_another {
            self.end_open();
            self.open_run(number, begins.unwrap_or_default());
        } else if self.open.is_some() && lines::is_outside_of_reports(line) {
            self.end_open();
        }
        if self.open.is_some() {
            self.line_of_report(number, line);
            return;
        }
        if self.row(number, line) {
            return;
        }
        if line.starts_with('{') && self.wasted_bytes < WASTED_MAX_BYTES {
            self.object(number, line, rest);
        } else {
            self.line_between(number, line);
        }
    }

    fn line_of_report(&mut self, number: usize, line: &str) {
        let Some(run) = &mut self.open else {
            return;
        };
        if report::start(line).is_some() {
            return;
        }
        let knew_load = run.report.values.contains_key("connections");
        match run.report.take(line) {
            LineUse::Taken => {
                if !knew_load && run.report.values.contains_key("connections") {
                    run.load_line = Some(SourceLine::new(number, line));
                }
            }
            LineUse::Last => {
                self.unknown.clear();
                if let Some(mut run) = self.open.take() {
                    run.report.finish();
                    run.failure = run.report.failure();
                    self.close(run);
                    self.may_be_added_to = true;
                }
            }
            LineUse::Unknown => {
                self.unknown.push((number, line.to_owned()));
                self.note(number, format_args!("not understood, skipped"));
            }
        }
    }

    /// Handles a line between reports. One that ends in `\` continues in the next one.
    fn line_between(&mut self, number: usize, line: &str) {
        let begun = self.continued.take();
        let (number, mut whole) = begun.unwrap_or((number, String::new()));
        match line.strip_suffix('\\') {
            Some(line) => {
                whole += line.trim_end();
                whole.push(' ');
                self.continued = Some((number, whole));
            }
            None => self.whole_line_between(number, &(whole + line)),
        }
    }

    /// Handles a line that was to continue, but has nothing below it.
    fn end_continued(&mut self) {
        if let Some((number, line)) = self.continued.take() {
            self.whole_line_between(number, line.trim_end());
        }
    }

    fn whole_line_between(&mut self, number: usize, line: &str) {
        if report::looks_like_a_part(line) {
            // Its report is missing, so it says nothing about the next one.
            self.note(number, format_args!("belongs to no report, skipped"));
        } else if let Some(before) = report::start_within(line) {
            let before = quote(before);
            self.note(
                number,
                format_args!(
                    "a report with {before:?} before it, skipped (remove this from its lines)"
                ),
            );
        } else if !line.starts_with(OWN_MESSAGE) {
            self.may_be_added_to &= self.context.take(number, line, self.is_in_code);
        }
    }

    /// Handles a line of a table of runs, or the line that shows that a table has begun.
    fn row(&mut self, number: usize, line: &str) -> bool {
        let context = &mut self.context;
        let begin = || {
            context.forget_line_above();
            context.begin_report()
        };
        let taken = self.tables.take(number, line, begin);
        for note in self.tables.take_notes() {
            self.say(note);
        }
        self.may_be_added_to &= !taken;
        taken
    }

    /// Handles an object printed by a script.
    fn object(&mut self, number: usize, line: &str, rest: &str) {
        let mut end = rest.len().min(OBJECT_MAX_BYTES);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        match first_object(&rest[..end]) {
            Ok((values, length)) => {
                self.skip_until = self.offset + length;
                self.add(number, values);
            }
            Err(NoObject {
                reason,
                bytes,
                is_of_something_else,
            }) => {
                self.wasted_bytes += bytes;
                self.line_between(number, line);
                if !is_of_something_else {
                    self.note(
                        number,
                        format_args!("no object of json.lua ({reason}), skipped"),
                    );
                }
            }
        }
    }

    /// Adds values written by a script: to the report above if they belong to it, else as a run of
    /// their own.
    fn add(&mut self, number: usize, values: BTreeMap<String, f64>) {
        let requests = values.get(results::metric::REQUESTS).copied();
        let above = self.runs.last_mut().filter(|_| self.may_be_added_to);
        self.may_be_added_to = false;
        match above {
            Some(run) if run.report.values.get(results::metric::REQUESTS).copied() == requests => {
                // If both have a value, that of the object counts: its totals are exact, and tables
                // were made from it.
                run.report.values.extend(values);
                run.form = Form::Object;
            }
            Some(_) => self.note(
                number,
                format_args!(
                    "the object of json.lua has another number of requests than the report above \
                     it, skipped"
                ),
            ),
            None => {
                let failure = (requests == Some(0.0)).then(|| "nothing was answered".to_owned());
                let mut report = Report::default();
                report.values = values;
                self.open_run(number, report);
                if let Some(mut run) = self.open.take() {
                    run.form = Form::Object;
                    run.failure = failure;
                    self.close(run);
                }
            }
        }
    }

    fn open_run(&mut self, line: usize, report: Report) {
        self.end_continued();
        self.may_be_added_to = false;
        self.tables.end();
        let situation = self.context.begin_report();
        self.open = Some(Run {
            line,
            form: Form::Text,
            report,
            situation,
            command: None,
            load_line: None,
            failure: None,
        });
    }

    /// Adds a run with its command line: the last one above that does not contradict it.
    fn close(&mut self, mut run: Run) {
        let above = self.context.tools.get(..run.situation.tools);
        let mut last_first = above.unwrap_or_default().iter().rev().take(COMMANDS_TRIED);
        run.command = last_first
            .find(|(command, _)| run.is_made_by(command))
            .cloned();
        self.runs.push(run);
    }

    /// Ends a report whose last line is missing.
    fn end_open(&mut self) {
        if let Some(mut run) = self.open.take() {
            // Any number may be cut off, except for these, which have a word after them.
            run.report
                .values
                .retain(|name, _| name == "threads" || name == "connections");
            run.failure = Some("the report is cut off".to_owned());
            self.close(run);
        }
        for (number, line) in std::mem::take(&mut self.unknown) {
            self.context.take(number, &line, self.is_in_code);
        }
    }

    fn end(&mut self) {
        self.end_open();
        if self.unsaid_notes > 0 {
            self.notes
                .push(format!("{} more notes are not shown", self.unsaid_notes));
        }
    }

    fn note(&mut self, line: usize, what: std::fmt::Arguments<'_>) {
        self.say(format!("line {line}: {what}"));
    }

    fn say(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(note);
        } else {
            self.unsaid_notes += 1;
        }
    }

    fn into_runs(mut self, source: &str) -> TextRuns {
        let places = self.runs.iter_mut().map(|run| &mut run.situation.place);
        path::unite_passes(&mut places.collect::<Vec<_>>());
        let names = Names::of(&self.runs);
        // So far, all notes are about skipped lines.
        let has_skipped_lines = !self.notes.is_empty();
        let mut notes = self.notes;
        let mut above: BTreeMap<String, (usize, Situation)> = BTreeMap::new();
        let mut found: Vec<(usize, Observation)> = Vec::with_capacity(self.runs.len());
        for run in self.runs {
            let (line, situation) = (run.line, run.situation.clone());
            let observation = names.observation(run, source);
            above.insert(observation.source.clone(), (line, situation));
            found.push((line, observation));
        }
        notes.extend(self.tables.wrong_averages());
        let (rows, table_names) = self.tables.into_rows(source);
        found.extend(rows);
        found.sort_by_key(|(line, _)| *line);
        let mut observations: Vec<Observation> = found.into_iter().map(|(_, run)| run).collect();
        notes.extend(drop_copies(std::iter::once(&mut observations)));
        tables::name_tables(&mut observations, &table_names);
        text_names::keep_apart(&mut observations, &above);
        for (position, observation) in (1..).zip(&mut observations) {
            observation.position = observation.position.or(Some(position));
        }
        number(&mut observations);
        TextRuns {
            observations,
            notes,
            has_skipped_lines,
        }
    }
}

/// How messages of wrkbench begin, which are among its reports if both are saved in one file.
const OWN_MESSAGE: &str = "wrkbench: ";

/// Numbers the runs within their cells: by their rounds and numbers if they have them, else from 1.
fn number(observations: &mut [Observation]) {
    let known = |run: &Observation| {
        run.round
            .or_else(|| (run.form == Form::Table).then_some(run.run))
    };
    let numbers: Vec<Option<u32>> = observations.iter().map(known).collect();
    number_runs(observations);
    for (run, number) in observations.iter_mut().zip(numbers) {
        run.run = number.unwrap_or(run.run);
    }
    renumber_duplicates(observations);
}

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

    /// How long it was to last, if the first line rounds that: 90 s are `2m` there.
    fn lasted(&self) -> Option<Duration> {
        let printed = self.report.duration.as_deref()?;
        let step_s = match printed.bytes().last()? {
            b'm' => 10.0,
            b'h' => 600.0,
            _ => return None,
        };
        let is_printed_so = |duration: &Duration| units::banner_duration(*duration) == printed;
        let of_command = || units::parse_time(self.command()?.duration.as_deref()?).ok();
        let of_total = || {
            let took_us = self.report.values.get(results::metric::DURATION_US)?;
            let steps = (took_us / 1e6 / step_s).round();
            Duration::try_from_secs_f64(steps * step_s).ok()
        };
        let lasted = of_command().filter(is_printed_so).or_else(of_total);
        lasted.filter(|lasted| is_printed_so(lasted) && units::parse_time(printed) != Ok(*lasted))
    }

    /// The duration as an option of the command line.
    fn duration(&self) -> Option<String> {
        let lasted = self.lasted().map(|lasted| format!("{}s", lasted.as_secs()));
        lasted.or_else(|| self.report.duration.clone())
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
        let duration = command.duration.as_deref();
        let duration = duration.and_then(|text| units::parse_time(text).ok());
        agree(command.url.as_deref(), self.report.url.as_deref())
            && agree(
                duration.map(units::banner_duration),
                self.report.duration.clone(),
            )
            && !command.rate.is_some_and(too_fast)
            && agree(command.threads, self.printed("threads"))
            && agree(command.connections, self.printed("connections"))
    }
}
