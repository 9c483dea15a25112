//! Readers of the formats, by the letter of what is written about them: strict, and only for these
//! tests.

use std::collections::BTreeMap;

/// Records of RFC 4180; quotes only where the whole field is in them.
pub(crate) fn csv(text: &str) -> Vec<Vec<String>> {
    let mut records = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut fields = Vec::new();
        loop {
            let field;
            (field, rest) = csv_field(rest);
            fields.push(field);
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => break,
            }
        }
        rest = rest.strip_prefix("\r\n").expect("a record ends with CRLF");
        records.push(fields);
    }
    records
}

fn csv_field(text: &str) -> (String, &str) {
    let Some(mut rest) = text.strip_prefix('"') else {
        let end = text.find([',', '\r', '\n', '"']).expect("a field ends");
        assert_ne!(text.as_bytes()[end], b'"', "a quote within a bare field");
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut field = String::new();
    loop {
        let end = rest.find('"').expect("a quoted field ends");
        field += &rest[..end];
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(next) => {
                field.push('"');
                rest = next;
            }
            None => return (field, rest),
        }
    }
}

/// An annotation: command, title, message.
pub(crate) fn github(line: &str) -> (String, String, String) {
    let rest = line.strip_prefix("::").expect("a command");
    let (head, message) = rest.split_once("::").expect("a message");
    let (command, properties) = head.split_once(' ').expect("properties");
    assert!(["error", "warning", "notice"].contains(&command), "{line}");
    let title = properties.strip_prefix("title=").expect("a title");
    assert!(!title.contains([':', ',']), "{line}");
    assert!(!line.contains('\r'), "{line}");
    let message = unescaped(message);
    (command.to_owned(), unescaped(title), message)
}

fn unescaped(text: &str) -> String {
    let mut parts = text.split('%');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_at(2);
        plain.push(match code {
            "25" => '%',
            "0D" => '\r',
            "0A" => '\n',
            "3A" => ':',
            "2C" => ',',
            other => panic!("%{other} in {text}"),
        });
        plain += rest;
    }
    plain
}

/// Attributes of the elements of an XML document, by element. Knows only what a JUnit document
/// needs, and refuses everything else.
pub(crate) fn junit(text: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let legal = |c: char| {
        matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}')
            || c >= '\u{10000}'
    };
    assert!(text.chars().all(legal), "a character that XML has not");
    let mut rest = text
        .strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>")
        .expect("a declaration");
    let mut open: Vec<String> = Vec::new();
    let mut elements = Vec::new();
    while let Some(at) = rest.find('<') {
        assert!(rest[..at].trim().is_empty(), "text: {}", &rest[..at]);
        let end = rest.find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let (tag, is_whole) = match tag.strip_suffix('/') {
            Some(tag) => (tag, true),
            None => (tag, false),
        };
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(name.bytes().all(|b| b.is_ascii_alphabetic()), "{name}");
        elements.push((name.to_owned(), xml_attributes(attributes)));
        if !is_whole {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
    elements
}

fn xml_attributes(text: &str) -> BTreeMap<String, String> {
    let mut attributes = BTreeMap::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, behind) = rest.split_once("=\"").expect("an attribute");
        let (value, behind) = behind.split_once('"').expect("its value");
        assert!(!value.contains('<'), "{value}");
        let old = attributes.insert(name.to_owned(), xml_text(value));
        assert_eq!(old, None, "{name} twice");
        rest = behind.trim_start();
    }
    attributes
}

fn xml_text(escaped: &str) -> String {
    let mut parts = escaped.split('&');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (entity, behind) = part.split_once(';').expect("an entity ends");
        let code = entity.strip_prefix('#').expect("a character's number");
        let code: u32 = code.parse().expect("a number");
        plain.push(char::from_u32(code).expect("a character"));
        plain += behind;
    }
    plain
}
