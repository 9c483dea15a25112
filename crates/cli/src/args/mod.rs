//! Parses and checks the command line. Nothing here has side effects, so tests can call it.
//!
//! One clap declaration ([`CommandLine`]) provides parser, help, completions and manual pages.

mod campaign;
mod compare;
mod completions;
mod conditions;
mod convert;
mod demo;
mod foreign;
mod grpc;
pub(crate) mod guide;
pub(crate) mod help;
mod llm;
mod load_options;
mod man;
pub(crate) mod outputs;
mod plan_options;
mod planned;
mod refusal;
mod report;
mod report_command;
mod report_files;
mod request_files;
mod restore;
mod run;
mod run_file;
mod search;
mod serve;
mod sockets;
mod summary;
mod sweep;
mod table;
mod url;
mod usage;
mod versus;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use experiment::Starter;

pub(crate) use campaign::{CampaignArgs, CampaignRequest, ExperimentSource, ReportPlace};
pub(crate) use compare::{CompareFormat, CompareRequest};
pub(crate) use completions::CompletionsArgs;
pub(crate) use convert::{ConvertRequest, CurlArgs, Destination, HarArgs, RequestSource, run_of};
pub(crate) use demo::DemoArgs;
pub(crate) use grpc::{GrpcAction, GrpcRequest};
use llm::LlmCommandArgs;
pub(crate) use llm::{
    ConversationSource, ConversationTexts, LlmRequest, LlmSearchRequest, PromptSource,
};
pub(crate) use man::ManArgs;
pub(crate) use outputs::{OutputsArgs, StreamTarget};
pub(crate) use planned::run_of_plan;
pub(crate) use refusal::Refusal;
pub(crate) use report::{JsonTarget, OutputOptions, Style};
pub(crate) use report_command::{ChartRequest, ReportRequest, TrendRequest};
pub(crate) use restore::{Companion, RestoreArgs};
use run::ReplayCommandArgs;
use run::VersionMode;
pub(crate) use run::{RunArgs, RunRequest, environment_variables};
use search::{CheckArgs, SearchArgs};
pub(crate) use serve::ServeArgs;
pub(crate) use sockets::SocketsRequest;
pub(crate) use sweep::SweepArgs;
pub(crate) use table::{TableLayout, TableRequest};
use versus::VersusArgs;

use crate::fleet::{self, FleetCommandRequest, FleetCommands};

/// What the command line requests.
#[derive(Debug)]
pub(crate) enum Request {
    Run(Box<RunRequest>),
    Convert(Box<ConvertRequest>),
    Llm(Box<LlmRequest>),
    LlmSearch(Box<LlmSearchRequest>),
    Serve(Box<ServeArgs>),
    Demo(DemoArgs),
    Campaign(Box<CampaignRequest>),
    /// Print a commented experiment file.
    Starter(Starter),
    Table(TableRequest),
    Report(Box<ReportRequest>),
    Compare(Box<CompareRequest>),
    Grpc(Box<GrpcRequest>),
    Sockets(SocketsRequest),
    Restore(RestoreArgs),
    Fleet(FleetCommandRequest),
    /// What to be instead of a command, and its folder.
    Companion(Companion, PathBuf),
    Completions(CompletionsArgs),
    Man(ManArgs),
    /// Print help or version and exit with this code.
    Help {
        text: String,
        /// 1 when called as one of the tools: wrk exits with 1 after its help.
        exit_code: u8,
    },
    /// Something is missing: print usage to stdout and one line to stderr, exit with 1.
    Incomplete {
        /// Preceded by the version line if that was requested.
        usage: String,
        missing: &'static str,
    },
}

/// The name under which the program was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `wrkbench`: commands, and `run` for everything else.
    Native,
    /// A link named `wrk`, the binary name of all three tools: always `run`.
    Wrk,
    /// A link named `wrk2`: always `run`, and a rate is required.
    Wrk2,
    /// A link named `wrk-cmm`: always `run`.
    Cmm,
}

impl Dialect {
    const ALL: [Self; 4] = [Self::Native, Self::Wrk, Self::Wrk2, Self::Cmm];

    /// Derives it from `argv[0]`.
    pub(crate) fn of(argv0: Option<&OsStr>) -> Self {
        let name = argv0.map(Path::new).and_then(Path::file_name);
        Self::ALL
            .into_iter()
            .find(|dialect| name.is_some_and(|name| name == dialect.program()))
            .unwrap_or(Self::Native)
    }

    /// The prefix of messages.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Native => "wrkbench",
            Self::Wrk => "wrk",
            Self::Wrk2 => "wrk2",
            Self::Cmm => "wrk-cmm",
        }
    }

    /// The report style that a link implies. With a link named `wrk` the options decide, since all
    /// three tools build a binary of that name and each rejects the options of the others.
    fn style(self) -> Option<Style> {
        match self {
            Self::Native | Self::Wrk => None,
            Self::Wrk2 => Some(Style::Wrk2),
            Self::Cmm => Some(Style::Cmm),
        }
    }
}

/// An HTTP load generator whose numbers you can trust: a drop-in for wrk and wrk2
///
/// Sends requests at a fixed rate or as fast as the server responds, and reports throughput,
/// latency and errors. Without a command, the arguments are those of `run`.
///
/// Called through a link named wrk, wrk2 or wrk-cmm, it has no commands and prints the report,
/// usage and version of that tool.
#[derive(Debug, Parser)]
#[command(
    name = "wrkbench",
    version,
    disable_version_flag = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct CommandLine {
    #[command(flatten)]
    run: RunArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

// The types of the arguments have the help texts.
#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<RunArgs>),
    Curl(CurlArgs),
    Har(HarArgs),
    Replay(Box<ReplayCommandArgs>),
    Llm(Box<LlmCommandArgs>),
    Serve(Box<ServeArgs>),
    Demo(DemoArgs),
    Sweep(Box<SweepArgs>),
    Versus(Box<VersusArgs>),
    Search(Box<SearchArgs>),
    Check(Box<CheckArgs>),
    Table(table::TableArgs),
    Report(Box<report_command::ReportCommandArgs>),
    Compare(compare::CompareArgs),
    Grpc(Box<grpc::GrpcArgs>),
    Sockets(sockets::SocketsArgs),
    Restore(RestoreArgs),
    #[command(flatten)]
    Fleet(FleetCommands),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// The clap declaration with all commands.
pub(crate) fn declaration() -> clap::Command {
    help::with_guide(with_common_settings(CommandLine::command())).mut_subcommands(help::with_guide)
}

/// Parses like getopt, which scripts written for wrk rely on: long options can be abbreviated to
/// any unambiguous prefix, and the last of repeated options wins. Every command has `--help` and
/// `--version`.
fn with_common_settings(command: clap::Command) -> clap::Command {
    let like_getopt =
        |command: clap::Command| command.infer_long_args(true).args_override_self(true);
    let command = like_getopt(command).mut_subcommands(|command| {
        let has_version = command.get_arguments().any(|arg| arg.get_id() == "version");
        let version = clap::Arg::new("version").short('V').long("version");
        let version = version.action(ArgAction::Version).help("Print the version");
        let version = help::below_others(version, &command);
        let command = command.version(env!("CARGO_PKG_VERSION"));
        help::with_flag(like_getopt(command).args((!has_version).then_some(version)))
    });
    help::with_flag(command)
}

/// Parses the arguments after `argv[0]`.
pub(crate) fn parse(dialect: Dialect, arguments: Vec<OsString>) -> Result<Request, Refusal> {
    let typed = arguments.clone();
    parse_either(dialect, arguments).map_err(|Refusal(line)| {
        match foreign::advice_on_log_format(&typed, &line) {
            Some(advice) => Refusal(format!("{line} ({advice})")),
            None => Refusal(line),
        }
    })
}

fn parse_either(dialect: Dialect, arguments: Vec<OsString>) -> Result<Request, Refusal> {
    if dialect == Dialect::Native
        && let Some((companion, folder)) = Companion::of(&arguments)
    {
        return Ok(Request::Companion(companion, folder));
    }
    if dialect == Dialect::Native
        && let Some(request) = run_file::parse(&arguments)
    {
        return request;
    }
    let arguments = conditions::each_with_its_option(arguments);
    if dialect == Dialect::Native
        && let Some(run) = fleet::run_by_local_fleet(&arguments)?
    {
        return parse_run(dialect, run.to_vec());
    }
    if dialect == Dialect::Native && llm::is_search(&arguments) {
        return llm::parse_search(arguments);
    }
    if dialect == Dialect::Native && begins_with_command(&arguments) {
        return parse_command(arguments);
    }
    if dialect == Dialect::Native
        && let Some((typed, meant)) = misspelled_command(&arguments)
    {
        return Err(Refusal(format!(
            "{typed}: unknown command (did you mean {meant}? A URL begins with http://)"
        )));
    }
    foreign::check_quiet(&arguments)?;
    parse_run(dialect, arguments)
}

/// The first argument and the command it resembles, by clap's similarity measure.
fn misspelled_command(arguments: &[OsString]) -> Option<(String, String)> {
    let typed = arguments.first()?.to_str()?;
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if typed.starts_with('-') || !typed.chars().all(is_allowed) {
        return None;
    }
    let whole = CommandLine::command();
    let commands = clap::Command::new("wrkbench").subcommands(whole.get_subcommands().cloned());
    let error = commands.try_get_matches_from(["wrkbench", typed]).err()?;
    let meant = match error.get(ContextKind::SuggestedSubcommand)? {
        // clap sorts the best match last.
        ContextValue::Strings(meant) => meant.last()?.clone(),
        ContextValue::String(meant) => meant.clone(),
        _ => return None,
    };
    Some((typed.to_owned(), meant))
}

/// Whether the first argument is a command. Anything else means `run`, where an unknown word is
/// then rejected as an invalid URL.
fn begins_with_command(arguments: &[OsString]) -> bool {
    let Some(first) = arguments.first() else {
        return false;
    };
    first == "help"
        || CommandLine::command()
            .get_subcommands()
            .any(|command| first == command.get_name())
}

fn parse_command(arguments: Vec<OsString>) -> Result<Request, Refusal> {
    let text = |argument: &OsString| argument.to_string_lossy().into_owned();
    let typed: Vec<String> = arguments.iter().map(text).collect();
    let command = help::with_extent(declaration()).mut_subcommands(help::with_extent);
    let matches = match match_arguments(command, Dialect::Native, arguments) {
        Ok(matches) => matches,
        Err(error) => return help_or_refusal(&error, &typed),
    };
    let line = CommandLine::from_arg_matches(&matches)
        .map_err(|error| Refusal::of_clap(&error, &declaration()))?;
    match line.command {
        Some(Command::Run(run)) => run_request(*run, Dialect::Native),
        Some(Command::Curl(curl)) => {
            let request = curl.into_request()?;
            Ok(Request::Convert(Box::new(request)))
        }
        Some(Command::Replay(replay)) if replay.0.lacks_log() => Err(Refusal(
            "no log (expected like wrkbench replay access.log http://host:port/)".to_owned(),
        )),
        Some(Command::Replay(replay)) => match run_request(replay.0, Dialect::Native)? {
            Request::Incomplete { .. } => Err(Refusal(
                "no URL to send the requests of the log to (expected like wrkbench replay \
                 access.log http://host:port/)"
                    .to_owned(),
            )),
            request => Ok(request),
        },
        Some(Command::Llm(llm)) => llm.into_request(),
        Some(Command::Har(har)) => Ok(Request::Convert(Box::new(har.into_request()))),
        Some(Command::Serve(serve)) => Ok(Request::Serve(serve)),
        Some(Command::Demo(demo)) => Ok(Request::Demo(demo)),
        Some(Command::Sweep(sweep)) => sweep.into_request(typed),
        Some(Command::Search(search)) => {
            let request = search.into_request(typed)?;
            Ok(Request::Campaign(Box::new(request)))
        }
        Some(Command::Check(check)) => {
            let request = check.into_request(typed)?;
            Ok(Request::Campaign(Box::new(request)))
        }
        Some(Command::Versus(versus)) => {
            let request = versus.into_request(typed)?;
            Ok(Request::Campaign(Box::new(request)))
        }
        Some(Command::Compare(compare)) => Ok(Request::Compare(Box::new(compare.into()))),
        Some(Command::Report(report)) => {
            let request = report.into_request()?;
            Ok(Request::Report(Box::new(request)))
        }
        Some(Command::Table(table)) => table.into_request().map(Request::Table),
        Some(Command::Grpc(grpc)) => {
            let request = grpc.into_request()?;
            Ok(Request::Grpc(Box::new(request)))
        }
        Some(Command::Sockets(sockets)) => sockets.into_request().map(Request::Sockets),
        Some(Command::Restore(restore)) => Ok(Request::Restore(restore)),
        Some(Command::Fleet(fleet)) => fleet.into_request().map(Request::Fleet),
        Some(Command::Completions(completions)) => Ok(Request::Completions(completions)),
        Some(Command::Man(man)) => Ok(Request::Man(man)),
        None => run_request(line.run, Dialect::Native),
    }
}

/// What clap returns as an error is the help or the version if that was typed.
fn help_or_refusal(error: &clap::Error, typed: &[String]) -> Result<Request, Refusal> {
    let text = match error.kind() {
        ErrorKind::DisplayHelp => {
            let mut names = typed.iter().filter(|name| *name != "help");
            help::of_request(error, declaration(), names.next().map(String::as_str))
        }
        ErrorKind::DisplayVersion => version_line(None),
        _ => return Err(Refusal::of_command(typed, error, &declaration())),
    };
    Ok(Request::Help { text, exit_code: 0 })
}

fn parse_run(dialect: Dialect, arguments: Vec<OsString>) -> Result<Request, Refusal> {
    parse_run_with(dialect, arguments, |run| run)
}

/// As [`parse_run`]; `complete` adds to the arguments of the command line.
fn parse_run_with(
    dialect: Dialect,
    arguments: Vec<OsString>,
    complete: impl FnOnce(RunArgs) -> RunArgs,
) -> Result<Request, Refusal> {
    let command = help::with_extent(with_common_settings(RunArgs::command()));
    let refuse = |error| Err(Refusal::of_clap(&error, &declaration()));
    match match_arguments(command, dialect, arguments) {
        Ok(matches) => match RunArgs::from_arg_matches(&matches) {
            Ok(run) => run_request(complete(run), dialect),
            Err(error) => refuse(error),
        },
        Err(error) if error.kind() == ErrorKind::DisplayHelp => Ok(match dialect {
            Dialect::Native => Request::Help {
                text: help::of_request(&error, declaration(), None),
                exit_code: 0,
            },
            // wrk exits with 1 after its help, and scripts may check that.
            tool => Request::Help {
                text: usage_of(Some(tool.style().unwrap_or_default())),
                exit_code: 1,
            },
        }),
        Err(error) => refuse(error),
    }
}

fn match_arguments(
    command: clap::Command,
    dialect: Dialect,
    arguments: Vec<OsString>,
) -> Result<clap::ArgMatches, clap::Error> {
    let program = OsString::from(dialect.program());
    let arguments = foreign::with_our_arrivals(request_files::by_their_option(arguments));
    command.try_get_matches_from(std::iter::once(program).chain(arguments))
}

fn run_request(run: RunArgs, dialect: Dialect) -> Result<Request, Refusal> {
    let (tool, mode) = (run.tool(dialect), run.version_mode(dialect));
    if mode == VersionMode::Only {
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
    let version = match mode {
        VersionMode::First => version_line(tool),
        VersionMode::None | VersionMode::Only => String::new(),
    };
    Ok(Request::Incomplete {
        usage: version + &short_usage_of(tool),
        missing,
    })
}

/// The text for incomplete arguments: of a tool, only its own lines, byte for byte.
fn short_usage_of(tool: Option<Style>) -> String {
    match tool {
        None => usage_of(None),
        Some(tool) => usage::own_lines(tool).to_owned(),
    }
}

/// The help, with all options.
fn usage_of(tool: Option<Style>) -> String {
    match tool {
        None => summary::of_program(declaration()),
        Some(tool) => usage::with_other_options(tool, &RunArgs::command()),
    }
}

/// The version line. For a tool it starts with the version of that tool that wrkbench emulates,
/// since scripts read its second word.
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
