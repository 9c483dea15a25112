//! Tables of runs in a text: Markdown, and values separated by commas or tabs.

use std::collections::BTreeSet;

use results::Setting;

use super::names::text_above;
use super::path::{Path, ReportContext};
use super::rows::{self, Average, Columns, NotesRow};
use crate::repetitions::{by_cell, limited};
use crate::{LoadPart, Observation, Origin};

/// Limit on the length of a line of a table.
const ROW_MAX_BYTES: usize = 64 << 10;

/// Limit on averages that are compared with their rows.
const AVERAGES_MAX: usize = 200;

/// Averages of more rows are not compared with them, which would take long.
const ROWS_OF_AVERAGE_MAX: usize = 1_000;

/// The setting whose levels are the headings above several tables.
const TABLE: &str = "table";

/// The tables of a text, as far as they have been read.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// The last table, with its name and the text above it.
    last: Option<(Columns, Origin, LoadPart)>,
    /// Whether the next line may continue the last table.
    is_open: bool,
    /// The line above, which may have the titles of a table, with its number.
    above: Option<(usize, String)>,
    /// The names of the tables so far.
    names: BTreeSet<String>,
    /// Lines of the rows, and their runs with the names of their tables.
    pub(super) rows: Vec<(usize, Observation)>,
    /// The same of averages that the text has.
    averages: Vec<(usize, Average)>,
}

impl Tables {
    /// Nothing continues the table.
    pub(super) fn end(&mut self) {
        (self.is_open, self.above) = (false, None);
    }

    /// Handles a line, with notes on rows that are skipped; `false` if it belongs to no table.
    pub(super) fn take(
        &mut self,
        number: usize,
        line: &str,
        path: &mut Path,
        notes: &mut Vec<String>,
    ) -> bool {
        if line.len() > ROW_MAX_BYTES {
            self.end();
            return false;
        }
        if let Some((titles, columns)) = self.begun(line) {
            // Below another table, the line of the titles looked like a row of that table.
            notes.pop_if(|note| note.starts_with(&format!("line {titles}:")));
            path.above = None;
            let context = path.begin_report();
            self.last = Some((columns, self.name(titles, &context), text_above(&context)));
            self.is_open = true;
            if rows::is_markdown_rule(line) {
                return true;
            }
        }
        self.above = Some((number, line.to_owned()));
        let Some((columns, ..)) = &self.last else {
            return false;
        };
        let cells = columns.cells(line);
        let (count, titles) = (cells.len(), columns.len());
        let problem = if count == titles && self.is_open {
            self.above = None;
            self.add_row(number, &cells)
        } else if self.is_open && count > 0 && columns.may_be_row(line) {
            Some(format!("{count} cells below {titles} titles"))
        } else {
            self.is_open = false;
            let is_row = count == titles && columns.row(&cells).is_measured();
            is_row.then(|| "a row below the end of its table".to_owned())
        };
        // Other text may look like a row.
        let is_row = self.is_open && problem.is_none();
        notes.extend(problem.map(|problem| format!("line {number}: {problem}, skipped")));
        is_row
    }

    /// The name of a table with its titles in this line.
    fn name(&mut self, titles: usize, context: &ReportContext) -> Origin {
        let title = context.titles.last().map(|title| title.words.clone());
        let name = title.or_else(|| Some(context.texts().last()?.text.clone()));
        let line = format!("line {titles}");
        let name = match name {
            Some(name) if !self.names.insert(name.clone()) => format!("{name} ({line})"),
            name => name.unwrap_or_else(|| line.clone()),
        };
        Origin::new(TABLE, name, line)
    }

    /// The columns of the table whose titles are in the line above, with the number of that line.
    fn begun(&self, line: &str) -> Option<(usize, Columns)> {
        let is_rule = rows::is_markdown_rule(line);
        let may_be_row = is_rule || line.contains(|c: char| c.is_ascii_digit());
        let (number, above) = self.above.as_ref().filter(|_| may_be_row)?;
        let separators: &[char] = if is_rule { &['|'] } else { &[',', '\t'] };
        separators.iter().find_map(|separator| {
            let titles = rows::cells(above, *separator)?;
            let cells = rows::cells(line, *separator).filter(|it| it.len() == titles.len())?;
            let columns = Columns::of(&titles, *separator)?;
            // Other lines with commas are prose.
            let is_table = is_rule
                || titles.iter().any(|title| results::Metric::is_name(title))
                || columns.row(&cells).is_measured();
            is_table.then_some((*number, columns))
        })
    }

    /// Adds a row. Returns why it is skipped, if it is.
    fn add_row(&mut self, number: usize, cells: &[String]) -> Option<String> {
        let (columns, table, above) = self.last.as_ref()?;
        match columns.row(cells) {
            NotesRow::Run(run) if run.values.is_empty() && run.failure.is_none() => {
                return Some("a row without figures".to_owned());
            }
            NotesRow::Run(mut run) => {
                run.origins.push(table.clone());
                run.noted_load.push(above.clone());
                self.rows.push((number, *run));
            }
            NotesRow::Average(mut average) => {
                average.run.origins.push(table.clone());
                self.averages.push((number, *average));
                self.averages.truncate(AVERAGES_MAX);
            }
            NotesRow::Spread => {}
            NotesRow::NotUnderstood(column) => {
                return Some(format!("the column {column:?} is not understood"));
            }
        }
        None
    }

    /// Averages that do not follow from their rows, one note each.
    pub(super) fn wrong_averages(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut known = BTreeSet::new();
        for (line, average) in &self.averages {
            let is_of = |run: &&Observation| average.run.is_same_cell(run) && run.failure.is_none();
            let rows = self.rows.iter().map(|(_, run)| run).filter(is_of);
            let is_own = |run: &&Observation| table_of(run) == table_of(&average.run);
            let (mut rows, others): (Vec<_>, Vec<_>) = rows.partition(is_own);
            if rows.is_empty() {
                // Averages may have a table of their own, and the rows may be there twice.
                let key = |run: &Observation| format!("{} {:?}", run.run, run.values);
                let mut copies = BTreeSet::new();
                let others = others.into_iter();
                rows = others.filter(|run| copies.insert(key(run))).collect();
            }
            if rows.len() > ROWS_OF_AVERAGE_MAX {
                continue;
            }
            if let Some(what) = average.contradiction(&rows)
                && known.insert(format!("{:?} {what}", average.run.settings))
            {
                notes.push(format!("line {line}: {what}"));
            }
        }
        limited(notes, "more averages are wrong")
    }
}

/// The name of the table that a row is in.
fn table_of(run: &Observation) -> Option<&str> {
    let table = run.origins.iter().find(|origin| origin.part == TABLE);
    table.map(|table| table.value.as_str())
}

/// Adds the names of tables to the names of their rows if rows of several tables are there.
pub(super) fn name_tables(observations: &mut [Observation]) {
    let used: BTreeSet<&str> = observations.iter().filter_map(table_of).collect();
    let is_mixed = |cell: &Vec<usize>| {
        let of_table = cell
            .iter()
            .filter(|run| table_of(&observations[**run]).is_some());
        (1..cell.len()).contains(&of_table.count())
    };
    let is_one_of_several = used.len() > 1 || by_cell(observations).iter().any(is_mixed);
    for run in observations {
        match table_of(run).filter(|_| is_one_of_several) {
            Some(level) => {
                let (factor, level) = (TABLE.to_owned(), level.to_owned());
                run.settings.insert(0, Setting { factor, level });
            }
            None => run.origins.retain(|origin| origin.part != TABLE),
        }
    }
}
