//! What the tests of several crates share. A development dependency only: no program contains it.
//!
//! - [`Folder`]: a temporary folder, removed with its test
//! - [`Process`]: a program that runs next to the test and never outlives it
//! - [`TestServer`]: a TCP server whose connections do what the test says
//! - [`Refusing`]: an address at which connections are refused
//! - [`require`]: the tools that a test needs, and what happens where one is missing
//! - [`check_published`]: compares a published JSON Schema with the types
//! - [`eventually`]: waits for a state that nobody reports
//!
//! Everything here panics when a step fails, since that fails the test.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "tests read the environment and limit the time that they wait"
)]

mod folder;
mod process;
mod require;
mod schema;
mod server;
mod wait;

pub use folder::Folder;
pub use process::{Output, Process, one_line, send_signal};
pub use require::{is_root, require, require_any, require_ok, skip};
pub use schema::check_published;
pub use server::{Refusing, TestServer};
pub use wait::{WAIT_MAX, eventually};
