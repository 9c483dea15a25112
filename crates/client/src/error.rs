//! Why a client cannot be prepared.

use std::path::PathBuf;

use protocol::request::RequestError;

use crate::TargetError;

/// Why a client cannot be prepared, one line.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The target cannot be resolved.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A file named by an option cannot be read.
    #[error("{option} {}: {error}", .path.display())]
    File {
        /// The option that names the file.
        option: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// Why the system cannot read it.
        error: std::io::Error,
    },
    /// TLS cannot be set up as the options ask.
    #[error("{0}")]
    Tls(String),
    /// The request is none.
    #[error(transparent)]
    Request(#[from] RequestError),
}
