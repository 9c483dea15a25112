//! What `-h` prints: the options of a command that are its own, on one screen.

use clap::{Arg, Command, CommandFactory as _};
use plan::Heading;

use super::guide;
use super::help::{FLEET_HEADING, HEADING};
use super::llm;
use super::run::RunArgs;

/// The screen: lines, and columns of the lines that are composed here.
const LINES_MAX: usize = 40;
const COLUMNS_MAX: usize = 100;

/// The options in the summary of the program.
const COMMON: [&str; 5] = ["connections", "duration", "threads", "rate", "latency"];

/// The options in the summary of a run. Other commands that make runs name them first.
const COMMON_OF_RUN: [&str; 13] = [
    "threads",
    "connections",
    "duration",
    "requests",
    "rate",
    "header",
    "body",
    "request-file",
    "script",
    "latency",
    "json",
    "fail-if",
    "once",
];

/// The options of conversations in the summary of `wrkbench llm`.
const COMMON_OF_CONVERSATIONS: [&str; 3] = ["conversations", "turns", "think"];

/// Options of experiments that few people set.
const SELDOM: [&str; 4] = ["max-failures", "stop-at", "no-try", "journal"];

/// Options of experiments that are commands.
const HOOKS: [&str; 5] = ["restart", "setup", "before", "after", "teardown"];

/// The summary of a command.
pub(super) fn of_command(command: Command) -> String {
    let name = command.get_name().to_owned();
    let groups = groups(&command);
    let command = command.mut_args(|arg| match group(&name, &arg) {
        Some(_) => arg.hide(true),
        None if arg.is_positional() => arg,
        None => arg.help_heading(None),
    });
    let examples = guide::of(&name).examples;
    let with_examples = |count: usize| {
        let examples = guide::examples(&examples[..count]);
        let below = format!("{groups}{examples}");
        command.clone().after_help(below).render_help().to_string()
    };
    // As many examples as there is room for.
    let mut texts = (2..=examples.len()).rev().map(with_examples);
    let fitting = texts.find(|text| text.lines().count() <= LINES_MAX);
    fitting.unwrap_or_else(|| with_examples(1))
}

/// The lines about options that the summary only names, and a blank line.
fn groups(command: &Command) -> String {
    let mut groups: Vec<(&str, Vec<&Arg>)> = Vec::new();
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let Some(label) = group(command.get_name(), arg) else {
            continue;
        };
        match groups.iter_mut().find(|(known, _)| *known == label) {
            Some((_, args)) => args.push(arg),
            None => groups.push((label, vec![arg])),
        }
    }
    if groups.is_empty() {
        return String::new();
    }
    let widest = groups.iter().map(|(label, _)| label.len()).max();
    let width = widest.unwrap_or_default() + 1;
    let name = command.get_name();
    let mut text = format!("More options, explained by wrkbench {name} --help:\n");
    for (label, args) in groups {
        let begin = format!("  {:width$} ", format!("{label}:"));
        text.push_str(&line(begin, args));
    }
    text + "\n"
}

/// A line with the names of options, those of a usual run first, as far as there is room.
fn line(begin: String, mut args: Vec<&Arg>) -> String {
    const MORE: &str = ", ...";
    let common = |arg: &&Arg| {
        let mut names = COMMON_OF_RUN.iter();
        names
            .position(|name| arg.get_long() == Some(name))
            .unwrap_or(usize::MAX)
    };
    args.sort_by_key(common);
    let names: Vec<String> = args
        .iter()
        .filter_map(|arg| match (arg.get_long(), arg.get_short()) {
            (Some(long), _) => Some(format!("--{long}")),
            (None, short) => short.map(|short| format!("-{short}")),
        })
        .collect();
    let mut line = begin;
    for (index, name) in names.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        let rest = if index + 1 == names.len() { "" } else { MORE };
        if line.len() + separator.len() + name.len() + rest.len() > COLUMNS_MAX {
            line.push_str(MORE);
            break;
        }
        line.push_str(separator);
        line.push_str(name);
    }
    line + "\n"
}

/// The group in which the summary of a command only names an option; `None` if it lists it.
fn group<'a>(command: &str, arg: &'a Arg) -> Option<&'a str> {
    let long = arg.get_long().unwrap_or_default();
    if guide::CAMPAIGNS.contains(&command) {
        if HOOKS.contains(&long) {
            return Some("commands around runs");
        }
        if SELDOM.contains(&long) {
            return Some("seldom needed");
        }
    }
    let heading = arg.get_help_heading()?;
    if heading == llm::CONVERSATIONS && !COMMON_OF_CONVERSATIONS.contains(&long) {
        return Some("of conversations");
    }
    if command == "run" {
        // A run has too many of its own, so most are named by their headings.
        let is_listed = COMMON_OF_RUN.contains(&long) || long == "help";
        return (!is_listed).then_some(match heading {
            HEADING => "Report",
            heading if heading == Heading::Replay.name() => Heading::Request.name(),
            heading => heading,
        });
    }
    let is_own = match command {
        "replay" => heading == Heading::Replay.name(),
        // It is required.
        "check" => long == "rate",
        _ => false,
    };
    match heading {
        FLEET_HEADING => Some("of fleets"),
        HEADING => (arg.get_id() == "version_first").then_some("of runs"),
        _ if !is_own && is_of_run(heading) => Some("of runs"),
        _ => None,
    }
}

/// Whether options of a run have this heading.
fn is_of_run(heading: &str) -> bool {
    let run = RunArgs::command();
    let mut args = run.get_arguments();
    args.any(|arg| arg.get_help_heading() == Some(heading))
}

/// The summary of the program, which also lists its commands.
pub(super) fn of_program(declaration: Command) -> String {
    let examples = guide::examples_in_columns(guide::of(""));
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\nExamples:\n{examples}\n\
         Options (wrkbench --help lists all):\n{{options}}\n\n\
         Commands (wrkbench COMMAND -h lists a command's options):\n{{subcommands}}"
    );
    declaration
        .disable_help_subcommand(true)
        .mut_args(|arg| {
            let is_shown =
                arg.is_positional() || arg.get_long().is_some_and(|long| COMMON.contains(&long));
            arg.hide(!is_shown)
        })
        .help_template(template)
        .term_width(80)
        .render_help()
        .to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_option_that_a_summary_treats_differently_exists() {
        let declaration = crate::args::declaration();
        for (command, names) in [
            ("run", &COMMON[..]),
            ("run", &COMMON_OF_RUN),
            ("sweep", &SELDOM),
            ("sweep", &HOOKS),
        ] {
            let declared = declaration.find_subcommand(command).unwrap();
            let declared: BTreeSet<_> =
                declared.get_arguments().filter_map(Arg::get_long).collect();
            for name in names {
                assert!(declared.contains(name), "{command} has no --{name}");
            }
        }
    }
}
