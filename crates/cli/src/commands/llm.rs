//! `wrkbench llm`: makes the requests of prompts, then prints them or makes the run.

mod lengths;
pub(super) mod model;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use convert::Variables;
use convert::llm::{self, Bodies, Made, Synthetic, conversations};
use plan::readable::{count, counted};
use plan::units;

use super::convert::tell_secrets;
use super::in_memory::{InMemory, name_of};
use super::{print, run};
use crate::args::{ConversationSource, ConversationTexts, LlmRequest, PromptSource};
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
        mut prompts,
        counts_tokens,
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
    if let Some(synthetic) = prompts.synthetic_mut()
        && counts_tokens
    {
        tell_note(lengths::count_in_tokens(
            synthetic, &bodies, &request, console,
        )?);
    }
    let seed = request.plan.random_seed().unwrap_or_default();
    let is_random = is_random(&prompts) || bodies.output_tokens.is_some();
    let what = prompts.what();
    let mut secrets = (prints && !keep_secrets).then(Variables::default);
    let wanted = WantedRequests {
        prompts,
        bodies: &bodies,
        headers: &request.plan.request.headers,
        seed,
        load: &load,
    };
    let MadeRequests { made, name } = make(wanted, secrets.as_mut(), &tell_note)?;
    let with_seed = if is_random {
        format!(", with --seed {seed}")
    } else {
        String::new()
    };
    let about = format!("{}{with_seed}", about(&made, what));
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

/// Whether the seed decides what is sent.
fn is_random(prompts: &PromptSource) -> bool {
    match prompts {
        PromptSource::Synthetic(_) => true,
        PromptSource::File { .. } => false,
        PromptSource::Conversations(source) => !source.manner.starts_cold,
    }
}

/// Requests that are to be made.
pub(super) struct WantedRequests<'a> {
    pub(super) prompts: PromptSource,
    pub(super) bodies: &'a Bodies,
    pub(super) headers: &'a [(String, String)],
    pub(super) seed: u64,
    /// The same for equal loads.
    pub(super) load: &'a str,
}

/// Requests, and what a result names in place of their file.
pub(super) struct MadeRequests {
    pub(super) made: Made,
    name: String,
}

/// Makes requests of prompts or of conversations, from a file or made up. Tells which objects of
/// the file have none.
pub(super) fn make(
    wanted: WantedRequests<'_>,
    secrets: Option<&mut Variables>,
    tell_note: &dyn Fn(String),
) -> anyhow::Result<MadeRequests> {
    let WantedRequests {
        prompts,
        bodies,
        headers,
        seed,
        load,
    } = wanted;
    let model = bodies.model.as_bytes();
    let name = |content: &[u8]| name_of("llm", &[load.as_bytes(), model, content]);
    let takes_messages = bodies.endpoint.takes_messages();
    let (made, name) = match prompts {
        PromptSource::Synthetic(synthetic) => {
            let prompts = llm::synthetic(&synthetic, seed);
            let made = llm::requests_file(bodies, prompts, headers, seed, secrets);
            (made, name_of("llm", &[load.as_bytes(), model]))
        }
        PromptSource::File { path, max } => {
            let TextOfFile { text, shown } = TextOfFile::read("--prompts", &path)?;
            // Only the prompts are kept: a large collection is mostly answers.
            let read = llm::read_prompts(&text, max, takes_messages)
                .map_err(|error| anyhow!("--prompts: {shown}:{error}"))?;
            tell_skipped(
                (read.skipped, read.first_skipped_line),
                &shown,
                "prompt",
                tell_note,
            );
            let made = llm::requests_file(bodies, read.prompts, headers, seed, secrets);
            (made, name(text.as_bytes()))
        }
        PromptSource::Conversations(source) => {
            let ConversationSource { texts, manner } = *source;
            match texts {
                ConversationTexts::Synthetic(first, turns) => {
                    let all = conversations::synthetic(&first, turns, seed);
                    let made = conversations::lines(bodies, &manner, all, headers, seed);
                    (made, name(b""))
                }
                ConversationTexts::File { path, max } => {
                    const OPTION: &str = "--conversations";
                    let TextOfFile { text, shown } = TextOfFile::read(OPTION, &path)?;
                    let max = usize::try_from(max).unwrap_or(usize::MAX);
                    let read = conversations::read(&text, max)
                        .map_err(|error| anyhow!("{OPTION}: {shown}:{error}"))?;
                    let skipped = (read.skipped, read.first_skipped_line);
                    tell_skipped(skipped, &shown, "turn", tell_note);
                    let all = read.conversations;
                    let made = conversations::lines(bodies, &manner, all, headers, seed);
                    (made, name(text.as_bytes()))
                }
            }
        }
    };
    let made = made.map_err(|error| anyhow!(error))?;
    Ok(MadeRequests { made, name })
}

/// The text of a file, and how it is called in messages.
struct TextOfFile {
    text: String,
    shown: String,
}

impl TextOfFile {
    fn read(option: &str, path: &Path) -> anyhow::Result<Self> {
        let path = files::named(path);
        let shown = if path == Path::new(files::STDIN) {
            "stdin".to_owned()
        } else {
            path.display().to_string()
        };
        let text = files::read_unpacked(path, MAX_PROMPTS_BYTES).and_then(files::text);
        let text = text.with_context(|| format!("{option}: cannot read {shown}"))?;
        Ok(Self { text, shown })
    }
}

fn tell_skipped(
    (skipped, first_line): (u64, Option<usize>),
    shown: &str,
    what: &str,
    tell_note: &dyn Fn(String),
) {
    if let Some(line) = first_line {
        let left_out = counted(skipped, "object");
        tell_note(format!(
            "left out: {left_out} of {shown} without a {what}; the first is in line {line}"
        ));
    }
}

impl PromptSource {
    /// Random prompts, or the first messages of random conversations.
    fn synthetic_mut(&mut self) -> Option<&mut Synthetic> {
        match self {
            Self::Synthetic(synthetic) => Some(synthetic),
            Self::Conversations(source) => match &mut source.texts {
                ConversationTexts::Synthetic(first, _) => Some(first),
                ConversationTexts::File { .. } => None,
            },
            Self::File { .. } => None,
        }
    }

    /// What there are many of.
    pub(super) fn what(&self) -> &'static str {
        match self {
            Self::Conversations(_) => "conversation",
            Self::File { .. } | Self::Synthetic(_) => "prompt",
        }
    }
}

/// How many prompts or conversations there are, and how long they are.
pub(super) fn about(made: &Made, what: &str) -> String {
    let prompts = counted(made.prompts, what);
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
