//! The kinds of factor, and their levels.

use std::path::Path;
use std::time::Duration;

use super::MAX_LEVELS;
use super::document::{Problem, Problems, Table, Value, shown, unknown};
use super::options::{option_name, option_value};
use super::read::{check_name, read_limit, read_name};
use crate::change::sysctl_path;
use crate::factor::{Check, Factor, FactorKind, Level, LevelValue};

/// The longest that a command of a factor may take if the plan does not say.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

const KEYS: [&str; 10] = [
    "name", "levels", "sysctl", "option", "file", "template", "check", "apply", "restore",
    "timeout",
];

/// What a level with several values looks like.
const LEVEL_EXPECTED: &str = "a number, a text, or a table with a name and values";

/// Reads a factor; `None` if it is none, and the problems say why.
pub(super) fn read_factor(
    mut table: Table<'_>,
    base: &Path,
    problems: &mut Problems,
) -> Option<Factor> {
    let line = table.line;
    let name = table.read("name", problems, |value| {
        read_name(value, "a name in quotes")
    });
    if let Some(name) = &name {
        table.name = format!("[[factor]] {name}");
    }
    let levels = table.take("levels");
    let before = problems.0.len();
    let read = match kind_of(&table) {
        Some("sysctl") => read_sysctl(&mut table, levels.as_ref(), problems),
        Some("file") => read_file(&mut table, levels.as_ref(), base, problems),
        Some("apply") => read_command(&mut table, levels.as_ref(), problems),
        Some(_) => read_load_option(&mut table, levels.as_ref(), base, problems),
        None => match &levels {
            Some(levels) => read_settings_by_level(levels, problems),
            None => read_short_option(&mut table, base, problems),
        },
    };
    table.refuse_rest(&KEYS, problems);
    let Some((own_name, kind, levels)) = read else {
        if problems.0.len() == before {
            problems.add(
                line,
                format!(
                    "{}: neither sysctl, option, file nor apply says what is varied",
                    table.name
                ),
            );
        }
        return None;
    };
    check_levels(&levels, &table.name, line, problems);
    Some(Factor {
        name: name.unwrap_or(own_name),
        kind,
        levels,
        line,
    })
}

/// What of a factor is known when its kind is: a name for it, the kind, the levels.
type Read = (String, FactorKind, Vec<Level>);

/// The key that says of which kind a factor is.
fn kind_of(table: &Table<'_>) -> Option<&'static str> {
    [
        ("sysctl", "sysctl"),
        ("option", "option"),
        ("file", "file"),
        ("template", "file"),
        ("apply", "apply"),
        ("restore", "apply"),
    ]
    .into_iter()
    .find(|(key, _)| table.has(key))
    .map(|(_, kind)| kind)
}

/// The value of a key that must be there.
fn needed<'a>(
    table: &mut Table<'a>,
    key: &str,
    expected: &str,
    problems: &mut Problems,
) -> Option<Value<'a>> {
    let value = table.take(key);
    if value.is_none() {
        problems.add(
            table.line,
            format!("{}: {key} is missing: {key} = {expected}", table.name),
        );
    }
    value
}

fn elements<'a>(
    levels: Option<&Value<'a>>,
    table: &Table<'_>,
    problems: &mut Problems,
) -> Vec<Value<'a>> {
    match levels {
        None => {
            problems.add(
                table.line,
                format!("{}: levels are missing: levels = [...]", table.name),
            );
            Vec::new()
        }
        Some(levels) => problems
            .keep(levels.list("a list of levels"))
            .unwrap_or_default(),
    }
}

fn read_sysctl(
    table: &mut Table<'_>,
    levels: Option<&Value<'_>>,
    problems: &mut Problems,
) -> Option<Read> {
    let value = table.take("sysctl")?;
    let mut keys = Vec::new();
    for element in value.one_or_more() {
        keys.extend(problems.keep(read_key(&element)));
    }
    let levels = elements(levels, table, problems);
    let levels = levels
        .iter()
        .filter_map(|level| problems.keep(read_level(level, Names::Any)));
    let levels: Vec<_> = levels.collect();
    if keys.is_empty() {
        if value.one_or_more().is_empty() {
            problems.add(value.line, "sysctl: an empty list");
        }
        return None;
    }
    for level in &levels {
        if let LevelValue::Named(values) = &level.value {
            check_same_keys(level, values, &keys, problems);
        }
    }
    Some((keys.join(", "), FactorKind::Sysctl { keys }, levels))
}

fn read_key(value: &Value<'_>) -> Result<String, Problem> {
    let key = value.text("the name of a kernel setting like \"net.core.rmem_max\"")?;
    check_key(value, &key)?;
    Ok(key)
}

fn check_key(value: &Value<'_>, key: &str) -> Result<(), Problem> {
    if key.chars().any(|c| c.is_whitespace() || c.is_control()) || sysctl_path(key).is_none() {
        return Err(value.problem(format!(
            "{} cannot be the name of a kernel setting (expected like \"net.core.rmem_max\")",
            shown(key)
        )));
    }
    Ok(())
}

/// A level that does not set what another one does would leave that one's value behind.
fn check_same_keys(
    level: &Level,
    values: &[(String, String)],
    keys: &[String],
    problems: &mut Problems,
) {
    let has = |list: &[&str], key: &str| list.contains(&key);
    let own: Vec<&str> = values.iter().map(|(key, _)| key.as_str()).collect();
    let all: Vec<&str> = keys.iter().map(String::as_str).collect();
    for key in all.iter().filter(|key| !has(&own, key)) {
        problems.add(level.line, format!(
            "level {} does not set {key}, and the level before it would stay: each level sets the same keys",
            shown(&level.name)
        ));
    }
    for key in own.iter().filter(|key| !has(&all, key)) {
        problems.add(
            level.line,
            format!(
                "level {} sets {}, which is not among those of the factor ({})",
                shown(&level.name),
                shown(key),
                all.join(", ")
            ),
        );
    }
}

/// A factor without a kind, whose levels are tables with names of kernel settings.
fn read_settings_by_level(levels: &Value<'_>, problems: &mut Problems) -> Option<Read> {
    let list = problems.keep(levels.list("a list of levels"))?;
    if list.is_empty() || !list.iter().all(Value::is_table) {
        return None;
    }
    let read = list
        .iter()
        .filter_map(|level| problems.keep(read_level(level, Names::Settings)));
    let read: Vec<_> = read.collect();
    let mut keys: Vec<String> = Vec::new();
    for level in &read {
        let LevelValue::Named(values) = &level.value else {
            continue;
        };
        let new = values.iter().map(|(key, _)| key.clone());
        let new: Vec<_> = new.filter(|key| !keys.contains(key)).collect();
        keys.extend(new);
    }
    for level in &read {
        if let LevelValue::Named(values) = &level.value {
            check_same_keys(level, values, &keys, problems);
        }
    }
    (!keys.is_empty()).then(|| (keys.join(", "), FactorKind::Sysctl { keys }, read))
}

fn read_file(
    table: &mut Table<'_>,
    levels: Option<&Value<'_>>,
    base: &Path,
    problems: &mut Problems,
) -> Option<Read> {
    let file = needed(table, "file", "\"/etc/nginx/nginx.conf\"", problems);
    let template = needed(table, "template", "\"nginx.conf.tmpl\"", problems);
    let path = |value: &Value<'_>| value.text("a file in quotes").map(|path| base.join(path));
    let file = file.and_then(|value| problems.keep(path(&value)));
    let template = template.and_then(|value| problems.keep(path(&value)));
    let limit = table
        .read("timeout", problems, read_limit)
        .unwrap_or(COMMAND_LIMIT);
    let check = table.read("check", problems, |value| value.text("a command in quotes"));
    let levels = elements(levels, table, problems);
    let levels = levels
        .iter()
        .filter_map(|level| problems.keep(read_level(level, Names::Any)));
    let levels: Vec<_> = levels.collect();
    let (path, template) = (file?, template?);
    if path == template {
        problems.add(
            table.line,
            format!("{}: file and template are the same", table.name),
        );
    }
    let name = path
        .file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned();
    let check = check.map(|command| Check { command, limit });
    Some((
        name,
        FactorKind::File {
            path,
            template,
            check,
        },
        levels,
    ))
}

fn read_command(
    table: &mut Table<'_>,
    levels: Option<&Value<'_>>,
    problems: &mut Problems,
) -> Option<Read> {
    let apply = needed(table, "apply", "\"command with $LEVEL\"", problems);
    let restore = needed(
        table,
        "restore",
        "\"command that puts back what was\"",
        problems,
    );
    let command = |value: Value<'_>| value.text("a command in quotes");
    let apply = apply.and_then(|value| problems.keep(command(value)));
    let restore = restore.and_then(|value| problems.keep(command(value)));
    let limit = table
        .read("timeout", problems, read_limit)
        .unwrap_or(COMMAND_LIMIT);
    let levels = elements(levels, table, problems);
    let levels = levels
        .iter()
        .filter_map(|level| problems.keep(read_level(level, Names::Any)));
    let levels: Vec<_> = levels.collect();
    let (apply, restore) = (apply?, restore?);
    let name = "command".to_owned();
    Some((
        name,
        FactorKind::Command {
            apply,
            restore,
            limit,
        },
        levels,
    ))
}

fn read_load_option(
    table: &mut Table<'_>,
    levels: Option<&Value<'_>>,
    base: &Path,
    problems: &mut Problems,
) -> Option<Read> {
    let value = table.take("option")?;
    let levels = elements(levels, table, problems);
    let option = problems.keep(value.text("an option in quotes, like \"connections\""))?;
    let option = problems.keep(option_name(&value, &option))?;
    let levels = option_levels(&option, &levels, base, problems);
    Some((option.clone(), FactorKind::Option { option }, levels))
}

/// `connections = [64, 96, 400]`: the key is the option, the value its levels.
fn read_short_option(table: &mut Table<'_>, base: &Path, problems: &mut Problems) -> Option<Read> {
    let mut rest = table.rest();
    if rest.len() > 1 {
        for value in rest
            .iter()
            .filter(|value| !KEYS.contains(&value.key.as_str()))
        {
            let text = match value.elements() {
                Some(_) => format!(
                    "{}: a factor varies one thing, and several options cross: give each a [[factor]] of its own",
                    value.key
                ),
                None => unknown(&value.key, &table.name, &KEYS),
            };
            problems.add(value.line, text);
        }
        return None;
    }
    let value = rest.pop()?;
    let Some(levels) = value.elements() else {
        problems.add(value.line, unknown(&value.key, &table.name, &KEYS));
        return None;
    };
    let option = problems.keep(option_name(&value, &value.key))?;
    let levels = option_levels(&option, &levels, base, problems);
    Some((value.key.clone(), FactorKind::Option { option }, levels))
}

fn option_levels(
    option: &str,
    levels: &[Value<'_>],
    base: &Path,
    problems: &mut Problems,
) -> Vec<Level> {
    let read = |level: &Value<'_>| {
        let name = level.scalar("a text, a number, true or false")?;
        check_name(level, &name)?;
        Ok(Level {
            name,
            value: LevelValue::Option(option_value(option, level, base)?),
            line: level.line,
        })
    };
    levels
        .iter()
        .filter_map(|level| problems.keep(read(level)))
        .collect()
}

/// What the values of a level with several are called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Any,
    Settings,
}

/// A level: one value, or a name and several.
fn read_level(level: &Value<'_>, names: Names) -> Result<Level, Problem> {
    if !level.is_table() {
        let name = level_text(level)?;
        check_name(level, &name)?;
        return Ok(Level {
            name,
            value: LevelValue::Same,
            line: level.line,
        });
    }
    let mut name = None;
    let mut values = Vec::new();
    for (key, value) in level.flattened(LEVEL_EXPECTED)? {
        if key == "name" {
            let text = value.scalar("a name")?;
            check_name(&value, &text)?;
            name = Some(text);
            continue;
        }
        if names == Names::Settings {
            check_key(&value, &key)?;
        }
        if values.iter().any(|(known, _)| *known == key) {
            return Err(value.problem(format!("{key}: given twice")));
        }
        values.push((key, level_text(&value)?));
    }
    let Some(name) = name else {
        return Err(
            level.problem("a level with several values needs a name: { name = \"big\", ... }")
        );
    };
    if values.is_empty() {
        return Err(level.problem(format!("level {} sets nothing", shown(&name))));
    }
    Ok(Level {
        name,
        value: LevelValue::Named(values),
        line: level.line,
    })
}

/// One value as text; a list is its values with blanks between them, as in a triple.
pub(super) fn level_text(level: &Value<'_>) -> Result<String, Problem> {
    let Some(parts) = level.elements() else {
        let text = level.scalar(LEVEL_EXPECTED)?;
        return Ok(text.split_whitespace().collect::<Vec<_>>().join(" "));
    };
    let parts = parts.iter().map(|part| part.scalar("a list of numbers"));
    Ok(parts.collect::<Result<Vec<_>, _>>()?.join(" "))
}

fn check_levels(levels: &[Level], factor: &str, line: usize, problems: &mut Problems) {
    // Without any the list was empty, or each of them has its own problem.
    if levels.is_empty() && problems.0.is_empty() {
        problems.add(line, format!("{factor}: an empty list of levels"));
    }
    if levels.len() > MAX_LEVELS {
        problems.add(
            line,
            format!("{factor}: {} levels, at most {MAX_LEVELS}", levels.len()),
        );
    }
    let mut seen = std::collections::BTreeSet::new();
    for level in levels {
        if !seen.insert(&level.name) {
            problems.add(
                level.line,
                format!("{factor}: level {} is there twice", shown(&level.name)),
            );
        }
    }
}
