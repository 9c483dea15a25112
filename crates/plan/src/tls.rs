//! Verification of https servers, and the client certificate.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::saved;

/// TLS settings. They have no effect on http.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TlsSpec {
    /// Whether the server must have a certificate that is valid for the host.
    pub verify: bool,
    /// PEM file with the certificate authorities to trust instead of those of the system.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(
        with = "saved::optional_path",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub cacert: Option<PathBuf>,
    /// PEM file with the client certificate chain; needs `key`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(
        with = "saved::optional_path",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub cert: Option<PathBuf>,
    /// PEM file with the private key of `cert`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(
        with = "saved::optional_path",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub key: Option<PathBuf>,
}
