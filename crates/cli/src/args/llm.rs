//! Arguments of `wrkbench llm`: prompts, and those of a run or of a search.

mod conversations;
mod search;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, FromArgMatches};
use convert::llm::{Bodies, Endpoint, MAX_PROMPTS, MAX_TOKENS, MAX_WORDS, Synthetic};
use plan::distribution::Count;
use plan::{
    AskedTokens, Dialect, EventsFormat, GivenOptions, Heading, InvalidValue, Pacing, Target,
    find_option, units,
};
use serde_json::{Map, Value};

use super::run::VersionMode;
use super::{Refusal, Request, RunArgs, RunRequest};

use conversations::ConversationArgs;
pub(super) use conversations::HEADING as CONVERSATIONS;
pub(crate) use conversations::{ConversationSource, ConversationTexts};
pub(crate) use search::LlmSearchRequest;
pub(super) use search::{is_search, parse_search};

const HEADING: &str = "Prompts";

/// The time limit of a response: a stream takes as long as the model has something to say.
const TIMEOUT: &str = "10m";

/// Prompts that are made if no number is given.
const PROMPTS_DEFAULT: u64 = 1000;

/// Options that say what is sent, or are about other responses.
const OTHER_LOADS: [&str; 12] = [
    "method",
    "body",
    "body-file",
    "request-file",
    "script",
    "grpc",
    "batch_latency",
    "events-end",
    "replay",
    "speed",
    "log-format",
    "all-methods",
];

/// The long help.
const ABOUT: &str = "Load a language model's server

Makes requests with prompts and measures their streams: first token, time per token, tokens per \
second. The path of the URL tells the format: /v1/chat/completions (also of /, /v1), \
/v1/completions, /v1/responses, /v1/messages, /api/chat and /api/generate.

Lengths of prompts are in words (--prompt-words), or in tokens as the server counts them \
(--prompt-tokens). All options of a run apply.";

/// What is asked.
#[derive(Debug, Clone, Args)]
struct PromptArgs {
    /// Name of the model, as the server knows it.
    ///
    /// Without it, the server is asked (/v1/models), and must have one model.
    #[arg(long, value_name = "NAME", help_heading = HEADING, allow_hyphen_values = true)]
    model: Option<String>,
    /// Key of the interface, like '{{env:API_KEY}}', which stands for an environment variable.
    ///
    /// Requests have it as Authorization: Bearer KEY, with Anthropic's format as x-api-key: KEY.
    /// Other users of this machine can see arguments, but no variables.
    #[arg(long, value_name = "KEY", help_heading = HEADING, allow_hyphen_values = true,
          value_parser = parse_key)]
    api_key: Option<String>,
    /// Take the prompts from a file, like ShareGPT's JSON; - is stdin.
    ///
    /// It may also have objects with "prompt" or "messages".
    #[arg(long, value_name = "FILE", help_heading = HEADING, allow_hyphen_values = true,
          conflicts_with_all = ["prompt_words", "prompt_tokens", "shared_prefix"])]
    prompts: Option<PathBuf>,
    /// Words of each random prompt, like 128 or exp:100 [default: 128].
    ///
    /// Distributions are uniform:16,256, exp:100 and lognormal:128,0.5.
    #[arg(long, value_name = "DIST", help_heading = HEADING, allow_hyphen_values = true,
          value_parser = Distribution::of_words)]
    prompt_words: Option<Distribution>,
    /// Tokens of each random prompt, like 512 or uniform:100,2000, in place of words.
    ///
    /// How many words these are follows from the server's own counts (usage) of two prompts, which
    /// are sent before the run.
    #[arg(long, value_name = "DIST", help_heading = HEADING, allow_hyphen_values = true,
          value_parser = Distribution::of_words, conflicts_with = "prompt_words")]
    prompt_tokens: Option<Distribution>,
    /// Number of different prompts [default: 1000, or all of a file]
    #[arg(long, value_name = "N", help_heading = HEADING, allow_hyphen_values = true,
          value_parser = parse_number(1..=MAX_PROMPTS))]
    prompt_count: Option<u64>,
    /// Begin every random prompt with the same N words [default: 0].
    ///
    /// This is for caches of prefixes.
    #[arg(long, value_name = "N", help_heading = HEADING, allow_hyphen_values = true,
          value_parser = parse_number(0..=MAX_WORDS))]
    shared_prefix: Option<u64>,
    /// Limit of tokens of each response, like 128 or exp:100.
    ///
    /// Distributions are those of --prompt-words. The default is the server's limit.
    #[arg(long, visible_alias = "max-tokens", value_name = "DIST", help_heading = HEADING,
          allow_hyphen_values = true, value_parser = Distribution::of_tokens)]
    output_tokens: Option<Distribution>,
    /// Ask the server to always generate --output-tokens.
    ///
    /// It then ignores the end that the model sets (vLLM, SGLang, llama.cpp).
    #[arg(long, help_heading = HEADING)]
    ignore_eos: bool,
    /// Add the keys of this object to every request, like '{"seed": 7}'
    #[arg(long, value_name = "JSON", help_heading = HEADING, allow_hyphen_values = true,
          value_parser = convert::llm::parse_extra)]
    extra: Option<Map<String, Value>>,
    #[command(flatten)]
    conversations: ConversationArgs,
    /// Print the requests, for --requests FILE, and send nothing
    #[arg(long, help_heading = HEADING)]
    print: bool,
    /// Find how many users are served within these limits, like 'goodput>95%'.
    ///
    /// It takes the options of wrkbench search, such as --budget, --precision and --results;
    /// wrkbench llm --search --help lists them.
    #[arg(long, value_name = "CONDITION", help_heading = HEADING)]
    search: Vec<String>,
}

/// A distribution of numbers, and how it was typed.
#[derive(Debug, Clone, PartialEq)]
struct Distribution {
    text: String,
    count: Count,
}

impl Distribution {
    fn parse(text: &str, max: u64) -> Result<Self, InvalidValue> {
        let count = Count::parse(text, max)?;
        if count == Count::fixed(0) {
            Err(format!("`{text}` is not a number from 1 to {max}").into())
        } else {
            Ok(Self {
                text: text.to_owned(),
                count,
            })
        }
    }

    fn of_words(text: &str) -> Result<Self, InvalidValue> {
        Self::parse(text, MAX_WORDS)
    }

    fn of_tokens(text: &str) -> Result<Self, InvalidValue> {
        Self::parse(text, MAX_TOKENS)
    }
}

/// Parses a number within a range.
fn parse_number(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, InvalidValue> + Clone {
    move |text| {
        let number = units::parse_count(text).map_err(InvalidValue::new)?;
        let (least, most) = (range.start(), range.end());
        if range.contains(&number) {
            Ok(number)
        } else {
            Err(format!("{text:?} is not a number from {least} to {most}").into())
        }
    }
}

/// Parses a key: the value of a header, or a template for one. Messages do not repeat it.
fn parse_key(text: &str) -> Result<String, InvalidValue> {
    if text.is_empty() {
        return Err("is empty (is the variable of the shell set?)".into());
    }
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err("has white space or characters that are not ASCII, which a key cannot have".into())
    }
}

/// A run whose requests are made from prompts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LlmRequest {
    /// Its request file is a placeholder until the requests are made.
    pub(crate) run: RunRequest,
    /// Without a name of the model if the server is to be asked.
    pub(crate) bodies: Bodies,
    /// The model is the one that the server has.
    pub(crate) asks_model: bool,
    pub(crate) prompts: PromptSource,
    /// Lengths of prompts are in tokens, and the server is asked how many words these are.
    pub(crate) counts_tokens: bool,
    /// Print the requests instead of making the run.
    pub(crate) prints: bool,
    /// The same for equal loads, whatever the model, the seed and the content of a file.
    pub(crate) load: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PromptSource {
    File {
        /// `-` is stdin.
        path: PathBuf,
        /// At most so many.
        max: u64,
    },
    Synthetic(Synthetic),
    Conversations(Box<ConversationSource>),
}

impl PromptArgs {
    fn source(&self) -> PromptSource {
        let first = self.synthetic();
        let max = self.prompt_count.unwrap_or(MAX_PROMPTS);
        if let Some(conversations) = self.conversations.source(first, max) {
            return conversations;
        }
        match &self.prompts {
            Some(path) => PromptSource::File {
                path: path.clone(),
                max,
            },
            None => PromptSource::Synthetic(self.synthetic()),
        }
    }

    /// Prompts of random words.
    fn synthetic(&self) -> Synthetic {
        let length = self.prompt_words.as_ref().or(self.prompt_tokens.as_ref());
        let usual = const { Count::fixed(convert::llm::WORDS_DEFAULT) };
        Synthetic {
            prompts: self.prompt_count.unwrap_or(PROMPTS_DEFAULT),
            words: length.map_or(usual, |length| length.count),
            shared_words: self.shared_prefix.unwrap_or(0),
            tokenizer: None,
        }
    }

    /// What makes the load, for the name of the requests.
    fn load(&self, endpoint: &Endpoint) -> String {
        let text = |given: &Option<Distribution>| given.as_ref().map(|it| it.text.clone());
        let prompts = match &self.prompts {
            Some(_) => (self.prompt_count.unwrap_or(MAX_PROMPTS), None, 0),
            None => {
                let synthetic = self.synthetic();
                let words = text(&self.prompt_words);
                let words = words.unwrap_or_else(|| convert::llm::WORDS_DEFAULT.to_string());
                (synthetic.prompts, Some(words), synthetic.shared_words)
            }
        };
        let talks = self.conversations.is_given();
        let conversations = talks.then(|| self.conversations.load());
        let prompts = (prompts, conversations);
        let of_endpoint = (endpoint.dialect.name(), endpoint.takes_messages());
        let limit = (text(&self.output_tokens), self.ignore_eos);
        let prompts = match text(&self.prompt_tokens) {
            Some(tokens) => format!("{:?}", (prompts, tokens)),
            None => format!("{prompts:?}"),
        };
        let extra = self.extra.as_ref().filter(|extra| !extra.is_empty());
        let extra = extra.map(|extra| Value::from(extra.clone()).to_string());
        format!("({of_endpoint:?}, {prompts}, {limit:?}, {extra:?})")
    }

    /// What is asked of the server, if anything is.
    fn asked(&self, endpoint: &Endpoint) -> Option<AskedTokens> {
        let text = |given: &Option<Distribution>| given.as_ref().map(|it| it.text.clone());
        let (prompt_tokens, output_tokens) = (text(&self.prompt_tokens), text(&self.output_tokens));
        let ignore_eos = output_tokens.as_ref().map(|_| self.ignore_eos);
        let asked = AskedTokens {
            prompt_tokens,
            output_tokens,
            ignore_eos: ignore_eos.filter(|_| endpoint.can_ignore_eos()),
        };
        (asked != AskedTokens::default()).then_some(asked)
    }

    /// What is sent, without a model if none is named.
    fn bodies(&self, endpoint: Endpoint) -> Bodies {
        Bodies {
            endpoint,
            model: self.model.clone().unwrap_or_default(),
            output_tokens: self.output_tokens.as_ref().map(|tokens| tokens.count),
            ignore_eos: self.ignore_eos,
            extra: self.extra.clone().unwrap_or_default(),
        }
    }

    /// Where requests go and their format, if it has what the options ask for.
    fn endpoint(&self, target: &Target, named: Option<Dialect>) -> Result<Endpoint, Refusal> {
        let endpoint = Endpoint::of(&target.path, named);
        let endpoint = endpoint.map_err(|error| Refusal(error.to_string()))?;
        let endpoint = endpoint.at(&target.host);
        self.check(&endpoint)?;
        Ok(endpoint)
    }

    fn check(&self, endpoint: &Endpoint) -> Result<(), Refusal> {
        self.conversations.check()?;
        let refuse = |text: &str| Err(Refusal(text.to_owned()));
        match self.ignore_eos {
            true if !endpoint.can_ignore_eos() => Err(Refusal(format!(
                "--ignore-eos: the format {} has no such key (vLLM, SGLang and llama.cpp have it \
                 at /v1/chat/completions and /v1/completions)",
                endpoint.dialect.name()
            ))),
            true if self.output_tokens.is_none() => {
                refuse("--ignore-eos: needs a limit of tokens (--output-tokens)")
            }
            _ if self.model.as_deref() == Some("") => {
                refuse("--model: has no name (without --model, the server is asked)")
            }
            _ => Ok(()),
        }
    }
}

/// Arguments of `wrkbench llm`.
#[derive(Debug, Clone)]
pub(super) struct LlmCommandArgs {
    own: PromptArgs,
    run: RunArgs,
}

impl LlmCommandArgs {
    /// # Errors
    /// The same one-line messages as for a run, and if the format of the requests is not known.
    pub(super) fn into_request(self) -> Result<Request, Refusal> {
        let Self { own, mut run } = self;
        if !own.search.is_empty() {
            return Err(Refusal(
                "--search: type the whole name of this option".to_owned(),
            ));
        }
        if run.version_mode(super::Dialect::Native) == VersionMode::Only {
            return super::run_request(run, super::Dialect::Native);
        }
        let no_url = || {
            let text = "no URL (expected like wrkbench llm http://host:port/v1)";
            Refusal(text.to_owned())
        };
        let target = run.target().ok_or_else(no_url)?.clone();
        let named = prepare(run.options_mut())?;
        let endpoint = own.endpoint(&target, named)?;
        let key = own.api_key.as_ref().map(|key| endpoint.key_header(key));
        if let Some((name, value)) = &key {
            add_header(run.options_mut(), name, value)?;
        }
        let load = own.load(&endpoint);
        let mut prompts = own.source();
        let asked = own.asked(&endpoint);
        match super::run_request(run, super::Dialect::Native)? {
            Request::Run(mut run) => {
                if let PromptSource::Conversations(source) = &mut prompts {
                    source.manner.keeps_moments = run.plan.pacing.speed().is_some();
                    if run.plan.pacing == Pacing::Closed {
                        run.plan.pacing = Pacing::Users;
                    }
                }
                if let Some((name, _)) = key {
                    check_key_header(&run, name)?;
                }
                run.plan.stops_if_denied = true;
                if let Some(file) = &mut run.plan.request.file {
                    file.asked = asked;
                }
                Ok(Request::Llm(Box::new(LlmRequest {
                    run: *run,
                    bodies: own.bodies(endpoint),
                    asks_model: own.model.is_none(),
                    prompts,
                    counts_tokens: own.prompt_tokens.is_some(),
                    prints: own.print,
                    load,
                })))
            }
            request => Ok(request),
        }
    }
}

/// Adds a header to those that are given.
fn add_header(options: &mut GivenOptions, name: &str, value: &str) -> Result<(), Refusal> {
    if options.has("user") {
        return Err(Refusal(
            "--api-key: cannot be used together with --user".to_owned(),
        ));
    }
    let mut with_key = GivenOptions::default();
    if let Some(spec) = find_option("header") {
        with_key.add(spec, vec![format!("{name}: {value}").into()]);
    }
    options.add_below(with_key);
    Ok(())
}

/// Rejects a second header for the key.
fn check_key_header(run: &RunRequest, name: &str) -> Result<(), Refusal> {
    let headers = run.plan.request.headers.iter();
    let same = headers.filter(|(other, _)| other.eq_ignore_ascii_case(name));
    if same.count() > 1 {
        return Err(Refusal(format!(
            "--api-key: cannot be used together with -H {name:?}"
        )));
    }
    Ok(())
}

fn refuse_other_load(other: &str) -> Refusal {
    Refusal(format!(
        "--{other}: cannot be used with wrkbench llm, which makes the requests (wrkbench run \
         --events llm sends others)"
    ))
}

/// The dialect of this name.
fn dialect_of(name: &str) -> Option<Dialect> {
    let mut dialects = Dialect::ALL.into_iter();
    dialects.find(|dialect| dialect.name() == name)
}

/// Checks the options of the run and adds those that the command implies. Returns the dialect that
/// is named.
fn prepare(options: &mut GivenOptions) -> Result<Option<Dialect>, Refusal> {
    if let Some(other) = OTHER_LOADS.iter().find(|other| options.has(other)) {
        return Err(refuse_other_load(other));
    }
    let value = |options: &GivenOptions, long| {
        let value = options.path(long).and_then(Path::to_str);
        value.map(str::to_owned)
    };
    let llm = EventsFormat::Llm.name();
    if let Some(format) = value(options, "events").filter(|format| format != llm) {
        return Err(Refusal(format!(
            "--events {format}: wrkbench llm reads the events of a language model ({llm})"
        )));
    }
    let implied = [
        ("events", llm),
        ("timeout", TIMEOUT),
        // Its path is set when there is a file.
        ("request-file", "llm"),
    ];
    for (long, value) in implied {
        if !options.has(long)
            && let Some(spec) = find_option(long)
        {
            options.add(spec, vec![value.into()]);
        }
    }
    let named = value(options, "events-dialect");
    Ok(named.and_then(|name| dialect_of(&name)))
}

impl Args for LlmCommandArgs {
    /// Its own arguments, then those of a run that do not say what is sent.
    fn augment_args(command: clap::Command) -> clap::Command {
        let names = Dialect::ALL.map(Dialect::name);
        let command = RunArgs::augment_args(PromptArgs::augment_args(command))
            .about("Load a language model's server")
            .long_about(ABOUT)
            .override_usage("wrkbench llm [OPTIONS] <URL>")
            .mut_arg("timeout", |timeout| timeout.default_value(TIMEOUT))
            .mut_arg("events", |events| events.hide(true))
            // A new one: it does not need --events.
            .mut_arg("events-dialect", |_| {
                Arg::new("events-dialect")
                    .long("events-dialect")
                    .value_name("NAME")
                    .help_heading(Heading::Response.name())
                    .value_parser(PossibleValuesParser::new(names))
                    .help("Format of requests and events [default: the path tells it]")
            })
            .mut_arg("script_arguments", |arguments| arguments.hide(true));
        OTHER_LOADS.iter().fold(command, |command, other| {
            command.mut_arg(other, |it| it.hide(true))
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LlmCommandArgs {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            own: PromptArgs::from_arg_matches(matches)?,
            run: RunArgs::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
