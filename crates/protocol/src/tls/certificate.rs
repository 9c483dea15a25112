//! The parts of an X.509 certificate that people check (RFC 5280 section 4.1). Nothing is verified
//! here.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whom a certificate is for, who has signed it, and until when it is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Whom it is for, such as `CN=example.org, O=Example`.
    pub subject: String,
    /// Who has signed it, in the same form.
    pub issuer: String,
    /// From when it is valid, in UTC, such as `2026-01-31 12:00:00`.
    pub not_before: String,
    /// Until when it is valid, in the form of `not_before`.
    pub not_after: String,
    /// The names and addresses that it is for.
    pub names: Vec<String>,
}

// Tags of DER (ITU-T X.690).
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT: u8 = 0x06;
const OCTETS: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const LONG_TIME: u8 = 0x18;
const UTF16: u8 = 0x1e;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

/// Object identifiers of the attributes of a name (X.520), without their common first bytes.
const ATTRIBUTES: [(u8, &str); 6] = [
    (3, "CN"),
    (6, "C"),
    (7, "L"),
    (8, "ST"),
    (10, "O"),
    (11, "OU"),
];

const ATTRIBUTE_PREFIX: [u8; 2] = [0x55, 0x04];
const ALTERNATIVE_NAMES: [u8; 3] = [0x55, 0x1d, 0x11];

impl Certificate {
    /// Reads a certificate; `None` if it is not one.
    #[must_use]
    pub fn parse(der: &[u8]) -> Option<Self> {
        let mut outer = Der(Der(der).take(SEQUENCE)?);
        let mut fields = Der(outer.take(SEQUENCE)?);
        if fields.0.first() == Some(&VERSION) {
            fields.next()?;
        }
        let _serial = fields.next()?;
        let _algorithm = fields.next()?;
        let issuer = name(fields.take(SEQUENCE)?)?;
        let mut validity = Der(fields.take(SEQUENCE)?);
        let (not_before, not_after) = (time(validity.next()?)?, time(validity.next()?)?);
        let subject = name(fields.take(SEQUENCE)?)?;
        let mut names = Vec::new();
        while let Some((tag, content)) = fields.next() {
            if tag == EXTENSIONS {
                names = alternative_names(content).unwrap_or_default();
            }
        }
        Some(Self {
            subject,
            issuer,
            not_before,
            not_after,
            names,
        })
    }
}

/// The rest of a series of values.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The tag and the content of the next value.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let [tag, first, rest @ ..] = self.0 else {
            return None;
        };
        let (length, rest) = match usize::from(*first) {
            short @ 0..=0x7f => (short, rest),
            long => {
                let (bytes, rest) = rest.split_at_checked(long & 0x7f)?;
                if bytes.len() > 4 {
                    return None;
                }
                let add = |sum: usize, byte: &u8| sum << 8 | usize::from(*byte);
                (bytes.iter().fold(0, add), rest)
            }
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    /// The content of the next value if it has this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (its, content) = self.next()?;
        (its == tag).then_some(content)
    }
}

/// The attributes of a name.
fn name(content: &[u8]) -> Option<String> {
    let mut parts = Vec::new();
    let mut sets = Der(content);
    while let Some((tag, content)) = sets.next() {
        let mut attributes = Der((tag == SET).then_some(content)?);
        while let Some((_, content)) = attributes.next() {
            let mut attribute = Der(content);
            let object = attribute.take(OBJECT)?;
            let (tag, value) = attribute.next()?;
            let known = object.strip_prefix(&ATTRIBUTE_PREFIX).and_then(|rest| {
                let mut all = ATTRIBUTES.iter();
                all.find(|(number, _)| [*number] == rest)
            });
            if let Some((_, short)) = known {
                parts.push(format!("{short}={}", text(tag, value)));
            }
        }
    }
    Some(parts.join(", "))
}

/// A string as it is printed.
fn text(tag: u8, value: &[u8]) -> String {
    let text = match tag {
        UTF16 => {
            let units = value.chunks_exact(2);
            let units: Vec<u16> = units.map(|it| u16::from_be_bytes([it[0], it[1]])).collect();
            String::from_utf16_lossy(&units)
        }
        _ => String::from_utf8_lossy(value).into_owned(),
    };
    plan::printable(&text).into_owned()
}

/// `260131120000Z` or `20260131120000Z` in a form that people read.
fn time((tag, value): (u8, &[u8])) -> Option<String> {
    let digits = std::str::from_utf8(value).ok()?.strip_suffix('Z')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = digits.split_at_checked(2)?;
            // RFC 5280 section 4.1.2.5.1.
            let century = if year < "50" { "20" } else { "19" };
            (format!("{century}{year}"), rest)
        }
        LONG_TIME => {
            let (year, rest) = digits.split_at_checked(4)?;
            (year.to_owned(), rest)
        }
        _ => return None,
    };
    let part = |at: usize| rest.get(2 * at..2 * at + 2);
    let (month, day) = (part(0)?, part(1)?);
    let (hour, minute, second) = (part(2)?, part(3)?, part(4)?);
    Some(format!("{year}-{month}-{day} {hour}:{minute}:{second}"))
}

/// The names in the extension for them (RFC 5280 section 4.2.1.6).
fn alternative_names(extensions: &[u8]) -> Option<Vec<String>> {
    let mut extensions = Der(Der(extensions).take(SEQUENCE)?);
    let mut names = Vec::new();
    while let Some((_, content)) = extensions.next() {
        let mut extension = Der(content);
        if extension.take(OBJECT)? != ALTERNATIVE_NAMES {
            continue;
        }
        let mut value = extension.next()?;
        if value.0 != OCTETS {
            // Whether it is critical stands before it.
            value = extension.next()?;
        }
        let mut list = Der(Der(value.1).take(SEQUENCE)?);
        while let Some((tag, content)) = list.next() {
            match (tag, content.len()) {
                (DNS_NAME, _) => names.push(text(tag, content)),
                (IP_ADDRESS, 4) => {
                    let bytes: [u8; 4] = content.try_into().ok()?;
                    names.push(Ipv4Addr::from(bytes).to_string());
                }
                (IP_ADDRESS, 16) => {
                    let bytes: [u8; 16] = content.try_into().ok()?;
                    names.push(Ipv6Addr::from(bytes).to_string());
                }
                _ => {}
            }
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value in DER.
    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len())
            .expect("it is short")
            .to_be_bytes();
        [&[tag, 0x82], &length[..], content].concat()
    }

    fn attribute(number: u8, value: &str) -> Vec<u8> {
        let object = der(OBJECT, &[0x55, 0x04, number]);
        let pair = [object, der(0x0c, value.as_bytes())].concat();
        der(SET, &der(SEQUENCE, &pair))
    }

    fn certificate() -> Vec<u8> {
        let names = [
            der(DNS_NAME, b"h.test"),
            der(IP_ADDRESS, &[127, 0, 0, 1]),
            der(IP_ADDRESS, &Ipv6Addr::LOCALHOST.octets()),
        ];
        let names = der(OCTETS, &der(SEQUENCE, &names.concat()));
        let critical = der(0x01, &[0xff]);
        let extension = [der(OBJECT, &ALTERNATIVE_NAMES), critical, names].concat();
        let fields = [
            der(VERSION, &der(0x02, &[2])),
            der(0x02, &[1]),
            der(SEQUENCE, b""),
            der(
                SEQUENCE,
                &[attribute(10, "Issuer"), attribute(6, "DE")].concat(),
            ),
            der(
                SEQUENCE,
                &[
                    der(UTC_TIME, b"491231235959Z"),
                    der(LONG_TIME, b"20500101000000Z"),
                ]
                .concat(),
            ),
            der(SEQUENCE, &attribute(3, "h\n.test")),
            der(SEQUENCE, b"key"),
            der(EXTENSIONS, &der(SEQUENCE, &der(SEQUENCE, &extension))),
        ];
        der(SEQUENCE, &der(SEQUENCE, &fields.concat()))
    }

    #[test]
    fn a_certificate_is_read() {
        let read = Certificate::parse(&certificate()).expect("it is one");
        let expected = Certificate {
            subject: "CN=h .test".to_owned(),
            issuer: "O=Issuer, C=DE".to_owned(),
            not_before: "2049-12-31 23:59:59".to_owned(),
            not_after: "2050-01-01 00:00:00".to_owned(),
            names: ["h.test", "127.0.0.1", "::1"].map(str::to_owned).into(),
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn damaged_certificates_are_refused_or_read_in_part() {
        let whole = certificate();
        for length in 0..whole.len() {
            assert_eq!(Certificate::parse(&whole[..length]), None, "{length}");
        }
        for at in 0..whole.len() {
            for change in [1, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] ^= change;
                let _ = Certificate::parse(&damaged);
            }
        }
    }
}
