//! The options of a plan as arguments, made from their table.

use std::ffi::OsString;

use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use plan::{BackendChoice, GivenOptions, OPTIONS, OptionSpec, RunPlan, Setter, Target};
use telemetry::sockets::Filter;

/// The options of a plan that a command line gives.
#[derive(Debug, Clone, Default)]
pub(super) struct PlanOptionArgs(pub(super) GivenOptions);

impl Args for PlanOptionArgs {
    fn augment_args(command: Command) -> Command {
        let mut rows: Vec<(&'static OptionSpec, Setter)> = OPTIONS
            .iter()
            .filter_map(|spec| Some((spec, spec.setter?)))
            .collect();
        rows.sort_by_key(|(spec, _)| spec.heading);
        command.args(rows.into_iter().map(|(spec, setter)| arg(spec, setter)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PlanOptionArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let all = OPTIONS.iter().filter(|spec| spec.setter.is_some());
        Ok(Self(given(all, matches)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Those of these options that are on the command line.
pub(super) fn given(
    specs: impl Iterator<Item = &'static OptionSpec>,
    matches: &ArgMatches,
) -> GivenOptions {
    let mut given = GivenOptions::default();
    for spec in specs {
        if matches.value_source(spec.long) == Some(ValueSource::CommandLine) {
            let values = matches.get_raw(spec.long).into_iter().flatten();
            given.add(spec, values.map(OsString::from).collect());
        }
    }
    given
}

/// The argument of a row.
fn arg(spec: &'static OptionSpec, setter: Setter) -> Arg {
    let arg = alone(spec, setter).conflicts_with_all(spec.conflicts);
    match spec.requires {
        Some(other) => arg.requires(other),
        None => arg,
    }
}

/// The argument of a row for a command that does not have all options.
pub(super) fn alone(spec: &'static OptionSpec, setter: Setter) -> Arg {
    let arg = Arg::new(spec.long)
        .long(spec.long)
        .short(spec.short)
        .aliases(spec.aliases)
        .visible_aliases(spec.visible_aliases)
        .help_heading(spec.heading.name())
        .help(spec.help)
        .long_help(spec.long_help);
    if !setter.takes_value() {
        return arg.action(ArgAction::SetTrue);
    }
    arg.action(if spec.is_repeatable {
        ArgAction::Append
    } else {
        ArgAction::Set
    })
    .value_name(spec.value_name)
    .default_value(spec.default)
    .allow_hyphen_values(spec.choices.is_empty())
    .value_parser(value_parser(spec, setter))
}

/// The parser of `--io` for commands that have no plan.
pub(super) fn backend() -> impl TypedValueParser<Value = BackendChoice> {
    let names = BackendChoice::ALL.map(BackendChoice::name);
    PossibleValuesParser::new(names).map(|given| {
        let mut all = BackendChoice::ALL.into_iter();
        all.find(|choice| choice.name() == given)
            .unwrap_or_default()
    })
}

/// Checks a value, so that clap's message names the option. The value is set later, as typed.
fn value_parser(spec: &'static OptionSpec, setter: Setter) -> ValueParser {
    match setter {
        _ if !spec.choices.is_empty() => PossibleValuesParser::new(spec.choices).into(),
        Setter::Path(_) => ValueParser::path_buf(),
        _ => ValueParser::new(move |text: &str| -> Result<String, String> {
            let target = Target::parse("http://localhost/").map_err(|error| error.to_string())?;
            setter.set(&mut RunPlan::new(target), text.as_ref())?;
            // The plan keeps the filter as text.
            if spec.long == "sockets" {
                Filter::parse(text).map_err(|error| error.to_string())?;
            }
            Ok(text.to_owned())
        }),
    }
}
