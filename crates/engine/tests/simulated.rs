//! The truth of the numbers: whole runs of a worker against a server whose every response is known.
//!
//! Loop, network and server are simulated, so times are exact and a run of minutes takes no time.
//! Each test reads as a sentence about a number. Every run is also checked for what must always
//! hold ([`simulation::check_consistency`]).

#[path = "simulated/conditions.rs"]
mod conditions;
#[path = "simulated/http.rs"]
mod http;
#[path = "simulated/opening.rs"]
mod opening;
#[path = "simulated/quic_server.rs"]
mod quic_server;
#[path = "simulated/simulation.rs"]
mod simulation;

#[path = "simulated/attribution.rs"]
mod attribution;
#[path = "simulated/breakdown.rs"]
mod breakdown;
#[path = "simulated/connections.rs"]
mod connections;
#[path = "simulated/conversations.rs"]
mod conversations;
#[path = "simulated/drain.rs"]
mod drain;
#[path = "simulated/errors.rs"]
mod errors;
#[path = "simulated/fleet.rs"]
mod fleet;
#[path = "simulated/golden_cases.rs"]
mod golden_cases;
#[path = "simulated/hostile.rs"]
mod hostile;
#[path = "simulated/http3.rs"]
mod http3;
#[path = "simulated/http3_random.rs"]
mod http3_random;
#[path = "simulated/multiplexed.rs"]
mod multiplexed;
#[path = "simulated/observed.rs"]
mod observed;
#[path = "simulated/queueing.rs"]
mod queueing;
#[path = "simulated/random.rs"]
mod random;
#[path = "simulated/rate.rs"]
mod rate;
#[path = "simulated/records.rs"]
mod records;
#[path = "simulated/search.rs"]
mod search_of_a_rate;
#[path = "simulated/settling.rs"]
mod settling;
#[path = "simulated/slow_script.rs"]
mod slow_script;
#[path = "simulated/sources.rs"]
mod sources;
#[path = "simulated/times.rs"]
mod times;
#[path = "simulated/tokens.rs"]
mod tokens;
#[path = "simulated/truth.rs"]
mod truth;
#[path = "simulated/users.rs"]
mod users;
#[path = "simulated/window.rs"]
mod window;
