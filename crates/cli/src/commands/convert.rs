//! `wrkbench curl` and `wrkbench har`: requests from what people have.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write as _};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use convert::{Conversion, curl, har, requests_file};
use plan::{Body, shell};
use rustix::fs::{MemfdFlags, memfd_create};

use super::result_file::{self, Readers};
use super::{print, run, tell};
use crate::args::{ConvertRequest, Destination, Refusal, RequestSource, RunRequest, run_of};

/// Larger files of a curl command would not fit into a request, and larger HAR files not into
/// memory a few times.
const MAX_FILE_BYTES: u64 = 2 << 30;

/// Converts, then prints, writes or runs the requests.
///
/// # Errors
/// When the source cannot be read or converted, the file cannot be written, or the run fails.
pub(super) fn convert(request: ConvertRequest, program: &str) -> anyhow::Result<ExitCode> {
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
        tell(program, format_args!("note: {note}"));
    }
    check_servers(&converted)?;
    if destination == Destination::Run {
        return match converted.requests.len() {
            1 => run::run(run_request(&converted, &load, keep_secrets)?, program),
            _ => {
                let converted = with_absolute_paths(converted);
                run_several(&converted, &load, &source, keep_secrets, program)
            }
        };
    }
    let is_file = matches!(destination, Destination::File(_)) || converted.requests.len() > 1;
    let converted = match is_file {
        true => with_absolute_paths(converted),
        false => converted,
    };
    let (shown, has_secrets) = match keep_secrets {
        true => (converted, false),
        false => converted.without_secrets(),
    };
    if has_secrets {
        tell(
            program,
            "note: passwords, tokens and cookies are replaced by ***; --keep-secrets keeps them",
        );
    }
    let lines = || requests_file::text(&shown.requests);
    match destination {
        Destination::File(path) => {
            let readers = Readers::of(keep_secrets);
            result_file::write("--output", &path, readers, |output| {
                output.write_all(lines().as_bytes())
            })?;
            tell_command(&shown, &load, Some(&path), program);
            Ok(ExitCode::SUCCESS)
        }
        _ if shown.requests.len() > 1 => {
            tell_command(&shown, &load, None, program);
            print(lines().as_bytes())
        }
        _ => {
            let mut words = vec![program.to_owned()];
            words.extend(load);
            words.extend(shown.options().map_err(|error| anyhow!(error))?);
            print((shell::command(&words) + "\n").as_bytes())
        }
    }
}

fn read(source: &RequestSource, host: Option<&str>) -> anyhow::Result<Conversion> {
    let file = |path: &Path| -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = fs::File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("is not a regular file"));
        }
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let stdin = || {
        let mut text = String::new();
        let read = io::stdin().lock().take(MAX_FILE_BYTES);
        read.chain(io::empty())
            .read_to_string(&mut text)
            .map(|_| text)
    };
    Ok(match source {
        RequestSource::CurlText(text) => curl::from_text(text, &file)?,
        RequestSource::CurlStdin => curl::from_text(
            &stdin().context("cannot read the curl command from stdin")?,
            &file,
        )?,
        RequestSource::CurlArguments(words) => curl::from_arguments(words, &file)?,
        RequestSource::Har { file } => {
            let shown = file.display();
            let text = match file.as_os_str() == "-" {
                true => stdin(),
                false => fs::read_to_string(file),
            };
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

/// The command that sends the requests in a file.
fn tell_command(converted: &Conversion, load: &[String], file: Option<&Path>, program: &str) {
    let file = file.map_or_else(|| "FILE".into(), Path::to_string_lossy);
    let mut words = vec![
        program.to_owned(),
        "--requests".to_owned(),
        file.into_owned(),
    ];
    words.extend(load.iter().cloned());
    words.extend(converted.connection_options());
    let command = shell::command(&words);
    tell(program, format_args!("note: send them with: {command}"));
}

/// Makes the run of several requests, with the real secrets. The run reads them like a file; they
/// are in memory, so that no secret is written.
fn run_several(
    converted: &Conversion,
    load: &[String],
    source: &RequestSource,
    keep_secrets: bool,
    program: &str,
) -> anyhow::Result<ExitCode> {
    let text = requests_file::text(&converted.requests);
    let mut file = memory_file().context("cannot keep the requests in memory")?;
    file.write_all(text.as_bytes())
        .context("cannot keep the requests in memory")?;
    let words = |path: &str| {
        let mut words = vec!["--requests".to_owned(), path.to_owned()];
        words.extend(load.iter().cloned());
        words.extend(keep_secrets.then(|| "--keep-secrets".to_owned()));
        words.extend(converted.connection_options());
        words
    };
    let mut request = run_of(&words(&format!("/proc/self/fd/{}", file.as_raw_fd())))?;
    let name = match source {
        RequestSource::Har { file } => file.clone(),
        _ => {
            // Different requests are different loads, which must not be averaged.
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            format!("curl-{:016x}", hasher.finish()).into()
        }
    };
    let program_name = std::iter::once("wrkbench".to_owned());
    let shown = words(&name.to_string_lossy());
    request.command_line = Some(program_name.chain(shown).collect());
    request.shown_file = Some(name);
    run::run(request, program)
}

/// A file that has no name and ends with the program.
fn memory_file() -> io::Result<fs::File> {
    let file = memfd_create("wrkbench-requests", MemfdFlags::CLOEXEC)?;
    Ok(file.into())
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
    let shown = match keep_secrets {
        true => converted.clone(),
        false => converted.without_secrets().0,
    };
    // A body that is not text cannot be shown: the command is shown without it.
    let options = words(&shown).or_else(|_| words(&without_body.without_secrets().0))?;
    let program = std::iter::once("wrkbench".to_owned());
    request.command_line = Some(program.chain(options).collect());
    Ok(request)
}
