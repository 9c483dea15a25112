//! The truth of the numbers: whole runs of a worker against a server whose every answer is known.
//!
//! Loop, wire and server are simulated, so times are exact and a run of minutes takes none. Each
//! test reads as a sentence about a figure; every run is also checked for what must always hold
//! ([`rig::Run::check_books`]).

#[path = "simulated/http.rs"]
mod http;
#[path = "simulated/opening.rs"]
mod opening;
#[path = "simulated/rig.rs"]
mod rig;

#[path = "simulated/connections.rs"]
mod connections;
#[path = "simulated/errors.rs"]
mod errors;
#[path = "simulated/queueing.rs"]
mod queueing;
#[path = "simulated/random.rs"]
mod random;
#[path = "simulated/rate.rs"]
mod rate;
#[path = "simulated/sources.rs"]
mod sources;
#[path = "simulated/times.rs"]
mod times;
#[path = "simulated/truth.rs"]
mod truth;
#[path = "simulated/watched.rs"]
mod watched;
#[path = "simulated/window.rs"]
mod window;
