//! A second, simple decoder: all bytes at once, copies everywhere, no state. The fast decoder must
//! return the same.

use protocol::{RequestKind, Response, SessionError};

/// A response as this decoder finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NaiveResponse {
    pub(crate) status: u16,
    pub(crate) reusable: bool,
    pub(crate) bytes: u64,
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl From<&Response> for NaiveResponse {
    fn from(response: &Response) -> Self {
        let captured = response.captured.as_deref().expect("capturing is on");
        let fields = captured.headers.iter().map(|(name, value)| {
            let name = String::from_utf8(name.to_vec()).expect("names are ASCII");
            (name, value.to_vec())
        });
        Self {
            status: response.status,
            reusable: response.reusable,
            bytes: response.bytes,
            fields: fields.collect(),
            body: captured.body.clone(),
        }
    }
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Every request has a response.
    Complete,
    /// The connection closed too early.
    Short,
    /// The server violated the protocol.
    Broken,
}

impl Ending {
    /// How a session that returned this error at last has ended.
    pub(crate) fn of(error: Option<&SessionError>) -> Self {
        match error {
            None => Self::Complete,
            Some(SessionError::ClosedEarly | SessionError::Truncated) => Self::Short,
            Some(_) => Self::Broken,
        }
    }
}

/// `input` cut at these places, none of which is behind its end.
pub(crate) fn cut(input: &[u8], places: impl Iterator<Item = usize>) -> Vec<&[u8]> {
    let mut places: Vec<usize> = places.chain([0, input.len()]).collect();
    places.sort_unstable();
    places
        .windows(2)
        .map(|ends| &input[ends[0]..ends[1]])
        .collect()
}

/// The result of parsing a part of the input.
enum Parsed<T> {
    Whole(T),
    Unfinished,
    Wrong,
}

/// Decodes everything that a server sent before it closed.
pub(crate) fn decode(kinds: &[RequestKind], input: &[u8]) -> (Vec<NaiveResponse>, Ending) {
    let mut responses = Vec::new();
    let mut at = 0;
    for kind in kinds {
        match response(*kind, &input[at..]) {
            Parsed::Whole((end, mut response)) => {
                response.bytes = end as u64;
                let goes_on = response.reusable;
                responses.push(response);
                at += end;
                if !goes_on {
                    break;
                }
            }
            Parsed::Unfinished => return (responses, Ending::Short),
            Parsed::Wrong => return (responses, Ending::Broken),
        }
    }
    let rest = &input[at..];
    let ending = if blanks(rest) != Some(rest.len()) {
        Ending::Broken
    } else if responses.len() < kinds.len() {
        Ending::Short
    } else {
        Ending::Complete
    };
    (responses, ending)
}

fn response(kind: RequestKind, input: &[u8]) -> Parsed<(usize, NaiveResponse)> {
    let mut at = 0;
    for _ in 0..65 {
        let Some(skipped) = blanks(&input[at..]) else {
            return Parsed::Wrong;
        };
        at += skipped;
        let (length, head) = match head(&input[at..]) {
            Parsed::Whole(head) => head,
            Parsed::Unfinished => return Parsed::Unfinished,
            Parsed::Wrong => return Parsed::Wrong,
        };
        at += length;
        match head.status {
            101 => return Parsed::Wrong,
            100..=199 => {}
            _ => return final_response(kind, head, at, &input[at..]),
        }
    }
    Parsed::Wrong
}

fn final_response(
    kind: RequestKind,
    head: NaiveResponse,
    at: usize,
    rest: &[u8],
) -> Parsed<(usize, NaiveResponse)> {
    let is_tunnel = kind == RequestKind::Connect && (200..300).contains(&head.status);
    if is_tunnel || kind == RequestKind::Head || [204, 304].contains(&head.status) {
        let reusable = head.reusable && !is_tunnel;
        return Parsed::Whole((at, NaiveResponse { reusable, ..head }));
    }
    let Some(codings) = codings(&head.fields) else {
        return Parsed::Wrong;
    };
    let lengths = values(&head.fields, "content-length");
    let only_identity = codings.iter().all(|coding| coding == "identity");
    if !only_identity && !lengths.is_empty() {
        return Parsed::Wrong;
    }
    if !only_identity {
        return match codings.iter().filter(|coding| *coding == "chunked").count() {
            2.. => Parsed::Wrong,
            1 if codings.last().is_some_and(|coding| coding == "chunked") => {
                chunked(head, at, rest)
            }
            _ if codings.last().is_some_and(|coding| !is_known(coding)) => Parsed::Wrong,
            _ => until_close(head, at, rest),
        };
    }
    if lengths.is_empty() {
        return until_close(head, at, rest);
    }
    let mut numbers: Vec<Option<u64>> = lengths
        .iter()
        .flat_map(|value| value.split(',').map(|item| number(item.trim_ascii())))
        .collect();
    numbers.dedup();
    match numbers.as_slice() {
        [Some(length)] if *length <= rest.len() as u64 => {
            let body = rest[..*length as usize].to_vec();
            Parsed::Whole((at + body.len(), NaiveResponse { body, ..head }))
        }
        [Some(_)] => Parsed::Unfinished,
        _ => Parsed::Wrong,
    }
}

fn until_close(head: NaiveResponse, at: usize, rest: &[u8]) -> Parsed<(usize, NaiveResponse)> {
    Parsed::Whole((
        at + rest.len(),
        NaiveResponse {
            reusable: false,
            body: rest.to_vec(),
            ..head
        },
    ))
}

fn chunked(mut head: NaiveResponse, start: usize, rest: &[u8]) -> Parsed<(usize, NaiveResponse)> {
    let mut at = 0;
    loop {
        let (line, size) = match chunk_line(&rest[at..]) {
            Parsed::Whole(line) => line,
            Parsed::Unfinished => return Parsed::Unfinished,
            Parsed::Wrong => return Parsed::Wrong,
        };
        at += line;
        if size == 0 {
            break;
        }
        let left = rest.len() - at;
        if size > left as u64 {
            return Parsed::Unfinished;
        }
        head.body.extend_from_slice(&rest[at..at + size as usize]);
        at += size as usize;
        match &rest[at..] {
            [b'\r', b'\n', ..] => at += 2,
            [] | [b'\r'] => return Parsed::Unfinished,
            _ => return Parsed::Wrong,
        }
    }
    let section = &rest[at..];
    let end = if section.starts_with(b"\r\n") {
        2
    } else if section.starts_with(b"\n") {
        1
    } else {
        match empty_line(section) {
            Some(end) => end,
            None => return Parsed::Unfinished,
        }
    };
    let mut table = [httparse::EMPTY_HEADER; 256];
    match httparse::parse_headers(&section[..end], &mut table) {
        Ok(httparse::Status::Complete((_, fields))) => head.fields.extend(owned(fields)),
        _ => return Parsed::Wrong,
    }
    Parsed::Whole((start + at + end, head))
}

/// The length of a chunk's first line, and the size in it.
fn chunk_line(input: &[u8]) -> Parsed<(usize, u64)> {
    let end = input.iter().position(|byte| b"\r\n".contains(byte));
    let line = &input[..end.unwrap_or(input.len())];
    let digits = line
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    let behind = line[digits..]
        .iter()
        .position(|byte| !b" \t".contains(byte));
    let extension_is_good = behind.is_none_or(|at| line[digits + at] == b';');
    let text = String::from_utf8_lossy(&line[..digits]);
    let significant = text.trim_start_matches('0');
    if !extension_is_good || significant.len() > 16 || (digits == 0 && !line.is_empty()) {
        return Parsed::Wrong;
    }
    let Some(end) = end else {
        return Parsed::Unfinished;
    };
    let size = if significant.is_empty() {
        Ok(0)
    } else {
        u64::from_str_radix(significant, 16)
    };
    match (&input[end..], size) {
        ([b'\r', b'\n', ..], Ok(size)) if digits > 0 => Parsed::Whole((end + 2, size)),
        ([b'\r'], Ok(_)) if digits > 0 => Parsed::Unfinished,
        _ => Parsed::Wrong,
    }
}

/// The length and meaning of a head. The body and the number of bytes are not filled in.
fn head(input: &[u8]) -> Parsed<(usize, NaiveResponse)> {
    let is_beginning = b"HTTP/1.0".starts_with(input) || b"HTTP/1.1".starts_with(input);
    let is_record_type = matches!(input, [0x15 | 0x16]);
    if is_beginning || is_record_type {
        return Parsed::Unfinished;
    }
    if !input.starts_with(b"HTTP/1.0") && !input.starts_with(b"HTTP/1.1") {
        return Parsed::Wrong;
    }
    let Some(end) = empty_line(input) else {
        return Parsed::Unfinished;
    };
    let mut table = [httparse::EMPTY_HEADER; 256];
    let mut response = httparse::Response::new(&mut table);
    let parsed = httparse::ParserConfig::default()
        .allow_multiple_spaces_in_response_status_delimiters(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .parse_response(&mut response, &input[..end]);
    let (Ok(httparse::Status::Complete(_)), Some(status @ 100..)) = (parsed, response.code) else {
        return Parsed::Wrong;
    };
    let fields: Vec<_> = owned(response.headers).collect();
    let options: Vec<String> = values(&fields, "connection")
        .iter()
        .flat_map(|value| {
            value
                .split(',')
                .map(|item| item.trim_ascii().to_lowercase())
        })
        .collect();
    let says = |option: &str| options.iter().any(|given| given == option);
    let is_old = response.version == Some(0);
    let has_codings = codings(&fields).is_none_or(|codings| !codings.is_empty());
    let reusable = !says("close") && (!is_old || (says("keep-alive") && !has_codings));
    Parsed::Whole((
        end,
        NaiveResponse {
            status,
            reusable,
            bytes: 0,
            fields,
            body: Vec::new(),
        },
    ))
}

/// The codings in lower case. `None` if one of the fields cannot be parsed.
fn codings(fields: &[(String, Vec<u8>)]) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for value in values(fields, "transfer-encoding") {
        let items: Vec<String> = value
            .split(',')
            .map(|item| item.trim_ascii().to_lowercase())
            .filter(|item| !item.is_empty())
            .collect();
        let is_token = |item: &String| {
            let name = item.split(';').next().unwrap_or_default().trim_ascii();
            let is_mark = |c: char| "!#$%&'*+-.^_`|~".contains(c);
            !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || is_mark(c))
        };
        if items.is_empty() || !items.iter().all(is_token) {
            return None;
        }
        all.extend(items);
    }
    Some(all)
}

fn is_known(coding: &str) -> bool {
    "chunked gzip x-gzip deflate compress x-compress identity"
        .split(' ')
        .any(|known| coding == known)
}

fn values(fields: &[(String, Vec<u8>)], name: &str) -> Vec<String> {
    let of_name = fields
        .iter()
        .filter(|(given, _)| given.eq_ignore_ascii_case(name));
    // One character per byte, so that none is lost.
    of_name
        .map(|(_, value)| value.iter().map(|byte| char::from(*byte)).collect())
        .collect()
}

fn owned(fields: &[httparse::Header<'_>]) -> impl Iterator<Item = (String, Vec<u8>)> {
    fields.iter().map(|field| {
        let unfolded = field.value.iter().map(|byte| match byte {
            b'\r' | b'\n' => b' ',
            other => *other,
        });
        (field.name.to_owned(), unfolded.collect())
    })
}

fn number(text: &str) -> Option<u64> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_decimal { text.parse().ok() } else { None }
}

/// Number of CR and LF at the start. `None` if there are too many.
fn blanks(input: &[u8]) -> Option<usize> {
    let count = input
        .iter()
        .take_while(|byte| b"\r\n".contains(byte))
        .count();
    (count <= 8).then_some(count)
}

/// The end of the first empty line that follows another line.
fn empty_line(input: &[u8]) -> Option<usize> {
    (0..=input.len())
        .find(|end| input[..*end].ends_with(b"\n\n") || input[..*end].ends_with(b"\n\r\n"))
}
