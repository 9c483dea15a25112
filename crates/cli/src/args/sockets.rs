//! The arguments of the list of sockets.

use std::time::Duration;

use clap::Args;
use plan::units::parse_time;
use telemetry::sockets::{Filter, States};

use super::Refusal;

/// Every TCP socket with its TCP_INFO, one JSON object a line
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct SocketsArgs {
    /// Which sockets, in ss's words: sport = :80 or dport = :443, state established, dst 10.0.0.0/8
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// List again and again, this long apart, until Ctrl-C; each object has the time
    #[arg(short, long, value_name = "T", value_parser = parse_time, allow_hyphen_values = true)]
    watch: Option<Duration>,
    /// Sockets in every state, like ss -a; without it neither listening nor closed nor TIME-WAIT ones
    #[arg(short, long, overrides_with = "listening")]
    all: bool,
    /// Listening sockets only, like ss -l
    #[arg(short, long, overrides_with = "all")]
    listening: bool,
}

/// What to list, and how often.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SocketsRequest {
    /// Which sockets.
    pub(crate) filter: Filter,
    /// Time between lists; once if there is none. More than zero.
    pub(crate) interval: Option<Duration>,
}

impl SocketsArgs {
    /// Reads the filter.
    ///
    /// # Errors
    /// When it is not understood, or the time is none that one can wait.
    pub(crate) fn into_request(self) -> Result<SocketsRequest, Refusal> {
        if self.watch == Some(Duration::ZERO) {
            return Err(Refusal("--watch 0: must be longer than 0".to_owned()));
        }
        // In a shell the words of a filter may stand in quotes or not.
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
