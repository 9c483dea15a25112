//! A fleet on a simulated bus with simulated clocks, and on real ones.
//!
//! - `runs`: what a run does when nothing goes wrong
//! - `losses`: agents, links and messages that get lost
//! - `visits`: a run whose coordinator is gone
//! - `orders`: who may order what
//! - `garbage`: messages that nobody of the fleet would send
//! - `hosts`: machines that an experiment changes
//! - `buses`: the same runs through each bus, in real time
//! - `hostile_hub`: a hub that does what no NATS server does
#![allow(
    clippy::disallowed_methods,
    reason = "the tests of real buses need a real clock"
)]

mod buses;
mod fake;
mod garbage;
mod hostile_hub;
mod hosts;
mod losses;
mod orders;
mod runs;
mod simulation;
mod visits;
