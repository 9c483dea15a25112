//! `wrkbench llm`: makes the requests of prompts, then prints them or makes the run.

mod model;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use convert::Variables;
use convert::llm::{self, Bodies, Made, Prompt};
use plan::readable::{count, counted};
use plan::units;

use super::convert::tell_secrets;
use super::in_memory::{InMemory, name_of};
use super::{print, run};
use crate::args::{LlmRequest, PromptSource};
use crate::console::Console;

/// The largest file of prompts: ShareGPT's largest collection has 0.7 GB.
const MAX_PROMPTS_BYTES: u64 = 1 << 30;

/// Prints the requests, or makes the run.
///
/// # Errors
/// When there are no prompts, when the requests cannot be made, or when the run fails.
pub(super) fn llm(request: LlmRequest, console: &Console) -> anyhow::Result<ExitCode> {
    let LlmRequest {
        run: mut request,
        mut bodies,
        asks_model,
        prompts,
        prints,
        load,
    } = request;
    let (quiet, keep_secrets) = (request.report.quiet, request.report.keep_secrets);
    let tell_note = |note: String| {
        if !quiet {
            console.tell(format_args!("note: {note}"));
        }
    };
    if std::mem::take(&mut request.draws_seed) {
        run::draw_seed(&mut request.plan);
    }
    if asks_model {
        let asked = model::ask(&bodies.endpoint, &request, console)?;
        tell_note(asked.note);
        bodies.model = asked.model;
    }
    let seed = request.plan.random_seed().unwrap_or_default();
    let is_random = matches!(prompts, PromptSource::Synthetic(_)) || bodies.output_tokens.is_some();
    let ReadPrompts { prompts, name } = read(prompts, &bodies, seed, &load, &tell_note)?;
    let mut secrets = (prints && !keep_secrets).then(Variables::default);
    let headers = &request.plan.request.headers;
    let made = llm::requests_file(&bodies, prompts, headers, seed, secrets.as_mut())
        .map_err(|error| anyhow!(error))?;
    let with_seed = if is_random {
        format!(", with --seed {seed}")
    } else {
        String::new()
    };
    let about = format!("{}{with_seed}", about(&made));
    if prints {
        tell_note(about);
        if let Some(secrets) = secrets.filter(|_| !quiet) {
            tell_secrets(&secrets, true, console);
        }
        let timeout = units::time(request.plan.timeout);
        tell_note(format!(
            "send them with: {} --requests FILE --events llm --timeout {timeout} URL",
            console.program
        ));
        return print(made.text.as_bytes(), console);
    }
    tell_note(format!("{about}; --print shows the requests"));
    let file = InMemory::new(&made.text, name)?;
    drop(made);
    if let Some(named) = &mut request.plan.request.file {
        named.path = file.path().into();
    }
    request.shown_file = Some(Path::new(&file.name).to_owned());
    run::run(request, console).map_err(|error| file.named(error))
}

/// Prompts from a file, or made up.
pub(super) struct ReadPrompts {
    pub(super) prompts: Box<dyn Iterator<Item = Prompt>>,
    /// What a result names in place of a file of requests.
    name: String,
}

/// Reads the prompts of a file, and tells which objects there have none; or makes them up.
pub(super) fn read(
    source: PromptSource,
    bodies: &Bodies,
    seed: u64,
    load: &str,
    tell_note: &dyn Fn(String),
) -> anyhow::Result<ReadPrompts> {
    let (path, max) = match source {
        PromptSource::File { path, max } => (path, max),
        PromptSource::Synthetic(synthetic) => {
            return Ok(ReadPrompts {
                prompts: Box::new(llm::synthetic(&synthetic, seed)),
                name: name_of("llm", &[load.as_bytes(), bodies.model.as_bytes()]),
            });
        }
    };
    let shown = if files::named(&path) == Path::new(files::STDIN) {
        "stdin".to_owned()
    } else {
        path.display().to_string()
    };
    let text = files::read_unpacked(files::named(&path), MAX_PROMPTS_BYTES);
    let text = text.and_then(files::text);
    let text = text.with_context(|| format!("--prompts: cannot read {shown}"))?;
    let parts = [load, &bodies.model, &text].map(str::as_bytes);
    let name = name_of("llm", &parts);
    // Only the prompts are kept: a large collection is mostly answers.
    let read = llm::read_prompts(&text, max, bodies.endpoint.takes_messages())
        .map_err(|error| anyhow!("--prompts: {shown}:{error}"))?;
    if let Some(line) = read.first_skipped_line {
        let left_out = counted(read.skipped, "object");
        tell_note(format!(
            "left out: {left_out} of {shown} without a prompt; the first is in line {line}"
        ));
    }
    let prompts = Box::new(read.prompts.into_iter());
    Ok(ReadPrompts { prompts, name })
}

/// How many prompts there are, and how long they are.
pub(super) fn about(made: &Made) -> String {
    let prompts = counted(made.prompts, "prompt");
    let (min, max) = (made.words_min, made.words_max);
    if min == max {
        return format!("{prompts} of {} (not tokens)", counted(max, "word"));
    }
    let mean = (made.words as f64 / made.prompts.max(1) as f64).round() as u64;
    format!(
        "{prompts} of {} to {} (not tokens), {} on average",
        count(min),
        counted(max, "word"),
        count(mean)
    )
}
