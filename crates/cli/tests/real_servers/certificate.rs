//! A certificate for servers on loopback.

use std::process::{Command, Stdio};

use testkit::{Folder, require};

/// The files of a certificate that openssl has made.
pub(crate) struct Certificate {
    pub(crate) key: String,
    pub(crate) chain: String,
}

impl Certificate {
    /// For a key on P-256. `None` without openssl.
    pub(crate) fn make(place: &Folder) -> Option<Self> {
        Self::on_curve(place, "P-256")
    }

    pub(crate) fn on_curve(place: &Folder, curve: &str) -> Option<Self> {
        let openssl = require("openssl")?;
        let (key, chain) = (place.file("key.pem"), place.file("cert.pem"));
        let status = Command::new(openssl)
            .args(["req", "-x509", "-newkey", "ec"])
            .args(["-pkeyopt", &format!("ec_paramgen_curve:{curve}")])
            .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
            .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
            // Without this openssl creates an authority, which cannot be a server.
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args(["-keyout", &key, "-out", &chain])
            .stderr(Stdio::null())
            .status()
            .expect("openssl starts");
        assert!(status.success());
        Some(Self { key, chain })
    }
}
