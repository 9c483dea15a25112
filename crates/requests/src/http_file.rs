//! Reads `.http` files, as the REST clients of VS Code and JetBrains do.

use crate::capture::{Capture, CaptureError};
use crate::entry::{Header, MAX_WEIGHT, RequestEntry};
use crate::error::{Fault, quoted};
use crate::form::FORMS;
use crate::lines::{SEPARATOR, TextLine, directive, lines_of, without_version};
use crate::scope::Scope;
use crate::template::Template;

/// Gives each request of a text to `sink`. The text begins at `at` in the file.
pub(crate) fn read<'a>(
    text: &str,
    at: usize,
    scope: &mut Scope<'a>,
    sink: &mut dyn FnMut(RequestEntry, &mut Scope<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let lines: Vec<TextLine<'_>> = lines_of(text, at).collect();
    let mut title = None;
    let mut begin = 0;
    loop {
        let end = lines[begin..]
            .iter()
            .position(|line| line.text.starts_with(SEPARATOR));
        let end = end.map_or(lines.len(), |end| begin + end);
        let mut section = Section {
            lines: &lines[begin..end],
            source: FileText { text, at },
            scope,
        };
        if let Some(entry) = section.entry(title)? {
            sink(entry, scope)?;
        }
        let Some(separator) = lines.get(end) else {
            return Ok(());
        };
        let words = separator.text.trim_start_matches('#').trim();
        title = (!words.is_empty()).then_some(words);
        begin = end + 1;
    }
}

/// The text, and where it begins in the file.
#[derive(Clone, Copy)]
struct FileText<'t> {
    text: &'t str,
    at: usize,
}

/// The lines of one request, and those before it.
struct Section<'t, 's, 'a> {
    lines: &'t [TextLine<'t>],
    source: FileText<'t>,
    scope: &'s mut Scope<'a>,
}

impl<'t> Section<'t, '_, '_> {
    /// The request, if there is one.
    fn entry(&mut self, title: Option<&str>) -> Result<Option<RequestEntry>, Fault> {
        let mut name = title.map(str::to_owned);
        let (mut weight, mut captures) = (None, Vec::new());
        let first = loop {
            let Some((line, rest)) = self.lines.split_first() else {
                return Ok(None);
            };
            let line = *line;
            if let Some(comment) = line.comment() {
                if let Some(given) = directive(comment, "@name") {
                    name = Some(given.to_owned());
                } else if let Some(given) = directive(comment, "@weight") {
                    weight = Some(parse_weight(line, given)?);
                } else if let Some(given) = directive(comment, "@capture") {
                    captures.push((line, given));
                }
            } else if let Some(variable) = line.text.trim_start().strip_prefix('@') {
                self.define(line, variable)?;
            } else if line.text.trim_start().starts_with("< {%") {
                return Err(line.fault(line.text.trim_start(), NO_SCRIPTS));
            } else if !line.is_blank() {
                break line;
            }
            self.lines = rest;
        };
        let (method, target) = self.request_line(first)?;
        let mut entry = RequestEntry {
            at: first.at,
            address_at: first.position(target),
            address: Template::parse(target, first.position(target), self.scope)?,
            method: method.unwrap_or_default().to_owned(),
            headers: Vec::new(),
            body: None,
            name,
            weight,
            due: None,
            captures: Vec::new(),
            conversation: None,
            is_call: false,
        };
        self.lines = &self.lines[1..];
        self.read_query(&mut entry)?;
        self.read_headers(&mut entry)?;
        entry.body = self.body()?;
        // The templates of the request are those of requests before it.
        for (line, given) in captures {
            entry.captures.push(self.capture(line, given)?);
        }
        if method.is_none() {
            entry.method = "GET".to_owned();
        }
        Ok(Some(entry))
    }

    /// Reads what a request captures: `token $.data.token`.
    fn capture(&mut self, line: TextLine<'t>, given: &'t str) -> Result<Capture, Fault> {
        let fault = |error: CaptureError| line.fault(given, error);
        let (name, place) = given.split_once([' ', '\t']).ok_or_else(|| {
            let problem = "expected a name and a place, like # @capture token $.data.token";
            line.fault(given, problem)
        })?;
        let variable = self.scope.captured.add(name).map_err(fault)?;
        Capture::parse(variable, place.trim()).map_err(fault)
    }

    /// Reads a definition of a variable: `@name = value`.
    fn define(&mut self, line: TextLine<'t>, variable: &'t str) -> Result<(), Fault> {
        let (name, value) = variable
            .split_once('=')
            .ok_or_else(|| line.fault(variable, "expected a variable like @host = 127.0.0.1"))?;
        let (name, value) = (name.trim(), value.trim());
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || !name.chars().all(is_name) {
            let problem = format!("{} is not the name of a variable", quoted(name));
            return Err(line.fault(variable, problem));
        }
        let value = Template::parse(value, line.position(value), self.scope)?;
        self.scope.variables.insert(name.to_owned(), value);
        Ok(())
    }

    /// Method and target of `METHOD URL HTTP/1.1`; the method and the version may be missing.
    fn request_line(&self, line: TextLine<'t>) -> Result<(Option<&'t str>, &'t str), Fault> {
        let text = line.text.trim();
        let (method, target) = match text.split_once([' ', '\t']) {
            Some((method, target)) if plan::is_token(method) => (Some(method), target.trim()),
            Some((first, _)) if !first.contains(['/', '{']) => {
                let first_quoted = quoted(first);
                let problem =
                    format!("{first_quoted} is not a method (expected like GET; {FORMS})");
                return Err(line.fault(first, problem));
            }
            _ => (None, text),
        };
        let target = without_version(target);
        if method.is_none() && !target.contains(['/', '{']) {
            let problem = format!("expected a request like GET http://host/path ({FORMS})");
            return Err(line.fault(text, problem));
        }
        Ok((method, target))
    }

    /// Indented lines after the request line that continue the query.
    fn read_query(&mut self, entry: &mut RequestEntry) -> Result<(), Fault> {
        while let Some((line, rest)) = self.lines.split_first() {
            let more = line.text.trim();
            if !line.text.starts_with([' ', '\t']) || !more.starts_with(['?', '&']) {
                break;
            }
            let more = Template::parse(more, line.position(more), self.scope)?;
            entry.address.append(more);
            self.lines = rest;
        }
        Ok(())
    }

    /// The lines up to the empty one.
    fn read_headers(&mut self, entry: &mut RequestEntry) -> Result<(), Fault> {
        while let Some((line, rest)) = self.lines.split_first() {
            self.lines = rest;
            if line.is_blank() {
                break;
            }
            if line.comment().is_some() {
                continue;
            }
            let (name, value) = line.header("(begin another request with a line ###)")?;
            let at = line.position(value);
            entry.headers.push(Header {
                name: name.to_owned(),
                value: Template::parse(value, at, self.scope)?,
                at: line.at,
            });
        }
        Ok(())
    }

    /// The body: the rest of the section, without empty lines at its end.
    fn body(&mut self) -> Result<Option<Template>, Fault> {
        while let [rest @ .., last] = self.lines
            && last.is_blank()
        {
            self.lines = rest;
        }
        let Some((last, _)) = self.lines.split_last() else {
            return Ok(None);
        };
        let mut body = Template::default();
        for (number, line) in self.lines.iter().enumerate() {
            let begins_script = |text: &str| {
                ["> {%", "< {%", ">> ", ">>! "]
                    .iter()
                    .any(|it| text.starts_with(it))
            };
            if begins_script(line.text) {
                return Err(line.fault(line.text, NO_SCRIPTS));
            }
            let end = match self.lines.get(number + 1) {
                Some(next) => next.at,
                None => last.at + last.text.len(),
            };
            if let Some(file) = line.text.strip_prefix("<@ ") {
                body.append(self.file(*line, file, true)?);
                body.append(Template::literal(
                    self.between(line.at + line.text.len(), end),
                ));
            } else if let Some(file) = line.text.strip_prefix("< ") {
                body.append(self.file(*line, file, false)?);
                body.append(Template::literal(
                    self.between(line.at + line.text.len(), end),
                ));
            } else {
                // With the end of the line, as the file has it.
                let text = self.between(line.at, end);
                body.append(Template::parse(text, line.at, self.scope)?);
            }
        }
        Ok(Some(body))
    }

    /// The content of a file in a body. Its templates count only after `<@`.
    fn file(
        &mut self,
        line: TextLine<'t>,
        name: &'t str,
        expands: bool,
    ) -> Result<Template, Fault> {
        let name = name.trim();
        let content = self.scope.file(name);
        let content = content.map_err(|error| line.fault(name, error))?;
        if !expands {
            return Ok(Template::literal(&*content));
        }
        let text = str::from_utf8(&content);
        let text = text.map_err(|_| line.fault(name, format!("{name} is not UTF-8")))?;
        let at = line.position(name);
        Template::parse(text, 0, self.scope)
            .map(|template| template.moved(|_| at))
            .map_err(|it| Fault::new(at, format!("{name}: {}", it.message)))
    }

    fn between(&self, begin: usize, end: usize) -> &'t str {
        &self.source.text[begin - self.source.at..end - self.source.at]
    }
}

/// JetBrains' client runs JavaScript before and after requests, and writes responses to files.
const NO_SCRIPTS: &str =
    "handlers of responses and scripts are not supported; remove them, or use a Lua script (-s)";

fn parse_weight(line: TextLine<'_>, text: &str) -> Result<u32, Fault> {
    let weight = text.parse::<u32>().ok();
    weight
        .filter(|weight| (1..=MAX_WEIGHT).contains(weight))
        .ok_or_else(|| {
            let problem = format!(
                "weight {}: expected a number from 1 to {MAX_WEIGHT}",
                quoted(text)
            );
            line.fault(text, problem)
        })
}
