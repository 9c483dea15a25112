//! TLS settings from the files in the options.

use crate::RunnerError;
use engine::TlsClient;
use plan::{Protocol, RunPlan};
use protocol::tls::{Identity, Options, Roots, TlsConfigError, config, server_name};
use std::path::Path;

/// Reads the files and sets up TLS for all workers.
///
/// # Errors
/// If a file cannot be read or has nothing usable. The message names the option.
pub(crate) fn client(plan: &RunPlan) -> Result<TlsClient, RunnerError> {
    let spec = &plan.tls;
    let cacert = read(spec.cacert.as_deref(), "--cacert")?;
    let certificates = read(spec.cert.as_deref(), "--cert")?;
    let key = read(spec.key.as_deref(), "--key")?;
    let roots = match &cacert {
        Some(pem) => Some(Roots::Pem(pem)),
        None if spec.verify => Some(Roots::System(system_roots())),
        None => None,
    };
    let identity = match (&certificates, &key) {
        (Some(certificates_pem), Some(key_pem)) => Some(Identity {
            certificates_pem,
            key_pem,
        }),
        _ => None,
    };
    let options = Options {
        alpn: match plan.load.protocol {
            Protocol::Http1 => b"http/1.1",
            Protocol::Http2 => b"h2",
        },
        roots,
        identity,
    };
    let config = config(&options).map_err(|error| name_option(&error))?;
    let name = server_name(&plan.target.host).map_err(|error| name_option(&error))?;
    Ok(TlsClient { config, name })
}

/// The system's certificate store. Entries that cannot be parsed are skipped; an empty list is
/// rejected later.
fn system_roots() -> Vec<protocol::tls::CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

fn read(path: Option<&Path>, option: &'static str) -> Result<Option<Vec<u8>>, RunnerError> {
    let Some(path) = path else { return Ok(None) };
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => Err(RunnerError::File {
            option,
            path: path.to_owned(),
            error,
        }),
    }
}

fn name_option(error: &TlsConfigError) -> RunnerError {
    let option = match error {
        TlsConfigError::Roots(_) => "--cacert: ",
        TlsConfigError::Certificate(_) => "--cert: ",
        TlsConfigError::Key(_) => "--key: ",
        TlsConfigError::Identity(_) => "--cert, --key: ",
        TlsConfigError::SystemRoots => "--verify: ",
        TlsConfigError::ServerName(_) | TlsConfigError::Setup(_) => "",
    };
    RunnerError::Tls(format!("{option}{error}"))
}
