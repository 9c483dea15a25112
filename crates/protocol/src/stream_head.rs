//! What the head of a response says about the body of a stream, and about the next request.

/// A [`StreamHead`] in four bytes: each response of HTTP/1 copies its head.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PackedStreamHead(u32);

impl PackedStreamHead {
    const COMPRESSED: u32 = 1 << 31;

    /// What was packed. Longer waits than 68 years are shortened to that.
    pub(crate) fn unpacked(self) -> StreamHead {
        StreamHead {
            is_compressed: self.0 & Self::COMPRESSED > 0,
            wait_s: (self.0 & !Self::COMPRESSED).checked_sub(1),
        }
    }
}

impl From<StreamHead> for PackedStreamHead {
    fn from(head: StreamHead) -> Self {
        let longest_s = Self::COMPRESSED - 2;
        let wait = head.wait_s.map_or(0, |wait_s| wait_s.min(longest_s) + 1);
        let coding = if head.is_compressed {
            Self::COMPRESSED
        } else {
            0
        };
        Self(wait | coding)
    }
}

/// What a head means for a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StreamHead {
    /// The body has a content coding (RFC 9110 section 8.4), so that its events cannot be read.
    pub(crate) is_compressed: bool,
    /// How long the server asks to wait, seconds; `None` if it says nothing that can be read. A
    /// date is compared with the server's own, since the clocks of two machines may differ.
    pub(crate) wait_s: Option<u32>,
}

/// The fields of a head that matter to a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StreamFields {
    is_compressed: bool,
    retry_after: Option<RetryAfter>,
    /// The Date field, if it has the length of one.
    date: Option<[u8; DATE_BYTES]>,
}

/// The value of Retry-After (RFC 9110 section 10.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RetryAfter {
    Seconds(u32),
    /// Seconds since 1970.
    Date(u64),
}

/// The length of `Sun, 06 Nov 1994 08:49:37 GMT`.
const DATE_BYTES: usize = 29;

impl StreamFields {
    /// Notes a field. Names are compared without their case.
    #[inline]
    pub(crate) fn note(&mut self, name: &[u8], value: &[u8]) {
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"date") => self.date = value.try_into().ok(),
            11 if name.eq_ignore_ascii_case(b"retry-after") => {
                self.retry_after = RetryAfter::read(value);
            }
            16 if name.eq_ignore_ascii_case(b"content-encoding") => {
                let mut codings = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
                self.is_compressed |= codings
                    .any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"));
            }
            _ => {}
        }
    }

    /// What the fields mean together.
    pub(crate) fn meaning(&self) -> StreamHead {
        StreamHead {
            is_compressed: self.is_compressed,
            wait_s: self.wait_s(),
        }
    }

    fn wait_s(&self) -> Option<u32> {
        match self.retry_after? {
            RetryAfter::Seconds(seconds) => Some(seconds),
            RetryAfter::Date(at_s) => {
                let now_s = unix_s(&self.date?)?;
                Some(u32::try_from(at_s.saturating_sub(now_s)).unwrap_or(u32::MAX))
            }
        }
    }
}

impl RetryAfter {
    fn read(value: &[u8]) -> Option<Self> {
        let value = value.trim_ascii();
        if let Some(date) = value.first_chunk().filter(|_| value.len() == DATE_BYTES) {
            return unix_s(date).map(Self::Date);
        }
        let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(value).ok().filter(|_| is_number)?;
        Some(Self::Seconds(text.parse().unwrap_or(u32::MAX)))
    }
}

/// Seconds since 1970 of a date in the form that servers must send (IMF-fixdate, RFC 9110 section
/// 5.6.7), such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn unix_s(date: &[u8; DATE_BYTES]) -> Option<u64> {
    const MONTHS: [&[u8]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    let number = |from: usize, to: usize| {
        let digits = &date[from..to];
        let text = std::str::from_utf8(digits).ok();
        let text = text.filter(|_| digits.iter().all(u8::is_ascii_digit));
        text.and_then(|text| text.parse::<u64>().ok())
    };
    if &date[3..5] != b", " || &date[25..] != b" GMT" || (date[19], date[22]) != (b':', b':') {
        return None;
    }
    let (day, year) = (number(5, 7)?, number(12, 16)?);
    let month = MONTHS.iter().position(|name| *name == &date[8..11])? as u64 + 1;
    let (hour, minute, second) = (number(17, 19)?, number(20, 22)?, number(23, 25)?);
    if year < 1970 || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // The year begins in March, so that the leap day is its last one.
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        month => (year, month - 3),
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    // Days from 0000-03-01 to 1970-01-01.
    let days = days.checked_sub(719_468)?;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&str, &str)]) -> StreamHead {
        let mut noted = StreamFields::default();
        for (name, value) in fields {
            noted.note(name.as_bytes(), value.as_bytes());
        }
        noted.meaning()
    }

    #[test]
    fn a_body_with_a_coding_is_compressed_and_one_with_identity_is_not() {
        for (value, expected) in [
            ("gzip", true),
            ("BR", true),
            ("identity, zstd", true),
            ("deflate", true),
            ("identity", false),
            ("", false),
        ] {
            let found = head(&[("Content-Encoding", value)]).is_compressed;
            assert_eq!(found, expected, "{value}");
        }
        assert!(!head(&[("content-type", "gzip")]).is_compressed);
    }

    #[test]
    fn a_packed_head_has_the_same_meaning() {
        for (wait_s, expected_s) in [
            (None, None),
            (Some(0), Some(0)),
            (Some(60), Some(60)),
            (Some(u32::MAX), Some((1 << 31) - 2)),
        ] {
            for is_compressed in [false, true] {
                let head = StreamHead {
                    is_compressed,
                    wait_s,
                };
                let found = PackedStreamHead::from(head).unpacked();
                assert_eq!(
                    (found.is_compressed, found.wait_s),
                    (is_compressed, expected_s)
                );
            }
        }
    }

    #[test]
    fn dates_are_seconds_since_1970() {
        for (text, expected) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Thu, 29 Feb 2024 23:59:59 GMT", Some(1_709_251_199)),
            ("Fri, 31 Dec 1999 23:59:60 GMT", Some(946_684_800)),
            ("Sun, 06 Nov 1969 08:49:37 GMT", None),
            ("Sun, 06 Foo 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
            ("Sun, 06 Nov 1994 24:49:37 GMT", None),
            ("Sun, +6 Nov 1994 08:49:37 GMT", None),
            ("Sun  06 Nov 1994 08:49:37 GMT", None),
        ] {
            let date = text.as_bytes().try_into().expect("29 bytes");
            assert_eq!(unix_s(date), expected, "{text}");
        }
    }

    #[test]
    fn a_server_asks_to_wait_for_seconds_or_until_a_date_by_its_own_clock() {
        const DATE: (&str, &str) = ("Date", "Sun, 06 Nov 1994 08:49:37 GMT");
        for (value, expected) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("99999999999999999999", Some(u32::MAX)),
            ("Sun, 06 Nov 1994 08:49:40 GMT", Some(3)),
            ("Sun, 06 Nov 1994 08:49:30 GMT", Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(u32::MAX)),
            ("soon", None),
            ("-1", None),
            ("1.5", None),
            ("", None),
        ] {
            let found = head(&[("Retry-After", value), DATE]).wait_s;
            assert_eq!(found, expected, "{value}");
        }
        let without_date = head(&[("retry-after", "Sun, 06 Nov 1994 08:49:40 GMT")]);
        assert_eq!(without_date.wait_s, None);
        assert_eq!(head(&[DATE]).wait_s, None);
    }
}
