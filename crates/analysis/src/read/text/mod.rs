//! Text printed by wrk, wrk2, wrk-cmm and wrkbench's own styles: one report, or many with notes
//! between them, and tables of runs.
//!
//! A report counts if its last line is there; a report that is cut off is a failed run. Lines that
//! are not understood are skipped with a note.

mod clean;
mod heading;
pub(crate) mod names;
mod printed;
mod report;
mod rounds;

use std::collections::{BTreeMap, BTreeSet};

use results::Setting;

use super::foreign_json::{self, NoObject};
use super::rows::{self, Columns, Row};
use super::script_csv;
use crate::Observation;
use crate::observation::Form;
use heading::{Command, Context, LineMeaning, SourceLine, Title};
use names::Names;
use report::{LineUse, Report};

/// The runs of a text.
#[derive(Debug, Default)]
pub(crate) struct TextRuns {
    /// The runs in the order of the text.
    pub(crate) observations: Vec<Observation>,
    /// What was skipped, with line numbers.
    pub(crate) notes: Vec<String>,
}

/// Limit on the runs of one text.
const RUNS_MAX: usize = 10_000;

/// Limit on notes about one text.
const NOTES_MAX: usize = 20;

/// Limit on the length of an object printed by a script.
const OBJECT_MAX_BYTES: usize = 64 << 10;

/// Limit on the length of a line of a table.
const ROW_MAX_BYTES: usize = 64 << 10;

/// Limit on text that looks like objects but is not. Further objects are not tried, since parsing
/// would take long.
const WASTED_MAX_BYTES: usize = 4 << 20;

/// Limit on the lines between two reports that are kept and shown as ignored.
const IGNORED_MAX: usize = 50;

/// A report with more than this many times the rate of the command line above it does not belong to
/// that command. wrk2 slightly exceeds its rate at the start, but not by a factor of two.
const RATE_EXCEEDED: f64 = 2.0;

/// Reads all runs of a text. `source` is the name of the file.
pub(crate) fn read(text: &str, source: &str) -> TextRuns {
    let clean::Cleaned { text, removed } = clean::cleaned(text);
    let mut reader = Reader::default();
    let mut offset = 0;
    for (index, raw) in text.split_inclusive('\n').enumerate() {
        if reader.runs.len() + reader.rows.len() >= RUNS_MAX {
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
    if removed > 0 {
        reader
            .notes
            .push(format!("{removed} removed lines of a diff are not read"));
    }
    reader.into_runs(source)
}

/// A report with what was written above it.
#[derive(Debug)]
struct Run {
    line: usize,
    form: Form,
    report: Report,
    titles: Vec<Title>,
    settings: Vec<(Setting, SourceLine)>,
    round: Option<(u32, SourceLine)>,
    command: Option<(Command, SourceLine)>,
    /// The line with the numbers of threads and connections.
    load_line: Option<SourceLine>,
    /// Lines since the report above that were not used.
    ignored: Vec<Ignored>,
    failure: Option<String>,
}

/// A line that was not used, and why.
#[derive(Debug, Clone)]
struct Ignored {
    line: SourceLine,
    why: &'static str,
}

/// A table that may continue.
#[derive(Debug)]
struct Table {
    columns: Columns,
    is_markdown: bool,
}

#[derive(Debug, Default)]
struct Reader {
    context: Context,
    /// The report whose last line was not read yet.
    open: Option<Run>,
    runs: Vec<Run>,
    /// Runs of tables, each with its line.
    rows: Vec<(usize, Observation)>,
    table: Option<Table>,
    notes: Vec<String>,
    unsaid_notes: usize,
    /// The first and the last of consecutive lines that were not understood.
    skipped: Option<(usize, usize)>,
    /// The line directly above, if it is outside of reports and was not used.
    above: Option<SourceLine>,
    /// The same line unchanged, since it may contain the titles of a table.
    above_whole: String,
    /// Lines since the last report that were not used.
    ignored: Vec<Ignored>,
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
        if line.is_empty() || line.starts_with("```") {
            self.forget_above();
            self.table = None;
            if line.is_empty() {
                self.context.blank();
            }
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
            self.flush_skipped();
        } else if self.open.is_some() && heading::is_outside_of_reports(line) {
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
            self.object(number, rest);
        } else if let Some(values) = script_csv::line(raw) {
            self.add(number, values, "a line of csv.lua");
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
                self.flush_skipped();
            }
            LineUse::Last => {
                self.flush_skipped();
                if let Some(mut run) = self.open.take() {
                    run.report.finish();
                    run.failure = run.report.failure();
                    self.runs.push(run);
                    self.may_be_added_to = true;
                }
            }
            LineUse::Unknown => {
                let first = self.skipped.map_or(number, |(first, _)| first);
                self.skipped = Some((first, number));
            }
        }
    }

    fn line_between(&mut self, number: usize, line: &str) {
        if report::looks_like_a_part(line) {
            // Its report is missing, so it says nothing about the next one.
            self.note(number, format_args!("belongs to no report, skipped"));
            self.ignore(
                SourceLine::new(number, line),
                "a part of a report that is not there",
            );
            self.forget_above();
            return;
        }
        let taken = self.context.take(number, line, self.above.as_ref());
        for dropped in self.context.take_dropped() {
            self.ignore(dropped, "no report follows this label");
        }
        let noted = SourceLine::new(number, line);
        match taken {
            LineMeaning::Understood => {
                self.may_be_added_to = false;
                self.forget_above();
                return;
            }
            LineMeaning::RuleBelow => {
                let heading = self.above.take().map(|above| above.number);
                self.ignored
                    .retain(|ignored| Some(ignored.line.number) != heading);
                self.may_be_added_to = false;
                self.forget_above();
                return;
            }
            LineMeaning::Label => self.may_be_added_to = false,
            LineMeaning::Nothing => self.ignore(noted.clone(), "not understood"),
        }
        self.above_whole.clear();
        if line.len() <= ROW_MAX_BYTES {
            self.above_whole.push_str(line);
        }
        self.above = Some(noted);
    }

    fn forget_above(&mut self) {
        self.above = None;
        self.above_whole.clear();
    }

    /// Keeps a line that was not used. Rules and other decoration name nothing.
    fn ignore(&mut self, line: SourceLine, why: &'static str) {
        let has_words = line.text.chars().any(char::is_alphanumeric);
        if has_words && self.ignored.len() < IGNORED_MAX {
            self.ignored.push(Ignored { line, why });
        }
    }

    /// Handles a line of a table of runs, or the line that shows that a table has begun.
    fn row(&mut self, number: usize, line: &str) -> bool {
        if line.len() > ROW_MAX_BYTES {
            return false;
        }
        if let Some(table) = self.table.take() {
            if let Some(cells) = cells(line, table.is_markdown)
                && cells.len() == table.columns.len()
            {
                self.add_row(number, &table.columns, &cells);
                self.table = Some(table);
                return true;
            }
        } else if let Some(table) = self.begun_table(line) {
            if !table.is_markdown
                && let Some(cells) = cells(line, false)
            {
                self.add_row(number, &table.columns, &cells);
            }
            let titles = self.above.take().map(|above| above.number);
            self.ignored
                .retain(|ignored| Some(ignored.line.number) != titles);
            self.forget_above();
            self.table = Some(table);
            return true;
        }
        false
    }

    /// The table whose titles are in the line above.
    fn begun_table(&self, line: &str) -> Option<Table> {
        self.above.as_ref()?;
        let is_markdown = rows::is_markdown_rule(line);
        let titles = cells(&self.above_whole, is_markdown)?;
        let is_long_enough = cells(line, is_markdown)?.len() == titles.len();
        let is_of_runs = is_markdown || {
            let has_number = line.bytes().any(|b| b.is_ascii_digit());
            has_number && titles.iter().any(|title| is_own_title(title))
        };
        let columns = Columns::of(&titles).filter(|_| is_long_enough && is_of_runs)?;
        Some(Table {
            columns,
            is_markdown,
        })
    }

    fn add_row(&mut self, number: usize, columns: &Columns, cells: &[String]) {
        let above = self.rows.last_mut().map(|(_, run)| run);
        match columns.row(cells, above) {
            Row::Run(run) if run.values.is_empty() && run.failure.is_none() => {
                self.note(number, format_args!("a row without figures, skipped"));
            }
            Row::Run(mut run) => {
                self.context.confirm_pending();
                let titles = self.context.titles();
                let heading = titles.last().map(|title| Setting {
                    factor: TABLE.to_owned(),
                    level: title.text.clone(),
                });
                run.settings.splice(0..0, heading);
                self.rows.push((number, *run));
            }
            Row::More | Row::Summary => {}
            Row::NotUnderstood(column) => {
                self.note(
                    number,
                    format_args!("the column {column:?} is not understood, skipped"),
                );
            }
        }
    }

    /// Handles an object printed by a script.
    fn object(&mut self, number: usize, rest: &str) {
        let mut end = rest.len().min(OBJECT_MAX_BYTES);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        match foreign_json::first(&rest[..end]) {
            Ok((values, length)) => {
                self.skip_until = self.offset + length;
                self.add(number, values, "the object of json.lua");
            }
            Err(NoObject { reason, bytes }) => {
                self.wasted_bytes += bytes;
                self.note(
                    number,
                    format_args!("no object of json.lua ({reason}), skipped"),
                );
            }
        }
    }

    /// Adds values written by a script: to the report above if they belong to it, else as a run of
    /// their own.
    fn add(&mut self, number: usize, values: BTreeMap<String, f64>, what: &str) {
        let requests = values.get(results::metric::REQUESTS).copied();
        let above = self.runs.last_mut().filter(|_| self.may_be_added_to);
        self.may_be_added_to = false;
        match above {
            Some(run) if run.report.values.get(results::metric::REQUESTS).copied() == requests => {
                // If both have a value, that of the object counts: its totals are exact, and tables
                // were made from it.
                run.report.values.extend(values);
            }
            Some(_) => self.note(
                number,
                format_args!(
                    "{what} has another number of requests than the report above it, skipped"
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
                    self.runs.push(run);
                }
            }
        }
    }

    fn open_run(&mut self, line: usize, report: Report) {
        self.context.confirm_pending();
        self.may_be_added_to = false;
        self.table = None;
        self.forget_above();
        self.ignored.sort_by_key(|ignored| ignored.line.number);
        self.open = Some(Run {
            line,
            form: Form::Text,
            report,
            titles: self.context.titles(),
            settings: self.context.settings(),
            round: self.context.round(),
            command: self.context.command.clone(),
            load_line: None,
            ignored: std::mem::take(&mut self.ignored),
            failure: None,
        });
    }

    /// Ends a report whose last line is missing.
    fn end_open(&mut self) {
        self.flush_skipped();
        if let Some(mut run) = self.open.take() {
            // Any number may be cut off, except for these, which have a word after them.
            run.report
                .values
                .retain(|name, _| name == "threads" || name == "connections");
            run.failure = Some("the report is cut off".to_owned());
            self.runs.push(run);
        }
    }

    fn end(&mut self) {
        self.end_open();
        if self.unsaid_notes > 0 {
            self.notes
                .push(format!("{} more notes are not shown", self.unsaid_notes));
        }
    }

    fn flush_skipped(&mut self) {
        match self.skipped.take() {
            Some((first, last)) if first == last => {
                self.note(first, format_args!("not understood, skipped"));
            }
            Some((first, last)) => {
                self.note(
                    first,
                    format_args!("and up to line {last}: not understood, skipped"),
                );
            }
            None => {}
        }
    }

    fn note(&mut self, line: usize, what: std::fmt::Arguments<'_>) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(format!("line {line}: {what}"));
        } else {
            self.unsaid_notes += 1;
        }
    }

    fn into_runs(self, source: &str) -> TextRuns {
        let mut names = Names::of(&self.runs);
        let mut notes = self.notes;
        notes.append(&mut names.notes);
        let naming = NamingText::of(&self.runs);
        let mut found: Vec<(usize, Observation)> = Vec::with_capacity(self.runs.len());
        for (index, run) in self.runs.into_iter().enumerate() {
            found.push((run.line, names.observation(index, run, source)));
        }
        notes.extend(naming.notes(&found));
        let has_one_table = self
            .rows
            .windows(2)
            .all(|pair| pair[0].1.settings.first() == pair[1].1.settings.first());
        for (line, mut row) in self.rows {
            row.source = format!("{source}:{line}");
            if has_one_table
                && row
                    .settings
                    .first()
                    .is_some_and(|setting| setting.factor == TABLE)
            {
                row.settings.remove(0);
            }
            found.push((line, row));
        }
        found.sort_by_key(|(line, _)| *line);
        let mut observations: Vec<Observation> = found.into_iter().map(|(_, run)| run).collect();
        for (position, observation) in (1..).zip(&mut observations) {
            observation.position = observation.position.or(Some(position));
        }
        number(&mut observations);
        TextRuns {
            observations,
            notes,
        }
    }
}

/// The setting whose levels are the headings above several tables.
const TABLE: &str = "table";

/// Numbers the runs within their cells: by their rounds and numbers if they have them, else from 1.
fn number(observations: &mut [Observation]) {
    let is_numbered = |run: &Observation| run.form == Form::Table;
    let mut numbers: Vec<Option<u32>> = Vec::with_capacity(observations.len());
    for run in observations.iter() {
        numbers.push(run.round.or_else(|| is_numbered(run).then_some(run.run)));
    }
    crate::read::number_runs(observations);
    for (run, number) in observations.iter_mut().zip(numbers) {
        run.run = number.unwrap_or(run.run);
    }
    crate::read::renumber_duplicates(observations);
}

/// The cells of a line that may belong to a table.
fn cells(line: &str, is_markdown: bool) -> Option<Vec<String>> {
    match is_markdown {
        true if line.contains('|') => Some(rows::markdown_cells(line)),
        false if line.contains(',') => rows::csv_cells(line),
        _ => None,
    }
}

/// Whether a title is one of our own tables'. Other lines with commas are prose.
fn is_own_title(title: &str) -> bool {
    title == "metric" || results::Metric::is_name(title)
}

/// Text between reports that may name a run but was not understood.
struct NamingText {
    /// For each run, the first such line that is above no other run.
    lines: Vec<Option<SourceLine>>,
}

impl NamingText {
    fn of(runs: &[Run]) -> Self {
        // What scripts print after each report is the same except for its figures, and names
        // nothing.
        let shape = |ignored: &Ignored| -> String {
            let letters = ignored.line.text.chars().filter(|c| !c.is_ascii_digit());
            letters.collect()
        };
        let mut above: BTreeMap<String, usize> = BTreeMap::new();
        for run in runs {
            let shapes: BTreeSet<String> = run.ignored.iter().map(shape).collect();
            for shape in shapes {
                *above.entry(shape).or_default() += 1;
            }
        }
        let is_naming = |ignored: &&Ignored| {
            let text = &ignored.line.text;
            let has_letters = text.chars().any(char::is_alphabetic);
            let is_part = report::looks_like_a_part(text);
            has_letters && !is_part && above.get(&shape(ignored)) == Some(&1)
        };
        let first = |run: &Run| {
            let found = run.ignored.iter().find(is_naming)?;
            Some(found.line.clone())
        };
        Self {
            lines: runs.iter().map(first).collect(),
        }
    }

    /// Notes on runs that count as repetitions although such text is above them.
    fn notes(self, runs: &[(usize, Observation)]) -> Vec<String> {
        let mut first_of: BTreeMap<_, usize> = BTreeMap::new();
        let mut notes = Vec::new();
        for ((line, run), text) in runs.iter().zip(self.lines) {
            let key = (&run.settings, &run.profile, &run.target);
            let first = *first_of.entry(key).or_insert(*line);
            if first == *line || run.round.is_some() || notes.len() == NOTES_MAX {
                continue;
            }
            if let Some(text) = text {
                notes.push(format!(
                    "{text} was not understood: the run of line {line} counts as a repetition of \
                     that of line {first}"
                ));
            }
        }
        notes
    }
}

impl Run {
    fn load(&self) -> (Option<u64>, Option<u64>) {
        let command = self.own_command();
        let of_banner = |name: &str| self.report.values.get(name).map(|count| *count as u64);
        (
            of_banner("threads").or_else(|| command?.threads),
            of_banner("connections").or_else(|| command?.connections),
        )
    }

    fn url(&self) -> Option<&str> {
        let of_command = || self.own_command()?.url.as_deref();
        self.report.url.as_deref().or_else(of_command)
    }

    /// The command line above, unless the report contradicts it.
    fn own_command(&self) -> Option<&Command> {
        let (command, _) = self.command.as_ref()?;
        let reported = |name: &str| self.report.values.get(name).map(|count| *count as u64);
        let agree = |a: Option<u64>, b: Option<u64>| a.is_none() || b.is_none() || a == b;
        let urls = match (&command.url, &self.report.url) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        let too_fast = |rate: u64| {
            let reached = self.report.values.get(results::metric::REQUESTS_PER_SEC);
            reached.is_some_and(|reached| *reached > rate as f64 * RATE_EXCEEDED)
        };
        let is_own = urls
            && !command.rate.is_some_and(too_fast)
            && agree(command.threads, reported("threads"))
            && agree(command.connections, reported("connections"));
        is_own.then_some(command)
    }
}
