//! The command line, read and checked: no effects, so that tests can drive it.
//!
//! One clap declaration ([`WholeLine`]) gives the parser, the help, the completions and the man page.

mod compare;
mod conditions;
mod demo;
mod foreign;
mod planned;
mod rate;
mod refusal;
mod report;
mod report_command;
mod restore;
mod run;
mod serve;
mod sockets;
mod sweep;
mod table;
mod telemetry;
mod usage;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use compare::{CompareFormat, CompareRequest};
pub(crate) use demo::DemoArgs;
pub(crate) use planned::run_of_plan;
pub(crate) use refusal::Refusal;
pub(crate) use report::{JsonTarget, ReportWish, Style};
pub(crate) use report_command::ReportRequest;
pub(crate) use restore::{GuardianArgs, RestoreArgs};
use run::VersionWish;
pub(crate) use run::{Io, RunArgs, RunRequest};
pub(crate) use serve::ServeArgs;
pub(crate) use sockets::SocketsRequest;
pub(crate) use sweep::SweepArgs;
pub(crate) use table::{TableLayout, TableRequest};

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Request {
    /// Load one target.
    Run(Box<RunRequest>),
    /// Serve until interrupted.
    Serve(Box<ServeArgs>),
    /// Serve, load and report on loopback.
    Demo(DemoArgs),
    /// Run an experiment.
    Sweep(SweepArgs),
    /// Show runs as a table.
    Table(TableRequest),
    /// Show runs as a page, or in the format of another tool.
    Report(Box<ReportRequest>),
    /// Say whether runs differ.
    Compare(Box<CompareRequest>),
    /// List sockets.
    Sockets(SocketsRequest),
    /// Put back what an interrupted sweep has left changed.
    Restore(RestoreArgs),
    /// Guard a sweep.
    Guardian(GuardianArgs),
    /// Print a completion script.
    Completions(Shell),
    /// Print a manual page, of a command if one is named.
    Man(Option<String>),
    /// Print a text that was asked for, help or version, and exit with the code.
    Help {
        /// The text, with its final line feed.
        text: String,
        /// wrk exits with 1 even when its help was asked for.
        exit_code: u8,
    },
    /// Something is missing: usage on stdout, a line on stderr, exit code 1.
    Incomplete {
        /// The text, with its final line feed; behind the version line if that was asked for.
        usage: String,
        /// The line that says what.
        missing: &'static str,
    },
}

/// Which tool the program was called as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Under its own name: commands, and everything else is `run`.
    Native,
    /// Through a link named `wrk`, as the binaries of all three tools are: always `run`.
    Wrk,
    /// Through a link named `wrk2`: always `run`, with a rate.
    Wrk2,
    /// Through a link named `wrk-cmm`: always `run`.
    Cmm,
}

impl Dialect {
    const ALL: [Self; 4] = [Self::Native, Self::Wrk, Self::Wrk2, Self::Cmm];

    /// Reads it off `argv[0]`.
    pub(crate) fn of(argv0: Option<&OsStr>) -> Self {
        let name = argv0.map(Path::new).and_then(Path::file_name);
        Self::ALL
            .into_iter()
            .find(|dialect| name.is_some_and(|name| name == dialect.program()))
            .unwrap_or(Self::Native)
    }

    /// The name that messages begin with.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Native => "wrkbench",
            Self::Wrk => "wrk",
            Self::Wrk2 => "wrk2",
            Self::Cmm => "wrk-cmm",
        }
    }

    /// Whose text a link asks for. Through one named `wrk` the options decide: all three tools build a binary of this
    /// name, and each refuses what only the others have.
    fn style(self) -> Option<Style> {
        match self {
            Self::Native | Self::Wrk => None,
            Self::Wrk2 => Some(Style::Wrk2),
            Self::Cmm => Some(Style::Cmm),
        }
    }
}

/// How a run can end, for the help and the manual page.
pub(crate) const EXIT_CODES: [(u8, &str); 9] = [
    (
        0,
        "the run finished, also if requests failed, or after Ctrl-C",
    ),
    (
        1,
        "wrong arguments, a target or script that does not work, nothing answered; sweep: refused, given up, or not everything put back",
    ),
    (2, "a condition of --fail-if holds, or cannot be judged"),
    (
        3,
        "compare and sweep --fail-on-regression: something got worse (goes before 4)",
    ),
    (
        4,
        "sweep: some trials failed at each attempt, and are in no average",
    ),
    (
        5,
        "with --strict: the generator was the limit (goes before 2)",
    ),
    (
        129,
        "SIGHUP, in a sweep: see 130; with --tui: the report is made",
    ),
    (
        130,
        "Ctrl-C twice; in a sweep once: everything is put back, and --resume goes on",
    ),
    (143, "SIGTERM; the report is made all the same"),
];

/// Below the options.
fn exit_codes() -> String {
    let lines = EXIT_CODES
        .iter()
        .map(|(code, meaning)| format!("\n  {code:<4} {meaning}"));
    std::iter::once("Exit codes:".to_owned())
        .chain(lines)
        .collect()
}

/// HTTP load generator: the drop-in for wrk, wrk2 and wrk-cmm
///
/// Loads a server over HTTP, at a rate or with as many requests as its connections can carry, and
/// reports what came back. Without a command the arguments are those of `run`.
#[derive(Debug, Parser)]
#[command(
    name = "wrkbench",
    version,
    disable_version_flag = true,
    after_help = exit_codes(),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct WholeLine {
    #[command(flatten)]
    run: RunArgs,
    #[command(subcommand)]
    word: Option<Word>,
}

#[derive(Debug, Subcommand)]
enum Word {
    /// Load one target (this is also what happens without a command)
    Run(Box<RunArgs>),
    /// Serve test answers: delays, sizes, stalls and faults on request
    Serve(Box<ServeArgs>),
    /// Serve, load and report on loopback for five seconds
    Demo(DemoArgs),
    /// Run an experiment: every combination of levels, several rounds, and the machine as it was at the end
    Sweep(SweepArgs),
    /// Print runs as rows and averages: sweeps, results, and what wrk, wrk2 and wrk-cmm printed
    Table(table::TableArgs),
    /// Make a page with charts of runs, or text in the format of another tool
    Report(Box<report_command::ReportCommandArgs>),
    /// Say whether runs differ: new ones beside old ones, or the levels of a sweep
    Compare(compare::CompareArgs),
    /// List every TCP socket with its TCP_INFO, as JSON
    Sockets(sockets::SocketsArgs),
    /// Put back what an interrupted sweep has left changed
    Restore(RestoreArgs),
    /// Print the completion script of a shell
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Print the manual page, in roff
    Man {
        /// The page of this command instead of the whole program's
        #[arg(value_name = "COMMAND", value_parser = ["run", "serve", "demo", "sweep", "restore", "table", "report", "compare", "sockets", "completions", "man"])]
        command: Option<String>,
    },
}

/// The declaration of the whole command line, for help, completions and the manual page.
pub(crate) fn declaration() -> clap::Command {
    with_common_settings(WholeLine::command())
}

/// getopt's manners, which scripts written for wrk rely on: unambiguous prefixes of long options, and
/// the last one of repeated options wins.
fn with_common_settings(command: clap::Command) -> clap::Command {
    command
        .infer_long_args(true)
        .args_override_self(true)
        .mut_subcommands(|word| word.infer_long_args(true).args_override_self(true))
}

/// Reads the arguments after `argv[0]`.
pub(crate) fn parse(dialect: Dialect, arguments: Vec<OsString>) -> Result<Request, Refusal> {
    if dialect == Dialect::Native
        && let Some(guardian) = GuardianArgs::of(&arguments)
    {
        return Ok(Request::Guardian(guardian));
    }
    let arguments = conditions::each_with_its_option(arguments);
    if dialect == Dialect::Native && begins_with_a_word(&arguments) {
        return parse_word(arguments);
    }
    if dialect == Dialect::Native
        && let Some((typed, meant)) = almost_a_word(&arguments)
    {
        return Err(Refusal(format!(
            "{typed}: unknown command (did you mean {meant}? A URL begins with http://)"
        )));
    }
    foreign::check_quiet(&arguments)?;
    parse_run(dialect, arguments)
}

/// The first argument and the command that it resembles, if it is no URL; by clap's measure.
fn almost_a_word(arguments: &[OsString]) -> Option<(String, String)> {
    let typed = arguments.first()?.to_str()?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if typed.starts_with('-') || !typed.chars().all(is_word) {
        return None;
    }
    let words = WholeLine::command();
    let words = clap::Command::new("wrkbench").subcommands(words.get_subcommands().cloned());
    let error = words.try_get_matches_from(["wrkbench", typed]).err()?;
    let meant = match error.get(ContextKind::SuggestedSubcommand)? {
        // The best one is the last.
        ContextValue::Strings(meant) => meant.last()?.clone(),
        ContextValue::String(meant) => meant.clone(),
        _ => return None,
    };
    Some((typed.to_owned(), meant))
}

/// Whether the first argument is one of our commands. A URL or an option means `run`, and so does
/// anything unknown: it is then refused as a URL.
fn begins_with_a_word(arguments: &[OsString]) -> bool {
    let Some(first) = arguments.first() else {
        return false;
    };
    first == "help"
        || WholeLine::command()
            .get_subcommands()
            .any(|word| first == word.get_name())
}

fn parse_word(arguments: Vec<OsString>) -> Result<Request, Refusal> {
    let matches = match match_arguments(declaration(), Dialect::Native, arguments) {
        Ok(matches) => matches,
        Err(error) if is_help(&error) => {
            return Ok(Request::Help {
                text: error.render().to_string(),
                exit_code: 0,
            });
        }
        Err(error) => return Err(Refusal::of_clap(&error, &declaration())),
    };
    let line = WholeLine::from_arg_matches(&matches)
        .map_err(|error| Refusal::of_clap(&error, &declaration()))?;
    match line.word {
        Some(Word::Run(run)) => run_request(*run, Dialect::Native),
        Some(Word::Serve(serve)) => Ok(Request::Serve(serve)),
        Some(Word::Demo(demo)) => Ok(Request::Demo(demo)),
        Some(Word::Sweep(sweep)) => Ok(Request::Sweep(sweep)),
        Some(Word::Compare(compare)) => Ok(Request::Compare(Box::new(compare.into()))),
        Some(Word::Report(report)) => {
            let request = report.into_request()?;
            Ok(Request::Report(Box::new(request)))
        }
        Some(Word::Table(table)) => table.into_request().map(Request::Table),
        Some(Word::Sockets(sockets)) => sockets.into_request().map(Request::Sockets),
        Some(Word::Restore(restore)) => Ok(Request::Restore(restore)),
        Some(Word::Completions { shell }) => Ok(Request::Completions(shell)),
        Some(Word::Man { command }) => Ok(Request::Man(command)),
        None => run_request(line.run, Dialect::Native),
    }
}

fn parse_run(dialect: Dialect, arguments: Vec<OsString>) -> Result<Request, Refusal> {
    let command = with_common_settings(RunArgs::command());
    let refuse = |error| Err(Refusal::of_clap(&error, &declaration()));
    match match_arguments(command, dialect, arguments) {
        Ok(matches) => match RunArgs::from_arg_matches(&matches) {
            Ok(run) => run_request(run, dialect),
            Err(error) => refuse(error),
        },
        Err(error) if is_help(&error) => {
            // wrk's own help ends with 1, and a script may look at it.
            let exit_code = u8::from(dialect != Dialect::Native);
            Ok(Request::Help {
                text: usage_of(
                    (dialect != Dialect::Native).then(|| dialect.style().unwrap_or_default()),
                ),
                exit_code,
            })
        }
        Err(error) => refuse(error),
    }
}

/// clap reports a wish for help as an error.
fn is_help(error: &clap::Error) -> bool {
    error.kind() == clap::error::ErrorKind::DisplayHelp
}

fn match_arguments(
    command: clap::Command,
    dialect: Dialect,
    arguments: Vec<OsString>,
) -> Result<clap::ArgMatches, clap::Error> {
    let program = OsString::from(dialect.program());
    command.try_get_matches_from(std::iter::once(program).chain(arguments))
}

fn run_request(run: RunArgs, dialect: Dialect) -> Result<Request, Refusal> {
    let (tool, wish) = (run.tool(dialect), run.version_wish(dialect));
    if wish == VersionWish::Only {
        return Ok(Request::Help {
            text: version_line(tool),
            exit_code: 0,
        });
    }
    let missing = match run.into_request(dialect)? {
        None => "no URL (expected like http://host:port/path)",
        Some(request) if dialect == Dialect::Wrk2 && !request.plan.pacing.is_open() => {
            "Throughput MUST be specified with the --rate or -R option"
        }
        Some(request) => return Ok(Request::Run(Box::new(request))),
    };
    let version = match wish {
        VersionWish::First => version_line(tool),
        VersionWish::None | VersionWish::Only => String::new(),
    };
    Ok(Request::Incomplete {
        usage: version + &usage_of(tool),
        missing,
    })
}

/// What is printed for `--help`, and when something is missing; of a tool when the program stands in for one.
fn usage_of(tool: Option<Style>) -> String {
    match tool {
        None => declaration().render_help().to_string(),
        Some(Style::Wrk) => usage::of_wrk(&RunArgs::command()),
        Some(Style::Wrk2) => usage::of_wrk2(&RunArgs::command()),
        Some(Style::Cmm) => usage::of_cmm(&RunArgs::command()),
    }
}

/// The line that names the version, with its line feed. In the place of a tool it begins as that tool's line does, with the
/// version that is stood in for: scripts look at its second word.
pub(crate) fn version_line(tool: Option<Style>) -> String {
    const BACKENDS: &str = "[io_uring|epoll]";
    let (version, licence) = (env!("CARGO_PKG_VERSION"), env!("CARGO_PKG_LICENSE"));
    let of_tool = match tool {
        None => return format!("wrkbench {version} {BACKENDS} {licence}\n"),
        Some(Style::Wrk) => "4.2.0",
        Some(Style::Wrk2) => "4.0.0",
        Some(Style::Cmm) => "4.1.0-42",
    };
    format!("wrk {of_tool} {BACKENDS} wrkbench {version}, {licence}\n")
}

#[cfg(test)]
mod tests;
