//! The options of a run: the one source of the arguments of its command line, of names and
//! comparisons of loads, and of texts about a plan.

mod given;
mod table;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use crate::{InvalidValue, RunPlan, Stage, Stop, Target, readable, shell, units};
pub use given::{GivenOptions, OptionError};
pub use table::OPTIONS;

/// What the options of a table set: a plan, or something else that a command line describes.
pub trait Settable: Clone + 'static {
    /// All options that set this, in the order in which they are set.
    fn option_table() -> &'static [OptionSpec<Self>];

    /// Something that values are tried with, to see whether they have the right form.
    fn blank() -> Option<Self>;

    /// The row of an option with this long name.
    #[must_use]
    fn find_option(long: &str) -> Option<&'static OptionSpec<Self>> {
        let mut options = Self::option_table().iter();
        options.find(|spec| !long.is_empty() && spec.long == long)
    }
}

impl Settable for RunPlan {
    fn option_table() -> &'static [OptionSpec] {
        OPTIONS
    }

    fn blank() -> Option<Self> {
        Target::parse("http://localhost/").ok().map(Self::new)
    }
}

/// An option of a run: how a command line sets it, and how it is shown. It sets a `T`: a plan, or
/// another part of what a command line describes, like the report.
#[derive(Debug)]
pub struct OptionSpec<T: 'static = RunPlan> {
    /// Its long name without dashes; empty if there is no such option.
    pub long: &'static str,
    /// Its letter. Command lines that are shown have the letter rather than the long name.
    pub short: Option<char>,
    /// Other long names, which the help does not mention.
    pub aliases: &'static [&'static str],
    /// Other long names, which the help mentions.
    pub visible_aliases: &'static [&'static str],
    /// The heading of the help below which it is listed.
    pub heading: Heading,
    /// What stands for its value in the help; empty for a switch.
    pub value_name: &'static str,
    /// What it does, in a line.
    pub help: &'static str,
    /// What `--help` says in place of [`Self::help`].
    pub long_help: Option<&'static str>,
    /// The default as it would be typed, where the help prints one.
    pub default: Option<&'static str>,
    /// The only possible values; empty if there are others.
    pub choices: &'static [&'static str],
    /// Whether it may be given several times, each adding to the others.
    pub is_repeatable: bool,
    /// Long names of options that cannot be used together with it.
    pub conflicts: &'static [&'static str],
    /// Long name of an option without which it cannot be used.
    pub requires: Option<&'static str>,
    /// Its value has a password: the shortest abbreviation of its long name.
    pub secret_from: Option<&'static str>,
    /// Why the load of an experiment cannot set it, and where it is set instead, if anywhere.
    pub elsewhere: Option<&'static str>,
    /// How it changes what it sets; `None` for arguments that are no options.
    pub setter: Option<Setter<T>>,
    form: Form,
    /// How it is shown, if not as the value of another option.
    shown: Option<Shown<T>>,
    /// A phrase about its value for [`RunPlan::load_in_words`].
    in_words: fn(&PlanOption) -> Option<String>,
}

type Shown<T = RunPlan> = (OptionName, Role, fn(&T) -> OptionValue);

/// A heading of the help. The order is that of the help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the headings")]
pub enum Heading {
    Load,
    Rate,
    Request,
    Response,
    Connection,
    Replay,
    Proxy,
    Telemetry,
    Report,
}

/// The kind of an option's value, and what it changes in a plan.
#[derive(Debug, Clone)]
pub enum Setter<T = RunPlan> {
    /// There is no value.
    Switch(fn(&mut T)),
    /// A number of things.
    Count(fn(&mut T, u64)),
    /// A number of things that has 32 bits.
    CountU32(fn(&mut T, u32)),
    /// A length of time.
    Time(fn(&mut T, Duration)),
    /// The name of a file.
    Path(fn(&mut T, PathBuf)),
    /// A text of any form, which may be empty.
    Text(fn(&mut T, String)),
    /// A text of a certain form. The error says what is wrong with it, without the option.
    Parsed(fn(&mut T, &str) -> Result<(), InvalidValue>),
}

// Only functions are in it.
impl<T: Clone> Copy for Setter<T> {}

/// What an option sets, in words and in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionName(&'static str);

/// How a value is written on a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Option,
    /// It follows the options.
    Argument,
    /// It is a part of the URL, which the command line does not give on its own. This word precedes
    /// it where it is shown.
    PartOfUrl(&'static str),
}

/// The value of an option. Equal values of the same option mean the same.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionValue {
    /// Not given, and there is no default.
    Unset,
    /// Not given; the text describes the default.
    Default(&'static str),
    /// An option without an argument; the text describes its effect.
    Switch(&'static str),
    /// A number of things.
    Count(u64),
    /// Requests per second.
    Rate(f64),
    /// Rates one after the other.
    Stages(Vec<Stage>),
    /// A length of time; zero is none.
    Time(Duration),
    /// Any text.
    Text(String),
    /// Bytes that need not be UTF-8.
    Bytes(Vec<u8>),
    /// The name of a file.
    Path(PathBuf),
    /// Several values of an option that can be repeated.
    List(Vec<String>),
}

/// One option of a plan with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanOption {
    /// What it sets.
    pub name: OptionName,
    /// Its value.
    pub value: OptionValue,
    spec: &'static OptionSpec,
    role: Role,
}

/// What an option has to do with the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It makes another load, and is in the load's name.
    Named,
    /// It makes another load.
    Load,
    /// It does not change what the server has to do.
    Other,
}

impl Heading {
    /// The heading as the help prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "Load",
            Self::Rate => "Rate",
            Self::Request => "Request",
            Self::Response => "Response",
            Self::Connection => "Connection",
            Self::Replay => "Replay",
            Self::Proxy => "Proxy",
            Self::Telemetry => "Telemetry",
            Self::Report => "Report",
        }
    }
}

impl<T> Setter<T> {
    /// Whether the option has a value.
    #[must_use]
    pub const fn takes_value(&self) -> bool {
        !matches!(self, Self::Switch(_))
    }

    /// Sets a value as it was typed; that of a switch is ignored.
    ///
    /// # Errors
    /// In one line, without the option, if the value has another form.
    pub fn set(self, plan: &mut T, value: &OsStr) -> Result<(), InvalidValue> {
        let text = || value.to_str().ok_or("is not UTF-8 (expected text)");
        match self {
            Self::Switch(set) => set(plan),
            Self::Count(set) => set(
                plan,
                units::parse_count(text()?).map_err(InvalidValue::new)?,
            ),
            Self::CountU32(set) => set(
                plan,
                units::parse_count_u32(text()?).map_err(InvalidValue::new)?,
            ),
            Self::Time(set) => set(plan, units::parse_time(text()?).map_err(InvalidValue::new)?),
            Self::Path(set) => set(plan, value.into()),
            Self::Text(set) => set(plan, text()?.to_owned()),
            Self::Parsed(set) => set(plan, text()?)?,
        }
        Ok(())
    }

    const fn value_name(&self) -> &'static str {
        match self {
            Self::Switch(_) => "",
            Self::Count(_) | Self::CountU32(_) => "N",
            Self::Time(_) => "T",
            Self::Path(_) => "FILE",
            Self::Text(_) | Self::Parsed(_) => "TEXT",
        }
    }
}

/// The row of an option with this long name, if a plan has it.
#[must_use]
pub fn find_option(long: &str) -> Option<&'static OptionSpec> {
    RunPlan::find_option(long)
}

impl OptionName {
    /// `--io`
    pub const BACKEND: Self = Self("backend");
    /// `--body` and `--body-file`
    pub const BODY: Self = Self("body");
    /// `-c`
    pub const CONNECTIONS: Self = Self("connections");
    /// `-d`
    pub const DURATION: Self = Self("duration");
    /// The path and query of the URL
    pub const PATH: Self = Self("path");
    /// Scheme, host and port of the URL, or the Unix socket in place of host and port
    pub const SERVER: Self = Self("server");
    /// `-T`
    pub const TIMEOUT: Self = Self("timeout");
    const ARRIVALS: Self = Self("arrivals");
    const SCRIPT_ARGUMENTS: Self = Self("script arguments");
    const SOCKETS: Self = Self("watched sockets");

    /// The option in words, in lower case: `timeout`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        self.0
    }

    /// A value of this option in words: `2 s`, `closed loop`, `not set`.
    #[must_use]
    pub fn text_of(self, value: &OptionValue) -> String {
        match (value, self) {
            (OptionValue::Unset, _) => "not set".to_owned(),
            (OptionValue::Default(text) | OptionValue::Switch(text), _) => (*text).to_owned(),
            (OptionValue::Count(count), _) => readable::count(*count),
            (OptionValue::Rate(per_sec), _) => rate_text(*per_sec),
            (OptionValue::Time(time), _) if time.is_zero() => "none".to_owned(),
            (OptionValue::Time(time), _) => time_text(*time),
            (OptionValue::Text(filter), Self::SOCKETS) if filter.is_empty() => "all".to_owned(),
            (OptionValue::Path(path), Self::BODY) => format!("file {}", path.display()),
            (OptionValue::List(arguments), Self::SCRIPT_ARGUMENTS) => shell::command(arguments),
            (value, _) => value.arguments().join(", "),
        }
    }
}

/// Options are the same if they are the same row of [`OPTIONS`].
impl<T> PartialEq for OptionSpec<T> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl<T: Settable> OptionSpec<T> {
    /// Whether a value has the right form.
    ///
    /// # Errors
    /// In one line, without the option, if it has another one.
    pub fn check(&self, value: &OsStr) -> Result<(), InvalidValue> {
        let choices = self.choices.join(", ");
        match value.to_str() {
            Some("") if !choices.is_empty() => {
                return Err(format!("needs a value (expected one of {choices})").into());
            }
            Some(text) if !choices.is_empty() && !self.choices.contains(&text) => {
                return Err(
                    format!("{text:?} is not a valid value (expected one of {choices})").into(),
                );
            }
            _ => {}
        }
        match (self.setter, T::blank()) {
            (Some(setter), Some(mut blank)) => setter.set(&mut blank, value),
            _ => Ok(()),
        }
    }
}

impl OptionSpec {
    /// `-t`, or the long name with its dashes for an option without a letter.
    fn flag(&self) -> String {
        match (self.short, self.form) {
            (Some(short), _) => format!("-{short}"),
            (None, Form::Option) => format!("--{}", self.long),
            (None, Form::PartOfUrl(word)) => word.to_owned(),
            (None, Form::Argument) => String::new(),
        }
    }
}

impl OptionValue {
    /// `None` is [`OptionValue::Unset`].
    fn or_unset<T>(value: Option<T>, make: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Unset, make)
    }

    fn path(path: Option<&PathBuf>) -> Self {
        Self::or_unset(path, |path| Self::Path(path.clone()))
    }

    fn switch(is_given: bool, effect: &'static str, otherwise: Self) -> Self {
        if is_given {
            Self::Switch(effect)
        } else {
            otherwise
        }
    }

    /// An empty list is [`OptionValue::Unset`].
    fn list(values: Vec<String>) -> Self {
        if values.is_empty() {
            Self::Unset
        } else {
            Self::List(values)
        }
    }

    /// The arguments of the command line, without the flag. What is not UTF-8 has replacement
    /// characters.
    fn arguments(&self) -> Vec<String> {
        match self {
            Self::Unset | Self::Default(_) | Self::Switch(_) => Vec::new(),
            Self::Count(count) => vec![count.to_string()],
            Self::Rate(per_sec) => vec![per_sec.to_string()],
            Self::Stages(stages) => vec![Stage::list(stages)],
            Self::Time(time) => vec![units::time(*time)],
            Self::Text(text) => vec![text.clone()],
            Self::Bytes(bytes) => vec![String::from_utf8_lossy(bytes).into_owned()],
            Self::Path(path) => vec![path.display().to_string()],
            Self::List(values) => values.clone(),
        }
    }

    fn is_utf8(&self) -> bool {
        match self {
            Self::Bytes(bytes) => str::from_utf8(bytes).is_ok(),
            Self::Path(path) => path.to_str().is_some(),
            _ => true,
        }
    }
}

impl PlanOption {
    /// An option with a value; `None` if no plan shows an option of this name.
    #[must_use]
    pub fn new(name: OptionName, value: OptionValue) -> Option<Self> {
        let mut rows = OPTIONS.iter().filter_map(|spec| Some((spec, spec.shown?)));
        let (spec, (_, role, _)) = rows.find(|(_, (shown, ..))| *shown == name)?;
        Some(Self {
            name,
            value,
            spec,
            role,
        })
    }

    /// The value in words: `2 s`, `closed loop`, `not set`.
    #[must_use]
    pub fn text(&self) -> String {
        self.name.text_of(&self.value)
    }

    /// Whether it is a part of the URL, which the command line does not give on its own.
    #[must_use]
    pub const fn is_part_of_url(&self) -> bool {
        matches!(self.spec.form, Form::PartOfUrl(_))
    }

    /// `2 threads`, with something after it, if the value is a count.
    fn counted(&self, noun: &str, rest: &str) -> Option<String> {
        match self.value {
            OptionValue::Count(count) => Some(readable::counted(count, noun) + rest),
            _ => None,
        }
    }

    /// The words by which a command line sets the option: `-T2s`, or `--warmup` and `1s`. None
    /// where the default applies.
    fn words(&self) -> Vec<String> {
        let flag = match (self.spec.long, &self.value) {
            ("rate", OptionValue::Stages(_)) => "--stages".to_owned(),
            ("body", OptionValue::Path(_)) => "--body-file".to_owned(),
            ("http2", OptionValue::Switch(table::GRPC_HTTP3)) => {
                return vec!["--grpc".to_owned(), "--http3".to_owned()];
            }
            ("http2", OptionValue::Switch(table::GRPC)) => "--grpc".to_owned(),
            ("http2", OptionValue::Switch(table::HTTP3)) => "--http3".to_owned(),
            _ => self.spec.flag(),
        };
        if let OptionValue::Switch(_) = self.value {
            return vec![flag];
        }
        let is_number = matches!(
            self.value,
            OptionValue::Count(_) | OptionValue::Rate(_) | OptionValue::Time(_)
        );
        let words = self.value.arguments().into_iter();
        match flag.len() {
            0 => words.collect(),
            // As people write it: -t2.
            2 if is_number => words.map(|word| format!("{flag}{word}")).collect(),
            _ => words.flat_map(|word| [flag.clone(), word]).collect(),
        }
    }

    /// How a shell command sets the option, `-T2s`; long values are cut. Empty where the default
    /// applies.
    #[must_use]
    pub fn in_command(&self) -> String {
        let words = self.words();
        match (self.spec.form, &self.value) {
            // It is no option, but says that there is one.
            (Form::PartOfUrl(_), OptionValue::Switch(_)) => words.join(" "),
            _ => words
                .iter()
                .map(|word| cut(word))
                .collect::<Vec<_>>()
                .join(" "),
        }
    }
}

impl RunPlan {
    /// Every option that is shown, set or not: the same ones in the same order for every plan.
    #[must_use]
    pub fn options(&self) -> Vec<PlanOption> {
        let rows = OPTIONS.iter().filter_map(|spec| Some((spec, spec.shown?)));
        let option = |(spec, (name, role, get)): (_, Shown)| PlanOption {
            name,
            value: get(self),
            spec,
            role,
        };
        rows.map(option).collect()
    }

    /// The options that make the load, the same ones for every plan. Not among them are the seed
    /// and the telemetry. Secrets are hidden, so plans that differ only in a token have the same
    /// load.
    #[must_use]
    pub fn load_options(&self) -> Vec<PlanOption> {
        let mut options = self.without_secrets().options();
        options.retain(|option| option.role != Role::Other);
        options
    }

    /// The name of the load, in the form of a command line: `-t12 -c400 -R2000`. Target, times and
    /// TLS settings are not in it.
    #[must_use]
    pub fn load_name(&self) -> String {
        let options = self.load_options().into_iter();
        let named = options.filter(|option| option.role == Role::Named);
        let words = named.map(|option| option.in_command());
        let words: Vec<String> = words.filter(|words| !words.is_empty()).collect();
        words.join(" ")
    }

    /// The load in a phrase: `2 threads, 10 connections, 2,000 requests/s`.
    #[must_use]
    pub fn load_in_words(&self) -> String {
        let options = self.options().into_iter();
        let phrases = options.filter_map(|option| (option.spec.in_words)(&option));
        phrases.collect::<Vec<_>>().join(", ")
    }

    /// When the run ends, in a phrase: `30 s`, `30 s or 1,000 requests`.
    #[must_use]
    pub fn end_in_words(&self) -> String {
        let Stop { duration, requests } = self.stop;
        let duration = duration.map(time_text);
        let requests = requests.map(|count| readable::counted(count, "request"));
        let ends: Vec<String> = duration.into_iter().chain(requests).collect();
        ends.join(" or ")
    }

    /// The words of a command line that makes this plan again, with the seed. `None` if it cannot
    /// be written as text.
    #[must_use]
    pub fn command(&self) -> Option<Vec<String>> {
        let options = self.options();
        if !options.iter().all(|option| option.value.is_utf8()) {
            return None;
        }
        let mut words = vec!["wrkbench".to_owned(), "run".to_owned()];
        let of = |form| options.iter().filter(move |it| it.spec.form == form);
        words.extend(of(Form::Option).flat_map(PlanOption::words));
        for option in of(Form::Argument) {
            let follows = option.name == OptionName::SCRIPT_ARGUMENTS;
            if follows && option.value != OptionValue::Unset {
                words.push("--".to_owned());
            }
            words.extend(option.words());
        }
        Some(words)
    }

    /// The words of [`Self::command`] that set the options below a heading of the help.
    #[must_use]
    pub fn words_below(&self, heading: Heading) -> Vec<String> {
        let mut options = self.options();
        options.retain(|option| option.spec.setter.is_some() && option.spec.heading == heading);
        options.iter().flat_map(PlanOption::words).collect()
    }

    /// Labels and values of all options that are set or have a default, for people:
    /// `Timeout` and `2 s`.
    #[must_use]
    pub fn facts(&self) -> Vec<(String, String)> {
        let is_fact = |option: &PlanOption| match option.name {
            OptionName::ARRIVALS => self.pacing.is_open(),
            _ => !option.is_part_of_url() && option.value != OptionValue::Unset,
        };
        let options = self.options().into_iter().filter(is_fact);
        options
            .map(|option| {
                let (first, rest) = option.name.label().split_at(1);
                (first.to_ascii_uppercase() + rest, option.text())
            })
            .collect()
    }
}

impl Target {
    /// Where the requests go: `http://h:80`, with the port even if it is the default one, and the
    /// path.
    #[must_use]
    pub fn server_and_path(&self) -> (String, String) {
        let Self {
            url: _,
            scheme,
            host,
            service: _,
            port,
            path,
            host_header: _,
            unix_socket,
        } = self;
        let default_port = scheme.default_port().to_string();
        let port = port.as_ref().unwrap_or(&default_port);
        let server = match unix_socket {
            Some(socket) => format!("{} over {}", scheme.name(), socket.display()),
            None => format!("{}://{host}:{port}", scheme.name()),
        };
        (server, path.clone())
    }
}

/// `2,000 requests/s`
fn rate_text(per_sec: f64) -> String {
    if per_sec.fract() == 0.0 {
        format!("{} requests/s", readable::count(per_sec as u64))
    } else {
        format!("{per_sec} requests/s")
    }
}

/// Exactly, with spaces: `1 min 30 s`, `500 ms`.
fn time_text(time: Duration) -> String {
    let all_minutes = time.as_secs() / 60;
    let (hours, minutes) = (all_minutes / 60, all_minutes % 60);
    let rest = units::time(time - Duration::from_secs(all_minutes * 60));
    let unit_at = rest.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = rest.split_at(unit_at.unwrap_or(rest.len()));
    let parts = [
        (hours > 0).then(|| format!("{} h", readable::count(hours))),
        (minutes > 0).then(|| format!("{minutes} min")),
        (number != "0").then(|| format!("{number} {unit}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// A word for a shell. Of a long one the start, and how long it is.
fn cut(word: &str) -> String {
    const CHARS_MAX: usize = 60;
    let count = word.chars().count();
    if count <= CHARS_MAX {
        return shell::quoted(word);
    }
    let start: String = word.chars().take(CHARS_MAX).collect();
    format!("{}... ({count} characters)", shell::quoted(&start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Alpn, Arrivals, BackendChoice, Body, EventsSpec, Load, Pacing, Protocol, TelemetrySpec,
    };

    fn plan(url: &str) -> RunPlan {
        RunPlan::new(Target::parse(url).unwrap())
    }

    #[test]
    fn the_help_of_arrivals_names_the_range_of_shapes() {
        let option = find_option("arrivals").expect("there is one");
        let help = option.long_help.expect("it has one");
        let (least, most) = (crate::MIN_SHAPE, crate::MAX_SHAPE);
        for number in [format!("({least} at least)"), format!("({most} at most)")] {
            assert!(help.contains(&number), "{number}: {help}");
        }
    }

    fn constant(arrivals: Arrivals, seed: u64) -> Pacing {
        Pacing::Constant {
            rate_per_sec: 2_000.0,
            arrivals,
            seed,
        }
    }

    /// What differs, as `what: value (option) / value (option)`.
    fn differences(one: &RunPlan, other: &RunPlan) -> Vec<String> {
        let pairs = one.load_options().into_iter().zip(other.load_options());
        let differing = pairs.filter(|(one, other)| one != other);
        let shown = |option: &PlanOption| format!("{} ({})", option.text(), option.in_command());
        differing
            .map(|(one, other)| {
                format!("{}: {} / {}", one.name.label(), shown(&one), shown(&other))
            })
            .collect()
    }

    type Change = fn(&mut RunPlan);

    #[test]
    fn plans_that_differ_in_an_option_of_the_load_do_not_make_the_same_load() {
        let changes: [(Change, &str); 29] = [
            (|plan| plan.load.threads = 3, "threads: 2 (-t2) / 3 (-t3)"),
            (
                |plan| plan.load.connections = 1_000,
                "connections: 10 (-c10) / 1,000 (-c1000)",
            ),
            (
                |plan| plan.load.pipeline = 4,
                "requests in flight per connection: 1 () / 4 (--pipeline 4)",
            ),
            (
                |plan| plan.tls.alpn = vec![Alpn::Http2, Alpn::Http1],
                "protocols offered over TLS: not set () / h2,http/1.1 (--alpn h2,http/1.1)",
            ),
            (
                |plan| plan.load.keepalive = false,
                "keep-alive: on () / off (--no-keepalive)",
            ),
            (
                |plan| plan.load.requests_per_connection = Some(7),
                "requests per connection: no limit () / 7 (--requests-per-connection 7)",
            ),
            (
                |plan| plan.load.connect_rate_per_sec = Some(500),
                "new connections per second: no limit () / 500 (--connect-rate 500)",
            ),
            (
                |plan| plan.load.idle_connections = 1_000,
                "idle connections: none () / 1,000 (--idle 1000)",
            ),
            (
                |plan| plan.load.source = Some(crate::SourceRange::parse("10.0.0.0/24").unwrap()),
                "source address: chosen by the kernel () / 10.0.0.0/24 (-b 10.0.0.0/24)",
            ),
            (
                |plan| plan.load.batch_latency = true,
                "latency of the last response of a batch only: not set () / yes (-B)",
            ),
            (
                |plan| plan.stop.duration = Some(Duration::from_millis(1_500)),
                "duration: 10 s (-d10s) / 1.5 s (-d1.5s)",
            ),
            (
                |plan| plan.stop.requests = Some(500),
                "requests: no limit () / 500 (-n500)",
            ),
            (
                |plan| plan.pacing = constant(Arrivals::Even, 0),
                "rate: closed loop () / 2,000 requests/s (-R2000)",
            ),
            (
                |plan| plan.warmup = Duration::from_secs(90),
                "warm-up: none () / 1 min 30 s (--warmup 1m30s)",
            ),
            (
                |plan| {
                    plan.warmup_auto = true;
                    plan.warmup = Duration::from_secs(30);
                },
                "warm-up: none () / auto (--warmup auto)",
            ),
            (
                |plan| plan.drain = Some(Duration::from_secs(30)),
                "drain: not set () / 30 s (--drain 30s)",
            ),
            (
                |plan| plan.timeout = Duration::ZERO,
                "timeout: 2 s (-T2s) / none (-T0s)",
            ),
            (
                |plan| plan.backend = BackendChoice::Epoll,
                "backend: auto () / epoll (--io epoll)",
            ),
            (
                |plan| plan.request.method = Some("PUT".to_owned()),
                "method: GET () / PUT (-X PUT)",
            ),
            (
                |plan| plan.request.headers = vec![("A".to_owned(), "b c".to_owned())],
                "headers: not set () / A: b c (-H 'A: b c')",
            ),
            (
                |plan| plan.request.script = Some("a.lua".into()),
                "script: not set () / a.lua (-s a.lua)",
            ),
            (
                |plan| plan.target.path = "/b".to_owned(),
                "path: / (/) / /b (/b)",
            ),
            (
                |plan| plan.target.port = Some("8080".to_owned()),
                "server: https://h:443 (https://h:443) / https://h:8080 (https://h:8080)",
            ),
            (
                |plan| plan.target.unix_socket = Some("/run/s".into()),
                "server: https://h:443 (https://h:443) / https over /run/s ('https over /run/s')",
            ),
            (
                |plan| plan.target.url = "https://u:p@h/".to_owned(),
                "user in the URL: no () / yes ((with a user))",
            ),
            (
                |plan| plan.tls.verify = true,
                "certificate verification: off () / on (--verify)",
            ),
            (
                |plan| plan.tls.cacert = Some("ca.pem".into()),
                "CA file: not set () / ca.pem (--cacert ca.pem)",
            ),
            (
                |plan| plan.tls.cert = Some("c.pem".into()),
                "client certificate: not set () / c.pem (--cert c.pem)",
            ),
            (
                |plan| plan.tls.key = Some("k.pem".into()),
                "client key: not set () / k.pem (--key k.pem)",
            ),
        ];
        let base = plan("https://h/");
        for (change, said) in changes {
            let mut changed = base.clone();
            change(&mut changed);
            assert_eq!(differences(&base, &changed), [said]);
            assert_ne!(base.load_options(), changed.load_options(), "{said}");
        }
    }

    #[test]
    fn formats_of_events_and_their_ends_make_different_loads() {
        let with = |format, end_marker: Option<&str>| {
            let mut plan = plan("https://h/");
            let end_marker = end_marker.map(str::to_owned);
            plan.events = Some(EventsSpec {
                format,
                end_marker,
                dialect: None,
            });
            plan
        };
        let (sse, lines) = (crate::EventsFormat::Sse, crate::EventsFormat::Lines);
        assert_eq!(
            differences(&plan("https://h/"), &with(lines, None)),
            [
                "events in responses: not set () / lines (--events lines)",
                "end marker of events: not set () / none ()"
            ]
        );
        assert_eq!(
            differences(&with(sse, None), &with(sse, Some(""))),
            ["end marker of events: [DONE] () /  (--events-end '')"]
        );
    }

    #[test]
    fn protocols_and_numbers_of_streams_make_different_loads() {
        let with = |protocol, streams| {
            let mut plan = plan("https://h/p.S/M");
            (plan.load.protocol, plan.load.streams) = (protocol, streams);
            plan
        };
        let http1 = with(Protocol::Http1, 1);
        let (http2, grpc) = (with(Protocol::Http2, 1), with(Protocol::Grpc, 1));
        assert_eq!(
            differences(&http2, &with(Protocol::Http2, 8)),
            ["streams per connection: 1 (-m1) / 8 (-m8)"]
        );
        assert_eq!(
            differences(&http1, &http2)[0],
            "protocol: HTTP/1.1 () / HTTP/2 (--http2)"
        );
        assert_eq!(
            differences(&http2, &grpc),
            [
                "protocol: HTTP/2 (--http2) / gRPC (--grpc)",
                "method: GET () / POST ()"
            ]
        );
        assert_eq!(http1.load_name(), "-t2 -c10");
        assert_eq!(with(Protocol::Grpc, 8).load_name(), "-t2 -c10 --grpc -m8");
        assert_eq!(with(Protocol::Http3, 1).load_name(), "-t2 -c10 --http3 -m1");
        assert_eq!(
            with(Protocol::GrpcHttp3, 1).load_name(),
            "-t2 -c10 --grpc --http3 -m1"
        );
        assert_eq!(
            with(Protocol::Http2, 8).load_in_words(),
            "2 threads, 10 connections, closed loop, HTTP/2, 8 streams per connection"
        );
    }

    #[test]
    fn seed_telemetry_secrets_and_what_has_no_effect_make_no_other_load() {
        let mut one = plan("http://h/");
        let mut other = plan("http://h:80/");
        one.pacing = constant(Arrivals::Poisson, 1);
        other.pacing = constant(Arrivals::Poisson, 2);
        other.tls.verify = true;
        other.request.method = Some("GET".to_owned());
        one.request.headers = vec![("Authorization".to_owned(), "Bearer one".to_owned())];
        other.request.headers = vec![("Authorization".to_owned(), "***".to_owned())];
        other.telemetry = Some(TelemetrySpec {
            sockets: None,
            interval: Duration::from_secs(1),
            counters: true,
        });
        // The header is what is sent, so it may differ by the port.
        other.target.host_header.clone_from(&one.target.host_header);
        assert_eq!(differences(&one, &other), [""; 0]);
        assert_eq!(one.load_options(), other.load_options());
    }

    #[test]
    fn values_that_look_alike_in_words_are_still_different() {
        let with = |headers: &[(&str, &str)]| {
            let mut plan = plan("http://h/");
            let headers = headers.iter();
            let owned = headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            plan.request.headers = owned.collect();
            plan
        };
        assert_ne!(
            with(&[("A", "1, B: 2")]).load_options(),
            with(&[("A", "1"), ("B", "2")]).load_options()
        );
    }

    #[test]
    fn the_name_of_a_load_has_neither_times_nor_the_target() {
        let mut plan = plan("http://h/");
        assert_eq!(plan.load_name(), "-t2 -c10");
        plan.load.pipeline = 4;
        plan.load.batch_latency = true;
        plan.pacing = constant(Arrivals::Gamma { shape: 0.5 }, 7);
        plan.request.body = Some(Body::Inline(b"x".repeat(100)));
        plan.request.script_args = vec!["a b".to_owned()];
        let body = "x".repeat(60);
        assert_eq!(
            plan.load_name(),
            format!(
                "-t2 -c10 -R2000 --arrivals gamma:0.5 --pipeline 4 -B \
                 --body {body}... (100 characters) 'a b'"
            )
        );
    }

    #[test]
    fn load_and_end_are_described_in_a_phrase() {
        let mut plan = plan("http://h/");
        assert_eq!(
            plan.load_in_words(),
            "2 threads, 10 connections, closed loop"
        );
        plan.load = Load {
            threads: 1,
            connections: 1,
            pipeline: 4,
            keepalive: false,
            ..Load::default()
        };
        plan.pacing = constant(Arrivals::Poisson, 7);
        assert_eq!(
            plan.load_in_words(),
            "1 thread, 1 connection, 2,000 requests/s, Poisson arrivals, \
             4 requests in flight per connection, one request per connection"
        );
        plan.pacing = constant(Arrivals::Gamma { shape: 0.5 }, 7);
        assert_eq!(
            plan.load_in_words(),
            "1 thread, 1 connection, 2,000 requests/s, gamma arrivals of shape 0.5, \
             4 requests in flight per connection, one request per connection"
        );
        assert_eq!(plan.end_in_words(), "10 s");
        plan.stop.requests = Some(1_000);
        assert_eq!(plan.end_in_words(), "10 s or 1,000 requests");
    }

    #[test]
    fn a_plan_that_is_not_text_has_no_command() {
        let mut plan = plan("http://h/");
        plan.request.body = Some(Body::Inline(vec![0xff]));
        assert_eq!(plan.command(), None);
        plan.request.body = Some(Body::File("b.bin".into()));
        plan.request.script_args = vec!["-x".to_owned()];
        let words = plan.command().unwrap().join(" ");
        assert_eq!(
            words,
            "wrkbench run -t2 -c10 -d10s -T2s --body-file b.bin http://h/ -- -x"
        );
    }

    #[test]
    fn facts_are_what_is_set_and_what_has_a_default() {
        let facts = plan("http://h/").facts();
        let fact = |label: &str| {
            let found = facts.iter().find(|(name, _)| name == label);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(fact("URL"), Some("http://h/"));
        assert_eq!(fact("Timeout"), Some("2 s"));
        assert_eq!(fact("Rate"), Some("closed loop"));
        assert_eq!(fact("Method"), Some("GET"));
        for absent in [
            "Arrivals",
            "Seed",
            "Server",
            "Script",
            "Certificate verification",
        ] {
            assert_eq!(fact(absent), None, "{absent}");
        }
    }

    /// A value with which the option changes a plan.
    fn example(spec: &OptionSpec, setter: Setter) -> &'static str {
        match (spec.long, setter) {
            ("connection-stages" | "stages", _) => "1:1s",
            ("rate" | "speed", _) => "3",
            ("bind-ip", _) => "10.0.0.1",
            ("header" | "proxy-header", _) => "A: b",
            ("user", _) => "u:p",
            ("alpn", _) => "h2",
            ("call", _) => "a.B/C",
            ("grpc-timeout", _) => "3s",
            ("proxy", _) => "p:1",
            ("good", _) => "latency<1s",
            ("traceparent", _) => "1/100",
            ("warmup" | "delay-stats", _) => "auto",
            ("arrivals", _) => "gamma:0.5",
            (_, Setter::Count(_) | Setter::CountU32(_)) => "3",
            (_, Setter::Time(_)) => "3s",
            _ => spec.choices.last().unwrap_or(&"text"),
        }
    }

    #[test]
    fn each_option_changes_what_is_shown_of_a_plan() {
        let target = || Target::parse("https://h/").expect("a URL");
        for spec in OPTIONS {
            let Some(setter) = spec.setter else { continue };
            let needed: &[&str] = match (spec.long, &spec.requires) {
                ("seed", _) => &["rate", "arrivals"],
                ("arrivals", _) => &["rate"],
                ("speed", _) => &["replay"],
                ("warmup-limit", _) => &["warmup"],
                ("order", _) => &["request-file"],
                ("interval", _) => &["counters"],
                ("proto-path", _) => &["grpc", "proto"],
                (_, required) => required.as_slice(),
            };
            let mut given = GivenOptions::default();
            let add = |given: &mut GivenOptions, spec: &'static OptionSpec, setter: Setter| {
                given.add(spec, vec![example(spec, setter).into()]);
            };
            for long in needed {
                let needed = find_option(long).expect("an option");
                add(&mut given, needed, needed.setter.expect("a setter"));
            }
            let without = given.plan(target()).expect("a plan");
            add(&mut given, spec, setter);
            let with = given.plan(target()).expect("a plan");
            assert_ne!(with.options(), without.options(), "--{}", spec.long);
        }
    }

    #[test]
    fn each_choice_of_an_option_is_one_that_it_takes() {
        for spec in OPTIONS {
            let Some(setter) = spec.setter else { continue };
            for choice in spec.choices {
                let mut plan = plan("https://h/");
                plan.pacing = constant(Arrivals::Even, 0);
                let set = setter.set(&mut plan, choice.as_ref());
                assert_eq!(set, Ok(()), "--{} {choice}", spec.long);
            }
        }
    }

    #[test]
    fn a_default_in_the_help_is_that_of_a_plan() {
        let target = || Target::parse("https://h/").expect("a URL");
        let without = GivenOptions::default().plan(target()).expect("a plan");
        for spec in OPTIONS {
            let Some(default) = spec.default else {
                continue;
            };
            let mut given = GivenOptions::default();
            given.add(spec, vec![default.into()]);
            let with = given.plan(target()).expect("a plan");
            assert_eq!(with, without, "--{} {default}", spec.long);
        }
    }

    #[test]
    fn names_of_options_and_labels_are_unique() {
        let longs = OPTIONS.iter().map(|spec| spec.long);
        let mut longs: Vec<&str> = longs.filter(|long| !long.is_empty()).collect();
        let shown = OPTIONS.iter().filter_map(|spec| spec.shown);
        let mut labels: Vec<&str> = shown.map(|(name, ..)| name.label()).collect();
        for names in [&mut longs, &mut labels] {
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
        for name in [
            OptionName::ARRIVALS,
            OptionName::BACKEND,
            OptionName::BODY,
            OptionName::CONNECTIONS,
            OptionName::DURATION,
            OptionName::PATH,
            OptionName::SCRIPT_ARGUMENTS,
            OptionName::SERVER,
            OptionName::SOCKETS,
            OptionName::TIMEOUT,
        ] {
            assert!(labels.contains(&name.label()), "{name:?}");
        }
    }

    #[test]
    fn times_have_a_space_before_each_unit() {
        for (ms, text) in [
            (500, "500 ms"),
            (1_500, "1.5 s"),
            (60_000, "1 min"),
            (90_000, "1 min 30 s"),
            (3_600_000, "1 h"),
            (3_660_250, "1 h 1 min 250 ms"),
        ] {
            assert_eq!(time_text(Duration::from_millis(ms)), text);
        }
    }
}
