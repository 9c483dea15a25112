//! Who a client is, and where its servers are.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde::Serialize;

use super::Login;
use super::framing::ServerInfo;
use crate::signing::SigningKey;

/// The port of NATS servers.
const DEFAULT_PORT: u16 = 4222;

/// One server of the list that the user gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerAddress {
    pub(super) host: String,
    pub(super) port: u16,
    /// `tls://`: only with TLS.
    pub(super) needs_tls: bool,
    /// User and password; a user alone is a token.
    user: Option<(String, Option<String>)>,
}

impl ServerAddress {
    /// Reads addresses with commas between them.
    ///
    /// # Errors
    /// What is wrong with the first wrong one, in one line without passwords.
    pub(super) fn list(text: &str) -> Result<Vec<Self>, String> {
        text.split(',')
            .map(|text| Self::parse(text.trim()))
            .collect()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("nats", text));
        let needs_tls = match scheme {
            "nats" => false,
            "tls" => true,
            other => {
                return Err(format!(
                    "{other}:// is not supported (nats:// and tls:// are)"
                ));
            }
        };
        let rest = rest.trim_end_matches('/');
        let (user, address) = match rest.rsplit_once('@') {
            Some((user, address)) => (Some(user), address),
            None => (None, rest),
        };
        let wrong = || format!("{address:?} is not an address (expected HOST or HOST:PORT)");
        let (host, port) = match address.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
                let port = match port {
                    "" => None,
                    port => Some(port.strip_prefix(':').ok_or_else(wrong)?),
                };
                (host, port)
            }
            None => match address.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (address, None),
            },
        };
        if host.is_empty() {
            return Err(wrong());
        }
        let port = port.map_or(Ok(DEFAULT_PORT), |port| port.parse().map_err(|_| wrong()))?;
        let user = user.map(|user| match user.split_once(':') {
            Some((user, password)) => (unescaped(user), Some(unescaped(password))),
            None => (unescaped(user), None),
        });
        Ok(Self {
            host: host.to_owned(),
            port,
            needs_tls,
            user,
        })
    }
}

/// A text in which `%2F` stands for a byte (RFC 3986, section 2.1).
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// How the client proves who it is, ready for use.
pub(super) enum Proof {
    /// What the address says.
    Address,
    /// By signing the server's nonce.
    Key {
        key: Box<KeyPair>,
        /// The user's token; without it, the key itself is the user.
        jwt: Option<String>,
    },
}

impl Proof {
    /// # Errors
    /// What is wrong with the seed or the credentials, in one line.
    pub(super) fn new(login: &Login) -> Result<Self, String> {
        match login {
            Login::Address => Ok(Self::Address),
            Login::Seed(text) => {
                let key = SigningKey::from_seed(text).map_err(|error| error.to_string())?;
                let key = KeyPair::from_seed(&key.seed()).map_err(|error| error.to_string())?;
                Ok(Self::Key {
                    key: Box::new(key),
                    jwt: None,
                })
            }
            Login::Credentials(text) => {
                let (jwt, key) = credentials(text)?;
                Ok(Self::Key {
                    key: Box::new(key),
                    jwt: Some(jwt),
                })
            }
        }
    }

    /// The line that introduces the client to a server.
    ///
    /// # Errors
    /// If the nonce cannot be signed, in one line.
    pub(super) fn introduction(
        &self,
        name: &str,
        server: &ServerAddress,
        info: &ServerInfo,
        is_encrypted: bool,
    ) -> Result<String, String> {
        let mut connect = Connect {
            verbose: false,
            pedantic: false,
            tls_required: is_encrypted,
            name,
            lang: "rust",
            version: env!("CARGO_PKG_VERSION"),
            // The server may send INFO again.
            protocol: 1,
            echo: true,
            // Without headers there is no HMSG.
            headers: false,
            no_responders: false,
            user: None,
            pass: None,
            auth_token: None,
            jwt: None,
            nkey: None,
            sig: None,
        };
        match (self, &server.user) {
            (Self::Address, None) => {}
            (Self::Address, Some((token, None))) => connect.auth_token = Some(token),
            (Self::Address, Some((user, Some(password)))) => {
                (connect.user, connect.pass) = (Some(user), Some(password));
            }
            (Self::Key { key, jwt }, _) => {
                let signature = key.sign(info.nonce.as_bytes());
                let signature = signature.map_err(|error| error.to_string())?;
                connect.sig = Some(BASE64_URL_SAFE_NO_PAD.encode(signature));
                connect.jwt = jwt.as_deref();
                connect.nkey = jwt.is_none().then(|| key.public_key());
            }
        }
        let json = serde_json::to_string(&connect).map_err(|error| error.to_string())?;
        Ok(format!("CONNECT {json}\r\n"))
    }
}

/// The fields of `CONNECT`.
#[derive(Serialize)]
struct Connect<'a> {
    verbose: bool,
    pedantic: bool,
    tls_required: bool,
    name: &'a str,
    lang: &'static str,
    version: &'static str,
    protocol: u8,
    echo: bool,
    headers: bool,
    no_responders: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pass: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_token: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jwt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nkey: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sig: Option<String>,
}

/// The user's JWT and key in a credentials file: two blocks, each a line between lines of dashes.
///
/// # Errors
/// What is missing or wrong, in one line.
fn credentials(text: &str) -> Result<(String, KeyPair), String> {
    let is_mark = |line: &str| line.starts_with("---") && line.ends_with("---");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut blocks = lines.windows(3).filter_map(|lines| match lines {
        [begin, content, end] if is_mark(begin) && is_mark(end) && !is_mark(content) => {
            Some(*content)
        }
        _ => None,
    });
    let jwt = blocks.next().filter(|jwt| jwt.split('.').count() == 3);
    let jwt = jwt.ok_or("the credentials have no user JWT")?;
    let seed = blocks.next().ok_or("the credentials have no user seed")?;
    let key = KeyPair::from_seed(seed)
        .map_err(|error| format!("the seed in the credentials is not valid: {error}"))?;
    Ok((jwt.to_owned(), key))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The form that `nsc generate creds` writes.
    fn file(jwt: &str, seed: &str) -> String {
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             *** IMPORTANT ***\nNKEYs are sensitive.\n\n\
             -----BEGIN USER NKEY SEED-----\r\n{seed}\r\n------END USER NKEY SEED------\n"
        )
    }

    #[test]
    fn a_credentials_file_has_a_token_and_a_key() {
        let key = KeyPair::new_user();
        let seed = key.seed().expect("a new key has one");
        let (jwt, read) = credentials(&file("a.b.c", &seed)).expect("it is complete");
        assert_eq!(
            (jwt.as_str(), read.public_key()),
            ("a.b.c", key.public_key())
        );
        let error = |text: &str| credentials(text).map(drop).expect_err("it is not complete");
        assert_eq!(error(""), "the credentials have no user JWT");
        assert_eq!(error(&seed), "the credentials have no user JWT");
        let cut = file("a.b.c", &seed);
        let cut = cut.split("***").next().expect("the first block");
        assert_eq!(error(cut), "the credentials have no user seed");
        let wrong = error(&file("a.b.c", "SUA"));
        assert!(
            wrong.starts_with("the seed in the credentials is not valid: "),
            "{wrong}"
        );
    }

    #[test]
    fn addresses_have_a_host_and_may_have_a_port_and_a_user() {
        let server =
            |host: &str, port, needs_tls, user: Option<(&str, Option<&str>)>| ServerAddress {
                host: host.to_owned(),
                port,
                needs_tls,
                user: user.map(|(user, password)| (user.to_owned(), password.map(str::to_owned))),
            };
        for (text, expected) in [
            ("nats://hub:4223", server("hub", 4223, false, None)),
            ("hub", server("hub", 4222, false, None)),
            ("tls://hub/", server("hub", 4222, true, None)),
            ("nats://[::1]:7", server("::1", 7, false, None)),
            ("nats://[::1]", server("::1", 4222, false, None)),
            (
                "nats://u:p%40%3A@hub",
                server("hub", 4222, false, Some(("u", Some("p@:")))),
            ),
            ("nats://t@hub:1", server("hub", 1, false, Some(("t", None)))),
        ] {
            assert_eq!(ServerAddress::parse(text), Ok(expected), "{text}");
        }
        let several = ServerAddress::list("nats://a, tls://b").expect("both are");
        assert_eq!(several.len(), 2);
        for wrong in [
            "",
            "nats://",
            "ws://hub",
            "nats://hub:x",
            "nats://[::1",
            "nats://[::1]x",
        ] {
            let error = ServerAddress::list(wrong).expect_err(wrong);
            assert!(!error.contains('\n'), "{error}");
        }
        let secret = ServerAddress::list("nats://u:secret@hub:x").expect_err("no port");
        assert!(!secret.contains("secret"), "{secret}");
    }

    #[test]
    fn the_introduction_has_what_the_server_asks_for() {
        let info = ServerInfo {
            nonce: "n".to_owned(),
            ..ServerInfo::default()
        };
        let said = |proof: &Proof, server: &str| {
            let server = ServerAddress::parse(server).expect("an address");
            let line = proof
                .introduction("a1", &server, &info, false)
                .expect("it can");
            let json = line.strip_prefix("CONNECT ").expect("its name").to_owned();
            serde_json::from_str::<serde_json::Value>(&json).expect("it is JSON")
        };
        let plain = said(&Proof::Address, "hub");
        assert_eq!(
            (&plain["name"], &plain["headers"]),
            (&"a1".into(), &false.into())
        );
        assert!(plain["user"].is_null() && plain["sig"].is_null());
        let user = said(&Proof::Address, "nats://u:p@hub");
        assert_eq!((&user["user"], &user["pass"]), (&"u".into(), &"p".into()));
        assert_eq!(said(&Proof::Address, "nats://t@hub")["auth_token"], "t");
        let key = KeyPair::new_user();
        let seed = key.seed().expect("a new key has one");
        let by_key = said(
            &Proof::new(&Login::Seed(seed.clone())).expect("a seed"),
            "hub",
        );
        assert_eq!(by_key["nkey"], key.public_key());
        let signature = by_key["sig"].as_str().expect("it signs");
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).expect("base64");
        assert!(key.verify(b"n", &signature).is_ok());
        let by_token = Proof::new(&Login::Credentials(file("a.b.c", &seed)));
        let by_token = said(&by_token.expect("complete"), "hub");
        assert_eq!(by_token["jwt"], "a.b.c");
        assert!(by_token["nkey"].is_null() && by_token["sig"].is_string());
    }
}
