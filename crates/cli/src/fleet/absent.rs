//! A program without fleets: what [`crate::fleet`] is without the feature `fleet`.

#[allow(dead_code, reason = "its values are never read")]
mod options;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
// Only the names of the options are used here, so texts stand for the types of their values.
use std::string::{String as AgentsArg, String as FleetName, String as PlaceTarget};
use std::sync::LazyLock;

use anyhow::bail;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use experiment::Spec;

use crate::args::Refusal;
use crate::commands::run_maker::{RunMaker, ThisMachine};
use crate::console::Console;

/// What is missing, and how to get it.
const ABSENT: &str = "this wrkbench was built without fleets; one with them is built by: cargo \
    build --release -p wrkbench --features fleet";

/// The options that are refused. Otherwise each would be an unknown option.
static OPTIONS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let declared = options::FleetArgs::augment_args(Command::new("fleet"));
    let names = declared.get_arguments().filter_map(Arg::get_long);
    names.map(str::to_owned).collect()
});

/// The parser of each option about fleets, which accepts no value.
fn parse_agents(_: &str) -> Result<String, &'static str> {
    Err(ABSENT)
}
use parse_agents as parse_at;

/// Has no values, because every option about fleets is refused.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FleetArgs;

impl FleetArgs {
    /// There is never a fleet.
    pub(crate) fn into_request(self) -> Result<Option<FleetRequest>, Refusal> {
        Ok(None)
    }

    /// There are no options to pass on.
    pub(crate) fn words(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Args for FleetArgs {
    /// Hidden options, whose values are all wrong.
    fn augment_args(command: Command) -> Command {
        command.args(OPTIONS.iter().map(|name| {
            let option = Arg::new(name.as_str()).long(name.as_str()).hide(true);
            let option = option.num_args(0..=1).default_missing_value("");
            option.allow_hyphen_values(true).value_parser(parse_agents)
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FleetArgs {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self)
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}

/// Has no values: nobody can ask for a fleet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FleetRequest {}

impl FleetRequest {
    pub(crate) fn has_hub(&self) -> bool {
        match *self {}
    }
}

/// Has no values: `agent` and `fleet` are refused before the command line is parsed.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommands {}

impl FleetCommands {
    pub(crate) fn into_request(self) -> Result<FleetCommandRequest, Refusal> {
        match self {}
    }
}

/// Has no values, as [`FleetCommands`].
#[derive(Debug)]
pub(crate) enum FleetCommandRequest {}

/// Refuses the commands about fleets.
pub(crate) fn run_by_local_fleet(arguments: &[OsString]) -> Result<Option<&[OsString]>, Refusal> {
    match arguments.first() {
        Some(word) if word == "agent" || word == "fleet" => {
            let word = word.to_string_lossy();
            Err(Refusal(format!("{word}: {ABSENT}")))
        }
        _ => Ok(None),
    }
}

/// Is never called, because a [`FleetCommandRequest`] has no values.
pub(crate) fn perform(request: &FleetCommandRequest, _: &Console) -> anyhow::Result<ExitCode> {
    match *request {}
}

/// Makes runs in this process, since no fleet can be asked for.
pub(crate) fn maker(_: Option<&FleetRequest>, _: &Console) -> anyhow::Result<Box<dyn RunMaker>> {
    Ok(Box::new(ThisMachine))
}

/// Makes the runs of a sweep in this process.
pub(crate) fn maker_of_sweep(
    _: &FleetArgs,
    _: &Spec,
    _: &Console,
) -> anyhow::Result<Box<dyn RunMaker>> {
    Ok(Box::new(ThisMachine))
}

/// Fails: only an agent starts the process that changes its machine.
pub(crate) fn work(_: PathBuf) -> anyhow::Result<ExitCode> {
    bail!(ABSENT)
}

/// Fails: only an agent starts the process that makes its load.
pub(crate) fn make_load(_: &Path) -> anyhow::Result<ExitCode> {
    bail!(ABSENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Dialect, Request, parse};

    fn refusal(line: &str) -> String {
        let words = line.split_whitespace().map(OsString::from);
        let Err(Refusal(text)) = parse(Dialect::Native, words.collect()) else {
            panic!("{line:?} was taken");
        };
        text
    }

    #[test]
    fn options_of_fleets_are_refused_with_what_is_missing_and_how_to_get_it() {
        for option in &*OPTIONS {
            for value in ["", "=nats://hub:4222", " nats://hub:4222"] {
                let line = format!("-d1s http://h/ --{option}{value}");
                assert_eq!(refusal(&line), format!("--{option}: {ABSENT}"));
            }
        }
        let sweep = refusal("sweep plan.toml --fleet nats://hub:4222");
        assert_eq!(sweep, format!("--fleet: {ABSENT}"));
    }

    #[test]
    fn the_usage_of_wrk_has_none_of_the_refused_options() {
        let words = ["-h"].map(OsString::from).to_vec();
        let Ok(Request::Help { text, .. }) = parse(Dialect::Wrk, words) else {
            panic!("no help");
        };
        assert!(text.contains("--rate "), "{text}");
        for option in &*OPTIONS {
            let listed = format!("        --{option} ");
            assert!(
                !text.lines().any(|line| line.starts_with(&listed)),
                "{text}"
            );
        }
    }

    #[test]
    fn commands_about_fleets_are_refused_with_what_is_missing_and_how_to_get_it() {
        for line in [
            "agent --nats nats://hub",
            "fleet status",
            "fleet --local 2 http://h/",
        ] {
            let word = line.split_whitespace().next().unwrap_or_default();
            assert_eq!(refusal(line), format!("{word}: {ABSENT}"));
        }
    }
}
