//! `wrkbench curl` and `wrkbench har`: requests from what people have.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use convert::{Conversion, Variables, curl, har, requests_file};
use plan::{Body, shell};

use super::in_memory::{InMemory, name_of};
use super::result_file::{self, Readers};
use super::{print, run};
use crate::args::{ConvertRequest, Destination, Refusal, RequestSource, RunRequest, run_of};
use crate::console::Console;

/// The largest file of a curl command, which is a body or a part of one.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// The largest recording. It is in memory twice, and a day of browsing with all responses has a
/// tenth of this.
const MAX_HAR_BYTES: u64 = 512 << 20;

/// The longest curl command from stdin. Its bodies are written out in it.
const MAX_COMMAND_BYTES: u64 = 64 << 20;

/// Converts, then prints, writes or runs the requests.
///
/// # Errors
/// When the source cannot be read or converted, the file cannot be written, or the run fails.
pub(super) fn convert(request: ConvertRequest, console: &Console) -> anyhow::Result<ExitCode> {
    let ConvertRequest {
        source,
        destination,
        load,
        host,
        keep_secrets,
    } = request;
    if let Destination::File(path) = &destination {
        result_file::check_destination("--output", path)?;
    }
    let mut converted = read(&source, host.as_deref())?;
    if let Some(host) = &host {
        converted.keep_host(host).map_err(|error| anyhow!(error))?;
    }
    for note in &converted.notes {
        console.tell(format_args!("note: {note}"));
    }
    check_servers(&converted)?;
    if destination == Destination::Run {
        return if !converted.needs_file() {
            run::run(run_request(&converted, &load, keep_secrets)?, console)
        } else {
            let converted = with_absolute_paths(converted);
            run_several(&converted, &load, &source, keep_secrets, console)
        };
    }
    if destination == Destination::Stdout {
        tell_why_file(&converted, console);
    }
    let is_file = matches!(destination, Destination::File(_)) || converted.needs_file();
    let written = if is_file {
        let converted = with_absolute_paths(converted);
        let file = match &destination {
            Destination::File(path) => path.to_string_lossy(),
            _ => "FILE".into(),
        };
        file_of_requests(&converted, file.into_owned(), &load, keep_secrets, console)
    } else {
        only_command(&converted, &load, keep_secrets, console)?
    };
    if let Destination::File(path) = &destination {
        let readers = Readers::of(keep_secrets);
        result_file::write("--output", path, readers, |file| {
            file.write_all(written.text.as_bytes())
        })?;
    }
    tell_secrets(&written.secrets, is_file, console);
    if let Some(command) = written.sent_with {
        console.tell(format_args!("note: send them with: {command}"));
    }
    match destination {
        Destination::File(_) => Ok(ExitCode::SUCCESS),
        _ => print(written.text.as_bytes(), console),
    }
}

/// Says why a single request is not written as a command.
fn tell_why_file(converted: &Conversion, console: &Console) {
    if let (Some(name), [_]) = (converted.repeated_header(), converted.requests.as_slice()) {
        console.tell(format_args!(
            "note: this is a file of requests, since the header {name} is repeated"
        ));
    }
}

/// Requests as they are written.
struct Written {
    text: String,
    /// The variables in the text, unless it has the secrets.
    secrets: Variables,
    /// The command that sends the requests of a file.
    sent_with: Option<String>,
}

/// The only request as a command.
fn only_command(
    converted: &Conversion,
    load: &[String],
    keep_secrets: bool,
    console: &Console,
) -> anyhow::Result<Written> {
    let mut secrets = Variables::default();
    let options = if keep_secrets {
        converted.options().map(|words| shell::command(&words))
    } else {
        converted.shell_options(&mut secrets)
    };
    let options = options.map_err(|error| anyhow!(error))?;
    Ok(Written {
        text: command(console.program, load, &options) + "\n",
        secrets,
        sent_with: None,
    })
}

/// A file of requests, and the command for it under this name.
fn file_of_requests(
    converted: &Conversion,
    file: String,
    load: &[String],
    keep_secrets: bool,
    console: &Console,
) -> Written {
    let mut secrets = Variables::default();
    let (text, options) = if keep_secrets {
        let options = shell::command(&converted.connection_options());
        (requests_file::text(&converted.requests), options)
    } else {
        let text = requests_file::text_with_variables(&converted.requests, &mut secrets);
        (text, converted.shell_connection_options(&mut secrets))
    };
    let mut words = vec!["--requests".to_owned(), file];
    words.extend(load.iter().cloned());
    Written {
        text,
        secrets,
        sent_with: Some(command(console.program, &words, &options)),
    }
}

/// A command of this program: its name, words, and options that are quoted already.
fn command(program: &str, words: &[String], options: &str) -> String {
    let words = std::iter::once(program.to_owned()).chain(words.iter().cloned());
    let words: Vec<String> = words.collect();
    let command = shell::command(&words);
    if options.is_empty() {
        command
    } else {
        format!("{command} {options}")
    }
}

/// Says which variables stand for secrets.
pub(super) fn tell_secrets(secrets: &Variables, is_file: bool, console: &Console) {
    if let Some(list) = secrets.list() {
        let what = if is_file {
            "environment variables, which stand for secrets in the file"
        } else {
            "variables of the shell, which stand for secrets in the command"
        };
        console.tell(format_args!(
            "note: set these {what}: {list} (--keep-secrets keeps the secrets)"
        ));
    }
    if secrets.hidden_bodies() > 0 {
        console.tell(
            "note: secrets in a body that is not text are replaced by ***, which no run sends; \
             --keep-secrets keeps them",
        );
    }
}

fn read(source: &RequestSource, host: Option<&str>) -> anyhow::Result<Conversion> {
    let file = |path: &Path| files::read(path, MAX_FILE_BYTES);
    let stdin = || files::read_text(Path::new(files::STDIN), MAX_COMMAND_BYTES);
    Ok(match source {
        RequestSource::CurlText(text) => curl::from_text(text, &file)?,
        RequestSource::CurlStdin => curl::from_text(
            &stdin().context("cannot read the curl command from stdin")?,
            &file,
        )?,
        RequestSource::CurlArguments(words) => curl::from_arguments(words, &file)?,
        RequestSource::Har { file } => {
            let shown = file.display();
            let text = files::read_unpacked(files::named(file), MAX_HAR_BYTES);
            let text = text.and_then(files::text);
            let text = text.with_context(|| format!("cannot read {shown}"))?;
            let filter = har::Filter {
                host: host.map(str::to_owned),
            };
            har::convert(&text, &filter).map_err(|error| anyhow!("{shown}: {error}"))?
        }
    })
}

/// The servers of a recording are chosen by hand: most pages load things from servers of others,
/// which must not get a load by accident.
fn check_servers(converted: &Conversion) -> anyhow::Result<()> {
    let servers = converted.servers();
    if servers.len() < 2 || !converted.is_recording {
        return Ok(());
    }
    let names: Vec<String> = servers.into_iter().collect();
    bail!(
        "the requests go to several servers: {} (choose one with --host)",
        names.join(", ")
    );
}

/// In a file of requests, names of files are relative to its folder.
fn with_absolute_paths(mut converted: Conversion) -> Conversion {
    for request in &mut converted.requests {
        if let Some(Body::File(path)) = &mut request.body
            && let Ok(absolute) = std::path::absolute(&path)
        {
            *path = absolute;
        }
    }
    converted
}

/// Makes the run of several requests, with the real secrets. The run reads them like a file; they
/// are in memory, so that no secret is written.
fn run_several(
    converted: &Conversion,
    load: &[String],
    source: &RequestSource,
    keep_secrets: bool,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let name = match source {
        RequestSource::Har { file } => file.to_string_lossy().into_owned(),
        _ => name_of_commands(converted),
    };
    let file = InMemory::new(&requests_file::text(&converted.requests), name)?;
    let words = |path: &str, converted: &Conversion| {
        let mut words = vec!["--requests".to_owned(), path.to_owned()];
        words.extend(load.iter().cloned());
        words.extend(keep_secrets.then(|| "--keep-secrets".to_owned()));
        words.extend(converted.connection_options());
        words
    };
    let shown = if keep_secrets {
        words(&file.name, converted)
    } else {
        words(&file.name, &converted.without_secrets().0)
    };
    let program_name = std::iter::once("wrkbench".to_owned());
    let command_line = program_name.chain(shown).collect();
    let mut request = run_of(&words(&file.path(), converted))
        .map_err(anyhow::Error::from)
        .map_err(|error| file.named(error))?;
    request.command_line = Some(command_line);
    request.shown_file = Some(file.name.clone().into());
    run::run(request, console).map_err(|error| file.named(error))
}

/// What a result names in place of a file. Secrets are not part of it, since a short one could be
/// guessed from it.
fn name_of_commands(converted: &Conversion) -> String {
    let text = requests_file::text(&converted.without_secrets().0.requests);
    name_of("curl", &[text.as_bytes()])
}

/// The run of the only request, with the real secrets.
fn run_request(
    converted: &Conversion,
    load: &[String],
    keep_secrets: bool,
) -> anyhow::Result<RunRequest> {
    let words = |converted: &Conversion| {
        let mut words = load.to_vec();
        words.extend(keep_secrets.then(|| "--keep-secrets".to_owned()));
        let options = converted.options().map_err(|error| anyhow!(error))?;
        words.extend(options);
        Ok::<_, anyhow::Error>(words)
    };
    // A body need not be text for this.
    let mut without_body = converted.clone();
    let body = match without_body.requests.as_mut_slice() {
        [only] => only.body.take(),
        _ => None,
    };
    let mut request = run_of(&words(&without_body)?)?;
    request.plan.request.body = body;
    let check = request.plan.check();
    check.map_err(|error| Refusal::of_plan(&error))?;
    let shown = if keep_secrets {
        converted.clone()
    } else {
        converted.without_secrets().0
    };
    // A body that is not text cannot be shown: the command is shown without it.
    let options = words(&shown).or_else(|_| words(&without_body.without_secrets().0))?;
    let program = std::iter::once("wrkbench".to_owned());
    request.command_line = Some(program.chain(options).collect());
    Ok(request)
}
