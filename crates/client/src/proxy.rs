//! How connections get through the proxy of a plan.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use plan::{ProxyScheme, ProxySpec, RunPlan};
use protocol::proxy::{Connect, Destination, Forward, Login, ProxyClient, Route, Socks, Tunnel};
use protocol::tls::TlsClient;

use crate::resolve::SystemNetwork;
use crate::{ClientError, Permit, TargetError, tls};

/// Prepares what the proxy is asked for, and TLS for an https proxy.
///
/// # Errors
/// If the target has to be resolved here and cannot be, or a file cannot be used.
pub fn proxy_client(plan: &RunPlan, permit: &Permit) -> Result<Option<ProxyClient>, ClientError> {
    let Some(proxy) = &plan.proxy else {
        return Ok(None);
    };
    let route = if proxy.scheme.is_socks() {
        Route::Tunnel(Tunnel::Socks(socks(plan, proxy, permit)?))
    } else {
        over_http(plan, proxy)
    };
    let tls = match proxy.scheme {
        ProxyScheme::Https => Some(tls_to(proxy)?),
        ProxyScheme::Http | ProxyScheme::Socks5 | ProxyScheme::Socks5h => None,
    };
    Ok(Some(ProxyClient {
        route: Arc::new(route),
        tls,
    }))
}

fn over_http(plan: &RunPlan, proxy: &ProxySpec) -> Route {
    let headers = header_lines(proxy);
    match plan.forwarding_proxy() {
        Some(_) => Route::Forward(Forward::new(&plan.target.host_header, &headers)),
        None => {
            let authority = plan.target.authority();
            Route::Tunnel(Tunnel::Connect(Connect::new(&authority, &headers)))
        }
    }
}

/// The headers of requests for an HTTP proxy. An explicit authorization has precedence.
fn header_lines(proxy: &ProxySpec) -> String {
    const NAME: &str = "Proxy-Authorization";
    let line = |(name, value): &(String, String)| format!("{name}: {value}\r\n");
    let mut lines: String = proxy.headers.iter().map(line).collect();
    let mut names = proxy.headers.iter().map(|(name, _)| name);
    let is_authorized = names.any(|name| name.eq_ignore_ascii_case(NAME));
    if let Some((user, password)) = proxy.user_and_password().filter(|_| !is_authorized) {
        let credentials = BASE64_STANDARD.encode(format!("{user}:{password}"));
        lines.push_str(&format!("{NAME}: Basic {credentials}\r\n"));
    }
    lines
}

fn socks(plan: &RunPlan, proxy: &ProxySpec, permit: &Permit) -> Result<Socks, ClientError> {
    let target = &plan.target;
    let destination = match (target.host.parse(), proxy.scheme) {
        (Ok(address), _) => Destination::Address(address),
        (Err(_), ProxyScheme::Socks5) => {
            let network = SystemNetwork::new(plan, permit.clone());
            Destination::Address(network.target_address(target)?)
        }
        (Err(_), _) => Destination::Name(target.host.clone()),
    };
    let login = proxy.user_and_password().map(|(user, password)| Login {
        user: user.into(),
        password: password.into(),
    });
    let socks = Socks::new(&destination, target.port_number(), login.as_ref());
    Ok(socks.map_err(|problem| TargetError::Proxy(proxy.url(), problem))?)
}

fn tls_to(proxy: &ProxySpec) -> Result<TlsClient, ClientError> {
    tls::to_peer(&tls::Peer {
        host: &proxy.host,
        alpn: &[b"http/1.1"],
        verify: proxy.verify,
        cacert: proxy.cacert.as_deref().map(Path::new),
        identity: None,
        full_handshakes: false,
        early_data: false,
        options: tls::PROXY_OPTIONS,
        seen: None,
    })
}
