//! Fleets of the real binary over a real NATS server, in network namespaces, with clocks that are
//! hours apart. `make fleet` runs them, as root.
//!
//! - `figures`: the load of four agents is that of one machine, and their numbers are the server's
//! - `losses`: agents, links, the hub and the coordinator fail in mid-run
//! - `orders`: wrong keys, wrong versions, recorded orders and garbage
//! - `campaign`: an experiment from three places
//! - `changes`: sweeps that change another machine
//! - `profiles`: profiles of a server on another machine
//! - `harness`: the machines
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failing step fails the test"
)]

mod campaign;
mod changes;
mod figures;
mod harness;
mod losses;
mod orders;
mod profiles;
