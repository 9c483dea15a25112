//! TCP sockets of this network namespace as the kernel sees them, over netlink (sock_diag(7)).
//!
//! [`Diag`] lists open sockets, [`Destroyed`] reports closed ones, and a [`Filter`] in the syntax
//! of ss selects among them. [`FIELDS`] has the meaning and the unit of each value.

mod destroyed;
mod diag;
mod fields;
mod filter;
mod inet_diag;
mod json;
mod netlink;
mod socket;
mod state;
mod tcp_info;

pub use destroyed::Destroyed;
pub use diag::Diag;
pub use fields::FIELDS;
pub use filter::{Filter, FilterError};
pub use inet_diag::parse_datagram;
pub use socket::{CongestionInfo, ListenQueue, Socket, SocketMemory, Timer, TimerKind};
pub use state::{States, TcpState};
pub use tcp_info::TcpInfo;
