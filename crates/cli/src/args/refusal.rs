//! Rejected command lines: one line that says what is wrong, why, and what was expected.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use plan::PlanError;

use super::{foreign, planned};

/// The message, without the program name and without a line feed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refusal(pub(crate) String);

impl Refusal {
    /// For a setting that [`plan::RunPlan::check`] rejects: `--connections 2: must be ...`.
    pub(crate) fn of_plan(error: &PlanError) -> Self {
        Self(format!("--{error}"))
    }

    /// For a clap error about a command, whose arguments are `typed`.
    pub(crate) fn of_command(
        typed: &[String],
        error: &clap::Error,
        declaration: &clap::Command,
    ) -> Self {
        let Some((name, given)) = typed.split_first() else {
            return Self::of_clap(error, declaration);
        };
        match error.kind() {
            ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                if given.is_empty() =>
            {
                Self(usage(name, declaration))
            }
            ErrorKind::UnknownArgument => {
                let word = text(error, ContextKind::InvalidArg);
                match foreign::advice_on_surplus(name, &word) {
                    _ if word.starts_with('-') => of_single_runs(name, &word)
                        .unwrap_or_else(|| Self::of_clap(error, declaration)),
                    Some(advice) => Self(format!("{word}: a surplus argument ({advice})")),
                    None => Self(format!(
                        "{word}: a surplus argument ({})",
                        usage(name, declaration)
                    )),
                }
            }
            _ => Self::of_clap(error, declaration),
        }
    }

    /// For a clap error, whose own text has several lines. `declaration` has all options.
    pub(crate) fn of_clap(error: &clap::Error, declaration: &clap::Command) -> Self {
        let option = option_name(error);
        Self(match error.kind() {
            // The message about a URL contains the URL.
            ErrorKind::ValueValidation if option.starts_with('[') => reason(error),
            ErrorKind::ValueValidation => {
                let value = text(error, ContextKind::InvalidValue);
                match foreign::advice_on_value(&option, &value) {
                    Some(advice) => format!("{option}: {} ({advice})", reason(error)),
                    None => format!("{option}: {}", reason(error)),
                }
            }
            ErrorKind::InvalidValue => format!("{option}: {}", wrong_choice(error)),
            ErrorKind::UnknownArgument if !option.starts_with('-') => {
                format!("{option}: a surplus argument (--help shows what is expected)")
            }
            ErrorKind::UnknownArgument => format!("{option}: {}", unknown(error, declaration)),
            ErrorKind::ArgumentConflict => {
                let other = text(error, ContextKind::PriorArg);
                format!(
                    "{option}: cannot be used together with {}",
                    first_word(&other)
                )
            }
            ErrorKind::TooManyValues => format!(
                "{option}: takes no value, but got {:?}",
                text(error, ContextKind::InvalidValue)
            ),
            ErrorKind::MissingRequiredArgument => format!("{option}: is missing"),
            ErrorKind::InvalidUtf8 => "an argument is not UTF-8 (expected text)".to_owned(),
            _ => first_line(error),
        })
    }
}

/// For an option that only single runs have, given to a command that makes many of them.
fn of_single_runs(command: &str, word: &str) -> Option<Refusal> {
    const MANY_RUNS: [&str; 3] = ["sweep", "search", "versus"];
    let name = word.strip_prefix("--")?;
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    let reason = planned::refusal(name).filter(|_| MANY_RUNS.contains(&command))?;
    Some(Refusal(format!(
        "--{name}: an option of single runs, not of wrkbench {command} ({reason})"
    )))
}

/// How a command is called, on one line: `usage: wrkbench table [OPTIONS] [FILE]...`.
pub(super) fn usage(name: &str, declaration: &clap::Command) -> String {
    let mut command = declaration.clone();
    command.build();
    let command = command.find_subcommand_mut(name);
    let usage = command
        .map(|it| it.render_usage().to_string())
        .unwrap_or_default();
    let lines: Vec<&str> = usage.split_whitespace().skip(1).collect();
    format!("usage: {} (--help explains it)", lines.join(" "))
}

/// `--connections <N>` without the `<N>`.
fn option_name(error: &clap::Error) -> String {
    first_word(&text(error, ContextKind::InvalidArg)).to_owned()
}

fn reason(error: &clap::Error) -> String {
    error
        .source()
        .map_or_else(|| first_line(error), ToString::to_string)
}

/// A value that is not in the list of possible values, or no value at all.
fn wrong_choice(error: &clap::Error) -> String {
    let value = text(error, ContextKind::InvalidValue);
    let choices = text(error, ContextKind::ValidValue);
    match (value.is_empty(), choices.is_empty()) {
        (true, true) => "needs a value".to_owned(),
        (true, false) => format!("needs a value (expected one of {choices})"),
        (false, _) => format!("{value:?} is not a valid value (expected one of {choices})"),
    }
}

/// An option that does not exist, or an ambiguous prefix.
fn unknown(error: &clap::Error, declaration: &clap::Command) -> String {
    let typed = text(error, ContextKind::InvalidArg);
    let prefix = typed.strip_prefix("--").unwrap_or_default();
    let meant: Vec<String> = declaration
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .filter(|long| !prefix.is_empty() && long.starts_with(prefix))
        .map(|long| format!("--{long}"))
        .collect();
    if let Some(advice) = foreign::advice(&typed) {
        return format!("unknown option ({advice})");
    }
    let suggested = text(error, ContextKind::SuggestedArg);
    // clap also suggests aliases, some of which are single letters.
    let known = declaration
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .any(|long| suggested.strip_prefix("--") == Some(long));
    if meant.len() > 1 {
        format!("ambiguous (expected one of {})", meant.join(", "))
    } else if !known {
        "unknown option (--help lists all)".to_owned()
    } else {
        format!("unknown option (did you mean {suggested}?)")
    }
}

/// One part of clap's error, on one line.
fn text(error: &clap::Error, kind: ContextKind) -> String {
    let text = match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        Some(ContextValue::StyledStrs(texts)) => texts
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", "),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    // A line feed in a word must not look like its end.
    plan::printable(&text.replace(char::is_control, "?")).into_owned()
}

fn first_word(text: &str) -> &str {
    text.split([' ', '=']).next().unwrap_or_default()
}

fn first_line(error: &clap::Error) -> String {
    let rendered = error.render().to_string();
    let line = rendered.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
