//! Factors, and the changes that their levels make.

mod template;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::change::Change;
use crate::spec::{LoadOption, OptionValue, variable};

use template::render;

/// A factor: one thing that the experiment varies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Factor {
    /// The name in the experiment file; by default that of the setting or option.
    pub name: String,
    /// What its levels set.
    pub kind: FactorKind,
    /// The machine that they change; `None` is this one.
    pub host: Option<String>,
    /// Its levels: at least one, with distinct names.
    pub levels: Vec<Level>,
    /// Line in the experiment file.
    pub line: usize,
}

/// What the levels of a factor set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactorKind {
    /// Kernel settings, with names in the form of sysctl(8).
    Sysctl {
        /// Each is set to the level, or to the value that a level with named values has for it.
        keys: Vec<String>,
    },
    /// An option of the load.
    Option {
        /// Its long name, with `-` between words.
        option: String,
    },
    /// The content of a file, made from a template.
    File {
        /// Absolute path of the file.
        path: PathBuf,
        /// The template, with `{{level}}` in it.
        template: PathBuf,
        /// Validates the file after it was written.
        check: Option<Check>,
    },
    /// A pair of commands.
    Command {
        /// Applies the level, which is in `$LEVEL`.
        apply: String,
        /// Runs once at the end, whatever levels were applied.
        restore: String,
        /// The time limit of either command.
        limit: Duration,
    },
}

/// A command that validates a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// A shell command line.
    pub command: String,
    /// The command is killed and counts as failed after this time.
    pub limit: Duration,
}

/// One level of a factor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// Its name: the value itself, or the name of a set of values.
    pub name: String,
    /// What the level sets.
    pub value: LevelValue,
    /// Line in the experiment file.
    pub line: usize,
}

/// The value of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LevelValue {
    /// The level's name is the value.
    Same,
    /// The value of an option.
    Option(OptionValue),
    /// Named values, in the order of the experiment file.
    Named(Vec<(String, String)>),
}

/// Why a level cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FactorError {
    /// The factor has no such level.
    #[error("{factor}: there is no level {level:?}")]
    NoLevel {
        /// Name of the factor.
        factor: String,
        /// The name that was asked for.
        level: String,
    },
    /// The template cannot be read or filled in.
    #[error("{}: {problem}", path.display())]
    Template {
        path: PathBuf,
        /// Why it cannot be read or filled in, in one line.
        problem: String,
    },
}

impl Factor {
    /// The level of this name.
    #[must_use]
    pub fn level(&self, name: &str) -> Option<&Level> {
        self.levels.iter().find(|level| level.name == name)
    }

    /// Whether servers must be restarted to use a new level.
    #[must_use]
    pub fn needs_restart(&self) -> bool {
        !matches!(self.kind, FactorKind::Option { .. })
    }

    /// The kernel settings that this factor sets.
    pub fn sysctls(&self) -> impl Iterator<Item = &str> {
        let keys: &[String] = match &self.kind {
            FactorKind::Sysctl { keys } => keys,
            _ => &[],
        };
        keys.iter().map(String::as_str)
    }

    /// The load option that a level of this factor sets.
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

    /// The value that a level gives to a kernel setting.
    #[must_use]
    pub fn sysctl_value<'l>(&self, key: &str, level: &'l Level) -> Option<&'l str> {
        match &level.value {
            LevelValue::Named(values) => find(values, key),
            LevelValue::Same | LevelValue::Option(_) => Some(&level.name),
        }
    }

    /// Environment variables for a level: `WRKBENCH_<FACTOR>`, and for named values
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

    /// The changes to the machine for a level; `read` reads a file.
    ///
    /// # Errors
    /// When there is no such level, or when a template cannot be read or filled in.
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
            .map_err(|error| refuse(format!("cannot read the template ({error})")))?;
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
