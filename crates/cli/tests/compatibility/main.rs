//! Debian's wrk and ours, called through a link named `wrk`, given the same arguments.
//!
//! - `report`: the text report, line for line and column for column, numbers masked
//! - `refusals`: usage, wrong input, exit codes
//! - `request_bytes`: what reaches the server, byte for byte
//! - `scripting`: what a Lua script can observe
//! - `families`: scripts in the forms that people write, and what they print
//! - `relatives`: wrk2 and wrk-cmm, where they are on PATH by these names
//!
//! Needs `wrk` on PATH (`make test-packages` installs it). Where it is missing the tests say that
//! they skip; with the environment variable CI set they fail instead.

mod families;
mod folder;
mod mask;
mod recording_server;
mod refusals;
mod relatives;
mod report;
mod request_bytes;
mod scripting;
mod tool;
