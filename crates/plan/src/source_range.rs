//! Local addresses of connections: one, or all hosts of a network (`-b`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::InvalidValue;

/// An address or a network in CIDR notation (RFC 4632, RFC 4291 section 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct SourceRange {
    /// The address, or the first one of a network (all host bits are zero).
    first: IpAddr,
    /// 0..=32 for IPv4, 0..=128 for IPv6.
    prefix_len: u8,
}

impl SourceRange {
    /// The first usable address, which also has the address family.
    #[must_use]
    pub fn first_host(&self) -> IpAddr {
        self.nth(0)
    }

    /// The number of usable addresses: all of a network except its own address. As in wrk-cmm, the
    /// broadcast address is used. Networks of one or two addresses (RFC 3021, RFC 6164) have no
    /// address of their own.
    #[must_use]
    pub fn len(&self) -> u128 {
        match self.host_bits() {
            bits @ (0 | 1) => 1 << bits,
            // 2^bits - 1, which also fits for `::/0`.
            bits => u128::MAX >> (u128::BITS - bits),
        }
    }

    /// Always false: there is at least one address.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The address with this index modulo [`SourceRange::len`].
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

    /// Parses `10.0.0.7`, `10.0.0.0/24`, `fd00::1` or `fd00::/64`. As in wrk-cmm, host bits of a
    /// network are ignored.
    ///
    /// # Errors
    /// A phrase that says what is expected.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| {
            format!(
                "could not parse range: {} (expected an address like 10.0.0.7 or a network like \
                 10.0.0.0/24)",
                text.escape_debug()
            )
        })?;
        let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
        let prefix_len = match prefix {
            None => bits,
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|len| digits.bytes().all(|byte| byte.is_ascii_digit()) && *len <= bits)
                .ok_or_else(|| {
                    format!(
                        "invalid mask in range: {} (expected 0 to {bits} after the /)",
                        text.escape_debug()
                    )
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
    type Error = InvalidValue;

    fn try_from(text: String) -> Result<Self, InvalidValue> {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(text: &str) -> SourceRange {
        SourceRange::parse(text).expect(text)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    #[test]
    fn networks_skip_their_own_address_and_use_the_broadcast_address() {
        for (text, count, first, last) in [
            ("10.1.2.3", 1, "10.1.2.3", "10.1.2.3"),
            ("10.1.2.3/32", 1, "10.1.2.3", "10.1.2.3"),
            ("10.1.2.3/31", 2, "10.1.2.2", "10.1.2.3"),
            ("127.0.0.4/30", 3, "127.0.0.5", "127.0.0.7"),
            ("127.0.0.254/24", 255, "127.0.0.1", "127.0.0.255"),
            (
                "10.255.0.0/9",
                (1 << 23) - 1,
                "10.128.0.1",
                "10.255.255.255",
            ),
            ("1.2.3.4/0", (1 << 32) - 1, "0.0.0.1", "255.255.255.255"),
            ("fd00::7", 1, "fd00::7", "fd00::7"),
            ("fd00::7/127", 2, "fd00::6", "fd00::7"),
            ("fd00::7/126", 3, "fd00::5", "fd00::7"),
            (
                "fd00::7/64",
                (1 << 64) - 1,
                "fd00::1",
                "fd00::ffff:ffff:ffff:ffff",
            ),
            (
                "::/0",
                u128::MAX,
                "::1",
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            ),
        ] {
            let range = range(text);
            assert_eq!(range.len(), count, "{text}");
            assert!(!range.is_empty());
            assert_eq!(range.first_host(), address(first), "{text}");
            assert_eq!(range.nth(0), address(first), "{text}");
            assert_eq!(range.nth(count - 1), address(last), "{text}");
            assert_eq!(range.nth(u128::MAX), range.nth(u128::MAX % count), "{text}");
            if count < u128::MAX {
                assert_eq!(range.nth(count), address(first), "{text}");
            }
        }
    }

    /// Compares [`SourceRange`] with plain arithmetic on the address.
    fn follows_from_arithmetic(
        bits: u32,
        base: u128,
        prefix_len: u32,
        to_text: fn(u128) -> String,
    ) {
        let text = format!("{}/{prefix_len}", to_text(base));
        let range = range(&text);
        let host_bits = bits - prefix_len;
        let mask = if host_bits == 128 {
            u128::MAX
        } else {
            (1 << host_bits) - 1
        };
        let network = base & !mask;
        let first = if host_bits > 1 { network + 1 } else { network };
        let last = network | mask;
        assert_eq!(range.nth(0), address(&to_text(first)), "{text}");
        assert_eq!(range.nth(last - first), address(&to_text(last)), "{text}");
        assert_eq!(range.len() - 1, last - first, "{text}");
        assert_eq!(
            range.nth(u128::MAX),
            address(&to_text(
                first + u128::MAX % (last - first).saturating_add(1)
            )),
            "{text}"
        );
        assert_eq!(SourceRange::parse(&range.to_string()), Ok(range), "{text}");
    }

    #[test]
    fn every_prefix_length_of_both_families_is_right() {
        for prefix_len in 0..=32 {
            follows_from_arithmetic(32, 0xc0a8_5ad3, prefix_len, |bits| {
                Ipv4Addr::from_bits(bits as u32).to_string()
            });
        }
        for prefix_len in 0..=128 {
            let base = 0x2001_0db8_dead_beef_0123_4567_89ab_cdef;
            follows_from_arithmetic(128, base, prefix_len, |bits| {
                Ipv6Addr::from_bits(bits).to_string()
            });
        }
    }

    #[test]
    fn an_invalid_range_is_refused_with_the_message_of_wrk_cmm() {
        for (text, said) in [
            ("abc", "could not parse range: abc (expected an address"),
            ("", "could not parse range: "),
            ("300.1.1.1", "could not parse range: 300.1.1.1"),
            ("10.0.0", "could not parse range: 10.0.0"),
            ("10.0.0.01", "could not parse range: 10.0.0.01"),
            ("10.0.0.1 ", "could not parse range: 10.0.0.1 "),
            ("a\nb", "could not parse range: a\\nb"),
            ("[::1]", "could not parse range: [::1]"),
            ("fe80::1%lo", "could not parse range: fe80::1%lo"),
            ("/8", "could not parse range: /8"),
            ("host/8", "could not parse range: host/8"),
            (
                "10.0.0.1/33",
                "invalid mask in range: 10.0.0.1/33 (expected 0 to 32",
            ),
            ("10.0.0.1/", "invalid mask in range: 10.0.0.1/"),
            ("10.0.0.1/-1", "invalid mask in range: 10.0.0.1/-1"),
            ("10.0.0.1/+8", "invalid mask in range: 10.0.0.1/+8"),
            ("10.0.0.1/8/8", "invalid mask in range: 10.0.0.1/8/8"),
            ("10.0.0.1/255.0.0.0", "invalid mask in range"),
            ("10.0.0.1/99999999999", "invalid mask in range"),
            (
                "::1/129",
                "invalid mask in range: ::1/129 (expected 0 to 128",
            ),
        ] {
            let message = SourceRange::parse(text).expect_err(text);
            assert!(
                message.to_string().starts_with(said),
                "{text:?} gives {message}"
            );
            assert_eq!(
                SourceRange::try_from(text.to_owned()),
                Err(message),
                "{text:?} in a saved plan"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,40}", near in "[0-9a-f.:/%-]{0,40}") {
            for text in [&text, &near] {
                if let Ok(range) = SourceRange::parse(text) {
                    prop_assert_eq!(SourceRange::parse(&range.to_string()), Ok(range));
                }
            }
        }

        #[test]
        fn every_address_of_a_network_is_within_it(bits in any::<u32>(), prefix_len in 0_u32..=32, index in any::<u128>()) {
            let range = range(&format!("{}/{prefix_len}", Ipv4Addr::from_bits(bits)));
            let IpAddr::V4(picked) = range.nth(index) else { panic!("another family") };
            let mask = u32::MAX.checked_shl(32 - prefix_len).unwrap_or(0);
            prop_assert_eq!(picked.to_bits() & mask, bits & mask);
        }
    }
}
