//! Which sockets are wanted, in ss's words (ss(8), "FILTER").
//!
//! `state established ( sport = :80 or sport = :443 ) dst 10.0.0.0/8`: states first, then conditions on
//! addresses and ports. The kernel gets the states, and as much of the conditions as it can judge (`bytecode.rs`);
//! all of it is judged here as well.

mod bytecode;
mod expression;
mod lexer;
mod parser;
mod services;

use std::fmt;
use std::str::FromStr;

use super::socket::Socket;
use super::state::{State, States};
use expression::Expression;

/// A condition on TCP sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    states: States,
    names_states: bool,
    expression: Option<Expression>,
    /// What the kernel is to judge; empty if that is nothing.
    bytecode: Vec<u8>,
}

/// What is not understood in a filter, and where. Its display is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    /// Where it begins, characters from 1.
    pub column: usize,
    /// What is wrong, and what was expected.
    pub reason: String,
}

impl Filter {
    /// Reads a filter. An empty one takes every socket that is open, as ss does: [`States::OPEN`].
    ///
    /// # Errors
    /// When it is not understood.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        parser::parse(text, &services::port)
    }

    /// These states, unless the filter names some itself.
    #[must_use]
    pub fn with_default_states(self, states: States) -> Self {
        if self.names_states {
            self
        } else {
            Self { states, ..self }
        }
    }

    /// The same conditions on addresses and ports, for every state of which the kernel keeps more than a
    /// stub.
    #[must_use]
    pub(crate) fn in_any_state(&self) -> Self {
        let stubs = States::from(State::TimeWait) | State::SynReceived.into();
        Self {
            states: States::ALL & !stubs,
            names_states: true,
            ..self.clone()
        }
    }

    /// The states that are wanted.
    #[must_use]
    pub fn states(&self) -> States {
        self.states
    }

    /// Whether this socket is wanted.
    #[must_use]
    pub fn takes(&self, socket: &Socket) -> bool {
        self.states.has(socket.state) && self.takes_endpoints(socket)
    }

    /// Whether addresses and ports of this socket are wanted, whatever its state.
    #[must_use]
    pub fn takes_endpoints(&self, socket: &Socket) -> bool {
        self.expression
            .as_ref()
            .is_none_or(|expression| expression.holds(socket))
    }

    /// What the kernel is to judge, as `INET_DIAG_REQ_BYTECODE` wants it; empty if that is nothing.
    pub(super) fn bytecode(&self) -> &[u8] {
        &self.bytecode
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
