//! What the templates of a file can refer to: variables, tables, and other files.

use std::collections::HashMap;
use std::rc::Rc;

use grpc::Schema;

use crate::capture::Variables;
use crate::csv::Table;
use crate::entry::Inputs;
use crate::template::Template;

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
    pub(crate) fn file(&mut self, name: &str) -> Result<Rc<[u8]>, String> {
        if let Some(content) = self.files.get(name) {
            return Ok(Rc::clone(content));
        }
        let content: Rc<[u8]> = (self.inputs.read)(name)
            .map_err(|error| format!("{name}: {error}"))?
            .into();
        self.files.insert(name.to_owned(), Rc::clone(&content));
        Ok(content)
    }

    /// The number of a table.
    pub(crate) fn table(&mut self, name: &str) -> Result<u32, String> {
        if let Some(table) = self.tables_by_name.get(name) {
            return Ok(*table);
        }
        let content = (self.inputs.read)(name).map_err(|error| format!("{name}: {error}"))?;
        self.add_table(name, &content)
    }

    /// Adds a table whose content is known.
    pub(crate) fn add_table(&mut self, name: &str, content: &[u8]) -> Result<u32, String> {
        let table = Table::parse(name, content).map_err(|problem| format!("{name}: {problem}"))?;
        let number = self.tables.len() as u32;
        self.tables.push(table);
        self.tables_by_name.insert(name.to_owned(), number);
        Ok(number)
    }
}
