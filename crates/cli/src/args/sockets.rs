//! Arguments of `wrkbench sockets`.

use std::time::Duration;

use clap::Args;
use plan::units::parse_time;
use telemetry::sockets::{Filter, States};

use super::Refusal;

/// List TCP sockets with their TCP_INFO, as JSON
///
/// Prints one JSON object per line and socket, with the kernel's data on it: round-trip time,
/// congestion window, queues and retransmissions.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct SocketsArgs {
    /// Sockets to list, in the filter syntax of ss: sport = :80 or dport = :443, state established,
    /// dst 10.0.0.0/8
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// Repeat the list at this interval until Ctrl-C, with the time in each object
    #[arg(short, long, value_name = "T", value_parser = parse_time, allow_hyphen_values = true)]
    watch: Option<Duration>,
    /// List sockets in every state, like ss -a.
    ///
    /// Without it, listening and closed sockets and those in TIME-WAIT are left out.
    #[arg(short, long, overrides_with = "listening")]
    all: bool,
    /// List only listening sockets, like ss -l
    #[arg(short, long, overrides_with = "all")]
    listening: bool,
}

/// Which sockets to list, and how often.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SocketsRequest {
    pub(crate) filter: Filter,
    /// Time between lists, above zero; `None` to list once.
    pub(crate) interval: Option<Duration>,
}

impl SocketsArgs {
    /// Parses the filter.
    ///
    /// # Errors
    /// When the filter is invalid or the interval is zero.
    pub(crate) fn into_request(self) -> Result<SocketsRequest, Refusal> {
        if self.watch == Some(Duration::ZERO) {
            return Err(Refusal("--watch 0: must be longer than 0".to_owned()));
        }
        // In a shell, the filter may be one quoted argument or several words.
        let filter = Filter::parse(&self.filter.join(" "))
            .map_err(|error| Refusal(format!("filter, {error}")))?;
        let states = if self.listening {
            States::LISTENING
        } else if self.all {
            States::ALL
        } else {
            States::OPEN
        };
        Ok(SocketsRequest {
            filter: filter.with_default_states(states),
            interval: self.watch,
        })
    }
}
