//! The life cycle of a script: load, start, run, done.

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex};

use engine::source::{Address, Batch, RequestSource};
use protocol::request;
use results::RunResult;

use crate::api::{self, MainShared, SharedNetwork, Thread, ThreadControl, lock};
use crate::source::{Features, ScriptSource, make_request};
use crate::state::{self, LuaState, ScriptText};
use crate::statistics::{Statistics, summary};
use crate::transfer::Value;
use crate::{Network, Phase, ScriptError, Settings};

const WRK_LUA: &str = include_str!("wrk.lua");

/// A loaded script with its states: the main state and, once started, one state per thread.
pub struct Script {
    main: LuaState,
    shared: MainShared,
    template: StateTemplate,
    addresses: Vec<Address>,
    has_done: bool,
}

/// What is needed to make another state.
struct StateTemplate {
    script: Option<ScriptText>,
    given: Value,
    args: Value,
    threads: u32,
    network: SharedNetwork,
}

impl Script {
    /// Runs the script's top level in the main state, then `wrk.resolve(host, service)`.
    ///
    /// # Errors
    /// If the file cannot be read or fails, the host is unknown, or no address accepts a
    /// connection.
    pub fn load(
        settings: &Settings<'_>,
        network: Arc<dyn Network + Send + Sync>,
    ) -> Result<Self, ScriptError> {
        let mut script = Self::main_state(settings, network)?;
        script.addresses = script.resolve(settings)?;
        script.has_done = defined(&mut script.main, "done")?;
        Ok(script)
    }

    fn main_state(
        settings: &Settings<'_>,
        network: Arc<dyn Network + Send + Sync>,
    ) -> Result<Self, ScriptError> {
        let template = StateTemplate::new(settings, network)?;
        let shared = MainShared::default();
        let main = template.state(api::main_natives(&template.network, &shared))?;
        Ok(Self {
            main,
            shared,
            template,
            addresses: Vec::new(),
            has_done: false,
        })
    }

    /// Runs the script's top level in the main state, for a script whose threads are on other
    /// machines. Only [`done`](Self::done) can be called; the script then has no threads.
    ///
    /// # Errors
    /// If the file cannot be read or fails.
    pub fn load_for_done(
        settings: &Settings<'_>,
        network: Arc<dyn Network + Send + Sync>,
    ) -> Result<Self, ScriptError> {
        let mut script = Self::main_state(settings, network)?;
        script.has_done = defined(&mut script.main, "done")?;
        Ok(script)
    }

    /// Prepares all threads in order, and returns their sources in the same order.
    ///
    /// For each thread: top level in its own state, `setup(thread)` in the main state, `init(args)`
    /// in its own state. After `init` of the first thread, its first request is made and checked.
    /// This request is made in addition to those that will be sent, as in wrk.
    ///
    /// # Errors
    /// If any of these fails, or the first request is not HTTP.
    pub fn start(&mut self) -> Result<Vec<Box<dyn RequestSource>>, ScriptError> {
        let mut sources: Vec<ScriptSource> = Vec::new();
        let mut features = None;
        for number in 1..=self.template.threads {
            let thread = self.prepare_thread(number)?;
            let mut state = lock(&thread.state);
            let features = match features {
                Some(known) => known,
                None => *features.insert(detect(&mut state)?),
            };
            let fixed = first_batch(&mut state, features, number == 1)?;
            drop(state);
            sources.push(ScriptSource::new(
                thread.state,
                thread.control,
                features,
                fixed,
            ));
        }
        // `setup` may have defined it.
        self.has_done = defined(&mut self.main, "done")?;
        for thread in lock(&self.shared.threads).iter() {
            thread.control.begin_run();
        }
        Ok(sources
            .into_iter()
            .map(|source| Box::new(source) as Box<dyn RequestSource>)
            .collect())
    }

    /// Calls `done(summary, latency, requests)` in the main state, if the script defines it.
    ///
    /// # Errors
    /// If it fails.
    pub fn done(&mut self, result: &RunResult) -> Result<(), ScriptError> {
        if !self.has_done {
            return Ok(());
        }
        let statistics = Statistics::of_result(result);
        let arguments = [
            summary(result),
            statistics.of("latency").to_value(),
            statistics.of("requests").to_value(),
        ];
        *lock(&self.shared.statistics) = Some(statistics);
        self.main
            .call(c"done", &arguments)
            .map(drop)
            .map_err(failed(Phase::Done))
    }

    /// Notes for the user after [`done`](Self::done), in whole sentences, without duplicates.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.shared.notes))
    }

    /// The target's addresses that accept connections (or those that a script's own `wrk.resolve`
    /// has put into `wrk.addrs`), at least one. Threads connect to the first, unless the script
    /// changes that ([`RequestSource::take_address`]).
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Whether the script defines `done`.
    pub fn has_done(&self) -> bool {
        self.has_done
    }

    /// Where `require` looks for modules written in Lua: the entries of `package.path`.
    ///
    /// # Errors
    /// If the script has replaced it with something else.
    pub fn module_paths(&mut self) -> Result<Vec<String>, ScriptError> {
        let path = self.main.call(c"module_path", &[]);
        let path = path.map_err(failed(Phase::Loading))?;
        let path = String::from_utf8_lossy(path.as_text().unwrap_or_default()).into_owned();
        Ok(path.split(';').map(str::to_owned).collect())
    }

    fn resolve(&mut self, settings: &Settings<'_>) -> Result<Vec<Address>, ScriptError> {
        let service = settings.port.unwrap_or(settings.scheme);
        let arguments = [Value::text(settings.host), Value::text(service)];
        let texts = self.main.call(c"resolve", &arguments).map_err(|message| {
            if message.starts_with(api::UNRESOLVED) {
                ScriptError::Unresolved { message }
            } else {
                ScriptError::Failed {
                    phase: Phase::Resolve,
                    message,
                }
            }
        })?;
        let texts = texts.into_list();
        let addresses: Vec<Address> = texts
            .iter()
            .filter_map(Value::as_text)
            .filter_map(api::parse_address)
            .collect();
        if addresses.is_empty() {
            let refusal = lock(&self.shared.refusal).take();
            return Err(ScriptError::Unreachable {
                target: format!("{}:{service}", settings.host),
                reason: refusal.map_or_else(|| "no address".to_owned(), |error| error.to_string()),
            });
        }
        Ok(addresses)
    }

    fn prepare_thread(&mut self, number: u32) -> Result<Thread, ScriptError> {
        let first = self.addresses.first().cloned().ok_or_else(no_address)?;
        let control = Arc::new(ThreadControl::new(first));
        let natives = api::worker_natives(&self.template.network, &control);
        let mut state = self.template.state(natives)?;
        let index = [Value::Number(f64::from(number))];
        state
            .call(c"attach", &index)
            .map_err(failed(Phase::Loading))?;
        let thread = Thread {
            state: Arc::new(Mutex::new(state)),
            control,
        };
        lock(&self.shared.threads).push(thread.clone());
        self.main
            .call(c"setup", &index)
            .map_err(failed(Phase::Setup))?;
        let args = std::slice::from_ref(&self.template.args);
        lock(&thread.state)
            .call(c"init", args)
            .map_err(failed(Phase::Init))?;
        Ok(thread)
    }
}

impl StateTemplate {
    fn new(settings: &Settings<'_>, network: SharedNetwork) -> Result<Self, ScriptError> {
        let script = settings
            .path
            .map(ScriptText::read)
            .transpose()
            .map_err(failed(Phase::Loading))?;
        let given = given(settings);
        let args = args(settings);
        Ok(Self {
            script,
            given,
            args,
            threads: settings.threads,
            network,
        })
    }

    /// A state in which the script's top level has run.
    fn state(&self, natives: Vec<(&'static CStr, state::Native)>) -> Result<LuaState, ScriptError> {
        let mut state =
            LuaState::new(WRK_LUA, natives, &self.given).map_err(failed(Phase::Loading))?;
        if let Some(script) = &self.script {
            state.run_script(script).map_err(failed(Phase::Loading))?;
        }
        Ok(state)
    }
}

/// The `given` table, from which wrk.lua makes the `wrk` table.
fn given(settings: &Settings<'_>) -> Value {
    let mut headers: Vec<(String, &str)> = Vec::new();
    for (name, value) in settings.headers {
        let name = canonical_spelling(name);
        match headers.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = value,
            None => headers.push((name, value)),
        }
    }
    let ordered = headers
        .iter()
        .map(|(name, _)| name)
        .filter(|name| !is_placed(name));
    let order = Value::list(ordered.map(Value::text));
    let pairs = headers
        .iter()
        .map(|(name, value)| (Value::text(name), Value::text(value)));
    Value::record([
        ("scheme", Value::text(settings.scheme)),
        ("host", Value::text(settings.host)),
        ("port", Value::optional_text(settings.port)),
        ("method", Value::text(settings.method)),
        ("path", Value::text(settings.request_path)),
        ("header_order", order),
        ("headers", Value::Table(pairs.collect())),
        ("body", Value::optional_text(settings.body)),
        (
            "worker_base",
            Value::Number(f64::from(settings.worker_base)),
        ),
        (
            "modules",
            Value::optional_text(settings.modules.map(|folder| folder.as_os_str().as_bytes())),
        ),
        (
            "static",
            Value::Boolean(cfg!(target_feature = "crt-static")),
        ),
    ])
}

/// Headers that `wrk.format` knows by name get one spelling, so that none is sent twice.
fn canonical_spelling(name: &str) -> String {
    let known = [HOST, CONTENT_LENGTH]
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(name));
    known.unwrap_or(name).to_owned()
}

const HOST: &str = "Host";
const CONTENT_LENGTH: &str = "Content-Length";

/// Whether `wrk.format` puts the header in a fixed position: first or last.
fn is_placed(name: &str) -> bool {
    name == HOST || name == CONTENT_LENGTH
}

/// The table of `init`: the URL at 0, arguments from 1.
fn args(settings: &Settings<'_>) -> Value {
    let all = std::iter::once(settings.url).chain(settings.args.iter().map(String::as_str));
    let numbered = (0u32..).zip(all);
    Value::Table(
        numbered
            .map(|(key, text)| (Value::Number(f64::from(key)), Value::text(text)))
            .collect(),
    )
}

/// What the script defines, checked after `init`.
fn detect(state: &mut LuaState) -> Result<Features, ScriptError> {
    Ok(Features {
        dynamic: defined(state, "request")?,
        response: defined(state, "response")?,
        delay: defined(state, "delay")?,
    })
}

fn defined(state: &mut LuaState, name: &str) -> Result<bool, ScriptError> {
    let answer = state
        .call(c"defined", &[Value::text(name)])
        .map_err(failed(Phase::Init))?;
    Ok(answer == Value::Boolean(true))
}

/// Makes and checks the fixed batch or, for the first thread, the first request of `request`.
fn first_batch(
    state: &mut LuaState,
    features: Features,
    is_first: bool,
) -> Result<Option<Batch>, ScriptError> {
    if features.dynamic && !is_first {
        return Ok(None);
    }
    let mut batch = Batch::new();
    make_request(state, &mut batch)?;
    request::scan(&batch, &mut Vec::new()).map_err(|error| ScriptError::InvalidRequest {
        reason: error.to_string(),
    })?;
    Ok((!features.dynamic).then_some(batch))
}

fn failed(phase: Phase) -> impl Fn(String) -> ScriptError {
    move |message| ScriptError::Failed { phase, message }
}

fn no_address() -> ScriptError {
    failed(Phase::Resolve)("there is no address to connect to".to_owned())
}
