//! One line of an access log.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::fmt::strtime;

use super::SECOND_NS;
use super::format::{Field, FormatPart, LogFormat, TimeForm};
use crate::error::{Fault, quoted};

/// When a request arrived at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Nanoseconds since 1970. If not exact, the beginning of the second.
    pub(crate) unix_ns: i64,
    /// False if only the second is known.
    pub(crate) is_exact: bool,
}

/// A request as a line has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogEntry<'a> {
    pub(crate) moment: Moment,
    pub(crate) method: Cow<'a, str>,
    pub(crate) target: Cow<'a, str>,
    pub(crate) headers: Vec<(&'a str, Cow<'a, [u8]>)>,
    /// 0 if the line does not have it.
    pub(crate) status: u16,
}

/// The fields of a line as far as they have been read.
#[derive(Default)]
struct Fields<'a> {
    time: Option<Moment>,
    fraction_ns: Option<i64>,
    took_ns: Option<i64>,
    method: Option<Cow<'a, str>>,
    target: Option<Cow<'a, str>>,
    query: Option<Cow<'a, str>>,
    headers: Vec<(&'a str, Cow<'a, [u8]>)>,
    status: u16,
}

impl LogFormat {
    /// Reads a line. Positions of faults are bytes from its start.
    pub(crate) fn read<'a>(&'a self, line: &'a [u8]) -> Result<LogEntry<'a>, Fault> {
        let mut fields = Fields::default();
        let mut at = 0;
        for (number, part) in self.parts.iter().enumerate() {
            let rest = &line[at..];
            match part {
                FormatPart::Text(text) if rest.starts_with(text) => at += text.len(),
                FormatPart::Text(text) => {
                    let text = String::from_utf8_lossy(text);
                    return Err(Fault::new(at, format!("expected {}", quoted(&text))));
                }
                FormatPart::Field(field) => {
                    let before = number.checked_sub(1).map(|number| &self.parts[number]);
                    let end = end_of_field(rest, before, self.parts.get(number + 1));
                    let end = end.ok_or_else(|| lacks_rest(self.parts.get(number + 1), at))?;
                    let value = &rest[..end];
                    fields
                        .set(field, value)
                        .map_err(|error| Fault::new(at, error))?;
                    at += end;
                }
            }
        }
        let may_end = at == line.len() || (self.may_continue && line[at] == b' ');
        if may_end {
            fields.finish(self.is_time_of_end)
        } else {
            Err(Fault::new(at, "expected the end of the line"))
        }
    }
}

fn lacks_rest(after: Option<&FormatPart>, at: usize) -> Fault {
    let text = match after {
        Some(FormatPart::Text(text)) => String::from_utf8_lossy(text),
        _ => "".into(),
    };
    let problem = format!("expected {} in the rest of the line", quoted(&text));
    Fault::new(at, problem)
}

/// Where a field ends: before the text that follows it. Quotes within quotes are escaped.
fn end_of_field(
    rest: &[u8],
    before: Option<&FormatPart>,
    after: Option<&FormatPart>,
) -> Option<usize> {
    let Some(FormatPart::Text(text)) = after else {
        // A field without text after it is the last one.
        return Some(rest.len());
    };
    let is_quoted = text.first() == Some(&b'"')
        && matches!(before, Some(FormatPart::Text(before)) if before.last() == Some(&b'"'));
    if !is_quoted {
        return memchr::memmem::find(rest, text);
    }
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', rest.get(at..)?)?;
        match rest[at] {
            b'\\' => at += 2,
            _ => return Some(at),
        }
    }
}

/// The value of a field, and what it is not.
#[derive(Debug, thiserror::Error)]
#[error("{} is not {}", shown(.0), .1)]
struct WrongField<'a>(&'a [u8], &'static str);

impl<'a> Fields<'a> {
    fn set(&mut self, field: &'a Field, value: &'a [u8]) -> Result<(), WrongField<'a>> {
        if matches!(value, b"-" | b"") {
            return Ok(());
        }
        let not = |what| Err(WrongField(value, what));
        match field {
            Field::Other | Field::IsArgs => {}
            Field::Time(form) => match moment(*form, value) {
                Some(moment) => self.time = Some(moment),
                None => return not("a time"),
            },
            Field::Fraction(unit_ns) => match scaled(value, *unit_ns) {
                Some(ns) => self.fraction_ns = Some(ns),
                None => return not("a part of a second"),
            },
            Field::Took(unit_ns) => match scaled(value, *unit_ns) {
                Some(ns) => self.took_ns = Some(ns),
                None => return not("a number of seconds"),
            },
            Field::Request => {
                let Some((method, target)) = request_line(unescaped_text(value)?) else {
                    return not("a request (expected like GET / HTTP/1.1)");
                };
                (self.method, self.target) = (Some(method), Some(target));
            }
            Field::Method => self.method = Some(unescaped_text(value)?),
            Field::Target | Field::Path => self.target = Some(unescaped_text(value)?),
            Field::Query(has_mark) => {
                let query = unescaped_text(value)?;
                self.query = Some(match has_mark {
                    true => query,
                    false => Cow::Owned(format!("?{query}")),
                });
            }
            Field::Status => match str::from_utf8(value).ok().and_then(|it| it.parse().ok()) {
                Some(status) => self.status = status,
                None => return not("a status"),
            },
            Field::Header(name) => self.headers.push((name, unescaped(value))),
        }
        Ok(())
    }

    fn finish(self, is_time_of_end: bool) -> Result<LogEntry<'a>, Fault> {
        let lacks = |what: &str| Fault::new(0, format!("the line has no {what}"));
        let time = self.time.ok_or_else(|| lacks("time"))?;
        let target = self.target.ok_or_else(|| lacks("request"))?;
        let took_ns = self.took_ns.filter(|_| is_time_of_end).unwrap_or(0);
        let moment = match (time.is_exact, self.fraction_ns) {
            (true, _) => Moment {
                unix_ns: time.unix_ns.saturating_sub(took_ns),
                is_exact: true,
            },
            (false, Some(fraction_ns)) => Moment {
                unix_ns: time
                    .unix_ns
                    .saturating_add(fraction_ns)
                    .saturating_sub(took_ns),
                is_exact: true,
            },
            // The end was in the middle of its second on average.
            (false, None) => Moment {
                unix_ns: time
                    .unix_ns
                    .saturating_add(SECOND_NS / 2)
                    .saturating_sub(took_ns)
                    .div_euclid(SECOND_NS)
                    * SECOND_NS,
                is_exact: false,
            },
        };
        Ok(LogEntry {
            moment,
            method: self.method.unwrap_or(Cow::Borrowed("GET")),
            target: match self.query {
                Some(query) => Cow::Owned(format!("{target}{query}")),
                None => target,
            },
            headers: self.headers,
            status: self.status,
        })
    }
}

/// Method and target of a request line. One of HTTP/0.9 has no version.
fn request_line(text: Cow<'_, str>) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let mut words = text.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next());
    let is_version = version.is_none_or(|version| version.starts_with("HTTP/"));
    if !plan::is_token(method) || target.is_empty() || !is_version || words.next().is_some() {
        return None;
    }
    Some(match &text {
        Cow::Borrowed(text) => {
            let (method, rest) = text.split_once(' ')?;
            let target = rest.split(' ').next()?;
            (Cow::Borrowed(method), Cow::Borrowed(target))
        }
        Cow::Owned(_) => (Cow::Owned(method.to_owned()), Cow::Owned(target.to_owned())),
    })
}

fn moment(form: TimeForm, value: &[u8]) -> Option<Moment> {
    let text = str::from_utf8(value).ok()?;
    let of_timestamp = |timestamp: Timestamp, is_exact: bool| {
        let unix_ns = i64::try_from(timestamp.as_nanosecond()).ok()?;
        Some(Moment { unix_ns, is_exact })
    };
    match form {
        TimeForm::Common => {
            let time = strtime::parse("%d/%b/%Y:%H:%M:%S %z", text).ok()?;
            of_timestamp(time.to_timestamp().ok()?, false)
        }
        TimeForm::Iso8601 => of_timestamp(text.parse().ok()?, text.contains(['.', ','])),
        TimeForm::Unix(unit_ns) => Some(Moment {
            unix_ns: scaled(value, unit_ns)?,
            is_exact: unit_ns < SECOND_NS || text.contains('.'),
        }),
    }
}

/// A decimal number without a sign, times a unit, in nanoseconds. Integers, because a float has too
/// few digits for the time since 1970.
fn scaled(value: &[u8], unit_ns: i64) -> Option<i64> {
    let text = str::from_utf8(value).ok()?;
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(decimals) {
        return None;
    }
    let mut ns = whole.parse::<i64>().ok()?.checked_mul(unit_ns)?;
    let mut place_ns = unit_ns;
    for digit in decimals.bytes() {
        place_ns /= 10;
        ns = ns.checked_add(i64::from(digit - b'0') * place_ns)?;
    }
    Some(ns)
}

fn unescaped_text(value: &[u8]) -> Result<Cow<'_, str>, WrongField<'_>> {
    let problem = || WrongField(value, "UTF-8");
    match unescaped(value) {
        Cow::Borrowed(bytes) => str::from_utf8(bytes)
            .map(Cow::Borrowed)
            .map_err(|_| problem()),
        Cow::Owned(bytes) => String::from_utf8(bytes)
            .map(Cow::Owned)
            .map_err(|_| problem()),
    }
}

/// Undoes the escapes of nginx (`\x22`, and those of JSON) and of Apache (`\"`, `\n`).
fn unescaped(value: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', value).is_none() {
        return Cow::Borrowed(value);
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        bytes.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let hex = |digits: std::ops::Range<usize>| {
            let digits = str::from_utf8(rest.get(digits)?).ok()?;
            u32::from_str_radix(digits, 16).ok()
        };
        let (byte, used) = match rest.first() {
            Some(b'x') if hex(1..3).is_some() => (hex(1..3), 3),
            Some(b'u') if hex(1..5).is_some_and(|code| code < 0x80) => (hex(1..5), 5),
            Some(b'n') => (Some(u32::from(b'\n')), 1),
            Some(b't') => (Some(u32::from(b'\t')), 1),
            Some(b'r') => (Some(u32::from(b'\r')), 1),
            Some(other @ (b'"' | b'\\' | b'/')) => (Some(u32::from(*other)), 1),
            _ => (Some(u32::from(b'\\')), 0),
        };
        bytes.extend(byte.and_then(|byte| u8::try_from(byte).ok()));
        rest = &rest[used..];
    }
    bytes.extend_from_slice(rest);
    Cow::Owned(bytes)
}

fn shown(value: &[u8]) -> String {
    quoted(&String::from_utf8_lossy(value))
}
