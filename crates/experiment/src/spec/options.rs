//! Load options as a plan writes them, and as the command line has them.

use std::path::Path;

use super::document::{Problem, Problems, Value, misplaced, shown};

/// wrkbench's long options with their values, in the order of the plan; each name once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadOptions(Vec<LoadOption>);

/// One option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadOption {
    /// Its long name, with `-` between words and without dashes before it.
    pub name: String,
    /// What it is set to.
    pub value: OptionValue,
    /// Line of the plan.
    pub line: usize,
}

/// The value of an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionValue {
    /// A flag: given, or expressly not.
    Flag(bool),
    /// A value.
    Text(String),
    /// An option that is given several times, or the arguments of a script.
    List(Vec<String>),
}

/// What the script's `init` gets: the one list that is no option of the command line, where these
/// stand behind `--`.
const SCRIPT_ARGUMENTS: &str = "script-arguments";

/// Options that may be given several times, so that a list has a meaning.
const REPEATABLE: [&str; 2] = ["header", SCRIPT_ARGUMENTS];

/// Options whose value is a file that is read, or a socket: relative ones are the plan's neighbours.
const PATHS: [&str; 6] = [
    "script",
    "body-file",
    "cacert",
    "cert",
    "key",
    "unix-socket",
];

/// More than wrkbench will ever have.
const MAX_OPTIONS: usize = 500;

impl LoadOptions {
    /// The options, each once.
    pub fn iter(&self) -> impl Iterator<Item = &LoadOption> {
        self.0.iter()
    }

    /// The value of an option.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OptionValue> {
        let option = self.0.iter().find(|option| option.name == name)?;
        Some(&option.value)
    }

    /// Sets options; those that were set before are replaced, a list as a whole.
    pub(crate) fn set(&mut self, options: impl IntoIterator<Item = LoadOption>) {
        for option in options {
            match self.0.iter_mut().find(|known| known.name == option.name) {
                Some(known) => *known = option,
                None => self.0.push(option),
            }
        }
    }

    /// The command line of a run of this URL, without the program's name.
    #[must_use]
    pub fn arguments(&self, url: &str) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut of_script: &[String] = &[];
        for LoadOption { name, value, .. } in &self.0 {
            match value {
                OptionValue::Flag(true) => arguments.push(format!("--{name}")),
                OptionValue::Flag(false) => {}
                OptionValue::Text(text) => arguments.push(format!("--{name}={text}")),
                OptionValue::List(list) if name == SCRIPT_ARGUMENTS => of_script = list,
                OptionValue::List(list) => {
                    arguments.extend(list.iter().map(|text| format!("--{name}={text}")));
                }
            }
        }
        arguments.push(url.to_owned());
        if !of_script.is_empty() {
            arguments.push("--".to_owned());
            arguments.extend_from_slice(of_script);
        }
        arguments
    }
}

/// The name of an option as the command line has it.
///
/// # Errors
/// When it cannot be one.
pub(super) fn option_name(value: &Value<'_>, key: &str) -> Result<String, Problem> {
    let name = key.replace('_', "-");
    let refuse = |why: &str| Err(value.problem(format!("{}: {why}", shown(key))));
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

/// Reads one option.
pub(super) fn read_option(value: &Value<'_>, base: &Path) -> Result<LoadOption, Problem> {
    let name = option_name(value, &value.key)?;
    if let Some(text) = misplaced(&value.key) {
        return Err(value.problem(text));
    }
    let read = match value.elements() {
        Some(elements) if REPEATABLE.contains(&name.as_str()) => {
            let texts = elements
                .iter()
                .map(|element| element.scalar("a list of texts"));
            OptionValue::List(texts.collect::<Result<_, _>>()?)
        }
        Some(_) => {
            return Err(value.problem(format!(
                "{}: takes one value; to vary it, write a factor: [[factor]] {} = [...]",
                value.key, value.key
            )));
        }
        None => option_value(&name, value, base)?,
    };
    Ok(LoadOption {
        name,
        value: read,
        line: value.line,
    })
}

/// Reads one value of an option.
pub(super) fn option_value(
    name: &str,
    value: &Value<'_>,
    base: &Path,
) -> Result<OptionValue, Problem> {
    if let Some(truth) = value.truth() {
        return Ok(OptionValue::Flag(truth));
    }
    let text = value.scalar("a text, a number, true or false")?;
    Ok(match name {
        SCRIPT_ARGUMENTS => OptionValue::List(vec![text]),
        _ if PATHS.contains(&name) => {
            OptionValue::Text(base.join(text).to_string_lossy().into_owned())
        }
        _ => OptionValue::Text(text),
    })
}

/// Reads what a table has left as options.
pub(super) fn read_options(
    values: Vec<Value<'_>>,
    base: &Path,
    problems: &mut Problems,
) -> LoadOptions {
    let mut options = LoadOptions::default();
    for value in values {
        if options.0.len() == MAX_OPTIONS {
            problems.add(value.line, format!("more than {MAX_OPTIONS} options"));
            break;
        }
        let Some(option) = problems.keep(read_option(&value, base)) else {
            continue;
        };
        if options.get(&option.name).is_some() {
            problems.add(value.line, format!("{}: given twice", value.key));
        }
        options.set([option]);
    }
    options
}
