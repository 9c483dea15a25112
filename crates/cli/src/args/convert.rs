//! Arguments of `wrkbench curl` and `wrkbench har`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::{Dialect, Refusal, Request, RunRequest};

/// Convert a curl command to a command of wrkbench
///
/// Prints the command of wrkbench that sends the same request. Put `wrkbench` before a curl
/// command, or give the whole command as one text in quotes; - reads it from stdin. With several
/// URLs or commands, the requests are printed as JSON lines.
///
/// Options of curl that do not change the request are left out and named. The others are converted,
/// or the command is refused.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct CurlArgs {
    #[command(flatten)]
    destination: DestinationArgs,
    /// The curl command; options of the run follow after --, or after the text in quotes
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<String>,
}

/// Convert a HAR file, a recording of a browser, to requests
///
/// Reads what a browser or a proxy has recorded, and prints the requests as JSON lines, or the
/// command of wrkbench if there is only one. Headers of the connection are left out, and so are
/// URLs that are not http or https.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct HarArgs {
    #[command(flatten)]
    destination: DestinationArgs,
    /// The file; - is stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Options of the run, after --
    #[arg(value_name = "OPTION", last = true, allow_hyphen_values = true)]
    load: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Args)]
struct DestinationArgs {
    /// Make the run instead of printing the command
    #[arg(long, conflicts_with = "output")]
    run: bool,
    /// Only requests to this host, as in the URL; with or without its port
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Write the requests to a file, one JSON object per line
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Keep passwords, tokens and cookies.
    ///
    /// Without it, variables stand for them in what is printed and written.
    #[arg(long)]
    keep_secrets: bool,
}

/// What to convert, and what for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConvertRequest {
    pub(crate) source: RequestSource,
    pub(crate) destination: Destination,
    /// Options of the run.
    pub(crate) load: Vec<String>,
    /// Only requests to this host.
    pub(crate) host: Option<String>,
    pub(crate) keep_secrets: bool,
}

/// What the requests are made from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RequestSource {
    /// A curl command as one text.
    CurlText(String),
    /// The same, from stdin.
    CurlStdin,
    /// The arguments of a curl command.
    CurlArguments(Vec<String>),
    Har {
        /// `-` is stdin.
        file: PathBuf,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Destination {
    Stdout,
    File(PathBuf),
    Run,
}

impl DestinationArgs {
    fn into_request(self, source: RequestSource, load: Vec<String>) -> ConvertRequest {
        ConvertRequest {
            source,
            destination: match (self.run, self.output) {
                (true, _) => Destination::Run,
                (false, Some(path)) => Destination::File(path),
                (false, None) => Destination::Stdout,
            },
            load,
            host: self.host,
            keep_secrets: self.keep_secrets,
        }
    }
}

impl CurlArgs {
    /// Separates curl's arguments from those of `wrkbench`.
    ///
    /// # Errors
    /// When an option after the text has no value.
    pub(super) fn into_request(self) -> Result<ConvertRequest, Refusal> {
        let Self {
            mut destination,
            mut command,
        } = self;
        let is_text = command
            .first()
            .is_some_and(|first| first == "-" || first.contains(char::is_whitespace));
        if is_text {
            let text = command.remove(0);
            let load = destination.with_options_of(command)?;
            let source = match text.as_str() {
                "-" => RequestSource::CurlStdin,
                _ => RequestSource::CurlText(text),
            };
            return Ok(destination.into_request(source, load));
        }
        // In a curl command only URLs follow.
        let mut pairs = command.windows(2);
        let end = pairs.position(|pair| pair[0] == "--" && pair[1].starts_with('-'));
        let load = match end {
            Some(end) => {
                let load = command.split_off(end + 1);
                command.truncate(end);
                destination.with_options_of(load)?
            }
            None => Vec::new(),
        };
        Ok(destination.into_request(RequestSource::CurlArguments(command), load))
    }
}

impl HarArgs {
    pub(super) fn into_request(self) -> ConvertRequest {
        let source = RequestSource::Har { file: self.file };
        self.destination.into_request(source, self.load)
    }
}

impl DestinationArgs {
    /// Takes its own options out of those that follow a command; the others are for the run.
    fn with_options_of(&mut self, words: Vec<String>) -> Result<Vec<String>, Refusal> {
        let value = |option: &str, next: Option<String>| {
            next.ok_or_else(|| Refusal(format!("{option}: needs a value")))
        };
        let mut load = Vec::new();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--run" => self.run = true,
                "--keep-secrets" => self.keep_secrets = true,
                "-o" | "--output" => self.output = Some(value("--output", words.next())?.into()),
                "--host" => self.host = Some(value("--host", words.next())?),
                "--" => (),
                _ => load.push(word),
            }
        }
        match (self.run, &self.output) {
            (true, Some(_)) => Err(Refusal(
                "--run: cannot be used together with --output".to_owned(),
            )),
            _ => Ok(load),
        }
    }
}

/// The run that these arguments describe.
///
/// # Errors
/// The same one-line messages as on the command line.
pub(crate) fn run_of(arguments: &[String]) -> Result<RunRequest, Refusal> {
    let arguments = arguments.iter().map(OsString::from).collect();
    match super::parse_run(Dialect::Native, arguments)? {
        Request::Run(request) => Ok(*request),
        _ => Err(Refusal(
            "the options after the command do not belong to a run".to_owned(),
        )),
    }
}
