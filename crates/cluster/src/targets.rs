//! What an agent may send requests to: the values of `--targets`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::names::Label;
use crate::refusal::Refusal;

/// The targets that an agent accepts. Everything, unless the list has entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets(Vec<Permitted>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Permitted {
    /// A name as in a URL, in lower case.
    Host(String),
    /// Addresses that begin with these bits.
    Network(IpAddr, u8),
}

/// Why an entry of the list is refused; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a host name, nor an address, nor a network like 10.0.0.0/8")]
pub struct TargetsError(String);

impl FromStr for Targets {
    type Err = TargetsError;

    fn from_str(list: &str) -> Result<Self, TargetsError> {
        let entries = list.split(',').map(str::trim);
        entries
            .map(Permitted::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl Targets {
    /// Whether everything is permitted.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether requests may go to a host that has these addresses. A host is permitted by its name,
    /// or if all of its addresses are. Without addresses, as for a Unix socket, only the name
    /// counts.
    ///
    /// # Errors
    /// If they may not. The refusal names the host and what is permitted.
    pub fn check(&self, host: &str, addresses: &[IpAddr]) -> Result<(), Refusal> {
        let is_named = self.0.iter().any(|entry| entry.is_host(host));
        let has_addresses = !addresses.is_empty()
            && addresses
                .iter()
                .all(|address| self.0.iter().any(|entry| entry.contains(*address)));
        if self.is_everything() || is_named || has_addresses {
            Ok(())
        } else {
            Err(Refusal::Target {
                target: Label::new(host),
                permitted: Label::new(&self.to_string()),
            })
        }
    }

    /// Whether no address could make the host a permitted one.
    ///
    /// # Errors
    /// As [`Targets::check`].
    pub fn check_unresolved(&self, host: &str) -> Result<(), Refusal> {
        let may_resolve = || {
            let has_networks = self
                .0
                .iter()
                .any(|entry| matches!(entry, Permitted::Network(..)));
            has_networks && host.parse::<IpAddr>().is_err()
        };
        let address: Vec<IpAddr> = host.parse().into_iter().collect();
        match self.check(host, &address) {
            Err(_) if may_resolve() => Ok(()),
            outcome => outcome,
        }
    }

    /// The entries, for [`Hello`](crate::message::Hello).
    pub fn labels(&self) -> Vec<Label> {
        self.0
            .iter()
            .map(|entry| Label::new(&entry.to_string()))
            .collect()
    }
}

impl fmt::Display for Targets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        formatter.pad(&entries.join(","))
    }
}

impl Permitted {
    fn parse(text: &str) -> Result<Self, TargetsError> {
        let error = || TargetsError(text.chars().take(80).collect());
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self::Network(address, bits_of(address)));
        }
        if let Some((network, bits)) = text.split_once('/') {
            let network: IpAddr = network.parse().map_err(|_| error())?;
            let bits = bits.parse().ok().filter(|bits| *bits <= bits_of(network));
            return Ok(Self::Network(network, bits.ok_or_else(error)?));
        }
        let is_name = !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        if is_name {
            Ok(Self::Host(text.to_ascii_lowercase()))
        } else {
            Err(error())
        }
    }

    fn is_host(&self, host: &str) -> bool {
        matches!(self, Self::Host(name) if name.eq_ignore_ascii_case(host))
    }

    fn contains(&self, address: IpAddr) -> bool {
        // An IPv4 address may be written as an IPv6 one.
        let address = address.to_canonical();
        match self {
            Self::Host(_) => false,
            Self::Network(network, bits) => {
                let shift = bits_of(*network) - bits;
                let number = |address: IpAddr| match address {
                    IpAddr::V4(address) => u128::from(address.to_bits()),
                    IpAddr::V6(address) => address.to_bits(),
                };
                let prefix = |address| number(address).checked_shr(shift.into()).unwrap_or(0);
                network.is_ipv4() == address.is_ipv4() && prefix(*network) == prefix(address)
            }
        }
    }
}

impl fmt::Display for Permitted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) => write!(formatter, "{name}"),
            Self::Network(address, bits) if *bits == bits_of(*address) => {
                write!(formatter, "{address}")
            }
            Self::Network(address, bits) => write!(formatter, "{address}/{bits}"),
        }
    }
}

fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(list: &str, host: &str, addresses: &[&str]) -> bool {
        let targets: Targets = list.parse().expect("a list");
        let addresses: Vec<IpAddr> = addresses
            .iter()
            .map(|address| address.parse().expect("an address"))
            .collect();
        targets.check(host, &addresses).is_ok()
    }

    #[test]
    fn a_target_is_permitted_by_its_name_or_by_all_of_its_addresses() {
        assert!(Targets::default().check("anything", &[]).is_ok());
        let list = "db.lab, 10.1.0.0/16,192.0.2.7,fd00::/8";
        for (host, addresses) in [
            ("db.lab", &["203.0.113.1"][..]),
            ("DB.Lab", &[]),
            ("other", &["10.1.255.255", "192.0.2.7"]),
            ("other", &["fd12::1"]),
            ("other", &["::ffff:10.1.2.3"]),
        ] {
            assert!(permits(list, host, addresses), "{host} {addresses:?}");
        }
        for (host, addresses) in [
            ("other", &[][..]),
            ("other.db.lab", &["10.2.0.0"]),
            ("other", &["10.1.0.1", "10.2.0.1"]),
            ("other", &["192.0.2.8"]),
            ("other", &["fe80::1"]),
            ("other", &["::10.1.0.1"]),
        ] {
            assert!(!permits(list, host, addresses), "{host} {addresses:?}");
        }
        assert!(permits("0.0.0.0/0", "other", &["8.8.8.8"]));
        assert!(!permits("0.0.0.0/0", "other", &["fd00::1"]));
        assert!(permits("::/0", "other", &["fd00::1"]));
    }

    #[test]
    fn before_resolving_only_what_cannot_be_permitted_is_refused() {
        let targets: Targets = "a.lab,10.0.0.0/8".parse().expect("a list");
        for host in ["a.lab", "unknown.lab", "10.9.9.9"] {
            assert_eq!(targets.check_unresolved(host), Ok(()), "{host}");
        }
        let refusal = targets.check_unresolved("11.0.0.1").unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "the target 11.0.0.1 is not one that the agent may send to (--targets a.lab,10.0.0.0/8)"
        );
        let names: Targets = "a.lab".parse().expect("a list");
        assert!(names.check_unresolved("b.lab").is_err());
    }

    #[test]
    fn an_entry_that_is_no_target_is_refused() {
        for bad in [
            "",
            "a,",
            "10.0.0.0/33",
            "10.0.0.0/x",
            "a/8",
            "http://a",
            "fd00::/129",
        ] {
            assert!(bad.parse::<Targets>().is_err(), "{bad}");
        }
        let list: Targets = "[::1], A-1.lab".parse().expect("a list");
        assert_eq!(list.to_string(), "::1,a-1.lab");
    }
}
