//! Reads JSON lines: an object per line, with the keys of vegeta's JSON targets and some more; or
//! an array of such objects.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use grpc::Schema;
use serde::Deserialize;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::capture::Capture;
use crate::conversations::{self, Conversation};
use crate::entry::{Due, Header, MAX_WEIGHT, RequestEntry};
use crate::error::{Fault, quoted};
use crate::scope::Scope;
use crate::template::Template;

/// The latest moment, milliseconds: as Unix time the year 2255. In nanoseconds it fits in 64 bits.
const MAX_AT_MS: f64 = 9e12;

/// The keys of a line. Raw values know where they are in the line.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct LineKeys<'t> {
    #[serde(borrow)]
    method: Option<&'t RawValue>,
    #[serde(borrow)]
    url: Option<&'t RawValue>,
    #[serde(borrow)]
    path: Option<&'t RawValue>,
    #[serde(borrow, alias = "headers")]
    header: Option<&'t RawValue>,
    #[serde(borrow)]
    body: Option<&'t RawValue>,
    #[serde(borrow)]
    body_text: Option<&'t RawValue>,
    #[serde(borrow)]
    body_file: Option<&'t RawValue>,
    #[serde(borrow)]
    call: Option<&'t RawValue>,
    #[serde(borrow)]
    message: Option<&'t RawValue>,
    /// The types of messages: a `google.protobuf.FileDescriptorSet` in base64.
    #[serde(borrow)]
    types: Option<&'t RawValue>,
    #[serde(borrow)]
    name: Option<&'t RawValue>,
    #[serde(borrow)]
    weight: Option<&'t RawValue>,
    #[serde(borrow)]
    at: Option<&'t RawValue>,
    #[serde(borrow)]
    capture: Option<&'t RawValue>,
    #[serde(borrow)]
    conversation: Option<&'t RawValue>,
    /// The name of a table whose content is `text`.
    #[serde(borrow)]
    csv: Option<&'t RawValue>,
    #[serde(borrow)]
    text: Option<&'t RawValue>,
}

/// Gives each request of a text to `sink`. The text begins at `at` in the file.
pub(crate) fn read<'a>(
    text: &str,
    at: usize,
    scope: &mut Scope<'a>,
    sink: &mut dyn FnMut(RequestEntry, &mut Scope<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut begin = 0;
    for with_end in text.split_inclusive('\n') {
        let line = ObjectText {
            line: with_end.trim_end(),
            at: at + begin,
        };
        begin += with_end.len();
        if line.line.trim_start().is_empty() {
            continue;
        }
        if let Some(entry) = line.entry(scope)? {
            sink(entry, scope)?;
        }
    }
    Ok(())
}

/// Gives each request of an array to `sink`. The text begins at `at` in the file.
pub(crate) fn read_array<'a>(
    text: &str,
    at: usize,
    scope: &mut Scope<'a>,
    sink: &mut dyn FnMut(RequestEntry, &mut Scope<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let whole = ObjectText { line: text, at };
    let elements: Vec<&RawValue> = whole.parse(text)?;
    for element in elements {
        let one = ObjectText {
            line: element.get(),
            at: whole.position(element),
        };
        if let Some(entry) = one.entry(scope)? {
            sink(entry, scope)?;
        }
    }
    Ok(())
}

/// The text of an object, and where it begins in the file.
#[derive(Clone, Copy)]
struct ObjectText<'t> {
    line: &'t str,
    at: usize,
}

/// A string of a line.
struct Text<'t> {
    text: Cow<'t, str>,
    /// The JSON string with its quotes.
    raw: &'t str,
    /// Where it begins in the file.
    at: usize,
}

impl<'t> ObjectText<'t> {
    fn entry(self, scope: &mut Scope<'_>) -> Result<Option<RequestEntry>, Fault> {
        // An array would be read as the values of the keys in their order.
        if !self.line.trim_start().starts_with('{') {
            let problem = "expected an object like {\"url\": \"http://host/path\"}";
            return Err(Fault::new(self.at, problem));
        }
        let line: LineKeys<'t> = self.parse(self.line)?;
        if let Some(name) = line.csv {
            self.add_table(name, line.text, scope)?;
            return Ok(None);
        }
        if let Some(types) = line.types {
            let text = self.text(types)?.text;
            let set = BASE64_STANDARD.decode(text.as_bytes()).map_err(|_| {
                self.fault(types, "types is not base64 (expected a set of descriptors)")
            })?;
            let types = Schema::of_set(&set, "types")
                .map_err(|error| self.fault(types, error.to_string()))?;
            scope.types = Some(types);
            return Ok(None);
        }
        if let Some(text) = line.text {
            return Err(self.fault(text, "text belongs to csv; the text of a body is body_text"));
        }
        let mut given = [line.url, line.path, line.call].into_iter().flatten();
        let (address, at) = match (given.next(), given.next()) {
            (Some(address), None) => (address, self.position(address)),
            (_, Some(second)) => {
                return Err(self.fault(second, "a request has only one of url, path and call"));
            }
            (None, None) => return Err(Fault::new(self.at, "the request has no url and no path")),
        };
        let body = self.body(&line, scope)?;
        let mut headers = Vec::new();
        if let Some(header) = line.header {
            self.read_headers(header, scope, &mut headers)?;
        }
        let address = match line.call {
            Some(call) => self.call(call)?,
            None => self.text(address)?.template(scope)?,
        };
        // Its templates are those of requests before it.
        let captures = match line.capture {
            Some(captures) => self.captures(captures, scope)?,
            None => Vec::new(),
        };
        Ok(Some(RequestEntry {
            at: self.at,
            method: match line.method {
                Some(method) => self.method(method)?,
                None if body.is_some() => "POST".to_owned(),
                None => "GET".to_owned(),
            },
            address,
            address_at: at,
            headers,
            body,
            name: match line.name {
                Some(name) => Some(self.text(name)?.text.into_owned()),
                None => None,
            },
            weight: line.weight.map(|weight| self.weight(weight)).transpose()?,
            due: line.at.map(|moment| self.due(moment)).transpose()?,
            captures,
            conversation: line
                .conversation
                .map(|it| self.conversation(it))
                .transpose()?,
            is_call: line.call.is_some() || line.message.is_some(),
        }))
    }

    fn conversation(self, raw: &'t RawValue) -> Result<Conversation, Fault> {
        conversations::read(raw.get()).map_err(|error| self.fault(raw, error))
    }

    /// The path of a call.
    fn call(self, raw: &'t RawValue) -> Result<Template, Fault> {
        let name = self.text(raw)?.text;
        let path = plan::path_of_call(&name);
        let path = path.map_err(|problem| self.fault(raw, format!("call {problem}")))?;
        Ok(Template::literal(path))
    }

    fn method(self, raw: &'t RawValue) -> Result<String, Fault> {
        let method = self.text(raw)?.text.into_owned();
        if plan::is_token(&method) {
            Ok(method)
        } else {
            Err(self.fault(
                raw,
                format!("{} is not a method (expected like GET)", quoted(&method)),
            ))
        }
    }

    fn weight(self, raw: &'t RawValue) -> Result<u32, Fault> {
        let weight = raw.get().parse::<u32>().ok();
        weight
            .filter(|weight| (1..=MAX_WEIGHT).contains(weight))
            .ok_or_else(|| {
                let given = quoted(raw.get());
                let problem = format!("weight {given}: expected a number from 1 to {MAX_WEIGHT}");
                self.fault(raw, problem)
            })
    }

    fn due(self, raw: &'t RawValue) -> Result<Due, Fault> {
        let ms = raw.get().parse::<f64>().ok();
        let ms = ms.filter(|ms| (0.0..=MAX_AT_MS).contains(ms));
        let due = ms.map(|ms| Due {
            // A product would round Unix times to 256 ns.
            ns: ms.trunc() as i64 * 1_000_000 + (ms.fract() * 1e6).round() as i64,
            at: self.position(raw),
        });
        due.ok_or_else(|| {
            let given = quoted(raw.get());
            let problem = format!("at {given}: expected milliseconds from 0 to {MAX_AT_MS}");
            self.fault(raw, problem)
        })
    }

    fn body(self, line: &LineKeys<'t>, scope: &mut Scope<'_>) -> Result<Option<Template>, Fault> {
        let given = [line.body, line.body_text, line.body_file, line.message];
        if let Some(second) = given.into_iter().flatten().nth(1) {
            let problem = "a request has only one of body, body_text, body_file and message";
            return Err(self.fault(second, problem));
        }
        if let Some(raw) = line.body {
            let text = self.text(raw)?;
            let bytes = BASE64_STANDARD.decode(text.text.as_bytes()).map_err(|_| {
                self.fault(
                    raw,
                    "body is not base64 (the key for plain text is body_text)",
                )
            })?;
            return Ok(Some(Template::literal(bytes)));
        }
        if let Some(raw) = line.message {
            if !raw.get().starts_with('{') {
                let problem = "message is not an object (expected like {\"id\": \"a\"})";
                return Err(self.fault(raw, problem));
            }
            return Template::parse(raw.get(), self.position(raw), scope).map(Some);
        }
        if let Some(raw) = line.body_text {
            return self.text(raw)?.template(scope).map(Some);
        }
        let Some(raw) = line.body_file else {
            return Ok(None);
        };
        let name = self.text(raw)?.text;
        let content = scope
            .file(&name)
            .map_err(|problem| self.fault(raw, problem))?;
        Ok(Some(Template::literal(&*content)))
    }

    fn read_headers(
        self,
        raw: &'t RawValue,
        scope: &mut Scope<'_>,
        headers: &mut Vec<Header>,
    ) -> Result<(), Fault> {
        let Pairs(pairs) = self.parse_at(raw.get(), self.position(raw))?;
        for (name, value) in pairs {
            let values = if value.get().starts_with('[') {
                self.parse_at(value.get(), self.position(value))?
            } else {
                vec![value]
            };
            for value in values {
                let at = self.position(value);
                headers.push(Header {
                    name: name.clone().into_owned(),
                    value: self.text(value)?.template(scope)?,
                    at,
                });
            }
        }
        Ok(())
    }

    /// Names, and where the response has their values.
    fn captures(self, raw: &'t RawValue, scope: &mut Scope<'_>) -> Result<Vec<Capture>, Fault> {
        if !raw.get().starts_with('{') {
            let problem = "expected an object like {\"token\": \"$.data.token\"}";
            return Err(self.fault(raw, problem));
        }
        let Pairs(pairs) = self.parse_at(raw.get(), self.position(raw))?;
        let capture = |(name, place): &(Cow<'t, str>, &'t RawValue)| {
            let text = self.text(place)?.text;
            let variable = scope.captured.add(name);
            let capture = variable.and_then(|variable| Capture::parse(variable, &text));
            capture.map_err(|problem| self.fault(place, problem))
        };
        pairs.iter().map(capture).collect()
    }

    fn add_table(
        self,
        name: &'t RawValue,
        text: Option<&'t RawValue>,
        scope: &mut Scope<'_>,
    ) -> Result<(), Fault> {
        let text = text.ok_or_else(|| self.fault(name, "csv needs text: the table's content"))?;
        let (name_text, content) = (self.text(name)?.text, self.text(text)?.text);
        let added = scope.add_table(&name_text, content.as_bytes());
        added.map(drop).map_err(|problem| self.fault(name, problem))
    }

    fn text(self, raw: &'t RawValue) -> Result<Text<'t>, Fault> {
        let at = self.position(raw);
        let Piece(text) = self.parse_at(raw.get(), at)?;
        Ok(Text {
            text,
            raw: raw.get(),
            at,
        })
    }

    fn parse<T: Deserialize<'t>>(self, json: &'t str) -> Result<T, Fault> {
        self.parse_at(json, self.at)
    }

    /// Reads JSON that begins at `at` in the file.
    fn parse_at<T: Deserialize<'t>>(self, json: &'t str, at: usize) -> Result<T, Fault> {
        serde_json::from_str(json).map_err(|error| {
            let full = error.to_string();
            let message = full.split(" at line ").next().unwrap_or(&full);
            let begin = line_start(json, error.line());
            // Columns are counted in bytes.
            let at = at + begin + error.column().saturating_sub(1);
            // An array ends with its last line.
            if error.is_eof() && json.starts_with('{') {
                Fault::new(at, format!("{message} ({ONE_LINE})"))
            } else {
                Fault::new(at, message)
            }
        })
    }

    fn position(self, raw: &RawValue) -> usize {
        // A borrowed value is a part of the line.
        self.at + (raw.get().as_ptr() as usize).saturating_sub(self.line.as_ptr() as usize)
    }

    fn fault(self, raw: &RawValue, message: impl fmt::Display) -> Fault {
        Fault::new(self.position(raw), message)
    }
}

/// What is said of an object that does not end.
const ONE_LINE: &str = "an object is one line, unless all are elements of an array";

/// Where a line begins in a text. The first one is 1.
fn line_start(text: &str, number: usize) -> usize {
    let mut ends = memchr::memchr_iter(b'\n', text.as_bytes());
    match number.checked_sub(2) {
        None => 0,
        Some(before) => ends.nth(before).map_or(text.len(), |end| end + 1),
    }
}

impl Text<'_> {
    fn template(self, scope: &mut Scope<'_>) -> Result<Template, Fault> {
        Template::parse(&self.text, 0, scope)
            .map(|template| template.moved(|offset| self.at + raw_offset(self.raw, offset)))
            .map_err(|fault| Fault::new(self.at + raw_offset(self.raw, fault.at), fault.message))
    }
}

/// Where a byte of an unescaped string is in the JSON string.
fn raw_offset(raw: &str, offset: usize) -> usize {
    let bytes = raw.as_bytes();
    let (mut at, mut unescaped) = (1, 0);
    while unescaped < offset && at < bytes.len() {
        let code = match bytes[at..] {
            [b'\\', b'u', ..] => raw
                .get(at + 2..at + 6)
                .and_then(|digits| u32::from_str_radix(digits, 16).ok()),
            [b'\\', ..] => {
                at += 2;
                unescaped += 1;
                continue;
            }
            _ => {
                at += 1;
                unescaped += 1;
                continue;
            }
        };
        at += 6;
        // Two surrogates make a character of four bytes.
        unescaped += match code.unwrap_or(0) {
            0xd800..=0xdfff => 2,
            code => char::from_u32(code).map_or(1, char::len_utf8),
        };
    }
    at
}

/// A string, borrowed if it has no escapes.
#[derive(Deserialize)]
struct Piece<'t>(#[serde(borrow)] Cow<'t, str>);

/// The names and values of an object in their order, or an array of such pairs.
struct Pairs<'t>(Vec<(Cow<'t, str>, &'t RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Headers;
        impl<'de> Visitor<'de> for Headers {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of headers: a name, and a value or an array of values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some((Piece(name), value)) = map.next_entry()? {
                    pairs.push((name, value));
                }
                Ok(Pairs(pairs))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some((Piece(name), value)) = list.next_element()? {
                    pairs.push((name, value));
                }
                Ok(Pairs(pairs))
            }
        }
        input.deserialize_any(Headers)
    }
}
