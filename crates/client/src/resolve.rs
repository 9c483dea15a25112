//! Resolves names to addresses, and finds the address that accepts connections.

use crate::Permit;
use crate::target_error::{LookupError, TargetError};
use eventloop::Address;
use plan::{
    AddressSpec, ConnectRule, DnsUse, ProxySpec, ResolveRule, RuleError, RunPlan, SourceRange,
    Target,
};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// The addresses of a target.
#[derive(Default)]
pub struct Resolved {
    /// The addresses that accept connections; at least one.
    pub addresses: Vec<Address>,
    /// The addresses that do not, with the reason.
    pub refused: Vec<(Address, String)>,
}

impl Resolved {
    /// Notes for the user: how many addresses are used, and which are not.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let shown = |address: &Address| match address {
            Address::Tcp(address) => address.to_string(),
            Address::Unix(path) => path.display().to_string(),
        };
        let all: Vec<String> = self.addresses.iter().map(shown).collect();
        let used = format!("connections are spread over {}", all.join(", "));
        let refused = self.refused.iter().map(|(address, reason)| {
            let address = shown(address);
            format!("{address} is left out: it accepts no connections ({reason})")
        });
        std::iter::once(used).chain(refused).collect()
    }
}

/// The system's resolver and sockets.
pub struct SystemNetwork {
    /// Replaces every host if requests go through a Unix socket.
    unix_socket: Option<PathBuf>,
    /// Replaces every host and port: connections go to the proxy.
    proxy: Option<ProxySpec>,
    /// Connections are those of QUIC.
    is_quic: bool,
    /// Time limit of one connection attempt.
    timeout: Duration,
    /// Which addresses are used, and in place of which others.
    spec: AddressSpec,
    /// Source addresses of connections. Only addresses of the same family can be reached from them.
    source: Option<SourceRange>,
    permit: Permit,
}

impl SystemNetwork {
    /// As the options of the plan say.
    #[must_use]
    pub fn new(plan: &RunPlan, permit: Permit) -> Self {
        Self {
            permit,
            unix_socket: plan.target.unix_socket.clone(),
            proxy: plan.proxy.clone(),
            spec: plan.addresses.clone(),
            is_quic: plan.load.protocol.is_http3(),
            timeout: plan.time_limit(),
            source: plan.load.source,
        }
    }

    /// The first address that accepts a connection, or all that do.
    ///
    /// # Errors
    /// In wrk's words: unable to resolve, or unable to connect. Also if the target is not
    /// permitted.
    pub fn resolve(&self, target: &Target) -> Result<Resolved, TargetError> {
        let addresses = self
            .addresses(&target.host, &target.service)
            .map_err(|error| self.unresolved(target, error))?;
        self.check_permit(&target.host, &addresses)?;
        let mut reason = LookupError::NoAddress.to_string();
        let mut resolved = Resolved::default();
        for address in addresses {
            match self.try_connect(&address) {
                Ok(()) => resolved.addresses.push(address),
                Err(error) => {
                    reason = plain(&error);
                    resolved.refused.push((address, reason.clone()));
                }
            }
            if self.spec.dns == DnsUse::First && !resolved.addresses.is_empty() {
                break;
            }
        }
        if !resolved.addresses.is_empty() {
            return Ok(resolved);
        }
        let place = match &self.unix_socket {
            Some(path) => path.display().to_string(),
            None => self.place_of(target),
        };
        Err(TargetError::Unreachable(place, reason))
    }

    /// The error if the addresses of a target are unknown.
    pub(crate) fn unresolved(&self, target: &Target, error: LookupError) -> TargetError {
        TargetError::Unresolved(self.place_of(target), error)
    }

    /// What connections go to, in words.
    fn place_of(&self, target: &Target) -> String {
        match &self.proxy {
            Some(proxy) => format!("the proxy {}", proxy.url()),
            None => format!("{}:{}", target.host, target.service),
        }
    }

    /// The first address of a target, for a proxy that does not resolve names. Nothing is connected
    /// to.
    ///
    /// # Errors
    /// If the name is unknown, or the target is not permitted.
    pub(crate) fn target_address(&self, target: &Target) -> Result<IpAddr, TargetError> {
        let port = target.port_number();
        let place = || format!("{}:{port}", target.host);
        let unresolved = |error| TargetError::Unresolved(place(), error);
        let addresses = match self.in_place_of(&target.host, port)? {
            Some(addresses) => addresses,
            None => (target.host.as_str(), port)
                .to_socket_addrs()
                .map_err(|error| unresolved(error.into()))?
                .collect(),
        };
        let addresses: Vec<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
        self.permit.check(&target.host, &addresses)?;
        let first = addresses.first().copied();
        first.ok_or_else(|| unresolved(LookupError::NoAddress))
    }

    /// Connects to an address, and closes the connection.
    ///
    /// # Errors
    /// Those of the system.
    pub fn try_connect(&self, address: &Address) -> std::io::Result<()> {
        let outcome = match address {
            Address::Tcp(address) if self.is_quic => ask_for_versions(*address, self.timeout),
            Address::Tcp(address) => {
                TcpStream::connect_timeout(address, self.timeout.max(Duration::from_millis(1)))
                    .map(drop)
            }
            Address::Unix(path) => UnixStream::connect(path).map(drop),
        };
        match outcome {
            // It was accepted and reset at once. There is a server, and the run will count what it
            // does.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(()),
            outcome => outcome,
        }
    }
}

/// How long a server may take to list its versions of QUIC.
const VERSIONS_WITHIN: Duration = Duration::from_secs(1);

/// Sends the beginning of a connection in a version of QUIC that no server has, to which a server
/// replies with those that it has (RFC 9000 section 6). Fails if the port is closed. A server that
/// says nothing may be there all the same.
///
/// # Errors
/// Those of the system, such as a port that is closed.
pub(crate) fn ask_for_versions(address: SocketAddr, timeout: Duration) -> std::io::Result<()> {
    // A long header with a version that is reserved for this (section 15), and two IDs of 8 bytes.
    // Servers do not reply to less than 1200 bytes (section 14.1).
    const PACKET: [u8; 1200] = {
        let mut packet = [0; 1200];
        (packet[0], packet[5], packet[14]) = (0xc0, 8, 8);
        let mut at = 1;
        while at <= 4 {
            packet[at] = 0x1a;
            at += 1;
        }
        packet
    };
    let socket = UdpSocket::bind((any_address_like(address), 0))?;
    socket.connect(address)?;
    let within = timeout.clamp(Duration::from_millis(1), VERSIONS_WITHIN);
    socket.set_read_timeout(Some(within))?;
    socket.send(&PACKET)?;
    match socket.recv(&mut [0; 2048]) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// The address for a socket that may have any address of the same family as this one.
pub(crate) fn any_address_like(address: SocketAddr) -> IpAddr {
    match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

impl SystemNetwork {
    /// The addresses of a host, whether permitted or not.
    ///
    /// # Errors
    /// If the name is unknown.
    pub fn addresses(&self, host: &str, service: &str) -> Result<Vec<Address>, LookupError> {
        if let Some(path) = &self.unix_socket {
            return Ok(vec![Address::Unix(path.clone())]);
        }
        let (host, port) = match &self.proxy {
            Some(proxy) => (proxy.host.as_str(), Some(proxy.port)),
            None => (host, port_of(service)),
        };
        let port = port.ok_or(LookupError::UnknownService)?;
        let (host, port) = self.instead_of(host, port)?;
        let addresses = match self.in_place_of(&host, port)? {
            Some(addresses) => addresses,
            None => (host.as_str(), port).to_socket_addrs()?.collect(),
        };
        let mut unique: Vec<SocketAddr> = Vec::new();
        for address in addresses {
            let reachable = self
                .source
                .is_none_or(|source| source.first_host().is_ipv4() == address.is_ipv4());
            if reachable && !unique.contains(&address) {
                unique.push(address);
            }
        }
        if let (true, Some(sources)) = (unique.is_empty(), self.source) {
            let family = if sources.first_host().is_ipv4() {
                "IPv4"
            } else {
                "IPv6"
            };
            return Err(LookupError::NoAddressOfFamily(family, sources));
        }
        Ok(unique.into_iter().map(Address::Tcp).collect())
    }

    /// Where a connection to a host goes by `--connect-to`.
    fn instead_of(&self, host: &str, port: u16) -> Result<(String, u16), RuleError> {
        for rule in &self.spec.connect_to {
            let rule = ConnectRule::parse(rule)?;
            if let Some((host, port)) = rule.apply(host, port) {
                return Ok((host.to_owned(), port));
            }
        }
        Ok((host.to_owned(), port))
    }

    /// The addresses of a host by `--resolve`.
    fn in_place_of(&self, host: &str, port: u16) -> Result<Option<Vec<SocketAddr>>, LookupError> {
        // As in curl, the last rule about a host counts.
        for rule in self.spec.resolve.iter().rev() {
            let rule = ResolveRule::parse(rule)?;
            if rule.is_about(host, port) {
                let addresses = rule.addresses.into_iter();
                return Ok(Some(
                    addresses.map(|it| SocketAddr::new(it, port)).collect(),
                ));
            }
        }
        Ok(None)
    }

    /// The addresses of a host, if the run may send to all of them.
    ///
    /// # Errors
    /// If the name is unknown, or an address is not permitted.
    pub fn permitted_addresses(
        &self,
        host: &str,
        service: &str,
    ) -> Result<Vec<Address>, LookupError> {
        let addresses = self.addresses(host, service)?;
        self.check_permit(host, &addresses)?;
        Ok(addresses)
    }

    fn check_permit(&self, host: &str, addresses: &[Address]) -> Result<(), LookupError> {
        let mut of_ip = Vec::new();
        for address in addresses {
            match address {
                Address::Tcp(address) => of_ip.push(address.ip()),
                // Neither a host nor an address: permitted only if everything is.
                Address::Unix(path) => return self.permit.check(&path.to_string_lossy(), &[]),
            }
        }
        let Some(proxy) = &self.proxy else {
            return self.permit.check(host, &of_ip);
        };
        // The proxy is connected to, and asked for a host whose addresses only it knows.
        self.permit.check(&proxy.host, &of_ip)?;
        let literal: Vec<IpAddr> = host.parse().into_iter().collect();
        self.permit.check(host, &literal)
    }
}

/// A port by number, or by its name in the services database. http and https are built in, because
/// small containers lack the file.
fn port_of(service: &str) -> Option<u16> {
    if let Ok(port) = service.parse() {
        return Some(port);
    }
    match service {
        "http" => Some(80),
        "https" => Some(443),
        name => port_in(&std::fs::read_to_string("/etc/services").ok()?, name),
    }
}

/// Lines of services(5): `name port/protocol alias...`.
fn port_in(services: &str, name: &str) -> Option<u16> {
    services.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let official = words.next()?;
        let port = words.next()?.strip_suffix("/tcp")?;
        let known = official == name || words.any(|alias| alias == name);
        if known { port.parse().ok() } else { None }
    })
}

/// The system's message without the number and without the prefix of the standard library.
#[must_use]
pub fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text
        .rsplit_once(": ")
        .map_or(text.as_str(), |(_, last)| last);
    text.split(" (os error").next().unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_found_by_name_and_alias_and_only_for_tcp() {
        let file =
            "# comment\nhttp\t\t80/tcp\t\twww\t# web\ndomain 53/udp\nwebcache 8080/tcp proxy\n";
        assert_eq!(port_in(file, "www"), Some(80));
        assert_eq!(port_in(file, "proxy"), Some(8080));
        assert_eq!(port_in(file, "domain"), None);
        assert_eq!(port_in(file, "nothing"), None);
    }

    #[test]
    fn names_give_addresses_that_the_source_can_reach() {
        let network = |source: &str| SystemNetwork {
            unix_socket: None,
            proxy: None,
            spec: AddressSpec::default(),
            is_quic: false,
            timeout: Duration::from_secs(1),
            source: Some(SourceRange::parse(source).unwrap()),
            permit: Permit::default(),
        };
        let v4 = network("127.0.0.4").addresses("127.0.0.1", "80").unwrap();
        assert_eq!(v4, [Address::Tcp("127.0.0.1:80".parse().unwrap())]);
        assert_eq!(
            network("::1")
                .addresses("127.0.0.1", "80")
                .unwrap_err()
                .to_string(),
            "no IPv6 address (connections from ::1 need one)"
        );
        assert_eq!(
            network("127.0.0.4/30")
                .addresses("::1", "80")
                .unwrap_err()
                .to_string(),
            "no IPv4 address (connections from 127.0.0.4/30 need one)"
        );
    }

    #[test]
    fn errors_have_the_message_of_the_system() {
        let refused = std::io::Error::from_raw_os_error(111);
        assert_eq!(plain(&refused), "Connection refused");
    }
}
