//! Factors of an experiment file, and their levels.

use std::path::Path;
use std::time::Duration;

use plan::InvalidValue;
use serde::Deserialize;
use toml::Spanned;

use super::MAX_LEVELS;
use super::options::{option_name, option_value};
use super::problems::Problems;
use super::section::{Section, fields_of};
use super::suggestions::{shown, unknown};
use super::value::{HostName, Limit, Name, TableEntry, Text, Value, check_name, one_or_more};
use crate::change::sysctl_path;
use crate::environment::normal;
use crate::factor::{Check, Factor, FactorKind, Level, LevelValue};
use crate::remote::name_on;

/// The default time limit of a factor's commands.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FactorKeys {
    name: Option<Name>,
    levels: Option<Spanned<Value>>,
    sysctl: Option<Spanned<Value>>,
    option: Option<Spanned<Text>>,
    file: Option<Text>,
    template: Option<Text>,
    check: Option<Text>,
    apply: Option<Text>,
    restore: Option<Text>,
    timeout: Option<Limit>,
    host: Option<HostName>,
}

/// A default name, the kind and the levels of a factor.
type Read = (String, FactorKind, Vec<Level>);

/// Reads factors, and collects their problems.
struct Reader<'p> {
    /// How messages name the factor.
    table: String,
    line: usize,
    folder: &'p Path,
    problems: &'p mut Problems,
}

/// Reads a factor; `None` if it is invalid, which the problems explain.
pub(super) fn read_factor(
    mut section: Section<'_>,
    folder: &Path,
    problems: &mut Problems,
) -> Option<Factor> {
    let known = fields_of::<FactorKeys>();
    let before = problems.count();
    let has = |keys: &[&str]| keys.iter().any(|key| section.has(key));
    let kinds = [
        (has(&["sysctl"]), "sysctl"),
        (has(&["option"]), "option"),
        (has(&["file", "template"]), "file"),
        (has(&["apply", "restore"]), "apply"),
    ];
    let kind = kinds.iter().find(|(is, _)| *is).map(|(_, kind)| *kind);
    let keys: FactorKeys = section.read(problems);
    if let Some(Name(name)) = &keys.name {
        section.name = format!("[[factor]] {name}");
    }
    let is_short = kind.is_none() && keys.levels.is_none();
    let rest = if is_short {
        section.rest(problems)
    } else {
        section.refuse_rest(known, problems);
        Vec::new()
    };
    let mut reader = Reader {
        table: section.name,
        line: section.line,
        folder,
        problems,
    };
    let name = keys.name.as_ref().map(|Name(name)| name.clone());
    let host = keys.host.as_ref().map(|HostName(host)| host.clone());
    let file = keys.file.as_ref().map(|Text(file)| Path::new(file));
    if host.is_some() && file.is_some_and(|file| !file.is_absolute()) {
        reader.add("file must be an absolute path: it is on another machine");
    }
    let read = match kind {
        Some("sysctl") => reader.sysctl(&keys),
        Some("option") => reader.option(&keys),
        Some("file") => reader.file(keys),
        Some(_) => reader.command(keys),
        None if is_short => reader.short_option(&rest, known),
        None => reader.settings_by_level(&keys),
    };
    let Some((default_name, kind, levels)) = read else {
        if reader.problems.count() == before {
            reader.add("add sysctl, option, file or apply to say what is varied");
        }
        return None;
    };
    reader.check_levels(&levels);
    if host.is_some() && matches!(kind, FactorKind::Option { .. }) {
        reader.add("an option of the load has no host: the agents make the load");
    }
    Some(Factor {
        name: name.unwrap_or_else(|| name_on(host.as_deref(), &default_name)),
        kind,
        host,
        levels,
        line: reader.line,
    })
}

impl Reader<'_> {
    fn add(&mut self, text: &str) {
        let text = format!("{}: {text}", self.table);
        self.problems.add(self.line, text);
    }

    /// The value of a required key.
    fn required(&mut self, key: &str, value: Option<Text>, example: &str) -> Option<String> {
        if value.is_none() {
            self.add(&format!("{key} is missing: {key} = {example}"));
        }
        value.map(|Text(text)| text)
    }

    /// The levels that can be read.
    fn levels(
        &mut self,
        levels: Option<&Spanned<Value>>,
        read: impl Fn(&Value, usize) -> Result<Level, InvalidValue>,
    ) -> Vec<Level> {
        let Some(value) = levels else {
            self.add("levels are missing: levels = [...]");
            return Vec::new();
        };
        let line = self.problems.line(value.span().start);
        let list = value.get_ref().list("a list of levels");
        let list = self.problems.keep(line, "levels", list).unwrap_or_default();
        self.read_each(list, read)
    }

    fn read_each(
        &mut self,
        list: &[Spanned<Value>],
        read: impl Fn(&Value, usize) -> Result<Level, InvalidValue>,
    ) -> Vec<Level> {
        let mut levels = Vec::new();
        for element in list {
            let line = self.problems.line(element.span().start);
            let level = read(element.get_ref(), line);
            levels.extend(self.problems.keep(line, "levels", level));
        }
        levels
    }

    fn sysctl(&mut self, keys: &FactorKeys) -> Option<Read> {
        let value = keys.sysctl.as_ref()?;
        let levels = self.levels(keys.levels.as_ref(), any_level);
        let mut names = Vec::new();
        for element in one_or_more(value) {
            let line = self.problems.line(element.span().start);
            let name = element.get_ref().text().and_then(check_key);
            names.extend(self.problems.keep(line, "sysctl", name));
        }
        if names.is_empty() {
            if one_or_more(value).is_empty() {
                self.add("sysctl: the list is empty");
            }
            return None;
        }
        self.check_same_keys(&levels, &names);
        Some((names.join(", "), FactorKind::Sysctl { keys: names }, levels))
    }

    /// A factor without a kind: its levels are tables with names of kernel settings.
    fn settings_by_level(&mut self, keys: &FactorKeys) -> Option<Read> {
        let list = keys.levels.as_ref()?.get_ref().as_list()?;
        let is_table = |level: &Spanned<Value>| level.get_ref().as_table().is_some();
        if list.is_empty() || !list.iter().all(is_table) {
            return None;
        }
        let levels = self.read_each(list, |level, line| read_level(level, line, Names::Settings));
        let mut names: Vec<String> = Vec::new();
        for (name, _) in levels.iter().flat_map(named_values) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        self.check_same_keys(&levels, &names);
        (!names.is_empty()).then(|| (names.join(", "), FactorKind::Sysctl { keys: names }, levels))
    }

    /// Every level must set the same settings, or values of the level before would remain.
    fn check_same_keys(&mut self, levels: &[Level], keys: &[String]) {
        for level in levels {
            let LevelValue::Named(values) = &level.value else {
                continue;
            };
            let name = shown(&level.name);
            for key in keys {
                if !values.iter().any(|(own, _)| own == key) {
                    let text = format!(
                        "level {name} does not set {key}, so the value of the level before it \
                         would remain: each level must set the same keys"
                    );
                    self.problems.add(level.line, text);
                }
            }
            for (key, _) in values.iter().filter(|(key, _)| !keys.contains(key)) {
                let (key, keys) = (shown(key), keys.join(", "));
                let text =
                    format!("level {name} sets {key}, which is not a key of the factor ({keys})");
                self.problems.add(level.line, text);
            }
        }
    }

    fn file(&mut self, keys: FactorKeys) -> Option<Read> {
        let levels = self.levels(keys.levels.as_ref(), any_level);
        let path = self.required("file", keys.file, "\"/etc/nginx/nginx.conf\"");
        let template = self.required("template", keys.template, "\"nginx.conf.tmpl\"");
        let (path, template) = (self.folder.join(path?), self.folder.join(template?));
        if path == template {
            self.add("file and template are the same");
        }
        let name = path.file_name().unwrap_or(path.as_os_str());
        let name = name.to_string_lossy().into_owned();
        let limit = keys.timeout.map_or(COMMAND_LIMIT, |Limit(limit)| limit);
        let check = keys.check.map(|Text(command)| Check { command, limit });
        let kind = FactorKind::File {
            path,
            template,
            check,
        };
        Some((name, kind, levels))
    }

    fn command(&mut self, keys: FactorKeys) -> Option<Read> {
        let levels = self.levels(keys.levels.as_ref(), any_level);
        let apply = self.required("apply", keys.apply, "\"command with $LEVEL\"");
        let restore = self.required("restore", keys.restore, "\"command that undoes it\"");
        let kind = FactorKind::Command {
            apply: apply?,
            restore: restore?,
            limit: keys.timeout.map_or(COMMAND_LIMIT, |Limit(limit)| limit),
        };
        Some(("command".to_owned(), kind, levels))
    }

    fn option(&mut self, keys: &FactorKeys) -> Option<Read> {
        let value = keys.option.as_ref();
        let name = value.map(|value| (value.get_ref().0.as_str(), value.span().start));
        let name = name.and_then(|(key, offset)| self.option_name(key, offset));
        let folder = self.folder;
        let levels = self.levels(keys.levels.as_ref(), |level, line| {
            read_option_level(name.as_deref().unwrap_or_default(), level, line, folder)
        });
        let option = name?;
        Some((option.clone(), FactorKind::Option { option }, levels))
    }

    /// `connections = [64, 96, 400]`: the key is the option, and the value its levels.
    fn short_option(&mut self, rest: &[TableEntry], known: &[&str]) -> Option<Read> {
        let [(key, value)] = rest else {
            for (key, value) in rest {
                let text = match value.get_ref().as_list() {
                    Some(_) => format!(
                        "{}: a factor varies one option: give each its own [[factor]]",
                        key.get_ref()
                    ),
                    None => unknown(key.get_ref(), &self.table, known),
                };
                let line = self.problems.line(key.span().start);
                self.problems.add(line, text);
            }
            return None;
        };
        let offset = key.span().start;
        let key = key.get_ref();
        let Some(list) = value.get_ref().as_list() else {
            let text = unknown(key, &self.table, known);
            self.problems.add(self.problems.line(offset), text);
            return None;
        };
        let option = self.option_name(key, offset)?;
        let folder = self.folder;
        let levels = self.read_each(list, |level, line| {
            read_option_level(&option, level, line, folder)
        });
        Some((key.clone(), FactorKind::Option { option }, levels))
    }

    fn option_name(&mut self, key: &str, offset: usize) -> Option<String> {
        let name = option_name(key);
        name.map_err(|text| self.problems.add(self.problems.line(offset), text))
            .ok()
    }

    fn check_levels(&mut self, levels: &[Level]) {
        // If no level could be read, each has its own problem.
        if levels.is_empty() && self.problems.count() == 0 {
            self.add("the list of levels is empty");
        }
        if levels.len() > MAX_LEVELS {
            let count = levels.len();
            self.add(&format!("{count} levels; the limit is {MAX_LEVELS}"));
        }
        let mut seen = std::collections::BTreeSet::new();
        for level in levels {
            if !seen.insert(&level.name) {
                let (table, name) = (&self.table, shown(&level.name));
                let text = format!("{table}: level {name} is given twice");
                self.problems.add(level.line, text);
            }
        }
    }
}

fn named_values(level: &Level) -> &[(String, String)] {
    match &level.value {
        LevelValue::Named(values) => values,
        LevelValue::Same | LevelValue::Option(_) => &[],
    }
}

fn check_key(key: String) -> Result<String, InvalidValue> {
    if key.chars().any(|c| c.is_whitespace() || c.is_control()) || sysctl_path(&key).is_none() {
        return Err(format!(
            "{} is not the name of a kernel setting like \"net.core.rmem_max\"",
            shown(&key)
        )
        .into());
    }
    Ok(key)
}

fn read_option_level(
    option: &str,
    level: &Value,
    line: usize,
    folder: &Path,
) -> Result<Level, InvalidValue> {
    Ok(Level {
        name: check_name(level.scalar("a text, a number, true or false")?)?,
        value: LevelValue::Option(option_value(option, level, folder)?),
        line,
    })
}

/// What the keys of a level with several values name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Any,
    Settings,
}

/// The form of a level with several values.
const LEVEL_EXPECTED: &str = "a number, a text, or a table with a name and values";

fn any_level(level: &Value, line: usize) -> Result<Level, InvalidValue> {
    read_level(level, line, Names::Any)
}

/// A level: one value, or a name and several values.
fn read_level(level: &Value, line: usize, names: Names) -> Result<Level, InvalidValue> {
    let Some(entries) = level.as_table() else {
        return Ok(Level {
            name: check_name(level_text(level)?)?,
            value: LevelValue::Same,
            line,
        });
    };
    let mut name = None;
    let mut values: Vec<(String, String)> = Vec::new();
    for (key, value) in flattened(entries) {
        if key == "name" {
            name = Some(check_name(value.scalar("a name")?)?);
            continue;
        }
        if names == Names::Settings {
            check_key(key.clone())?;
        }
        if values.iter().any(|(known, _)| *known == key) {
            return Err(format!("{key} is given twice").into());
        }
        values.push((key, level_text(value)?));
    }
    let name = name.ok_or("a level with several values needs a name: { name = \"big\", ... }")?;
    if values.is_empty() {
        return Err(format!("level {} sets nothing", shown(&name)).into());
    }
    Ok(Level {
        name,
        value: LevelValue::Named(values),
        line,
    })
}

/// The values of a table; nested keys are joined with dots, as TOML reads `a.b = 1`.
fn flattened(entries: &[TableEntry]) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (key, value) in entries {
        let key = key.get_ref();
        match value.get_ref().as_table() {
            None => found.push((key.clone(), value.get_ref())),
            Some(inner) => found.extend(
                flattened(inner)
                    .into_iter()
                    .map(|(inner_key, value)| (format!("{key}.{inner_key}"), value)),
            ),
        }
    }
    found
}

/// A level as text; the values of a list are joined with spaces.
pub(super) fn level_text(level: &Value) -> Result<String, InvalidValue> {
    let Some(parts) = level.as_list() else {
        let text = level.scalar(LEVEL_EXPECTED)?;
        return Ok(normal(&text));
    };
    let parts = parts
        .iter()
        .map(|part| part.get_ref().scalar("a list of numbers"));
    Ok(parts.collect::<Result<Vec<_>, _>>()?.join(" "))
}
