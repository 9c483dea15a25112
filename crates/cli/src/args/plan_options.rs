//! Options as arguments, made from their tables.

use std::ffi::{OsStr, OsString};

use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use plan::{BackendChoice, GivenOptions, InvalidValue, OptionSpec, Settable, Setter};
use telemetry::sockets::Filter;

use super::Refusal;

/// The options of a table that a command line gives.
#[derive(Debug, Clone, Default)]
pub(super) struct OptionArgs<T: 'static>(pub(super) GivenOptions<T>);

impl<T: Settable> Args for OptionArgs<T> {
    /// Adds the arguments of the table, by their headings.
    fn augment_args(command: Command) -> Command {
        let rows = T::option_table().iter();
        let mut rows: Vec<_> = rows.filter_map(|spec| Some((spec, spec.setter?))).collect();
        rows.sort_by_key(|(spec, _)| spec.heading);
        command.args(rows.into_iter().map(|(spec, setter)| arg(spec, setter)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Settable> FromArgMatches for OptionArgs<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let rows = T::option_table().iter();
        Ok(Self(given(
            rows.filter(|spec| spec.setter.is_some()),
            matches,
        )))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T: Settable + Default> OptionArgs<T> {
    /// What the options say.
    ///
    /// # Errors
    /// When two of them contradict each other.
    pub(super) fn values(&self) -> Result<T, Refusal> {
        let mut values = T::default();
        let applied = self.0.apply(&mut values);
        applied.map_err(|error| Refusal(error.to_string()))?;
        Ok(values)
    }
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
pub(super) fn check_value<T: Settable>(
    spec: &OptionSpec<T>,
    value: &OsStr,
) -> Result<(), InvalidValue> {
    spec.check(value)?;
    // The plan keeps the filter as text.
    if let ("sockets", Some(text)) = (spec.long, value.to_str()) {
        Filter::parse(text).map_err(InvalidValue::new)?;
    }
    Ok(())
}
