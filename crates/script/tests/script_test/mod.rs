//! A script with its environment: settings, a network without sockets, a finished run.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::source::{Address, Captured, RequestSource};
use plan::{Load, Pacing, RunPlan, Stop, Target};
use results::{Recording, RunResult, Window};
use script::{Network, NetworkError, Script, ScriptError, Settings};
use testkit::Folder;

/// Knows two hosts, and records its calls.
#[derive(Default)]
pub struct FakeNetwork {
    /// Addresses that refuse connections.
    pub refusing: Vec<Address>,
    /// Every call, in words.
    pub calls: Mutex<Vec<String>>,
}

impl Network for FakeNetwork {
    fn lookup(&self, host: &str, service: &str) -> Result<Vec<Address>, NetworkError> {
        self.calls
            .lock()
            .unwrap()
            .push(format!("lookup {host}:{service}"));
        let port = match service {
            "http" => 80,
            "https" => 443,
            digits => digits
                .parse()
                .map_err(|_| NetworkError::new("Servname not supported"))?,
        };
        match host {
            "one.test" | "127.0.0.1" => Ok(vec![tcp(&format!("127.0.0.1:{port}"))]),
            "two.test" => Ok(vec![
                tcp(&format!("127.0.0.1:{port}")),
                tcp(&format!("[::1]:{port}")),
            ]),
            "::1" => Ok(vec![tcp(&format!("[::1]:{port}"))]),
            "empty.test" => Ok(Vec::new()),
            _ => Err(NetworkError::new("Name or service not known")),
        }
    }

    fn connect(&self, address: &Address) -> Result<(), NetworkError> {
        self.calls
            .lock()
            .unwrap()
            .push(format!("connect {address:?}"));
        if self.refusing.contains(address) {
            Err(NetworkError::new("Connection refused"))
        } else {
            Ok(())
        }
    }
}

pub fn tcp(text: &str) -> Address {
    Address::Tcp(text.parse().unwrap())
}

/// A script and its command line.
pub struct ScriptTest {
    pub path: Option<PathBuf>,
    pub url: String,
    pub host: String,
    pub port: Option<String>,
    pub request_path: String,
    pub method: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    pub args: Vec<String>,
    pub threads: u32,
    pub worker_base: u32,
    pub modules: Option<PathBuf>,
    pub network: Arc<FakeNetwork>,
}

impl ScriptTest {
    /// The command line without a script.
    pub fn bare() -> Self {
        Self {
            path: None,
            url: "http://one.test:8080/path?q=1".to_owned(),
            host: "one.test".to_owned(),
            port: Some("8080".to_owned()),
            request_path: "/path?q=1".to_owned(),
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: None,
            args: Vec::new(),
            threads: 1,
            worker_base: 0,
            modules: None,
            network: Arc::default(),
        }
    }

    /// With a script file of this text.
    pub fn script(text: &str) -> Self {
        Self {
            path: Some(file("script.lua", text)),
            ..Self::bare()
        }
    }

    /// With an existing script file.
    pub fn script_at(path: impl AsRef<Path>) -> Self {
        Self {
            path: Some(path.as_ref().to_owned()),
            ..Self::bare()
        }
    }

    pub fn threads(mut self, threads: u32) -> Self {
        self.threads = threads;
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn args(mut self, args: &[&str]) -> Self {
        self.args = args.iter().map(|&arg| arg.to_owned()).collect();
        self
    }

    pub fn load(&self) -> Result<Script, ScriptError> {
        self.load_with(Arc::clone(&self.network) as _)
    }

    pub fn load_with(
        &self,
        network: Arc<dyn Network + Send + Sync>,
    ) -> Result<Script, ScriptError> {
        Script::load(&self.settings(), network)
    }

    /// Loads a script whose threads are on other machines.
    pub fn load_for_done(&self) -> Result<Script, ScriptError> {
        Script::load_for_done(&self.settings(), Arc::clone(&self.network) as _)
    }

    fn settings(&self) -> Settings<'_> {
        Settings {
            path: self.path.as_deref(),
            url: &self.url,
            scheme: "http",
            host: &self.host,
            port: self.port.as_deref(),
            request_path: &self.request_path,
            method: &self.method,
            headers: &self.headers,
            body: self.body.as_deref(),
            args: &self.args,
            threads: self.threads,
            worker_base: self.worker_base,
            modules: self.modules.as_deref(),
        }
    }

    /// Loads and starts the script.
    pub fn start(&self) -> Result<(Script, Vec<Box<dyn RequestSource>>), ScriptError> {
        let mut script = self.load()?;
        let sources = script.start()?;
        Ok((script, sources))
    }

    /// Loads and starts a script with one thread, which must succeed.
    pub fn one(&self) -> (Script, Box<dyn RequestSource>) {
        let (script, mut sources) = self.start().unwrap();
        assert_eq!(sources.len(), 1);
        (script, sources.remove(0))
    }

    /// The message of a script that must fail before the run.
    pub fn failure(&self) -> String {
        match self.start() {
            Ok(_) => panic!("the script should not start"),
            Err(error) => one_line(error.to_string()),
        }
    }

    /// Runs `done` after an empty run, for scripts that check something with assert.
    pub fn check(&self) {
        let (mut script, _sources) = self.start().unwrap();
        script.done(&run_result(Recording::new())).unwrap();
    }
}

/// The next batch as text.
pub fn next(source: &mut Box<dyn RequestSource>) -> String {
    let mut batch = Vec::new();
    source.next(0, &mut batch).unwrap();
    String::from_utf8(batch).unwrap()
}

/// The message of a batch that must fail.
pub fn next_failure(source: &mut Box<dyn RequestSource>) -> String {
    let mut batch = Vec::new();
    one_line(source.next(0, &mut batch).unwrap_err().message)
}

/// A response with this status, headers and body.
pub fn response(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Captured {
    let bytes = |text: &str| text.as_bytes().to_vec();
    Captured {
        status,
        headers: headers
            .iter()
            .map(|(name, value)| (bytes(name), bytes(value)))
            .collect(),
        body: body.to_vec(),
    }
}

/// Checks that a message is one line without control characters.
pub fn one_line(message: String) -> String {
    assert!(
        !message.chars().any(char::is_control),
        "not one clean line: {message:?}"
    );
    message
}

/// A finished run of two seconds with this recording.
pub fn run_result(recording: Recording) -> RunResult {
    let window = Window {
        duration_ns: 2_000_000_000,
        ..Window::default()
    };
    RunResult {
        recording,
        ..RunResult::new(plan(), window)
    }
}

/// The same for a run at 1000 requests per second.
pub fn rate_result(recording: Recording) -> RunResult {
    let mut result = run_result(recording);
    result.plan.pacing = Pacing::Constant {
        rate_per_sec: 1000.0,
        arrivals: plan::Arrivals::Even,
        seed: 0,
    };
    result
}

fn plan() -> RunPlan {
    let target = Target::parse("http://one.test/").unwrap();
    RunPlan {
        load: Load {
            threads: 1,
            connections: 1,
            ..Load::default()
        },
        stop: Stop {
            duration: Some(Duration::from_secs(2)),
            requests: None,
        },
        ..RunPlan::new(target)
    }
}

/// A file for this test, in a folder that is removed when the thread of the test ends.
pub fn file(name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    thread_local! {
        static FOLDERS: RefCell<Vec<Folder>> = const { RefCell::new(Vec::new()) };
    }
    let folder = Folder::new();
    let path = folder.file_with(name, text);
    FOLDERS.with_borrow_mut(|folders| folders.push(folder));
    path.into()
}
