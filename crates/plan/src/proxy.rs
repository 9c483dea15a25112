//! A proxy between the load generator and the target.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::request::check_header;
use crate::secrets::HIDDEN;
use crate::target::{host_header, percent_decoded, split_host_and_port};
use crate::{InvalidValue, saved};

/// curl's default, whatever the kind of proxy, except for https.
const DEFAULT_PORT: u16 = 1080;
const DEFAULT_PORT_OF_HTTPS: u16 = 443;

/// User and password of SOCKS5 are preceded by their length in one byte (RFC 1929).
const SOCKS_TEXT_BYTES_MAX: usize = 255;

/// Headers of requests for a proxy that cannot be given: a second one would make the request
/// invalid (RFC 9112 sections 3.2 and 6.3).
const MADE_HEADERS: [&str; 3] = ["Host", "Content-Length", "Transfer-Encoding"];

/// The protocol that a proxy speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProxyScheme {
    /// HTTP without TLS to the proxy.
    Http,
    /// HTTP over TLS to the proxy.
    Https,
    /// SOCKS5; names are resolved here.
    Socks5,
    /// SOCKS5; the proxy resolves names.
    Socks5h,
}

impl ProxyScheme {
    const ALL: [Self; 4] = [Self::Http, Self::Https, Self::Socks5, Self::Socks5h];

    /// The name in a URL, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Socks5 => "socks5",
            Self::Socks5h => "socks5h",
        }
    }

    /// Whether it is SOCKS5, not HTTP.
    #[must_use]
    pub const fn is_socks(self) -> bool {
        matches!(self, Self::Socks5 | Self::Socks5h)
    }
}

/// A proxy, and how it is used.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProxySpec {
    /// The protocol that the proxy speaks.
    pub scheme: ProxyScheme,
    /// Name or address, without brackets.
    pub host: String,
    /// The port of the proxy, 1..=65535.
    pub port: u16,
    /// `user:password`. What is shown and saved has no user
    /// ([`RunPlan::without_secrets`](crate::RunPlan::without_secrets)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Whether an HTTP proxy is asked for a tunnel (CONNECT) to http targets too.
    #[serde(default)]
    pub tunnel: bool,
    /// Whether an https proxy must have a certificate that is valid for its host.
    #[serde(default)]
    pub verify: bool,
    /// PEM file with the certificate authorities to trust for an https proxy instead of those of
    /// the system.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(
        with = "saved::optional_path",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub cacert: Option<PathBuf>,
    /// Names and values that an HTTP proxy gets with each request for it: that for a tunnel, or
    /// those that it forwards. `Proxy-Authorization` replaces the one made from `user`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
}

/// Leaves out the user and the values of headers, which may contain a password.
impl fmt::Debug for ProxySpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_ref().map(|_| HIDDEN);
        let headers: Vec<&String> = self.headers.iter().map(|(name, _)| name).collect();
        formatter
            .debug_struct("ProxySpec")
            .field("url", &self.url())
            .field("user", &user)
            .field("tunnel", &self.tunnel)
            .field("verify", &self.verify)
            .field("cacert", &self.cacert)
            .field("headers", &headers)
            .finish()
    }
}

impl ProxySpec {
    /// Reads `[scheme://][user:password@]host[:port]`, as curl does: without a scheme it is an HTTP
    /// proxy, and the default port is 1080 (443 with https). User and password may be
    /// percent-encoded.
    ///
    /// # Errors
    /// In one line, without user and password.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let (scheme, rest) = match text.split_once("://") {
            None => (ProxyScheme::Http, text),
            Some((name, rest)) => (scheme(name)?, rest),
        };
        let authority = match rest.split_once('/') {
            None | Some((_, "")) => rest.trim_end_matches('/'),
            Some(_) => return Err("a proxy has no path (expected http://host:port)".into()),
        };
        let (user, place) = match authority.rsplit_once('@') {
            None => (None, authority),
            Some((user, place)) => (Some(Self::decoded_user(user)?), place),
        };
        if place.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("contains a space or a control character".into());
        }
        let (host, port) = split_host_and_port(place)?;
        let default_port = match scheme {
            ProxyScheme::Https => DEFAULT_PORT_OF_HTTPS,
            _ => DEFAULT_PORT,
        };
        Ok(Self {
            scheme,
            host: host.to_owned(),
            port: port.unwrap_or(default_port),
            user,
            tunnel: false,
            verify: false,
            cacert: None,
            headers: Vec::new(),
        })
    }

    /// Decodes `user:password`, each part of which may be percent-encoded. Without a password it is
    /// empty.
    ///
    /// # Errors
    /// In one line, without user and password.
    pub fn decoded_user(text: &str) -> Result<String, InvalidValue> {
        let (name, password) = text.split_once(':').unwrap_or((text, ""));
        let name = percent_decoded(name);
        if name.contains(&b':') {
            return Err("the user has a colon, which cannot be told from the password".into());
        }
        let bytes = [name, b":".to_vec(), percent_decoded(password)].concat();
        String::from_utf8(bytes).map_err(|_| "user or password is not UTF-8".into())
    }

    /// `http://host:port`, without the user.
    #[must_use]
    pub fn url(&self) -> String {
        let place = host_header(&self.host, Some(&self.port.to_string()));
        format!("{}://{place}", self.scheme.name())
    }

    /// User and password: what is before the first colon and what is behind it.
    #[must_use]
    pub fn user_and_password(&self) -> Option<(&str, &str)> {
        let user = self.user.as_deref()?;
        Some(user.split_once(':').unwrap_or((user, "")))
    }

    /// Why the proxy cannot be used, and the setting to which that applies.
    pub(crate) fn fault(&self) -> Option<(&'static str, String)> {
        let is_https = self.scheme == ProxyScheme::Https;
        let breaks = |text: &str| text.chars().any(char::is_control);
        if self.host.is_empty() || breaks(&self.host) || self.host.contains([' ', '/', '@']) {
            return Some(("proxy", "is not a host".to_owned()));
        }
        if self.port == 0 {
            return Some(("proxy", "has no port".to_owned()));
        }
        if let Some((user, password)) = self.user_and_password() {
            if breaks(user) || breaks(password) {
                return Some(("proxy-user", "contains a control character".to_owned()));
            }
            let bounds = 1..=SOCKS_TEXT_BYTES_MAX;
            if self.scheme.is_socks()
                && (!bounds.contains(&user.len()) || password.len() > SOCKS_TEXT_BYTES_MAX)
            {
                let problem = format!(
                    "user and password of SOCKS5 have at most {SOCKS_TEXT_BYTES_MAX} bytes each, \
                     and the user at least one"
                );
                return Some(("proxy-user", problem));
            }
        }
        if self.tunnel && self.scheme.is_socks() {
            let problem = "is for HTTP proxies; a SOCKS proxy always makes a tunnel";
            return Some(("proxytunnel", problem.to_owned()));
        }
        if !self.headers.is_empty() && self.scheme.is_socks() {
            let problem = "is for HTTP proxies; a SOCKS proxy gets no headers";
            return Some(("proxy-header", problem.to_owned()));
        }
        for (name, value) in &self.headers {
            if let Err(error) = check_header(name, value) {
                return Some(("proxy-header", error.to_string()));
            }
            if MADE_HEADERS
                .iter()
                .any(|made| name.eq_ignore_ascii_case(made))
            {
                return Some(("proxy-header", format!("{name} is made from the request")));
            }
        }
        let of_tls = [
            (self.verify && self.cacert.is_none(), "proxy-verify"),
            (self.cacert.is_some(), "proxy-cacert"),
        ];
        let misplaced = of_tls
            .into_iter()
            .find(|(is_given, _)| *is_given && !is_https);
        misplaced.map(|(_, setting)| (setting, "is for https:// proxies".to_owned()))
    }

    /// The host as an address, if it is one.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

fn scheme(name: &str) -> Result<ProxyScheme, InvalidValue> {
    let mut all = ProxyScheme::ALL.into_iter();
    all.find(|scheme| scheme.name().eq_ignore_ascii_case(name))
        .ok_or_else(|| {
            InvalidValue::new(format!(
                "{name:?} is not a kind of proxy (expected http, https, socks5 or socks5h)"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_written_as_for_curl() {
        for (text, url, user) in [
            ("h", "http://h:1080", None),
            ("h:3128", "http://h:3128", None),
            ("http://h:3128/", "http://h:3128", None),
            ("HTTP://h", "http://h:1080", None),
            ("https://h", "https://h:443", None),
            ("https://h:8443", "https://h:8443", None),
            ("socks5://127.0.0.1", "socks5://127.0.0.1:1080", None),
            ("socks5h://[::1]:9050", "socks5h://[::1]:9050", None),
            ("u:p@h:1", "http://h:1", Some("u:p")),
            ("socks5h://u@h", "socks5h://h:1080", Some("u:")),
            ("http://a%40b:p%3Aw%2f@h:1", "http://h:1", Some("a@b:p:w/")),
            ("http://u:p@q@h:1", "http://h:1", Some("u:p@q")),
        ] {
            let proxy = ProxySpec::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(proxy.url(), url, "{text}");
            assert_eq!(proxy.user.as_deref(), user, "{text}");
            assert_eq!(proxy.fault(), None, "{text}");
            let again = ProxySpec::parse(url).expect("what is shown can be given");
            assert_eq!(
                ProxySpec {
                    user: None,
                    ..proxy
                },
                again
            );
        }
    }

    #[test]
    fn an_invalid_proxy_is_refused_with_the_reason_and_without_the_password() {
        for (text, said) in [
            ("", "no host"),
            ("http://", "no host"),
            ("u:hidden@", "no host"),
            ("u:hidden@:80", "no host"),
            ("ftp://u:hidden@h", "\"ftp\" is not a kind of proxy"),
            ("socks4://h", "\"socks4\" is not a kind of proxy"),
            ("socks4a://h", "expected http, https, socks5 or socks5h"),
            ("http://u:hidden@h/path", "no path"),
            ("u:hidden@h:0", "\"0\" is not a port"),
            ("u:hidden@h:65536", "\"65536\" is not a port"),
            ("h:", "\"\" is not a port"),
            ("h:http", "\"http\" is not a port"),
            ("[::1", "is not a host"),
            ("[x]:1", "is not a host"),
            ("h*:1", "is not a host"),
            ("a%3Ab:hidden@h", "has a colon"),
            ("u:%ff@h", "not UTF-8"),
            ("h:1 ", "space"),
        ] {
            let message = ProxySpec::parse(text).expect_err(text).to_string();
            assert!(message.contains(said), "{text:?} gives {message}");
            assert!(!message.contains("hidden"), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }

    #[test]
    fn a_proxy_is_never_printed_with_its_password() {
        let proxy = ProxySpec::parse("http://u:hidden@h").unwrap();
        assert!(!format!("{proxy:?} {}", proxy.url()).contains("hidden"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,40}|[a-z0-9.:/?#@\\[\\]%_-]{0,40}") {
            if let Ok(proxy) = ProxySpec::parse(&text) {
                proptest::prop_assert!(!proxy.host.is_empty());
                proptest::prop_assert!(proxy.port > 0);
                let again = ProxySpec::parse(&proxy.url());
                proptest::prop_assert_eq!(again.map(|it| it.url()), Ok(proxy.url()));
            }
        }
    }
}
