//! The arguments of the built-in server.

use std::net::SocketAddr;

use clap::Args;

/// Serve test answers: delays, sizes, stalls and faults on request
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct ServeArgs {
    /// Address and port to listen on; port 0 lets the kernel choose
    #[arg(short, long, value_name = "ADDRESS", default_value = "127.0.0.1:8080",
          value_parser = parse_address, allow_hyphen_values = true)]
    pub(crate) listen: SocketAddr,
}

/// Takes a bare port too, which means loopback: a test server is not for the world.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let port_only = text.strip_prefix(':').unwrap_or(text);
    port_only
        .parse::<u16>()
        .map(|port| SocketAddr::from(([127, 0, 0, 1], port)))
        .or_else(|_| text.parse())
        .map_err(|_| {
            format!("{text:?} is not an address (expected like 127.0.0.1:8080, [::1]:8080, 8080)")
        })
}
