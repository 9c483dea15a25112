//! Asks a server how many tokens it makes of the words of a prompt.

use std::time::Duration;

use anyhow::{anyhow, bail};
use convert::llm::{self, Bodies, Synthetic, Tokenizer};
use plan::Dialect;
use plan::distribution::Count;
use plan::readable::{counted, decimal};
use plan::secrets::hide_in_url;

use super::super::in_memory::InMemory;
use super::super::run::invocation;
use crate::args::RunRequest;
use crate::console::Console;

/// The words of the two prompts: their difference is long enough that a word more or less does not
/// matter, and short enough for each model's context.
const WORDS: [u64; 2] = [16, 256];

/// How long each step of an exchange may take: a model that was not used may have to be loaded.
const LIMIT: Duration = Duration::from_secs(60);

/// Changes the seed, so that the prompts are not the beginning of those of the run.
const STREAM: u64 = 0x6c62_272e_07bb_0142;

/// Makes the prompts of a run as long as asked, in tokens. Returns how many words these are, for
/// people.
///
/// # Errors
/// If the server does not answer, or does not count the tokens of prompts.
pub(super) fn count_in_tokens(
    synthetic: &mut Synthetic,
    bodies: &Bodies,
    request: &RunRequest,
    console: &Console,
) -> anyhow::Result<String> {
    let [short, long] = WORDS.map(|words| tokens_of(words, bodies, request, console));
    let counts = ((WORDS[0], short?), (WORDS[1], long?));
    let tokenizer = Tokenizer::between(counts.0, counts.1);
    let tokenizer = tokenizer.ok_or_else(|| {
        let ((_, short), (_, long)) = counts;
        anyhow!(
            "--prompt-tokens: the server counts {short} tokens in a prompt of {} words, and {long} \
             in one of {} (--prompt-words N makes prompts of N words)",
            WORDS[0],
            WORDS[1]
        )
    })?;
    synthetic.tokenizer = Some(tokenizer);
    Ok(format!(
        "the server counts {} tokens per word, and {} more per prompt",
        decimal(tokenizer.per_word, 2),
        decimal(tokenizer.template, 0)
    ))
}

/// The tokens that the server counts in a prompt of so many words.
fn tokens_of(
    words: u64,
    bodies: &Bodies,
    request: &RunRequest,
    console: &Console,
) -> anyhow::Result<u64> {
    let shown = hide_in_url(&request.plan.target.url);
    let dialect = bodies.endpoint.dialect;
    let bodies = Bodies {
        // OpenAI refuses fewer than 16 with this format.
        output_tokens: Some(Count::fixed(if dialect == Dialect::Responses {
            16
        } else {
            1
        })),
        ignore_eos: false,
        ..bodies.clone()
    };
    let seed = request.plan.random_seed().unwrap_or_default() ^ STREAM;
    let prompts = llm::synthetic(&Synthetic::of_words(words), seed);
    let headers = &request.plan.request.headers;
    let made = llm::requests_file(&bodies, prompts, headers, seed, None)
        .map_err(|error| anyhow!(error))?;
    let mut plan = request.plan.clone();
    plan.events = None;
    plan.timeout = plan.timeout.min(LIMIT);
    let file = InMemory::new(
        &made.text,
        format!("a prompt of {}", counted(words, "word")),
    )?;
    if let Some(named) = &mut plan.request.file {
        named.path = file.path().into();
    }
    let exchange = runner::once(plan, &invocation(request.report.keep_secrets, console))
        .map_err(|error| file.named(error.into()))?;
    let Some(response) = exchange.response else {
        let why = exchange.error.unwrap_or_else(|| "no response".to_owned());
        bail!("--prompt-tokens: {shown} does not answer: {why}");
    };
    if !(200..300).contains(&response.status) {
        let error = results::FirstError::of(response.status, &response.body);
        let advice = runner::refusal_advice(response.status, &request.plan).unwrap_or_default();
        bail!("--prompt-tokens: {shown} answers a prompt with {error}{advice}");
    }
    runner::prompt_tokens(&response.body, dialect).ok_or_else(|| {
        anyhow!(
            "--prompt-tokens: {shown} does not say how many tokens a prompt has (usage): \
             --prompt-words N makes prompts of N words"
        )
    })
}
