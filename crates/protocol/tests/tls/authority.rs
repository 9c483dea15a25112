//! Generates certificates for tests.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate authority, made for one test.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key.
pub(crate) struct Certified {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) certificate_pem: String,
    pub(crate) key_pem: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key can be made");
        Self(CertifiedIssuer::self_signed(params, key).expect("it signs itself"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// A certificate for a DNS name or IP address.
    pub(crate) fn certify(&self, name: &str) -> Certified {
        self.sign(params_for(name))
    }

    /// A certificate whose validity has ended.
    pub(crate) fn certify_expired(&self, name: &str) -> Certified {
        let mut params = params_for(name);
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Certified {
        let key = KeyPair::generate().expect("a key can be made");
        let certificate = params
            .signed_by(&key, &self.0)
            .expect("the authority signs");
        Certified {
            certificate: certificate.der().clone(),
            key: PrivateKeyDer::try_from(key.serialize_der()).expect("the key is PKCS #8"),
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        }
    }
}

/// A self-signed certificate for `name` that claims to be an authority, as `openssl req -x509`
/// makes them.
pub(crate) fn self_signed(name: &str, expired: bool) -> Certified {
    let mut params = params_for(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    if expired {
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    }
    let key = KeyPair::generate().expect("a key can be made");
    let certificate = params.self_signed(&key).expect("it signs itself");
    Certified {
        certificate: certificate.der().clone(),
        key: PrivateKeyDer::try_from(key.serialize_der()).expect("the key is PKCS #8"),
        certificate_pem: certificate.pem(),
        key_pem: key.serialize_pem(),
    }
}

fn params_for(name: &str) -> CertificateParams {
    CertificateParams::new([name.to_owned()]).expect("the name is good")
}
