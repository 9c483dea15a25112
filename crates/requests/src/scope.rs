//! What the templates of a file can refer to: variables, tables, and other files.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use grpc::Schema;

use crate::capture::Variables;
use crate::csv::{CsvError, Table};
use crate::entry::Inputs;
use crate::template::Template;

/// Why a file that the request file names cannot be used, one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NamedFileError {
    #[error("{0}: {1}")]
    Read(String, io::Error),
    #[error("{0}: {1}")]
    Table(String, CsvError),
}

/// What has been defined and read so far.
pub(crate) struct Scope<'a> {
    pub(crate) inputs: &'a Inputs<'a>,
    /// Variables of an `.http` file (`@host = ...`).
    pub(crate) variables: HashMap<String, Template>,
    /// The values that the requests so far capture.
    pub(crate) captured: Variables,
    pub(crate) tables: Vec<Table>,
    /// Types that the file itself has.
    pub(crate) types: Option<Schema>,
    tables_by_name: HashMap<String, u32>,
    /// Files that were read, since many requests may have the same body.
    files: HashMap<String, Rc<[u8]>>,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(inputs: &'a Inputs<'a>) -> Self {
        Self {
            inputs,
            variables: HashMap::new(),
            captured: Variables::default(),
            tables: Vec::new(),
            types: None,
            tables_by_name: HashMap::new(),
            files: HashMap::new(),
        }
    }

    /// The content of a file that the request file names.
    pub(crate) fn file(&mut self, name: &str) -> Result<Rc<[u8]>, NamedFileError> {
        if let Some(content) = self.files.get(name) {
            return Ok(Rc::clone(content));
        }
        let content: Rc<[u8]> = self.read(name)?.into();
        self.files.insert(name.to_owned(), Rc::clone(&content));
        Ok(content)
    }

    /// The number of a table.
    pub(crate) fn table(&mut self, name: &str) -> Result<u32, NamedFileError> {
        if let Some(table) = self.tables_by_name.get(name) {
            return Ok(*table);
        }
        let content = self.read(name)?;
        self.add_table(name, &content)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, NamedFileError> {
        (self.inputs.read)(name).map_err(|error| NamedFileError::Read(name.to_owned(), error))
    }

    /// Adds a table whose content is known.
    pub(crate) fn add_table(&mut self, name: &str, content: &[u8]) -> Result<u32, NamedFileError> {
        let table = Table::parse(name, content);
        let table = table.map_err(|error| NamedFileError::Table(name.to_owned(), error))?;
        let number = self.tables.len() as u32;
        self.tables.push(table);
        self.tables_by_name.insert(name.to_owned(), number);
        Ok(number)
    }
}
