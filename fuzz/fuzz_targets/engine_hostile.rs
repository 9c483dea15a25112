//! A server that does what any bytes say, to a worker on the simulated network: the run ends on
//! time, its counts add up, its memory is bounded, it goes on in every turn of the loop, and it
//! does not ask for connections without pauses.

#![no_main]
#![allow(
    dead_code,
    unused_imports,
    reason = "other tests use the rest of the simulation"
)]

#[path = "../../crates/engine/tests/simulated/hostile.rs"]
mod hostile;
#[path = "../../crates/engine/tests/simulated/http.rs"]
mod http;
#[path = "../../crates/engine/tests/simulated/simulation.rs"]
mod simulation;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| hostile::check(data));
