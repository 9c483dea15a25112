//! Filters for sockets in the syntax of ss (ss(8), "FILTER").
//!
//! `state established ( sport = :80 or sport = :443 ) dst 10.0.0.0/8`: states first, then
//! conditions on addresses and ports. The kernel selects by state, and the conditions are evaluated
//! here.

mod expression;
mod lexer;
mod parser;

use std::fmt;
use std::str::FromStr;

use super::socket::Socket;
use super::state::{States, TcpState};
use expression::Expression;

/// A condition on TCP sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    states: States,
    names_states: bool,
    expression: Option<Expression>,
}

/// An error in a filter. Its display is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    /// Where it is, in characters from 1.
    pub column: usize,
    /// What is wrong, and what was expected.
    pub reason: String,
}

impl Filter {
    /// Parses a filter. An empty one matches every open socket, as in ss: [`States::OPEN`].
    ///
    /// # Errors
    /// When the syntax is invalid.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        parser::parse(text)
    }

    /// Uses these states unless the filter names some itself.
    #[must_use]
    pub fn with_default_states(self, states: States) -> Self {
        if self.names_states {
            self
        } else {
            Self { states, ..self }
        }
    }

    /// The same conditions on addresses and ports, for every state in which the kernel keeps more
    /// than a stub.
    #[must_use]
    pub(crate) fn in_any_state(&self) -> Self {
        let stubs = States::from(TcpState::TimeWait) | TcpState::SynReceived.into();
        Self {
            states: States::ALL & !stubs,
            names_states: true,
            ..self.clone()
        }
    }

    /// The states that the filter matches.
    #[must_use]
    pub fn states(&self) -> States {
        self.states
    }

    /// Whether the filter matches this socket.
    #[must_use]
    pub fn takes(&self, socket: &Socket) -> bool {
        self.states.has(socket.state) && self.takes_endpoints(socket)
    }

    /// Whether the filter matches the addresses and ports of this socket, in any state.
    #[must_use]
    pub fn takes_endpoints(&self, socket: &Socket) -> bool {
        self.expression
            .as_ref()
            .is_none_or(|expression| expression.holds(socket))
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.reason)
    }
}

impl std::error::Error for FilterError {}

#[cfg(test)]
mod tests;
