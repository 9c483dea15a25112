//! How https connections are verified and how we identify ourselves.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::saved;

/// TLS settings; they matter only when the target's scheme is https.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsSpec {
    /// Whether the server's certificate must be valid for the host.
    pub verify: bool,
    /// PEM file with the authorities to trust instead of the system's.
    #[serde(
        with = "saved::optional_path",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub cacert: Option<PathBuf>,
    /// PEM file with our certificate chain; needs `key`.
    #[serde(
        with = "saved::optional_path",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub cert: Option<PathBuf>,
    /// PEM file with the private key of `cert`.
    #[serde(
        with = "saved::optional_path",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub key: Option<PathBuf>,
}
