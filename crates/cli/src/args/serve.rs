//! Arguments of `wrkbench serve`.

use std::path::PathBuf;

use clap::Args;
use origin::{Address, Greeting, Recipe, SlowStart, Stall};
use plan::{BackendChoice, InvalidValue};

use super::plan_options::backend;

/// Run a test server with chosen delays, sizes, stalls and faults
///
/// Requests say in their query or path what they want, like `/?size=10k&delay=exp:2ms`. The server
/// prints its URL, serves until Ctrl-C, then prints its own counts as one JSON object.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServeArgs {
    /// Listen on HOST:PORT, PORT or unix:PATH.
    ///
    /// A port alone is on loopback. The kernel chooses a port in place of 0.
    #[arg(short, long, value_name = "ADDRESS", default_value = "127.0.0.1:8080",
          value_parser = origin::parse_listen, allow_hyphen_values = true)]
    pub(crate) listen: Address,
    /// Default response recipe, like size=10k&delay=1ms.
    ///
    /// Parameters of a request override it.
    #[arg(short, long, value_name = "OPTIONS", default_value = "", hide_default_value = true,
          value_parser = Recipe::from_text, allow_hyphen_values = true)]
    pub(crate) answer: Recipe,
    /// Worker threads
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = parse_threads,
          allow_hyphen_values = true)]
    pub(crate) threads: usize,
    /// I/O backend
    #[arg(long, value_name = "BACKEND", value_parser = backend(), default_value = "auto")]
    pub(crate) io: BackendChoice,
    /// Seed for random delays and faults
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_number,
          allow_hyphen_values = true)]
    pub(crate) seed: u64,
    /// Pause all responses at time AT for LENGTH, like 3s,2s
    #[arg(long, value_name = "AT,LENGTH", value_parser = parse_stall, allow_hyphen_values = true)]
    pub(crate) stall: Option<Stall>,
    /// Make delays FACTOR times as long for the first T, like 3s,2.5.
    ///
    /// T counts from the first request, and a delay that begins in it is longer.
    #[arg(long, value_name = "T,FACTOR", value_parser = parse_slow_start,
          allow_hyphen_values = true)]
    pub(crate) slow_start: Option<SlowStart>,
    /// Serve one request at a time: a queue in front of a single server
    #[arg(long)]
    pub(crate) queue: bool,
    /// Close each connection after N requests
    #[arg(long, value_name = "N", value_parser = parse_number, allow_hyphen_values = true)]
    pub(crate) keepalive_requests: Option<u64>,
    /// HTTP/2 and HTTP/3: most streams on a connection
    #[arg(long, value_name = "N", default_value = "256", value_parser = parse_streams,
          allow_hyphen_values = true)]
    pub(crate) streams: u32,
    /// HTTP/2 and HTTP/3: flow-control window of request bodies.
    ///
    /// A client may send so many bytes before the server has read them.
    #[arg(long, value_name = "BYTES", default_value = "1Mi", value_parser = parse_window,
          allow_hyphen_values = true)]
    pub(crate) window: u32,
    /// Speak HTTP/1.1 only
    #[arg(long, conflicts_with_all = ["streams", "window"])]
    pub(crate) http1: bool,
    /// Serve HTTP/3 too, over UDP at the same port.
    ///
    /// HTTP/1.1 and HTTP/2 are served over TCP as without it.
    #[arg(long, requires = "tls", conflicts_with_all = ["http1", "accept_delay", "tls_delay"])]
    pub(crate) http3: bool,
    /// HTTP/3: send a Retry to each new connection.
    ///
    /// The client must show first that its address is its own, which takes a round trip.
    #[arg(long, requires = "http3")]
    pub(crate) retry: bool,
    /// HTTP/3: send frames, streams, settings and error codes of reserved types too (GREASE).
    ///
    /// They mean nothing, and a client must ignore them.
    #[arg(long, requires = "http3")]
    pub(crate) grease: bool,
    /// HTTP/3: drop this share of the datagrams in each direction, like 1%.
    ///
    /// The same --seed drops the same datagrams if they come in the same order.
    #[arg(long, value_name = "SHARE", default_value = "0", hide_default_value = true,
          requires = "http3", value_parser = origin::parse_probability,
          allow_hyphen_values = true)]
    pub(crate) loss: f64,
    /// HTTP/3: let clients open no streams for this long after the handshake.
    ///
    /// Until then, MAX_STREAMS is 0.
    #[arg(long, value_name = "T", default_value = "0s", hide_default_value = true,
          requires = "http3", value_parser = origin::parse_duration_ns,
          allow_hyphen_values = true)]
    pub(crate) streams_delay: u64,
    /// New connections: serve, reset, fin or stall
    #[arg(long, value_name = "WHAT", default_value = "serve",
          value_parser = origin::parse_greeting, allow_hyphen_values = true)]
    pub(crate) greeting: Greeting,
    /// Wait this long before reading from a new connection
    #[arg(long, value_name = "T", default_value = "0s", hide_default_value = true,
          value_parser = origin::parse_duration_ns, allow_hyphen_values = true)]
    pub(crate) accept_delay: u64,
    /// Wait this long in each TLS handshake.
    ///
    /// The server waits after the first bytes.
    #[arg(long, value_name = "T", default_value = "0s", hide_default_value = true,
          requires = "tls", value_parser = origin::parse_duration_ns, allow_hyphen_values = true)]
    pub(crate) tls_delay: u64,
    /// Busy-poll, for exact times of arrival; takes a core per thread.
    ///
    /// Times of arrival then have no delay of a wake-up.
    #[arg(long)]
    pub(crate) poll: bool,
    /// On exit, write the times of every request to this file, as CSV.
    ///
    /// They are the times of arrival and of departure.
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    pub(crate) log: Option<PathBuf>,
    /// Serve TLS, with a generated certificate unless --cert is given
    #[arg(long)]
    pub(crate) tls: bool,
    /// Certificate chain, a PEM file
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"], allow_hyphen_values = true)]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of the certificate, a PEM file
    #[arg(long, value_name = "FILE", requires_all = ["tls", "cert"], allow_hyphen_values = true)]
    pub(crate) key: Option<PathBuf>,
    /// Require client certificates signed by a CA in this PEM file
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls",
        allow_hyphen_values = true
    )]
    pub(crate) client_ca: Option<PathBuf>,
}

fn parse_threads(text: &str) -> Result<usize, InvalidValue> {
    origin::parse_count(text, u64::from(u16::MAX)).map(|threads| threads as usize)
}

fn parse_number(text: &str) -> Result<u64, InvalidValue> {
    origin::parse_count(text, u64::MAX)
}

fn parse_streams(text: &str) -> Result<u32, InvalidValue> {
    origin::parse_count(text, u64::from(u32::MAX)).map(|streams| streams as u32)
}

fn parse_window(text: &str) -> Result<u32, InvalidValue> {
    match origin::parse_bytes(text)? {
        bytes @ 0..=WINDOW_MAX => Ok(bytes as u32),
        _ => Err(format!("`{text}` is not a window: expected at most 2147483647").into()),
    }
}

/// RFC 9113 section 6.9.1.
const WINDOW_MAX: u64 = (1 << 31) - 1;

fn parse_stall(text: &str) -> Result<Stall, InvalidValue> {
    let (at, length) = text
        .split_once(',')
        .ok_or_else(|| format!("`{text}` is not AT,LENGTH (expected like 3s,2s)"))?;
    origin::parse_stall(at, length)
}

fn parse_slow_start(text: &str) -> Result<SlowStart, InvalidValue> {
    let (length, factor) = text
        .split_once(',')
        .ok_or_else(|| format!("`{text}` is not T,FACTOR (expected like 3s,2.5)"))?;
    origin::parse_slow_start(length, factor)
}
