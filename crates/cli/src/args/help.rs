//! Help texts: `-h` prints a summary ([`summary`]), `--help` and `help` print everything.

use clap::{Arg, ArgAction, Command};

use super::{guide, summary};

/// Heading of options that are not about the run.
pub(super) const HEADING: &str = "Other";

/// Adds the option to a command. It is listed last.
pub(super) fn with_flag(command: Command) -> Command {
    let flag = Arg::new("help").short('h').long("help");
    let flag = flag
        .action(ArgAction::Help)
        .help("Print help: a summary with -h, everything with --help");
    let flag = below_others(flag, &command);
    command.disable_help_flag(true).arg(flag)
}

/// Lists an option that is not about the run below a heading of its own, if others have headings.
pub(super) fn below_others(flag: Arg, command: &Command) -> Arg {
    let has_heading = |arg: &Arg| arg.get_help_heading().is_some();
    if command.get_arguments().any(has_heading) {
        flag.help_heading(HEADING)
    } else {
        flag
    }
}

/// Heading of the options with which a fleet makes the runs.
pub(crate) const FLEET_HEADING: &str = "Fleet";

/// Adds to the help what is below the options.
pub(super) fn with_guide(command: Command) -> Command {
    let is_program = command.has_subcommands();
    let guide = guide::of(if is_program { "" } else { command.get_name() });
    command.after_help(guide::details(guide))
}

const LONG: &str = "everything";

/// Makes the text of help tell only whether the long one was requested, for [`of_request`].
pub(super) fn with_extent(command: Command) -> Command {
    let command = command.help_template("{after-help}");
    command.after_help("a summary").after_long_help(LONG)
}

/// The help of a command, or of the program. `requested` is what a command [`with_extent`] has
/// returned, `declaration` that of the program.
pub(super) fn of_request(
    requested: &clap::Error,
    mut declaration: Command,
    command: Option<&str>,
) -> String {
    let is_long = requested.render().to_string().trim() == LONG;
    let Some(name) = command else {
        return if is_long {
            declaration.render_long_help().to_string()
        } else {
            summary::of_program(declaration)
        };
    };
    let command = declaration.find_subcommand_mut(name);
    let alone = |command: &mut Command| {
        let command = command.clone().bin_name(format!("wrkbench {name}"));
        command.disable_version_flag(true)
    };
    let command = command.map(alone);
    match command {
        Some(mut command) if is_long => command.render_long_help().to_string(),
        Some(command) => summary::of_command(command),
        None => summary::of_program(declaration),
    }
}
