//! Requests from a file: reads lists of URLs, vegeta's targets, JSON lines, `.http` files and
//! access logs, and makes the bytes that are sent. With types, bodies are messages of gRPC calls.
//!
//! [`load`] makes a [`RequestSet`] of a file: the bytes of every request, with gaps where templates
//! such as `{{uuid}}` put a value. A [`Renderer`] belongs to one worker. It chooses the next
//! request and fills the gaps, without allocating memory for each request.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod access_log;
mod call;
mod capture;
mod compile;
pub mod conversations;
mod csv;
mod entry;
mod error;
mod form;
mod http_file;
mod json_lines;
mod lines;
mod moments;
mod order;
mod pieces;
mod render;
mod scope;
mod set;
mod targets;
mod template;

pub use access_log::{LogError, LogOptions, LogSummary, load_log};
pub use compile::{Calls, Defaults, load, load_with_moments};
pub use entry::{FilePace, Inputs, first_target, pace, self_contained};
pub use error::FileError;
pub use render::{Moment, Renderer};
pub use set::{MAX_HOSTS, MAX_NAMES, RecordedRequests, RequestSet, UNNAMED};
