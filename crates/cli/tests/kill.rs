//! Sweeps that are killed: everything they had changed is restored, byte for byte.
//!
//! | module | what is done |
//! |---|---|
//! | `moments` | `kill -9` of the sweep or its process group at random moments |
//! | `by_hand` | `wrkbench restore` and the journals it may find |
//! | `held` | a sweep that is stopped within a trial, and what can happen to it there |
//! | `settings` | every network setting is changed and restored |
//! | `lab` | a network namespace with a server, experiment files, the state of the kernel |
//!
//! Each test changes the settings of its own network namespace, never those of the machine. That
//! needs root.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a failing step fails the test; the moments are listed"
)]

#[path = "kill/by_hand.rs"]
mod by_hand;
#[path = "kill/held.rs"]
mod held;
#[path = "kill/lab.rs"]
mod lab;
#[path = "kill/moments.rs"]
mod moments;
#[path = "kill/settings.rs"]
mod settings;
