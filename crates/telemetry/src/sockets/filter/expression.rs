//! Conditions on addresses and ports, and their evaluation.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::sockets::socket::Socket;

/// A condition on one socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    Port(Side, Comparison, u16),
    Address(Side, Network),
}

/// An end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Local,
    Peer,
}

/// A comparison of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Addresses with a common prefix. An IPv4 network includes IPv4 peers of IPv6 sockets
/// (`::ffff:192.0.2.1`), as in ss and in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    V4(Ipv4Addr, u8),
    V6(Ipv6Addr, u8),
}

impl Expression {
    pub(super) fn holds(&self, socket: &Socket) -> bool {
        match self {
            Self::Not(inner) => !inner.holds(socket),
            Self::And(left, right) => left.holds(socket) && right.holds(socket),
            Self::Or(left, right) => left.holds(socket) || right.holds(socket),
            Self::Port(side, comparison, port) => comparison.holds(side.port(socket), *port),
            Self::Address(side, network) => network.has(side.address(socket)),
        }
    }
}

impl Side {
    fn port(self, socket: &Socket) -> u16 {
        match self {
            Self::Local => socket.local_port,
            Self::Peer => socket.peer_port,
        }
    }

    fn address(self, socket: &Socket) -> IpAddr {
        match self {
            Self::Local => socket.local_address,
            Self::Peer => socket.peer_address,
        }
    }
}

impl Comparison {
    fn holds(self, left: u16, right: u16) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}

impl Network {
    fn has(self, address: IpAddr) -> bool {
        match (self, address) {
            (Self::V4(network, bits), IpAddr::V4(address)) => same_bits_v4(network, address, bits),
            (Self::V4(network, bits), IpAddr::V6(address)) => address
                .to_ipv4_mapped()
                .is_some_and(|address| same_bits_v4(network, address, bits)),
            (Self::V6(network, bits), IpAddr::V6(address)) => {
                let differing = network.to_bits() ^ address.to_bits();
                differing
                    .checked_shr(u128::BITS - u32::from(bits))
                    .unwrap_or(0)
                    == 0
            }
            (Self::V6(..), IpAddr::V4(_)) => false,
        }
    }
}

fn same_bits_v4(network: Ipv4Addr, address: Ipv4Addr, bits: u8) -> bool {
    let differing = network.to_bits() ^ address.to_bits();
    differing
        .checked_shr(u32::BITS - u32::from(bits))
        .unwrap_or(0)
        == 0
}
