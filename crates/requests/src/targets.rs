//! Reads lists of URLs, as oha and siege do, and vegeta's targets.
//!
//! A line is a request: a URL, or a method and a URL. Below one with a method may be its headers
//! and `@FILE` with its body, as in vegeta. Empty lines and comments may be anywhere.

use std::collections::BTreeSet;

use crate::compile::MAX_NAME_BYTES;
use crate::entry::{Header, RequestEntry};
use crate::error::Fault;
use crate::lines::{RequestLine, TextLine, lines_of};
use crate::scope::Scope;
use crate::template::Template;

/// Gives each request of a text to `sink`. The text begins at `at` in the file.
pub(crate) fn read<'a>(
    text: &str,
    at: usize,
    scope: &mut Scope<'a>,
    sink: &mut dyn FnMut(RequestEntry, &mut Scope<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let is_named = has_few_names(text, at);
    let mut open: Option<Open> = None;
    for line in lines_of(text, at) {
        if line.comment().is_some() {
            continue;
        }
        let request = RequestLine::of(line.text);
        if (line.is_blank() || request.is_some())
            && let Some(whole) = open.take()
        {
            sink(whole.entry, scope)?;
        }
        if let Some(request) = request {
            let name = is_named.then(|| name_of(&request));
            open = Some(Open::new(line, request, name, scope)?);
        } else if !line.is_blank() {
            match &mut open {
                Some(open) if open.may_continue => open.read(line, scope)?,
                _ => return Err(line.fault(line.text.trim(), problem(line, open.is_some()))),
            }
        }
    }
    match open {
        Some(last) => sink(last.entry, scope),
        None => Ok(()),
    }
}

/// The method of a line that is only a URL.
const DEFAULT_METHOD: &str = "GET";

/// The most names that a list gives to its requests. Each has a latency distribution of its own,
/// and a table of more rows is no summary.
const NAMES_MAX: usize = 20;

/// Whether the requests of a list are named by method and path: there are several names, but few.
fn has_few_names(text: &str, at: usize) -> bool {
    let mut names = BTreeSet::new();
    for line in lines_of(text, at).filter(|line| line.comment().is_none()) {
        let Some(request) = RequestLine::of(line.text) else {
            continue;
        };
        let name = name_of(&request);
        if name.len() > MAX_NAME_BYTES || !name.chars().all(plan::is_printable) {
            return false;
        }
        names.insert(name);
        if names.len() > NAMES_MAX {
            return false;
        }
    }
    names.len() > 1
}

/// `GET /users/*` for `http://host/users/{{uuid}}?page=2`.
fn name_of(request: &RequestLine<'_>) -> String {
    let target = request.target;
    let path = target.split_once("://").map_or(target, |(_, rest)| {
        rest.find('/').map_or("/", |begin| &rest[begin..])
    });
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let mut name = format!("{} ", request.method.unwrap_or(DEFAULT_METHOD));
    let mut rest = path;
    while let Some((text, (_, after))) = rest
        .split_once("{{")
        .and_then(|(text, inner)| Some((text, inner.split_once("}}")?)))
    {
        name.push_str(text);
        name.push('*');
        rest = after;
    }
    name + rest
}

/// Why a line is no request.
fn problem(line: TextLine<'_>, is_below_request: bool) -> String {
    let mut words = line.text.split_whitespace().skip(1);
    let advice = match words.next() {
        // As in the lists of siege.
        Some("POST" | "PUT") => "; give a request with a body as JSON lines",
        _ if is_below_request => {
            "; headers follow only a line with a method, and nothing follows @FILE"
        }
        _ => "",
    };
    format!("expected a URL like http://host/path, or GET http://host/path{advice}")
}

/// A request to which the next lines may belong.
struct Open {
    entry: RequestEntry,
    may_continue: bool,
}

impl Open {
    fn new(
        line: TextLine<'_>,
        request: RequestLine<'_>,
        name: Option<String>,
        scope: &mut Scope<'_>,
    ) -> Result<Self, Fault> {
        let at = line.position(request.target);
        let entry = RequestEntry {
            at: line.at,
            method: request.method.unwrap_or(DEFAULT_METHOD).to_owned(),
            address: Template::parse(request.target, at, scope)?,
            address_at: at,
            headers: Vec::new(),
            body: None,
            name,
            weight: None,
            due: None,
            captures: Vec::new(),
            conversation: None,
            is_call: false,
        };
        Ok(Self {
            entry,
            may_continue: request.method.is_some(),
        })
    }

    /// Reads a header or the name of the file with the body.
    fn read(&mut self, line: TextLine<'_>, scope: &mut Scope<'_>) -> Result<(), Fault> {
        if let Some(name) = line.text.trim().strip_prefix('@') {
            let content = scope.file(name.trim());
            let content = content.map_err(|problem| line.fault(name, problem))?;
            self.entry.body = Some(Template::literal(&*content));
            self.may_continue = false;
            return Ok(());
        }
        let (name, value) = line.header("without http:// before it")?;
        let at = line.position(value);
        self.entry.headers.push(Header {
            name: name.to_owned(),
            value: Template::parse(value, at, scope)?,
            at: line.at,
        });
        Ok(())
    }
}
