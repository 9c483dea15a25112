//! Debian's wrk and wrkbench, called through a link named `wrk`, with the same arguments.
//!
//! - `report`: the text report, line for line and column for column, numbers masked
//! - `refusals`: usage, wrong input, exit codes
//! - `request_bytes`: what reaches the server, byte for byte
//! - `scripting`: what a Lua script can observe
//! - `families`: scripts as people write them, and their output
//! - `relatives`: wrk2 and wrk-cmm, if they are on PATH
//!
//! Needs `wrk` on PATH (`make test-packages` installs it).

mod families;
mod mask;
mod recording_server;
mod refusals;
mod relatives;
mod report;
mod request_bytes;
mod scripting;
mod tool;
