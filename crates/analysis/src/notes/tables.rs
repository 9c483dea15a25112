//! Tables of runs in a text: Markdown, and values separated by commas or tabs.

use std::collections::{BTreeMap, BTreeSet};

use results::Setting;

use super::path::Path;
use super::rows::{self, Average, Columns, Row};
use crate::Observation;
use crate::observation::Form;

/// Limit on the length of a line of a table.
const ROW_MAX_BYTES: usize = 64 << 10;

/// Limit on averages that are compared with their rows.
const AVERAGES_MAX: usize = 200;

/// Averages of more rows are not compared with them, which would take long.
const ROWS_OF_AVERAGE_MAX: usize = 1_000;

/// Limit on notes about averages.
const NOTES_MAX: usize = 20;

/// The setting whose levels are the headings above several tables.
const TABLE: &str = "table";

/// The tables of a text, as far as they have been read.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// The table that the next line may continue.
    open: Option<Table>,
    /// The line above, which may have the titles of a table, with its number.
    above: Option<(usize, String)>,
    /// The names of the tables so far.
    names: Vec<String>,
    /// Lines of the rows, the tables that they are in, and their runs.
    rows: Vec<(usize, usize, Observation)>,
    /// The same of averages that the text has.
    averages: Vec<(usize, usize, Average)>,
}

#[derive(Debug)]
struct Table {
    columns: Columns,
    separator: char,
}

impl Tables {
    /// Number of rows that are runs.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Nothing continues the table.
    pub(super) fn end(&mut self) {
        (self.open, self.above) = (None, None);
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
        let is_begun = self.open.is_none();
        if is_begun && let Some((titles, table)) = self.begun(line) {
            path.forget_line_above();
            let place = path.begin_report();
            let title = place.titles.last().map(|title| title.words.clone());
            let name = title.or_else(|| Some(place.texts().last()?.text.clone()));
            self.names.push(match name {
                Some(name) if !self.names.contains(&name) => name,
                Some(name) => format!("{name} (line {titles})"),
                None => format!("line {titles}"),
            });
            self.open = Some(table);
            if rows::is_markdown_rule(line) {
                return true;
            }
        }
        self.above = Some((number, line.to_owned()));
        let Some(table) = self.open.take() else {
            return false;
        };
        let cells = rows::cells(line, table.separator);
        let row = cells.filter(|cells| cells.len() == table.columns.len());
        if let Some(cells) = &row {
            self.above = None;
            notes.extend(self.add_row(number, table, cells));
        }
        row.is_some()
    }

    /// The table whose titles are in the line above, with the number of that line.
    fn begun(&self, line: &str) -> Option<(usize, Table)> {
        let (number, above) = self.above.as_ref()?;
        if rows::is_markdown_rule(line) {
            let titles = rows::cells(above, '|')?;
            let columns = Columns::of(&titles)?;
            let is_long_enough = rows::cells(line, '|')?.len() == titles.len();
            let table = Table {
                columns,
                separator: '|',
            };
            return is_long_enough.then_some((*number, table));
        }
        if !line.contains(|c: char| c.is_ascii_digit()) {
            return None;
        }
        [',', '\t'].into_iter().find_map(|separator| {
            let titles = rows::cells(above, separator)?;
            let cells = rows::cells(line, separator).filter(|it| it.len() == titles.len())?;
            let columns = Columns::of(&titles)?;
            // Other lines with commas are prose.
            let is_row = || matches!(columns.row(&cells), Row::Run(_));
            let is_table = titles.iter().any(|title| results::Metric::is_name(title)) || is_row();
            is_table.then_some((*number, Table { columns, separator }))
        })
    }

    /// Adds a row. Returns a note if it is skipped.
    fn add_row(&mut self, number: usize, table: Table, cells: &[String]) -> Option<String> {
        let index = self.names.len().saturating_sub(1);
        let row = table.columns.row(cells);
        self.open = Some(table);
        let problem = match row {
            Row::Run(run) if run.values.is_empty() && run.failure.is_none() => {
                "a row without figures".to_owned()
            }
            Row::Run(run) => {
                self.rows.push((number, index, *run));
                return None;
            }
            Row::Average(average) => {
                self.averages.push((number, index, *average));
                self.averages.truncate(AVERAGES_MAX);
                return None;
            }
            Row::Spread => return None,
            Row::NotUnderstood(column) => format!("the column {column:?} is not understood"),
        };
        Some(format!("line {number}: {problem}, skipped"))
    }

    /// Averages that do not follow from their rows, one note each.
    pub(super) fn wrong_averages(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut known = BTreeSet::new();
        for (line, table, average) in &self.averages {
            let is_of = |run: &Observation| average.run.is_same_cell(run) && run.failure.is_none();
            let rows = self.rows.iter().filter(|(_, _, run)| is_of(run));
            let (of_table, of_others): (Vec<_>, Vec<_>) = rows.partition(|(_, of, _)| of == table);
            // Averages may have a table of their own, and the rows may be there twice.
            let found = if of_table.is_empty() {
                of_others
            } else {
                of_table
            };
            if found.len() > ROWS_OF_AVERAGE_MAX {
                continue;
            }
            let mut rows: Vec<&Observation> = Vec::new();
            for (_, of, run) in found {
                let is_copy = |it: &&Observation| it.run == run.run && it.values == run.values;
                if of == table || !rows.iter().any(is_copy) {
                    rows.push(run);
                }
            }
            if let Some(what) = average.contradiction(&rows)
                && known.insert(format!("{:?} {what}", average.run.settings))
                && notes.len() < NOTES_MAX
            {
                notes.push(format!("line {line}: {what}"));
            }
        }
        notes
    }

    /// The runs with their lines, and the names of their tables by their sources.
    pub(super) fn into_rows(self, source: &str) -> (Vec<(usize, Observation)>, TableNames) {
        let mut names = TableNames::new();
        let name_row = |(line, table, mut run): (usize, usize, Observation)| {
            run.source = format!("{source}:{line}");
            names.insert(run.source.clone(), self.names[table].clone());
            (line, run)
        };
        (self.rows.into_iter().map(name_row).collect(), names)
    }
}

/// The headings of tables, or else the text above them, by the sources of their rows.
pub(super) type TableNames = BTreeMap<String, String>;

/// Adds the names of tables to their rows if rows of several tables are there.
pub(super) fn name_tables(observations: &mut [Observation], names: &TableNames) {
    let is_row = |run: &&mut Observation| run.form == Form::Table;
    let rows: Vec<&mut Observation> = observations.iter_mut().filter(is_row).collect();
    let used: BTreeSet<_> = rows.iter().map(|run| names.get(&run.source)).collect();
    if used.len() < 2 {
        return;
    }
    for run in rows {
        let level = names.get(&run.source).cloned().unwrap_or_default();
        let factor = TABLE.to_owned();
        run.settings.insert(0, Setting { factor, level });
    }
}
