//! wrk's scripting interface on LuaJIT, as a source of requests.
//!
//! A script runs in `threads + 1` Lua states that share nothing. The main state resolves the
//! target, sets up every thread and gets the results. Each thread's state makes the requests of
//! that thread:
//!
//! 1. [`Script::load`]: the main state runs the script's top level, then `wrk.resolve`.
//! 2. [`Script::start`]: for each thread, its state runs the top level, the main state runs
//!    `setup(thread)`, and the thread's state runs `init(args)`.
//! 3. The run: workers call the sources that `start` returned (`request`, `delay`, `response`).
//! 4. [`Script::done`]: the main state runs `done(summary, latency, requests)`.
//!
//! Scripts access the network only through the given [`Network`].

#![warn(missing_docs)]

mod api;
mod lifecycle;
mod source;
mod state;
#[cfg(target_feature = "crt-static")]
mod static_loader;
// Without optimization its functions would call themselves.
#[cfg(all(
    target_arch = "x86_64",
    any(test, all(target_env = "musl", not(debug_assertions)))
))]
mod static_memory;
mod statistics;
mod transfer;

use std::fmt;
use std::path::Path;

pub use engine::source::Address;
pub use lifecycle::Script;
pub use state::{divert_stdout, flush_stdout};

/// The command line, as far as scripts see it (the `wrk` table and `args`).
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// The script file. With `None`, Lua makes the default requests.
    pub path: Option<&'a Path>,
    /// The URL as typed: `args[0]`.
    pub url: &'a str,
    /// `wrk.scheme`: `http` or `https`. Also the service to resolve if there is no port.
    pub scheme: &'a str,
    /// `wrk.host`: name or address, without brackets.
    pub host: &'a str,
    /// `wrk.port`: the digits in the URL, if any.
    pub port: Option<&'a str>,
    /// `wrk.path`: path and query, starting with `/`.
    pub request_path: &'a str,
    /// `wrk.method`: `GET` unless the plan has another one.
    pub method: &'a str,
    /// `wrk.headers`, in the given order. The last of equal names wins.
    pub headers: &'a [(String, String)],
    /// `wrk.body`: the body of requests, if there is one.
    pub body: Option<&'a [u8]>,
    /// `args[1]` and following: the arguments after the URL.
    pub args: &'a [String],
    /// Number of workers. [`Script::start`] makes one source for each.
    pub threads: u32,
    /// Number of workers on other machines of the run that come before these (`thread.number`).
    pub worker_base: u32,
    /// A folder with modules that came with the script. It is searched first.
    pub modules: Option<&'a Path>,
}

/// Why a host has no address, or an address accepts no connection; one line without either.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NetworkError(String);

impl NetworkError {
    /// A failure with this reason.
    pub fn new(reason: impl ToString) -> Self {
        Self(reason.to_string())
    }
}

/// The network access of scripts: `wrk.lookup` and `wrk.connect`.
pub trait Network {
    /// Addresses of a host, in the resolver's order. `service` is a port or a name such as `http`.
    ///
    /// # Errors
    /// The resolver's reason, without host and service, e.g. `Name or service not known`.
    fn lookup(&self, host: &str, service: &str) -> Result<Vec<Address>, NetworkError>;

    /// Checks that the address accepts a connection at the moment. Blocks.
    ///
    /// # Errors
    /// Why it does not, e.g. `Connection refused`.
    fn connect(&self, address: &Address) -> Result<(), NetworkError>;
}

/// A phase of a script, named in its error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The top level of the script file.
    Loading,
    /// `wrk.resolve`, in the main state.
    Resolve,
    /// `setup(thread)`, in the main state.
    Setup,
    /// `init(args)`, in a thread's state.
    Init,
    /// `request()`, or the default request.
    Request,
    /// `response(status, headers, body)`, in a thread's state.
    Response,
    /// `delay()`, in a thread's state.
    Delay,
    /// `done(summary, latency, requests)`, in the main state.
    Done,
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Loading => "while loading",
            Self::Resolve => "in resolve",
            Self::Setup => "in setup",
            Self::Init => "in init",
            Self::Request => "in request",
            Self::Response => "in response",
            Self::Delay => "in delay",
            Self::Done => "in done",
        })
    }
}

/// Why a script failed. The text is one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// Lua raised an error, or a function returned something unusable. The message has file and
    /// line: `auth.lua:12: attempt to index a nil value (in request)`.
    #[error("{message} ({phase})")]
    Failed {
        /// The phase that failed.
        phase: Phase,
        /// The message, with its position.
        message: String,
    },
    /// The first request of the script is not HTTP: `<reason> at <line>:<column> (in request)`.
    #[error("{reason} (in request)")]
    InvalidRequest {
        /// Reason and position within the text of the request.
        reason: String,
    },
    /// The host or service cannot be resolved.
    #[error("{message}")]
    Unresolved {
        /// `unable to resolve <host>:<service> <reason>`.
        message: String,
    },
    /// No address of the target accepts a connection.
    #[error("unable to connect to {target} {reason}")]
    Unreachable {
        /// Host and service: `<host>:<service>`.
        target: String,
        /// Why the last address that was tried does not, or that the script returned none.
        reason: String,
    },
}
