//! The text that wrk, wrk2, wrk-cmm and our own styles print, one report or many with notes between.
//!
//! A report counts when its last line is there; one that was cut off is a run that failed. What is not
//! understood is skipped and said.

mod heading;
mod printed;
mod report;

use std::collections::BTreeMap;

use results::Setting;

use super::foreign_json::{self, NoObject};
use super::script_csv;
use crate::Observation;
use heading::{Command, Context};
use report::{Line, Report};

/// What a text has.
#[derive(Debug, Default)]
pub(crate) struct TextRuns {
    /// In the order of the text.
    pub(crate) observations: Vec<Observation>,
    /// What was skipped, each with its line.
    pub(crate) notes: Vec<String>,
}

/// More runs in one text are not read.
const RUNS_MAX: usize = 10_000;

/// More notes would not be read either.
const NOTES_MAX: usize = 20;

/// An object that a script printed is no longer than this.
const OBJECT_MAX_BYTES: usize = 64 << 10;

/// A text with more of what looks like objects and is none would take long: what follows is not tried.
const WASTED_MAX_BYTES: usize = 4 << 20;

/// A report with more than this many times the rate of the command line above it is not of that command:
/// wrk2 sends somewhat more than was asked for at its beginning, not twice as much.
const RATE_EXCEEDED: f64 = 2.0;

/// Reads all runs of a text that was found there.
pub(crate) fn read(text: &str, source: &str) -> TextRuns {
    let mut reader = Reader::default();
    let mut offset = 0;
    for (index, raw) in text.split_inclusive('\n').enumerate() {
        if reader.runs.len() >= RUNS_MAX {
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

/// A report with what stood above it.
#[derive(Debug)]
struct Run {
    line: usize,
    report: Report,
    titles: Vec<String>,
    settings: Vec<Setting>,
    command: Option<Command>,
    failure: Option<String>,
}

#[derive(Debug, Default)]
struct Reader {
    context: Context,
    /// The report that is not finished.
    open: Option<Run>,
    runs: Vec<Run>,
    notes: Vec<String>,
    unsaid_notes: usize,
    /// Lines in a row that were not understood: the first and the last.
    skipped: Option<(usize, usize)>,
    /// The last line outside of reports, if nothing was made of it.
    above: Option<String>,
    /// Up to this offset the text was read already, as an object.
    skip_until: usize,
    /// Offset of the line, as objects count from it.
    offset: usize,
    /// Bytes that looked like an object and were none.
    wasted_bytes: usize,
    /// A finished report that a script may still add to.
    may_be_added_to: bool,
}

impl Reader {
    fn line(&mut self, number: usize, raw: &str, rest: &str) {
        let line = bare(raw);
        if line.is_empty() || line.starts_with("```") {
            self.above = None;
            return;
        }
        let mut begins = report::begin(line);
        if let Some(report) = begins.as_mut().filter(|_| !raw.ends_with('\n')) {
            // A line without its end may have lost a part of the URL.
            report.url = None;
        }
        let begins_anew = begins.is_some()
            || report::begins_without_first_line(line)
                && self.open.as_ref().is_none_or(|run| run.report.has(line));
        if begins_anew {
            self.end_open();
            self.open_run(number, begins.unwrap_or_default());
            self.flush_skipped();
        } else if self.open.is_some() && heading::is_outside_of_reports(line) {
            self.end_open();
        }
        if self.open.is_some() {
            self.line_of_report(number, line);
        } else if line.starts_with('{') && self.wasted_bytes < WASTED_MAX_BYTES {
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
        if report::begin(line).is_some() {
            return;
        }
        match run.report.take(line) {
            Line::Taken => self.flush_skipped(),
            Line::Last => {
                self.flush_skipped();
                if let Some(mut run) = self.open.take() {
                    run.report.finish();
                    run.failure = run.report.failure();
                    self.runs.push(run);
                    self.may_be_added_to = true;
                }
            }
            Line::Unknown => {
                let first = self.skipped.map_or(number, |(first, _)| first);
                self.skipped = Some((first, number));
            }
        }
    }

    fn line_between(&mut self, number: usize, line: &str) {
        if self.context.take(line, self.above.as_deref()) {
            self.may_be_added_to = false;
            self.above = None;
            return;
        }
        if report::looks_like_a_part(line) {
            self.note(number, format_args!("belongs to no report, skipped"));
        }
        self.above = Some(line.to_owned());
    }

    /// An object that a script printed.
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

    /// Values that a script wrote: of the report above them if they say so, else a run of their own.
    fn add(&mut self, number: usize, values: BTreeMap<String, f64>, what: &str) {
        let requests = values.get(crate::quantity::REQUESTS).copied();
        let above = self.runs.last_mut().filter(|_| self.may_be_added_to);
        self.may_be_added_to = false;
        match above {
            Some(run) if run.report.values.get(crate::quantity::REQUESTS).copied() == requests => {
                // Of what both say, the object's: totals are exact in it, and tables were made of it.
                run.report.values.extend(values);
            }
            Some(_) => self.note(
                number,
                format_args!("{what} has other requests than the report above it, skipped"),
            ),
            None => {
                let failure = (requests == Some(0.0)).then(|| "nothing was answered".to_owned());
                let mut report = Report::default();
                report.values = values;
                self.open_run(number, report);
                if let Some(mut run) = self.open.take() {
                    run.failure = failure;
                    self.runs.push(run);
                }
            }
        }
    }

    fn open_run(&mut self, line: usize, report: Report) {
        self.context.settle();
        self.may_be_added_to = false;
        self.above = None;
        self.open = Some(Run {
            line,
            report,
            titles: self.context.titles(),
            settings: self.context.settings(),
            command: self.context.command.clone(),
            failure: None,
        });
    }

    /// A report whose last line is missing.
    fn end_open(&mut self) {
        self.flush_skipped();
        if let Some(mut run) = self.open.take() {
            // Any number may have lost its end, but of these the word behind is there as well.
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
        let labels = Labels::of(&self.runs);
        let mut observations: Vec<Observation> = Vec::with_capacity(self.runs.len());
        for (index, run) in self.runs.into_iter().enumerate() {
            let mut observation = labels.observation(run, source);
            observation.position = u32::try_from(index + 1).ok();
            observations.push(observation);
        }
        crate::read::number_runs(&mut observations);
        TextRuns {
            observations,
            notes: self.notes,
        }
    }
}

/// What tells the runs of a text apart: only that becomes their names.
struct Labels {
    /// Titles that all runs have.
    common_titles: usize,
    durations_differ: bool,
    scripts_differ: bool,
    /// Titles below which there is more than one URL.
    ambiguous: Vec<String>,
}

impl Labels {
    fn of(runs: &[Run]) -> Self {
        let common_titles = match runs {
            [first, .., _] => (0..first.titles.len())
                .take_while(|at| {
                    runs.iter()
                        .all(|run| run.titles.get(*at) == first.titles.get(*at))
                })
                .count(),
            _ => 0,
        };
        let differ =
            |of: fn(&Run) -> Option<&str>| runs.windows(2).any(|pair| of(&pair[0]) != of(&pair[1]));
        let mut url_of: BTreeMap<&str, Option<&str>> = BTreeMap::new();
        let mut ambiguous = Vec::new();
        for run in runs {
            let (Some(title), Some(url)) = (run.titles.last(), run.url()) else {
                continue;
            };
            let known = url_of.entry(title).or_insert(Some(url));
            if known.is_some_and(|known| known != url) {
                ambiguous.push(title.clone());
                *known = None;
            }
        }
        Self {
            common_titles,
            durations_differ: differ(|run| run.report.duration.as_deref()),
            scripts_differ: differ(|run| run.own_command()?.script.as_deref()),
            ambiguous,
        }
    }

    fn observation(&self, run: Run, source: &str) -> Observation {
        let profile = self.profile(&run);
        let url = run.url().map(str::to_owned);
        let rate = run.own_command().and_then(|command| command.rate);
        let mut settings = run.settings;
        let mut titles = run.titles.into_iter().skip(self.common_titles);
        let innermost = titles.next_back();
        settings.extend(titles.map(|title| Setting {
            factor: "heading".to_owned(),
            level: title,
        }));
        let target = match (innermost, url) {
            (Some(title), Some(url)) if self.ambiguous.contains(&title) => {
                Some(format!("{title} {url}"))
            }
            (Some(title), _) => Some(title),
            (None, url) => url,
        };
        let mut values = run.report.values;
        if let Some(rate) = rate.filter(|_| run.failure.is_none()) {
            values.insert("rate".to_owned(), rate as f64);
        }
        Observation {
            source: format!("{source}:{}", run.line),
            settings,
            profile,
            target,
            values,
            failure: run.failure,
            ..Observation::default()
        }
    }

    /// The load in the words of the command line: `-t12 -c400`.
    fn profile(&self, run: &Run) -> Option<String> {
        let command = run.own_command();
        let of_banner = |name: &str| run.report.values.get(name).map(|count| *count as u64);
        let threads = of_banner("threads").or_else(|| command?.threads);
        let connections = of_banner("connections").or_else(|| command?.connections);
        let rate = command.and_then(|command| command.rate);
        let count =
            |option: &str, count: Option<u64>| count.map(|count| format!("{option}{count}"));
        let duration = run
            .report
            .duration
            .as_ref()
            .filter(|_| self.durations_differ);
        let script = command
            .and_then(|command| command.script.as_ref())
            .filter(|_| self.scripts_differ);
        let parts = [
            count("-t", threads),
            count("-c", connections),
            duration.map(|duration| format!("-d{duration}")),
            count("-R", rate),
            script.map(|script| format!("-s {script}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }
}

impl Run {
    fn url(&self) -> Option<&str> {
        let of_command = || self.own_command()?.url.as_deref();
        self.report.url.as_deref().or_else(of_command)
    }

    /// The command line above, unless the report says that it is another one's.
    fn own_command(&self) -> Option<&Command> {
        let command = self.command.as_ref()?;
        let said = |name: &str| self.report.values.get(name).map(|count| *count as u64);
        let agree = |a: Option<u64>, b: Option<u64>| a.is_none() || b.is_none() || a == b;
        let urls = match (&command.url, &self.report.url) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        let too_fast = |rate: u64| {
            let reached = self.report.values.get(crate::quantity::REQUESTS_PER_SEC);
            reached.is_some_and(|reached| *reached > rate as f64 * RATE_EXCEEDED)
        };
        let is_own = urls
            && !command.rate.is_some_and(too_fast)
            && agree(command.threads, said("threads"))
            && agree(command.connections, said("connections"));
        is_own.then_some(command)
    }
}

/// A line without what mail, Markdown and editors put around it.
fn bare(raw: &str) -> &str {
    let line = raw.trim();
    let quoted = line.trim_start_matches('>');
    if quoted.len() == line.len() || heading::command(line).is_some() {
        line
    } else {
        quoted.trim_start()
    }
}
