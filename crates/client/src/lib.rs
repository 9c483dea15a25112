//! HTTP exchanges one at a time, over sockets that block: what is done beside a load, before one or
//! instead of one.
//!
//! A [`Client`] sends requests to the target of a plan, or to another server, through the sessions
//! that a load uses. What a server sends is limited in time and in size. [`status`] requests a URL
//! once. A run shares the rest: names ([`SystemNetwork`]), TLS and proxies.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod client;
mod connection;
mod error;
mod permit;
mod proxy;
mod resolve;
mod stream;
mod target_error;
mod tls;

pub use client::{Client, NoResponse, Server, basic_authorization, scheme_advice, status};
pub use error::ClientError;
pub use permit::{Permit, PermitCheck};
pub use proxy::proxy_client;
pub use resolve::{Resolved, SystemNetwork, plain};
pub use target_error::{LookupError, TargetError};
pub use tls::{names, negotiate, tls_client};
