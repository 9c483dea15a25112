//! Checks the source addresses of a run.

use std::net::{IpAddr, UdpSocket};

use client::TargetError;
use plan::Load;

/// At most this many addresses of a large network are checked before the run.
const SOURCES_TRIED: u32 = 1024;

/// Checks the source addresses that the first connections will use.
///
/// # Errors
/// If one of them is not an address of this machine.
pub(crate) fn check_source(load: &Load) -> Result<(), TargetError> {
    let Some(source) = load.source else {
        return Ok(());
    };
    let first = u128::from(load.connections.min(SOURCES_TRIED)).min(source.len());
    (0..first)
        .map(|index| source.nth(index))
        .try_for_each(try_bind)
}

/// Binding a datagram socket has the same result as binding a connection's socket, and uses nothing
/// up.
fn try_bind(address: IpAddr) -> Result<(), TargetError> {
    let bound = UdpSocket::bind((address, 0)).map(drop);
    bound.map_err(|error| TargetError::Bind(address, error))
}

#[cfg(test)]
mod tests {
    use plan::SourceRange;

    use super::*;

    fn from(source: &str, connections: u32) -> Result<(), String> {
        let checked = check_source(&Load {
            connections,
            source: Some(SourceRange::parse(source).unwrap()),
            ..Load::default()
        });
        checked.map_err(|error| error.to_string())
    }

    #[test]
    fn source_addresses_must_be_those_of_this_machine() {
        assert!(check_source(&Load::default()).is_ok());
        assert_eq!(from("127.0.0.4/30", 100), Ok(()));
        assert_eq!(from("127.0.0.0/8", u32::MAX), Ok(()));
        // 203.0.113.0/24 is for documentation (RFC 5737).
        assert_eq!(
            from("203.0.113.7", 1).unwrap_err(),
            "--bind-ip: unable to bind to 203.0.113.7 Cannot assign requested address \
             (it must be an address of this machine)"
        );
        assert!(from("203.0.113.0/24", 1).is_err());
        // Only as many as there are connections: ::1 is local, ::2 is not.
        assert_eq!(from("::1/126", 1), Ok(()));
        assert!(
            from("::1/126", 2)
                .unwrap_err()
                .contains("unable to bind to ::2 ")
        );
    }
}
