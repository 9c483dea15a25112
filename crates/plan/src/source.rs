//! Local addresses that connections come from: one, or all hosts of a network (`-b`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// An address or a network in CIDR notation (RFC 4632, RFC 4291 section 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SourceRange {
    /// Of a network its first address, host bits cleared.
    first: IpAddr,
    /// 0..=32 or 0..=128.
    prefix_len: u8,
}

impl SourceRange {
    /// The address family and the first usable address, for a probe before the run.
    #[must_use]
    pub fn first_host(&self) -> IpAddr {
        self.nth(0)
    }

    /// How many addresses there are to bind to: all of a network but its own address (the broadcast
    /// address is used, as in wrk-cmm). Networks of one and two addresses (RFC 3021, RFC 6164) have
    /// no address of their own. Saturates for `::/0`.
    #[must_use]
    pub fn len(&self) -> u128 {
        let all = 1_u128.checked_shl(self.host_bits()).unwrap_or(u128::MAX);
        if self.host_bits() > 1 { all - 1 } else { all }
    }

    /// Never: there is always one address. Here because `len` is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The address with this index, counted round and round.
    #[must_use]
    pub fn nth(&self, index: u128) -> IpAddr {
        let skipped = u128::from(self.host_bits() > 1);
        let offset = index % self.len() + skipped;
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() + offset as u32).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() + offset).into(),
        }
    }

    fn host_bits(&self) -> u32 {
        let bits = if self.first.is_ipv4() { 32 } else { 128 };
        bits - u32::from(self.prefix_len)
    }

    /// Reads `10.0.0.7`, `10.0.0.0/24`, `fd00::1` or `fd00::/64`; host bits of a network are
    /// ignored, as in wrk-cmm.
    ///
    /// # Errors
    /// A phrase that says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| {
            format!("could not parse range: {text} (expected an address like 10.0.0.7 or a network like 10.0.0.0/24)")
        })?;
        let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
        let prefix_len = match prefix {
            None => bits,
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|len| digits.bytes().all(|byte| byte.is_ascii_digit()) && *len <= bits)
                .ok_or_else(|| {
                    format!("invalid mask in range: {text} (expected 0 to {bits} after the /)")
                })?,
        };
        let first = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix_len));
                Ipv4Addr::from_bits(v4.to_bits() & mask.unwrap_or(0)).into()
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix_len));
                Ipv6Addr::from_bits(v6.to_bits() & mask.unwrap_or(0)).into()
            }
        };
        Ok(Self { first, prefix_len })
    }
}

impl std::fmt::Display for SourceRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host_bits() == 0 {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}/{}", self.first, self.prefix_len)
        }
    }
}

impl From<SourceRange> for String {
    fn from(range: SourceRange) -> Self {
        range.to_string()
    }
}

impl TryFrom<String> for SourceRange {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}
