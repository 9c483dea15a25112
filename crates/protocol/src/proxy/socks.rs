//! SOCKS5 (RFC 1928) with user and password (RFC 1929): a tunnel by a CONNECT command.

use std::net::IpAddr;

use super::ProxyFault;

const VERSION: u8 = 5;
const METHOD_NONE: u8 = 0;
const METHOD_LOGIN: u8 = 2;
const METHODS_REFUSED: u8 = 0xff;
const LOGIN_VERSION: u8 = 1;
const COMMAND_CONNECT: u8 = 1;
const ADDRESS_IPV4: u8 = 1;
const ADDRESS_NAME: u8 = 3;
const ADDRESS_IPV6: u8 = 4;

/// A name, a user and a password are preceded by their length in one byte.
const TEXT_BYTES_MAX: usize = 255;

/// Where the tunnel goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// The proxy resolves the name.
    Name(String),
    /// An IPv4 or IPv6 address, which needs no resolving.
    Address(IpAddr),
}

/// A login with user and password (RFC 1929).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// 1 to 255 bytes.
    pub user: Vec<u8>,
    /// At most 255 bytes.
    pub password: Vec<u8>,
}

/// The request for a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socks {
    greeting: Vec<u8>,
    login: Option<Vec<u8>>,
    request: Vec<u8>,
}

impl Socks {
    /// A tunnel to a port of a destination.
    ///
    /// # Errors
    /// If a name, user or password is longer than SOCKS5 allows; the message says which.
    pub fn new(
        destination: &Destination,
        port: u16,
        login: Option<&Login>,
    ) -> Result<Self, &'static str> {
        let greeting = match login {
            None => vec![VERSION, 1, METHOD_NONE],
            Some(_) => vec![VERSION, 2, METHOD_NONE, METHOD_LOGIN],
        };
        let login = login.map(|login| {
            let mut bytes = vec![LOGIN_VERSION];
            push_text(&login.user, &mut bytes).ok_or("the user has more than 255 bytes")?;
            push_text(&login.password, &mut bytes).ok_or("the password has more than 255 bytes")?;
            Ok::<_, &'static str>(bytes)
        });
        let mut request = vec![VERSION, COMMAND_CONNECT, 0];
        match destination {
            Destination::Name(name) => {
                request.push(ADDRESS_NAME);
                push_text(name.as_bytes(), &mut request)
                    .ok_or("the name of the host has more than 255 bytes")?;
            }
            Destination::Address(IpAddr::V4(address)) => {
                request.push(ADDRESS_IPV4);
                request.extend(address.octets());
            }
            Destination::Address(IpAddr::V6(address)) => {
                request.push(ADDRESS_IPV6);
                request.extend(address.octets());
            }
        }
        request.extend(port.to_be_bytes());
        Ok(Self {
            greeting,
            login: login.transpose()?,
            request,
        })
    }

    /// The first bytes to send.
    pub(super) fn greeting(&self) -> &[u8] {
        &self.greeting
    }

    /// Reads the proxy's choice of a method, two bytes. Returns what to send, and whether it is the
    /// login.
    pub(super) fn choice(&self, bytes: [u8; 2]) -> Result<(&[u8], bool), ProxyFault> {
        match (bytes, &self.login) {
            ([VERSION, METHOD_NONE], _) => Ok((&self.request, false)),
            ([VERSION, METHOD_LOGIN], Some(login)) => Ok((login, true)),
            ([VERSION, METHODS_REFUSED], None) => Err(ProxyFault::NeedsLogin),
            ([VERSION, _], _) => Err(ProxyFault::NoMethod),
            _ => Err(ProxyFault::NotSocks),
        }
    }

    /// Reads the answer to the login, two bytes. The first one is a version, which some proxies
    /// get wrong and which says nothing.
    pub(super) fn login_answer(&self, bytes: [u8; 2]) -> Result<&[u8], ProxyFault> {
        match bytes {
            [_, 0] => Ok(&self.request),
            _ => Err(ProxyFault::LoginRefused),
        }
    }
}

fn push_text(text: &[u8], output: &mut Vec<u8>) -> Option<()> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    output.push(u8::try_from(text.len()).ok()?);
    output.extend_from_slice(text);
    Some(())
}

/// Reads the reply to the request. Returns its length once it is complete.
pub(super) fn reply(bytes: &[u8]) -> Result<Option<usize>, ProxyFault> {
    match bytes {
        [] | [VERSION] | [VERSION, 0] => return Ok(None),
        [VERSION, 0, ..] => {}
        [VERSION, code, ..] => return Err(ProxyFault::SocksReply(*code)),
        _ => return Err(ProxyFault::NotSocks),
    }
    let address_bytes = match bytes.get(3..) {
        None | Some([]) => return Ok(None),
        Some([ADDRESS_IPV4, ..]) => 4,
        Some([ADDRESS_IPV6, ..]) => 16,
        Some([ADDRESS_NAME]) => return Ok(None),
        Some([ADDRESS_NAME, length, ..]) => 1 + usize::from(*length),
        Some([kind, ..]) => return Err(ProxyFault::SocksAddress(*kind)),
    };
    let length = 4 + address_bytes + 2;
    Ok((bytes.len() >= length).then_some(length))
}

/// The meaning of a reply code (RFC 1928 section 6).
pub(super) fn reply_text(code: u8) -> String {
    match code {
        1 => "general failure",
        2 => "connection not allowed by its rules",
        3 => "network unreachable",
        4 => "host unreachable (or its name is unknown)",
        5 => "connection refused",
        6 => "TTL expired",
        7 => "command not supported",
        8 => "kind of address not supported",
        _ => return format!("SOCKS reply {code}"),
    }
    .to_owned()
}
