//! Formats of access logs: `log_format` of nginx and `LogFormat` of Apache.

use crate::error::{Fault, quoted};

/// A format: text and fields by turns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogFormat {
    name: String,
    pub(super) parts: Vec<FormatPart>,
    /// Whether a line may go on after the last part. Many people add fields to a well-known format.
    pub(super) may_continue: bool,
    /// Whether the time is that of the end of the response.
    pub(super) is_time_of_end: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum FormatPart {
    Text(Vec<u8>),
    Field(Field),
}

/// What a field contains. Fields that are of no use here are [`Field::Other`].
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Field {
    Time(TimeForm),
    /// Part of a second that the time does not have, in units of this many nanoseconds.
    Fraction(i64),
    /// How long the request took, in units of this many nanoseconds; may have decimals.
    Took(i64),
    /// Method, target and version: `GET / HTTP/1.1`.
    Request,
    Method,
    /// Path and query together.
    Target,
    /// The path without the query.
    Path,
    /// The query, with (`true`) or without its question mark.
    Query(bool),
    /// nginx's `$is_args`: a question mark if there is a query.
    IsArgs,
    Status,
    Header(String),
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeForm {
    /// The Common Log Format: `23/Nov/2026:14:22:59 +0000`.
    Common,
    /// The form of ISO 8601: `2026-11-23T14:22:59+00:00`.
    Iso8601,
    /// Since 1970, in units of this many nanoseconds; may have decimals.
    Unix(i64),
}

/// nginx's default, and a well-known format of Apache.
const COMBINED: &str = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#;
/// The Common Log Format of NCSA httpd.
const COMMON: &str = r#"%h %l %u %t "%r" %>s %b"#;
/// Debian's format of Apache's `other_vhosts_access.log`.
const VHOST_COMBINED: &str = r#"%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#;

const KNOWN: [(&str, &str); 3] = [
    ("vhost_combined", VHOST_COMBINED),
    ("combined", COMBINED),
    ("common", COMMON),
];

/// Lines by which a format is recognised.
pub(super) const SAMPLE_LINES: usize = 100;

impl LogFormat {
    /// The format with this name, or this text.
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        if let Some((name, known)) = KNOWN.iter().find(|(name, _)| *name == text) {
            return Self::of_apache(name, known);
        }
        match (text.contains('$'), text.contains('%')) {
            (true, _) => Self::of_nginx(text),
            (false, true) => Self::of_apache(text, text),
            (false, false) => Err(Fault::new(
                0,
                format!(
                    "{} is not a format (expected combined, common, vhost_combined, or the text of \
                     a log_format of nginx or a LogFormat of Apache)",
                    quoted(text)
                ),
            )),
        }
    }

    /// The well-known format that most of the first lines have.
    pub(crate) fn of_lines<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let sample: Vec<&[u8]> = lines.collect();
        let formats = KNOWN.iter().filter_map(|(name, text)| {
            let mut format = Self::of_apache(name, text).ok()?;
            format.may_continue = true;
            Some(format)
        });
        let matches = |format: &Self| {
            sample
                .iter()
                .filter(|line| format.read(line).is_ok())
                .count()
        };
        // Of formats that match as many lines, the first has more fields.
        let mut best = Self {
            name: "combined".to_owned(),
            parts: Vec::new(),
            may_continue: true,
            is_time_of_end: false,
        };
        let mut most = 0;
        for format in formats {
            let count = matches(&format);
            if count > most || (best.parts.is_empty() && format.name == "combined") {
                (best, most) = (format, count);
            }
        }
        best
    }

    /// Its name, for messages.
    pub(crate) fn name(&self) -> String {
        if KNOWN.iter().any(|(name, _)| *name == self.name) {
            self.name.clone()
        } else {
            quoted(&self.name)
        }
    }

    fn of_nginx(text: &str) -> Result<Self, Fault> {
        let mut builder = Builder::default();
        let mut rest = text;
        while let Some(dollar) = rest.find('$') {
            let at = text.len() - rest.len() + dollar;
            builder.text(&rest[..dollar]);
            rest = &rest[dollar + 1..];
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let name = match rest.strip_prefix('{') {
                Some(braced) => {
                    let end = braced
                        .find('}')
                        .ok_or_else(|| Fault::new(at, "${ has no } after it"))?;
                    rest = &braced[end + 1..];
                    &braced[..end]
                }
                None => {
                    let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                    let (name, after) = rest.split_at(end);
                    rest = after;
                    name
                }
            };
            builder.field(field_of_nginx(name), at)?;
        }
        builder.text(rest);
        builder.finish(text, true)
    }

    fn of_apache(name: &str, text: &str) -> Result<Self, Fault> {
        let mut builder = Builder::default();
        let mut rest = text;
        while let Some(percent) = rest.find('%') {
            let at = text.len() - rest.len() + percent;
            let fault = |problem: &str| Fault::new(at, problem);
            builder.text(&rest[..percent].replace("\\\"", "\""));
            // Conditions and redirects: `%!200,304{Referer}i`, `%>s`.
            rest = rest[percent + 1..]
                .trim_start_matches(|c: char| c.is_ascii_digit() || "!,<>^".contains(c));
            let argument = match rest.strip_prefix('{') {
                Some(braced) => {
                    let end = braced
                        .find('}')
                        .ok_or_else(|| fault("%{ has no } after it"))?;
                    rest = &braced[end + 1..];
                    &braced[..end]
                }
                None => "",
            };
            // Two letters for those of trailers: `%^ti`.
            let letter = rest
                .chars()
                .next()
                .ok_or_else(|| fault("% has no letter after it"))?;
            rest = &rest[letter.len_utf8()..];
            if letter == '%' {
                builder.text("%");
                continue;
            }
            match field_of_apache(letter, argument) {
                Some(Field::Time(TimeForm::Common)) => {
                    builder.text("[");
                    builder.field(Field::Time(TimeForm::Common), at)?;
                    builder.text("]");
                }
                Some(field) => builder.field(field, at)?,
                None => {
                    return Err(fault(&format!(
                        "%{{{argument}}}t cannot be read (expected %t, or sec, msec, usec, \
                         msec_frac or usec_frac in the braces)"
                    )));
                }
            }
        }
        builder.text(&rest.replace("\\\"", "\""));
        builder.finish(name, false)
    }
}

fn field_of_nginx(name: &str) -> Field {
    const SECOND_NS: i64 = 1_000_000_000;
    match name {
        "time_local" => Field::Time(TimeForm::Common),
        "time_iso8601" => Field::Time(TimeForm::Iso8601),
        "msec" => Field::Time(TimeForm::Unix(SECOND_NS)),
        "request_time" => Field::Took(SECOND_NS),
        "request" => Field::Request,
        "request_method" => Field::Method,
        "request_uri" => Field::Target,
        "uri" | "document_uri" => Field::Path,
        "args" | "query_string" => Field::Query(false),
        "is_args" => Field::IsArgs,
        "status" => Field::Status,
        "host" => Field::Header("Host".to_owned()),
        name => match name.strip_prefix("http_") {
            Some(header) => header_field(&header.replace('_', "-")),
            None => Field::Other,
        },
    }
}

/// `None` for a time that cannot be read.
fn field_of_apache(letter: char, argument: &str) -> Option<Field> {
    Some(match (letter, argument) {
        ('t', "") => Field::Time(TimeForm::Common),
        ('t', _) => match argument.strip_prefix("begin:").unwrap_or(argument) {
            "sec" => Field::Time(TimeForm::Unix(1_000_000_000)),
            "msec" => Field::Time(TimeForm::Unix(1_000_000)),
            "usec" => Field::Time(TimeForm::Unix(1_000)),
            "msec_frac" => Field::Fraction(1_000_000),
            "usec_frac" => Field::Fraction(1_000),
            _ => return None,
        },
        ('r', _) => Field::Request,
        ('m', _) => Field::Method,
        ('U', _) => Field::Path,
        ('q', _) => Field::Query(true),
        ('s', _) => Field::Status,
        ('v' | 'V', _) => Field::Header("Host".to_owned()),
        ('i', header) => header_field(header),
        _ => Field::Other,
    })
}

/// Headers that belong to one connection or to a body that the log does not have are not sent.
fn header_field(name: &str) -> Field {
    const LEFT_OUT: [&str; 12] = [
        "connection",
        "keep-alive",
        "content-length",
        "content-type",
        "content-encoding",
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "http2-settings",
        "proxy-connection",
    ];
    if LEFT_OUT
        .iter()
        .any(|left_out| name.eq_ignore_ascii_case(left_out))
    {
        Field::Other
    } else {
        Field::Header(name.to_owned())
    }
}

#[derive(Default)]
struct Builder {
    parts: Vec<FormatPart>,
}

impl Builder {
    fn text(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(FormatPart::Text(last)) => last.extend_from_slice(text.as_bytes()),
            _ => self.parts.push(FormatPart::Text(text.as_bytes().to_vec())),
        }
    }

    /// Adds a field. Where one ends and the next begins must be visible in a line.
    fn field(&mut self, field: Field, at: usize) -> Result<(), Fault> {
        let Some(FormatPart::Field(last)) = self.parts.last_mut() else {
            self.parts.push(FormatPart::Field(field));
            return Ok(());
        };
        match (&*last, field) {
            // A query begins with the first question mark.
            (Field::Path, Field::IsArgs) => {}
            (Field::Path, Field::Query(_)) => *last = Field::Target,
            (Field::Other, Field::Other) => {}
            _ => return Err(Fault::new(at, "two fields need text between them")),
        }
        Ok(())
    }

    fn finish(self, name: &str, is_time_of_end: bool) -> Result<LogFormat, Fault> {
        let has = |wanted: fn(&Field) -> bool| {
            let mut parts = self.parts.iter();
            parts.any(|part| matches!(part, FormatPart::Field(field) if wanted(field)))
        };
        let lacks = |what: &str| Err(Fault::new(0, format!("the format has no {what}")));
        if !has(|field| matches!(field, Field::Time(_))) {
            return lacks("time ($time_local, $time_iso8601, $msec, or %t)");
        }
        let has_target = has(|field| matches!(field, Field::Target | Field::Path));
        if !has(|field| *field == Field::Request) && !has_target {
            return lacks("request ($request, $request_uri, %r, or %U)");
        }
        Ok(LogFormat {
            name: name.to_owned(),
            parts: self.parts,
            may_continue: false,
            is_time_of_end,
        })
    }
}
