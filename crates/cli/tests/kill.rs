//! Sweeps that are killed: everything they had changed is as it was, byte for byte.
//!
//! | module | what is done |
//! |---|---|
//! | `moments` | `kill -9` at moments drawn by lot, of the sweep and of its process group; a few here, fifty in `make kill` |
//! | `by_hand` | `wrkbench restore` and what it may find |
//! | `held` | a sweep that is held in the midst of a trial, and what can happen to it there |
//! | `settings` | every setting of the network is changed and put back |
//! | `lab` | a network namespace with a server, plans, and what the kernel shows |
//!
//! Each test has a network namespace of its own, whose settings are changed; those of the machine never are. That
//! takes root; without it the tests say so and do nothing.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failing step fails the test; moments are listed, what is skipped is said"
)]

#[path = "kill/by_hand.rs"]
mod by_hand;
#[path = "kill/held.rs"]
mod held;
#[path = "kill/lab.rs"]
mod lab;
#[path = "kill/moments.rs"]
mod moments;
#[path = "real_servers/place.rs"]
#[allow(dead_code, reason = "real_servers/ uses the rest")]
mod place;
#[path = "kill/settings.rs"]
mod settings;
