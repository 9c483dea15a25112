//! A run that a plan describes instead of a command line.
//!
//! The plan's options become arguments and are read by the same declaration, so that every option of a
//! run works there and is refused in the same words.

use std::ffi::OsString;

use clap::CommandFactory;
use experiment::{LoadOptions, OptionValue};

use super::run::RunArgs;
use super::{Dialect, Refusal, Request, RunRequest};

/// Options that a run of a plan cannot have, each with the reason.
const REFUSED: [(&str, &str); 13] = [
    ("json", "a sweep saves each run by itself"),
    ("hgrm", "a sweep saves each run by itself"),
    ("hlog", "a sweep saves each run by itself"),
    ("samples", "a sweep keeps the samples beside each run"),
    ("sockets", "it belongs to [telemetry]"),
    ("interval", "it belongs to [telemetry]"),
    ("counters", "it belongs to [telemetry]"),
    ("style", "a sweep prints tables"),
    ("version", "it is no option of the load"),
    ("help", "it is no option of the load"),
    ("quiet", "it is an option of wrkbench sweep"),
    ("tui", "it is an option of wrkbench sweep"),
    (
        "fail-if",
        "runs that are left out by what came of them would bend the comparison",
    ),
];

/// The run of these options.
///
/// # Errors
/// As on the command line, in one line.
pub(crate) fn run_of_plan(options: &LoadOptions, url: &str) -> Result<RunRequest, Refusal> {
    let mut command = RunArgs::command();
    // Then it has --help as well.
    command.build();
    for option in options.iter() {
        check(&option.name, &option.value, &command)?;
    }
    let arguments = options.arguments(url).into_iter().map(OsString::from);
    match super::parse_run(Dialect::Native, arguments.collect())? {
        Request::Run(request) => Ok(*request),
        // There is a URL, and help is refused.
        _ => Err(Refusal("the options ask for no run".to_owned())),
    }
}

/// Refuses what the parser would take for something else.
fn check(name: &str, value: &OptionValue, command: &clap::Command) -> Result<(), Refusal> {
    if let Some((_, reason)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Err(Refusal(format!(
            "--{name}: has no place in a plan: {reason}"
        )));
    }
    let names = |arg: &clap::Arg| -> Vec<String> {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        let names = arg.get_long().into_iter().chain(aliases);
        names.map(str::to_owned).collect()
    };
    let Some(arg) = command
        .get_arguments()
        .find(|arg| names(arg).iter().any(|known| known == name))
    else {
        // A plan is read by others, and what it refuses is refused by name.
        let meant = command.get_arguments().flat_map(names);
        return match meant.into_iter().find(|known| known.starts_with(name)) {
            Some(meant) => Err(Refusal(format!(
                "--{name}: unknown option (did you mean --{meant}?)"
            ))),
            // The parser knows what to say.
            None => Ok(()),
        };
    };
    match value {
        OptionValue::Flag(given) if arg.get_action().takes_values() => {
            Err(Refusal(format!("--{name}: needs a value, and is {given}")))
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
    fn what_cannot_stand_in_a_plan_is_refused_by_its_name() {
        for (load, expected) in [
            ("json = 'x'", "--json: has no place in a plan"),
            ("fail_if = 'p99>1s'", "--fail-if: has no place in a plan"),
            ("quiet = true", "--quiet: has no place in a plan"),
            ("help = true", "--help: has no place in a plan"),
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
                "--connections: needs a value, and is true",
            ),
            (
                "connections = false",
                "--connections: needs a value, and is false",
            ),
            ("connections = 1", "--connections 1: number of"),
            (
                "breakout = 'yes'",
                "--breakout: takes no value, and has \"yes\"",
            ),
        ] {
            let refusal = run(load).unwrap_err();
            assert!(refusal.contains(expected), "{load}: {refusal}");
            assert_eq!(refusal.lines().count(), 1, "{refusal}");
        }
    }
}
