//! The built-in server: responds as fast as it can, or with configured delays and faults.
//!
//! ```
//! let options = origin::Options::default().with_defaults("size=1k&delay=1ms").unwrap();
//! let server = origin::Server::start(options).unwrap();
//! println!("serving {}", server.url());
//! let report = server.stop();
//! assert_eq!(report.counts.requests, 0);
//! ```
//!
//! Each worker thread has one event loop. A request whose bytes were seen before is recognized by
//! comparison and answered with bytes that the loop keeps. All others go through the parser and the
//! recipe language, which yields a list of steps that the connection executes. Connections know
//! neither sockets nor clocks. `docs/serve.md` describes recipes and faults.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cache;
mod calls;
mod connection;
mod context;
mod events;
mod fault;
mod http2;
mod http3;
mod listener;
mod llm;
mod options;
mod parameters;
mod prepared;
mod recipe;
mod report;
mod request;
mod response;
mod schedule;
mod server;
mod streams;
mod timers;
mod tls;
mod worker;

pub use context::STATS_TARGET;
pub use eventloop::Address;
pub use events::EventStream;
pub use fault::{End, Fault, Sent};
pub use llm::{Finish, LlmStream, Usage};
pub use options::{
    Backend, Greeting, Http2Settings, Http3Settings, LOG_REQUESTS_DEFAULT, Options, parse_backend,
    parse_greeting, parse_listen, parse_slow_start, parse_stall,
};
pub use parameters::{FAULTS, PARAMETERS, STREAM_PARAMETERS};
pub use plan::distribution::{Count, Delay};
pub use plan::quantity::{
    DURATION_MAX_NS, parse_bytes, parse_count, parse_duration_ns, parse_probability,
};
pub use recipe::{CHUNK_DEFAULT_BYTES, Closing, Recipe, SIZE_DEFAULT_BYTES, Version};
pub use report::{Counts, Generated, LoggedRequest, ServerReport};
pub use schedule::{SlowStart, Stall};
pub use server::Server;
pub use tls::{Identity, TlsSettings, TlsVersions};

use plan::{distribution as delay, quantity};
