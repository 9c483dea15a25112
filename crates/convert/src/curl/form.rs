//! Parts of a form from `--form`.

use super::data::read_file;
use super::{CurlError, ReadFile};
use crate::form::FormPart;
use crate::shell_words::Word;

/// The value of `--form-string`: `name=content`, nothing of it special.
pub(super) fn literal_part(word: &Word) -> Result<FormPart, CurlError> {
    let (name, content) = split(word)?;
    Ok(FormPart {
        name: name.to_owned(),
        file_name: None,
        content_type: None,
        headers: Vec::new(),
        content: content.as_bytes().to_vec(),
    })
}

/// The value of `--form`: `name=content`, `name=@file` or `name=<file`, each with `;type=`,
/// `;filename=`, `;headers=` after it.
pub(super) fn part(word: &Word, read: ReadFile<'_>) -> Result<FormPart, CurlError> {
    let error = |message: String| CurlError::new(word.position, message);
    let (name, content) = split(word)?;
    let first = content.chars().next();
    if name.is_empty() && content.starts_with('(') || content.starts_with("(;") {
        return Err(error("a form within a form is not supported".to_owned()));
    }
    let is_file = matches!(first, Some('@' | '<'));
    let (value, mut rest) = value_of(if is_file { &content[1..] } else { content });
    if first == Some('@') && rest.starts_with(',')
        || is_file && value.contains(',') && first == Some('@')
    {
        return Err(error(format!(
            "several files in the field {name:?} are not supported (repeat -F for each)"
        )));
    }
    let mut part = FormPart {
        name: name.to_owned(),
        file_name: None,
        content_type: None,
        headers: Vec::new(),
        content: Vec::new(),
    };
    if is_file {
        part.content = read_file(&value, word.position, read)?;
        let base = value.rsplit('/').next().unwrap_or(&value);
        part.content_type = type_of(base).map(str::to_owned);
        if first == Some('@') {
            part.file_name = Some(base.to_owned());
            part.content_type
                .get_or_insert_with(|| "application/octet-stream".to_owned());
        }
    } else {
        part.content = value.into_bytes();
    }
    while let Some(after) = rest.strip_prefix(';') {
        let after = after.trim_start();
        let (key, text) = after.split_once('=').unwrap_or((after, ""));
        let (value, next) = match key {
            // A type may have parameters: text/plain;charset=utf-8.
            "type" => type_with_parameters(text),
            _ => value_of(text),
        };
        match key {
            "type" => part.content_type = Some(value),
            "filename" => part.file_name = Some(value),
            "headers" if !value.starts_with(['@', '<']) => part.headers.push(value),
            _ => {
                return Err(error(format!(
                    ";{key} in the field {:?} is not supported (expected ;type=, ;filename= or \
                     ;headers=)",
                    part.name
                )));
            }
        }
        rest = next;
    }
    // curl leaves it out: it is the default of a field (RFC 7578 section 4.4).
    if part.file_name.is_none() && part.content_type.as_deref() == Some("text/plain") {
        part.content_type = None;
    }
    Ok(part)
}

fn split(word: &Word) -> Result<(&str, &str), CurlError> {
    word.text.split_once('=').ok_or_else(|| {
        let message = format!(
            "{:?} is not a form field (expected name=content)",
            word.text
        );
        CurlError::new(word.position, message)
    })
}

/// A value up to the next `;`, and the rest. In double quotes, `;` is part of it.
fn value_of(text: &str) -> (String, &str) {
    let plain = || {
        let end = text.find(';').unwrap_or(text.len());
        (text[..end].trim_end().to_owned(), &text[end..])
    };
    let Some(inner) = text.trim_start().strip_prefix('"') else {
        return plain();
    };
    let mut value = String::new();
    let mut characters = inner.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some((_, it @ ('\\' | '"'))) => value.push(it),
                Some((_, other)) => value.extend(['\\', other]),
                None => return plain(),
            },
            '"' => {
                let after = &inner[at + 1..];
                let end = after.find(';').unwrap_or(after.len());
                return (value, &after[end..]);
            }
            other => value.push(other),
        }
    }
    plain()
}

/// A media type up to the next parameter that is one of curl's.
fn type_with_parameters(text: &str) -> (String, &str) {
    let mut end = 0;
    loop {
        let next = text[end..].find(';').map_or(text.len(), |at| end + at);
        end = next;
        let after = text[end..].trim_start_matches(';').trim_start();
        let is_own = ["filename=", "headers=", "encoder=", "type="]
            .iter()
            .any(|own| after.starts_with(own));
        if end == text.len() || is_own {
            return (text[..end].trim().to_owned(), &text[end..]);
        }
        end += 1;
    }
}

/// The type of a file by its extension; the table of curl.
fn type_of(name: &str) -> Option<&'static str> {
    const TYPES: [(&str, &str); 10] = [
        (".gif", "image/gif"),
        (".jpg", "image/jpeg"),
        (".jpeg", "image/jpeg"),
        (".png", "image/png"),
        (".svg", "image/svg+xml"),
        (".txt", "text/plain"),
        (".htm", "text/html"),
        (".html", "text/html"),
        (".pdf", "application/pdf"),
        (".xml", "application/xml"),
    ];
    let name = name.to_ascii_lowercase();
    let known = TYPES
        .iter()
        .find(|(extension, _)| name.ends_with(extension));
    known.map(|(_, known)| *known)
}
