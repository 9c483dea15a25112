//! Multipart bodies of forms (RFC 7578), with the bytes that curl would send.

/// A part of a multipart body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FormPart {
    pub(crate) name: String,
    pub(crate) file_name: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) headers: Vec<String>,
    pub(crate) content: Vec<u8>,
}

/// The body, and the boundary between its parts.
pub(crate) fn body(parts: &[FormPart], escapes_with_backslash: bool) -> (Vec<u8>, String) {
    let boundary = boundary(parts);
    let mut body = Vec::new();
    for part in parts {
        let quoted = |text: &str| {
            if escapes_with_backslash {
                text.replace('\\', "\\\\").replace('"', "\\\"")
            } else {
                text.replace('"', "%22")
                    .replace('\r', "%0D")
                    .replace('\n', "%0A")
            }
        };
        let mut head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"",
            quoted(&part.name)
        );
        if let Some(name) = &part.file_name {
            head += &format!("; filename=\"{}\"", quoted(name));
        }
        head += "\r\n";
        if let Some(its) = &part.content_type {
            head += &format!("Content-Type: {its}\r\n");
        }
        for header in &part.headers {
            head += &format!("{header}\r\n");
        }
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(b"\r\n");
        body.extend_from_slice(&part.content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    (body, boundary)
}

/// A boundary that no part contains. The same parts always get the same one.
fn boundary(parts: &[FormPart]) -> String {
    let contains = |text: &[u8], part: &[u8]| text.windows(part.len()).any(|it| it == part);
    let mut number = 0_u64;
    loop {
        let boundary = format!("------------------------{number:016x}");
        let is_free = parts
            .iter()
            .all(|part| !contains(&part.content, boundary.as_bytes()));
        if is_free {
            return boundary;
        }
        number += 1;
    }
}
