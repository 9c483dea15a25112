//! The path of names above a report: the lines of the text that are in effect there.
//!
//! Every line between two reports is added to the path, whatever it says. A heading ends headings,
//! a setting ends the one of the same name, and nothing ends any other line. So two runs have the
//! same path only if nothing was written between them that may distinguish them.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use results::Setting;

use super::Run;
use super::command::{self, Command};
use super::lines::{self, SourceLine};
use super::rounds;

/// Limit on the lines of a path. Of longer ones, the first lines become one that nothing ends.
const LINES_MAX: usize = 256;

/// Limit on the length of a line that continues in the next one.
const CONTINUED_MAX_BYTES: usize = 4_000;

/// Limit on the reports of one pass that are recognized.
const PASS_MAX: usize = 100;

/// Labels are below all headings.
const LEVEL_OF_LABELS: u8 = 8;

/// The level of a setting that another one of its block replaced: it only tells paths apart.
const LEVEL_OF_REPLACED: u8 = 9;

/// A line of the path.
#[derive(Debug)]
pub(super) struct PathLine {
    pub(super) source: SourceLine,
    /// The level of a heading or a label; smaller ones are above larger ones.
    level: Option<u8>,
    setting: Option<Setting>,
    /// What it says without the number of a run and the colon.
    pub(super) words: String,
    /// The number of a run that it has.
    run: Option<u32>,
    /// Stands for what it says without the number of a run.
    mark: u64,
    /// Stands for what it replaces: a line that says the same, or a setting of the same name.
    key: u64,
    /// Number of reports above it.
    reports: usize,
}

impl PathLine {
    /// Whether it is a line such as `x86_64:` without text between it and the report below.
    pub(super) fn is_label(&self) -> bool {
        self.level == Some(LEVEL_OF_LABELS)
    }

    fn is_heading(&self) -> bool {
        self.level.is_some_and(|level| level < LEVEL_OF_LABELS)
    }

    fn is_text(&self) -> bool {
        self.level.is_none() && self.setting.is_none()
    }
}

/// The lines above a report that are in effect for it: headings, command lines, settings. They tell
/// what was measured, and which reports are runs of the same.
#[derive(Debug)]
pub(super) struct ReportContext {
    /// Stands for all lines of the path, without numbers of runs.
    pub(super) mark: u64,
    /// Stands for the command lines below that of the report.
    pub(super) passed: u64,
    /// Whether its lines are all lines in effect, and not the last of too many.
    is_whole: bool,
    /// The headings and labels in effect, outermost first.
    pub(super) titles: Vec<Rc<PathLine>>,
    lines: Vec<Rc<PathLine>>,
    /// Number of reports above.
    reports: usize,
}

impl ReportContext {
    /// The settings in effect.
    pub(super) fn settings(&self) -> impl Iterator<Item = (&Setting, &SourceLine)> {
        let lines = self.lines.iter();
        lines.filter_map(|line| Some((line.setting.as_ref()?, &line.source)))
    }

    /// The numbers of runs in the path, with their lines.
    pub(super) fn runs(&self) -> impl DoubleEndedIterator<Item = (u32, &SourceLine)> {
        let lines = self.lines.iter();
        lines.filter_map(|line| Some((line.run?, &line.source)))
    }

    /// The number of the run below the innermost title.
    pub(super) fn round(&self) -> Option<(u32, &SourceLine)> {
        let last_title = self.titles.last().map_or(0, |title| title.source.number);
        self.runs().rfind(|(_, line)| line.number >= last_title)
    }

    /// The last lines of text above: those since the report above, else earlier ones below the last
    /// heading.
    pub(super) fn texts(&self) -> Vec<&SourceLine> {
        let lines = self.lines.iter();
        let is_end = |line: &&Rc<PathLine>| line.is_text() || line.is_heading();
        let last = lines.clone().filter(is_end).map(|line| line.reports).max();
        let of_last = lines.filter(|line| line.is_text() && Some(line.reports) == last);
        of_last.map(|line| &line.source).collect()
    }

    /// The lines since the report above.
    fn block(&self) -> impl Iterator<Item = &Rc<PathLine>> {
        let lines = self.lines.iter();
        lines.filter(|line| line.reports == self.reports)
    }

    /// The last line of text since the report above.
    pub(super) fn own_text(&self) -> Option<&SourceLine> {
        let text = self.block().filter(|line| line.is_text());
        text.last().map(|line| &line.source)
    }
}

/// The lines in effect, as far as the text has been read.
#[derive(Debug, Default)]
pub(super) struct Path {
    lines: Vec<Rc<PathLine>>,
    /// Stands for the lines before these.
    dropped: u64,
    titles: Vec<Rc<PathLine>>,
    /// The line directly above, which may be the text of a heading or the titles of a table, or
    /// continue.
    pub(super) above: Option<(usize, String)>,
    /// The command lines of the tools.
    pub(super) tools: Vec<(Command, SourceLine)>,
    /// Number of reports so far.
    reports: usize,
}

pub(super) fn mark(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl Path {
    /// Handles a line outside of reports; an empty one ends a paragraph, and one that ends in `\`
    /// continues in the next one. In a block of code, `# x` is a comment. Says whether it is text,
    /// which a script may print below a report.
    pub(super) fn take(&mut self, number: usize, line: &str, is_in_code: bool) -> bool {
        if let Some((at, above)) = self.above.take() {
            let begun = above.strip_suffix('\\');
            if let Some(begun) = begun.filter(|it| it.len() < CONTINUED_MAX_BYTES) {
                let whole = format!("{} {line}", begun.trim_end());
                return self.take(at, whole.trim(), is_in_code);
            }
            if let Some(level) = lines::underline(line, &above) {
                let source = SourceLine::new(at, &above);
                self.add(source, Some(level), None, lines::without_colon(&above));
                return false;
            }
            self.add_text(at, &above);
        }
        if line.ends_with('\\') && line.len() <= CONTINUED_MAX_BYTES {
            self.above = Some((number, line.to_owned()));
            return true;
        }
        let source = SourceLine::new(number, line);
        if let Some(command) = command::tool(line) {
            if !command.output.is_empty() {
                let source = SourceLine::new(number, &command.output);
                self.add(source, None, None, &command.output);
            }
            self.tools.push((command, source));
        } else if let Some(settings) = lines::settings(line) {
            for setting in settings {
                let name = setting.factor.clone();
                self.add(source.clone(), None, Some(setting), &name);
            }
        } else if let Some((level, title)) = lines::heading(line, is_in_code) {
            self.add(source, Some(level), None, title);
        } else {
            let has_words = line.contains(char::is_alphanumeric);
            self.above = has_words.then(|| (number, line.to_owned()));
            return true;
        }
        false
    }

    fn add_text(&mut self, number: usize, text: &str) {
        let words = command::after_prompt(text).map_or(text, |(_, words)| words);
        let source = SourceLine::new(number, words);
        let label = lines::label(text).map(|_| LEVEL_OF_LABELS);
        if label.is_none() {
            // A label with text below it introduces that text.
            self.relabel(PathLine::is_label, None);
        }
        self.add(source, label, None, text);
    }

    /// Adds a line. One that is there already counts at its new place only.
    fn add(&mut self, source: SourceLine, level: Option<u8>, setting: Option<Setting>, text: &str) {
        let (words, run) = rounds::split(text);
        let heading = level.filter(|level| *level < LEVEL_OF_LABELS);
        let kind = (run.is_some(), heading, setting.is_some());
        let key = mark((&words, kind, ""));
        let line = Rc::new(PathLine {
            mark: mark((&words, kind, setting.as_ref().map_or("", |it| &it.level))),
            words: lines::without_colon(&words).to_owned(),
            reports: self.reports,
            source,
            level,
            setting,
            run,
            key,
        });
        if heading.is_some() {
            self.end_headings(&line);
            self.titles.retain(|known| known.level < level);
            self.titles.push(line.clone());
        }
        // What one block sets twice may be about different things: a client and a server.
        let is_replaced = |known: &PathLine| known.key == key && known.setting != line.setting;
        self.relabel(is_replaced, Some(LEVEL_OF_REPLACED));
        self.lines.retain(|known| known.key != key);
        self.lines.push(line);
        if self.lines.len() > LINES_MAX {
            self.dropped = mark((self.dropped, self.lines.remove(0).mark));
        }
    }

    /// Gives lines of this block another level, and removes the same lines of earlier blocks.
    fn relabel(&mut self, is_meant: impl Fn(&PathLine) -> bool, level: Option<u8>) {
        let mut changed = BTreeSet::new();
        let block = self
            .lines
            .iter_mut()
            .filter(|line| line.reports == self.reports);
        for line in block.filter_map(Rc::get_mut).filter(|line| is_meant(line)) {
            line.key = mark((line.key, line.mark, level));
            (line.level, line.setting) = (level, None);
            changed.insert(line.key);
        }
        let reports = self.reports;
        self.lines
            .retain(|known| known.reports == reports || !changed.contains(&known.key));
    }

    /// A heading ends the last one of the same level above the last report, and the deeper ones
    /// below that. A heading that comes again ends nothing: a script may print it before each run.
    fn end_headings(&mut self, by: &PathLine) {
        let is_ended = |known: &PathLine| {
            known.is_heading() && known.level >= by.level && known.reports < by.reports
        };
        let same = |known: &Rc<PathLine>| known.level == by.level && is_ended(known);
        let last = self.lines.iter().rposition(same);
        if let Some(last) = last.filter(|_| self.lines.iter().all(|known| known.key != by.key)) {
            let below = self.lines.split_off(last).into_iter();
            self.lines.extend(below.filter(|known| !is_ended(known)));
        }
    }

    /// The path to a report or a table that begins here.
    pub(super) fn begin_report(&mut self) -> ReportContext {
        while self.above.is_some() {
            self.take(0, "", false);
        }
        let is_block = |line: &&Rc<PathLine>| line.reports == self.reports && !line.is_heading();
        let block = self.lines.iter().rev().take_while(is_block);
        let labels = block.filter(|line| line.is_label() && !line.words.is_empty());
        let labels: Vec<Rc<PathLine>> = labels.cloned().collect();
        // The labels of a block nest; fewer of them than before replace the innermost ones.
        let known = self.titles.iter().filter(|title| title.is_label()).count();
        let kept = self.titles.len() - labels.len().min(known);
        self.titles.truncate(kept);
        self.titles.extend(labels.into_iter().rev());
        let marks: Vec<u64> = self.lines.iter().map(|line| line.mark).collect();
        let named = self.titles.iter().filter(|title| !title.words.is_empty());
        self.reports += 1;
        ReportContext {
            mark: mark((self.dropped, marks)),
            passed: 0,
            is_whole: self.dropped == 0,
            titles: named.cloned().collect(),
            lines: self.lines.clone(),
            reports: self.reports - 1,
        }
    }
}

/// Gives reports of later passes the paths of the first one: below one heading, the lines between
/// the reports repeat as a whole (`old`, `new`, `old`, `new`). The first pass may begin with more
/// lines. A table between reports ends the passes as a heading does.
pub(super) fn unite_passes(runs: &mut [Run]) {
    let follows = |one: &ReportContext, other: &ReportContext| {
        let is_next = other.is_whole && other.reports == one.reports + 1;
        is_next && !other.block().any(|line| line.is_heading())
    };
    for part in runs.chunk_by_mut(|one, other| follows(&one.context, &other.context)) {
        let blocks = part.iter().map(|run| run.context.block());
        let blocks: Vec<Vec<u64>> = blocks
            .map(|block| block.map(|line| line.mark).collect())
            .collect();
        let mut lengths = 2..=(part.len() / 2).min(PASS_MAX);
        if let Some(length) = lengths.find(|length| is_pass(&blocks, *length)) {
            for at in length..part.len() {
                part[at].context.mark = part[at - length].context.mark;
            }
        }
    }
}

/// Whether the lines repeat after this number of reports. A line that several reports of a pass
/// have is no name of one of them.
fn is_pass(blocks: &[Vec<u64>], length: usize) -> bool {
    let pass: BTreeSet<&Vec<u64>> = blocks[length..2 * length].iter().collect();
    pass.len() == length
        && pass.iter().all(|block| !block.is_empty())
        && blocks[0].ends_with(&blocks[length])
        && blocks[1..]
            .iter()
            .zip(&blocks[length + 1..])
            .all(|(one, other)| one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Handles lines, and says what is in effect below them: titles, settings, the round, text.
    fn below(path: &mut Path, from: usize, lines: &[&str]) -> String {
        for (number, line) in (from..).zip(lines) {
            path.take(number, line, false);
        }
        let found = path.begin_report();
        let titles = found.titles.iter().map(|title| title.words.clone());
        let settings = found.settings();
        let settings = settings.map(|(setting, _)| format!("{}={}", setting.factor, setting.level));
        let round = found.round().map(|(round, _)| format!("round {round}"));
        let text = found.texts().last().map(|line| format!("({})", line.text));
        let parts: Vec<String> = titles.chain(settings).chain(round).chain(text).collect();
        parts.join(" | ")
    }

    fn check(cases: &[(&[&str], &str)]) {
        let mut path = Path::default();
        for (at, (lines, expected)) in cases.iter().enumerate() {
            let found = below(&mut path, at * 10, lines);
            assert_eq!(found, *expected, "{lines:?}");
        }
    }

    #[test]
    fn headings_nest_and_settings_hold_until_they_are_set_again() {
        check(&[
            (
                &[
                    "# Notes",
                    "## x86_64",
                    "rmem=262144 wmem=262144",
                    "### Run 2",
                    "rmem=524288",
                ],
                "Notes | x86_64 | wmem=262144 | rmem=524288 | round 2",
            ),
            (
                &["### Run 3"],
                "Notes | x86_64 | wmem=262144 | rmem=524288 | round 3",
            ),
            (
                &["## arm64", "some words about it"],
                "Notes | arm64 | wmem=262144 | rmem=524288 | (some words about it)",
            ),
        ]);
    }

    #[test]
    fn headings_may_be_underlined_or_framed() {
        for lines in [
            &["x86_64", "======"][..],
            &["x86_64:", "------"],
            &["**x86_64**"],
            &["=== x86_64 ==="],
            &["## x86_64: ##"],
        ] {
            assert_eq!(below(&mut Path::default(), 1, lines), "x86_64", "{lines:?}");
        }
        let found = below(&mut Path::default(), 1, &["JSON Output", "-----------"]);
        assert_eq!(found, "(JSON Output)");
    }

    #[test]
    fn labels_of_one_block_nest_and_fewer_labels_replace_the_innermost() {
        check(&[
            (&["Basic:", "", "x86_64:"], "Basic | x86_64"),
            (&["arm64:"], "Basic | arm64"),
            (
                &["Last:", "", "x86_64:", "Run 1:"],
                "Last | x86_64 | round 1",
            ),
            (&["Run 3:"], "Last | x86_64 | round 3"),
            (&["arm64:"], "Last | arm64"),
            (&["Then:", "the caches"], "Last | arm64 | (the caches)"),
        ]);
    }

    #[test]
    fn a_comment_in_code_is_text() {
        let mut path = Path::default();
        path.take(1, "## nginx", false);
        path.take(2, "# after tuning", true);
        let found = path.begin_report();
        let titles: Vec<&str> = found
            .titles
            .iter()
            .map(|title| title.words.as_str())
            .collect();
        assert_eq!((titles, found.texts().len()), (vec!["nginx"], 1));
    }
}
