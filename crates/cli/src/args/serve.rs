//! The arguments of the built-in server.

use std::path::PathBuf;

use clap::Args;
use origin::{Address, Answer, Greeting, Stall};

use super::run::Io;

/// Serve test answers: delays, sizes, stalls and faults on request
#[derive(Debug, Clone, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen: HOST:PORT, PORT (loopback) or unix:PATH; with port 0 the kernel chooses
    #[arg(short, long, value_name = "ADDRESS", default_value = "127.0.0.1:8080",
          value_parser = origin::parse_listen, allow_hyphen_values = true)]
    pub(crate) listen: Address,
    /// What requests get that ask for nothing, like size=10k&delay=1ms
    #[arg(short, long, value_name = "OPTIONS", default_value = "", hide_default_value = true,
          value_parser = Answer::from_text, allow_hyphen_values = true)]
    pub(crate) answer: Answer,
    /// Worker threads
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = parse_threads,
          allow_hyphen_values = true)]
    pub(crate) threads: usize,
    /// Kernel interface that drives the sockets
    #[arg(long, value_name = "BACKEND", value_enum, default_value = "auto")]
    pub(crate) io: Io,
    /// Begins the random numbers of delays and faults
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_number,
          allow_hyphen_values = true)]
    pub(crate) seed: u64,
    /// Let everything wait: from the first time on for the second, like 3s,2s
    #[arg(long, value_name = "AT,LENGTH", value_parser = parse_stall, allow_hyphen_values = true)]
    pub(crate) stall: Option<Stall>,
    /// Serve one request after the other: a queue before one server
    #[arg(long)]
    pub(crate) queue: bool,
    /// Close each connection after so many requests
    #[arg(long, value_name = "N", value_parser = parse_number, allow_hyphen_values = true)]
    pub(crate) keepalive_requests: Option<u64>,
    /// What a new connection gets: serve, reset, fin, stall, alert or garbage
    #[arg(long, value_name = "WHAT", default_value = "serve",
          value_parser = origin::parse_greeting, allow_hyphen_values = true)]
    pub(crate) greeting: Greeting,
    /// Read nothing from a new connection for this long
    #[arg(long, value_name = "T", default_value = "0s", hide_default_value = true,
          value_parser = origin::parse_duration_ns, allow_hyphen_values = true)]
    pub(crate) accept_delay: u64,
    /// Begin each TLS handshake this long after its first bytes
    #[arg(long, value_name = "T", default_value = "0s", hide_default_value = true,
          requires = "tls", value_parser = origin::parse_duration_ns, allow_hyphen_values = true)]
    pub(crate) tls_delay: u64,
    /// Never sleep: arrivals are noted at once, and each thread keeps a core busy
    #[arg(long)]
    pub(crate) poll: bool,
    /// At the end write the arrival and departure of each request to this file, as CSV
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    pub(crate) log: Option<PathBuf>,
    /// Speak TLS, with a certificate made on the spot unless --cert is given
    #[arg(long)]
    pub(crate) tls: bool,
    /// Certificate chain, a PEM file
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"], allow_hyphen_values = true)]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of the certificate, a PEM file
    #[arg(long, value_name = "FILE", requires_all = ["tls", "cert"], allow_hyphen_values = true)]
    pub(crate) key: Option<PathBuf>,
    /// Ask for client certificates signed by an authority in this PEM file
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls",
        allow_hyphen_values = true
    )]
    pub(crate) client_ca: Option<PathBuf>,
}

fn parse_threads(text: &str) -> Result<usize, String> {
    let threads = origin::parse_count(text, u64::from(u16::MAX))?;
    usize::try_from(threads).map_err(|error| error.to_string())
}

fn parse_number(text: &str) -> Result<u64, String> {
    origin::parse_count(text, u64::MAX)
}

fn parse_stall(text: &str) -> Result<Stall, String> {
    let (at, length) = text
        .split_once(',')
        .ok_or_else(|| format!("`{text}` is not AT,LENGTH, e.g. 3s,2s"))?;
    origin::parse_stall(at, length)
}
