//! One request of a file before it is turned into bytes, and the file as a whole.

use std::io;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use grpc::Schema;
use plan::Target;
use plan::secrets::{
    HIDDEN, Secret, first_hidden, secrets_in_body, secrets_in_header, secrets_in_url,
};
use serde_json::json;

use crate::capture::Capture;
use crate::compile::address;
use crate::conversations::Conversation;
use crate::error::{Fault, FileError, quoted};
use crate::form::Form;
use crate::scope::Scope;
use crate::template::{Piece, Template};
use crate::{http_file, json_lines, targets};

/// A request file, and how to get at what it names.
pub struct Inputs<'a> {
    /// The file as the user named it, for messages.
    pub file: &'a str,
    /// The content of the file.
    pub text: &'a [u8],
    /// Reads another file, named as in the request file: a body, a table.
    pub read: &'a dyn Fn(&str) -> io::Result<Vec<u8>>,
    /// The value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

/// A request as the file has it, before it is compiled. All forms of files are read into these.
pub(crate) struct RequestEntry {
    /// Where it begins in the file.
    pub(crate) at: usize,
    pub(crate) method: String,
    /// A URL, or a path.
    pub(crate) address: Template,
    pub(crate) address_at: usize,
    pub(crate) headers: Vec<Header>,
    pub(crate) body: Option<Template>,
    pub(crate) name: Option<String>,
    pub(crate) weight: Option<u32>,
    pub(crate) due: Option<Due>,
    pub(crate) captures: Vec<Capture>,
    pub(crate) conversation: Option<Conversation>,
    /// It has keys that only gRPC calls have.
    pub(crate) is_call: bool,
}

/// The moment of a request.
#[derive(Clone, Copy)]
pub(crate) struct Due {
    /// Nanoseconds after a moment that is the same for all requests of the file.
    pub(crate) ns: i64,
    /// Where it is in the file.
    pub(crate) at: usize,
}

/// A header of a request.
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) value: Template,
    pub(crate) at: usize,
}

/// The largest weight: with 2^32 requests of it, the sum of all still fits.
pub(crate) const MAX_WEIGHT: u32 = 1_000_000;

/// Reads the requests of a file one after the other.
pub(crate) fn each_entry<'a>(
    inputs: &'a Inputs<'a>,
    sink: &mut dyn FnMut(RequestEntry, &mut Scope<'a>) -> Result<(), Fault>,
) -> Result<Scope<'a>, FileError> {
    let mut scope = Scope::new(inputs);
    let mut any = false;
    let mut counted = |entry: RequestEntry, scope: &mut Scope<'a>| {
        any = true;
        check_secrets(&entry)?;
        sink(entry, scope)
    };
    let read = text_of(inputs.text).and_then(|(text, at)| match Form::of(text, at)? {
        Form::JsonLines => json_lines::read(text, at, &mut scope, &mut counted),
        Form::JsonArray => json_lines::read_array(text, at, &mut scope, &mut counted),
        Form::Targets => targets::read(text, at, &mut scope, &mut counted),
        Form::HttpFile => http_file::read(text, at, &mut scope, &mut counted),
    });
    let empty = || Fault::new(0, "there is no request in the file");
    read.and_then(|()| any.then_some(()).ok_or_else(empty))
        .map_err(|fault| fault.in_file(inputs.file, inputs.text))?;
    Ok(scope)
}

/// Refuses the mark that conversions and results have in place of secrets: it would be sent.
fn check_secrets(entry: &RequestEntry) -> Result<(), Fault> {
    let check = |at, template: &Template, secrets: &dyn Fn(&str) -> Vec<Secret>| {
        if !template.has_text(HIDDEN) {
            return Ok(());
        }
        let text = template.with_values("1");
        let text = String::from_utf8_lossy(&text);
        first_hidden(&text, &secrets(&text)).map_or(Ok(()), |secret| {
            let problem = format!(
                "{} is ***, which stands for a secret that was hidden (write {{{{env:{}}}}}, and \
                 set this environment variable)",
                quoted(&secret.name),
                secret.variable()
            );
            Err(Fault::new(at, problem))
        })
    };
    check(entry.address_at, &entry.address, &secrets_in_url)?;
    for header in &entry.headers {
        let secrets = |value: &str| secrets_in_header(&header.name, value);
        check(header.at, &header.value, &secrets)?;
    }
    let body = entry.body.as_ref();
    body.map_or(Ok(()), |body| check(entry.at, body, &secrets_in_body))
}

/// The text without a byte order mark, and where it begins.
fn text_of(bytes: &[u8]) -> Result<(&str, usize), Fault> {
    const BOM: &str = "\u{feff}";
    let text = str::from_utf8(bytes)
        .map_err(|error| Fault::new(error.valid_up_to(), "the file is not UTF-8"))?;
    Ok(text
        .strip_prefix(BOM)
        .map_or((text, 0), |rest| (rest, BOM.len())))
}

/// The target of the first request with an absolute URL; `None` if all have only paths.
///
/// # Errors
/// If the file cannot be used.
pub fn first_target(inputs: &Inputs<'_>) -> Result<Option<Target>, FileError> {
    let mut first = None;
    each_entry(inputs, &mut |entry, _| {
        if first.is_none() {
            first = address(&entry)?.0;
        }
        Ok(())
    })?;
    Ok(first)
}

/// What says when the requests of a file are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilePace {
    /// The options of the run.
    Options,
    /// Their own moments, which all or none of them have.
    Moments,
    /// The users who have the conversations that all or none of them are, unless there is a rate.
    Users,
}

/// What the first request of a file shows of when requests are due.
///
/// # Errors
/// If the file cannot be used up to its first request.
pub fn pace(inputs: &Inputs<'_>) -> Result<FilePace, FileError> {
    let mut first = None;
    let read = each_entry(inputs, &mut |entry, _| {
        first = Some(match (entry.due, entry.conversation) {
            (Some(_), _) => FilePace::Moments,
            (None, Some(_)) => FilePace::Users,
            (None, None) => FilePace::Options,
        });
        // Ends the reading.
        Err(Fault::new(0, ""))
    });
    match (first, read) {
        (Some(pace), _) => Ok(pace),
        (None, read) => read.map(|_| FilePace::Options),
    }
}

/// The same requests as JSON lines that name no other file and no environment variable, with the
/// types of the messages of gRPC calls.
///
/// # Errors
/// If the file cannot be used, or a body has both templates and bytes that are not UTF-8.
pub fn self_contained(inputs: &Inputs<'_>, types: Option<&Schema>) -> Result<Vec<u8>, FileError> {
    let mut lines = String::new();
    let scope = each_entry(inputs, &mut |entry, scope| {
        lines.push_str(&json_line(&entry, scope)?);
        lines.push('\n');
        Ok(())
    })?;
    let mut file = String::new();
    if let Some(types) = types.or(scope.types.as_ref()) {
        let set = BASE64_STANDARD.encode(types.to_set());
        file.push_str(&json!({ "types": set }).to_string());
        file.push('\n');
    }
    for table in &scope.tables {
        let text = String::from_utf8(table.to_csv()).map_err(|_| FileError {
            file: table.name.clone(),
            line: 1,
            column: 1,
            message: "a table for agents must be UTF-8".to_owned(),
        })?;
        file.push_str(&json!({ "csv": table.name, "text": text }).to_string());
        file.push('\n');
    }
    file.push_str(&lines);
    Ok(file.into_bytes())
}

fn json_line(entry: &RequestEntry, scope: &Scope<'_>) -> Result<String, Fault> {
    let text = |template: &Template| {
        template.to_text(scope).ok_or_else(|| {
            let problem = "a request with templates for agents must be UTF-8";
            Fault::new(entry.at, problem)
        })
    };
    // Some agents may have another address for the server, so only the path is kept.
    let (target, path) = address(entry)?;
    // An array, since an object of serde_json does not keep the order.
    let mut headers = Vec::new();
    for header in &entry.headers {
        headers.push(json!([header.name, text(&header.value)?]));
    }
    let has_authorization = entry.headers.iter().any(|header| {
        let name = &header.name;
        name.eq_ignore_ascii_case("Authorization")
    });
    let credentials = target.and_then(|target| target.credentials());
    if let Some(credentials) = credentials.filter(|_| !has_authorization) {
        let value = format!("Basic {}", BASE64_STANDARD.encode(credentials));
        headers.push(json!(["Authorization", value]));
    }
    let mut line = json!({
        "method": entry.method,
        "path": text(&path)?,
        "headers": headers,
    });
    if let Some(body) = &entry.body {
        match body.pieces.as_slice() {
            [] => line["body_text"] = json!(""),
            [Piece::Text(bytes)] => line["body"] = json!(BASE64_STANDARD.encode(bytes)),
            _ => line["body_text"] = json!(text(body)?),
        }
    }
    if let Some(name) = &entry.name {
        line["name"] = json!(name);
    }
    if let Some(weight) = entry.weight {
        line["weight"] = json!(weight);
    }
    for capture in &entry.captures {
        line["capture"][scope.captured.name(capture.variable)] = json!(capture.text);
    }
    if let Some(due) = entry.due {
        line["at"] = json!(due.ns as f64 / 1e6);
    }
    let mut line = line.to_string();
    if let Some(conversation) = &entry.conversation {
        line.pop();
        line += &format!(",\"conversation\":{}}}", conversation.to_json());
    }
    Ok(line)
}
