//! Options of a run as arguments of another command, which writes them into an experiment.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, CommandFactory as _, FromArgMatches};
use experiment::{Keys, OptionValue};
use plan::find_option;

use super::planned::refusal;
use super::run::RunArgs;

/// The options of a run that an experiment can set, with their values as typed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LoadOptionArgs(Vec<(String, OptionValue)>);

/// Names that mean something else in commands that make many runs: the seed is that of the order,
/// and `-L` varies an option.
const SEED: &str = "seed";
const LATENCY: &str = "latency";

impl LoadOptionArgs {
    /// The options of the load by their long names, in the order of the help.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &OptionValue)> {
        self.all().filter(|(name, _)| !is_of_telemetry(name))
    }

    /// What is sampled, as the table of an experiment.
    pub(super) fn telemetry(&self) -> Keys {
        let given = self.all().filter(|(name, _)| is_of_telemetry(name));
        Keys::default().with_options(given)
    }

    /// All options by their long names, in the order of the help.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &OptionValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

/// Whether an experiment has this option in its table for telemetry, not in that for the load.
fn is_of_telemetry(name: &str) -> bool {
    find_option(name).is_some_and(|spec| spec.elsewhere.is_some())
}

/// The declarations of the options.
fn declarations() -> Vec<Arg> {
    let command = RunArgs::command();
    let can_be_set = |arg: &&Arg| {
        arg.get_long()
            .is_some_and(|name| name != SEED && (refusal(name).is_none() || is_of_telemetry(name)))
    };
    let options = command.get_arguments().filter(can_be_set).cloned();
    options
        .map(|arg| match arg.get_long() {
            Some(LATENCY) => arg.short(None),
            _ => arg,
        })
        .collect()
}

impl Args for LoadOptionArgs {
    fn augment_args(command: Command) -> Command {
        command.args(declarations())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LoadOptionArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |arg: &Arg| {
            let id = arg.get_id().as_str();
            let is_typed = matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
            let name = arg.get_long()?.to_owned();
            if !is_typed {
                return None;
            }
            let raw = matches.get_raw(id).into_iter().flatten();
            let mut texts: Vec<String> = raw
                .map(|text| text.to_string_lossy().into_owned())
                .collect();
            let value = match arg.get_action() {
                ArgAction::Append => OptionValue::List(texts),
                action if action.takes_values() => OptionValue::Text(texts.pop()?),
                _ => OptionValue::Flag(true),
            };
            Some((name, value))
        };
        Ok(Self(declarations().iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
