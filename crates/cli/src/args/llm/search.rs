//! Arguments of `wrkbench llm --search`: prompts, and those of a search for the number of users.

use std::ffi::OsString;

use clap::{Args, FromArgMatches as _};
use convert::llm::Bodies;
use experiment::{Keys, OptionValue};

use super::super::campaign::{CampaignRequest, ExperimentSource};
use super::super::search::SearchArgs;
use super::super::{
    Dialect as Command, help_or_refusal, match_arguments, url, with_common_settings,
};
use super::{
    OTHER_LOADS, PromptArgs, PromptSource, Refusal, Request, TIMEOUT, dialect_of, refuse_other_load,
};

const NAME: &str = "llm";
const OPTION: &str = "--search";

/// A search whose requests are made from prompts.
#[derive(Debug)]
pub(crate) struct LlmSearchRequest {
    /// Its runs send a file of requests, which is made in the results folder.
    pub(crate) campaign: CampaignRequest,
    /// Without a name of the model if the server is to be asked.
    pub(crate) bodies: Bodies,
    /// The model is the one that the server has.
    pub(crate) asks_model: bool,
    pub(crate) prompts: PromptSource,
    /// The headers of the runs, as typed.
    pub(crate) headers: Vec<String>,
    /// The same for equal loads, whatever the seed and the content of a file.
    pub(crate) load: String,
}

#[derive(Debug, Clone, Args)]
struct LlmSearchArgs {
    #[command(flatten)]
    prompts: PromptArgs,
    #[command(flatten)]
    search: SearchArgs,
}

/// Whether these arguments are of `wrkbench llm --search`.
pub(in crate::args) fn is_search(arguments: &[OsString]) -> bool {
    let is_option = |argument: &OsString| {
        let text = argument.to_string_lossy();
        text == OPTION || text.split_once('=').is_some_and(|(name, _)| name == OPTION)
    };
    let own = arguments.iter().take_while(|argument| *argument != "--");
    arguments.first().is_some_and(|name| name == NAME) && own.skip(1).any(is_option)
}

fn declaration() -> clap::Command {
    let own = LlmSearchArgs::augment_args(clap::Command::new(NAME))
        .disable_version_flag(true)
        .about("Find how many users a language model's server serves within limits")
        .override_usage("wrkbench llm [OPTIONS] --search <CONDITION> <URL>")
        .mut_arg("slo", |slo| slo.required(false).hide(true))
        .mut_arg("over", |over| over.default_value("connections"))
        .mut_arg("print", |print| print.hide(true))
        .mut_arg("prompt_tokens", |tokens| tokens.hide(true))
        .mut_arg("events", |events| events.hide(true));
    let hidden = OTHER_LOADS.iter().fold(own, |command, other| {
        let has = command.get_arguments().any(|it| it.get_id() == *other);
        if has {
            command.mut_arg(other, |it| it.hide(true))
        } else {
            command
        }
    });
    with_common_settings(clap::Command::new("wrkbench").subcommand(hidden))
}

/// Parses the arguments, which begin with the name of the command.
///
/// # Errors
/// The same one-line messages as for a search, and if the format of the requests is not known.
pub(in crate::args) fn parse_search(arguments: Vec<OsString>) -> Result<Request, Refusal> {
    let text = |argument: &OsString| argument.to_string_lossy().into_owned();
    let typed: Vec<String> = arguments.iter().map(text).collect();
    let matches = match match_arguments(declaration(), Command::Native, arguments) {
        Ok(matches) => matches,
        Err(error) => return help_or_refusal(&error, &typed),
    };
    let Some((_, own)) = matches.subcommand() else {
        return Err(Refusal(format!("{OPTION}: needs wrkbench {NAME}")));
    };
    let arguments = LlmSearchArgs::from_arg_matches(own)
        .map_err(|error| Refusal::of_clap(&error, &declaration()))?;
    let request = arguments.into_request(typed)?;
    Ok(Request::LlmSearch(Box::new(request)))
}

impl LlmSearchArgs {
    /// Refuses options of prompts that do not go with a search.
    fn check(&self) -> Result<(), Refusal> {
        let Self { prompts, search } = self;
        if prompts.print {
            return Err(Refusal(format!("--print: cannot be used with {OPTION}")));
        }
        if prompts.prompt_tokens.is_some() {
            return Err(Refusal(format!(
                "--prompt-tokens: cannot be used with {OPTION} (a run with it says how many \
                 --prompt-words these are)"
            )));
        }
        if prompts.model.is_none() && search.starts_server() {
            return Err(Refusal(
                "no model (--model NAME): the server is asked for it before --setup or --before \
                 starts it"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn into_request(self, typed: Vec<String>) -> Result<LlmSearchRequest, Refusal> {
        self.check()?;
        let Self { prompts, search } = self;
        let option = |wanted: &str| {
            let mut options = search.load().iter();
            options
                .find(|(name, _)| *name == wanted)
                .map(|it| it.1.clone())
        };
        let is_given = |other: &&&str| option(other).is_some();
        if let Some(other) = OTHER_LOADS
            .iter()
            .chain(&["requests", "events"])
            .find(is_given)
        {
            return Err(refuse_other_load(other));
        }
        let mut headers = match option("header") {
            Some(OptionValue::List(headers)) => headers,
            _ => Vec::new(),
        };
        let has_timeout = option("timeout").is_some();
        let named = match option("events-dialect") {
            Some(OptionValue::Text(name)) => dialect_of(&name),
            _ => None,
        };
        let endpoint = prompts.endpoint(&url::parse(search.url())?.target, named)?;
        let key = prompts.api_key.as_ref().map(|key| endpoint.key_header(key));
        if let Some((name, value)) = &key {
            if option("user").is_some() || has_header(&headers, name) {
                return Err(Refusal(format!(
                    "--api-key: cannot be used together with --user or -H {name:?}"
                )));
            }
            headers.push(format!("{name}: {value}"));
        }
        let has_key = key.is_some();
        let load = prompts.load(&endpoint);
        let search = search.with_conditions(prompts.search.clone());
        let mut campaign = search.into_request(typed)?;
        campaign.stops_if_denied = true;
        if let ExperimentSource::Draft(draft) = &mut campaign.source {
            let own = std::mem::take(&mut draft.load);
            draft.load = own
                .with("events", plan::EventsFormat::Llm.name())
                .with_some("timeout", (!has_timeout).then_some(TIMEOUT))
                .with_some("header", has_key.then(|| headers.clone()));
        }
        Ok(LlmSearchRequest {
            campaign,
            bodies: prompts.bodies(endpoint),
            asks_model: prompts.model.is_none(),
            prompts: prompts.source(),
            headers,
            load,
        })
    }
}

impl LlmSearchRequest {
    /// Adds the path of the file of requests to the options of the runs.
    pub(crate) fn set_file(&mut self, path: &str) {
        if let ExperimentSource::Draft(draft) = &mut self.campaign.source {
            let own: Keys = std::mem::take(&mut draft.load);
            draft.load = own.with("request_file", path);
        }
    }
}

/// Whether one of these headers, as typed, has this name.
fn has_header(headers: &[String], name: &str) -> bool {
    let names = headers.iter().filter_map(|header| header.split(':').next());
    names.map(str::trim).any(|it| it.eq_ignore_ascii_case(name))
}
