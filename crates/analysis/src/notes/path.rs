//! The path of names above a report: the lines of the text that are in effect there.
//!
//! Every line between two reports is added to the path, whatever it says. A heading ends headings,
//! a setting ends the one of the same name, and nothing ends any other line. So two runs have the
//! same path only if nothing was written between them that may distinguish them.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

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
    /// Stands for the lines before these.
    dropped: u64,
    /// Number of reports so far.
    reports: usize,
    /// Number of headings so far.
    headings: usize,
}

#[derive(Debug)]
struct Line {
    /// Stands for its words without the number of a run.
    mark: u64,
    /// Stands for what it replaces: a line with the same words, or a setting of the same name.
    key: u64,
    /// The number of a run that it has.
    run: Option<(u32, SourceLine)>,
    /// The level of a heading; smaller ones are above larger ones.
    level: Option<u8>,
    /// Number of reports above it.
    reports: usize,
}

/// Where a report is: what the path to it was.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    /// Stands for all lines of the path, without numbers of runs.
    pub(super) mark: u64,
    /// The numbers of runs in the path, with their lines.
    pub(super) runs: Vec<(u32, SourceLine)>,
    /// The lines since the report above, as their marks.
    block: Vec<u64>,
    /// Number of headings above.
    headings: usize,
}

fn mark(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl Path {
    /// Adds a line of text.
    pub(super) fn add(&mut self, number: usize, text: &str) {
        let line = self.line(number, text, None);
        self.push(line);
    }

    /// Adds a setting. It replaces one of the same name.
    pub(super) fn set(&mut self, number: usize, name: &str, level: &str) {
        let line = Line {
            mark: mark((name, level)),
            key: mark((name, "setting")),
            run: None,
            ..self.line(number, name, None)
        };
        self.push(line);
    }

    /// Adds a heading. It ends the last one of the same level above the last report, and the deeper
    /// ones below that. A heading that comes again ends nothing: a script may print it before each
    /// run.
    pub(super) fn enter(&mut self, number: usize, level: u8, title: &str) {
        let line = self.line(number, title, Some(level));
        self.headings += 1;
        let is_ended = |known: &Line| known.reports < line.reports && known.level >= Some(level);
        let same = |known: &Line| known.level == Some(level) && is_ended(known);
        let last = self.lines.iter().rposition(same);
        if let Some(last) = last.filter(|_| self.lines.iter().all(|known| known.key != line.key)) {
            let below = self.lines.split_off(last).into_iter();
            self.lines.extend(below.filter(|known| !is_ended(known)));
        }
        self.push(line);
    }

    fn line(&self, number: usize, text: &str, level: Option<u8>) -> Line {
        let (words, run) = rounds::split(text);
        let mark = mark((words, run.is_some(), level));
        Line {
            mark,
            key: mark,
            run: run.map(|run| (run, SourceLine::new(number, text))),
            level,
            reports: self.reports,
        }
    }

    /// Adds a line. One that is there already counts at its new place only.
    fn push(&mut self, line: Line) {
        self.lines.retain(|known| known.key != line.key);
        self.lines.push(line);
        if self.lines.len() > LINES_MAX {
            self.dropped = mark((self.dropped, self.lines.remove(0).mark));
        }
    }

    /// The path to a report that begins here.
    pub(super) fn begin_report(&mut self) -> Place {
        let marks: Vec<u64> = self.lines.iter().map(|line| line.mark).collect();
        let block = self.lines.iter().filter(|it| it.reports == self.reports);
        let place = Place {
            mark: mark((self.dropped, marks)),
            runs: self.lines.iter().filter_map(|it| it.run.clone()).collect(),
            block: block.map(|line| line.mark).collect(),
            headings: self.headings,
        };
        self.reports += 1;
        place
    }
}

/// Gives reports of later passes the paths of the first one: below one heading, the lines between
/// the reports repeat as a whole (`old`, `new`, `old`, `new`). The first pass may begin with more
/// lines.
pub(super) fn unite_passes(places: &mut [&mut Place]) {
    for part in places.chunk_by_mut(|one, other| one.headings == other.headings) {
        let mut lengths = 2..=(part.len() / 2).min(PASS_MAX);
        if let Some(length) = lengths.find(|length| is_pass(part, *length)) {
            for at in length..part.len() {
                part[at].mark = part[at - length].mark;
            }
        }
    }
}

/// Whether the lines repeat after this number of reports. A line that several reports of a pass
/// have is no name of one of them.
fn is_pass(part: &[&mut Place], length: usize) -> bool {
    let pass: BTreeSet<&[u64]> = part[length..2 * length]
        .iter()
        .map(|place| &place.block[..])
        .collect();
    let repeats = |at: usize| part[at].block == part[at + length].block;
    pass.len() == length
        && pass.iter().all(|block| !block.is_empty())
        && part[0].block.ends_with(&part[length].block)
        && (1..part.len() - length).all(repeats)
}
