//! A TOML document read key by key: each refusal has its line, and no key is overlooked.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plan::units::parse_time;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is wrong with a plan: all of it, a line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SpecError {
    pub(super) file: PathBuf,
    pub(super) problems: Vec<Problem>,
}

impl fmt::Display for SpecError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "{}", self.file.display())?;
            if let Some(line) = problem.line {
                write!(formatter, ":{line}")?;
            }
            write!(formatter, ": {}", problem.text)?;
        }
        Ok(())
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// Line of the file, from 1, where there is one.
    pub(super) line: Option<usize>,
    pub(super) text: String,
}

impl Problem {
    pub(super) fn at(line: usize, text: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            text: text.into(),
        }
    }
}

/// More mistakes are not told: the first ones are seen to first.
const MAX_PROBLEMS: usize = 100;

/// The problems found so far; reading goes on after each, so that all are told at once.
#[derive(Debug, Default)]
pub(super) struct Problems(pub(super) Vec<Problem>);

impl Problems {
    pub(super) fn add(&mut self, line: usize, text: impl Into<String>) {
        self.0.push(Problem::at(line, text));
    }

    /// The value, if it was one; otherwise its problem is kept.
    pub(super) fn keep<T>(&mut self, read: Result<T, Problem>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(problem) => {
                self.0.push(problem);
                None
            }
        }
    }

    /// The error that they are together, or nothing.
    pub(super) fn judge(mut self, file: &Path) -> Result<(), SpecError> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.0.sort_by_key(|problem| problem.line);
        let left_out = self.0.len().saturating_sub(MAX_PROBLEMS);
        if left_out > 0 {
            self.0.truncate(MAX_PROBLEMS);
            self.0.push(Problem {
                line: None,
                text: format!("and {left_out} more mistakes"),
            });
        }
        Err(SpecError {
            file: file.to_owned(),
            problems: self.0,
        })
    }
}

/// Where the lines of a text begin.
#[derive(Debug)]
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        let begins = text.match_indices('\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(begins).collect())
    }

    /// The line of a byte, from 1.
    pub(super) fn at(&self, byte: usize) -> usize {
        self.0.partition_point(|begin| *begin <= byte)
    }
}

/// A table of the document, whose keys are taken one by one.
#[derive(Debug)]
pub(super) struct Table<'a> {
    /// How messages name it: `[hooks]`.
    pub(super) name: String,
    pub(super) line: usize,
    left: Vec<Value<'a>>,
}

/// The value of a key, or of a place in a list.
#[derive(Debug, Clone)]
pub(super) struct Value<'a> {
    /// The key; of an element that of its list.
    pub(super) key: String,
    pub(super) line: usize,
    value: &'a DeValue<'a>,
    lines: &'a Lines,
}

impl<'a> Table<'a> {
    pub(super) fn new(
        name: impl Into<String>,
        line: usize,
        table: &'a DeTable<'a>,
        lines: &'a Lines,
    ) -> Self {
        let mut entries: Vec<_> = table.iter().collect();
        // The order of the text is the order of factors and levels.
        entries.sort_by_key(|(key, _)| key.span().start);
        let value = |(key, value): (&Spanned<_>, &'a Spanned<DeValue<'a>>)| {
            let key: &Spanned<std::borrow::Cow<'_, str>> = key;
            Value {
                key: key.get_ref().to_string(),
                line: lines.at(key.span().start),
                value: value.get_ref(),
                lines,
            }
        };
        Self {
            name: name.into(),
            line,
            left: entries.into_iter().map(value).collect(),
        }
    }

    /// The value of a key; the next one to ask gets nothing.
    pub(super) fn take(&mut self, key: &str) -> Option<Value<'a>> {
        let at = self.left.iter().position(|value| value.key == key)?;
        Some(self.left.remove(at))
    }

    /// The value of a key as one thing, if it is there and is one.
    pub(super) fn read<T>(
        &mut self,
        key: &str,
        problems: &mut Problems,
        reader: impl FnOnce(&Value<'a>) -> Result<T, Problem>,
    ) -> Option<T> {
        let value = self.take(key)?;
        problems.keep(reader(&value))
    }

    /// Everything that was not taken, in the order of the text.
    pub(super) fn rest(&mut self) -> Vec<Value<'a>> {
        std::mem::take(&mut self.left)
    }

    /// Whether a key has not been taken yet.
    pub(super) fn has(&self, key: &str) -> bool {
        self.left.iter().any(|value| value.key == key)
    }

    /// Refuses what was not taken. `known` is what could have been there.
    pub(super) fn refuse_rest(&mut self, known: &[&str], problems: &mut Problems) {
        for value in self.rest() {
            problems.add(value.line, unknown(&value.key, &self.name, known));
        }
    }
}

/// What is said of a key that nobody knows.
pub(super) fn unknown(key: &str, place: &str, known: &[&str]) -> String {
    let key_shown = shown(key);
    if let Some(home) = HOMES
        .iter()
        .find(|(known, home)| *known == key && *home != place)
    {
        return format!("{key_shown} does not belong in {place} but in {}", home.1);
    }
    if OPTIONS.contains(&key.replace('-', "_").as_str()) {
        return match place {
            "[[factor]]" => format!(
                "{key_shown} in [[factor]] takes a list of levels, like {key} = [4, 8]; a value for every run belongs in [load]"
            ),
            place => format!(
                "{key_shown} does not belong in {place} but in [load]; to vary it, write {key} = [...] below [[factor]]"
            ),
        };
    }
    match nearest(key, known) {
        Some(near) => format!("unknown key {key_shown} in {place} (did you mean {near}?)"),
        None => format!(
            "unknown key {key_shown} in {place} (known: {})",
            known.join(", ")
        ),
    }
}

/// Options of the load that people put beside the keys of other tables.
const OPTIONS: [&str; 17] = [
    "body",
    "connections",
    "duration",
    "header",
    "io",
    "method",
    "no_keepalive",
    "pipeline",
    "rate",
    "requests",
    "requests_per_connection",
    "script",
    "stages",
    "threads",
    "timeout",
    "verify",
    "warmup",
];

/// What is said of an option that is none, because the key belongs elsewhere.
pub(super) fn misplaced(key: &str) -> Option<String> {
    let (_, home) = HOMES.iter().find(|(known, _)| *known == key)?;
    let before = match *home {
        TOP_OF_FILE => ", before its first [table]",
        _ => "",
    };
    Some(format!(
        "{} is no option of the load; it belongs in {home}{before}",
        shown(key)
    ))
}

const TOP_OF_FILE: &str = "the top of the file";

/// Keys that people put in the wrong table, and where they are at home.
const HOMES: [(&str, &str); 19] = [
    ("settle", "[hooks]"),
    ("restart", "[hooks]"),
    ("ready", "[hooks]"),
    ("setup", "[hooks]"),
    ("teardown", "[hooks]"),
    ("sockets", "[telemetry]"),
    ("counters", "[telemetry]"),
    ("url", "[[target]]"),
    ("before", "[hooks]"),
    ("after", "[hooks]"),
    ("rounds", TOP_OF_FILE),
    ("results", TOP_OF_FILE),
    ("order", TOP_OF_FILE),
    ("retries", TOP_OF_FILE),
    ("max_failures", TOP_OF_FILE),
    ("threshold", TOP_OF_FILE),
    ("exclude", TOP_OF_FILE),
    ("baseline", TOP_OF_FILE),
    ("levels", "[[factor]]"),
];

/// The known word that is nearest to this one, if one is near: the distance of Levenshtein, at most a
/// third of the length.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let near = known
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate));
    let (distance, candidate) = near.min_by_key(|(distance, _)| *distance)?;
    (distance <= candidate.len().div_ceil(3)).then_some(candidate)
}

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().take(LONGEST_SHOWN).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// More of somebody's text is not repeated in a message.
const LONGEST_SHOWN: usize = 80;

/// A text of the plan in a message: one line, not too long.
pub(super) fn shown(text: &str) -> String {
    let mut cut: String = text.chars().take(LONGEST_SHOWN).collect();
    if cut.len() < text.len() {
        cut.push_str("...");
    }
    format!("{cut:?}")
}

impl<'a> Value<'a> {
    fn refuse<T>(&self, expected: &str) -> Result<T, Problem> {
        let is = match self.value {
            DeValue::String(text) => shown(text),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(truth) => truth.to_string(),
            DeValue::Datetime(_) => "a date".to_owned(),
            DeValue::Array(_) => "a list".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        };
        Err(self.problem(format!(
            "{}: {is} is not what is expected: {expected}",
            self.key
        )))
    }

    /// A problem at this place.
    pub(super) fn problem(&self, text: impl Into<String>) -> Problem {
        Problem::at(self.line, text)
    }

    /// A text, of one line or more, not empty.
    pub(super) fn text(&self, expected: &str) -> Result<String, Problem> {
        match self.value {
            DeValue::String(text) if !text.trim().is_empty() && !text.contains('\0') => {
                Ok(text.to_string())
            }
            _ => self.refuse(expected),
        }
    }

    pub(super) fn boolean(&self) -> Result<bool, Problem> {
        match self.value {
            DeValue::Boolean(truth) => Ok(*truth),
            _ => self.refuse("true or false"),
        }
    }

    pub(super) fn count(&self, range: RangeInclusive<u64>) -> Result<u64, Problem> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        match integer(self.value).and_then(|number| u64::try_from(number).ok()) {
            Some(number) if range.contains(&number) => Ok(number),
            _ => self.refuse(&expected),
        }
    }

    /// A time with its unit, or a number of seconds.
    pub(super) fn time(&self) -> Result<Duration, Problem> {
        const EXPECTED: &str = "a time like \"30s\", \"500ms\", \"1m30s\"";
        let text = match self.value {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.as_str().to_owned(),
            _ => return self.refuse(EXPECTED),
        };
        match parse_time(&text) {
            // Longer would overflow sums; nobody waits so long.
            Ok(time) if time <= LONGEST_TIME => Ok(time),
            Ok(_) => self.refuse("a time of at most 30 days"),
            Err(_) => self.refuse(EXPECTED),
        }
    }

    /// A text, number or truth value, as text.
    pub(super) fn scalar(&self, expected: &str) -> Result<String, Problem> {
        match self.value {
            DeValue::String(text) => {
                if text.contains(['\0', '\n', '\r']) {
                    return self.refuse("a text of one line");
                }
                Ok(text.to_string())
            }
            DeValue::Integer(_) => match integer(self.value) {
                Some(number) => Ok(number.to_string()),
                None => self.refuse("a number of at most 128 bits"),
            },
            DeValue::Float(number) if number.as_str().contains(['n', 'i']) => {
                self.refuse("a finite number")
            }
            DeValue::Float(number) => Ok(number.as_str().to_owned()),
            DeValue::Boolean(truth) => Ok(truth.to_string()),
            DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => self.refuse(expected),
        }
    }

    /// Whether it is true or false, without quotes.
    pub(super) fn truth(&self) -> Option<bool> {
        match self.value {
            DeValue::Boolean(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The elements of a list; `None` for what is none.
    pub(super) fn elements(&self) -> Option<Vec<Self>> {
        let DeValue::Array(array) = self.value else {
            return None;
        };
        let element = |element: &'a Spanned<DeValue<'a>>| Self {
            key: self.key.clone(),
            line: self.lines.at(element.span().start),
            value: element.get_ref(),
            lines: self.lines,
        };
        Some(array.iter().map(element).collect())
    }

    pub(super) fn list(&self, expected: &str) -> Result<Vec<Self>, Problem> {
        match self.elements() {
            Some(elements) => Ok(elements),
            None => self.refuse(expected),
        }
    }

    /// One value, or a list of them.
    pub(super) fn one_or_more(&self) -> Vec<Self> {
        self.elements().unwrap_or_else(|| vec![self.clone()])
    }

    pub(super) fn table(
        &self,
        name: impl Into<String>,
        expected: &str,
    ) -> Result<Table<'a>, Problem> {
        match self.value {
            DeValue::Table(table) => Ok(Table::new(name, self.line, table, self.lines)),
            _ => self.refuse(expected),
        }
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self.value, DeValue::Table(_))
    }

    /// What a table says, nested ones with dots between the keys, as TOML itself reads `a.b = 1`.
    pub(super) fn flattened(&self, expected: &str) -> Result<Vec<(String, Self)>, Problem> {
        let mut found = Vec::new();
        for value in self.table("", expected)?.rest() {
            if value.is_table() {
                let inner = value.flattened(expected)?;
                let prefix = &value.key;
                found.extend(
                    inner
                        .into_iter()
                        .map(|(key, value)| (format!("{prefix}.{key}"), value)),
                );
            } else {
                found.push((value.key.clone(), value));
            }
        }
        Ok(found)
    }
}

/// The longest time that a plan may name.
const LONGEST_TIME: Duration = Duration::from_secs(30 * 24 * 3600);

fn integer(value: &DeValue<'_>) -> Option<i128> {
    match value {
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_word_finds_its_neighbour_and_a_strange_one_none() {
        let known = ["name", "levels", "sysctl", "option"];
        for (word, near) in [
            ("levles", Some("levels")),
            ("level", Some("levels")),
            ("sysctls", Some("sysctl")),
            ("zzzzzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, &known), near, "{word}");
        }
    }

    #[test]
    fn lines_are_counted_from_one() {
        let lines = Lines::of("a\nbc\n\nd");
        let at: Vec<_> = [0, 1, 2, 4, 5, 6].map(|byte| lines.at(byte)).into();
        assert_eq!(at, [1, 1, 2, 2, 3, 4]);
    }
}
