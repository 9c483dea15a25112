//! Load options of an experiment file, and the command line that they make.

use std::path::Path;

use plan::{InvalidValue, Setter, find_option};

use super::problems::Problems;
use super::suggestions::{misplaced, shown};
use super::value::{TableEntry, Value};

/// wrkbench's long options with their values, in the order of the file; each name once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadOptions(Vec<LoadOption>);

/// One option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadOption {
    /// Its long name without leading dashes, with `-` between words.
    pub name: String,
    /// What it is set to.
    pub value: OptionValue,
    /// Line in the experiment file.
    pub line: usize,
}

impl LoadOption {
    /// The words of a command line that set it.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let Self { name, value, .. } = self;
        match value {
            OptionValue::Flag(true) => vec![format!("--{name}")],
            OptionValue::Flag(false) => Vec::new(),
            OptionValue::Text(text) => vec![format!("--{name}={text}")],
            OptionValue::List(list) => {
                let words = list.iter().map(|text| format!("--{name}={text}"));
                words.collect()
            }
        }
    }
}

/// The value of an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionValue {
    /// A flag, given or explicitly not given.
    Flag(bool),
    /// One value.
    Text(String),
    /// The values of a repeatable option, or the arguments of a script.
    List(Vec<String>),
}

/// The arguments of the script's `init`. They are not an option: they follow `--`.
const SCRIPT_ARGUMENTS: &str = "script-arguments";

/// The most options of a table; more than wrkbench will ever have.
const MAX_OPTIONS: usize = 500;

impl LoadOptions {
    /// The options in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &LoadOption> {
        self.0.iter()
    }

    /// The value of an option.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OptionValue> {
        let option = self.0.iter().find(|option| option.name == name)?;
        Some(&option.value)
    }

    /// Sets options. Earlier values are replaced, lists as a whole.
    pub(crate) fn set(&mut self, options: impl IntoIterator<Item = LoadOption>) {
        for option in options {
            match self.0.iter_mut().find(|known| known.name == option.name) {
                Some(known) => *known = option,
                None => self.0.push(option),
            }
        }
    }

    /// The line of the option that an error message begins with, as in `--conections: unknown
    /// option`.
    #[must_use]
    pub fn line_of(&self, reason: &str) -> Option<usize> {
        let name = option_in(reason)?;
        let option = self.0.iter().find(|option| option.name == name)?;
        Some(option.line)
    }

    /// The arguments of the script's `init`.
    #[must_use]
    pub fn script_arguments(&self) -> &[String] {
        match self.get(SCRIPT_ARGUMENTS) {
            Some(OptionValue::List(arguments)) => arguments,
            _ => &[],
        }
    }

    /// The command line of these options alone: without a URL, and without the script's arguments.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let options = self.0.iter().filter(|it| it.name != SCRIPT_ARGUMENTS);
        options.flat_map(LoadOption::arguments).collect()
    }

    /// The command line of a run of this URL, without the program's name.
    #[must_use]
    pub fn command_line(&self, url: &str) -> Vec<String> {
        let mut arguments = self.arguments();
        arguments.push(url.to_owned());
        if !self.script_arguments().is_empty() {
            arguments.push("--".to_owned());
            arguments.extend_from_slice(self.script_arguments());
        }
        arguments
    }
}

/// The long name that an error message begins with.
pub(crate) fn option_in(reason: &str) -> Option<&str> {
    reason.strip_prefix("--")?.split([':', ' ', '=']).next()
}

/// The name of an option as on the command line; the error names the key.
pub(super) fn option_name(key: &str) -> Result<String, InvalidValue> {
    let name = key.replace('_', "-");
    let refuse = |why: &str| Err(format!("{}: {why}", shown(key)).into());
    let is_plain = name
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if name == "url" {
        return refuse("the URL belongs in [[target]]");
    }
    if name.starts_with('-') {
        return refuse("write the option without its dashes: connections = 64");
    }
    if !is_plain || name.len() < 2 {
        return refuse("not a long option of wrkbench (see wrkbench --help)");
    }
    Ok(name)
}

/// Whether an option may be repeated, and therefore takes a list.
fn is_repeatable(name: &str) -> bool {
    name == SCRIPT_ARGUMENTS || find_option(name).is_some_and(|spec| spec.is_repeatable)
}

fn is_path(name: &str) -> bool {
    let setter = find_option(name).and_then(|spec| spec.setter);
    matches!(setter, Some(Setter::Path(_)))
}

fn read_option(
    key: &str,
    value: &Value,
    line: usize,
    folder: &Path,
) -> Result<LoadOption, InvalidValue> {
    let name = option_name(key)?;
    if let Some(text) = misplaced(key) {
        return Err(text.into());
    }
    let value = match value.as_list() {
        Some(elements) if is_repeatable(&name) => {
            let texts = elements
                .iter()
                .map(|element| element.get_ref().scalar("a list of texts"));
            texts.collect::<Result<_, _>>().map(OptionValue::List)
        }
        Some(_) => Err(format!(
            "takes one value; to vary it, write a factor: [[factor]] {key} = [...]"
        )
        .into()),
        None => option_value(&name, value, folder),
    };
    let value = value.map_err(|text| format!("{key}: {text}"))?;
    Ok(LoadOption { name, value, line })
}

/// One value of an option.
pub(super) fn option_value(
    name: &str,
    value: &Value,
    folder: &Path,
) -> Result<OptionValue, InvalidValue> {
    if let Value::Boolean(truth) = value {
        return Ok(OptionValue::Flag(*truth));
    }
    let text = value.scalar("a text, a number, true or false")?;
    Ok(match name {
        SCRIPT_ARGUMENTS => OptionValue::List(vec![text]),
        // Relative to the folder of the experiment file.
        _ if is_path(name) => OptionValue::Text(folder.join(text).to_string_lossy().into_owned()),
        _ => OptionValue::Text(text),
    })
}

/// Load options from the entries of a table.
pub(super) fn read_options(
    entries: Vec<TableEntry>,
    folder: &Path,
    problems: &mut Problems,
) -> LoadOptions {
    let mut options = LoadOptions::default();
    for (key, value) in entries {
        let line = problems.line(key.span().start);
        if options.0.len() == MAX_OPTIONS {
            problems.add(line, format!("more than {MAX_OPTIONS} options"));
            break;
        }
        match read_option(key.get_ref(), value.get_ref(), line, folder) {
            Ok(option) => {
                if options.get(&option.name).is_some() {
                    problems.add(line, format!("{}: given twice", key.get_ref()));
                }
                options.set([option]);
            }
            Err(error) => problems.add(line, error),
        }
    }
    options
}
