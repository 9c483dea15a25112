//! `wrkbench run FILE.toml`: the options of a run in a file, in place of the file's name on the
//! command line. What follows overrides the file, since the last of repeated options wins.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{CommandFactory, FromArgMatches};
use experiment::{OptionValue, RunFile};
use plan::Target;

use super::planned::{FileOptions, unknown};
use super::run::RunArgs;
use super::{
    Dialect, Refusal, Request, conditions, declaration, match_arguments, parse_run, parse_run_with,
    with_common_settings,
};

/// The request of a command line whose first argument, or that of `run`, is a file.
pub(super) fn parse(arguments: &[OsString]) -> Option<Result<Request, Refusal>> {
    let at = usize::from(arguments.first().is_some_and(|first| first == "run"));
    let file = arguments.get(at).filter(|argument| is_file(argument))?;
    let others = &arguments[at + 1..];
    let mut options = others.iter().take_while(|argument| *argument != "--");
    // Help is the same without the file, which may be what it is asked for.
    if options.any(|argument| argument == "--help" || argument == "-h") {
        return Some(parse_run(Dialect::Native, others.to_vec()));
    }
    Some(parse_with(Path::new(file), others))
}

fn parse_with(file: &Path, arguments: &[OsString]) -> Result<Request, Refusal> {
    let read = RunFile::read(file).map_err(|error| Refusal(error.to_string()))?;
    let on_line = |line: usize, reason| Refusal(format!("{}:{line}: {reason}", file.display()));
    let (of_file, others) =
        options_of(&read).map_err(|Refusal(reason)| match read.options.line_of(&reason) {
            Some(line) => on_line(line, reason),
            None => Refusal(format!("{}: {reason}", file.display())),
        })?;
    let url = match &read.url {
        Some((url, line)) => {
            Some(Target::parse(url).map_err(|why| on_line(*line, format!("url: {why}")))?)
        }
        None => None,
    };
    // What follows `--` is for the script, here and in the file.
    let end = arguments.iter().position(|argument| argument == "--");
    let (options, of_script) = arguments.split_at(end.unwrap_or(arguments.len()));
    let script_arguments = match of_script {
        [_, given @ ..] => given.iter().map(text).collect(),
        [] => read.options.script_arguments().to_vec(),
    };
    let mut all = others;
    all.extend(conditions::each_with_its_option(options.to_vec()));
    parse_run_with(Dialect::Native, all, |run| {
        run.add_below(of_file.plan, of_file.report)
            .or(url, script_arguments)
    })
}

fn text(argument: &OsString) -> String {
    argument.to_string_lossy().into_owned()
}

/// The options of the file, and those of a fleet and of live outputs as arguments. Rejects what is
/// wrong whatever the command line adds.
fn options_of(read: &RunFile) -> Result<(FileOptions, Vec<OsString>), Refusal> {
    let command = with_common_settings(RunArgs::command());
    let mut of_file = FileOptions::default();
    let mut others = Vec::new();
    for option in read.options.iter() {
        let name = option.name.as_str();
        if matches!(name, "help" | "version") {
            return Err(Refusal(format!("--{name}: not an option of a run")));
        }
        if of_file.add(option)? {
            continue;
        }
        let mut known = command.get_arguments();
        match (known.find(|it| it.get_long() == Some(name)), &option.value) {
            (None, _) => return Err(unknown(name)),
            (Some(arg), OptionValue::Flag(given)) if arg.get_action().takes_values() => {
                return Err(Refusal(format!("--{name}: needs a value, but is {given}")));
            }
            _ => others.extend(option.arguments().into_iter().map(OsString::from)),
        }
    }
    match_arguments(command, Dialect::Native, others.clone())
        .and_then(|matches| RunArgs::from_arg_matches(&matches))
        .map_err(|error| Refusal::of_clap(&error, &declaration()))?;
    Ok((of_file, others))
}

/// Whether an argument is a file of options: no URL ends like this without a scheme.
fn is_file(argument: &OsStr) -> bool {
    let text = argument.to_string_lossy();
    text.ends_with(".toml") && !text.starts_with('-') && !text.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Folder;

    const FILE: &str = "url = 'http://h:1/'\nthreads = 2\nconnections = 4\n\
                        script = '/s.lua'\nscript_arguments = ['a']\n";

    /// The URL, threads and script arguments of a run; the error message.
    fn run(file: &str, arguments: &[&str]) -> Result<(String, u32, Vec<String>), String> {
        let folder = Folder::new();
        folder.file_with("ci.toml", file);
        let arguments: Vec<OsString> = arguments
            .iter()
            .map(|it| match *it {
                "FILE" => OsString::from(folder.file("ci.toml")),
                other => OsString::from(other),
            })
            .collect();
        let parsed = super::super::parse(Dialect::Native, arguments);
        match parsed.map_err(|Refusal(text)| text)? {
            Request::Run(run) => Ok((
                run.plan.target.url,
                run.plan.load.threads,
                run.plan.request.script_args,
            )),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_stands_for_its_options_and_others_follow() {
        for (arguments, url, threads, script_arguments) in [
            (&["run", "FILE"][..], "http://h:1/", 2, &["a"][..]),
            (&["FILE", "-t4"], "http://h:1/", 4, &["a"]),
            (
                &["run", "FILE", "-t4", "http://other/", "--", "b"],
                "http://other/",
                4,
                &["b"],
            ),
            (&["FILE", "http://other/", "b"], "http://other/", 2, &["b"]),
            (&["FILE", "--", "b"], "http://h:1/", 2, &["b"]),
            (
                &[
                    "FILE",
                    "--body",
                    "http://other/",
                    "-H",
                    "Referer: http://x/",
                ],
                "http://h:1/",
                2,
                &["a"],
            ),
        ] {
            let script_arguments = script_arguments.iter().map(ToString::to_string).collect();
            assert_eq!(
                run(FILE, arguments),
                Ok((url.to_owned(), threads, script_arguments)),
                "{arguments:?}"
            );
        }
    }

    #[test]
    fn other_arguments_are_no_run_files() {
        for arguments in [
            &["-t4", "a.toml"][..],
            &["sweep", "a.toml"],
            &["http://h/a.toml"],
        ] {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            assert!(parse(&arguments).is_none(), "{arguments:?}");
        }
    }

    #[test]
    fn mistakes_in_a_file_have_its_name_and_their_line() {
        for (file, expected) in [
            (
                "\nduratoin = '1s'",
                "ci.toml:2: --duratoin: unknown option (did you mean --duration?)",
            ),
            ("threads = 'x'", "ci.toml:1: --threads: "),
            (
                "conn = 5",
                "ci.toml:1: --conn: unknown option (did you mean --connections?)",
            ),
            ("fail-if = ['p99>1s', 'p99>']", "ci.toml:1: --fail-if: "),
            ("\n\nurl = 'ftp://h/'", "ci.toml:3: url: "),
            ("help = true", "ci.toml:1: --help: not an option of a run"),
            ("http2 = 'x'", "ci.toml:1: --http2: "),
        ] {
            let error = run(file, &["run", "FILE"]).expect_err(file);
            assert!(error.contains(expected), "{file}: {error}");
        }
        // The mistake is on the command line, not in the file.
        let error = run("threads = 2", &["run", "FILE", "-tx"]).expect_err("not a number");
        assert!(error.starts_with("--threads"), "{error}");
        let help = parse(&["none.toml".into(), "--help".into()]);
        assert!(matches!(help, Some(Ok(Request::Help { exit_code: 0, .. }))));
        let error = parse(&["none.toml".into()]).map(|it| it.map_err(|Refusal(text)| text));
        let Some(Err(error)) = error else {
            panic!("there is no such file")
        };
        assert!(
            error.starts_with("none.toml: cannot read the file"),
            "{error}"
        );
    }
}
