//! F46 to F55: faults of TLS.

use std::sync::Arc;

use origin::{Identity, TlsSettings, TlsVersions};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use results::ErrorKind::{
    ConnectTimeout, NotTls, TlsAlert, TlsCertificate, TlsClosed, TlsHandshake, TlsRecord,
};
use rustls::ServerConfig;
use rustls::server::StoresServerSessions;

use crate::adversary::{IDENTITY, Layer, RIGHT, ServerStep, send, usual_tls};
use crate::case::{Case, asked, connected};
use crate::row::FaultRow;

pub(crate) fn rows() -> Vec<FaultRow> {
    [certificates(), handshakes(), records()]
        .into_iter()
        .flatten()
        .flat_map(Case::rows)
        .collect()
}

fn settings() -> TlsSettings {
    TlsSettings::new(IDENTITY.clone())
}

fn only(versions: TlsVersions) -> TlsSettings {
    TlsSettings {
        versions,
        ..settings()
    }
}

fn layer(settings: &TlsSettings) -> Layer {
    Layer::Tls(settings.config().unwrap())
}

/// Default settings with a change.
fn changed(versions: TlsVersions, change: impl FnOnce(&mut ServerConfig)) -> Layer {
    let mut config = Arc::unwrap_or_clone(only(versions).config().unwrap());
    change(&mut config);
    Layer::Tls(Arc::new(config))
}

/// A TLS alert: record type, version, length, level, description (RFC 8446 section 6).
fn alert(level: u8, description: u8) -> ServerStep {
    ServerStep::Raw(vec![21, 3, 3, 0, 2, level, description])
}

/// Gives every session an ID and never recognizes one.
#[derive(Debug)]
struct Forgetful;

impl StoresServerSessions for Forgetful {
    fn put(&self, _key: Vec<u8>, _value: Vec<u8>) -> bool {
        true
    }

    fn get(&self, _key: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, _key: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// A certificate that expired decades ago.
fn expired() -> Identity {
    let mut parameters = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    parameters.not_before = date_time_ymd(1999, 1, 1);
    parameters.not_after = date_time_ymd(2000, 1, 1);
    let key = KeyPair::generate().unwrap();
    Identity {
        certificate_pem: parameters.self_signed(&key).unwrap().pem(),
        key_pem: key.serialize_pem(),
    }
}

/// Certificates that fail verification, and missing client certificates.
fn certificates() -> Vec<Case> {
    let trusting = |id, what, identity: &Identity| {
        // It is self-signed, and an option makes the program trust it.
        let pem = format!("PEM:{}", identity.certificate_pem);
        asked(id, what, &[send(RIGHT)])
            .with(&["--cacert", &pem])
            .over(&[layer(&TlsSettings::new(identity.clone()))])
    };
    let foreign = Identity::self_signed(&["example.test"]).unwrap();
    let demanding = |versions| {
        layer(&TlsSettings {
            client_roots_pem: Some(foreign.certificate_pem.clone()),
            ..only(versions)
        })
    };
    let client = |what, identity: &Identity| {
        let certificate = format!("PEM:{}", identity.certificate_pem);
        let key = format!("PEM:{}", identity.key_pem);
        asked("F51", what, &[send(RIGHT)])
            .with(&["--cert", &certificate, "--key", &key])
            .over(&[
                demanding(TlsVersions::Only12),
                demanding(TlsVersions::Only13),
            ])
    };
    let nobody = |what| {
        asked("F51", what, &[send(RIGHT)]).over(&[
            demanding(TlsVersions::Only12),
            demanding(TlsVersions::Only13),
        ])
    };
    vec![
        asked("F47", "a certificate that nobody looks at", &[send(RIGHT)])
            .over(&[layer(&TlsSettings::new(expired()))]),
        trusting(
            "F47",
            "a certificate signed by itself that is trusted",
            &IDENTITY,
        ),
        asked(
            "F47",
            "a certificate of an unknown authority",
            &[send(RIGHT)],
        )
        .with(&["--verify"])
        .over(&[usual_tls()])
        .never_stands(&[TlsCertificate]),
        trusting("F47", "an expired certificate", &expired()).never_stands(&[TlsCertificate]),
        trusting("F47", "a certificate for another name", &foreign).never_stands(&[TlsCertificate]),
        nobody("a client certificate is demanded and not shown").never_stands(&[TlsAlert]),
        client("another client certificate than demanded", &IDENTITY).never_stands(&[TlsAlert]),
        client("the client certificate that is demanded", &foreign),
        asked(
            "F52",
            "a server that speaks other protocols only",
            &[send(RIGHT)],
        )
        .over(&[layer(&TlsSettings {
            alpn: vec![b"h2".to_vec()],
            ..settings()
        })])
        .never_stands(&[TlsAlert]),
    ]
}

fn handshakes() -> Vec<Case> {
    let usual = [usual_tls()];
    let end =
        |steps: &[ServerStep]| [&[ServerStep::ReadSome], steps, &[ServerStep::BareFin]].concat();
    vec![
        connected(
            "F48",
            "an alert instead of a handshake",
            &end(&[alert(2, 40)]),
        )
        .over(&usual)
        .fails(TlsAlert),
        connected("F48", "FIN within the handshake", &end(&[]))
            .over(&usual)
            .fails(TlsClosed),
        connected(
            "F48",
            "silence within the handshake",
            &[ServerStep::ReadSome, ServerStep::Hang],
        )
        .over(&usual)
        .fails(ConnectTimeout),
        connected(
            "F48",
            "half a record, then silence",
            &[
                ServerStep::ReadSome,
                ServerStep::Raw(vec![22, 3, 3, 1, 0, 2]),
                ServerStep::Hang,
            ],
        )
        .over(&usual)
        .fails(ConnectTimeout),
        connected(
            "F48",
            "16 KiB of garbage",
            &end(&[ServerStep::Raw(vec![b'x'; 16 * 1024])]),
        )
        .over(&usual)
        .fails(NotTls),
        connected(
            "F48",
            "a handshake record of garbage",
            &end(&[ServerStep::Raw(
                [&[22, 3, 3, 0, 200][..], &[b'x'; 200]].concat(),
            )]),
        )
        .over(&usual)
        .fails(TlsHandshake),
        connected(
            "F48",
            "a record longer than allowed",
            &end(&[ServerStep::Raw(
                [&[22, 3, 3, 255, 255][..], &[b'x'; 65_535]].concat(),
            )]),
        )
        .over(&usual)
        .fails(TlsHandshake),
        connected(
            "F49",
            "the server knows no common version",
            &end(&[alert(2, 70)]),
        )
        .over(&usual)
        .fails(TlsAlert),
        connected(
            "F49",
            "a server hello of SSL 3.0",
            &end(&[ServerStep::Raw(
                // Type 2, 38 bytes, version 3.0, 32 random bytes, no session, cipher 0x0035, no
                // compression.
                [
                    &[22, 3, 0, 0, 42, 2, 0, 0, 38, 3, 0][..],
                    &[7; 32],
                    &[0, 0, 0x35, 0],
                ]
                .concat(),
            )]),
        )
        .over(&usual)
        .fails(TlsHandshake),
        asked("F52", "a server that does not know ALPN", &[send(RIGHT)]).over(&[layer(
            &TlsSettings {
                alpn: Vec::new(),
                ..settings()
            },
        )]),
        asked("F54", "all records come byte for byte", &[send(RIGHT)]).over(&[
            Layer::SlicedTls(only(TlsVersions::Only12).config().unwrap()),
            Layer::SlicedTls(only(TlsVersions::Only13).config().unwrap()),
        ]),
        asked(
            "F55",
            "every session ticket is forgotten, TLS 1.2",
            &[send(RIGHT)],
        )
        .with(&["--no-keepalive"])
        .over(&[changed(TlsVersions::Only12, |config| {
            config.session_storage = Arc::new(Forgetful);
        })]),
        asked(
            "F55",
            "every session ticket is forgotten, TLS 1.3",
            &[send(RIGHT)],
        )
        .with(&["--no-keepalive"])
        .over(&[changed(TlsVersions::Only13, |config| {
            config.session_storage = Arc::new(Forgetful);
        })]),
    ]
}

fn records() -> Vec<Case> {
    let of_13 = |change: fn(&mut ServerConfig)| [changed(TlsVersions::Only13, change)];
    let usual = [usual_tls()];
    vec![
        asked(
            "F48",
            "a fatal alert instead of a response",
            &[alert(2, 80), ServerStep::BareFin],
        )
        .over(&[layer(&only(TlsVersions::Only12))])
        .fails_as(&[TlsAlert, TlsRecord]),
        asked(
            "F48",
            "garbage between the records",
            &[ServerStep::Raw(vec![b'x'; 100]), ServerStep::BareFin],
        )
        .over(&usual)
        .fails(TlsRecord),
        asked(
            "F48",
            "a record that nobody can decrypt",
            &[
                ServerStep::Raw([&[23, 3, 3, 0, 64][..], &[9; 64]].concat()),
                ServerStep::BareFin,
            ],
        )
        .over(&usual)
        .fails(TlsRecord),
        asked(
            "F53",
            "a change of keys before the response",
            &[ServerStep::ChangeKeys(1), send(RIGHT)],
        )
        .over(&of_13(|_| ())),
        asked(
            "F53",
            "a thousand changes of keys",
            &[ServerStep::ChangeKeys(1000), send(RIGHT)],
        )
        .over(&of_13(|_| ()))
        .fails(TlsRecord),
        // More than the TLS library takes at a time.
        asked("F53", "a thousand session tickets", &[send(RIGHT)])
            .over(&of_13(|config| config.send_tls13_tickets = 1000))
            .never_stands(&[TlsRecord]),
        asked("F53", "a hundred session tickets", &[send(RIGHT)])
            .over(&of_13(|config| config.send_tls13_tickets = 100)),
    ]
}
