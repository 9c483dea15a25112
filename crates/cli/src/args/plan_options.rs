//! The options of a plan as arguments, made from their table.

use std::ffi::{OsStr, OsString};

use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use plan::{BackendChoice, GivenOptions, OPTIONS, OptionSpec, Settable, Setter};
use telemetry::sockets::Filter;

/// The options of a plan that a command line gives.
#[derive(Debug, Clone, Default)]
pub(super) struct PlanOptionArgs(pub(super) GivenOptions);

impl Args for PlanOptionArgs {
    fn augment_args(command: Command) -> Command {
        with_options(command, OPTIONS)
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

/// Adds the arguments of a table, by their headings.
pub(super) fn with_options<T: Settable>(
    command: Command,
    options: &'static [OptionSpec<T>],
) -> Command {
    let mut rows: Vec<(&'static OptionSpec<T>, Setter<T>)> = options
        .iter()
        .filter_map(|spec| Some((spec, spec.setter?)))
        .collect();
    rows.sort_by_key(|(spec, _)| spec.heading);
    command.args(rows.into_iter().map(|(spec, setter)| arg(spec, setter)))
}

/// Those of these options that are on the command line.
pub(super) fn given<T: Settable>(
    specs: impl Iterator<Item = &'static OptionSpec<T>>,
    matches: &ArgMatches,
) -> GivenOptions<T> {
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
fn arg<T: Settable>(spec: &'static OptionSpec<T>, setter: Setter<T>) -> Arg {
    let arg = alone(spec, setter).conflicts_with_all(spec.conflicts);
    match spec.requires {
        Some(other) => arg.requires(other),
        None => arg,
    }
}

/// The argument of a row for a command that does not have all options.
pub(super) fn alone<T: Settable>(spec: &'static OptionSpec<T>, setter: Setter<T>) -> Arg {
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
fn value_parser<T: Settable>(spec: &'static OptionSpec<T>, setter: Setter<T>) -> ValueParser {
    match setter {
        _ if !spec.choices.is_empty() => PossibleValuesParser::new(spec.choices).into(),
        Setter::Path(_) => ValueParser::path_buf(),
        _ => ValueParser::new(move |text: &str| {
            check_value(spec, text.as_ref()).map(|()| text.to_owned())
        }),
    }
}

/// Whether the value of an option has the right form.
pub(super) fn check_value<T: Settable>(spec: &OptionSpec<T>, value: &OsStr) -> Result<(), String> {
    spec.check(value)?;
    // The plan keeps the filter as text.
    if let ("sockets", Some(text)) = (spec.long, value.to_str()) {
        Filter::parse(text).map_err(|error| error.to_string())?;
    }
    Ok(())
}
