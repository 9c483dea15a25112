//! What is varied, and what a level of it changes.

mod template;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::change::Change;
use crate::spec::{LoadOption, OptionValue, variable};

use template::render;

/// Something that is varied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Factor {
    /// What it is called.
    pub name: String,
    /// What a level of it sets.
    pub kind: FactorKind,
    /// Its levels, at least one, each name once.
    pub levels: Vec<Level>,
    /// Line of the plan.
    pub line: usize,
}

/// What a level sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactorKind {
    /// Kernel settings, by the names that sysctl(8) has for them.
    Sysctl {
        /// Each takes the level, or what a level with names says of it.
        keys: Vec<String>,
    },
    /// An option of the load.
    Option {
        /// Its long name, with `-`.
        option: String,
    },
    /// The content of a file.
    File {
        /// Which; absolute.
        path: PathBuf,
        /// The file with `{{level}}` in it.
        template: PathBuf,
        /// Says whether the file is right; run when it is written.
        check: Option<Check>,
    },
    /// Commands.
    Command {
        /// Sets the level, which is in `$LEVEL`.
        apply: String,
        /// Undoes every level.
        restore: String,
        /// The longest that either may take.
        limit: Duration,
    },
}

/// A command that judges a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// A line of shell.
    pub command: String,
    /// The longest it may take.
    pub limit: Duration,
}

/// One value of a factor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// What it is called: the value itself, or the name of a set of them.
    pub name: String,
    /// What it sets.
    pub value: LevelValue,
    /// Line of the plan.
    pub line: usize,
}

/// What a level sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LevelValue {
    /// The same everywhere: its name.
    Same,
    /// The value of an option.
    Option(OptionValue),
    /// Values by name, in the order of the plan.
    Named(Vec<(String, String)>),
}

/// Why a level cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FactorError {
    /// There is no such level.
    #[error("{factor}: there is no level {level:?}")]
    NoLevel {
        /// Name of the factor.
        factor: String,
        /// What was asked for.
        level: String,
    },
    /// The template cannot be read or filled.
    #[error("{}: {problem}", path.display())]
    Template {
        /// The template.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

impl Factor {
    /// The level of this name.
    #[must_use]
    pub fn level(&self, name: &str) -> Option<&Level> {
        self.levels.iter().find(|level| level.name == name)
    }

    /// Whether servers see a new level only after a restart.
    #[must_use]
    pub fn needs_restart(&self) -> bool {
        !matches!(self.kind, FactorKind::Option { .. })
    }

    /// The kernel settings that it sets.
    pub fn sysctls(&self) -> impl Iterator<Item = &str> {
        let keys: &[String] = match &self.kind {
            FactorKind::Sysctl { keys } => keys,
            _ => &[],
        };
        keys.iter().map(String::as_str)
    }

    /// The option that a level of it sets.
    #[must_use]
    pub fn load_option(&self, level: &str) -> Option<LoadOption> {
        let FactorKind::Option { option } = &self.kind else {
            return None;
        };
        let level = self.level(level)?;
        let value = match &level.value {
            LevelValue::Option(value) => value.clone(),
            LevelValue::Same | LevelValue::Named(_) => OptionValue::Text(level.name.clone()),
        };
        Some(LoadOption {
            name: option.clone(),
            value,
            line: level.line,
        })
    }

    /// What a level sets a kernel setting to.
    #[must_use]
    pub fn sysctl_value<'l>(&self, key: &str, level: &'l Level) -> Option<&'l str> {
        match &level.value {
            LevelValue::Named(values) => find(values, key),
            LevelValue::Same | LevelValue::Option(_) => Some(&level.name),
        }
    }

    /// Variables with a level: `WRKBENCH_<FACTOR>`, and for values with names
    /// `WRKBENCH_<FACTOR>_<NAME>`.
    #[must_use]
    pub fn environment(&self, level: &str) -> BTreeMap<String, String> {
        let mut environment = BTreeMap::from([(variable(&self.name), level.to_owned())]);
        if let Some(LevelValue::Named(values)) = self.level(level).map(|level| &level.value) {
            let named = values
                .iter()
                .map(|(name, value)| (variable(&format!("{}_{name}", self.name)), value.clone()));
            environment.extend(named);
        }
        environment
    }

    /// What is to be changed on the machine for a level; `read` reads a file.
    ///
    /// # Errors
    /// When there is no such level, and when a template cannot be read or filled.
    pub fn changes(
        &self,
        level: &str,
        read: impl Fn(&Path) -> std::io::Result<Vec<u8>>,
    ) -> Result<Vec<Change>, FactorError> {
        let Some(level) = self.level(level) else {
            return Err(FactorError::NoLevel {
                factor: self.name.clone(),
                level: level.to_owned(),
            });
        };
        Ok(match &self.kind {
            FactorKind::Option { .. } => Vec::new(),
            FactorKind::Sysctl { keys } => keys
                .iter()
                .filter_map(|key| {
                    let value = self.sysctl_value(key, level)?.to_owned();
                    Some(Change::Sysctl {
                        key: key.clone(),
                        value,
                    })
                })
                .collect(),
            FactorKind::File { path, template, .. } => vec![Change::File {
                path: path.clone(),
                content: self.content(template, level, read)?,
            }],
            FactorKind::Command {
                apply,
                restore,
                limit,
            } => {
                let mut environment = self.environment(&level.name);
                environment.insert("LEVEL".to_owned(), level.name.clone());
                vec![Change::Command {
                    name: self.name.clone(),
                    apply: apply.clone(),
                    restore: restore.clone(),
                    environment,
                    limit: *limit,
                }]
            }
        })
    }

    fn content(
        &self,
        template: &Path,
        level: &Level,
        read: impl Fn(&Path) -> std::io::Result<Vec<u8>>,
    ) -> Result<Vec<u8>, FactorError> {
        let refuse = |problem: String| FactorError::Template {
            path: template.to_owned(),
            problem,
        };
        let text = read(template)
            .map_err(|error| refuse(format!("the template cannot be read ({error})")))?;
        let mut values = vec![("level".to_owned(), level.name.clone())];
        if let LevelValue::Named(named) = &level.value {
            values.extend(named.iter().cloned());
        }
        render(&text, &values).map_err(|error| refuse(error.to_string()))
    }
}

fn find<'v>(values: &'v [(String, String)], name: &str) -> Option<&'v str> {
    let (_, value) = values.iter().find(|(known, _)| known == name)?;
    Some(value)
}

#[cfg(test)]
mod tests;
