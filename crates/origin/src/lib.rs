//! The built-in server: answers as fast as it can, or as slowly and wrongly as it is told to.
//!
//! ```
//! let options = origin::Options::default().with_defaults("size=1k&delay=1ms").unwrap();
//! let server = origin::Server::start(options).unwrap();
//! println!("serving {}", server.url());
//! let truth = server.stop();
//! assert_eq!(truth.counts.requests, 0);
//! ```
//!
//! One thread, one event loop. A request whose bytes were seen before is recognised by comparing
//! them, and answered with bytes that the loop keeps; everything else goes through the parser, the
//! option language and a list of steps ("plan"), which a connection walks. Connections know no
//! socket and no clock.
//!
#![doc = include_str!("../../../docs/serve.md")]
#![forbid(unsafe_code)]

mod answer;
mod connection;
mod delay;
mod fault;
mod listener;
mod options;
mod plan;
mod quantity;
mod recipes;
mod request;
mod response;
mod schedule;
mod server;
mod site;
mod timers;
mod tls;
mod truth;
mod worker;

pub use answer::{Answer, CHUNK_DEFAULT_BYTES, Closing, SIZE_DEFAULT_BYTES, Version};
pub use delay::Delay;
pub use eventloop::Address;
pub use fault::{BadChunk, Fault};
pub use options::{
    Backend, Greeting, LOG_REQUESTS_DEFAULT, Options, parse_backend, parse_greeting, parse_listen,
    parse_stall,
};
pub use quantity::{
    DURATION_MAX_NS, parse_bytes, parse_count, parse_duration_ns, parse_probability,
};
pub use schedule::Stall;
pub use server::Server;
pub use site::STATS_TARGET;
pub use tls::{Identity, TlsSettings, TlsVersions};
pub use truth::{Counts, RequestTruth, Truth};
