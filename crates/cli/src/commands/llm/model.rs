//! Asks a server which model it has.

use std::time::Duration;

use anyhow::{anyhow, bail};
use convert::llm::{self, Endpoint};
use plan::secrets::hide_secrets;
use plan::{RunPlan, brief};
use results::exchange::{Exchange, ReceivedResponse};

use super::super::in_memory::InMemory;
use super::super::run::invocation;
use crate::args::RunRequest;
use crate::console::Console;

/// How long each step of the question may take: the list is short, and people wait for it.
const LIMIT: Duration = Duration::from_secs(10);

/// The most names in a message: some servers have hundreds.
const NAMES_MAX: usize = 10;

/// The model of a server.
pub(in crate::commands) struct AskedModel {
    pub(in crate::commands) model: String,
    /// Where the name is from.
    pub(in crate::commands) note: String,
}

/// Asks the server of a run, with the headers and by the way of the run.
///
/// # Errors
/// If there is no answer, or if it does not name exactly one model.
pub(in crate::commands) fn ask(
    endpoint: &Endpoint,
    request: &RunRequest,
    console: &Console,
) -> anyhow::Result<AskedModel> {
    let shown = shown_url(endpoint, &request.plan);
    let exchange = exchange(endpoint, request, &shown, console)?;
    let Some(response) = exchange.response else {
        let why = exchange.error.unwrap_or_else(|| "no response".to_owned());
        bail!("no model is named, and {shown} does not answer: {why}");
    };
    let has_key = has_key(&request.plan);
    let names = listed(&response, &shown, has_key)?;
    let model = chosen(names, &shown)?;
    let note = format!("the model is {}, the only one of {shown}", brief(&model));
    Ok(AskedModel { model, note })
}

/// Requests the list of models.
fn exchange(
    endpoint: &Endpoint,
    request: &RunRequest,
    shown: &str,
    console: &Console,
) -> anyhow::Result<Exchange> {
    let mut plan = request.plan.clone();
    plan.events = None;
    plan.timeout = plan.timeout.min(LIMIT);
    let file = InMemory::new(&llm::models_request(endpoint), format!("GET {shown}"))?;
    if let Some(named) = &mut plan.request.file {
        named.path = file.path().into();
    }
    runner::once(plan, &invocation(request.report.keep_secrets, console))
        .map_err(|error| file.named(error.into()))
}

/// The URL of the list, for people.
fn shown_url(endpoint: &Endpoint, plan: &RunPlan) -> String {
    let (scheme, host) = (plan.target.scheme.name(), &plan.target.host_header);
    hide_secrets(&format!("{scheme}://{host}{}", endpoint.models_path()))
}

/// Whether requests have a key.
fn has_key(plan: &RunPlan) -> bool {
    let names = ["authorization", "x-api-key"];
    let mut headers = plan.request.headers.iter();
    headers.any(|(name, _)| names.iter().any(|it| name.eq_ignore_ascii_case(it)))
}

/// The names in a list of models.
fn listed(response: &ReceivedResponse, shown: &str, has_key: bool) -> anyhow::Result<Vec<String>> {
    let status = response.status;
    let is_success = (200..300).contains(&status);
    if let Some(names) = llm::read_models(&response.body).filter(|_| is_success) {
        return Ok(names);
    }
    let words = results::server_words(&response.body);
    let words = words.map_or_else(|| "an empty body".to_owned(), |words| format!("{words:?}"));
    Err(match status {
        401 | 403 if has_key => anyhow!(
            "no model is named, and {shown} answers with status {status}: {words} (is the key \
             right? --model NAME names the model)"
        ),
        401 | 403 => anyhow!(
            "no model is named, and {shown} answers with status {status}: {words} (--api-key KEY \
             is for servers that want a key)"
        ),
        200..300 => anyhow!(
            "no model is named, and {shown} answers without a list of models: {words} (--model \
             NAME names the model)"
        ),
        _ => anyhow!(
            "no model is named, and {shown} answers with status {status}: {words} (--model NAME \
             names the model)"
        ),
    })
}

/// The only name.
fn chosen(mut names: Vec<String>, shown: &str) -> anyhow::Result<String> {
    names.dedup();
    match (names.pop(), names.len()) {
        (None, _) => bail!("no model is named, and {shown} lists none (--model NAME names it)"),
        (Some(only), 0) => Ok(only),
        (Some(last), others) => {
            names.push(last);
            let first: Vec<&str> = names.iter().take(NAMES_MAX).map(String::as_str).collect();
            let rest = if names.len() > NAMES_MAX { ", ..." } else { "" };
            bail!(
                "no model is named, and the server has {}: {}{rest} (--model NAME chooses one)",
                others + 1,
                first.join(", ")
            )
        }
    }
}
