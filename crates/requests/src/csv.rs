//! Tables in CSV (RFC 4180): the first line names the columns.

/// Why a text is not a table, one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CsvError {
    #[error("line {line} has {values} values, but the first line names {columns} columns")]
    Values {
        line: usize,
        values: usize,
        columns: usize,
    },
    #[error("it has no rows below the names of its columns")]
    NoRows,
    /// In this line.
    #[error("line {0} has text after a closing quote (expected a comma)")]
    AfterQuote(usize),
    /// The line where it is opened.
    #[error("the quote in line {0} is not closed")]
    OpenQuote(usize),
}

/// A table whose cells templates insert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// The file, as the request file names it.
    pub(crate) name: String,
    columns: Vec<String>,
    bytes: Vec<u8>,
    /// Where each cell ends in `bytes`, row by row.
    ends: Vec<usize>,
}

impl Table {
    /// Reads a table. Lines end in CRLF or LF, and empty lines are skipped. A cell in double quotes
    /// may contain commas, line ends and doubled quotes.
    ///
    /// # Errors
    /// What is wrong, with the line.
    pub(crate) fn parse(name: &str, text: &[u8]) -> Result<Self, CsvError> {
        let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
        let mut reader = Reader {
            rest: text,
            line: 1,
        };
        let mut cells = Vec::new();
        let mut table = Self {
            name: name.to_owned(),
            columns: Vec::new(),
            bytes: Vec::new(),
            ends: Vec::new(),
        };
        loop {
            let line = reader.line;
            cells.clear();
            if !reader.row(&mut cells)? {
                break;
            }
            if matches!(cells.as_slice(), [only] if only.is_empty()) {
                continue;
            }
            if table.columns.is_empty() {
                let text = |cell: &Vec<u8>| String::from_utf8_lossy(cell).trim().to_owned();
                table.columns = cells.iter().map(text).collect();
                continue;
            }
            if cells.len() != table.columns.len() {
                return Err(CsvError::Values {
                    line,
                    values: cells.len(),
                    columns: table.columns.len(),
                });
            }
            for cell in &cells {
                table.bytes.extend_from_slice(cell);
                table.ends.push(table.bytes.len());
            }
        }
        match table.rows() {
            0 => Err(CsvError::NoRows),
            _ => Ok(table),
        }
    }

    /// Number of rows without the first line; 0 without columns.
    pub(crate) fn rows(&self) -> usize {
        self.ends.len().checked_div(self.columns.len()).unwrap_or(0)
    }

    /// The column with this name.
    pub(crate) fn column(&self, name: &str) -> Option<u32> {
        let at = self.columns.iter().position(|column| column == name)?;
        u32::try_from(at).ok()
    }

    /// The names of the columns.
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// A cell. Row and column exist.
    #[inline]
    pub(crate) fn cell(&self, row: usize, column: u32) -> &[u8] {
        let at = row * self.columns.len() + column as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }

    /// The table as CSV, every cell in quotes.
    pub(crate) fn to_csv(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let mut add_row = |cells: &mut dyn Iterator<Item = &[u8]>| {
            for (at, cell) in cells.enumerate() {
                text.extend_from_slice(if at == 0 { b"\"" } else { b",\"" });
                for byte in cell {
                    text.push(*byte);
                    if *byte == b'"' {
                        text.push(b'"');
                    }
                }
                text.push(b'"');
            }
            text.push(b'\n');
        };
        add_row(&mut self.columns.iter().map(String::as_bytes));
        let columns = u32::try_from(self.columns.len()).unwrap_or(u32::MAX);
        for row in 0..self.rows() {
            add_row(&mut (0..columns).map(|column| self.cell(row, column)));
        }
        text
    }
}

struct Reader<'t> {
    rest: &'t [u8],
    line: usize,
}

impl Reader<'_> {
    /// Appends the cells of the next row; false at the end of the text.
    fn row(&mut self, cells: &mut Vec<Vec<u8>>) -> Result<bool, CsvError> {
        if self.rest.is_empty() {
            return Ok(false);
        }
        loop {
            let cell = match self.rest.first() {
                Some(b'"') => self.quoted_cell()?,
                _ => {
                    let end = memchr::memchr2(b',', b'\n', self.rest).unwrap_or(self.rest.len());
                    let (cell, rest) = self.rest.split_at(end);
                    self.rest = rest;
                    let at_line_end = rest.first() != Some(&b',');
                    let cell = cell
                        .strip_suffix(b"\r")
                        .filter(|_| at_line_end)
                        .unwrap_or(cell);
                    cell.to_vec()
                }
            };
            cells.push(cell);
            match self.rest {
                [b',', rest @ ..] => self.rest = rest,
                [b'\r', b'\n', rest @ ..] | [b'\n', rest @ ..] => {
                    self.rest = rest;
                    self.line += 1;
                    return Ok(true);
                }
                [] | [b'\r'] => {
                    self.rest = &[];
                    return Ok(true);
                }
                _ => return Err(CsvError::AfterQuote(self.line)),
            }
        }
    }

    fn quoted_cell(&mut self) -> Result<Vec<u8>, CsvError> {
        let begin = self.line;
        let mut cell = Vec::new();
        self.rest = &self.rest[1..];
        loop {
            let end = memchr::memchr(b'"', self.rest).ok_or(CsvError::OpenQuote(begin))?;
            let (text, rest) = self.rest.split_at(end);
            self.line += memchr::memchr_iter(b'\n', text).count();
            cell.extend_from_slice(text);
            self.rest = &rest[1..];
            match self.rest {
                [b'"', rest @ ..] => {
                    cell.push(b'"');
                    self.rest = rest;
                }
                _ => return Ok(cell),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(text: &str) -> Vec<Vec<String>> {
        let table = Table::parse("t.csv", text.as_bytes()).expect("it is a table");
        let text = |row, column| String::from_utf8_lossy(table.cell(row, column)).into_owned();
        let columns = table.columns().len() as u32;
        (0..table.rows())
            .map(|row| (0..columns).map(|column| text(row, column)).collect())
            .collect()
    }

    #[test]
    fn cells_may_have_quotes_commas_and_line_ends() {
        let expected = [["ann", "a,b"], ["bob \"x\"", "two\nlines"], ["", ""]];
        let text = "name,note\r\nann,\"a,b\"\r\n\"bob \"\"x\"\"\",\"two\nlines\"\r\n\r\n,\"\"";
        assert_eq!(cells(text), expected);
        let bare = text.replace("\r\n", "\n");
        assert_eq!(cells(&format!("\u{feff}{bare}\n")), expected);
    }

    #[test]
    fn a_table_is_the_same_after_it_was_written() {
        let text = "a,b\n1,\"x,\"\"y\"\"\"\n2,\"\n\"\n";
        let table = Table::parse("t", text.as_bytes()).expect("it is a table");
        let again = Table::parse("t", &table.to_csv()).expect("it is a table");
        assert_eq!(table, again);
    }

    #[test]
    fn what_is_wrong_with_a_table_is_said_with_its_line() {
        for (text, said) in [
            ("", "it has no rows below the names of its columns"),
            ("a,b\n\n", "it has no rows below the names of its columns"),
            (
                "a,b\n1\n",
                "line 2 has 1 values, but the first line names 2 columns",
            ),
            ("a\n\"x\ny\"\n\"z", "the quote in line 4 is not closed"),
            (
                "a\n\"x\"y\n",
                "line 2 has text after a closing quote (expected a comma)",
            ),
        ] {
            let error = Table::parse("t", text.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), said);
        }
    }
}
