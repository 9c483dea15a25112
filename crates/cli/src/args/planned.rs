//! A run described by an experiment file instead of a command line.
//!
//! The options in the file become arguments and go through the same parser, so that every option of
//! a run works there, with the same messages.

use std::ffi::OsString;

use clap::CommandFactory;
use experiment::{LoadOption, LoadOptions, OptionValue};
use plan::find_option;

use super::run::RunArgs;
use super::{Dialect, Refusal, Request, RunRequest};

/// The sweep connects to the fleet, for all of its runs.
const FLEET: &str = "it is an option of wrkbench sweep";

/// Options that are not part of a plan and that an experiment cannot set, each with the reason.
const REFUSED: [(&str, &str); 29] = [
    ("output", "a sweep writes one report of all runs"),
    ("json", "a sweep saves every run itself"),
    ("hgrm", "a sweep saves every run itself"),
    ("hlog", "a sweep saves every run itself"),
    ("samples", "a sweep saves the samples next to each run"),
    ("style", "a sweep prints tables"),
    ("version", "it is not a load option"),
    ("help", "it is not a load option"),
    ("quiet", "it is an option of wrkbench sweep"),
    ("once", "a sweep makes runs"),
    ("tui", "it is an option of wrkbench sweep"),
    ("stream", "it is an option of wrkbench sweep"),
    ("prometheus", "it is an option of wrkbench sweep"),
    ("otlp", "it is an option of wrkbench sweep"),
    ("fleet", FLEET),
    ("fleet-name", FLEET),
    ("fleet-key", FLEET),
    ("agents", FLEET),
    ("agents-per-place", FLEET),
    ("local", FLEET),
    ("on-lost", FLEET),
    ("only-place", FLEET),
    ("at", FLEET),
    ("nats-seed", FLEET),
    ("nats-creds", FLEET),
    ("nats-ca", FLEET),
    ("nats-cert", FLEET),
    ("nats-key", FLEET),
    (
        "fail-if",
        "leaving out runs by their outcome would bias the comparison",
    ),
];

/// Why an experiment cannot set this option; `None` if it can.
pub(super) fn refusal(name: &str) -> Option<&'static str> {
    let of_plan = find_option(name).and_then(|spec| spec.elsewhere);
    let mut refused = REFUSED.iter().filter(|(refused, _)| *refused == name);
    of_plan.or_else(|| Some(refused.next()?.1))
}

/// The run described by these options.
///
/// # Errors
/// The same one-line messages as on the command line.
pub(crate) fn run_of_plan(options: &LoadOptions, url: &str) -> Result<RunRequest, Refusal> {
    let mut command = RunArgs::command();
    // Adds --help to the arguments.
    command.build();
    for LoadOption { name, value, .. } in options.iter() {
        if let Some(reason) = refusal(name) {
            return Err(Refusal(format!(
                "--{name}: not allowed in an experiment: {reason}"
            )));
        }
        check(name, value, &command)?;
    }
    let arguments = options.command_line(url).into_iter().map(OsString::from);
    match super::parse_run(Dialect::Native, arguments.collect())? {
        Request::Run(request) => Ok(*request),
        // Unreachable: there is a URL, and help is rejected above.
        _ => Err(Refusal("the options do not describe a run".to_owned())),
    }
}

/// Rejects what the parser would misinterpret. `command` has all options of a run.
pub(super) fn check(
    name: &str,
    value: &OptionValue,
    command: &clap::Command,
) -> Result<(), Refusal> {
    let names = |arg: &clap::Arg| -> Vec<String> {
        let long = arg.get_long().unwrap_or_default();
        // Some beginnings of names are aliases, for the command line.
        let aliases = arg.get_all_aliases().unwrap_or_default().into_iter();
        let aliases = aliases.filter(|alias| !long.starts_with(alias));
        let names = arg.get_long().into_iter().chain(aliases);
        names.map(str::to_owned).collect()
    };
    let Some(arg) = command
        .get_arguments()
        .find(|arg| names(arg).iter().any(|known| known == name))
    else {
        // Abbreviations are rejected: an experiment file should be readable by others.
        let meant = command.get_arguments().flat_map(names);
        return match meant.into_iter().find(|known| known.starts_with(name)) {
            Some(meant) => Err(Refusal(format!(
                "--{name}: unknown option (did you mean --{meant}?)"
            ))),
            // The parser reports it.
            None => Ok(()),
        };
    };
    match value {
        // Its folder would be another one than that of other files.
        OptionValue::Text(file) if name == "requests" && super::request_files::is_file(file) => {
            Err(Refusal(format!(
                "--requests: {file:?} is not a number (a file is set by request-file)"
            )))
        }
        OptionValue::Flag(given) if arg.get_action().takes_values() => {
            Err(Refusal(format!("--{name}: needs a value, but is {given}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use experiment::Spec;

    use super::*;

    const URL: &str = "http://h:1/p";

    fn run(load: &str) -> Result<RunRequest, String> {
        let plan = format!(
            "name = 'x'\nrounds = 1\nresults = 'r'\n[load]\n{load}\n\
             [[target]]\nname = 't'\nurl = '{URL}'\n"
        );
        let spec = Spec::parse(&plan, Path::new("plan.toml")).map_err(|error| error.to_string())?;
        run_of_plan(&spec.load, URL).map_err(|Refusal(why)| why)
    }

    #[test]
    fn options_mean_what_they_mean_on_the_command_line() {
        let request = run(
            "threads = 4\nrequests_per_connection = 7\nduration = '1.5s'\nbreakout = true\n\
             header = ['A: b', 'C: -d']\nbatch_latency = false\nscript_arguments = ['--x', 'y']",
        )
        .unwrap();
        let plan = request.plan;
        assert_eq!(plan.load.threads, 4);
        assert_eq!(plan.load.requests_per_connection, Some(7));
        assert!(!plan.load.batch_latency && request.report.text.breakout);
        assert_eq!(plan.stop.duration, Some(Duration::from_millis(1500)));
        assert_eq!(plan.request.headers.len(), 2);
        assert_eq!(plan.request.script_args, ["--x", "y"]);
        assert_eq!(plan.target.url, URL);
    }

    #[test]
    fn an_option_that_an_experiment_cannot_set_is_named_in_the_message() {
        for (load, expected) in [
            ("json = 'x'", "--json: not allowed in an experiment"),
            (
                "fail_if = 'p99>1s'",
                "--fail-if: not allowed in an experiment",
            ),
            ("quiet = true", "--quiet: not allowed in an experiment"),
            ("help = true", "--help: not allowed in an experiment"),
            ("hel = true", "--hel: unknown option"),
            ("jso = 'x'", "--jso: unknown option (did you mean --json?)"),
            (
                "conn = 5",
                "--conn: unknown option (did you mean --connections?)",
            ),
            ("conections = 5", "did you mean --connections?"),
            ("connections = '2x'", "--connections: "),
            (
                "connections = true",
                "--connections: needs a value, but is true",
            ),
            (
                "connections = false",
                "--connections: needs a value, but is false",
            ),
            ("connections = 1", "--connections 1: number of"),
            (
                "breakout = 'yes'",
                "--breakout: takes no value, but got \"yes\"",
            ),
        ] {
            let refusal = run(load).unwrap_err();
            assert!(refusal.contains(expected), "{load}: {refusal}");
            assert_eq!(refusal.lines().count(), 1, "{refusal}");
        }
    }
}
