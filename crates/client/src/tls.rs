//! TLS settings from the files in the options.

use crate::ClientError;
use crate::stream::{self, Deadline};
use eventloop::Address;
use plan::{Alpn, Protocol, RunPlan, Target};
use protocol::proxy::ProxyClient;
use protocol::tls::{
    Identity, Options, Roots, SeenCertificate, ServerName, TlsClient, TlsConfigError,
    chosen_protocol, config, server_name,
};
use std::path::Path;

/// A peer to speak TLS with.
pub(crate) struct Peer<'a> {
    pub(crate) host: &'a str,
    pub(crate) alpn: &'a [&'a [u8]],
    pub(crate) verify: bool,
    pub(crate) cacert: Option<&'a Path>,
    pub(crate) identity: Option<Identity<'a>>,
    pub(crate) full_handshakes: bool,
    pub(crate) early_data: bool,
    pub(crate) options: OptionNames,
    pub(crate) seen: Option<SeenCertificate>,
}

/// The options that messages about a peer name.
#[derive(Clone, Copy)]
pub(crate) struct OptionNames {
    pub(crate) verify: &'static str,
    pub(crate) cacert: &'static str,
}

pub(crate) const TARGET_OPTIONS: OptionNames = OptionNames {
    verify: "--verify",
    cacert: "--cacert",
};

pub(crate) const PROXY_OPTIONS: OptionNames = OptionNames {
    verify: "--proxy-verify",
    cacert: "--proxy-cacert",
};

/// Reads the files and sets up TLS with the target for all workers.
///
/// # Errors
/// If a file cannot be read or has nothing usable. The message names the option.
pub fn tls_client(plan: &RunPlan) -> Result<TlsClient, ClientError> {
    client_noting(plan, TARGET_OPTIONS, None)
}

/// As [`tls_client`], with other names of options, and the server's certificate is noted.
///
/// # Errors
/// If a file cannot be read, or TLS cannot be set up with what is in it.
pub(crate) fn client_noting(
    plan: &RunPlan,
    options: OptionNames,
    seen: Option<SeenCertificate>,
) -> Result<TlsClient, ClientError> {
    let spec = &plan.tls;
    let certificates = read(spec.cert.as_deref(), "--cert")?;
    let key = read(spec.key.as_deref(), "--key")?;
    let identity = match (&certificates, &key) {
        (Some(certificates_pem), Some(key_pem)) => Some(Identity {
            certificates_pem,
            key_pem,
        }),
        _ => None,
    };
    let alpn = plan.alpn();
    let alpn: Vec<&[u8]> = alpn.iter().map(|alpn| alpn.name().as_bytes()).collect();
    to_peer(&Peer {
        host: &plan.target.host,
        alpn: &alpn,
        verify: spec.verify,
        cacert: spec.cacert.as_deref(),
        identity,
        full_handshakes: spec.full_handshakes,
        early_data: spec.early_data,
        options,
        seen,
    })
}

/// The names of further hosts.
///
/// # Errors
/// If one is neither a name nor an address.
pub fn names(hosts: &[Target]) -> Result<Vec<ServerName<'static>>, ClientError> {
    let names = hosts.iter().map(|target| server_name(&target.host));
    names
        .collect::<Result<_, _>>()
        .map_err(|error| name_option(&error, TARGET_OPTIONS))
}

/// Reads the certificate authorities and sets up TLS with a peer.
///
/// # Errors
/// If the file cannot be read, or has no certificate that can be used.
pub(crate) fn to_peer(peer: &Peer<'_>) -> Result<TlsClient, ClientError> {
    let named = |error: TlsConfigError| name_option(&error, peer.options);
    let cacert = read(peer.cacert, peer.options.cacert)?;
    let roots = match &cacert {
        Some(pem) => Some(Roots::Pem(pem)),
        None if peer.verify => Some(Roots::System(system_roots())),
        None => None,
    };
    let options = Options {
        alpn: peer.alpn,
        roots,
        identity: peer.identity,
        full_handshakes: peer.full_handshakes,
        early_data: peer.early_data,
        seen: peer.seen.clone(),
    };
    let config = config(&options).map_err(named)?;
    let name = server_name(peer.host).map_err(named)?;
    Ok(TlsClient {
        config,
        name,
        more_names: Vec::new(),
    })
}

/// Makes one connection, through the proxy if there is one, on which the server chooses the
/// protocol of the run.
///
/// # Errors
/// If there is no connection, the handshake fails, or the plan does not fit the protocol.
pub fn negotiate(
    plan: &mut RunPlan,
    client: &TlsClient,
    proxy: Option<&ProxyClient>,
    address: &Address,
) -> Result<Alpn, ClientError> {
    let offered = Alpn::list(&plan.tls.alpn);
    let failed = |reason: String| ClientError::Tls(format!("--alpn {offered}: {reason}"));
    let plain = |error: std::io::Error| failed(error.to_string());
    let deadline = Deadline::of_plan(plan);
    let mut stream = stream::connect(plan, address, &deadline).map_err(plain)?;
    if let Some(proxy) = proxy {
        stream =
            stream::through(proxy, stream, &deadline).map_err(|error| failed(error.to_string()))?;
    }
    deadline.begin_step();
    let chosen = chosen_protocol(&client.config, client.name.clone(), &mut stream);
    let chosen = chosen.map_err(plain)?;
    let chosen = Alpn::chosen(chosen.as_deref())
        .ok_or_else(|| failed("the server chose an unknown protocol".to_owned()))?;
    let name = chosen.name();
    plan.load.protocol = match chosen {
        Alpn::Http1 if plan.load.streams > 1 => {
            let problem = "which has no streams (--streams)";
            return Err(failed(format!("the server chose {name}, {problem}")));
        }
        Alpn::Http1 => Protocol::Http1,
        Alpn::Http2 => Protocol::Http2,
        Alpn::Http3 => Protocol::Http3,
    };
    plan.check()
        .map_err(|error| failed(format!("the server chose {name}; {error}")))?;
    Ok(chosen)
}

/// The system's certificate store. Entries that cannot be parsed are skipped; an empty list is
/// rejected later.
fn system_roots() -> Vec<protocol::tls::CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

fn read(path: Option<&Path>, option: &'static str) -> Result<Option<Vec<u8>>, ClientError> {
    let Some(path) = path else { return Ok(None) };
    match files::read(path, files::SMALL_FILE_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => Err(ClientError::File {
            option,
            path: path.to_owned(),
            error,
        }),
    }
}

fn name_option(error: &TlsConfigError, names: OptionNames) -> ClientError {
    let option = match error {
        TlsConfigError::Roots(_) => names.cacert,
        TlsConfigError::Certificate(_) => "--cert",
        TlsConfigError::Key(_) => "--key",
        TlsConfigError::Identity(_) => "--cert, --key",
        TlsConfigError::SystemRoots => names.verify,
        TlsConfigError::ServerName(_) | TlsConfigError::Setup(_) => {
            return ClientError::Tls(error.to_string());
        }
    };
    ClientError::Tls(format!("{option}: {error}"))
}
