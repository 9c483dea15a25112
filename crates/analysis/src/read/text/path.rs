//! The path of names above a report: the lines of the text that are in effect there.
//!
//! Every line between two reports is added to the path, whatever it says, and stays until a heading
//! of its level ends the part of the text that it is in. So two runs have the same path only if
//! nothing was written between them that may distinguish them.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use results::Setting;

use super::lines::SourceLine;
use super::rounds;

/// Limit on the lines of a path. Of longer ones, the first lines become one that nothing ends.
const LINES_MAX: usize = 256;

/// Limit on the reports of one pass that are recognized.
const PASS_MAX: usize = 100;

/// The lines in effect, as far as the text has been read.
#[derive(Debug, Default)]
pub(super) struct Path {
    lines: Vec<Line>,
    /// Index of the first line since the last report.
    block: usize,
    /// Number of headings so far.
    headings: usize,
    /// The line that the last one repeats, and `block` and its index before that.
    repeated: Option<(usize, usize, Line)>,
}

#[derive(Debug)]
struct Line {
    /// Its number in the text, from 1.
    number: usize,
    /// Stands for its words without the number of a run.
    mark: u64,
    /// Stands for what it replaces: lines with the same words, or settings of the same names.
    key: u64,
    /// The number of a run that it has.
    run: Option<(u32, SourceLine)>,
    /// The level of a heading; smaller ones are above larger ones.
    level: Option<u8>,
}

/// Where a report is: what the path to it was.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    /// Stands for all lines of the path, without numbers of runs, and for commands.
    pub(super) mark: u64,
    /// The numbers of runs in the path, with their lines.
    pub(super) runs: Vec<(u32, SourceLine)>,
    /// The lines since the report above, as their marks.
    block: Vec<u64>,
    /// The numbers of headings and of changes by commands above.
    part: (usize, usize),
}

fn mark(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl Line {
    fn of(number: usize, text: &str, level: Option<u8>) -> Self {
        let (words, run) = rounds::split(text);
        let mark = mark((words, run.is_some(), level));
        Self {
            number,
            mark,
            key: mark,
            run: run.map(|run| (run, SourceLine::new(number, text))),
            level,
        }
    }
}

impl Path {
    /// Adds a line of text.
    pub(super) fn add(&mut self, number: usize, text: &str) {
        self.push(Line::of(number, text, None));
    }

    /// Adds a line of settings. It replaces one with the same names.
    pub(super) fn set(&mut self, number: usize, text: &str, settings: &[Setting]) {
        let names: Vec<&str> = settings.iter().map(|it| it.factor.as_str()).collect();
        self.push(Line {
            mark: mark((text, "settings")),
            key: mark(names),
            run: None,
            ..Line::of(number, text, None)
        });
    }

    /// Adds a heading. It ends the last one of the same level, with the lines below that, up to a
    /// heading of a higher level. Lines since the last report stay: they may belong to either. If
    /// the same heading is there again, so do the lines below it: it may be no heading, but a line
    /// that a script prints before each run.
    pub(super) fn enter(&mut self, number: usize, level: u8, title: &str) {
        let line = Line::of(number, title, Some(level));
        let above = &self.lines[..self.block];
        let is_same_level = |line: &Line| line.level == Some(level);
        let last = above.iter().rposition(is_same_level);
        let is_other = |at: &usize| line.run.is_some() || above[*at].mark != line.mark;
        if let Some(from) = last.filter(is_other) {
            let is_higher = |line: &Line| line.level.is_some_and(|other| other < level);
            let end = above[from..].iter().position(is_higher);
            let end = end.map_or(self.block, |length| from + length);
            self.lines.drain(from..end);
            self.block -= end - from;
        }
        self.headings += 1;
        self.push(line);
    }

    /// Adds a line. One that is there already counts at its new place only.
    fn push(&mut self, line: Line) {
        let is_same = |known: &Line| known.key == line.key;
        self.repeated = self.lines.iter().position(is_same).map(|at| {
            let block = self.block;
            self.block -= usize::from(at < block);
            (block, at, self.lines.remove(at))
        });
        self.lines.push(line);
        if self.lines.len() > LINES_MAX {
            let first = self.lines.remove(0);
            self.block = self.block.saturating_sub(1);
            self.repeated = None;
            let second = &mut self.lines[0];
            second.mark = mark((first.mark, second.mark));
            second.key = second.mark;
            (second.run, second.level) = (None, None);
        }
    }

    /// Takes back the last line, which has turned out to be something else.
    pub(super) fn forget(&mut self, number: usize) {
        if self.lines.pop_if(|line| line.number == number).is_some()
            && let Some((block, at, line)) = self.repeated.take()
        {
            self.block = block;
            self.lines.insert(at, line);
        }
    }

    /// The path to a report that begins here, below this number of changes by commands.
    pub(super) fn begin_report(&mut self, changes: usize) -> Place {
        let marks = |lines: &[Line]| -> Vec<u64> { lines.iter().map(|line| line.mark).collect() };
        let place = Place {
            mark: mark((marks(&self.lines), changes)),
            runs: self.lines.iter().filter_map(|it| it.run.clone()).collect(),
            block: marks(&self.lines[self.block..]),
            part: (self.headings, changes),
        };
        self.block = self.lines.len();
        self.repeated = None;
        place
    }
}

/// Gives reports of later passes the paths of the first one: below one heading, the lines between
/// the reports repeat as a whole (`old`, `new`, `old`, `new`), and no command has changed anything.
/// A line that only the first pass has is in effect from there on.
pub(super) fn unite_passes(places: &mut [&mut Place]) {
    for part in places.chunk_by_mut(|one, other| one.part == other.part) {
        let mut lengths = 2..=(part.len() / 2).min(PASS_MAX);
        let Some(length) = lengths.find(|length| is_pass(part, *length)) else {
            continue;
        };
        let has_more = |at: &usize| part[*at].block != part[at + length].block;
        let begins_with_more = part[0].block.ends_with(&part[length].block);
        let from = match (0..length).rfind(has_more) {
            Some(0) if begins_with_more => 0,
            Some(at) => at + 1,
            None => 0,
        };
        for at in from + length..part.len() {
            part[at].mark = part[at - length].mark;
        }
    }
}

/// Whether the lines repeat after this number of reports. A line that several reports of a pass
/// have is no name of one of them.
fn is_pass(part: &[&mut Place], length: usize) -> bool {
    let block = |at: usize| &part[at].block;
    let has_all_of = |at: usize| {
        let mut lines = block(at).iter();
        let mut others = block(at + length).iter();
        others.all(|other| lines.any(|line| line == other))
    };
    let pass: BTreeSet<&Vec<u64>> = (length..2 * length).map(block).collect();
    (0..length).all(has_all_of)
        && pass.len() == length
        && pass.iter().all(|block| !block.is_empty())
        && (length..part.len() - length).all(|at| block(at) == block(at + length))
}
