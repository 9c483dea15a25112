//! Tables of runs in a text: Markdown, and values separated by commas or tabs.

use std::collections::BTreeSet;

use results::Setting;

use super::path::Path;
use super::rows::{self, Average, Columns, Row};
use crate::{Observation, Origin};

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
    names: Vec<Origin>,
    /// Lines of the rows, the tables that they are in, and their runs.
    pub(super) rows: Vec<(usize, usize, Observation)>,
    /// The same of averages that the text has.
    averages: Vec<(usize, usize, Average)>,
}

#[derive(Debug)]
struct Table {
    columns: Columns,
    separator: char,
}

impl Tables {
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
            path.above = None;
            let place = path.begin_report();
            let title = place.titles.last().map(|title| title.words.clone());
            let name = title.or_else(|| Some(place.texts().last()?.text.clone()));
            let is_known = |name: &String| self.names.iter().any(|it| it.value == *name);
            let name = match name {
                Some(name) if is_known(&name) => format!("{name} (line {titles})"),
                name => name.unwrap_or_else(|| format!("line {titles}")),
            };
            self.names
                .push(Origin::new(TABLE, name, format!("line {titles}")));
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
            let separator = '|';
            let titles = rows::cells(above, separator)?;
            let columns = Columns::of(&titles)?;
            let is_long_enough = rows::cells(line, separator)?.len() == titles.len();
            return is_long_enough.then_some((*number, Table { columns, separator }));
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
            Row::Run(mut run) => {
                run.origins.push(self.names[index].clone());
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
            let (mut rows, others): (Vec<_>, Vec<_>) = rows.partition(|(_, of, _)| of == table);
            if rows.is_empty() {
                // Averages may have a table of their own, and the rows may be there twice.
                let key = |run: &Observation| format!("{} {:?}", run.run, run.values);
                let mut copies = BTreeSet::new();
                let others = others.into_iter();
                rows = others
                    .filter(|(_, _, run)| copies.insert(key(run)))
                    .collect();
            }
            if rows.len() > ROWS_OF_AVERAGE_MAX {
                continue;
            }
            let rows: Vec<&Observation> = rows.into_iter().map(|(_, _, run)| run).collect();
            if let Some(what) = average.contradiction(&rows)
                && known.insert(format!("{:?} {what}", average.run.settings))
                && notes.len() < NOTES_MAX
            {
                notes.push(format!("line {line}: {what}"));
            }
        }
        notes
    }
}

/// Adds the names of tables to the names of their rows if rows of several tables are there.
pub(super) fn name_tables(observations: &mut [Observation]) {
    let table = |run: &Observation| {
        let of_table = run.origins.iter().find(|origin| origin.part == TABLE);
        of_table.map(|origin| origin.value.clone())
    };
    let used: BTreeSet<String> = observations.iter().filter_map(table).collect();
    for run in observations {
        match table(run).filter(|_| used.len() > 1) {
            Some(level) => {
                let factor = TABLE.to_owned();
                run.settings.insert(0, Setting { factor, level });
            }
            None => run.origins.retain(|origin| origin.part != TABLE),
        }
    }
}
