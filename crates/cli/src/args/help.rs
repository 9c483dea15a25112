//! Help texts: `-h` prints a summary, `--help` and `help` print everything.

use clap::{Arg, ArgAction, Command};

use super::guide;

/// Heading of options that are not about the run.
pub(super) const HEADING: &str = "Other";

/// The options in the summary of the program.
const COMMON: [&str; 5] = ["connections", "duration", "threads", "rate", "latency"];

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
    match command.get_arguments().any(has_heading) {
        true => flag.help_heading(HEADING),
        false => flag,
    }
}

/// Heading of the options with which a fleet makes the runs.
pub(super) const FLEET_HEADING: &str = "Fleet";

/// Those of them in the summary of a command. The others need one of these.
const COMMON_OF_FLEET: [&str; 2] = ["fleet", "local"];

/// Leaves most options of a fleet out of the summary of a command that can use one.
pub(super) fn with_short_fleet(command: Command) -> Command {
    let is_common = |arg: &Arg| COMMON_OF_FLEET.contains(&arg.get_id().as_str());
    if !command.get_arguments().any(is_common) {
        return command;
    }
    command.mut_args(|arg| {
        let is_of_fleet = arg.get_help_heading() == Some(FLEET_HEADING);
        match is_of_fleet && !is_common(&arg) {
            true => arg.hide_short_help(true),
            false => arg,
        }
    })
}

/// Adds examples to the short help, and everything else to the long one.
pub(super) fn with_guide(command: Command) -> Command {
    let is_program = command.has_subcommands();
    let guide = guide::of(if is_program { "" } else { command.get_name() });
    let details = guide::details(guide);
    command
        .after_help(guide::examples(guide))
        .after_long_help(details)
}

const LONG: &str = "everything";

/// Makes the text of help tell only whether the long one was requested, for [`is_long`].
pub(super) fn with_extent(command: Command) -> Command {
    let command = command.help_template("{after-help}");
    command.after_help("a summary").after_long_help(LONG)
}

pub(super) fn is_long(help: &clap::Error) -> bool {
    help.render().to_string().trim() == LONG
}

/// The help of the program, which has too many options for clap's short help.
pub(super) fn of_program(mut declaration: Command, is_long: bool) -> String {
    if is_long {
        return declaration.render_long_help().to_string();
    }
    let examples = guide::examples_in_columns(guide::of(""));
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\nExamples:\n{examples}\n\
         Options (wrkbench --help lists all):\n{{options}}\n\n\
         Commands (wrkbench COMMAND -h lists a command's options):\n{{subcommands}}"
    );
    declaration
        .disable_help_subcommand(true)
        .mut_args(|arg| {
            let is_shown = arg.is_positional() || COMMON.contains(&arg.get_id().as_str());
            arg.hide(!is_shown)
        })
        .help_template(template)
        .term_width(80)
        .render_help()
        .to_string()
}
