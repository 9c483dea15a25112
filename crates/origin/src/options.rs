//! Settings of a server.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;

use eventloop::Address;
use plan::InvalidValue;
pub use protocol::h2::ServerSettings as Http2Settings;
use protocol::h3;

use crate::fault::End;
use crate::quantity::parse_duration_ns;
use crate::recipe::Recipe;
use crate::request::HEAD_MAX_BYTES;
use crate::schedule::{SlowStart, Stall};

/// Settings of a [`Server`](crate::Server); start with [`Options::default`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen. With TCP port 0, the kernel picks one.
    pub listen: Address,
    /// The response to a request without parameters.
    pub defaults: Recipe,
    /// Worker threads, 1 to 64.
    pub threads: usize,
    /// Kernel interface for socket I/O.
    pub backend: Backend,
    /// Expected number of concurrent connections, over all threads; more are possible.
    pub connections: u32,
    /// Seed of all random numbers: the same seed gives the same delays and faults if requests
    /// arrive in the same order.
    pub seed: u64,
    /// A period in which all responses wait.
    pub stall: Option<Stall>,
    /// A period from the first request on in which delays are longer.
    pub slow_start: Option<SlowStart>,
    /// Serve one request at a time: delays become service times of a single server with a FIFO
    /// queue. Needs one thread.
    pub has_service_queue: bool,
    /// Close each connection after this many requests, at least 1.
    pub keepalive_requests: Option<u64>,
    /// What HTTP/2 allows; `None` if only HTTP/1 is spoken.
    pub http2: Option<Http2Settings>,
    /// How a new connection is treated.
    pub greeting: Greeting,
    /// How long nothing is read from a new connection, in nanoseconds. With TLS this is the first
    /// part of the handshake time.
    pub accept_delay_ns: u64,
    /// How long after its first bytes (or after `accept_delay_ns`, if that is later) a TLS
    /// handshake is continued, in nanoseconds.
    pub tls_delay_ns: u64,
    /// Workers never sleep: each uses a full core, and nothing waits for a wake-up.
    pub is_polling: bool,
    /// Maximum number of requests whose arrival and departure are logged; 0 disables the log. An
    /// entry takes 56 bytes, with a generation 96.
    pub log_requests: usize,
    /// Number of requests, from the first, whose bytes are recorded.
    pub record_requests: usize,
    /// Serve TLS; see [`TlsSettings::config`](crate::TlsSettings::config).
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Serve HTTP/3 too, over UDP at the same address and port. Needs `tls`. Streams and windows
    /// are those of `http2`, or its defaults.
    pub http3: Option<Http3Settings>,
}

/// What HTTP/3 has beside HTTP/2.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Http3Settings {
    /// A new client must show first that its address is its own (Retry, RFC 9000 section 8.1.2).
    pub has_retry: bool,
    /// Frames, streams, settings and codes of reserved types are sent too (RFC 9114 section 7.2.8).
    pub has_grease: bool,
    /// The share of datagrams that are dropped in each direction, from 0 to 1.
    pub loss: f64,
    /// How long after the handshake a client may open no streams, nanoseconds.
    pub streams_delay_ns: u64,
}

/// Milliseconds without a packet after which a connection of HTTP/3 is lost.
const HTTP3_IDLE_TIMEOUT_MS: u32 = 30_000;

/// Handshakes of HTTP/3 at a time on a worker. A sixteenth of them, 1024, may be with clients that
/// have not shown that their address is their own. Each takes 60 kB.
const HTTP3_HANDSHAKES_MAX: usize = 16_384;

/// As many streams as load generators commonly use, and a window that rarely delays an upload.
const HTTP2_DEFAULT: Http2Settings = Http2Settings {
    streams_max: 256,
    window_bytes: 1 << 20,
};

/// Default size of the log: 560 MB at most, 960 MB if all are generations.
pub const LOG_REQUESTS_DEFAULT: usize = 10_000_000;

pub(crate) const THREADS_MAX: usize = 64;

/// Kernel interface for socket I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// io_uring if the kernel supports it, otherwise epoll.
    #[default]
    Auto,
    /// io_uring; the server does not start if the kernel does not support it.
    Uring,
    /// epoll, which every kernel supports.
    Epoll,
}

/// How a new connection is treated: faults before any request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Greeting {
    /// Its requests are served.
    #[default]
    Serve,
    /// It ends at once, or nothing is ever sent on it.
    End(End),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            defaults: Recipe::default(),
            threads: 1,
            backend: Backend::Auto,
            connections: 16_384,
            seed: 1,
            stall: None,
            slow_start: None,
            has_service_queue: false,
            keepalive_requests: None,
            http2: Some(HTTP2_DEFAULT),
            greeting: Greeting::Serve,
            accept_delay_ns: 0,
            tls_delay_ns: 0,
            is_polling: false,
            log_requests: 0,
            record_requests: 0,
            tls: None,
            http3: None,
        }
    }
}

impl Options {
    /// Sets the default recipe from text like `size=100k&delay=1ms`.
    ///
    /// # Errors
    /// One line that names the parameter, its value and what was expected.
    pub fn with_defaults(self, text: &str) -> Result<Self, InvalidValue> {
        Ok(Self {
            defaults: Recipe::from_text(text)?,
            ..self
        })
    }

    /// Rejects invalid and contradictory settings.
    ///
    /// # Errors
    /// One line that names the setting and what was expected.
    pub fn check(&self) -> Result<(), InvalidValue> {
        if !(1..=THREADS_MAX).contains(&self.threads) {
            return Err(format!("{} threads: expected 1 to {THREADS_MAX}", self.threads).into());
        }
        if self.has_service_queue && self.threads > 1 {
            return Err("the service queue needs exactly one thread".into());
        }
        if self.tls_delay_ns > 0 && self.tls.is_none() {
            return Err("a TLS handshake delay needs TLS".into());
        }
        if self.http3.is_some() {
            self.check_http3()?;
        }
        if self.keepalive_requests == Some(0) {
            return Err("0 requests per connection: expected at least 1".into());
        }
        Ok(())
    }
}

impl Options {
    fn check_http3(&self) -> Result<(), InvalidValue> {
        let Address::Tcp(address) = &self.listen else {
            return Err("HTTP/3 needs an address with a port: QUIC runs over UDP".into());
        };
        if self.tls.is_none() {
            return Err("HTTP/3 needs TLS".into());
        }
        if address.ip().is_unspecified() {
            // The kernel may choose another source than the address that a client has sent to.
            return Err(format!(
                "HTTP/3 at {address}: expected one address, not all of the machine"
            )
            .into());
        }
        if self.accept_delay_ns > 0 || self.tls_delay_ns > 0 {
            return Err("HTTP/3 has no delays before the handshake".into());
        }
        Ok(())
    }

    /// The settings of HTTP/3. `None` if it is not served.
    pub(crate) fn http3_settings(&self) -> Option<h3::ServerSettings> {
        let Http3Settings {
            has_retry,
            has_grease,
            streams_delay_ns,
            ..
        } = self.http3?;
        let Http2Settings {
            streams_max,
            window_bytes,
        } = self.http2.unwrap_or(HTTP2_DEFAULT);
        Some(h3::ServerSettings {
            streams_max,
            window_bytes,
            section_bytes_max: HEAD_MAX_BYTES,
            idle_timeout_ms: HTTP3_IDLE_TIMEOUT_MS,
            greeting: match self.greeting {
                Greeting::Serve if has_retry => h3::Greeting::Retry,
                Greeting::Serve => h3::Greeting::Accept,
                Greeting::End(End::Hang) => h3::Greeting::Ignore,
                Greeting::End(End::Reset | End::Fin) => h3::Greeting::Refuse,
            },
            handshakes_max: HTTP3_HANDSHAKES_MAX,
            has_grease,
            streams_delay_ns,
        })
    }
}

/// Parses an address: `127.0.0.1:8080`, `[::1]:0`, `localhost:0`, `:8080` (loopback), `8080`
/// (loopback) or `unix:PATH`.
///
/// # Errors
/// One line that names the value and what was expected.
pub fn parse_listen(text: &str) -> Result<Address, InvalidValue> {
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() {
            return Err("`unix:` needs a path, like unix:/tmp/origin.sock".into());
        }
        return Ok(Address::Unix(PathBuf::from(path)));
    }
    if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse::<u16>() {
        return Ok(Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
    }
    if let Ok(address) = text.parse() {
        return Ok(Address::Tcp(address));
    }
    let expected = || {
        format!("`{text}` is not an address: expected HOST:PORT, [IPV6]:PORT, PORT or unix:PATH")
    };
    let mut found = text.to_socket_addrs().map_err(|_| expected())?;
    Ok(found.next().map(Address::Tcp).ok_or_else(expected)?)
}

/// Parses `uring`, `epoll` or `auto`.
///
/// # Errors
/// One line that names the value and what was expected.
pub fn parse_backend(text: &str) -> Result<Backend, InvalidValue> {
    match text {
        "auto" => Ok(Backend::Auto),
        "uring" => Ok(Backend::Uring),
        "epoll" => Ok(Backend::Epoll),
        _ => Err(format!("`{text}` is not a backend: expected auto, uring or epoll").into()),
    }
}

/// Parses `serve`, `reset`, `fin` or `stall`.
///
/// # Errors
/// One line that names the value and what was expected.
pub fn parse_greeting(text: &str) -> Result<Greeting, InvalidValue> {
    match text {
        "serve" => Ok(Greeting::Serve),
        "reset" => Ok(Greeting::End(End::Reset)),
        "fin" => Ok(Greeting::End(End::Fin)),
        "stall" => Ok(Greeting::End(End::Hang)),
        _ => Err(format!("`{text}` is not a greeting: expected serve, reset, fin or stall").into()),
    }
}

/// Parses a stall from two durations, like `3s` and `2s`.
///
/// # Errors
/// One line that names the value and what was expected.
pub fn parse_stall(at: &str, length: &str) -> Result<Stall, InvalidValue> {
    Ok(Stall {
        at_ns: parse_duration_ns(at)?,
        for_ns: parse_duration_ns(length)?,
    })
}

/// The largest factor of a slow start.
const SLOW_START_FACTOR_MAX: f64 = 1e6;

/// Parses a slow start from a duration and a factor, like `3s` and `2.5`.
///
/// # Errors
/// One line that names the value and what was expected.
pub fn parse_slow_start(length: &str, factor: &str) -> Result<SlowStart, InvalidValue> {
    let factor = factor.parse().ok();
    let factor = factor.filter(|factor| (1.0..=SLOW_START_FACTOR_MAX).contains(factor));
    Ok(SlowStart {
        for_ns: parse_duration_ns(length)?,
        factor: factor.ok_or("the factor of a slow start is a number from 1 to 1000000")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_of_addresses_are_parsed() {
        let tcp = |text: &str| Ok(Address::Tcp(text.parse().unwrap()));
        assert_eq!(parse_listen("127.0.0.1:0"), tcp("127.0.0.1:0"));
        assert_eq!(parse_listen("[::1]:80"), tcp("[::1]:80"));
        assert_eq!(parse_listen(":8080"), tcp("127.0.0.1:8080"));
        assert_eq!(parse_listen("8080"), tcp("127.0.0.1:8080"));
        assert_eq!(
            parse_listen("unix:/tmp/a b"),
            Ok(Address::Unix("/tmp/a b".into()))
        );
        for text in ["", "unix:", "127.0.0.1", "1.2.3.4:99999", "[::1]", "65536"] {
            assert!(parse_listen(text).is_err(), "{text}");
        }
    }

    #[test]
    fn contradictory_settings_are_rejected() {
        let refused = |options: Options| options.check().is_err();
        assert!(!refused(Options::default()));
        assert!(refused(Options {
            threads: 0,
            ..Options::default()
        }));
        assert!(refused(Options {
            threads: 65,
            ..Options::default()
        }));
        assert!(refused(Options {
            threads: 2,
            has_service_queue: true,
            ..Options::default()
        }));
        assert!(refused(Options {
            tls_delay_ns: 1,
            ..Options::default()
        }));
        assert!(refused(Options {
            http3: Some(Http3Settings::default()),
            ..Options::default()
        }));
        assert!(refused(Options {
            keepalive_requests: Some(0),
            ..Options::default()
        }));
    }

    #[test]
    fn known_names_are_parsed_and_others_rejected() {
        assert_eq!(parse_backend("epoll"), Ok(Backend::Epoll));
        assert_eq!(parse_greeting("stall"), Ok(Greeting::End(End::Hang)));
        let slow_start = SlowStart {
            for_ns: 3_000_000_000,
            factor: 2.5,
        };
        assert_eq!(parse_slow_start("3s", "2.5"), Ok(slow_start));
        for (length, factor) in [("3", "2x"), ("3s", "0.5"), ("3s", "NaN"), ("3s", "inf")] {
            assert!(
                parse_slow_start(length, factor).is_err(),
                "{length},{factor}"
            );
        }
        assert_eq!(
            parse_stall("3s", "2s"),
            Ok(Stall {
                at_ns: 3_000_000_000,
                for_ns: 2_000_000_000
            })
        );
        assert!(parse_backend("kqueue").is_err());
        assert!(parse_greeting("hello").is_err());
        assert!(parse_stall("3", "2s").is_err());
        assert!(Options::default().with_defaults("size=x").is_err());
    }
}
