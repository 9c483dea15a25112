//! `wrkbench llm --search`: makes the requests of prompts, then the search whose runs send them.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use experiment::{Draft, Spec};
use jiff::Timestamp;
use plan::parse_headers;

use super::llm::{MadeRequests, WantedRequests, about, make, model};
use super::sweep;
use crate::args::{ExperimentSource, LlmSearchRequest, run_of_plan};
use crate::console::Console;

/// The requests, in the results folder: a search that is resumed sends the same ones.
const FILE: &str = "requests.jsonl";

/// The name of the folder of a search.
const NAME: &str = "search";

/// The prompts may be confidential.
const MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Makes the requests and the search. A folder of a search that made no run is removed.
///
/// # Errors
/// When the server has no model, there are no prompts, the requests cannot be made or written, or
/// the search fails.
pub(super) fn llm_search(
    mut request: LlmSearchRequest,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let folder = results_folder(&request)?;
    let file = folder.join(FILE);
    let is_resumed = request.campaign.arguments.resume;
    let is_new = !file.exists();
    if is_resumed && is_new {
        return Err(anyhow!(
            "--resume: there is no {FILE} in {} (start without --resume)",
            folder.display()
        ));
    }
    let path = file.to_str();
    let path = path.with_context(|| format!("{}: is not UTF-8", file.display()))?;
    request.set_file(path);
    if !is_resumed {
        if !is_new {
            return Err(anyhow!(
                "{}: there already (continue that search with --resume, or choose another folder)",
                file.display()
            ));
        }
        if request.asks_model {
            ask_model(&mut request, console)?;
        }
        write_requests(&request, &file, console)?;
    }
    request.campaign.arguments.results = Some(folder.clone());
    let ended = sweep::sweep(&request.campaign, console);
    if is_new && !folder.join("trials").exists() {
        let _ = fs::remove_file(&file);
        let _ = fs::remove_dir(&folder);
    }
    ended
}

/// Where the results go: an absolute path.
fn results_folder(request: &LlmSearchRequest) -> anyhow::Result<PathBuf> {
    let given = request.campaign.arguments.results.clone();
    let folder = given.unwrap_or_else(|| {
        let started = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        experiment::free_folder(&experiment::default_folder(NAME, &started))
    });
    std::path::absolute(&folder).with_context(|| format!("{}: has no path", folder.display()))
}

/// Asks the server for its model, by the way of the runs.
fn ask_model(request: &mut LlmSearchRequest, console: &Console) -> anyhow::Result<()> {
    let ExperimentSource::Draft(draft) = &request.campaign.source else {
        return Ok(());
    };
    let spec = spec(draft)?;
    let url = spec.targets.first().map_or("", |target| &target.url);
    let run = run_of_plan(&spec.load, url)?;
    let asked = model::ask(&request.bodies.endpoint, &run, console)?;
    if !request.campaign.arguments.quiet {
        console.tell(format_args!("note: {}", asked.note));
    }
    request.bodies.model = asked.model;
    Ok(())
}

/// The search as it will be read.
fn spec(draft: &Draft) -> anyhow::Result<Spec> {
    let folder = std::env::current_dir().context("cannot find the current folder")?;
    Ok(Spec::of_draft(draft, &folder)?)
}

/// Makes the requests and writes them into a new file in the results folder.
fn write_requests(
    request: &LlmSearchRequest,
    file: &Path,
    console: &Console,
) -> anyhow::Result<()> {
    let (arguments, bodies) = (&request.campaign.arguments, &request.bodies);
    let tell_note = |note: String| {
        if !arguments.quiet {
            console.tell(format_args!("note: {note}"));
        }
    };
    let seed = arguments.seed.unwrap_or(SEED);
    let wanted = WantedRequests {
        prompts: request.prompts.clone(),
        bodies,
        headers: &parse_headers(&request.headers.join("\n"))?,
        seed,
        load: &request.load,
    };
    let MadeRequests { made, .. } = make(wanted, None, &tell_note)?;
    tell_note(format!(
        "{}, in {}",
        about(&made, request.prompts.what()),
        file.display()
    ));
    let written = file.parent().map_or(Ok(()), |folder| {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(MODE)
            .create(folder)
    });
    written
        .and_then(|()| {
            let mut options = fs::OpenOptions::new();
            options.write(true).create_new(true).mode(FILE_MODE);
            options.open(file)?.write_all(made.text.as_bytes())
        })
        .with_context(|| format!("{}: cannot be written", file.display()))
}

/// The seed of prompts if none is given: searches of two servers send the same.
const SEED: u64 = 1;
