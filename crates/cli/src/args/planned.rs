//! Options that a file sets: those of an experiment's runs, and those of `wrkbench run FILE.toml`.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Args as _, Command, CommandFactory as _};
use experiment::{LoadOption, LoadOptions, OptionValue};
use plan::{GivenOptions, OptionSpec, RunPlan, Settable};

use super::campaign::CampaignArgs;
use super::plan_options::{OptionArgs, check_value};
use super::report::{OF_SWEEP, ReportArgs, ReportValues};
use super::run::{DescribedRun, RunArgs};
use super::{
    Dialect, Refusal, RunRequest, declaration, foreign, match_arguments, request_files, url,
    with_common_settings,
};

/// The options of a file, by what they set.
#[derive(Debug, Default)]
pub(super) struct FileOptions {
    pub(super) plan: GivenOptions,
    pub(super) report: GivenOptions<ReportValues>,
}

/// Why an experiment cannot set this option; `None` if it can.
pub(super) fn refusal(name: &str) -> Option<&'static str> {
    let of_plan = RunPlan::find_option(name).map(|spec| spec.elsewhere);
    let of_report = || ReportValues::find_option(name).map(|spec| spec.elsewhere);
    of_plan.or_else(of_report).unwrap_or_else(|| {
        let command = CampaignArgs::augment_args(Command::new("sweep"));
        let mut options = command.get_arguments();
        match name {
            "help" | "version" => Some("it is not a load option"),
            _ if options.any(|arg| arg.get_long() == Some(name)) => Some(OF_SWEEP),
            _ => None,
        }
    })
}

/// The run described by these options of an experiment.
///
/// # Errors
/// The same one-line messages as on the command line.
pub(crate) fn run_of_plan(options: &LoadOptions, url: &str) -> Result<RunRequest, Refusal> {
    let mut of_file = FileOptions::default();
    for option in options.iter() {
        let name = option.name.as_str();
        if let Some(reason) = refusal(name) {
            return Err(Refusal(format!(
                "--{name}: not allowed in an experiment: {reason}"
            )));
        }
        if !of_file.add(option)? {
            return Err(unknown(name));
        }
    }
    let described = DescribedRun {
        url: Some(url::parse(url)?),
        script_arguments: options.script_arguments().to_vec(),
        options: of_file.plan,
        report: ReportArgs {
            given: OptionArgs(of_file.report),
            ..ReportArgs::default()
        },
    };
    let request = described.into_request(Dialect::Native, None)?;
    // Unreachable: there is a URL.
    request.ok_or_else(|| Refusal("the options do not describe a run".to_owned()))
}

impl FileOptions {
    /// Adds an option, whose value is checked. Returns whether it is one of a plan or a report, or
    /// the arguments of a script, which are no option.
    pub(super) fn add(&mut self, option: &LoadOption) -> Result<bool, Refusal> {
        Ok(option.name == "script-arguments"
            || add(&mut self.plan, option)?
            || add(&mut self.report, option)?)
    }
}

/// The row with this name. A beginning of a name that the command line takes is no name in a file,
/// which should be readable by others.
fn named<T: Settable>(name: &str) -> Option<&'static OptionSpec<T>> {
    let is_alias = |spec: &&OptionSpec<T>| {
        let mut aliases = spec.aliases.iter().chain(spec.visible_aliases);
        !spec.long.starts_with(name) && aliases.any(|alias| *alias == name)
    };
    T::find_option(name).or_else(|| T::option_table().iter().find(is_alias))
}

/// Adds an option if it is one of this table, and returns whether it is.
fn add<T: Settable>(
    given: &mut GivenOptions<T>,
    LoadOption { name, value, .. }: &LoadOption,
) -> Result<bool, Refusal> {
    let Some(spec) = named::<T>(name) else {
        return Ok(false);
    };
    let refuse = |problem: String| Err(Refusal(format!("--{name}: {problem}")));
    let takes_value = spec.setter.as_ref().is_some_and(|it| it.takes_value());
    let texts = match value {
        OptionValue::Flag(given) if takes_value => {
            return refuse(format!("needs a value, but is {given}"));
        }
        OptionValue::Flag(false) => return Ok(true),
        OptionValue::Flag(true) => Vec::new(),
        OptionValue::Text(text) if !takes_value => {
            return refuse(format!("takes no value, but got {text:?}"));
        }
        // Its folder would be another one than that of other files.
        OptionValue::Text(file) if spec.long == "requests" && request_files::is_file(file) => {
            return refuse(format!(
                "{file:?} is not a number (a file is set by request-file)"
            ));
        }
        OptionValue::Text(text) => vec![text.clone()],
        OptionValue::List(list) => list.clone(),
    };
    for text in &texts {
        if let Err(problem) = check_value(spec, text.as_ref()) {
            return match foreign::advice_on_value(&format!("--{name}"), text) {
                Some(advice) => refuse(format!("{problem} ({advice})")),
                None => refuse(problem.to_string()),
            };
        }
    }
    given.add(spec, texts.into_iter().map(OsString::from).collect());
    Ok(true)
}

/// The message about an option that does not exist.
pub(super) fn unknown(name: &str) -> Refusal {
    let command = with_common_settings(RunArgs::command());
    let mut known = command.get_arguments().filter_map(clap::Arg::get_long);
    if let Some(meant) = known.find(|known| known.starts_with(name)) {
        return Refusal(format!(
            "--{name}: unknown option (did you mean --{meant}?)"
        ));
    }
    let typed = vec![OsString::from(format!("--{name}"))];
    match match_arguments(command.clone(), Dialect::Native, typed) {
        Err(error) if error.kind() == ErrorKind::UnknownArgument => {
            Refusal::of_clap(&error, &declaration())
        }
        // It is an abbreviation.
        _ => Refusal(format!("--{name}: unknown option (--help lists all)")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use experiment::Spec;
    use plan::Setter;

    use super::super::Request;
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

    /// A value of an option that takes one.
    fn example<T: Settable>(spec: &OptionSpec<T>) -> &'static str {
        match spec.long {
            "connection-stages" | "stages" => "1:1s",
            "rate" | "speed" | "requests" => "3",
            "bind-ip" => "10.0.0.1",
            "header" | "proxy-header" => "A: b",
            "user" | "proxy-user" => "u:p",
            "alpn" => "h2",
            "call" => "a.B/C",
            "proxy" => "p:1",
            "good" => "latency<1s",
            "traceparent" => "1/100",
            "warmup" | "delay-stats" => "auto",
            "arrivals" => "gamma:0.5",
            "percentiles" => "50,99.9",
            "label" => "branch=main",
            _ => match spec.setter {
                Some(Setter::Count(_) | Setter::CountU32(_)) => "30",
                Some(Setter::Time(_)) => "3s",
                _ => spec.choices.last().unwrap_or(&"text"),
            },
        }
    }

    /// The same options in a file and on the command line.
    fn both_ways(options: &[(&str, Option<&str>)]) -> [Result<RunRequest, String>; 2] {
        let keys = options.iter().map(|(name, value)| match value {
            Some(value) => format!("{} = '{value}'\n", name.replace('-', "_")),
            None => format!("{} = true\n", name.replace('-', "_")),
        });
        let words = options.iter().map(|(name, value)| match value {
            Some(value) => format!("--{name}={value}"),
            None => format!("--{name}"),
        });
        let mut arguments: Vec<OsString> = words.map(OsString::from).collect();
        arguments.push(URL.into());
        let typed = match super::super::parse(Dialect::Native, arguments) {
            Ok(Request::Run(request)) => Ok(*request),
            Ok(other) => panic!("{other:?}"),
            Err(Refusal(reason)) => Err(reason),
        };
        [run(&keys.collect::<String>()), typed]
    }

    #[test]
    fn each_option_means_in_a_file_what_it_means_on_the_command_line() {
        fn check<T: Settable>() {
            let options = T::option_table().iter();
            let can_be_set = |spec: &&OptionSpec<T>| {
                // Experiments have an order and a seed of their own.
                let is_of_trials = ["order", "seed"].contains(&spec.long);
                spec.setter.is_some() && spec.elsewhere.is_none() && !is_of_trials
            };
            for spec in options.filter(can_be_set) {
                let takes_value = spec.setter.as_ref().is_some_and(|it| it.takes_value());
                let own = (spec.long, takes_value.then(|| example(spec)));
                let needed: &[(&str, Option<&str>)] = match (spec.long, spec.requires) {
                    ("arrivals", _) => &[("rate", Some("3"))],
                    ("warmup-limit", _) => &[("warmup", Some("auto"))],
                    ("speed", _) | (_, Some("replay")) => &[("replay", Some("text"))],
                    (_, Some("grpc")) => &[("grpc", None)],
                    (_, Some("proto")) => &[("grpc", None), ("proto", Some("text"))],
                    (_, Some("events")) => &[("events", Some("sse"))],
                    (_, Some("proxy")) => &[("proxy", Some("p:1"))],
                    (_, Some("traceparent")) => &[("traceparent", Some("1/100"))],
                    _ => &[],
                };
                let [in_file, typed] = both_ways(&[needed, &[own]].concat());
                // Paths in a file are relative to its folder.
                let in_file = format!("{in_file:?}").replace("./text", "text");
                assert_eq!(in_file, format!("{typed:?}"), "{}", spec.long);
            }
        }
        check::<RunPlan>();
        check::<ReportValues>();
    }

    #[test]
    fn options_that_do_not_go_together_are_refused_in_a_file_as_well() {
        for (load, expected) in [
            (
                "connections = 30\nconnection_stages = '1:1s'",
                "--connection-stages: cannot be used together with --connections",
            ),
            ("events_end = 'x'", "--events-end: needs --events"),
            (
                "style = 'wrk'",
                "--style: not allowed in an experiment: a sweep prints",
            ),
            (
                "fleet = 'nats://h'",
                "--fleet: not allowed in an experiment: it is an option",
            ),
            (
                "io = 'none'",
                "--io: \"none\" is not a valid value (expected one of auto, ",
            ),
        ] {
            let refusal = run(load).unwrap_err();
            assert!(refusal.starts_with(expected), "{load}: {refusal}");
        }
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
