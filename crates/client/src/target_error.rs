//! Why a run cannot send to its target.

use std::net::IpAddr;

use plan::{MAX_CONNECTIONS, RuleError, SourceRange};

use crate::resolve::plain;

/// Why a host has no address that can be used, in the resolver's words.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The name of the service is unknown.
    #[error("Servname not supported for ai_socktype")]
    UnknownService,
    /// What the resolver said, without host and service.
    #[error("{}", plain(.0))]
    System(#[from] std::io::Error),
    /// A rule of `--resolve` or `--connect-to` cannot be read.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// There is no address.
    #[error("no address")]
    NoAddress,
    /// No address is of the family of the source addresses.
    #[error("no {0} address (connections from {1} need one)")]
    NoAddressOfFamily(&'static str, SourceRange),
    /// The host or its addresses are not permitted, for this reason.
    #[error("{0}")]
    NotPermitted(String),
}

/// Why a run cannot send to its target, one line.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The host cannot be looked up.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The same in wrk's words, with host and port or the proxy.
    #[error("unable to resolve {0} {1}")]
    Unresolved(String, LookupError),
    /// No address of this place accepts a connection. The reason is that of the last one.
    #[error("unable to connect to {0} {1}")]
    Unreachable(String, String),
    /// A script has looked up no address for this host.
    #[error("no address for {0}")]
    NoAddress(String),
    /// The proxy of this URL cannot be asked for the target.
    #[error("--proxy {0}: {1}")]
    Proxy(String, &'static str),
    /// A source address is not one of this machine.
    #[error(
        "--bind-ip: unable to bind to {} {} (it must be an address of this machine)",
        .0,
        plain(.1)
    )]
    Bind(IpAddr, std::io::Error),
    /// An option is for runs with one host, but there are at least these two.
    #[error("{0}: is for runs with one host, but requests of the file go to {1} and {2}")]
    SeveralHosts(&'static str, String, String),
    /// So many connections to each of so many hosts are too many.
    #[error("-c {0}: with {1} hosts these are more than {MAX_CONNECTIONS} connections")]
    TooManyConnections(u32, u64),
    /// An option asks for so many requests at once, but a connection is one client.
    #[error(
        "{0} {1}: requests of the file capture values, so each connection waits for a response \
         before its next request (for more clients use -c)"
    )]
    Captures(&'static str, u32),
}
