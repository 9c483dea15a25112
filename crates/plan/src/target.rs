//! The target of a run: an http or https URL.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::secrets::hide_secrets;
use crate::{InvalidValue, saved};

/// A parsed URL, with the parts that the request and the resolver need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Target {
    /// The URL as typed. What is shown and saved has no user information
    /// ([`RunPlan::without_secrets`](crate::RunPlan::without_secrets)).
    pub url: String,
    /// The scheme, http or https.
    pub scheme: Scheme,
    /// Name or address. An IPv6 address has no brackets, but may have a zone (`fe80::1%eth0`).
    pub host: String,
    /// The service to resolve: the port as typed, otherwise `http` or `https`.
    pub service: String,
    /// The port as typed, if the URL has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Path, query and fragment, byte for byte; starts with `/`.
    pub path: String,
    /// Value of the `Host` header, unless another header replaces it.
    pub host_header: String,
    /// Unix socket to connect to; the host is then used for the `Host` header only.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(
        with = "saved::optional_path",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub unix_socket: Option<PathBuf>,
}

/// The scheme of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// HTTP over plain TCP.
    Http,
    /// HTTP within TLS, verified as [`TlsSpec`](crate::TlsSpec) says.
    Https,
}

impl Scheme {
    /// The name in lower case, which is also the service to resolve if a URL has no port.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port if a URL has none.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Why a URL is refused; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The URL does not start with `letters://`.
    #[error("invalid URL: {0:?} has no scheme (expected like http://host:port/path)")]
    NoScheme(String),
    /// The scheme is neither http nor https. wrk would use plain HTTP for it.
    #[error("invalid URL: {url:?}: scheme {scheme:?} is not supported (expected http or https)")]
    Scheme {
        /// The URL as typed.
        url: String,
        /// The text before `://`.
        scheme: String,
    },
    /// There is nothing between `://` and the port or path.
    #[error("invalid URL: {0:?} has no host (expected like http://host:port/path)")]
    NoHost(String),
    /// The host has a character that host names do not have, or is not a valid IPv6 address.
    #[error(
        "invalid URL: {url:?}: {host:?} is not a host \
         (expected a name, an IPv4 address, or an IPv6 address in brackets)"
    )]
    Host {
        /// The URL as typed.
        url: String,
        /// The part that should be the host.
        host: String,
    },
    /// The port is empty, zero, too large, or not a number.
    #[error("invalid URL: {url:?}: {port:?} is not a port (expected 1 to 65535)")]
    Port {
        /// The URL as typed.
        url: String,
        /// The part that should be the port.
        port: String,
    },
    /// The URL has a blank or a control character, which would break the request line.
    #[error("invalid URL: {0:?} contains a space or a control character (write a space as %20)")]
    Blank(String),
}

impl Target {
    /// Whether this names its host, with or without the port.
    #[must_use]
    pub fn is_host(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case(&self.host) || name.eq_ignore_ascii_case(&self.host_header)
    }

    /// Parses a URL as wrk does, without its defects.
    ///
    /// As in wrk, the path is sent byte for byte, including the fragment. Unlike in wrk, user
    /// information is used ([`Target::credentials`]), a query directly after the host is sent
    /// (`/?a=b`), the scheme may be in upper case, and a host may contain an underscore.
    ///
    /// # Errors
    /// If `url` is not a valid http or https URL.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        if url
            .chars()
            .any(|c| c.is_ascii_whitespace() || c.is_control())
        {
            return Err(UrlError::Blank(hide_secrets(url)));
        }
        let (scheme, rest) = split_scheme(url)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) = split_authority(url, authority)?;
        Ok(Self {
            url: url.to_owned(),
            scheme,
            service: port.unwrap_or_else(|| scheme.name()).to_owned(),
            port: port.map(str::to_owned),
            path: if path.starts_with('/') {
                path.to_owned()
            } else {
                format!("/{path}")
            },
            host_header: host_header(host, port),
            host: host.to_owned(),
            unix_socket: None,
        })
    }

    /// `user:password` of the URL, percent-decoded (RFC 3986 section 3.2.1), for Basic
    /// authentication; `None` if the URL has no user.
    #[must_use]
    pub fn credentials(&self) -> Option<Vec<u8>> {
        let (_, rest) = self.url.split_once("://")?;
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        let (user, _) = authority.rsplit_once('@')?;
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        Some(
            [
                percent_decoded(name),
                b":".to_vec(),
                percent_decoded(password),
            ]
            .concat(),
        )
    }

    /// `host:port` with the number of the port, for a proxy. An address has no zone.
    #[must_use]
    pub fn authority(&self) -> String {
        host_header(&self.host, Some(&self.port_number().to_string()))
    }

    /// The port to connect to, 1..=65535: the default port of the scheme if the URL has none, or if
    /// an edited plan has one that is not a number.
    #[must_use]
    pub fn port_number(&self) -> u16 {
        self.port
            .as_deref()
            .and_then(|port| port.parse().ok())
            .unwrap_or_else(|| self.scheme.default_port())
    }
}

/// Decodes every `%XX`. A `%` without two hexadecimal digits after it remains.
#[must_use]
pub fn percent_decoded(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digit = |at: usize| char::from(*behind.get(at)?).to_digit(16);
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                rest = &behind[2..];
            }
            _ => {
                decoded.push(first);
                rest = behind;
            }
        }
    }
    decoded
}

fn split_scheme(url: &str) -> Result<(Scheme, &str), UrlError> {
    let no_scheme = || UrlError::NoScheme(hide_secrets(url));
    let (scheme, rest) = url.split_once("://").ok_or_else(no_scheme)?;
    if scheme.is_empty() || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(no_scheme());
    }
    if scheme.eq_ignore_ascii_case("http") {
        Ok((Scheme::Http, rest))
    } else if scheme.eq_ignore_ascii_case("https") {
        Ok((Scheme::Https, rest))
    } else {
        Err(UrlError::Scheme {
            url: hide_secrets(url),
            scheme: scheme.to_owned(),
        })
    }
}

/// Host without brackets, and the port as typed.
fn split_authority<'a>(
    url: &str,
    authority: &'a str,
) -> Result<(&'a str, Option<&'a str>), UrlError> {
    let place = authority
        .rsplit_once('@')
        .map_or(authority, |(_user, place)| place);
    split_place(place).map_err(|fault| match fault {
        PlaceFault::NoHost => UrlError::NoHost(hide_secrets(url)),
        PlaceFault::Host(host) => UrlError::Host {
            url: hide_secrets(url),
            host: host.to_owned(),
        },
        PlaceFault::Port(port) => UrlError::Port {
            url: hide_secrets(url),
            port: port.to_owned(),
        },
    })
}

/// Splits `host[:port]` outside of a URL; an IPv6 address has brackets.
pub(crate) fn split_host_and_port(place: &str) -> Result<(&str, Option<u16>), InvalidValue> {
    let (host, port) = split_place(place).map_err(|fault| match fault {
        PlaceFault::NoHost => "there is no host (expected host:port)".to_owned(),
        PlaceFault::Host(host) => format!("{host:?} is not a host"),
        PlaceFault::Port(port) => format!("{port:?} is not a port"),
    })?;
    Ok((host, port.and_then(|port| port.parse().ok())))
}

/// What is wrong with `host[:port]`, and the part that is wrong.
enum PlaceFault<'a> {
    NoHost,
    Host(&'a str),
    Port(&'a str),
}

/// Host without brackets, and the port as typed.
fn split_place(place: &str) -> Result<(&str, Option<&str>), PlaceFault<'_>> {
    let (host, after_host) = if let Some(inner) = place.strip_prefix('[') {
        let (host, after) = inner.split_once(']').ok_or(PlaceFault::Host(place))?;
        if !is_ipv6(host) {
            return Err(PlaceFault::Host(host));
        }
        (host, after)
    } else {
        let (host, after) = place.split_at(place.find(':').unwrap_or(place.len()));
        if host.is_empty() {
            return Err(PlaceFault::NoHost);
        }
        if !host
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
        {
            return Err(PlaceFault::Host(host));
        }
        (host, after)
    };
    if after_host.is_empty() {
        return Ok((host, None));
    }
    let port = after_host
        .strip_prefix(':')
        .ok_or(PlaceFault::Host(place))?;
    // `u16`'s own parser would take a sign.
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(1..) if digits => Ok((host, Some(port))),
        _ => Err(PlaceFault::Port(port)),
    }
}

/// An address with an optional zone (RFC 4007 section 11: `fe80::1%eth0`).
fn is_ipv6(host: &str) -> bool {
    let (address, zone) = match host.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (host, None),
    };
    let zone_is_name = zone.is_none_or(|zone| {
        !zone.is_empty()
            && zone
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"%.-_~".contains(&b))
    });
    address.parse::<Ipv6Addr>().is_ok() && zone_is_name
}

/// Value of the `Host` header: brackets again, the port only if it was typed.
pub(crate) fn host_header(host: &str, port: Option<&str>) -> String {
    // A zone means something on this machine only and must not be sent (RFC 6874 section 1).
    let name = host
        .split_once('%')
        .map_or(host, |(address, _zone)| address);
    let name = if name.contains(':') {
        format!("[{name}]")
    } else {
        name.to_owned()
    };
    match port {
        Some(port) => format!("{name}:{port}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> (Scheme, String, String, String, String) {
        let t = Target::parse(url).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(t.url, url);
        assert_eq!(
            t.port.as_deref().unwrap_or_else(|| t.scheme.name()),
            t.service
        );
        (t.scheme, t.host, t.service, t.path, t.host_header)
    }

    #[test]
    fn urls_are_split_into_their_parts() {
        use Scheme::{Http, Https};
        let table = [
            ("http://h", Http, "h", "http", "/", "h"),
            ("http://h/", Http, "h", "http", "/", "h"),
            ("http://h:80/", Http, "h", "80", "/", "h:80"),
            ("https://h", Https, "h", "https", "/", "h"),
            (
                "http://127.0.0.1:8080/a/b",
                Http,
                "127.0.0.1",
                "8080",
                "/a/b",
                "127.0.0.1:8080",
            ),
            ("http://h/a?b=c&d#e", Http, "h", "http", "/a?b=c&d#e", "h"),
            (
                "http://h/%7e/%zz//..",
                Http,
                "h",
                "http",
                "/%7e/%zz//..",
                "h",
            ),
            (
                "http://h/\u{e4}?\u{20ac}",
                Http,
                "h",
                "http",
                "/\u{e4}?\u{20ac}",
                "h",
            ),
            ("http://h/a@b:c", Http, "h", "http", "/a@b:c", "h"),
            ("http://h/x://y", Http, "h", "http", "/x://y", "h"),
            ("http://u:p@h:81/", Http, "h", "81", "/", "h:81"),
            ("http://u@v@h/", Http, "h", "http", "/", "h"),
            ("http://[::1]/", Http, "::1", "http", "/", "[::1]"),
            (
                "http://[::1]:18100/p",
                Http,
                "::1",
                "18100",
                "/p",
                "[::1]:18100",
            ),
            (
                "https://[fe80::1%eth0]:1",
                Https,
                "fe80::1%eth0",
                "1",
                "/",
                "[fe80::1]:1",
            ),
            // Broken in wrk, right here.
            ("http://h?a=b", Http, "h", "http", "/?a=b", "h"),
            ("http://h:8080?a=/b", Http, "h", "8080", "/?a=/b", "h:8080"),
            ("http://h#top", Http, "h", "http", "/#top", "h"),
            ("HTTPS://h:1/", Https, "h", "1", "/", "h:1"),
            ("HtTp://H/", Http, "H", "http", "/", "H"),
            (
                "http://exa_mple/",
                Http,
                "exa_mple",
                "http",
                "/",
                "exa_mple",
            ),
        ];
        for (url, scheme, host, service, path, header) in table {
            let expected = (
                scheme,
                host.into(),
                service.into(),
                path.into(),
                header.into(),
            );
            assert_eq!(parts(url), expected, "{url}");
        }
    }

    #[test]
    fn an_invalid_url_is_refused_with_the_reason() {
        let table = [
            ("", "has no scheme"),
            ("localhost", "has no scheme"),
            ("localhost:80/", "has no scheme"),
            ("://h", "has no scheme"),
            ("/path", "has no scheme"),
            ("ht-tp://h", "has no scheme"),
            ("ftp://h/", "scheme \"ftp\" is not supported"),
            ("httpss://h/", "scheme \"httpss\" is not supported"),
            ("ws://h/", "expected http or https"),
            ("http://", "has no host"),
            ("http:///p", "has no host"),
            ("http://:80/", "has no host"),
            ("http://u@/", "has no host"),
            ("http://?a", "has no host"),
            ("http://h:/", "\"\" is not a port"),
            ("http://h:0/", "\"0\" is not a port"),
            ("http://h:65536/", "\"65536\" is not a port"),
            ("http://h:99999999999999999999/", "is not a port"),
            ("http://h:-1/", "\"-1\" is not a port"),
            ("http://h:+80/", "\"+80\" is not a port"),
            ("http://h:http/", "\"http\" is not a port"),
            ("http://a:b:1/", "\"b:1\" is not a port"),
            ("http://h:80x/", "\"80x\" is not a port"),
            ("http://::1/", "has no host"),
            ("http://[::1/", "is not a host"),
            ("http://[::1]x/", "is not a host"),
            ("http://[::1]80/", "is not a host"),
            ("http://[]/", "is not a host"),
            ("http://[1.2.3.4]/", "is not a host"),
            ("http://[::1%]/", "is not a host"),
            ("http://h*st/", "is not a host"),
            ("http://b\u{fc}cher.example/", "is not a host"),
            ("http://h/a b", "space or a control"),
            (" http://h/", "space or a control"),
            ("http://h/\r\nX: y", "space or a control"),
            ("http://h/\0", "space or a control"),
            ("http://h/\u{7f}", "space or a control"),
        ];
        for (url, said) in table {
            let message = match Target::parse(url) {
                Err(error) => error.to_string(),
                Ok(target) => panic!("{url:?} was taken as {target:?}"),
            };
            assert!(message.contains(said), "{url:?} gives {message}");
            assert!(message.starts_with("invalid URL: "), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }

    #[test]
    fn user_and_password_are_decoded_for_basic_authentication() {
        let of = |url: &str| {
            let credentials = Target::parse(url).unwrap().credentials();
            credentials.map(|bytes| String::from_utf8(bytes).unwrap())
        };
        for (url, expected) in [
            ("http://u:p@h/", Some("u:p")),
            ("http://u@h/", Some("u:")),
            ("http://:p@h/", Some(":p")),
            ("http://a%40b:p%3Aw%2f@h/x@y", Some("a@b:p:w/")),
            ("http://u:100%@h/", Some("u:100%")),
            ("http://u:%4@h/", Some("u:%4")),
            ("http://u:a:b@h/", Some("u:a:b")),
            ("http://u:\u{e4}%c3%a4@h/", Some("u:\u{e4}\u{e4}")),
            ("http://h/a@b", None),
            ("http://h?a@b", None),
        ] {
            assert_eq!(of(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn no_error_about_a_url_shows_its_password() {
        for url in [
            "http://u:hidden@h:99999/",
            "http://u:hidden@h*/",
            "http://u:hidden@/",
            "ftp://u:hidden@h/",
            "http://u:hidden@h/a b",
            "x-y://u:hidden@h/",
        ] {
            let message = Target::parse(url).unwrap_err().to_string();
            assert!(!message.contains("hidden"), "{message}");
        }
    }

    #[test]
    fn without_a_port_the_default_port_of_the_scheme_is_used() {
        let port = |url: &str| Target::parse(url).map(|target| target.port_number());
        assert_eq!(port("http://h/"), Ok(80));
        assert_eq!(port("https://h/"), Ok(443));
        assert_eq!(port("https://h:80/"), Ok(80));
        assert_eq!(port("http://h:0080/"), Ok(80));
        assert_eq!(port("http://h:65535/"), Ok(65535));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(
            text in "\\PC{0,60}",
            tail in "[a-z0-9.:/?#@\\[\\]%_-]{0,40}",
        ) {
            let _ = Target::parse(&text);
            for scheme in ["http", "HTTPS"] {
                let url = format!("{scheme}://{tail}");
                if let Ok(target) = Target::parse(&url) {
                    proptest::prop_assert!(target.path.starts_with('/'));
                    proptest::prop_assert!(url.ends_with(&target.path) || url.ends_with(&target.path[1..]));
                    proptest::prop_assert!(!target.host.is_empty());
                    proptest::prop_assert!(target.port_number() >= 1);
                }
            }
        }

        #[test]
        fn host_header_and_path_make_the_same_target_again(
            host in "[a-zA-Z0-9._-]{1,20}",
            port in proptest::option::of(1_u16..),
            path in "/[!-~]{0,30}",
        ) {
            let port = port.map(|port| format!(":{port}")).unwrap_or_default();
            let url = format!("http://{host}{port}{path}");
            let target = Target::parse(&url).unwrap();
            proptest::prop_assert_eq!(&target.host, &host);
            proptest::prop_assert_eq!(format!("http://{}{}", target.host_header, target.path), url);
        }
    }
}
