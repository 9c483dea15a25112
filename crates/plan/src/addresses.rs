//! Which addresses the connections of a run go to.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::saved;

/// The most often that names are resolved again during a run.
pub const MIN_RESOLVE_INTERVAL: Duration = Duration::from_millis(100);

/// Which addresses the connections of a run go to. The default is that of wrk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AddressSpec {
    /// Which addresses of a name are used.
    #[serde(default)]
    pub dns: DnsUse,
    /// Addresses in place of those that a name has, each as in curl's `--resolve`
    /// ([`ResolveRule`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolve: Vec<String>,
    /// Hosts in place of others, each as in curl's `--connect-to` ([`ConnectRule`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connect_to: Vec<String>,
    /// The name is resolved again after this time, for the rest of the run; at least
    /// [`MIN_RESOLVE_INTERVAL`].
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    #[serde(
        rename = "resolve_every_ns",
        with = "saved::optional_duration_ns",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub resolve_every: Option<Duration>,
}

/// Which addresses of a name are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DnsUse {
    /// The first that accepts a connection, as in wrk.
    #[default]
    First,
    /// All that accept a connection, each for as many connections of the run.
    All,
}

impl DnsUse {
    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::All => "all",
        }
    }
}

/// Addresses in place of those that a name has: `HOST:PORT:ADDRESS[,ADDRESS]...`, as in curl. The
/// host `*` is any host. IPv6 addresses may be in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolveRule {
    host: String,
    port: u16,
    /// The addresses that connections use, at least one.
    pub addresses: Vec<IpAddr>,
}

/// A host in place of another: `HOST1:PORT1:HOST2:PORT2`, as in curl. An empty HOST1 or PORT1
/// stands for any; an empty HOST2 or PORT2 for the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectRule {
    from_host: Option<String>,
    from_port: Option<u16>,
    to_host: Option<String>,
    to_port: Option<u16>,
}

/// Why a rule is refused; one line, without the option and the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not a rule (expected {0})")]
pub struct RuleError(&'static str);

impl AddressSpec {
    /// Whether addresses are chosen as in wrk, by default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl ResolveRule {
    /// Reads a rule.
    ///
    /// # Errors
    /// If it has another form.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let read = || {
            // curl's plus sign lets an entry expire; names are looked up once here.
            let rule = text.strip_prefix('+').unwrap_or(text);
            let (host, rest) = split_host(rule)?;
            let (port, addresses) = rest.split_once(':')?;
            let addresses = addresses.split(',').map(|address| {
                let inner = address
                    .strip_prefix('[')
                    .and_then(|it| it.strip_suffix(']'));
                inner.unwrap_or(address).parse().ok()
            });
            let rule = Self {
                host: host.to_owned(),
                port: port.parse().ok()?,
                addresses: addresses.collect::<Option<Vec<IpAddr>>>()?,
            };
            (!rule.host.is_empty()).then_some(rule)
        };
        read().ok_or(RuleError(
            "HOST:PORT:ADDRESS[,ADDRESS]..., like example.test:443:127.0.0.1",
        ))
    }

    /// Whether it is about this host and port.
    #[must_use]
    pub fn is_about(&self, host: &str, port: u16) -> bool {
        let is_host = self.host == "*" || self.host.eq_ignore_ascii_case(host);
        is_host && self.port == port
    }
}

impl ConnectRule {
    /// Reads a rule.
    ///
    /// # Errors
    /// If it has another form.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let port = |text: &str| match text {
            "" => Some(None),
            text => text.parse::<u16>().ok().map(Some),
        };
        let host = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let read = || {
            let (from_host, rest) = split_host(text)?;
            let (from_port, rest) = rest.split_once(':')?;
            let (to_host, to_port) = split_host(rest)?;
            Some(Self {
                from_host: host(from_host),
                from_port: port(from_port)?,
                to_host: host(to_host),
                to_port: port(to_port)?,
            })
        };
        read().ok_or(RuleError(
            "HOST1:PORT1:HOST2:PORT2, each of which may be empty",
        ))
    }

    /// Where a connection to this host and port goes instead; `None` if the rule is about others.
    #[must_use]
    pub fn apply<'a>(&'a self, host: &'a str, port: u16) -> Option<(&'a str, u16)> {
        let from_host = self.from_host.as_deref();
        let is_host = from_host.is_none_or(|from| from.eq_ignore_ascii_case(host));
        let is_port = self.from_port.is_none_or(|from| from == port);
        (is_host && is_port).then(|| {
            let to_host = self.to_host.as_deref().unwrap_or(host);
            (to_host, self.to_port.unwrap_or(port))
        })
    }
}

/// A host, which may be an IPv6 address in brackets, and what follows its colon. The host is
/// returned without the brackets, as URLs have it.
fn split_host(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('[') {
        Some(rest) => rest.split_once("]:"),
        None => text.split_once(':'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_resolve_are_those_of_curl() {
        let rule = ResolveRule::parse("Example.test:443:127.0.0.1,[::1],::2").expect("a rule");
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let expected = ["127.0.0.1", "::1", "::2"].map(address);
        assert_eq!(rule.addresses, expected);
        assert!(rule.is_about("example.TEST", 443) && !rule.is_about("example.test", 80));
        let any = ResolveRule::parse("+*:80:10.0.0.1").expect("a rule");
        assert!(any.is_about("h", 80));
        let of_address = ResolveRule::parse("[::1]:80:127.0.0.1").expect("a rule");
        assert!(of_address.is_about("::1", 80));
        for text in [
            "",
            "h",
            "h:80",
            "h:80:",
            ":80:127.0.0.1",
            "h:x:127.0.0.1",
            "h:80:localhost",
        ] {
            let error = ResolveRule::parse(text).expect_err(text).to_string();
            assert!(error.contains("HOST:PORT:ADDRESS"), "{text}: {error}");
        }
    }

    #[test]
    fn rules_of_connect_to_are_those_of_curl() {
        let apply = |rule: &str, host: &str, port: u16| {
            let rule = ConnectRule::parse(rule).expect("a rule");
            rule.apply(host, port)
                .map(|(host, port)| format!("{host} {port}"))
        };
        assert_eq!(apply("a:80:b:81", "A", 80).as_deref(), Some("b 81"));
        assert_eq!(apply("a:80:b:81", "a", 81), None);
        assert_eq!(apply("::b:", "a", 80).as_deref(), Some("b 80"));
        assert_eq!(apply(":80::81", "a", 80).as_deref(), Some("a 81"));
        assert_eq!(apply("a::[::1]:1", "a", 9).as_deref(), Some("::1 1"));
        for text in ["", "a", "a:80", "a:80:b", "a:x:b:1", "a:1:b:70000"] {
            let error = ConnectRule::parse(text).expect_err(text).to_string();
            assert!(error.contains("HOST1:PORT1"), "{text}: {error}");
        }
    }
}
